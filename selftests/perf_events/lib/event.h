/* SPDX-License-Identifier: GPL-2.0 */
/* Events and their buffers, the clock of events, and the CPU of a test. */
#ifndef SELFTESTS_PERF_EVENTS_EVENT_H
#define SELFTESTS_PERF_EVENTS_EVENT_H

#include <linux/const.h>
#include <linux/perf_event.h>
#include <sys/types.h>

/* The sample_type of each event of event_attr(). */
#define EVENT_SAMPLE_TYPE						\
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |	\
	 PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_CALLCHAIN)

/* TID, TIME, CPU and IDENTIFIER at the end of each record except samples. */
#define EVENT_SAMPLE_ID_SIZE		32

#define NSEC_PER_SEC			1000000000ULL

/* Headers of the build may be older than the kernel under test. */
#define FORMAT_LOST			_BITULL(4)

/* Bits between read_format and wakeup_events; old headers name fewer. */
static inline __u64 *attr_flags(struct perf_event_attr *attr)
{
	/* The word before wakeup_events has all flags, also those without a name here. */
	return (__u64 *)&attr->wakeup_events - 1;
}

/* The time in ns, by the clock that events of event_attr() use. */
__u64 now_nsec(void);

/* perf_event_open(), without a group. */
int event_open(const struct perf_event_attr *attr, pid_t pid, int cpu,
	       unsigned long flags);

/* An event with samples of EVENT_SAMPLE_TYPE; flags as in attr_flags(). */
struct perf_event_attr
event_attr(__u32 type, __u64 config, __u64 period, __u64 flags);

/* The same for the execution of an address. */
struct perf_event_attr event_attr_breakpoint(__u64 addr, __u64 flags);

/* The same for each hit of a tracepoint. */
struct perf_event_attr tp_attr(long tp, __u64 flags);

/* Map the buffer of an event; MAP_FAILED with errno set if that fails. */
void *event_map(int fd, unsigned int pages, int prot);

/* Unmap it, if it is mapped. */
void event_unmap(void *page, unsigned int pages);

/* Pin to @cpu, or to the current CPU if it is -1. The CPU, or -1. */
int pin_to_cpu(int cpu);

#endif /* SELFTESTS_PERF_EVENTS_EVENT_H */
