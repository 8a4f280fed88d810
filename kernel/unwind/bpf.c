// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user stacks for BPF programs
 *
 * A program that takes a sample calls bpf_request_user_stack() and stores the cookie. Before
 * the task returns to user mode, the programs at the tracepoint unwind_user_stack receive
 * the stack with this cookie. In the context of the sample, bpf_get_stack() finds what is at
 * hand. This finds the whole stack, because it may read what is not in memory.
 *
 * All programs together are one client. So the tracepoint's programs see the stacks that
 * others requested, too, and a stack is not delivered once more for a program whose
 * request in the same kernel entry comes after the delivery: it has seen the stack.
 *
 * Requests are accepted while something is attached to the tracepoint. If there is no room
 * for one more client, or it is early in boot, nothing can be attached.
 */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/init.h>
#include <linux/perf_event.h>
#include <linux/perf_regs.h>
#include <linux/preempt.h>
#include <linux/unwind_deferred.h>

#define CREATE_TRACE_POINTS
#include <trace/events/unwind_bpf.h>

static void unwind_bpf_callback(struct unwind_deferred_client *client,
				const struct unwind_user_trace *trace, u64 cookie)
{
	trace_unwind_user_stack(trace, cookie);
}

/* Registered once and for all. @id is negative if there was no room for it. */
static struct unwind_deferred_client unwind_bpf_client __ro_after_init = {
	.callback = unwind_bpf_callback,
	.id = -1,
};

/* Something is attached to the tracepoint. Process context, under tracepoints_mutex. */
int unwind_bpf_attach(void)
{
	if (unwind_bpf_client.id < 0)
		return -ENOSPC;

	unwind_deferred_enable();
	/* What was delivered before, nobody has received. */
	unwind_deferred_renew();
	return 0;
}

/* Nothing is any more. Requests that are pending are still served, for nobody. */
void unwind_bpf_detach(void)
{
	unwind_deferred_disable();
}

__bpf_kfunc_start_defs();

/**
 * bpf_request_user_stack - Request the user stack of current
 * @cookie:	Receives the number by which the stack can be known
 * @depth:	How many entries are wanted, 0 for kernel.perf_event_max_stack. The stack may
 *		have more, if others requested more
 * @flags:	Must be 0
 *
 * The programs at the tracepoint unwind_user_stack will be called with this cookie before
 * the task returns to user mode. Requests of one kernel entry share one cookie, unless
 * they come from other registers, or one is for more entries than the stack that was
 * delivered before has. The tracepoint is hit once for a cookie, and again if the task has
 * changed its CPU. If the stack was requested before, it may have been hit already.
 *
 * On an error no stack follows. bpf_get_stack() may then find some of it.
 *
 * Context: Any, including NMI.
 * Return:
 * * 0		- *@cookie is set
 * * -EINVAL	- @flags is not 0, current is no user task, or is in a mode that cannot be
 *		  unwound
 * * -EFAULT	- The user registers are not known here
 * * -EOPNOTSUPP - Nothing is attached to the tracepoint, or a sysctl disables deferral
 * * any other	- See unwind_deferred_request()
 */
__bpf_kfunc int bpf_request_user_stack(u64 *cookie, u32 depth, u64 flags)
{
	struct perf_regs user;
	struct pt_regs here;

	if (flags)
		return -EINVAL;

	/* perf or ftrace may have enabled deferral, but nobody would receive this stack. */
	if (!trace_unwind_user_stack_enabled())
		return -EOPNOTSUPP;

	if (!is_user_task(current))
		return -EINVAL;

	guard(preempt_notrace)();

	/* An NMI may have come before the kernel had saved the user's registers. */
	perf_fetch_caller_regs(&here);
	perf_get_regs_user(&user, &here);
	if (!user.regs)
		return -EFAULT;

	return unwind_deferred_request(&unwind_bpf_client, user.regs,
				       depth ?: READ_ONCE(sysctl_perf_event_max_stack),
				       cookie);
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(unwind_bpf_kfunc_ids)
/* The verifier accepts NULL for a pointer to a number otherwise. */
BTF_ID_FLAGS(func, bpf_request_user_stack, KF_TRUSTED_ARGS)
BTF_KFUNCS_END(unwind_bpf_kfunc_ids)

static const struct btf_kfunc_id_set unwind_bpf_kfunc_set = {
	.owner	= THIS_MODULE,
	.set	= &unwind_bpf_kfunc_ids,
};

static int __init unwind_bpf_init(void)
{
	int ret;

	unwind_deferred_register(&unwind_bpf_client);

	/* One set is for programs at tracepoints and perf events, too. */
	ret = register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &unwind_bpf_kfunc_set);
	return ret ?: register_btf_kfunc_id_set(BPF_PROG_TYPE_KPROBE,
						&unwind_bpf_kfunc_set);
}
late_initcall(unwind_bpf_init);
