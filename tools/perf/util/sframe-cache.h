/* SPDX-License-Identifier: GPL-2.0 */
/* Tables on disk, by build-id: in .sframe in the directory of the build-id cache */
#ifndef __PERF_SFRAME_CACHE_H
#define __PERF_SFRAME_CACHE_H

#include <stdbool.h>
#include <time.h>
#include <linux/types.h>

#include "util/sframe-table.h"

/* Where perf sframe serve keeps tables, see sframe.system-cache in perf-config */
#define SFRAME_CACHE_SYSTEM	"/var/cache/perf"

/* Directory of sframe-commands.c, beside the tables in the user's cache */
#define SFRAME_CACHE_COMMANDS	"commands"

extern const char *sframe_cache_system;

/**
 * struct sframe_cache_entry - A file in the cache
 * @head:	Name of its directory
 * @tail:	Its name in this directory
 * @sbuild_id:	Build-id of the file that the table is for; "(left behind)" for an
 *		unfinished file of a perf that was killed
 * @size:	Its size in bytes
 * @used:	Time of its last use, accurate to a day
 * @valid:	It is an undamaged table of this version of perf
 * @stats:	What the table covers, if @valid
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
		       enum sframe_cache_use use, struct sframe_table *table);
int sframe_cache__store(const struct sframe_table *table);
int sframe_cache__for_each(sframe_cache_fn fn, void *arg);

/**
 * struct sframe_cache_prune - Which tables to remove
 * @before:	Remove the tables that were last used before this time
 * @max_size:	Remove more tables, the least recently used first, until at most
 *		this size remains
 * @unchecked:	Do not read the tables, so do not look for damaged ones
 * @make_room:	If the cache exceeds @max_size, remove more than the excess;
 *		otherwise remove nothing
 * @removed:	Receives the number of removed tables
 * @removed_size: Receives their size
 * @left_size:	Receives the size of the remaining tables
 *
 * Damaged tables and tables of another version of perf are removed first.
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
int sframe_cache__open_sub_dir(const char *name, bool create);
void sframe_cache__limit(void);
int sframe_cache__parse_size(const char *str, u64 *size);
int sframe_cache__config(const char *var, const char *value);

#endif /* __PERF_SFRAME_CACHE_H */
