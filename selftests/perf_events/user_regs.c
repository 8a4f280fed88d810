// SPDX-License-Identifier: GPL-2.0
/*
 * User registers, user stack and user callchain of samples in system calls,
 * exceptions and interrupts of 64-bit programs. The samples are taken in NMI context
 * and in hard interrupts. user_regs_compat tests 32-bit programs. Samples of events
 * that exclude the kernel must not contain kernel registers.
 *
 * A target enters the kernel in one way again and again, with registers and a stack
 * that are known. A sample in the kernel has these, or says that it has none. The
 * target counts in one register and on its stack. The kernel reads the stack at the
 * time of the sample, so registers of an earlier entry do not match the count.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "lib/files.h"
#include "lib/regs_watch.h"
#include "user_regs.h"

/* 64-bit targets */

#ifdef __x86_64__
#define WANT_R(n)	(0x5e5e00000000 + (n))

static __u64 target_frames[4];
static __u64 target_stack[512 + WANT_WORDS];
/* The target's registers before it starts. */
struct target_regs {
	__u64 ax, si, di, dx;
} target_regs;

#define STR_(x)	#x
#define STR(x)	STR_(x)
#define TARGET(name, insns)						\
	asm("	.pushsection .text, \"ax\"\n"				\
	    #name "_start:\n"						\
	    "	lea	target_stack+4096(%rip), %rsp\n"		\
	    "	lea	target_frames(%rip), %rbp\n"			\
	    "	mov	target_regs+8(%rip), %rsi\n"			\
	    "	mov	target_regs+16(%rip), %rdi\n"			\
	    "	mov	target_regs+24(%rip), %rdx\n"			\
	    "	mov	$" STR(WANT_BX) ", %ebx\n"			\
	    "	mov	$" STR(WANT_CX) ", %ecx\n"			\
	    "	movabs	$0x5e5e00000008, %r8\n"				\
	    "	movabs	$0x5e5e00000009, %r9\n"				\
	    "	movabs	$0x5e5e0000000a, %r10\n"			\
	    "	movabs	$0x5e5e0000000b, %r11\n"			\
	    "	movabs	$0x5e5e0000000c, %r12\n"			\
	    "	movabs	$0x5e5e0000000d, %r13\n"			\
	    "	movabs	$0x5e5e0000000e, %r14\n"			\
	    "	movabs	$0x5e5e0000000f, %r15\n"			\
	    #name "_loop:\n"						\
	    "	inc	%r12\n"						\
	    #name "_count:\n"						\
	    "	mov	%r12, " STR(COUNT_WORD) " * 8(%rsp)\n"		\
	    "	mov	target_regs(%rip), %rax\n"			\
	    insns							\
	    #name "_after:\n"						\
	    "	nop\n"							\
	    "	jmp	" #name "_loop\n"				\
	    #name "_end:\n"						\
	    "	.popsection\n");					\
	extern char name ## _loop[], name ## _count[];			\
	extern char name ## _after[], name ## _end[];			\
	void name ## _start(void)

TARGET(target_syscall,	"	syscall\n");
TARGET(target_int80,	"	int	$0x80\n");
TARGET(target_spin,	"	pause\n");
/* madvise() drops a page, and the movb faults it in again. */
TARGET(target_fault,	"	syscall\n"
			"target_fault_touch:\n"
			"	movb	$1, (%rdi)\n");
extern char target_fault_touch[];

struct target {
	const char	*name;
	void		(*start)(void);
	const char	*loop;
	/* At this address, the register is incremented but the word on the stack is not */
	const char	*count;
	const char	*after;
	const char	*end;
	/* The instruction that faults */
	const char	*touch;
	__u64		nr;
	bool		syscall;
	bool		fault;
};

#define TARGET64(_name, _nr, ...) {					\
	.name	= #_name,						\
	.start	= target_ ## _name ## _start,				\
	.loop	= target_ ## _name ## _loop,				\
	.count	= target_ ## _name ## _count,				\
	.after	= target_ ## _name ## _after,				\
	.end	= target_ ## _name ## _end,				\
	.nr	= _nr,							\
	__VA_ARGS__							\
}

static const struct target targets[] = {
	TARGET64(syscall, __NR_getppid, .syscall = true),
	/* getppid() of 32-bit programs */
	TARGET64(int80, 64),
	TARGET64(spin, 0),
	TARGET64(fault, __NR_madvise, .syscall = true, .fault = true,
		 .touch = target_fault_touch),
};

static void run_target(const struct target *t)
{
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	target_frames[0] = (__u64)&target_frames[2];
	target_frames[1] = (__u64)target_syscall_start;
	for (i = 0; i < WANT_WORDS; i++)
		target_stack[512 + i] = WANT_WORD(i);
	target_stack[512 + COUNT_WORD] = WANT_R(12);
	target_regs = (struct target_regs) {
		.ax = t->nr,
		.si = WANT_SI,
		.di = WANT_DI,
		.dx = WANT_DX,
	};
	if (t->fault) {
		target_regs.di = (__u64)mmap((void *)0x7e0000000000, 4096,
					     PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS |
					     MAP_FIXED, -1, 0);
		target_regs.si = 4096;
		target_regs.dx = MADV_DONTNEED;
	}
	t->start();
}

/*
 * The registers that a sample of the target must have, given its ip and the count on
 * its stack. False if the ip is not in the target.
 */
static bool expect64(const struct target *t, const __u64 *regs, __u64 count, __u64 *want)
{
	__u64 ip = regs[IP];
	int i;

	memcpy(want, regs, NR_REGS * sizeof(*want));
	if (ip < (__u64)t->loop || ip >= (__u64)t->end)
		return false;
	expect_ax_flags(regs, want, t->nr,
			t->fault || !t->nr ? 0 : (__u64)getpid());
	want[BX] = WANT_BX;
	/* madvise() leaves its return address in cx. */
	if (!t->fault || regs[CX] != (__u64)t->touch)
		want[CX] = WANT_CX;
	want[SI] = t->fault ? 4096 : WANT_SI;
	want[DI] = t->fault ? 0x7e0000000000 : WANT_DI;
	want[DX] = t->fault ? MADV_DONTNEED : WANT_DX;
	want[BP] = (__u64)target_frames;
	want[SP] = (__u64)&target_stack[512];
	want[CS] = 0x33;
	want[SS] = 0x2b;
	for (i = R8; i <= R15; i++)
		want[i] = WANT_R(8 + i - R8);
	want[R12] = count + (ip == (__u64)t->count);
	/* SYSCALL leaves ip and flags in cx and r11, for the rest of the loop. */
	if (t->syscall) {
		want[R11] = regs[R11];
		if (!t->fault) {
			if (regs[CX] != WANT_CX || ip == (__u64)t->after)
				want[CX] = (__u64)t->after;
			/* An interrupt that comes right there may have set RF. */
			if (ip == (__u64)t->after)
				want[R11] = regs[FLAGS] & ~FLAGS_RF;
		}
	}
	return true;
}
#endif /* __x86_64__ */

/* 64-bit: all ways in, from NMI context and from interrupts */

#ifdef __x86_64__
FIXTURE(target64) {
	struct watch w;
	__u64 entry_start;
	__u64 entry_end;
	long type;
	bool unload;
};

FIXTURE_VARIANT(target64) {
	unsigned int target;
	bool irq;
};

FIXTURE_VARIANT_ADD(target64, nmi_in_syscall) {
	.target = 0,
};

FIXTURE_VARIANT_ADD(target64, nmi_in_int80) {
	.target = 1,
};

FIXTURE_VARIANT_ADD(target64, nmi_in_interrupt) {
	.target = 2,
};

FIXTURE_VARIANT_ADD(target64, nmi_in_page_fault) {
	.target = 3,
};

FIXTURE_VARIANT_ADD(target64, irq_in_syscall) {
	.target = 0,
	.irq = true,
};

FIXTURE_VARIANT_ADD(target64, irq_in_page_fault) {
	.target = 3,
	.irq = true,
};

FIXTURE_SETUP(target64)
{
	const char *why;

	why = sampler(variant->irq, &self->type, &self->unload);
	if (why)
		SKIP(return, "%s", why);
	ASSERT_LE(0, self->type);
	find_entry_text(&self->entry_start, &self->entry_end);
	self->w.pid = fork();
	ASSERT_LE(0, self->w.pid);
	if (!self->w.pid) {
		run_target(&targets[variant->target]);
		_exit(1);
	}
	/* Wait until the target is in its loop. */
	usleep(100000);
}

FIXTURE_TEARDOWN(target64)
{
	watch_close(&self->w);
	if (self->unload)
		module_unload(NMI_PMU);
}

TEST_F_TIMEOUT(target64, registers, 120)
{
	struct perf_event_attr attr = regs_attr(self->type,
						variant->irq ? PERF_COUNT_SW_CPU_CLOCK : 0,
						500000);
	const struct target *t = &targets[variant->target];
	struct counts c = {};
	__u64 want[NR_REGS];
	const __u64 *ips;
	struct sample s;
	unsigned int nr;
	const char *why;
	__u64 count;

	/* Nothing has been sampled yet, so the kernel does not support this entry. */
	if (!watch_alive(&self->w))
		SKIP(return, "no %s on this kernel", t->name);
	why = watch_open(&self->w, &attr);
	if (why)
		SKIP(return, "no event: %s", why);
	ASSERT_TRUE(watch_run(&self->w, RUN_MSEC));

	while (watch_next(&self->w, &s)) {
		c.samples++;
		if (!KERNEL_IP(s.ip))
			continue;
		c.in_kernel++;
		if (s.ip >= self->entry_start && s.ip < self->entry_end)
			c.in_entry++;
		if (!s.abi) {
			count_none(&s, &c);
			continue;
		}
		EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, s.abi);
		count = 0;
		if (s.stack_size == STACK_SIZE)
			count = ((const __u64 *)s.stack)[COUNT_WORD];
		if (!expect64(t, s.regs, count, want)) {
			c.foreign++;
			continue;
		}
		if (compare(&s, want, c.wrong))
			c.wrong++;
		nr = user_chain(&s, &ips);
		if (nr < 2 || ips[0] != want[IP] ||
		    ips[1] != (__u64)target_syscall_start)
			c.wrong_chain++;
		if (s.stack_size != STACK_SIZE ||
		    ((const __u64 *)s.stack)[0] != WANT_WORD(0) ||
		    ((const __u64 *)s.stack)[7] != WANT_WORD(7))
			c.wrong_stack++;
	}
	print_counts(&c);
	/* Registers that the kernel has damaged may have ended it. */
	EXPECT_TRUE(watch_alive(&self->w));
	EXPECT_LE(t->nr ? MIN_SAMPLES : MIN_INTERRUPTED, c.in_kernel);
	EXPECT_EQ(0, c.foreign);
	EXPECT_EQ(0, c.wrong);
	EXPECT_EQ(0, c.wrong_chain);
	EXPECT_EQ(0, c.wrong_stack);
	/*
	 * Much of such a system call is entry code. If kernel addresses are hidden,
	 * samples in entry code cannot be counted.
	 */
	if (!variant->irq && t->nr && self->entry_start)
		EXPECT_LE(1, c.in_entry);
	/* The registers may be unknown at a few instructions. */
	EXPECT_GE(c.in_kernel / 20, c.none);
}
#endif /* __x86_64__ */

/* The kernel's registers */

#ifdef __x86_64__
FIXTURE(intr) {
	struct watch w;
	bool unload;
};

FIXTURE_SETUP(intr)
{
	const char *why;

	self->unload = access("/sys/module/" NMI_PMU, F_OK);
	why = module_load(NMI_PMU);
	if (why)
		SKIP(return, "%s", why);
	self->w.pid = fork();
	ASSERT_LE(0, self->w.pid);
	if (!self->w.pid) {
		run_target(&targets[0]);
		_exit(1);
	}
	usleep(100000);
}

FIXTURE_TEARDOWN(intr)
{
	watch_close(&self->w);
	if (self->unload)
		module_unload(NMI_PMU);
}

/*
 * The interrupt of an event that excludes the kernel comes late, in the kernel. Nothing
 * in the sample may show where in the kernel. Its ip is where the program continues.
 */
TEST_F(intr, no_kernel_registers_when_excluded)
{
	unsigned int late = 0, ips = 0, modes = 0, chains = 0, unknown = 0, elsewhere = 0;
	struct perf_event_attr attr = regs_attr(pmu_type(NMI_PMU),
						NMI_PMU_SKID, 500000);
	const struct target *t = &targets[0];
	unsigned int user = 0, user_regs = 0;
	struct sample s;
	const char *why;
	__u64 i;

	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGS_MASK;
	attr.exclude_kernel = 1;
	why = watch_open(&self->w, &attr);
	ASSERT_EQ(NULL, why);
	ASSERT_TRUE(watch_run(&self->w, RUN_MSEC));
	while (watch_next(&self->w, &s)) {
		ips += KERNEL_IP(s.ip);
		modes += (s.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER;
		for (i = 0; i < s.nr; i++) {
			if (s.ips[i] == PERF_CONTEXT_KERNEL ||
			    (KERNEL_IP(s.ips[i]) && s.ips[i] < PERF_CONTEXT_MAX)) {
				chains++;
				break;
			}
		}
		if (!late_sample(&s, attr.sample_type)) {
			user++;
			user_regs += !KERNEL_IP(s.ip);
			continue;
		}
		late++;
		if (!s.ip)
			unknown++;
		else if (s.ip < (__u64)t->loop || s.ip >= (__u64)t->end)
			elsewhere++;
	}
	TH_LOG("late samples %u, without ip %u; with kernel ip %u, kernel mode %u, kernel callchain %u",
	       late, unknown, ips, modes, chains);
	EXPECT_LE(MIN_SAMPLES, late);
	EXPECT_EQ(0, ips);
	EXPECT_EQ(0, modes);
	EXPECT_EQ(0, chains);
	EXPECT_EQ(0, elsewhere);
	EXPECT_GE(late / 8, unknown);
	EXPECT_EQ(user, user_regs);
}

/* An event that counts in the kernel has its registers. */
TEST_F(intr, kernel_registers_when_included)
{
	struct perf_event_attr attr = regs_attr(pmu_type(NMI_PMU), 0, 500000);
	unsigned int kernel = 0, with = 0;
	struct sample s;
	const char *why;

	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGS_MASK;
	why = watch_open(&self->w, &attr);
	ASSERT_EQ(NULL, why);
	ASSERT_TRUE(watch_run(&self->w, RUN_MSEC));
	while (watch_next(&self->w, &s)) {
		if (!KERNEL_IP(s.ip))
			continue;
		kernel++;
		with += !!s.intr_abi;
	}
	EXPECT_LE(MIN_SAMPLES, kernel);
	EXPECT_EQ(kernel, with);
}
#endif /* __x86_64__ */

TEST_HARNESS_MAIN
