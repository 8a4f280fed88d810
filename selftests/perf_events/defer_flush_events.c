// SPDX-License-Identifier: GPL-2.0
/*
 * The request for deferred user callchains of tasks that sleep: which tasks an event
 * covers, memory that nothing may wait for, several buffers, races, arguments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "../unwind/lib/fuse_server.h"
#include "lib/blocked.h"
#include "lib/child.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/flush.h"
#include "lib/known_stack.h"
#include "lib/session.h"

#ifdef __x86_64__

/* Events of a task, and of all CPUs */

static volatile bool *race_stop;

FIXTURE(event) {
	struct session s;
	struct child child;
	struct shared *sh;
};

FIXTURE_VARIANT(event) {
	bool cpu;
};

FIXTURE_VARIANT_ADD(event, task) { .cpu = false };
FIXTURE_VARIANT_ADD(event, cpu) { .cpu = true };

FIXTURE_SETUP(event)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	race_stop = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)race_stop);
	self->sh = calloc(1, sizeof(*self->sh));
	ASSERT_NE(NULL, self->sh);
}

FIXTURE_TEARDOWN(event)
{
	session_close(&self->s);
	munmap((void *)race_stop, PAGE);
	free(self->sh);
}

/* Memory that the walk would have to wait for: it ends there. */

static void do_uffd_stack(void *arg)
{
	struct shared *sh = arg;

	if (make_uffd(sh))
		_exit(4);
	/* The frame is where nobody answers faults. */
	walk_on(__NR_pause, 0, sh->page, sh->page, 0);
}

/* The walk of a child that sleeps on such a stack finds the innermost frame. */
static void innermost_only(struct __test_metadata *_metadata, FIXTURE_DATA(event) *self,
			   bool cpu, void (*fn)(void *arg))
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	const struct log_item *it;
	struct flush sum;
	const __u64 *ips;
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child, fn, self->sh));
	pid = self->child.pid;
	ASSERT_EQ(0, open_for(&self->s, &attr, pid, cpu));
	ASSERT_EQ(0, set_filter(&self->s, __NR_pause, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	ASSERT_EQ(0, session_wait(&self->s, 1, 10));
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, flush_blocked(&self->s, &sum));
	EXPECT_EQ(1, sum.delivered);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, 0);
	ASSERT_NE(NULL, it);
	ASSERT_EQ(1, defer_user_chain(&self->s.log, it, &ips));
	EXPECT_EQ((__u64)walk_on_ip, ips[0]);
}

TEST_F_TIMEOUT(event, memory_of_userfaultfd, 120)
{
	innermost_only(_metadata, self, variant->cpu, do_uffd_stack);
}

static void do_fuse_stack(void *arg)
{
	struct shared *sh = arg;
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, sh->file, 0);

	if (page == MAP_FAILED)
		_exit(4);
	walk_on(__NR_pause, 0, page, page, 0);
}

TEST_F_TIMEOUT(event, memory_of_fuse, 120)
{
	static const unsigned char bytes[PAGE];
	struct fuse_server server = {};
	const char *why = NULL;
	char dir[64] = "";

	ASSERT_EQ(0, make_dir(dir, sizeof(dir)));
	snprintf(server.dir, sizeof(server.dir), "%s", dir);
	self->sh->file = fuse_server_start(&server, bytes, sizeof(bytes), &why);
	if (self->sh->file < 0) {
		EXPECT_EQ(0, remove_dir(dir));
		ASSERT_NE(NULL, why);
		SKIP(return, "%s", why);
	}
	server.shared->withhold[0] = true;
	innermost_only(_metadata, self, variant->cpu, do_fuse_stack);
	EXPECT_EQ(0, server.shared->asked[0]);
	close(self->sh->file);
	fuse_server_stop(&server);
	EXPECT_EQ(0, remove_dir(dir));
}

/* Tasks that wake each other while flushes run */

#define PAIRS		6
#define RACE_SECONDS	5

static void *pair_thread(void *arg)
{
	int *fd = arg;
	char c = 0;

	while (!*race_stop) {
		if (write(fd[1], &c, 1) != 1 || read(fd[0], &c, 1) != 1)
			break;
	}
	close(fd[1]);
	return NULL;
}

static void do_pairs(void *arg)
{
	pthread_t threads[2 * PAIRS];
	int fds[2 * PAIRS][2];
	int there[2], back[2];
	unsigned int i;

	for (i = 0; i < PAIRS; i++) {
		if (pipe(there) || pipe(back))
			_exit(2);
		fds[2 * i][0]		= back[0];
		fds[2 * i][1]		= there[1];
		fds[2 * i + 1][0]	= there[0];
		fds[2 * i + 1][1]	= back[1];
	}
	for (i = 0; i < 2 * PAIRS; i++) {
		if (pthread_create(&threads[i], NULL, pair_thread, fds[i]))
			_exit(2);
	}
	for (i = 0; i < 2 * PAIRS; i++)
		pthread_join(threads[i], NULL);
}

TEST_F_TIMEOUT(event, race_with_wakeups, 300)
{
	struct perf_event_attr out = defer_attr_output();
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), DEFER_ATTR_CALLCHAIN);
	unsigned int flushes = 0, delivered = 0;
	struct defer_stats st;
	struct flush sum;
	char filter[64];
	unsigned int i;
	__u64 end;
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child, do_pairs, NULL));
	pid = self->child.pid;
	out.inherit = 1;
	attr.inherit = 1;
	/* Inherited events need one buffer for each CPU. */
	ASSERT_EQ(0, session_open(&self->s, &out, variant->cpu ? -1 : pid, ALL_CPUS, 512));
	ASSERT_EQ(0, session_add(&self->s, &attr));
	snprintf(filter, sizeof(filter), "id == %d", __NR_read);
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].extra[0], PERF_EVENT_IOC_SET_FILTER,
				   filter));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	end = now_nsec() + RACE_SECONDS * NSEC_PER_SEC;
	while (now_nsec() < end) {
		ASSERT_EQ(0, flush_all(&self->s, &sum));
		delivered += sum.delivered;
		flushes++;
		session_drain(&self->s);
	}
	*race_stop = true;
	ASSERT_EQ(0, child_wait(pid, &status, 30, &self->s));
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].extra[0], PERF_EVENT_IOC_DISABLE, 0));
	/* Others that sleep in read() */
	ASSERT_EQ(0, flush_all(&self->s, &sum));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	TH_LOG("%u flushes delivered %u of %u stacks", flushes, delivered, st.records);
	EXPECT_CONSERVED(&st);
	EXPECT_LT(0, delivered);
	EXPECT_LT(delivered, st.records);
}

/* A child that is being forked is no task yet that has the request of its parent. */

static void do_forks(void *arg)
{
	long pid;

	while (!*race_stop) {
		pid = raw(__NR_clone, SIGCHLD, 0, 0, 0, 0, 0);
		if (!pid)
			raw(__NR_exit, 0, 0, 0, 0, 0, 0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			_exit(2);
	}
}

TEST_F_TIMEOUT(event, race_with_forks, 300)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	unsigned int flushes = 0, i;
	struct defer_stats st;
	struct flush sum;
	char filter[32];
	__u64 end;
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child, do_forks, NULL));
	pid = self->child.pid;
	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, variant->cpu ? -1 : pid, ALL_CPUS, 512));
	snprintf(filter, sizeof(filter), "id == %d", __NR_clone);
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	end = now_nsec() + RACE_SECONDS * NSEC_PER_SEC;
	while (now_nsec() < end) {
		ASSERT_EQ(0, flush_all(&self->s, &sum));
		flushes++;
		session_drain(&self->s);
	}
	*race_stop = true;
	ASSERT_EQ(0, child_wait(pid, &status, 30, &self->s));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	TH_LOG("%u flushes, %u stacks", flushes, st.records);
	EXPECT_CONSERVED(&st);
	EXPECT_LT(0, st.records);
}

/* What an event of one task may flush */

#define PARANOID	"/proc/sys/kernel/perf_event_paranoid"
#define NOBODY		65534
/* Few pages, because those of an unprivileged user are limited */
#define FEW_PAGES	8

static void do_read(void *arg)
{
	block_read(arg);
}

struct program {
	struct shared *sh;
	const char *path;
};

/* As a user without privileges, run a program that blocks in read(). */
static void do_program(void *arg)
{
	struct program *p = arg;

	if (setresuid(NOBODY, NOBODY, NOBODY) || dup2(p->sh->pipe[0], STDIN_FILENO) < 0)
		_exit(2);
	execl(p->path, "cat", NULL);
	_exit(3);
}

/* Wait until a child has become the program and waits for a byte; returns its user. */
static int wait_program(pid_t pid)
{
	__u64 end = now_nsec() + 30 * NSEC_PER_SEC;
	char text[1024], *uid;
	int effective;

	while (now_nsec() < end) {
		read_proc(pid, "comm", text, sizeof(text));
		if (!strcmp(text, "cat\n") && waits_for_pipe(pid)) {
			read_proc(pid, "status", text, sizeof(text));
			uid = strstr(text, "Uid:");
			if (uid && sscanf(uid, "Uid: %*d %d", &effective) == 1)
				return effective;
		}
		usleep(1000);
	}
	return -1;
}

FIXTURE(other) {
	struct session s;
	struct child child;
	struct shared *sh;
	char dir[64];
	long paranoid;
};

FIXTURE_VARIANT(other) {
	mode_t mode;
};

/* No event of a user without privileges survives the start of a set-user-ID program. */
FIXTURE_VARIANT_ADD(other, program) { .mode = 0755 };
FIXTURE_VARIANT_ADD(other, set_uid_program) { .mode = 04755 };

FIXTURE_SETUP(other)
{
	const char *why = defer_unsupported();

	self->paranoid = LONG_MAX;
	if (why)
		SKIP(return, "%s", why);
	self->sh = mmap(NULL, sizeof(*self->sh), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->sh);
	ASSERT_EQ(0, pipe(self->sh->pipe));
	ASSERT_EQ(0, make_dir(self->dir, sizeof(self->dir)));
	ASSERT_EQ(0, chmod(self->dir, 0755));
	ASSERT_EQ(0, read_long(PARANOID, &self->paranoid));
	ASSERT_EQ(0, write_long(PARANOID, 1));
}

FIXTURE_TEARDOWN(other)
{
	ASSERT_EQ(0, seteuid(0));
	session_close(&self->s);
	munmap(self->sh, sizeof(*self->sh));
	EXPECT_EQ(0, remove_dir(self->dir));
	if (self->paranoid != LONG_MAX)
		EXPECT_EQ(0, write_long(PARANOID, self->paranoid));
}

TEST_F_TIMEOUT(other, user, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct program p = { .sh = self->sh };
	struct flush sum;
	char command[128];
	int euid, status;
	pid_t pid;

	p.path = file_path(self->dir, "cat");
	snprintf(command, sizeof(command), "cp /bin/cat %s", p.path);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, chmod(p.path, variant->mode));

	attr.inherit = 1;
	ASSERT_EQ(0, seteuid(NOBODY));
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, ALL_CPUS, FEW_PAGES));
	ASSERT_EQ(0, child_spawn(&self->child, do_program, &p));
	pid = self->child.pid;
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, set_filter(&self->s, __NR_read, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child));
	/* Only root may see where another's program waits. */
	ASSERT_EQ(0, seteuid(0));
	euid = wait_program(pid);
	ASSERT_LE(0, euid);
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, seteuid(NOBODY));
	if (variant->mode & 04000 && euid)
		SKIP(goto out, "no set-user-ID programs in %s", self->dir);

	ASSERT_EQ(0, flush_blocked(&self->s, &sum));
	TH_LOG("%u delivered, %u busy, %u failed", sum.delivered, sum.busy, sum.failed);
	EXPECT_EQ(!(variant->mode & 04000), sum.delivered);
	EXPECT_EQ(0, sum.busy);
	EXPECT_EQ(0, sum.failed);
out:
	ASSERT_EQ(0, seteuid(0));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
}

/* Arguments */

FIXTURE(abi) {
	struct session s;
	struct session all;
	struct child child[2];
	struct shared *sh;
};

FIXTURE_SETUP(abi)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
	self->sh = mmap(NULL, sizeof(*self->sh), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->sh);
	ASSERT_EQ(0, pipe(self->sh->pipe));
}

FIXTURE_TEARDOWN(abi)
{
	session_close(&self->s);
	session_close(&self->all);
	munmap(self->sh, sizeof(*self->sh));
}

#define EXPECT_FLUSH_ERROR(err, fd, arg) do {				\
	EXPECT_EQ(-1, ioctl(fd, IOC_FLUSH, arg));			\
	EXPECT_EQ(err, errno);						\
} while (0)

TEST_F(abi, arguments)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct {
		struct flush	arg;
		__u64		more;
	} longer = { };
	struct flush arg = { };
	int fd;

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	fd = self->s.bufs[0].fd;
	EXPECT_FLUSH_ERROR(EFAULT, fd, NULL);
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	arg.size = sizeof(arg) - 4;
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	arg.size = 2 * PAGE;
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	arg = (struct flush) { .size = sizeof(arg), .flags = 1 };
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	arg = (struct flush) { .size = sizeof(arg), .reserved = 1 };
	EXPECT_FLUSH_ERROR(EINVAL, fd, &arg);
	longer.arg.size = sizeof(longer);
	EXPECT_EQ(0, ioctl(fd, IOC_FLUSH, &longer));
	longer.more = 1;
	EXPECT_FLUSH_ERROR(E2BIG, fd, &longer);
}

TEST_F(abi, event_without_callchains)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), 0);
	struct flush arg = { .size = sizeof(arg) };

	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	EXPECT_FLUSH_ERROR(EINVAL, self->s.bufs[0].fd, &arg);
}

/* Of two tasks that sleep with a request, the event of one delivers the stack of that one. */
TEST_F_TIMEOUT(abi, other_task, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct session *sessions[2] = { &self->s, &self->all };
	const struct log_item *it;
	struct flush sum;
	unsigned int i;
	int status;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, child_spawn(&self->child[i], do_read, self->sh));
		ASSERT_EQ(0, wait_blocked(self->child[i].pid));
		ASSERT_EQ(0, open_for(sessions[i], &attr, self->child[i].pid, i == 1));
		ASSERT_EQ(0, set_filter(sessions[i], __NR_read, self->child[i].pid));
		ASSERT_EQ(0, session_enable(sessions[i]));
		ASSERT_EQ(0, child_go(&self->child[i]));
		ASSERT_EQ(0, session_wait(sessions[i], 1, 30));
		ASSERT_EQ(0, wait_blocked(self->child[i].pid));
	}

	ASSERT_EQ(0, flush_blocked(&self->s, &sum));
	EXPECT_EQ(1, sum.delivered);
	session_drain(&self->all);
	ASSERT_EQ(0, log_parse(&self->all.log));
	for (i = 0; (it = log_nth(&self->all.log, DEFER_RECORD, i)); i++)
		EXPECT_NE(self->child[1].pid, (pid_t)it->pid);
	ASSERT_EQ(0, flush_blocked(&self->all, &sum));
	EXPECT_LE(1, sum.delivered);
	session_drain(&self->all);
	ASSERT_EQ(0, log_parse(&self->all.log));
	for (i = 0; (it = log_nth(&self->all.log, DEFER_RECORD, i)); i++) {
		if (it->pid == (__u32)self->child[1].pid)
			break;
	}
	EXPECT_NE(NULL, it);

	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, child_wait(self->child[i].pid, &status, 30, sessions[i]));
}

TEST_F(abi, max)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	unsigned int i, delivered = 0, left = 0;
	struct flush sum;
	char filter[64];
	int status, cpu;

	/* Both samples on one CPU */
	cpu = pin_to_cpu(-1);
	ASSERT_LE(0, cpu);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, child_spawn(&self->child[i], do_read, self->sh));
		ASSERT_EQ(0, wait_blocked(self->child[i].pid));
	}
	ASSERT_EQ(0, session_open(&self->s, &attr, -1, cpu, SESSION_PAGES));
	snprintf(filter, sizeof(filter), "id == %d && (common_pid == %d || common_pid == %d)",
		 __NR_read, self->child[0].pid, self->child[1].pid);
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, child_go(&self->child[i]));
	ASSERT_EQ(0, session_wait(&self->s, 2, 30));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, wait_blocked(self->child[i].pid));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, flush_blocked_one(self->s.bufs[0].fd, 1, &sum));
		EXPECT_EQ(1, sum.delivered);
		delivered += sum.delivered;
		left += sum.left;
	}
	EXPECT_EQ(2, delivered);
	EXPECT_EQ(1, left);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, child_wait(self->child[i].pid, &status, 30, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_EQ(2, log_count(&self->s.log, DEFER_RECORD));
}

/* Requests of several CPUs, for an event that has no CPU of its own */

struct pinned {
	struct shared *sh;
	int cpu;
};

static void *pinned_thread(void *arg)
{
	struct pinned *p = arg;

	pin_to_cpu(p->cpu);
	block_read(p->sh);
	return NULL;
}

static void do_pinned(void *arg)
{
	struct pinned p[2] = { { arg, 0 }, { arg, 1 } };
	pthread_t threads[2];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (pthread_create(&threads[i], NULL, pinned_thread, &p[i]))
			_exit(2);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

TEST_F_TIMEOUT(abi, several_cpus, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct flush sum = { };
	struct defer_stats st;
	unsigned int i, tries;
	char filter[32];
	int fd, status;
	pid_t pid;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "only one CPU");
	ASSERT_EQ(0, child_spawn(&self->child[0], do_pinned, self->sh));
	pid = self->child[0].pid;
	ASSERT_EQ(0, wait_blocked(pid));
	attr.inherit = 1;
	ASSERT_EQ(0, session_open(&self->s, &attr, pid, ALL_CPUS, SESSION_PAGES));
	snprintf(filter, sizeof(filter), "id == %d", __NR_read);
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	fd = event_open(&attr, pid, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child[0]));
	ASSERT_EQ(0, session_wait(&self->s, 2, 30));
	for (tries = 0; tries < 1000 && sum.delivered < 2; tries++) {
		ASSERT_EQ(0, flush_one(fd, 0, &sum));
		EXPECT_EQ(0, sum.failed);
		usleep(10000);
	}
	EXPECT_EQ(2, sum.delivered);
	close(fd);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	ASSERT_EQ(0, child_wait(pid, &status, 30, &self->s));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(2, st.records);
}

static void do_warm_read(void *arg)
{
	int i;

	for (i = 0; i < 10 * WARM; i++)
		known_walk_syscall(ID, BITS, __NR_getpgid, 0, 0);
	block_read(arg);
}

/* Another session has no room: the one that has does not get the stack twice. */
TEST_F_TIMEOUT(abi, full_buffer, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct flush sum = { };
	struct defer_stats st;
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child[0], do_warm_read, self->sh));
	pid = self->child[0].pid;
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, open_for(&self->s, &attr, pid, false));
	ASSERT_EQ(0, session_open(&self->all, &attr, pid, -1, 1));
	ASSERT_EQ(0, set_filter(&self->s, __NR_read, pid));
	ASSERT_EQ(0, set_filter(&self->all, __NR_read, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, session_enable(&self->all));
	ASSERT_EQ(0, child_go(&self->child[0]));
	ASSERT_EQ(0, session_wait(&self->s, 10 * WARM + 1, 30));
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, flush_blocked_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);
	ASSERT_EQ(0, flush_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);
	ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	ASSERT_EQ(0, child_wait(pid, &status, 30, NULL));
	ASSERT_EQ(0, session_finish(&self->all));
	EXPECT_GT(10 * WARM, log_count(&self->all.log, PERF_RECORD_SAMPLE));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(10 * WARM + 1, st.records);
}

/* The only buffer has no room: the stack comes when there is room again. */
TEST_F_TIMEOUT(abi, no_room, 120)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct perf_event_attr count = tp_attr(TRACEPOINT_ID(TP_RAW), 0);
	unsigned int records;
	struct flush sum = { };
	int status;
	pid_t pid;

	ASSERT_EQ(0, child_spawn(&self->child[0], do_warm_read, self->sh));
	pid = self->child[0].pid;
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, session_open(&self->s, &attr, pid, -1, 1));
	ASSERT_EQ(0, open_for(&self->all, &count, pid, false));
	ASSERT_EQ(0, set_filter(&self->s, __NR_read, pid));
	ASSERT_EQ(0, set_filter(&self->all, __NR_read, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, session_enable(&self->all));
	ASSERT_EQ(0, child_go(&self->child[0]));
	ASSERT_EQ(0, session_wait(&self->all, 10 * WARM + 1, 30));
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, flush_blocked_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(0, sum.delivered);
	EXPECT_EQ(1, sum.failed);
	session_drain(&self->s);
	ASSERT_EQ(0, log_parse(&self->s.log));
	records = log_count(&self->s.log, DEFER_RECORD);
	memset(&sum, 0, sizeof(sum));
	ASSERT_EQ(0, flush_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);
	ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	ASSERT_EQ(0, child_wait(pid, &status, 30, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(records + 1, log_count(&self->s.log, DEFER_RECORD));
	/* A record of what was lost is in front of it. */
	EXPECT_LT(0, self->s.log.lost);
	EXPECT_EQ((unsigned int)pid, log_nth(&self->s.log, DEFER_RECORD, records)->tid);
}

/* The event of one CPU, which is not the first, gets the stack of a request there. */
TEST_F(abi, event_of_last_cpu)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct flush sum = { };
	struct defer_stats st;
	cpu_set_t cpus;
	int status, cpu;
	pid_t pid;

	cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	if (cpu < 1)
		SKIP(return, "only one CPU");
	ASSERT_EQ(0, child_spawn(&self->child[0], do_read, self->sh));
	pid = self->child[0].pid;
	ASSERT_EQ(0, wait_blocked(pid));
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	ASSERT_EQ(0, sched_setaffinity(pid, sizeof(cpus), &cpus));
	ASSERT_EQ(0, session_open(&self->s, &attr, -1, cpu, SESSION_PAGES));
	ASSERT_EQ(0, set_filter(&self->s, __NR_read, pid));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child[0]));
	ASSERT_EQ(0, session_wait(&self->s, 1, 30));
	ASSERT_EQ(0, wait_blocked(pid));
	ASSERT_EQ(0, flush_blocked_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);
	ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	ASSERT_EQ(0, child_wait(pid, &status, 30, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(1, st.records);
}

/* If no event can take the stack, the request stays, and the stack comes later. */
TEST_F(abi, disabled_event)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID(TP_RAW), BOTH);
	struct flush sum = { };
	struct defer_stats st;
	char filter[64];
	int status, cpu;

	cpu = pin_to_cpu(-1);
	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, child_spawn(&self->child[0], do_read, self->sh));
	ASSERT_EQ(0, wait_blocked(self->child[0].pid));
	ASSERT_EQ(0, session_open(&self->s, &attr, -1, cpu, SESSION_PAGES));
	snprintf(filter, sizeof(filter), "id == %d && common_pid == %d", __NR_read,
		 self->child[0].pid);
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, child_go(&self->child[0]));
	ASSERT_EQ(0, session_wait(&self->s, 1, 30));
	ASSERT_EQ(0, wait_blocked(self->child[0].pid));

	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, flush_blocked_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(0, sum.delivered);
	EXPECT_EQ(1, sum.failed);

	memset(&sum, 0, sizeof(sum));
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_EQ(0, flush_one(self->s.bufs[0].fd, 0, &sum));
	EXPECT_EQ(1, sum.delivered);
	EXPECT_EQ(0, sum.failed);

	ASSERT_EQ(1, write(self->sh->pipe[1], "x", 1));
	ASSERT_EQ(0, child_wait(self->child[0].pid, &status, 30, NULL));
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.missing);
}

#else /* !__x86_64__ */

TEST(flush)
{
	SKIP(return, "the system calls are written for x86-64");
}

#endif

TEST_HARNESS_MAIN
