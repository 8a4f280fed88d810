// SPDX-License-Identifier: GPL-2.0
/*
 * Samples whose size user space can influence. The size must be a multiple of 8, and
 * must match the bytes that are written. A sample whose size does not fit into
 * perf_event_header::size must be counted as lost. Otherwise the reader takes the
 * middle of a sample for the next record.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <linux/const.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "../kselftest_harness.h"
#include "lib/bpf.h"
#include "lib/event.h"
#include "lib/files.h"

#define PAGES		64
#define CPU		0

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	attr->size = sizeof(*attr);
	return event_open(attr, pid, cpu, 0);
}

/* A word of the stream; everything in it is a multiple of 8. */
static __u64 word_at(const struct perf_event_mmap_page *page, __u64 pos)
{
	const char *data = (const char *)page + page->data_offset;
	__u64 word;

	memcpy(&word, data + pos % page->data_size, sizeof(word));
	return word;
}

static struct perf_event_header
header_at(const struct perf_event_mmap_page *page, __u64 pos)
{
	struct perf_event_header header;
	__u64 word = word_at(page, pos);

	memcpy(&header, &word, sizeof(header));
	return header;
}

/* User stacks */

/* Larger than the dump of each variant except the last one. */
#define STACK_USER	1024
#define PERIOD_NSEC	1000000
#define MIN_NSEC	(30ULL * PERIOD_NSEC)
#define SPINS		500000UL

FIXTURE(ustack) {
	int fd;
	struct perf_event_mmap_page *page;
	unsigned long task_size;
};

FIXTURE_VARIANT(ustack) {
	/* Bytes from the stack pointer to the end of user space. */
	unsigned int	below;
	/* Bytes that must be dumped. */
	unsigned int	dump;
	bool		backward;
};

#define USTACK(_below, _dump)						\
FIXTURE_VARIANT_ADD(ustack, forward_##_below) {				\
	.below		= _below,					\
	.dump		= _dump,					\
	.backward	= false,					\
};									\
FIXTURE_VARIANT_ADD(ustack, backward_##_below) {			\
	.below		= _below,					\
	.dump		= _dump,					\
	.backward	= true,						\
}

USTACK(0, 0);
USTACK(3, 0);
USTACK(8, 8);
USTACK(13, 8);
USTACK(1001, 1000);
USTACK(2001, STACK_USER);

#ifdef __x86_64__
/* 47 or 56 bits, without the last page. */
static unsigned long find_task_size(void)
{
	const unsigned long page_size = sysconf(_SC_PAGESIZE);
	const unsigned long large = (1UL << 56) - page_size;
	void *at = (void *)(large - page_size), *p;

	p = mmap(at, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS |
		 MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		return (1UL << 47) - page_size;
	munmap(p, page_size);
	return p == at ? large : (1UL << 47) - page_size;
}

/* Loop with the given stack pointer. */
static void spin(unsigned long sp)
{
	unsigned long saved, n = SPINS;

	__asm__ volatile("mov %%rsp, %0\n\t"
			 "mov %2, %%rsp\n"
			 "1:\n\t"
			 "dec %1\n\t"
			 "jnz 1b\n\t"
			 "mov %0, %%rsp"
			 : "=&r" (saved), "+&r" (n)
			 : "r" (sp)
			 : "cc", "memory");
}
#else
static unsigned long find_task_size(void)
{
	return 0;
}

static void spin(unsigned long sp)
{
}
#endif

FIXTURE_SETUP(ustack)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_TASK_CLOCK,
		.sample_period	= PERIOD_NSEC,
		.sample_type	= PERF_SAMPLE_TID | PERF_SAMPLE_STACK_USER,
		.sample_stack_user = STACK_USER,
		.disabled	= 1,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.write_backward	= variant->backward,
	};

	self->task_size = find_task_size();
	if (!self->task_size)
		SKIP(return, "no code for this architecture");
	self->fd = open_event(&attr, 0, -1);
	ASSERT_LE(0, self->fd) {
		TH_LOG("perf_event_open: %s", strerror(errno));
	}
	self->page = event_map(self->fd, PAGES, variant->backward ?
			       PROT_READ : PROT_READ | PROT_WRITE);
	ASSERT_NE(MAP_FAILED, self->page);
}

FIXTURE_TEARDOWN(ustack)
{
	event_unmap(self->page, PAGES);
	close(self->fd);
}

TEST_F(ustack, size)
{
	/* Header, TID, size and, if there is a dump, its dynamic size. */
	const unsigned int fixed = 8 + 8 + 8 + (variant->dump ? 8 : 0);
	unsigned int samples = 0, edge = 0, lost = 0;
	struct perf_event_header header;
	__u64 pos, end, stack, nsec;
	bool some;

	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
	/* On a slow machine, the first sample may take long to come. */
	do {
		spin(self->task_size - variant->below);
		ASSERT_EQ(sizeof(nsec), read(self->fd, &nsec, sizeof(nsec)));
		pos = self->page->data_head;
		some = (variant->backward ? -pos : pos) >= 8 * fixed;
	} while (nsec < MIN_NSEC || (!some && nsec < 100ULL * MIN_NSEC));
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));

	/* A backward buffer is read from its head to position 0. */
	pos = variant->backward ? self->page->data_head : 0;
	end = variant->backward ? 0 : self->page->data_head;
	ASSERT_GE(self->page->data_size, end - pos) {
		TH_LOG("the buffer is too small for the test");
	}
	for (; pos != end; pos += header.size) {
		header = header_at(self->page, pos);
		ASSERT_LE(sizeof(header), header.size);
		ASSERT_EQ(0, header.size % 8) {
			TH_LOG("a record of %u bytes", header.size);
		}
		ASSERT_GE(end - pos, header.size);
		if (header.type == PERF_RECORD_LOST)
			lost++;
		if (header.type != PERF_RECORD_SAMPLE)
			continue;
		samples++;
		ASSERT_EQ(getpid(), (pid_t)word_at(self->page, pos + 8));
		stack = word_at(self->page, pos + 16);
		/* Outside of spin(), the task uses its own stack. */
		if (stack == STACK_USER && variant->dump != STACK_USER)
			continue;
		edge++;
		ASSERT_EQ(variant->dump, stack);
		ASSERT_EQ(fixed + stack, header.size);
	}
	EXPECT_EQ(0, lost);
	EXPECT_LE(1, edge) {
		TH_LOG("%u of %u samples have the stack pointer in question",
		       edge, samples);
	}
}

/* User stacks in samples with other large parts */

/* The largest size of a dump that may be asked for, and of a sample */
#define STACK_USER_MAX	65528
#define SAMPLE_MAX	65528
/* This many fit into the buffer. */
#define LARGE_SAMPLES	3
/* Registers that every sample may have: ax to r15, without ds, es, fs, gs */
#define REGS		(_BITULL(24) - 1 - 0xf000)

TEST(large_stack_and_registers)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_TASK_CLOCK,
		.sample_period	= PERIOD_NSEC,
		.sample_type	= PERF_SAMPLE_TID | PERF_SAMPLE_STACK_USER |
				  PERF_SAMPLE_REGS_INTR,
		.sample_stack_user = STACK_USER_MAX,
		.sample_regs_intr = REGS,
		.read_format	= FORMAT_LOST,
		.disabled	= 1,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};
	/* Header, TID, size, dynamic size, ABI of the registers. */
	const unsigned int fixed = 8 + 8 + 8 + 8 + 8 +
				   8 * __builtin_popcountll(REGS);
	struct perf_event_mmap_page *page;
	struct perf_event_header header;
	unsigned int samples = 0, tries;
	__u64 pos, read_values[2];
	int fd;

#ifndef __x86_64__
	SKIP(return, "no mask of registers for this architecture");
#endif
	fd = open_event(&attr, 0, -1);
	ASSERT_LE(0, fd) {
		TH_LOG("perf_event_open: %s", strerror(errno));
	}
	page = event_map(fd, PAGES, PROT_READ | PROT_WRITE);
	ASSERT_NE(MAP_FAILED, page);

	/* The event disables itself after this many samples. */
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_REFRESH, LARGE_SAMPLES));
	for (tries = 0; tries < 1000; tries++) {
		for (volatile unsigned int i = 0; i < SPINS; i++)
			;
		ASSERT_EQ(sizeof(read_values), read(fd, read_values, sizeof(read_values)));
		if (page->data_head >= LARGE_SAMPLES * SAMPLE_MAX || read_values[1])
			break;
	}

	EXPECT_EQ(0, read_values[1]) {
		TH_LOG("%llu samples lost", (unsigned long long)read_values[1]);
	}
	for (pos = 0; pos < page->data_head; pos += header.size) {
		header = header_at(page, pos);
		ASSERT_EQ(PERF_RECORD_SAMPLE, header.type);
		ASSERT_EQ(SAMPLE_MAX, header.size);
		ASSERT_EQ(getpid(), (pid_t)word_at(page, pos + 8));
		ASSERT_EQ(SAMPLE_MAX - fixed, word_at(page, pos + 16));
		samples++;
	}
	EXPECT_EQ(LARGE_SAMPLES, samples);
	event_unmap(page, PAGES);
	close(fd);
}

/* Callchains that do not fit into a sample */

/* More entries than fit into a sample. */
#define DEEP		10000

static int max_stack(int val)
{
	long old;

	if (read_long(SYSCTL_MAX_STACK, &old) || write_long(SYSCTL_MAX_STACK, val))
		return -1;
	return old;
}

/* A frame for each call, and a page fault in the innermost one. */
__attribute__((noinline, optimize("no-omit-frame-pointer")))
static void fault_deep(unsigned int depth, volatile char *page)
{
	if (depth)
		fault_deep(depth - 1, page);
	else
		*page = 1;
	/* Prevent a tail call. */
	__asm__ volatile("" ::: "memory");
}

FIXTURE(deep) {
	int old_max;
};

FIXTURE_VARIANT(deep) {
	__u64		type;
	/* Words of the sample without its header and the callchain's entries. */
	unsigned int	words;
};

FIXTURE_VARIANT_ADD(deep, alone) {
	.type	= 0,
	.words	= 1,
};

FIXTURE_VARIANT_ADD(deep, fixed) {
	.type	= PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR,
	.words	= 1 + 4,
};

FIXTURE_VARIANT_ADD(deep, registers) {
	.type	= PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_REGS_INTR,
	.words	= 1 + 1 + 2 * (1 + __builtin_popcountll(REGS)),
};

FIXTURE_VARIANT_ADD(deep, user_stack) {
	.type	= PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
	/* The only word of the stack is its size, 0. */
	.words	= 1 + 1 + 1 + __builtin_popcountll(REGS) + 1,
};

FIXTURE_SETUP(deep)
{
	self->old_max = -1;
	if (geteuid())
		SKIP(return, "must be run as root");
	self->old_max = max_stack(DEEP);
	if (self->old_max < 0)
		SKIP(return, "cannot change " SYSCTL_MAX_STACK ": %s", strerror(errno));
}

FIXTURE_TEARDOWN(deep)
{
	if (self->old_max >= 0)
		EXPECT_EQ(DEEP, max_stack(self->old_max));
}

/* The sample contains as many entries of the callchain as fit. */
TEST_F(deep, size)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_CALLCHAIN | variant->type,
		.disabled	= 1,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.exclude_callchain_kernel = 1,
	};
	const long page_size = sysconf(_SC_PAGESIZE);
	struct perf_event_mmap_page *page;
	struct perf_event_header header;
	unsigned int large = 0, at;
	char *fault, dummy;
	__u64 pos;
	int fd;

#ifndef __x86_64__
	SKIP(return, "no mask of registers for this architecture");
#endif
	if (variant->type & PERF_SAMPLE_REGS_USER)
		attr.sample_regs_user = REGS;
	if (variant->type & PERF_SAMPLE_REGS_INTR)
		attr.sample_regs_intr = REGS;
	if (variant->type & PERF_SAMPLE_STACK_USER)
		attr.sample_stack_user = STACK_USER_MAX;
	/* Words before the number of entries. */
	at = 1 + __builtin_popcountll(variant->type & (PERF_SAMPLE_IP | PERF_SAMPLE_TID |
						       PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR));

	fd = open_event(&attr, 0, -1);
	ASSERT_LE(0, fd) {
		TH_LOG("perf_event_open: %s", strerror(errno));
	}
	page = event_map(fd, PAGES, PROT_READ | PROT_WRITE);
	ASSERT_NE(MAP_FAILED, page);
	fault = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, fault);

	/* Fault in the stack before the event is enabled. */
	fault_deep(DEEP, &dummy);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	fault_deep(DEEP, fault);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DISABLE, 0));

	for (pos = 0; pos != page->data_head; pos += header.size) {
		header = header_at(page, pos);
		ASSERT_LE(sizeof(header), header.size);
		ASSERT_GE(page->data_head - pos, header.size);
		if (header.type != PERF_RECORD_SAMPLE ||
		    header.size < SAMPLE_MAX / 2)
			continue;
		large++;
		EXPECT_EQ(SAMPLE_MAX, header.size);
		EXPECT_EQ(SAMPLE_MAX / 8 - 1 - variant->words,
			  word_at(page, pos + 8 * at));
	}
	EXPECT_LE(1, large);

	munmap(fault, page_size);
	event_unmap(page, PAGES);
	close(fd);
}

/* Raw data */

/* Sizes of raw data. RAW_MAX is the largest that fits into header.size. */
#define RAW_SMALL	100
#define RAW_MAX		(65528 - 8 - 4)
#define RAW_HUGE	70000

/* return bpf_perf_event_output(ctx, events, this CPU, &values[0], size) */
static int prog_output(int events, int values, unsigned int size)
{
	const struct bpf_insn insns[] = {
		MOV_REG(BPF_REG_6, BPF_REG_1),
		ST_IMM_W(BPF_REG_10, -4, 0),
		MOV_REG(BPF_REG_2, BPF_REG_10),
		ADD_IMM(BPF_REG_2, -4),
		LD_MAP(BPF_REG_1, values),
		LD_MAP_REST,
		CALL(BPF_FUNC_map_lookup_elem),
		JEQ_IMM(BPF_REG_0, 0, 7),
		MOV_REG(BPF_REG_4, BPF_REG_0),
		MOV_REG(BPF_REG_1, BPF_REG_6),
		LD_MAP(BPF_REG_2, events),
		LD_MAP_REST,
		/* BPF_F_CURRENT_CPU */
		MOV32_IMM(BPF_REG_3, -1),
		MOV_IMM(BPF_REG_5, size),
		CALL(BPF_FUNC_perf_event_output),
		EXIT_INSN(),
	};

	return prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, insns, ARRAY_SIZE(insns));
}

FIXTURE(raw) {
	int fd;
	int events;
	int values;
	struct perf_event_mmap_page *page;
};

FIXTURE_SETUP(raw)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_BPF_OUTPUT,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_RAW,
		.read_format	= FORMAT_LOST,
	};
	union bpf_attr update = {};
	__u32 key = CPU;
	cpu_set_t set;

	if (geteuid())
		SKIP(return, "must be run as root");
	self->values = map_create(BPF_MAP_TYPE_ARRAY, RAW_HUGE, 1);
	if (self->values < 0)
		SKIP(return, "bpf(BPF_MAP_CREATE): %s", strerror(errno));
	self->events = map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, CPU + 1);
	if (self->events < 0)
		SKIP(return, "no map of events: %s", strerror(errno));
	CPU_ZERO(&set);
	CPU_SET(CPU, &set);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	self->fd = open_event(&attr, -1, CPU);
	ASSERT_LE(0, self->fd);
	self->page = event_map(self->fd, PAGES, PROT_READ | PROT_WRITE);
	ASSERT_NE(MAP_FAILED, self->page);
	update.map_fd = self->events;
	update.key = (uintptr_t)&key;
	update.value = (uintptr_t)&self->fd;
	ASSERT_EQ(0, sys_bpf(BPF_MAP_UPDATE_ELEM, &update));
}

FIXTURE_TEARDOWN(raw)
{
	event_unmap(self->page, PAGES);
	close(self->fd);
	close(self->events);
	close(self->values);
}

/* Returns the helper's return value. */
static int output(struct __test_metadata *_metadata, FIXTURE_DATA(raw) *self,
		  unsigned int size)
{
	union bpf_attr run = {};
	int prog;

	prog = prog_output(self->events, self->values, size);
	ASSERT_LE(0, prog);
	run.test.prog_fd = prog;
	ASSERT_EQ(0, sys_bpf(BPF_PROG_TEST_RUN, &run)) {
		TH_LOG("BPF_PROG_TEST_RUN: %s", strerror(errno));
	}
	close(prog);
	return (int)run.test.retval;
}

TEST_F(raw, size)
{
	static const struct {
		__u32 type;
		__u16 size;
	} want[] = {
		{ PERF_RECORD_SAMPLE, 8 + 4 + RAW_SMALL },
		{ PERF_RECORD_SAMPLE, 8 + 4 + RAW_MAX },
		{ PERF_RECORD_LOST, 24 },
		{ PERF_RECORD_SAMPLE, 8 + 4 + RAW_SMALL },
	};
	struct perf_event_header header;
	__u64 pos = 0, v[2];
	unsigned int i;

	EXPECT_EQ(0, output(_metadata, self, RAW_SMALL));
	EXPECT_EQ(0, output(_metadata, self, RAW_MAX));
	EXPECT_GT(0, output(_metadata, self, RAW_MAX + 1));
	EXPECT_GT(0, output(_metadata, self, RAW_HUGE));
	EXPECT_EQ(0, output(_metadata, self, RAW_SMALL));
	for (i = 0; i < ARRAY_SIZE(want); i++) {
		ASSERT_GT(self->page->data_head, pos);
		header = header_at(self->page, pos);
		EXPECT_EQ(want[i].type, header.type);
		ASSERT_EQ(want[i].size, header.size) {
			TH_LOG("record %u", i);
		}
		if (header.type == PERF_RECORD_LOST)
			EXPECT_EQ(2, word_at(self->page, pos + 16));
		pos += header.size;
	}
	EXPECT_EQ(self->page->data_head, pos);
	ASSERT_EQ(sizeof(v), read(self->fd, v, sizeof(v)));
	EXPECT_EQ(2, v[1]);
}

/* Sample data of one event must not be used for the next */

TEST(software_events)
{
	/* Whatever the order, a small sample follows a large one. */
	static const __u64 types[] = {
		PERF_SAMPLE_TID,
		PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_STACK_USER,
		PERF_SAMPLE_TID,
	};
	const long page_size = sysconf(_SC_PAGESIZE);
	struct perf_event_mmap_page *page[ARRAY_SIZE(types)];
	struct perf_event_header header;
	int fd[ARRAY_SIZE(types)];
	unsigned int i, samples;
	char *fault;
	bool small;
	__u64 pos;

	fault = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, fault);
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		struct perf_event_attr attr = {
			.type		= PERF_TYPE_SOFTWARE,
			.config		= PERF_COUNT_SW_PAGE_FAULTS,
			.sample_period	= 1,
			.sample_type	= types[i],
			.disabled	= 1,
			.exclude_hv	= 1,
		};

		if (types[i] & PERF_SAMPLE_STACK_USER)
			attr.sample_stack_user = STACK_USER;
		fd[i] = open_event(&attr, 0, -1);
		ASSERT_LE(0, fd[i]) {
			TH_LOG("perf_event_open: %s", strerror(errno));
		}
		page[i] = event_map(fd[i], PAGES, PROT_READ | PROT_WRITE);
		ASSERT_NE(MAP_FAILED, page[i]);
	}

	for (i = 0; i < ARRAY_SIZE(types); i++)
		ASSERT_EQ(0, ioctl(fd[i], PERF_EVENT_IOC_ENABLE, 0));
	*(volatile char *)fault = 1;
	for (i = 0; i < ARRAY_SIZE(types); i++)
		ASSERT_EQ(0, ioctl(fd[i], PERF_EVENT_IOC_DISABLE, 0));

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		samples = 0;
		for (pos = 0; pos != page[i]->data_head; pos += header.size) {
			header = header_at(page[i], pos);
			ASSERT_LE(sizeof(header), header.size);
			ASSERT_GE(page[i]->data_head - pos, header.size);
			if (header.type != PERF_RECORD_SAMPLE)
				continue;
			samples++;
			EXPECT_EQ(getpid(), (pid_t)word_at(page[i], pos + 8));
			small = types[i] == PERF_SAMPLE_TID;
			EXPECT_EQ(small, header.size == 8 + 8);
			EXPECT_EQ(!small, header.size > 8 + 8 + STACK_USER);
		}
		EXPECT_LE(1, samples);
		event_unmap(page[i], PAGES);
		close(fd[i]);
	}
	munmap(fault, page_size);
}

TEST_HARNESS_MAIN
