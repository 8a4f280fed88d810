/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions whose frames are known, for which the assembler makes an SFrame section.
 * Each label at_* is the first address of a rule; assembled-test.c has the rules. The
 * code is never run.
 */
	.text

	.macro func name
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm

	.macro endfunc name
	.cfi_endproc
	.size \name, . - \name
	/* A place without a function. */
	.globl at_after_\name
at_after_\name:
	.skip 5, 0xcc
	.endm

	.macro at name
	.globl at_\name
at_\name:
	.endm

	/* A frame with a frame pointer. */
	func framed
	at framed_entry
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	at framed_pushed
	movq	%rsp, %rbp
	.cfi_def_cfa_register 6
	at framed_body
	subq	$64, %rsp
	call	framed
	leave
	.cfi_restore 6
	.cfi_def_cfa 7, 8
	at framed_return
	ret
	endfunc framed

	/* A frame without frame pointer, with offsets in words of two bytes. */
	func large
	at large_entry
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset 3, -16
	at large_pushed
	subq	$1024, %rsp
	.cfi_def_cfa_offset 1040
	at large_body
	call	framed
	addq	$1024, %rsp
	.cfi_def_cfa_offset 16
	at large_freed
	popq	%rbx
	.cfi_def_cfa_offset 8
	at large_return
	ret
	endfunc large

	/* Larger still, in words of four bytes, with the frame pointer saved. */
	func huge
	at huge_entry
	subq	$1048576, %rsp
	.cfi_def_cfa_offset 1048584
	at huge_body
	movq	%rbp, 8(%rsp)
	.cfi_offset 6, -1048576
	at huge_saved
	nop
	ret
	endfunc huge

	/* Addresses of two bytes. */
	func long_code
	at long_code_entry
	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	at long_code_body
	.skip	1000, 0x90
	addq	$8, %rsp
	.cfi_def_cfa_offset 8
	at long_code_return
	ret
	endfunc long_code

	/* Addresses of four bytes. */
	func longer_code
	at longer_code_entry
	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	at longer_code_body
	.skip	100000, 0x90
	addq	$8, %rsp
	.cfi_def_cfa_offset 8
	at longer_code_return
	ret
	endfunc longer_code

	/* More FREs than are read at once. */
	func many
	at many_entry
	.set	depth, 8
	.rept	100
	pushq	$0
	.set	depth, depth + 8
	.cfi_def_cfa_offset depth
	.endr
	at many_pushed
	nop
	ret
	endfunc many

	/* A stack that is realigned: the CFA is in r10, then in memory. */
	func drap
	at drap_entry
	leaq	8(%rsp), %r10
	.cfi_def_cfa 10, 0
	at drap_r10
	andq	$-32, %rsp
	pushq	-8(%r10)
	pushq	%rbp
	/* DW_CFA_expression: rbp is at *(rbp + 0). */
	.cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00
	at drap_saved
	movq	%rsp, %rbp
	pushq	%r10
	/* DW_CFA_def_cfa_expression: *(rbp - 8). */
	.cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06
	at drap_body
	subq	$24, %rsp
	call	framed
	addq	$24, %rsp
	popq	%r10
	.cfi_def_cfa 10, 0
	at drap_popped
	popq	%rbp
	.cfi_same_value 6
	at drap_restored
	leaq	-8(%r10), %rsp
	.cfi_def_cfa 7, 8
	at drap_return
	ret
	endfunc drap

	/* The return address and the frame pointer are in registers. */
	func registers
	at registers_entry
	movq	(%rsp), %rdi
	.cfi_register 16, 5
	at registers_ra
	movq	%rbp, %r12
	.cfi_register 6, 12
	at registers_ra_fp
	movq	%rdi, (%rsp)
	.cfi_offset 16, -8
	at registers_fp
	nop
	ret
	endfunc registers

	/* Where a thread begins: there is no caller. */
	func outermost
	.cfi_undefined 16
	at outermost_body
	call	framed
	hlt
	endfunc outermost

	/* A signal trampoline that is described like a function. */
	func trampoline
	.cfi_signal_frame
	.cfi_def_cfa 7, 168
	at trampoline_body
	movl	$15, %eax
	syscall
	endfunc trampoline

	/* One that only an expression describes, like those of C libraries. */
	func opaque_trampoline
	.cfi_signal_frame
	/* DW_CFA_def_cfa_expression: *(rsp + 160). */
	.cfi_escape 0x0f, 0x04, 0x77, 0xa0, 0x01, 0x06
	at opaque_trampoline_body
	movl	$15, %eax
	syscall
	endfunc opaque_trampoline

	/* Calls by way of .plt, whose entries are alike. */
	func caller
	at caller_entry
	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	at caller_body
	call	elsewhere@plt
	call	elsewhere_too@plt
	call	elsewhere_again@plt
	addq	$8, %rsp
	.cfi_def_cfa_offset 8
	at caller_return
	ret
	endfunc caller

	/* No CFI, hence nothing in the section. */
	.globl uncovered
	.type uncovered, @function
uncovered:
	at uncovered_body
	ret
	.size uncovered, . - uncovered

	/* So that there is more than one part of FDEs, and more than one window. */
	at filler
	.rept	200
	.cfi_startproc
	pushq	%rax
	.cfi_def_cfa_offset 16
	popq	%rax
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.endr

	func last
	at last_entry
	ret
	.cfi_endproc
	.size last, . - last
	at the_end

	.section .note.GNU-stack, "", @progbits
