// SPDX-License-Identifier: GPL-2.0
/* Programs of each type that can request the user stack, and the one that receives it. */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "request_stack.h"

#define PF_KTHREAD	0x00200000

char _license[] SEC("license") = "GPL";

enum unwind_user_end {
	UNWIND_USER_END_OUTERMOST,
};

struct unwind_user_trace {
	unsigned int		nr;
	enum unwind_user_end	end;
	const unsigned long	*entries;
} __attribute__((preserve_access_index));

struct pt_regs;

struct task_struct {
	unsigned int		flags;
} __attribute__((preserve_access_index));

extern int bpf_request_user_stack(__u64 *cookie, __u32 depth, __u64 flags) __ksym;

/* Set by the test */
volatile int tgid;
volatile long syscall_nr;
volatile unsigned int depth;
volatile unsigned int again;
/* How many requests to make, if not 0 */
volatile unsigned int limit;
volatile unsigned long long flags;

struct sample samples[SAMPLES];
unsigned int nr_samples;
struct stack stacks[STACKS];
unsigned int nr_stacks;

/* What kernel threads got */
unsigned int kthread_requests;
unsigned int kthread_refused;

static __always_inline int request(void)
{
	unsigned int i, nr;
	__u64 cookie;

	if (bpf_get_current_pid_tgid() >> 32 != tgid)
		return 0;

	for (i = 0; i < 4 && i <= again; i++) {
		cookie = 0;
		nr = __sync_fetch_and_add(&nr_samples, 1);
		if (limit && nr >= limit)
			return 0;
		nr &= SAMPLES - 1;
		samples[nr].ret = bpf_request_user_stack(&cookie, depth, flags);
		samples[nr].cookie = cookie;
	}

	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(tp_btf_program, struct pt_regs *regs, long id)
{
	return id == syscall_nr ? request() : 0;
}

SEC("fentry/__do_sys_getppid")
int BPF_PROG(fentry_program)
{
	return request();
}

SEC("kprobe/__x64_sys_getppid")
int kprobe_program(void *ctx)
{
	return request();
}

SEC("tp/syscalls/sys_enter_getppid")
int tracepoint_program(void *ctx)
{
	return request();
}

SEC("perf_event")
int perf_event_program(void *ctx)
{
	return request();
}

SEC("tp_btf/sched_switch")
int BPF_PROG(kthread_program, bool preempt, struct task_struct *prev)
{
	__u64 cookie = 0;

	if (!(prev->flags & PF_KTHREAD))
		return 0;

	__sync_fetch_and_add(&kthread_requests, 1);
	if (bpf_request_user_stack(&cookie, 0, 0) == -22 && !cookie)
		__sync_fetch_and_add(&kthread_refused, 1);
	return 0;
}

/* Programs that the verifier must refuse: they do not check where the cookie goes. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(null_program, struct pt_regs *regs, long id)
{
	return bpf_request_user_stack(NULL, 0, 0);
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} cookies SEC(".maps");

SEC("?tp_btf/sys_enter")
int BPF_PROG(unchecked_program, struct pt_regs *regs, long id)
{
	__u32 key = 0;

	return bpf_request_user_stack(bpf_map_lookup_elem(&cookies, &key), 0, 0);
}

SEC("tp_btf/unwind_user_stack")
int BPF_PROG(stack_program, const struct unwind_user_trace *trace, __u64 cookie)
{
	unsigned int nr = trace->nr;
	struct stack *stack;

	if (bpf_get_current_pid_tgid() >> 32 != tgid)
		return 0;

	stack = &stacks[__sync_fetch_and_add(&nr_stacks, 1) & (STACKS - 1)];
	stack->cookie = cookie;
	stack->nr = nr;
	stack->end = trace->end;
	if (nr > ENTRIES)
		nr = ENTRIES;
	bpf_probe_read_kernel(stack->entries, nr * sizeof(stack->entries[0]), trace->entries);
	return 0;
}
