// SPDX-License-Identifier: GPL-2.0
/*
 * perf_event_attr::overwrite: what is refused, what stays read-only, and where
 * data_tail is after each record.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "lib/event.h"
#include "lib/overwrite.h"

#define PAGES		1
/* sizeof(header), IDENTIFIER, size and dyn_size of the user stack. */
#define FIXED_SIZE	32
#define LOST_SIZE	24
/* sizeof(header), IDENTIFIER and TID. */
#define SMALL_SIZE	24

static struct perf_event_attr fault_attr(__u64 flags)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_IDENTIFIER,
		.read_format	= FORMAT_LOST,
		.disabled	= 1,
		.exclude_kernel	= 1,
	};

	*attr_flags(&attr) |= flags;
	return attr;
}

/* An event whose records have this size: 16, 24, or 40 and more. */
static struct perf_event_attr sized_attr(__u64 flags, unsigned int size)
{
	struct perf_event_attr attr = fault_attr(flags);

	if (size == SMALL_SIZE) {
		attr.sample_type |= PERF_SAMPLE_TID;
	} else if (size > FIXED_SIZE) {
		attr.sample_type |= PERF_SAMPLE_STACK_USER;
		attr.sample_stack_user = size - FIXED_SIZE;
	}
	return attr;
}

/* One page fault in user mode. */
static void fault(volatile char *area, long page_size)
{
	madvise((void *)area, page_size, MADV_DONTNEED);
	*area = 1;
}

FIXTURE(overwrite) {
	long		page_size;
	volatile char	*area;
	int		fd[2];
	struct perf_event_mmap_page *page[2];
	struct ow_snapshot snap;
};

FIXTURE_SETUP(overwrite)
{
	const char *why = ow_unsupported();
	int i;

	if (why)
		SKIP(return, "%s", why);
	for (i = 0; i < 2; i++)
		self->fd[i] = -1;
	self->page_size = sysconf(_SC_PAGESIZE);
	self->area = mmap(NULL, self->page_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->area);
	self->snap.copy = malloc(PAGES * self->page_size);
	ASSERT_NE(NULL, self->snap.copy);
	/* Take the page faults of the first use before the test. */
	memset(self->snap.copy, 1, PAGES * self->page_size);
	fault(self->area, self->page_size);
	poll(NULL, 0, 0);
}

FIXTURE_TEARDOWN(overwrite)
{
	int i;

	for (i = 0; i < 2; i++) {
		event_unmap(self->page[i], PAGES);
		if (self->fd[i] >= 0)
			close(self->fd[i]);
	}
	if (self->area)
		munmap((void *)self->area, self->page_size);
	free(self->snap.copy);
}

static int try_attr(struct perf_event_attr attr, int cpu)
{
	int fd = event_open(&attr, 0, cpu, 0);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int try_map(int fd, unsigned int pages, int prot)
{
	void *page = event_map(fd, pages, prot);

	if (page == MAP_FAILED)
		return -errno;
	event_unmap(page, pages);
	return 0;
}

static int set_output(int fd, long to)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, to) ? -errno : 0;
}

#define FAULT()	fault(self->area, self->page_size)

#define ASSERT_OPEN(i, attr, cpu) do {					\
	struct perf_event_attr __a = attr;				\
									\
	self->fd[i] = event_open(&__a, 0, cpu, 0);				\
	ASSERT_LE(0, self->fd[i]);					\
} while (0)

#define ASSERT_MAP(i, prot) do {					\
	self->page[i] = event_map(self->fd[i], PAGES, prot);		\
	ASSERT_NE(MAP_FAILED, (void *)self->page[i]);			\
} while (0)

/* Attr */

TEST_F(overwrite, attr)
{
	const __u64 ow = OW_ATTR_OVERWRITE;

	EXPECT_EQ(0, try_attr(fault_attr(ow), -1));
	EXPECT_EQ(0, try_attr(fault_attr(ow), 0));
	EXPECT_EQ(0, try_attr(fault_attr(ow | OW_ATTR_INHERIT), 0));
	/* Each is accepted alone, so it is the combination that is refused. */
	EXPECT_EQ(0, try_attr(fault_attr(OW_ATTR_BACKWARD), -1));
	EXPECT_EQ(-EINVAL, try_attr(fault_attr(ow | OW_ATTR_BACKWARD), -1));
	EXPECT_EQ(0, try_attr(fault_attr(OW_ATTR_INHERIT |
					 OW_ATTR_INHERIT_STAT), 0));
	EXPECT_EQ(-EINVAL, try_attr(fault_attr(ow | OW_ATTR_INHERIT |
					       OW_ATTR_INHERIT_STAT), 0));
}

/* Mapping */

TEST_F(overwrite, first_mapping_is_read_only)
{
	ASSERT_OPEN(0, fault_attr(OW_ATTR_OVERWRITE), -1);
	EXPECT_EQ(-EINVAL, try_map(self->fd[0], PAGES, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-EINVAL, try_map(self->fd[0], PAGES, PROT_WRITE));
	EXPECT_EQ(-EINVAL, try_map(self->fd[0], 0, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, try_map(self->fd[0], PAGES, PROT_READ));
	EXPECT_EQ(0, try_map(self->fd[0], 0, PROT_READ));
}

TEST_F(overwrite, later_mappings_are_read_only)
{
	ASSERT_OPEN(0, fault_attr(OW_ATTR_OVERWRITE), -1);
	ASSERT_MAP(0, PROT_READ);
	EXPECT_EQ(-EINVAL, try_map(self->fd[0], PAGES, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, try_map(self->fd[0], PAGES, PROT_READ));

	/* Nor through another event that writes there. */
	ASSERT_OPEN(1, fault_attr(OW_ATTR_OVERWRITE), -1);
	ASSERT_EQ(0, set_output(self->fd[1], self->fd[0]));
	EXPECT_EQ(-EINVAL, try_map(self->fd[1], PAGES, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, try_map(self->fd[1], PAGES, PROT_READ));
}

TEST_F(overwrite, mprotect_is_refused)
{
	size_t len = (1 + PAGES) * self->page_size;
	__u64 tail = 8;
	int fd;

	ASSERT_OPEN(0, fault_attr(OW_ATTR_OVERWRITE), -1);
	ASSERT_MAP(0, PROT_READ);
	EXPECT_EQ(-1, mprotect(self->page[0], len, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(0, mprotect(self->page[0], len, PROT_NONE));
	EXPECT_EQ(-1, mprotect(self->page[0], len, PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(0, mprotect(self->page[0], len, PROT_READ));

	/* Debuggers write this way. */
	fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, pwrite(fd, &tail, sizeof(tail),
			     (unsigned long)&self->page[0]->data_tail));
	EXPECT_EQ(0, self->page[0]->data_tail);
	close(fd);

	/* Other mappings are as they were. */
	ASSERT_OPEN(1, fault_attr(0), -1);
	ASSERT_MAP(1, PROT_READ);
	EXPECT_EQ(0, mprotect(self->page[1], len, PROT_READ | PROT_WRITE));
}

TEST_F(overwrite, aux_mapping_is_refused)
{
	void *aux;

	ASSERT_OPEN(0, fault_attr(OW_ATTR_OVERWRITE), -1);
	ASSERT_MAP(0, PROT_READ);
	aux = mmap(NULL, self->page_size, PROT_READ, MAP_SHARED, self->fd[0],
		   (1 + PAGES) * self->page_size);
	EXPECT_EQ(MAP_FAILED, aux);
	EXPECT_EQ(EINVAL, errno);
}

/* Other events */

FIXTURE(mix) {
};

FIXTURE_VARIANT(mix) {
	__u64	from;
	__u64	to;
	int	ret;
};

#define MIX(name, _from, _to, _ret)					\
FIXTURE_VARIANT_ADD(mix, name) {					\
	.from	= _from,						\
	.to	= _to,							\
	.ret	= _ret,							\
}

MIX(overwrite_to_overwrite, OW_ATTR_OVERWRITE, OW_ATTR_OVERWRITE, 0);
MIX(plain_to_plain, 0, 0, 0);
MIX(overwrite_to_plain, OW_ATTR_OVERWRITE, 0, -EINVAL);
MIX(plain_to_overwrite, 0, OW_ATTR_OVERWRITE, -EINVAL);
MIX(overwrite_to_backward, OW_ATTR_OVERWRITE, OW_ATTR_BACKWARD, -EINVAL);
MIX(backward_to_overwrite, OW_ATTR_BACKWARD, OW_ATTR_OVERWRITE, -EINVAL);

FIXTURE_SETUP(mix)
{
	const char *why = ow_unsupported();

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(mix)
{
}

TEST_F(mix, set_output)
{
	struct perf_event_attr from = fault_attr(variant->from);
	struct perf_event_attr to = fault_attr(variant->to);
	int cpu, fd, fd_to;
	void *page;

	/* Per task, per CPU. */
	for (cpu = -1; cpu <= 0; cpu++) {
		fd = event_open(&from, 0, cpu, 0);
		ASSERT_LE(0, fd);
		fd_to = event_open(&to, 0, cpu, 0);
		ASSERT_LE(0, fd_to);
		page = event_map(fd_to, PAGES, PROT_READ);
		ASSERT_NE(MAP_FAILED, page);
		EXPECT_EQ(variant->ret, set_output(fd, fd_to));
		EXPECT_EQ(0, set_output(fd, -1));
		event_unmap(page, PAGES);
		close(fd);
		close(fd_to);
	}
}

/* Children on other CPUs must not get at a buffer that belongs to a task. */
TEST_F(overwrite, inherit_per_task_is_refused)
{
	ASSERT_OPEN(0, fault_attr(OW_ATTR_OVERWRITE), -1);
	ASSERT_MAP(0, PROT_READ);
	ASSERT_OPEN(1, fault_attr(OW_ATTR_OVERWRITE | OW_ATTR_INHERIT), -1);
	EXPECT_EQ(-EINVAL, try_map(self->fd[1], PAGES, PROT_READ));
	EXPECT_EQ(-EINVAL, set_output(self->fd[1], self->fd[0]));
}

/* Count the records of a type. Records must fill the snapshot without a gap. */
static int count(struct ow_snapshot *s, __u32 type)
{
	const struct perf_event_header *h;
	unsigned long pos;
	int n = 0;

	for (pos = s->start; pos != s->end; pos += h->size) {
		h = ow_record(s, pos);
		if (!h)
			return -1;
		n += h->type == type;
	}
	return n;
}

TEST_F(overwrite, inherit_per_cpu)
{
	int status, before;
	pid_t pid;

	ASSERT_LE(0, pin_to_cpu(0));
	ASSERT_OPEN(0, fault_attr(OW_ATTR_OVERWRITE | OW_ATTR_INHERIT), 0);
	ASSERT_MAP(0, PROT_READ);
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_ENABLE, 0));
	FAULT();
	ASSERT_EQ(1, ow_snapshot(self->page[0], &self->snap));
	before = count(&self->snap, PERF_RECORD_SAMPLE);
	EXPECT_LE(1, before);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int i;

		for (i = 0; i < 1000; i++)
			FAULT();
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(1, ow_snapshot(self->page[0], &self->snap));
	/* The buffer is full, but for the part that the tail has moved ahead. */
	EXPECT_GE(PAGES * self->page_size / 16,
		  count(&self->snap, PERF_RECORD_SAMPLE));
	EXPECT_LE(PAGES * self->page_size / 16 * 63 / 64 - 1,
		  count(&self->snap, PERF_RECORD_SAMPLE));
	EXPECT_LE(1000 * 16, self->page[0]->data_head);
}

/* Where the tail is */

/*
 * The tail passes the old records whose space is needed. It may also pass those in the
 * next 64th of the buffer, so that not every new record moves it. It passes no others.
 */
TEST_F(overwrite, tail_is_exact)
{
	static const unsigned int sizes[] = { 16, 24, 40, 256, 1024, 4096 };
	struct perf_event_attr attr;
	const __u64 size = PAGES * self->page_size;
	__u64 starts[4096], head = 0;
	unsigned int i, j, n, at = 0, first = 0, nr = 0;
	int fds[ARRAY_SIZE(sizes)];

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		attr = sized_attr(OW_ATTR_OVERWRITE, sizes[i]);
		fds[i] = event_open(&attr, 0, -1, 0);
		ASSERT_LE(0, fds[i]);
		if (i) {
			ASSERT_EQ(0, set_output(fds[i], fds[0]));
			continue;
		}
		self->fd[0] = fds[0];
		ASSERT_MAP(0, PROT_READ);
	}
	for (n = 0; n < 2000; n++) {
		i = (n * 7 + n / 13) % ARRAY_SIZE(sizes);
		ASSERT_EQ(0, ioctl(fds[i], PERF_EVENT_IOC_ENABLE, 0));
		FAULT();
		ASSERT_EQ(0, ioctl(fds[i], PERF_EVENT_IOC_DISABLE, 0));
		ASSERT_LT(nr, ARRAY_SIZE(starts));
		starts[nr++] = head;
		head += sizes[i];
		while (head - starts[first] > size)
			first++;
		ASSERT_EQ(head, self->page[0]->data_head);
		while (at < nr && starts[at] < self->page[0]->data_tail)
			at++;
		ASSERT_LT(at, nr);
		ASSERT_EQ(starts[at], self->page[0]->data_tail);
		ASSERT_LE(first, at);
		if (at > first)
			ASSERT_LT(starts[at - 1] + size, head + size / 64);
		ASSERT_EQ(1, ow_snapshot(self->page[0], &self->snap));
		ASSERT_EQ(nr - at, count(&self->snap, PERF_RECORD_SAMPLE));
	}
	for (j = 1; j < ARRAY_SIZE(sizes); j++)
		close(fds[j]);
}

static __u64 lost_of(int fd)
{
	__u64 v[2];

	return read(fd, v, sizeof(v)) == sizeof(v) ? v[1] : ~0ULL;
}

static __u64 lost_in(struct ow_snapshot *s)
{
	const struct perf_event_header *h;
	unsigned long pos;
	__u64 lost = 0;

	for (pos = s->start; pos != s->end; pos += h->size) {
		h = ow_record(s, pos);
		if (!h)
			return ~0ULL;
		if (h->type == PERF_RECORD_LOST)
			lost += ((const __u64 *)h)[2];
	}
	return lost;
}

/* A record larger than the buffer is lost and counted. A LOST precedes the next one. */
TEST_F(overwrite, too_large)
{
	ASSERT_OPEN(0, sized_attr(OW_ATTR_OVERWRITE, 16), -1);
	ASSERT_MAP(0, PROT_READ);
	ASSERT_OPEN(1, sized_attr(OW_ATTR_OVERWRITE,
				  PAGES * self->page_size + 8), -1);
	ASSERT_EQ(0, set_output(self->fd[1], self->fd[0]));
	ASSERT_EQ(0, ioctl(self->fd[1], PERF_EVENT_IOC_ENABLE, 0));
	FAULT();
	FAULT();
	ASSERT_EQ(0, ioctl(self->fd[1], PERF_EVENT_IOC_DISABLE, 0));
	EXPECT_LE(2, lost_of(self->fd[1]));
	EXPECT_EQ(0, self->page[0]->data_head);
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_ENABLE, 0));
	FAULT();
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(1, ow_snapshot(self->page[0], &self->snap));
	EXPECT_EQ(1, count(&self->snap, PERF_RECORD_LOST));
	EXPECT_LE(1, count(&self->snap, PERF_RECORD_SAMPLE));
	EXPECT_EQ(lost_of(self->fd[1]), lost_in(&self->snap));
	EXPECT_EQ(PERF_RECORD_LOST,
		  ow_record(&self->snap, self->snap.start)->type);
}

/*
 * If a record is as large as the buffer, a LOST never fits before it. The record must
 * not be lost for this reason: the LOST waits for a smaller record.
 */
TEST_F(overwrite, as_large_as_the_buffer)
{
	__u64 size = PAGES * self->page_size;

	ASSERT_OPEN(0, sized_attr(OW_ATTR_OVERWRITE, size), -1);
	ASSERT_MAP(0, PROT_READ);
	ASSERT_OPEN(1, sized_attr(OW_ATTR_OVERWRITE, 16), -1);
	ASSERT_EQ(0, set_output(self->fd[1], self->fd[0]));
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	FAULT();
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_PAUSE_OUTPUT, 0));
	FAULT();
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(1, ow_snapshot(self->page[0], &self->snap));
	EXPECT_EQ(size, self->snap.end - self->snap.start);
	EXPECT_EQ(1, count(&self->snap, PERF_RECORD_SAMPLE));
	ASSERT_EQ(0, ioctl(self->fd[1], PERF_EVENT_IOC_ENABLE, 0));
	FAULT();
	ASSERT_EQ(0, ioctl(self->fd[1], PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(1, ow_snapshot(self->page[0], &self->snap));
	EXPECT_EQ(lost_of(self->fd[0]), lost_in(&self->snap));
	EXPECT_LE(1, lost_in(&self->snap));
}

TEST_F(overwrite, pause_output)
{
	__u64 head, tail, lost;
	unsigned int i;

	ASSERT_OPEN(0, sized_attr(OW_ATTR_OVERWRITE, 256), -1);
	ASSERT_MAP(0, PROT_READ);
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 100; i++)
		FAULT();
	EXPECT_EQ(0, lost_of(self->fd[0]));
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_PAUSE_OUTPUT, 1));
	head = self->page[0]->data_head;
	tail = self->page[0]->data_tail;
	EXPECT_LT(0, tail);
	for (i = 0; i < 5; i++)
		FAULT();
	EXPECT_EQ(head, self->page[0]->data_head);
	EXPECT_EQ(tail, self->page[0]->data_tail);
	lost = lost_of(self->fd[0]);
	EXPECT_LE(5, lost);
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_PAUSE_OUTPUT, 0));
	FAULT();
	EXPECT_EQ(head + LOST_SIZE + 256, self->page[0]->data_head);
	ASSERT_EQ(1, ow_snapshot(self->page[0], &self->snap));
	EXPECT_EQ(lost, lost_in(&self->snap));
}

/* poll() reports each watermark of bytes, whether or not anybody reads. */
TEST_F(overwrite, watermark)
{
	struct perf_event_attr attr = sized_attr(OW_ATTR_OVERWRITE, 256);
	struct pollfd p = { .events = POLLIN };
	unsigned int i, n, wakeups = 0;

	attr.watermark = 1;
	attr.wakeup_watermark = 1024;
	ASSERT_OPEN(0, attr, -1);
	ASSERT_MAP(0, PROT_READ);
	p.fd = self->fd[0];
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 64; i++) {
		FAULT();
		n = poll(&p, 1, 0);
		if (n) {
			wakeups++;
			EXPECT_EQ(POLLIN, p.revents);
		}
		/* The first poll() has consumed the wakeup. */
		EXPECT_EQ(0, poll(&p, 1, 0));
	}
	/* 64 records of 256 bytes. The first wakeup comes after more than 1024. */
	EXPECT_EQ(15, wakeups);
}

/* Buffers without the bit are as they were */

TEST_F(overwrite, others_have_no_tail)
{
	unsigned int i;

	ASSERT_OPEN(0, sized_attr(0, 256), -1);
	ASSERT_MAP(0, PROT_READ);
	ASSERT_OPEN(1, sized_attr(OW_ATTR_BACKWARD, 256), -1);
	ASSERT_MAP(1, PROT_READ);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, ioctl(self->fd[i], PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 100; i++)
		FAULT();
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, self->page[i]->data_tail);
	EXPECT_LE(100 * 256, self->page[0]->data_head);
	EXPECT_LE(100 * 256, -self->page[1]->data_head);
	EXPECT_EQ(0, lost_of(self->fd[0]));
	EXPECT_EQ(0, lost_of(self->fd[1]));
}

/* If a writable buffer is full, user space must move the tail, as before. */
TEST_F(overwrite, writable_buffers_do_not_overwrite)
{
	unsigned int i;

	ASSERT_OPEN(0, sized_attr(0, 256), -1);
	ASSERT_MAP(0, PROT_READ | PROT_WRITE);
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 100; i++)
		FAULT();
	EXPECT_GE(PAGES * self->page_size, self->page[0]->data_head);
	EXPECT_EQ(0, self->page[0]->data_tail);
	EXPECT_LE(100 - PAGES * self->page_size / 256, lost_of(self->fd[0]));
}

TEST_HARNESS_MAIN
