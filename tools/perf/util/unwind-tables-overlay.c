// SPDX-License-Identifier: GPL-2.0
/* Remembers which files below overlays have a table */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/err.h>
#include <linux/magic.h>
#include <linux/string.h>

#include "util/hashmap.h"
#include "util/unwind-tables-internal.h"

static size_t real_hash(long key, void *ctx __maybe_unused)
{
	const struct unwind_tables_real *real = (void *)key;

	return real->ino * 31 + real->ctime.tv_nsec;
}

static bool real_equal(long a, long b, void *ctx __maybe_unused)
{
	const struct unwind_tables_real *x = (void *)a, *y = (void *)b;

	return x->ino == y->ino && x->size == y->size && is_same_time(&x->mtime, &y->mtime) &&
	       is_same_time(&x->ctime, &y->ctime);
}

int unwind_tables__init_overlays(struct unwind_tables *tables)
{
	tables->by_real = hashmap__new(real_hash, real_equal, NULL);

	return IS_ERR(tables->by_real) ? -ENOMEM : 0;
}

void unwind_tables__exit_overlays(struct unwind_tables *tables)
{
	struct hashmap_entry *cur;
	size_t i;

	if (!IS_ERR_OR_NULL(tables->by_real)) {
		hashmap__for_each_entry(tables->by_real, cur, i)
			free((void *)cur->pkey);
	}
	hashmap__free(tables->by_real);
}

/*
 * Is the file below an overlay, so that others may be the same? In images of squashfs and
 * erofs ctime is mtime, and does not tell files apart.
 */
bool unwind_tables__is_overlay(int fd, const struct stat *st, struct unwind_tables_real *real)
{
	struct statfs fs;

	*real = (struct unwind_tables_real) {
		.ino = st->st_ino, .size = st->st_size, .mtime = st->st_mtim,
		.ctime = st->st_ctim,
	};

	return !is_same_time(&st->st_ctim, &st->st_mtim) && !fstatfs(fd, &fs) &&
	       fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/*
 * Claim a file, unless it has a table below another overlay. While another worker makes
 * its table, wait for that.
 *
 * Return: 0, -EEXIST if it has a table, which the caller then uses, too, -EINTR if the
 *	   session ends, or -ENOMEM. After
 *	   0, the caller must call unwind_tables__release_real().
 */
int unwind_tables__claim_real(struct unwind_tables *tables,
			      const struct unwind_tables_real *real)
{
	struct unwind_tables_real *known;
	int err = 0;

	mutex_lock(&tables->lock);
	while (hashmap__find(tables->by_real, real, &known)) {
		err = known->supplied ? -EEXIST :
		      unwind_tables__is_stopped(tables) ? -EINTR : 0;
		if (err == -EEXIST)
			known->users++;
		if (err)
			goto out;
		cond_wait(&tables->idle, &tables->lock);
	}

	known = memdup(real, sizeof(*real));
	if (known)
		known->users = 1;
	if (!known || hashmap__add(tables->by_real, known, known)) {
		free(known);
		err = -ENOMEM;
	}
out:
	mutex_unlock(&tables->lock);
	return err;
}

/*
 * Ends a claim; @supplied: the file has its table now, of @bytes. The caller holds the lock.
 */
void unwind_tables__release_real(struct unwind_tables *tables,
				 const struct unwind_tables_real *real, bool supplied,
				 u64 bytes)
{
	struct unwind_tables_real *known;

	if (hashmap__find(tables->by_real, real, &known)) {
		known->supplied = supplied;
		known->bytes = bytes;
		if (!supplied) {
			hashmap__delete(tables->by_real, real, NULL, NULL);
			free(known);
		}
	}
	cond_broadcast(&tables->idle);
}

/*
 * What is remembered of a file. It stays until nobody uses the table. The caller holds the
 * lock.
 */
struct unwind_tables_real *unwind_tables__find_real(const struct unwind_tables *tables,
						    const struct unwind_tables_real *real)
{
	struct unwind_tables_real *known;

	return hashmap__find(tables->by_real, real, &known) ? known : NULL;
}

/*
 * A file does not use the table of @real any more. Returns true if that was the last one:
 * then @bytes gets the size of the table, and the next one that needs it supplies it anew. The
 * caller holds the lock.
 */
bool unwind_tables__unuse_real(struct unwind_tables *tables, struct unwind_tables_real *real,
			       u64 *bytes)
{
	if (--real->users)
		return false;

	*bytes = real->bytes;
	hashmap__delete(tables->by_real, real, NULL, NULL);
	free(real);
	return true;
}
