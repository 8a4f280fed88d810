// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains of tasks that sleep are delivered on request.
 *
 * A child takes a sample in a system call in which it then blocks. Its stack encodes a
 * number. PERF_EVENT_IOC_FLUSH_DEFERRED must deliver that stack once, and the child must
 * not deliver it again when it goes on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/futex.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "lib/blocked.h"
#include "lib/child.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/flush.h"
#include "lib/known_stack.h"
#include "lib/session.h"

#ifdef __x86_64__

static BLOCK block_futex(struct shared *sh)
{
	raw(__NR_futex, (long)&sh->futex, FUTEX_WAIT, 0, 0, 0, 0);
}

static BLOCK block_epoll(struct shared *sh)
{
	struct epoll_event event;

	raw(__NR_epoll_wait, sh->file, (long)&event, 1, -1, 0, 0);
}

static int prepare_epoll(struct shared *sh)
{
	struct epoll_event event = { .events = EPOLLIN };

	sh->file = epoll_create1(0);
	return epoll_ctl(sh->file, EPOLL_CTL_ADD, sh->pipe[0], &event);
}

static BLOCK block_nanosleep(struct shared *sh)
{
	raw(__NR_nanosleep, (long)&sh->time, 0, 0, 0, 0, 0);
}

static int prepare_nanosleep(struct shared *sh)
{
	sh->time.tv_sec = 600;
	return 0;
}

static BLOCK block_flock(struct shared *sh)
{
	raw(__NR_flock, sh->file, LOCK_EX, 0, 0, 0, 0);
}

/* Another open file description than the parent's, which has the lock. */
static int prepare_flock(struct shared *sh)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", sh->lock);
	sh->file = open(path, O_RDWR);
	return sh->file < 0 ? -1 : 0;
}

static BLOCK block_io_uring(struct shared *sh)
{
	/* Wait for a completion that never comes (IORING_ENTER_GETEVENTS). */
	raw(__NR_io_uring_enter, sh->file, 0, 1, 1, 0, 0);
}

static int prepare_io_uring(struct shared *sh)
{
	char params[120] = { 0 };

	sh->file = syscall(__NR_io_uring_setup, 4, params);
	return sh->file < 0 ? -1 : 0;
}

static BLOCK block_stop(struct shared *sh)
{
	raw(__NR_kill, raw(__NR_getpid, 0, 0, 0, 0, 0, 0), SIGSTOP, 0, 0, 0, 0);
}

static BLOCK block_traced(struct shared *sh)
{
	raw(__NR_getppid, 0, 0, 0, 0, 0, 0);
}

static int prepare_traced(struct shared *sh)
{
	return ptrace(PTRACE_TRACEME) || raise(SIGSTOP);
}

/* Shares the memory of its parent, which waits for it to end. */
static BLOCK block_vfork(struct shared *sh)
{
	register long fd asm("r12") = sh->pipe[0];
	register long buf asm("r13") = (long)sh->clone_stack;
	long ret;

	asm volatile("syscall\n"
		     "	test	%%rax, %%rax\n"
		     "	jnz	1f\n"
		     /* The child: read() a byte, then exit(). */
		     "	mov	%%r12, %%rdi\n"
		     "	mov	%%r13, %%rsi\n"
		     "	mov	$1, %%edx\n"
		     "	syscall\n"
		     "	mov	$60, %%eax\n"
		     "	xor	%%edi, %%edi\n"
		     "	syscall\n"
		     "1:\n"
		     : "=a" (ret)
		     : "0" (__NR_clone), "D" (CLONE_VM | CLONE_VFORK | SIGCHLD),
		       "S" (sh->clone_stack + sizeof(sh->clone_stack)), "d" (0),
		       "r" (fd), "r" (buf)
		     : "rcx", "r11", "memory");
}

static BLOCK block_uffd(struct shared *sh)
{
	/* The pipe has a byte, but the memory for it is not there. */
	raw(__NR_read, sh->pipe[0], (long)sh->page, 1, 0, 0, 0);
}

/* Answers the fault when the parent says so. */
static void *uffd_thread(void *arg)
{
	struct shared *sh = arg;
	struct uffdio_zeropage zero = {
		.range = { .start = (unsigned long)sh->page, .len = PAGE },
	};

	while (!__atomic_load_n(&sh->futex, __ATOMIC_ACQUIRE))
		usleep(1000);
	ioctl(sh->uffd, UFFDIO_ZEROPAGE, &zero);
	return NULL;
}

static int prepare_uffd(struct shared *sh)
{
	pthread_t thread;

	return make_uffd(sh) || write(sh->pipe[1], "x", 1) != 1 ||
	       pthread_create(&thread, NULL, uffd_thread, sh);
}

/* A protection key for the stack. The task may use it, a kernel thread may not. */
static int prepare_pkey(struct shared *sh)
{
	unsigned long start, end;
	char line[256];
	FILE *maps;
	int pkey;

	pkey = syscall(__NR_pkey_alloc, 0, 0);
	maps = fopen("/proc/self/maps", "r");
	if (pkey < 0 || !maps)
		return -1;
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &start, &end) == 2) {
			fclose(maps);
			return syscall(__NR_pkey_mprotect, start, end - start,
				       PROT_READ | PROT_WRITE, pkey);
		}
	}
	fclose(maps);
	return -1;
}

static void release_byte(struct shared *sh, pid_t pid)
{
	if (write(sh->pipe[1], "x", 1) != 1)
		kill(pid, SIGKILL);
}

static void release_futex(struct shared *sh, pid_t pid)
{
	__atomic_store_n(&sh->futex, 1, __ATOMIC_RELEASE);
	syscall(__NR_futex, &sh->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void release_signal(struct shared *sh, pid_t pid)
{
	kill(pid, SIGUSR1);
}

static void release_flock(struct shared *sh, pid_t pid)
{
	flock(sh->lock, LOCK_UN);
}

static void release_stop(struct shared *sh, pid_t pid)
{
	kill(pid, SIGCONT);
}

static void release_traced(struct shared *sh, pid_t pid)
{
	ptrace(PTRACE_DETACH, pid, 0, 0);
}

static void on_signal(int sig)
{
}

/* Let the tracee go on to where it leaves the system call. */
static int trace_to_exit(struct shared *sh, pid_t pid)
{
	int seen = 0, status;

	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return -1;
	while (seen < 2) {
		if (ptrace(PTRACE_SYSCALL, pid, 0, 0) ||
		    waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			return -1;
		if (ptrace(PTRACE_PEEKUSER, pid,
			   offsetof(struct user_regs_struct, orig_rax), 0) == __NR_getppid)
			seen++;
	}
	return 0;
}

/* Where the hierarchy of cgroups is mounted for the test */
#define CGROUPS	"/tmp/defer_flush"
#define CGROUP	CGROUPS "/defer_flush"

/* Freeze the task while it sleeps. */
static int freeze(struct shared *sh, pid_t pid)
{
	mkdir(CGROUPS, 0755);
	if (wait_blocked(pid) || mount("none", CGROUPS, "cgroup2", 0, NULL) ||
	    (mkdir(CGROUP, 0755) && errno != EEXIST) ||
	    write_text(CGROUP "/cgroup.procs", "%d", pid) ||
	    write_text(CGROUP "/cgroup.freeze", "1"))
		return -1;
	usleep(300000);
	return 0;
}

static void thaw(struct shared *sh, pid_t pid)
{
	siginfo_t info;

	write_text(CGROUP "/cgroup.freeze", "0");
	release_byte(sh, pid);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	rmdir(CGROUP);
	umount(CGROUPS);
	rmdir(CGROUPS);
}

static int wait_zombie(struct shared *sh, pid_t pid)
{
	siginfo_t info;

	return waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
}

static void release_nothing(struct shared *sh, pid_t pid)
{
}

FIXTURE(flush) {
	struct session s;
	struct shared *sh;
	struct child child;
	__u64 want[BITS + 16];
};

FIXTURE_VARIANT(flush) {
	long nr;
	void (*block)(struct shared *sh);
	int (*prepare)(struct shared *sh);
	void (*release)(struct shared *sh, pid_t pid);
	/* Makes it do what comes after the sample; or NULL */
	int (*hold)(struct shared *sh, pid_t pid);
	/* The task runs its task work before it blocks, so there is nothing left to do. */
	bool delivers;
	/* The system call is restarted, which is another sample. */
	bool again;
	bool pid_namespace;
	/* The event is that of a CPU. */
	bool cpu;
	/* The task has what a walk needs, so the stack is walked before it sleeps. */
	bool warm;
};

#define VARIANTS(name, ...)						\
FIXTURE_VARIANT_ADD(flush, name##_task_cold) { __VA_ARGS__ };		\
FIXTURE_VARIANT_ADD(flush, name##_task_warm) { __VA_ARGS__, .warm = true }; \
FIXTURE_VARIANT_ADD(flush, name##_cpu_cold) { __VA_ARGS__, .cpu = true }; \
FIXTURE_VARIANT_ADD(flush, name##_cpu_warm) { __VA_ARGS__, .cpu = true, .warm = true }

VARIANTS(read, .nr = __NR_read, .block = block_read, .release = release_byte);
VARIANTS(futex, .nr = __NR_futex, .block = block_futex, .release = release_futex);
VARIANTS(epoll, .nr = __NR_epoll_wait, .block = block_epoll,
	 .prepare = prepare_epoll, .release = release_byte);
VARIANTS(nanosleep, .nr = __NR_nanosleep, .block = block_nanosleep,
	 .prepare = prepare_nanosleep, .release = release_signal);
VARIANTS(flock, .nr = __NR_flock, .block = block_flock,
	 .prepare = prepare_flock, .release = release_flock);
VARIANTS(io_uring, .nr = __NR_io_uring_enter, .block = block_io_uring,
	 .prepare = prepare_io_uring, .release = release_signal, .delivers = true);
VARIANTS(stopped, .nr = __NR_kill, .block = block_stop, .release = release_stop,
	 .delivers = true);
VARIANTS(traced, .nr = __NR_getppid, .block = block_traced,
	 .prepare = prepare_traced, .release = release_traced,
	 .hold = trace_to_exit, .delivers = true);
VARIANTS(vfork, .nr = __NR_clone, .block = block_vfork, .release = release_byte);
VARIANTS(userfaultfd, .nr = __NR_read, .block = block_uffd,
	 .prepare = prepare_uffd, .release = release_futex);
VARIANTS(frozen, .nr = __NR_read, .block = block_read, .hold = freeze,
	 .release = thaw, .delivers = true, .again = true);
VARIANTS(zombie, .nr = __NR_getppid, .block = block_traced, .hold = wait_zombie,
	 .release = release_nothing, .delivers = true);
VARIANTS(protection_key, .nr = __NR_futex, .block = block_futex,
	 .prepare = prepare_pkey, .release = release_futex);
VARIANTS(pid_namespace, .nr = __NR_read, .block = block_read, .release = release_byte,
	 .pid_namespace = true);

FIXTURE_SETUP(flush)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	self->sh = mmap(NULL, sizeof(*self->sh), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->sh);
	ASSERT_EQ(0, pipe(self->sh->pipe));
	self->sh->lock = memfd_create("lock", 0);
	ASSERT_LE(0, self->sh->lock);
	ASSERT_EQ(0, flock(self->sh->lock, LOCK_EX));
}

FIXTURE_TEARDOWN(flush)
{
	session_close(&self->s);
	munmap(self->sh, sizeof(*self->sh));
}

struct block_args {
	struct shared *sh;
	void (*block)(struct shared *sh);
	int (*prepare)(struct shared *sh);
	bool warm;
};

/* Exits with 0 after it has blocked, with 4 if this machine cannot do it. */
static void do_block(void *arg)
{
	struct block_args *a = arg;
	struct sigaction sa = { .sa_handler = on_signal };
	int i;

	sigaction(SIGUSR1, &sa, NULL);
	for (i = 0; a->warm && i < WARM; i++)
		known_walk_syscall(ID, BITS, __NR_getpgid, 0, 0);
	if (a->prepare && a->prepare(a->sh))
		_exit(4);
	known_walk_call(ID, BITS, a->block, a->sh);
}

/* The sample in which the child has blocked, the last one before it goes on */
static const struct log_item *blocking_sample(struct event_log *log, pid_t pid)
{
	const struct log_item *it, *last = NULL;
	unsigned int i;

	for (i = 0; (it = log_nth(log, PERF_RECORD_SAMPLE, i)); i++) {
		/* Those of several CPUs are not in the order of time. */
		if (it->pid == (__u32)pid && (!last || it->time > last->time))
			last = it;
	}
	return last;
}

TEST_F_TIMEOUT(flush, once, 120)
{
	struct block_args args = {
		.sh = self->sh, .block = variant->block,
		.prepare = variant->prepare, .warm = variant->warm,
	};
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	unsigned int warm = variant->warm ? WARM : 0, at_flush;
	const struct log_item *it;
	struct defer_stats st;
	struct flush sum;
	const __u64 *ips;
	int status, nr;
	pid_t pid;

	if (variant->pid_namespace)
		ASSERT_EQ(0, unshare(CLONE_NEWPID));
	ASSERT_EQ(0, child_spawn(&self->child, do_block, &args));
	pid = self->child.pid;
	/* It waits in read(), too. */
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, open_for(&self->s, &attr, pid, variant->cpu));
	ASSERT_EQ(0, set_filter(&self->s, variant->nr, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	if (variant->hold)
		ASSERT_EQ(0, variant->hold(self->sh, pid));
	if (session_wait(&self->s, warm + 1, 10)) {
		ASSERT_EQ(pid, waitpid(pid, &status, WNOHANG));
		ASSERT_EQ(4, WEXITSTATUS(status));
		SKIP(return, "not possible on this machine");
	}
	ASSERT_EQ(0, wait_blocked(pid));

	ASSERT_EQ(0, flush_blocked(&self->s, &sum));
	TH_LOG("%u delivered, %u busy, %u failed", sum.delivered, sum.busy, sum.failed);
	EXPECT_GE(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);
	session_drain(&self->s);
	ASSERT_EQ(0, log_parse(&self->s.log));
	at_flush = log_count(&self->s.log, DEFER_RECORD);
	EXPECT_EQ(warm + 1, at_flush);
	EXPECT_EQ(!variant->delivers, sum.delivered);

	it = blocking_sample(&self->s.log, pid);
	ASSERT_NE(NULL, it);
	nr = defer_user_chain(&self->s.log, it, &ips);
	ASSERT_LT(2, nr);
	EXPECT_TRUE(stack_same(ips + 2, nr - 2, self->want,
			       known_expect_tail(self->want, ID, BITS)));
	EXPECT_EQ((__u64)walk_call_ret, ips[1]);

	/* A second one finds nothing. */
	ASSERT_EQ(0, flush_all(&self->s, &sum));
	EXPECT_EQ(0, sum.delivered);

	variant->release(self->sh, pid);
	ASSERT_EQ(0, child_wait(pid, &status, 30, &self->s));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.missing);
	EXPECT_EQ(warm + 1 + variant->again, st.records);
}

#else /* !__x86_64__ */

TEST(flush)
{
	SKIP(return, "the system calls are written for x86-64");
}

#endif

TEST_HARNESS_MAIN
