/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the tests of perf_event_attr::overwrite: events that a task
 * triggers by itself, mappings and a reader that needs no pause.
 *
 * Everything is static: each test program includes this file once.
 */
#ifndef SELFTESTS_PERF_EVENTS_OVERWRITE_H
#define SELFTESTS_PERF_EVENTS_OVERWRITE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/const.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest.h"

/* The headers of the build may be older than the kernel under test. */
#define OW_ATTR_OVERWRITE	_BITULL(63)
#define OW_ATTR_BACKWARD	_BITULL(27)
#define OW_ATTR_INHERIT_STAT	_BITULL(11)
#define OW_ATTR_INHERIT		_BITULL(1)
#define OW_FORMAT_LOST		_BITULL(4)

#define OW_NSEC_PER_SEC		1000000000ULL

/* Bits between sample_period and wakeup_events; old headers name fewer. */
static inline __u64 *ow_attr_flags(struct perf_event_attr *attr)
{
	/* All of them, named or not, are the word in front of it. */
	return (__u64 *)&attr->wakeup_events - 1;
}

static inline __u64 ow_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * OW_NSEC_PER_SEC + ts.tv_nsec;
}

static inline int
ow_open(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return syscall(__NR_perf_event_open, attr, pid, cpu, -1,
		       PERF_FLAG_FD_CLOEXEC);
}

/* Why the tests cannot run on this machine; NULL when they can. */
static inline const char *ow_unsupported(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(attr),
	};
	static char why[256];
	int fd;

	if (geteuid())
		return "must be run as root";
	fd = ow_open(&attr, 0, -1);
	if (fd < 0) {
		snprintf(why, sizeof(why), "perf_event_open: %s",
			 strerror(errno));
		return why;
	}
	close(fd);
	*ow_attr_flags(&attr) |= OW_ATTR_OVERWRITE;
	fd = ow_open(&attr, 0, -1);
	if (fd < 0) {
		snprintf(why, sizeof(why),
			 "kernel lacks perf_event_attr::overwrite: %s",
			 strerror(errno));
		return why;
	}
	close(fd);
	return NULL;
}

static inline int ow_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static inline void *ow_map(int fd, unsigned int pages, int prot)
{
	return mmap(NULL, (1 + pages) * sysconf(_SC_PAGESIZE), prot, MAP_SHARED,
		    fd, 0);
}

static inline void ow_unmap(void *page, unsigned int pages)
{
	if (page && page != MAP_FAILED)
		munmap(page, (1 + pages) * sysconf(_SC_PAGESIZE));
}

/* ---- Snapshots ----------------------------------------------------------- */

struct ow_snapshot {
	/* As large as the buffer. */
	char	*copy;
	/* The whole records: bytes, and their positions in the stream. */
	char	*records;
	unsigned long start;
	unsigned long end;
	/* Bytes that were overwritten while they were copied. */
	unsigned long dropped;
};

/*
 * One try, see perf_ring_buffer.rst.  Returns 1, 0 if everything has been
 * overwritten meanwhile, or -1 if the positions break what the kernel promises.
 */
static inline int
ow_snapshot(const struct perf_event_mmap_page *page, struct ow_snapshot *s)
{
	const char *data = (const char *)page + page->data_offset;
	const unsigned long size = page->data_size;
	unsigned long head, tail, now, pos, n;

	/* (C) */
	head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	tail = __atomic_load_n(&page->data_tail, __ATOMIC_RELAXED);
	s->dropped = 0;
	s->records = s->copy;
	s->start = tail;
	s->end = tail;
	/* Nothing was ever written. */
	if (!head)
		return 1;
	if ((long)(head - tail) <= 0)
		return 0;
	if (head - tail > size)
		return -1;
	for (pos = tail; pos != head; pos += n) {
		n = size - pos % size;
		if (n > head - pos)
			n = head - pos;
		memcpy(s->copy + (pos - tail), data + pos % size, n);
	}
	/* (F) */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	now = __atomic_load_n(&page->data_tail, __ATOMIC_RELAXED);
	if ((long)(now - tail) < 0)
		return -1;
	if ((long)(head - now) <= 0)
		return 0;
	s->dropped = now - tail;
	s->records = s->copy + s->dropped;
	s->start = now;
	s->end = head;
	return 1;
}

/* The record at a position, NULL if there is none that is whole. */
static inline const struct perf_event_header *
ow_record(const struct ow_snapshot *s, unsigned long pos)
{
	const struct perf_event_header *h;

	if (s->end - pos < sizeof(*h))
		return NULL;
	h = (const void *)(s->records + (pos - s->start));
	if (h->size < sizeof(*h) || h->size % 8 || h->size > s->end - pos)
		return NULL;
	return h;
}

#endif /* SELFTESTS_PERF_EVENTS_OVERWRITE_H */
