/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_SFRAME_H
#define _ASM_X86_SFRAME_H

#include <linux/sframe.h>

/* Header fields of sections for this architecture */
#define ARCH_SFRAME_ABI		SFRAME_ABI_AMD64
#define ARCH_SFRAME_FIXED_FP	SFRAME_AMD64_FP_OFF
#define ARCH_SFRAME_FIXED_RA	SFRAME_AMD64_RA_OFF

/* DWARF numbers of registers */
#define ARCH_SFRAME_FP		SFRAME_AMD64_FP
#define ARCH_SFRAME_SP		SFRAME_AMD64_SP
#define ARCH_SFRAME_REGS	SFRAME_AMD64_REGS

#endif /* _ASM_X86_SFRAME_H */
