/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_CALLCHAIN_DEFERRED_H
#define __PERF_CALLCHAIN_DEFERRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>

struct callchain_deferred;
struct decomp;
struct evlist;
struct perf_sample;
union perf_event;

/*
 * Decompresses a PERF_RECORD_COMPRESSED. Returns the block with its events, or NULL
 * on failure. The block starts with the incomplete event from the end of the block
 * before. Both blocks must stay valid as long as samples are processed.
 */
typedef struct decomp *(*callchain_deferred__inflate_t)(void *arg, union perf_event *event,
							u64 file_offset);

/**
 * struct callchain_deferred_stats - counts of samples with a cookie, by outcome
 * @requested: samples whose user callchain was deferred, which is the sum of
 *	@merged, @pending, @unmatched and @unmerged
 * @merged: perf found the record
 * @pending: there is no record, and no later sign that the task left the kernel
 * @unmatched: there is no record although the task left the kernel
 * @unmerged: the record came after perf had delivered the sample
 * @lost: events of any kind that did not fit into the ring buffers. It is an upper
 *	bound for the number of lost records.
 * @cut: merged samples whose record ends at the depth limit
 * @broken: merged samples whose record ends at a frame whose caller the kernel could
 *	not find, although it is not the outermost frame
 * @no_memory: merged samples whose stack the kernel had no memory for
 */
struct callchain_deferred_stats {
	u64 requested;
	u64 merged;
	u64 pending;
	u64 unmatched;
	u64 unmerged;
	u64 lost;
	u64 cut;
	u64 broken;
	u64 no_memory;
};

/**
 * struct callchain_deferred_bounds - how long samples wait for their record
 * @age: in ns. With @live it counts from the arrival of the sample. Otherwise it is
 *	the difference between the timestamps of the sample and of the newest event.
 * @bytes: size of all events that are held back. Delivered records that are kept may
 *	use another eighth of this size.
 * @idle: in ns since the arrival of the sample, while there is no more input; 0 if
 *	there is no such limit
 * @live: the tool processes events as they happen
 */
struct callchain_deferred_bounds {
	u64	age;
	u64	bytes;
	u64	idle;
	bool	live;
};

/* Like perf_session__deliver_event(), with the parsed and completed sample */
typedef int (*callchain_deferred__deliver_t)(void *arg, union perf_event *event,
					     struct perf_sample *sample,
					     u64 file_offset, const char *file_path);

struct callchain_deferred *callchain_deferred__new(struct evlist *evlist,
						   bool needs_swap);
void callchain_deferred__delete(struct callchain_deferred *cd);

int callchain_deferred__index_file(struct callchain_deferred *cd, int fd,
				   u64 offset, u64 size,
				   callchain_deferred__inflate_t inflate, void *arg);
int callchain_deferred__index_done(struct callchain_deferred *cd);

int callchain_deferred__process(struct callchain_deferred *cd,
				union perf_event *event,
				struct perf_sample *sample, u64 file_offset);

void callchain_deferred__hold_back(struct callchain_deferred *cd,
				   const struct callchain_deferred_bounds *bounds,
				   callchain_deferred__deliver_t deliver, void *arg);
int callchain_deferred__deliver(struct callchain_deferred *cd,
				union perf_event *event,
				struct perf_sample *sample, u64 file_offset,
				const char *file_path);
int callchain_deferred__timeout(struct callchain_deferred *cd);
bool callchain_deferred__holds_back(struct callchain_deferred *cd);
u64 callchain_deferred__waited(struct callchain_deferred *cd);
int callchain_deferred__expire(struct callchain_deferred *cd);
int callchain_deferred__flush(struct callchain_deferred *cd);

void callchain_deferred__stats(struct callchain_deferred *cd,
			       struct callchain_deferred_stats *stats);
size_t callchain_deferred__fprintf_stats(struct callchain_deferred *cd, FILE *fp);
void callchain_deferred__warn(struct callchain_deferred *cd);

#endif /* __PERF_CALLCHAIN_DEFERRED_H */
