/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by signal_frames and its halves for other ABIs. */
#ifndef SELFTESTS_UNWIND_SIGNAL_FRAMES_H
#define SELFTESTS_UNWIND_SIGNAL_FRAMES_H

#define COMPAT_BITS	6

/* How the handler was set up. This is also the id of the interrupted walk. */
enum compat_case {
	COMPAT_RT,
	COMPAT_RT_VDSO,
	COMPAT_OLD,
	COMPAT_OLD_VDSO,
	COMPAT_CASES,
};

struct compat_addrs {
	unsigned int	handler_ip;
	unsigned int	syscall_ip;
	unsigned int	ret0;
	unsigned int	ret1;
	unsigned int	top_ret;
	/* The id of the sampled system call in raw_syscalls:sys_enter. */
	unsigned int	sampled_nr;
	/* Cases that the ABI has. */
	unsigned int	nr_cases;
};

/* Written at the end: where each handler returned to. */
struct compat_result {
	unsigned int	restorer[COMPAT_CASES];
};

#endif /* SELFTESTS_UNWIND_SIGNAL_FRAMES_H */
