/* SPDX-License-Identifier: GPL-2.0 */
/* Stubs of what walks at hand, and walks of another task's stack, need; for bench-kernel.h. */
#ifndef _TEST_UNWIND_BENCH_TASK_H
#define _TEST_UNWIND_BENCH_TASK_H

#include <linux/kernel.h>
#include <linux/types.h>

/* The kernel's takes constants of another type. */
#undef min
#define min(x, y)		((x) < (y) ? (x) : (y))

#define might_sleep_if(cond)	do { } while (0)
#define test_tsk_thread_flag(task, flag)	test_thread_flag(flag)

#define MAX_URETPROBE_DEPTH	64

struct arch_uprobe {
	u8			insn[16];
};

struct unwind_subject;

struct unwind_task_info {
	u8			probed;
	struct unwind_subject	*subject;
};

#endif /* _TEST_UNWIND_BENCH_TASK_H */
