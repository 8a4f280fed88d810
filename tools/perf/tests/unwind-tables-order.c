// SPDX-License-Identifier: GPL-2.0
/* Of the files that wait for an unwind table, which one comes first? */
#include <errno.h>
#include <string.h>
#include <linux/compiler.h>
#include <linux/kernel.h>

#include "tests.h"

#ifdef HAVE_DWARF_SUPPORT
#include "util/debug.h"
#include "util/unwind-tables-internal.h"

/* In the order in which they are to be picked */
static const struct {
	const char			*name;
	struct unwind_tables_file	file;
} files[] = {
	{ "needed", { .length = 90, .need = 7, } },
	{ "needed less", { .length = 10, .need = 5, } },
	{ "program", { .length = 80, .is_basic = true, } },
	{ "library", { .length = 20, } },
	{ "larger library", { .length = 30, } },
	{ "largest library", { .length = 70, } },
	{ "remote", { .length = 5, .need = 9, .is_basic = true, .is_remote = true, } },
	{ "partial, needed", { .length = 50, .need = 6, .is_partial = true, } },
	{ "partial", { .length = 15, .is_partial = true, } },
};

/* They are found in other orders: each @step-th one. */
static int check_order(size_t step)
{
	struct unwind_tables_file *found[ARRAY_SIZE(files)], copies[ARRAY_SIZE(files)], *file;
	struct unwind_tables tables = {
		.files		= found,
		.nr_files	= ARRAY_SIZE(files),
		.nr_waiting	= ARRAY_SIZE(files),
		.nr_workers	= 2,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		copies[i] = files[i].file;
		copies[i].state = FILE_WAITS;
		found[i * step % ARRAY_SIZE(files)] = &copies[i];
	}
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		file = unwind_tables__pick_file(&tables);
		if (!file) {
			pr_debug("step %zu: no file instead of \"%s\"\n", step, files[i].name);
			return TEST_FAIL;
		}
		if (file != &copies[i]) {
			pr_debug("step %zu: \"%s\" instead of \"%s\"\n", step,
				 files[file - copies].name, files[i].name);
			return TEST_FAIL;
		}
		file->state = FILE_DONE;
		tables.nr_waiting--;
	}

	return unwind_tables__pick_file(&tables) ? TEST_FAIL : TEST_OK;
}

/* A service keeps its last worker for files without a table, and a session that is over, all. */
static int check_partial(bool serve, unsigned int nr_whole, bool over, bool expected)
{
	struct unwind_tables_file partial = { .is_partial = true, }, *found[] = { &partial };
	struct unwind_tables tables = {
		.opts.serve	= serve,
		.files		= found,
		.nr_files	= 1,
		.nr_waiting	= 1,
		.nr_workers	= 2,
		.nr_whole	= nr_whole,
		.over		= over,
	};

	if (!unwind_tables__pick_file(&tables) == !expected)
		return TEST_OK;

	pr_debug("serve %d, %u workers make whole tables, over %d: a partial table is %scompleted\n",
		 serve, nr_whole, over, expected ? "not " : "");
	return TEST_FAIL;
}

static int test__unwind_tables_order(struct test_suite *test __maybe_unused,
				     int subtest __maybe_unused)
{
	/* None of these has a factor in common with the number of files. */
	static const size_t steps[] = { 1, 2, 4, 5, 8 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		if (check_order(steps[i]))
			return TEST_FAIL;
	}
	if (check_partial(false, 0, false, true) || check_partial(false, 1, false, true) ||
	    check_partial(true, 0, false, true) || check_partial(true, 1, false, false) ||
	    check_partial(false, 0, true, false))
		return TEST_FAIL;

	return TEST_OK;
}
#else
static int test__unwind_tables_order(struct test_suite *test __maybe_unused,
				     int subtest __maybe_unused)
{
	return TEST_SKIP;
}
#endif

DEFINE_SUITE("Order of unwind tables", unwind_tables_order);
