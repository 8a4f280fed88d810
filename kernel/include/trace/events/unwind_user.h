/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM unwind_user

#if !defined(_TRACE_UNWIND_USER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_UNWIND_USER_H

#include <linux/minmax.h>
#include <linux/tracepoint.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>

TRACE_DEFINE_ENUM(UNWIND_USER_FRAME);
TRACE_DEFINE_ENUM(UNWIND_USER_END);
TRACE_DEFINE_ENUM(UNWIND_USER_CORRUPT);

/**
 * unwind_user_walk - A walk over the user stack of the current task has ended
 * @ip:		Where the walk began
 * @nr:		Length of the stack
 * @state:	Where the walk ended, how many frames were left by which method, and
 *		how often the region of a frame was looked up
 * @result:	Why the walk ended; "limit" if the requested depth was reached
 */
TRACE_EVENT(unwind_user_walk,

	TP_PROTO(unsigned long ip, unsigned int nr,
		 const struct unwind_user_state *state,
		 enum unwind_user_result result),

	TP_ARGS(ip, nr, state, result),

	TP_STRUCT__entry(
		__field(unsigned long,	ip)
		__field(unsigned int,	nr)
		__field(unsigned int,	table)
		__field(unsigned int,	supplied)
		__field(unsigned int,	fp)
		__field(unsigned int,	entry)
		__field(unsigned int,	signal)
		__field(unsigned int,	lookups)
		__field(unsigned int,	result)
	),

	TP_fast_assign(
		__entry->ip	= ip;
		__entry->nr	= nr;
		__entry->table	= state->stats.table;
		__entry->supplied = state->stats.supplied;
		__entry->fp	= state->stats.fp;
		__entry->entry	= state->stats.entry;
		__entry->signal	= state->signals;
		__entry->lookups = state->stats.lookups;
		__entry->result	= result;
	),

	TP_printk("ip=0x%lx nr=%u table=%u supplied=%u fp=%u entry=%u signal=%u lookups=%u result=%s",
		  __entry->ip, __entry->nr, __entry->table, __entry->supplied,
		  __entry->fp, __entry->entry, __entry->signal,
		  __entry->lookups,
		  __print_symbolic(__entry->result,
				   { UNWIND_USER_FRAME,		"limit" },
				   { UNWIND_USER_END,		"end" },
				   { UNWIND_USER_CORRUPT,	"corrupt" }))
);

#ifdef CONFIG_BPF_EVENTS

/* Entries in a trace buffer. A program has all of them. */
#define UNWIND_TRACE_ENTRIES	127U

int unwind_bpf_attach(void);
void unwind_bpf_detach(void);

TRACE_DEFINE_ENUM(UNWIND_USER_END_OUTERMOST);
TRACE_DEFINE_ENUM(UNWIND_USER_END_CUT);
TRACE_DEFINE_ENUM(UNWIND_USER_END_BROKEN);
TRACE_DEFINE_ENUM(UNWIND_USER_END_NOMEM);

/**
 * unwind_user_stack - A user stack that BPF programs requested
 * @trace:	The stack, which is of current
 * @cookie:	As bpf_request_user_stack() returned it
 *
 * Context: Task context of current. Preemption is disabled.
 */
TRACE_EVENT_FN(unwind_user_stack,

	TP_PROTO(const struct unwind_user_trace *trace, u64 cookie),

	TP_ARGS(trace, cookie),

	TP_STRUCT__entry(
		__field(	u64,			cookie	)
		__field(	unsigned int,		nr	)
		__field(	enum unwind_user_end,	end	)
		__dynamic_array(unsigned long,		entries,
				min(trace->nr, UNWIND_TRACE_ENTRIES))
	),

	TP_fast_assign(
		__entry->cookie	= cookie;
		__entry->nr	= trace->nr;
		__entry->end	= trace->end;
		memcpy(__get_dynamic_array(entries), trace->entries,
		       __get_dynamic_array_len(entries));
	),

	TP_printk("cookie=%llx nr=%u end=%s entries=%s",
		  __entry->cookie, __entry->nr,
		  __print_symbolic(__entry->end,
				   { UNWIND_USER_END_OUTERMOST,	"outermost" },
				   { UNWIND_USER_END_CUT,	"cut" },
				   { UNWIND_USER_END_BROKEN,	"broken" },
				   { UNWIND_USER_END_NOMEM,	"nomem" }),
		  __print_array(__get_dynamic_array(entries),
				__get_dynamic_array_len(entries) / sizeof(unsigned long),
				sizeof(unsigned long))),

	unwind_bpf_attach, unwind_bpf_detach
);

#endif /* CONFIG_BPF_EVENTS */

#endif /* _TRACE_UNWIND_USER_H */

#include <trace/define_trace.h>
