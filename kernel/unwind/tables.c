// SPDX-License-Identifier: GPL-2.0
/*
 * Unwind tables that profilers supply for files
 *
 * Few programs have SFrame sections. A profiler can make one for any ELF file, from
 * what debuggers and exceptions need of it, and supply it here. It is copied and
 * checked once and serves all mappings of the file, of all processes, wherever they
 * have it: its addresses are those that the file was linked for.
 *
 *	perf event --> struct unwind_user_tables --> struct unwind_table, ...
 *	perf event -/	(owned by its events)	      :	(one for a file)
 *						      :
 *	walk -> mapping -> inode -> unwind_tables ----'
 *
 * What it is not: a way to learn what the program's memory holds. Rules from here
 * confine the walk, see kernel/unwind/user.c. Nor can a table do harm: it is in
 * memory of the kernel, but read by the same code as sections in user memory, which
 * trusts nothing.
 *
 * Whom it serves: all tasks, if who supplied it may profile all of them. Otherwise
 * the tasks to which one of the owning events is attached, children that inherit
 * the event included. Of several, one that serves all tasks is taken, then the
 * newest. Tables are found by whom they serve, too, so that a lookup does not take
 * longer for those that many users have supplied for a common file. That one which
 * serves all tasks has changed costs each profiled task a lookup for each mapping that
 * it is in. Changes of the others, for which nobody needs a privilege, cost that only
 * tasks which have events of their own; not those that are profiled with their CPU.
 *
 * Which file: the inode that the mapping has, which is that of the file with the
 * data where an overlay is in between. The path is held, hence the inode stays in
 * memory and its address is that of no other. Files that are written to after the
 * table was supplied have no table any more; that is found out when a mapping is
 * looked up. What tells is the modification time. The change time and the change
 * counter would miss less, but a file that is renamed or deleted has new ones, too,
 * as when a package is upgraded, and is still mapped.
 *
 * Lifetime
 * --------
 *
 * Walks come across tables in two places. A task that looks a mapping up finds the
 * table and remembers its address, without a reference. Later it looks up rules
 * there, if unwind_tables_seq is what it was before the table was found:
 *
 *   walk				remove
 *
 *   rcu_read_lock()			unlink
 *   LOAD sequence numbers	(A)	STORE one of them + 1	(B)
 *   same: use the table		call_rcu(free)
 *   rcu_read_unlock()
 *
 * Either the walk is in front of the grace period, which waits for it, or it is
 * behind B and A sees that. Rules are looked up in memory that needs no fault, so the
 * walk does not sleep in between, and nobody who removes a table waits for a walk.
 *
 * Rules that tasks remember need no table. They are good while the numbers are what
 * they were; otherwise the mapping is looked up again, and the rules are still
 * good if that finds the same table. So they go with their table.
 *
 * ========================== =========================== =======================
 * field                      written by                  under
 * ========================== =========================== =======================
 * unwind_tables, and @node   supplying, replacing and    unwind_tables_mutex;
 *                            removing                    read under RCU
 * @entry, @nr, @bytes        the same                    unwind_tables_mutex
 * unwind_tables_seq          the same; an event becoming unwind_tables_mutex;
 *                            an owner of tables, or      read in walks, with
 *                            ceasing to be               nothing held
 * the rest of a table        supplying                   before it is linked
 * ========================== =========================== =======================
 *
 * All of them are system calls, and the last close of an event. Lookups are made
 * in task context, but what they do here works in any.
 */
#include <linux/array_size.h>
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/path.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/time64.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_rule.h>
#include <linux/unwind_user_tables.h>
#include <linux/user_namespace.h>

#include "sections.h"
#include "sframe.h"
#include "tables.h"

/* The largest table: that of half a GiB of text, about. */
#define UNWIND_TABLE_SIZE_MAX	SZ_64M

/* How many tables the owners of one set may have; a system has some thousand files. */
#define UNWIND_TABLES_MAX	8192

/* How long all of them may be. */
#define UNWIND_TABLES_BYTES_MAX	SZ_1G

#define UNWIND_TABLES_HASH_BITS	10

/* How many functions and rows are checked between chances for other tasks to run. */
#define UNWIND_TABLE_RESCHED	4096

/**
 * struct unwind_table - A table for a file
 * @node:	In unwind_tables, by unwind_table_key()
 * @entry:	In &unwind_user_tables.tables
 * @rcu:	To free it
 * @id:		Number; no number is used twice
 * @owner:	To whom it belongs
 * @global:	It serves all tasks
 * @path:	A reference to the file
 * @inode:	What has the data of the file
 * @size:	Its size, and
 * @modified:	when it was modified, in ns, when the table was supplied
 * @ucounts:	Whose locked memory it counts as; NULL if nobody's
 * @bytes:	Length of @data
 * @sframe:	The table, with @data as its bytes
 * @data:	What was supplied
 */
struct unwind_table {
	struct hlist_node		node;
	struct list_head		entry;
	struct rcu_head			rcu;
	u64				id;
	struct unwind_user_tables	*owner;
	bool				global;
	struct path			path;
	struct inode			*inode;
	loff_t				size;
	s64				modified;
	struct ucounts			*ucounts;
	u32				bytes;
	struct sframe_section		sframe;
	u8				data[];
};

/**
 * struct unwind_user_tables - Tables that events own together
 * @refs:	One for each event
 * @tables:	All of them
 * @nr:		How many
 * @bytes:	How long all of them are
 */
struct unwind_user_tables {
	refcount_t			refs;
	struct list_head		tables;
	unsigned int			nr;
	u64				bytes;
};

/* Protects the lists of tables; not held while anything is allocated or read. */
static DEFINE_MUTEX(unwind_tables_mutex);
static DEFINE_HASHTABLE(unwind_tables, UNWIND_TABLES_HASH_BITS);
static u64 unwind_tables_id;

struct unwind_tables_seq unwind_tables_seq __read_mostly = { .own = 1 };

/* Something is different from what walks may remember: a table, or whom it serves. */
static void unwind_tables_changed(const struct unwind_table *table)
{
	unsigned long *seq;

	lockdep_assert_held(&unwind_tables_mutex);

	seq = table->global ? &unwind_tables_seq.all : &unwind_tables_seq.own;
	/* B; and unwind_tables_current() relies on what was linked before. */
	smp_store_release(seq, *seq + 1);
}

/* ---- Walks ---------------------------------------------------------------- */

/**
 * unwind_tables_current - Get the generation of the tables that may serve current
 *
 * To be called before unwind_table_find(): then what changes meanwhile makes the
 * result outdated, rather than being missed.
 *
 * Context: Any.
 * Return: the number.
 */
struct unwind_tables_seq unwind_tables_current(void)
{
	struct unwind_tables_seq seq = {
		.all	= READ_ONCE(unwind_tables_seq.all),
		.own	= unwind_tables_own(),
	};

	/* What was linked before, as unwind_tables_changed() says, is found. */
	smp_rmb();
	return seq;
}

static s64 unwind_table_mtime(const struct inode *inode)
{
	struct timespec64 mtime = inode_get_mtime(inode);

	return timespec64_to_ns(&mtime);
}

/* Is the file what it was when the table was supplied? */
static bool unwind_table_fresh(const struct unwind_table *table)
{
	const struct inode *inode = table->inode;

	return i_size_read(inode) == table->size &&
	       unwind_table_mtime(inode) == table->modified;
}

/* Whose tasks alone it serves; NULL if all. */
static const struct unwind_user_tables *
unwind_table_only(const struct unwind_table *table)
{
	return table->global ? NULL : table->owner;
}

static unsigned long unwind_table_key(const struct inode *inode,
				      const struct unwind_user_tables *only)
{
	return (unsigned long)inode ^ (unsigned long)only;
}

/* The newest table for @inode that serves those of @only. */
static const struct unwind_table *
unwind_table_lookup(const struct inode *inode, const struct unwind_user_tables *only)
{
	const struct unwind_table *table;

	hash_for_each_possible_rcu(unwind_tables, table, node,
				   unwind_table_key(inode, only)) {
		if (table->inode == inode && unwind_table_only(table) == only &&
		    unwind_table_fresh(table))
			return table;
	}

	return NULL;
}

/**
 * struct unwind_table_search - For a table that serves current, but not all tasks
 * @inode:	For which file
 * @best:	The newest one so far, or NULL
 */
struct unwind_table_search {
	const struct inode		*inode;
	const struct unwind_table	*best;
};

static void unwind_table_try(const struct unwind_user_tables *tables, void *data)
{
	struct unwind_table_search *search = data;
	const struct unwind_table *table;

	table = unwind_table_lookup(search->inode, tables);
	if (table && (!search->best || table->id > search->best->id))
		search->best = table;
}

/**
 * unwind_table_find - Find the table that serves current for a file
 * @inode:	The file's inode, to which the caller has a reference
 * @seq:	From unwind_tables_current(), in front of this
 * @ref:	Receives the table; NULL if there is none
 *
 * Context: Any.
 */
void unwind_table_find(const struct inode *inode, const struct unwind_tables_seq *seq,
		       struct unwind_table_ref *ref)
{
	struct unwind_table_search search = { .inode = inode };

	*ref = (struct unwind_table_ref) { };

	guard(rcu)();

	search.best = unwind_table_lookup(inode, NULL);
	/* Events that it has only now are looked at the next time. */
	if (!search.best && seq->own)
		perf_event_visit_unwind_tables(unwind_table_try, &search);

	if (search.best) {
		ref->table = search.best;
		ref->id = search.best->id;
	}
}

/**
 * unwind_table_find_rule - Look up the rule for an address
 * @table:	From unwind_table_find()
 * @seq:	From unwind_tables_current(), in front of that
 * @vaddr:	Address in the file's space
 * @rule:	Receives the rule; undefined on error
 *
 * Context: Task context of a user task. Does not sleep.
 * Return: -ESTALE if the table may have gone. Otherwise as sframe_find_rule().
 */
int unwind_table_find_rule(const struct unwind_table *table,
			   const struct unwind_tables_seq *seq, u64 vaddr,
			   struct unwind_user_rule *rule)
{
	guard(rcu)();

	/* A */
	if (!unwind_tables_unchanged(seq))
		return -ESTALE;

	return sframe_find_rule(&table->sframe, vaddr, rule);
}

/* ---- Owners --------------------------------------------------------------- */

static void unwind_table_free_rcu(struct rcu_head *rcu)
{
	kvfree(container_of(rcu, struct unwind_table, rcu));
}

/*
 * The user's memory, not the process': the event keeps it when the process that made it
 * is gone. Where there is no limit it does not count, so that others of the user have
 * theirs.
 */
static int unwind_table_lock(u32 bytes, struct ucounts **ucounts)
{
	*ucounts = NULL;
	if (!perf_is_paranoid() || ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
		return 0;
	if (!user_shm_lock(struct_size_t(struct unwind_table, data, bytes),
			   current_ucounts()))
		return -EPERM;

	*ucounts = current_ucounts();
	return 0;
}

static void unwind_table_unlock(u32 bytes, struct ucounts *ucounts)
{
	if (ucounts)
		user_shm_unlock(struct_size_t(struct unwind_table, data, bytes), ucounts);
}

/*
 * It can be reached no more, but walks may be using it. What is not counted any more
 * should not stay for long.
 */
static void unwind_table_free(struct unwind_table *table)
{
	unwind_table_unlock(table->bytes, table->ucounts);
	path_put(&table->path);
	call_rcu_hurry(&table->rcu, unwind_table_free_rcu);
}

static void unwind_table_link(struct unwind_table *table,
			      struct unwind_user_tables *tables)
{
	lockdep_assert_held(&unwind_tables_mutex);

	table->id = ++unwind_tables_id;
	table->owner = tables;
	list_add(&table->entry, &tables->tables);
	/* In front: the newest is found first. */
	hash_add_rcu(unwind_tables, &table->node,
		     unwind_table_key(table->inode, unwind_table_only(table)));
	tables->nr++;
	tables->bytes += table->bytes;
	unwind_tables_changed(table);
}

/* It stays on the list of its owner. */
static void unwind_table_unlink(struct unwind_table *table)
{
	lockdep_assert_held(&unwind_tables_mutex);

	hash_del_rcu(&table->node);
	table->owner->nr--;
	table->owner->bytes -= table->bytes;
	unwind_tables_changed(table);
}

/* Which tasks @tables serve is different, unless they serve all. */
static void unwind_tables_owners_changed(const struct unwind_user_tables *tables)
{
	const struct unwind_table *table;

	list_for_each_entry(table, &tables->tables, entry) {
		if (!table->global) {
			unwind_tables_changed(table);
			break;
		}
	}
}

/**
 * unwind_user_tables_alloc - Make an empty set of tables
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
 * @tables:	A set of tables that the caller has a reference to
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
 * unwind_user_tables_put - An event does not own the tables any more
 * @tables:	The set, or NULL. perf_event_visit_unwind_tables() does not find it
 *		by that event any more.
 *
 * If no event owns them the tables go. No walk that begins after this returns uses
 * one that does not serve it.
 *
 * Context: Process context. Sleeps, but does not wait for walks.
 */
void unwind_user_tables_put(struct unwind_user_tables *tables)
{
	struct unwind_table *table, *next;
	bool last;

	if (!tables)
		return;

	scoped_guard(mutex, &unwind_tables_mutex) {
		/* Under the mutex: without a reference it may be gone at any time. */
		last = refcount_dec_and_test(&tables->refs);
		if (last) {
			list_for_each_entry(table, &tables->tables, entry)
				unwind_table_unlink(table);
		} else {
			unwind_tables_owners_changed(tables);
		}
	}

	if (!last)
		return;

	list_for_each_entry_safe(table, next, &tables->tables, entry) {
		unwind_table_free(table);
		/* Each may be the last reference to a deleted file. */
		cond_resched();
	}

	/* Walks have its address, but do not look at what is there. */
	kfree(tables);
}

/**
 * unwind_user_tables_owned - An event has become an owner
 * @tables:	Of these tables
 *
 * Tasks that it is attached to may be served by more tables than before.
 *
 * Context: Process context. Sleeps.
 */
void unwind_user_tables_owned(const struct unwind_user_tables *tables)
{
	guard(mutex)(&unwind_tables_mutex);

	unwind_tables_owners_changed(tables);
}

/* Is it a table, from the first byte to the last? */
static int unwind_table_check(const struct sframe_section *sframe)
{
	struct sframe_check check = { };
	u64 done, last = 0;
	int ret;

	/* Functions may share rows, but not so many that this takes for ever. */
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

/* Copy the table. The caller has paid for it. */
static int unwind_table_copy(struct unwind_table **out,
			     const struct unwind_user_table_desc *desc)
{
	struct unwind_table *table;
	int ret;

	/* It may be large, and the stacks of others are not worth killing for. */
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

static struct unwind_table *
unwind_tables_of_inode(const struct unwind_user_tables *tables,
		       const struct inode *inode)
{
	const struct unwind_user_tables *only[] = { NULL, tables };
	struct unwind_table *table;
	unsigned int i;

	lockdep_assert_held(&unwind_tables_mutex);

	for (i = 0; i < ARRAY_SIZE(only); i++) {
		hash_for_each_possible(unwind_tables, table, node,
				       unwind_table_key(inode, only[i])) {
			if (table->owner == tables && table->inode == inode)
				return table;
		}
	}

	return NULL;
}

/* Is there room for @table, when @old, if any, goes? */
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

/* Put @table, if there is one, in the place of what there is for @inode. */
static int unwind_tables_replace(struct unwind_user_tables *tables,
				 const struct inode *inode,
				 struct unwind_table *table)
{
	struct unwind_table *old;

	scoped_guard(mutex, &unwind_tables_mutex) {
		old = unwind_tables_of_inode(tables, inode);
		if (!table && !old)
			return -ENOENT;
		if (table && !unwind_tables_have_room(tables, table, old))
			return -ENOSPC;

		if (table)
			unwind_table_link(table, tables);
		if (old) {
			unwind_table_unlink(old);
			list_del(&old->entry);
		}
	}

	if (old)
		unwind_table_free(old);

	return 0;
}

/**
 * unwind_user_tables_supply - Supply a table for a file
 * @tables:	The set that gets it
 * @desc:	The table
 *
 * In place of what the set has for the file, unless that fails. The table should
 * be that of the file as it is now; when the file changes it is of no use any more.
 *
 * Context: System call. No lock is held: this reads the file and user memory, and
 *	    takes its time. Sleeps.
 * Return:
 * * 0		- It serves walks from now on, or does not any more
 * * -EBADF	- The file is not open for reading
 * * -EINVAL	- The file is not a regular one; @desc->vaddr is no address of a
 *		  program; or the table is corrupt or of a kind that is not supported
 * * -ENOEXEC	- The file is no 64-bit ELF file for this machine
 * * -EFBIG	- The table is longer than %UNWIND_TABLE_SIZE_MAX
 * * -EFAULT	- The table cannot be read
 * * -EPERM	- It would take more memory than may be locked
 * * -ENOSPC	- The set is full
 * * -ENOENT	- There is nothing to take back
 * * -ENOMEM	- Memory is lacking
 * * -EINTR	- The task is being killed
 */
int unwind_user_tables_supply(struct unwind_user_tables *tables,
			      const struct unwind_user_table_desc *desc)
{
	struct unwind_table *table;
	struct ucounts *ucounts;
	struct inode *inode;
	int ret;

	inode = d_real_inode(file_dentry(desc->file));
	if (!S_ISREG(inode->i_mode))
		return -EINVAL;

	if (!desc->size)
		return unwind_tables_replace(tables, inode, NULL);

	if (!(desc->file->f_mode & FMODE_READ))
		return -EBADF;
	if (desc->size > UNWIND_TABLE_SIZE_MAX)
		return -EFBIG;
	if (desc->vaddr >= TASK_SIZE_MAX)
		return -EINVAL;

	ret = unwind_user_check_file(desc->file);
	if (ret)
		return ret;

	ret = unwind_table_lock(desc->size, &ucounts);
	if (ret)
		return ret;

	ret = unwind_table_copy(&table, desc);
	if (ret) {
		unwind_table_unlock(desc->size, ucounts);
		/* Which of its other reasons it was makes no difference to the caller. */
		return ret == -EOPNOTSUPP ? -EINVAL : ret;
	}

	table->ucounts	= ucounts;
	table->path	= desc->file->f_path;
	table->inode	= inode;
	table->size	= i_size_read(inode);
	table->modified	= unwind_table_mtime(inode);
	/* Not the file itself: one that is open for writing cannot be executed. */
	path_get(&table->path);

	ret = unwind_tables_replace(tables, inode, table);
	if (ret)
		unwind_table_free(table);

	return ret;
}

/**
 * unwind_user_tables_show - Show what a set holds
 * @tables:	The set, or NULL
 * @m:		Where
 *
 * Context: Process context. Sleeps.
 */
void unwind_user_tables_show(struct unwind_user_tables *tables, struct seq_file *m)
{
	unsigned int nr = 0;
	u64 bytes = 0;

	if (tables) {
		guard(mutex)(&unwind_tables_mutex);
		nr = tables->nr;
		bytes = tables->bytes;
	}

	seq_printf(m, "unwind_tables:\t%u\n", nr);
	seq_printf(m, "unwind_table_bytes:\t%llu\n", bytes);
}
