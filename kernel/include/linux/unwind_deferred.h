/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_DEFERRED_H
#define _LINUX_UNWIND_DEFERRED_H

#include <linux/context_tracking_state.h>
#include <linux/errno.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/sched.h>
#include <linux/unwind_deferred_types.h>

/**
 * struct unwind_user_trace - A user stack
 * @nr:		Number of @entries. At least 1, unless the instruction pointer is not
 *		a user address
 * @end:	Why there are no more entries
 * @entries:	The interrupted instruction pointer, unless it is not a user address,
 *		then the return addresses from the innermost frame to the outermost
 */
struct unwind_user_trace {
	unsigned int			nr;
	enum unwind_user_end		end;
	const unsigned long		*entries;
};

/**
 * struct unwind_deferred_client - A client that requests user stacks
 * @callback:	Receives a stack that this client requested
 * @flush:	Receives it in place of @callback while the task does not run, or NULL:
 *		then it has to wait for the task. See unwind_deferred_flush()
 * @in_uprobe:	It may request the stack in the handler of a uprobe. When the callback runs,
 *		the probed instruction has been executed, so the stack may differ
 * @id:		Bit of this client. Private to the interface
 * @born:	Epoch at registration. Private to the interface: an older request with
 *		the same bit was made by an earlier client
 *
 * @callback runs in the task that the request was made for, in task context
 * with interrupts enabled. The caller holds an SRCU read lock, keeps the task on its
 * CPU and, during execve(), holds the cred_guard_mutex. @callback may sleep, and it
 * may use the trace until it returns. It must not unregister a client. If it
 * requests the stack that it was called with, directly or indirectly, it gets the
 * same cookie, and no call follows unless unwind_deferred_renew() is called.
 *
 * @flush returns false if it could not store the stack. The request then stays.
 * @flush runs in a kernel thread, with interrupts off. It must not sleep or wake tasks:
 * the caller holds the task's pi_lock, and perhaps the lock of its run queue.
 */
struct unwind_deferred_client {
	void (*callback)(struct unwind_deferred_client *client,
			 const struct unwind_user_trace *trace, u64 cookie);
	bool (*flush)(struct unwind_deferred_client *client, struct task_struct *task,
		      const struct unwind_user_trace *trace, u64 cookie);
	bool				in_uprobe;
	int				id;
	unsigned long			born;
};

/**
 * struct unwind_flush_result - What became of requests in unwind_deferred_flush()
 * @delivered:	Their stacks were delivered
 * @busy:	Their tasks run, or are about to deliver them
 * @failed:	The client had no room for them, or the CPU has gone offline
 * @left:	Not looked at, because as many as wanted were delivered
 */
struct unwind_flush_result {
	unsigned int			delivered;
	unsigned int			busy;
	unsigned int			failed;
	unsigned int			left;
};

typedef void (*unwind_flush_task_fn)(struct task_struct *task, void *arg);
typedef void (*unwind_flush_each_fn)(void *data, unwind_flush_task_fn func, void *arg);

#ifdef CONFIG_UNWIND_USER

/**
 * unwind_deferred_request_cpu - Get the CPU of a task's last request
 * @task:	The task
 *
 * Context: Any. The task may change it at any time.
 * Return: the CPU on which the first client requested the stack. Means nothing if the
 *	   task has never made a request.
 */
static inline int unwind_deferred_request_cpu(const struct task_struct *task)
{
	return (u16)READ_ONCE(task->unwind_info.cookie) - 1;
}

extern struct static_key_false_deferred unwind_deferred_key;

int unwind_deferred_register(struct unwind_deferred_client *client);
void unwind_deferred_unregister(struct unwind_deferred_client *client);
void unwind_deferred_enable(void);
void unwind_deferred_disable(void);
void unwind_deferred_renew(void);
int unwind_deferred_request(struct unwind_deferred_client *client,
			    const struct pt_regs *regs, unsigned int depth,
			    u64 *cookie);

void unwind_deferred_task_fork(struct task_struct *task);
void unwind_deferred_task_exec_begin(void);
void unwind_deferred_task_exec_end(void);
void unwind_deferred_task_exit(void);
void unwind_deferred_task_dead(void);
void unwind_deferred_kick(void);
void unwind_deferred_sleep(void);
void unwind_deferred_traced(void);
void unwind_deferred_preempted(void);
int unwind_deferred_flush(struct unwind_deferred_client *client,
			  unwind_flush_each_fn each, void *data, unsigned int max,
			  struct unwind_flush_result *result);

/**
 * unwind_deferred_enter_from_user_mode - Allow requests after kernel entry
 *
 * The task will run its task work again before it returns to user mode.
 *
 * Context: Interrupts disabled, on the way into the kernel, after context tracking.
 */
static __always_inline void unwind_deferred_enter_from_user_mode(void)
{
	if (context_tracking_enabled_this_cpu() &&
	    current->unwind_info.barred == UNWIND_BARRED_LEAVING)
		WRITE_ONCE(current->unwind_info.barred, UNWIND_BARRED_NOT);
}

/**
 * unwind_deferred_exit_to_user_mode - User code is about to run
 *
 * User code will change its stack, so the next kernel entry cannot use a stack
 * that was delivered in this one. A request that came after the last check for
 * task work must not wait until the next entry. For such a request, the CPU
 * interrupts itself, and the task serves it before it runs user code. On CPUs in
 * nohz_full, context tracking has tracepoints after this, where nothing brings the
 * task back.
 *
 * Context: Interrupts disabled, on the way out of the kernel, after all code that
 *	    can be traced there, except context tracking on CPUs in nohz_full.
 */
static __always_inline void unwind_deferred_exit_to_user_mode(void)
{
	if (!static_branch_unlikely(&unwind_deferred_key.key))
		return;

	if (unlikely(READ_ONCE(current->unwind_info.request)))
		unwind_deferred_kick();
	else
		current->unwind_info.rounds = 0;

	if (context_tracking_enabled_this_cpu() &&
	    current->unwind_info.barred == UNWIND_BARRED_NOT)
		WRITE_ONCE(current->unwind_info.barred, UNWIND_BARRED_LEAVING);
}

/**
 * unwind_deferred_submit - The task is about to sleep
 *
 * Context: Task context of current, before it takes a run queue lock.
 */
static __always_inline void unwind_deferred_submit(void)
{
	/* Without rules, no walk at hand is whole. */
	if (IS_ENABLED(CONFIG_UNWIND_USER_SFRAME) &&
	    static_branch_unlikely(&unwind_deferred_key.key) &&
	    unlikely(READ_ONCE(current->unwind_info.request)))
		unwind_deferred_sleep();
}

/**
 * unwind_deferred_sys_enter - A system call has been traced and is about to begin
 *
 * Context: Task context of current, preemption enabled, no lock held.
 */
static __always_inline void unwind_deferred_sys_enter(void)
{
	if (IS_ENABLED(CONFIG_UNWIND_USER_SFRAME) &&
	    static_branch_unlikely(&unwind_deferred_key.key) &&
	    unlikely(READ_ONCE(current->unwind_info.request)))
		unwind_deferred_traced();
}

/**
 * unwind_deferred_preempt - The task is about to be preempted on its way to user mode
 *
 * On PREEMPT_RT, what preempts it does not wait for the walk.
 *
 * Context: Task context of current, interrupts disabled, no lock held. Enables interrupts
 *	    meanwhile.
 */
static __always_inline void unwind_deferred_preempt(void)
{
	if (IS_ENABLED(CONFIG_UNWIND_USER_SFRAME) && !IS_ENABLED(CONFIG_PREEMPT_RT) &&
	    static_branch_unlikely(&unwind_deferred_key.key) &&
	    unlikely(READ_ONCE(current->unwind_info.request)))
		unwind_deferred_preempted();
}

/**
 * unwind_deferred_enter_guest - A guest is about to run
 *
 * For the task of the virtual CPU this counts as leaving the kernel. The guest may
 * run for days, and samples should not be far from the stack that they refer to. A
 * request that came too late for the last task work is served after the guest has
 * exited; the task's user stack is still the same then.
 *
 * Context: Interrupts disabled.
 */
static __always_inline void unwind_deferred_enter_guest(void)
{
	if (static_branch_unlikely(&unwind_deferred_key.key) &&
	    !READ_ONCE(current->unwind_info.request))
		current->unwind_info.rounds = 0;
}

#else /* !CONFIG_UNWIND_USER */

static inline int unwind_deferred_register(struct unwind_deferred_client *client)
{
	return -EOPNOTSUPP;
}

static inline void unwind_deferred_unregister(struct unwind_deferred_client *client) { }
static inline void unwind_deferred_enable(void) { }
static inline void unwind_deferred_disable(void) { }
static inline void unwind_deferred_renew(void) { }

static inline int unwind_deferred_request(struct unwind_deferred_client *client,
					  const struct pt_regs *regs,
					  unsigned int depth, u64 *cookie)
{
	return -EOPNOTSUPP;
}

static inline int unwind_deferred_request_cpu(const struct task_struct *task)
{
	return -1;
}

static inline int unwind_deferred_flush(struct unwind_deferred_client *client,
					unwind_flush_each_fn each, void *data,
					unsigned int max,
					struct unwind_flush_result *result)
{
	return -EOPNOTSUPP;
}

static inline void unwind_deferred_task_fork(struct task_struct *task) { }
static inline void unwind_deferred_task_exec_begin(void) { }
static inline void unwind_deferred_task_exec_end(void) { }
static inline void unwind_deferred_task_exit(void) { }
static inline void unwind_deferred_task_dead(void) { }
static __always_inline void unwind_deferred_enter_from_user_mode(void) { }
static __always_inline void unwind_deferred_exit_to_user_mode(void) { }
static __always_inline void unwind_deferred_submit(void) { }
static __always_inline void unwind_deferred_sys_enter(void) { }
static __always_inline void unwind_deferred_preempt(void) { }
static __always_inline void unwind_deferred_enter_guest(void) { }

#endif /* CONFIG_UNWIND_USER */

#endif /* _LINUX_UNWIND_DEFERRED_H */
