// SPDX-License-Identifier: GPL-2.0
/* BPF programs given as instructions, so that nothing but bpf(2) is needed. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "bpf.h"

int sys_bpf(int cmd, union bpf_attr *attr)
{
	return syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

int map_create(__u32 type, __u32 value_size, __u32 entries)
{
	union bpf_attr attr = {
		.map_type = type,
		.key_size = 4,
		.value_size = value_size,
		.max_entries = entries,
	};

	return sys_bpf(BPF_MAP_CREATE, &attr);
}

int map_lookup(int fd, __u32 key, void *value)
{
	union bpf_attr attr = {
		.map_fd = fd,
		.key = (uintptr_t)&key,
		.value = (uintptr_t)value,
	};

	return sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

/* Prints what the verifier says if it refuses the program. */
int prog_load(__u32 type, const struct bpf_insn *insns,
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
