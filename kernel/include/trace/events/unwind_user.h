/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM unwind_user

#if !defined(_TRACE_UNWIND_USER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_UNWIND_USER_H

#include <linux/tracepoint.h>
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

#endif /* _TRACE_UNWIND_USER_H */

#include <trace/define_trace.h>
