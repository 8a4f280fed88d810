// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/nospec.h>

#include "environment.h"
#include "rules.h"
#include "sframe.h"

struct test_reads test_reads;
unsigned long test_masks;
const void *test_user_memory;

unsigned long test_mask_index(unsigned long index, unsigned long size)
{
	if (index >= size) {
		fprintf(stderr, "index %lu of %lu\n", index, size);
		abort();
	}

	test_masks++;
	return index;
}

bool sframe_read(const struct sframe_section *sec, u32 off, void *buf, u32 size)
{
	u8 *byte = buf;
	u32 i;

	/* The kernel's sframe_read() refuses this, but the reader must not even try. */
	if (off > sec->size || size > sec->size - off) {
		fprintf(stderr, "read of %u bytes at %u, of %u\n", size, off,
			sec->size);
		abort();
	}

	test_reads.count++;
	if (test_reads.fail_at && test_reads.count >= test_reads.fail_at) {
		/* What the kernel leaves in the buffer then is undefined. */
		memset(buf, 0xa5, size);
		return false;
	}

	memcpy(buf, (sec->data ?: test_user_memory) + off, size);

	if (test_reads.change_at && test_reads.count >= test_reads.change_at) {
		for (i = 0; i < size; i++)
			byte[i] ^= test_reads.change;
	}

	return true;
}

int test_find_rule_user(const struct sframe_section *sec, unsigned long ip,
			struct unwind_user_rule *rule)
{
	struct sframe_section user = *sec;
	int ret;

	user.data = NULL;
	test_user_memory = sec->data;
	ret = sframe_find_rule(&user, ip, rule);
	test_user_memory = NULL;

	return ret;
}

int test_find_rule(const struct sframe_section *sec, unsigned long ip,
		   struct unwind_user_rule *rule)
{
	unsigned int count = test_reads.count;
	struct unwind_user_rule other;
	int ret, ret_user;

	ret = sframe_find_rule(sec, ip, rule);
	test_reads.count = count;
	ret_user = test_find_rule_user(sec, ip, &other);
	if (ret != ret_user || (!ret && !same_rule(rule, &other))) {
		fprintf(stderr, "%#lx: %d in kernel memory, %d in user memory\n", ip, ret,
			ret_user);
		abort();
	}

	return ret;
}
