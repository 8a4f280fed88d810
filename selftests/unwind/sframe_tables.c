// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that a profiler supplies for files, by PERF_EVENT_IOC_UNWIND_TABLE:
 * whom and what they serve and how long, what is refused, and that tables which lie
 * cannot make the kernel show anything but addresses of code.
 *
 * The files are those of sframe_discovery.c: the same code, with a section, with one
 * that says that code_mark is an outermost function, and with none. Tables are such
 * sections, too. So a stack tells what was used.
 */
#define _GNU_SOURCE
#define SIGNAL_FRAMES_TEST
#include "sframe_tables.h"
#include "sframe_compiled.h"
#include "signal_frames.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <ucontext.h>

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "../kselftest_harness.h"

#ifdef __x86_64__

FIXTURE(tables) {
	struct defer_session s;
	unsigned int nr;
	struct kmsg log;
	struct image im;
	int fd;
	/* The bare file, twice. */
	struct image_map m;
	struct image_map v;
	int owner;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	unsigned char table[SFRAME_MAX_SIZE];
	char dir[64];
	long paranoid;
};

FIXTURE_VARIANT(tables) {
	struct sframe_opts sframe;
	enum image_kind kind;
	__u64 image_vaddr;
	/* Where the table is said to be. */
	__u64 vaddr;
	unsigned int gap;
	/* A file of /tmp, not in anonymous memory. */
	bool path;
};

FIXTURE_VARIANT_ADD(tables, v3) {
	.sframe = { .version = SFRAME_V3 },
	.path = true,
};

FIXTURE_VARIANT_ADD(tables, v3_elsewhere) {
	.sframe = { .version = SFRAME_V3 },
	.vaddr = 0x123456789abcUL,
	.gap = 3,
};

FIXTURE_VARIANT_ADD(tables, v3_linked_to_address) {
	.sframe = { .version = SFRAME_V3 },
	.image_vaddr = 0x400000,
	.vaddr = 0x500000,
};

FIXTURE_VARIANT_ADD(tables, v2) {
	.sframe = { .version = SFRAME_V2, .pcrel = true },
	.image_vaddr = 0x10000,
	.path = true,
};

FIXTURE_SETUP(tables)
{
	struct image_opts o = {
		.sframe = variant->sframe,
		.kind = variant->kind,
		.vaddr = variant->image_vaddr,
		.gap = variant->gap,
		.no_sframe = true,
	};
	const char *why = sframe_unsupported();
	struct table_arg arg = {};

	self->fd = -1;
	self->owner = -1;
	self->paranoid = LONG_MAX;
	if (why)
		SKIP(return, "%s", why);
	self->owner = owner_open(0, -1, false);
	ASSERT_LE(0, self->owner);
	if (table_ioctl(self->owner, &arg) == -ENOTTY)
		SKIP(return, "kernel lacks PERF_EVENT_IOC_UNWIND_TABLE");
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, make_dir(self->dir, sizeof(self->dir)));
	ASSERT_EQ(0, chmod(self->dir, 0755));
	ASSERT_EQ(0, image_build(&self->im, &o));
	self->fd = make_file(&self->im, variant->path ?
			     file_path(self->dir, "bare") : NULL);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, image_map(&self->m, &self->im, self->fd, 0));
	ASSERT_EQ(0, image_map(&self->v, &self->im, self->fd, 0));
}

FIXTURE_TEARDOWN(tables)
{
	char cmd[128];

	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	defer_session_close(&self->s);
	image_unmap(&self->m);
	image_unmap(&self->v);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
	if (self->owner >= 0)
		close(self->owner);
	if (self->paranoid != LONG_MAX)
		EXPECT_EQ(0, defer_write_long(PARANOID, self->paranoid));
	if (self->dir[0]) {
		snprintf(cmd, sizeof(cmd), "rm -rf %s", self->dir);
		EXPECT_EQ(0, system(cmd));
	}
}

/* What to supply, and for the bare file. */
#define TABLE(kind)	table_build(self->table, &self->im, &variant->sframe, kind, \
				    variant->vaddr)
#define SUPPLY(event, kind)						\
	table_supply(event, self->fd, self->table, TABLE(kind), variant->vaddr)

/* ---- What they do ----------------------------------------------------------------- */

TEST_F(tables, stack)
{
	unsigned int i;

	SESSION_OPEN(&self->s);
	EXPECT_STACK(&self->m, BARE, "none yet");
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	for (i = 0; i < 3; i++) {
		EXPECT_STACK(&self->m, WHOLE, "round %u", i);
		EXPECT_STACK(&self->v, WHOLE, "elsewhere, round %u", i);
	}
}

/* Rules that a task remembers go with their table. */
TEST_F(tables, gone_with_event)
{
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	EXPECT_STACK(&self->m, WHOLE);
	EXPECT_STACK(&self->m, WHOLE, "warm");
	close(self->owner);
	EXPECT_STACK(&self->m, BARE, "closed");
	self->owner = owner_open(0, -1, false);
	ASSERT_LE(0, self->owner);
	EXPECT_STACK(&self->m, BARE, "another event");
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	EXPECT_STACK(&self->m, WHOLE, "another table");
}

TEST_F(tables, gone_with_last_reference)
{
	int copy;

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	copy = dup(self->owner);
	ASSERT_LE(0, copy);
	close(self->owner);
	EXPECT_STACK(&self->m, WHOLE, "still open");
	close(copy);
	EXPECT_STACK(&self->m, BARE, "closed");
	self->owner = -1;
}

TEST_F(tables, replaced_and_taken_back)
{
	unsigned long nr, bytes;
	size_t size;

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, table_info(self->owner, &nr, &bytes));
	EXPECT_EQ(0, nr);
	EXPECT_EQ(0, bytes);
	EXPECT_EQ(-ENOENT, table_take_back(self->owner, self->fd));
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	EXPECT_STACK(&self->m, WHOLE);
	ASSERT_EQ(0, SUPPLY(self->owner, MARKED));
	EXPECT_STACK(&self->m, MARKED);
	size = TABLE(WHOLE);
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	EXPECT_STACK(&self->m, WHOLE);
	ASSERT_EQ(0, table_info(self->owner, &nr, &bytes));
	EXPECT_EQ(1, nr);
	EXPECT_EQ(size, bytes);
	/* What fails leaves all as it was. */
	self->table[0]++;
	EXPECT_EQ(-EINVAL, table_supply(self->owner, self->fd, self->table, size,
					variant->vaddr));
	EXPECT_STACK(&self->m, WHOLE, "not replaced");
	ASSERT_EQ(0, table_take_back(self->owner, self->fd));
	EXPECT_STACK(&self->m, BARE);
	EXPECT_EQ(-ENOENT, table_take_back(self->owner, self->fd));
	ASSERT_EQ(0, table_info(self->owner, &nr, &bytes));
	EXPECT_EQ(0, nr);
	EXPECT_EQ(0, bytes);
}

/* The newest one is used, and each goes with its session. */
TEST_F(tables, two_sessions)
{
	int first = self->owner, second = owner_open(0, -1, false);

	ASSERT_LE(0, second);
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, SUPPLY(first, WHOLE));
	ASSERT_EQ(0, SUPPLY(second, MARKED));
	EXPECT_STACK(&self->m, MARKED, "second");
	close(second);
	EXPECT_STACK(&self->m, WHOLE, "first");
	second = owner_open(0, -1, false);
	ASSERT_LE(0, second);
	ASSERT_EQ(0, SUPPLY(second, MARKED));
	EXPECT_STACK(&self->m, MARKED, "second again");
	close(first);
	EXPECT_STACK(&self->m, MARKED, "second alone");
	close(second);
	EXPECT_STACK(&self->m, BARE, "none");
	self->owner = -1;
}

/* Tables of other files are not for this one, however equal. */
TEST_F(tables, other_file)
{
	int fd = make_file(&self->im, variant->path ?
			   file_path(self->dir, "other") : NULL);

	ASSERT_LE(0, fd);
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, table_supply(self->owner, fd, self->table, TABLE(WHOLE),
				  variant->vaddr));
	EXPECT_STACK(&self->m, BARE);
	close(fd);
}

/* The file's own section comes first, frame by frame. */
TEST_F(tables, own_section_first)
{
	struct image_opts o = {
		.sframe = variant->sframe,
		.vaddr = variant->image_vaddr,
		.gap = variant->gap,
	};
	struct image_map m = {};
	struct image im;
	int fd;

	o.sframe.outermost[0] = code_mark;
	ASSERT_EQ(0, image_build(&im, &o));
	fd = image_file(&im, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	SESSION_OPEN(&self->s);
	EXPECT_STACK(&m, MARKED, "its own");
	ASSERT_EQ(0, table_supply(self->owner, fd, self->table, TABLE(WHOLE),
				  variant->vaddr));
	EXPECT_STACK(&m, MARKED, "its own first");
	image_unmap(&m);
	image_free(&im);
	close(fd);

	/* One that lacks code_mark, which is what the table has. */
	o.sframe.outermost[0] = NULL;
	o.sframe.without = code_mark;
	ASSERT_EQ(0, image_build(&im, &o));
	fd = image_file(&im, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	ASSERT_EQ(0, table_supply(self->owner, fd, self->table, TABLE(WHOLE),
				  variant->vaddr));
	EXPECT_STACK(&m, WHOLE, "both");
	EXPECT_STACK(&m, WHOLE, "both, warm");
	image_unmap(&m);
	image_free(&im);
	close(fd);
}

/* ---- What compilers make ---------------------------------------------------------- */

/* Files beside this program. */
static const char *beside(const char *name)
{
	static char path[256];
	ssize_t len;

	len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	while (len > 0 && path[len - 1] != '/')
		len--;
	if (len <= 0 || snprintf(path + len, sizeof(path) - len, "%s", name) >=
			(int)sizeof(path) - len)
		return "";
	return path;
}

/* The section of a file that has it yet, and where it was linked to. */
static unsigned char *section_read(const char *path, size_t *size, __u64 *vaddr)
{
	unsigned char *buf = NULL;
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;
	unsigned int i;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, &ehdr, sizeof(ehdr), 0) != sizeof(ehdr))
		return NULL;
	for (i = 0; i < ehdr.e_phnum && !buf; i++) {
		if (pread(fd, &phdr, sizeof(phdr), ehdr.e_phoff + i * sizeof(phdr)) !=
		    sizeof(phdr))
			break;
		if (phdr.p_type != SFRAME_PT)
			continue;
		buf = malloc(phdr.p_filesz);
		if (!buf || pread(fd, buf, phdr.p_filesz, phdr.p_offset) !=
		    (ssize_t)phdr.p_filesz)
			break;
		*size = phdr.p_filesz;
		*vaddr = phdr.p_vaddr;
	}
	close(fd);
	return buf;
}

/* The whole stack of optimized code, by the table that the assembler made for it. */
TEST_F(tables, compiled)
{
	void (*run)(struct compiled *r, int depth);
	const __u64 *ips = NULL;
	unsigned char *section;
	unsigned int i, j;
	void *lib;
	size_t size;
	__u64 vaddr;
	int fd, nr;

	if (access(beside("sframe_compiled.so"), R_OK))
		SKIP(return, "built without binutils 2.46 or newer");
	section = section_read(beside("sframe_compiled_full.so"), &size, &vaddr);
	ASSERT_NE(NULL, section);
	fd = open(beside("sframe_compiled.so"), O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	lib = dlopen(beside("sframe_compiled.so"), RTLD_NOW);
	ASSERT_NE(NULL, lib) {
		TH_LOG("%s", dlerror());
	}
	run = dlsym(lib, "compiled_run");
	ASSERT_NE(NULL, run);
	SESSION_OPEN(&self->s);
	for (i = 0; i < 3; i++) {
		struct compiled r = { .seed = 77 };
		unsigned int same = 0;

		/* Not before the second time. */
		if (i)
			ASSERT_EQ(0, table_supply(self->owner, fd, section, size, vaddr));
		run(&r, 36);
		ASSERT_EQ(0, defer_wait_samples(&self->s, i + 1, 5));
		nr = sample_stack(&self->s, i, &ips);
		for (j = 0; j < r.nr && (int)j + 1 < nr; j++)
			same += ips[j + 1] == r.ras[r.nr - 1 - j];
		TH_LOG("%u of %u frames", same, r.nr);
		if (!i) {
			EXPECT_GT(r.nr, same);
			continue;
		}
		EXPECT_EQ(r.nr, same) {
			defer_dump("seen", ips, nr);
		}
	}
	free(section);
	close(fd);
}

/* ---- Which file ------------------------------------------------------------------- */

TEST_F(tables, replaced_file)
{
	const char *path = file_path(self->dir, "bare");
	struct image_map m = {};
	char other[128];
	int fd;

	if (!variant->path)
		SKIP(return, "the file has no name");
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	EXPECT_STACK(&self->m, WHOLE);
	snprintf(other, sizeof(other), "%s/new", self->dir);
	fd = make_file(&self->im, other);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, rename(other, path));
	EXPECT_STACK(&self->m, WHOLE, "the old one, which is still mapped");
	ASSERT_EQ(0, image_map(&m, &self->im, fd, 0));
	EXPECT_STACK(&m, BARE, "the new one");
	ASSERT_EQ(0, unlink(path));
	EXPECT_STACK(&self->m, WHOLE, "the old one, after the new one");
	image_unmap(&m);
	close(fd);
}

TEST_F(tables, deleted_file)
{
	if (!variant->path)
		SKIP(return, "the file has no name");
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, unlink(file_path(self->dir, "bare")));
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	EXPECT_STACK(&self->m, WHOLE);
	/* The mapping alone keeps what it is for. */
	image_unmap(&self->v);
	close(self->fd);
	self->fd = -1;
	EXPECT_STACK(&self->m, WHOLE, "closed");
}

/* A file that was written to has no table any more. */
TEST_F(tables, overwritten_file)
{
	struct image_map m = {};
	char byte = 0;
	int fd;

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	EXPECT_STACK(&self->m, WHOLE);
	/* Modification times have the resolution of a clock tick. */
	usleep(50000);
	fd = variant->path ? open(file_path(self->dir, "bare"), O_RDWR | O_CLOEXEC) :
			     dup(self->fd);
	ASSERT_LE(0, fd);
	/* In the last page: the code is the same. */
	ASSERT_EQ(1, pwrite(fd, &byte, 1, self->im.size - 1));
	ASSERT_EQ(0, image_map(&m, &self->im, self->fd, 0));
	EXPECT_STACK(&m, BARE, "mapped again");
	EXPECT_STACK(&self->m, BARE, "mapped before");
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	EXPECT_STACK(&m, WHOLE, "supplied again");
	image_unmap(&m);
	close(fd);
}

/* Nor does one that has another length. */
TEST_F(tables, resized_file)
{
	struct image_map m = {};
	int fd;

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, SUPPLY(self->owner, WHOLE));
	fd = variant->path ? open(file_path(self->dir, "bare"), O_RDWR | O_CLOEXEC) :
			     dup(self->fd);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, self->im.size + 1));
	ASSERT_EQ(0, image_map(&m, &self->im, self->fd, 0));
	EXPECT_STACK(&m, BARE);
	image_unmap(&m);
	close(fd);
}

/* The file is not held: programs can be executed meanwhile. */
TEST_F(tables, file_open_for_writing)
{
	const char *path = file_path(self->dir, "bare");
	int fd, ret;
	pid_t pid;

	if (!variant->path)
		SKIP(return, "the file has no name");
	fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, table_supply(self->owner, fd, self->table, TABLE(WHOLE),
				  variant->vaddr));
	close(fd);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		execl(path, path, NULL);
		_exit(errno);
	}
	ASSERT_EQ(0, defer_wait(pid, &ret, 10, NULL));
	/* It is no program, but not for being open. */
	EXPECT_FALSE(WIFEXITED(ret) && WEXITSTATUS(ret) == ETXTBSY);
}

/* A file system of its own, in a mount namespace of its own. */
#define MOUNT_SETUP(what) do {						\
	if (unshare(CLONE_NEWNS))					\
		SKIP(return, "no mount namespaces: %s", strerror(errno)); \
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)); \
	snprintf(what, sizeof(what), "%s/fs", self->dir);		\
	ASSERT_EQ(0, mkdir(what, 0755));				\
	ASSERT_EQ(0, mount("tables", what, "tmpfs", 0, NULL));		\
} while (0)

TEST_F(tables, bind_mount)
{
	struct image_map m = {};
	char fs[96], path[128], other[96];
	int fd, fd_bind;

	MOUNT_SETUP(fs);
	snprintf(path, sizeof(path), "%s/file", fs);
	snprintf(other, sizeof(other), "%s/bind", self->dir);
	fd = make_file(&self->im, path);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mkdir(other, 0755));
	ASSERT_EQ(0, mount(fs, other, NULL, MS_BIND, NULL));
	snprintf(path, sizeof(path), "%s/file", other);
	fd_bind = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd_bind);
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, table_supply(self->owner, fd, self->table, TABLE(WHOLE),
				  variant->vaddr));
	ASSERT_EQ(0, image_map(&m, &self->im, fd_bind, 0));
	EXPECT_STACK(&m, WHOLE, "through another mount");
	image_unmap(&m);
	close(fd_bind);
	close(fd);
	EXPECT_EQ(0, umount(other));
	EXPECT_EQ(0, umount(fs));
}

TEST_F(tables, overlay)
{
	char fs[96], opts[512], path[128], lower[128];
	struct image_map m = {}, l = {};
	int fd, fd_lower, fd_write;

	MOUNT_SETUP(fs);
	snprintf(opts, sizeof(opts), "mkdir %s/lower %s/upper %s/work %s/merged",
		 fs, fs, fs, fs);
	ASSERT_EQ(0, system(opts));
	snprintf(lower, sizeof(lower), "%s/lower/file", fs);
	fd_lower = make_file(&self->im, lower);
	ASSERT_LE(0, fd_lower);
	snprintf(opts, sizeof(opts), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work",
		 fs, fs, fs);
	snprintf(path, sizeof(path), "%s/merged", fs);
	if (mount("overlay", path, "overlay", 0, opts))
		SKIP(return, "no overlay: %s (CONFIG_OVERLAY_FS?)", strerror(errno));
	snprintf(path, sizeof(path), "%s/merged/file", fs);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, table_supply(self->owner, fd, self->table, TABLE(WHOLE),
				  variant->vaddr));
	ASSERT_EQ(0, image_map(&m, &self->im, fd, 0));
	EXPECT_STACK(&m, WHOLE, "overlay");
	ASSERT_EQ(0, image_map(&l, &self->im, fd_lower, 0));
	EXPECT_STACK(&l, WHOLE, "what is below");
	/* From now on the overlay has another file there. */
	fd_write = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd_write);
	EXPECT_STACK(&m, WHOLE, "what was mapped before");
	image_unmap(&m);
	ASSERT_EQ(0, image_map(&m, &self->im, fd_write, 0));
	EXPECT_STACK(&m, BARE, "copied up");
	ASSERT_EQ(0, table_supply(self->owner, fd_write, self->table, TABLE(WHOLE),
				  variant->vaddr));
	EXPECT_STACK(&m, WHOLE, "supplied for the copy");
	image_unmap(&l);
	image_unmap(&m);
	close(fd_write);
	close(fd_lower);
	close(fd);
	snprintf(path, sizeof(path), "%s/merged", fs);
	EXPECT_EQ(0, umount(path));
	EXPECT_EQ(0, umount(fs));
}

/* ---- What is refused -------------------------------------------------------------- */

TEST_F(tables, bad_arguments)
{
	static const char text[] = "#!/bin/sh\n";
	struct {
		struct table_arg arg;
		__u64 more;
	} big = {};
	struct table_arg good = {
		.size	= sizeof(good),
		.fd	= self->fd,
		.table	= (unsigned long)self->table,
		.vaddr	= variant->vaddr,
	}, arg;
	int fds[2], fd;

	good.table_size = TABLE(WHOLE);

#define REFUSED(error, change) do {					\
	arg = good;							\
	arg.change;							\
	EXPECT_EQ(-(error), table_ioctl(self->owner, &arg)) {		\
		TH_LOG("%s", #change);					\
	}								\
} while (0)
	EXPECT_EQ(-EFAULT, table_ioctl(self->owner, NULL));
	REFUSED(EINVAL, size = 0);
	REFUSED(EINVAL, size = sizeof(arg) - 1);
	REFUSED(EINVAL, size = 0x10000);
	REFUSED(EINVAL, flags = 4);
	REFUSED(EINVAL, flags = TABLE_SHARE | TABLE_GLOBAL);
	REFUSED(EINVAL, flags = 1ULL << 63);
	REFUSED(EBADF, fd = -1);
	REFUSED(EBADF, fd = 1000000);
	REFUSED(EFAULT, table = 8);
	REFUSED(EFAULT, table = 1ULL << 63);
	REFUSED(EFBIG, table_size = (64 << 20) + 1);
	REFUSED(EFBIG, table_size = -1ULL);
	REFUSED(EINVAL, table_size = 27);
	REFUSED(EINVAL, vaddr = 1ULL << 47);
	REFUSED(EINVAL, vaddr = -1ULL);
	/* An event is no file that is mapped. */
	REFUSED(EINVAL, fd = self->owner);

	/* From a program that knows of more than the kernel. */
	big.arg = good;
	big.arg.size = sizeof(big);
	EXPECT_EQ(0, table_ioctl(self->owner, &big));
	big.more = 1;
	EXPECT_EQ(-E2BIG, table_ioctl(self->owner, &big));

	ASSERT_EQ(0, pipe(fds));
	REFUSED(EINVAL, fd = fds[0]);
	close(fds[0]);
	close(fds[1]);
	fd = open(self->dir, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	REFUSED(EINVAL, fd = fd);
	close(fd);
	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	REFUSED(EINVAL, fd = fd);
	close(fd);
	fd = memfd_create("text", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	REFUSED(ENOEXEC, fd = fd);
	ASSERT_EQ(sizeof(text), write(fd, text, sizeof(text)));
	REFUSED(ENOEXEC, fd = fd);
	close(fd);
	if (variant->path) {
		fd = open(file_path(self->dir, "bare"), O_WRONLY | O_CLOEXEC);
		ASSERT_LE(0, fd);
		REFUSED(EBADF, fd = fd);
		close(fd);
		fd = open(file_path(self->dir, "bare"), O_PATH | O_CLOEXEC);
		ASSERT_LE(0, fd);
		REFUSED(EBADF, fd = fd);
		close(fd);
	}

	/* Sharing has no other arguments, and is between two events. */
	REFUSED(EINVAL, flags = TABLE_SHARE);
	EXPECT_EQ(-EBADF, table_share(self->owner, self->fd));
	EXPECT_EQ(-EBADF, table_share(self->owner, -1));
	arg = good;
	EXPECT_EQ(0, table_ioctl(self->owner, &arg));
#undef REFUSED
}

/* Files of another machine, or another size of addresses. */
TEST_F(tables, other_elf_files)
{
	Elf64_Ehdr ehdr = *self->im.ehdr;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		int fd = memfd_create("elf", MFD_CLOEXEC);

		ASSERT_LE(0, fd);
		ehdr = *self->im.ehdr;
		if (i == 1)
			ehdr.e_machine = EM_AARCH64;
		if (i == 2)
			ehdr.e_ident[EI_CLASS] = ELFCLASS32;
		if (i == 3)
			ehdr.e_type = ET_CORE;
		ASSERT_EQ(sizeof(ehdr), write(fd, &ehdr, sizeof(ehdr)));
		EXPECT_EQ(i ? -ENOEXEC : 0,
			  table_supply(self->owner, fd, self->table, TABLE(WHOLE),
				       variant->vaddr));
		close(fd);
	}
}

/* Broken somewhere, not just in the header. */
TEST_F(tables, bad_tables)
{
	size_t size = TABLE(WHOLE);
	struct sframe_header *h = (void *)self->table;
	unsigned char *fres = self->table + sizeof(*h) + h->freoff;

#define REFUSED(change) do {						\
	TABLE(WHOLE);							\
	change;								\
	EXPECT_EQ(-EINVAL, table_supply(self->owner, self->fd, self->table, \
					size, variant->vaddr)) {	\
		TH_LOG("%s", #change);					\
	}								\
} while (0)
	REFUSED(h->magic++);
	REFUSED(h->version = SFRAME_V1);
	REFUSED(h->flags = 0);
	REFUSED(h->abi = 2);
	REFUSED(h->num_fdes++);
	REFUSED(h->num_fres--);
	REFUSED(h->num_fres = -1);
	REFUSED(h->fre_len--);
	REFUSED(h->fre_len += SFRAME_MAX_SIZE);
	REFUSED(h->freoff--);
	/* The rows of the last function end where the table does. */
	REFUSED(self->table[size - 2] = 0xff);
	/* Those of all functions. */
	REFUSED(memset(fres, 0xff, h->fre_len));
	/* The second function is not where it should be. */
	REFUSED(memset(self->table + sizeof(*h) +
		       (h->version == SFRAME_V3 ? sizeof(struct sframe_fde_v3) :
			sizeof(struct sframe_fde_v2)) + 3, 0x80, 1));
#undef REFUSED
}

/* ---- Who may ---------------------------------------------------------------------- */

FIXTURE(privilege) {
	struct defer_session s;
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
	const struct sframe_opts v3 = { .version = SFRAME_V3 };
	const struct image_opts o = { .sframe = v3, .no_sframe = true };
	const char *why = sframe_unsupported();
	struct table_arg arg = {};
	int owner;

	self->fd = -1;
	self->paranoid = LONG_MAX;
	if (why)
		SKIP(return, "%s", why);
	owner = owner_open(0, -1, false);
	ASSERT_LE(0, owner);
	if (table_ioctl(owner, &arg) == -ENOTTY)
		SKIP(return, "kernel lacks PERF_EVENT_IOC_UNWIND_TABLE");
	close(owner);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, defer_read_long(PARANOID, &self->paranoid));
	ASSERT_EQ(0, defer_write_long(PARANOID, 2));
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
	defer_session_close(&self->s);
	image_unmap(&self->m);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
	if (self->paranoid != LONG_MAX)
		EXPECT_EQ(0, defer_write_long(PARANOID, self->paranoid));
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
	set(&self->shared->up);
	if (wait_for(&self->shared->go))
		_exit(2);
	chain_sample(&self->c);
	_exit(0);
}

/*
 * Run the chain in a child when told to, if "go" is not NULL, and before that in a
 * child of it, if "second" is not NULL.
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

/* For all, whatever the event is attached to. */
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
	set(&self->shared->go);
	EXPECT_EXIT(root);
	EXPECT_EXIT(other);
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_PID(root, WHOLE, "child");
	EXPECT_PID(other, WHOLE, "child of another user");
	close(owner);
}

/* Events of CPUs will do with it. */
TEST_F(privilege, global_by_cpu)
{
	pid_t pid = spawn_chain(self, true);
	int owner;

	ASSERT_LT(0, pid);
	owner = owner_open(-1, 0, false);
	ASSERT_LE(0, owner);
	SESSION_OPEN_ALL(&self->s);
	ASSERT_EQ(0, PSUPPLY_ALL(owner, WHOLE));
	set(&self->shared->go);
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_PID(pid, WHOLE, "child");
	close(owner);
}

/* With the privilege, but not for all: other tasks, and other sessions, see nothing. */
TEST_F(privilege, own_task_of_root)
{
	pid_t other = spawn_chain(self, false);
	int owner;

	ASSERT_LT(0, other);
	owner = owner_open(0, -1, false);
	ASSERT_LE(0, owner);
	SESSION_OPEN_ALL(&self->s);
	ASSERT_EQ(0, PSUPPLY(owner, WHOLE));
	set(&self->shared->go);
	EXPECT_EXIT(other);
	chain_sample(&self->c);
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_PID(other, BARE, "other task");
	EXPECT_PID(getpid(), WHOLE, "task of the event");
	close(owner);
}

/* An event of a CPU: the tasks on that CPU. */
TEST_F(privilege, own_cpu)
{
	const int served = defer_pin(-1);
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
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_PID(pid[0], WHOLE, "on the CPU of the event");
	EXPECT_PID(pid[1], BARE, "on another CPU");
	close(owner);
}

/* For all takes the privilege, whatever the event is. */
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

/* Without: for the task of the event, not for others of the same user. */
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
		set(&sh->go);
		chain_sample(&self->c);
		/* Not inherited. */
		_exit(run_child(self, &sh->pids[0], NULL, NULL));
	}
	EXPECT_EXIT(other);
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, defer_finish(&self->s));
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
		/* Also those that have inherited it before there was a table. */
		if (PSUPPLY(owner, WHOLE))
			_exit(3);
		set(&sh->go);
		if (waitpid(child, &status, 0) < 0 || status)
			_exit(4);
		_exit(run_child(self, &sh->pids[2], NULL, NULL));
	}
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_PID(sh->pids[0], WHOLE, "child");
	EXPECT_PID(sh->pids[1], WHOLE, "grandchild");
	EXPECT_PID(sh->pids[2], WHOLE, "later child");
}

/* Several tasks, one table; it goes with the last event. */
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
		set(&sh->go);
		chain_sample(&self->c);
		if (wait_for(&sh->done))
			_exit(7);
		_exit(0);
	}
	EXPECT_EXIT(other);
	set(&sh->done);
	EXPECT_EXIT(pid);
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_PID(other, WHOLE, "task of the second event");
	EXPECT_PID(pid, MARKED, "task of the third event");
}

/* Sets that two events share, and seconds of closing both at once */
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

/* The event that is not the last owner must not look at what the last one frees. */
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

/* A table of a user never replaces one of those who may profile all tasks. */
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
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_PID(pid, WHOLE, "task");
	close(owner);
}

/* Nor is one that served all tasks left beside what a user has put in its place. */
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
	ASSERT_EQ(0, defer_finish(&self->s));
	EXPECT_PID(pid, BARE, "other task");
	EXPECT_PID(getpid(), MARKED, "task of the event");
	close(owner);
}

/* Who was given an event of a CPU has no say in what others' stacks are. */
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

/* ---- Tables that lie -------------------------------------------------------------- */

/*
 * A stack, a page that is not mapped, and a page above it with what r12 of code_leaf
 * points to: so that frames there would be further out.
 */
#define LOW_STACK	(64UL << 10)
#define OFF_STACK(low)	((struct code_call *)((low) + LOW_STACK + IMAGE_PAGE))

FIXTURE(lies) {
	struct defer_session s;
	unsigned int nr;
	struct kmsg log;
	struct image im;
	int fd;
	int owner;
	struct image_map m;
	char *low;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned char table[SFRAME_MAX_SIZE];
};

FIXTURE_SETUP(lies)
{
	const struct image_opts o = { .sframe = plain_v3, .no_sframe = true };
	const char *why = sframe_unsupported();
	struct table_arg arg = {};

	self->fd = -1;
	self->owner = -1;
	if (why)
		SKIP(return, "%s", why);
	self->owner = owner_open(0, -1, false);
	ASSERT_LE(0, self->owner);
	if (table_ioctl(self->owner, &arg) == -ENOTTY)
		SKIP(return, "kernel lacks PERF_EVENT_IOC_UNWIND_TABLE");
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, image_build(&self->im, &o));
	self->fd = image_file(&self->im, NULL);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, image_map(&self->m, &self->im, self->fd, 0));
	self->low = mmap(NULL, LOW_STACK + 2 * IMAGE_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->low);
	ASSERT_EQ(0, munmap(self->low + LOW_STACK, IMAGE_PAGE));
}

FIXTURE_TEARDOWN(lies)
{
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	defer_session_close(&self->s);
	image_unmap(&self->m);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
	if (self->owner >= 0)
		close(self->owner);
}

/* A table with one function, and one row in it; the table's address is 0. */
static size_t
table_one(unsigned char *buf, __u64 start, __u32 len, const __s32 *words,
	  unsigned int nr)
{
	struct sframe_header *h = (void *)buf;
	struct sframe_fde_v3 *fde = (void *)(h + 1);
	struct sframe_attr_v3 *attr = (void *)(fde + 1);
	unsigned char *p = (void *)(attr + 1);

	*fde = (struct sframe_fde_v3) {
		.start	= start - sizeof(*h),
		.size	= len,
	};
	*attr = (struct sframe_attr_v3) { .nfres = 1, .info2 = SFRAME_FDE_FLEX };
	*p++ = 0;
	*p++ = SFRAME_FRE_WORDS(nr) | SFRAME_FRE_SIZE(2);
	memcpy(p, words, nr * sizeof(*words));
	p += nr * sizeof(*words);
	*h = (struct sframe_header) {
		.magic		= SFRAME_MAGIC,
		.version	= SFRAME_V3,
		.flags		= SFRAME_F_SORTED | SFRAME_F_PCREL,
		.abi		= SFRAME_ABI_AMD64,
		.fixed_ra	= SFRAME_AMD64_RA,
		.num_fdes	= 1,
		.num_fres	= 1,
		.freoff		= sizeof(*fde),
		.fre_len	= p - (unsigned char *)attr,
	};
	return p - buf;
}

/* Is this in an executable mapping of this process? */
static bool is_code(__u64 ip)
{
	unsigned long start, end;
	char line[512], x;
	bool found = false;
	FILE *f;

	f = fopen("/proc/self/maps", "r");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		/* A return address may be just behind its call. */
		found = sscanf(line, "%lx-%lx %*c%*c%c", &start, &end, &x) == 3 &&
			x == 'x' && ip >= start && ip <= end;
	}
	fclose(f);
	return found;
}

/* In code_leaf, below its frame: two registers and the frame pointer. */
#define LEAF_CFA	32

#define SUPPLY_LEAF(...) do {						\
	const __s32 __words[] = { __VA_ARGS__ };			\
	size_t __size;							\
									\
	__size = table_one(self->table, self->im.seg[SEG_TEXT].vaddr +	\
			   (code_leaf - code_begin), code_leaf_end - code_leaf, \
			   __words, ARRAY_SIZE(__words));		\
	ASSERT_EQ(0, table_supply(self->owner, self->fd, self->table,	\
				  __size, 0));				\
} while (0)

/* As a frame, that is one from the second word on. */
#define OFF_FRAME	offsetof(struct code_call, args[0])

static struct {
	ucontext_t		test;
	ucontext_t		chain;
	struct chain		*c;
	struct code_call	*calls;
} low;

static void low_main(void)
{
	chain_run(low.c, low.calls, 1);
}

/* Run a chain down there. The words off the stack look like a frame. */
static int low_run(FIXTURE_DATA(lies) *self, struct chain *c)
{
	struct code_call *call = OFF_STACK(self->low);

	chain_begin(c, &self->m);
	chain_add(c, &self->m, code_sp);
	chain_add(c, &self->m, code_leaf);
	*call = SAMPLE_CALL;
	call->args[1] = image_addr(&self->m, code_far_ret);
	/* The CFA of that frame. */
	call->args[2] = (unsigned long)&call->args[2];
	low.c = c;
	low.calls = call;
	if (getcontext(&low.chain))
		return -1;
	low.chain.uc_stack.ss_sp = self->low;
	/* Above the chain is forged. */
	low.chain.uc_stack.ss_size = LOW_STACK - IMAGE_PAGE;
	low.chain.uc_link = &low.test;
	makecontext(&low.chain, low_main, 0);
	return swapcontext(&low.test, &low.chain);
}

#define SAMPLE_LEAF(c) do {						\
	ASSERT_EQ(0, low_run(self, c));					\
	self->want[0] = LEAF_IP(&self->m);				\
} while (0)

/* The rule that is right, and what follows by frame pointer. */
TEST_F(lies, none)
{
	struct chain c;

	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_RSP), LEAF_CFA, FLEX_AT_CFA, -8, FLEX_AT_CFA, -16);
	SAMPLE_LEAF(&c);
	self->want[1] = image_addr(&self->m, code_sp_ret);
	/* It is code_sp's caller's, which is a decoy. */
	self->want[2] = DECOY(&self->m);
	EXPECT_NEXT(&self->s, self->nr, self->want, 3);
}

/* The return address is read off the stack; it would be a good one. */
TEST_F(lies, return_address_off_stack)
{
	struct chain c;

	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_RSP), LEAF_CFA, FLEX_AT_REG(DWARF_R12),
		    OFF_FRAME + 8);
	SAMPLE_LEAF(&c);
	EXPECT_NEXT(&self->s, 0, self->want, 1);
}

/* So is the frame itself. */
TEST_F(lies, frame_off_stack)
{
	struct chain c;

	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_R12), OFF_FRAME + 16);
	SAMPLE_LEAF(&c);
	EXPECT_NEXT(&self->s, 0, self->want, 1);
	SUPPLY_LEAF(FLEX_AT_REG(DWARF_R12), OFF_FRAME + 16);
	SAMPLE_LEAF(&c);
	EXPECT_NEXT(&self->s, 1, self->want, 1);
}

/* The frame pointer leads off the stack, in the frame that follows. */
TEST_F(lies, frame_pointer_off_stack)
{
	struct chain c;

	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_RSP), LEAF_CFA, FLEX_AT_CFA, -8,
		    FLEX_REG(DWARF_R12), OFF_FRAME);
	SAMPLE_LEAF(&c);
	self->want[1] = image_addr(&self->m, code_sp_ret);
	EXPECT_NEXT(&self->s, 0, self->want, 2);
}

/*
 * A table says that there is a signal frame where the program has other data on its
 * stack. The frame is in the page above the chain; this is where the stack is by it.
 */
enum forged_sp {
	FORGED_ABOVE,
	FORGED_BELOW,
	FORGED_OFF,
};

#define FORGED_AT	256

/* In code_far, with a frame pointer at sp to one frame, which leads to code_mid. */
static void forge(FIXTURE_DATA(lies) *self, ucontext_t *uc, __u64 *sp,
		  const void *restorer)
{
	const __u64 user_cs = 0x33;

	((__u64 *)uc)[-1] = (unsigned long)restorer;
	uc->uc_mcontext.gregs[REG_RIP] = image_addr(&self->m, code_far_ret);
	uc->uc_mcontext.gregs[REG_RSP] = (unsigned long)sp;
	uc->uc_mcontext.gregs[REG_RBP] = (unsigned long)sp;
	uc->uc_mcontext.gregs[REG_CSGSFS] = user_cs;
	sp[0] = 0;
	sp[1] = image_addr(&self->m, code_mid_ret);
}

static void forged_stack(struct __test_metadata *_metadata, FIXTURE_DATA(lies) *self,
			 enum forged_sp where)
{
	char *top = self->low + LOW_STACK;
	ucontext_t *uc = (void *)(top - IMAGE_PAGE + FORGED_AT);
	const void *restorer = libc_restorer();
	__u64 *sp[] = {
		[FORGED_ABOVE]	= (void *)(uc + 1),
		[FORGED_BELOW]	= (void *)self->low,
		/* Not the call that the leaf makes, which is in front of it. */
		[FORGED_OFF]	= (void *)(OFF_STACK(self->low) + 1),
	};
	struct chain c;
	__s32 off = (char *)uc - (char *)OFF_STACK(self->low);

	/* r12 is as far from it as that. */
	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_R12), off, FLEX_AT_CFA, -8);
	forge(self, uc, sp[where], restorer);
	SAMPLE_LEAF(&c);
	self->want[1] = (unsigned long)restorer;
	self->want[2] = image_addr(&self->m, code_far_ret);
	self->want[3] = image_addr(&self->m, code_mid_ret);
}

/* The stack goes on further out. */
TEST_F(lies, signal_frame_above)
{
	forged_stack(_metadata, self, FORGED_ABOVE);
	EXPECT_NEXT(&self->s, 0, self->want, 4);
}

/* What was left there is nobody's any more. */
TEST_F(lies, signal_frame_to_below)
{
	forged_stack(_metadata, self, FORGED_BELOW);
	EXPECT_NEXT(&self->s, 0, self->want, 2);
}

/* The words off the stack are not to be seen, though they are addresses of code. */
TEST_F(lies, signal_frame_off_stack)
{
	forged_stack(_metadata, self, FORGED_OFF);
	EXPECT_NEXT(&self->s, 0, self->want, 2);
}

/* Whatever word of the stack is taken for a return address: code, or the end. */
TEST_F_TIMEOUT(lies, any_word_is_return_address, 60)
{
	const __s32 first = -256, last = 2048;
	unsigned int n = 0, shown = 0;
	__s32 off;

	SESSION_OPEN(&self->s);
	for (off = first; off < last; off += 8, n++) {
		const __u64 *ips = NULL;
		struct chain c;
		int i, nr;

		SUPPLY_LEAF(FLEX_REG(DWARF_RSP), LEAF_CFA, FLEX_AT_REG(DWARF_RSP), off);
		SAMPLE_LEAF(&c);
		ASSERT_EQ(0, defer_wait_samples(&self->s, n + 1, 5));
		nr = sample_stack(&self->s, n, &ips);
		ASSERT_LE(1, nr);
		for (i = 1; i < nr; i++) {
			EXPECT_TRUE(is_code(ips[i])) {
				TH_LOG("at %d: %llx", off, ips[i]);
			}
			shown++;
		}
	}
	/* The right one is among them. */
	EXPECT_LT(0, shown);
}

/* Any bytes at all: no harm, and only addresses of code. */
TEST_F_TIMEOUT(lies, random_bytes, 120)
{
	const unsigned int rounds = 600;
	unsigned int i, j, n = 0, refused = 0;
	size_t size;

	srandom(3);
	SESSION_OPEN(&self->s);
	size = table_build(self->table, &self->im, &plain_v3, WHOLE, 0);
	for (i = 0; i < rounds; i++) {
		unsigned char copy[SFRAME_MAX_SIZE];
		const __u64 *ips = NULL;
		struct chain c;
		int ret, nr, k;

		memcpy(copy, self->table, size);
		for (j = 0; j <= i % 3; j++)
			copy[sizeof(struct sframe_header) +
			     random() % (size - sizeof(struct sframe_header))] ^=
				1 << random() % 8;
		ret = table_supply(self->owner, self->fd, copy, size, 0);
		if (ret) {
			ASSERT_EQ(-EINVAL, ret);
			refused++;
			continue;
		}
		chain_one(&c, &self->m);
		chain_sample(&c);
		ASSERT_EQ(0, defer_wait_samples(&self->s, n + 1, 5));
		nr = sample_stack(&self->s, n++, &ips);
		ASSERT_LE(1, nr);
		for (k = 0; k < nr; k++) {
			EXPECT_TRUE(is_code(ips[k])) {
				TH_LOG("round %u: %llx", i, ips[k]);
			}
		}
	}
	TH_LOG("%u of %u refused", refused, rounds);
	EXPECT_LT(0, refused);
	EXPECT_LT(0, n);
}

/* ---- All at once ------------------------------------------------------------------ */

struct changer {
	const struct image *im;
	int fd;
	int stop;
	unsigned int changes;
	int error;
};

static void *change_tables(void *arg)
{
	struct changer *ch = arg;
	unsigned char buf[SFRAME_MAX_SIZE];
	size_t size = table_build(buf, ch->im, &plain_v3, WHOLE, 0);
	int owner = -1;

	while (!__atomic_load_n(&ch->stop, __ATOMIC_RELAXED)) {
		if (owner < 0)
			owner = owner_open(0, -1, false);
		ch->error |= table_supply_all(owner, ch->fd, buf, size, 0);
		if (ch->changes % 3 == 0)
			ch->error |= table_supply_all(owner, ch->fd, buf, size, 0);
		if (ch->changes % 2) {
			ch->error |= table_take_back(owner, ch->fd);
		} else {
			close(owner);
			owner = -1;
		}
		ch->changes++;
	}
	close(owner);
	return NULL;
}

/* The stack of one more sample; returns its length. */
static int next_stack(struct defer_session *s, struct chain *c, const __u64 **ips)
{
	chain_sample(c);
	if (defer_wait_samples(s, 1, 5))
		return -1;
	return sample_stack(s, 0, ips);
}

static void forget_stack(struct defer_session *s)
{
	defer_log_free(&s->log);
	s->log.sample_type = DEFER_SAMPLE_TYPE;
	s->log.sample_id_all = true;
}

/* Tables come and go while they are used: each frame is by one, or by none. */
TEST_F_TIMEOUT(lies, changing_tables, 120)
{
	const unsigned int rounds = 3000;
	struct changer ch = { .im = &self->im, .fd = self->fd };
	unsigned int i, whole = 0;
	pthread_t thread;
	struct chain c;

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_tables, &ch));
	chain_one(&c, &self->m);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;
		int nr = next_stack(&self->s, &c, &ips);

		ASSERT_LE(0, nr);
		EXPECT_TRUE(chain_legal(&c, ips, nr, LEAF_IP(&self->m),
					DECOY(&self->m)));
		whole += nr > 2;
		forget_stack(&self->s);
	}
	__atomic_store_n(&ch.stop, 1, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%u of %u stacks by a table, %u changes", whole, rounds, ch.changes);
	EXPECT_EQ(0, ch.error);
	EXPECT_LT(0, whole);
	EXPECT_LT(100, ch.changes);
}

/* Tables of another file come and go: that makes no difference to this one's. */
TEST_F_TIMEOUT(lies, changing_other_tables, 120)
{
	const unsigned int rounds = 3000;
	struct changer ch = { .im = &self->im };
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int i, whole = 0;
	pthread_t thread;
	struct chain c;

	ASSERT_EQ(0, table_supply(self->owner, self->fd, self->table,
				  table_build(self->table, &self->im, &plain_v3,
					      WHOLE, 0), 0));
	ch.fd = image_file(&self->im, NULL);
	ASSERT_LE(0, ch.fd);
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_tables, &ch));
	chain_one(&c, &self->m);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;
		int nr = next_stack(&self->s, &c, &ips);

		ASSERT_LE(0, nr);
		whole += defer_same(ips, nr, want,
				    chain_expect(&c, want, LEAF_IP(&self->m), -1));
		forget_stack(&self->s);
	}
	__atomic_store_n(&ch.stop, 1, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	close(ch.fd);
	TH_LOG("%u of %u stacks whole, %u changes", whole, rounds, ch.changes);
	EXPECT_EQ(0, ch.error);
	EXPECT_EQ(rounds, whole);
	EXPECT_LT(100, ch.changes);
}

#else /* !__x86_64__ */

TEST(tables)
{
	SKIP(return, "no code with tables for this architecture");
}

#endif

TEST_HARNESS_MAIN
