// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a task for a program without sections and tables
 *
 * The task remembers the mappings without section or table that walks came to, and the
 * addresses in them without a signal frame. This takes little memory. The task stops
 * using it as soon as a walk comes through code with a section or table.
 */
#include <linux/array_size.h>
#include <linux/build_bug.h>
#include <linux/limits.h>

#include "bare.h"
#include "shared.h"

static_assert(UNWIND_USER_BARE_RANGE >= UNWIND_USER_BARES - 1);

static bool unwind_user_bare_covers(const struct unwind_user_bare_range *range,
				    unsigned long pc)
{
	return range->id && pc >= range->start && pc < range->end &&
	       unwind_user_region_current(&range->seq);
}

static u8 unwind_user_bare_tag(unsigned int nr, bool topmost)
{
	return UNWIND_USER_BARE_USED | (topmost ? UNWIND_USER_BARE_TOPMOST : 0) | nr;
}

/**
 * unwind_user_bare_find - Is an address known to have no section and no signal frame?
 * @bare:	What the task remembers
 * @pc:		The address
 * @topmost:	It is the address of an interrupted frame
 *
 * Context: Task context of a user task.
 * Return: true if there is neither a section or table nor a signal frame.
 */
bool unwind_user_bare_find(const struct unwind_user_bare *bare, unsigned long pc,
			   bool topmost)
{
	unsigned int i = unwind_user_bare_hash(pc);
	const struct unwind_user_bare_range *range;
	unsigned int nr;

	nr = bare->tags[i] & UNWIND_USER_BARE_RANGE;
	range = &bare->ranges[nr];

	return bare->tags[i] == unwind_user_bare_tag(nr, topmost) &&
	       bare->offs[i] == pc - range->start &&
	       unwind_user_bare_covers(range, pc);
}

static void unwind_user_bare_keep(struct unwind_user_bare *bare, unsigned int nr,
				  unsigned long pc, bool topmost)
{
	const struct unwind_user_bare_range *range = &bare->ranges[nr];
	unsigned int i = unwind_user_bare_hash(pc);

	if (pc - range->start > U32_MAX)
		return;

	bare->tags[i] = unwind_user_bare_tag(nr, topmost);
	bare->offs[i] = pc - range->start;
}

/**
 * unwind_user_bare_has - Is it known that an address has no section or table?
 * @bare:	What the task remembers
 * @pc:		The address
 * @topmost:	It is the address of an interrupted frame
 * @keep:	There is no signal frame either: remember that, too
 *
 * Context: Task context of a user task.
 * Return: true if the address has none.
 */
bool unwind_user_bare_has(struct unwind_user_bare *bare, unsigned long pc,
			  bool topmost, bool keep)
{
	unsigned int nr;

	for (nr = 0; nr < UNWIND_USER_BARES; nr++) {
		if (unwind_user_bare_covers(&bare->ranges[nr], pc)) {
			if (keep)
				unwind_user_bare_keep(bare, nr, pc, topmost);
			return true;
		}
	}

	return false;
}

/**
 * unwind_user_bare_put - Remember that a region has no section or table
 * @bare:	What the task remembers
 * @slot:	The region
 * @pc:		Address in it where there is no signal frame either
 * @topmost:	@pc is the address of an interrupted frame
 *
 * Context: Task context of a user task.
 */
void unwind_user_bare_put(struct unwind_user_bare *bare,
			  const struct unwind_user_slot *slot, unsigned long pc,
			  bool topmost)
{
	const struct unwind_user_region *region = &slot->region;
	struct unwind_user_bare_range *range;
	unsigned int nr, i;

	for (nr = 0; nr < UNWIND_USER_BARES; nr++) {
		range = &bare->ranges[nr];
		if (range->start == region->start && range->end == region->end)
			break;
	}
	if (nr == UNWIND_USER_BARES)
		nr = bare->next++ % UNWIND_USER_BARES;

	range = &bare->ranges[nr];
	if (range->id != region->id || range->start != region->start ||
	    range->end != region->end) {
		for (i = 0; i < ARRAY_SIZE(bare->tags); i++) {
			if ((bare->tags[i] & UNWIND_USER_BARE_RANGE) == nr)
				bare->tags[i] = 0;
		}
	}

	range->start	= region->start;
	range->end	= region->end;
	range->id	= region->id;
	range->seq	= slot->seq;
	unwind_user_bare_keep(bare, nr, pc, topmost);
}
