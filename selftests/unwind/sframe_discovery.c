// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that the kernel finds in mapped files: where it finds them, and what
 * it remembers of them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/child.h"
#include "../perf_events/lib/event.h"
#include "sframe_discovery.h"

#ifdef __x86_64__

/*
 * Bytes of kernel memory: what a task remembers of its walks, what its mm does of a
 * library with a section, and what threads share, when it has grown, as allocated.
 */
#define TASK_MEMORY_MAX		(64ULL << 10)
#define LIBRARY_MEMORY_MAX	1024ULL
#define SHARED_MEMORY_MAX	(64ULL << 10)

/* Where it is found */

TEST_F(discovery, library)
{
	struct image_map maps[KINDS] = {};
	unsigned int i, n = 0, round;
	struct chain c;

	SESSION_OPEN(&self->s);
	for (i = 0; i < KINDS; i++) {
		ASSERT_EQ(0, image_map(&maps[i], &self->im[i], self->fd[i],
				       0));
	}
	for (round = 0; round < 3; round++) {
		for (i = 0; i < KINDS; i++) {
			chain_one(&c, &maps[i]);
			chain_sample(&c);
			EXPECT_ONE(n, &c, &maps[i], i, "file %u round %u", i,
				   round);
			n++;
		}
	}
	for (i = 0; i < KINDS; i++)
		image_unmap(&maps[i]);
}

/* The section is also found in a file that was deleted. */
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

/* Memory of the kernel */

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
	k->fd = event_open(&attr, 0, -1, 0);
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

/* A chain through a hundred libraries, and the kernel memory that they take. */
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
					TRACEPOINT_ID("kmem/kmalloc")));
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
						TRACEPOINT_ID("kmem/kmalloc")));
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
			EXPECT_GE(kernel_memory_factor() *
				  (nr * LIBRARY_MEMORY_MAX + SHARED_MEMORY_MAX), first);
			TH_LOG("memory: %llu bytes for the task, %llu bytes in %u allocations for %u libraries",
			       task, first, kmalloc.nr, nr);
			continue;
		}
		/*
		 * The libraries are remembered. Mappings that opening the event made
		 * are not.
		 */
		EXPECT_GE(2 * LIBRARY_MEMORY_MAX, kmalloc.bytes) {
			TH_LOG("%llu bytes in %u allocations", kmalloc.bytes, kmalloc.nr);
		}
	}
	for (i = 0; i < nr; i++)
		image_unmap(&maps[i]);
}

/*
 * The kernel reads ELF headers from memory if they are mapped, and else from the file,
 * unless it was opened for direct I/O.
 */
TEST_F(discovery, headers)
{
	static const struct {
		bool direct;
		bool unmap;
		enum kind file;
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

/* Loaded by the C library, also to the address of a library that was unloaded. */
TEST_F(discovery, dlopen)
{
	static const enum kind order[] = {
		WHOLE, MARKED, BARE, WHOLE, BARE, MARKED, WHOLE,
	};
	unsigned long first = 0;
	unsigned int i, same = 0;
	struct chain c;

	SESSION_OPEN(&self->s);
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		enum kind file = order[i];
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
	struct session s;
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
	.sframe = { .version = SFRAME_VERSION_2 },
	.kind = IMAGE_EXEC,
};

FIXTURE_VARIANT_ADD(program, executable_v3) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.kind = IMAGE_EXEC,
	.gap = 5,
};

FIXTURE_VARIANT_ADD(program, static_pie_v2) {
	.sframe = { .version = SFRAME_VERSION_2 },
	.kind = IMAGE_DYN,
	.gap = 1,
};

FIXTURE_VARIANT_ADD(program, static_pie_v3) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.kind = IMAGE_DYN,
};

FIXTURE_VARIANT_ADD(program, interpreter_of_executable) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.kind = IMAGE_EXEC,
	.interpreter = true,
};

FIXTURE_VARIANT_ADD(program, interpreter_of_pie) {
	.sframe = { .version = SFRAME_VERSION_2, .pcrel = true },
	.kind = IMAGE_DYN,
	.interpreter = true,
	.gap = 2,
};

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
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	session_close(&self->s);
	image_free(&self->im);
	image_free(&self->interp);
	EXPECT_EQ(0, remove_dir(self->dir));
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
	return stack_same(ips, nr, want, ARRAY_SIZE(want));
}

TEST_F(program, stack)
{
	unsigned int nr = variant->interpreter ? 2 : 1;
	struct child child;
	const __u64 *ips = NULL;
	struct defer_stats st;
	int n, status = -1;

	ASSERT_EQ(0, child_spawn(&child, do_program, self->path));
	SESSION_OPEN_PID(&self->s, child.pid, SESSION_PAGES);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
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

#else /* !__x86_64__ */

TEST(discovery)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
