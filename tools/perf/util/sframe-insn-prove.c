// SPDX-License-Identifier: GPL-2.0
/* Keeps the facts of the last pass over a function */
#include <stdlib.h>
#include <linux/kernel.h>

#include "util/sframe-insn-flow.h"

static void note_memory(struct sframe_flow *f, const struct sframe_op *op,
			const struct sframe_insn_state *st)
{
	struct sframe_value base = { .kind = VAL_UNKNOWN };
	u64 *data;

	if (op->base == BASE_RIP)
		base = sframe_value__new(VAL_CONST, op->imm);
	else if (op->base < 16)
		base = st->reg[op->base];

	if (base.kind == VAL_CONST) {
		if (!op->memory || op->kind == OP_CALL_ANY || op->kind == OP_JMP_ANY ||
		    !sframe_analysis__section(f->a, base.v + (op->base < 16 ? op->disp : 0)))
			return;
		data = sframe_vec__add(&f->data, sizeof(*data));
		if (!data)
			sframe_flow__no_memory(f);
		else
			*data = base.v + (op->base < 16 ? op->disp : 0);
		return;
	}
	if (op->store || op->kind == OP_STORE) {
		base = sframe_state__address(st, op);
		if (base.kind == VAL_CFA && base.v + op->store > 0)
			sframe_flow__may_store(f, base.v, base.v + op->store);
	}
}

/*
 * The callee's unwinding ends here. It gives the values of rsp and perhaps of rbp only. What is
 * below rsp, the callee and its return address overwrite.
 */
static bool call_rule(struct sframe_flow *f, const struct sframe_op *op,
		      const struct sframe_insn_state *st, struct sframe_insn_rule *rule)
{
	struct sframe_insn_state known = *st;
	u64 target = op->kind == OP_CALL ? op->imm : 0;
	u32 saved = ABI_SAVED, index;

	if (op->kind == OP_CALL_ANY && op->src < 16 && st->reg[op->src].kind == VAL_CONST)
		target = st->reg[op->src].v;
	if (target) {
		index = sframe_analysis__find(f->a, target);
		if (index != NO_FUNC && FUNC(f->a, index)->status == FUNC_DONE)
			saved = FUNC(f->a, index)->saved;
	}
	sframe_state__call(&known, saved & BIT_OF(RBP), 0, 0);
	return sframe_state__rule(&known, rule, f->lax);
}

void sframe_flow__note_insn(struct sframe_flow *f, const struct flow_insn *insn,
			    const struct sframe_insn_state *st)
{
	struct sframe_flow_row *row;

	if (f->pass == PASS_TRACE) {
		f->a->in->trace(insn->addr, st, f->a->in->arg);
		return;
	}
	if (f->pass != PASS_CHECK)
		return;
	row = sframe_vec__add(&f->rows, sizeof(*row));
	if (!row) {
		sframe_flow__no_memory(f);
		return;
	}
	row->addr = insn->addr;
	row->len = insn->op.len;
	row->block = f->block;
	if (insn->op.kind == OP_CALL || insn->op.kind == OP_CALL_ANY)
		row->valid = call_rule(f, &insn->op, st, &row->rule);
	else
		row->valid = sframe_state__rule(st, &row->rule, f->lax);
	if (f->lax && row->valid && !sframe_state__rule(st, &row->rule, false))
		f->weak = true;
	note_memory(f, &insn->op, st);
	/* Nobody but a return may give up the return address. */
	if (st->reg[RSP].kind == VAL_CFA && st->reg[RSP].v > -8)
		sframe_flow__fail(f, SFRAME_INSN_UNBALANCED);
}

static int edge_cmp_to(const void *a, const void *b)
{
	const struct flow_edge *x = a, *y = b;

	return x->to < y->to ? -1 : x->to > y->to;
}

static int edge_cmp_from(const void *a, const void *b)
{
	const struct flow_edge *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

static size_t first_edge(struct sframe_flow *f, u32 block, bool to)
{
	struct flow_edge *edge = f->edges.data;
	size_t low = 0, high = f->edges.nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if ((to ? edge[mid].to : edge[mid].from) < block)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void push_block(struct sframe_flow *f, u32 block)
{
	u32 *item = sframe_vec__add(&f->queue, sizeof(*item));

	if (item)
		*item = block;
	else
		sframe_flow__no_memory(f);
}

/*
 * A call may be the last thing that a path does. If the code after it leads out of the function
 * with a balanced stack, the call does return. Otherwise that may be another function.
 */
void sframe_flow__drop_unproved(struct sframe_flow *f)
{
	struct sframe_flow_row *row = f->rows.data;
	struct flow_edge *edge = f->edges.data;
	size_t i, nr = 0;
	u32 block;

	if (f->a->err || f->a->exhausted || f->verdict == SFRAME_INSN_BUDGET)
		return;
	f->queue.nr = 0;
	if (f->edges.nr)
		qsort(edge, f->edges.nr, sizeof(*edge), edge_cmp_to);
	for (i = 0; i < f->blocks.nr; i++) {
		if (BLOCK(f, i)->exits)
			push_block(f, i);
	}
	while (f->queue.nr && !f->a->err) {
		block = ((u32 *)f->queue.data)[--f->queue.nr];
		for (i = first_edge(f, block, true); i < f->edges.nr && edge[i].to == block; i++) {
			if (BLOCK(f, edge[i].from)->exits)
				continue;
			BLOCK(f, edge[i].from)->exits = true;
			push_block(f, edge[i].from);
		}
	}
	if (f->edges.nr)
		qsort(edge, f->edges.nr, sizeof(*edge), edge_cmp_from);
	BLOCK(f, 0)->proved = true;
	push_block(f, 0);
	while (f->queue.nr && !f->a->err) {
		block = ((u32 *)f->queue.data)[--f->queue.nr];
		i = first_edge(f, block, false);
		for (; i < f->edges.nr && edge[i].from == block; i++) {
			if (BLOCK(f, edge[i].to)->proved ||
			    (edge[i].call && !BLOCK(f, edge[i].to)->exits))
				continue;
			BLOCK(f, edge[i].to)->proved = true;
			push_block(f, edge[i].to);
		}
	}
	f->queue.nr = 0;
	for (i = 0; i < f->rows.nr; i++) {
		if (BLOCK(f, row[i].block)->proved)
			row[nr++] = row[i];
	}
	f->rows.nr = nr;
}

static int row_cmp(const void *a, const void *b)
{
	const struct sframe_flow_row *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

void sframe_flow__check_rows(struct sframe_flow *f)
{
	struct sframe_flow_row *row = f->rows.data;
	size_t i;

	if (f->rows.nr)
		qsort(row, f->rows.nr, sizeof(*row), row_cmp);
	for (i = 1; i < f->rows.nr; i++) {
		if (row[i - 1].addr + row[i - 1].len > row[i].addr)
			sframe_flow__fail(f, SFRAME_INSN_CONFLICT);
	}
}
