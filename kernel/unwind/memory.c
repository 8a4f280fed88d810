// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of the current task's user memory
 */
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/userfaultfd_k.h>

#include "confine.h"
#include "mapping.h"
#include "memory.h"
#include "subject.h"

/*
 * How often one read may lose its page again, or have the mmap lock dropped, before
 * the walk gives up. Two tries are usual: drop the lock for I/O, then map the page.
 */
#define UNWIND_USER_FAULT_TRIES	4

static bool unwind_user_may_fault(struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_READ) || (vma->vm_flags & (VM_IO | VM_PFNMAP)))
		return false;

	if (userfaultfd_armed(vma))
		return false;

	/*
	 * The program may never touch this page. A FUSE server may be waiting for
	 * this task, or may never answer. A task that waits for the answer cannot be
	 * killed.
	 */
	if (vma->vm_file &&
	    file_inode(vma->vm_file)->i_sb->s_magic == FUSE_SUPER_MAGIC)
		return false;

	/*
	 * An exiting task cannot be killed any more, so it must not wait for a
	 * file system that may wait for a server.
	 */
	if ((current->flags & PF_EXITING || current->unwind_info.subject) &&
	    !vma_is_anonymous(vma))
		return false;

	return true;
}

/*
 * Make the page of @addr present.
 *
 * copy_from_user() alone cannot be used because of userfaultfd and FUSE: a fault
 * waits for the monitor or server, which may itself wait for this task. Therefore
 * the fault is handled here, where the VMA can be checked first. The lock may be
 * dropped while the page is read in. The VMA is then looked up and checked again.
 */
static bool unwind_user_fault_in(unsigned long addr)
{
	unsigned int flags = FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned int tries;
	vm_fault_t fault;

	for (tries = 0; tries < UNWIND_USER_FAULT_TRIES; tries++) {
		if (!unwind_user_lock_mm(mm))
			return false;

		vma = vma_lookup(mm, addr);
		if (!vma || !unwind_user_may_fault(vma)) {
			mmap_read_unlock(mm);
			return false;
		}

		fault = handle_mm_fault(vma, addr, flags, NULL);

		/* The page is present, and the lock was dropped. */
		if (fault & VM_FAULT_COMPLETED)
			return true;

		/* The lock was dropped, and the page may be present. */
		if (fault & VM_FAULT_RETRY) {
			if (unwind_user_stopped())
				return false;
			flags |= FAULT_FLAG_TRIED;
			continue;
		}

		mmap_read_unlock(mm);
		return !(fault & VM_FAULT_ERROR);
	}

	return false;
}

/* @absent: The first byte is known not to be present, so do not try */
static bool unwind_user_read_or_fault(unsigned long addr, void *buf, unsigned int size,
				      bool absent)
{
	const void __user *from = (const void __user *)addr;
	unsigned long left = size;
	unsigned int tries;

	might_sleep_if(!faulthandler_disabled());

	if (!__access_ok(from, size))
		return false;

	/* The walk uses the value that is read here as its next address. */
	barrier_nospec();

	for (tries = 0; tries < UNWIND_USER_FAULT_TRIES; tries++) {
		if (!absent || tries) {
			pagefault_disable();
			left = __copy_from_user_inatomic(buf, from, size);
			pagefault_enable();
			if (!left)
				return true;
		}

		/* The bytes may be on two pages: fault in the first missing one. */
		if (faulthandler_disabled() || !unwind_user_fault_in(addr + size - left))
			return false;
	}

	return false;
}

/**
 * unwind_user_read - Read memory of the current task
 * @addr:	Linear user address
 * @buf:	Where to put the bytes
 * @size:	How many to read
 *
 * Pages that are not present are faulted in, except in ranges that are registered
 * with userfaultfd, from files on FUSE, and from all files if the task is exiting. A
 * fatal signal ends the wait for a file. If page faults are disabled, nothing is
 * faulted in.
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held.
 *	    May sleep. If page faults are disabled: any in which the memory of
 *	    current->mm may be read, see nmi_uaccess_okay().
 * Return: true if all bytes were read; @buf is undefined otherwise.
 */
bool unwind_user_read(unsigned long addr, void *buf, unsigned int size)
{
	return unwind_user_read_or_fault(addr, buf, size, false);
}

/**
 * unwind_user_read_absent - unwind_user_read() of memory that is probably not present
 * @addr:	As for unwind_user_read()
 * @buf:	As for unwind_user_read()
 * @size:	As for unwind_user_read()
 *
 * An exception takes 500 instructions. The stack of a program without frame pointers
 * often ends with an address that is not mapped, and one exception is enough to see that.
 *
 * Context: As unwind_user_read().
 * Return: As unwind_user_read(); false at once if page faults are disabled.
 */
bool unwind_user_read_absent(unsigned long addr, void *buf, unsigned int size)
{
	return unwind_user_read_or_fault(addr, buf, size, true);
}

/**
 * unwind_user_peek - Read a word of the current task if it is present
 * @addr:	Linear user address
 * @val:	Receives the word
 *
 * Usually a frame only needs this. It takes a third of the time of unwind_user_read().
 *
 * Context: Any context in which current->mm may be used. Does not sleep.
 * Return: true if the word was read.
 */
bool unwind_user_peek(unsigned long addr, unsigned long *val)
{
	bool ret;

	pagefault_disable();
	ret = unwind_user_peek_one(addr, val);
	pagefault_enable();

	return ret;
}

/**
 * unwind_user_peek_pair - Read two adjacent words if they are present
 * @addr:	Linear user address
 * @low:	Receives the first word
 * @high:	Receives the second word
 *
 * Context: As unwind_user_peek().
 * Return: true if both words were read.
 */
bool unwind_user_peek_pair(unsigned long addr, unsigned long *low, unsigned long *high)
{
	bool ret;

	pagefault_disable();
	ret = unwind_user_peek_two(addr, low, high);
	pagefault_enable();

	return ret;
}

/**
 * unwind_user_may_load - May the walk read this memory?
 * @state:	State of the walk
 * @addr:	Address, in the stack segment
 * @size:	Number of bytes
 *
 * Context: As unwind_user_next().
 * Return: false if the walk is confined and the memory is not on the stack.
 */
bool unwind_user_may_load(const struct unwind_user_state *state,
			  unsigned long addr, unsigned int size)
{
	return likely(!state->confined) || unwind_user_on_stack(state, addr, size);
}

/**
 * unwind_user_load - Read from the stack, if the walk may do that
 * @state:	State of the walk
 * @addr:	Address, in the stack segment
 * @buf:	Receives the bytes
 * @size:	Number of bytes
 *
 * Context: As unwind_user_next().
 * Return: false if it cannot be read, or if the walk is confined and the memory is
 *	   not on the stack.
 */
bool unwind_user_load(const struct unwind_user_state *state, unsigned long addr,
		      void *buf, unsigned int size)
{
	return unwind_user_may_load(state, addr, size) &&
	       unwind_user_read(state->regs.ss_base + addr, buf, size);
}

/**
 * unwind_user_is_absent - Is a byte of user memory not present, for a walk at hand?
 * @addr:	Linear user address
 *
 * Context: Any in which the memory of current->mm may be read, see nmi_uaccess_okay().
 * Return: true if the byte cannot be read without a page fault, but perhaps with one.
 */
bool unwind_user_is_absent(unsigned long addr)
{
	bool ret;
	u8 byte;

	pagefault_disable();
	ret = !unwind_user_read(addr, &byte, sizeof(byte));
	pagefault_enable();

	return ret && !unwind_user_is_unmapped(addr);
}
