// SPDX-License-Identifier: GPL-2.0
/*
 * Reads the raw per-CPU buffers of tracing, using only the format files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../kselftest.h"
#include "../../perf_events/lib/log.h"
#include "trace_log.h"
#include "tracefs.h"

/* "system/event" to its ID, or -1. */
long trace_event_id(const char *event)
{
	char file[256], text[4096];
	struct tracefs top;
	const char *id;

	if (tracefs_open(&top, NULL))
		return -1;
	snprintf(file, sizeof(file), "events/%s/format", event);
	if (tracefs_read(&top, file, text, sizeof(text)) < 0)
		return -1;
	id = strstr(text, "\nID: ");
	return id ? atol(id + 5) : -1;
}

/* Where a field is; "field" is the end of its declaration, such as " cookie". */
static int trace_event_field(const char *event, const char *field,
			     struct trace_field *f)
{
	char file[256], text[4096], find[64];
	struct tracefs top;
	const char *at;

	if (tracefs_open(&top, NULL))
		return -1;
	snprintf(file, sizeof(file), "events/%s/format", event);
	if (tracefs_read(&top, file, text, sizeof(text)) < 0)
		return -1;
	snprintf(find, sizeof(find), "%s;\toffset:", field);
	at = strstr(text, find);
	if (!at)
		return -1;
	return sscanf(at + strlen(find), "%u;\tsize:%u;", &f->offset,
		      &f->size) == 2 ? 0 : -1;
}

#define TRACE_COOKIE_EVENT	"ftrace/user_stack_cookie"
#define TRACE_STACK_EVENT	"ftrace/user_stack_deferred"
#define TRACE_IMMEDIATE_EVENT	"ftrace/user_stack"

/* 0, or -1 with log->error set. */
int trace_log_init(struct trace_log *log)
{
	static const struct {
		const char	*event;
		const char	*field;
		size_t		where;
		unsigned int	size;
	} fields[] = {
#define FIELD(event, field, member, size) \
	{ event, field, offsetof(struct trace_log, member), size }
		FIELD(TRACE_COOKIE_EVENT, " common_type", type, 2),
		FIELD(TRACE_COOKIE_EVENT, " common_flags", flags, 1),
		FIELD(TRACE_COOKIE_EVENT, " common_pid", pid, 4),
		FIELD(TRACE_COOKIE_EVENT, " cookie", cookie, 8),
		FIELD(TRACE_STACK_EVENT, " cookie", stack_cookie, 8),
		FIELD(TRACE_STACK_EVENT, " tgid", tgid, 4),
		FIELD(TRACE_STACK_EVENT, " nr", nr, 4),
		/* An array of variable length. */
		FIELD(TRACE_STACK_EVENT, " caller[]", caller, 0),
		FIELD(TRACE_IMMEDIATE_EVENT, " caller[8]", immediate,
		      TRACE_NR_IMMEDIATE * 8),
#undef FIELD
	};
	static char error[128];
	unsigned int i;

	memset(log, 0, sizeof(*log));
	log->id_cookie = trace_event_id(TRACE_COOKIE_EVENT);
	log->id_stack = trace_event_id(TRACE_STACK_EVENT);
	log->id_immediate = trace_event_id(TRACE_IMMEDIATE_EVENT);
	if (log->id_cookie < 0 || log->id_stack < 0) {
		log->error = "no format files of the events";
		return -1;
	}
	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		struct trace_field *f = (void *)log + fields[i].where;

		if (!trace_event_field(fields[i].event, fields[i].field, f) &&
		    f->size == fields[i].size)
			continue;
		snprintf(error, sizeof(error), "%s: no%s of %u bytes",
			 fields[i].event, fields[i].field, fields[i].size);
		log->error = error;
		return -1;
	}
	return 0;
}

void trace_log_free(struct trace_log *log)
{
	unsigned int i;

	for (i = 0; i < log->nr_items; i++)
		free(log->items[i].callers);
	free(log->items);
	log->items = NULL;
	log->nr_items = 0;
	log->cap = 0;
}

static __u64
trace_get(const unsigned char *data, const struct trace_field *f)
{
	__u64 val = 0;

	memcpy(&val, data + f->offset, f->size);
	return val;
}

static void trace_log_event(struct trace_log *log, unsigned int cpu,
			    const unsigned char *data, unsigned int len)
{
	struct trace_item *it;

	if (log->nr_items == log->cap) {
		log->cap = log->cap ? 2 * log->cap : 256;
		log->items = grow(log->items, log->cap * sizeof(*it));
	}
	it = &log->items[log->nr_items++];
	memset(it, 0, sizeof(*it));
	it->cpu = cpu;
	it->bytes = len;
	it->id = trace_get(data, &log->type);
	it->flags = trace_get(data, &log->flags);
	it->pid = trace_get(data, &log->pid);
	if (it->id == log->id_cookie)
		it->cookie = trace_get(data, &log->cookie);
	if (it->id == log->id_immediate) {
		it->callers = grow(NULL, log->immediate.size);
		memcpy(it->callers, data + log->immediate.offset,
		       log->immediate.size);
		while (it->nr < TRACE_NR_IMMEDIATE && it->callers[it->nr])
			it->nr++;
	}
	if (it->id != log->id_stack)
		return;
	it->cookie = trace_get(data, &log->stack_cookie);
	it->tgid = trace_get(data, &log->tgid);
	it->nr = trace_get(data, &log->nr);
	if (it->nr > TRACE_MAX_CALLERS ||
	    log->caller.offset + it->nr * sizeof(it->callers[0]) > len) {
		log->error = "a stack that is longer than its event";
		it->nr = 0;
		return;
	}
	if (!it->nr)
		return;
	it->callers = grow(NULL, it->nr * sizeof(it->callers[0]));
	memcpy(it->callers, data + log->caller.offset,
	       it->nr * sizeof(it->callers[0]));
}

/* See events/header_event and Documentation/trace/ring-buffer-design.rst. */
static void trace_log_page(struct trace_log *log, unsigned int cpu,
			   const unsigned char *page, size_t size)
{
	const size_t header = 16;
	unsigned int type, len, word;
	__u64 commit;
	size_t at;

	memcpy(&commit, page + 8, sizeof(commit));
	/* The upper bits say that events were lost. */
	commit &= 0xfffff;
	if (header + commit > size) {
		log->error = "a page whose data exceeds its size";
		return;
	}
	for (at = header; at + 4 <= header + commit; at += len) {
		const unsigned char *data = page + at + 4;

		memcpy(&word, page + at, sizeof(word));
		type = word & 31;
		switch (type) {
		case 29:
			/* Nothing up to the end of the page. */
			if (!(word >> 5))
				return;
			memcpy(&len, data, sizeof(len));
			len += 4;
			break;
		case 30:
		case 31:
			len = 8;
			break;
		case 0:
			memcpy(&len, data, sizeof(len));
			trace_log_event(log, cpu, data + 4, len - 4);
			len = (len + 4 + 3) & ~3U;
			break;
		default:
			trace_log_event(log, cpu, data, type * 4);
			len = 4 + type * 4;
		}
	}
}

/* Read all events from the raw buffers.  Returns 0, or -errno. */
int trace_log_read(struct trace_log *log, const struct tracefs *t)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	static unsigned char page[1 << 16];
	char file[64], path[512];
	ssize_t n;
	int cpu, fd;

	for (cpu = 0; cpu < cpus; cpu++) {
		snprintf(file, sizeof(file), "per_cpu/cpu%d/trace_pipe_raw",
			 cpu);
		tracefs_path(t, file, path, sizeof(path));
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		while ((n = read(fd, page, getpagesize())) > 0)
			trace_log_page(log, cpu, page, n);
		close(fd);
	}
	return 0;
}

unsigned int trace_log_count(const struct trace_log *log, long id)
{
	unsigned int i, n = 0;

	for (i = 0; i < log->nr_items; i++)
		n += log->items[i].id == id;
	return n;
}

/* The stack of a cookie; NULL if there is not exactly one. */
const struct trace_item *
trace_log_stack(const struct trace_log *log, __u64 cookie)
{
	const struct trace_item *found = NULL;
	unsigned int i;

	for (i = 0; i < log->nr_items; i++) {
		const struct trace_item *it = &log->items[i];

		if (it->id != log->id_stack || it->cookie != cookie)
			continue;
		if (found)
			return NULL;
		found = it;
	}
	return found;
}

/*
 * Account for each cookie.  The cookie of an event, if it has one, is the next item
 * of the same task on the same CPU.
 */
struct trace_stats trace_log_conserve(const struct trace_log *log, long id)
{
	struct trace_stats st = {};
	unsigned int i, j;

	for (i = 0; i < log->nr_items; i++) {
		const struct trace_item *it = &log->items[i];

		st.immediate += it->id == log->id_immediate;
		if (it->id == id) {
			st.events++;
			for (j = i + 1; j < log->nr_items; j++) {
				if (log->items[j].pid == it->pid)
					break;
			}
			if (j < log->nr_items &&
			    log->items[j].id == log->id_cookie)
				st.with_cookie++;
		}
		if (it->id == log->id_cookie) {
			/* Search backwards: equal cookies are close together. */
			for (j = i; j--; ) {
				if (log->items[j].id == log->id_cookie &&
				    log->items[j].cookie == it->cookie)
					break;
			}
			if (j != -1U)
				continue;
			st.cookies++;
			if (!trace_log_stack(log, it->cookie))
				st.unmatched++;
		}
		if (it->id == log->id_stack) {
			st.stacks++;
			for (j = 0; j < log->nr_items; j++) {
				if (log->items[j].id == log->id_cookie &&
				    log->items[j].cookie == it->cookie)
					break;
			}
			if (j == log->nr_items)
				st.unasked++;
		}
	}
	return st;
}

void trace_print(const struct trace_stats *st)
{
	fprintf(stderr,
		"# %u events (%u with a cookie, %u immediate), %u cookies, %u stacks, %u unmatched, %u unasked\n",
		st->events, st->with_cookie, st->immediate, st->cookies,
		st->stacks, st->unmatched, st->unasked);
}
