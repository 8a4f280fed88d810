// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains over the life of tasks: fork, threads, exec, exit,
 * inherited events, sessions of a task and of CPUs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "lib/child.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/known_stack.h"
#include "lib/session.h"

#define BITS	12
#define ID	0xa53

#define EXPECT_STACK(log, sample, id, bits, leaf) do {			\
	__u64 __want[128];						\
	const __u64 *__ips = NULL;					\
	int __nr = defer_user_chain(log, sample, &__ips);		\
									\
	EXPECT_TRUE(stack_same(__ips, __nr, __want,			\
			       known_expect(__want, id, bits, leaf)));	\
} while (0)

/* How a session looks at its task. */
struct view {
	int cpu;
	bool inherit;
	bool system_wide;
};

/* Only the event context of the task, which is freed early on exit. */
#define VIEW_TASK	{ .cpu = -1 }
/* What "perf record COMMAND" does. */
#define VIEW_INHERITED	{ .cpu = ALL_CPUS, .inherit = true }
/* What "perf record -a" does. */
#define VIEW_CPUS	{ .cpu = ALL_CPUS, .system_wide = true }

FIXTURE(life) {
	struct session s;
};

FIXTURE_VARIANT(life) {
	struct view view;
};

FIXTURE_VARIANT_ADD(life, task) {
	.view = VIEW_TASK,
};

FIXTURE_VARIANT_ADD(life, inherited) {
	.view = VIEW_INHERITED,
};

FIXTURE_VARIANT_ADD(life, cpus) {
	.view = VIEW_CPUS,
};

FIXTURE_SETUP(life)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(life)
{
	session_close(&self->s);
}

/* The same for tests with several tasks, which a session on one task does not see. */
FIXTURE(family) {
	struct session s;
};

FIXTURE_VARIANT(family) {
	struct view view;
};

FIXTURE_VARIANT_ADD(family, inherited) {
	.view = VIEW_INHERITED,
};

FIXTURE_VARIANT_ADD(family, cpus) {
	.view = VIEW_CPUS,
};

FIXTURE_SETUP(family)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(family)
{
	session_close(&self->s);
}

/* Start a session on a process. */
static void observe(struct __test_metadata *_metadata, struct session *s,
		    const struct view *view, struct perf_event_attr *attr,
		    pid_t pid)
{
	attr->inherit = view->inherit;
	ASSERT_EQ(0, session_open(s, attr, view->system_wide ? -1 : pid,
				  view->cpu, SESSION_PAGES)) {
		TH_LOG("%s", strerror(errno));
	}
	ASSERT_EQ(0, session_enable(s));
}

/* End it, account for it, and keep what concerns that process. */
static struct defer_stats
conclude(struct __test_metadata *_metadata, struct session *s,
	 const struct view *view, pid_t pid)
{
	struct defer_stats st;

	ASSERT_EQ(0, session_finish(s));
	if (view->system_wide)
		log_keep_pid(&s->log, pid);
	st = defer_conserve(&s->log);
	EXPECT_CONSERVED(&st);
	return st;
}

/* Exit */

static void do_exit(void *nr)
{
	known_walk_syscall(ID, BITS, (long)nr, 0, 0);
}

/* The last system call of a task: it never returns to user space. */
static void check_exit(struct __test_metadata *_metadata,
		       struct session *s, const struct view *view,
		       long tp, long nr)
{
	struct perf_event_attr attr = tp_attr(tp, BOTH);
	struct child child;
	struct defer_stats st;
	int status = -1;

	ASSERT_EQ(0, child_spawn(&child, do_exit, (void *)nr));
	observe(_metadata, s, view, &attr, child.pid);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	EXPECT_EQ(0, status);
	st = conclude(_metadata, s, view, child.pid);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	EXPECT_EQ(1, st.records);
	EXPECT_STACK(&s->log, log_nth(&s->log, PERF_RECORD_SAMPLE, 0),
		     ID, BITS, walk_syscall_ip);
}

TEST_F(life, exit_with_request)
{
	check_exit(_metadata, &self->s, &variant->view,
		   TRACEPOINT_ID("syscalls/sys_enter_exit"), __NR_exit);
}

TEST_F(life, exit_group_with_request)
{
	check_exit(_metadata, &self->s, &variant->view,
		   TRACEPOINT_ID("syscalls/sys_enter_exit_group"),
		   __NR_exit_group);
}

static void do_pause(void *arg)
{
	known_walk_syscall(ID, BITS, __NR_pause, 0, 0);
}

/* Killed inside a system call that has a request pending. */
TEST_F(life, killed_with_request)
{
	struct perf_event_attr attr;
	struct child child;
	struct defer_stats st;
	int status = -1;

	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_pause"), BOTH);
	ASSERT_EQ(0, child_spawn(&child, do_pause, NULL));
	observe(_metadata, &self->s, &variant->view, &attr, child.pid);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, session_wait(&self->s, 1, 10));
	usleep(20000);
	ASSERT_EQ(0, kill(child.pid, SIGKILL));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	EXPECT_TRUE(WIFSIGNALED(status));
	st = conclude(_metadata, &self->s, &variant->view, child.pid);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	EXPECT_EQ(1, st.records);
	EXPECT_STACK(&self->s.log,
		     log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0),
		     ID, BITS, walk_syscall_ip);
}

static void *pause_thread(void *arg)
{
	do_pause(arg);
	return NULL;
}

static void do_exit_group_of_other(void *arg)
{
	pthread_t t[3];
	int i;

	for (i = 0; i < 3; i++) {
		if (pthread_create(&t[i], NULL, pause_thread, NULL))
			_exit(2);
	}
	/* The test sees the samples; here it suffices to wait a little. */
	usleep(300000);
	_exit(0);
}

/* Another thread ends the process while this one has a request pending. */
TEST_F(family, exit_group_of_other_thread)
{
	struct perf_event_attr attr;
	struct child child;
	struct defer_stats st;
	int status = -1;
	unsigned int i;

	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_pause"), BOTH);
	ASSERT_EQ(0, child_spawn(&child, do_exit_group_of_other, NULL));
	observe(_metadata, &self->s, &variant->view, &attr, child.pid);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	EXPECT_EQ(0, status);
	st = conclude(_metadata, &self->s, &variant->view, child.pid);
	ASSERT_EQ(3, st.samples);
	EXPECT_EQ(3, st.deferred);
	EXPECT_EQ(3, st.records);
	for (i = 0; i < 3; i++) {
		EXPECT_STACK(&self->s.log,
			     log_nth(&self->s.log, PERF_RECORD_SAMPLE, i),
			     ID, BITS, walk_syscall_ip);
	}
}

/* Exec */

#define EXEC_CHILD	"defer_exec_child"

static const char *const exec_argv[] = { EXEC_CHILD, NULL };

static void do_exec(void *path)
{
	known_walk_syscall(ID, BITS, __NR_execve, (long)path, (long)exec_argv);
	/* Only a failed execve() returns here. */
}

static void *exec_thread(void *path)
{
	do_exec(path);
	return NULL;
}

static void do_exec_in_thread(void *path)
{
	pthread_t t;

	if (pthread_create(&t, NULL, exec_thread, path))
		_exit(2);
	pthread_join(t, NULL);
	_exit(3);
}

static const struct log_item *find_exec_comm(const struct event_log *log)
{
	unsigned int i;

	for (i = 0; i < log->nr_items; i++) {
		if (log->items[i].type == PERF_RECORD_COMM &&
		    log->items[i].misc & PERF_RECORD_MISC_COMM_EXEC)
			return &log->items[i];
	}
	return NULL;
}

/*
 * The stack is walked in the old mm: the record has old addresses and the old ids, and
 * comes before the PERF_RECORD_COMM of the new program.
 */
TEST_F(life, exec_with_request)
{
	const struct log_item *sample, *rec, *comm;
	struct perf_event_attr attr;
	struct child child;
	struct defer_stats st;
	int status = -1;

	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_execve"), BOTH);
	attr.comm = 1;
	attr.comm_exec = 1;
	ASSERT_EQ(0, child_spawn(&child, do_exec, "/proc/self/exe"));
	observe(_metadata, &self->s, &variant->view, &attr, child.pid);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	/* The new program's own status. */
	EXPECT_EQ(42, WEXITSTATUS(status));
	st = conclude(_metadata, &self->s, &variant->view, child.pid);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	ASSERT_EQ(1, st.records);
	sample = log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
	rec = log_nth(&self->s.log, DEFER_RECORD, 0);
	comm = find_exec_comm(&self->s.log);
	ASSERT_NE(NULL, comm);
	EXPECT_STACK(&self->s.log, sample, ID, BITS, walk_syscall_ip);
	EXPECT_EQ(sample->tid, rec->tid);
	EXPECT_TRUE(item_after(rec, comm));
}

/* execve() by a thread, which then gets the leader's id. */
TEST_F(family, exec_of_thread_with_request)
{
	const struct log_item *sample, *rec, *comm;
	struct perf_event_attr attr;
	struct child child;
	struct defer_stats st;
	int status = -1;

	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_execve"), BOTH);
	attr.comm = 1;
	attr.comm_exec = 1;
	ASSERT_EQ(0, child_spawn(&child, do_exec_in_thread, "/proc/self/exe"));
	observe(_metadata, &self->s, &variant->view, &attr, child.pid);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	EXPECT_EQ(42, WEXITSTATUS(status));
	st = conclude(_metadata, &self->s, &variant->view, child.pid);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	ASSERT_EQ(1, st.records);
	sample = log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
	rec = log_nth(&self->s.log, DEFER_RECORD, 0);
	comm = find_exec_comm(&self->s.log);
	ASSERT_NE(NULL, comm);
	EXPECT_STACK(&self->s.log, sample, ID, BITS, walk_syscall_ip);
	EXPECT_NE(child.pid, sample->tid);
	EXPECT_EQ(sample->tid, rec->tid);
	EXPECT_TRUE(item_after(rec, comm));
}

/* An exec that fails returns to the old program. */
TEST_F(life, failed_exec_with_request)
{
	struct perf_event_attr attr;
	struct child child;
	struct defer_stats st;
	int status = -1;

	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_execve"), BOTH);
	ASSERT_EQ(0, child_spawn(&child, do_exec, "/nonexistent"));
	observe(_metadata, &self->s, &variant->view, &attr, child.pid);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	EXPECT_EQ(0, status);
	st = conclude(_metadata, &self->s, &variant->view, child.pid);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	EXPECT_EQ(1, st.records);
	EXPECT_STACK(&self->s.log,
		     log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0),
		     ID, BITS, walk_syscall_ip);
}

/*
 * Between the point of no return and the start of the new program the
 * registers are the old program's and the mm is the new one's: a user part
 * would be garbage, so there is none.
 */
TEST_F(life, no_user_part_inside_exec)
{
	struct perf_event_attr attr;
	const struct log_item *it;
	struct child child;
	struct defer_stats st;
	const __u64 *ips;
	int status = -1;
	long type;

	type = pmu_type("kprobe");
	if (type < 0)
		SKIP(return, "no kprobe events (CONFIG_KPROBE_EVENTS)");
	attr = event_attr(type, 0, 1, BOTH);
	attr.config1 = (__u64)"setup_arg_pages";
	ASSERT_EQ(0, child_spawn(&child, do_exec, "/proc/self/exe"));
	observe(_metadata, &self->s, &variant->view, &attr, child.pid);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	EXPECT_EQ(42, WEXITSTATUS(status));
	st = conclude(_metadata, &self->s, &variant->view, child.pid);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(0, st.deferred);
	EXPECT_EQ(0, st.records);
	it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
	EXPECT_GE(0, defer_user_chain(&self->s.log, it, &ips)) {
		stack_dump("chain", it->ips, it->nr);
	}
}

/* Fork and threads */

static void do_fork(void *arg)
{
	int status;
	pid_t pid;

	/* Both return here from the same stack. */
	pid = known_walk_syscall(1, BITS, __NR_fork, 0, 0);
	if (pid < 0)
		_exit(2);
	if (!pid) {
		known_walk_syscall(2, BITS, __NR_getpgid, 0, 0);
		pid = fork();
		if (!pid) {
			known_walk_syscall(3, BITS, __NR_getpgid, 0, 0);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			_exit(3);
		known_walk_syscall(4, BITS, __NR_getpgid, 0, 0);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		_exit(4);
	known_walk_syscall(5, BITS, __NR_getpgid, 0, 0);
}

/* A request pending in the parent stays the parent's. */
TEST_F(family, fork_with_request)
{
	struct perf_event_attr attr, attr2;
	struct child child;
	unsigned int i, seen = 0, mine = 0;
	struct defer_stats st;
	int status = -1;

	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_fork"), BOTH);
	attr2 = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_getpgid"), BOTH);
	ASSERT_EQ(0, child_spawn(&child, do_fork, NULL));
	observe(_metadata, &self->s, &variant->view, &attr, child.pid);
	attr2.inherit = variant->view.inherit;
	ASSERT_EQ(0, session_add(&self->s, &attr2));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	for (i = 0; i < st.samples; i++) {
		const struct log_item *it;
		unsigned int bits;
		const __u64 *ips;
		__u64 id;
		int nr;

		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		nr = defer_user_chain(&self->s.log, it, &ips);
		if (!known_decode(ips, nr, &id, &bits)) {
			/* If this is a wrong stack, @mine is too small below. */
			stack_dump("not a walk", ips, nr);
			continue;
		}
		mine++;
		EXPECT_NE(0, it->cookie);
		EXPECT_EQ(BITS, bits);
		EXPECT_EQ((__u64)walk_syscall_ip, ips[0]);
		seen |= 1U << id;
		EXPECT_EQ(id == 1 || id == 5, it->pid == (__u32)child.pid);
	}
	EXPECT_EQ(5, mine);
	EXPECT_EQ(0x3e, seen);
}

#define NR_THREADS	6
#define NR_WALKS	150

static void *walk_thread(void *arg)
{
	__u64 self = (__u64)arg;
	unsigned int i;

	for (i = 0; i < NR_WALKS; i++) {
		known_walk_syscall(self << 8 | i, BITS, __NR_getpgid, 0, 0);
		if (i % 16 == self)
			sched_yield();
	}
	return NULL;
}

static void do_threads(void *arg)
{
	pthread_t t[NR_THREADS];
	__u64 i;

	for (i = 0; i < NR_THREADS; i++) {
		if (pthread_create(&t[i], NULL, walk_thread, (void *)i))
			_exit(2);
	}
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(t[i], NULL);
}

/* Each thread's records hold the stacks of that thread, each stack once. */
TEST_F_TIMEOUT(family, threads, 60)
{
	static unsigned char seen[NR_THREADS][NR_WALKS];
	__u32 tids[NR_THREADS] = {};
	struct perf_event_attr attr;
	struct child child;
	unsigned int i, bad = 0;
	struct defer_stats st;
	int status = -1;

	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_getpgid"), BOTH);
	ASSERT_EQ(0, child_spawn(&child, do_threads, NULL));
	observe(_metadata, &self->s, &variant->view, &attr, child.pid);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 40, &self->s));
	EXPECT_EQ(0, status);
	st = conclude(_metadata, &self->s, &variant->view, child.pid);
	EXPECT_EQ(0, st.lost);
	EXPECT_EQ(NR_THREADS * NR_WALKS, st.samples);
	EXPECT_EQ(NR_THREADS * NR_WALKS, st.deferred);
	EXPECT_EQ(NR_THREADS * NR_WALKS, st.records);
	for (i = 0; i < self->s.log.nr_items; i++) {
		const struct log_item *it = &self->s.log.items[i];
		unsigned int bits, th, nr_walk;
		const __u64 *ips;
		__u64 id;
		int nr;

		if (!is_sample(it))
			continue;
		nr = defer_user_chain(&self->s.log, it, &ips);
		if (!known_decode(ips, nr, &id, &bits) || bits != BITS ||
		    ips[0] != (__u64)walk_syscall_ip) {
			if (!bad++)
				stack_dump("not a walk", ips, nr);
			continue;
		}
		th = id >> 8;
		nr_walk = id & 0xff;
		if (th >= NR_THREADS || nr_walk >= NR_WALKS) {
			bad++;
			continue;
		}
		if (!tids[th])
			tids[th] = it->tid;
		if (tids[th] != it->tid)
			bad++;
		seen[th][nr_walk]++;
	}
	EXPECT_EQ(0, bad);
	for (i = 0; i < NR_THREADS * NR_WALKS; i++)
		EXPECT_EQ(1, seen[i / NR_WALKS][i % NR_WALKS]);
}

/* Load */

static void on_signal(int sig)
{
	getppid();
}

/* Rounds that the load makes at least, so that a slow machine has enough samples */
#define LOAD_ROUNDS	100

/*
 * Spins, system calls, blocking, signals and short-lived children, for two
 * seconds or longer. The stack of each spin encodes the pid.
 */
static void do_load(void *arg)
{
	struct itimerspec its = {
		.it_interval.tv_nsec = 3000000,
		.it_value.tv_nsec = 3000000,
	};
	struct sigevent sev = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGUSR1,
	};
	__u64 end = now_nsec() + 2 * NSEC_PER_SEC;
	struct timespec ts = { .tv_nsec = 200000 };
	timer_t timer;
	int i, status;

	signal(SIGUSR1, on_signal);
	if (fork() < 0)
		_exit(2);
	if (timer_create(CLOCK_MONOTONIC, &sev, &timer) ||
	    timer_settime(timer, 0, &its, NULL))
		_exit(3);
	for (i = 0; i < LOAD_ROUNDS || now_nsec() < end; i++) {
		known_walk_spin(getpid() & 0xfff, BITS, 300000);
		known_walk_syscall(getpid() & 0xfff, BITS, __NR_sched_yield,
				   0, 0);
		if (i % 8 == 0)
			nanosleep(&ts, NULL);
		if (i % 32 == 0) {
			pid_t pid = fork();

			if (!pid) {
				/* Timers are not inherited. */
				known_walk_spin(getpid() & 0xfff, BITS, 300000);
				_exit(0);
			}
			while (pid > 0 && waitpid(pid, &status, 0) < 0 &&
			       errno == EINTR)
				;
		}
	}
	while (wait(&status) > 0 || errno == EINTR)
		;
}

/*
 * Count the samples without a record whose tasks are still in the kernel. Tasks that
 * have exited must have records.
 */
static unsigned int count_blocked(struct event_log *log)
{
	unsigned int i, n = 0;
	__u64 last = 0;

	for (i = 0; i < log->nr_items; i++) {
		const struct log_item *it = &log->items[i];
		char path[64], buf[32] = {};
		int fd;

		if (!is_sample(it) || !it->cookie || it->cookie == last ||
		    defer_find_record(log, it->cookie))
			continue;
		last = it->cookie;
		snprintf(path, sizeof(path), "/proc/%u/syscall", it->tid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, buf, sizeof(buf) - 1) > 0 &&
		    strncmp(buf, "running", 7))
			n++;
		close(fd);
	}
	return n;
}

/*
 * Hard IRQ samples (cpu-clock) with context switches and signals as further events:
 * every cookie has a record. Sampling ends before output does, so only samples of tasks
 * that block in the kernel can lack a record.
 */
TEST_F_TIMEOUT(family, conservation_under_load, 90)
{
	unsigned int i, blocked, spins = 0, wrong = 0;
	struct perf_event_attr out, clock, tp;
	struct child child;
	struct defer_stats st;
	int status = -1;

	out = defer_attr_output();
	clock = event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK,
			   1000000, DEFER_ATTR_CALLCHAIN);
	ASSERT_EQ(0, child_spawn(&child, do_load, NULL));
	out.inherit = variant->view.inherit;
	ASSERT_EQ(0, session_open(&self->s, &out,
				  variant->view.system_wide ? -1 : child.pid,
				  variant->view.cpu, 1024));
	clock.inherit = variant->view.inherit;
	ASSERT_EQ(0, session_add(&self->s, &clock));
	tp = tp_attr(TRACEPOINT_ID("sched/sched_switch"),
		     DEFER_ATTR_CALLCHAIN);
	tp.inherit = variant->view.inherit;
	ASSERT_EQ(0, session_add(&self->s, &tp));
	tp = tp_attr(TRACEPOINT_ID("signal/signal_deliver"),
		     DEFER_ATTR_CALLCHAIN);
	tp.inherit = variant->view.inherit;
	ASSERT_EQ(0, session_add(&self->s, &tp));
	tp = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_sched_yield"),
		     DEFER_ATTR_CALLCHAIN);
	tp.inherit = variant->view.inherit;
	ASSERT_EQ(0, session_add(&self->s, &tp));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 60, &self->s));
	EXPECT_EQ(0, status);

	for (i = 0; i < self->s.nr_bufs; i++) {
		unsigned int j;

		for (j = 0; j < self->s.bufs[i].nr_extra; j++)
			ioctl(self->s.bufs[i].extra[j], PERF_EVENT_IOC_DISABLE,
			      0);
	}
	usleep(200000);
	ASSERT_EQ(0, session_finish(&self->s));
	/* First of all: what is printed wakes who reads it. */
	blocked = variant->view.system_wide ? count_blocked(&self->s.log) : 0;
	st = defer_conserve(&self->s.log);
	defer_print(&st);
	TH_LOG("%u cookies belong to tasks that still are in the kernel",
	       blocked);
	EXPECT_EQ(0, st.lost);
	EXPECT_LE(st.missing, blocked);
	EXPECT_EQ(0, st.duplicate);
	EXPECT_EQ(0, st.foreign);
	EXPECT_LT(200, st.deferred);

	/* Samples of a spin have the whole stack of their process. */
	for (i = 0; i < self->s.log.nr_items; i++) {
		const struct log_item *it = &self->s.log.items[i];
		unsigned int bits;
		const __u64 *ips;
		__u64 id;
		int nr;

		if (!is_sample(it))
			continue;
		nr = defer_user_chain(&self->s.log, it, &ips);
		if (nr < 1 || ips[0] < (__u64)walk_spin ||
		    ips[0] >= (__u64)walk_spin_end)
			continue;
		/* Another program may have something else there. */
		if (variant->view.system_wide && it->pid != (__u32)child.pid)
			continue;
		spins++;
		if (known_decode(ips, nr, &id, &bits) && bits == BITS &&
		    id == (it->pid & 0xfff))
			continue;
		if (!wrong++)
			stack_dump("wrong stack of a spin", ips, nr);
	}
	TH_LOG("%u samples of the spin, %u wrong", spins, wrong);
	EXPECT_LT(20, spins);
	EXPECT_EQ(0, wrong);
}

#define main test_main
TEST_HARNESS_MAIN
#undef main

int main(int argc, char *argv[])
{
	if (!strcmp(argv[0], EXEC_CHILD))
		return 42;
	return test_main(argc, argv);
}
