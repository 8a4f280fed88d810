// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that the kernel keeps for walks over user stacks: how much it is during a
 * session, that it is freed after the last session, and that walks work without it if
 * the memory cgroup is full.
 *
 * It is charged to the cgroup of the sampled tasks, so the test reads it from that
 * cgroup: "kernel" of memory.stat, in bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/futex.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/child.h"
#include "../perf_events/lib/event.h"
#include "lib/chain.h"
#include "lib/jit.h"
#include "lib/sample.h"

#ifdef __x86_64__

#define PAGE		4096UL
#define CGROUP		"/sys/fs/cgroup"
#define OWN_CGROUP	"/tmp/unwind_memory_cgroup"
#define NAME		"unwind_memory"

#define THREADS		512
/* The documented limit for each thread, without the memory that threads share. */
#define THREAD_MAX	4096UL
/* Limit for the memory that threads share if the program has a section. */
#define SHARED_MAX	(128 * 1024UL)
/*
 * The kernel charges memory in batches, ahead of need. The unused rests on all CPUs are
 * less than this, and so is other kernel memory for waiting tasks.
 */
#define SLACK		(32 * PAGE)
/* Statistics of cgroups are collected every other second. */
#define STAT_SECONDS	6
#define LIMIT_SECONDS	240

/* A cgroup */

struct cgroup {
	char	root[64];
	char	dir[128];
	bool	mounted;
};

static int cgroup_write(const char *dir, const char *file, const char *fmt, long val)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return write_text(path, fmt, val);
}

/* Returns NULL, or why there is no cgroup. */
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
	/* Its tasks may not have exited completely yet. */
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

/* All memory of the cgroup, in bytes; -1 if it cannot be read. */
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

/* Kernel memory, read after everything that frees memory has run and it is stable. */
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

/* Many threads */

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

	/* Once before measuring, so that stacks and all else are allocated. */
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

		/* Each thread needs a chain of its own, for its context. */
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

/* Wait until nr threads have arrived. */
static int many_wait(struct shared *s, unsigned int nr, struct session *drain)
{
	__u64 end = now_nsec() + LIMIT_SECONDS * NSEC_PER_SEC;

	while (now_nsec() < end) {
		if (drain)
			session_drain(drain);
		if (s->failed)
			return -1;
		if (__atomic_load_n(&s->arrived, __ATOMIC_ACQUIRE) >= nr)
			return 0;
		usleep(10000);
	}
	return -1;
}

/* A depth that a user may set, of which a task does not keep the memory */
#define MAX_STACK	2000

FIXTURE(memory) {
	long max_stack;
	struct session s;
	struct child child;
	struct cgroup cg;
	struct shared *shared;
	struct jit jit;
	struct chain c;
	__u64 want[2 * CHAIN_MAX + 1];
};

FIXTURE_VARIANT(memory) {
	/* The program registers a section for its code. */
	bool tables;
	/* Stacks may be MAX_STACK deep. */
	bool deep;
};

FIXTURE_VARIANT_ADD(memory, without_tables) {
};

FIXTURE_VARIANT_ADD(memory, with_tables) {
	.tables = true,
};

FIXTURE_VARIANT_ADD(memory, deep) {
	.deep = true,
};

FIXTURE_SETUP(memory)
{
	const struct sframe_opts sframe = { .version = SFRAME_VERSION_2 };
	const char *why = sframe_unsupported();

	if (!why)
		why = cgroup_open(&self->cg);
	if (why)
		SKIP(cgroup_close(&self->cg); return, "%s", why);
	if (variant->deep) {
		ASSERT_EQ(0, read_long(SYSCTL_MAX_STACK, &self->max_stack));
		if (write_long(SYSCTL_MAX_STACK, MAX_STACK))
			SKIP(cgroup_close(&self->cg); return, "cannot change " SYSCTL_MAX_STACK);
	}
	self->shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
	ASSERT_EQ(0, jit_init(&self->jit, &sframe));
	if (variant->tables)
		ASSERT_EQ(0, jit_add(&self->jit));
	chain_begin(&self->c, &self->jit.map);
	/* Walks by frame pointer come through these functions, too. */
	chain_add(&self->c, &self->jit.map, code_fp);
	chain_add(&self->c, &self->jit.map, code_fp);
	chain_add(&self->c, &self->jit.map, code_leaf);
}

FIXTURE_TEARDOWN(memory)
{
	session_close(&self->s);
	if (self->child.pid > 0) {
		kill(self->child.pid, SIGKILL);
		waitpid(self->child.pid, NULL, 0);
	}
	cgroup_close(&self->cg);
	jit_free(&self->jit);
	if (self->max_stack)
		EXPECT_EQ(0, write_long(SYSCTL_MAX_STACK, self->max_stack));
}

#define TRACEPOINT	"syscalls/sys_enter_getpgid"

/* Start many threads, and measure their memory before they are sampled. */
static void start_many(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self,
		       long tracepoint, long *before)
{
	struct many m = { .shared = self->shared, .chain = &self->c };
	struct perf_event_attr attr = sample_attr(tracepoint);

	attr.inherit = 1;
	ASSERT_EQ(0, child_spawn(&self->child, do_many, &m));
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "cgroup.procs", "%ld", self->child.pid));
	ASSERT_EQ(0, session_open(&self->s, &attr, self->child.pid, ALL_CPUS,
				  SESSION_PAGES));
	ASSERT_EQ(0, child_go(&self->child));
	/* Without samples. */
	ASSERT_EQ(0, many_wait(self->shared, THREADS, NULL));
	*before = cgroup_kernel(&self->cg);
	ASSERT_LT(0, *before);

	ASSERT_EQ(0, session_enable(&self->s));
	go_to(self->shared, STEP_SAMPLE);
	ASSERT_EQ(0, many_wait(self->shared, 2 * THREADS, &self->s));
}

TEST_F_TIMEOUT(memory, comes_and_goes, 900)
{
	unsigned long limit = THREADS * THREAD_MAX + SLACK;
	long before, during, after;
	int status;

	if (variant->tables)
		limit += SHARED_MAX;
	start_many(_metadata, self, TRACEPOINT_ID(TRACEPOINT), &before);
	during = cgroup_kernel(&self->cg);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_EQ(2 * THREADS, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	EXPECT_EQ(2 * THREADS, log_count(&self->s.log, DEFER_RECORD));

	/* All threads still exist, and sleep. */
	session_close(&self->s);
	after = cgroup_kernel(&self->cg);
	TH_LOG("%u threads: %ld bytes each during the session, %ld after it", THREADS,
	       (during - before) / THREADS, (after - before) / THREADS);
	TH_LOG("in all %ld KiB and %ld KiB", (during - before) / 1024,
	       (after - before) / 1024);
	ASSERT_LT(before, during);
	ASSERT_LT(0, after);
	limit *= kernel_memory_factor();
	EXPECT_GE(before + (long)limit, during);
	EXPECT_GE(before + (long)SLACK, after);

	go_to(self->shared, STEP_END);
	EXPECT_EQ(0, child_wait(self->child.pid, &status, LIMIT_SECONDS, NULL));
	EXPECT_EQ(0, status);
	self->child.pid = 0;
}

/* Memory is also freed during a session, if it is reclaimed. */
TEST_F_TIMEOUT(memory, is_reclaimed, 900)
{
	long before, during, after;
	int status;

	if (access("/proc/sys/vm/drop_caches", W_OK))
		SKIP(return, "no vm.drop_caches");
	start_many(_metadata, self, TRACEPOINT_ID(TRACEPOINT), &before);
	during = cgroup_kernel(&self->cg);
	/* Otherwise the test proves nothing. */
	ASSERT_LT(before + (long)SLACK, during);

	/* Slabs. */
	ASSERT_EQ(0, write_long("/proc/sys/vm/drop_caches", 2));
	after = cgroup_kernel(&self->cg);
	TH_LOG("%ld KiB before, %ld KiB after reclaim", (during - before) / 1024,
	       (after - before) / 1024);
	EXPECT_GE(before + (long)SLACK, after);

	go_to(self->shared, STEP_END);
	EXPECT_EQ(0, child_wait(self->child.pid, &status, LIMIT_SECONDS, &self->s));
	EXPECT_EQ(0, status);
	self->child.pid = 0;
}

/* A full cgroup */

static void do_full(void *arg)
{
	struct many *m = arg;
	unsigned int i;

	/* Fault in all its pages now: none can be charged when the cgroup is full. */
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

/*
 * Limits the cgroup to what it uses. Each CPU has charged some pages ahead. A write to
 * memory.high gives them back, but on other CPUs a worker does this later: until then
 * the limit is too high. Returns 0, or -1.
 */
static int cgroup_fill(const struct cgroup *cg)
{
	unsigned int quiet = 0, tries;
	long left = LONG_MAX, now;

	for (tries = 0; tries < 1000 && quiet < 20; tries++) {
		if (cgroup_write(cg->dir, "memory.high", "%ld", 0))
			return -1;
		now = cgroup_current(cg);
		if (now < 0)
			return -1;
		quiet = now < left ? 0 : quiet + 1;
		if (!quiet) {
			left = now;
			if (cgroup_write(cg->dir, "memory.max", "%ld", left))
				return -1;
		}
		usleep(10000);
	}
	if (cgroup_write(cg->dir, "memory.high", "%ld", LONG_MAX))
		return -1;
	return quiet < 20 ? -1 : 0;
}

TEST_F_TIMEOUT(memory, cgroup_is_full, 600)
{
	struct many m = { .shared = self->shared, .chain = &self->c };
	struct perf_event_attr attr;
	unsigned int i, nr_want;
	const __u64 *ips = NULL;
	char path[64];
	int status, nr;
	long refused;

	nr_want = chain_expect(&self->c, self->want,
			       image_addr(&self->jit.map, code_leaf_ip), -1);
	if (!variant->tables) {
		/* From the leaf, the frame pointer leads to the decoy. */
		nr_want = 2;
		self->want[1] = image_addr(&self->jit.map, code_decoy);
	}

	attr = sample_attr(TRACEPOINT_ID(TRACEPOINT));
	ASSERT_EQ(0, child_spawn(&self->child, do_full, &m));
	ASSERT_EQ(0, session_open(&self->s, &attr, self->child.pid, -1, SESSION_PAGES));
	/* The child must not be killed for lack of memory. */
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", self->child.pid);
	ASSERT_EQ(0, write_long(path, -1000));
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "cgroup.procs", "%ld", self->child.pid));
	cgroup_write(self->cg.dir, "memory.swap.max", "%ld", 0);
	ASSERT_EQ(0, child_go(&self->child));
	ASSERT_EQ(0, many_wait(self->shared, STEP_SAMPLE, NULL));
	ASSERT_EQ(0, cgroup_fill(&self->cg));
	refused = cgroup_read(&self->cg, "memory.events", "max");
	ASSERT_EQ(0, session_enable(&self->s));
	go_to(self->shared, STEP_SAMPLE);
	ASSERT_EQ(0, many_wait(self->shared, STEP_WAIT, NULL));
	EXPECT_LT(refused, cgroup_read(&self->cg, "memory.events", "max"));
	ASSERT_EQ(0, cgroup_write(self->cg.dir, "memory.max", "%ld", LONG_MAX));
	go_to(self->shared, STEP_END);
	ASSERT_EQ(0, child_wait(self->child.pid, &status, LIMIT_SECONDS, NULL));
	self->child.pid = 0;
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(4, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 0; i < 4; i++) {
		nr = sample_stack(&self->s, i, &ips);
		TH_LOG("%d entries", nr);
		/*
		 * By the section if there was memory for rules, by frame pointers if
		 * not.
		 */
		if (variant->tables && nr == 2) {
			EXPECT_EQ(self->want[0], ips[0]);
			EXPECT_EQ(image_addr(&self->jit.map, code_decoy), ips[1]);
			continue;
		}
		EXPECT_TRUE(stack_same(ips, nr, self->want, nr_want));
	}
}

#else /* !__x86_64__ */

TEST(memory)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
