// SPDX-License-Identifier: GPL-2.0
/* Abstract state of the registers and of the stack */
#include <limits.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/sizes.h>

#include "util/sframe-insn-internal.h"

/* Larger frames are more likely a mistake of the analysis than real ones. */
#define MAX_OFFSET	SZ_256M

struct sframe_value sframe_value__new(int kind, s64 v)
{
	struct sframe_value value = { .kind = kind, .v = v };

	/* The field may be too small for it. */
	if (value.v != v ||
	    ((kind == VAL_CFA || kind == VAL_BASE) && (v > MAX_OFFSET || v < -MAX_OFFSET)))
		value = (struct sframe_value) { .kind = VAL_UNKNOWN };
	return value;
}

bool sframe_value__is(struct sframe_value value, int kind, s64 v)
{
	return value.kind == kind && value.v == v;
}

static bool same(struct sframe_value a, struct sframe_value b)
{
	return a.kind == b.kind && a.v == b.v;
}

static struct sframe_value unknown(void)
{
	return sframe_value__new(VAL_UNKNOWN, 0);
}

bool sframe_value__on_stack(struct sframe_value value)
{
	return value.kind == VAL_CFA || value.kind == VAL_BASE;
}

/* Set @st to the state before the first instruction of a function. */
void sframe_state__init(struct sframe_insn_state *st)
{
	int i;

	memset(st, 0, sizeof(*st));
	for (i = 0; i < 16; i++)
		st->reg[i] = sframe_value__new(VAL_ENTRY, i);
	st->reg[RSP] = sframe_value__new(VAL_CFA, -8);
}

void sframe_state__forget(struct sframe_insn_state *st)
{
	memset(st, 0, sizeof(*st));
}

static int slot_cmp(const struct sframe_slot *slot, int base, s64 off)
{
	if (slot->base != base)
		return slot->base < base ? -1 : 1;
	return slot->off < off ? -1 : slot->off > off;
}

static void remove_slots(struct sframe_insn_state *st, int base, s64 low, s64 high)
{
	u32 i, nr = 0;

	for (i = 0; i < st->nr; i++) {
		if (st->slot[i].base == base && st->slot[i].off + 8 > low && st->slot[i].off < high)
			continue;
		st->slot[nr++] = st->slot[i];
	}
	st->nr = nr;
}

static void add_slot(struct sframe_insn_state *st, int base, s64 off, struct sframe_value value)
{
	u32 i = 0;

	if (value.kind != VAL_ENTRY && !sframe_value__on_stack(value))
		return;
	if (st->nr == SFRAME_INSN_MAX_SLOTS)
		return;
	while (i < st->nr && slot_cmp(&st->slot[i], base, off) < 0)
		i++;
	memmove(&st->slot[i + 1], &st->slot[i], (st->nr - i) * sizeof(st->slot[0]));
	st->slot[i] = (struct sframe_slot) { .off = off, .base = base, .value = value };
	st->nr++;
}

/* The value in 8 bytes of the stack */
struct sframe_value sframe_state__slot(const struct sframe_insn_state *st, int base, s64 off)
{
	u32 i;

	for (i = 0; i < st->nr; i++) {
		if (!slot_cmp(&st->slot[i], base, off))
			return st->slot[i].value;
	}
	return unknown();
}

static struct sframe_value load(const struct sframe_insn_state *st, struct sframe_value address)
{
	if (!sframe_value__on_stack(address))
		return unknown();
	return sframe_state__slot(st, address.kind, address.v);
}

/*
 * Write @size bytes. Compilers and the CFI that they emit assume that stores through unknown
 * pointers do not hit saved registers; so does this.
 */
static void store(struct sframe_insn_state *st, struct sframe_value address, s64 size,
		  struct sframe_value value)
{
	s64 low, high;

	if (!sframe_value__on_stack(address) || !size)
		return;

	low = address.v;
	high = address.v + size;
	remove_slots(st, address.kind, low, high);
	if (st->base_slack && address.kind == VAL_BASE)
		remove_slots(st, VAL_CFA, low + st->base_off - st->base_slack + 1,
			     high + st->base_off);
	else if (st->base_slack)
		remove_slots(st, VAL_BASE, low - st->base_off,
			     high - st->base_off + st->base_slack - 1);
	if (size == 8)
		add_slot(st, address.kind, address.v, value);
}

static void forget_base(struct sframe_insn_state *st)
{
	u32 i, nr = 0;

	for (i = 0; i < 16; i++) {
		if (st->reg[i].kind == VAL_BASE)
			st->reg[i] = unknown();
	}
	for (i = 0; i < st->nr; i++) {
		if (st->slot[i].base != VAL_BASE && st->slot[i].value.kind != VAL_BASE)
			st->slot[nr++] = st->slot[i];
	}
	st->nr = nr;
	st->base = 0;
	st->base_off = 0;
	st->base_slack = 0;
}

/* Let @reg hold a new VAL_BASE, which the instruction at @addr makes. */
static void new_base(struct sframe_insn_state *st, int reg, u64 addr, s64 off, s64 slack)
{
	forget_base(st);
	st->base = addr;
	if (slack > 0 && slack < MAX_OFFSET && off < MAX_OFFSET && off > -MAX_OFFSET) {
		st->base_off = off;
		st->base_slack = slack;
	}
	st->reg[reg] = sframe_value__new(VAL_BASE, 0);
}

/* Unknown changes of rsp start a new base: slots relative to it can be followed. */
void sframe_state__set(struct sframe_insn_state *st, int reg, struct sframe_value value, u64 addr)
{
	if (reg == RSP && !sframe_value__on_stack(value))
		new_base(st, RSP, addr, 0, 0);
	else if (reg < 16)
		st->reg[reg] = value;
}

static void and_imm(struct sframe_insn_state *st, const struct sframe_op *op, u64 addr)
{
	struct sframe_value old = st->reg[op->reg];
	s64 slack = -op->imm, off = old.v;

	/* Is it a power of two? */
	if (!sframe_value__on_stack(old) || op->imm >= 0 || (slack & (slack - 1)) ||
	    (op->reg != RSP && st->reg[RSP].kind == VAL_BASE)) {
		sframe_state__set(st, op->reg, unknown(), addr);
		return;
	}
	if (old.kind == VAL_BASE) {
		off += st->base_off;
		slack = st->base_slack ? slack + st->base_slack : 0;
	}
	new_base(st, op->reg, addr, off, slack);
}

/* Address of the memory operand; for OP_LEA its value */
struct sframe_value sframe_state__address(const struct sframe_insn_state *st,
					  const struct sframe_op *op)
{
	struct sframe_value base;

	if (op->base == BASE_RIP)
		return sframe_value__new(VAL_CONST, op->imm);
	if (op->base >= 16 || op->index != NO_REG)
		return unknown();
	base = st->reg[op->base];
	if (!sframe_value__on_stack(base) && base.kind != VAL_CONST)
		return op->disp || base.kind != VAL_ENTRY ? unknown() : base;
	return sframe_value__new(base.kind, base.v + op->disp);
}

static void push(struct sframe_insn_state *st, struct sframe_value value)
{
	if (!sframe_value__on_stack(st->reg[RSP]))
		return;
	st->reg[RSP] = sframe_value__new(st->reg[RSP].kind, st->reg[RSP].v - 8);
	store(st, st->reg[RSP], 8, value);
}

static struct sframe_value pop(struct sframe_insn_state *st)
{
	struct sframe_value value = load(st, st->reg[RSP]);

	if (sframe_value__on_stack(st->reg[RSP]))
		st->reg[RSP] = sframe_value__new(st->reg[RSP].kind, st->reg[RSP].v + 8);
	return value;
}

static void add_reg(struct sframe_insn_state *st, const struct sframe_op *op, u64 addr)
{
	struct sframe_value a = st->reg[op->reg], b = st->reg[op->src];

	/* The caller knows the jump table that this makes; see op->imm in the flow analysis. */
	if ((a.kind == VAL_TABLE && b.kind == VAL_CONST) ||
	    (a.kind == VAL_CONST && b.kind == VAL_TABLE))
		st->reg[op->reg] = sframe_value__new(VAL_TARGET, op->imm);
	else
		sframe_state__set(st, op->reg, unknown(), addr);
}

static void leave(struct sframe_insn_state *st, u64 addr)
{
	sframe_state__set(st, RSP, st->reg[RBP], addr);
	st->reg[RBP] = pop(st);
}

/* Change @st as the instruction @op at @addr does. Calls are left to sframe_state__call(). */
void sframe_state__apply(struct sframe_insn_state *st, const struct sframe_op *op, u64 addr)
{
	struct sframe_value address = unknown(), value;
	int i, reg, other;

	if (op->base != NO_REG)
		address = sframe_state__address(st, op);

	switch (op->kind) {
	case OP_MOV:
		sframe_state__set(st, op->reg, st->reg[op->src], addr);
		break;
	case OP_LOAD:
		sframe_state__set(st, op->reg, load(st, address), addr);
		break;
	case OP_STORE:
		store(st, address, 8, st->reg[op->src]);
		break;
	case OP_LEA:
		sframe_state__set(st, op->reg, address, addr);
		break;
	case OP_ADD_IMM:
		value = st->reg[op->reg];
		value = sframe_value__on_stack(value) || value.kind == VAL_CONST ?
			sframe_value__new(value.kind, value.v + op->imm) : unknown();
		sframe_state__set(st, op->reg, value, addr);
		break;
	case OP_ADD_REG:
		add_reg(st, op, addr);
		break;
	case OP_AND_IMM:
		and_imm(st, op, addr);
		break;
	case OP_XCHG:
		/* rsp last: if its new value is unknown, it forgets all that was relative to it. */
		reg = op->src == RSP ? op->reg : op->src;
		other = op->src == RSP ? op->src : op->reg;
		value = st->reg[reg];
		sframe_state__set(st, reg, st->reg[other], addr);
		sframe_state__set(st, other, value, addr);
		break;
	case OP_TABLE:
		value = unknown();
		if (op->base < 16 && op->index != NO_REG && st->reg[op->base].kind == VAL_CONST)
			value = sframe_value__new(VAL_TABLE, op->imm +
						  (st->reg[op->base].v + op->disp) * 4);
		sframe_state__set(st, op->reg, value, addr);
		break;
	case OP_PUSH:
		push(st, st->reg[op->src]);
		break;
	case OP_PUSH_MEM:
		push(st, load(st, address));
		break;
	case OP_PUSH_ANY:
		push(st, unknown());
		break;
	case OP_POP:
		value = pop(st);
		sframe_state__set(st, op->reg, value, addr);
		break;
	case OP_POP_ANY:
		pop(st);
		if (op->base != NO_REG)
			store(st, sframe_state__address(st, op), 8, unknown());
		break;
	case OP_LEAVE:
		leave(st, addr);
		break;
	case OP_ENTER:
		push(st, st->reg[RBP]);
		st->reg[RBP] = st->reg[RSP];
		if (sframe_value__on_stack(st->reg[RSP]))
			st->reg[RSP] = sframe_value__new(st->reg[RSP].kind,
							 st->reg[RSP].v - op->imm);
		break;
	default:
		store(st, address, op->store, unknown());
		break;
	}

	for (i = 0; i < 16; i++) {
		if (op->clobber & BIT_OF(i))
			sframe_state__set(st, i, unknown(), addr);
	}
}

/*
 * Change @st as a call does. The callee keeps the registers @saved and may write to the caller's
 * stack from @store_min to @store_max, relative to rsp before the call.
 */
void sframe_state__call(struct sframe_insn_state *st, u32 saved, s64 store_min, s64 store_max)
{
	struct sframe_value rsp = st->reg[RSP];
	int i;

	for (i = 0; i < 16; i++) {
		if (!(saved & BIT_OF(i)) && i != RSP)
			st->reg[i] = unknown();
	}
	if (!sframe_value__on_stack(rsp))
		return;
	remove_slots(st, rsp.kind, LLONG_MIN / 2, rsp.v);
	if (store_min < store_max)
		store(st, sframe_value__new(rsp.kind, rsp.v + store_min), store_max - store_min,
		      unknown());
}

static bool is_label(struct sframe_value value)
{
	return value.kind == VAL_CONST || value.kind == VAL_LABEL;
}

/* Drop the facts from @st that do not hold in @other. Return true if @st changed. */
bool sframe_state__merge(struct sframe_insn_state *st, const struct sframe_insn_state *other)
{
	struct sframe_value value;
	bool changed = false;
	u32 i, j = 0, nr = 0;
	int order;

	if (st->base != other->base || st->base_off != other->base_off ||
	    st->base_slack != other->base_slack) {
		for (i = 0; i < 16; i++)
			changed |= st->reg[i].kind == VAL_BASE;
		changed |= st->base || st->base_off || st->base_slack;
		forget_base(st);
	}
	for (i = 0; i < 16; i++) {
		if (st->reg[i].kind == VAL_UNKNOWN)
			continue;
		if (same(st->reg[i], other->reg[i]))
			continue;
		value = is_label(st->reg[i]) && is_label(other->reg[i]) ?
			sframe_value__new(VAL_LABEL, 0) : unknown();
		changed |= !same(st->reg[i], value);
		st->reg[i] = value;
	}
	for (i = 0; i < st->nr; i++) {
		while (j < other->nr &&
		       slot_cmp(&other->slot[j], st->slot[i].base, st->slot[i].off) < 0)
			j++;
		order = j < other->nr ?
			slot_cmp(&other->slot[j], st->slot[i].base, st->slot[i].off) : 1;
		if (order || !same(st->slot[i].value, other->slot[j].value)) {
			changed = true;
			continue;
		}
		st->slot[nr++] = st->slot[i];
	}
	st->nr = nr;
	return changed;
}

/* Could a function start or return in this state? @lost: It may have changed rbp. */
bool sframe_state__at_entry(const struct sframe_insn_state *st, bool lost)
{
	return sframe_value__is(st->reg[RSP], VAL_CFA, -8) &&
	       (lost || sframe_value__is(st->reg[RBP], VAL_ENTRY, RBP));
}

/* Registers with the values that they had at the function's entry */
u32 sframe_state__saved(const struct sframe_insn_state *st)
{
	u32 saved = BIT_OF(RSP);
	int i;

	for (i = 0; i < 16; i++) {
		if (sframe_value__is(st->reg[i], VAL_ENTRY, i))
			saved |= BIT_OF(i);
	}
	return saved;
}
