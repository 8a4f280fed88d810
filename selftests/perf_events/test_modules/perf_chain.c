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
 */
#include <linux/delay.h>
#include <linux/linkage.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

#define CREATE_TRACE_POINTS
#include "perf_chain_trace.h"

/* Longer is no test, but a lockup. */
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
MODULE_PARM_DESC(run, "Make the calls, spin that many microseconds");

static int __init perf_chain_init(void)
{
	return 0;
}

static void __exit perf_chain_exit(void)
{
}

module_init(perf_chain_init);
module_exit(perf_chain_exit);
MODULE_DESCRIPTION("Calls in a known order, for tests of kernel callchains");
MODULE_LICENSE("GPL");
