/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_BARE_H
#define _KERNEL_UNWIND_BARE_H

#include <linux/bits.h>
#include <linux/types.h>

#include "regions.h"

struct unwind_user_slot;

/* How many mappings a task remembers of a program without sections and tables */
#define UNWIND_USER_BARES	32
/* How many addresses without a signal frame it remembers in these mappings, log2 */
#define UNWIND_USER_BARE_BITS	6

/**
 * struct unwind_user_bare_range - A mapping without section or table
 * @start:	Its first byte
 * @end:	First byte after it
 * @id:		As in &struct unwind_user_region; 0 if unused
 * @seq:	As in &struct unwind_user_slot
 */
struct unwind_user_bare_range {
	unsigned long			start;
	unsigned long			end;
	u64				id;
	struct unwind_user_seq		seq;
};

/**
 * struct unwind_user_bare - Memory for a program without sections and tables
 * @ranges:	Mappings
 * @next:	The oldest of them
 * @tags:	By hash of the address: the mapping in which no signal frame was
 *		found at @offs[]
 * @offs:	Offset of the address in the mapping
 */
struct unwind_user_bare {
	struct unwind_user_bare_range	ranges[UNWIND_USER_BARES];
	unsigned int			next;
	u8				tags[1 << UNWIND_USER_BARE_BITS];
	u32				offs[1 << UNWIND_USER_BARE_BITS];
};

/* Bits of &unwind_user_bare.tags: entry in use, frame interrupted, mapping. */
#define UNWIND_USER_BARE_USED		0x80
#define UNWIND_USER_BARE_TOPMOST	0x40
#define UNWIND_USER_BARE_RANGE		0x1f

static inline unsigned int unwind_user_bare_hash(unsigned long pc)
{
	return (u64)pc * 0x61c8864680b583ebULL >> (64 - UNWIND_USER_BARE_BITS);
}

/**
 * unwind_user_bare_known - unwind_user_bare_find() for many calling frames
 * @bare:	What the task remembers
 * @pc:		The address
 * @valid:	Bits of mappings that are known to be valid now; 0 at first
 *
 * Context: Task context of a user task.
 * Return: As unwind_user_bare_find().
 */
static __always_inline bool unwind_user_bare_known(const struct unwind_user_bare *bare,
						   unsigned long pc, u32 *valid)
{
	unsigned int i = unwind_user_bare_hash(pc), nr = bare->tags[i] - UNWIND_USER_BARE_USED;
	const struct unwind_user_bare_range *range;

	/* The other bits are not set. */
	if (nr >= UNWIND_USER_BARES)
		return false;

	range = &bare->ranges[nr];
	if (bare->offs[i] != pc - range->start)
		return false;

	if (unlikely(!(*valid & BIT(nr)))) {
		if (!range->id || pc >= range->end ||
		    !unwind_user_region_current(&range->seq))
			return false;
		*valid |= BIT(nr);
	}

	return true;
}

bool unwind_user_bare_find(const struct unwind_user_bare *bare, unsigned long pc,
			   bool topmost);
bool unwind_user_bare_has(struct unwind_user_bare *bare, unsigned long pc,
			  bool topmost, bool keep);
void unwind_user_bare_put(struct unwind_user_bare *bare,
			  const struct unwind_user_slot *slot, unsigned long pc,
			  bool topmost);

#endif /* _KERNEL_UNWIND_BARE_H */
