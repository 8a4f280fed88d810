// SPDX-License-Identifier: GPL-2.0
/*
 * rules RULE ROUNDS: system calls below a frame whose CFA is found by one register,
 * as its unwind information has it: rbx, r12, rbp, or drap, where it is in memory that
 * rbp leads to.  What it calls leaves that register alone, so that there is no other
 * place to have it from than the registers of the sample.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Used by the assembly. */
int zero_fd;
long rounds;
char buf[256 * 1024];

/* A long system call, and 300 short ones with their ways in and out */
void calls(void);
asm(".pushsection .text\n"
    ".type calls, @function\n"
    "calls:\n"
    "	.cfi_startproc\n"
    "1:	xor %eax, %eax\n"		/* read() */
    "	mov zero_fd(%rip), %edi\n"
    "	lea buf(%rip), %rsi\n"
    "	mov $256 * 1024, %edx\n"
    "	syscall\n"
    "	mov $300, %r10d\n"
    "2:	mov $110, %eax\n"		/* getppid() */
    "	syscall\n"
    "	dec %r10d\n"
    "	jnz 2b\n"
    "	decq rounds(%rip)\n"
    "	jnz 1b\n"
    "	ret\n"
    "	.cfi_endproc\n"
    ".size calls, . - calls\n"
    ".popsection\n");

/* A frame of a size that only REG knows, as of alloca(). */
#define RULE(reg)								\
	void by_##reg(void);							\
	asm(".pushsection .text\n"						\
	    ".type by_" #reg ", @function\n"					\
	    "by_" #reg ":\n"							\
	    "	.cfi_startproc\n"						\
	    "	push %" #reg "\n"						\
	    "	.cfi_def_cfa_offset 16\n"					\
	    "	.cfi_offset " #reg ", -16\n"					\
	    "	mov %rsp, %" #reg "\n"						\
	    "	.cfi_def_cfa_register " #reg "\n"				\
	    "	sub $1024, %rsp\n"						\
	    "	and $-64, %rsp\n"						\
	    "	call calls\n"							\
	    "	mov %" #reg ", %rsp\n"						\
	    "	.cfi_def_cfa_register rsp\n"					\
	    "	pop %" #reg "\n"						\
	    "	.cfi_def_cfa_offset 8\n"					\
	    "	.cfi_restore " #reg "\n"					\
	    "	ret\n"								\
	    "	.cfi_endproc\n"							\
	    ".size by_" #reg ", . - by_" #reg "\n"				\
	    ".popsection\n")

RULE(rbx);
RULE(r12);
RULE(rbp);

/* As the compiler does it for a stack that it aligns and whose size varies. */
static void __attribute__((noinline)) by_drap(void)
{
	char aligned[128] __attribute__((aligned(128)));
	char *more = __builtin_alloca(rounds % 64);

	asm volatile("" : : "r" (aligned), "r" (more) : "memory");
	calls();
	asm volatile("" : : "r" (aligned), "r" (more) : "memory");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} rules[] = {
		{ "rbx", by_rbx }, { "r12", by_r12 }, { "rbp", by_rbp }, { "drap", by_drap },
	};
	unsigned int i;

	zero_fd = open("/dev/zero", O_RDONLY);
	if (argc != 3 || zero_fd < 0)
		return 2;
	rounds = atol(argv[2]);
	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (!strcmp(argv[1], rules[i].name) && rounds > 0) {
			rules[i].run();
			return 0;
		}
	}
	fprintf(stderr, "rules rbx|r12|rbp|drap ROUNDS\n");
	return 2;
}
