/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Replaces the kernel's sframe_read() for sections in a buffer. Tests can make reads
 * fail or return changed bytes.
 */
#ifndef _TEST_UNWIND_ENVIRONMENT_H
#define _TEST_UNWIND_ENVIRONMENT_H

#include <linux/types.h>

struct sframe_section;
struct unwind_user_rule;

/**
 * struct test_reads - State of sframe_read()
 * @count:	How often it was called
 * @fail_at:	First call that fails, as do all later ones; 0 for none
 * @change_at:	First call that returns changed bytes, as do all later ones; 0 for none
 * @change:	What those bytes are XORed with
 */
struct test_reads {
	unsigned int	count;
	unsigned int	fail_at;
	unsigned int	change_at;
	u8		change;
};

extern struct test_reads test_reads;

/* What a section in user memory contains */
extern const void *test_user_memory;

/* How often array_index_nospec() was used. */
extern unsigned long test_masks;

/*
 * As sframe_find_rule(), in kernel memory and in user memory. The results must be the same.
 * Only the reads of user memory are counted.
 */
int test_find_rule(const struct sframe_section *sec, unsigned long ip,
		   struct unwind_user_rule *rule);

/* The same, in user memory only */
int test_find_rule_user(const struct sframe_section *sec, unsigned long ip,
			struct unwind_user_rule *rule);

#endif /* _TEST_UNWIND_ENVIRONMENT_H */
