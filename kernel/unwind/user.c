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
 * Everything here runs in task context with interrupts enabled and no lock
 * held, on memory of current->mm, and may sleep.
 */
#include <linux/cleanup.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>
#include <linux/userfaultfd_k.h>

#include <asm/unwind_user.h>

/*
 * How often one read may lose its page again, or have the mmap lock dropped
 * under it, before the walk gives up. Two are usual (drop for I/O, then map).
 */
#define UNWIND_USER_FAULT_TRIES	4

/* How often a walk may go on at a lower stack. */
#define UNWIND_USER_SWITCHES	4

/* How many frames are walked between chances for other tasks to run. */
#define UNWIND_USER_RESCHED	64

static bool unwind_user_may_fault(struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_READ) || (vma->vm_flags & (VM_IO | VM_PFNMAP)))
		return false;

	if (userfaultfd_armed(vma))
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
 * A plain copy_from_user() would do, were it not for userfaultfd: a fault on a
 * registered range waits for the monitor, which may wait for this very task.
 * So the fault is taken by hand, where the VMA can be looked at first. The lock
 * may be dropped while the page is read in; the VMA is then looked up, and
 * looked at, anew.
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
 * registered with userfaultfd, and from files if the task is exiting. Waiting
 * for a file is killable.
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

/* Read one word of the size that the task's stack has. */
static bool unwind_user_read_word(const struct unwind_user_state *state,
				  unsigned long addr, unsigned long *val)
{
	u32 val32;

	if (state->regs.word_size == sizeof(unsigned long))
		return unwind_user_read(addr, val, sizeof(*val));

	if (!unwind_user_read(addr, &val32, sizeof(val32)))
		return false;

	*val = val32;
	return true;
}

/*
 * Read two neighbouring words if they are present: in the common case all that
 * a frame takes, for a third of the time.
 */
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

/*
 * Read the return address and, if @rule says that it is saved, the frame pointer.
 * A frame whose frame pointer cannot be read is still a frame.
 */
static bool unwind_user_read_slots(const struct unwind_user_state *state,
				   const struct unwind_user_rule *rule,
				   unsigned long cfa, unsigned long *ra,
				   unsigned long *fp, bool *fp_known)
{
	const int word = state->regs.word_size;

	/* The CFA is an offset into the stack segment. */
	cfa += state->regs.ss_base;

	if (rule->fp_saved && rule->fp_off + word == rule->ra_off &&
	    word == sizeof(*ra) &&
	    likely(unwind_user_peek_pair(cfa + rule->fp_off, fp, ra))) {
		*fp_known = true;
		return true;
	}

	if (!unwind_user_read_word(state, cfa + rule->ra_off, ra))
		return false;

	if (rule->fp_saved)
		*fp_known = unwind_user_read_word(state, cfa + rule->fp_off, fp);

	return true;
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
	return rule->cfa_from_fp && cfa < state->bottom &&
	       state->switches < UNWIND_USER_SWITCHES;
}

/*
 * Leave the current frame by @rule.
 *
 * This is the one place that checks progress: each CFA lies above the previous
 * one, but for a few switches to another stack, so a walk cannot circle.
 */
static enum unwind_user_result
unwind_user_apply(struct unwind_user_state *state,
		  const struct unwind_user_rule *rule)
{
	struct unwind_user_regs *regs = &state->regs;
	unsigned long cfa, slot, ra, fp = regs->fp;
	bool fp_known = state->fp_known;
	bool switched;

	if (rule->cfa_from_fp) {
		if (!fp_known)
			return UNWIND_USER_CORRUPT;
		/* Outermost functions are entered with a frame pointer of zero. */
		if (!regs->fp)
			return UNWIND_USER_END;
	}

	cfa = (rule->cfa_from_fp ? regs->fp : regs->sp) + rule->cfa_off;

	if (!IS_ALIGNED(cfa, regs->word_size))
		return UNWIND_USER_CORRUPT;

	switched = cfa <= regs->sp;
	if (switched && !unwind_user_may_switch(state, rule, cfa))
		return UNWIND_USER_CORRUPT;

	/* What a 32-bit stack pointer cannot hold is no 32-bit frame. */
	if (regs->word_size == sizeof(u32) && cfa != (u32)cfa)
		return UNWIND_USER_CORRUPT;

	slot = cfa + rule->ra_off;
	if (!unwind_user_read_slots(state, rule, cfa, &ra, &fp, &fp_known))
		return UNWIND_USER_CORRUPT;

	/* Done here, so that the next rule is looked up by the real address. */
	ra = unwind_user_return_address(slot, ra);

	if (!ra)
		return UNWIND_USER_END;

	/*
	 * Only user addresses leave the walk: consumers take the topmost
	 * numbers as context markers.
	 */
	if (regs->cs_base + ra >= TASK_SIZE_MAX)
		return UNWIND_USER_CORRUPT;

	/*
	 * Any data may look like a frame; code that was called does not. Once
	 * the walk has left the stack it began on, every frame is suspect.
	 */
	if ((switched || state->switches) &&
	    !arch_unwind_user_after_call(regs->cs_base + ra))
		return UNWIND_USER_CORRUPT;

	if (switched) {
		state->bottom = cfa;
		state->switches++;
	}

	regs->ip = ra;
	regs->sp = cfa;
	regs->fp = fp;
	state->fp_known = fp_known;
	state->topmost = false;

	return UNWIND_USER_FRAME;
}

/**
 * unwind_user_start - Begin a walk
 * @state:	State to initialise
 * @regs:	Registers of the interrupted frame
 *
 * Context: Any.
 */
void unwind_user_start(struct unwind_user_state *state,
		       const struct unwind_user_regs *regs)
{
	state->regs	= *regs;
	state->bottom	= regs->sp;
	state->switches	= 0;
	state->fp_known	= true;
	state->topmost	= true;
}

/**
 * unwind_user_next - Go from the current frame to its caller
 * @state:	State of the walk
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
	struct unwind_user_rule rule;

	/* A guess; where it leads nowhere it was wrong. */
	if (state->topmost && arch_unwind_user_entry_rule(state, &rule)) {
		ret = unwind_user_apply(state, &rule);
		if (ret == UNWIND_USER_FRAME)
			return ret;
	}

	arch_unwind_user_fp_rule(state, &rule);

	return unwind_user_apply(state, &rule);
}

/**
 * unwind_user - Walk the whole user stack of the current task
 * @regs:	Registers to start from, see arch_unwind_user_regs()
 * @entries:	Receives the interrupted instruction pointer, unless that is no
 *		user address, then the return addresses from the innermost to
 *		the outermost; linear addresses
 * @max:	Room in @entries
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held.
 *	    May sleep.
 * Return: The number of @entries filled. @max may mean that there are more.
 */
unsigned int unwind_user(const struct unwind_user_regs *regs,
			 unsigned long *entries, unsigned int max)
{
	struct unwind_user_state state;
	unsigned int nr = 0;

	might_sleep();

	unwind_user_start(&state, regs);

	while (nr < max) {
		unsigned long ip = state.regs.cs_base + state.regs.ip;

		/*
		 * A jump to nowhere leaves any number in the interrupted
		 * instruction pointer; its caller is still worth having.
		 */
		if (ip < TASK_SIZE_MAX)
			entries[nr++] = ip;

		if (unwind_user_next(&state) != UNWIND_USER_FRAME)
			break;

		if (!(nr % UNWIND_USER_RESCHED))
			cond_resched();
	}

	return nr;
}
