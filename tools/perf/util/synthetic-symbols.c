// SPDX-License-Identifier: GPL-2.0
/*
 * Symbols for functions of stripped files
 *
 * A stripped program or library has no symbols for most of its functions. But its
 * .eh_frame has the bounds of each function, and instructions tell the bounds of those
 * that it does not describe. So perf makes up a symbol for each function that has none.
 * Its name is the name of the file and the address of the function, so it is the same in
 * each run.
 *
 * Large files have hundreds of thousands of functions, of which few are in a profile.
 * So perf keeps only the bounds, and makes a symbol when one of its addresses is looked
 * up. These symbols are not among the symbols of the DSO: they can be found by
 * address, but not by name.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "util/array-grow.h"
#include "util/dso.h"
#include "util/mutex.h"
#include "util/symbol.h"
#include "util/synthetic-symbols.h"

/**
 * synthetic_symbols__add - Add a function
 * @synthetic:	The functions
 * @start:	Its start
 * @end:	Its end
 * @addr:	Its address in the ELF file
 *
 * Return: 0; -ENOMEM.
 */
int synthetic_symbols__add(struct synthetic_symbols *synthetic, u64 start, u64 end, u64 addr)
{
	void *new;

	if (start >= end)
		return 0;

	new = array__grow(synthetic->syms, synthetic->nr, &synthetic->room,
			  sizeof(*synthetic->syms));
	if (!new)
		return -ENOMEM;

	synthetic->syms = new;
	synthetic->syms[synthetic->nr++] = (struct synthetic_symbol) {
		.start = start, .end = end, .addr = addr,
	};
	return 0;
}

void synthetic_symbols__delete(struct synthetic_symbols *synthetic)
{
	size_t i;

	if (!synthetic)
		return;

	for (i = 0; i < synthetic->nr; i++) {
		if (synthetic->syms[i].sym)
			symbol__delete(synthetic->syms[i].sym);
	}
	zfree(&synthetic->syms);
	free(synthetic);
}

static int synthetic_symbol__cmp(const void *a, const void *b)
{
	const struct synthetic_symbol *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * symbols__fixup_end() lets a symbol without a size reach to the next symbol. Between
 * the two there may be thousands of functions without symbols. So the symbol ends where
 * the function ends that it is in. If it is in none, it ends where the next one begins.
 */
static void symbol__clip_to_function(struct symbol *sym, const struct synthetic_symbol *function)
{
	if (!sym->guessed_end)
		return;

	if (function->start > sym->start)
		sym->end = min(sym->end, function->start);
	else
		sym->end = min(sym->end, function->end);
}

/* Puts those parts of the functions into @synthetic that no symbol of the DSO covers. */
static int dso__find_uncovered(struct dso *dso, const struct synthetic_symbols *functions,
			       struct synthetic_symbols *synthetic)
{
	const struct synthetic_symbol *function = functions->syms;
	const struct synthetic_symbol *end = function + functions->nr;
	struct rb_node *node = rb_first_cached(dso__symbols(dso));
	u64 covered = 0, start, stop;
	struct symbol *sym;
	int err;

	/* Each round handles the functions before a symbol, and then the symbol. */
	while (function < end) {
		sym = node ? rb_entry(node, struct symbol, rb_node) : NULL;
		stop = sym ? sym->start : ULLONG_MAX;

		for (; function < end && function->start < stop; function++) {
			start = max(function->start, covered);
			err = synthetic_symbols__add(synthetic, start, min(function->end, stop),
						     function->addr + start - function->start);
			if (err)
				return err;
			/* The next round takes the part after the symbol. */
			if (function->end > stop)
				break;
			/* Segments may share a part of the file. */
			covered = max(covered, function->end);
		}
		if (!sym)
			break;

		if (function < end)
			symbol__clip_to_function(sym, function);
		/* A damaged size may put the end before the start. */
		covered = max(covered, sym->start);
		covered = max(covered, sym->end);
		node = rb_next(node);
	}

	return 0;
}

/**
 * dso__set_functions - Synthesize symbols for functions without symbols
 * @dso:	DSO, whose symbols are complete
 * @functions:	Its functions, in any order
 *
 * Symbols without a size lose addresses of other functions.
 *
 * Return: Number of symbols; -ENOMEM.
 */
int dso__set_functions(struct dso *dso, struct synthetic_symbols *functions)
{
	struct synthetic_symbols *synthetic = zalloc(sizeof(*synthetic));
	int err;

	if (!synthetic)
		return -ENOMEM;

	qsort(functions->syms, functions->nr, sizeof(*functions->syms), synthetic_symbol__cmp);
	err = dso__find_uncovered(dso, functions, synthetic);
	if (err) {
		synthetic_symbols__delete(synthetic);
		return err;
	}

	synthetic_symbols__delete(dso__synthetic(dso));
	dso__set_synthetic(dso, synthetic);
	return synthetic->nr;
}

/* The name of the file, which does not depend on whether the file still exists */
static struct symbol *synthetic_symbol__new(const struct dso *dso,
					    const struct synthetic_symbol *synthetic)
{
	static const char deleted[] = " (deleted)";
	const char *file = dso__long_name(dso), *slash = strrchr(file, '/');
	char name[NAME_MAX + sizeof("[0x0123456789abcdef]")];
	size_t len;

	if (slash)
		file = slash + 1;
	len = strlen(file);
	if (len > strlen(deleted) && !strcmp(file + len - strlen(deleted), deleted))
		len -= strlen(deleted);

	snprintf(name, sizeof(name), "%.*s[%#" PRIx64 "]", (int)min_t(size_t, len, NAME_MAX),
		 file, synthetic->addr);
	return symbol__new(synthetic->start, synthetic->end - synthetic->start, STB_LOCAL,
			   STT_FUNC, name);
}

static int synthetic_symbol__cmp_addr(const void *key, const void *item)
{
	const struct synthetic_symbol *synthetic = item;
	u64 addr = *(const u64 *)key;

	return addr < synthetic->start ? -1 : addr >= synthetic->end;
}

/**
 * dso__find_synthetic_symbol - Find the symbol for an address that no other symbol covers
 * @dso:	DSO, whose lock must not be held
 * @addr:	The address, as for dso__find_symbol()
 *
 * Return: The symbol; NULL.
 */
struct symbol *dso__find_synthetic_symbol(struct dso *dso, u64 addr)
{
	struct synthetic_symbols *synthetic = dso__synthetic(dso);
	struct synthetic_symbol *found;
	struct symbol *sym;

	if (!synthetic || !synthetic->nr)
		return NULL;

	found = bsearch(&addr, synthetic->syms, synthetic->nr, sizeof(*found),
			synthetic_symbol__cmp_addr);
	if (!found)
		return NULL;

	mutex_lock(dso__lock(dso));
	if (!found->sym)
		found->sym = synthetic_symbol__new(dso, found);
	sym = found->sym;
	mutex_unlock(dso__lock(dso));

	return sym;
}
