/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_RULE_H
#define _LINUX_UNWIND_USER_RULE_H

#include <linux/types.h>

/**
 * enum unwind_user_base - What the offset of a struct unwind_user_loc is relative to
 * @UNWIND_USER_BASE_SAME:	Nothing: the register still holds the caller's value
 * @UNWIND_USER_BASE_CFA:	The canonical frame address (CFA)
 * @UNWIND_USER_BASE_SP:	The stack pointer
 * @UNWIND_USER_BASE_FP:	The frame pointer register
 * @UNWIND_USER_BASE_REG:	Any other general register
 * @UNWIND_USER_BASE_NONE:	Nothing: the value cannot be found. Only for the frame pointer
 */
enum unwind_user_base {
	UNWIND_USER_BASE_SAME,
	UNWIND_USER_BASE_CFA,
	UNWIND_USER_BASE_SP,
	UNWIND_USER_BASE_FP,
	UNWIND_USER_BASE_REG,
	UNWIND_USER_BASE_NONE,
};

/**
 * struct unwind_user_loc - How to find a value of the calling frame
 * @off:	Bytes to add to the base
 * @base:	See &enum unwind_user_base
 * @reg:	DWARF number of the register, for %UNWIND_USER_BASE_REG
 * @deref:	The value is in memory, at base plus @off; otherwise it is that sum
 */
struct unwind_user_loc {
	s32	off;
	u8	base;
	u8	reg;
	bool	deref;
};

/**
 * struct unwind_user_rule - How to get from a frame to the frame of its caller
 * @cfa:	The CFA: the value of the stack pointer before the call instruction
 *		pushed the return address, hence also the stack pointer of the
 *		calling frame
 * @ra:		The return address
 * @fp:		The caller's frame pointer
 * @cfa_add:	Bytes to add to the CFA after @cfa was read from memory
 * @cfa_index:	DWARF number, plus 1, of a second register, or 0: 8 times its value is a
 *		part of the address that @cfa is read from
 * @outermost:	There is no caller; the other fields are not valid
 * @signal:	The kernel made the frame for a signal: @ra is the instruction that
 *		was interrupted, not one after a call
 * @confined:	The rule is from a supplied table, not the program's: it may only read
 *		the stack, and the return address must be an address of code
 */
struct unwind_user_rule {
	struct unwind_user_loc	cfa;
	struct unwind_user_loc	ra;
	struct unwind_user_loc	fp;
	s32			cfa_add;
	u8			cfa_index;
	bool			outermost;
	bool			signal;
	bool			confined;
};

#endif /* _LINUX_UNWIND_USER_RULE_H */
