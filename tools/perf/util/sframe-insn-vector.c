// SPDX-License-Identifier: GPL-2.0
/* Effects of instructions with longer opcodes or VEX or EVEX prefixes; most are for vectors */
#include "util/sframe-insn-decoder.h"

bool sframe_decoder__three_byte(struct decoder *d)
{
	if (d->map == 3) {
		switch (d->code) {
		case 0x08 ... 0x0f: case 0x20 ... 0x22: case 0x40 ... 0x42: case 0x44:
		case 0x60: case 0x62: case 0xcc: case 0xce: case 0xcf: case 0xdf:
			return true;
		case 0x14: case 0x15:
			return write_rm(d, d->direct ? 8 : d->code - 0x13);
		case 0x16: case 0x17:
			return write_rm(d, d->w ? 8 : 4);
		case 0x61: case 0x63:
			return clobber(d, BIT_OF(RCX));
		default:
			return bad(d);
		}
	}
	switch (d->code) {
	case 0x00 ... 0x41: case 0xc8 ... 0xcf: case 0xdb ... 0xdf:
		return true;
	case 0xf0:
		return write_reg(d, d->size);
	case 0xf1:
		return d->pf2 ? write_reg(d, 8) : write_rm(d, d->size);
	case 0xf6:
		return d->p66 || d->pf3 ? write_reg(d, d->size) : bad(d);
	case 0xf9:
		return write_rm(d, d->size);
	default:
		return bad(d);
	}
}

/* Instructions with a VEX or EVEX prefix */
static bool vex_map1(struct decoder *d)
{
	bool scalar = d->pf2 || d->pf3;

	switch (d->code) {
	case 0x11:
		return write_vector_rm(d, scalar ? (d->pf2 ? 8 : 4) : d->vector);
	case 0x13: case 0x17: case 0xd6:
		return write_vector_rm(d, 8);
	case 0x29: case 0x2b: case 0x7f: case 0xe7:
		return write_vector_rm(d, d->vector);
	case 0x2c: case 0x2d: case 0x78: case 0x79:
		return scalar ? write_reg(d, 8) : (d->code < 0x70 ? bad(d) : true);
	case 0x50: case 0xc5: case 0xd7:
		return write_reg(d, 8);
	case 0x7e:
		return d->pf3 || write_rm(d, d->w ? 8 : 4);
	case 0x91:
		return write_vector_rm(d, 8);
	case 0x93:
		return write_reg(d, 8);
	case 0xae:
		if (d->direct)
			return bad(d);
		d->op->store = (d->reg & 7) == 3 ? 4 : 0;
		return true;
	default:
		return true;
	}
}

static bool vex_map2(struct decoder *d)
{
	static const u8 part[6] = { 2, 4, 8, 2, 4, 2 };

	switch (d->code) {
	case 0x10 ... 0x15: case 0x20 ... 0x25: case 0x30 ... 0x35:
		return !(d->evex && d->pf3) || write_vector_rm(d, d->vector / part[d->code & 7]);
	case 0x2e: case 0x2f: case 0x8e: case 0x63: case 0x8a: case 0x8b:
		return write_vector_rm(d, d->vector);
	case 0x49: case 0x4b: case 0xd8:
		return odd(d, 0) && write_vector_rm(d, 64);
	case 0xe0 ... 0xef:
		return write_reg(d, 8) && write_rm(d, 8);
	case 0xf2: case 0xf5: case 0xf7:
		return write_reg(d, 8);
	case 0xf3:
		return clobber(d, BIT_OF(d->vvvv));
	case 0xf6:
		return write_reg(d, 8) && clobber(d, BIT_OF(d->vvvv));
	case 0xf0: case 0xf1: case 0xf4: case 0xf8 ... 0xff:
		return bad(d);
	default:
		return true;
	}
}

bool sframe_decoder__vex(struct decoder *d)
{
	switch (d->map) {
	case 1:
		return vex_map1(d);
	case 2:
		return vex_map2(d);
	case 3:
		switch (d->code) {
		case 0x14: case 0x15:
			return write_rm(d, d->direct ? 8 : d->code - 0x13);
		case 0x16: case 0x17:
			return write_rm(d, d->w ? 8 : 4);
		case 0x19: case 0x39:
			return write_vector_rm(d, 16);
		case 0x1b: case 0x3b:
			return write_vector_rm(d, 32);
		case 0x1d:
			return write_vector_rm(d, d->vector / 2);
		case 0x61: case 0x63:
			return clobber(d, BIT_OF(RCX));
		case 0xf0:
			return d->pf2 ? write_reg(d, 8) : bad(d);
		default:
			return true;
		}
	case 5:
		if (d->code == 0x11 || d->code == 0x7e)
			return d->code == 0x11 ? write_vector_rm(d, 2) : write_rm(d, 2);
		if (d->code == 0x2c || d->code == 0x2d || d->code == 0x78 || d->code == 0x79)
			return !d->pf3 || write_reg(d, 8);
		return true;
	case 6:
		return true;
	default:
		return bad(d);
	}
}
