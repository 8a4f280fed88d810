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
 */
struct unwind_deferred_client {
	void (*callback)(struct unwind_deferred_client *client,
			 const struct unwind_user_trace *trace, u64 cookie);
	int				id;
	unsigned long			born;
};

#ifdef CONFIG_UNWIND_USER

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

static inline void unwind_deferred_task_fork(struct task_struct *task) { }
static inline void unwind_deferred_task_exec_begin(void) { }
static inline void unwind_deferred_task_exec_end(void) { }
static inline void unwind_deferred_task_exit(void) { }
static inline void unwind_deferred_task_dead(void) { }
static __always_inline void unwind_deferred_enter_from_user_mode(void) { }
static __always_inline void unwind_deferred_exit_to_user_mode(void) { }
static __always_inline void unwind_deferred_enter_guest(void) { }

#endif /* CONFIG_UNWIND_USER */

#endif /* _LINUX_UNWIND_DEFERRED_H */
