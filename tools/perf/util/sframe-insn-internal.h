/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_INSN_INTERNAL_H
#define __PERF_SFRAME_INSN_INTERNAL_H

#include "util/sframe-insn.h"

/* Numbers of registers as instructions encode them */
enum {
	RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15,
	NO_REG,		/* there is none */
	BASE_RIP,	/* a memory operand relative to the next instruction */
	BASE_OPAQUE,	/* a memory operand that cannot be followed */
};

#define BIT_OF(reg)	(1u << (reg))

/* Registers that a callee leaves alone */
#define ABI_SAVED	(BIT_OF(RBX) | BIT_OF(RSP) | BIT_OF(RBP) | BIT_OF(R12) | BIT_OF(R13) | \
			 BIT_OF(R14) | BIT_OF(R15))

enum sframe_op_kind {
	OP_PLAIN,	/* changes nothing but @clobber and memory */
	OP_NOP,
	OP_MOV,		/* reg = src */
	OP_LOAD,	/* reg = [mem] */
	OP_STORE,	/* [mem] = src */
	OP_LEA,		/* reg = mem */
	OP_ADD_IMM,	/* reg += imm */
	OP_ADD_REG,	/* reg += src */
	OP_AND_IMM,	/* reg &= imm */
	OP_XCHG,	/* swap reg and src */
	OP_TABLE,	/* reg = [mem], an integer of type imm (enum sframe_table) */
	OP_PUSH,	/* push src */
	OP_PUSH_MEM,	/* push [mem] */
	OP_PUSH_ANY,	/* push something unknown */
	OP_POP,		/* pop reg */
	OP_POP_ANY,	/* pop to memory or a segment register */
	OP_LEAVE,
	OP_ENTER,
	OP_CALL,
	OP_CALL_ANY,
	OP_JMP,
	OP_JCC,
	OP_JMP_ANY,	/* jmp src, or jmp [mem] if src is NO_REG */
	OP_RET,
	OP_STOP,	/* the path ends */
	OP_BAD,
};

enum sframe_table { TABLE_S32, TABLE_U16, TABLE_S16 };

/**
 * struct sframe_op - Effects of an instruction
 * @imm:	Immediate, or the target of a branch
 * @disp:	Displacement of the memory operand
 * @clobber:	Registers whose values are unknown afterwards
 * @store:	Bytes that it writes to the memory operand
 * @kind:	enum sframe_op_kind
 * @len:	Size of the instruction
 * @reg:	Destination
 * @src:	Source
 * @base:	Base of the memory operand; NO_REG if there is no memory operand
 * @index:	Index of the memory operand, or NO_REG
 * @memory:	It accesses the memory operand
 * @odd:	Not found in ordinary programs
 */
struct sframe_op {
	s64	imm;
	s32	disp;
	u16	clobber;
	u16	store;
	u8	kind;
	u8	len;
	u8	reg;
	u8	src;
	u8	base;
	u8	index;
	bool	memory;
	bool	odd;
};

bool sframe_op__decode(struct sframe_op *op, u64 addr, const u8 *bytes, size_t size);

enum sframe_value_kind {
	VAL_UNKNOWN,
	VAL_ENTRY,	/* the value of register v at the function's entry */
	VAL_CFA,	/* CFA + v */
	VAL_BASE,	/* v + a value of rsp that has no known distance from the CFA */
	VAL_CONST,	/* address v of the file */
	VAL_TABLE,	/* an element of the table at address v >> 2; its type is v & 3 */
	VAL_LABEL,	/* some address of code that the function takes */
	VAL_TARGET,	/* an element of jump table number v plus its base */
};

struct sframe_value {
	s64	kind : 8;
	s64	v : 56;
};

#define SFRAME_INSN_MAX_SLOTS	40

/* A stack slot of 8 bytes whose contents are known */
struct sframe_slot {
	s32			off;
	s32			base;	/* VAL_CFA or VAL_BASE */
	struct sframe_value	value;
};

/**
 * struct sframe_insn_state - Facts that hold before an instruction
 * @reg:	Values of the registers
 * @base:	Address of the instruction that made VAL_BASE
 * @base_off:	VAL_BASE is at most CFA + base_off
 * @base_slack:	VAL_BASE is above CFA + base_off - base_slack; 0: nothing is known
 * @nr:		Number of slots
 * @slot:	Slots; sorted by base and offset
 */
struct sframe_insn_state {
	struct sframe_value	reg[16];
	u64			base;
	s32			base_off;
	u32			base_slack;
	u32			nr;
	struct sframe_slot	slot[SFRAME_INSN_MAX_SLOTS];
};

struct sframe_value sframe_value__new(int kind, s64 v);
bool sframe_value__is(struct sframe_value value, int kind, s64 v);
bool sframe_value__on_stack(struct sframe_value value);

void sframe_state__init(struct sframe_insn_state *st);
void sframe_state__forget(struct sframe_insn_state *st);
bool sframe_state__merge(struct sframe_insn_state *st, const struct sframe_insn_state *other);
void sframe_state__apply(struct sframe_insn_state *st, const struct sframe_op *op, u64 addr);
void sframe_state__set(struct sframe_insn_state *st, int reg, struct sframe_value value, u64 addr);
void sframe_state__call(struct sframe_insn_state *st, u32 saved, s64 store_min, s64 store_max);
struct sframe_value sframe_state__address(const struct sframe_insn_state *st,
					  const struct sframe_op *op);
bool sframe_state__at_entry(const struct sframe_insn_state *st, bool lost);
u32 sframe_state__saved(const struct sframe_insn_state *st);
bool sframe_state__rule(const struct sframe_insn_state *st, struct sframe_insn_rule *rule,
			bool lost);
struct sframe_value sframe_state__slot(const struct sframe_insn_state *st, int base, s64 off);

/* Marks of a byte of code */
enum {
	MARK_COVERED	= 0x01,	/* it has CFI */
	MARK_FDE	= 0x02,	/* a function with CFI starts here */
	MARK_START	= 0x04,	/* an instruction that is reached starts here */
	MARK_BODY	= 0x08,	/* a later byte of such an instruction */
	MARK_DATA	= 0x10,	/* an instruction uses it as data */
	MARK_ENTRY	= 0x20,	/* a trusted function starts here */
	MARK_HINT	= 0x40,	/* a function may start here */
	MARK_CLASH	= 0x80,	/* instructions overlap */
	MARK_LINE	= 0x100, /* a linear pass over the code finds an instruction here */
};

/*
 * The result for a byte of code: enum sframe_insn_kind with WHY_RULE; otherwise enum
 * sframe_insn_verdict, with WHY_GUESS if only an address that may be a label leads here
 */
enum {
	WHY_RULE	= 0x40,
	WHY_GUESS	= 0x80,
	WHY_VALUE	= 0x3f,
};

/**
 * struct sframe_insn_section - A section of code with its marks
 * @code:	The code
 * @mark:	MARK_* of each byte
 * @why:	WHY_* of each byte that was looked at
 */
struct sframe_insn_section {
	const struct sframe_insn_code	*code;
	u16				*mark;
	u8				*why;
};

enum sframe_func_status {
	FUNC_NEW,
	FUNC_ACTIVE,	/* its analysis waits for that of its callees */
	FUNC_DONE,
	FUNC_FAILED,
};

/**
 * struct sframe_func - A function without CFI
 * @addr:	Its first address
 * @store_min:	It may write to its caller's stack from here ...
 * @store_max:	... to here, relative to the CFA
 * @saved:	Registers that it leaves alone
 * @needed:	Number of the last analysis that met it
 * @status:	enum sframe_func_status
 * @source:	enum sframe_insn_source
 * @verdict:	enum sframe_insn_verdict
 * @runs:	How often it was analysed
 * @lossy:	It returns, and changes registers that callers rely on
 * @returns:	It has a way out
 * @called:	Code without CFI calls it directly: it need not keep to the ABI
 * @far:	The bytes before it may be data
 * @weak:	It does not keep to the ABI; the rules count only if a caller proves itself
 */
struct sframe_func {
	u64	addr;
	s64	store_min;
	s64	store_max;
	u32	saved;
	u32	needed;
	u8	status;
	u8	source;
	u8	verdict;
	u8	runs;
	bool	lossy;
	bool	returns;
	bool	called;
	bool	weak;
	bool	far;
};

/* A row of a function before the rows of all functions are put together */
struct sframe_insn_row {
	u64			start;
	u64			end;
	u32			func;
	struct sframe_insn_rule	rule;
};

/* @caller relies on @callee; @early: before that was analysed */
struct sframe_pair {
	u32	caller;
	u32	callee;
	bool	early;
};

/* A vector of u64, u32, rows, ... */
struct sframe_vec {
	void	*data;
	size_t	nr;
	size_t	room;
};

struct sframe_flow;

/**
 * struct sframe_analysis - State of sframe_insn__analyse()
 * @in:		Its input
 * @sections:	The code
 * @func:	Functions (struct sframe_func)
 * @hash:	Indexes of functions by address (u32)
 * @rows:	Rows of functions (struct sframe_insn_row)
 * @pairs:	Which function relies on which (struct sframe_pair)
 * @refs:	Addresses of data that instructions refer to (u64), sorted
 * @flow:	Scratch memory of the analysis of one function
 * @key:	Random odd number, for the hash of addresses
 * @steps:	Budget used
 * @next_stop:	When to ask again whether to give up
 * @exhausted:	The budget is used up
 * @err:	Error code
 */
struct sframe_analysis {
	const struct sframe_insn_input	*in;
	struct sframe_insn_section		*sections;
	struct sframe_vec		func;
	struct sframe_vec		hash;
	struct sframe_vec		rows;
	struct sframe_vec		pairs;
	struct sframe_vec		refs;
	struct sframe_flow		*flow;
	u64				key;
	u64				steps;
	u64				next_stop;
	bool				exhausted;
	int				err;
};

void *sframe_vec__add(struct sframe_vec *vec, size_t size);

#define FUNC(a, i) (&((struct sframe_func *)(a)->func.data)[i])
#define NO_FUNC	((u32)-1)

static inline bool sframe_func__strict(const struct sframe_func *func)
{
	return func->source > SFRAME_INSN_CALL;
}

struct sframe_insn_section *sframe_analysis__section(struct sframe_analysis *a, u64 addr);
u16 sframe_analysis__mark(struct sframe_analysis *a, u64 addr);
bool sframe_analysis__is_covered(struct sframe_analysis *a, u64 addr);
void sframe_analysis__add_mark(struct sframe_analysis *a, u64 addr, u16 mark);
bool sframe_analysis__step(struct sframe_analysis *a);
u32 sframe_analysis__hash(const struct sframe_analysis *a, u64 addr);
bool sframe_analysis__decode(struct sframe_analysis *a, u64 addr, struct sframe_op *op);
bool sframe_analysis__may_start(struct sframe_analysis *a, u64 addr);
bool sframe_analysis__stub(struct sframe_analysis *a, u64 addr);
bool sframe_analysis__dead_end(struct sframe_analysis *a, u64 addr);
u32 sframe_analysis__find(struct sframe_analysis *a, u64 addr);
u32 sframe_analysis__func(struct sframe_analysis *a, u64 addr, enum sframe_insn_source source);
u64 sframe_analysis__next_ref(struct sframe_analysis *a, u64 addr);
int sframe_analysis__solve(struct sframe_analysis *a, u32 func);
int sframe_analysis__drop_dependents(struct sframe_analysis *a);
int sframe_analysis__drop_weak(struct sframe_analysis *a);
int sframe_analysis__scan(struct sframe_analysis *a);
int sframe_analysis__neighbours(struct sframe_analysis *a);
int sframe_analysis__rows(struct sframe_analysis *a, sframe_insn_row_fn fn, void *arg);
void sframe_analysis__stats(struct sframe_analysis *a, struct sframe_insn_stats *stats);
bool sframe_op__padding(const struct sframe_op *op, const u8 *bytes);

/* One instruction as sframe_flow__run() leaves it */
struct sframe_flow_row {
	u64			addr;
	u32			block;
	u8			len;
	bool			valid;
	struct sframe_insn_rule	rule;
};

struct sframe_flow *sframe_flow__new(struct sframe_analysis *a);
void sframe_flow__delete(struct sframe_flow *flow);
enum sframe_insn_verdict sframe_flow__run(struct sframe_flow *flow, u32 func, bool last);
void sframe_flow__trace(struct sframe_flow *flow);
u64 sframe_flow__where(const struct sframe_flow *flow);
const struct sframe_vec *sframe_flow__rows(const struct sframe_flow *flow);
const struct sframe_vec *sframe_flow__deps(const struct sframe_flow *flow);
const struct sframe_vec *sframe_flow__data(const struct sframe_flow *flow);

#endif /* __PERF_SFRAME_INSN_INTERNAL_H */
