/* SPDX-License-Identifier: GPL-2.0 */
/* BPF programs given as instructions, so that nothing but bpf(2) is needed. */
#ifndef SELFTESTS_PERF_EVENTS_BPF_H
#define SELFTESTS_PERF_EVENTS_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>

#define INSN(_code, _dst, _src, _off, _imm) ((struct bpf_insn) {	\
	.code = _code, .dst_reg = _dst, .src_reg = _src, .off = _off,	\
	.imm = _imm })
#define MOV_REG(dst, src)						\
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define MOV_IMM(dst, imm)						\
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define MOV32_IMM(dst, imm)						\
	INSN(BPF_ALU | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define ADD_IMM(dst, imm)						\
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, imm)
/* Takes two instructions: LD_MAP_REST must follow. */
#define LD_MAP(dst, fd)							\
	INSN(BPF_LD | BPF_DW | BPF_IMM, dst, BPF_PSEUDO_MAP_FD, 0, fd)
#define LD_MAP_REST	INSN(0, 0, 0, 0, 0)
#define CALL(func)							\
	INSN(BPF_JMP | BPF_CALL, 0, 0, 0, func)
#define ST_IMM_W(dst, off, imm)						\
	INSN(BPF_ST | BPF_MEM | BPF_W, dst, 0, off, imm)
#define STX_DW(dst, off, src)						\
	INSN(BPF_STX | BPF_MEM | BPF_DW, dst, src, off, 0)
#define JEQ_IMM(dst, imm, off)						\
	INSN(BPF_JMP | BPF_JEQ | BPF_K, dst, 0, off, imm)
#define EXIT_INSN()							\
	INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/*
 * Load the context into r6, and the first value of a map into r7. If the map has no
 * value, jump over the next @skip instructions.
 */
#define LOOKUP_FIRST(map, skip)						\
	MOV_REG(BPF_REG_6, BPF_REG_1),					\
	ST_IMM_W(BPF_REG_10, -4, 0),					\
	MOV_REG(BPF_REG_2, BPF_REG_10),					\
	ADD_IMM(BPF_REG_2, -4),						\
	LD_MAP(BPF_REG_1, map),						\
	LD_MAP_REST,							\
	CALL(BPF_FUNC_map_lookup_elem),					\
	JEQ_IMM(BPF_REG_0, 0, (skip) + 1),				\
	MOV_REG(BPF_REG_7, BPF_REG_0)

/* bpf(2). */
int sys_bpf(int cmd, union bpf_attr *attr);

/* A map with keys of four bytes. */
int map_create(__u32 type, __u32 value_size, __u32 entries);

/* Read a value of a map. */
int map_lookup(int fd, __u32 key, void *value);

/* Load a program; prints what the verifier says if it refuses it. */
int prog_load(__u32 type, const struct bpf_insn *insns, unsigned int nr);

#endif /* SELFTESTS_PERF_EVENTS_BPF_H */
