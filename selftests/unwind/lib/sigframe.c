// SPDX-License-Identifier: GPL-2.0
/* Handlers whose stack is known, and the stacks on which they run. */
#include <signal.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "../../perf_events/lib/known_stack.h"
#include "../../perf_events/lib/sigaction.h"
#include "sigframe.h"

#ifdef __x86_64__
int set_handler(int sig, unsigned long handler, const void *restorer,
		unsigned long flags)
{
	const struct kernel_sigaction sa = {
		.handler = (void *)handler,
		.flags = SA_RESTORER | SA_SIGINFO | flags,
		.restorer = restorer,
	};

	return syscall(__NR_rt_sigaction, sig, &sa, NULL, sizeof(sa.mask));
}

static void handle_nothing(int sig)
{
}

/* The trampoline of the C library. */
const void *libc_restorer(void)
{
	struct sigaction sa = { .sa_handler = handle_nothing };
	struct kernel_sigaction ksa = {};

	if (sigaction(SIGUSR2, &sa, NULL) ||
	    syscall(__NR_rt_sigaction, SIGUSR2, NULL, &ksa, sizeof(ksa.mask)))
		return NULL;
	return ksa.restorer;
}

/* For the assembly. */
int fp_pid;

asm("	.pushsection .text, \"ax\"\n"
/* getpgid(0), which is sampled */
"	.type fp_handler, @function\n"
"fp_handler:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	mov	$121, %eax\n"
"	xor	%edi, %edi\n"
"	syscall\n"
"fp_handler_ip:\n"
"	nop\n"
"	pop	%rbp\n"
"	ret\n"
/* kill(fp_pid, SIGUSR2) */
"	.type fp_outer, @function\n"
"fp_outer:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	mov	$62, %eax\n"
"	mov	fp_pid(%rip), %edi\n"
"	mov	$12, %esi\n"
"	syscall\n"
"fp_outer_ip:\n"
"	nop\n"
"	pop	%rbp\n"
"	ret\n"
"	.popsection\n"
);

/* Used by other files. */
asm("	.globl	fp_handler, fp_handler_ip, fp_outer, fp_outer_ip\n");

#define STACK	65536UL

static int set_altstack(void *mem)
{
	stack_t ss = { .ss_sp = mem, .ss_size = STACK };

	return sigaltstack(&ss, NULL);
}

/*
 * Set up an alternate stack below or above the current stack, call fn, and remove the
 * alternate stack.
 */
int on_altstack(enum altstack alt, void (*fn)(void *arg), void *arg)
{
	stack_t off = { .ss_flags = SS_DISABLE };
	char high[STACK];
	void *low;
	int ret;

	if (alt == ALT_NONE) {
		fn(arg);
		return 0;
	}
	if (alt == ALT_HIGH) {
		ret = set_altstack(high);
		/* Keep it above what follows. */
		asm volatile("" : : "r" (high) : "memory");
		if (!ret)
			fn(arg);
	} else {
		low = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (low == MAP_FAILED || (char *)low > high)
			return -1;
		ret = set_altstack(low);
		if (!ret)
			fn(arg);
	}
	asm volatile("" : : "r" (high) : "memory");
	return ret | sigaltstack(&off, NULL);
}

void run_walk_kill(void *arg)
{
	known_walk_syscall(ID, BITS, __NR_kill, getpid(), SIGUSR1);
}
#endif /* __x86_64__ */
