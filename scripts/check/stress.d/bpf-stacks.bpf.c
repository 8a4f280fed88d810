// SPDX-License-Identifier: GPL-2.0
/*
 * Takes the user stack of each task that an NMI interrupts, and sends those of the storm's
 * known program to user space.
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>
#include "bpf-stacks.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} stacks SEC(".maps");

struct counts counts;

SEC("perf_event")
int take_stack(struct bpf_perf_event_data *ctx)
{
	static const char known[] = "storm-known";
	struct stack *stack;
	char comm[16] = {};

	bpf_get_current_comm(comm, sizeof(comm));
	stack = bpf_ringbuf_reserve(&stacks, sizeof(*stack), 0);
	if (!stack) {
		__sync_fetch_and_add(&counts.no_room, 1);
		return 0;
	}
	__sync_fetch_and_add(&counts.taken, 1);
	stack->size = bpf_get_stack(ctx, stack->ips, sizeof(stack->ips), BPF_F_USER_STACK);
	if (stack->size > 0 && !bpf_strncmp(comm, sizeof(known), known))
		bpf_ringbuf_submit(stack, 0);
	else
		bpf_ringbuf_discard(stack, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
