// SPDX-License-Identifier: GPL-2.0
/*
 * task-tail - print where a program was before it stopped
 *
 *	task-tail [-f HZ] [-n RECORDS] COMMAND [ARGUMENT...]
 *
 * A debugger wants the end of a trace, and the traced task is stopped while it
 * looks.  With perf_event_attr::overwrite the kernel writes into a small buffer
 * forever, and data_tail says where the oldest record begins: nothing has to be
 * polled or paused.
 *
 * Runs COMMAND under ptrace, samples its instruction pointer, and prints the last
 * records whenever a signal stops it (SIGSEGV, SIGABRT, one from kill(1)), before
 * the signal is delivered.  Only COMMAND's first thread is sampled.
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
#define TRIES		100

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

/*
 * Read data_head or data_tail.  A 32-bit program may need two loads for that, and the
 * upper half may change between them.
 */
static __u64 read_position(const __u64 *position)
{
#if __SIZEOF_LONG__ == 8
	return __atomic_load_n(position, __ATOMIC_ACQUIRE);
#else
	const int upper = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	const __u32 *half = (const __u32 *)position;
	__u32 high, low;

	do {
		high = __atomic_load_n(&half[upper], __ATOMIC_ACQUIRE);
		low = __atomic_load_n(&half[!upper], __ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&half[upper], __ATOMIC_ACQUIRE) != high);

	return (__u64)high << 32 | low;
#endif
}

/* How many bytes @to is ahead of @from: on a 32-bit kernel positions have 32 bits. */
static __u64 distance(__u64 to, __u64 from)
{
#if __SIZEOF_LONG__ == 4
	if (!(to >> 32) && !(from >> 32))
		return (__u32)(to - from);
#endif
	return to - from;
}

/*
 * The task is stopped, but it reported that before it left its CPU, so it may still
 * write records. Therefore copy the records and read data_tail once more, as the
 * documentation of the buffer says. Returns how many bytes of whole records start at
 * *records.
 */
static size_t snapshot(const struct perf_event_mmap_page *page, char *copy,
		       const char **records)
{
	const char *data = (const char *)page + page->data_offset;
	const unsigned long size = page->data_size;
	__u64 head, tail, len, passed;
	unsigned long start, first;
	int i;

	for (i = 0; i < TRIES; i++) {
		head = read_position(&page->data_head);
		tail = read_position(&page->data_tail);
		len = distance(head, tail);
		if (!len || len > size)
			continue;

		start = (unsigned long)tail % size;
		first = size - start;
		if (first > len)
			first = len;
		memcpy(copy, data + start, first);
		memcpy(copy + first, data, len - first);

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		passed = distance(read_position(&page->data_tail), tail);
		if (passed >= len)
			continue;
		*records = copy + passed;
		return len - passed;
	}
	return 0;
}

/* The record at @p, NULL after the last one. */
static const struct perf_event_header *record(const char *p, const char *end)
{
	const struct perf_event_header *header = (const void *)p;

	if (end - p < (long)sizeof(*header) || header->size < sizeof(*header) ||
	    header->size > end - p)
		return NULL;
	return header;
}

static void print_tail(const struct perf_event_mmap_page *page, char *copy,
		       unsigned long max)
{
	const struct perf_event_header *header;
	unsigned long nr = 0, nth = 0;
	const struct sample *sample;
	const char *p, *end, *start = copy;
	__u64 last = 0;
	size_t len;

	len = snapshot(page, copy, &start);
	end = start + len;
	for (p = start; (header = record(p, end)); p += header->size) {
		if (header->type != PERF_RECORD_SAMPLE)
			continue;
		sample = (const void *)p;
		last = sample->time;
		nr++;
	}
	printf("the last of %lu samples in the buffer, %llu bytes were written:\n", nr,
	       (unsigned long long)read_position(&page->data_head));
	for (p = start; (header = record(p, end)); p += header->size) {
		if (header->type != PERF_RECORD_SAMPLE || nth++ + max < nr)
			continue;
		sample = (const void *)p;
		printf("%10lld us  %#llx\n",
		       (long long)(sample->time - last) / NSEC_PER_USEC,
		       (unsigned long long)sample->ip);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long hz = DEFAULT_HZ, max = DEFAULT_RECORDS;
	struct perf_event_mmap_page *page;
	int fd, opt, status, sig;
	char *copy;
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

	/* It stops after execve(). */
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (!WIFSTOPPED(status))
		return 1;
	fd = open_event(pid, hz);
	page = mmap(NULL, (1 + DATA_PAGES) * sysconf(_SC_PAGESIZE), PROT_READ,
		    MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die("mmap");
	copy = malloc(DATA_PAGES * sysconf(_SC_PAGESIZE));
	if (!copy)
		die("malloc");

	for (sig = 0; ; sig = WSTOPSIG(status)) {
		if (ptrace(PTRACE_CONT, pid, NULL, (void *)(long)sig))
			die("PTRACE_CONT");
		if (waitpid(pid, &status, 0) != pid)
			die("waitpid");
		if (!WIFSTOPPED(status))
			break;
		printf("%s: ", strsignal(WSTOPSIG(status)));
		print_tail(page, copy, max);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
