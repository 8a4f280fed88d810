// SPDX-License-Identifier: GPL-2.0
/*
 * User stacks of code without frame pointers, by SFrame: every kind of rule, in
 * the middle of a stack and at each instruction at its top, in all versions and
 * widths of the format.  The code is that of sframe_code.h in a shared library.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include <linux/perf_event.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/event.h"
#include "../perf_events/lib/known_stack.h"
#include "lib/chain.h"
#include "lib/jit.h"
#include "lib/sample.h"

#ifdef __x86_64__

FIXTURE(walk) {
	struct session s;
	struct image im;
	struct image_map m;
	int fd;
	__u64 want[2 * CHAIN_MAX + 1];
};

FIXTURE_VARIANT(walk) {
	struct sframe_opts sframe;
	unsigned int gap;
};

FIXTURE_VARIANT_ADD(walk, v2) {
	.sframe = { .version = SFRAME_VERSION_2 },
};

FIXTURE_VARIANT_ADD(walk, v2_pcrel) {
	.sframe = { .version = SFRAME_VERSION_2, .pcrel = true },
};

FIXTURE_VARIANT_ADD(walk, v2_two_bytes) {
	.sframe = { .version = SFRAME_VERSION_2, .addr_width = 1, .word_width = 1 },
};

FIXTURE_VARIANT_ADD(walk, v2_four_bytes) {
	.sframe = { .version = SFRAME_VERSION_2, .addr_width = 2, .word_width = 2 },
};

FIXTURE_VARIANT_ADD(walk, v2_auxiliary_header) {
	.sframe = { .version = SFRAME_VERSION_2, .aux_len = 24 },
};

FIXTURE_VARIANT_ADD(walk, v2_segments_apart) {
	.sframe = { .version = SFRAME_VERSION_2 },
	.gap = 3,
};

FIXTURE_VARIANT_ADD(walk, v3) {
	.sframe = { .version = SFRAME_VERSION_3 },
};

FIXTURE_VARIANT_ADD(walk, v3_two_bytes) {
	.sframe = { .version = SFRAME_VERSION_3, .addr_width = 1, .word_width = 1 },
};

FIXTURE_VARIANT_ADD(walk, v3_four_bytes) {
	.sframe = { .version = SFRAME_VERSION_3, .addr_width = 2, .word_width = 2 },
};

FIXTURE_VARIANT_ADD(walk, v3_segments_apart) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.gap = 3,
};

FIXTURE_SETUP(walk)
{
	const struct image_opts o = {
		.sframe = variant->sframe,
		.gap = variant->gap,
	};
	const char *why = sframe_unsupported();

	self->fd = -1;
	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, image_build(&self->im, &o));
	self->fd = image_file(&self->im, NULL);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, image_map(&self->m, &self->im, self->fd, 0));
}

FIXTURE_TEARDOWN(walk)
{
	session_close(&self->s);
	image_unmap(&self->m);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
}

static const char * const plain[] = {
	code_sp, code_mark, code_keep, code_fp, code_mid, code_large, code_far,
	code_noreturn, code_mask_third,
};

static const char * const flexible[] = {
	code_drap, code_ra_reg, code_fp_reg, code_interrupt,
};


/* Immediate callchains do not use the section: frame pointers end at the decoy. */
TEST_F(walk, frame_pointers_mislead)
{
	struct perf_event_attr attr = event_attr(PERF_TYPE_TRACEPOINT,
		TRACEPOINT_ID("syscalls/sys_enter_getpgid"), 1, 0);
	const struct log_item *it;
	const __u64 *ips = NULL;
	struct chain c;
	int nr;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	chain_begin(&c, &self->m);
	chain_add_list(&c, &self->m, plain, ARRAY_SIZE(plain));
	chain_add(&c, &self->m, code_leaf);
	chain_sample(&c);
	ASSERT_EQ(0, session_finish(&self->s));
	it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
	ASSERT_NE(NULL, it);
	nr = defer_user_chain(&self->s.log, it, &ips);
	self->want[0] = LEAF_IP(&self->m);
	self->want[1] = image_addr(&self->m, code_decoy);
	EXPECT_TRUE(stack_same(ips, nr, self->want, 2));
}

/* Each kind of frame alone. */
TEST_F(walk, one_frame)
{
	unsigned int i, n = 0, nr_want;
	const char *func;
	struct chain c;

	SESSION_OPEN(&self->s);
	for (i = 0; i < ARRAY_SIZE(plain) + ARRAY_SIZE(flexible); i++) {
		func = i < ARRAY_SIZE(plain) ? plain[i] :
					       flexible[i - ARRAY_SIZE(plain)];
		if (i >= ARRAY_SIZE(plain) &&
		    variant->sframe.version < SFRAME_VERSION_3)
			break;
		chain_begin(&c, &self->m);
		chain_add(&c, &self->m, func);
		chain_add(&c, &self->m, code_leaf);
		chain_sample(&c);
		nr_want = chain_expect(&c, self->want, LEAF_IP(&self->m), -1);
		EXPECT_NEXT(&self->s, n, self->want, nr_want, "function %u", i);
		n++;
	}
}

/* All of them, in both orders, several times: later walks use remembered rules. */
TEST_F(walk, mixed)
{
	unsigned int i, n = 0, nr_want;
	struct chain c;

	SESSION_OPEN(&self->s);
	for (i = 0; i < 5; i++) {
		bool flex = variant->sframe.version >= SFRAME_VERSION_3;
		unsigned int j;

		chain_begin(&c, &self->m);
		chain_add_list(&c, &self->m, plain, ARRAY_SIZE(plain));
		if (flex)
			chain_add_list(&c, &self->m, flexible,
				       ARRAY_SIZE(flexible));
		for (j = ARRAY_SIZE(plain); j--; )
			chain_add(&c, &self->m, plain[j]);
		for (j = flex ? ARRAY_SIZE(flexible) : 0; j--; )
			chain_add(&c, &self->m, flexible[j]);
		chain_add(&c, &self->m, code_leaf);
		chain_sample(&c);
		nr_want = chain_expect(&c, self->want, LEAF_IP(&self->m), -1);
		EXPECT_NEXT(&self->s, n, self->want, nr_want);
		n++;
	}
}

/* Frame pointers are restored over many frames, two of them of variable size. */
TEST_F(walk, frame_pointer_over_many_frames)
{
	static const char * const list[] = {
		code_fp, code_sp, code_keep, code_large, code_mask_third,
		code_fp, code_mark, code_far,
	};
	unsigned int nr_want;
	struct chain c;

	SESSION_OPEN(&self->s);
	chain_begin(&c, &self->m);
	chain_add_list(&c, &self->m, list, ARRAY_SIZE(list));
	chain_add(&c, &self->m, code_leaf);
	c.ctx.alloca = 0x11110;
	chain_sample(&c);
	nr_want = chain_expect(&c, self->want, LEAF_IP(&self->m), -1);
	EXPECT_STACKS(&self->s, 1, self->want, nr_want);
}

/* Interrupted at each instruction that begins a new rule. */
TEST_F(walk, every_rule_on_top)
{
	unsigned int f, r, tested = 0;

	for (f = 0; f < nr_sframe_funcs; f++) {
		const struct sframe_func *func = &sframe_funcs[f];
		const char *call = func->start == code_mask ? code_mask_third :
							      func->start;
		unsigned int above;
		struct chain c;

		if (!sframe_has(&variant->sframe, func) ||
		    (!chain_ret(call) && call != code_leaf) ||
		    call == code_start || call == code_interrupt)
			continue;
		chain_begin(&c, &self->m);
		/* The function itself is to run once. */
		chain_add(&c, &self->m, call == code_sp ? code_mark : code_sp);
		chain_add(&c, &self->m, call == code_fp ? code_keep : code_fp);
		above = c.nr_rets;
		if (call != code_entry && call != code_leaf)
			chain_add(&c, &self->m, call);
		chain_add(&c, &self->m, code_leaf);
		for (r = 0; r < func->nr_rows; r++) {
			unsigned long ip = image_addr(&self->m,
						      func->rows[r].at +
						      (call - func->start));
			struct perf_event_attr attr;
			struct code_call call = SAMPLE_CALL;
			unsigned int i, nr_want = 0;

			self->want[nr_want++] = ip;
			/* code_entry is outermost: the walk ends there. */
			for (i = above; func->start != code_entry && i--; )
				self->want[nr_want++] = c.rets[i];
			attr = event_attr_breakpoint(ip, BOTH);
			ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1,
						  SESSION_PAGES));
			ASSERT_EQ(0, session_enable(&self->s));
			chain_run(&c, &call, 1);
			EXPECT_STACKS(&self->s, 1, self->want, nr_want,
				      "function %u rule %u", f, r);
			session_close(&self->s);
			tested++;
		}
	}
	EXPECT_LT(40, tested);
}

/* From one method to another */

/* The caller of the outermost function has frame pointers. */
TEST_F(walk, on_to_frame_pointers)
{
	const unsigned int bits = 7, id = 0x35;
	struct image_opts o = { .sframe = variant->sframe };
	struct image_map m = {};
	struct code_call call = SAMPLE_CALL;
	unsigned int nr_want;
	struct image im;
	struct chain c;
	int fd;

	/* Mark code_start, which is not in the chain, instead of code_entry. */
	o.sframe.outermost[0] = code_start;
	ASSERT_EQ(0, image_build(&im, &o));
	fd = image_file(&im, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	SESSION_OPEN(&self->s);
	chain_begin(&c, &m);
	chain_add(&c, &m, code_large);
	chain_add(&c, &m, code_fp);
	chain_add(&c, &m, code_leaf);
	c.ctx.calls = &call;
	c.ctx.nr_calls = 1;
	walk_top(id, bits, walk_call, c.entry, (__u64)c.plan, (__u64)&c.ctx);
	nr_want = chain_expect(&c, self->want, image_addr(&m, code_leaf_ip),
			       -1);
	nr_want += known_expect(self->want + nr_want, id, bits, walk_call_ret);
	EXPECT_STACKS(&self->s, 1, self->want, nr_want);
	image_unmap(&m);
	image_free(&im);
	close(fd);
}

/* SFrame cannot unwind a function that the section does not cover. */
TEST_F(walk, hole)
{
	struct image_opts o = { .sframe = variant->sframe };
	struct image_map m = {};
	unsigned int nr_want;
	struct image im;
	struct chain c;
	int fd;

	o.sframe.without = code_mark;
	ASSERT_EQ(0, image_build(&im, &o));
	fd = image_file(&im, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	SESSION_OPEN(&self->s);
	chain_begin(&c, &m);
	chain_add(&c, &m, code_sp);
	chain_add(&c, &m, code_mark);
	chain_add(&c, &m, code_keep);
	chain_add(&c, &m, code_leaf);
	chain_sample(&c);
	/* code_mark's frame pointer is the decoy. */
	nr_want = chain_expect(&c, self->want, image_addr(&m, code_leaf_ip), 2);
	self->want[nr_want++] = image_addr(&m, code_decoy);
	EXPECT_STACKS(&self->s, 1, self->want, nr_want);
	image_unmap(&m);
	image_free(&im);
	close(fd);
}

/* A library of this version and one of version 3 call each other. */
TEST_F(walk, two_libraries)
{
	struct image_opts o = {
		.sframe = { .version = SFRAME_VERSION_3 },
	};
	struct image_map m = {};
	unsigned int i, nr_want;
	struct image im;
	struct chain c;
	int fd;

	ASSERT_EQ(0, image_build(&im, &o));
	fd = image_file(&im, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	SESSION_OPEN(&self->s);
	chain_begin(&c, &self->m);
	for (i = 0; i < 8; i++) {
		chain_add(&c, i % 2 ? &m : &self->m, code_sp);
		chain_add(&c, i % 2 ? &self->m : &m, code_fp);
	}
	chain_add(&c, &m, code_leaf);
	chain_sample(&c);
	nr_want = chain_expect(&c, self->want, image_addr(&m, code_leaf_ip),
			       -1);
	EXPECT_STACKS(&self->s, 1, self->want, nr_want);
	image_unmap(&m);
	image_free(&im);
	close(fd);
}

#else /* !__x86_64__ */

TEST(walk)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
