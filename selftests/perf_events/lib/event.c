// SPDX-License-Identifier: GPL-2.0
/* Events and their buffers, the clock of events, and the CPU of a test. */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "event.h"

__u64 now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

int event_open(const struct perf_event_attr *attr, pid_t pid, int cpu,
	       unsigned long flags)
{
	return syscall(__NR_perf_event_open, attr, pid, cpu, -1,
		       flags | PERF_FLAG_FD_CLOEXEC);
}

struct perf_event_attr
event_attr(__u32 type, __u64 config, __u64 period, __u64 flags)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= type,
		.config		= config,
		.sample_period	= period,
		.sample_type	= EVENT_SAMPLE_TYPE,
		.disabled	= 1,
		.sample_id_all	= 1,
		.use_clockid	= 1,
		.clockid	= CLOCK_MONOTONIC_RAW,
		.wakeup_events	= 1,
	};

	*attr_flags(&attr) |= flags;
	return attr;
}

struct perf_event_attr event_attr_breakpoint(__u64 addr, __u64 flags)
{
	struct perf_event_attr attr = event_attr(PERF_TYPE_BREAKPOINT, 0, 1,
						 flags);

	attr.bp_type = HW_BREAKPOINT_X;
	attr.bp_addr = addr;
	attr.bp_len = sizeof(long);
	return attr;
}

struct perf_event_attr tp_attr(long tp, __u64 flags)
{
	return event_attr(PERF_TYPE_TRACEPOINT, tp, 1, flags);
}

void *event_map(int fd, unsigned int pages, int prot)
{
	return mmap(NULL, (1 + pages) * sysconf(_SC_PAGESIZE), prot, MAP_SHARED,
		    fd, 0);
}

void event_unmap(void *page, unsigned int pages)
{
	if (page && page != MAP_FAILED)
		munmap(page, (1 + pages) * sysconf(_SC_PAGESIZE));
}

/* Pin to one CPU, and return it. */
int pin_to_cpu(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		cpu = sched_getcpu();
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -1 : cpu;
}
