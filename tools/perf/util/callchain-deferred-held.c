// SPDX-License-Identifier: GPL-2.0
/* Finds records by cookie: those that are held back or were delivered recently */
#include <stdlib.h>
#include <linux/list.h>
#include <linux/rbtree.h>

#include "callchain-deferred.h"
#include "callchain-deferred-internal.h"
#include "event.h"
#include "sample.h"

/*
 * Records are kept after their delivery, because later samples may refer to them:
 *
 * - After the kernel wrote the record, it may sample the task again before the task
 *   leaves the kernel. A stopped task can stay in the kernel for a long time.
 * - Live tools read the buffers one after the other. If the task has changed its CPU
 *   in between, they may see the record before the sample.
 *
 * At least MIN_RECENT records are kept. There may be more of them if they fit into
 * bounds->bytes / RECENT_SHARE.
 */
#define MIN_RECENT	64
#define RECENT_SHARE	8

static u64 node__cookie(struct rb_node *node)
{
	return rb_entry(node, struct held_event, node)->event.callchain_deferred.cookie;
}

/* Returns the first record with the cookie. */
struct rb_node *callchain_held__find_node(struct held_events *held, u64 cookie)
{
	struct rb_node *node = held->records.rb_node, *first = NULL;

	while (node) {
		u64 other = node__cookie(node);

		if (cookie == other)
			first = node;
		node = cookie <= other ? node->rb_left : node->rb_right;
	}

	return first;
}

/* Like callchain_deferred__find_record(), for held and recently delivered records */
union perf_event *callchain_held__find_record(struct held_events *held,
					      struct perf_sample *sample, u64 order)
{
	struct rb_node *node = callchain_held__find_node(held, sample->deferred_cookie);
	struct held_event *found = NULL;
	struct callchain_candidate best, other;

	for (int i = 0; i < CALLCHAIN_CANDIDATES_MAX && node; i++, node = rb_next(node)) {
		struct held_event *record = rb_entry(node, struct held_event, node);

		if (node__cookie(node) != sample->deferred_cookie)
			break;

		other = (struct callchain_candidate) {
			.order = record->order,
			.is_later = record->order >= order,
			.is_same_task = callchain_deferred__knows_tid(sample->tid) &&
					record->tid == sample->tid,
		};
		if (!found || callchain_candidate__is_better(&other, &best)) {
			best = other;
			found = record;
		}
	}

	return found ? &found->event : NULL;
}

void callchain_held__add_record(struct held_events *held, struct held_event *record)
{
	struct rb_node **p = &held->records.rb_node, *parent = NULL;
	u64 cookie = record->event.callchain_deferred.cookie;

	while (*p) {
		parent = *p;
		p = cookie < node__cookie(parent) ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&record->node, parent, p);
	rb_insert_color(&record->node, &held->records);
}

void callchain_held_event__delete(struct held_events *held, struct held_event *event)
{
	if (!RB_EMPTY_NODE(&event->node))
		rb_erase(&event->node, &held->records);
	free(event);
}

size_t callchain_held_event__bytes(const struct held_event *held)
{
	return offsetof(struct held_event, event) + held->event.header.size;
}

void callchain_held__add_recent(struct held_events *held, struct held_event *record)
{
	list_add_tail(&record->list, &held->recent);
	held->recent_bytes += callchain_held_event__bytes(record);
	held->nr_recent++;

	while (held->nr_recent > MIN_RECENT &&
	       held->recent_bytes > held->bounds->bytes / RECENT_SHARE) {
		struct held_event *oldest;

		oldest = list_first_entry(&held->recent, struct held_event, list);
		list_del(&oldest->list);
		held->recent_bytes -= callchain_held_event__bytes(oldest);
		held->nr_recent--;
		callchain_held_event__delete(held, oldest);
	}
}
