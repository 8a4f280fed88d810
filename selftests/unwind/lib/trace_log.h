/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads the raw per-CPU buffers of tracing, using only the format files.
 */
#ifndef SELFTESTS_UNWIND_TRACE_LOG_H
#define SELFTESTS_UNWIND_TRACE_LOG_H

#include <linux/types.h>

struct tracefs;

struct trace_field {
	unsigned int	offset;
	unsigned int	size;
};

/* Bits of common_flags. */
#define TRACE_FLAGS_HARDIRQ	0x08
#define TRACE_FLAGS_SOFTIRQ	0x10
#define TRACE_FLAGS_NMI		0x40

#define TRACE_MAX_CALLERS	128
/* Entries of an immediate stack. */
#define TRACE_NR_IMMEDIATE	8

struct trace_item {
	long			id;
	int			pid;
	unsigned int		flags;
	unsigned int		cpu;
	/* Cookies and deferred stacks. */
	__u64			cookie;
	/* Deferred stacks. */
	unsigned int		tgid;
	/* Stacks. */
	unsigned int		nr;
	__u64			*callers;
	unsigned int		bytes;
};

struct trace_log {
	long			id_cookie;
	long			id_stack;
	long			id_immediate;
	struct trace_field	type;
	struct trace_field	flags;
	struct trace_field	pid;
	struct trace_field	cookie;
	struct trace_field	stack_cookie;
	struct trace_field	tgid;
	struct trace_field	nr;
	struct trace_field	caller;
	struct trace_field	immediate;
	struct trace_item	*items;
	unsigned int		nr_items;
	unsigned int		cap;
	const char		*error;
};

struct trace_stats {
	/* Events with the given ID, and how many of them have a cookie. */
	unsigned int	events;
	unsigned int	with_cookie;
	unsigned int	immediate;
	/* Different cookies, and stacks. */
	unsigned int	cookies;
	unsigned int	stacks;
	/* Cookies without a stack or with several; stacks without a cookie. */
	unsigned int	unmatched;
	unsigned int	unasked;
};

/* "system/event" to its ID, or -1. */
long trace_event_id(const char *event);

/* Learn the formats of the events.  0, or -1 with log->error set. */
int trace_log_init(struct trace_log *log);

/* Forget the items. */
void trace_log_free(struct trace_log *log);

/* Read all events from the raw buffers.  Returns 0, or -errno. */
int trace_log_read(struct trace_log *log, const struct tracefs *t);

/* How many items of an event there are. */
unsigned int trace_log_count(const struct trace_log *log, long id);

/* The stack of a cookie; NULL if there is not exactly one. */
const struct trace_item *
trace_log_stack(const struct trace_log *log, __u64 cookie);

/* Account for each cookie. */
struct trace_stats trace_log_conserve(const struct trace_log *log, long id);

/* Print what trace_log_conserve() has found. */
void trace_print(const struct trace_stats *st);

#endif /* SELFTESTS_UNWIND_TRACE_LOG_H */
