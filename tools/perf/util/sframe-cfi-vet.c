// SPDX-License-Identifier: GPL-2.0
/* Checks CFI programs before libdw runs them */
#include <dwarf.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/types.h>

#include "util/sframe-cfi-decode.h"
#include "util/sframe-cfi-internal.h"

/*
 * Limits for a CFI program. libdw allocates memory for all registers up to the
 * highest number, and for each remembered state.
 */
#define SFRAME_CFI_REGS_MAX	256
#define SFRAME_CFI_STATES_MAX	64

/* To remember a state of so many registers takes as long as that many simple instructions. */
#define SFRAME_CFI_STATE_COST	128

/*
 * libdw keeps each expression that it has seen: 32 bytes for each operation, which has
 * at least one byte, and about a hundred for the expression. So the limit for all
 * expressions of a file keeps that below 64 MiB.
 */
#define SFRAME_CFI_EXPR_MAX	256
#define SFRAME_CFI_EXPRS_MAX	SZ_2M
#define SFRAME_CFI_EXPR_HEAD	4

static void sframe_cfi__skip_expr(struct sframe_cfi *cfi, struct sframe_cursor *cursor)
{
	u64 len = sframe_cursor__uleb128(cursor);

	if (len > SFRAME_CFI_EXPR_MAX || cfi->exprs > SFRAME_CFI_EXPRS_MAX) {
		cursor->bad = true;
		return;
	}

	cfi->exprs += SFRAME_CFI_EXPR_HEAD + len;
	sframe_cursor__skip(cursor, len);
}

/*
 * Check a CFI program. Returns false if it is invalid, or if libdw would need much
 * memory for it. Adds the largest number of rows that it can make to @rows, and what it
 * costs to run it to @cost: its bytes, and more where libdw copies all registers.
 */
bool sframe_cfi__sane(struct sframe_cfi *cfi, const u8 *start, const u8 *end, u8 encoding,
		      u32 *states, u64 *rows, u64 *cost)
{
	struct sframe_cursor cursor = { .at = start, .end = end };
	u64 reg = 0;
	u8 opcode;

	*cost += end - start;

	while (cursor.at < cursor.end && !cursor.bad) {
		opcode = sframe_cursor__get(&cursor, sizeof(opcode));

		/* These three opcodes have an operand in the same byte. */
		switch (opcode & 0xc0) {
		case DW_CFA_advance_loc:
			(*rows)++;
			continue;
		case DW_CFA_offset:
			sframe_cursor__uleb128(&cursor);
			continue;
		case DW_CFA_restore:
			continue;
		default:
			break;
		}

		switch (opcode) {
		case DW_CFA_nop:
			break;
		case DW_CFA_set_loc:
			sframe_cursor__encoded(&cursor, encoding, 0);
			(*rows)++;
			break;
		case DW_CFA_advance_loc1:
			sframe_cursor__skip(&cursor, sizeof(u8));
			(*rows)++;
			break;
		case DW_CFA_advance_loc2:
			sframe_cursor__skip(&cursor, sizeof(u16));
			(*rows)++;
			break;
		case DW_CFA_advance_loc4:
			sframe_cursor__skip(&cursor, sizeof(u32));
			(*rows)++;
			break;
		case DW_CFA_MIPS_advance_loc8:
			sframe_cursor__skip(&cursor, sizeof(u64));
			(*rows)++;
			break;
		case DW_CFA_remember_state:
			if (++*states > SFRAME_CFI_STATES_MAX)
				return false;
			*cost += SFRAME_CFI_STATE_COST;
			break;
		case DW_CFA_restore_state:
			if (*states)
				--*states;
			break;
		case DW_CFA_def_cfa_offset:
		case DW_CFA_def_cfa_offset_sf:
		case DW_CFA_GNU_args_size:
			sframe_cursor__uleb128(&cursor);
			break;
		case DW_CFA_restore_extended:
		case DW_CFA_undefined:
		case DW_CFA_same_value:
		case DW_CFA_def_cfa_register:
			reg = max(reg, sframe_cursor__uleb128(&cursor));
			break;
		case DW_CFA_offset_extended:
		case DW_CFA_offset_extended_sf:
		case DW_CFA_val_offset:
		case DW_CFA_val_offset_sf:
		case DW_CFA_def_cfa:
		case DW_CFA_def_cfa_sf:
		case DW_CFA_register:
		case DW_CFA_GNU_negative_offset_extended:
			reg = max(reg, sframe_cursor__uleb128(&cursor));
			sframe_cursor__uleb128(&cursor);
			break;
		case DW_CFA_expression:
		case DW_CFA_val_expression:
			reg = max(reg, sframe_cursor__uleb128(&cursor));
			sframe_cfi__skip_expr(cfi, &cursor);
			break;
		case DW_CFA_def_cfa_expression:
			sframe_cfi__skip_expr(cfi, &cursor);
			break;
		default:
			return false;
		}

		if (reg >= SFRAME_CFI_REGS_MAX)
			return false;
	}

	return !cursor.bad;
}
