/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame sections for the code of sframe_code.h, and ELF images that have such
 * a section, made when the test runs: no assembler or linker that knows SFrame
 * is needed, and what no tool would emit can be had, too.
 */
#ifndef SELFTESTS_UNWIND_SFRAME_BUILD_H
#define SELFTESTS_UNWIND_SFRAME_BUILD_H

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include "sframe_code.h"

#ifdef __x86_64__

/* ---- The format ---------------------------------------------------------- */

#define SFRAME_MAGIC		0xdee2
#define SFRAME_V1		1
#define SFRAME_V2		2
#define SFRAME_V3		3
#define SFRAME_F_SORTED		0x1
#define SFRAME_F_PCREL		0x4
#define SFRAME_ABI_AMD64	3
#define SFRAME_AMD64_RA		(-8)

#define SFRAME_PT		0x6474e554

struct sframe_header {
	__u16	magic;
	__u8	version;
	__u8	flags;
	__u8	abi;
	__s8	fixed_fp;
	__s8	fixed_ra;
	__u8	auxhdr_len;
	__u32	num_fdes;
	__u32	num_fres;
	__u32	fre_len;
	__u32	fdeoff;
	__u32	freoff;
} __attribute__((packed));

struct sframe_fde_v2 {
	__s32	start;
	__u32	size;
	__u32	fre_off;
	__u32	nfres;
	__u8	info;
	__u8	rep_size;
	__u16	pad;
} __attribute__((packed));

struct sframe_fde_v3 {
	__s64	start;
	__u32	size;
	__u32	fre_off;
} __attribute__((packed));

struct sframe_attr_v3 {
	__u16	nfres;
	__u8	info;
	__u8	info2;
	__u8	rep_size;
} __attribute__((packed));

#define SFRAME_FDE_MASK		0x10
#define SFRAME_FDE_SIGNAL	0x80
#define SFRAME_FDE_FLEX		1
#define SFRAME_FRE_SP		1
#define SFRAME_FRE_WORDS(n)	((n) << 1)
#define SFRAME_FRE_SIZE(log2)	((log2) << 5)

/* Control words of flexible rules: a register's value, what it points to. */
#define FLEX_DEFAULT		0
#define FLEX_REG(dwarf)		((dwarf) << 3 | 1)
#define FLEX_AT_REG(dwarf)	((dwarf) << 3 | 3)
#define FLEX_AT_CFA		2
#define DWARF_RBP		6
#define DWARF_RSP		7
#define DWARF_R9		9
#define DWARF_R10		10
#define DWARF_R12		12

/* ---- The rules of sframe_code.h ------------------------------------------- */

struct sframe_row {
	const char	*at;
	/* SFRAME_FRE_SP or 0. */
	__u8		base;
	__u8		nwords;
	__s32		words[6];
};

/* The CFA from the stack pointer; with the frame pointer saved or not. */
#define SP(at, cfa)		{ at, SFRAME_FRE_SP, 1, { cfa } }
#define SP_FP(at, cfa)		{ at, SFRAME_FRE_SP, 2, { cfa, -16 } }
/* The CFA from the frame pointer. */
#define FP_FP(at, cfa)		{ at, 0, 2, { cfa, -16 } }
#define FLEX(at, n, ...)	{ at, 0, n, { __VA_ARGS__ } }

struct sframe_func {
	const char		*start;
	const char		*end;
	const struct sframe_row	*rows;
	unsigned int		nr_rows;
	/* Bytes after which a PLT repeats, 0 if this is none. */
	unsigned int		rep_size;
	/* The following two are for v3 only. */
	bool			flex;
	bool			signal;
};

#define ROWS(name)	static const struct sframe_row rows_##name[]

ROWS(code_entry) = {
	SP(code_entry, 8), SP_FP(code_entry_1, 16), SP_FP(code_entry_2, 56),
	SP_FP(code_entry_3, 72), SP_FP(code_entry_4, 56),
	SP_FP(code_entry_5, 16), SP(code_entry_6, 8),
};

ROWS(code_sp) = {
	SP(code_sp, 8), SP_FP(code_sp_1, 16), SP_FP(code_sp_2, 40),
	SP_FP(code_sp_3, 16), SP(code_sp_4, 8),
};

ROWS(code_mark) = {
	SP(code_mark, 8), SP_FP(code_mark_1, 16), SP_FP(code_mark_2, 56),
	SP_FP(code_mark_3, 16), SP(code_mark_4, 8),
};

ROWS(code_keep) = {
	SP(code_keep, 8), SP(code_keep_1, 64), SP(code_keep_2, 8),
};

ROWS(code_fp) = {
	SP(code_fp, 8), SP_FP(code_fp_1, 16), FP_FP(code_fp_2, 16),
	SP(code_fp_4, 8),
};

ROWS(code_mid) = {
	SP(code_mid, 8), SP(code_mid_1, 0x810), SP(code_mid_2, 8),
};

ROWS(code_large) = {
	SP(code_large, 8), SP_FP(code_large_1, 16),
	SP_FP(code_large_2, 0x20010), SP_FP(code_large_3, 16),
	SP(code_large_4, 8),
};

ROWS(code_far) = {
	SP(code_far, 8), SP_FP(code_far_1, 16), SP_FP(code_far_2, 24),
	SP_FP(code_far_3, 16), SP(code_far_4, 8),
};

ROWS(code_noreturn) = {
	SP(code_noreturn, 8), SP_FP(code_noreturn_1, 16),
	SP_FP(code_noreturn_2, 88),
};

/* Not its rules: they show when code_noreturn's return address is taken here. */
ROWS(code_behind) = {
	SP(code_behind, 16),
};

ROWS(code_mask) = {
	SP(code_mask, 8), SP(code_mask_1, 16), SP(code_mask_2, 8),
};

ROWS(code_drap) = {
	FLEX(code_drap, 2, FLEX_REG(DWARF_RSP), 8),
	FLEX(code_drap_1, 2, FLEX_REG(DWARF_R10), 0),
	FLEX(code_drap_3, 5, FLEX_REG(DWARF_R10), 0, FLEX_DEFAULT,
	     FLEX_AT_REG(DWARF_RBP), 0),
	FLEX(code_drap_4, 5, FLEX_AT_REG(DWARF_RBP), -8, FLEX_DEFAULT,
	     FLEX_AT_REG(DWARF_RBP), 0),
	FLEX(code_drap_6, 2, FLEX_REG(DWARF_R10), 0),
	FLEX(code_drap_7, 2, FLEX_REG(DWARF_RSP), 8),
};

ROWS(code_ra_reg) = {
	FLEX(code_ra_reg, 2, FLEX_REG(DWARF_RSP), 8),
	FLEX(code_ra_reg_1, 4, FLEX_REG(DWARF_RSP), 0, FLEX_REG(DWARF_R9), 0),
	FLEX(code_ra_reg_2, 2, FLEX_REG(DWARF_RSP), 8),
	FLEX(code_ra_reg_3, 2, FLEX_REG(DWARF_RSP), 16),
	FLEX(code_ra_reg_4, 2, FLEX_REG(DWARF_RSP), 8),
};

ROWS(code_fp_reg) = {
	FLEX(code_fp_reg, 2, FLEX_REG(DWARF_RSP), 8),
	FLEX(code_fp_reg_1, 5, FLEX_REG(DWARF_RSP), 16, FLEX_DEFAULT,
	     FLEX_AT_CFA, -16),
	FLEX(code_fp_reg_2, 5, FLEX_REG(DWARF_RSP), 24, FLEX_DEFAULT,
	     FLEX_AT_CFA, -16),
	FLEX(code_fp_reg_3, 5, FLEX_REG(DWARF_RSP), 24, FLEX_DEFAULT,
	     FLEX_REG(DWARF_R12), 0),
	FLEX(code_fp_reg_4, 5, FLEX_REG(DWARF_RSP), 24, FLEX_DEFAULT,
	     FLEX_AT_CFA, -16),
	FLEX(code_fp_reg_5, 5, FLEX_REG(DWARF_RSP), 32, FLEX_DEFAULT,
	     FLEX_AT_CFA, -16),
	FLEX(code_fp_reg_6, 5, FLEX_REG(DWARF_RSP), 24, FLEX_DEFAULT,
	     FLEX_AT_CFA, -16),
	FLEX(code_fp_reg_7, 5, FLEX_REG(DWARF_RSP), 16, FLEX_DEFAULT,
	     FLEX_AT_CFA, -16),
	FLEX(code_fp_reg_8, 2, FLEX_REG(DWARF_RSP), 8),
};

ROWS(code_interrupt) = { SP(code_interrupt, 8) };
ROWS(code_first) = { SP(code_first, 8) };
ROWS(code_spin) = { SP(code_spin, 8) };
ROWS(code_fault) = { SP(code_fault, 8) };
ROWS(code_start) = { SP(code_start, 8) };

ROWS(code_leaf) = {
	SP(code_leaf, 8), SP_FP(code_leaf_1, 16), SP_FP(code_leaf_2, 24),
	SP_FP(code_leaf_3, 32), SP_FP(code_leaf_4, 24),
	SP_FP(code_leaf_5, 16), SP(code_leaf_6, 8),
};

ROWS(code_handler) = {
	SP(code_handler, 8), SP_FP(code_handler_1, 16),
	SP_FP(code_handler_2, 48), SP_FP(code_handler_3, 16),
	SP(code_handler_4, 8),
};

/* Where a ucontext at the stack pointer keeps registers. */
#define UC_RBP	120
#define UC_RSP	160
#define UC_RIP	168

ROWS(code_restore_rules) = {
	FLEX(code_restore_rules, 6, FLEX_AT_REG(DWARF_RSP), UC_RSP,
	     FLEX_AT_REG(DWARF_RSP), UC_RIP, FLEX_AT_REG(DWARF_RSP), UC_RBP),
};

/* Sections are sorted, so this has the order of sframe_code.h. */
#define FUNC(name, ...)							\
	{ name, name##_end, rows_##name, ARRAY_SIZE(rows_##name), __VA_ARGS__ }

static const struct sframe_func sframe_funcs[] = {
	FUNC(code_entry),
	FUNC(code_sp),
	FUNC(code_mark),
	FUNC(code_keep),
	FUNC(code_fp),
	FUNC(code_mid),
	FUNC(code_large),
	FUNC(code_far),
	FUNC(code_noreturn),
	FUNC(code_behind),
	FUNC(code_mask, .rep_size = 16),
	FUNC(code_drap, .flex = true),
	FUNC(code_ra_reg, .flex = true),
	FUNC(code_fp_reg, .flex = true),
	FUNC(code_interrupt, .signal = true),
	FUNC(code_first),
	FUNC(code_leaf),
	FUNC(code_spin),
	FUNC(code_fault),
	FUNC(code_handler),
	/* No rows: the reader knows what a signal frame looks like. */
	{ code_restore_marked, code_restore_marked_end, .signal = true },
	FUNC(code_restore_rules, .flex = true, .signal = true),
	FUNC(code_start),
};

/* ---- Sections -------------------------------------------------------------- */

struct sframe_opts {
	__u8		version;
	/* v2: starts relative to their own fields. */
	bool		pcrel;
	/* log2 of the least width of addresses and words. */
	__u8		addr_width;
	__u8		word_width;
	/* Functions whose frame is the outermost one; code_entry, if none is. */
	const char	*outermost[2];
	/* A function left out. */
	const char	*without;
	/* Bytes between the header and the FDEs, of which nothing is said. */
	__u8		auxhdr_len;
};

static inline bool sframe_is_outermost(const struct sframe_opts *o,
				       const struct sframe_func *f)
{
	if (!o->outermost[0])
		return f->start == code_entry;
	return f->start == o->outermost[0] || f->start == o->outermost[1];
}

static inline bool sframe_has(const struct sframe_opts *o,
			      const struct sframe_func *f)
{
	if (f->start == o->without)
		return false;
	return o->version >= SFRAME_V3 || (!f->flex && !f->signal);
}

static inline void sframe_put(unsigned char **p, __u32 val, unsigned int width)
{
	memcpy(*p, &val, 1 << width);
	*p += 1 << width;
}

static inline bool sframe_fits(__s32 val, unsigned int width, bool sign)
{
	unsigned int bits = 8 << width;

	if (width == 2)
		return true;
	if (!sign)
		return val >= 0 && val < 1 << bits;
	return val >= -(1 << (bits - 1)) && val < 1 << (bits - 1);
}

static inline unsigned char *
sframe_put_fre(unsigned char *p, const struct sframe_opts *o,
	       const struct sframe_func *f, const struct sframe_row *row,
	       unsigned int addr_width)
{
	unsigned int i, width = o->word_width;
	unsigned int nwords = row->nwords;

	if (sframe_is_outermost(o, f))
		nwords = 0;
	/* Control words are unsigned, so keep them off the sign, too. */
	for (i = 0; i < nwords; i++) {
		while (!sframe_fits(row->words[i], width, true))
			width++;
	}
	sframe_put(&p, row->at - f->start, addr_width);
	*p++ = row->base | SFRAME_FRE_WORDS(nwords) | SFRAME_FRE_SIZE(width);
	for (i = 0; i < nwords; i++)
		sframe_put(&p, row->words[i], width);
	return p;
}

/*
 * Write the section for code whose code_begin is at text when the section is
 * at addr.  Returns the size; buf has room for SFRAME_MAX_SIZE.
 */
#define SFRAME_MAX_SIZE	4096

static inline size_t
sframe_build(unsigned char *buf, const struct sframe_opts *o, __u64 addr,
	     __u64 text)
{
	struct sframe_header *h = (void *)buf;
	unsigned char *fdes, *fres, *p;
	unsigned int i, j, n = 0;
	size_t fde_size;

	memset(buf, 0, SFRAME_MAX_SIZE);
	for (i = 0; i < ARRAY_SIZE(sframe_funcs); i++)
		n += sframe_has(o, &sframe_funcs[i]);
	fde_size = o->version >= SFRAME_V3 ? sizeof(struct sframe_fde_v3) :
					     sizeof(struct sframe_fde_v2);
	*h = (struct sframe_header) {
		.magic		= SFRAME_MAGIC,
		.version	= o->version,
		.flags		= SFRAME_F_SORTED,
		.abi		= SFRAME_ABI_AMD64,
		.fixed_ra	= SFRAME_AMD64_RA,
		.auxhdr_len	= o->auxhdr_len,
		.num_fdes	= n,
		.freoff		= n * fde_size,
	};
	if (o->version >= SFRAME_V3 || o->pcrel)
		h->flags |= SFRAME_F_PCREL;
	memset(buf + sizeof(*h), 0xff, o->auxhdr_len);
	fdes = buf + sizeof(*h) + o->auxhdr_len;
	fres = fdes + h->freoff;
	p = fres;
	for (i = 0; i < ARRAY_SIZE(sframe_funcs); i++) {
		const struct sframe_func *f = &sframe_funcs[i];
		unsigned int addr_width = o->addr_width;
		__u64 start = text + (f->start - code_begin);
		__u8 info;

		if (!sframe_has(o, f))
			continue;
		for (j = 0; j < f->nr_rows; j++) {
			while (!sframe_fits(f->rows[j].at - f->start,
					    addr_width, false))
				addr_width++;
		}
		info = addr_width;
		if (f->rep_size)
			info |= SFRAME_FDE_MASK;
		if (f->signal)
			info |= SFRAME_FDE_SIGNAL;
		if (o->version >= SFRAME_V3) {
			struct sframe_fde_v3 *fde = (void *)fdes;
			struct sframe_attr_v3 *attr = (void *)p;

			fde->start = start - (addr + (fdes - buf));
			fde->size = f->end - f->start;
			fde->fre_off = p - fres;
			attr->nfres = f->nr_rows;
			attr->info = info;
			attr->info2 = f->flex ? SFRAME_FDE_FLEX : 0;
			attr->rep_size = f->rep_size;
			p += sizeof(*attr);
		} else {
			struct sframe_fde_v2 *fde = (void *)fdes;

			fde->start = start - addr;
			if (o->pcrel)
				fde->start -= fdes - buf;
			fde->size = f->end - f->start;
			fde->fre_off = p - fres;
			fde->nfres = f->nr_rows;
			fde->info = info;
			fde->rep_size = f->rep_size;
		}
		fdes += fde_size;
		for (j = 0; j < f->nr_rows; j++)
			p = sframe_put_fre(p, o, f, &f->rows[j], addr_width);
		h->num_fres += f->nr_rows;
	}
	h->fre_len = p - fres;
	return p - buf;
}

/* ---- Images ------------------------------------------------------------------ */

#define IMAGE_PAGE	4096UL
/* The section does not start where the page does. */
#define IMAGE_SFRAME	0x28
#define IMAGE_PHDRS	8

enum image_seg {
	SEG_HEADERS,
	SEG_TEXT,
	SEG_SFRAME,
	SEG_DYNAMIC,
	SEG_NR,
};

enum image_kind {
	/* A shared library, or a program that is position independent. */
	IMAGE_DYN,
	/* A program with fixed addresses, which begin at image_opts::vaddr. */
	IMAGE_EXEC,
};

struct image_opts {
	struct sframe_opts	sframe;
	enum image_kind		kind;
	__u64			vaddr;
	/* Pages between segments in memory that are not in the file. */
	unsigned int		gap;
	/* Has neither section nor program header for it. */
	bool			no_sframe;
	/* For programs: what to call, ended by NULL, and code_leaf's call. */
	const char		*program[8];
	__u64			program_nr;
	bool			is_interpreter;
	const char		*interpreter;
	/* For code_handler; see code_handler_next. */
	struct code_ctx		**handler_next;
};

struct image {
	unsigned char	*bytes;
	size_t		size;
	/* Of each segment: place in the file, in memory, length, protection. */
	struct {
		__u64	off;
		__u64	vaddr;
		__u64	len;
		int	prot;
	} seg[SEG_NR];
	/* Addresses in memory from the first segment's on. */
	__u64		vaddr;
	__u64		span;
	size_t		sframe_len;
	Elf64_Ehdr	*ehdr;
	Elf64_Phdr	*phdr;
	/* Program header of the section, NULL if there is none. */
	Elf64_Phdr	*sframe_phdr;
	unsigned char	*sframe;
	unsigned char	*text;
};

static inline __u64 image_round(__u64 len)
{
	return (len + IMAGE_PAGE - 1) & -IMAGE_PAGE;
}

static inline size_t code_size(void)
{
	return code_end - code_begin;
}

/* Names and symbols for dlopen() and dlsym(): "code" is code_begin. */
struct image_dynamic {
	Elf64_Dyn	dyn[8];
};

struct image_symbols {
	char		strtab[16];
	Elf64_Sym	sym[2];
	Elf64_Word	hash[5];
};

static inline void image_dynamic_build(struct image *im, __u64 symbols_off)
{
	struct image_symbols *s = (void *)(im->bytes + symbols_off);
	struct image_dynamic *d = (void *)(im->bytes +
					   im->seg[SEG_DYNAMIC].off);
	__u64 at = im->seg[SEG_HEADERS].vaddr + symbols_off;
	Elf64_Dyn dyn[] = {
		{ DT_STRTAB, { at + offsetof(struct image_symbols, strtab) } },
		{ DT_SYMTAB, { at + offsetof(struct image_symbols, sym) } },
		{ DT_HASH, { at + offsetof(struct image_symbols, hash) } },
		{ DT_STRSZ, { sizeof(s->strtab) } },
		{ DT_SYMENT, { sizeof(s->sym[0]) } },
		{ DT_NULL, { 0 } },
	};

	memcpy(d->dyn, dyn, sizeof(dyn));
	memcpy(s->strtab + 1, "code", sizeof("code"));
	s->sym[1] = (Elf64_Sym) {
		.st_name = 1,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = 1,
		.st_value = im->seg[SEG_TEXT].vaddr,
		.st_size = code_size(),
	};
	/* One bucket with one symbol. */
	s->hash[0] = 1;
	s->hash[1] = 2;
	s->hash[2] = 1;
}

static inline void image_program(struct image *im, const struct image_opts *o)
{
	__u64 *offs = (void *)(im->text + (code_program - code_begin));
	__u64 *nr = (void *)(im->text + (code_program_nr - code_begin));
	__u64 *interp = (void *)(im->text +
				 (code_program_interpreter - code_begin));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(o->program) && o->program[i]; i++)
		offs[i] = o->program[i] - code_begin;
	*nr = o->program_nr;
	*interp = o->is_interpreter;
}

static inline void image_free(struct image *im)
{
	free(im->bytes);
	memset(im, 0, sizeof(*im));
}

/*
 * Make an image: ELF headers, text, section, dynamic section, each of them in a
 * segment of its own.  Returns 0, or -1 when out of memory.
 */
static inline int image_build(struct image *im, const struct image_opts *o)
{
	const __u64 symbols_off = sizeof(Elf64_Ehdr) +
				  IMAGE_PHDRS * sizeof(Elf64_Phdr);
	const __u64 interp_off = symbols_off + sizeof(struct image_symbols);
	__u64 lens[SEG_NR] = {
		[SEG_HEADERS]	= IMAGE_PAGE,
		[SEG_TEXT]	= code_size(),
		[SEG_SFRAME]	= IMAGE_SFRAME + SFRAME_MAX_SIZE,
		[SEG_DYNAMIC]	= sizeof(struct image_dynamic),
	};
	static const int prots[SEG_NR] = {
		[SEG_HEADERS]	= PROT_READ,
		[SEG_TEXT]	= PROT_READ | PROT_EXEC,
		[SEG_SFRAME]	= PROT_READ,
		[SEG_DYNAMIC]	= PROT_READ | PROT_WRITE,
	};
	__u64 off = 0, vaddr = o->vaddr;
	unsigned int i, n = 0;

	memset(im, 0, sizeof(*im));
	im->vaddr = vaddr;
	for (i = 0; i < SEG_NR; i++) {
		im->seg[i].off = off;
		im->seg[i].vaddr = vaddr;
		im->seg[i].len = lens[i];
		im->seg[i].prot = prots[i];
		off += image_round(lens[i]);
		vaddr += image_round(lens[i]);
		im->span = vaddr - im->vaddr;
		vaddr += o->gap * IMAGE_PAGE;
	}
	im->size = off;
	im->bytes = calloc(1, im->size);
	if (!im->bytes)
		return -1;
	im->ehdr = (void *)im->bytes;
	im->phdr = (void *)(im->bytes + sizeof(Elf64_Ehdr));
	im->text = im->bytes + im->seg[SEG_TEXT].off;
	im->sframe = im->bytes + im->seg[SEG_SFRAME].off + IMAGE_SFRAME;

	memcpy(im->text, code_begin, code_size());
	memcpy(im->text + (code_handler_next - code_begin), &o->handler_next,
	       sizeof(o->handler_next));
	image_program(im, o);
	image_dynamic_build(im, symbols_off);
	*im->ehdr = (Elf64_Ehdr) {
		.e_ident = {
			ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
			ELFDATA2LSB, EV_CURRENT,
		},
		.e_type		= o->kind == IMAGE_EXEC ? ET_EXEC : ET_DYN,
		.e_machine	= EM_X86_64,
		.e_version	= EV_CURRENT,
		.e_entry	= im->seg[SEG_TEXT].vaddr +
				  (code_start - code_begin),
		.e_phoff	= sizeof(Elf64_Ehdr),
		.e_ehsize	= sizeof(Elf64_Ehdr),
		.e_phentsize	= sizeof(Elf64_Phdr),
	};
	if (o->interpreter) {
		memcpy(im->bytes + interp_off, o->interpreter,
		       strlen(o->interpreter) + 1);
		im->phdr[n++] = (Elf64_Phdr) {
			.p_type		= PT_INTERP,
			.p_flags	= PF_R,
			.p_offset	= interp_off,
			.p_vaddr	= im->vaddr + interp_off,
			.p_filesz	= strlen(o->interpreter) + 1,
			.p_memsz	= strlen(o->interpreter) + 1,
			.p_align	= 1,
		};
	}
	for (i = 0; i < SEG_NR; i++) {
		int prot = im->seg[i].prot;

		im->phdr[n++] = (Elf64_Phdr) {
			.p_type		= PT_LOAD,
			.p_flags	= (prot & PROT_READ ? PF_R : 0) |
					  (prot & PROT_WRITE ? PF_W : 0) |
					  (prot & PROT_EXEC ? PF_X : 0),
			.p_offset	= im->seg[i].off,
			.p_vaddr	= im->seg[i].vaddr,
			.p_paddr	= im->seg[i].vaddr,
			.p_filesz	= im->seg[i].len,
			.p_memsz	= im->seg[i].len,
			.p_align	= IMAGE_PAGE,
		};
	}
	/* A program of ours relocates nothing, and no library is named. */
	if (!o->program[0]) {
		im->phdr[n++] = (Elf64_Phdr) {
			.p_type		= PT_DYNAMIC,
			.p_flags	= PF_R | PF_W,
			.p_offset	= im->seg[SEG_DYNAMIC].off,
			.p_vaddr	= im->seg[SEG_DYNAMIC].vaddr,
			.p_filesz	= im->seg[SEG_DYNAMIC].len,
			.p_memsz	= im->seg[SEG_DYNAMIC].len,
			.p_align	= sizeof(long),
		};
	}
	im->phdr[n++] = (Elf64_Phdr) {
		.p_type		= PT_GNU_STACK,
		.p_flags	= PF_R | PF_W,
	};
	if (!o->no_sframe) {
		__u64 at = im->seg[SEG_SFRAME].vaddr + IMAGE_SFRAME;

		im->sframe_len = sframe_build(im->sframe, &o->sframe, at,
					      im->seg[SEG_TEXT].vaddr);
		im->sframe_phdr = &im->phdr[n++];
		*im->sframe_phdr = (Elf64_Phdr) {
			.p_type		= SFRAME_PT,
			.p_flags	= PF_R,
			.p_offset	= im->seg[SEG_SFRAME].off +
					  IMAGE_SFRAME,
			.p_vaddr	= at,
			.p_paddr	= at,
			.p_filesz	= im->sframe_len,
			.p_memsz	= im->sframe_len,
			.p_align	= sizeof(long),
		};
	}
	im->ehdr->e_phnum = n;
	return 0;
}

static inline int image_write(const struct image *im, int fd)
{
	return pwrite(fd, im->bytes, im->size, 0) == (ssize_t)im->size ? 0 : -1;
}

/* A file with the image: of that name, or in memory if it is NULL. */
static inline int image_file(const struct image *im, const char *path)
{
	int fd;

	if (path)
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	else
		fd = memfd_create("image", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if (image_write(im, fd)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- Images in memory --------------------------------------------------------- */

struct image_map {
	/* Where the first segment and where code_begin are. */
	unsigned long	base;
	unsigned long	text;
	unsigned long	span;
};

/* Where a label of sframe_code.h is. */
static inline unsigned long
image_addr(const struct image_map *m, const char *label)
{
	return m->text + (label - code_begin);
}

static inline struct image_map
image_map_at(const struct image *im, unsigned long base)
{
	return (struct image_map) {
		.base = base,
		.text = base + im->seg[SEG_TEXT].vaddr - im->vaddr,
		.span = im->span,
	};
}

static inline unsigned long
image_seg_addr(const struct image *im, const struct image_map *m,
	       enum image_seg seg)
{
	return m->base + im->seg[seg].vaddr - im->vaddr;
}

/*
 * Map an image as the dynamic linker does, anywhere (addr 0) or in place of what
 * is there.  Returns 0 or -1.
 */
static inline int
image_map(struct image_map *m, const struct image *im, int fd,
	  unsigned long addr)
{
	unsigned int i;
	void *p;

	p = mmap((void *)addr, im->span, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | (addr ? MAP_FIXED : 0), -1, 0);
	if (p == MAP_FAILED)
		return -1;
	*m = image_map_at(im, (unsigned long)p);
	for (i = 0; i < SEG_NR; i++) {
		p = (void *)image_seg_addr(im, m, i);
		if (mmap(p, im->seg[i].len, im->seg[i].prot,
			 MAP_PRIVATE | MAP_FIXED, fd, im->seg[i].off) != p)
			return -1;
	}
	return 0;
}

static inline void image_unmap(struct image_map *m)
{
	if (m->base)
		munmap((void *)m->base, m->span);
	memset(m, 0, sizeof(*m));
}

#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_SFRAME_BUILD_H */
