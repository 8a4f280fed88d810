// SPDX-License-Identifier: GPL-2.0
/*
 * perf_chain - functions of the kernel that call each other in a known order
 *
 * A write of N to /sys/module/perf_chain/parameters/run makes these calls:
 *
 *	perf_chain_outer -> perf_chain_zero -> perf_chain_middle -> perf_chain_leaf
 *
 * The leaf has the tracepoint perf_chain:perf_chain_leaf and then spins for N
 * microseconds in perf_chain_spin, so that samples find it.  Where the kernel
 * is not built with frame pointers, the frame pointer is 0 in all that
 * perf_chain_zero calls.
 *
 * After a write of 1 to /sys/module/perf_chain/parameters/probe, there is a kprobe at
 * the push %rbp with which perf_chain_zero begins its frame. A write of 0 removes it.
 * Its handler has the tracepoint perf_chain:perf_chain_probed.
 */
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/linkage.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

#define CREATE_TRACE_POINTS
#include "perf_chain_trace.h"

/* A longer run would look like a lockup. */
#define MAX_USECS	1000000

unsigned long perf_chain_leaf(unsigned long usecs);
unsigned long perf_chain_middle(unsigned long usecs);
unsigned long perf_chain_outer(unsigned long usecs);
unsigned long perf_chain_spin(unsigned long usecs);

noinline unsigned long perf_chain_spin(unsigned long usecs)
{
	u64 end = ktime_get_mono_fast_ns() + usecs * NSEC_PER_USEC;
	unsigned long n = 0;

	while (ktime_get_mono_fast_ns() < end)
		n++;
	return n;
}

noinline unsigned long perf_chain_leaf(unsigned long usecs)
{
	unsigned long n;

	trace_perf_chain_leaf(usecs);
	n = perf_chain_spin(usecs);
	/* No tail call: the caller must stay on the stack. */
	barrier();
	return n + 1;
}

noinline unsigned long perf_chain_middle(unsigned long usecs)
{
	unsigned long n = perf_chain_leaf(usecs);

	barrier();
	return n + 1;
}

#if defined(CONFIG_X86_64) && !defined(CONFIG_FRAME_POINTER)
unsigned long perf_chain_zero(unsigned long usecs);
asm("	.pushsection .text, \"ax\"\n"
"	.globl	perf_chain_zero\n"
"	.type	perf_chain_zero, @function\n"
"perf_chain_zero:\n"
"	push	%rbp\n"
"	xor	%ebp, %ebp\n"
"	call	perf_chain_middle\n"
"	pop	%rbp\n"
"	" ASM_RET
"	.size	perf_chain_zero, . - perf_chain_zero\n"
"	.popsection\n");
#else
unsigned long perf_chain_zero(unsigned long usecs);
noinline unsigned long perf_chain_zero(unsigned long usecs)
{
	unsigned long n = perf_chain_middle(usecs);

	barrier();
	return n + 1;
}
#endif

noinline unsigned long perf_chain_outer(unsigned long usecs)
{
	unsigned long n = perf_chain_zero(usecs);

	barrier();
	return n + 1;
}

static int run_set(const char *val, const struct kernel_param *kp)
{
	unsigned long usecs;
	int ret = kstrtoul(val, 0, &usecs);

	if (ret)
		return ret;
	if (usecs > MAX_USECS)
		return -EINVAL;
	return perf_chain_outer(usecs) ? 0 : -EIO;
}

static const struct kernel_param_ops run_ops = {
	.set = run_set,
};

module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Make the calls, spin for this many microseconds");

#ifdef CONFIG_KPROBES
static int handle_pre(struct kprobe *p, struct pt_regs *regs)
{
	trace_perf_chain_probed(regs->ip);
	return 0;
}

/* A kprobe with a post handler is not optimized, and stays a breakpoint. */
static void handle_post(struct kprobe *p, struct pt_regs *regs,
			unsigned long flags)
{
}

static struct kprobe probe;
static bool probing;

static int start_probe(unsigned int offset)
{
	/* The probe must be at push %rbp. */
	if (*((u8 *)perf_chain_zero + offset) != 0x55)
		return -EOPNOTSUPP;
	probe = (struct kprobe) {
		.symbol_name = "perf_chain_zero",
		.offset = offset,
		.pre_handler = handle_pre,
		.post_handler = handle_post,
	};
	return register_kprobe(&probe);
}

/* Writes of parameters are serialized. */
static int probe_set(const char *val, const struct kernel_param *kp)
{
	bool on;
	int ret = kstrtobool(val, &on);

	if (ret || on == probing)
		return ret;
	if (!on) {
		unregister_kprobe(&probe);
	} else if (IS_ENABLED(CONFIG_FRAME_POINTER)) {
		/* After the ftrace call, and possibly a landing pad. */
		ret = start_probe(5);
		if (ret)
			ret = start_probe(9);
	} else {
		ret = start_probe(0);
	}
	if (!ret)
		probing = on;
	return ret;
}

static const struct kernel_param_ops probe_ops = {
	.set = probe_set,
};

module_param_cb(probe, &probe_ops, NULL, 0200);
MODULE_PARM_DESC(probe, "Have a kprobe at the beginning of perf_chain_zero");

static void stop_probe(void)
{
	if (probing)
		unregister_kprobe(&probe);
}
#else
static void stop_probe(void)
{
}
#endif

static int __init perf_chain_init(void)
{
	return 0;
}

static void __exit perf_chain_exit(void)
{
	stop_probe();
}

module_init(perf_chain_init);
module_exit(perf_chain_exit);
MODULE_DESCRIPTION("Calls in a known order, for tests of kernel callchains");
MODULE_LICENSE("GPL");
