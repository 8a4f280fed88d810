/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred user callchains: which record belongs to which sample, and whether any is missing. */
#ifndef SELFTESTS_PERF_EVENTS_DEFER_H
#define SELFTESTS_PERF_EVENTS_DEFER_H

#include <stdbool.h>
#include <linux/const.h>
#include <linux/perf_event.h>

#include "log.h"

/*
 * The user ABI. Headers of the build may be older than the kernel under test,
 * hence macros with names of our own, which cannot clash with enumerators.
 */
#define DEFER_ATTR_CALLCHAIN		_BITULL(38)
#define DEFER_ATTR_OUTPUT		_BITULL(39)
#define BOTH				(DEFER_ATTR_CALLCHAIN | DEFER_ATTR_OUTPUT)
#define DEFER_FIRST_RESERVED_BIT	40
/* Bit 63 may be attr.overwrite. */
#define DEFER_LAST_RESERVED_BIT		62
#define DEFER_SYSCTL			"/proc/sys/kernel/unwind_user_deferred"

struct defer_stats {
	unsigned int	samples;
	/* Samples with a cookie, with an immediate user part, without any. */
	unsigned int	deferred;
	unsigned int	immediate;
	unsigned int	kernel_only;
	unsigned int	cookies;
	unsigned int	records;
	/* Records whose cookie is in no sample: legal. */
	unsigned int	unasked;
	/*
	 * Cookies without a record, with several records of one CPU, and of several
	 * tasks. A task that moves to another CPU leaves another record there.
	 */
	unsigned int	missing;
	unsigned int	duplicate;
	unsigned int	foreign;
	/* Samples after the record of their cookie, of the same kernel entry. */
	unsigned int	late;
	__u64		lost;
};

/* An event that never samples and only receives records. */
struct perf_event_attr defer_attr_output(void);

/* Why the tests cannot run on this machine; NULL when they can. */
const char *defer_unsupported(void);

/* The record of a cookie, NULL if there is none. */
const struct log_item *
defer_find_record(struct event_log *log, __u64 cookie);

/* The user stack of a sample, deferred or not: its length, -1 if there is none. */
int defer_user_chain(struct event_log *log, const struct log_item *sample,
		     const __u64 **ips);

/* Account for every cookie of a parsed log. */
struct defer_stats defer_conserve(struct event_log *log);

/* Print what defer_conserve() has found. */
void defer_print(const struct defer_stats *st);

static inline bool defer_is_record(const struct log_item *it)
{
	return it->type == DEFER_RECORD;
}

/*
 * Nothing unaccounted for: what is missing must be covered by what the kernel
 * said it lost.
 */
#define EXPECT_CONSERVED(st) do {					\
	defer_print(st);						\
	EXPECT_LE((st)->missing, (st)->lost);				\
	EXPECT_EQ(0, (st)->duplicate);					\
	EXPECT_EQ(0, (st)->foreign);					\
} while (0)

#endif /* SELFTESTS_PERF_EVENTS_DEFER_H */
