// SPDX-License-Identifier: GPL-2.0
/*
 * Effects of x86-64 instructions on general registers and on the stack
 *
 * Unknown opcodes count as bad. Of known ones, each register that may change and whose new value
 * is of no interest is in the clobber mask.
 */
#include <string.h>

#include "util/sframe-insn-decoder.h"

/*
 * EVEX scales a displacement of one byte by the size of its memory operand. That is
 * known for stores only. Other accesses matter only as references to data.
 */
static s32 scaled_disp(const struct decoder *d, s32 disp)
{
	if (!d->op->store)
		return disp;
	/* Compressing stores count in elements. */
	if (d->map == 2 && d->code == 0x63)
		return disp * (d->w ? 2 : 1);
	if (d->map == 2 && (d->code == 0x8a || d->code == 0x8b))
		return disp * (d->w ? 8 : 4);
	return disp * d->op->store;
}

static void memory_operand(struct decoder *d, int rex_x, int rex_b, u64 next)
{
	const struct insn *insn = d->insn;
	struct sframe_op *op = d->op;
	int mod = X86_MODRM_MOD(insn->modrm.bytes[0]), base = d->rm, i;

	op->memory = true;
	op->disp = (s32)insn->displacement.value;
	if (insn->sib.nbytes) {
		int index = X86_SIB_INDEX(insn->sib.bytes[0]) | rex_x << 3;

		base = X86_SIB_BASE(insn->sib.bytes[0]) | rex_b << 3;
		/* A vector of indices may have number 4. */
		if (index != RSP || (d->vex && d->map == 2))
			op->index = index;
		if ((base & 7) == 5 && !mod)
			base = BASE_OPAQUE;
	} else if ((base & 7) == 5 && !mod) {
		base = BASE_RIP;
		op->imm = next + op->disp;
	}
	for (i = 0; i < 4; i++) {
		u8 prefix = insn->prefixes.bytes[i];

		if (prefix == 0x64 || prefix == 0x65 || prefix == 0x67)
			base = BASE_OPAQUE;
	}
	op->base = base;
}

static bool vex_fields(struct decoder *d, int *r, int *x, int *b)
{
	const u8 *p = d->insn->vex_prefix.bytes;
	int n = d->insn->vex_prefix.nbytes, pp = insn_vex_p_bits((struct insn *)d->insn);
	int length;

	d->vex = true;
	d->rex = true;
	d->evex = n == 4;
	d->map = insn_vex_m_bits((struct insn *)d->insn);
	d->w = insn_vex_w_bit((struct insn *)d->insn);
	d->p66 = pp == 1;
	d->pf3 = pp == 2;
	d->pf2 = pp == 3;
	*r = !(p[1] & 0x80);
	*x = n > 2 && !(p[1] & 0x40);
	*b = n > 2 && !(p[1] & 0x20);
	d->vvvv = ~(p[2] >> 3) & 15;
	length = d->evex ? p[3] >> 5 & 3 : p[2] >> 2 & 1;
	d->vector = d->evex && (p[3] & 0x10) ? 64 : 16 << (length > 2 ? 2 : length);
	/* These bits are for 32 general registers (APX). */
	return !d->evex || (!(p[1] & 8) && (p[2] & 4));
}

/* AMD's instructions with four operands, which the kernel's decoder does not know either */
static bool is_fma4(const u8 *bytes, size_t size)
{
	if (size < 5 || bytes[0] != 0xc4 || (bytes[1] & 0x1f) != 3 || (bytes[2] & 3) != 1)
		return false;
	return (bytes[3] >= 0x5c && bytes[3] <= 0x5f) || (bytes[3] & 0xe8) == 0x68;
}

/*
 * AMD's XOP instructions, which the kernel's decoder does not know, are laid out like instructions
 * with a VEX prefix of three bytes. Decode one with the same operands instead.
 */
static bool xop(struct sframe_op *op, u64 addr, const u8 *bytes, size_t size)
{
	u8 copy[MAX_INSN_SIZE] = {}, code = bytes[3];
	int map = bytes[1] & 0x1f;
	struct sframe_op like;

	if (map > 9)
		return false;
	memcpy(copy, bytes, size < sizeof(copy) ? size : sizeof(copy));
	copy[0] = 0xc4;
	/* vpalignr and vpshufb */
	copy[1] = (bytes[1] & 0xe0) | (map == 8 ? 3 : 2);
	copy[2] = (bytes[2] & 0xfc) | 1;
	copy[3] = map == 8 ? 0x0f : 0x00;
	if (!sframe_op__decode(&like, addr, copy, size))
		return false;
	*op = like;
	/* Two groups work on general registers; VEX.vvvv is the destination. */
	if (map == 9 && (code == 0x01 || code == 0x02))
		op->clobber |= BIT_OF(~(bytes[2] >> 3) & 15);
	else if (code < 0x80)
		op->kind = OP_BAD;
	return op->kind != OP_BAD;
}

/* Two-byte opcodes that need no ModRM byte */
static bool has_no_modrm(const struct decoder *d)
{
	if (d->map != 1)
		return false;
	if (d->vex)
		return d->code == 0x77;

	switch (d->code) {
	case 0x05: case 0x0b: case 0x0e: case 0x31: case 0x33: case 0x77: case 0x80 ... 0x8f:
	case 0xa0 ... 0xa2: case 0xa8: case 0xa9: case 0xc8 ... 0xcf: case 0xff:
		return true;
	default:
		return false;
	}
}

/**
 * sframe_op__decode - Decode one instruction
 * @op:		Its effects
 * @addr:	Its address
 * @bytes:	Its bytes and those after them
 * @size:	Number of bytes
 *
 * Return: False if the instruction is not understood.
 */
bool sframe_op__decode(struct sframe_op *op, u64 addr, const u8 *bytes, size_t size)
{
	struct decoder d = { .op = op };
	int r = 0, x = 0, b = 0, i;
	u8 copy[MAX_INSN_SIZE] = {};
	struct insn insn;
	u64 next;
	bool ok;

	memset(op, 0, sizeof(*op));
	op->reg = NO_REG;
	op->src = NO_REG;
	op->base = NO_REG;
	op->index = NO_REG;
	op->kind = OP_BAD;
	op->len = 1;
	if (size > 4 && bytes[0] == 0x8f && (bytes[1] & 0x1f) >= 8)
		return xop(op, addr, bytes, size);
	if (is_fma4(bytes, size)) {
		memcpy(copy, bytes, size < sizeof(copy) ? size : sizeof(copy));
		/* vpalignr */
		copy[3] = 0x0f;
		bytes = copy;
	}
	if (insn_decode(&insn, bytes, size < MAX_INSN_SIZE ? size : MAX_INSN_SIZE, INSN_MODE_64) ||
	    insn.emulate_prefix_size || insn_is_rex2(&insn))
		return false;

	d.insn = &insn;
	op->len = insn.length;
	next = addr + insn.length;
	for (i = 0; i < 4; i++) {
		d.p66 |= insn.prefixes.bytes[i] == 0x66;
		d.pf2 |= insn.prefixes.bytes[i] == 0xf2;
		d.pf3 |= insn.prefixes.bytes[i] == 0xf3;
	}
	d.code = insn.opcode.bytes[insn.opcode.nbytes - 1];
	if (insn_is_avx(&insn)) {
		if (!vex_fields(&d, &r, &x, &b))
			return false;
	} else {
		d.rex = insn.rex_prefix.nbytes;
		d.w = insn.rex_prefix.value & 8;
		r = insn.rex_prefix.value >> 2 & 1;
		x = insn.rex_prefix.value >> 1 & 1;
		b = insn.rex_prefix.value & 1;
		d.map = insn.opcode.nbytes == 1 ? 0 : insn.opcode.nbytes == 2 ? 1 :
			insn.opcode.bytes[1] == 0x38 ? 2 : 3;
	}
	/* The kernel's table gives no attribute to opcodes that it does not know. */
	if ((d.vex || d.map) && !insn.modrm.nbytes && !has_no_modrm(&d))
		return false;
	d.size = d.w ? 8 : d.p66 ? 2 : 4;
	if (insn.modrm.nbytes) {
		d.reg = X86_MODRM_REG(insn.modrm.bytes[0]) | r << 3;
		d.rm = X86_MODRM_RM(insn.modrm.bytes[0]) | b << 3;
		d.direct = X86_MODRM_MOD(insn.modrm.bytes[0]) == 3;
		if (!d.direct)
			memory_operand(&d, x, b, next);
	}

	op->kind = OP_PLAIN;
	if (d.vex)
		ok = sframe_decoder__vex(&d);
	else if (!d.map)
		ok = sframe_decoder__one_byte(&d, next);
	else if (d.map == 1)
		ok = sframe_decoder__two_byte(&d, next);
	else
		ok = sframe_decoder__three_byte(&d);
	if (!ok || op->kind == OP_BAD) {
		op->kind = OP_BAD;
		return false;
	}
	if (d.evex && insn.modrm.nbytes && X86_MODRM_MOD(insn.modrm.bytes[0]) == 1)
		op->disp = scaled_disp(&d, op->disp);
	return true;
}
