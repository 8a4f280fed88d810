// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred unwinding of user stacks
 *
 * A profiler that takes a sample in an interrupt or NMI requests the user stack
 * here. It gets a cookie and stores it in the sample. Before the task returns to
 * user mode, the stack is walked once, in task context. The callbacks of all clients
 * that requested it receive the stack with the cookie.
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
 *     |   PENDING -> 0       the requesting clients count as served
 *     |
 *     +-- callbacks
 *     |
 *   more requests       same registers, hence the same stack: same cookie
 *     |   0 -> CLAIMED -> 0  by a served client: nothing else to do
 *     |   0 -> CLAIMED -> PENDING | client
 *     |                      by another client: queue the task work. It calls
 *     |                      only this client, and it does not walk again as
 *     |                      long as there is memory to keep the stack
 *     |
 *   user mode           the stack is not valid for the next kernel entry
 *
 * A cookie thus stands for one stack in one kernel entry, and each client receives
 * it once. There are exceptions:
 *
 * - If the task has moved to another CPU, the stack is delivered again with the same
 *   cookie: where a client writes may depend on the CPU.
 * - After unwind_deferred_renew(), and after a client has gone, the stack is
 *   delivered again with a new cookie.
 * - A stack that was cut at its depth and the deeper stack that a later request
 *   wants are two stacks.
 *
 * While the task does not run, unwind_deferred_flush() may deliver the stack in place
 * of the task work. The request then stays PENDING, without the clients that were
 * served, until the work runs.
 *
 * The task work runs wherever the kernel runs task work: on return to user mode,
 * but also before entering a guest, and in some long system calls.
 *
 * The stack is the one at the request. The registers are copied at that time,
 * because system calls (rt_sigreturn), debuggers and uprobes may change them before
 * the work runs. A request is refused if its registers differ from those of the
 * pending request.
 *
 * Nesting
 * -------
 *
 * Requests run with interrupts off, so only an NMI can interrupt one.
 *
 * - An outer request has read @request as 0: an NMI may claim and publish before the
 *   outer cmpxchg. That cmpxchg then fails, and the outer request joins.
 * - @request is CLAIMED: @cookie, @regs, @epoch and @served belong to the outer
 *   request. The NMI's request is refused; nobody waits.
 * - @request is PENDING: @cookie, @regs and @epoch stay as they are until the task
 *   work retires the request. The work cannot interrupt a request, so a
 *   request that saw PENDING can rely on these fields until it returns. Only the
 *   task work writes @served, or a flush while the task does not run.
 * - In the task work, before the cmpxchg to 0: a request joins, the cmpxchg fails,
 *   and @served is written again. The request is refused if the walk has ended and
 *   was not deep enough for it. After the cmpxchg: a request claims, and finds its
 *   client in @served or not. By then the work is off the task's list and can be
 *   queued again; task_work_run() looks at the list until it is empty.
 * - In the task work, after the cmpxchg: a request with other registers may
 *   overwrite all these fields at any time. The work has copied what it needs.
 * - On return to user mode, between the last look at @request and the store to
 *   @rounds: a request of an NMI claims. If it gets the cookie of a stack that was
 *   delivered, it was in time. If it stays pending, the NMI has queued an interrupt,
 *   which brings the task back before it runs user code.
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
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/srcu.h>
#include <linux/sysctl.h>
#include <linux/task_work.h>
#include <linux/threads.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>
#include <linux/workqueue.h>

#include <asm/unwind_user.h>

#include "reclaim.h"
#include "requests.h"
#include "task_memory.h"

/*
 * How many deliveries one kernel entry can have. Each is for other registers, a
 * deeper stack, a client that has not received the stack, or another CPU, so there
 * are few. The limit guards against a case that nobody thought of: without it the
 * task might never leave the kernel.
 */
#define UNWIND_MAX_ROUNDS		64

/*
 * How many deliveries there can be when only the epoch is new. Unprivileged users
 * can start a new epoch as often as they enable an event. That must not make the
 * tasks of other users deliver again without limit.
 */
#define UNWIND_MAX_RENEWED		4

/* Delay before memory is freed when the last client has gone: another may come. */
#define UNWIND_RECLAIM_DELAY		(HZ / 4)

/* For how long returns to user mode clear @rounds after the last user has gone. */
#define UNWIND_KEY_TIMEOUT		HZ

/*
 * Enabled while returns to user mode clear the rounds. It stays enabled for some
 * time after the last user, so that short sessions do not patch the code each time.
 */
DEFINE_STATIC_KEY_DEFERRED_FALSE(unwind_deferred_key, UNWIND_KEY_TIMEOUT);
EXPORT_SYMBOL_GPL(unwind_deferred_key);

/*
 * Protects registration and unwind_deferred_ids. It also serializes writers of
 * unwind_deferred_users, which requests read without it.
 */
static DEFINE_MUTEX(unwind_deferred_mutex);
static unsigned long unwind_deferred_ids;
static unsigned int unwind_deferred_users;

/*
 * A stack that was delivered under another value does not count as delivered.
 * Incremented in any context:
 * - when a client goes, because the next client may get its bit;
 * - when the first client enables deferral, because before that, returns to
 *   user mode did not clear @rounds;
 * - by unwind_deferred_renew().
 */
static atomic_long_t unwind_deferred_epoch;

/*
 * Written under unwind_deferred_mutex. Requests read it with interrupts disabled
 * (RCU), the deferred work reads it under unwind_deferred_srcu.
 */
struct unwind_deferred_client *unwind_deferred_clients[UNWIND_MAX_CLIENTS];
DEFINE_SRCU(unwind_deferred_srcu);

/* kernel.unwind_user_deferred */
static int sysctl_unwind_user_deferred __read_mostly = 1;

static DEFINE_PER_CPU(unsigned long, unwind_deferred_count);

/* Nothing to do: only the exit path of the interrupt is needed. */
static void unwind_deferred_kicked(struct irq_work *work) { }

static DEFINE_PER_CPU(struct irq_work, unwind_deferred_irq_work) =
	IRQ_WORK_INIT_HARD(unwind_deferred_kicked);

/*
 * A cookie is a count per CPU and the CPU's number. It is unique on the system and
 * never 0. The count wraps after 2^48 requests on one CPU, when nobody uses the
 * first cookies any more.
 */
static u64 unwind_deferred_new_cookie(void)
{
	BUILD_BUG_ON(BIT(16) <= CONFIG_NR_CPUS);

	/* One instruction on x86, so an NMI draws another number. */
	return ((u64)this_cpu_inc_return(unwind_deferred_count) << 16) |
	       (smp_processor_id() + 1);
}

/* May current make a request in this context? If not, returns the error for it. */
static notrace int
unwind_deferred_may_request(const struct unwind_deferred_client *client,
			    const struct unwind_task_info *info)
{
	/* Pairs with unwind_deferred_enable(). */
	if (!smp_load_acquire(&unwind_deferred_users) ||
	    !READ_ONCE(sysctl_unwind_user_deferred))
		return -EOPNOTSUPP;

	/* Without this interrupt a late request could not bring the task back. */
	if (!arch_irq_work_has_interrupt())
		return -EOPNOTSUPP;

	if (!is_user_task(current))
		return -EINVAL;

	if (info->barred == UNWIND_BARRED_EXEC)
		return -ESTALE;

	if (current->flags & PF_EXITING || info->barred == UNWIND_BARRED_DEAD)
		return -ESRCH;

	/*
	 * The task has done its last work before user mode. A request in an NMI
	 * queues an interrupt, which brings the task back before it runs user code.
	 * A request in task context does not, and interrupts stay disabled.
	 */
	if (info->barred == UNWIND_BARRED_LEAVING && in_task())
		return -EBUSY;

	if (unwind_deferred_in_uprobe() &&
	    (!client->in_uprobe || current->utask->active_uprobe))
		return -EBUSY;

	return 0;
}

/* Walk the stack of the pending request. No other request writes its registers. */
static enum unwind_user_end unwind_deferred_stack(struct unwind_task_info *info,
						  struct unwind_task_cache *cache,
						  unsigned int max)
{
	struct unwind_user_rules *rules = unwind_deferred_rules(info);
	const struct unwind_user_gprs *gprs = unwind_deferred_gprs(info);

	return unwind_user_walk(&info->regs, gprs, rules, cache->entries, max,
				&cache->nr);
}

/*
 * Has the requested stack been delivered in this kernel entry, to any client? The
 * caller has set @info->request to UNWIND_REQUEST_CLAIMED.
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
 * Set up a request. The caller has set @info->request to UNWIND_REQUEST_CLAIMED.
 *
 * Return: 0 if a callback will follow, 1 if the client has received the stack
 *	   already, or an error.
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
		info->probed	= unwind_user_probed();
		unwind_deferred_keep_gprs(info, regs);
	}

	/* TWAF_NO_ALLOC: the run queue lock may be held. */
	mode = in_nmi() ? TWA_NMI_CURRENT : TWA_RESUME | TWAF_NO_ALLOC;

	return task_work_add(current, &info->work, mode);
}

/**
 * unwind_deferred_request - Request the user stack of the current task
 * @client:	The client that requests it
 * @regs:	User mode registers of current
 * @depth:	How many entries are wanted. The callback gets more if another client
 *		that shares the request wants more
 * @cookie:	Receives the cookie that will be passed to the callback
 *
 * The client's callback will be called with this cookie before the task returns
 * to user mode, or when it exits. If it has been called with this cookie already, it
 * is not called again: requests of one kernel entry with the same registers share
 * one cookie, whether they come before or after the delivery of the stack.
 *
 * On an error no callback follows. The caller falls back to its own method of
 * finding the user stack.
 *
 * Context: Any, including NMI, and with any lock held. Does not sleep or allocate.
 *	    Not traced, because the function tracer may call it at each function.
 * Return:
 * * 0		- The request is made, @cookie is set
 * * -EOPNOTSUPP - Nobody called unwind_deferred_enable(), a sysctl disables deferred
 *		  unwinding, or the CPU cannot interrupt itself
 * * -EINVAL	- Current is no user task, or is in a mode that cannot be unwound
 * * -ESRCH	- The task is exiting
 * * -ESTALE	- The task is in execve(): its user registers are those of the old
 *		  program, so no user stack can be found by any method
 * * -EBUSY	- Not possible now: a uprobe is being handled, an NMI
 *		  interrupted a request, a walk that has ended is not as
 *		  deep as @depth,
 *		  the task has done its last work before user mode, or there were
 *		  too many deliveries since the kernel was entered
 * * -EAGAIN	- The pending request has other user registers, or is older
 *		  than @client or than unwind_deferred_renew()
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

	ret = unwind_deferred_may_request(client, info);
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
		/* Compiler barrier: an NMI that sees PENDING relies on the rest. */
		barrier();
		WRITE_ONCE(info->request, ret ? 0 : UNWIND_REQUEST_PENDING | mine);
		return min(ret, 0);
	}

	if (request & UNWIND_REQUEST_CLAIMED)
		return -EBUSY;

	if (!unwind_user_regs_equal(&uregs, &info->regs))
		return -EAGAIN;

	/* The bit in an older request may be that of an earlier client. */
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

	/*
	 * A flush has delivered the stack while the task slept. If a session has come
	 * since, it has not received it, and the others must not get this cookie again.
	 */
	if (info->served & mine && info->cpu == smp_processor_id()) {
		if (info->epoch != (unsigned long)atomic_long_read(&unwind_deferred_epoch))
			return -EAGAIN;
		*cookie = info->cookie;
		return 0;
	}

	/* An NMI may add its bit in between. */
	while (!(request & mine)) {
		if (try_cmpxchg(&info->request, &request, request | mine))
			break;
	}

	*cookie = info->cookie;
	return 0;
}
EXPORT_SYMBOL_GPL(unwind_deferred_request);

static void unwind_deferred_reclaim_work(struct work_struct *work)
{
	if (READ_ONCE(unwind_deferred_users))
		return;

	unwind_deferred_reclaim_tasks();
	unwind_user_regions_reclaim(ULONG_MAX);
}

static DECLARE_DELAYED_WORK(unwind_deferred_reclaim, unwind_deferred_reclaim_work);

/*
 * Walk to @depth, or as deep as there is memory for.
 *
 * Return: The deepest request that this walk can serve.
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

	/* There was no memory for more, and another walk would not change that. */
	if (cache->end == UNWIND_USER_END_CUT)
		cache->end = UNWIND_USER_END_NOMEM;

	return UNWIND_USER_MAX_DEPTH;
}

/*
 * Walk the stack of the pending request, unless the last walk has left it in memory.
 * After this, no request can ask for a deeper stack. @info has a cache.
 */
static void unwind_deferred_walk(struct unwind_task_info *info)
{
	unsigned int depth, walked;

	/*
	 * A request that joins during the walk may want a deeper stack: then walk
	 * again. When the stack is deep enough for all, publish how deep it is.
	 */
	depth = READ_ONCE(info->depth);
	while (!(depth & UNWIND_DEPTH_WALKED)) {
		walked = unwind_deferred_fill(info, depth);
		if (try_cmpxchg(&info->depth, &depth, walked | UNWIND_DEPTH_WALKED))
			return;
	}

	if (info->cache->filled)
		return;

	/*
	 * Reclaim has freed the stack: walk again. If the stack ended by itself,
	 * @depth is the maximum, so try small depths first.
	 */
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
 * Context: Task context of current, interrupts enabled, no lock held. Sleeps. @info
 *	    has a cache, and the task owns unwind_task_info::memory.
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
	 * Lock before the cmpxchg: after it has taken the bits, unregistering can
	 * only wait for the callbacks. Do not lock around the walk, which may take
	 * long.
	 */
	scoped_guard(srcu, &unwind_deferred_srcu) {
		/* A request during the callbacks assumes delivery on this CPU. */
		migrate_disable();

		cookie = info->cookie;
		epoch = info->epoch;
		/*
		 * Deliveries on another CPU do not count here, nor for an NMI that
		 * comes before the cmpxchg.
		 */
		served = info->cpu == smp_processor_id() ? info->served : 0;
		WRITE_ONCE(info->served, served);
		barrier();
		WRITE_ONCE(info->cpu, smp_processor_id());

		/*
		 * After the cmpxchg a request must find its client in @served,
		 * although the callback has yet to run. If an NMI joins before,
		 * the cmpxchg fails.
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

/**
 * unwind_deferred_unless_used - Free what a task keeps if no client is left
 * @info:	State of a task whose memory was just released
 *
 * If the last client went while the memory was in use, reclaim did not get it.
 *
 * Context: Process context. Does not sleep.
 */
void unwind_deferred_unless_used(struct unwind_task_info *info)
{
	/* Pairs with the barrier of unwind_deferred_reclaim_tasks(). */
	smp_mb();
	/* B */
	if (!READ_ONCE(unwind_deferred_users)) {
		unwind_deferred_reclaim_task(info);
		unwind_user_regions_drop();
	}
}

/* If memory is lacking, serve the request with entries on the kernel stack. */
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

/* Retire a pending request that a flush has served. */
static bool unwind_deferred_retire(struct unwind_task_info *info)
{
	unsigned long request = UNWIND_REQUEST_PENDING;

	return READ_ONCE(info->request) == request &&
	       try_cmpxchg(&info->request, &request, 0);
}

/* If a request is pending, get memory for it and serve it. */
static void unwind_deferred_serve(struct unwind_task_info *info)
{
	unsigned int depth;

	if (!(READ_ONCE(info->request) & UNWIND_REQUEST_PENDING))
		return;

	/* An oopsed task may hold any lock. io_uring still runs its task work. */
	if (info->barred == UNWIND_BARRED_DEAD)
		return;

	unwind_deferred_take_memory(info);

	/* From here on, a flush leaves the request alone. */
	if (unwind_deferred_retire(info))
		goto out;

	depth = READ_ONCE(info->depth);
	if (depth & UNWIND_DEPTH_WALKED)
		depth = UNWIND_CACHE_FEW;
	if (likely(info->cache || unwind_deferred_cache(info, depth)))
		unwind_deferred_run(info);
	else
		unwind_deferred_run_few(info);

	unwind_deferred_trim_memory(info);
out:
	/* A */
	unwind_deferred_release_memory(info);
	unwind_deferred_unless_used(info);
}

static void unwind_deferred_task_work(struct callback_head *work)
{
	unwind_deferred_serve(&current->unwind_info);
}

/**
 * unwind_deferred_register - Register a client
 * @client:	The client, with its callback filled in
 *
 * A registered client may make requests. They are accepted while
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
 * unwind_deferred_unregister - Unregister a client
 * @client:	A registered client
 *
 * Cancels the client's requests that have not been served yet. When this returns,
 * the client's callback is not running and will not be called again.
 *
 * Context: Process context, not from a callback of any client. Sleeps, and waits
 *	    for running callbacks, but not for walks.
 */
void unwind_deferred_unregister(struct unwind_deferred_client *client)
{
	int id = client->id;

	if (id < 0)
		return;

	/*
	 * From here on, a callback only starts if its caller has read the pointer
	 * before.
	 */
	scoped_guard(mutex, &unwind_deferred_mutex)
		WRITE_ONCE(unwind_deferred_clients[id], NULL);

	/* Requests run with interrupts off: after this none sets the bit. */
	synchronize_rcu();

	/* Wait for callbacks whose caller has read the pointer before. */
	synchronize_srcu(&unwind_deferred_srcu);

	/*
	 * The bit stays set in requests of tasks. The next client with this id is
	 * younger than those requests, so it is not called for them.
	 */
	scoped_guard(mutex, &unwind_deferred_mutex) {
		WRITE_ONCE(client->id, -1);
		atomic_long_inc(&unwind_deferred_epoch);
		__clear_bit(id, &unwind_deferred_ids);
	}
}
EXPORT_SYMBOL_GPL(unwind_deferred_unregister);

/**
 * unwind_deferred_enable - Start to accept requests
 *
 * A client calls this before it makes requests. From then on, each return to
 * user mode costs one more store, until a second after the matching
 * unwind_deferred_disable().
 *
 * Context: Process context. Sleeps.
 */
void unwind_deferred_enable(void)
{
	guard(mutex)(&unwind_deferred_mutex);

	static_branch_deferred_inc(&unwind_deferred_key);

	/*
	 * Start a new epoch when all returns to user mode clear @rounds, not
	 * earlier: a stack that was delivered before must not count as
	 * delivered in a later kernel entry.
	 */
	if (!unwind_deferred_users)
		atomic_long_inc(&unwind_deferred_epoch);
	/* A request that sees the user also sees the epoch. */
	smp_store_release(&unwind_deferred_users, unwind_deferred_users + 1);
}
EXPORT_SYMBOL_GPL(unwind_deferred_enable);

/**
 * unwind_deferred_disable - Undo one unwind_deferred_enable()
 *
 * Pending requests are still served. After the last client's call, the memory that
 * walks have left behind is freed within a second.
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
 * unwind_deferred_renew - Make later requests deliver their stacks again
 *
 * To be called by a client whose callback now writes to more places than before. For
 * later requests, earlier deliveries do not count. They get a new cookie, even for a
 * stack that was delivered before.
 *
 * Context: Any.
 */
void unwind_deferred_renew(void)
{
	/* Order the stores that add the new place before the new epoch. */
	smp_mb__before_atomic();
	atomic_long_inc(&unwind_deferred_epoch);
}
EXPORT_SYMBOL_GPL(unwind_deferred_renew);

/**
 * unwind_deferred_kick - Bring current back before it runs user code
 *
 * To be called when a request came too late for the exit work to see it. The
 * interrupt arrives as soon as interrupts are enabled, which is before the first
 * user instruction. So the stack is still the one that was requested. It is also
 * still the same kernel entry: a client that makes a request on each way out gets
 * the same cookie then, and does not keep the task from user mode.
 *
 * Context: Interrupts disabled, on the way out of the kernel.
 */
void unwind_deferred_kick(void)
{
	irq_work_queue(this_cpu_ptr(&unwind_deferred_irq_work));
}

/**
 * unwind_deferred_task_fork - A task has been copied
 * @task:	The new task, not visible to others yet
 *
 * The child does not inherit the parent's requests and memory.
 */
void unwind_deferred_task_fork(struct task_struct *task)
{
	struct unwind_task_info *info = &task->unwind_info;

	*info = (struct unwind_task_info) { };
	init_task_work(&info->work, unwind_deferred_task_work);
}

/* Serve a pending request now. New requests have been barred. */
static void unwind_deferred_serve_now(struct unwind_task_info *info)
{
	if (!READ_ONCE(info->request))
		return;

	task_work_cancel(current, &info->work);
	unwind_deferred_serve(info);
}

/**
 * unwind_deferred_task_exec_begin - The current task will get a new mm
 *
 * Delivers the stack of a pending request from the old mm. Bars requests until
 * unwind_deferred_task_exec_end(). If execve() fails after the point of no return,
 * requests stay barred, because the task never runs user code again.
 *
 * Context: begin_new_exec(), before threads are reaped and ids swapped, so that
 *	    perf still attributes the stack to the thread that was sampled. Only
 *	    cred_guard_mutex is held. Sleeps.
 */
void unwind_deferred_task_exec_begin(void)
{
	struct unwind_task_info *info = &current->unwind_info;

	WRITE_ONCE(info->barred, UNWIND_BARRED_EXEC);
	/* From here on, interrupts refuse requests. Deliver the earlier ones. */
	barrier();
	unwind_deferred_serve_now(info);

	/* The walked stack is of no use for the new program. */
	info->rounds = 0;
	unwind_deferred_forget_memory(info);
}

/**
 * unwind_deferred_task_exec_end - The current task is about to start a program
 *
 * Context: bprm_execve(), when the user registers are those of the new program.
 */
void unwind_deferred_task_exec_end(void)
{
	WRITE_ONCE(current->unwind_info.barred, UNWIND_BARRED_NOT);
}

/**
 * unwind_deferred_task_exit - The current task exits
 *
 * Delivers the stack of a pending request while the task's mm and its perf context
 * still exist. Frees the memory that walks used. %PF_EXITING bars new requests.
 *
 * Context: do_exit(), after exit_signals(). Sleeps.
 */
void unwind_deferred_task_exit(void)
{
	struct unwind_task_info *info = &current->unwind_info;

	if (info->barred == UNWIND_BARRED_DEAD) {
		task_work_cancel(current, &info->work);
		unwind_deferred_abandon_memory(info);
		return;
	}

	unwind_deferred_serve_now(info);
	unwind_deferred_free_memory(info);
}

/**
 * unwind_deferred_task_dead - The current task has oopsed
 *
 * The task may hold any lock, so nothing is walked, delivered or freed.
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
