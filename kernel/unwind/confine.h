/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_CONFINE_H
#define _KERNEL_UNWIND_CONFINE_H

#include <linux/types.h>

#include "mapping.h"

struct unwind_user_state;

/* How many mappings of code a task remembers for confined walks. */
#define UNWIND_USER_CODES	32

/**
 * struct unwind_user_confine - What a task remembers for its confined walks
 * @stack:	Mapping of the stack that was walked last
 * @codes:	Mappings of code that confined walks have come through
 * @nr_codes:	How many of @codes are used
 * @next_code:	The one that is replaced next, if all are used
 *
 * Only used by the task itself, in task context, and by the context that frees it.
 */
struct unwind_user_confine {
	struct unwind_user_mapping	stack;
	struct unwind_user_mapping	codes[UNWIND_USER_CODES];
	unsigned int			nr_codes;
	unsigned int			next_code;
};

bool unwind_user_on_stack(const struct unwind_user_state *state,
			  unsigned long addr, unsigned int size);
unsigned long unwind_user_stack_end(const struct unwind_user_confine *confine,
				    unsigned long sp);
bool unwind_user_at_code(const struct unwind_user_state *state,
			 unsigned long ip, bool topmost);

#endif /* _KERNEL_UNWIND_CONFINE_H */
