/* SPDX-License-Identifier: GPL-2.0 */
/* A thread that is sampled all the time. */
#ifndef SELFTESTS_UNWIND_WORKER_H
#define SELFTESTS_UNWIND_WORKER_H

#include <pthread.h>
#include <sys/types.h>

#include "chain.h"

#ifdef __x86_64__
struct worker {
	pthread_t	thread;
	struct chain	c;
	pid_t		tid;
	int		stop;
	/* Between two samples. */
	unsigned int	pause_usec;
};

/* The thread: samples its chain until it is to stop. */
void *sampled(void *arg);

/* Its ID, when it runs; -1 if it does not. */
pid_t worker_tid(struct worker *w);
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_WORKER_H */
