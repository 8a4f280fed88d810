/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame sections of the current task's code
 */
#ifndef _KERNEL_UNWIND_SECTIONS_H
#define _KERNEL_UNWIND_SECTIONS_H

#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "sframe.h"
#include "tables.h"

struct file;
struct unwind_user_shared;

/**
 * struct unwind_user_sections - Unwind tables of an mm
 * @refs:	One while it is the mm's, one while anything is registered, one for each
 *		user
 * @mm:		The mm; only to be used under unwind_sections_lock
 * @reclaim:	In the list of those that have something to be reclaimed
 * @shared:	What the threads remember together; NULL until one of them comes
 *		through code that has a table, and after it was reclaimed
 * @rcu:	To free it
 * @lock:	Protects @found and @nr_found
 * @found:	Entries that do not overlap each other, but may be stale
 * @nr_found:	How many
 * @nr_registered: How many
 * @registered:	Entries that do not overlap each other
 *
 * See kernel/unwind/sections.c.
 */
struct unwind_user_sections {
	refcount_t			refs;
	struct mm_struct		*mm;
	struct list_head		reclaim;
	struct unwind_user_shared __rcu	*shared;
	struct rcu_head			rcu;
	/* Never held for longer than a walk through the tree. */
	spinlock_t			lock;
	struct rb_root			found;
	unsigned int			nr_found;
	unsigned int			nr_registered;
	struct rb_root			registered;
};

/**
 * unwind_user_shared_get - What do the threads of current's mm remember together?
 *
 * Context: Any, under RCU.
 * Return: that, until the end of the RCU read section; NULL if nothing.
 */
static inline struct unwind_user_shared *unwind_user_shared_get(void)
{
	/* It depends on the address, as in rcu_dereference(). */
	struct unwind_user_sections *sections = READ_ONCE(current->mm->unwind_sections);

	return sections ? rcu_dereference(sections->shared) : NULL;
}

/**
 * struct unwind_user_seq - To what something that was looked up belongs
 * @mm:		Sequence number of the mm's mappings
 * @tables:	Which tables that were supplied serve the task
 */
struct unwind_user_seq {
	unsigned int		mm;
	u64			tables;
};

/**
 * struct unwind_user_section - What is known of a range of code
 * @start:	First byte of the range
 * @end:	First byte after it
 * @id:		Number of the range and what it holds; never 0. If anything about
 *		it changes, so does the number, and no number is used twice.
 * @has_sframe:	There is a section. Otherwise the range is known to have none,
 *		unless @unread.
 * @unread:	What the range has could not be read now; not to be kept
 * @table:	Number of the table that was supplied for the file, for
 *		unwind_table_find_rule(); 0 if none was
 * @load_base:	If @table is set, where the file's address 0 would be
 * @sframe:	The section, if @has_sframe
 *
 * A copy that holds no reference to anything. What it says may not be so any
 * more at any time; reading the section then yields other bytes, or fails.
 */
struct unwind_user_section {
	unsigned long		start;
	unsigned long		end;
	u64			id;
	bool			has_sframe;
	bool			unread;
	u64			table;
	unsigned long		load_base;
	struct sframe_section	sframe;
};

/**
 * unwind_user_section_seq - Sequence number of an mm's mappings
 * @mm:		The mm
 *
 * Context: The mmap lock is held for reading, so that nothing is changing.
 * Return: A number that changes when anything is mapped, unmapped, or
 *	   registered; 0 if the kernel does not count.
 */
static inline unsigned int unwind_user_section_seq(const struct mm_struct *mm)
{
#ifdef CONFIG_PER_VMA_LOCK
	return raw_read_seqcount(&mm->mm_lock_seq);
#else
	return 0;
#endif
}

/**
 * unwind_user_mm_current - Are the mappings of current what they were?
 * @seq:	From unwind_user_section_seq(), of the mm that current has now
 *
 * Context: Task context of a user task.
 * Return: true if nothing was mapped, unmapped or registered since; false if
 *	   something was, or if the kernel cannot tell.
 */
static inline bool unwind_user_mm_current(unsigned int seq)
{
#ifdef CONFIG_PER_VMA_LOCK
	return raw_read_seqcount(&current->mm->mm_lock_seq) == seq;
#else
	return false;
#endif
}

/**
 * unwind_user_section_current - Does what a lookup said still hold?
 * @seq:	From unwind_user_section_find(), of the mm that current has now
 *
 * Context: Task context of a user task.
 * Return: true if nothing was mapped, unmapped, registered, or supplied for this task
 *	   since; false if something was, or if the kernel cannot tell.
 */
static inline bool unwind_user_section_current(const struct unwind_user_seq *seq)
{
	return unwind_user_mm_current(seq->mm) &&
	       unwind_tables_unchanged(seq->tables);
}

/**
 * struct unwind_user_mapping - Where a mapping of the current task is
 * @start:	Its first byte
 * @end:	First byte after it
 * @seq:	Tells whether it still is there, see unwind_user_mm_current()
 */
struct unwind_user_mapping {
	unsigned long		start;
	unsigned long		end;
	unsigned int		seq;
};

int unwind_user_section_find(unsigned long ip,
			     struct unwind_user_section *section,
			     struct unwind_user_seq *seq);
bool unwind_user_section_drop(const struct unwind_user_section *section,
			      const struct unwind_user_seq *seq,
			      unsigned long ip, const char *flaw);
int unwind_user_check_file(struct file *file);
bool unwind_user_find_stack(unsigned long sp, struct unwind_user_mapping *mapping);
bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping);
struct unwind_user_shared *unwind_user_shared_replace(struct unwind_user_shared *old,
						      struct unwind_user_shared *new);

#endif /* _KERNEL_UNWIND_SECTIONS_H */
