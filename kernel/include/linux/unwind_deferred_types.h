/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_DEFERRED_TYPES_H
#define _LINUX_UNWIND_DEFERRED_TYPES_H

#include <linux/types.h>
#include <linux/unwind_user_types.h>

struct unwind_subject;
struct unwind_task_cache;
struct unwind_task_gprs;
struct unwind_user_rules;

/**
 * enum unwind_barred - Whether a task may make requests
 * @UNWIND_BARRED_NOT:	It may
 * @UNWIND_BARRED_EXEC:	It executes a new program. Until that starts, the user
 *			registers are those of the old program and do not match mm
 * @UNWIND_BARRED_LEAVING: It has done its last work before user mode, on a CPU with
 *			context tracking, or is in user mode. Bars task context only
 * @UNWIND_BARRED_DEAD:	It oopsed; none of its state can be trusted
 */
enum unwind_barred {
	UNWIND_BARRED_NOT,
	UNWIND_BARRED_EXEC,
	UNWIND_BARRED_LEAVING,
	UNWIND_BARRED_DEAD,
};

/**
 * struct unwind_task_info - State of a task for deferred unwinding
 * @request:	%UNWIND_REQUEST_CLAIMED while a request is being set up, then
 *		%UNWIND_REQUEST_PENDING and one bit per requesting client; 0 if none
 * @cookie:	Identifies the stack of @regs in this kernel entry
 * @regs:	User registers of the pending request, or of the last one
 * @gprs:	All user registers, for rules that need more than @regs. A walk
 *		allocates the memory, so the first request has none
 * @rules:	Memory of the task's walks for rules. The first walk allocates it
 * @asked:	When unwind_immediate() asked for rules, in jiffies; 0 if it never did
 * @missing:	The address whose rule it asked for; 0 if the program had no rules
 * @depth:	Greatest depth that a client of the pending request wants. After the
 *		walk: the depth that it can serve, and %UNWIND_DEPTH_WALKED
 * @epoch:	Epoch when @regs were taken; identifies stale bits in @request and
 *		@served
 * @served:	Clients that have received the stack of @regs
 * @cpu:	CPU on which they received it
 * @rounds:	Deliveries since the kernel was entered. 0 means that @served and the
 *		walked stack are of an earlier entry
 * @barred:	Whether requests can be made, see &enum unwind_barred
 * @probed:	First byte of the instruction that a uprobe has replaced, if the request was
 *		made in the uprobe's handler, or 0
 * @memory:	Lock for @cache, @gprs and @rules. The task holds it while it serves a
 *		request. Otherwise the first one that takes it may free them
 * @work:	Task work that runs the deferred work
 * @cache:	The stack that was walked last, if the memory is still there. A walk
 *		allocates it
 * @tried:	Cookie of the last request whose stack could not, or need not, be walked early
 *		again; see sleep.c
 * @subject:	In a kernel thread that walks the stack of another task: that task
 *
 * All fields belong to the task itself. Only the task writes them: in task context,
 * or in an interrupt or NMI on top of it. The exceptions are reclaim, which takes
 * memory away, and a flush, which serves the request of a task that does not run.
 *
 * ============ ================================= ===============================
 * field        written by                        when
 * ============ ================================= ===============================
 * @request     task, IRQ, NMI: cmpxchg from 0    a request
 *              task, IRQ, NMI: store             a request that has set it to CLAIMED
 *              task: cmpxchg to 0                the deferred work
 * @cookie,     task, IRQ, NMI                    the writer has set @request to
 * @regs,                                         CLAIMED, which keeps nested
 * @epoch,                                        contexts off
 * @probed,
 * *@gprs,                                        (*@gprs also by the walk that
 * @work                                          allocates it, before others
 *                                                can see it)
 * @served      task, IRQ, NMI                    the writer has set @request to
 *                                                CLAIMED
 *              task                              the deferred work, while
 *                                                @request is PENDING
 * @depth       task, IRQ, NMI: store             a request that has set @request to
 *                                                CLAIMED
 *              task, IRQ, NMI: cmpxchg           a request that joins a pending one
 *              task: cmpxchg                     the deferred work; an early walk
 * @rounds      task                              the deferred work; return to
 *                                                user mode and entry of a guest
 *                                                with IRQs off; exec
 * @barred      task                              exec; oops; return to and entry from
 *                                                user mode with IRQs off
 * @cpu         task                              the deferred work
 * @memory      task, other CPU: cmpxchg          around uses of the next three
 * @cache,      task                              the deferred work; an early walk; exec,
 * @gprs,                                         exit; the task has taken @memory
 * @rules       other CPU: to NULL                reclaim; it has taken @memory
 * @asked,      task, IRQ, NMI                    a sample whose stack lacks rules
 * @missing
 * @tried       task                              it is about to sleep, to be preempted,
 *                                                or to begin a traced system call
 * @subject     task, a kernel thread             around a walk of another's stack
 * @request,    other CPU                         a flush; the task is on no CPU and
 * @served,                                       cannot wake up, and the flush has
 * @depth,                                        taken @memory
 * @rounds,
 * @cpu
 * ============ ================================= ===============================
 *
 * kernel/unwind/deferred.c says what an NMI sees between any two instructions.
 */
struct unwind_task_info {
	unsigned long			request;
	u64				cookie;
	struct unwind_user_regs		regs;
	unsigned long			epoch;
	unsigned long			served;
	unsigned int			depth;
	int				cpu;
	u8				rounds;
	u8				barred;
	u8				memory;
	u8				probed;
#ifdef CONFIG_UNWIND_USER_SFRAME
	struct unwind_task_gprs		*gprs;
	struct unwind_user_rules	*rules;
	u32				asked;
	unsigned long			missing;
#endif
	struct callback_head		work;
	struct unwind_task_cache	*cache;
	u64				tried;
	struct unwind_subject		*subject;
};

#endif /* _LINUX_UNWIND_DEFERRED_TYPES_H */
