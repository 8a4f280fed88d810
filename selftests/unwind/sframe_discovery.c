// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that the kernel finds in mapped files: where it finds them,
 * that it forgets them when the mapping is another one, and files that lie.
 *
 * Three files have the same code and differ in what they say of it: one has a
 * whole table, one says that code_mark is an outermost function, one has no
 * table.  So a stack tells which of them was used.
 */
#define _GNU_SOURCE
#include "sframe_test.h"
#include "fuse_server.h"
#include <dlfcn.h>
#include <pthread.h>
#include <linux/userfaultfd.h>
#include "../kselftest_harness.h"

#ifdef __x86_64__

#define NR_SAMPLE_CALL	__NR_getpgid
#define LEAF_IP(m)	image_addr(m, code_leaf_ip)
#define DECOY(m)	image_addr(m, code_decoy)
/* Frames up to code_mark in every chain here. */
#define CUT		2
/*
 * Bytes of kernel memory: what a task remembers of its walks, what its mm does of a
 * library with a section, and what threads share, when it has grown, as allocated.
 */
#define TASK_MEMORY_MAX		(64ULL << 10)
#define LIBRARY_MEMORY_MAX	1024ULL
#define SHARED_MEMORY_MAX	(64ULL << 10)

/* After how long what could not be read is looked at again, and a bit */
#define UNREAD_SECONDS	2

enum file {
	WHOLE,
	MARKED,
	BARE,
	FILES,
};

FIXTURE(discovery) {
	struct defer_session s;
	struct kmsg log;
	struct image im[FILES];
	int fd[FILES];
	/* A library that stays, and one to do things to. */
	struct image_map m;
	struct image_map v;
	struct chain c;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	char dir[64];
};

FIXTURE_VARIANT(discovery) {
	struct sframe_opts sframe;
	/* Files of /tmp, not in anonymous memory. */
	bool path;
};

FIXTURE_VARIANT_ADD(discovery, v2) {
	.sframe = { .version = SFRAME_V2 },
};

FIXTURE_VARIANT_ADD(discovery, v3) {
	.sframe = { .version = SFRAME_V3 },
	.path = true,
};

FIXTURE_SETUP(discovery)
{
	static const char * const names[] = { "whole", "marked", "bare" };
	const char *why = sframe_unsupported();
	unsigned int i;

	for (i = 0; i < FILES; i++)
		self->fd[i] = -1;
	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, make_dir(self->dir, sizeof(self->dir)));
	for (i = 0; i < FILES; i++) {
		struct image_opts o = {
			.sframe = variant->sframe,
			.no_sframe = i == BARE,
		};

		if (i == MARKED)
			o.sframe.outermost[0] = code_mark;
		ASSERT_EQ(0, image_build(&self->im[i], &o));
		self->fd[i] = make_file(&self->im[i], variant->path ?
					file_path(self->dir, names[i]) : NULL);
		ASSERT_LE(0, self->fd[i]);
	}
	ASSERT_EQ(0, image_map(&self->m, &self->im[WHOLE], self->fd[WHOLE],
			       0));
	ASSERT_EQ(0, image_map(&self->v, &self->im[WHOLE], self->fd[WHOLE],
			       0));
}

FIXTURE_TEARDOWN(discovery)
{
	char cmd[128];
	unsigned int i;

	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	defer_session_close(&self->s);
	image_unmap(&self->m);
	image_unmap(&self->v);
	for (i = 0; i < FILES; i++) {
		image_free(&self->im[i]);
		if (self->fd[i] >= 0)
			close(self->fd[i]);
	}
	if (self->dir[0]) {
		snprintf(cmd, sizeof(cmd), "rm -rf %s", self->dir);
		EXPECT_EQ(0, system(cmd));
	}
}

/* All in one library. */
static void chain_one(struct chain *c, const struct image_map *m)
{
	chain_begin(c, m);
	chain_add(c, m, code_sp);
	chain_add(c, m, code_mark);
	chain_add(c, m, code_far);
	chain_add(c, m, code_leaf);
}

/* The frames in the middle are v's, the leaf and the outermost are m's. */
static void
chain_two(struct chain *c, const struct image_map *m, const struct image_map *v)
{
	chain_begin(c, m);
	chain_add(c, v, code_far);
	chain_add(c, v, code_mark);
	chain_add(c, m, code_keep);
	chain_add(c, m, code_leaf);
}

/*
 * The stack of such a chain when code_mark has a table, when that says that
 * it is the outermost one, and when it has none.
 */
static unsigned int
expect(struct chain *c, __u64 *want, const struct image_map *m, enum file file)
{
	unsigned int n;

	n = chain_expect(c, want, LEAF_IP(m), file == WHOLE ? -1 : CUT);
	if (file == BARE)
		want[n++] = DECOY(m);
	return n;
}

/* The i-th sample, of a chain of chain_two(). */
#define EXPECT_TWO(i, file, ...) do {					\
	self->nr_want = expect(&self->c, self->want, &self->m, file);	\
	EXPECT_NEXT(&self->s, i, self->want, self->nr_want,		\
		    __VA_ARGS__);					\
} while (0)

/* The i-th sample, of a chain of chain_one() in m with this file. */
#define EXPECT_ONE(i, c, m, file, ...) do {				\
	if ((file) == BARE) {						\
		self->want[0] = LEAF_IP(m);				\
		self->want[1] = DECOY(m);				\
		self->nr_want = 2;					\
	} else {							\
		self->nr_want = expect(c, self->want, m, file);		\
	}								\
	EXPECT_NEXT(&self->s, i, self->want, self->nr_want,		\
		    __VA_ARGS__);					\
} while (0)

/* ---- where it is found --------------------------------------------------------- */

TEST_F(discovery, library)
{
	struct image_map maps[FILES] = {};
	unsigned int i, n = 0, round;
	struct chain c;

	SESSION_OPEN(&self->s);
	for (i = 0; i < FILES; i++) {
		ASSERT_EQ(0, image_map(&maps[i], &self->im[i], self->fd[i],
				       0));
	}
	for (round = 0; round < 3; round++) {
		for (i = 0; i < FILES; i++) {
			chain_one(&c, &maps[i]);
			chain_sample(&c);
			EXPECT_ONE(n, &c, &maps[i], i, "file %u round %u", i,
				   round);
			n++;
		}
	}
	for (i = 0; i < FILES; i++)
		image_unmap(&maps[i]);
}

/* A file that has no name any more is as good. */
TEST_F(discovery, deleted_file)
{
	const char *path = file_path(self->dir, "deleted");
	struct image_map m = {};
	struct chain c;
	int fd;

	fd = make_file(&self->im[WHOLE], path);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &self->im[WHOLE], fd, 0));
	ASSERT_EQ(0, unlink(path));
	close(fd);
	SESSION_OPEN(&self->s);
	chain_one(&c, &m);
	chain_sample(&c);
	EXPECT_ONE(0, &c, &m, WHOLE);
	image_unmap(&m);
}

/* ---- memory of the kernel ------------------------------------------------------- */

/* What this task allocates by kmalloc(), by its tracepoint. */
struct kmalloc_count {
	struct perf_event_mmap_page	*page;
	int				fd;
	unsigned int			nr;
	__u64				bytes;
};

/* PERF_SAMPLE_RAW of kmem:kmalloc, see its format file. */
struct kmalloc_sample {
	struct perf_event_header	header;
	__u32				size;
	__u64				common;
	__u64				call_site;
	__u64				ptr;
	__u64				bytes_req;
	__u64				bytes_alloc;
} __attribute__((packed));

#define KMALLOC_PAGES	64

static int kmalloc_count_open(struct kmalloc_count *k, long tracepoint)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_TRACEPOINT,
		.config		= tracepoint,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_RAW,
		.disabled	= 1,
	};

	memset(k, 0, sizeof(*k));
	k->fd = defer_event_open(&attr, 0, -1, 0);
	if (k->fd < 0)
		return -1;
	k->page = mmap(NULL, (KMALLOC_PAGES + 1) * IMAGE_PAGE,
		       PROT_READ | PROT_WRITE, MAP_SHARED, k->fd, 0);
	return k->page == MAP_FAILED ? -1 : 0;
}

/* Adds up all samples.  The buffer must not have wrapped, nor lost any. */
static int kmalloc_count_close(struct kmalloc_count *k)
{
	__u64 head = __atomic_load_n(&k->page->data_head, __ATOMIC_ACQUIRE);
	const char *data = (const char *)k->page + IMAGE_PAGE;
	int ret = 0;
	__u64 at;

	for (at = 0; at < head && head < KMALLOC_PAGES * IMAGE_PAGE; ) {
		const struct kmalloc_sample *sample = (const void *)(data + at);

		if (sample->header.type != PERF_RECORD_SAMPLE ||
		    sample->header.size < sizeof(*sample)) {
			ret = -1;
			break;
		}
		k->nr++;
		k->bytes += sample->bytes_alloc;
		at += sample->header.size;
	}
	munmap(k->page, (KMALLOC_PAGES + 1) * IMAGE_PAGE);
	close(k->fd);
	return at == head ? ret : -1;
}

/* More libraries than a chain of a few frames needs, and what they cost. */
TEST_F(discovery, hundred_libraries)
{
	static struct image_map maps[100];
	const unsigned int nr = ARRAY_SIZE(maps);
	struct kmalloc_count kmalloc;
	unsigned int i, n = 0;
	__u64 task, first;
	struct chain c;

	for (i = 0; i < nr; i++) {
		ASSERT_EQ(0, image_map(&maps[i], &self->im[WHOLE],
				       self->fd[WHOLE], 0));
	}
	SESSION_OPEN(&self->s);
	/* What the task itself takes, and this program's own mappings. */
	ASSERT_EQ(0, kmalloc_count_open(&kmalloc,
					DEFER_TRACEPOINT("kmem/kmalloc")));
	ASSERT_EQ(0, ioctl(kmalloc.fd, PERF_EVENT_IOC_ENABLE, 0));
	syscall(NR_SAMPLE_CALL, 0);
	ASSERT_EQ(0, ioctl(kmalloc.fd, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, kmalloc_count_close(&kmalloc));
	task = kmalloc.bytes;
	EXPECT_LT(0, task);
	EXPECT_GE(TASK_MEMORY_MAX, task);
	for (n = 1; n < 4; n++) {
		chain_begin(&c, &maps[0]);
		for (i = 0; i < nr; i++)
			chain_add(&c, &maps[i], i % 2 ? code_sp : code_fp);
		chain_add(&c, &maps[nr / 2], code_leaf);
		ASSERT_EQ(0, kmalloc_count_open(&kmalloc,
						DEFER_TRACEPOINT("kmem/kmalloc")));
		ASSERT_EQ(0, ioctl(kmalloc.fd, PERF_EVENT_IOC_ENABLE, 0));
		chain_sample(&c);
		ASSERT_EQ(0, ioctl(kmalloc.fd, PERF_EVENT_IOC_DISABLE, 0));
		ASSERT_EQ(0, kmalloc_count_close(&kmalloc));
		self->nr_want = chain_expect(&c, self->want,
					     LEAF_IP(&maps[nr / 2]), -1);
		EXPECT_NEXT(&self->s, n, self->want, self->nr_want);
		if (n == 1) {
			first = kmalloc.bytes;
			EXPECT_LE(nr, kmalloc.nr);
			EXPECT_GE(nr * LIBRARY_MEMORY_MAX + SHARED_MEMORY_MAX, first);
			TH_LOG("memory: %llu bytes for the task, %llu bytes in %u allocations for %u libraries",
			       task, first, kmalloc.nr, nr);
			continue;
		}
		/* It is remembered; what opening the event has mapped is not. */
		EXPECT_GE(2 * LIBRARY_MEMORY_MAX, kmalloc.bytes) {
			TH_LOG("%llu bytes in %u allocations", kmalloc.bytes, kmalloc.nr);
		}
	}
	for (i = 0; i < nr; i++)
		image_unmap(&maps[i]);
}

/*
 * The headers are read where they are mapped, and from the file where they are not,
 * if it can be read like that.
 */
TEST_F(discovery, headers)
{
	static const struct {
		bool direct;
		bool unmap;
		enum file file;
	} cases[] = {
		{ false, false, WHOLE },
		{ false, true, WHOLE },
		{ true, false, WHOLE },
		{ true, true, BARE },
	};
	const char *path = file_path(self->dir, "headers");
	unsigned int i;
	struct chain c;
	int fd;

	SESSION_OPEN(&self->s);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct image_map m = {};

		/* Another file each time. */
		fd = make_file(&self->im[WHOLE], path);
		ASSERT_LE(0, fd);
		close(fd);
		fd = open(path, O_RDONLY | O_CLOEXEC | (cases[i].direct ? O_DIRECT : 0));
		if (fd < 0 && cases[i].direct && errno == EINVAL) {
			TH_LOG("no direct I/O in %s", self->dir);
			break;
		}
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, image_map(&m, &self->im[WHOLE], fd, 0));
		if (cases[i].unmap)
			ASSERT_EQ(0, munmap((void *)m.base, IMAGE_PAGE));
		chain_one(&c, &m);
		chain_sample(&c);
		EXPECT_ONE(i, &c, &m, cases[i].file, "case %u", i);
		image_unmap(&m);
		close(fd);
		ASSERT_EQ(0, unlink(path));
	}
}

/* By the C library, and again in place of another library. */
TEST_F(discovery, dlopen)
{
	static const enum file order[] = {
		WHOLE, MARKED, BARE, WHOLE, BARE, MARKED, WHOLE,
	};
	unsigned long first = 0;
	unsigned int i, same = 0;
	struct chain c;

	SESSION_OPEN(&self->s);
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		enum file file = order[i];
		struct image_map m;
		char path[64];
		void *lib, *code;

		snprintf(path, sizeof(path), "/proc/self/fd/%d",
			 self->fd[file]);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		ASSERT_NE(NULL, lib) {
			TH_LOG("%s", dlerror());
		}
		code = dlsym(lib, "code");
		ASSERT_NE(NULL, code);
		m = image_map_at(&self->im[file], (unsigned long)code -
				 self->im[file].seg[SEG_TEXT].vaddr);
		if (!first)
			first = m.base;
		same += m.base == first;
		chain_one(&c, &m);
		chain_sample(&c);
		EXPECT_ONE(i, &c, &m, file, "file %u, number %u", file, i);
		ASSERT_EQ(0, dlclose(lib));
	}
	TH_LOG("%u of %u at the same address", same, i);
	EXPECT_LT(1, same);
}

FIXTURE(program) {
	struct defer_session s;
	struct kmsg log;
	struct image im;
	struct image interp;
	char dir[64];
	char path[128];
	char interp_path[128];
	__u64 want[16];
};

FIXTURE_VARIANT(program) {
	struct sframe_opts sframe;
	enum image_kind kind;
	bool interpreter;
	unsigned int gap;
};

FIXTURE_VARIANT_ADD(program, executable_v2) {
	.sframe = { .version = SFRAME_V2 },
	.kind = IMAGE_EXEC,
};

FIXTURE_VARIANT_ADD(program, executable_v3) {
	.sframe = { .version = SFRAME_V3 },
	.kind = IMAGE_EXEC,
	.gap = 5,
};

FIXTURE_VARIANT_ADD(program, static_pie_v2) {
	.sframe = { .version = SFRAME_V2 },
	.kind = IMAGE_DYN,
	.gap = 1,
};

FIXTURE_VARIANT_ADD(program, static_pie_v3) {
	.sframe = { .version = SFRAME_V3 },
	.kind = IMAGE_DYN,
};

FIXTURE_VARIANT_ADD(program, interpreter_of_executable) {
	.sframe = { .version = SFRAME_V3 },
	.kind = IMAGE_EXEC,
	.interpreter = true,
};

FIXTURE_VARIANT_ADD(program, interpreter_of_pie) {
	.sframe = { .version = SFRAME_V2, .pcrel = true },
	.kind = IMAGE_DYN,
	.interpreter = true,
	.gap = 2,
};

#define PROGRAM_ADDR	0x7000000000UL

FIXTURE_SETUP(program)
{
	struct image_opts o = {
		.sframe = variant->sframe,
		.kind = variant->kind,
		.vaddr = variant->kind == IMAGE_EXEC ? PROGRAM_ADDR : 0,
		.gap = variant->gap,
		.program = { code_entry, code_sp, code_large, code_leaf },
		.program_nr = NR_SAMPLE_CALL,
	};
	const char *why = sframe_unsupported();
	int fd;

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, make_dir(self->dir, sizeof(self->dir)));
	snprintf(self->path, sizeof(self->path), "%s/program", self->dir);
	snprintf(self->interp_path, sizeof(self->interp_path), "%s/interpreter",
		 self->dir);
	/* The whole stack, to the first instruction's frame. */
	o.sframe.outermost[0] = code_start;
	if (variant->interpreter)
		o.interpreter = self->interp_path;
	ASSERT_EQ(0, image_build(&self->im, &o));
	fd = image_file(&self->im, self->path);
	ASSERT_LE(0, fd);
	close(fd);

	o.kind = IMAGE_DYN;
	o.vaddr = 0;
	o.interpreter = NULL;
	o.is_interpreter = true;
	o.program[2] = code_fp;
	ASSERT_EQ(0, image_build(&self->interp, &o));
	fd = image_file(&self->interp, self->interp_path);
	ASSERT_LE(0, fd);
	close(fd);
}

FIXTURE_TEARDOWN(program)
{
	char cmd[128];

	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	defer_session_close(&self->s);
	image_free(&self->im);
	image_free(&self->interp);
	if (self->dir[0]) {
		snprintf(cmd, sizeof(cmd), "rm -rf %s", self->dir);
		EXPECT_EQ(0, system(cmd));
	}
}

static void do_program(void *arg)
{
	char * const argv[] = { arg, NULL };

	execv(arg, argv);
	_exit(2);
}

/* The stack of a program's leaf, wherever it was loaded. */
static bool
is_program_stack(const struct image *im, const char *func, const __u64 *ips,
		 int nr, unsigned long base)
{
	__u64 want[] = {
		(__u64)code_leaf_ip, (__u64)chain_ret(func),
		(__u64)code_sp_ret, (__u64)code_entry_ret,
		(__u64)code_start_ret,
	};
	__u64 text;
	unsigned int i;

	if (nr < 1)
		return false;
	text = ips[0] - (code_leaf_ip - code_begin);
	if (text % IMAGE_PAGE ||
	    (base && text != base + im->seg[SEG_TEXT].vaddr - im->vaddr))
		return false;
	for (i = 0; i < ARRAY_SIZE(want); i++)
		want[i] += text - (__u64)code_begin;
	return defer_same(ips, nr, want, ARRAY_SIZE(want));
}

TEST_F(program, stack)
{
	unsigned int nr = variant->interpreter ? 2 : 1;
	struct defer_child child;
	const __u64 *ips = NULL;
	struct defer_stats st;
	int n, status = -1;

	ASSERT_EQ(0, defer_spawn(&child, do_program, self->path));
	SESSION_OPEN_PID(&self->s, child.pid, DEFER_PAGES);
	ASSERT_EQ(0, defer_go(&child));
	ASSERT_EQ(0, defer_wait(child.pid, &status, 10, NULL));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(nr, st.samples);
	if (variant->interpreter) {
		n = sample_stack(&self->s, 0, &ips);
		EXPECT_TRUE(is_program_stack(&self->interp, code_fp, ips, n,
					     0));
	}
	n = sample_stack(&self->s, nr - 1, &ips);
	EXPECT_TRUE(is_program_stack(&self->im, code_large, ips, n,
				     self->im.vaddr));
}

/* ---- mappings that change ------------------------------------------------------ */

/* A system call in the leaf, while frames of v are on the stack. */
static struct code_call
call_mmap(const struct image_map *v, const struct image *im, enum image_seg seg,
	  int fd)
{
	return (struct code_call) {
		.nr = __NR_mmap,
		.args = {
			image_seg_addr(im, v, seg), im->seg[seg].len,
			im->seg[seg].prot, MAP_PRIVATE | MAP_FIXED, fd,
			im->seg[seg].off,
		},
	};
}

static unsigned long text_len(const struct image *im)
{
	return im->seg[SEG_TEXT].len;
}

#define CALL(...)	((struct code_call) { __VA_ARGS__ })

/* Calls must have succeeded. */
#define EXPECT_CALLS(calls, n) do {					\
	unsigned int __i;						\
									\
	for (__i = 0; __i < (n); __i++)					\
		EXPECT_GT(-4096UL, calls[__i].ret);			\
} while (0)

TEST_F(discovery, munmap)
{
	const struct image *im = &self->im[WHOLE];
	struct code_call calls[] = {
		SAMPLE_CALL,
		CALL(__NR_munmap, { self->v.text, text_len(im) }),
		SAMPLE_CALL,
		call_mmap(&self->v, im, SEG_TEXT, self->fd[WHOLE]),
		SAMPLE_CALL,
		CALL(__NR_munmap, { self->v.text, text_len(im) }),
		call_mmap(&self->v, im, SEG_TEXT, self->fd[WHOLE]),
		SAMPLE_CALL,
	};

	SESSION_OPEN(&self->s);
	chain_two(&self->c, &self->m, &self->v);
	chain_run(&self->c, calls, ARRAY_SIZE(calls));
	EXPECT_CALLS(calls, ARRAY_SIZE(calls));
	EXPECT_TWO(0, WHOLE, "mapped");
	EXPECT_TWO(1, BARE, "unmapped");
	EXPECT_TWO(2, WHOLE, "mapped again");
	EXPECT_TWO(3, WHOLE, "unmapped and mapped again");
}

/* Another file over it, all of it, and back. */
TEST_F(discovery, map_fixed)
{
	static const enum file order[] = {
		MARKED, BARE, WHOLE, BARE, MARKED, WHOLE,
	};
	struct code_call calls[ARRAY_SIZE(order) * (SEG_NR + 1) + 1];
	unsigned int i, n = 0, seg;

	SESSION_OPEN(&self->s);
	chain_two(&self->c, &self->m, &self->v);
	calls[n++] = SAMPLE_CALL;
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		for (seg = 0; seg < SEG_NR; seg++) {
			calls[n++] = call_mmap(&self->v, &self->im[order[i]],
					       seg, self->fd[order[i]]);
		}
		calls[n++] = SAMPLE_CALL;
	}
	chain_run(&self->c, calls, n);
	EXPECT_CALLS(calls, n);
	EXPECT_TWO(0, WHOLE, "at first");
	for (i = 0; i < ARRAY_SIZE(order); i++)
		EXPECT_TWO(i + 1, order[i], "number %u", i);
}

/* The same code in memory that no file backs. */
TEST_F(discovery, map_fixed_anonymous)
{
	const struct image *im = &self->im[WHOLE];
	struct code_call calls[] = {
		SAMPLE_CALL,
		CALL(__NR_mmap, {
			self->v.text, text_len(im),
			PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0,
		}),
		CALL(__NR_pread64, {
			self->fd[WHOLE], self->v.text, text_len(im),
			im->seg[SEG_TEXT].off,
		}),
		SAMPLE_CALL,
		call_mmap(&self->v, im, SEG_TEXT, self->fd[WHOLE]),
		SAMPLE_CALL,
	};

	SESSION_OPEN(&self->s);
	chain_two(&self->c, &self->m, &self->v);
	chain_run(&self->c, calls, ARRAY_SIZE(calls));
	EXPECT_CALLS(calls, ARRAY_SIZE(calls));
	EXPECT_TWO(0, WHOLE, "file");
	EXPECT_TWO(1, BARE, "anonymous");
	EXPECT_TWO(2, WHOLE, "file again");
}

TEST_F(discovery, mprotect)
{
	const struct image *im = &self->im[WHOLE];
	unsigned long second = self->v.text + IMAGE_PAGE;
	const int rx = PROT_READ | PROT_EXEC;
	struct code_call calls[] = {
		SAMPLE_CALL,
		/* Two mappings where there was one, of which both execute. */
		CALL(__NR_mprotect, { second, IMAGE_PAGE, rx | PROT_WRITE }),
		SAMPLE_CALL,
		CALL(__NR_mprotect, { second, IMAGE_PAGE, rx }),
		SAMPLE_CALL,
		/* Code that cannot execute. */
		CALL(__NR_mprotect, { self->v.text, text_len(im), PROT_NONE }),
		SAMPLE_CALL,
		CALL(__NR_mprotect, { self->v.text, text_len(im), rx }),
		SAMPLE_CALL,
	};
	const __u64 *ips = NULL;
	int nr;

	/* Both pages of the text have frames on the stack. */
	ASSERT_LE(IMAGE_PAGE, code_far_ret - code_begin);
	ASSERT_GT(IMAGE_PAGE, code_mark_ret - code_begin);
	SESSION_OPEN(&self->s);
	chain_two(&self->c, &self->m, &self->v);
	chain_run(&self->c, calls, ARRAY_SIZE(calls));
	EXPECT_CALLS(calls, ARRAY_SIZE(calls));
	EXPECT_TWO(0, WHOLE, "at first");
	EXPECT_TWO(1, WHOLE, "split");
	EXPECT_TWO(2, WHOLE, "joined");
	/* A matter of taste: nothing runs there, but the frames are real. */
	ASSERT_EQ(0, defer_wait_samples(&self->s, 4, 5));
	nr = sample_stack(&self->s, 3, &ips);
	EXPECT_TRUE(chain_legal(&self->c, ips, nr, LEAF_IP(&self->m),
				DECOY(&self->m)));
	EXPECT_TWO(4, WHOLE, "restored");
}

/* Text moves away from under the frames, and back. */
TEST_F(discovery, mremap)
{
	const struct image *im = &self->im[WHOLE];
	unsigned long other;
	void *p;

	p = mmap(NULL, text_len(im), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	other = (unsigned long)p;

	struct code_call calls[] = {
		SAMPLE_CALL,
		CALL(__NR_mremap, {
			self->v.text, text_len(im), text_len(im),
			MREMAP_MAYMOVE | MREMAP_FIXED, other,
		}),
		SAMPLE_CALL,
		CALL(__NR_mremap, {
			other, text_len(im), text_len(im),
			MREMAP_MAYMOVE | MREMAP_FIXED, self->v.text,
		}),
		SAMPLE_CALL,
	};

	SESSION_OPEN(&self->s);
	chain_two(&self->c, &self->m, &self->v);
	chain_run(&self->c, calls, ARRAY_SIZE(calls));
	EXPECT_CALLS(calls, ARRAY_SIZE(calls));
	EXPECT_TWO(0, WHOLE, "at first");
	EXPECT_TWO(1, BARE, "moved away");
	EXPECT_TWO(2, WHOLE, "moved back");
}

/* A whole library moves; its place is taken by another one. */
TEST_F(discovery, mremap_library)
{
	const struct image *im = &self->im[WHOLE];
	struct image_map to, from = self->v;
	unsigned int seg;
	struct chain c;
	void *p;

	SESSION_OPEN(&self->s);
	chain_one(&c, &from);
	chain_sample(&c);
	EXPECT_ONE(0, &c, &from, WHOLE, "before");

	p = mmap(NULL, im->span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	to = image_map_at(im, (unsigned long)p);
	for (seg = 0; seg < SEG_NR; seg++) {
		size_t len = image_round(im->seg[seg].len);

		ASSERT_NE(MAP_FAILED,
			  mremap((void *)image_seg_addr(im, &from, seg), len,
				 len, MREMAP_MAYMOVE | MREMAP_FIXED,
				 (void *)image_seg_addr(im, &to, seg)));
	}
	chain_one(&c, &to);
	chain_sample(&c);
	EXPECT_ONE(1, &c, &to, WHOLE, "moved");

	ASSERT_EQ(0, image_map(&from, &self->im[MARKED], self->fd[MARKED],
			       from.base));
	chain_one(&c, &from);
	chain_sample(&c);
	EXPECT_ONE(2, &c, &from, MARKED, "another one");
	chain_one(&c, &to);
	chain_sample(&c);
	EXPECT_ONE(3, &c, &to, WHOLE, "moved, again");
	image_unmap(&to);
}

/* ---- other tasks ----------------------------------------------------------------- */

static struct {
	struct chain		*c;
	struct image_map	v;
	const struct image	*im;
	int			fd;
	int			program;
} child_arg;

/* Unwound before and after it maps another file. */
static void do_fork(void *arg)
{
	struct image_map v = child_arg.v;

	chain_sample(child_arg.c);
	if (image_map(&v, child_arg.im, child_arg.fd, v.base))
		_exit(2);
	chain_sample(child_arg.c);
}

TEST_F(discovery, fork)
{
	struct defer_child child;
	int status = -1;

	chain_two(&self->c, &self->m, &self->v);
	/* Found here first. */
	SESSION_OPEN(&self->s);
	chain_sample(&self->c);
	EXPECT_TWO(0, WHOLE, "parent");
	defer_session_close(&self->s);

	child_arg.c = &self->c;
	child_arg.v = self->v;
	child_arg.im = &self->im[MARKED];
	child_arg.fd = self->fd[MARKED];
	ASSERT_EQ(0, defer_spawn(&child, do_fork, NULL));
	SESSION_OPEN_PID(&self->s, child.pid, DEFER_PAGES);
	ASSERT_EQ(0, defer_go(&child));
	ASSERT_EQ(0, defer_wait(child.pid, &status, 10, NULL));
	ASSERT_EQ(0, status);
	EXPECT_TWO(0, WHOLE, "child");
	EXPECT_TWO(1, MARKED, "child with another file");
	defer_session_close(&self->s);

	SESSION_OPEN(&self->s);
	chain_sample(&self->c);
	EXPECT_TWO(0, WHOLE, "parent, later");
}

/* The child runs in the parent's memory, and exits before the parent goes on. */
TEST_F(discovery, vfork)
{
	struct perf_event_attr attr;
	unsigned int i, round, children = 0;
	struct defer_stats st;

	attr = sample_attr(DEFER_TRACEPOINT("syscalls/sys_enter_getpgid"));
	attr.inherit = 1;
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, 0, DEFER_ALL_CPUS,
					DEFER_PAGES));
	ASSERT_EQ(0, defer_enable(&self->s));
	chain_two(&self->c, &self->m, &self->v);
	for (round = 0; round < 3; round++) {
		int status;
		pid_t pid;

		pid = vfork();
		if (!pid) {
			chain_sample(&self->c);
			_exit(0);
		}
		ASSERT_LT(0, pid);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		chain_sample(&self->c);
	}
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(6, st.samples);
	self->nr_want = expect(&self->c, self->want, &self->m, WHOLE);
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;
		int nr = sample_stack(&self->s, i, &ips);

		EXPECT_TRUE(defer_same(ips, nr, self->want, self->nr_want));
		children += defer_nth(&self->s.log, PERF_RECORD_SAMPLE,
				      i)->pid != (__u32)getpid();
	}
	EXPECT_EQ(3, children);
}

static void do_exec(void *arg)
{
	char * const argv[] = { "program", NULL };
	struct image_map v;
	struct chain c;
	char path[64];

	if (image_map(&v, child_arg.im, child_arg.fd, PROGRAM_ADDR))
		_exit(2);
	chain_one(&c, &v);
	chain_sample(&c);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", child_arg.program);
	execv(path, argv);
	_exit(3);
}

/* A library, then a program with another table at the same address. */
TEST_F(discovery, exec)
{
	struct image_opts o = {
		.sframe = variant->sframe,
		.kind = IMAGE_EXEC,
		.vaddr = PROGRAM_ADDR,
		.program = {
			code_entry, code_sp, code_mark, code_far, code_leaf,
		},
		.program_nr = NR_SAMPLE_CALL,
	};
	unsigned int i;

	for (i = 0; i < FILES; i++) {
		struct defer_child child;
		struct image_map m;
		struct image im;
		struct chain c;
		int status = -1;

		o.no_sframe = i == BARE;
		o.sframe.outermost[0] = i == MARKED ? code_mark : code_entry;
		ASSERT_EQ(0, image_build(&im, &o));
		m = image_map_at(&im, PROGRAM_ADDR);
		chain_one(&c, &m);
		child_arg.program = make_file(&im, variant->path ?
					      file_path(self->dir, "program") :
					      NULL);
		ASSERT_LE(0, child_arg.program);
		child_arg.im = &self->im[WHOLE];
		child_arg.fd = self->fd[WHOLE];
		ASSERT_EQ(0, defer_spawn(&child, do_exec, NULL));
		SESSION_OPEN_PID(&self->s, child.pid, DEFER_PAGES);
		ASSERT_EQ(0, defer_go(&child));
		ASSERT_EQ(0, defer_wait(child.pid, &status, 10, NULL));
		ASSERT_EQ(0, status);
		EXPECT_ONE(0, &c, &m, WHOLE, "before");
		EXPECT_ONE(1, &c, &m, i, "program %u", i);
		defer_session_close(&self->s);
		close(child_arg.program);
		image_free(&im);
	}
}

struct worker {
	pthread_t	thread;
	struct chain	c;
	pid_t		tid;
	int		stop;
};

static void *sampled(void *arg)
{
	struct worker *w = arg;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		chain_sample(&w->c);
		usleep(20);
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

/*
 * A thread is unwound while another replaces the files under its frames, the
 * code remaining the same, and maps and unmaps other libraries, and forks.
 */
TEST_F_TIMEOUT(discovery, threads, 60)
{
	unsigned int i, rounds = 0, lens[8] = {};
	struct worker w = {};
	struct defer_stats st;
	__u64 end;

	chain_two(&w.c, &self->m, &self->v);
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, sampled, &w));
	ASSERT_LT(0, worker_tid(&w));
	SESSION_OPEN_PID(&self->s, w.tid, 2048);
	end = defer_now() + 4 * DEFER_NSEC_PER_SEC;
	while (defer_now() < end) {
		enum file file = rounds % FILES;
		struct image_map other = {};
		unsigned int seg;

		/* Each of these is atomic for whoever executes there. */
		for (seg = 0; seg < SEG_NR; seg++) {
			const struct image *im = &self->im[file];

			ASSERT_NE(MAP_FAILED,
				  mmap((void *)image_seg_addr(im, &self->v,
							      seg),
				       im->seg[seg].len, im->seg[seg].prot,
				       MAP_PRIVATE | MAP_FIXED, self->fd[file],
				       im->seg[seg].off));
		}
		ASSERT_EQ(0, image_map(&other, &self->im[file], self->fd[file],
				       0));
		ASSERT_EQ(0, mprotect((void *)self->v.text, IMAGE_PAGE,
				      PROT_READ | PROT_WRITE | PROT_EXEC));
		image_unmap(&other);
		if (!(rounds % 64)) {
			int status;
			pid_t pid;

			pid = fork();
			if (!pid)
				_exit(0);
			ASSERT_LT(0, pid);
			ASSERT_EQ(pid, waitpid(pid, &status, 0));
		}
		usleep(rounds % 7 * 100);
		rounds++;
		defer_drain(&self->s);
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
		ASSERT_TRUE(chain_legal(&w.c, ips, nr, LEAF_IP(&self->m),
					DECOY(&self->m)));
		lens[nr]++;
	}
	TH_LOG("%u rounds, %u samples: %u cut, %u bare, %u whole", rounds,
	       st.samples, lens[3], lens[4], lens[5]);
	EXPECT_LT(0, lens[5]);
	EXPECT_LT(0, lens[3]);
	EXPECT_LT(0, lens[4]);
}

/* ---- files that lie ---------------------------------------------------------------- */

static Elf64_Phdr *text_phdr(struct image *im)
{
	unsigned int i;

	for (i = 0; i < im->ehdr->e_phnum; i++) {
		if (im->phdr[i].p_flags & PF_X && im->phdr[i].p_type == PT_LOAD)
			return &im->phdr[i];
	}
	return NULL;
}

static struct sframe_header *section(struct image *im)
{
	return (void *)im->sframe;
}

static size_t fde_size(struct image *im)
{
	return section(im)->version >= SFRAME_V3 ?
	       sizeof(struct sframe_fde_v3) : sizeof(struct sframe_fde_v2);
}

static unsigned char *fde(struct image *im, unsigned int i)
{
	return im->sframe + sizeof(struct sframe_header) + i * fde_size(im);
}

static unsigned char *fres(struct image *im)
{
	return fde(im, section(im)->num_fdes);
}

/* Of the field after the start, in both versions. */
static __u32 *fde_field(struct image *im, unsigned int i, unsigned int field)
{
	return (__u32 *)(fde(im, i) + (section(im)->version >= SFRAME_V3 ?
				       sizeof(__s64) : sizeof(__s32))) + field;
}

#define LIE(name)	static void lie_##name(struct image *im)

LIE(magic)		{ im->ehdr->e_ident[EI_MAG0] = 0; }
LIE(class)		{ im->ehdr->e_ident[EI_CLASS] = ELFCLASS32; }
LIE(data)		{ im->ehdr->e_ident[EI_DATA] = ELFDATA2MSB; }
LIE(machine)		{ im->ehdr->e_machine = EM_AARCH64; }
LIE(phoff_beyond)	{ im->ehdr->e_phoff = im->size + 64; }
LIE(phoff_at_end)	{ im->ehdr->e_phoff = im->size - 8; }
LIE(phoff_huge)		{ im->ehdr->e_phoff = -56ULL; }
LIE(phoff_negative)	{ im->ehdr->e_phoff = 1ULL << 63; }
LIE(phentsize_0)	{ im->ehdr->e_phentsize = 0; }
LIE(phentsize_1)	{ im->ehdr->e_phentsize = 1; }
LIE(phentsize_huge)	{ im->ehdr->e_phentsize = 65535; }
LIE(phnum_0)		{ im->ehdr->e_phnum = 0; }
LIE(phnum_max)		{ im->ehdr->e_phnum = 65535; }
LIE(no_elf)		{ memset(im->bytes, 0, IMAGE_PAGE); }
LIE(headers_0xff)	{ memset(im->bytes + 64, 0xff, IMAGE_PAGE - 64); }
LIE(no_load)		{ text_phdr(im)->p_type = PT_NULL; }
LIE(load_vaddr)		{ text_phdr(im)->p_vaddr = -IMAGE_PAGE; }
LIE(load_offset)	{ text_phdr(im)->p_offset = -IMAGE_PAGE; }
LIE(load_sizes)
{
	text_phdr(im)->p_filesz = -1ULL;
	text_phdr(im)->p_memsz = -1ULL;
}

LIE(sframe_size_0)
{
	im->sframe_phdr->p_filesz = 0;
	im->sframe_phdr->p_memsz = 0;
}

LIE(sframe_size_1)
{
	im->sframe_phdr->p_filesz = 1;
	im->sframe_phdr->p_memsz = 1;
}

LIE(sframe_size_max)
{
	im->sframe_phdr->p_filesz = -1ULL;
	im->sframe_phdr->p_memsz = -1ULL;
}

static void move_section(struct image *im, __u64 vaddr, __u64 off)
{
	im->sframe_phdr->p_vaddr = vaddr;
	im->sframe_phdr->p_paddr = vaddr;
	im->sframe_phdr->p_offset = off;
}

LIE(sframe_outside)	{ move_section(im, 1ULL << 30, 1ULL << 30); }
LIE(sframe_kernel)	{ move_section(im, -4096ULL, -4096ULL); }
LIE(sframe_wraps)	{ move_section(im, -8ULL, -8ULL); }
LIE(sframe_is_text)
{
	move_section(im, im->seg[SEG_TEXT].vaddr, im->seg[SEG_TEXT].off);
}

LIE(sframe_at_the_end)
{
	__u64 vaddr = im->seg[SEG_DYNAMIC].vaddr + IMAGE_PAGE - 16;

	move_section(im, vaddr, im->size - 16);
}

LIE(sframe_phdr_twice)
{
	Elf64_Phdr *second = &im->phdr[im->ehdr->e_phnum++];

	*second = *im->sframe_phdr;
	second->p_vaddr = 1ULL << 40;
}

LIE(section_version_1)	{ section(im)->version = SFRAME_V1; }
LIE(section_version_4)	{ section(im)->version = SFRAME_V3 + 1; }
LIE(section_unsorted)	{ section(im)->flags &= ~SFRAME_F_SORTED; }
LIE(section_magic)	{ section(im)->magic = 0; }
LIE(section_abi)	{ section(im)->abi = 2; }
LIE(section_zero)	{ memset(im->sframe, 0, SFRAME_MAX_SIZE); }
LIE(section_0xff)	{ memset(im->sframe, 0xff, SFRAME_MAX_SIZE); }
LIE(section_no_fdes)	{ section(im)->num_fdes = 0; }
LIE(section_fdes_max)	{ section(im)->num_fdes = -1; }
LIE(section_fdeoff)	{ section(im)->fdeoff = -28; }
LIE(section_freoff)	{ section(im)->freoff = -1; }
LIE(section_fre_len)	{ section(im)->fre_len = -1; }
LIE(section_auxhdr)	{ section(im)->auxhdr_len = 255; }
LIE(section_rules)
{
	memset(fres(im), 0xff, section(im)->fre_len);
}

LIE(section_fdes_0xff)
{
	memset(fde(im, 0), 0xff, section(im)->num_fdes * fde_size(im));
}

/* Fields of all functions, of which nothing else is wrong. */
static void set_fdes(struct image *im, unsigned int field, __u32 val)
{
	unsigned int i;

	for (i = 0; i < section(im)->num_fdes; i++)
		*fde_field(im, i, field) = val;
}

LIE(fde_size_0)		{ set_fdes(im, 0, 0); }
LIE(fde_fre_off)	{ set_fdes(im, 1, -1); }
LIE(fde_fre_off_end)	{ set_fdes(im, 1, section(im)->fre_len); }
LIE(fde_fre_off_last)	{ set_fdes(im, 1, section(im)->fre_len - 1); }
/* All overlap all that follow. */
LIE(fde_size_max)	{ set_fdes(im, 0, -1); }

LIE(fde_same_starts)
{
	unsigned int i;

	for (i = 1; i < section(im)->num_fdes; i++)
		memcpy(fde(im, i), fde(im, 0), fde_size(im));
}

LIE(fde_reversed)
{
	unsigned int i, n = section(im)->num_fdes;
	unsigned char tmp[sizeof(struct sframe_fde_v2)];

	for (i = 0; i < n / 2; i++) {
		unsigned char *a = fde(im, i), *b = fde(im, n - 1 - i);

		memcpy(tmp, a, fde_size(im));
		memcpy(a, b, fde_size(im));
		memcpy(b, tmp, fde_size(im));
		if (section(im)->version >= SFRAME_V3) {
			((struct sframe_fde_v3 *)a)->start += b - a;
			((struct sframe_fde_v3 *)b)->start -= b - a;
		}
	}
}

static const struct lie {
	const char	*what;
	void		(*apply)(struct image *im);
	/* The table cannot be used at all; else any legal stack will do. */
	bool		fatal;
} lies[] = {
/* What becomes of the stack. */
#define FATAL(name)	{ #name, lie_##name, true }
#define ANY(name)	{ #name, lie_##name, false }
	FATAL(magic),
	FATAL(class),
	FATAL(data),
	ANY(machine),
	FATAL(phoff_beyond),
	FATAL(phoff_at_end),
	FATAL(phoff_huge),
	FATAL(phoff_negative),
	FATAL(phentsize_0),
	FATAL(phentsize_1),
	FATAL(phentsize_huge),
	FATAL(phnum_0),
	ANY(phnum_max),
	FATAL(no_elf),
	FATAL(headers_0xff),
	ANY(no_load),
	ANY(load_vaddr),
	ANY(load_offset),
	ANY(load_sizes),
	FATAL(sframe_size_0),
	FATAL(sframe_size_1),
	ANY(sframe_size_max),
	FATAL(sframe_outside),
	FATAL(sframe_kernel),
	FATAL(sframe_wraps),
	FATAL(sframe_is_text),
	FATAL(sframe_at_the_end),
	ANY(sframe_phdr_twice),
	FATAL(section_version_1),
	FATAL(section_version_4),
	FATAL(section_unsorted),
	FATAL(section_magic),
	FATAL(section_abi),
	FATAL(section_zero),
	FATAL(section_0xff),
	FATAL(section_no_fdes),
	FATAL(section_fdes_max),
	FATAL(section_fdeoff),
	FATAL(section_freoff),
	FATAL(section_fre_len),
	FATAL(section_auxhdr),
	FATAL(section_rules),
	FATAL(section_fdes_0xff),
	FATAL(fde_size_0),
	FATAL(fde_fre_off),
	FATAL(fde_fre_off_end),
	FATAL(fde_fre_off_last),
	ANY(fde_size_max),
	FATAL(fde_same_starts),
	ANY(fde_reversed),
#undef FATAL
#undef ANY
};

TEST_F_TIMEOUT(discovery, lies, 60)
{
	unsigned int i;

	SESSION_OPEN(&self->s);
	for (i = 0; i < ARRAY_SIZE(lies); i++) {
		const struct image_opts o = { .sframe = variant->sframe };
		const __u64 *ips = NULL;
		struct image_map m = {};
		__u64 want[2];
		struct image im;
		struct chain c;
		int fd, nr;

		ASSERT_EQ(0, image_build(&im, &o));
		lies[i].apply(&im);
		fd = make_file(&im, variant->path ?
			       file_path(self->dir, lies[i].what) : NULL);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, image_map(&m, &im, fd, 0));
		chain_one(&c, &m);
		chain_sample(&c);
		ASSERT_EQ(0, defer_wait_samples(&self->s, i + 1, 5));
		nr = sample_stack(&self->s, i, &ips);
		want[0] = LEAF_IP(&m);
		want[1] = DECOY(&m);
		if (lies[i].fatal) {
			EXPECT_TRUE(defer_same(ips, nr, want, 2)) {
				TH_LOG("%s", lies[i].what);
			}
		} else {
			EXPECT_TRUE(chain_legal(&c, ips, nr, want[0],
						want[1])) {
				TH_LOG("%s", lies[i].what);
			}
		}
		image_unmap(&m);
		close(fd);
		image_free(&im);
	}
	/* And a good one works all the same. */
	chain_one(&self->c, &self->m);
	chain_sample(&self->c);
	EXPECT_ONE(i, &self->c, &self->m, WHOLE, "good");
}

/* Random bytes in headers and section: any stack, but a record, and no harm. */
TEST_F_TIMEOUT(discovery, random_bytes, 60)
{
	const unsigned int rounds = 300;
	struct defer_stats st;
	unsigned int i, j;

	srandom(2);
	SESSION_OPEN(&self->s);
	for (i = 0; i < rounds; i++) {
		const struct image_opts o = { .sframe = variant->sframe };
		unsigned int nr = 1 + random() % 30;
		struct image_map m = {};
		struct image im;
		struct chain c;
		int fd;

		ASSERT_EQ(0, image_build(&im, &o));
		for (j = 0; j < nr; j++) {
			if (i % 2)
				im.bytes[random() % 512] = random();
			else
				im.sframe[random() % im.sframe_len] = random();
		}
		fd = make_file(&im, variant->path ?
			       file_path(self->dir, "random") : NULL);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, image_map(&m, &im, fd, 0));
		chain_one(&c, &m);
		chain_sample(&c);
		image_unmap(&m);
		close(fd);
		unlink(file_path(self->dir, "random"));
		image_free(&im);
		defer_drain(&self->s);
	}
	ASSERT_EQ(0, defer_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.missing);
	ASSERT_EQ(rounds, st.samples);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;

		EXPECT_LE(1, sample_stack(&self->s, i, &ips));
	}
}

/* The section is not in the file any more: touching it would be SIGBUS. */
TEST_F(discovery, truncated)
{
	const struct image_opts o = { .sframe = variant->sframe };
	struct image im;
	unsigned int i;

	ASSERT_EQ(0, image_build(&im, &o));
	for (i = 0; i < 2; i++) {
		const __u64 *ips = NULL;
		struct image_map m = {};
		struct chain c;
		int fd, nr;

		fd = image_file(&im, variant->path ?
				file_path(self->dir, "truncated") : NULL);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, image_map(&m, &im, fd, 0));
		chain_one(&c, &m);
		SESSION_OPEN(&self->s);
		if (i) {
			chain_sample(&c);
			EXPECT_ONE(0, &c, &m, WHOLE, "whole");
		}
		ASSERT_EQ(0, ftruncate(fd, im.seg[SEG_SFRAME].off));
		chain_sample(&c);
		if (i) {
			/* What is remembered may be used. */
			ASSERT_EQ(0, defer_wait_samples(&self->s, 2, 5));
			nr = sample_stack(&self->s, 1, &ips);
			EXPECT_TRUE(chain_legal(&c, ips, nr, LEAF_IP(&m),
						DECOY(&m)));
		} else {
			EXPECT_ONE(0, &c, &m, BARE, "truncated");
		}
		defer_session_close(&self->s);
		image_unmap(&m);
		close(fd);
	}
	image_free(&im);
}

/*
 * That it cannot be read now says nothing of later: the page with the section's
 * header comes from a userfaultfd monitor, which the walk does not wait for.
 */
TEST_F(discovery, unread_for_now)
{
	const struct image_opts o = { .sframe = variant->sframe };
	const unsigned long page = sysconf(_SC_PAGESIZE);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range.len = page,
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_copy copy = { .len = page };
	struct image_map m = {};
	struct image im;
	struct chain c;
	int fd, uffd;

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd < 0)
		SKIP(return, "no userfaultfd: %s", strerror(errno));
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_API, &api));

	ASSERT_EQ(0, image_build(&im, &o));
	fd = image_file(&im, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       im.seg[SEG_SFRAME].off, page));
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	reg.range.start = image_seg_addr(&im, &m, SEG_SFRAME);
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_REGISTER, &reg));

	chain_one(&c, &m);
	SESSION_OPEN(&self->s);
	chain_sample(&c);
	EXPECT_ONE(0, &c, &m, BARE, "missing");

	copy.dst = reg.range.start;
	copy.src = (__u64)(im.bytes + im.seg[SEG_SFRAME].off);
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_COPY, &copy));
	sleep(UNREAD_SECONDS);
	chain_sample(&c);
	EXPECT_ONE(1, &c, &m, WHOLE, "there");

	image_unmap(&m);
	image_free(&im);
	close(fd);
	close(uffd);
}

/*
 * Nor does it wait for a FUSE server, for pages that the program has never touched.
 * Those that it has touched are read.
 */
TEST_F_TIMEOUT(discovery, fuse, 60)
{
	const struct image_opts o = { .sframe = variant->sframe };
	static const enum image_seg untouched[] = { SEG_HEADERS, SEG_SFRAME };
	struct fuse_server server = {};
	unsigned int i, first, page, asked;
	struct image_map m = {};
	const char *why;
	struct image im;
	struct chain c;
	__u64 start;
	int fd;

	ASSERT_EQ(0, image_build(&im, &o));
	ASSERT_GE(FUSE_SERVER_PAGES * FUSE_SERVER_PAGE, im.size);
	snprintf(server.dir, sizeof(server.dir), "%s/fuse", self->dir);
	ASSERT_EQ(0, mkdir(server.dir, 0700));
	fd = fuse_server_start(&server, im.bytes, im.size, &why);
	if (fd < 0 && why)
		SKIP(return, "%s", why);
	ASSERT_LE(0, fd) {
		TH_LOG("%s", strerror(errno));
		fuse_server_stop(&server);
	}
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	chain_one(&c, &m);
	/* The text. */
	chain_sample(&c);

	for (i = 0; i < ARRAY_SIZE(untouched); i++) {
		first = im.seg[untouched[i]].off / FUSE_SERVER_PAGE;
		for (page = 0; page * FUSE_SERVER_PAGE < im.seg[untouched[i]].len; page++)
			server.shared->withhold[first + page] = true;
	}
	SESSION_OPEN(&self->s);
	start = defer_now();
	chain_sample(&c);
	TH_LOG("%llu ms", (defer_now() - start) / 1000000);
	asked = 0;
	for (page = 0; page < FUSE_SERVER_PAGES; page++) {
		if (server.shared->withhold[page])
			asked += server.shared->asked[page];
		server.shared->withhold[page] = false;
	}
	EXPECT_EQ(0, asked);
	EXPECT_ONE(0, &c, &m, BARE, "untouched");

	for (i = 0; i < ARRAY_SIZE(untouched); i++) {
		for (page = 0; page * FUSE_SERVER_PAGE < im.seg[untouched[i]].len; page++)
			(void)*(volatile char *)(image_seg_addr(&im, &m, untouched[i]) +
						 page * FUSE_SERVER_PAGE);
	}
	sleep(UNREAD_SECONDS);
	chain_sample(&c);
	EXPECT_ONE(1, &c, &m, WHOLE, "touched");

	image_unmap(&m);
	image_free(&im);
	close(fd);
	fuse_server_stop(&server);
}

/* Say all that sections.c has to say.  Returns false if it cannot be made to. */
static bool say_all(bool on)
{
	char what[64];
	int fd, ret;

	snprintf(what, sizeof(what), "file kernel/unwind/sections.c %cp", on ? '+' : '-');
	fd = open("/proc/dynamic_debug/control", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ret = write(fd, what, strlen(what));
	close(fd);
	return ret > 0;
}

/* How many lines have both. */
static int kmsg_count(struct kmsg *k, const char *a, const char *b)
{
	char buf[2048];
	ssize_t len;
	int n = 0;

	for (;;) {
		len = read(k->fd, buf, sizeof(buf) - 1);
		if (len < 0 && errno == EPIPE)
			continue;
		if (len < 0)
			return errno == EAGAIN ? n : -1;
		buf[len] = '\0';
		n += strstr(buf, a) && strstr(buf, b);
	}
}

/*
 * A section is not used any more when one of its functions has turned out to be corrupt,
 * which is said once.  Another mapping of it is another matter.
 */
TEST_F(discovery, corrupt)
{
	const struct image_opts o = { .sframe = variant->sframe };
	struct chain good, bad, other_good;
	struct image_map m = {}, other = {};
	struct kmsg log;
	struct image im;
	int fd, lines;
	bool said;

	ASSERT_EQ(0, image_build(&im, &o));
	sframe_corrupt(im.sframe, code_mark);
	fd = make_file(&im, variant->path ? file_path(self->dir, "corrupt") : NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	ASSERT_EQ(0, image_map(&other, &im, fd, 0));
	ASSERT_EQ(0, kmsg_open(&log));
	said = say_all(true);

	chain_begin(&good, &m);
	chain_add(&good, &m, code_sp);
	chain_add(&good, &m, code_leaf);
	chain_one(&bad, &m);
	chain_begin(&other_good, &other);
	chain_add(&other_good, &other, code_sp);
	chain_add(&other_good, &other, code_leaf);

	SESSION_OPEN(&self->s);
	chain_sample(&good);
	EXPECT_ONE(0, &good, &m, WHOLE, "before");
	chain_sample(&bad);
	self->nr_want = expect(&bad, self->want, &m, BARE);
	EXPECT_NEXT(&self->s, 1, self->want, self->nr_want, "corrupt");
	chain_sample(&good);
	EXPECT_ONE(2, &good, &m, BARE, "dropped");
	chain_sample(&bad);
	EXPECT_ONE(3, &bad, &m, BARE, "dropped");
	chain_sample(&other_good);
	EXPECT_ONE(4, &other_good, &other, WHOLE, "another mapping");

	/* Debug messages may be compiled in without a switch, or not at all. */
	lines = kmsg_count(&log, "dropped", variant->path ? "corrupt" : "image");
	EXPECT_LE(said, lines);
	EXPECT_GE(1, lines);
	TH_LOG("said %d times", lines);
	if (said)
		say_all(false);
	else
		TH_LOG("no dynamic debug");

	kmsg_close(&log);
	image_unmap(&m);
	image_unmap(&other);
	image_free(&im);
	close(fd);
}

#else /* !__x86_64__ */

TEST(discovery)
{
	SKIP(return, "no code with tables for this architecture");
}

#endif

TEST_HARNESS_MAIN
