// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains of a 32-bit program: exact stacks in task context
 * (a tracepoint), in NMI context (a breakpoint in the kernel) and for user mode.
 */
#define _GNU_SOURCE
#include "defer.h"
#include "defer_compat.h"
#include "../kselftest_harness.h"

#define BOTH	(DEFER_ATTR_CALLCHAIN | DEFER_ATTR_OUTPUT)

enum source {
	TRACEPOINT,
	KERNEL_BREAKPOINT,
	USER_BREAKPOINT,
};

FIXTURE(compat) {
	struct defer_session s;
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
	char path[PATH_MAX + 32], dir[PATH_MAX];
	int in[2], out[2];
	ssize_t n;
	char *end;

	self->pid = -1;
	if (variant->flags) {
		const char *why = defer_unsupported();

		if (why)
			SKIP(return, "%s", why);
	}
	n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	ASSERT_LT(0, n);
	dir[n] = '\0';
	end = strrchr(dir, '/');
	ASSERT_NE(NULL, end);
	*end = '\0';
	snprintf(path, sizeof(path), "%s/defer_compat32", dir);
	if (access(path, X_OK))
		SKIP(return, "no defer_compat32 (compiler without -m32?)");

	ASSERT_EQ(0, pipe2(in, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(out, O_CLOEXEC));
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(path, path, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	self->to = in[1];
	self->from = out[0];
	n = read(self->from, &self->addrs, sizeof(self->addrs));
	if (n != sizeof(self->addrs))
		SKIP(return, "the kernel does not run 32-bit programs");
}

FIXTURE_TEARDOWN(compat)
{
	defer_session_close(&self->s);
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
	return defer_same(ips, nr, want, COMPAT_BITS + 2);
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
		/* Those of single system calls are for native ones only. */
		attr = defer_attr(PERF_TYPE_TRACEPOINT,
				  DEFER_TRACEPOINT("raw_syscalls/sys_enter"), 1,
				  variant->flags);
		break;
	case KERNEL_BREAKPOINT:
		addr = defer_kallsyms("__ia32_sys_getpgid");
		if (!addr)
			SKIP(return, "no address of __ia32_sys_getpgid");
		attr = defer_attr_breakpoint(addr, variant->flags);
		break;
	case USER_BREAKPOINT:
		leaf = self->addrs.nop;
		attr = defer_attr_breakpoint(leaf, variant->flags);
		break;
	}
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, self->pid, -1,
					DEFER_PAGES)) {
		TH_LOG("%s", strerror(errno));
	}
	if (variant->source == TRACEPOINT) {
		snprintf(filter, sizeof(filter), "id == %d", COMPAT_GETPGID);
		ASSERT_EQ(0, ioctl(self->s.bufs[0].fd,
				   PERF_EVENT_IOC_SET_FILTER, filter));
	}
	ASSERT_EQ(0, defer_enable(&self->s));
	ASSERT_EQ(1, write(self->to, "", 1));
	ASSERT_EQ(0, defer_wait(self->pid, &status, 15, NULL));
	self->pid = -1;
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(COMPAT_WALKS, st.samples);
	EXPECT_EQ(variant->flags ? COMPAT_WALKS : 0, st.deferred);
	EXPECT_EQ(variant->flags ? COMPAT_WALKS : 0, st.records);
	for (i = 0; i < COMPAT_WALKS; i++) {
		const struct defer_item *it;
		const __u64 *ips = NULL;
		int nr;

		it = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		nr = defer_user_chain(&self->s.log, it, &ips);
		EXPECT_TRUE(right(&self->addrs, ips, nr, i, leaf));
	}
}

TEST_HARNESS_MAIN
