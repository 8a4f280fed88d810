/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TASK_MEMORY_H
#define _KERNEL_UNWIND_TASK_MEMORY_H

#include <linux/types.h>
#include <linux/unwind_deferred_types.h>
#include <linux/unwind_user_types.h>

struct pt_regs;
struct task_struct;
struct unwind_user_rules;

/* Entries of a cache on the kernel stack, which a walk uses if memory is lacking */
#define UNWIND_CACHE_FEW		48

/**
 * struct unwind_task_cache - The stack that was walked last
 * @borrowed:	Not to be kept: it is on the kernel stack, or not charged
 * @on_stack:	Not to be freed: it is on the kernel stack
 * @filled:	It holds a stack; false if the memory that held it has been freed
 * @room:	Size of @entries
 * @nr:		Number of @entries in use
 * @end:	Why there are no more
 * @entries:	The stack
 *
 * Read and written by the task itself, in task context, or by who flushes its request while
 * it does not run. If it holds a stack and unwind_task_info::depth has UNWIND_DEPTH_WALKED
 * set, it is that of unwind_task_info::regs.
 */
struct unwind_task_cache {
	bool			borrowed;
	bool			on_stack;
	bool			filled;
	unsigned int		room;
	unsigned int		nr;
	enum unwind_user_end	end;
	unsigned long		entries[];
};

#ifdef CONFIG_UNWIND_USER_SFRAME
void unwind_deferred_keep_gprs(struct unwind_task_info *info,
			       const struct pt_regs *regs);
const struct unwind_user_gprs *unwind_deferred_gprs(struct unwind_task_info *info);
struct unwind_user_rules *unwind_deferred_rules(struct unwind_task_info *info);
bool unwind_deferred_peek_gprs(const struct unwind_task_info *info,
			       struct unwind_user_gprs *gprs);
bool unwind_deferred_task_gprs(struct task_struct *task, struct unwind_user_gprs *gprs);
#else
static inline bool unwind_deferred_task_gprs(struct task_struct *task,
					     struct unwind_user_gprs *gprs)
{
	return false;
}

static inline void unwind_deferred_keep_gprs(struct unwind_task_info *info,
					     const struct pt_regs *regs)
{
}

static inline const struct unwind_user_gprs *
unwind_deferred_gprs(struct unwind_task_info *info)
{
	return NULL;
}

static inline struct unwind_user_rules *
unwind_deferred_rules(struct unwind_task_info *info)
{
	return NULL;
}
#endif

void unwind_deferred_take_memory(struct unwind_task_info *info);
bool unwind_deferred_try_memory(struct unwind_task_info *info);
void unwind_deferred_release_memory(struct unwind_task_info *info);
void unwind_deferred_free_memory(struct unwind_task_info *info);
void unwind_deferred_forget_memory(struct unwind_task_info *info);
void unwind_deferred_abandon_memory(struct unwind_task_info *info);
void unwind_deferred_trim_memory(struct unwind_task_info *info);
void unwind_deferred_set_cache(struct unwind_task_info *info,
			       struct unwind_task_cache *cache);
struct unwind_task_cache *unwind_deferred_cache(struct unwind_task_info *info,
						unsigned int depth);
struct unwind_task_cache *unwind_deferred_cache_nowait(struct unwind_task_info *info,
						       unsigned int depth);
void unwind_deferred_unless_used(struct unwind_task_info *info);
bool unwind_deferred_reclaim_task(struct unwind_task_info *info);
unsigned long unwind_deferred_reclaim_tasks(void);

#endif /* _KERNEL_UNWIND_TASK_MEMORY_H */
