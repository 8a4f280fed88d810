/* SPDX-License-Identifier: GPL-2.0 */
/* Definitions that the files callchain-deferred*.c share */
#ifndef __PERF_CALLCHAIN_DEFERRED_INTERNAL_H
#define __PERF_CALLCHAIN_DEFERRED_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#include "callchain-deferred.h"
#include "callchain-deferred-index.h"
#include "event.h"

struct hashmap;
struct ip_callchain;
struct source;

/* The position of a record: a source, and an offset in this source */
#define POS_OFFSET_BITS	48
#define POS_OFFSET_MAX	((1ULL << POS_OFFSET_BITS) - 1)
#define POS_SOURCE_MAX	((1U << (64 - POS_OFFSET_BITS)) - 1)
#define POS_NONE	UINT64_MAX

/*
 * perf compares at most this many records with the same cookie. A task that moves to
 * another CPU gets one more, so only crafted files should have that many.
 */
#define CALLCHAIN_CANDIDATES_MAX	32

/* One of several records with the cookie of a sample */
struct callchain_candidate {
	struct callchain_index_entry entry;
	/* Its callchain_deferred__order() */
	u64			order;
	/* The record is at or after the sample. */
	bool			is_later;
	bool			is_same_task;
};

/* An event that waits for its record, or that came after such an event */
struct held_event {
	struct list_head	list;
	/* In held_events::records, if the event is a record */
	struct rb_node		node;
	/* Timestamp of the event, or time of its arrival with bounds->live */
	u64			stamp;
	/* Time of its arrival, only set with bounds->idle */
	u64			arrived;
	/* Its callchain_deferred__order(), and its task */
	u64			order;
	u32			tid;
	u64			file_offset;
	const char		*file_path;
	/* The cookie of the record that it waits for, or 0 */
	u64			cookie;
	/* Has header.size bytes */
	union perf_event	event;
};

struct held_events {
	const struct callchain_deferred_bounds	*bounds;
	callchain_deferred__deliver_t		deliver;
	void					*arg;
	/* Oldest first */
	struct list_head			events;
	u64					bytes;
	/* The largest stamp so far */
	u64					newest;
	/* Time while callchain_deferred__expire() checks bounds->idle, else 0 */
	u64					now;
	/* Held and recent records, sorted by cookie, then in event order */
	struct rb_root				records;
	/* Records that were delivered, oldest first */
	struct list_head			recent;
	u64					recent_bytes;
	u32					nr_recent;
};

struct callchain_deferred {
	struct evlist			*evlist;
	bool				needs_swap;
	/* There is an index, so perf holds no event back. */
	bool				indexed;
	struct held_events		held;

	struct source			*sources;
	u32				nr_sources;

	/* The position of the record of each cookie */
	struct callchain_index		index;

	/* The last record that was read, in host byte order, and its position */
	union {
		union perf_event	event;
		char			buf[PERF_SAMPLE_MAX_SIZE];
	} record;
	u64				record_pos;

	/* Callchain of the last processed sample, with or without its user part */
	struct ip_callchain		*chain;

	/* From tid to struct waiting */
	struct hashmap			*waiting;
	struct callchain_deferred_stats	stats;

	/* Lost events, from PERF_RECORD_LOST and PERF_RECORD_LOST_SAMPLES */
	u64				lost;
	u64				lost_samples;
};

/* callchain-deferred-source.c */
int callchain_deferred__add_source(struct callchain_deferred *cd, int fd);
void callchain_deferred__map_source(struct callchain_deferred *cd, u32 source_idx, u64 size);
s64 callchain_deferred__add_block(struct callchain_deferred *cd, u32 source_idx,
				  struct decomp *decomp);
void callchain_deferred__free_sources(struct callchain_deferred *cd);
bool callchain_deferred__check_record(struct callchain_deferred *cd);
size_t callchain_deferred__read_at(int fd, void *buf, size_t size, u64 offset);
union perf_event *callchain_deferred__read_record(struct callchain_deferred *cd,
						  const struct callchain_index_entry *entry);
u64 callchain_deferred__file_offset(struct callchain_deferred *cd, u64 pos);

/* callchain-deferred-match.c */
u64 callchain_deferred__order(u64 time, u64 file_offset);
bool callchain_deferred__knows_tid(u32 tid);
bool callchain_candidate__is_better(const struct callchain_candidate *a,
				    const struct callchain_candidate *b);
union perf_event *callchain_deferred__find_record(struct callchain_deferred *cd,
						  struct perf_sample *sample, u64 order);

/* callchain-deferred-held.c */
struct rb_node *callchain_held__find_node(struct held_events *held, u64 cookie);
union perf_event *callchain_held__find_record(struct held_events *held,
					      struct perf_sample *sample, u64 order);
void callchain_held__add_record(struct held_events *held, struct held_event *record);
void callchain_held_event__delete(struct held_events *held, struct held_event *event);
size_t callchain_held_event__bytes(const struct held_event *held);
void callchain_held__add_recent(struct held_events *held, struct held_event *record);

/* callchain-deferred-stats.c */
int callchain_deferred__init_stats(struct callchain_deferred *cd);
void callchain_deferred__exit_stats(struct callchain_deferred *cd);
void callchain_deferred__count_incomplete(struct callchain_deferred *cd,
					  const union perf_event *event);
int callchain_deferred__add_waiting(struct callchain_deferred *cd, struct perf_sample *sample,
				    u64 order);
void callchain_deferred__note_left_kernel(struct callchain_deferred *cd, u32 tid, u64 order);
void callchain_deferred__note_record(struct callchain_deferred *cd, struct perf_sample *sample,
				     u64 order);

#endif /* __PERF_CALLCHAIN_DEFERRED_INTERNAL_H */
