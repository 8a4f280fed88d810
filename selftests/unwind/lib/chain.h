/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Chains of calls through images, of which the last function makes system calls, and
 * the stacks that they have then.
 */
#ifndef SELFTESTS_UNWIND_CHAIN_H
#define SELFTESTS_UNWIND_CHAIN_H

#include <stdbool.h>
#include <linux/types.h>
#include <sys/syscall.h>

#include "image.h"
#include "sframe_code.h"

#ifdef __x86_64__
#define SAMPLE_CALL	((struct code_call) { .nr = __NR_getpgid })

#define CHAIN_MAX	128

struct chain {
	__u64		plan[CHAIN_MAX];
	/* Return addresses of the frames above the leaf, outermost first. */
	__u64		rets[2 * CHAIN_MAX];
	unsigned int	nr_plan;
	unsigned int	nr_rets;
	__u64		entry;
	struct code_ctx	ctx;
};

#define LEAF_IP(m)	image_addr(m, code_leaf_ip)
#define DECOY(m)	image_addr(m, code_decoy)
/* Frames up to code_mark in chains of chain_one() and chain_two(). */
#define CUT		2

/* Files: with all rules, with code_mark marked as outermost, without a section. */
enum kind {
	WHOLE,
	MARKED,
	BARE,
	KINDS,
};

/* The return address of the call that a function makes; NULL if it makes none. */
const char *chain_ret(const char *func);

/* Every chain begins with code_entry. */
void chain_begin(struct chain *c, const struct image_map *m);

/* Add a function of an image that is mapped at m. */
void chain_add(struct chain *c, const struct image_map *m, const char *func);

/* Several of them. */
void chain_add_list(struct chain *c, const struct image_map *m,
		    const char * const *funcs, unsigned int nr);

/* A chain with code_mark, all in one library. */
void chain_one(struct chain *c, const struct image_map *m);

/* A chain with code_far and code_mark in v, the other functions in m. */
void chain_two(struct chain *c, const struct image_map *m,
	       const struct image_map *v);

/* Run it; the leaf makes these system calls. */
void chain_run(struct chain *c, struct code_call *calls, unsigned int nr);

/* One call that is sampled. */
void chain_sample(struct chain *c);

/* Expected stack: the leaf and nr frames above it, all with -1.  Returns its length. */
unsigned int chain_expect(const struct chain *c, __u64 *want, __u64 leaf_ip,
			  int nr);

/* The stack of chain_one(), if its image is of this kind. */
unsigned int expect_one(struct chain *c, __u64 *want, const struct image_map *m,
			enum kind kind);

/* The stack of chain_two(), if v is of this kind. */
unsigned int expect_two(struct chain *c, __u64 *want, const struct image_map *m,
			enum kind kind);

/* Is this a stack of the chain, or the start of one, and then maybe the decoy? */
bool chain_legal(const struct chain *c, const __u64 *ips, int nr, __u64 leaf_ip,
		 __u64 decoy);

/*
 * The factor for limits of kernel memory: with lock debugging, objects of the kernel are
 * larger.
 */
unsigned int kernel_memory_factor(void);
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_CHAIN_H */
