// SPDX-License-Identifier: GPL-2.0
/* SFrame tables from call frame information, and how they compare with it */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/compiler.h>
#include <linux/kernel.h>

#include "util/debug.h"
#include "util/sframe-cache.h"
#include "util/sframe-table.h"
#include "util/util.h"
#include "tests.h"

#ifdef HAVE_DWARF_SUPPORT
#include "tests/sframe-cfi-image.h"

static int test__sframe_cfi_rules(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct sframe_stats stats;
	struct sframe_table table;
	struct image image;
	int fd, ret;

	sframe_image__build(&image);
	fd = sframe_image__open(&image);
	TEST_ASSERT_VAL("file", fd >= 0);

	ret = sframe_table__build(&table, fd);
	close(fd);
	TEST_ASSERT_VAL("build", !ret);

	ret = sframe_image__check_rules(&table);

	stats = table.stats;
	stats.functions = 0;
	stats.rows = 0;
	if (memcmp(&stats, &sframe_image__stats, sizeof(stats))) {
		pr_debug("code %" PRIu64 " described %" PRIu64 " covered %" PRIu64
			 " flexible %" PRIu64 " blocks %" PRIu64 "\n", stats.code,
			 stats.described, stats.covered, stats.flex, stats.blocks);
		ret = TEST_FAIL;
	}
	if (table.bid.size != sizeof(sframe_image__build_id) ||
	    memcmp(table.bid.data, sframe_image__build_id, sizeof(sframe_image__build_id))) {
		pr_debug("wrong build-id\n");
		ret = TEST_FAIL;
	}

	sframe_table__exit(&table);
	return ret;
}

/* Compare a table that is made now with what the file describes. */
static int check_image(const struct image *image, const struct sframe_check *expected)
{
	struct sframe_check check = { };
	struct sframe_table table;
	int ret, fd = sframe_image__open(image);

	TEST_ASSERT_VAL("file", fd >= 0);

	ret = sframe_table__build(&table, fd);
	if (!ret || ret == -ENODATA)
		ret = sframe_table__check(&table, fd, &check);
	sframe_table__exit(&table);
	close(fd);

	pr_debug("%d: described %" PRIu64 " same %" PRIu64 " signal %" PRIu64 " missing %" PRIu64
		 " unread %" PRIu64 " unreadable %" PRIu64 "; %" PRIu64 " of %" PRIu64 "\n",
		 ret, check.described, check.same, check.signal, check.missing, check.unread,
		 check.unreadable, check.code_described, check.code);

	TEST_ASSERT_EQUAL("result", ret, 0);
	TEST_ASSERT_VAL("described", check.described == expected->described);
	TEST_ASSERT_VAL("same", check.same == expected->same);
	TEST_ASSERT_VAL("signal", check.signal == expected->signal);
	TEST_ASSERT_VAL("missing", check.missing == expected->missing);
	TEST_ASSERT_VAL("unread", check.unread == expected->unread);
	TEST_ASSERT_VAL("unreadable", check.unreadable == expected->unreadable);
	TEST_ASSERT_VAL("different", !check.different && !check.extra);
	TEST_ASSERT_VAL("code", check.code == expected->code);
	TEST_ASSERT_VAL("code described", check.code_described == expected->code_described);

	return TEST_OK;
}

/* Code whose CFI is not passed to libdw must be counted, too. */
static int test__sframe_cfi_check(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	/* One FDE has a huge register number. Most of the code has no FDE. */
	const struct sframe_check of_rules = {
		.code		= TEXT_SIZE,
		.code_described	= 0x120,
		.described	= 0x120,
		.same		= 0x120 - 8 - 8 - 16 - 16 - 16,
		.signal		= 16,
		.missing	= 8 + 8 + 16 + 16,
		.unread		= 16,
	};
	const struct sframe_check of_unread = {
		.code		= UNREAD_CODE_SIZE,
		.code_described	= 0x20 + 0x40 + 0x08 + 0x04 + 0x01,
		.described	= 0x20 + 0x40 + 0x08 + 0x04 + 0x01 + 0x100,
		.same		= 0x10 + 0x10,
		.missing	= 0x10 + 0x30 + 0x08 + 0x04 + 0x01 + 0x100,
		.unread		= 0x10 + 0x30 + 0x08 + 0x04 + 0x01 + 0x100,
		.unreadable	= 2,
	};
	/* No table can be made of it. */
	const struct sframe_check of_hidden = {
		.code		= TEXT_SIZE,
		.code_described	= 0x10,
		.described	= 0x10,
		.missing	= 0x10,
		.unread		= 0x10,
	};
	struct image image;
	int ret;

	sframe_image__build(&image);
	ret = check_image(&image, &of_rules);
	if (ret)
		return ret;

	sframe_image__build_unread(&image);
	ret = check_image(&image, &of_unread);
	if (ret)
		return ret;

	sframe_image__build_hidden(&image, HIDE_BY_NUMBER);
	return check_image(&image, &of_hidden);
}

/* Get the table of @fd: is it from the cache, and is it partial? */
static bool is_got(int fd, bool may_be_partial, bool cached, bool partial)
{
	struct sframe_table table;
	int err;

	err = sframe_table__get(&table, fd, SFRAME_CACHE_USE, may_be_partial, NULL, NULL);
	pr_debug("%d%s%s%s\n", err, table.cached ? " cached" : "",
		 table.partial ? " partial" : "", table.stored ? " stored" : "");
	sframe_table__exit(&table);

	return !err && table.cached == cached && table.partial == partial &&
	       table.stored != cached;
}

/* A copy of a file with a table gets this table, which then knows the copy, too. */
static bool is_got_same_code(int fd)
{
	struct sframe_table table;
	int err = sframe_table__get(&table, fd, SFRAME_CACHE_USE, false, NULL, NULL);
	bool ret = !err && table.cached;

	sframe_table__exit(&table);
	return ret;
}

/* Another process had no table when it began, and comes to its end now. */
static bool is_stored_late(int fd, bool partial)
{
	char saved[PATH_MAX];
	struct sframe_table table;
	int err;

	scnprintf(saved, sizeof(saved), "%s", buildid_dir);
	scnprintf(buildid_dir, PATH_MAX, "/nonexistent");
	err = sframe_table__get(&table, fd, SFRAME_CACHE_KEEP, partial, NULL, NULL);
	scnprintf(buildid_dir, PATH_MAX, "%s", saved);
	if (!err && table.partial == partial)
		err = sframe_cache__store(&table);
	else
		err = err ?: -EINVAL;
	sframe_table__exit(&table);

	return !err;
}

static bool are_partial_tables_kept(int fd, const char *dir)
{
	char other[PATH_MAX];

	scnprintf(buildid_dir, PATH_MAX, "%s/a", dir);
	sframe_cache_system = buildid_dir;

	/* The cache gets the partial table, until somebody makes the whole one. */
	if (!is_got(fd, true, false, true) || !is_got(fd, true, true, true) ||
	    !is_got(fd, false, false, false) || !is_got(fd, true, true, false) ||
	    !is_got(fd, false, true, false))
		return false;

	/* It does not replace the whole one. */
	if (!is_stored_late(fd, true) || !is_got(fd, true, true, false))
		return false;

	/* That of the system has the whole one. */
	scnprintf(other, sizeof(other), "%s/a", dir);
	scnprintf(buildid_dir, PATH_MAX, "%s/b", dir);
	sframe_cache_system = "/nonexistent";
	if (!is_got(fd, true, false, true))
		return false;
	sframe_cache_system = other;
	return is_got(fd, true, true, false);
}

/* Returns a copy of the file @fd, with other @data at @off. */
static int change_copy(int fd, off_t off, const void *data, size_t size)
{
	char buf[BUFSIZ];
	ssize_t len;
	off_t at = 0;
	int copy = memfd_create("other", MFD_CLOEXEC);

	while (copy >= 0 && (len = pread(fd, buf, sizeof(buf), at)) > 0) {
		if (pwrite(copy, buf, len, at) != len)
			break;
		at += len;
	}
	if (copy >= 0 && pwrite(copy, data, size, off) != (ssize_t)size) {
		close(copy);
		copy = -1;
	}

	return copy;
}

/* Files with the same build-id, but other code or other CFI, have tables of their own. */
static bool are_other_files_told_apart(int fd, const char *dir)
{
	const u8 code = 0xc3;
	struct sframe_table table;
	Elf64_Phdr phdr;
	Elf64_Ehdr ehdr;
	int other;
	bool ret;

	scnprintf(buildid_dir, PATH_MAX, "%s/c", dir);
	sframe_cache_system = buildid_dir;

	/* Code without CFI that gives no rules, and code that could */
	other = change_copy(fd, TEXT_SIZE - 1, &code, sizeof(code));
	ret = other >= 0 && is_got(fd, false, false, false) && is_got(fd, false, true, false) &&
	      is_got(other, false, false, false) && is_got(other, false, true, false);
	close(other);
	if (!ret)
		return false;

	/* With other CFI. SFRAME_CACHE_KEEP does not remove the table in the cache. */
	if (pread(fd, &ehdr, sizeof(ehdr), 0) != sizeof(ehdr) ||
	    pread(fd, &phdr, sizeof(phdr), ehdr.e_phoff) != sizeof(phdr))
		return false;
	phdr.p_filesz -= 16;
	other = change_copy(fd, ehdr.e_phoff, &phdr, sizeof(phdr));
	ret = other >= 0 &&
	      !sframe_table__get(&table, other, SFRAME_CACHE_KEEP, false, NULL, NULL);
	if (ret) {
		ret = !table.cached;
		sframe_table__exit(&table);
	}
	close(other);
	/* It is still that of the file with other code. */
	other = change_copy(fd, TEXT_SIZE - 1, &code, sizeof(code));
	ret = ret && other >= 0 && is_got_same_code(other);
	close(other);

	return ret;
}

/* A table without the rules that take long to make is of use to the next session. */
static int test__sframe_cfi_partial(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	char dir[] = "/tmp/perf-sframe-cache-XXXXXX", saved[PATH_MAX];
	const Elf64_Shdr text = {
		.sh_type	= SHT_PROGBITS,
		.sh_flags	= SHF_ALLOC | SHF_EXECINSTR,
		.sh_addr	= TEXT,
		.sh_size	= TEXT_SIZE,
	};
	const char *saved_system = sframe_cache_system;
	bool kept, told_apart;
	struct image image;
	Elf64_Ehdr *ehdr;
	int fd;

	/* The whole file is a section of code, the last one. */
	sframe_image__build(&image);
	TEST_ASSERT_VAL("room", image.size + sizeof(text) <= sizeof(image.data));
	ehdr = (void *)image.data;
	ehdr->e_shnum++;
	memcpy(image.data + image.size, &text, sizeof(text));
	image.size += sizeof(text);
	fd = sframe_image__open(&image);
	TEST_ASSERT_VAL("file", fd >= 0);
	TEST_ASSERT_VAL("code", !ftruncate(fd, TEXT_SIZE));
	TEST_ASSERT_VAL("directory", mkdtemp(dir));

	scnprintf(saved, sizeof(saved), "%s", buildid_dir);
	kept = are_partial_tables_kept(fd, dir);
	told_apart = are_other_files_told_apart(fd, dir);
	scnprintf(buildid_dir, PATH_MAX, "%s", saved);
	sframe_cache_system = saved_system;

	rm_rf(dir);
	close(fd);
	TEST_ASSERT_VAL("partial tables in the cache", kept);
	TEST_ASSERT_VAL("other files with the same build-id", told_apart);

	return TEST_OK;
}

#else /* !HAVE_DWARF_SUPPORT */

static int test__sframe_cfi_rules(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_check(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_partial(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	return TEST_SKIP;
}

#endif /* HAVE_DWARF_SUPPORT */

static struct test_case tests__sframe_cfi[] = {
	TEST_CASE_REASON("Rules", sframe_cfi_rules, "not built with libdw"),
	TEST_CASE_REASON("Comparison with the file", sframe_cfi_check, "not built with libdw"),
	TEST_CASE_REASON("Partial tables", sframe_cfi_partial, "not built with libdw"),
	{	.name = NULL, }
};

struct test_suite suite__sframe_cfi = {
	.desc = "SFrame tables from call frame information",
	.test_cases = tests__sframe_cfi,
};
