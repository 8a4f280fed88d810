// SPDX-License-Identifier: GPL-2.0
/* Finds possible starts of functions without CFI, and data and padding among the code */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "util/sframe-insn-internal.h"

/* Longest padding behind a call that does not return */
#define MAX_PADDING	64

/* Neighbours to try in a section even if it is small */
#define MIN_TRIES	64

bool sframe_op__padding(const struct sframe_op *op, const u8 *bytes)
{
	/* nop, int3 and the instruction 00 00 */
	return op->kind == OP_NOP || (op->kind == OP_STOP && bytes[0] == 0xcc) ||
	       (op->kind == OP_PLAIN && op->len == 2 && !bytes[0] && !bytes[1]);
}

/* Is there a jump through the global offset table at @addr? */
bool sframe_analysis__stub(struct sframe_analysis *a, u64 addr)
{
	struct sframe_op op;
	int i;

	for (i = 0; i < 2; i++) {
		if (!sframe_analysis__decode(a, addr, &op))
			return false;
		if (op.kind == OP_JMP_ANY)
			return op.base == BASE_RIP;
		/* endbr64 */
		if (op.kind != OP_NOP)
			return false;
		addr += op.len;
	}
	return false;
}

/**
 * sframe_insn__padding - Find out how many bytes are padding
 * @addr:	Address of @bytes
 * @bytes:	Code between two functions
 * @size:	Number of bytes
 *
 * Return: Number of bytes before the first one that is not padding.
 */
size_t sframe_insn__padding(u64 addr, const u8 *bytes, size_t size)
{
	struct sframe_op op;
	size_t off = 0;

	while (off < size) {
		/* Linkers fill up with zeros, which are no whole instruction. */
		if (!bytes[off]) {
			off++;
			continue;
		}
		if (!sframe_op__decode(&op, addr + off, bytes + off, size - off) ||
		    !sframe_op__padding(&op, bytes + off))
			break;
		off += op.len;
	}

	return off;
}

/* Are the bytes from @addr on padding up to another function or to the end of the code? */
bool sframe_analysis__dead_end(struct sframe_analysis *a, u64 addr)
{
	struct sframe_insn_section *section = sframe_analysis__section(a, addr);
	struct sframe_op op;
	u64 off, end;

	if (!section)
		return true;
	off = addr - section->code->addr;
	end = off + MAX_PADDING;
	while (off < section->code->size && off < end) {
		const u8 *bytes = section->code->bytes + off;

		if (section->mark[off] & (MARK_COVERED | MARK_ENTRY))
			return true;
		/* Padding is at most a few bytes; do not pay for decoding ordinary code. */
		if (bytes[0] != 0x66 && bytes[0] != 0x0f && bytes[0] != 0x90 && bytes[0] != 0xcc &&
		    bytes[0] != 0x2e && bytes[0] != 0x00)
			return false;
		if (!sframe_op__decode(&op, section->code->addr + off, bytes,
				       section->code->size - off) ||
		    !sframe_op__padding(&op, bytes))
			return false;
		off += op.len;
	}
	return off >= section->code->size;
}

/**
 * struct scan - A linear pass over code that need not be code
 * @a:		The analysis
 * @covered:	It is code: functions with CFI
 * @taken:	Address that each register holds, or 0
 */
struct scan {
	struct sframe_analysis	*a;
	bool			covered;
	u64			taken[16];
};

static int add_ref(struct sframe_analysis *a, u64 addr)
{
	u64 *ref;

	if (sframe_analysis__section(a, addr))
		return 0;
	ref = sframe_vec__add(&a->refs, sizeof(*ref));
	if (!ref)
		return -ENOMEM;
	*ref = addr;
	return 0;
}

static int add_func(struct sframe_analysis *a, u64 addr, enum sframe_insn_source source)
{
	if (!sframe_analysis__section(a, addr) || (sframe_analysis__mark(a, addr) & MARK_COVERED))
		return 0;
	return sframe_analysis__func(a, addr, source) == NO_FUNC ? -ENOMEM : 0;
}

static void forget(struct scan *s, u32 regs)
{
	int i;

	for (i = 0; i < 16; i++) {
		if (regs & BIT_OF(i))
			s->taken[i] = 0;
	}
}

/* Note the addresses that an instruction mentions. */
static int scan_op(struct scan *s, const struct sframe_op *op)
{
	bool data = op->memory && op->kind != OP_CALL_ANY && op->kind != OP_JMP_ANY;
	int err = 0;

	if (op->base == BASE_RIP && data) {
		sframe_analysis__add_mark(s->a, op->imm, MARK_DATA);
		err = add_ref(s->a, op->imm);
	}
	/* Code is not read. So a register points to data if an instruction reads memory there. */
	if (op->base < 16 && s->taken[op->base] && data) {
		sframe_analysis__add_mark(s->a, s->taken[op->base] + op->disp, MARK_DATA);
		err = add_ref(s->a, s->taken[op->base] + op->disp);
		if (err)
			return err;
	}
	forget(s, op->clobber);
	if (op->reg < 16)
		s->taken[op->reg] = 0;

	switch (op->kind) {
	case OP_LEA:
		if (op->base == BASE_RIP) {
			s->taken[op->reg] = op->imm;
			err = add_ref(s->a, op->imm);
			if (!err)
				err = add_func(s->a, op->imm, SFRAME_INSN_REFERENCE);
		}
		break;
	case OP_CALL:
		err = add_func(s->a, op->imm,
			       s->covered ? SFRAME_INSN_CALL : SFRAME_INSN_REFERENCE);
		forget(s, ~ABI_SAVED);
		break;
	case OP_JMP:
		if (s->covered)
			err = add_func(s->a, op->imm, SFRAME_INSN_REFERENCE);
		forget(s, -1);
		break;
	case OP_JCC:
		if (s->covered)
			err = add_func(s->a, op->imm, SFRAME_INSN_REFERENCE);
		break;
	case OP_CALL_ANY:
		forget(s, ~ABI_SAVED);
		break;
	case OP_JMP_ANY:
	case OP_RET:
	case OP_STOP:
	case OP_BAD:
		forget(s, -1);
		break;
	default:
		break;
	}
	return err;
}

/* Scan from offset @off on, as long as the code has CFI or as long as it has none. */
static int scan_part(struct sframe_analysis *a, struct sframe_insn_section *section, u64 *off)
{
	const struct sframe_insn_code *code = section->code;
	struct scan s = { .a = a, .covered = section->mark[*off] & MARK_COVERED };
	struct sframe_op op;
	u64 start = *off;
	int err, len;

	while (*off < code->size && sframe_analysis__step(a)) {
		u16 mark = section->mark[*off];

		if (!(mark & MARK_COVERED) == s.covered || ((mark & MARK_FDE) && *off != start))
			break;
		sframe_op__decode(&op, code->addr + *off, code->bytes + *off, code->size - *off);
		if (op.kind != OP_BAD)
			section->mark[*off] |= MARK_LINE;
		err = scan_op(&s, &op);
		if (err)
			return err;
		/* An instruction cannot reach into the next function. */
		for (len = 1; len < op.len && op.kind != OP_BAD; len++) {
			mark = section->mark[*off + len];
			if (!(mark & MARK_COVERED) == s.covered || (mark & MARK_FDE))
				break;
		}
		*off += len;
	}
	return 0;
}

static int u64_cmp(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Look for addresses that code mentions. */
int sframe_analysis__scan(struct sframe_analysis *a)
{
	size_t i, j, nr = 0;
	u64 off, *ref;
	int err;

	for (i = 0; i < a->in->nr_code; i++) {
		for (off = 0; off < a->in->code[i].size && !a->exhausted; ) {
			err = scan_part(a, &a->sections[i], &off);
			if (err)
				return err;
		}
	}
	ref = a->refs.data;
	if (a->refs.nr)
		qsort(ref, a->refs.nr, sizeof(*ref), u64_cmp);
	for (j = 0; j < a->refs.nr; j++) {
		if (!nr || ref[nr - 1] != ref[j])
			ref[nr++] = ref[j];
	}
	a->refs.nr = nr;
	return 0;
}

static int try_neighbour(struct sframe_analysis *a, u64 addr, bool near)
{
	u32 func = sframe_analysis__find(a, addr);

	if (func == NO_FUNC)
		func = sframe_analysis__func(a, addr, SFRAME_INSN_NEIGHBOUR);
	if (func == NO_FUNC)
		return -ENOMEM;
	if (FUNC(a, func)->status != FUNC_NEW)
		return 0;
	FUNC(a, func)->far = !near;
	return sframe_analysis__solve(a, func);
}

/* If an instruction takes an address and no code is there, it is data. */
static void mark_data(struct sframe_analysis *a, u64 addr)
{
	struct sframe_op op;
	u64 start = addr;
	int i;

	for (i = 0; i < 64; i++) {
		if (sframe_analysis__mark(a, addr) & (MARK_COVERED | MARK_START | MARK_BODY))
			return;
		if (!sframe_analysis__decode(a, addr, &op) || op.odd) {
			sframe_analysis__add_mark(a, start, MARK_DATA);
			return;
		}
		if (op.kind == OP_RET || op.kind == OP_JMP || op.kind == OP_JMP_ANY)
			return;
		addr += op.len;
	}
}

/* Does the instruction before @off, whose start has the mark @how, end a path? */
static bool ends_path(struct sframe_insn_section *section, u64 off, u16 how)
{
	const struct sframe_insn_code *code = section->code;
	struct sframe_op op;
	u64 start = off;

	if (!off || (section->mark[off - 1] & MARK_COVERED))
		return true;
	while (start && off - start < 15 && (start == off || !(section->mark[start] & how)))
		start--;
	if (!(section->mark[start] & how))
		return false;
	sframe_op__decode(&op, code->addr + start, code->bytes + start, code->size - start);
	if (start + op.len != off)
		return false;
	switch (op.kind) {
	case OP_RET:
	case OP_JMP:
	case OP_JMP_ANY:
	case OP_STOP:
	case OP_CALL:
	case OP_CALL_ANY:
		return true;
	default:
		return false;
	}
}

/* Does @addr look like the start of a function? */
bool sframe_analysis__may_start(struct sframe_analysis *a, u64 addr)
{
	struct sframe_insn_section *section = sframe_analysis__section(a, addr);
	u64 off = addr - section->code->addr, i;
	struct sframe_op op;

	if (addr & 15)
		return false;
	/* Padding, then the end of another function */
	for (i = off; i && off - i < 16; i--) {
		if (!(section->mark[i - 1] & MARK_LINE))
			continue;
		sframe_op__decode(&op, section->code->addr + i - 1, section->code->bytes + i - 1,
				  section->code->size - i + 1);
		return sframe_op__padding(&op, section->code->bytes + i - 1) ||
		       ends_path(section, off, MARK_LINE);
	}
	return true;
}

/*
 * Try the code after the end of another function: first its neighbour, then each address behind a
 * jump, a return or padding. Skip data, and code that is reached already.
 */
static int section_neighbours(struct sframe_analysis *a, struct sframe_insn_section *section)
{
	const u16 used = MARK_COVERED | MARK_START | MARK_BODY;
	const struct sframe_insn_code *code = section->code;
	bool near = true, edge = true, data = false;
	u64 off = 0, tries = MIN_TRIES + code->size / 16;

	while (off < code->size && tries && sframe_analysis__step(a)) {
		struct sframe_op op;
		int err;

		if (section->mark[off] & (used | MARK_ENTRY)) {
			near = true;
			edge = true;
			data = false;
			off++;
			continue;
		}
		if (near && off && (section->mark[off - 1] & used)) {
			edge = ends_path(section, off, MARK_START);
			near = edge;
		}
		data |= section->mark[off] & MARK_DATA;
		if (data) {
			off++;
			continue;
		}
		sframe_op__decode(&op, code->addr + off, code->bytes + off, code->size - off);
		if (edge && sframe_op__padding(&op, code->bytes + off)) {
			off += op.len;
			continue;
		}
		if (near || edge) {
			tries--;
			err = try_neighbour(a, code->addr + off,
					    near || !((code->addr + off) & 15));
			if (err)
				return err;
			if (section->mark[off] & used)
				continue;
		}
		near = false;
		edge = op.kind == OP_RET || op.kind == OP_JMP || op.kind == OP_JMP_ANY;
		off += op.kind == OP_BAD ? 1 : op.len;
	}
	return 0;
}

int sframe_analysis__neighbours(struct sframe_analysis *a)
{
	size_t i;
	int err;

	for (i = 0; i < a->func.nr; i++) {
		if (FUNC(a, i)->verdict == SFRAME_INSN_BAD_DECODE &&
		    FUNC(a, i)->source == SFRAME_INSN_REFERENCE)
			mark_data(a, FUNC(a, i)->addr);
	}
	for (i = 0; i < a->in->nr_code && !a->exhausted; i++) {
		err = section_neighbours(a, &a->sections[i]);
		if (err)
			return err;
	}
	return 0;
}
