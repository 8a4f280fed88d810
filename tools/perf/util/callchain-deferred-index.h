/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_CALLCHAIN_DEFERRED_INDEX_H
#define __PERF_CALLCHAIN_DEFERRED_INDEX_H

#include <stddef.h>
#include <linux/types.h>

/*
 * The tid and the time are rarely needed. They are read from the record itself, so
 * the entry does not have them.
 */
struct callchain_index_entry {
	u64	cookie;
	u64	pos;
};

/* callchain_index__sort() sorts it after the last entry was added. */
struct callchain_index {
	struct callchain_index_entry	*entries;
	size_t				nr_entries;
	size_t				max_entries;
};

int callchain_index__add(struct callchain_index *index, u64 cookie, u64 pos);
void callchain_index__sort(struct callchain_index *index);
const struct callchain_index_entry *callchain_index__find(const struct callchain_index *index,
							  u64 cookie);
void callchain_index__exit(struct callchain_index *index);

#endif /* __PERF_CALLCHAIN_DEFERRED_INDEX_H */
