// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user stacks
 *
 * With the option userstacktrace-deferred, an event is followed by a cookie. The user
 * stack is written once for all events of the same kernel entry, when the task is about
 * to return to user mode. unwind_deferred_request() describes when a stack cannot be
 * deferred.
 *
 * Each instance with the option set is a client, so it receives the stacks that it has
 * requested and no others. When the option is cleared or the instance is removed,
 * pending requests are cancelled.
 */
#include <linux/container_of.h>
#include <linux/overflow.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/string.h>
#include <linux/trace_recursion.h>
#include <linux/unwind_deferred.h>

#include "trace.h"

/* As many entries as the trace file can show for an event, even with file names. */
#define TRACE_USER_STACK_DEPTH	127

/*
 * Write the cookie of the user stack that will come.
 *
 * Any context, also with the run queue lock held. Functions that are called from
 * here may be traced, or hit tracepoints, and would make a request again. So the
 * recursion bits allow one request for each of task, softirq, IRQ and NMI.
 *
 * Return: false if the stack cannot be deferred, and has to be taken now.
 */
bool trace_user_stack_request(struct trace_array *tr, struct trace_buffer *buffer,
			      unsigned int trace_ctx)
{
	struct user_stack_cookie_entry *entry;
	struct ring_buffer_event *event;
	struct perf_regs user;
	struct pt_regs here;
	u64 cookie;
	int bit;
	int ret;

	/* There is no user stack at all. */
	if (!is_user_task(current))
		return true;

	bit = trace_test_and_set_recursion(_THIS_IP_, _RET_IP_, TRACE_EVENT_START);
	if (bit < 0)
		return true;

	/* An NMI may have come before the kernel had saved the user's registers. */
	perf_fetch_caller_regs(&here);
	preempt_disable_notrace();
	perf_get_regs_user(&user, &here);
	ret = -ESTALE;
	if (user.regs)
		ret = unwind_deferred_request(&tr->unwind_client, user.regs,
					      TRACE_USER_STACK_DEPTH, &cookie);
	preempt_enable_notrace();
	if (ret)
		goto out;

	event = trace_buffer_lock_reserve(buffer, TRACE_USER_STACK_COOKIE,
					  sizeof(*entry), trace_ctx);
	if (!event)
		goto out;

	entry = ring_buffer_event_data(event);
	entry->cookie = cookie;
	trace_buffer_unlock_commit_nostack(buffer, event);
out:
	trace_clear_recursion(bit);

	/*
	 * Do not take the stack now if the user registers are not known, or in
	 * execve(), where they are still those of the old program.
	 */
	return !ret || ret == -ESTALE;
}

/* Runs in the task that was traced, in task context. */
static void trace_user_stack_callback(struct unwind_deferred_client *client,
				      const struct unwind_user_trace *trace,
				      u64 cookie)
{
	struct user_stack_deferred_entry *entry;
	struct ring_buffer_event *event;
	struct trace_buffer *buffer;
	struct trace_array *tr;
	unsigned int nr;

	tr = container_of(client, struct trace_array, unwind_client);
	/* If a snapshot was taken meanwhile, it has the cookie. */
	buffer = READ_ONCE(tr->array_buffer.buffer);
	/* The other clients of this request may have wanted more. */
	nr = min(trace->nr, TRACE_USER_STACK_DEPTH);

	event = trace_buffer_lock_reserve(buffer, TRACE_USER_STACK_DEFERRED,
					  struct_size(entry, caller, nr),
					  tracing_gen_ctx());
	if (!event)
		return;

	entry = ring_buffer_event_data(event);
	entry->cookie = cookie;
	entry->tgid = current->tgid;
	entry->nr = nr;
	memcpy(entry->caller, trace->entries, flex_array_size(entry, caller, nr));
	trace_buffer_unlock_commit_nostack(buffer, event);
}

/**
 * trace_user_stack_start - Let an instance request deferred user stacks
 * @tr:	The instance
 *
 * To be called before %TRACE_ITER_USERSTACK_DEFERRED is set.
 *
 * Context: Process context. Sleeps.
 * Return: 0, or -ENOSPC if too many instances and other tracers do so already.
 */
int trace_user_stack_start(struct trace_array *tr)
{
	int ret;

	tr->unwind_client.callback = trace_user_stack_callback;
	ret = unwind_deferred_register(&tr->unwind_client);
	if (ret)
		return ret;

	unwind_deferred_enable();
	return 0;
}

/**
 * trace_user_stack_stop - Undo trace_user_stack_start()
 * @tr:	The instance
 *
 * To be called when %TRACE_ITER_USERSTACK_DEFERRED has been cleared. Cancels pending
 * requests. When this returns, nothing writes stacks to the buffers of @tr any more, so
 * they can be freed. A tracer that still sees the flag gets -ENOENT for its request.
 *
 * Context: Process context. Sleeps, and waits for callbacks that are running.
 */
void trace_user_stack_stop(struct trace_array *tr)
{
	unwind_deferred_disable();
	unwind_deferred_unregister(&tr->unwind_client);
}
