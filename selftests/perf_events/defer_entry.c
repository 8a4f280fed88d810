// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains inside one kernel entry: several requests, requests
 * after the record was written, registers that change before the walk.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "lib/child.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/known_stack.h"
#include "lib/session.h"
#include "lib/sigaction.h"

#define BITS	9
#define ID	0x135

FIXTURE(entry) {
	struct session s;
	__u64 want[128];
};

FIXTURE_SETUP(entry)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(entry)
{
	session_close(&self->s);
}

/*
 * Sleep in a system call with this stack.  On a busy machine the time may be over before
 * the task sleeps, so the call is repeated until it did.
 */
static int known_sleep(unsigned int id)
{
	struct timespec ts = { .tv_nsec = 2000000 };
	struct rusage before, after;
	int tries;

	for (tries = 0; tries < 100; tries++) {
		if (getrusage(RUSAGE_THREAD, &before))
			return -1;
		known_walk_syscall(id, BITS, __NR_nanosleep, (long)&ts, 0);
		if (getrusage(RUSAGE_THREAD, &after))
			return -1;
		if (after.ru_nvcsw != before.ru_nvcsw)
			return 0;
	}
	return -1;
}

/* Open the first event of a session on this task, or add one to it. */
#define EVENT(attr_expr) do {						\
	struct perf_event_attr __attr = attr_expr;			\
									\
	if (!self->s.nr_bufs) {						\
		ASSERT_EQ(0, session_open(&self->s, &__attr, 0, -1, \
					  SESSION_PAGES));		\
	} else {							\
		ASSERT_EQ(0, session_add(&self->s, &__attr));		\
	}								\
} while (0)

#define TRACEPOINT(name)	EVENT(tp_attr(TRACEPOINT_ID(name), BOTH))

#define SAMPLE(i)	log_nth(&self->s.log, PERF_RECORD_SAMPLE, i)

#define EXPECT_STACK(sample, id, leaf) do {				\
	const __u64 *__ips = NULL;					\
	int __nr = defer_user_chain(&self->s.log, sample, &__ips);	\
	int __want = known_expect(self->want, id, BITS, leaf);		\
									\
	EXPECT_TRUE(stack_same(__ips, __nr, self->want, __want));	\
} while (0)

static int nr_signals;

static void on_signal(int sig)
{
	__atomic_fetch_add(&nr_signals, 1, __ATOMIC_RELAXED);
}

/* Samples that come late */

/*
 * Signal delivery first runs task work, hence writes the record, and then
 * reaches signal_deliver, still in the same kernel entry.  The stack is the same,
 * so that sample gets the same cookie, and there is no second record.
 */
TEST_F(entry, sample_after_the_record)
{
	const unsigned int nr = 20;
	struct defer_stats st;
	unsigned int i;

	TRACEPOINT("syscalls/sys_enter_kill");
	TRACEPOINT("signal/signal_deliver");
	ASSERT_NE(SIG_ERR, signal(SIGUSR1, on_signal));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++)
		known_walk_syscall(i, BITS, __NR_kill, getpid(), SIGUSR1);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(nr, nr_signals);
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(2 * nr, st.samples);
	EXPECT_EQ(2 * nr, st.deferred);
	EXPECT_EQ(nr, st.cookies);
	EXPECT_EQ(nr, st.records);
	EXPECT_EQ(nr, st.late);
	for (i = 0; i < 2 * nr; i++)
		EXPECT_STACK(SAMPLE(i), i / 2, walk_syscall_ip);
}

/*
 * The tracepoint comes after the task work on the way to user mode.  A request there
 * runs the work again, and with it the tracepoint. It must not run a third time.
 */
TEST_F(entry, sample_after_the_task_work)
{
	const unsigned int nr = 20;
	struct rusage before, after;
	unsigned long switches;
	struct defer_stats st;
	unsigned int i;
	long tp;

	tp = tracepoint_id("rseq/rseq_update");
	if (tp < 0)
		SKIP(return, "no tracepoint rseq_update (CONFIG_RSEQ?)");
	EVENT(tp_attr(tp, BOTH));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, getrusage(RUSAGE_SELF, &before));
	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, known_sleep(i));
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(0, getrusage(RUSAGE_SELF, &after));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	if (!st.samples)
		SKIP(return, "the C library has not registered rseq");
	EXPECT_EQ(0, st.lost);
	EXPECT_LE(nr, st.cookies);
	EXPECT_EQ(st.samples, st.deferred);
	/* Two for each time that the task has slept or was preempted, and a margin. */
	switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw;
	TH_LOG("%lu switches", switches);
	EXPECT_GE(4 * (switches + 1), st.samples);
}

/* Buffers that lack the record */

static void stop_in_kernel(void *arg)
{
	if (signal(SIGCONT, on_signal) == SIG_ERR || pin_to_cpu(0))
		_exit(1);
	/* First the record is written, then the task stops in the same entry. */
	known_walk_syscall(ID, BITS, __NR_kill, getpid(), SIGSTOP);
}

/*
 * A sample in a session that did not receive the record, because it started later or is
 * on another CPU: this session gets the record, too.
 */
static void check_second_session(struct __test_metadata *_metadata,
				 FIXTURE_DATA(entry) *self, bool later)
{
	struct session second = {};
	struct child child;
	struct perf_event_attr attr;
	struct defer_stats st;
	cpu_set_t set;
	int status;

	if (!later && sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, child_spawn(&child, stop_in_kernel, NULL));
	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_kill"), BOTH);
	ASSERT_EQ(0, session_open(&self->s, &attr, child.pid, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	attr = tp_attr(TRACEPOINT_ID("signal/signal_deliver"), BOTH);
	if (!later) {
		ASSERT_EQ(0, session_open(&second, &attr, child.pid, 1,
					  SESSION_PAGES));
		ASSERT_EQ(0, session_enable(&second));
	}
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(child.pid, waitpid(child.pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	if (later) {
		ASSERT_EQ(0, session_open(&second, &attr, child.pid, -1,
					  SESSION_PAGES));
		ASSERT_EQ(0, session_enable(&second));
	} else {
		CPU_ZERO(&set);
		CPU_SET(1, &set);
		ASSERT_EQ(0, sched_setaffinity(child.pid, sizeof(set), &set));
	}
	ASSERT_EQ(0, kill(child.pid, SIGCONT));
	ASSERT_EQ(0, child_wait(child.pid, &status, 30, NULL));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(1, st.deferred);
	ASSERT_EQ(0, session_finish(&second));
	st = defer_conserve(&second.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	EXPECT_EQ(1, st.records);
	EXPECT_EQ(0, st.missing);
	session_close(&second);
}

TEST_F(entry, session_that_comes_later)
{
	check_second_session(_metadata, self, true);
}

TEST_F(entry, session_on_another_cpu)
{
	check_second_session(_metadata, self, false);
}

/* Registers that change */

/*
 * Several late samples: the first has the system call's stack, which was delivered;
 * the others have other stacks, each with a cookie and a record of its own.
 */
TEST_F(entry, several_rounds)
{
	static const int sigs[] = { SIGUSR1, SIGUSR2, SIGALRM, SIGTERM };
	unsigned int i, n = ARRAY_SIZE(sigs);
	sigset_t set, empty;
	struct defer_stats st;

	TRACEPOINT("syscalls/sys_enter_rt_sigsuspend");
	TRACEPOINT("signal/signal_deliver");
	sigemptyset(&empty);
	sigemptyset(&set);
	for (i = 0; i < n; i++) {
		ASSERT_NE(SIG_ERR, signal(sigs[i], on_signal));
		sigaddset(&set, sigs[i]);
	}
	ASSERT_EQ(0, sigprocmask(SIG_BLOCK, &set, NULL));
	for (i = 0; i < n; i++)
		ASSERT_EQ(0, raise(sigs[i]));
	ASSERT_EQ(0, session_enable(&self->s));
	/* All of them are delivered in this one entry. */
	known_walk_syscall(ID, BITS, __NR_rt_sigsuspend, (long)&empty, 8);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(n, nr_signals);
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(n + 1, st.samples);
	EXPECT_EQ(SAMPLE(0)->cookie, SAMPLE(1)->cookie);
	EXPECT_EQ(1, st.late);
	EXPECT_EQ(st.cookies, st.records);
	/* The first two see the system call's registers. */
	EXPECT_STACK(SAMPLE(0), ID, walk_syscall_ip);
	EXPECT_STACK(SAMPLE(1), ID, walk_syscall_ip);
	for (i = 2; i < st.samples; i++) {
		const __u64 *ips = NULL;

		/* The others see the registers of a handler. */
		ASSERT_LT(0, defer_user_chain(&self->s.log, SAMPLE(i), &ips));
		EXPECT_EQ((__u64)on_signal, ips[0]);
	}
}

/* The stack is the one at the request */

/*
 * The request is made in signal_deliver, then the handler's frame is set up and
 * the registers become the handler's, and only then the walk runs.
 */
TEST_F(entry, registers_of_the_request_signal)
{
	const unsigned int nr = 20;
	struct defer_stats st;
	unsigned int i;

	TRACEPOINT("signal/signal_deliver");
	ASSERT_NE(SIG_ERR, signal(SIGUSR1, on_signal));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++)
		known_walk_syscall(i, BITS, __NR_kill, getpid(), SIGUSR1);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(nr, nr_signals);
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(nr, st.samples);
	EXPECT_EQ(nr, st.deferred);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < nr; i++)
		EXPECT_STACK(SAMPLE(i), i, walk_syscall_ip);
}

#ifdef __x86_64__
asm("	.pushsection .text, \"ax\"\n"
"defer_restorer:\n"
"	mov	$15, %eax\n"
"	syscall\n"
"defer_restorer_ip:\n"
"	ud2\n"
"	.popsection\n"
);
#endif
extern char defer_restorer[], defer_restorer_ip[];

/* rt_sigreturn replaces all registers; the request saw those before it. */
TEST_F(entry, registers_of_the_request_sigreturn)
{
	struct kernel_sigaction sa = {
		.handler = on_signal,
		.flags = SA_RESTORER,
		.restorer = defer_restorer,
	};
	const __u64 *ips = NULL;
	struct defer_stats st;
	int nr, nr_want;

	TRACEPOINT("syscalls/sys_enter_rt_sigreturn");
	ASSERT_EQ(0, syscall(__NR_rt_sigaction, SIGUSR1, &sa, NULL, 8));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_syscall(ID, BITS, __NR_kill, getpid(), SIGUSR1);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(1, nr_signals);
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	nr = defer_user_chain(&self->s.log, SAMPLE(0), &ips);
	ASSERT_LT(0, nr);
	/*
	 * The frame pointer is already the interrupted code's; whether the
	 * interrupted instruction is seen depends on the unwinder's knowledge
	 * of signal frames.
	 */
	EXPECT_EQ((__u64)defer_restorer_ip, ips[0]);
	nr_want = known_expect_tail(self->want, ID, BITS);
	ASSERT_LT(nr_want, nr);
	EXPECT_TRUE(stack_same(ips + nr - nr_want, nr_want, self->want,
			       nr_want));
}

/*
 * Two samples of one rt_sigreturn, one before and one after it has replaced the
 * registers.  The stack of the first is not that of the second, which has an immediate
 * callchain.
 */
TEST_F(entry, other_registers_do_not_join)
{
	struct kernel_sigaction sa = {
		.handler = on_signal,
		.flags = SA_RESTORER,
		.restorer = defer_restorer,
	};
	const __u64 *ips = NULL;
	struct defer_stats st;

	TRACEPOINT("syscalls/sys_enter_rt_sigreturn");
	TRACEPOINT("raw_syscalls/sys_exit");
	/* On return, rt_sigreturn no longer has its system call number. */
	ASSERT_EQ(0, ioctl(self->s.bufs[0].extra[0], PERF_EVENT_IOC_SET_FILTER,
			   "id == -1"));
	ASSERT_EQ(0, syscall(__NR_rt_sigaction, SIGUSR1, &sa, NULL, 8));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_syscall(ID, BITS, __NR_kill, getpid(), SIGUSR1);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(1, nr_signals);
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(2, st.samples);
	EXPECT_EQ(1, st.deferred);
	EXPECT_EQ(1, st.immediate);
	ASSERT_LT(0, defer_user_chain(&self->s.log, SAMPLE(0), &ips));
	EXPECT_EQ((__u64)defer_restorer_ip, ips[0]);
	EXPECT_STACK(SAMPLE(1), ID, walk_syscall_ip);
}

/* On the last steps to user mode */

/*
 * switch_fpu_return() is called when the exit work has been looked at for the last
 * time.  By the next entry into the kernel the stack is another one.
 */
TEST_F(entry, sample_on_the_last_steps)
{
	static const char function[] = "switch_fpu_return";
	const unsigned int nr = 20;
	struct perf_event_attr attr;
	unsigned int i, next = 0, whole = 0;
	struct defer_stats st;
	long type;

	type = pmu_type("kprobe");
	if (type < 0)
		SKIP(return, "no kprobe PMU (CONFIG_KPROBE_EVENTS?)");
	attr = event_attr(type, 0, 1, BOTH);
	attr.kprobe_func = (__u64)function;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++) {
		ASSERT_EQ(0, known_sleep(i));
		/* Overwrite the stack with other return addresses. */
		known_walk_spin(~0ULL, BITS, 1000);
		known_walk_syscall(~0ULL, BITS, __NR_getpgid, 0, 0);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(st.samples, st.deferred);
	/* A sleep may go without a sample; a sample may be of a preemption. */
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;
		unsigned int sleep;
		int n, want;

		n = defer_user_chain(&self->s.log, SAMPLE(i), &ips);
		for (sleep = next; sleep < nr; sleep++) {
			want = known_expect(self->want, sleep, BITS,
					    walk_syscall_ip);
			if (n == want && !memcmp(ips, self->want, n * sizeof(*ips)))
				break;
		}
		if (sleep < nr) {
			next = sleep + 1;
			whole++;
		}
	}
	TH_LOG("%u samples, stacks of %u sleeps", st.samples, whole);
	EXPECT_LE(nr * 3 / 4, whole);
}

/* A sample on each way out does not keep the task in the kernel. */
TEST_F_TIMEOUT(entry, sample_on_each_way_out, 60)
{
	const unsigned int nr = 5;
	unsigned int i;
	long tp;

	tp = tracepoint_id("preemptirq/irq_enable");
	if (tp < 0)
		SKIP(return, "no tracepoint irq_enable (CONFIG_TRACE_IRQFLAGS?)");
	EVENT(tp_attr(tp, BOTH));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++)
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	/* The point is that the loop ends. The buffer is too small for all samples. */
	EXPECT_LT(0, log_count(&self->s.log, PERF_RECORD_SAMPLE));
}

/*
 * On CPUs in nohz_full, context tracking calls its tracepoint too late for deferred
 * work: requests are refused, and the samples have immediate callchains.
 */
TEST_F(entry, sample_in_context_tracking)
{
	const unsigned int nr = 20;
	struct perf_event_attr attr;
	unsigned int i, cpu;
	struct defer_stats st;
	long tp;

	tp = tracepoint_id("context_tracking/user_enter");
	if (tp < 0)
		SKIP(return, "no tracepoint user_enter (CONFIG_CONTEXT_TRACKING_USER?)");
	attr = tp_attr(tp, BOTH);
	for (cpu = 0; cpu < MAX_CPUS; cpu++) {
		if (pin_to_cpu(cpu) < 0)
			continue;
		ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
		ASSERT_EQ(0, session_enable(&self->s));
		for (i = 0; i < nr; i++) {
			known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
			/* Put other return addresses at the same place on the stack. */
			known_walk_spin(~0ULL, BITS, 1000);
		}
		ASSERT_EQ(0, session_finish(&self->s));
		st = defer_conserve(&self->s.log);
		if (st.samples)
			break;
		session_close(&self->s);
	}
	if (cpu == MAX_CPUS)
		SKIP(return, "no CPU in nohz_full");
	EXPECT_CONSERVED(&st);
	EXPECT_LE(nr, st.samples);
	EXPECT_EQ(0, st.deferred);
	EXPECT_EQ(st.samples, st.immediate);
}

/* One entry, several contexts */

/* A fault in the middle of a system call is part of the same entry. */
TEST_F(entry, fault_inside_system_call)
{
	struct perf_event_attr fault;
	unsigned int i, same = 0;
	struct defer_stats st;
	__u64 cookie = 0;
	char *buf;

	buf = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, buf);
	TRACEPOINT("syscalls/sys_enter_getcwd");
	fault = event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1,
			   BOTH);
	EVENT(fault);
	TRACEPOINT("syscalls/sys_exit_getcwd");
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_syscall(ID, BITS, __NR_getcwd, (long)buf, 4096);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;

		if (defer_user_chain(&self->s.log, SAMPLE(i), &ips) < 1 ||
		    ips[0] != (__u64)walk_syscall_ip)
			continue;
		/* Faults on the way there are entries of their own. */
		if (!same++)
			cookie = SAMPLE(i)->cookie;
		ASSERT_NE(0, cookie);
		EXPECT_EQ(cookie, SAMPLE(i)->cookie);
		EXPECT_STACK(SAMPLE(i), ID, walk_syscall_ip);
	}
	EXPECT_LE(3, same);
	munmap(buf, 4096);
}

/*
 * Requests with the run queue lock held; the task sleeps between two samples with the same
 * cookie.
 */
TEST_F(entry, sleep_inside_system_call)
{
	unsigned int i, same = 0, between = 0;
	struct defer_stats st;
	bool slept = false;
	__u64 cookie = 0;

	TRACEPOINT("syscalls/sys_enter_nanosleep");
	TRACEPOINT("sched/sched_switch");
	TRACEPOINT("syscalls/sys_exit_nanosleep");
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, known_sleep(ID));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_LE(3, st.samples);
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;

		if (defer_user_chain(&self->s.log, SAMPLE(i), &ips) < 1 ||
		    ips[0] != (__u64)walk_syscall_ip)
			continue;
		EXPECT_STACK(SAMPLE(i), ID, walk_syscall_ip);
		/*
		 * A sample of the switch has no cookie if its stack could be walked at once,
		 * nor has one of a preemption in the deferred work.
		 */
		if (!SAMPLE(i)->cookie) {
			between++;
			continue;
		}
		if (SAMPLE(i)->cookie != cookie) {
			cookie = SAMPLE(i)->cookie;
			same = 0;
			between = 0;
		}
		same++;
		slept |= same >= 3 || (same == 2 && between);
	}
	EXPECT_TRUE(slept);
}

/* Load */

/*
 * Two processes bombard each other with signals while they are preempted and sampled:
 * each cookie has a record.
 */
TEST_F_TIMEOUT(entry, conservation_under_signals, 60)
{
	struct perf_event_attr attr;
	struct defer_stats st;
	unsigned int i;
	pid_t pid, me = getpid();
	int status;
	__u64 end;

	attr = defer_attr_output();
	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, ALL_CPUS,
				  1024));
	attr = event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 500000,
			  BOTH);
	attr.inherit = 1;
	ASSERT_EQ(0, session_add(&self->s, &attr));
	attr = tp_attr(TRACEPOINT_ID("signal/signal_deliver"), BOTH);
	attr.inherit = 1;
	ASSERT_EQ(0, session_add(&self->s, &attr));
	attr = tp_attr(TRACEPOINT_ID("sched/sched_switch"), BOTH);
	attr.inherit = 1;
	ASSERT_EQ(0, session_add(&self->s, &attr));
	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_kill"), BOTH);
	attr.inherit = 1;
	ASSERT_EQ(0, session_add(&self->s, &attr));
	ASSERT_NE(SIG_ERR, signal(SIGUSR1, on_signal));
	ASSERT_EQ(0, session_enable(&self->s));
	end = now_nsec() + 2 * NSEC_PER_SEC;
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		while (now_nsec() < end) {
			known_walk_syscall(2, BITS, __NR_kill, me, SIGUSR1);
			known_walk_spin(2, BITS, 20000);
		}
		_exit(0);
	}
	while (now_nsec() < end) {
		known_walk_syscall(1, BITS, __NR_kill, pid, SIGUSR1);
		known_walk_spin(1, BITS, 20000);
		session_drain(&self->s);
	}
	ASSERT_EQ(0, child_wait(pid, &status, 10, &self->s));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	EXPECT_LT(200, st.deferred);
	for (i = 0; i < self->s.log.nr_items; i++) {
		const struct log_item *it = &self->s.log.items[i];
		const __u64 *ips = NULL;

		if (!is_sample(it) ||
		    defer_user_chain(&self->s.log, it, &ips) < 1 ||
		    ips[0] != (__u64)walk_syscall_ip)
			continue;
		EXPECT_STACK(it, it->pid == (__u32)me ? 1 : 2,
			     walk_syscall_ip);
	}
}

TEST_HARNESS_MAIN
