// SPDX-License-Identifier: GPL-2.0
/*
 * collect TARGET OUT [defer]: runs TARGET with an event of perf_nmi_pmu and writes
 * the records of its ring buffer to OUT as they come.  With "defer" there is a
 * second event, whose callchains are deferred, for OUT.defer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGES		2048
/* ax-ss and r8-r15: what the ABI has in 64-bit kernels. */
#define REGS		0xff0fffULL
/* defer_callchain and defer_output, which an older header has not got. */
#define DEFER		(3ULL << 38)
#define FLAGS_OFFSET	40

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static size_t drain(struct perf_event_mmap_page *page, int out)
{
	const char *data = (char *)page + page->data_offset;
	uint64_t size = page->data_size;
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = page->data_tail, all = head - tail;

	while (tail != head) {
		uint64_t off = tail % size, n = head - tail;

		if (n > size - off)
			n = size - off;
		if (write(out, data + off, n) != (ssize_t)n)
			die("write");
		tail += n;
	}
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
	return all;
}

struct sink {
	struct perf_event_mmap_page *page;
	int out;
};

static struct sink sink(struct perf_event_attr *attr, pid_t pid, const char *path)
{
	struct sink s;
	int fd = syscall(SYS_perf_event_open, attr, pid, 0, -1, 0);

	if (fd < 0)
		die("perf_event_open");
	s.page = mmap(NULL, (1 + PAGES) * 4096UL, PROT_READ | PROT_WRITE,
		      MAP_SHARED, fd, 0);
	if (s.page == MAP_FAILED)
		die("mmap");
	s.out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (s.out < 0)
		die(path);
	return s;
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN |
			       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = REGS,
		.sample_stack_user = 64,
		.inherit = 1,
		.watermark = 1,
		.wakeup_watermark = 1U << 30,
	};
	struct sched_param fifo = { .sched_priority = 1 };
	int go[2], fd, status, nr = 1, i;
	bool ended;
	char buf[4096] = "";
	struct sink s[2];
	pid_t pid;

	if (argc < 3)
		return 2;
	fd = open("/sys/bus/event_source/devices/perf_nmi_pmu/type", O_RDONLY);
	if (fd < 0 || read(fd, buf, 31) <= 0)
		die("perf_nmi_pmu");
	close(fd);
	attr.type = atoi(buf);
	if (pipe(go))
		die("pipe");
	pid = fork();
	if (!pid) {
		if (read(go[0], buf, 1) != 1)
			_exit(126);
		if (sched_setscheduler(0, SCHED_FIFO, &fifo))
			_exit(126);
		execl(argv[1], argv[1], NULL);
		_exit(127);
	}
	s[0] = sink(&attr, pid, argv[2]);
	if (argc > 3 && !strcmp(argv[3], "defer")) {
		uint64_t flags;

		memcpy(&flags, (char *)&attr + FLAGS_OFFSET, sizeof(flags));
		flags |= DEFER;
		memcpy((char *)&attr + FLAGS_OFFSET, &flags, sizeof(flags));
		attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN;
		snprintf(buf, sizeof(buf), "%s.defer", argv[2]);
		s[nr++] = sink(&attr, pid, buf);
	}
	if (write(go[1], "", 1) != 1)
		die("pipe");
	printf("READY\n");
	fflush(stdout);
	/*
	 * The file system is on a virtio device: its interrupts find the target
	 * in user mode, since this wakes up although that does not sleep.
	 */
	fifo.sched_priority = 2;
	if (sched_setscheduler(0, SCHED_FIFO, &fifo))
		die("sched_setscheduler");
	do {
		ended = waitpid(pid, &status, WNOHANG) == pid;
		for (i = 0; i < nr; i++) {
			drain(s[i].page, s[i].out);
			fsync(s[i].out);
		}
		usleep(ended ? 0 : 200000);
	} while (!ended);
	printf("DONE %d\n", status);
	return status != 0;
}
