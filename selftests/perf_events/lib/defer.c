// SPDX-License-Identifier: GPL-2.0
/* Deferred user callchains: which record belongs to which sample, and whether any is missing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "../../kselftest.h"
#include "defer.h"
#include "event.h"
#include "known_stack.h"
#include "log.h"

/* An event that never samples and only receives records. */
struct perf_event_attr defer_attr_output(void)
{
	return event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0,
			  DEFER_ATTR_OUTPUT);
}

/*
 * Why the tests cannot run on this machine; NULL when they can. This only checks that
 * the ABI is present. The tests check that it works.
 */
const char *defer_unsupported(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.size = sizeof(attr),
	};
	static char why[256];
	int fd;

	if (!HAVE_KNOWN_STACK)
		return "no known-stack code for this architecture";
	fd = event_open(&attr, 0, -1, 0);
	if (fd < 0) {
		snprintf(why, sizeof(why), "perf_event_open: %s (root needed?)",
			 strerror(errno));
		return why;
	}
	close(fd);
	*attr_flags(&attr) |= DEFER_ATTR_CALLCHAIN;
	fd = event_open(&attr, 0, -1, 0);
	if (fd < 0) {
		snprintf(why, sizeof(why),
			 "kernel lacks perf_event_attr::defer_callchain: %s",
			 strerror(errno));
		return why;
	}
	close(fd);
	if (access(DEFER_SYSCTL, R_OK))
		return "kernel built without deferred unwinding (no "
		       DEFER_SYSCTL ")";
	if (geteuid())
		return "must be run as root";
	return NULL;
}

/* By cookie, then by type (samples have the lower number). */
static int defer_cmp_cookie(const void *a, const void *b)
{
	const struct log_item *x = *(const struct log_item * const *)a;
	const struct log_item *y = *(const struct log_item * const *)b;

	if (x->cookie != y->cookie)
		return x->cookie < y->cookie ? -1 : 1;
	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	return 0;
}

const struct log_item *defer_find_record(struct event_log *log, __u64 cookie)
{
	unsigned int i, low = 0, high;

	if (!log->index) {
		log->index = grow(NULL, (log->nr_items + 1) *
				  sizeof(*log->index));
		for (i = 0; i < log->nr_items; i++) {
			if (defer_is_record(&log->items[i]))
				log->index[log->nr_index++] = &log->items[i];
		}
		qsort(log->index, log->nr_index, sizeof(*log->index),
		      defer_cmp_cookie);
	}
	for (high = log->nr_index; low < high; ) {
		i = low + (high - low) / 2;
		if (log->index[i]->cookie < cookie)
			low = i + 1;
		else
			high = i;
	}
	if (low < log->nr_index && log->index[low]->cookie == cookie)
		return log->index[low];
	return NULL;
}

/*
 * The user part of a sample, from the record if it was deferred, else from the
 * sample itself.  Returns its length, -1 if there is none.
 */
int defer_user_chain(struct event_log *log, const struct log_item *sample,
		     const __u64 **ips)
{
	unsigned int i;

	if (sample->cookie) {
		const struct log_item *rec;

		rec = defer_find_record(log, sample->cookie);
		if (!rec)
			return -1;
		*ips = rec->ips;
		return rec->nr;
	}
	for (i = 0; i < sample->nr; i++) {
		if (sample->ips[i] == PERF_CONTEXT_USER) {
			*ips = sample->ips + i + 1;
			return sample->nr - i - 1;
		}
	}
	return -1;
}

/* Account for every cookie of a parsed log. */
struct defer_stats defer_conserve(struct event_log *log)
{
	struct defer_stats st = { .lost = log->lost };
	const struct log_item **v;
	unsigned int i, j, n = 0;

	v = grow(NULL, (log->nr_items + 1) * sizeof(*v));
	for (i = 0; i < log->nr_items; i++) {
		const struct log_item *it = &log->items[i];

		if (defer_is_record(it)) {
			st.records++;
		} else if (is_sample(it)) {
			const __u64 *ips;

			st.samples++;
			if (it->cookie)
				st.deferred++;
			else if (defer_user_chain(log, it, &ips) > 0)
				st.immediate++;
			else
				st.kernel_only++;
		}
		if (it->cookie)
			v[n++] = it;
	}
	qsort(v, n, sizeof(*v), defer_cmp_cookie);

	for (i = 0; i < n; i = j) {
		unsigned int nr_samples = 0, nr_records = 0, k;
		const struct log_item *rec = NULL;

		for (j = i; j < n && v[j]->cookie == v[i]->cookie; j++) {
			if (defer_is_record(v[j])) {
				if (!rec || rec->cpu == v[j]->cpu)
					nr_records++;
				if (!rec || item_after(v[j], rec))
					rec = v[j];
			} else {
				nr_samples++;
			}
			if (v[j]->tid != v[i]->tid)
				st.foreign++;
		}
		if (nr_records > 1)
			st.duplicate++;
		if (!nr_samples) {
			st.unasked += nr_records;
			continue;
		}
		st.cookies++;
		if (!rec) {
			if (!st.missing)
				fprintf(stderr,
					"# no record for cookie %llx: tid %u cpu %u nr %llu type %u\n",
					(unsigned long long)v[i]->cookie,
					v[i]->tid, v[i]->cpu,
					(unsigned long long)v[i]->nr,
					v[i]->type);
			st.missing++;
			continue;
		}
		for (k = i; k < j; k++) {
			if (is_sample(v[k]) && !item_after(v[k], rec))
				st.late++;
		}
	}
	free(v);
	return st;
}

void defer_print(const struct defer_stats *st)
{
	fprintf(stderr,
		"# samples %u: deferred %u, immediate %u, kernel only %u; cookies %u, records %u, unasked %u, missing %u, duplicate %u, foreign %u, late %u, lost %llu\n",
		st->samples, st->deferred, st->immediate, st->kernel_only,
		st->cookies, st->records, st->unasked, st->missing,
		st->duplicate, st->foreign, st->late,
		(unsigned long long)st->lost);
}
