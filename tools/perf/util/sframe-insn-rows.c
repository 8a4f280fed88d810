// SPDX-License-Identifier: GPL-2.0
/* Put the rows of all functions together */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "util/sframe-insn-internal.h"

/* A row starts or ends. */
struct event {
	u64	addr;
	u32	row;
	bool	end;
};

/**
 * struct sweep - Rows that cover an address
 * @nr:		How many of them are trusted
 * @count:	How many there are of each rule
 * @different:	How many different rules there are
 * @sum:	Sum of the numbers of the different rules; of one it is the rule
 *
 * Index 0 is for trusted functions, index 1 for the others.
 */
struct sweep {
	u32	*count[2];
	u32	different[2];
	u64	sum[2];
};

enum sframe_insn_kind sframe_insn__kind(const struct sframe_insn_rule *rule)
{
	if (rule->cfa_deref)
		return SFRAME_INSN_SLOT;
	if (rule->cfa_reg == RSP)
		return rule->cfa_off == 8 ? SFRAME_INSN_LEAF : SFRAME_INSN_RSP;
	return rule->cfa_reg == RBP ? SFRAME_INSN_RBP : SFRAME_INSN_REG;
}

static int event_cmp(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return (int)y->end - (int)x->end;
}

static int rule_cmp(const void *a, const void *b, void *arg)
{
	const struct sframe_insn_row *rows = arg;
	const u32 *x = a, *y = b;

	return memcmp(&rows[*x].rule, &rows[*y].rule, sizeof(rows->rule));
}

/* Number the different rules: @number is for each row, @first is the first row of each rule. */
static int number_rules(const struct sframe_vec *rows, u32 *number, u32 *first)
{
	const struct sframe_insn_row *row = rows->data;
	u32 *order, i, nr = 0;

	order = malloc(rows->nr * sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (i = 0; i < rows->nr; i++)
		order[i] = i;
	qsort_r(order, rows->nr, sizeof(*order), rule_cmp, (void *)row);
	for (i = 0; i < rows->nr; i++) {
		if (!i || rule_cmp(&order[i - 1], &order[i], (void *)row))
			first[nr++] = order[i];
		number[order[i]] = nr - 1;
	}
	free(order);
	return 0;
}

static void sweep_over(struct sweep *s, int level, u32 rule, bool end)
{
	if (end) {
		if (!--s->count[level][rule]) {
			s->different[level]--;
			s->sum[level] -= rule;
		}
	} else if (!s->count[level][rule]++) {
		s->different[level]++;
		s->sum[level] += rule;
	}
}

/* Rows to hand out; equal neighbours become one, but not those of two functions. */
struct output {
	struct sframe_analysis	*a;
	sframe_insn_row_fn	fn;
	void			*arg;
	u64			start;
	u64			end;
	bool			entry;
	struct sframe_insn_rule	rule;
};

static int flush(struct output *out)
{
	int err = 0;

	if (out->start < out->end)
		err = out->fn(out->start, out->end, out->entry, &out->rule, out->arg);
	out->start = 0;
	out->end = 0;
	return err;
}

/* Is @addr, which has @mark, trusted to start a function, or called by a function with rules? */
static bool is_function(struct sframe_analysis *a, u64 addr, u16 mark)
{
	u32 func;

	if (mark & MARK_ENTRY)
		return true;
	if (!(mark & MARK_HINT))
		return false;

	func = sframe_analysis__find(a, addr);
	return func != NO_FUNC && FUNC(a, func)->called && !FUNC(a, func)->verdict;
}

/* Hand out the bytes from @start to @end except for those that functions that failed reach. */
static int put(struct output *out, u64 start, u64 end, const struct sframe_insn_rule *rule)
{
	struct sframe_insn_section *section = sframe_analysis__section(out->a, start);
	u64 addr;
	int err;

	for (addr = start; addr < end; addr++) {
		u8 *why = &section->why[addr - section->code->addr];
		bool entry = is_function(out->a, addr, section->mark[addr - section->code->addr]);

		if (*why && !(*why & WHY_GUESS))
			continue;
		if (out->start == out->end || addr != out->end || entry ||
		    memcmp(rule, &out->rule, sizeof(*rule))) {
			err = flush(out);
			if (err)
				return err;
			out->start = addr;
			out->entry = entry;
			out->rule = *rule;
		}
		out->end = addr + 1;
		*why = WHY_RULE | sframe_insn__kind(rule);
	}
	return 0;
}

static void conflict(struct sframe_analysis *a, u64 start, u64 end)
{
	struct sframe_insn_section *section = sframe_analysis__section(a, start);

	for (; start < end; start++) {
		if (!section->why[start - section->code->addr])
			section->why[start - section->code->addr] = SFRAME_INSN_CONFLICT;
	}
}

static int sweep_all(struct sframe_analysis *a, struct sweep *s, const struct event *event,
		     size_t nr, const u32 *number, const u32 *first, struct output *out)
{
	const struct sframe_insn_row *row = a->rows.data;
	int err, level;
	size_t i;

	for (i = 0; i < nr; i++) {
		level = s->different[0] ? 0 : 1;
		if (i && event[i].addr > event[i - 1].addr && s->different[level]) {
			if (s->different[level] == 1) {
				err = put(out, event[i - 1].addr, event[i].addr,
					  &row[first[s->sum[level]]].rule);
				if (err)
					return err;
			} else {
				conflict(a, event[i - 1].addr, event[i].addr);
			}
		}
		level = sframe_func__strict(FUNC(a, row[event[i].row].func));
		sweep_over(s, level, number[event[i].row], event[i].end);
	}
	return flush(out);
}

/* @row belongs to a function that failed. */
static void drop(struct sframe_insn_section *section, const struct sframe_insn_row *row,
		 enum sframe_insn_verdict verdict)
{
	u64 off = row->start - section->code->addr;

	memset(section->why + off, verdict, row->end - row->start);
}

/* Hand out the rules that all functions agree on. Trusted functions outdo others. */
int sframe_analysis__rows(struct sframe_analysis *a, sframe_insn_row_fn fn, void *arg)
{
	struct output out = { .a = a, .fn = fn, .arg = arg };
	struct sframe_insn_row *row = a->rows.data;
	u32 *number = NULL, *first = NULL;
	struct event *event = NULL;
	struct sweep s = {};
	int err = -ENOMEM;
	size_t i, nr = 0;

	/* Drop the rows of functions that failed after all. */
	for (i = 0; i < a->rows.nr; i++) {
		if (!FUNC(a, row[i].func)->verdict) {
			row[nr++] = row[i];
		} else {
			drop(sframe_analysis__section(a, row[i].start), &row[i],
			     FUNC(a, row[i].func)->verdict);
		}
	}
	a->rows.nr = nr;
	if (!nr)
		return 0;
	number = malloc(nr * sizeof(*number));
	first = malloc(nr * sizeof(*first));
	event = malloc(2 * nr * sizeof(*event));
	s.count[0] = calloc(nr, sizeof(u32));
	s.count[1] = calloc(nr, sizeof(u32));
	if (!number || !first || !event || !s.count[0] || !s.count[1])
		goto out;
	err = number_rules(&a->rows, number, first);
	if (err)
		goto out;
	for (i = 0; i < nr; i++) {
		event[2 * i] = (struct event) { .addr = row[i].start, .row = i };
		event[2 * i + 1] = (struct event) { .addr = row[i].end, .row = i, .end = true };
	}
	qsort(event, 2 * nr, sizeof(*event), event_cmp);
	err = sweep_all(a, &s, event, 2 * nr, number, first, &out);
out:
	free(s.count[0]);
	free(s.count[1]);
	free(event);
	free(number);
	free(first);
	return err;
}

/* Count code that no path reaches. Return its size. */
static u64 unreached_stats(struct sframe_insn_section *section, u64 off, bool *edge,
			   struct sframe_insn_stats *stats, bool exhausted)
{
	const struct sframe_insn_code *code = section->code;
	enum sframe_insn_verdict why = section->why[off] & WHY_VALUE;
	struct sframe_op op;
	u64 len;

	sframe_op__decode(&op, code->addr + off, code->bytes + off, code->size - off);
	for (len = 1; len < op.len && op.kind != OP_BAD; len++) {
		if (section->mark[off + len] & (MARK_COVERED | MARK_START | MARK_BODY))
			break;
	}
	if (*edge && (sframe_op__padding(&op, code->bytes + off) ||
		      (len == 1 && !code->bytes[off]))) {
		stats->padding += len;
		return len;
	}
	*edge = op.kind == OP_RET || op.kind == OP_JMP || op.kind == OP_JMP_ANY ||
		op.kind == OP_STOP;
	if (!why)
		why = exhausted ? SFRAME_INSN_BUDGET : SFRAME_INSN_UNREACHED;
	stats->without[why] += len;
	return len;
}

static void section_stats(struct sframe_insn_section *section, struct sframe_insn_stats *stats,
			  bool exhausted)
{
	u64 off = 0, size = section->code->size;
	bool data = false, edge = true;

	stats->code += size;
	while (off < size) {
		u16 mark = section->mark[off];
		u8 why = section->why[off];

		if (!(mark & (MARK_COVERED | MARK_START | MARK_BODY))) {
			data = (data || (mark & MARK_DATA)) && !(mark & MARK_ENTRY);
			if (data)
				stats->data++;
			else
				off += unreached_stats(section, off, &edge, stats, exhausted) - 1;
			off++;
			continue;
		}
		if (mark & MARK_COVERED)
			stats->covered++;
		else if (why & WHY_RULE)
			stats->kind[why & WHY_VALUE]++;
		else
			stats->without[why & WHY_VALUE ?: SFRAME_INSN_CONFLICT]++;
		data = false;
		edge = true;
		off++;
	}
}

void sframe_analysis__stats(struct sframe_analysis *a, struct sframe_insn_stats *stats)
{
	size_t i;

	for (i = 0; i < a->in->nr_code; i++)
		section_stats(&a->sections[i], stats, a->exhausted);
}
