// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains and BPF: a program that uses the stack helpers on an
 * event that asks for deferral gets the immediate chain.  Neither the marker nor the
 * cookie reaches it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "lib/bpf.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/known_stack.h"
#include "lib/session.h"

#define BITS	9
#define ID	0x1c5
#define DEPTH	64

/* What the program stores: the helper's result, then the addresses. */
struct stack_value {
	__s64	ret;
	__u64	ips[DEPTH];
};

/* values[key].ret = bpf_get_stack(ctx, values[key].ips, size, flags) */
static int prog_get_stack(int map, __u64 flags)
{
	const struct bpf_insn insns[] = {
		LOOKUP_FIRST(map, 7),
		MOV_REG(BPF_REG_1, BPF_REG_6),
		MOV_REG(BPF_REG_2, BPF_REG_7),
		ADD_IMM(BPF_REG_2, 8),
		MOV_IMM(BPF_REG_3, DEPTH * 8),
		MOV_IMM(BPF_REG_4, flags),
		CALL(BPF_FUNC_get_stack),
		STX_DW(BPF_REG_7, 0, BPF_REG_0),
		/* Let the sample be written. */
		MOV_IMM(BPF_REG_0, 1),
		EXIT_INSN(),
	};

	return prog_load(BPF_PROG_TYPE_PERF_EVENT, insns, ARRAY_SIZE(insns));
}

/* values[0].ret = bpf_get_stackid(ctx, stacks, flags) */
static int prog_get_stackid(int map, int stacks, __u64 flags)
{
	const struct bpf_insn insns[] = {
		LOOKUP_FIRST(map, 6),
		MOV_REG(BPF_REG_1, BPF_REG_6),
		LD_MAP(BPF_REG_2, stacks),
		LD_MAP_REST,
		MOV_IMM(BPF_REG_3, flags),
		CALL(BPF_FUNC_get_stackid),
		STX_DW(BPF_REG_7, 0, BPF_REG_0),
		MOV_IMM(BPF_REG_0, 1),
		EXIT_INSN(),
	};

	return prog_load(BPF_PROG_TYPE_PERF_EVENT, insns, ARRAY_SIZE(insns));
}

/* A program that does not look at stacks. */
static int prog_plain(void)
{
	const struct bpf_insn insns[] = {
		MOV_IMM(BPF_REG_0, 1),
		EXIT_INSN(),
	};

	return prog_load(BPF_PROG_TYPE_PERF_EVENT, insns, ARRAY_SIZE(insns));
}

FIXTURE(bpf) {
	struct session s;
	struct stack_value value;
	int map;
	int stacks;
	int prog;
	/* Only one hit is counted. */
	bool refresh;
	__u64 bp_addr;
	const void *user_ip;
	__u64 want[DEPTH];
};

FIXTURE_VARIANT(bpf) {
	__u64 flags;
	bool kernel;
};

/* Control: what the helpers have always returned. */
FIXTURE_VARIANT_ADD(bpf, immediate_user) {
};

FIXTURE_VARIANT_ADD(bpf, immediate_kernel) {
	.kernel = true,
};

FIXTURE_VARIANT_ADD(bpf, deferred_user) {
	.flags = BOTH,
};

FIXTURE_VARIANT_ADD(bpf, deferred_kernel) {
	.flags = BOTH,
	.kernel = true,
};

FIXTURE_SETUP(bpf)
{
	struct perf_event_attr attr;

	if (variant->flags) {
		const char *why = defer_unsupported();

		if (why)
			SKIP(return, "%s", why);
	}
	if (!HAVE_KNOWN_STACK)
		SKIP(return, "no known-stack code for this architecture");
	self->map = map_create(BPF_MAP_TYPE_ARRAY, sizeof(self->value), 1);
	if (self->map < 0)
		SKIP(return, "bpf(BPF_MAP_CREATE): %s", strerror(errno));
	self->stacks = map_create(BPF_MAP_TYPE_STACK_TRACE, DEPTH * 8, 16);
	if (self->stacks < 0)
		SKIP(return, "no stack trace map: %s", strerror(errno));
	self->prog = -1;

	/*
	 * A breakpoint hits exactly once and at a known place: in user space,
	 * or, in NMI context, in a system call.
	 */
	if (variant->kernel) {
		self->bp_addr = kallsyms("__x64_sys_getpgid");
		if (!self->bp_addr)
			SKIP(return, "no address of __x64_sys_getpgid");
		self->user_ip = walk_syscall_ip;
	} else {
		self->bp_addr = (__u64)walk_nop;
		self->user_ip = walk_nop;
	}
	attr = event_attr_breakpoint(self->bp_addr, variant->flags);
	if (session_open(&self->s, &attr, 0, -1, SESSION_PAGES))
		SKIP(return, "no execution breakpoint: %s", strerror(errno));
}

FIXTURE_TEARDOWN(bpf)
{
	session_close(&self->s);
	close(self->prog);
	close(self->stacks);
	close(self->map);
}

/*
 * The helpers copy from the sample's chain where there is one, and have always
 * shown the context marker that begins the part.  Returns the length without it.
 */
static int strip_marker(__u64 *ips, int nr, __u64 marker)
{
	if (nr < 1 || ips[0] != marker)
		return nr;
	memmove(ips, ips + 1, (nr - 1) * sizeof(*ips));
	ips[nr - 1] = 0;
	return nr - 1;
}

/*
 * One hit with the program attached.  Compares the chain of the sample, leaves
 * what the program has seen in self->value and returns the chain's length.
 */
static int run(struct __test_metadata *_metadata, FIXTURE_DATA(bpf) *self,
	       const FIXTURE_VARIANT(bpf) *variant, bool deferred)
{
	const __u64 *chain = NULL;
	struct defer_stats st;
	int nr, nr_want;

	ASSERT_LE(0, self->prog);
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_BPF,
			   self->prog)) {
		TH_LOG("%s", strerror(errno));
	}
	ASSERT_EQ(0, self->refresh ? ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_REFRESH, 1) :
				     session_enable(&self->s));
	if (variant->kernel)
		known_walk_syscall(ID, BITS, __NR_getpgid, 0, 0);
	else
		walk_top(ID, BITS, walk_nop, 0, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(deferred, st.deferred);
	EXPECT_EQ(deferred, st.records);
	nr = defer_user_chain(&self->s.log,
			      log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0),
			      &chain);
	nr_want = known_expect(self->want, ID, BITS, self->user_ip);
	EXPECT_TRUE(stack_same(chain, nr, self->want, nr_want));
	ASSERT_EQ(0, map_lookup(self->map, 0, &self->value));
	return nr_want;
}

TEST_F(bpf, get_stack_user)
{
	int nr, nr_want;

	self->prog = prog_get_stack(self->map, BPF_F_USER_STACK);
	nr_want = run(_metadata, self, variant, false);
	ASSERT_LT(0, self->value.ret);
	nr = strip_marker(self->value.ips, self->value.ret / 8,
			  PERF_CONTEXT_USER);
	EXPECT_TRUE(stack_same(self->value.ips, nr, self->want, nr_want));
}

TEST_F(bpf, get_stack_kernel)
{
	int i, nr;

	self->prog = prog_get_stack(self->map, 0);
	run(_metadata, self, variant, false);
	if (!variant->kernel) {
		/* The breakpoint is in user mode: there is no kernel stack. */
		EXPECT_GE(0, self->value.ret);
		return;
	}
	nr = strip_marker(self->value.ips, self->value.ret / 8,
			  PERF_CONTEXT_KERNEL);
	ASSERT_LT(1, nr);
	EXPECT_EQ(self->bp_addr, self->value.ips[0]);
	for (i = 0; i < nr; i++) {
		EXPECT_LT(1ULL << 63, self->value.ips[i]);
		EXPECT_GT(PERF_CONTEXT_MAX, self->value.ips[i]) {
			stack_dump("kernel stack", self->value.ips, nr);
		}
	}
}

TEST_F(bpf, get_stackid_user)
{
	__u64 ips[DEPTH] = {};
	int nr_want;

	self->prog = prog_get_stackid(self->map, self->stacks,
				      BPF_F_USER_STACK);
	nr_want = run(_metadata, self, variant, false);
	ASSERT_LE(0, self->value.ret);
	ASSERT_EQ(0, map_lookup(self->stacks, self->value.ret, ips));
	strip_marker(ips, DEPTH, PERF_CONTEXT_USER);
	EXPECT_TRUE(stack_same(ips, nr_want, self->want, nr_want));
	EXPECT_EQ(0, ips[nr_want]);
}

TEST_F(bpf, get_stackid_kernel)
{
	__u64 ips[DEPTH] = {};
	int i;

	self->prog = prog_get_stackid(self->map, self->stacks, 0);
	run(_metadata, self, variant, false);
	if (!variant->kernel) {
		EXPECT_GT(0, self->value.ret);
		return;
	}
	ASSERT_LE(0, self->value.ret);
	ASSERT_EQ(0, map_lookup(self->stacks, self->value.ret, ips));
	strip_marker(ips, DEPTH, PERF_CONTEXT_KERNEL);
	EXPECT_EQ(self->bp_addr, ips[0]);
	for (i = 0; i < DEPTH && ips[i]; i++) {
		EXPECT_LT(1ULL << 63, ips[i]);
		EXPECT_GT(PERF_CONTEXT_MAX, ips[i]);
	}
	EXPECT_LT(1, i);
}

/* Deferral goes on where the program does not ask for stacks. */
TEST_F(bpf, program_without_stack_helper)
{
	self->prog = prog_plain();
	run(_metadata, self, variant, variant->flags);
}

/* The program gets the last sample before it is counted: no record could follow. */
TEST_F(bpf, last_of_refresh_is_immediate)
{
	self->prog = prog_plain();
	self->refresh = true;
	run(_metadata, self, variant, false);
}

TEST_HARNESS_MAIN
