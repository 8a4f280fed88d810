/* SPDX-License-Identifier: GPL-2.0 */
/* Children of a test. */
#ifndef SELFTESTS_PERF_EVENTS_CHILD_H
#define SELFTESTS_PERF_EVENTS_CHILD_H

#include <sys/types.h>

struct session;

/*
 * A child that waits for child_go(), runs fn(arg), and exits with 0. So a test
 * can open a session on the child before fn() runs.
 */
struct child {
	pid_t	pid;
	int	go;
};

/* Fork a child that waits for child_go().  0, or -1. */
int child_spawn(struct child *c, void (*fn)(void *), void *arg);

/* Let it run.  0, or -1. */
int child_go(struct child *c);

/* Wait for a child, at most @seconds; kills it (and returns -1) if it hangs. */
int child_wait(pid_t pid, int *status, unsigned int seconds,
	       struct session *drain);

/* Run a program with its input and its output in pipes; its PID, or -1. */
pid_t child_exec(const char *path, int *to, int *from);

#endif /* SELFTESTS_PERF_EVENTS_CHILD_H */
