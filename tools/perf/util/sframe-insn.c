// SPDX-License-Identifier: GPL-2.0
/*
 * Derive unwind rules from the instructions of code that no CFI covers
 *
 * Functions that something certain leads to are analysed first. Then come addresses that may be
 * labels as well. They count only if all their paths return with a balanced stack. That proves
 * the rules wherever the function really starts: a return takes its address from CFA - 8.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <linux/bits.h>
#include <linux/kernel.h>

#include "util/sframe-insn-internal.h"

/* How many steps are made between two questions whether to give up */
#define STEPS_TO_STOP	4096

/*
 * A function takes about 60 bytes. The addresses in ELF tables are at most half as many:
 * SFRAME_CODE_ENTRIES_MAX.
 */
#define FUNCS_MAX	BIT(21)

void *sframe_vec__add(struct sframe_vec *vec, size_t size)
{
	void *data;

	if (vec->nr == vec->room) {
		size_t room = vec->room ? vec->room * 2 : 64;

		data = room <= SIZE_MAX / size ? realloc(vec->data, room * size) : NULL;
		if (!data)
			return NULL;
		vec->data = data;
		vec->room = room;
	}
	data = (char *)vec->data + vec->nr++ * size;
	memset(data, 0, size);
	return data;
}

struct sframe_insn_section *sframe_analysis__section(struct sframe_analysis *a, u64 addr)
{
	size_t low = 0, high = a->in->nr_code;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct sframe_insn_code *code = &a->in->code[mid];

		if (addr < code->addr)
			high = mid;
		else if (addr - code->addr >= code->size)
			low = mid + 1;
		else
			return &a->sections[mid];
	}
	return NULL;
}

u16 sframe_analysis__mark(struct sframe_analysis *a, u64 addr)
{
	struct sframe_insn_section *section = sframe_analysis__section(a, addr);

	return section ? section->mark[addr - section->code->addr] : 0;
}

/* Does a function with CFI contain @addr? It may be in code that is not looked at. */
bool sframe_analysis__is_covered(struct sframe_analysis *a, u64 addr)
{
	const struct sframe_segment *covered = a->in->covered;
	size_t low = 0, high = a->in->nr_covered, mid;

	if (sframe_analysis__section(a, addr))
		return sframe_analysis__mark(a, addr) & MARK_COVERED;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (covered[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}

	return low < a->in->nr_covered && covered[low].start <= addr;
}

void sframe_analysis__add_mark(struct sframe_analysis *a, u64 addr, u16 mark)
{
	struct sframe_insn_section *section = sframe_analysis__section(a, addr);

	if (section)
		section->mark[addr - section->code->addr] |= mark;
}

bool sframe_analysis__decode(struct sframe_analysis *a, u64 addr, struct sframe_op *op)
{
	struct sframe_insn_section *section = sframe_analysis__section(a, addr);
	u64 off;

	if (!section) {
		memset(op, 0, sizeof(*op));
		op->kind = OP_BAD;
		op->len = 1;
		return false;
	}
	off = addr - section->code->addr;
	return sframe_op__decode(op, addr, section->code->bytes + off, section->code->size - off);
}

/* Count an instruction. Returns false if there is no more time. */
bool sframe_analysis__step(struct sframe_analysis *a)
{
	if (a->steps >= a->in->max_steps) {
		a->exhausted = true;
		return false;
	}
	if (a->steps++ < a->next_stop)
		return true;

	a->next_stop = a->steps + STEPS_TO_STOP;
	if (a->in->stop && a->in->stop(a->in->arg)) {
		a->exhausted = true;
		a->err = -EINTR;
		return false;
	}
	return true;
}

/* The key is not known to the author of the file, who chooses the addresses. */
u32 sframe_analysis__hash(const struct sframe_analysis *a, u64 addr)
{
	return (addr * a->key) >> 32;
}

static u32 *hash_slot(struct sframe_analysis *a, u64 addr)
{
	u32 i = sframe_analysis__hash(a, addr) & (a->hash.room - 1), *table = a->hash.data;

	while (table[i] && FUNC(a, table[i] - 1)->addr != addr)
		i = (i + 1) & (a->hash.room - 1);
	return &table[i];
}

/* The function that starts at @addr */
u32 sframe_analysis__find(struct sframe_analysis *a, u64 addr)
{
	return a->hash.room ? *hash_slot(a, addr) - 1 : NO_FUNC;
}

static bool grow_hash(struct sframe_analysis *a)
{
	struct sframe_vec old = a->hash;
	size_t room = old.room ? old.room * 2 : 1024, i;

	a->hash.data = calloc(room, sizeof(u32));
	if (!a->hash.data) {
		a->hash = old;
		return false;
	}
	a->hash.room = room;
	for (i = 0; i < a->func.nr; i++)
		*hash_slot(a, FUNC(a, i)->addr) = i + 1;
	free(old.data);
	return true;
}

/* The same; it is created if necessary. A function keeps its best source. */
u32 sframe_analysis__func(struct sframe_analysis *a, u64 addr, enum sframe_insn_source source)
{
	struct sframe_func *func;
	u32 *slot;

	if (a->func.nr * 2 >= a->hash.room && !grow_hash(a))
		return NO_FUNC;
	slot = hash_slot(a, addr);
	if (!*slot) {
		if (a->func.nr == FUNCS_MAX) {
			a->exhausted = true;
			return NO_FUNC;
		}
		func = sframe_vec__add(&a->func, sizeof(*func));
		if (!func)
			return NO_FUNC;
		func->addr = addr;
		func->source = source;
		*slot = a->func.nr;
	}
	func = FUNC(a, *slot - 1);
	if (func->status == FUNC_NEW && source < func->source)
		func->source = source;
	if (source != SFRAME_INSN_NEIGHBOUR)
		sframe_analysis__add_mark(a, addr, source <= SFRAME_INSN_CALL ?
					  MARK_ENTRY : MARK_HINT);
	return *slot - 1;
}

/* First reference to data behind @addr; a jump table at @addr ends there at the latest. */
u64 sframe_analysis__next_ref(struct sframe_analysis *a, u64 addr)
{
	const u64 *refs = a->refs.data;
	size_t low = 0, high = a->refs.nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (refs[mid] <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < a->refs.nr ? refs[low] : (u64)-1;
}

/* Code and functions with CFI are sorted. A function may be partly outside the code. */
static void mark_covered(struct sframe_analysis *a)
{
	const struct sframe_insn_input *in = a->in;
	size_t i = 0, j = 0;

	while (i < in->nr_covered && j < in->nr_code) {
		const struct sframe_segment *range = &in->covered[i];
		const struct sframe_insn_code *code = &in->code[j];
		u64 end = code->addr + code->size, addr;

		for (addr = max(range->start, code->addr); addr < min(range->end, end); addr++)
			a->sections[j].mark[addr - code->addr] |= MARK_COVERED;
		if (range->start >= code->addr && range->start < min(range->end, end))
			a->sections[j].mark[range->start - code->addr] |= MARK_FDE;
		if (range->end <= end)
			i++;
		else
			j++;
	}
}

static int prepare(struct sframe_analysis *a)
{
	const struct sframe_insn_input *in = a->in;
	size_t i, size;

	a->flow = sframe_flow__new(a);
	a->sections = calloc(in->nr_code + 1, sizeof(*a->sections));
	if (!a->flow || !a->sections)
		return -ENOMEM;

	for (i = 0; i < in->nr_code; i++) {
		if (i && in->code[i].addr - in->code[i - 1].addr < in->code[i - 1].size)
			return -EINVAL;
		if (in->code[i].addr + in->code[i].size < in->code[i].addr)
			return -EINVAL;
		size = in->code[i].size;
		a->sections[i].code = &in->code[i];
		a->sections[i].mark = calloc(size + 1, sizeof(u16));
		a->sections[i].why = calloc(size + 1, 1);
		if (!a->sections[i].mark || !a->sections[i].why)
			return -ENOMEM;
	}
	mark_covered(a);
	for (i = 0; i < in->nr_entries; i++) {
		if (!sframe_analysis__section(a, in->entries[i].addr) ||
		    (sframe_analysis__mark(a, in->entries[i].addr) & MARK_COVERED))
			continue;
		if (sframe_analysis__func(a, in->entries[i].addr, in->entries[i].source) == NO_FUNC)
			return -ENOMEM;
	}
	return 0;
}

/* Analyse the functions from @source on that no other function led to. */
static void solve_all(struct sframe_analysis *a, bool strict)
{
	size_t i;
	u16 mark;

	for (i = 0; i < a->func.nr && !a->err && !a->exhausted; i++) {
		if (FUNC(a, i)->status != FUNC_NEW || sframe_func__strict(FUNC(a, i)) != strict)
			continue;
		mark = sframe_analysis__mark(a, FUNC(a, i)->addr);
		/* Labels of a function that is known already start no other function. */
		if (strict && (mark & (MARK_START | MARK_BODY | MARK_DATA)))
			continue;
		sframe_analysis__solve(a, i);
	}
}

static void release(struct sframe_analysis *a)
{
	size_t i;

	for (i = 0; a->sections && i < a->in->nr_code; i++) {
		free(a->sections[i].mark);
		free(a->sections[i].why);
	}
	free(a->sections);
	free(a->func.data);
	free(a->hash.data);
	free(a->rows.data);
	free(a->pairs.data);
	free(a->refs.data);
	sframe_flow__delete(a->flow);
}

/**
 * sframe_insn__analyse - Derive unwind rules of code without CFI
 * @in:		The code, its CFI and its entries
 * @fn:		Gets the rows in the order of their addresses
 * @arg:	Its argument
 * @stats:	Gets figures
 *
 * There are no rows if @in does not allow for enough steps, or if there are too many functions,
 * calls or rows: a function that was not analysed could lead to code that was, with another frame.
 *
 * Return: 0; -ENOMEM; -EINTR - @in->stop() returned true; the value of @fn that is not 0.
 */
int sframe_insn__analyse(const struct sframe_insn_input *in, sframe_insn_row_fn fn, void *arg,
			 struct sframe_insn_stats *stats)
{
	struct sframe_analysis a = { .in = in };
	size_t i;
	int err;

	memset(stats, 0, sizeof(*stats));
	if (getrandom(&a.key, sizeof(a.key), GRND_NONBLOCK) != sizeof(a.key))
		a.key = (uintptr_t)&a;
	a.key |= 1;
	err = prepare(&a);
	if (!err)
		err = sframe_analysis__scan(&a);
	if (!err) {
		solve_all(&a, false);
		solve_all(&a, true);
		err = a.err;
	}
	if (!err)
		err = sframe_analysis__neighbours(&a);
	if (!err)
		err = sframe_analysis__drop_dependents(&a);
	if (!err)
		err = sframe_analysis__drop_weak(&a);
	if (!err)
		err = a.err;
	/* There were too many of these. There was enough memory. */
	if (a.exhausted && a.func.nr == FUNCS_MAX && err == -ENOMEM)
		err = 0;
	if (!err && !a.exhausted)
		err = sframe_analysis__rows(&a, fn, arg);
	if (!err) {
		sframe_analysis__stats(&a, stats);
		for (i = 0; i < a.func.nr; i++)
			stats->functions[FUNC(&a, i)->verdict]++;
		stats->steps = a.steps;
	}
	release(&a);
	return err;
}
