// SPDX-License-Identifier: GPL-2.0
/* The cache of rules. */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/limits.h>

#include "rule_cache.h"
#include "rules.h"

/* An address. */
#define TEXT	0x7f0000100000UL

TEST(cache)
{
	static const struct unwind_user_rule rules[] = {
		RULE(LOC_SP(S32_MAX)),
		RULE_FP(LOC_FP(S32_MIN), LOC_AT_CFA(-16)),
		RULE_ALL(LOC_REG(15, -1), LOC_REG(5, 0), LOC_REG(0, 1)),
		RULE_FP(LOC_AT_FP(-8), LOC_AT_FP(0)),
		{ .cfa = LOC_SP(8), .ra = LOC_AT_CFA(-8), .signal = true },
		{ .cfa = LOC_SP(8), .ra = LOC_AT_CFA(-8), .confined = true },
		RULE_OUTERMOST,
	};
	static const struct unwind_user_rule vector = RULE(LOC_REG(17, 0));
	const struct unwind_rule_entry *entry;
	struct unwind_rule_cache *cache;
	struct unwind_user_rule rule;
	unsigned int i, nr = 0;
	unsigned long others[2];
	unsigned long ip;

	cache = calloc(1, sizeof(*cache));
	ASSERT_NE(NULL, cache);

	/* Empty, also for the address zero. */
	EXPECT_EQ(NULL, unwind_rule_cache_find(cache, TEXT));
	EXPECT_EQ(NULL, unwind_rule_cache_find(cache, 0));

	/* What is put is got, and what is newer stays. */
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		unwind_rule_cache_put(cache, TEXT, 1 + i,
				      UNWIND_RULE_HINTS - 1 - i, &rules[i]);
		EXPECT_EQ(NULL, unwind_rule_cache_find(cache, TEXT + 1));
		entry = unwind_rule_cache_find(cache, TEXT);
		ASSERT_NE(NULL, entry);
		EXPECT_EQ(1 + i, entry->section);
		EXPECT_EQ(UNWIND_RULE_HINTS - 1 - i, unwind_rule_cache_hint(entry));
		memset(&rule, 0xff, sizeof(rule));
		ASSERT_TRUE(unwind_rule_cache_get(entry, &rule));
		EXPECT_TRUE(same_rule(&rules[i], &rule))
			TH_LOG("%u: %s", i, show_rule(&rule));
	}

	/* That there is no rule is remembered, too. */
	unwind_rule_cache_put(cache, TEXT, 1, 7, NULL);
	entry = unwind_rule_cache_find(cache, TEXT);
	ASSERT_NE(NULL, entry);
	EXPECT_EQ(7, unwind_rule_cache_hint(entry));
	EXPECT_FALSE(unwind_rule_cache_get(entry, &rule));

	/* A register that has no room in an entry: as if there were no rule. */
	unwind_rule_cache_put(cache, TEXT, 1, 0, &vector);
	entry = unwind_rule_cache_find(cache, TEXT);
	ASSERT_NE(NULL, entry);
	EXPECT_FALSE(unwind_rule_cache_get(entry, &rule));

	/* Of addresses with the same place the two newest stay. */
	for (ip = TEXT + 1; nr < ARRAY_SIZE(others); ip++) {
		if (unwind_rule_cache_set(cache, ip) ==
		    unwind_rule_cache_set(cache, TEXT))
			others[nr++] = ip;
	}
	unwind_rule_cache_put(cache, TEXT, 1, 0, &rules[0]);
	unwind_rule_cache_put(cache, others[0], 1, 0, &rules[1]);
	EXPECT_NE(NULL, unwind_rule_cache_find(cache, TEXT));
	EXPECT_NE(NULL, unwind_rule_cache_find(cache, others[0]));
	unwind_rule_cache_put(cache, others[1], 1, 0, &rules[2]);
	EXPECT_EQ(NULL, unwind_rule_cache_find(cache, TEXT));
	ASSERT_NE(NULL, unwind_rule_cache_find(cache, others[0]));
	ASSERT_NE(NULL, unwind_rule_cache_find(cache, others[1]));

	/* The older one, renewed, displaces no other. */
	unwind_rule_cache_put(cache, others[0], 2, 0, &rules[3]);
	EXPECT_EQ(2, unwind_rule_cache_find(cache, others[0])->section);
	ASSERT_NE(NULL, unwind_rule_cache_find(cache, others[1]));
	ASSERT_TRUE(unwind_rule_cache_get(unwind_rule_cache_find(cache, others[1]),
					  &rule));
	EXPECT_TRUE(same_rule(&rules[2], &rule));

	/* All addresses have a place. */
	for (ip = TEXT; ip < TEXT + 0x10000; ip++) {
		unwind_rule_cache_put(cache, ip, 1, 0, &rules[0]);
		EXPECT_NE(NULL, unwind_rule_cache_find(cache, ip));
	}

	free(cache);
}

TEST_HARNESS_MAIN
