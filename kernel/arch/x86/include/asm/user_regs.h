/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_USER_REGS_H
#define _ASM_X86_USER_REGS_H

struct pt_regs;

struct pt_regs *x86_user_regs(const struct pt_regs *regs, struct pt_regs *copy);

#endif /* _ASM_X86_USER_REGS_H */
