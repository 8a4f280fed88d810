/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_FOUND_H
#define _KERNEL_UNWIND_FOUND_H

#include <linux/types.h>

struct unwind_user_region;
struct unwind_user_seq;

int unwind_user_region_find(unsigned long ip,
			    struct unwind_user_region *region,
			    struct unwind_user_seq *seq);
int unwind_user_region_at_hand(unsigned long ip, struct unwind_user_region *region,
			       struct unwind_user_seq *seq);
bool unwind_user_region_drop(const struct unwind_user_region *region,
			     const struct unwind_user_seq *seq,
			     unsigned long ip, const char *flaw);

#endif /* _KERNEL_UNWIND_FOUND_H */
