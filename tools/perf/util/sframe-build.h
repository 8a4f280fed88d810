/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_BUILD_H
#define __PERF_SFRAME_BUILD_H

struct sframe_cfi;
struct sframe_table;

/*
 * A function in a table has at most this many rows. The search for a row takes time
 * in proportion to the number of rows. The search for a function takes little time.
 * Therefore, long functions are divided.
 */
#define SFRAME_ROWS_MAX		128

int sframe_cfi__build(struct sframe_cfi *cfi, bool may_be_partial,
		      struct sframe_table *table);

#endif /* __PERF_SFRAME_BUILD_H */
