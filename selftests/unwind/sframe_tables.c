// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that a profiler supplies for files, by PERF_EVENT_IOC_UNWIND_TABLE:
 * for which files and how long they are used, and what the kernel refuses.
 *
 * All files have the same code, see enum kind: with a section, with a section that says
 * that code_mark is an outermost function, or without a section. Tables have the same
 * kinds. So a stack shows which section or table the walk used.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "lib/kmsg.h"
#include "lib/table.h"
#include "sframe_compiled.h"

#ifdef __x86_64__

FIXTURE(tables) {
	struct session s;
	unsigned int nr;
	struct kmsg log;
	struct image im;
	int fd;
	/* Two mappings of the file without a section. */
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
	/* Address of the first byte of the table. */
	__u64 vaddr;
	unsigned int gap;
	/* A file in /tmp, not a memfd. */
	bool path;
};

FIXTURE_VARIANT_ADD(tables, v3) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.path = true,
};

FIXTURE_VARIANT_ADD(tables, v3_elsewhere) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.vaddr = 0x123456789abcUL,
	.gap = 3,
};

FIXTURE_VARIANT_ADD(tables, v3_linked_to_address) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.image_vaddr = 0x400000,
	.vaddr = 0x500000,
};

FIXTURE_VARIANT_ADD(tables, v2) {
	.sframe = { .version = SFRAME_VERSION_2, .pcrel = true },
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
	const char *why = tables_unsupported();

	self->fd = -1;
	self->owner = -1;
	self->paranoid = LONG_MAX;
	if (why)
		SKIP(return, "%s", why);
	self->owner = owner_open(0, -1, false);
	ASSERT_LE(0, self->owner);
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
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	session_close(&self->s);
	image_unmap(&self->m);
	image_unmap(&self->v);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
	if (self->owner >= 0)
		close(self->owner);
	if (self->paranoid != LONG_MAX)
		EXPECT_EQ(0, write_long(PARANOID, self->paranoid));
	EXPECT_EQ(0, remove_dir(self->dir));
}

/* Build a table for the file, and supply it. */
#define TABLE(kind)	table_build(self->table, &self->im, &variant->sframe, kind, \
				    variant->vaddr)
#define SUPPLY(event, kind)						\
	table_supply(event, self->fd, self->table, TABLE(kind), variant->vaddr)

/* What they do */

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

/* When a table is removed, tasks forget the rules from it. */
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
	/* A call that fails changes nothing. */
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

/* The newest table is used, and each is removed with its session. */
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

/* A table for another file is not used, even if both files are equal. */
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

	/* A section that lacks code_mark; the table has it. */
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

/* What compilers make */

/* Read the section of a file, and the address that it was linked for. */
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

		/* Supply the table from the second round on. */
		if (i)
			ASSERT_EQ(0, table_supply(self->owner, fd, section, size, vaddr));
		run(&r, 36);
		ASSERT_EQ(0, session_wait(&self->s, i + 1, 5));
		nr = sample_stack(&self->s, i, &ips);
		for (j = 0; j < r.nr && (int)j + 1 < nr; j++)
			same += ips[j + 1] == r.ras[r.nr - 1 - j];
		TH_LOG("%u of %u frames", same, r.nr);
		if (!i) {
			EXPECT_GT(r.nr, same);
			continue;
		}
		EXPECT_EQ(r.nr, same) {
			stack_dump("seen", ips, nr);
		}
	}
	free(section);
	close(fd);
}

/* Which file */

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
	/* Only the mapping still refers to the file. */
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

/* A file whose length has changed has no table any more. */
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

/* A table holds no reference to an open file, so the file can be executed. */
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
	ASSERT_EQ(0, child_wait(pid, &ret, 10, NULL));
	/* It fails because this is no program, not because the file is open. */
	EXPECT_FALSE(WIFEXITED(ret) && WEXITSTATUS(ret) == ETXTBSY);
}

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
	EXPECT_STACK(&l, WHOLE, "lower file");
	/* This copies the file up: the overlay now has another file. */
	fd_write = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd_write);
	EXPECT_STACK(&m, WHOLE, "mapped before the copy");
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

/* What is refused */

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
	/* An event is not a regular file. */
	REFUSED(EINVAL, fd = self->owner);

	/* From a program with a later version of the structure. */
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

/* ELF files of another machine, class or type. */
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
	unsigned char *fres = self->table + sizeof(*h) + h->fre_off;

#define REFUSED(change) do {						\
	TABLE(WHOLE);							\
	change;								\
	EXPECT_EQ(-EINVAL, table_supply(self->owner, self->fd, self->table, \
					size, variant->vaddr)) {	\
		TH_LOG("%s", #change);					\
	}								\
} while (0)
	REFUSED(h->magic++);
	REFUSED(h->version = SFRAME_VERSION_1);
	REFUSED(h->flags = 0);
	REFUSED(h->abi = 2);
	REFUSED(h->num_fdes++);
	REFUSED(h->num_fres--);
	REFUSED(h->num_fres = -1);
	REFUSED(h->fre_len--);
	REFUSED(h->fre_len += SFRAME_MAX_SIZE);
	REFUSED(h->fre_off--);
	/* The rows of the last function end where the table does. */
	REFUSED(self->table[size - 2] = 0xff);
	/* Those of all functions. */
	REFUSED(memset(fres, 0xff, h->fre_len));
	/* The second function is not where it should be. */
	REFUSED(memset(self->table + sizeof(*h) +
		       (h->version == SFRAME_VERSION_3 ? sizeof(struct sframe_fde_v3) :
			sizeof(struct sframe_fde_v2)) + 3, 0x80, 1));
#undef REFUSED
}

#else /* !__x86_64__ */

TEST(tables)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
