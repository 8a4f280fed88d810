// SPDX-License-Identifier: GPL-2.0
/*
 * The 32-bit half of defer_compat: no C library, a stack that is known to the
 * last address.  Writes the addresses that occur on it, waits for a byte, makes
 * NR_WALKS system calls of which each has a stack that tells its number, and
 * exits with 0.
 */
#include "defer_compat.h"

asm("	.pushsection .text, \"ax\"\n"
/* walk_top(id, bits): see defer.h */
"	.type walk_top, @function\n"
"walk_top:\n"
"	push	%ebp\n"
"	push	%ebx\n"
"	mov	12(%esp), %edx\n"
"	mov	16(%esp), %ecx\n"
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
 * Not behind the system call: where an interrupt comes right after IRET, and a
 * virtual machine has RF set when that returns, the breakpoint is not hit.
 */
"2:\n"
"walk_nop:\n"
"	nop\n"
/* getpgid(0) */
"	mov	$132, %eax\n"
"	xor	%ebx, %ebx\n"
"	int	$0x80\n"
"walk_syscall_ip:\n"
"	pop	%ebp\n"
"	ret\n"
"	.globl	_start\n"
"_start:\n"
"	xor	%ebp, %ebp\n"
"	and	$-16, %esp\n"
"	call	main\n"
"	mov	%eax, %ebx\n"
"	mov	$1, %eax\n"
"	int	$0x80\n"
"	ud2\n"
"	.popsection\n"
);

int walk_top(unsigned int id, unsigned int bits);
extern char walk_top_ret[], walk_ret0[], walk_ret1[], walk_syscall_ip[];
extern char walk_nop[];

static int sys3(int nr, int a, const void *b, int c)
{
	int ret;

	asm volatile("int $0x80" : "=a" (ret)
		     : "a" (nr), "b" (a), "c" (b), "d" (c) : "memory");
	return ret;
}

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

	/* write and read */
	if (sys3(4, 1, &addrs, sizeof(addrs)) != sizeof(addrs))
		return 2;
	if (sys3(3, 0, &byte, 1) != 1)
		return 3;
	for (i = 0; i < COMPAT_WALKS; i++)
		walk_top(i, COMPAT_BITS);
	return 0;
}
