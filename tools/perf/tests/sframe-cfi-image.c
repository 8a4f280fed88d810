// SPDX-License-Identifier: GPL-2.0
/* ELF files with call frame information, and the rules that perf must make from it */
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "util/debug.h"
#include "util/sframe.h"
#include "util/sframe-table.h"
#include "tests.h"
#include "tests/sframe-cfi-image.h"

#define RSP	7
#define RBP	6
#define RDI	5
#define R9	9
#define R10	10
#define R12	12
#define RIP	16

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

#define FDE_BYTES	64

/* Functions, and the instructions of their call frame information. */
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
	/* A signal trampoline: the registers are in the signal frame. */
	FDE(0x070, 0x10, true,
	    DW_CFA_def_cfa_expression, 4, DW_OP_breg0 + RSP, 0xa0, 0x01, DW_OP_deref,
	    DW_CFA_expression, RSP, 3, DW_OP_breg0 + RSP, 0xa0, 0x01,
	    DW_CFA_expression, RIP, 3, DW_OP_breg0 + RSP, 0xa8, 0x01),
	/* A signal trampoline whose CFI describes a plain frame. */
	FDE(0x080, 0x10, true, DW_CFA_def_cfa_offset, 0xa8, 0x01),
	/* The outermost function. */
	FDE(0x090, 0x10, false, DW_CFA_undefined, RIP),
	/* Return address and frame pointer in registers. */
	FDE(0x0a0, 0x10, false,
	    DW_CFA_advance_loc | 1, DW_CFA_register, RIP, RDI,
	    DW_CFA_advance_loc | 1, DW_CFA_register, RBP, R12),
	/*
	 * A CFA in memory, less 8; one that the format cannot express; one behind an
	 * array of words, and one behind an array of halves, which it cannot express.
	 */
	FDE(0x0b0, 0x20, false,
	    DW_CFA_advance_loc | 4, DW_CFA_remember_state, DW_CFA_def_cfa_expression, 5,
				    DW_OP_breg0 + RSP, 40, DW_OP_deref, DW_OP_plus_uconst, 8,
	    DW_CFA_advance_loc | 4, DW_CFA_def_cfa_expression, 4,
				    DW_OP_breg0 + RSP, 40, DW_OP_deref, DW_OP_deref,
	    DW_CFA_advance_loc | 4, DW_CFA_def_cfa_expression, 10,
				    DW_OP_breg0 + RSP, 24, DW_OP_breg0 + R9, 0,
				    DW_OP_lit8, DW_OP_mul, DW_OP_plus, DW_OP_deref,
				    DW_OP_plus_uconst, 8,
	    DW_CFA_advance_loc | 4, DW_CFA_def_cfa_expression, 10,
				    DW_OP_breg0 + RSP, 24, DW_OP_breg0 + R9, 0,
				    DW_OP_lit4, DW_OP_mul, DW_OP_plus, DW_OP_deref,
				    DW_OP_plus_uconst, 8,
	    DW_CFA_advance_loc | 4, DW_CFA_restore_state),
	/* The caller's frame pointer is undefined, then at a place that is in memory. */
	FDE(0x0d0, 0x10, false,
	    DW_CFA_advance_loc | 4, DW_CFA_undefined, RBP,
	    DW_CFA_advance_loc | 4, DW_CFA_expression, RBP, 3, DW_OP_breg0 + RSP, 8, DW_OP_deref),
	/* The stack pointer is not the CFA. */
	FDE(0x0e0, 0x10, false, DW_CFA_register, RSP, R12),
	/* Expressions that are equivalent to a register plus an offset. */
	FDE(0x0f0, 0x10, false,
	    DW_CFA_def_cfa_expression, 5,
	    DW_OP_lit16, DW_OP_breg0 + RSP, 0, DW_OP_plus, DW_OP_nop,
	    DW_CFA_advance_loc | 4, DW_CFA_def_cfa_expression, 5,
	    DW_OP_breg0 + RBP, 0x20, DW_OP_lit16, DW_OP_minus, DW_OP_nop),
	/*
	 * A huge register number: libdw would allocate memory for all registers up to
	 * it.
	 */
	FDE(0x100, 0x10, false, DW_CFA_advance_loc | 4, DW_CFA_same_value, 0xff, 0xff, 0x7f),
	/* Beyond the segment. */
	FDE(0xff0, 0x20, false, DW_CFA_nop),
	FDE(0x8000, 0x20, false, DW_CFA_nop),
#undef FDE
};

/* The expected rules and their address ranges. */
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
	{ 0x0b4, 0x0b8, "cfa *(rsp+40)+8 ra *(cfa-8) fp same" },
	{ 0x0b8, 0x0bc, "none" },
	{ 0x0bc, 0x0c0, "cfa *(rsp+8*r9+24)+8 ra *(cfa-8) fp same" },
	{ 0x0c0, 0x0c4, "none" },
	{ 0x0c4, 0x0d0, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x0d0, 0x0d4, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x0d4, 0x0d8, "cfa rsp+8 ra *(cfa-8) fp unknown" },
	{ 0x0d8, 0x0f0, "none" },
	{ 0x0f0, 0x0f4, "cfa rsp+16 ra *(cfa-8) fp same" },
	{ 0x0f4, 0x100, "cfa rbp+16 ra *(cfa-8) fp same" },
	{ 0x100, 0xff0, "none" },
	{ 0xff0, 0x1000, "cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x1000, 0x10000, "none" },
};

const struct sframe_stats sframe_image__stats = {
	.code		= TEXT_SIZE,
	.described	= 0x120,
	.covered	= 0x120 - 8 - 8 - 16 - 16,
	.flex		= 0x1b + 15 + 4 + 4 + 4,
	.blocks		= 0x20,
	.lost		= {
		[SFRAME_LOST_CFA]	= 8,
		[SFRAME_LOST_FP]	= 8,
		[SFRAME_LOST_SP]	= 16,
		[SFRAME_LOST_DAMAGED]	= 16,
	},
};

const u8 sframe_image__build_id[8] = { 0xde, 0xad, 0xbe, 0xef, 0x01, 0x02, 0x03, 0x04 };

static const char names[] = "\0.eh_frame\0.note.gnu.build-id\0.shstrtab\0.eh_frame_hdr";

/* Offsets of the section names in @names */
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

/* The last section contains the section names. */
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

/* Writes an FDE up to its instructions; @eh_frame is the start of the section. */
static size_t begin_fde(struct image *image, size_t eh_frame, size_t cie, u32 func, u32 size)
{
	size_t start = begin_entry(image);

	put(image, start - cie, sizeof(u32));
	put(image, func - (EH_FRAME + image->size - eh_frame), sizeof(u32));
	put(image, size, sizeof(u32));
	return start;
}

void sframe_image__build(struct image *image)
{
	const Elf64_Nhdr nhdr = {
		.n_namesz	= sizeof(ELF_NOTE_GNU),
		.n_descsz	= sizeof(sframe_image__build_id),
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
	put_bytes(image, sframe_image__build_id, sizeof(sframe_image__build_id));
	shdrs[2].sh_size = image->size - shdrs[2].sh_offset;

	end_image(image, shdrs, ARRAY_SIZE(shdrs));
}

int sframe_image__open(const struct image *image)
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

int sframe_image__check_rules(const struct sframe_table *table)
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

static void put_hostile_fde(struct image *image, size_t eh_frame, size_t cie, u32 func, u32 size)
{
	static const u8 code[] = { DW_CFA_undefined, 0x80, 0xda, 0xc4, 0x09 };
	size_t start = begin_fde(image, eh_frame, cie, func, size);

	put(image, 0, 1);
	put_bytes(image, code, sizeof(code));
	end_entry(image, start);
}

void sframe_image__build_hidden(struct image *image, enum hiding hiding)
{
	static const u8 number[] = {
		/* libdw reads the last byte of this number as an instruction. */
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
	/* Without the index, libdw uses the first FDE that covers the address. */
	if (hiding != HIDE_BY_INDEX)
		shdrs[1].sh_name = NAME_NOTE;

	end_image(image, shdrs, ARRAY_SIZE(shdrs));
}

/* An FDE without instructions of its own. */
static void put_plain_fde(struct image *image, size_t eh_frame, size_t cie, u32 func, u32 size)
{
	size_t start = begin_fde(image, eh_frame, cie, func, size);

	put(image, 0, 1);
	end_entry(image, start);
}

/* FDEs that perf does not pass to libdw, each for a different reason */
void sframe_image__build_unread(struct image *image)
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
	size_t eh_frame, cie, no_cie, bad_cie, long_cie;

	begin_image(image);

	eh_frame = image->size;
	shdrs[1].sh_offset = eh_frame;
	cie = put_cie(image, "zR");
	bad_cie = put_cie(image, "zR");
	image->data[bad_cie + program] = 0x3f;
	no_cie = put_cie(image, "zR");
	image->data[no_cie + version] = 99;
	long_cie = put_cie(image, "zRSSSSSSSSSSSSSS");

	/* Good, but the first one starts before the code. */
	put_plain_fde(image, eh_frame, cie, TEXT - 0x10, 0x20);
	put_plain_fde(image, eh_frame, cie, TEXT + 0x10, 0x10);
	/* The second one is within the first one. */
	put_plain_fde(image, eh_frame, cie, TEXT + 0x20, 0x40);
	put_plain_fde(image, eh_frame, cie, TEXT + 0x40, 0x10);
	/*
	 * A huge register number; an invalid instruction in the CIE; no valid CIE; one
	 * whose augmentation is too long.
	 */
	put_hostile_fde(image, eh_frame, cie, TEXT + 0x80, 0x08);
	put_plain_fde(image, eh_frame, bad_cie, TEXT + 0x90, 0x04);
	put_plain_fde(image, eh_frame, no_cie, TEXT + 0xa0, 0x02);
	put_plain_fde(image, eh_frame, long_cie, TEXT + 0xa8, 0x02);
	/*
	 * After a terminator: a reader that begins at the start of the section stops
	 * there.
	 */
	put(image, 0, sizeof(u32));
	put_plain_fde(image, eh_frame, cie, TEXT + 0xb0, 0x01);
	/* Described, but not in a section with code */
	put(image, 0, sizeof(u32));
	put_plain_fde(image, eh_frame, cie, TEXT + 0x800, 0x100);
	put(image, 0, sizeof(u32));
	shdrs[1].sh_size = image->size - eh_frame;

	end_image(image, shdrs, ARRAY_SIZE(shdrs));
}
