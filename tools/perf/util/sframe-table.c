// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "util/cache.h"
#include "util/debug.h"
#include "util/sframe-cache.h"
#include "util/sframe-table.h"
#ifdef HAVE_DWARF_SUPPORT
#include "util/sframe-cfi.h"
#endif

const char * const sframe_lost_names[SFRAME_LOST_NR] = {
	[SFRAME_LOST_CFA]	= "cfa",
	[SFRAME_LOST_RA]	= "ra",
	[SFRAME_LOST_FP]	= "fp",
	[SFRAME_LOST_SP]	= "sp",
	[SFRAME_LOST_DAMAGED]	= "damaged",
};

#ifdef HAVE_DWARF_SUPPORT

static int open_and_read(int fd, struct sframe_cfi **cfi)
{
	int err = sframe_cfi__open(fd, cfi);

	if (err)
		return err;

	err = sframe_cfi__read(*cfi);
	if (err)
		sframe_cfi__delete(*cfi);

	return err;
}

/**
 * sframe_table__get - Get the table of a file, from the cache if it is there
 * @table:	Receives it, to be freed by sframe_table__exit()
 * @fd:		ELF file
 * @cache:	How to use the cache
 * @stop:	Asked from time to time whether to give up, or NULL
 * @arg:	For @stop
 *
 * Else it is made, and put into the cache. Files without a build-id have no place
 * there. Any number of threads may do this at a time.
 *
 * Return: as sframe_table__build(); -EINTR - @stop said so; -ENOKEY - it is not in the
 *	   cache, and none is to be made. A cache that cannot be written is no error.
 */
int sframe_table__get(struct sframe_table *table, int fd, enum sframe_cache_use cache,
		      sframe_stop_fn stop, const void *arg)
{
	struct sframe_cfi *cfi;
	int err;

	*table = (struct sframe_table) { };

	err = sframe_cfi__open(fd, &cfi);
	if (err)
		return err;

	err = sframe_cache__load(sframe_cfi__build_id(cfi), sframe_cfi__fingerprint(cfi), table);
	if (!err)
		goto out;
	if (cache == SFRAME_CACHE_ONLY) {
		err = -ENOKEY;
		goto out;
	}

	sframe_cfi__stop_if(cfi, stop, arg);
	err = sframe_cfi__read(cfi);
	if (!err)
		err = sframe_cfi__build(cfi, table);
	if (err)
		goto out;

	if (table->bid.size && cache == SFRAME_CACHE_USE) {
		table->stored = !sframe_cache__store(table);
		if (!table->stored)
			pr_debug("Cannot put a table into %s\n", buildid_dir);
	}
out:
	sframe_cfi__delete(cfi);
	return err;
}

/**
 * sframe_table__build - Make the table of a file
 * @table:	Receives it, to be freed by sframe_table__exit()
 * @fd:		ELF file
 *
 * Any number of threads may do this at a time.
 *
 * Return: 0; -ENOEXEC - this is no ELF file; -EOPNOTSUPP - it is not a program or
 *	   library for x86-64, or perf lacks libdw; -ENODATA - it has no call frame
 *	   information; -EFBIG - it has too much of it; -EINVAL - it is damaged;
 *	   -ENOMEM.
 */
int sframe_table__build(struct sframe_table *table, int fd)
{
	struct sframe_cfi *cfi;
	int err;

	*table = (struct sframe_table) { };

	err = open_and_read(fd, &cfi);
	if (err)
		return err;

	err = sframe_cfi__build(cfi, table);
	sframe_cfi__delete(cfi);
	return err;
}

/**
 * sframe_table__check - Compare the table of a file with libdw, for each address
 * @table:	Table; without data it has no rules
 * @fd:		ELF file
 * @check:	Receives the result; its log is an input
 *
 * Return: 0; else as sframe_table__build(); -EINVAL means the table as well.
 */
int sframe_table__check(const struct sframe_table *table, int fd,
			struct sframe_check *check)
{
	struct sframe_cfi *cfi;
	int err;

	err = sframe_cfi__open(fd, &cfi);
	if (err)
		return err;

	/* The file may describe code, but nothing that a table could be made of. */
	err = sframe_cfi__read(cfi);
	if (!err || err == -ENODATA)
		err = sframe_cfi__check(cfi, table, check);
	sframe_cfi__delete(cfi);
	return err;
}

#else /* !HAVE_DWARF_SUPPORT */

int sframe_table__get(struct sframe_table *table, int fd __maybe_unused,
		      enum sframe_cache_use cache __maybe_unused,
		      sframe_stop_fn stop __maybe_unused,
		      const void *arg __maybe_unused)
{
	*table = (struct sframe_table) { };
	return -EOPNOTSUPP;
}

int sframe_table__build(struct sframe_table *table, int fd __maybe_unused)
{
	*table = (struct sframe_table) { };
	return -EOPNOTSUPP;
}

int sframe_table__check(const struct sframe_table *table __maybe_unused,
			int fd __maybe_unused,
			struct sframe_check *check __maybe_unused)
{
	return -EOPNOTSUPP;
}

#endif /* HAVE_DWARF_SUPPORT */

void sframe_table__exit(struct sframe_table *table)
{
	zfree(&table->data);
	table->size = 0;
}

/**
 * sframe_table__strerror - Say why there is no table
 * @err:	From one of the functions above
 * @buf:	Room for a text, which is not always used
 * @size:	How much
 *
 * Return: the text.
 */
const char *sframe_table__strerror(int err, char *buf, size_t size)
{
	switch (err) {
	case -ENOEXEC:
		return "not an ELF file";
	case -EOPNOTSUPP:
#ifdef HAVE_DWARF_SUPPORT
		return "not a program or library for x86-64";
#else
		return "perf was built without libdw, which reads call frame information";
#endif
	case -ENODATA:
		return "no call frame information";
	case -EFBIG:
		return "too large";
	case -ENOKEY:
		return "not in the cache";
	case -ETIME:
		return "takes too long";
	case -EREMOTE:
		return "on a FUSE file system";
	case -EINVAL:
		return "damaged";
	default:
		return str_error_r(-err, buf, size);
	}
}
