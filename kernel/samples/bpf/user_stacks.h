/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SAMPLES_BPF_USER_STACKS_H
#define SAMPLES_BPF_USER_STACKS_H

#define USER_STACKS_DEPTH	127

enum {
	USER_STACKS_REFUSED,
	USER_STACKS_NO_ROOM,
	USER_STACKS_MISSED,
};

struct user_stack {
	unsigned long long	cookie;
	unsigned int		pid;
	unsigned int		nr;
	char			comm[16];
	unsigned long long	entries[USER_STACKS_DEPTH];
};

#endif /* SAMPLES_BPF_USER_STACKS_H */
