/* SPDX-License-Identifier: GPL-2.0 */
/* Definitions for the files that decode instructions */
#ifndef __PERF_SFRAME_INSN_DECODER_H
#define __PERF_SFRAME_INSN_DECODER_H

#include <linux/types.h>
#include "../../../arch/x86/include/asm/insn.h"

#include "util/sframe-insn-internal.h"

/* Properties of an instruction that the opcode tables use */
struct decoder {
	struct sframe_op	*op;
	const struct insn	*insn;
	u8			code;	/* last byte of the opcode */
	u8			map;	/* 0: one byte, 1: 0f, 2: 0f 38, 3: 0f 3a, 5, 6: EVEX */
	u8			vector;	/* size of vectors in bytes */
	u8			size;	/* operand size in bytes */
	u8			reg;	/* ModRM.reg with its extension */
	u8			rm;
	u8			vvvv;
	bool			direct;	/* ModRM.mod == 3 */
	bool			rex;
	bool			w;
	bool			p66, pf2, pf3;
	bool			vex, evex;
};

static inline bool bad(struct decoder *d)
{
	d->op->kind = OP_BAD;
	return false;
}

static inline bool clobber(struct decoder *d, u32 mask)
{
	d->op->clobber |= mask;
	return true;
}

/* Without REX, numbers 4 to 7 of byte registers mean ah, ch, dh and bh. */
static inline int byte_reg(const struct decoder *d, int reg)
{
	return !d->rex && reg >= 4 && reg < 8 ? reg - 4 : reg;
}

static inline bool write_reg(struct decoder *d, int size)
{
	return clobber(d, BIT_OF(size == 1 ? byte_reg(d, d->reg) : d->reg));
}

/* Write @size bytes to the operand that ModRM.rm names. */
static inline bool write_rm(struct decoder *d, int size)
{
	if (d->direct)
		return clobber(d, BIT_OF(size == 1 ? byte_reg(d, d->rm) : d->rm));
	d->op->store = size;
	return true;
}

/* The same, but a register would be a vector register. */
static inline bool write_vector_rm(struct decoder *d, int size)
{
	if (!d->direct)
		d->op->store = size;
	return true;
}

static inline bool odd(struct decoder *d, u32 mask)
{
	d->op->odd = true;
	return clobber(d, mask);
}

static inline bool set_kind(struct decoder *d, int kind, int reg, int src)
{
	d->op->kind = kind;
	d->op->reg = reg;
	d->op->src = src;
	return true;
}

/* A load that may be from a jump table; op->imm keeps the target of an operand relative to rip. */
static inline bool table(struct decoder *d, enum sframe_table type)
{
	if (d->op->index == NO_REG)
		return write_reg(d, 8);
	d->op->imm = type;
	return set_kind(d, OP_TABLE, d->reg, NO_REG);
}

bool sframe_decoder__one_byte(struct decoder *d, u64 next);
bool sframe_decoder__two_byte(struct decoder *d, u64 next);
bool sframe_decoder__three_byte(struct decoder *d);
bool sframe_decoder__vex(struct decoder *d);

#endif /* __PERF_SFRAME_INSN_DECODER_H */
