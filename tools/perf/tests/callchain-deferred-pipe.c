// SPDX-License-Identifier: GPL-2.0
/* Deferred user callchains of events that can be read only once, and so are held back */
#include <inttypes.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>

#include "util/callchain.h"
#include "util/callchain-deferred.h"
#include "util/debug.h"
#include "util/event.h"
#include "util/evlist.h"
#include "util/sample.h"
#include "tests.h"
#include "tests/callchain-deferred-common.h"

/* Events as they would come through a pipe, and a log of the delivered ones */
struct fake_pipe {
	struct fake_file		file;
	struct callchain_deferred	*cd;
	/*
	 * For a sample: a value like that of deferred_test__deliver(). Else RECORD or
	 * OTHER
	 */
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

	/* An event that was held back must not have changed. */
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

/* Returns the value of callchain_deferred__deliver(), or -1. */
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

/* Were exactly these events delivered, in this order? */
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

	/* The record of the first sample comes last. */
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
	CHECK("stats", !deferred_test__check_stats(fake.cd, 6, 0, 0, 0));

	/* A stopped task is sampled long after its record was written. */
	for (int i = 0; i < 200; i++) {
		CHECK("put", !put_deferred_record(&fake, COOKIE(100 + i), 1, 50, 0x6000 + 2 * i));
		fake.nr = 0;
	}
	CHECK("put", !put_deferred_sample(&fake, COOKIE(100), 1, 51) &&
		     !put_deferred_sample(&fake, COOKIE(5), 1, 52));
	DELIVERED("kept", 0x6000, 0x5100);
	CHECK("stats", !deferred_test__check_stats(fake.cd, 8, 0, 0, 0));

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
	CHECK("stats", !deferred_test__check_stats(fake.cd, 9, 1, 0, 0));
	ret = TEST_OK;
out:
	fake_pipe__exit(&fake);
	return ret;
}

/*
 * The kernel does not record a stack again that it has recorded since the task entered
 * the kernel. Later samples have the same cookie, and the record is before them.
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
	CHECK("stats", !deferred_test__check_stats(fake.cd, 7, 0, 0, 0));

	/* The same in a file */
	if (fake_file__init(&file, SAMPLE_TYPE_TIME, false))
		goto out;
	fake_file__put_record(&file, COOKIE(1), 1, 11, 0x1000);
	fake_file__put_record(&file, COOKIE(1), 1, 20, 0x2000);
	fake_file__put_record(&file, COOKIE(1), 2, 24, 0x3000);
	fake_file__put_record(&file, COOKIE(1), 1, 25, 0x4000);
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

/*
 * If records never come, or come too late, all events are delivered in order and
 * counted.
 */
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
	CHECK("pending", !deferred_test__check_stats(fake.cd, 0, 1, 0, 0));

	/* A late record, and one that is in time */
	CHECK("put", !put_deferred_record(&fake, COOKIE(1), 1, 1102, 0x1000) &&
		     !put_deferred_record(&fake, COOKIE(2), 2, 1103, 0x2000));
	DELIVERED("rest", 0x2000, 42, 42, RECORD, RECORD);
	CHECK("late", !deferred_test__check_stats(fake.cd, 1, 0, 0, 1));

	/* A record that was lost */
	CHECK("put", !put_deferred_sample(&fake, COOKIE(3), 1, 1200) &&
		     !put_deferred_sample(&fake, COOKIE(4), 1, 1201) &&
		     !put_deferred_record(&fake, COOKIE(4), 1, 1202, 0x4000));
	DELIVERED("lost, held");
	CHECK("flush", !callchain_deferred__flush(fake.cd));
	DELIVERED("lost", NO_RECORD, 0x4000, RECORD);
	CHECK("lost", !deferred_test__check_stats(fake.cd, 2, 0, 1, 1));
	fake_pipe__exit(&fake);

	/* Only a few events are held, and each one is delivered. */
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
	CHECK("all", !deferred_test__check_stats(fake.cd, 1, 999, 0, 0));
	fake_pipe__exit(&fake);

	/* Time goes on without events. */
	if (fake_pipe__init(&fake, &live))
		goto out;
	CHECK("put", !put_deferred_sample(&fake, COOKIE(1), 1, 1000));
	CHECK("live tools do not ask for a timeout", callchain_deferred__timeout(fake.cd) == -1);
	while (!fake.nr)
		CHECK("expire", !callchain_deferred__expire(fake.cd));
	DELIVERED("expired", NO_RECORD);
	fake_pipe__exit(&fake);

	/*
	 * Without input for a while, samples that wait are delivered, and events after
	 * them.
	 */
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
	/*
	 * A record is in time if it comes before callchain_deferred__expire() is
	 * called.
	 */
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

static struct test_case tests__deferred_pipe[] = {
	TEST_CASE("Holding back", deferred_hold_back),
	TEST_CASE("Bounds of holding back", deferred_bounds),
	TEST_CASE("Samples after their record", deferred_earlier_record),
	{	.name = NULL, }
};

struct test_suite suite__deferred_pipe = {
	.desc = "Deferred callchains in pipes",
	.test_cases = tests__deferred_pipe,
};
