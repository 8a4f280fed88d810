// SPDX-License-Identifier: GPL-2.0
/*
 * The reader on sections that lie, that cannot be read, or that change meanwhile.
 */
#include "handmade.h"

/* A lookup only uses the last FDE that starts at or before the address. */
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
	EXPECT_EQ(0, test_find_rule_user(&self->table.sec, TEXT + 4, &rule));
	EXPECT_TRUE(same_rule(&plain_rules[2], &rule));
	EXPECT_EQ(0, test_find_rule_user(&self->table.sec, TEXT + 0x10, &rule));
	EXPECT_TRUE(same_rule(&plain_rules[0], &rule));
	EXPECT_EQ(-ENOENT, test_find_rule_user(&self->table.sec, TEXT + 0x20, &rule));
	EXPECT_EQ(-ENOENT, test_find_rule_user(&self->table.sec, TEXT + 0x50, &rule));
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
		ret = test_find_rule_user(&self->table.sec, ip, &rule);
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
	for (i = 3; i < 7; i++)
		EXPECT_WITH(-EOPNOTSUPP, flags, variant->kind.flags | 1 << i);

	/* The section is in kernel memory, as a supplied table is. */
	EXPECT_WITH(is_v3(variant) ? 0 : -EOPNOTSUPP, flags,
		    variant->kind.flags | SFRAME_FLAG_ADD);
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

/* Fields of FDEs that contradict the rest of the section. */
TEST_F(section, fde_lies)
{
	static const u32 numbers[] = {
		14, 100, U16_MAX, U16_MAX + 1, 1U << 31, U32_MAX,
	};
	struct unwind_user_rule rule;
	unsigned int i;
	u32 fre_len;
	/* fre_off of the third FDE. All FDEs together are an array of words. */
	u32 *off;

	build_plain(self, variant);
	fre_len = self->table.header->fre_len;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));

	off = (void *)&self->table.buf[self->table.sec.fdes];
	off += is_v3(variant) ? 2 * 4 + 3 : 2 * 5 + 2;

	/* FREs after the end of their area. */
	put_unaligned_le32(fre_len, off);
	EXPECT_EQ(-EINVAL, test_find_rule_user(&self->table.sec, TEXT + 0x60, &rule));
	put_unaligned_le32(U32_MAX, off);
	EXPECT_EQ(-EINVAL, test_find_rule_user(&self->table.sec, TEXT + 0x60, &rule));
	put_unaligned_le32(-(u32)self->table.sec.fres, off);
	EXPECT_EQ(-EINVAL, test_find_rule_user(&self->table.sec, TEXT + 0x60, &rule));

	/*
	 * Partly after the end, by each number of bytes: nothing past the end is used.
	 */
	for (i = 1; i < 5; i++) {
		put_unaligned_le32(fre_len - i, off);
		EXPECT_NE(0, test_find_rule_user(&self->table.sec, TEXT + 0x7f, &rule));
	}

	/* More FREs than there are. */
	build_plain(self, variant);
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		put_num_fres(self, variant, 2, numbers[i]);
		EXPECT_EQ(-EINVAL, test_find_rule_user(&self->table.sec, TEXT + 0x7f,
						       &rule));
	}
	/* More than the header says that all functions have together. */
	build_plain(self, variant);
	self->table.header->num_fres = plain_fdes[2].num_fres;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(0, test_find_rule_user(&self->table.sec, TEXT + 0x7f, &rule));
	self->table.header->num_fres--;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(-EINVAL, test_find_rule_user(&self->table.sec, TEXT + 0x7f, &rule));

	/* As many as the header says, but more than there are. */
	build_plain(self, variant);
	put_num_fres(self, variant, 2, 5);
	self->table.header->num_fres = U32_MAX;
	ASSERT_EQ(0, sframe_section_init(&self->table.sec));
	EXPECT_EQ(-EINVAL, test_find_rule_user(&self->table.sec, TEXT + 0x7f, &rule));
}

/* Set each byte of a section to each value: lookups only return a result. */
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

/* Whichever read fails, the result is -EFAULT. */
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
	ASSERT_EQ(0, test_find_rule_user(&self->table.sec, TEXT + 31, &rule));
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
			  test_find_rule_user(&self->table.sec, TEXT + 31, &rule));
	}
	test_reads = (struct test_reads) { .fail_at = fail_at };
	EXPECT_EQ(0, test_find_rule_user(&self->table.sec, TEXT + 31, &rule));
}

/* The section changes while it is read: lookups only return a result. */
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
				test_find_rule_user(&self->table.sec, ip, &rule);
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
	EXPECT_EQ(-ENOENT, test_find_rule_user(&self->table.sec, TEXT, &rule));
}

TEST_HARNESS_MAIN
