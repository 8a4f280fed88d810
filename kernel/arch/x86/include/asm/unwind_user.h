/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_UNWIND_USER_H
#define _ASM_X86_UNWIND_USER_H

#include <linux/types.h>

struct pt_regs;
struct unwind_user_regs;
struct unwind_user_rule;
struct unwind_user_state;

bool arch_unwind_user_regs(struct unwind_user_regs *uregs,
			   const struct pt_regs *regs);
bool arch_unwind_user_entry_rule(const struct unwind_user_state *state,
				 struct unwind_user_rule *rule);
void arch_unwind_user_fp_rule(const struct unwind_user_state *state,
			      struct unwind_user_rule *rule);
bool arch_unwind_user_after_call(unsigned long ip);

#endif /* _ASM_X86_UNWIND_USER_H */
