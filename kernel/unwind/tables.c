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
 *	walk -> mapping -> inode -> by_file ----------:
 *	walk -> number of a table -> by_id -----------'
 *
 * What it is not: a way to learn what the program's memory holds. Rules from here
 * confine the walk, see kernel/unwind/user.c. Nor can a table do harm: it is in
 * memory of the kernel, but read by the same code as sections in user memory, which
 * trusts nothing.
 *
 * Whom it serves: all tasks, if who supplied it may profile all of them and says so.
 * Otherwise the tasks to which one of the owning events is attached, children that
 * inherit the event included; for an event of a CPU or a cgroup, the tasks that walk
 * on that CPU. Of several, one that serves all tasks is taken, then the newest. Tables
 * are found by whom they serve, too, so that a lookup does not take longer for those
 * that many users have supplied for a common file.
 *
 * Which file: the one that struct unwind_table_file describes. That is compared with
 * the inode of the mapping, which is that of the file with the data where an overlay
 * is in between, at each lookup of a mapping. A table has no reference to inode,
 * dentry or mount: file systems can be unmounted, and what deleted files occupied is
 * free. So the table of a file that nobody has any more stays until its owner goes or
 * room is needed. Its address could not tell: that of an inode is used again. Inode
 * numbers are used again as well; generation, modification time and size differ then,
 * and device numbers are told apart by the UUID of the file system. Files that are
 * written to after the table was supplied have no table any more; the modification
 * time tells. The change time and the change counter would miss less, but a file that
 * is renamed or deleted has new ones, too, as when a package is upgraded, and is still
 * mapped. A file that is made to look like another one gets wrong stacks, no more.
 *
 * Room
 * ----
 *
 * A set that is full loses the table that was not used for longest, and so does one
 * whose owner may not lock more memory. @used says when a table was: when it was found
 * for a mapping, or a rule was looked up in it. Rules that tasks remember do without,
 * so every mapping is looked up again from time to time: @used is older than that,
 * UNWIND_TABLES_EPOCH, only for tables that no walk needs.
 *
 * Lifetime
 * --------
 *
 * Walks come across tables in two steps. A task that looks a mapping up finds the
 * table and remembers its number, which no other table ever has. Later it looks for
 * rules: by the number for the table, and there for the rule, under RCU. So a table
 * that is found is not freed meanwhile, and one that has gone is not found; then the
 * mapping is looked up anew. Changes of other tables make no difference. Rules are in
 * memory that needs no fault, so the walk does not sleep in between, and nobody who
 * removes a table waits for a walk.
 *
 * What is remembered of a mapping holds for a walk if the task is served by the same
 * tables as at the lookup. To compare that, each set has a number that is new when one
 * of its tables comes or goes, and so have the tables that serve all tasks together.
 * When a walk begins it folds those that matter for the task into one number,
 * current->unwind_tables_seq. A lookup does the same and remembers the result:
 *
 *   lookup				supply, remove
 *
 *   rcu_read_lock()			link, unlink
 *   LOAD the numbers		(A)	STORE a new number	(B)
 *   find the table
 *   rcu_read_unlock()
 *
 * If A sees B, the table that was linked is found, and the one that was unlinked is
 * not. If not, the number differs from that of the next walk, whatever was found. An
 * event that comes or goes, or gets tables, shows in the same way: its set is among
 * those that are folded, or not. So nobody's changes cost others anything who are not
 * served by his tables.
 *
 * ========================== =========================== =======================
 * field                      written by                  under
 * ========================== =========================== =======================
 * unwind_tables_by_file,     supplying, replacing,       unwind_tables_mutex;
 * unwind_tables_by_id,       evicting and removing       read under RCU
 * @by_file and @by_id
 * @entry, @nr, @bytes        the same                    unwind_tables_mutex
 * unwind_tables_all, @seq    the same                    unwind_tables_mutex;
 *                                                        read under RCU
 * @used                      supplying, and any walk     nothing: it is a time,
 *                                                        and either is recent
 * the rest of a table        supplying                   before it is linked
 * current->unwind_tables_seq walks of the task           nothing: no other task
 *                                                        uses it
 * ========================== =========================== =======================
 *
 * Changes are made by system calls and by the last close of an event. Walks are made
 * in task context. What they do here works in any: an interrupt that walks as well
 * between two instructions leaves a number that is newer than the one that the task
 * has computed or is about to write, and either is of this walk.
 */
#include <linux/array_size.h>
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/jiffies.h>
#include <linux/kdev_t.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
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
#include <linux/uuid.h>

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

/* After how long, in jiffies, mappings are looked up again in any case. */
#define UNWIND_TABLES_EPOCH	(10 * HZ)

/**
 * struct unwind_table_file - What a file is known by
 * @uuid:	Of its file system; zero if it has none
 * @ino:	Number of its inode
 * @dev:	Device of its file system
 * @generation:	Of its inode; 0 if the file system does not have that
 * @size:	Its length in bytes
 * @modified:	When it was modified, in ns
 *
 * The last two are those of its contents, the others stay.
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
 * @id:		Number; no number is used twice
 * @owner:	To whom it belongs
 * @global:	It serves all tasks
 * @file:	The file, as it was when the table was supplied
 * @used:	When a walk used it, or it was supplied, in jiffies
 * @ucounts:	Whose locked memory it counts as; NULL if nobody's
 * @bytes:	Length of @data
 * @sframe:	The table, with @data as its bytes
 * @data:	What was supplied
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
	unsigned long			used;
	struct ucounts			*ucounts;
	u32				bytes;
	struct sframe_section		sframe;
	u8				data[];
};

/**
 * struct unwind_user_tables - Tables that events own together
 * @refs:	One for each event
 * @rcu:	To free it
 * @seq:	New when a table that does not serve all tasks comes or goes; 0 as
 *		long as there was none
 * @tables:	All of them
 * @nr:		How many
 * @bytes:	How long all of them are
 */
struct unwind_user_tables {
	refcount_t			refs;
	struct rcu_head			rcu;
	u64				seq;
	struct list_head		tables;
	unsigned int			nr;
	u64				bytes;
};

/* Protects the lists of tables; not held while anything is allocated or read. */
static DEFINE_MUTEX(unwind_tables_mutex);
static DEFINE_HASHTABLE(unwind_tables_by_file, UNWIND_TABLES_HASH_BITS);
static DEFINE_HASHTABLE(unwind_tables_by_id, UNWIND_TABLES_HASH_BITS);

/* The last number that was given out, to a table or a change. */
static u64 unwind_tables_number;

/* As &unwind_user_tables.seq, for the tables that serve all tasks. */
static u64 unwind_tables_all;

/* Something is different from what walks may remember. */
static void unwind_tables_changed(const struct unwind_table *table)
{
	u64 *seq = table->global ? &unwind_tables_all : &table->owner->seq;

	lockdep_assert_held(&unwind_tables_mutex);

	/* B */
	smp_store_release(seq, ++unwind_tables_number);
}

/* ---- Walks ---------------------------------------------------------------- */

static void unwind_table_file_init(struct unwind_table_file *file,
				   const struct inode *inode)
{
	struct timespec64 mtime = inode_get_mtime(inode);

	*file = (struct unwind_table_file) {
		.uuid		= inode->i_sb->s_uuid,
		.ino		= inode->i_ino,
		.dev		= inode->i_sb->s_dev,
		.generation	= inode->i_generation,
		.size		= i_size_read(inode),
		.modified	= timespec64_to_ns(&mtime),
	};
}

/* Are they one file, whatever has been written to it? */
static bool unwind_table_same_file(const struct unwind_table_file *a,
				   const struct unwind_table_file *b)
{
	return a->ino == b->ino && a->dev == b->dev &&
	       a->generation == b->generation && uuid_equal(&a->uuid, &b->uuid);
}

static bool unwind_table_same_contents(const struct unwind_table_file *a,
				       const struct unwind_table_file *b)
{
	return a->size == b->size && a->modified == b->modified;
}

/* Whose tasks alone it serves; NULL if all. */
static const struct unwind_user_tables *
unwind_table_only(const struct unwind_table *table)
{
	return table->global ? NULL : table->owner;
}

static u64 unwind_table_key(const struct unwind_table_file *file,
			    const struct unwind_user_tables *only)
{
	return hash_64(file->ino ^ (u64)file->dev << 32, 64) ^ (unsigned long)only;
}

/* The newest table for @file that serves those of @only. */
static struct unwind_table *
unwind_table_lookup(const struct unwind_table_file *file,
		    const struct unwind_user_tables *only)
{
	struct unwind_table *table;

	hash_for_each_possible_rcu(unwind_tables_by_file, table, by_file,
				   unwind_table_key(file, only)) {
		if (unwind_table_only(table) == only &&
		    unwind_table_same_file(&table->file, file) &&
		    unwind_table_same_contents(&table->file, file))
			return table;
	}

	return NULL;
}

/* Other CPUs may do so as well: at most once in a tick the cache line moves. */
static void unwind_table_use(struct unwind_table *table)
{
	unsigned long now = jiffies;

	if (READ_ONCE(table->used) != now)
		WRITE_ONCE(table->used, now);
}

/**
 * struct unwind_tables_visit - For what serves current
 * @file:	Find the table for this one, if not NULL
 * @best:	The best one so far, or NULL
 * @seq:	The numbers of sets so far, folded
 */
struct unwind_tables_visit {
	const struct unwind_table_file	*file;
	struct unwind_table		*best;
	u64				seq;
};

/* In 64 bits: different numbers do not make the same result. */
static void unwind_tables_fold(struct unwind_tables_visit *visit, u64 number)
{
	u64 seq = (visit->seq ^ number) * GOLDEN_RATIO_64;

	visit->seq = seq ^ seq >> 32;
}

/* Tables that serve current, but not all tasks. */
static void unwind_tables_visit_own(const struct unwind_user_tables *tables,
				    void *data)
{
	struct unwind_tables_visit *visit = data;
	struct unwind_table *table;
	u64 seq;

	/* A */
	seq = smp_load_acquire(&tables->seq);
	if (!seq)
		return;

	unwind_tables_fold(visit, seq);
	if (!visit->file || (visit->best && visit->best->global))
		return;

	table = unwind_table_lookup(visit->file, tables);
	if (table && (!visit->best || table->id > visit->best->id))
		visit->best = table;
}

static void unwind_tables_visit(struct unwind_tables_visit *visit)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "tables may go");

	/* A */
	unwind_tables_fold(visit, smp_load_acquire(&unwind_tables_all));
	unwind_tables_fold(visit, jiffies / UNWIND_TABLES_EPOCH);

	if (visit->file)
		visit->best = unwind_table_lookup(visit->file, NULL);

	perf_event_visit_unwind_tables(unwind_tables_visit_own, visit);

	/* Also in the midst of a walk: then the rest of it is by what is newer. */
	current->unwind_tables_seq = visit->seq;
}

/**
 * unwind_tables_begin - A walk begins: find out which tables serve current
 *
 * What was remembered by unwind_tables_current() before some of them have come or gone
 * is outdated from here on.
 *
 * Context: Task context of a user task.
 */
void unwind_tables_begin(void)
{
	struct unwind_tables_visit visit = { };

	guard(rcu)();

	unwind_tables_visit(&visit);
}

/**
 * unwind_table_find - Find the table that serves current for a file
 * @inode:	The file's inode, to which the caller has a reference
 *
 * unwind_tables_current() says after this what the result belongs to.
 *
 * Context: Task context of a user task.
 * Return: the number of the table, for unwind_table_find_rule(); 0 if there is none.
 */
u64 unwind_table_find(const struct inode *inode)
{
	struct unwind_table_file file;
	struct unwind_tables_visit visit = { .file = &file };

	unwind_table_file_init(&file, inode);

	guard(rcu)();

	unwind_tables_visit(&visit);
	if (!visit.best)
		return 0;

	unwind_table_use(visit.best);
	return visit.best->id;
}

/**
 * unwind_table_find_rule - Look up the rule for an address
 * @id:		From unwind_table_find()
 * @vaddr:	Address in the file's space
 * @rule:	Receives the rule; undefined on error
 *
 * Context: Any.
 * Return: -ESTALE if the table has gone. Otherwise as sframe_find_rule().
 */
int unwind_table_find_rule(u64 id, u64 vaddr, struct unwind_user_rule *rule)
{
	struct unwind_table *table;

	guard(rcu)();

	hash_for_each_possible_rcu(unwind_tables_by_id, table, by_id, id) {
		if (table->id == id) {
			unwind_table_use(table);
			return sframe_find_rule(&table->sframe, vaddr, rule);
		}
	}

	return -ESTALE;
}

/* ---- Owners --------------------------------------------------------------- */

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
 * It can be reached no more, but walks may be using it. What is not counted any more
 * should not stay for long.
 */
static void unwind_table_free(struct unwind_table *table)
{
	unwind_table_unlock(table->bytes, table->ucounts);
	call_rcu_hurry(&table->rcu, unwind_table_free_rcu);
}

static void unwind_table_link(struct unwind_table *table,
			      struct unwind_user_tables *tables)
{
	lockdep_assert_held(&unwind_tables_mutex);

	table->id = ++unwind_tables_number;
	table->owner = tables;
	table->used = jiffies;
	list_add(&table->entry, &tables->tables);
	hash_add_rcu(unwind_tables_by_id, &table->by_id, table->id);
	/* In front: the newest is found first. */
	hash_add_rcu(unwind_tables_by_file, &table->by_file,
		     unwind_table_key(&table->file, unwind_table_only(table)));
	tables->nr++;
	tables->bytes += table->bytes;
	unwind_tables_changed(table);
}

/* It stays on the list of its owner. */
static void unwind_table_unlink(struct unwind_table *table)
{
	lockdep_assert_held(&unwind_tables_mutex);

	hash_del_rcu(&table->by_file);
	hash_del_rcu(&table->by_id);
	table->owner->nr--;
	table->owner->bytes -= table->bytes;
	unwind_tables_changed(table);
}

/*
 * The table that was not used for longest, of several the one that is there for
 * longest. Not @except; if @ucounts is set, one that counts as that user's memory.
 */
static struct unwind_table *
unwind_tables_oldest(const struct unwind_user_tables *tables,
		     const struct unwind_table *except,
		     const struct ucounts *ucounts)
{
	struct unwind_table *table, *oldest = NULL;
	unsigned long used, since = 0;

	lockdep_assert_held(&unwind_tables_mutex);

	list_for_each_entry(table, &tables->tables, entry) {
		if (table == except || (ucounts && table->ucounts != ucounts))
			continue;

		used = READ_ONCE(table->used);
		if (!oldest || time_before_eq(used, since)) {
			oldest = table;
			since = used;
		}
	}

	return oldest;
}

static unsigned long unwind_table_pages(u32 bytes)
{
	return DIV_ROUND_UP(struct_size_t(struct unwind_table, data, bytes), PAGE_SIZE);
}

/* Would @pages more be allowed if @tables had none that count as this user's? */
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

/* Let the oldest of @tables go, if that helps to lock @pages more. */
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
 * The user's memory, not the process': the event keeps it when the process that made it
 * is gone. Where there is no limit it does not count, so that others of the user have
 * theirs.
 */
static int unwind_table_lock(struct unwind_user_tables *tables, u32 bytes,
			     struct ucounts **ucounts)
{
	const size_t size = struct_size_t(struct unwind_table, data, bytes);
	unsigned int tries = 0;

	*ucounts = NULL;
	if (!perf_is_paranoid() || ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
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

	/* Walks may be looking at its number. */
	kfree_rcu(tables, rcu);
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

/* What @tables have for @file, whatever has been written to it since. */
static struct unwind_table *
unwind_tables_of_file(const struct unwind_user_tables *tables,
		      const struct unwind_table_file *file)
{
	const struct unwind_user_tables *only[] = { NULL, tables };
	struct unwind_table *table;
	unsigned int i;

	lockdep_assert_held(&unwind_tables_mutex);

	for (i = 0; i < ARRAY_SIZE(only); i++) {
		hash_for_each_possible(unwind_tables_by_file, table, by_file,
				       unwind_table_key(file, only[i])) {
			if (table->owner == tables &&
			    unwind_table_same_file(&table->file, file))
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

/* Take back what there is for @file. */
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
 * Put @table in the place of what there is for its file. If the set is full, one that
 * was not used for long goes, at a time: nobody else waits for all of them to be found.
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
			/* Its table is not the only one, or there would be room. */
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
 * @tables:	The set that gets it
 * @desc:	The table
 *
 * In place of what the set has for the file, unless that fails, and of those that were
 * not used for longest if there is no room for it. The table should be that of the file
 * as it is now; when the file changes it is of no use any more.
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
 * * -EPERM	- It would take more memory than may be locked, were it the only one
 *		  of the set
 * * -ENOENT	- There is nothing to take back
 * * -ENOMEM	- Memory is lacking
 * * -EINTR	- The task is being killed
 */
int unwind_user_tables_supply(struct unwind_user_tables *tables,
			      const struct unwind_user_table_desc *desc)
{
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

	ret = unwind_user_check_file(desc->file);
	if (ret)
		return ret;

	ret = unwind_table_lock(tables, desc->size, &ucounts);
	if (ret)
		return ret;

	ret = unwind_table_copy(&table, desc);
	if (ret) {
		unwind_table_unlock(desc->size, ucounts);
		/* Which of its other reasons it was makes no difference to the caller. */
		return ret == -EOPNOTSUPP ? -EINVAL : ret;
	}

	/* As it was in the beginning: it may have been written to meanwhile. */
	table->file = file;
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
 * unwind_user_tables_show - Show what a set holds
 * @tables:	The set, or NULL
 * @m:		Where
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
		/* It will be shown again, in more memory. */
		if (seq_has_overflowed(m))
			break;
		unwind_table_show(table, m);
	}
}
