// SPDX-License-Identifier: GPL-2.0
/*
 * Registration of SFrame sections with prctl(), for code that is in no file: which
 * arguments the kernel refuses, and stacks with registered sections.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/prctl.h>

#include "../kselftest_harness.h"
#include "lib/sample.h"
#include "sframe_prctl.h"

#ifdef __x86_64__

/* UNWIND_SFRAME_MAX of the kernel. */
#define SECTIONS_MAX	1024
#define KERNEL_ADDR	0xffffffff81000000UL
#define NOWHERE		0x1000UL

/* Errors */

TEST_F(sframe, bad_arguments)
{
	unsigned char *section = self->jit.sframe;
	unsigned long len = self->jit.sframe_len;
	unsigned long start = TEXT(self), end = jit_end(&self->jit);
	const struct {
		const char	*what;
		const void	*sframe;
		unsigned long	len;
		unsigned long	start;
		unsigned long	end;
		int		err;
	} cases[] = {
		{ "empty range", section, len, start, start, -EINVAL },
		{ "inverted range", section, len, end, start, -EINVAL },
		{ "range of the kernel", section, len, KERNEL_ADDR,
		  KERNEL_ADDR + 4096, -EINVAL },
		{ "range into the kernel", section, len, start, KERNEL_ADDR,
		  -EINVAL },
		{ "range to the last byte", section, len, start, ~0UL,
		  -EINVAL },
		{ "range that is not canonical", section, len, start,
		  1UL << 62, -EINVAL },
		{ "section of the kernel", (void *)KERNEL_ADDR, len, start,
		  end, -EINVAL },
		{ "section into the kernel", section, KERNEL_ADDR, start, end,
		  -EINVAL },
		{ "section around the end", section, -1UL, start, end,
		  -EINVAL },
		{ "section at the end", (void *)-8UL, 8, start, end, -EINVAL },
		{ "section of no bytes", section, 0, start, end, -EINVAL },
		{ "section of one byte", section, 1, start, end, -EINVAL },
		{ "half a header", section, sizeof(struct sframe_header) / 2,
		  start, end, -EINVAL },
		{ "header only", section, sizeof(struct sframe_header), start,
		  end, -EINVAL },
		{ "half a section", section, len / 2, start, end, -EINVAL },
		{ "section that is not mapped", (void *)NOWHERE, len, start,
		  end, -EFAULT },
		{ "text for a section", (void *)start, len, start, end,
		  -EINVAL },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(cases[i].err,
			  sframe_add(cases[i].sframe, cases[i].len,
				     cases[i].start, cases[i].end)) {
			TH_LOG("%s", cases[i].what);
		}
	}
	/* The section is mapped, but not readable. */
	ASSERT_EQ(0, mprotect(section, IMAGE_PAGE, PROT_NONE));
	EXPECT_EQ(-EFAULT, jit_add(&self->jit));
	ASSERT_EQ(0, mprotect(section, IMAGE_PAGE, PROT_READ | PROT_WRITE));
	/* None of them left anything behind. */
	EXPECT_EQ(-ENOENT, jit_del(&self->jit));
	EXPECT_EQ(0, jit_add(&self->jit));
}

TEST_F(sframe, bad_sections)
{
	struct sframe_header *h = HEADER(self), good = *h;
	unsigned int i;
	const struct {
		const char	*what;
		size_t		off;
		size_t		size;
		__u32		val;
	} cases[] = {
#define FIELD(name, val) {						\
	#name " " #val,							\
	offsetof(struct sframe_header, name),				\
	sizeof(((struct sframe_header *)0)->name),			\
	val								\
}
		FIELD(magic, 0),
		/* The other byte order. */
		FIELD(magic, 0xe2de),
		FIELD(version, 0),
		FIELD(version, SFRAME_VERSION_1),
		FIELD(version, SFRAME_VERSION_3 + 1),
		FIELD(version, 0xff),
		FIELD(flags, 0),
		FIELD(flags, SFRAME_FLAG_PCREL),
		FIELD(abi, 0),
		FIELD(abi, 1),
		FIELD(abi, 2),
		FIELD(abi, 4),
		FIELD(aux_len, 0xff),
		FIELD(num_fdes, 0x10000000),
		FIELD(num_fdes, 0xffffffff),
		FIELD(fre_len, 0x80000000),
		FIELD(fre_len, 0xffffffff),
		FIELD(fde_off, 0x10000000),
		FIELD(fde_off, 0xffffffff),
		FIELD(fre_off, 0x10000000),
		FIELD(fre_off, 0xffffffff),
#undef FIELD
	};

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		*h = good;
		memcpy((char *)h + cases[i].off, &cases[i].val, cases[i].size);
		/* Each of these values makes the header invalid. */
		EXPECT_EQ(-EINVAL, jit_add(&self->jit)) {
			TH_LOG("%s", cases[i].what);
			jit_del(&self->jit);
		}
	}
	*h = good;
	EXPECT_EQ(0, jit_add(&self->jit));
	EXPECT_EQ(0, jit_del(&self->jit));
}

TEST_F(sframe, overlapping_ranges)
{
	unsigned long start = TEXT(self), end = jit_end(&self->jit);
	const void *section = self->jit.sframe;
	unsigned long len = self->jit.sframe_len;

	ASSERT_EQ(0, jit_add(&self->jit));
	EXPECT_EQ(-EEXIST, jit_add(&self->jit));
	EXPECT_EQ(-EEXIST, sframe_add(section, len, start + 16, end - 16));
	EXPECT_EQ(-EEXIST, sframe_add(section, len, start - 16, end + 16));
	EXPECT_EQ(-EEXIST, sframe_add(section, len, start - 16, start + 1));
	EXPECT_EQ(-EEXIST, sframe_add(section, len, end - 1, end + 16));
	/* Neighbours do not overlap. */
	EXPECT_EQ(0, sframe_add(section, len, start - 16, start));
	EXPECT_EQ(0, sframe_add(section, len, end, end + 16));
	EXPECT_EQ(0, sframe_del(start - 16, start));
	EXPECT_EQ(0, sframe_del(end, end + 16));
	EXPECT_EQ(0, jit_del(&self->jit));
}

TEST_F(sframe, unknown_ranges)
{
	unsigned long start = TEXT(self), end = jit_end(&self->jit);

	EXPECT_EQ(-ENOENT, jit_del(&self->jit));
	ASSERT_EQ(0, jit_add(&self->jit));
	EXPECT_EQ(-ENOENT, sframe_del(start, end - 1));
	EXPECT_EQ(-ENOENT, sframe_del(start + 1, end));
	EXPECT_EQ(-ENOENT, sframe_del(start - 1, end + 1));
	EXPECT_EQ(0, jit_del(&self->jit));
	EXPECT_EQ(-ENOENT, jit_del(&self->jit));
}

TEST_F(sframe, unused_arguments)
{
	unsigned long start = TEXT(self), end = jit_end(&self->jit);

	ASSERT_EQ(0, jit_add(&self->jit));
	EXPECT_EQ(-1, prctl(PR_UNWIND_SFRAME_DEL, start, end, 1UL, 0UL));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, prctl(PR_UNWIND_SFRAME_DEL, start, end, 0UL, 1UL));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, jit_del(&self->jit));
}

/* Start of region i, of many that are registered only to reach the limit. */
static unsigned long nth_start(const struct jit *j, unsigned int i)
{
	return (unsigned long)j->text + 32 * i;
}

static int add_nth(const struct jit *j, unsigned int i)
{
	unsigned long start = nth_start(j, i);

	return sframe_add(j->sframe, j->sframe_len, start, start + 32);
}

static int del_nth(const struct jit *j, unsigned int i)
{
	return sframe_del(nth_start(j, i), nth_start(j, i) + 32);
}

TEST_F(sframe, limit)
{
	unsigned int i;

	for (i = 0; i < SECTIONS_MAX; i++)
		ASSERT_EQ(0, add_nth(&self->jit, i));
	EXPECT_EQ(-ENOSPC, add_nth(&self->jit, i));
	/* Unregistering one makes room for another. */
	EXPECT_EQ(0, del_nth(&self->jit, SECTIONS_MAX / 2));
	EXPECT_EQ(0, add_nth(&self->jit, i));
	EXPECT_EQ(-ENOSPC, add_nth(&self->jit, SECTIONS_MAX / 2));
	/* In reverse order. */
	for (i = SECTIONS_MAX + 1; i--; ) {
		if (i != SECTIONS_MAX / 2)
			EXPECT_EQ(0, del_nth(&self->jit, i));
	}
	EXPECT_EQ(0, jit_add(&self->jit));
}

/* Stacks */

TEST_F(sframe, stacks)
{
	unsigned int i, n = 0;

	SESSION_OPEN(&self->s);
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, n, self->bare, 2, "before");
	n++;
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, jit_add(&self->jit));
		/* First without remembered rules, then with them. */
		chain_sample(&self->c);
		EXPECT_NEXT(&self->s, n, self->want, self->nr_want, "cold");
		n++;
		chain_sample(&self->c);
		EXPECT_NEXT(&self->s, n, self->want, self->nr_want, "warm");
		n++;
		ASSERT_EQ(0, jit_del(&self->jit));
		chain_sample(&self->c);
		EXPECT_NEXT(&self->s, n, self->bare, 2, "deleted");
		n++;
	}
}

/* A section is used only for code in its region. */
TEST_F(sframe, range_is_a_bound)
{
	unsigned long end = image_addr(&self->jit.map, code_leaf);
	unsigned long start = image_addr(&self->jit.map, code_mark);
	unsigned int n;

	SESSION_OPEN(&self->s);
	/* The leaf is outside, so the walk follows frame pointers from the start. */
	ASSERT_EQ(0, sframe_add(self->jit.sframe, self->jit.sframe_len,
				TEXT(self), end));
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 0, self->bare, 2);
	ASSERT_EQ(0, sframe_del(TEXT(self), end));
	/*
	 * The outermost function, code_sp, is outside; the next one, code_fp, is
	 * inside.
	 */
	ASSERT_EQ(0, sframe_add(self->jit.sframe, self->jit.sframe_len, start,
				jit_end(&self->jit)));
	chain_sample(&self->c);
	n = chain_expect(&self->c, self->want, self->bare[0], 4);
	self->want[n++] = self->bare[1];
	EXPECT_NEXT(&self->s, 1, self->want, n);
}

/* Register another section for the same region, as a JIT compiler does. */
TEST_F(sframe, replaced)
{
	struct sframe_opts o = variant->sframe;
	unsigned int n;

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, jit_add(&self->jit));
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 0, self->want, self->nr_want);
	ASSERT_EQ(0, jit_del(&self->jit));
	o.outermost[0] = code_mark;
	self->jit.sframe_len = sframe_build(self->jit.sframe, &o,
					    (__u64)self->jit.sframe,
					    TEXT(self));
	ASSERT_EQ(0, jit_add(&self->jit));
	chain_sample(&self->c);
	n = chain_expect(&self->c, self->want, self->bare[0], 2);
	EXPECT_NEXT(&self->s, 1, self->want, n);
}

struct registrar {
	pthread_t	thread;
	struct jit	*jit;
	unsigned int	first;
	int		err;
};

static void *registers(void *arg)
{
	struct registrar *w = arg;
	unsigned int i, round;

	for (round = 0; round < 200; round++) {
		for (i = 0; i < 20 && !w->err; i++)
			w->err = add_nth(w->jit, w->first + i);
		for (i = 0; i < 20 && !w->err; i++)
			w->err = del_nth(w->jit, w->first + i);
	}
	return NULL;
}

/* Several threads register at once; nothing gets lost, nothing is counted twice. */
TEST_F_TIMEOUT(sframe, registering_threads, 60)
{
	struct registrar w[4] = {};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(w); i++) {
		w[i].jit = &self->jit;
		w[i].first = 20 * i;
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, registers,
					    &w[i]));
	}
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		EXPECT_EQ(0, w[i].err);
	}
	for (i = 0; i < SECTIONS_MAX; i++)
		ASSERT_EQ(0, add_nth(&self->jit, i));
	EXPECT_EQ(-ENOSPC, add_nth(&self->jit, i));
}

#else /* !__x86_64__ */

TEST(sframe)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
