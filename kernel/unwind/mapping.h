/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_MAPPING_H
#define _KERNEL_UNWIND_MAPPING_H

#include <linux/compiler.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/seqlock.h>
#include <linux/types.h>

/**
 * unwind_user_mm_seq - Sequence number of an mm's mappings
 * @mm:		The mm
 *
 * Context: The mmap lock is held for reading, so that the mappings do not change.
 * Return: A number that changes when anything is mapped or unmapped; 0 if the kernel
 *	   does not have such a number.
 */
static inline unsigned int unwind_user_mm_seq(const struct mm_struct *mm)
{
#ifdef CONFIG_PER_VMA_LOCK
	return raw_read_seqcount(&mm->mm_lock_seq);
#else
	return 0;
#endif
}

/**
 * unwind_user_mm_period - Sequence number of current's mappings, also while they change
 *
 * While the mmap lock is held for writing, the number is that of the time before.
 * Whoever changes mappings may be interrupted here, so there is nobody to wait for. What is
 * known about code remains true until the lock is released: what is mapped meanwhile has to
 * be faulted in before it can run, and faults wait for the lock. So no stack leads through
 * it. The exceptions are pages that mremap() moves, or that a uprobe has faulted in, and
 * those that mprotect() makes executable; nothing was known about code in the latter.
 *
 * Context: Any, if current is a user task.
 * Return: The number, which is even.
 */
static inline unsigned int unwind_user_mm_period(void)
{
#ifdef CONFIG_PER_VMA_LOCK
	return raw_read_seqcount(&current->mm->mm_lock_seq) & ~1U;
#else
	return 0;
#endif
}

/**
 * unwind_user_mm_current - Are the mappings of current unchanged?
 * @seq:	From unwind_user_mm_seq() or unwind_user_mm_period(), of current's present mm
 *
 * Context: Any, if current is a user task.
 * Return: true if no change of a mapping has ended since; false if one has, or if the
 *	   kernel cannot tell.
 */
static inline bool unwind_user_mm_current(unsigned int seq)
{
#ifdef CONFIG_PER_VMA_LOCK
	return unwind_user_mm_period() == seq;
#else
	return false;
#endif
}

/**
 * unwind_user_mm_unlocked - Has nobody begun to change mappings of current?
 * @seq:	From unwind_user_mm_period(), read before
 *
 * A mapping that is being split is not found at all addresses that it has. So what was
 * not found since @seq was read may exist all the same, unless this returns true.
 *
 * Context: Any, if current is a user task.
 * Return: true if the mmap lock was not held for writing since @seq was read.
 */
static inline bool unwind_user_mm_unlocked(unsigned int seq)
{
#ifdef CONFIG_PER_VMA_LOCK
	return raw_read_seqcount(&current->mm->mm_lock_seq) == seq;
#else
	return false;
#endif
}

/**
 * struct unwind_user_mapping - Where a mapping of the current task is
 * @start:	Its first byte
 * @end:	First byte after it
 * @seq:	To check that it is still there, see unwind_user_mm_current()
 */
struct unwind_user_mapping {
	unsigned long		start;
	unsigned long		end;
	unsigned int		seq;
};

typedef bool (*unwind_user_look_fn)(const struct vm_area_struct *vma, void *data);

/**
 * unwind_user_vma_changing - May somebody be changing a mapping just now?
 * @vma:	The mapping
 *
 * Whoever holds the mmap lock for writing marks each mapping with vma_start_write()
 * before it is changed or removed. The mark is seen before the change because x86 keeps
 * stores in order. Others remain as they are.
 *
 * Context: In the function of unwind_user_look(), after what it wants to know was read.
 * Return: false if what was read belongs together, provided that unwind_user_look()
 *	   returns true.
 */
static inline bool unwind_user_vma_changing(const struct vm_area_struct *vma)
{
#ifdef CONFIG_PER_VMA_LOCK
	/* Pairs with the writer's order of stores. */
	smp_rmb();
	return READ_ONCE(vma->vm_lock_seq) == raw_read_seqcount(&vma->vm_mm->mm_lock_seq);
#else
	return true;
#endif
}

bool unwind_user_look(unsigned long addr, unwind_user_look_fn look, void *data,
		      unsigned int *seq);
bool unwind_user_is_unmapped(unsigned long addr);
bool unwind_user_find_stack(unsigned long sp, struct unwind_user_mapping *mapping);
bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping);

#endif /* _KERNEL_UNWIND_MAPPING_H */
