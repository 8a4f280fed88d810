/* SPDX-License-Identifier: GPL-2.0 */
/* Rules for code that no call frame information describes */
#ifndef __PERF_SFRAME_CODE_H
#define __PERF_SFRAME_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "util/sframe.h"
#include "util/sframe-cfi.h"
#include "util/sframe-insn.h"

struct sframe_check;
struct sframe_table;

/**
 * struct sframe_code_row - Addresses with the same rule
 * @start:	First address
 * @end:	End of the addresses
 * @entry:	A function begins at @start
 * @rule:	The rule
 */
struct sframe_code_row {
	u64			start;
	u64			end;
	bool			entry;
	struct sframe_rule	rule;
};

/**
 * struct sframe_code - Rules that follow from the instructions of a file
 * @rows:	Rows, sorted and without overlaps
 * @nr:		Number of rows
 * @room:	Number of rows that fit
 * @hash:	SHA-256 of the code that the rules were made from
 * @stats:	Results for the code
 */
struct sframe_code {
	struct sframe_code_row		*rows;
	size_t				nr;
	size_t				room;
	u8				hash[SFRAME_FINGERPRINT_SIZE];
	struct sframe_insn_stats	stats;
};

/**
 * struct sframe_code_trace - Callbacks of sframe_code__trace()
 * @is_entry:	Does a function begin at this address, at which CFI begins?
 * @instruction: Called before each instruction that is interpreted, maybe several times
 * @arg:	Their last argument
 */
struct sframe_code_trace {
	bool (*is_entry)(u64 addr, void *arg);
	sframe_insn_trace_fn	instruction;
	void			*arg;
};

int sframe_code__read(struct sframe_cfi *cfi, bool *exists, struct sframe_code *code);
void sframe_code__exit(struct sframe_code *code);
int sframe_code__trace(struct sframe_cfi *cfi, const struct sframe_code_trace *trace,
		       struct sframe_code *code);
int sframe_code__check(struct sframe_cfi *cfi, const struct sframe_reader *reader,
		       struct sframe_check *check);
u8 sframe_code__reg(u8 reg);
void sframe_code__identify(const struct sframe_cfi *cfi, const struct sframe_code *code,
			   struct sframe_aux *aux);
bool sframe_code__is_same(struct sframe_cfi *cfi, struct sframe_table *table);
int sframe_code__walk_functions(int fd, sframe_cfi_function_fn fn, void *arg);

#endif /* __PERF_SFRAME_CODE_H */
