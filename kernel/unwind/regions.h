/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_REGIONS_H
#define _KERNEL_UNWIND_REGIONS_H

#include <linux/gfp_types.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "elf_headers.h"
#include "mapping.h"
#include "sframe.h"
#include "tables.h"

struct inode;

/* The profiled task would not have allocated this, so do not kill a task for it. */
#define UNWIND_REGIONS_GFP \
	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY)

/**
 * struct unwind_source - The file that a mapping maps, and where in it
 * @inode:	The file's inode. Only compared, never dereferenced: it may be freed.
 *		NULL for the vDSO; the next four fields are 0 then
 * @ino:	Number of the inode
 * @generation:	Generation of the inode
 * @dev:	Device. Like the two above, it shows that memory of @inode was reused
 * @changed:	Change time of the file, in ns: libraries may be overwritten in place
 *		and loaded again
 * @off:	Offset in the file of the first mapped byte
 */
struct unwind_source {
	const struct inode	*inode;
	unsigned long		ino;
	u32			generation;
	dev_t			dev;
	s64			changed;
	u64			off;
};

/**
 * struct unwind_region - A region, as the mm remembers it
 * @node:	In a tree of &struct unwind_user_regions, by @start
 * @start:	First byte of the region
 * @end:	First byte after it
 * @id:		As in &struct unwind_user_region
 * @source:	The file that is mapped there; not used for a registered region
 * @elf:	What the file's headers say about @start, if they were read
 * @table:	Number of the table that the last lookup found for the file; 0 if
 *		none was found yet
 * @table_id:	As @id, but for the region with that table
 * @has_sframe:	The section is mapped and usable. If it is not mapped, that may
 *		change while @source stays the same. Cleared if a lookup finds it
 *		corrupt
 * @unread:	Headers or section could not be read, so their contents are unknown
 * @retry:	If @unread, when to read them again, in jiffies
 * @sframe:	The section, if @has_sframe
 */
struct unwind_region {
	struct rb_node		node;
	unsigned long		start;
	unsigned long		end;
	u64			id;
	struct unwind_source	source;
	struct unwind_elf_layout elf;
	u64			table;
	u64			table_id;
	bool			has_sframe;
	bool			unread;
	unsigned long		retry;
	struct sframe_section	sframe[];
};

/**
 * struct unwind_regions_memo - What the layers above remember for an mm
 * @free:	Frees it. New readers cannot find it, but readers under RCU may be
 *		using it. Any context, does not sleep
 */
struct unwind_regions_memo {
	void (*free)(struct unwind_regions_memo *memo);
};

/**
 * struct unwind_user_regions - The regions of an mm
 * @refs:	One while the mm points to it, one while anything is registered, one
 *		for each user
 * @mm:		The mm; only to be used under unwind_regions_lock
 * @reclaim:	In the list of mms that have something to reclaim
 * @memo:	What the layers above remember. NULL until they set it, and after it
 *		was reclaimed
 * @rcu:	To free it
 * @lock:	Protects @found, @nr_found and @registered
 * @found:	Regions found in files. They do not overlap, but may be stale
 * @nr_found:	Number of @found
 * @nr_registered: Number of @registered
 * @registered:	Regions registered by the program. They do not overlap
 *
 * See kernel/unwind/regions.c.
 */
struct unwind_user_regions {
	refcount_t			refs;
	struct mm_struct		*mm;
	struct list_head		reclaim;
	struct unwind_regions_memo __rcu *memo;
	struct rcu_head			rcu;
	/* Never held for longer than a search of the tree. */
	spinlock_t			lock;
	struct rb_root			found;
	unsigned int			nr_found;
	unsigned int			nr_registered;
	struct rb_root			registered;
};

/**
 * unwind_regions_memo - Get what the layers above remember for current's mm
 *
 * Context: Any, under RCU.
 * Return: the memo, valid until the end of the RCU read section; NULL if none.
 */
static inline struct unwind_regions_memo *unwind_regions_memo(void)
{
	/* An address dependency orders the reads, as in rcu_dereference(). */
	struct unwind_user_regions *regions = READ_ONCE(current->mm->unwind_regions);

	return regions ? rcu_dereference(regions->memo) : NULL;
}

/**
 * struct unwind_user_seq - State of mappings and tables at a lookup
 * @mm:		Sequence number of the mm's mappings
 * @tables:	A number for the set of tables that serve the task
 */
struct unwind_user_seq {
	unsigned int		mm;
	u64			tables;
};

/**
 * struct unwind_user_region - What is known about a region
 * @start:	First byte of the region
 * @end:	First byte after it
 * @id:		Number of the region with its contents; 0 only with @early. If anything about
 *		it changes, so does the number. No number is used twice.
 * @has_sframe:	There is a section. Otherwise the region is known to have none,
 *		unless @unread.
 * @unread:	The contents could not be read now. Such a copy must not be kept
 * @early:	No walk in task context has looked at the file: all that is known is from its
 *		table, if it has one. Such a copy must not be kept
 * @table:	Number of the table that was supplied for the file, for
 *		unwind_table_find_rule(); 0 if there is none
 * @load_base:	If @table is set, where the file's address 0 would be mapped
 * @sframe:	The section, if @has_sframe
 *
 * This is a copy without references. It may become outdated at any time. Reading the
 * section then returns other bytes, or fails.
 */
struct unwind_user_region {
	unsigned long		start;
	unsigned long		end;
	u64			id;
	bool			has_sframe;
	bool			unread;
	bool			early;
	u64			table;
	unsigned long		load_base;
	struct sframe_section	sframe;
};

/**
 * unwind_user_region_current - Is the result of a lookup still up to date?
 * @seq:	From unwind_user_region_find(), of the mm that current has now
 *
 * Context: Any, if current is a user task.
 * Return: true if no change of what is mapped or registered has ended since then, and
 *	   the same tables serve this task; false otherwise, or if the kernel cannot
 *	   tell.
 */
static inline bool unwind_user_region_current(const struct unwind_user_seq *seq)
{
	return unwind_user_mm_current(seq->mm) &&
	       unwind_tables_unchanged(seq->tables);
}

struct unwind_region *
unwind_regions_overlap(const struct rb_root *root, unsigned long start,
		       unsigned long end);
struct unwind_region *
unwind_regions_lookup(const struct rb_root *root, unsigned long ip,
		      unsigned long *start, unsigned long *end);
void unwind_regions_add(struct rb_root *root, struct unwind_region *entry);
void unwind_regions_free_tree(struct rb_root *root);

u64 unwind_regions_new_id(void);
void unwind_regions_assign_id(struct unwind_region *entry);
void unwind_regions_copy(struct unwind_user_region *region,
			 struct unwind_region *entry, u64 table);
struct unwind_region *
unwind_region_alloc(const struct unwind_region *entry,
		    const struct sframe_section *sframe, gfp_t gfp);

struct unwind_user_regions *unwind_regions_alloc(struct mm_struct *mm, gfp_t gfp);
struct unwind_user_regions *unwind_regions_tryget(struct mm_struct *mm);
struct unwind_user_regions *unwind_regions_get(gfp_t gfp);
void unwind_regions_put(struct unwind_user_regions *regions);
void unwind_regions_keep(struct unwind_user_regions *regions);
void unwind_regions_drop(struct unwind_user_regions *regions,
			 struct rb_root *drop);
bool unwind_regions_replace_memo(struct unwind_regions_memo *old,
				 struct unwind_regions_memo *new);

#endif /* _KERNEL_UNWIND_REGIONS_H */
