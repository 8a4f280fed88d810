/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_IMMEDIATE_H
#define _LINUX_UNWIND_IMMEDIATE_H

#include <linux/errno.h>

struct pt_regs;

#ifdef CONFIG_UNWIND_USER_SFRAME
int unwind_immediate(const struct pt_regs *regs, unsigned long *entries,
		     unsigned int max);
int unwind_immediate_whole(const struct pt_regs *regs, unsigned long *entries,
			   unsigned int max);
void unwind_immediate_get(void);
void unwind_immediate_put(void);
#else
static inline int unwind_immediate(const struct pt_regs *regs, unsigned long *entries,
				   unsigned int max)
{
	return -EOPNOTSUPP;
}

static inline int unwind_immediate_whole(const struct pt_regs *regs,
					 unsigned long *entries, unsigned int max)
{
	return -EAGAIN;
}

static inline void unwind_immediate_get(void) { }
static inline void unwind_immediate_put(void) { }
#endif

#endif /* _LINUX_UNWIND_IMMEDIATE_H */
