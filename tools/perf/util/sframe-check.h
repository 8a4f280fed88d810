/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_CHECK_H
#define __PERF_SFRAME_CHECK_H

struct sframe_cfi;
struct sframe_check;
struct sframe_table;

int sframe_cfi__check(struct sframe_cfi *cfi, const struct sframe_table *table,
		      struct sframe_check *check);

#endif /* __PERF_SFRAME_CHECK_H */
