// SPDX-License-Identifier: GPL-2.0
/*
 * The reader on sections that no tool writes: corners of the format, and lies.
 *
 * All memory is a block of just the size of the section, so that AddressSanitizer
 * sees a read beyond it.
 */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/unaligned.h>

#include "builder.h"
#include "environment.h"
#include "rules.h"
#include "sframe.h"

/* The functions are here, the section is above. */
#define TEXT		(TEST_BASE - 0x100000)

/* Where the fields are that lies are written to. */
#define FDE_V2(table, i)	(&((struct sframe_fde_v2 *)(table)->fdes)[i])
#define FDE_V3(table, i)	(&((struct sframe_fde_v3 *)(table)->fdes)[i])

static const struct test_fre plain_fres[] = {
	{ .addr = 0, .sp = true, .nr = 1, .words = { 8 } },
	{ .addr = 1, .sp = true, .nr = 2, .words = { 16, -16 } },
	{ .addr = 4, .sp = false, .nr = 2, .words = { 16, -16 } },
	{ .addr = 30, .sp = true, .nr = 1, .words = { 8 } },
};

static const struct unwind_user_rule plain_rules[] = {
	RULE(LOC_SP(8)),
	RULE_FP(LOC_SP(16), LOC_AT_CFA(-16)),
	RULE_FP(LOC_FP(16), LOC_AT_CFA(-16)),
	RULE(LOC_SP(8)),
};

#define PLAIN(_start, _size)	{			\
	.start		= (_start),			\
	.size		= (_size),			\
	.num_fres	= ARRAY_SIZE(plain_fres),	\
	.fres		= plain_fres,			\
}

static const struct test_fde plain_fdes[] = {
	PLAIN(TEXT, 32),
	PLAIN(TEXT + 0x40, 32),
	PLAIN(TEXT + 0x60, 32),
};

FIXTURE(section)
{
	struct test_table table;
};

FIXTURE_VARIANT(section)
{
	struct test_kind kind;
};

FIXTURE_VARIANT_ADD(section, v2)
{
	.kind = { SFRAME_VERSION_2, SFRAME_FLAG_SORTED },
};

FIXTURE_VARIANT_ADD(section, v2_pcrel)
{
	.kind = { SFRAME_VERSION_2, SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL },
};

FIXTURE_VARIANT_ADD(section, v3)
{
	.kind = { SFRAME_VERSION_3, SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL },
};

FIXTURE_SETUP(section)
{
}

FIXTURE_TEARDOWN(section)
{
	test_free(&self->table);
	save_coverage();
}

static bool is_v3(const FIXTURE_VARIANT(section) *variant)
{
	return variant->kind.version == SFRAME_VERSION_3;
}

static void build(FIXTURE_DATA(section) *self,
		  const FIXTURE_VARIANT(section) *variant,
		  const struct test_fde *fdes, u32 num_fdes)
{
	test_free(&self->table);
	test_build(&self->table, variant->kind, 0, fdes, num_fdes);
}

static void build_plain(FIXTURE_DATA(section) *self,
			const FIXTURE_VARIANT(section) *variant)
{
	build(self, variant, plain_fdes, ARRAY_SIZE(plain_fdes));
}

/* A function at TEXT, of 32 bytes; the rule there. */
static int find_one(FIXTURE_DATA(section) *self,
		    const FIXTURE_VARIANT(section) *variant,
		    const struct test_fde *fde, unsigned long off,
		    struct unwind_user_rule *rule)
{
	int err;

	build(self, variant, fde, 1);
	err = sframe_section_init(&self->table.sec);
	if (err)
		return err;

	return sframe_find_rule(&self->table.sec, TEXT + off, rule);
}

/* The same for a function with one FRE. */
static int find_fre(FIXTURE_DATA(section) *self,
		    const FIXTURE_VARIANT(section) *variant, u8 info2,
		    const struct test_fre *fre, struct unwind_user_rule *rule)
{
	const struct test_fde fde = {
		.start = TEXT, .size = 32, .info2 = info2, .num_fres = 1, .fres = fre,
	};

	return find_one(self, variant, &fde, 0, rule);
}

/* Initialise and look up something in all functions: it must just end. */
static int try_all(struct test_table *table)
{
	struct unwind_user_rule rule;
	unsigned long ip;
	int ret;

	ret = sframe_section_init(&table->sec);
	if (ret)
		return ret;

	for (ip = TEXT - 2; ip < TEXT + 0x90; ip++) {
		ret = sframe_find_rule(&table->sec, ip, &rule);
		if (ret && ret != -ENOENT && ret != -ENODATA)
			return ret;
	}

	return 0;
}

TEST_F(section, plain)
{
	struct unwind_user_rule rule;
	unsigned int i, off, fre;

	build_plain(self, variant);
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));

	for (i = 0; i < ARRAY_SIZE(plain_fdes); i++) {
		for (off = 0; off < plain_fdes[i].size; off++) {
			fre = off < 1 ? 0 : off < 4 ? 1 : off < 30 ? 2 : 3;
			ASSERT_EQ(0, sframe_find_rule(&self->table.sec,
						      plain_fdes[i].start + off,
						      &rule));
			EXPECT_TRUE(same_rule(&plain_rules[fre], &rule))
				TH_LOG("%u: %s", off, show_rule(&rule));
		}
	}

	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT - 1, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT + 32, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT + 0x3f, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT + 0x80, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, 0, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, ~0UL, &rule));
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

/* Each number has its rule, so that the neighbour's cannot pass for it. */
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

			/* The parts, and at most 16 * 2^n FDEs in each: two. */
			test_reads.count = 0;
			ASSERT_EQ(0, sframe_find_rule(&self->table.sec, start, &rule));
			EXPECT_EQ(8 * i, rule.cfa.off);
			EXPECT_GE(counts[n] <= 1024 ? 2 : 6, test_reads.count);

			start += fdes[i].size;
			ASSERT_EQ(0, sframe_find_rule(&self->table.sec, start - 1,
						      &rule));
			EXPECT_EQ(8 * i, rule.cfa.off);
			EXPECT_EQ(-ENOENT,
				  sframe_find_rule(&self->table.sec, start, &rule));
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

/* AMD64 has two words at most: the return address is not told. */
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

/* Neither bits of other architectures nor those without a meaning. */
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
		ASSERT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + off, &rule));
		EXPECT_EQ(off % 16 < 11 ? 8 : 16, rule.cfa.off);
	}
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT + 100, &rule));

	fde.rep_size = 1;
	ASSERT_EQ(0, find_one(self, variant, &fde, 99, &rule));
	EXPECT_EQ(8, rule.cfa.off);

	fde.rep_size = 0;
	EXPECT_EQ(-EINVAL, find_one(self, variant, &fde, 0, &rule));
}

/* No rule for a function, and none for how it begins. */
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

/* An FRE behind the function's end never applies, nor does it harm. */
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

/* Of several for one address the last one counts; descending ones are a lie. */
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
 * The last FRE is partly in one chunk and partly in the next, at all its bytes; or
 * in none, because the area ends there.
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
		/* A CFA that counts from itself, or from nothing */
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

/* Most of the parts begin further away than they are remembered. */
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
		ASSERT_EQ(0, sframe_find_rule(&self->table.sec, fdes[i].start + 4,
					      &rule));
		EXPECT_TRUE(same_rule(&plain_rules[2], &rule));
		EXPECT_GE(8, test_reads.count);
		EXPECT_EQ(-ENOENT,
			  sframe_find_rule(&self->table.sec, fdes[i].start - 1, &rule));
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

	/* The lowest start, where the place of the field is more than the address. */
	for (i = 0; i < 100; i++)
		sframe_find_rule(&self->table.sec, TEST_BASE + (1UL << 63) + i, &rule);

	/* With the place of the field this one wraps. */
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

/* The last one that begins before the address is asked, no other. */
TEST_F(section, overlap)
{
	static const struct test_fde fdes[] = {
		PLAIN(TEXT, 0x100),
		PLAIN(TEXT + 0x10, 0x10),
		PLAIN(TEXT + 0x10, 0x20),
		PLAIN(TEXT + 0x20, 0),
	};
	struct unwind_user_rule rule;

	build(self, variant, fdes, ARRAY_SIZE(fdes));
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + 4, &rule));
	EXPECT_TRUE(same_rule(&plain_rules[2], &rule));
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + 0x10, &rule));
	EXPECT_TRUE(same_rule(&plain_rules[0], &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT + 0x20, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT + 0x50, &rule));
}

/* FDEs in no order, with the flag that says they are in order. */
TEST_F(section, unsorted)
{
	struct unwind_user_rule rule;
	struct test_fde fdes[1000];
	unsigned int i, found = 0;
	unsigned long ip, start;
	bool swapped;
	int ret;

	/* Parts are in order, but within each two functions are swapped. */
	for (i = 0; i < ARRAY_SIZE(fdes); i++) {
		swapped = i % 16 == 4 || i % 16 == 5;
		start = TEXT + 0x40 * (swapped ? i ^ 1 : i);
		fdes[i] = (struct test_fde) PLAIN(start, 32);
	}

	build(self, variant, fdes, ARRAY_SIZE(fdes));
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	for (ip = TEXT; ip < TEXT + 0x40 * ARRAY_SIZE(fdes); ip++) {
		test_reads.count = 0;
		ret = sframe_find_rule(&self->table.sec, ip, &rule);
		ASSERT_TRUE(!ret || ret == -ENOENT);
		EXPECT_GE(2, test_reads.count);
		found += !ret;
	}
	/* Those two of each part are missed, nothing else. */
	EXPECT_EQ((ARRAY_SIZE(fdes) - DIV_ROUND_UP(ARRAY_SIZE(fdes), 16) * 2) * 32,
		  found);

	/* Parts out of order are seen. */
	fdes[0].start = TEXT + 0x100000;
	build(self, variant, fdes, ARRAY_SIZE(fdes));
	EXPECT_EQ(-EINVAL, sframe_section_init(&self->table.sec));
}

TEST_F(section, truncated)
{
	void *whole;
	u32 size;

	build_plain(self, variant);
	whole = self->table.buf;

	for (size = 0; size < self->table.sec.size; size++) {
		struct test_table table = self->table;

		/* So that the end is known to the sanitizer. */
		table.buf = malloc(size + !size);
		ASSERT_NE(NULL, table.buf);
		memcpy(table.buf, whole, size);
		table.sec.data = table.buf;
		table.sec.size = size;
		EXPECT_EQ(-EINVAL, sframe_section_init(&table.sec))
			TH_LOG("%u bytes", size);
		free(table.buf);
	}
}

TEST_F(section, size)
{
	build_plain(self, variant);
	self->table.sec.size = SFRAME_SIZE_MAX + 1;
	EXPECT_EQ(-EINVAL, sframe_section_init(&self->table.sec));
	self->table.sec.size = U32_MAX;
	EXPECT_EQ(-EINVAL, sframe_section_init(&self->table.sec));
	/* More than there is, but the reader has no reason to look. */
	self->table.sec.size = SFRAME_SIZE_MAX;
	EXPECT_EQ(0, sframe_section_init(&self->table.sec));
}

/* One field of the header is wrong. */
TEST_F(section, header)
{
	struct sframe_header *header;
	unsigned int i;

	build_plain(self, variant);
	header = self->table.header;

#define EXPECT_WITH(ret, field, value)	do {				\
	typeof(header->field) _saved = header->field;			\
									\
	header->field = (value);					\
	EXPECT_EQ(ret, sframe_section_init(&self->table.sec))		\
		TH_LOG(#field " = %lld", (long long)header->field);	\
	header->field = _saved;						\
} while (0)

	EXPECT_WITH(0, magic, SFRAME_MAGIC);
	EXPECT_WITH(-EINVAL, magic, 0);
	EXPECT_WITH(-EINVAL, magic, SFRAME_MAGIC + 1);
	EXPECT_WITH(-EOPNOTSUPP, magic, 0xe2de);

	for (i = 0; i < 256; i++) {
		if (i != SFRAME_VERSION_2 && i != SFRAME_VERSION_3)
			EXPECT_WITH(-EOPNOTSUPP, version, i);
		if (i != SFRAME_ABI_AMD64)
			EXPECT_WITH(-EOPNOTSUPP, abi, i);
		if ((s8)i != SFRAME_AMD64_RA_OFF)
			EXPECT_WITH(-EINVAL, fixed_ra, i);
		if (i)
			EXPECT_WITH(-EINVAL, fixed_fp, i);
	}

	/* Not sorted, and flags that nobody knows. */
	EXPECT_WITH(-EOPNOTSUPP, flags, variant->kind.flags & ~SFRAME_FLAG_SORTED);
	for (i = 3; i < 8; i++)
		EXPECT_WITH(-EOPNOTSUPP, flags, variant->kind.flags | 1 << i);

	EXPECT_WITH(is_v3(variant) ? -EOPNOTSUPP : 0, flags,
		    variant->kind.flags | SFRAME_FLAG_FRAME_POINTER);
	if (is_v3(variant))
		EXPECT_WITH(-EINVAL, flags, SFRAME_FLAG_SORTED);

	/* The rest does not fit any more. */
	EXPECT_WITH(-EINVAL, aux_len, 1);
	EXPECT_WITH(-EINVAL, aux_len, 255);

	/* Counts and lengths that are too large, some of which wrap. */
	EXPECT_WITH(-EINVAL, num_fdes, header->num_fdes + 1);
	EXPECT_WITH(-EINVAL, num_fdes, U32_MAX);
	EXPECT_WITH(-EINVAL, num_fdes, U32_MAX / 20 + 1);
	EXPECT_WITH(-EINVAL, num_fdes, 1U << 28);
	EXPECT_WITH(-EINVAL, fre_len, header->fre_len + 1);
	EXPECT_WITH(-EINVAL, fre_len, U32_MAX);
	EXPECT_WITH(-EINVAL, fre_len, -(u32)header->fre_off);
	EXPECT_WITH(-EINVAL, fde_off, U32_MAX);
	EXPECT_WITH(-EINVAL, fde_off, -(u32)sizeof(*header));
	EXPECT_WITH(-EINVAL, fde_off, self->table.sec.size);
	EXPECT_WITH(-EINVAL, fre_off, U32_MAX);
	EXPECT_WITH(-EINVAL, fre_off, -(u32)sizeof(*header));
	EXPECT_WITH(-EINVAL, fre_off, header->fre_off + 1);

	/* The areas overlap. */
	EXPECT_WITH(-EINVAL, fde_off, 1);
	EXPECT_WITH(-EINVAL, fre_off, header->fre_off - 1);
	EXPECT_WITH(-EINVAL, fre_off, 0);
}

static void put_num_fres(FIXTURE_DATA(section) *self,
			 const FIXTURE_VARIANT(section) *variant, u32 index, u32 nr)
{
	struct sframe_attr_v3 *attr;

	if (is_v3(variant)) {
		attr = (void *)self->table.fres +
		       get_unaligned_le32(&FDE_V3(&self->table, index)->fre_off);
		put_unaligned_le16(min_t(u32, nr, U16_MAX), &attr->num_fres);
	} else {
		put_unaligned_le32(nr, &FDE_V2(&self->table, index)->num_fres);
	}
}

/* Fields of FDEs that are not what the rest of the section says. */
TEST_F(section, fde_lies)
{
	static const u32 numbers[] = {
		14, 100, U16_MAX, U16_MAX + 1, 1U << 31, U32_MAX,
	};
	struct unwind_user_rule rule;
	unsigned int i;
	u32 fre_len;
	/* One of the FDEs' fields; they are rows of words. */
	u32 *off;

	build_plain(self, variant);
	fre_len = self->table.header->fre_len;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));

	off = (void *)&self->table.buf[self->table.sec.fdes];
	off += is_v3(variant) ? 2 * 4 + 3 : 2 * 5 + 2;

	/* FREs behind the end of their area. */
	put_unaligned_le32(fre_len, off);
	EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + 0x60, &rule));
	put_unaligned_le32(U32_MAX, off);
	EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + 0x60, &rule));
	put_unaligned_le32(-(u32)self->table.sec.fres, off);
	EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + 0x60, &rule));

	/* Partly behind it, at each byte: no more than is there is used. */
	for (i = 1; i < 5; i++) {
		put_unaligned_le32(fre_len - i, off);
		EXPECT_NE(0, sframe_find_rule(&self->table.sec, TEXT + 0x7f, &rule));
	}

	/* More FREs than there are. */
	build_plain(self, variant);
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		put_num_fres(self, variant, 2, numbers[i]);
		EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + 0x7f,
						    &rule));
	}
	/* More than the header says that all functions have together. */
	build_plain(self, variant);
	self->table.header->num_fres = plain_fdes[2].num_fres;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + 0x7f, &rule));
	self->table.header->num_fres--;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + 0x7f, &rule));

	/* As many as the header says, but more than there are. */
	build_plain(self, variant);
	put_num_fres(self, variant, 2, 5);
	self->table.header->num_fres = U32_MAX;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + 0x7f, &rule));
}

/* Each byte of a section has each value. Nothing happens but a result. */
TEST_F(section, every_byte_wrong)
{
	struct sframe_section saved;
	unsigned int value;
	u32 at;
	u8 byte;

	build_plain(self, variant);
	saved = self->table.sec;
	for (at = 0; at < saved.size; at++) {
		byte = self->table.buf[at];
		for (value = 0; value < 256; value++) {
			self->table.buf[at] = value;
			self->table.sec = saved;
			try_all(&self->table);
		}
		self->table.buf[at] = byte;
	}

	self->table.sec = saved;
	EXPECT_EQ(0, try_all(&self->table));
}

/* A read that fails gives that error, whichever it is, and nothing else. */
TEST_F(section, unreadable)
{
	unsigned int fail_at, init_reads, reads;
	struct unwind_user_rule rule;

	/* More FREs than a chunk holds, so that all kinds of reads happen. */
	struct test_fre fres[100] = {};
	struct test_fde fde = {
		.start = TEXT, .size = 32, .num_fres = ARRAY_SIZE(fres), .fres = fres,
	};

	for (fail_at = 0; fail_at < ARRAY_SIZE(fres); fail_at++)
		fres[fail_at] = (struct test_fre) { .sp = true, .nr = 2, .words = { 8 } };

	build(self, variant, &fde, 1);
	test_reads = (struct test_reads) {};
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	init_reads = test_reads.count;
	ASSERT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + 31, &rule));
	reads = test_reads.count - init_reads;
	ASSERT_LT(3, reads);

	for (fail_at = 1; fail_at <= init_reads; fail_at++) {
		test_reads = (struct test_reads) { .fail_at = fail_at };
		EXPECT_EQ(-EFAULT, sframe_section_init(&self->table.sec));
	}

	test_reads = (struct test_reads) {};
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	for (fail_at = 1; fail_at <= reads; fail_at++) {
		test_reads = (struct test_reads) { .fail_at = fail_at };
		EXPECT_EQ(-EFAULT,
			  sframe_find_rule(&self->table.sec, TEXT + 31, &rule));
	}
	test_reads = (struct test_reads) { .fail_at = fail_at };
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + 31, &rule));
}

/* ---- Checking all of a section ------------------------------------------- */

/* Returns as sframe_check_function(), after as many functions as there are. */
static int check_all(struct test_table *table)
{
	struct sframe_check check = {};
	int ret;

	ret = sframe_section_init(&table->sec);
	while (!ret && check.index < table->sec.num_fdes)
		ret = sframe_check_function(&table->sec, &check);

	return ret;
}

static void put_start(FIXTURE_DATA(section) *self,
		      const FIXTURE_VARIANT(section) *variant, u32 i, u64 start)
{
	u64 field = self->table.fdes - (void *)self->table.buf;

	start -= TEST_BASE;
	if (is_v3(variant)) {
		field += i * sizeof(struct sframe_fde_v3);
		put_unaligned_le64(start - field, &FDE_V3(&self->table, i)->start);
		return;
	}

	field += i * sizeof(struct sframe_fde_v2);
	if (variant->kind.flags & SFRAME_FLAG_PCREL)
		start -= field;
	put_unaligned_le32(start, &FDE_V2(&self->table, i)->start);
}

TEST_F(section, check_plain)
{
	build(self, variant, NULL, 0);
	EXPECT_EQ(0, check_all(&self->table));
	build_plain(self, variant);
	EXPECT_EQ(0, check_all(&self->table));
}

/* Enough rows that they are read in several parts. */
TEST_F(section, check_long_function)
{
	struct test_fre fres[300];
	struct test_fde fde = {
		.start = TEXT, .size = 1024, .info = 1,
		.num_fres = ARRAY_SIZE(fres), .fres = fres,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fres); i++) {
		fres[i] = (struct test_fre) {
			.addr = i, .sp = true, .nr = 1 + i % 2, .width = i % 3,
			.words = { 8, -16 },
		};
	}
	build(self, variant, &fde, 1);
	EXPECT_EQ(0, check_all(&self->table));

	/* Wherever it is, the one that is out of order is seen. */
	for (i = 1; i < ARRAY_SIZE(fres); i++) {
		fres[i].addr = i - 2 + (i == 1);
		if (i == 1)
			fres[0].addr = 1;
		build(self, variant, &fde, 1);
		EXPECT_EQ(-EINVAL, check_all(&self->table)) TH_LOG("%u", i);
		fres[i].addr = i;
		fres[0].addr = 0;
	}

	/* So is one that says what has no meaning. */
	for (i = 0; i < ARRAY_SIZE(fres); i++) {
		fres[i].mangled = true;
		build(self, variant, &fde, 1);
		EXPECT_EQ(-EINVAL, check_all(&self->table)) TH_LOG("%u", i);
		fres[i].mangled = false;
	}
}

/*
 * Of rows of 4, 5 and 7 bytes, 7 to 14 bytes can be put together. The size of the
 * next one when so much is left.
 */
static u32 row_size(u32 left)
{
	static const u8 sizes[] = {
		[4] = 4, [5] = 5, [7] = 7, [8] = 4, [9] = 5, [10] = 5, [11] = 7,
		[12] = 7, [13] = 5, [14] = 7,
	};

	return sizes[left];
}

/*
 * Rows that take as many bytes as they may, or more by a byte: lookups say the same
 * as the check, at each address.
 */
TEST_F(section, check_long_rows)
{
	const u32 room = SFRAME_FRES_LEN_MAX;
	/* Two bytes of address, info, one word of four bytes: 65535 are too much. */
	const u32 fre_size = 2 + 1 + 4;
	const u32 nr = room / fre_size;
	struct unwind_user_rule rule;
	struct test_fde fde = {
		.start = TEXT, .size = 0x10000, .info = 1, .num_fres = nr,
	};
	struct test_fre *fres;
	unsigned int i, over;

	fres = calloc(SFRAME_FRES_MAX, sizeof(*fres));
	ASSERT_NE(NULL, fres);
	for (i = 0; i < SFRAME_FRES_MAX; i++) {
		fres[i] = (struct test_fre) {
			.addr = i, .sp = true, .nr = 1, .width = SFRAME_WIDTH_MAX,
			.words = { 16 },
		};
	}
	fde.fres = fres;

	build(self, variant, &fde, 1);
	EXPECT_EQ(0, check_all(&self->table));
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT, &rule));
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + nr - 1, &rule));
	EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + fde.size - 1, &rule));

	/* To the last byte, and a byte more. */
	for (over = 0; over < 2; over++) {
		u32 left = room - (nr - 1) * fre_size + over;

		for (i = nr - 1; left; i++) {
			u32 size = row_size(left);

			fres[i].width = size == 7 ? 2 : size - 4;
			left -= size;
		}
		fde.num_fres = i;
		build(self, variant, &fde, 1);
		EXPECT_EQ(over ? -EINVAL : 0, check_all(&self->table));
		EXPECT_EQ(over ? -EINVAL : 0,
			  sframe_find_rule(&self->table.sec, TEXT + i - 1, &rule));
		EXPECT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + nr - 2, &rule));
	}
	for (i = 0; i < SFRAME_FRES_MAX; i++)
		fres[i].width = SFRAME_WIDTH_MAX;

	/* One more does not fit. */
	fde.num_fres = nr + 1;
	build(self, variant, &fde, 1);
	EXPECT_EQ(-EINVAL, check_all(&self->table));
	EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + nr, &rule));
	EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + fde.size - 1,
					    &rule));

	fde.num_fres = SFRAME_FRES_MAX;
	build(self, variant, &fde, 1);
	EXPECT_EQ(-EINVAL, check_all(&self->table));
	EXPECT_EQ(-EINVAL, sframe_find_rule(&self->table.sec, TEXT + fde.size - 1,
					    &rule));

	free(fres);
}

/* Where a row is comes from the section, so it is masked for each. */
TEST_F(section, masks)
{
	struct unwind_user_rule rule;
	struct test_fre fres[100];
	struct test_fde fde = {
		.start = TEXT, .size = 100, .num_fres = ARRAY_SIZE(fres), .fres = fres,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fres); i++)
		fres[i] = (struct test_fre) { .addr = i, .sp = true, .nr = 1, .words = { 8 } };

	build(self, variant, &fde, 1);
	test_masks = 0;
	ASSERT_EQ(0, check_all(&self->table));
	EXPECT_LE(ARRAY_SIZE(fres), test_masks);

	test_masks = 0;
	ASSERT_EQ(0, sframe_find_rule(&self->table.sec, TEXT + 99, &rule));
	EXPECT_LE(ARRAY_SIZE(fres), test_masks);
}

TEST_F(section, check_order)
{
	unsigned int i;

	/* Lookups only see that the start of a part is not in order. */
	for (i = 1; i < ARRAY_SIZE(plain_fdes); i++) {
		build_plain(self, variant);
		put_start(self, variant, i, plain_fdes[i - 1].start - 1);
		EXPECT_EQ(-EINVAL, check_all(&self->table)) TH_LOG("%u", i);
		put_start(self, variant, i, plain_fdes[i - 1].start);
		EXPECT_EQ(0, check_all(&self->table)) TH_LOG("%u", i);
	}
}

/* Functions may share rows, if the header counts them for each. */
TEST_F(section, check_shared_rows)
{
	u32 first;

	build_plain(self, variant);
	first = is_v3(variant) ? get_unaligned_le32(&FDE_V3(&self->table, 0)->fre_off) :
				 get_unaligned_le32(&FDE_V2(&self->table, 0)->fre_off);
	if (is_v3(variant))
		put_unaligned_le32(first, &FDE_V3(&self->table, 2)->fre_off);
	else
		put_unaligned_le32(first, &FDE_V2(&self->table, 2)->fre_off);
	EXPECT_EQ(0, check_all(&self->table));

	put_unaligned_le32(3 * ARRAY_SIZE(plain_fres) - 1,
			   &self->table.header->num_fres);
	EXPECT_EQ(-EINVAL, check_all(&self->table));
}

/* Rows that are cut off, by any number of bytes. */
TEST_F(section, check_truncated)
{
	u32 len, full;

	build_plain(self, variant);
	full = get_unaligned_le32(&self->table.header->fre_len);
	for (len = 0; len < full; len++) {
		put_unaligned_le32(len, &self->table.header->fre_len);
		EXPECT_EQ(-EINVAL, check_all(&self->table)) TH_LOG("%u", len);
	}
	put_unaligned_le32(full, &self->table.header->fre_len);
	EXPECT_EQ(0, check_all(&self->table));
}

TEST_F(section, check_unreadable)
{
	unsigned int fail_at, reads;

	build_plain(self, variant);
	test_reads = (struct test_reads) {};
	ASSERT_EQ(0, check_all(&self->table));
	reads = test_reads.count;
	ASSERT_LT(ARRAY_SIZE(plain_fdes), reads);

	for (fail_at = 1; fail_at <= reads; fail_at++) {
		test_reads = (struct test_reads) { .fail_at = fail_at };
		EXPECT_EQ(-EFAULT, check_all(&self->table));
	}
	test_reads = (struct test_reads) {};
}

/* The section changes while it is read. Nothing happens but a result. */
TEST_F(section, changing)
{
	struct unwind_user_rule rule;
	unsigned int change_at, change;
	unsigned long ip;

	build_plain(self, variant);
	for (change = 1; change < 256; change++) {
		for (change_at = 1; change_at < 8; change_at++) {
			test_reads = (struct test_reads) {
				.change_at = change_at, .change = change,
			};
			sframe_section_init(&self->table.sec);

			test_reads = (struct test_reads) {};
			ASSERT_EQ(0, sframe_section_init(&self->table.sec));
			for (ip = TEXT; ip < TEXT + 0x80; ip += 4) {
				test_reads = (struct test_reads) {
					.change_at = change_at, .change = change,
				};
				sframe_find_rule(&self->table.sec, ip, &rule);
				EXPECT_GE(10, test_reads.count);
			}
		}
	}

	/* The first FDE of all has moved away: there is nothing in its place. */
	test_reads = (struct test_reads) {};
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	if (is_v3(variant))
		put_unaligned_le64(0, &FDE_V3(&self->table, 0)->start);
	else
		put_unaligned_le32(0, &FDE_V2(&self->table, 0)->start);
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->table.sec, TEXT, &rule));
}

/* What the fuzzer begins with is sound. */
TEST(seeds)
{
	struct test_table table;
	unsigned int seed;

	for (seed = 0; seed < TEST_SEEDS; seed++) {
		test_build_seed(&table, seed);
		EXPECT_EQ(0, try_all(&table)) TH_LOG("%u", seed);
		EXPECT_EQ(0, check_all(&table)) TH_LOG("%u", seed);
		test_free(&table);
	}

	save_coverage();
}

TEST_HARNESS_MAIN
