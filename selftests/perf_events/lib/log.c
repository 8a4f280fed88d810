// SPDX-License-Identifier: GPL-2.0
/*
 * The contents of one or more ring buffers: samples, deferred records and all else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/perf_event.h>

#include "../../kselftest.h"
#include "event.h"
#include "log.h"

void log_free(struct event_log *log)
{
	free(log->data);
	free(log->chunks);
	free(log->items);
	free(log->index);
	memset(log, 0, sizeof(*log));
}

void *grow(void *p, size_t size)
{
	p = realloc(p, size);
	if (!p) {
		fprintf(stderr, "# out of memory\n");
		abort();
	}
	return p;
}

/* u64 words of a sample_id. */
static unsigned int id_words(__u64 type)
{
	return !!(type & PERF_SAMPLE_TID) + !!(type & PERF_SAMPLE_TIME) +
	       !!(type & PERF_SAMPLE_CPU) + !!(type & PERF_SAMPLE_IDENTIFIER);
}

static bool parse_id(struct log_item *it, __u64 type, const char *end,
		     const char *start)
{
	const __u64 *p = (const __u64 *)end - id_words(type);

	if ((const char *)p < start)
		return false;
	if (type & PERF_SAMPLE_TID) {
		const __u32 *ids = (const __u32 *)p++;

		it->pid = ids[0];
		it->tid = ids[1];
	}
	if (type & PERF_SAMPLE_TIME)
		it->time = *p++;
	if (type & PERF_SAMPLE_CPU)
		it->cpu = *(const __u32 *)p++;
	if (type & PERF_SAMPLE_IDENTIFIER)
		it->ident = *p;
	return true;
}

static const char *
parse_sample(struct log_item *it, __u64 type, const __u64 *p,
	     const __u64 *end)
{
	if (type & PERF_SAMPLE_IDENTIFIER)
		it->ident = *p++;
	if (type & PERF_SAMPLE_IP)
		it->ip = *p++;
	if (type & PERF_SAMPLE_TID) {
		const __u32 *ids = (const __u32 *)p++;

		it->pid = ids[0];
		it->tid = ids[1];
	}
	if (type & PERF_SAMPLE_TIME)
		it->time = *p++;
	if (type & PERF_SAMPLE_CPU)
		it->cpu = *(const __u32 *)p++;
	if (type & PERF_SAMPLE_CALLCHAIN) {
		unsigned int i;

		if (p >= end)
			return "sample ends before its chain";
		it->nr = *p++;
		if (it->nr > (__u64)(end - p))
			return "chain is longer than its sample";
		it->ips = p;
		p += it->nr;
		for (i = 0; i < it->nr; i++) {
			if (it->ips[i] != DEFER_CONTEXT)
				continue;
			if (i + 2 != it->nr)
				return "deferred marker is not last but one";
			it->cookie = it->ips[i + 1];
			if (!it->cookie)
				return "sample has cookie 0";
			break;
		}
	}
	if (type & PERF_SAMPLE_RAW) {
		if (p >= end)
			return "sample ends before its raw data";
		it->raw_size = *(const __u32 *)p;
		it->raw = (const char *)p + sizeof(__u32);
		if (it->raw_size + sizeof(__u32) >
		    (size_t)((const char *)end - (const char *)p))
			return "raw data is longer than its sample";
	}
	return NULL;
}

static const char *
parse_record(struct log_item *it, __u64 type, bool sample_id_all)
{
	const __u64 *p = (const __u64 *)it->record;
	size_t id_size = sample_id_all ? 8 * id_words(type) : 0;
	unsigned int i;

	if (it->size < 24 + id_size)
		return "deferred record is shorter than its fixed part";
	it->cookie = p[1];
	it->nr = p[2];
	it->ips = p + 3;
	if (it->nr > (it->size - 24 - id_size) / 8 ||
	    24 + 8 * it->nr + id_size != it->size)
		return "nr of the deferred record does not match its size";
	if (!it->cookie)
		return "deferred record has cookie 0";
	if ((it->misc & ~(DEFER_MISC_CUT | DEFER_MISC_BROKEN)) != PERF_RECORD_MISC_USER)
		return "misc of the deferred record is not MISC_USER";
	for (i = 0; i < it->nr; i++) {
		if (it->ips[i] >= PERF_CONTEXT_MAX)
			return "context marker in a deferred record";
	}
	return NULL;
}

/* Fill in everything that the bytes of one record say. */
static const char *
parse_one(struct event_log *log, struct log_item *it)
{
	const struct perf_event_header *h = it->record;
	const char *start = (const char *)(h + 1);
	const char *end = (const char *)h + h->size;

	it->type = h->type;
	it->misc = h->misc;
	it->size = h->size;
	if (h->type == PERF_RECORD_SAMPLE)
		return parse_sample(it, log->sample_type,
				    (const __u64 *)start,
				    (const __u64 *)end);
	if (log->sample_id_all &&
	    !parse_id(it, log->sample_type, end, start))
		return "no room for sample_id";
	if (h->type == PERF_RECORD_LOST)
		log->lost += ((const __u64 *)h)[2];
	if (h->type == DEFER_RECORD)
		return parse_record(it, log->sample_type,
				    log->sample_id_all);
	return NULL;
}

static void drop_index(struct event_log *log)
{
	free(log->index);
	log->index = NULL;
	log->nr_index = 0;
}

/* Parse everything collected so far. The items point into the log. */
int log_parse(struct event_log *log)
{
	size_t at, end, cap = 0;
	unsigned int c;

	log->nr_items = 0;
	log->lost = 0;
	log->error = NULL;
	drop_index(log);
	for (c = 0; c < log->nr_chunks; c++) {
		const struct log_chunk *chunk = &log->chunks[c];

		at = chunk->off;
		end = at + chunk->len;
		while (at < end) {
			const struct perf_event_header *h;
			struct log_item *it;

			h = (const void *)(log->data + at);
			if (h->size < sizeof(*h) || h->size % 8 ||
			    h->size > end - at) {
				log->error = "broken record header";
				return -1;
			}
			if (log->nr_items == cap) {
				cap = cap ? 2 * cap : 1024;
				log->items = grow(log->items,
						  cap * sizeof(*it));
			}
			it = &log->items[log->nr_items++];
			memset(it, 0, sizeof(*it));
			it->buf = chunk->buf;
			it->pos = chunk->pos + (at - chunk->off);
			it->record = h;
			log->error = parse_one(log, it);
			if (log->error)
				return -1;
			at += h->size;
		}
	}
	return 0;
}

/*
 * Does b come after a? Records of one buffer are in order, so their positions decide.
 * For records of different buffers, the clock decides.
 */
bool item_after(const struct log_item *a, const struct log_item *b)
{
	if (a->buf == b->buf)
		return b->pos > a->pos;
	return b->time >= a->time;
}

/* The i-th item of a type, NULL if there are fewer. */
const struct log_item *
log_nth(const struct event_log *log, __u32 type, unsigned int i)
{
	unsigned int j;

	for (j = 0; j < log->nr_items; j++) {
		if (log->items[j].type == type && !i--)
			return &log->items[j];
	}
	return NULL;
}

unsigned int log_count(const struct event_log *log, __u32 type)
{
	unsigned int j, n = 0;

	for (j = 0; j < log->nr_items; j++)
		n += log->items[j].type == type;
	return n;
}

/* Keep only the items of a process. */
void log_keep_pid(struct event_log *log, pid_t pid)
{
	unsigned int i, n = 0;

	drop_index(log);
	for (i = 0; i < log->nr_items; i++) {
		if (log->items[i].pid == (__u32)pid)
			log->items[n++] = log->items[i];
	}
	log->nr_items = n;
}

void stack_dump(const char *what, const __u64 *ips, int nr)
{
	int i;

	fprintf(stderr, "# %s (%d):", what, nr);
	for (i = 0; i < nr && i < 80; i++)
		fprintf(stderr, " %llx", (unsigned long long)ips[i]);
	fprintf(stderr, "%s\n", i < nr ? " ..." : "");
}

/* Exact comparison; says what it saw and what it wanted if they differ. */
bool stack_same(const __u64 *ips, int nr, const __u64 *want, int nr_want)
{
	if (nr == nr_want && !memcmp(ips, want, nr * sizeof(*ips)))
		return true;
	stack_dump("seen", ips, nr);
	stack_dump("want", want, nr_want);
	return false;
}
