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
 *     |   PENDING -> 0       the cookie is spent
 *     |
 *     +-- callbacks          a request from here on draws a new cookie and queues
 *                            the work again. The kernel has not been left, so
 *                            the stack is the same and is not walked again.
 *                            A client that can do with the cookie that it had
 *                            gets that, and nothing is queued.
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
 * - @request is CLAIMED: @cookie and @regs are being written and cannot be read.
 *   The NMI's request is refused; nobody waits.
 * - @request is PENDING: @cookie and @regs stay as they are until the task work
 *   retires the request. It runs in task context, below all of them, so a request
 *   that saw PENDING can rely on both until it returns.
 * - In the task work, before the xchg to 0: a request joins, and its bit is in
 *   the value that xchg returns, unless the walk is over and was not deep enough
 *   for it. After the xchg: it claims anew. The work is off the task's list by
 *   then and can be queued again; task_work_run() looks at the list until it is
 *   empty.
 * - In the task work, after the xchg, @regs may be overwritten at any time. The
 *   walk has made its copy.
 */
#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/kprobes.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/sysctl.h>
#include <linux/task_work.h>
#include <linux/threads.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include <asm/unwind_user.h>

/* Bits of unwind_task_info::request; the lower ones are clients. */
#define UNWIND_REQUEST_PENDING		BIT(BITS_PER_LONG - 1)
#define UNWIND_REQUEST_CLAIMED		BIT(BITS_PER_LONG - 2)

/* In unwind_task_info::depth: it says how deep a request can still get. */
#define UNWIND_DEPTH_WALKED		BIT(31)

/* The other bits. Each tracing instance with deferred user stacks is a client. */
#define UNWIND_MAX_CLIENTS		(BITS_PER_LONG - 2)

/*
 * How many requests one kernel entry can have served. Samples may come faster
 * than callbacks run; without a limit the task would never leave the kernel.
 */
#define UNWIND_MAX_ROUNDS		64

/**
 * struct unwind_task_cache - The stack that was walked last
 * @regs:	Registers that the walk started from
 * @epoch:	Value of unwind_deferred_epoch at the walk
 * @room:	How many @entries fit
 * @depth:	How deep the walk was to go, at most @room
 * @nr:		How deep it went
 * @served:	Clients that have received it last, 0 if it is empty
 * @cookie:	What they were called with
 * @entries:	The stack
 *
 * Written by the task itself, in task context, while unwind_task_info::in_work is
 * set; freed then, or when the task exits. An IRQ or NMI on top of the task may
 * read it while neither is so.
 */
struct unwind_task_cache {
	struct unwind_user_regs	regs;
	unsigned int		epoch;
	unsigned int		room;
	unsigned int		depth;
	unsigned int		nr;
	unsigned long		served;
	u64			cookie;
	unsigned long		entries[];
};

/* Somebody wants requests to be served. */
DEFINE_STATIC_KEY_FALSE(unwind_deferred_key);

/* Protects registering, and the three variables below. */
static DEFINE_MUTEX(unwind_deferred_mutex);
static unsigned long unwind_deferred_ids;
static unsigned int unwind_deferred_users;
/*
 * Counts how often unwind_deferred_key went from off to on, as while it is off,
 * unwind_task_info::rounds is not cleared on return to user mode; and how often a
 * client went, as unwind_task_cache::served may name it.
 */
static unsigned int unwind_deferred_epoch;

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
	if (!static_branch_unlikely(&unwind_deferred_key) ||
	    !READ_ONCE(sysctl_unwind_user_deferred))
		return -EOPNOTSUPP;

	/* The work would not run before the next interrupt, whenever that is. */
	if (in_nmi() && !arch_irq_work_has_interrupt())
		return -EOPNOTSUPP;

	if (!is_user_task(current))
		return -EINVAL;

	if (info->barred == UNWIND_BARRED_EXEC)
		return -ESTALE;

	if (current->flags & PF_EXITING || info->barred == UNWIND_BARRED_DEAD)
		return -ESRCH;

	/*
	 * The deferred work faults pages in, and callbacks hit tracepoints and
	 * kprobes. If those asked for more work, it would not end before the
	 * limit on rounds. A hardware breakpoint looks like an NMI, and is left
	 * to that limit.
	 */
	if (info->in_work && (in_task() || kprobe_running()))
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

#ifdef CONFIG_UNWIND_USER_SFRAME

/* Keep all registers of a new request if there is memory for them. */
static void unwind_deferred_keep_gprs(struct unwind_task_info *info,
				      const struct pt_regs *regs)
{
	info->gprs_known = !!info->gprs;
	if (info->gprs)
		arch_unwind_user_gprs(info->gprs, regs);
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

/* Walk the stack of the pending request: no other request writes the registers. */
static unsigned int unwind_deferred_stack(struct unwind_task_info *info,
					  struct unwind_task_cache *cache)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY;

	/*
	 * Without memory there is less to go by. The rules need it most; there
	 * are none for 32-bit and x32 programs.
	 */
	if (!info->rules && !arch_unwind_user_compat())
		info->rules = unwind_user_rules_alloc(gfp);

	if (!info->gprs) {
		info->gprs = kmalloc(sizeof(*info->gprs), gfp);
		if (info->gprs)
			info->gprs_known = unwind_deferred_current_gprs(info, info->gprs);
	}

	return unwind_user(&cache->regs, info->gprs_known ? info->gprs : NULL,
			   info->rules, cache->entries, cache->depth);
}

static void unwind_deferred_forget_rules(struct unwind_task_info *info)
{
	if (info->rules)
		unwind_user_rules_reset(info->rules);
}

static void unwind_deferred_free_rules(struct unwind_task_info *info)
{
	unwind_user_rules_free(info->rules);
	info->rules = NULL;
	kfree(info->gprs);
	info->gprs = NULL;
}

#else /* !CONFIG_UNWIND_USER_SFRAME */

static void unwind_deferred_keep_gprs(struct unwind_task_info *info,
				      const struct pt_regs *regs)
{
}

static void unwind_deferred_forget_rules(struct unwind_task_info *info) { }
static void unwind_deferred_free_rules(struct unwind_task_info *info) { }

static unsigned int unwind_deferred_stack(struct unwind_task_info *info,
					  struct unwind_task_cache *cache)
{
	return unwind_user(&cache->regs, NULL, NULL, cache->entries, cache->depth);
}

#endif /* CONFIG_UNWIND_USER_SFRAME */

/* Does the cache hold the stack that a walk would find, as far as it goes? */
static notrace bool unwind_deferred_cached(const struct unwind_task_info *info,
					   const struct unwind_user_regs *uregs)
{
	const struct unwind_task_cache *cache = info->cache;

	return info->rounds && cache &&
	       cache->epoch == READ_ONCE(unwind_deferred_epoch) &&
	       unwind_user_regs_equal(&cache->regs, uregs);
}

/*
 * Has this client received the stack that it asks for, in this kernel entry?
 * Then @cookie is what it came with.
 */
static notrace bool unwind_deferred_has(const struct unwind_task_info *info,
					const struct unwind_user_regs *uregs,
					unsigned long mine, unsigned int depth,
					u64 *cookie)
{
	const struct unwind_task_cache *cache;

	/* The deferred work is at it. A request gets a cookie of its own then. */
	if (READ_ONCE(info->in_work))
		return false;

	/* Pairs with (A) and (B). */
	barrier();

	cache = info->cache;
	if (!unwind_deferred_cached(info, uregs) || !(cache->served & mine))
		return false;

	/* Unless the stack ended by itself it may be too short. */
	if (cache->nr == cache->depth && cache->depth < depth)
		return false;

	*cookie = cache->cookie;
	return true;
}

/* Set up a new request; @info->request is UNWIND_REQUEST_CLAIMED. */
static int unwind_deferred_claimed(struct unwind_task_info *info,
				   const struct pt_regs *regs,
				   const struct unwind_user_regs *uregs,
				   unsigned int depth)
{
	enum task_work_notify_mode mode;

	if (info->rounds >= UNWIND_MAX_ROUNDS)
		return -EBUSY;

	info->cookie	= unwind_deferred_new_cookie();
	info->regs	= *uregs;
	info->depth	= depth;
	unwind_deferred_keep_gprs(info, regs);

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
 * The client's callback will be called once with this cookie before the task
 * returns to user mode, or when it exits. Requests that come before the stack
 * has been walked share one cookie. If @client->reuse is set, the callback may
 * have been called with this cookie already.
 *
 * On an error no callback follows, and the caller falls back to whatever it can
 * find out about the user stack by itself.
 *
 * Context: Any, including NMI, and with any lock held. Does not sleep nor
 *	    allocate. Not traced: the function tracer may ask at each function.
 * Return:
 * * 0		- Asked; @cookie is set
 * * -EOPNOTSUPP - Nobody called unwind_deferred_enable(), it is switched off by
 *		  sysctl, or this is an NMI that could not bring the task to work
 * * -EINVAL	- No user task, or a mode that cannot be unwound
 * * -ESRCH	- The task is exiting
 * * -ESTALE	- The task is in execve(): its user registers are those of the old
 *		  program, so no user stack can be found by any method
 * * -EBUSY	- This context may not ask now: the deferred work itself, a uprobe
 *		  being handled, a request that this one interrupted, a walk that
 *		  ended too early for it, too many requests since the kernel was
 *		  entered
 * * -EAGAIN	- A request from other user registers is pending
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

	if (client->reuse && !READ_ONCE(info->request) &&
	    unwind_deferred_has(info, &uregs, mine, depth, cookie))
		return 0;

	request = 0;
	if (try_cmpxchg(&info->request, &request, UNWIND_REQUEST_CLAIMED)) {
		ret = unwind_deferred_claimed(info, regs, &uregs, depth);
		/* Compiler barrier: an NMI that sees PENDING reads the rest. */
		barrier();
		WRITE_ONCE(info->request, ret ? 0 : UNWIND_REQUEST_PENDING | mine);
		if (!ret)
			*cookie = info->cookie;
		return ret;
	}

	if (request & UNWIND_REQUEST_CLAIMED)
		return -EBUSY;

	if (!unwind_user_regs_equal(&uregs, &info->regs))
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

	/* An NMI may add its bit, another CPU may take one away. */
	while (!(request & mine)) {
		if (try_cmpxchg(&info->request, &request, request | mine))
			break;
	}

	*cookie = info->cookie;
	return 0;
}
EXPORT_SYMBOL_GPL(unwind_deferred_request);

/*
 * Memory for @depth entries; for fewer, or NULL, if there is no more to be had. The
 * profiled task would not have allocated: neither kill it for that, nor reclaim
 * for long.
 */
static struct unwind_task_cache *unwind_deferred_cache(struct unwind_task_info *info,
						       unsigned int depth)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY;
	unsigned int room = info->cache ? info->cache->room : 0;
	struct unwind_task_cache *cache;

	for (; depth > room; depth /= 2) {
		cache = kmalloc(struct_size(cache, entries, depth), gfp);
		if (!cache)
			continue;

		kfree(info->cache);
		cache->room = depth;
		info->cache = cache;
		break;
	}

	return info->cache;
}

/* Get the stack of the pending request; after this none can ask for more of it. */
static void unwind_deferred_walk(struct unwind_task_info *info,
				 struct unwind_user_trace *trace)
{
	bool cached = unwind_deferred_cached(info, &info->regs);
	struct unwind_task_cache *cache = info->cache;
	unsigned int depth, walked;

	*trace = (struct unwind_user_trace) { };

	/*
	 * A request that joins during the walk may want a deeper stack: then
	 * walk again. When all are satisfied, say how deep the stack goes.
	 */
	depth = READ_ONCE(info->depth);
	do {
		if (!cached || (cache->nr == cache->depth && cache->depth < depth)) {
			cache = unwind_deferred_cache(info, depth);
			if (!cache) {
				WRITE_ONCE(info->depth, UNWIND_DEPTH_WALKED);
				return;
			}

			cache->regs	= info->regs;
			cache->epoch	= READ_ONCE(unwind_deferred_epoch);
			cache->depth	= min(depth, cache->room);
			cache->nr	= unwind_deferred_stack(info, cache);
			cached		= true;
		}

		/* A stack that ended by itself satisfies any depth. */
		walked = cache->nr < cache->depth ? UNWIND_USER_MAX_DEPTH :
						    cache->depth;
	} while (!try_cmpxchg(&info->depth, &depth,
			      walked | UNWIND_DEPTH_WALKED));

	trace->nr	= cache->nr;
	trace->entries	= cache->entries;
}

/*
 * Serve the pending request, if there is one.
 *
 * Context: Task context of current, interrupts enabled, no lock held. Sleeps.
 */
static void unwind_deferred_run(struct unwind_task_info *info)
{
	struct unwind_deferred_client *client;
	struct unwind_user_trace trace;
	unsigned long request;
	u64 cookie;
	int id;

	if (!(READ_ONCE(info->request) & UNWIND_REQUEST_PENDING))
		return;

	/* From here on requests from task context are ours, hence refused. */
	WRITE_ONCE(info->in_work, true);
	/* (A) An IRQ or NMI must not look into a cache that is about to change. */
	barrier();

	unwind_deferred_walk(info, &trace);

	if (info->rounds < U8_MAX)
		info->rounds++;

	/*
	 * Before the xchg: once the bits are taken, unregistering can only
	 * wait for them. Not around the walk, which may take long.
	 */
	scoped_guard(srcu, &unwind_deferred_srcu) {
		cookie = info->cookie;
		request = xchg(&info->request, 0);

		for_each_set_bit(id, &request, UNWIND_MAX_CLIENTS) {
			client = READ_ONCE(unwind_deferred_clients[id]);
			if (client)
				client->callback(client, &trace, cookie);
		}
	}

	/* Without entries there is nothing that one would want to refer to. */
	if (info->cache) {
		info->cache->served = trace.nr ? request & ~UNWIND_REQUEST_PENDING : 0;
		info->cache->cookie = cookie;
	}

	/* (B) The cache is complete. */
	barrier();
	WRITE_ONCE(info->in_work, false);
}

static void unwind_deferred_task_work(struct callback_head *work)
{
	unwind_deferred_run(&current->unwind_info);
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
	struct task_struct *process, *thread;
	int id = client->id;

	if (id < 0)
		return;

	/* No callback starts after this, except where the pointer was read. */
	scoped_guard(mutex, &unwind_deferred_mutex)
		WRITE_ONCE(unwind_deferred_clients[id], NULL);

	/* Requests run with interrupts off: none still sets the bit afterwards. */
	synchronize_rcu();

	/*
	 * The next client with this id must not get what this one asked for.
	 * A thread that is not on the list has none pending: the new ones do
	 * not run yet, and exiting ones have been served.
	 */
	read_lock(&tasklist_lock);
	for_each_process_thread(process, thread)
		clear_bit(id, &thread->unwind_info.request);
	read_unlock(&tasklist_lock);

	/* Wait for those that have taken the bit, or read the pointer, before. */
	synchronize_srcu(&unwind_deferred_srcu);

	scoped_guard(mutex, &unwind_deferred_mutex) {
		WRITE_ONCE(client->id, -1);
		/* The next client has not received what this one has. */
		WRITE_ONCE(unwind_deferred_epoch, unwind_deferred_epoch + 1);
		__clear_bit(id, &unwind_deferred_ids);
	}
}
EXPORT_SYMBOL_GPL(unwind_deferred_unregister);

/**
 * unwind_deferred_enable - Have requests served from now on
 *
 * To be called by a client that is about to make requests. Costs every return to
 * user mode one store until the matching unwind_deferred_disable().
 *
 * Context: Process context. Sleeps.
 */
void unwind_deferred_enable(void)
{
	guard(mutex)(&unwind_deferred_mutex);

	static_branch_inc(&unwind_deferred_key);

	/*
	 * Not before all ways out of the kernel clear the rounds: what was
	 * walked until then must not be taken for a stack of a later entry.
	 */
	if (!unwind_deferred_users++)
		WRITE_ONCE(unwind_deferred_epoch, unwind_deferred_epoch + 1);
}
EXPORT_SYMBOL_GPL(unwind_deferred_enable);

/**
 * unwind_deferred_disable - Undo one unwind_deferred_enable()
 *
 * Requests that are pending are still served.
 *
 * Context: Process context. Sleeps.
 */
void unwind_deferred_disable(void)
{
	guard(mutex)(&unwind_deferred_mutex);

	unwind_deferred_users--;
	static_branch_dec(&unwind_deferred_key);
}
EXPORT_SYMBOL_GPL(unwind_deferred_disable);

/**
 * unwind_deferred_kick - Bring current back before it runs user code
 *
 * To be called when a request was made too late for the exit work to see it. The
 * interrupt comes as soon as they are enabled, which is before the first user
 * instruction, so the stack is still the one that was asked for, and for the
 * limit on rounds this is the same kernel entry: who asks on each way out does
 * not keep the task from user mode.
 *
 * Context: Interrupts disabled, on the way out of the kernel.
 */
void unwind_deferred_kick(void)
{
	/* Without that interrupt the request is served in the next entry. */
	if (arch_irq_work_has_interrupt())
		irq_work_queue(this_cpu_ptr(&unwind_deferred_irq_work));
	else
		current->unwind_info.rounds = 0;
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
	unwind_deferred_run(info);
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
	unwind_deferred_forget_rules(info);
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

	if (info->barred == UNWIND_BARRED_DEAD) {
		task_work_cancel(current, &info->work);
		return;
	}

	unwind_deferred_flush(info);

	kfree(info->cache);
	info->cache = NULL;
	unwind_deferred_free_rules(info);
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
	register_sysctl_init("kernel", unwind_deferred_sysctls);
	return 0;
}
core_initcall(unwind_deferred_init);
