// SPDX-License-Identifier: GPL-2.0
/*
 * Unwinder for the user stack of the current task
 *
 * A walk has two layers. For one instruction pointer the lower layer finds a struct
 * unwind_user_rule: where the canonical frame address (CFA), the return address and
 * the saved frame pointer are. The upper layer applies rule after rule, from the
 * interrupted frame outwards. It has the checks that make the walk end on any input:
 * user memory is hostile.
 *
 * From the first supplied rule on, the walk is confined to its stack, see confine.c.
 * Arbitrary words of the stack may look like a signal frame, so a signal frame does
 * not lead such a walk to another stack either; see unwind_user_may_resume().
 *
 * Everything here runs in task context, with interrupts enabled and no lock held. It
 * reads memory of current->mm and may sleep. The exception is a walk at hand, which
 * may run in any context, with page faults disabled.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include <asm/unwind_user.h>

#include "confine.h"
#include "known.h"
#include "mapping.h"
#include "memory.h"
#include "requests.h"
#include "rules.h"
#include "subject.h"

#define CREATE_TRACE_POINTS
#include <trace/events/unwind_user.h>

/* How often a walk may continue on a lower stack. */
#define UNWIND_USER_SWITCHES	4

/* How many signal frames a walk may pass. Handlers nest, but not deeply. */
#define UNWIND_USER_SIGNALS	64

/* Up to here, a word of the stack is a number, such as a length, and not an address of code. */
#define UNWIND_USER_NUMBERS	4096

/* How many frames are walked before other tasks get a chance to run. */
#define UNWIND_USER_RESCHED	64U

/*
 * A walk at hand could not read what a frame is found by, or mappings are changing. A walk
 * that may sleep may find more.
 */
static void unwind_user_frame_missed(const struct unwind_user_state *state)
{
#ifdef CONFIG_UNWIND_USER_SFRAME
	if (state->hand && !state->hand->missed)
		state->hand->missed = state->regs.cs_base + state->regs.ip ?: 1;
#endif
}

/* Is this a walk at hand of the stack of a request? Others need not know what they missed. */
static bool unwind_user_of_request(const struct unwind_user_state *state)
{
#ifdef CONFIG_UNWIND_USER_SFRAME
	return state->hand && state->hand->requested;
#else
	return false;
#endif
}

/* @addr could not be read. If nothing is mapped there, no walk can read it. */
static noinline void unwind_user_unread(const struct unwind_user_state *state,
					unsigned long addr)
{
	if (unwind_user_of_request(state) && !unwind_user_is_unmapped(addr))
		unwind_user_frame_missed(state);
}

/* Read one word of the stack: 8 bytes, or 4 bytes in 32-bit mode. */
static bool unwind_user_read_word(const struct unwind_user_state *state,
				  unsigned long addr, unsigned long *val)
{
	u32 val32;

	if (state->regs.word_size == sizeof(unsigned long)) {
		if (likely(!state->absent) && likely(unwind_user_peek(addr, val)))
			return true;
		if (unwind_user_read_absent(addr, val, sizeof(*val)))
			return true;
		unwind_user_unread(state, addr);
		return false;
	}

	if (!unwind_user_read(addr, &val32, sizeof(val32))) {
		unwind_user_unread(state, addr);
		return false;
	}

	*val = val32;
	return true;
}

/*
 * A uretprobe replaces the return address on the stack by the address of a
 * trampoline. Its instance stores the stack slot, which is the stack pointer at
 * function entry. Instances are matched by slot, not by order, because longjmp() may
 * leave stale ones behind.
 *
 * Only the task changes the list of its instances, in task context. A walk at hand in
 * an NMI may interrupt it, but an instance that can be found is whole, and it is freed
 * only after it was taken off the list. Another task uses a copy.
 */
static unsigned long unwind_user_return_address(const struct unwind_user_state *state,
						unsigned long slot, unsigned long ra)
{
#ifdef CONFIG_UPROBES
	struct uprobe_task *utask = READ_ONCE(current->utask);
	struct return_instance *ri;

	if (unlikely(state->task != current))
		return ra != uprobe_get_trampoline_vaddr() ? ra :
		       unwind_subject_return(current->unwind_info.subject, slot, ra);

	if (likely(!utask || !utask->return_instances) ||
	    ra != uprobe_get_trampoline_vaddr())
		return ra;

	for (ri = READ_ONCE(utask->return_instances); ri; ri = ri->next) {
		if (ri->stack == slot)
			return ri->orig_ret_vaddr;
	}
#endif
	return ra;
}

/*
 * May the walk continue at @ip? It is in an interrupted frame if @topmost is set,
 * otherwise it is a return address.
 */
static bool unwind_user_may_enter(const struct unwind_user_state *state,
				  const struct unwind_user_regs *regs,
				  unsigned long ip, bool topmost)
{
	return likely(!state->confined) ||
	       unwind_user_at_code(state, regs->cs_base + ip, topmost);
}

/*
 * Compute the value that @loc describes in the current frame. @cfa is the frame's
 * CFA. It is not valid while the CFA itself is computed; the rule for the CFA is
 * never relative to the CFA. @index is a part of the address, if the value is in memory.
 */
static __always_inline bool
unwind_user_locate_at(const struct unwind_user_state *state,
		      const struct unwind_user_loc *loc, unsigned long cfa,
		      unsigned long index, unsigned long *val)
{
	const struct unwind_user_regs *regs = &state->regs;

	switch (loc->base) {
	case UNWIND_USER_BASE_CFA:
		*val = cfa;
		break;
	case UNWIND_USER_BASE_SP:
		*val = regs->sp;
		break;
	case UNWIND_USER_BASE_FP:
		if (!state->fp_known)
			return false;
		*val = regs->fp;
		break;
	case UNWIND_USER_BASE_REG:
		if (!state->gprs_known || loc->reg >= UNWIND_USER_NR_GPRS)
			return false;
		*val = state->gprs.reg[loc->reg];
		break;
	default:
		return false;
	}

	*val += loc->off + index;
	if (!loc->deref)
		return true;

	if (!unwind_user_may_load(state, *val, regs->word_size))
		return false;

	/* Registers are offsets into the stack segment. */
	return unwind_user_read_word(state, regs->ss_base + *val, val);
}

static bool unwind_user_locate(const struct unwind_user_state *state,
			       const struct unwind_user_loc *loc,
			       unsigned long cfa, unsigned long *val)
{
	return unwind_user_locate_at(state, loc, cfa, 0, val);
}

/* As unwind_user_locate(). The slot may be behind an array whose length is in a register. */
static bool unwind_user_locate_cfa(const struct unwind_user_state *state,
				   const struct unwind_user_rule *rule, unsigned long *cfa)
{
	unsigned long index = 0;

	if (unlikely(rule->cfa_index)) {
		if (!state->gprs_known || rule->cfa_index > UNWIND_USER_NR_GPRS)
			return false;
		index = state->gprs.reg[rule->cfa_index - 1] * sizeof(u64);
	}

	if (!unwind_user_locate_at(state, &rule->cfa, 0, index, cfa))
		return false;

	*cfa += rule->cfa_add;
	return true;
}

static bool unwind_user_is_slot(const struct unwind_user_loc *loc)
{
	return loc->base == UNWIND_USER_BASE_CFA && loc->deref;
}

/**
 * struct unwind_user_caller - A calling frame, while it is being found
 * @cfa:	Its stack pointer
 * @ra:		The return address into it
 * @fp:		Its frame pointer
 * @fp_known:	@fp was found
 * @switched:	It is on another stack
 */
struct unwind_user_caller {
	unsigned long	cfa;
	unsigned long	ra;
	unsigned long	fp;
	bool		fp_known;
	bool		switched;
};

/*
 * Find the return address and the caller's frame pointer. The frame is valid even if
 * the frame pointer cannot be found.
 */
static bool unwind_user_locate_caller(struct unwind_user_state *state,
				      const struct unwind_user_rule *rule,
				      struct unwind_user_caller *caller)
{
	const int word = state->regs.word_size;
	unsigned long cfa = caller->cfa;

	if (unwind_user_is_slot(&rule->ra) && unwind_user_is_slot(&rule->fp) &&
	    rule->fp.off + word == rule->ra.off && word == sizeof(caller->ra) &&
	    unwind_user_may_load(state, cfa + rule->fp.off, 2 * word)) {
		if (likely(!state->absent) &&
		    likely(unwind_user_peek_pair(cfa + rule->fp.off, &caller->fp,
						 &caller->ra))) {
			caller->fp_known = true;
			return true;
		}
		/* Each fault takes long. */
		state->absent = true;
	}

	/* It may be on the next page. */
	if (!offset_in_page(cfa + rule->ra.off))
		state->absent = false;

	if (!unwind_user_locate(state, &rule->ra, cfa, &caller->ra))
		return false;
	state->absent = false;

	if (rule->fp.base != UNWIND_USER_BASE_SAME)
		caller->fp_known = unwind_user_locate(state, &rule->fp, cfa,
						      &caller->fp);

	return true;
}

static bool unwind_user_from_fp(const struct unwind_user_rule *rule)
{
	return rule->cfa.base == UNWIND_USER_BASE_FP && !rule->cfa.deref;
}

/*
 * Is the CFA above the current frame? The one exception is a function that has
 * popped its return address into a register: its CFA is the stack pointer. Such a
 * function cannot be a caller.
 */
static bool unwind_user_grows(const struct unwind_user_state *state,
			      const struct unwind_user_rule *rule,
			      unsigned long cfa)
{
	if (cfa == state->regs.sp)
		return state->topmost && rule->ra.base == UNWIND_USER_BASE_REG;

	return cfa > state->regs.sp;
}

/*
 * May the walk continue at a CFA that is not above the current frame?
 *
 * Runtimes with their own stacks, such as Go's, run some functions on the thread's
 * stack without changing the frame pointer. It then points to the other stack, which
 * may be the lower one. The walk must not go to an address between the bottom of
 * this stack and the current frame: it has seen those frames and would go in a
 * circle.
 */
static bool unwind_user_may_switch(const struct unwind_user_state *state,
				   const struct unwind_user_rule *rule,
				   unsigned long cfa)
{
	return unwind_user_from_fp(rule) && cfa < state->bottom &&
	       state->switches < UNWIND_USER_SWITCHES;
}

/* As unwind_user_is_absent(), for words that often are no addresses: without an exception */
static bool unwind_user_lacks_code(unsigned long addr)
{
	return !unwind_user_is_unmapped(addr) && unwind_user_is_absent(addr);
}

/*
 * Any data may look like a frame, but a return address must follow a call
 * instruction. The exception is the outermost function, which is entered with a
 * frame pointer of zero. Nobody calls it; the code that made its stack wrote the
 * return address. If that is the first frame that the walk finds on a stack, it proves
 * little: in data, a zero often comes before the address of some code. Then there must
 * be a no-op before the address, and a call at it, as in Go's runtime.
 */
static bool unwind_user_is_return_address(const struct unwind_user_state *state,
					  const struct unwind_user_caller *caller,
					  unsigned long addr)
{
	struct unwind_user_mapping code;
	bool outermost;

	/* To find out that there is no code would take an exception. */
	if (addr <= UNWIND_USER_NUMBERS)
		return false;

	if (arch_unwind_user_after_call(addr))
		return true;

	outermost = caller->fp_known && !caller->fp &&
		    (!caller->switched || arch_unwind_user_after_nop(addr));
	if (outermost && unwind_user_find_code(addr, &code))
		return true;

	/* Mappings may be changing, and code that is not present says nothing. */
	if (unwind_user_of_request(state) &&
	    (outermost || unwind_user_lacks_code(addr - ARCH_UNWIND_USER_CALL_MAX) ||
	     unwind_user_lacks_code(addr - 1) || unwind_user_lacks_code(addr)))
		unwind_user_frame_missed(state);

	return false;
}

/* May the walk continue at the CFA that the rule leads to? */
static bool unwind_user_accept_cfa(const struct unwind_user_state *state,
				   const struct unwind_user_rule *rule,
				   struct unwind_user_caller *caller)
{
	const struct unwind_user_regs *regs = &state->regs;
	unsigned long cfa = caller->cfa;

	if (!IS_ALIGNED(cfa, regs->word_size))
		return false;

	/* It becomes the stack pointer, which says where the stack is. */
	if (!unwind_user_may_load(state, cfa - regs->word_size, regs->word_size))
		return false;

	/* In the red zone there is no frame, and below it nothing may be read. */
	if (unlikely(state->confined) && !unwind_user_grows(state, rule, cfa))
		return false;

	caller->switched = !rule->signal && !unwind_user_grows(state, rule, cfa);
	if (caller->switched && !unwind_user_may_switch(state, rule, cfa))
		return false;

	/* As in unwind_user_leave_signal(). */
	if (rule->signal && state->signals == UNWIND_USER_SIGNALS)
		return false;

	/* A value that does not fit a 32-bit stack pointer is not a 32-bit frame. */
	return regs->word_size != sizeof(u32) || cfa == (u32)cfa;
}

/* May the walk continue at the return address that the rule leads to? */
static bool unwind_user_accept_ra(const struct unwind_user_state *state,
				  const struct unwind_user_rule *rule,
				  const struct unwind_user_caller *caller)
{
	const struct unwind_user_regs *regs = &state->regs;
	unsigned long ra = caller->ra;

	/*
	 * Return only user addresses: consumers use the highest numbers as context
	 * markers.
	 */
	if (regs->cs_base + ra >= TASK_SIZE_MAX)
		return false;

	if (!unwind_user_may_enter(state, regs, ra, rule->signal))
		return false;

	/* After a frame pointer has led to another stack, check return addresses. */
	if (!caller->switched &&
	    (!state->suspect || !unwind_user_from_fp(rule) || rule->signal))
		return true;

	return unwind_user_is_return_address(state, caller, regs->cs_base + ra);
}

static void unwind_user_commit(struct unwind_user_state *state,
			       const struct unwind_user_rule *rule,
			       const struct unwind_user_caller *caller)
{
	struct unwind_user_regs *regs = &state->regs;

	if (caller->switched) {
		state->bottom = caller->cfa;
		state->suspect = true;
		state->switches++;
	} else if (rule->signal) {
		state->bottom = caller->cfa;
		state->suspect = false;
		state->signals++;
	}

	state->absent = false;
	regs->ip = caller->ra;
	regs->sp = caller->cfa;
	regs->fp = caller->fp;
	state->fp_known = caller->fp_known;
	state->gprs_known = false;
	state->topmost = rule->signal;
	state->probed = 0;
}

/*
 * Leave the current frame by @rule: find the calling frame, check whether the walk
 * may go there, and go there.
 *
 * Here and in unwind_user_walk_known() progress is checked: each CFA must be above the previous
 * one, except for signal frames and a few switches to another stack. Those are
 * counted, so a walk cannot go in a circle.
 */
static enum unwind_user_result
unwind_user_apply(struct unwind_user_state *state,
		  const struct unwind_user_rule *rule)
{
	struct unwind_user_caller caller = {
		.fp		= state->regs.fp,
		.fp_known	= state->fp_known,
	};

	/* Permanent: the frame pointer and CFA that the rule yields stay in use. */
	if (unlikely(rule->confined))
		state->confined = true;

	if (rule->outermost)
		return UNWIND_USER_END;

	/* Outermost functions are entered with a frame pointer of zero. */
	if (unwind_user_from_fp(rule) && state->fp_known && !state->regs.fp)
		return UNWIND_USER_END;

	if (!unwind_user_locate_cfa(state, rule, &caller.cfa))
		return UNWIND_USER_CORRUPT;

	if (!unwind_user_accept_cfa(state, rule, &caller))
		return UNWIND_USER_CORRUPT;

	if (!unwind_user_locate_caller(state, rule, &caller))
		return UNWIND_USER_CORRUPT;

	/* Replace it now: the next rule is looked up by the original address. */
	if (unwind_user_is_slot(&rule->ra))
		caller.ra = unwind_user_return_address(state,
						       caller.cfa + rule->ra.off,
						       caller.ra);

	if (!caller.ra)
		return UNWIND_USER_END;

	if (!unwind_user_accept_ra(state, rule, &caller))
		return UNWIND_USER_CORRUPT;

	unwind_user_commit(state, rule, &caller);

	return UNWIND_USER_FRAME;
}

/*
 * May the walk continue at the frame that a signal interrupted?
 *
 * A supplied rule has led a confined walk to this signal frame. Some words of the
 * stack may look like a signal frame, with any address of the program's data in
 * place of the stack pointer. So the walk stays on the stack and goes outwards. It
 * may leave the stack only by a frame that is certainly genuine: the one that the
 * kernel has put on the alternate stack that the task is running on.
 */
static bool unwind_user_may_resume(const struct unwind_user_state *state,
				   const struct unwind_user_regs *regs)
{
	const int word = state->regs.word_size;

	if (likely(!state->confined))
		return true;

	if (regs->ss_base == state->regs.ss_base && regs->sp > state->regs.sp &&
	    unwind_user_on_stack(state, regs->sp - word, word))
		return true;

	return arch_unwind_user_altstack_frame(state);
}

/*
 * Leave a signal frame. The interrupted frame may be anywhere, for example on
 * another stack (sigaltstack), so the CFA starts anew. Forged frames may lead in a
 * circle, so their number is limited.
 */
static enum unwind_user_result
unwind_user_leave_signal(struct unwind_user_state *state,
			 const struct unwind_user_regs *regs,
			 const struct unwind_user_gprs *gprs)
{
	if (state->signals == UNWIND_USER_SIGNALS)
		return UNWIND_USER_CORRUPT;

	if (!unwind_user_may_resume(state, regs) ||
	    !unwind_user_may_enter(state, regs, regs->ip, true))
		return UNWIND_USER_CORRUPT;

	state->regs		= *regs;
	state->gprs		= *gprs;
	state->bottom		= regs->sp;
	state->fp_known		= true;
	state->gprs_known	= true;
	state->suspect		= false;
	state->topmost		= true;
	state->probed		= 0;
	state->signals++;

	return UNWIND_USER_FRAME;
}

/**
 * unwind_user_start - Begin a walk
 * @state:	State to initialise
 * @regs:	Registers of the interrupted frame
 * @gprs:	All general registers, or NULL if they are not known
 * @rules:	Memory for rules, see unwind_user_rules_alloc(), or NULL to walk
 *		without sections and tables
 *
 * Context: Any.
 */
void unwind_user_start(struct unwind_user_state *state,
		       const struct unwind_user_regs *regs,
		       const struct unwind_user_gprs *gprs,
		       struct unwind_user_rules *rules)
{
	state->task		= unwind_user_task();
	state->regs		= *regs;
	state->rules		= rules;
	state->confine		= unwind_user_rules_confine(rules);
	state->stats		= (struct unwind_user_stats) { };
	state->start		= regs->sp;
	state->bottom		= regs->sp;
	state->switches		= 0;
	state->signals		= 0;
	state->fp_known		= true;
	state->gprs_known	= gprs;
	state->suspect		= false;
	state->confined		= false;
	state->topmost		= true;
	state->probed		= state->task->unwind_info.probed;
	state->absent		= false;
	state->hand		= NULL;

	if (gprs)
		state->gprs = *gprs;
}

/*
 * Does the rule need a register that is not known? In a caller, the general
 * registers are not known. While a function calls another one, its CFA is usually
 * relative to the frame pointer. If it is not, the frame pointer is still the best
 * guess.
 */
static bool unwind_user_lacks_gprs(const struct unwind_user_state *state,
				   const struct unwind_user_rule *rule)
{
	return !state->gprs_known && (rule->cfa.base == UNWIND_USER_BASE_REG ||
				      rule->ra.base == UNWIND_USER_BASE_REG ||
				      rule->cfa_index);
}

static enum unwind_user_result
unwind_user_next_fp(struct unwind_user_state *state)
{
	const struct unwind_user_regs *regs = &state->regs;
	enum unwind_user_result ret;
	struct unwind_user_rule rule;
	unsigned long needs;

	/* This rule is a guess. If it does not lead to a frame, it was wrong. */
	if (state->topmost) {
		needs = regs->cs_base + regs->ip;
		if (arch_unwind_user_entry_rule(state, &rule)) {
			needs = regs->ss_base + regs->sp + rule.cfa.off + rule.ra.off;
			ret = unwind_user_apply(state, &rule);
			if (ret == UNWIND_USER_FRAME) {
				state->stats.entry++;
				return ret;
			}
		}
		/* Or the code, or the return address, is not present. */
		if (state->hand && unwind_user_lacks_entry(needs))
			unwind_user_frame_missed(state);
		/* Or where the walk may go was not known, because mappings are changing. */
		if (state->confined && unwind_user_of_request(state))
			unwind_user_frame_missed(state);
	}

	/* This rule reads other words. */
	state->absent = false;
	arch_unwind_user_fp_rule(state, &rule);

	ret = unwind_user_apply(state, &rule);
	if (ret == UNWIND_USER_FRAME)
		state->stats.fp++;

	return ret;
}

/**
 * unwind_user_next - Go from the current frame to its caller
 * @state:	State of the walk
 *
 * A signal frame is recognized by its code. For other code, its section or table
 * says where the caller is. Code that has neither is walked by frame pointer.
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held.
 *	    May sleep.
 * Return: %UNWIND_USER_FRAME if @state now describes the calling frame. The other
 *	   values of &enum unwind_user_result end the walk and leave the registers
 *	   in @state as they were.
 */
enum unwind_user_result unwind_user_next(struct unwind_user_state *state)
{
	enum unwind_user_result ret;
	struct unwind_user_gprs gprs;
	struct unwind_user_regs regs;
	struct unwind_user_rule rule;
	enum unwind_user_rule_kind kind;

	kind = unwind_user_find_rule(state, &rule);

	if (kind == UNWIND_USER_RULE_SIGNAL) {
		if (arch_unwind_user_signal_frame(state, &regs, &gprs))
			return unwind_user_leave_signal(state, &regs, &gprs);
		unwind_user_frame_missed(state);
	}

	if (kind != UNWIND_USER_RULE_FOUND || unwind_user_lacks_gprs(state, &rule))
		return unwind_user_next_fp(state);

	ret = unwind_user_apply(state, &rule);
	if (ret == UNWIND_USER_FRAME) {
		state->stats.table++;
		if (unlikely(rule.confined))
			state->stats.supplied++;
	}

	return ret;
}

/*
 * Store the address of the current frame, and leave the frame.
 *
 * After a jump to nowhere the interrupted instruction pointer may be any number. The
 * caller is still worth having. A walk ends nevertheless, because signal frames are
 * counted.
 */
static enum unwind_user_result unwind_user_step(struct unwind_user_state *state,
						unsigned long *entries, unsigned int *nr)
{
	unsigned long ip = state->regs.cs_base + state->regs.ip;

	if (ip < TASK_SIZE_MAX)
		entries[(*nr)++] = ip;

	return unwind_user_next(state);
}

static const enum unwind_user_end unwind_user_ends[] = {
	[UNWIND_USER_FRAME]	= UNWIND_USER_END_CUT,
	[UNWIND_USER_END]	= UNWIND_USER_END_OUTERMOST,
	[UNWIND_USER_CORRUPT]	= UNWIND_USER_END_BROKEN,
};

/**
 * unwind_user_walk - Walk the whole user stack of the current task
 * @regs:	Registers to start from, see arch_unwind_user_regs()
 * @gprs:	All general registers, or NULL if they are not known
 * @rules:	Memory for rules, or NULL to walk without sections and tables
 * @entries:	Receives the interrupted instruction pointer, unless it is not a user
 *		address, then the return addresses from the innermost to the
 *		outermost frame; linear addresses
 * @max:	Room in @entries
 * @filled:	Receives the number of @entries filled
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held.
 *	    May sleep.
 * Return: Why the walk ended; never %UNWIND_USER_END_NOMEM.
 */
enum unwind_user_end unwind_user_walk(const struct unwind_user_regs *regs,
				      const struct unwind_user_gprs *gprs,
				      struct unwind_user_rules *rules,
				      unsigned long *entries, unsigned int max,
				      unsigned int *filled)
{
	unsigned int nr = 0, known, steps = 0;
	enum unwind_user_result ret = UNWIND_USER_FRAME;
	struct unwind_user_state state;

	might_sleep();

	unwind_user_start(&state, regs, gprs, rules);
	if (rules)
		unwind_tables_begin();

	while (nr < max) {
		known = unwind_user_walk_known(&state, entries + nr,
					       min(max - nr, UNWIND_USER_RESCHED));
		nr += known;
		steps += known + 1;
		if (steps >= UNWIND_USER_RESCHED) {
			steps = 0;
			cond_resched();
			continue;
		}
		if (nr == max)
			break;

		ret = unwind_user_step(&state, entries, &nr);
		if (ret != UNWIND_USER_FRAME)
			break;
	}

	trace_unwind_user_walk(regs->ip, nr, &state, ret);
	*filled = nr;

	return unwind_user_ends[ret];
}

#ifdef CONFIG_UNWIND_USER_SFRAME
/**
 * unwind_user_walk_at_hand - Walk the user stack with what is at hand
 * @hand:	Memory for this walk
 * @regs:	As for unwind_user_walk()
 * @gprs:	As for unwind_user_walk()
 * @rules:	Memory of current for rules, if the caller has taken it, or NULL
 * @entries:	As for unwind_user_walk()
 * @max:	As for unwind_user_walk()
 * @filled:	As for unwind_user_walk()
 *
 * Reads memory that is present, rules that walks in task context have remembered, and
 * supplied tables. It waits for no lock and allocates nothing. A step takes a bounded
 * time, and so does the walk: &unwind_user_hand.budget limits what depends on the
 * length of functions.
 *
 * Context: Any, including NMI, in which the memory of current->mm may be read, see
 *	    nmi_uaccess_okay(). The caller stays on this CPU.
 * Return: Why the walk ended. &unwind_user_hand.missed tells whether a walk in task
 *	   context may find more.
 */
enum unwind_user_end unwind_user_walk_at_hand(struct unwind_user_hand *hand,
					      const struct unwind_user_regs *regs,
					      const struct unwind_user_gprs *gprs,
					      struct unwind_user_rules *rules,
					      unsigned long *entries,
					      unsigned int max, unsigned int *filled)
{
	enum unwind_user_result ret = UNWIND_USER_FRAME;
	struct unwind_user_state state;
	unsigned int nr = 0;
	u64 tables;

	hand->budget = UNWIND_USER_HAND_FRES;
	hand->missed = 0;
	hand->nr_slots = 0;
	hand->lookups = UNWIND_USER_HAND_LOOKUPS;
	hand->puts = UNWIND_USER_HAND_PUTS;
	hand->full = false;

	unwind_user_start(&state, regs, gprs, rules);
	state.hand = hand;
	/* The task itself may know the mappings from its last walk. */
	if (!rules) {
		hand->confine.stack = (struct unwind_user_mapping) { };
		hand->confine.nr_codes = 0;
		hand->confine.next_code = 0;
		state.confine = &hand->confine;
	}
	if (!hand->requested)
		state.probed = unwind_user_probed();

	pagefault_disable();
	tables = unwind_tables_switch();

	while (nr < max) {
		nr += unwind_user_walk_known(&state, entries + nr, max - nr);
		if (nr == max)
			break;

		ret = unwind_user_step(&state, entries, &nr);
		if (ret != UNWIND_USER_FRAME)
			break;
	}

	unwind_tables_switch_back(tables);
	pagefault_enable();
	/* Where it may go depends on mappings, which may be changing. */
	if (ret == UNWIND_USER_CORRUPT && state.confined && hand->requested)
		unwind_user_frame_missed(&state);
	if (hand->requested && !hand->missed)
		trace_unwind_user_walk(regs->ip, nr, &state, ret);
	*filled = nr;

	return unwind_user_ends[ret];
}
#endif
