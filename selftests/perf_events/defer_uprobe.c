// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains and uprobes: a probe at a function's entry sees the
 * caller, and the return addresses that a uretprobe has replaced are shown as
 * what they were.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/known_stack.h"
#include "lib/session.h"
#include "lib/uprobe.h"

#define BITS	8
#define ID	0xb4

#ifdef __x86_64__
/*
 * Functions with the three usual prologues, and one that makes a system call.
 */
asm("	.pushsection .text, \"ax\"\n"
"	.balign 16\n"
"probe_push:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"probe_push_mid:\n"
"	nop\n"
"	pop	%rbp\n"
"	ret\n"
"	.balign 16\n"
"probe_endbr:\n"
"	endbr64\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	nop\n"
"	pop	%rbp\n"
"	ret\n"
"	.balign 16\n"
"probe_nop:\n"
"	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	nop\n"
"	pop	%rbp\n"
"	ret\n"
"	.balign 16\n"
"probe_syscall:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	mov	%rdi, %rax\n"
"	xor	%edi, %edi\n"
"	syscall\n"
"probe_syscall_ip:\n"
"	pop	%rbp\n"
"	ret\n"
/* A tail call: both functions have the same return address on the stack. */
"	.balign 16\n"
"probe_tail:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	pop	%rbp\n"
"	jmp	probe_syscall\n"
/* probe_jump(sp, bp): leave all frames up to the one given, as longjmp() does */
"	.balign 16\n"
"probe_jump:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	mov	%rdi, %rsp\n"
"	mov	%rsi, %rbp\n"
"	ret\n"
/*
 * probe_outer(): calls walk_jump(sp, bp), which jumps to probe_outer_ret. Then makes a
 * system call.
 */
"	.balign 16\n"
"probe_outer:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	mov	%rdi, %rax\n"
"	lea	-8(%rsp), %rdi\n"
"	mov	%rbp, %rsi\n"
"	call	walk_jump\n"
"probe_outer_ret:\n"
"	mov	$121, %eax\n"
"	xor	%edi, %edi\n"
"	syscall\n"
"probe_outer_ip:\n"
"	pop	%rbp\n"
"	ret\n"
/* Three frames deeper, then jump out of all of them. */
"	.balign 16\n"
"walk_jump:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	call	walk_jump2\n"
"	pop	%rbp\n"
"	ret\n"
"walk_jump2:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	call	probe_jump\n"
"	pop	%rbp\n"
"	ret\n"
"	.popsection\n"
);
#endif

extern char probe_push[], probe_push_mid[], probe_endbr[], probe_nop[];
extern char probe_syscall[], probe_syscall_ip[], probe_tail[];
extern char probe_outer[], probe_outer_ret[], probe_outer_ip[], walk_jump2[];

FIXTURE(uprobe) {
	struct session s;
	struct session ret;
	__u64 want[256];
};

FIXTURE_VARIANT(uprobe) {
	__u64 flags;
};

/* Control: the kernel has always reported the expected stacks. */
FIXTURE_VARIANT_ADD(uprobe, immediate) {
};

FIXTURE_VARIANT_ADD(uprobe, deferred) {
	.flags = BOTH,
};

FIXTURE_SETUP(uprobe)
{
	if (variant->flags) {
		const char *why = defer_unsupported();

		if (why)
			SKIP(return, "%s", why);
	}
	if (!HAVE_KNOWN_STACK)
		SKIP(return, "no known-stack code for this architecture");
	if (pmu_type("uprobe") < 0)
		SKIP(return, "no uprobe events (CONFIG_UPROBE_EVENTS)");
}

FIXTURE_TEARDOWN(uprobe)
{
	session_close(&self->ret);
	session_close(&self->s);
}

/*
 * Tests without a control: their immediate chains were wrong before.
 */
FIXTURE(uprobe_deferred) {
	struct session s;
	struct session ret;
	__u64 want[256];
};

FIXTURE_SETUP(uprobe_deferred)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	if (pmu_type("uprobe") < 0)
		SKIP(return, "no uprobe events (CONFIG_UPROBE_EVENTS)");
}

FIXTURE_TEARDOWN(uprobe_deferred)
{
	session_close(&self->ret);
	session_close(&self->s);
}

/*
 * One sample, at "ip" in fn: whether it was deferred or not, the stack is ip,
 * fn's caller, the caller's callers.
 */
static void check_entry(struct __test_metadata *_metadata,
			struct session *s, __u64 flags, const char *fn,
			const char *ip)
{
	__u64 want[BITS + 3];
	struct perf_event_attr attr;
	const __u64 *ips = NULL;
	struct defer_stats st;
	int nr, nr_want;

	ASSERT_EQ(0, uprobe_attr(&attr, ip, false, flags));
	ASSERT_EQ(0, session_open(s, &attr, 0, -1, SESSION_PAGES)) {
		TH_LOG("%s", strerror(errno));
	}
	ASSERT_EQ(0, session_enable(s));
	known_walk_call(ID, BITS, fn, NULL);
	ASSERT_EQ(0, session_finish(s));
	st = defer_conserve(&s->log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	nr = defer_user_chain(&s->log,
			      log_nth(&s->log, PERF_RECORD_SAMPLE, 0),
			      &ips);
	want[0] = (__u64)ip;
	nr_want = 1 + known_expect(want + 1, ID, BITS, walk_call_ret);
	EXPECT_TRUE(stack_same(ips, nr, want, nr_want));
}

TEST_F(uprobe, entry_push)
{
	check_entry(_metadata, &self->s, variant->flags, probe_push, probe_push);
}

TEST_F(uprobe_deferred, entry_endbr)
{
	check_entry(_metadata, &self->s, BOTH, probe_endbr, probe_endbr);
}

TEST_F(uprobe_deferred, entry_nop)
{
	check_entry(_metadata, &self->s, BOTH, probe_nop, probe_nop);
}

/* After the prologue: the caller must not be there twice. */
TEST_F(uprobe, mid_function)
{
	check_entry(_metadata, &self->s, variant->flags, probe_push, probe_push_mid);
}

/* Uretprobes */

/*
 * Every frame of the walk returns through the trampoline; the sample, taken in
 * a system call inside, has to show the true return addresses.
 */
static void check_nested(struct __test_metadata *_metadata,
			 struct session *s, struct session *ret,
			 __u64 flags, unsigned int bits)
{
	__u64 want[128];
	struct perf_event_attr attr;
	const __u64 *ips = NULL;
	struct defer_stats st;
	int nr, nr_want;

	ASSERT_EQ(0, uprobe_attr(&attr, walk_step, true, 0));
	ASSERT_EQ(0, session_open(ret, &attr, 0, -1,
				  SESSION_PAGES)) {
		TH_LOG("%s", strerror(errno));
	}
	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  flags);
	ASSERT_EQ(0, session_open(s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(ret));
	ASSERT_EQ(0, session_enable(s));
	known_walk_syscall(ID, bits, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, session_finish(ret));
	ASSERT_EQ(0, session_finish(s));
	/* The probes must have been hit, else this shows nothing. */
	EXPECT_LT(0, log_count(&ret->log, PERF_RECORD_SAMPLE));
	st = defer_conserve(&s->log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(!!flags, st.deferred);
	nr = defer_user_chain(&s->log,
			      log_nth(&s->log, PERF_RECORD_SAMPLE, 0),
			      &ips);
	nr_want = known_expect(want, ID, bits, walk_syscall_ip);
	EXPECT_TRUE(stack_same(ips, nr, want, nr_want));
}

TEST_F(uprobe, return_addresses)
{
	check_nested(_metadata, &self->s, &self->ret, variant->flags, BITS);
}

/* More frames than a task may have return probes: the others are not replaced. */
TEST_F(uprobe, return_addresses_beyond_limit)
{
	check_nested(_metadata, &self->s, &self->ret, variant->flags, 100);
}

/*
 * longjmp() out of a probed function leaves an instance behind that is not on
 * the stack any more; the walk must not use it for a return address further out.
 */
TEST_F(uprobe_deferred, return_addresses_after_longjmp)
{
	struct perf_event_attr attr;
	struct defer_stats st;
	const __u64 *ips = NULL;
	int nr, nr_want;

	ASSERT_EQ(0, uprobe_attr(&attr, probe_outer, true, 0));
	ASSERT_EQ(0, session_open(&self->ret, &attr, 0, -1,
				  SESSION_PAGES));
	ASSERT_EQ(0, uprobe_attr(&attr, walk_jump2, true, 0));
	ASSERT_EQ(0, session_add(&self->ret, &attr));
	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  BOTH);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->ret));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_call(ID, BITS, probe_outer, NULL);
	ASSERT_EQ(0, session_finish(&self->ret));
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_LT(0, log_count(&self->ret.log, PERF_RECORD_SAMPLE));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	nr = defer_user_chain(&self->s.log, &self->s.log.items[0], &ips);
	self->want[0] = (__u64)probe_outer_ip;
	nr_want = 1 + known_expect(self->want + 1, ID, BITS, walk_call_ret);
	EXPECT_TRUE(stack_same(ips, nr, self->want, nr_want));
}

/* Two probed functions, one return address. */
TEST_F(uprobe_deferred, return_address_of_tail_call)
{
	struct perf_event_attr attr;
	const __u64 *ips = NULL;
	struct defer_stats st;
	int nr, nr_want;

	ASSERT_EQ(0, uprobe_attr(&attr, probe_tail, true, 0));
	ASSERT_EQ(0, session_open(&self->ret, &attr, 0, -1,
				  SESSION_PAGES));
	ASSERT_EQ(0, uprobe_attr(&attr, probe_syscall, true, 0));
	ASSERT_EQ(0, session_add(&self->ret, &attr));
	ASSERT_EQ(0, uprobe_attr(&attr, walk_step, true, 0));
	ASSERT_EQ(0, session_add(&self->ret, &attr));
	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  BOTH);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->ret));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_call(ID, BITS, probe_tail, (void *)__NR_getpgid);
	ASSERT_EQ(0, session_finish(&self->ret));
	ASSERT_EQ(0, session_finish(&self->s));
	/* The two, and every step of the walk. */
	EXPECT_EQ(2 + BITS + 1,
		  log_count(&self->ret.log, PERF_RECORD_SAMPLE));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	nr = defer_user_chain(&self->s.log,
			      log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0),
			      &ips);
	self->want[0] = (__u64)probe_syscall_ip;
	nr_want = 1 + known_expect(self->want + 1, ID, BITS, walk_call_ret);
	EXPECT_TRUE(stack_same(ips, nr, self->want, nr_want));
}

/*
 * The sample of the uretprobe itself: taken when the function has returned to
 * the trampoline, it continues at the true return address.
 */
TEST_F(uprobe, sample_of_return_probe)
{
	struct perf_event_attr attr;
	struct defer_stats st;
	const __u64 *ips = NULL;
	int nr, nr_want;

	ASSERT_EQ(0, uprobe_attr(&attr, probe_push, true, variant->flags));
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_call(ID, BITS, probe_push, NULL);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	nr = defer_user_chain(&self->s.log, &self->s.log.items[0], &ips);
	nr_want = known_expect_tail(self->want, ID, BITS);
	ASSERT_LE(nr_want, nr);
	/* The callers are complete, and no address is there twice. */
	EXPECT_TRUE(stack_same(ips + nr - nr_want, nr_want, self->want,
			       nr_want));
	EXPECT_EQ(nr_want + 1, nr) {
		stack_dump("chain", ips, nr);
	}
	EXPECT_EQ((__u64)walk_call_ret, ips[0]);
}

/* Probes and other events at once; every cookie has a record. */
TEST_F_TIMEOUT(uprobe_deferred, conservation_with_probes, 60)
{
	struct perf_event_attr attr;
	const unsigned int nr = 200;
	struct defer_stats st;
	unsigned int i, wrong = 0, checked = 0;

	attr = defer_attr_output();
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, 512));
	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  BOTH);
	ASSERT_EQ(0, session_add(&self->s, &attr));
	ASSERT_EQ(0, uprobe_attr(&attr, walk_step, true, BOTH));
	ASSERT_EQ(0, session_add(&self->s, &attr));
	ASSERT_EQ(0, uprobe_attr(&attr, probe_syscall, false, BOTH));
	ASSERT_EQ(0, session_add(&self->s, &attr));
	attr = event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 500000,
			  BOTH);
	ASSERT_EQ(0, session_add(&self->s, &attr));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++) {
		known_walk_call(i, BITS, probe_syscall, (void *)__NR_getpgid);
		if (i % 32 == 31)
			session_drain(&self->s);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	EXPECT_LE(nr, st.deferred);
	/* Samples of the system call in the middle have exact stacks. */
	for (i = 0; i < self->s.log.nr_items; i++) {
		const struct log_item *it = &self->s.log.items[i];
		const __u64 *ips = NULL;
		unsigned int bits;
		int n;
		__u64 id;

		if (!is_sample(it))
			continue;
		n = defer_user_chain(&self->s.log, it, &ips);
		if (n < 1 || ips[0] != (__u64)probe_syscall_ip)
			continue;
		checked++;
		if (n != BITS + 3 || ips[1] != (__u64)walk_call_ret ||
		    !known_decode(ips + 1, n - 1, &id, &bits)) {
			if (!wrong++)
				stack_dump("wrong", ips, n);
		}
	}
	EXPECT_EQ(0, wrong);
	EXPECT_LE(nr, checked);
}

TEST_HARNESS_MAIN
