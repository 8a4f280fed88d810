// SPDX-License-Identifier: GPL-2.0
/*
 * The 32-bit program of user_regs_compat, without a C library. It reports its registers
 * and its stack, and then enters the kernel in one way, again and again.
 */
#include "lib/start32.h"
#include "user_regs.h"

#define STR_(x)	#x
#define STR(x)	STR_(x)

/* Frames for bp: one, and the outermost. */
static unsigned int frames[4];
/* Above the stack pointer there are words that are known. */
static unsigned int stack[64 + WANT_WORDS];

#define LOAD								\
	"	mov	$" STR(WANT_BX) ", %ebx\n"			\
	"	mov	$" STR(WANT_SI) ", %esi\n"			\
	"	mov	$" STR(WANT_DI) ", %edi\n"			\
	"	mov	$" STR(WANT_DX) ", %edx\n"			\
	"	mov	$" STR(WANT_CX) ", %ecx\n"

/*
 * getppid(), as the vDSO makes the system call: its landing pad pops bp, dx and
 * cx and returns.
 */
#define VDSO								\
	"	push	%ecx\n"						\
	"	push	%edx\n"						\
	"	push	%ebp\n"

#define TARGET(name, insns)						\
	asm("	.pushsection .text, \"ax\"\n"				\
	    #name "_start:\n"						\
	    "	mov	4(%esp), %eax\n"				\
	    "	mov	8(%esp), %ebp\n"				\
	    "	mov	%eax, %esp\n"					\
	    LOAD							\
	    #name "_loop:\n"						\
	    "	inc	%edi\n"						\
	    #name "_count:\n"						\
	    "	mov	%edi, " STR(COUNT_WORD) " * 4(%esp)\n"		\
	    insns							\
	    #name "_after:\n"						\
	    "	jmp	" #name "_loop\n"				\
	    #name "_end:\n"						\
	    "	.popsection\n");					\
	extern char name ## _loop[], name ## _count[];			\
	extern char name ## _after[], name ## _end[];			\
	__attribute__((noreturn))					\
	void name ## _start(unsigned int *sp, unsigned int *bp)

TARGET(int80,	"	mov	$64, %eax\n"
		"	int	$0x80\n");
TARGET(sysenter, "	mov	$64, %eax\n"
		"	push	$sysenter_after\n" VDSO
		"	mov	%esp, %ebp\n"
		"	sysenter\n");
TARGET(syscall,	"	mov	$64, %eax\n"
		"	push	$syscall_after\n" VDSO
		"	mov	%ecx, %ebp\n"
		"	syscall\n");
TARGET(spin,	"	pause\n");

/* The address after the int $0x80 of __kernel_vsyscall (AT_SYSINFO). */
static unsigned int landing_pad(unsigned int *sp)
{
	unsigned int i;
	unsigned char *insn;

	/* argc, argv, environment, auxiliary vector */
	for (sp += 1 + sp[0] + 1; *sp; sp++)
		;
	for (sp++; sp[0]; sp += 2) {
		if (sp[0] != 32)
			continue;
		insn = (unsigned char *)sp[1];
		for (i = 0; i < 64; i++) {
			if (insn[i] == 0xcd && insn[i + 1] == 0x80)
				return (unsigned int)insn + i + 2;
		}
	}
	return 0;
}

#define GO(name, vdso) do {						\
	target.start = (unsigned int)name ## _loop;			\
	target.end = (unsigned int)name ## _end;			\
	target.after = (unsigned int)name ## _after;			\
	target.count = (unsigned int)name ## _count;			\
	target.landing_pad = vdso ? landing_pad(sp) : 0;		\
	if (sys3(NR_WRITE32, 1, &target, sizeof(target)) != sizeof(target)) \
		return 2;						\
	name ## _start(&stack[64], frames);				\
} while (0)

__attribute__((used))
int main(unsigned int *sp)
{
	struct user_regs_target target = {
		.sp = (unsigned int)&stack[64],
		.landing_sp = (unsigned int)&stack[60],
		.bp = (unsigned int)frames,
		.ret = (unsigned int)main,
	};
	int i;

	frames[0] = (unsigned int)&frames[2];
	frames[1] = target.ret;
	for (i = 0; i < WANT_WORDS; i++)
		stack[64 + i] = WANT_WORD(i);
	stack[64 + COUNT_WORD] = WANT_DI;

	if (sp[0] < 2)
		return 3;
	switch (*(char *)sp[2]) {
	case ENTER_INT80:
		GO(int80, 0);
	case ENTER_SYSENTER:
		GO(sysenter, 1);
	case ENTER_SYSCALL:
		GO(syscall, 1);
	case ENTER_SPIN:
		GO(spin, 0);
	}
	return 4;
}
