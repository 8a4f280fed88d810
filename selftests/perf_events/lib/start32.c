// SPDX-License-Identifier: GPL-2.0
/*
 * The entry point of a 32-bit program without a C library: main() gets the initial
 * stack pointer, and returns the exit status.
 */
asm("	.pushsection .text, \"ax\"\n"
"	.globl	_start\n"
"_start:\n"
"	mov	%esp, %eax\n"
"	xor	%ebp, %ebp\n"
"	and	$-16, %esp\n"
"	sub	$12, %esp\n"
"	push	%eax\n"
"	call	main\n"
"	mov	%eax, %ebx\n"
"	mov	$1, %eax\n"
"	int	$0x80\n"
"	ud2\n"
"	.popsection\n"
);
