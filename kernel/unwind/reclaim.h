/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_RECLAIM_H
#define _KERNEL_UNWIND_RECLAIM_H

#ifdef CONFIG_UNWIND_USER_SFRAME

void unwind_user_regions_drop(void);
unsigned long unwind_user_regions_count(void);
unsigned long unwind_user_regions_reclaim(unsigned long nr);

#else

static inline void unwind_user_regions_drop(void) { }

static inline unsigned long unwind_user_regions_count(void)
{
	return 0;
}

static inline unsigned long unwind_user_regions_reclaim(unsigned long nr)
{
	return 0;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */

#endif /* _KERNEL_UNWIND_RECLAIM_H */
