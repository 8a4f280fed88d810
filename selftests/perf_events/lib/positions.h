/* SPDX-License-Identifier: GPL-2.0 */
/* The reader of overwrite_reader.h where positions of the buffer wrap around. */
#ifndef SELFTESTS_PERF_EVENTS_POSITIONS_H
#define SELFTESTS_PERF_EVENTS_POSITIONS_H

/* Do positions of the kernel have 32 bits? */
extern int kernel_is_32bit;

/* Returns 0, or which case is wrong. */
int positions_check(void);

#endif /* SELFTESTS_PERF_EVENTS_POSITIONS_H */
