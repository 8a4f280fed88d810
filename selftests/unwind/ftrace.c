// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user stacks in ftrace: the option userstacktrace-deferred, as seen in
 * the raw buffers and in the text files, alone and together with other clients.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/child.h"
#include "../perf_events/lib/defer.h"
#include "../perf_events/lib/event.h"
#include "../perf_events/lib/files.h"
#include "../perf_events/lib/known_stack.h"
#include "../perf_events/lib/session.h"
#include "lib/client.h"
#include "lib/trace_log.h"
#include "lib/tracefs.h"
#include "unwind_client.h"

#define BITS	REQUEST_BITS
#define ID	0x2b1
#define WALKS	30

#define GETPGID		"syscalls/sys_enter_getpgid"
#define GETPPID		"syscalls/sys_enter_getppid"
#define NANOSLEEP	"syscalls/sys_enter_nanosleep"
#define IOCTL		"syscalls/sys_enter_ioctl"

/* How long a request is kept pending while something is done to the instance. */
#define PENDING_NS	(400 * 1000 * 1000L)

static const char *ftrace_unsupported(void)
{
	struct tracefs top;
	char path[256];

	if (!HAVE_KNOWN_STACK)
		return "no known-stack code for this architecture";
	if (geteuid())
		return "must be run as root";
	if (tracefs_open(&top, NULL))
		return "no tracefs";
	if (access(DEFER_SYSCTL, R_OK))
		return "kernel built without deferred unwinding";
	tracefs_path(&top, TRACE_DEFER, path, sizeof(path));
	if (access(path, F_OK))
		return "kernel without the option userstacktrace-deferred";
	return NULL;
}

static int event_enable(const struct tracefs *t, const char *event, int on)
{
	char file[128];

	snprintf(file, sizeof(file), "events/%s/enable", event);
	return tracefs_write(t, file, "%d", on);
}

/* An instance with the option set that traces only this thread. */
static int instance_open(struct tracefs *t, const char *name, bool defer)
{
	return tracefs_open(t, name) ?:
	       tracefs_write(t, "set_event_pid", "%d", gettid()) ?:
	       (defer ? tracefs_write(t, TRACE_DEFER, "1") : 0);
}

/* i-th cookie of the log, counting each event that carries one. */
static __u64 nth_cookie(const struct trace_log *log, unsigned int i)
{
	unsigned int j;

	for (j = 0; j < log->nr_items; j++) {
		if (log->items[j].id == log->id_cookie && !i--)
			return log->items[j].cookie;
	}
	return 0;
}

static bool same_stack(const struct trace_log *log, __u64 cookie, __u64 id,
		       const void *leaf_ip)
{
	const struct trace_item *it = trace_log_stack(log, cookie);
	__u64 want[64];
	int nr = known_expect(want, id, BITS, leaf_ip);

	if (!it) {
		fprintf(stderr, "# not one stack for cookie %llx\n", cookie);
		return false;
	}
	return it->tgid == (unsigned int)getpid() &&
	       stack_same(it->callers, it->nr, want, nr);
}

#define READ_LOG(log, t) do {						\
	ASSERT_EQ(0, trace_log_read(log, t));				\
	EXPECT_EQ(NULL, (log)->error) {					\
		TH_LOG("%s", (log)->error);				\
	}								\
} while (0)

/* One instance */

FIXTURE(ftrace) {
	struct tracefs top;
	struct tracefs t;
	struct trace_log log;
	struct trace_stats st;
};

FIXTURE_SETUP(ftrace)
{
	const char *why = ftrace_unsupported();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, trace_log_init(&self->log)) {
		TH_LOG("%s", self->log.error);
	}
	ASSERT_EQ(0, tracefs_open(&self->top, NULL));
	ASSERT_LE(0, pin_to_cpu(-1));
	ASSERT_EQ(0, instance_open(&self->t, "unwind_a", true));
}

FIXTURE_TEARDOWN(ftrace)
{
	EXPECT_EQ(0, tracefs_close(&self->t));
	/* Remove the probes that some tests add. */
	tracefs_append(&self->top, "kprobe_events", "-:unwind/getpgid");
	tracefs_append(&self->top, "uprobe_events", "-:unwind/nop");
	trace_log_free(&self->log);
}

/* Off by default, and an instance does not inherit it. */
TEST_F(ftrace, option)
{
	struct tracefs b;

	EXPECT_EQ(1, tracefs_option(&self->t, TRACE_DEFER));
	EXPECT_EQ(0, tracefs_option(&self->top, TRACE_DEFER));
	ASSERT_EQ(0, tracefs_write(&self->top, TRACE_DEFER, "1"));
	ASSERT_EQ(0, tracefs_open(&b, "unwind_b"));
	EXPECT_EQ(0, tracefs_option(&b, TRACE_DEFER));
	EXPECT_EQ(1, tracefs_option(&self->top, TRACE_DEFER));
	EXPECT_EQ(0, tracefs_write(&b, "trace_options",
				   "userstacktrace-deferred"));
	EXPECT_EQ(1, tracefs_option(&b, TRACE_DEFER));
	EXPECT_EQ(0, tracefs_write(&b, "trace_options",
				   "nouserstacktrace-deferred"));
	EXPECT_EQ(0, tracefs_option(&b, TRACE_DEFER));
	EXPECT_EQ(0, tracefs_close(&b));
	EXPECT_EQ(0, tracefs_write(&self->top, TRACE_DEFER, "0"));
}

/* A cookie must follow each event, and each cookie must have the expected stack. */
static void check_walks(struct __test_metadata *_metadata,
			FIXTURE_DATA(ftrace) *self, const char *event)
{
	unsigned int i;

	for (i = 0; i < WALKS; i++)
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, tracefs_write(&self->t, "tracing_on", "0"));
	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(event));
	trace_print(&self->st);
	ASSERT_EQ(WALKS, self->st.events);
	EXPECT_EQ(WALKS, self->st.with_cookie);
	EXPECT_EQ(0, self->st.immediate);
	EXPECT_EQ(WALKS, self->st.cookies);
	EXPECT_EQ(WALKS, self->st.stacks);
	EXPECT_EQ(0, self->st.unmatched);
	EXPECT_EQ(0, self->st.unasked);
	for (i = 0; i < WALKS; i++)
		EXPECT_TRUE(same_stack(&self->log, nth_cookie(&self->log, i), i,
				       walk_syscall_ip));
}

TEST_F(ftrace, tracepoint)
{
	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 1));
	check_walks(_metadata, self, GETPGID);
}

static void check_probe(struct __test_metadata *_metadata,
			FIXTURE_DATA(ftrace) *self, const char *probe)
{
	if (tracefs_append(&self->top, "kprobe_events", "%s", probe))
		SKIP(return, "kernel without kprobe events");
	ASSERT_EQ(0, event_enable(&self->t, "unwind/getpgid", 1));
	check_walks(_metadata, self, "unwind/getpgid");
}

TEST_F(ftrace, kprobe)
{
	check_probe(_metadata, self, "p:unwind/getpgid __x64_sys_getpgid");
}

TEST_F(ftrace, kretprobe)
{
	check_probe(_metadata, self, "r:unwind/getpgid __x64_sys_getpgid");
}

#define FUNCTION(t, filter) do {					\
	if (tracefs_write(t, "set_ftrace_filter", "%s", filter))	\
		SKIP(return, "function tracer: no %s", filter);		\
	ASSERT_EQ(0, tracefs_write(t, "set_ftrace_pid", "%d", gettid())); \
	if (tracefs_write(t, "current_tracer", "function"))		\
		SKIP(return, "kernel without function tracer");		\
} while (0)

TEST_F(ftrace, function)
{
	FUNCTION(&self->t, "__x64_sys_getpgid");
	check_walks(_metadata, self, "ftrace/function");
}

/* The event itself is not enabled: its kernel stack has the cookie. */
TEST_F(ftrace, stacktrace_trigger)
{
	ASSERT_EQ(0, tracefs_append(&self->t, "events/" GETPGID "/trigger",
				    "stacktrace"));
	check_walks(_metadata, self, "ftrace/kernel_stack");
	EXPECT_EQ(0, tracefs_append(&self->t, "events/" GETPGID "/trigger",
				    "!stacktrace"));
}

/* With kernel stacks in between, each user stack still comes once. */
TEST_F(ftrace, with_kernel_stacks)
{
	unsigned int i;

	ASSERT_EQ(0, tracefs_write(&self->t, "options/stacktrace", "1"));
	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 1));
	for (i = 0; i < WALKS; i++)
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(GETPGID));
	EXPECT_EQ(WALKS, self->st.events);
	EXPECT_EQ(WALKS, self->st.cookies);
	EXPECT_EQ(WALKS, self->st.stacks);
	EXPECT_EQ(0, self->st.unmatched);
}

/*
 * Trace all functions. Functions of one kernel entry share a cookie, even after the
 * stack was written. Functions of the deferred work itself do not request a stack.
 */
TEST_F_TIMEOUT(ftrace, one_stack_per_entry, 120)
{
	const unsigned int walks = 10;
	unsigned int i, j, n, nr, all = 0;
	__u64 want[64];

	if (tracefs_write(&self->t, "set_ftrace_pid", "%d", gettid()))
		SKIP(return, "kernel without function tracer");
	ASSERT_EQ(0, tracefs_write(&self->t, "buffer_size_kb", "16384"));
	ASSERT_EQ(0, tracefs_write(&self->t, "current_tracer", "function"));
	for (i = 0; i < walks; i++)
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, tracefs_write(&self->t, "tracing_on", "0"));
	READ_LOG(&self->log, &self->t);
	/* Another tracer begins with an empty buffer. */
	ASSERT_EQ(0, tracefs_write(&self->t, "current_tracer", "nop"));
	self->st = trace_log_conserve(&self->log,
				      trace_event_id("ftrace/function"));
	trace_print(&self->st);
	EXPECT_EQ(0, self->st.immediate);
	EXPECT_EQ(0, self->st.unasked);
	/* The system call that stopped tracing may have a cookie without a stack. */
	EXPECT_GE(1, self->st.unmatched);
	for (i = 0; i < walks; i++) {
		nr = known_expect(want, i, BITS, walk_syscall_ip);
		for (j = 0, n = 0; j < self->log.nr_items; j++) {
			const struct trace_item *it = &self->log.items[j];

			n += it->id == self->log.id_stack && it->nr == nr &&
			     !memcmp(it->callers, want, nr * sizeof(*want));
		}
		EXPECT_LE(1, n);
		all += n;
	}
	TH_LOG("%u stacks of %u system calls", all, walks);
	/* An interrupt in the callbacks may bring one more. */
	EXPECT_GE(walks + 2, all);
}

/* Requests that come after the last check for exit work. */
TEST_F(ftrace, last_steps)
{
	struct timespec ts = { .tv_nsec = 1000 * 1000 };
	unsigned int i, n = 0;
	__u64 cookie, id;
	unsigned int bits;

	FUNCTION(&self->t, "switch_fpu_return");
	for (i = 0; i < WALKS; i++) {
		known_walk_syscall(i, BITS, __NR_nanosleep, (long)&ts, 0);
		/* Other stacks at the same place. */
		known_walk_spin(~0ULL, BITS, 1000);
		known_walk_syscall(~0ULL, BITS, __NR_getpgid, 0, 0);
	}
	ASSERT_EQ(0, tracefs_write(&self->t, "tracing_on", "0"));
	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log,
				      trace_event_id("ftrace/function"));
	trace_print(&self->st);
	EXPECT_LE(WALKS, self->st.with_cookie);
	EXPECT_EQ(self->st.cookies, self->st.stacks);
	EXPECT_EQ(0, self->st.unmatched);
	/* Other stacks are from this function's own system calls. */
	for (i = 0; (cookie = nth_cookie(&self->log, i)); i++) {
		const struct trace_item *it;

		it = trace_log_stack(&self->log, cookie);
		if (!it || !it->nr ||
		    it->callers[0] != (__u64)walk_syscall_ip ||
		    !known_decode(it->callers, it->nr, &id, &bits) ||
		    id != n)
			continue;
		n++;
	}
	EXPECT_EQ(WALKS, n);
}

/* Text */

static char text[1 << 20];

/* The cookie of the next "<user stack cookie: ..."; 0 if there is none. */
static __u64 text_cookie(const char **s)
{
	static const char find[] = "<user stack cookie: ";

	*s = strstr(*s, find);
	if (!*s)
		return 0;
	*s += strlen(find);
	return strtoull(*s, NULL, 16);
}

/* The addresses after "<user stack trace: cookie>"; their number, or -1. */
static int text_stack(const char *s, __u64 cookie, __u64 *ips, int max)
{
	char find[64];
	int nr = 0;

	snprintf(find, sizeof(find), "<user stack trace: %llx>\n", cookie);
	s = strstr(s, find);
	if (!s)
		return -1;
	s += strlen(find);
	while (nr < max && sscanf(s, " =>  <%llx>", &ips[nr]) == 1) {
		nr++;
		s = strchr(s, '\n');
		if (!s)
			break;
		s++;
	}
	return nr;
}

TEST_F(ftrace, text)
{
	__u64 cookie, want[64], ips[64];
	const char *s = text;
	unsigned int i;
	int nr;

	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 1));
	for (i = 0; i < WALKS; i++)
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 0));
	ASSERT_LT(0, tracefs_read(&self->t, "trace", text, sizeof(text)));
	for (i = 0; i < WALKS; i++) {
		cookie = text_cookie(&s);
		ASSERT_NE(0, cookie);
		nr = text_stack(text, cookie, ips, ARRAY_SIZE(ips));
		EXPECT_TRUE(stack_same(ips, nr, want,
				       known_expect(want, i, BITS,
						    walk_syscall_ip)));
	}
	EXPECT_EQ(0, text_cookie(&s));
}

TEST_F(ftrace, trace_pipe)
{
	__u64 cookie, want[64], ips[64];
	const char *s = text;
	char path[256];
	ssize_t n;
	int fd;

	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 1));
	known_walk_syscall(ID, BITS, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 0));
	tracefs_path(&self->t, "trace_pipe", path, sizeof(path));
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ASSERT_LE(0, fd);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	ASSERT_LT(0, n);
	text[n] = '\0';
	cookie = text_cookie(&s);
	ASSERT_NE(0, cookie);
	EXPECT_TRUE(stack_same(ips,
			       text_stack(s, cookie, ips, ARRAY_SIZE(ips)),
			       want, known_expect(want, ID, BITS,
						  walk_syscall_ip)));
}

/* Stacks that are not deferred */

/* All events of the log have immediate stacks of walks with ids from 0 on. */
static void check_immediate(struct __test_metadata *_metadata,
			    FIXTURE_DATA(ftrace) *self, const char *event,
			    const void *leaf_ip)
{
	__u64 want[64];
	unsigned int i, n = 0;

	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(event));
	trace_print(&self->st);
	EXPECT_EQ(WALKS, self->st.events);
	EXPECT_EQ(WALKS, self->st.immediate);
	EXPECT_EQ(0, self->st.cookies);
	EXPECT_EQ(0, self->st.stacks);
	for (i = 0; i < self->log.nr_items; i++) {
		const struct trace_item *it = &self->log.items[i];

		if (it->id != self->log.id_immediate)
			continue;
		known_expect(want, n++, BITS, leaf_ip);
		EXPECT_TRUE(stack_same(it->callers, it->nr, want,
				       TRACE_NR_IMMEDIATE));
	}
}

/* The handler of a uprobe runs in task context and can read the stack at once. */
TEST_F(ftrace, uprobe)
{
	char path[PATH_MAX] = "";
	unsigned int i;

	ASSERT_LT(0, readlink("/proc/self/exe", path, sizeof(path) - 1));
	if (tracefs_append(&self->top, "uprobe_events", "p:unwind/nop %s:0x%lx",
			   path, file_offset(walk_nop)))
		SKIP(return, "kernel without uprobe events");
	/*
	 * Nobody else runs this code, and uprobes look at the filter with
	 * preemption enabled, which CONFIG_DEBUG_PREEMPT complains about.
	 */
	ASSERT_EQ(0, tracefs_write(&self->t, "set_event_pid", "\n"));
	ASSERT_EQ(0, event_enable(&self->t, "unwind/nop", 1));
	for (i = 0; i < WALKS; i++)
		walk_top(i, BITS, walk_nop, 0, 0, 0);
	ASSERT_EQ(0, event_enable(&self->t, "unwind/nop", 0));
	check_immediate(_metadata, self, "unwind/nop", walk_nop);
}

TEST_F(ftrace, sysctl)
{
	unsigned int i;

	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 1));
	ASSERT_EQ(0, write_long(DEFER_SYSCTL, 0));
	for (i = 0; i < WALKS; i++)
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, write_long(DEFER_SYSCTL, 1));
	check_immediate(_metadata, self, GETPGID, walk_syscall_ip);
}

/* Life of a task */

static void do_exit_group(void *arg)
{
	known_walk_syscall(ID, BITS, __NR_exit_group, 0, 0);
}

static void do_exec(void *arg)
{
	static const char * const argv[] = { "/bin/true", NULL };

	known_walk_syscall(ID, BITS, __NR_execve, (long)argv[0], (long)argv);
	_exit(1);
}

/*
 * A stack requested in the last system call of a program is read from its old memory.
 */
static void check_last(struct __test_metadata *_metadata,
		       FIXTURE_DATA(ftrace) *self, const char *event,
		       void (*fn)(void *))
{
	const struct trace_item *it;
	struct child child;
	__u64 want[64];
	int status;

	ASSERT_EQ(0, event_enable(&self->t, event, 1));
	ASSERT_EQ(0, child_spawn(&child, fn, NULL));
	ASSERT_EQ(0, tracefs_write(&self->t, "set_event_pid", "%d", child.pid));
	ASSERT_EQ(0, child_go(&child));
	ASSERT_EQ(0, child_wait(child.pid, &status, 20, NULL));
	EXPECT_EQ(0, status);
	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(event));
	trace_print(&self->st);
	EXPECT_EQ(1, self->st.with_cookie);
	it = trace_log_stack(&self->log, nth_cookie(&self->log, 0));
	ASSERT_NE(NULL, it);
	EXPECT_EQ(child.pid, it->tgid);
	EXPECT_TRUE(stack_same(it->callers, it->nr, want,
			       known_expect(want, ID, BITS, walk_syscall_ip)));
}

TEST_F(ftrace, exit)
{
	check_last(_metadata, self, "syscalls/sys_enter_exit_group",
		   do_exit_group);
}

TEST_F(ftrace, execve)
{
	check_last(_metadata, self, "syscalls/sys_enter_execve", do_exec);
}

/* Changes while a request is pending */

static struct sleeper {
	pthread_t	thread;
	pid_t		tid;
} sleeper;

static void *sleeper_fn(void *arg)
{
	struct timespec ts = { .tv_nsec = PENDING_NS };

	__atomic_store_n(&sleeper.tid, gettid(), __ATOMIC_RELEASE);
	/* Until it is traced. */
	while (__atomic_load_n(&sleeper.tid, __ATOMIC_ACQUIRE))
		;
	known_walk_syscall(ID, BITS, __NR_nanosleep, (long)&ts, 0);
	return NULL;
}

static int sleeper_start(struct tracefs *a, struct tracefs *b)
{
	struct timespec ts = { .tv_nsec = PENDING_NS / 4 };
	pid_t tid;
	int ret;

	sleeper.tid = 0;
	ret = -pthread_create(&sleeper.thread, NULL, sleeper_fn, NULL);
	if (ret)
		return ret;
	while (!(tid = __atomic_load_n(&sleeper.tid, __ATOMIC_ACQUIRE)))
		sched_yield();
	ret = tracefs_write(a, "set_event_pid", "%d", tid) ?:
	      event_enable(a, NANOSLEEP, 1);
	if (!ret && b)
		ret = tracefs_write(b, "set_event_pid", "%d", tid) ?:
		      event_enable(b, NANOSLEEP, 1);
	__atomic_store_n(&sleeper.tid, 0, __ATOMIC_RELEASE);
	/* Wait until it is in its system call. */
	nanosleep(&ts, NULL);
	return ret;
}

/* Clearing the option cancels a pending request, even if the option is set again. */
TEST_F(ftrace, toggled_while_pending)
{
	ASSERT_EQ(0, sleeper_start(&self->t, NULL));
	ASSERT_EQ(0, tracefs_write(&self->t, TRACE_DEFER, "0"));
	ASSERT_EQ(0, tracefs_write(&self->t, TRACE_DEFER, "1"));
	ASSERT_EQ(0, pthread_join(sleeper.thread, NULL));
	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(NANOSLEEP));
	EXPECT_EQ(1, self->st.with_cookie);
	EXPECT_EQ(0, self->st.stacks);
	trace_log_free(&self->log);
	/* From now on it works. */
	ASSERT_EQ(0, event_enable(&self->t, NANOSLEEP, 0));
	ASSERT_EQ(0, tracefs_write(&self->t, "set_event_pid", "%d", gettid()));
	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 1));
	check_walks(_metadata, self, GETPGID);
}

/* The remaining instance still gets the stack that it requested. */
TEST_F(ftrace, removed_while_pending)
{
	struct tracefs b;

	ASSERT_EQ(0, instance_open(&b, "unwind_b", true));
	ASSERT_EQ(0, sleeper_start(&self->t, &b));
	ASSERT_EQ(0, tracefs_close(&b));
	ASSERT_EQ(0, pthread_join(sleeper.thread, NULL));
	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(NANOSLEEP));
	trace_print(&self->st);
	EXPECT_EQ(1, self->st.with_cookie);
	EXPECT_TRUE(same_stack(&self->log, nth_cookie(&self->log, 0), ID,
			       walk_syscall_ip));
}

/* A stopped buffer gets no stack. Later stacks are not affected. */
TEST_F(ftrace, stopped_while_pending)
{
	ASSERT_EQ(0, sleeper_start(&self->t, NULL));
	ASSERT_EQ(0, tracefs_write(&self->t, "tracing_on", "0"));
	ASSERT_EQ(0, pthread_join(sleeper.thread, NULL));
	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(NANOSLEEP));
	EXPECT_EQ(1, self->st.with_cookie);
	EXPECT_EQ(0, self->st.stacks);
	trace_log_free(&self->log);
	ASSERT_EQ(0, tracefs_write(&self->t, "tracing_on", "1"));
	ASSERT_EQ(0, event_enable(&self->t, NANOSLEEP, 0));
	ASSERT_EQ(0, tracefs_write(&self->t, "set_event_pid", "%d", gettid()));
	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 1));
	check_walks(_metadata, self, GETPGID);
}

/* The cookie is in the snapshot, and the stack is in the live buffer. */
TEST_F(ftrace, snapshot_while_pending)
{
	const char *s = text;
	__u64 cookie;

	if (tracefs_write(&self->t, "snapshot", "1"))
		SKIP(return, "kernel without snapshots");
	ASSERT_EQ(0, sleeper_start(&self->t, NULL));
	ASSERT_EQ(0, tracefs_write(&self->t, "snapshot", "1"));
	ASSERT_EQ(0, pthread_join(sleeper.thread, NULL));
	ASSERT_LT(0, tracefs_read(&self->t, "snapshot", text, sizeof(text)));
	cookie = text_cookie(&s);
	ASSERT_NE(0, cookie);
	READ_LOG(&self->log, &self->t);
	EXPECT_TRUE(same_stack(&self->log, cookie, ID, walk_syscall_ip));
	EXPECT_EQ(0, trace_log_count(&self->log, self->log.id_cookie));
	EXPECT_EQ(0, tracefs_write(&self->t, "snapshot", "0"));
}

/* Several instances */

/* Each instance gets the stacks that it requested, and no others. */
TEST_F(ftrace, instances)
{
	struct tracefs other, plain, same;
	unsigned int i;
	__u64 cookies[WALKS];

	ASSERT_EQ(0, instance_open(&other, "unwind_b", true));
	ASSERT_EQ(0, instance_open(&plain, "unwind_c", false));
	ASSERT_EQ(0, instance_open(&same, "unwind_d", true));
	ASSERT_EQ(0, event_enable(&self->t, GETPGID, 1));
	ASSERT_EQ(0, event_enable(&other, GETPPID, 1));
	ASSERT_EQ(0, event_enable(&plain, GETPGID, 1));
	ASSERT_EQ(0, event_enable(&same, GETPGID, 1));
	for (i = 0; i < WALKS; i++) {
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
		known_walk_syscall(i + WALKS, BITS, __NR_getppid, 0, 0);
	}

	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(GETPGID));
	EXPECT_EQ(WALKS, self->st.cookies);
	EXPECT_EQ(WALKS, self->st.stacks);
	EXPECT_EQ(0, self->st.unmatched);
	EXPECT_EQ(0, self->st.unasked);
	for (i = 0; i < WALKS; i++) {
		cookies[i] = nth_cookie(&self->log, i);
		EXPECT_TRUE(same_stack(&self->log, cookies[i], i,
				       walk_syscall_ip));
	}
	trace_log_free(&self->log);

	READ_LOG(&self->log, &same);
	for (i = 0; i < WALKS; i++) {
		EXPECT_EQ(cookies[i], nth_cookie(&self->log, i));
		EXPECT_TRUE(same_stack(&self->log, cookies[i], i,
				       walk_syscall_ip));
	}
	trace_log_free(&self->log);

	READ_LOG(&self->log, &other);
	self->st = trace_log_conserve(&self->log, trace_event_id(GETPPID));
	EXPECT_EQ(WALKS, self->st.stacks);
	EXPECT_EQ(0, self->st.unmatched);
	EXPECT_EQ(0, self->st.unasked);
	for (i = 0; i < WALKS; i++)
		EXPECT_TRUE(same_stack(&self->log, nth_cookie(&self->log, i),
				       i + WALKS, walk_syscall_ip));
	trace_log_free(&self->log);

	READ_LOG(&self->log, &plain);
	self->st = trace_log_conserve(&self->log, trace_event_id(GETPGID));
	EXPECT_EQ(WALKS, self->st.events);
	EXPECT_EQ(0, self->st.cookies);
	EXPECT_EQ(0, self->st.stacks);

	EXPECT_EQ(0, tracefs_close(&other));
	EXPECT_EQ(0, tracefs_close(&plain));
	EXPECT_EQ(0, tracefs_close(&same));
}

/* Together with a client of test_modules/unwind_client */

FIXTURE(beside) {
	struct tracefs t;
	struct trace_log log;
	struct trace_stats st;
	struct unwind_client_state state;
	int fd;
	bool unload;
};

FIXTURE_SETUP(beside)
{
	const char *why = ftrace_unsupported();

	self->fd = -1;
	if (why)
		SKIP(return, "%s", why);
	self->unload = access("/sys/module/unwind_client", F_OK);
	why = module_load("unwind_client");
	if (why)
		SKIP(return, "%s", why);
	self->fd = open(UNWIND_CLIENT_DEVICE, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, trace_log_init(&self->log)) {
		TH_LOG("%s", self->log.error);
	}
	ASSERT_LE(0, pin_to_cpu(-1));
	ASSERT_EQ(0, instance_open(&self->t, "unwind_a", true));
}

FIXTURE_TEARDOWN(beside)
{
	if (self->fd >= 0)
		close(self->fd);
	EXPECT_EQ(0, tracefs_close(&self->t));
	if (self->unload)
		EXPECT_EQ(0, module_unload("unwind_client"));
	trace_log_free(&self->log);
}

/* Setting the option fails if there is no room for another client. */
TEST_F(beside, no_room)
{
	unsigned int n;

	ASSERT_EQ(0, tracefs_write(&self->t, TRACE_DEFER, "0"));
	for (n = 0; n < UNWIND_CLIENTS; n++) {
		if (ctl(self->fd, UNWIND_OP_REGISTER, n, 0))
			break;
	}
	ASSERT_LT(0, n);
	ASSERT_GT(UNWIND_CLIENTS, n);
	EXPECT_EQ(-ENOSPC, tracefs_write(&self->t, TRACE_DEFER, "1"));
	EXPECT_EQ(0, tracefs_option(&self->t, TRACE_DEFER));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_UNREGISTER, 0, 0));
	EXPECT_EQ(0, tracefs_write(&self->t, TRACE_DEFER, "1"));
	EXPECT_EQ(1, tracefs_option(&self->t, TRACE_DEFER));
	EXPECT_EQ(-ENOSPC, ctl(self->fd, UNWIND_OP_REGISTER, 0, 0));
}

/*
 * Trace a function of the module that runs in the given context and makes a request
 * itself. Both requests must get the same cookie.
 */
static void check_context(struct __test_metadata *_metadata,
			  FIXTURE_DATA(beside) *self,
			  enum unwind_client_ctx ctx, const char *function,
			  unsigned int flags)
{
	unsigned int i, j;

	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_REGISTER, 0, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_ENABLE, 0, 0));
	FUNCTION(&self->t, function);
	for (i = 0; i < WALKS; i++) {
		ASSERT_EQ(0, request(self->fd, 0, ctx, i));
		self->state.client = 0;
		ASSERT_EQ(0, ioctl(self->fd, UNWIND_CLIENT_STATE,
				   &self->state));
		trace_log_free(&self->log);
		READ_LOG(&self->log, &self->t);
		EXPECT_TRUE(same_stack(&self->log, self->state.cookie, i,
				       walk_syscall_ip));
		for (j = 0; j < self->log.nr_items; j++) {
			const struct trace_item *it = &self->log.items[j];

			if (it->id == self->log.id_cookie &&
			    it->cookie == self->state.cookie)
				break;
		}
		ASSERT_GT(self->log.nr_items, j);
		EXPECT_EQ(flags, self->log.items[j].flags & flags);
	}
}

TEST_F(beside, softirq)
{
	check_context(_metadata, self, UNWIND_CTX_SOFTIRQ,
		      "client_call_tasklet", TRACE_FLAGS_SOFTIRQ);
}

TEST_F(beside, hardirq)
{
	check_context(_metadata, self, UNWIND_CTX_HARDIRQ,
		      "client_call_irq", TRACE_FLAGS_HARDIRQ);
}

TEST_F(beside, nmi)
{
	check_context(_metadata, self, UNWIND_CTX_NMI,
		      "client_nmi_handler", TRACE_FLAGS_NMI);
}

/*
 * perf, ftrace and the module request a stack in one system call: one cookie, one walk.
 */
TEST_F(beside, one_walk)
{
	__u64 cookies[WALKS], want[64];
	struct perf_event_attr attr;
	const struct log_item *rec;
	struct session s;
	struct tracefs walks;
	unsigned int i, n;
	long id_walk;

	attr = event_attr(PERF_TYPE_TRACEPOINT, TRACEPOINT_ID(IOCTL), 1,
			  DEFER_ATTR_CALLCHAIN | DEFER_ATTR_OUTPUT);
	ASSERT_EQ(0, instance_open(&walks, "unwind_b", false));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_REGISTER, 0, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_ENABLE, 0, 0));
	ASSERT_EQ(0, session_open(&s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, event_enable(&walks, "unwind_user/unwind_user_walk", 1));
	ASSERT_EQ(0, event_enable(&self->t, IOCTL, 1));
	ASSERT_EQ(0, session_enable(&s));
	for (i = 0; i < WALKS; i++) {
		ASSERT_EQ(0, request(self->fd, 0, i % 2 ? UNWIND_CTX_NMI :
				     UNWIND_CTX_TASK, i));
		self->state.client = 0;
		ASSERT_EQ(0, ioctl(self->fd, UNWIND_CLIENT_STATE,
				   &self->state));
		EXPECT_EQ(i + 1, self->state.ended);
		EXPECT_EQ(self->state.cookie, self->state.callback_cookie);
		cookies[i] = self->state.cookie;
	}
	ASSERT_EQ(0, session_finish(&s));
	ASSERT_EQ(0, event_enable(&self->t, IOCTL, 0));
	ASSERT_EQ(0, event_enable(&walks, "unwind_user/unwind_user_walk", 0));

	READ_LOG(&self->log, &self->t);
	self->st = trace_log_conserve(&self->log, trace_event_id(IOCTL));
	trace_print(&self->st);
	EXPECT_EQ(0, self->st.unmatched);
	EXPECT_EQ(0, self->st.unasked);
	EXPECT_EQ(self->st.cookies, self->st.stacks);
	for (i = 0; i < WALKS; i++) {
		EXPECT_TRUE(same_stack(&self->log, cookies[i], i,
				       walk_syscall_ip));
		rec = defer_find_record(&s.log, cookies[i]);
		ASSERT_NE(NULL, rec);
		EXPECT_TRUE(stack_same(rec->ips, rec->nr, want,
				       known_expect(want, i, BITS,
						    walk_syscall_ip)));
	}
	n = self->st.cookies;
	trace_log_free(&self->log);
	READ_LOG(&self->log, &walks);
	id_walk = trace_event_id("unwind_user/unwind_user_walk");
	EXPECT_EQ(n, trace_log_count(&self->log, id_walk));
	session_close(&s);
	EXPECT_EQ(0, tracefs_close(&walks));
}

TEST_HARNESS_MAIN
