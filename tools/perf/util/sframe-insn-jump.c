// SPDX-License-Identifier: GPL-2.0
/* Where jumps and calls of a function lead to */
#include <linux/kernel.h>
#include <linux/sizes.h>

#include "util/sframe-insn-flow.h"

#define MAX_TABLES	64

#define MAX_TARGETS	4096

#define MAX_LABELS	64

/* Size of a function that jump tables are limited to */
#define MAX_FUNCTION	SZ_64K

/* Distance from a jump to the targets of its table */
#define MAX_TABLE_JUMP	SZ_32K

static bool add_dep(struct sframe_flow *f, u32 func)
{
	u32 *dep;

	if (FUNC(f->a, func)->needed == f->run)
		return true;
	dep = sframe_vec__add(&f->deps, sizeof(*dep));
	if (!dep) {
		sframe_flow__no_memory(f);
		return false;
	}
	*dep = func;
	FUNC(f->a, func)->needed = f->run;
	return true;
}

/* The function at @target, which this one calls or jumps to */
static u32 callee(struct sframe_flow *f, u64 target, bool called)
{
	u32 index = sframe_analysis__func(f->a, target, SFRAME_INSN_REFERENCE);
	struct sframe_func *func;

	if (index == NO_FUNC) {
		sframe_flow__no_memory(f);
		return NO_FUNC;
	}
	func = FUNC(f->a, index);
	if (called && !func->called) {
		func->called = true;
		/* Now it may fail no more. */
		if (func->status == FUNC_FAILED && sframe_func__strict(func)) {
			func->status = FUNC_NEW;
			func->runs = 0;
		}
	}
	return add_dep(f, index) ? index : NO_FUNC;
}

bool sframe_flow__at_exit(struct sframe_flow *f, const struct sframe_insn_state *st)
{
	return sframe_state__at_entry(st, f->lax);
}

/* @sure: The exit rests on no assumption about another function. */
void sframe_flow__leave_function(struct sframe_flow *f, u32 saved, bool sure)
{
	if ((saved & ABI_SAVED) != ABI_SAVED && f->strict) {
		if (f->lax)
			f->weak = true;
		else
			sframe_flow__fail_late(f, SFRAME_INSN_UNBALANCED);
	}
	f->saved &= saved;
	f->exits++;
	f->sure += sure;
	BLOCK(f, f->block)->exits = true;
}

void sframe_flow__may_store(struct sframe_flow *f, s64 min, s64 max)
{
	if (min < 0)
		min = 0;
	if (min >= max)
		return;
	f->store_min = min(f->store_min, min);
	f->store_max = max(f->store_max, max);
}

/* The known effects of a function on the state of its caller */
static bool summary(struct sframe_flow *f, u32 index, struct sframe_func *sum)
{
	*sum = *FUNC(f->a, index);
	switch (sum->status) {
	case FUNC_DONE:
		return true;
	case FUNC_FAILED:
		return false;
	case FUNC_NEW:
		if (f->last && index != f->func)
			return false;
		fallthrough;
	default:
		/* Assume the best. A function in a circle is checked later. */
		sum->saved = sum->status == FUNC_NEW ? 0xffff : ABI_SAVED;
		sum->returns = true;
		sum->store_min = 0;
		sum->store_max = 0;
		return true;
	}
}

/* A jump in the state of a function's start leaves this function for another one. */
void sframe_flow__tail_jump(struct sframe_flow *f, u64 target, const struct sframe_insn_state *st)
{
	struct sframe_func sum;
	u32 index;

	if (sframe_analysis__mark(f->a, target) & MARK_COVERED) {
		sframe_flow__leave_function(f, sframe_state__saved(st) & ABI_SAVED, true);
		return;
	}
	index = callee(f, target, f->lax);
	if (index == NO_FUNC)
		return;
	if (!summary(f, index, &sum)) {
		/* Its callers do not know its effects. */
		if (f->strict)
			sframe_flow__fail_late(f, SFRAME_INSN_BAD_JUMP);
		sframe_flow__leave_function(f, sframe_state__saved(st) & BIT_OF(RSP), false);
		return;
	}
	/* A function that never returns proves nothing. */
	if (!sum.returns)
		return;
	sframe_flow__may_store(f, sum.store_min, sum.store_max);
	sframe_flow__leave_function(f, sframe_state__saved(st) & sum.saved,
				    sum.status == FUNC_DONE);
}

/* The next address behind @addr that may start another function; it is not looked for forever. */
static u64 next_function(struct sframe_flow *f, u64 addr)
{
	struct sframe_insn_section *section = sframe_analysis__section(f->a, addr);
	u64 i = addr - section->code->addr, end = i + MAX_FUNCTION;

	for (i++; i < section->code->size && i < end; i++) {
		if (section->mark[i] & (MARK_COVERED | MARK_ENTRY | MARK_HINT))
			break;
	}
	/* Looking costs time, too. */
	f->a->steps = min(f->a->in->max_steps, f->a->steps + (i + MAX_FUNCTION - end) / 32);
	return section->code->addr + i;
}

/*
 * Does a jump to @target lead to another function? Code that needs values which this
 * function has put into registers is a part of it.
 */
static bool is_elsewhere(struct sframe_flow *f, u64 target)
{
	u32 index;

	if (!f->end)
		f->end = next_function(f, f->entry);
	if (target >= f->entry && target < f->end)
		return false;
	index = sframe_analysis__find(f->a, target);
	return index == NO_FUNC || FUNC(f->a, index)->status != FUNC_FAILED;
}

void sframe_flow__jump_to(struct sframe_flow *f, u64 target, const struct sframe_insn_state *st,
			  bool always)
{
	u16 mark = sframe_analysis__mark(f->a, target);

	if (!sframe_analysis__section(f->a, target)) {
		sframe_flow__fail_late(f, SFRAME_INSN_BAD_JUMP);
		return;
	}
	if (mark & MARK_COVERED) {
		if (sframe_flow__at_exit(f, st) &&
		    ((mark & MARK_FDE) || sframe_analysis__stub(f->a, target)))
			sframe_flow__tail_jump(f, target, st);
		else
			sframe_flow__fail_late(f, SFRAME_INSN_UNBALANCED);
		return;
	}
	if (target != f->entry && sframe_flow__at_exit(f, st) &&
	    ((mark & MARK_ENTRY) || (always && is_elsewhere(f, target)))) {
		sframe_flow__tail_jump(f, target, st);
		return;
	}
	sframe_flow__flow_to(f, target, st);
}

static bool read_offset(struct sframe_flow *f, u64 addr, int type, s64 *value)
{
	s32 large;
	u16 small;

	if (!f->a->in->read)
		return false;
	if (type == TABLE_S32) {
		if (!f->a->in->read(addr, &large, sizeof(large), f->a->in->arg))
			return false;
		*value = large;
		return true;
	}
	if (!f->a->in->read(addr, &small, sizeof(small), f->a->in->arg))
		return false;
	*value = type == TABLE_U16 ? small : (s16)small;
	return true;
}

/* May a jump table of the instruction at hand lead to @target? */
static bool may_reach(struct sframe_flow *f, u64 target)
{
	struct sframe_insn_section *section = sframe_analysis__section(f->a, target);

	return section && section == sframe_analysis__section(f->a, f->addr) &&
	       (section->mark[target - section->code->addr] &
		(MARK_COVERED | MARK_ENTRY | MARK_LINE)) == MARK_LINE &&
	       target < f->addr + MAX_TABLE_JUMP && target + MAX_TABLE_JUMP > f->addr;
}

/*
 * Follow a jump table of relative addresses. It may start with some that are never used. It ends
 * where one leads out of the function. A reference to the next table may be to shortly
 * before its start. Addresses too many do no harm: they only add paths.
 */
static void jump_table(struct sframe_flow *f, s64 index, const struct sframe_insn_state *st)
{
	u64 addr, base, end, target, near;
	u32 i, found = 0, skipped = 0, size;
	const struct flow_table *table;
	s64 value;

	/* Memory was lacking for it. */
	if ((size_t)index >= f->tables.nr)
		return;
	table = (struct flow_table *)f->tables.data + index;
	addr = table->addr;
	base = table->base;
	size = table->type == TABLE_S32 ? 4 : 2;

	if (base < addr && addr - base <= 256 && !((addr - base) % size))
		addr = base;
	end = sframe_analysis__next_ref(f->a, max(addr, table->addr));
	near = next_function(f, f->addr);
	for (i = 0; i < MAX_TARGETS && sframe_flow__step(f); i++, addr += size) {
		if (!read_offset(f, addr, table->type, &value))
			break;
		target = base + value;
		if (addr + size > end && addr - end > size)
			break;
		if (!value || !may_reach(f, target)) {
			target = 0;
		} else if (target < f->entry || target >= near) {
			if (f->tight || addr + size > end)
				target = 0;
			else
				f->wide = true;
		}
		if (target) {
			found++;
			sframe_flow__flow_to(f, target, st);
		} else if (found > 1 || ++skipped > 8) {
			break;
		}
	}
	if (!found)
		sframe_flow__fail_late(f, SFRAME_INSN_BAD_JUMP);
}

/* Remember an address of code that the function takes. */
void sframe_flow__note_label(struct sframe_flow *f, struct sframe_value value)
{
	u64 *label = f->labels.data;
	size_t i;

	if (f->pass != PASS_FIND || value.kind != VAL_CONST ||
	    !sframe_analysis__section(f->a, value.v))
		return;
	for (i = 0; i < f->labels.nr; i++) {
		if (label[i] == (u64)value.v)
			return;
	}
	/* Jumps to one of that many fail. */
	if (f->labels.nr > MAX_LABELS)
		return;
	label = sframe_vec__add(&f->labels, sizeof(*label));
	if (!label) {
		sframe_flow__no_memory(f);
		return;
	}
	*label = value.v;
	for (i = 0; i < f->users.nr; i++)
		sframe_flow__enqueue(f, ((u32 *)f->users.data)[i]);
}

/* A jump to any of the addresses that the function takes */
static void jump_label(struct sframe_flow *f, const struct sframe_insn_state *st)
{
	size_t i;
	u32 *user;

	if (f->labels.nr > MAX_LABELS) {
		sframe_flow__fail_late(f, SFRAME_INSN_BAD_JUMP);
		return;
	}
	for (i = 0; i < f->labels.nr && sframe_flow__step(f); i++)
		sframe_flow__jump_to(f, ((u64 *)f->labels.data)[i], st, true);
	if (f->pass != PASS_FIND || BLOCK(f, f->block)->user)
		return;
	user = sframe_vec__add(&f->users, sizeof(*user));
	if (!user) {
		sframe_flow__no_memory(f);
		return;
	}
	*user = f->block;
	BLOCK(f, f->block)->user = true;
}

void sframe_flow__jump_any(struct sframe_flow *f, const struct sframe_op *op,
			   const struct sframe_insn_state *st)
{
	struct sframe_value value = sframe_value__new(VAL_UNKNOWN, 0);

	if (op->src < 16)
		value = st->reg[op->src];
	if (value.kind == VAL_CONST) {
		sframe_flow__jump_to(f, value.v, st, true);
	} else if (value.kind == VAL_LABEL) {
		jump_label(f, st);
	} else if (value.kind == VAL_TARGET) {
		jump_table(f, value.v, st);
	} else if (sframe_flow__at_exit(f, st) &&
		   (!f->strict || f->lax || f->stored || op->base == BASE_RIP)) {
		if (f->lax && !f->stored && op->base != BASE_RIP)
			f->weak = true;
		if (op->base != BASE_RIP)
			f->jumps = true;
		sframe_flow__leave_function(f, sframe_state__saved(st) & ABI_SAVED, true);
	} else {
		sframe_flow__fail_late(f, SFRAME_INSN_BAD_JUMP);
	}
}

/* Return true if the path goes on behind the call. */
bool sframe_flow__call(struct sframe_flow *f, const struct sframe_op *op, u64 next,
		       struct sframe_insn_state *st)
{
	struct sframe_func sum = { .saved = ABI_SAVED, .returns = true };
	u64 target = op->imm;
	bool covered;

	if (op->kind == OP_CALL_ANY) {
		if (op->src >= 16 || st->reg[op->src].kind != VAL_CONST) {
			sframe_state__call(st, ABI_SAVED, 0, 0);
			return true;
		}
		target = st->reg[op->src].v;
	}
	covered = sframe_analysis__is_covered(f->a, target);
	if (target == next || (!covered && !sframe_analysis__section(f->a, target))) {
		sframe_flow__fail_late(f, SFRAME_INSN_BAD_JUMP);
		return false;
	}
	if (!covered) {
		u32 index = callee(f, target, true);

		if (index == NO_FUNC)
			return false;
		if (!summary(f, index, &sum)) {
			sframe_state__forget(st);
			return true;
		}
		if (!sum.returns)
			return false;
	}
	if (st->reg[RSP].kind == VAL_CFA)
		sframe_flow__may_store(f, st->reg[RSP].v + sum.store_min,
				       st->reg[RSP].v + sum.store_max);
	sframe_state__call(st, sum.saved, sum.store_min, sum.store_max);
	return true;
}

/* Where a jump table was loaded, remember its base when it is added. */
void sframe_flow__note_table(struct sframe_flow *f, struct sframe_op *op,
			     const struct sframe_insn_state *st)
{
	struct sframe_value a = st->reg[op->reg], b = st->reg[op->src];
	struct flow_table *table = f->tables.data;
	struct flow_table wanted = {};
	size_t i;

	if (a.kind == VAL_TABLE && b.kind == VAL_CONST) {
		wanted.addr = a.v >> 2;
		wanted.type = a.v & 3;
		wanted.base = b.v;
	} else if (a.kind == VAL_CONST && b.kind == VAL_TABLE) {
		wanted.addr = b.v >> 2;
		wanted.type = b.v & 3;
		wanted.base = a.v;
	} else {
		return;
	}
	for (i = 0; i < f->tables.nr; i++) {
		if (table[i].addr == wanted.addr && table[i].base == wanted.base &&
		    table[i].type == wanted.type)
			break;
	}
	if (i == f->tables.nr) {
		if (i == MAX_TABLES) {
			sframe_flow__fail(f, SFRAME_INSN_BUDGET);
			return;
		}
		table = sframe_vec__add(&f->tables, sizeof(*table));
		if (!table) {
			sframe_flow__no_memory(f);
			return;
		}
		*table = wanted;
	}
	op->imm = i;
}
