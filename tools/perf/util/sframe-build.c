// SPDX-License-Identifier: GPL-2.0
/* Makes a table from the CFI of a file */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "util/sframe.h"
#include "util/sframe-build.h"
#include "util/sframe-cfi.h"
#include "util/sframe-code.h"
#include "util/sframe-expr.h"
#include "util/sframe-translate.h"

/**
 * struct sframe_build - A table that is being made
 * @writer:	Writer of the table
 * @stats:	Counts what the table covers
 * @function:	The current function; its size is 0 if there is none
 * @only_signal: @function has no rows, only the mark of a signal handler's return
 * @rows:	Rows of @function
 * @code:	Rules for code that the CFI does not describe
 * @next:	The next row of @code
 */
struct sframe_build {
	struct sframe_writer	*writer;
	struct sframe_stats	*stats;
	struct sframe_function	function;
	bool			only_signal;
	struct sframe_row	rows[SFRAME_ROWS_MAX];
	struct sframe_code	code;
	size_t			next;
};

static int sframe_build__flush(struct sframe_build *build)
{
	struct sframe_function *function = &build->function;
	int err;

	if (!function->size)
		return 0;

	err = sframe_writer__add(build->writer, function, build->rows);
	if (!err) {
		build->stats->functions++;
		build->stats->rows += function->nr_rows;
	}
	*function = (struct sframe_function) { };

	return err;
}

static u64 sframe_build__end(const struct sframe_build *build)
{
	return build->function.start + build->function.size;
}

/* Make sure that [@start, @end) can be added to the current function. */
static int sframe_build__prepare(struct sframe_build *build, u64 start, u64 end,
				 bool signal, bool only_signal, bool derived)
{
	struct sframe_function *function = &build->function;
	int err;

	if (end - start > UINT_MAX)
		return -EFBIG;

	if (function->size &&
	    (start != sframe_build__end(build) || function->signal != signal ||
	     function->derived != derived ||
	     build->only_signal != only_signal || function->rep_size ||
	     function->nr_rows == SFRAME_ROWS_MAX || end - function->start > UINT_MAX)) {
		err = sframe_build__flush(build);
		if (err)
			return err;
	}

	if (!function->size) {
		function->start = start;
		function->signal = signal;
		function->derived = derived;
		build->only_signal = only_signal;
	}

	return 0;
}

static int sframe_build__rule(struct sframe_build *build, u64 start, u64 end,
			      bool signal, bool derived, const struct sframe_rule *rule)
{
	struct sframe_function *function = &build->function;
	struct sframe_row *row;
	int err;

	err = sframe_build__prepare(build, start, end, signal, false, derived);
	if (err)
		return err;

	/* Most rows of CFI change only registers that SFrame does not describe. */
	if (!function->nr_rows ||
	    !sframe_rule__equal(&build->rows[function->nr_rows - 1].rule, rule)) {
		row = &build->rows[function->nr_rows++];
		row->addr = start - function->start;
		row->rule = *rule;
	}
	function->size = end - function->start;

	if (derived)
		build->stats->derived += end - start;
	else
		build->stats->covered += end - start;
	return 0;
}

static int sframe_build__signal(struct sframe_build *build, u64 start, u64 end)
{
	int err = sframe_build__prepare(build, start, end, true, true, false);

	if (err)
		return err;

	build->function.size = end - build->function.start;
	build->stats->covered += end - start;
	return 0;
}

static int sframe_build__plt(struct sframe_build *build, u64 start, u64 end, bool signal,
			     const struct sframe_rule *rule, const struct sframe_plt *plt)
{
	struct sframe_rule second;
	int err;

	/*
	 * The expression uses the low bits of the address, so blocks must be
	 * aligned. The first entry of a PLT has rows of its own. It has the same
	 * length, so the entries after it are aligned, too.
	 */
	if (start & (plt->rep_size - 1)) {
		build->stats->lost[SFRAME_LOST_CFA] += end - start;
		return 0;
	}

	err = sframe_build__flush(build);
	if (!err)
		err = sframe_build__prepare(build, start, end, signal, false, false);
	if (err)
		return err;

	second = *rule;
	second.cfa = (struct sframe_loc) {
		.base = SFRAME_BASE_REG, .reg = SFRAME_AMD64_SP, .off = plt->off,
	};
	build->rows[0] = (struct sframe_row) { .addr = 0, .rule = second };
	second.cfa.off += plt->grows;
	build->rows[1] = (struct sframe_row) { .addr = plt->pushed, .rule = second };

	build->function.nr_rows = 2;
	build->function.rep_size = plt->rep_size;
	build->function.size = end - start;

	build->stats->covered += end - start;
	build->stats->blocks += end - start;

	return sframe_build__flush(build);
}

static bool sframe_rule__is_flex(const struct sframe_rule *rule)
{
	return !rule->outermost &&
	       (rule->cfa.deref ||
		(rule->cfa.reg != SFRAME_AMD64_SP && rule->cfa.reg != SFRAME_AMD64_FP) ||
		rule->ra.base != SFRAME_BASE_CFA || rule->ra.off != SFRAME_AMD64_RA_OFF ||
		rule->fp.base == SFRAME_BASE_REG || rule->fp.base == SFRAME_BASE_NONE);
}

/* Add the rules that were derived from instructions below @end. */
static int sframe_build__derived(struct sframe_build *build, u64 end)
{
	const struct sframe_code *code = &build->code;
	const struct sframe_code_row *row;
	int err = 0;

	for (; build->next < code->nr && !err; build->next++) {
		row = &code->rows[build->next];
		if (row->end > end)
			break;
		if (row->entry)
			err = sframe_build__flush(build);
		if (!err)
			err = sframe_build__rule(build, row->start, row->end, false, true,
						 &row->rule);
	}

	return err;
}

static int sframe_build__row(const struct sframe_cfi_row *row, void *arg)
{
	struct sframe_build *build = arg;
	u64 start = row->start, end = row->end;
	struct sframe_rule rule;
	enum sframe_lost lost;
	struct sframe_plt plt;
	int err = 0;

	err = sframe_build__derived(build, start);
	if (err)
		return err;

	build->stats->described += end - start;

	switch (sframe_row__translate(row, &rule, &plt, &lost)) {
	case SFRAME_KIND_RULE:
		if (sframe_rule__is_flex(&rule))
			build->stats->flex += end - start;
		err = sframe_build__rule(build, start, end, row->signal, false, &rule);
		break;
	case SFRAME_KIND_PLT:
		err = sframe_build__plt(build, start, end, row->signal, &rule, &plt);
		break;
	case SFRAME_KIND_SIGNAL:
		err = sframe_build__signal(build, start, end);
		break;
	case SFRAME_KIND_LOST:
	default:
		build->stats->lost[lost] += end - start;
		break;
	}

	if (!err && row->last)
		err = sframe_build__flush(build);

	return err;
}

/**
 * sframe_cfi__build - Make a table
 * @cfi:	File, after sframe_cfi__read()
 * @may_be_partial: Do not derive rules from instructions, which takes long
 * @table:	Receives the table; sframe_table__exit() frees it
 *
 * Return: 0; -ENODATA - the table would have no rule; -ENOMEM; -EFBIG - the table
 *	   would be too large.
 */
int sframe_cfi__build(struct sframe_cfi *cfi, bool may_be_partial, struct sframe_table *table)
{
	struct sframe_build build = { .stats = &table->stats };
	const struct build_id *bid = sframe_cfi__build_id(cfi);
	struct sframe_aux aux = { .magic = SFRAME_AUX_MAGIC };
	int err;

	build.stats->code = sframe_cfi__code(cfi);
	build.writer = sframe_writer__new();
	if (!build.writer)
		return -ENOMEM;

	/* A file whose code is too much, or whose headers are damaged, has its CFI. */
	err = sframe_code__read(cfi, may_be_partial ? &table->partial : NULL, &build.code);
	if (err == -ENODATA || err == -EFBIG || err == -EINVAL)
		err = 0;
	build.stats->insn = build.code.stats;

	if (!err)
		err = sframe_cfi__walk(cfi, sframe_build__row, &build);
	/* If the CFI gives no rule, do not wait for those from instructions. */
	if (!err && !build.stats->covered && table->partial) {
		table->partial = false;
		err = sframe_code__read(cfi, NULL, &build.code);
		build.stats->insn = build.code.stats;
	}
	if (!err)
		err = sframe_build__derived(&build, ULLONG_MAX);
	if (!err)
		err = sframe_build__flush(&build);
	if (!err && !build.stats->covered && !build.stats->derived)
		err = -ENODATA;
	if (err)
		goto out;

	put_unaligned_le32(SFRAME_AUX_VERSION, &aux.version);
	memcpy(aux.fingerprint, sframe_cfi__fingerprint(cfi), sizeof(aux.fingerprint));
	put_unaligned_le64(build.stats->code, &aux.code);
	put_unaligned_le64(build.stats->described, &aux.described);
	put_unaligned_le64(build.stats->covered, &aux.covered);
	put_unaligned_le64(build.stats->derived, &aux.derived);
	if (!table->partial)
		sframe_code__identify(cfi, &build.code, &aux);
	memcpy(aux.build_id, bid->data, sizeof(aux.build_id));
	aux.build_id_size = bid->size;
	aux.partial = table->partial;

	err = sframe_writer__finish(build.writer, &aux, &table->data, &table->size);
	if (!err)
		table->bid = *bid;
out:
	sframe_code__exit(&build.code);
	sframe_writer__delete(build.writer);
	return err;
}
