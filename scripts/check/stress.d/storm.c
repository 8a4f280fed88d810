// SPDX-License-Identifier: GPL-2.0
/*
 * storm SECONDS [SEED]: processes that do, all at once, what is hard for a profiler: they fork
 * and execute, make threads, map and unmap code and change its protection, load libraries,
 * take signals, switch stacks, trace each other, run out of memory in a cgroup, sleep, and
 * open, redirect, flush and close events of their own. Prints how often each was done. A
 * process that dies is started again, and counted.
 *
 * The process "known" only calls known_0() to known_7() by turns, deeper and deeper: its
 * stacks can be checked.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#define NOINLINE __attribute__((noinline, noclone))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CGROUP "/sys/fs/cgroup/storm"

static uint64_t state;
/* The last thing that was tried could not be done. */
static bool failed;
static volatile uint64_t sink;
static char self_path[4096];

static uint32_t rnd(uint32_t max)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % max;
}

static NOINLINE void spin(unsigned int n)
{
	/* Has the compiler make a frame: before there is a table, stacks are by frame pointers. */
	asm volatile("" : : "r" (__builtin_frame_address(0)));
	while (n--)
		sink += n * 2654435761U;
}

static NOINLINE void deeper(int depth)
{
	if (depth)
		deeper(depth - 1);
	else
		spin(2000);
	asm volatile("");
}

static void reap(pid_t pid)
{
	if (pid > 0)
		waitpid(pid, NULL, __WALL);
}

/* Each of these does it once. */

static void do_fork(void)
{
	pid_t pid = fork();

	if (!pid) {
		deeper(rnd(40));
		_exit(0);
	}
	reap(pid);
}

static void do_exec(void)
{
	char depth[16];
	pid_t pid;

	snprintf(depth, sizeof(depth), "%u", rnd(40));
	pid = rnd(2) ? vfork() : fork();
	if (!pid) {
		execl(self_path, "storm-leaf", "--leaf", depth, NULL);
		_exit(1);
	}
	reap(pid);
}

static void *thread_once(void *arg)
{
	deeper((long)arg);
	return NULL;
}

static void do_threads(void)
{
	pthread_t threads[6];
	unsigned int i, nr;

	for (nr = 0; nr < ARRAY_SIZE(threads); nr++) {
		if (pthread_create(&threads[nr], NULL, thread_once, (void *)(long)rnd(60)))
			break;
	}
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
}

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };

static NOINLINE void from_mapped(void)
{
	deeper(rnd(8));
	asm volatile("");
}

static void do_code(void)
{
	void (*call)(void (*)(void));
	size_t size = 4096 * (1 + rnd(8));
	int fd = memfd_create("code", 0);
	unsigned int i;
	char *map;

	if (fd < 0)
		return;
	if (ftruncate(fd, size) || pwrite(fd, code, sizeof(code), 0) != sizeof(code))
		goto out;
	map = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		goto out;
	call = (void *)map;
	for (i = 0; i < 10; i++) {
		call(from_mapped);
		/* It may fail for want of memory, and that is not what the storm is about. */
		if (!mprotect(map, size, PROT_READ)) {
			while (mprotect(map, size, PROT_READ | PROT_EXEC))
				usleep(100);
		}
		if (size > 4096 && i == 5 && !munmap(map + 4096, size - 4096))
			size = 4096;
	}
	munmap(map, size);
out:
	close(fd);
}

static void do_dlopen(void)
{
	static const char * const names[] = {
		"libm.so.6", "libz.so.1", "liblzma.so.5", "libelf.so.1", "libcrypt.so.1",
		"libresolv.so.2", "libstdc++.so.6", "libexpat.so.1",
	};
	void *lib = dlopen(names[rnd(ARRAY_SIZE(names))], RTLD_NOW | RTLD_LOCAL);

	deeper(3);
	if (lib)
		dlclose(lib);
}

static void on_alarm(int sig)
{
	deeper(10);
}

static void do_signals(void)
{
	static char alternate[65536];
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	struct sigaction act = { .sa_handler = on_alarm };
	struct itimerval timer = { .it_interval.tv_usec = 500, .it_value.tv_usec = 500 };
	unsigned int i;

	if (rnd(2)) {
		sigaltstack(&stack, NULL);
		act.sa_flags = SA_ONSTACK;
	}
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (i = 0; i < 50; i++)
		deeper(20);
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
}

static ucontext_t home, contexts[4];

static void coroutine(void)
{
	for (;;) {
		deeper(rnd(12));
		swapcontext(&contexts[0], &home);
	}
}

static void do_stacks(void)
{
	static char stacks[65536];
	unsigned int i;

	getcontext(&contexts[0]);
	contexts[0].uc_stack.ss_sp = stacks;
	contexts[0].uc_stack.ss_size = sizeof(stacks);
	contexts[0].uc_link = NULL;
	makecontext(&contexts[0], coroutine, 0);
	for (i = 0; i < 40; i++)
		swapcontext(&home, &contexts[0]);
}

static void do_ptrace(void)
{
	pid_t parent = getpid(), pid = fork();
	unsigned int i;
	int status;

	if (!pid) {
		/* The signal does not come if the parent is gone already. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			deeper(12);
		_exit(0);
	}
	if (pid < 0)
		return;
	if (!ptrace(PTRACE_SEIZE, pid, NULL, NULL) && !ptrace(PTRACE_INTERRUPT, pid, NULL, NULL)) {
		for (i = 0; i < 30; i++) {
			if (waitpid(pid, &status, __WALL) < 0 || !WIFSTOPPED(status))
				break;
			ptrace(i % 3 ? PTRACE_SINGLESTEP : PTRACE_SYSCALL, pid, NULL, NULL);
			if (i % 3 == 0)
				ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
		}
	}
	kill(pid, SIGKILL);
	reap(pid);
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return done;
}

static void do_oom(void)
{
	pid_t pid = fork();

	if (!pid) {
		size_t size = 256 << 20, at;
		char *map;

		if (!write_file(CGROUP "/cgroup.procs", "0"))
			_exit(1);
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (map == MAP_FAILED)
			_exit(1);
		for (at = 0; at < size; at += 4096) {
			map[at] = 1;
			if (!(at % (64 << 10)))
				deeper(5);
		}
		_exit(0);
	}
	reap(pid);
}

static void do_sleep(void)
{
	struct timespec time = { .tv_nsec = 1000 * rnd(500) };
	struct pollfd poll_fd = { .fd = -1 };
	int word = 0;

	switch (rnd(4)) {
	case 0:
		nanosleep(&time, NULL);
		break;
	case 1:
		poll(&poll_fd, 1, 1);
		break;
	case 2:
		syscall(SYS_futex, &word, 128 /* FUTEX_WAIT_PRIVATE */, 0, &time, NULL, 0);
		break;
	default:
		sched_yield();
	}
	deeper(rnd(20));
}

/* Any other process of the storm */
static pid_t neighbour(void)
{
	static pid_t parent;

	if (!parent)
		parent = getppid();
	return parent + 1 + rnd(14);
}

static long event_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void do_events(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = rnd(3) ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_CONTEXT_SWITCHES,
		.size = sizeof(attr),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_CPU,
		.defer_callchain = 1,
		.defer_output = 1,
		.inherit = 0,
		.exclude_hv = 1,
	};
	struct perf_event_flush_deferred flush = { .size = sizeof(flush), .max = rnd(3) };
	size_t size = 9 * 4096;
	int fds[2] = { -1, -1 };
	void *map = MAP_FAILED;
	pid_t pid = rnd(4) ? neighbour() : -1;

	if (attr.config == PERF_COUNT_SW_CPU_CLOCK)
		attr.sample_period = 200000 + rnd(800000);
	fds[0] = event_open(&attr, pid, pid < 0 ? (int)rnd(2) : -1);
	failed = fds[0] < 0;
	if (failed)
		return;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	fds[1] = event_open(&attr, pid, pid < 0 ? (int)rnd(2) : -1);
	if (fds[1] >= 0)
		ioctl(fds[1], PERF_EVENT_IOC_SET_OUTPUT, fds[0]);
	usleep(rnd(3000));
	ioctl(fds[rnd(2)], PERF_EVENT_IOC_FLUSH_DEFERRED, &flush);
	ioctl(fds[0], rnd(2) ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_REFRESH, 1);
	if (rnd(2) && map != MAP_FAILED) {
		munmap(map, size);
		map = MAP_FAILED;
	}
	if (fds[1] >= 0)
		close(fds[1]);
	close(fds[0]);
	if (map != MAP_FAILED)
		munmap(map, size);
}

static void do_proc(void)
{
	char text[4096];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && read(fd, text, sizeof(text)) > 0)
		;
	if (fd >= 0)
		close(fd);
}

#define KNOWN(n, next)						\
NOINLINE void known_##n(unsigned int depth)			\
{								\
	if (depth)						\
		known_##next(depth - 1);			\
	else							\
		spin(5000);					\
	asm volatile("");					\
}

NOINLINE void known_7(unsigned int depth);
KNOWN(0, 7)
KNOWN(1, 0)
KNOWN(2, 1)
KNOWN(3, 2)
KNOWN(4, 3)
KNOWN(5, 4)
KNOWN(6, 5)
KNOWN(7, 6)

static void do_known(void)
{
	static unsigned int depth;

	depth = (depth + 1) % 24;
	known_7(depth);
}

static const struct activity {
	const char	*name;
	void		(*once)(void);
} activities[] = {
	{ "known", do_known },
	{ "fork", do_fork },
	{ "exec", do_exec },
	{ "threads", do_threads },
	{ "code", do_code },
	{ "dlopen", do_dlopen },
	{ "signals", do_signals },
	{ "stacks", do_stacks },
	{ "ptrace", do_ptrace },
	{ "oom", do_oom },
	{ "sleep", do_sleep },
	{ "events", do_events },
	{ "proc", do_proc },
};

struct shared {
	volatile uint64_t done[ARRAY_SIZE(activities)];
	uint64_t restarts[ARRAY_SIZE(activities)];
};

/* The stacks of this process are checked: it must run, and on the CPU that never goes offline. */
static void be_seen(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	setpriority(PRIO_PROCESS, 0, 0);
}

static void child(unsigned int i, struct shared *shared, uint64_t seed)
{
	const struct activity *activity = &activities[i];
	char name[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(name, sizeof(name), "storm-%s", activity->name);
	prctl(PR_SET_NAME, name);
	if (activity->once == do_known)
		be_seen();
	state = seed * 1000 + i;
	for (;;) {
		failed = false;
		activity->once();
		shared->done[i] += !failed;
	}
}

int main(int argc, char **argv)
{
	pid_t pids[ARRAY_SIZE(activities)], pid;
	uint64_t seed, starts = 0;
	struct shared *shared;
	unsigned int i;
	time_t end;
	ssize_t n;

	if (argc == 3 && !strcmp(argv[1], "--leaf")) {
		deeper(atoi(argv[2]));
		return 0;
	}
	if (argc < 2)
		return 2;
	end = time(NULL) + atoi(argv[1]);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
	n = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);
	if (n < 0)
		return 1;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	mkdir(CGROUP, 0755);
	if (!write_file(CGROUP "/memory.max", "8M"))
		fprintf(stderr, "storm: no limit of memory: %s\n", strerror(errno));
	write_file(CGROUP "/memory.swap.max", "0");
	for (i = 0; i < ARRAY_SIZE(activities); i++) {
		pids[i] = fork();
		if (!pids[i])
			child(i, shared, seed);
	}
	while (time(NULL) < end) {
		usleep(200000);
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
			for (i = 0; i < ARRAY_SIZE(activities) && pids[i] != pid; i++)
				;
			if (i == ARRAY_SIZE(activities))
				continue;
			shared->restarts[i]++;
			pids[i] = fork();
			if (!pids[i])
				child(i, shared, seed + ++starts);
			starts++;
		}
	}
	for (i = 0; i < ARRAY_SIZE(activities); i++) {
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
	}
	while (wait(NULL) > 0)
		;
	rmdir(CGROUP);
	for (i = 0; i < ARRAY_SIZE(activities); i++)
		printf("storm: %-8s %8llu times, process started %llu times\n", activities[i].name,
		       (unsigned long long)shared->done[i],
		       (unsigned long long)shared->restarts[i] + 1);
	return 0;
}
