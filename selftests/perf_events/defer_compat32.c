// SPDX-License-Identifier: GPL-2.0
/*
 * The 32-bit half of defer_compat: no C library, a stack that is known to the
 * last address. It writes the addresses that occur on the stack, waits for a byte,
 * makes COMPAT_WALKS system calls, each with a stack that encodes its number, one more
 * that sleeps if the byte says so, and exits with 0.
 */
#include "defer_compat.h"
#include "lib/start32.h"

asm("	.pushsection .text, \"ax\"\n"
/* walk_top(id, bits, nr): see known_stack.c; nr is the system call. */
"	.type walk_top, @function\n"
"walk_top:\n"
"	push	%ebp\n"
"	push	%ebx\n"
"	mov	12(%esp), %edx\n"
"	mov	16(%esp), %ecx\n"
"	mov	20(%esp), %ebx\n"
"	xor	%ebp, %ebp\n"
"	call	walk_step\n"
"walk_top_ret:\n"
"	pop	%ebx\n"
"	pop	%ebp\n"
"	ret\n"
"	.type walk_step, @function\n"
"walk_step:\n"
"	push	%ebp\n"
"	mov	%esp, %ebp\n"
"	test	%ecx, %ecx\n"
"	jz	2f\n"
"	dec	%ecx\n"
"	shr	$1, %edx\n"
"	jc	1f\n"
"	call	walk_step\n"
"walk_ret0:\n"
"	pop	%ebp\n"
"	ret\n"
"1:	call	walk_step\n"
"walk_ret1:\n"
"	pop	%ebp\n"
"	ret\n"
/*
 * The nop is not after the system call: an interrupt can come there right after IRET.
 * If a virtual machine returns from it with RF set, the breakpoint is missed.
 */
"2:\n"
"walk_nop:\n"
"	nop\n"
/* getpgid(0), or read(0, NULL, 1) */
"	mov	%ebx, %eax\n"
"	xor	%ebx, %ebx\n"
"	xor	%ecx, %ecx\n"
"	mov	$1, %edx\n"
"	int	$0x80\n"
"walk_syscall_ip:\n"
"	pop	%ebp\n"
"	ret\n"
"	.popsection\n"
);

int walk_top(unsigned int id, unsigned int bits, unsigned int nr);
extern char walk_top_ret[], walk_ret0[], walk_ret1[], walk_syscall_ip[];
extern char walk_nop[];

int main(void)
{
	struct defer_compat_addrs addrs = {
		.top_ret = (unsigned int)walk_top_ret,
		.ret0 = (unsigned int)walk_ret0,
		.ret1 = (unsigned int)walk_ret1,
		.syscall_ip = (unsigned int)walk_syscall_ip,
		.nop = (unsigned int)walk_nop,
	};
	unsigned int i;
	char byte;

	if (sys3(NR_WRITE32, 1, &addrs, sizeof(addrs)) != sizeof(addrs))
		return 2;
	if (sys3(NR_READ32, 0, &byte, 1) != 1)
		return 3;
	for (i = 0; i < COMPAT_WALKS; i++)
		walk_top(i, COMPAT_BITS, COMPAT_GETPGID);
	/* It fails when there is a byte. */
	if (byte == COMPAT_SLEEP)
		walk_top(i, COMPAT_BITS, NR_READ32);
	return 0;
}
