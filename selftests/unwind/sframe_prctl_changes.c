// SPDX-License-Identifier: GPL-2.0
/*
 * Registration of SFrame sections with prctl(), for code that is in no file: sections
 * that change, and sections of other tasks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/child.h"
#include "../perf_events/lib/event.h"
#include "lib/sample.h"
#include "lib/tracefs.h"
#include "lib/worker.h"
#include "sframe_prctl.h"

#ifdef __x86_64__

/*
 * Register the section for one function of the text at m, or for all functions but two.
 */
static int add_funcs(const struct image_map *m, const unsigned char *table, size_t len,
		     const char *only, const char *not1, const char *not2)
{
	unsigned int i;
	int err;

	for (i = 0; i < nr_sframe_funcs; i++) {
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

	for (i = 0; i < nr_sframe_funcs; i++)
		sframe_del(image_addr(m, sframe_funcs[i].start),
			   image_addr(m, sframe_funcs[i].end));
}

/*
 * Register parts of a mapped file without a section, one after another. The last walk
 * comes through an unregistered part first, and then through a registered part for
 * which the kernel remembers that it had no rule.
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
	/* Near the text: version 2 stores the distance in 32 bits. */
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
		ASSERT_EQ(0, session_wait(&self->s, i + 1, 5));
		nr = sample_stack(&self->s, i, &ips);
		ASSERT_LT(0, nr);
		EXPECT_FALSE(stack_same(ips, nr, want, nr_want));
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
 * As in a program with a JIT compiler: regions of one mapping are registered, and the
 * stack leads through each of them and through the gaps between them. Once all are
 * looked up, the kernel must remember all of them, although they are in one mapping.
 *
 *	| range 0 | gap | range 1 | gap | ... code_fp in each of them
 *
 * The kernel's memory for them grows step by step, so the first walks are not counted.
 */
#define RANGES		64
#define GAPS		40
#define PART		256UL
#define WARM_WALKS	64
#define COUNTED_WALKS	16

/* The map of an image whose code_fp would be at this address. */
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
		/* Trace only the first walk, which has to look up everything. */
		ASSERT_EQ(0, tracefs_write(&t, event, "%d", !i));
		chain_sample(&self->c);
		EXPECT_NEXT(&self->s, n, self->want, nr_want, "%u", n);
		n++;
	}
	before = count_lookups(&t, &walks);
	EXPECT_EQ(1, walks);
	EXPECT_LE(RANGES, before);

	/* Nothing may change mappings from here to the last walk. */
	ASSERT_EQ(0, tracefs_write(&t, event, "1"));
	for (i = 0; i < COUNTED_WALKS; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, tracefs_write(&t, event, "0"));
	ret = count_lookups(&t, &walks);
	TH_LOG("%d lookups in the first walk, %d in the last %u", before, ret - before,
	       COUNTED_WALKS);
	EXPECT_EQ(1 + COUNTED_WALKS, walks);
	/* The first of these walks may come after a change of mappings by the test. */
	EXPECT_GE(2 * before + RANGES, ret);
	EXPECT_EQ(0, tracefs_write(&t, "trace", ""));
	EXPECT_EQ(0, tracefs_close(&t));
}

/* A section that was found for one address serves others. */
TEST_F(sframe, found_once)
{
	static const char event[] = "events/unwind_user/unwind_user_walk/enable";
	unsigned int nr_want, walks;
	struct tracefs t;
	int ret;

	ret = tracefs_open(&t, "unwind_once");
	if (ret)
		SKIP(return, "no tracefs: %s", strerror(-ret));
	ASSERT_EQ(0, jit_add(&self->jit));
	chain_begin(&self->c, &self->jit.map);
	chain_add(&self->c, &self->jit.map, code_sp);
	chain_add(&self->c, &self->jit.map, code_keep);
	chain_add(&self->c, &self->jit.map, code_fp);
	chain_add(&self->c, &self->jit.map, code_leaf);
	nr_want = chain_expect(&self->c, self->want,
			       image_addr(&self->jit.map, code_leaf_ip), -1);

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, tracefs_write(&t, event, "1"));
	chain_sample(&self->c);
	ASSERT_EQ(0, tracefs_write(&t, event, "0"));
	EXPECT_NEXT(&self->s, 0, self->want, nr_want, "the only one");
	/* The first lookup has no place to keep what it finds. */
	EXPECT_GE(2, count_lookups(&t, &walks));
	EXPECT_EQ(1, walks);
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
	ASSERT_EQ(0, session_wait(&self->s, 2, 5));
	nr = sample_stack(&self->s, 1, &ips);
	/* The kernel may still use rules that it remembers. */
	EXPECT_TRUE(chain_legal(&self->c, ips, nr, self->bare[0],
				self->bare[1]));
}

/* Random bytes do no harm: the stack may be wrong, but there is a record. */
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
		/* Every other round leaves the header alone. */
		for (j = 0; j < nr; j++) {
			size_t at = random() % self->jit.sframe_len;

			if (i % 2 && at < sizeof(*h))
				continue;
			self->jit.sframe[at] = random();
		}
		chain_sample(&self->c);
		ASSERT_EQ(0, jit_del(&self->jit));
		session_drain(&self->s);
	}
	ASSERT_EQ(0, session_finish(&self->s));
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

/* Other tasks */

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

/* A child inherits its parent's sections; its changes do not affect the parent. */
TEST_F(sframe, fork)
{
	struct child_arg arg = { &self->c, &self->jit };
	struct child child;
	int status = -1;

	ASSERT_EQ(0, jit_add(&self->jit));
	ASSERT_EQ(0, child_spawn(&child, do_fork, &arg));
	SESSION_OPEN_PID(&self->s, child.pid, SESSION_PAGES);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	ASSERT_EQ(0, status);
	EXPECT_NEXT(&self->s, 0, self->want, self->nr_want);
	EXPECT_NEXT(&self->s, 1, self->bare, 2);
	EXPECT_NEXT(&self->s, 2, self->want, self->nr_want);
	session_close(&self->s);

	SESSION_OPEN(&self->s);
	chain_sample(&self->c);
	EXPECT_NEXT(&self->s, 0, self->want, self->nr_want);
	EXPECT_EQ(0, jit_del(&self->jit));
}

static void do_exec(void *arg)
{
	char * const argv[] = { "program", NULL };
	struct child_arg *a = arg;
	char path[64];

	/* At the addresses where the next program has its code. */
	if (jit_add(a->jit))
		_exit(2);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	execv(path, argv);
	_exit(3);
}

/*
 * The next program has the same code and the same section at the same addresses, but
 * neither announces the section nor registers it.
 */
TEST_F(sframe, gone_after_exec)
{
	const struct image_opts o = {
		.sframe = variant->sframe,
		.kind = IMAGE_EXEC,
		.vaddr = PROGRAM_ADDR,
		.program = { code_entry, code_sp, code_mark, code_leaf },
		.program_nr = __NR_getpgid,
	};
	struct child_arg arg = { &self->c, &self->jit };
	struct child child;
	struct image_map m;
	int i, status = -1;
	struct image im;
	__u64 want[2];

	/* First with a section that has a program header: the kernel must use it. */
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, image_build(&im, &o));
		if (i)
			im.sframe_phdr->p_type = PT_NULL;
		arg.fd = image_file(&im, NULL);
		ASSERT_LE(0, arg.fd);
		jit_free(&self->jit);
		ASSERT_EQ(0, image_map(&m, &im, arg.fd, PROGRAM_ADDR));
		self->jit.map = m;
		self->jit.text = (void *)m.text;
		self->jit.sframe = (void *)image_seg_addr(&im, &m, SEG_SFRAME) +
				   IMAGE_SFRAME;
		self->jit.sframe_len = im.sframe_len;
		ASSERT_EQ(0, child_spawn(&child, do_exec, &arg));
		SESSION_OPEN_PID(&self->s, child.pid, SESSION_PAGES);
		ASSERT_EQ(0, child_go(&child));
		ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
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
		session_close(&self->s);
		close(arg.fd);
		image_free(&im);
	}
}

/* One thread is unwound while another registers and unregisters the section. */
TEST_F_TIMEOUT(sframe, two_threads, 60)
{
	struct worker w = { .c = self->c, .pause_usec = 50 };
	unsigned int i, whole = 0, bare = 0, rounds = 0;
	struct defer_stats st;
	__u64 end;

	ASSERT_EQ(0, pthread_create(&w.thread, NULL, sampled, &w));
	ASSERT_LT(0, worker_tid(&w));
	SESSION_OPEN_PID(&self->s, w.tid, 1024);
	end = now_nsec() + 3 * NSEC_PER_SEC;
	while (now_nsec() < end) {
		ASSERT_EQ(0, jit_add(&self->jit));
		usleep(rounds % 300);
		ASSERT_EQ(0, jit_del(&self->jit));
		usleep(rounds % 200);
		session_drain(&self->s);
		rounds++;
	}
	__atomic_store_n(&w.stop, 1, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(w.thread, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
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
	TH_LOG("%u rounds, %u samples: %u whole, %u by frame pointer", rounds,
	       st.samples, whole, bare);
	EXPECT_LT(0, whole);
	EXPECT_LT(0, bare);
}

#else /* !__x86_64__ */

TEST(sframe)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
