/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_CALLCHAIN_DEFERRED_FLUSH_H
#define __PERF_CALLCHAIN_DEFERRED_FLUSH_H

#include <linux/types.h>

struct evlist;

/**
 * struct callchain_deferred_flush - what became of pending user callchains
 * @delivered: their records are in the ring buffers
 * @busy: their tasks run, and will deliver them soon
 * @failed: no ring buffer had room, no event receives them, or their CPU is offline
 * @left: there were more than the limit
 */
struct callchain_deferred_flush {
	u64	delivered;
	u64	busy;
	u64	failed;
	u64	left;
};

int evlist__flush_callchains(struct evlist *evlist, struct callchain_deferred_flush *flush);

#endif /* __PERF_CALLCHAIN_DEFERRED_FLUSH_H */
