/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM unwind_user
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE unwind_bpf

#if !defined(_TRACE_UNWIND_BPF_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_UNWIND_BPF_H

#include <linux/minmax.h>
#include <linux/tracepoint.h>
#include <linux/unwind_deferred.h>

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
		__field(u64,			cookie)
		__field(unsigned int,		nr)
		__field(enum unwind_user_end,	end)
		__dynamic_array(unsigned long,	entries,
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

#endif /* _TRACE_UNWIND_BPF_H */

#include <trace/define_trace.h>
