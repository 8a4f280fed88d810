// SPDX-License-Identifier: GPL-2.0
/*
 * Regions for which programs register SFrame sections
 *
 * For code that is in no file, a program may register sections itself, by prctl().
 * Until it is removed, a section is used for its range of addresses, whatever is mapped
 * there.
 */
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/overflow.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/unwind_user_regions.h>

#include <asm/unwind_user.h>

#include "regions.h"

/* How many sections a program may have registered at the same time */
#define UNWIND_SFRAME_MAX	1024

/**
 * unwind_user_regions_fork - Copy the parent's registered regions to a child
 * @mm:		The child's mm; unwind_user_regions_free() follows in any case
 * @oldmm:	The parent's mm
 *
 * The child has a copy of the code and of the sections. Regions that were found in
 * files are not copied; they are found again when needed.
 *
 * Context: Both mmap locks are held for writing.
 * Return: 0, or -ENOMEM. The caller should then fail the fork: a child without some
 *	   of the sections would have wrong stacks without anybody knowing.
 */
int unwind_user_regions_fork(struct mm_struct *mm, struct mm_struct *oldmm)
{
	struct unwind_user_regions *regions, *old;
	struct unwind_region *entry, *copy;
	struct rb_node *node;
	int ret = 0;

	mmap_assert_write_locked(oldmm);

	old = unwind_regions_tryget(oldmm);
	if (!old || !old->nr_registered)
		goto out;

	ret = -ENOMEM;
	regions = unwind_regions_alloc(mm, GFP_KERNEL_ACCOUNT);
	if (!regions)
		goto out;

	mm->unwind_regions = regions;

	for (node = rb_first(&old->registered); node; node = rb_next(node)) {
		entry = rb_entry(node, struct unwind_region, node);
		copy = unwind_region_alloc(entry, entry->sframe,
					   GFP_KERNEL_ACCOUNT);
		if (!copy)
			goto out;

		unwind_regions_assign_id(copy);
		unwind_regions_add(&regions->registered, copy);
		if (!regions->nr_registered++)
			refcount_inc(&regions->refs);
	}

	ret = 0;
out:
	unwind_regions_put(old);
	return ret;
}

static bool unwind_user_range_ok(unsigned long start, unsigned long end)
{
	return start < end && end <= TASK_SIZE_MAX;
}

/* Register @entry, which is complete except for its number. */
static int unwind_regions_register(struct unwind_user_regions *regions,
				   struct unwind_region *entry)
{
	struct mm_struct *mm = current->mm;
	int ret = 0;

	/* For writing, so that the sequence number changes and walks see it. */
	if (mmap_write_lock_killable(mm))
		return -EINTR;

	if (unwind_regions_overlap(&regions->registered, entry->start,
				   entry->end)) {
		ret = -EEXIST;
	} else if (regions->nr_registered >= UNWIND_SFRAME_MAX) {
		ret = -ENOSPC;
	} else {
		unwind_regions_assign_id(entry);
		scoped_guard(spinlock, &regions->lock)
			unwind_regions_add(&regions->registered, entry);
		if (!regions->nr_registered++)
			refcount_inc(&regions->refs);
	}

	mmap_write_unlock(mm);
	return ret;
}

/**
 * unwind_user_sframe_add - Register a section, for PR_UNWIND_SFRAME_ADD
 * @sframe_addr: Address of the section
 * @sframe_len:	Its length in bytes
 * @text_start:	First byte of the code that the section is for
 * @text_end:	First byte after the code
 *
 * Only what sframe_section_init() reads is read now. A lookup reads the rest, with
 * its contents at that time.
 *
 * Context: System call of a user task. Sleeps.
 * Return:
 * * 0		- The section is used from now on
 * * -EINVAL	- A range is empty or not in user space, the section cannot be used,
 *		  or this is a 32-bit or x32 program
 * * -EFAULT	- The section cannot be read
 * * -EEXIST	- A registered range overlaps this one
 * * -ENOSPC	- %UNWIND_SFRAME_MAX sections are registered already
 * * -ENOMEM	- Memory is lacking
 * * -EINTR	- The task is being killed
 */
int unwind_user_sframe_add(unsigned long sframe_addr, unsigned long sframe_len,
			   unsigned long text_start, unsigned long text_end)
{
	struct sframe_section sframe = { .base = sframe_addr };
	struct unwind_region new = { }, *entry;
	struct unwind_user_regions *regions;
	unsigned long sframe_end;
	int ret;

	if (arch_unwind_user_compat(current))
		return -EINVAL;

	if (check_add_overflow(sframe_addr, sframe_len, &sframe_end) ||
	    !unwind_user_range_ok(sframe_addr, sframe_end) ||
	    !unwind_user_range_ok(text_start, text_end) ||
	    sframe_len > SFRAME_SIZE_MAX)
		return -EINVAL;

	sframe.size = sframe_len;
	ret = sframe_section_init(&sframe);
	/* The caller gets one error for all other flaws of the section. */
	if (ret)
		return ret == -EFAULT ? -EFAULT : -EINVAL;

	regions = unwind_regions_get(GFP_KERNEL_ACCOUNT);
	if (!regions)
		return -ENOMEM;

	new.start	= text_start;
	new.end		= text_end;
	new.has_sframe	= true;

	ret = -ENOMEM;
	entry = unwind_region_alloc(&new, &sframe, GFP_KERNEL_ACCOUNT);
	if (!entry)
		goto out;

	ret = unwind_regions_register(regions, entry);
	if (ret)
		kfree(entry);
out:
	unwind_regions_put(regions);
	return ret;
}

/**
 * unwind_user_sframe_del - Remove a registered section, for PR_UNWIND_SFRAME_DEL
 * @text_start:	First byte of the code, as it was registered
 * @text_end:	First byte after the code, as it was registered
 *
 * Context: System call of a user task. Sleeps.
 * Return:
 * * 0		- The section is not used from now on, except by walks in progress
 * * -EINVAL	- The range is empty or not in user space, or this is a 32-bit or
 *		  x32 program
 * * -ENOENT	- No such range is registered
 * * -EINTR	- The task is being killed
 */
int unwind_user_sframe_del(unsigned long text_start, unsigned long text_end)
{
	struct unwind_user_regions *regions;
	struct mm_struct *mm = current->mm;
	struct unwind_region *entry;

	if (arch_unwind_user_compat(current) || !unwind_user_range_ok(text_start, text_end))
		return -EINVAL;

	regions = unwind_regions_tryget(mm);
	if (!regions)
		return -ENOENT;

	if (mmap_write_lock_killable(mm)) {
		unwind_regions_put(regions);
		return -EINTR;
	}

	entry = unwind_regions_overlap(&regions->registered, text_start, text_end);
	if (entry && (entry->start != text_start || entry->end != text_end))
		entry = NULL;

	if (entry) {
		scoped_guard(spinlock, &regions->lock)
			rb_erase(&entry->node, &regions->registered);
		if (!--regions->nr_registered)
			refcount_dec(&regions->refs);
	}

	mmap_write_unlock(mm);
	unwind_regions_put(regions);

	if (!entry)
		return -ENOENT;

	kfree(entry);
	return 0;
}
