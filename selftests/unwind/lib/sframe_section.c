// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections for the code of sframe_code.h, made when the test runs. This needs no
 * assembler or linker that knows SFrame, and can make sections that no tool writes.
 */
#include <string.h>

#include "../../kselftest.h"
#include "sframe_section.h"

#ifdef __x86_64__
/* The CFA from the stack pointer; with the frame pointer saved or not. */
#define SP(at, cfa)		{ at, SFRAME_FRE_CFA_SP, 1, { cfa } }
#define SP_FP(at, cfa)		{ at, SFRAME_FRE_CFA_SP, 2, { cfa, -16 } }
/* The CFA from the frame pointer. */
#define FP_FP(at, cfa)		{ at, 0, 2, { cfa, -16 } }
#define FLEX(at, n, ...)	{ at, 0, n, { __VA_ARGS__ } }

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

/*
 * Wrong rules: stacks show it if a lookup uses code_noreturn's return address itself.
 */
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

ROWS(code_slot) = {
	FLEX(code_slot, 2, FLEX_REG(DWARF_RSP), 8),
	FLEX(code_slot_1, 2, FLEX_REG(DWARF_RAX), 8),
	FLEX(code_slot_2, 3, FLEX_ADD_AT_REG(DWARF_RSP) | FLEX_INDEX(DWARF_R9), 40, 8),
	FLEX(code_slot_3, 3, FLEX_ADD_AT_REG(DWARF_RSP), 72, 8),
	FLEX(code_slot_4, 2, FLEX_REG(DWARF_RSP), 8),
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

const struct sframe_func sframe_funcs[] = {
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
	FUNC(code_slot, .flex = true, .add = true),
	FUNC(code_interrupt, .signal = true),
	FUNC(code_first),
	FUNC(code_leaf),
	FUNC(code_spin),
	FUNC(code_fault),
	FUNC(code_handler),
	/* No rows: the walk knows the layout of signal frames. */
	{ code_restore_marked, code_restore_marked_end, .signal = true },
	FUNC(code_restore_rules, .flex = true, .signal = true),
	FUNC(code_start),
};

const unsigned int nr_sframe_funcs = ARRAY_SIZE(sframe_funcs);

static bool sframe_is_outermost(const struct sframe_opts *o,
				const struct sframe_func *f)
{
	if (!o->outermost[0])
		return f->start == code_entry;
	return f->start == o->outermost[0] || f->start == o->outermost[1];
}

bool sframe_has(const struct sframe_opts *o,
		const struct sframe_func *f)
{
	if (f->start == o->without)
		return false;
	if (f->add && !o->add)
		return false;
	return o->version >= SFRAME_VERSION_3 || (!f->flex && !f->signal);
}

static void sframe_put(unsigned char **p, __u32 val, unsigned int width)
{
	memcpy(*p, &val, 1 << width);
	*p += 1 << width;
}

static bool sframe_fits(__s32 val, unsigned int width, bool sign)
{
	unsigned int bits = 8 << width;

	if (width == 2)
		return true;
	if (!sign)
		return val >= 0 && val < 1 << bits;
	return val >= -(1 << (bits - 1)) && val < 1 << (bits - 1);
}

static unsigned char *
sframe_put_fre(unsigned char *p, const struct sframe_opts *o,
	       const struct sframe_func *f, const struct sframe_row *row,
	       unsigned int addr_width)
{
	unsigned int i, width = o->word_width;
	unsigned int nwords = row->nwords;

	if (sframe_is_outermost(o, f))
		nwords = 0;
	/*
	 * Control words are unsigned, but the check for signed values suits them, too.
	 */
	for (i = 0; i < nwords; i++) {
		while (!sframe_fits(row->words[i], width, true))
			width++;
	}
	sframe_put(&p, row->at - f->start, addr_width);
	*p++ = row->base | FRE_WORDS(nwords) | FRE_SIZE(width);
	for (i = 0; i < nwords; i++)
		sframe_put(&p, row->words[i], width);
	return p;
}

/*
 * Write the section for code whose code_begin is at text when the section is
 * at addr.  Returns the size; buf has room for SFRAME_MAX_SIZE.
 */
size_t sframe_build(unsigned char *buf, const struct sframe_opts *o, __u64 addr,
		    __u64 text)
{
	struct sframe_header *h = (void *)buf;
	unsigned char *fdes, *fres, *p;
	unsigned int i, j, n = 0;
	size_t fde_size;

	memset(buf, 0, SFRAME_MAX_SIZE);
	for (i = 0; i < ARRAY_SIZE(sframe_funcs); i++)
		n += sframe_has(o, &sframe_funcs[i]);
	fde_size = o->version >= SFRAME_VERSION_3 ? sizeof(struct sframe_fde_v3) :
					     sizeof(struct sframe_fde_v2);
	*h = (struct sframe_header) {
		.magic		= SFRAME_MAGIC,
		.version	= o->version,
		.flags		= SFRAME_FLAG_SORTED,
		.abi		= SFRAME_ABI_AMD64,
		.fixed_ra	= SFRAME_AMD64_RA_OFF,
		.aux_len	= o->aux_len,
		.num_fdes	= n,
		.fre_off		= n * fde_size,
	};
	if (o->version >= SFRAME_VERSION_3 || o->pcrel)
		h->flags |= SFRAME_FLAG_PCREL;
	if (o->add && !o->add_unsaid)
		h->flags |= SFRAME_FLAG_ADD;
	memset(buf + sizeof(*h), 0xff, o->aux_len);
	fdes = buf + sizeof(*h) + o->aux_len;
	fres = fdes + h->fre_off;
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
		if (o->version >= SFRAME_VERSION_3) {
			struct sframe_fde_v3 *fde = (void *)fdes;
			struct sframe_attr_v3 *attr = (void *)p;

			fde->start = start - (addr + (fdes - buf));
			fde->size = f->end - f->start;
			fde->fre_off = p - fres;
			attr->num_fres = f->nr_rows;
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
			fde->num_fres = f->nr_rows;
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

/*
 * Corrupt the FDE of a function. The section must have no auxiliary header, and the
 * function must come before those that version 2 cannot describe.
 */
void sframe_corrupt(unsigned char *sframe, const char *func)
{
	struct sframe_header *h = (void *)sframe;
	struct sframe_fde_v2 *v2 = (void *)(h + 1);
	struct sframe_fde_v3 *v3 = (void *)(h + 1);
	unsigned int i = 0;

	while (sframe_funcs[i].start != func)
		i++;
	if (h->version >= SFRAME_VERSION_3)
		v3[i].fre_off = -1;
	else
		v2[i].fre_off = -1;
}
#endif /* __x86_64__ */
