// SPDX-License-Identifier: GPL-2.0
/* Translates expressions of CFI into the few forms that the SFrame format has */
#include <dwarf.h>
#include <linux/kernel.h>
#include <linux/types.h>

#include "util/sframe.h"
#include "util/sframe-expr.h"

/*
 * The values on the stack of an expression. A value is a number, or the sum of a
 * number and a register or the CFA, or the value in memory at such a sum, plus another
 * number. A register may be an index of words: 8 times its value is added to such a sum.
 */
#define SFRAME_STACK_MAX	4

struct sframe_value {
	bool			is_number;
	bool			is_index;
	u64			number;
	struct sframe_loc	loc;
};

static bool sframe_loc__add(struct sframe_loc *loc, u64 number)
{
	s32 *to = loc->deref ? &loc->add : &loc->off;
	s64 sum;

	if (__builtin_add_overflow((s64)*to, (s64)number, &sum) || sum != (s32)sum)
		return false;

	*to = sum;
	return true;
}

static bool sframe_value__reg(struct sframe_value *value, u64 reg, u64 off)
{
	if (reg >= SFRAME_AMD64_REGS || (s64)off != (s32)off)
		return false;

	*value = (struct sframe_value) {
		.loc = { .base = SFRAME_BASE_REG, .reg = reg, .off = off, },
	};
	return true;
}

/* Does @loc say just what is in a register? */
static bool sframe_loc__is_reg(const struct sframe_loc *loc)
{
	return loc->base == SFRAME_BASE_REG && !loc->deref && !loc->off && !loc->index;
}

/* The registers that are indices are multiplied by 8, the size of a word. */
static bool sframe_value__scale(struct sframe_value *value, const struct sframe_value *by,
				u64 scale)
{
	if (value->is_number || value->is_index || !sframe_loc__is_reg(&value->loc) ||
	    !by->is_number || by->number != scale)
		return false;

	value->is_index = true;
	return true;
}

/* Pop the two topmost values, and push their sum. */
static bool sframe_values__add(struct sframe_value *low, const struct sframe_value *high,
			       bool minus)
{
	struct sframe_value sum = *low;
	const struct sframe_value *other = high;

	/* The sum of a number or an index and something else is this thing, changed. */
	if (!minus && (low->is_number || low->is_index)) {
		sum = *high;
		other = low;
	}
	if (sum.is_number || sum.is_index)
		return false;

	if (other->is_number) {
		if (!sframe_loc__add(&sum.loc, minus ? -other->number : other->number))
			return false;
	} else if (other->is_index && !minus && !sum.loc.deref && !sum.loc.index) {
		sum.loc.index = other->loc.reg + 1;
	} else {
		return false;
	}

	*low = sum;
	return true;
}

/* Returns false if the format cannot express the result. */
bool sframe_expr__simplify(const Dwarf_Op *ops, size_t nr_ops,
			   struct sframe_loc *loc, bool *is_value)
{
	struct sframe_value stack[SFRAME_STACK_MAX], *top;
	unsigned int nr = 0;
	const Dwarf_Op *op;
	u64 value;

	*is_value = false;

	for (op = ops; op < ops + nr_ops; op++) {
		/* No operation may follow. */
		if (*is_value)
			return false;
		if (nr == SFRAME_STACK_MAX)
			return false;
		top = nr ? &stack[nr - 1] : NULL;

		switch (op->atom) {
		case DW_OP_breg0 ... DW_OP_breg31:
			if (!sframe_value__reg(&stack[nr++], op->atom - DW_OP_breg0, op->number))
				return false;
			break;
		case DW_OP_bregx:
			if (!sframe_value__reg(&stack[nr++], op->number, op->number2))
				return false;
			break;
		case DW_OP_reg0 ... DW_OP_reg31:
		case DW_OP_regx:
			/* The value is in the register itself. */
			value = op->number;
			if (op->atom != DW_OP_regx)
				value = op->atom - DW_OP_reg0;
			if (nr || !sframe_value__reg(&stack[nr++], value, 0))
				return false;
			*is_value = true;
			break;
		case DW_OP_call_frame_cfa:
			stack[nr++] = (struct sframe_value) { .loc.base = SFRAME_BASE_CFA };
			break;
		case DW_OP_lit0 ... DW_OP_lit31:
			stack[nr++] = (struct sframe_value) {
				.is_number = true, .number = op->atom - DW_OP_lit0,
			};
			break;
		case DW_OP_const1u:
		case DW_OP_const1s:
		case DW_OP_const2u:
		case DW_OP_const2s:
		case DW_OP_const4u:
		case DW_OP_const4s:
		case DW_OP_const8u:
		case DW_OP_const8s:
		case DW_OP_constu:
		case DW_OP_consts:
			stack[nr++] = (struct sframe_value) {
				.is_number = true, .number = op->number,
			};
			break;
		case DW_OP_plus_uconst:
			if (!top || top->is_number || top->is_index ||
			    !sframe_loc__add(&top->loc, op->number))
				return false;
			break;
		case DW_OP_plus:
		case DW_OP_minus:
			if (nr < 2 || !sframe_values__add(top - 1, top, op->atom == DW_OP_minus))
				return false;
			nr--;
			break;
		case DW_OP_mul:
			if (nr < 2 || !sframe_value__scale(top - 1, top, sizeof(u64)))
				return false;
			nr--;
			break;
		case DW_OP_shl:
			if (nr < 2 || !sframe_value__scale(top - 1, top, 3))
				return false;
			nr--;
			break;
		case DW_OP_deref:
			if (!top || top->is_number || top->is_index || top->loc.deref)
				return false;
			top->loc.deref = true;
			break;
		case DW_OP_nop:
			break;
		case DW_OP_stack_value:
			*is_value = true;
			break;
		default:
			return false;
		}
	}

	/* Values below the top do not matter: some expressions push the CFA. */
	if (!nr || stack[nr - 1].is_number || stack[nr - 1].is_index)
		return false;

	*loc = stack[nr - 1].loc;
	/* An index is only part of an address that is read. */
	return loc->deref || !loc->index;
}

static bool sframe_op__lit(const Dwarf_Op *op, u32 *value)
{
	if (op->atom < DW_OP_lit0 || op->atom > DW_OP_lit31)
		return false;

	*value = op->atom - DW_OP_lit0;
	return true;
}

/*
 * Linkers describe a whole PLT by one row. In each entry the stack pointer moves
 * once, so the CFA is rsp + 8 + ((rip & 15) >= 11) * 8. The format can express no
 * other use of the instruction pointer.
 */
bool sframe_expr__plt(const Dwarf_Op *ops, size_t nr_ops, struct sframe_plt *plt)
{
	static const u8 atoms[] = {
		[3] = DW_OP_and, [5] = DW_OP_ge, [7] = DW_OP_shl, [8] = DW_OP_plus,
	};
	u32 mask, shift;
	size_t i;

	if (nr_ops != ARRAY_SIZE(atoms))
		return false;
	for (i = 0; i < nr_ops; i++) {
		if (atoms[i] && ops[i].atom != atoms[i])
			return false;
	}

	if (ops[0].atom != DW_OP_breg0 + SFRAME_AMD64_SP ||
	    ops[1].atom != DW_OP_breg0 + SFRAME_AMD64_IP || ops[1].number ||
	    (s64)ops[0].number != (s16)ops[0].number)
		return false;
	if (!sframe_op__lit(&ops[2], &mask) || !sframe_op__lit(&ops[4], &plt->pushed) ||
	    !sframe_op__lit(&ops[6], &shift))
		return false;

	/* The length of a block is a power of two, and a block has both parts. */
	if (!mask || (mask & (mask + 1)) || !plt->pushed || plt->pushed > mask || shift > 6)
		return false;

	plt->off = ops[0].number;
	plt->rep_size = mask + 1;
	plt->grows = 1 << shift;
	return true;
}
