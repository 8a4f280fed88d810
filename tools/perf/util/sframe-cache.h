/* SPDX-License-Identifier: GPL-2.0 */
/* SFrame tables on disk, by build-id: .sframe in the directory of the build-id cache */
#ifndef __PERF_SFRAME_CACHE_H
#define __PERF_SFRAME_CACHE_H

#include <stdbool.h>
#include <time.h>
#include <linux/types.h>

#include "util/sframe-table.h"

/**
 * struct sframe_cache_entry - A file in the cache
 * @head:	Directory that it is in
 * @tail:	Its name there
 * @sbuild_id:	Build-id of the file that it is for
 * @size:	Its size in bytes
 * @used:	When it was last used, within a day
 * @valid:	It is a sound table of this version of perf
 * @stats:	What it covers, if @valid
 */
struct sframe_cache_entry {
	const char		*head;
	const char		*tail;
	const char		*sbuild_id;
	u64			size;
	time_t			used;
	bool			valid;
	struct sframe_stats	stats;
};

typedef int (*sframe_cache_fn)(const struct sframe_cache_entry *entry, void *arg);

int sframe_cache__load(const struct build_id *bid, const u8 *fingerprint,
		       struct sframe_table *table);
int sframe_cache__store(const struct sframe_table *table);
int sframe_cache__for_each(sframe_cache_fn fn, void *arg);

/**
 * struct sframe_cache_prune - What to remove
 * @before:	What has not been used since then
 * @max_size:	Of what is left, those that have not been used for the longest time
 *		until no more than this remains
 * @unchecked:	Do not look at tables: those that are damaged do not go first
 * @make_room:	If there are more than @max_size, then remove more than the excess
 * @removed:	Receives how many tables were removed
 * @removed_size: Receives their size
 * @left_size:	Receives the size of what is left
 *
 * What is damaged or of another version of perf goes first.
 */
struct sframe_cache_prune {
	time_t	before;
	u64	max_size;
	bool	unchecked;
	bool	make_room;
	u64	removed;
	u64	removed_size;
	u64	left_size;
};

int sframe_cache__prune(struct sframe_cache_prune *prune);
int sframe_cache__purge(void);
void sframe_cache__limit(void);
int sframe_cache__config(const char *var, const char *value);

#endif /* __PERF_SFRAME_CACHE_H */
