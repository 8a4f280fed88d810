/* SPDX-License-Identifier: GPL-2.0 */
/* Unwind rules that follow from the instructions of code without CFI (x86-64) */
#ifndef __PERF_SFRAME_INSN_H
#define __PERF_SFRAME_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "util/sframe-ranges.h"

/**
 * enum sframe_insn_source - Why an address may start a function
 * @SFRAME_INSN_SYMBOL:		A function symbol
 * @SFRAME_INSN_INIT:		A constructor or destructor of the file
 * @SFRAME_INSN_CALL:		A direct call reaches it
 * @SFRAME_INSN_RELOCATION:	A relocation stores it; it may be a label. Or it is the file's
 *				entry, which may have no return address
 * @SFRAME_INSN_REFERENCE:	An instruction takes it or jumps to it; it may be a label
 * @SFRAME_INSN_NEIGHBOUR:	It follows the end of another function
 *
 * The first three are trusted. The others count only if the code proves itself.
 */
enum sframe_insn_source {
	SFRAME_INSN_SYMBOL,
	SFRAME_INSN_INIT,
	SFRAME_INSN_CALL,
	SFRAME_INSN_RELOCATION,
	SFRAME_INSN_REFERENCE,
	SFRAME_INSN_NEIGHBOUR,
	SFRAME_INSN_NR_SOURCES,
};

struct sframe_insn_entry {
	u64			addr;
	enum sframe_insn_source	source;
};

/**
 * struct sframe_insn_code - Contents of an executable section
 * @addr:	First address
 * @bytes:	The contents
 * @size:	Their size in bytes
 */
struct sframe_insn_code {
	u64		addr;
	const u8	*bytes;
	size_t		size;
};

/**
 * typedef sframe_insn_read_fn - Read data of the file
 *
 * Return: True if all @size bytes at @addr are known.
 */
typedef bool (*sframe_insn_read_fn)(u64 addr, void *buf, size_t size, void *arg);

struct sframe_insn_state;

typedef void (*sframe_insn_trace_fn)(u64 addr, const struct sframe_insn_state *state, void *arg);

enum sframe_insn_verdict {
	SFRAME_INSN_OK,
	SFRAME_INSN_UNREACHED,
	SFRAME_INSN_CONFLICT,
	SFRAME_INSN_BAD_DECODE,
	SFRAME_INSN_BAD_JUMP,
	SFRAME_INSN_UNBALANCED,
	SFRAME_INSN_BUDGET,
	SFRAME_INSN_NR_VERDICTS,
};

/**
 * struct sframe_insn_input - Input of sframe_insn__analyse()
 * @code:	Executable sections; sorted and without overlaps
 * @nr_code:	Number of them
 * @covered:	Functions with CFI, also of other code; sorted and without overlaps
 * @nr_covered:	Number of them
 * @entries:	Addresses that may start functions; in any order
 * @nr_entries:	Number of them
 * @max_steps:	Instructions that may be decoded or interpreted
 * @read:	Reads jump tables; may be NULL
 * @stop:	Returns true to give up; may be NULL
 * @trace:	Gets the state before each instruction that has a rule; for tests; may be NULL
 * @failed:	Gets each function that fails and where; for tests; may be NULL
 * @arg:	For @read, @stop, @trace and @failed
 */
struct sframe_insn_input {
	const struct sframe_insn_code	*code;
	size_t				nr_code;
	const struct sframe_segment	*covered;
	size_t				nr_covered;
	const struct sframe_insn_entry	*entries;
	size_t				nr_entries;
	u64				max_steps;
	sframe_insn_read_fn		read;
	bool (*stop)(void *arg);
	sframe_insn_trace_fn		trace;
	void (*failed)(u64 entry, enum sframe_insn_source source,
		       enum sframe_insn_verdict verdict, u64 where, void *arg);
	void				*arg;
};

enum sframe_insn_fp {
	SFRAME_INSN_FP_SAME,	/* rbp still holds it */
	SFRAME_INSN_FP_CFA,	/* at CFA + fp_off */
	SFRAME_INSN_FP_REG,	/* fp_reg holds it */
	SFRAME_INSN_FP_MEM,	/* at fp_reg + fp_off */
	SFRAME_INSN_FP_NONE,	/* it is lost, and callers do not need it */
};

/**
 * struct sframe_insn_rule - How to find the caller's frame
 * @cfa_add:	CFA = cfa_reg + cfa_off, or *(cfa_reg + cfa_off) + cfa_add if @cfa_deref
 * @cfa_off:	See @cfa_add
 * @fp_off:	See enum sframe_insn_fp
 * @cfa_reg:	Number of the register as instructions encode it (4: rsp, 5: rbp)
 * @cfa_deref:	See @cfa_add
 * @fp:		enum sframe_insn_fp
 * @fp_reg:	Number of a register
 *
 * The return address is always at CFA - 8.
 */
struct sframe_insn_rule {
	s32	cfa_off;
	s32	cfa_add;
	s32	fp_off;
	u8	cfa_reg;
	u8	cfa_deref;
	u8	fp;
	u8	fp_reg;
};

enum sframe_insn_kind {
	SFRAME_INSN_LEAF,
	SFRAME_INSN_RSP,
	SFRAME_INSN_RBP,
	SFRAME_INSN_REG,
	SFRAME_INSN_SLOT,
	SFRAME_INSN_NR_KINDS,
};

/**
 * struct sframe_insn_stats - Bytes of code by result
 * @code:	All bytes
 * @covered:	Bytes with CFI
 * @padding:	Bytes between functions that never run
 * @data:	Bytes that instructions use as data
 * @kind:	Bytes with a rule
 * @without:	Bytes without a rule by reason
 * @functions:	Number of functions by verdict
 * @steps:	Instructions that were decoded or interpreted
 */
struct sframe_insn_stats {
	u64	code;
	u64	covered;
	u64	padding;
	u64	data;
	u64	kind[SFRAME_INSN_NR_KINDS];
	u64	without[SFRAME_INSN_NR_VERDICTS];
	u64	functions[SFRAME_INSN_NR_VERDICTS];
	u64	steps;
};

/* @entry: a function begins at @start. */
typedef int (*sframe_insn_row_fn)(u64 start, u64 end, bool entry,
				  const struct sframe_insn_rule *rule, void *arg);

/**
 * enum sframe_insn_match - Do instructions agree with a rule from elsewhere?
 * @SFRAME_INSN_SAME:	Both lead to the same frame
 * @SFRAME_INSN_OTHER:	They lead to different frames
 * @SFRAME_INSN_OPEN:	The value that the rule uses is not known
 */
enum sframe_insn_match {
	SFRAME_INSN_SAME,
	SFRAME_INSN_OTHER,
	SFRAME_INSN_OPEN,
};

enum sframe_insn_match sframe_insn__match(const struct sframe_insn_state *st,
					  const struct sframe_insn_rule *rule);
enum sframe_insn_kind sframe_insn__kind(const struct sframe_insn_rule *rule);
size_t sframe_insn__padding(u64 addr, const u8 *bytes, size_t size);
int sframe_insn__analyse(const struct sframe_insn_input *in, sframe_insn_row_fn fn, void *arg,
			 struct sframe_insn_stats *stats);

#endif /* __PERF_SFRAME_INSN_H */
