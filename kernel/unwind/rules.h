/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_RULES_H
#define _KERNEL_UNWIND_RULES_H

#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

/**
 * enum unwind_user_rule_kind - By what a frame can be left
 * @UNWIND_USER_RULE_FP:	Nothing is known of the code: frame pointers
 * @UNWIND_USER_RULE_TABLE:	An unwind table has a rule for it
 * @UNWIND_USER_RULE_SIGNAL:	It returns from a signal handler, says its code or its table
 */
enum unwind_user_rule_kind {
	UNWIND_USER_RULE_FP,
	UNWIND_USER_RULE_TABLE,
	UNWIND_USER_RULE_SIGNAL,
};

struct unwind_user_shared;

#ifdef CONFIG_UNWIND_USER_SFRAME

#include "tables.h"

enum unwind_user_rule_kind
unwind_user_find_rule(struct unwind_user_state *state,
		      struct unwind_user_rule *rule);
bool unwind_user_on_stack(const struct unwind_user_state *state,
			  unsigned long addr, unsigned int size);
bool unwind_user_at_code(const struct unwind_user_state *state,
			 unsigned long ip, bool topmost);
void unwind_user_shared_free(struct unwind_user_shared *shared);

void unwind_user_sections_drop(void);
unsigned long unwind_user_sections_count(void);
unsigned long unwind_user_sections_reclaim(unsigned long nr);

#else

static inline enum unwind_user_rule_kind
unwind_user_find_rule(const struct unwind_user_state *state,
		      struct unwind_user_rule *rule)
{
	return arch_unwind_user_at_sigreturn(state) > 0 ? UNWIND_USER_RULE_SIGNAL :
							  UNWIND_USER_RULE_FP;
}

static inline void unwind_tables_begin(void) { }

/* Without tables no walk is confined. */
static inline bool unwind_user_on_stack(const struct unwind_user_state *state,
					unsigned long addr, unsigned int size)
{
	return true;
}

static inline bool unwind_user_at_code(const struct unwind_user_state *state,
				       unsigned long ip, bool topmost)
{
	return true;
}

static inline void unwind_user_sections_drop(void) { }

static inline unsigned long unwind_user_sections_count(void)
{
	return 0;
}

static inline unsigned long unwind_user_sections_reclaim(unsigned long nr)
{
	return 0;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */

#endif /* _KERNEL_UNWIND_RULES_H */
