// SPDX-License-Identifier: GPL-2.0
/*
 * perf sframe: SFrame tables for programs and libraries without an SFrame section
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <internal/lib.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <subcmd/pager.h>
#include <subcmd/parse-options.h>

#include "builtin.h"
#include "util/array-grow.h"
#include "util/debug.h"
#include "util/mutex.h"
#include "util/regular-file.h"
#include "util/sframe.h"
#include "util/sframe-cache.h"
#include "util/sframe-parallel.h"
#include "util/sframe-table.h"
#include "util/units.h"

#define SECONDS_PER_DAY	(24 * 60 * 60)

static double percent(u64 part, u64 whole)
{
	return whole ? 100.0 * part / whole : 100.0;
}

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / (double)NSEC_PER_SEC;
}

static int read_file(const char *path, void **data, size_t *size)
{
	int fd = regular_file__open(path), err = 0;
	struct stat st;
	void *buf;

	if (fd < 0)
		return fd;

	if (fstat(fd, &st))
		err = -errno;
	else if (!st.st_size)
		err = -EINVAL;
	else if (st.st_size > SFRAME_SIZE_MAX)
		err = -EFBIG;
	if (err)
		goto out;

	buf = malloc(st.st_size);
	if (!buf) {
		err = -ENOMEM;
	} else if (readn(fd, buf, st.st_size) != st.st_size) {
		free(buf);
		err = -EIO;
	} else {
		*data = buf;
		*size = st.st_size;
	}
out:
	close(fd);
	return err;
}

/**
 * struct sframe_file - A file to process
 * @path:	Its path
 * @found:	It was found in a directory, so it need not be a program
 */
struct sframe_file {
	char	*path;
	bool	found;
};

static struct {
	struct sframe_file	*files;
	size_t			nr;
	size_t			room;
	/* Number of arguments and files that cannot be listed; each was reported. */
	size_t			unlisted;
} all_files;

static int add_file(const char *path, bool found)
{
	void *new;

	new = array__grow(all_files.files, all_files.nr, &all_files.room,
			  sizeof(*all_files.files));
	if (!new)
		return -ENOMEM;
	all_files.files = new;

	all_files.files[all_files.nr].path = strdup(path);
	if (!all_files.files[all_files.nr].path)
		return -ENOMEM;
	all_files.files[all_files.nr++].found = found;

	return 0;
}

static int add_found(const char *path, const struct stat *st, int type,
		     struct FTW *ftw __maybe_unused)
{
	if (type == FTW_DNR || type == FTW_NS) {
		pr_err("%s: cannot be read\n", path);
		all_files.unlisted++;
	}
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;

	return add_file(path, true);
}

static int add_directory(const char *path)
{
	const int max_fds = 16;
	char *real_path;
	int err;

	/* With FTW_PHYS nftw() follows no link, so resolve the argument first. */
	real_path = realpath(path, NULL);
	if (!real_path)
		return -errno;

	err = nftw(real_path, add_found, max_fds, FTW_PHYS);
	if (err == -1)
		err = -errno;
	free(real_path);

	return err;
}

/*
 * Collects all files that the user named, and all files below the directories that
 * the user named. If one of them cannot be listed, the others are still used.
 */
static int collect_files(int argc, const char **argv)
{
	size_t nr, unlisted;
	struct stat st;
	char buf[128];
	int i, err;

	for (i = 0; i < argc; i++) {
		nr = all_files.nr;
		unlisted = all_files.unlisted;
		if (!stat(argv[i], &st) && S_ISDIR(st.st_mode))
			err = add_directory(argv[i]);
		else
			err = add_file(argv[i], false);
		if (err) {
			pr_err("%s: %s\n", argv[i], str_error_r(-err, buf, sizeof(buf)));
			return -1;
		}
		if (all_files.nr == nr && all_files.unlisted == unlisted) {
			pr_err("%s: no files in this directory\n", argv[i]);
			all_files.unlisted++;
		}
	}

	return all_files.nr ? 0 : -1;
}

static void free_files(void)
{
	size_t i;

	for (i = 0; i < all_files.nr; i++)
		zfree(&all_files.files[i].path);
	zfree(&all_files.files);
	all_files.nr = 0;
	all_files.room = 0;
	all_files.unlisted = 0;
}

/**
 * struct sframe_totals - Results for all files together
 * @lock:	Protects all members that threads write
 * @progress:	Show the progress
 * @done:	Number of files that were processed
 * @built:	Number of tables that were made
 * @cached:	Number of tables that were in the cache
 * @skipped:	Number of files in directories that no table can be made for
 * @failed:	Number of files that should have a table but have none
 * @size:	Size of all tables, in bytes
 * @stats:	Sum of the statistics of all tables
 * @check:	Sum of the comparisons of all tables
 * @stored:	Tables were put into the cache
 * @out:	Output file for the only table, or NULL
 * @force:	Do not look into the cache
 * @table:	Compare this table, or NULL
 */
struct sframe_totals {
	/* Protects all members that threads write. */
	struct mutex		lock;
	bool			progress;
	size_t			done;
	size_t			built;
	size_t			cached;
	size_t			skipped;
	size_t			failed;
	u64			size;
	struct sframe_stats	stats;
	struct sframe_check	check;
	bool			stored;
	const char		*out;
	bool			force;
	const char		*table;
};

static void show_progress(struct sframe_totals *totals)
{
	const size_t step = 16;

	if (totals->progress && (totals->done % step == 0 || totals->done == all_files.nr))
		fprintf(stderr, "\r%zu of %zu files%s", totals->done, all_files.nr,
			totals->done == all_files.nr ? "\n" : "");
}

/* The caller holds the lock of @totals. */
static void report_error(struct sframe_totals *totals, const struct sframe_file *file, int err)
{
	char buf[128];

	/* Most files in a directory are not programs or libraries. */
	if (file->found && (err == -ENOEXEC || err == -EOPNOTSUPP || err == -ENODATA)) {
		totals->skipped++;
		pr_debug("%s: %s\n", file->path, sframe_table__strerror(err, buf, sizeof(buf)));
		return;
	}

	totals->failed++;
	pr_err("%s: %s\n", file->path, sframe_table__strerror(err, buf, sizeof(buf)));
}

static int write_table(const char *path, const struct sframe_table *table)
{
	int fd, err = 0;

	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (writen(fd, table->data, table->size) != (ssize_t)table->size)
		err = -errno ?: -EIO;
	if (close(fd) && !err)
		err = -errno;

	return err;
}

static void print_stats(const struct sframe_stats *stats)
{
	unsigned int i;

	printf("covers %.3f%% of %" PRIu64 " described bytes (code %" PRIu64 ", flexible %" PRIu64
	       ", derived %" PRIu64 ", blocks %" PRIu64,
	       percent(stats->covered, stats->described), stats->described, stats->code,
	       stats->flex, stats->derived, stats->blocks);
	for (i = 0; i < SFRAME_LOST_NR; i++) {
		if (stats->lost[i])
			printf(", no %s %" PRIu64, sframe_lost_names[i], stats->lost[i]);
	}
	printf(")");
}

static void add_stats(struct sframe_totals *totals, const struct sframe_table *table)
{
	unsigned int i;

	totals->size		+= table->size;
	totals->stats.code	+= table->stats.code;
	totals->stats.described	+= table->stats.described;
	totals->stats.covered	+= table->stats.covered;
	totals->stats.flex	+= table->stats.flex;
	totals->stats.blocks	+= table->stats.blocks;
	totals->stats.derived	+= table->stats.derived;
	for (i = 0; i < SFRAME_LOST_NR; i++)
		totals->stats.lost[i] += table->stats.lost[i];
}

static void build_file(size_t index, void *arg)
{
	const struct sframe_file *file = &all_files.files[index];
	struct sframe_totals *totals = arg;
	struct sframe_table table = { };
	double start = seconds_now();
	int fd, err;

	fd = regular_file__open(file->path);
	if (fd < 0)
		err = fd;
	else if (totals->out || totals->force)
		err = sframe_table__build(&table, fd);
	else
		err = sframe_table__get(&table, fd, SFRAME_CACHE_USE, false, NULL, NULL);

	if (!err && totals->out)
		err = write_table(totals->out, &table);
	else if (!err && totals->force && table.bid.size)
		err = sframe_cache__store(&table);
	if (!err && totals->force && table.bid.size)
		table.stored = true;

	mutex_lock(&totals->lock);
	if (err) {
		report_error(totals, file, err);
	} else {
		if (table.cached)
			totals->cached++;
		else
			totals->built++;
		totals->stored |= table.stored;
		add_stats(totals, &table);
		if (verbose > 0 || totals->out) {
			printf("%s: %zu bytes, %u functions, %u rows, ", file->path, table.size,
			       table.stats.functions, table.stats.rows);
			print_stats(&table.stats);
			printf(", %.1f ms%s\n", (seconds_now() - start) * MSEC_PER_SEC,
			       table.cached ? ", cached" : "");
		}
	}
	totals->done++;
	show_progress(totals);
	mutex_unlock(&totals->lock);

	sframe_table__exit(&table);
	if (fd >= 0)
		close(fd);
}

static int cmd_sframe_build(int argc, const char **argv)
{
	struct sframe_totals totals = { };
	unsigned int jobs = 0;
	double start;
	int ret;
	const struct option options[] = {
	OPT_STRING('o', "output", &totals.out, "file",
		   "write the table to this file, not into the cache; takes exactly one file"),
	OPT_BOOLEAN('f', "force", &totals.force, "make tables even if they are in the cache"),
	OPT_UINTEGER('j', "jobs", &jobs, "number of files at a time (default: number of CPUs)"),
	OPT_INCR('v', "verbose", &verbose, "print a line for each table"),
	OPT_END()
	};
	static const char * const usage[] = {
		"perf sframe build [<options>] <file or directory>...",
		NULL
	};

	argc = parse_options(argc, argv, options, usage, 0);
	if (!argc)
		usage_with_options(usage, options);

	if (collect_files(argc, argv))
		goto out_error;
	if (totals.out && (all_files.nr != 1 || all_files.files[0].found)) {
		pr_err("--output takes exactly one file\n");
		goto out_error;
	}

	mutex_init(&totals.lock);
	totals.progress = all_files.nr > 1 && verbose <= 0 && isatty(STDERR_FILENO);
	start = seconds_now();
	sframe_parallel__run(all_files.nr, jobs, build_file, &totals);
	mutex_destroy(&totals.lock);
	if (totals.stored)
		sframe_cache__limit();

	if (!totals.out && (all_files.nr > 1 || !totals.failed)) {
		printf("%zu files: %zu tables made, %zu in the cache, %zu skipped, %zu failed\n",
		       all_files.nr, totals.built, totals.cached, totals.skipped, totals.failed);
		printf("%.1f MB, %.1f s; ", totals.size / 1e6, seconds_now() - start);
		print_stats(&totals.stats);
		printf("\n");
	}

	ret = totals.failed || all_files.unlisted ? -1 : 0;
	free_files();
	return ret;

out_error:
	free_files();
	return -1;
}

static void print_check(const struct sframe_check *check)
{
	printf("%" PRIu64 " bytes described, %.3f%% same, signal %" PRIu64 ", missing %" PRIu64
	       ", different %" PRIu64 ", extra %" PRIu64 ", unread %" PRIu64, check->described,
	       percent(check->same, check->described), check->signal, check->missing,
	       check->different, check->extra, check->unread);
	if (check->unreadable)
		printf(", unreadable FDEs %" PRIu64, check->unreadable);
	printf("; %.3f%% of %" PRIu64 " executable bytes described",
	       percent(check->code_described, check->code), check->code);
	if (check->derived)
		printf(", %.3f%% derived", percent(check->derived, check->code));
	if (check->compare_insns)
		printf("; instructions: %" PRIu64 " agree, %" PRIu64 " differ, %" PRIu64 " open",
		       check->insns_same, check->insns_other, check->insns_open);
	printf("\n");
}

/* What code without CFI consists of, if the instructions of the file were looked at */
static void print_code(const struct sframe_check *check, const struct sframe_insn_stats *stats)
{
	static const char * const kinds[SFRAME_INSN_NR_KINDS] = {
		[SFRAME_INSN_LEAF]	= "no frame",
		[SFRAME_INSN_RSP]	= "rsp",
		[SFRAME_INSN_RBP]	= "rbp",
		[SFRAME_INSN_REG]	= "other registers",
		[SFRAME_INSN_SLOT]	= "memory",
	};
	static const char * const reasons[SFRAME_INSN_NR_VERDICTS] = {
		[SFRAME_INSN_UNREACHED]	 = "not reached",
		[SFRAME_INSN_CONFLICT]	 = "different ways to it",
		[SFRAME_INSN_BAD_DECODE] = "not decoded",
		[SFRAME_INSN_BAD_JUMP]	 = "unknown jump",
		[SFRAME_INSN_UNBALANCED] = "stack not restored",
		[SFRAME_INSN_BUDGET]	 = "out of time",
	};
	const char *sep = "";
	unsigned int i;
	u64 code, rules;

	if (!stats->code)
		return;

	code = check->code - min(check->code, stats->padding + stats->data);
	rules = check->code_described + check->derived;
	printf("    %.3f%% of %" PRIu64 " bytes that are neither padding nor data",
	       percent(min(rules, code), code), code);
	printf(" described or derived\n");
	printf("    not described: padding %" PRIu64 ", data %" PRIu64 "; derived, CFA by: ",
	       stats->padding, stats->data);
	for (i = 0; i < SFRAME_INSN_NR_KINDS; i++, sep = ", ")
		printf("%s%s %" PRIu64, sep, kinds[i], stats->kind[i]);
	sep = "; no rule, because: ";
	for (i = 0; i < SFRAME_INSN_NR_VERDICTS; i++) {
		if (!reasons[i] || !stats->without[i])
			continue;
		printf("%s%s %" PRIu64, sep, reasons[i], stats->without[i]);
		sep = ", ";
	}
	printf("\n");
}

static void add_code(struct sframe_insn_stats *to, const struct sframe_insn_stats *stats)
{
	unsigned int i;

	to->code	+= stats->code;
	to->padding	+= stats->padding;
	to->data	+= stats->data;
	for (i = 0; i < SFRAME_INSN_NR_KINDS; i++)
		to->kind[i] += stats->kind[i];
	for (i = 0; i < SFRAME_INSN_NR_VERDICTS; i++)
		to->without[i] += stats->without[i];
}

static void check_file(size_t index, void *arg)
{
	const struct sframe_file *file = &all_files.files[index];
	struct sframe_totals *totals = arg;
	struct sframe_check check = {
		.max = totals->check.max, .compare_insns = totals->check.compare_insns,
	};
	struct sframe_table table = { };
	char *text = NULL;
	size_t text_size;
	int fd, err;

	if (check.max)
		check.log = open_memstream(&text, &text_size);

	fd = regular_file__open(file->path);
	if (fd < 0)
		err = fd;
	else if (totals->table)
		err = read_file(totals->table, &table.data, &table.size);
	else
		err = sframe_table__build(&table, fd);
	/* Without a table all code that the file describes is missing. */
	if (!err || err == -ENODATA)
		err = sframe_table__check(&table, fd, &check);
	if (check.log)
		fclose(check.log);

	mutex_lock(&totals->lock);
	if (err) {
		report_error(totals, file, err);
	} else {
		totals->check.code	+= check.code;
		totals->check.code_described += check.code_described;
		totals->check.described	+= check.described;
		totals->check.same	+= check.same;
		totals->check.signal	+= check.signal;
		totals->check.missing	+= check.missing;
		totals->check.different	+= check.different;
		totals->check.extra	+= check.extra;
		totals->check.derived	+= check.derived;
		totals->check.insns_same += check.insns_same;
		totals->check.insns_other += check.insns_other;
		totals->check.insns_open += check.insns_open;
		add_code(&totals->stats.insn, &table.stats.insn);
		totals->check.unread	+= check.unread;
		totals->check.unreadable += check.unreadable;
		if (!file->found || verbose > 0 || check.different || check.extra) {
			printf("%s: ", file->path);
			print_check(&check);
			print_code(&check, &table.stats.insn);
			printf("%s", text ?: "");
		}
	}
	totals->done++;
	show_progress(totals);
	mutex_unlock(&totals->lock);

	free(text);
	sframe_table__exit(&table);
	if (fd >= 0)
		close(fd);
}

static int cmd_sframe_check(int argc, const char **argv)
{
	struct sframe_totals totals = { };
	unsigned int jobs = 0;
	int ret = -1;
	const struct option options[] = {
	OPT_STRING('t', "table", &totals.table, "file",
		   "check this table instead of making one; takes exactly one file"),
	OPT_BOOLEAN('i', "instructions", &totals.check.compare_insns,
		    "compare call frame information with instructions, too"),
	OPT_UINTEGER('n', "differences", &totals.check.max,
		     "number of differences to print for each file"),
	OPT_UINTEGER('j', "jobs", &jobs, "number of files at a time (default: number of CPUs)"),
	OPT_INCR('v', "verbose", &verbose, "print a line for each file in a directory"),
	OPT_END()
	};
	static const char * const usage[] = {
		"perf sframe check [<options>] <file or directory>...",
		NULL
	};

	argc = parse_options(argc, argv, options, usage, 0);
	if (!argc)
		usage_with_options(usage, options);

	if (collect_files(argc, argv))
		goto out;
	if (totals.table && (all_files.nr != 1 || all_files.files[0].found)) {
		pr_err("--table takes exactly one file\n");
		goto out;
	}

	mutex_init(&totals.lock);
	totals.progress = all_files.nr > 1 && verbose <= 0 && isatty(STDERR_FILENO);
	sframe_parallel__run(all_files.nr, jobs, check_file, &totals);
	mutex_destroy(&totals.lock);

	if (all_files.nr > 1) {
		printf("%zu files, %zu skipped, %zu failed: ", all_files.nr, totals.skipped,
		       totals.failed);
		print_check(&totals.check);
		print_code(&totals.check, &totals.stats.insn);
	}

	ret = totals.failed || all_files.unlisted || totals.check.different ||
	      totals.check.extra ? -1 : 0;
out:
	free_files();
	return ret;
}

/* Finds the file's own section by its program header, like the kernel. */
static int find_section(int fd, void **data, size_t *size, u64 *base)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;
	unsigned int i;
	void *buf;

	if (pread(fd, &ehdr, sizeof(ehdr), 0) != sizeof(ehdr) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) ||
	    ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    ehdr.e_phentsize != sizeof(phdr))
		return -ENOENT;

	for (i = 0; i < ehdr.e_phnum; i++) {
		if (pread(fd, &phdr, sizeof(phdr), ehdr.e_phoff + i * sizeof(phdr)) !=
		    sizeof(phdr))
			return -EINVAL;
		if (phdr.p_type == PT_GNU_SFRAME && phdr.p_filesz)
			break;
	}
	if (i == ehdr.e_phnum)
		return -ENOENT;
	if (phdr.p_filesz > SFRAME_SIZE_MAX)
		return -EFBIG;

	buf = malloc(phdr.p_filesz);
	if (!buf)
		return -ENOMEM;
	if (pread(fd, buf, phdr.p_filesz, phdr.p_offset) != (ssize_t)phdr.p_filesz) {
		free(buf);
		return -EINVAL;
	}

	*data = buf;
	*size = phdr.p_filesz;
	*base = phdr.p_vaddr;
	return 0;
}

/* The magic number identifies a table. */
static bool is_table(int fd)
{
	u8 magic[sizeof(u16)];

	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       (magic[0] | magic[1] << 8) == SFRAME_MAGIC;
}

static int show_file(const char *path, bool generate)
{
	struct sframe_table table = { };
	struct sframe_reader reader;
	const char *what = "table";
	u64 base = 0;
	char buf[128];
	int fd, err;

	fd = regular_file__open(path);
	if (fd < 0) {
		pr_err("%s: %s\n", path, sframe_table__strerror(fd, buf, sizeof(buf)));
		return -1;
	}

	if (is_table(fd)) {
		err = read_file(path, &table.data, &table.size);
	} else {
		err = generate ? -ENOENT : find_section(fd, &table.data, &table.size, &base);
		if (!err) {
			what = "section";
		} else if (err == -ENOENT) {
			what = "table made from its call frame information";
			err = sframe_table__build(&table, fd);
		}
	}
	if (err)
		goto out;

	err = sframe_reader__init(&reader, table.data, table.size, base);
	if (err == -EOPNOTSUPP) {
		pr_err("%s: unsupported SFrame version, machine or byte order\n", path);
		err = -1;
		goto out_silent;
	}
	if (err)
		goto out;

	printf("%s: %s\n", path, what);
	err = sframe_reader__fprintf(&reader, stdout);
out:
	if (err)
		pr_err("%s: %s\n", path, sframe_table__strerror(err, buf, sizeof(buf)));
out_silent:
	sframe_table__exit(&table);
	close(fd);
	return err ? -1 : 0;
}

static int cmd_sframe_show(int argc, const char **argv)
{
	bool generate = false;
	int i, ret = 0;
	const struct option options[] = {
	OPT_BOOLEAN('g', "generate", &generate,
		    "show the table that perf would make, even if the file has a section"),
	OPT_END()
	};
	static const char * const usage[] = {
		"perf sframe show [<options>] <file>...",
		NULL
	};

	argc = parse_options(argc, argv, options, usage, 0);
	if (!argc)
		usage_with_options(usage, options);

	setup_pager();

	for (i = 0; i < argc; i++)
		ret |= show_file(argv[i], generate);

	return ret;
}

struct sframe_cache_sum {
	bool	list;
	u64	nr;
	u64	size;
	u64	nr_stale;
};

static int sum_entry(const struct sframe_cache_entry *entry, void *arg)
{
	struct sframe_cache_sum *sum = arg;
	struct tm tm;
	char used[32];

	sum->nr++;
	sum->size += entry->size;
	sum->nr_stale += !entry->valid;

	if (!sum->list)
		return 0;

	/* The time of a file may be out of the range of localtime_r(). */
	if (!localtime_r(&entry->used, &tm) ||
	    !strftime(used, sizeof(used), "%Y-%m-%d", &tm))
		scnprintf(used, sizeof(used), "-");
	printf("%-40s %10" PRIu64 " %s ", entry->sbuild_id, entry->size, used);
	if (entry->valid)
		printf("%7.3f%%\n", percent(entry->stats.covered, entry->stats.described));
	else
		printf("   stale\n");

	return 0;
}

static int cmd_sframe_cache(int argc, const char **argv)
{
	struct sframe_cache_prune prune = { .max_size = ULLONG_MAX };
	struct sframe_cache_sum sum = { };
	unsigned int older = UINT_MAX;
	const char *max_size = NULL;
	const struct option options[] = {
	OPT_UINTEGER(0, "older", &older, "prune: remove tables not used for this many days"),
	OPT_STRING(0, "max-size", &max_size, "size[BKMG]",
		   "prune: remove the least recently used tables, down to this size"),
	OPT_INCR('v', "verbose", &verbose, "print debug messages"),
	OPT_END()
	};
	static const char * const usage[] = {
		"perf sframe cache list",
		"perf sframe cache size",
		"perf sframe cache prune [--older <days>] [--max-size <size>]",
		NULL
	};
	const char *what;
	char buf[128];
	int err;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc > 1)
		usage_with_options(usage, options);
	what = argc ? argv[0] : "list";

	if (!strcmp(what, "list") || !strcmp(what, "size")) {
		sum.list = !strcmp(what, "list");
		err = sframe_cache__for_each(sum_entry, &sum);
		if (!err)
			printf("%" PRIu64 " tables, %" PRIu64 " bytes, %" PRIu64 " stale, in %s\n",
			       sum.nr, sum.size, sum.nr_stale, buildid_dir);
	} else if (!strcmp(what, "prune")) {
		if (max_size) {
			if (sframe_cache__parse_size(max_size, &prune.max_size)) {
				pr_err("--max-size takes a number and one of B, K, M, G\n");
				return -1;
			}
		}
		if (older != UINT_MAX)
			prune.before = time(NULL) - (time_t)older * SECONDS_PER_DAY;
		err = sframe_cache__prune(&prune);
		if (!err)
			printf("%" PRIu64 " tables removed, %" PRIu64 " bytes; %" PRIu64
			       " bytes are left\n", prune.removed, prune.removed_size,
			       prune.left_size);
	} else {
		usage_with_options(usage, options);
	}

	if (err)
		pr_err("%s: %s\n", buildid_dir, str_error_r(-err, buf, sizeof(buf)));

	return err ? -1 : 0;
}

static const struct option sframe_options[] = {
	OPT_END()
};

static const char * const sframe_subcommands[] = {
	"build", "show", "check", "cache", "serve", NULL
};

int cmd_sframe(int argc, const char **argv)
{
	const char *usage[] = { NULL, NULL };
	static const struct {
		const char	*name;
		int		(*fn)(int argc, const char **argv);
	} subcommands[] = {
		{ "build",	cmd_sframe_build },
		{ "show",	cmd_sframe_show },
		{ "check",	cmd_sframe_check },
		{ "cache",	cmd_sframe_cache },
		{ "serve",	cmd_sframe_serve },
	};
	size_t i;

	argc = parse_options_subcommand(argc, argv, sframe_options, sframe_subcommands,
					usage, PARSE_OPT_STOP_AT_NON_OPTION);

	for (i = 0; argc && i < ARRAY_SIZE(subcommands); i++) {
		if (!strcmp(argv[0], subcommands[i].name))
			return subcommands[i].fn(argc, argv);
	}

	if (argc)
		pr_err("Unknown subcommand: %s\n", argv[0]);
	usage_with_options(usage, sframe_options);
	return -1;
}
