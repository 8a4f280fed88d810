/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_RULES_H
#define _KERNEL_UNWIND_RULES_H

#include <linux/bits.h>
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

/**
 * enum unwind_user_rule_kind - How the walk can leave a frame
 * @UNWIND_USER_RULE_FP:	By frame pointer: nothing is known about the code
 * @UNWIND_USER_RULE_FOUND:	By a rule of a section or table
 * @UNWIND_USER_RULE_SIGNAL:	By the kernel's signal frame: the code calls sigreturn,
 *				or its section or table says so
 */
enum unwind_user_rule_kind {
	UNWIND_USER_RULE_FP,
	UNWIND_USER_RULE_FOUND,
	UNWIND_USER_RULE_SIGNAL,
};

struct unwind_user_bare;
struct unwind_user_confine;

#ifdef CONFIG_UNWIND_USER_SFRAME

#include "confine.h"
#include "shared.h"
#include "tables.h"

/*
 * How many FREs of supplied tables a walk at hand may read. A function of Debian's
 * programs has 6 in the mean, and large ones some hundreds.
 */
#define UNWIND_USER_HAND_FRES	4096

/*
 * How many regions a walk at hand may look up. Each lookup asks all events that may have
 * tables. What was looked up is remembered, so one for each library of a stack is enough.
 */
#define UNWIND_USER_HAND_LOOKUPS	32

/*
 * How many regions a walk at hand remembers itself. Some are remembered nowhere else, for
 * example if no walk in task context has come through them. Stacks of an interpreter or compiler
 * that runs what it has made lead to and fro between two or three regions.
 */
#define UNWIND_USER_HAND_SLOTS		4

/*
 * How many rules of tables a walk at hand may remember. For each it looks where the region is
 * remembered, among all regions of the program.
 */
#define UNWIND_USER_HAND_PUTS		8

/**
 * struct unwind_user_hand - What a walk at hand needs beside its state
 * @confine:	Where it may go if it is confined, unless the task has memory for that
 * @slots:	Regions of this and earlier frames
 * @nr_slots:	How many were found; they take turns in @slots
 * @budget:	How many FREs it may still read
 * @missed:	The first frame for which a walk in task context may find or remember more,
 *		or 0. Memory of the stack that is not present counts only with @requested
 * @lookups:	How many regions may still be looked up; 0 if somebody holds their lock, perhaps
 *		beneath the walk
 * @puts:	How many rules it may still remember
 * @full:	There should be more room for rules: see unwind_user_shared_grow()
 * @requested:	It is the stack of a request: code has the uprobe that it had then, what is not
 *		present is missed, and the tracepoint unwind_user_walk reports the walk if
 *		nothing was missed
 *
 * Belongs to the walk. It is too large for the stack of an NMI.
 */
struct unwind_user_hand {
	struct unwind_user_confine	confine;
	struct unwind_user_slot		slots[UNWIND_USER_HAND_SLOTS];
	unsigned int			nr_slots;
	u32				budget;
	unsigned long			missed;
	unsigned int			lookups;
	unsigned int			puts;
	bool				full;
	bool				requested;
};

/* In the key of a rule: the frame was interrupted; it did not make a call. */
#define UNWIND_USER_KEY_TOPMOST	BIT_ULL(63)

/*
 * The key of a rule in the cache. A caller that returns to @pc + 1 may be a signal frame. A
 * function that was interrupted at @pc is not.
 */
static inline u64 unwind_user_key(unsigned long pc, bool topmost)
{
	return pc | (topmost ? UNWIND_USER_KEY_TOPMOST : 0);
}

enum unwind_user_rule_kind
unwind_user_find_rule(struct unwind_user_state *state,
		      struct unwind_user_rule *rule);
const struct unwind_user_bare *unwind_user_rules_bare(const struct unwind_user_rules *rules);
struct unwind_user_confine *unwind_user_rules_confine(struct unwind_user_rules *rules);
enum unwind_user_end unwind_user_walk_at_hand(struct unwind_user_hand *hand,
					      const struct unwind_user_regs *regs,
					      const struct unwind_user_gprs *gprs,
					      struct unwind_user_rules *rules,
					      unsigned long *entries,
					      unsigned int max, unsigned int *filled);

#else

static inline enum unwind_user_rule_kind
unwind_user_find_rule(const struct unwind_user_state *state,
		      struct unwind_user_rule *rule)
{
	return arch_unwind_user_at_sigreturn(state) > 0 ? UNWIND_USER_RULE_SIGNAL :
							  UNWIND_USER_RULE_FP;
}

static inline void unwind_tables_begin(void) { }

/* Without tables no walk is confined. */
static inline struct unwind_user_confine *
unwind_user_rules_confine(struct unwind_user_rules *rules)
{
	return NULL;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */

#endif /* _KERNEL_UNWIND_RULES_H */
