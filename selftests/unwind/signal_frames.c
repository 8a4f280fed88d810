// SPDX-License-Identifier: GPL-2.0
/*
 * User stacks of signal handlers: through the trampoline that the handler
 * returns to, into what the signal interrupted, and on to its callers. This test covers
 * code with frame pointers, in all ABIs.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/child.h"
#include "../perf_events/lib/known_stack.h"
#include "lib/sample.h"
#include "lib/sigframe.h"
#include "signal_frames.h"

#ifdef __x86_64__

asm("	.pushsection .text, \"ax\"\n"
/* Interrupted after int3: before the function has a frame, and after it left it. */
"	.type fp_begin, @function\n"
"fp_begin:\n"
"	int3\n"
"fp_begin_ip:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	pop	%rbp\n"
"	ret\n"
"	.type fp_end, @function\n"
"fp_end:\n"
"	int3\n"
"fp_end_ip:\n"
"	ret\n"
/* Ways back from a handler. */
"	.fill	16, 1, 0xcc\n"
"restore_eax:\n"
"	mov	$15, %eax\n"
"	syscall\n"
"	.fill	16, 1, 0xcc\n"
"restore_rax:\n"
/* mov $15, %rax, as the C library has it */
"	.byte	0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0\n"
"	syscall\n"
"	.fill	16, 1, 0xcc\n"
"	.popsection\n"
);

extern const char fp_begin[], fp_begin_ip[], fp_end[], fp_end_ip[];
extern const char restore_eax[], restore_rax[];

FIXTURE(signals) {
	struct session s;
	const void *restorer;
	unsigned long flags;
	__u64 want[64];
	unsigned int nr;
};

FIXTURE_VARIANT(signals) {
	/* NULL: the C library's. */
	const char *restorer;
	enum altstack alt;
};

FIXTURE_VARIANT_ADD(signals, libc) {
};

FIXTURE_VARIANT_ADD(signals, mov_to_eax) {
	.restorer = restore_eax,
};

FIXTURE_VARIANT_ADD(signals, mov_to_rax) {
	.restorer = restore_rax,
};

FIXTURE_VARIANT_ADD(signals, libc_altstack_below) {
	.alt = ALT_LOW,
};

FIXTURE_VARIANT_ADD(signals, libc_altstack_above) {
	.alt = ALT_HIGH,
};

FIXTURE_VARIANT_ADD(signals, mov_to_eax_altstack_above) {
	.restorer = restore_eax,
	.alt = ALT_HIGH,
};

FIXTURE_SETUP(signals)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	self->restorer = variant->restorer ?: libc_restorer();
	ASSERT_NE(NULL, self->restorer);
	self->flags = variant->alt ? SA_ONSTACK : 0;
	fp_pid = getpid();
}

FIXTURE_TEARDOWN(signals)
{
	session_close(&self->s);
}

static void run_walk_call(void *arg)
{
	known_walk_call(ID, BITS, arg, NULL);
}

TEST_F(signals, system_call)
{
	ASSERT_EQ(0, set_handler(SIGUSR1, (__u64)fp_handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, on_altstack(variant->alt, run_walk_kill, NULL));
	want_ip(self->want, &self->nr, fp_handler_ip);
	want_ip(self->want, &self->nr, self->restorer);
	self->nr += known_expect(self->want + self->nr, ID, BITS,
				 walk_syscall_ip);
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

TEST_F(signals, nested)
{
	ASSERT_EQ(0, set_handler(SIGUSR1, (__u64)fp_outer, self->restorer,
				 self->flags));
	ASSERT_EQ(0, set_handler(SIGUSR2, (__u64)fp_handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, on_altstack(variant->alt, run_walk_kill, NULL));
	want_ip(self->want, &self->nr, fp_handler_ip);
	want_ip(self->want, &self->nr, self->restorer);
	want_ip(self->want, &self->nr, fp_outer_ip);
	want_ip(self->want, &self->nr, self->restorer);
	self->nr += known_expect(self->want + self->nr, ID, BITS,
				 walk_syscall_ip);
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

/* The rules for function entries and returns also apply after a signal frame. */
TEST_F(signals, function_without_frame)
{
	static const struct {
		const char *fn;
		const char *ip;
	} fns[] = {
		{ fp_begin, fp_begin_ip },
		{ fp_end, fp_end_ip },
	};
	unsigned int i, nr;

	ASSERT_EQ(0, set_handler(SIGTRAP, (__u64)fp_handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	for (i = 0; i < ARRAY_SIZE(fns); i++) {
		ASSERT_EQ(0, on_altstack(variant->alt, run_walk_call,
					 (void *)fns[i].fn));
		nr = 0;
		want_ip(self->want, &nr, fp_handler_ip);
		want_ip(self->want, &nr, self->restorer);
		want_ip(self->want, &nr, fns[i].ip);
		nr += known_expect(self->want + nr, ID, BITS, walk_call_ret);
		ASSERT_EQ(0, session_wait(&self->s, i + 1, 5));
		EXPECT_TRUE(is_stack(&self->s, i, self->want, nr)) {
			TH_LOG("function %u", i);
		}
	}
}

/* The same handler many times, in one session. */
TEST_F(signals, many_times)
{
	const unsigned int rounds = 50;
	unsigned int i;

	ASSERT_EQ(0, set_handler(SIGUSR1, (__u64)fp_handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	for (i = 0; i < rounds; i++)
		ASSERT_EQ(0, on_altstack(variant->alt, run_walk_kill, NULL));
	want_ip(self->want, &self->nr, fp_handler_ip);
	want_ip(self->want, &self->nr, self->restorer);
	self->nr += known_expect(self->want + self->nr, ID, BITS,
				 walk_syscall_ip);
	EXPECT_STACKS(&self->s, rounds, self->want, self->nr);
}

/* Other ABIs */

FIXTURE(compat) {
	struct session s;
	struct compat_addrs addrs;
	pid_t pid;
	int to;
	int from;
};

FIXTURE_VARIANT(compat) {
	const char *program;
};

FIXTURE_VARIANT_ADD(compat, i386) {
	.program = "signal_frames_i386",
};

FIXTURE_VARIANT_ADD(compat, x32) {
	.program = "signal_frames_x32",
};

FIXTURE_SETUP(compat)
{
	const char *path = beside(variant->program);
	const char *why = defer_unsupported();
	ssize_t n;

	self->pid = -1;
	self->to = -1;
	self->from = -1;
	if (why)
		SKIP(return, "%s", why);
	if (access(path, X_OK))
		SKIP(return, "no %s (compiler without -m32 or -mx32?)",
		     variant->program);

	self->pid = child_exec(path, &self->to, &self->from);
	ASSERT_LE(0, self->pid);
	n = read(self->from, &self->addrs, sizeof(self->addrs));
	if (n != sizeof(self->addrs)) {
		int status = -1;

		ASSERT_EQ(0, child_wait(self->pid, &status, 10, NULL));
		self->pid = -1;
		ASSERT_EQ(127, WEXITSTATUS(status));
		SKIP(return, "the kernel does not run %s", variant->program);
	}
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

TEST_F(compat, stacks)
{
	const struct compat_addrs *a = &self->addrs;
	struct perf_event_attr attr;
	struct compat_result result;
	__u64 want[COMPAT_BITS + 4];
	unsigned int i, bit, n;
	struct defer_stats st;
	char filter[32];
	int status = -1;

	attr = sample_attr(TRACEPOINT_ID("raw_syscalls/sys_enter"));
	ASSERT_EQ(0, session_open(&self->s, &attr, self->pid, -1,
				  SESSION_PAGES));
	snprintf(filter, sizeof(filter), "id == %u", a->sampled_nr);
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER,
			   filter));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(1, write(self->to, "", 1));
	ASSERT_EQ(sizeof(result), read(self->from, &result, sizeof(result)));
	ASSERT_EQ(0, child_wait(self->pid, &status, 15, NULL));
	self->pid = -1;
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_LT(0, a->nr_cases);
	ASSERT_EQ(a->nr_cases, st.samples);
	for (i = 0; i < a->nr_cases; i++) {
		n = 0;
		want[n++] = a->handler_ip;
		want[n++] = result.restorer[i];
		want[n++] = a->syscall_ip;
		for (bit = COMPAT_BITS; bit--; )
			want[n++] = (i >> bit) & 1 ? a->ret1 : a->ret0;
		want[n++] = a->top_ret;
		EXPECT_TRUE(is_stack(&self->s, i, want, n)) {
			TH_LOG("case %u", i);
		}
	}
}

#else /* !__x86_64__ */

TEST(signal_frames)
{
	SKIP(return, "no known-stack code for this architecture");
}

#endif

TEST_HARNESS_MAIN
