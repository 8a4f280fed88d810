// SPDX-License-Identifier: GPL-2.0
/*
 * The i386 and the x32 half of signal_frames: no C library, a stack that is
 * known to the last address.  Writes the addresses that occur on it, waits for a
 * byte, and lets signals interrupt it: with the old and the new kind of frame,
 * with a trampoline of its own and with that of the vDSO.
 */
#include "signal_frames.h"

#ifdef __i386__
asm("	.pushsection .text, \"ax\"\n"
/* walk_top(id, bits): see known_stack.c */
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
/* kill(pid, SIGUSR1) */
"2:	mov	$37, %eax\n"
"	mov	walk_pid, %ebx\n"
"	mov	$10, %ecx\n"
"	int	$0x80\n"
"walk_syscall_ip:\n"
"	nop\n"
"	pop	%ebp\n"
"	ret\n"
/* Keeps the address it returns to, and makes the system call getpgid(0). */
"	.type walk_handler, @function\n"
"walk_handler:\n"
"	push	%ebp\n"
"	mov	%esp, %ebp\n"
"	mov	4(%ebp), %eax\n"
"	mov	%eax, walk_restorer\n"
"	mov	$132, %eax\n"
"	xor	%ebx, %ebx\n"
"	int	$0x80\n"
"walk_handler_ip:\n"
"	nop\n"
"	pop	%ebp\n"
"	ret\n"
"	.fill	16, 1, 0xcc\n"
"walk_restore_rt:\n"
"	mov	$173, %eax\n"
"	int	$0x80\n"
"	.fill	16, 1, 0xcc\n"
"walk_restore_old:\n"
"	pop	%eax\n"
"	mov	$119, %eax\n"
"	int	$0x80\n"
"	.fill	16, 1, 0xcc\n"
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

#define NR_READ			3
#define NR_WRITE		4
#define NR_GETPID		20
#define NR_RT_SIGACTION		174
#define NR_SAMPLED		132
#define CASES			COMPAT_CASES

static int sys(int nr, int a, const void *b, const void *c, int d)
{
	int ret;

	asm volatile("int $0x80" : "=a" (ret)
		     : "a" (nr), "b" (a), "c" (b), "d" (c), "S" (d)
		     : "memory");
	return ret;
}
#else
/* x32 */
asm("	.pushsection .text, \"ax\"\n"
/* walk_top(id, bits) */
"	.type walk_top, @function\n"
"walk_top:\n"
"	push	%rbp\n"
"	xor	%ebp, %ebp\n"
"	call	walk_step\n"
"walk_top_ret:\n"
"	pop	%rbp\n"
"	ret\n"
"	.type walk_step, @function\n"
"walk_step:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	test	%esi, %esi\n"
"	jz	2f\n"
"	dec	%esi\n"
"	shr	$1, %edi\n"
"	jc	1f\n"
"	call	walk_step\n"
"walk_ret0:\n"
"	pop	%rbp\n"
"	ret\n"
"1:	call	walk_step\n"
"walk_ret1:\n"
"	pop	%rbp\n"
"	ret\n"
/* kill(pid, SIGUSR1) */
"2:	mov	$0x4000003e, %eax\n"
"	mov	walk_pid(%rip), %edi\n"
"	mov	$10, %esi\n"
"	syscall\n"
"walk_syscall_ip:\n"
"	nop\n"
"	pop	%rbp\n"
"	ret\n"
"	.type walk_handler, @function\n"
"walk_handler:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	mov	8(%rbp), %rax\n"
"	mov	%eax, walk_restorer(%rip)\n"
"	mov	$0x40000079, %eax\n"
"	xor	%edi, %edi\n"
"	syscall\n"
"walk_handler_ip:\n"
"	nop\n"
"	pop	%rbp\n"
"	ret\n"
"	.fill	16, 1, 0xcc\n"
"walk_restore_rt:\n"
"	mov	$0x40000201, %eax\n"
"	syscall\n"
"	.fill	16, 1, 0xcc\n"
"walk_restore_old:\n"
"	ud2\n"
"	.globl	_start\n"
"_start:\n"
"	xor	%ebp, %ebp\n"
"	and	$-16, %esp\n"
"	call	main\n"
"	mov	%eax, %edi\n"
"	mov	$0x4000003c, %eax\n"
"	syscall\n"
"	ud2\n"
"	.popsection\n"
);

#define X32			0x40000000
#define NR_READ			X32
#define NR_WRITE		(X32 + 1)
#define NR_GETPID		(X32 + 39)
#define NR_RT_SIGACTION		(X32 + 512)
#define NR_SAMPLED		(X32 + 121)
#define CASES			1

static int sys(int nr, int a, const void *b, const void *c, int d)
{
	register long r10 asm("r10") = d;
	int ret;

	asm volatile("syscall" : "=a" (ret)
		     : "a" (nr), "D" (a), "S" (b), "d" (c), "r" (r10)
		     : "rcx", "r11", "memory");
	return ret;
}
#endif

int walk_top(unsigned int id, unsigned int bits);
extern char walk_top_ret[], walk_ret0[], walk_ret1[], walk_syscall_ip[];
extern char walk_handler[], walk_handler_ip[];
extern char walk_restore_rt[], walk_restore_old[];

/* For the assembly. */
int walk_pid;
unsigned int walk_restorer;

#define SIGUSR1		10
#define SA_SIGINFO	4
#define SA_RESTORER	0x04000000

struct sigaction32 {
	unsigned int handler;
	unsigned int flags;
	unsigned int restorer;
	unsigned int mask[2];
};

static const struct sigaction32 actions[COMPAT_CASES] = {
	[COMPAT_RT] = {
		.flags = SA_SIGINFO | SA_RESTORER,
		.restorer = 1,
	},
	[COMPAT_RT_VDSO] = { .flags = SA_SIGINFO },
	[COMPAT_OLD] = {
		.flags = SA_RESTORER,
		.restorer = 1,
	},
	[COMPAT_OLD_VDSO] = { .flags = 0 },
};

int main(void)
{
	struct compat_addrs addrs = {
		.handler_ip	= (unsigned int)walk_handler_ip,
		.syscall_ip	= (unsigned int)walk_syscall_ip,
		.ret0		= (unsigned int)walk_ret0,
		.ret1		= (unsigned int)walk_ret1,
		.top_ret	= (unsigned int)walk_top_ret,
		.sampled_nr	= NR_SAMPLED,
		.nr_cases	= CASES,
	};
	struct compat_result result = {};
	unsigned int i;
	char byte;

	walk_pid = sys(NR_GETPID, 0, 0, 0, 0);
	if (sys(NR_WRITE, 1, &addrs, (void *)sizeof(addrs), 0) != sizeof(addrs))
		return 2;
	if (sys(NR_READ, 0, &byte, (void *)1, 0) != 1)
		return 3;
	for (i = 0; i < CASES; i++) {
		struct sigaction32 sa = actions[i];

		sa.handler = (unsigned int)walk_handler;
		if (sa.restorer) {
			sa.restorer = (unsigned int)(sa.flags & SA_SIGINFO ?
						     walk_restore_rt :
						     walk_restore_old);
		}
		if (sys(NR_RT_SIGACTION, SIGUSR1, &sa, 0, sizeof(sa.mask)))
			return 4;
		walk_restorer = 0;
		walk_top(i, COMPAT_BITS);
		if (!walk_restorer)
			return 5;
		result.restorer[i] = walk_restorer;
	}
	if (sys(NR_WRITE, 1, &result, (void *)sizeof(result), 0) !=
	    sizeof(result))
		return 6;
	return 0;
}
