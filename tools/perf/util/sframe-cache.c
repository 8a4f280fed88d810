// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

#include "util/array-grow.h"
#include "util/cache.h"
#include "util/debug.h"
#include "util/sframe.h"
#include "util/sframe-cache.h"
#include "util/units.h"
#include "util/util.h"

#define SFRAME_CACHE_DIR	".sframe"

/* Limit for the size of all tables together, see sframe.cache-size in perf-config */
static u64 sframe_cache_size = 1ULL << 30;

/* The cache of perf sframe serve. Sessions of any user read it. */
const char *sframe_cache_system = SFRAME_CACHE_SYSTEM;

/* If the cache exceeds the limit, perf shrinks it to this percentage of the limit. */
#define SFRAME_CACHE_LEFT	75

/* perf updates the time of last use only if it is older than this. */
#define SFRAME_CACHE_SECONDS	(24 * 60 * 60)

/*
 * Name of a new file, for mkostemp(). If perf is killed and leaves such a file, it
 * can be removed after SFRAME_CACHE_SECONDS.
 */
#define SFRAME_CACHE_LEFTOVER	".new-XXXXXX"

/*
 * The first two characters of the build-id name the directory, the rest names the file.
 */
#define SFRAME_CACHE_HEAD	2

struct sframe_cache_name {
	char	head[SFRAME_CACHE_HEAD + 1];
	char	tail[SBUILD_ID_SIZE];
};

static int sframe_cache__name(const struct build_id *bid, struct sframe_cache_name *name)
{
	char sbuild_id[SBUILD_ID_SIZE];

	if (!bid->size)
		return -ENOENT;

	build_id__sprintf(bid, sbuild_id);
	scnprintf(name->head, sizeof(name->head), "%.2s", sbuild_id);
	scnprintf(name->tail, sizeof(name->tail), "%s", sbuild_id + SFRAME_CACHE_HEAD);
	return 0;
}

/*
 * perf trusts the tables, and it creates and removes files here. So the cache must
 * belong to the user or root, like perf's configuration. HOME may be the directory
 * of another user.
 */
static bool sframe_cache__is_own(const struct stat *st)
{
	return !st->st_uid || st->st_uid == geteuid();
}

/* Opens a directory of the cache. @flags is O_NOFOLLOW or 0. */
static int sframe_cache__open_dir(int at, const char *name, int flags)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	struct stat st;

	if (fd < 0)
		return -errno;

	if (fstat(fd, &st) || !sframe_cache__is_own(&st)) {
		pr_debug("%s of the cache is not used: it does not belong to the current user or root\n",
			 name);
		close(fd);
		return -EPERM;
	}

	return fd;
}

static int sframe_cache__open_sub(int at, const char *name, bool create)
{
	if (create && mkdirat(at, name, 0755) && errno != EEXIST)
		return -errno;

	return sframe_cache__open_dir(at, name, O_NOFOLLOW);
}

/* Opens the directory of all tables in the cache @base. */
static int sframe_cache__open_top(const char *base, bool create)
{
	char path[PATH_MAX];
	int top, fd;

	/* mkdir_p() modifies the path, and other threads use it meanwhile. */
	scnprintf(path, sizeof(path), "%s", base);
	if (create && mkdir_p(path, 0755))
		return -errno;

	top = sframe_cache__open_dir(AT_FDCWD, base, 0);
	if (top < 0)
		return top;

	fd = sframe_cache__open_sub(top, SFRAME_CACHE_DIR, create);
	close(top);
	return fd;
}

/* Opens the directory of tables whose build-id starts with @head. */
static int sframe_cache__open(const char *base, const char *head, bool create)
{
	int top = sframe_cache__open_top(base, create), fd;

	if (top < 0)
		return top;

	fd = sframe_cache__open_sub(top, head, create);
	close(top);
	return fd;
}

/**
 * sframe_cache__open_sub_dir - Open a directory beside the tables in the user's cache
 * @name:	Its name, of which no build-id may begin with the first two characters
 * @create:	Create it, and the cache
 *
 * Return: a descriptor; -EPERM - the cache belongs to another user; other errors of
 *	   open() and mkdir().
 */
int sframe_cache__open_sub_dir(const char *name, bool create)
{
	return sframe_cache__open(buildid_dir, name, create);
}

static int sframe_cache__open_table(int dir, const char *tail)
{
	return openat(dir, tail, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Reads a whole file. It is not mapped, because someone may truncate it. */
static int sframe_cache__read(int fd, void **data, size_t *size)
{
	struct stat st;
	void *buf;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || !sframe_cache__is_own(&st) ||
	    st.st_size <= 0 || st.st_size > SFRAME_TABLE_SIZE_MAX)
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

/* Is this a complete table, and did this version of perf write it? */
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
		.derived	= get_unaligned_le64(&aux->derived),
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
		pr_debug("Cannot update the time of last use of a table: %m\n");
}

/* Removes what was read from @fd, unless another process has replaced it. */
static void sframe_cache__remove_stale(int dir, const struct sframe_cache_name *name, int fd)
{
	struct stat st, now;

	if (!fstat(fd, &st) && !fstatat(dir, name->tail, &now, AT_SYMLINK_NOFOLLOW) &&
	    now.st_dev == st.st_dev && now.st_ino == st.st_ino)
		unlinkat(dir, name->tail, 0);
}

static int sframe_cache__load_from(const char *base, const struct sframe_cache_name *name,
				   const struct build_id *bid, const u8 *fingerprint,
				   enum sframe_cache_use use, struct sframe_table *table)
{
	struct sframe_aux aux;
	int dir, fd, err;

	dir = sframe_cache__open(base, name->head, /*create=*/false);
	if (dir < 0)
		return dir;
	fd = sframe_cache__open_table(dir, name->tail);
	if (fd < 0) {
		err = -errno;
		goto out;
	}

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
			pr_debug("%s%s is stale\n", name->head, name->tail);
			if (use == SFRAME_CACHE_USE)
				sframe_cache__remove_stale(dir, name, fd);
		}
	} else {
		table->bid = *bid;
		table->cached = true;
		table->partial = aux.partial;
		sframe_cache__touch(fd);
	}

	close(fd);
out:
	close(dir);
	return err;
}

/**
 * sframe_cache__load - Look for a table
 * @bid:	Build-id of the file
 * @fingerprint: Fingerprint of the file as it is now, see &struct sframe_aux
 * @use:	%SFRAME_CACHE_USE: a table that is damaged or not for this file is removed
 * @table:	Receives the table; sframe_table__exit() frees it
 *
 * If there is none in the user's cache, or only a partial one, look into that of the system.
 *
 * Return: 0; -ENOENT - there is no table; -EPERM - the cache belongs to another
 *	   user; -ESTALE - the table was damaged or not for this file; other errors of
 *	   open().
 */
int sframe_cache__load(const struct build_id *bid, const u8 *fingerprint,
		       enum sframe_cache_use use, struct sframe_table *table)
{
	struct sframe_table other = { };
	struct sframe_cache_name name;
	int err;

	*table = (struct sframe_table) { };

	err = sframe_cache__name(bid, &name);
	if (err)
		return err;

	err = sframe_cache__load_from(buildid_dir, &name, bid, fingerprint, use, table);
	if ((!err && !table->partial) || !strcmp(buildid_dir, sframe_cache_system) ||
	    sframe_cache__load_from(sframe_cache_system, &name, bid, fingerprint, use, &other))
		return err;

	if (!err && other.partial) {
		sframe_table__exit(&other);
		return 0;
	}
	sframe_table__exit(table);
	*table = other;
	return 0;
}

/**
 * sframe_cache__store - Put a table into the cache
 * @table:	Table, as it was built
 *
 * Other processes see either all of the table or no table. A partial table does not replace
 * another one: that of another process may be whole.
 *
 * Return: 0; -ENOENT - its file has no build-id; -EPERM - the cache belongs to
 *	   another user; other errors of the file system.
 */
int sframe_cache__store(const struct sframe_table *table)
{
	struct sframe_cache_name name;
	char new[64];
	int dir, fd, err;

	err = sframe_cache__name(&table->bid, &name);
	if (err)
		return err;

	dir = sframe_cache__open(buildid_dir, name.head, /*create=*/true);
	if (dir < 0)
		return dir;

	scnprintf(new, sizeof(new), "/proc/self/fd/%d/" SFRAME_CACHE_LEFTOVER, dir);
	fd = mkostemp(new, O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		goto out;
	}

	if (writen(fd, table->data, table->size) != (ssize_t)table->size)
		err = -errno ?: -EIO;
	if (!err && fchmod(fd, 0644))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && table->partial && linkat(AT_FDCWD, new, dir, name.tail, 0) && errno != EEXIST)
		err = -errno;
	if (!err && !table->partial && renameat(AT_FDCWD, new, dir, name.tail))
		err = -errno;
	if (err || table->partial)
		unlink(new);
out:
	close(dir);
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

static int sframe_cache__visit(int dir, const char *head, const char *tail, bool check,
			       sframe_cache_fn fn, void *arg)
{
	struct sframe_cache_entry entry = { .head = head, .tail = tail };
	char sbuild_id[SBUILD_ID_SIZE];
	struct sframe_aux aux;
	void *data = NULL;
	struct stat st;
	size_t size;
	int fd;

	if (fstatat(dir, tail, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return 0;

	/* Other files may remain from a perf that was killed. */
	if (sframe_cache__is_hex(tail) &&
	    (size_t)snprintf(sbuild_id, sizeof(sbuild_id), "%s%s", head, tail) <
	    sizeof(sbuild_id)) {
		fd = check ? sframe_cache__open_table(dir, tail) : -1;
		entry.valid = !check;
		if (fd >= 0) {
			entry.valid = !sframe_cache__read(fd, &data, &size) &&
				      !sframe_cache__validate(data, size, &aux, &entry.stats);
			free(data);
			close(fd);
		}
	} else if (!strncmp(tail, SFRAME_CACHE_LEFTOVER, 5) &&
		   st.st_mtime + SFRAME_CACHE_SECONDS < time(NULL)) {
		scnprintf(sbuild_id, sizeof(sbuild_id), "%s", "(left behind)");
	} else {
		return 0;
	}

	entry.sbuild_id = sbuild_id;
	entry.size = st.st_size;
	entry.used = st.st_mtime;
	return fn(&entry, arg);
}

/* Closes @fd. */
static int sframe_cache__visit_dir(int fd, const char *head, bool check, sframe_cache_fn fn,
				   void *arg)
{
	struct dirent *tail;
	int ret = 0;
	DIR *dir;

	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return 0;
	}

	while (!ret && (tail = readdir(dir)) != NULL)
		ret = sframe_cache__visit(fd, head, tail->d_name, check, fn, arg);

	closedir(dir);
	return ret;
}

static int __sframe_cache__for_each(bool check, sframe_cache_fn fn, void *arg)
{
	int top = sframe_cache__open_top(buildid_dir, /*create=*/false), sub, ret = 0;
	struct dirent *head;
	DIR *dir;

	if (top < 0)
		return top == -ENOENT ? 0 : top;

	dir = fdopendir(top);
	if (!dir) {
		close(top);
		return -ENOMEM;
	}

	while (!ret && (head = readdir(dir)) != NULL) {
		if (strlen(head->d_name) != SFRAME_CACHE_HEAD ||
		    !sframe_cache__is_hex(head->d_name))
			continue;
		sub = sframe_cache__open_sub(top, head->d_name, /*create=*/false);
		if (sub >= 0)
			ret = sframe_cache__visit_dir(sub, head->d_name, check, fn, arg);
	}

	closedir(dir);
	return ret;
}

/**
 * sframe_cache__for_each - Call a function for each table in the cache
 * @fn:		Called for each table; a value other than 0 stops
 * @arg:	For @fn
 *
 * Return: 0, also if there is no cache; the value of @fn that is not 0; -EPERM - the
 *	   cache belongs to another user; other errors of open().
 */
int sframe_cache__for_each(sframe_cache_fn fn, void *arg)
{
	return __sframe_cache__for_each(/*check=*/true, fn, arg);
}

struct sframe_cache_item {
	char	head[SFRAME_CACHE_HEAD + 1];
	char	*tail;
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
	void *new;

	new = array__grow(all->items, all->nr, &all->room, sizeof(*all->items));
	if (!new)
		return -ENOMEM;
	all->items = new;

	item = &all->items[all->nr];
	scnprintf(item->head, sizeof(item->head), "%s", entry->head);
	item->tail = strdup(entry->tail);
	if (!item->tail)
		return -ENOMEM;
	item->size = entry->size;
	item->used = entry->used;
	item->valid = entry->valid;
	all->nr++;

	return 0;
}

/* Sorts tables so that those to be removed first come last. */
static int sframe_cache_item__cmp(const void *a, const void *b)
{
	const struct sframe_cache_item *x = a, *y = b;

	if (x->valid != y->valid)
		return x->valid ? -1 : 1;
	return x->used > y->used ? -1 : x->used < y->used;
}

static int sframe_cache__remove(const struct sframe_cache_item *item)
{
	int dir = sframe_cache__open(buildid_dir, item->head, /*create=*/false);
	int err;

	if (dir < 0)
		return dir;

	err = unlinkat(dir, item->tail, 0) ? -errno : 0;
	close(dir);
	return err;
}

/**
 * sframe_cache__prune - Remove tables
 * @prune:	Which tables; receives the result
 *
 * Return: 0; -ENOMEM; -EPERM - the cache belongs to another user; other errors of
 *	   open() and unlink().
 */
int sframe_cache__prune(struct sframe_cache_prune *prune)
{
	struct sframe_cache_items all = { };
	u64 max_size = prune->max_size, all_size = 0;
	struct sframe_cache_item *item;
	size_t i;
	int err;

	prune->removed = 0;
	prune->removed_size = 0;
	prune->left_size = 0;

	err = __sframe_cache__for_each(!prune->unchecked, sframe_cache__collect, &all);
	if (all.nr)
		qsort(all.items, all.nr, sizeof(*all.items), sframe_cache_item__cmp);

	for (i = 0; i < all.nr && prune->make_room; i++)
		all_size += all.items[i].size;
	if (prune->make_room) {
		if (all_size <= prune->max_size)
			goto out;
		max_size = max_size / 100 * SFRAME_CACHE_LEFT;
	}

	for (i = 0; i < all.nr && !err; i++) {
		item = &all.items[i];
		if (item->valid && item->used >= prune->before &&
		    prune->left_size + item->size <= max_size) {
			prune->left_size += item->size;
			continue;
		}
		err = sframe_cache__remove(item);
		if (err && err != -ENOENT)
			break;
		err = 0;
		prune->removed++;
		prune->removed_size += item->size;
	}
out:
	for (i = 0; i < all.nr; i++)
		zfree(&all.items[i].tail);
	free(all.items);

	return err;
}

/**
 * sframe_cache__limit - Remove tables if the cache is larger than its limit
 *
 * This removes the least recently used tables. It does not read the tables, so it takes
 * little time.
 */
void sframe_cache__limit(void)
{
	struct sframe_cache_prune prune = {
		.max_size	= sframe_cache_size,
		.unchecked	= true,
		.make_room	= true,
	};

	if (sframe_cache__prune(&prune))
		pr_debug("Cannot limit the size of the tables in %s\n", buildid_dir);
	else if (prune.removed)
		pr_debug("%" PRIu64 " tables were removed from %s\n", prune.removed, buildid_dir);
}

/* Empties a directory of sframe_cache__open_sub_dir(). */
static void sframe_cache__empty(const char *name)
{
	int fd = sframe_cache__open_sub_dir(name, /*create=*/false);
	struct dirent *entry;
	DIR *dir;

	if (fd < 0)
		return;

	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return;
	}

	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			unlinkat(fd, entry->d_name, 0);
	}
	closedir(dir);
}

/**
 * sframe_cache__purge - Remove all tables, and what commands have mapped
 *
 * Return: like sframe_cache__prune().
 */
int sframe_cache__purge(void)
{
	struct sframe_cache_prune prune = { .unchecked = true };

	sframe_cache__empty(SFRAME_CACHE_COMMANDS);
	return sframe_cache__prune(&prune);
}

/**
 * sframe_cache__parse_size - Parse the size of tables
 * @str:	A number and one of B, K, M, G
 * @size:	Receives the size in bytes
 *
 * Return: 0; -EINVAL - @str is not a size.
 */
int sframe_cache__parse_size(const char *str, u64 *size)
{
	static struct parse_tag tags[] = {
		{ .tag = 'B', .mult = 1 },
		{ .tag = 'K', .mult = 1 << 10 },
		{ .tag = 'M', .mult = 1 << 20 },
		{ .tag = 'G', .mult = 1 << 30 },
		{ .tag = 0 },
	};
	unsigned long bytes = parse_tag_value(str, tags);

	if (bytes == (unsigned long)-1)
		return -EINVAL;

	*size = bytes;
	return 0;
}

/**
 * sframe_cache__config - Set the limit for the size, or the cache of the system
 * @var:	Name of the variable
 * @value:	A number and one of B, K, M, G, or a directory
 *
 * Return: 0; -1 - @value is not a size or no absolute path, or memory is lacking.
 */
int sframe_cache__config(const char *var, const char *value)
{
	if (!strcmp(var, "sframe.system-cache")) {
		if (!value || value[0] != '/') {
			pr_err("sframe.system-cache: not an absolute path\n");
			return -1;
		}
		sframe_cache_system = strdup(value);
		return sframe_cache_system ? 0 : -1;
	}

	if (strcmp(var, "sframe.cache-size"))
		return 0;

	if (sframe_cache__parse_size(value, &sframe_cache_size)) {
		pr_err("sframe.cache-size: not a size: %s\n", value);
		return -1;
	}
	return 0;
}
