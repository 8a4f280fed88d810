/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_H
#define _LINUX_UNWIND_USER_H

#include <linux/types.h>
#include <linux/unwind_user_types.h>

struct pt_regs;

/*
 * The deepest stack that a walk returns. A perf record is at most 64 KiB
 * long, so more return addresses than this could not be delivered anyway.
 */
#define UNWIND_USER_MAX_DEPTH	8000

static inline bool unwind_user_regs_equal(const struct unwind_user_regs *a,
					  const struct unwind_user_regs *b)
{
	return a->ip == b->ip && a->sp == b->sp && a->fp == b->fp &&
	       a->cs_base == b->cs_base && a->ss_base == b->ss_base &&
	       a->word_size == b->word_size;
}

/**
 * struct unwind_user_rule - How to get from a frame to the frame of its caller
 * @cfa_off:	Canonical frame address (CFA), as an offset from the frame
 *		pointer (@cfa_from_fp) or from the stack pointer
 * @ra_off:	Stack slot of the return address, as an offset from the CFA
 * @fp_off:	Stack slot of the caller's frame pointer, as an offset from the
 *		CFA (@fp_saved)
 * @cfa_from_fp: @cfa_off counts from the frame pointer
 * @fp_saved:	The caller's frame pointer is at @fp_off; otherwise the register
 *		still holds it
 *
 * All offsets are in bytes. The CFA is the value of the stack pointer before
 * the call instruction pushed the return address, hence also the stack pointer
 * of the calling frame.
 */
struct unwind_user_rule {
	s32		cfa_off;
	s32		ra_off;
	s32		fp_off;
	bool		cfa_from_fp;
	bool		fp_saved;
};

/**
 * enum unwind_user_result - Outcome of one step of a walk
 * @UNWIND_USER_FRAME:	The state has moved to the calling frame
 * @UNWIND_USER_END:	The current frame is the outermost one
 * @UNWIND_USER_CORRUPT: The calling frame cannot be found: memory is not
 *			readable, or what it holds cannot be a frame
 */
enum unwind_user_result {
	UNWIND_USER_FRAME,
	UNWIND_USER_END,
	UNWIND_USER_CORRUPT,
};

/**
 * struct unwind_user_state - Where a walk over current's user stack is
 * @regs:	Registers of the current frame, as far as they are known
 * @bottom:	Where the walk entered the current stack
 * @switches:	How often it went to a lower stack
 * @fp_known:	@regs.fp is the frame's; its slot may have been unreadable
 * @topmost:	The current frame is the interrupted one: @regs.ip is the next
 *		instruction to run, not a return address
 *
 * Belongs to the walking task; not to be shared.
 */
struct unwind_user_state {
	struct unwind_user_regs	regs;
	unsigned long		bottom;
	unsigned int		switches;
	bool			fp_known;
	bool			topmost;
};

bool unwind_user_read(unsigned long addr, void *buf, unsigned int size);
void unwind_user_start(struct unwind_user_state *state,
		       const struct unwind_user_regs *regs);
enum unwind_user_result unwind_user_next(struct unwind_user_state *state);
unsigned int unwind_user(const struct unwind_user_regs *regs,
			 unsigned long *entries, unsigned int max);

#endif /* _LINUX_UNWIND_USER_H */
