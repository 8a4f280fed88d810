// SPDX-License-Identifier: GPL-2.0
/*
 * Frames whose rules are remembered
 *
 * Nearly all frames of a profile are of code that earlier walks have come through, and
 * have one of a few rules. For those, unwind_user_walk_known() does what
 * unwind_user_next() does, with a fraction of the instructions. At the first frame of
 * another kind it stops, and leaves the state such that unwind_user_next() goes on.
 *
 * It has the same checks, but not for each frame: what only changes if another thread
 * changes mappings is checked once in each call. Such a thread could as well come after
 * the check.
 *
 * It reads what the threads of the program share (see shared.c) under RCU, and memory of
 * the task (see bare.c and confine.c), which the caller has taken. It writes neither.
 */
#include <linux/bits.h>
#include <linux/cleanup.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include <asm/unwind_user.h>

#include "bare.h"
#include "confine.h"
#include "known.h"
#include "memory.h"
#include "rule_brief.h"
#include "rules.h"
#include "shared.h"

/* The hint of a region says in which of these places it is. */
#define UNWIND_KNOWN_REGIONS	8

/**
 * struct unwind_known_region - A region whose rules are valid
 * @region:	Its number and hint, as in &struct unwind_rule_entry; 0 if unused
 * @start:	Its first byte
 * @end:	First byte after it
 */
struct unwind_known_region {
	u64		region;
	unsigned long	start;
	unsigned long	end;
};

/**
 * struct unwind_known_frame - A frame, as in &struct unwind_user_state
 * @ip:		Instruction pointer
 * @sp:		Stack pointer
 * @fp:		Frame pointer
 * @fp_known:	@fp is valid
 */
struct unwind_known_frame {
	unsigned long	ip;
	unsigned long	sp;
	unsigned long	fp;
	bool		fp_known;
};

/**
 * struct unwind_known - What the frames of a walk by rules have in common
 * @shared:	What the threads of the program share
 * @confine:	Where the task's confined walks may go
 * @stack_end:	First byte after the stack of a confined walk; 0 if it is not known
 * @end:	No CFA may be greater
 * @confined:	As in &struct unwind_user_state
 * @code:	Index of the mapping that contains the last return address of a confined
 *		walk
 * @codes:	Bits of those of &unwind_user_confine.codes that are valid
 * @regions:	Regions that have been checked
 */
struct unwind_known {
	const struct unwind_user_shared		*shared;
	const struct unwind_user_confine	*confine;
	unsigned long				stack_end;
	unsigned long				end;
	bool					confined;
	unsigned int				code;
	u32					codes;
	struct unwind_known_region		regions[UNWIND_KNOWN_REGIONS];
};

static_assert(UNWIND_USER_CODES <= 32 && UNWIND_USER_BARES <= 32);

/* The rule for code that nothing is known about: see arch_unwind_user_fp_rule(). */
static const struct unwind_rule_brief unwind_known_fp_rule = {
	.cfa	= ARCH_UNWIND_USER_FP_CFA,
	.fp	= -ARCH_UNWIND_USER_FP_CFA,
	.form	= UNWIND_RULE_COMMON | UNWIND_RULE_BY_FP | UNWIND_RULE_SAVES_FP,
};

/* May the frame with this CFA be left? @end: No CFA is greater */
static __always_inline bool unwind_known_cfa(unsigned long cfa, unsigned long sp,
					     unsigned long end)
{
	return likely(cfa > sp && cfa <= end && IS_ALIGNED(cfa, sizeof(long)));
}

/* May the walk continue at this return address? A uretprobe's has to be replaced. */
static __always_inline bool unwind_known_ra(unsigned long ra, unsigned long trampoline)
{
	return likely(ra - 1 < TASK_SIZE_MAX - 1 && ra != trampoline);
}

/* Where uretprobes let functions return; no address of the program if nowhere */
static unsigned long unwind_known_trampoline(void)
{
#ifdef CONFIG_UPROBES
	return uprobe_get_trampoline_vaddr();
#else
	return 0;
#endif
}

/*
 * The frames of a program without sections and tables, which is walked by frame pointers.
 *
 * Return: the number of @entries. @state describes the next frame. It is marked if the
 *	   words that it needs are not present.
 */
static noinline unsigned int unwind_known_bare(struct unwind_user_state *state,
					       const struct unwind_user_bare *bare,
					       unsigned long *entries, unsigned int max)
{
	unsigned long ip = state->regs.ip, sp = state->regs.sp, fp = state->regs.fp;
	unsigned long trampoline = unwind_known_trampoline();
	unsigned long cfa, ra, saved;
	/* The caller has looked up the interrupted frame. */
	bool found = state->topmost;
	unsigned int nr = 0;
	u32 valid = 0;

	/* The outermost frame has a frame pointer of zero. */
	while (nr < max && fp &&
	       (found || unwind_user_bare_known(bare, ip - 1, &valid))) {
		found = false;
		cfa = fp + ARCH_UNWIND_USER_FP_CFA;
		if (!unwind_known_cfa(cfa, sp, TASK_SIZE_MAX))
			break;
		if (!unwind_user_peek_two(cfa - 2 * sizeof(long), &saved, &ra)) {
			state->absent = true;
			break;
		}
		if (!unwind_known_ra(ra, trampoline))
			break;

		entries[nr++] = ip;
		ip = ra;
		sp = cfa;
		fp = saved;
	}

	state->regs.ip	= ip;
	state->regs.sp	= sp;
	state->regs.fp	= fp;
	state->stats.fp	+= nr;
	if (nr) {
		state->gprs_known = false;
		state->topmost = false;
	}

	return nr;
}

/* Is a rule of @region, a number with its hint, valid at @pc? */
static __always_inline bool unwind_known_covers(struct unwind_known *known, u64 region,
						unsigned long pc)
{
	struct unwind_known_region *checked;

	checked = &known->regions[region % UNWIND_KNOWN_REGIONS];
	if (unlikely(checked->region != region)) {
		checked->region = 0;
		if (!unwind_user_shared_covers(known->shared, region, &checked->start,
					       &checked->end))
			return false;
		checked->region = region;
	}

	return pc >= checked->start && pc < checked->end;
}

/* Find the mapping of code that contains @pc. */
static noinline bool unwind_known_find_code(struct unwind_known *known, unsigned long pc)
{
	const struct unwind_user_mapping *code;
	unsigned int i;

	for (i = 0; i < known->confine->nr_codes; i++) {
		code = &known->confine->codes[i];
		if (pc < code->start || pc >= code->end)
			continue;
		if (!(known->codes & BIT(i)) && !unwind_user_mm_current(code->seq))
			continue;
		known->codes |= BIT(i);
		known->code = i;
		return true;
	}

	return false;
}

/* May a confined walk continue at the return address @ra? */
static __always_inline bool unwind_known_at_code(struct unwind_known *known,
						 unsigned long ra)
{
	const struct unwind_user_mapping *code = &known->confine->codes[known->code];
	unsigned long pc = ra - 1;

	return (pc >= code->start && pc < code->end && known->codes & BIT(known->code)) ||
	       unwind_known_find_code(known, pc);
}

/*
 * Read what the caller needs from the frame at @caller->sp, the CFA.
 *
 * Return: 0; -EFAULT if the return address, or the pair with it, is not present; -EINVAL if
 *	   the frame pointer is not where it usually is.
 */
static __always_inline int unwind_known_load(unsigned long sp,
					     const struct unwind_rule_brief *rule,
					     struct unwind_known_frame *caller)
{
	unsigned long cfa = caller->sp, slot = cfa + rule->fp;

	if (unwind_rule_brief_has_fp(rule)) {
		/* In an epilogue it may be below the stack pointer, where a stack may end. */
		if (unlikely(slot < sp))
			return -EINVAL;

		if (likely(unwind_rule_brief_is_pair(rule)))
			return unwind_user_peek_two(slot, &caller->fp, &caller->ip) ?
			       0 : -EFAULT;

		/* If only this word is not present, the caller can still be found. */
		if (slot >= cfa || !IS_ALIGNED(slot, sizeof(long)) ||
		    !unwind_user_peek_one(slot, &caller->fp))
			return -EINVAL;
	}

	return unwind_user_peek_one(cfa - sizeof(long), &caller->ip) ? 0 : -EFAULT;
}

/*
 * Leave @frame by @rule.
 *
 * Return: as unwind_known_load(); also -EINVAL if the frame has to be left by
 *	   unwind_user_next().
 */
static __always_inline int unwind_known_leave(struct unwind_known *known,
					      struct unwind_known_frame *frame,
					      const struct unwind_rule_brief *rule,
					      unsigned long trampoline)
{
	struct unwind_known_frame caller = *frame;
	int ret;

	if (unwind_rule_brief_from_fp(rule)) {
		/* The outermost frame has none. */
		if (!frame->fp_known || !frame->fp)
			return -EINVAL;
		caller.sp = frame->fp + rule->cfa;
	} else {
		caller.sp = frame->sp + rule->cfa;
	}

	if (!unwind_known_cfa(caller.sp, frame->sp, known->end))
		return -EINVAL;

	ret = unwind_known_load(frame->sp, rule, &caller);
	if (ret)
		return ret;

	if (!unwind_known_ra(caller.ip, trampoline) ||
	    (known->confined && !unwind_known_at_code(known, caller.ip)))
		return -EINVAL;

	caller.fp_known = frame->fp_known || unwind_rule_brief_has_fp(rule);
	*frame = caller;

	return 0;
}

/* The frames of a program with sections or tables; as unwind_known_bare(). */
static noinline unsigned int unwind_known_rules(struct unwind_user_state *state,
						const struct unwind_user_shared *shared,
						unsigned long *entries, unsigned int max)
{
	const struct unwind_rule_cache cache = *unwind_user_shared_cache(shared);
	const struct unwind_user_confine *confine = state->confine;
	unsigned long trampoline = unwind_known_trampoline();
	struct unwind_known_frame frame = {
		.ip		= state->regs.ip,
		.sp		= state->regs.sp,
		.fp		= state->regs.fp,
		.fp_known	= state->fp_known,
	};
	struct unwind_known known = {
		.shared		= shared,
		.confine	= confine,
		.stack_end	= unwind_user_stack_end(confine, frame.sp),
		.confined	= state->confined,
	};
	unsigned int nr = 0, nr_fp = 0, nr_supplied = 0;
	unsigned long pc = frame.ip - !state->topmost, ip;
	u64 key = unwind_user_key(pc, state->topmost);
	struct unwind_rule_brief rule;
	bool confines = false;
	int ret = 0;

	known.end = known.confined ? known.stack_end : TASK_SIZE_MAX;
	while (nr < max && unwind_rule_cache_brief(&cache, key, &rule) &&
	       unwind_known_covers(&known, rule.region, pc)) {
		if (unlikely(unwind_rule_brief_is_none(&rule))) {
			/* In a function that was interrupted, there may be no frame. */
			if (key & UNWIND_USER_KEY_TOPMOST)
				break;
			rule = unwind_known_fp_rule;
			nr_fp++;
		}

		/* The first rule of a table confines the walk, if it is followed. */
		if (unlikely(unwind_rule_brief_confined(&rule) && !known.confined)) {
			confines = true;
			known.confined = true;
			known.end = known.stack_end;
		}

		ip = frame.ip;
		ret = unwind_known_leave(&known, &frame, &rule, trampoline);
		if (unlikely(ret)) {
			nr_fp -= !rule.region;
			known.confined &= !confines;
			break;
		}

		entries[nr++] = ip;
		confines = false;
		nr_supplied += unwind_rule_brief_confined(&rule);
		pc = frame.ip - 1;
		key = pc;
	}

	state->absent = ret == -EFAULT;
	if (!nr)
		return 0;

	state->regs.ip		= frame.ip;
	state->regs.sp		= frame.sp;
	state->regs.fp		= frame.fp;
	state->fp_known		= frame.fp_known;
	state->gprs_known	= false;
	state->topmost		= false;
	state->confined		= known.confined;
	state->stats.fp		+= nr_fp;
	state->stats.table	+= nr - nr_fp;
	state->stats.supplied	+= nr_supplied;

	return nr;
}

/**
 * unwind_user_walk_known - Go on while rules are remembered
 * @state:	State of the walk. On return, it describes the first frame that was not left
 * @entries:	Receives the addresses of the frames that were left
 * @max:	How many frames to leave at most
 *
 * Context: As unwind_user_next(); any if @state is that of a walk at hand.
 * Return: The number of @entries. The walk may go on from there by unwind_user_next().
 */
unsigned int unwind_user_walk_known(struct unwind_user_state *state,
				    unsigned long *entries, unsigned int max)
{
	const struct unwind_user_regs *regs = &state->regs;
	const struct unwind_user_shared *shared;
	const struct unwind_user_bare *bare;
	struct unwind_user_rule rule;
	unsigned int nr;

	state->absent = false;
	/* Without memory for rules, neither sections nor tables are used. */
	if (!state->confine || regs->word_size != sizeof(long) || regs->cs_base || regs->ss_base ||
	    state->suspect || regs->ip >= TASK_SIZE_MAX)
		return 0;

	scoped_guard(rcu) {
		shared = unwind_user_shared_get();
		if (shared) {
			pagefault_disable();
			nr = unwind_known_rules(state, shared, entries, max);
			pagefault_enable();
			return nr;
		}
	}

	bare = unwind_user_rules_bare(state->rules);
	if (!bare || !state->fp_known || state->confined)
		return 0;

	/*
	 * In a function that was interrupted, there may be no frame yet. A walk at hand may
	 * not be able to read the code.
	 */
	if (state->topmost && (!unwind_user_bare_find(bare, regs->ip, true) ||
			       arch_unwind_user_entry_rule(state, &rule) ||
			       (state->hand && unwind_user_lacks_entry(regs->ip))))
		return 0;

	pagefault_disable();
	nr = unwind_known_bare(state, bare, entries, max);
	pagefault_enable();

	return nr;
}
