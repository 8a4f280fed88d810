// SPDX-License-Identifier: GPL-2.0
/*
 * Check whole sections, as the kernel does with supplied tables.
 */
#include "handmade.h"

/* Check all functions. Returns the first error of sframe_check_function(), or 0. */
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

	/* A row out of order is detected, wherever it is. */
	for (i = 1; i < ARRAY_SIZE(fres); i++) {
		fres[i].addr = i - 2 + (i == 1);
		if (i == 1)
			fres[0].addr = 1;
		build(self, variant, &fde, 1);
		EXPECT_EQ(-EINVAL, check_all(&self->table)) TH_LOG("%u", i);
		fres[i].addr = i;
		fres[0].addr = 0;
	}

	/* So is a row with an invalid bit. */
	for (i = 0; i < ARRAY_SIZE(fres); i++) {
		fres[i].mangled = true;
		build(self, variant, &fde, 1);
		EXPECT_EQ(-EINVAL, check_all(&self->table)) TH_LOG("%u", i);
		fres[i].mangled = false;
	}
}

/*
 * Rows have 4, 5 or 7 bytes. Returns the size of the next row, so that rows fill the
 * @left bytes, 7 to 14 at first, exactly.
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
 * Rows of the largest valid total size, and of one byte more: lookups give the same
 * result as the check.
 */
TEST_F(section, check_long_rows)
{
	const u32 room = SFRAME_FRES_LEN_MAX;
	/*
	 * Two bytes of address, info, one word of four bytes: 65535 rows are too long.
	 */
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

/* The section determines where each row is, so each position is masked. */
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

/* The seeds of the fuzzer are valid. */
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
