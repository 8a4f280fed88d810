// SPDX-License-Identifier: GPL-2.0
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "util/sframe-parallel.h"

/* More threads make no sense for work that reads files. */
#define SFRAME_THREADS_MAX	64

struct sframe_parallel {
	size_t		next;
	size_t		nr;
	void		(*fn)(size_t index, void *arg);
	void		*arg;
};

static void *sframe_parallel__thread(void *arg)
{
	struct sframe_parallel *parallel = arg;
	size_t index;

	for (;;) {
		index = __atomic_fetch_add(&parallel->next, 1, __ATOMIC_RELAXED);
		if (index >= parallel->nr)
			return NULL;
		parallel->fn(index, parallel->arg);
	}
}

/**
 * sframe_parallel__run - Call a function for many items, in parallel
 * @nr:		Number of items
 * @nr_threads:	Number of threads; 0 for one per CPU
 * @fn:		Called once per item, by any thread
 * @arg:	For @fn
 *
 * This returns when all items are done. It is no error if fewer threads start,
 * because the calling thread works, too.
 */
void sframe_parallel__run(size_t nr, unsigned int nr_threads,
			  void (*fn)(size_t index, void *arg), void *arg)
{
	struct sframe_parallel parallel = { .nr = nr, .fn = fn, .arg = arg, };
	pthread_t threads[SFRAME_THREADS_MAX];
	unsigned int i, started = 0;
	sigset_t all, old;
	long nr_cpus;

	if (!nr_threads) {
		nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
		nr_threads = nr_cpus > 0 ? nr_cpus : 1;
	}
	nr_threads = min(nr_threads, (unsigned int)SFRAME_THREADS_MAX);
	if (nr < nr_threads)
		nr_threads = nr;

	/* Only the calling thread receives signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (i = 1; i < nr_threads; i++) {
		if (pthread_create(&threads[started], NULL, sframe_parallel__thread, &parallel))
			break;
		started++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	sframe_parallel__thread(&parallel);

	for (i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}
