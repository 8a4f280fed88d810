// SPDX-License-Identifier: GPL-2.0
/*
 * stackrec: records a command's user stacks twice, as the kernel unwinds them
 * after the sample, and as registers and a copy of the stack from which anyone
 * can unwind them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <elf.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stackrec.h"

#define MAX_CPUS	256
/* The largest copy that an event may ask for. */
#define STACK_MAX	65528
#define DEFAULT_PERIOD	1000000
#define DEFAULT_PAGES	4096

static void die(const char *what)
{
	fprintf(stderr, "stackrec: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void usage(void)
{
	fprintf(stderr,
		"usage: stackrec [-i] [-c NSEC] [-m PAGES] [-s BYTES] -o FILE -- COMMAND...\n"
		"  -i        ask for immediate callchains\n"
		"  -c NSEC   CPU time between samples (%d)\n"
		"  -m PAGES  of each CPU's buffer (%d)\n"
		"  -s BYTES  of stack to copy (%d)\n",
		DEFAULT_PERIOD, DEFAULT_PAGES, STACK_MAX);
	exit(2);
}

struct ring {
	int				fd;
	struct perf_event_mmap_page	*page;
	size_t				size;
};

static struct ring rings[MAX_CPUS];
static unsigned int nr_rings;
static unsigned long long nr_samples, nr_deferred, nr_lost;
static FILE *out;

static int event_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return syscall(__NR_perf_event_open, attr, pid, cpu, -1,
		       PERF_FLAG_FD_CLOEXEC);
}

static void open_rings(pid_t pid, bool immediate, __u64 period,
		       unsigned int pages, unsigned int stack)
{
	struct perf_event_attr attr = {
		.size			= sizeof(attr),
		.type			= PERF_TYPE_SOFTWARE,
		.config			= PERF_COUNT_SW_CPU_CLOCK,
		.sample_period		= period,
		.sample_type		= STACKREC_SAMPLE_TYPE,
		.sample_regs_user	= STACKREC_REGS_MASK,
		.sample_stack_user	= stack,
		.disabled		= 1,
		.enable_on_exec		= 1,
		.inherit		= 1,
		.sample_id_all		= 1,
		.mmap			= 1,
		.mmap2			= 1,
		.comm			= 1,
		.comm_exec		= 1,
		.task			= 1,
		.exclude_callchain_kernel = 1,
		.use_clockid		= 1,
		.clockid		= CLOCK_MONOTONIC,
		.watermark		= 1,
		.wakeup_watermark	= pages * 1024,
	};
	long cpu, nr_cpus = sysconf(_SC_NPROCESSORS_CONF);

	/* The word of flags, whose newest names old headers lack. */
	if (!immediate) {
		((__u64 *)&attr.wakeup_events)[-1] |= STACKREC_ATTR_CALLCHAIN |
						      STACKREC_ATTR_OUTPUT;
	}
	for (cpu = 0; cpu < nr_cpus && nr_rings < MAX_CPUS; cpu++) {
		struct ring *r = &rings[nr_rings];

		r->fd = event_open(&attr, pid, cpu);
		if (r->fd < 0 && errno == ENODEV)
			continue;
		if (r->fd < 0)
			die("perf_event_open");
		r->size = pages * sysconf(_SC_PAGESIZE);
		r->page = mmap(NULL, r->size + sysconf(_SC_PAGESIZE),
			       PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
		if (r->page == MAP_FAILED)
			die("mmap of the buffer");
		nr_rings++;
	}
}

static void put(const void *data, size_t size)
{
	if (fwrite(data, 1, size, out) != size)
		die("write");
}

/* The last three fields are the copy's size, the copy, and how much is real. */
static void put_sample(const unsigned char *rec, size_t size)
{
	struct perf_event_header h = *(const struct perf_event_header *)rec;
	const __u64 *p = (const __u64 *)(rec + sizeof(h));
	const unsigned char *copy;
	__u64 nr, abi, len, real;

	/* ip, tid, time */
	p += 3;
	nr = *p++;
	p += nr;
	abi = *p++;
	if (abi)
		p += STACKREC_REGS;
	len = *p++;
	copy = (const unsigned char *)p;
	real = 0;
	if (len)
		memcpy(&real, copy + len, sizeof(real));
	if (copy + len > rec + size || real > len) {
		fprintf(stderr, "stackrec: broken sample\n");
		exit(1);
	}
	real = (real + 7) & -8;
	h.size = copy - rec + real;
	put(&h, sizeof(h));
	put(rec + sizeof(h), (const unsigned char *)(p - 1) - rec - sizeof(h));
	put(&real, sizeof(real));
	put(copy, real);
	nr_samples++;
}

static void put_record(const unsigned char *rec)
{
	const struct perf_event_header *h = (const void *)rec;

	switch (h->type) {
	case PERF_RECORD_SAMPLE:
		put_sample(rec, h->size);
		return;
	case STACKREC_CALLCHAIN_DEFERRED:
		nr_deferred++;
		break;
	case PERF_RECORD_LOST:
		nr_lost += ((const __u64 *)rec)[2];
		break;
	}
	put(rec, h->size);
}

static bool drain(void)
{
	static unsigned char rec[65536];
	bool any = false;
	unsigned int i;

	for (i = 0; i < nr_rings; i++) {
		struct ring *r = &rings[i];
		const unsigned char *data = (const void *)r->page;
		__u64 head, tail;

		data += r->page->data_offset;
		head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
		for (tail = r->page->data_tail; tail < head; ) {
			struct perf_event_header h;
			size_t off = tail % r->size, first;

			/* Records are aligned to 8, so headers do not wrap. */
			memcpy(&h, data + off, sizeof(h));
			first = r->size - off;
			if (first > h.size)
				first = h.size;
			memcpy(rec, data + off, first);
			memcpy(rec + first, data, h.size - first);
			put_record(rec);
			tail += h.size;
			any = true;
			__atomic_store_n(&r->page->data_tail, tail,
					 __ATOMIC_RELEASE);
		}
	}
	return any;
}

/* The image ends with its section headers. */
static size_t vdso_size(const Elf64_Ehdr *ehdr)
{
	if (!ehdr)
		return 0;
	return ehdr->e_shoff + ehdr->e_shnum * ehdr->e_shentsize;
}

static pid_t start(char **argv, int *go)
{
	int fds[2];
	pid_t pid;
	char byte;

	if (pipe2(fds, O_CLOEXEC))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		close(fds[1]);
		if (read(fds[0], &byte, 1) != 1)
			_exit(126);
		execvp(argv[0], argv);
		fprintf(stderr, "stackrec: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	close(fds[0]);
	*go = fds[1];
	return pid;
}

int main(int argc, char **argv)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct stackrec_header header = { .magic = STACKREC_MAGIC };
	unsigned int pages = DEFAULT_PAGES, stack = STACK_MAX;
	struct pollfd fds[MAX_CPUS];
	__u64 period = DEFAULT_PERIOD;
	const char *path = NULL;
	bool immediate = false;
	unsigned int i;
	int c, go, status;
	pid_t pid;

	while ((c = getopt(argc, argv, "+ic:m:s:o:")) != -1) {
		switch (c) {
		case 'i':
			immediate = true;
			break;
		case 'c':
			period = strtoull(optarg, NULL, 0);
			break;
		case 'm':
			pages = strtoul(optarg, NULL, 0);
			break;
		case 's':
			stack = strtoul(optarg, NULL, 0);
			break;
		case 'o':
			path = optarg;
			break;
		default:
			usage();
		}
	}
	if (!path || !period || optind == argc)
		usage();
	out = fopen(path, "we");
	if (!out)
		die(path);
	header.vdso_size = vdso_size(vdso);
	put(&header, sizeof(header));
	put(vdso, header.vdso_size);

	pid = start(argv + optind, &go);
	open_rings(pid, immediate, period, pages, stack);
	for (i = 0; i < nr_rings; i++)
		fds[i] = (struct pollfd) { .fd = rings[i].fd, .events = POLLIN };
	if (write(go, "", 1) != 1)
		die("start");
	/* Processes of the command may outlive it; those do not count. */
	while (!waitpid(pid, &status, WNOHANG)) {
		drain();
		poll(fds, nr_rings, 20);
	}
	for (i = 0; i < nr_rings; i++)
		ioctl(rings[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	while (drain())
		;
	if (fclose(out))
		die("write");
	fprintf(stderr, "stackrec: %llu samples, %llu deferred records, %llu lost\n",
		nr_samples, nr_deferred, nr_lost);
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}
