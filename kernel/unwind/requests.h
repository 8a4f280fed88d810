/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_REQUESTS_H
#define _KERNEL_UNWIND_REQUESTS_H

#include <linux/bits.h>
#include <linux/sched.h>
#include <linux/srcu.h>
#include <linux/uprobes.h>

struct unwind_deferred_client;

/* Bits of unwind_task_info::request. The lower bits are clients. */
#define UNWIND_REQUEST_PENDING		BIT(BITS_PER_LONG - 1)
#define UNWIND_REQUEST_CLAIMED		BIT(BITS_PER_LONG - 2)

/*
 * Bit of unwind_task_info::depth: the walk is over. The other bits are then the
 * greatest depth that it can serve.
 */
#define UNWIND_DEPTH_WALKED		BIT(31)

/* The lower bits of @request: one for each client */
#define UNWIND_MAX_CLIENTS		(BITS_PER_LONG - 2)

/*
 * Is a uprobe of current being handled? Then the next instruction to run is not at ip but
 * in the single-stepping area.
 */
static inline bool unwind_deferred_in_uprobe(void)
{
#ifdef CONFIG_UPROBES
	const struct uprobe_task *utask = current->utask;

	return utask && (utask->auprobe || utask->active_uprobe);
#else
	return false;
#endif
}

extern struct unwind_deferred_client *unwind_deferred_clients[UNWIND_MAX_CLIENTS];
extern struct srcu_struct unwind_deferred_srcu;

/* First byte of the instruction whose uprobe is being handled, or 0 */
static inline u8 unwind_user_probed(void)
{
#ifdef CONFIG_UPROBES
	const struct uprobe_task *utask = READ_ONCE(current->utask);
	const struct arch_uprobe *auprobe = utask ? READ_ONCE(utask->auprobe) : NULL;

	return auprobe ? *(u8 *)&auprobe->insn : 0;
#else
	return 0;
#endif
}

#endif /* _KERNEL_UNWIND_REQUESTS_H */
