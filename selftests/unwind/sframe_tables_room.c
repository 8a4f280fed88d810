// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that a profiler supplies for files: they hold no reference to files,
 * the least recently used are removed, and one user's tables do not disturb others'
 * walks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/event.h"
#include "lib/kmsg.h"
#include "lib/table.h"

#ifdef __x86_64__

FIXTURE(room) {
	struct session s;
	unsigned int nr;
	struct kmsg log;
	struct image im;
	int fd;
	struct image_map m;
	int owner;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	unsigned char table[SFRAME_MAX_SIZE];
	size_t size;
	char dir[64];
	long paranoid;
};

FIXTURE_SETUP(room)
{
	const struct image_opts o = { .sframe = plain_v3, .no_sframe = true };
	const char *why = tables_unsupported();

	self->fd = -1;
	self->owner = -1;
	self->paranoid = LONG_MAX;
	if (why)
		SKIP(return, "%s", why);
	self->owner = owner_open(0, -1, false);
	ASSERT_LE(0, self->owner);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, read_long(PARANOID, &self->paranoid));
	ASSERT_EQ(0, write_long(PARANOID, 2));
	ASSERT_EQ(0, make_dir(self->dir, sizeof(self->dir)));
	ASSERT_EQ(0, image_build(&self->im, &o));
	self->fd = image_file(&self->im, NULL);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, fchmod(self->fd, 0644));
	ASSERT_EQ(0, image_map(&self->m, &self->im, self->fd, 0));
	self->size = table_build(self->table, &self->im, &plain_v3, WHOLE, 0);
}

FIXTURE_TEARDOWN(room)
{
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	session_close(&self->s);
	image_unmap(&self->m);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
	if (self->owner >= 0)
		close(self->owner);
	if (self->paranoid != LONG_MAX)
		EXPECT_EQ(0, write_long(PARANOID, self->paranoid));
	EXPECT_EQ(0, remove_dir(self->dir));
}

/* An ELF header, which is enough to have a table */
static int any_file(const struct image *im)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, im->ehdr, sizeof(*im->ehdr)) != sizeof(*im->ehdr)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Room */

#define TABLES_MAX	8192
/* Longer than a tick: the kernel stores the time of the last use in ticks. */
#define TICK_USEC	20000

TEST_F_TIMEOUT(room, least_recently_used, 300)
{
	unsigned long nr, bytes;
	unsigned int i;
	int fd, kept[2];

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, table_supply(self->owner, self->fd, self->table, self->size, 0));
	for (i = 0; i < TABLES_MAX - 1; i++) {
		fd = any_file(&self->im);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, table_supply(self->owner, fd, self->table, self->size, 0)) {
			TH_LOG("number %u", i);
		}
		if (i < ARRAY_SIZE(kept)) {
			kept[i] = fd;
			usleep(TICK_USEC);
		} else {
			close(fd);
		}
	}
	ASSERT_EQ(0, table_info(self->owner, &nr, &bytes));
	EXPECT_EQ(TABLES_MAX, nr);

	/* The first table is used, so the second one is removed. */
	usleep(TICK_USEC);
	EXPECT_STACK(&self->m, WHOLE, "full");
	fd = any_file(&self->im);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, table_supply(self->owner, fd, self->table, self->size, 0));
	ASSERT_EQ(0, table_info(self->owner, &nr, &bytes));
	EXPECT_EQ(TABLES_MAX, nr);
	EXPECT_STACK(&self->m, WHOLE, "still there");
	EXPECT_EQ(-ENOENT, table_take_back(self->owner, kept[0]));
	EXPECT_EQ(0, table_take_back(self->owner, kept[1]));
	EXPECT_EQ(0, table_take_back(self->owner, fd));
	for (i = 0; i < ARRAY_SIZE(kept); i++)
		close(kept[i]);
	close(fd);
}

/*
 * A table that is padded with zeros. With the kernel's own data it needs a page more.
 */
#define LARGE		(4UL << 20)

static int supply_large(const struct image *im, int owner, const void *table,
			size_t size, int *fd)
{
	*fd = any_file(im);
	return *fd < 0 ? -EBADF : table_supply(owner, *fd, table, size, 0);
}

/* At the limit of locked memory, a new table replaces the oldest of its own set. */
static int fill_locked_memory(FIXTURE_DATA(room) *self)
{
	const struct rlimit limit = { 3 * LARGE, 3 * LARGE };
	unsigned char *table = calloc(1, 4 * LARGE);
	unsigned long nr, bytes;
	int owner, other, fd[6], dummy;
	unsigned int i;

	if (!table)
		return 1;
	memcpy(table, self->table, self->size);
	if (setrlimit(RLIMIT_MEMLOCK, &limit) || become_nobody())
		return 2;
	owner = owner_open(0, -1, false);
	other = owner_open(0, -1, false);
	if (owner < 0 || other < 0)
		return 3;
	for (i = 0; i < ARRAY_SIZE(fd); i++) {
		if (supply_large(&self->im, owner, table, LARGE, &fd[i]))
			return 10 + i;
	}
	if (table_info(owner, &nr, &bytes) || nr != 2 || bytes != 2 * LARGE)
		return 4;
	/* More than the whole limit: no table is removed in vain. */
	if (supply_large(&self->im, owner, table, 4 * LARGE, &dummy) != -EPERM ||
	    table_info(owner, &nr, &bytes) || nr != 2)
		return 5;
	/* Of another set, though of the same user */
	if (supply_large(&self->im, other, table, LARGE, &dummy) != -EPERM ||
	    table_info(owner, &nr, &bytes) || nr != 2)
		return 6;
	if (table_take_back(owner, fd[0]) != -ENOENT || table_take_back(owner, fd[5]) ||
	    table_take_back(owner, fd[4]))
		return 7;
	/* The memory of removed tables does not count any more. */
	for (i = 0; i < 2; i++) {
		if (supply_large(&self->im, other, table, LARGE, &dummy))
			return 20 + i;
	}
	return table_info(other, &nr, &bytes) || nr != 2 ? 8 : 0;
}

TEST_F_TIMEOUT(room, locked_memory, 120)
{
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid)
		_exit(fill_locked_memory(self));
	EXPECT_EXIT(pid);
}

/* References */

TEST_F(room, unmount)
{
	struct image_map m = {};
	char fs[96], path[128];
	unsigned long nr, bytes;
	struct statfs before, after;
	int fd;

	MOUNT_SETUP(fs);
	snprintf(path, sizeof(path), "%s/file", fs);
	ASSERT_EQ(0, statfs(fs, &before));
	fd = make_file(&self->im, path);
	ASSERT_LE(0, fd);
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, table_supply(self->owner, fd, self->table, self->size, 0));
	ASSERT_EQ(0, image_map(&m, &self->im, fd, 0));
	EXPECT_STACK(&m, WHOLE, "mounted");

	/* The blocks of a deleted file are free. */
	ASSERT_EQ(0, unlink(path));
	EXPECT_STACK(&m, WHOLE, "deleted");
	image_unmap(&m);
	close(fd);
	ASSERT_EQ(0, statfs(fs, &after));
	EXPECT_EQ(before.f_bfree, after.f_bfree);
	EXPECT_EQ(before.f_ffree, after.f_ffree);
	ASSERT_EQ(0, table_info(self->owner, &nr, &bytes));
	EXPECT_EQ(1, nr);
	EXPECT_EQ(0, umount(fs));

	/* A file that may have the same device, inode number and length */
	ASSERT_EQ(0, mount("room", fs, "tmpfs", 0, NULL));
	fd = make_file(&self->im, path);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &self->im, fd, 0));
	EXPECT_STACK(&m, BARE, "another file system");
	ASSERT_EQ(0, table_supply(self->owner, fd, self->table, self->size, 0));
	EXPECT_STACK(&m, WHOLE, "supplied for that");
	image_unmap(&m);
	close(fd);
	EXPECT_EQ(0, umount(fs));
}

/* fdinfo lists the tables. */
TEST_F(room, fdinfo)
{
	unsigned int major_nr, minor_nr, found = 0;
	unsigned long ino, bytes, idle;
	char path[64], line[128], whom[8];
	struct stat st;
	FILE *f;

	ASSERT_EQ(0, table_supply_all(self->owner, self->fd, self->table, self->size, 0));
	ASSERT_EQ(0, fstat(self->fd, &st));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->owner);
	f = fopen(path, "r");
	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "unwind_table: %x:%x %lu %lu %lu %7s", &major_nr,
			   &minor_nr, &ino, &bytes, &idle, whom) != 6)
			continue;
		found++;
		EXPECT_EQ(major(st.st_dev), major_nr);
		EXPECT_EQ(minor(st.st_dev), minor_nr);
		EXPECT_EQ(st.st_ino, ino);
		EXPECT_EQ(self->size, bytes);
		EXPECT_STREQ("all", whom);
	}
	fclose(f);
	EXPECT_EQ(1, found);
}

/* Whom they serve */

/* Events share a set of tables and are closed, again and again. */
TEST_F(room, shared_later)
{
	pid_t pid = fork();
	int first, event, i;

	ASSERT_LE(0, pid);
	if (!pid) {
		pause();
		_exit(0);
	}
	/* The child has a copy of self->owner. */
	first = owner_open(pid, -1, false);
	ASSERT_LE(0, first);
	ASSERT_EQ(0, table_supply(first, self->fd, self->table, self->size, 0));
	SESSION_OPEN(&self->s);
	for (i = 0; i < 3; i++) {
		event = owner_open(0, -1, false);
		ASSERT_LE(0, event);
		EXPECT_STACK(&self->m, BARE, "round %d, of another task", i);
		ASSERT_EQ(0, table_share(event, first));
		EXPECT_STACK(&self->m, WHOLE, "round %d, shared", i);
		close(event);
		EXPECT_STACK(&self->m, BARE, "round %d, closed", i);
	}
	close(first);
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
}

/* What another user does all the time, on another CPU */
enum churn {
	/* Shares a set that is already shared */
	CHURN_SHARE,
	/* Closes the event and lets a new one share the set */
	CHURN_OWNERS,
	/* Replaces a table */
	CHURN_TABLES,
};

static void churn(const FIXTURE_DATA(room) *self, enum churn what, const int *stop,
		  unsigned long *changes)
{
	int owner, event = -1, fd = any_file(&self->im), err = 0;

	owner = owner_open(0, -1, false);
	event = owner_open(0, -1, false);
	if (fd < 0 || owner < 0 || event < 0 ||
	    table_supply(owner, fd, self->table, self->size, 0) ||
	    table_share(event, owner))
		_exit(2);
	while (!err && !__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		switch (what) {
		case CHURN_SHARE:
			err = table_share(event, owner);
			break;
		case CHURN_OWNERS:
			close(event);
			event = owner_open(0, -1, false);
			err = table_share(event, owner);
			break;
		case CHURN_TABLES:
			err = table_supply(owner, fd, self->table, self->size, 0);
			break;
		}
		__atomic_fetch_add(changes, 1, __ATOMIC_RELAXED);
	}
	_exit(err ? 3 : 0);
}

struct churn_shared {
	struct shared sh;
	int stop;
	unsigned long changes;
};

static void undisturbed(struct __test_metadata *_metadata, FIXTURE_DATA(room) *self,
			enum churn what)
{
	const unsigned int rounds = 4000;
	struct churn_shared *sh;
	unsigned int i, whole = 0;
	const int cpu = pin_to_cpu(-1);
	cpu_set_t others;
	struct chain c;
	pid_t pid;

	ASSERT_LE(0, cpu);
	ASSERT_EQ(0, sched_getaffinity(1, sizeof(others), &others));
	CPU_CLR(cpu, &others);
	if (!CPU_COUNT(&others))
		SKIP(return, "needs two CPUs");
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, sh);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (sched_setaffinity(0, sizeof(others), &others) || become_nobody())
			_exit(1);
		churn(self, what, &sh->stop, &sh->changes);
	}
	ASSERT_EQ(0, table_supply(self->owner, self->fd, self->table, self->size, 0));
	SESSION_OPEN(&self->s);
	chain_one(&c, &self->m);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;
		int nr = next_stack(&self->s, &c, &ips);

		ASSERT_LE(0, nr);
		whole += stack_same(ips, nr, self->want,
				    expect_one(&c, self->want, &self->m, WHOLE));
		forget_stack(&self->s);
	}
	__atomic_store_n(&sh->stop, 1, __ATOMIC_RELAXED);
	EXPECT_EXIT(pid);
	TH_LOG("%u of %u stacks whole, %lu changes", whole, rounds, sh->changes);
	EXPECT_EQ(rounds, whole);
	EXPECT_LT(100, sh->changes);
}

TEST_F_TIMEOUT(room, other_user_shares, 300)
{
	undisturbed(_metadata, self, CHURN_SHARE);
}

TEST_F_TIMEOUT(room, other_user_owns, 300)
{
	undisturbed(_metadata, self, CHURN_OWNERS);
}

TEST_F_TIMEOUT(room, other_user_supplies, 300)
{
	undisturbed(_metadata, self, CHURN_TABLES);
}

#else /* !__x86_64__ */

TEST(tables_room)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
