// SPDX-License-Identifier: GPL-2.0
/*
 * Reading sections in memory of the kernel: kernel/unwind/sframe_read.c.
 *
 * A test cannot cause a mispredicted branch. It checks that offset and size of the copy
 * come from array_index_nospec(), with the right bounds. The test's version of it can
 * return 0, as the real one does after a mispredicted branch.
 */
#include "harness.h"

#include <string.h>

static unsigned long test_mask(unsigned long index, unsigned long size);
static void *test_copy(void *to, const void *from, size_t size);

#define array_index_nospec(index, size)	((typeof(index))test_mask(index, size))

#include "bench-kernel.h"

#define memcpy	test_copy
#include "sframe_read.c"
#undef memcpy

#define SIZE	1000U

static struct task_struct task;
struct task_struct *current = &task;

static bool mispredicted;
static unsigned int masks;
static bool in_bounds;
static const void *copy_from;
static size_t copy_size;

static unsigned long test_mask(unsigned long index, unsigned long size)
{
	masks++;
	in_bounds &= index < size;
	return mispredicted ? 0 : index;
}

static void *test_copy(void *to, const void *from, size_t size)
{
	copy_from = from;
	copy_size = size;
	return memmove(to, from, size);
}

bool unwind_user_read(unsigned long addr, void *buf, unsigned int size)
{
	abort();
}

FIXTURE(read)
{
	u8 *data;
	u8 buf[SIZE + 1];
	struct sframe_section sec;
};

FIXTURE_SETUP(read)
{
	unsigned int i;

	/* A block of its own: its end is known to the sanitizer. */
	self->data = malloc(SIZE);
	ASSERT_NE(NULL, self->data);
	for (i = 0; i < SIZE; i++)
		self->data[i] = i;
	self->sec = (struct sframe_section) { .size = SIZE, .data = self->data };
	mispredicted = false;
	in_bounds = true;
	masks = 0;
	copy_from = NULL;
}

FIXTURE_TEARDOWN(read)
{
	free(self->data);
	save_coverage();
}

TEST_F(read, bounds)
{
	static const struct {
		u32 off;
		u32 size;
		bool ok;
	} cases[] = {
		{ 0, 1, true },
		{ 0, SIZE, true },
		{ SIZE - 1, 1, true },
		{ SIZE, 0, true },
		{ 10, SIZE - 10, true },
		{ 0, SIZE + 1, false },
		{ SIZE - 1, 2, false },
		{ SIZE, 1, false },
		{ SIZE + 1, 0, false },
		{ U32_MAX, 1, false },
		{ 1, U32_MAX, false },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(self->buf, 0xff, sizeof(self->buf));
		EXPECT_EQ(cases[i].ok, sframe_read(&self->sec, cases[i].off, self->buf,
						   cases[i].size)) {
			TH_LOG("case %u", i);
		}
		if (cases[i].ok) {
			EXPECT_EQ(0, memcmp(self->buf, self->data + cases[i].off,
					    cases[i].size));
		}
	}
	EXPECT_TRUE(in_bounds);
}

TEST_F(read, masks)
{
	EXPECT_TRUE(sframe_read(&self->sec, 100, self->buf, 50));
	EXPECT_EQ(self->data + 100, copy_from);
	EXPECT_EQ(50, copy_size);
	EXPECT_LE(2, masks);
	EXPECT_TRUE(in_bounds);

	mispredicted = true;
	sframe_read(&self->sec, 100, self->buf, 50);
	EXPECT_EQ(self->data, copy_from);
	EXPECT_EQ(0, copy_size);
}

TEST_HARNESS_MAIN
