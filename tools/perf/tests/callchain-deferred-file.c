// SPDX-License-Identifier: GPL-2.0
/* Deferred user callchains in files, from records that are made here */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>

#include "util/callchain.h"
#include "util/callchain-deferred.h"
#include "util/callchain-deferred-record.h"
#include "util/debug.h"
#include "util/event.h"
#include "util/sample.h"
#include "util/session.h"
#include "tests.h"
#include "tests/callchain-deferred-common.h"

/* An event that may show that a task has left the kernel */
static int deliver_event(struct callchain_deferred *cd, u32 type, u64 cpumode,
			 u32 tid, u64 time)
{
	union perf_event event = {
		.fork = {
			.header = { .type = type, .size = sizeof(event.fork), },
			.tid = tid,
		},
	};
	struct perf_sample sample = {
		.pid = tid,
		.tid = tid,
		.time = time,
		.cpumode = cpumode,
	};

	return callchain_deferred__process(cd, &event, &sample, 0);
}

static int do_test_merge(bool needs_swap)
{
	struct callchain_deferred *cd = NULL;
	struct fake_file file;
	int ret = TEST_FAIL;

	if (fake_file__init(&file, SAMPLE_TYPE_TIME, needs_swap))
		goto out;

	/* One record each, in no order */
	fake_file__put_record(&file, COOKIE(3), 103, 300, 0x3000);
	fake_file__put_record(&file, COOKIE(1), 101, 100, 0x1000);
	fake_file__put_record(&file, COOKIE(2), 102, 200, 0x2000);

	/* One cookie of two tasks */
	fake_file__put_record(&file, COOKIE(4), 101, 400, 0x4000);
	fake_file__put_record(&file, COOKIE(4), 102, 401, 0x4100);

	/* Duplicates of one task, the newer one first */
	fake_file__put_record(&file, COOKIE(5), 101, 560, 0x5100);
	fake_file__put_record(&file, COOKIE(5), 101, 520, 0x5000);

	/* More records of one cookie than the 32 that perf looks at */
	for (int i = 0; i < 1000; i++)
		fake_file__put_record(&file, COOKIE(6), 1000 + i, 600 + i, 0x6000 + i);

	/* AUX data that looks like a record. perf must skip it. */
	fake_file__put_header(&file, PERF_RECORD_AUXTRACE, sizeof(struct perf_record_auxtrace));
	fake_file__put_u64(&file, 6 * sizeof(u64));
	for (size_t i = 2; i < sizeof(struct perf_record_auxtrace) / sizeof(u64); i++)
		fake_file__put_u64(&file, 0);
	fake_file__put_u64(&file, 0);
	/* 6 u64, the header among them */
	fake_file__put_header(&file, PERF_RECORD_CALLCHAIN_DEFERRED,
			      sizeof(struct perf_record_callchain_deferred) + 2 * sizeof(u64));
	fake_file__put_u64(&file, COOKIE(7));
	fake_file__put_u64(&file, 0);
	fake_file__put_u64(&file, 0);
	fake_file__put_u64(&file, 700);

	/* A plain record after the AUX data, and one with forged context markers */
	fake_file__put_record(&file, COOKIE(8), 101, 800, 0x8000);
	fake_file__put_record(&file, COOKIE(9), 101, 900, PERF_CONTEXT_KERNEL);

	cd = fake_file__index(&file);
	CHECK("index", cd);

	SAMPLE_GETS("first", COOKIE(1), 101, 90, 0x1000);
	SAMPLE_GETS("second", COOKIE(2), 102, 190, 0x2000);
	SAMPLE_GETS("same as before", COOKIE(2), 102, 191, 0x2000);
	SAMPLE_GETS("third", COOKIE(3), 103, 290, 0x3000);
	SAMPLE_GETS("older record", COOKIE(3), 103, 301, 0x3000);
	SAMPLE_GETS("other tid, no tie", COOKIE(3), 999, 290, 0x3000);

	SAMPLE_GETS("tie, first tid", COOKIE(4), 101, 390, 0x4000);
	SAMPLE_GETS("tie, second tid", COOKIE(4), 102, 390, 0x4100);
	SAMPLE_GETS("tie, unknown tid", COOKIE(4), 103, 390, 0x4000);
	SAMPLE_GETS("tie, tid 0", COOKIE(4), 0, 390, 0x4000);
	SAMPLE_GETS("tie, tid -1", COOKIE(4), -1, 390, 0x4000);
	SAMPLE_GETS("tie, only one is later", COOKIE(4), 101, 401, 0x4100);

	SAMPLE_GETS("duplicate, before both", COOKIE(5), 101, 510, 0x5000);
	SAMPLE_GETS("duplicate, at the first", COOKIE(5), 101, 520, 0x5000);
	SAMPLE_GETS("duplicate, between", COOKIE(5), 101, 521, 0x5100);
	SAMPLE_GETS("duplicate, after both", COOKIE(5), 101, 561, 0x5100);

	SAMPLE_GETS("many ties, near", COOKIE(6), 1010, 600, 0x600a);
	SAMPLE_GETS("many ties, far", COOKIE(6), 1900, 600, 0x6000);
	SAMPLE_GETS("many ties, later than those", COOKIE(6), 1900, 1490, 0x6000 + 31);

	SAMPLE_GETS("AUX data", COOKIE(7), 101, 690, NO_RECORD);
	SAMPLE_GETS("last record", COOKIE(8), 101, 790, 0x8000);
	/* kernel part and PERF_CONTEXT_USER only */
	SAMPLE_GETS("forged context", COOKIE(9), 101, 890, UINT64_MAX);
	SAMPLE_GETS("below all", 1, 101, 890, NO_RECORD);
	SAMPLE_GETS("above all", UINT64_MAX, 101, 890, NO_RECORD);

	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	fake_file__exit(&file);
	return ret;
}

static int test__deferred_merge(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	return do_test_merge(/*needs_swap=*/false);
}

static int test__deferred_merge_swapped(struct test_suite *test __maybe_unused,
					int subtest __maybe_unused)
{
	return do_test_merge(/*needs_swap=*/true);
}

/* Cookies with gaps of many sizes. They are written in no order. */
#define INDEXED_RECORDS	2000

static u64 indexed_cookie(int i)
{
	return 1 + ((u64)i << i * 50 / INDEXED_RECORDS);
}

static int test__deferred_index(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	struct callchain_deferred *cd = NULL;
	struct fake_file file;
	int ret = TEST_FAIL;

	if (fake_file__init(&file, SAMPLE_TYPE_TIME, false))
		goto out;

	/* 7 has no divisor in common with their number. */
	for (int i = 0; i < INDEXED_RECORDS; i++) {
		int nr = i * 7 % INDEXED_RECORDS;

		fake_file__put_record(&file, indexed_cookie(nr), 101, 100, (nr + 1) * 16);
	}
	fake_file__put_record(&file, UINT64_MAX, 101, 100, 0x1000);

	cd = fake_file__index(&file);
	CHECK("index", cd);
	for (int i = 0; i < INDEXED_RECORDS; i++) {
		SAMPLE_GETS("there", indexed_cookie(i), 101, 90, (i + 1) * 16);
		if (indexed_cookie(i) + 1 != indexed_cookie(i + 1)) {
			SAMPLE_GETS("not there", indexed_cookie(i) + 1, 101, 90, NO_RECORD);
			SAMPLE_GETS("not there", indexed_cookie(i + 1) - 1, 101, 90, NO_RECORD);
		}
	}
	SAMPLE_GETS("last", UINT64_MAX, 101, 90, 0x1000);
	SAMPLE_GETS("before the last", UINT64_MAX - 1, 101, 90, NO_RECORD);
	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	fake_file__exit(&file);
	return ret;
}

/* Where events carry no time the order is that of the file. */
static int test__deferred_no_time(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct callchain_deferred *cd = NULL;
	u64 first, second, got;
	struct fake_file file;
	int ret = TEST_FAIL;

	if (fake_file__init(&file, SAMPLE_TYPE_NO_TIME, false))
		goto out;

	first = fake_file__put_record(&file, COOKIE(1), 101, 0, 0x1000);
	second = fake_file__put_record(&file, COOKIE(1), 101, 0, 0x2000);
	cd = fake_file__index(&file);
	CHECK("index", cd);

	got = deferred_test__deliver(cd, COOKIE(1), 101, -1, first);
	CHECK("before the first", got == 0x1000);
	got = deferred_test__deliver(cd, COOKIE(1), 101, -1, first + 1);
	CHECK("before the second", got == 0x2000);
	got = deferred_test__deliver(cd, COOKIE(1), 101, -1, second + 1);
	CHECK("after both", got == 0x2000);
	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	fake_file__exit(&file);
	return ret;
}

/* "Decompresses" by copying, as perf_session__decompress() lays blocks out. */
static struct decomp *fake_inflate(void *arg, union perf_event *event, u64 file_offset)
{
	struct decomp **blocks = arg, *last = NULL, *decomp;
	size_t size = event->header.size - sizeof(event->pack);
	size_t rest = 0;

	while (*blocks) {
		last = *blocks;
		blocks = &last->next;
	}
	if (last)
		rest = last->size - last->head;

	decomp = calloc(1, sizeof(*decomp) + rest + size);
	if (!decomp)
		return NULL;

	if (rest)
		memcpy(decomp->data, last->data + last->head, rest);
	memcpy(decomp->data + rest, event->pack.data, size);
	decomp->size = rest + size;
	decomp->file_pos = file_offset;
	*blocks = decomp;

	return decomp;
}

#define NR_COMPRESSED	100

static int do_test_compressed(bool needs_swap)
{
	struct decomp *blocks = NULL, *decomp, *next;
	struct callchain_deferred *cd = NULL;
	struct fake_file raw = {}, file = {};
	int ret = TEST_FAIL, nr_blocks = 0;
	u64 left, size;
	char *buf = NULL;

	if (fake_file__init(&raw, SAMPLE_TYPE_TIME, needs_swap) ||
	    fake_file__init(&file, SAMPLE_TYPE_TIME, needs_swap))
		goto out;

	for (int i = 0; i < NR_COMPRESSED; i++)
		fake_file__put_record(&raw, COOKIE(i), 101, 100 * (i + 1), 0x1000 + 2 * i);

	/* Pieces that end within records and within headers */
	left = ftell(raw.fp);
	buf = malloc(left);
	CHECK("malloc", buf);
	rewind(raw.fp);
	CHECK("read", fread(buf, left, 1, raw.fp) == 1);
	for (u64 pos = 0; left; pos += size, left -= size) {
		size = 4 * (1 + nr_blocks++ % 61);
		if (size > left)
			size = left;
		fake_file__put_header(&file, PERF_RECORD_COMPRESSED,
				      sizeof(struct perf_record_compressed) + size);
		fwrite(buf + pos, size, 1, file.fp);
	}
	fflush(file.fp);

	cd = callchain_deferred__new(file.evlist, needs_swap);
	CHECK("new", cd);
	CHECK("index", !callchain_deferred__index_file(cd, fileno(file.fp), 0, ftell(file.fp),
						       fake_inflate, &blocks));
	CHECK("done", !callchain_deferred__index_done(cd));

	for (int i = 0; i < NR_COMPRESSED; i++)
		SAMPLE_GETS("not delivered", COOKIE(i), 101, 100 * i, 0x1000 + 2 * i);

	/* Delivered events are swapped in place. */
	for (decomp = blocks; decomp && needs_swap; decomp = decomp->next) {
		u64 pos = 0;

		while (pos + sizeof(struct perf_event_header) <= decomp->size) {
			union perf_event *event = (void *)(decomp->data + pos);

			perf_event_header__bswap(&event->header);
			if (pos + event->header.size > decomp->size) {
				perf_event_header__bswap(&event->header);
				break;
			}
			callchain_deferred__swap(event, true);
			pos += event->header.size;
		}
	}
	for (int i = 0; i < NR_COMPRESSED; i++)
		SAMPLE_GETS("delivered", COOKIE(i), 101, 100 * i, 0x1000 + 2 * i);
	SAMPLE_GETS("beyond", COOKIE(NR_COMPRESSED), 101, 90, NO_RECORD);
	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	for (decomp = blocks; decomp; decomp = next) {
		next = decomp->next;
		free(decomp);
	}
	free(buf);
	fake_file__exit(&raw);
	fake_file__exit(&file);
	return ret;
}

static int test__deferred_compressed(struct test_suite *test __maybe_unused,
				     int subtest __maybe_unused)
{
	int ret = do_test_compressed(/*needs_swap=*/false);

	return ret == TEST_OK ? do_test_compressed(/*needs_swap=*/true) : ret;
}

/* Whatever the last record looks like, those before it can be used. */
static int test__deferred_bad_file(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	struct callchain_deferred *cd = NULL;
	struct fake_file file;
	int ret = TEST_FAIL;
	u64 last, end;

	if (fake_file__init(&file, SAMPLE_TYPE_TIME, false))
		goto out;

	fake_file__put_record(&file, COOKIE(1), 101, 100, 0x1000);
	last = fake_file__put_record(&file, COOKIE(2), 101, 200, 0x2000);
	end = ftell(file.fp);

	/* The index gets the full size, but the file ends earlier. */
	for (u64 cut = last; cut < end; cut += 4) {
		fflush(file.fp);
		CHECK("truncate", !ftruncate(fileno(file.fp), cut));
		cd = callchain_deferred__new(file.evlist, false);
		CHECK("new", cd);
		CHECK("truncated", !callchain_deferred__index_file(cd, fileno(file.fp), 0, end,
								   NULL, NULL));
		CHECK("done", !callchain_deferred__index_done(cd));
		SAMPLE_GETS("before the end", COOKIE(1), 101, 90, 0x1000);
		SAMPLE_GETS("at the end", COOKIE(2), 101, 190, NO_RECORD);
		callchain_deferred__delete(cd);
		cd = NULL;
		fseek(file.fp, last, SEEK_SET);
		fake_file__put_record(&file, COOKIE(2), 101, 200, 0x2000);
	}

	/* Sizes that no such record has */
	for (u16 size = 0; size < end - last; size++) {
		fseek(file.fp, last, SEEK_SET);
		fake_file__put_header(&file, PERF_RECORD_CALLCHAIN_DEFERRED, size);
		fseek(file.fp, end, SEEK_SET);
		cd = fake_file__index(&file);
		CHECK("bad size", cd);
		SAMPLE_GETS("before bad size", COOKIE(1), 101, 90, 0x1000);
		SAMPLE_GETS("bad size", COOKIE(2), 101, 190, NO_RECORD);
		callchain_deferred__delete(cd);
		cd = NULL;
	}

	/* A file that changes after it was indexed */
	fseek(file.fp, last, SEEK_SET);
	fake_file__put_record(&file, COOKIE(2), 101, 200, 0x2000);
	cd = fake_file__index(&file);
	CHECK("index", cd);
	fseek(file.fp, last, SEEK_SET);
	fake_file__put_record(&file, COOKIE(3), 101, 200, 0x3000);
	fflush(file.fp);
	SAMPLE_GETS("changed", COOKIE(2), 101, 190, NO_RECORD);
	CHECK("truncate", !ftruncate(fileno(file.fp), 8));
	SAMPLE_GETS("gone", COOKIE(1), 101, 90, NO_RECORD);
	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	fake_file__exit(&file);
	return ret;
}

/* Records of a file that is larger than what the process may map are read. */
static int test__deferred_unmapped(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	const u64 limit = 1ULL << 40, size = 2 * limit;
	struct callchain_deferred *cd = NULL;
	struct rlimit before, less;
	struct fake_file file;
	int ret = TEST_FAIL;
	void *map;

	/* There, perf maps no file for this. */
	if (BITS_PER_LONG != 64)
		return TEST_SKIP;

	if (fake_file__init(&file, SAMPLE_TYPE_TIME, false))
		return TEST_FAIL;

	getrlimit(RLIMIT_AS, &before);
	less = before;
	less.rlim_cur = limit;
	CHECK("limit", !setrlimit(RLIMIT_AS, &less));

	fake_file__put_record(&file, COOKIE(1), 101, 100, 0x1000);
	fake_file__put_record(&file, COOKIE(2), 101, 200, 0x2000);
	fflush(file.fp);
	CHECK("sparse file", !ftruncate(fileno(file.fp), size));
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, fileno(file.fp), 0);
	CHECK("cannot be mapped", map == MAP_FAILED);

	cd = callchain_deferred__new(file.evlist, false);
	CHECK("new", cd);
	CHECK("index", !callchain_deferred__index_file(cd, fileno(file.fp), 0, size, NULL, NULL));
	CHECK("done", !callchain_deferred__index_done(cd));
	SAMPLE_GETS("first", COOKIE(1), 101, 90, 0x1000);
	SAMPLE_GETS("last", COOKIE(2), 101, 190, 0x2000);
	ret = TEST_OK;
out:
	setrlimit(RLIMIT_AS, &before);
	callchain_deferred__delete(cd);
	fake_file__exit(&file);
	return ret;
}

/* A record that never came: is its task in the kernel, or was it lost? */
static int test__deferred_stats(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	struct callchain_deferred *cd = NULL;
	struct fake_file file;
	int ret = TEST_FAIL;

	if (fake_file__init(&file, SAMPLE_TYPE_TIME, false))
		goto out;

	fake_file__put_record(&file, COOKIE(1), 101, 100, 0x1000);
	cd = fake_file__index(&file);
	CHECK("index", cd);

	/* Three samples of one task that stays in the kernel, in any order */
	SAMPLE_GETS("pending", COOKIE(10), 110, 220, NO_RECORD);
	SAMPLE_GETS("pending", COOKIE(10), 110, 200, NO_RECORD);
	SAMPLE_GETS("pending", COOKIE(10), 110, 210, NO_RECORD);
	CHECK("pending", !deferred_test__check_stats(cd, 0, 3, 0, 0));

	/* An older sign changes nothing, nor do events of other tasks. */
	CHECK("user", !deliver_event(cd, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 110, 190));
	CHECK("user", !deliver_event(cd, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 111, 300));
	CHECK("kernel", !deliver_event(cd, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, 110, 300));
	CHECK("older", !deferred_test__check_stats(cd, 0, 3, 0, 0));

	/* A newer cookie, an older cookie that is late */
	SAMPLE_GETS("newer", COOKIE(11), 110, 400, NO_RECORD);
	CHECK("newer", !deferred_test__check_stats(cd, 0, 1, 3, 0));
	SAMPLE_GETS("older", COOKIE(9), 110, 150, NO_RECORD);
	CHECK("older", !deferred_test__check_stats(cd, 0, 1, 4, 0));

	/* Each of these ends the wait. */
	CHECK("user", !deliver_event(cd, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 110, 401));
	CHECK("user", !deferred_test__check_stats(cd, 0, 0, 5, 0));
	SAMPLE_GETS("again", COOKIE(12), 110, 500, NO_RECORD);
	CHECK("again", !deferred_test__check_stats(cd, 0, 1, 5, 0));
	CHECK("exit", !deliver_event(cd, PERF_RECORD_EXIT, 0, 110, 501));
	CHECK("exit", !deferred_test__check_stats(cd, 0, 0, 6, 0));
	SAMPLE_GETS("again", COOKIE(13), 110, 600, NO_RECORD);
	CHECK("record", !deliver_event(cd, PERF_RECORD_CALLCHAIN_DEFERRED, 0, 110, 601));
	CHECK("record", !deferred_test__check_stats(cd, 0, 0, 7, 0));
	SAMPLE_GETS("again", COOKIE(14), 110, 700, NO_RECORD);
	SAMPLE_GETS("merged", COOKIE(1), 110, 701, 0x1000);
	CHECK("merged", !deferred_test__check_stats(cd, 1, 0, 8, 0));

	/* perf cannot know where a task without a tid is. */
	SAMPLE_GETS("no tid", COOKIE(15), 0, 800, NO_RECORD);
	CHECK("no tid", !deferred_test__check_stats(cd, 1, 0, 9, 0));
	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	fake_file__exit(&file);
	return ret;
}

/* The innermost frame of a sample in user mode is known even without a record. */
static int test__deferred_user_ip(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	static const struct {
		u64 cpumode, ip, nr, ips[3];
	} cases[] = {
		{ PERF_RECORD_MISC_USER, 0x1234, 3,
		  { PERF_CONTEXT_USER, 0x1234, PERF_CONTEXT_USER_DEFERRED, }, },
		/* Not recorded, or no address */
		{ PERF_RECORD_MISC_USER, 0, 1, { PERF_CONTEXT_USER_DEFERRED, }, },
		{ PERF_RECORD_MISC_USER, PERF_CONTEXT_USER, 1, { PERF_CONTEXT_USER_DEFERRED, }, },
		{ PERF_RECORD_MISC_KERNEL, 0x1234, 1, { PERF_CONTEXT_USER_DEFERRED, }, },
	};
	union perf_event event = { .header = { .type = PERF_RECORD_SAMPLE, }, };
	union chain chain = { .data = { 2, PERF_CONTEXT_USER_DEFERRED, COOKIE(2), }, };
	struct callchain_deferred *cd = NULL;
	struct fake_file file;
	int ret = TEST_FAIL;

	if (fake_file__init(&file, SAMPLE_TYPE_TIME, false))
		goto out;
	fake_file__put_record(&file, COOKIE(1), 1, 11, 0x1000);
	cd = fake_file__index(&file);
	CHECK("index", cd);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perf_sample sample = {
			.pid = 1,
			.tid = 1,
			.time = 10,
			.ip = cases[i].ip,
			.cpumode = cases[i].cpumode,
			.callchain = &chain.callchain,
			.deferred_cookie = COOKIE(2),
		};

		CHECK("process", !callchain_deferred__process(cd, &event, &sample, 0));
		CHECK("entries", sample.callchain->nr == cases[i].nr &&
		      !memcmp(sample.callchain->ips, cases[i].ips, cases[i].nr * sizeof(u64)));
	}
	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	fake_file__exit(&file);
	return ret;
}

static struct test_case tests__deferred_file[] = {
	TEST_CASE("Merging", deferred_merge),
	TEST_CASE("Merging, other byte order", deferred_merge_swapped),
	TEST_CASE("Merging without time", deferred_no_time),
	TEST_CASE("Index", deferred_index),
	TEST_CASE("Merging, compressed", deferred_compressed),
	TEST_CASE("Truncated and crafted files", deferred_bad_file),
	TEST_CASE("Files that cannot be mapped", deferred_unmapped),
	TEST_CASE("Statistics", deferred_stats),
	TEST_CASE("User frame without record", deferred_user_ip),
	{	.name = NULL, }
};

struct test_suite suite__deferred_file = {
	.desc = "Deferred callchains in files",
	.test_cases = tests__deferred_file,
};
