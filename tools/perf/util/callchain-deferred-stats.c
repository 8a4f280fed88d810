// SPDX-License-Identifier: GPL-2.0
/* Counts samples whose user callchain was deferred, by outcome */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/zalloc.h>

#include "callchain-deferred.h"
#include "callchain-deferred-internal.h"
#include "callchain-deferred-record.h"
#include "debug.h"
#include "event.h"
#include "hashmap.h"
#include "sample.h"

/* Samples of a task that have no record. All have the newest cookie of the task. */
struct waiting {
	u64	cookie;
	u64	nr;
	/* When the newest of these samples was taken */
	u64	asked;
	/* The newest sign that the task had left the kernel */
	u64	left;
};

static size_t waiting__hash(long key, void *ctx __maybe_unused)
{
	return key;
}

static bool waiting__equal(long key1, long key2, void *ctx __maybe_unused)
{
	return key1 == key2;
}

int callchain_deferred__init_stats(struct callchain_deferred *cd)
{
	cd->waiting = hashmap__new(waiting__hash, waiting__equal, NULL);
	if (IS_ERR(cd->waiting)) {
		cd->waiting = NULL;
		return -ENOMEM;
	}

	return 0;
}

void callchain_deferred__exit_stats(struct callchain_deferred *cd)
{
	struct hashmap_entry *cur;
	size_t bkt;

	if (cd->waiting) {
		hashmap__for_each_entry(cd->waiting, cur, bkt)
			zfree(&cur->pvalue);
		hashmap__free(cd->waiting);
	}
}

void callchain_deferred__count_incomplete(struct callchain_deferred *cd,
					  const union perf_event *event)
{
	switch (event->header.misc & CALLCHAIN_DEFERRED_INCOMPLETE) {
	case PERF_RECORD_MISC_CALLCHAIN_CUT:
		cd->stats.cut++;
		break;
	case PERF_RECORD_MISC_CALLCHAIN_BROKEN:
		cd->stats.broken++;
		break;
	case CALLCHAIN_DEFERRED_INCOMPLETE:
		cd->stats.no_memory++;
		break;
	default:
		break;
	}
}

static struct waiting *waiting__findnew(struct callchain_deferred *cd, u32 tid)
{
	struct waiting *waiting;

	if (hashmap__find(cd->waiting, tid, &waiting))
		return waiting;

	waiting = zalloc(sizeof(*waiting));
	if (waiting && hashmap__add(cd->waiting, tid, waiting))
		zfree(&waiting);

	return waiting;
}

/* Notes a sample without a record. Its task may still be in the kernel. */
int callchain_deferred__add_waiting(struct callchain_deferred *cd, struct perf_sample *sample,
				    u64 order)
{
	struct waiting *waiting;

	if (!callchain_deferred__knows_tid(sample->tid)) {
		cd->stats.unmatched++;
		return 0;
	}

	waiting = waiting__findnew(cd, sample->tid);
	if (!waiting)
		return -ENOMEM;

	if (waiting->nr && waiting->cookie != sample->deferred_cookie) {
		/* Only the newest cookie of a task can still get a record. */
		if (order < waiting->asked) {
			cd->stats.unmatched++;
			return 0;
		}
		cd->stats.unmatched += waiting->nr;
		waiting->nr = 0;
	}

	waiting->cookie = sample->deferred_cookie;
	if (!waiting->nr++ || order > waiting->asked)
		waiting->asked = order;

	return 0;
}

/* Most tasks have no waiting sample, and so no entry. */
void callchain_deferred__note_left_kernel(struct callchain_deferred *cd, u32 tid, u64 order)
{
	struct waiting *waiting;

	/* Tools may request events in file order, so older ones can follow. */
	if (hashmap__find(cd->waiting, tid, &waiting) && order > waiting->left)
		waiting->left = order;
}

/* The record may belong to samples that were delivered before it. */
void callchain_deferred__note_record(struct callchain_deferred *cd, struct perf_sample *sample,
				     u64 order)
{
	struct waiting *waiting;

	if (!cd->indexed && hashmap__find(cd->waiting, sample->tid, &waiting) &&
	    waiting->cookie == sample->deferred_cookie) {
		cd->stats.unmerged += waiting->nr;
		waiting->nr = 0;
	}

	callchain_deferred__note_left_kernel(cd, sample->tid, order);
}

/* The counts are final after all events have been processed. */
void callchain_deferred__stats(struct callchain_deferred *cd,
			       struct callchain_deferred_stats *stats)
{
	struct hashmap_entry *cur;
	size_t bkt;

	*stats = cd->stats;
	/* Both count the same lost events, and each may miss some. */
	stats->lost = max(cd->lost, cd->lost_samples);
	hashmap__for_each_entry(cd->waiting, cur, bkt) {
		struct waiting *waiting = cur->pvalue;

		if (waiting->left > waiting->asked)
			stats->unmatched += waiting->nr;
		else
			stats->pending += waiting->nr;
	}
}

size_t callchain_deferred__fprintf_stats(struct callchain_deferred *cd, FILE *fp)
{
	struct callchain_deferred_stats stats;
	size_t ret;

	callchain_deferred__stats(cd, &stats);
	ret = fprintf(fp, "\nDeferred callchain stats:\n");
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "requested", stats.requested);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "merged", stats.merged);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "pending at the end", stats.pending);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "  (events lost: %" PRIu64 ")\n",
		       "unmatched", stats.unmatched, stats.lost);
	if (stats.unmerged)
		ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "unmerged", stats.unmerged);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "merged, cut", stats.cut);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "merged, broken", stats.broken);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "merged, no memory", stats.no_memory);

	return ret;
}

/* Warn about more than this percentage of samples without a record. */
#define WARN_UNMATCHED	1

void callchain_deferred__warn(struct callchain_deferred *cd)
{
	struct callchain_deferred_stats stats;

	callchain_deferred__stats(cd, &stats);

	if (stats.unmerged) {
		ui__warning("%" PRIu64 " samples are shown without their user callchain.\n"
			    "The records of these callchains came after perf had stopped waiting.\n\n",
			    stats.unmerged);
	}

	if (stats.unmatched * 100 > stats.requested * WARN_UNMATCHED) {
		ui__warning("%" PRIu64 " of %" PRIu64 " deferred user callchains are missing.\n"
			    "At most %" PRIu64 " records of deferred callchains were lost.\n\n",
			    stats.unmatched, stats.requested, stats.lost);
	}
}
