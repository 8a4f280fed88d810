// SPDX-License-Identifier: GPL-2.0
#include <dwarf.h>
#include <stddef.h>

#include "sframe-eval.h"

#define EVAL_STACK	16

#define EVAL_FP		6
#define EVAL_SP		7
#define EVAL_IP		16

/* The finalizer of the random number generator splitmix64 */
static uint64_t eval_mix(uint64_t value)
{
	value ^= value >> 30;
	value *= 0xbf58476d1ce4e5b9ULL;
	value ^= value >> 27;
	value *= 0x94d049bb133111ebULL;
	return value ^ value >> 31;
}

/**
 * sframe_eval__reg - Get the value of a register
 * @reg:	DWARF number
 *
 * Return: the value.
 */
uint64_t sframe_eval__reg(unsigned int reg)
{
	return eval_mix(0x9e3779b97f4a7c15ULL * (reg + 1));
}

/**
 * sframe_eval__load - Get a value from memory
 * @addr:	Address
 *
 * Return: the value.
 */
uint64_t sframe_eval__load(uint64_t addr)
{
	return eval_mix(addr + 0x2545f4914f6cdd1dULL);
}

static uint64_t eval_reg(unsigned int reg, uint64_t ip)
{
	return reg == EVAL_IP ? ip : sframe_eval__reg(reg);
}

static bool eval_binary(uint8_t atom, uint64_t a, uint64_t b, uint64_t *result)
{
	int64_t sa = a, sb = b;

	switch (atom) {
	case DW_OP_plus:
		*result = a + b;
		break;
	case DW_OP_minus:
		*result = a - b;
		break;
	case DW_OP_mul:
		*result = a * b;
		break;
	case DW_OP_and:
		*result = a & b;
		break;
	case DW_OP_or:
		*result = a | b;
		break;
	case DW_OP_xor:
		*result = a ^ b;
		break;
	case DW_OP_shl:
		*result = b < 64 ? a << b : 0;
		break;
	case DW_OP_shr:
		*result = b < 64 ? a >> b : 0;
		break;
	case DW_OP_shra:
		*result = sa >> (b < 64 ? b : 63);
		break;
	case DW_OP_eq:
		*result = sa == sb;
		break;
	case DW_OP_ne:
		*result = sa != sb;
		break;
	case DW_OP_lt:
		*result = sa < sb;
		break;
	case DW_OP_le:
		*result = sa <= sb;
		break;
	case DW_OP_gt:
		*result = sa > sb;
		break;
	case DW_OP_ge:
		*result = sa >= sb;
		break;
	default:
		return false;
	}

	return true;
}

/*
 * Run an expression. If @is_value is true, the result is the value itself.
 * Otherwise it is the address of the value. Branches are not supported. libdw
 * limits the number of operations, so expressions without branches always end.
 */
static bool eval_expr(const Dwarf_Op *ops, size_t nr_ops, uint64_t ip, uint64_t cfa,
		      uint64_t *result, bool *is_value)
{
	uint64_t stack[EVAL_STACK], value;
	const Dwarf_Op *op;
	unsigned int nr = 0;

	*is_value = false;

	for (op = ops; op < ops + nr_ops; op++) {
		if (nr == EVAL_STACK)
			return false;

		switch (op->atom) {
		case DW_OP_breg0 ... DW_OP_breg31:
			stack[nr++] = eval_reg(op->atom - DW_OP_breg0, ip) + op->number;
			continue;
		case DW_OP_bregx:
			stack[nr++] = eval_reg(op->number, ip) + op->number2;
			continue;
		case DW_OP_reg0 ... DW_OP_reg31:
			stack[nr++] = eval_reg(op->atom - DW_OP_reg0, ip);
			*is_value = true;
			continue;
		case DW_OP_regx:
			stack[nr++] = eval_reg(op->number, ip);
			*is_value = true;
			continue;
		case DW_OP_call_frame_cfa:
			stack[nr++] = cfa;
			continue;
		case DW_OP_lit0 ... DW_OP_lit31:
			stack[nr++] = op->atom - DW_OP_lit0;
			continue;
		case DW_OP_addr:
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
			stack[nr++] = op->number;
			continue;
		case DW_OP_nop:
			continue;
		default:
			break;
		}

		if (!nr)
			return false;

		switch (op->atom) {
		case DW_OP_stack_value:
			*is_value = true;
			continue;
		case DW_OP_deref:
			stack[nr - 1] = sframe_eval__load(stack[nr - 1]);
			continue;
		case DW_OP_plus_uconst:
			stack[nr - 1] += op->number;
			continue;
		case DW_OP_neg:
			stack[nr - 1] = -stack[nr - 1];
			continue;
		case DW_OP_not:
			stack[nr - 1] = ~stack[nr - 1];
			continue;
		case DW_OP_dup:
			stack[nr] = stack[nr - 1];
			nr++;
			continue;
		case DW_OP_drop:
			nr--;
			continue;
		default:
			break;
		}

		if (nr < 2)
			return false;

		switch (op->atom) {
		case DW_OP_swap:
			value = stack[nr - 1];
			stack[nr - 1] = stack[nr - 2];
			stack[nr - 2] = value;
			continue;
		case DW_OP_over:
			stack[nr] = stack[nr - 2];
			nr++;
			continue;
		default:
			break;
		}

		if (!eval_binary(op->atom, stack[nr - 2], stack[nr - 1], &value))
			return false;
		stack[--nr - 1] = value;
	}

	if (!nr)
		return false;

	*result = stack[nr - 1];
	return true;
}

/* Returns 1: @value is set; 0: it is undefined; -1: it cannot be evaluated. */
static int eval_register(Dwarf_Frame *frame, int reg, uint64_t ip, uint64_t cfa,
			 uint64_t *value)
{
	Dwarf_Op mem[3], *ops;
	bool is_value;
	size_t nr;

	if (dwarf_frame_register(frame, reg, mem, &ops, &nr))
		return -1;

	if (!nr) {
		*value = eval_reg(reg, ip);
		return ops != mem;
	}

	if (!eval_expr(ops, nr, ip, cfa, value, &is_value))
		return -1;
	if (!is_value)
		*value = sframe_eval__load(*value);

	return 1;
}

static bool eval_reads_ip(const Dwarf_Op *ops, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		if (ops[i].atom == DW_OP_breg0 + EVAL_IP ||
		    (ops[i].atom == DW_OP_bregx && ops[i].number == EVAL_IP))
			return true;
	}

	return false;
}

/**
 * sframe_eval__depends_on_ip - Can the result differ between addresses of a row?
 * @frame:	CFI of the row
 *
 * Return: true if so.
 */
bool sframe_eval__depends_on_ip(Dwarf_Frame *frame)
{
	static const int regs[] = { EVAL_FP, EVAL_SP, EVAL_IP, };
	Dwarf_Op mem[3], *ops;
	size_t nr, i;

	if (!dwarf_frame_cfa(frame, &ops, &nr) && eval_reads_ip(ops, nr))
		return true;

	for (i = 0; i < sizeof(regs) / sizeof(*regs); i++) {
		if (!dwarf_frame_register(frame, regs[i], mem, &ops, &nr) &&
		    eval_reads_ip(ops, nr))
			return true;
	}

	return false;
}

/**
 * sframe_eval__frame - Find the caller's frame
 * @frame:	CFI
 * @ip:		Address
 * @result:	Receives the caller's frame
 *
 * Return: true; false if the CFI cannot be evaluated.
 */
bool sframe_eval__frame(Dwarf_Frame *frame, uint64_t ip, struct sframe_frame *result)
{
	bool is_value;
	Dwarf_Op *ops;
	size_t nr;
	int ret;

	*result = (struct sframe_frame) { };

	ret = dwarf_frame_info(frame, NULL, NULL, NULL);
	if (ret < 0)
		return false;

	if (!dwarf_frame_cfa(frame, &ops, &nr) && nr)
		is_value = eval_expr(ops, nr, ip, 0, &result->cfa, &is_value);
	else
		is_value = false;

	/* If the return address is undefined, the CFA does not matter. */
	ret = eval_register(frame, ret, ip, result->cfa, &result->ra);
	if (!ret) {
		result->outermost = true;
		return true;
	}
	if (ret < 0 || !is_value)
		return false;

	if (eval_register(frame, EVAL_SP, ip, result->cfa, &result->sp) != 1)
		return false;

	ret = eval_register(frame, EVAL_FP, ip, result->cfa, &result->fp);
	result->fp_known = ret == 1;

	return ret >= 0;
}
