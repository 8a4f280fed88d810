/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame tables that a profiler supplies for files, by PERF_EVENT_IOC_UNWIND_TABLE.
 */
#ifndef SELFTESTS_UNWIND_TABLE_H
#define SELFTESTS_UNWIND_TABLE_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <linux/ioctl.h>
#include <linux/types.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "../../perf_events/lib/child.h"
#include "../../perf_events/lib/log.h"
#include "chain.h"
#include "image.h"
#include "sample.h"
#include "sframe_section.h"

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

static const struct sframe_opts plain_v3 = { .version = SFRAME_VERSION_3 };

/* What the processes of a test tell each other. */
struct shared {
	int		up;
	int		go;
	int		done;
	pid_t		pids[3];
};

/* Why the tests cannot run; NULL when they can.  As sframe_unsupported(). */
const char *tables_unsupported(void);

/* An event that does nothing but own tables. */
int owner_open(pid_t pid, int cpu, bool inherit);

/* The system call.  0, or -errno. */
int table_ioctl(int event, const void *arg);

/* Supply a table for a file.  0, or -errno. */
int table_supply_flags(int event, int fd, const void *buf, size_t size,
		       __u64 vaddr, __u64 flags);

/* For the tasks of the event. */
int table_supply(int event, int fd, const void *buf, size_t size, __u64 vaddr);

/* For all tasks. */
int table_supply_all(int event, int fd, const void *buf, size_t size,
		     __u64 vaddr);

/* Take back the table of a file.  0, or -errno. */
int table_take_back(int event, int fd);

/* Let an event share the tables of another one.  0, or -errno. */
int table_share(int event, int other);

/*
 * Build a table for an image. Its first byte has the address vaddr. Returns its size.
 */
size_t table_build(unsigned char *buf, const struct image *im,
		   const struct sframe_opts *sframe, enum kind kind, __u64 vaddr);

/* The fields of fdinfo.  0, or -1. */
int table_info(int event, unsigned long *nr, unsigned long *bytes);

/* The stack of one more sample, the only one in the log.  Its length, or -1. */
int next_stack(struct session *s, struct chain *c, const __u64 **ips);

/* Forget this sample, before the next one. */
void forget_stack(struct session *s);

/* Drop all privileges.  0 if that succeeds. */
int become_nobody(void);

/* What the processes of a test share; NULL if there is no memory. */
struct shared *shared_alloc(void);

/* Wait until another process has set a flag.  0, or -1 after a while. */
int wait_for(const int *flag);

/* Set a flag. */
void set_flag(int *flag);

/* The next sample, of a chain in m, must show this. */
#define EXPECT_STACK(m, kind, ...) do {					\
	struct chain __c;						\
									\
	chain_one(&__c, m);						\
	chain_sample(&__c);						\
	self->nr_want = expect_one(&__c, self->want, m, kind);		\
	EXPECT_NEXT(&self->s, self->nr, self->want, self->nr_want,	\
		    __VA_ARGS__);					\
	self->nr++;							\
} while (0)

/* The sample of this process in a session that is over. */
#define EXPECT_PID(pid_, kind, ...) do {				\
	const struct log_item *__it;					\
	const __u64 *__ips = NULL;					\
	unsigned int __i, __found = 0;					\
	int __nr;							\
									\
	for (__i = 0; (__it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, \
				      __i)); __i++) {			\
		if (__it->pid != (__u32)(pid_))				\
			continue;					\
		__found++;						\
		__nr = defer_user_chain(&self->s.log, __it, &__ips);	\
		self->nr_want = expect_one(&self->c, self->want,	\
					   &self->m, kind);		\
		EXPECT_TRUE(stack_same(__ips, __nr, self->want,		\
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
	EXPECT_EQ(0, child_wait(pid, &__status, 30, &self->s));		\
	EXPECT_EQ(0, __status);						\
} while (0)

/* A file system of its own, in a mount namespace of its own. */
#define MOUNT_SETUP(what) do {						\
	if (unshare(CLONE_NEWNS))					\
		SKIP(return, "no mount namespaces: %s", strerror(errno)); \
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)); \
	snprintf(what, sizeof(what), "%s/fs", self->dir);		\
	ASSERT_EQ(0, mkdir(what, 0755));				\
	ASSERT_EQ(0, mount("tables", what, "tmpfs", 0, NULL));		\
} while (0)
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_TABLE_H */
