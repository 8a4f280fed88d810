/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_TESTS__CALLCHAIN_DEFERRED_COMMON_H__
#define __PERF_TESTS__CALLCHAIN_DEFERRED_COMMON_H__

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <linux/perf_event.h>
#include <linux/types.h>

#include "util/callchain.h"
#include "util/debug.h"

struct callchain_deferred;
struct evlist;

#define MAX_IPS		8

union chain {
	struct ip_callchain callchain;
	u64 data[MAX_IPS + 1];
};

#define SAMPLE_TYPE_TIME	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN)
#define SAMPLE_TYPE_NO_TIME	(PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN)
#define COOKIE(x)		(0xabcd000000000000ULL + (x))
#define NO_RECORD		0

/* A file of records, as perf record would have written it */
struct fake_file {
	FILE		*fp;
	struct evlist	*evlist;
	bool		needs_swap;
	u64		sample_type;
};

int fake_file__init(struct fake_file *file, u64 sample_type, bool needs_swap);
void fake_file__exit(struct fake_file *file);
void fake_file__put_u64(struct fake_file *file, u64 val);
void fake_file__put_header(struct fake_file *file, u32 type, u16 size);
u64 fake_file__put_record(struct fake_file *file, u64 cookie, u32 tid, u64 time, u64 first);
struct callchain_deferred *fake_file__index(struct fake_file *file);

u64 deferred_test__deliver(struct callchain_deferred *cd, u64 cookie, u32 tid,
			   u64 time, u64 file_offset);
int deferred_test__check_stats(struct callchain_deferred *cd, u64 merged, u64 pending,
			       u64 unmatched, u64 unmerged);

#define SAMPLE_GETS(what, cookie, tid, time, expected)				\
do {										\
	u64 __got = deferred_test__deliver(cd, cookie, tid, time, 0);		\
										\
	if (__got != (u64)(expected)) {						\
		pr_debug("FAILED %s:%d %s: %#" PRIx64 "\n", __FILE__, __LINE__,	\
			 what, __got);						\
		goto out;							\
	}									\
} while (0)

#define CHECK(what, cond)							\
do {										\
	if (!(cond)) {								\
		pr_debug("FAILED %s:%d %s\n", __FILE__, __LINE__, what);	\
		goto out;							\
	}									\
} while (0)

#endif /* __PERF_TESTS__CALLCHAIN_DEFERRED_COMMON_H__ */
