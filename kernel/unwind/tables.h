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
 * unwind_tables_current - Get a number for the tables that serve current
 *
 * Context: Any, if current is a user task, after unwind_tables_begin().
 * Return: the number as of the walk's start or last lookup. No other state of those
 *	   tables has the same number.
 */
static inline u64 unwind_tables_current(void)
{
	return current->unwind_tables_seq;
}

/**
 * unwind_tables_unchanged - Do the same tables serve current as before?
 * @seq:	From unwind_tables_current(), after unwind_table_find()
 *
 * Context: Any, if current is a user task, after unwind_tables_begin().
 * Return: true if nothing had changed when the walk began, or at its last lookup.
 */
static inline bool unwind_tables_unchanged(u64 seq)
{
	return unwind_tables_current() == seq;
}

void unwind_tables_begin(void);
u64 unwind_table_find(const struct inode *inode);
int unwind_table_find_rule(u64 id, u64 vaddr, struct unwind_user_rule *rule);
bool unwind_table_load_base(u64 id, unsigned long start, u64 off, unsigned long *load_base);
bool unwind_tables_exist(void);
u64 unwind_tables_switch(void);
void unwind_tables_switch_back(u64 seq);
int unwind_table_find_rule_within(u64 id, u64 vaddr, struct unwind_user_rule *rule,
				  u32 *budget);

#endif /* _KERNEL_UNWIND_TABLES_H */
