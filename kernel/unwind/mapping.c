// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of the current task
 */
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>

#include "mapping.h"

static void unwind_user_keep_mapping(struct unwind_user_mapping *mapping,
				     const struct vm_area_struct *vma)
{
	mapping->start	= vma->vm_start;
	mapping->end	= vma->vm_end;
	mapping->seq	= unwind_user_mm_seq(vma->vm_mm);
}

/**
 * unwind_user_find_stack - Find the mapping that contains a stack pointer
 * @sp:		The stack pointer. The stack may not have grown to it yet
 * @mapping:	Receives where the mapping is
 *
 * Context: As unwind_user_region_find().
 * Return: false if there is none, or if the task is being killed.
 */
bool unwind_user_find_stack(unsigned long sp, struct unwind_user_mapping *mapping)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool found;

	if (mmap_read_lock_killable(mm))
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
 * Context: As unwind_user_next().
 * Return: false if there is none, or if the task is being killed.
 */
bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool found;

	if (mmap_read_lock_killable(mm))
		return false;

	vma = vma_lookup(mm, ip);
	found = vma && (vma->vm_flags & VM_EXEC);
	if (found)
		unwind_user_keep_mapping(mapping, vma);

	mmap_read_unlock(mm);
	return found;
}
