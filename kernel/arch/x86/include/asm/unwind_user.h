/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_UNWIND_USER_H
#define _ASM_X86_UNWIND_USER_H

#include <linux/thread_info.h>
#include <linux/types.h>

struct pt_regs;
struct unwind_user_gprs;
struct unwind_user_regs;
struct unwind_user_rule;
struct unwind_user_state;
struct vm_area_struct;

/*
 * The rule of arch_unwind_user_fp_rule() for 64-bit code: where the CFA is from the frame
 * pointer. The return address and the saved frame pointer are just below it.
 */
#define ARCH_UNWIND_USER_FP_CFA		16

/* How many bytes before a return address arch_unwind_user_after_call() looks at */
#define ARCH_UNWIND_USER_CALL_MAX	7

bool arch_unwind_user_regs(struct unwind_user_regs *uregs,
			   const struct pt_regs *regs);
bool arch_unwind_user_entry_rule(const struct unwind_user_state *state,
				 struct unwind_user_rule *rule);
void arch_unwind_user_fp_rule(const struct unwind_user_state *state,
			      struct unwind_user_rule *rule);
void arch_unwind_user_gprs(struct unwind_user_gprs *gprs,
			   const struct pt_regs *regs);
int arch_unwind_user_at_sigreturn(const struct unwind_user_state *state);
bool arch_unwind_user_signal_frame(const struct unwind_user_state *state,
				   struct unwind_user_regs *regs,
				   struct unwind_user_gprs *gprs);
bool arch_unwind_user_altstack_frame(const struct unwind_user_state *state);
bool arch_unwind_user_after_call(unsigned long ip);
bool arch_unwind_user_after_nop(unsigned long ip);
bool arch_unwind_user_vdso(const struct vm_area_struct *vma);

/* Does @task run a 32-bit or x32 program? They have no SFrame sections. */
static inline bool arch_unwind_user_compat(struct task_struct *task)
{
	return test_tsk_thread_flag(task, TIF_ADDR32);
}

u32 arch_unwind_user_ignore_keys(void);
void arch_unwind_user_restore_keys(u32 keys);

#endif /* _ASM_X86_UNWIND_USER_H */
