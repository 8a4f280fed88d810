/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_TABLES_H
#define _LINUX_UNWIND_USER_TABLES_H

#include <linux/list.h>
#include <linux/types.h>

struct file;
struct seq_file;
struct task_struct;
struct unwind_user_tables;

/**
 * struct unwind_user_table_desc - A table that a profiler supplies
 * @file:	The file whose code it describes
 * @data:	An SFrame section, in user memory
 * @size:	Its length in bytes, or 0 to remove the table of @file
 * @vaddr:	Address of the section's first byte, in the address space of @file's
 *		program headers. Function addresses are relative to it
 * @global:	It serves all tasks, not only those of the events that own it
 * @unlimited:	It does not count as the user's locked memory
 */
struct unwind_user_table_desc {
	struct file		*file;
	const void __user	*data;
	u64			size;
	u64			vaddr;
	bool			global;
	bool			unlimited;
};

typedef void (*unwind_user_tables_fn)(const struct unwind_user_tables *tables,
				      void *data);

/**
 * struct unwind_user_tables_source - Knows which sets of tables serve a task
 * @visit:	Calls a function for each set that serves a task on this CPU,
 *		perhaps more than once for a set. The task is current, or current
 *		walks its stack and has a reference to it. A set stays valid as long as the
 *		RCU read lock is held. It may leave out some, so that it looks at @max
 *		events of a list at most. Any context, under RCU
 * @entry:	Private to the interface
 */
struct unwind_user_tables_source {
	void (*visit)(struct task_struct *task, unsigned int max,
		      unwind_user_tables_fn func, void *data);
	struct list_head	entry;
};

void unwind_user_tables_add_source(struct unwind_user_tables_source *source);
struct unwind_user_tables *unwind_user_tables_alloc(void);
struct unwind_user_tables *unwind_user_tables_get(struct unwind_user_tables *tables);
void unwind_user_tables_put(struct unwind_user_tables *tables);
int unwind_user_tables_supply(struct unwind_user_tables *tables,
			      const struct unwind_user_table_desc *desc);
void unwind_user_tables_show(struct unwind_user_tables *tables, struct seq_file *m);

#endif /* _LINUX_UNWIND_USER_TABLES_H */
