/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The contents of one or more ring buffers: samples, deferred records and all else.
 */
#ifndef SELFTESTS_PERF_EVENTS_LOG_H
#define SELFTESTS_PERF_EVENTS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include <sys/types.h>

/* Deferred user callchains. Headers of the build may be older than the kernel. */
#define DEFER_RECORD			22
#define DEFER_CONTEXT			((__u64)-640)
/* header.misc of records: why a stack ends */
#define DEFER_MISC_CUT			(1 << 13)
#define DEFER_MISC_BROKEN		(1 << 14)

struct log_item {
	__u32		type;
	__u16		misc;
	__u16		size;
	/* Which buffer, and the position in it. */
	int		buf;
	__u64		pos;
	__u64		ident;
	__u64		time;
	__u32		pid;
	__u32		tid;
	__u32		cpu;
	/* Samples only. */
	__u64		ip;
	__u32		raw_size;
	const void	*raw;
	/* Samples: 0 if there is no marker. Records: their cookie. */
	__u64		cookie;
	/* Samples: the whole chain with markers. Records: the user stack. */
	__u64		nr;
	const __u64	*ips;
	/* The start of the record, at its header. */
	const void	*record;
};

struct log_chunk {
	int		buf;
	__u64		pos;
	size_t		len;
	size_t		off;
};

struct event_log {
	unsigned char		*data;
	size_t			len;
	size_t			cap;
	struct log_chunk	*chunks;
	unsigned int		nr_chunks;
	struct log_item		*items;
	unsigned int		nr_items;
	/* Deferred records, sorted by cookie; made when first needed. */
	const struct log_item	**index;
	unsigned int		nr_index;
	__u64			lost;
	__u64			sample_type;
	bool			sample_id_all;
	/* The first error that the parser found, or NULL. */
	const char		*error;
};

/* realloc() that aborts if there is no memory. */
void *grow(void *p, size_t size);

/* Free all that a log has. */
void log_free(struct event_log *log);

/* Parse everything collected so far. The items point into the log. */
int log_parse(struct event_log *log);

/* Does b come after a, by position in one buffer, or by the clock? */
bool item_after(const struct log_item *a, const struct log_item *b);

/* The i-th item of a type, NULL if there are fewer. */
const struct log_item *
log_nth(const struct event_log *log, __u32 type, unsigned int i);

/* How many items of a type there are. */
unsigned int log_count(const struct event_log *log, __u32 type);

/* Keep only the items of a process. */
void log_keep_pid(struct event_log *log, pid_t pid);

/* Print a stack. */
void stack_dump(const char *what, const __u64 *ips, int nr);

/* Exact comparison; says what it saw and what it wanted if they differ. */
bool stack_same(const __u64 *ips, int nr, const __u64 *want, int nr_want);

static inline bool is_sample(const struct log_item *it)
{
	return it->type == PERF_RECORD_SAMPLE;
}

#endif /* SELFTESTS_PERF_EVENTS_LOG_H */
