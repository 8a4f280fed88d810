// SPDX-License-Identifier: GPL-2.0
/*
 * User stacks for tracers that cannot wait
 *
 * perf samples that are not deferred, and programs of BPF, want the user stack in the
 * context of the sample, which may be an NMI. They get a walk by the rules that are at
 * hand, see unwind_user_walk_at_hand(). If a rule is missing, the task is asked to look
 * it up: a deferred walk, whose stack nobody wants, remembers all rules that it uses.
 * The next sample then has them.
 *
 * A program without sections and tables has no rules. Then the caller does what it
 * did before, and the task is asked only from time to time, because a table may have
 * come since. So is a task that was asked for a rule and has not found it.
 *
 * ======================= ============================== =========================
 * field                   written by                     under
 * ======================= ============================== =========================
 * unwind_immediate_memory the context level that has     the level's @busy; levels
 *                         set @busy                      nest on a CPU
 * unwind_task_info::asked task, IRQ, NMI: store          nothing: a lost store asks
 * and @missing                                           once more
 * unwind_immediate_users  process context                unwind_immediate_mutex
 * ======================= ============================== =========================
 */
#include <linux/cleanup.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_immediate.h>
#include <linux/unwind_user.h>

#include <asm/tlbflush.h>
#include <asm/unwind_user.h>

#include "immediate.h"
#include "requests.h"
#include "rules.h"
#include "shared.h"
#include "task_memory.h"

/* How often a thread is asked for the same rule, or whether its program has some now */
#define UNWIND_IMMEDIATE_INTERVAL	(HZ / 10 ?: 1)

/* Task, softirq, IRQ, NMI */
#define UNWIND_IMMEDIATE_LEVELS		4

/**
 * struct unwind_immediate_memory - Memory of a walk, which an NMI's stack has no room for
 * @busy:	It is in use. A tracepoint or fault in the walk may lead here again
 * @regs:	Where the walk starts
 * @gprs:	All general registers
 * @hand:	For the walk
 */
struct unwind_immediate_memory {
	bool				busy;
	struct unwind_user_regs		regs;
	struct unwind_user_gprs		gprs;
	struct unwind_user_hand		hand;
};

static DEFINE_PER_CPU(struct unwind_immediate_memory[UNWIND_IMMEDIATE_LEVELS],
		      unwind_immediate_memory);

static int sysctl_unwind_user_immediate __read_mostly = 1;

/* Protects the number of users, and enabling with the first of them. */
static DEFINE_MUTEX(unwind_immediate_mutex);
static unsigned int unwind_immediate_users;

/* Its stacks are not for anybody: the walk is what counts. */
static void unwind_immediate_looked_up(struct unwind_deferred_client *client,
				       const struct unwind_user_trace *trace, u64 cookie)
{
	/* Walks at hand may have filled what there is. */
	if (is_user_task(current))
		unwind_user_shared_grow();
}

static struct unwind_deferred_client unwind_immediate_client __ro_after_init = {
	.callback = unwind_immediate_looked_up,
	.in_uprobe = true,
	.id = -1,
};

/*
 * Let current look up the rules of @depth frames of its stack before it returns to user mode.
 * @missing is the address whose rule is missing, or 0 if the program has no rules.
 *
 * Return: true if it will, or was asked a moment ago.
 */
static bool unwind_immediate_ask(const struct pt_regs *regs, unsigned long missing,
				 unsigned int depth)
{
	struct unwind_task_info *info = &current->unwind_info;
	u32 now = jiffies, asked = READ_ONCE(info->asked);
	u64 cookie;

	if (unwind_immediate_client.id < 0)
		return false;

	if (asked && now - asked < UNWIND_IMMEDIATE_INTERVAL &&
	    missing == READ_ONCE(info->missing))
		return true;

	/* It may fail, for example if the task exits. Another sample asks again. */
	if (unwind_deferred_request(&unwind_immediate_client, regs, depth, &cookie))
		return false;

	WRITE_ONCE(info->missing, missing);
	WRITE_ONCE(info->asked, now ?: 1);
	return true;
}

/* Take this CPU's memory for the present context. Preemption is disabled. */
static struct unwind_immediate_memory *unwind_immediate_memory_get(void)
{
	struct unwind_immediate_memory *memory;

	memory = this_cpu_ptr(&unwind_immediate_memory[interrupt_context_level()]);
	if (memory->busy)
		return NULL;

	WRITE_ONCE(memory->busy, true);
	barrier();
	return memory;
}

static void unwind_immediate_memory_put(struct unwind_immediate_memory *memory)
{
	barrier();
	WRITE_ONCE(memory->busy, false);
}

/**
 * unwind_immediate_fill - Walk the stack of the pending request with what is at hand
 * @info:	State of current, which has taken its memory
 * @cache:	Receives the stack
 * @max:	How many entries at most
 *
 * Context: Task context of current. Does not sleep.
 * Return: false if a walk that may sleep could find more.
 */
bool unwind_immediate_fill(struct unwind_task_info *info,
			   struct unwind_task_cache *cache, unsigned int max)
{
	struct unwind_immediate_memory *memory;
	bool whole, known, full;

	guard(preempt_notrace)();

	if (!is_user_task(current) || !nmi_uaccess_okay())
		return false;

	memory = unwind_immediate_memory_get();
	if (!memory)
		return false;

	known = unwind_deferred_peek_gprs(info, &memory->gprs);
	memory->hand.requested = true;
	cache->end = unwind_user_walk_at_hand(&memory->hand, &info->regs,
					      known ? &memory->gprs : NULL, info->rules,
					      cache->entries, max, &cache->nr);
	memory->hand.requested = false;
	whole = !memory->hand.missed;
	full = memory->hand.full;
	unwind_immediate_memory_put(memory);
	if (full)
		unwind_immediate_ask(current_pt_regs(), 0, 1);

	return whole;
}

/**
 * unwind_immediate - Take the user stack of current now, by the rules at hand
 * @regs:	User mode registers of current, all of them
 * @entries:	As for unwind_user_walk()
 * @max:	Room in @entries
 *
 * Context: Any, including NMI, between unwind_immediate_get() and
 *	    unwind_immediate_put(). Waits for no lock and does not sleep.
 * Return: The number of @entries filled, at least 1, or why the caller should follow
 *	   frame pointers:
 *
 * * -EOPNOTSUPP - A sysctl disables this
 * * -EINVAL - The task is not a 64-bit program, or the instruction pointer is not one of
 *	       user mode
 * * -EFAULT - The memory of current->mm cannot be read in this context
 * * -ENOENT - There are no rules for this program
 * * -EBUSY - This has interrupted such a walk in the same context
 */
int unwind_immediate(const struct pt_regs *regs, unsigned long *entries,
		     unsigned int max)
{
	struct unwind_immediate_memory *memory;
	bool known, shared;
	unsigned int nr;
	int ret;

	if (!READ_ONCE(sysctl_unwind_user_immediate))
		return -EOPNOTSUPP;

	guard(preempt_notrace)();

	if (!is_user_task(current) || !nmi_uaccess_okay())
		return -EFAULT;

	if (arch_unwind_user_compat(current))
		return -EINVAL;

	/* Tables tell enough about a program that nobody has looked at yet, but will. */
	shared = unwind_user_is_shared();
	if (!shared && (!unwind_immediate_ask(regs, 0, max) || !unwind_tables_exist() ||
			READ_ONCE(current->mm->unwind_regions)))
		return -ENOENT;

	memory = unwind_immediate_memory_get();
	if (!memory)
		return -EBUSY;

	scoped_guard(irqsave) {
		known = arch_unwind_user_regs(&memory->regs, regs);
		arch_unwind_user_gprs(&memory->gprs, regs);
	}

	ret = -EINVAL;
	if (known && memory->regs.word_size == sizeof(unsigned long) &&
	    memory->regs.ip < TASK_SIZE_MAX) {
		unwind_user_walk_at_hand(&memory->hand, &memory->regs, &memory->gprs,
					 NULL, entries, max, &nr);
		ret = nr;
		if (shared && (memory->hand.missed || memory->hand.full))
			unwind_immediate_ask(regs, memory->hand.missed, max);
	}

	unwind_immediate_memory_put(memory);

	return ret;
}

/**
 * unwind_immediate_whole - Take the user stack of current now, if it is all at hand
 * @regs:	User mode registers of current, all of them
 * @entries:	As for unwind_user_walk()
 * @max:	Room in @entries
 *
 * For a client of deferral whose task is just going to sleep: see
 * unwind_deferred_sleep().
 *
 * If the last client goes meanwhile, what the task keeps is left to the shrinker: the lock of
 * the run queue may be held here.
 *
 * Context: Any. Waits for no lock and does not sleep.
 * Return: The number of @entries filled, up to the outermost frame. -EAGAIN if a
 *	   deferred walk may find more, or if this is not task context.
 */
int unwind_immediate_whole(const struct pt_regs *regs, unsigned long *entries,
			   unsigned int max)
{
	struct unwind_task_info *info = &current->unwind_info;
	struct unwind_immediate_memory *memory;
	enum unwind_user_end end;
	bool full = false;
	unsigned int nr;
	int ret = -EAGAIN;

	if (!READ_ONCE(sysctl_unwind_user_immediate))
		return -EAGAIN;

	guard(preempt_notrace)();

	if (!in_task() || !is_user_task(current) || !nmi_uaccess_okay() ||
	    info->barred != UNWIND_BARRED_NOT || unwind_deferred_in_uprobe() ||
	    !unwind_deferred_try_memory(info))
		return -EAGAIN;

	memory = unwind_immediate_memory_get();
	if (!memory)
		goto out;

	scoped_guard(irqsave) {
		if (!arch_unwind_user_regs(&memory->regs, regs))
			goto put;
		arch_unwind_user_gprs(&memory->gprs, regs);
	}

	end = unwind_user_walk_at_hand(&memory->hand, &memory->regs, &memory->gprs,
				       info->rules, entries, max, &nr);
	if (!memory->hand.missed && end == UNWIND_USER_END_OUTERMOST)
		ret = nr;
	full = memory->hand.full;
put:
	unwind_immediate_memory_put(memory);
	if (ret >= 0 && full)
		unwind_immediate_ask(regs, 0, 1);
out:
	unwind_deferred_release_memory(info);
	return ret;
}

/**
 * unwind_immediate_get - Somebody will call unwind_immediate()
 *
 * From now on tasks can be asked for rules. May be called early in boot.
 *
 * Context: Process context. Sleeps.
 */
void unwind_immediate_get(void)
{
	guard(mutex)(&unwind_immediate_mutex);

	if (!unwind_immediate_users++ && unwind_immediate_client.id >= 0)
		unwind_deferred_enable();
}

/**
 * unwind_immediate_put - Undo unwind_immediate_get()
 *
 * Context: Process context. Sleeps.
 */
void unwind_immediate_put(void)
{
	guard(mutex)(&unwind_immediate_mutex);

	if (!--unwind_immediate_users && unwind_immediate_client.id >= 0)
		unwind_deferred_disable();
}

static struct ctl_table unwind_immediate_sysctls[] = {
	{
		.procname	= "unwind_user_immediate",
		.data		= &sysctl_unwind_user_immediate,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= proc_dointvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

static int __init unwind_immediate_init(void)
{
	register_sysctl_init("kernel", unwind_immediate_sysctls);

	guard(mutex)(&unwind_immediate_mutex);

	if (!unwind_deferred_register(&unwind_immediate_client) &&
	    unwind_immediate_users)
		unwind_deferred_enable();

	return 0;
}
core_initcall(unwind_immediate_init);
