// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that the kernel keeps for walks over user stacks: how much of it there is
 * while there are clients, that it goes with the last of them, and that walks do
 * without when a memory cgroup is full.
 *
 * It is charged to the cgroup of the tasks that are sampled, so that is where it is
 * measured: "kernel" of memory.stat, in bytes.
 */
#define _GNU_SOURCE
#include "sframe_test.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include "../kselftest_harness.h"

#ifdef __x86_64__

#define PAGE		4096UL
#define CGROUP		"/sys/fs/cgroup"
#define OWN_CGROUP	"/tmp/unwind_memory_cgroup"
#define NAME		"unwind_memory"

#define THREADS		512
/* What is promised for a thread of a program without tables. */
#define THREAD_MAX	4096UL
/* What the threads of a program with tables share at most, with so few of them. */
#define SHARED_MAX	(128 * 1024UL)
/*
 * The kernel charges whole pages, ahead of what is needed: what each CPU has left of
 * those is less than this.  So is what else the kernel does for tasks that wait.
 */
#define SLACK		(32 * PAGE)
/* Statistics of cgroups are collected every other second. */
#define STAT_SECONDS	6
#define LIMIT_SECONDS	240

/* ---- A cgroup ------------------------------------------------------------------ */

struct cgroup {
	char	root[64];
	char	dir[128];
	bool	mounted;
};

static int cgroup_write(const char *dir, const char *file, const char *fmt, long val)
{
	char path[256], text[32];
	int fd, len, ret = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	len = snprintf(text, sizeof(text), fmt, val);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != len)
		ret = -errno;
	close(fd);
	return ret;
}

/* Why there is none; NULL if there is. */
static const char *cgroup_open(struct cgroup *cg)
{
	char path[256];

	snprintf(cg->root, sizeof(cg->root), CGROUP);
	if (access(CGROUP "/cgroup.controllers", F_OK)) {
		mkdir(OWN_CGROUP, 0700);
		if (mount("cgroup2", OWN_CGROUP, "cgroup2", 0, NULL))
			return "no cgroup v2";
		snprintf(cg->root, sizeof(cg->root), OWN_CGROUP);
		cg->mounted = true;
	}
	if (cgroup_write(cg->root, "cgroup.subtree_control", "+memory", 0))
		return "no memory cgroups (CONFIG_MEMCG?)";
	snprintf(cg->dir, sizeof(cg->dir), "%s/" NAME, cg->root);
	rmdir(cg->dir);
	if (mkdir(cg->dir, 0700)) {
		perror("# mkdir");
		return "cannot make a cgroup";
	}
	snprintf(path, sizeof(path), "%s/memory.stat", cg->dir);
	return access(path, R_OK) ? "no memory.stat" : NULL;
}

static void cgroup_close(struct cgroup *cg)
{
	unsigned int i;

	cgroup_write(cg->dir, "memory.max", "%ld", LONG_MAX);
	/* Tasks may not be gone altogether. */
	for (i = 0; i < 6000 && rmdir(cg->dir) && errno == EBUSY; i++)
		usleep(10000);
	if (cg->mounted) {
		umount2(cg->root, MNT_DETACH);
		rmdir(cg->root);
	}
}

/* The number in a line of a file; -1 if there is none. */
static long cgroup_read(const struct cgroup *cg, const char *stat, const char *name)
{
	char path[256], key[64];
	long val, ret = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", cg->dir, stat);
	file = fopen(path, "r");
	if (!file)
		return -1;
	while (fscanf(file, "%63s %ld", key, &val) == 2) {
		if (!strcmp(key, name))
			ret = val;
	}
	fclose(file);
	return ret;
}

/* Bytes of it all; -1 if they cannot be read. */
static long cgroup_current(const struct cgroup *cg)
{
	char path[256];
	long val = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/memory.current", cg->dir);
	file = fopen(path, "r");
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &val) != 1)
		val = -1;
	fclose(file);
	return val;
}

/* When it does not change any more, and everything that frees memory is through. */
static long cgroup_kernel(const struct cgroup *cg)
{
	long last, now = -1;

	do {
		last = now;
		sleep(STAT_SECONDS / 2);
		now = cgroup_read(cg, "memory.stat", "kernel");
	} while (now != last);
	return now;
}

/* ---- Many threads ---------------------------------------------------------------- */

/* In memory that both processes see. */
struct shared {
	/* Threads that have come to a step; which step they may go to. */
	unsigned int	arrived;
	unsigned int	step;
	bool		failed;
};

enum {
	STEP_READY,
	STEP_SAMPLE,
	STEP_WAIT,
	STEP_END,
};

struct many {
	struct shared	*shared;
	struct chain	*chain;
};

/* Threads sleep until the step that they wait for. */
static void arrive(struct shared *s, unsigned int next)
{
	unsigned int step;

	__atomic_add_fetch(&s->arrived, 1, __ATOMIC_ACQ_REL);
	while ((step = __atomic_load_n(&s->step, __ATOMIC_ACQUIRE)) < next)
		syscall(SYS_futex, &s->step, FUTEX_WAIT, step, NULL, NULL, 0);
}

static void go_to(struct shared *s, unsigned int step)
{
	__atomic_store_n(&s->step, step, __ATOMIC_RELEASE);
	syscall(SYS_futex, &s->step, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void *many_thread(void *arg)
{
	struct many *m = arg;

	/* Once before it counts: stacks and all else are in place. */
	chain_sample(m->chain);
	arrive(m->shared, STEP_SAMPLE);
	chain_sample(m->chain);
	chain_sample(m->chain);
	arrive(m->shared, STEP_END);
	return NULL;
}

static void do_many(void *arg)
{
	struct many *m = arg;
	pthread_t threads[THREADS];
	pthread_attr_t attr;
	unsigned int i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	for (i = 0; i < THREADS; i++) {
		struct many *own = malloc(sizeof(*own));
		struct chain *chain = malloc(sizeof(*chain));

		/* The context of a chain is the thread's. */
		if (!own || !chain)
			goto failed;
		*chain = *m->chain;
		*own = *m;
		own->chain = chain;
		if (pthread_create(&threads[i], &attr, many_thread, own))
			goto failed;
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return;
failed:
	m->shared->failed = true;
}

/* Wait until all threads have come so far. */
static int many_wait(struct shared *s, unsigned int nr, struct defer_session *drain)
{
	__u64 end = defer_now() + LIMIT_SECONDS * DEFER_NSEC_PER_SEC;

	while (defer_now() < end) {
		if (drain)
			defer_drain(drain);
		if (s->failed)
			return -1;
		if (__atomic_load_n(&s->arrived, __ATOMIC_ACQUIRE) >= nr)
			return 0;
		usleep(10000);
	}
	return -1;
}

FIXTURE(memory) {
	struct defer_session s;
	struct defer_child child;
	struct cgroup cg;
	struct shared *shared;
	struct jit jit;
	struct chain c;
	__u64 want[2 * CHAIN_MAX + 1];
};

FIXTURE_VARIANT(memory) {
	/* The program registers a table for its code. */
	bool tables;
};

FIXTURE_VARIANT_ADD(memory, without_tables) {
};

FIXTURE_VARIANT_ADD(memory, with_tables) {
	.tables = true,
};

FIXTURE_SETUP(memory)
{
	const struct sframe_opts sframe = { .version = SFRAME_V2 };
	const char *why = sframe_unsupported();

	if (!why)
		why = cgroup_open(&self->cg);
	if (why)
		SKIP(return, "%s", why);
	self->shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
	ASSERT_EQ(0, jit_init(&self->jit, &sframe));
	if (variant->tables)
		ASSERT_EQ(0, jit_add(&self->jit));
	chain_begin(&self->c, &self->jit.map);
	/* Frame pointers lead through it as well. */
	chain_add(&self->c, &self->jit.map, code_fp);
	chain_add(&self->c, &self->jit.map, code_fp);
	chain_add(&self->c, &self->jit.map, code_leaf);
}

FIXTURE_TEARDOWN(memory)
{
	defer_session_close(&self->s);
	if (self->child.pid > 0) {
		kill(self->child.pid, SIGKILL);
		waitpid(self->child.pid, NULL, 0);
	}
	cgroup_close(&self->cg);
	jit_free(&self->jit);
}

#define TRACEPOINT	"syscalls/sys_enter_getpgid"

TEST_F_TIMEOUT(memory, comes_and_goes, 900)
{
	struct many m = { .shared = self->shared, .chain = &self->c };
	unsigned long limit = THREADS * THREAD_MAX + SLACK;
	struct perf_event_attr attr;
	long before, during, after;
	int status;

	if (variant->tables)
		limit += SHARED_MAX;
	attr = sample_attr(DEFER_TRACEPOINT(TRACEPOINT));
	attr.inherit = 1;
	ASSERT_EQ(0, defer_spawn(&self->child, do_many, &m));
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "cgroup.procs", "%ld", self->child.pid));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, self->child.pid, DEFER_ALL_CPUS,
					DEFER_PAGES));
	ASSERT_EQ(0, defer_go(&self->child));
	/* Without samples. */
	ASSERT_EQ(0, many_wait(self->shared, THREADS, NULL));
	before = cgroup_kernel(&self->cg);
	ASSERT_LT(0, before);

	ASSERT_EQ(0, defer_enable(&self->s));
	go_to(self->shared, STEP_SAMPLE);
	ASSERT_EQ(0, many_wait(self->shared, 2 * THREADS, &self->s));
	during = cgroup_kernel(&self->cg);
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_EQ(2 * THREADS, defer_count(&self->s.log, PERF_RECORD_SAMPLE));
	EXPECT_EQ(2 * THREADS, defer_count(&self->s.log, DEFER_RECORD));

	/* All threads sleep, and stay. */
	defer_session_close(&self->s);
	after = cgroup_kernel(&self->cg);
	TH_LOG("%u threads: %ld bytes each during the session, %ld after it", THREADS,
	       (during - before) / THREADS, (after - before) / THREADS);
	TH_LOG("in all %ld KiB and %ld KiB", (during - before) / 1024,
	       (after - before) / 1024);
	EXPECT_GE(before + (long)limit, during);
	EXPECT_GE(before + (long)SLACK, after);

	go_to(self->shared, STEP_END);
	EXPECT_EQ(0, defer_wait(self->child.pid, &status, LIMIT_SECONDS, NULL));
	EXPECT_EQ(0, status);
	self->child.pid = 0;
}

/* The same while the session goes on, because memory is wanted. */
TEST_F_TIMEOUT(memory, is_reclaimed, 900)
{
	struct many m = { .shared = self->shared, .chain = &self->c };
	struct perf_event_attr attr;
	long before, during, after;
	int status;

	if (access("/proc/sys/vm/drop_caches", W_OK))
		SKIP(return, "no vm.drop_caches");
	attr = sample_attr(DEFER_TRACEPOINT(TRACEPOINT));
	attr.inherit = 1;
	ASSERT_EQ(0, defer_spawn(&self->child, do_many, &m));
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "cgroup.procs", "%ld", self->child.pid));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, self->child.pid, DEFER_ALL_CPUS,
					DEFER_PAGES));
	ASSERT_EQ(0, defer_go(&self->child));
	ASSERT_EQ(0, many_wait(self->shared, THREADS, NULL));
	before = cgroup_kernel(&self->cg);
	ASSERT_EQ(0, defer_enable(&self->s));
	go_to(self->shared, STEP_SAMPLE);
	ASSERT_EQ(0, many_wait(self->shared, 2 * THREADS, &self->s));
	during = cgroup_kernel(&self->cg);
	/* Otherwise there is nothing to see. */
	ASSERT_LT(before + (long)SLACK, during);

	/* Slabs. */
	ASSERT_EQ(0, defer_write_long("/proc/sys/vm/drop_caches", 2));
	after = cgroup_kernel(&self->cg);
	TH_LOG("%ld KiB before, %ld KiB after reclaim", (during - before) / 1024,
	       (after - before) / 1024);
	EXPECT_GE(before + (long)SLACK, after);

	go_to(self->shared, STEP_END);
	EXPECT_EQ(0, defer_wait(self->child.pid, &status, LIMIT_SECONDS, &self->s));
	EXPECT_EQ(0, status);
	self->child.pid = 0;
}

/* ---- A full cgroup ----------------------------------------------------------------- */

static void do_full(void *arg)
{
	struct many *m = arg;
	unsigned int i;

	/* Its pages are there, so none is needed when the cgroup is full. */
	for (i = 0; i < 2; i++)
		chain_sample(m->chain);
	__atomic_store_n(&m->shared->arrived, STEP_SAMPLE, __ATOMIC_RELEASE);
	while (__atomic_load_n(&m->shared->step, __ATOMIC_ACQUIRE) < STEP_SAMPLE)
		sched_yield();
	for (i = 0; i < 4; i++)
		chain_sample(m->chain);
	__atomic_store_n(&m->shared->arrived, STEP_WAIT, __ATOMIC_RELEASE);
	while (__atomic_load_n(&m->shared->step, __ATOMIC_ACQUIRE) < STEP_END)
		sched_yield();
}

TEST_F_TIMEOUT(memory, cgroup_is_full, 600)
{
	struct many m = { .shared = self->shared, .chain = &self->c };
	struct perf_event_attr attr;
	unsigned int i, nr_want;
	const __u64 *ips = NULL;
	char path[64];
	int status, nr;
	long refused, left;

	nr_want = chain_expect(&self->c, self->want,
			       image_addr(&self->jit.map, code_leaf_ip), -1);
	if (!variant->tables) {
		/* Of the leaf, the decoy is what frame pointers lead to. */
		nr_want = 2;
		self->want[1] = image_addr(&self->jit.map, code_decoy);
	}

	attr = sample_attr(DEFER_TRACEPOINT(TRACEPOINT));
	ASSERT_EQ(0, defer_spawn(&self->child, do_full, &m));
	ASSERT_EQ(0, defer_session_open(&self->s, &attr, self->child.pid, -1, DEFER_PAGES));
	/* There is nothing to kill for memory. */
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", self->child.pid);
	ASSERT_EQ(0, defer_write_long(path, -1000));
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "cgroup.procs", "%ld", self->child.pid));
	cgroup_write(self->cg.dir, "memory.swap.max", "%ld", 0);
	ASSERT_EQ(0, defer_go(&self->child));
	ASSERT_EQ(0, many_wait(self->shared, STEP_SAMPLE, NULL));
	/* What was charged ahead goes, and then nothing more than it has is left. */
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "memory.high", "%ld", 0));
	left = cgroup_current(&self->cg);
	ASSERT_LE(0, left);
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "memory.max", "%ld", left));
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "memory.high", "%ld", LONG_MAX));
	refused = cgroup_read(&self->cg, "memory.events", "max");
	ASSERT_EQ(0, defer_enable(&self->s));
	go_to(self->shared, STEP_SAMPLE);
	ASSERT_EQ(0, many_wait(self->shared, STEP_WAIT, NULL));
	EXPECT_LT(refused, cgroup_read(&self->cg, "memory.events", "max"));
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "memory.max", "%ld", LONG_MAX));
	go_to(self->shared, STEP_END);
	ASSERT_EQ(0, defer_wait(self->child.pid, &status, LIMIT_SECONDS, NULL));
	self->child.pid = 0;
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, defer_finish(&self->s));
	ASSERT_EQ(4, defer_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 0; i < 4; i++) {
		nr = sample_stack(&self->s, i, &ips);
		TH_LOG("%d entries", nr);
		/* By tables if there was memory for them, by frame pointers if not. */
		if (variant->tables && nr == 2) {
			EXPECT_EQ(self->want[0], ips[0]);
			EXPECT_EQ(image_addr(&self->jit.map, code_decoy), ips[1]);
			continue;
		}
		EXPECT_TRUE(defer_same(ips, nr, self->want, nr_want));
	}
}

#else /* !__x86_64__ */

TEST(memory)
{
	SKIP(return, "no code with tables for this architecture");
}

#endif

TEST_HARNESS_MAIN
