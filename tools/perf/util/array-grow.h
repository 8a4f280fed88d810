/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_ARRAY_GROW_H
#define __PERF_ARRAY_GROW_H

#include <stddef.h>

void *array__grow(void *array, size_t nr, size_t *room, size_t size);

#endif /* __PERF_ARRAY_GROW_H */
