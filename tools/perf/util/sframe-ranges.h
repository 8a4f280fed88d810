/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_RANGES_H
#define __PERF_SFRAME_RANGES_H

#include <stddef.h>
#include <linux/types.h>

struct sframe_segment {
	u64	start;
	u64	end;
};

/**
 * struct sframe_ranges - A set of addresses
 * @ranges:	The ranges; sorted and without overlaps after sframe_ranges__merge()
 * @nr:		Number of ranges
 * @room:	Number of ranges that fit
 */
struct sframe_ranges {
	struct sframe_segment	*ranges;
	size_t			nr;
	size_t			room;
};

int sframe_segment__cmp(const void *a, const void *b);
int sframe_ranges__add(struct sframe_ranges *set, u64 start, u64 end);
void sframe_ranges__merge(struct sframe_ranges *set);
void sframe_ranges__merge_equal(struct sframe_ranges *set);
int sframe_ranges__intersect(struct sframe_ranges *common, const struct sframe_ranges *a,
			     const struct sframe_ranges *b);
u64 sframe_ranges__size(const struct sframe_ranges *set);

#endif /* __PERF_SFRAME_RANGES_H */
