/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_DEFERRED_TYPES_H
#define _LINUX_UNWIND_DEFERRED_TYPES_H

#include <linux/types.h>
#include <linux/unwind_user_types.h>

struct unwind_task_cache;
struct unwind_user_rules;

/**
 * enum unwind_barred - Whether a task may make requests
 * @UNWIND_BARRED_NOT:	It may
 * @UNWIND_BARRED_EXEC:	It executes a new program; until that starts, the user
 *			registers are of the old one and say nothing about mm
 * @UNWIND_BARRED_DEAD:	It oopsed; nothing of it can be trusted
 */
enum unwind_barred {
	UNWIND_BARRED_NOT,
	UNWIND_BARRED_EXEC,
	UNWIND_BARRED_DEAD,
};

/**
 * struct unwind_task_info - Deferred unwinding, state of a task
 * @request:	%UNWIND_REQUEST_CLAIMED while a request is being set up, then
 *		%UNWIND_REQUEST_PENDING and a bit per client that asked; 0 if none
 * @cookie:	Names the pending request; not valid unless one is pending
 * @regs:	User registers at the pending request
 * @gprs:	All of them, for rules that need more; memory that the first walk
 *		allocates, so the first request has none
 * @gprs_known:	@gprs are those of the pending request
 * @rules:	What walks remember of unwind tables; allocated by the first one
 * @depth:	Deepest stack that a client of the pending request wants; once
 *		it has been walked, how deep it is, and %UNWIND_DEPTH_WALKED
 * @rounds:	Requests served since the kernel was entered; 0 says that the
 *		stack in @cache, if any, is of an earlier entry
 * @in_work:	The deferred work is running
 * @barred:	Whether requests can be made, see &enum unwind_barred
 * @work:	Brings the task to the deferred work
 * @cache:	Memory of the walk; allocated by the first one, freed at exit
 *
 * All fields belong to the task itself: they are written in its context, in
 * task context or in an interrupt or NMI on top of it, never by another CPU.
 * The exception is unwind_deferred_unregister(), which clears one client's bit
 * in @request.
 *
 * ============ ================================= ===============================
 * field        written by                        when
 * ============ ================================= ===============================
 * @request     task, IRQ, NMI: cmpxchg           asking
 *              task: xchg to 0                   the deferred work
 *              other CPU: atomic andnot          a client unregisters
 * @cookie,     task, IRQ, NMI                    @request is CLAIMED by the
 * @regs,                                         writer, so nested contexts
 * *@gprs,                                        keep off
 * @gprs_known,                                   (@gprs_known also by the first
 * @work                                          walk, with a request pending)
 * @depth       task, IRQ, NMI: cmpxchg           asking
 *              task: cmpxchg                     the deferred work
 * @rounds      task                              the deferred work; return to
 *                                                user mode with IRQs off
 * @in_work,    task                              the deferred work; exec, exit
 * @barred,
 * @cache,
 * @gprs,
 * @rules
 * ============ ================================= ===============================
 *
 * What an NMI sees between any two instructions is told in
 * kernel/unwind/deferred.c.
 */
struct unwind_task_info {
	unsigned long			request;
	u64				cookie;
	struct unwind_user_regs		regs;
	unsigned int			depth;
	u8				rounds;
	u8				in_work;
	u8				barred;
#ifdef CONFIG_UNWIND_USER_SFRAME
	u8				gprs_known;
	struct unwind_user_gprs		*gprs;
	struct unwind_user_rules	*rules;
#endif
	struct callback_head		work;
	struct unwind_task_cache	*cache;
};

#endif /* _LINUX_UNWIND_DEFERRED_TYPES_H */
