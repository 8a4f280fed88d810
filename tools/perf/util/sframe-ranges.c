// SPDX-License-Identifier: GPL-2.0
/* Sets of addresses */
#include <errno.h>
#include <stdlib.h>
#include <linux/kernel.h>

#include "util/array-grow.h"
#include "util/sframe-ranges.h"

int sframe_segment__cmp(const void *a, const void *b)
{
	const struct sframe_segment *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

int sframe_ranges__add(struct sframe_ranges *set, u64 start, u64 end)
{
	void *new;

	if (start >= end)
		return 0;

	new = array__grow(set->ranges, set->nr, &set->room, sizeof(*set->ranges));
	if (!new)
		return -ENOMEM;

	set->ranges = new;
	set->ranges[set->nr++] = (struct sframe_segment) { .start = start, .end = end };
	return 0;
}

void sframe_ranges__merge(struct sframe_ranges *set)
{
	struct sframe_segment *range, *last = NULL;
	size_t i, nr = 0;

	if (!set->nr)
		return;

	qsort(set->ranges, set->nr, sizeof(*set->ranges), sframe_segment__cmp);
	for (i = 0; i < set->nr; i++) {
		range = &set->ranges[i];
		if (last && range->start <= last->end) {
			last->end = max(last->end, range->end);
			continue;
		}
		last = &set->ranges[nr++];
		*last = *range;
	}
	set->nr = nr;
}

/* Sort, and keep one of equal ranges. For sets of ranges that are equal or apart */
void sframe_ranges__merge_equal(struct sframe_ranges *set)
{
	size_t i, nr = 0;

	if (!set->nr)
		return;

	qsort(set->ranges, set->nr, sizeof(*set->ranges), sframe_segment__cmp);
	for (i = 0; i < set->nr; i++) {
		if (!nr || set->ranges[i].start != set->ranges[nr - 1].start)
			set->ranges[nr++] = set->ranges[i];
	}
	set->nr = nr;
}

/* Put the addresses that are in both @a and @b into @common, which is empty. */
int sframe_ranges__intersect(struct sframe_ranges *common, const struct sframe_ranges *a,
			     const struct sframe_ranges *b)
{
	size_t i = 0, j = 0;
	int err;

	while (i < a->nr && j < b->nr) {
		err = sframe_ranges__add(common, max(a->ranges[i].start, b->ranges[j].start),
					 min(a->ranges[i].end, b->ranges[j].end));
		if (err)
			return err;
		if (a->ranges[i].end < b->ranges[j].end)
			i++;
		else
			j++;
	}

	return 0;
}

u64 sframe_ranges__size(const struct sframe_ranges *set)
{
	u64 size = 0;
	size_t i;

	for (i = 0; i < set->nr; i++)
		size += set->ranges[i].end - set->ranges[i].start;

	return size;
}
