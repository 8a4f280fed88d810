// SPDX-License-Identifier: GPL-2.0
/*
 * The requested stack is walked early where it may change before the task leaves the kernel:
 * before the task sleeps or is preempted on the way out, and before a system call that was
 * sampled as it was traced
 */
#include <linux/atomic.h>
#include <linux/irqflags.h>
#include <linux/minmax.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>

#include "immediate.h"
#include "requests.h"
#include "task_memory.h"

/*
 * Walk the requested stack with what is at hand. What this walk finds is delivered later if it
 * is the whole stack, or, with @cut, as much of it as was requested. Otherwise nothing
 * changes, and the stack is walked on the way out.
 */
static void unwind_deferred_at_hand(bool cut)
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

	if (cache->end != UNWIND_USER_END_CUT) {
		/* The whole stack also serves a deeper request that joins now. */
		while (!try_cmpxchg(&info->depth, &depth,
				    UNWIND_USER_MAX_DEPTH | UNWIND_DEPTH_WALKED))
			;
	} else if (cut) {
		/* If a deeper request joins now, the walk on the way out serves both. */
		cache->filled = max == depth &&
				try_cmpxchg(&info->depth, &depth,
					    max | UNWIND_DEPTH_WALKED);
	} else {
		cache->filled = false;
		info->tried = 0;
	}
out:
	unwind_deferred_release_memory(info);
	unwind_deferred_unless_used(info);
}

/**
 * unwind_deferred_sleep - Walk the requested stack before current sleeps
 *
 * While a task sleeps, others may use its stack: runtimes run another coroutine on it.
 * Registers are those of the request, so the memory should be, too.
 *
 * Context: Task context of current, which is about to sleep. It may hold mutexes and
 *	    the like, and perhaps sleeps in a walk itself. Does not sleep.
 */
void unwind_deferred_sleep(void)
{
	unwind_deferred_at_hand(true);
}

/**
 * unwind_deferred_traced - Walk the requested stack before a system call
 *
 * A system call may write to the stack of its caller, and runtimes hand a stack to another
 * thread just before a system call that sleeps. A stack that is cut at its depth is not
 * kept: otherwise no request could ask for a deeper one in the rest of the system call.
 *
 * Context: Task context of current, preemption enabled, no lock held. Does not sleep.
 */
void unwind_deferred_traced(void)
{
	unwind_deferred_at_hand(false);
}

/**
 * unwind_deferred_preempted - Walk the requested stack before current is preempted
 *
 * Until the task runs again, other threads may change its stack. Interrupts that come during
 * the walk are served, but do not preempt the task.
 *
 * Context: Task context of current on its way to user mode, interrupts disabled, no lock
 *	    held. Does not sleep. Enables interrupts meanwhile.
 */
void unwind_deferred_preempted(void)
{
	preempt_disable();
	local_irq_enable();
	unwind_deferred_at_hand(true);
	local_irq_disable();
	preempt_enable_no_resched();
}
