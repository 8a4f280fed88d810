// SPDX-License-Identifier: GPL-2.0
/*
 * A task keeps unwind_task_info::cache, @gprs and @rules between walks. The task frees
 * them when it exits, or when it finds that no client is left. Reclaim frees them when
 * the last client has gone or memory is short, because there may be many tasks that
 * sleep for long. Both take unwind_task_info::memory first:
 *
 *   task, in the deferred work		reclaim, any other task
 *
 *   FREE -> TASK, waits		FREE -> RECLAIM, or leaves the task alone
 *   walk, callbacks			take the pointers, to free them
 *   -> FREE			(A)	-> FREE
 *   no client left?		(B)
 *
 * In the state RECLAIM, only a few instructions run and preemption is disabled, so the
 * task does not wait for long. When the last client has gone, reclaim skips a task that
 * has not passed A yet. Such a task finds out at B that no client is left: task
 * and reclaim both have a full barrier between what they write and what they read.
 *
 * Requests in an IRQ or NMI on top of the task ignore @memory. Of the fields that it
 * guards they only use @gprs: they load the pointer once, with interrupts off, and the
 * memory is freed after an RCU grace period.
 *
 * A task that walks early (sleep.c), or is sampled in the scheduler, takes @memory without
 * waiting, and a flush takes that of a task that does not run. If the last client goes
 * meanwhile, they free the memory, except a sample in the scheduler, which cannot: that
 * memory is left until the task exits or memory is short.
 */
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/init.h>
#include <linux/overflow.h>
#include <linux/preempt.h>
#include <linux/processor.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

#include "reclaim.h"
#include "task_memory.h"

/* The profiled task would not have allocated this, so do not kill a task for it. */
#define UNWIND_DEFERRED_GFP	(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY)

/* How many bytes a task keeps between walks for its stack */
#define UNWIND_CACHE_KEEP		2048

/* For how many entries a task that is about to sleep allocates memory at most */
#define UNWIND_CACHE_NOWAIT		240U

/* In unwind_task_info::memory: who may free what the task keeps. */
enum unwind_memory {
	UNWIND_MEMORY_FREE,
	UNWIND_MEMORY_TASK,
	UNWIND_MEMORY_RECLAIM,
};

/* Number of caches that all tasks together keep. */
static atomic_long_t unwind_deferred_kept;

/* Fields of struct unwind_task_info that are about to be freed. */
struct unwind_task_memory {
	struct unwind_task_cache	*cache;
	struct unwind_task_gprs		*gprs;
	struct unwind_user_rules	*rules;
};

#ifdef CONFIG_UNWIND_USER_SFRAME

/**
 * struct unwind_task_gprs - General registers of a request
 * @gprs:	The registers
 * @known:	They are those of the pending request
 * @rcu:	To free them
 */
struct unwind_task_gprs {
	struct unwind_user_gprs	gprs;
	bool			known;
	struct rcu_head		rcu;
};

/**
 * unwind_deferred_keep_gprs - Store all registers of a new request
 * @info:	State of current
 * @regs:	The registers
 *
 * Without memory for them this does nothing. Reclaim may take the memory away at any
 * time, but it is not freed while interrupts are off.
 *
 * Context: Interrupts disabled. The request is claimed. Not traced.
 */
void notrace unwind_deferred_keep_gprs(struct unwind_task_info *info,
				       const struct pt_regs *regs)
{
	struct unwind_task_gprs *gprs = READ_ONCE(info->gprs);

	if (!gprs)
		return;

	arch_unwind_user_gprs(&gprs->gprs, regs);
	gprs->known = true;
}

/* Get all registers as they are now, if they are still those of the request. */
static bool unwind_deferred_current_gprs(const struct unwind_task_info *info,
					 struct unwind_user_gprs *gprs)
{
	const struct pt_regs *regs = current_pt_regs();
	struct unwind_user_regs now;

	guard(irqsave)();

	if (!arch_unwind_user_regs(&now, regs) ||
	    !unwind_user_regs_equal(&now, &info->regs))
		return false;

	arch_unwind_user_gprs(gprs, regs);
	return true;
}

/**
 * unwind_deferred_peek_gprs - Copy all registers of the pending request
 * @info:	State of current, which has taken its memory
 * @gprs:	Receives them
 *
 * Context: Task context of current. Does not sleep.
 * Return: false if they were not stored and have changed since.
 */
bool unwind_deferred_peek_gprs(const struct unwind_task_info *info,
			       struct unwind_user_gprs *gprs)
{
	if (!info->gprs)
		return unwind_deferred_current_gprs(info, gprs);
	if (!info->gprs->known)
		return false;

	*gprs = info->gprs->gprs;
	return true;
}

/**
 * unwind_deferred_task_gprs - Copy all registers of another task's pending request
 * @task:	The task. It is on no CPU and cannot start to run, and its memory is taken
 * @gprs:	Receives them
 *
 * Context: Any.
 * Return: false if they were not stored and have changed since.
 */
bool unwind_deferred_task_gprs(struct task_struct *task, struct unwind_user_gprs *gprs)
{
	const struct unwind_task_info *info = &task->unwind_info;
	struct pt_regs *regs = task_pt_regs(task);

	if (info->gprs) {
		*gprs = info->gprs->gprs;
		return info->gprs->known;
	}

	/* Only a 64-bit program has rules that need them. */
	if (info->regs.word_size != sizeof(u64) ||
	    info->regs.ip != instruction_pointer(regs) ||
	    info->regs.sp != user_stack_pointer(regs) ||
	    info->regs.fp != frame_pointer(regs))
		return false;

	arch_unwind_user_gprs(gprs, regs);
	return true;
}

/**
 * unwind_deferred_gprs - Get all registers of the pending request
 * @info:	State of current, which has taken its memory
 *
 * Context: Task context of current. Sleeps.
 * Return: the registers; NULL if they were not stored and have changed since.
 */
const struct unwind_user_gprs *unwind_deferred_gprs(struct unwind_task_info *info)
{
	struct unwind_task_gprs *gprs;

	if (!info->gprs) {
		gprs = kmalloc(sizeof(*gprs), UNWIND_DEFERRED_GFP | __GFP_ACCOUNT);
		if (gprs)
			gprs->known = unwind_deferred_current_gprs(info, &gprs->gprs);
		/* Complete before a request in an interrupt can write to it. */
		barrier();
		WRITE_ONCE(info->gprs, gprs);
	}

	gprs = info->gprs;

	return gprs && gprs->known ? &gprs->gprs : NULL;
}

/**
 * unwind_deferred_rules - Get the memory of current for rules
 * @info:	State of current, which has taken its memory
 *
 * Context: Task context of current. Sleeps.
 * Return: the memory. NULL if it cannot be allocated; the walk then uses frame
 *	   pointers only. Also NULL for 32-bit and x32 programs, which have no rules.
 */
struct unwind_user_rules *unwind_deferred_rules(struct unwind_task_info *info)
{
	/* A 64-bit program may have left memory before execve(). */
	if (arch_unwind_user_compat(current))
		return NULL;

	if (!info->rules) {
		WRITE_ONCE(info->rules, unwind_user_rules_alloc(UNWIND_DEFERRED_GFP |
								__GFP_ACCOUNT));
		if (info->rules)
			atomic_long_inc(&unwind_deferred_kept);
	}

	return info->rules;
}

static void unwind_deferred_forget_rules(struct unwind_task_info *info)
{
	if (info->rules)
		unwind_user_rules_reset(info->rules);
}

static void unwind_deferred_detach_rules(struct unwind_task_info *info,
					 struct unwind_task_memory *memory)
{
	memory->rules	= info->rules;
	memory->gprs	= info->gprs;

	if (info->rules)
		atomic_long_dec(&unwind_deferred_kept);
	WRITE_ONCE(info->rules, NULL);
	WRITE_ONCE(info->gprs, NULL);
}

static void unwind_deferred_free_rules(const struct unwind_task_memory *memory)
{
	unwind_user_rules_free(memory->rules);
	if (memory->gprs)
		kfree_rcu(memory->gprs, rcu);
}

#else /* !CONFIG_UNWIND_USER_SFRAME */

static void unwind_deferred_forget_rules(struct unwind_task_info *info) { }
static void unwind_deferred_detach_rules(struct unwind_task_info *info,
					 struct unwind_task_memory *memory)
{
}

static void unwind_deferred_free_rules(const struct unwind_task_memory *memory) { }

#endif /* CONFIG_UNWIND_USER_SFRAME */

/**
 * unwind_deferred_take_memory - Keep reclaim away from the memory of current
 * @info:	State of current
 *
 * Context: Task context of current.
 */
void unwind_deferred_take_memory(struct unwind_task_info *info)
{
	u8 memory = UNWIND_MEMORY_FREE;

	while (!try_cmpxchg(&info->memory, &memory, UNWIND_MEMORY_TASK)) {
		memory = UNWIND_MEMORY_FREE;
		cpu_relax();
	}
}

/**
 * unwind_deferred_try_memory - Keep reclaim away from the memory of a task, if it is free
 * @info:	State of current, or of a task that does not run and cannot wake up
 *
 * Context: Task context of current, or any. The caller may hold any lock. Current may own
 *	    the memory already.
 * Return: true if unwind_deferred_release_memory() has to be called.
 */
bool unwind_deferred_try_memory(struct unwind_task_info *info)
{
	u8 memory = UNWIND_MEMORY_FREE;

	return try_cmpxchg(&info->memory, &memory, UNWIND_MEMORY_TASK);
}

/**
 * unwind_deferred_release_memory - Undo unwind_deferred_take_memory(), or
 *				    unwind_deferred_try_memory()
 * @info:	State of the task whose memory was taken
 *
 * Context: As there.
 */
void unwind_deferred_release_memory(struct unwind_task_info *info)
{
	/* Whoever takes the memory next must see all changes to it. */
	smp_store_release(&info->memory, UNWIND_MEMORY_FREE);
}

/**
 * unwind_deferred_set_cache - Set the memory for the stack, and free the old memory
 * @info:	State of current, which has taken its memory
 * @cache:	The new memory, or NULL
 *
 * Context: Task context of current.
 */
void unwind_deferred_set_cache(struct unwind_task_info *info,
			       struct unwind_task_cache *cache)
{
	struct unwind_task_cache *old = info->cache;

	WRITE_ONCE(info->cache, cache);
	if (cache && !cache->on_stack)
		atomic_long_inc(&unwind_deferred_kept);
	if (old && !old->on_stack) {
		atomic_long_dec(&unwind_deferred_kept);
		kfree(old);
	}
}

/* Take all memory away from the task. The caller has taken @memory. */
static struct unwind_task_memory unwind_deferred_detach(struct unwind_task_info *info)
{
	struct unwind_task_memory memory = { .cache = info->cache, };

	if (info->cache && !info->cache->on_stack)
		atomic_long_dec(&unwind_deferred_kept);
	WRITE_ONCE(info->cache, NULL);
	unwind_deferred_detach_rules(info, &memory);

	return memory;
}

/* Not to be called with preemption disabled, because of PREEMPT_RT. */
static void unwind_deferred_free(const struct unwind_task_memory *memory)
{
	kfree(memory->cache);
	unwind_deferred_free_rules(memory);
}

/* Does the task keep anything? May miss what the task is just about to keep. */
static bool unwind_deferred_has_memory(const struct unwind_task_info *info)
{
#ifdef CONFIG_UNWIND_USER_SFRAME
	if (READ_ONCE(info->gprs) || READ_ONCE(info->rules))
		return true;
#endif
	return READ_ONCE(info->cache);
}

/**
 * unwind_deferred_reclaim_task - Free the memory of any task, unless it is in use
 * @info:	State of the task
 *
 * Context: Process context. Does not sleep.
 * Return: true if memory was freed.
 */
bool unwind_deferred_reclaim_task(struct unwind_task_info *info)
{
	struct unwind_task_memory detached;
	u8 memory = UNWIND_MEMORY_FREE;

	if (!unwind_deferred_has_memory(info))
		return false;

	scoped_guard(preempt) {
		if (!try_cmpxchg(&info->memory, &memory, UNWIND_MEMORY_RECLAIM))
			return false;

		detached = unwind_deferred_detach(info);
		unwind_deferred_release_memory(info);
	}
	unwind_deferred_free(&detached);

	return true;
}

/**
 * unwind_deferred_reclaim_tasks - Free the memory of all tasks that do not use it
 *
 * Context: Process context, also while memory is being reclaimed. Does not sleep.
 * Return: the number of tasks whose memory was freed.
 */
unsigned long unwind_deferred_reclaim_tasks(void)
{
	struct task_struct *process, *thread;
	unsigned long nr = 0;

	/* Pairs with B. */
	smp_mb();

	guard(rcu)();

	/* Tasks that have left the list free their memory themselves. */
	for_each_process_thread(process, thread)
		nr += unwind_deferred_reclaim_task(&thread->unwind_info);

	return nr;
}

/**
 * unwind_deferred_free_memory - Free everything that current keeps
 * @info:	State of current
 *
 * Context: Task context of current.
 */
void unwind_deferred_free_memory(struct unwind_task_info *info)
{
	struct unwind_task_memory memory;

	unwind_deferred_take_memory(info);
	memory = unwind_deferred_detach(info);
	unwind_deferred_release_memory(info);
	unwind_deferred_free(&memory);
}

/**
 * unwind_deferred_forget_memory - Forget the rules of current's old mm
 * @info:	State of current
 *
 * Context: Task context of current.
 */
void unwind_deferred_forget_memory(struct unwind_task_info *info)
{
	unwind_deferred_take_memory(info);
	unwind_deferred_forget_rules(info);
	unwind_deferred_release_memory(info);
}

/**
 * unwind_deferred_abandon_memory - Leak the memory of current
 * @info:	State of current, which may be inconsistent
 *
 * Nobody frees it, so reclaim should not look for it.
 *
 * Context: Task context of current.
 */
void unwind_deferred_abandon_memory(struct unwind_task_info *info)
{
	if (info->memory != UNWIND_MEMORY_TASK)
		unwind_deferred_take_memory(info);
	unwind_deferred_detach(info);
}

static struct unwind_task_cache *unwind_deferred_cache_alloc(unsigned int depth, gfp_t gfp)
{
	struct unwind_task_cache *cache;

	cache = kmalloc(struct_size(cache, entries, depth), gfp);
	if (!cache)
		return NULL;

	*cache = (struct unwind_task_cache) {
		.borrowed	= !(gfp & __GFP_ACCOUNT),
		.room		= depth,
	};

	return cache;
}

/**
 * unwind_deferred_cache - Get memory for a stack
 * @info:	State of current, which has taken its memory
 * @depth:	For how many entries
 *
 * If the memory cgroup is full, the memory is allocated without charging it, but only
 * kept for the walk. That is bounded: a task has at most one such buffer, for at most
 * UNWIND_USER_MAX_DEPTH entries.
 *
 * Context: Task context of current. Sleeps.
 * Return: the memory. If memory is lacking, it is for fewer entries, or NULL.
 */
struct unwind_task_cache *unwind_deferred_cache(struct unwind_task_info *info,
						unsigned int depth)
{
	struct unwind_task_cache *cache, *old = info->cache;
	unsigned int room = old ? old->room : 0;

	if (depth <= room)
		return old;

	cache = unwind_deferred_cache_alloc(depth, UNWIND_DEFERRED_GFP | __GFP_ACCOUNT);
	for (; !cache && depth > room; depth /= 2)
		cache = unwind_deferred_cache_alloc(depth, UNWIND_DEFERRED_GFP);
	if (!cache)
		return old;

	unwind_deferred_set_cache(info, cache);

	return cache;
}

/**
 * unwind_deferred_cache_nowait - Get memory for a stack where nothing may sleep
 * @info:	State of current, which has taken its memory
 * @depth:	For how many entries
 *
 * Context: Task context of current, which may be about to sleep.
 * Return: the memory, perhaps for fewer entries, or NULL.
 */
struct unwind_task_cache *unwind_deferred_cache_nowait(struct unwind_task_info *info,
						       unsigned int depth)
{
	struct unwind_task_cache *cache, *old = info->cache;

	if (old && (depth <= old->room || old->room >= UNWIND_CACHE_FEW))
		return old;

	cache = unwind_deferred_cache_alloc(min(depth, UNWIND_CACHE_NOWAIT),
					    GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC |
					    __GFP_ACCOUNT);
	if (!cache)
		return old;

	unwind_deferred_set_cache(info, cache);

	return cache;
}

/**
 * unwind_deferred_trim_memory - Free what is too large, or not charged, to be kept
 * @info:	State of current, which has taken its memory
 *
 * Context: Task context of current.
 */
void unwind_deferred_trim_memory(struct unwind_task_info *info)
{
	struct unwind_task_cache *cache = info->cache;

	if (cache && (cache->borrowed ||
		      struct_size(cache, entries, cache->room) > UNWIND_CACHE_KEEP))
		unwind_deferred_set_cache(info, NULL);
}

static unsigned long unwind_deferred_shrink_count(struct shrinker *shrinker,
						  struct shrink_control *sc)
{
	unsigned long nr = atomic_long_read(&unwind_deferred_kept) +
			   unwind_user_regions_count();

	return nr ?: SHRINK_EMPTY;
}

/* The search for tasks takes longer than freeing what they have: free all of it. */
static unsigned long unwind_deferred_shrink_scan(struct shrinker *shrinker,
						 struct shrink_control *sc)
{
	static atomic_t busy;
	unsigned long nr = 0;

	if (atomic_xchg_acquire(&busy, 1))
		return SHRINK_STOP;

	if (atomic_long_read(&unwind_deferred_kept))
		nr = unwind_deferred_reclaim_tasks();
	nr += unwind_user_regions_reclaim(sc->nr_to_scan);
	atomic_set_release(&busy, 0);

	return nr ?: SHRINK_STOP;
}

static int __init unwind_deferred_memory_init(void)
{
	struct shrinker *shrinker = shrinker_alloc(0, "unwind-deferred");

	if (!shrinker)
		return -ENOMEM;

	shrinker->count_objects = unwind_deferred_shrink_count;
	shrinker->scan_objects = unwind_deferred_shrink_scan;
	shrinker_register(shrinker);

	return 0;
}
core_initcall(unwind_deferred_memory_init);
