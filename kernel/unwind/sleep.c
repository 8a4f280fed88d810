// SPDX-License-Identifier: GPL-2.0
/*
 * The requested stack is walked early where others may change it before the task leaves
 * the kernel: before it sleeps, and before a system call that was sampled as it was traced
 */
#include <linux/atomic.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>

#include "immediate.h"
#include "requests.h"
#include "task_memory.h"

/**
 * unwind_deferred_sleep - Walk the requested stack before current sleeps
 *
 * While a task sleeps, others may use its stack: runtimes run another coroutine on it.
 * Registers are those of the request, so the memory should be, too. If the walk finds
 * the whole stack with what is at hand, that is what is delivered later. Otherwise
 * nothing changes, and the stack is walked on the way out.
 *
 * Context: Task context of current, which is about to sleep. It may hold mutexes and
 *	    the like, and perhaps sleeps in a walk itself. Does not sleep.
 */
void unwind_deferred_sleep(void)
{
	struct unwind_task_info *info = &current->unwind_info;
	unsigned int depth = READ_ONCE(info->depth), max;
	struct unwind_task_cache *cache;

	if (!(READ_ONCE(info->request) & UNWIND_REQUEST_PENDING) ||
	    (depth & UNWIND_DEPTH_WALKED) || info->tried == info->cookie ||
	    info->barred == UNWIND_BARRED_DEAD || !unwind_deferred_try_memory(info))
		return;

	/* What is missing now will hardly be there when the task sleeps again. */
	info->tried = info->cookie;

	cache = unwind_deferred_cache_nowait(info, depth);
	if (!cache)
		goto out;

	max = min(depth, cache->room);
	cache->filled = unwind_immediate_fill(info, cache, max);
	if (!cache->filled)
		goto out;

	/* If a deeper request joins now, the walk on the way out serves both. */
	if (cache->end != UNWIND_USER_END_CUT)
		cache->filled = try_cmpxchg(&info->depth, &depth,
					    UNWIND_USER_MAX_DEPTH | UNWIND_DEPTH_WALKED);
	else
		cache->filled = max == depth &&
				try_cmpxchg(&info->depth, &depth,
					    max | UNWIND_DEPTH_WALKED);
out:
	unwind_deferred_release_memory(info);
	unwind_deferred_unless_used(info);
}

/**
 * unwind_deferred_walk_early - Walk the requested stack before a system call
 *
 * Runtimes hand the stack of a thread to another one just before a system call that puts
 * the thread to sleep, and a system call may write to the stack itself. What this walk
 * finds is what is delivered on the way out.
 *
 * Context: Task context of current, preemption enabled, no lock held. Sleeps.
 */
void unwind_deferred_walk_early(void)
{
	struct unwind_task_info *info = &current->unwind_info;
	unsigned int depth = READ_ONCE(info->depth);

	if (!(READ_ONCE(info->request) & UNWIND_REQUEST_PENDING) ||
	    (depth & UNWIND_DEPTH_WALKED) || info->barred == UNWIND_BARRED_DEAD)
		return;

	unwind_deferred_take_memory(info);

	if (unwind_deferred_cache(info, depth))
		unwind_deferred_walk(info);

	/* A system call takes long at times. Memory that is not charged is not kept for it. */
	if (info->cache && info->cache->borrowed)
		unwind_deferred_set_cache(info, NULL);

	unwind_deferred_release_memory(info);
	unwind_deferred_unless_used(info);
}
