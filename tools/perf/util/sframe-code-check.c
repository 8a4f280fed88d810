// SPDX-License-Identifier: GPL-2.0
/* Compares rules that come from call frame information with instructions */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <linux/zalloc.h>

#include "util/sframe-cfi-internal.h"
#include "util/sframe-code.h"
#include "util/sframe-ranges.h"

/**
 * struct sframe_code_check - A comparison of CFI with instructions
 * @cfi:	The file
 * @reader:	The table with the rules from CFI
 * @check:	Result
 * @others:	Addresses where they differ
 * @err:	Error of a callback
 */
struct sframe_code_check {
	struct sframe_cfi		*cfi;
	const struct sframe_reader	*reader;
	struct sframe_check		*check;
	struct sframe_ranges		others;
	int				err;
};

static u8 sframe_code__insn_reg(u8 dwarf)
{
	u8 reg = 0;

	while (sframe_code__reg(reg) != dwarf)
		reg++;

	return reg;
}

/* Returns false for rules that no code without CFI can have. */
static bool sframe_code__insn_rule(const struct sframe_rule *from, struct sframe_insn_rule *rule)
{
	*rule = (struct sframe_insn_rule) { };

	if (from->outermost || from->cfa.base != SFRAME_BASE_REG ||
	    from->cfa.index || from->ra.base != SFRAME_BASE_CFA || !from->ra.deref ||
	    from->ra.off != SFRAME_AMD64_RA_OFF)
		return false;

	rule->cfa_reg = sframe_code__insn_reg(from->cfa.reg);
	rule->cfa_deref = from->cfa.deref;
	rule->cfa_off = from->cfa.off;
	rule->cfa_add = from->cfa.add;

	switch (from->fp.base) {
	case SFRAME_BASE_SAME:
		rule->fp = SFRAME_INSN_FP_SAME;
		break;
	case SFRAME_BASE_CFA:
		rule->fp = SFRAME_INSN_FP_CFA;
		break;
	case SFRAME_BASE_REG:
		rule->fp = from->fp.deref ? SFRAME_INSN_FP_MEM : SFRAME_INSN_FP_REG;
		rule->fp_reg = sframe_code__insn_reg(from->fp.reg);
		/* The value of a register plus a number */
		if (!from->fp.deref && from->fp.off)
			return false;
		break;
	case SFRAME_BASE_NONE:
	default:
		rule->fp = SFRAME_INSN_FP_NONE;
		break;
	}
	rule->fp_off = from->fp.off;

	return true;
}

/* Compilers move parts of functions away. They have CFI of their own, but a frame already. */
static bool sframe_code_check__is_entry(u64 addr, void *arg)
{
	const struct sframe_reader *reader = ((struct sframe_code_check *)arg)->reader;
	struct sframe_rule rule;
	u64 end = addr + 1;
	bool signal;

	return !sframe_reader__find(reader, addr, &rule, &signal, &end) && !rule.outermost &&
	       rule.cfa.base == SFRAME_BASE_REG && rule.cfa.reg == SFRAME_AMD64_SP &&
	       !rule.cfa.deref && rule.cfa.off == -SFRAME_AMD64_RA_OFF;
}

/* Is @addr in a function that begins with its entry? */
static bool sframe_code_check__in_function(struct sframe_code_check *compare, u64 addr)
{
	const struct sframe_cfi *cfi = compare->cfi;
	size_t lo = 0, hi = cfi->nr_fdes, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (cfi->fdes[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}

	return lo && sframe_code_check__is_entry(cfi->fdes[lo - 1].start, compare);
}

static void sframe_code_check__instruction(u64 addr, const struct sframe_insn_state *st, void *arg)
{
	struct sframe_code_check *compare = arg;
	struct sframe_check *check = compare->check;
	struct sframe_insn_rule insn_rule;
	struct sframe_rule rule;
	u64 end = addr + 1;
	bool signal;

	if (sframe_reader__find(compare->reader, addr, &rule, &signal, &end) || signal ||
	    sframe_reader__is_derived(compare->reader, addr) ||
	    !sframe_code__insn_rule(&rule, &insn_rule) ||
	    !sframe_code_check__in_function(compare, addr))
		return;

	switch (sframe_insn__match(st, &insn_rule)) {
	case SFRAME_INSN_SAME:
		check->insns_same++;
		return;
	case SFRAME_INSN_OPEN:
		check->insns_open++;
		return;
	case SFRAME_INSN_OTHER:
	default:
		break;
	}

	if (sframe_ranges__add(&compare->others, addr, addr + 1))
		compare->err = -ENOMEM;
}

/*
 * Count and print the differences. Several functions may lead to an address. Those that do not
 * agree give it no rule, so it does not count.
 */
static void sframe_code_check__count_others(struct sframe_code_check *compare,
					    const struct sframe_code *code)
{
	struct sframe_check *check = compare->check;
	struct sframe_rule rule;
	size_t i, row = 0;
	char text[128];
	bool signal;
	u64 addr, end;

	sframe_ranges__merge_equal(&compare->others);

	for (i = 0; i < compare->others.nr; i++) {
		addr = compare->others.ranges[i].start;
		while (row < code->nr && code->rows[row].end <= addr)
			row++;
		if (row == code->nr || code->rows[row].start > addr)
			continue;
		if (check->log && check->insns_other < check->max) {
			end = addr + 1;
			sframe_reader__find(compare->reader, addr, &rule, &signal, &end);
			sframe_rule__scnprintf(&rule, text, sizeof(text));
			fprintf(check->log, "%016" PRIx64 " instructions disagree: %s", addr, text);
			sframe_rule__scnprintf(&code->rows[row].rule, text, sizeof(text));
			fprintf(check->log, ", not %s\n", text);
		}
		check->insns_other++;
	}
}

/**
 * sframe_code__check - Compare the rules that come from CFI with instructions
 * @cfi:	File, after sframe_cfi__read()
 * @reader:	Its table
 * @check:	Receives the number of instructions by result; differences go to its log
 *
 * All code is looked at as if it had no CFI, with functions where the CFI has functions. Much
 * compiled code does not prove itself, for instance after calls that do not return. It does
 * not count.
 *
 * Return: as sframe_code__read().
 */
int sframe_code__check(struct sframe_cfi *cfi, const struct sframe_reader *reader,
		       struct sframe_check *check)
{
	struct sframe_code_check compare = { .cfi = cfi, .reader = reader, .check = check };
	const struct sframe_code_trace trace = {
		.is_entry	= sframe_code_check__is_entry,
		.instruction	= sframe_code_check__instruction,
		.arg		= &compare,
	};
	struct sframe_code code;
	int err;

	err = sframe_code__trace(cfi, &trace, &code) ?: compare.err;
	if (!err)
		sframe_code_check__count_others(&compare, &code);

	zfree(&compare.others.ranges);
	sframe_code__exit(&code);
	return err;
}
