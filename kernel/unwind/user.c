// SPDX-License-Identifier: GPL-2.0
/*
 * Unwinder for the user stack of the current task
 *
 * A walk has two layers. The lower one answers, for one instruction pointer,
 * where the canonical frame address (CFA), the return address and the saved
 * frame pointer are: a struct unwind_user_rule. The upper one applies rule
 * after rule, from the interrupted frame outwards, and holds the checks that
 * make the walk end on any input: user memory is hostile.
 *
 * Rules from unwind tables that somebody else than the program has supplied are
 * followed with more care: they must not make the walk a reader of whatever the
 * program has in its memory. From the first such rule on, the walk is confined. It
 * reads the stack only, from the inside outwards, and goes on only at addresses of
 * code; see unwind_user_on_stack() and unwind_user_at_code(). What it takes for a
 * signal frame may be any words of the stack, so that does not lead it to another
 * stack either; see unwind_user_may_resume().
 *
 * Everything here runs in task context with interrupts enabled and no lock
 * held, on memory of current->mm, and may sleep.
 */
#include <linux/cleanup.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>
#include <linux/userfaultfd_k.h>

#include <asm/unwind_user.h>

#include "rules.h"

#define CREATE_TRACE_POINTS
#include <trace/events/unwind_user.h>

/*
 * How often one read may lose its page again, or have the mmap lock dropped
 * under it, before the walk gives up. Two are usual (drop for I/O, then map).
 */
#define UNWIND_USER_FAULT_TRIES	4

/* How often a walk may go on at a lower stack. */
#define UNWIND_USER_SWITCHES	4

/* How many signal frames one walk goes through; handlers nest, but not deeply. */
#define UNWIND_USER_SIGNALS	64

/* How many frames are walked between chances for other tasks to run. */
#define UNWIND_USER_RESCHED	64

static bool unwind_user_may_fault(struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_READ) || (vma->vm_flags & (VM_IO | VM_PFNMAP)))
		return false;

	if (userfaultfd_armed(vma))
		return false;

	/*
	 * The program may never touch this page. A FUSE server may be waiting for
	 * this very task, or not answer at all; nothing kills a task that waits for
	 * an answer.
	 */
	if (vma->vm_file &&
	    file_inode(vma->vm_file)->i_sb->s_magic == FUSE_SUPER_MAGIC)
		return false;

	/*
	 * An exiting task cannot be killed any more, so it must not wait for a
	 * file system that may wait for a server.
	 */
	if ((current->flags & PF_EXITING) && !vma_is_anonymous(vma))
		return false;

	return true;
}

/*
 * Make the page of @addr present.
 *
 * A plain copy_from_user() would do, were it not for userfaultfd and FUSE: a fault
 * waits for the monitor or server, which may wait for this very task. So the fault
 * is taken by hand, where the VMA can be looked at first. The lock may be dropped
 * while the page is read in; the VMA is then looked up, and looked at, anew.
 */
static bool unwind_user_fault_in(unsigned long addr)
{
	unsigned int flags = FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned int tries;
	vm_fault_t fault;

	for (tries = 0; tries < UNWIND_USER_FAULT_TRIES; tries++) {
		if (mmap_read_lock_killable(mm))
			return false;

		vma = vma_lookup(mm, addr);
		if (!vma || !unwind_user_may_fault(vma)) {
			mmap_read_unlock(mm);
			return false;
		}

		fault = handle_mm_fault(vma, addr, flags, NULL);

		/* Done, and the lock is gone. */
		if (fault & VM_FAULT_COMPLETED)
			return true;

		/* The lock is gone, the page may have come. */
		if (fault & VM_FAULT_RETRY) {
			if (fatal_signal_pending(current))
				return false;
			flags |= FAULT_FLAG_TRIED;
			continue;
		}

		mmap_read_unlock(mm);
		return !(fault & VM_FAULT_ERROR);
	}

	return false;
}

/**
 * unwind_user_read - Read memory of the current task
 * @addr:	Linear user address
 * @buf:	Where to put the bytes
 * @size:	How many to read
 *
 * Pages that are not present are faulted in, except in ranges that are
 * registered with userfaultfd, from files on FUSE, and from all files if the task
 * is exiting. Waiting for a file is killable.
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held.
 *	    May sleep.
 * Return: true if all bytes were read; @buf is undefined otherwise.
 */
bool unwind_user_read(unsigned long addr, void *buf, unsigned int size)
{
	const void __user *from = (const void __user *)addr;
	unsigned int tries;
	unsigned long left;

	might_sleep();

	if (!__access_ok(from, size))
		return false;

	/* The walk uses what it reads here as the next address. */
	barrier_nospec();

	for (tries = 0; tries < UNWIND_USER_FAULT_TRIES; tries++) {
		pagefault_disable();
		left = __copy_from_user_inatomic(buf, from, size);
		pagefault_enable();
		if (!left)
			return true;

		/* The bytes may straddle two pages: the first one that lacks. */
		if (!unwind_user_fault_in(addr + size - left))
			return false;
	}

	return false;
}

/**
 * unwind_user_peek - Read a word of the current task if it is present
 * @addr:	Linear user address
 * @val:	Receives the word
 *
 * In the common case this is all that a frame takes, for a third of the time.
 *
 * Context: Any context in which current->mm may be used. Does not sleep.
 * Return: true if the word was read.
 */
bool unwind_user_peek(unsigned long addr, unsigned long *val)
{
	const unsigned long __user *from = (const unsigned long __user *)addr;
	bool ret = false;

	pagefault_disable();
	if (user_read_access_begin(from, sizeof(*from))) {
		unsafe_get_user(*val, from, end);
		ret = true;
end:
		user_read_access_end();
	}
	pagefault_enable();

	return ret;
}

/* The same for two neighbouring words. */
static bool unwind_user_peek_pair(unsigned long addr, unsigned long *low,
				  unsigned long *high)
{
	const unsigned long __user *from = (const unsigned long __user *)addr;
	bool ret = false;

	pagefault_disable();
	if (user_read_access_begin(from, 2 * sizeof(*from))) {
		unsafe_get_user(*low, from, end);
		unsafe_get_user(*high, from + 1, end);
		ret = true;
end:
		user_read_access_end();
	}
	pagefault_enable();

	return ret;
}

/* Read one word of the size that the task's stack has. */
static bool unwind_user_read_word(const struct unwind_user_state *state,
				  unsigned long addr, unsigned long *val)
{
	u32 val32;

	if (state->regs.word_size == sizeof(unsigned long))
		return likely(unwind_user_peek(addr, val)) ||
		       unwind_user_read(addr, val, sizeof(*val));

	if (!unwind_user_read(addr, &val32, sizeof(val32)))
		return false;

	*val = val32;
	return true;
}

/*
 * A uretprobe replaces the return address on the stack by that of a trampoline.
 * Its instance remembers the slot, which lies at the stack pointer that the
 * function was entered with. Matching by the slot, not by the order of the
 * instances, copes with those that longjmp() left behind.
 *
 * Only current changes the list of its instances, in task context, so it is
 * stable here.
 */
static unsigned long unwind_user_return_address(unsigned long slot, unsigned long ra)
{
#ifdef CONFIG_UPROBES
	struct uprobe_task *utask = current->utask;
	struct return_instance *ri;

	if (likely(!utask || !utask->return_instances) ||
	    ra != uprobe_get_trampoline_vaddr())
		return ra;

	for (ri = utask->return_instances; ri; ri = ri->next) {
		if (ri->stack == slot)
			return ri->orig_ret_vaddr;
	}
#endif
	return ra;
}

/* May the walk read @size bytes at @addr of the stack segment? */
static bool unwind_user_may_load(const struct unwind_user_state *state,
				 unsigned long addr, unsigned int size)
{
	return likely(!state->confined) || unwind_user_on_stack(state, addr, size);
}

/**
 * unwind_user_load - Read from the stack, as far as the walk may
 * @state:	State of the walk
 * @addr:	Address, in the stack segment
 * @buf:	Receives what is there
 * @size:	Number of bytes
 *
 * Context: As unwind_user_next().
 * Return: false if it cannot be read, or if the walk is confined and it is not of
 *	   the stack.
 */
bool unwind_user_load(const struct unwind_user_state *state, unsigned long addr,
		      void *buf, unsigned int size)
{
	return unwind_user_may_load(state, addr, size) &&
	       unwind_user_read(state->regs.ss_base + addr, buf, size);
}

/* May the walk go on at @ip, which is that of an interrupted frame or a caller's? */
static bool unwind_user_may_enter(const struct unwind_user_state *state,
				  const struct unwind_user_regs *regs,
				  unsigned long ip, bool topmost)
{
	return likely(!state->confined) ||
	       unwind_user_at_code(state, regs->cs_base + ip, topmost);
}

/*
 * The value that @loc stands for in the current frame. @cfa is that of the frame,
 * except while it is being found itself: no rule counts it from itself.
 */
static bool unwind_user_locate(const struct unwind_user_state *state,
			       const struct unwind_user_loc *loc,
			       unsigned long cfa, unsigned long *val)
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

	*val += loc->off;
	if (!loc->deref)
		return true;

	if (!unwind_user_may_load(state, *val, regs->word_size))
		return false;

	/* Registers are offsets into the stack segment. */
	return unwind_user_read_word(state, regs->ss_base + *val, val);
}

static bool unwind_user_is_slot(const struct unwind_user_loc *loc)
{
	return loc->base == UNWIND_USER_BASE_CFA && loc->deref;
}

/*
 * Find the return address and the caller's frame pointer. A frame whose frame
 * pointer cannot be found is still a frame.
 */
static bool unwind_user_locate_caller(const struct unwind_user_state *state,
				      const struct unwind_user_rule *rule,
				      unsigned long cfa, unsigned long *ra,
				      unsigned long *fp, bool *fp_known)
{
	const int word = state->regs.word_size;

	if (unwind_user_is_slot(&rule->ra) && unwind_user_is_slot(&rule->fp) &&
	    rule->fp.off + word == rule->ra.off && word == sizeof(*ra) &&
	    unwind_user_may_load(state, cfa + rule->fp.off, 2 * word) &&
	    likely(unwind_user_peek_pair(cfa + rule->fp.off, fp, ra))) {
		*fp_known = true;
		return true;
	}

	if (!unwind_user_locate(state, &rule->ra, cfa, ra))
		return false;

	if (rule->fp.base != UNWIND_USER_BASE_SAME)
		*fp_known = unwind_user_locate(state, &rule->fp, cfa, fp);

	return true;
}

static bool unwind_user_from_fp(const struct unwind_user_rule *rule)
{
	return rule->cfa.base == UNWIND_USER_BASE_FP && !rule->cfa.deref;
}

/*
 * Does the CFA lie above the current frame? Only a function that has popped its
 * return address into a register has none to lie above of; it cannot be a caller.
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
 * May the walk go on at a CFA that is not above the current frame?
 *
 * Runtimes with stacks of their own, such as that of Go, run some functions on
 * the thread's stack and leave the frame pointer as it is: it points to the other
 * stack, which may be the lower one. Frames between the bottom of this stack and
 * here have been seen, so there the walk would circle.
 */
static bool unwind_user_may_switch(const struct unwind_user_state *state,
				   const struct unwind_user_rule *rule,
				   unsigned long cfa)
{
	return unwind_user_from_fp(rule) && cfa < state->bottom &&
	       state->switches < UNWIND_USER_SWITCHES;
}

static bool unwind_user_is_code(unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool ret;

	if (mmap_read_lock_killable(mm))
		return false;

	vma = vma_lookup(mm, addr);
	ret = vma && (vma->vm_flags & VM_EXEC);
	mmap_read_unlock(mm);

	return ret;
}

/*
 * Any data may look like a frame; code that was called does not. Nobody calls the
 * outermost function, which is entered with a frame pointer of zero: who made its
 * stack wrote the return address.
 */
static bool unwind_user_is_return_address(unsigned long addr, bool outermost)
{
	return arch_unwind_user_after_call(addr) ||
	       (outermost && unwind_user_is_code(addr));
}

/*
 * Leave the current frame by @rule.
 *
 * This is the one place that checks progress: each CFA lies above the previous
 * one, but for signal frames and a few switches to another stack, which are
 * counted, so a walk cannot circle.
 */
static enum unwind_user_result
unwind_user_apply(struct unwind_user_state *state,
		  const struct unwind_user_rule *rule)
{
	struct unwind_user_regs *regs = &state->regs;
	unsigned long cfa = 0, ra, fp = regs->fp;
	bool fp_known = state->fp_known;
	bool switched;

	/* For good: what it makes of frame pointer and CFA stays with the walk. */
	if (unlikely(rule->confined))
		state->confined = true;

	if (rule->outermost)
		return UNWIND_USER_END;

	/* Outermost functions are entered with a frame pointer of zero. */
	if (unwind_user_from_fp(rule) && fp_known && !regs->fp)
		return UNWIND_USER_END;

	if (!unwind_user_locate(state, &rule->cfa, cfa, &cfa))
		return UNWIND_USER_CORRUPT;

	if (!IS_ALIGNED(cfa, regs->word_size))
		return UNWIND_USER_CORRUPT;

	/* It becomes the stack pointer, that is, the place of the stack. */
	if (!unwind_user_may_load(state, cfa - regs->word_size, regs->word_size))
		return UNWIND_USER_CORRUPT;

	/* There is no stack within the red zone, and below that nothing to read. */
	if (unlikely(state->confined) && !unwind_user_grows(state, rule, cfa))
		return UNWIND_USER_CORRUPT;

	switched = !rule->signal && !unwind_user_grows(state, rule, cfa);
	if (switched && !unwind_user_may_switch(state, rule, cfa))
		return UNWIND_USER_CORRUPT;

	/* As unwind_user_leave_signal(). */
	if (rule->signal && state->signals == UNWIND_USER_SIGNALS)
		return UNWIND_USER_CORRUPT;

	/* What a 32-bit stack pointer cannot hold is no 32-bit frame. */
	if (regs->word_size == sizeof(u32) && cfa != (u32)cfa)
		return UNWIND_USER_CORRUPT;

	if (!unwind_user_locate_caller(state, rule, cfa, &ra, &fp, &fp_known))
		return UNWIND_USER_CORRUPT;

	/* Done here, so that the next rule is looked up by the real address. */
	if (unwind_user_is_slot(&rule->ra))
		ra = unwind_user_return_address(cfa + rule->ra.off, ra);

	if (!ra)
		return UNWIND_USER_END;

	/*
	 * Only user addresses leave the walk: consumers take the topmost
	 * numbers as context markers.
	 */
	if (regs->cs_base + ra >= TASK_SIZE_MAX)
		return UNWIND_USER_CORRUPT;

	if (!unwind_user_may_enter(state, regs, ra, rule->signal))
		return UNWIND_USER_CORRUPT;

	/* Once a frame pointer has led to another stack, it is not to be trusted. */
	if ((switched ||
	     (state->suspect && unwind_user_from_fp(rule) && !rule->signal)) &&
	    !unwind_user_is_return_address(regs->cs_base + ra,
					   !switched && fp_known && !fp))
		return UNWIND_USER_CORRUPT;

	if (switched) {
		state->bottom = cfa;
		state->suspect = true;
		state->switches++;
	} else if (rule->signal) {
		state->bottom = cfa;
		state->suspect = false;
		state->signals++;
	}

	regs->ip = ra;
	regs->sp = cfa;
	regs->fp = fp;
	state->fp_known = fp_known;
	state->gprs_known = false;
	state->topmost = rule->signal;

	return UNWIND_USER_FRAME;
}

/*
 * May the walk go on where a signal has interrupted the program?
 *
 * A confined walk has been told by others where the signal frame is. Among the words of
 * a stack there may be some that look like one, and in place of the stack pointer any
 * address of the program's data. So the walk stays on the stack and goes outwards. It
 * may leave it only by a frame that certainly is what it looks like: the one that the
 * kernel has put onto the alternate stack, which the task is running on.
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
 * Leave a signal frame. It says nothing about where the interrupted frame is: that
 * may be on another stack (sigaltstack), so the CFA starts anew. Forged frames may
 * go round in circles, hence the limit.
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
	state->signals++;

	return UNWIND_USER_FRAME;
}

/**
 * unwind_user_start - Begin a walk
 * @state:	State to initialise
 * @regs:	Registers of the interrupted frame
 * @gprs:	All of them, or NULL if they are not known
 * @rules:	Memory for rules from unwind tables, see unwind_user_rules_alloc(),
 *		or NULL to go without
 *
 * Context: Any.
 */
void unwind_user_start(struct unwind_user_state *state,
		       const struct unwind_user_regs *regs,
		       const struct unwind_user_gprs *gprs,
		       struct unwind_user_rules *rules)
{
	state->regs		= *regs;
	state->rules		= rules;
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

	if (gprs)
		state->gprs = *gprs;
}

/*
 * Does the rule need a register that is not known? A caller's are not, and
 * compilers keep the CFA in the frame, at the frame pointer, while it calls. Where
 * they do not, the frame pointer is the best guess.
 */
static bool unwind_user_lacks_gprs(const struct unwind_user_state *state,
				   const struct unwind_user_rule *rule)
{
	return !state->gprs_known && (rule->cfa.base == UNWIND_USER_BASE_REG ||
				      rule->ra.base == UNWIND_USER_BASE_REG);
}

static enum unwind_user_result
unwind_user_next_fp(struct unwind_user_state *state)
{
	enum unwind_user_result ret;
	struct unwind_user_rule rule;

	/* A guess; where it leads nowhere it was wrong. */
	if (state->topmost && arch_unwind_user_entry_rule(state, &rule)) {
		ret = unwind_user_apply(state, &rule);
		if (ret == UNWIND_USER_FRAME) {
			state->stats.entry++;
			return ret;
		}
	}

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
 * A signal frame is told by its code. Else the unwind table of the code says
 * where the caller is, and frame pointers where there is no table.
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held.
 *	    May sleep.
 * Return: %UNWIND_USER_FRAME when @state describes the calling frame now. The
 *	   other values of &enum unwind_user_result end the walk and leave
 *	   @state as it was.
 */
enum unwind_user_result unwind_user_next(struct unwind_user_state *state)
{
	enum unwind_user_result ret;
	struct unwind_user_gprs gprs;
	struct unwind_user_regs regs;
	struct unwind_user_rule rule;
	enum unwind_user_rule_kind kind;

	kind = unwind_user_find_rule(state, &rule);

	if (kind == UNWIND_USER_RULE_SIGNAL &&
	    arch_unwind_user_signal_frame(state, &regs, &gprs))
		return unwind_user_leave_signal(state, &regs, &gprs);

	if (kind != UNWIND_USER_RULE_TABLE || unwind_user_lacks_gprs(state, &rule))
		return unwind_user_next_fp(state);

	ret = unwind_user_apply(state, &rule);
	if (ret == UNWIND_USER_FRAME) {
		state->stats.table++;
		if (unlikely(rule.confined))
			state->stats.supplied++;
	}

	return ret;
}

/**
 * unwind_user_walk - Walk the whole user stack of the current task
 * @regs:	Registers to start from, see arch_unwind_user_regs()
 * @gprs:	All of them, or NULL if they are not known
 * @rules:	Memory for rules from unwind tables, or NULL to go without
 * @entries:	Receives the interrupted instruction pointer, unless that is no
 *		user address, then the return addresses from the innermost to
 *		the outermost; linear addresses
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
	static const enum unwind_user_end ends[] = {
		[UNWIND_USER_FRAME]	= UNWIND_USER_END_CUT,
		[UNWIND_USER_END]	= UNWIND_USER_END_OUTERMOST,
		[UNWIND_USER_CORRUPT]	= UNWIND_USER_END_BROKEN,
	};
	enum unwind_user_result ret = UNWIND_USER_FRAME;
	struct unwind_user_state state;
	unsigned int nr = 0;

	might_sleep();

	unwind_user_start(&state, regs, gprs, rules);
	if (rules)
		unwind_tables_begin();

	while (nr < max) {
		unsigned long ip = state.regs.cs_base + state.regs.ip;

		/*
		 * A jump to nowhere leaves any number in the interrupted
		 * instruction pointer; its caller is still worth having. The
		 * walk ends all the same: signal frames are counted.
		 */
		if (ip < TASK_SIZE_MAX)
			entries[nr++] = ip;

		ret = unwind_user_next(&state);
		if (ret != UNWIND_USER_FRAME)
			break;

		if (!(nr % UNWIND_USER_RESCHED))
			cond_resched();
	}

	trace_unwind_user_walk(regs->ip, nr, &state, ret);
	*filled = nr;

	return ends[ret];
}
