/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame tables for ELF files that have no SFrame section, made from their call
 * frame information (.eh_frame, .debug_frame)
 */
#ifndef __PERF_SFRAME_TABLE_H
#define __PERF_SFRAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>

#include "util/build-id.h"

/* Why the table does not cover some code that the file describes. */
enum sframe_lost {
	/* The CFA comes from an expression that the format cannot say. */
	SFRAME_LOST_CFA,
	/* The same with the return address, */
	SFRAME_LOST_RA,
	/* the frame pointer, */
	SFRAME_LOST_FP,
	/* and the stack pointer, which is always the CFA. */
	SFRAME_LOST_SP,
	/* The description is damaged, or outrageous. */
	SFRAME_LOST_DAMAGED,
	SFRAME_LOST_NR,
};

extern const char * const sframe_lost_names[SFRAME_LOST_NR];

/**
 * struct sframe_stats - What a table covers, in bytes of code
 * @code:	All code of the file
 * @described:	What its call frame information describes
 * @covered:	What the table has a rule for
 * @flex:	Of these, what takes a flexible rule
 * @blocks:	Of these, what is in rows of blocks, as in a PLT
 * @lost:	Described but not covered, by reason
 * @functions:	FDEs in the table, a number
 * @rows:	FREs in the table, a number
 *
 * Of cached tables just @code, @described, @covered, @functions and @rows are
 * known.
 */
struct sframe_stats {
	u64	code;
	u64	described;
	u64	covered;
	u64	flex;
	u64	blocks;
	u64	lost[SFRAME_LOST_NR];
	u32	functions;
	u32	rows;
};

/**
 * struct sframe_table - A table for a file
 * @data:	Its bytes, to be given to the kernel
 * @size:	How many
 * @bid:	Build-id of the file; its size is 0 if it has none
 * @cached:	It was not made now but found in the cache
 * @stored:	It was put into the cache now
 * @stats:	What it covers
 */
struct sframe_table {
	void			*data;
	size_t			size;
	struct build_id		bid;
	bool			cached;
	bool			stored;
	struct sframe_stats	stats;
};

/**
 * struct sframe_check - How a table compares with libdw
 * @code:	Bytes of code of the file
 * @code_described: Of these, what its call frame information describes
 * @described:	Bytes that call frame information describes, in all segments with code
 * @same:	Of these, where the table leads to the same frame
 * @signal:	Of these, where the table leaves the frame to the kernel, which
 *		knows how it makes those of signals
 * @missing:	Of these, where the table has no rule
 * @different:	Of these, where it leads elsewhere
 * @unread:	Of these, what libdw was not asked about, as the description is damaged,
 *		outrageous or overlaps another one; all of it is in @missing or @extra
 * @unreadable:	FDEs of which it is not known what they describe, a number
 * @extra:	Bytes of code that only the table has a rule for
 * @log:	Where to print differences to, or NULL
 * @max:	How many at most
 */
struct sframe_check {
	u64	code;
	u64	code_described;
	u64	described;
	u64	same;
	u64	signal;
	u64	missing;
	u64	different;
	u64	unread;
	u64	unreadable;
	u64	extra;
	FILE	*log;
	u32	max;
};

/**
 * enum sframe_cache_use - What to do with the cache
 * @SFRAME_CACHE_USE:	Take tables from it, and put new ones into it
 * @SFRAME_CACHE_KEEP:	Take tables from it, and leave it as it is
 * @SFRAME_CACHE_ONLY:	The same, and make no tables
 */
enum sframe_cache_use {
	SFRAME_CACHE_USE,
	SFRAME_CACHE_KEEP,
	SFRAME_CACHE_ONLY,
};

/* Tells whether to give up */
typedef bool (*sframe_stop_fn)(const void *arg);

int sframe_table__get(struct sframe_table *table, int fd, enum sframe_cache_use cache,
		      sframe_stop_fn stop, const void *arg);
int sframe_table__build(struct sframe_table *table, int fd);
int sframe_table__check(const struct sframe_table *table, int fd,
			struct sframe_check *check);
void sframe_table__exit(struct sframe_table *table);
const char *sframe_table__strerror(int err, char *buf, size_t size);

#endif /* __PERF_SFRAME_TABLE_H */
