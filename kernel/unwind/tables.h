/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unwind tables that profilers supply for files
 */
#ifndef _KERNEL_UNWIND_TABLES_H
#define _KERNEL_UNWIND_TABLES_H

#include <linux/types.h>

struct inode;
struct unwind_table;
struct unwind_user_rule;

/*
 * Counts changes of the set of all tables, and of whom they serve. See
 * kernel/unwind/tables.c.
 */
extern unsigned long unwind_tables_generation;

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

unsigned long unwind_tables_current(void);
void unwind_table_find(const struct inode *inode, struct unwind_table_ref *ref);
int unwind_table_find_rule(const struct unwind_table *table,
			   unsigned long generation, u64 vaddr,
			   struct unwind_user_rule *rule);

#endif /* _KERNEL_UNWIND_TABLES_H */
