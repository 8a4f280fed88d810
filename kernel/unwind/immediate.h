/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_IMMEDIATE_H
#define _KERNEL_UNWIND_IMMEDIATE_H

#include <linux/types.h>

struct unwind_task_cache;
struct unwind_task_info;

#ifdef CONFIG_UNWIND_USER_SFRAME
bool unwind_immediate_fill(struct unwind_task_info *info,
			   struct unwind_task_cache *cache, unsigned int max);
#else
static inline bool unwind_immediate_fill(struct unwind_task_info *info,
					 struct unwind_task_cache *cache,
					 unsigned int max)
{
	return false;
}
#endif

#endif /* _KERNEL_UNWIND_IMMEDIATE_H */
