// SPDX-License-Identifier: GPL-2.0
/*
 * User stacks of signal handlers: through the trampoline that the handler
 * returns to, into what the signal interrupted, and on to its callers.  Here
 * for code with frame pointers, in all ABIs; see sframe_signal for SFrame.
 */
#define _GNU_SOURCE
#define SIGNAL_FRAMES_TEST
#include "../perf_events/defer.h"
#include "signal_frames.h"
#include "../kselftest_harness.h"

#ifdef __x86_64__

#define BOTH	(DEFER_ATTR_CALLCHAIN | DEFER_ATTR_OUTPUT)

asm("	.pushsection .text, \"ax\"\n"
/* Interrupted behind the trap: before there is a frame, and after it. */
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

static struct perf_event_attr sample_attr(long tracepoint)
{
	return defer_attr(PERF_TYPE_TRACEPOINT, tracepoint, 1, BOTH);
}

#define SESSION_OPEN(s) do {						\
	struct perf_event_attr __attr;					\
									\
	__attr = sample_attr(DEFER_TRACEPOINT("syscalls/sys_enter_getpgid")); \
	ASSERT_EQ(0, defer_session_open(s, &__attr, 0, -1, DEFER_PAGES)); \
	ASSERT_EQ(0, defer_enable(s));					\
} while (0)

static bool
is_stack(struct defer_session *s, unsigned int i, const __u64 *want,
	 unsigned int nr_want)
{
	const __u64 *ips = NULL;
	const struct defer_item *it;
	int nr = -1;

	it = defer_nth(&s->log, PERF_RECORD_SAMPLE, i);
	if (it && it->cookie)
		nr = defer_user_chain(&s->log, it, &ips);
	return defer_same(ips, nr, want, nr_want);
}

/* All samples so far must have the stack "want". */
#define EXPECT_STACKS(s, count, want, nr_want) do {			\
	unsigned int __i, __n = count;					\
	struct defer_stats __st;					\
									\
	ASSERT_EQ(0, defer_finish(s));					\
	__st = defer_conserve(&(s)->log);				\
	EXPECT_CONSERVED(&__st);					\
	ASSERT_EQ(__n, __st.samples);					\
	for (__i = 0; __i < __n; __i++)					\
		EXPECT_TRUE(is_stack(s, __i, want, nr_want));		\
} while (0)

FIXTURE(signals) {
	struct defer_session s;
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
	defer_session_close(&self->s);
}

static void run_walk_call(void *arg)
{
	defer_walk_call(ID, BITS, arg, NULL);
}

TEST_F(signals, system_call)
{
	ASSERT_EQ(0, set_handler(SIGUSR1, (__u64)fp_handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, on_altstack(variant->alt, run_walk_kill, NULL));
	want_ip(self->want, &self->nr, fp_handler_ip);
	want_ip(self->want, &self->nr, self->restorer);
	self->nr += defer_expect(self->want + self->nr, ID, BITS,
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
	self->nr += defer_expect(self->want + self->nr, ID, BITS,
				 walk_syscall_ip);
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

/* What the unwinder knows of functions' begins and ends holds here, too. */
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
		nr += defer_expect(self->want + nr, ID, BITS, walk_call_ret);
		ASSERT_EQ(0, defer_wait_samples(&self->s, i + 1, 5));
		EXPECT_TRUE(is_stack(&self->s, i, self->want, nr)) {
			TH_LOG("function %u", i);
		}
	}
}

/* A handler like any other, of any length of stack: several at once. */
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
	self->nr += defer_expect(self->want + self->nr, ID, BITS,
				 walk_syscall_ip);
	EXPECT_STACKS(&self->s, rounds, self->want, self->nr);
}

/* ---- other ABIs --------------------------------------------------------------------- */

FIXTURE(compat) {
	struct defer_session s;
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
	char path[PATH_MAX + 32], dir[PATH_MAX];
	const char *why = defer_unsupported();
	int in[2], out[2];
	ssize_t n;
	char *end;

	self->pid = -1;
	self->to = -1;
	self->from = -1;
	if (why)
		SKIP(return, "%s", why);
	n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	ASSERT_LT(0, n);
	dir[n] = '\0';
	end = strrchr(dir, '/');
	ASSERT_NE(NULL, end);
	*end = '\0';
	snprintf(path, sizeof(path), "%s/%s", dir, variant->program);
	if (access(path, X_OK))
		SKIP(return, "no %s (the compiler cannot make it?)",
		     variant->program);

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
		SKIP(return, "the kernel does not run %s", variant->program);
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

	attr = sample_attr(DEFER_TRACEPOINT("raw_syscalls/sys_enter"));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, self->pid, -1,
					DEFER_PAGES));
	snprintf(filter, sizeof(filter), "id == %u", a->sampled_nr);
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER,
			   filter));
	ASSERT_EQ(0, defer_enable(&self->s));
	ASSERT_EQ(1, write(self->to, "", 1));
	ASSERT_EQ(sizeof(result), read(self->from, &result, sizeof(result)));
	ASSERT_EQ(0, defer_wait(self->pid, &status, 15, NULL));
	self->pid = -1;
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, defer_finish(&self->s));
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
