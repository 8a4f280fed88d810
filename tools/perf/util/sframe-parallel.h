/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_PARALLEL_H
#define __PERF_SFRAME_PARALLEL_H

#include <stddef.h>

void sframe_parallel__run(size_t nr, unsigned int nr_threads,
			  void (*fn)(size_t index, void *arg), void *arg);

#endif /* __PERF_SFRAME_PARALLEL_H */
