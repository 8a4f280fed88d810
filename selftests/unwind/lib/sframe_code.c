// SPDX-License-Identifier: GPL-2.0
/*
 * Code that only SFrame can unwind, see sframe_code.h.
 *
 * Each function has the arguments (plan, ctx): plan points to the addresses of
 * the functions to call, one by one. The last one is a leaf. So a test can make any
 * chain of frames. The frame pointer of most functions is a decoy: it leads to a frame
 * made by code_entry, whose return address is code_decoy. A walk that follows frame
 * pointers therefore has code_decoy in its stack.
 */
/* Labels that other files use. */
#define CODE_LABEL(name)	extern const char name[]; asm(".globl " #name)
#include "sframe_code.h"

#ifdef __x86_64__
#define CODE_NEXT	"	add	$8, %rdi\n"	\
			"	call	*-8(%rdi)\n"

#define CODE_FUNC(name)	"	.type " name ", @function\n" name ":\n"
#define CODE_END(name)	name "_end:\n"			\
			"	.size " name ", . - " name "\n"

asm("	.pushsection .text, \"ax\"\n"
"	.balign 4096\n"
"code_begin:\n"
/* The section does not cover this. */
"	.fill	32, 1, 0xcc\n"
"code_decoy:\n"
"	nop\n"
"	.fill	31, 1, 0xcc\n"

/* The outermost function; keeps what a C function must keep. */
CODE_FUNC("code_entry")
"	push	%rbp\n"
"code_entry_1:\n"
"	push	%rbx\n"
"	push	%r12\n"
"	push	%r13\n"
"	push	%r14\n"
"	push	%r15\n"
"code_entry_2:\n"
"	lea	code_decoy(%rip), %rax\n"
"	push	%rax\n"
"	push	$0\n"
"code_entry_3:\n"
"	mov	%rsp, (%rsi)\n"
"	mov	%rsp, %rbp\n"
CODE_NEXT
"code_entry_ret:\n"
"	add	$16, %rsp\n"
"code_entry_4:\n"
"	pop	%r15\n"
"	pop	%r14\n"
"	pop	%r13\n"
"	pop	%r12\n"
"	pop	%rbx\n"
"code_entry_5:\n"
"	pop	%rbp\n"
"code_entry_6:\n"
"	ret\n"
CODE_END("code_entry")

/* rbp is saved, and then points to the decoy. */
CODE_FUNC("code_sp")
"	push	%rbp\n"
"code_sp_1:\n"
"	mov	(%rsi), %rbp\n"
"	sub	$24, %rsp\n"
"code_sp_2:\n"
CODE_NEXT
"code_sp_ret:\n"
"	add	$24, %rsp\n"
"code_sp_3:\n"
"	pop	%rbp\n"
"code_sp_4:\n"
"	ret\n"
CODE_END("code_sp")

/* The same. Sections differ in its rules, so a stack shows which one was used. */
CODE_FUNC("code_mark")
"	push	%rbp\n"
"code_mark_1:\n"
"	mov	(%rsi), %rbp\n"
"	sub	$40, %rsp\n"
"code_mark_2:\n"
CODE_NEXT
"code_mark_ret:\n"
"	add	$40, %rsp\n"
"code_mark_3:\n"
"	pop	%rbp\n"
"code_mark_4:\n"
"	ret\n"
CODE_END("code_mark")

/* The frame pointer is left alone. */
CODE_FUNC("code_keep")
"	sub	$56, %rsp\n"
"code_keep_1:\n"
CODE_NEXT
"code_keep_ret:\n"
"	add	$56, %rsp\n"
"code_keep_2:\n"
"	ret\n"
CODE_END("code_keep")

/* A real frame pointer, and a frame of variable size. */
CODE_FUNC("code_fp")
"	push	%rbp\n"
"code_fp_1:\n"
"	mov	%rsp, %rbp\n"
"code_fp_2:\n"
"	sub	48(%rsi), %rsp\n"
"code_fp_3:\n"
CODE_NEXT
"code_fp_ret:\n"
"	leave\n"
"code_fp_4:\n"
"	ret\n"
CODE_END("code_fp")

/* Offsets of two bytes and of four. */
CODE_FUNC("code_mid")
"	sub	$0x808, %rsp\n"
"code_mid_1:\n"
CODE_NEXT
"code_mid_ret:\n"
"	add	$0x808, %rsp\n"
"code_mid_2:\n"
"	ret\n"
CODE_END("code_mid")
CODE_FUNC("code_large")
"	push	%rbp\n"
"code_large_1:\n"
"	mov	(%rsi), %rbp\n"
"	sub	$0x20000, %rsp\n"
"code_large_2:\n"
CODE_NEXT
"code_large_ret:\n"
"	add	$0x20000, %rsp\n"
"code_large_3:\n"
"	pop	%rbp\n"
"code_large_4:\n"
"	ret\n"
CODE_END("code_large")

/* A function that is too long for offsets of one byte. */
CODE_FUNC("code_far")
"	push	%rbp\n"
"code_far_1:\n"
"	mov	(%rsi), %rbp\n"
"	jmp	1f\n"
"	.fill	4200, 1, 0x90\n"
"1:	sub	$8, %rsp\n"
"code_far_2:\n"
CODE_NEXT
"code_far_ret:\n"
"	add	$8, %rsp\n"
"code_far_3:\n"
"	pop	%rbp\n"
"code_far_4:\n"
"	ret\n"
CODE_END("code_far")

/*
 * A call that does not return, as far as the compiler knows: the return address is in
 * the next function, which has other rules.
 */
CODE_FUNC("code_noreturn")
"	push	%rbp\n"
"code_noreturn_1:\n"
"	mov	(%rsi), %rbp\n"
"	sub	$72, %rsp\n"
"code_noreturn_2:\n"
CODE_NEXT
CODE_END("code_noreturn")
CODE_FUNC("code_behind")
"	add	$72, %rsp\n"
"	pop	%rbp\n"
"	ret\n"
CODE_END("code_behind")

/* Repeats every 16 bytes, as a PLT does; the third block is called. */
"	.balign 16\n"
CODE_FUNC("code_mask")
"code_mask_block:\n"
"	sub	$8, %rsp\n"
"code_mask_1:\n"
"	add	$8, %rdi\n"
"	call	*-8(%rdi)\n"
"	pop	%rcx\n"
"code_mask_2:\n"
"	ret\n"
"	.balign 16\n"
"	sub	$8, %rsp\n"
"	add	$8, %rdi\n"
"	call	*-8(%rdi)\n"
"	pop	%rcx\n"
"	ret\n"
"	.balign 16\n"
"code_mask_third:\n"
"	sub	$8, %rsp\n"
"code_mask_third_1:\n"
"	add	$8, %rdi\n"
"	call	*-8(%rdi)\n"
"code_mask_third_ret:\n"
"	pop	%rcx\n"
"code_mask_third_2:\n"
"	ret\n"
"	.balign 16\n"
CODE_END("code_mask")

/* A realigned stack, as compilers make it: the CFA is in r10, then in memory. */
CODE_FUNC("code_drap")
"	lea	8(%rsp), %r10\n"
"code_drap_1:\n"
"	and	$-64, %rsp\n"
"	push	-8(%r10)\n"
"	push	%rbp\n"
"code_drap_2:\n"
"	mov	%rsp, %rbp\n"
"code_drap_3:\n"
"	push	%r10\n"
"code_drap_4:\n"
"	sub	$104, %rsp\n"
CODE_NEXT
"code_drap_ret:\n"
"	mov	-8(%rbp), %r10\n"
"code_drap_5:\n"
"	leave\n"
"code_drap_6:\n"
"	lea	-8(%r10), %rsp\n"
"code_drap_7:\n"
"	ret\n"
CODE_END("code_drap")

/* The return address in a register, for a while. */
CODE_FUNC("code_ra_reg")
"	pop	%r9\n"
"code_ra_reg_1:\n"
"	nop\n"
"	push	%r9\n"
"code_ra_reg_2:\n"
"	sub	$8, %rsp\n"
"code_ra_reg_3:\n"
CODE_NEXT
"code_ra_reg_ret:\n"
"	add	$8, %rsp\n"
"code_ra_reg_4:\n"
"	ret\n"
CODE_END("code_ra_reg")

/* The frame pointer in another register, for a while. */
CODE_FUNC("code_fp_reg")
"	push	%rbp\n"
"code_fp_reg_1:\n"
"	push	%r12\n"
"code_fp_reg_2:\n"
"	mov	%rbp, %r12\n"
"	mov	(%rsi), %rbp\n"
"code_fp_reg_3:\n"
"	nop\n"
"code_fp_reg_4:\n"
"	sub	$8, %rsp\n"
"code_fp_reg_5:\n"
CODE_NEXT
"code_fp_reg_ret:\n"
"	add	$8, %rsp\n"
"code_fp_reg_6:\n"
"	pop	%r12\n"
"code_fp_reg_7:\n"
"	pop	%rbp\n"
"code_fp_reg_8:\n"
"	ret\n"
CODE_END("code_fp_reg")

/*
 * A realigned stack, as assembly makes it: the stack pointer before that is in a slot,
 * and for a time the way to the slot is the length of an array.
 */
CODE_FUNC("code_slot")
"	mov	%rsp, %rax\n"
"code_slot_1:\n"
"	sub	$104, %rsp\n"
"	and	$-64, %rsp\n"
"	mov	$4, %r9d\n"
"	mov	%rax, 72(%rsp)\n"
"code_slot_2:\n"
"	xor	%eax, %eax\n"
"code_slot_3:\n"
CODE_NEXT
"code_slot_ret:\n"
"	mov	72(%rsp), %rsp\n"
"code_slot_4:\n"
"	ret\n"
CODE_END("code_slot")

/*
 * Like a signal frame, this frame does not return to a return address, but to the first
 * instruction of code_first.
 */
CODE_FUNC("code_interrupt")
"	lea	code_first(%rip), %rax\n"
"	push	%rax\n"
"code_interrupt_1:\n"
CODE_NEXT
"code_interrupt_ret:\n"
"	ret\n"
CODE_END("code_interrupt")
"	.fill	16, 1, 0xcc\n"
CODE_FUNC("code_first")
"	ret\n"
CODE_END("code_first")

/* Makes system calls. */
CODE_FUNC("code_leaf")
"	push	%rbp\n"
"code_leaf_1:\n"
"	push	%r12\n"
"code_leaf_2:\n"
"	push	%r13\n"
"code_leaf_3:\n"
"	mov	(%rsi), %rbp\n"
"	mov	8(%rsi), %r12\n"
"	mov	16(%rsi), %r13\n"
"1:	mov	0(%r12), %rax\n"
"	mov	8(%r12), %rdi\n"
"	mov	16(%r12), %rsi\n"
"	mov	24(%r12), %rdx\n"
"	mov	32(%r12), %r10\n"
"	mov	40(%r12), %r8\n"
"	mov	48(%r12), %r9\n"
"	syscall\n"
"code_leaf_ip:\n"
"	mov	%rax, 56(%r12)\n"
"	add	$64, %r12\n"
"	dec	%r13\n"
"	jnz	1b\n"
"	pop	%r13\n"
"code_leaf_4:\n"
"	pop	%r12\n"
"code_leaf_5:\n"
"	pop	%rbp\n"
"code_leaf_6:\n"
"	ret\n"
CODE_END("code_leaf")

/* Counts down; has no frame. */
CODE_FUNC("code_spin")
"	mov	24(%rsi), %rcx\n"
"1:	dec	%rcx\n"
"	jnz	1b\n"
"	ret\n"
CODE_END("code_spin")

/* Faults at its first instruction; what comes before it has no rules. */
"	.fill	16, 1, 0xcc\n"
CODE_FUNC("code_fault")
"	ud2\n"
"	ret\n"
CODE_END("code_fault")

/* A signal handler: (signal, info, ucontext). */
CODE_FUNC("code_handler")
"	push	%rbp\n"
"code_handler_1:\n"
"	sub	$32, %rsp\n"
"code_handler_2:\n"
"	mov	code_handler_next(%rip), %rax\n"
"	mov	(%rax), %rsi\n"
"	addq	$64, (%rax)\n"
"	mov	(%rsi), %rbp\n"
"	mov	32(%rsi), %rdi\n"
"	mov	40(%rsi), %rax\n"
"	mov	%rdx, 8(%rsp)\n"
"	mov	%rax, 16(%rsp)\n"
CODE_NEXT
"code_handler_ret:\n"
/* Finally, advance the instruction pointer in the signal frame. */
"	mov	8(%rsp), %rdx\n"
"	mov	16(%rsp), %rax\n"
"	add	%rax, 168(%rdx)\n"
"	add	$32, %rsp\n"
"code_handler_3:\n"
"	pop	%rbp\n"
"code_handler_4:\n"
"	ret\n"
CODE_END("code_handler")
"	.balign	8\n"
/* Address of the address of the handler's next context; see image_build(). */
"code_handler_next:\n"
"	.quad	0\n"

/* Ways back from a handler. */
"	.fill	16, 1, 0xcc\n"
"code_restore_eax:\n"
"	mov	$15, %eax\n"
"	syscall\n"
"	.fill	16, 1, 0xcc\n"
"code_restore_rax:\n"
/* mov $15, %rax, as the C library has it */
"	.byte	0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0\n"
"	syscall\n"
"	.fill	16, 1, 0xcc\n"
/* One that only the section identifies: marked, without rules. */
"	nop\n"
CODE_FUNC("code_restore_marked")
"	xor	%eax, %eax\n"
"	mov	$15, %al\n"
"	syscall\n"
"	ud2\n"
CODE_END("code_restore_marked")
"	.fill	16, 1, 0xcc\n"
/* Marked, with rules. */
"	nop\n"
CODE_FUNC("code_restore_rules")
"	xor	%eax, %eax\n"
"	mov	$15, %al\n"
"	syscall\n"
"	ud2\n"
CODE_END("code_restore_rules")

/*
 * The entry of a program made of this code: calls the functions that
 * code_program names, and exits.  The stack is the kernel's: argc, ...
 */
"	.balign	16\n"
CODE_FUNC("code_start")
"	mov	%rsp, %rbx\n"
"	lea	code_begin(%rip), %r12\n"
"	lea	code_program(%rip), %r13\n"
"	sub	$512, %rsp\n"
"	and	$-64, %rsp\n"
/* The context at rsp, the call at 64, the plan at 128. */
"	mov	%rsp, %rsi\n"
"	lea	128(%rsp), %rdi\n"
"	xor	%ecx, %ecx\n"
"1:	mov	(%r13, %rcx, 8), %rax\n"
"	test	%rax, %rax\n"
"	jz	2f\n"
"	add	%r12, %rax\n"
"	mov	%rax, (%rdi, %rcx, 8)\n"
"	inc	%ecx\n"
"	jmp	1b\n"
"2:	lea	64(%rsp), %rax\n"
"	mov	%rax, 8(%rsi)\n"
"	movq	$1, 16(%rsi)\n"
"	movq	$64, 48(%rsi)\n"
"	movq	$0, 8(%rax)\n"
"	mov	code_program_nr(%rip), %rcx\n"
"	mov	%rcx, (%rax)\n"
CODE_NEXT
"code_start_ret:\n"
/* An interpreter goes on at the program's entry, AT_ENTRY. */
"	cmpq	$0, code_program_interpreter(%rip)\n"
"	je	5f\n"
"	mov	%rbx, %rsp\n"
"	mov	(%rbx), %rax\n"
"	lea	16(%rbx, %rax, 8), %rax\n"
"3:	add	$8, %rax\n"
"	cmpq	$0, -8(%rax)\n"
"	jne	3b\n"
"4:	add	$16, %rax\n"
"	cmpq	$9, -16(%rax)\n"
"	jne	4b\n"
"	jmp	*-8(%rax)\n"
/* exit_group(0) */
"5:	mov	$231, %eax\n"
"	xor	%edi, %edi\n"
"	syscall\n"
"	ud2\n"
CODE_END("code_start")
"	.balign	8\n"
/* Offsets of functions from code_begin, ended by 0. */
"code_program:\n"
"	.fill	16, 8, 0\n"
"code_program_nr:\n"
"	.quad	0\n"
"code_program_interpreter:\n"
"	.quad	0\n"
"	.balign	4096\n"
"code_end:\n"
"	.popsection\n"
);
#endif /* __x86_64__ */
