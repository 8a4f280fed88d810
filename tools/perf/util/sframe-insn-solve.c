// SPDX-License-Identifier: GPL-2.0
/* Analyses callees before callers, and drops functions that rely on failed ones */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/sizes.h>

#include "util/sframe-insn-internal.h"

/* How often a function is analysed again because it calls functions that are not known yet */
#define MAX_RUNS	8

/* Shortest function (in instructions) that may follow unknown bytes */
#define MIN_FAR		4

/* Rows of all functions together. libx265 has a tenth of that. */
#define MAX_ROWS	SZ_1M

/* Pairs of a function and one that it relies on, and functions that wait to be analysed */
#define MAX_PAIRS	SZ_4M

/* May this function keep its instructions? */
static bool fits(struct sframe_analysis *a, bool strict)
{
	const struct sframe_vec *rows = sframe_flow__rows(a->flow);
	const struct sframe_flow_row *row = rows->data;
	struct sframe_insn_section *section;
	bool ok = true;
	size_t i;
	u16 *mark;
	u32 j;

	for (i = 0; i < rows->nr; i++) {
		section = sframe_analysis__section(a, row[i].addr);
		mark = section->mark + (row[i].addr - section->code->addr);
		for (j = 0; j < row[i].len; j++) {
			if (!(mark[j] & MARK_COVERED) &&
			    !(mark[j] & (j ? MARK_START | (strict ? MARK_DATA : 0) : MARK_BODY)))
				continue;
			ok = false;
			if (!strict)
				mark[j] |= MARK_CLASH;
		}
	}
	return ok;
}

static void mark_rows(struct sframe_analysis *a, enum sframe_insn_verdict verdict, bool strict)
{
	const struct sframe_vec *rows = sframe_flow__rows(a->flow);
	const struct sframe_flow_row *row = rows->data;
	struct sframe_insn_section *section;
	u64 off;
	size_t i;
	u32 j;

	for (i = 0; i < rows->nr; i++) {
		section = sframe_analysis__section(a, row[i].addr);
		off = row[i].addr - section->code->addr;
		for (j = 0; j < row[i].len && off + j < section->code->size; j++) {
			if (!strict || !verdict)
				section->mark[off + j] |= j ? MARK_BODY : MARK_START;
			if (verdict && !section->why[off + j])
				section->why[off + j] = verdict | (strict ? WHY_GUESS : 0);
			else if (verdict && !strict)
				section->why[off + j] = verdict;
		}
	}
}

static bool add_rows(struct sframe_analysis *a, u32 func)
{
	const struct sframe_vec *rows = sframe_flow__rows(a->flow);
	const struct sframe_flow_row *row = rows->data;
	struct sframe_insn_row *last = NULL;
	size_t i;

	for (i = 0; i < rows->nr; i++) {
		if (!row[i].valid) {
			last = NULL;
			continue;
		}
		if (last && last->end == row[i].addr &&
		    row[i].addr != sframe_analysis__section(a, row[i].addr)->code->addr &&
		    !memcmp(&last->rule, &row[i].rule, sizeof(last->rule))) {
			last->end += row[i].len;
			continue;
		}
		if (a->rows.nr == MAX_ROWS) {
			a->exhausted = true;
			return true;
		}
		last = sframe_vec__add(&a->rows, sizeof(*last));
		if (!last)
			return false;
		last->start = row[i].addr;
		last->end = row[i].addr + row[i].len;
		last->func = func;
		last->rule = row[i].rule;
	}
	return true;
}

static bool add_pairs(struct sframe_analysis *a, u32 func)
{
	const struct sframe_vec *deps = sframe_flow__deps(a->flow);
	const u32 *dep = deps->data;
	struct sframe_pair *pair;
	size_t i;

	for (i = 0; i < deps->nr; i++) {
		if (FUNC(a, dep[i])->status == FUNC_FAILED)
			continue;
		if (a->pairs.nr == MAX_PAIRS) {
			a->exhausted = true;
			return true;
		}
		pair = sframe_vec__add(&a->pairs, sizeof(*pair));
		if (!pair)
			return false;
		pair->caller = func;
		pair->callee = dep[i];
		pair->early = FUNC(a, dep[i])->status != FUNC_DONE;
	}
	return true;
}

/* Keep or drop the rules of a function. */
static void finish(struct sframe_analysis *a, u32 index, enum sframe_insn_verdict verdict)
{
	const struct sframe_vec *data = sframe_flow__data(a->flow);
	struct sframe_func *func = FUNC(a, index);
	bool strict = sframe_func__strict(func);
	size_t i;

	if (!verdict && !fits(a, strict))
		verdict = SFRAME_INSN_CONFLICT;
	/* A few bytes of data may look like code. */
	if (!verdict && func->far && sframe_flow__rows(a->flow)->nr < MIN_FAR)
		verdict = SFRAME_INSN_UNBALANCED;
	func->verdict = verdict;
	func->status = verdict ? FUNC_FAILED : FUNC_DONE;
	mark_rows(a, verdict, strict);
	if (verdict) {
		if (a->in->failed)
			a->in->failed(func->addr, func->source, verdict,
				      sframe_flow__where(a->flow), a->in->arg);
		return;
	}
	for (i = 0; i < data->nr; i++)
		sframe_analysis__add_mark(a, ((u64 *)data->data)[i], MARK_DATA);
	if (!add_rows(a, index) || !add_pairs(a, index))
		a->err = -ENOMEM;
	else if (a->in->trace)
		sframe_flow__trace(a->flow);
}

/* Analyse a function after those that it calls. */
int sframe_analysis__solve(struct sframe_analysis *a, u32 func)
{
	struct sframe_vec stack = {};
	const struct sframe_vec *deps;
	u32 *item, i, index;
	bool last, waits;

	item = sframe_vec__add(&stack, sizeof(*item));
	if (!item)
		return -ENOMEM;
	*item = func;
	while (stack.nr && !a->err && !a->exhausted) {
		enum sframe_insn_verdict verdict;

		index = ((u32 *)stack.data)[stack.nr - 1];
		if (FUNC(a, index)->status > FUNC_ACTIVE) {
			stack.nr--;
			continue;
		}
		FUNC(a, index)->status = FUNC_ACTIVE;
		last = ++FUNC(a, index)->runs >= MAX_RUNS;
		verdict = sframe_flow__run(a->flow, index, last);
		deps = sframe_flow__deps(a->flow);
		waits = false;
		if ((verdict == SFRAME_INSN_BAD_DECODE || verdict == SFRAME_INSN_BUDGET) &&
		    sframe_func__strict(FUNC(a, index)))
			last = true;
		for (i = 0; i < deps->nr && !last; i++) {
			u32 dep = ((u32 *)deps->data)[i];

			if (FUNC(a, dep)->status != FUNC_NEW)
				continue;
			if (stack.nr == MAX_PAIRS) {
				a->exhausted = true;
				break;
			}
			item = sframe_vec__add(&stack, sizeof(*item));
			if (!item) {
				a->err = -ENOMEM;
				break;
			}
			*item = dep;
			waits = true;
		}
		if (!waits && !a->err && !a->exhausted)
			finish(a, index, verdict);
	}
	free(stack.data);
	return a->err;
}

static int pair_cmp(const void *a, const void *b)
{
	const struct sframe_pair *x = a, *y = b;

	return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static int caller_cmp(const void *a, const void *b)
{
	const struct sframe_pair *x = a, *y = b;

	return x->caller < y->caller ? -1 : x->caller > y->caller;
}

/* First pair with this callee (or caller if @caller) */
static size_t first_pair(const struct sframe_vec *pairs, u32 func, bool caller)
{
	const struct sframe_pair *pair = pairs->data;
	size_t low = 0, high = pairs->nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if ((caller ? pair[mid].caller : pair[mid].callee) < func)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool push_func(struct sframe_vec *stack, u32 func)
{
	u32 *item = sframe_vec__add(stack, sizeof(*item));

	if (item)
		*item = func;
	return item;
}

/* Drop functions that rely on functions that failed later on. */
int sframe_analysis__drop_dependents(struct sframe_analysis *a)
{
	struct sframe_vec stack = {};
	const struct sframe_insn_row *row = a->rows.data;
	struct sframe_pair *pair = a->pairs.data;
	int err = 0;
	size_t i;
	u64 addr;

	if (a->pairs.nr)
		qsort(pair, a->pairs.nr, sizeof(*pair), pair_cmp);
	for (i = 0; i < a->rows.nr && !a->exhausted; i++) {
		struct sframe_func *func = FUNC(a, row[i].func);
		struct sframe_insn_section *section = sframe_analysis__section(a, row[i].start);

		for (addr = row[i].start; addr < row[i].end && !func->verdict; addr++) {
			if (section->mark[addr - section->code->addr] & MARK_CLASH)
				func->verdict = SFRAME_INSN_CONFLICT;
			/* Many rows may be for the same code. */
			if (!(addr % SZ_64) && !sframe_analysis__step(a))
				break;
		}
	}
	for (i = 0; i < a->func.nr; i++) {
		struct sframe_func *func = FUNC(a, i);

		/* Callers assume that registers and their own slots survive. */
		if (func->status == FUNC_DONE && func->returns && !func->verdict &&
		    ((func->saved & ABI_SAVED) != ABI_SAVED || func->store_max > 0))
			func->lossy = true;
		if ((func->verdict || func->status != FUNC_DONE || func->lossy) &&
		    !push_func(&stack, i))
			err = -ENOMEM;
	}
	while (stack.nr && !err) {
		u32 callee = ((u32 *)stack.data)[--stack.nr];
		bool weak = FUNC(a, callee)->lossy && !FUNC(a, callee)->verdict;

		for (i = first_pair(&a->pairs, callee, false); i < a->pairs.nr; i++) {
			struct sframe_func *caller = FUNC(a, pair[i].caller);

			if (pair[i].callee != callee)
				break;
			/* Only callers in a circle with it were analysed before it was. */
			if (caller->verdict || (weak && !pair[i].early))
				continue;
			caller->verdict = SFRAME_INSN_UNBALANCED;
			if (!push_func(&stack, pair[i].caller))
				err = -ENOMEM;
		}
	}
	free(stack.data);
	return err;
}

/* Drop functions that break the ABI unless something that is proved calls them. */
int sframe_analysis__drop_weak(struct sframe_analysis *a)
{
	struct sframe_vec stack = {};
	struct sframe_pair *pair = a->pairs.data;
	u8 *proved = calloc(a->func.nr + 1, 1);
	int err = proved ? 0 : -ENOMEM;
	size_t i;

	if (a->pairs.nr)
		qsort(pair, a->pairs.nr, sizeof(*pair), caller_cmp);
	for (i = 0; i < a->func.nr && !err; i++) {
		struct sframe_func *func = FUNC(a, i);

		proved[i] = func->status == FUNC_DONE && !func->verdict && !func->weak;
		if (proved[i] && !push_func(&stack, i))
			err = -ENOMEM;
	}
	while (stack.nr && !err) {
		u32 caller = ((u32 *)stack.data)[--stack.nr];

		for (i = first_pair(&a->pairs, caller, true); i < a->pairs.nr; i++) {
			u32 callee = pair[i].callee;

			if (pair[i].caller != caller)
				break;
			if (proved[callee] || FUNC(a, callee)->verdict)
				continue;
			proved[callee] = true;
			if (!push_func(&stack, callee))
				err = -ENOMEM;
		}
	}
	for (i = 0; i < a->func.nr && !err; i++) {
		if (FUNC(a, i)->weak && !proved[i] && !FUNC(a, i)->verdict)
			FUNC(a, i)->verdict = SFRAME_INSN_UNBALANCED;
	}
	free(proved);
	free(stack.data);
	return err;
}
