// SPDX-License-Identifier: GPL-2.0
/* Deferred user callchains, from records that are made here. */
#include <byteswap.h>
#include <inttypes.h>
#include <linux/kernel.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/callchain.h"
#include "util/callchain-deferred.h"
#include "util/debug.h"
#include "util/event.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/machine.h"
#include "util/parse-events.h"
#include "util/record.h"
#include "util/sample.h"
#include "util/session.h"
#include "util/symbol.h"
#include "util/thread.h"
#include "tests.h"
#include "tests/hists_common.h"

#define MAX_IPS		8

union chain {
	struct ip_callchain callchain;
	u64 data[MAX_IPS + 1];
};

/* The names that the chain resolves to, in this order, separated by spaces */
static int resolve(struct thread *thread, struct ip_callchain *chain,
		   enum chain_order order, char *names, size_t size)
{
	enum chain_order saved_order = callchain_param.order;
	struct callchain_cursor *cursor = get_tls_callchain_cursor();
	struct callchain_cursor_node *node;
	struct evsel evsel = { .core = { .attr = { .size = 0, }, }, };
	struct perf_sample sample = { .callchain = chain, };
	int err;

	callchain_param.order = order;
	err = thread__resolve_callchain(thread, cursor, &evsel, &sample, NULL,
					NULL, PERF_MAX_STACK_DEPTH);
	callchain_param.order = saved_order;
	if (err)
		return err;

	names[0] = '\0';
	callchain_cursor_commit(cursor);
	while ((node = callchain_cursor_current(cursor)) != NULL) {
		size_t len = strlen(names);

		if (node->ms.sym)
			scnprintf(names + len, size - len, " %s", node->ms.sym->name);
		else
			scnprintf(names + len, size - len, " %#" PRIx64, node->ip);
		callchain_cursor_advance(cursor);
	}

	return 0;
}

static const struct {
	union chain chain;
	const char *callee, *caller;
} marker_cases[] = {
	{
		.chain.data = { 2, FAKE_IP_LIBC_MALLOC, FAKE_IP_PERF_CMD_RECORD, },
		.callee = " malloc cmd_record",
		.caller = " cmd_record malloc",
	}, {
		/* A cookie that would make a good address */
		.chain.data = {
			4, FAKE_IP_LIBC_MALLOC, FAKE_IP_PERF_CMD_RECORD,
			PERF_CONTEXT_USER_DEFERRED, FAKE_IP_PERF_MAIN,
		},
		.callee = " malloc cmd_record [deferred]",
		.caller = " [deferred] cmd_record malloc",
	}, {
		/* and one that looks like the marker */
		.chain.data = {
			3, FAKE_IP_LIBC_MALLOC,
			PERF_CONTEXT_USER_DEFERRED, PERF_CONTEXT_USER_DEFERRED,
		},
		.callee = " malloc [deferred]",
		.caller = " [deferred] malloc",
	}, {
		/* The cookie cut off */
		.chain.data = {
			2, FAKE_IP_LIBC_MALLOC, PERF_CONTEXT_USER_DEFERRED,
		},
		.callee = " malloc [deferred]",
		.caller = " [deferred] malloc",
	}, {
		/* No kernel part */
		.chain.data = { 2, PERF_CONTEXT_USER_DEFERRED, FAKE_IP_PERF_MAIN, },
		.callee = " [deferred]",
		.caller = " [deferred]",
	},
};

/* Without its user part a chain ends in a marker and never in a cookie. */
static int test__deferred_marker(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	struct machines machines;
	struct machine *machine;
	struct thread *thread = NULL;
	char names[256];
	int ret = TEST_FAIL;

	machines__init(&machines);
	machine = setup_fake_machine(&machines);
	if (machine)
		thread = machine__findnew_thread(machine, FAKE_PID_PERF1, FAKE_PID_PERF1);
	if (!thread)
		goto out;

	for (size_t i = 0; i < ARRAY_SIZE(marker_cases); i++) {
		union chain chain = marker_cases[i].chain;

		if (resolve(thread, &chain.callchain, ORDER_CALLEE, names, sizeof(names)) ||
		    strcmp(names, marker_cases[i].callee)) {
			pr_debug("case %zu, callee first: '%s' instead of '%s'\n",
				 i, names, marker_cases[i].callee);
			goto out;
		}
		if (resolve(thread, &chain.callchain, ORDER_CALLER, names, sizeof(names)) ||
		    strcmp(names, marker_cases[i].caller)) {
			pr_debug("case %zu, caller first: '%s' instead of '%s'\n",
				 i, names, marker_cases[i].caller);
			goto out;
		}
	}
	ret = TEST_OK;
out:
	thread__put(thread);
	machines__exit(&machines);
	return ret;
}

#define SAMPLE_TYPE_TIME	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN)
#define SAMPLE_TYPE_NO_TIME	(PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN)
#define COOKIE(x)		(0xabcd000000000000ULL + (x))
#define NO_RECORD		0

/* A file of records, as perf record would have written it */
struct fake_file {
	FILE		*fp;
	struct evlist	*evlist;
	bool		needs_swap;
	u64		sample_type;
};

static int fake_file__init(struct fake_file *file, u64 sample_type, bool needs_swap)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_type = sample_type,
		.sample_id_all = 1,
		.defer_callchain = 1,
	};
	struct evsel *evsel;

	file->sample_type = sample_type;
	file->needs_swap = needs_swap;
	file->fp = tmpfile();
	file->evlist = evlist__new();
	evsel = evsel__new(&attr);
	if (!file->fp || !file->evlist || !evsel)
		return -1;

	evsel->needs_swap = needs_swap;
	evlist__add(file->evlist, evsel);
	evlist__set_id_pos(file->evlist);

	return 0;
}

static void fake_file__exit(struct fake_file *file)
{
	evlist__delete(file->evlist);
	if (file->fp)
		fclose(file->fp);
}

static void put_u64(struct fake_file *file, u64 val)
{
	if (file->needs_swap)
		val = bswap_64(val);
	fwrite(&val, sizeof(val), 1, file->fp);
}

static void put_header(struct fake_file *file, u32 type, u16 size)
{
	struct perf_event_header header = {
		.type = type,
		.misc = PERF_RECORD_MISC_USER,
		.size = size,
	};

	if (file->needs_swap)
		perf_event_header__bswap(&header);
	fwrite(&header, sizeof(header), 1, file->fp);
}

static void put_tid(struct fake_file *file, u32 tid)
{
	u32 ids[2] = { tid, tid };

	if (file->needs_swap) {
		ids[0] = bswap_32(tid);
		ids[1] = bswap_32(tid);
	}
	fwrite(ids, sizeof(ids), 1, file->fp);
}

/* A record with two ips, first and first + 1. Returns where it is. */
static u64 put_record(struct fake_file *file, u64 cookie, u32 tid, u64 time, u64 first)
{
	bool has_time = file->sample_type & PERF_SAMPLE_TIME;
	u64 pos = ftell(file->fp);

	put_header(file, PERF_RECORD_CALLCHAIN_DEFERRED,
		   sizeof(struct perf_record_callchain_deferred) +
		   (has_time ? 4 : 3) * sizeof(u64));
	put_u64(file, cookie);
	put_u64(file, 2);
	put_u64(file, first);
	put_u64(file, first + 1);
	put_tid(file, tid);
	if (has_time)
		put_u64(file, time);

	return pos;
}

static struct callchain_deferred *fake_file__index(struct fake_file *file)
{
	struct callchain_deferred *cd = callchain_deferred__new(file->evlist,
								file->needs_swap);

	fflush(file->fp);
	if (cd && (callchain_deferred__index_file(cd, fileno(file->fp), 0,
						  ftell(file->fp), NULL, NULL) ||
		   callchain_deferred__index_done(cd))) {
		callchain_deferred__delete(cd);
		cd = NULL;
	}

	return cd;
}

/*
 * Deliver a sample and say whose user part it got: the first ip of the record,
 * NO_RECORD for the marker alone, UINT64_MAX for anything else.
 */
static u64 deliver_sample(struct callchain_deferred *cd, u64 cookie, u32 tid,
			  u64 time, u64 file_offset)
{
	union perf_event event = { .header = { .type = PERF_RECORD_SAMPLE, }, };
	union chain chain = {
		.data = {
			4, PERF_CONTEXT_KERNEL, 42, PERF_CONTEXT_USER_DEFERRED, cookie,
		},
	};
	struct perf_sample sample = {
		.pid = tid,
		.tid = tid,
		.time = time,
		.cpumode = PERF_RECORD_MISC_KERNEL,
		.callchain = &chain.callchain,
		.deferred_cookie = cookie,
	};
	u64 *ips;

	if (callchain_deferred__process(cd, &event, &sample, file_offset))
		return UINT64_MAX;

	ips = sample.callchain->ips;
	if (sample.callchain->nr < 3 || ips[0] != PERF_CONTEXT_KERNEL || ips[1] != 42)
		return UINT64_MAX;
	if (sample.callchain->nr == 3 && ips[2] == PERF_CONTEXT_USER_DEFERRED)
		return NO_RECORD;
	if (sample.callchain->nr == 5 && ips[2] == PERF_CONTEXT_USER && ips[4] == ips[3] + 1)
		return ips[3];

	return UINT64_MAX;
}

/* An event that says something about a task without being completed */
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

static int check_stats(struct callchain_deferred *cd, u64 merged, u64 pending,
		       u64 unmatched, u64 unmerged)
{
	struct callchain_deferred_stats stats;

	callchain_deferred__stats(cd, &stats);
	pr_debug("merged %" PRIu64 " pending %" PRIu64 "\n", stats.merged, stats.pending);
	pr_debug("unmatched %" PRIu64 " unmerged %" PRIu64 "\n", stats.unmatched, stats.unmerged);

	return stats.merged == merged && stats.pending == pending &&
	       stats.unmatched == unmatched && stats.unmerged == unmerged &&
	       stats.requested == merged + pending + unmatched + unmerged ? 0 : -1;
}

#define SAMPLE_GETS(what, cookie, tid, time, expected)				\
do {										\
	u64 __got = deliver_sample(cd, cookie, tid, time, 0);			\
										\
	if (__got != (u64)(expected)) {						\
		pr_debug("FAILED %s:%d %s: %#" PRIx64 "\n", __FILE__, __LINE__,	\
			 what, __got);						\
		goto out;							\
	}									\
} while (0)

#define CHECK(what, cond)							\
do {										\
	if (!(cond)) {								\
		pr_debug("FAILED %s:%d %s\n", __FILE__, __LINE__, what);	\
		goto out;							\
	}									\
} while (0)

static int do_test_merge(bool needs_swap)
{
	struct callchain_deferred *cd = NULL;
	struct fake_file file;
	int ret = TEST_FAIL;

	if (fake_file__init(&file, SAMPLE_TYPE_TIME, needs_swap))
		goto out;

	/* One record each, in no order */
	put_record(&file, COOKIE(3), 103, 300, 0x3000);
	put_record(&file, COOKIE(1), 101, 100, 0x1000);
	put_record(&file, COOKIE(2), 102, 200, 0x2000);

	/* One cookie of two tasks */
	put_record(&file, COOKIE(4), 101, 400, 0x4000);
	put_record(&file, COOKIE(4), 102, 401, 0x4100);

	/* Duplicates of one task, the newer one first */
	put_record(&file, COOKIE(5), 101, 560, 0x5100);
	put_record(&file, COOKIE(5), 101, 520, 0x5000);

	/* More ties than the 32 that are looked at, the right one is too far */
	for (int i = 0; i < 1000; i++)
		put_record(&file, COOKIE(6), 1000 + i, 600 + i, 0x6000 + i);

	/* What looks like a record to those who do not skip the AUX data */
	put_header(&file, PERF_RECORD_AUXTRACE, sizeof(struct perf_record_auxtrace));
	put_u64(&file, 6 * sizeof(u64));
	for (size_t i = 2; i < sizeof(struct perf_record_auxtrace) / sizeof(u64); i++)
		put_u64(&file, 0);
	put_u64(&file, 0);
	/* 6 u64, the header among them */
	put_header(&file, PERF_RECORD_CALLCHAIN_DEFERRED,
		   sizeof(struct perf_record_callchain_deferred) + 2 * sizeof(u64));
	put_u64(&file, COOKIE(7));
	put_u64(&file, 0);
	put_u64(&file, 0);
	put_u64(&file, 700);

	/* User parts that are empty, or try to be kernel addresses */
	put_record(&file, COOKIE(8), 101, 800, 0x8000);
	put_record(&file, COOKIE(9), 101, 900, PERF_CONTEXT_KERNEL);

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

/* Cookies with each distance, in no order, and with and without others between */
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

		put_record(&file, indexed_cookie(nr), 101, 100, (nr + 1) * 16);
	}
	put_record(&file, UINT64_MAX, 101, 100, 0x1000);

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

	first = put_record(&file, COOKIE(1), 101, 0, 0x1000);
	second = put_record(&file, COOKIE(1), 101, 0, 0x2000);
	cd = fake_file__index(&file);
	CHECK("index", cd);

	got = deliver_sample(cd, COOKIE(1), 101, -1, first);
	CHECK("before the first", got == 0x1000);
	got = deliver_sample(cd, COOKIE(1), 101, -1, first + 1);
	CHECK("before the second", got == 0x2000);
	got = deliver_sample(cd, COOKIE(1), 101, -1, second + 1);
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
		put_record(&raw, COOKIE(i), 101, 100 * (i + 1), 0x1000 + 2 * i);

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
		put_header(&file, PERF_RECORD_COMPRESSED,
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

	/* What is delivered is swapped in place. */
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

	put_record(&file, COOKIE(1), 101, 100, 0x1000);
	last = put_record(&file, COOKIE(2), 101, 200, 0x2000);
	end = ftell(file.fp);

	/* The size says that it is all there, the file ends before. */
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
		put_record(&file, COOKIE(2), 101, 200, 0x2000);
	}

	/* Sizes that no such record has */
	for (u16 size = 0; size < end - last; size++) {
		fseek(file.fp, last, SEEK_SET);
		put_header(&file, PERF_RECORD_CALLCHAIN_DEFERRED, size);
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
	put_record(&file, COOKIE(2), 101, 200, 0x2000);
	cd = fake_file__index(&file);
	CHECK("index", cd);
	fseek(file.fp, last, SEEK_SET);
	put_record(&file, COOKIE(3), 101, 200, 0x3000);
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

/* A record that never came: is its task in the kernel, or was it lost? */
static int test__deferred_stats(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	struct callchain_deferred *cd = NULL;
	struct fake_file file;
	int ret = TEST_FAIL;

	if (fake_file__init(&file, SAMPLE_TYPE_TIME, false))
		goto out;

	put_record(&file, COOKIE(1), 101, 100, 0x1000);
	cd = fake_file__index(&file);
	CHECK("index", cd);

	/* Three samples of one stay in the kernel, in any order */
	SAMPLE_GETS("pending", COOKIE(10), 110, 220, NO_RECORD);
	SAMPLE_GETS("pending", COOKIE(10), 110, 200, NO_RECORD);
	SAMPLE_GETS("pending", COOKIE(10), 110, 210, NO_RECORD);
	CHECK("pending", !check_stats(cd, 0, 3, 0, 0));

	/* An older sign changes nothing, nor do events of other tasks. */
	CHECK("user", !deliver_event(cd, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 110, 190));
	CHECK("user", !deliver_event(cd, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 111, 300));
	CHECK("kernel", !deliver_event(cd, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, 110, 300));
	CHECK("older", !check_stats(cd, 0, 3, 0, 0));

	/* A newer cookie, an older cookie that is late */
	SAMPLE_GETS("newer", COOKIE(11), 110, 400, NO_RECORD);
	CHECK("newer", !check_stats(cd, 0, 1, 3, 0));
	SAMPLE_GETS("older", COOKIE(9), 110, 150, NO_RECORD);
	CHECK("older", !check_stats(cd, 0, 1, 4, 0));

	/* Each of these ends the wait. */
	CHECK("user", !deliver_event(cd, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 110, 401));
	CHECK("user", !check_stats(cd, 0, 0, 5, 0));
	SAMPLE_GETS("again", COOKIE(12), 110, 500, NO_RECORD);
	CHECK("again", !check_stats(cd, 0, 1, 5, 0));
	CHECK("exit", !deliver_event(cd, PERF_RECORD_EXIT, 0, 110, 501));
	CHECK("exit", !check_stats(cd, 0, 0, 6, 0));
	SAMPLE_GETS("again", COOKIE(13), 110, 600, NO_RECORD);
	CHECK("record", !deliver_event(cd, PERF_RECORD_CALLCHAIN_DEFERRED, 0, 110, 601));
	CHECK("record", !check_stats(cd, 0, 0, 7, 0));
	SAMPLE_GETS("again", COOKIE(14), 110, 700, NO_RECORD);
	SAMPLE_GETS("merged", COOKIE(1), 110, 701, 0x1000);
	CHECK("merged", !check_stats(cd, 1, 0, 8, 0));

	/* Nothing is known of a task without a name. */
	SAMPLE_GETS("no tid", COOKIE(15), 0, 800, NO_RECORD);
	CHECK("no tid", !check_stats(cd, 1, 0, 9, 0));
	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	fake_file__exit(&file);
	return ret;
}

/* Events as a pipe would bring them, and what was delivered of them */
struct fake_pipe {
	struct fake_file		file;
	struct callchain_deferred	*cd;
	/* What deliver_sample() returns for samples, RECORD and OTHER */
	u64				log[64];
	u64				times[64];
	int				nr;
};

#define RECORD		1
#define OTHER		2

static int fake_pipe__log(void *arg, union perf_event *event, struct perf_sample *sample,
			  u64 file_offset, const char *file_path __maybe_unused)
{
	struct fake_pipe *fake = arg;
	u64 what = UINT64_MAX;

	if (fake->nr == ARRAY_SIZE(fake->log))
		return -1;

	/* What was held back must not have changed. */
	if (file_offset != sample->time * 10)
		return -1;

	if (event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED) {
		what = RECORD;
	} else if (event->header.type != PERF_RECORD_SAMPLE) {
		what = OTHER;
	} else {
		u64 nr = sample->callchain->nr, *ips = sample->callchain->ips;

		if (nr == 3 && ips[1] == 42 && ips[2] == PERF_CONTEXT_USER_DEFERRED)
			what = NO_RECORD;
		else if (nr == 2 && ips[1] == 42)
			what = 42;
		else if (nr == 5 && ips[1] == 42 && ips[2] == PERF_CONTEXT_USER &&
			 ips[4] == ips[3] + 1)
			what = ips[3];
	}
	fake->times[fake->nr] = sample->time;
	fake->log[fake->nr++] = what;

	return 0;
}

/* Returns what callchain_deferred__deliver() does. */
static int fake_pipe__put(struct fake_pipe *fake, u32 type, u32 tid, u64 time,
			  const u64 *body, int nr_body)
{
	union {
		union perf_event event;
		u64 data[32];
	} buf = {};
	struct perf_sample sample;
	bool is_sample = type == PERF_RECORD_SAMPLE;
	int ret, pos = 1;

	if (is_sample) {
		buf.data[pos++] = (u64)tid << 32 | tid;
		buf.data[pos++] = time;
	}
	for (int i = 0; i < nr_body; i++)
		buf.data[pos++] = body[i];
	if (!is_sample) {
		buf.data[pos++] = (u64)tid << 32 | tid;
		buf.data[pos++] = time;
	}
	buf.event.header.type = type;
	buf.event.header.misc = is_sample ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;
	buf.event.header.size = pos * sizeof(u64);
	if (evlist__parse_sample(fake->file.evlist, &buf.event, &sample))
		return -1;

	ret = callchain_deferred__deliver(fake->cd, &buf.event, &sample, time * 10, "pipe");
	/* The caller reads the next event into the same place. */
	memset(&buf, 0xff, sizeof(buf));

	return ret;
}

static int put_deferred_sample(struct fake_pipe *fake, u64 cookie, u32 tid, u64 time)
{
	u64 body[] = { 4, PERF_CONTEXT_KERNEL, 42, PERF_CONTEXT_USER_DEFERRED, cookie, };

	return fake_pipe__put(fake, PERF_RECORD_SAMPLE, tid, time, body, ARRAY_SIZE(body));
}

static int put_plain_sample(struct fake_pipe *fake, u32 tid, u64 time)
{
	u64 body[] = { 2, PERF_CONTEXT_KERNEL, 42, };

	return fake_pipe__put(fake, PERF_RECORD_SAMPLE, tid, time, body, ARRAY_SIZE(body));
}

static int put_deferred_record(struct fake_pipe *fake, u64 cookie, u32 tid, u64 time, u64 first)
{
	u64 body[] = { cookie, 2, first, first + 1, };

	return fake_pipe__put(fake, PERF_RECORD_CALLCHAIN_DEFERRED, tid, time, body,
			      ARRAY_SIZE(body));
}

static int put_mmap(struct fake_pipe *fake, u32 tid, u64 time)
{
	u64 body[] = { (u64)tid << 32 | tid, 0x1000, 0x1000, 0, 0, };

	return fake_pipe__put(fake, PERF_RECORD_MMAP, tid, time, body, ARRAY_SIZE(body));
}

/* Everything so far, in this order; what is held back is not there. */
static bool fake_pipe__delivered(struct fake_pipe *fake, int nr, const u64 *expected)
{
	bool ok = fake->nr == nr;

	for (int i = 0; i < fake->nr; i++) {
		ok = ok && i < nr && fake->log[i] == expected[i] &&
		     (!i || fake->times[i] >= fake->times[i - 1]);
		pr_debug(" %#" PRIx64 "@%" PRIu64, fake->log[i], fake->times[i]);
	}
	pr_debug("\n");
	fake->nr = 0;

	return ok;
}

#define DELIVERED(what, ...)							\
do {										\
	const u64 __expected[] = { __VA_ARGS__ };				\
										\
	CHECK(what, fake_pipe__delivered(&fake, ARRAY_SIZE(__expected), __expected)); \
} while (0)

static int fake_pipe__init(struct fake_pipe *fake,
			   const struct callchain_deferred_bounds *bounds)
{
	memset(fake, 0, sizeof(*fake));
	if (fake_file__init(&fake->file, SAMPLE_TYPE_TIME, false))
		return -1;

	fake->cd = callchain_deferred__new(fake->file.evlist, false);
	if (!fake->cd)
		return -1;

	callchain_deferred__hold_back(fake->cd, bounds, fake_pipe__log, fake);

	return 0;
}

static void fake_pipe__exit(struct fake_pipe *fake)
{
	callchain_deferred__delete(fake->cd);
	fake_file__exit(&fake->file);
}

static int test__deferred_hold_back(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	static const struct callchain_deferred_bounds bounds = {
		.age = 1000, .bytes = 1 << 20,
	};
	struct fake_pipe fake;
	int ret = TEST_FAIL;

	if (fake_pipe__init(&fake, &bounds))
		goto out;

	/* Nothing to wait for */
	CHECK("put", !put_mmap(&fake, 1, 10) && !put_plain_sample(&fake, 1, 11));
	DELIVERED("at once", OTHER, 42);

	/* Two samples share a record, the maps do not overtake them. */
	CHECK("put", !put_deferred_sample(&fake, COOKIE(1), 1, 20) &&
		     !put_mmap(&fake, 1, 21) &&
		     !put_deferred_sample(&fake, COOKIE(1), 1, 22) &&
		     !put_plain_sample(&fake, 2, 23));
	DELIVERED("held");
	CHECK("put", !put_deferred_record(&fake, COOKIE(1), 1, 24, 0x1000));
	DELIVERED("released", 0x1000, OTHER, 0x1000, 42, RECORD);
	CHECK("put", !put_plain_sample(&fake, 2, 25));
	DELIVERED("nothing held", 42);

	/* The first one comes last. */
	CHECK("put", !put_deferred_sample(&fake, COOKIE(2), 1, 30) &&
		     !put_deferred_sample(&fake, COOKIE(3), 2, 31) &&
		     !put_deferred_record(&fake, COOKIE(3), 2, 32, 0x3000) &&
		     !put_deferred_sample(&fake, COOKIE(4), 2, 33));
	DELIVERED("held");
	CHECK("put", !put_deferred_record(&fake, COOKIE(2), 1, 34, 0x2000));
	DELIVERED("up to the next that waits", 0x2000, 0x3000, RECORD);
	CHECK("put", !put_deferred_record(&fake, COOKIE(4), 2, 35, 0x4000));
	DELIVERED("the rest", 0x4000, RECORD, RECORD);

	/* A record that was there before the sample, and a duplicate of it */
	CHECK("put", !put_deferred_record(&fake, COOKIE(5), 1, 40, 0x5000) &&
		     !put_deferred_record(&fake, COOKIE(5), 1, 41, 0x5100) &&
		     !put_deferred_sample(&fake, COOKIE(5), 1, 42));
	DELIVERED("recent", RECORD, RECORD, 0x5100);
	CHECK("stats", !check_stats(fake.cd, 6, 0, 0, 0));

	/* A task that is stopped, after its record was written */
	for (int i = 0; i < 200; i++) {
		CHECK("put", !put_deferred_record(&fake, COOKIE(100 + i), 1, 50, 0x6000 + 2 * i));
		fake.nr = 0;
	}
	CHECK("put", !put_deferred_sample(&fake, COOKIE(100), 1, 51) &&
		     !put_deferred_sample(&fake, COOKIE(5), 1, 52));
	DELIVERED("kept", 0x6000, 0x5100);
	CHECK("stats", !check_stats(fake.cd, 8, 0, 0, 0));

	/* More records than are kept */
	for (int i = 0; i < 20000; i++) {
		CHECK("put", !put_deferred_record(&fake, COOKIE(300 + i), 1, 53, 0x6000 + 2 * i));
		fake.nr = 0;
	}
	CHECK("put", !put_deferred_sample(&fake, COOKIE(20299), 1, 54) &&
		     !put_deferred_sample(&fake, COOKIE(100), 1, 55));
	DELIVERED("newest", 0x6000 + 2 * 19999);
	CHECK("flush", !callchain_deferred__flush(fake.cd));
	DELIVERED("oldest", NO_RECORD);
	/* Tid 1 has not been seen since. */
	CHECK("stats", !check_stats(fake.cd, 9, 1, 0, 0));
	ret = TEST_OK;
out:
	fake_pipe__exit(&fake);
	return ret;
}

/*
 * The kernel does not record a stack again that it has recorded since the task
 * entered it. Later samples have the same cookie, and the record is before them.
 */
static int test__deferred_earlier_record(struct test_suite *test __maybe_unused,
					 int subtest __maybe_unused)
{
	static const struct callchain_deferred_bounds bounds = {
		.age = 1000, .bytes = 1 << 20,
	};
	struct callchain_deferred *cd = NULL;
	struct fake_file file = {};
	struct fake_pipe fake;
	int ret = TEST_FAIL;

	if (fake_pipe__init(&fake, &bounds))
		goto out;

	CHECK("put", !put_deferred_sample(&fake, COOKIE(1), 1, 10) &&
		     !put_deferred_record(&fake, COOKIE(1), 1, 11, 0x1000) &&
		     !put_deferred_sample(&fake, COOKIE(1), 1, 12) &&
		     !put_plain_sample(&fake, 1, 13) &&
		     !put_deferred_sample(&fake, COOKIE(1), 1, 14));
	DELIVERED("before, nothing waits", 0x1000, RECORD, 0x1000, 42, 0x1000);

	/* The last one before the sample, unless there is one after it */
	CHECK("put", !put_deferred_record(&fake, COOKIE(1), 1, 20, 0x2000) &&
		     !put_deferred_sample(&fake, COOKIE(1), 1, 21) &&
		     !put_deferred_sample(&fake, COOKIE(9), 9, 22) &&
		     !put_deferred_sample(&fake, COOKIE(1), 1, 23) &&
		     !put_deferred_record(&fake, COOKIE(1), 2, 24, 0x3000) &&
		     !put_deferred_record(&fake, COOKIE(1), 1, 25, 0x4000) &&
		     !put_deferred_sample(&fake, COOKIE(1), 1, 26) &&
		     !put_deferred_record(&fake, COOKIE(9), 9, 27, 0x9000));
	DELIVERED("last before, own after",
		  RECORD, 0x2000, 0x9000, 0x4000, RECORD, RECORD, 0x4000, RECORD);
	CHECK("stats", !check_stats(fake.cd, 7, 0, 0, 0));

	/* The same in a file */
	if (fake_file__init(&file, SAMPLE_TYPE_TIME, false))
		goto out;
	put_record(&file, COOKIE(1), 1, 11, 0x1000);
	put_record(&file, COOKIE(1), 1, 20, 0x2000);
	put_record(&file, COOKIE(1), 2, 24, 0x3000);
	put_record(&file, COOKIE(1), 1, 25, 0x4000);
	cd = fake_file__index(&file);
	CHECK("index", cd);
	SAMPLE_GETS("first after", COOKIE(1), 1, 10, 0x1000);
	SAMPLE_GETS("own after", COOKIE(1), 1, 23, 0x4000);
	SAMPLE_GETS("last before", COOKIE(1), 1, 26, 0x4000);
	ret = TEST_OK;
out:
	callchain_deferred__delete(cd);
	if (file.evlist)
		fake_file__exit(&file);
	fake_pipe__exit(&fake);
	return ret;
}

/* Of a sample in user mode the innermost frame is known, record or not. */
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
	put_record(&file, COOKIE(1), 1, 11, 0x1000);
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

/* Whatever never comes, or too late: all is delivered, in order, and counted. */
static int test__deferred_bounds(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	static const struct callchain_deferred_bounds age = {
		.age = 100, .bytes = 1 << 20,
	}, bytes = {
		.age = 1000000, .bytes = 2000,
	}, live = {
		.age = 1000000, .bytes = 1 << 20, .live = true,
	}, idle = {
		.age = 1000000, .bytes = 1 << 20, .idle = 1000000,
	};
	struct fake_pipe fake;
	int ret = TEST_FAIL;

	if (fake_pipe__init(&fake, &age))
		goto out;

	CHECK("put", !put_deferred_sample(&fake, COOKIE(1), 1, 1000) &&
		     !put_plain_sample(&fake, 2, 1050) &&
		     !put_deferred_sample(&fake, COOKIE(2), 2, 1060) &&
		     !put_plain_sample(&fake, 3, 1100));
	DELIVERED("young");
	CHECK("put", !put_plain_sample(&fake, 3, 1101));
	DELIVERED("old", NO_RECORD, 42);
	CHECK("pending", !check_stats(fake.cd, 0, 1, 0, 0));

	/* One that is late, one that is not */
	CHECK("put", !put_deferred_record(&fake, COOKIE(1), 1, 1102, 0x1000) &&
		     !put_deferred_record(&fake, COOKIE(2), 2, 1103, 0x2000));
	DELIVERED("rest", 0x2000, 42, 42, RECORD, RECORD);
	CHECK("late", !check_stats(fake.cd, 1, 0, 0, 1));

	/* One that was lost */
	CHECK("put", !put_deferred_sample(&fake, COOKIE(3), 1, 1200) &&
		     !put_deferred_sample(&fake, COOKIE(4), 1, 1201) &&
		     !put_deferred_record(&fake, COOKIE(4), 1, 1202, 0x4000));
	DELIVERED("lost, held");
	CHECK("flush", !callchain_deferred__flush(fake.cd));
	DELIVERED("lost", NO_RECORD, 0x4000, RECORD);
	CHECK("lost", !check_stats(fake.cd, 2, 0, 1, 1));
	fake_pipe__exit(&fake);

	/* Never more than a few events, never one left out */
	if (fake_pipe__init(&fake, &bytes))
		goto out;
	for (int i = 0; i < 1000; i++) {
		CHECK("put", !put_deferred_sample(&fake, COOKIE(i), 1000 + i, 1000 + i));
		if (i > 50) {
			CHECK("one in, one out", fake.nr == 1 && fake.log[0] == NO_RECORD);
			fake.nr = 0;
		} else if (fake.nr) {
			fake.nr = 0;
		}
	}
	CHECK("put", !put_deferred_record(&fake, COOKIE(999), 1999, 2000, 0x1000));
	CHECK("flush", !callchain_deferred__flush(fake.cd));
	CHECK("newest", fake.nr > 2 && fake.log[fake.nr - 2] == 0x1000);
	CHECK("all", !check_stats(fake.cd, 1, 999, 0, 0));
	fake_pipe__exit(&fake);

	/* Time goes on without events. */
	if (fake_pipe__init(&fake, &live))
		goto out;
	CHECK("put", !put_deferred_sample(&fake, COOKIE(1), 1, 1000));
	while (!fake.nr)
		CHECK("expire", !callchain_deferred__expire(fake.cd));
	DELIVERED("expired", NO_RECORD);
	CHECK("live tools do not ask", callchain_deferred__timeout(fake.cd) == -1);
	fake_pipe__exit(&fake);

	/* No input for a while: what waits for it goes, up to what need not wait. */
	if (fake_pipe__init(&fake, &idle))
		goto out;
	CHECK("nothing held", callchain_deferred__timeout(fake.cd) == -1);
	CHECK("put", !put_deferred_sample(&fake, COOKIE(1), 1, 1000) &&
		     !put_deferred_sample(&fake, COOKIE(2), 2, 1001) &&
		     !put_plain_sample(&fake, 3, 1002) &&
		     !put_deferred_record(&fake, COOKIE(2), 2, 1003, 0x2000));
	CHECK("held", callchain_deferred__timeout(fake.cd) >= 0 && !fake.nr);
	while (!fake.nr)
		CHECK("idle", !callchain_deferred__expire(fake.cd));
	DELIVERED("idle", NO_RECORD, 0x2000, 42, RECORD);
	CHECK("nothing held", callchain_deferred__timeout(fake.cd) == -1);
	/* Events that come are not late because nobody asked in between. */
	CHECK("put", !put_deferred_sample(&fake, COOKIE(3), 1, 1010));
	while (callchain_deferred__timeout(fake.cd) > 0)
		;
	CHECK("put", !put_deferred_record(&fake, COOKIE(3), 1, 1011, 0x3000));
	DELIVERED("there in time", 0x3000, RECORD);
	ret = TEST_OK;
out:
	fake_pipe__exit(&fake);
	return ret;
}

static const struct {
	const char *arg;
	int ret;
	enum perf_call_graph_mode mode;
	bool defer;
	u16 max_stack;
} option_cases[] = {
	{ "fp",			0,  CALLCHAIN_FP,    false, 0, },
	{ "fp,16",		0,  CALLCHAIN_FP,    false, 16, },
	{ "fp,defer",		0,  CALLCHAIN_FP,    true,  0, },
	{ "fp,defer,16",	0,  CALLCHAIN_FP,    true,  16, },
	{ "fp,16,defer",	0,  CALLCHAIN_FP,    true,  16, },
	{ "fp:defer",		0,  CALLCHAIN_FP,    true,  0, },
	{ "fp:16:defer",	0,  CALLCHAIN_FP,    true,  16, },
	{ "dwarf",		0,  CALLCHAIN_DWARF, false, 0, },
	{ "dwarf,4096",		0,  CALLCHAIN_DWARF, false, 0, },
	{ "lbr",		0,  CALLCHAIN_LBR,   false, 0, },
	{ "fp,",		0,  CALLCHAIN_FP,    false, 0, },
	{ "fp,deferred",	-1, CALLCHAIN_NONE,  false, 0, },
	{ "fp,16x",		-1, CALLCHAIN_NONE,  false, 0, },
	{ "fp,16,32",		-1, CALLCHAIN_NONE,  false, 0, },
	{ "dwarf,defer",	-1, CALLCHAIN_NONE,  false, 0, },
	{ "lbr,defer",		-1, CALLCHAIN_NONE,  false, 0, },
	{ "defer",		-1, CALLCHAIN_NONE,  false, 0, },
	{ "defer,fp",		-1, CALLCHAIN_NONE,  false, 0, },
};

static int test__deferred_options(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_cases); i++) {
		/* As call-graph.record-mode = fp,defer leaves it */
		struct callchain_param param = { .record_mode = CALLCHAIN_FP, .defer = true, };
		bool ok = parse_callchain_record_opt(option_cases[i].arg, &param) == 0;

		pr_debug("--call-graph %s\n", option_cases[i].arg);
		TEST_ASSERT_VAL("result", ok == (option_cases[i].ret == 0));
		if (!ok)
			continue;
		TEST_ASSERT_VAL("mode", param.record_mode == option_cases[i].mode);
		TEST_ASSERT_VAL("defer", param.defer == option_cases[i].defer);
		TEST_ASSERT_VAL("max_stack", param.max_stack == option_cases[i].max_stack);
	}

	return TEST_OK;
}

/* What each event asks for: d(eferred chains), o(utput), - is neither */
struct attr_case {
	const char *events;
	bool defer;
	bool no_merge;
	bool user_off;
	bool tracking_dummy;
	const char *bits[4];
};

static const struct attr_case attr_cases[] = {
	{ "cpu-clock", .defer = true, .bits = { "do", }, },
	{ "cpu-clock", .defer = false, .bits = { "-", }, },
	{ "cpu-clock,task-clock", .defer = true, .bits = { "do", "do", }, },
	/* No user callchain can be had, or nobody completes it. */
	{ "cpu-clock:k", .defer = true, .bits = { "-", }, },
	{ "cpu-clock:u", .defer = true, .bits = { "do", }, },
	{ "cpu-clock", .defer = true, .user_off = true, .bits = { "-", }, },
	{ "cpu-clock", .defer = true, .no_merge = true, .bits = { "-", }, },
	{ "cpu-clock/call-graph=fp:defer/", .no_merge = true, .bits = { "-", }, },
	/* These have no samples of their own. */
	{ "dummy", .defer = true, .bits = { "-", }, },
	{ "cpu-clock,bpf-output/no-inherit=1,name=x/", .defer = true, .bits = { "do", "-", }, },
	/* A dummy that tracks takes all records. */
	{ "dummy,cpu-clock", .defer = true, .bits = { "o", "d", }, },
	{ "cpu-clock", .defer = true, .tracking_dummy = true, .bits = { "d", "o", }, },
	{ "cpu-clock:k", .defer = true, .tracking_dummy = true, .bits = { "-", "-", }, },
	/* Terms override what holds for all. */
	{ "cpu-clock/call-graph=fp:defer/,task-clock", .defer = false, .bits = { "do", "-", }, },
	{ "cpu-clock/call-graph=fp:defer:16/", .defer = false, .bits = { "do", }, },
	{ "cpu-clock/call-graph=fp/,task-clock", .defer = true, .bits = { "-", "do", }, },
	{ "cpu-clock/call-graph=dwarf/,task-clock", .defer = true, .bits = { "-", "do", }, },
	{ "cpu-clock/call-graph=no/,task-clock", .defer = true, .bits = { "-", "do", }, },
	{ "cpu-clock/max-stack=16/", .defer = true, .bits = { "do", }, },
	{ "cpu-clock/max-stack=16/", .defer = false, .bits = { "-", }, },
};

static int check_attrs(const struct attr_case *c)
{
	struct record_opts opts = {
		.sample_time = true,
		.merges_callchains = !c->no_merge,
		.kernel_callchains = c->user_off,
		.user_freq = UINT_MAX,
		.user_interval = ULLONG_MAX,
		.freq = 4000,
		.default_interval = 4000,
	};
	struct evlist *evlist = evlist__new();
	struct evsel *evsel;
	int ret = TEST_FAIL, i = 0;

	pr_debug("%s%s\n", c->events, c->defer ? ", deferred" : "");
	CHECK("evlist", evlist);
	CHECK("parse", !parse_event(evlist, c->events));
	CHECK("maps", !evlist__create_maps(evlist, &opts.target));
	if (c->tracking_dummy)
		CHECK("dummy", evlist__findnew_tracking_event(evlist, false));

	callchain_param.defer = c->defer;
	evlist__config(evlist, &opts, &callchain_param);
	evlist__for_each_entry(evlist, evsel) {
		const char *bits = c->bits[i++];

		pr_debug("%s: defer_callchain %d defer_output %d\n", evsel__name(evsel),
			 evsel->core.attr.defer_callchain, evsel->core.attr.defer_output);
		CHECK("an event too many", bits);
		CHECK("defer_callchain", evsel->core.attr.defer_callchain == !!strchr(bits, 'd'));
		CHECK("defer_output", evsel->core.attr.defer_output == !!strchr(bits, 'o'));
	}
	CHECK("an event too few", !c->bits[i]);
	ret = TEST_OK;
out:
	evlist__delete(evlist);
	return ret;
}

static int test__deferred_attrs(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	struct callchain_param saved = callchain_param;
	int ret = TEST_OK;

	callchain_param.enabled = true;
	callchain_param.record_mode = CALLCHAIN_FP;
	for (size_t i = 0; i < ARRAY_SIZE(attr_cases) && ret == TEST_OK; i++)
		ret = check_attrs(&attr_cases[i]);
	callchain_param = saved;

	return ret;
}

static struct test_case tests__callchain_deferred[] = {
	TEST_CASE("Options", deferred_options),
	TEST_CASE("Event attributes", deferred_attrs),
	TEST_CASE("Missing user part", deferred_marker),
	TEST_CASE("Merging", deferred_merge),
	TEST_CASE("Merging, other byte order", deferred_merge_swapped),
	TEST_CASE("Merging without time", deferred_no_time),
	TEST_CASE("Index", deferred_index),
	TEST_CASE("Merging, compressed", deferred_compressed),
	TEST_CASE("Truncated and crafted files", deferred_bad_file),
	TEST_CASE("Statistics", deferred_stats),
	TEST_CASE("Holding back", deferred_hold_back),
	TEST_CASE("Bounds of holding back", deferred_bounds),
	TEST_CASE("Samples after their record", deferred_earlier_record),
	TEST_CASE("User frame without record", deferred_user_ip),
	{	.name = NULL, }
};

struct test_suite suite__callchain_deferred = {
	.desc = "Deferred callchains",
	.test_cases = tests__callchain_deferred,
};
