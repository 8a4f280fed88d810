/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_USER_REGS_HINTS_H
#define _ASM_X86_USER_REGS_HINTS_H

/*
 * Where the user registers are while the entry code runs
 *
 * A profiler's NMI may come at any instruction of the entry code, before pt_regs
 * is complete. x86_user_regs() finds the user's registers nevertheless. What it
 * goes by is the interrupted ip: a hint says for all code from where it stands up
 * to the next hint which registers still hold the user's values, and whether the
 * stack pointer is the kernel's. It is not until the kernel has loaded it, and
 * not any more once it has been restored: user space chooses the value then.
 *
 * Where the stack pointer is the kernel's it also says how far pt_regs has been
 * pushed, so no hint is needed between the pushes.
 *
 * Hints emit no code. Text without a hint before it is USER_REGS_UNKNOWN.
 *
 * The build fails unless arch/x86/tools/check_user_regs can prove that each instruction
 * is as its hint says. If it cannot, correct the hint, teach it the instruction, or put
 * USER_REGS_UNKNOWN in front of the code: samples there have no user registers then.
 */

/* Nothing can be said. Also what ends the effect of the hint before. */
#define USER_REGS_UNKNOWN		0

/*
 * As in all text but .entry.text: called with the stack pointer below a complete
 * pt_regs, or from error_entry or paranoid_entry.
 */
#define USER_REGS_KERNEL		1

/*
 * On the way out to user mode: pt_regs on the task's stack is complete and stays
 * so, although most of it may be above the stack pointer by now, or that may be
 * on the trampoline stack or the user's already.
 */
#define USER_REGS_EXIT			2

/*
 * The end of the way out to user mode and to the kernel: as USER_REGS_EXIT,
 * unless it returns to the kernel from an exception stack.
 */
#define USER_REGS_IRET			3

/*
 * The frame that the CPU has pushed begins at the top of the entry stack or of
 * an exception stack if it comes from user mode. What is not pushed yet is live.
 * On any other stack pt_regs is complete, on the task's stack.
 */
#define USER_REGS_IDT			4

/*
 * As USER_REGS_IDT while PUSH_AND_CLEAR_REGS save_ret=1 runs: the slot of di
 * holds the return address at first. di itself is live until the end.
 */
#define USER_REGS_IDT_PUSH		5

/*
 * 64-bit SYSCALL: ip is in cx, flags in r11, the rest is live. sp is live, or
 * saved in the TSS with rsp used as scratch, or rsp is on the task's stack and
 * pt_regs is being pushed.
 */
#define USER_REGS_SYSCALL		6
#define USER_REGS_SYSCALL_SP2		7
#define USER_REGS_SYSCALL_PUSH		8

/* 32-bit SYSCALL: the same, but sp is saved in r8. */
#define USER_REGS_SYSCALL32		9
#define USER_REGS_SYSCALL32_R8		10
#define USER_REGS_SYSCALL32_PUSH	11

/*
 * SYSENTER: ip is lost, sp is in bp, bp on the user's stack. ax is saved on the
 * entry stack for a while; then rsp is on the task's stack.
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
 * @ip:		Where it stands, relative to this
 * @where:	One of USER_REGS_*
 */
struct user_regs_hint {
	s32	ip;
	u32	where;
};

/* In the order of the text: the linker takes both from one file after the other. */
extern const struct user_regs_hint __start_user_regs_hints[];
extern const struct user_regs_hint __stop_user_regs_hints[];

/* Where IRET to user mode faults */
extern const unsigned char native_irq_return_iret[];

#endif /* __ASSEMBLY__ */

#endif /* _ASM_X86_USER_REGS_HINTS_H */
