// SPDX-License-Identifier: GPL-2.0
/* Finds the record of a sample among the records with its cookie. */
#include <stdbool.h>
#include <linux/types.h>

#include "callchain-deferred-internal.h"
#include "event.h"
#include "evlist.h"
#include "sample.h"

/*
 * The position of an event in the order of the session. All events of a session have
 * the same sample_id fields, so either all compared events have a time or none has.
 */
u64 callchain_deferred__order(u64 time, u64 file_offset)
{
	return time != (u64)-1 ? time : file_offset;
}

bool callchain_deferred__knows_tid(u32 tid)
{
	/* Tasks outside of perf's pid namespace have the tid 0 or -1. */
	return tid && tid != (u32)-1;
}

static void candidate__init(struct callchain_candidate *candidate, struct callchain_deferred *cd,
			    const struct callchain_index_entry *entry,
			    const struct perf_sample *sample, u64 order)
{
	union perf_event *event = callchain_deferred__read_record(cd, entry);
	u64 file_offset = callchain_deferred__file_offset(cd, entry->pos);
	struct perf_sample record = { .time = -1, };

	if (event)
		evlist__parse_sample(cd->evlist, event, &record);

	candidate->entry = *entry;
	candidate->order = callchain_deferred__order(record.time, file_offset);
	candidate->is_later = candidate->order >= order;
	candidate->is_same_task = callchain_deferred__knows_tid(sample->tid) &&
				  record.tid == sample->tid;
}

/* Is @a a better match than @b? @a comes after @b in the file. */
bool callchain_candidate__is_better(const struct callchain_candidate *a,
				    const struct callchain_candidate *b)
{
	if (a->is_later != b->is_later)
		return a->is_later;
	if (!a->is_later)
		return a->order >= b->order;
	if (a->is_same_task != b->is_same_task)
		return a->is_same_task;

	return a->order < b->order;
}

/*
 * Find the record of a sample. Usually only one record has its cookie. If there are
 * several records, take the first one at or after the sample, and prefer one of the
 * same task. If all records are older than the sample, take the newest one. A record
 * can be older for two reasons: the kernel does not record a stack twice between an
 * entry into the kernel and the exit, and the clocks of CPUs differ slightly.
 */
union perf_event *callchain_deferred__find_record(struct callchain_deferred *cd,
						  struct perf_sample *sample, u64 order)
{
	struct callchain_candidate best, other;
	struct callchain_index_entry entry;
	struct callchain_index_iter iter;

	if (!callchain_index__find(&cd->index, sample->deferred_cookie, &iter))
		return NULL;
	entry = iter.entry;
	if (!callchain_index__next(&cd->index, &iter) || iter.entry.cookie != entry.cookie)
		return callchain_deferred__read_record(cd, &entry);

	candidate__init(&best, cd, &entry, sample, order);
	for (int i = 1; i < CALLCHAIN_CANDIDATES_MAX; i++) {
		candidate__init(&other, cd, &iter.entry, sample, order);
		if (callchain_candidate__is_better(&other, &best))
			best = other;
		if (!callchain_index__next(&cd->index, &iter) ||
		    iter.entry.cookie != sample->deferred_cookie)
			break;
	}

	return callchain_deferred__read_record(cd, &best.entry);
}
