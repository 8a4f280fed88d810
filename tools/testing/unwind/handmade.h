/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of the tests of the reader with handmade sections.
 *
 * All memory is a block of just the size of the section, so that AddressSanitizer
 * sees a read beyond it.
 */
#ifndef _TEST_UNWIND_HANDMADE_H
#define _TEST_UNWIND_HANDMADE_H

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

/* FDEs, for tests that change their fields. */
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

static inline bool is_v3(const FIXTURE_VARIANT(section) *variant)
{
	return variant->kind.version == SFRAME_VERSION_3;
}

static inline void build(FIXTURE_DATA(section) *self,
			 const FIXTURE_VARIANT(section) *variant,
			 const struct test_fde *fdes, u32 num_fdes)
{
	test_free(&self->table);
	test_build(&self->table, variant->kind, 0, fdes, num_fdes);
}

static inline void build_plain(FIXTURE_DATA(section) *self,
			       const FIXTURE_VARIANT(section) *variant)
{
	build(self, variant, plain_fdes, ARRAY_SIZE(plain_fdes));
}

/* Build a section with one function at TEXT, and look up a rule in it. */
static inline int find_one(FIXTURE_DATA(section) *self,
			   const FIXTURE_VARIANT(section) *variant,
			   const struct test_fde *fde, unsigned long off,
			   struct unwind_user_rule *rule)
{
	int err;

	build(self, variant, fde, 1);
	err = sframe_section_init(&self->table.sec);
	if (err)
		return err;

	return test_find_rule(&self->table.sec, TEXT + off, rule);
}

/* The same for a function with one FRE. */
static inline int find_fre(FIXTURE_DATA(section) *self,
			   const FIXTURE_VARIANT(section) *variant, u8 info2,
			   const struct test_fre *fre, struct unwind_user_rule *rule)
{
	const struct test_fde fde = {
		.start = TEXT, .size = 32, .info2 = info2, .num_fres = 1, .fres = fre,
	};

	return find_one(self, variant, &fde, 0, rule);
}

/* Initialise the section and look up addresses in all functions. */
static inline int try_all(struct test_table *table)
{
	struct unwind_user_rule rule;
	unsigned long ip;
	int ret;

	ret = sframe_section_init(&table->sec);
	if (ret)
		return ret;

	for (ip = TEXT - 2; ip < TEXT + 0x90; ip++) {
		sframe_find_rule(&table->sec, ip, &rule);
		ret = test_find_rule_user(&table->sec, ip, &rule);
		if (ret && ret != -ENOENT && ret != -ENODATA)
			return ret;
	}

	return 0;
}

#endif /* _TEST_UNWIND_HANDMADE_H */
