// SPDX-License-Identifier: GPL-2.0
/*
 * Follow the instructions of one function
 *
 * The state at the start of each block has the facts that hold on all paths to it. When no state
 * changes any more, a last pass over all blocks derives the rules and checks every exit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/sizes.h>

#include "util/sframe-insn-flow.h"

/* Larger functions fail */
#define MAX_INSNS	SZ_256K
#define MAX_BLOCKS	SZ_32K
#define MAX_EDGES	SZ_512K

/* Nobody will miss a speculative function that is longer. */
#define MAX_STRICT	SZ_64K

struct sframe_flow *sframe_flow__new(struct sframe_analysis *a)
{
	struct sframe_flow *f = calloc(1, sizeof(*f));

	if (f)
		f->a = a;
	return f;
}

void sframe_flow__delete(struct sframe_flow *f)
{
	if (!f)
		return;
	free(f->insns.data);
	free(f->hash.data);
	free(f->blocks.data);
	free(f->queue.data);
	free(f->tables.data);
	free(f->labels.data);
	free(f->users.data);
	free(f->edges.data);
	free(f->rows.data);
	free(f->deps.data);
	free(f->data.data);
	free(f);
}

u64 sframe_flow__where(const struct sframe_flow *f)
{
	return f->where;
}

const struct sframe_vec *sframe_flow__rows(const struct sframe_flow *f)
{
	return &f->rows;
}

const struct sframe_vec *sframe_flow__deps(const struct sframe_flow *f)
{
	return &f->deps;
}

const struct sframe_vec *sframe_flow__data(const struct sframe_flow *f)
{
	return &f->data;
}

void sframe_flow__fail(struct sframe_flow *f, enum sframe_insn_verdict verdict)
{
	if (f->verdict != SFRAME_INSN_OK)
		return;
	f->verdict = verdict;
	f->where = f->addr;
}

/* Failures that depend on the state count only if the state is final. */
void sframe_flow__fail_late(struct sframe_flow *f, enum sframe_insn_verdict verdict)
{
	if (f->pass == PASS_CHECK)
		sframe_flow__fail(f, verdict);
}

void sframe_flow__no_memory(struct sframe_flow *f)
{
	f->a->err = -ENOMEM;
	sframe_flow__fail(f, SFRAME_INSN_BUDGET);
}

bool sframe_flow__step(struct sframe_flow *f)
{
	if (f->a->err || !sframe_analysis__step(f->a)) {
		sframe_flow__fail(f, SFRAME_INSN_BUDGET);
		return false;
	}
	if (f->strict && f->a->steps - f->first_step > MAX_STRICT) {
		sframe_flow__fail(f, SFRAME_INSN_BUDGET);
		return false;
	}
	return true;
}

/* Make the table of instructions twice as large. */
static bool grow_hash(struct sframe_flow *f)
{
	size_t room = f->hash.room ? f->hash.room * 2 : 1024, i, j;
	u32 *table = calloc(room, sizeof(*table));

	if (!table)
		return false;
	for (i = 0; i < f->insns.nr; i++) {
		j = sframe_analysis__hash(f->a, INSN(f, i)->addr) & (room - 1);
		while (table[j])
			j = (j + 1) & (room - 1);
		table[j] = i + 1;
	}
	free(f->hash.data);
	f->hash.data = table;
	f->hash.room = room;
	return true;
}

/* Find the instruction at @addr, or decode it. */
static struct flow_insn *get_insn(struct sframe_flow *f, u64 addr)
{
	struct flow_insn *insn;
	u32 *table, i;

	if (f->insns.nr * 2 >= f->hash.room && !grow_hash(f)) {
		sframe_flow__no_memory(f);
		return NULL;
	}
	table = f->hash.data;
	i = sframe_analysis__hash(f->a, addr) & (f->hash.room - 1);
	while (table[i]) {
		if (INSN(f, table[i] - 1)->addr == addr)
			return INSN(f, table[i] - 1);
		i = (i + 1) & (f->hash.room - 1);
	}
	if (f->insns.nr >= MAX_INSNS) {
		sframe_flow__fail(f, SFRAME_INSN_BUDGET);
		return NULL;
	}
	insn = sframe_vec__add(&f->insns, sizeof(*insn));
	if (!insn) {
		sframe_flow__no_memory(f);
		return NULL;
	}
	insn->addr = addr;
	insn->head = NO_BLOCK;
	insn->block = NO_BLOCK;
	if (!sframe_analysis__decode(f->a, addr, &insn->op) || (f->strict && insn->op.odd))
		insn->op.kind = OP_BAD;
	table[i] = f->insns.nr;
	return insn;
}

void sframe_flow__enqueue(struct sframe_flow *f, u32 block)
{
	u32 *item;

	if (BLOCK(f, block)->queued)
		return;
	item = sframe_vec__add(&f->queue, sizeof(*item));
	if (!item) {
		sframe_flow__no_memory(f);
		return;
	}
	*item = block;
	BLOCK(f, block)->queued = true;
}

/* A path with the state @st leads to @addr. */
void sframe_flow__flow_to(struct sframe_flow *f, u64 addr, const struct sframe_insn_state *st)
{
	struct sframe_insn_state copy;
	struct flow_insn *insn;
	struct flow_block *block;
	struct flow_edge *edge;

	if (f->pass == PASS_TRACE)
		return;
	insn = get_insn(f, addr);
	if (!insn)
		return;
	if (f->pass == PASS_CHECK) {
		/* The data of jump tables changed in between. */
		if (insn->block == NO_BLOCK || f->edges.nr >= MAX_EDGES) {
			sframe_flow__fail(f, SFRAME_INSN_BAD_JUMP);
			return;
		}
		/* Each state that comes here must be in that of the block already. */
		copy = BLOCK(f, insn->block)->state;
		if (sframe_state__merge(&copy, st)) {
			sframe_flow__fail(f, SFRAME_INSN_CONFLICT);
			return;
		}
		edge = sframe_vec__add(&f->edges, sizeof(*edge));
		if (!edge)
			sframe_flow__no_memory(f);
		else
			*edge = (struct flow_edge) { f->block, insn->block, f->called };
		return;
	}
	if (insn->block != NO_BLOCK) {
		if (sframe_state__merge(&BLOCK(f, insn->block)->state, st))
			sframe_flow__enqueue(f, insn->block);
		return;
	}
	if (f->blocks.nr >= MAX_BLOCKS) {
		sframe_flow__fail(f, SFRAME_INSN_BUDGET);
		return;
	}
	block = sframe_vec__add(&f->blocks, sizeof(*block));
	if (!block) {
		sframe_flow__no_memory(f);
		return;
	}
	block->addr = addr;
	block->queued = false;
	block->state = *st;
	insn->block = f->blocks.nr - 1;
	/* The walk that came along here has to stop here now and to merge its state. */
	if (insn->head != NO_BLOCK)
		sframe_flow__enqueue(f, insn->head);
	sframe_flow__enqueue(f, insn->block);
}

/* The path goes on at @addr. Return false if it does not. */
static bool fall_to(struct sframe_flow *f, u64 addr, const struct sframe_insn_state *st)
{
	u16 mark = sframe_analysis__mark(f->a, addr);

	/* A call that does not return may be the last instruction of a function. */
	if (f->called && sframe_analysis__dead_end(f->a, addr))
		return false;
	if ((mark & MARK_COVERED) || !sframe_analysis__section(f->a, addr)) {
		sframe_flow__fail_late(f, SFRAME_INSN_BAD_JUMP);
		return false;
	}
	if ((mark & MARK_ENTRY) && addr != f->entry && sframe_flow__at_exit(f, st)) {
		sframe_flow__tail_jump(f, addr, st);
		return false;
	}
	return true;
}

static void walk(struct sframe_flow *f, u32 index)
{
	struct sframe_insn_state st = BLOCK(f, index)->state;
	u64 addr = BLOCK(f, index)->addr;
	struct flow_insn *insn;
	struct sframe_op op;

	f->block = index;
	f->called = false;
	while (sframe_flow__step(f)) {
		insn = get_insn(f, addr);
		if (!insn)
			return;
		if (insn->block != NO_BLOCK && insn->block != index) {
			sframe_flow__flow_to(f, addr, &st);
			return;
		}
		insn->head = index;
		f->addr = addr;
		op = insn->op;
		sframe_flow__note_insn(f, insn, &st);
		switch (op.kind) {
		case OP_BAD:
			sframe_flow__fail(f, SFRAME_INSN_BAD_DECODE);
			return;
		case OP_STOP:
			return;
		case OP_RET:
			if (!sframe_flow__at_exit(f, &st))
				sframe_flow__fail_late(f, SFRAME_INSN_UNBALANCED);
			sframe_flow__leave_function(f, sframe_state__saved(&st), true);
			f->rets++;
			return;
		case OP_JMP:
			sframe_flow__jump_to(f, op.imm, &st, true);
			return;
		case OP_JMP_ANY:
			sframe_flow__jump_any(f, &op, &st);
			return;
		case OP_CALL:
		case OP_CALL_ANY:
			if (!sframe_flow__call(f, &op, addr + op.len, &st))
				return;
			f->called = true;
			addr += op.len;
			if (fall_to(f, addr, &st))
				sframe_flow__flow_to(f, addr, &st);
			return;
		case OP_ADD_REG:
			sframe_flow__note_table(f, &op, &st);
			fallthrough;
		default:
			sframe_state__apply(&st, &op, addr);
			if (op.kind == OP_LEA || op.kind == OP_ADD_IMM)
				sframe_flow__note_label(f, st.reg[op.reg]);
			if (op.kind == OP_JCC)
				sframe_flow__jump_to(f, op.imm, &st, false);
			break;
		}
		addr += op.len;
		if (!fall_to(f, addr, &st))
			return;
	}
}

static void clear(struct sframe_flow *f)
{
	f->insns.nr = 0;
	f->blocks.nr = 0;
	f->queue.nr = 0;
	f->tables.nr = 0;
	f->labels.nr = 0;
	f->users.nr = 0;
	f->edges.nr = 0;
	f->rows.nr = 0;
	f->deps.nr = 0;
	f->data.nr = 0;
	/* One large function must not make each later one slow. */
	if (f->hash.room > 8192) {
		free(f->hash.data);
		f->hash.data = NULL;
		f->hash.room = 0;
	} else if (f->hash.data) {
		memset(f->hash.data, 0, f->hash.room * sizeof(u32));
	}
}

static void run(struct sframe_flow *f, u32 func, bool last)
{
	struct sframe_func *fn = FUNC(f->a, func);
	struct sframe_insn_state st;
	u32 i;

	clear(f);
	f->func = func;
	f->run++;
	f->addr = fn->addr;
	f->entry = fn->addr;
	f->strict = sframe_func__strict(fn);
	f->lax = f->strict && fn->called;
	f->weak = false;
	f->wide = false;
	f->jumps = false;
	f->stored = fn->source == SFRAME_INSN_RELOCATION &&
		    sframe_analysis__may_start(f->a, fn->addr);
	f->last = last;
	f->verdict = SFRAME_INSN_OK;
	f->first_step = f->a->steps;
	f->end = 0;
	f->pass = PASS_FIND;
	sframe_state__init(&st);
	sframe_flow__flow_to(f, f->entry, &st);
	while (f->queue.nr && !f->a->err && !f->a->exhausted) {
		i = ((u32 *)f->queue.data)[--f->queue.nr];
		BLOCK(f, i)->queued = false;
		walk(f, i);
		if (f->verdict == SFRAME_INSN_BUDGET || (f->strict && f->verdict))
			break;
	}

	f->pass = PASS_CHECK;
	f->saved = (1 << 16) - 1;
	f->exits = 0;
	f->sure = 0;
	f->rets = 0;
	f->store_min = 0;
	f->store_max = 0;
	for (i = 0; i < f->blocks.nr && !f->a->err && !f->a->exhausted; i++) {
		if (f->strict && f->verdict)
			break;
		walk(f, i);
	}
	sframe_flow__drop_unproved(f);
	sframe_flow__check_rows(f);
	/* Labels that only jump to each other, or to anywhere, prove nothing. */
	if (f->strict && (!f->sure || (f->stored && f->jumps && !f->rets)))
		sframe_flow__fail(f, SFRAME_INSN_UNBALANCED);
}

/**
 * sframe_flow__run - Analyse one function
 * @f:		Scratch memory; keeps the results
 * @func:	Number of the function
 * @last:	Its callees will not be analysed any more
 *
 * Return: the verdict. The function's summary is updated.
 */
enum sframe_insn_verdict sframe_flow__run(struct sframe_flow *f, u32 func, bool last)
{
	struct sframe_func *fn;

	f->tight = false;
	run(f, func, last);
	if (f->wide && f->verdict && !f->a->err && !f->a->exhausted) {
		f->tight = true;
		run(f, func, last);
	}
	fn = FUNC(f->a, func);
	fn->weak = f->weak;
	fn->saved = f->saved;
	fn->returns = f->exits;
	fn->store_min = f->store_min;
	fn->store_max = f->store_max;
	return f->verdict;
}

/* Show the states of the function that was analysed last to a test. */
void sframe_flow__trace(struct sframe_flow *f)
{
	u32 i;

	f->pass = PASS_TRACE;
	for (i = 0; i < f->blocks.nr; i++) {
		if (BLOCK(f, i)->proved)
			walk(f, i);
	}
}
