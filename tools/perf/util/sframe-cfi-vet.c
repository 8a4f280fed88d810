// SPDX-License-Identifier: GPL-2.0
/* Checks CFI programs before libdw runs them */
#include <dwarf.h>
#include <linux/kernel.h>
#include <linux/types.h>

#include "util/sframe-cfi-decode.h"
#include "util/sframe-cfi-internal.h"

/*
 * Limits for a CFI program. libdw allocates memory for all registers up to the
 * highest number, and for each remembered state.
 */
#define SFRAME_CFI_REGS_MAX	256
#define SFRAME_CFI_STATES_MAX	64

/*
 * Check a CFI program. Returns false if it is invalid, or if libdw would need much
 * memory for it. Adds the largest number of rows that it can make to @rows.
 */
bool sframe_cfi__sane(const u8 *start, const u8 *end, u8 encoding,
		      u32 *states, u64 *rows)
{
	struct sframe_cursor cursor = { .at = start, .end = end };
	u64 reg = 0;
	u8 opcode;

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
		case DW_CFA_GNU_window_save:
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
			sframe_cursor__skip(&cursor, sframe_cursor__uleb128(&cursor));
			break;
		case DW_CFA_def_cfa_expression:
			sframe_cursor__skip(&cursor, sframe_cursor__uleb128(&cursor));
			break;
		default:
			return false;
		}

		if (reg >= SFRAME_CFI_REGS_MAX)
			return false;
	}

	return !cursor.bad;
}
