// SPDX-License-Identifier: GPL-2.0
/* Writes a file of records, and checks which record a sample gets */
#include <byteswap.h>
#include <inttypes.h>
#include <stdio.h>
#include <linux/perf_event.h>

#include "util/callchain.h"
#include "util/callchain-deferred.h"
#include "util/debug.h"
#include "util/event.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/sample.h"
#include "util/session.h"
#include "tests/callchain-deferred-common.h"

int fake_file__init(struct fake_file *file, u64 sample_type, bool needs_swap)
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

void fake_file__exit(struct fake_file *file)
{
	evlist__delete(file->evlist);
	if (file->fp)
		fclose(file->fp);
}

void fake_file__put_u64(struct fake_file *file, u64 val)
{
	if (file->needs_swap)
		val = bswap_64(val);
	fwrite(&val, sizeof(val), 1, file->fp);
}

void fake_file__put_header(struct fake_file *file, u32 type, u16 size)
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
u64 fake_file__put_record(struct fake_file *file, u64 cookie, u32 tid, u64 time, u64 first)
{
	bool has_time = file->sample_type & PERF_SAMPLE_TIME;
	u64 pos = ftell(file->fp);

	fake_file__put_header(file, PERF_RECORD_CALLCHAIN_DEFERRED,
			      sizeof(struct perf_record_callchain_deferred) +
			      (has_time ? 4 : 3) * sizeof(u64));
	fake_file__put_u64(file, cookie);
	fake_file__put_u64(file, 2);
	fake_file__put_u64(file, first);
	fake_file__put_u64(file, first + 1);
	put_tid(file, tid);
	if (has_time)
		fake_file__put_u64(file, time);

	return pos;
}

struct callchain_deferred *fake_file__index(struct fake_file *file)
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
 * Deliver a sample. Returns the first ip of the record that it got, NO_RECORD if it got
 * only the marker, UINT64_MAX for anything else.
 */
u64 deferred_test__deliver(struct callchain_deferred *cd, u64 cookie, u32 tid,
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

int deferred_test__check_stats(struct callchain_deferred *cd, u64 merged, u64 pending,
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
