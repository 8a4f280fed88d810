/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between signal_frames and its halves for other ABIs; what it shares with
 * sframe_signal.
 */
#ifndef SELFTESTS_UNWIND_SIGNAL_FRAMES_H
#define SELFTESTS_UNWIND_SIGNAL_FRAMES_H

#define COMPAT_BITS	6

/* What a signal was set up with; the number of the walk that it interrupts. */
enum compat_case {
	COMPAT_RT,
	COMPAT_RT_VDSO,
	COMPAT_OLD,
	COMPAT_OLD_VDSO,
	COMPAT_CASES,
};

struct compat_addrs {
	unsigned int	handler_ip;
	unsigned int	syscall_ip;
	unsigned int	ret0;
	unsigned int	ret1;
	unsigned int	top_ret;
	/* Of raw_syscalls:sys_enter. */
	unsigned int	sampled_nr;
	/* Cases that the ABI has. */
	unsigned int	nr_cases;
};

/* Written at the end: where each handler returned to. */
struct compat_result {
	unsigned int	restorer[COMPAT_CASES];
};

/* Of the tests themselves; include this in one file of a program only. */
#ifdef SIGNAL_FRAMES_TEST

#define BITS	7
#define ID	0x2d
#define STACK	65536UL

struct kernel_sigaction {
	void		(*handler)(int sig);
	unsigned long	flags;
	const void	*restorer;
	__u64		mask;
};

#ifndef SA_RESTORER
#define SA_RESTORER	0x04000000
#endif

static inline int
set_handler(int sig, unsigned long handler, const void *restorer,
	    unsigned long flags)
{
	const struct kernel_sigaction sa = {
		.handler = (void *)handler,
		.flags = SA_RESTORER | SA_SIGINFO | flags,
		.restorer = restorer,
	};

	return syscall(__NR_rt_sigaction, sig, &sa, NULL, sizeof(sa.mask));
}

static inline void handle_nothing(int sig)
{
}

/* The trampoline of the C library. */
static inline const void *libc_restorer(void)
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

extern const char fp_handler[], fp_handler_ip[];
extern const char fp_outer[], fp_outer_ip[];

enum altstack {
	ALT_NONE,
	/* Below the stack that is interrupted: the CFA grows. */
	ALT_LOW,
	/* Above it: the CFA goes down. */
	ALT_HIGH,
};

static inline int set_altstack(void *mem)
{
	stack_t ss = { .ss_sp = mem, .ss_size = STACK };

	return sigaltstack(&ss, NULL);
}

/*
 * Set up the alternate stack, which one of these is above the other's stack, and
 * call fn with it.
 */
static inline int
on_altstack(enum altstack alt, void (*fn)(void *arg), void *arg)
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

static inline void
want_ip(__u64 *want, unsigned int *nr, const void *ip)
{
	want[(*nr)++] = (__u64)ip;
}

static inline void run_walk_kill(void *arg)
{
	defer_walk_syscall(ID, BITS, __NR_kill, getpid(), SIGUSR1);
}

#endif /* SIGNAL_FRAMES_TEST */

#endif /* SELFTESTS_UNWIND_SIGNAL_FRAMES_H */
