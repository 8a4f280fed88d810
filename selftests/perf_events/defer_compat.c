// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains of a 32-bit program: exact stacks in task context
 * (a tracepoint), in NMI context (a breakpoint in the kernel) and for user mode.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "lib/child.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/flush.h"
#include "lib/session.h"
#include "defer_compat.h"

enum source {
	TRACEPOINT,
	KERNEL_BREAKPOINT,
	USER_BREAKPOINT,
};

struct compat {
	struct session s;
	struct defer_compat_addrs addrs;
	pid_t pid;
	int to;
	int from;
};

/* Start the 32-bit half.  Returns why that cannot be, or NULL. */
static const char *compat_start(struct compat *c)
{
	const char *path = beside("defer_compat32");

	c->pid = -1;
	if (access(path, X_OK))
		return "no defer_compat32 (compiler without -m32?)";
	c->pid = child_exec(path, &c->to, &c->from);
	if (c->pid < 0 || read(c->from, &c->addrs, sizeof(c->addrs)) != sizeof(c->addrs))
		return "the kernel does not run 32-bit programs";
	return NULL;
}

static void compat_stop(struct compat *c)
{
	session_close(&c->s);
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
	close(c->to);
	close(c->from);
}

FIXTURE(compat) {
	struct compat c;
};

FIXTURE_VARIANT(compat) {
	__u64 flags;
	enum source source;
};

FIXTURE_VARIANT_ADD(compat, immediate_tracepoint) {
	.source = TRACEPOINT,
};

FIXTURE_VARIANT_ADD(compat, immediate_user_breakpoint) {
	.source = USER_BREAKPOINT,
};

FIXTURE_VARIANT_ADD(compat, deferred_tracepoint) {
	.flags = BOTH,
	.source = TRACEPOINT,
};

FIXTURE_VARIANT_ADD(compat, deferred_kernel_breakpoint) {
	.flags = BOTH,
	.source = KERNEL_BREAKPOINT,
};

FIXTURE_VARIANT_ADD(compat, deferred_user_breakpoint) {
	.flags = BOTH,
	.source = USER_BREAKPOINT,
};

FIXTURE_SETUP(compat)
{
	const char *why = variant->flags ? defer_unsupported() : NULL;

	if (!why)
		why = compat_start(&self->c);
	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(compat)
{
	compat_stop(&self->c);
}

static bool right(const struct defer_compat_addrs *a, const __u64 *ips, int nr,
		  unsigned int id, unsigned int leaf)
{
	__u64 want[COMPAT_BITS + 2];
	int i;

	want[0] = leaf;
	for (i = 0; i < COMPAT_BITS; i++) {
		want[1 + i] = (id >> (COMPAT_BITS - 1 - i)) & 1 ? a->ret1 :
								  a->ret0;
	}
	want[COMPAT_BITS + 1] = a->top_ret;
	return stack_same(ips, nr, want, COMPAT_BITS + 2);
}

TEST_F(compat, stacks)
{
	struct perf_event_attr attr;
	unsigned int i, leaf = self->c.addrs.syscall_ip;
	struct defer_stats st;
	char filter[32];
	int status;
	__u64 addr;

	switch (variant->source) {
	case TRACEPOINT:
		/* Events of single system calls ignore 32-bit system calls. */
		attr = event_attr(PERF_TYPE_TRACEPOINT,
				  TRACEPOINT_ID("raw_syscalls/sys_enter"), 1,
				  variant->flags);
		break;
	case KERNEL_BREAKPOINT:
		addr = kallsyms("__ia32_sys_getpgid");
		if (!addr)
			SKIP(return, "no address of __ia32_sys_getpgid");
		attr = event_attr_breakpoint(addr, variant->flags);
		break;
	case USER_BREAKPOINT:
		leaf = self->c.addrs.nop;
		attr = event_attr_breakpoint(leaf, variant->flags);
		break;
	}
	ASSERT_EQ(0, session_open(&self->c.s, &attr, self->c.pid, -1,
				  SESSION_PAGES)) {
		TH_LOG("%s", strerror(errno));
	}
	if (variant->source == TRACEPOINT) {
		snprintf(filter, sizeof(filter), "id == %d", COMPAT_GETPGID);
		ASSERT_EQ(0, ioctl(self->c.s.bufs[0].fd,
				   PERF_EVENT_IOC_SET_FILTER, filter));
	}
	ASSERT_EQ(0, session_enable(&self->c.s));
	ASSERT_EQ(1, write(self->c.to, "", 1));
	ASSERT_EQ(0, child_wait(self->c.pid, &status, 15, NULL));
	self->c.pid = -1;
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->c.s));
	st = defer_conserve(&self->c.s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(COMPAT_WALKS, st.samples);
	EXPECT_EQ(variant->flags ? COMPAT_WALKS : 0, st.deferred);
	EXPECT_EQ(variant->flags ? COMPAT_WALKS : 0, st.records);
	for (i = 0; i < COMPAT_WALKS; i++) {
		const struct log_item *it;
		const __u64 *ips = NULL;
		int nr;

		it = log_nth(&self->c.s.log, PERF_RECORD_SAMPLE, i);
		nr = defer_user_chain(&self->c.s.log, it, &ips);
		EXPECT_TRUE(right(&self->c.addrs, ips, nr, i, leaf));
	}
}

/* The stack of a task that sleeps, delivered on request */

FIXTURE(sleeping) {
	struct compat c;
};

FIXTURE_SETUP(sleeping)
{
	const char *why = defer_unsupported() ?: compat_start(&self->c);

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(sleeping)
{
	compat_stop(&self->c);
}

TEST_F_TIMEOUT(sleeping, stack, 120)
{
	struct perf_event_attr attr;
	const struct log_item *it;
	const __u64 *ips = NULL;
	struct defer_stats st;
	struct flush sum = { };
	char filter[64];
	int nr, status, tries;

	attr = event_attr(PERF_TYPE_TRACEPOINT, TRACEPOINT_ID("raw_syscalls/sys_enter"), 1,
			  BOTH);
	ASSERT_EQ(0, session_open(&self->c.s, &attr, self->c.pid, -1, SESSION_PAGES));
	/* Until the program waits for the command, this read() would be sampled, too. */
	for (tries = 0; tries < 3000 && !waits_for_pipe(self->c.pid); tries++)
		usleep(10000);
	snprintf(filter, sizeof(filter), "id == %d || id == %d", COMPAT_GETPGID, COMPAT_READ);
	ASSERT_EQ(0, ioctl(self->c.s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, session_enable(&self->c.s));
	ASSERT_EQ(1, write(self->c.to, &(char){ COMPAT_SLEEP }, 1));
	ASSERT_EQ(0, session_wait(&self->c.s, COMPAT_WALKS + 1, 30));
	for (tries = 0; tries < 1000 && !sum.delivered; tries++) {
		ASSERT_EQ(0, flush_all(&self->c.s, &sum));
		usleep(10000);
	}
	EXPECT_EQ(1, sum.delivered);
	session_drain(&self->c.s);
	ASSERT_EQ(0, log_parse(&self->c.s.log));
	EXPECT_EQ(COMPAT_WALKS + 1, log_count(&self->c.s.log, DEFER_RECORD));
	it = log_nth(&self->c.s.log, PERF_RECORD_SAMPLE, COMPAT_WALKS);
	ASSERT_NE(NULL, it);
	nr = defer_user_chain(&self->c.s.log, it, &ips);
	EXPECT_TRUE(right(&self->c.addrs, ips, nr, COMPAT_WALKS, self->c.addrs.syscall_ip));

	ASSERT_EQ(1, write(self->c.to, "", 1));
	ASSERT_EQ(0, child_wait(self->c.pid, &status, 15, NULL));
	self->c.pid = -1;
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->c.s));
	st = defer_conserve(&self->c.s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.missing);
}

TEST_HARNESS_MAIN
