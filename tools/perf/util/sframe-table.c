// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "util/sframe-table.h"
#ifdef HAVE_DWARF_SUPPORT
#include "util/sframe-build.h"
#include "util/sframe-cfi.h"
#include "util/sframe-check.h"
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
 * sframe_table__build - Make the table of a file
 * @table:	Receives the table; sframe_table__exit() frees it
 * @fd:		ELF file
 *
 * Any number of threads may call this at the same time.
 *
 * Return: 0; -ENOEXEC - this is not an ELF file; -EOPNOTSUPP - it is not a program
 *	   or library for x86-64, or perf lacks libdw; -ENODATA - it has no call
 *	   frame information; -EFBIG - it has too much of it; -EINVAL - it is
 *	   damaged; -ENOMEM.
 */
int sframe_table__build(struct sframe_table *table, int fd)
{
	struct sframe_cfi *cfi;
	int err;

	*table = (struct sframe_table) { };

	err = open_and_read(fd, &cfi);
	if (err)
		return err;

	err = sframe_cfi__build(cfi, /*may_be_partial=*/false, table);
	sframe_cfi__delete(cfi);
	return err;
}

/**
 * sframe_table__check - Compare the table of a file with libdw, at each address
 * @table:	Table; without data it has no rules
 * @fd:		ELF file
 * @check:	Receives the result; the caller sets its log and max
 *
 * Return: 0; the errors of sframe_table__build(); -EINVAL also means that the table
 *	   is damaged.
 */
int sframe_table__check(const struct sframe_table *table, int fd,
			struct sframe_check *check)
{
	struct sframe_cfi *cfi;
	int err;

	err = sframe_cfi__open(fd, &cfi);
	if (err)
		return err;

	/* The file may describe code although no table can be made from it. */
	err = sframe_cfi__read(cfi);
	if (!err || err == -ENODATA)
		err = sframe_cfi__check(cfi, table, check);
	sframe_cfi__delete(cfi);
	return err;
}

#else /* !HAVE_DWARF_SUPPORT */

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
 * @err:	Error code of a file that has no table
 * @buf:	Buffer for the text, not always used
 * @size:	Size of @buf
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
