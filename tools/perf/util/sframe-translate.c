// SPDX-License-Identifier: GPL-2.0
/* Translates a row of CFI into a rule of SFrame */
#include <elfutils/libdw.h>

#include "util/sframe.h"
#include "util/sframe-cfi.h"
#include "util/sframe-expr.h"
#include "util/sframe-translate.h"

/* Finds the caller's value of @reg. Returns false if SFrame cannot express it. */
static bool sframe_frame__reg(Dwarf_Frame *frame, int reg, struct sframe_loc *loc,
			      bool *undefined)
{
	Dwarf_Op mem[3], *ops;
	bool is_value;
	size_t nr;

	*undefined = false;
	*loc = (struct sframe_loc) { .base = SFRAME_BASE_SAME };

	if (dwarf_frame_register(frame, reg, mem, &ops, &nr))
		return false;

	if (!nr) {
		*undefined = ops == mem;
		return true;
	}

	/* Only the CFA can be a sum with what was read from memory, or have an index. */
	if (!sframe_expr__simplify(ops, nr, loc, &is_value) || sframe_loc__adds(loc))
		return false;

	/* The expression gives the address of the value rather than the value. */
	if (!is_value) {
		if (loc->deref)
			return false;
		loc->deref = true;
	}

	return true;
}

enum sframe_kind sframe_row__translate(const struct sframe_cfi_row *row,
				       struct sframe_rule *rule,
				       struct sframe_plt *plt,
				       enum sframe_lost *lost)
{
	enum sframe_kind kind = SFRAME_KIND_RULE;
	bool undefined, is_value;
	struct sframe_loc sp;
	Dwarf_Op *ops;
	size_t nr;

	*rule = (struct sframe_rule) { };
	*plt = (struct sframe_plt) { };

	if (!row->frame) {
		*lost = SFRAME_LOST_DAMAGED;
		return SFRAME_KIND_LOST;
	}

	*lost = SFRAME_LOST_RA;
	if (!sframe_frame__reg(row->frame, row->ra, &rule->ra, &undefined))
		goto lost;
	if (undefined) {
		rule->outermost = true;
		return kind;
	}
	if (rule->ra.base == SFRAME_BASE_SAME ||
	    (rule->ra.base == SFRAME_BASE_CFA && !rule->ra.deref))
		goto lost;

	*lost = SFRAME_LOST_CFA;
	if (dwarf_frame_cfa(row->frame, &ops, &nr) || !nr)
		goto lost;
	if (sframe_expr__plt(ops, nr, plt))
		kind = SFRAME_KIND_PLT;
	else if (!sframe_expr__simplify(ops, nr, &rule->cfa, &is_value) ||
		 rule->cfa.base != SFRAME_BASE_REG)
		goto lost;

	/* In SFrame the caller's stack pointer is always the CFA. */
	*lost = SFRAME_LOST_SP;
	if (!sframe_frame__reg(row->frame, SFRAME_AMD64_SP, &sp, &undefined))
		goto lost;
	if (sp.base != SFRAME_BASE_CFA || sp.deref || sp.off)
		goto lost;

	*lost = SFRAME_LOST_FP;
	if (!sframe_frame__reg(row->frame, SFRAME_AMD64_FP, &rule->fp, &undefined))
		goto lost;
	if (undefined)
		rule->fp = (struct sframe_loc) { .base = SFRAME_BASE_NONE };
	if (rule->fp.base == SFRAME_BASE_CFA && !rule->fp.deref)
		goto lost;

	return kind;

lost:
	/* The kernel knows its own signal frames. */
	return row->signal ? SFRAME_KIND_SIGNAL : SFRAME_KIND_LOST;
}
