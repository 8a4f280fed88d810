/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the tests of deferred user callchains: events, a ring buffer
 * reader, a parser of samples and deferred records, and the conservation check.
 *
 * Everything is static: each test program includes this file once.
 */
#ifndef SELFTESTS_PERF_EVENTS_DEFER_H
#define SELFTESTS_PERF_EVENTS_DEFER_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/const.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest.h"
#include "known_stack.h"

/*
 * The user ABI. Headers of the build may be older than the kernel under test,
 * hence numbers of our own, none of which can clash with an enumerator.
 */
#define DEFER_ATTR_CALLCHAIN		_BITULL(38)
#define DEFER_ATTR_OUTPUT		_BITULL(39)
#define DEFER_FIRST_RESERVED_BIT	40
/* Bit 63 is attr.overwrite. */
#define DEFER_LAST_RESERVED_BIT		62
/* header.misc of records: why a stack ends */
#define DEFER_MISC_CUT		(1 << 13)
#define DEFER_MISC_BROKEN	(1 << 14)
#define DEFER_RECORD			22
#define DEFER_CONTEXT			((__u64)-640)
#define DEFER_CONTEXT_MAX		((__u64)-4095)
#define DEFER_SYSCTL			"/proc/sys/kernel/unwind_user_deferred"
#define DEFER_SYSCTL_MAX_STACK		"/proc/sys/kernel/perf_event_max_stack"
#define DEFER_SYSCTL_MAX_CONTEXTS	\
	"/proc/sys/kernel/perf_event_max_contexts_per_stack"

/* What every event of these tests has in its samples; see defer_parse(). */
#define DEFER_SAMPLE_TYPE						\
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |	\
	 PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_CALLCHAIN)

/* TID, TIME, CPU and IDENTIFIER at the end of every other record. */
#define DEFER_SAMPLE_ID_SIZE		32

#define DEFER_MAX_CPUS			64
#define DEFER_NSEC_PER_SEC		1000000000ULL

/* Bits between sample_period and wakeup_events; old headers name fewer. */
static inline __u64 *defer_attr_flags(struct perf_event_attr *attr)
{
	/* All of them, named or not, are the word in front of it. */
	return (__u64 *)&attr->wakeup_events - 1;
}

static inline __u64 defer_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * DEFER_NSEC_PER_SEC + ts.tv_nsec;
}

/* ---- Files of proc, sysfs and tracefs ---------------------------------- */

static inline int defer_read_long(const char *path, long *val)
{
	char buf[64];
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	buf[n] = '\0';
	*val = strtol(buf, NULL, 0);
	return 0;
}

static inline int defer_write_long(const char *path, long val)
{
	char buf[32];
	int fd, len;
	ssize_t n;

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = snprintf(buf, sizeof(buf), "%ld\n", val);
	n = write(fd, buf, len);
	close(fd);
	return n == len ? 0 : -1;
}

/* "syscalls/sys_enter_getpgid" to the config of a tracepoint event. */
static inline long defer_tracepoint(const char *name)
{
	static const char * const dirs[] = {
		"/sys/kernel/tracing", "/sys/kernel/debug/tracing",
	};
	unsigned int i, again;
	char path[256];
	long id;

	for (again = 0; again < 2; again++) {
		for (i = 0; i < ARRAY_SIZE(dirs); i++) {
			snprintf(path, sizeof(path), "%s/events/%s/id",
				 dirs[i], name);
			if (!defer_read_long(path, &id))
				return id;
		}
		if (mount("tracefs", dirs[0], "tracefs", 0, NULL))
			break;
	}
	return -1;
}

/* The offset of an address in the file that is mapped there, for uprobes; or -1. */
static inline long defer_file_offset(const void *addr)
{
	unsigned long long start, end, pgoff;
	char line[PATH_MAX + 128];
	long off = -1;
	FILE *f;

	f = fopen("/proc/self/maps", "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx %*s %llx", &start, &end,
			   &pgoff) == 3 &&
		    (__u64)addr >= start && (__u64)addr < end) {
			off = (__u64)addr - start + pgoff;
			break;
		}
	}
	fclose(f);
	return off;
}

static inline long defer_pmu_type(const char *name)
{
	char path[256];
	long type;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type",
		 name);
	return defer_read_long(path, &type) ? -1 : type;
}

/*
 * Load a module of test_modules/, which lies beside the test.  Returns NULL, or
 * why that cannot be done.
 */
static inline const char *defer_module_load(const char *name)
{
	char dir[PATH_MAX], path[PATH_MAX + 64];
	static char why[PATH_MAX + 128];
	ssize_t n;
	char *end;
	int fd;

	snprintf(path, sizeof(path), "/sys/module/%s", name);
	if (!access(path, F_OK))
		return NULL;
	n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	if (n < 0)
		return "no /proc/self/exe";
	dir[n] = '\0';
	end = strrchr(dir, '/');
	if (end)
		*end = '\0';
	snprintf(path, sizeof(path), "%s/test_modules/%s.ko", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		snprintf(why, sizeof(why), "%s: %s (built with KDIR?)", path,
			 strerror(errno));
		return why;
	}
	if (syscall(__NR_finit_module, fd, "", 0)) {
		snprintf(why, sizeof(why), "cannot load %s.ko: %s", name,
			 strerror(errno));
		close(fd);
		return why;
	}
	close(fd);
	return NULL;
}

/* Events keep the module busy until they are really gone; bounded. */
static inline int defer_module_unload(const char *name)
{
	unsigned int i;

	for (i = 0; i < 200; i++) {
		if (!syscall(__NR_delete_module, name, O_NONBLOCK))
			return 0;
		if (errno == ENOENT)
			return 0;
		usleep(10000);
	}
	return -1;
}

/* Address of a kernel symbol, 0 if it cannot be had. */
static inline __u64 defer_kallsyms(const char *name)
{
	char line[512], sym[256], type;
	unsigned long long addr;
	__u64 found = 0;
	FILE *f;

	f = fopen("/proc/kallsyms", "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %255s", &addr, &type, sym) == 3 &&
		    !strcmp(sym, name)) {
			found = addr;
			break;
		}
	}
	fclose(f);
	return found;
}

/* The config of a tracepoint event; skips the test where there is none. */
#define DEFER_TRACEPOINT(name) ({					\
	long __id = defer_tracepoint(name);				\
									\
	if (__id < 0)							\
		SKIP(return, "no tracepoint %s (CONFIG_FTRACE_SYSCALLS?)", \
		     name);						\
	__id;								\
})

/* ---- Events -------------------------------------------------------------- */

static inline int
defer_event_open(struct perf_event_attr *attr, pid_t pid, int cpu,
		 unsigned long flags)
{
	return syscall(__NR_perf_event_open, attr, pid, cpu, -1,
		       flags | PERF_FLAG_FD_CLOEXEC);
}

static inline struct perf_event_attr
defer_attr(__u32 type, __u64 config, __u64 period, __u64 flags)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= type,
		.config		= config,
		.sample_period	= period,
		.sample_type	= DEFER_SAMPLE_TYPE,
		.disabled	= 1,
		.sample_id_all	= 1,
		.use_clockid	= 1,
		.clockid	= CLOCK_MONOTONIC_RAW,
		.wakeup_events	= 1,
	};

	*defer_attr_flags(&attr) |= flags;
	return attr;
}

/* An event that never samples and only takes records. */
static inline struct perf_event_attr defer_attr_output(void)
{
	return defer_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0,
			  DEFER_ATTR_OUTPUT);
}

static inline struct perf_event_attr
defer_attr_breakpoint(__u64 addr, __u64 flags)
{
	struct perf_event_attr attr = defer_attr(PERF_TYPE_BREAKPOINT, 0, 1,
						 flags);

	attr.bp_type = HW_BREAKPOINT_X;
	attr.bp_addr = addr;
	attr.bp_len = sizeof(long);
	return attr;
}

/*
 * Why the tests cannot run on this machine; NULL when they can.  Only the
 * presence of the ABI is asked for, not that it works: that is for the tests.
 */
static inline const char *defer_unsupported(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.size = sizeof(attr),
	};
	static char why[256];
	int fd;

	if (!DEFER_HAVE_WALK)
		return "no known-stack code for this architecture";
	fd = defer_event_open(&attr, 0, -1, 0);
	if (fd < 0) {
		snprintf(why, sizeof(why), "perf_event_open: %s (root needed?)",
			 strerror(errno));
		return why;
	}
	close(fd);
	*defer_attr_flags(&attr) |= DEFER_ATTR_CALLCHAIN;
	fd = defer_event_open(&attr, 0, -1, 0);
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

/* ---- Log: what came out of one or more ring buffers ---------------------- */

struct defer_item {
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
	/* Samples: 0 without marker. Records: as it came. */
	__u64		cookie;
	/* Samples: the whole chain with markers. Records: the user stack. */
	__u64		nr;
	const __u64	*ips;
	/* The start of the record, at its header. */
	const void	*record;
};

struct defer_chunk {
	int		buf;
	__u64		pos;
	size_t		len;
	size_t		off;
};

struct defer_log {
	unsigned char		*data;
	size_t			len;
	size_t			cap;
	struct defer_chunk	*chunks;
	unsigned int		nr_chunks;
	struct defer_item	*items;
	unsigned int		nr_items;
	/* Deferred records by cookie, made when first needed. */
	const struct defer_item	**index;
	unsigned int		nr_index;
	__u64			lost;
	__u64			sample_type;
	bool			sample_id_all;
	/* The first thing found wrong with the bytes, if any. */
	const char		*error;
};

static inline void defer_log_free(struct defer_log *log)
{
	free(log->data);
	free(log->chunks);
	free(log->items);
	free(log->index);
	memset(log, 0, sizeof(*log));
}

static inline void *defer_grow(void *p, size_t size)
{
	p = realloc(p, size);
	if (!p) {
		fprintf(stderr, "# out of memory\n");
		abort();
	}
	return p;
}

/* u64 words of a sample_id. */
static unsigned int defer_id_words(__u64 type)
{
	return !!(type & PERF_SAMPLE_TID) + !!(type & PERF_SAMPLE_TIME) +
	       !!(type & PERF_SAMPLE_CPU) + !!(type & PERF_SAMPLE_IDENTIFIER);
}

static bool defer_parse_id(struct defer_item *it, __u64 type, const char *end,
			   const char *start)
{
	const __u64 *p = (const __u64 *)end - defer_id_words(type);

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
defer_parse_sample(struct defer_item *it, __u64 type, const __u64 *p,
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
defer_parse_record(struct defer_item *it, __u64 type, bool sample_id_all)
{
	const __u64 *p = (const __u64 *)it->record;
	size_t id_size = sample_id_all ? 8 * defer_id_words(type) : 0;
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
		if (it->ips[i] >= DEFER_CONTEXT_MAX)
			return "context marker in a deferred record";
	}
	return NULL;
}

/* Fill in everything that the bytes of one record say. */
static const char *
defer_parse_one(struct defer_log *log, struct defer_item *it)
{
	const struct perf_event_header *h = it->record;
	const char *start = (const char *)(h + 1);
	const char *end = (const char *)h + h->size;

	it->type = h->type;
	it->misc = h->misc;
	it->size = h->size;
	if (h->type == PERF_RECORD_SAMPLE)
		return defer_parse_sample(it, log->sample_type,
					  (const __u64 *)start,
					  (const __u64 *)end);
	if (log->sample_id_all &&
	    !defer_parse_id(it, log->sample_type, end, start))
		return "no room for sample_id";
	if (h->type == PERF_RECORD_LOST)
		log->lost += ((const __u64 *)h)[2];
	if (h->type == DEFER_RECORD)
		return defer_parse_record(it, log->sample_type,
					  log->sample_id_all);
	return NULL;
}

static void defer_drop_index(struct defer_log *log)
{
	free(log->index);
	log->index = NULL;
	log->nr_index = 0;
}

/* Parse everything collected so far; what it points to lives in the log. */
static inline int defer_parse(struct defer_log *log)
{
	size_t at, end, cap = 0;
	unsigned int c;

	log->nr_items = 0;
	log->lost = 0;
	log->error = NULL;
	defer_drop_index(log);
	for (c = 0; c < log->nr_chunks; c++) {
		const struct defer_chunk *chunk = &log->chunks[c];

		at = chunk->off;
		end = at + chunk->len;
		while (at < end) {
			const struct perf_event_header *h;
			struct defer_item *it;

			h = (const void *)(log->data + at);
			if (h->size < sizeof(*h) || h->size % 8 ||
			    h->size > end - at) {
				log->error = "broken record header";
				return -1;
			}
			if (log->nr_items == cap) {
				cap = cap ? 2 * cap : 1024;
				log->items = defer_grow(log->items,
							cap * sizeof(*it));
			}
			it = &log->items[log->nr_items++];
			memset(it, 0, sizeof(*it));
			it->buf = chunk->buf;
			it->pos = chunk->pos + (at - chunk->off);
			it->record = h;
			log->error = defer_parse_one(log, it);
			if (log->error)
				return -1;
			at += h->size;
		}
	}
	return 0;
}

/*
 * Does b come after a?  Buffer positions decide where they can, since records
 * of one buffer are in order; else the clock does.
 */
static bool defer_after(const struct defer_item *a, const struct defer_item *b)
{
	if (a->buf == b->buf)
		return b->pos > a->pos;
	return b->time >= a->time;
}

static inline bool defer_is_sample(const struct defer_item *it)
{
	return it->type == PERF_RECORD_SAMPLE;
}

static inline bool defer_is_record(const struct defer_item *it)
{
	return it->type == DEFER_RECORD;
}

/* The i-th item of a type, NULL if there are fewer. */
static inline const struct defer_item *
defer_nth(const struct defer_log *log, __u32 type, unsigned int i)
{
	unsigned int j;

	for (j = 0; j < log->nr_items; j++) {
		if (log->items[j].type == type && !i--)
			return &log->items[j];
	}
	return NULL;
}

static inline unsigned int
defer_count(const struct defer_log *log, __u32 type)
{
	unsigned int j, n = 0;

	for (j = 0; j < log->nr_items; j++)
		n += log->items[j].type == type;
	return n;
}

/* By cookie, then by type (samples have the lower number). */
static int defer_cmp_cookie(const void *a, const void *b)
{
	const struct defer_item *x = *(const struct defer_item * const *)a;
	const struct defer_item *y = *(const struct defer_item * const *)b;

	if (x->cookie != y->cookie)
		return x->cookie < y->cookie ? -1 : 1;
	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	return 0;
}

static inline const struct defer_item *
defer_find_record(struct defer_log *log, __u64 cookie)
{
	unsigned int i, low = 0, high;

	if (!log->index) {
		log->index = defer_grow(NULL, (log->nr_items + 1) *
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

/* Forget what does not concern a process. */
static inline void defer_keep_pid(struct defer_log *log, pid_t pid)
{
	unsigned int i, n = 0;

	defer_drop_index(log);
	for (i = 0; i < log->nr_items; i++) {
		if (log->items[i].pid == (__u32)pid)
			log->items[n++] = log->items[i];
	}
	log->nr_items = n;
}

/*
 * The user part of a sample, from the record if it was deferred, else from the
 * sample itself.  Returns its length, -1 if there is none.
 */
static inline int
defer_user_chain(struct defer_log *log, const struct defer_item *sample,
		 const __u64 **ips)
{
	unsigned int i;

	if (sample->cookie) {
		const struct defer_item *rec;

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

static inline void
defer_dump(const char *what, const __u64 *ips, int nr)
{
	int i;

	fprintf(stderr, "# %s (%d):", what, nr);
	for (i = 0; i < nr && i < 80; i++)
		fprintf(stderr, " %llx", (unsigned long long)ips[i]);
	fprintf(stderr, "%s\n", i < nr ? " ..." : "");
}

/* Exact comparison; says what it saw and what it wanted if they differ. */
static inline bool
defer_same(const __u64 *ips, int nr, const __u64 *want, int nr_want)
{
	if (nr == nr_want && !memcmp(ips, want, nr * sizeof(*ips)))
		return true;
	defer_dump("seen", ips, nr);
	defer_dump("want", want, nr_want);
	return false;
}

struct defer_stats {
	unsigned int	samples;
	/* Samples with a cookie, with an immediate user part, without any. */
	unsigned int	deferred;
	unsigned int	immediate;
	unsigned int	kernel_only;
	unsigned int	cookies;
	unsigned int	records;
	/* Records whose cookie is in no sample: legal. */
	unsigned int	unasked;
	/*
	 * Cookies without a record, with several of one CPU, of another task. A
	 * task that moves to another CPU leaves another record there.
	 */
	unsigned int	missing;
	unsigned int	duplicate;
	unsigned int	foreign;
	/* Samples after the record of their cookie, of the same kernel entry. */
	unsigned int	late;
	__u64		lost;
};

/* Account for every cookie of a parsed log. */
static inline struct defer_stats
defer_conserve(struct defer_log *log)
{
	struct defer_stats st = { .lost = log->lost };
	const struct defer_item **v;
	unsigned int i, j, n = 0;

	v = defer_grow(NULL, (log->nr_items + 1) * sizeof(*v));
	for (i = 0; i < log->nr_items; i++) {
		const struct defer_item *it = &log->items[i];

		if (defer_is_record(it)) {
			st.records++;
		} else if (defer_is_sample(it)) {
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
		const struct defer_item *rec = NULL;

		for (j = i; j < n && v[j]->cookie == v[i]->cookie; j++) {
			if (defer_is_record(v[j])) {
				if (!rec || rec->cpu == v[j]->cpu)
					nr_records++;
				if (!rec || defer_after(v[j], rec))
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
			if (defer_is_sample(v[k]) && !defer_after(v[k], rec))
				st.late++;
		}
	}
	free(v);
	return st;
}

static inline void defer_print(const struct defer_stats *st)
{
	fprintf(stderr,
		"# samples %u: deferred %u, immediate %u, kernel only %u; cookies %u, records %u, unasked %u, missing %u, duplicate %u, foreign %u, late %u, lost %llu\n",
		st->samples, st->deferred, st->immediate, st->kernel_only,
		st->cookies, st->records, st->unasked, st->missing,
		st->duplicate, st->foreign, st->late,
		(unsigned long long)st->lost);
}

/*
 * Nothing unaccounted for: what is missing must be covered by what the kernel
 * said it lost.
 */
#define EXPECT_CONSERVED(st) do {					\
	defer_print(st);						\
	EXPECT_LE((st)->missing, (st)->lost);				\
	EXPECT_EQ(0, (st)->duplicate);					\
	EXPECT_EQ(0, (st)->foreign);					\
} while (0)

/* ---- Session: events, buffers and a log ---------------------------------- */

struct defer_buf {
	int				cpu;
	int				fd;
	struct perf_event_mmap_page	*page;
	size_t				map_size;
	int				*extra;
	unsigned int			nr_extra;
};

struct defer_session {
	struct defer_buf	bufs[DEFER_MAX_CPUS];
	unsigned int		nr_bufs;
	pid_t			pid;
	struct defer_log	log;
};

#define DEFER_PAGES	64
/* For defer_session_open(): a buffer for each CPU. */
#define DEFER_ALL_CPUS	(-2)

static inline void defer_session_close(struct defer_session *s)
{
	unsigned int i, j;

	for (i = 0; i < s->nr_bufs; i++) {
		struct defer_buf *b = &s->bufs[i];

		for (j = 0; j < b->nr_extra; j++)
			close(b->extra[j]);
		free(b->extra);
		if (b->page)
			munmap(b->page, b->map_size);
		close(b->fd);
	}
	defer_log_free(&s->log);
	memset(s, 0, sizeof(*s));
}

static int defer_session_buf(struct defer_session *s,
			     struct perf_event_attr *attr, pid_t pid, int cpu,
			     unsigned int pages)
{
	struct defer_buf *b = &s->bufs[s->nr_bufs];

	memset(b, 0, sizeof(*b));
	b->cpu = cpu;
	b->fd = defer_event_open(attr, pid, cpu, 0);
	if (b->fd < 0)
		return -1;
	b->map_size = (pages + 1) * sysconf(_SC_PAGESIZE);
	b->page = mmap(NULL, b->map_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       b->fd, 0);
	if (b->page == MAP_FAILED) {
		int err = errno;

		close(b->fd);
		errno = err;
		return -1;
	}
	s->nr_bufs++;
	return 0;
}

/*
 * Open the event and map its buffer: for a task on any CPU (cpu -1), on one
 * CPU, or with a buffer for each CPU.  Returns -1 with errno set.
 */
static inline int
defer_session_open(struct defer_session *s, struct perf_event_attr *attr,
		   pid_t pid, int cpu, unsigned int pages)
{
	long nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
	int i, err;

	memset(s, 0, sizeof(*s));
	s->pid = pid;
	s->log.sample_type = attr->sample_type;
	s->log.sample_id_all = attr->sample_id_all;
	if (cpu != DEFER_ALL_CPUS)
		return defer_session_buf(s, attr, pid, cpu, pages);
	for (i = 0; i < nr_cpus && i < DEFER_MAX_CPUS; i++) {
		if (!defer_session_buf(s, attr, pid, i, pages))
			continue;
		/* Offline. */
		if (errno == ENODEV)
			continue;
		err = errno;
		defer_session_close(s);
		errno = err;
		return -1;
	}
	return 0;
}

/* One more event that writes to the session's buffers. */
static inline int
defer_session_add(struct defer_session *s, struct perf_event_attr *attr)
{
	unsigned int i;
	int fd, err;

	for (i = 0; i < s->nr_bufs; i++) {
		struct defer_buf *b = &s->bufs[i];

		fd = defer_event_open(attr, s->pid, b->cpu, 0);
		if (fd < 0)
			return -1;
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, b->fd)) {
			err = errno;
			close(fd);
			errno = err;
			return -1;
		}
		b->extra = defer_grow(b->extra,
				      (b->nr_extra + 1) * sizeof(*b->extra));
		b->extra[b->nr_extra++] = fd;
	}
	return 0;
}

/*
 * A sample in the system call that ends a session is never answered.  Sessions
 * of events that may hit there have an output event of their own, opened first:
 * it is enabled first and disabled last.
 */
static int defer_ioctl_main(struct defer_session *s, unsigned long req)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < s->nr_bufs; i++)
		ret |= ioctl(s->bufs[i].fd, req, 0);
	return ret;
}

static int defer_ioctl_extra(struct defer_session *s, unsigned long req)
{
	unsigned int i, j;
	int ret = 0;

	for (i = 0; i < s->nr_bufs; i++) {
		for (j = 0; j < s->bufs[i].nr_extra; j++)
			ret |= ioctl(s->bufs[i].extra[j], req, 0);
	}
	return ret;
}

static inline int defer_enable(struct defer_session *s)
{
	return defer_ioctl_main(s, PERF_EVENT_IOC_ENABLE) |
	       defer_ioctl_extra(s, PERF_EVENT_IOC_ENABLE);
}

static inline int defer_disable(struct defer_session *s)
{
	return defer_ioctl_extra(s, PERF_EVENT_IOC_DISABLE) |
	       defer_ioctl_main(s, PERF_EVENT_IOC_DISABLE);
}

/* Move what the buffers hold to the log. */
static inline void defer_drain(struct defer_session *s)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	struct defer_log *log = &s->log;
	unsigned int i;

	for (i = 0; i < s->nr_bufs; i++) {
		struct perf_event_mmap_page *pg = s->bufs[i].page;
		size_t size = s->bufs[i].map_size - page_size;
		const char *data = (const char *)pg + page_size;
		struct defer_chunk *c;
		__u64 head, tail, at;

		head = __atomic_load_n(&pg->data_head, __ATOMIC_ACQUIRE);
		tail = pg->data_tail;
		if (head == tail)
			continue;
		if (log->len + (head - tail) > log->cap) {
			log->cap = 2 * (log->len + (head - tail));
			log->data = defer_grow(log->data, log->cap);
		}
		log->chunks = defer_grow(log->chunks, (log->nr_chunks + 1) *
					 sizeof(*log->chunks));
		c = &log->chunks[log->nr_chunks++];
		c->buf = i;
		c->pos = tail;
		c->len = head - tail;
		c->off = log->len;
		for (at = tail; at < head; ) {
			size_t off = at % size, n = size - off;

			if (n > head - at)
				n = head - at;
			memcpy(log->data + log->len, data + off, n);
			log->len += n;
			at += n;
		}
		__atomic_store_n(&pg->data_tail, head, __ATOMIC_RELEASE);
	}
}

/* Disable, collect and parse. */
static inline int defer_finish(struct defer_session *s)
{
	defer_disable(s);
	defer_drain(s);
	if (defer_parse(&s->log)) {
		fprintf(stderr, "# %s\n", s->log.error);
		return -1;
	}
	return 0;
}

/* Wait for a child, at most so long; kills it (and returns -1) if it hangs. */
static inline int
defer_wait(pid_t pid, int *status, unsigned int seconds,
	   struct defer_session *drain)
{
	__u64 end = defer_now() + seconds * DEFER_NSEC_PER_SEC;
	pid_t ret;

	while (defer_now() < end) {
		ret = waitpid(pid, status, WNOHANG);
		if (ret == pid)
			return 0;
		if (ret < 0)
			return -1;
		if (drain)
			defer_drain(drain);
		usleep(2000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, status, 0);
	fprintf(stderr, "# child %d did not end within %u s\n", pid, seconds);
	return -1;
}

/*
 * A child that runs fn(arg) as soon as defer_go() says so, hence after the
 * session on it was opened, and then exits with 0.
 */
struct defer_child {
	pid_t	pid;
	int	go;
};

static inline int
defer_spawn(struct defer_child *c, void (*fn)(void *), void *arg)
{
	int fds[2];
	char byte;

	if (pipe(fds))
		return -1;
	c->pid = fork();
	if (c->pid < 0)
		return -1;
	if (!c->pid) {
		close(fds[1]);
		/* The test may die and must not leave this behind. */
		if (read(fds[0], &byte, 1) != 1)
			_exit(1);
		close(fds[0]);
		fn(arg);
		_exit(0);
	}
	close(fds[0]);
	c->go = fds[1];
	return 0;
}

static inline int defer_go(struct defer_child *c)
{
	int ret = write(c->go, "", 1) == 1 ? 0 : -1;

	close(c->go);
	return ret;
}

/* Wait until the buffers have shown so many samples; -1 if they do not. */
static inline int
defer_wait_samples(struct defer_session *s, unsigned int nr,
		   unsigned int seconds)
{
	__u64 end = defer_now() + seconds * DEFER_NSEC_PER_SEC;

	do {
		defer_drain(s);
		if (defer_parse(&s->log)) {
			fprintf(stderr, "# %s\n", s->log.error);
			return -1;
		}
		if (defer_count(&s->log, PERF_RECORD_SAMPLE) >= nr)
			return 0;
		usleep(2000);
	} while (defer_now() < end);
	fprintf(stderr, "# %u of %u samples within %u s\n",
		defer_count(&s->log, PERF_RECORD_SAMPLE), nr, seconds);
	return -1;
}

/* Stay on one CPU; returns it. */
static inline int defer_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		cpu = sched_getcpu();
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -1 : cpu;
}

#endif /* SELFTESTS_PERF_EVENTS_DEFER_H */
