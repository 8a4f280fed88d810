// SPDX-License-Identifier: GPL-2.0
/*
 * A profiler with deferred user stacks: see user_stacks_user.c
 *
 * sample() runs in the interrupt or NMI that takes a sample. Many samples may belong to one
 * cookie, as the task does not return to user mode in between. on_stack() runs for the
 * cookie in the task, before it returns; again, if the task has changed its CPU. Samples of
 * the cookie may follow.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "user_stacks.h"

#define EINVAL	22

extern int bpf_request_user_stack(__u64 *cookie, __u32 depth, __u64 flags) __ksym;

/* How many samples a cookie has */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, 65536);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} stacks SEC(".maps");

/* Samples without a stack: the request was refused, or the ring buffer is full */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, USER_STACKS_MISSED);
} missed SEC(".maps");

static void count_missed(__u32 why)
{
	__u64 *count = bpf_map_lookup_elem(&missed, &why);

	if (count)
		__sync_fetch_and_add(count, 1);
}

SEC("perf_event")
int sample(void *ctx)
{
	__u64 cookie = 0, one = 1, *count;
	int err;

	err = bpf_request_user_stack(&cookie, USER_STACKS_DEPTH, 0);
	/* A kernel thread has no user stack. */
	if (err == -EINVAL)
		return 0;
	if (err) {
		count_missed(USER_STACKS_REFUSED);
		return 0;
	}

	count = bpf_map_lookup_elem(&samples, &cookie);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&samples, &cookie, &one, BPF_ANY);
	return 0;
}

SEC("tp_btf/unwind_user_stack")
int BPF_PROG(on_stack, const struct unwind_user_trace *trace, __u64 cookie)
{
	struct user_stack *stack;
	unsigned int nr;

	/* Only another program has requested it so far. */
	if (!bpf_map_lookup_elem(&samples, &cookie))
		return 0;

	stack = bpf_ringbuf_reserve(&stacks, sizeof(*stack), 0);
	if (!stack) {
		count_missed(USER_STACKS_NO_ROOM);
		return 0;
	}

	nr = trace->nr;
	if (nr > USER_STACKS_DEPTH)
		nr = USER_STACKS_DEPTH;
	stack->cookie = cookie;
	stack->pid = bpf_get_current_pid_tgid() >> 32;
	stack->nr = nr;
	bpf_get_current_comm(stack->comm, sizeof(stack->comm));
	bpf_probe_read_kernel(stack->entries, nr * sizeof(stack->entries[0]), trace->entries);
	bpf_ringbuf_submit(stack, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
