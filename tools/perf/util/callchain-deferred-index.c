// SPDX-License-Identifier: GPL-2.0
/* The index maps each cookie to the positions of its records. */
#include <errno.h>
#include <stdlib.h>

#include "callchain-deferred-index.h"
#include "debug.h"

int callchain_index__add(struct callchain_index *index, u64 cookie, u64 pos)
{
	if (index->nr_entries == index->max_entries) {
		size_t max = index->max_entries ? index->max_entries * 2 : 1024;
		struct callchain_index_entry *entries = realloc(index->entries,
								max * sizeof(*entries));

		if (!entries)
			return -ENOMEM;

		index->entries = entries;
		index->max_entries = max;
	}

	index->entries[index->nr_entries++] = (struct callchain_index_entry) {
		.cookie = cookie,
		.pos = pos,
	};

	return 0;
}

static int index_entry__cmp(const void *va, const void *vb)
{
	const struct callchain_index_entry *a = va, *b = vb;

	if (a->cookie != b->cookie)
		return a->cookie < b->cookie ? -1 : 1;
	if (a->pos != b->pos)
		return a->pos < b->pos ? -1 : 1;

	return 0;
}

/* Call this once, after the last entry. */
void callchain_index__sort(struct callchain_index *index)
{
	struct callchain_index_entry *entries;

	if (!index->nr_entries)
		return;

	qsort(index->entries, index->nr_entries, sizeof(*index->entries), index_entry__cmp);

	/* Give back the unused memory. */
	entries = realloc(index->entries, index->nr_entries * sizeof(*entries));
	if (entries) {
		index->entries = entries;
		index->max_entries = index->nr_entries;
	}
	pr_debug("%zu deferred callchains, %zu bytes of index\n", index->nr_entries,
		 index->nr_entries * sizeof(*index->entries));
}

/* Returns the first entry with the cookie, or NULL. */
const struct callchain_index_entry *callchain_index__find(const struct callchain_index *index,
							  u64 cookie)
{
	size_t first = 0, last = index->nr_entries;

	while (first < last) {
		size_t middle = first + (last - first) / 2;

		if (index->entries[middle].cookie < cookie)
			first = middle + 1;
		else
			last = middle;
	}

	if (first == index->nr_entries || index->entries[first].cookie != cookie)
		return NULL;

	return &index->entries[first];
}

void callchain_index__exit(struct callchain_index *index)
{
	free(index->entries);
}
