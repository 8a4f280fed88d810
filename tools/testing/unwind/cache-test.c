// SPDX-License-Identifier: GPL-2.0
/* The cache of rules. */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <linux/kernel.h>
#include <linux/limits.h>

#include "rule_cache.h"
#include "rules.h"

/* An address. */
#define TEXT	0x7f0000100000UL

static bool cache_init(struct unwind_rule_cache *cache, unsigned int bits)
{
	cache->bits = bits;
	cache->sets = aligned_alloc(64, unwind_rule_cache_size(bits));
	if (!cache->sets)
		return false;

	memset(cache->sets, 0, unwind_rule_cache_size(bits));
	return true;
}

TEST(cache)
{
	static const struct unwind_user_rule rules[] = {
		RULE(LOC_SP(S32_MAX)),
		RULE_FP(LOC_FP(S32_MIN), LOC_AT_CFA(S16_MIN)),
		RULE_ALL(LOC_FP(16), LOC_AT_CFA(S16_MAX), LOC_AT_CFA(-16)),
		RULE_ALL(LOC_REG(15, -1), LOC_REG(5, 0), LOC_REG(0, 1)),
		RULE_FP(LOC_AT_FP(-8), LOC_AT_FP(0)),
		{ .cfa = LOC_SP(8), .ra = LOC_AT_CFA(-8), .signal = true },
		{ .cfa = LOC_SP(8), .ra = LOC_AT_CFA(-8), .confined = true },
		RULE_ADD(LOC_AT_SP(S16_MAX), S16_MIN, LOC_AT_CFA(-16)),
		RULE_ADD(LOC_AT_FP(S16_MIN), S16_MAX, LOC_SAME),
		RULE_ADD(LOC_AT_SP(0), 8, LOC_SAME),
		RULE(LOC_AT_SP(S32_MAX)),
		RULE_FP(LOC_SP(8), LOC_NONE),
		RULE_OUTERMOST,
	};
	static const struct unwind_user_rule vector = RULE(LOC_REG(17, 0));
	static const struct unwind_user_rule far_ra =
		RULE_ALL(LOC_SP(8), LOC_AT_CFA(S16_MIN - 1), LOC_SAME);
	static const struct unwind_user_rule far_fp =
		RULE_FP(LOC_SP(8), LOC_AT_CFA(S16_MAX + 1));
	static const struct unwind_user_rule far_add =
		RULE_ADD(LOC_AT_SP(8), S16_MAX + 1, LOC_SAME);
	static const struct unwind_user_rule far_cfa =
		RULE_ADD(LOC_AT_SP(S16_MIN - 1), 8, LOC_SAME);
	static const struct unwind_user_rule indexed =
		RULE_INDEX(LOC_AT_SP(8), 9, 8, LOC_SAME);
	struct unwind_rule_cache grown, new = { }, *cache = &new;
	struct unwind_rule_entry copy, *entry = &copy;
	struct unwind_user_rule rule;
	unsigned int i, nr = 0;
	unsigned long others[2];
	unsigned long ip;

	ASSERT_TRUE(cache_init(cache, UNWIND_RULE_CACHE_BITS));

	/* Empty, also for the address zero. */
	EXPECT_FALSE(unwind_rule_cache_find(cache, TEXT, entry));
	EXPECT_FALSE(unwind_rule_cache_find(cache, 0, entry));

	/* A rule that was put is found, and a newer rule replaces it. */
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		EXPECT_FALSE(unwind_rule_cache_put(cache, TEXT, 1 + i,
						   UNWIND_RULE_HINTS - 1 - i, &rules[i]));
		EXPECT_FALSE(unwind_rule_cache_find(cache, TEXT + 1, entry));
		ASSERT_TRUE(unwind_rule_cache_find(cache, TEXT, entry));
		EXPECT_EQ(1 + i, unwind_rule_cache_region(entry));
		EXPECT_EQ(UNWIND_RULE_HINTS - 1 - i, unwind_rule_cache_hint(entry));
		memset(&rule, 0xff, sizeof(rule));
		ASSERT_TRUE(unwind_rule_cache_get(entry, &rule));
		EXPECT_TRUE(same_rule(&rules[i], &rule))
			TH_LOG("%u: %s", i, show_rule(&rule));
	}

	/* That there is no rule is remembered, too. */
	unwind_rule_cache_put(cache, TEXT, 1, 7, NULL);
	ASSERT_TRUE(unwind_rule_cache_find(cache, TEXT, entry));
	EXPECT_EQ(7, unwind_rule_cache_hint(entry));
	EXPECT_FALSE(unwind_rule_cache_get(entry, &rule));

	/* A rule that does not fit into an entry is not remembered, not even in part. */
	unwind_rule_cache_put(cache, TEXT + 1, 1, 0, &vector);
	unwind_rule_cache_put(cache, TEXT + 2, 1, 0, &far_ra);
	unwind_rule_cache_put(cache, TEXT + 3, 1, 0, &far_fp);
	unwind_rule_cache_put(cache, TEXT + 4, 1, 0, &far_add);
	unwind_rule_cache_put(cache, TEXT + 5, 1, 0, &far_cfa);
	unwind_rule_cache_put(cache, TEXT + 6, 1UL << 48, 0, &rules[0]);
	unwind_rule_cache_put(cache, TEXT + 7, 1, 0, &indexed);
	for (i = 1; i < 8; i++)
		EXPECT_FALSE(unwind_rule_cache_find(cache, TEXT + i, entry)) TH_LOG("%u", i);

	/* Of the addresses of one set, the two newest stay. */
	for (ip = TEXT + 1; nr < ARRAY_SIZE(others); ip++) {
		if (unwind_rule_cache_set(cache, ip) ==
		    unwind_rule_cache_set(cache, TEXT))
			others[nr++] = ip;
	}
	EXPECT_FALSE(unwind_rule_cache_put(cache, TEXT, 1, 0, &rules[0]));
	EXPECT_FALSE(unwind_rule_cache_put(cache, others[0], 1, 0, &rules[1]));
	EXPECT_TRUE(unwind_rule_cache_find(cache, TEXT, entry));
	EXPECT_TRUE(unwind_rule_cache_find(cache, others[0], entry));
	EXPECT_TRUE(unwind_rule_cache_put(cache, others[1], 1, 0, &rules[3]));
	EXPECT_FALSE(unwind_rule_cache_find(cache, TEXT, entry));
	ASSERT_TRUE(unwind_rule_cache_find(cache, others[0], entry));
	ASSERT_TRUE(unwind_rule_cache_find(cache, others[1], entry));

	/* A new rule for the older address displaces no other address. */
	EXPECT_FALSE(unwind_rule_cache_put(cache, others[0], 2, 0, &rules[4]));
	ASSERT_TRUE(unwind_rule_cache_find(cache, others[0], entry));
	EXPECT_EQ(2, unwind_rule_cache_region(entry));
	ASSERT_TRUE(unwind_rule_cache_find(cache, others[1], entry));
	ASSERT_TRUE(unwind_rule_cache_get(entry, &rule));
	EXPECT_TRUE(same_rule(&rules[3], &rule));

	/* A larger cache gets all entries of the smaller one. */
	ASSERT_TRUE(cache_init(&grown, UNWIND_RULE_CACHE_BITS + 1));
	unwind_rule_cache_copy(&grown, cache);
	ASSERT_TRUE(unwind_rule_cache_find(&grown, others[0], entry));
	EXPECT_EQ(2, unwind_rule_cache_region(entry));
	ASSERT_TRUE(unwind_rule_cache_find(&grown, others[1], entry));
	ASSERT_TRUE(unwind_rule_cache_get(entry, &rule));
	EXPECT_TRUE(same_rule(&rules[3], &rule));
	free(grown.sets);

	/* All addresses have a place. */
	for (ip = TEXT; ip < TEXT + 0x10000; ip++) {
		unwind_rule_cache_put(cache, ip, 1, 0, &rules[0]);
		EXPECT_TRUE(unwind_rule_cache_find(cache, ip, entry));
	}

	free(cache->sets);
}

/* An interrupt in the middle of a writer finds nothing, or a whole entry. */
TEST(written)
{
	static const struct unwind_user_rule rule = RULE(LOC_SP(16));
	struct unwind_rule_entry entry;
	struct unwind_rule_cache cache;
	atomic_t *seq;

	ASSERT_TRUE(cache_init(&cache, UNWIND_RULE_CACHE_BITS));
	unwind_rule_cache_put(&cache, TEXT, 1, 0, &rule);
	seq = &unwind_rule_cache_set(&cache, TEXT)->seq;

	atomic_set(seq, atomic_read(seq) + 1);
	EXPECT_FALSE(unwind_rule_cache_find(&cache, TEXT, &entry));
	/* Nor does it write there. */
	EXPECT_FALSE(unwind_rule_cache_put(&cache, TEXT, 2, 0, &rule));

	atomic_set(seq, atomic_read(seq) + 1);
	ASSERT_TRUE(unwind_rule_cache_find(&cache, TEXT, &entry));
	EXPECT_EQ(1, unwind_rule_cache_region(&entry));
	free(cache.sets);
}

/*
 * Threads that read and write the same few sets. The contents of an entry must match
 * its address: the number of the region, the hint and each offset are made from it.
 */
#define THREADS		4
#define ADDRESSES	64
#define ROUNDS		400000

struct hammer {
	struct unwind_rule_cache	*cache;
	unsigned int			seed;
	unsigned long			found;
	unsigned long			torn;
};

static u64 hammer_section(u64 ip, unsigned int version)
{
	return (ip & 0xffff) * 8 + version + 1;
}

static void hammer_rule(u64 section, struct unwind_user_rule *rule)
{
	*rule = (struct unwind_user_rule) {
		.cfa		= LOC_SP(section * 3),
		.ra		= LOC_AT_CFA(-(s32)(section & 0x3fff)),
		.fp		= LOC_AT_CFA(section & 0x1fff),
		.signal		= section & 1,
		.confined	= section & 2,
	};
	/* The offset of the CFA is two numbers then. */
	if (section & 4) {
		rule->cfa = LOC_AT_SP(section * 3);
		rule->cfa_add = -(s32)section;
	}
}

static void *hammer(void *arg)
{
	struct hammer *h = arg;
	struct unwind_user_rule rule, want;
	struct unwind_rule_entry entry;
	unsigned int i;
	u64 ip, section;

	for (i = 0; i < ROUNDS; i++) {
		ip = TEXT + rand_r(&h->seed) % ADDRESSES;
		if (i % 4 == 0) {
			section = hammer_section(ip, rand_r(&h->seed) % 8);
			hammer_rule(section, &rule);
			unwind_rule_cache_put(h->cache, ip, section, section & 0xff,
					      &rule);
			continue;
		}
		if (!unwind_rule_cache_find(h->cache, ip, &entry))
			continue;
		h->found++;
		section = unwind_rule_cache_region(&entry);
		hammer_rule(section, &want);
		if (!unwind_rule_cache_get(&entry, &rule) || !same_rule(&rule, &want) ||
		    (section - 1) / 8 != (ip & 0xffff) ||
		    unwind_rule_cache_hint(&entry) != (section & 0xff))
			h->torn++;
	}

	return NULL;
}

TEST(threads)
{
	struct unwind_rule_cache cache;
	struct hammer hammers[THREADS];
	pthread_t threads[THREADS];
	unsigned int i;

	/* Two sets. */
	ASSERT_TRUE(cache_init(&cache, 1));
	for (i = 0; i < THREADS; i++) {
		hammers[i] = (struct hammer) { .cache = &cache, .seed = i };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, hammer, &hammers[i]));
	}
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
		EXPECT_LT(0, hammers[i].found);
		EXPECT_EQ(0, hammers[i].torn);
	}
	free(cache.sets);
}

TEST_HARNESS_MAIN
