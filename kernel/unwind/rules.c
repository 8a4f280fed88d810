// SPDX-License-Identifier: GPL-2.0
/*
 * Rules of sections and tables, and what a task remembers of them
 *
 * A rule comes from the file's own section. If that section has no rule, it comes from
 * a table that a profiler supplied. A table may mark signal frames without giving a
 * rule for them. Those marks are not used: they would lead through a signal frame
 * without confining the walk, and the kernel recognizes its own frames by their code.
 *
 * There are two questions for each frame: which region contains this address, and what
 * is the rule there? Both answers are remembered, so in the common case no lookup is
 * needed. A remembered rule names its region by number. The region is valid as long
 * as nothing that the lookup depends on has changed since, see
 * unwind_user_region_current().
 *
 *   mm ----> unwind_user_shared	   see shared.c
 *
 *   task --> unwind_user_rules	   what the task remembers for itself
 *	      `-> unwind_user_bare  code without section or table, if the program
 *				   has none at all
 *
 * The task writes its struct unwind_user_rules during a walk. The owner of
 * unwind_task_info::memory frees it. Interrupts of the task do not use it.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

#include "bare.h"
#include "confine.h"
#include "found.h"
#include "mapping.h"
#include "rules.h"
#include "sframe.h"
#include "shared.h"
#include "subject.h"
#include "tables.h"

/*
 * How often a mapping is looked up for one frame. Another lookup is needed if the
 * section that was found is corrupt, or if the table has been removed since.
 */
#define UNWIND_USER_LOOKUPS	8

/**
 * struct unwind_user_rules - A task's own memory for rules
 * @bare:	Code without section or table; only used while the mm has no
 *		&struct unwind_user_shared
 * @confine:	Where confined walks may go
 *
 * Only used by the task itself, in task context, and by the context that frees it.
 */
struct unwind_user_rules {
	struct unwind_user_bare		*bare;
	struct unwind_user_confine	confine;
};

/**
 * unwind_user_rules_alloc - Allocate a task's own memory for rules
 * @gfp:	How to allocate
 *
 * Context: Task context.
 * Return: the memory, for unwind_user(), or NULL.
 */
struct unwind_user_rules *unwind_user_rules_alloc(gfp_t gfp)
{
	return kzalloc(sizeof(struct unwind_user_rules), gfp);
}

/**
 * unwind_user_rules_free - Free a task's own memory for rules
 * @rules:	From unwind_user_rules_alloc(), or NULL
 *
 * Context: Any. Does not sleep.
 */
void unwind_user_rules_free(struct unwind_user_rules *rules)
{
	if (!rules)
		return;

	kfree(rules->bare);
	kfree(rules);
}

/**
 * unwind_user_rules_reset - Forget everything, because the task gets a new mm
 * @rules:	From unwind_user_rules_alloc()
 *
 * Context: Task context of the task that the memory belongs to.
 */
void unwind_user_rules_reset(struct unwind_user_rules *rules)
{
	kfree(rules->bare);
	memset(rules, 0, sizeof(*rules));
}

/**
 * unwind_user_rules_confine - Get what a task remembers for confined walks
 * @rules:	From unwind_user_rules_alloc(), or NULL
 *
 * Return: the memory, or NULL if @rules is NULL.
 */
struct unwind_user_confine *unwind_user_rules_confine(struct unwind_user_rules *rules)
{
	return rules ? &rules->confine : NULL;
}

/**
 * unwind_user_rules_bare - Get what a task remembers of a program without rules
 * @rules:	From unwind_user_rules_alloc(), or NULL
 *
 * Return: the memory, or NULL if there is none.
 */
const struct unwind_user_bare *unwind_user_rules_bare(const struct unwind_user_rules *rules)
{
	return rules ? rules->bare : NULL;
}

/* Look up the rule for @pc in the file's own section, or in the @supplied table. */
static int unwind_user_rule_at(const struct unwind_user_slot *slot, bool supplied,
			       unsigned long pc, struct unwind_user_rule *rule,
			       const char **flaw)
{
	const struct unwind_user_region *region = &slot->region;

	if (!supplied) {
		return region->has_sframe ?
		       sframe_find_rule_or_flaw(&region->sframe, pc, rule, flaw) :
		       -ENOENT;
	}

	return region->table ?
	       unwind_table_find_rule(region->table, pc - region->load_base, rule) :
	       -ENOENT;
}

static int unwind_user_table_rule(const struct unwind_user_state *state,
				  const struct unwind_user_slot *slot, bool supplied,
				  unsigned long pc, struct unwind_user_rule *rule,
				  const char **flaw)
{
	int ret = unwind_user_rule_at(slot, supplied, pc, rule, flaw);

	if (ret != -ENOENT || state->topmost || pc + 1 >= slot->region.end)
		return ret;

	/*
	 * A signal handler returns to the first instruction of a function, which
	 * does not follow a call. Only some sections and tables cover the byte
	 * before it, too, as if there was a call.
	 */
	ret = unwind_user_rule_at(slot, supplied, pc + 1, rule, flaw);
	if (ret == -ENODATA || ret == -EINVAL || (!ret && rule->signal))
		return ret;

	return -ENOENT;
}

/*
 * Find the remembered rule for @pc.
 *
 * Return: false if nothing is remembered for @pc. Otherwise, @kind receives the return
 *	   value of unwind_user_find_rule().
 */
static bool unwind_user_recall(const struct unwind_user_rules *rules, unsigned long pc,
			       u64 key, struct unwind_user_rule *rule,
			       enum unwind_user_rule_kind *kind)
{
	unsigned int lookups = 1;
	bool found;

	if (unwind_user_shared_find(pc, key, rule, &found, NULL, &lookups)) {
		*kind = found ? UNWIND_USER_RULE_FOUND : UNWIND_USER_RULE_FP;
		return true;
	}

	*kind = UNWIND_USER_RULE_FP;
	return rules->bare && !unwind_user_is_shared() &&
	       unwind_user_bare_find(rules->bare, pc, key & UNWIND_USER_KEY_TOPMOST);
}

/* Find the region that contains @pc. @again: the remembered region is outdated. */
static int unwind_user_find_slot(struct unwind_user_state *state, unsigned long pc,
				 struct unwind_user_slot *slot, bool again)
{
	int ret;

	if (!again && unwind_user_recent_get(pc, slot))
		return 0;

	state->stats.lookups++;
	ret = unwind_user_region_find(pc, &slot->region, &slot->seq);
	if (ret)
		return ret;

	if (slot->region.has_sframe || slot->region.table)
		unwind_user_shared_make();
	if (!slot->region.unread)
		unwind_user_recent_put(slot);

	return 0;
}

/* Is what was read of a region certainly what it has? */
static bool unwind_user_may_remember(const struct unwind_user_slot *slot)
{
	/*
	 * If mappings have changed since the region was looked up, what was read
	 * may not be its section. The barrier orders the reads of the section
	 * before the read of the sequence number, which is written before mappings
	 * change.
	 */
	smp_rmb();
	return !slot->region.unread && unwind_user_mm_unlocked(slot->seq.mm) &&
	       unwind_user_region_current(&slot->seq);
}

/* Remember @rule for @pc. NULL means that there is none. */
static void unwind_user_remember(struct unwind_user_rules *rules,
				 const struct unwind_user_slot *slot, unsigned long pc,
				 u64 key, const struct unwind_user_rule *rule)
{
	if (!unwind_user_may_remember(slot))
		return;

	if (unwind_user_is_shared()) {
		if (unwind_user_shared_put(slot, key, rule))
			unwind_user_shared_grow();
		return;
	}
	if (rule)
		return;

	if (!rules->bare)
		rules->bare = kzalloc(sizeof(*rules->bare), UNWIND_USER_GFP);
	if (rules->bare)
		unwind_user_bare_put(rules->bare, slot, pc,
				     key & UNWIND_USER_KEY_TOPMOST);
}

/* The region that contains @pc, if a walk at hand has found it before; or NULL. */
static struct unwind_user_slot *unwind_user_own_slot(unsigned long pc,
						     struct unwind_user_hand *hand)
{
	struct unwind_user_slot *slot;
	unsigned int i;

	for (i = 0; i < min(hand->nr_slots, UNWIND_USER_HAND_SLOTS); i++) {
		slot = &hand->slots[i];
		if (pc >= slot->region.start && pc < slot->region.end &&
		    unwind_user_region_current(&slot->seq))
			return slot;
	}

	return NULL;
}

/*
 * Find the region that contains @pc, for a walk at hand.
 *
 * Return: 0 and @found, otherwise as unwind_user_region_at_hand().
 */
static int unwind_user_slot_at_hand(unsigned long pc, struct unwind_user_hand *hand,
				    const struct unwind_user_slot **found)
{
	struct unwind_user_slot *slot;
	int ret;

	slot = unwind_user_own_slot(pc, hand);
	if (slot)
		goto out;

	slot = &hand->slots[hand->nr_slots % UNWIND_USER_HAND_SLOTS];
	if (!unwind_user_recent_get(pc, slot)) {
		ret = -EBUSY;
		if (!hand->lookups)
			goto none;

		ret = unwind_user_region_at_hand(pc, &slot->region, &slot->seq);
		hand->lookups = ret == -EBUSY ? 0 : hand->lookups - 1;
		if (!ret && slot->region.unread)
			ret = -EAGAIN;
		if (ret)
			goto none;

		if (!slot->region.early)
			unwind_user_recent_put(slot);
	}
	hand->nr_slots++;
out:
	*found = slot;
	return 0;
none:
	/* It may be half old, half new. */
	slot->region.end = 0;
	return ret;
}

/* As unwind_user_remember(), for the rule of a table. There may be no other walk that does it. */
static void unwind_user_remember_at_hand(struct unwind_user_hand *hand,
					 const struct unwind_user_slot *slot, u64 key,
					 const struct unwind_user_rule *rule)
{
	if (!hand->puts || slot->region.early || !unwind_user_may_remember(slot))
		return;

	hand->puts--;
	if (unwind_user_shared_put(slot, key, rule))
		hand->full = true;
}

/*
 * Find out how a walk at hand can leave the current frame. Rules that walks in task
 * context have remembered are at hand, and those of supplied tables: both are in
 * kernel memory and read without locks. Sections are not: they would have to be
 * searched in user memory.
 */
static enum unwind_user_rule_kind
unwind_user_rule_at_hand(struct unwind_user_state *state, unsigned long pc, u64 key,
			 struct unwind_user_rule *rule)
{
	struct unwind_user_hand *hand = state->hand;
	const struct unwind_user_region *region;
	const struct unwind_user_slot *slot;
	struct unwind_user_bare *bare = NULL;
	int ret, where, err;
	bool found;

	if (state->rules && !unwind_user_is_shared())
		bare = state->rules->bare;

	/*
	 * Nothing is remembered for code without section or table, or not since mappings have
	 * changed. To find that out for each frame would use up the lookups.
	 */
	slot = unwind_user_own_slot(pc, hand);
	if (!(slot && !slot->region.has_sframe && !slot->region.table) &&
	    unwind_user_shared_find(pc, key, rule, &found, slot, &hand->lookups))
		return found ? UNWIND_USER_RULE_FOUND : UNWIND_USER_RULE_FP;

	if (bare && unwind_user_bare_find(bare, pc, state->topmost))
		return UNWIND_USER_RULE_FP;

	ret = arch_unwind_user_at_sigreturn(state);
	if (ret > 0)
		return UNWIND_USER_RULE_SIGNAL;

	/* 32-bit programs have no rules. */
	if (!ret && (arch_unwind_user_compat(state->task) ||
		     (bare && unwind_user_bare_has(bare, pc, state->topmost, true))))
		return UNWIND_USER_RULE_FP;

	/* What a walk by frame pointers finds on the stack may be any number. */
	where = unwind_user_slot_at_hand(pc, hand, &slot);
	if (where == -ENOENT) {
		/* But code that returns from a signal handler may begin a mapping. */
		if (ret && hand->requested &&
		    !unwind_user_is_unmapped(state->regs.cs_base + state->regs.ip))
			goto missed;
		return UNWIND_USER_RULE_FP;
	}

	/*
	 * The file's own section comes before the table. Code that cannot be read may return
	 * from a signal.
	 */
	if (where)
		goto missed;
	region = &slot->region;
	if (region->has_sframe || (ret && !region->table))
		goto missed;

	/* A walk in task context is needed, to look at file and code, and remember the rule. */
	if ((region->early || ret) && !hand->missed)
		hand->missed = pc ?: 1;

	if (!region->table) {
		/* There may be no walk on the way out that would do it. */
		if (bare && !region->early && unwind_user_may_remember(slot))
			unwind_user_bare_put(bare, slot, pc, state->topmost);
		return UNWIND_USER_RULE_FP;
	}

	/* Only the walk in task context makes what tells others that there are rules. */
	if (state->rules && !unwind_user_is_shared())
		goto missed;

	/*
	 * Code that cannot be read is not where a handler returns to, as far as the task's
	 * signal actions tell. They may have been changed since. The byte before such code
	 * belongs to another function, so the code itself must have a rule, too. For
	 * interrupted code, the table is the best guess.
	 */
	if (ret && !state->topmost &&
	    (pc + 1 >= region->end ||
	     unwind_table_find_rule_within(region->table, pc + 1 - region->load_base,
					   rule, &hand->budget) || rule->signal))
		goto missed;

	err = unwind_table_find_rule_within(region->table, pc - region->load_base,
					    rule, &hand->budget);
	if (!err && !(ret && rule->signal)) {
		rule->confined = true;
		if (!ret)
			unwind_user_remember_at_hand(hand, slot, key, rule);
		return UNWIND_USER_RULE_FOUND;
	}

	/* Only the walk in task context looks at the next byte, too. */
	if (err == -ENOENT && state->topmost && !ret) {
		unwind_user_remember_at_hand(hand, slot, key, NULL);
		return UNWIND_USER_RULE_FP;
	}
missed:
	if (!hand->missed)
		hand->missed = pc ?: 1;
	return UNWIND_USER_RULE_FP;
}

/*
 * The same for a walk that may sleep. Walks at hand, which may be in an NMI, have no use for
 * the memory that this needs on the stack.
 */
static noinline enum unwind_user_rule_kind
unwind_user_look_up_rule(struct unwind_user_state *state, unsigned long pc, u64 key,
			 struct unwind_user_rule *rule)
{
	struct unwind_user_rules *rules = state->rules;
	enum unwind_user_rule_kind kind;
	struct unwind_user_slot slot;
	unsigned int lookups = 0;
	bool remember = false;
	const char *flaw = "";
	int signal, ret;

	if (likely(rules) && unwind_user_recall(rules, pc, key, rule, &kind))
		return kind;

	/* Code that calls sigreturn is never remembered, so recalling first is safe. */
	signal = arch_unwind_user_at_sigreturn(state);
	if (signal > 0)
		return UNWIND_USER_RULE_SIGNAL;

	if (unlikely(!rules))
		return UNWIND_USER_RULE_FP;

	if (rules->bare && !unwind_user_is_shared() &&
	    unwind_user_bare_has(rules->bare, pc, state->topmost, !signal))
		return UNWIND_USER_RULE_FP;

	/* The lookups below may take long. */
	cond_resched();
	if (unwind_user_stopped())
		return UNWIND_USER_RULE_FP;

	do {
		if (unwind_user_find_slot(state, pc, &slot, lookups))
			return UNWIND_USER_RULE_FP;

		ret = unwind_user_table_rule(state, &slot, false, pc, rule, &flaw);

		/* A signal trampoline whose frame the section does not describe */
		if (ret == -ENODATA)
			return UNWIND_USER_RULE_SIGNAL;

		/* Drop a corrupt section: to read it for each address takes long. */
		if (ret == -EINVAL &&
		    unwind_user_region_drop(&slot.region, &slot.seq, pc, flaw)) {
			unwind_user_shared_forget(slot.region.id);
			ret = -ESTALE;
			continue;
		}

		/* Memory that cannot be read now may become readable. */
		remember = ret != -EFAULT && !signal;

		if (ret && slot.region.table) {
			ret = unwind_user_table_rule(state, &slot, true, pc, rule,
						     &flaw);
			rule->confined = true;
		}
		/* The section has just been dropped, or the table was removed. */
	} while (ret == -ESTALE && ++lookups < UNWIND_USER_LOOKUPS);

	if (ret == -ESTALE)
		remember = false;

	if (remember)
		unwind_user_remember(rules, &slot, pc, key, ret ? NULL : rule);

	return ret ? UNWIND_USER_RULE_FP : UNWIND_USER_RULE_FOUND;
}

/**
 * unwind_user_find_rule - Find out how the walk can leave the current frame
 * @state:	State of the walk
 * @rule:	Receives the rule of the section or table
 *
 * Context: As unwind_user_next().
 * Return: see &enum unwind_user_rule_kind. Only %UNWIND_USER_RULE_FOUND sets
 *	   @rule.
 */
enum unwind_user_rule_kind
unwind_user_find_rule(struct unwind_user_state *state,
		      struct unwind_user_rule *rule)
{
	unsigned long pc;
	u64 key;

	/* A call may be the last instruction of its function. */
	pc = state->regs.cs_base + state->regs.ip - !state->topmost;
	key = unwind_user_key(pc, state->topmost);

	return unlikely(state->hand) ? unwind_user_rule_at_hand(state, pc, key, rule) :
				       unwind_user_look_up_rule(state, pc, key, rule);
}
