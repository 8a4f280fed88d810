// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred unwinding of user stacks
 *
 * A profiler that takes a sample in an interrupt or NMI asks for the user stack
 * here and gets a cookie to store in the sample. Before the task returns to user
 * mode the stack is walked once, in task context, and the callbacks of all
 * clients that asked receive it with the cookie.
 *
 * Life of a request
 * -----------------
 *
 *   request             any context, interrupts off
 *     |   0 -> CLAIMED       draw a cookie, keep the user registers, queue the
 *     |                      task work
 *     |   CLAIMED -> PENDING | client
 *     |
 *   more requests       same registers: same cookie, | client
 *     |
 *   task work           walk the stack; requests still join in
 *     |   PENDING -> 0       the clients that asked count as served
 *     |
 *     +-- callbacks
 *     |
 *   more requests       same registers, so it is the same stack: same cookie
 *     |   0 -> CLAIMED -> 0  of a served client; nothing else is done
 *     |   0 -> CLAIMED -> PENDING | client
 *     |                      of another client: queue the task work, which calls
 *     |                      this client only, and does not walk again as long as
 *     |                      there is memory to keep the stack
 *     |
 *   user mode           the stack is none of the next kernel entry
 *
 * A cookie thus stands for one stack in one kernel entry, and each client receives
 * it once. What a client writes to may depend on the CPU, so it is delivered again,
 * with the same cookie, if the task has moved to another one; and with a new cookie
 * if unwind_deferred_renew() was called or a client has gone. A stack that was cut at
 * its depth is another one than the deeper stack that a later request wants.
 *
 * The task work runs wherever the kernel runs task work: on return to user mode,
 * but also before entering a guest, and in some long system calls.
 *
 * Which stack: the one at the request. The registers are copied then, as system
 * calls (rt_sigreturn), debuggers and uprobes may change them until the work
 * runs. A request that finds other registers than those of the pending one is
 * refused.
 *
 * Nesting
 * -------
 *
 * Requests run with interrupts off, hence only an NMI can come in between.
 *
 * - @request is 0, read by an outer request: an NMI may claim and publish before
 *   the outer cmpxchg. That fails, and the outer request joins.
 * - @request is CLAIMED: @cookie, @regs, @epoch and @served belong to the outer
 *   request. The NMI's request is refused; nobody waits.
 * - @request is PENDING: @cookie, @regs and @epoch stay as they are until the task
 *   work retires the request. It runs in task context, below all of them, so a
 *   request that saw PENDING can rely on them until it returns. The task work alone
 *   writes @served.
 * - In the task work, before the cmpxchg to 0: a request joins, the cmpxchg fails,
 *   and @served is written again; unless the walk is over and was not deep enough
 *   for it. After the cmpxchg: it claims, and finds itself in @served or not. The
 *   work is off the task's list by then and can be queued again; task_work_run()
 *   looks at the list until it is empty.
 * - In the task work, after the cmpxchg, a request with other registers may
 *   overwrite all of these at any time. The work has its copy of what it needs.
 * - On return to user mode, between the last look at @request and the store to
 *   @rounds: a request claims. If it was given the cookie of a stack that was
 *   delivered, so it was in time. If it is pending, its interrupt brings the task
 *   back before it runs user code.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/processor.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/sysctl.h>
#include <linux/task_work.h>
#include <linux/threads.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>
#include <linux/workqueue.h>

#include <asm/unwind_user.h>

#include "rules.h"

/* Bits of unwind_task_info::request; the lower ones are clients. */
#define UNWIND_REQUEST_PENDING		BIT(BITS_PER_LONG - 1)
#define UNWIND_REQUEST_CLAIMED		BIT(BITS_PER_LONG - 2)

/* In unwind_task_info::depth: it says how deep a request can still get. */
#define UNWIND_DEPTH_WALKED		BIT(31)

/* The other bits. Each tracing instance with deferred user stacks is a client. */
#define UNWIND_MAX_CLIENTS		(BITS_PER_LONG - 2)

/*
 * How many deliveries one kernel entry can have. Each is for other registers, a
 * deeper stack, a client without it, or on another CPU, so there are few. The
 * limit is for what nobody has thought of: without it the task might never leave
 * the kernel.
 */
#define UNWIND_MAX_ROUNDS		64

/*
 * How many there can be of a stack that only has a new epoch. Users without privileges
 * can make epochs, as often as they enable an event, and should not have the tasks of
 * others come back to work for it.
 */
#define UNWIND_MAX_RENEWED		4

/*
 * How many there can be of a stack that only has a new epoch. Users without privileges
 * can make epochs, as often as they enable an event, and should not have the tasks of
 * others come back to work for it.
 */
#define UNWIND_MAX_RENEWED		4

/*
 * What a task keeps between walks for its stack, in bytes, and the entries of the
 * memory on the kernel stack that is used when there is no other.
 */
#define UNWIND_CACHE_KEEP		2048
#define UNWIND_CACHE_FEW		48

/* How long after the last client has gone memory is freed: another may come. */
#define UNWIND_RECLAIM_DELAY		(HZ / 4)

/* The profiled task would not have allocated: do not kill it for that. */
#define UNWIND_DEFERRED_GFP	(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY)

/* In unwind_task_info::memory: who may free what the task keeps. */
enum unwind_memory {
	UNWIND_MEMORY_FREE,
	UNWIND_MEMORY_TASK,
	UNWIND_MEMORY_RECLAIM,
};

/**
 * struct unwind_task_cache - The stack that was walked last
 * @borrowed:	It is not to be kept: it is on the kernel stack, or not charged
 * @on_stack:	It is not to be freed
 * @filled:	It holds a stack: not so if the memory that did has gone meanwhile
 * @room:	How many @entries fit
 * @nr:		How many there are
 * @end:	Why there are no more
 * @entries:	The stack
 *
 * Read and written by the task itself, in task context. It holds the stack of
 * unwind_task_info::regs while unwind_task_info::depth says so.
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

/* How long returns to user mode go on to clear the rounds when nobody asks. */
#define UNWIND_KEY_TIMEOUT		HZ

/*
 * Returns to user mode clear the rounds. Sessions that come and go do not patch
 * the code each time: it goes off some time after the last one.
 */
DEFINE_STATIC_KEY_DEFERRED_FALSE(unwind_deferred_key, UNWIND_KEY_TIMEOUT);
EXPORT_SYMBOL_GPL(unwind_deferred_key);

/*
 * Protects registering and the variable below it. unwind_deferred_users is written
 * under it, too, and read by requests.
 */
static DEFINE_MUTEX(unwind_deferred_mutex);
static unsigned long unwind_deferred_ids;
static unsigned int unwind_deferred_users;

/*
 * A stack that was delivered under another value does not count as delivered.
 * Incremented when a client goes, as the next client may get its bit; when the
 * first user comes, as rounds were not cleared on return to user mode before; and
 * by unwind_deferred_renew(). Written in any context.
 */
static atomic_long_t unwind_deferred_epoch;

/*
 * Written under unwind_deferred_mutex. Read by requests with interrupts disabled
 * (RCU), and by the deferred work under unwind_deferred_srcu.
 */
static struct unwind_deferred_client *unwind_deferred_clients[UNWIND_MAX_CLIENTS];
DEFINE_STATIC_SRCU(unwind_deferred_srcu);

/* kernel.unwind_user_deferred */
static int sysctl_unwind_user_deferred __read_mostly = 1;

static DEFINE_PER_CPU(unsigned long, unwind_deferred_count);

/* The way out of the interrupt is what is wanted of it. */
static void unwind_deferred_kicked(struct irq_work *work) { }

static DEFINE_PER_CPU(struct irq_work, unwind_deferred_irq_work) =
	IRQ_WORK_INIT_HARD(unwind_deferred_kicked);

/*
 * Unique on the system: a count per CPU, and the CPU. Never 0. The count wraps
 * after 2^48 requests of one CPU, when nobody remembers the first ones.
 */
static u64 unwind_deferred_new_cookie(void)
{
	BUILD_BUG_ON(BIT(16) <= CONFIG_NR_CPUS);

	/* One instruction where it matters, so an NMI draws another number. */
	return ((u64)this_cpu_inc_return(unwind_deferred_count) << 16) |
	       (smp_processor_id() + 1);
}

/* May current ask now, from this context? The errors are those of the request. */
static notrace int unwind_deferred_may_request(const struct unwind_task_info *info)
{
	/* Pairs with unwind_deferred_enable(). */
	if (!smp_load_acquire(&unwind_deferred_users) ||
	    !READ_ONCE(sysctl_unwind_user_deferred))
		return -EOPNOTSUPP;

	/* The task could not be brought back from its last steps to user mode. */
	if (!arch_irq_work_has_interrupt())
		return -EOPNOTSUPP;

	if (!is_user_task(current))
		return -EINVAL;

	if (info->barred == UNWIND_BARRED_EXEC)
		return -ESTALE;

	if (current->flags & PF_EXITING || info->barred == UNWIND_BARRED_DEAD)
		return -ESRCH;

	/*
	 * Past the last look at the task's work. In an NMI it would be brought back
	 * before it runs user code, but here interrupts stay disabled until then.
	 */
	if (info->barred == UNWIND_BARRED_LEAVING && in_task())
		return -EBUSY;

#ifdef CONFIG_UPROBES
	/*
	 * A uprobe is being handled: the instruction that will run next is not
	 * at ip but in the area for single stepping.
	 */
	if (current->utask &&
	    (current->utask->auprobe || current->utask->active_uprobe))
		return -EBUSY;
#endif

	return 0;
}

/* How many @cache and @rules tasks keep, all together. */
static atomic_long_t unwind_deferred_kept;

/* Some of struct unwind_task_info, on the way to be freed. */
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

/*
 * Keep all registers of a new request if there is memory for them. That may be taken
 * away at any time, but not be freed while interrupts are off.
 */
static void unwind_deferred_keep_gprs(struct unwind_task_info *info,
				      const struct pt_regs *regs)
{
	struct unwind_task_gprs *gprs = READ_ONCE(info->gprs);

	if (!gprs)
		return;

	arch_unwind_user_gprs(&gprs->gprs, regs);
	gprs->known = true;
}

/* All registers as they are now, if they are still those of the request. */
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

static void unwind_deferred_alloc_rules(struct unwind_task_info *info, gfp_t gfp)
{
	WRITE_ONCE(info->rules, unwind_user_rules_alloc(gfp));
	if (info->rules)
		atomic_long_inc(&unwind_deferred_kept);
}

/* Walk the stack of the pending request: no other request writes the registers. */
static enum unwind_user_end unwind_deferred_stack(struct unwind_task_info *info,
						  struct unwind_task_cache *cache,
						  unsigned int max)
{
	struct unwind_task_gprs *gprs;
	const gfp_t gfp = UNWIND_DEFERRED_GFP | __GFP_ACCOUNT;

	/*
	 * Without memory there is less to go by. The rules need it most; there
	 * are none for 32-bit and x32 programs.
	 */
	if (!info->rules && !arch_unwind_user_compat())
		unwind_deferred_alloc_rules(info, gfp);

	if (!info->gprs) {
		gprs = kmalloc(sizeof(*gprs), gfp);
		if (gprs)
			gprs->known = unwind_deferred_current_gprs(info, &gprs->gprs);
		/* Complete before a request in an interrupt can write to it. */
		barrier();
		WRITE_ONCE(info->gprs, gprs);
	}

	gprs = info->gprs;

	return unwind_user_walk(&info->regs, gprs && gprs->known ? &gprs->gprs : NULL,
				info->rules, cache->entries, max, &cache->nr);
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

static void unwind_deferred_keep_gprs(struct unwind_task_info *info,
				      const struct pt_regs *regs)
{
}

static void unwind_deferred_forget_rules(struct unwind_task_info *info) { }
static void unwind_deferred_detach_rules(struct unwind_task_info *info,
					 struct unwind_task_memory *memory)
{
}

static void unwind_deferred_free_rules(const struct unwind_task_memory *memory) { }

static enum unwind_user_end unwind_deferred_stack(struct unwind_task_info *info,
						  struct unwind_task_cache *cache,
						  unsigned int max)
{
	return unwind_user_walk(&info->regs, NULL, NULL, cache->entries, max,
				&cache->nr);
}

#endif /* CONFIG_UNWIND_USER_SFRAME */

/*
 * Has the stack that is asked for been delivered in this kernel entry, to whoever
 * asked? @info->request is UNWIND_REQUEST_CLAIMED by the caller.
 */
static notrace bool unwind_deferred_same(const struct unwind_task_info *info,
					 const struct unwind_user_regs *uregs,
					 unsigned int depth)
{
	return info->rounds && info->depth & UNWIND_DEPTH_WALKED &&
	       (info->depth & ~UNWIND_DEPTH_WALKED) >= depth &&
	       unwind_user_regs_equal(&info->regs, uregs);
}

/*
 * Set up a request; @info->request is UNWIND_REQUEST_CLAIMED.
 *
 * Return: 0 if a callback has to follow, 1 if the client has had it, or an error.
 */
static notrace int unwind_deferred_claimed(struct unwind_task_info *info,
					   const struct pt_regs *regs,
					   const struct unwind_user_regs *uregs,
					   unsigned long mine, unsigned int depth)
{
	enum task_work_notify_mode mode;
	u8 max = UNWIND_MAX_ROUNDS;
	bool renewed = true;

	if (unwind_deferred_same(info, uregs, depth)) {
		renewed = info->epoch != atomic_long_read(&unwind_deferred_epoch);
		if (!renewed && info->served & mine && info->cpu == smp_processor_id())
			return 1;
		max = renewed ? UNWIND_MAX_RENEWED : UNWIND_MAX_ROUNDS;
	}

	if (info->rounds >= max)
		return -EBUSY;

	if (renewed) {
		info->cookie	= unwind_deferred_new_cookie();
		info->epoch	= atomic_long_read(&unwind_deferred_epoch);
		info->regs	= *uregs;
		info->depth	= depth;
		info->served	= 0;
		unwind_deferred_keep_gprs(info, regs);
	}

	/* TWAF_NO_ALLOC: the run queue lock may be held. */
	mode = in_nmi() ? TWA_NMI_CURRENT : TWA_RESUME | TWAF_NO_ALLOC;

	return task_work_add(current, &info->work, mode);
}

/**
 * unwind_deferred_request - Ask for the user stack of the current task
 * @client:	Who asks
 * @regs:	User mode registers of current
 * @depth:	How many entries are wanted; a client that shares the request may
 *		want, and thereby bring, more
 * @cookie:	Receives the cookie that will be given to the callback
 *
 * The client's callback will be called with this cookie before the task returns
 * to user mode, or when it exits, unless it has been called with it already:
 * requests of one kernel entry with the same registers share one cookie, whether
 * they come before or after the stack was delivered.
 *
 * On an error no callback follows, and the caller falls back to whatever it can
 * find out about the user stack by itself.
 *
 * Context: Any, including NMI, and with any lock held. Does not sleep nor
 *	    allocate. Not traced: the function tracer may ask at each function.
 * Return:
 * * 0		- Asked; @cookie is set
 * * -EOPNOTSUPP - Nobody called unwind_deferred_enable(), it is switched off by
 *		  sysctl, or the machine has no interrupts to itself
 * * -EINVAL	- No user task, or a mode that cannot be unwound
 * * -ESRCH	- The task is exiting
 * * -ESTALE	- The task is in execve(): its user registers are those of the old
 *		  program, so no user stack can be found by any method
 * * -EBUSY	- This context may not ask now: a uprobe is being handled, a
 *		  request was interrupted, a walk ended too early for this one,
 *		  the task is past its last work before user mode, or there were
 *		  too many deliveries since the kernel was entered
 * * -EAGAIN	- A request from other user registers is pending, or one that is
 *		  older than @client
 * * -ENOENT	- @client is not registered
 */
int notrace unwind_deferred_request(struct unwind_deferred_client *client,
				    const struct pt_regs *regs,
				    unsigned int depth, u64 *cookie)
{
	struct unwind_task_info *info = &current->unwind_info;
	struct unwind_user_regs uregs;
	unsigned long request, mine;
	unsigned int old_depth;
	int ret, id;

	guard(irqsave)();

	ret = unwind_deferred_may_request(info);
	if (ret)
		return ret;

	id = READ_ONCE(client->id);
	if (id < 0 || READ_ONCE(unwind_deferred_clients[id]) != client)
		return -ENOENT;

	mine = BIT(id);
	depth = clamp(depth, 1U, UNWIND_USER_MAX_DEPTH);

	if (!arch_unwind_user_regs(&uregs, regs))
		return -EINVAL;

	request = 0;
	if (try_cmpxchg(&info->request, &request, UNWIND_REQUEST_CLAIMED)) {
		ret = unwind_deferred_claimed(info, regs, &uregs, mine, depth);
		if (ret >= 0)
			*cookie = info->cookie;
		/* Compiler barrier: an NMI that sees PENDING reads the rest. */
		barrier();
		WRITE_ONCE(info->request, ret ? 0 : UNWIND_REQUEST_PENDING | mine);
		return min(ret, 0);
	}

	if (request & UNWIND_REQUEST_CLAIMED)
		return -EBUSY;

	if (!unwind_user_regs_equal(&uregs, &info->regs))
		return -EAGAIN;

	/* Its bit may be set in there by a client that went before it came. */
	if (client->born > info->epoch)
		return -EAGAIN;

	old_depth = READ_ONCE(info->depth);
	do {
		if (old_depth & UNWIND_DEPTH_WALKED) {
			/* Too late to go deeper. */
			if (depth > (old_depth & ~UNWIND_DEPTH_WALKED))
				return -EBUSY;
			break;
		}
		if (depth <= old_depth)
			break;
	} while (!try_cmpxchg(&info->depth, &old_depth, depth));

	/* An NMI may add its bit. */
	while (!(request & mine)) {
		if (try_cmpxchg(&info->request, &request, request | mine))
			break;
	}

	*cookie = info->cookie;
	return 0;
}
EXPORT_SYMBOL_GPL(unwind_deferred_request);

/* ---- Memory ---------------------------------------------------------------- */

/*
 * What a task keeps between walks: unwind_task_info::cache, and for rules @gprs and
 * @rules. It is freed by the task, when it exits or finds that no client is left, and
 * by reclaim, when the last client has gone or memory is short: there may be many
 * tasks that sleep for long. Who wants to free takes unwind_task_info::memory first:
 *
 *   task, in the deferred work		reclaim, any other task
 *
 *   FREE -> TASK, waits		FREE -> RECLAIM, or leaves the task alone
 *   walk, callbacks			take the pointers, to free them
 *   -> FREE			(A)	-> FREE
 *   no client left?		(B)
 *
 * Reclaim only does a few instructions and cannot be preempted in them, so the task
 * waits for no long time. When the last client has gone and reclaim comes across a task
 * that is at A or before, the task finds that out at B: both have a full barrier between
 * what they write and what they read.
 *
 * Requests in an IRQ or NMI on top of the task take no notice of this. They load a
 * pointer once, and interrupts are off, so that it stays good while they use it.
 */

static void unwind_deferred_take_memory(struct unwind_task_info *info)
{
	u8 memory = UNWIND_MEMORY_FREE;

	while (!try_cmpxchg(&info->memory, &memory, UNWIND_MEMORY_TASK)) {
		memory = UNWIND_MEMORY_FREE;
		cpu_relax();
	}
}

static void unwind_deferred_release_memory(struct unwind_task_info *info)
{
	/* Who takes it next sees what was done to it. */
	smp_store_release(&info->memory, UNWIND_MEMORY_FREE);
}

static void unwind_deferred_set_cache(struct unwind_task_info *info,
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

/* Take all of it away from the task. The caller has taken @memory. */
static struct unwind_task_memory unwind_deferred_detach(struct unwind_task_info *info)
{
	struct unwind_task_memory memory = { .cache = info->cache, };

	if (info->cache && !info->cache->on_stack)
		atomic_long_dec(&unwind_deferred_kept);
	WRITE_ONCE(info->cache, NULL);
	unwind_deferred_detach_rules(info, &memory);

	return memory;
}

/* Not with preemption disabled, for PREEMPT_RT. */
static void unwind_deferred_free(const struct unwind_task_memory *memory)
{
	kfree(memory->cache);
	unwind_deferred_free_rules(memory);
}

/* Does the task keep anything? What it is about to keep may be missed. */
static bool unwind_deferred_has_memory(const struct unwind_task_info *info)
{
#ifdef CONFIG_UNWIND_USER_SFRAME
	if (READ_ONCE(info->gprs) || READ_ONCE(info->rules))
		return true;
#endif
	return READ_ONCE(info->cache);
}

/*
 * Free the memory of any task, unless it is at work.
 *
 * Return: whether it had some.
 */
static bool unwind_deferred_reclaim_task(struct unwind_task_info *info)
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

/* Return: the number of tasks that had memory. */
static unsigned long unwind_deferred_reclaim_tasks(void)
{
	struct task_struct *process, *thread;
	unsigned long nr = 0;

	/* Pairs with B. */
	smp_mb();

	guard(rcu)();

	/* Tasks that are not on the list any more free theirs themselves. */
	for_each_process_thread(process, thread)
		nr += unwind_deferred_reclaim_task(&thread->unwind_info);

	return nr;
}

static void unwind_deferred_reclaim_work(struct work_struct *work)
{
	if (READ_ONCE(unwind_deferred_users))
		return;

	unwind_deferred_reclaim_tasks();
	unwind_user_sections_reclaim(ULONG_MAX);
}

static DECLARE_DELAYED_WORK(unwind_deferred_reclaim, unwind_deferred_reclaim_work);

static unsigned long unwind_deferred_shrink_count(struct shrinker *shrinker,
						  struct shrink_control *sc)
{
	unsigned long nr = atomic_long_read(&unwind_deferred_kept) +
			   unwind_user_sections_count();

	return nr ?: SHRINK_EMPTY;
}

/* Looking for tasks takes longer than freeing what they have: free all of it. */
static unsigned long unwind_deferred_shrink_scan(struct shrinker *shrinker,
						 struct shrink_control *sc)
{
	static atomic_t busy;
	unsigned long nr = 0;

	if (atomic_xchg_acquire(&busy, 1))
		return SHRINK_STOP;

	if (atomic_long_read(&unwind_deferred_kept))
		nr = unwind_deferred_reclaim_tasks();
	nr += unwind_user_sections_reclaim(sc->nr_to_scan);
	atomic_set_release(&busy, 0);

	return nr ?: SHRINK_STOP;
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

/*
 * Memory for @depth entries; for fewer, or NULL, if there is no more to be had.
 *
 * A memory cgroup that is full gets it for the length of the walk: its tasks hang
 * together with their kernel stacks, which are larger and charged.
 */
static struct unwind_task_cache *unwind_deferred_cache(struct unwind_task_info *info,
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

/*
 * Walk to @depth, or as far as there is memory for.
 *
 * Return: how deep a request may be that this walk is good for.
 */
static unsigned int unwind_deferred_fill(struct unwind_task_info *info,
					 unsigned int depth)
{
	struct unwind_task_cache *cache = unwind_deferred_cache(info, depth);
	unsigned int max = min(depth, cache->room);

	cache->end = unwind_deferred_stack(info, cache, max);
	cache->filled = true;

	if (cache->end == UNWIND_USER_END_CUT && max == depth)
		return max;

	/* Neither can more be had later of a stack that lacks memory. */
	if (cache->end == UNWIND_USER_END_CUT)
		cache->end = UNWIND_USER_END_NOMEM;

	return UNWIND_USER_MAX_DEPTH;
}

/*
 * Get the stack of the pending request, unless it is the one that was delivered
 * last and is still there; after this none can ask for more of it. There is a cache.
 */
static void unwind_deferred_walk(struct unwind_task_info *info)
{
	unsigned int depth, walked;

	/*
	 * A request that joins during the walk may want a deeper stack: then
	 * walk again. When all are satisfied, say how deep the stack goes.
	 */
	depth = READ_ONCE(info->depth);
	while (!(depth & UNWIND_DEPTH_WALKED)) {
		walked = unwind_deferred_fill(info, depth);
		if (try_cmpxchg(&info->depth, &depth, walked | UNWIND_DEPTH_WALKED))
			return;
	}

	if (info->cache->filled)
		return;

	/* The memory has gone. @depth is for any stack if this one ended by itself. */
	depth &= ~UNWIND_DEPTH_WALKED;
	for (walked = UNWIND_CACHE_FEW; walked < depth; walked *= 4) {
		if (unwind_deferred_fill(info, walked) != walked)
			return;
	}
	unwind_deferred_fill(info, depth);
}

/*
 * Serve the pending request.
 *
 * Context: Task context of current, interrupts enabled, no lock held. Sleeps. There
 *	    is a cache, and unwind_task_info::memory is the task's.
 */
static void unwind_deferred_run(struct unwind_task_info *info)
{
	struct unwind_deferred_client *client;
	struct unwind_user_trace trace;
	unsigned long request, served, epoch;
	u64 cookie;
	int id;

	unwind_deferred_walk(info);
	trace.nr	= info->cache->nr;
	trace.end	= info->cache->end;
	trace.entries	= info->cache->entries;

	if (info->rounds < U8_MAX)
		info->rounds++;

	/*
	 * Before the cmpxchg: once the bits are taken, unregistering can only
	 * wait for them. Not around the walk, which may take long.
	 */
	scoped_guard(srcu, &unwind_deferred_srcu) {
		/* Who asks meanwhile is told that it is delivered here. */
		migrate_disable();

		cookie = info->cookie;
		epoch = info->epoch;
		/* Elsewhere nobody has received it. */
		served = info->cpu == smp_processor_id() ? info->served : 0;
		info->cpu = smp_processor_id();

		/*
		 * Who asks after the cmpxchg must find itself served, although
		 * its callback has yet to run. A NMI that joins before it makes
		 * it fail.
		 */
		request = READ_ONCE(info->request);
		do {
			WRITE_ONCE(info->served, served | request);
		} while (!try_cmpxchg(&info->request, &request, 0));

		for_each_set_bit(id, &request, UNWIND_MAX_CLIENTS) {
			client = READ_ONCE(unwind_deferred_clients[id]);
			if (client && client->born <= epoch)
				client->callback(client, &trace, cookie);
		}

		migrate_enable();
	}
}

/* Even without any memory there is some stack. */
static noinline void unwind_deferred_run_few(struct unwind_task_info *info)
{
	DEFINE_RAW_FLEX(struct unwind_task_cache, few, entries, UNWIND_CACHE_FEW);

	few->borrowed = true;
	few->on_stack = true;
	few->room = UNWIND_CACHE_FEW;
	unwind_deferred_set_cache(info, few);

	unwind_deferred_run(info);

	if (info->cache == few)
		unwind_deferred_set_cache(info, NULL);
}

/* Keep little. */
static void unwind_deferred_trim_memory(struct unwind_task_info *info)
{
	struct unwind_task_cache *cache = info->cache;

	if (cache && (cache->borrowed ||
		      struct_size(cache, entries, cache->room) > UNWIND_CACHE_KEEP))
		unwind_deferred_set_cache(info, NULL);
}

/* Serve the pending request, if there is one, with memory for it. */
static void unwind_deferred_serve(struct unwind_task_info *info)
{
	unsigned int depth;

	if (!(READ_ONCE(info->request) & UNWIND_REQUEST_PENDING))
		return;

	/* It may hold any lock. Its work runs all the same if it uses io_uring. */
	if (info->barred == UNWIND_BARRED_DEAD)
		return;

	unwind_deferred_take_memory(info);

	depth = READ_ONCE(info->depth);
	if (depth & UNWIND_DEPTH_WALKED)
		depth = UNWIND_CACHE_FEW;
	if (likely(info->cache || unwind_deferred_cache(info, depth)))
		unwind_deferred_run(info);
	else
		unwind_deferred_run_few(info);

	unwind_deferred_trim_memory(info);

	/* A */
	unwind_deferred_release_memory(info);
	/* Pairs with the barrier of unwind_deferred_reclaim_tasks(). */
	smp_mb();
	/* B */
	if (!READ_ONCE(unwind_deferred_users)) {
		unwind_deferred_reclaim_task(info);
		unwind_user_sections_drop();
	}
}

static void unwind_deferred_task_work(struct callback_head *work)
{
	unwind_deferred_serve(&current->unwind_info);
}

/**
 * unwind_deferred_register - Make a client known
 * @client:	The client, with its callback filled in
 *
 * A registered client may make requests; they are served while
 * unwind_deferred_enable() is in effect.
 *
 * Context: Process context. Sleeps.
 * Return: 0, or -ENOSPC if there are too many clients.
 */
int unwind_deferred_register(struct unwind_deferred_client *client)
{
	int id;

	guard(mutex)(&unwind_deferred_mutex);

	id = find_first_zero_bit(&unwind_deferred_ids, UNWIND_MAX_CLIENTS);
	if (id >= UNWIND_MAX_CLIENTS) {
		client->id = -1;
		return -ENOSPC;
	}

	__set_bit(id, &unwind_deferred_ids);
	client->born = atomic_long_read(&unwind_deferred_epoch);
	WRITE_ONCE(client->id, id);
	/* Pairs with the address dependency of the readers. */
	smp_store_release(&unwind_deferred_clients[id], client);

	return 0;
}
EXPORT_SYMBOL_GPL(unwind_deferred_register);

/**
 * unwind_deferred_unregister - Take a client away
 * @client:	A registered client
 *
 * Requests of the client that have not been served yet are taken back. When
 * this returns no callback is running and none will be called.
 *
 * Context: Process context, not from a callback of any client. Sleeps, and waits
 *	    for callbacks that are running, but not for walks.
 */
void unwind_deferred_unregister(struct unwind_deferred_client *client)
{
	int id = client->id;

	if (id < 0)
		return;

	/* No callback starts after this, except where the pointer was read. */
	scoped_guard(mutex, &unwind_deferred_mutex)
		WRITE_ONCE(unwind_deferred_clients[id], NULL);

	/* Requests run with interrupts off: none still sets the bit afterwards. */
	synchronize_rcu();

	/* Wait for those that have read the pointer before. */
	synchronize_srcu(&unwind_deferred_srcu);

	/*
	 * Tasks keep the bit in their requests. The next client with this id is
	 * younger than those, so it is not called for them.
	 */
	scoped_guard(mutex, &unwind_deferred_mutex) {
		WRITE_ONCE(client->id, -1);
		atomic_long_inc(&unwind_deferred_epoch);
		__clear_bit(id, &unwind_deferred_ids);
	}
}
EXPORT_SYMBOL_GPL(unwind_deferred_unregister);

/**
 * unwind_deferred_enable - Have requests served from now on
 *
 * To be called by a client that is about to make requests. Costs every return to
 * user mode one store until some time after the matching
 * unwind_deferred_disable().
 *
 * Context: Process context. Sleeps.
 */
void unwind_deferred_enable(void)
{
	guard(mutex)(&unwind_deferred_mutex);

	static_branch_deferred_inc(&unwind_deferred_key);

	/*
	 * Not before all ways out of the kernel clear the rounds: what was
	 * delivered until then must not be taken for a stack of a later entry.
	 */
	if (!unwind_deferred_users)
		atomic_long_inc(&unwind_deferred_epoch);
	/* Who sees the user sees the epoch. */
	smp_store_release(&unwind_deferred_users, unwind_deferred_users + 1);
}
EXPORT_SYMBOL_GPL(unwind_deferred_enable);

/**
 * unwind_deferred_disable - Undo one unwind_deferred_enable()
 *
 * Requests that are pending are still served. With the last client what walks have left
 * in memory goes, within a second.
 *
 * Context: Process context. Sleeps.
 */
void unwind_deferred_disable(void)
{
	guard(mutex)(&unwind_deferred_mutex);

	WRITE_ONCE(unwind_deferred_users, unwind_deferred_users - 1);
	static_branch_slow_dec_deferred(&unwind_deferred_key);
	if (!unwind_deferred_users)
		mod_delayed_work(system_unbound_wq, &unwind_deferred_reclaim,
				 UNWIND_RECLAIM_DELAY);
}
EXPORT_SYMBOL_GPL(unwind_deferred_disable);

/**
 * unwind_deferred_renew - Have stacks delivered again
 *
 * To be called by a client whose callback writes to more places than before.
 * Requests after this do not count on what was delivered before. They get a new
 * cookie, also for a stack that was delivered.
 *
 * Context: Any.
 */
void unwind_deferred_renew(void)
{
	/* Ordered after what the caller has added, and what finds it. */
	smp_mb__before_atomic();
	atomic_long_inc(&unwind_deferred_epoch);
}

/**
 * unwind_deferred_kick - Bring current back before it runs user code
 *
 * To be called when a request was made too late for the exit work to see it. The
 * interrupt comes as soon as they are enabled, which is before the first user
 * instruction, so the stack is still the one that was asked for, and this is the
 * same kernel entry: who asks on each way out is given the same cookie then, and
 * does not keep the task from user mode.
 *
 * Context: Interrupts disabled, on the way out of the kernel.
 */
void unwind_deferred_kick(void)
{
	irq_work_queue(this_cpu_ptr(&unwind_deferred_irq_work));
}

/**
 * unwind_deferred_task_fork - A task has been copied
 * @task:	The new task, not visible to anybody yet
 *
 * Requests and memory of the parent are not the child's.
 */
void unwind_deferred_task_fork(struct task_struct *task)
{
	struct unwind_task_info *info = &task->unwind_info;

	*info = (struct unwind_task_info) { };
	init_task_work(&info->work, unwind_deferred_task_work);
}

/* Serve what is pending here and now; new requests have been barred. */
static void unwind_deferred_flush(struct unwind_task_info *info)
{
	if (!READ_ONCE(info->request))
		return;

	task_work_cancel(current, &info->work);
	unwind_deferred_serve(info);
}

/**
 * unwind_deferred_task_exec_begin - The current task will get a new mm
 *
 * Deliver the stack of a pending request from the old one. Bars requests until
 * unwind_deferred_task_exec_end(); if execve() fails after the point of no return
 * they stay barred, as the task never runs user code again.
 *
 * Context: begin_new_exec(), before threads are reaped and ids swapped, so that
 *	    perf still attributes the stack to the thread that was sampled. Only
 *	    cred_guard_mutex is held. Sleeps.
 */
void unwind_deferred_task_exec_begin(void)
{
	struct unwind_task_info *info = &current->unwind_info;

	WRITE_ONCE(info->barred, UNWIND_BARRED_EXEC);
	/* A request in an interrupt from here on sees it; flush what came before. */
	barrier();
	unwind_deferred_flush(info);

	/* What was walked is of no use for the new program. */
	info->rounds = 0;
	unwind_deferred_take_memory(info);
	unwind_deferred_forget_rules(info);
	unwind_deferred_release_memory(info);
}

/**
 * unwind_deferred_task_exec_end - The current task is about to start a program
 *
 * Context: bprm_execve(), when user registers are those of the new program.
 */
void unwind_deferred_task_exec_end(void)
{
	WRITE_ONCE(current->unwind_info.barred, UNWIND_BARRED_NOT);
}

/**
 * unwind_deferred_task_exit - The current task exits
 *
 * Deliver the stack of a pending request while its memory and its perf context
 * still exist, and free what the walks used. %PF_EXITING bars new requests.
 *
 * Context: do_exit(), after exit_signals(). Sleeps.
 */
void unwind_deferred_task_exit(void)
{
	struct unwind_task_info *info = &current->unwind_info;
	struct unwind_task_memory memory;

	if (info->barred == UNWIND_BARRED_DEAD) {
		task_work_cancel(current, &info->work);
		/* Nobody frees it, so nobody should look for it. */
		if (info->memory != UNWIND_MEMORY_TASK)
			unwind_deferred_take_memory(info);
		unwind_deferred_detach(info);
		return;
	}

	unwind_deferred_flush(info);

	unwind_deferred_take_memory(info);
	memory = unwind_deferred_detach(info);
	unwind_deferred_release_memory(info);
	unwind_deferred_free(&memory);
}

/**
 * unwind_deferred_task_dead - The current task has oopsed
 *
 * It may hold any lock, so nothing is walked or delivered, nor freed.
 *
 * Context: Any.
 */
void unwind_deferred_task_dead(void)
{
	WRITE_ONCE(current->unwind_info.barred, UNWIND_BARRED_DEAD);
}

static struct ctl_table unwind_deferred_sysctls[] = {
	{
		.procname	= "unwind_user_deferred",
		.data		= &sysctl_unwind_user_deferred,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= proc_dointvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

static int __init unwind_deferred_init(void)
{
	struct shrinker *shrinker;

	register_sysctl_init("kernel", unwind_deferred_sysctls);

	shrinker = shrinker_alloc(0, "unwind-deferred");
	if (!shrinker)
		return -ENOMEM;

	shrinker->count_objects = unwind_deferred_shrink_count;
	shrinker->scan_objects = unwind_deferred_shrink_scan;
	shrinker_register(shrinker);

	return 0;
}
core_initcall(unwind_deferred_init);
