// SPDX-License-Identifier: GPL-2.0
/*
 * task-tail - where has a program been before it stopped?
 *
 *	task-tail [-f HZ] [-n RECORDS] COMMAND [ARGUMENT...]
 *
 * A debugger wants the end of a trace, and the traced task is stopped while it
 * looks.  With perf_event_attr::overwrite the kernel writes into a small buffer
 * forever, and data_tail says where the oldest record begins: nothing has to be
 * polled, and since the task is stopped nothing changes under the reader.
 *
 * Runs COMMAND under ptrace, samples its instruction pointer, and prints the last
 * records whenever a signal stops it (SIGSEGV, SIGABRT, one from kill(1)), before
 * the signal is delivered.  COMMAND's first thread is watched.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A power of two. */
#define DATA_PAGES	4
#define DEFAULT_HZ	1000
#define DEFAULT_RECORDS	10
#define NSEC_PER_USEC	1000

/* PERF_SAMPLE_IP | PERF_SAMPLE_TIME */
struct sample {
	struct perf_event_header	header;
	__u64				ip;
	__u64				time;
};

static void die(const char *what)
{
	fprintf(stderr, "task-tail: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_event(pid_t pid, unsigned long hz)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_TASK_CLOCK,
		.freq		= 1,
		.sample_freq	= hz,
		.sample_type	= PERF_SAMPLE_IP | PERF_SAMPLE_TIME,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.overwrite	= 1,
	};
	int fd;

	fd = syscall(__NR_perf_event_open, &attr, pid, -1, -1,
		     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0) {
		if (errno == EINVAL)
			fprintf(stderr,
				"task-tail: this kernel has no perf_event_attr::overwrite\n");
		if (errno == EACCES || errno == EPERM)
			fprintf(stderr,
				"task-tail: see /proc/sys/kernel/perf_event_paranoid\n");
		die("perf_event_open");
	}
	return fd;
}

/* Headers never wrap around, records may. */
static void get(const struct perf_event_mmap_page *page, __u64 pos, void *to,
		size_t len)
{
	const char *data = (const char *)page + page->data_offset;
	size_t at = pos % page->data_size, first = page->data_size - at;

	if (first > len)
		first = len;
	memcpy(to, data + at, first);
	memcpy((char *)to + first, data, len - first);
}

/* The task is stopped: one look at the positions will do. */
static void print_tail(const struct perf_event_mmap_page *page,
		       unsigned long max)
{
	__u64 head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	__u64 tail = __atomic_load_n(&page->data_tail, __ATOMIC_RELAXED);
	unsigned long nr = 0, nth = 0;
	struct sample sample;
	__u64 pos, last = 0;

	for (pos = tail; pos != head; pos += sample.header.size) {
		get(page, pos, &sample.header, sizeof(sample.header));
		if (sample.header.type != PERF_RECORD_SAMPLE)
			continue;
		get(page, pos, &sample, sizeof(sample));
		last = sample.time;
		nr++;
	}
	printf("the last of %lu records, of %llu bytes written:\n", nr,
	       (unsigned long long)head);
	for (pos = tail; pos != head; pos += sample.header.size) {
		get(page, pos, &sample.header, sizeof(sample.header));
		if (sample.header.type != PERF_RECORD_SAMPLE || nth++ + max < nr)
			continue;
		get(page, pos, &sample, sizeof(sample));
		printf("%10lld us  %#llx\n",
		       (long long)(sample.time - last) / NSEC_PER_USEC,
		       (unsigned long long)sample.ip);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long hz = DEFAULT_HZ, max = DEFAULT_RECORDS;
	struct perf_event_mmap_page *page;
	int fd, opt, status, sig;
	pid_t pid;

	while ((opt = getopt(argc, argv, "+f:n:")) != -1) {
		switch (opt) {
		case 'f':
			hz = strtoul(optarg, NULL, 0);
			break;
		case 'n':
			max = strtoul(optarg, NULL, 0);
			break;
		default:
			optind = argc;
			break;
		}
	}
	if (optind >= argc) {
		fprintf(stderr, "usage: %s [-f HZ] [-n RECORDS] COMMAND [ARGUMENT...]\n",
			argv[0]);
		return 1;
	}

	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execvp(argv[optind], argv + optind);
		die(argv[optind]);
	}

	/* It stops behind execve(). */
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (!WIFSTOPPED(status))
		return 1;
	fd = open_event(pid, hz);
	page = mmap(NULL, (1 + DATA_PAGES) * sysconf(_SC_PAGESIZE), PROT_READ,
		    MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die("mmap");

	for (sig = 0; ; sig = WSTOPSIG(status)) {
		if (ptrace(PTRACE_CONT, pid, NULL, (void *)(long)sig))
			die("PTRACE_CONT");
		if (waitpid(pid, &status, 0) != pid)
			die("waitpid");
		if (!WIFSTOPPED(status))
			break;
		printf("%s: ", strsignal(WSTOPSIG(status)));
		print_tail(page, max);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
