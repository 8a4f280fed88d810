// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "blocked.h"
#include "event.h"

#ifdef __x86_64__
BLOCK block_read(struct shared *sh)
{
	char c;

	raw(__NR_read, sh->pipe[0], (long)&c, 1, 0, 0, 0);
}
#endif

int make_uffd(struct shared *sh)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	sh->uffd = syscall(__NR_userfaultfd, O_CLOEXEC);
	if (sh->uffd < 0 || ioctl(sh->uffd, UFFDIO_API, &api))
		return -1;
	sh->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sh->page == MAP_FAILED)
		return -1;
	reg.range.start = (unsigned long)sh->page;
	reg.range.len = PAGE;
	return ioctl(sh->uffd, UFFDIO_REGISTER, &reg);
}

/* The states of a task that does not run: in stat of /proc */
static bool blocked(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(file);
	return state && strchr("SDTtZ", state);
}

int wait_blocked(pid_t pid)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;

	while (now_nsec() < end) {
		if (blocked(pid))
			return 0;
		usleep(1000);
	}
	return -1;
}

int flush_blocked(struct session *s, struct flush *sum)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;
	int ret;

	do {
		ret = flush_all(s, sum);
	} while (!ret && sum->busy && !sum->delivered && now_nsec() < end);
	return ret;
}

int flush_blocked_one(int fd, unsigned int max, struct flush *sum)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;
	int ret;

	do {
		memset(sum, 0, sizeof(*sum));
		ret = flush_one(fd, max, sum);
	} while (!ret && sum->busy && !sum->delivered && now_nsec() < end);
	return ret;
}

int open_for(struct session *s, struct perf_event_attr *attr, pid_t pid, bool cpu)
{
	return cpu ? session_open(s, attr, -1, ALL_CPUS, SESSION_PAGES) :
		     session_open(s, attr, pid, -1, SESSION_PAGES);
}

int set_filter(struct session *s, long nr, pid_t pid)
{
	char filter[128];
	unsigned int i;

	snprintf(filter, sizeof(filter),
		 "(id == %ld || id == %d) && common_pid == %d", nr, __NR_getpgid, pid);
	for (i = 0; i < s->nr_bufs; i++) {
		if (ioctl(s->bufs[i].fd, PERF_EVENT_IOC_SET_FILTER, filter))
			return -1;
	}
	return 0;
}
