/* SPDX-License-Identifier: GPL-2.0 */
/* Children that block in a system call, with a stack that encodes a number. */
#ifndef SELFTESTS_PERF_EVENTS_BLOCKED_H
#define SELFTESTS_PERF_EVENTS_BLOCKED_H

#include <stdbool.h>
#include <time.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include <sys/types.h>

#include "flush.h"
#include "session.h"

#define TP_RAW		"raw_syscalls/sys_enter"
#define BITS		10
#define ID		0x2a5
/* Stacks that a task delivers itself, after which what it needs is at hand */
#define WARM		20
#define PAGE		4096UL

/* What parent and child share */
struct shared {
	int		pipe[2];
	/* Of the parent, which holds the lock; of the child */
	int		lock;
	int		file;
	int		uffd;
	void		*page;
	unsigned int	futex;
	struct timespec	time;
	char		clone_stack[PAGE];
};

#ifdef __x86_64__
static __always_inline long raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 asm("r10") = d;
	register long r8 asm("r8") = e;
	register long r9 asm("r9") = f;
	long ret;

	asm volatile("syscall" : "=a" (ret)
		     : "0" (nr), "D" (a), "S" (b), "d" (c), "r" (r10), "r" (r8), "r" (r9)
		     : "rcx", "r11", "memory");
	return ret;
}

#endif

/* The stack of a sample in such a function: the function, walk_call_ret, the walk. */
#define BLOCK __attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) \
	void

/* read(), which blocks until there is a byte */
void block_read(struct shared *sh);

/* Make sh->page, and the file descriptor that gets the faults there.  0, or -1. */
int make_uffd(struct shared *sh);

/* Wait until a task does not run, according to its state in /proc.  0, or -1. */
int wait_blocked(pid_t pid);

/*
 * Flush for a child that is blocked, according to its state. It sets that some time before
 * it leaves its CPU, and is busy until then.
 */
int flush_blocked(struct session *s, struct flush *sum);

/* The same for one event, and at most @max stacks */
int flush_blocked_one(int fd, unsigned int max, struct flush *sum);

/* Open the event for the child, or for all CPUs. */
int open_for(struct session *s, struct perf_event_attr *attr, pid_t pid, bool cpu);

/* Take samples of the child's calls with this number, and of getpgid(). */
int set_filter(struct session *s, long nr, pid_t pid);

#endif /* SELFTESTS_PERF_EVENTS_BLOCKED_H */
