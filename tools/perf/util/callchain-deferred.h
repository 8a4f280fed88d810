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
 * Returns the block of events that a PERF_RECORD_COMPRESSED holds, after what the
 * block before had no place for. NULL if it cannot be decompressed. Both have to
 * stay as long as samples are processed.
 */
typedef struct decomp *(*callchain_deferred__inflate_t)(void *arg, union perf_event *event,
							u64 file_offset);

/**
 * struct callchain_deferred_stats - what became of samples with a cookie
 * @requested: samples whose user callchain was deferred, the sum of the others
 * @merged: their record was found
 * @pending: no record, and no later sign of the task having left the kernel
 * @unmatched: no record although the task left the kernel
 * @unmerged: their record came when they had been delivered
 * @lost: events of any kind that did not fit the ring buffers, so an upper
 *	bound for the records among them
 * @cut: of the merged ones, those whose record ends at the limit of the depth
 * @broken: of the merged ones, those whose record ends at a frame without caller
 *	although it is not the first of the task
 * @no_memory: of the merged ones, those that the kernel had no memory for
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
 * struct callchain_deferred_bounds - for how long samples wait for their record
 * @age: in ns. Of @live tools it is measured from the arrival of the sample, else
 *	as the difference in time to the newest event.
 * @bytes: of all events that are held back. Records that were delivered are kept in
 *	a quarter of it.
 * @idle: in ns from the arrival of the sample, while there is no more input; 0 if it
 *	may wait for that as long as it takes
 * @live: events are looked at when they happen
 */
struct callchain_deferred_bounds {
	u64	age;
	u64	bytes;
	u64	idle;
	bool	live;
};

/* As perf_session__deliver_event(), with what was parsed and completed */
typedef int (*callchain_deferred__deliver_t)(void *arg, union perf_event *event,
					     struct perf_sample *sample,
					     u64 file_offset, const char *file_path);

const char *callchain_deferred__why_incomplete(const union perf_event *event);
bool callchain_deferred__has_size(const union perf_event *event, u16 id_hdr_size);
void callchain_deferred__swap(union perf_event *event, bool sample_id_all);

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
int callchain_deferred__expire(struct callchain_deferred *cd);
int callchain_deferred__flush(struct callchain_deferred *cd);

void callchain_deferred__stats(struct callchain_deferred *cd,
			       struct callchain_deferred_stats *stats);
size_t callchain_deferred__fprintf_stats(struct callchain_deferred *cd, FILE *fp);
void callchain_deferred__warn(struct callchain_deferred *cd);

#endif /* __PERF_CALLCHAIN_DEFERRED_H */
