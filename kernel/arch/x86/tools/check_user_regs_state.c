// SPDX-License-Identifier: GPL-2.0
/*
 * check_user_regs: the way in that is being run, and what registers and stacks hold
 */

#include <stdarg.h>
#include <stdio.h>

#include "check_user_regs.h"

const int reg_slot[16] = {
	AX, CX, DX, BX, SP, BP, SI, DI, R8, R9, R10, R11, R12, R13, R14, R15
};

const struct root *root;
bool pti;
bool root_failed;
int nr_errors;

/* Prints one message per instruction. An error ends the run of this root. */
void error(unsigned long long ip, const char *fmt, ...)
{
	static unsigned long long seen[64];
	va_list ap;
	int i;

	root_failed = true;
	for (i = 0; i < nr_errors && i < 64; i++) {
		if (seen[i] == ip)
			return;
	}
	if (nr_errors < 64)
		seen[nr_errors] = ip;
	if (nr_errors++ >= 20)
		return;

	fprintf(stderr, "check_user_regs: %s: USER_REGS_%s: ", place(ip),
		hint_names[where_of(ip)]);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (root)
		fprintf(stderr, " [from %s, %s mode%s]", place(root->ip),
			root->user ? "user" : "kernel", pti ? ", pti" : "");
	fprintf(stderr, "\n");
}

/* Values */

struct value val(enum kind kind, long long n)
{
	return (struct value){ .kind = kind, .n = n };
}

struct value ptr(enum base base, long long n)
{
	return (struct value){ .kind = PTR, .base = base, .n = n };
}

bool same(struct value a, struct value b)
{
	return a.kind == b.kind && a.kind != ANY && a.n == b.n &&
	       (a.kind != PTR || a.base == b.base);
}

struct value low_half(struct value v)
{
	if (v.kind == FIELD || v.kind == FIELD_LOW)
		return val(FIELD_LOW, v.n);
	if (v.kind == CONST)
		return val(CONST, (unsigned int)v.n);
	return val(ANY, 0);
}

static bool join_value(struct value *to, struct value from)
{
	if (to->kind == ANY || same(*to, from))
		return false;
	to->kind = ANY;
	to->by = from.by ? from.by : to->by;
	return true;
}

bool join(struct state *to, const struct state *from)
{
	bool changed = false;
	int i, j;

	for (i = 0; i < 16; i++)
		changed |= join_value(&to->reg[i], from->reg[i]);
	changed |= join_value(&to->sp2, from->sp2);
	for (i = 0; i < NR_STACKS; i++) {
		for (j = 0; j < STACK_WORDS; j++)
			changed |= join_value(&to->mem[i][j], from->mem[i][j]);
	}
	if (to->zf != -1 && to->zf != from->zf) {
		to->zf = -1;
		changed = true;
	}
	return changed;
}

struct value *word(struct state *s, enum base base, long long offset)
{
	return &s->mem[base][(offset - STACK_LOW) / 8];
}

struct value load(struct state *s, enum base base, long long offset, int size)
{
	if (base == OTHER || offset < STACK_LOW || offset + size > FRAME_BYTES || (offset & 7))
		return val(ANY, 0);
	if (size == 8)
		return *word(s, base, offset);
	return size == 4 ? low_half(*word(s, base, offset)) : val(ANY, 0);
}

void store(struct state *s, unsigned long long ip, enum base base,
	   long long offset, int size, struct value v)
{
	long long w;

	if (base == OTHER)
		return;
	if (offset < STACK_LOW || offset + size > FRAME_BYTES) {
		error(ip, "stores outside of the known part of the stack");
		return;
	}
	if (size != 8 || (offset & 7))
		v = val(ANY, 0);
	v.by = ip;
	for (w = offset & ~7LL; w < offset + size; w += 8)
		*word(s, base, w) = v;
}
