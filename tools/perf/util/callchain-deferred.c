// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains: a sample has the kernel part of its callchain and a
 * cookie. A later PERF_RECORD_CALLCHAIN_DEFERRED with the same cookie has the user
 * part.
 *
 * The record can be long after the sample, because a task may sleep in the kernel for a
 * long time. So perf reads a file twice. The first pass reads only headers and notes
 * the position of the record of each cookie. The second pass delivers the events, and
 * each sample gets its user part at once. So the sample stays in its place, perf
 * resolves it with the maps of its time, and no event has to wait.
 *
 * Input that perf can read only once has no index: pipes, files in pipe format, and
 * the events of live tools. There perf holds back the sample and all later events
 * until the record arrives. This keeps the order and the maps right. The wait is
 * limited in time and memory. At a limit perf delivers the sample without its user
 * part and counts it.
 */
#include <stdlib.h>
#include <string.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/zalloc.h>
#include <perf/event.h>

#include "callchain.h"
#include "callchain-deferred.h"
#include "callchain-deferred-internal.h"
#include "event.h"
#include "sample.h"

struct callchain_deferred *callchain_deferred__new(struct evlist *evlist,
						   bool needs_swap)
{
	/* A callchain and a record have at most 64 KiB each, so both fit. */
	const size_t chain_size = 2 * PERF_SAMPLE_MAX_SIZE;
	struct callchain_deferred *cd = zalloc(sizeof(*cd));

	if (!cd)
		return NULL;

	cd->evlist = evlist;
	cd->needs_swap = needs_swap;
	cd->record_pos = POS_NONE;
	cd->held.records = RB_ROOT;
	INIT_LIST_HEAD(&cd->held.events);
	INIT_LIST_HEAD(&cd->held.recent);
	cd->chain = malloc(chain_size);
	if (!cd->chain || callchain_deferred__init_stats(cd)) {
		callchain_deferred__delete(cd);
		return NULL;
	}

	return cd;
}

void callchain_deferred__delete(struct callchain_deferred *cd)
{
	struct held_event *held, *tmp;

	if (!cd)
		return;

	list_splice(&cd->held.recent, &cd->held.events);
	list_for_each_entry_safe(held, tmp, &cd->held.events, list)
		free(held);
	callchain_deferred__exit_stats(cd);
	callchain_deferred__free_sources(cd);
	callchain_index__exit(&cd->index);
	free(cd->chain);
	free(cd);
}

/* Append the user part to the callchain. Without a record append only the marker. */
static int join(struct callchain_deferred *cd, struct perf_sample *sample, u64 order)
{
	u64 nr = ip_callchain__nr_present(sample->callchain);
	struct ip_callchain *chain = cd->chain;
	union perf_event *record;
	int err = 0;

	cd->stats.requested++;
	memcpy(chain->ips, sample->callchain->ips, nr * sizeof(u64));
	if (cd->indexed)
		record = callchain_deferred__find_record(cd, sample, order);
	else
		record = callchain_held__find_record(&cd->held, sample, order);

	if (record) {
		struct perf_record_callchain_deferred *user = &record->callchain_deferred;

		cd->stats.merged++;
		callchain_deferred__count_incomplete(cd, record);
		callchain_deferred__note_left_kernel(cd, sample->tid, order);

		chain->ips[nr++] = PERF_CONTEXT_USER;
		/* Entries after another context marker are not user addresses. */
		for (u64 i = 0; i < user->nr && user->ips[i] < PERF_CONTEXT_MAX; i++)
			chain->ips[nr++] = user->ips[i];
	} else {
		err = callchain_deferred__add_waiting(cd, sample, order);
		/* At least the innermost frame is known if it is a user frame. */
		if (sample->cpumode == PERF_RECORD_MISC_USER &&
		    sample->ip && sample->ip < PERF_CONTEXT_MAX) {
			chain->ips[nr++] = PERF_CONTEXT_USER;
			chain->ips[nr++] = sample->ip;
		}
		chain->ips[nr++] = PERF_CONTEXT_USER_DEFERRED;
	}

	chain->nr = nr;
	sample->callchain = chain;

	return err;
}

/**
 * callchain_deferred__process - complete a sample
 * @cd: has an index of the session, or records that were held back
 * @event: each event of the session that is delivered, in any order
 * @sample: parsed from @event. If the user part was deferred, this call replaces its
 *	callchain. The new one is valid until the next call.
 * @file_offset: of @event
 *
 * Return: 0 or a negative error code.
 */
int callchain_deferred__process(struct callchain_deferred *cd,
				union perf_event *event,
				struct perf_sample *sample, u64 file_offset)
{
	u64 order = callchain_deferred__order(sample->time, file_offset);

	switch (event->header.type) {
	case PERF_RECORD_SAMPLE:
		if (sample->callchain && sample->deferred_cookie)
			return join(cd, sample, order);
		if (sample->cpumode == PERF_RECORD_MISC_USER)
			callchain_deferred__note_left_kernel(cd, sample->tid, order);
		break;
	case PERF_RECORD_CALLCHAIN_DEFERRED:
		callchain_deferred__note_record(cd, sample, order);
		break;
	case PERF_RECORD_EXIT:
		if (event->header.size >= sizeof(event->fork))
			callchain_deferred__note_left_kernel(cd, event->fork.tid, order);
		break;
	case PERF_RECORD_LOST:
		if (event->header.size >= sizeof(event->lost))
			cd->lost += event->lost.lost;
		break;
	case PERF_RECORD_LOST_SAMPLES:
		if (event->header.size >= sizeof(event->lost_samples) &&
		    !(event->header.misc & PERF_RECORD_MISC_LOST_SAMPLES_BPF))
			cd->lost_samples += event->lost_samples.lost;
		break;
	default:
		break;
	}

	return 0;
}
