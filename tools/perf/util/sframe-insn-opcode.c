// SPDX-License-Identifier: GPL-2.0
/* Effects of instructions with opcodes of one byte and with the first byte 0f */
#include <linux/kernel.h>

#include "util/sframe-insn-decoder.h"

static bool jump(struct decoder *d, int kind, u64 next)
{
	/* CPUs disagree on the size of these. */
	if (d->p66 && !d->w)
		return bad(d);
	d->op->kind = kind;
	d->op->imm = next + d->insn->immediate.value;
	return true;
}

/* The eight arithmetic operations; @sub is 7 for a comparison. */
static bool arithmetic_imm(struct decoder *d, int sub, int size, bool wide)
{
	s64 imm = (s32)d->insn->immediate.value;

	if (sub == 7)
		return true;
	if (!wide || !d->direct || d->size != 8)
		return write_rm(d, size);
	switch (sub) {
	case 0:
		d->op->imm = imm;
		return set_kind(d, OP_ADD_IMM, d->rm, NO_REG);
	case 5:
		d->op->imm = -imm;
		return set_kind(d, OP_ADD_IMM, d->rm, NO_REG);
	case 4:
		d->op->imm = imm;
		return set_kind(d, OP_AND_IMM, d->rm, NO_REG);
	default:
		return write_rm(d, size);
	}
}

static bool arithmetic(struct decoder *d)
{
	int sub = d->code >> 3, form = d->code & 7;
	bool add = sub == 0 && d->size == 8 && d->direct;

	switch (form) {
	case 0:
		return sub == 7 || write_rm(d, 1);
	case 1:
		if (add)
			return set_kind(d, OP_ADD_REG, d->rm, d->reg);
		return sub == 7 || write_rm(d, d->size);
	case 2:
		return sub == 7 || write_reg(d, 1);
	case 3:
		if (add)
			return set_kind(d, OP_ADD_REG, d->reg, d->rm);
		return sub == 7 || write_reg(d, d->size);
	case 4:
		return sub == 7 || clobber(d, BIT_OF(RAX));
	default:
		d->rm = RAX;
		d->direct = true;
		return arithmetic_imm(d, sub, d->size, true);
	}
}

static bool push(struct decoder *d, int kind, int reg)
{
	if (d->p66 && !d->w)
		return bad(d);
	return set_kind(d, kind, reg, reg);
}

static bool x87(struct decoder *d)
{
	/* Bytes that each operation stores; rows are opcodes d8 to df */
	static const u8 sizes[8][8] = {
		[1] = { 0, 0, 4, 4, 0, 0, 28, 2 },
		[3] = { 0, 4, 4, 4, 0, 0, 0, 10 },
		[5] = { 0, 8, 8, 8, 0, 0, 108, 2 },
		[7] = { 0, 2, 2, 2, 0, 0, 10, 8 },
	};

	if (d->direct)
		return d->code == 0xdf && d->insn->modrm.bytes[0] == 0xe0 ?
		       clobber(d, BIT_OF(RAX)) : true;
	d->op->store = sizes[d->code & 7][d->reg & 7];
	return true;
}

static bool group_ff(struct decoder *d)
{
	switch (d->reg & 7) {
	case 0:
	case 1:
		if (!d->direct || d->size != 8)
			return write_rm(d, d->size);
		d->op->imm = d->reg & 1 ? -1 : 1;
		return set_kind(d, OP_ADD_IMM, d->rm, NO_REG);
	case 2:
		return d->p66 && !d->w ? bad(d) :
		       set_kind(d, OP_CALL_ANY, NO_REG, d->direct ? d->rm : NO_REG);
	case 4:
		return d->p66 && !d->w ? bad(d) :
		       set_kind(d, OP_JMP_ANY, NO_REG, d->direct ? d->rm : NO_REG);
	case 6:
		return push(d, d->direct ? OP_PUSH : OP_PUSH_MEM, d->direct ? d->rm : NO_REG);
	default:
		return bad(d);
	}
}

static bool one_byte_high(struct decoder *d, u64 next)
{
	struct sframe_op *op = d->op;

	switch (d->code) {
	case 0xc0: case 0xd0: case 0xd2:
		return write_rm(d, 1);
	case 0xc1: case 0xd1: case 0xd3:
		return write_rm(d, d->size);
	case 0xc2: case 0xc3:
		if (d->p66 || (d->code == 0xc2 && d->insn->immediate.value))
			return bad(d);
		return set_kind(d, OP_RET, NO_REG, NO_REG);
	case 0xc6: case 0xc7:
		/* xabort and xbegin */
		if (d->insn->modrm.bytes[0] == 0xf8) {
			if (d->code == 0xc6)
				return true;
			clobber(d, BIT_OF(RAX));
			return jump(d, OP_JCC, next);
		}
		if (d->reg & 7)
			return bad(d);
		return write_rm(d, d->code & 1 ? d->size : 1);
	case 0xc8:
		if (d->p66 || (d->insn->immediate2.value & 0x1f))
			return bad(d);
		op->imm = (u16)d->insn->immediate.value;
		return set_kind(d, OP_ENTER, NO_REG, NO_REG);
	case 0xc9:
		return push(d, OP_LEAVE, NO_REG);
	case 0xcc: case 0xf4:
		return set_kind(d, OP_STOP, NO_REG, NO_REG);
	case 0xcd:
		return odd(d, ~ABI_SAVED) && ((u8)d->insn->immediate.value == 0x80 || bad(d));
	case 0xd7:
		return clobber(d, BIT_OF(RAX));
	case 0xd8 ... 0xdf:
		return x87(d);
	case 0xe0 ... 0xe2:
		clobber(d, BIT_OF(RCX));
		return jump(d, OP_JCC, next);
	case 0xe3:
		return jump(d, OP_JCC, next);
	case 0xe4: case 0xe5: case 0xec: case 0xed:
		return odd(d, BIT_OF(RAX));
	case 0xe6: case 0xe7: case 0xee: case 0xef:
		return odd(d, 0);
	case 0xe8:
		return jump(d, OP_CALL, next);
	case 0xe9: case 0xeb:
		return jump(d, OP_JMP, next);
	case 0xf5: case 0xf8: case 0xf9: case 0xfc: case 0xfd:
		return true;
	case 0xfa: case 0xfb:
		return odd(d, 0);
	case 0xf6: case 0xf7:
		if ((d->reg & 7) < 2)
			return true;
		if ((d->reg & 7) < 4)
			return write_rm(d, d->code & 1 ? d->size : 1);
		return clobber(d, BIT_OF(RAX) | BIT_OF(RDX));
	case 0xfe:
		return (d->reg & 7) < 2 ? write_rm(d, 1) : bad(d);
	case 0xff:
		return group_ff(d);
	default:
		return bad(d);
	}
}

bool sframe_decoder__one_byte(struct decoder *d, u64 next)
{
	int low = (d->code & 7) | (d->insn->rex_prefix.value & 1) << 3;
	struct sframe_op *op = d->op;
	bool rep = d->pf2 || d->pf3;

	switch (d->code) {
	case 0x00 ... 0x3f:
		if ((d->code & 7) > 5)
			return bad(d);
		return arithmetic(d);
	case 0x50 ... 0x57:
		return push(d, OP_PUSH, low);
	case 0x58 ... 0x5f:
		return push(d, OP_POP, low);
	case 0x63:
		if (d->size != 8 || d->direct)
			return write_reg(d, d->size);
		return table(d, TABLE_S32);
	case 0x68: case 0x6a:
		return push(d, OP_PUSH_ANY, NO_REG);
	case 0x69: case 0x6b:
		return write_reg(d, d->size);
	case 0x6c ... 0x6f:
		return odd(d, BIT_OF(RCX) | BIT_OF(RSI) | BIT_OF(RDI));
	case 0x70 ... 0x7f:
		return jump(d, OP_JCC, next);
	case 0x80: case 0x81: case 0x83:
		return arithmetic_imm(d, d->reg & 7, d->code == 0x80 ? 1 : d->size,
				      d->code != 0x80);
	case 0x84: case 0x85:
		return true;
	case 0x86:
		return write_reg(d, 1) && write_rm(d, 1);
	case 0x87:
		if (d->direct && d->size == 8)
			return set_kind(d, OP_XCHG, d->rm, d->reg);
		return write_reg(d, d->size) && write_rm(d, d->size);
	case 0x88:
		return write_rm(d, 1);
	case 0x89:
		if (d->size != 8)
			return write_rm(d, d->size);
		op->store = d->direct ? 0 : 8;
		return set_kind(d, d->direct ? OP_MOV : OP_STORE, d->rm, d->reg);
	case 0x8a:
		return write_reg(d, 1);
	case 0x8b:
		if (d->size != 8)
			return write_reg(d, d->size);
		return set_kind(d, d->direct ? OP_MOV : OP_LOAD, d->reg, d->rm);
	case 0x8c:
		return odd(d, 0) && write_rm(d, d->direct ? d->size : 2);
	case 0x8d:
		if (d->direct)
			return bad(d);
		op->memory = false;
		if (d->size != 8)
			return write_reg(d, d->size);
		return set_kind(d, OP_LEA, d->reg, NO_REG);
	case 0x8e:
		return odd(d, 0);
	case 0x8f:
		if (d->reg & 7)
			return bad(d);
		op->store = d->direct ? 0 : 8;
		return push(d, d->direct ? OP_POP : OP_POP_ANY, d->direct ? d->rm : NO_REG);
	case 0x90 ... 0x97:
		if (low == RAX)
			return set_kind(d, OP_NOP, NO_REG, NO_REG);
		if (d->size == 8)
			return set_kind(d, OP_XCHG, low, RAX);
		return clobber(d, BIT_OF(low) | BIT_OF(RAX));
	case 0x98: case 0x9f:
		return clobber(d, BIT_OF(RAX));
	case 0x99:
		return clobber(d, BIT_OF(RDX));
	case 0x9b: case 0x9e: case 0xa8: case 0xa9:
		return true;
	case 0x9c:
		return push(d, OP_PUSH_ANY, NO_REG);
	case 0x9d:
		return push(d, OP_POP_ANY, NO_REG);
	case 0xa0: case 0xa1:
		return odd(d, BIT_OF(RAX));
	case 0xa2: case 0xa3:
		return odd(d, 0);
	case 0xa4 ... 0xa7:
		return clobber(d, BIT_OF(RSI) | BIT_OF(RDI) | (rep ? BIT_OF(RCX) : 0));
	case 0xaa: case 0xab: case 0xae: case 0xaf:
		return clobber(d, BIT_OF(RDI) | (rep ? BIT_OF(RCX) : 0));
	case 0xac: case 0xad:
		return clobber(d, BIT_OF(RAX) | BIT_OF(RSI) | (rep ? BIT_OF(RCX) : 0));
	case 0xb0 ... 0xb7:
		return clobber(d, BIT_OF(byte_reg(d, low)));
	case 0xb8 ... 0xbf:
		return clobber(d, BIT_OF(low));
	case 0xc0 ... 0xff:
		return one_byte_high(d, next);
	default:
		return bad(d);
	}
}

static bool group_0f01(struct decoder *d)
{
	switch (d->insn->modrm.bytes[0]) {
	case 0xd0:	/* xgetbv */
	case 0xee:	/* rdpkru */
		return clobber(d, BIT_OF(RAX) | BIT_OF(RDX));
	case 0xf9:	/* rdtscp */
		return clobber(d, BIT_OF(RAX) | BIT_OF(RCX) | BIT_OF(RDX));
	case 0xd5:	/* xend */
	case 0xd6:	/* xtest */
	case 0xef:	/* wrpkru */
		return true;
	default:
		return bad(d);
	}
}

static bool group_0fae(struct decoder *d)
{
	int sub = d->reg & 7;

	if (d->direct)
		return d->pf3 && sub < 2 ? write_rm(d, 8) : true;
	switch (sub) {
	case 3:
		d->op->store = 4;
		break;
	case 0: case 4: case 6:
		d->op->store = d->p66 ? 0 : 576;
		break;
	default:
		break;
	}
	return true;
}

static bool group_0fc7(struct decoder *d)
{
	int sub = d->reg & 7;

	if (d->direct)
		return sub >= 6 ? write_rm(d, 8) : bad(d);
	if (sub == 1) {
		d->op->store = 16;
		return clobber(d, BIT_OF(RAX) | BIT_OF(RDX));
	}
	d->op->store = sub >= 4 && sub <= 5 ? 576 : 0;
	return sub >= 3 && sub <= 5 ? true : bad(d);
}

bool sframe_decoder__two_byte(struct decoder *d, u64 next)
{
	int low = (d->code & 7) | (d->insn->rex_prefix.value & 1) << 3;
	bool scalar = d->pf2 || d->pf3;

	switch (d->code) {
	case 0x01:
		return group_0f01(d);
	case 0x05:
		return clobber(d, BIT_OF(RAX) | BIT_OF(RCX) | BIT_OF(R11));
	case 0x0b: case 0xb9: case 0xff:
		return set_kind(d, OP_STOP, NO_REG, NO_REG);
	case 0x0d: case 0x0e: case 0x18:
		d->op->memory = false;
		return true;
	case 0x1e:
		if (d->pf3 && d->direct && (d->reg & 7) == 1)
			return write_rm(d, 8);
		fallthrough;
	case 0x19 ... 0x1d: case 0x1f:
		d->op->memory = false;
		return set_kind(d, OP_NOP, NO_REG, NO_REG);
	case 0x11: case 0x2b:
		return write_vector_rm(d, d->pf2 ? 8 : d->pf3 ? 4 : 16);
	case 0x13: case 0x17: case 0xd6:
		return write_vector_rm(d, 8);
	case 0x29:
		return write_vector_rm(d, 16);
	case 0x7f:
		return write_vector_rm(d, d->p66 || d->pf3 ? 16 : 8);
	case 0xe7:
		return write_vector_rm(d, d->p66 ? 16 : 8);
	case 0x2c: case 0x2d:
		return !scalar || write_reg(d, 8);
	case 0x31: case 0x33:
		return clobber(d, BIT_OF(RAX) | BIT_OF(RDX));
	case 0x40 ... 0x4f:
		return write_reg(d, d->size);
	case 0x50: case 0xc5: case 0xd7:
		return write_reg(d, 8);
	case 0x7e:
		return d->pf3 || write_rm(d, d->w ? 8 : 4);
	case 0x80 ... 0x8f:
		return jump(d, OP_JCC, next);
	case 0x90 ... 0x9f:
		return write_rm(d, 1);
	case 0xa0: case 0xa8:
		return odd(d, 0) && push(d, OP_PUSH_ANY, NO_REG);
	case 0xa1: case 0xa9:
		return odd(d, 0) && push(d, OP_POP_ANY, NO_REG);
	case 0xa2:
		return clobber(d, BIT_OF(RAX) | BIT_OF(RBX) | BIT_OF(RCX) | BIT_OF(RDX));
	case 0xa3:
		return true;
	case 0xa4: case 0xa5: case 0xab: case 0xac: case 0xad: case 0xb3: case 0xbb:
		return write_rm(d, d->size);
	case 0xae:
		return group_0fae(d);
	case 0xb7: case 0xbf:
		if (d->direct || d->size < (d->code == 0xb7 ? 4 : 8))
			return write_reg(d, d->size);
		return table(d, d->code == 0xb7 ? TABLE_U16 : TABLE_S16);
	case 0xaf: case 0xb6: case 0xbc ... 0xbe:
		return write_reg(d, d->size);
	case 0xb0: case 0xb1:
		return clobber(d, BIT_OF(RAX)) && write_rm(d, d->code & 1 ? d->size : 1);
	case 0xb8:
		return d->pf3 ? write_reg(d, d->size) : bad(d);
	case 0xba:
		if ((d->reg & 7) < 4)
			return bad(d);
		return (d->reg & 7) == 4 || write_rm(d, d->size);
	case 0xc0: case 0xc1:
		return write_reg(d, d->code & 1 ? d->size : 1) &&
		       write_rm(d, d->code & 1 ? d->size : 1);
	case 0xc3:
		return d->direct ? bad(d) : write_rm(d, d->size);
	case 0xc7:
		return group_0fc7(d);
	case 0xc8 ... 0xcf:
		return clobber(d, BIT_OF(low));
	case 0x0f ... 0x10: case 0x12: case 0x14 ... 0x16: case 0x28: case 0x2a:
	case 0x2e: case 0x2f: case 0x51 ... 0x77: case 0x7c: case 0x7d:
	case 0xc2: case 0xc4: case 0xc6: case 0xd0 ... 0xd5:
	case 0xd8 ... 0xe6: case 0xe8 ... 0xfe:
		return true;
	default:
		return bad(d);
	}
}
