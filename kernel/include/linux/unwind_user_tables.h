/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_TABLES_H
#define _LINUX_UNWIND_USER_TABLES_H

#include <linux/types.h>

struct file;
struct seq_file;
struct unwind_user_tables;

/**
 * struct unwind_user_table_desc - A table to be supplied
 * @file:	The file whose code it describes
 * @data:	An SFrame section, in user memory
 * @size:	Its length in bytes, or 0 to take back what was supplied for @file
 * @vaddr:	Address of the section's first byte, in the same space as the
 *		addresses of @file's program headers; functions count from there
 * @global:	It serves all tasks, not just those of the events that own it
 */
struct unwind_user_table_desc {
	struct file		*file;
	const void __user	*data;
	u64			size;
	u64			vaddr;
	bool			global;
};

typedef void (*unwind_user_tables_fn)(const struct unwind_user_tables *tables,
				      void *data);

void perf_event_visit_unwind_tables(unwind_user_tables_fn func, void *data);
struct unwind_user_tables *unwind_user_tables_alloc(void);
struct unwind_user_tables *unwind_user_tables_get(struct unwind_user_tables *tables);
void unwind_user_tables_put(struct unwind_user_tables *tables);
int unwind_user_tables_supply(struct unwind_user_tables *tables,
			      const struct unwind_user_table_desc *desc);
void unwind_user_tables_show(struct unwind_user_tables *tables, struct seq_file *m);

#endif /* _LINUX_UNWIND_USER_TABLES_H */
