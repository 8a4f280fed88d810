/* SPDX-License-Identifier: GPL-2.0 */
#ifndef BPF_STACKS_H
#define BPF_STACKS_H

#define MAX_DEPTH 127

struct stack {
	/* Bytes of ips, or an error */
	long long		size;
	unsigned long long	ips[MAX_DEPTH];
};

struct counts {
	unsigned long long	taken;
	/* Not taken: too many wait for user space. */
	unsigned long long	no_room;
};

#endif
