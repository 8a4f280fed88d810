/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers to write, compare and print rules in tests. */
#ifndef _TEST_UNWIND_RULES_H
#define _TEST_UNWIND_RULES_H

#include <stdio.h>
#include <string.h>

#include <linux/unwind_user_rule.h>

#define LOC(...)		((struct unwind_user_loc) { __VA_ARGS__ })
#define LOC_SP(offset)		LOC(.base = UNWIND_USER_BASE_SP, .off = (offset))
#define LOC_FP(offset)		LOC(.base = UNWIND_USER_BASE_FP, .off = (offset))
#define LOC_AT_FP(offset)	\
	LOC(.base = UNWIND_USER_BASE_FP, .off = (offset), .deref = true)
#define LOC_AT_SP(offset)	\
	LOC(.base = UNWIND_USER_BASE_SP, .off = (offset), .deref = true)
#define LOC_AT_CFA(offset)	\
	LOC(.base = UNWIND_USER_BASE_CFA, .off = (offset), .deref = true)
#define LOC_REG(nr, offset)	\
	LOC(.base = UNWIND_USER_BASE_REG, .reg = (nr), .off = (offset))
#define LOC_NONE		LOC(.base = UNWIND_USER_BASE_NONE)
#define LOC_SAME		LOC(.base = UNWIND_USER_BASE_SAME)

/* Rules with the usual return address: FP as it is, and FP saved. */
#define RULE(cfa_loc)		RULE_FP(cfa_loc, LOC_SAME)
#define RULE_FP(cfa_loc, fp_loc)	RULE_ALL(cfa_loc, LOC_AT_CFA(-8), fp_loc)
#define RULE_ALL(cfa_loc, ra_loc, fp_loc)	\
	{ .cfa = cfa_loc, .ra = ra_loc, .fp = fp_loc }
#define RULE_OUTERMOST		{ .outermost = true }
/* The usual return address, and a CFA that is what was read plus a number */
#define RULE_ADD(cfa_loc, number, fp_loc)	\
	{ .cfa = cfa_loc, .ra = LOC_AT_CFA(-8), .fp = fp_loc, .cfa_add = (number) }
/* As RULE_ADD(); what was read is behind words whose number is in a register. */
#define RULE_INDEX(cfa_loc, nr, number, fp_loc)	\
	{ .cfa = cfa_loc, .ra = LOC_AT_CFA(-8), .fp = fp_loc, .cfa_add = (number),	\
	  .cfa_index = (nr) + 1 }

static inline bool same_loc(const struct unwind_user_loc *a,
			    const struct unwind_user_loc *b)
{
	/* The register number only matters if the base is a register. */
	return a->off == b->off && a->base == b->base && a->deref == b->deref &&
	       (a->base != UNWIND_USER_BASE_REG || a->reg == b->reg);
}

static inline bool same_rule(const struct unwind_user_rule *a,
			     const struct unwind_user_rule *b)
{
	if (a->outermost != b->outermost || a->signal != b->signal ||
	    a->confined != b->confined)
		return false;

	return a->outermost || (same_loc(&a->cfa, &b->cfa) && a->cfa_add == b->cfa_add &&
				a->cfa_index == b->cfa_index &&
				same_loc(&a->ra, &b->ra) &&
				same_loc(&a->fp, &b->fp));
}

static inline const char *show_loc(const struct unwind_user_loc *loc, char *buf,
				   size_t size)
{
	static const char * const bases[] = {
		[UNWIND_USER_BASE_SAME]	= "same",
		[UNWIND_USER_BASE_CFA]	= "cfa",
		[UNWIND_USER_BASE_SP]	= "sp",
		[UNWIND_USER_BASE_FP]	= "fp",
		[UNWIND_USER_BASE_NONE]	= "none",
	};
	char reg[16];

	snprintf(reg, sizeof(reg), "r%u", loc->reg);
	snprintf(buf, size, "%s%s%+d%s", loc->deref ? "*(" : "",
		 loc->base == UNWIND_USER_BASE_REG ? reg : bases[loc->base],
		 loc->off, loc->deref ? ")" : "");
	return buf;
}

/* "sp+16, *(cfa-8), *(cfa-16)"; the string lives until the next call. */
static inline const char *show_rule(const struct unwind_user_rule *rule)
{
	char cfa[40], ra[40], fp[40], add[16] = "", index[16] = "";
	static char text[160];

	if (rule->outermost)
		return rule->signal ? "outermost, signal" : "outermost";

	if (rule->cfa_add)
		snprintf(add, sizeof(add), "%+d", rule->cfa_add);
	if (rule->cfa_index)
		snprintf(index, sizeof(index), " index r%u", rule->cfa_index - 1);
	snprintf(text, sizeof(text), "%s%s%s, %s, %s%s",
		 show_loc(&rule->cfa, cfa, sizeof(cfa)), index, add,
		 show_loc(&rule->ra, ra, sizeof(ra)),
		 show_loc(&rule->fp, fp, sizeof(fp)),
		 rule->signal ? ", signal" : "");
	return text;
}

#endif /* _TEST_UNWIND_RULES_H */
