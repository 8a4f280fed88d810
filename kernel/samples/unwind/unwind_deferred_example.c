// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client of deferred unwinding
 *
 * Prints the user stack whenever a given function of the kernel is called on behalf of
 * a program:
 *
 *   modprobe unwind_deferred_example symbol=do_sys_openat2
 *
 * The kprobe may hit in NMI context, where the user stack cannot be read. So it only
 * requests the stack and prints the cookie. The callback prints the stack with the same
 * cookie.
 *
 * See Documentation/core-api/unwind_deferred.rst
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/unwind_deferred.h>

#define EXAMPLE_DEPTH	32

static char symbol[KSYM_NAME_LEN] = "do_sys_openat2";
module_param_string(symbol, symbol, sizeof(symbol), 0444);
MODULE_PARM_DESC(symbol, "function of the kernel to watch");

/* Called once for each cookie, in task context of the task that made the request. */
static void example_callback(struct unwind_deferred_client *client,
			     const struct unwind_user_trace *trace, u64 cookie)
{
	unsigned int i;

	pr_info("%s[%d] cookie %llx: %u entries\n", current->comm,
		task_pid_nr(current), cookie, trace->nr);
	/* Another client may have asked for a deeper stack. */
	for (i = 0; i < min(trace->nr, EXAMPLE_DEPTH); i++)
		pr_info("  %lx\n", trace->entries[i]);
}

static struct unwind_deferred_client example_client = {
	.callback	= example_callback,
};

/* Any context: nothing here may sleep, allocate or read user memory. */
static int example_handler(struct kprobe *p, struct pt_regs *regs)
{
	u64 cookie;
	int ret;

	/* Not @regs, which are those of the kernel. */
	ret = unwind_deferred_request(&example_client, task_pt_regs(current),
				      EXAMPLE_DEPTH, &cookie);
	if (ret)
		pr_info_ratelimited("%s[%d] in %s, user stack not available (%d)\n",
				    current->comm, task_pid_nr(current), symbol,
				    ret);
	else
		pr_info("%s[%d] in %s, cookie %llx\n", current->comm,
			task_pid_nr(current), symbol, cookie);
	return 0;
}

static struct kprobe example_kprobe = {
	.symbol_name	= symbol,
	.pre_handler	= example_handler,
};

static int __init example_init(void)
{
	int ret;

	/* First be ready for callbacks, then make requests. */
	ret = unwind_deferred_register(&example_client);
	if (ret)
		return ret;

	unwind_deferred_enable();

	ret = register_kprobe(&example_kprobe);
	if (ret) {
		unwind_deferred_disable();
		unwind_deferred_unregister(&example_client);
	}

	return ret;
}

static void __exit example_exit(void)
{
	/* First make no more requests, then wait for the callbacks. */
	unregister_kprobe(&example_kprobe);
	unwind_deferred_disable();
	unwind_deferred_unregister(&example_client);
}

module_init(example_init);
module_exit(example_exit);
MODULE_DESCRIPTION("Example of a client of deferred unwinding");
MODULE_LICENSE("GPL");
