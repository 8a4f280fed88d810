// SPDX-License-Identifier: GPL-2.0
/* Compares a table with the CFI that libdw reads, at each address */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/zalloc.h>

#include "util/sframe.h"
#include "util/sframe-cfi-internal.h"
#include "util/sframe-check.h"
#include "util/sframe-code.h"
#include "util/sframe-eval.h"
#include "util/sframe-ranges.h"

static u64 sframe_loc__eval(const struct sframe_loc *loc, u64 cfa, unsigned int same)
{
	u64 value = cfa;

	if (loc->base == SFRAME_BASE_SAME)
		return sframe_eval__reg(same);
	if (loc->base == SFRAME_BASE_REG)
		value = sframe_eval__reg(loc->reg);
	if (loc->index)
		value += sframe_eval__reg(loc->index - 1) * sizeof(u64);
	value += loc->off;

	return loc->deref ? sframe_eval__load(value) + loc->add : value;
}

static bool sframe_rule__leads_to(const struct sframe_rule *rule,
				  const struct sframe_frame *frame)
{
	u64 cfa;

	if (rule->outermost || frame->outermost)
		return rule->outermost && frame->outermost;

	cfa = sframe_loc__eval(&rule->cfa, 0, SFRAME_AMD64_SP);

	return cfa == frame->cfa && cfa == frame->sp &&
	       sframe_loc__eval(&rule->ra, cfa, SFRAME_AMD64_IP) == frame->ra &&
	       frame->fp_known == (rule->fp.base != SFRAME_BASE_NONE) &&
	       (!frame->fp_known ||
		sframe_loc__eval(&rule->fp, cfa, SFRAME_AMD64_FP) == frame->fp);
}

/* Only the procedure linkage table has such addresses. There are few large ones. */
#define SFRAME_CHECK_ALONE_MAX	SZ_4M

/**
 * struct sframe_comparison - A comparison of a table with CFI
 * @reader:	Table
 * @has_table:	There is a table
 * @described:	Code that the CFI of the file itself describes
 * @at:		The first range of @described that does not end before @next
 * @check:	Result
 * @next:	End of the addresses that were compared so far
 * @logged:	Number of differences that were printed
 * @alone:	Addresses that were looked at one by one
 */
struct sframe_comparison {
	struct sframe_reader	reader;
	bool			has_table;
	struct sframe_ranges	described;
	size_t			at;
	struct sframe_check	*check;
	u64			next;
	u32			logged;
	u64			alone;
};

static void sframe_comparison__log(struct sframe_comparison *comparison, u64 start, u64 end,
				   const char *what, const struct sframe_rule *rule)
{
	struct sframe_check *check = comparison->check;
	char text[128] = "no rule";

	if (!check->log || comparison->logged == check->max)
		return;

	comparison->logged++;
	if (rule)
		sframe_rule__scnprintf(rule, text, sizeof(text));
	fprintf(check->log, "%016" PRIx64 "-%016" PRIx64 " %s: %s\n", start, end, what, text);
}

/* Like sframe_reader__find() */
static int sframe_comparison__find(struct sframe_comparison *comparison, u64 addr,
				   struct sframe_rule *rule, bool *signal, u64 *end)
{
	if (!comparison->has_table)
		return -ENOENT;

	return sframe_reader__find(&comparison->reader, addr, rule, signal, end);
}

/*
 * libdw was not asked about [@start, @end), but the CFI of the file may describe
 * parts of it. Call this in the order of addresses.
 */
static void sframe_comparison__unread(struct sframe_comparison *comparison, u64 start, u64 end,
				      bool has_rule)
{
	const struct sframe_ranges *described = &comparison->described;
	struct sframe_check *check = comparison->check;
	const struct sframe_segment *range;
	u64 first, last;
	size_t i;

	for (i = comparison->at; i < described->nr; i++) {
		range = &described->ranges[i];
		if (range->start >= end)
			break;
		first = max(range->start, start);
		last = min(range->end, end);
		if (first < last) {
			check->described += last - first;
			check->unread += last - first;
			if (!has_rule) {
				check->missing += last - first;
				sframe_comparison__log(comparison, first, last, "unread", NULL);
			}
		}
		if (range->end > end)
			break;
	}
	comparison->at = i;
}

/* libdw describes nothing in [@start, @end). The table should have no rule there. */
static int sframe_comparison__gap(struct sframe_comparison *comparison, u64 start, u64 end)
{
	struct sframe_rule rule;
	bool signal;
	u64 stop;
	int ret;

	for (; start < end; start = stop) {
		stop = end;
		ret = sframe_comparison__find(comparison, start, &rule, &signal, &stop);
		if (ret == -EINVAL)
			return ret;
		sframe_comparison__unread(comparison, start, stop, ret != -ENOENT);
		if (ret == -ENOENT)
			continue;
		if (sframe_reader__is_derived(&comparison->reader, start)) {
			comparison->check->derived += stop - start;
			continue;
		}
		comparison->check->extra += stop - start;
		sframe_comparison__log(comparison, start, stop, "extra", ret ? NULL : &rule);
	}

	return 0;
}

static int sframe_comparison__row(const struct sframe_cfi_row *row, void *arg)
{
	struct sframe_comparison *comparison = arg;
	struct sframe_check *check = comparison->check;
	bool each, signal, known = false;
	struct sframe_frame frame;
	struct sframe_rule rule;
	u64 addr, end;
	int ret;

	ret = sframe_comparison__gap(comparison, comparison->next, row->start);
	if (ret)
		return ret;
	comparison->next = row->end;

	each = row->frame && sframe_eval__depends_on_ip(row->frame);
	if (each)
		comparison->alone += row->end - row->start;
	if (!row->frame || (each && comparison->alone > SFRAME_CHECK_ALONE_MAX))
		return sframe_comparison__gap(comparison, row->start, row->end);

	check->described += row->end - row->start;

	for (addr = row->start; addr < row->end; addr = end) {
		end = row->end;
		ret = sframe_comparison__find(comparison, addr, &rule, &signal, &end);
		if (ret == -EINVAL)
			return ret;

		if (ret == -ENOENT) {
			check->missing += end - addr;
			sframe_comparison__log(comparison, addr, end, "missing", NULL);
			continue;
		}

		if (each)
			end = addr + 1;
		if (each || addr == row->start)
			known = sframe_eval__frame(row->frame, addr, &frame);

		if (ret == -ENODATA && row->signal) {
			check->signal += end - addr;
		} else if (!ret && signal == row->signal && known &&
			   sframe_rule__leads_to(&rule, &frame)) {
			check->same += end - addr;
		} else {
			check->different += end - addr;
			sframe_comparison__log(comparison, addr, end, "different",
					       ret ? NULL : &rule);
		}
	}

	return 0;
}

/**
 * sframe_cfi__check - Compare a table with CFI, at each address
 * @cfi:	File, after sframe_cfi__read()
 * @table:	Table; without data it has no rules
 * @check:	Receives the result
 *
 * libdw gets only CFI that sframe_cfi__read() has checked. Other CFI of the file
 * counts as unread, and as missing if the table has no rule.
 *
 * Return: 0; -EINVAL - the table is damaged; -ENODATA - there is no table, and the
 *	   CFI describes nothing; -ENOMEM.
 */
int sframe_cfi__check(struct sframe_cfi *cfi, const struct sframe_table *table,
		      struct sframe_check *check)
{
	struct sframe_comparison comparison = { .check = check, .has_table = table->data };
	size_t i;
	int err;

	if (comparison.has_table) {
		err = sframe_reader__init(&comparison.reader, table->data, table->size, 0);
		if (!err)
			err = sframe_reader__check(&comparison.reader);
		if (err)
			return err;
	}

	err = sframe_cfi__scan(cfi, &comparison.described, check);
	if (!err && !comparison.has_table && !comparison.described.nr && !check->unreadable)
		err = -ENODATA;
	if (err)
		goto out;

	comparison.next = cfi->segments[0].start;
	err = sframe_cfi__walk(cfi, sframe_comparison__row, &comparison);
	if (err)
		goto out;

	i = cfi->nr_segments - 1;
	err = sframe_comparison__gap(&comparison, comparison.next, cfi->segments[i].end);
	if (!err && comparison.has_table && check->compare_insns) {
		err = sframe_code__check(cfi, &comparison.reader, check);
		if (err == -ENODATA || err == -EFBIG || err == -EINVAL)
			err = 0;
	}
out:
	zfree(&comparison.described.ranges);
	return err;
}
