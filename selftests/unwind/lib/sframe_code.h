/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code that only SFrame can unwind: position independent functions that are copied into
 * images with a section, see image.h.
 */
#ifndef SELFTESTS_UNWIND_SFRAME_CODE_H
#define SELFTESTS_UNWIND_SFRAME_CODE_H

#include <stddef.h>
#include <linux/types.h>

/* A system call that code_leaf makes. The assembly depends on the size, 64 bytes. */
struct code_call {
	__u64	nr;
	__u64	args[6];
	__u64	ret;
};

/* Context of the functions. The assembly depends on the offsets. */
struct code_ctx {
	/* 0: Frame pointer that misleads, set by code_entry. */
	__u64			decoy;
	/* 8, 16: For code_leaf. */
	struct code_call	*calls;
	__u64			nr_calls;
	/* 24: For code_spin. */
	__u64			loops;
	/* 32: For code_handler: what it calls. */
	__u64			*plan;
	/* 40: For code_handler: bytes to skip where the signal came. */
	__u64			skip;
	/* 48: For code_fp: stack to take, a multiple of 16. */
	__u64			alloca;
	/* 56: Keeps the size a power of two. */
	__u64			pad;
};

#ifdef __x86_64__
#ifndef CODE_LABEL
#define CODE_LABEL(name)	extern const char name[]
#endif

CODE_LABEL(code_begin);
CODE_LABEL(code_end);
CODE_LABEL(code_decoy);
CODE_LABEL(code_entry);
CODE_LABEL(code_entry_1);
CODE_LABEL(code_entry_2);
CODE_LABEL(code_entry_3);
CODE_LABEL(code_entry_4);
CODE_LABEL(code_entry_5);
CODE_LABEL(code_entry_6);
CODE_LABEL(code_entry_ret);
CODE_LABEL(code_entry_end);
CODE_LABEL(code_sp);
CODE_LABEL(code_sp_1);
CODE_LABEL(code_sp_2);
CODE_LABEL(code_sp_3);
CODE_LABEL(code_sp_4);
CODE_LABEL(code_sp_ret);
CODE_LABEL(code_sp_end);
CODE_LABEL(code_mark);
CODE_LABEL(code_mark_1);
CODE_LABEL(code_mark_2);
CODE_LABEL(code_mark_3);
CODE_LABEL(code_mark_4);
CODE_LABEL(code_mark_ret);
CODE_LABEL(code_mark_end);
CODE_LABEL(code_keep);
CODE_LABEL(code_keep_1);
CODE_LABEL(code_keep_2);
CODE_LABEL(code_keep_ret);
CODE_LABEL(code_keep_end);
CODE_LABEL(code_fp);
CODE_LABEL(code_fp_1);
CODE_LABEL(code_fp_2);
CODE_LABEL(code_fp_3);
CODE_LABEL(code_fp_4);
CODE_LABEL(code_fp_ret);
CODE_LABEL(code_fp_end);
CODE_LABEL(code_mid);
CODE_LABEL(code_mid_1);
CODE_LABEL(code_mid_2);
CODE_LABEL(code_mid_ret);
CODE_LABEL(code_mid_end);
CODE_LABEL(code_large);
CODE_LABEL(code_large_1);
CODE_LABEL(code_large_2);
CODE_LABEL(code_large_3);
CODE_LABEL(code_large_4);
CODE_LABEL(code_large_ret);
CODE_LABEL(code_large_end);
CODE_LABEL(code_far);
CODE_LABEL(code_far_1);
CODE_LABEL(code_far_2);
CODE_LABEL(code_far_3);
CODE_LABEL(code_far_4);
CODE_LABEL(code_far_ret);
CODE_LABEL(code_far_end);
CODE_LABEL(code_noreturn);
CODE_LABEL(code_noreturn_1);
CODE_LABEL(code_noreturn_2);
CODE_LABEL(code_noreturn_end);
CODE_LABEL(code_behind);
CODE_LABEL(code_behind_end);
CODE_LABEL(code_mask);
CODE_LABEL(code_mask_1);
CODE_LABEL(code_mask_2);
CODE_LABEL(code_mask_third);
CODE_LABEL(code_mask_third_1);
CODE_LABEL(code_mask_third_2);
CODE_LABEL(code_mask_third_ret);
CODE_LABEL(code_mask_end);
CODE_LABEL(code_drap);
CODE_LABEL(code_drap_1);
CODE_LABEL(code_drap_2);
CODE_LABEL(code_drap_3);
CODE_LABEL(code_drap_4);
CODE_LABEL(code_drap_5);
CODE_LABEL(code_drap_6);
CODE_LABEL(code_drap_7);
CODE_LABEL(code_drap_ret);
CODE_LABEL(code_drap_end);
CODE_LABEL(code_ra_reg);
CODE_LABEL(code_ra_reg_1);
CODE_LABEL(code_ra_reg_2);
CODE_LABEL(code_ra_reg_3);
CODE_LABEL(code_ra_reg_4);
CODE_LABEL(code_ra_reg_ret);
CODE_LABEL(code_ra_reg_end);
CODE_LABEL(code_fp_reg);
CODE_LABEL(code_fp_reg_1);
CODE_LABEL(code_fp_reg_2);
CODE_LABEL(code_fp_reg_3);
CODE_LABEL(code_fp_reg_4);
CODE_LABEL(code_fp_reg_5);
CODE_LABEL(code_fp_reg_6);
CODE_LABEL(code_fp_reg_7);
CODE_LABEL(code_fp_reg_8);
CODE_LABEL(code_fp_reg_ret);
CODE_LABEL(code_fp_reg_end);
CODE_LABEL(code_slot);
CODE_LABEL(code_slot_1);
CODE_LABEL(code_slot_2);
CODE_LABEL(code_slot_3);
CODE_LABEL(code_slot_4);
CODE_LABEL(code_slot_ret);
CODE_LABEL(code_slot_end);
CODE_LABEL(code_interrupt);
CODE_LABEL(code_interrupt_1);
CODE_LABEL(code_interrupt_ret);
CODE_LABEL(code_interrupt_end);
CODE_LABEL(code_first);
CODE_LABEL(code_first_end);
CODE_LABEL(code_leaf);
CODE_LABEL(code_leaf_1);
CODE_LABEL(code_leaf_2);
CODE_LABEL(code_leaf_3);
CODE_LABEL(code_leaf_4);
CODE_LABEL(code_leaf_5);
CODE_LABEL(code_leaf_6);
CODE_LABEL(code_leaf_ip);
CODE_LABEL(code_leaf_end);
CODE_LABEL(code_spin);
CODE_LABEL(code_spin_end);
CODE_LABEL(code_fault);
CODE_LABEL(code_fault_end);
CODE_LABEL(code_handler);
CODE_LABEL(code_handler_1);
CODE_LABEL(code_handler_2);
CODE_LABEL(code_handler_3);
CODE_LABEL(code_handler_4);
CODE_LABEL(code_handler_ret);
CODE_LABEL(code_handler_end);
CODE_LABEL(code_handler_next);
CODE_LABEL(code_restore_eax);
CODE_LABEL(code_restore_rax);
CODE_LABEL(code_restore_marked);
CODE_LABEL(code_restore_marked_end);
CODE_LABEL(code_restore_rules);
CODE_LABEL(code_restore_rules_end);
CODE_LABEL(code_start);
CODE_LABEL(code_start_ret);
CODE_LABEL(code_start_end);
CODE_LABEL(code_program);
CODE_LABEL(code_program_nr);
CODE_LABEL(code_program_interpreter);

static inline size_t code_size(void)
{
	return code_end - code_begin;
}
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_SFRAME_CODE_H */
