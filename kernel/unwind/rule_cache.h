/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules by instruction pointer
 *
 * A profile meets the same return addresses again and again. Finding the rule of
 * one in an unwind table takes a binary search and a scan, in user memory; here
 * it takes one comparison.
 *
 * An address has two places, and a new rule replaces the older one of what is there:
 * with one place a stack of 60 frames would find every eighth one taken by another
 * of its own. Each entry names the section that it was made from, and is of no use
 * when that one has gone. That nothing was found is remembered, too.
 *
 * No locks: a cache belongs to one task. No kernel services: the host's tests and
 * benchmarks use it as it is.
 */
#ifndef _KERNEL_UNWIND_RULE_CACHE_H
#define _KERNEL_UNWIND_RULE_CACHE_H

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/unwind_user_rule.h>

/*
 * 16 KiB in all. Stacks of large programs hold some hundred different return
 * addresses at a time.
 */
#define UNWIND_RULE_CACHE_BITS	8
#define UNWIND_RULE_CACHE_SETS	(1U << UNWIND_RULE_CACHE_BITS)
#define UNWIND_RULE_CACHE_WAYS	2

/* Where a value is: a struct unwind_user_loc in five bytes, four of them @off. */
#define UNWIND_RULE_LOC_BASE	0x07
#define UNWIND_RULE_LOC_DEREF	0x08
#define UNWIND_RULE_LOC_REG	4
#define UNWIND_RULE_REG_MAX	15

/* Flags of an entry. */
#define UNWIND_RULE_OUTERMOST	0x01
#define UNWIND_RULE_SIGNAL	0x02
/* The section has no rule for this address. */
#define UNWIND_RULE_NONE	0x04
#define UNWIND_RULE_CONFINED	0x08
/* The rest of the flags is the hint. */
#define UNWIND_RULE_HINT	4
#define UNWIND_RULE_HINTS	16

/**
 * struct unwind_rule_entry - One remembered rule
 * @ip:		Address that was looked up
 * @section:	Number of the section that the rule is from; 0 if unused
 * @off:	Offsets of CFA, return address and frame pointer
 * @loc:	The rest of the three
 * @flags:	What else there is to say, and where the caller keeps the section
 */
struct unwind_rule_entry {
	u64	ip;
	u64	section;
	s32	off[3];
	u8	loc[3];
	u8	flags;
};

/* Half a cache line: both places of an address are in one. */
static_assert(sizeof(struct unwind_rule_entry) == 32);

/**
 * struct unwind_rule_cache - A cache of rules; all zero when new
 * @sets:	By hash of the address; of each the newer entry first
 */
struct unwind_rule_cache {
	struct unwind_rule_entry sets[UNWIND_RULE_CACHE_SETS][UNWIND_RULE_CACHE_WAYS];
};

/* The two entries that may hold the rule for an address: the newer one first. */
static inline struct unwind_rule_entry *
unwind_rule_cache_set(struct unwind_rule_cache *cache, u64 ip)
{
	/* The upper bits of a product with the golden ratio: the kernel's hash. */
	u64 hash = ip * 0x61c8864680b583ebULL;

	return cache->sets[hash >> (64 - UNWIND_RULE_CACHE_BITS)];
}

static inline void unwind_rule_pack(struct unwind_rule_entry *entry, unsigned int i,
				    const struct unwind_user_loc *loc)
{
	entry->off[i] = loc->off;
	entry->loc[i] = loc->base | (loc->deref ? UNWIND_RULE_LOC_DEREF : 0) |
			loc->reg << UNWIND_RULE_LOC_REG;
}

static inline void unwind_rule_unpack(const struct unwind_rule_entry *entry,
				      unsigned int i, struct unwind_user_loc *loc)
{
	loc->off	= entry->off[i];
	loc->base	= entry->loc[i] & UNWIND_RULE_LOC_BASE;
	loc->reg	= entry->loc[i] >> UNWIND_RULE_LOC_REG;
	loc->deref	= entry->loc[i] & UNWIND_RULE_LOC_DEREF;
}

/**
 * unwind_rule_cache_find - What is known about an address?
 * @cache:	The cache
 * @ip:		The address
 *
 * Return: an entry, of whichever section, or NULL. The caller makes sure that the
 *	   section is still the one that covers @ip.
 */
static inline const struct unwind_rule_entry *
unwind_rule_cache_find(struct unwind_rule_cache *cache, u64 ip)
{
	const struct unwind_rule_entry *set = unwind_rule_cache_set(cache, ip);

	if (likely(set[0].ip == ip && set[0].section))
		return &set[0];
	if (set[1].ip == ip && set[1].section)
		return &set[1];

	return NULL;
}

/**
 * unwind_rule_cache_hint - Where does the caller keep the section of an entry?
 * @entry:	An entry
 *
 * Return: what was given to unwind_rule_cache_put(). Something else may be there
 *	   by now.
 */
static inline unsigned int
unwind_rule_cache_hint(const struct unwind_rule_entry *entry)
{
	return entry->flags >> UNWIND_RULE_HINT;
}

/**
 * unwind_rule_cache_get - The rule of an entry
 * @entry:	An entry
 * @rule:	Receives the rule
 *
 * Return: false if there is none for this address.
 */
static inline bool unwind_rule_cache_get(const struct unwind_rule_entry *entry,
					 struct unwind_user_rule *rule)
{
	if (entry->flags & UNWIND_RULE_NONE)
		return false;

	unwind_rule_unpack(entry, 0, &rule->cfa);
	unwind_rule_unpack(entry, 1, &rule->ra);
	unwind_rule_unpack(entry, 2, &rule->fp);
	rule->outermost	= entry->flags & UNWIND_RULE_OUTERMOST;
	rule->signal	= entry->flags & UNWIND_RULE_SIGNAL;
	rule->confined	= entry->flags & UNWIND_RULE_CONFINED;

	return true;
}

/**
 * unwind_rule_cache_put - Remember a rule
 * @cache:	The cache
 * @ip:		Address that was looked up
 * @section:	Number of the section, not 0
 * @hint:	Where the caller keeps the section, less than %UNWIND_RULE_HINTS
 * @rule:	What was found there, or NULL: nothing
 */
static inline void unwind_rule_cache_put(struct unwind_rule_cache *cache, u64 ip,
					 u64 section, unsigned int hint,
					 const struct unwind_user_rule *rule)
{
	struct unwind_rule_entry *entry = unwind_rule_cache_set(cache, ip);

	/* No reader makes such rules. */
	if (rule && (rule->cfa.reg | rule->ra.reg | rule->fp.reg) > UNWIND_RULE_REG_MAX)
		rule = NULL;

	if (entry->ip != ip)
		entry[1] = entry[0];

	entry->ip = ip;
	entry->section = section;
	entry->flags = hint << UNWIND_RULE_HINT;
	if (!rule) {
		entry->flags |= UNWIND_RULE_NONE;
		return;
	}

	unwind_rule_pack(entry, 0, &rule->cfa);
	unwind_rule_pack(entry, 1, &rule->ra);
	unwind_rule_pack(entry, 2, &rule->fp);
	entry->flags |= (rule->outermost ? UNWIND_RULE_OUTERMOST : 0) |
			(rule->signal ? UNWIND_RULE_SIGNAL : 0) |
			(rule->confined ? UNWIND_RULE_CONFINED : 0);
}

#endif /* _KERNEL_UNWIND_RULE_CACHE_H */
