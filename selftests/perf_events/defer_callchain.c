// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains of perf events: the ABI of attr, samples and
 * records, and the basic promises.
 *
 * Samples are taken by tracepoints in system calls (task context) that are made
 * from code whose stack is known, so that whole stacks are compared.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "lib/child.h"
#include "defer_fixture.h"

#define TP_EXIT		"syscalls/sys_exit_getpgid"

/* Attr */

FIXTURE(attr) {
};

FIXTURE_SETUP(attr)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(attr)
{
}

static int try_attr(__u32 size, __u64 flags)
{
	/* Room for sizes that the build's headers do not know. */
	union {
		struct perf_event_attr attr;
		char bytes[256];
	} u = {
		.attr = {
			.type = PERF_TYPE_SOFTWARE,
			.config = PERF_COUNT_SW_TASK_CLOCK,
			.size = size,
		},
	};
	int fd;

	*attr_flags(&u.attr) |= flags;
	fd = event_open(&u.attr, 0, -1, 0);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

TEST_F(attr, bits_are_independent)
{
	EXPECT_EQ(0, try_attr(sizeof(struct perf_event_attr),
			      DEFER_ATTR_CALLCHAIN));
	EXPECT_EQ(0, try_attr(sizeof(struct perf_event_attr),
			      DEFER_ATTR_OUTPUT));
	EXPECT_EQ(0, try_attr(sizeof(struct perf_event_attr), BOTH));
}

/* What stock perf probes with: size 0, sample_type 0 and the bit alone. */
TEST_F(attr, probe_of_stock_perf)
{
	EXPECT_EQ(0, try_attr(0, DEFER_ATTR_CALLCHAIN));
	EXPECT_EQ(0, try_attr(PERF_ATTR_SIZE_VER0, DEFER_ATTR_CALLCHAIN));
}

/* A newer perf's attr is larger; its tail is zero. */
TEST_F(attr, larger_size)
{
	EXPECT_EQ(0, try_attr(144, DEFER_ATTR_CALLCHAIN));
	EXPECT_EQ(0, try_attr(144, BOTH));
}

TEST_F(attr, reserved_bits_are_refused)
{
	unsigned int bit;

	for (bit = DEFER_FIRST_RESERVED_BIT; bit <= DEFER_LAST_RESERVED_BIT;
	     bit++) {
		EXPECT_EQ(-EINVAL, try_attr(sizeof(struct perf_event_attr),
					    1ULL << bit)) {
			TH_LOG("bit %u", bit);
		}
	}
}

/* Samples and records of one task */

/* Stacks are whole and belong to their sample, in immediate mode too. */
FIXTURE(exact) {
};

FIXTURE_VARIANT(exact) {
	__u64 flags;
	bool chain_kernel;
};

FIXTURE_VARIANT_ADD(exact, immediate) {
	.flags = 0,
	.chain_kernel = true,
};

FIXTURE_VARIANT_ADD(exact, deferred) {
	.flags = BOTH,
	.chain_kernel = true,
};

FIXTURE_VARIANT_ADD(exact, deferred_user_part_only) {
	.flags = BOTH,
	.chain_kernel = false,
};

FIXTURE_SETUP(exact)
{
	if (!HAVE_KNOWN_STACK)
		SKIP(return, "no known-stack code for this architecture");
	if (variant->flags) {
		const char *why = defer_unsupported();

		if (why)
			SKIP(return, "%s", why);
	}
}

FIXTURE_TEARDOWN(exact)
{
}

TEST_F(exact, stacks)
{
	static const unsigned int depths[] = { 0, 1, 2, 7, 33, 100 };
	unsigned int i, n = ARRAY_SIZE(depths);
	struct perf_event_attr attr;
	struct defer_stats st;
	struct session s;
	__u64 want[128];

	attr = tp_attr(TRACEPOINT_ID(TP_RAW), variant->flags);
	attr.exclude_callchain_kernel = !variant->chain_kernel;
	ASSERT_EQ(0, session_open(&s, &attr, 0, -1, SESSION_PAGES)) {
		TH_LOG("%s", strerror(errno));
	}
	ASSERT_EQ(0, filter_getpgid(&s));
	ASSERT_EQ(0, session_enable(&s));
	for (i = 0; i < n; i++)
		known_walk_syscall(0x5a5a5a5aULL + i, depths[i], __NR_getpgid,
				   0, 0);
	ASSERT_EQ(0, session_finish(&s));
	st = defer_conserve(&s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(n, st.samples);
	EXPECT_EQ(variant->flags ? n : 0, st.deferred);
	EXPECT_EQ(variant->flags ? n : 0, st.records);
	for (i = 0; i < n; i++) {
		const struct log_item *it;
		const __u64 *ips;
		int nr, nr_want;

		it = log_nth(&s.log, PERF_RECORD_SAMPLE, i);
		nr = defer_user_chain(&s.log, it, &ips);
		nr_want = known_expect(want, 0x5a5a5a5aULL + i, depths[i],
				       walk_syscall_ip);
		EXPECT_TRUE(stack_same(ips, nr, want, nr_want));
		if (!variant->flags)
			continue;
		/* Marker and cookie close the chain. */
		ASSERT_GE(it->nr, 2);
		EXPECT_EQ(DEFER_CONTEXT, it->ips[it->nr - 2]);
		EXPECT_EQ(it->cookie, it->ips[it->nr - 1]);
		if (variant->chain_kernel) {
			EXPECT_EQ(PERF_CONTEXT_KERNEL, it->ips[0]);
			EXPECT_GT(it->nr, 4);
		} else {
			EXPECT_EQ(2, it->nr);
		}
	}
	session_close(&s);
}

/* The record byte by byte, with and without the sample_id. */
TEST_F(defer, record_layout)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	unsigned int n;

	for (n = 0; n < 2; n++) {
		const struct log_item *it, *sample;
		size_t id_size = n ? EVENT_SAMPLE_ID_SIZE : 0;
		const __u64 *p;
		__u64 id;
		int i;

		attr.sample_id_all = n;
		ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1,
					  SESSION_PAGES));
		ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_ID, &id));
		ASSERT_EQ(0, session_enable(&self->s));
		walk(5);
		ASSERT_EQ(0, session_finish(&self->s));
		ASSERT_EQ(2, self->s.log.nr_items);
		sample = &self->s.log.items[0];
		it = &self->s.log.items[1];
		ASSERT_EQ(PERF_RECORD_SAMPLE, sample->type);
		ASSERT_EQ(DEFER_RECORD, it->type);

		p = it->record;
		EXPECT_EQ(PERF_RECORD_MISC_USER, it->misc);
		EXPECT_EQ(sample->cookie, p[1]);
		EXPECT_NE(0, p[1]);
		EXPECT_EQ(BITS + 2, p[2]);
		EXPECT_EQ(24 + 8 * (BITS + 2) + id_size, it->size);
		for (i = 0; i < BITS + 2; i++)
			EXPECT_LT(p[3 + i], PERF_CONTEXT_MAX);
		EXPECT_WALK(&self->s.log, sample, 5, BITS);
		if (n) {
			p += 3 + BITS + 2;
			EXPECT_EQ(getpid(), ((const __u32 *)p)[0]);
			EXPECT_EQ(gettid(), ((const __u32 *)p)[1]);
			EXPECT_GE(p[1], sample->time);
			EXPECT_EQ(id, p[3]);
		}
		session_close(&self->s);
	}
}

/* No identification at all: 24 bytes and the addresses. */
TEST_F(defer, record_smallest)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const struct log_item *it;

	attr.sample_type = PERF_SAMPLE_CALLCHAIN;
	attr.sample_id_all = 0;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	known_walk_syscall(0, 0, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(2, self->s.log.nr_items);
	it = &self->s.log.items[1];
	ASSERT_EQ(DEFER_RECORD, it->type);
	EXPECT_EQ(2, it->nr);
	EXPECT_EQ(24 + 2 * 8, it->size);
	EXPECT_WALK(&self->s.log, &self->s.log.items[0], 0, 0);
}

/* No request without a chain, or with a chain that leaves out user space. */
TEST_F(defer, no_request_without_user_chain)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);

	attr.exclude_callchain_user = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	walk(1);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_EQ(1, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	EXPECT_EQ(0, log_count(&self->s.log, DEFER_RECORD));
	EXPECT_EQ(0, self->s.log.items[0].cookie);
	session_close(&self->s);

	attr.exclude_callchain_user = 0;
	attr.sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	walk(1);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_EQ(1, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	EXPECT_EQ(0, log_count(&self->s.log, DEFER_RECORD));
}

/* Every entry has its own cookie, and its own stack under that cookie. */
TEST_F_TIMEOUT(defer, cookies_are_unique, 60)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int nr = 1000;
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++) {
		walk(i);
		if (i % 100 == 99)
			session_drain(&self->s);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	EXPECT_EQ(nr, st.samples);
	EXPECT_EQ(nr, st.deferred);
	EXPECT_EQ(nr, st.cookies);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < nr && i < st.samples; i++) {
		EXPECT_WALK(&self->s.log,
			    log_nth(&self->s.log, PERF_RECORD_SAMPLE, i),
			    i, BITS);
	}
}

/* Cookies of processes that run at the same time do not clash. */
TEST_F_TIMEOUT(defer, cookies_are_unique_over_processes, 60)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int nr = 300, procs = 4;
	struct defer_stats st;
	unsigned int i, j;
	pid_t pids[4];
	int status;

	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, ALL_CPUS,
				  4 * SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < procs; i++) {
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (!pids[i]) {
			for (j = 0; j < nr; j++)
				walk(j);
			_exit(0);
		}
	}
	for (i = 0; i < procs; i++)
		EXPECT_EQ(0, child_wait(pids[i], &status, 30, &self->s));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	/* Two tasks with one cookie would show as "foreign". */
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	EXPECT_EQ(procs * nr, st.samples);
	EXPECT_EQ(procs * nr, st.cookies);
}

/* One unwind per entry */

/*
 * Two events at the entry of a system call, and two at its exit: the four samples in
 * one kernel entry have one cookie. The buffer gets one record, although all four
 * events have defer_output.
 */
TEST_F(defer, one_record_per_entry)
{
	struct perf_event_attr enter = tp_attr(self->tp, BOTH);
	struct perf_event_attr leave;
	const struct log_item *it;
	const unsigned int nr = 20;
	struct defer_stats st;
	unsigned int i;

	leave = tp_attr(TRACEPOINT_ID(TP_EXIT), BOTH);
	ASSERT_EQ(0, session_open(&self->s, &enter, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_add(&self->s, &leave));
	ASSERT_EQ(0, session_add(&self->s, &enter));
	ASSERT_EQ(0, session_add(&self->s, &leave));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++)
		walk(i);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(4 * nr, st.samples);
	EXPECT_EQ(4 * nr, st.deferred);
	EXPECT_EQ(nr, st.cookies);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < st.samples; i++) {
		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		EXPECT_WALK(&self->s.log, it, i / 4, BITS);
	}
}

/* Two buffers: the same cookie in both, one record in each. */
TEST_F(defer, one_record_per_buffer)
{
	struct perf_event_attr enter = tp_attr(self->tp, BOTH);
	struct perf_event_attr leave;
	const unsigned int nr = 20;
	struct defer_stats st;
	unsigned int i;

	leave = tp_attr(TRACEPOINT_ID(TP_EXIT), BOTH);
	ASSERT_EQ(0, session_open(&self->s, &enter, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_open(&self->s2, &leave, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, session_enable(&self->s2));
	for (i = 0; i < nr; i++)
		walk(i);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(0, session_finish(&self->s2));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(nr, st.deferred);
	EXPECT_EQ(nr, st.records);
	st = defer_conserve(&self->s2.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(nr, st.deferred);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < nr; i++) {
		const struct log_item *a, *b;

		a = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		b = log_nth(&self->s2.log, PERF_RECORD_SAMPLE, i);
		ASSERT_TRUE(a && b);
		EXPECT_EQ(a->cookie, b->cookie);
		EXPECT_WALK(&self->s.log, a, i, BITS);
		EXPECT_WALK(&self->s2.log, b, i, BITS);
	}
}

/* Sessions come and go; each has its records while it lives. */
TEST_F(defer, concurrent_sessions)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < 30; i++) {
		if (i == 10) {
			ASSERT_EQ(0, session_open(&self->s2, &attr, 0, -1,
						  SESSION_PAGES));
			ASSERT_EQ(0, session_enable(&self->s2));
		}
		if (i == 20) {
			ASSERT_EQ(0, session_finish(&self->s));
			st = defer_conserve(&self->s.log);
			EXPECT_CONSERVED(&st);
			EXPECT_EQ(20, st.samples);
			EXPECT_EQ(20, st.records);
			session_close(&self->s);
		}
		walk(i);
	}
	ASSERT_EQ(0, session_finish(&self->s2));
	st = defer_conserve(&self->s2.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(20, st.samples);
	EXPECT_EQ(20, st.records);
	for (i = 0; i < 20; i++) {
		EXPECT_WALK(&self->s2.log,
			    log_nth(&self->s2.log, PERF_RECORD_SAMPLE, i),
			    10 + i, BITS);
	}
}

/* Events that only receive records */

FIXTURE(output_only) {
	struct session s;
	struct session out;
	long tp;
};

FIXTURE_VARIANT(output_only) {
	bool per_cpu;
	bool exclude_user;
	bool exclude_kernel;
};

FIXTURE_VARIANT_ADD(output_only, task) {
};

FIXTURE_VARIANT_ADD(output_only, task_exclude_user) {
	.exclude_user = true,
};

FIXTURE_VARIANT_ADD(output_only, task_exclude_kernel) {
	.exclude_kernel = true,
};

FIXTURE_VARIANT_ADD(output_only, cpu) {
	.per_cpu = true,
};

FIXTURE_VARIANT_ADD(output_only, cpu_exclude_user) {
	.per_cpu = true,
	.exclude_user = true,
};

FIXTURE_VARIANT_ADD(output_only, cpu_exclude_kernel) {
	.per_cpu = true,
	.exclude_kernel = true,
};

FIXTURE_VARIANT_ADD(output_only, cpu_exclude_both) {
	.per_cpu = true,
	.exclude_user = true,
	.exclude_kernel = true,
};

FIXTURE_SETUP(output_only)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	self->tp = TRACEPOINT_ID(TP_ENTER);
}

FIXTURE_TEARDOWN(output_only)
{
	session_close(&self->s);
	session_close(&self->out);
}

TEST_F(output_only, gets_the_records)
{
	struct perf_event_attr attr = tp_attr(self->tp, DEFER_ATTR_CALLCHAIN);
	struct perf_event_attr out = defer_attr_output();
	const unsigned int nr = 10;
	unsigned int i, mine = 0;
	__u64 want[BITS + 2];

	out.exclude_user = variant->exclude_user;
	out.exclude_kernel = variant->exclude_kernel;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_open(&self->out, &out,
				  variant->per_cpu ? -1 : 0,
				  variant->per_cpu ? ALL_CPUS : -1,
				  SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->out));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++)
		walk(i);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(0, session_finish(&self->out));

	/* The sampling event did not ask for output. */
	EXPECT_EQ(0, log_count(&self->s.log, DEFER_RECORD));
	ASSERT_EQ(nr, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 0; i < nr; i++) {
		const struct log_item *it, *rec;

		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		ASSERT_NE(0, it->cookie);
		rec = defer_find_record(&self->out.log, it->cookie);
		ASSERT_NE(NULL, rec) {
			TH_LOG("cookie %llx has no record", it->cookie);
		}
		mine++;
		EXPECT_EQ(gettid(), rec->tid);
		EXPECT_GE(rec->time, it->time);
		EXPECT_TRUE(stack_same(rec->ips, rec->nr, want,
				       known_expect(want, i, BITS,
						    walk_syscall_ip)));
	}
	TH_LOG("%u samples, %u records", nr, mine);
	EXPECT_EQ(nr, log_count(&self->out.log, DEFER_RECORD));
}

/* A disabled event receives no records; the other event does. */
TEST_F(output_only, disabled_gets_nothing)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	struct perf_event_attr out = defer_attr_output();
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_open(&self->out, &out,
				  variant->per_cpu ? -1 : 0,
				  variant->per_cpu ? ALL_CPUS : -1,
				  SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < 5; i++)
		walk(i);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(0, session_finish(&self->out));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(5, st.records);
	EXPECT_EQ(0, log_count(&self->out.log, DEFER_RECORD));
}

TEST_HARNESS_MAIN
