// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that a profiler supplies for files: which tasks they serve, depending
 * on the event that owns them and on the privilege of their supplier.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/event.h"
#include "lib/kmsg.h"
#include "lib/table.h"

#ifdef __x86_64__

FIXTURE(privilege) {
	struct session s;
	struct kmsg log;
	struct image im;
	int fd;
	struct image_map m;
	struct chain c;
	struct shared *shared;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	unsigned char table[SFRAME_MAX_SIZE];
	long paranoid;
};

FIXTURE_SETUP(privilege)
{
	const struct image_opts o = { .sframe = plain_v3, .no_sframe = true };
	const char *why = tables_unsupported();

	self->fd = -1;
	self->paranoid = LONG_MAX;
	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, read_long(PARANOID, &self->paranoid));
	ASSERT_EQ(0, write_long(PARANOID, 2));
	ASSERT_EQ(0, image_build(&self->im, &o));
	self->fd = image_file(&self->im, NULL);
	ASSERT_LE(0, self->fd);
	/* Others may read it. */
	ASSERT_EQ(0, fchmod(self->fd, 0644));
	ASSERT_EQ(0, image_map(&self->m, &self->im, self->fd, 0));
	self->shared = shared_alloc();
	ASSERT_NE(NULL, self->shared);
	chain_one(&self->c, &self->m);
}

FIXTURE_TEARDOWN(privilege)
{
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	session_close(&self->s);
	image_unmap(&self->m);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
	if (self->paranoid != LONG_MAX)
		EXPECT_EQ(0, write_long(PARANOID, self->paranoid));
}

#define PTABLE(kind)	table_build(self->table, &self->im, &plain_v3, kind, 0)
#define PSUPPLY(event, kind)						\
	table_supply(event, self->fd, self->table, PTABLE(kind), 0)
#define PSUPPLY_ALL(event, kind)					\
	table_supply_all(event, self->fd, self->table, PTABLE(kind), 0)

/* A child that runs the chain when it is told to. */
static pid_t spawn_chain(FIXTURE_DATA(privilege) *self, bool nobody)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (nobody && become_nobody())
		_exit(1);
	set_flag(&self->shared->up);
	if (wait_for(&self->shared->go))
		_exit(2);
	chain_sample(&self->c);
	_exit(0);
}

/*
 * Run the chain in a child, and before that in a grandchild if "second" is not NULL.
 * Both wait for "go" if it is not NULL.
 */
static int run_child(FIXTURE_DATA(privilege) *self, pid_t *first, pid_t *second,
		     const int *go)
{
	pid_t pid = fork();
	int status;

	if (pid)
		return waitpid(pid, &status, 0) < 0 || status ? 10 : 0;
	*first = getpid();
	if (second && run_child(self, second, NULL, go))
		_exit(11);
	if (go && wait_for(go))
		_exit(12);
	chain_sample(&self->c);
	_exit(0);
}

/* A global table serves all tasks, whatever the event is attached to. */
TEST_F(privilege, global)
{
	pid_t root, other;
	int owner;

	root = spawn_chain(self, false);
	other = spawn_chain(self, true);
	ASSERT_LT(0, root);
	ASSERT_LT(0, other);
	owner = owner_open(0, -1, false);
	ASSERT_LE(0, owner);
	SESSION_OPEN_ALL(&self->s);
	ASSERT_EQ(0, PSUPPLY_ALL(owner, WHOLE));
	set_flag(&self->shared->go);
	EXPECT_EXIT(root);
	EXPECT_EXIT(other);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(root, WHOLE, "child");
	EXPECT_PID(other, WHOLE, "child of another user");
	close(owner);
}

/* An event of a CPU can own a global table. */
TEST_F(privilege, global_by_cpu)
{
	pid_t pid = spawn_chain(self, true);
	int owner;

	ASSERT_LT(0, pid);
	owner = owner_open(-1, 0, false);
	ASSERT_LE(0, owner);
	SESSION_OPEN_ALL(&self->s);
	ASSERT_EQ(0, PSUPPLY_ALL(owner, WHOLE));
	set_flag(&self->shared->go);
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(pid, WHOLE, "child");
	close(owner);
}

/*
 * A privileged user supplies a table that is not global: it serves only the event's
 * task.
 */
TEST_F(privilege, own_task_of_root)
{
	pid_t other = spawn_chain(self, false);
	int owner;

	ASSERT_LT(0, other);
	owner = owner_open(0, -1, false);
	ASSERT_LE(0, owner);
	SESSION_OPEN_ALL(&self->s);
	ASSERT_EQ(0, PSUPPLY(owner, WHOLE));
	set_flag(&self->shared->go);
	EXPECT_EXIT(other);
	chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(other, BARE, "other task");
	EXPECT_PID(getpid(), WHOLE, "task of the event");
	close(owner);
}

/* A table of an event of a CPU serves the tasks on this CPU. */
TEST_F(privilege, own_cpu)
{
	const int served = pin_to_cpu(-1);
	cpu_set_t set;
	pid_t pid[2];
	int owner, i;

	ASSERT_LE(0, served);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	owner = owner_open(-1, served, false);
	ASSERT_LE(0, owner);
	SESSION_OPEN_ALL(&self->s);
	ASSERT_EQ(0, PSUPPLY(owner, WHOLE));
	for (i = 0; i < 2; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			if (i) {
				sched_getaffinity(1, sizeof(set), &set);
				CPU_CLR(served, &set);
				if (sched_setaffinity(0, sizeof(set), &set))
					_exit(1);
			}
			chain_sample(&self->c);
			_exit(0);
		}
		EXPECT_EXIT(pid[i]);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(pid[0], WHOLE, "on the CPU of the event");
	EXPECT_PID(pid[1], BARE, "on another CPU");
	close(owner);
}

/* A global table requires the privilege, whatever the event is. */
TEST_F(privilege, global_needs_privilege)
{
	int given = owner_open(0, -1, false);
	pid_t pid;

	ASSERT_LE(0, given);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int owner;

		if (become_nobody())
			_exit(1);
		owner = owner_open(0, -1, false);
		if (owner < 0)
			_exit(2);
		if (PSUPPLY_ALL(owner, WHOLE) != -EPERM ||
		    PSUPPLY_ALL(given, WHOLE) != -EPERM)
			_exit(3);
		_exit(PSUPPLY(owner, WHOLE) ? 4 : 0);
	}
	EXPECT_EXIT(pid);
	close(given);
}

/* Without the privilege: only for the task of the event, not for others of the user. */
TEST_F(privilege, own_task_only)
{
	struct shared *sh = self->shared;
	pid_t pid, other;

	SESSION_OPEN_ALL(&self->s);
	other = spawn_chain(self, true);
	ASSERT_LT(0, other);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int owner;

		if (become_nobody())
			_exit(1);
		owner = owner_open(0, -1, false);
		if (owner < 0)
			_exit(2);
		if (PSUPPLY(owner, WHOLE))
			_exit(3);
		set_flag(&sh->go);
		chain_sample(&self->c);
		/* Not inherited. */
		_exit(run_child(self, &sh->pids[0], NULL, NULL));
	}
	EXPECT_EXIT(other);
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(pid, WHOLE, "task of the event");
	EXPECT_PID(sh->pids[0], BARE, "its child, which does not inherit");
	EXPECT_PID(other, BARE, "other task of the user");
}

TEST_F(privilege, inherited)
{
	struct shared *sh = self->shared;
	pid_t pid;

	SESSION_OPEN_ALL(&self->s);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int owner, status;
		pid_t child;

		if (become_nobody())
			_exit(1);
		owner = owner_open(0, -1, true);
		if (owner < 0)
			_exit(2);
		child = fork();
		if (!child)
			_exit(run_child(self, &sh->pids[0], &sh->pids[1], &sh->go));
		/* The table also serves children that inherited the event before. */
		if (PSUPPLY(owner, WHOLE))
			_exit(3);
		set_flag(&sh->go);
		if (waitpid(child, &status, 0) < 0 || status)
			_exit(4);
		_exit(run_child(self, &sh->pids[2], NULL, NULL));
	}
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(sh->pids[0], WHOLE, "child");
	EXPECT_PID(sh->pids[1], WHOLE, "grandchild");
	EXPECT_PID(sh->pids[2], WHOLE, "later child");
}

/* Sharing is no way around the privilege that an event of a CPU requires. */
TEST_F(privilege, no_share_with_cpu)
{
	int cpu = owner_open(-1, 0, false), task = owner_open(0, -1, false);
	pid_t pid;

	ASSERT_LE(0, cpu);
	ASSERT_LE(0, task);
	EXPECT_EQ(-EINVAL, table_share(task, cpu));
	EXPECT_EQ(-EINVAL, table_share(cpu, task));
	close(task);

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (become_nobody())
			_exit(1);
		task = owner_open(0, -1, false);
		if (task < 0)
			_exit(2);
		if (table_share(task, cpu) != -EINVAL)
			_exit(3);
		_exit(table_share(cpu, task) == -EACCES ? 0 : 4);
	}
	EXPECT_EXIT(pid);
	close(cpu);
}

/* Events of two tasks share a table. It is removed with the last event. */
TEST_F(privilege, shared)
{
	struct shared *sh = self->shared;
	pid_t pid, other;

	SESSION_OPEN_ALL(&self->s);
	other = spawn_chain(self, true);
	ASSERT_LT(0, other);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		unsigned long nr, bytes;
		int owner, second;

		if (become_nobody())
			_exit(1);
		if (wait_for(&sh->up))
			_exit(1);
		owner = owner_open(0, -1, false);
		second = owner_open(other, -1, false);
		if (owner < 0 || second < 0)
			_exit(2);
		if (table_share(second, owner) || table_share(second, owner))
			_exit(3);
		if (PSUPPLY(owner, WHOLE))
			_exit(4);
		if (table_info(second, &nr, &bytes) || nr != 1)
			_exit(5);
		close(owner);
		owner = owner_open(0, -1, false);
		/* Each has tables of its own by now. */
		if (PSUPPLY(owner, MARKED) ||
		    table_share(owner, second) != -EEXIST)
			_exit(6);
		set_flag(&sh->go);
		chain_sample(&self->c);
		if (wait_for(&sh->done))
			_exit(7);
		_exit(0);
	}
	EXPECT_EXIT(other);
	set_flag(&sh->done);
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(other, WHOLE, "task of the second event");
	EXPECT_PID(pid, MARKED, "task of the third event");
}

/* Number of shared sets, and seconds for which their events are closed at once */
#define AT_ONCE_SETS	16
#define AT_ONCE_SEC	4

struct at_once {
	pthread_barrier_t barrier;
	int fds[2][AT_ONCE_SETS];
	bool stop;
};

struct at_once_closer {
	struct at_once *a;
	int *fds;
};

static void *close_at_once(void *arg)
{
	struct at_once_closer *c = arg;
	int i;

	for (;;) {
		pthread_barrier_wait(&c->a->barrier);
		if (c->a->stop)
			return NULL;
		for (i = 0; i < AT_ONCE_SETS; i++)
			close(c->fds[i]);
		pthread_barrier_wait(&c->a->barrier);
	}
}

/* If both owners of a set are closed at once, neither may use the set after its end. */
TEST_F_TIMEOUT(privilege, shared_closed_at_once, 120)
{
	struct at_once a = {};
	struct at_once_closer closers[2] = {
		{ &a, a.fds[0] }, { &a, a.fds[1] },
	};
	pthread_t threads[2];
	unsigned int rounds = 0;
	time_t end;
	int i;

	ASSERT_EQ(0, pthread_barrier_init(&a.barrier, NULL, 3));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, close_at_once,
					    &closers[i]));

	end = time(NULL) + AT_ONCE_SEC;
	do {
		for (i = 0; i < AT_ONCE_SETS; i++) {
			a.fds[0][i] = owner_open(0, -1, false);
			a.fds[1][i] = owner_open(0, -1, false);
			ASSERT_LE(0, a.fds[0][i]);
			ASSERT_LE(0, a.fds[1][i]);
			ASSERT_EQ(0, PSUPPLY(a.fds[0][i], WHOLE));
			ASSERT_EQ(0, table_share(a.fds[1][i], a.fds[0][i]));
		}
		pthread_barrier_wait(&a.barrier);
		pthread_barrier_wait(&a.barrier);
		rounds++;
	} while (time(NULL) < end);
	TH_LOG("%u rounds", rounds);

	a.stop = true;
	pthread_barrier_wait(&a.barrier);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&a.barrier);
}

/* A user's table never takes precedence over a global table. */
TEST_F(privilege, global_first)
{
	int owner = owner_open(0, -1, false);
	pid_t pid;

	ASSERT_LE(0, owner);
	SESSION_OPEN_ALL(&self->s);
	ASSERT_EQ(0, PSUPPLY_ALL(owner, WHOLE));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (become_nobody())
			_exit(1);
		owner = owner_open(0, -1, false);
		if (owner < 0 || PSUPPLY(owner, MARKED))
			_exit(2);
		chain_sample(&self->c);
		_exit(0);
	}
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(pid, WHOLE, "task");
	close(owner);
}

/*
 * If a user supplies a table to the same event, it replaces the event's global table.
 */
TEST_F(privilege, global_replaced)
{
	int owner = owner_open(0, -1, false);
	pid_t pid;

	ASSERT_LE(0, owner);
	SESSION_OPEN_ALL(&self->s);
	ASSERT_EQ(0, PSUPPLY_ALL(owner, WHOLE));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		unsigned long nr, bytes;

		if (become_nobody())
			_exit(1);
		if (PSUPPLY(owner, MARKED))
			_exit(2);
		if (table_info(owner, &nr, &bytes) || nr != 1)
			_exit(3);
		chain_sample(&self->c);
		_exit(0);
	}
	EXPECT_EXIT(pid);
	chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	EXPECT_PID(pid, BARE, "other task");
	EXPECT_PID(getpid(), MARKED, "task of the event");
	close(owner);
}

/* An event of a CPU needs the privilege for tables, even if another task opened it. */
TEST_F(privilege, cpu_needs_privilege)
{
	int cpu = owner_open(-1, 0, false), task = owner_open(0, -1, false);
	pid_t pid;

	ASSERT_LE(0, cpu);
	ASSERT_LE(0, task);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (become_nobody())
			_exit(1);
		if (PSUPPLY(cpu, WHOLE) != -EACCES)
			_exit(2);
		if (table_share(cpu, task) != -EACCES)
			_exit(3);
		if (PSUPPLY(task, WHOLE))
			_exit(4);
		_exit(0);
	}
	EXPECT_EXIT(pid);
	close(cpu);
	close(task);
}

#else /* !__x86_64__ */

TEST(privilege)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
