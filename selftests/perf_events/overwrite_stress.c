// SPDX-License-Identifier: GPL-2.0
/*
 * A reader takes snapshots of an overwrite buffer as fast as it can while
 * records of all sizes are written in task, IRQ and NMI context, which nest.
 *
 * Each accepted record must be whole. Each sample has the count of its event (READ) and
 * the number of lost records (FORMAT_LOST), so the test detects a missing record. The
 * contents of a sample must match its size. Two snapshots must have the same bytes
 * where they overlap.
 *
 * OVERWRITE_STRESS_SECONDS says how long each variant runs (3).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/overwrite.h"

#define WRITER_CPU	0
#define READER_CPU	1
#define DEFAULT_SECONDS	3
#define TASK_EVENTS	6
#define MAX_EVENTS	16
#define MAX_DUMP	16000
#define TP_TASK		"syscalls/sys_enter_getpgid"
#define TP_IRQ		"irq_vectors/local_timer_entry"
#define TP_NMI		"nmi/nmi_handler"
#define NMI_MODULE	"perf_nmi_pmu"

enum source {
	TASK, IRQ, NMI, IRQ_CLOCK, NMI_CLOCK, NR_SOURCES
};

static const char * const source_names[] = {
	"task", "irq", "nmi", "cpu-clock", "nmi clock",
};

struct event {
	enum source	source;
	int		fd;
	__u64		id;
	__u64		sample_type;
	/* Bytes of user stack. */
	unsigned int	dump;
	/* Within one snapshot. */
	bool		seen;
	__u64		count;
	__u64		lost;
	__u64		total;
};

FIXTURE(stress) {
	struct event	events[MAX_EVENTS];
	unsigned int	nr_events;
	unsigned int	nr_task;
	pid_t		writer;
	int		ready[2];
	bool		module;
	struct perf_event_mmap_page *page;
	struct ow_snapshot snap;
	/* The last snapshot, each byte at its place in the buffer. */
	char		*image;
	unsigned long	image_start;
	unsigned long	image_end;
	/* Why a snapshot is not what it should be. */
	char		why[256];
};

FIXTURE_VARIANT(stress) {
	unsigned int	pages;
	bool		per_task;
};

#define STRESS(_pages)							\
FIXTURE_VARIANT_ADD(stress, per_cpu_##_pages) {				\
	.pages		= _pages,					\
	.per_task	= false,					\
};									\
FIXTURE_VARIANT_ADD(stress, per_task_##_pages) {			\
	.pages		= _pages,					\
	.per_task	= true,						\
}

STRESS(1);
STRESS(2);
STRESS(64);

/* The writer */

/* The user stack of the sample is, but for its first part, full of @n. */
static __attribute__((noinline)) void write_record(unsigned int which, __u64 n)
{
	volatile __u64 fill[MAX_DUMP / sizeof(__u64)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fill); i++)
		fill[i] = n;
	syscall(__NR_getpgid, which);
	/* Not a tail call: the array is alive. */
	__asm__ volatile("" : : "r" (fill) : "memory");
}

static __attribute__((noinline)) void write_small(unsigned int which)
{
	syscall(__NR_getpgid, which);
}

static void writer(int fd, unsigned int nr_task)
{
	unsigned int r = 1;
	__u64 n;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pin_to_cpu(WRITER_CPU) < 0)
		_exit(1);
	if (read(fd, &c, 1) != 1)
		_exit(1);
	for (n = 1; ; n++) {
		unsigned int which;

		r = r * 1103515245 + 12345;
		which = (r >> 16) % nr_task + 1;
		/* Most records are small. */
		if (which > 2 && (r >> 24) % 8)
			which = which % 2 + 1;
		if (which > 2)
			write_record(which, n);
		else
			write_small(which);
	}
}

/* Events */

static int
add_event(struct __test_metadata *_metadata,
	  FIXTURE_DATA(stress) *self, const FIXTURE_VARIANT(stress) *variant,
	  enum source source, __u32 type, __u64 config, __u64 period,
	  __u64 sample_type, unsigned int dump)
{
	struct event *e = &self->events[self->nr_events];
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= type,
		.config		= config,
		.sample_period	= period,
		.sample_type	= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID |
				  PERF_SAMPLE_TIME | PERF_SAMPLE_READ |
				  sample_type,
		.read_format	= FORMAT_LOST,
		.disabled	= 1,
		.sample_stack_user = dump,
	};

	if (dump)
		attr.sample_type |= PERF_SAMPLE_STACK_USER;
	*attr_flags(&attr) |= OW_ATTR_OVERWRITE;
	e->source = source;
	e->dump = dump;
	e->sample_type = attr.sample_type;
	e->fd = event_open(&attr, self->writer,
			   variant->per_task ? -1 : WRITER_CPU, 0);
	if (e->fd < 0) {
		TH_LOG("%s: %s", source_names[source], strerror(errno));
		return -1;
	}
	self->nr_events++;
	if (ioctl(e->fd, PERF_EVENT_IOC_ID, &e->id))
		return -1;
	if (self->nr_events > 1)
		return ioctl(e->fd, PERF_EVENT_IOC_SET_OUTPUT,
			     self->events[0].fd);
	self->page = event_map(e->fd, variant->pages, PROT_READ);
	return self->page == MAP_FAILED ? -1 : 0;
}

FIXTURE_SETUP(stress)
{
	/* Around and above a page; what the buffer cannot hold is lost. */
	static const unsigned int dumps[TASK_EVENTS] = {
		0, 0, 64, 1000, 3800, 16000,
	};
	const __u64 chain = PERF_SAMPLE_CALLCHAIN;
	const char *why = ow_unsupported();
	long task, irq, nmi, pmu;
	size_t size;
	int i;

	if (why)
		SKIP(return, "%s", why);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	task = TRACEPOINT_ID(TP_TASK);
	irq = TRACEPOINT_ID(TP_IRQ);
	nmi = TRACEPOINT_ID(TP_NMI);
	why = module_load(NMI_MODULE);
	if (why)
		SKIP(return, "%s", why);
	self->module = true;
	pmu = pmu_type(NMI_MODULE);
	ASSERT_LE(0, pmu);

	size = variant->pages * sysconf(_SC_PAGESIZE);
	self->snap.copy = malloc(size);
	self->image = malloc(size);
	ASSERT_NE(NULL, self->snap.copy);
	ASSERT_NE(NULL, self->image);

	/* Small buffers would lose all of the largest records. */
	self->nr_task = variant->pages > 4 ? TASK_EVENTS : TASK_EVENTS - 1;
	ASSERT_EQ(0, pipe(self->ready));
	self->writer = fork();
	ASSERT_LE(0, self->writer);
	if (!self->writer)
		writer(self->ready[0], self->nr_task);

	for (i = 0; i < (int)self->nr_task; i++) {
		char filter[32];

		ASSERT_EQ(0, add_event(_metadata, self, variant, TASK,
				       PERF_TYPE_TRACEPOINT, task, 1, 0,
				       dumps[i]));
		snprintf(filter, sizeof(filter), "pid == %d", i + 1);
		ASSERT_EQ(0, ioctl(self->events[i].fd,
				   PERF_EVENT_IOC_SET_FILTER, filter));
	}
	ASSERT_EQ(0, add_event(_metadata, self, variant, IRQ,
			       PERF_TYPE_TRACEPOINT, irq, 1,
			       chain | PERF_SAMPLE_RAW, 0));
	ASSERT_EQ(0, add_event(_metadata, self, variant, NMI,
			       PERF_TYPE_TRACEPOINT, nmi, 1,
			       chain | PERF_SAMPLE_RAW, 0));
	ASSERT_EQ(0, add_event(_metadata, self, variant, IRQ_CLOCK,
			       PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK,
			       100000, chain, 0));
	ASSERT_EQ(0, add_event(_metadata, self, variant, IRQ_CLOCK,
			       PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK,
			       130000, chain, 512));
	ASSERT_EQ(0, add_event(_metadata, self, variant, NMI_CLOCK, pmu, 0,
			       100000, chain, 0));
	ASSERT_EQ(0, add_event(_metadata, self, variant, NMI_CLOCK, pmu, 0,
			       150000, chain, 1024));
}

FIXTURE_TEARDOWN(stress)
{
	unsigned int i;

	if (self->writer > 0) {
		kill(self->writer, SIGKILL);
		waitpid(self->writer, NULL, 0);
	}
	event_unmap(self->page, variant->pages);
	for (i = 0; i < self->nr_events; i++)
		close(self->events[i].fd);
	free(self->snap.copy);
	free(self->image);
	if (self->module)
		EXPECT_EQ(0, module_unload(NMI_MODULE));
}

/* The reader */

#define BAD(...) do {							\
	snprintf(self->why, sizeof(self->why), __VA_ARGS__);		\
	return false;							\
} while (0)

static struct event *find_event(FIXTURE_DATA(stress) *self, __u64 id)
{
	unsigned int i;

	for (i = 0; i < self->nr_events; i++) {
		if (self->events[i].id == id)
			return &self->events[i];
	}
	return NULL;
}

/* The words of a record, read in the order of enum perf_event_sample_format. */
static bool check_sample(FIXTURE_DATA(stress) *self,
			 const struct perf_event_header *h)
{
	const __u64 *p = (const __u64 *)(h + 1);
	const __u64 *end = (const __u64 *)((const char *)h + h->size);
	__u64 count, lost, nr;
	struct event *e;

	if (end - p < 5)
		BAD("sample of %u bytes", h->size);
	e = find_event(self, *p++);
	if (!e)
		BAD("sample of no event");
	if (*(const __u32 *)p != (__u32)self->writer && e->source == TASK)
		BAD("sample of pid %u", *(const __u32 *)p);
	/* TIME */
	p += 2;
	count = *p++;
	lost = *p++;
	if (e->sample_type & PERF_SAMPLE_CALLCHAIN) {
		if (p >= end)
			BAD("no callchain");
		nr = *p++;
		if (nr > (__u64)(end - p))
			BAD("callchain of %llu", (unsigned long long)nr);
		p += nr;
	}
	if (e->sample_type & PERF_SAMPLE_RAW) {
		__u32 size;

		if (p >= end)
			BAD("no raw data");
		size = *(const __u32 *)p;
		if ((size + sizeof(size)) % 8 ||
		    size + sizeof(size) > (size_t)(end - p) * 8)
			BAD("raw data of %u bytes", size);
		p += (size + sizeof(size)) / 8;
	}
	if (e->dump) {
		__u64 dyn, i;

		if (p >= end || *p > e->dump || *p % 8)
			BAD("stack of %llu bytes", (unsigned long long)*p);
		nr = *p++ / 8;
		if (nr) {
			if (end - p != (long)nr + 1)
				BAD("stack of %llu words in %zd",
				    (unsigned long long)nr, end - p);
			dyn = p[nr];
			if (dyn > nr * 8)
				BAD("stack of %llu of %llu bytes",
				    (unsigned long long)dyn,
				    (unsigned long long)nr * 8);
			/* What one call of write_record() has written. */
			for (i = nr / 2; e->source == TASK && nr > 256 &&
			     i < nr; i++) {
				if (p[i] != p[nr - 1])
					BAD("torn at %llu of %llu",
					    (unsigned long long)i,
					    (unsigned long long)nr);
			}
			p += nr + 1;
		}
	}
	if (p != end)
		BAD("%s: %zd words are left", source_names[e->source], end - p);

	if (e->seen) {
		/* Clocks count nanoseconds, other events count their occurrences. */
		if (e->source == IRQ_CLOCK || e->source == NMI_CLOCK) {
			if (count < e->count || lost < e->lost)
				BAD("the clock has stepped back");
		} else if (count - e->count != 1 + lost - e->lost) {
			BAD("%s: from %llu (lost %llu) to %llu (lost %llu)",
			    source_names[e->source],
			    (unsigned long long)e->count,
			    (unsigned long long)e->lost,
			    (unsigned long long)count,
			    (unsigned long long)lost);
		}
	}
	e->seen = true;
	e->count = count;
	e->lost = lost;
	e->total++;
	return true;
}

/* Compares the snapshot with the last one, then replaces the last one. */
static bool check_image(FIXTURE_DATA(stress) *self)
{
	const unsigned long size = self->page->data_size;
	struct ow_snapshot *s = &self->snap;
	unsigned long pos, n;

	for (pos = s->start; pos != s->end; pos += n) {
		char *at = self->image + pos % size;
		const char *is = s->records + (pos - s->start);

		n = size - pos % size;
		if (n > s->end - pos)
			n = s->end - pos;
		if ((long)(self->image_end - pos) > 0 &&
		    (long)(pos - self->image_start) >= 0) {
			if (n > self->image_end - pos)
				n = self->image_end - pos;
			if (memcmp(at, is, n))
				BAD("two snapshots differ at %lu", pos);
		} else if ((long)(self->image_start - pos) > 0 &&
			   n > self->image_start - pos) {
			/* Older than the last snapshot: cannot be. */
			BAD("the tail has moved back");
		}
		memcpy(at, is, n);
	}
	self->image_start = s->start;
	self->image_end = s->end;
	return true;
}

static bool check_snapshot(FIXTURE_DATA(stress) *self, unsigned long *records)
{
	const struct perf_event_header *h;
	unsigned long pos;
	unsigned int i;

	for (i = 0; i < self->nr_events; i++)
		self->events[i].seen = false;
	for (pos = self->snap.start; pos != self->snap.end; pos += h->size) {
		h = ow_record(&self->snap, pos);
		if (!h)
			BAD("no record at %lu", pos);
		switch (h->type) {
		case PERF_RECORD_SAMPLE:
			if (!check_sample(self, h))
				return false;
			break;
		case PERF_RECORD_LOST:
			if (h->size != 24)
				BAD("LOST of %u bytes", h->size);
			break;
		case PERF_RECORD_THROTTLE:
		case PERF_RECORD_UNTHROTTLE:
			break;
		default:
			BAD("record of type %u", h->type);
		}
		(*records)++;
	}
	return check_image(self);
}

TEST_F_TIMEOUT(stress, snapshots, 900)
{
	unsigned long taken = 0, lapped = 0, records = 0, empty = 0;
	const char *seconds = getenv("OVERWRITE_STRESS_SECONDS");
	__u64 dropped = 0, totals[NR_SOURCES] = {}, lost = 0, end;
	unsigned int i;

	ASSERT_LE(0, pin_to_cpu(READER_CPU));
	for (i = 0; i < self->nr_events; i++)
		ASSERT_EQ(0, ioctl(self->events[i].fd,
				   PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_EQ(1, write(self->ready[1], "", 1));
	end = now_nsec() + (seconds ? strtoul(seconds, NULL, 0) :
			    DEFAULT_SECONDS) * NSEC_PER_SEC;
	while (now_nsec() < end) {
		int ret = ow_snapshot(self->page, &self->snap);

		ASSERT_LE(0, ret) {
			TH_LOG("head and tail are more than the buffer apart, or the tail went back");
		}
		if (!ret) {
			lapped++;
			continue;
		}
		if (self->snap.start == self->snap.end) {
			empty++;
			continue;
		}
		taken++;
		dropped += self->snap.dropped;
		ASSERT_TRUE(check_snapshot(self, &records)) {
			TH_LOG("%lu snapshots, %lu records: %s", taken, records,
			       self->why);
		}
	}
	ASSERT_EQ(0, kill(self->writer, 0));
	for (i = 0; i < self->nr_events; i++) {
		__u64 v[2];

		ASSERT_EQ(sizeof(v), read(self->events[i].fd, v, sizeof(v)));
		lost += v[1];
		totals[self->events[i].source] += self->events[i].total;
	}
	TH_LOG("%lu snapshots, %lu records (task %llu, irq %llu, nmi %llu, cpu-clock %llu, nmi clock %llu), %lu times overwritten completely, %llu bytes dropped, %llu records lost by nesting, %llu bytes written",
	       taken, records, totals[TASK], totals[IRQ], totals[NMI],
	       totals[IRQ_CLOCK], totals[NMI_CLOCK], lapped, dropped, lost,
	       (unsigned long long)self->page->data_head);
	EXPECT_LT(100, taken);
	EXPECT_LT(1000, records);
	/* All of them took part. */
	for (i = 0; i < NR_SOURCES; i++) {
		EXPECT_LT(0, totals[i]) {
			TH_LOG("no record of %s", source_names[i]);
		}
	}
	/* The buffer was overwritten many times. Otherwise the test proves nothing. */
	EXPECT_LT(10 * self->page->data_size, self->page->data_head);
}

TEST_HARNESS_MAIN
