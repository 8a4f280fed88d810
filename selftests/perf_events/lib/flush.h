/* SPDX-License-Identifier: GPL-2.0 */
/* Ask for the deferred callchains of tasks that sleep. */
#ifndef SELFTESTS_PERF_EVENTS_FLUSH_H
#define SELFTESTS_PERF_EVENTS_FLUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <sys/types.h>

struct session;

/* Headers of the build may be older than the kernel under test. */
struct flush {
	__u32	size;
	__u32	flags;
	__u32	max;
	__u32	delivered;
	__u32	busy;
	__u32	failed;
	__u32	left;
	__u32	reserved;
};

#define IOC_FLUSH	_IO('$', 241)

/* Flush for one event, at most @max stacks, and add the result to @sum.  0, or -1. */
int flush_one(int fd, unsigned int max, struct flush *sum);

/* Flush for the first event of each buffer.  0, or -1. */
int flush_all(struct session *s, struct flush *sum);

/* Read a file of /proc/PID as a string, which is empty if that fails. */
void read_proc(pid_t pid, const char *name, char *text, size_t size);

/* Does a process sleep in read() of a pipe? */
bool waits_for_pipe(pid_t pid);

#endif /* SELFTESTS_PERF_EVENTS_FLUSH_H */
