// SPDX-License-Identifier: GPL-2.0
/* Is there perf_event_attr::overwrite? And a reader that does not pause the output. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "event.h"
#include "overwrite.h"

/* Why the tests cannot run on this machine; NULL when they can. */
const char *ow_unsupported(void)
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
	fd = event_open(&attr, 0, -1, 0);
	if (fd < 0) {
		snprintf(why, sizeof(why), "perf_event_open: %s",
			 strerror(errno));
		return why;
	}
	close(fd);
	*attr_flags(&attr) |= OW_ATTR_OVERWRITE;
	fd = event_open(&attr, 0, -1, 0);
	if (fd < 0) {
		snprintf(why, sizeof(why),
			 "kernel lacks perf_event_attr::overwrite: %s",
			 strerror(errno));
		return why;
	}
	close(fd);
	return NULL;
}

/*
 * One try, see perf_ring_buffer.rst. Returns 1 on success, 0 if everything has been
 * overwritten meanwhile, or -1 if the kernel has moved the positions wrongly.
 */
int ow_snapshot(const struct perf_event_mmap_page *page, struct ow_snapshot *s)
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
const struct perf_event_header *
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
