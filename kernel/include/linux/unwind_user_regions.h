/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_REGIONS_H
#define _LINUX_UNWIND_USER_REGIONS_H

#include <linux/errno.h>
#include <linux/mm_types.h>

#ifdef CONFIG_UNWIND_USER_SFRAME

/**
 * unwind_user_regions_init - A new mm knows no sections
 * @mm:		The new mm; it may be a copy, bit by bit, of another one
 */
static inline void unwind_user_regions_init(struct mm_struct *mm)
{
	mm->unwind_regions = NULL;
}

int unwind_user_regions_fork(struct mm_struct *mm, struct mm_struct *oldmm);
void unwind_user_regions_free(struct mm_struct *mm);

int unwind_user_sframe_add(unsigned long sframe_addr, unsigned long sframe_len,
			   unsigned long text_start, unsigned long text_end);
int unwind_user_sframe_del(unsigned long text_start, unsigned long text_end);

#else /* !CONFIG_UNWIND_USER_SFRAME */

static inline void unwind_user_regions_init(struct mm_struct *mm) { }
static inline void unwind_user_regions_free(struct mm_struct *mm) { }

static inline int unwind_user_regions_fork(struct mm_struct *mm,
					   struct mm_struct *oldmm)
{
	return 0;
}

static inline int unwind_user_sframe_add(unsigned long sframe_addr,
					 unsigned long sframe_len,
					 unsigned long text_start,
					 unsigned long text_end)
{
	return -EINVAL;
}

static inline int unwind_user_sframe_del(unsigned long text_start,
					 unsigned long text_end)
{
	return -EINVAL;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */

#endif /* _LINUX_UNWIND_USER_REGIONS_H */
