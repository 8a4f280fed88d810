// SPDX-License-Identifier: GPL-2.0
/* Code whose user stack is known to the last address, for tests of unwinding. */

#include "known_stack.h"

#ifdef __x86_64__
/*
 * walk_top(id, bits, leaf, ...) calls walk_step() recursively, "bits" times,
 * from one of two places that the next bit of id, lowest first, selects.  The
 * innermost one jumps to "leaf".  rbp is 0 above walk_step(), so the stack is
 *
 *	ip in leaf, walk_ret{0,1} * bits (bit 0 outermost), walk_top_ret
 *
 * and nothing else. The stack thus encodes id.
 */
asm("	.pushsection .text, \"ax\"\n"
"	.balign 16\n"
"	.type walk_top, @function\n"
"walk_top:\n"
"	push	%rbp\n"
"	xor	%ebp, %ebp\n"
"	call	walk_step\n"
"walk_top_ret:\n"
"	pop	%rbp\n"
"	ret\n"
"	.size walk_top, . - walk_top\n"
"	.balign 16\n"
"	.type walk_step, @function\n"
"walk_step:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	test	%esi, %esi\n"
"	jz	2f\n"
"	dec	%esi\n"
"	shr	$1, %rdi\n"
"	jc	1f\n"
"	call	walk_step\n"
"walk_ret0:\n"
"	pop	%rbp\n"
"	ret\n"
"1:	call	walk_step\n"
"walk_ret1:\n"
"	pop	%rbp\n"
"	ret\n"
"2:	jmp	*%rdx\n"
"	.size walk_step, . - walk_step\n"
/* Leaf: system call rcx(r8, r9, 0, 0). */
"walk_syscall:\n"
"	mov	%rcx, %rax\n"
"	mov	%r8, %rdi\n"
"	mov	%r9, %rsi\n"
"	xor	%edx, %edx\n"
"	xor	%r10d, %r10d\n"
"	syscall\n"
"walk_syscall_ip:\n"
"	pop	%rbp\n"
"	ret\n"
/* Leaf: call rcx(r8, r9). */
"walk_call:\n"
"	mov	%r8, %rdi\n"
"	mov	%r9, %rsi\n"
"	call	*%rcx\n"
"walk_call_ret:\n"
"	pop	%rbp\n"
"	ret\n"
/* Leaf: count rcx down to 0. */
"walk_spin:\n"
"	dec	%rcx\n"
"	jnz	walk_spin\n"
"walk_spin_end:\n"
"	pop	%rbp\n"
"	ret\n"
/* Leaf: a single instruction to put a breakpoint on. */
"walk_nop:\n"
"	nop\n"
"	pop	%rbp\n"
"	ret\n"
/*
 * walk_on(nr, arg0, sp, fp, arg1): system call with a stack and a chain of
 * frames made by hand.
 */
"	.balign 16\n"
"	.type walk_on, @function\n"
"walk_on:\n"
"	push	%rbp\n"
"	push	%r12\n"
"	mov	%rsp, %r12\n"
"	mov	%rdx, %rsp\n"
"	mov	%rcx, %rbp\n"
"	mov	%rdi, %rax\n"
"	mov	%rsi, %rdi\n"
"	mov	%r8, %rsi\n"
"	xor	%edx, %edx\n"
"	xor	%r10d, %r10d\n"
"	syscall\n"
"walk_on_ip:\n"
"	mov	%r12, %rsp\n"
"	pop	%r12\n"
"	pop	%rbp\n"
"	ret\n"
"	.size walk_on, . - walk_on\n"
"	.popsection\n"
);

/* Symbols that other files use. */
#define GLOBAL(name)	asm("	.globl	" #name "\n")

GLOBAL(walk_top);
GLOBAL(walk_top_ret);
GLOBAL(walk_step);
GLOBAL(walk_ret0);
GLOBAL(walk_ret1);
GLOBAL(walk_syscall);
GLOBAL(walk_syscall_ip);
GLOBAL(walk_call);
GLOBAL(walk_call_ret);
GLOBAL(walk_spin);
GLOBAL(walk_spin_end);
GLOBAL(walk_nop);
GLOBAL(walk_on);
GLOBAL(walk_on_ip);

long
known_walk_syscall(__u64 id, unsigned int bits, long nr, long arg0, long arg1)
{
	return walk_top(id, bits, walk_syscall, nr, arg0, arg1);
}

long known_walk_call(__u64 id, unsigned int bits, const void *fn, void *arg)
{
	return walk_top(id, bits, walk_call, (__u64)fn, (__u64)arg, 0);
}

void known_walk_spin(__u64 id, unsigned int bits, __u64 loops)
{
	walk_top(id, bits, walk_spin, loops, 0, 0);
}

/* The chain of a walk without its innermost entry; returns the length. */
unsigned int known_expect_tail(__u64 *ips, __u64 id, unsigned int bits)
{
	unsigned int bit, n = 0;

	for (bit = bits; bit--; ) {
		bool set = bit < 64 && (id >> bit) & 1;

		ips[n++] = (__u64)(set ? walk_ret1 : walk_ret0);
	}
	ips[n++] = (__u64)walk_top_ret;
	return n;
}

unsigned int
known_expect(__u64 *ips, __u64 id, unsigned int bits, const void *leaf_ip)
{
	ips[0] = (__u64)leaf_ip;
	return 1 + known_expect_tail(ips + 1, id, bits);
}

/* The id of a walk from its stack; false if it is not that of a walk. */
bool known_decode(const __u64 *ips, int nr, __u64 *id, unsigned int *bits)
{
	int i;

	if (nr < 2 || ips[nr - 1] != (__u64)walk_top_ret)
		return false;
	*id = 0;
	*bits = nr - 2;
	for (i = 1; i < nr - 1; i++) {
		if (ips[i] == (__u64)walk_ret1)
			*id |= 1ULL << (nr - 2 - i);
		else if (ips[i] != (__u64)walk_ret0)
			return false;
	}
	return true;
}
#endif /* __x86_64__ */
