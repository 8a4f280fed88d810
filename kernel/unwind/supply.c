// SPDX-License-Identifier: GPL-2.0
/*
 * Sets of unwind tables, and how profilers supply them
 *
 * tables.c describes what a table is, whom it serves and how long it lives.
 */
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/kdev_t.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_tables.h>
#include <linux/user_namespace.h>

#include "elf_headers.h"
#include "sframe.h"
#include "table_sets.h"

/* The largest table. It is enough for about half a GiB of text. */
#define UNWIND_TABLE_SIZE_MAX	SZ_64M

/* How many tables one set may have. A system has some thousand files with code. */
#define UNWIND_TABLES_MAX	8192

/* How long all tables of a set may be together. */
#define UNWIND_TABLES_BYTES_MAX	SZ_1G

/* How many functions and rows are checked before other tasks get a chance to run. */
#define UNWIND_TABLE_RESCHED	4096

static void unwind_table_free_rcu(struct rcu_head *rcu)
{
	kvfree(container_of(rcu, struct unwind_table, rcu));
}

static void unwind_table_unlock(u32 bytes, struct ucounts *ucounts)
{
	if (ucounts)
		user_shm_unlock(struct_size_t(struct unwind_table, data, bytes), ucounts);
}

/*
 * Nobody can find the table any more, but walks may still be using it. Its memory is
 * not counted any more, so it should be freed soon.
 */
static void unwind_table_free(struct unwind_table *table)
{
	unwind_table_unlock(table->bytes, table->ucounts);
	call_rcu_hurry(&table->rcu, unwind_table_free_rcu);
}

static unsigned long unwind_table_pages(u32 bytes)
{
	return DIV_ROUND_UP(struct_size_t(struct unwind_table, data, bytes), PAGE_SIZE);
}

/*
 * Would @pages more be allowed if all tables of this user in @tables were removed?
 */
static bool unwind_tables_are_in_the_way(const struct unwind_user_tables *tables,
					 struct ucounts *ucounts, unsigned long pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	unsigned long locked = get_rlimit_value(ucounts, UCOUNT_RLIMIT_MEMLOCK);
	const struct unwind_table *table;
	unsigned long own = 0;

	lockdep_assert_held(&unwind_tables_mutex);

	list_for_each_entry(table, &tables->tables, entry) {
		if (table->ucounts == ucounts)
			own += unwind_table_pages(table->bytes);
	}

	return locked + pages <= limit + own;
}

/* Remove the least recently used table, if that helps to lock @pages more. */
static bool unwind_tables_evict_locked(struct unwind_user_tables *tables,
				       unsigned long pages)
{
	struct ucounts *ucounts = current_ucounts();
	struct unwind_table *table = NULL;

	scoped_guard(mutex, &unwind_tables_mutex) {
		if (unwind_tables_are_in_the_way(tables, ucounts, pages))
			table = unwind_tables_oldest(tables, NULL, ucounts);
		if (table) {
			unwind_table_unlink(table);
			list_del(&table->entry);
		}
	}

	if (!table)
		return false;

	unwind_table_free(table);
	cond_resched();

	return true;
}

/*
 * Charge the user's memory, not the process's: the event keeps the table after the
 * process that supplied it has exited. If there is no limit, do not count the table,
 * to leave the limit to the user's other processes.
 */
static int unwind_table_lock(struct unwind_user_tables *tables,
			     const struct unwind_user_table_desc *desc,
			     struct ucounts **ucounts)
{
	const u32 bytes = desc->size;
	const size_t size = struct_size_t(struct unwind_table, data, bytes);
	unsigned int tries = 0;

	*ucounts = NULL;
	if (desc->unlimited || ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
		return 0;

	while (!user_shm_lock(size, current_ucounts())) {
		/* Another thread may be filling the same set. */
		if (tries++ == UNWIND_TABLES_MAX ||
		    !unwind_tables_evict_locked(tables, unwind_table_pages(bytes)))
			return -EPERM;
	}

	*ucounts = current_ucounts();
	return 0;
}

/**
 * unwind_user_tables_alloc - Allocate an empty set of tables
 *
 * Context: Process context. Sleeps.
 * Return: the set, with a reference; NULL if memory is lacking.
 */
struct unwind_user_tables *unwind_user_tables_alloc(void)
{
	struct unwind_user_tables *tables;

	tables = kzalloc(sizeof(*tables), GFP_KERNEL_ACCOUNT);
	if (!tables)
		return NULL;

	refcount_set(&tables->refs, 1);
	INIT_LIST_HEAD(&tables->tables);

	return tables;
}

/**
 * unwind_user_tables_get - Get another reference
 * @tables:	A set of tables; the caller has a reference
 *
 * Context: Any.
 * Return: @tables.
 */
struct unwind_user_tables *unwind_user_tables_get(struct unwind_user_tables *tables)
{
	refcount_inc(&tables->refs);
	return tables;
}

/**
 * unwind_user_tables_put - Put an event's reference to a set of tables
 * @tables:	The set, or NULL. The source of the event must not find the set any
 *		more.
 *
 * If no event owns the set any more, its tables are removed. A walk that begins
 * after this returns does not use a table that does not serve it.
 *
 * Context: Process context. Sleeps, but does not wait for walks.
 */
void unwind_user_tables_put(struct unwind_user_tables *tables)
{
	struct unwind_table *table, *next;

	if (!tables || !refcount_dec_and_test(&tables->refs))
		return;

	scoped_guard(mutex, &unwind_tables_mutex) {
		list_for_each_entry(table, &tables->tables, entry)
			unwind_table_unlink(table);
	}

	list_for_each_entry_safe(table, next, &tables->tables, entry) {
		unwind_table_free(table);
		cond_resched();
	}

	/* Walks may still be reading its number. */
	kfree_rcu(tables, rcu);
}

/* Check that all bytes are a valid table. */
static int unwind_table_check(const struct sframe_section *sframe)
{
	struct sframe_check check = { };
	u64 done, last = 0;
	int ret;

	/*
	 * Functions may share rows. Limit that, so that the check does not take too
	 * long.
	 */
	if (sframe->num_fres > sframe->size)
		return -EINVAL;

	while (check.index < sframe->num_fdes) {
		ret = sframe_check_function(sframe, &check);
		if (ret)
			return ret;

		done = check.index + check.num_fres;
		if (done - last < UNWIND_TABLE_RESCHED)
			continue;

		last = done;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}

	return 0;
}

/* Copy the table. The caller has charged its memory. */
static int unwind_table_copy(struct unwind_table **out,
			     const struct unwind_user_table_desc *desc)
{
	struct unwind_table *table;
	int ret;

	/* It may be large. Do not kill a task to get memory for it. */
	table = kvmalloc(struct_size(table, data, desc->size),
			 GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
	if (!table)
		return -ENOMEM;

	*table = (struct unwind_table) {
		.global	= desc->global,
		.bytes	= desc->size,
		.sframe	= {
			.base	= desc->vaddr,
			.size	= desc->size,
			.data	= table->data,
		},
	};

	ret = -EFAULT;
	if (copy_from_user(table->data, desc->data, desc->size))
		goto out_free;

	ret = sframe_section_init(&table->sframe);
	if (!ret)
		ret = unwind_table_check(&table->sframe);
	if (ret)
		goto out_free;

	*out = table;
	return 0;

out_free:
	kvfree(table);
	return ret;
}

/* Is there room for @table if @old, which may be NULL, is removed? */
static bool unwind_tables_have_room(const struct unwind_user_tables *tables,
				    const struct unwind_table *table,
				    const struct unwind_table *old)
{
	unsigned int nr = tables->nr + 1;
	u64 bytes = tables->bytes + table->bytes;

	if (old) {
		nr--;
		bytes -= old->bytes;
	}

	return nr <= UNWIND_TABLES_MAX && bytes <= UNWIND_TABLES_BYTES_MAX;
}

/* Remove the table for @file. */
static int unwind_tables_take_back(struct unwind_user_tables *tables,
				   const struct unwind_table_file *file)
{
	struct unwind_table *old;

	scoped_guard(mutex, &unwind_tables_mutex) {
		old = unwind_tables_of_file(tables, file);
		if (!old)
			return -ENOENT;

		unwind_table_unlink(old);
		list_del(&old->entry);
	}

	unwind_table_free(old);
	return 0;
}

/*
 * Add @table and remove the set's old table for the same file. If the set is full,
 * remove the least recently used tables, but only one at a time under the mutex, so
 * that others do not wait for the search for all of them.
 */
static void unwind_tables_put_in(struct unwind_user_tables *tables,
				 struct unwind_table *table)
{
	struct unwind_table *old;
	bool done;

	do {
		scoped_guard(mutex, &unwind_tables_mutex) {
			old = unwind_tables_of_file(tables, &table->file);
			done = unwind_tables_have_room(tables, table, old);
			/* The set has other tables, or there would be room. */
			if (!done)
				old = unwind_tables_oldest(tables, old, NULL);

			if (done)
				unwind_table_link(table, tables);
			if (old) {
				unwind_table_unlink(old);
				list_del(&old->entry);
			}
		}

		if (old)
			unwind_table_free(old);
		cond_resched();
	} while (!done);
}

/**
 * unwind_user_tables_supply - Supply a table for a file
 * @tables:	The set that gets the table
 * @desc:	The table
 *
 * Replaces the set's table for the file. If there is no room, the least recently used
 * tables are removed first. On failure the old table remains, unless it was removed
 * to make room. The table should be for the present contents of the file; after a
 * change of the file it is not used.
 *
 * Context: System call. No lock is held, because this reads the file and user memory
 *	    and may take long. Sleeps.
 * Return:
 * * 0		- The table serves walks from now on, or has been removed
 * * -EBADF	- The file is not open for reading
 * * -EINVAL	- The file is not a regular file; @desc->vaddr is not a user address;
 *		  or the table is corrupt or of an unsupported kind
 * * -ENOEXEC	- The file is not a 64-bit ELF file for this machine
 * * -EFBIG	- The table is longer than %UNWIND_TABLE_SIZE_MAX
 * * -EFAULT	- The table cannot be read
 * * -EPERM	- The table needs more memory than may be locked, even if it were the
 *		  only one of the set
 * * -ENOENT	- There is no table to remove
 * * -ENOMEM	- Memory is lacking
 * * -EINTR	- The task is being killed
 */
int unwind_user_tables_supply(struct unwind_user_tables *tables,
			      const struct unwind_user_table_desc *desc)
{
	struct unwind_elf_texts texts;
	struct unwind_table_file file;
	struct unwind_table *table;
	struct ucounts *ucounts;
	struct inode *inode;
	int ret;

	inode = d_real_inode(file_dentry(desc->file));
	if (!S_ISREG(inode->i_mode))
		return -EINVAL;

	unwind_table_file_init(&file, inode);
	if (!desc->size)
		return unwind_tables_take_back(tables, &file);

	if (!(desc->file->f_mode & FMODE_READ))
		return -EBADF;
	if (desc->size > UNWIND_TABLE_SIZE_MAX)
		return -EFBIG;
	if (desc->vaddr >= TASK_SIZE_MAX)
		return -EINVAL;

	ret = unwind_user_check_file(desc->file, &texts);
	if (ret)
		return ret;

	ret = unwind_table_lock(tables, desc, &ucounts);
	if (ret)
		return ret;

	ret = unwind_table_copy(&table, desc);
	if (ret) {
		unwind_table_unlock(desc->size, ucounts);
		/* The caller gets one error for all other flaws of the table. */
		return ret == -EOPNOTSUPP ? -EINVAL : ret;
	}

	/* As it was at the start: the file may have been written to meanwhile. */
	table->file = file;
	table->texts = texts;
	table->ucounts = ucounts;
	unwind_tables_put_in(tables, table);

	return 0;
}

static void unwind_table_show(const struct unwind_table *table, struct seq_file *m)
{
	const struct unwind_table_file *file = &table->file;
	unsigned long idle = jiffies - READ_ONCE(table->used);

	seq_printf(m, "unwind_table:\t%02x:%02x %llu %u %lu %s\n",
		   MAJOR(file->dev), MINOR(file->dev), file->ino, table->bytes,
		   idle / HZ, table->global ? "all" : "own");
}

/**
 * unwind_user_tables_show - Show what a set contains
 * @tables:	The set, or NULL
 * @m:		Where to show it
 *
 * Context: Process context. Sleeps.
 */
void unwind_user_tables_show(struct unwind_user_tables *tables, struct seq_file *m)
{
	const struct unwind_table *table;

	if (!tables) {
		seq_puts(m, "unwind_tables:\t0\nunwind_table_bytes:\t0\n");
		return;
	}

	guard(mutex)(&unwind_tables_mutex);

	seq_printf(m, "unwind_tables:\t%u\n", tables->nr);
	seq_printf(m, "unwind_table_bytes:\t%llu\n", tables->bytes);

	list_for_each_entry(table, &tables->tables, entry) {
		/* seq_file will call again with a larger buffer. */
		if (seq_has_overflowed(m))
			break;
		unwind_table_show(table, m);
	}
}
