// SPDX-License-Identifier: GPL-2.0
/* A thread that is sampled all the time. */
#define _GNU_SOURCE
#include <unistd.h>

#include "../../perf_events/lib/event.h"
#include "worker.h"

#ifdef __x86_64__
void *sampled(void *arg)
{
	struct worker *w = arg;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		chain_sample(&w->c);
		usleep(w->pause_usec);
	}
	return NULL;
}

pid_t worker_tid(struct worker *w)
{
	__u64 end = now_nsec() + 5 * NSEC_PER_SEC;
	pid_t tid;

	do {
		tid = __atomic_load_n(&w->tid, __ATOMIC_ACQUIRE);
		if (tid)
			return tid;
		usleep(1000);
	} while (now_nsec() < end);
	return -1;
}
#endif /* __x86_64__ */
