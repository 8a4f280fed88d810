/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_SUBJECT_H
#define _KERNEL_UNWIND_SUBJECT_H

#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uprobes.h>

/**
 * struct unwind_subject - A task whose stack another task walks
 * @task:	The task; the walker has a reference
 * @mm:		Its mm; the walker has a reference to its users, and uses it
 * @stopped:	Nobody wants the stack any more
 * @missed:	The walk would have had to wait for the mmap lock
 * @nr_returns:	Number of @returns
 * @returns:	Stack slots that uretprobes have changed, with the return addresses that
 *		were there
 *
 * Belongs to the walking kernel thread, see unwind_task_info::subject.
 */
struct unwind_subject {
	struct task_struct	*task;
	struct mm_struct	*mm;
	const bool		*stopped;
	bool			missed;
	unsigned int		nr_returns;
	struct {
		unsigned long	slot;
		unsigned long	ra;
	} returns[MAX_URETPROBE_DEPTH];
};

/**
 * unwind_user_task - Get the task whose stack current walks
 *
 * Context: Any, in a walk.
 * Return: current, or in a kernel thread that walks the stack of another task, that
 *	   task.
 */
static inline struct task_struct *unwind_user_task(void)
{
	const struct unwind_subject *subject = current->unwind_info.subject;

	return unlikely(subject) ? subject->task : current;
}

/*
 * Lock the mm of a walk for reading. A kernel thread gets no fatal signal, and who holds
 * the lock may wait for a file system of the user. So it does not wait.
 *
 * Return: false if the lock was not taken.
 */
static inline bool unwind_user_lock_mm(struct mm_struct *mm)
{
	struct unwind_subject *subject = current->unwind_info.subject;

	if (unlikely(subject)) {
		if (mmap_read_trylock(mm))
			return true;
		subject->missed = true;
		return false;
	}

	return !mmap_read_lock_killable(mm);
}

/* Does nobody need the stack that current walks? */
static inline bool unwind_user_stopped(void)
{
	const struct unwind_subject *subject = current->unwind_info.subject;

	return unlikely(subject) ? READ_ONCE(*subject->stopped) :
				   fatal_signal_pending(current);
}

/* The return address that is in @slot, or was before a uretprobe replaced it by @ra. */
static inline unsigned long unwind_subject_return(const struct unwind_subject *subject,
						  unsigned long slot, unsigned long ra)
{
	unsigned int i;

	for (i = 0; i < subject->nr_returns; i++) {
		if (subject->returns[i].slot == slot)
			return subject->returns[i].ra;
	}

	return ra;
}

#endif /* _KERNEL_UNWIND_SUBJECT_H */
