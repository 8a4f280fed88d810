/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_CALLCHAIN_DEFERRED_RECORD_H
#define __PERF_CALLCHAIN_DEFERRED_RECORD_H

#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>

union perf_event;

#define CALLCHAIN_DEFERRED_INCOMPLETE	\
	(PERF_RECORD_MISC_CALLCHAIN_CUT | PERF_RECORD_MISC_CALLCHAIN_BROKEN)

const char *callchain_deferred__why_incomplete(const union perf_event *event);
bool callchain_deferred__has_size(const union perf_event *event, u16 id_hdr_size);
void callchain_deferred__swap(union perf_event *event, bool sample_id_all);

#endif /* __PERF_CALLCHAIN_DEFERRED_RECORD_H */
