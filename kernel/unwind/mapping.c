// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of the current task
 *
 * A walk at hand runs with page faults disabled, perhaps in an NMI. It finds mappings
 * without the mmap lock, under RCU. It may have interrupted a writer of the tree, and a
 * writer on another CPU may be stopped between two of its steps. The search ends all the same:
 * it only goes down the tree, and writers put a new node in its place before they
 * mark the old one as dead.
 *
 * A mapping that is just being changed may be read half old, half new: mappings grow and
 * shrink at one end, so an address in that range is in the old mapping or the new one. Where
 * more is read, the caller compares it with what was read when nothing changed. If the
 * writer's lock was taken or released meanwhile, what was read is not used.
 */
#include <linux/cleanup.h>
#include <linux/maple_tree.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "mapping.h"
#include "subject.h"

static void unwind_user_keep_mapping(struct unwind_user_mapping *mapping,
				     const struct vm_area_struct *vma)
{
	mapping->start	= vma->vm_start;
	mapping->end	= vma->vm_end;
	mapping->seq	= unwind_user_mm_seq(vma->vm_mm);
}

/**
 * unwind_user_look - Look at a mapping without the mmap lock
 * @addr:	An address in the mapping, or below the mapping if nothing is mapped there
 * @look:	Copies what is of interest. Whatever it reads may be changing: it must check
 *		each pointer, and reads it once. Memory of mappings and inodes is not freed
 *		meanwhile; that of a file remains a file's. Returns false to refuse the
 *		mapping
 * @data:	For @look
 * @seq:	Receives unwind_user_mm_period()
 *
 * Context: Any, under RCU.
 * Return: true if @look has accepted a mapping, and no change of a mapping has begun or
 *	   ended meanwhile. Only then may the copy be used.
 */
bool unwind_user_look(unsigned long addr, unwind_user_look_fn look, void *data,
		      unsigned int *seq)
{
#ifdef CONFIG_PER_VMA_LOCK
	struct mm_struct *mm = current->mm;
	const struct vm_area_struct *vma;
	MA_STATE(mas, &mm->mm_mt, addr, addr);
	unsigned int now;

	now = raw_read_seqcount(&mm->mm_lock_seq);
	*seq = now & ~1U;

	vma = mas_walk(&mas);
	if (!vma && mas.last < TASK_SIZE_MAX) {
		mas_set(&mas, mas.last + 1);
		vma = mas_walk(&mas);
	}

	return vma && data_race(look(vma, data)) &&
	       !read_seqcount_retry(&mm->mm_lock_seq, now);
#else
	return false;
#endif
}

/**
 * struct unwind_user_vma - What is read of a mapping without the mmap lock
 * @start:	Its first byte
 * @end:	First byte after it
 * @flags:	Its flags
 */
struct unwind_user_vma {
	unsigned long		start;
	unsigned long		end;
	unsigned long		flags;
};

static bool unwind_user_copy_vma(const struct vm_area_struct *vma, void *data)
{
	struct unwind_user_vma *copy = data;

	copy->start	= vma->vm_start;
	copy->end	= vma->vm_end;
	copy->flags	= vma->vm_flags;

	return true;
}

/**
 * unwind_user_is_unmapped - Is nothing mapped at an address?
 * @addr:	The address
 *
 * Context: Any in which the memory of current->mm may be read, see nmi_uaccess_okay().
 * Return: false if something is mapped there, or if that is not certain, because a change of
 *	   mappings begins or ends.
 */
bool unwind_user_is_unmapped(unsigned long addr)
{
#ifdef CONFIG_PER_VMA_LOCK
	struct mm_struct *mm = current->mm;
	MA_STATE(mas, &mm->mm_mt, addr, addr);
	unsigned int seq;

	guard(rcu)();

	seq = raw_read_seqcount(&mm->mm_lock_seq);
	return !(seq & 1) && !mas_walk(&mas) && !read_seqcount_retry(&mm->mm_lock_seq, seq);
#else
	return false;
#endif
}

static bool unwind_user_peek_mapping(unsigned long addr, unsigned long below,
				     unsigned long flags,
				     struct unwind_user_mapping *mapping)
{
	struct unwind_user_vma vma;
	unsigned int seq;

	guard(rcu)();

	if (!unwind_user_look(addr, unwind_user_copy_vma, &vma, &seq) ||
	    (vma.flags & flags) != flags || addr >= vma.end)
		return false;
	if (addr < vma.start && !(vma.flags & below))
		return false;

	mapping->start	= vma.start;
	mapping->end	= vma.end;
	mapping->seq	= seq;
	return true;
}

/**
 * unwind_user_find_stack - Find the mapping that contains a stack pointer
 * @sp:		The stack pointer. The stack may not have grown to it yet
 * @mapping:	Receives where the mapping is
 *
 * Context: As unwind_user_region_find(). Any if page faults are disabled.
 * Return: false if there is none, if the task is being killed, or if page faults are
 *	   disabled and a change of mappings begins or ends.
 */
bool unwind_user_find_stack(unsigned long sp, struct unwind_user_mapping *mapping)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool found;

	if (faulthandler_disabled())
		return unwind_user_peek_mapping(sp, VM_GROWSDOWN, VM_NONE, mapping);

	if (!unwind_user_lock_mm(mm))
		return false;

	vma = find_vma(mm, sp);
	found = vma && (sp >= vma->vm_start || (vma->vm_flags & VM_GROWSDOWN));
	if (found)
		unwind_user_keep_mapping(mapping, vma);

	mmap_read_unlock(mm);
	return found;
}

/**
 * unwind_user_find_code - Find the executable mapping of an address
 * @ip:		The address
 * @mapping:	Receives where the mapping is
 *
 * Context: As unwind_user_next(). Any if page faults are disabled.
 * Return: As unwind_user_find_stack().
 */
bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool found;

	if (faulthandler_disabled())
		return unwind_user_peek_mapping(ip, VM_NONE, VM_EXEC, mapping);

	if (!unwind_user_lock_mm(mm))
		return false;

	vma = vma_lookup(mm, ip);
	found = vma && (vma->vm_flags & VM_EXEC);
	if (found)
		unwind_user_keep_mapping(mapping, vma);

	mmap_read_unlock(mm);
	return found;
}
