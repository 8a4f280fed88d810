// SPDX-License-Identifier: GPL-2.0
/* Holds events back until the oldest sample has its record or reaches a bound */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/rbtree.h>
#include <linux/time64.h>

#include "callchain-deferred.h"
#include "callchain-deferred-internal.h"
#include "event.h"
#include "evlist.h"
#include "sample.h"
#include "session.h"

/**
 * callchain_deferred__hold_back - set how events are delivered
 * @cd: call this before its first event
 * @bounds: limits of the wait if there is no index; must stay valid as long as @cd
 *	is in use
 * @deliver: called for each event that callchain_deferred__deliver() gets, in the
 *	same order
 * @arg: for @deliver
 */
void callchain_deferred__hold_back(struct callchain_deferred *cd,
				   const struct callchain_deferred_bounds *bounds,
				   callchain_deferred__deliver_t deliver, void *arg)
{
	cd->held.bounds = bounds;
	cd->held.deliver = deliver;
	cd->held.arg = arg;
}

static u64 monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);

	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* An event without a time gets the largest stamp so far. */
static u64 held__stamp(struct held_events *held, struct perf_sample *sample)
{
	u64 stamp = held->newest;

	if (held->bounds->live)
		stamp = monotonic_ns();
	else if (sample->time != (u64)-1)
		stamp = sample->time;
	if (stamp > held->newest)
		held->newest = stamp;

	return stamp;
}

static struct held_event *held_event__new(union perf_event *event,
					  struct perf_sample *sample, u64 stamp,
					  u64 file_offset, const char *file_path)
{
	struct held_event *held = malloc(offsetof(struct held_event, event) +
					 event->header.size);

	if (!held)
		return NULL;

	RB_CLEAR_NODE(&held->node);
	held->stamp = stamp;
	held->arrived = 0;
	held->order = callchain_deferred__order(sample->time, file_offset);
	held->tid = sample->tid;
	held->file_offset = file_offset;
	held->file_path = file_path;
	held->cookie = 0;
	if (event->header.type == PERF_RECORD_SAMPLE && sample->callchain)
		held->cookie = sample->deferred_cookie;
	memcpy(&held->event, event, event->header.size);

	return held;
}

static bool event__is_record(const union perf_event *event)
{
	return event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED;
}

/* Deliver the oldest held event, and complete its callchain if possible. */
static int held__release(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;
	struct held_event *oldest = list_first_entry(&held->events, struct held_event, list);
	union perf_event *event = &oldest->event;
	struct perf_sample sample;
	int err;

	list_del(&oldest->list);
	held->bytes -= callchain_held_event__bytes(oldest);

	err = evlist__parse_sample(cd->evlist, event, &sample);
	if (!err)
		err = callchain_deferred__process(cd, event, &sample, oldest->file_offset);
	if (!err) {
		err = held->deliver(held->arg, event, &sample, oldest->file_offset,
				    oldest->file_path);
	}

	if (event__is_record(event))
		callchain_held__add_recent(held, oldest);
	else
		callchain_held_event__delete(held, oldest);

	return err;
}

static bool held__must_wait(struct held_events *held)
{
	struct held_event *oldest = list_first_entry(&held->events, struct held_event, list);

	return oldest->cookie &&
	       held->bytes <= held->bounds->bytes &&
	       held->newest - oldest->stamp <= held->bounds->age &&
	       (!held->now || held->now - oldest->arrived < held->bounds->idle) &&
	       !callchain_held__find_node(held, oldest->cookie);
}

static int held__release_ready(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;

	while (!list_empty(&held->events) && !held__must_wait(held)) {
		int err = held__release(cd);

		if (err)
			return err;
	}

	return 0;
}

static int held__queue(struct callchain_deferred *cd, union perf_event *event,
		       struct perf_sample *sample, u64 file_offset,
		       const char *file_path)
{
	struct held_events *held = &cd->held;
	bool is_record = event__is_record(event);
	struct held_event *new, *oldest;
	bool was_waiting = false;
	u64 stamp;

	stamp = held__stamp(held, sample);
	new = held_event__new(event, sample, stamp, file_offset, file_path);
	if (!new)
		return -ENOMEM;
	if (held->bounds->idle)
		new->arrived = monotonic_ns();

	if (!list_empty(&held->events)) {
		oldest = list_first_entry(&held->events, struct held_event, list);
		was_waiting = !is_record || new->event.callchain_deferred.cookie != oldest->cookie;
	}
	list_add_tail(&new->list, &held->events);
	held->bytes += callchain_held_event__bytes(new);
	if (is_record)
		callchain_held__add_record(held, new);

	/* Do not search again if nothing changed for the oldest event. */
	if (was_waiting && held->bytes <= held->bounds->bytes &&
	    held->newest - oldest->stamp <= held->bounds->age)
		return 0;

	return held__release_ready(cd);
}

/**
 * callchain_deferred__deliver - deliver an event when its callchain is complete
 * @cd: set up by callchain_deferred__hold_back(); may have an index
 * @event: any event of the session, in time order if events have a time
 * @sample: parsed from @event
 * @file_offset: of @event
 * @file_path: of the file with @event; must stay valid as long as @cd is in use
 *
 * With an index this function delivers the event at once. Without one it may deliver
 * it later, and may first deliver other events that were held back. A file of the
 * other byte order is an exception: its events are delivered at once.
 *
 * Return: 0, a negative error code, or the first value other than 0 that a callback
 * returned.
 */
int callchain_deferred__deliver(struct callchain_deferred *cd,
				union perf_event *event,
				struct perf_sample *sample, u64 file_offset,
				const char *file_path)
{
	bool waits = event->header.type == PERF_RECORD_SAMPLE && sample->callchain &&
		     sample->deferred_cookie;
	int err;

	/*
	 * Queue a record even if no event is held back, so that it is kept.
	 * A held event is parsed again when it is released. This is not possible in
	 * the other byte order: the first parse swaps raw data in place.
	 */
	if (!cd->indexed && !cd->needs_swap &&
	    (!list_empty(&cd->held.events) || waits || event__is_record(event)))
		return held__queue(cd, event, sample, file_offset, file_path);

	err = callchain_deferred__process(cd, event, sample, file_offset);
	if (err)
		return err;

	return cd->held.deliver(cd->held.arg, event, sample, file_offset, file_path);
}

/**
 * callchain_deferred__timeout - when must callchain_deferred__expire() be called?
 * @cd: with bounds->idle
 *
 * Return: the time in ms without input after which callchain_deferred__expire() must
 * be called; -1 if no event is held back.
 */
int callchain_deferred__timeout(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;
	struct held_event *oldest;
	u64 waited;

	if (list_empty(&held->events) || !held->bounds->idle)
		return -1;

	oldest = list_first_entry(&held->events, struct held_event, list);
	waited = monotonic_ns() - oldest->arrived;
	if (waited >= held->bounds->idle)
		return 0;

	return DIV_ROUND_UP(held->bounds->idle - waited, NSEC_PER_MSEC);
}

/* Are there held events that callchain_deferred__expire() could deliver later? */
bool callchain_deferred__holds_back(struct callchain_deferred *cd)
{
	return !list_empty(&cd->held.events);
}

/**
 * callchain_deferred__waited - how long has the oldest held event waited?
 * @cd: with bounds->live
 *
 * Return: time in ns; 0 if no event is held back.
 */
u64 callchain_deferred__waited(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;
	struct held_event *oldest;

	if (list_empty(&held->events))
		return 0;

	oldest = list_first_entry(&held->events, struct held_event, list);

	return monotonic_ns() - oldest->stamp;
}

/**
 * callchain_deferred__expire - deliver events that have waited too long
 * @cd: with bounds->live or bounds->idle
 *
 * Call this from time to time while no events arrive.
 *
 * Return: like callchain_deferred__deliver()
 */
int callchain_deferred__expire(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;
	int err;

	if (list_empty(&held->events))
		return 0;

	if (held->bounds->live)
		held->newest = max(held->newest, monotonic_ns());
	if (held->bounds->idle)
		held->now = monotonic_ns();
	err = held__release_ready(cd);
	held->now = 0;

	return err;
}

/**
 * callchain_deferred__flush - deliver all held events
 * @cd: callchain_deferred__deliver() must have been called for all events
 *
 * Return: like callchain_deferred__deliver()
 */
int callchain_deferred__flush(struct callchain_deferred *cd)
{
	int err = 0;

	while (!list_empty(&cd->held.events) && !err && !session_done())
		err = held__release(cd);

	return err;
}
