// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains of perf events: the ABI of attr, samples and
 * records, and the basic promises.
 *
 * Samples are taken by tracepoints in system calls (task context) that are made
 * from code whose stack is known, so that whole stacks are compared.
 */
#define _GNU_SOURCE
#include "defer.h"
#include "../kselftest_harness.h"

#define TP_ENTER	"syscalls/sys_enter_getpgid"
#define TP_EXIT		"syscalls/sys_exit_getpgid"
/*
 * The samples of the above have user registers, hence no kernel part; those of
 * this one have.
 */
#define TP_RAW		"raw_syscalls/sys_enter"
#define BOTH		(DEFER_ATTR_CALLCHAIN | DEFER_ATTR_OUTPUT)
/* Low bits of the walk's id tell the stacks of a test apart. */
#define BITS		10
#define CHAIN_MAX	16384

/* ---- attr ---------------------------------------------------------------- */

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

	*defer_attr_flags(&u.attr) |= flags;
	fd = defer_event_open(&u.attr, 0, -1, 0);
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

/* ---- samples and records of one task ------------------------------------- */

FIXTURE(defer) {
	struct defer_session s;
	struct defer_session s2;
	long tp;
	__u64 *want;
	/* What the teardown restores. */
	long sysctl;
	long max_stack;
	long max_contexts;
};

FIXTURE_SETUP(defer)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	self->tp = DEFER_TRACEPOINT(TP_ENTER);
	ASSERT_EQ(0, defer_read_long(DEFER_SYSCTL, &self->sysctl));
	ASSERT_EQ(0, defer_read_long(DEFER_SYSCTL_MAX_STACK,
				     &self->max_stack));
	ASSERT_EQ(0, defer_read_long(DEFER_SYSCTL_MAX_CONTEXTS,
				     &self->max_contexts));
	self->want = calloc(CHAIN_MAX, sizeof(*self->want));
	ASSERT_NE(NULL, self->want);
	if (self->sysctl != 1)
		ASSERT_EQ(0, defer_write_long(DEFER_SYSCTL, 1));
}

FIXTURE_TEARDOWN(defer)
{
	defer_session_close(&self->s);
	defer_session_close(&self->s2);
	EXPECT_EQ(0, defer_write_long(DEFER_SYSCTL, self->sysctl));
	EXPECT_EQ(0, defer_write_long(DEFER_SYSCTL_MAX_STACK,
				      self->max_stack));
	EXPECT_EQ(0, defer_write_long(DEFER_SYSCTL_MAX_CONTEXTS,
				      self->max_contexts));
	free(self->want);
}

/* One sample: a getpgid() that fails quickly, from a stack that tells "id". */
static void walk(__u64 id)
{
	defer_walk_syscall(id, BITS, __NR_getpgid, 0, 0);
}

static struct perf_event_attr tp_attr(long tp, __u64 flags)
{
	return defer_attr(PERF_TYPE_TRACEPOINT, tp, 1, flags);
}

/* Restrict a session of TP_RAW to getpgid(). */
static int filter_getpgid(struct defer_session *s)
{
	char filter[32];

	snprintf(filter, sizeof(filter), "id == %d", __NR_getpgid);
	return ioctl(s->bufs[0].fd, PERF_EVENT_IOC_SET_FILTER, filter);
}

/* The user stack of one sample is that of the walk, deferred or not. */
#define EXPECT_WALK(log, sample, id, bits) do {				\
	const __u64 *__ips = NULL;					\
	int __nr = defer_user_chain(log, sample, &__ips);		\
	int __want = defer_expect(self->want, id, bits, walk_syscall_ip); \
									\
	EXPECT_TRUE(defer_same(__ips, __nr, self->want, __want));	\
} while (0)

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
	if (!DEFER_HAVE_WALK)
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
	struct defer_session s;
	__u64 want[128];

	attr = tp_attr(DEFER_TRACEPOINT(TP_RAW), variant->flags);
	attr.exclude_callchain_kernel = !variant->chain_kernel;
	ASSERT_EQ(0, defer_session_open(&s, &attr, 0, -1, DEFER_PAGES)) {
		TH_LOG("%s", strerror(errno));
	}
	ASSERT_EQ(0, filter_getpgid(&s));
	ASSERT_EQ(0, defer_enable(&s));
	for (i = 0; i < n; i++)
		defer_walk_syscall(0x5a5a5a5aULL + i, depths[i], __NR_getpgid,
				   0, 0);
	ASSERT_EQ(0, defer_finish(&s));
	st = defer_conserve(&s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(n, st.samples);
	EXPECT_EQ(variant->flags ? n : 0, st.deferred);
	EXPECT_EQ(variant->flags ? n : 0, st.records);
	for (i = 0; i < n; i++) {
		const struct defer_item *it;
		const __u64 *ips;
		int nr, nr_want;

		it = defer_nth(&s.log, PERF_RECORD_SAMPLE, i);
		nr = defer_user_chain(&s.log, it, &ips);
		nr_want = defer_expect(want, 0x5a5a5a5aULL + i, depths[i],
				       walk_syscall_ip);
		EXPECT_TRUE(defer_same(ips, nr, want, nr_want));
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
	defer_session_close(&s);
}

/* The record byte by byte, with and without the sample_id. */
TEST_F(defer, record_layout)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	unsigned int n;

	for (n = 0; n < 2; n++) {
		const struct defer_item *it, *sample;
		size_t id_size = n ? DEFER_SAMPLE_ID_SIZE : 0;
		const __u64 *p;
		__u64 id;
		int i;

		attr.sample_id_all = n;
		ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1,
						DEFER_PAGES));
		ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_ID, &id));
		ASSERT_EQ(0, defer_enable(&self->s));
		walk(5);
		ASSERT_EQ(0, defer_finish(&self->s));
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
			EXPECT_LT(p[3 + i], DEFER_CONTEXT_MAX);
		EXPECT_WALK(&self->s.log, sample, 5, BITS);
		if (n) {
			p += 3 + BITS + 2;
			EXPECT_EQ(getpid(), ((const __u32 *)p)[0]);
			EXPECT_EQ(gettid(), ((const __u32 *)p)[1]);
			EXPECT_GE(p[1], sample->time);
			EXPECT_EQ(id, p[3]);
		}
		defer_session_close(&self->s);
	}
}

/* No identification at all: 24 bytes and the addresses. */
TEST_F(defer, record_smallest)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const struct defer_item *it;

	attr.sample_type = PERF_SAMPLE_CALLCHAIN;
	attr.sample_id_all = 0;
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(0, 0, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, defer_finish(&self->s));
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
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	walk(1);
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_EQ(1, defer_count(&self->s.log, PERF_RECORD_SAMPLE));
	EXPECT_EQ(0, defer_count(&self->s.log, DEFER_RECORD));
	EXPECT_EQ(0, self->s.log.items[0].cookie);
	defer_session_close(&self->s);

	attr.exclude_callchain_user = 0;
	attr.sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	walk(1);
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_EQ(1, defer_count(&self->s.log, PERF_RECORD_SAMPLE));
	EXPECT_EQ(0, defer_count(&self->s.log, DEFER_RECORD));
}

/* Every entry has its own cookie, and its own stack under that cookie. */
TEST_F_TIMEOUT(defer, cookies_are_unique, 60)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int nr = 1000;
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < nr; i++) {
		walk(i);
		if (i % 100 == 99)
			defer_drain(&self->s);
	}
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	EXPECT_EQ(nr, st.samples);
	EXPECT_EQ(nr, st.deferred);
	EXPECT_EQ(nr, st.cookies);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < nr && i < st.samples; i++) {
		EXPECT_WALK(&self->s.log,
			    defer_nth(&self->s.log, PERF_RECORD_SAMPLE, i),
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
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, DEFER_ALL_CPUS,
					4 * DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
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
		EXPECT_EQ(0, defer_wait(pids[i], &status, 30, &self->s));
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	/* Two tasks with one cookie would show as "foreign". */
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	EXPECT_EQ(procs * nr, st.samples);
	EXPECT_EQ(procs * nr, st.cookies);
}

/* ---- one unwind per entry ------------------------------------------------ */

/*
 * Entry and exit of a system call, and the same twice: four samples in one
 * kernel entry have one cookie, and one buffer gets one record although all of
 * its events ask for output.
 */
TEST_F(defer, one_record_per_entry)
{
	struct perf_event_attr enter = tp_attr(self->tp, BOTH);
	struct perf_event_attr leave;
	const struct defer_item *it;
	const unsigned int nr = 20;
	struct defer_stats st;
	unsigned int i;

	leave = tp_attr(DEFER_TRACEPOINT(TP_EXIT), BOTH);
	ASSERT_EQ(0, defer_session_open(&self->s, &enter, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_session_add(&self->s, &leave));
	ASSERT_EQ(0, defer_session_add(&self->s, &enter));
	ASSERT_EQ(0, defer_session_add(&self->s, &leave));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < nr; i++)
		walk(i);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(4 * nr, st.samples);
	EXPECT_EQ(4 * nr, st.deferred);
	EXPECT_EQ(nr, st.cookies);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < st.samples; i++) {
		it = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
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

	leave = tp_attr(DEFER_TRACEPOINT(TP_EXIT), BOTH);
	ASSERT_EQ(0, defer_session_open(&self->s, &enter, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_session_open(&self->s2, &leave, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	ASSERT_EQ(0, defer_enable(&self->s2));
	for (i = 0; i < nr; i++)
		walk(i);
	ASSERT_EQ(0, defer_finish(&self->s));
	ASSERT_EQ(0, defer_finish(&self->s2));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(nr, st.deferred);
	EXPECT_EQ(nr, st.records);
	st = defer_conserve(&self->s2.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(nr, st.deferred);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < nr; i++) {
		const struct defer_item *a, *b;

		a = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		b = defer_nth(&self->s2.log, PERF_RECORD_SAMPLE, i);
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

	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < 30; i++) {
		if (i == 10) {
			ASSERT_EQ(0, defer_session_open(&self->s2, &attr, 0, -1,
							DEFER_PAGES));
			ASSERT_EQ(0, defer_enable(&self->s2));
		}
		if (i == 20) {
			ASSERT_EQ(0, defer_finish(&self->s));
			st = defer_conserve(&self->s.log);
			EXPECT_CONSERVED(&st);
			EXPECT_EQ(20, st.samples);
			EXPECT_EQ(20, st.records);
			defer_session_close(&self->s);
		}
		walk(i);
	}
	ASSERT_EQ(0, defer_finish(&self->s2));
	st = defer_conserve(&self->s2.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(20, st.samples);
	EXPECT_EQ(20, st.records);
	for (i = 0; i < 20; i++) {
		EXPECT_WALK(&self->s2.log,
			    defer_nth(&self->s2.log, PERF_RECORD_SAMPLE, i),
			    10 + i, BITS);
	}
}

/* ---- events that only take records --------------------------------------- */

FIXTURE(output_only) {
	struct defer_session s;
	struct defer_session out;
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
	self->tp = DEFER_TRACEPOINT(TP_ENTER);
}

FIXTURE_TEARDOWN(output_only)
{
	defer_session_close(&self->s);
	defer_session_close(&self->out);
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
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_session_open(&self->out, &out,
					variant->per_cpu ? -1 : 0,
					variant->per_cpu ? DEFER_ALL_CPUS : -1,
					DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->out));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < nr; i++)
		walk(i);
	ASSERT_EQ(0, defer_finish(&self->s));
	ASSERT_EQ(0, defer_finish(&self->out));

	/* The sampling event did not ask for output. */
	EXPECT_EQ(0, defer_count(&self->s.log, DEFER_RECORD));
	ASSERT_EQ(nr, defer_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 0; i < nr; i++) {
		const struct defer_item *it, *rec;

		it = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		ASSERT_NE(0, it->cookie);
		rec = defer_find_record(&self->out.log, it->cookie);
		ASSERT_NE(NULL, rec) {
			TH_LOG("cookie %llx has no record", it->cookie);
		}
		mine++;
		EXPECT_EQ(gettid(), rec->tid);
		EXPECT_GE(rec->time, it->time);
		EXPECT_TRUE(defer_same(rec->ips, rec->nr, want,
				       defer_expect(want, i, BITS,
						    walk_syscall_ip)));
	}
	TH_LOG("%u samples, %u records", nr, mine);
	EXPECT_EQ(nr, defer_count(&self->out.log, DEFER_RECORD));
}

/* A disabled event takes nothing; the samples keep their cookie. */
TEST_F(output_only, disabled_gets_nothing)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	struct perf_event_attr out = defer_attr_output();
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_session_open(&self->out, &out,
					variant->per_cpu ? -1 : 0,
					variant->per_cpu ? DEFER_ALL_CPUS : -1,
					DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < 5; i++)
		walk(i);
	ASSERT_EQ(0, defer_finish(&self->s));
	ASSERT_EQ(0, defer_finish(&self->out));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(5, st.records);
	EXPECT_EQ(0, defer_count(&self->out.log, DEFER_RECORD));
}

/* ---- limits -------------------------------------------------------------- */

/* Each buffer's record is cut to the sample_max_stack of its event. */
TEST_F(defer, depth_of_each_output_event)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int bits = 60;
	const struct defer_item *rec;
	int nr_want;

	attr.sample_max_stack = 17;
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	attr.sample_max_stack = 42;
	ASSERT_EQ(0, defer_session_open(&self->s2, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	ASSERT_EQ(0, defer_enable(&self->s2));
	defer_walk_syscall(0xabcd, bits, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, defer_finish(&self->s));
	ASSERT_EQ(0, defer_finish(&self->s2));
	nr_want = defer_expect(self->want, 0xabcd, bits, walk_syscall_ip);
	ASSERT_LT(42, nr_want);

	rec = defer_nth(&self->s.log, DEFER_RECORD, 0);
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(defer_same(rec->ips, rec->nr, self->want, 17));
	rec = defer_nth(&self->s2.log, DEFER_RECORD, 0);
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(defer_same(rec->ips, rec->nr, self->want, 42));
}

/* header.misc says whether a stack is whole, or cut at the depth of the buffer. */
TEST_F(defer, end_of_the_stack)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int bits = 30;
	const struct defer_item *rec;
	unsigned int i;

	/* Cut by the walk, by the buffer whose session wants less, by nothing. */
	for (i = 0; i < 3; i++) {
		attr.sample_max_stack = i < 2 ? 17 : 100;
		ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
		attr.sample_max_stack = i < 1 ? 17 : 100;
		ASSERT_EQ(0, defer_session_open(&self->s2, &attr, 0, -1, DEFER_PAGES));
		ASSERT_EQ(0, defer_enable(&self->s));
		ASSERT_EQ(0, defer_enable(&self->s2));
		defer_walk_syscall(0xabcd, bits, __NR_getpgid, 0, 0);
		ASSERT_EQ(0, defer_finish(&self->s));
		ASSERT_EQ(0, defer_finish(&self->s2));
		rec = defer_nth(&self->s.log, DEFER_RECORD, 0);
		ASSERT_NE(NULL, rec);
		EXPECT_EQ(PERF_RECORD_MISC_USER | (i < 2 ? DEFER_MISC_CUT : 0), rec->misc);
		rec = defer_nth(&self->s2.log, DEFER_RECORD, 0);
		ASSERT_NE(NULL, rec);
		EXPECT_EQ(PERF_RECORD_MISC_USER | (i < 1 ? DEFER_MISC_CUT : 0), rec->misc);
		defer_session_close(&self->s);
		defer_session_close(&self->s2);
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

	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	fd = self->s.bufs[0].fd;
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < 3; i++)
		walk(i);
	EXPECT_EQ(0, undeferred(fd, "off"));
	EXPECT_EQ(0, undeferred(fd, "contexts"));
	ASSERT_EQ(0, defer_write_long(DEFER_SYSCTL, 0));
	for (i = 0; i < 5; i++)
		walk(i);
	ASSERT_EQ(0, defer_write_long(DEFER_SYSCTL, 1));
	ASSERT_EQ(0, defer_disable(&self->s));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_REFRESH, 2));
	for (i = 0; i < 4; i++)
		walk(i);
	EXPECT_EQ(5, undeferred(fd, "off"));
	EXPECT_EQ(1, undeferred(fd, "refresh"));
	EXPECT_EQ(0, undeferred(fd, "busy"));
	EXPECT_EQ(0, undeferred(fd, "exec"));
	ASSERT_EQ(0, defer_finish(&self->s));

	/* Of no interest for others. */
	attr = tp_attr(self->tp, 0);
	ASSERT_EQ(0, defer_session_open(&self->s2, &attr, 0, -1, DEFER_PAGES));
	EXPECT_EQ(-1, undeferred(self->s2.bufs[0].fd, "off"));
}

/*
 * Sessions come and go without patching the kernel's code each time.  What else
 * changes with an event is seen with events that do not defer.
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
	int fds[DEFER_MAX_CPUS], fd;
	long type;

	type = defer_pmu_type("kprobe");
	if (type < 0)
		SKIP(return, "no kprobe PMU (CONFIG_KPROBE_EVENTS?)");
	count.type = type;
	for (i = 0; i < DEFER_MAX_CPUS && i < sysconf(_SC_NPROCESSORS_CONF); i++) {
		fd = defer_event_open(&count, -1, i, 0);
		if (fd >= 0)
			fds[cpus++] = fd;
	}
	if (!cpus)
		SKIP(return, "no kprobe on %s(): %s", function, strerror(errno));
	start = defer_now();
	for (i = 0; i < ARRAY_SIZE(n); i++) {
		__u64 val;

		for (j = 0; j < cpus; j++) {
			ASSERT_EQ(sizeof(val), read(fds[j], &val, sizeof(val)));
			n[i] += val;
		}
		for (j = 0; i < 2 && j < nr; j++) {
			attr = tp_attr(self->tp, flags[i]);
			fd = defer_event_open(&attr, 0, -1, 0);
			ASSERT_LE(0, fd);
			close(fd);
		}
	}
	for (j = 0; j < cpus; j++)
		close(fds[j]);
	seconds = (defer_now() - start) / DEFER_NSEC_PER_SEC + 1;
	TH_LOG("%u sessions: %llu patched without deferral, %llu with, %llu s", nr,
	       n[1] - n[0], n[2] - n[1], seconds);
	/* It may go off once a second. */
	EXPECT_GE(n[1] - n[0] + 2 * seconds + 2, n[2] - n[1]);
}

/* Events that share a buffer get one record, as long as any of them wants. */
TEST_F(defer, depth_of_shared_buffer)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int depths[][2] = { { 17, 42 }, { 42, 17 } };
	const unsigned int bits = 60;
	const struct defer_item *rec;
	struct defer_stats st;
	int nr_want;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		attr.sample_max_stack = depths[i][0];
		ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1,
						DEFER_PAGES));
		attr.sample_max_stack = depths[i][1];
		ASSERT_EQ(0, defer_session_add(&self->s, &attr));
		ASSERT_EQ(0, defer_enable(&self->s));
		defer_walk_syscall(0xabcd, bits, __NR_getpgid, 0, 0);
		ASSERT_EQ(0, defer_finish(&self->s));
		st = defer_conserve(&self->s.log);
		EXPECT_CONSERVED(&st);
		EXPECT_EQ(2, st.deferred);
		EXPECT_EQ(1, st.records);
		nr_want = defer_expect(self->want, 0xabcd, bits, walk_syscall_ip);
		ASSERT_LT(42, nr_want);
		rec = defer_nth(&self->s.log, DEFER_RECORD, 0);
		ASSERT_NE(NULL, rec);
		EXPECT_TRUE(defer_same(rec->ips, rec->nr, self->want, 42));
		defer_session_close(&self->s);
	}
}

/* The kernel part never pushes the marker out. */
TEST_F(defer, marker_with_small_depth)
{
	struct perf_event_attr attr;
	unsigned int max;

	attr = tp_attr(DEFER_TRACEPOINT(TP_RAW), BOTH);
	for (max = 1; max <= 3; max++) {
		const struct defer_item *it;
		struct defer_stats st;
		int nr_want;

		attr.sample_max_stack = max;
		ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1,
						DEFER_PAGES));
		ASSERT_EQ(0, filter_getpgid(&self->s));
		ASSERT_EQ(0, defer_enable(&self->s));
		walk(3);
		ASSERT_EQ(0, defer_finish(&self->s));
		st = defer_conserve(&self->s.log);
		EXPECT_CONSERVED(&st);
		EXPECT_EQ(1, st.deferred);
		EXPECT_EQ(1, st.records);
		it = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
		ASSERT_NE(NULL, it);
		/* A kernel part as long as it may be, marker and cookie. */
		EXPECT_EQ(1 + max + 2, it->nr);
		it = defer_nth(&self->s.log, DEFER_RECORD, 0);
		ASSERT_NE(NULL, it);
		nr_want = defer_expect(self->want, 3, BITS, walk_syscall_ip);
		ASSERT_LT(max, nr_want);
		EXPECT_TRUE(defer_same(it->ips, it->nr, self->want, max));
		defer_session_close(&self->s);
	}
}

/* kernel.perf_event_max_stack below the default. */
TEST_F(defer, sysctl_max_stack_lowered)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const struct defer_item *it;

	if (defer_write_long(DEFER_SYSCTL_MAX_STACK, 16))
		SKIP(return, "cannot set perf_event_max_stack: %s",
		     strerror(errno));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(9, 100, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, defer_finish(&self->s));
	it = defer_nth(&self->s.log, DEFER_RECORD, 0);
	ASSERT_NE(NULL, it);
	defer_expect(self->want, 9, 100, walk_syscall_ip);
	EXPECT_TRUE(defer_same(it->ips, it->nr, self->want, 16));
}

/* Above 510: the whole stack. */
TEST_F(defer, sysctl_max_stack_raised)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	struct defer_stats st;
	int nr_want;

	if (defer_write_long(DEFER_SYSCTL_MAX_STACK, 2000))
		SKIP(return, "cannot set perf_event_max_stack: %s",
		     strerror(errno));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(0x1234, 1500, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(1, st.samples);
	ASSERT_EQ(1, st.records);
	nr_want = defer_expect(self->want, 0x1234, 1500, walk_syscall_ip);
	ASSERT_EQ(1502, nr_want);
	EXPECT_WALK(&self->s.log, defer_nth(&self->s.log, PERF_RECORD_SAMPLE, 0),
		    0x1234, 1500);
}

/* A stack that does not fit into header.size is cut, and says so in nr. */
TEST_F(defer, record_size_does_not_wrap)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const struct defer_item *it;
	struct defer_stats st;

	if (defer_write_long(DEFER_SYSCTL_MAX_STACK, 30000))
		SKIP(return, "cannot set perf_event_max_stack: %s",
		     strerror(errno));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(0x77, 12000, __NR_getpgid, 0, 0);
	walk(1);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(2, st.samples);
	ASSERT_EQ(2, st.records);
	it = defer_nth(&self->s.log, DEFER_RECORD, 0);
	TH_LOG("record of %u bytes, %llu addresses", it->size, it->nr);
	/* As much as fits, less what an implementation may keep back. */
	EXPECT_LT(7500, it->nr);
	EXPECT_GT(8192, it->nr);
	defer_expect(self->want, 0x77, 12000, walk_syscall_ip);
	EXPECT_TRUE(defer_same(it->ips, it->nr, self->want, it->nr));
	EXPECT_WALK(&self->s.log, defer_nth(&self->s.log, PERF_RECORD_SAMPLE, 1),
		    1, BITS);
}

/* Nor does the chain of a sample, which is as deep as an immediate one may be. */
TEST_F(defer, sample_size_does_not_wrap)
{
	struct perf_event_attr attr = tp_attr(self->tp, 0);
	const struct defer_item *it;
	const __u64 *ips = NULL;
	int nr;

	if (defer_write_long(DEFER_SYSCTL_MAX_STACK, 30000))
		SKIP(return, "cannot set perf_event_max_stack: %s",
		     strerror(errno));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	defer_walk_syscall(0x77, 12000, __NR_getpgid, 0, 0);
	walk(1);
	ASSERT_EQ(0, defer_finish(&self->s));
	ASSERT_EQ(2, defer_count(&self->s.log, PERF_RECORD_SAMPLE));
	it = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
	nr = defer_user_chain(&self->s.log, it, &ips);
	TH_LOG("sample of %u bytes, %d addresses", it->size, nr);
	EXPECT_LT(7500, nr);
	EXPECT_GT(8192, nr);
	ASSERT_GT(CHAIN_MAX, nr);
	defer_expect(self->want, 0x77, 12000, walk_syscall_ip);
	EXPECT_TRUE(defer_same(ips, nr, self->want, nr));
	EXPECT_WALK(&self->s.log, defer_nth(&self->s.log, PERF_RECORD_SAMPLE, 1),
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

	raw = DEFER_TRACEPOINT(TP_RAW);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perf_event_attr attr = tp_attr(raw, BOTH);
		struct defer_stats st;

		TH_LOG("%d contexts, kernel part: %d", cases[i].contexts,
		       cases[i].kernel);
		if (defer_write_long(DEFER_SYSCTL_MAX_CONTEXTS,
				     cases[i].contexts))
			SKIP(return, "cannot set max_contexts_per_stack: %s",
			     strerror(errno));
		attr.exclude_callchain_kernel = !cases[i].kernel;
		ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1,
						DEFER_PAGES));
		ASSERT_EQ(0, filter_getpgid(&self->s));
		ASSERT_EQ(0, defer_enable(&self->s));
		walk(i);
		ASSERT_EQ(0, defer_finish(&self->s));
		st = defer_conserve(&self->s.log);
		EXPECT_CONSERVED(&st);
		ASSERT_EQ(1, st.samples);
		EXPECT_EQ(cases[i].deferred, st.deferred);
		EXPECT_EQ(cases[i].deferred, st.records);
		EXPECT_EQ(cases[i].immediate, st.immediate);
		if (cases[i].deferred || cases[i].immediate) {
			EXPECT_WALK(&self->s.log,
				    defer_nth(&self->s.log,
					      PERF_RECORD_SAMPLE, 0),
				    i, BITS);
		}
		defer_session_close(&self->s);
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
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, 1));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < nr; i++)
		defer_walk_syscall(i, bits, __NR_getpgid, 0, 0);
	/* LOST is written in front of the next record that fits. */
	defer_drain(&self->s);
	defer_walk_syscall(nr, bits, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_LT(0, st.missing);
	EXPECT_EQ(2 * (nr + 1), st.samples + st.records + st.lost);
	EXPECT_WALK(&self->s.log,
		    defer_nth(&self->s.log, PERF_RECORD_SAMPLE, st.samples - 1),
		    nr, bits);
}

/* ---- switched off -------------------------------------------------------- */

TEST_F(defer, sysctl_off_is_immediate)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const struct defer_item *it;
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	for (i = 0; i < 30; i++) {
		/* On, off, on. */
		if (i == 10)
			ASSERT_EQ(0, defer_write_long(DEFER_SYSCTL, 0));
		if (i == 20)
			ASSERT_EQ(0, defer_write_long(DEFER_SYSCTL, 1));
		walk(i);
	}
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(30, st.samples);
	EXPECT_EQ(20, st.deferred);
	EXPECT_EQ(20, st.records);
	for (i = 0; i < st.samples; i++) {
		it = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		EXPECT_EQ(i >= 10 && i < 20, !it->cookie);
		EXPECT_WALK(&self->s.log, it, i, BITS);
	}
}

/*
 * The last sample that PERF_EVENT_IOC_REFRESH allows disables its event, which is
 * not there any more when the task returns to user mode.
 */
TEST_F(defer, last_of_refresh_is_immediate)
{
	struct perf_event_attr attr = tp_attr(self->tp, BOTH);
	const unsigned int n = 3;
	struct defer_stats st;
	unsigned int i;

	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, -1, DEFER_PAGES));
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_REFRESH, n));
	for (i = 0; i < n + 2; i++)
		walk(i);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(n, st.samples);
	EXPECT_EQ(n - 1, st.deferred);
	EXPECT_EQ(n - 1, st.records);
	for (i = 0; i < n; i++) {
		const struct defer_item *it;

		it = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		EXPECT_EQ(i == n - 1, !it->cookie);
		EXPECT_WALK(&self->s.log, it, i, BITS);
	}
}

/* The sysctl is a boolean. */
TEST_F(defer, sysctl_range)
{
	long val = -1;

	EXPECT_EQ(-1, defer_write_long(DEFER_SYSCTL, 2));
	EXPECT_EQ(-1, defer_write_long(DEFER_SYSCTL, -1));
	EXPECT_EQ(0, defer_read_long(DEFER_SYSCTL, &val));
	EXPECT_EQ(1, val);
}

TEST_HARNESS_MAIN
