/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unwind tables that profilers supply for files
 */
#ifndef _KERNEL_UNWIND_TABLES_H
#define _KERNEL_UNWIND_TABLES_H

#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/types.h>

struct inode;
struct unwind_table;
struct unwind_user_rule;

/**
 * struct unwind_tables_seq - Counts changes of tables, and of whom they serve
 * @all:	Changes of those that serve all tasks
 * @own:	Changes of those that serve tasks with certain events; never 0. As what
 *		a lookup belongs to: 0 if the task has no events, so that tasks which
 *		are profiled as part of a CPU do not care.
 *
 * See kernel/unwind/tables.c.
 */
struct unwind_tables_seq {
	unsigned long			all;
	unsigned long			own;
};

extern struct unwind_tables_seq unwind_tables_seq;

/**
 * struct unwind_table_ref - A table that was found
 * @table:	The table, or NULL. Only to be used by unwind_table_find_rule(): it
 *		may have been freed.
 * @id:		Its number; no number is used twice
 */
struct unwind_table_ref {
	const struct unwind_table	*table;
	u64				id;
};

/* What current has to compare with unwind_tables_seq.own. */
static inline unsigned long unwind_tables_own(void)
{
	return rcu_access_pointer(current->perf_event_ctxp) ?
	       READ_ONCE(unwind_tables_seq.own) : 0;
}

/**
 * unwind_tables_unchanged - Are the tables that serve current what they were?
 * @seq:	From unwind_tables_current()
 *
 * Context: Task context of a user task.
 * Return: true if so.
 */
static inline bool unwind_tables_unchanged(const struct unwind_tables_seq *seq)
{
	return READ_ONCE(unwind_tables_seq.all) == seq->all &&
	       unwind_tables_own() == seq->own;
}

struct unwind_tables_seq unwind_tables_current(void);
void unwind_table_find(const struct inode *inode, const struct unwind_tables_seq *seq,
		       struct unwind_table_ref *ref);
int unwind_table_find_rule(const struct unwind_table *table,
			   const struct unwind_tables_seq *seq, u64 vaddr,
			   struct unwind_user_rule *rule);

#endif /* _KERNEL_UNWIND_TABLES_H */
