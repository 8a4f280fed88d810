/* SPDX-License-Identifier: GPL-2.0 */
/* Definitions for the files that follow the instructions of a function */
#ifndef __PERF_SFRAME_INSN_FLOW_H
#define __PERF_SFRAME_INSN_FLOW_H

#include "util/sframe-insn-internal.h"

#define NO_BLOCK	((u32)-1)

struct flow_insn {
	u64			addr;
	struct sframe_op	op;
	u32			head;	/* the block whose walk came here last */
	u32			block;	/* the block that starts here */
};

struct flow_block {
	u64				addr;
	bool				queued;
	bool				exits;	/* a path leads out of the function */
	bool				proved;	/* see drop_unproved() */
	bool				user;	/* it is in @users */
	struct sframe_insn_state	state;
};

/* A jump table: relative addresses of type @type (enum sframe_table) at @addr */
struct flow_table {
	u64	addr;
	u64	base;
	u8	type;
};

/* A path from block to block; @call: if the call in between returns */
struct flow_edge {
	u32	from;
	u32	to;
	bool	call;
};

enum flow_pass { PASS_FIND, PASS_CHECK, PASS_TRACE };

struct sframe_flow {
	struct sframe_analysis		*a;
	u32				func;
	u32				run;	/* number of this analysis */
	u64				entry;
	u64				end;
	bool				strict;
	bool				lax;	/* it need not keep to the ABI */
	bool				weak;	/* it does not */
	bool				stored;	/* data points to it; it is no label */
	bool				tight;	/* jump tables lead to addresses nearby only */
	bool				wide;	/* they do not */
	bool				jumps;	/* it jumps to unknown addresses */
	bool				last;
	enum flow_pass			pass;
	enum sframe_insn_verdict	verdict;
	u64				where;	/* where it failed */
	u64				addr;	/* the instruction at hand */
	u32				block;	/* the block at hand */
	bool				called;	/* the instruction at hand is a call */
	u64				first_step;
	struct sframe_vec		insns;	/* struct flow_insn */
	struct sframe_vec		hash;	/* u32: 1 + index of an instruction */
	struct sframe_vec		blocks;	/* struct flow_block */
	struct sframe_vec		queue;	/* u32 */
	struct sframe_vec		tables;	/* struct flow_table */
	struct sframe_vec		labels;	/* u64: see VAL_LABEL */
	struct sframe_vec		users;	/* u32: blocks that jump to them */
	struct sframe_vec		edges;	/* struct flow_edge */
	struct sframe_vec		rows;	/* struct sframe_flow_row */
	struct sframe_vec		deps;	/* u32 */
	struct sframe_vec		data;	/* u64 */
	u32				saved;
	s64				store_min;
	s64				store_max;
	u32				exits;
	u32				sure;	/* exits that rest on no assumption */
	u32				rets;
};

#define BLOCK(f, i) (&((struct flow_block *)(f)->blocks.data)[i])

#define INSN(f, i) (&((struct flow_insn *)(f)->insns.data)[i])

void sframe_flow__fail(struct sframe_flow *f, enum sframe_insn_verdict verdict);
void sframe_flow__fail_late(struct sframe_flow *f, enum sframe_insn_verdict verdict);
void sframe_flow__no_memory(struct sframe_flow *f);
bool sframe_flow__step(struct sframe_flow *f);
void sframe_flow__enqueue(struct sframe_flow *f, u32 block);
void sframe_flow__flow_to(struct sframe_flow *f, u64 addr, const struct sframe_insn_state *st);
bool sframe_flow__at_exit(struct sframe_flow *f, const struct sframe_insn_state *st);
void sframe_flow__leave_function(struct sframe_flow *f, u32 saved, bool sure);
void sframe_flow__may_store(struct sframe_flow *f, s64 min, s64 max);
void sframe_flow__tail_jump(struct sframe_flow *f, u64 target, const struct sframe_insn_state *st);
void sframe_flow__jump_to(struct sframe_flow *f, u64 target, const struct sframe_insn_state *st,
			  bool always);
void sframe_flow__note_label(struct sframe_flow *f, struct sframe_value value);
void sframe_flow__jump_any(struct sframe_flow *f, const struct sframe_op *op,
			   const struct sframe_insn_state *st);
bool sframe_flow__call(struct sframe_flow *f, const struct sframe_op *op, u64 next,
		       struct sframe_insn_state *st);
void sframe_flow__note_table(struct sframe_flow *f, struct sframe_op *op,
			     const struct sframe_insn_state *st);
void sframe_flow__note_insn(struct sframe_flow *f, const struct flow_insn *insn,
			    const struct sframe_insn_state *st);
void sframe_flow__drop_unproved(struct sframe_flow *f);
void sframe_flow__check_rows(struct sframe_flow *f);

#endif /* __PERF_SFRAME_INSN_FLOW_H */
