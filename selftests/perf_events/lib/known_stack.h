/* SPDX-License-Identifier: GPL-2.0 */
/* Code whose user stack is known to the last address, for tests of unwinding. */
#ifndef SELFTESTS_PERF_EVENTS_KNOWN_STACK_H
#define SELFTESTS_PERF_EVENTS_KNOWN_STACK_H

#include <stdbool.h>
#include <linux/types.h>

#ifdef __x86_64__
long walk_top(__u64 id, __u64 bits, const void *leaf, __u64 nr_or_fn,
	      __u64 arg0, __u64 arg1);
long walk_on(long nr, long arg0, void *sp, void *fp, long arg1);
long walk_step(void);
extern char walk_top_ret[], walk_ret0[], walk_ret1[];
extern char walk_syscall[], walk_syscall_ip[];
extern char walk_call[], walk_call_ret[];
extern char walk_spin[], walk_spin_end[];
extern char walk_nop[], walk_on_ip[];

#define HAVE_KNOWN_STACK	true

/* A system call from a stack that encodes the low bits of an id. */
long known_walk_syscall(__u64 id, unsigned int bits, long nr, long arg0,
			long arg1);

/* A call of fn(arg) from such a stack. */
long known_walk_call(__u64 id, unsigned int bits, const void *fn, void *arg);

/* Count down from @loops on such a stack. */
void known_walk_spin(__u64 id, unsigned int bits, __u64 loops);

/* The chain of a walk without its innermost entry; returns the length. */
unsigned int known_expect_tail(__u64 *ips, __u64 id, unsigned int bits);

/* The chain of a walk whose leaf is at this address; returns the length. */
unsigned int
known_expect(__u64 *ips, __u64 id, unsigned int bits, const void *leaf_ip);

/* The id of a walk from its stack; false if it is not that of a walk. */
bool known_decode(const __u64 *ips, int nr, __u64 *id, unsigned int *bits);
#else
#define HAVE_KNOWN_STACK	false
#endif /* __x86_64__ */

#endif /* SELFTESTS_PERF_EVENTS_KNOWN_STACK_H */
