// SPDX-License-Identifier: GPL-2.0
/* Samples of the system call that the leaf of a chain makes, and their stacks. */

#include <linux/perf_event.h>

#include "../../perf_events/lib/defer.h"
#include "../../perf_events/lib/event.h"
#include "../../perf_events/lib/session.h"
#include "sample.h"

struct perf_event_attr sample_attr(long tracepoint)
{
	return tp_attr(tracepoint, BOTH);
}

/* Deferred stack of the i-th sample; -1 if there is none. */
int sample_stack(struct session *s, unsigned int i, const __u64 **ips)
{
	const struct log_item *it;

	it = log_nth(&s->log, PERF_RECORD_SAMPLE, i);
	if (!it || !it->cookie)
		return -1;
	return defer_user_chain(&s->log, it, ips);
}

bool is_stack(struct session *s, unsigned int i, const __u64 *want,
	      unsigned int nr_want)
{
	const __u64 *ips = NULL;
	const struct log_item *it;
	int nr = -1;

	it = log_nth(&s->log, PERF_RECORD_SAMPLE, i);
	if (it && it->cookie)
		nr = defer_user_chain(&s->log, it, &ips);
	return stack_same(ips, nr, want, nr_want);
}
