// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains and memory: stacks that must be faulted in, stacks
 * under userfaultfd, frame chains made to mislead, and faults that the deferred
 * work itself takes.
 *
 * All of it uses a stack and frames made by hand: walk_on() makes a system call
 * with any stack pointer and frame pointer.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdalign.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "lib/child.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/known_stack.h"
#include "lib/session.h"

#define PAGE	4096UL

/* Where the stack is mapped; frames in the executable point into it. */
#define STACK_ADDR	0x10000000000UL
#define STACK_PAGES	4UL
#define SP_OFFSET	1024

struct frame {
	__u64 next;
	__u64 ra;
};

/*
 * Return addresses only have to look like user space.  Page 0 is resident and
 * has two frames, pages 1 and 3 have one each and come from a file.
 */
#define RA(n)		(0x400000UL + 16 * (n))
#define FRAME0		(STACK_ADDR + 2048)
#define FRAME1		(STACK_ADDR + 3072)
#define FRAME2		(STACK_ADDR + PAGE + 64)
#define FRAME3		(STACK_ADDR + 3 * PAGE + 128)

/* Far enough from everything that fault-around does not map it. */
#define PADDING		(64 * 1024UL)

struct outer {
	char	before[PADDING];
	char	pages[STACK_PAGES - 1][PAGE];
	char	after[PADDING];
};

/* The outer frames as bytes of this program's file. */
static alignas(65536) const union {
	struct outer	o;
	__u64		words[sizeof(struct outer) / 8];
} outer_frames = {
	.words = {
		[(PADDING + FRAME2 - STACK_ADDR - PAGE) / 8] = FRAME3,
		[(PADDING + FRAME2 - STACK_ADDR - PAGE) / 8 + 1] = RA(2),
		[(PADDING + FRAME3 - STACK_ADDR - PAGE) / 8] = 0,
		[(PADDING + FRAME3 - STACK_ADDR - PAGE) / 8 + 1] = RA(3),
	},
};

static const __u64 whole[] = { 0, RA(0), RA(1), RA(2), RA(3) };

static void expect(__u64 *want, unsigned int nr)
{
	memcpy(want, whole, nr * sizeof(*want));
	want[0] = (__u64)walk_on_ip;
}

static struct frame *frame_at(unsigned long addr)
{
	return (struct frame *)addr;
}

/* Page 0, and PROT_NONE where the rest goes. */
static int map_stack(void)
{
	void *p;

	p = mmap((void *)STACK_ADDR, STACK_PAGES * PAGE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != (void *)STACK_ADDR)
		return -1;
	if (mprotect(p, PAGE, PROT_READ | PROT_WRITE))
		return -1;
	memset(p, 0, PAGE);
	*frame_at(FRAME0) = (struct frame) { FRAME1, RA(0) };
	*frame_at(FRAME1) = (struct frame) { FRAME2, RA(1) };
	return 0;
}

static void unmap_stack(void)
{
	munmap((void *)STACK_ADDR, STACK_PAGES * PAGE);
}

static long sample(unsigned long fp)
{
	return walk_on(__NR_getpgid, 0, (void *)(STACK_ADDR + SP_OFFSET),
		       (void *)fp, 0);
}

/* Not resident */

FIXTURE(paged_out) {
	struct session s;
	int fd;
	off_t off;
	__u64 want[8];
};

FIXTURE_VARIANT(paged_out) {
	__u64 flags;
	/* The executable on its file system, else a file in memory. */
	bool executable;
	unsigned int nr_want;
};

/* Control: without deferral the stack ends at the page that is not present. */
FIXTURE_VARIANT_ADD(paged_out, immediate) {
	.nr_want = 3,
};

FIXTURE_VARIANT_ADD(paged_out, immediate_executable) {
	.executable = true,
	.nr_want = 3,
};

FIXTURE_VARIANT_ADD(paged_out, deferred) {
	.flags = BOTH,
	.nr_want = 5,
};

FIXTURE_VARIANT_ADD(paged_out, deferred_executable) {
	.flags = BOTH,
	.executable = true,
	.nr_want = 5,
};

FIXTURE_SETUP(paged_out)
{
	if (variant->flags) {
		const char *why = defer_unsupported();

		if (why)
			SKIP(return, "%s", why);
	}
	if (!HAVE_KNOWN_STACK)
		SKIP(return, "no known-stack code for this architecture");
	ASSERT_EQ(0, map_stack());
	if (variant->executable) {
		self->fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		ASSERT_LE(0, self->fd);
		self->off = file_offset(outer_frames.o.pages);
		ASSERT_LT(0, self->off);
		ASSERT_EQ(0, self->off % PAGE);
	} else {
		self->fd = memfd_create("frames", MFD_CLOEXEC);
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(sizeof(outer_frames.o.pages),
			  write(self->fd, outer_frames.o.pages,
				sizeof(outer_frames.o.pages)));
	}
	ASSERT_NE(MAP_FAILED, mmap((void *)(STACK_ADDR + PAGE),
				   (STACK_PAGES - 1) * PAGE, PROT_READ,
				   MAP_PRIVATE | MAP_FIXED, self->fd,
				   self->off));
}

FIXTURE_TEARDOWN(paged_out)
{
	session_close(&self->s);
	unmap_stack();
	close(self->fd);
}

/* Drop the pages from the page tables and, if the kernel can, from the page cache. */
static void page_out(int fd, off_t off)
{
	madvise((void *)(STACK_ADDR + PAGE), (STACK_PAGES - 1) * PAGE,
		MADV_DONTNEED);
	madvise((void *)&outer_frames, sizeof(outer_frames), MADV_DONTNEED);
	posix_fadvise(fd, off, (STACK_PAGES - 1) * PAGE, POSIX_FADV_DONTNEED);
}

static unsigned int nr_cached(void)
{
	unsigned char vec[STACK_PAGES - 1];
	unsigned int i, n = 0;

	if (mincore((void *)(STACK_ADDR + PAGE), (STACK_PAGES - 1) * PAGE, vec))
		return STACK_PAGES - 1;
	for (i = 0; i < STACK_PAGES - 1; i++)
		n += vec[i] & 1;
	return n;
}

TEST_F(paged_out, stack)
{
	const unsigned int rounds = 10;
	struct perf_event_attr attr;
	unsigned int i, cached = 0;
	struct defer_stats st;

	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  variant->flags);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < rounds; i++) {
		page_out(self->fd, self->off);
		cached += nr_cached();
		sample(FRAME0);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	TH_LOG("%u of %lu pages were in the page cache", cached,
	       rounds * (STACK_PAGES - 1));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(rounds, st.samples);
	EXPECT_EQ(variant->flags ? rounds : 0, st.deferred);
	expect(self->want, 5);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;
		int nr;

		nr = defer_user_chain(&self->s.log,
				      log_nth(&self->s.log,
					      PERF_RECORD_SAMPLE, i), &ips);
		EXPECT_TRUE(stack_same(ips, nr, self->want, variant->nr_want));
	}
}

/* Is this the cookie of a sample of the event @id? */
static bool is_cookie_of(const struct event_log *log, __u64 id, __u64 cookie)
{
	unsigned int i;

	for (i = 0; i < log->nr_items; i++) {
		if (is_sample(&log->items[i]) && log->items[i].ident == id &&
		    log->items[i].cookie == cookie)
			return true;
	}
	return false;
}

/*
 * The deferred work faults the stack in, and those faults are events that ask
 * for deferral themselves.  They join the request that is being served: else the
 * work would raise itself again and again.
 */
TEST_F(paged_out, faults_of_the_deferred_work)
{
	static const char * const names[] = {
		"exceptions/page_fault_kernel", "exceptions/page_fault_user",
	};
	unsigned int i, j, own = 0, rearmed = 0;
	const unsigned int rounds = 20;
	struct perf_event_attr attr;
	struct defer_stats st;
	__u64 id;

	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  variant->flags);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, 256));
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_ID, &id));
	for (i = 0; i < 2; i++) {
		attr = event_attr(PERF_TYPE_TRACEPOINT,
				  TRACEPOINT_ID(names[i]), 1,
				  variant->flags);
		ASSERT_EQ(0, session_add(&self->s, &attr));
	}
	attr = event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1,
			  variant->flags);
	ASSERT_EQ(0, session_add(&self->s, &attr));
	for (i = 0; i < rounds; i++) {
		page_out(self->fd, self->off);
		ASSERT_EQ(0, session_enable(&self->s));
		sample(FRAME0);
		ASSERT_EQ(0, session_disable(&self->s));
		session_drain(&self->s);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	for (i = 0, j = 0; i < self->s.log.nr_items; i++) {
		const struct log_item *it = &self->s.log.items[i];
		const __u64 *ips = NULL;

		if (!is_sample(it))
			continue;
		if (it->ident == id) {
			int nr = defer_user_chain(&self->s.log, it, &ips);

			expect(self->want, 5);
			EXPECT_TRUE(stack_same(ips, nr, self->want,
					       variant->nr_want));
			j++;
			continue;
		}
		if (it->cookie) {
			const struct log_item *rec;

			rec = defer_find_record(&self->s.log, it->cookie);
			if (!rec || !rec->nr || rec->ips[0] != (__u64)walk_on_ip)
				continue;
			own++;
			rearmed += !is_cookie_of(&self->s.log, id, it->cookie);
			continue;
		}
		if (defer_user_chain(&self->s.log, it, &ips) > 0 &&
		    ips[0] == (__u64)walk_on_ip)
			own++;
	}
	TH_LOG("%u faults of the deferred work, %u of them asked for more", own,
	       rearmed);
	EXPECT_EQ(rounds, j);
	EXPECT_EQ(st.cookies, st.records);
	EXPECT_EQ(0, rearmed);
	/* Two pages, two events; without deferral nothing is faulted in. */
	if (variant->flags)
		EXPECT_LE(rounds, own);
	EXPECT_GE(32 * rounds, own);
}

/* Userfaultfd */

FIXTURE(uffd) {
	struct session s;
	__u64 want[8];
};

FIXTURE_SETUP(uffd)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(uffd)
{
	session_close(&self->s);
}

#define UFFD_UNAVAILABLE	77

static void do_uffd(void *arg)
{
	struct uffdio_register reg = {
		.range = {
			.start = STACK_ADDR + PAGE,
			.len = (STACK_PAGES - 1) * PAGE,
		},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_api api = { .api = UFFD_API };
	int fd;

	if (map_stack() ||
	    mprotect((void *)(STACK_ADDR + PAGE), (STACK_PAGES - 1) * PAGE,
		     PROT_READ | PROT_WRITE))
		_exit(2);
	fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		_exit(UFFD_UNAVAILABLE);
	if (ioctl(fd, UFFDIO_REGISTER, &reg))
		_exit(3);
	/* Nobody serves the faults: a task that takes one sleeps forever. */
	sample(FRAME0);
}

TEST_F(uffd, walk_ends_and_does_not_block)
{
	struct perf_event_attr attr;
	struct child child;
	const __u64 *ips = NULL;
	struct defer_stats st;
	int status = -1, nr;

	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  BOTH);
	ASSERT_EQ(0, child_spawn(&child, do_uffd, NULL));
	ASSERT_EQ(0, session_open(&self->s, &attr, child.pid, -1,
				  SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	if (WEXITSTATUS(status) == UFFD_UNAVAILABLE)
		SKIP(return, "no userfaultfd");
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	EXPECT_EQ(1, st.deferred);
	expect(self->want, 3);
	nr = defer_user_chain(&self->s.log,
			      log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0),
			      &ips);
	EXPECT_TRUE(stack_same(ips, nr, self->want, 3));
}

/* Frames made to mislead */

FIXTURE(hostile) {
	struct session s;
	__u64 want[8];
};

FIXTURE_SETUP(hostile)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, map_stack());
}

FIXTURE_TEARDOWN(hostile)
{
	session_close(&self->s);
	unmap_stack();
}

TEST_F(hostile, frames)
{
	const struct {
		const char	*what;
		__u64		fp;
		struct frame	frame0;
		/* Expected number of entries. */
		unsigned int	nr_want;
		/* The stack may end after the last of these entries. */
		bool		ends;
	} cases[] = {
		{ "good",		FRAME0,
		  { FRAME1, RA(0) },	3,	true },
		{ "loop",		FRAME0,
		  { FRAME0, RA(0) },	2 },
		{ "backwards",		FRAME0,
		  { FRAME0 - 64, RA(0) },	2 },
		{ "next below sp",	FRAME0,
		  { STACK_ADDR + 64, RA(0) },	2 },
		{ "fp below sp",	STACK_ADDR + 64,
		  { 0, RA(0) },		1 },
		{ "fp is 0",		0,
		  { 0, RA(0) },		1,	true },
		{ "fp misaligned",	FRAME0 + 4,
		  { FRAME1, RA(0) },	1 },
		{ "next misaligned",	FRAME0,
		  { FRAME1 + 1, RA(0) },	2 },
		{ "fp of the kernel",	0xffffffff81000000UL,
		  { 0, RA(0) },		1 },
		{ "next of the kernel",	FRAME0,
		  { 0xffff888000001000UL, RA(0) },	2 },
		{ "fp not canonical",	0x0000800000000000UL,
		  { 0, RA(0) },		1 },
		{ "fp at the very top",	~0UL - 7,
		  { 0, RA(0) },		1 },
		{ "next unmapped",	FRAME0,
		  { STACK_ADDR + STACK_PAGES * PAGE + 64, RA(0) },	2 },
		{ "next into PROT_NONE", FRAME0,
		  { STACK_ADDR + PAGE - 8, RA(0) },	2 },
		{ "return to the kernel", FRAME0,
		  { FRAME1, 0xffffffff81000000UL },	1 },
		{ "forged user marker",	FRAME0,
		  { FRAME1, PERF_CONTEXT_USER },	1 },
		{ "forged deferred marker", FRAME0,
		  { FRAME1, DEFER_CONTEXT },	1 },
	};
	unsigned int i, n = ARRAY_SIZE(cases);
	struct perf_event_attr attr;
	struct defer_stats st;

	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  BOTH);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < n; i++) {
		/* For "backwards". */
		*frame_at(FRAME0 - 64) = (struct frame) { FRAME1, RA(5) };
		*frame_at(STACK_ADDR + 64) = (struct frame) { FRAME1, RA(6) };
		*frame_at(FRAME0) = cases[i].frame0;
		*frame_at(FRAME1) = (struct frame) { 0, RA(1) };
		sample(cases[i].fp);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(n, st.samples);
	EXPECT_EQ(n, st.deferred);
	expect(self->want, 5);
	for (i = 0; i < n; i++) {
		const __u64 *ips = NULL;
		int nr;

		nr = defer_user_chain(&self->s.log,
				      log_nth(&self->s.log,
					      PERF_RECORD_SAMPLE, i), &ips);
		EXPECT_TRUE(stack_same(ips, nr, self->want,
				       cases[i].nr_want)) {
			TH_LOG("%s", cases[i].what);
		}
		EXPECT_EQ(cases[i].ends ? 0 : DEFER_MISC_BROKEN,
			  log_nth(&self->s.log, DEFER_RECORD, i)->misc &
			  (DEFER_MISC_CUT | DEFER_MISC_BROKEN)) {
			TH_LOG("%s", cases[i].what);
		}
	}
}

/* Several stacks */

/*
 * Frame pointers that lead to a lower stack, as those of Go's runtime do. The walk may
 * follow a few of them, if their return addresses are after a call. Stack n is
 * STACKS_GAP bytes below stack n - 1. Stack 0 is that of map_stack().
 *
 *	frame on stack 0 -> stack 1 -> ... each with one frame, except where stated
 */
#define STACKS		7
#define STACKS_GAP	(64 * 1024UL)
#define STACK_FRAME(n)	(STACK_ADDR - (n) * STACKS_GAP + 512)
/* Instructions that follow a call. */
#define CALLED(n)	((__u64)((n) % 2 ? walk_ret1 : walk_ret0))
/* One that does not. */
#define NOT_CALLED	((__u64)walk_spin)
/* Nor do these, but there is a no-op before each, and one is a call itself. */
extern const char after_no_op[], after_no_op_call[];
asm(".pushsection .text; nop; after_no_op: ud2; nop; after_no_op_call: call .; .popsection");
#define AFTER_NO_OP	((__u64)after_no_op)
#define AT_EXIT		((__u64)after_no_op_call)

static int map_lower_stacks(void)
{
	unsigned int n;

	for (n = 1; n < STACKS; n++) {
		void *addr = (void *)(STACK_ADDR - n * STACKS_GAP);

		if (mmap(addr, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			 -1, 0) != addr)
			return -1;
	}
	return 0;
}

static void unmap_lower_stacks(void)
{
	unsigned int n;

	for (n = 1; n < STACKS; n++)
		munmap((void *)(STACK_ADDR - n * STACKS_GAP), PAGE);
}

FIXTURE(stacks) {
	struct session s;
	__u64 want[STACKS + 2];
};

FIXTURE_SETUP(stacks)
{
	const char *why = defer_unsupported();
	struct perf_event_attr attr;

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, map_stack());
	ASSERT_EQ(0, map_lower_stacks());
	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1,
			  BOTH);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
}

FIXTURE_TEARDOWN(stacks)
{
	session_close(&self->s);
	unmap_lower_stacks();
	unmap_stack();
}

/* One sample with the frames set up; the record must be @want. */
#define EXPECT_STACKS(nr_want) do {					\
	const __u64 *__ips = NULL;					\
	struct defer_stats __st;					\
	int __nr;							\
									\
	sample(FRAME0);							\
	ASSERT_EQ(0, session_finish(&self->s));				\
	__st = defer_conserve(&self->s.log);				\
	EXPECT_CONSERVED(&__st);					\
	ASSERT_EQ(1, __st.samples);					\
	EXPECT_EQ(1, __st.deferred);					\
	self->want[0] = (__u64)walk_on_ip;				\
	__nr = defer_user_chain(&self->s.log,				\
				log_nth(&self->s.log,			\
					PERF_RECORD_SAMPLE, 0),		\
				&__ips);				\
	EXPECT_TRUE(stack_same(__ips, __nr, self->want, nr_want));	\
} while (0)

TEST_F(stacks, lower_one_is_followed)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { STACK_FRAME(1) + 64, CALLED(1) };
	*frame_at(STACK_FRAME(1) + 64) = (struct frame) { 0, CALLED(2) };
	self->want[1] = CALLED(0);
	self->want[2] = CALLED(1);
	self->want[3] = CALLED(2);
	EXPECT_STACKS(4);
}

TEST_F(stacks, data_is_not_followed)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { STACK_FRAME(1) + 64, NOT_CALLED };
	*frame_at(STACK_FRAME(1) + 64) = (struct frame) { 0, CALLED(2) };
	self->want[1] = CALLED(0);
	EXPECT_STACKS(2);
}

TEST_F(stacks, data_on_the_lower_one_ends_it)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { STACK_FRAME(1) + 64, CALLED(1) };
	*frame_at(STACK_FRAME(1) + 64) = (struct frame) { STACK_FRAME(1) + 128, NOT_CALLED };
	*frame_at(STACK_FRAME(1) + 128) = (struct frame) { 0, CALLED(2) };
	self->want[1] = CALLED(0);
	self->want[2] = CALLED(1);
	EXPECT_STACKS(3);
}

/* The outermost return address was not pushed by a call: Go's runtime stores it. */
TEST_F(stacks, outermost_frame_was_not_called)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { STACK_FRAME(1) + 64, CALLED(1) };
	*frame_at(STACK_FRAME(1) + 64) = (struct frame) { 0, NOT_CALLED };
	self->want[1] = CALLED(0);
	self->want[2] = CALLED(1);
	self->want[3] = NOT_CALLED;
	EXPECT_STACKS(4);
}

/* An outermost frame alone does not prove that there is another stack. */
TEST_F(stacks, data_before_zero_is_not_followed)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { 0, NOT_CALLED };
	self->want[1] = CALLED(0);
	EXPECT_STACKS(2);
}

/* Go's runtime starts stacks with a zero and an address between a no-op and a call. */
TEST_F(stacks, exit_call_before_zero_is_followed)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { 0, AT_EXIT };
	self->want[1] = CALLED(0);
	self->want[2] = AT_EXIT;
	EXPECT_STACKS(3);
}

TEST_F(stacks, no_op_before_zero_is_not_followed)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { 0, AFTER_NO_OP };
	self->want[1] = CALLED(0);
	EXPECT_STACKS(2);
}

TEST_F(stacks, exit_call_before_a_frame_is_not_followed)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { STACK_FRAME(1) + 64, AT_EXIT };
	*frame_at(STACK_FRAME(1) + 64) = (struct frame) { 0, CALLED(2) };
	self->want[1] = CALLED(0);
	EXPECT_STACKS(2);
}

TEST_F(stacks, circle_ends)
{
	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	*frame_at(STACK_FRAME(1)) = (struct frame) { FRAME0, CALLED(1) };
	self->want[1] = CALLED(0);
	self->want[2] = CALLED(1);
	/* Back up, and not down again. */
	self->want[3] = CALLED(0);
	EXPECT_STACKS(4);
}

TEST_F(stacks, four_switches_and_no_more)
{
	unsigned int n;

	*frame_at(FRAME0) = (struct frame) { STACK_FRAME(1), CALLED(0) };
	self->want[1] = CALLED(0);
	for (n = 1; n < STACKS; n++) {
		*frame_at(STACK_FRAME(n)) = (struct frame) {
			n + 1 < STACKS ? STACK_FRAME(n + 1) : 0, CALLED(n)
		};
		self->want[1 + n] = CALLED(n);
	}
	EXPECT_STACKS(1 + 1 + 4);
}

TEST_HARNESS_MAIN
