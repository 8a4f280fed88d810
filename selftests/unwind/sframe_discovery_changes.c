// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that the kernel finds in mapped files: it must not use them any more
 * when the mappings change, in this task and in others.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/child.h"
#include "../perf_events/lib/event.h"
#include "lib/worker.h"
#include "sframe_discovery.h"

#ifdef __x86_64__

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

/* Map other files over the whole library, and the first file again. */
TEST_F(discovery, map_fixed)
{
	static const enum kind order[] = {
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
	/* Either result is right: nothing can run there, but the frames are real. */
	ASSERT_EQ(0, session_wait(&self->s, 4, 5));
	nr = sample_stack(&self->s, 3, &ips);
	EXPECT_TRUE(chain_legal(&self->c, ips, nr, LEAF_IP(&self->m),
				DECOY(&self->m)));
	EXPECT_TWO(4, WHOLE, "restored");
}

/* The code of frames on the stack moves away, and back. */
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

/* A whole library moves, and another one is mapped in its place. */
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

/* Other tasks */

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
	struct child child;
	int status = -1;

	chain_two(&self->c, &self->m, &self->v);
	/* The parent finds the section first. */
	SESSION_OPEN(&self->s);
	chain_sample(&self->c);
	EXPECT_TWO(0, WHOLE, "parent");
	session_close(&self->s);

	child_arg.c = &self->c;
	child_arg.v = self->v;
	child_arg.im = &self->im[MARKED];
	child_arg.fd = self->fd[MARKED];
	ASSERT_EQ(0, child_spawn(&child, do_fork, NULL));
	SESSION_OPEN_PID(&self->s, child.pid, SESSION_PAGES);
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
	ASSERT_EQ(0, status);
	EXPECT_TWO(0, WHOLE, "child");
	EXPECT_TWO(1, MARKED, "child with another file");
	session_close(&self->s);

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

	attr = sample_attr(TRACEPOINT_ID("syscalls/sys_enter_getpgid"));
	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, ALL_CPUS,
				  SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
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
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(6, st.samples);
	self->nr_want = expect_two(&self->c, self->want, &self->m, WHOLE);
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;
		int nr = sample_stack(&self->s, i, &ips);

		EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want));
		children += log_nth(&self->s.log, PERF_RECORD_SAMPLE,
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

/* A library, then a program with another section at the same address. */
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

	for (i = 0; i < KINDS; i++) {
		struct child child;
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
		ASSERT_EQ(0, child_spawn(&child, do_exec, NULL));
		SESSION_OPEN_PID(&self->s, child.pid, SESSION_PAGES);
		ASSERT_EQ(0, child_go(&child));
		ASSERT_EQ(0, child_wait(child.pid, &status, 10, NULL));
		ASSERT_EQ(0, status);
		EXPECT_ONE(0, &c, &m, WHOLE, "before");
		EXPECT_ONE(1, &c, &m, i, "program %u", i);
		session_close(&self->s);
		close(child_arg.program);
		image_free(&im);
	}
}

/*
 * A thread is unwound while another replaces the files under its frames, the
 * code remaining the same, and maps and unmaps other libraries, and forks.
 */
TEST_F_TIMEOUT(discovery, threads, 60)
{
	unsigned int i, rounds = 0, lens[8] = {};
	struct worker w = { .pause_usec = 20 };
	struct defer_stats st;
	__u64 end;

	chain_two(&w.c, &self->m, &self->v);
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, sampled, &w));
	ASSERT_LT(0, worker_tid(&w));
	SESSION_OPEN_PID(&self->s, w.tid, 2048);
	end = now_nsec() + 4 * NSEC_PER_SEC;
	while (now_nsec() < end) {
		enum kind file = rounds % KINDS;
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
		session_drain(&self->s);
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

#else /* !__x86_64__ */

TEST(discovery)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
