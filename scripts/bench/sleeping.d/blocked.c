// SPDX-License-Identifier: GPL-2.0
/*
 * blocked THREADS FILE: threads that sleep in system calls, in turn by each way that there
 * is.  Each is named after its way, and sleeps in a function of that name below "sleeper".
 * Writes "ready" to FILE when all of them sleep, and waits until FILE is gone.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NOINLINE __attribute__((noinline, noclone))
#define DEPTH 12

static int pipes[2], epoll, word, ring, stops;
static char *missing;
static unsigned int nr_started;

static inline long sys(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
	long ret;

	asm volatile("syscall" : "=a" (ret)
		     : "0" (nr), "D" (a), "S" (b), "d" (c), "r" (r10), "r" (r8), "r" (r9)
		     : "rcx", "r11", "memory");
	return ret;
}

static NOINLINE void sleep_futex(void)
{
	sys(__NR_futex, (long)&word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	asm volatile("");
}

static NOINLINE void sleep_read(void)
{
	char c;

	sys(__NR_read, pipes[0], (long)&c, 1, 0, 0, 0);
	asm volatile("");
}

static NOINLINE void sleep_epoll(void)
{
	struct epoll_event event;

	sys(__NR_epoll_wait, epoll, (long)&event, 1, -1, 0, 0);
	asm volatile("");
}

static NOINLINE void sleep_poll(void)
{
	struct pollfd poll = { .fd = pipes[0], .events = POLLIN };

	sys(__NR_poll, (long)&poll, 1, -1, 0, 0, 0);
	asm volatile("");
}

static NOINLINE void sleep_nanosleep(void)
{
	struct timespec time = { .tv_sec = 100000 };

	sys(__NR_nanosleep, (long)&time, 0, 0, 0, 0, 0);
	asm volatile("");
}

static NOINLINE void sleep_flock(void)
{
	int fd = open("/tmp/blocked.lock", O_RDWR | O_CREAT, 0600);

	sys(__NR_flock, fd, LOCK_EX, 0, 0, 0, 0);
	asm volatile("");
}

static NOINLINE void sleep_io_uring(void)
{
	sys(__NR_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0);
	asm volatile("");
}

static NOINLINE void sleep_fault(void)
{
	*(volatile char *)missing;
	asm volatile("");
}

/* A process of its own: stopping it stops all its threads. */
static NOINLINE void sleep_stop(void)
{
	sys(__NR_kill, getpid(), SIGSTOP, 0, 0, 0, 0);
	asm volatile("");
}

static const struct way {
	const char	*name;
	void		(*sleep)(void);
} ways[] = {
	{ "futex", sleep_futex },
	{ "read", sleep_read },
	{ "epoll", sleep_epoll },
	{ "poll", sleep_poll },
	{ "nanosleep", sleep_nanosleep },
	{ "flock", sleep_flock },
	{ "io_uring", sleep_io_uring },
	{ "fault", sleep_fault },
	{ "stop", sleep_stop },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static NOINLINE void sleeper(const struct way *way, int depth)
{
	if (depth)
		sleeper(way, depth - 1);
	else
		way->sleep();
	asm volatile("");
}

static void *thread(void *arg)
{
	const struct way *way = arg;

	prctl(PR_SET_NAME, way->name);
	__atomic_add_fetch(&nr_started, 1, __ATOMIC_RELAXED);
	for (;;)
		sleeper(way, DEPTH);
	return NULL;
}

static void make_missing(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	missing = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (unsigned long)missing;
	reg.range.len = 4096;
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		perror("userfaultfd");
}

/* Does any other thread of this process run, or wait for a CPU? */
static int somebody_runs(void)
{
	char path[300], stat[256], *state;
	struct dirent *entry;
	int runs = 0;
	DIR *dir;

	dir = opendir("/proc/self/task");
	while (dir && (entry = readdir(dir))) {
		FILE *file;

		if (atoi(entry->d_name) <= 0 || atoi(entry->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/stat", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		state = fgets(stat, sizeof(stat), file) ? strrchr(stat, ')') : NULL;
		runs += state && state[2] == 'R';
		fclose(file);
	}
	if (dir)
		closedir(dir);
	return runs;
}

int main(int argc, char **argv)
{
	struct io_uring_params params = { };
	pthread_attr_t attr;
	pthread_t tid;
	unsigned int i, nr;
	int fd, lock;

	if (argc != 3)
		return 2;
	nr = atoi(argv[1]);
	setpgid(0, 0);
	lock = open("/tmp/blocked.lock", O_RDWR | O_CREAT, 0600);
	if (pipe(pipes) || flock(lock, LOCK_EX))
		return 1;
	epoll = epoll_create1(0);
	ring = syscall(__NR_io_uring_setup, 4, &params);
	make_missing();
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	/* A process that forks when all threads are there would copy all their mappings. */
	for (i = 0; i < nr; i++) {
		const struct way *way = &ways[i % WAYS];

		if (way->sleep != sleep_stop)
			continue;
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			prctl(PR_SET_NAME, way->name);
			for (;;)
				sleeper(way, DEPTH);
		}
		stops++;
	}
	for (i = 0; i < nr; i++) {
		const struct way *way = &ways[i % WAYS];

		if (way->sleep != sleep_stop &&
		    pthread_create(&tid, &attr, thread, (void *)way)) {
			perror("pthread_create");
			return 1;
		}
	}
	while (__atomic_load_n(&nr_started, __ATOMIC_RELAXED) + stops < nr)
		usleep(10000);
	for (i = 0; i < stops; i++)
		waitpid(-1, NULL, WUNTRACED);
	do {
		sleep(1);
	} while (somebody_runs());
	fd = open(argv[2], O_WRONLY | O_CREAT, 0600);
	if (write(fd, "ready", 5) != 5)
		return 1;
	while (!access(argv[2], F_OK))
		usleep(20000);
	kill(0, SIGKILL);
	return 0;
}
