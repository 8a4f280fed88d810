// SPDX-License-Identifier: GPL-2.0
/*
 * Rules from unwind tables, and what a task remembers of them
 *
 * For each frame there are two questions: which section covers this address, and
 * what does it say. Both answers are kept, per task, so that in the common case
 * neither is asked: a rule that is remembered names its section by number, and
 * the section is good while nothing has been mapped or unmapped since it was
 * last looked up.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

#include "rule_cache.h"
#include "rules.h"
#include "sections.h"
#include "sframe.h"

/*
 * How many sections a task remembers; programs have more, stacks rarely do. A rule
 * tells by its hint which one it is from.
 */
#define UNWIND_USER_SLOTS	UNWIND_RULE_HINTS

/* In the key of a rule: the frame was interrupted, rather than making a call. */
#define UNWIND_USER_KEY_TOPMOST	BIT_ULL(63)

/**
 * struct unwind_user_slot - A section that a walk went through
 * @section:	Copy of what was found; its number is 0 if there is none
 * @seq:	Tells whether it still is what would be found, see
 *		unwind_user_section_current()
 */
struct unwind_user_slot {
	struct unwind_user_section	section;
	unsigned int			seq;
};

/**
 * struct unwind_user_rules - What a task remembers of unwind tables
 * @cache:	Rules; an allocation of its own, since its size is a power of two
 * @next:	Slot to use next if all are in use
 * @slots:	Sections
 *
 * Only touched by the task itself, in task context.
 */
struct unwind_user_rules {
	struct unwind_rule_cache	*cache;
	unsigned int			next;
	struct unwind_user_slot		slots[UNWIND_USER_SLOTS];
};

/**
 * unwind_user_rules_alloc - Allocate what a task remembers
 * @gfp:	How to allocate
 *
 * Context: Task context.
 * Return: the memory, for unwind_user(), or NULL.
 */
struct unwind_user_rules *unwind_user_rules_alloc(gfp_t gfp)
{
	struct unwind_user_rules *rules = kzalloc(sizeof(*rules), gfp);

	if (!rules)
		return NULL;

	rules->cache = kzalloc(sizeof(*rules->cache), gfp);
	if (!rules->cache) {
		kfree(rules);
		return NULL;
	}

	return rules;
}

/**
 * unwind_user_rules_free - Free what a task remembers
 * @rules:	From unwind_user_rules_alloc(), or NULL
 *
 * Context: Task context.
 */
void unwind_user_rules_free(struct unwind_user_rules *rules)
{
	if (!rules)
		return;

	kfree(rules->cache);
	kfree(rules);
}

/**
 * unwind_user_rules_reset - Forget everything: the task gets a new mm
 * @rules:	From unwind_user_rules_alloc()
 *
 * Numbers of sections are unique on the system, so no rule outlives its section.
 *
 * Context: Task context of the task that the memory belongs to.
 */
void unwind_user_rules_reset(struct unwind_user_rules *rules)
{
	memset(rules->slots, 0, sizeof(rules->slots));
}

/* Is what @slot says of @pc so now? */
static bool unwind_user_slot_covers(const struct unwind_user_slot *slot,
				    unsigned long pc)
{
	return pc >= slot->section.start && pc < slot->section.end &&
	       unwind_user_section_current(slot->seq);
}

/*
 * A slot for a section: the one that it was in, so that the hints of its rules stay
 * right, else one that is not in use, or the one that was taken longest ago.
 */
static struct unwind_user_slot *unwind_user_new_slot(struct unwind_user_rules *rules,
						     u64 id)
{
	struct unwind_user_slot *slot, *unused = NULL;
	unsigned int i;

	for (i = 0; i < UNWIND_USER_SLOTS; i++) {
		slot = &rules->slots[i];
		if (slot->section.id == id)
			return slot;
		if (!slot->section.id)
			unused = slot;
	}

	return unused ?: &rules->slots[rules->next++ % UNWIND_USER_SLOTS];
}

/* The section that covers @pc now, or NULL. */
static struct unwind_user_slot *unwind_user_find_slot(struct unwind_user_rules *rules,
						      unsigned long pc)
{
	struct unwind_user_section section;
	struct unwind_user_slot *slot;
	unsigned int seq, i;

	for (i = 0; i < UNWIND_USER_SLOTS; i++) {
		slot = &rules->slots[i];
		if (slot->section.id && unwind_user_slot_covers(slot, pc))
			return slot;
	}

	if (unwind_user_section_find(pc, &section, &seq))
		return NULL;

	slot = unwind_user_new_slot(rules, section.id);
	slot->section = section;
	slot->seq = seq;

	return slot;
}

static int unwind_user_table_rule(const struct unwind_user_state *state,
				  const struct unwind_user_section *section,
				  unsigned long pc, struct unwind_user_rule *rule)
{
	int ret = sframe_find_rule(&section->sframe, pc, rule);

	if (ret != -ENOENT || state->topmost || pc + 1 >= section->end)
		return ret;

	/*
	 * Signal handlers return to the first instruction of a function, which
	 * no call precedes. Only some tables take that into account, as if
	 * there was one.
	 */
	ret = sframe_find_rule(&section->sframe, pc + 1, rule);
	if (ret == -ENODATA || (!ret && rule->signal))
		return ret;

	return -ENOENT;
}

/**
 * unwind_user_find_rule - By what can the current frame be left?
 * @state:	State of the walk
 * @rule:	Receives the rule of an unwind table
 *
 * Context: As unwind_user_next().
 * Return: see &enum unwind_user_rule_kind. Only %UNWIND_USER_RULE_TABLE sets
 *	   @rule.
 */
enum unwind_user_rule_kind
unwind_user_find_rule(const struct unwind_user_state *state,
		      struct unwind_user_rule *rule)
{
	struct unwind_user_rules *rules = state->rules;
	const struct unwind_rule_entry *entry;
	struct unwind_user_slot *slot;
	unsigned long pc;
	int signal, ret;
	u64 key;

	/* A call may be the last instruction of its function. */
	pc = state->regs.cs_base + state->regs.ip - !state->topmost;
	/* What follows a call may be a signal frame, and what is at @pc none. */
	key = pc | (state->topmost ? UNWIND_USER_KEY_TOPMOST : 0);

	if (likely(rules)) {
		entry = unwind_rule_cache_find(rules->cache, key);
		if (entry) {
			slot = &rules->slots[unwind_rule_cache_hint(entry)];
			/* Part of a section may have been registered anew. */
			if (slot->section.id == entry->section &&
			    unwind_user_slot_covers(slot, pc))
				return unwind_rule_cache_get(entry, rule) ?
				       UNWIND_USER_RULE_TABLE : UNWIND_USER_RULE_FP;
		}
	}

	/* Signal frames are not remembered: what is remembered is no such frame. */
	signal = arch_unwind_user_at_sigreturn(state);
	if (signal > 0)
		return UNWIND_USER_RULE_SIGNAL;

	if (unlikely(!rules))
		return UNWIND_USER_RULE_FP;

	/* From here on a frame may take long. */
	cond_resched();
	if (fatal_signal_pending(current))
		return UNWIND_USER_RULE_FP;

	slot = unwind_user_find_slot(rules, pc);
	if (!slot)
		return UNWIND_USER_RULE_FP;

	ret = -ENOENT;
	if (slot->section.has_sframe)
		ret = unwind_user_table_rule(state, &slot->section, pc, rule);

	/* A frame that only the kernel's own layout describes. */
	if (ret == -ENODATA)
		return UNWIND_USER_RULE_SIGNAL;

	if (ret == -EINVAL)
		pr_debug_ratelimited("%s[%d]: SFrame section at 0x%lx lies about 0x%lx\n",
				     current->comm, current->pid,
				     slot->section.sframe.base, pc);

	/* Memory that cannot be read now may be readable later. */
	if (ret != -EFAULT && !signal)
		unwind_rule_cache_put(rules->cache, key, slot->section.id,
				      slot - rules->slots, ret ? NULL : rule);

	return ret ? UNWIND_USER_RULE_FP : UNWIND_USER_RULE_TABLE;
}
