// SPDX-License-Identifier: GPL-2.0
/* The index maps each cookie to the positions of its records. */
#include <errno.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

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

/*
 * Cookies of a CPU are counted, and its records are near to each other in the file. So an entry
 * that is stored as a difference takes 4 to 5 bytes instead of 16. A search decodes half a block.
 */
#define CALLCHAIN_INDEX_BLOCK	16

/**
 * struct callchain_index_block - Entries that are stored together
 * @entry:	The first one
 * @bytes:	Offset of the others
 */
struct callchain_index_block {
	struct callchain_index_entry	entry;
	size_t				bytes;
};

/* The most bytes of a number, and of both numbers of an entry */
#define NUMBER_BYTES	10
#define ENTRY_BYTES	(2 * NUMBER_BYTES)

/* Seven bits per byte, the lowest ones first; all bytes but the last have the eighth bit. */
static u8 *put_number(u8 *at, u64 number)
{
	for (; number >= 0x80; number >>= 7)
		*at++ = number | 0x80;
	*at++ = number;

	return at;
}

static const u8 *get_number(const u8 *at, u64 *number)
{
	unsigned int shift = 0;

	*number = 0;
	do {
		*number |= (u64)(*at & 0x7f) << shift;
		shift += 7;
	} while (*at++ & 0x80);

	return at;
}

/* Positions go back and forth. Small differences in both directions become small numbers. */
static u64 fold(u64 difference)
{
	return (difference << 1) ^ -(difference >> 63);
}

static u64 unfold(u64 number)
{
	return (number >> 1) ^ -(number & 1);
}

static int put_entry(struct callchain_index *index, const struct callchain_index_entry *entry)
{
	const struct callchain_index_entry *prev = entry - 1;
	u8 *at;

	if (index->max_bytes - index->nr_bytes < ENTRY_BYTES) {
		size_t max = index->max_bytes + index->max_bytes / 2 + 1024;
		u8 *bytes = realloc(index->bytes, max);

		if (!bytes)
			return -ENOMEM;
		index->bytes = bytes;
		index->max_bytes = max;
	}

	at = index->bytes + index->nr_bytes;
	at = put_number(at, entry->cookie - prev->cookie);
	at = put_number(at, fold(entry->pos - prev->pos));
	index->nr_bytes = at - index->bytes;

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

/**
 * callchain_index__sort - Make the index ready for searches
 * @index:	Index; nothing may be added any more
 *
 * Return: 0; -ENOMEM.
 */
int callchain_index__sort(struct callchain_index *index)
{
	size_t nr = DIV_ROUND_UP(index->nr_entries, CALLCHAIN_INDEX_BLOCK);
	u8 *bytes;
	size_t i;
	int err;

	if (!index->nr_entries)
		return 0;

	qsort(index->entries, index->nr_entries, sizeof(*index->entries), index_entry__cmp);

	index->blocks = calloc(nr, sizeof(*index->blocks));
	if (!index->blocks)
		return -ENOMEM;

	for (i = 0; i < index->nr_entries; i++) {
		if (i % CALLCHAIN_INDEX_BLOCK) {
			err = put_entry(index, &index->entries[i]);
			if (err)
				return err;
			continue;
		}
		index->blocks[index->nr_blocks++] = (struct callchain_index_block) {
			.entry = index->entries[i], .bytes = index->nr_bytes,
		};
	}
	zfree(&index->entries);

	/* Give back the unused memory. */
	bytes = realloc(index->bytes, index->nr_bytes ?: 1);
	if (bytes)
		index->bytes = bytes;
	pr_debug("%zu deferred callchains, %zu bytes of index\n", index->nr_entries,
		 nr * sizeof(*index->blocks) + index->nr_bytes);

	return 0;
}

static void start_block(const struct callchain_index *index, size_t block,
			struct callchain_index_iter *iter)
{
	iter->entry = index->blocks[block].entry;
	iter->nr = block * CALLCHAIN_INDEX_BLOCK;
	iter->at = index->bytes + index->blocks[block].bytes;
}

/**
 * callchain_index__next - Go on to the next entry
 * @index:	Sorted index
 * @iter:	From callchain_index__find()
 *
 * Return: false if there is none.
 */
bool callchain_index__next(const struct callchain_index *index,
			   struct callchain_index_iter *iter)
{
	u64 number;

	if (iter->nr + 1 >= index->nr_entries)
		return false;

	if (!(++iter->nr % CALLCHAIN_INDEX_BLOCK)) {
		start_block(index, iter->nr / CALLCHAIN_INDEX_BLOCK, iter);
		return true;
	}

	iter->at = get_number(iter->at, &number);
	iter->entry.cookie += number;
	iter->at = get_number(iter->at, &number);
	iter->entry.pos += unfold(number);

	return true;
}

/**
 * callchain_index__find - Find the first entry with a cookie
 * @index:	Sorted index
 * @cookie:	Cookie
 * @iter:	Receives the entry
 *
 * Return: true if there is one.
 */
bool callchain_index__find(const struct callchain_index *index, u64 cookie,
			   struct callchain_index_iter *iter)
{
	size_t first = 0, last = index->nr_blocks;

	/* The last block that starts with a smaller cookie may have the first entry. */
	while (first < last) {
		size_t middle = first + (last - first) / 2;

		if (index->blocks[middle].entry.cookie < cookie)
			first = middle + 1;
		else
			last = middle;
	}

	if (!index->nr_blocks)
		return false;

	start_block(index, first ? first - 1 : 0, iter);
	while (iter->entry.cookie < cookie) {
		if (!callchain_index__next(index, iter))
			return false;
	}

	return iter->entry.cookie == cookie;
}

void callchain_index__exit(struct callchain_index *index)
{
	zfree(&index->entries);
	zfree(&index->blocks);
	zfree(&index->bytes);
}
