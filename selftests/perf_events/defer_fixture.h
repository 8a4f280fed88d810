/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of defer_callchain and defer_limits: samples of one task, taken by
 * tracepoints in system calls.  Include after kselftest_harness.h.
 */
#ifndef SELFTESTS_PERF_EVENTS_DEFER_FIXTURE_H
#define SELFTESTS_PERF_EVENTS_DEFER_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/known_stack.h"
#include "lib/session.h"

#define TP_ENTER	"syscalls/sys_enter_getpgid"
/*
 * Samples of TP_ENTER have user registers, hence no kernel part. Samples of TP_RAW have
 * a kernel part.
 */
#define TP_RAW		"raw_syscalls/sys_enter"
/* Low bits of the walk's id tell the stacks of a test apart. */
#define BITS		10
#define CHAIN_MAX	16384

FIXTURE(defer) {
	struct session s;
	struct session s2;
	long tp;
	__u64 *want;
	/* What the teardown restores. */
	long sysctl;
	long max_stack;
	long max_contexts;
};

FIXTURE_SETUP(defer)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	self->tp = TRACEPOINT_ID(TP_ENTER);
	ASSERT_EQ(0, read_long(DEFER_SYSCTL, &self->sysctl));
	ASSERT_EQ(0, read_long(SYSCTL_MAX_STACK,
			       &self->max_stack));
	ASSERT_EQ(0, read_long(SYSCTL_MAX_CONTEXTS,
			       &self->max_contexts));
	self->want = calloc(CHAIN_MAX, sizeof(*self->want));
	ASSERT_NE(NULL, self->want);
	if (self->sysctl != 1)
		ASSERT_EQ(0, write_long(DEFER_SYSCTL, 1));
}

FIXTURE_TEARDOWN(defer)
{
	session_close(&self->s);
	session_close(&self->s2);
	EXPECT_EQ(0, write_long(DEFER_SYSCTL, self->sysctl));
	EXPECT_EQ(0, write_long(SYSCTL_MAX_STACK,
				self->max_stack));
	EXPECT_EQ(0, write_long(SYSCTL_MAX_CONTEXTS,
				self->max_contexts));
	free(self->want);
}

/* One sample: a getpgid() from a stack that encodes "id". */
static inline void walk(__u64 id)
{
	known_walk_syscall(id, BITS, __NR_getpgid, 0, 0);
}

/* Restrict a session of TP_RAW to getpgid(). */
static inline int filter_getpgid(struct session *s)
{
	char filter[32];

	snprintf(filter, sizeof(filter), "id == %d", __NR_getpgid);
	return ioctl(s->bufs[0].fd, PERF_EVENT_IOC_SET_FILTER, filter);
}

/* The user stack of one sample is that of the walk, deferred or not. */
#define EXPECT_WALK(log, sample, id, bits) do {				\
	const __u64 *__ips = NULL;					\
	int __nr = defer_user_chain(log, sample, &__ips);		\
	int __want = known_expect(self->want, id, bits, walk_syscall_ip); \
									\
	EXPECT_TRUE(stack_same(__ips, __nr, self->want, __want));	\
} while (0)

#endif /* SELFTESTS_PERF_EVENTS_DEFER_FIXTURE_H */
