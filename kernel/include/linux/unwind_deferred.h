/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_DEFERRED_H
#define _LINUX_UNWIND_DEFERRED_H

#include <linux/errno.h>
#include <linux/jump_label.h>
#include <linux/sched.h>
#include <linux/unwind_deferred_types.h>

/**
 * struct unwind_user_trace - A user stack
 * @nr:		Number of @entries; 0 if memory for the walk was lacking
 * @entries:	The interrupted instruction pointer, unless that is no user
 *		address, then the return addresses from the innermost to the
 *		outermost
 */
struct unwind_user_trace {
	unsigned int			nr;
	const unsigned long		*entries;
};

/**
 * struct unwind_deferred_client - Someone who wants user stacks
 * @callback:	Receives a stack that this client asked for
 * @reuse:	A request may be answered with the cookie of a stack that @callback
 *		has already received in this kernel entry; no call follows then.
 *		Not to be changed while the client is registered.
 * @id:		Bit of this client, private to the interface
 *
 * @callback runs in the task that the request was made for, in task context
 * with interrupts enabled. The caller holds an SRCU read lock and, during
 * execve(), the cred_guard_mutex. It may sleep, and it may use the trace until it
 * returns. It must not unregister a client. Requests that it makes or causes from
 * task context are refused.
 */
struct unwind_deferred_client {
	void (*callback)(struct unwind_deferred_client *client,
			 const struct unwind_user_trace *trace, u64 cookie);
	bool				reuse;
	int				id;
};

#ifdef CONFIG_UNWIND_USER

DECLARE_STATIC_KEY_FALSE(unwind_deferred_key);

int unwind_deferred_register(struct unwind_deferred_client *client);
void unwind_deferred_unregister(struct unwind_deferred_client *client);
void unwind_deferred_enable(void);
void unwind_deferred_disable(void);
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
 * unwind_deferred_exit_to_user_mode - User code is about to run
 *
 * It will change its stack, so a stack that was walked in this kernel entry is
 * of no use for the next one. Unless a request was made after the last look at the
 * task's work: that must not wait until the next entry, so the task comes back
 * before it runs user code.
 *
 * Context: Interrupts disabled, on the way out of the kernel, after what can be
 *	    traced there but for context tracking, on CPUs in nohz_full.
 */
static __always_inline void unwind_deferred_exit_to_user_mode(void)
{
	if (!static_branch_unlikely(&unwind_deferred_key))
		return;

	if (unlikely(READ_ONCE(current->unwind_info.request)))
		unwind_deferred_kick();
	else
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
static __always_inline void unwind_deferred_exit_to_user_mode(void) { }

#endif /* CONFIG_UNWIND_USER */

#endif /* _LINUX_UNWIND_DEFERRED_H */
