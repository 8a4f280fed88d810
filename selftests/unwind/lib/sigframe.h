/* SPDX-License-Identifier: GPL-2.0 */
/* Handlers whose stack is known, and the stacks on which they run. */
#ifndef SELFTESTS_UNWIND_SIGFRAME_H
#define SELFTESTS_UNWIND_SIGFRAME_H

#include <linux/types.h>

#ifdef __x86_64__
/* The walk of run_walk_kill(). */
#define BITS	7
#define ID	0x2d

enum altstack {
	ALT_NONE,
	/* Below the stack that is interrupted: the CFA grows. */
	ALT_LOW,
	/* Above it: the CFA goes down. */
	ALT_HIGH,
};

/* The task that fp_outer() sends a signal to. */
extern int fp_pid;

extern const char fp_handler[], fp_handler_ip[];
extern const char fp_outer[], fp_outer_ip[];

/* sigaction() with a trampoline. */
int set_handler(int sig, unsigned long handler, const void *restorer,
		unsigned long flags);

/* The trampoline of the C library. */
const void *libc_restorer(void);

/* Call fn(arg) with an alternate stack of that kind.  0 if that succeeds. */
int on_altstack(enum altstack alt, void (*fn)(void *arg), void *arg);

/* A walk that sends itself SIGUSR1. */
void run_walk_kill(void *arg);

static inline void want_ip(__u64 *want, unsigned int *nr, const void *ip)
{
	want[(*nr)++] = (__u64)ip;
}
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_SIGFRAME_H */
