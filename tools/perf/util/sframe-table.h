/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame tables for ELF files without an SFrame section. perf makes them from the
 * call frame information of the file (.eh_frame, .debug_frame).
 */
#ifndef __PERF_SFRAME_TABLE_H
#define __PERF_SFRAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>

#include "util/build-id.h"
#include "util/sframe-insn.h"

/* Why a table does not cover code that the file describes */
enum sframe_lost {
	/* The format cannot express the CFA. */
	SFRAME_LOST_CFA,
	/* The format cannot express the return address. */
	SFRAME_LOST_RA,
	/* The format cannot express the frame pointer. */
	SFRAME_LOST_FP,
	/* The stack pointer is not the CFA, but the format requires this. */
	SFRAME_LOST_SP,
	/* The description is damaged, or it exceeds a limit. */
	SFRAME_LOST_DAMAGED,
	SFRAME_LOST_NR,
};

extern const char * const sframe_lost_names[SFRAME_LOST_NR];

/**
 * struct sframe_stats - What a table covers, in bytes of code
 * @code:	All code of the file
 * @described:	Code that the call frame information of the file describes
 * @covered:	Code that the table has a rule for
 * @flex:	Part of @covered that needs a flexible rule
 * @blocks:	Part of @covered that is a sequence of equal blocks, like a PLT
 * @derived:	Code that is not described and has rules derived from its instructions
 * @lost:	Code that is described but not covered, by reason
 * @functions:	Number of FDEs in the table
 * @rows:	Number of FREs in the table
 * @insn:	What is known of the instructions of the file
 *
 * A table from the cache has only @code, @described, @covered, @derived, @functions and
 * @rows.
 */
struct sframe_stats {
	u64	code;
	u64	described;
	u64	covered;
	u64	flex;
	u64	blocks;
	u64	derived;
	u64	lost[SFRAME_LOST_NR];
	u32	functions;
	u32	rows;
	struct sframe_insn_stats insn;
};

/**
 * struct sframe_table - A table for a file
 * @data:	Its bytes, in the form that the kernel expects
 * @size:	Number of bytes
 * @bid:	Build-id of the file; its size is 0 if there is none
 * @no_bid:	There is none, so no cache keeps the table. Set as soon as that is known
 * @cached:	The table was found in the cache
 * @stored:	The table was put into the cache
 * @renewed:	It was in the cache, and gets to know another file with the same code
 * @partial:	Code without CFI has no rules yet
 * @stats:	What the table covers
 */
struct sframe_table {
	void			*data;
	size_t			size;
	struct build_id		bid;
	bool			no_bid;
	bool			cached;
	bool			stored;
	bool			renewed;
	bool			partial;
	struct sframe_stats	stats;
};

/**
 * struct sframe_check - Result of a comparison of a table with libdw
 * @code:	Bytes of code of the file
 * @code_described: Part of @code that call frame information describes
 * @described:	Bytes that call frame information describes, in all segments with
 *		code
 * @same:	Part of @described where the table leads to the same frame
 * @signal:	Part of @described where the table leaves the frame to the kernel,
 *		because the kernel knows its signal frames
 * @missing:	Part of @described where the table has no rule
 * @different:	Part of @described where the table leads to another frame
 * @unread:	Part of @described that was not passed to libdw, because the CFI
 *		is damaged, exceeds a limit or overlaps; all of it is in @missing or
 *		@extra
 * @unreadable:	Number of FDEs whose addresses cannot be read
 * @extra:	Bytes of code that only the table has a rule for, which is not derived
 * @derived:	Bytes of code without CFI that have rules derived from instructions
 * @compare_insns: Compare the rules from CFI with the instructions, too
 * @insns_same:	Number of instructions that lead to the same frame as the rule
 * @insns_other: Number of instructions that lead to another frame, so the CFI is wrong
 * @insns_open:	Number of instructions that do not tell
 * @log:	File for differences, or NULL
 * @max:	The most differences to print
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
	u64	derived;
	bool	compare_insns;
	u64	insns_same;
	u64	insns_other;
	u64	insns_open;
	FILE	*log;
	u32	max;
};

/**
 * enum sframe_cache_use - How to use the cache
 * @SFRAME_CACHE_USE:	Take tables from the cache, and put new tables into it
 * @SFRAME_CACHE_KEEP:	Take tables from the cache, but do not change it
 * @SFRAME_CACHE_ONLY:	Take tables from the cache, and make no tables
 */
enum sframe_cache_use {
	SFRAME_CACHE_USE,
	SFRAME_CACHE_KEEP,
	SFRAME_CACHE_ONLY,
};

/* Returns true if the caller must give up */
typedef bool (*sframe_stop_fn)(const void *arg);

int sframe_table__get(struct sframe_table *table, int fd, enum sframe_cache_use cache,
		      bool may_be_partial, sframe_stop_fn stop, const void *arg);
int sframe_table__build(struct sframe_table *table, int fd);
int sframe_table__check(const struct sframe_table *table, int fd,
			struct sframe_check *check);
void sframe_table__exit(struct sframe_table *table);
const char *sframe_table__strerror(int err, char *buf, size_t size);

#endif /* __PERF_SFRAME_TABLE_H */
