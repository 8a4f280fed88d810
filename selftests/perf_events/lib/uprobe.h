/* SPDX-License-Identifier: GPL-2.0 */
/* Uprobes in this program. */
#ifndef SELFTESTS_PERF_EVENTS_UPROBE_H
#define SELFTESTS_PERF_EVENTS_UPROBE_H

#include <stdbool.h>
#include <linux/perf_event.h>

/*
 * An event of a uprobe at @addr, or of a uretprobe of the function there; flags as in
 * attr_flags().  0, or -1 if the kernel has no uprobe events.
 */
int uprobe_attr(struct perf_event_attr *attr, const void *addr, bool ret, __u64 flags);

#endif /* SELFTESTS_PERF_EVENTS_UPROBE_H */
