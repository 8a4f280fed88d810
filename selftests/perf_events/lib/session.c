// SPDX-License-Identifier: GPL-2.0
/* Events of one task or of CPUs, their buffers, and the log of their records. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "event.h"
#include "session.h"

void session_close(struct session *s)
{
	unsigned int i, j;

	for (i = 0; i < s->nr_bufs; i++) {
		struct session_buf *b = &s->bufs[i];

		for (j = 0; j < b->nr_extra; j++)
			close(b->extra[j]);
		free(b->extra);
		if (b->page)
			munmap(b->page, b->map_size);
		close(b->fd);
	}
	log_free(&s->log);
	memset(s, 0, sizeof(*s));
}

static int session_open_buf(struct session *s,
			    struct perf_event_attr *attr, pid_t pid, int cpu,
			    unsigned int pages)
{
	struct session_buf *b = &s->bufs[s->nr_bufs];

	memset(b, 0, sizeof(*b));
	b->cpu = cpu;
	b->fd = event_open(attr, pid, cpu, 0);
	if (b->fd < 0)
		return -1;
	b->map_size = (pages + 1) * sysconf(_SC_PAGESIZE);
	b->page = mmap(NULL, b->map_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       b->fd, 0);
	if (b->page == MAP_FAILED) {
		int err = errno;

		close(b->fd);
		errno = err;
		return -1;
	}
	s->nr_bufs++;
	return 0;
}

/*
 * Open the event and map its buffer: for a task on any CPU (cpu -1), on one
 * CPU, or with a buffer for each CPU.  Returns -1 with errno set.
 */
int session_open(struct session *s, struct perf_event_attr *attr,
		 pid_t pid, int cpu, unsigned int pages)
{
	long nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
	int i, err;

	memset(s, 0, sizeof(*s));
	s->pid = pid;
	s->log.sample_type = attr->sample_type;
	s->log.sample_id_all = attr->sample_id_all;
	if (cpu != ALL_CPUS)
		return session_open_buf(s, attr, pid, cpu, pages);
	for (i = 0; i < nr_cpus && i < MAX_CPUS; i++) {
		if (!session_open_buf(s, attr, pid, i, pages))
			continue;
		/* Offline. */
		if (errno == ENODEV)
			continue;
		err = errno;
		session_close(s);
		errno = err;
		return -1;
	}
	return 0;
}

/* One more event that writes to the session's buffers. */
int session_add(struct session *s, struct perf_event_attr *attr)
{
	unsigned int i;
	int fd, err;

	for (i = 0; i < s->nr_bufs; i++) {
		struct session_buf *b = &s->bufs[i];

		fd = event_open(attr, s->pid, b->cpu, 0);
		if (fd < 0)
			return -1;
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, b->fd)) {
			err = errno;
			close(fd);
			errno = err;
			return -1;
		}
		b->extra = grow(b->extra,
				(b->nr_extra + 1) * sizeof(*b->extra));
		b->extra[b->nr_extra++] = fd;
	}
	return 0;
}

/*
 * A sample in the ioctl() that disables the events never gets its deferred record.
 * Sessions whose events may sample there have a separate output event. It is opened
 * first, enabled first and disabled last.
 */
static int session_ioctl_main(struct session *s, unsigned long req)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < s->nr_bufs; i++)
		ret |= ioctl(s->bufs[i].fd, req, 0);
	return ret;
}

static int session_ioctl_extra(struct session *s, unsigned long req)
{
	unsigned int i, j;
	int ret = 0;

	for (i = 0; i < s->nr_bufs; i++) {
		for (j = 0; j < s->bufs[i].nr_extra; j++)
			ret |= ioctl(s->bufs[i].extra[j], req, 0);
	}
	return ret;
}

int session_enable(struct session *s)
{
	return session_ioctl_main(s, PERF_EVENT_IOC_ENABLE) |
	       session_ioctl_extra(s, PERF_EVENT_IOC_ENABLE);
}

int session_disable(struct session *s)
{
	return session_ioctl_extra(s, PERF_EVENT_IOC_DISABLE) |
	       session_ioctl_main(s, PERF_EVENT_IOC_DISABLE);
}

/* Move what the buffers hold to the log. */
void session_drain(struct session *s)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	struct event_log *log = &s->log;
	unsigned int i;

	for (i = 0; i < s->nr_bufs; i++) {
		struct perf_event_mmap_page *pg = s->bufs[i].page;
		size_t size = s->bufs[i].map_size - page_size;
		const char *data = (const char *)pg + page_size;
		struct log_chunk *c;
		__u64 head, tail, at;

		head = __atomic_load_n(&pg->data_head, __ATOMIC_ACQUIRE);
		tail = pg->data_tail;
		if (head == tail)
			continue;
		if (log->len + (head - tail) > log->cap) {
			log->cap = 2 * (log->len + (head - tail));
			log->data = grow(log->data, log->cap);
		}
		log->chunks = grow(log->chunks, (log->nr_chunks + 1) *
				   sizeof(*log->chunks));
		c = &log->chunks[log->nr_chunks++];
		c->buf = i;
		c->pos = tail;
		c->len = head - tail;
		c->off = log->len;
		for (at = tail; at < head; ) {
			size_t off = at % size, n = size - off;

			if (n > head - at)
				n = head - at;
			memcpy(log->data + log->len, data + off, n);
			log->len += n;
			at += n;
		}
		__atomic_store_n(&pg->data_tail, head, __ATOMIC_RELEASE);
	}
}

/* Disable, collect and parse. */
int session_finish(struct session *s)
{
	session_disable(s);
	session_drain(s);
	if (log_parse(&s->log)) {
		fprintf(stderr, "# %s\n", s->log.error);
		return -1;
	}
	return 0;
}

/* Wait until the log has @nr samples; -1 if that takes too long. */
int session_wait(struct session *s, unsigned int nr,
		 unsigned int seconds)
{
	__u64 end = now_nsec() + seconds * NSEC_PER_SEC;

	do {
		session_drain(s);
		if (log_parse(&s->log)) {
			fprintf(stderr, "# %s\n", s->log.error);
			return -1;
		}
		if (log_count(&s->log, PERF_RECORD_SAMPLE) >= nr)
			return 0;
		usleep(2000);
	} while (now_nsec() < end);
	fprintf(stderr, "# %u of %u samples within %u s\n",
		log_count(&s->log, PERF_RECORD_SAMPLE), nr, seconds);
	return -1;
}
