// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains of perf events: limits of depth and size, and samples that
 * have an immediate chain instead.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "defer_fixture.h"

/* Each buffer's record is cut to the sample_max_stack of its event. */
TEST_F(defer, depth_of_each_output_event)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int bits = 60;
	const struct log_item *rec;
	int nr_want;

	attr.sample_max_stack = 17;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	attr.sample_max_stack = 42;
	ASSERT_EQ(0, session_open(&self->s2, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, session_enable(&self->s2));
	known_walk_syscall(0xabcd, bits, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(0, session_finish(&self->s2));
	nr_want = known_expect(self->want, 0xabcd, bits, walk_syscall_ip);
	ASSERT_LT(42, nr_want);

	rec = log_nth(&self->s.log, DEFER_RECORD, 0);
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(stack_same(rec->ips, rec->nr, self->want, 17));
	rec = log_nth(&self->s2.log, DEFER_RECORD, 0);
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(stack_same(rec->ips, rec->nr, self->want, 42));
}

/* header.misc says whether a stack is whole, or cut at the depth of the buffer. */
TEST_F(defer, end_of_the_stack)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int bits = 30;
	const struct log_item *rec;
	unsigned int i;

	/* Cut by the walk, cut only in the buffer that wants less, not cut. */
	for (i = 0; i < 3; i++) {
		attr.sample_max_stack = i < 2 ? 17 : 100;
		ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
		attr.sample_max_stack = i < 1 ? 17 : 100;
		ASSERT_EQ(0, session_open(&self->s2, &attr, 0, -1, SESSION_PAGES));
		ASSERT_EQ(0, session_enable(&self->s));
		ASSERT_EQ(0, session_enable(&self->s2));
		known_walk_syscall(0xabcd, bits, __NR_getpgid, 0, 0);
		ASSERT_EQ(0, session_finish(&self->s));
		ASSERT_EQ(0, session_finish(&self->s2));
		rec = log_nth(&self->s.log, DEFER_RECORD, 0);
		ASSERT_NE(NULL, rec);
		EXPECT_EQ(PERF_RECORD_MISC_USER | (i < 2 ? DEFER_MISC_CUT : 0), rec->misc);
		rec = log_nth(&self->s2.log, DEFER_RECORD, 0);
		ASSERT_NE(NULL, rec);
		EXPECT_EQ(PERF_RECORD_MISC_USER | (i < 1 ? DEFER_MISC_CUT : 0), rec->misc);
		session_close(&self->s);
		session_close(&self->s2);
	}
}

/* The number after "undeferred-@reason:" in the event's fdinfo, or -1. */
static long undeferred(int fd, const char *reason)
{
	char path[64], line[256], name[64];
	long val, found = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "undeferred-%63[^:]: %ld", name, &val) == 2 &&
		    !strcmp(name, reason))
			found = val;
	}
	fclose(f);
	return found;
}

/* Samples that carry the immediate chain are counted by reason. */
TEST_F(defer, fallbacks_are_counted)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	unsigned int i;
	int fd;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	fd = self->s.bufs[0].fd;
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < 3; i++)
		walk(i);
	EXPECT_EQ(0, undeferred(fd, "off"));
	EXPECT_EQ(0, undeferred(fd, "contexts"));
	ASSERT_EQ(0, write_long(DEFER_SYSCTL, 0));
	for (i = 0; i < 5; i++)
		walk(i);
	ASSERT_EQ(0, write_long(DEFER_SYSCTL, 1));
	ASSERT_EQ(0, session_disable(&self->s));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_REFRESH, 2));
	for (i = 0; i < 4; i++)
		walk(i);
	EXPECT_EQ(5, undeferred(fd, "off"));
	EXPECT_EQ(1, undeferred(fd, "refresh"));
	EXPECT_EQ(0, undeferred(fd, "busy"));
	EXPECT_EQ(0, undeferred(fd, "exec"));
	ASSERT_EQ(0, session_finish(&self->s));

	/* Events that do not defer have no counters. */
	attr = tp_attr(self->tp, 0);
	ASSERT_EQ(0, session_open(&self->s2, &attr, 0, -1, SESSION_PAGES));
	EXPECT_EQ(-1, undeferred(self->s2.bufs[0].fd, "off"));
}

/*
 * Sessions come and go without patching the kernel's code each time. Events that do not
 * defer show how often other code is patched.
 */
TEST_F_TIMEOUT(defer, sessions_in_a_loop, 60)
{
	static const char function[] = "arch_jump_label_transform_apply";
	struct perf_event_attr count = {
		.size = sizeof(count),
		.config1 = (__u64)function,
	}, attr;
	__u64 flags[] = { 0, BOTH }, n[3] = {}, start, seconds;
	unsigned int i, j, nr = 50, cpus = 0;
	int fds[MAX_CPUS], fd;
	long type;

	type = pmu_type("kprobe");
	if (type < 0)
		SKIP(return, "no kprobe PMU (CONFIG_KPROBE_EVENTS?)");
	count.type = type;
	for (i = 0; i < MAX_CPUS && i < sysconf(_SC_NPROCESSORS_CONF); i++) {
		fd = event_open(&count, -1, i, 0);
		if (fd >= 0)
			fds[cpus++] = fd;
	}
	if (!cpus)
		SKIP(return, "no kprobe on %s(): %s", function, strerror(errno));
	start = now_nsec();
	for (i = 0; i < ARRAY_SIZE(n); i++) {
		__u64 val;

		for (j = 0; j < cpus; j++) {
			ASSERT_EQ(sizeof(val), read(fds[j], &val, sizeof(val)));
			n[i] += val;
		}
		for (j = 0; i < 2 && j < nr; j++) {
			attr = tp_attr(self->tp, flags[i]);
			fd = event_open(&attr, 0, -1, 0);
			ASSERT_LE(0, fd);
			close(fd);
		}
	}
	for (j = 0; j < cpus; j++)
		close(fds[j]);
	seconds = (now_nsec() - start) / NSEC_PER_SEC + 1;
	TH_LOG("%u sessions: %llu patched without deferral, %llu with, %llu s", nr,
	       n[1] - n[0], n[2] - n[1], seconds);
	/* The branch may be turned off once a second. */
	EXPECT_GE(n[1] - n[0] + 2 * seconds + 2, n[2] - n[1]);
}

/* Events that share a buffer get one record, with the largest of their depths. */
TEST_F(defer, depth_of_shared_buffer)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int depths[][2] = { { 17, 42 }, { 42, 17 } };
	const unsigned int bits = 60;
	const struct log_item *rec;
	struct defer_stats st;
	int nr_want;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		attr.sample_max_stack = depths[i][0];
		ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1,
					  SESSION_PAGES));
		attr.sample_max_stack = depths[i][1];
		ASSERT_EQ(0, session_add(&self->s, &attr));
		ASSERT_EQ(0, session_enable(&self->s));
		known_walk_syscall(0xabcd, bits, __NR_getpgid, 0, 0);
		ASSERT_EQ(0, session_finish(&self->s));
		st = defer_conserve(&self->s.log);
		EXPECT_CONSERVED(&st);
		EXPECT_EQ(2, st.deferred);
		EXPECT_EQ(1, st.records);
		nr_want = known_expect(self->want, 0xabcd, bits, walk_syscall_ip);
		ASSERT_LT(42, nr_want);
		rec = log_nth(&self->s.log, DEFER_RECORD, 0);
		ASSERT_NE(NULL, rec);
		EXPECT_TRUE(stack_same(rec->ips, rec->nr, self->want, 42));
		session_close(&self->s);
	}
}

/* The kernel part never pushes the marker out. */
TEST_F(defer, marker_with_small_depth)
{
	struct perf_event_attr attr;
	unsigned int max;

	attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	for (max = 1; max <= 3; max++) {
		const struct log_item *it;
		struct defer_stats st;
		int nr_want;

		attr.sample_max_stack = max;
		ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1,
					  SESSION_PAGES));
		ASSERT_EQ(0, filter_getpgid(&self->s));
		ASSERT_EQ(0, session_enable(&self->s));
		walk(3);
		ASSERT_EQ(0, session_finish(&self->s));
		st = defer_conserve(&self->s.log);
		EXPECT_CONSERVED(&st);
		EXPECT_EQ(1, st.deferred);
		EXPECT_EQ(1, st.records);
		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
		ASSERT_NE(NULL, it);
		/* Kernel marker, @max kernel entries, deferred marker and cookie. */
		EXPECT_EQ(1 + max + 2, it->nr);
		it = log_nth(&self->s.log, DEFER_RECORD, 0);
		ASSERT_NE(NULL, it);
		nr_want = known_expect(self->want, 3, BITS, walk_syscall_ip);
		ASSERT_LT(max, nr_want);
		EXPECT_TRUE(stack_same(it->ips, it->nr, self->want, max));
		session_close(&self->s);
	}
}

/* kernel.perf_event_max_stack below the default. */
TEST_F(defer, sysctl_max_stack_lowered)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const struct log_item *it;

	if (write_long(SYSCTL_MAX_STACK, 16))
		SKIP(return, "cannot set perf_event_max_stack: %s",
		     strerror(errno));
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_syscall(9, 100, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	it = log_nth(&self->s.log, DEFER_RECORD, 0);
	ASSERT_NE(NULL, it);
	known_expect(self->want, 9, 100, walk_syscall_ip);
	EXPECT_TRUE(stack_same(it->ips, it->nr, self->want, 16));
}

/* A raised limit: the whole stack. */
TEST_F(defer, sysctl_max_stack_raised)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	struct defer_stats st;
	int nr_want;

	if (write_long(SYSCTL_MAX_STACK, 2000))
		SKIP(return, "cannot set perf_event_max_stack: %s",
		     strerror(errno));
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_syscall(0x1234, 1500, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	ASSERT_EQ(1, st.records);
	nr_want = known_expect(self->want, 0x1234, 1500, walk_syscall_ip);
	ASSERT_EQ(1502, nr_want);
	EXPECT_WALK(&self->s.log, log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0),
		    0x1234, 1500);
}

/* A stack that does not fit into header.size is cut, and says so in nr. */
TEST_F(defer, record_size_does_not_wrap)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const struct log_item *it;
	struct defer_stats st;

	if (write_long(SYSCTL_MAX_STACK, 30000))
		SKIP(return, "cannot set perf_event_max_stack: %s",
		     strerror(errno));
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_syscall(0x77, 12000, __NR_getpgid, 0, 0);
	walk(1);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(2, st.samples);
	ASSERT_EQ(2, st.records);
	it = log_nth(&self->s.log, DEFER_RECORD, 0);
	TH_LOG("record of %u bytes, %llu addresses", it->size, it->nr);
	/* As much as fits, less what the kernel may reserve. */
	EXPECT_LT(7500, it->nr);
	EXPECT_GT(8192, it->nr);
	known_expect(self->want, 0x77, 12000, walk_syscall_ip);
	EXPECT_TRUE(stack_same(it->ips, it->nr, self->want, it->nr));
	EXPECT_WALK(&self->s.log, log_nth(&self->s.log, PERF_RECORD_SAMPLE, 1),
		    1, BITS);
}

/* The size of a sample with a deep immediate chain does not wrap, either. */
TEST_F(defer, sample_size_does_not_wrap)
{
	struct perf_event_attr attr = tp_attr(self->tp, 0);
	const struct log_item *it;
	const __u64 *ips = NULL;
	int nr;

	if (write_long(SYSCTL_MAX_STACK, 30000))
		SKIP(return, "cannot set perf_event_max_stack: %s",
		     strerror(errno));
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_syscall(0x77, 12000, __NR_getpgid, 0, 0);
	walk(1);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(2, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
	nr = defer_user_chain(&self->s.log, it, &ips);
	TH_LOG("sample of %u bytes, %d addresses", it->size, nr);
	EXPECT_LT(7500, nr);
	EXPECT_GT(8192, nr);
	ASSERT_GT(CHAIN_MAX, nr);
	known_expect(self->want, 0x77, 12000, walk_syscall_ip);
	EXPECT_TRUE(stack_same(ips, nr, self->want, nr));
	EXPECT_WALK(&self->s.log, log_nth(&self->s.log, PERF_RECORD_SAMPLE, 1),
		    1, BITS);
}

/* Marker and cookie are two contexts: they fit, or there is no request. */
TEST_F(defer, max_contexts_per_stack)
{
	static const struct {
		int contexts;
		bool kernel;
		bool deferred;
		bool immediate;
	} cases[] = {
		{ 1, true,  false, false },
		{ 2, true,  false, true  },
		{ 3, true,  true,  false },
		{ 1, false, false, true  },
		{ 2, false, true,  false },
	};
	unsigned int i;
	long raw;

	raw = TRACEPOINT_ID(TP_RAW);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perf_event_attr attr = tp_attr(raw, BOTH);
		struct defer_stats st;

		TH_LOG("%d contexts, kernel part: %d", cases[i].contexts,
		       cases[i].kernel);
		if (write_long(SYSCTL_MAX_CONTEXTS,
			       cases[i].contexts))
			SKIP(return, "cannot set max_contexts_per_stack: %s",
			     strerror(errno));
		attr.exclude_callchain_kernel = !cases[i].kernel;
		ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1,
					  SESSION_PAGES));
		ASSERT_EQ(0, filter_getpgid(&self->s));
		ASSERT_EQ(0, session_enable(&self->s));
		walk(i);
		ASSERT_EQ(0, session_finish(&self->s));
		st = defer_conserve(&self->s.log);
		EXPECT_CONSERVED(&st);
		ASSERT_EQ(1, st.samples);
		EXPECT_EQ(cases[i].deferred, st.deferred);
		EXPECT_EQ(cases[i].deferred, st.records);
		EXPECT_EQ(cases[i].immediate, st.immediate);
		if (cases[i].deferred || cases[i].immediate) {
			EXPECT_WALK(&self->s.log,
				    log_nth(&self->s.log,
					    PERF_RECORD_SAMPLE, 0),
				    i, BITS);
		}
		session_close(&self->s);
	}
}

/*
 * A buffer of one page.  Each entry writes one small sample and one large
 * record, so samples fit where records do not; LOST accounts for each of them.
 */
TEST_F(defer, small_buffer_counts_lost)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int nr = 50, bits = 100;
	struct defer_stats st;
	unsigned int i;

	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, 1));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++)
		known_walk_syscall(i, bits, __NR_getpgid, 0, 0);
	/* LOST is written in front of the next record that fits. */
	session_drain(&self->s);
	known_walk_syscall(nr, bits, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_LT(0, st.missing);
	EXPECT_EQ(2 * (nr + 1), st.samples + st.records + st.lost);
	EXPECT_WALK(&self->s.log,
		    log_nth(&self->s.log, PERF_RECORD_SAMPLE, st.samples - 1),
		    nr, bits);
}

/* Switched off */

TEST_F(defer, sysctl_off_is_immediate)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const struct log_item *it;
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < 30; i++) {
		/* On, off, on. */
		if (i == 10)
			ASSERT_EQ(0, write_long(DEFER_SYSCTL, 0));
		if (i == 20)
			ASSERT_EQ(0, write_long(DEFER_SYSCTL, 1));
		walk(i);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(30, st.samples);
	EXPECT_EQ(20, st.deferred);
	EXPECT_EQ(20, st.records);
	for (i = 0; i < st.samples; i++) {
		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		EXPECT_EQ(i >= 10 && i < 20, !it->cookie);
		EXPECT_WALK(&self->s.log, it, i, BITS);
	}
}

/*
 * The last sample that PERF_EVENT_IOC_REFRESH allows disables its event, which then
 * does not receive a record when the task returns to user mode.
 */
TEST_F(defer, last_of_refresh_is_immediate)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int n = 3;
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_REFRESH, n));
	for (i = 0; i < n + 2; i++)
		walk(i);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(n, st.samples);
	EXPECT_EQ(n - 1, st.deferred);
	EXPECT_EQ(n - 1, st.records);
	for (i = 0; i < n; i++) {
		const struct log_item *it;

		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		EXPECT_EQ(i == n - 1, !it->cookie);
		EXPECT_WALK(&self->s.log, it, i, BITS);
	}
}

/* The sysctl is a boolean. */
TEST_F(defer, sysctl_range)
{
	long val = -1;

	EXPECT_EQ(-1, write_long(DEFER_SYSCTL, 2));
	EXPECT_EQ(-1, write_long(DEFER_SYSCTL, -1));
	EXPECT_EQ(0, read_long(DEFER_SYSCTL, &val));
	EXPECT_EQ(1, val);
}

TEST_HARNESS_MAIN
