// SPDX-License-Identifier: GPL-2.0
/*
 * Rules from unwind tables, and what a task remembers of them
 *
 * A table is the section that the file itself has or, for what that does not say,
 * one that a profiler has supplied. The marks of signal frames that the latter may
 * have without a rule are not used: what they lead to is not confined, and the
 * kernel knows its own frames by their code.
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

/*
 * How many bytes below the stack pointer belong to the frame. In epilogues it is
 * there that the frame pointer is found, which has just been popped.
 */
#define UNWIND_USER_RED_ZONE	128

/* How many mappings of code a task remembers to have returned to. */
#define UNWIND_USER_CODES	16

/*
 * How often a mapping is looked up for one frame. Another lookup is necessary if the
 * table that was found goes before a rule is looked up in it.
 */
#define UNWIND_USER_LOOKUPS	8

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
	struct unwind_user_seq		seq;
};

/**
 * struct unwind_user_rules - What a task remembers of unwind tables
 * @cache:	Rules; an allocation of its own, since its size is a power of two
 * @next:	Slot to use next if all are in use
 * @slots:	Sections
 * @stack:	Mapping of the stack that was walked last
 * @codes:	Mappings that confined walks have come through
 * @next_code:	The oldest of them
 *
 * Only touched by the task itself, in task context.
 */
struct unwind_user_rules {
	struct unwind_rule_cache	*cache;
	unsigned int			next;
	struct unwind_user_slot		slots[UNWIND_USER_SLOTS];
	struct unwind_user_mapping	stack;
	struct unwind_user_mapping	codes[UNWIND_USER_CODES];
	unsigned int			next_code;
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
	memset(&rules->stack, 0, sizeof(rules->stack));
	memset(rules->codes, 0, sizeof(rules->codes));
}

static bool unwind_user_in_mapping(const struct unwind_user_mapping *mapping,
				   unsigned long addr)
{
	return addr >= mapping->start && addr < mapping->end &&
	       unwind_user_mm_current(mapping->seq);
}

/**
 * unwind_user_on_stack - May a confined walk read this?
 * @state:	State of the walk, which somebody else's rules confine
 * @addr:	Address, in the stack segment
 * @size:	Number of bytes
 *
 * The stack is what lies between the stack pointer, or the red zone below it, and
 * the end of the mapping that it is in. That is all of what a caller's frame can
 * be in, and nothing that a walk by the program's own rules would not read.
 *
 * Context: As unwind_user_next().
 * Return: true if it is on the stack.
 */
bool unwind_user_on_stack(const struct unwind_user_state *state,
			  unsigned long addr, unsigned int size)
{
	unsigned long sp = state->regs.ss_base + state->regs.sp;
	struct unwind_user_rules *rules = state->rules;
	struct unwind_user_mapping *stack = &rules->stack;

	addr += state->regs.ss_base;

	if (!unwind_user_in_mapping(stack, sp) && !unwind_user_find_stack(sp, stack))
		return false;

	/* Far from both ends of the address space. */
	return addr >= stack->start && addr + UNWIND_USER_RED_ZONE >= sp &&
	       addr < stack->end && size <= stack->end - addr;
}

/**
 * unwind_user_at_code - May a confined walk go on here?
 * @state:	State of the walk, which somebody else's rules confine
 * @ip:		Linear address: a return address, or that of the next instruction
 * @topmost:	It is the latter
 *
 * So that no data of the program is taken for an address and leaves the walk.
 *
 * Context: As unwind_user_next().
 * Return: true if the instruction is in an executable mapping.
 */
bool unwind_user_at_code(const struct unwind_user_state *state, unsigned long ip,
			 bool topmost)
{
	struct unwind_user_rules *rules = state->rules;
	struct unwind_user_mapping *code;
	unsigned int i;

	/* A call may be the last instruction of its mapping. */
	ip -= !topmost;

	for (i = 0; i < UNWIND_USER_CODES; i++) {
		if (unwind_user_in_mapping(&rules->codes[i], ip))
			return true;
	}

	code = &rules->codes[rules->next_code];
	if (!unwind_user_find_code(ip, code))
		return false;

	rules->next_code = (rules->next_code + 1) % UNWIND_USER_CODES;
	return true;
}

/* Is what @slot says of @pc so now? */
static bool unwind_user_slot_covers(const struct unwind_user_slot *slot,
				    unsigned long pc)
{
	return pc >= slot->section.start && pc < slot->section.end &&
	       !slot->section.unread && unwind_user_section_current(&slot->seq);
}

/*
 * A slot for @section: the one that it was in, so that the hints of its rules stay
 * right, else the one of what was there before, one that is not in use, or the
 * one that was taken longest ago.
 */
static struct unwind_user_slot *
unwind_user_new_slot(struct unwind_user_rules *rules,
		     const struct unwind_user_section *section)
{
	struct unwind_user_slot *slot, *free = NULL;
	bool same_range = false;
	unsigned int i;

	for (i = 0; i < UNWIND_USER_SLOTS; i++) {
		slot = &rules->slots[i];
		if (slot->section.id == section->id)
			return slot;

		/* Memory without a file has another number each time. */
		if (slot->section.start == section->start &&
		    slot->section.end == section->end) {
			same_range = true;
			free = slot;
		} else if (!slot->section.id && !same_range) {
			free = slot;
		}
	}

	return free ?: &rules->slots[rules->next++ % UNWIND_USER_SLOTS];
}

/* The section that covers @pc now, or NULL. @again: what is remembered is outdated. */
static struct unwind_user_slot *unwind_user_find_slot(struct unwind_user_rules *rules,
						      unsigned long pc, bool again)
{
	struct unwind_user_section section;
	struct unwind_user_slot *slot;
	struct unwind_user_seq seq;
	unsigned int i;

	for (i = 0; i < UNWIND_USER_SLOTS && !again; i++) {
		slot = &rules->slots[i];
		if (slot->section.id && unwind_user_slot_covers(slot, pc))
			return slot;
	}

	if (unwind_user_section_find(pc, &section, &seq))
		return NULL;

	slot = unwind_user_new_slot(rules, &section);
	slot->section = section;
	slot->seq = seq;

	return slot;
}

/* What the file's own section says of @pc, or the table that was supplied for it. */
static int unwind_user_rule_at(const struct unwind_user_slot *slot, bool supplied,
			       unsigned long pc, struct unwind_user_rule *rule,
			       const char **flaw)
{
	const struct unwind_user_section *section = &slot->section;

	if (!supplied) {
		return section->has_sframe ?
		       sframe_find_rule_or_flaw(&section->sframe, pc, rule, flaw) :
		       -ENOENT;
	}

	return section->table ?
	       unwind_table_find_rule(section->table, pc - section->load_base, rule) :
	       -ENOENT;
}

static int unwind_user_table_rule(const struct unwind_user_state *state,
				  const struct unwind_user_slot *slot, bool supplied,
				  unsigned long pc, struct unwind_user_rule *rule,
				  const char **flaw)
{
	int ret = unwind_user_rule_at(slot, supplied, pc, rule, flaw);

	if (ret != -ENOENT || state->topmost || pc + 1 >= slot->section.end)
		return ret;

	/*
	 * Signal handlers return to the first instruction of a function, which
	 * no call precedes. Only some tables take that into account, as if
	 * there was one.
	 */
	ret = unwind_user_rule_at(slot, supplied, pc + 1, rule, flaw);
	if (ret == -ENODATA || ret == -EINVAL || (!ret && rule->signal))
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
	unsigned int lookups = 0;
	unsigned long pc;
	bool remember = false;
	const char *flaw = "";
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

	do {
		slot = unwind_user_find_slot(rules, pc, lookups);
		if (!slot)
			return UNWIND_USER_RULE_FP;

		ret = unwind_user_table_rule(state, slot, false, pc, rule, &flaw);

		/* A frame that only the kernel's own layout describes. */
		if (ret == -ENODATA)
			return UNWIND_USER_RULE_SIGNAL;

		/* Not for each address anew: a corrupt section takes long. */
		if (ret == -EINVAL &&
		    unwind_user_section_drop(&slot->section, &slot->seq, pc, flaw)) {
			slot->section.id = 0;
			ret = -ESTALE;
			continue;
		}

		/* Memory that cannot be read now may be readable later. */
		remember = ret != -EFAULT && !signal;

		if (ret && slot->section.table) {
			ret = unwind_user_table_rule(state, slot, true, pc, rule,
						     &flaw);
			rule->confined = true;
		}
		/* The section has just been dropped, or the table has gone. */
	} while (ret == -ESTALE && ++lookups < UNWIND_USER_LOOKUPS);

	if (ret == -ESTALE)
		remember = false;

	/*
	 * If mappings have changed since the section was looked up, it may not
	 * have been this section that was read.
	 */
	if (remember && unwind_user_slot_covers(slot, pc))
		unwind_rule_cache_put(rules->cache, key, slot->section.id,
				      slot - rules->slots, ret ? NULL : rule);

	return ret ? UNWIND_USER_RULE_FP : UNWIND_USER_RULE_TABLE;
}
