// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of a record in an overwrite buffer, compared with write_backward and with a
 * forward buffer whose reader keeps up. Also the number of records that are missed
 * around a snapshot.
 *
 *	overwrite_bench [ROUNDS]
 *
 * Each round measures all kinds of buffers in turn. The minimum of the rounds counts,
 * so that ratios of one run can be compared. Odd and even rounds are two measurements:
 * the difference of their ratios is the noise. Fails if a record costs more than 1.1
 * times what it costs in the other two.
 *
 * In a virtual machine whose time counts instructions (QEMU: -icount shift=0,
 * one CPU) a nanosecond is an instruction, and there is no noise.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/overwrite.h"

#define PAGES		64
#define ROUNDS		400
/*
 * A multiple of the step by which the tail moves: each batch of small records has the
 * same number of steps, so that the minimum is not a batch with fewer steps.
 */
#define BATCH_BYTES	(4 * 4096)
#define MIN_BATCH	16
#define MAX_RATIO	1.1
/* With more noise, the number of rounds grows, at most by this factor. */
#define MAX_NOISE	0.02
#define MAX_FACTOR	8
#define SNAPSHOTS	200
#define TP		"syscalls/sys_enter_getpgid"
/* sizeof(header), IDENTIFIER, size and dyn_size of the user stack. */
#define FIXED_SIZE	32

enum kind { FORWARD, BACKWARD, OVERWRITE, NR_KINDS };

static const char * const kind_names[] = {
	"forward", "backward", "overwrite",
};

static const __u64 kind_flags[] = {
	0, OW_ATTR_BACKWARD, OW_ATTR_OVERWRITE,
};

static long tp;

static void die(const char *what)
{
	ksft_exit_fail_msg("%s: %s\n", what, strerror(errno));
}

struct buffer {
	int				fd;
	struct perf_event_mmap_page	*page;
};

static struct buffer
buffer_open(enum kind kind, unsigned int size, pid_t pid, int cpu)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_TRACEPOINT,
		.config		= tp,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_IDENTIFIER,
		.read_format	= FORMAT_LOST,
		.disabled	= 1,
		/* Wakeups are not what is measured. */
		.watermark	= 1,
		.wakeup_watermark = 1 << 30,
	};
	struct buffer b;

	if (size > FIXED_SIZE) {
		attr.sample_type |= PERF_SAMPLE_STACK_USER;
		attr.sample_stack_user = size - FIXED_SIZE;
	} else if (size == FIXED_SIZE) {
		attr.sample_type |= PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	}
	*attr_flags(&attr) |= kind_flags[kind];
	b.fd = event_open(&attr, pid, cpu, 0);
	if (b.fd < 0)
		die("perf_event_open");
	b.page = event_map(b.fd, PAGES, kind == FORWARD ? PROT_READ | PROT_WRITE :
			   PROT_READ);
	if (b.page == MAP_FAILED)
		die("mmap");
	return b;
}

static void buffer_close(struct buffer *b)
{
	event_unmap(b->page, PAGES);
	close(b->fd);
}

static __u64 lost_of(int fd)
{
	__u64 v[2];

	if (read(fd, v, sizeof(v)) != sizeof(v))
		die("read");
	return v[1];
}

/* Nanoseconds of a batch of records; FORWARD has room for all of it. */
static __u64 batch(struct buffer *b, int kind, unsigned int n)
{
	__u64 start, ns;
	unsigned int i;

	if (kind == FORWARD)
		__atomic_store_n(&b->page->data_tail, b->page->data_head,
				 __ATOMIC_RELEASE);
	if (ioctl(b->fd, PERF_EVENT_IOC_ENABLE, 0))
		die("enable");
	for (i = 0; i < 10; i++)
		syscall(__NR_getpgid, 0);
	start = now_nsec();
	for (i = 0; i < n; i++)
		syscall(__NR_getpgid, 0);
	ns = now_nsec() - start;
	if (ioctl(b->fd, PERF_EVENT_IOC_DISABLE, 0))
		die("disable");
	return ns;
}

/* The same without an event: the cost of the system calls alone. */
static __u64 batch_base(unsigned int n)
{
	__u64 start = now_nsec();
	unsigned int i;

	for (i = 0; i < n; i++)
		syscall(__NR_getpgid, 0);
	return now_nsec() - start;
}

static double ratio_to(const double *min, double base, enum kind kind)
{
	return (min[OVERWRITE] - base) / (min[kind] - base);
}

/* How far the ratios of even and of odd rounds are apart. */
static double noise(double min[][NR_KINDS], const double *base)
{
	double worst = 0, d;
	unsigned int i;

	for (i = 0; i < OVERWRITE; i++) {
		d = ratio_to(min[0], base[0], i) - ratio_to(min[1], base[1], i);
		if (d < 0)
			d = -d;
		if (d > worst)
			worst = d;
	}
	return worst;
}

/* Returns the worse of the two ratios. */
static double cost(unsigned int size, unsigned int rounds)
{
	/* Of even rounds, of odd ones, of both. */
	double min[3][NR_KINDS], base[3], ns, worse = 0;
	unsigned int n, r, i, kind;
	struct buffer b[NR_KINDS];
	__u64 head;

	n = BATCH_BYTES / size;
	if (n < MIN_BATCH)
		n = MIN_BATCH;
	for (i = 0; i < 3; i++) {
		base[i] = 1e18;
		for (kind = 0; kind < NR_KINDS; kind++)
			min[i][kind] = 1e18;
	}
	for (i = 0; i < NR_KINDS; i++) {
		b[i] = buffer_open(i, size, 0, -1);
		/* Fill the buffer. Then all buffers are in the cache, or none is. */
		do {
			batch(&b[i], i, n);
			head = b[i].page->data_head;
			if (i == BACKWARD)
				head = -head;
		} while (head < 2 * b[i].page->data_size);
	}
	for (r = 0; r < rounds || (noise(min, base) > MAX_NOISE &&
				   r < MAX_FACTOR * rounds); r++) {
		double *half = min[r % 2];

		ns = (double)batch_base(n) / n;
		if (ns < base[r % 2])
			base[r % 2] = ns;
		for (i = 0; i < NR_KINDS; i++) {
			kind = (r / 2 + i) % NR_KINDS;
			ns = (double)batch(&b[kind], kind, n) / n;
			if (ns < half[kind])
				half[kind] = ns;
		}
	}
	base[2] = base[0] < base[1] ? base[0] : base[1];
	for (i = 0; i < NR_KINDS; i++) {
		min[2][i] = min[0][i] < min[1][i] ? min[0][i] : min[1][i];
		if (lost_of(b[i].fd))
			ksft_exit_fail_msg("%s buffer has lost records\n",
					   kind_names[i]);
		buffer_close(&b[i]);
	}
	for (i = 0; i < OVERWRITE; i++) {
		if (ratio_to(min[2], base[2], i) > worse)
			worse = ratio_to(min[2], base[2], i);
	}
	ksft_print_msg("%4u bytes: %s %6.0f ns, %s %6.0f ns, %s %6.0f ns (base %.0f ns); %.3f of forward, %.3f of backward, noise %.3f, %u rounds\n",
		       size, kind_names[FORWARD], min[2][FORWARD] - base[2],
		       kind_names[BACKWARD], min[2][BACKWARD] - base[2],
		       kind_names[OVERWRITE], min[2][OVERWRITE] - base[2],
		       base[2], ratio_to(min[2], base[2], FORWARD),
		       ratio_to(min[2], base[2], BACKWARD), noise(min, base), r);
	return worse;
}

/* Records of a task on another CPU that are missed around a snapshot. */
static void missed(enum kind kind, unsigned int size)
{
	__u64 ns = 0, bytes = 0, total, got, retries = 0, start, end, i;
	struct ow_snapshot snap = {};
	struct buffer b;
	__u64 v[2];
	pid_t pid;

	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin_to_cpu(0);
		for (;;)
			syscall(__NR_getpgid, 0);
	}
	pin_to_cpu(1);
	b = buffer_open(kind, size, pid, -1);
	snap.copy = malloc(b.page->data_size);
	if (!snap.copy)
		die("malloc");
	if (ioctl(b.fd, PERF_EVENT_IOC_ENABLE, 0))
		die("enable");
	/* Until it is full. */
	end = now_nsec() + 10 * NSEC_PER_SEC;
	for (;;) {
		got = __atomic_load_n(&b.page->data_head, __ATOMIC_ACQUIRE);
		if (kind == BACKWARD)
			got = -got;
		if (got > 2 * b.page->data_size)
			break;
		if (now_nsec() > end)
			ksft_exit_fail_msg("the writer does not write\n");
	}
	for (i = 0; i < SNAPSHOTS; i++) {
		start = now_nsec();
		if (kind == BACKWARD) {
			/* As perf does: pause, copy, go on. */
			if (ioctl(b.fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1))
				die("pause");
			__atomic_load_n(&b.page->data_head, __ATOMIC_ACQUIRE);
			memcpy(snap.copy, (char *)b.page + b.page->data_offset,
			       b.page->data_size);
			if (ioctl(b.fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0))
				die("resume");
			bytes += b.page->data_size;
		} else {
			int ret;

			while (!(ret = ow_snapshot(b.page, &snap)))
				retries++;
			if (ret < 0)
				ksft_exit_fail_msg("broken positions\n");
			bytes += snap.end - snap.start;
		}
		ns += now_nsec() - start;
		usleep(2000);
	}
	if (read(b.fd, v, sizeof(v)) != sizeof(v))
		die("read");
	total = v[0];
	ksft_print_msg("%4u bytes: %s: %llu snapshots of %llu bytes in %llu ns each, %llu tried again; %llu of %llu records missed, %.2f a snapshot\n",
		       size, kind_names[kind],
		       (unsigned long long)SNAPSHOTS,
		       (unsigned long long)(bytes / SNAPSHOTS),
		       (unsigned long long)(ns / SNAPSHOTS),
		       (unsigned long long)retries,
		       (unsigned long long)v[1], (unsigned long long)total,
		       (double)v[1] / SNAPSHOTS);
	if (kind == OVERWRITE)
		ksft_test_result(!v[1], "a snapshot misses nothing\n");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	buffer_close(&b);
	free(snap.copy);
}

int main(int argc, char **argv)
{
	static const unsigned int sizes[] = { 16, 32, 64, 256, 1024, 4096 };
	static const unsigned int snapshot_sizes[] = { 64, 1024 };
	unsigned int i, rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : ROUNDS;
	const char *why = ow_unsupported();

	ksft_print_header();
	if (why)
		ksft_exit_skip("%s\n", why);
	tp = tracepoint_id(TP);
	if (tp < 0)
		ksft_exit_skip("no tracepoint %s\n", TP);
	ksft_set_plan(ARRAY_SIZE(sizes) + ARRAY_SIZE(snapshot_sizes));
	pin_to_cpu(0);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		ksft_test_result(cost(sizes[i], rounds) <= MAX_RATIO,
				 "a record of %u bytes costs at most %.1f times as much\n",
				 sizes[i], MAX_RATIO);
	for (i = 0; i < ARRAY_SIZE(snapshot_sizes); i++) {
		if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
			ksft_test_result_skip("needs two CPUs\n");
			continue;
		}
		missed(BACKWARD, snapshot_sizes[i]);
		missed(OVERWRITE, snapshot_sizes[i]);
	}
	ksft_finished();
}
