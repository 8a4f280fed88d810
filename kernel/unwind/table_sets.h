/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TABLE_SETS_H
#define _KERNEL_UNWIND_TABLE_SETS_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include <linux/unwind_user_tables.h>
#include <linux/uuid.h>

#include "elf_headers.h"
#include "sframe.h"

struct inode;
struct ucounts;

/**
 * struct unwind_table_file - What identifies a file
 * @uuid:	UUID of its file system; zero if it has none
 * @ino:	Number of its inode
 * @dev:	Device of its file system
 * @generation:	Generation of its inode; 0 if the file system has no generations
 * @size:	Its length in bytes
 * @modified:	Modification time, in ns
 *
 * The last two change with the contents of the file, the others never change.
 */
struct unwind_table_file {
	uuid_t				uuid;
	u64				ino;
	dev_t				dev;
	u32				generation;
	loff_t				size;
	s64				modified;
};

/**
 * struct unwind_table - A table for a file
 * @by_file:	In unwind_tables_by_file, by unwind_table_key()
 * @by_id:	In unwind_tables_by_id, by @id
 * @entry:	In &unwind_user_tables.tables
 * @rcu:	To free it
 * @id:		Its number; no number is used twice
 * @owner:	The set that it belongs to
 * @global:	It serves all tasks
 * @file:	The file, as it was when the table was supplied
 * @texts:	For which addresses the file's code was linked
 * @used:	When a walk last used it, or when it was supplied, in jiffies
 * @ucounts:	User whose locked memory it counts as; NULL if it is not counted
 * @bytes:	Length of @data
 * @sframe:	The SFrame section in @data
 * @data:	The bytes that were supplied
 */
struct unwind_table {
	struct hlist_node		by_file;
	struct hlist_node		by_id;
	struct list_head		entry;
	struct rcu_head			rcu;
	u64				id;
	struct unwind_user_tables	*owner;
	bool				global;
	struct unwind_table_file	file;
	struct unwind_elf_texts		texts;
	unsigned long			used;
	struct ucounts			*ucounts;
	u32				bytes;
	struct sframe_section		sframe;
	u8				data[];
};

/**
 * struct unwind_user_tables - A set of tables that events own together
 * @refs:	One for each event
 * @rcu:	To free it
 * @seq:	Changes when a table that does not serve all tasks comes or goes; 0
 *		as long as there was none
 * @tables:	All tables of the set
 * @nr:		Number of tables
 * @bytes:	Total length of the tables
 */
struct unwind_user_tables {
	refcount_t			refs;
	struct rcu_head			rcu;
	u64				seq;
	struct list_head		tables;
	unsigned int			nr;
	u64				bytes;
};

extern struct mutex unwind_tables_mutex;

void unwind_table_file_init(struct unwind_table_file *file,
			    const struct inode *inode);
void unwind_table_link(struct unwind_table *table,
		       struct unwind_user_tables *tables);
void unwind_table_unlink(struct unwind_table *table);
struct unwind_table *
unwind_tables_oldest(const struct unwind_user_tables *tables,
		     const struct unwind_table *except,
		     const struct ucounts *ucounts);
struct unwind_table *
unwind_tables_of_file(const struct unwind_user_tables *tables,
		      const struct unwind_table_file *file);

#endif /* _KERNEL_UNWIND_TABLE_SETS_H */
