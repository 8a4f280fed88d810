/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_MEMORY_H
#define _KERNEL_UNWIND_MEMORY_H

#include <linux/types.h>

struct unwind_user_state;

bool unwind_user_peek_pair(unsigned long addr, unsigned long *low, unsigned long *high);
bool unwind_user_may_load(const struct unwind_user_state *state,
			  unsigned long addr, unsigned int size);

#endif /* _KERNEL_UNWIND_MEMORY_H */
