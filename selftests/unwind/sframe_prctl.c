// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that a program registers with prctl(), for code that no file
 * has: what is refused, the stacks, and how long a registration lives.
 */
#define _GNU_SOURCE
#include "sframe_test.h"
#include <pthread.h>
#include <stdarg.h>
#include "tracefs.h"
#include "../kselftest_harness.h"

#ifdef __x86_64__

/* UNWIND_SFRAME_MAX of the kernel. */
#define SECTIONS_MAX	1024
#define KERNEL_ADDR	0xffffffff81000000UL
#define NOWHERE		0x1000UL

FIXTURE(sframe) {
	struct defer_session s;
	struct kmsg log;
	struct jit jit;
	struct chain c;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	/* The stack when the section is not used. */
	__u64 bare[2];
};

FIXTURE_VARIANT(sframe) {
	struct sframe_opts sframe;
};

FIXTURE_VARIANT_ADD(sframe, v2) {
	.sframe = { .version = SFRAME_V2 },
};

FIXTURE_VARIANT_ADD(sframe, v2_pcrel) {
	.sframe = { .version = SFRAME_V2, .pcrel = true },
};

FIXTURE_VARIANT_ADD(sframe, v3) {
	.sframe = { .version = SFRAME_V3 },
};

FIXTURE_SETUP(sframe)
{
	static const char * const list[] = {
		code_sp, code_fp, code_mark, code_large, code_leaf,
	};
	const char *why = sframe_unsupported();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, jit_init(&self->jit, &variant->sframe));
	chain_begin(&self->c, &self->jit.map);
	chain_add_list(&self->c, &self->jit.map, list, ARRAY_SIZE(list));
	self->bare[0] = image_addr(&self->jit.map, code_leaf_ip);
	self->bare[1] = image_addr(&self->jit.map, code_decoy);
	self->nr_want = chain_expect(&self->c, self->want, self->bare[0], -1);
}

FIXTURE_TEARDOWN(sframe)
{
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	defer_session_close(&self->s);
	jit_free(&self->jit);
}

#define TEXT(self)	((unsigned long)(self)->jit.text)
#define HEADER(self)	((struct sframe_header *)(self)->jit.sframe)

/* ---- what is refused ------------------------------------------------------------ */

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
	/* Readable, but not to the end. */
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
		FIELD(version, SFRAME_V1),
		FIELD(version, SFRAME_V3 + 1),
		FIELD(version, 0xff),
		FIELD(flags, 0),
		FIELD(flags, SFRAME_F_PCREL),
		FIELD(abi, 0),
		FIELD(abi, 1),
		FIELD(abi, 2),
		FIELD(abi, 4),
		FIELD(auxhdr_len, 0xff),
		FIELD(num_fdes, 0x10000000),
		FIELD(num_fdes, 0xffffffff),
		FIELD(fre_len, 0x80000000),
		FIELD(fre_len, 0xffffffff),
		FIELD(fdeoff, 0x10000000),
		FIELD(fdeoff, 0xffffffff),
		FIELD(freoff, 0x10000000),
		FIELD(freoff, 0xffffffff),
#undef FIELD
	};

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		*h = good;
		memcpy((char *)h + cases[i].off, &cases[i].val, cases[i].size);
		/* An auxiliary header this long does not fit either. */
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

/* The range of a section that is registered for the sake of the number. */
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
	/* One goes, one comes. */
	EXPECT_EQ(0, del_nth(&self->jit, SECTIONS_MAX / 2));
	EXPECT_EQ(0, add_nth(&self->jit, i));
	EXPECT_EQ(-ENOSPC, add_nth(&self->jit, SECTIONS_MAX / 2));
	/* In the other order than they came. */
	for (i = SECTIONS_MAX + 1; i--; ) {
		if (i != SECTIONS_MAX / 2)
			EXPECT_EQ(0, del_nth(&self->jit, i));
	}
	EXPECT_EQ(0, jit_add(&self->jit));
}

/* ---- stacks ------------------------------------------------------------------------ */

TEST_F(sframe, stacks)
{
	unsigned int i, n = 0;

	SESSION_OPEN(&self->s);
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, n, self->bare, 2, "before");
	n++;
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, jit_add(&self->jit));
		/* With rules that are not known yet, and that are. */
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

/* What lies outside of the range is not for the section to say. */
TEST_F(sframe, range_is_a_bound)
{
	unsigned long end = image_addr(&self->jit.map, code_leaf);
	unsigned long start = image_addr(&self->jit.map, code_mark);
	unsigned int n;

	SESSION_OPEN(&self->s);
	/* The leaf is outside, hence frame pointers from the start. */
	ASSERT_EQ(0, sframe_add(self->jit.sframe, self->jit.sframe_len,
				TEXT(self), end));
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 0, self->bare, 2);
	ASSERT_EQ(0, sframe_del(TEXT(self), end));
	/* code_fp is the last but one, and is inside; code_sp is outside. */
	ASSERT_EQ(0, sframe_add(self->jit.sframe, self->jit.sframe_len, start,
				jit_end(&self->jit)));
	chain_sample(&self->c);
	n = chain_expect(&self->c, self->want, self->bare[0], 4);
	self->want[n++] = self->bare[1];
	EXPECT_NEXT(&self->s, 1, self->want, n);
}

/* Code is replaced, as a JIT does: the same range, another section. */
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

/* ---- sections that change ------------------------------------------------------------ */

/* Register the table for functions of the text at m: only this one, or all but two. */
static int add_funcs(const struct image_map *m, const unsigned char *table, size_t len,
		     const char *only, const char *not1, const char *not2)
{
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(sframe_funcs); i++) {
		const struct sframe_func *f = &sframe_funcs[i];

		if (only ? f->start != only : f->start == not1 || f->start == not2)
			continue;
		err = sframe_add(table, len, image_addr(m, f->start),
				 image_addr(m, f->end));
		if (err)
			return err;
	}
	return 0;
}

static void del_funcs(const struct image_map *m)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sframe_funcs); i++)
		sframe_del(image_addr(m, sframe_funcs[i].start),
			   image_addr(m, sframe_funcs[i].end));
}

/*
 * Parts of a mapped file that has no table are registered one after the other.  A walk
 * comes through a part that is not before it comes to one that is, and that was known
 * to have no rule.
 */
TEST_F(sframe, parts_of_a_mapped_file)
{
	const struct image_opts o = {
		.sframe = variant->sframe,
		.no_sframe = true,
	};
	__u64 want[2 * CHAIN_MAX + 1];
	struct image_map m = {};
	const __u64 *ips = NULL;
	unsigned int i, nr_want;
	unsigned char *table;
	struct image im;
	struct chain c;
	size_t len;
	int fd, nr;

	ASSERT_EQ(0, image_build(&im, &o));
	fd = image_file(&im, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	/* Not farther away than version 2 can tell. */
	table = mmap(NULL, SFRAME_MAX_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, table);
	len = sframe_build(table, &o.sframe, (__u64)table, m.text);

	chain_begin(&c, &m);
	chain_add(&c, &m, code_sp);
	chain_add(&c, &m, code_mark);
	chain_add(&c, &m, code_fp);
	chain_add(&c, &m, code_leaf);
	nr_want = chain_expect(&c, want, image_addr(&m, code_leaf_ip), -1);

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, add_funcs(&m, table, len, code_leaf, NULL, NULL));
	for (i = 0; i < 2; i++) {
		chain_sample(&c);
		ASSERT_EQ(0, defer_wait_samples(&self->s, i + 1, 5));
		nr = sample_stack(&self->s, i, &ips);
		EXPECT_FALSE(defer_same(ips, nr, want, nr_want));
	}
	ASSERT_EQ(0, add_funcs(&m, table, len, NULL, code_leaf, code_fp));
	chain_sample(&c);
	EXPECT_NEXT(&self->s, 2, want, nr_want);

	del_funcs(&m);
	munmap(table, SFRAME_MAX_SIZE);
	image_unmap(&m);
	image_free(&im);
	close(fd);
}

/*
 * As a program with a JIT may have it: ranges of one mapping are registered, and the
 * stack comes through each of them and through what lies between.  What was looked up
 * once need not be looked up again, though all of it is in one mapping.
 *
 *	| range 0 | gap | range 1 | gap | ... code_fp in each of them
 *
 * The kernel makes room by and by, hence the walks that do not count.
 */
#define RANGES		64
#define GAPS		40
#define PART		256UL
#define WARM_WALKS	64
#define COUNTED_WALKS	16

/* Where code_fp is that was copied to this address, as if all the code was there. */
static struct image_map part_map(unsigned long addr)
{
	struct image_map m = { .text = addr - (code_fp - code_begin) };

	return m;
}

/* Sum of lookups=... in the trace, over all walks. */
static int count_lookups(const struct tracefs *t, unsigned int *walks)
{
	static const char key[] = "lookups=";
	static char text[65536];
	int lookups = 0;
	char *p = text;

	*walks = 0;
	if (tracefs_read(t, "trace", text, sizeof(text)) < 0)
		return -1;
	while ((p = strstr(p, key))) {
		p += strlen(key);
		lookups += atoi(p);
		++*walks;
	}
	return lookups;
}

TEST_F(sframe, many_ranges_on_one_stack)
{
	static const char event[] = "events/unwind_user/unwind_user_walk/enable";
	size_t len = code_fp_end - code_fp, table_len;
	unsigned int i, nr_want, walks = 0, n = 0;
	struct image_map part;
	unsigned char *tables;
	unsigned char *text;
	struct tracefs t;
	int ret, before;

	ASSERT_GE(PART / 2, len);
	text = mmap(NULL, 2 * RANGES * PART, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, text);
	tables = mmap(NULL, RANGES * SFRAME_MAX_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, tables);
	for (i = 0; i < 2 * RANGES; i++)
		memcpy(text + i * PART, code_fp, len);
	ASSERT_EQ(0, mprotect(text, 2 * RANGES * PART, PROT_READ | PROT_EXEC));

	ret = tracefs_open(&t, "unwind_ranges");
	if (ret)
		SKIP(return, "no tracefs: %s", strerror(-ret));
	ASSERT_EQ(0, jit_add(&self->jit));
	chain_begin(&self->c, &self->jit.map);
	for (i = 0; i < RANGES; i++) {
		unsigned char *table = tables + i * SFRAME_MAX_SIZE;
		unsigned long addr = (unsigned long)text + 2 * i * PART;

		part = part_map(addr);
		table_len = sframe_build(table, &variant->sframe, (__u64)table,
					 part.text);
		ASSERT_EQ(0, sframe_add(table, table_len, addr, addr + len));
		chain_add(&self->c, &part, code_fp);
		if (i >= GAPS)
			continue;
		part = part_map(addr + PART);
		chain_add(&self->c, &part, code_fp);
	}
	chain_add(&self->c, &self->jit.map, code_leaf);
	nr_want = chain_expect(&self->c, self->want,
			       image_addr(&self->jit.map, code_leaf_ip), -1);

	SESSION_OPEN(&self->s);
	for (i = 0; i < WARM_WALKS; i++) {
		/* The first one: how much there is to look up. */
		ASSERT_EQ(0, tracefs_write(&t, event, "%d", !i));
		chain_sample(&self->c);
		EXPECT_NEXT(&self->s, n, self->want, nr_want, "%u", n);
		n++;
	}
	before = count_lookups(&t, &walks);
	EXPECT_EQ(1, walks);
	EXPECT_LE(RANGES, before);

	/* Nothing in between that changes mappings. */
	ASSERT_EQ(0, tracefs_write(&t, event, "1"));
	for (i = 0; i < COUNTED_WALKS; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, tracefs_write(&t, event, "0"));
	ret = count_lookups(&t, &walks);
	TH_LOG("%d lookups in the first walk, %d in the last %u", before, ret - before,
	       COUNTED_WALKS);
	EXPECT_EQ(1 + COUNTED_WALKS, walks);
	/* The first of them may come behind a change that the test made. */
	EXPECT_GE(2 * before + RANGES, ret);
	EXPECT_EQ(0, tracefs_write(&t, "trace", ""));
	EXPECT_EQ(0, tracefs_close(&t));
}

TEST_F(sframe, section_overwritten)
{
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, jit_add(&self->jit));
	memset(self->jit.sframe, 0xff, SFRAME_MAX_SIZE);
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 0, self->bare, 2);
}

/* Once it is found to be corrupt it is not used, until it is registered again. */
TEST_F(sframe, section_corrupt)
{
	struct chain good;
	__u64 want[4];
	unsigned int nr;

	chain_begin(&good, &self->jit.map);
	chain_add(&good, &self->jit.map, code_sp);
	chain_add(&good, &self->jit.map, code_leaf);
	nr = chain_expect(&good, want, self->bare[0], -1);

	sframe_corrupt(self->jit.sframe, code_mark);
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, jit_add(&self->jit));
	chain_sample(&good);
	EXPECT_NEXT(&self->s, 0, want, nr, "good");
	chain_sample(&self->c);
	chain_sample(&good);
	EXPECT_NEXT(&self->s, 2, self->bare, 2, "dropped");

	/* The range is still taken. */
	EXPECT_EQ(-EEXIST, jit_add(&self->jit));
	sframe_build(self->jit.sframe, &variant->sframe, (__u64)self->jit.sframe,
		     TEXT(self));
	chain_sample(&good);
	EXPECT_NEXT(&self->s, 3, self->bare, 2, "still dropped");
	ASSERT_EQ(0, jit_del(&self->jit));
	ASSERT_EQ(0, jit_add(&self->jit));
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 4, self->want, self->nr_want, "registered again");
}

TEST_F(sframe, section_unmapped)
{
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, jit_add(&self->jit));
	ASSERT_EQ(0, munmap(self->jit.sframe, SFRAME_MAX_SIZE));
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 0, self->bare, 2);
	EXPECT_EQ(0, jit_del(&self->jit));
}

TEST_F(sframe, section_overwritten_when_warm)
{
	const __u64 *ips = NULL;
	int nr;

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, jit_add(&self->jit));
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 0, self->want, self->nr_want);
	memset(self->jit.sframe, 0xff, SFRAME_MAX_SIZE);
	chain_sample(&self->c);
	ASSERT_EQ(0, defer_wait_samples(&self->s, 2, 5));
	nr = sample_stack(&self->s, 1, &ips);
	/* What the kernel remembers may still be used. */
	EXPECT_TRUE(chain_legal(&self->c, ips, nr, self->bare[0],
				self->bare[1]));
}

/* Any bytes do no harm: the stack may be any, but the record comes. */
TEST_F_TIMEOUT(sframe, random_bytes, 60)
{
	const unsigned int rounds = 400;
	struct defer_stats st;
	unsigned int i, j;

	srandom(1);
	SESSION_OPEN(&self->s);
	for (i = 0; i < rounds; i++) {
		struct sframe_header *h = HEADER(self);
		unsigned int nr = 1 + random() % 40;

		sframe_build(self->jit.sframe, &variant->sframe,
			     (__u64)self->jit.sframe, TEXT(self));
		ASSERT_EQ(0, jit_add(&self->jit));
		/* Half of them leave the header alone. */
		for (j = 0; j < nr; j++) {
			size_t at = random() % self->jit.sframe_len;

			if (i % 2 && at < sizeof(*h))
				continue;
			self->jit.sframe[at] = random();
		}
		chain_sample(&self->c);
		ASSERT_EQ(0, jit_del(&self->jit));
		defer_drain(&self->s);
	}
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.missing);
	ASSERT_EQ(rounds, st.samples);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;

		ASSERT_LE(1, sample_stack(&self->s, i, &ips));
		EXPECT_EQ(self->bare[0], ips[0]);
	}
}

/* ---- other tasks --------------------------------------------------------------------- */

struct child_arg {
	struct chain	*c;
	struct jit	*jit;
	int		fd;
};

static void do_fork(void *arg)
{
	struct child_arg *a = arg;

	chain_sample(a->c);
	if (jit_del(a->jit))
		_exit(2);
	chain_sample(a->c);
	if (jit_add(a->jit))
		_exit(3);
	chain_sample(a->c);
	if (jit_del(a->jit))
		_exit(4);
}

/* A child has what its parent had, and what it does is its own. */
TEST_F(sframe, fork)
{
	struct child_arg arg = { &self->c, &self->jit };
	struct defer_child child;
	int status = -1;

	ASSERT_EQ(0, jit_add(&self->jit));
	ASSERT_EQ(0, defer_spawn(&child, do_fork, &arg));
	SESSION_OPEN_PID(&self->s, child.pid, DEFER_PAGES);
	ASSERT_EQ(0, defer_go(&child));
	ASSERT_EQ(0, defer_wait(child.pid, &status, 10, NULL));
	ASSERT_EQ(0, status);
	EXPECT_NEXT(&self->s, 0, self->want, self->nr_want);
	EXPECT_NEXT(&self->s, 1, self->bare, 2);
	EXPECT_NEXT(&self->s, 2, self->want, self->nr_want);
	defer_session_close(&self->s);

	SESSION_OPEN(&self->s);
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 0, self->want, self->nr_want);
	EXPECT_EQ(0, jit_del(&self->jit));
}

#define EXEC_ADDR	0x7000000000UL

static void do_exec(void *arg)
{
	char * const argv[] = { "program", NULL };
	struct child_arg *a = arg;
	char path[64];

	/* For the very addresses that the next program has. */
	if (jit_add(a->jit))
		_exit(2);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	execv(path, argv);
	_exit(3);
}

/*
 * The next program has the same code at the same address, and the section
 * where the previous one had it, but says nothing about it.
 */
TEST_F(sframe, gone_after_exec)
{
	const struct image_opts o = {
		.sframe = variant->sframe,
		.kind = IMAGE_EXEC,
		.vaddr = EXEC_ADDR,
		.program = { code_entry, code_sp, code_mark, code_leaf },
		.program_nr = __NR_getpgid,
	};
	struct child_arg arg = { &self->c, &self->jit };
	struct defer_child child;
	struct image_map m;
	int i, status = -1;
	struct image im;
	__u64 want[2];

	/* Once with a section that is announced, to see that it would work. */
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, image_build(&im, &o));
		if (i)
			im.sframe_phdr->p_type = PT_NULL;
		arg.fd = image_file(&im, NULL);
		ASSERT_LE(0, arg.fd);
		jit_free(&self->jit);
		ASSERT_EQ(0, image_map(&m, &im, arg.fd, EXEC_ADDR));
		self->jit.map = m;
		self->jit.text = (void *)m.text;
		self->jit.sframe = (void *)image_seg_addr(&im, &m, SEG_SFRAME) +
				   IMAGE_SFRAME;
		self->jit.sframe_len = im.sframe_len;
		ASSERT_EQ(0, defer_spawn(&child, do_exec, &arg));
		SESSION_OPEN_PID(&self->s, child.pid, DEFER_PAGES);
		ASSERT_EQ(0, defer_go(&child));
		ASSERT_EQ(0, defer_wait(child.pid, &status, 10, NULL));
		ASSERT_EQ(0, status);
		chain_begin(&self->c, &m);
		chain_add(&self->c, &m, code_sp);
		chain_add(&self->c, &m, code_mark);
		self->nr_want = chain_expect(&self->c, self->want,
					     image_addr(&m, code_leaf_ip), -1);
		want[0] = image_addr(&m, code_leaf_ip);
		want[1] = image_addr(&m, code_decoy);
		if (i)
			EXPECT_STACKS(&self->s, 1, want, 2);
		else
			EXPECT_STACKS(&self->s, 1, self->want, self->nr_want);
		defer_session_close(&self->s);
		close(arg.fd);
		image_free(&im);
	}
}

struct worker {
	pthread_t	thread;
	struct chain	c;
	struct jit	*jit;
	pid_t		tid;
	unsigned int	first;
	int		err;
	int		stop;
};

static void *sampled(void *arg)
{
	struct worker *w = arg;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		chain_sample(&w->c);
		usleep(50);
	}
	return NULL;
}

static pid_t worker_tid(struct worker *w)
{
	__u64 end = defer_now() + 5 * DEFER_NSEC_PER_SEC;
	pid_t tid;

	do {
		tid = __atomic_load_n(&w->tid, __ATOMIC_ACQUIRE);
		if (tid)
			return tid;
		usleep(1000);
	} while (defer_now() < end);
	return -1;
}

/* One thread is unwound while another registers its section and takes it back. */
TEST_F_TIMEOUT(sframe, two_threads, 60)
{
	struct worker w = { .c = self->c };
	unsigned int i, whole = 0, bare = 0, rounds = 0;
	struct defer_stats st;
	__u64 end;

	ASSERT_EQ(0, pthread_create(&w.thread, NULL, sampled, &w));
	ASSERT_LT(0, worker_tid(&w));
	SESSION_OPEN_PID(&self->s, w.tid, 1024);
	end = defer_now() + 3 * DEFER_NSEC_PER_SEC;
	while (defer_now() < end) {
		ASSERT_EQ(0, jit_add(&self->jit));
		usleep(rounds % 300);
		ASSERT_EQ(0, jit_del(&self->jit));
		usleep(rounds % 200);
		defer_drain(&self->s);
		rounds++;
	}
	__atomic_store_n(&w.stop, 1, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(w.thread, NULL));
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;
		int nr = sample_stack(&self->s, i, &ips);

		/* The last one may have come when the session ended. */
		if (nr < 0)
			continue;
		ASSERT_TRUE(chain_legal(&self->c, ips, nr, self->bare[0],
					self->bare[1]));
		whole += nr == (int)self->nr_want;
		bare += nr == 2;
	}
	TH_LOG("%u rounds, %u samples: %u whole, %u without", rounds,
	       st.samples, whole, bare);
	EXPECT_LT(0, whole);
	EXPECT_LT(0, bare);
}

static void *registers(void *arg)
{
	struct worker *w = arg;
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
	struct worker w[4] = {};
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
	SKIP(return, "no code with tables for this architecture");
}

#endif

TEST_HARNESS_MAIN
