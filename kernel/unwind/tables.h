/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unwind tables that profilers supply for files
 */
#ifndef _KERNEL_UNWIND_TABLES_H
#define _KERNEL_UNWIND_TABLES_H

#include <linux/sched.h>
#include <linux/types.h>

struct inode;
struct unwind_user_rule;

/**
 * unwind_tables_current - Which tables serve current, as far as its walk knows?
 *
 * Context: Task context of a user task, after unwind_tables_begin().
 * Return: a number. No other state of those tables has the same.
 */
static inline u64 unwind_tables_current(void)
{
	return current->unwind_tables_seq;
}

/**
 * unwind_tables_unchanged - Are the tables that serve current what they were?
 * @seq:	From unwind_tables_current(), after unwind_table_find()
 *
 * Context: Task context of a user task, after unwind_tables_begin().
 * Return: true if they were so when the walk began, or at its last lookup.
 */
static inline bool unwind_tables_unchanged(u64 seq)
{
	return unwind_tables_current() == seq;
}

void unwind_tables_begin(void);
u64 unwind_table_find(const struct inode *inode);
int unwind_table_find_rule(u64 id, u64 vaddr, struct unwind_user_rule *rule);

#endif /* _KERNEL_UNWIND_TABLES_H */
