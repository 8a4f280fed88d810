// SPDX-License-Identifier: GPL-2.0
/*
 * Damaged records of deferred user callchains: whatever is in them, a session
 * reads or refuses the file.
 *
 * Each input is a perf.data file that is made here and then changed in a few
 * places. PERF_TEST_DAMAGED=<inputs>[,<seed>] runs more inputs than a short test
 * does, best in a perf that was built with
 * EXTRA_CFLAGS="-fsanitize=address,undefined". A signal or a sanitizer ends the test.
 * The input then remains in /tmp/__perf_test.damaged.*.
 */
#include <byteswap.h>
#include <inttypes.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/zalloc.h>
#include <linux/string.h>
#include <perf/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/callchain.h"
#include "util/callchain-deferred.h"
#include "util/data.h"
#include "util/debug.h"
#include "util/event.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/header.h"
#include "util/machine.h"
#include "util/sample.h"
#include "util/session.h"
#include "util/thread.h"
#include "util/tool.h"
#include "tests.h"

#define NR_INPUTS		2000
#define MAX_SECONDS		20

#define MAX_WORDS		2048
#define MAX_EVENTS		256
#define MAX_CHANGES		4
#define NR_SAMPLES		24
#define PID			1000

/* With its size, which has 32 bits, in words */
#define RAW			"raw data 12"
#define RAW_WORDS		2

/* A file, in 64-bit words: all sizes are multiples of 8 bytes */
struct image {
	u64	words[MAX_WORDS];
	int	nr;
	/* Where events start that may be changed, as an index */
	int	events[MAX_EVENTS];
	int	nr_events;
	bool	is_pipe;
	bool	swap;
	/* Samples have raw data. */
	bool	has_raw;
	/* The attr has the bits of deferred callchains. */
	bool	is_announced;
	/* Nothing was changed. */
	bool	is_sound;
};

static u64 seed;

/* xorshift64*: the same sequence everywhere */
static u64 random_u64(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;

	return seed * 0x2545f4914f6cdd1dULL;
}

static u32 random_below(u32 limit)
{
	return (random_u64() >> 32) % limit;
}

static void put(struct image *image, u64 word)
{
	if (image->nr < MAX_WORDS)
		image->words[image->nr++] = word;
}

static void put_u32s(struct image *image, u32 first, u32 second)
{
	put(image, (u64)second << 32 | first);
}

static int put_event(struct image *image, u32 type, u16 misc, bool may_change)
{
	if (may_change && image->nr_events < MAX_EVENTS)
		image->events[image->nr_events++] = image->nr;
	put(image, (u64)misc << 32 | type);

	return image->nr - 1;
}

/* Sets the size of the event that began at @start. */
static void end_event(struct image *image, int start)
{
	image->words[start] |= (u64)(image->nr - start) * sizeof(u64) << 48;
}

static void put_attr(struct image *image)
{
	union {
		struct perf_event_attr attr;
		u64 words[sizeof(struct perf_event_attr) / sizeof(u64)];
	} attr = {
		.attr = {
			.type = PERF_TYPE_SOFTWARE,
			.size = sizeof(struct perf_event_attr),
			.config = PERF_COUNT_SW_CPU_CLOCK,
			.sample_period = 1,
			.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
			.sample_id_all = 1,
			.defer_callchain = image->is_announced,
			.defer_output = image->is_announced,
		},
	};

	if (image->has_raw)
		attr.attr.sample_type |= PERF_SAMPLE_RAW;

	for (size_t i = 0; i < ARRAY_SIZE(attr.words); i++)
		put(image, attr.words[i]);
}

static void put_raw(struct image *image)
{
	struct {
		u32 size;
		char data[sizeof(RAW)];
	} raw = {
		.size = image->swap ? bswap_32(sizeof(RAW)) : sizeof(RAW),
		.data = RAW,
	};
	u64 words[RAW_WORDS];

	BUILD_BUG_ON(sizeof(raw) != sizeof(words));

	/* These are bytes, but all words will be swapped. */
	memcpy(words, &raw, sizeof(words));
	for (int i = 0; i < RAW_WORDS; i++)
		put(image, image->swap ? bswap_64(words[i]) : words[i]);
}

static void put_sample(struct image *image, u32 tid, u64 time, u64 cookie)
{
	int start = put_event(image, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, true);

	put_u32s(image, PID, tid);
	put(image, time);
	put(image, 4);
	put(image, PERF_CONTEXT_KERNEL);
	put(image, 0xffffffff81000000ULL);
	put(image, PERF_CONTEXT_USER_DEFERRED);
	put(image, cookie);
	if (image->has_raw)
		put_raw(image);
	end_event(image, start);
}

static void put_record(struct image *image, u32 tid, u64 time, u64 cookie, u64 nr)
{
	int start = put_event(image, PERF_RECORD_CALLCHAIN_DEFERRED, PERF_RECORD_MISC_USER, true);

	put(image, cookie);
	put(image, nr);
	for (u64 i = 0; i < nr; i++)
		put(image, 0x400000 + 16 * i);
	put_u32s(image, PID, tid);
	put(image, time);
	end_event(image, start);
}

static void put_exit(struct image *image, u32 tid, u64 time)
{
	int start = put_event(image, PERF_RECORD_EXIT, 0, false);

	put_u32s(image, PID, PID);
	put_u32s(image, tid, PID);
	put(image, time);
	put_u32s(image, PID, tid);
	put(image, time);
	end_event(image, start);
}

static void put_events(struct image *image)
{
	u64 time = 1000;
	int start;

	for (int i = 0; i < NR_SAMPLES; i++) {
		u32 tid = PID + random_below(4);

		put_sample(image, tid, time++, 0x5000 + i);
		if (random_below(4))
			put_sample(image, tid, time++, 0x5000 + i);
		if (i >= 3 && random_below(8))
			put_record(image, tid, time++, 0x5000 + i - 3, random_below(12));
		if (!random_below(8))
			put_exit(image, tid, time++);
		if (!random_below(6)) {
			start = put_event(image, PERF_RECORD_FINISHED_ROUND, 0, false);
			end_event(image, start);
		}
	}
}

static const u64 interesting[] = {
	0, 1, 2, 7, 8, 16, 24, 0x7fff, 0x8000, 0xfff8, 0xffff, 0x10000,
	0x7fffffff, 0x80000000, 0xffffffff, 0x1fffffffffffffffULL,
	0x2000000000000000ULL, 0x7fffffffffffffffULL, 0x8000000000000000ULL,
	PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER, PERF_CONTEXT_USER_DEFERRED,
	PERF_CONTEXT_MAX, UINT64_MAX, 0x5000, 0x5003,
};

static u64 changed(u64 word)
{
	switch (random_below(4)) {
	case 0:
		return interesting[random_below(ARRAY_SIZE(interesting))];
	case 1:
		return word + random_below(17) - 8;
	case 2:
		return word ^ 1ULL << random_below(64);
	default:
		return random_u64();
	}
}

/* The type must stay that of a sample or a record. Misc and size may change. */
static void change_header(u64 *word)
{
	u64 size = *word >> 48;

	*word &= 0xffffffffULL;
	if (random_below(4))
		*word |= (u64)(u16)changed(size) << 48 | (u64)PERF_RECORD_MISC_USER << 32;
	else
		*word |= size << 48 | (u64)random_below(8) << 32;
}

static void change(struct image *image)
{
	int event = random_below(image->nr_events);
	int start = image->events[event];
	int size = (image->words[start] >> 48) / sizeof(u64);
	int other;
	u64 word;

	/*
	 * Do not change sizes in a swapped file: events would begin where none should,
	 * and perf trusts the contents of other types when it swaps them.
	 */
	switch (image->swap ? 1 + 2 * random_below(4) : random_below(8)) {
	case 0:
		change_header(&image->words[start]);
		break;
	case 1:
		/* Two events exchange their first words. */
		other = image->events[random_below(image->nr_events)];
		word = image->words[start + 1];
		image->words[start + 1] = image->words[other + 1];
		image->words[other + 1] = word;
		break;
	case 2:
		/* The end of the file */
		if (!random_below(4))
			image->nr = min(image->nr, (int)(start + random_below(size + 1)));
		break;
	default:
		/* Most of these are ids, the number of entries or entries. */
		if (size > 1)
			start += 1 + random_below(size - 1);
		if (start < MAX_WORDS)
			image->words[start] = changed(image->words[start]);
		break;
	}
}

/* Swap the events, as a machine with the other byte order would write them. */
static void swap_events(struct image *image, int first)
{
	int pos = first;

	while (pos < image->nr) {
		u64 *word = &image->words[pos];
		u32 type = *word;
		u16 misc = *word >> 32, size = *word >> 48;
		int end = pos + max(size / (int)sizeof(u64), 1);

		*word = (u64)bswap_16(size) << 48 | (u64)bswap_16(misc) << 32 | bswap_32(type);
		for (pos++; pos < end && pos < image->nr; pos++)
			image->words[pos] = bswap_64(image->words[pos]);
	}
}

#define HEADER_WORDS	13
#define ATTR_WORDS	(sizeof(struct perf_event_attr) / sizeof(u64))
#define MAGIC		0x32454c4946524550ULL

static void make_image(struct image *image)
{
	int first, start, nr_changes = random_below(MAX_CHANGES + 1);

	image->nr = 0;
	image->nr_events = 0;
	image->is_pipe = !random_below(3);
	image->swap = !image->is_pipe && !random_below(4);
	image->has_raw = random_below(2);
	image->is_announced = random_below(4);
	image->is_sound = !nr_changes;
	if (image->is_pipe) {
		put(image, MAGIC);
		put(image, 2 * sizeof(u64));
		start = put_event(image, PERF_RECORD_HEADER_ATTR, 0, false);
		put_attr(image);
		end_event(image, start);
	} else {
		for (int i = 0; i < HEADER_WORDS; i++)
			put(image, 0);
		put_attr(image);
		put(image, 0);
		put(image, 0);
	}

	first = image->nr;
	put_events(image);
	for (int i = 0; i < nr_changes; i++)
		change(image);

	if (!image->is_pipe) {
		u64 header[] = {
			MAGIC, HEADER_WORDS * sizeof(u64), (ATTR_WORDS + 2) * sizeof(u64),
			HEADER_WORDS * sizeof(u64), (ATTR_WORDS + 2) * sizeof(u64),
			first * sizeof(u64), (image->nr - first) * sizeof(u64),
		};

		memcpy(image->words, header, sizeof(header));
		if (image->swap) {
			struct perf_event_attr *attr = (void *)&image->words[HEADER_WORDS];

			swap_events(image, first);
			for (size_t i = 0; i < ARRAY_SIZE(header); i++)
				image->words[i] = bswap_64(image->words[i]);
			perf_event__attr_swap(attr);
			attr->size = bswap_32(sizeof(*attr));
		}
	}
}

struct damaged_tool {
	struct perf_tool	tool;
	u64			nr_samples;
	u64			nr_merged;
	u64			sum;
	/* Counts of raw data, if the input was not changed */
	bool			has_raw;
	u64			nr_raw;
	u64			nr_other_raw;
};

/* Read all data of the sample, so that sanitizers detect bad pointers. */
static int process_sample(const struct perf_tool *tool,
			  union perf_event *event __maybe_unused,
			  struct perf_sample *sample, struct evsel *evsel,
			  struct machine *machine)
{
	struct damaged_tool *damaged = container_of(tool, struct damaged_tool, tool);
	struct callchain_cursor *cursor = get_tls_callchain_cursor();
	struct thread *thread;

	damaged->nr_samples++;
	for (u64 i = 0; sample->callchain && i < sample->callchain->nr; i++) {
		damaged->sum += sample->callchain->ips[i];
		damaged->nr_merged += sample->callchain->ips[i] == PERF_CONTEXT_USER;
	}

	for (u32 i = 0; sample->raw_data && i < sample->raw_size; i++)
		damaged->sum += ((u8 *)sample->raw_data)[i];
	if (damaged->has_raw) {
		if (sample->raw_size == sizeof(RAW) && !memcmp(sample->raw_data, RAW, sizeof(RAW)))
			damaged->nr_raw++;
		else
			damaged->nr_other_raw++;
	}

	thread = machine__findnew_thread(machine, sample->pid, sample->tid);
	if (thread) {
		thread__resolve_callchain(thread, cursor, evsel, sample, NULL, NULL,
					  PERF_MAX_STACK_DEPTH);
		thread__put(thread);
	}

	return 0;
}

static int process_record(const struct perf_tool *tool, union perf_event *event,
			  struct perf_sample *sample __maybe_unused,
			  struct machine *machine __maybe_unused)
{
	struct damaged_tool *damaged = container_of(tool, struct damaged_tool, tool);

	for (u64 i = 0; i < event->callchain_deferred.nr; i++)
		damaged->sum += event->callchain_deferred.ips[i];

	return 0;
}

/* Returns whether the session could be read to its end. */
static bool run_input(struct damaged_tool *damaged, const char *path)
{
	struct perf_data data = {
		.path = path,
		.mode = PERF_DATA_MODE_READ,
		.force = true,
	};
	struct perf_session *session;
	bool ok;

	perf_tool__init(&damaged->tool, /*ordered_events=*/random_below(4));
	damaged->tool.sample = process_sample;
	damaged->tool.callchain_deferred = process_record;
	damaged->tool.exit = perf_event__process_exit;
	damaged->tool.attr = perf_event__process_attr;
	damaged->tool.no_warn = true;
	damaged->tool.merge_deferred_callchains = random_below(8);

	session = perf_session__new(&data, &damaged->tool);
	if (IS_ERR(session))
		return false;

	ok = !perf_session__process_events(session);
	perf_session__delete(session);

	return ok;
}

static bool write_image(const struct image *image, const char *path)
{
	FILE *fp;
	bool ok;

	/* Sessions do not unmap files, and to truncate one takes time for each mapping. */
	unlink(path);
	fp = fopen(path, "w");
	if (!fp)
		return false;

	ok = fwrite(image->words, sizeof(u64), image->nr, fp) == (size_t)image->nr;

	return !fclose(fp) && ok;
}

static int test__deferred_damaged(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct damaged_tool *damaged = zalloc(sizeof(*damaged));
	struct image *image = zalloc(sizeof(*image));
	char path[] = "/tmp/__perf_test.damaged.XXXXXX";
	const char *env = getenv("PERF_TEST_DAMAGED");
	u64 nr_inputs = NR_INPUTS, first_seed = 1, nr_read = 0, nr_refused = 0;
	int fd = mkstemp(path), saved_verbose = verbose;
	int ret = TEST_FAIL;

	if (!damaged || !image || fd < 0)
		goto out;

	if (env && sscanf(env, "%" SCNu64 ",%" SCNu64, &nr_inputs, &first_seed) < 1) {
		pr_err("PERF_TEST_DAMAGED is not a number: %s\n", env);
		goto out;
	}

	/* Do not print errors about the files. */
	verbose = -1;
	for (u64 i = 0; i < nr_inputs; i++) {
		/* Any input can be run alone. */
		seed = (first_seed + i) * 0x9e3779b97f4a7c15ULL;
		make_image(image);
		if (!write_image(image, path))
			goto out;
		alarm(MAX_SECONDS);
		damaged->has_raw = image->has_raw && image->is_sound;
		if (run_input(damaged, path))
			nr_read++;
		else
			nr_refused += image->is_sound;
	}
	alarm(0);
	verbose = saved_verbose;
	pr_debug("%" PRIu64 " inputs, %" PRIu64 " of them read to the end\n", nr_inputs, nr_read);
	pr_debug("%" PRIu64 " samples, %" PRIu64 " merged\n", damaged->nr_samples,
		 damaged->nr_merged);

	pr_debug("%" PRIu64 " sound inputs refused\n", nr_refused);
	pr_debug("%" PRIu64 " samples with raw data, %" PRIu64 " with wrong raw data\n",
		 damaged->nr_raw, damaged->nr_other_raw);

	/* Some inputs are not damaged, and many samples are read before damage. */
	if (nr_read > nr_inputs / 10 && damaged->nr_merged > nr_inputs &&
	    damaged->nr_raw && !damaged->nr_other_raw && !nr_refused)
		ret = TEST_OK;
out:
	verbose = saved_verbose;
	if (fd >= 0) {
		unlink(path);
		close(fd);
	}
	free(damaged);
	free(image);
	return ret;
}

DEFINE_SUITE("Deferred callchains in damaged files", deferred_damaged);
