/* SPDX-License-Identifier: GPL-2.0 */
/* Events of one task or of CPUs, their buffers, and the log of their records. */
#ifndef SELFTESTS_PERF_EVENTS_SESSION_H
#define SELFTESTS_PERF_EVENTS_SESSION_H

#include <linux/perf_event.h>
#include <sys/types.h>

#include "log.h"

#define MAX_CPUS	64
#define SESSION_PAGES	64
/* For session_open(): a buffer for each CPU. */
#define ALL_CPUS	(-2)

struct session_buf {
	int				cpu;
	int				fd;
	struct perf_event_mmap_page	*page;
	size_t				map_size;
	int				*extra;
	unsigned int			nr_extra;
};

struct session {
	struct session_buf	bufs[MAX_CPUS];
	unsigned int		nr_bufs;
	pid_t			pid;
	struct event_log	log;
};

/* Open an event for a task, a CPU, or ALL_CPUS, with buffers.  -1 with errno set. */
int session_open(struct session *s, struct perf_event_attr *attr, pid_t pid,
		 int cpu, unsigned int pages);

/* One more event that writes to the session's buffers. */
int session_add(struct session *s, struct perf_event_attr *attr);

/* Close all events, and free the log. */
void session_close(struct session *s);

/* Enable all events, the first one first. */
int session_enable(struct session *s);

/* Disable all events, the first one last. */
int session_disable(struct session *s);

/* Move what the buffers hold to the log. */
void session_drain(struct session *s);

/* Disable, collect and parse. */
int session_finish(struct session *s);

/* Wait until the log has @nr samples; -1 if that takes too long. */
int session_wait(struct session *s, unsigned int nr, unsigned int seconds);

#endif /* SELFTESTS_PERF_EVENTS_SESSION_H */
