// SPDX-License-Identifier: GPL-2.0
/* SFrame tables from call frame information that is made here. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/sizes.h>

#include "util/debug.h"
#include "util/sframe.h"
#include "util/sframe-table.h"
#include "util/sha256.h"
#include "tests.h"

#ifdef HAVE_DWARF_SUPPORT
#include <dwarf.h>
#include <elf.h>

#include "util/sframe-cfi.h"
#include "util/sframe-parallel.h"

#define TEXT		0x10000
#define TEXT_SIZE	0x1000
#define EH_FRAME	0x20000

#define RSP	7
#define RBP	6
#define RDI	5
#define R10	10
#define R12	12
#define RIP	16

struct image {
	u8	data[4096];
	size_t	size;
};

static void put(struct image *image, u64 value, unsigned int size)
{
	while (size--) {
		image->data[image->size++] = value;
		value >>= 8;
	}
}

static void put_bytes(struct image *image, const void *data, size_t size)
{
	memcpy(image->data + image->size, data, size);
	image->size += size;
}

static void align(struct image *image, size_t to)
{
	while (image->size % to)
		put(image, 0, 1);
}

/* An entry begins with its length, which is known when it ends. */
static size_t begin_entry(struct image *image)
{
	put(image, 0, sizeof(u32));
	return image->size;
}

static void end_entry(struct image *image, size_t start)
{
	size_t end;

	while ((image->size - start + sizeof(u32)) % sizeof(u64))
		put(image, DW_CFA_nop, 1);
	end = image->size;
	image->size = start - sizeof(u32);
	put(image, end - start, sizeof(u32));
	image->size = end;
}

static size_t put_cie(struct image *image, const char *augmentation)
{
	size_t off = image->size, start = begin_entry(image);

	put(image, 0, sizeof(u32));
	put(image, 1, 1);
	put_bytes(image, augmentation, strlen(augmentation) + 1);
	/* Alignment of code 1 and data -8, column of the return address. */
	put(image, 1, 1);
	put(image, 0x78, 1);
	put(image, RIP, 1);
	/* Length of the augmentation, encoding of addresses. */
	put(image, 1, 1);
	put(image, DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1);
	/* CFA rsp+8, return address at CFA-8. */
	put(image, DW_CFA_def_cfa, 1);
	put(image, RSP, 1);
	put(image, 8, 1);
	put(image, DW_CFA_offset | RIP, 1);
	put(image, 1, 1);
	end_entry(image, start);

	return off;
}

#define FDE_BYTES	48

/* Functions, and what their call frame information says. */
static const struct {
	u32	start;
	u32	size;
	bool	signal;
	u8	len;
	u8	code[FDE_BYTES];
} fdes[] = {
#define FDE(start, size, signal, ...)	\
	{ start, size, signal, sizeof((u8 []) { __VA_ARGS__ }), { __VA_ARGS__ } }
	/* pushq %rbp; movq %rsp, %rbp; pushq %rbx; ...; leave; ret */
	FDE(0x000, 0x20, false,
	    DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | RBP, 2,
	    DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, RBP,
	    DW_CFA_advance_loc | 1, DW_CFA_offset | 3, 3,
	    DW_CFA_advance_loc | 0x1a, DW_CFA_def_cfa, RSP, 8, DW_CFA_restore | RBP),
	/* Realigned stack: r10 has the CFA, then a slot below rbp. */
	FDE(0x020, 0x20, false,
	    DW_CFA_advance_loc | 5, DW_CFA_def_cfa, R10, 0,
	    DW_CFA_advance_loc | 4, DW_CFA_expression, RBP, 2, DW_OP_breg0 + RBP, 0,
	    DW_CFA_advance_loc | 4, DW_CFA_def_cfa_expression, 3,
				    DW_OP_breg0 + RBP, 0x78, DW_OP_deref),
	/* A PLT: the head, then the entries. */
	FDE(0x040, 0x30, false,
	    DW_CFA_def_cfa_offset, 16,
	    DW_CFA_advance_loc | 6, DW_CFA_def_cfa_offset, 24,
	    DW_CFA_advance_loc | 10, DW_CFA_def_cfa_expression, 11,
	    DW_OP_breg0 + RSP, 8, DW_OP_breg0 + RIP, 0, DW_OP_lit15, DW_OP_and,
	    DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus),
	/* A trampoline of signals: registers are in the context on the stack. */
	FDE(0x070, 0x10, true,
	    DW_CFA_def_cfa_expression, 4, DW_OP_breg0 + RSP, 0xa0, 0x01, DW_OP_deref,
	    DW_CFA_expression, RSP, 3, DW_OP_breg0 + RSP, 0xa0, 0x01,
	    DW_CFA_expression, RIP, 3, DW_OP_breg0 + RSP, 0xa8, 0x01),
	/* One that is a plain frame. */
	FDE(0x080, 0x10, true, DW_CFA_def_cfa_offset, 0xa8, 0x01),
	/* The outermost function. */
	FDE(0x090, 0x10, false, DW_CFA_undefined, RIP),
	/* Return address and frame pointer in registers. */
	FDE(0x0a0, 0x10, false,
	    DW_CFA_advance_loc | 1, DW_CFA_register, RIP, RDI,
	    DW_CFA_advance_loc | 1, DW_CFA_register, RBP, R12),
	/* A CFA that the format cannot say, in the middle. */
	FDE(0x0b0, 0x20, false,
	    DW_CFA_advance_loc | 4, DW_CFA_remember_state, DW_CFA_def_cfa_expression, 5,
				    DW_OP_breg0 + RSP, 40, DW_OP_deref, DW_OP_plus_uconst, 8,
	    DW_CFA_advance_loc | 8, DW_CFA_restore_state),
	/* The frame pointer is gone. */
	FDE(0x0d0, 0x10, false, DW_CFA_advance_loc | 4, DW_CFA_undefined, RBP),
	/* The stack pointer is not the CFA. */
	FDE(0x0e0, 0x10, false, DW_CFA_register, RSP, R12),
	/* Sums that come out as something simple. */
	FDE(0x0f0, 0x10, false,
	    DW_CFA_def_cfa_expression, 5,
	    DW_OP_lit16, DW_OP_breg0 + RSP, 0, DW_OP_plus, DW_OP_nop,
	    DW_CFA_advance_loc | 4, DW_CFA_def_cfa_expression, 5,
	    DW_OP_breg0 + RBP, 0x20, DW_OP_lit16, DW_OP_minus, DW_OP_nop),
	/* Outrageous: libdw would allocate memory for the highest register. */
	FDE(0x100, 0x10, false, DW_CFA_advance_loc | 4, DW_CFA_same_value, 0xff, 0xff, 0x7f),
	/* Beyond the segment. */
	FDE(0xff0, 0x20, false, DW_CFA_nop),
	FDE(0x8000, 0x20, false, DW_CFA_nop),
#undef FDE
};

/* What becomes of that, and up to where. */
static const struct expectation {
	u32		start;
	u32		end;
	const char	*text;
} expectations[] = {
	{ 0x000, 0x001, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x001, 0x004, "cfa rsp+16 ra *(cfa-8) fp *(cfa-16)" },
	{ 0x004, 0x01f, "cfa rbp+16 ra *(cfa-8) fp *(cfa-16)" },
	{ 0x01f, 0x020, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x020, 0x025, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x025, 0x029, "cfa r10 ra *(cfa-8) fp same" },
	{ 0x029, 0x02d, "cfa r10 ra *(cfa-8) fp *(rbp)" },
	{ 0x02d, 0x040, "cfa *(rbp-8) ra *(cfa-8) fp *(rbp)" },
	{ 0x040, 0x046, "cfa rsp+16 ra *(cfa-8) fp same" },
	{ 0x046, 0x050, "cfa rsp+24 ra *(cfa-8) fp same" },
	{ 0x050, 0x05b, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x05b, 0x060, "cfa rsp+16 ra *(cfa-8) fp same" },
	{ 0x060, 0x06b, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x06b, 0x070, "cfa rsp+16 ra *(cfa-8) fp same" },
	{ 0x070, 0x080, "signal" },
	{ 0x080, 0x090, "signal cfa rsp+168 ra *(cfa-8) fp same" },
	{ 0x090, 0x0a0, "outermost" },
	{ 0x0a0, 0x0a1, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x0a1, 0x0a2, "cfa rsp+8 ra rdi fp same" },
	{ 0x0a2, 0x0b0, "cfa rsp+8 ra rdi fp r12" },
	{ 0x0b0, 0x0b4, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x0b4, 0x0bc, "none" },
	{ 0x0bc, 0x0d0, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x0d0, 0x0d4, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x0d4, 0x0f0, "none" },
	{ 0x0f0, 0x0f4, "cfa rsp+16 ra *(cfa-8) fp same" },
	{ 0x0f4, 0x100, "cfa rbp+16 ra *(cfa-8) fp same" },
	{ 0x100, 0xff0, "none" },
	{ 0xff0, 0x1000, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x1000, 0x10000, "none" },
};

static const struct sframe_stats expected_stats = {
	.code		= TEXT_SIZE,
	.described	= 0x120,
	.covered	= 0x120 - 8 - 12 - 16 - 16,
	.flex		= 0x1b + 15,
	.blocks		= 0x20,
	.lost		= {
		[SFRAME_LOST_CFA]	= 8,
		[SFRAME_LOST_FP]	= 12,
		[SFRAME_LOST_SP]	= 16,
		[SFRAME_LOST_DAMAGED]	= 16,
	},
};

static const u8 build_id[] = { 0xde, 0xad, 0xbe, 0xef, 0x01, 0x02, 0x03, 0x04 };

static const char names[] = "\0.eh_frame\0.note.gnu.build-id\0.shstrtab\0.eh_frame_hdr";

/* Where they are in @names */
enum {
	NAME_EH_FRAME		= 1,
	NAME_NOTE		= 11,
	NAME_NAMES		= 30,
	NAME_EH_FRAME_HDR	= 40,
};

static void begin_image(struct image *image)
{
	const Elf64_Ehdr ehdr = { };
	const Elf64_Phdr phdr = {
		.p_type		= PT_LOAD,
		.p_flags	= PF_R | PF_X,
		.p_vaddr	= TEXT,
		.p_filesz	= TEXT_SIZE,
		.p_memsz	= TEXT_SIZE,
	};

	image->size = 0;
	put_bytes(image, &ehdr, sizeof(ehdr));
	put_bytes(image, &phdr, sizeof(phdr));
	align(image, 8);
}

/* The last section is the names. */
static void end_image(struct image *image, Elf64_Shdr *shdrs, unsigned int nr)
{
	Elf64_Ehdr ehdr = {
		.e_ident	= { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				    EV_CURRENT, },
		.e_type		= ET_DYN,
		.e_machine	= EM_X86_64,
		.e_version	= EV_CURRENT,
		.e_phoff	= sizeof(ehdr),
		.e_ehsize	= sizeof(ehdr),
		.e_phentsize	= sizeof(Elf64_Phdr),
		.e_phnum	= 1,
		.e_shentsize	= sizeof(Elf64_Shdr),
		.e_shnum	= nr,
		.e_shstrndx	= nr - 1,
	};

	shdrs[nr - 1] = (Elf64_Shdr) {
		.sh_name = NAME_NAMES, .sh_type = SHT_STRTAB, .sh_addralign = 1,
		.sh_offset = image->size, .sh_size = sizeof(names),
	};
	put_bytes(image, names, sizeof(names));

	align(image, 8);
	ehdr.e_shoff = image->size;
	put_bytes(image, shdrs, nr * sizeof(*shdrs));
	memcpy(image->data, &ehdr, sizeof(ehdr));
}

/* Up to its program; @eh_frame is where the section starts. */
static size_t begin_fde(struct image *image, size_t eh_frame, size_t cie, u32 func, u32 size)
{
	size_t start = begin_entry(image);

	put(image, start - cie, sizeof(u32));
	put(image, func - (EH_FRAME + image->size - eh_frame), sizeof(u32));
	put(image, size, sizeof(u32));
	return start;
}

static void build_image(struct image *image)
{
	const Elf64_Nhdr nhdr = {
		.n_namesz	= sizeof(ELF_NOTE_GNU),
		.n_descsz	= sizeof(build_id),
		.n_type		= NT_GNU_BUILD_ID,
	};
	Elf64_Shdr shdrs[4] = {
		[1] = {
			.sh_name = NAME_EH_FRAME, .sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC, .sh_addr = EH_FRAME, .sh_addralign = 8,
		},
		[2] = { .sh_name = NAME_NOTE, .sh_type = SHT_NOTE, .sh_addralign = 4, },
	};
	size_t i, start, eh_frame, cies[2];

	begin_image(image);

	eh_frame = image->size;
	shdrs[1].sh_offset = eh_frame;
	cies[0] = put_cie(image, "zR");
	cies[1] = put_cie(image, "zRS");
	for (i = 0; i < ARRAY_SIZE(fdes); i++) {
		start = begin_fde(image, eh_frame, cies[fdes[i].signal], TEXT + fdes[i].start,
				  fdes[i].size);
		put(image, 0, 1);
		put_bytes(image, fdes[i].code, fdes[i].len);
		end_entry(image, start);
	}
	put(image, 0, sizeof(u32));
	shdrs[1].sh_size = image->size - eh_frame;

	align(image, 4);
	shdrs[2].sh_offset = image->size;
	put_bytes(image, &nhdr, sizeof(nhdr));
	put_bytes(image, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU));
	put_bytes(image, build_id, sizeof(build_id));
	shdrs[2].sh_size = image->size - shdrs[2].sh_offset;

	end_image(image, shdrs, ARRAY_SIZE(shdrs));
}

static int open_image(const struct image *image)
{
	char name[] = "/tmp/perf-sframe-XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0)
		return -1;
	unlink(name);
	if (pwrite(fd, image->data, image->size, 0) != (ssize_t)image->size) {
		close(fd);
		return -1;
	}

	return fd;
}

static int check_rules(const struct sframe_table *table)
{
	const struct expectation *expected;
	struct sframe_reader reader;
	struct sframe_rule rule;
	char text[128];
	bool signal;
	u64 end;
	u32 addr;
	int err;

	TEST_ASSERT_VAL("table", !sframe_reader__init(&reader, table->data, table->size, 0));
	TEST_ASSERT_VAL("check", !sframe_reader__check(&reader));

	for (expected = expectations; expected < expectations + ARRAY_SIZE(expectations);
	     expected++) {
		for (addr = expected->start; addr < expected->end; addr++) {
			end = ULLONG_MAX;
			err = sframe_reader__find(&reader, TEXT + addr, &rule, &signal, &end);
			text[0] = '\0';
			if (err == -ENOENT)
				scnprintf(text, sizeof(text), "none");
			else if (signal)
				scnprintf(text, sizeof(text), err ? "signal" : "signal ");
			if (!err)
				sframe_rule__scnprintf(&rule, text + strlen(text),
						       sizeof(text) - strlen(text));
			if (!strcmp(text, expected->text))
				continue;
			pr_debug("%#x: %s, not %s\n", addr, text, expected->text);
			return TEST_FAIL;
		}
	}

	return TEST_OK;
}

static int test__sframe_cfi_rules(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct sframe_stats stats;
	struct sframe_table table;
	struct image image;
	int fd, ret;

	build_image(&image);
	fd = open_image(&image);
	TEST_ASSERT_VAL("file", fd >= 0);

	ret = sframe_table__build(&table, fd);
	close(fd);
	TEST_ASSERT_VAL("build", !ret);

	ret = check_rules(&table);

	stats = table.stats;
	stats.functions = 0;
	stats.rows = 0;
	if (memcmp(&stats, &expected_stats, sizeof(stats))) {
		pr_debug("code %" PRIu64 " described %" PRIu64 " covered %" PRIu64
			 " flexible %" PRIu64 " blocks %" PRIu64 "\n", stats.code,
			 stats.described, stats.covered, stats.flex, stats.blocks);
		ret = TEST_FAIL;
	}
	if (table.bid.size != sizeof(build_id) ||
	    memcmp(table.bid.data, build_id, sizeof(build_id))) {
		pr_debug("wrong build-id\n");
		ret = TEST_FAIL;
	}

	sframe_table__exit(&table);
	return ret;
}

/* Whatever is in a file: no crash, and what comes out is a sound table. */
static int build_damaged(int fd)
{
	struct sframe_check check = { };
	struct sframe_reader reader;
	struct sframe_table table;
	int err;

	err = sframe_table__build(&table, fd);
	if (!err)
		err = sframe_reader__init(&reader, table.data, table.size, 0) ?:
		      sframe_reader__check(&reader);
	else if (err == -ENOEXEC || err == -EOPNOTSUPP || err == -ENODATA ||
		 err == -EFBIG || err == -EINVAL)
		err = 0;
	/* It need not be the same any more: what is undefined comes out as anything. */
	if (!err)
		sframe_table__check(&table, fd, &check);
	if (check.same + check.signal + check.missing > check.described ||
	    check.code_described > check.code)
		err = -EINVAL;
	sframe_table__exit(&table);

	return err;
}

static int test__sframe_cfi_damaged(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	static const u8 flips[] = { 0x01, 0x10, 0x80, 0xff };
	int fd, ret = TEST_FAIL;
	struct image image;
	size_t i, flip;
	u8 byte;

	build_image(&image);
	fd = open_image(&image);
	TEST_ASSERT_VAL("file", fd >= 0);

	for (i = 0; i < image.size; i++) {
		for (flip = 0; flip < ARRAY_SIZE(flips); flip++) {
			byte = image.data[i] ^ flips[flip];
			if (pwrite(fd, &byte, 1, i) != 1 || build_damaged(fd)) {
				pr_debug("byte %zu as %#x\n", i, byte);
				goto out;
			}
		}
		if (pwrite(fd, &image.data[i], 1, i) != 1)
			goto out;
	}

	for (i = image.size; i-- > 0; ) {
		if (ftruncate(fd, i) || build_damaged(fd)) {
			pr_debug("cut at %zu\n", i);
			goto out;
		}
	}

	ret = TEST_OK;
out:
	close(fd);
	return ret;
}

#define HOLE		((off_t)SZ_1G)

/* What it may cost, in KiB of memory. A hole that is read is 16 times that. */
#define MEMORY_MAX	(64 << 10)

#define SECTION		(~0U)

static const struct {
	const char	*what;
	/* Section that is as large as the hole, or SECTION for section headers */
	u32		section;
	int		ret;
} holes[] = {
	{ "CFI", 1, -EFBIG },
	{ "note", 2, 0 },
	{ "names", 3, -EFBIG },
	{ "section headers", SECTION, -EFBIG },
};

static long peak_memory(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) ? -1 : usage.ru_maxrss;
}

/* Holes cost those nothing who make a file, and should not cost others memory. */
static int test__sframe_cfi_holes(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct sframe_table table;
	struct image image;
	Elf64_Shdr *shdrs;
	Elf64_Ehdr *ehdr;
	long before, now;
	int fd, ret;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(holes); i++) {
		build_image(&image);
		ehdr = (void *)image.data;
		shdrs = (void *)image.data + ehdr->e_shoff;
		if (holes[i].section == SECTION) {
			shdrs[0].sh_size = HOLE / sizeof(*shdrs);
			ehdr->e_shnum = 0;
		} else {
			shdrs[holes[i].section].sh_size = HOLE;
		}

		fd = open_image(&image);
		TEST_ASSERT_VAL("file", fd >= 0);
		TEST_ASSERT_VAL("hole", !ftruncate(fd, 2 * HOLE));

		before = peak_memory();
		TEST_ASSERT_VAL("memory", before > 0);
		ret = sframe_table__build(&table, fd);
		close(fd);
		now = peak_memory();

		pr_debug("%s: %d, %ld KiB\n", holes[i].what, ret, now - before);
		TEST_ASSERT_EQUAL("result", ret, holes[i].ret);
		TEST_ASSERT_VAL("no more memory", now - before < MEMORY_MAX);
		if (!ret)
			ret = check_rules(&table);
		sframe_table__exit(&table);
		if (ret == TEST_FAIL)
			return ret;
	}

	return TEST_OK;
}

/*
 * Files whose entries are harmless, one by one, but which lead libdw to a program that
 * is not: it takes memory for as many registers as there could be.
 */
#define HIDDEN_TEXT	"cfa rsp+8 ra *(cfa-8) fp same"

enum hiding {
	/* In data of another FDE, and the index leads there. */
	HIDE_BY_INDEX,
	/* The function overlaps another one and is found first, */
	HIDE_BY_OVERLAP,
	/* also if it starts where no code is. */
	HIDE_BEFORE_CODE,
	/* Behind a number with more bytes than libdw reads. */
	HIDE_BY_NUMBER,
	HIDE_NR,
};

static const char * const hidings[] = {
	[HIDE_BY_INDEX]		= "index",
	[HIDE_BY_OVERLAP]	= "overlap",
	[HIDE_BEFORE_CODE]	= "before the code",
	[HIDE_BY_NUMBER]	= "long number",
};

static void put_hostile_fde(struct image *image, size_t eh_frame, size_t cie, u32 func, u32 size)
{
	static const u8 code[] = { DW_CFA_undefined, 0x80, 0xda, 0xc4, 0x09 };
	size_t start = begin_fde(image, eh_frame, cie, func, size);

	put(image, 0, 1);
	put_bytes(image, code, sizeof(code));
	end_entry(image, start);
}

static void build_hidden(struct image *image, enum hiding hiding)
{
	static const u8 number[] = {
		/* Ends with what libdw takes for an instruction. */
		DW_CFA_def_cfa_offset,
		0x88, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, DW_CFA_undefined,
		/* Several instructions without operands, or one number */
		0xc0, 0xda, 0xc4, DW_CFA_remember_state,
	};
	Elf64_Shdr shdrs[4] = {
		[1] = {
			.sh_name = NAME_EH_FRAME_HDR, .sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC, .sh_addr = EH_FRAME - 0x1000, .sh_addralign = 4,
		},
		[2] = {
			.sh_name = NAME_EH_FRAME, .sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC, .sh_addr = EH_FRAME, .sh_addralign = 8,
		},
	};
	size_t start, eh_frame, cie, at, hidden;

	begin_image(image);

	eh_frame = image->size;
	shdrs[2].sh_offset = eh_frame;
	cie = put_cie(image, "zR");

	if (hiding == HIDE_BY_OVERLAP)
		put_hostile_fde(image, eh_frame, cie, TEXT, 0x20);
	if (hiding == HIDE_BEFORE_CODE)
		put_hostile_fde(image, eh_frame, cie, TEXT - 0x10, 0x30);

	start = begin_fde(image, eh_frame, cie, TEXT + 0x10, 0x10);
	at = image->size;
	put(image, 0, 1);
	hidden = image->size;
	if (hiding == HIDE_BY_INDEX)
		put_hostile_fde(image, eh_frame, cie, TEXT + 0x10, 0x10);
	image->data[at] = image->size - hidden;
	if (hiding == HIDE_BY_NUMBER)
		put_bytes(image, number, sizeof(number));
	end_entry(image, start);
	put(image, 0, sizeof(u32));
	shdrs[2].sh_size = image->size - eh_frame;

	align(image, 4);
	shdrs[1].sh_offset = image->size;
	put(image, 1, 1);
	put(image, DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1);
	put(image, DW_EH_PE_udata4, 1);
	put(image, DW_EH_PE_datarel | DW_EH_PE_sdata4, 1);
	put(image, EH_FRAME - (shdrs[1].sh_addr + 4), sizeof(u32));
	put(image, 1, sizeof(u32));
	put(image, TEXT + 0x10 - shdrs[1].sh_addr, sizeof(u32));
	put(image, EH_FRAME + hidden - eh_frame - shdrs[1].sh_addr, sizeof(u32));
	shdrs[1].sh_size = image->size - shdrs[1].sh_offset;
	/* Without the index libdw finds what comes first. */
	if (hiding != HIDE_BY_INDEX)
		shdrs[1].sh_name = NAME_NOTE;

	end_image(image, shdrs, ARRAY_SIZE(shdrs));
}

static int test__sframe_cfi_hidden(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	struct sframe_table table;
	struct sframe_reader reader;
	struct sframe_rule rule;
	enum hiding hiding;
	struct image image;
	long before, now;
	char text[128];
	bool signal;
	int fd, ret;
	u64 end;

	for (hiding = 0; hiding < HIDE_NR; hiding++) {
		build_hidden(&image, hiding);
		fd = open_image(&image);
		TEST_ASSERT_VAL("file", fd >= 0);

		before = peak_memory();
		ret = sframe_table__build(&table, fd);
		close(fd);
		now = peak_memory();

		pr_debug("%s: %d, %ld KiB\n", hidings[hiding], ret, now - before);
		TEST_ASSERT_VAL("no more memory", now - before < MEMORY_MAX);
		if (hiding == HIDE_BY_NUMBER) {
			TEST_ASSERT_EQUAL("nothing to make a table of", ret, -ENODATA);
			continue;
		}

		TEST_ASSERT_VAL("build", !ret);
		end = ULLONG_MAX;
		ret = sframe_reader__init(&reader, table.data, table.size, 0) ?:
		      sframe_reader__find(&reader, TEXT + 0x10, &rule, &signal, &end);
		text[0] = '\0';
		if (!ret)
			sframe_rule__scnprintf(&rule, text, sizeof(text));
		sframe_table__exit(&table);
		pr_debug("%s: %d, %s\n", hidings[hiding], ret, text);
		TEST_ASSERT_VAL("the rule of the other one", !strcmp(text, HIDDEN_TEXT));
	}

	return TEST_OK;
}

/* Compare a table that is made now with what the file describes. */
static int check_image(const struct image *image, const struct sframe_check *expected)
{
	struct sframe_check check = { };
	struct sframe_table table;
	int ret, fd = open_image(image);

	TEST_ASSERT_VAL("file", fd >= 0);

	ret = sframe_table__build(&table, fd);
	if (!ret || ret == -ENODATA)
		ret = sframe_table__check(&table, fd, &check);
	sframe_table__exit(&table);
	close(fd);

	pr_debug("%d: described %" PRIu64 " same %" PRIu64 " signal %" PRIu64 " missing %" PRIu64
		 " unread %" PRIu64 " unreadable %" PRIu64 "; %" PRIu64 " of %" PRIu64 "\n",
		 ret, check.described, check.same, check.signal, check.missing, check.unread,
		 check.unreadable, check.code_described, check.code);

	TEST_ASSERT_EQUAL("result", ret, 0);
	TEST_ASSERT_VAL("described", check.described == expected->described);
	TEST_ASSERT_VAL("same", check.same == expected->same);
	TEST_ASSERT_VAL("signal", check.signal == expected->signal);
	TEST_ASSERT_VAL("missing", check.missing == expected->missing);
	TEST_ASSERT_VAL("unread", check.unread == expected->unread);
	TEST_ASSERT_VAL("unreadable", check.unreadable == expected->unreadable);
	TEST_ASSERT_VAL("different", !check.different && !check.extra);
	TEST_ASSERT_VAL("code", check.code == expected->code);
	TEST_ASSERT_VAL("code described", check.code_described == expected->code_described);

	return TEST_OK;
}

/* It adds nothing to what the CIE says. */
static void put_plain_fde(struct image *image, size_t eh_frame, size_t cie, u32 func, u32 size)
{
	size_t start = begin_fde(image, eh_frame, cie, func, size);

	put(image, 0, 1);
	end_entry(image, start);
}

#define UNREAD_CODE_SIZE	0x400

/* FDEs that libdw does not get, each for another reason */
static void build_unread(struct image *image)
{
	const size_t version = 8, program = version + sizeof("1zR") + 5;
	Elf64_Shdr shdrs[4] = {
		[1] = {
			.sh_name = NAME_EH_FRAME, .sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC, .sh_addr = EH_FRAME, .sh_addralign = 8,
		},
		/* The code; the rest of the segment is something else. */
		[2] = {
			.sh_name = NAME_NOTE, .sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = TEXT,
			.sh_size = UNREAD_CODE_SIZE, .sh_addralign = 1,
		},
	};
	size_t eh_frame, cie, no_cie, bad_cie;

	begin_image(image);

	eh_frame = image->size;
	shdrs[1].sh_offset = eh_frame;
	cie = put_cie(image, "zR");
	bad_cie = put_cie(image, "zR");
	image->data[bad_cie + program] = 0x3f;
	no_cie = put_cie(image, "zR");
	image->data[no_cie + version] = 99;

	/* Good, but the first one starts before the code. */
	put_plain_fde(image, eh_frame, cie, TEXT - 0x10, 0x20);
	put_plain_fde(image, eh_frame, cie, TEXT + 0x10, 0x10);
	/* The second one is within the first one. */
	put_plain_fde(image, eh_frame, cie, TEXT + 0x20, 0x40);
	put_plain_fde(image, eh_frame, cie, TEXT + 0x40, 0x10);
	/* The program is outrageous; that of the CIE makes no sense; there is no CIE. */
	put_hostile_fde(image, eh_frame, cie, TEXT + 0x80, 0x08);
	put_plain_fde(image, eh_frame, bad_cie, TEXT + 0x90, 0x04);
	put_plain_fde(image, eh_frame, no_cie, TEXT + 0xa0, 0x02);
	/* Not found from the start of the section. */
	put(image, 0, sizeof(u32));
	put_plain_fde(image, eh_frame, cie, TEXT + 0xb0, 0x01);
	/* Described, but not in a section with code */
	put(image, 0, sizeof(u32));
	put_plain_fde(image, eh_frame, cie, TEXT + 0x800, 0x100);
	put(image, 0, sizeof(u32));
	shdrs[1].sh_size = image->size - eh_frame;

	end_image(image, shdrs, ARRAY_SIZE(shdrs));
}

/* What libdw does not get counts all the same. */
static int test__sframe_cfi_check(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	/* One outrageous FDE; most of the code has none. */
	const struct sframe_check of_rules = {
		.code		= TEXT_SIZE,
		.code_described	= 0x120,
		.described	= 0x120,
		.same		= 0x120 - 8 - 12 - 16 - 16 - 16,
		.signal		= 16,
		.missing	= 8 + 12 + 16 + 16,
		.unread		= 16,
	};
	const struct sframe_check of_unread = {
		.code		= UNREAD_CODE_SIZE,
		.code_described	= 0x20 + 0x40 + 0x08 + 0x04 + 0x01,
		.described	= 0x20 + 0x40 + 0x08 + 0x04 + 0x01 + 0x100,
		.same		= 0x10 + 0x10,
		.missing	= 0x10 + 0x30 + 0x08 + 0x04 + 0x01 + 0x100,
		.unread		= 0x10 + 0x30 + 0x08 + 0x04 + 0x01 + 0x100,
		.unreadable	= 1,
	};
	/* No table can be made of it. */
	const struct sframe_check of_hidden = {
		.code		= TEXT_SIZE,
		.code_described	= 0x10,
		.described	= 0x10,
		.missing	= 0x10,
		.unread		= 0x10,
	};
	struct image image;
	int ret;

	build_image(&image);
	ret = check_image(&image, &of_rules);
	if (ret)
		return ret;

	build_unread(&image);
	ret = check_image(&image, &of_unread);
	if (ret)
		return ret;

	build_hidden(&image, HIDE_BY_NUMBER);
	return check_image(&image, &of_hidden);
}

/* A large section, but not one that is too large */
#define LARGE		((off_t)128 << 20)
#define NR_LARGE	4
/* Long enough for the other threads to get where they must not get */
#define LARGE_USEC	200000

static void open_large(size_t index __maybe_unused, void *arg)
{
	const int *fd = arg;
	struct sframe_cfi *cfi;

	if (sframe_cfi__open(*fd, &cfi))
		return;
	usleep(LARGE_USEC);
	sframe_cfi__delete(cfi);
}

/* Many files at a time do not take as many times the memory. */
static int test__sframe_cfi_large(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct image image;
	Elf64_Shdr *shdrs;
	Elf64_Ehdr *ehdr;
	long before, now;
	int fd;

	build_image(&image);
	ehdr = (void *)image.data;
	shdrs = (void *)image.data + ehdr->e_shoff;
	shdrs[1].sh_size = LARGE;
	fd = open_image(&image);
	TEST_ASSERT_VAL("file", fd >= 0);
	TEST_ASSERT_VAL("hole", !ftruncate(fd, 2 * LARGE));

	before = peak_memory();
	sframe_parallel__run(NR_LARGE, NR_LARGE, open_large, &fd);
	now = peak_memory();
	close(fd);

	pr_debug("%ld KiB\n", now - before);
	TEST_ASSERT_VAL("it was read", now - before >= LARGE >> 10);
	TEST_ASSERT_VAL("no more memory", now - before < (LARGE >> 10) + MEMORY_MAX);

	return TEST_OK;
}

struct signal_threads {
	pthread_t	caller;
	unsigned int	nr;
	unsigned int	nr_blocked;
};

static void check_signals(size_t index __maybe_unused, void *arg)
{
	struct signal_threads *threads = arg;
	sigset_t set;

	/* Each thread gets one. */
	usleep(LARGE_USEC);
	if (pthread_equal(pthread_self(), threads->caller))
		return;

	__atomic_fetch_add(&threads->nr, 1, __ATOMIC_RELAXED);
	if (!pthread_sigmask(SIG_SETMASK, NULL, &set) && sigismember(&set, SIGUSR2) &&
	    sigismember(&set, SIGINT) && sigismember(&set, SIGALRM))
		__atomic_fetch_add(&threads->nr_blocked, 1, __ATOMIC_RELAXED);
}

/* A handler runs in the thread that has something to wake up from. */
static int test__sframe_cfi_signals(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	struct signal_threads threads = { .caller = pthread_self() };
	sigset_t set;

	sframe_parallel__run(NR_LARGE, NR_LARGE, check_signals, &threads);
	TEST_ASSERT_VAL("threads", threads.nr > 0);
	TEST_ASSERT_EQUAL("threads without signals", threads.nr_blocked, threads.nr);
	TEST_ASSERT_VAL("mask", !pthread_sigmask(SIG_SETMASK, NULL, &set));
	TEST_ASSERT_VAL("the caller has them", !sigismember(&set, SIGUSR2));

	return TEST_OK;
}

/* Examples from FIPS 180-2, and what ends where a block does */
static const struct {
	const char	*text;
	const char	*digest;
} digests[] = {
	{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnop",
	  "aa353e009edbaebfc6e494c8d847696896cb8b398e0173a4b5c1b636292d87c7" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopqopqrpqrs",
	  "5a5748c5c07341a6c8b2c06ba633247dc04b712d28fd2951cc91160915902d67" },
};

static int test__sframe_cfi_sha256(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	u8 digest[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];
	struct sha256 sha;
	size_t i, j, step;

	for (i = 0; i < ARRAY_SIZE(digests); i++) {
		for (step = 1; step <= SHA256_BLOCK; step++) {
			sha256__init(&sha);
			for (j = 0; j < strlen(digests[i].text); j += step)
				sha256__add(&sha, digests[i].text + j,
					    min(step, strlen(digests[i].text) - j));
			sha256__finish(&sha, digest);

			for (j = 0; j < sizeof(digest); j++)
				scnprintf(hex + 2 * j, sizeof(hex) - 2 * j, "%02x", digest[j]);
			if (!strcmp(hex, digests[i].digest))
				continue;
			pr_debug("'%s' by %zu: %s\n", digests[i].text, step, hex);
			return TEST_FAIL;
		}
	}

	return TEST_OK;
}

#else /* !HAVE_DWARF_SUPPORT */

static int test__sframe_cfi_rules(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_damaged(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_holes(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_hidden(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_check(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_large(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_signals(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_sha256(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	return TEST_SKIP;
}

#endif /* HAVE_DWARF_SUPPORT */

static struct test_case tests__sframe_cfi[] = {
	TEST_CASE_REASON("Rules", sframe_cfi_rules, "not built with libdw"),
	TEST_CASE_REASON("Damaged files", sframe_cfi_damaged, "not built with libdw"),
	TEST_CASE_REASON("Files with holes", sframe_cfi_holes, "not built with libdw"),
	TEST_CASE_REASON("Hidden programs", sframe_cfi_hidden, "not built with libdw"),
	TEST_CASE_REASON("Comparison with the file", sframe_cfi_check, "not built with libdw"),
	TEST_CASE_REASON("Many large files", sframe_cfi_large, "not built with libdw"),
	TEST_CASE_REASON("Signals of threads", sframe_cfi_signals, "not built with libdw"),
	TEST_CASE_REASON("SHA-256", sframe_cfi_sha256, "not built with libdw"),
	{	.name = NULL, }
};

struct test_suite suite__sframe_cfi = {
	.desc = "SFrame tables from call frame information",
	.test_cases = tests__sframe_cfi,
};
