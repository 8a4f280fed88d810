/* SPDX-License-Identifier: GPL-2.0 */
/* Samples of the system call that the leaf of a chain makes, and their stacks. */
#ifndef SELFTESTS_UNWIND_SAMPLE_H
#define SELFTESTS_UNWIND_SAMPLE_H

#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>

#include "../../perf_events/lib/defer.h"
#include "../../perf_events/lib/files.h"
#include "../../perf_events/lib/session.h"

/* An event for that tracepoint, with deferred user stacks. */
struct perf_event_attr sample_attr(long tracepoint);

/* Deferred stack of the i-th sample: its length, -1 if there is none. */
int sample_stack(struct session *s, unsigned int i, const __u64 **ips);

/* Is this the deferred stack of the i-th sample?  Prints both stacks if it is not. */
bool is_stack(struct session *s, unsigned int i, const __u64 *want,
	      unsigned int nr_want);

/* Samples of getpgid() in a task, or in the current one. */
#define SESSION_OPEN_PID(s, pid, pages) do {				\
	struct perf_event_attr __attr;					\
									\
	__attr = sample_attr(TRACEPOINT_ID("syscalls/sys_enter_getpgid")); \
	ASSERT_EQ(0, session_open(s, &__attr, pid, -1, pages));		\
	ASSERT_EQ(0, session_enable(s));				\
} while (0)

#define SESSION_OPEN(s)	SESSION_OPEN_PID(s, 0, SESSION_PAGES)

/* All tasks, into the session's buffers: one for each CPU. */
#define SESSION_OPEN_ALL(s) do {					\
	struct perf_event_attr __attr;					\
									\
	__attr = sample_attr(TRACEPOINT_ID("syscalls/sys_enter_getpgid")); \
	ASSERT_EQ(0, session_open(s, &__attr, -1, ALL_CPUS,		\
				  SESSION_PAGES));			\
	ASSERT_EQ(0, session_enable(s));				\
} while (0)

/* All samples so far must have the stack "want"; the rest is for TH_LOG(). */
#define EXPECT_STACKS(s, count, want, nr_want, ...) do {		\
	unsigned int __i, __n = count;					\
	struct defer_stats __st;					\
									\
	ASSERT_EQ(0, session_finish(s));				\
	__st = defer_conserve(&(s)->log);				\
	EXPECT_CONSERVED(&__st);					\
	ASSERT_EQ(__n, __st.samples) {					\
		TH_LOG("" __VA_ARGS__);					\
	}								\
	for (__i = 0; __i < __n; __i++) {				\
		const __u64 *__ips = NULL;				\
		int __nr = sample_stack(s, __i, &__ips);		\
									\
		EXPECT_TRUE(stack_same(__ips, __nr, want, nr_want)) {	\
			TH_LOG("" __VA_ARGS__);				\
		}							\
	}								\
} while (0)

/* The i-th sample of an open session must have the stack "want". */
#define EXPECT_NEXT(s, i, want, nr_want, ...) do {			\
	const __u64 *__ips = NULL;					\
	int __nr;							\
									\
	ASSERT_EQ(0, session_wait(s, (i) + 1, 5));			\
	__nr = sample_stack(s, i, &__ips);				\
	EXPECT_TRUE(stack_same(__ips, __nr, want, nr_want)) {		\
		TH_LOG("" __VA_ARGS__);					\
	}								\
} while (0)

#endif /* SELFTESTS_UNWIND_SAMPLE_H */
