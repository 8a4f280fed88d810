/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_BUILD_H
#define __PERF_SFRAME_BUILD_H

struct sframe_cfi;
struct sframe_table;

int sframe_cfi__build(struct sframe_cfi *cfi, bool may_be_partial,
		      struct sframe_table *table);

#endif /* __PERF_SFRAME_BUILD_H */
