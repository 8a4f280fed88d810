// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains of tasks that sleep, make system calls or are preempted: the
 * stack may change meanwhile.
 *
 * A function records where its return address is on the stack, makes a system call that
 * sleeps, and restores the return address before it returns. While it sleeps, another
 * thread replaces the return address by another one. Or the system call itself does, or a
 * thread that preempts it. The stack that is delivered must have the address that was there
 * when the sample was taken.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/session.h"

#ifdef __x86_64__

/* Of sched_switch, the switches of a task that goes to sleep */
#define TO_SLEEP	"prev_state == 1"

/* Reads after the first one, which lets the task remember that this code has no rules */
#define SLEEPS	20

struct sleeper {
	int		pipe[2];
	pid_t		tid;
	/* The return address of read_one() or read_over(): where it is, and what it was. */
	void *volatile	*volatile slot;
	void		*volatile ret;
	volatile int	nr;
};

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
long raw_read(int fd, void *buf, size_t size)
{
	long ret;

	asm volatile("syscall" : "=a" (ret)
		     : "0" (__NR_read), "D" (fd), "S" (buf), "d" (size)
		     : "rcx", "r11", "memory");
	return ret;
}

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void read_one(struct sleeper *s)
{
	void *volatile *frame = __builtin_frame_address(0);
	char c;

	s->ret = frame[1];
	s->slot = &frame[1];
	raw_read(s->pipe[0], &c, 1);
	*s->slot = s->ret;
}

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void *sleeper_thread(void *arg)
{
	struct sleeper *s = arg;
	int i;

	s->tid = syscall(SYS_gettid);
	for (i = 0; i < 1 + SLEEPS; i++) {
		s->nr = i + 1;
		read_one(s);
	}
	return NULL;
}

/* Does the thread sleep in a read, on no run queue? Its state may be set before that. */
static bool asleep(pid_t tid)
{
	char path[64], wchan[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/wchan", tid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (fscanf(file, "%31s", wchan) != 1)
		wchan[0] = 0;
	fclose(file);
	return strstr(wchan, "pipe_read");
}

/* Without rules, the kernel does not walk early. */
static const char *unsupported(void)
{
	const char *why = defer_unsupported();

	if (!why && access("/proc/sys/kernel/unwind_user_immediate", F_OK))
		why = "kernel without CONFIG_UNWIND_USER_SFRAME";
	return why;
}

FIXTURE(sleep) {
	struct session s;
	struct sleeper sleeper;
	pthread_t thread;
};

FIXTURE_VARIANT(sleep) {
	const char *tracepoint;
	const char *filter;
	/* Or a function of the kernel, in place of a tracepoint */
	const char *kprobe;
};

FIXTURE_VARIANT_ADD(sleep, syscall) {
	.tracepoint = "syscalls/sys_enter_read",
};

FIXTURE_VARIANT_ADD(sleep, sched_switch) {
	.tracepoint = "sched/sched_switch",
	.filter = TO_SLEEP,
};

/* In the system call: nothing but the sleep makes the kernel walk early. */
FIXTURE_VARIANT_ADD(sleep, kprobe) {
	.kprobe = "vfs_read",
};

FIXTURE_SETUP(sleep)
{
	const char *why = unsupported();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, pipe(self->sleeper.pipe));
}

FIXTURE_TEARDOWN(sleep)
{
	session_close(&self->s);
	close(self->sleeper.pipe[0]);
	close(self->sleeper.pipe[1]);
}

/* Wait until the thread sleeps in its nr-th read. */
static int wait_asleep(struct sleeper *s, int nr)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;
	unsigned int seen = 0;

	while (now_nsec() < end) {
		/* It has left the run queue just before the switch is traced. */
		seen = s->nr >= nr && s->tid && asleep(s->tid) ? seen + 1 : 0;
		if (seen > 3)
			return 0;
		usleep(1000);
	}
	return -1;
}

/* Of the switches, take those to sleep: others may be sampled after the thread was woken. */
static int session_filter(struct session *s, const char *filter)
{
	unsigned int i;

	for (i = 0; filter && i < s->nr_bufs; i++) {
		if (ioctl(s->bufs[i].fd, PERF_EVENT_IOC_SET_FILTER, filter))
			return -1;
	}
	return 0;
}

/* Samples of the thread in which read_one() returns to this address */
static unsigned int count(struct event_log *log, pid_t tid, const void *ret)
{
	const struct log_item *it;
	unsigned int i, n = 0;
	const __u64 *ips;

	for (i = 0; (it = log_nth(log, PERF_RECORD_SAMPLE, i)); i++) {
		if (it->tid == (__u32)tid && defer_user_chain(log, it, &ips) > 2 &&
		    ips[2] == (__u64)(unsigned long)ret)
			n++;
	}
	return n;
}

TEST_F_TIMEOUT(sleep, stack_of_the_sample, 300)
{
	struct sleeper *s = &self->sleeper;
	struct perf_event_attr attr;
	void *decoy = (void *)wait_asleep;
	unsigned int i;
	long type;
	int ret;

	attr = tp_attr(variant->kprobe ? 0 : TRACEPOINT_ID(variant->tracepoint), BOTH);
	attr.inherit = 1;
	if (variant->kprobe) {
		type = pmu_type("kprobe");
		if (type < 0)
			SKIP(return, "no kprobe PMU (CONFIG_KPROBE_EVENTS?)");
		attr.type = type;
		attr.kprobe_func = (__u64)(unsigned long)variant->kprobe;
	}
	ret = session_open(&self->s, &attr, 0, ALL_CPUS, SESSION_PAGES);
	if (ret && variant->kprobe)
		SKIP(return, "no kprobe on %s(): %s", variant->kprobe, strerror(errno));
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, session_filter(&self->s, variant->filter));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, sleeper_thread, s));
	for (i = 0; i < 1 + SLEEPS; i++) {
		ASSERT_EQ(0, wait_asleep(s, i + 1));
		if (i)
			*s->slot = decoy;
		ASSERT_EQ(1, write(s->pipe[1], "x", 1));
		session_drain(&self->s);
	}
	ASSERT_EQ(0, pthread_join(self->thread, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
	TH_LOG("%u stacks of the sample, %u of others", count(&self->s.log, s->tid, s->ret),
	       count(&self->s.log, s->tid, decoy));
	EXPECT_LE(SLEEPS, count(&self->s.log, s->tid, s->ret));
	EXPECT_EQ(0, count(&self->s.log, s->tid, decoy));
}

FIXTURE(reader) {
	struct session s;
	struct sleeper sleeper;
	pthread_t thread;
};

FIXTURE_SETUP(reader)
{
	const char *why = unsupported();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, pipe(self->sleeper.pipe));
}

FIXTURE_TEARDOWN(reader)
{
	session_close(&self->s);
	close(self->sleeper.pipe[0]);
	close(self->sleeper.pipe[1]);
}

/* The last switch of a task that still sleeps when the session ends has its stack. */
TEST_F_TIMEOUT(reader, still_asleep, 300)
{
	struct sleeper *s = &self->sleeper;
	struct perf_event_attr attr;
	unsigned int i;

	attr = tp_attr(TRACEPOINT_ID("sched/sched_switch"), BOTH);
	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, ALL_CPUS, SESSION_PAGES));
	ASSERT_EQ(0, session_filter(&self->s, TO_SLEEP));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, sleeper_thread, s));
	for (i = 0; i < SLEEPS; i++) {
		ASSERT_EQ(0, wait_asleep(s, i + 1));
		ASSERT_EQ(1, write(s->pipe[1], "x", 1));
	}
	ASSERT_EQ(0, wait_asleep(s, 1 + SLEEPS));
	ASSERT_EQ(0, session_finish(&self->s));
	/* One for each sleep, the one that goes on included. */
	EXPECT_LE(1 + SLEEPS, count(&self->s.log, s->tid, s->ret));
	ASSERT_EQ(1, write(s->pipe[1], "x", 1));
	ASSERT_EQ(0, pthread_join(self->thread, NULL));
}

/* Reads from the pipe into its own return address: the decoy, or what is there already. */
static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
long read_over(struct sleeper *s, void *decoy)
{
	void *volatile *frame = __builtin_frame_address(0);
	void *word = decoy ?: frame[1];
	long ret = -1;

	s->ret = frame[1];
	s->slot = &frame[1];
	if (write(s->pipe[1], &word, sizeof(word)) == sizeof(word))
		ret = raw_read(s->pipe[0], (void *)&frame[1], sizeof(word));
	*s->slot = s->ret;
	return ret;
}

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void *overwritten_thread(void *arg)
{
	struct sleeper *s = arg;
	int i;

	s->tid = syscall(SYS_gettid);
	for (i = 0; i < 1 + SLEEPS; i++) {
		if (read_over(s, i ? (void *)wait_asleep : NULL) == sizeof(void *))
			s->nr++;
	}
	return NULL;
}

#define READ_BEGINS	TRACEPOINT_ID("syscalls/sys_enter_read")

/* Run a thread that reads 1 + SLEEPS times, with samples as the reads begin. */
static int sample_reads(int id, struct session *s, struct sleeper *sleeper,
			void *(*fn)(void *))
{
	struct perf_event_attr attr = tp_attr(id, BOTH);
	pthread_t thread;

	attr.inherit = 1;
	if (session_open(s, &attr, 0, ALL_CPUS, SESSION_PAGES) || session_enable(s) ||
	    pthread_create(&thread, NULL, fn, sleeper) || pthread_join(thread, NULL))
		return -1;
	if (sleeper->nr != 1 + SLEEPS)
		return -1;
	return session_finish(s);
}

/* A system call that does not sleep changes the stack of its caller. */
TEST_F_TIMEOUT(reader, overwrites_its_stack, 300)
{
	struct sleeper *s = &self->sleeper;
	void *decoy = (void *)wait_asleep;

	ASSERT_EQ(0, sample_reads(READ_BEGINS, &self->s, s, overwritten_thread));
	TH_LOG("%u stacks of the sample, %u that the system call made",
	       count(&self->s.log, s->tid, s->ret), count(&self->s.log, s->tid, decoy));
	EXPECT_EQ(1 + SLEEPS, count(&self->s.log, s->tid, s->ret));
	EXPECT_EQ(0, count(&self->s.log, s->tid, decoy));
}

/* Calls a function as code does that has anything in the frame pointer. */
static __attribute__((noinline, noclone))
void call_with_fp(const void *fp, void *(*fn)(void *), void *arg)
{
	asm volatile("mov %%rsp, %%r12\n\t"
		     "sub $128, %%rsp\n\t"
		     "and $-16, %%rsp\n\t"
		     "push %%r12\n\t"
		     "push %%rbp\n\t"
		     "mov %1, %%rbp\n\t"
		     "call *%2\n\t"
		     "pop %%rbp\n\t"
		     "pop %%rsp"
		     : "+D" (arg), "+S" (fp), "+a" (fn)
		     :
		     : "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
}

/* What the frame pointer of the outermost function leads to */
static const void *last_frame;

static void *lost_thread(void *arg)
{
	call_with_fp(last_frame, overwritten_thread, arg);
	return NULL;
}

/*
 * Most stacks of programs with frame pointers end like this, because their C library has none.
 * There is nothing more to find, so the stack from before the system call is delivered.
 */
FIXTURE(ends) {
	struct session s;
	struct sleeper sleeper;
	char *page;
};

FIXTURE_VARIANT(ends) {
	bool unmapped;
	long frame[2];
};

FIXTURE_VARIANT_ADD(ends, where_nothing_is_mapped) {
	.unmapped = true,
};

FIXTURE_VARIANT_ADD(ends, in_a_number) {
	.frame = { 0, 3 },
};

FIXTURE_VARIANT_ADD(ends, in_an_address_that_is_not_mapped) {
	.frame = { 0, 0x12345678 },
};

FIXTURE_SETUP(ends)
{
	const char *why = unsupported();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, pipe(self->sleeper.pipe));
	/* Below all stacks */
	self->page = mmap((void *)0x10000000, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	memcpy(self->page, variant->frame, sizeof(variant->frame));
	if (variant->unmapped)
		ASSERT_EQ(0, munmap(self->page, sysconf(_SC_PAGESIZE)));
	last_frame = self->page;
}

FIXTURE_TEARDOWN(ends)
{
	session_close(&self->s);
	close(self->sleeper.pipe[0]);
	close(self->sleeper.pipe[1]);
	if (!variant->unmapped)
		munmap(self->page, sysconf(_SC_PAGESIZE));
}

TEST_F_TIMEOUT(ends, stack_before_a_system_call, 300)
{
	struct sleeper *s = &self->sleeper;

	ASSERT_EQ(0, sample_reads(READ_BEGINS, &self->s, s, lost_thread));
	EXPECT_EQ(1 + SLEEPS, count(&self->s.log, s->tid, s->ret));
	EXPECT_EQ(0, count(&self->s.log, s->tid, (void *)wait_asleep));
}

/* A signal handler that reads from a pipe, when most of its signal frame is not present */
static struct handler {
	struct sleeper		*s;
	char			*stack;
	size_t			page, size;
	/* Where the interrupted registers are, from the end of the stack */
	size_t			below;
	/* Whether the handler unmaps the stack from there on */
	volatile int		drop;
} handler;

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void handle_signal(int sig, siginfo_t *info, void *ucontext)
{
	char *end = handler.stack + handler.size, *uc = ucontext, c;

	handler.below = end - uc;
	if (handler.drop && madvise(uc, end - uc, MADV_DONTNEED))
		return;
	if (write(handler.s->pipe[1], "x", 1) == 1 &&
	    raw_read(handler.s->pipe[0], &c, 1) == 1)
		handler.s->nr++;
}

/* Send the signal to the thread itself. @ret receives where the handler returns to. */
static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void interrupted(pid_t tid, void *volatile *ret)
{
	long nr = __NR_tgkill;
	void *at;

	asm volatile("lea 1f(%%rip), %1; syscall; 1:"
		     : "+a" (nr), "=&r" (at)
		     : "D" (getpid()), "S" (tid), "d" (SIGUSR1)
		     : "rcx", "r11", "memory");
	*ret = at;
}

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void *interrupted_thread(void *arg)
{
	struct sleeper *s = arg;
	stack_t stack = { .ss_sp = handler.stack, .ss_size = handler.size };
	int i;

	s->tid = syscall(SYS_gettid);
	for (i = 0; i < 1 + SLEEPS; i++) {
		if (sigaltstack(&stack, NULL))
			break;
		interrupted(s->tid, (void *volatile *)&s->ret);
		if (handler.drop)
			continue;
		/* The handler's return address is on the page below, in use. */
		stack.ss_size = handler.size - handler.page + handler.below % handler.page;
		handler.drop = 1;
	}
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	return NULL;
}

/* Samples of the thread with this address anywhere in the stack */
static unsigned int count_with(struct event_log *log, pid_t tid, const void *ip)
{
	const struct log_item *it;
	unsigned int i, j, nr, n = 0;
	const __u64 *ips;

	for (i = 0; (it = log_nth(log, PERF_RECORD_SAMPLE, i)); i++) {
		if (it->tid != (__u32)tid)
			continue;
		nr = defer_user_chain(log, it, &ips);
		for (j = 0; j < nr && ips[j] != (__u64)(unsigned long)ip; j++)
			;
		n += j < nr;
	}
	return n;
}

/*
 * A walk that cannot read the registers that a signal interrupted does not know that frame. It
 * is not whole, even if the frame pointer leads on.
 */
TEST_F_TIMEOUT(reader, signal_frame_is_absent, 300)
{
	struct sleeper *s = &self->sleeper;
	struct sigaction action = {
		.sa_sigaction = handle_signal,
		.sa_flags = SA_SIGINFO | SA_ONSTACK,
	};

	handler.s = s;
	handler.page = sysconf(_SC_PAGESIZE);
	handler.size = 16 * handler.page;
	/* Memory that keeps what is in it while it is not mapped */
	handler.stack = mmap(NULL, handler.size, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, handler.stack);
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));

	ASSERT_EQ(0, sample_reads(READ_BEGINS, &self->s, s, interrupted_thread));
	ASSERT_EQ(0, handler.below % handler.page);
	EXPECT_EQ(1 + SLEEPS, count_with(&self->s.log, s->tid, s->ret));
	munmap(handler.stack, handler.size);
}

/* Waits in user mode. Its return address may become the decoy meanwhile; it restores it at once. */
static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void spin(struct sleeper *s)
{
	void *volatile *frame = __builtin_frame_address(0);

	s->ret = frame[1];
	s->slot = &frame[1];
	while (s->nr <= SLEEPS)
		*s->slot = s->ret;
	*s->slot = s->ret;
}

/* Run on one CPU from now on, and before threads of a lower priority. */
static int pin(int priority)
{
	struct sched_param param = { .sched_priority = priority };
	static int cpu = -1;
	cpu_set_t set;

	if (cpu < 0) {
		if (sched_getaffinity(0, sizeof(set), &set))
			return -1;
		for (cpu = 0; !CPU_ISSET(cpu, &set); cpu++)
			;
	}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return -1;
	return sched_setscheduler(0, SCHED_FIFO, &param);
}

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void *spin_thread(void *arg)
{
	struct sleeper *s = arg;

	s->tid = syscall(SYS_gettid);
	if (!pin(1))
		spin(s);
	return NULL;
}

/*
 * A timer wakes a thread that runs before the one that it interrupts, and the wakeup is
 * sampled. What the woken thread then changes is not in the sample's stack.
 */
TEST_F_TIMEOUT(reader, changes_while_preempted, 300)
{
	struct sleeper *s = &self->sleeper;
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID("sched/sched_waking"), BOTH);
	void *decoy = (void *)wait_asleep;
	char filter[32];

	if (!access("/sys/kernel/realtime", F_OK))
		SKIP(return, "PREEMPT_RT does not walk before a task is preempted");
	if (pin(2))
		SKIP(return, "no SCHED_FIFO: %s", strerror(errno));
	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, ALL_CPUS, SESSION_PAGES));
	/* Others may be woken while the thread has not restored its stack. */
	snprintf(filter, sizeof(filter), "pid == %ld", syscall(SYS_gettid));
	ASSERT_EQ(0, session_filter(&self->s, filter));
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, spin_thread, s));
	while (!s->slot)
		usleep(1000);
	ASSERT_EQ(0, session_enable(&self->s));
	for (; s->nr <= SLEEPS; s->nr++) {
		usleep(5000);
		if (s->nr)
			*s->slot = decoy;
	}
	ASSERT_EQ(0, pthread_join(self->thread, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
	TH_LOG("%u stacks of the sample, %u of others", count_with(&self->s.log, s->tid, s->ret),
	       count_with(&self->s.log, s->tid, decoy));
	/* A preemptible kernel may preempt the thread before it comes to that. */
	EXPECT_LE(SLEEPS - 2, count_with(&self->s.log, s->tid, s->ret));
	EXPECT_GE(2, count_with(&self->s.log, s->tid, decoy));
}

/* A function that is not in memory until it is called */
static const unsigned char frame_code[] = {
	0x55,			/* push %rbp */
	0x48, 0x89, 0xe5,	/* mov %rsp, %rbp */
	0x5d,			/* pop %rbp */
	0xc3,			/* ret */
};

static char *absent_code;

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void call_absent(void *volatile *ret)
{
	void *at;

	/* Below the red zone */
	asm volatile("lea -128(%%rsp), %%rsp; lea 1f(%%rip), %0; call *%1; 1: lea 128(%%rsp), %%rsp"
		     : "=&r" (at) : "r" (absent_code) : "memory");
	*ret = at;
}

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer")))
void *absent_thread(void *arg)
{
	struct sleeper *s = arg;
	int i;

	s->tid = syscall(SYS_gettid);
	for (i = 0; i < 1 + SLEEPS; i++) {
		call_absent((void *volatile *)&s->ret);
		s->nr++;
		if (madvise(absent_code, sysconf(_SC_PAGESIZE), MADV_DONTNEED))
			break;
	}
	return NULL;
}

/* Let a thread sleep in a page fault for a while, then give it the code. */
static int serve_fault(int uffd, char *page, size_t size)
{
	struct uffdio_copy copy = {
		.dst = (__u64)(unsigned long)absent_code,
		.src = (__u64)(unsigned long)page,
		.len = size,
	};
	struct uffd_msg msg;

	if (read(uffd, &msg, sizeof(msg)) != sizeof(msg) || msg.event != UFFD_EVENT_PAGEFAULT)
		return -1;
	usleep(20000);
	return ioctl(uffd, UFFDIO_COPY, &copy);
}

/*
 * A function is called whose code is not in memory. While the task waits for it, a walk cannot
 * see that the function has no frame yet, and the frame pointer would skip its caller.
 */
TEST_F_TIMEOUT(reader, code_is_absent, 300)
{
	struct sleeper *s = &self->sleeper;
	size_t size = sysconf(_SC_PAGESIZE);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct perf_event_attr attr = event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,
						 1, BOTH);
	const struct log_item *it;
	unsigned int i, faults = 0, callers = 0;
	const __u64 *ips;
	char *page;
	int uffd;

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (uffd < 0)
		SKIP(return, "no userfaultfd: %s", strerror(errno));
	absent_code = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page = calloc(1, size);
	ASSERT_NE(MAP_FAILED, absent_code);
	ASSERT_NE(NULL, page);
	memcpy(page, frame_code, sizeof(frame_code));
	reg.range.start = (__u64)(unsigned long)absent_code;
	reg.range.len = size;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_API, &api));
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_REGISTER, &reg));

	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, ALL_CPUS, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, absent_thread, s));
	for (i = 0; i < 1 + SLEEPS; i++)
		ASSERT_EQ(0, serve_fault(uffd, page, size));
	ASSERT_EQ(0, pthread_join(self->thread, NULL));
	ASSERT_EQ(1 + SLEEPS, s->nr);
	ASSERT_EQ(0, session_finish(&self->s));
	for (i = 0; (it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i)); i++) {
		if (it->tid != (__u32)s->tid || defer_user_chain(&self->s.log, it, &ips) < 2 ||
		    ips[0] != (__u64)(unsigned long)absent_code)
			continue;
		faults++;
		callers += ips[1] == (__u64)(unsigned long)s->ret;
	}
	TH_LOG("%u page faults, %u with the caller", faults, callers);
	EXPECT_LE(1 + SLEEPS, faults);
	EXPECT_EQ(faults, callers);
	close(uffd);
	munmap(absent_code, size);
	free(page);
}

#else /* !__x86_64__ */

TEST(x86_64_only)
{
	SKIP(return, "the system call is written for x86-64");
}

#endif

TEST_HARNESS_MAIN
