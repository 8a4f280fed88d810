/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the tests of SFrame tables that a profiler supplies for files, by
 * PERF_EVENT_IOC_UNWIND_TABLE.
 */
#ifndef SELFTESTS_UNWIND_SFRAME_TABLES_H
#define SELFTESTS_UNWIND_SFRAME_TABLES_H

#include "sframe_test.h"
#include <grp.h>

#ifdef __x86_64__

/* Headers of the build may be older than the kernel under test. */
#define TABLE_IOC		_IO('$', 240)
#define TABLE_SHARE		1ULL
#define TABLE_GLOBAL		2ULL

struct table_arg {
	__u32	size;
	__s32	fd;
	__u64	flags;
	__u64	table;
	__u64	table_size;
	__u64	vaddr;
};

#define TABLE_ARG_SIZE		40
_Static_assert(sizeof(struct table_arg) == TABLE_ARG_SIZE, "no holes");

#define PARANOID		"/proc/sys/kernel/perf_event_paranoid"
#define NOBODY			65534

#define LEAF_IP(m)	image_addr(m, code_leaf_ip)
#define DECOY(m)	image_addr(m, code_decoy)
/* Frames up to code_mark in every chain here. */
#define CUT		2

/* What a file has, what a table says, and what a stack shows. */
enum kind {
	WHOLE,
	MARKED,
	BARE,
	KINDS,
};

/* ---- Tables --------------------------------------------------------------------- */

/* An event that does nothing but own tables. */
static inline int owner_open(pid_t pid, int cpu, bool inherit)
{
	struct perf_event_attr attr = defer_attr_output();

	attr.inherit = inherit;
	attr.exclude_kernel = 1;
	/* Or it would take a privilege, as the kernel's part of a callchain does. */
	attr.exclude_callchain_kernel = 1;
	*defer_attr_flags(&attr) &= ~DEFER_ATTR_OUTPUT;
	return defer_event_open(&attr, pid, cpu, 0);
}

static inline int table_ioctl(int event, const void *arg)
{
	return ioctl(event, TABLE_IOC, arg) ? -errno : 0;
}

static inline int table_supply_flags(int event, int fd, const void *buf, size_t size,
				     __u64 vaddr, __u64 flags)
{
	struct table_arg arg = {
		.size		= sizeof(arg),
		.fd		= fd,
		.flags		= flags,
		.table		= (unsigned long)buf,
		.table_size	= size,
		.vaddr		= vaddr,
	};

	return table_ioctl(event, &arg);
}

/* For the tasks of the event */
static inline int table_supply(int event, int fd, const void *buf, size_t size,
			       __u64 vaddr)
{
	return table_supply_flags(event, fd, buf, size, vaddr, 0);
}

/* For all tasks */
static inline int table_supply_all(int event, int fd, const void *buf, size_t size,
				   __u64 vaddr)
{
	return table_supply_flags(event, fd, buf, size, vaddr, TABLE_GLOBAL);
}

static inline int table_take_back(int event, int fd)
{
	return table_supply(event, fd, NULL, 0, 0);
}

static inline int table_share(int event, int other)
{
	struct table_arg arg = {
		.size	= sizeof(arg),
		.fd	= other,
		.flags	= TABLE_SHARE,
	};

	return table_ioctl(event, &arg);
}

/* A table for an image, whose first byte is said to be at vaddr. */
static inline size_t
table_build(unsigned char *buf, const struct image *im,
	    const struct sframe_opts *sframe, enum kind kind, __u64 vaddr)
{
	struct sframe_opts o = *sframe;

	if (kind == MARKED)
		o.outermost[0] = code_mark;
	return sframe_build(buf, &o, vaddr, im->seg[SEG_TEXT].vaddr);
}

/* The fields of fdinfo. */
static inline int table_info(int event, unsigned long *nr, unsigned long *bytes)
{
	char path[64], line[128];
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", event);
	f = fopen(path, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		found += sscanf(line, "unwind_tables: %lu", nr) == 1;
		found += sscanf(line, "unwind_table_bytes: %lu", bytes) == 1;
	}
	fclose(f);
	return found == 2 ? 0 : -1;
}

/* ---- Stacks --------------------------------------------------------------------- */

static inline void chain_one(struct chain *c, const struct image_map *m)
{
	chain_begin(c, m);
	chain_add(c, m, code_sp);
	chain_add(c, m, code_mark);
	chain_add(c, m, code_far);
	chain_add(c, m, code_leaf);
}

static inline unsigned int
expect(struct chain *c, __u64 *want, const struct image_map *m, enum kind kind)
{
	if (kind != BARE)
		return chain_expect(c, want, LEAF_IP(m), kind == WHOLE ? -1 : CUT);
	want[0] = LEAF_IP(m);
	want[1] = DECOY(m);
	return 2;
}

/* The next sample, of a chain in m, must show this. */
#define EXPECT_STACK(m, kind, ...) do {					\
	struct chain __c;						\
									\
	chain_one(&__c, m);						\
	chain_sample(&__c);						\
	self->nr_want = expect(&__c, self->want, m, kind);		\
	EXPECT_NEXT(&self->s, self->nr, self->want, self->nr_want,	\
		    __VA_ARGS__);					\
	self->nr++;							\
} while (0)

/* ---- Processes ------------------------------------------------------------------ */

static inline int become_nobody(void)
{
	return setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	       setresuid(NOBODY, NOBODY, NOBODY) || prctl(PR_SET_DUMPABLE, 1);
}

/* What the processes of a test tell each other. */
struct shared {
	int		up;
	int		go;
	int		done;
	pid_t		pids[3];
};

static inline int wait_for(const int *flag)
{
	__u64 end = defer_now() + 20 * DEFER_NSEC_PER_SEC;

	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) {
		if (defer_now() > end)
			return -1;
		usleep(1000);
	}
	return 0;
}

static inline void set(int *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static inline struct shared *shared_alloc(void)
{
	void *p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* All tasks, into the session's buffers: one for each CPU. */
#define SESSION_OPEN_ALL(s) do {					\
	struct perf_event_attr __attr;					\
									\
	__attr = sample_attr(DEFER_TRACEPOINT("syscalls/sys_enter_getpgid")); \
	ASSERT_EQ(0, defer_session_open(s, &__attr, -1, DEFER_ALL_CPUS,	\
					DEFER_PAGES));			\
	ASSERT_EQ(0, defer_enable(s));					\
} while (0)

/* The sample of this process in a session that is over. */
#define EXPECT_PID(pid_, kind, ...) do {				\
	const struct defer_item *__it;					\
	const __u64 *__ips = NULL;					\
	unsigned int __i, __found = 0;					\
	int __nr;							\
									\
	for (__i = 0; (__it = defer_nth(&self->s.log, PERF_RECORD_SAMPLE, \
					__i)); __i++) {			\
		if (__it->pid != (__u32)(pid_))				\
			continue;					\
		__found++;						\
		__nr = defer_user_chain(&self->s.log, __it, &__ips);	\
		self->nr_want = expect(&self->c, self->want, &self->m, kind); \
		EXPECT_TRUE(defer_same(__ips, __nr, self->want,		\
				       self->nr_want)) {		\
			TH_LOG(__VA_ARGS__);				\
		}							\
	}								\
	EXPECT_EQ(1, __found) {						\
		TH_LOG(__VA_ARGS__);					\
	}								\
} while (0)

#define EXPECT_EXIT(pid) do {						\
	int __status = -1;						\
									\
	EXPECT_EQ(0, defer_wait(pid, &__status, 30, &self->s));		\
	EXPECT_EQ(0, __status);						\
} while (0)

static const struct sframe_opts plain_v3 = { .version = SFRAME_V3 };

#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_SFRAME_TABLES_H */
