// SPDX-License-Identifier: GPL-2.0
/*
 * Regions: what each mm remembers about ranges of code
 *
 * A region either was found in a mapped file, see found.c, or was registered by the
 * program, see registered.c. This file has the trees of regions and decides how long
 * they are kept.
 *
 * Shared fields
 * -------------
 *
 * ========================= ============================ =======================
 * field                     written by                   under
 * ========================= ============================ =======================
 * mm->unwind_regions        the first walk or prctl();   cmpxchg from NULL; it
 *                           fork, for the child          stays while it has
 *                           reclaim, mmput(): to NULL    another reference
 * @refs                     tasks of the mm; reclaim     atomic
 * @found, @nr_found, and    tasks of the mm, when they   @lock
 * its entries               have looked into a file or
 *                           for a changed table, or
 *                           read a corrupt section;
 *                           reclaim
 * @registered,              prctl()                      mmap lock for writing,
 * @nr_registered, and its                                which changes its
 * entries                                                sequence number, and
 *                                                        @lock; read under one
 *                                                        of the two
 * @id, @has_sframe of       also tasks of the mm, when   @lock and mmap lock for
 * entries of @registered    they read a corrupt section  reading
 * @memo                     tasks of the mm; reclaim     cmpxchg, xchg; read
 *                                                        under RCU, see shared.c
 * @reclaim                  tasks of the mm; reclaim;    unwind_regions_lock
 *                           the last mmput()
 * unwind_regions_id         tasks of all mms             atomic
 * ========================= ============================ =======================
 *
 * All of this is written in task context, except the table of an entry: a walk at hand may
 * find a changed table in any context. It tries @lock. Lock order: mmap lock, unwind_regions_lock,
 * @lock. No lock is held while a file or user memory is read: the read may wait for
 * a server, and the server for a task that waits for the lock. Memory is not
 * allocated under one of the last two locks, because the allocation may reclaim.
 *
 * Regions that were found, and @memo, can be found again. They are freed when nobody
 * profiles any more, or when memory is short. The rest is freed with them if nothing
 * is registered.
 */
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/unwind_user_regions.h>

#include "reclaim.h"
#include "regions.h"

/* The last number that was given to a region. */
static atomic64_t unwind_regions_id;

/* Protects the list of mms that have something to reclaim, and its length. */
static DEFINE_SPINLOCK(unwind_regions_lock);
static LIST_HEAD(unwind_regions_list);
static unsigned long unwind_regions_nr;

/**
 * unwind_regions_overlap - Find any region that overlaps a range
 * @root:	Tree to search
 * @start:	First byte of the range
 * @end:	First byte after it
 *
 * Context: The lock that protects the tree is held.
 * Return: the region, or NULL.
 */
struct unwind_region *
unwind_regions_overlap(const struct rb_root *root, unsigned long start,
		       unsigned long end)
{
	struct rb_node *node = root->rb_node;

	while (node) {
		struct unwind_region *entry =
			rb_entry(node, struct unwind_region, node);

		if (end <= entry->start)
			node = node->rb_left;
		else if (start >= entry->end)
			node = node->rb_right;
		else
			return entry;
	}

	return NULL;
}

/**
 * unwind_regions_lookup - Find the region that contains an address, or the gap
 * @root:	Tree to search
 * @ip:		The address
 * @start:	Receives the start of the gap around @ip, if no region contains it
 * @end:	Receives the end of that gap
 *
 * Context: The lock that protects the tree is held.
 * Return: the region, or NULL.
 */
struct unwind_region *
unwind_regions_lookup(const struct rb_root *root, unsigned long ip,
		      unsigned long *start, unsigned long *end)
{
	struct rb_node *node = root->rb_node;

	*start = 0;
	*end = TASK_SIZE_MAX;

	while (node) {
		struct unwind_region *entry =
			rb_entry(node, struct unwind_region, node);

		if (ip < entry->start) {
			*end = entry->start;
			node = node->rb_left;
		} else if (ip >= entry->end) {
			*start = entry->end;
			node = node->rb_right;
		} else {
			return entry;
		}
	}

	return NULL;
}

/**
 * unwind_regions_add - Add a region to a tree
 * @root:	The tree
 * @entry:	The region, which overlaps none in the tree
 *
 * Context: The lock that protects the tree is held.
 */
void unwind_regions_add(struct rb_root *root,
			struct unwind_region *entry)
{
	struct rb_node **link = &root->rb_node, *parent = NULL;

	while (*link) {
		const struct unwind_region *other =
			rb_entry(*link, struct unwind_region, node);

		parent = *link;
		if (entry->start < other->start)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}

	rb_link_node(&entry->node, parent, link);
	rb_insert_color(&entry->node, root);
}

/**
 * unwind_regions_free_tree - Free all regions of a tree
 * @root:	The tree, which nobody else can find
 *
 * Context: Any. Does not sleep.
 */
void unwind_regions_free_tree(struct rb_root *root)
{
	struct unwind_region *entry, *next;

	rbtree_postorder_for_each_entry_safe(entry, next, root, node)
		kfree(entry);
}

/**
 * unwind_regions_new_id - Get a number for a region
 *
 * Context: Any.
 * Return: a number that was never returned before.
 */
u64 unwind_regions_new_id(void)
{
	return atomic64_inc_return(&unwind_regions_id);
}

/**
 * unwind_regions_copy - Copy a region
 * @region:	Receives the copy
 * @entry:	The region
 * @table:	Number of the table that was supplied for the file that is mapped
 *		there; 0 if there is none
 *
 * Context: &unwind_user_regions.lock is held.
 */
void unwind_regions_copy(struct unwind_user_region *region,
			 struct unwind_region *entry, u64 table)
{
	region->start		= entry->start;
	region->end		= entry->end;
	region->id		= entry->id;
	region->has_sframe	= entry->has_sframe;
	region->unread		= entry->unread;
	region->early		= false;
	region->table		= 0;
	if (entry->has_sframe)
		region->sframe	= entry->sframe[0];

	if (!table || !entry->elf.has_text)
		return;

	/*
	 * Different tables may serve different threads. That is rare; such threads
	 * keep discarding each other's rules.
	 */
	if (entry->table != table) {
		entry->table	= table;
		entry->table_id	= unwind_regions_new_id();
	}

	region->id		= entry->table_id;
	region->table		= table;
	region->load_base	= entry->elf.load_base;
}

/**
 * unwind_regions_assign_id - Give a region a new number
 * @entry:	The region, whose contents have changed
 *
 * Context: The lock that protects the region is held.
 */
void unwind_regions_assign_id(struct unwind_region *entry)
{
	entry->id = unwind_regions_new_id();
}

/**
 * unwind_region_alloc - Copy a region into memory that can be kept
 * @entry:	The region
 * @sframe:	Its section, if it has one
 * @gfp:	How to allocate
 *
 * Context: Process context.
 * Return: the copy, or NULL.
 */
struct unwind_region *
unwind_region_alloc(const struct unwind_region *entry,
		    const struct sframe_section *sframe, gfp_t gfp)
{
	struct unwind_region *new;

	new = kmalloc(struct_size(new, sframe, entry->has_sframe), gfp);
	if (!new)
		return NULL;

	*new = *entry;
	if (entry->has_sframe)
		new->sframe[0] = *sframe;

	return new;
}

/**
 * unwind_regions_alloc - Allocate what an mm needs to remember regions
 * @mm:		The mm; the caller makes it point to the memory
 * @gfp:	How to allocate
 *
 * Context: Process context.
 * Return: the memory, with the mm's reference; NULL if memory is lacking.
 */
struct unwind_user_regions *unwind_regions_alloc(struct mm_struct *mm, gfp_t gfp)
{
	struct unwind_user_regions *regions = kzalloc(sizeof(*regions), gfp);

	if (!regions)
		return NULL;

	/* The mm's reference. */
	refcount_set(&regions->refs, 1);
	regions->mm = mm;
	INIT_LIST_HEAD(&regions->reclaim);
	spin_lock_init(&regions->lock);

	return regions;
}

/**
 * unwind_regions_keep - Put an mm's regions on the list for reclaim
 * @regions:	The regions; the caller has a reference
 *
 * Context: Process context, no lock held.
 */
void unwind_regions_keep(struct unwind_user_regions *regions)
{
	if (!list_empty_careful(&regions->reclaim))
		return;

	guard(spinlock)(&unwind_regions_lock);

	if (list_empty(&regions->reclaim)) {
		list_add_tail(&regions->reclaim, &unwind_regions_list);
		unwind_regions_nr++;
	}
}

/**
 * unwind_regions_tryget - Get a reference to the regions of an mm
 * @mm:		The mm
 *
 * Context: Any.
 * Return: the regions, with a reference; NULL if there are none.
 */
struct unwind_user_regions *unwind_regions_tryget(struct mm_struct *mm)
{
	struct unwind_user_regions *regions;

	guard(rcu)();

	regions = READ_ONCE(mm->unwind_regions);

	return regions && refcount_inc_not_zero(&regions->refs) ? regions : NULL;
}

/**
 * unwind_regions_get - Get the regions of current's mm, or allocate them
 * @gfp:	How to allocate
 *
 * Context: Process context.
 * Return: the regions, with a reference; NULL if memory is lacking.
 */
struct unwind_user_regions *unwind_regions_get(gfp_t gfp)
{
	struct unwind_user_regions *regions, *new = NULL, *old;
	struct mm_struct *mm = current->mm;

	/* If reclaim has taken the last reference, the pointer will soon be NULL. */
	while (!(regions = unwind_regions_tryget(mm))) {
		if (!new)
			new = unwind_regions_alloc(mm, gfp);
		if (!new)
			return NULL;

		old = NULL;
		if (try_cmpxchg(&mm->unwind_regions, &old, new)) {
			new = NULL;
		} else {
			/*
			 * Wait: on PREEMPT_RT, spinning could keep reclaim from
			 * running.
			 */
			spin_lock(&unwind_regions_lock);
			spin_unlock(&unwind_regions_lock);
		}
	}

	kfree(new);
	unwind_regions_keep(regions);
	return regions;
}

/**
 * unwind_regions_put - Put a reference; the mm's reference remains
 * @regions:	The regions, or NULL
 *
 * Context: Any.
 */
void unwind_regions_put(struct unwind_user_regions *regions)
{
	if (regions)
		refcount_dec(&regions->refs);
}

/**
 * unwind_regions_drop - Forget all regions that were found in files
 * @regions:	The regions of an mm
 * @drop:	Receives the tree of them; the caller frees it without holding a lock
 *
 * Context: &unwind_user_regions.lock is held.
 */
void unwind_regions_drop(struct unwind_user_regions *regions,
			 struct rb_root *drop)
{
	*drop = regions->found;
	regions->found = RB_ROOT;
	regions->nr_found = 0;
}

/**
 * unwind_regions_replace_memo - Replace the memo of current's mm
 * @old:	The expected memo, or NULL; not dereferenced
 * @new:	The new memo
 *
 * Context: Task context.
 * Return: true if the memo was @old and has been replaced.
 */
bool unwind_regions_replace_memo(struct unwind_regions_memo *old,
				 struct unwind_regions_memo *new)
{
	struct unwind_user_regions *regions = unwind_regions_tryget(current->mm);
	struct unwind_regions_memo *was;

	/* Reclaimed: @old is gone, and there is no place for @new. */
	if (!regions)
		return false;

	was = unrcu_pointer(cmpxchg(&regions->memo, RCU_INITIALIZER(old),
				    RCU_INITIALIZER(new)));
	if (was == old)
		unwind_regions_keep(regions);
	unwind_regions_put(regions);

	return was == old;
}

/*
 * Free what can be found again, and @regions if it holds nothing else. The mm may
 * be freed as soon as unwind_regions_lock is released.
 */
static void unwind_regions_reclaim(struct unwind_user_regions *regions)
	__releases(unwind_regions_lock)
{
	struct unwind_regions_memo *memo;
	struct rb_root found;
	bool last;

	lockdep_assert_held(&unwind_regions_lock);

	if (!list_empty(&regions->reclaim)) {
		list_del_init(&regions->reclaim);
		unwind_regions_nr--;
	}

	scoped_guard(spinlock, &regions->lock)
		unwind_regions_drop(regions, &found);
	memo = unrcu_pointer(xchg(&regions->memo, NULL));

	/* Registered regions have a reference. */
	last = refcount_dec_if_one(&regions->refs);
	if (last)
		WRITE_ONCE(regions->mm->unwind_regions, NULL);

	spin_unlock(&unwind_regions_lock);

	unwind_regions_free_tree(&found);
	if (memo)
		memo->free(memo);
	if (last)
		kfree_rcu(regions, rcu);
}

/**
 * unwind_user_regions_drop - Forget what can be found again for current's mm
 *
 * Context: Process context. Does not sleep.
 */
void unwind_user_regions_drop(void)
{
	struct mm_struct *mm = current->mm;
	struct unwind_user_regions *regions;

	if (!mm || !READ_ONCE(mm->unwind_regions))
		return;

	spin_lock(&unwind_regions_lock);
	regions = mm->unwind_regions;
	if (regions)
		unwind_regions_reclaim(regions);
	else
		spin_unlock(&unwind_regions_lock);
}

/**
 * unwind_user_regions_count - Count the mms that have something to reclaim
 *
 * Context: Any.
 * Return: their number.
 */
unsigned long unwind_user_regions_count(void)
{
	return READ_ONCE(unwind_regions_nr);
}

/**
 * unwind_user_regions_reclaim - Free regions of mapped files, and memos
 * @nr:		Number of mms. Begins with those that were walked first
 *
 * Walks may continue meanwhile, and look up the regions again.
 *
 * Context: Process context, also while memory is being reclaimed. Does not sleep.
 * Return: the number of mms for which it was forgotten.
 */
unsigned long unwind_user_regions_reclaim(unsigned long nr)
{
	struct unwind_user_regions *regions;
	unsigned long done;

	/* An mm that is added meanwhile goes to the end of the list. */
	nr = min(nr, unwind_user_regions_count());

	for (done = 0; done < nr; done++) {
		spin_lock(&unwind_regions_lock);
		regions = list_first_entry_or_null(&unwind_regions_list,
						   struct unwind_user_regions,
						   reclaim);
		if (!regions) {
			spin_unlock(&unwind_regions_lock);
			break;
		}
		unwind_regions_reclaim(regions);
	}

	return done;
}

/**
 * unwind_user_regions_free - Free all regions of an mm
 * @mm:		The mm, which no task uses any more
 *
 * Called in the last mmput(), not in mmdrop(): only tasks with this mm look regions
 * up, and some CPU may keep the mm_struct for long as its lazy mm.
 *
 * Context: Process context.
 */
void unwind_user_regions_free(struct mm_struct *mm)
{
	struct unwind_user_regions *regions;
	struct unwind_regions_memo *memo;

	if (!READ_ONCE(mm->unwind_regions))
		return;

	/* Reclaim may have found the regions before, and may free them. */
	scoped_guard(spinlock, &unwind_regions_lock) {
		regions = mm->unwind_regions;
		mm->unwind_regions = NULL;
		if (regions && !list_empty(&regions->reclaim)) {
			list_del(&regions->reclaim);
			unwind_regions_nr--;
		}
	}
	if (!regions)
		return;

	memo = unrcu_pointer(regions->memo);
	if (memo)
		memo->free(memo);
	unwind_regions_free_tree(&regions->found);
	unwind_regions_free_tree(&regions->registered);
	kfree(regions);
}
