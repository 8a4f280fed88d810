/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common rules
 *
 * Nearly all rules of compilers have one of a few forms: the CFA is relative to the stack
 * pointer or the frame pointer, the return address is just below it, and the frame pointer
 * is saved below that, or at another place, or not at all. One word of an entry of the
 * cache of rules says which form it is. So a rule of these forms is used as it is stored.
 *
 * As rule_cache.h, this is also part of host tests and benchmarks.
 */
#ifndef _KERNEL_UNWIND_RULE_BRIEF_H
#define _KERNEL_UNWIND_RULE_BRIEF_H

#include "rule_cache.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define UNWIND_RULE_FORM(cfa, ra, fp, flags)	((cfa) | (ra) << 8 | (fp) << 16 | \
						 (u32)(flags) << 24)
#else
#define UNWIND_RULE_FORM(cfa, ra, fp, flags)	((flags) | (fp) << 8 | (ra) << 16 | \
						 (u32)(cfa) << 24)
#endif

/* The value is in the frame, at an offset from the CFA. */
#define UNWIND_RULE_SLOT	(UNWIND_USER_BASE_CFA | UNWIND_RULE_LOC_DEREF)

/* The bits in which the common forms differ. */
#define UNWIND_RULE_BY_FP	UNWIND_RULE_FORM(UNWIND_USER_BASE_FP ^ UNWIND_USER_BASE_SP, \
						 0, 0, 0)
#define UNWIND_RULE_SAVES_FP	UNWIND_RULE_FORM(0, 0, UNWIND_RULE_SLOT, 0)
#define UNWIND_RULE_BY_TABLE	UNWIND_RULE_FORM(0, 0, 0, UNWIND_RULE_CONFINED)
/* What they have in common */
#define UNWIND_RULE_COMMON	UNWIND_RULE_FORM(UNWIND_USER_BASE_SP, UNWIND_RULE_SLOT, 0, 0)

static_assert((UNWIND_USER_BASE_FP | UNWIND_USER_BASE_SP) == UNWIND_USER_BASE_FP);
static_assert(UNWIND_USER_BASE_SAME == 0);

/**
 * struct unwind_rule_brief - A rule of a common form
 * @region:	As in &struct unwind_rule_entry
 * @cfa:	Offset of the CFA from the frame pointer or the stack pointer
 * @fp:		Offset from the CFA of the saved frame pointer, if it is saved
 * @form:	As in &struct unwind_rule_entry
 *
 * The return address is in the word below the CFA.
 */
struct unwind_rule_brief {
	u64	region;
	s32	cfa;
	s16	fp;
	u32	form;
};

/* There is no rule. */
static inline bool unwind_rule_brief_is_none(const struct unwind_rule_brief *rule)
{
	return rule->form == UNWIND_RULE_FORM(0, 0, 0, UNWIND_RULE_NONE);
}

/* The CFA is relative to the frame pointer, otherwise to the stack pointer. */
static inline bool unwind_rule_brief_from_fp(const struct unwind_rule_brief *rule)
{
	return rule->form & UNWIND_RULE_BY_FP;
}

/* The frame pointer is saved in the frame, otherwise it is that of the caller. */
static inline bool unwind_rule_brief_has_fp(const struct unwind_rule_brief *rule)
{
	return rule->form & UNWIND_RULE_SAVES_FP;
}

/* If it is saved: just below the return address. */
static inline bool unwind_rule_brief_is_pair(const struct unwind_rule_brief *rule)
{
	return rule->fp == -2 * (int)sizeof(long);
}

/* The rule is from a supplied table. */
static inline bool unwind_rule_brief_confined(const struct unwind_rule_brief *rule)
{
	return rule->form & UNWIND_RULE_BY_TABLE;
}

/* Is this a common form? */
static inline bool unwind_rule_is_common(u32 form, s16 ra)
{
	u32 saves = form & UNWIND_RULE_SAVES_FP;

	return (form & ~(UNWIND_RULE_BY_FP | UNWIND_RULE_SAVES_FP | UNWIND_RULE_BY_TABLE)) ==
	       UNWIND_RULE_COMMON && (!saves || saves == UNWIND_RULE_SAVES_FP) &&
	       ra == -(int)sizeof(long);
}

/**
 * unwind_rule_cache_brief - Find a rule that has a common form, or that there is none
 * @cache:	The cache
 * @ip:		The address
 * @rule:	Receives the rule
 *
 * The rule may be for any region, as with unwind_rule_cache_find().
 *
 * Context: Any, including NMI.
 * Return: false if there is no entry, or if its rule has another form.
 */
static __always_inline bool unwind_rule_cache_brief(const struct unwind_rule_cache *cache,
						    u64 ip, struct unwind_rule_brief *rule)
{
	const struct unwind_rule_entry *set = unwind_rule_cache_set(cache, ip);
	const struct unwind_rule_entry *entry = set;
	int seq;
	s16 ra;

	seq = atomic_read(&set->seq);
	/* Pairs with the barrier at D in unwind_rule_cache_add(). */
	smp_rmb();

	if (unlikely(READ_ONCE(entry->ip) != ip)) {
		entry++;
		if (READ_ONCE(entry->ip) != ip)
			return false;
	}

	rule->region	= READ_ONCE(entry->region);
	rule->cfa	= READ_ONCE(entry->cfa);
	rule->fp	= READ_ONCE(entry->fp);
	rule->form	= READ_ONCE(entry->form);
	ra		= READ_ONCE(entry->ra);

	/* B, as in unwind_rule_cache_find() */
	smp_rmb();
	if (unlikely((seq & 1) || atomic_read(&set->seq) != seq) || !rule->region)
		return false;

	return likely(unwind_rule_is_common(rule->form, ra)) ||
	       unwind_rule_brief_is_none(rule);
}

#endif /* _KERNEL_UNWIND_RULE_BRIEF_H */
