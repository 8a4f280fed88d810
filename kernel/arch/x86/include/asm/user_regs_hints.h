/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_USER_REGS_HINTS_H
#define _ASM_X86_USER_REGS_HINTS_H

/*
 * Where the user registers are while the entry code runs
 *
 * A profiler's NMI may come at any instruction of the entry code, before pt_regs
 * is complete. x86_user_regs() finds the user's registers nevertheless, by the
 * interrupted ip. A hint is valid from its place up to the next hint. It says which
 * registers still hold the user's values, and whether the stack pointer is the
 * kernel's. Before the kernel has loaded the stack pointer, and after it has restored
 * the user's, user space chooses the value.
 *
 * If the stack pointer is the kernel's, it also shows how much of pt_regs has been
 * pushed, so no hint is needed between the pushes.
 *
 * Hints emit no code. Text without a hint before it is USER_REGS_UNKNOWN.
 *
 * The build fails unless arch/x86/tools/check_user_regs can prove that each instruction
 * is as its hint says. If it cannot, correct the hint, teach it the instruction, or put
 * USER_REGS_UNKNOWN in front of the code: samples there have no user registers then.
 */

/* The registers are not known. Also ends the range of the previous hint. */
#define USER_REGS_UNKNOWN		0

/*
 * As in all text outside .entry.text. One of two holds: the stack pointer is below a
 * complete pt_regs, or error_entry or paranoid_entry has called the code.
 */
#define USER_REGS_KERNEL		1

/*
 * On the way out to user mode: pt_regs on the task's stack is complete and stays so,
 * although most of it may be below the stack pointer by now. The stack pointer may also
 * be on the trampoline stack, or be the user's already.
 */
#define USER_REGS_EXIT			2

/*
 * The end of the way out, to user mode or to the kernel: as USER_REGS_EXIT, unless the
 * code returns to the kernel from an exception stack.
 */
#define USER_REGS_IRET			3

/*
 * If the exception came from user mode, the frame that the CPU has pushed is at the top
 * of the entry stack or of an exception stack. Registers that are not pushed yet are
 * live. On any other stack, pt_regs on the task's stack is complete.
 */
#define USER_REGS_IDT			4

/*
 * As USER_REGS_IDT while PUSH_AND_CLEAR_REGS save_ret=1 runs: the slot of di
 * holds the return address at first. di itself is live until the end.
 */
#define USER_REGS_IDT_PUSH		5

/*
 * 64-bit SYSCALL: ip is in cx, flags are in r11, the other registers are live. At first
 * sp is live. Then it is in the TSS, and rsp is scratch. Then rsp is on the task's
 * stack, and pt_regs is being pushed.
 */
#define USER_REGS_SYSCALL		6
#define USER_REGS_SYSCALL_SP2		7
#define USER_REGS_SYSCALL_PUSH		8

/* 32-bit SYSCALL: the same, but sp is saved in r8. */
#define USER_REGS_SYSCALL32		9
#define USER_REGS_SYSCALL32_R8		10
#define USER_REGS_SYSCALL32_PUSH	11

/*
 * SYSENTER: ip is lost, sp is in bp, bp is on the user's stack. At first ax may be on
 * the entry stack. Then rsp is on the task's stack, as above.
 */
#define USER_REGS_SYSENTER		12
#define USER_REGS_SYSENTER_PUSH		13

#ifdef __ASSEMBLY__

.macro USER_REGS_HINT where:req
.Luser_regs_\@:
	.pushsection .user_regs_hints, "a"
	/* struct user_regs_hint */
	.long	.Luser_regs_\@ - .
	.long	\where
	.popsection
.endm

#else /* !__ASSEMBLY__ */

#include <linux/types.h>

/**
 * struct user_regs_hint - What USER_REGS_HINT emits
 * @ip:		Address of the hint, relative to this field
 * @where:	One of USER_REGS_*
 */
struct user_regs_hint {
	s32	ip;
	u32	where;
};

/* Sorted by address: the linker keeps text and hints of the files in the same order. */
extern const struct user_regs_hint __start_user_regs_hints[];
extern const struct user_regs_hint __stop_user_regs_hints[];

/* Where IRET to user mode faults */
extern const unsigned char native_irq_return_iret[];

#endif /* __ASSEMBLY__ */

#endif /* _ASM_X86_USER_REGS_HINTS_H */
