/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SYNTHETIC_SYMBOLS_H
#define __PERF_SYNTHETIC_SYMBOLS_H

#include <stddef.h>
#include <linux/compiler.h>
#include <linux/types.h>

struct dso;
struct symbol;
struct symsrc;

/**
 * struct synthetic_symbol - A function, or a part of it, without a symbol
 * @start:	Its start, as in a struct symbol: an offset in the file
 * @end:	Its end
 * @addr:	Its address in the ELF file; the name of the symbol has it
 * @sym:	The symbol; NULL until an address of the function was looked up
 */
struct synthetic_symbol {
	u64		start;
	u64		end;
	u64		addr;
	struct symbol	*sym;
};

/**
 * struct synthetic_symbols - The functions of a file that have no symbol
 * @syms:	Sorted and without overlaps
 * @nr:		Number of functions
 * @room:	Number of functions that fit
 */
struct synthetic_symbols {
	struct synthetic_symbol	*syms;
	size_t			nr;
	size_t			room;
};

int synthetic_symbols__add(struct synthetic_symbols *synthetic, u64 start, u64 end, u64 addr);
void synthetic_symbols__delete(struct synthetic_symbols *synthetic);

int dso__set_functions(struct dso *dso, struct synthetic_symbols *functions);
struct symbol *dso__find_synthetic_symbol(struct dso *dso, u64 addr);

#ifdef HAVE_DWARF_SUPPORT
int dso__synthesize_symbols(struct dso *dso, struct symsrc *ss);
int dso__load_functions(struct dso *dso, struct symsrc *ss);
#else
static inline int dso__synthesize_symbols(struct dso *dso __maybe_unused,
					  struct symsrc *ss __maybe_unused)
{
	return 0;
}

static inline int dso__load_functions(struct dso *dso __maybe_unused,
				      struct symsrc *ss __maybe_unused)
{
	return -1;
}
#endif

#endif /* __PERF_SYNTHETIC_SYMBOLS_H */
