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
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
#include "../unwind/lib/fuse_server.h"
#include "lib/child.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/flush.h"
#include "lib/known_stack.h"
#include "lib/session.h"

#ifdef __x86_64__

#define TP_RAW		"raw_syscalls/sys_enter"
#define BITS		10
#define ID		0x2a5
/* Stacks that a task delivers itself, after which what it needs is at hand */
#define WARM		20
#define PAGE		4096UL

/* What parent and child share */
struct shared {
	int		pipe[2];
	/* Of the parent, which holds the lock; of the child */
	int		lock;
	int		file;
	int		uffd;
	void		*page;
	unsigned int	futex;
	struct timespec	time;
	char		clone_stack[PAGE];
};

static __always_inline long raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 asm("r10") = d;
	register long r8 asm("r8") = e;
	register long r9 asm("r9") = f;
	long ret;

	asm volatile("syscall" : "=a" (ret)
		     : "0" (nr), "D" (a), "S" (b), "d" (c), "r" (r10), "r" (r8), "r" (r9)
		     : "rcx", "r11", "memory");
	return ret;
}

/* The stack of a sample in such a function: the function, walk_call_ret, the walk. */
#define BLOCK __attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) \
	static void

BLOCK block_read(struct shared *sh)
{
	char c;

	raw(__NR_read, sh->pipe[0], (long)&c, 1, 0, 0, 0);
}

BLOCK block_futex(struct shared *sh)
{
	raw(__NR_futex, (long)&sh->futex, FUTEX_WAIT, 0, 0, 0, 0);
}

BLOCK block_epoll(struct shared *sh)
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

BLOCK block_nanosleep(struct shared *sh)
{
	raw(__NR_nanosleep, (long)&sh->time, 0, 0, 0, 0, 0);
}

static int prepare_nanosleep(struct shared *sh)
{
	sh->time.tv_sec = 600;
	return 0;
}

BLOCK block_flock(struct shared *sh)
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

BLOCK block_io_uring(struct shared *sh)
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

BLOCK block_stop(struct shared *sh)
{
	raw(__NR_kill, raw(__NR_getpid, 0, 0, 0, 0, 0, 0), SIGSTOP, 0, 0, 0, 0);
}

BLOCK block_traced(struct shared *sh)
{
	raw(__NR_getppid, 0, 0, 0, 0, 0, 0);
}

static int prepare_traced(struct shared *sh)
{
	return ptrace(PTRACE_TRACEME) || raise(SIGSTOP);
}

/* Shares the memory of its parent, which waits for it to end. */
BLOCK block_vfork(struct shared *sh)
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

BLOCK block_uffd(struct shared *sh)
{
	/* The pipe has a byte, but the memory for it is not there. */
	raw(__NR_read, sh->pipe[0], (long)sh->page, 1, 0, 0, 0);
}

static int make_uffd(struct shared *sh)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	sh->uffd = syscall(__NR_userfaultfd, O_CLOEXEC);
	if (sh->uffd < 0 || ioctl(sh->uffd, UFFDIO_API, &api))
		return -1;
	sh->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sh->page == MAP_FAILED)
		return -1;
	reg.range.start = (unsigned long)sh->page;
	reg.range.len = PAGE;
	return ioctl(sh->uffd, UFFDIO_REGISTER, &reg);
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

/* The states of a task that does not run: in stat of /proc */
static bool blocked(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(file);
	return state && strchr("SDTtZ", state);
}

static int wait_blocked(pid_t pid)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;

	while (now_nsec() < end) {
		if (blocked(pid))
			return 0;
		usleep(1000);
	}
	return -1;
}

/*
 * Flush for a child that is blocked, according to its state. It sets that some time before
 * it leaves its CPU, and is busy until then.
 */
static int flush_blocked(struct session *s, struct flush *sum)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;
	int ret;

	do {
		ret = flush_all(s, sum);
	} while (!ret && sum->busy && !sum->delivered && now_nsec() < end);
	return ret;
}

/* The same for one event, and at most @max stacks */
static int flush_blocked_one(int fd, unsigned int max, struct flush *sum)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;
	int ret;

	do {
		memset(sum, 0, sizeof(*sum));
		ret = flush_one(fd, max, sum);
	} while (!ret && sum->busy && !sum->delivered && now_nsec() < end);
	return ret;
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

/* Open the event for the child, or for all CPUs. */
static int open_for(struct session *s, struct perf_event_attr *attr, pid_t pid, bool cpu)
{
	return cpu ? session_open(s, attr, -1, ALL_CPUS, SESSION_PAGES) :
		     session_open(s, attr, pid, -1, SESSION_PAGES);
}

static int set_filter(struct session *s, long nr, pid_t pid)
{
	char filter[128];
	unsigned int i;

	snprintf(filter, sizeof(filter),
		 "(id == %ld || id == %d) && common_pid == %d", nr, __NR_getpgid, pid);
	for (i = 0; i < s->nr_bufs; i++) {
		if (ioctl(s->bufs[i].fd, PERF_EVENT_IOC_SET_FILTER, filter))
			return -1;
	}
	return 0;
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

/* Events of a task, and of all CPUs */

static volatile bool *race_stop;

FIXTURE(event) {
	struct session s;
	struct child child;
	struct shared *sh;
};

FIXTURE_VARIANT(event) {
	bool cpu;
};

FIXTURE_VARIANT_ADD(event, task) { .cpu = false };
FIXTURE_VARIANT_ADD(event, cpu) { .cpu = true };

FIXTURE_SETUP(event)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	race_stop = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)race_stop);
	self->sh = calloc(1, sizeof(*self->sh));
	ASSERT_NE(NULL, self->sh);
}

FIXTURE_TEARDOWN(event)
{
	session_close(&self->s);
	munmap((void *)race_stop, PAGE);
	free(self->sh);
}

/* Memory that the walk would have to wait for: it ends there. */

static void do_uffd_stack(void *arg)
{
	struct shared *sh = arg;

	if (make_uffd(sh))
		_exit(4);
	/* The frame is where nobody answers faults. */
	walk_on(__NR_pause, 0, sh->page, sh->page, 0);
}

/* The walk of a child that sleeps on such a stack finds the innermost frame. */
static void innermost_only(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			   bool cpu, void (*fn)(void *arg))
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	const struct log_item *it;
	struct flush sum;
	const __u64 *ips;
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child, fn, self->sh));
	pid = self->child.pid;
	ASSERT_EQ(0, open_for(&self->s, &attr, pid, cpu));
	ASSERT_EQ(0, set_filter(&self->s, __NR_pause, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	ASSERT_EQ(0, session_wait(&self->s, 1, 10));
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, flush_blocked(&self->s, &sum));
	EXPECT_EQ(1, sum.delivered);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
	ASSERT_NE(NULL, it);
	ASSERT_EQ(1, defer_user_chain(&self->s.log, it, &ips));
	EXPECT_EQ((__u64)walk_on_ip, ips[0]);
}

TEST_F_TIMEOUT(event, memory_of_userfaultfd, 120)
{
	innermost_only(_metadata, self, variant->cpu, do_uffd_stack);
}

static void do_fuse_stack(void *arg)
{
	struct shared *sh = arg;
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, sh->file, 0);

	if (page == MAP_FAILED)
		_exit(4);
	walk_on(__NR_pause, 0, page, page, 0);
}

TEST_F_TIMEOUT(event, memory_of_fuse, 120)
{
	static const unsigned char bytes[PAGE];
	struct fuse_server server = {};
	const char *why = NULL;
	char dir[64] = "";

	ASSERT_EQ(0, make_dir(dir, sizeof(dir)));
	snprintf(server.dir, sizeof(server.dir), "%s", dir);
	self->sh->file = fuse_server_start(&server, bytes, sizeof(bytes), &why);
	if (self->sh->file < 0) {
		EXPECT_EQ(0, remove_dir(dir));
		ASSERT_NE(NULL, why);
		SKIP(return, "%s", why);
	}
	server.shared->withhold[0] = true;
	innermost_only(_metadata, self, variant->cpu, do_fuse_stack);
	EXPECT_EQ(0, server.shared->asked[0]);
	close(self->sh->file);
	fuse_server_stop(&server);
	EXPECT_EQ(0, remove_dir(dir));
}

/* Tasks that wake each other while flushes run */

#define PAIRS		6
#define RACE_SECONDS	5

static void *pair_thread(void *arg)
{
	int *fd = arg;
	char c = 0;

	while (!*race_stop) {
		if (write(fd[1], &c, 1) != 1 || read(fd[0], &c, 1) != 1)
			break;
	}
	close(fd[1]);
	return NULL;
}

static void do_pairs(void *arg)
{
	pthread_t threads[2 * PAIRS];
	int fds[2 * PAIRS][2];
	int there[2], back[2];
	unsigned int i;

	for (i = 0; i < PAIRS; i++) {
		if (pipe(there) || pipe(back))
			_exit(2);
		fds[2 * i][0]		= back[0];
		fds[2 * i][1]		= there[1];
		fds[2 * i + 1][0]	= there[0];
		fds[2 * i + 1][1]	= back[1];
	}
	for (i = 0; i < 2 * PAIRS; i++) {
		if (pthread_create(&threads[i], NULL, pair_thread, fds[i]))
			_exit(2);
	}
	for (i = 0; i < 2 * PAIRS; i++)
		pthread_join(threads[i], NULL);
}

TEST_F_TIMEOUT(event, race_with_wakeups, 300)
{
	struct perf_event_attr out = defer_attr_output();
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), DEFER_ATTR_CALLCHAIN);
	unsigned int flushes = 0, delivered = 0;
	struct defer_stats st;
	struct flush sum;
	char filter[64];
	unsigned int i;
	__u64 end;
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child, do_pairs, NULL));
	pid = self->child.pid;
	out.inherit = 1;
	attr.inherit = 1;
	/* Inherited events need one buffer for each CPU. */
	ASSERT_EQ(0, session_open(&self->s, &out, variant->cpu ? -1 : pid, ALL_CPUS, 512));
	ASSERT_EQ(0, session_add(&self->s, &attr));
	snprintf(filter, sizeof(filter), "id == %d", __NR_read);
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].extra[0], PERF_EVENT_IOC_SET_FILTER,
				   filter));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	end = now_nsec() + RACE_SECONDS * NSEC_PER_SEC;
	while (now_nsec() < end) {
		ASSERT_EQ(0, flush_all(&self->s, &sum));
		delivered += sum.delivered;
		flushes++;
		session_drain(&self->s);
	}
	*race_stop = true;
	ASSERT_EQ(0, child_wait(pid, &status, 30, &self->s));
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].extra[0], PERF_EVENT_IOC_DISABLE, 0));
	/* Others that sleep in read() */
	ASSERT_EQ(0, flush_all(&self->s, &sum));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	TH_LOG("%u flushes delivered %u of %u stacks", flushes, delivered, st.records);
	EXPECT_CONSERVED(&st);
	EXPECT_LT(0, delivered);
	EXPECT_LT(delivered, st.records);
}

/* A child that is being forked is no task yet that has the request of its parent. */

static void do_forks(void *arg)
{
	long pid;

	while (!*race_stop) {
		pid = raw(__NR_clone, SIGCHLD, 0, 0, 0, 0, 0);
		if (!pid)
			raw(__NR_exit, 0, 0, 0, 0, 0, 0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			_exit(2);
	}
}

TEST_F_TIMEOUT(event, race_with_forks, 300)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	unsigned int flushes = 0, i;
	struct defer_stats st;
	struct flush sum;
	char filter[32];
	__u64 end;
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child, do_forks, NULL));
	pid = self->child.pid;
	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, variant->cpu ? -1 : pid, ALL_CPUS, 512));
	snprintf(filter, sizeof(filter), "id == %d", __NR_clone);
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	end = now_nsec() + RACE_SECONDS * NSEC_PER_SEC;
	while (now_nsec() < end) {
		ASSERT_EQ(0, flush_all(&self->s, &sum));
		flushes++;
		session_drain(&self->s);
	}
	*race_stop = true;
	ASSERT_EQ(0, child_wait(pid, &status, 30, &self->s));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	TH_LOG("%u flushes, %u stacks", flushes, st.records);
	EXPECT_CONSERVED(&st);
	EXPECT_LT(0, st.records);
}

/* What an event of one task may flush */

#define PARANOID	"/proc/sys/kernel/perf_event_paranoid"
#define NOBODY		65534
/* Few pages, because those of an unprivileged user are limited */
#define FEW_PAGES	8

static void do_read(void *arg)
{
	block_read(arg);
}

struct program {
	struct shared *sh;
	const char *path;
};

/* As a user without privileges, run a program that blocks in read(). */
static void do_program(void *arg)
{
	struct program *p = arg;

	if (setresuid(NOBODY, NOBODY, NOBODY) || dup2(p->sh->pipe[0], STDIN_FILENO) < 0)
		_exit(2);
	execl(p->path, "cat", NULL);
	_exit(3);
}

static void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
}

/* Wait until a child has become the program and waits for a byte; returns its user. */
static int wait_program(pid_t pid)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;
	char text[1024], *uid;
	int effective;

	while (now_nsec() < end) {
		read_proc(pid, "comm", text, sizeof(text));
		if (!strcmp(text, "cat\n")) {
			read_proc(pid, "wchan", text, sizeof(text));
			if (strstr(text, "pipe_read")) {
				read_proc(pid, "status", text, sizeof(text));
				uid = strstr(text, "Uid:");
				if (uid && sscanf(uid, "Uid: %*d %d", &effective) == 1)
					return effective;
			}
		}
		usleep(1000);
	}
	return -1;
}

FIXTURE(other) {
	struct session s;
	struct child child;
	struct shared *sh;
	char dir[64];
	long paranoid;
};

FIXTURE_VARIANT(other) {
	mode_t mode;
};

/* No event of a user without privileges survives the start of a set-user-ID program. */
FIXTURE_VARIANT_ADD(other, program) { .mode = 0755 };
FIXTURE_VARIANT_ADD(other, set_uid_program) { .mode = 04755 };

FIXTURE_SETUP(other)
{
	const char *why = defer_unsupported();

	self->paranoid = LONG_MAX;
	if (why)
		SKIP(return, "%s", why);
	self->sh = mmap(NULL, sizeof(*self->sh), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->sh);
	ASSERT_EQ(0, pipe(self->sh->pipe));
	ASSERT_EQ(0, make_dir(self->dir, sizeof(self->dir)));
	ASSERT_EQ(0, chmod(self->dir, 0755));
	ASSERT_EQ(0, read_long(PARANOID, &self->paranoid));
	ASSERT_EQ(0, write_long(PARANOID, 1));
}

FIXTURE_TEARDOWN(other)
{
	ASSERT_EQ(0, seteuid(0));
	session_close(&self->s);
	munmap(self->sh, sizeof(*self->sh));
	EXPECT_EQ(0, remove_dir(self->dir));
	if (self->paranoid != LONG_MAX)
		EXPECT_EQ(0, write_long(PARANOID, self->paranoid));
}

TEST_F_TIMEOUT(other, user, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct program p = { .sh = self->sh };
	struct flush sum;
	char command[128];
	int euid, status;
	pid_t pid;

	p.path = file_path(self->dir, "cat");
	snprintf(command, sizeof(command), "cp /bin/cat %s", p.path);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, chmod(p.path, variant->mode));

	attr.inherit = 1;
	ASSERT_EQ(0, seteuid(NOBODY));
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, ALL_CPUS, FEW_PAGES));
	ASSERT_EQ(0, child_spawn(&self->child, do_program, &p));
	pid = self->child.pid;
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, set_filter(&self->s, __NR_read, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	/* Only root may see where another's program waits. */
	ASSERT_EQ(0, seteuid(0));
	euid = wait_program(pid);
	ASSERT_LE(0, euid);
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, seteuid(NOBODY));
	if (variant->mode & 04000 && euid)
		SKIP(goto out, "no set-user-ID programs in %s", self->dir);

	ASSERT_EQ(0, flush_blocked(&self->s, &sum));
	TH_LOG("%u delivered, %u busy, %u failed", sum.delivered, sum.busy, sum.failed);
	EXPECT_EQ(!(variant->mode & 04000), sum.delivered);
	EXPECT_EQ(0, sum.busy);
	EXPECT_EQ(0, sum.failed);
out:
	ASSERT_EQ(0, seteuid(0));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
}

/* Arguments */

FIXTURE(abi) {
	struct session s;
	struct session all;
	struct child child[2];
	struct shared *sh;
};

FIXTURE_SETUP(abi)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	self->sh = mmap(NULL, sizeof(*self->sh), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->sh);
	ASSERT_EQ(0, pipe(self->sh->pipe));
}

FIXTURE_TEARDOWN(abi)
{
	session_close(&self->s);
	session_close(&self->all);
	munmap(self->sh, sizeof(*self->sh));
}

#define EXPECT_FLUSH_ERROR(err, fd, arg) do {				\
	EXPECT_EQ(-1, ioctl(fd, IOC_FLUSH, arg));			\
	EXPECT_EQ(err, errno);						\
} while (0)

TEST_F(abi, arguments)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct {
		struct flush	arg;
		__u64		more;
	} longer = { };
	struct flush arg = { };
	int fd;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	fd = self->s.bufs[0].fd;
	EXPECT_FLUSH_ERROR(EFAULT, fd, NULL);
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	arg.size = sizeof(arg) - 4;
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	arg.size = 2 * PAGE;
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	arg = (struct flush) { .size = sizeof(arg), .flags = 1 };
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	arg = (struct flush) { .size = sizeof(arg), .reserved = 1 };
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	longer.arg.size = sizeof(longer);
	EXPECT_EQ(0, ioctl(fd, IOC_FLUSH, &longer));
	longer.more = 1;
	EXPECT_FLUSH_ERROR(E2BIG, fd, &longer);
}

TEST_F(abi, event_without_callchains)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), 0);
	struct flush arg = { .size = sizeof(arg) };

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	EXPECT_FLUSH_ERROR(EINVAL, self->s.bufs[0].fd, &arg);
}

/* Of two tasks that sleep with a request, the event of one delivers the stack of that one. */
TEST_F_TIMEOUT(abi, other_task, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct session *sessions[2] = { &self->s, &self->all };
	const struct log_item *it;
	struct flush sum;
	unsigned int i;
	int status;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, child_spawn(&self->child[i], do_read, self->sh));
		ASSERT_EQ(0, wait_blocked(self->child[i].pid));
		ASSERT_EQ(0, open_for(sessions[i], &attr, self->child[i].pid, i == 1));
		ASSERT_EQ(0, set_filter(sessions[i], __NR_read, self->child[i].pid));
		ASSERT_EQ(0, session_enable(sessions[i]));
		ASSERT_EQ(0, child_go(&self->child[i]));
		ASSERT_EQ(0, session_wait(sessions[i], 1, 30));
		ASSERT_EQ(0, wait_blocked(self->child[i].pid));
	}

	ASSERT_EQ(0, flush_blocked(&self->s, &sum));
	EXPECT_EQ(1, sum.delivered);
	session_drain(&self->all);
	ASSERT_EQ(0, log_parse(&self->all.log));
	for (i = 0; (it = log_nth(&self->all.log, DEFER_RECORD, i)); i++)
		EXPECT_NE(self->child[1].pid, (pid_t)it->pid);
	ASSERT_EQ(0, flush_blocked(&self->all, &sum));
	EXPECT_LE(1, sum.delivered);
	session_drain(&self->all);
	ASSERT_EQ(0, log_parse(&self->all.log));
	for (i = 0; (it = log_nth(&self->all.log, DEFER_RECORD, i)); i++) {
		if (it->pid == (__u32)self->child[1].pid)
			break;
	}
	EXPECT_NE(NULL, it);

	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, child_wait(self->child[i].pid, &status, 30, sessions[i]));
}

TEST_F(abi, max)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	unsigned int i, delivered = 0, left = 0;
	struct flush sum;
	char filter[64];
	int status, cpu;

	/* Both samples on one CPU */
	cpu = pin_to_cpu(-1);
	ASSERT_LE(0, cpu);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, child_spawn(&self->child[i], do_read, self->sh));
		ASSERT_EQ(0, wait_blocked(self->child[i].pid));
	}
	ASSERT_EQ(0, session_open(&self->s, &attr, -1, cpu, SESSION_PAGES));
	snprintf(filter, sizeof(filter), "id == %d && (common_pid == %d || common_pid == %d)",
		 __NR_read, self->child[0].pid, self->child[1].pid);
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, child_go(&self->child[i]));
	ASSERT_EQ(0, session_wait(&self->s, 2, 30));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, wait_blocked(self->child[i].pid));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, flush_blocked_one(self->s.bufs[0].fd, 1, &sum));
		EXPECT_EQ(1, sum.delivered);
		delivered += sum.delivered;
		left += sum.left;
	}
	EXPECT_EQ(2, delivered);
	EXPECT_EQ(1, left);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, child_wait(self->child[i].pid, &status, 30, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_EQ(2, log_count(&self->s.log, DEFER_RECORD));
}

/* Requests of several CPUs, for an event that has no CPU of its own */

struct pinned {
	struct shared *sh;
	int cpu;
};

static void *pinned_thread(void *arg)
{
	struct pinned *p = arg;

	pin_to_cpu(p->cpu);
	block_read(p->sh);
	return NULL;
}

static void do_pinned(void *arg)
{
	struct pinned p[2] = { { arg, 0 }, { arg, 1 } };
	pthread_t threads[2];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (pthread_create(&threads[i], NULL, pinned_thread, &p[i]))
			_exit(2);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

TEST_F_TIMEOUT(abi, several_cpus, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct flush sum = { };
	struct defer_stats st;
	unsigned int i, tries;
	char filter[32];
	int fd, status;
	pid_t pid;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "only one CPU");
	ASSERT_EQ(0, child_spawn(&self->child[0], do_pinned, self->sh));
	pid = self->child[0].pid;
	ASSERT_EQ(0, wait_blocked(pid));
	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, pid, ALL_CPUS, SESSION_PAGES));
	snprintf(filter, sizeof(filter), "id == %d", __NR_read);
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	fd = event_open(&attr, pid, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child[0]));
	ASSERT_EQ(0, session_wait(&self->s, 2, 30));
	for (tries = 0; tries < 1000 && sum.delivered < 2; tries++) {
		ASSERT_EQ(0, flush_one(fd, 0, &sum));
		EXPECT_EQ(0, sum.failed);
		usleep(10000);
	}
	EXPECT_EQ(2, sum.delivered);
	close(fd);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	ASSERT_EQ(0, child_wait(pid, &status, 30, &self->s));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(2, st.records);
}

static void do_warm_read(void *arg)
{
	int i;

	for (i = 0; i < 10 * WARM; i++)
		known_walk_syscall(ID, BITS, __NR_getpgid, 0, 0);
	block_read(arg);
}

/* Another session has no room: the one that has does not get the stack twice. */
TEST_F_TIMEOUT(abi, full_buffer, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct flush sum = { };
	struct defer_stats st;
	unsigned int i;
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child[0], do_warm_read, self->sh));
	pid = self->child[0].pid;
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, open_for(&self->s, &attr, pid, false));
	ASSERT_EQ(0, session_open(&self->all, &attr, pid, -1, 1));
	ASSERT_EQ(0, set_filter(&self->s, __NR_read, pid));
	ASSERT_EQ(0, set_filter(&self->all, __NR_read, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, session_enable(&self->all));
	ASSERT_EQ(0, child_go(&self->child[0]));
	ASSERT_EQ(0, session_wait(&self->s, 10 * WARM + 1, 30));
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, flush_blocked_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);
	ASSERT_EQ(0, flush_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);
	ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	ASSERT_EQ(0, child_wait(pid, &status, 30, NULL));
	ASSERT_EQ(0, session_finish(&self->all));
	EXPECT_GT(10 * WARM, log_count(&self->all.log, PERF_RECORD_SAMPLE));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(10 * WARM + 1, st.records);
}

/* If no event can take the stack, the request stays, and the stack comes later. */
TEST_F(abi, disabled_event)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct flush sum = { };
	struct defer_stats st;
	char filter[64];
	int status, cpu;

	cpu = pin_to_cpu(-1);
	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, child_spawn(&self->child[0], do_read, self->sh));
	ASSERT_EQ(0, wait_blocked(self->child[0].pid));
	ASSERT_EQ(0, session_open(&self->s, &attr, -1, cpu, SESSION_PAGES));
	snprintf(filter, sizeof(filter), "id == %d && common_pid == %d", __NR_read,
		 self->child[0].pid);
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child[0]));
	ASSERT_EQ(0, session_wait(&self->s, 1, 30));
	ASSERT_EQ(0, wait_blocked(self->child[0].pid));

	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, flush_blocked_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(0, sum.delivered);
	EXPECT_EQ(1, sum.failed);

	memset(&sum, 0, sizeof(sum));
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_EQ(0, flush_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);

	ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	ASSERT_EQ(0, child_wait(self->child[0].pid, &status, 30, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.missing);
}

#else /* !__x86_64__ */

TEST(flush)
{
	SKIP(return, "the system calls are written for x86-64");
}

#endif

TEST_HARNESS_MAIN
