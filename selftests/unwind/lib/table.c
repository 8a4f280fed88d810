// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that a profiler supplies for files, by PERF_EVENT_IOC_UNWIND_TABLE.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "../../perf_events/lib/defer.h"
#include "../../perf_events/lib/event.h"
#include "jit.h"
#include "table.h"

#ifdef __x86_64__
/* An event that does nothing but own tables. */
int owner_open(pid_t pid, int cpu, bool inherit)
{
	struct perf_event_attr attr = defer_attr_output();

	attr.inherit = inherit;
	attr.exclude_kernel = 1;
	/*
	 * Otherwise it requires a privilege, as the kernel's part of a callchain does.
	 */
	attr.exclude_callchain_kernel = 1;
	*attr_flags(&attr) &= ~DEFER_ATTR_OUTPUT;
	return event_open(&attr, pid, cpu, 0);
}

int table_ioctl(int event, const void *arg)
{
	return ioctl(event, TABLE_IOC, arg) ? -errno : 0;
}

int table_supply_flags(int event, int fd, const void *buf, size_t size,
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
int table_supply(int event, int fd, const void *buf, size_t size,
		 __u64 vaddr)
{
	return table_supply_flags(event, fd, buf, size, vaddr, 0);
}

/* For all tasks */
int table_supply_all(int event, int fd, const void *buf, size_t size,
		     __u64 vaddr)
{
	return table_supply_flags(event, fd, buf, size, vaddr, TABLE_GLOBAL);
}

int table_take_back(int event, int fd)
{
	return table_supply(event, fd, NULL, 0, 0);
}

int table_share(int event, int other)
{
	struct table_arg arg = {
		.size	= sizeof(arg),
		.fd	= other,
		.flags	= TABLE_SHARE,
	};

	return table_ioctl(event, &arg);
}

/* Build a table for an image. Its first byte has the address vaddr. */
size_t
table_build(unsigned char *buf, const struct image *im,
	    const struct sframe_opts *sframe, enum kind kind, __u64 vaddr)
{
	struct sframe_opts o = *sframe;

	if (kind == MARKED)
		o.outermost[0] = code_mark;
	return sframe_build(buf, &o, vaddr, im->seg[SEG_TEXT].vaddr);
}

/* The fields of fdinfo. */
int table_info(int event, unsigned long *nr, unsigned long *bytes)
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

const char *tables_unsupported(void)
{
	const char *why = sframe_unsupported();
	struct table_arg arg = {};
	int owner, err;

	if (why)
		return why;
	owner = owner_open(0, -1, false);
	if (owner < 0)
		return NULL;
	err = table_ioctl(owner, &arg);
	close(owner);
	return err == -ENOTTY ? "kernel lacks PERF_EVENT_IOC_UNWIND_TABLE" : NULL;
}

/* The stack of one more sample; returns its length. */
int next_stack(struct session *s, struct chain *c, const __u64 **ips)
{
	chain_sample(c);
	if (session_wait(s, 1, 5))
		return -1;
	return sample_stack(s, 0, ips);
}

void forget_stack(struct session *s)
{
	log_free(&s->log);
	s->log.sample_type = EVENT_SAMPLE_TYPE;
	s->log.sample_id_all = true;
}

int become_nobody(void)
{
	return setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	       setresuid(NOBODY, NOBODY, NOBODY) || prctl(PR_SET_DUMPABLE, 1);
}

int wait_for(const int *flag)
{
	__u64 end = now_nsec() + 20 * NSEC_PER_SEC;

	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) {
		if (now_nsec() > end)
			return -1;
		usleep(1000);
	}
	return 0;
}

void set_flag(int *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

struct shared *shared_alloc(void)
{
	void *p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}
#endif /* __x86_64__ */
