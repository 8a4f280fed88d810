// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include <linux/bitfield.h>
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "builder.h"

static void *test_put(u8 **at, u64 value, u32 size)
{
	u8 *here = *at;
	u32 i;

	for (i = 0; i < size; i++)
		*(*at)++ = value >> 8 * i;

	return here;
}

static u32 test_fres_size(const struct test_fde *fde, bool attr)
{
	u32 i, size = attr ? sizeof(struct sframe_attr_v3) : 0;
	u8 width = fde->info & SFRAME_FDE_ADDR_WIDTH;

	for (i = 0; i < fde->num_fres; i++)
		size += (1 << width) + 1 +
			(fde->fres[i].nr << fde->fres[i].width);

	return size;
}

static void test_put_fres(u8 **at, const struct test_fde *fde)
{
	u8 width = fde->info & SFRAME_FDE_ADDR_WIDTH;
	const struct test_fre *fre;
	u32 i, word;

	for (i = 0; i < fde->num_fres; i++) {
		fre = &fde->fres[i];
		test_put(at, fre->addr, 1 << width);
		test_put(at, (fre->sp ? SFRAME_FRE_CFA_SP : 0) |
			     FIELD_PREP(SFRAME_FRE_WORDS, fre->nr) |
			     FIELD_PREP(SFRAME_FRE_WORD_WIDTH, fre->width) |
			     (fre->mangled ? SFRAME_FRE_MANGLED_RA : 0), 1);
		for (word = 0; word < fre->nr; word++)
			test_put(at, (s64)fre->words[word], 1 << fre->width);
	}
}

/**
 * test_build - Make a section
 * @table:	Receives the section; free it with test_free()
 * @kind:	Flavour of the format
 * @aux_len:	Length of the auxiliary header
 * @fdes:	FDEs, they are not sorted here
 * @num_fdes:	How many
 */
void test_build(struct test_table *table, struct test_kind kind, u8 aux_len,
		const struct test_fde *fdes, u32 num_fdes)
{
	bool v3 = kind.version == SFRAME_VERSION_3;
	u32 fde_size = v3 ? sizeof(struct sframe_fde_v3) :
			    sizeof(struct sframe_fde_v2);
	u32 body = sizeof(struct sframe_header) + aux_len;
	u32 i, num_fres = 0, fre_len = 0, size;
	u8 *at, *fres;
	u64 from;

	for (i = 0; i < num_fdes; i++) {
		fre_len += test_fres_size(&fdes[i], v3);
		num_fres += fdes[i].num_fres;
	}

	size = body + num_fdes * fde_size + fre_len;
	table->buf = malloc(size);
	if (!table->buf)
		abort();

	at = table->buf;
	table->header = (void *)at;
	test_put(&at, SFRAME_MAGIC, sizeof(u16));
	test_put(&at, kind.version, 1);
	test_put(&at, kind.flags, 1);
	test_put(&at, SFRAME_ABI_AMD64, 1);
	test_put(&at, 0, 1);
	test_put(&at, SFRAME_AMD64_RA_OFF, 1);
	test_put(&at, aux_len, 1);
	test_put(&at, num_fdes, sizeof(u32));
	test_put(&at, num_fres, sizeof(u32));
	test_put(&at, fre_len, sizeof(u32));
	test_put(&at, 0, sizeof(u32));
	test_put(&at, num_fdes * fde_size, sizeof(u32));
	memset(at, 0xee, aux_len);
	at += aux_len;

	table->fdes = at;
	table->fres = at + num_fdes * fde_size;
	fres = table->fres;

	for (i = 0; i < num_fdes; i++) {
		from = TEST_BASE;
		if (kind.flags & SFRAME_FLAG_PCREL)
			from += at - table->buf;

		test_put(&at, fdes[i].start - from, v3 ? sizeof(u64) : sizeof(u32));
		test_put(&at, fdes[i].size, sizeof(u32));
		test_put(&at, fres - table->fres, sizeof(u32));
		if (v3) {
			test_put(&fres, fdes[i].num_fres, sizeof(u16));
			test_put(&fres, fdes[i].info, 1);
			test_put(&fres, fdes[i].info2, 1);
			test_put(&fres, fdes[i].rep_size, 1);
		} else {
			test_put(&at, fdes[i].num_fres, sizeof(u32));
			test_put(&at, fdes[i].info, 1);
			test_put(&at, fdes[i].rep_size, 1);
			test_put(&at, 0, sizeof(u16));
		}
		test_put_fres(&fres, &fdes[i]);
	}

	table->sec = (struct sframe_section) {
		.base	= TEST_BASE,
		.size	= size,
		.data	= table->buf,
	};
}

void test_free(struct test_table *table)
{
	free(table->buf);
	table->buf = NULL;
}

static const struct test_fre seed_plain[] = {
	{ .addr = 0, .sp = true, .nr = 1, .words = { 8 } },
	{ .addr = 1, .sp = true, .nr = 2, .words = { 16, -16 } },
	{ .addr = 4, .sp = false, .nr = 2, .words = { 16, -16 } },
	{ .addr = 60, .sp = true, .nr = 1, .words = { 8 } },
};

static const struct test_fre seed_wide[] = {
	{ .addr = 0, .sp = true, .nr = 1, .words = { 8 } },
	{ .addr = 300, .sp = true, .nr = 1, .width = 1, .words = { 1008 } },
	{ .addr = 70000, .sp = true, .nr = 2, .width = 2, .words = { 100008, -16 } },
	{ .addr = 70010 },
};

static const struct test_fre seed_flex[] = {
	{ .addr = 0, .nr = 2, .words = { 0x39, 8 } },
	{ .addr = 5, .nr = 2, .words = { 0x51, 0 } },
	{ .addr = 9, .nr = 5, .words = { 0x33, -24, 0, 0x33, 0 } },
	{ .addr = 20, .nr = 4, .width = 1, .words = { 0x39, 8, 0x29, 0 } },
	{ .addr = 30, .nr = 6, .width = 2, .words = { 0x31, 16, 2, -8, 0x61, 0 } },
	/* Needs SFRAME_FLAG_ADD. */
	{ .addr = 40, .nr = 3, .words = { 0x3f, 24, 8 } },
	{ .addr = 50, .nr = 3, .width = 1, .words = { 0xa3f, 24, 8 } },
};

void test_build_seed(struct test_table *table, unsigned int seed)
{
	static const struct test_kind kinds[] = {
		{ SFRAME_VERSION_2, SFRAME_FLAG_SORTED },
		{ SFRAME_VERSION_2, SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL },
		{ SFRAME_VERSION_3, SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL },
		{ SFRAME_VERSION_3,
		  SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL | SFRAME_FLAG_ADD },
	};
	struct test_kind kind = kinds[seed % ARRAY_SIZE(kinds)];
	bool v3 = kind.version == SFRAME_VERSION_3;
	struct test_fde fdes[100];
	unsigned int i, nr;

	/* Few functions, or enough for several parts and windows. */
	nr = seed < ARRAY_SIZE(kinds) ? 6 : ARRAY_SIZE(fdes);

	for (i = 0; i < nr; i++) {
		fdes[i] = (struct test_fde) {
			.start		= TEST_BASE - 0x100000 + i * 0x80,
			.size		= 0x60,
			.num_fres	= ARRAY_SIZE(seed_plain),
			.fres		= seed_plain,
		};
	}

	fdes[1].info = SFRAME_FDE_MASK;
	fdes[1].rep_size = 16;

	fdes[2].num_fres = 0;
	if (v3) {
		fdes[2].info = SFRAME_FDE_SIGNAL;
		fdes[3].info = SFRAME_FDE_SIGNAL | 1;
		fdes[4].info2 = SFRAME_FDE_FLEX;
		fdes[4].num_fres = ARRAY_SIZE(seed_flex);
		if (!(kind.flags & SFRAME_FLAG_ADD))
			fdes[4].num_fres -= 2;
		fdes[4].fres = seed_flex;
	}

	fdes[nr - 1].size = 80000;
	fdes[nr - 1].info |= 2;
	fdes[nr - 1].num_fres = ARRAY_SIZE(seed_wide);
	fdes[nr - 1].fres = seed_wide;

	test_build(table, kind, seed < ARRAY_SIZE(kinds) ? 0 : 12, fdes, nr);
}

/**
 * test_build_long_seed - Make a section whose last row is to be repeated
 * @table:	Receives the section; free it with test_free()
 * @v3:		In version 3
 * @nr:		How many rows the function says that it has
 *
 * Return: The size of the row.
 */
u32 test_build_long_seed(struct test_table *table, bool v3, u32 nr)
{
	static const struct test_fre fre = {
		.sp = true, .nr = 1, .width = SFRAME_WIDTH_MAX, .words = { 16 },
	};
	const struct test_kind kind = {
		.version	= v3 ? SFRAME_VERSION_3 : SFRAME_VERSION_2,
		.flags		= SFRAME_FLAG_SORTED | (v3 ? SFRAME_FLAG_PCREL : 0),
	};
	const struct test_fde fde = {
		.start = TEST_BASE - 0x100000, .size = 0x60, .info = 1,
		.num_fres = 1, .fres = &fre,
	};
	struct sframe_attr_v3 *attr;
	struct sframe_fde_v2 *v2;

	test_build(table, kind, 0, &fde, 1);
	put_unaligned_le32(nr, &table->header->num_fres);
	if (v3) {
		attr = (void *)table->fres;
		put_unaligned_le16(nr, &attr->num_fres);
	} else {
		v2 = table->fdes;
		put_unaligned_le32(nr, &v2->num_fres);
	}

	return test_fres_size(&fde, false);
}
