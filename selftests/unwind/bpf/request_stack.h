/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs of request_stack.bpf.c tell request_stack.c. */
#ifndef SELFTESTS_UNWIND_BPF_REQUEST_STACK_H
#define SELFTESTS_UNWIND_BPF_REQUEST_STACK_H

#define SAMPLES		64
#define STACKS		16
#define ENTRIES		256

/* A call of bpf_request_user_stack() */
struct sample {
	unsigned long long	cookie;
	int			ret;
};

/* A hit of the tracepoint unwind_user_stack */
struct stack {
	unsigned long long	cookie;
	unsigned int		nr;
	int			end;
	unsigned long long	entries[ENTRIES];
};

#endif /* SELFTESTS_UNWIND_BPF_REQUEST_STACK_H */
