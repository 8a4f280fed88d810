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
#include "lib/session.h"
#include "defer_compat.h"


enum source {
	TRACEPOINT,
	KERNEL_BREAKPOINT,
	USER_BREAKPOINT,
};

FIXTURE(compat) {
	struct session s;
	struct defer_compat_addrs addrs;
	pid_t pid;
	int to;
	int from;
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
	const char *path = beside("defer_compat32");
	ssize_t n;

	self->pid = -1;
	if (variant->flags) {
		const char *why = defer_unsupported();

		if (why)
			SKIP(return, "%s", why);
	}
	if (access(path, X_OK))
		SKIP(return, "no defer_compat32 (compiler without -m32?)");

	self->pid = child_exec(path, &self->to, &self->from);
	ASSERT_LE(0, self->pid);
	n = read(self->from, &self->addrs, sizeof(self->addrs));
	if (n != sizeof(self->addrs))
		SKIP(return, "the kernel does not run 32-bit programs");
}

FIXTURE_TEARDOWN(compat)
{
	session_close(&self->s);
	if (self->pid > 0) {
		kill(self->pid, SIGKILL);
		waitpid(self->pid, NULL, 0);
	}
	close(self->to);
	close(self->from);
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
	unsigned int i, leaf = self->addrs.syscall_ip;
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
		leaf = self->addrs.nop;
		attr = event_attr_breakpoint(leaf, variant->flags);
		break;
	}
	ASSERT_EQ(0, session_open(&self->s, &attr, self->pid, -1,
				  SESSION_PAGES)) {
		TH_LOG("%s", strerror(errno));
	}
	if (variant->source == TRACEPOINT) {
		snprintf(filter, sizeof(filter), "id == %d", COMPAT_GETPGID);
		ASSERT_EQ(0, ioctl(self->s.bufs[0].fd,
				   PERF_EVENT_IOC_SET_FILTER, filter));
	}
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(1, write(self->to, "", 1));
	ASSERT_EQ(0, child_wait(self->pid, &status, 15, NULL));
	self->pid = -1;
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(COMPAT_WALKS, st.samples);
	EXPECT_EQ(variant->flags ? COMPAT_WALKS : 0, st.deferred);
	EXPECT_EQ(variant->flags ? COMPAT_WALKS : 0, st.records);
	for (i = 0; i < COMPAT_WALKS; i++) {
		const struct log_item *it;
		const __u64 *ips = NULL;
		int nr;

		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		nr = defer_user_chain(&self->s.log, it, &ips);
		EXPECT_TRUE(right(&self->addrs, ips, nr, i, leaf));
	}
}

TEST_HARNESS_MAIN
