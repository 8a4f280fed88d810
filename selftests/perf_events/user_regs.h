/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by user_regs, user_regs_compat and its 32-bit program. */
#ifndef SELFTESTS_PERF_EVENTS_USER_REGS_H
#define SELFTESTS_PERF_EVENTS_USER_REGS_H

/* Values of the general registers in a target, if not stated otherwise. */
#define WANT_BX		0x1b1b0001
#define WANT_SI		0x1e1e0002
#define WANT_DI		0x1f1f0003
#define WANT_DX		0x1d1d0004
#define WANT_CX		0x1c1c0005

/* Words at the stack pointer. */
#define WANT_WORD(i)	(0x5a5a0000 + (i))
#define WANT_WORDS	8
/* The word that counts, like r12 or edi */
#define COUNT_WORD	1

/* First argument of the 32-bit program: the way to enter the kernel */
#define ENTER_INT80	'i'
#define ENTER_SYSENTER	'e'
#define ENTER_SYSCALL	'c'
#define ENTER_SPIN	's'

/* The report of the 32-bit program about itself. */
struct user_regs_target {
	/* Its loop, and the address after the system call, if there is one. */
	unsigned int start;
	unsigned int end;
	unsigned int after;
	/* Address at which edi has counted, but not the stack */
	unsigned int count;
	/* Address in the vDSO after SYSENTER or SYSCALL; 0 without the vDSO. */
	unsigned int landing_pad;
	/* The stack pointer in the loop, and at the landing pad. */
	unsigned int sp;
	unsigned int landing_sp;
	/* bp, and the return address of the frame there. */
	unsigned int bp;
	unsigned int ret;
};

#endif /* SELFTESTS_PERF_EVENTS_USER_REGS_H */
