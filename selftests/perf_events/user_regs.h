/* SPDX-License-Identifier: GPL-2.0 */
/* Between user_regs and its 32-bit half. */
#ifndef SELFTESTS_PERF_EVENTS_USER_REGS_H
#define SELFTESTS_PERF_EVENTS_USER_REGS_H

/* What the general registers hold while a target runs, unless it is said. */
#define WANT_BX		0x1b1b0001
#define WANT_SI		0x1e1e0002
#define WANT_DI		0x1f1f0003
#define WANT_DX		0x1d1d0004
#define WANT_CX		0x1c1c0005

/* Words at the stack pointer. */
#define WANT_WORD(i)	(0x5a5a0000 + (i))
#define WANT_WORDS	8
/* Which of them counts, as r12 or edi does */
#define COUNT_WORD	1

/* How the 32-bit half is to enter the kernel: its first argument */
#define ENTER_INT80	'i'
#define ENTER_SYSENTER	'e'
#define ENTER_SYSCALL	'c'
#define ENTER_SPIN	's'

/* What it says about itself. */
struct user_regs_target {
	/* What it runs for ever, and behind the system call, if there is one. */
	unsigned int start;
	unsigned int end;
	unsigned int after;
	/* Where edi is ahead of the word on the stack */
	unsigned int count;
	/* Where the vDSO goes on after SYSENTER and SYSCALL; else as after. */
	unsigned int landing_pad;
	/* The stack pointer; at the landing pad. */
	unsigned int sp;
	unsigned int landing_sp;
	/* bp, and where the two frames from there return to. */
	unsigned int bp;
	unsigned int ret;
};

#endif /* SELFTESTS_PERF_EVENTS_USER_REGS_H */
