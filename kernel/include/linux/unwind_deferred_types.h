/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_DEFERRED_TYPES_H
#define _LINUX_UNWIND_DEFERRED_TYPES_H

#include <linux/types.h>
#include <linux/unwind_user_types.h>

struct unwind_task_cache;
struct unwind_task_gprs;
struct unwind_user_rules;

/**
 * enum unwind_barred - Whether a task may make requests
 * @UNWIND_BARRED_NOT:	It may
 * @UNWIND_BARRED_EXEC:	It executes a new program; until that starts, the user
 *			registers are of the old one and say nothing about mm
 * @UNWIND_BARRED_LEAVING: It is past its last work before user mode, on a CPU with
 *			context tracking, or in user mode; bars task context only
 * @UNWIND_BARRED_DEAD:	It oopsed; nothing of it can be trusted
 */
enum unwind_barred {
	UNWIND_BARRED_NOT,
	UNWIND_BARRED_EXEC,
	UNWIND_BARRED_LEAVING,
	UNWIND_BARRED_DEAD,
};

/**
 * struct unwind_task_info - Deferred unwinding, state of a task
 * @request:	%UNWIND_REQUEST_CLAIMED while a request is being set up, then
 *		%UNWIND_REQUEST_PENDING and a bit per client that asked; 0 if none
 * @cookie:	Names the stack of @regs in this kernel entry
 * @regs:	User registers at the pending request, or at the last one
 * @gprs:	All of them, for rules that need more; memory that a walk allocates,
 *		so the first request has none
 * @rules:	What the task's walks remember; allocated by the first one
 * @depth:	Deepest stack that a client of the pending request wants; once
 *		it has been walked, how deep it is, and %UNWIND_DEPTH_WALKED
 * @epoch:	When @regs were taken, to know stale bits in @request and @served
 * @served:	Clients that have received the stack of @regs
 * @cpu:	Where they have
 * @rounds:	Deliveries since the kernel was entered; 0 says that @served and
 *		what was walked are of an earlier entry
 * @barred:	Whether requests can be made, see &enum unwind_barred
 * @memory:	Who may free @cache, @gprs and @rules: the task while it serves a
 *		request, otherwise whoever takes it first
 * @work:	Brings the task to the deferred work
 * @cache:	The stack of @regs, if @depth says so and the memory is still there;
 *		allocated by a walk
 *
 * All fields belong to the task itself: they are written in its context, in
 * task context or in an interrupt or NMI on top of it. The exception is reclaim,
 * which takes memory away.
 *
 * ============ ================================= ===============================
 * field        written by                        when
 * ============ ================================= ===============================
 * @request     task, IRQ, NMI: cmpxchg           asking
 *              task: cmpxchg to 0                the deferred work
 * @cookie,     task, IRQ, NMI                    @request is CLAIMED by the
 * @regs,                                         writer, so nested contexts
 * @epoch,                                        keep off
 * *@gprs,                                        (*@gprs also by the walk that
 * @work                                          allocates it, before others
 *                                                can see it)
 * @served      task, IRQ, NMI                    @request is CLAIMED by the
 *                                                writer
 *              task                              the deferred work, while
 *                                                @request is PENDING
 * @depth       task, IRQ, NMI: cmpxchg           asking
 *              task: cmpxchg                     the deferred work
 * @rounds      task                              the deferred work; return to
 *                                                user mode and entry of a guest
 *                                                with IRQs off; exec
 * @barred      task                              exec; return to and from user
 *                                                mode with IRQs off; oops
 * @cpu         task                              the deferred work
 * @memory      task, other CPU: cmpxchg          before and after the next three
 * @cache,      task                              the deferred work; exec, exit;
 * @gprs,                                         @memory is the task's
 * @rules       other CPU: to NULL                reclaim; @memory is the other's
 * ============ ================================= ===============================
 *
 * What an NMI sees between any two instructions is told in
 * kernel/unwind/deferred.c.
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
#ifdef CONFIG_UNWIND_USER_SFRAME
	struct unwind_task_gprs		*gprs;
	struct unwind_user_rules	*rules;
#endif
	struct callback_head		work;
	struct unwind_task_cache	*cache;
};

#endif /* _LINUX_UNWIND_DEFERRED_TYPES_H */
