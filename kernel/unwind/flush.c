// SPDX-License-Identifier: GPL-2.0
/*
 * User stacks of tasks that do not run
 *
 * A task that sleeps serves its request when it wakes, which may be after the profiling
 * session. unwind_deferred_flush() serves it before. If the stack was walked before the
 * task went to sleep, it is delivered as it is. Otherwise a kernel thread walks it from
 * outside: from the registers of the request, in the memory of the task.
 *
 *   kernel thread			task
 *
 *   pin: still pending?		does not run
 *     copy the request
 *   walk				may wake, serve the request, make a new one
 *   pin: still the same cookie?	does not run
 *     call the clients, take their
 *     bits from the request
 *
 * A task is pinned by task_call_func(). It cannot start to run then, and if it is on no
 * CPU, no context of it is in a request. So the kernel thread may write what otherwise
 * only the task writes, and whatever the task does between the two steps, either it has
 * served the request or the kernel thread does. What the task keeps between walks is
 * taken as reclaim takes it: a task that walks or runs callbacks is left alone.
 *
 * ============================ ========================= ============================
 * field                        written by                under
 * ============================ ========================= ============================
 * unwind_task_info::@request,  the kernel thread         the task is pinned and on no
 * @served, @cpu, @rounds,                                CPU, its memory is taken
 * @depth
 * unwind_flush_job::@stopped   the caller: true          nothing; the job may see it
 *                                                        late
 * unwind_flush_job::@cpu       the caller                nothing: the work is not queued
 *                                                        and does not run then
 * unwind_flush_job::@result,   the kernel thread         used by the caller after @done
 * @tasks
 * ============================ ========================= ============================
 */
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/ptrace.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <asm/unwind_user.h>

#include "requests.h"
#include "subject.h"
#include "task_memory.h"

/* How often the stack of a task is walked, if its request changes or a lock is missed */
#define UNWIND_FLUSH_TRIES	5

/* How long to wait for another thread of the program that holds the mmap lock */
#define UNWIND_FLUSH_WAIT_US	100

/* How often a job waits at most */
#define UNWIND_FLUSH_WAITS	100

/* How many jobs run at the same time on a CPU. Others wait for their turn. */
#define UNWIND_FLUSH_JOBS	16

/**
 * struct unwind_flush_user - A user without privileges who has a job
 * @entry:	In unwind_flush_users
 * @uid:	The user
 *
 * Such a user has one job at a time, so that the jobs of others do not wait for many. The
 * job may outlive its caller, and this ends with it.
 */
struct unwind_flush_user {
	struct list_head	entry;
	kuid_t			uid;
};

/* Protected by the lock. */
static LIST_HEAD(unwind_flush_users);
static DEFINE_SPINLOCK(unwind_flush_users_lock);
static DECLARE_WAIT_QUEUE_HEAD(unwind_flush_users_wait);

/**
 * struct unwind_flush_job - The work of one unwind_deferred_flush()
 * @work:	Runs it
 * @refs:	The caller, and the work
 * @done:	The work on @cpu is done
 * @stopped:	The caller has got a signal, and has gone
 * @user:	The user who has no other job meanwhile, or NULL
 * @id:		Number of the client that asked; it may unregister when the caller has gone
 * @cpu:	CPU on which the work runs: the one of the requests that are served now
 * @result:	What became of the requests
 * @subject:	The task whose stack is being walked
 * @trace:	Its stack
 * @entries:	Room for a stack, for @max entries
 * @max:	Room in @entries
 * @wanted:	How many deliveries are enough
 * @waits:	How often the job has waited for a lock
 * @rules:	Memory for rules
 * @cookie:	Request that @subject had when it was copied; 0 if there is no copy
 * @regs:	Registers of the request
 * @gprs:	All its registers
 * @known:	@gprs were found
 * @depth:	How many entries are wanted
 * @nr:		Number of @tasks
 * @tasks:	Tasks to look at, with references, and the CPUs of their requests; -1 if the
 *		task has been looked at
 */
struct unwind_flush_job {
	struct work_struct		work;
	refcount_t			refs;
	struct completion		done;
	bool				stopped;
	struct unwind_flush_user	*user;
	int				id;
	int				cpu;
	struct unwind_flush_result	result;
	struct unwind_subject		subject;
	struct unwind_user_trace	trace;
	unsigned long			*entries;
	unsigned int			max;
	unsigned int			wanted;
	unsigned int			waits;
	struct unwind_user_rules	*rules;
	u64				cookie;
	struct unwind_user_regs		regs;
	struct unwind_user_gprs		gprs;
	bool				known;
	unsigned int			depth;
	unsigned int			nr;
	struct unwind_flush_task {
		struct task_struct	*task;
		int			cpu;
	} tasks[];
};

static struct workqueue_struct *unwind_flush_wq;

#ifdef CONFIG_UNWIND_USER_SFRAME
static struct unwind_user_rules *unwind_flush_alloc_rules(void)
{
	return unwind_user_rules_alloc(GFP_KERNEL_ACCOUNT);
}

static void unwind_flush_reset_rules(struct unwind_user_rules *rules)
{
	if (rules)
		unwind_user_rules_reset(rules);
}

static void unwind_flush_free_rules(struct unwind_user_rules *rules)
{
	unwind_user_rules_free(rules);
}
#else
static struct unwind_user_rules *unwind_flush_alloc_rules(void)
{
	return NULL;
}

static void unwind_flush_reset_rules(struct unwind_user_rules *rules) { }
static void unwind_flush_free_rules(struct unwind_user_rules *rules) { }
#endif

/* Has @task left its CPU? It is pinned. */
static bool unwind_flush_off_cpu(const struct task_struct *task)
{
#ifdef CONFIG_SMP
	/* Pairs with finish_task(): all that the task has written is visible. */
	return !smp_load_acquire(&task->on_cpu);
#else
	return task != current;
#endif
}

/*
 * Call the clients of the pending request that can be called in place of the task. The
 * task is pinned, its memory is taken.
 */
static void unwind_flush_deliver(struct unwind_flush_job *job, struct task_struct *task,
				 const struct unwind_user_trace *trace, unsigned int depth)
{
	struct unwind_task_info *info = &task->unwind_info;
	unsigned long request = info->request, served = 0;
	struct unwind_deferred_client *client;
	int id;

	for_each_set_bit(id, &request, UNWIND_MAX_CLIENTS) {
		client = READ_ONCE(unwind_deferred_clients[id]);
		if (client && client->born <= info->epoch) {
			/* Without room for the stack, the request stays. */
			if (!client->flush ||
			    !client->flush(client, task, trace, info->cookie))
				continue;
		}
		served |= BIT(id);
	}

	if (!(served & BIT(job->id))) {
		job->result.failed++;
		if (!served)
			return;
	} else {
		job->result.delivered++;
	}

	info->served	= served | (info->cpu == job->cpu ? info->served : 0);
	info->cpu	= job->cpu;
	info->depth	= depth | UNWIND_DEPTH_WALKED;
	if (info->rounds < U8_MAX)
		info->rounds++;
	WRITE_ONCE(info->request, request & ~served);
}

/* Deliver the stack that was walked before the task went to sleep, if it is there. */
static bool unwind_flush_kept(struct unwind_flush_job *job, struct task_struct *task)
{
	const struct unwind_task_info *info = &task->unwind_info;
	const struct unwind_task_cache *cache = info->cache;
	struct unwind_user_trace trace;

	if (!(info->depth & UNWIND_DEPTH_WALKED) || !cache || !cache->filled)
		return false;

	trace.nr	= cache->nr;
	trace.end	= cache->end;
	trace.entries	= cache->entries;
	unwind_flush_deliver(job, task, &trace, info->depth & ~UNWIND_DEPTH_WALKED);

	return true;
}

static void unwind_flush_copy_returns(struct unwind_subject *subject,
				      struct task_struct *task)
{
	unsigned int nr = 0;
#ifdef CONFIG_UPROBES
	const struct uprobe_task *utask = task->utask;
	const struct return_instance *ri = utask ? utask->return_instances : NULL;

	for (; ri && nr < ARRAY_SIZE(subject->returns); ri = ri->next, nr++) {
		subject->returns[nr].slot	= ri->stack;
		subject->returns[nr].ra		= ri->orig_ret_vaddr;
	}
#endif
	subject->nr_returns = nr;
}

static void unwind_flush_copy(struct unwind_flush_job *job, struct task_struct *task)
{
	const struct unwind_task_info *info = &task->unwind_info;

	job->cookie	= info->cookie;
	job->regs	= info->regs;
	job->depth	= info->depth & ~UNWIND_DEPTH_WALKED;
	job->known	= unwind_deferred_task_gprs(task, &job->gprs);
	unwind_flush_copy_returns(&job->subject, task);
}

/*
 * Deliver the stack of a task that does not run, or copy its request. The task is
 * pinned.
 *
 * Return: 0 if nothing is left to do, 1 if the request was copied, -EBUSY if the task
 *	   runs or is about to deliver the stack, -EAGAIN on another CPU
 */
static int unwind_flush_pinned(struct task_struct *task, void *data)
{
	struct unwind_flush_job *job = data;
	struct unwind_task_info *info = &task->unwind_info;
	unsigned long request;
	int ret = 0;

	/* A task that was only preempted delivers its stack soon. */
	if (!unwind_flush_off_cpu(task) || (task->on_rq && !task->se.sched_delayed))
		return -EBUSY;

	/* An offline CPU has no events that want the stack, so any CPU will do. */
	if (smp_processor_id() != job->cpu && cpu_online(job->cpu))
		return -EAGAIN;

	request = READ_ONCE(info->request);
	if (!(request & UNWIND_REQUEST_PENDING) || !(request & BIT(job->id)))
		return 0;

	/* The task has delivered the stack, and has made another request elsewhere. */
	if (unwind_deferred_request_cpu(task) != job->cpu)
		return -EBUSY;

	if (info->barred == UNWIND_BARRED_EXEC || info->barred == UNWIND_BARRED_DEAD ||
	    task->mm != job->subject.mm || !unwind_deferred_try_memory(info))
		return -EBUSY;

	if (unwind_flush_kept(job, task))
		goto out;

	/* A request for a deeper stack may have joined since. */
	if (job->cookie == info->cookie &&
	    (job->trace.end != UNWIND_USER_END_CUT ||
	     (info->depth & ~UNWIND_DEPTH_WALKED) <= job->depth)) {
		/* The stack that the task keeps is that of an earlier request. */
		if (info->cache)
			info->cache->filled = false;
		unwind_flush_deliver(job, task, &job->trace,
				     job->trace.end == UNWIND_USER_END_CUT ?
				     job->trace.nr : UNWIND_USER_MAX_DEPTH);
	} else {
		unwind_flush_copy(job, task);
		ret = 1;
	}
out:
	unwind_deferred_release_memory(info);
	return ret;
}

/* Walk the stack of the copied request. */
static void unwind_flush_walk(struct unwind_flush_job *job)
{
	struct unwind_subject *subject = &job->subject;
	struct unwind_user_rules *rules = job->rules;
	unsigned int max = min(job->depth, job->max);
	struct mem_cgroup *memcg, *old;
	u32 keys;

	if (arch_unwind_user_compat(subject->task))
		rules = NULL;

	memcg = get_mem_cgroup_from_mm(subject->mm);
	old = set_active_memcg(memcg);
	kthread_use_mm(subject->mm);
	keys = arch_unwind_user_ignore_keys();
	subject->missed = false;
	current->unwind_info.subject = subject;

	job->trace.end = unwind_user_walk(&job->regs, job->known ? &job->gprs : NULL, rules,
					  job->entries, max, &job->trace.nr);
	job->trace.entries = job->entries;
	if (job->trace.end == UNWIND_USER_END_CUT && max < job->depth)
		job->trace.end = UNWIND_USER_END_NOMEM;
	/* Walk again, or leave it to the task. */
	if (subject->missed)
		job->cookie = 0;

	current->unwind_info.subject = NULL;
	arch_unwind_user_restore_keys(keys);
	/* If no client is left, nor is anything kept for the mm. */
	unwind_deferred_unless_used(&subject->task->unwind_info);
	kthread_unuse_mm(subject->mm);
	set_active_memcg(old);
	mem_cgroup_put(memcg);

	unwind_flush_reset_rules(job->rules);
}

static int unwind_flush_one(struct unwind_flush_job *job, struct task_struct *task)
{
	unsigned int tries;
	int ret;

	/* An exiting task serves its request while it has its mm. */
	job->subject.mm = get_task_mm(task);
	if (!job->subject.mm)
		return 0;

	job->subject.task = task;
	job->cookie = 0;
	for (tries = 0; ; tries++) {
		/* Callbacks must not run after their client has gone. */
		scoped_guard(srcu, &unwind_deferred_srcu)
			ret = task_call_func(task, unwind_flush_pinned, job);
		if (ret <= 0 || tries == UNWIND_FLUSH_TRIES)
			break;
		unwind_flush_walk(job);
		if (!job->subject.missed)
			continue;
		if (job->waits++ >= UNWIND_FLUSH_WAITS)
			break;
		fsleep(UNWIND_FLUSH_WAIT_US);
	}
	unwind_deferred_unless_used(&task->unwind_info);
	/* The last user may have to wait for the I/O of the process. */
	mmput_async(job->subject.mm);

	return ret > 0 ? -EBUSY : ret;
}

/* Return false while another caller has a job of the same user. */
static bool unwind_flush_user_begin(struct unwind_flush_user *user)
{
	struct unwind_flush_user *other;

	guard(spinlock)(&unwind_flush_users_lock);

	list_for_each_entry(other, &unwind_flush_users, entry) {
		if (uid_eq(other->uid, user->uid))
			return false;
	}
	list_add(&user->entry, &unwind_flush_users);
	return true;
}

static void unwind_flush_user_end(struct unwind_flush_user *user)
{
	if (!user)
		return;

	scoped_guard(spinlock, &unwind_flush_users_lock)
		list_del(&user->entry);
	wake_up_all(&unwind_flush_users_wait);
	kfree(user);
}

static void unwind_flush_put(struct unwind_flush_job *job)
{
	unsigned int i;

	if (!refcount_dec_and_test(&job->refs))
		return;

	for (i = 0; i < job->nr; i++)
		put_task_struct(job->tasks[i].task);
	unwind_flush_free_rules(job->rules);
	kvfree(job->entries);
	unwind_flush_user_end(job->user);
	kvfree(job);
}

/* Serve the requests of job->cpu. */
static void unwind_flush_work(struct work_struct *work)
{
	struct unwind_flush_job *job = container_of(work, struct unwind_flush_job, work);
	unsigned int i;
	int ret;

	for (i = 0; i < job->nr && job->result.delivered < job->wanted; i++) {
		if (READ_ONCE(job->stopped))
			break;
		if (job->tasks[i].cpu != job->cpu)
			continue;

		job->tasks[i].cpu = -1;
		ret = unwind_flush_one(job, job->tasks[i].task);
		if (ret == -EBUSY)
			job->result.busy++;
		else if (ret)
			job->result.failed++;
		cond_resched();
	}

	complete(&job->done);
	unwind_flush_put(job);
}

/*
 * Run the work on @cpu if possible.
 *
 * Return: -EINTR if a signal has come meanwhile. The work then ends by itself.
 */
static int unwind_flush_on(struct unwind_flush_job *job, int cpu)
{
	job->cpu = cpu;
	reinit_completion(&job->done);
	refcount_inc(&job->refs);

	/* A CPU that goes offline later leaves the work to others. */
	scoped_guard(cpus_read_lock)
		queue_work_on(cpu_online(cpu) ? cpu : WORK_CPU_UNBOUND, unwind_flush_wq,
			      &job->work);

	if (wait_for_completion_interruptible(&job->done)) {
		WRITE_ONCE(job->stopped, true);
		return -EINTR;
	}

	/* Until its function has returned, it could only be queued on the same CPU. */
	flush_work(&job->work);
	return 0;
}

/* Serve all requests, one CPU after the other. */
static int unwind_flush_run(struct unwind_flush_job *job)
{
	unsigned int i;
	int ret;

	for (i = 0; i < job->nr && job->result.delivered < job->wanted; i++) {
		if (job->tasks[i].cpu < 0)
			continue;
		ret = unwind_flush_on(job, job->tasks[i].cpu);
		if (ret)
			return ret;
	}

	for (i = 0; i < job->nr; i++)
		job->result.left += job->tasks[i].cpu >= 0;

	return 0;
}

/**
 * struct unwind_flush_collect - State while tasks are collected
 * @pending:	Bits of a request that this is for
 * @nr:		Number of tasks so far
 * @max:	Room in @tasks
 * @tasks:	Receives the tasks, with references, or NULL to count them
 */
struct unwind_flush_collect {
	unsigned long		pending;
	unsigned int		nr;
	unsigned int		max;
	struct unwind_flush_task *tasks;
};

static void unwind_flush_collect(struct task_struct *task, void *data)
{
	struct unwind_flush_collect *collect = data;

	/* It may change at any time. */
	if ((READ_ONCE(task->unwind_info.request) & collect->pending) != collect->pending)
		return;

	if (collect->tasks) {
		if (collect->nr == collect->max)
			return;
		collect->tasks[collect->nr].task = get_task_struct(task);
		collect->tasks[collect->nr].cpu = clamp_t(int, unwind_deferred_request_cpu(task),
							  0, nr_cpu_ids - 1);
	}
	collect->nr++;
}

static struct unwind_flush_job *unwind_flush_new(struct unwind_deferred_client *client,
						 unwind_flush_each_fn each, void *data)
{
	struct unwind_flush_collect collect = {
		.pending = UNWIND_REQUEST_PENDING | BIT(client->id),
	};
	struct unwind_flush_job *job;
	unsigned int max;

	each(data, unwind_flush_collect, &collect);
	max = collect.nr;
	if (!max)
		return NULL;

	job = kvzalloc(struct_size(job, tasks, max), GFP_KERNEL_ACCOUNT);
	if (!job)
		return ERR_PTR(-ENOMEM);

	INIT_WORK(&job->work, unwind_flush_work);
	refcount_set(&job->refs, 1);
	init_completion(&job->done);
	job->id		= client->id;
	job->subject.stopped = &job->stopped;
	job->max	= UNWIND_USER_MAX_DEPTH;
	job->entries	= kvmalloc_array(job->max, sizeof(*job->entries), GFP_KERNEL_ACCOUNT);
	job->rules	= unwind_flush_alloc_rules();
	if (!job->entries || (IS_ENABLED(CONFIG_UNWIND_USER_SFRAME) && !job->rules)) {
		unwind_flush_put(job);
		return ERR_PTR(-ENOMEM);
	}

	collect.nr = 0;
	collect.max = max;
	collect.tasks = job->tasks;
	each(data, unwind_flush_collect, &collect);
	job->nr = collect.nr;

	return job;
}

/**
 * unwind_deferred_flush - Deliver the stacks of tasks that do not run
 * @client:	The client that wants the stacks; it stays registered meanwhile
 * @each:	Visits the tasks. Called twice, in the caller's context
 * @data:	For @each
 * @max:	How many stacks to deliver at most
 * @result:	Receives what became of their requests
 *
 * Each client with a unwind_deferred_client::flush that takes part in a request gets the
 * stack, on the CPU of the request. A task that runs in the kernel is left alone: it
 * delivers its stack itself.
 *
 * Context: Process context, no lock held. Sleeps; a signal ends the wait. Without
 *	    CAP_PERFMON, waits until other calls of the same user are done.
 * Return: 0, -ENOMEM, or -EINTR after a signal.
 */
int unwind_deferred_flush(struct unwind_deferred_client *client,
			  unwind_flush_each_fn each, void *data, unsigned int max,
			  struct unwind_flush_result *result)
{
	struct unwind_flush_user *user = NULL;
	struct unwind_flush_job *job;
	int ret;

	*result = (struct unwind_flush_result) { };
	if (!unwind_flush_wq)
		return -ENOMEM;

	if (!perfmon_capable()) {
		user = kmalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
		if (!user)
			return -ENOMEM;

		user->uid = current_uid();
		if (wait_event_interruptible(unwind_flush_users_wait,
					     unwind_flush_user_begin(user))) {
			kfree(user);
			return -EINTR;
		}
	}

	job = unwind_flush_new(client, each, data);
	if (IS_ERR_OR_NULL(job)) {
		unwind_flush_user_end(user);
		return PTR_ERR_OR_ZERO(job);
	}

	job->user = user;
	job->wanted = max;
	ret = unwind_flush_run(job);
	if (!ret)
		*result = job->result;
	unwind_flush_put(job);
	return ret;
}

static int __init unwind_flush_init(void)
{
	/* A walk may wait for memory to be read in. */
	unwind_flush_wq = alloc_workqueue("unwind_flush", WQ_CPU_INTENSIVE,
					  UNWIND_FLUSH_JOBS);

	return unwind_flush_wq ? 0 : -ENOMEM;
}
core_initcall(unwind_flush_init);
