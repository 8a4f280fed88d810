/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BPF programs given as instructions, so that nothing but bpf(2) is needed.
 */
#ifndef __SELFTESTS_PERF_EVENTS_BPF_H
#define __SELFTESTS_PERF_EVENTS_BPF_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <sys/syscall.h>

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
/* This instruction takes two places. */
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
 * r6 is the context, r7 the first value of a map; without one the next @skip
 * instructions are left out.
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

static inline int sys_bpf(int cmd, union bpf_attr *attr)
{
	return syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

static inline int map_create(__u32 type, __u32 value_size, __u32 entries)
{
	union bpf_attr attr = {
		.map_type = type,
		.key_size = 4,
		.value_size = value_size,
		.max_entries = entries,
	};

	return sys_bpf(BPF_MAP_CREATE, &attr);
}

static inline int map_lookup(int fd, __u32 key, void *value)
{
	union bpf_attr attr = {
		.map_fd = fd,
		.key = (uintptr_t)&key,
		.value = (uintptr_t)value,
	};

	return sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

/* Prints what the verifier says if it refuses the program. */
static inline int prog_load(__u32 type, const struct bpf_insn *insns,
			    unsigned int nr)
{
	static char verifier_log[65536];
	union bpf_attr attr = {
		.prog_type = type,
		.insns = (uintptr_t)insns,
		.insn_cnt = nr,
		.license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)verifier_log,
		.log_size = sizeof(verifier_log),
		.log_level = 1,
	};
	int fd = sys_bpf(BPF_PROG_LOAD, &attr);

	if (fd < 0)
		fprintf(stderr, "# %s\n", verifier_log);
	return fd;
}

#endif /* __SELFTESTS_PERF_EVENTS_BPF_H */
