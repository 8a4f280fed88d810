// SPDX-License-Identifier: GPL-2.0
/*
 * Test the kernel interface of deferred unwinding with the clients of
 * test_modules/unwind_client: calls of the callbacks, their cookies and stacks,
 * and the end of all calls after a client is unregistered.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/defer.h"
#include "../perf_events/lib/event.h"
#include "../perf_events/lib/files.h"
#include "../perf_events/lib/known_stack.h"
#include "lib/client.h"
#include "unwind_client.h"

#define BITS	REQUEST_BITS
#define ID	0x2b1

FIXTURE(client) {
	struct unwind_client_state st;
	__u64 want[64];
	int fd;
	bool unload;
};

FIXTURE_SETUP(client)
{
	const char *why;

	self->fd = -1;
	if (!HAVE_KNOWN_STACK)
		SKIP(return, "no known-stack code for this architecture");
	if (geteuid())
		SKIP(return, "must be run as root");
	if (access(DEFER_SYSCTL, R_OK))
		SKIP(return, "kernel built without deferred unwinding");
	self->unload = access("/sys/module/unwind_client", F_OK);
	why = module_load("unwind_client");
	if (why)
		SKIP(return, "%s", why);
	self->fd = open(UNWIND_CLIENT_DEVICE, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->fd) {
		TH_LOG("%s: %s", UNWIND_CLIENT_DEVICE, strerror(errno));
	}
	/* A move to another CPU would cause another delivery. */
	ASSERT_LE(0, pin_to_cpu(-1));
}

FIXTURE_TEARDOWN(client)
{
	if (self->fd >= 0)
		close(self->fd);
	if (self->unload)
		EXPECT_EQ(0, module_unload("unwind_client"));
}

static int get_state(int fd, unsigned int client,
		     struct unwind_client_state *st)
{
	memset(st, 0, sizeof(*st));
	st->client = client;
	return ioctl(fd, UNWIND_CLIENT_STATE, st);
}

static int add_client(int fd, unsigned int client)
{
	return ctl(fd, UNWIND_OP_REGISTER, client, 0) ?:
	       ctl(fd, UNWIND_OP_ENABLE, client, 0);
}

#define STATE(client)	ASSERT_EQ(0, get_state(self->fd, client, &self->st))

#define EXPECT_STACK(id) do {						\
	int __want = known_expect(self->want, id, BITS, walk_syscall_ip); \
									\
	EXPECT_TRUE(stack_same(self->st.entries, self->st.nr, self->want, \
			       __want));				\
} while (0)

/* One client */

static void check_context(struct __test_metadata *_metadata,
			  FIXTURE_DATA(client) *self,
			  enum unwind_client_ctx ctx)
{
	const unsigned int nr = 30;
	__u64 last = 0;
	unsigned int i;

	ASSERT_EQ(0, add_client(self->fd, 0));
	for (i = 0; i < nr; i++) {
		ASSERT_EQ(0, request(self->fd, 0, ctx, i));
		STATE(0);
		EXPECT_EQ(i + 1, self->st.begun);
		EXPECT_EQ(i + 1, self->st.ended);
		EXPECT_NE(0, self->st.cookie);
		EXPECT_NE(last, self->st.cookie);
		EXPECT_EQ(self->st.cookie, self->st.callback_cookie);
		EXPECT_EQ(gettid(), self->st.callback_tid);
		EXPECT_STACK(i);
		last = self->st.cookie;
	}
	EXPECT_EQ(0, self->st.bad_context);
	EXPECT_EQ(nr, self->st.cookies);
}

TEST_F(client, request_from_task)
{
	check_context(_metadata, self, UNWIND_CTX_TASK);
}

TEST_F(client, request_from_softirq)
{
	check_context(_metadata, self, UNWIND_CTX_SOFTIRQ);
}

TEST_F(client, request_from_hardirq)
{
	check_context(_metadata, self, UNWIND_CTX_HARDIRQ);
}

TEST_F(client, request_from_nmi)
{
	check_context(_metadata, self, UNWIND_CTX_NMI);
}

TEST_F(client, request_before_registering)
{
	/* If no client has enabled deferral, the error is -EOPNOTSUPP instead. */
	ASSERT_EQ(0, add_client(self->fd, 1));
	EXPECT_EQ(-ENOENT, request(self->fd, 0, UNWIND_CTX_TASK, ID));
	STATE(0);
	EXPECT_EQ(0, self->st.begun);
}

TEST_F(client, request_without_enabling)
{
	int ret;

	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_REGISTER, 0, 0));
	ret = request(self->fd, 0, UNWIND_CTX_TASK, ID);
	if (!ret)
		SKIP(return, "another client has enabled deferral");
	EXPECT_EQ(-EOPNOTSUPP, ret);
	STATE(0);
	EXPECT_EQ(0, self->st.begun);
}

TEST_F(client, depth)
{
	static const unsigned int depths[] = { 1, 2, 5, BITS + 1 };
	unsigned int i;

	ASSERT_EQ(0, add_client(self->fd, 0));
	known_expect(self->want, ID, BITS, walk_syscall_ip);
	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_DEPTH, 0, depths[i]));
		ASSERT_EQ(0, request(self->fd, 0, UNWIND_CTX_HARDIRQ, ID));
		STATE(0);
		EXPECT_TRUE(stack_same(self->st.entries, self->st.nr,
				       self->want, depths[i]));
	}
}

/* Several clients */

/* A client that made no request is not called. */
TEST_F(client, only_who_asked)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, add_client(self->fd, i));
	for (i = 0; i < 30; i++)
		ASSERT_EQ(0, request(self->fd, i % 3 ? 0 : 2,
				     i % UNWIND_CTX_NR, i));
	STATE(0);
	EXPECT_EQ(20, self->st.ended);
	EXPECT_EQ(20, self->st.cookies);
	STATE(1);
	EXPECT_EQ(0, self->st.ended);
	STATE(2);
	EXPECT_EQ(10, self->st.ended);
}

/*
 * Two clients ask in one entry: one cookie, one call each, and for each at
 * least the depth that it wanted.
 */
TEST_F(client, shared_cookie)
{
	static const enum unwind_client_ctx contexts[] = {
		/* Not a softirq: request() tries again if ksoftirqd has run it. */
		UNWIND_CTX_TASK, UNWIND_CTX_HARDIRQ, UNWIND_CTX_NMI,
	};
	unsigned int i;
	__u64 cookie;

	ASSERT_EQ(0, add_client(self->fd, 0));
	ASSERT_EQ(0, add_client(self->fd, 1));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_DEPTH, 0, 3));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_ALSO, 0, 1));
	for (i = 0; i < 21; i++) {
		ASSERT_EQ(0, request(self->fd, 0,
				     contexts[i % ARRAY_SIZE(contexts)], i));
		STATE(0);
		EXPECT_EQ(i + 1, self->st.ended);
		EXPECT_LE(3, self->st.nr);
		cookie = self->st.callback_cookie;
		EXPECT_EQ(cookie, self->st.cookie);
		STATE(1);
		EXPECT_EQ(0, self->st.ret);
		EXPECT_EQ(i + 1, self->st.ended);
		EXPECT_EQ(cookie, self->st.callback_cookie);
		EXPECT_STACK(i);
	}
}

TEST_F(client, no_room)
{
	unsigned int i, n = 0;

	for (i = 0; i < UNWIND_CLIENTS; i++) {
		int ret = ctl(self->fd, UNWIND_OP_REGISTER, i, 0);

		if (ret) {
			EXPECT_EQ(-ENOSPC, ret);
			break;
		}
		n++;
	}
	TH_LOG("room for %u clients", n);
	ASSERT_LT(0, n);
	ASSERT_GT(UNWIND_CLIENTS, n);
	/* The registered clients work. */
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_ENABLE, n - 1, 0));
	ASSERT_EQ(0, request(self->fd, n - 1, UNWIND_CTX_NMI, ID));
	STATE(n - 1);
	EXPECT_EQ(1, self->st.ended);
	EXPECT_STACK(ID);
	EXPECT_EQ(-ENOENT, request(self->fd, n, UNWIND_CTX_TASK, ID));
	/* A new client can take the place of an unregistered one. */
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_UNREGISTER, 0, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_REGISTER, n, 0));
	ASSERT_EQ(0, request(self->fd, n, UNWIND_CTX_TASK, ID));
	STATE(n);
	EXPECT_EQ(1, self->st.ended);
}

/* Requests from inside the callback */

/* They get the callback's cookie, and the client is not called again. */
static void check_nested(struct __test_metadata *_metadata,
			 FIXTURE_DATA(client) *self,
			 enum unwind_client_ctx ctx)
{
	ASSERT_EQ(0, add_client(self->fd, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_CTX, 0, ctx));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_REQUESTS, 0, 3));
	ASSERT_EQ(0, request(self->fd, 0, UNWIND_CTX_TASK, ID));
	STATE(0);
	EXPECT_EQ(0, self->st.nested_ret);
	EXPECT_EQ(2, self->st.requests);
	EXPECT_EQ(1, self->st.cookies);
	EXPECT_EQ(1, self->st.ended);
	EXPECT_EQ(0, self->st.refused);
	EXPECT_EQ(self->st.nested_cookie, self->st.callback_cookie);
	EXPECT_STACK(ID);
}

TEST_F(client, nested_in_task_context)
{
	check_nested(_metadata, self, UNWIND_CTX_TASK);
}

TEST_F(client, nested_in_hardirq)
{
	check_nested(_metadata, self, UNWIND_CTX_HARDIRQ);
}

TEST_F(client, nested_in_nmi)
{
	check_nested(_metadata, self, UNWIND_CTX_NMI);
}

/*
 * A client that has not received the stack is called, with the same cookie, and
 * the one that has is not called again.
 */
static void check_nested_other(struct __test_metadata *_metadata,
			       FIXTURE_DATA(client) *self,
			       enum unwind_client_ctx ctx)
{
	__u64 cookie;

	ASSERT_EQ(0, add_client(self->fd, 0));
	ASSERT_EQ(0, add_client(self->fd, 1));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_CTX, 0, ctx));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_CLIENT, 0, 1));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_REQUESTS, 0, 3));
	ASSERT_EQ(0, request(self->fd, 0, UNWIND_CTX_TASK, ID));
	STATE(0);
	EXPECT_EQ(0, self->st.nested_ret);
	EXPECT_EQ(1, self->st.ended);
	cookie = self->st.callback_cookie;
	EXPECT_EQ(cookie, self->st.nested_cookie);
	STATE(1);
	EXPECT_EQ(1, self->st.requests);
	EXPECT_EQ(1, self->st.ended);
	EXPECT_EQ(cookie, self->st.callback_cookie);
	EXPECT_STACK(ID);
}

TEST_F(client, nested_for_another_in_task_context)
{
	check_nested_other(_metadata, self, UNWIND_CTX_TASK);
}

TEST_F(client, nested_for_another_in_hardirq)
{
	check_nested_other(_metadata, self, UNWIND_CTX_HARDIRQ);
}

TEST_F(client, nested_for_another_in_nmi)
{
	check_nested_other(_metadata, self, UNWIND_CTX_NMI);
}

/* Who has received the stack does not get it again after others have. */
TEST_F(client, nested_in_turn)
{
	unsigned int i;
	__u64 cookie;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, add_client(self->fd, i));
		ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_CTX, i, UNWIND_CTX_TASK));
		ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_CLIENT, i, !i));
		ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_REQUESTS, i, 3));
	}
	ASSERT_EQ(0, request(self->fd, 0, UNWIND_CTX_TASK, ID));
	STATE(0);
	EXPECT_EQ(1, self->st.ended);
	cookie = self->st.callback_cookie;
	STATE(1);
	EXPECT_EQ(1, self->st.ended);
	EXPECT_EQ(0, self->st.nested_ret);
	EXPECT_EQ(cookie, self->st.nested_cookie);
}

/* A callback that always asks for more does not keep the task in the kernel. */
TEST_F_TIMEOUT(client, rounds_are_bounded, 20)
{
	ASSERT_EQ(0, add_client(self->fd, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_DEPTH, 0, 1));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_CTX, 0,
			 UNWIND_CTX_HARDIRQ));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_DEEPER, 0, 1));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_REQUESTS, 0, 100000));
	/* The stack is deeper than the limit of deliveries. */
	ASSERT_EQ(0, known_walk_syscall(ID, 200, __NR_ioctl, self->fd,
					UNWIND_CLIENT_REQUEST(0, UNWIND_CTX_TASK)));
	STATE(0);
	TH_LOG("%llu callbacks, then %d", self->st.ended, self->st.nested_ret);
	EXPECT_EQ(-EBUSY, self->st.nested_ret);
	EXPECT_LT(1, self->st.ended);
	EXPECT_GT(100, self->st.ended);
	EXPECT_EQ(self->st.cookies, self->st.ended);
	/* The next entry starts afresh. */
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_REQUESTS, 0, 0));
	ASSERT_EQ(0, request(self->fd, 0, UNWIND_CTX_TASK, ID));
}

/* Requests after the callback, in the same kernel entry */

/* A request after the callback gets the same cookie, and no other callback follows. */
static void check_after(struct __test_metadata *_metadata,
			FIXTURE_DATA(client) *self, enum unwind_client_ctx ctx)
{
	unsigned int i;

	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_AFTER_CTX, 0, ctx));
	ASSERT_EQ(0, add_client(self->fd, 0));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, request(self->fd, 0, UNWIND_CTX_TASK, i));
		STATE(0);
		EXPECT_EQ(0, self->st.nested_ret);
		EXPECT_EQ(2 * (i + 1), self->st.requests);
		EXPECT_EQ(i + 1, self->st.cookies);
		EXPECT_EQ(i + 1, self->st.ended);
		EXPECT_EQ(self->st.nested_cookie, self->st.callback_cookie);
		EXPECT_STACK(i);
	}
}

TEST_F(client, after_callback_in_task_context)
{
	check_after(_metadata, self, UNWIND_CTX_TASK);
}

TEST_F(client, after_callback_in_hardirq)
{
	check_after(_metadata, self, UNWIND_CTX_HARDIRQ);
}

TEST_F(client, after_callback_in_nmi)
{
	check_after(_metadata, self, UNWIND_CTX_NMI);
}

/* Entering a guest counts as leaving the kernel. */
static void check_vcpu(struct __test_metadata *_metadata,
		       FIXTURE_DATA(client) *self, enum unwind_client_ctx ctx)
{
	const unsigned int nr = UNWIND_CLIENT_GUEST_ENTRIES;
	int ret;

	ASSERT_EQ(0, add_client(self->fd, 0));
	ret = known_walk_syscall(ID, BITS, __NR_ioctl, self->fd,
				 UNWIND_CLIENT_VCPU(0, ctx));
	if (ret == -EOPNOTSUPP)
		SKIP(return, "kernel without KVM");
	ASSERT_EQ(0, ret);
	STATE(0);
	EXPECT_EQ(nr, self->st.requests);
	EXPECT_EQ(nr, self->st.cookies);
	EXPECT_EQ(nr, self->st.ended);
	EXPECT_EQ(0, self->st.refused);
	EXPECT_STACK(ID);
}

TEST_F(client, vcpu_in_task_context)
{
	check_vcpu(_metadata, self, UNWIND_CTX_TASK);
}

TEST_F(client, vcpu_in_nmi)
{
	check_vcpu(_metadata, self, UNWIND_CTX_NMI);
}

/* Unregistering */

struct asker {
	int fd;
	int ret;
};

static void *ask(void *arg)
{
	struct asker *a = arg;

	a->ret = request(a->fd, 0, UNWIND_CTX_TASK, ID);
	return NULL;
}

/* Wait until a callback of client 0 runs; false if none does. */
static bool wait_running(int fd)
{
	struct unwind_client_state st;
	unsigned int i;

	for (i = 0; i < 500; i++) {
		if (get_state(fd, 0, &st))
			return false;
		if (st.running)
			return true;
		usleep(2000);
	}
	return false;
}

/* unwind_deferred_unregister() returns when no callback runs any more. */
TEST_F(client, unregister_waits_for_callback)
{
	struct asker a = { .fd = self->fd, .ret = 1 };
	pthread_t t;

	ASSERT_EQ(0, add_client(self->fd, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_CALLBACK_SLEEP, 0, 800));
	ASSERT_EQ(0, pthread_create(&t, NULL, ask, &a));
	ASSERT_TRUE(wait_running(self->fd));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_UNREGISTER, 0, 0));
	STATE(0);
	EXPECT_EQ(0, self->st.running);
	EXPECT_EQ(1, self->st.ended);
	pthread_join(t, NULL);
	EXPECT_EQ(0, a.ret);
}

/*
 * Pending requests of the client are cancelled: neither the client nor the one that
 * gets its place is called.
 */
TEST_F(client, unregister_takes_requests_back)
{
	struct asker a = { .fd = self->fd, .ret = 1 };
	unsigned int i;
	pthread_t t;

	ASSERT_EQ(0, add_client(self->fd, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_REQUEST_SLEEP, 0, 1000));
	ASSERT_EQ(0, pthread_create(&t, NULL, ask, &a));
	for (i = 0; i < 200; i++) {
		STATE(0);
		if (self->st.requests)
			break;
		usleep(2000);
	}
	ASSERT_EQ(1, self->st.requests);
	ASSERT_EQ(0, self->st.begun);
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_UNREGISTER, 0, 0));
	ASSERT_EQ(0, add_client(self->fd, 1));
	pthread_join(t, NULL);
	EXPECT_EQ(0, a.ret);
	STATE(0);
	EXPECT_EQ(0, self->st.begun);
	STATE(1);
	EXPECT_EQ(0, self->st.begun);
	/* The new one works. */
	ASSERT_EQ(0, request(self->fd, 1, UNWIND_CTX_NMI, ID));
	STATE(1);
	EXPECT_EQ(1, self->st.ended);
}

static bool stop;

static void *ask_in_a_loop(void *arg)
{
	struct asker *a = arg;
	unsigned int i;

	a->ret = 0;
	for (i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		int ret = request(a->fd, 0, i % UNWIND_CTX_NR, i);

		if (ret && ret != -ENOENT && ret != -EBUSY && ret != -EAGAIN)
			a->ret = ret;
	}
	return NULL;
}

/* Clients come and go while tasks make requests: only registered ones are called. */
TEST_F_TIMEOUT(client, unregister_under_load, 60)
{
	struct asker a[3] = {};
	pthread_t t[3];
	unsigned int i;
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all);
	/* Keeps deferral enabled. */
	ASSERT_EQ(0, add_client(self->fd, 1));
	stop = false;
	for (i = 0; i < 3; i++) {
		a[i].fd = self->fd;
		ASSERT_EQ(0, pthread_create(&t[i], NULL, ask_in_a_loop, &a[i]));
	}
	for (i = 0; i < 40; i++) {
		ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_REGISTER, 0, 0));
		usleep(10000);
		ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_UNREGISTER, 0, 0));
		STATE(0);
		EXPECT_EQ(0, self->st.running);
		EXPECT_EQ(self->st.begun, self->st.ended);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		EXPECT_EQ(0, a[i].ret);
	}
	STATE(0);
	TH_LOG("%llu requests, %llu callbacks, %llu refused", self->st.requests,
	       self->st.ended, self->st.refused);
	EXPECT_LT(0, self->st.ended);
	EXPECT_EQ(0, self->st.bad_context);
}

/* The end of a task */

/* Killed with a request pending: the stack is delivered, from the dying task. */
TEST_F(client, killed_while_pending)
{
	unsigned int i;
	int status;
	pid_t pid;

	ASSERT_EQ(0, add_client(self->fd, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_REQUEST_SLEEP, 0, 300));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		request(self->fd, 0, UNWIND_CTX_NMI, ID);
		_exit(0);
	}
	for (i = 0; i < 500; i++) {
		STATE(0);
		if (self->st.requests)
			break;
		usleep(2000);
	}
	EXPECT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	STATE(0);
	EXPECT_EQ(1, self->st.requests);
	EXPECT_EQ(1, self->st.ended);
	EXPECT_EQ(pid, self->st.callback_tid);
	EXPECT_EQ(0, self->st.bad_context);
	EXPECT_STACK(ID);
}

/* Lack of memory */

#define FAILSLAB	"/sys/kernel/debug/failslab/"

struct starved {
	int		fd;
	/* Which allocation fails; 0: all of them. */
	unsigned int	nth;
	int		ret;
	bool		failed;
};

/* In a new thread, which has no memory of earlier walks. */
static void *ask_starved(void *arg)
{
	struct starved *s = arg;
	char buf[16] = "1";
	int fd, len = 1;

	fd = open(s->nth ? "/proc/thread-self/fail-nth" :
		  "/proc/thread-self/make-it-fail", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		s->ret = -errno;
		return NULL;
	}
	if (s->nth)
		len = snprintf(buf, sizeof(buf), "%u", s->nth);
	if (write(fd, buf, len) != len) {
		s->ret = -errno;
	} else {
		s->ret = request(s->fd, 0, UNWIND_CTX_TASK, ID);
		/* The rest of the count: 0 if that allocation was reached. */
		if (s->nth && pread(fd, buf, sizeof(buf) - 1, 0) > 0)
			s->failed = !atoi(buf);
		if (pwrite(fd, "0", 1, 0) != 1)
			s->ret = -errno;
	}
	close(fd);
	return NULL;
}

#define ASK_STARVED(s) do {						\
	pthread_t __t;							\
									\
	(s)->failed = false;						\
	ASSERT_EQ(0, pthread_create(&__t, NULL, ask_starved, s));	\
	ASSERT_EQ(0, pthread_join(__t, NULL));				\
	ASSERT_EQ(0, (s)->ret);						\
	STATE(0);							\
	EXPECT_NE(0, self->st.cookie);					\
	EXPECT_EQ(self->st.cookie, self->st.callback_cookie);		\
} while (0)

/*
 * Allocations of the deferred work fail: one after the other, then all of them. No
 * entry is lost, because the stack fits into the buffer on the kernel stack.
 */
TEST_F(client, no_memory)
{
	struct starved s = { .fd = self->fd };

	if (access(FAILSLAB, F_OK))
		mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (access(FAILSLAB, F_OK))
		SKIP(return, "kernel without CONFIG_FAILSLAB and its debugfs");
	/* Let allocations fail that may wait for memory, too. */
	ASSERT_EQ(0, write_text(FAILSLAB "ignore-gfp-wait", "N"));
	ASSERT_EQ(0, write_text(FAILSLAB "verbose", "0"));
	ASSERT_EQ(0, add_client(self->fd, 0));
	for (s.nth = 1; s.nth < 20; s.nth++) {
		ASK_STARVED(&s);
		EXPECT_EQ(s.nth, self->st.ended);
		EXPECT_STACK(ID);
		if (!s.failed)
			break;
	}
	TH_LOG("%u allocations", s.nth - 1);
	EXPECT_LT(1, s.nth);
	EXPECT_GT(20, s.nth);

	ASSERT_EQ(0, write_text(FAILSLAB "task-filter", "Y"));
	ASSERT_EQ(0, write_text(FAILSLAB "times", "-1"));
	ASSERT_EQ(0, write_text(FAILSLAB "probability", "100"));
	s.nth = 0;
	ASK_STARVED(&s);
	/* The stack fits into the buffer that needs no allocation. */
	EXPECT_STACK(ID);
	EXPECT_EQ(0, write_text(FAILSLAB "probability", "0"));
	EXPECT_EQ(0, write_text(FAILSLAB "times", "1"));
	EXPECT_EQ(0, write_text(FAILSLAB "task-filter", "N"));
	EXPECT_EQ(0, write_text(FAILSLAB "ignore-gfp-wait", "Y"));
}

/* Storm */

/*
 * A timer makes a request every 200 us, whatever the task does. Each cookie that was
 * drawn is delivered once.
 */
TEST_F_TIMEOUT(client, storm, 90)
{
	__u64 end, limit = now_nsec() + 60 * NSEC_PER_SEC;

	ASSERT_EQ(0, add_client(self->fd, 0));
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_STORM, 0, 200));
	/* As long as it takes on a slow machine. */
	do {
		end = now_nsec() + 2 * NSEC_PER_SEC;
		while (now_nsec() < end) {
			known_walk_spin(ID, BITS, 10000);
			known_walk_syscall(ID, BITS, __NR_getpgid, 0, 0);
			sched_yield();
		}
		STATE(0);
	} while (self->st.ended <= 200 && end < limit);
	ASSERT_EQ(0, ctl(self->fd, UNWIND_OP_STORM, 0, 0));
	STATE(0);
	TH_LOG("%llu requests, %llu cookies, %llu callbacks, %llu refused (%d)",
	       self->st.requests, self->st.cookies, self->st.ended,
	       self->st.refused, self->st.refused_ret);
	EXPECT_LT(200, self->st.ended);
	EXPECT_EQ(self->st.cookies, self->st.ended);
	EXPECT_EQ(0, self->st.bad_context);
	EXPECT_EQ(0, self->st.running);
}

TEST_HARNESS_MAIN
