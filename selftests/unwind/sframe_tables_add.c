// SPDX-License-Identifier: GPL-2.0
/*
 * Supplied tables with CFAs that are a number plus what the frame keeps in a slot, as
 * assembly code that realigns its stack has them: SFRAME_FLAG_ADD.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include <linux/perf_event.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/event.h"
#include "lib/kmsg.h"
#include "lib/table.h"

#ifdef __x86_64__

/* Samples of one kind */
#define ROUNDS	20

FIXTURE(add) {
	struct session s;
	struct kmsg log;
	struct image im;
	struct image_map m;
	struct chain c;
	int fd;
	int owner;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	unsigned char table[SFRAME_MAX_SIZE];
};

FIXTURE_VARIANT(add) {
	struct sframe_opts sframe;
};

FIXTURE_VARIANT_ADD(add, one_byte) {
	.sframe = { .version = SFRAME_VERSION_3, .add = true },
};

FIXTURE_VARIANT_ADD(add, two_bytes) {
	.sframe = {
		.version = SFRAME_VERSION_3, .add = true, .addr_width = 1, .word_width = 1,
	},
};

FIXTURE_VARIANT_ADD(add, four_bytes) {
	.sframe = {
		.version = SFRAME_VERSION_3, .add = true, .addr_width = 2, .word_width = 2,
	},
};

/* Map a file whose own section has these options; with version 0 it has none. */
static int map_file(FIXTURE_DATA(add) *self, const struct sframe_opts *sframe)
{
	struct image_opts o = { .sframe = *sframe, .no_sframe = !sframe->version };

	if (image_build(&self->im, &o))
		return -1;
	self->fd = make_file(&self->im, NULL);
	if (self->fd < 0 || image_map(&self->m, &self->im, self->fd, 0))
		return -1;

	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_sp);
	chain_add(&self->c, &self->m, code_slot);
	chain_add(&self->c, &self->m, code_fp);
	chain_add(&self->c, &self->m, code_slot);
	chain_add(&self->c, &self->m, code_leaf);
	self->nr_want = chain_expect(&self->c, self->want, LEAF_IP(&self->m), -1);

	return 0;
}

static void unmap_file(FIXTURE_DATA(add) *self)
{
	image_unmap(&self->m);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
	self->fd = -1;
}

FIXTURE_SETUP(add)
{
	const struct sframe_opts none = { };
	const char *why = tables_unsupported();

	self->fd = -1;
	self->owner = -1;
	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, kmsg_open(&self->log));
	self->owner = owner_open(0, -1, false);
	ASSERT_LE(0, self->owner);
	ASSERT_EQ(0, map_file(self, &none));
}

FIXTURE_TEARDOWN(add)
{
	session_close(&self->s);
	unmap_file(self);
	if (self->owner >= 0)
		close(self->owner);
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
}

/* Supply a table with these options. */
static int supply(FIXTURE_DATA(add) *self, const struct sframe_opts *sframe)
{
	size_t size = table_build(self->table, &self->im, sframe, WHOLE, 0);

	return table_supply(self->owner, self->fd, self->table, size, 0);
}

/* In the middle of a stack, when the rule is looked up and when it is remembered. */
TEST_F(add, stack)
{
	const __u64 *ips = NULL;
	unsigned int i;
	int nr;

	SESSION_OPEN(&self->s);
	chain_sample(&self->c);
	ASSERT_EQ(0, session_wait(&self->s, 1, 5));
	nr = sample_stack(&self->s, 0, &ips);
	EXPECT_FALSE(stack_same(ips, nr, self->want, self->nr_want));

	ASSERT_EQ(0, supply(self, &variant->sframe));
	for (i = 1; i <= ROUNDS; i++) {
		chain_sample(&self->c);
		EXPECT_NEXT(&self->s, i, self->want, self->nr_want, "round %u", i);
	}
}

/* At the top of the stack, in each part of the function that has a rule of its own */
TEST_F(add, top)
{
	const struct sframe_func *func = sframe_funcs;
	struct code_call call = SAMPLE_CALL;
	struct perf_event_attr attr;
	unsigned int r, i, above;
	__u64 ip;

	while (func->start != code_slot)
		func++;
	ASSERT_EQ(0, supply(self, &variant->sframe));

	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_sp);
	chain_add(&self->c, &self->m, code_fp);
	above = self->c.nr_rets;
	chain_add(&self->c, &self->m, code_slot);
	chain_add(&self->c, &self->m, code_leaf);

	for (r = 0; r < func->nr_rows; r++) {
		ip = image_addr(&self->m, func->rows[r].at);
		self->nr_want = 0;
		self->want[self->nr_want++] = ip;
		for (i = above; i--; )
			self->want[self->nr_want++] = self->c.rets[i];

		attr = event_attr_breakpoint(ip, BOTH);
		ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
		ASSERT_EQ(0, session_enable(&self->s));
		chain_run(&self->c, &call, 1);
		EXPECT_STACKS(&self->s, 1, self->want, self->nr_want, "rule %u", r);
		session_close(&self->s);
	}
	EXPECT_LE(5, func->nr_rows);
}

/* In samples that are not deferred: by what is remembered */
TEST_F(add, immediate)
{
	const struct log_item *it;
	const __u64 *ips = NULL;
	struct perf_event_attr attr;
	unsigned int i, whole = 0;
	int nr;

	if (access("/proc/sys/kernel/unwind_user_immediate", F_OK))
		SKIP(return, "no sysctl kernel.unwind_user_immediate");

	ASSERT_EQ(0, supply(self, &variant->sframe));
	attr = tp_attr(TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 0);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < ROUNDS; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(ROUNDS, log_count(&self->s.log, PERF_RECORD_SAMPLE));

	for (i = 0; i < ROUNDS; i++) {
		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		nr = defer_user_chain(&self->s.log, it, &ips);
		whole += stack_same(ips, nr, self->want, self->nr_want);
	}
	/* The first sample asks for the rules. */
	EXPECT_LE(ROUNDS - 2, whole);
}

/* Without the flag the control word is false, and version 2 has no such flag. */
TEST_F(add, refused)
{
	struct sframe_opts o = variant->sframe;

	o.add_unsaid = true;
	EXPECT_EQ(-EINVAL, supply(self, &o));
	o = (struct sframe_opts) { .version = SFRAME_VERSION_2, .add = true };
	EXPECT_EQ(-EINVAL, supply(self, &o));
	o.add = false;
	EXPECT_EQ(0, supply(self, &o));
}

/* The flag is for tables. The section of a file that has it is not used. */
TEST_F(add, section_of_the_file)
{
	const __u64 *ips = NULL;
	unsigned int i;
	int nr;

	unmap_file(self);
	ASSERT_EQ(0, map_file(self, &variant->sframe));
	SESSION_OPEN(&self->s);
	for (i = 0; i < 2; i++) {
		chain_sample(&self->c);
		ASSERT_EQ(0, session_wait(&self->s, i + 1, 5));
		nr = sample_stack(&self->s, i, &ips);
		ASSERT_LE(2, nr);
		EXPECT_EQ(LEAF_IP(&self->m), ips[0]);
		EXPECT_EQ(DECOY(&self->m), ips[1]);
	}
}

#else /* !__x86_64__ */

TEST(add)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
