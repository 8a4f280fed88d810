// SPDX-License-Identifier: GPL-2.0
/* SFrame tables from files that are damaged, or made to do harm */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/sizes.h>

#include "util/debug.h"
#include "util/sframe.h"
#include "util/sframe-table.h"
#include "tests.h"

#ifdef HAVE_DWARF_SUPPORT
#include <dwarf.h>
#include <elf.h>

#include "tests/sframe-cfi-image.h"
#include "util/sframe-cfi.h"

static int check_function(u64 start, u64 end, void *arg)
{
	u64 *last = arg;

	if (start < *last || end <= start)
		return -ERANGE;
	*last = end;
	return 0;
}

/* The bounds of functions must be sorted, and without overlaps. */
static int find_functions(int fd)
{
	u64 last = 0;

	return sframe_cfi__walk_functions(fd, check_function, &last);
}

static bool is_refused(int err)
{
	return err == -ENOEXEC || err == -EOPNOTSUPP || err == -ENODATA ||
	       err == -EFBIG || err == -EINVAL;
}

/* No file may crash perf. If perf makes a table, the table must be valid. */
static int build_damaged(int fd)
{
	struct sframe_check check = { };
	struct sframe_reader reader;
	struct sframe_table table;
	int err;

	err = sframe_table__build(&table, fd);
	if (!err)
		err = sframe_reader__init(&reader, table.data, table.size, 0) ?:
		      sframe_reader__check(&reader);
	else if (is_refused(err))
		err = 0;
	/*
	 * The table may differ from libdw, because the meaning of damaged CFI is
	 * undefined.
	 */
	if (!err)
		sframe_table__check(&table, fd, &check);
	if (check.same + check.signal + check.missing > check.described ||
	    check.code_described > check.code)
		err = -EINVAL;
	sframe_table__exit(&table);
	if (err)
		return err;

	err = find_functions(fd);
	return is_refused(err) ? 0 : err;
}

static int test__sframe_cfi_damaged(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	static const u8 flips[] = { 0x01, 0x10, 0x80, 0xff };
	int fd, ret = TEST_FAIL;
	struct image image;
	size_t i, flip;
	u8 byte;

	sframe_image__build(&image);
	fd = sframe_image__open(&image);
	TEST_ASSERT_VAL("file", fd >= 0);

	for (i = 0; i < image.size; i++) {
		for (flip = 0; flip < ARRAY_SIZE(flips); flip++) {
			byte = image.data[i] ^ flips[flip];
			if (pwrite(fd, &byte, 1, i) != 1 || build_damaged(fd)) {
				pr_debug("byte %zu as %#x\n", i, byte);
				goto out;
			}
		}
		if (pwrite(fd, &image.data[i], 1, i) != 1)
			goto out;
	}

	for (i = image.size; i-- > 0; ) {
		if (ftruncate(fd, i) || build_damaged(fd)) {
			pr_debug("cut at %zu\n", i);
			goto out;
		}
	}

	ret = TEST_OK;
out:
	close(fd);
	return ret;
}

#define HOLE		((off_t)SZ_1G)

#define SECTION		(~0U)

static const struct {
	const char	*what;
	/* Section that is as large as the hole, or SECTION for section headers */
	u32		section;
	int		ret;
} holes[] = {
	{ "CFI", 1, -EFBIG },
	{ "note", 2, 0 },
	{ "names", 3, -EFBIG },
	{ "section headers", SECTION, -EFBIG },
};

/* A hole costs nothing to create. It must not cost perf memory. */
static int test__sframe_cfi_holes(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct sframe_table table;
	struct image image;
	Elf64_Shdr *shdrs;
	Elf64_Ehdr *ehdr;
	long before, now;
	int fd, ret;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(holes); i++) {
		sframe_image__build(&image);
		ehdr = (void *)image.data;
		shdrs = (void *)image.data + ehdr->e_shoff;
		if (holes[i].section == SECTION) {
			shdrs[0].sh_size = HOLE / sizeof(*shdrs);
			ehdr->e_shnum = 0;
		} else {
			shdrs[holes[i].section].sh_size = HOLE;
		}

		fd = sframe_image__open(&image);
		TEST_ASSERT_VAL("file", fd >= 0);
		TEST_ASSERT_VAL("hole", !ftruncate(fd, 2 * HOLE));

		before = peak_memory();
		TEST_ASSERT_VAL("memory", before > 0);
		ret = sframe_table__build(&table, fd);
		close(fd);
		now = peak_memory();

		pr_debug("%s: %d, %ld KiB\n", holes[i].what, ret, now - before);
		TEST_ASSERT_EQUAL("result", ret, holes[i].ret);
		TEST_ASSERT_VAL("no more memory", now - before < MEMORY_MAX);
		if (!ret)
			ret = sframe_image__check_rules(&table);
		sframe_table__exit(&table);
		if (ret == TEST_FAIL)
			return ret;
	}

	return TEST_OK;
}

static const char * const hidings[] = {
	[HIDE_BY_INDEX]		= "index",
	[HIDE_BY_OVERLAP]	= "overlap",
	[HIDE_BEFORE_CODE]	= "before the code",
	[HIDE_BY_NUMBER]	= "long number",
};

static int test__sframe_cfi_hidden(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	struct sframe_table table;
	struct sframe_reader reader;
	struct sframe_rule rule;
	enum hiding hiding;
	struct image image;
	long before, now;
	char text[128];
	bool signal;
	int fd, ret;
	u64 end;

	for (hiding = 0; hiding < HIDE_NR; hiding++) {
		sframe_image__build_hidden(&image, hiding);
		fd = sframe_image__open(&image);
		TEST_ASSERT_VAL("file", fd >= 0);

		before = peak_memory();
		ret = sframe_table__build(&table, fd);
		close(fd);
		now = peak_memory();

		pr_debug("%s: %d, %ld KiB\n", hidings[hiding], ret, now - before);
		TEST_ASSERT_VAL("no more memory", now - before < MEMORY_MAX);
		if (hiding == HIDE_BY_NUMBER) {
			TEST_ASSERT_EQUAL("nothing to make a table of", ret, -ENODATA);
			continue;
		}

		TEST_ASSERT_VAL("build", !ret);
		end = ULLONG_MAX;
		ret = sframe_reader__init(&reader, table.data, table.size, 0) ?:
		      sframe_reader__find(&reader, TEXT + 0x10, &rule, &signal, &end);
		text[0] = '\0';
		if (!ret)
			sframe_rule__scnprintf(&rule, text, sizeof(text));
		sframe_table__exit(&table);
		pr_debug("%s: %d, %s\n", hidings[hiding], ret, text);
		TEST_ASSERT_VAL("the rule of the harmless FDE", !strcmp(text, HIDDEN_TEXT));
	}

	return TEST_OK;
}

#define NOPS_SIZE	SZ_8M
#define CIE_SIZE	24

/* Each function has a byte of code, and expressions of @len operations that do nothing. */
static size_t put_expressions(u8 *section, size_t at, u32 func, u32 len, unsigned int nr)
{
	const u32 size = 1;
	u8 *entry = section + at, *p = entry + 2 * sizeof(u32);
	u32 to_cie = at + sizeof(u32), pcrel = TEXT + func - (EH_FRAME + p - section);
	u32 entry_len;

	p = mempcpy(p, &pcrel, sizeof(pcrel));
	p = mempcpy(p, &size, sizeof(size));
	*p++ = 0;
	while (nr--) {
		*p++ = DW_CFA_def_cfa_expression;
		*p++ = len | 0x80;
		*p++ = len >> 7 | 0x80;
		*p++ = len >> 14 | 0x80;
		*p++ = len >> 21;
		memset(p, DW_OP_nop, len);
		p += len;
	}
	entry_len = p - entry - sizeof(u32);
	memcpy(entry, &entry_len, sizeof(u32));
	memcpy(entry + sizeof(u32), &to_cie, sizeof(u32));
	return at + sizeof(u32) + entry_len;
}

static int count_row(const struct sframe_cfi_row *row, void *arg)
{
	if (row->frame)
		++*(unsigned int *)arg;
	return 0;
}

/* Returns for how many of @funcs functions libdw is asked. */
static int count_expressions(unsigned int funcs, u32 len, unsigned int nr)
{
	struct sframe_cfi *cfi = NULL;
	unsigned int i, rows = 0;
	struct image image;
	Elf64_Shdr *shdrs;
	Elf64_Ehdr *ehdr;
	size_t size;
	u8 *section;
	int fd, ret;

	sframe_image__build(&image);
	ehdr = (void *)image.data;
	shdrs = (void *)image.data + ehdr->e_shoff;
	section = calloc(1, NOPS_SIZE + SZ_4K);
	if (!section)
		return -ENOMEM;
	memcpy(section, image.data + shdrs[1].sh_offset, CIE_SIZE);
	for (i = 0, size = CIE_SIZE; i < funcs; i++)
		size = put_expressions(section, size, i, len, nr);
	shdrs[1].sh_offset = sizeof(image.data);
	shdrs[1].sh_size = size;

	fd = sframe_image__open(&image);
	ret = fd >= 0 && pwrite(fd, section, size, sizeof(image.data)) == (ssize_t)size ?
		sframe_cfi__open(fd, &cfi) : -EIO;
	if (!ret)
		ret = sframe_cfi__read(cfi) ?: sframe_cfi__walk(cfi, count_row, &rows);
	if (cfi)
		sframe_cfi__delete(cfi);
	if (fd >= 0)
		close(fd);
	free(section);
	pr_debug("%u functions with %u expressions of %u bytes: %d, %u rows\n", funcs, nr, len,
		 ret, rows);
	return ret ?: (int)rows;
}

/* libdw needs much memory for long expressions, and for many. */
static int test__sframe_cfi_expressions(struct test_suite *test __maybe_unused,
					int subtest __maybe_unused)
{
	long before = peak_memory();
	int rows;

	TEST_ASSERT_EQUAL("a long expression", count_expressions(1, NOPS_SIZE - SZ_4K, 1), 0);
	pr_debug("%ld KiB\n", peak_memory() - before);
	TEST_ASSERT_VAL("no more memory", peak_memory() - before < MEMORY_MAX);

	TEST_ASSERT_EQUAL("the longest", count_expressions(1, 256, 1), 1);
	TEST_ASSERT_EQUAL("a longer one", count_expressions(1, 257, 1), 0);

	rows = count_expressions(TEXT_SIZE, 256, 7);
	TEST_ASSERT_VAL("many", rows > 1000 && rows < 2000);

	return TEST_OK;
}

/* More entries than the largest programs have; each is a copy of the first CIE. */
#define MANY_SIZE	SZ_64M

static int test__sframe_cfi_many(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	int fd, ret = TEST_FAIL;
	struct image image;
	Elf64_Shdr *shdrs;
	Elf64_Ehdr *ehdr;
	long before;
	u8 *entries;
	size_t i;
	u32 len;

	sframe_image__build(&image);
	fd = sframe_image__open(&image);
	TEST_ASSERT_VAL("file", fd >= 0);
	TEST_ASSERT_EQUAL("a file with few functions", find_functions(fd), 0);
	close(fd);

	entries = malloc(MANY_SIZE);
	TEST_ASSERT_VAL("memory", entries);
	ehdr = (void *)image.data;
	shdrs = (void *)image.data + ehdr->e_shoff;
	memcpy(&len, image.data + shdrs[1].sh_offset, sizeof(len));
	len += sizeof(len);
	for (i = 0; i + len <= MANY_SIZE; i += len)
		memcpy(entries + i, image.data + shdrs[1].sh_offset, len);
	shdrs[1].sh_offset = sizeof(image.data);
	shdrs[1].sh_size = i;

	fd = sframe_image__open(&image);
	if (fd < 0 || pwrite(fd, entries, i, sizeof(image.data)) != (ssize_t)i)
		goto out;
	before = peak_memory();
	if (find_functions(fd) != -EFBIG) {
		pr_debug("%zu entries are not too many\n", i / len);
		goto out;
	}
	/* The section, the limit of 96 MiB, and a copy when the array grows */
	pr_debug("%ld KiB\n", peak_memory() - before);
	if (peak_memory() - before < (MANY_SIZE >> 10) + (256 << 10))
		ret = TEST_OK;
out:
	close(fd);
	free(entries);
	return ret;
}

#else /* !HAVE_DWARF_SUPPORT */

static int test__sframe_cfi_damaged(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_holes(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_hidden(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_expressions(struct test_suite *test __maybe_unused,
					int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_many(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	return TEST_SKIP;
}

#endif /* HAVE_DWARF_SUPPORT */

static struct test_case tests__sframe_hostile[] = {
	TEST_CASE_REASON("Damaged files", sframe_cfi_damaged, "not built with libdw"),
	TEST_CASE_REASON("Files with holes", sframe_cfi_holes, "not built with libdw"),
	TEST_CASE_REASON("Hidden instructions", sframe_cfi_hidden, "not built with libdw"),
	TEST_CASE_REASON("Expressions", sframe_cfi_expressions, "not built with libdw"),
	TEST_CASE_REASON("Many functions", sframe_cfi_many, "not built with libdw"),
	{	.name = NULL, }
};

struct test_suite suite__sframe_hostile = {
	.desc = "SFrame tables from hostile files",
	.test_cases = tests__sframe_hostile,
};
