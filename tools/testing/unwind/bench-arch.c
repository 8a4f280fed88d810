// SPDX-License-Identifier: GPL-2.0
/*
 * Stubs of the memory of the mm and of arch/x86. The benchmark only has plain frames,
 * and these stubs report that at no cost. This favours frame pointers, because the
 * kernel looks at the code of each frame there.
 */
#define CONFIG_UNWIND_USER_SFRAME
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

#include "bench.h"
#include "bench-kernel.h"
#include "regions.h"

bool unwind_regions_replace_memo(struct unwind_regions_memo *old,
				 struct unwind_regions_memo *new)
{
	if (current->mm->unwind_regions->memo != old)
		return false;

	current->mm->unwind_regions->memo = new;
	return true;
}

void forget_memo(void)
{
	struct unwind_regions_memo *memo = current->mm->unwind_regions->memo;

	if (memo)
		memo->free(memo);
	current->mm->unwind_regions->memo = NULL;
}

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

bool arch_unwind_user_after_nop(unsigned long ip)
{
	return false;
}

/* Walks at hand are not tested here: a walk that may sleep finds nothing at hand. */
int unwind_user_region_at_hand(unsigned long ip, struct unwind_user_region *region,
			       struct unwind_user_seq *seq)
{
	return -EAGAIN;
}

u64 unwind_tables_switch(void)
{
	abort();
}

void unwind_tables_switch_back(u64 seq)
{
	abort();
}

int unwind_table_find_rule_within(u64 id, u64 vaddr, struct unwind_user_rule *rule,
				  u32 *budget)
{
	abort();
}
