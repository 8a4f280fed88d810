// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that the kernel finds in mapped files: files with invalid contents,
 * and files that cannot be read, for now or at all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/event.h"
#include "lib/fuse_server.h"
#include "sframe_discovery.h"

#ifdef __x86_64__

/* The kernel retries an unreadable section after a second; wait a bit longer */
#define UNREAD_SECONDS	2

static Elf64_Phdr *text_phdr(struct image *im)
{
	unsigned int i;

	for (i = 0; i < im->ehdr->e_phnum; i++) {
		if (im->phdr[i].p_flags & PF_X && im->phdr[i].p_type == PT_LOAD)
			return &im->phdr[i];
	}
	return NULL;
}

static struct sframe_header *section(struct image *im)
{
	return (void *)im->sframe;
}

static size_t fde_size(struct image *im)
{
	return section(im)->version >= SFRAME_VERSION_3 ?
	       sizeof(struct sframe_fde_v3) : sizeof(struct sframe_fde_v2);
}

static unsigned char *fde(struct image *im, unsigned int i)
{
	return im->sframe + sizeof(struct sframe_header) + i * fde_size(im);
}

static unsigned char *fres(struct image *im)
{
	return fde(im, section(im)->num_fdes);
}

/* The fields after the start, in both versions; 0 is the size. */
static __u32 *fde_field(struct image *im, unsigned int i, unsigned int field)
{
	return (__u32 *)(fde(im, i) + (section(im)->version >= SFRAME_VERSION_3 ?
				       sizeof(__s64) : sizeof(__s32))) + field;
}

#define LIE(name)	static void lie_##name(struct image *im)

LIE(magic)		{ im->ehdr->e_ident[EI_MAG0] = 0; }
LIE(class)		{ im->ehdr->e_ident[EI_CLASS] = ELFCLASS32; }
LIE(data)		{ im->ehdr->e_ident[EI_DATA] = ELFDATA2MSB; }
LIE(machine)		{ im->ehdr->e_machine = EM_AARCH64; }
LIE(phoff_beyond)	{ im->ehdr->e_phoff = im->size + 64; }
LIE(phoff_at_end)	{ im->ehdr->e_phoff = im->size - 8; }
LIE(phoff_huge)		{ im->ehdr->e_phoff = -56ULL; }
LIE(phoff_negative)	{ im->ehdr->e_phoff = 1ULL << 63; }
LIE(phentsize_0)	{ im->ehdr->e_phentsize = 0; }
LIE(phentsize_1)	{ im->ehdr->e_phentsize = 1; }
LIE(phentsize_huge)	{ im->ehdr->e_phentsize = 65535; }
LIE(phnum_0)		{ im->ehdr->e_phnum = 0; }
LIE(phnum_max)		{ im->ehdr->e_phnum = 65535; }
LIE(no_elf)		{ memset(im->bytes, 0, IMAGE_PAGE); }
LIE(headers_0xff)	{ memset(im->bytes + 64, 0xff, IMAGE_PAGE - 64); }
LIE(no_load)		{ text_phdr(im)->p_type = PT_NULL; }
LIE(load_vaddr)		{ text_phdr(im)->p_vaddr = -IMAGE_PAGE; }
LIE(load_offset)	{ text_phdr(im)->p_offset = -IMAGE_PAGE; }
LIE(load_sizes)
{
	text_phdr(im)->p_filesz = -1ULL;
	text_phdr(im)->p_memsz = -1ULL;
}

LIE(sframe_size_0)
{
	im->sframe_phdr->p_filesz = 0;
	im->sframe_phdr->p_memsz = 0;
}

LIE(sframe_size_1)
{
	im->sframe_phdr->p_filesz = 1;
	im->sframe_phdr->p_memsz = 1;
}

LIE(sframe_size_max)
{
	im->sframe_phdr->p_filesz = -1ULL;
	im->sframe_phdr->p_memsz = -1ULL;
}

static void move_section(struct image *im, __u64 vaddr, __u64 off)
{
	im->sframe_phdr->p_vaddr = vaddr;
	im->sframe_phdr->p_paddr = vaddr;
	im->sframe_phdr->p_offset = off;
}

LIE(sframe_outside)	{ move_section(im, 1ULL << 30, 1ULL << 30); }
LIE(sframe_kernel)	{ move_section(im, -4096ULL, -4096ULL); }
LIE(sframe_wraps)	{ move_section(im, -8ULL, -8ULL); }
LIE(sframe_is_text)
{
	move_section(im, im->seg[SEG_TEXT].vaddr, im->seg[SEG_TEXT].off);
}

LIE(sframe_at_the_end)
{
	__u64 vaddr = im->seg[SEG_DYNAMIC].vaddr + IMAGE_PAGE - 16;

	move_section(im, vaddr, im->size - 16);
}

LIE(sframe_phdr_twice)
{
	Elf64_Phdr *second = &im->phdr[im->ehdr->e_phnum++];

	*second = *im->sframe_phdr;
	second->p_vaddr = 1ULL << 40;
}

LIE(section_version_1)	{ section(im)->version = SFRAME_VERSION_1; }
LIE(section_version_4)	{ section(im)->version = SFRAME_VERSION_3 + 1; }
LIE(section_unsorted)	{ section(im)->flags &= ~SFRAME_FLAG_SORTED; }
LIE(section_magic)	{ section(im)->magic = 0; }
LIE(section_abi)	{ section(im)->abi = 2; }
LIE(section_zero)	{ memset(im->sframe, 0, SFRAME_MAX_SIZE); }
LIE(section_0xff)	{ memset(im->sframe, 0xff, SFRAME_MAX_SIZE); }
LIE(section_no_fdes)	{ section(im)->num_fdes = 0; }
LIE(section_fdes_max)	{ section(im)->num_fdes = -1; }
LIE(section_fdeoff)	{ section(im)->fde_off = -28; }
LIE(section_freoff)	{ section(im)->fre_off = -1; }
LIE(section_fre_len)	{ section(im)->fre_len = -1; }
LIE(section_auxhdr)	{ section(im)->aux_len = 255; }
LIE(section_rules)
{
	memset(fres(im), 0xff, section(im)->fre_len);
}

LIE(section_fdes_0xff)
{
	memset(fde(im, 0), 0xff, section(im)->num_fdes * fde_size(im));
}

/* Set a field of all FDEs. Everything else stays valid. */
static void set_fdes(struct image *im, unsigned int field, __u32 val)
{
	unsigned int i;

	for (i = 0; i < section(im)->num_fdes; i++)
		*fde_field(im, i, field) = val;
}

LIE(fde_size_0)		{ set_fdes(im, 0, 0); }
LIE(fde_fre_off)	{ set_fdes(im, 1, -1); }
LIE(fde_fre_off_end)	{ set_fdes(im, 1, section(im)->fre_len); }
LIE(fde_fre_off_last)	{ set_fdes(im, 1, section(im)->fre_len - 1); }
/* Each function overlaps all later ones. */
LIE(fde_size_max)	{ set_fdes(im, 0, -1); }

LIE(fde_same_starts)
{
	unsigned int i;

	for (i = 1; i < section(im)->num_fdes; i++)
		memcpy(fde(im, i), fde(im, 0), fde_size(im));
}

LIE(fde_reversed)
{
	unsigned int i, n = section(im)->num_fdes;
	unsigned char tmp[sizeof(struct sframe_fde_v2)];

	for (i = 0; i < n / 2; i++) {
		unsigned char *a = fde(im, i), *b = fde(im, n - 1 - i);

		memcpy(tmp, a, fde_size(im));
		memcpy(a, b, fde_size(im));
		memcpy(b, tmp, fde_size(im));
		if (section(im)->version >= SFRAME_VERSION_3) {
			((struct sframe_fde_v3 *)a)->start += b - a;
			((struct sframe_fde_v3 *)b)->start -= b - a;
		}
	}
}

static const struct lie {
	const char	*what;
	void		(*apply)(struct image *im);
	/* The section cannot be used at all; otherwise any legal stack will do. */
	bool		fatal;
} lies[] = {
/* FATAL: the stack by frame pointers. ANY: any legal stack. */
#define FATAL(name)	{ #name, lie_##name, true }
#define ANY(name)	{ #name, lie_##name, false }
	FATAL(magic),
	FATAL(class),
	FATAL(data),
	ANY(machine),
	FATAL(phoff_beyond),
	FATAL(phoff_at_end),
	FATAL(phoff_huge),
	FATAL(phoff_negative),
	FATAL(phentsize_0),
	FATAL(phentsize_1),
	FATAL(phentsize_huge),
	FATAL(phnum_0),
	ANY(phnum_max),
	FATAL(no_elf),
	FATAL(headers_0xff),
	ANY(no_load),
	ANY(load_vaddr),
	ANY(load_offset),
	ANY(load_sizes),
	FATAL(sframe_size_0),
	FATAL(sframe_size_1),
	ANY(sframe_size_max),
	FATAL(sframe_outside),
	FATAL(sframe_kernel),
	FATAL(sframe_wraps),
	FATAL(sframe_is_text),
	FATAL(sframe_at_the_end),
	ANY(sframe_phdr_twice),
	FATAL(section_version_1),
	FATAL(section_version_4),
	FATAL(section_unsorted),
	FATAL(section_magic),
	FATAL(section_abi),
	FATAL(section_zero),
	FATAL(section_0xff),
	FATAL(section_no_fdes),
	FATAL(section_fdes_max),
	FATAL(section_fdeoff),
	FATAL(section_freoff),
	FATAL(section_fre_len),
	FATAL(section_auxhdr),
	FATAL(section_rules),
	FATAL(section_fdes_0xff),
	FATAL(fde_size_0),
	FATAL(fde_fre_off),
	FATAL(fde_fre_off_end),
	FATAL(fde_fre_off_last),
	ANY(fde_size_max),
	FATAL(fde_same_starts),
	ANY(fde_reversed),
#undef FATAL
#undef ANY
};

TEST_F_TIMEOUT(discovery, lies, 60)
{
	unsigned int i;

	SESSION_OPEN(&self->s);
	for (i = 0; i < ARRAY_SIZE(lies); i++) {
		const struct image_opts o = { .sframe = variant->sframe };
		const __u64 *ips = NULL;
		struct image_map m = {};
		__u64 want[2];
		struct image im;
		struct chain c;
		int fd, nr;

		ASSERT_EQ(0, image_build(&im, &o));
		lies[i].apply(&im);
		fd = make_file(&im, variant->path ?
			       file_path(self->dir, lies[i].what) : NULL);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, image_map(&m, &im, fd, 0));
		chain_one(&c, &m);
		chain_sample(&c);
		ASSERT_EQ(0, session_wait(&self->s, i + 1, 5));
		nr = sample_stack(&self->s, i, &ips);
		want[0] = LEAF_IP(&m);
		want[1] = DECOY(&m);
		if (lies[i].fatal) {
			EXPECT_TRUE(stack_same(ips, nr, want, 2)) {
				TH_LOG("%s", lies[i].what);
			}
		} else {
			EXPECT_TRUE(chain_legal(&c, ips, nr, want[0],
						want[1])) {
				TH_LOG("%s", lies[i].what);
			}
		}
		image_unmap(&m);
		close(fd);
		image_free(&im);
	}
	/* A valid section still works. */
	chain_one(&self->c, &self->m);
	chain_sample(&self->c);
	EXPECT_ONE(i, &self->c, &self->m, WHOLE, "good");
}

/*
 * Random bytes in headers and section: each sample has some stack, and no harm is done.
 */
TEST_F_TIMEOUT(discovery, random_bytes, 60)
{
	const unsigned int rounds = 300;
	struct defer_stats st;
	unsigned int i, j;

	srandom(2);
	SESSION_OPEN(&self->s);
	for (i = 0; i < rounds; i++) {
		const struct image_opts o = { .sframe = variant->sframe };
		unsigned int nr = 1 + random() % 30;
		struct image_map m = {};
		struct image im;
		struct chain c;
		int fd;

		ASSERT_EQ(0, image_build(&im, &o));
		for (j = 0; j < nr; j++) {
			if (i % 2)
				im.bytes[random() % 512] = random();
			else
				im.sframe[random() % im.sframe_len] = random();
		}
		fd = make_file(&im, variant->path ?
			       file_path(self->dir, "random") : NULL);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, image_map(&m, &im, fd, 0));
		chain_one(&c, &m);
		chain_sample(&c);
		image_unmap(&m);
		close(fd);
		unlink(file_path(self->dir, "random"));
		image_free(&im);
		session_drain(&self->s);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.missing);
	ASSERT_EQ(rounds, st.samples);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;

		EXPECT_LE(1, sample_stack(&self->s, i, &ips));
	}
}

/* The section is not in the file any more: touching it would be SIGBUS. */
TEST_F(discovery, truncated)
{
	const struct image_opts o = { .sframe = variant->sframe };
	struct image im;
	unsigned int i;

	ASSERT_EQ(0, image_build(&im, &o));
	for (i = 0; i < 2; i++) {
		const __u64 *ips = NULL;
		struct image_map m = {};
		struct chain c;
		int fd, nr;

		fd = image_file(&im, variant->path ?
				file_path(self->dir, "truncated") : NULL);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, image_map(&m, &im, fd, 0));
		chain_one(&c, &m);
		SESSION_OPEN(&self->s);
		if (i) {
			chain_sample(&c);
			EXPECT_ONE(0, &c, &m, WHOLE, "whole");
		}
		ASSERT_EQ(0, ftruncate(fd, im.seg[SEG_SFRAME].off));
		chain_sample(&c);
		if (i) {
			/* What is remembered may be used. */
			ASSERT_EQ(0, session_wait(&self->s, 2, 5));
			nr = sample_stack(&self->s, 1, &ips);
			EXPECT_TRUE(chain_legal(&c, ips, nr, LEAF_IP(&m),
						DECOY(&m)));
		} else {
			EXPECT_ONE(0, &c, &m, BARE, "truncated");
		}
		session_close(&self->s);
		image_unmap(&m);
		close(fd);
	}
	image_free(&im);
}

/*
 * A section that cannot be read now is tried again later: the page with its header
 * comes from a userfaultfd monitor, which the walk does not wait for.
 */
TEST_F(discovery, unread_for_now)
{
	const struct image_opts o = { .sframe = variant->sframe };
	const unsigned long page = sysconf(_SC_PAGESIZE);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range.len = page,
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_copy copy = { .len = page };
	struct image_map m = {};
	struct image im;
	struct chain c;
	int fd, uffd;

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd < 0)
		SKIP(return, "no userfaultfd: %s", strerror(errno));
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_API, &api));

	ASSERT_EQ(0, image_build(&im, &o));
	fd = image_file(&im, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       im.seg[SEG_SFRAME].off, page));
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	reg.range.start = image_seg_addr(&im, &m, SEG_SFRAME);
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_REGISTER, &reg));

	chain_one(&c, &m);
	SESSION_OPEN(&self->s);
	chain_sample(&c);
	EXPECT_ONE(0, &c, &m, BARE, "missing");

	copy.dst = reg.range.start;
	copy.src = (__u64)(im.bytes + im.seg[SEG_SFRAME].off);
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_COPY, &copy));
	sleep(UNREAD_SECONDS);
	chain_sample(&c);
	EXPECT_ONE(1, &c, &m, WHOLE, "there");

	image_unmap(&m);
	image_free(&im);
	close(fd);
	close(uffd);
}

/*
 * The walk does not wait for a FUSE server either: it does not read pages that the
 * program has never touched. It reads pages that the program has touched.
 */
TEST_F_TIMEOUT(discovery, fuse, 60)
{
	const struct image_opts o = { .sframe = variant->sframe };
	static const enum image_seg untouched[] = { SEG_HEADERS, SEG_SFRAME };
	struct fuse_server server = {};
	unsigned int i, first, page, asked;
	struct image_map m = {};
	const char *why;
	struct image im;
	struct chain c;
	__u64 start;
	int fd;

	ASSERT_EQ(0, image_build(&im, &o));
	ASSERT_GE(FUSE_SERVER_PAGES * FUSE_SERVER_PAGE, im.size);
	snprintf(server.dir, sizeof(server.dir), "%s/fuse", self->dir);
	ASSERT_EQ(0, mkdir(server.dir, 0700));
	fd = fuse_server_start(&server, im.bytes, im.size, &why);
	if (fd < 0 && why)
		SKIP(return, "%s", why);
	ASSERT_LE(0, fd) {
		TH_LOG("%s", strerror(errno));
		fuse_server_stop(&server);
	}
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	chain_one(&c, &m);
	/* This loads the text. */
	chain_sample(&c);

	for (i = 0; i < ARRAY_SIZE(untouched); i++) {
		first = im.seg[untouched[i]].off / FUSE_SERVER_PAGE;
		for (page = 0; page * FUSE_SERVER_PAGE < im.seg[untouched[i]].len; page++)
			server.shared->withhold[first + page] = true;
	}
	SESSION_OPEN(&self->s);
	start = now_nsec();
	chain_sample(&c);
	TH_LOG("%llu ms", (now_nsec() - start) / 1000000);
	asked = 0;
	for (page = 0; page < FUSE_SERVER_PAGES; page++) {
		if (server.shared->withhold[page])
			asked += server.shared->asked[page];
		server.shared->withhold[page] = false;
	}
	EXPECT_EQ(0, asked);
	EXPECT_ONE(0, &c, &m, BARE, "untouched");

	for (i = 0; i < ARRAY_SIZE(untouched); i++) {
		for (page = 0; page * FUSE_SERVER_PAGE < im.seg[untouched[i]].len; page++)
			(void)*(volatile char *)(image_seg_addr(&im, &m, untouched[i]) +
						 page * FUSE_SERVER_PAGE);
	}
	sleep(UNREAD_SECONDS);
	chain_sample(&c);
	EXPECT_ONE(1, &c, &m, WHOLE, "touched");

	image_unmap(&m);
	image_free(&im);
	close(fd);
	fuse_server_stop(&server);
}

/* Switch the debug messages of found.c on or off.  Returns false if that fails. */
static bool say_all(bool on)
{
	char what[64];
	int fd, ret;

	snprintf(what, sizeof(what), "file kernel/unwind/found.c %cp", on ? '+' : '-');
	fd = open("/proc/dynamic_debug/control", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ret = write(fd, what, strlen(what));
	close(fd);
	return ret > 0;
}

/* Count the new messages that contain both strings. */
static int kmsg_count(struct kmsg *k, const char *a, const char *b)
{
	char buf[2048];
	ssize_t len;
	int n = 0;

	for (;;) {
		len = read(k->fd, buf, sizeof(buf) - 1);
		if (len < 0 && errno == EPIPE)
			continue;
		if (len < 0)
			return errno == EAGAIN ? n : -1;
		buf[len] = '\0';
		n += strstr(buf, a) && strstr(buf, b);
	}
}

/*
 * The kernel drops a section when a lookup finds one of its functions corrupt, and logs
 * this once. Another mapping of the same section is not affected.
 */
TEST_F(discovery, corrupt)
{
	const struct image_opts o = { .sframe = variant->sframe };
	struct chain good, bad, other_good;
	struct image_map m = {}, other = {};
	struct kmsg log;
	struct image im;
	int fd, lines;
	bool said;

	ASSERT_EQ(0, image_build(&im, &o));
	sframe_corrupt(im.sframe, code_mark);
	fd = make_file(&im, variant->path ? file_path(self->dir, "rotten") : NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, image_map(&m, &im, fd, 0));
	ASSERT_EQ(0, image_map(&other, &im, fd, 0));
	ASSERT_EQ(0, kmsg_open(&log));
	said = say_all(true);

	chain_begin(&good, &m);
	chain_add(&good, &m, code_sp);
	chain_add(&good, &m, code_leaf);
	chain_one(&bad, &m);
	chain_begin(&other_good, &other);
	chain_add(&other_good, &other, code_sp);
	chain_add(&other_good, &other, code_leaf);

	SESSION_OPEN(&self->s);
	chain_sample(&good);
	EXPECT_ONE(0, &good, &m, WHOLE, "before");
	chain_sample(&bad);
	self->nr_want = expect_two(&bad, self->want, &m, BARE);
	EXPECT_NEXT(&self->s, 1, self->want, self->nr_want, "corrupt");
	chain_sample(&good);
	EXPECT_ONE(2, &good, &m, BARE, "dropped");
	chain_sample(&bad);
	EXPECT_ONE(3, &bad, &m, BARE, "dropped");
	chain_sample(&other_good);
	EXPECT_ONE(4, &other_good, &other, WHOLE, "another mapping");

	/* Debug messages may be compiled in without a switch, or not at all. */
	lines = kmsg_count(&log, "dropped", variant->path ? "rotten" : "image");
	EXPECT_LE(said, lines);
	EXPECT_GE(1, lines);
	TH_LOG("%d debug messages", lines);
	if (said)
		say_all(false);
	else
		TH_LOG("no dynamic debug");

	kmsg_close(&log);
	image_unmap(&m);
	image_unmap(&other);
	image_free(&im);
	close(fd);
}

#else /* !__x86_64__ */

TEST(discovery)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
