// SPDX-License-Identifier: GPL-2.0
/* Finds the functions that rules were derived for, from instructions */
#include <errno.h>

#include "util/sframe.h"
#include "util/sframe-build.h"
#include "util/sframe-cache.h"
#include "util/sframe-cfi-internal.h"
#include "util/sframe-code.h"
#include "util/sframe-table.h"

/**
 * struct sframe_code_functions - Puts rows, or parts of functions, together
 * @fn:		Gets the functions
 * @arg:	For @fn
 * @start:	Start of the current function
 * @end:	Its end so far; @start if there is none
 * @nr_rows:	Number of its rows so far
 */
struct sframe_code_functions {
	sframe_cfi_function_fn	fn;
	void			*arg;
	u64			start;
	u64			end;
	u64			nr_rows;
};

static int sframe_code_functions__flush(struct sframe_code_functions *functions)
{
	int ret = 0;

	if (functions->start != functions->end)
		ret = functions->fn(functions->start, functions->end, functions->arg);
	functions->start = functions->end;
	functions->nr_rows = 0;

	return ret;
}

/*
 * A table divides functions with many rows. Each part but the last has SFRAME_ROWS_MAX rows.
 * So a part belongs to the full part before it. A function that follows a full part gets the
 * name of the function before it. This is so without a table, too, because names must not
 * depend on the cache.
 */
static int sframe_code_functions__add(struct sframe_code_functions *functions, u64 start, u64 end,
				      bool entry, u64 nr_rows)
{
	int ret = 0;

	if (start != functions->end || (entry && functions->nr_rows % SFRAME_ROWS_MAX))
		ret = sframe_code_functions__flush(functions);
	if (functions->start == functions->end)
		functions->start = start;
	functions->end = end;
	functions->nr_rows += nr_rows;

	return ret;
}

static int sframe_code_functions__from_table(struct sframe_code_functions *functions,
					     const struct sframe_table *table)
{
	struct sframe_reader reader;
	struct sframe_function fn;
	u32 i;
	int ret;

	ret = sframe_reader__init(&reader, table->data, table->size, 0);

	for (i = 0; !ret && i < reader.num_fdes; i++) {
		ret = sframe_reader__function(&reader, i, &fn);
		if (!ret && fn.derived)
			ret = sframe_code_functions__add(functions, fn.start, fn.start + fn.size,
							 true, fn.nr_rows);
	}

	return ret ?: sframe_code_functions__flush(functions);
}

static int sframe_code_functions__from_code(struct sframe_code_functions *functions,
					    const struct sframe_code *code)
{
	const struct sframe_code_row *row;
	int ret = 0;
	size_t i;

	for (i = 0; !ret && i < code->nr; i++) {
		row = &code->rows[i];
		ret = sframe_code_functions__add(functions, row->start, row->end, row->entry, 1);
	}

	return ret ?: sframe_code_functions__flush(functions);
}

/**
 * sframe_code__walk_functions - Find functions that have rules, but no CFI
 * @fd:		File; any 64-bit little-endian program or library
 * @fn:		Called for each function, in order and without overlaps; a value other
 *		than 0 stops
 * @arg:	For @fn
 *
 * If the cache has a table of the file, it has the functions. Otherwise this takes as long
 * as to derive the rules.
 *
 * Return: 0; the value of @fn that is not 0; the errors of sframe_cfi__open(); those of
 *	   sframe_code__read(), where -ENODATA says that all code has CFI.
 */
int sframe_code__walk_functions(int fd, sframe_cfi_function_fn fn, void *arg)
{
	struct sframe_code_functions functions = { .fn = fn, .arg = arg };
	struct sframe_table table;
	struct sframe_cfi *cfi;
	struct sframe_code code;
	int ret;

	if (!sframe_table__get(&table, fd, SFRAME_CACHE_ONLY, false, NULL, NULL)) {
		ret = sframe_code_functions__from_table(&functions, &table);
		sframe_table__exit(&table);
		return ret;
	}

	ret = sframe_cfi__open(fd, &cfi);
	if (ret)
		return ret;

	ret = sframe_cfi__find_functions(cfi);
	if (!ret)
		ret = sframe_code__read(cfi, NULL, &code);
	if (!ret) {
		ret = sframe_code_functions__from_code(&functions, &code);
		sframe_code__exit(&code);
	}

	sframe_cfi__delete(cfi);
	return ret;
}
