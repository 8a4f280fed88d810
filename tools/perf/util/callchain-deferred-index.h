/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_CALLCHAIN_DEFERRED_INDEX_H
#define __PERF_CALLCHAIN_DEFERRED_INDEX_H

#include <stdbool.h>
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

struct callchain_index_block;

/**
 * struct callchain_index - The positions of records, by cookie
 * @entries:	What callchain_index__add() has added; NULL after callchain_index__sort()
 * @nr_entries:	Number of entries
 * @max_entries: Number of entries that fit
 * @blocks:	The first of each CALLCHAIN_INDEX_BLOCK entries, sorted
 * @nr_blocks:	Number of blocks
 * @bytes:	The other entries, as differences to the one before
 * @nr_bytes:	Number of bytes
 * @max_bytes:	Number of bytes that fit
 */
struct callchain_index {
	struct callchain_index_entry	*entries;
	size_t				nr_entries;
	size_t				max_entries;
	struct callchain_index_block	*blocks;
	size_t				nr_blocks;
	u8				*bytes;
	size_t				nr_bytes;
	size_t				max_bytes;
};

/**
 * struct callchain_index_iter - An entry of a sorted index
 * @entry:	The entry
 * @nr:		Its number
 * @at:		The differences of the next one, unless that starts a block
 */
struct callchain_index_iter {
	struct callchain_index_entry	entry;
	size_t				nr;
	const u8			*at;
};

int callchain_index__add(struct callchain_index *index, u64 cookie, u64 pos);
int callchain_index__sort(struct callchain_index *index);
bool callchain_index__find(const struct callchain_index *index, u64 cookie,
			   struct callchain_index_iter *iter);
bool callchain_index__next(const struct callchain_index *index,
			   struct callchain_index_iter *iter);
void callchain_index__exit(struct callchain_index *index);

#endif /* __PERF_CALLCHAIN_DEFERRED_INDEX_H */
