// SPDX-License-Identifier: GPL-2.0
/* Which files had an unwind table, and when. */
#include <errno.h>
#include <string.h>
#include <linux/compiler.h>
#include <linux/kernel.h>

#include "util/debug.h"
#include "util/unwind-coverage.h"
#include "tests.h"

#define END	(~0ULL)
#define FULL	UNWIND_COVERAGE_FULL
#define LATE	UNWIND_COVERAGE_LATE
#define NONE	UNWIND_COVERAGE_NONE

/* Two files with the same name, as in containers; one of them is replaced. */
#define LIB_A		{ .dev = 1, .ino = 10, }
#define LIB_A_GEN(g)	{ .dev = 1, .ino = 10, .gen = (g), }
#define LIB_B		{ .dev = 2, .ino = 10, }
#define LIB_C		{ .dev = 1, .ino = 11, }
#define PROGRAM		{ .dev = 1, .ino = 12, }
#define TEXT		{ .dev = 1, .ino = 13, }
#define UNKNOWN		{ .dev = 9, .ino = 9, }

static const struct {
	struct unwind_coverage_id	id;
	const char			*name;
	u64				time;
	bool				before;
	bool				is_covered;
} notes[] = {
	/* Has a table that comes late, */
	{ LIB_A_GEN(5), "/lib.so", 100, false, true },
	/* never has one, */
	{ LIB_B, "/lib.so", 110, false, false },
	/* has one, loses it and gets another one, */
	{ LIB_C, "/other.so", 50, false, true },
	{ LIB_C, "/other.so", 200, false, false },
	{ LIB_C, "/other.so", 300, false, true },
	/* the same again changes nothing, */
	{ LIB_C, "/other.so", 400, false, true },
	/* and a new file with the inode number of the first one has none. */
	{ LIB_A_GEN(6), "/lib.so", 500, false, false },
	/* No table can be made for this file. */
	{ TEXT, "/text", 600, true, true },
};

static const struct {
	struct unwind_coverage_id	id;
	u64				time;
	enum unwind_coverage_state	state;
} expectations[] = {
	{ LIB_A_GEN(5), 0, LATE },
	{ LIB_A_GEN(5), 99, LATE },
	{ LIB_A_GEN(5), 100, FULL },
	{ LIB_A_GEN(5), END, FULL },
	{ LIB_A_GEN(6), 0, NONE },
	{ LIB_A_GEN(6), END, NONE },
	/* If the generation is not known, the time decides. */
	{ LIB_A, 99, NONE },
	{ LIB_A, 100, FULL },
	{ LIB_A, 499, FULL },
	{ LIB_A, 500, NONE },
	{ LIB_B, 0, NONE },
	{ LIB_B, 110, NONE },
	{ LIB_B, END, NONE },
	{ LIB_C, 49, LATE },
	{ LIB_C, 50, FULL },
	{ LIB_C, 199, FULL },
	{ LIB_C, 200, LATE },
	{ LIB_C, 299, LATE },
	{ LIB_C, 300, FULL },
	{ LIB_C, END, FULL },
	{ TEXT, 0, FULL },
	{ TEXT, END, FULL },
	{ UNKNOWN, 0, FULL },
	{ UNKNOWN, END, FULL },
};

static void count_name(const char *name, void *arg)
{
	int *nr = arg;

	*nr += !strcmp(name, "/lib.so");
}

static int check_coverage(struct unwind_coverage *coverage)
{
	enum unwind_coverage_state state;
	int nr_names = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(notes); i++) {
		TEST_ASSERT_VAL("set", !unwind_coverage__set(coverage, &notes[i].id,
							     notes[i].name, notes[i].time,
							     notes[i].before,
							     notes[i].is_covered));
	}

	for (i = 0; i < ARRAY_SIZE(expectations); i++) {
		state = unwind_coverage__find(coverage, &expectations[i].id,
					      expectations[i].time);
		if (state == expectations[i].state)
			continue;
		pr_debug("expectation %zu: %d, not %d\n", i, state, expectations[i].state);
		return TEST_FAIL;
	}

	TEST_ASSERT_EQUAL("files without a table",
			  (int)unwind_coverage__walk_none(coverage, count_name, &nr_names), 2);
	TEST_ASSERT_EQUAL("their names", nr_names, 2);
	TEST_ASSERT_EQUAL("late files", (int)unwind_coverage__nr_late(coverage), 2);
	TEST_ASSERT_VAL("never full", !unwind_coverage__is_full(coverage, END));

	return TEST_OK;
}

static int test__unwind_coverage_times(struct test_suite *test __maybe_unused,
				       int subtest __maybe_unused)
{
	struct unwind_coverage *coverage = unwind_coverage__new();
	int ret;

	TEST_ASSERT_VAL("new", coverage);
	ret = check_coverage(coverage);
	unwind_coverage__delete(coverage);

	return ret;
}

static int check_copy(struct unwind_coverage *coverage)
{
	const struct unwind_coverage_id lib_a = LIB_A, lib_b = LIB_B, lib_c = LIB_C;
	const struct unwind_coverage_id program = PROGRAM, unknown = UNKNOWN;
	u64 time;

	TEST_ASSERT_VAL("empty", unwind_coverage__is_full(coverage, 0));
	TEST_ASSERT_VAL("set", !unwind_coverage__set(coverage, &program, "/program", 100, false,
						     true));
	TEST_ASSERT_VAL("not yet", !unwind_coverage__is_full(coverage, 99));
	TEST_ASSERT_VAL("then", unwind_coverage__is_full(coverage, 100));

	/* On an overlay, a program has its table before perf sees its mapping. */
	TEST_ASSERT_EQUAL("copy", unwind_coverage__copy(coverage, &lib_a, "/program", &program), 0);
	TEST_ASSERT_EQUAL("again", unwind_coverage__copy(coverage, &lib_a, "/program", &program),
			  -EEXIST);
	TEST_ASSERT_EQUAL("nothing", unwind_coverage__copy(coverage, &lib_b, "/program", &unknown),
			  -ENOENT);
	TEST_ASSERT_VAL("set", !unwind_coverage__set(coverage, &lib_a, "/program", 300, false,
						     true));
	TEST_ASSERT_EQUAL("before", unwind_coverage__find(coverage, &lib_a, 99), LATE);
	TEST_ASSERT_EQUAL("since", unwind_coverage__find(coverage, &lib_a, 100), FULL);
	TEST_ASSERT_VAL("none of the other", !unwind_coverage__has(coverage, &lib_b));

	/* A file that changes very often: its state at the end counts. */
	for (time = 1; time <= 1000; time++)
		TEST_ASSERT_VAL("set", !unwind_coverage__set(coverage, &lib_c, "/changes", time,
							     false, time & 1));
	TEST_ASSERT_EQUAL("first", unwind_coverage__find(coverage, &lib_c, 1), FULL);
	TEST_ASSERT_EQUAL("last", unwind_coverage__find(coverage, &lib_c, END), NONE);

	return TEST_OK;
}

static int test__unwind_coverage_copy(struct test_suite *test __maybe_unused,
				      int subtest __maybe_unused)
{
	struct unwind_coverage *coverage = unwind_coverage__new();
	int ret;

	TEST_ASSERT_VAL("new", coverage);
	ret = check_copy(coverage);
	unwind_coverage__delete(coverage);

	return ret;
}

static struct test_case tests__unwind_coverage[] = {
	TEST_CASE("Files and times", unwind_coverage_times),
	TEST_CASE("The same file, and many changes", unwind_coverage_copy),
	{	.name = NULL, }
};

struct test_suite suite__unwind_coverage = {
	.desc = "Coverage by unwind tables",
	.test_cases = tests__unwind_coverage,
};
