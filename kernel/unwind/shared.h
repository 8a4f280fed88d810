/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_SHARED_H
#define _KERNEL_UNWIND_SHARED_H

#include <linux/gfp_types.h>
#include <linux/types.h>

#include "regions.h"

struct unwind_user_rule;

/* The profiled task would not have allocated this, so do not kill a task for it. */
#define UNWIND_USER_GFP	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY)

/**
 * struct unwind_user_slot - Copy of a region that a walk uses
 * @region:	The region, as it was found
 * @seq:	State of mappings and tables at the lookup: tells whether the copy is
 *		still up to date, see unwind_user_region_current()
 */
struct unwind_user_slot {
	struct unwind_user_region	region;
	struct unwind_user_seq		seq;
};

struct unwind_rule_cache;
struct unwind_user_shared;

bool unwind_user_is_shared(void);
struct unwind_user_shared *unwind_user_shared_get(void);
const struct unwind_rule_cache *
unwind_user_shared_cache(const struct unwind_user_shared *shared);
bool unwind_user_shared_covers(const struct unwind_user_shared *shared, u64 region,
			       unsigned long *start, unsigned long *end);
void unwind_user_shared_make(void);
bool unwind_user_shared_find(unsigned long pc, u64 key, struct unwind_user_rule *rule,
			     bool *found, const struct unwind_user_slot *slot,
			     unsigned int *lookups);
bool unwind_user_shared_put(const struct unwind_user_slot *slot, u64 key,
			    const struct unwind_user_rule *rule);
void unwind_user_shared_grow(void);
void unwind_user_shared_forget(u64 id);
bool unwind_user_recent_get(unsigned long pc, struct unwind_user_slot *slot);
void unwind_user_recent_put(const struct unwind_user_slot *slot);

#endif /* _KERNEL_UNWIND_SHARED_H */
