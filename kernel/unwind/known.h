/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_KNOWN_H
#define _KERNEL_UNWIND_KNOWN_H

struct unwind_user_state;

#ifdef CONFIG_UNWIND_USER_SFRAME

unsigned int unwind_user_walk_known(struct unwind_user_state *state,
				    unsigned long *entries, unsigned int max);

#else

/* Rules are only remembered if there are any. */
static inline unsigned int unwind_user_walk_known(struct unwind_user_state *state,
						  unsigned long *entries, unsigned int max)
{
	return 0;
}

#endif

#endif /* _KERNEL_UNWIND_KNOWN_H */
