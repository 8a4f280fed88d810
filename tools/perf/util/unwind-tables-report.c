// SPDX-License-Identifier: GPL-2.0
/* Counts the reasons why files have no table, and reports them at the end */
#include <errno.h>
#include <inttypes.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "util/debug.h"
#include "util/sframe-table.h"
#include "util/unwind-coverage.h"
#include "util/unwind-tables-internal.h"

/* Warn if this percentage of user stacks leads through files with a late table. */
#define LATE_PERCENT	1.0

/* Does the error mean that no table can be made for the file? */
bool unwind_tables__is_without_cfi(int err)
{
	return err == -ENOEXEC || err == -EOPNOTSUPP || err == -ENODATA;
}

static bool is_limit(int err)
{
	return err == -ENOSPC || err == -EPERM || err == -EFBIG || err == -ENOMEM ||
	       err == -ETIME || err == -EREMOTE;
}

static void count_limit(struct unwind_tables_limit *limit, int err)
{
	limit->nr++;
	limit->err = limit->err ?: err;
}

/* @refused: the error is from the kernel, which did not accept the table */
void unwind_tables__count_error(struct unwind_tables *tables, const char *path, int err,
				bool refused)
{
	char buf[STRERR_BUFSIZE];

	if (refused) {
		pr_debug("Unwind table for %s refused: %s\n", path,
			 str_error_r(-err, buf, sizeof(buf)));
		tables->failed++;
		if (is_limit(err))
			count_limit(&tables->refused, err);
		return;
	}

	pr_debug("No unwind table for %s: %s\n", path,
		 sframe_table__strerror(err, buf, sizeof(buf)));

	if (err == -EINTR) {
		/* The session ends. */
	} else if (err == -ENOENT) {
		tables->gone++;
	} else if (err == -ENOKEY) {
		tables->uncached++;
	} else if (unwind_tables__is_without_cfi(err)) {
		tables->none++;
	} else {
		tables->failed++;
		if (is_limit(err))
			count_limit(&tables->unmade, err);
	}
}

/* Returns one reason, preferably one that the user can do something about. */
static const char *why_uncovered(const struct unwind_tables *tables, char *buf, size_t size)
{
	if (tables->refused.nr)
		return str_error_r(-tables->refused.err, buf, size);
	if (tables->unmade.nr)
		return sframe_table__strerror(tables->unmade.err, buf, size);

	if (tables->uncached)
		return "not in the cache";
	if (tables->unfinished || unwind_tables__nr_without(tables))
		return "not in time";

	return tables->failed ? "damaged" : "gone or changed";
}

static void say_name(const char *name, void *arg __maybe_unused)
{
	pr_debug("No unwind table for %s\n", name);
}

static void say_uncovered(const struct unwind_tables *tables)
{
	size_t nr = unwind_coverage__walk_none(tables->coverage, NULL, NULL);
	char buf[STRERR_BUFSIZE], share[128] = "User stacks through them";
	int level = 0;

	if (!nr)
		return;

	/*
	 * Do not warn if no stack was short. If no stacks were counted, warn only if
	 * a table failed: files that are gone belong to tasks that have ended.
	 */
	if (tables->stacks) {
		scnprintf(share, sizeof(share),
			  "%.1f %% of %" PRIu64 " user stacks lead through them and",
			  tables->short_stacks * 100.0 / tables->stacks, tables->stacks);
		if (!tables->short_stacks)
			level = 1;
	} else if (!tables->failed) {
		level = 1;
	}

	if (verbose >= level)
		pr_warning("WARNING: %zu of %zu files have no unwind table (%s%s). %s may be short.\n",
			   nr, nr + tables->supplied + tables->shared + tables->own,
			   why_uncovered(tables, buf, sizeof(buf)),
			   tables->refused.err == -EPERM ? ", " TABLE_LIMITS : "",
			   share);
	unwind_coverage__walk_none(tables->coverage, say_name, NULL);
}

/* Files get their tables while samples are taken. A short delay needs no warning. */
static void say_late(const struct unwind_tables *tables)
{
	double share;

	if (!tables->late_stacks)
		return;

	share = tables->late_stacks * 100.0 / tables->stacks;
	if (share >= LATE_PERCENT || verbose > 0)
		pr_warning("WARNING: %zu files had no unwind table for some time. In this time %.1f %% of %" PRIu64 " user stacks led through them and may be short.\n",
			   unwind_coverage__nr_late(tables->coverage), share, tables->stacks);
}

/* The caller holds the lock. */
void unwind_tables__report(const struct unwind_tables *tables)
{
	pr_debug("Unwind tables: %zu files, %" PRIu64 " bytes, %.3f s of CPU time, %zu from the cache, %zu put into it, %zu shared by overlays\n",
		 tables->supplied, tables->size, tables->cpu_seconds, tables->cached,
		 tables->stored, tables->shared);
	pr_debug("Unwind tables: none for %zu files without call frame information, %zu that were gone or changed, %zu not in the cache, %zu failed; %zu have a section; %zu were not started\n",
		 tables->none, tables->gone, tables->uncached, tables->failed, tables->own,
		 unwind_tables__nr_without(tables));
	if (tables->lost)
		pr_warning("WARNING: %" PRIu64 " events of later file mappings were lost. These files may have no unwind table, and user stacks through them may be short.\n",
			   tables->lost);
	say_uncovered(tables);
	say_late(tables);
}
