/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM perf_chain

#if !defined(_PERF_CHAIN_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _PERF_CHAIN_TRACE_H

#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(perf_chain,
		    TP_PROTO(unsigned long arg),
		    TP_ARGS(arg),
		    TP_STRUCT__entry(__field(unsigned long, arg)),
		    TP_fast_assign(__entry->arg = arg;),
		    TP_printk("arg=%lu", __entry->arg)
);

DEFINE_EVENT(perf_chain, perf_chain_leaf, TP_PROTO(unsigned long arg),
	     TP_ARGS(arg));
DEFINE_EVENT(perf_chain, perf_chain_probed, TP_PROTO(unsigned long arg),
	     TP_ARGS(arg));

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE perf_chain_trace
#include <trace/define_trace.h>
