// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains inside one kernel entry: several requests, requests
 * after the record was written, registers that change before the walk.
 */
#define _GNU_SOURCE
#include "defer.h"
#include <sys/resource.h>
#include "../kselftest_harness.h"

#define BOTH	(DEFER_ATTR_CALLCHAIN | DEFER_ATTR_OUTPUT)
#define BITS	9
#define ID	0x135

FIXTURE(entry) {
	struct defer_session s;
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
	defer_session_close(&self->s);
}

static struct perf_event_attr tp_attr(long tp)
{
	return defer_attr(PERF_TYPE_TRACEPOINT, tp, 1, BOTH);
}

/* Open the first event of a session on this task, or add one to it. */
#define EVENT(attr_expr) do {						\
	struct perf_event_attr __attr = attr_expr;			\
									\
	if (!self->s.nr_bufs) {						\
		ASSERT_EQ(0, defer_session_open(&self->s, &__attr, 0, -1, \
						DEFER_PAGES));		\
	} else {							\
		ASSERT_EQ(0, defer_session_add(&self->s, &__attr));	\
	}								\
} while (0)

#define TRACEPOINT(name)	EVENT(tp_attr(DEFER_TRACEPOINT(name)))

#define SAMPLE(i)	defer_nth(&self->s.log, PERF_RECORD_SAMPLE, i)

#define EXPECT_STACK(sample, id, leaf) do {				\
	const __u64 *__ips = NULL;					\
	int __nr = defer_user_chain(&self->s.log, sample, &__ips);	\
	int __want = defer_expect(self->want, id, BITS, leaf);		\
									\
	EXPECT_TRUE(defer_same(__ips, __nr, self->want, __want));	\
} while (0)

static int nr_signals;

static void on_signal(int sig)
{
	__atomic_fetch_add(&nr_signals, 1, __ATOMIC_RELAXED);
}

/* ---- samples that come late ---------------------------------------------- */

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
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < nr; i++)
		defer_walk_syscall(i, BITS, __NR_kill, getpid(), SIGUSR1);
	ASSERT_EQ(0, defer_finish(&self->s));
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
 * runs the work again, and with it the tracepoint, which must be the end of it.
 */
TEST_F(entry, sample_after_the_task_work)
{
	struct timespec ts = { .tv_nsec = 1000000 };
	const unsigned int nr = 20;
	struct rusage before, after;
	unsigned long switches;
	struct defer_stats st;
	unsigned int i;
	long tp;

	tp = defer_tracepoint("rseq/rseq_update");
	if (tp < 0)
		SKIP(return, "no tracepoint rseq_update (CONFIG_RSEQ?)");
	EVENT(tp_attr(tp));
	ASSERT_EQ(0, defer_enable(&self->s));
	ASSERT_EQ(0, getrusage(RUSAGE_SELF, &before));
	for (i = 0; i < nr; i++)
		defer_walk_syscall(i, BITS, __NR_nanosleep, (long)&ts, 0);
	ASSERT_EQ(0, defer_finish(&self->s));
	ASSERT_EQ(0, getrusage(RUSAGE_SELF, &after));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	if (!st.samples)
		SKIP(return, "the C library has not registered rseq");
	EXPECT_EQ(0, st.lost);
	/* On a slow machine the time may be over before the task sleeps. */
	EXPECT_LT(0, st.cookies);
	EXPECT_EQ(st.samples, st.deferred);
	/* One for each time that the task has slept or was preempted, twice. */
	switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw;
	TH_LOG("%lu switches", switches);
	EXPECT_GE(4 * (switches + 1), st.samples);
}

/* ---- buffers that lack the record ---------------------------------------- */

static void stop_in_kernel(void *arg)
{
	if (signal(SIGCONT, on_signal) == SIG_ERR || defer_pin(0))
		_exit(1);
	/* First the record is written, then the task stops in the same entry. */
	defer_walk_syscall(ID, BITS, __NR_kill, getpid(), SIGSTOP);
}

/*
 * Sampled in a session that did not receive the record, as it was not there or is
 * on another CPU: this one gets the record, too.
 */
static void check_second_session(struct __test_metadata *_metadata,
				 FIXTURE_DATA(entry) *self, bool later)
{
	struct defer_session second = {};
	struct defer_child child;
	struct perf_event_attr attr;
	struct defer_stats st;
	cpu_set_t set;
	int status;

	if (!later && sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, defer_spawn(&child, stop_in_kernel, NULL));
	attr = tp_attr(DEFER_TRACEPOINT("syscalls/sys_enter_kill"));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, child.pid, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	attr = tp_attr(DEFER_TRACEPOINT("signal/signal_deliver"));
	if (!later) {
		ASSERT_EQ(0, defer_session_open(&second, &attr, child.pid, 1,
						DEFER_PAGES));
		ASSERT_EQ(0, defer_enable(&second));
	}
	ASSERT_EQ(0, defer_go(&child));
	ASSERT_EQ(child.pid, waitpid(child.pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	if (later) {
		ASSERT_EQ(0, defer_session_open(&second, &attr, child.pid, -1,
						DEFER_PAGES));
		ASSERT_EQ(0, defer_enable(&second));
	} else {
		CPU_ZERO(&set);
		CPU_SET(1, &set);
		ASSERT_EQ(0, sched_setaffinity(child.pid, sizeof(set), &set));
	}
	ASSERT_EQ(0, kill(child.pid, SIGCONT));
	ASSERT_EQ(0, defer_wait(child.pid, &status, 30, NULL));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(1, st.deferred);
	ASSERT_EQ(0, defer_finish(&second));
	st = defer_conserve(&second.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	EXPECT_EQ(1, st.records);
	EXPECT_EQ(0, st.missing);
	defer_session_close(&second);
}

TEST_F(entry, session_that_comes_later)
{
	check_second_session(_metadata, self, true);
}

TEST_F(entry, session_on_another_cpu)
{
	check_second_session(_metadata, self, false);
}

/* ---- registers that change ----------------------------------------------- */

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
	ASSERT_EQ(0, defer_enable(&self->s));
	/* All of them are delivered in this one entry. */
	defer_walk_syscall(ID, BITS, __NR_rt_sigsuspend, (long)&empty, 8);
	ASSERT_EQ(0, defer_finish(&self->s));
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

		/* Those after it see the handler that comes first. */
		ASSERT_LT(0, defer_user_chain(&self->s.log, SAMPLE(i), &ips));
		EXPECT_EQ((__u64)on_signal, ips[0]);
	}
}

/* ---- the stack is the one at the request --------------------------------- */

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
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < nr; i++)
		defer_walk_syscall(i, BITS, __NR_kill, getpid(), SIGUSR1);
	ASSERT_EQ(0, defer_finish(&self->s));
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

struct kernel_sigaction {
	void		(*handler)(int sig);
	unsigned long	flags;
	void		*restorer;
	__u64		mask;
};

/* rt_sigreturn replaces all registers; the request saw those before it. */
TEST_F(entry, registers_of_the_request_sigreturn)
{
	struct kernel_sigaction sa = {
		.handler = on_signal,
		/* SA_RESTORER */
		.flags = 0x04000000,
		.restorer = defer_restorer,
	};
	const __u64 *ips = NULL;
	struct defer_stats st;
	int nr, nr_want;

	TRACEPOINT("syscalls/sys_enter_rt_sigreturn");
	ASSERT_EQ(0, syscall(__NR_rt_sigaction, SIGUSR1, &sa, NULL, 8));
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(ID, BITS, __NR_kill, getpid(), SIGUSR1);
	ASSERT_EQ(0, defer_finish(&self->s));
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
	nr_want = defer_expect_tail(self->want, ID, BITS);
	ASSERT_LT(nr_want, nr);
	EXPECT_TRUE(defer_same(ips + nr - nr_want, nr_want, self->want,
			       nr_want));
}

/*
 * Two samples of one rt_sigreturn, one before and one after it has replaced the
 * registers.  The stack of the first is not that of the second, which has to
 * take its own.
 */
TEST_F(entry, other_registers_do_not_join)
{
	struct kernel_sigaction sa = {
		.handler = on_signal,
		/* SA_RESTORER */
		.flags = 0x04000000,
		.restorer = defer_restorer,
	};
	const __u64 *ips = NULL;
	struct defer_stats st;

	TRACEPOINT("syscalls/sys_enter_rt_sigreturn");
	TRACEPOINT("raw_syscalls/sys_exit");
	/* It has no number any more when it returns. */
	ASSERT_EQ(0, ioctl(self->s.bufs[0].extra[0], PERF_EVENT_IOC_SET_FILTER,
			   "id == -1"));
	ASSERT_EQ(0, syscall(__NR_rt_sigaction, SIGUSR1, &sa, NULL, 8));
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(ID, BITS, __NR_kill, getpid(), SIGUSR1);
	ASSERT_EQ(0, defer_finish(&self->s));
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

/* ---- on the last steps to user mode ------------------------------------- */

/*
 * switch_fpu_return() is called when the exit work has been looked at for the last
 * time.  By the next entry into the kernel the stack is another one.
 */
TEST_F(entry, sample_on_the_last_steps)
{
	static const char function[] = "switch_fpu_return";
	struct timespec ts = { .tv_nsec = 1000000 };
	const unsigned int nr = 20;
	struct perf_event_attr attr;
	unsigned int i, next = 0, whole = 0;
	struct defer_stats st;
	long type;

	type = defer_pmu_type("kprobe");
	if (type < 0)
		SKIP(return, "no kprobe PMU (CONFIG_KPROBE_EVENTS?)");
	attr = defer_attr(type, 0, 1, BOTH);
	attr.kprobe_func = (__u64)function;
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < nr; i++) {
		defer_walk_syscall(i, BITS, __NR_nanosleep, (long)&ts, 0);
		/* Other addresses at the same place. */
		defer_walk_spin(~0ULL, BITS, 1000);
		defer_walk_syscall(~0ULL, BITS, __NR_getpgid, 0, 0);
	}
	ASSERT_EQ(0, defer_finish(&self->s));
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
			want = defer_expect(self->want, sleep, BITS,
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

	tp = defer_tracepoint("preemptirq/irq_enable");
	if (tp < 0)
		SKIP(return, "no tracepoint irq_enable (CONFIG_TRACE_IRQFLAGS?)");
	EVENT(tp_attr(tp));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < nr; i++)
		defer_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, defer_finish(&self->s));
	/* That it comes here is the point. The buffer does not take all. */
	EXPECT_LT(0, defer_count(&self->s.log, PERF_RECORD_SAMPLE));
}

/*
 * On CPUs in nohz_full context tracking has its tracepoint when nothing can bring the
 * task back any more: no request is made.
 */
TEST_F(entry, sample_in_context_tracking)
{
	const unsigned int nr = 20;
	struct perf_event_attr attr;
	unsigned int i, cpu;
	struct defer_stats st;
	long tp;

	tp = defer_tracepoint("context_tracking/user_enter");
	if (tp < 0)
		SKIP(return, "no tracepoint user_enter (CONFIG_CONTEXT_TRACKING_USER?)");
	attr = tp_attr(tp);
	for (cpu = 0; cpu < DEFER_MAX_CPUS; cpu++) {
		if (defer_pin(cpu) < 0)
			continue;
		ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
		ASSERT_EQ(0, defer_enable(&self->s));
		for (i = 0; i < nr; i++) {
			defer_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
			/* Other addresses at the same place. */
			defer_walk_spin(~0ULL, BITS, 1000);
		}
		ASSERT_EQ(0, defer_finish(&self->s));
		st = defer_conserve(&self->s.log);
		if (st.samples)
			break;
		defer_session_close(&self->s);
	}
	if (cpu == DEFER_MAX_CPUS)
		SKIP(return, "no CPU in nohz_full");
	EXPECT_CONSERVED(&st);
	EXPECT_LE(nr, st.samples);
	EXPECT_EQ(0, st.deferred);
	EXPECT_EQ(st.samples, st.immediate);
}

/* ---- one entry, several contexts ----------------------------------------- */

/* A fault in the middle of a system call is part of the same entry. */
TEST_F(entry, fault_inside_system_call)
{
	struct perf_event_attr fault;
	struct defer_stats st;
	unsigned int i;
	char *buf;

	buf = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, buf);
	TRACEPOINT("syscalls/sys_enter_getcwd");
	fault = defer_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1,
			   BOTH);
	EVENT(fault);
	TRACEPOINT("syscalls/sys_exit_getcwd");
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(ID, BITS, __NR_getcwd, (long)buf, 4096);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_LE(3, st.samples);
	ASSERT_NE(0, SAMPLE(0)->cookie);
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;

		if (defer_user_chain(&self->s.log, SAMPLE(i), &ips) < 1 ||
		    ips[0] != (__u64)walk_syscall_ip)
			continue;
		EXPECT_EQ(SAMPLE(0)->cookie, SAMPLE(i)->cookie);
		EXPECT_STACK(SAMPLE(i), ID, walk_syscall_ip);
	}
	munmap(buf, 4096);
}

/* Requests with the run queue lock held; the task sleeps in between. */
TEST_F(entry, sleep_inside_system_call)
{
	struct timespec ts = { .tv_nsec = 2000000 };
	unsigned int i, same = 0;
	struct defer_stats st;
	__u64 cookie = 0;

	TRACEPOINT("syscalls/sys_enter_nanosleep");
	TRACEPOINT("sched/sched_switch");
	TRACEPOINT("syscalls/sys_exit_nanosleep");
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(ID, BITS, __NR_nanosleep, (long)&ts, 0);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_LE(3, st.samples);
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;

		if (defer_user_chain(&self->s.log, SAMPLE(i), &ips) < 1 ||
		    ips[0] != (__u64)walk_syscall_ip)
			continue;
		/*
		 * The task may be preempted once more when all is answered, or
		 * by then in the deferred work, which cannot ask.
		 */
		if (!SAMPLE(i)->cookie) {
			EXPECT_LE(3, same);
			continue;
		}
		if (!cookie)
			cookie = SAMPLE(i)->cookie;
		same += SAMPLE(i)->cookie == cookie;
		EXPECT_STACK(SAMPLE(i), ID, walk_syscall_ip);
	}
	EXPECT_LE(3, same);
}

/* ---- load ---------------------------------------------------------------- */

/*
 * Two processes bombard each other with signals while they are preempted and
 * sampled: each cookie is answered, by a record that comes after the sample.
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
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, DEFER_ALL_CPUS,
					1024));
	attr = defer_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 500000,
			  BOTH);
	attr.inherit = 1;
	ASSERT_EQ(0, defer_session_add(&self->s, &attr));
	attr = tp_attr(DEFER_TRACEPOINT("signal/signal_deliver"));
	attr.inherit = 1;
	ASSERT_EQ(0, defer_session_add(&self->s, &attr));
	attr = tp_attr(DEFER_TRACEPOINT("sched/sched_switch"));
	attr.inherit = 1;
	ASSERT_EQ(0, defer_session_add(&self->s, &attr));
	attr = tp_attr(DEFER_TRACEPOINT("syscalls/sys_enter_kill"));
	attr.inherit = 1;
	ASSERT_EQ(0, defer_session_add(&self->s, &attr));
	ASSERT_NE(SIG_ERR, signal(SIGUSR1, on_signal));
	ASSERT_EQ(0, defer_enable(&self->s));
	end = defer_now() + 2 * DEFER_NSEC_PER_SEC;
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		while (defer_now() < end) {
			defer_walk_syscall(2, BITS, __NR_kill, me, SIGUSR1);
			defer_walk_spin(2, BITS, 20000);
		}
		_exit(0);
	}
	while (defer_now() < end) {
		defer_walk_syscall(1, BITS, __NR_kill, pid, SIGUSR1);
		defer_walk_spin(1, BITS, 20000);
		defer_drain(&self->s);
	}
	ASSERT_EQ(0, defer_wait(pid, &status, 10, &self->s));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	EXPECT_LT(200, st.deferred);
	for (i = 0; i < self->s.log.nr_items; i++) {
		const struct defer_item *it = &self->s.log.items[i];
		const __u64 *ips = NULL;

		if (!defer_is_sample(it) ||
		    defer_user_chain(&self->s.log, it, &ips) < 1 ||
		    ips[0] != (__u64)walk_syscall_ip)
			continue;
		EXPECT_STACK(it, it->pid == (__u32)me ? 1 : 2,
			     walk_syscall_ip);
	}
}

TEST_HARNESS_MAIN
