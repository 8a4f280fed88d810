// SPDX-License-Identifier: GPL-2.0
/*
 * The reader on sections that no tool writes: corners of the format.
 */
#include "handmade.h"

TEST_F(section, plain)
{
	struct unwind_user_rule rule;
	unsigned int i, off, fre;

	build_plain(self, variant);
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));

	for (i = 0; i < ARRAY_SIZE(plain_fdes); i++) {
		for (off = 0; off < plain_fdes[i].size; off++) {
			fre = off < 1 ? 0 : off < 4 ? 1 : off < 30 ? 2 : 3;
			ASSERT_EQ(0, test_find_rule(&self->table.sec,
						    plain_fdes[i].start + off,
						    &rule));
			EXPECT_TRUE(same_rule(&plain_rules[fre], &rule))
				TH_LOG("%u: %s", off, show_rule(&rule));
		}
	}

	EXPECT_EQ(-ENOENT, test_find_rule(&self->table.sec, TEXT - 1, &rule));
	EXPECT_EQ(-ENOENT, test_find_rule(&self->table.sec, TEXT + 32, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT + 0x3f, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT + 0x80, &rule));
	EXPECT_EQ(-ENOENT, test_find_rule(&self->table.sec, 0, &rule));
	EXPECT_EQ(-ENOENT, test_find_rule(&self->table.sec, ~0UL, &rule));
}

TEST_F(section, auxiliary_header)
{
	struct unwind_user_rule rule;

	test_build(&self->table, variant->kind, 255, plain_fdes,
		   ARRAY_SIZE(plain_fdes));
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	ASSERT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + 0x44, &rule));
	EXPECT_TRUE(same_rule(&plain_rules[2], &rule));
}

TEST_F(section, no_functions)
{
	struct unwind_user_rule rule;

	build(self, variant, NULL, 0);
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, 0, &rule));
}

/* Each function has a different rule, so that a neighbour's rule is noticed. */
TEST_F(section, search)
{
	static const u32 counts[] = {
		1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 640, 1000,
		1023, 1024, 1025, 1089, 3000, 10007,
	};
	struct unwind_user_rule rule;
	struct test_fde *fdes;
	struct test_fre *fres;
	unsigned int n, i;
	u64 start;

	for (n = 0; n < ARRAY_SIZE(counts); n++) {
		fdes = calloc(counts[n], sizeof(*fdes));
		fres = calloc(counts[n], sizeof(*fres));
		ASSERT_NE(NULL, fdes);
		ASSERT_NE(NULL, fres);

		/* Dense and sparse functions, with gaps of a byte and more. */
		start = TEXT - 0x1000000;
		for (i = 0; i < counts[n]; i++) {
			fres[i] = (struct test_fre) {
				.sp = true, .nr = 1, .width = 2, .words = { 8 * i },
			};
			fdes[i] = (struct test_fde) {
				.start		= start,
				.size		= 1 + i * i % 100,
				.num_fres	= 1,
				.fres		= &fres[i],
			};
			start += fdes[i].size + 1 + (i % 7 ? 0 : i % 1000);
		}

		build(self, variant, fdes, counts[n]);
		ASSERT_EQ(0, sframe_section_init(&self->table.sec));

		for (i = 0; i < counts[n]; i++) {
			start = fdes[i].start;

			/*
			 * Up to 1024 FDEs, a part has 16: one read of FDEs, one of
			 * FREs.
			 */
			test_reads.count = 0;
			ASSERT_EQ(0, test_find_rule(&self->table.sec, start, &rule));
			EXPECT_EQ(8 * i, rule.cfa.off);
			EXPECT_GE(counts[n] <= 1024 ? 2 : 6, test_reads.count);

			start += fdes[i].size;
			ASSERT_EQ(0, test_find_rule(&self->table.sec, start - 1,
						    &rule));
			EXPECT_EQ(8 * i, rule.cfa.off);
			EXPECT_EQ(-ENOENT,
				  test_find_rule(&self->table.sec, start, &rule));
		}

		free(fdes);
		free(fres);
	}
}

/* Addresses and words of each width, up to what it can hold. */
TEST_F(section, widths)
{
	static const s32 lows[] = { S8_MIN, S16_MIN, S32_MIN };
	static const s32 highs[] = { S8_MAX, S16_MAX, S32_MAX };
	static const u32 addrs[] = { U8_MAX, U16_MAX, U32_MAX - 1 };
	struct unwind_user_rule rule;
	struct test_fre fres[2] = {};
	struct test_fde fde;
	u8 addr, word;

	for (addr = 0; addr <= SFRAME_WIDTH_MAX; addr++) {
		for (word = 0; word <= SFRAME_WIDTH_MAX; word++) {
			fres[0] = (struct test_fre) {
				.sp = true, .nr = 1, .width = word, .words = { 8 },
			};
			fres[1] = (struct test_fre) {
				.addr = addrs[addr], .nr = 2, .width = word,
				.words = { highs[word], lows[word] },
			};
			fde = (struct test_fde) {
				.start = TEXT, .size = U32_MAX, .info = addr,
				.num_fres = 2, .fres = fres,
			};

			ASSERT_EQ(0, find_one(self, variant, &fde, addrs[addr], &rule));
			EXPECT_EQ(UNWIND_USER_BASE_FP, rule.cfa.base);
			EXPECT_EQ(highs[word], rule.cfa.off);
			EXPECT_EQ(lows[word], rule.fp.off);

			ASSERT_EQ(0, find_one(self, variant, &fde, addrs[addr] - 1,
					      &rule));
			EXPECT_EQ(8, rule.cfa.off);
			EXPECT_EQ(UNWIND_USER_BASE_SAME, rule.fp.base);
		}
	}

	fde.info = SFRAME_WIDTH_MAX + 1;
	fde.num_fres = 0;
	EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 0, &rule));
	fde.info = SFRAME_FDE_ADDR_WIDTH;
	EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 0, &rule));
}

TEST_F(section, word_width_reserved)
{
	static const struct test_fre fre = { .sp = true, .nr = 1, .width = 3 };
	static const struct test_fre none = { .sp = true, .nr = 0, .width = 3 };
	struct unwind_user_rule rule;

	EXPECT_EQ(-EINVAL, find_fre(self, variant, 0, &fre, &rule));
	EXPECT_EQ(-EINVAL, find_fre(self, variant, 0, &none, &rule));
}

TEST_F(section, outermost)
{
	static const struct test_fre fre = { .sp = true };
	struct unwind_user_rule rule;

	ASSERT_EQ(0, find_fre(self, variant, SFRAME_FDE_DEFAULT, &fre, &rule));
	EXPECT_TRUE(rule.outermost);
	EXPECT_FALSE(rule.signal);

	if (!is_v3(variant))
		return;
	ASSERT_EQ(0, find_fre(self, variant, SFRAME_FDE_FLEX, &fre, &rule));
	EXPECT_TRUE(rule.outermost);
}

/* AMD64 has two words at most: the return address is at a fixed offset. */
TEST_F(section, too_many_words)
{
	struct unwind_user_rule rule;
	struct test_fre fre = { .sp = true };

	for (fre.nr = 3; fre.nr <= TEST_WORDS; fre.nr++)
		EXPECT_EQ(-EINVAL, find_fre(self, variant, 0, &fre, &rule));
}

TEST_F(section, mangled)
{
	static const struct test_fre fre = {
		.sp = true, .nr = 1, .words = { 8 }, .mangled = true,
	};
	struct unwind_user_rule rule;

	EXPECT_EQ(-EINVAL, find_fre(self, variant, 0, &fre, &rule));
}

/* Bits of other architectures and bits without a meaning are invalid. */
TEST_F(section, fde_bits)
{
	struct test_fde fde = PLAIN(TEXT, 32);
	struct unwind_user_rule rule;
	unsigned int bit;

	for (bit = 5; bit < 8; bit++) {
		fde.info = 1 << bit;
		EXPECT_EQ(is_v3(variant) && bit == 7 ? 0 : -EINVAL,
			  find_one(self, variant, &fde, 0, &rule));
	}

	if (!is_v3(variant))
		return;

	fde.info = 0;
	for (bit = 2; bit < 256; bit++) {
		fde.info2 = bit;
		EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 0, &rule));
	}
}

/* Blocks of 16 bytes; the last one is cut. */
TEST_F(section, mask)
{
	static const struct test_fre fres[] = {
		{ .addr = 0, .sp = true, .nr = 1, .words = { 8 } },
		{ .addr = 11, .sp = true, .nr = 1, .words = { 16 } },
	};
	struct test_fde fde = {
		.start = TEXT, .size = 100, .info = SFRAME_FDE_MASK, .rep_size = 16,
		.num_fres = 2, .fres = fres,
	};
	struct unwind_user_rule rule;
	unsigned long off;

	build(self, variant, &fde, 1);
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	for (off = 0; off < 100; off++) {
		ASSERT_EQ(0, test_find_rule(&self->table.sec, TEXT + off, &rule));
		EXPECT_EQ(off % 16 < 11 ? 8 : 16, rule.cfa.off);
	}
	EXPECT_EQ(-ENOENT, test_find_rule(&self->table.sec, TEXT + 100, &rule));

	fde.rep_size = 1;
	ASSERT_EQ(0, find_one(self, variant, &fde, 99, &rule));
	EXPECT_EQ(8, rule.cfa.off);

	fde.rep_size = 0;
	EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 0, &rule));
}

/* A function without rules, and one whose first bytes have no rule. */
TEST_F(section, no_fres)
{
	static const struct test_fre late = {
		.addr = 4, .sp = true, .nr = 1, .words = { 8 },
	};
	struct test_fde fde = { .start = TEXT, .size = 32 };
	struct unwind_user_rule rule;

	EXPECT_EQ(-ENOENT, find_one(self, variant, &fde, 0, &rule));

	fde.num_fres = 1;
	fde.fres = &late;
	EXPECT_EQ(-ENOENT, find_one(self, variant, &fde, 3, &rule));
	EXPECT_EQ(0, find_one(self, variant, &fde, 4, &rule));
	EXPECT_EQ(8, rule.cfa.off);
}

TEST_F(section, signal)
{
	struct test_fde fde = PLAIN(TEXT, 32);
	struct unwind_user_rule rule;

	if (!is_v3(variant))
		SKIP(return, "version 2 does not mark signal frames");

	fde.info = SFRAME_FDE_SIGNAL;
	ASSERT_EQ(0, find_one(self, variant, &fde, 2, &rule));
	EXPECT_TRUE(rule.signal);
	EXPECT_FALSE(rule.outermost);
	EXPECT_EQ(16, rule.cfa.off);

	fde.num_fres = 0;
	memset(&rule, 0xff, sizeof(rule));
	ASSERT_EQ(-ENODATA, find_one(self, variant, &fde, 2, &rule));
	EXPECT_TRUE(rule.signal);
	EXPECT_FALSE(rule.outermost);
	EXPECT_EQ(UNWIND_USER_BASE_SAME, rule.cfa.base);
}

/* An FRE after the function's end never applies, and does no harm. */
TEST_F(section, fre_out_of_function)
{
	static const struct test_fre fres[] = {
		{ .addr = 0, .sp = true, .nr = 1, .words = { 8 } },
		{ .addr = 200, .sp = true, .nr = 1, .words = { 16 } },
	};
	struct test_fde fde = {
		.start = TEXT, .size = 32, .num_fres = 2, .fres = fres,
	};
	struct unwind_user_rule rule;

	ASSERT_EQ(0, find_one(self, variant, &fde, 31, &rule));
	EXPECT_EQ(8, rule.cfa.off);
	EXPECT_EQ(-ENOENT, find_one(self, variant, &fde, 200, &rule));
}

/* The last of several FREs for one address applies; descending FREs are invalid. */
TEST_F(section, fre_order)
{
	struct test_fre fres[] = {
		{ .addr = 0, .sp = true, .nr = 1, .words = { 8 } },
		{ .addr = 4, .sp = true, .nr = 1, .words = { 16 } },
		{ .addr = 4, .sp = true, .nr = 1, .words = { 24 } },
	};
	struct test_fde fde = {
		.start = TEXT, .size = 32, .num_fres = 3, .fres = fres,
	};
	struct unwind_user_rule rule;

	ASSERT_EQ(0, find_one(self, variant, &fde, 4, &rule));
	EXPECT_EQ(24, rule.cfa.off);

	fres[2].addr = 3;
	EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 4, &rule));
	EXPECT_EQ(0, find_one(self, variant, &fde, 2, &rule));
}

/* A function with so many FREs that to go through them takes too long. */
TEST_F(section, too_many_fres)
{
	struct unwind_user_rule rule;
	struct test_fde fde = {
		.start = TEXT, .size = 32, .num_fres = SFRAME_FRES_MAX,
	};
	struct test_fre *fres;

	fres = calloc(SFRAME_FRES_MAX + 1, sizeof(*fres));
	ASSERT_NE(NULL, fres);
	fde.fres = fres;
	EXPECT_EQ(0, find_one(self, variant, &fde, 0, &rule));

	/* Version 3 has no field for more. */
	if (!is_v3(variant)) {
		fde.num_fres++;
		EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 0, &rule));
	}

	free(fres);
}

/* Not too many, but long ones, all for the same address. */
TEST_F(section, too_long_fres)
{
	const u32 fre_size = 1 + 1 + 2 * sizeof(u32);
	const u32 nr = SFRAME_FRES_LEN_MAX / fre_size;
	struct unwind_user_rule rule;
	struct test_fde fde = { .start = TEXT, .size = 32, .num_fres = nr };
	struct test_fre *fres;
	u32 i;

	fres = calloc(nr + SFRAME_FRES_MAX / 100, sizeof(*fres));
	ASSERT_NE(NULL, fres);
	for (i = 0; i < nr + SFRAME_FRES_MAX / 100; i++)
		fres[i] = (struct test_fre) {
			.sp = true, .nr = 2, .width = SFRAME_WIDTH_MAX, .words = { 16, -16 },
		};
	fde.fres = fres;
	EXPECT_EQ(0, find_one(self, variant, &fde, 0, &rule));
	fde.num_fres += SFRAME_FRES_MAX / 100;
	EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 0, &rule));
	free(fres);
}

/* FREs of the largest size: a chunk holds one and a part of the next. */
TEST_F(section, large_fres)
{
	struct test_fre fres[20] = {};
	struct test_fde fde = {
		.start = TEXT, .size = 2000, .info = SFRAME_WIDTH_MAX,
		.num_fres = ARRAY_SIZE(fres), .fres = fres,
	};
	struct unwind_user_rule rule;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fres); i++) {
		fres[i] = (struct test_fre) {
			.addr = i * 100, .sp = true, .nr = TEST_WORDS,
			.width = SFRAME_WIDTH_MAX,
		};
	}
	/* All are skipped but the one that counts. */
	fres[13].nr = 2;
	fres[13].words[0] = 1000;
	fres[13].words[1] = -1000;

	ASSERT_EQ(0, find_one(self, variant, &fde, 1399, &rule));
	EXPECT_EQ(1000, rule.cfa.off);
	EXPECT_EQ(-1000, rule.fp.off);
	EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 1299, &rule));
	EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 1400, &rule));
}

/*
 * The last FRE is split between two chunks, at each of its bytes. Then the area ends at
 * each of its bytes, so that it is incomplete.
 */
TEST_F(section, last_fre)
{
	struct test_fre fres[100] = {};
	struct test_fde fde = {
		.start = TEXT, .size = 32, .fres = fres,
	};
	struct unwind_user_rule rule;
	struct sframe_header *header;
	unsigned int i, nr, cut;

	for (nr = 1; nr <= ARRAY_SIZE(fres); nr++) {
		for (i = 0; i < nr - 1; i++)
			fres[i] = (struct test_fre) { .sp = true, .nr = 1, .words = { 8 } };
		fres[nr - 1] = (struct test_fre) {
			.sp = true, .nr = 2, .width = 2, .words = { 1000, -1000 },
		};
		fde.num_fres = nr;

		ASSERT_EQ(0, find_one(self, variant, &fde, 31, &rule));
		EXPECT_EQ(1000, rule.cfa.off);
		EXPECT_EQ(-1000, rule.fp.off);

		header = self->table.header;
		for (cut = 1; cut <= 10; cut++) {
			header->fre_len--;
			ASSERT_EQ(0, sframe_section_init(&self->table.sec));
			EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec,
							    TEXT + 31, &rule));
		}
	}
}

/*
 * Control words of flexible FDEs: 1 from a register, 2 dereferenced, 8 times the
 * number of the register. 7 is the stack pointer, 6 the frame pointer.
 */
#define FLEX(...)	{						\
	.words = { __VA_ARGS__ },					\
	.nr = sizeof((s32 []) { __VA_ARGS__ }) / sizeof(s32),		\
}

TEST_F(section, flex)
{
	static const struct {
		struct test_fre fre;
		struct unwind_user_rule rule;
	} cases[] = {
		/* CFA = rsp + 8 */
		{ FLEX(7 << 3 | 1, 8), RULE(LOC_SP(8)) },
		/* CFA = rbp + 16; the frame pointer is at CFA - 16 */
		{ FLEX(6 << 3 | 1, 16, 0, 2, -16),
		  RULE_FP(LOC_FP(16), LOC_AT_CFA(-16)) },
		/* CFA = r10 */
		{ FLEX(10 << 3 | 1, 0), RULE(LOC_REG(10, 0)) },
		/* CFA = *(rbp - 24); the frame pointer is at rbp */
		{ FLEX(6 << 3 | 3, -24, 0, 6 << 3 | 3, 0),
		  RULE_FP(LOC_AT_FP(-24), LOC_AT_FP(0)) },
		/* The return address is rdi */
		{ FLEX(7 << 3 | 1, 8, 5 << 3 | 1, 0),
		  RULE_ALL(LOC_SP(8), LOC_REG(5, 0), LOC_SAME) },
		/* The return address is at CFA - 16 */
		{ FLEX(7 << 3 | 1, 8, 2, -16),
		  RULE_ALL(LOC_SP(8), LOC_AT_CFA(-16), LOC_SAME) },
		/* The frame pointer is r12 */
		{ FLEX(7 << 3 | 1, 8, 0, 12 << 3 | 1, 0),
		  RULE_FP(LOC_SP(8), LOC_REG(12, 0)) },
		/* The frame pointer is in a vector register, and in none that exists. */
		{ FLEX(7 << 3 | 1, 8, 0, 17 << 3 | 1, 0),
		  RULE_FP(LOC_SP(8), LOC_NONE) },
		{ FLEX(7 << 3 | 1, 8, 0, 30 << 3 | 3, 8),
		  RULE_FP(LOC_SP(8), LOC_NONE) },
		/* Register 0 is rax */
		{ FLEX(1, 8), RULE(LOC_REG(0, 8)) },
		/* Two place holders */
		{ FLEX(7 << 3 | 1, 8, 0, 0), RULE(LOC_SP(8)) },
		/* CFA = *(r15 + 8) */
		{ FLEX(15 << 3 | 3, 8),
		  RULE(LOC(.base = UNWIND_USER_BASE_REG, .reg = 15, .off = 8,
			   .deref = true)) },
	};
	struct unwind_user_rule rule;
	struct test_fre fre;
	unsigned int i;

	if (!is_v3(variant))
		SKIP(return, "version 2 has no flexible FDEs");

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		fre = cases[i].fre;
		for (fre.width = 0; fre.width <= SFRAME_WIDTH_MAX; fre.width++) {
			ASSERT_EQ(0, find_fre(self, variant, SFRAME_FDE_FLEX, &fre,
					      &rule));
			EXPECT_TRUE(same_rule(&cases[i].rule, &rule))
				TH_LOG("%u: %s", i, show_rule(&rule));
		}
	}
}

TEST_F(section, flex_lies)
{
	static const struct {
		struct test_fre fre;
		int ret;
	} cases[] = {
		/* A control word without an offset */
		{ FLEX(7 << 3 | 1), -EINVAL },
		{ FLEX(7 << 3 | 1, 8, 5 << 3 | 1), -EINVAL },
		{ FLEX(7 << 3 | 1, 8, 0, 2), -EINVAL },
		/* A CFA that is relative to itself, or to nothing */
		{ FLEX(2, 8), -EINVAL },
		{ FLEX(0), -EINVAL },
		{ FLEX(0, 0, 0), -EINVAL },
		/* The reserved bit, and a register that is not used */
		{ FLEX(7 << 3 | 5, 8), -EINVAL },
		{ FLEX(7 << 3 | 1, 8, 3 << 3 | 2, 8), -EINVAL },
		/* Words to spare */
		{ FLEX(7 << 3 | 1, 8, 0, 0, 0), -EINVAL },
		{ FLEX(7 << 3 | 1, 8, 2, -8, 2, -16, 0), -EINVAL },
		/* The return address column, and a vector register */
		{ FLEX(16 << 3 | 1, 8), -ENOENT },
		{ FLEX(7 << 3 | 1, 8, 17 << 3 | 1, 8), -ENOENT },
		/* Words to spare after a vector register, or none */
		{ FLEX(7 << 3 | 1, 8, 0, 17 << 3 | 1, 8, 0), -EINVAL },
		{ FLEX(7 << 3 | 1, 8, 0, 17 << 3 | 1), -EINVAL },
	};
	struct unwind_user_rule rule;
	struct test_fre fre;
	unsigned int i;

	if (!is_v3(variant))
		SKIP(return, "version 2 has no flexible FDEs");

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		fre = cases[i].fre;
		for (fre.width = 0; fre.width <= SFRAME_WIDTH_MAX; fre.width++)
			EXPECT_EQ(cases[i].ret, find_fre(self, variant,
							 SFRAME_FDE_FLEX, &fre,
							 &rule))
				TH_LOG("%u", i);
	}

	/* The largest number of a register. */
	fre = (struct test_fre) FLEX(-7, 8);
	fre.width = SFRAME_WIDTH_MAX;
	EXPECT_EQ(-ENOENT, find_fre(self, variant, SFRAME_FDE_FLEX, &fre, &rule));
}

/* With the flag for it, a number may be added to a CFA that is read from memory. */
TEST_F(section, flex_add)
{
	static const struct {
		struct test_fre fre;
		struct unwind_user_rule rule;
		int ret;
		/* The control word does not fit into a byte. */
		bool wide;
	} cases[] = {
		/* CFA = *(rsp + 24) + 8 */
		{ FLEX(7 << 3 | 7, 24, 8), RULE_ADD(LOC_AT_SP(24), 8, LOC_SAME) },
		/* CFA = *(rbp - 24) - 16; the frame pointer is at CFA - 16 */
		{ FLEX(6 << 3 | 7, -24, -16, 0, 2, -16),
		  RULE_ADD(LOC_AT_FP(-24), -16, LOC_AT_CFA(-16)) },
		/* Other control words mean what they mean without the flag. */
		{ FLEX(7 << 3 | 3, 24), RULE(LOC_AT_SP(24)) },
		{ FLEX(7 << 3 | 1, 8, 2, -16),
		  RULE_ALL(LOC_SP(8), LOC_AT_CFA(-16), LOC_SAME) },
		/* Nothing is read from memory. */
		{ FLEX(7 << 3 | 5, 24, 8), .ret = -EINVAL },
		{ FLEX(4, 24, 8), .ret = -EINVAL },
		/* Relative to the CFA itself */
		{ FLEX(6, 24, 8), .ret = -EINVAL },
		/* A control word without a number, or without both */
		{ FLEX(7 << 3 | 7, 24), .ret = -EINVAL },
		{ FLEX(7 << 3 | 7), .ret = -EINVAL },
		/* Not for the return address and the frame pointer */
		{ FLEX(7 << 3 | 1, 8, 7 << 3 | 7, 8, 8), .ret = -EINVAL },
		{ FLEX(7 << 3 | 1, 8, 0, 7 << 3 | 7, 8, 8), .ret = -EINVAL },
		/* A vector register */
		{ FLEX(17 << 3 | 7, 8, 8), .ret = -ENOENT },
		/* CFA = *(rsp + 8 * r9 + 24) + 8; the registers with the lowest numbers */
		{ FLEX(10 << 8 | 7 << 3 | 7, 24, 8),
		  RULE_INDEX(LOC_AT_SP(24), 9, 8, LOC_SAME), .wide = true },
		{ FLEX(1 << 8 | 0 << 3 | 7, 0, 0),
		  RULE_INDEX(LOC(.base = UNWIND_USER_BASE_REG, .deref = true), 0, 0, LOC_SAME),
		  .wide = true },
		{ FLEX(16 << 8 | 6 << 3 | 7, -8, 8, 0, 2, -16),
		  RULE_INDEX(LOC_AT_FP(-8), 15, 8, LOC_AT_CFA(-16)), .wide = true },
		/* As above, with an index */
		{ FLEX(10 << 8 | 7 << 3 | 5, 24, 8), .ret = -EINVAL, .wide = true },
		{ FLEX(10 << 8 | 6, 24, 8), .ret = -EINVAL, .wide = true },
		{ FLEX(10 << 8 | 7 << 3 | 7, 24), .ret = -EINVAL, .wide = true },
		/* Not without a number, which may be 0: this is a very large register. */
		{ FLEX(10 << 8 | 7 << 3 | 3, 24), .ret = -ENOENT, .wide = true },
		/* Indices that are no general register */
		{ FLEX(17 << 8 | 7 << 3 | 7, 24, 8), .ret = -ENOENT, .wide = true },
		{ FLEX(127 << 8 | 7 << 3 | 7, 24, 8), .ret = -ENOENT, .wide = true },
	};
	FIXTURE_VARIANT(section) with = *variant;
	struct sframe_section in_user_memory;
	struct unwind_user_rule rule;
	struct test_fre fre;
	unsigned int i;
	int ret;

	with.kind.flags |= SFRAME_FLAG_ADD;
	if (!is_v3(variant)) {
		EXPECT_EQ(-EOPNOTSUPP, find_fre(self, &with, 0, &plain_fres[0], &rule));
		return;
	}

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		fre = cases[i].fre;
		for (fre.width = cases[i].wide; fre.width <= SFRAME_WIDTH_MAX; fre.width++) {
			ret = find_fre(self, &with, SFRAME_FDE_FLEX, &fre, &rule);
			ASSERT_EQ(cases[i].ret, ret) TH_LOG("%u", i);
			if (ret)
				continue;
			EXPECT_TRUE(same_rule(&cases[i].rule, &rule))
				TH_LOG("%u: %s", i, show_rule(&rule));
		}
	}

	/* Without the flag the bit is reserved. */
	fre = cases[0].fre;
	EXPECT_EQ(-EINVAL, find_fre(self, variant, SFRAME_FDE_FLEX, &fre, &rule));

	/* A section of the program may not have the flag. */
	ASSERT_EQ(0, find_fre(self, &with, SFRAME_FDE_FLEX, &fre, &rule));
	in_user_memory = self->table.sec;
	in_user_memory.data = NULL;
	test_user_memory = self->table.sec.data;
	EXPECT_EQ(-EOPNOTSUPP, sframe_section_init(&in_user_memory));
	test_user_memory = NULL;
}

/* Functions more than 2 GiB from the section, on either side. */
TEST_F(section, far)
{
	static const struct test_fde fdes[] = {
		PLAIN(TEST_BASE - 0x200000000UL, 32),
		PLAIN(TEST_BASE - 0x100000000UL, 32),
		PLAIN(TEST_BASE, 32),
		PLAIN(TEST_BASE + 0x7fffffffUL, 32),
		PLAIN(TEST_BASE + 0x180000000UL, U32_MAX),
		PLAIN(TEST_BASE + 0x280000000UL, 32),
	};
	struct unwind_user_rule rule;
	unsigned int i;

	if (!is_v3(variant))
		SKIP(return, "version 2 has no room for them");

	build(self, variant, fdes, ARRAY_SIZE(fdes));
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	for (i = 0; i < ARRAY_SIZE(fdes); i++) {
		ASSERT_EQ(0, sframe_find_rule(&self->table.sec, fdes[i].start + 4,
					      &rule));
		EXPECT_TRUE(same_rule(&plain_rules[2], &rule));
		EXPECT_EQ(-ENOENT,
			  sframe_find_rule(&self->table.sec, fdes[i].start - 1, &rule));
	}
}

/* Most parts start too far away for the index of parts. */
TEST_F(section, far_parts)
{
	struct unwind_user_rule rule;
	struct test_fde fdes[1000];
	unsigned int i;

	if (!is_v3(variant))
		SKIP(return, "version 2 has no room for them");

	for (i = 0; i < ARRAY_SIZE(fdes); i++)
		fdes[i] = (struct test_fde) PLAIN(TEXT + i * 0x2000000UL, 32);

	build(self, variant, fdes, ARRAY_SIZE(fdes));
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	for (i = 0; i < ARRAY_SIZE(fdes); i++) {
		test_reads.count = 0;
		ASSERT_EQ(0, test_find_rule(&self->table.sec, fdes[i].start + 4,
					    &rule));
		EXPECT_TRUE(same_rule(&plain_rules[2], &rule));
		EXPECT_GE(8, test_reads.count);
		EXPECT_EQ(-ENOENT,
			  test_find_rule(&self->table.sec, fdes[i].start - 1, &rule));
	}
}

/* Starts at the ends of what 64 bits hold, in order, and ends that wrap. */
TEST_F(section, far_too_far)
{
	struct unwind_user_rule rule;
	unsigned int i;

	if (!is_v3(variant))
		SKIP(return, "version 2 has no room for them");

	build_plain(self, variant);
	put_unaligned_le64(S64_MIN, &FDE_V3(&self->table, 0)->start);
	put_unaligned_le64(S64_MAX - 100, &FDE_V3(&self->table, 2)->start);
	put_unaligned_le32(U32_MAX, &FDE_V3(&self->table, 2)->size);
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));

	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + 0x40, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, ~0UL, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, 0, &rule));
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec,
				      TEST_BASE + S64_MAX - 10, &rule));

	/* Near the lowest start, the address minus the offset of the field wraps. */
	for (i = 0; i < 100; i++)
		test_find_rule_user(&self->table.sec, TEST_BASE + (1UL << 63) + i, &rule);

	/* This start wraps when the offset of its field is added. */
	put_unaligned_le64(S64_MAX, &FDE_V3(&self->table, 2)->start);
	EXPECT_EQ(-EINVAL, sframe_section_init(&self->table.sec));
}

/* A section at each end of the address space. */
TEST_F(section, base)
{
	struct unwind_user_rule rule;

	build_plain(self, variant);
	self->table.sec.base = 0;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT - TEST_BASE, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, 0, &rule));

	self->table.sec.base = ~0UL;
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT - TEST_BASE - 1, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, ~0UL, &rule));
}

TEST_HARNESS_MAIN
