/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_UNWIND_TABLES_CLOCK_H
#define __PERF_UNWIND_TABLES_CLOCK_H

#include <stdbool.h>
#include <time.h>
#include <linux/types.h>

/**
 * struct unwind_tables_clock - Gives a thread the time from the clock of samples
 * @fd:		An event of the thread, -1 if there is none
 * @base:	Its ring buffer
 */
struct unwind_tables_clock {
	int		fd;
	void		*base;
};

void unwind_tables_clock__open(struct unwind_tables_clock *clock, bool use_clockid,
			       clockid_t clockid);
void unwind_tables_clock__close(struct unwind_tables_clock *clock);
u64 unwind_tables_clock__read(const struct unwind_tables_clock *clock);

#endif /* __PERF_UNWIND_TABLES_CLOCK_H */
