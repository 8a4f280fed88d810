// SPDX-License-Identifier: GPL-2.0
/* Gets the table of a file from the cache, or makes it and puts it there */
#include <errno.h>
#include <linux/compiler.h>

#include "util/cache.h"
#include "util/debug.h"
#include "util/sframe-cache.h"
#include "util/sframe-table.h"
#ifdef HAVE_DWARF_SUPPORT
#include "util/sframe-build.h"
#include "util/sframe-cfi.h"
#include "util/sframe-code.h"

/**
 * sframe_table__get - Get the table of a file, from the cache if it is there
 * @table:	Receives the table; sframe_table__exit() frees it
 * @fd:		ELF file
 * @cache:	How to use the cache
 * @may_be_partial: If the table is not in the cache, leave out the rules that take long to
 *		make. The partial table gets into the cache until somebody makes the whole one
 * @stop:	Called from time to time, returns true to give up; or NULL
 * @arg:	For @stop
 *
 * If the table is not in the cache, this function makes it and puts it there. The
 * cache has no tables for files without a build-id. Any number of threads may call
 * this at the same time.
 *
 * Return: 0; the errors of sframe_table__build(); -EINTR - @stop returned true;
 *	   -ENOKEY - the table is not in the cache, and @cache says not to make one.
 *	   A cache that cannot be written is no error.
 */
int sframe_table__get(struct sframe_table *table, int fd, enum sframe_cache_use cache,
		      bool may_be_partial, sframe_stop_fn stop, const void *arg)
{
	struct sframe_cfi *cfi;
	int err;

	*table = (struct sframe_table) { };

	err = sframe_cfi__open_until(fd, stop, arg, &cfi);
	if (err)
		return err;

	err = sframe_cache__load(sframe_cfi__build_id(cfi), sframe_cfi__fingerprint(cfi), cache,
				 table);
	table->no_bid = !sframe_cfi__build_id(cfi)->size;
	if (!err && table->partial && !may_be_partial) {
		sframe_table__exit(table);
		*table = (struct sframe_table) { };
		err = -ENOENT;
	}
	if (!err && sframe_code__is_same(cfi, table)) {
		if (table->renewed)
			goto store;
		goto out;
	}
	if (!err) {
		/* The comparison has read the CFI, and building reads it again. */
		sframe_table__exit(table);
		*table = (struct sframe_table) { };
		sframe_cfi__delete(cfi);
		err = sframe_cfi__open_until(fd, stop, arg, &cfi);
		if (err)
			return err;
	}
	if (cache == SFRAME_CACHE_ONLY) {
		err = -ENOKEY;
		goto out;
	}

	err = sframe_cfi__read(cfi);
	if (!err)
		err = sframe_cfi__build(cfi, may_be_partial, table);
	if (err)
		goto out;
store:
	if (table->bid.size && cache == SFRAME_CACHE_USE) {
		table->stored = !sframe_cache__store(table);
		if (!table->stored)
			pr_debug("Cannot put a table into %s\n", buildid_dir);
	}
out:
	sframe_cfi__delete(cfi);
	return err;
}

#else /* !HAVE_DWARF_SUPPORT */

int sframe_table__get(struct sframe_table *table, int fd __maybe_unused,
		      enum sframe_cache_use cache __maybe_unused,
		      bool may_be_partial __maybe_unused,
		      sframe_stop_fn stop __maybe_unused,
		      const void *arg __maybe_unused)
{
	*table = (struct sframe_table) { };
	return -EOPNOTSUPP;
}

#endif /* HAVE_DWARF_SUPPORT */
