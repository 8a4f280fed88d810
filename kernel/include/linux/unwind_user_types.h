/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_TYPES_H
#define _LINUX_UNWIND_USER_TYPES_H

#include <linux/types.h>

/**
 * enum unwind_user_end - Why a stack has no more entries
 * @UNWIND_USER_END_OUTERMOST: The outermost frame was reached
 * @UNWIND_USER_END_CUT:	The requested depth was reached; there may be more
 * @UNWIND_USER_END_BROKEN:	A frame's caller could not be found
 * @UNWIND_USER_END_NOMEM:	There was no memory for more entries
 */
enum unwind_user_end {
	UNWIND_USER_END_OUTERMOST,
	UNWIND_USER_END_CUT,
	UNWIND_USER_END_BROKEN,
	UNWIND_USER_END_NOMEM,
};

/**
 * struct unwind_user_regs - The user registers that a walk starts from
 * @ip:		Instruction pointer, without @cs_base
 * @sp:		Stack pointer, without @ss_base
 * @fp:		Frame pointer register, without @ss_base
 * @cs_base:	Linear address of the code segment's start, 0 for flat segments
 * @ss_base:	Linear address of the stack segment's start, 0 for flat segments
 * @word_size:	Size of a return address on the stack, in bytes: 8 or 4
 *
 * arch_unwind_user_regs() fills it at the time of the request, because the registers
 * may change before the walk runs.
 */
struct unwind_user_regs {
	unsigned long	ip;
	unsigned long	sp;
	unsigned long	fp;
	u32		cs_base;
	u32		ss_base;
	u8		word_size;
};

/* DWARF numbers of general registers are smaller than this. */
#define UNWIND_USER_NR_GPRS	16

/**
 * struct unwind_user_gprs - General registers
 * @reg:	By DWARF number
 *
 * Only the innermost frame has all of them. For its callers the walk knows only the
 * instruction pointer, stack pointer and frame pointer.
 */
struct unwind_user_gprs {
	unsigned long	reg[UNWIND_USER_NR_GPRS];
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
