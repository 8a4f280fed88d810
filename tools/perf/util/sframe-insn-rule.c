// SPDX-License-Identifier: GPL-2.0
/* The unwind rule that follows from an abstract state */
#include <string.h>
#include <linux/kernel.h>

#include "util/sframe-insn-internal.h"

/* Memory below rsp that signal handlers leave alone */
#define RED_ZONE	128

/* Find a slot with the CFA or one of known distance from it. */
static bool cfa_from_slot(const struct sframe_insn_state *st, struct sframe_insn_rule *rule)
{
	static const u8 bases[] = { RSP, RBP };
	u32 i, j;

	for (j = 0; j < ARRAY_SIZE(bases); j++) {
		struct sframe_value base = st->reg[bases[j]];

		if (!sframe_value__on_stack(base))
			continue;
		for (i = 0; i < st->nr; i++) {
			if (st->slot[i].base != base.kind || st->slot[i].value.kind != VAL_CFA)
				continue;
			if (bases[j] == RSP && st->slot[i].off < base.v - RED_ZONE)
				continue;
			rule->cfa_reg = bases[j];
			rule->cfa_deref = true;
			rule->cfa_off = st->slot[i].off - base.v;
			rule->cfa_add = -st->slot[i].value.v;
			return true;
		}
	}
	return false;
}

static bool find_cfa(const struct sframe_insn_state *st, struct sframe_insn_rule *rule)
{
	static const u8 order[] = {
		RSP, RBP, RBX, R12, R13, R14, R15, RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11,
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(order); i++) {
		if (st->reg[order[i]].kind != VAL_CFA)
			continue;
		rule->cfa_reg = order[i];
		rule->cfa_off = -st->reg[order[i]].v;
		return true;
	}
	return cfa_from_slot(st, rule);
}

static bool find_fp(const struct sframe_insn_state *st, struct sframe_insn_rule *rule)
{
	static const u8 bases[] = { RSP, RBP };
	struct sframe_value rsp = st->reg[RSP];
	u32 i, j;

	if (sframe_value__is(st->reg[RBP], VAL_ENTRY, RBP)) {
		rule->fp = SFRAME_INSN_FP_SAME;
		return true;
	}
	for (i = 0; i < st->nr; i++) {
		if (st->slot[i].base != VAL_CFA ||
		    !sframe_value__is(st->slot[i].value, VAL_ENTRY, RBP))
			continue;
		if (rsp.kind == VAL_CFA && st->slot[i].off < rsp.v - RED_ZONE)
			continue;
		rule->fp = SFRAME_INSN_FP_CFA;
		rule->fp_off = st->slot[i].off;
		return true;
	}
	for (i = 0; i < 16; i++) {
		if (!sframe_value__is(st->reg[i], VAL_ENTRY, RBP))
			continue;
		rule->fp = SFRAME_INSN_FP_REG;
		rule->fp_reg = i;
		return true;
	}
	for (j = 0; j < ARRAY_SIZE(bases); j++) {
		struct sframe_value base = st->reg[bases[j]];

		for (i = 0; base.kind == VAL_BASE && i < st->nr; i++) {
			if (st->slot[i].base != VAL_BASE ||
			    !sframe_value__is(st->slot[i].value, VAL_ENTRY, RBP) ||
			    (bases[j] == RSP && st->slot[i].off < base.v - RED_ZONE))
				continue;
			rule->fp = SFRAME_INSN_FP_MEM;
			rule->fp_reg = bases[j];
			rule->fp_off = st->slot[i].off - base.v;
			return true;
		}
	}
	return false;
}

/*
 * Derive the unwind rule. @lost: The caller's rbp may be gone; its callers do not need it.
 * Return false if there is no rule.
 */
bool sframe_state__rule(const struct sframe_insn_state *st, struct sframe_insn_rule *rule,
			bool lost)
{
	memset(rule, 0, sizeof(*rule));
	if (!find_cfa(st, rule))
		return false;
	if (find_fp(st, rule))
		return true;

	rule->fp = SFRAME_INSN_FP_NONE;
	return lost;
}

/* Is @value the CFA less @off? */
static enum sframe_insn_match match_cfa(struct sframe_value value, s64 off)
{
	if (value.kind != VAL_CFA)
		return SFRAME_INSN_OPEN;

	return value.v + off ? SFRAME_INSN_OTHER : SFRAME_INSN_SAME;
}

static enum sframe_insn_match match_entry(struct sframe_value value)
{
	if (value.kind == VAL_UNKNOWN || value.kind == VAL_BASE)
		return SFRAME_INSN_OPEN;

	return sframe_value__is(value, VAL_ENTRY, RBP) ? SFRAME_INSN_SAME : SFRAME_INSN_OTHER;
}

/* The value in memory at @reg plus @off */
static struct sframe_value load(const struct sframe_insn_state *st, u8 reg, s64 off)
{
	struct sframe_value base = st->reg[reg];

	if (base.kind != VAL_CFA && base.kind != VAL_BASE)
		return sframe_value__new(VAL_UNKNOWN, 0);

	return sframe_state__slot(st, base.kind, base.v + off);
}

static enum sframe_insn_match match_fp(const struct sframe_insn_state *st,
				       const struct sframe_insn_rule *rule)
{
	switch ((enum sframe_insn_fp)rule->fp) {
	case SFRAME_INSN_FP_SAME:
		return match_entry(st->reg[RBP]);
	case SFRAME_INSN_FP_CFA:
		return match_entry(sframe_state__slot(st, VAL_CFA, rule->fp_off));
	case SFRAME_INSN_FP_REG:
		return match_entry(st->reg[rule->fp_reg]);
	case SFRAME_INSN_FP_MEM:
		return match_entry(load(st, rule->fp_reg, rule->fp_off));
	case SFRAME_INSN_FP_NONE:
	default:
		return SFRAME_INSN_SAME;
	}
}

/**
 * sframe_insn__match - Compare a rule with the instructions
 * @st:		The state before an instruction, see &sframe_insn_input.trace
 * @rule:	The rule for this instruction, for instance from call frame information
 *
 * The rule may find the frame in another way than the one that would be derived.
 *
 * Return: whether the instructions agree.
 */
enum sframe_insn_match sframe_insn__match(const struct sframe_insn_state *st,
					  const struct sframe_insn_rule *rule)
{
	enum sframe_insn_match cfa, fp = match_fp(st, rule);

	cfa = rule->cfa_deref ?
	      match_cfa(load(st, rule->cfa_reg, rule->cfa_off), rule->cfa_add) :
	      match_cfa(st->reg[rule->cfa_reg], rule->cfa_off);
	if (cfa == SFRAME_INSN_OTHER || fp == SFRAME_INSN_OTHER)
		return SFRAME_INSN_OTHER;

	return cfa == SFRAME_INSN_OPEN ? cfa : fp;
}
