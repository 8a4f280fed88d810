// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <linux/zalloc.h>
#include <internal/lib.h>

#include "util/cache.h"
#include "util/debug.h"
#include "util/sframe.h"
#include "util/sframe-cache.h"
#include "util/util.h"

#define SFRAME_CACHE_DIR	".sframe"

/* How exact the time of the last use is: writing it each time is not worth it. */
#define SFRAME_CACHE_SECONDS	(24 * 60 * 60)

/* What mkstemp() leaves behind when perf is killed goes after this time. */
#define SFRAME_CACHE_LEFTOVER	".new-XXXXXX"

static int sframe_cache__path(const struct build_id *bid, char *path, size_t size)
{
	char sbuild_id[SBUILD_ID_SIZE];

	if (!bid->size)
		return -ENOENT;

	build_id__sprintf(bid, sbuild_id);
	if ((size_t)snprintf(path, size, "%s/" SFRAME_CACHE_DIR "/%.2s/%s", buildid_dir,
			     sbuild_id, sbuild_id + 2) >= size)
		return -ENAMETOOLONG;

	return 0;
}

/* Read all of a file. Not mapped: someone may truncate it. */
static int sframe_cache__read(int fd, void **data, size_t *size)
{
	struct stat st;
	void *buf;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > SFRAME_SIZE_MAX)
		return -ESTALE;

	buf = malloc(st.st_size);
	if (!buf)
		return -ENOMEM;

	if (readn(fd, buf, st.st_size) != st.st_size) {
		free(buf);
		return -ESTALE;
	}

	*data = buf;
	*size = st.st_size;
	return 0;
}

/* Is this a table that this version of perf has written, and all of it? */
static int sframe_cache__validate(const void *data, size_t size, struct sframe_aux *aux,
				  struct sframe_stats *stats)
{
	struct sframe_reader reader;

	if (sframe_reader__init(&reader, data, size, 0) || sframe_reader__aux(&reader, aux) ||
	    get_unaligned_le64(&aux->size) != size || sframe_reader__check(&reader))
		return -ESTALE;

	*stats = (struct sframe_stats) {
		.code		= get_unaligned_le64(&aux->code),
		.described	= get_unaligned_le64(&aux->described),
		.covered	= get_unaligned_le64(&aux->covered),
		.functions	= reader.num_fdes,
		.rows		= reader.num_fres,
	};
	return 0;
}

static void sframe_cache__touch(int fd)
{
	struct stat st;

	if (!fstat(fd, &st) && st.st_mtime + SFRAME_CACHE_SECONDS < time(NULL) &&
	    futimens(fd, NULL))
		pr_debug("Cannot say that a table was used: %m\n");
}

/**
 * sframe_cache__load - Look for a table
 * @bid:	Build-id of the file
 * @fingerprint: Of what a table would be made of now, see &struct sframe_aux
 * @table:	Receives the table, to be freed by sframe_table__exit()
 *
 * Return: 0; -ENOENT - there is none; -ESTALE - there was one, but it is damaged or
 *	   not for this file; it has been removed; other errors of open().
 */
int sframe_cache__load(const struct build_id *bid, const u8 *fingerprint,
		       struct sframe_table *table)
{
	struct sframe_aux aux;
	char path[PATH_MAX];
	int fd, err;

	*table = (struct sframe_table) { };

	err = sframe_cache__path(bid, path, sizeof(path));
	if (err)
		return err;

	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	err = sframe_cache__read(fd, &table->data, &table->size);
	if (!err)
		err = sframe_cache__validate(table->data, table->size, &aux, &table->stats);
	if (!err && (memcmp(aux.fingerprint, fingerprint, sizeof(aux.fingerprint)) ||
		     aux.build_id_size != bid->size ||
		     memcmp(aux.build_id, bid->data, bid->size)))
		err = -ESTALE;

	if (err) {
		sframe_table__exit(table);
		*table = (struct sframe_table) { };
		if (err == -ESTALE) {
			pr_debug("%s is stale\n", path);
			unlink(path);
		}
	} else {
		table->bid = *bid;
		table->cached = true;
		sframe_cache__touch(fd);
	}

	close(fd);
	return err;
}

/**
 * sframe_cache__store - Keep a table
 * @table:	Table, as it was built
 *
 * Others see all of it or nothing.
 *
 * Return: 0; -ENOENT - its file has no build-id; other errors of the file system.
 */
int sframe_cache__store(const struct sframe_table *table)
{
	char path[PATH_MAX], dir[PATH_MAX], new[PATH_MAX];
	int fd, err;

	err = sframe_cache__path(&table->bid, path, sizeof(path));
	if (err)
		return err;

	scnprintf(dir, sizeof(dir), "%s", path);
	*strrchr(dir, '/') = '\0';
	if (mkdir_p(dir, 0755))
		return -errno;

	if ((size_t)snprintf(new, sizeof(new), "%s/" SFRAME_CACHE_LEFTOVER, dir) >= sizeof(new))
		return -ENAMETOOLONG;
	fd = mkstemp(new);
	if (fd < 0)
		return -errno;

	if (writen(fd, table->data, table->size) != (ssize_t)table->size)
		err = -errno ?: -EIO;
	if (!err && fchmod(fd, 0644))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(new, path))
		err = -errno;
	if (err)
		unlink(new);

	return err;
}

static bool sframe_cache__is_hex(const char *name)
{
	if (!*name)
		return false;
	while (isxdigit(*name))
		name++;
	return !*name;
}

static int sframe_cache__visit(const char *dir, const char *head, const char *name,
			       sframe_cache_fn fn, void *arg)
{
	struct sframe_cache_entry entry = { };
	char path[PATH_MAX], sbuild_id[SBUILD_ID_SIZE];
	struct sframe_aux aux;
	void *data = NULL;
	struct stat st;
	size_t size;
	int fd, ret;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s/%s", dir, head, name) >= sizeof(path))
		return 0;
	if (lstat(path, &st) || !S_ISREG(st.st_mode))
		return 0;

	/* Anything else that is here is what was left behind. */
	if (sframe_cache__is_hex(name) &&
	    (size_t)snprintf(sbuild_id, sizeof(sbuild_id), "%s%s", head, name) <
	    sizeof(sbuild_id)) {
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0) {
			entry.valid = !sframe_cache__read(fd, &data, &size) &&
				      !sframe_cache__validate(data, size, &aux, &entry.stats);
			free(data);
			close(fd);
		}
	} else if (!strncmp(name, SFRAME_CACHE_LEFTOVER, 5) &&
		   st.st_mtime + SFRAME_CACHE_SECONDS < time(NULL)) {
		scnprintf(sbuild_id, sizeof(sbuild_id), "%s", "(left behind)");
	} else {
		return 0;
	}

	entry.path = path;
	entry.sbuild_id = sbuild_id;
	entry.size = st.st_size;
	entry.used = st.st_mtime;
	ret = fn(&entry, arg);

	return ret;
}

/**
 * sframe_cache__for_each - Go through the cache
 * @fn:		Called for each table that is there; not 0 ends it
 * @arg:	For @fn
 *
 * Return: 0, also if there is no cache; what @fn returned; errors of opendir().
 */
int sframe_cache__for_each(sframe_cache_fn fn, void *arg)
{
	char top[PATH_MAX], sub[PATH_MAX];
	struct dirent *head, *name;
	DIR *top_dir, *sub_dir;
	int ret = 0;

	if ((size_t)snprintf(top, sizeof(top), "%s/" SFRAME_CACHE_DIR, buildid_dir) >= sizeof(top))
		return -ENAMETOOLONG;

	top_dir = opendir(top);
	if (!top_dir)
		return errno == ENOENT ? 0 : -errno;

	while (!ret && (head = readdir(top_dir)) != NULL) {
		if (strlen(head->d_name) != 2 || !sframe_cache__is_hex(head->d_name) ||
		    (size_t)snprintf(sub, sizeof(sub), "%s/%s", top, head->d_name) >= sizeof(sub))
			continue;
		sub_dir = opendir(sub);
		if (!sub_dir)
			continue;
		while (!ret && (name = readdir(sub_dir)) != NULL)
			ret = sframe_cache__visit(top, head->d_name, name->d_name, fn, arg);
		closedir(sub_dir);
	}

	closedir(top_dir);
	return ret;
}

struct sframe_cache_item {
	char	*path;
	u64	size;
	time_t	used;
	bool	valid;
};

struct sframe_cache_items {
	struct sframe_cache_item	*items;
	size_t				nr;
	size_t				room;
};

static int sframe_cache__collect(const struct sframe_cache_entry *entry, void *arg)
{
	struct sframe_cache_items *all = arg;
	struct sframe_cache_item *item;
	size_t room;
	void *new;

	if (all->nr == all->room) {
		room = max(all->room * 2, (size_t)64);
		new = realloc(all->items, room * sizeof(*all->items));
		if (!new)
			return -ENOMEM;
		all->items = new;
		all->room = room;
	}

	item = &all->items[all->nr];
	item->path = strdup(entry->path);
	if (!item->path)
		return -ENOMEM;
	item->size = entry->size;
	item->used = entry->used;
	item->valid = entry->valid;
	all->nr++;

	return 0;
}

/* What is to go first comes last. */
static int sframe_cache_item__cmp(const void *a, const void *b)
{
	const struct sframe_cache_item *x = a, *y = b;

	if (x->valid != y->valid)
		return x->valid ? -1 : 1;
	return x->used > y->used ? -1 : x->used < y->used;
}

/**
 * sframe_cache__prune - Remove tables
 * @prune:	Which
 *
 * Return: 0; -ENOMEM; errors of opendir() and unlink().
 */
int sframe_cache__prune(struct sframe_cache_prune *prune)
{
	struct sframe_cache_items all = { };
	struct sframe_cache_item *item;
	size_t i;
	int err;

	prune->removed = 0;
	prune->removed_size = 0;
	prune->left_size = 0;

	err = sframe_cache__for_each(sframe_cache__collect, &all);
	if (all.nr)
		qsort(all.items, all.nr, sizeof(*all.items), sframe_cache_item__cmp);

	for (i = 0; i < all.nr && !err; i++) {
		item = &all.items[i];
		if (item->valid && item->used >= prune->before &&
		    prune->left_size + item->size <= prune->max_size) {
			prune->left_size += item->size;
			continue;
		}
		if (unlink(item->path) && errno != ENOENT) {
			err = -errno;
			break;
		}
		prune->removed++;
		prune->removed_size += item->size;
	}

	for (i = 0; i < all.nr; i++)
		zfree(&all.items[i].path);
	free(all.items);

	return err;
}
