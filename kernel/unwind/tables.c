// SPDX-License-Identifier: GPL-2.0
/*
 * Unwind tables that profilers supply for files
 *
 * Few programs have SFrame sections. A profiler can make one for any ELF file, from
 * the data in the file that debuggers and exceptions use, and supply it here as a
 * table. It is copied and checked once. It serves all mappings of the file, in all
 * processes and at any address: its addresses are those that the file was linked
 * for.
 *
 *	perf event --> struct unwind_user_tables --> struct unwind_table, ...
 *	perf event -/	(owned by its events)	      :	(one for a file)
 *						      :
 *	walk -> mapping -> inode -> by_file ----------:
 *	walk -> number of a table -> by_id -----------'
 *
 * A supplier must not be able to read the memory of a program with a table. So a
 * walk that has used a rule of a table is confined to the stack, see
 * kernel/unwind/user.c. The table itself is not trusted: the same code reads it as
 * sections in user memory.
 *
 * Which tasks a table serves: all tasks, if its supplier may profile all of them and
 * requests that. Otherwise the tasks to which one of the owning events is attached,
 * including children that inherit the event. For an event of a CPU or a cgroup, the
 * tasks that walk on that CPU. If several tables serve a task, one that serves all
 * tasks is preferred, then the newest. The hash key includes the set (or none if the
 * table serves all tasks). So a lookup does not take longer if many users have supplied
 * tables for the same file.
 *
 * Which file a table is for: the one that struct unwind_table_file describes. Each
 * lookup of a mapping compares that with the mapping's inode. On an overlay, that is
 * the inode of the underlying file with the data.
 *
 * A table has no reference to inode, dentry or mount. So file systems can be
 * unmounted, and the space of deleted files is freed. A table whose file is gone
 * stays until its owner goes or room is needed. The address of an inode cannot
 * identify the file, because it is reused. Inode numbers are reused, too, but then
 * generation, modification time or size differ. The UUID of the file system tells
 * reused device numbers apart.
 *
 * If a file is written to after the table was supplied, it has no table any more:
 * the modification time shows it. The change time and the change counter would miss
 * fewer changes. But they also change when a file is renamed or deleted while it is
 * still mapped, for example in a package upgrade. A file that is made to look like
 * another one gets wrong stacks, nothing worse.
 *
 * Room
 * ----
 *
 * A full set loses its least recently used table. So does a set whose owner may not
 * lock more memory. @used is the time when a table was last found for a mapping, or
 * when a rule was last looked up in it. Rules that tasks remember do not update it.
 * Therefore each mapping is looked up again after UNWIND_TABLES_EPOCH. If @used is
 * older than that, no walk needs the table.
 *
 * Lifetime
 * --------
 *
 * Walks find tables in two steps. First, a task that looks a mapping up finds the
 * table and remembers its number, which is never used for another table. Later, the
 * task looks for a rule: it finds the table by its number, and the rule in the
 * table, under RCU. So a table that is found is not freed meanwhile. If the table is
 * gone, the number is not found, and the mapping is looked up anew. Changes of other
 * tables do not matter. Tables are in memory that never faults, so the walk does not
 * sleep in between, and a task that removes a table does not wait for walks.
 *
 * A remembered mapping is valid for a walk if the same tables serve the task as at the
 * lookup. To compare the tables, each set has a number that changes when
 * one of its tables comes or goes. All tables that serve all tasks share another
 * such number. When a walk begins, it folds the numbers that matter for the task
 * into one number, current->unwind_tables_seq. A lookup does the same and remembers
 * the result:
 *
 *   lookup				supply, remove
 *
 *   rcu_read_lock()			link, unlink
 *   LOAD the numbers		(A)	STORE a new number	(B)
 *   find the table
 *   rcu_read_unlock()
 *
 * If A sees B, the lookup finds a table that was linked and does not find a table
 * that was unlinked. If A does not see B, the number differs from that of the next
 * walk, whatever was found. An event that comes, goes or gets tables has the same
 * effect: its set is among the folded ones, or not. So changes of one user's tables
 * cost nothing for tasks that these tables do not serve.
 *
 * While all tables there are serve all tasks, the numbers of the sets do not matter, and
 * A does not load them. So for a task whose set has lost its tables, the number also
 * changes when anybody's first such table comes or the last one goes.
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
 * unwind_tables_own,         the same                    unwind_tables_mutex;
 * unwind_tables_global                                   read by any walk
 * @used                      supplying, and any walk     nothing: all writers
 *                                                        store the current time
 * the rest of a table        supplying                   before it is linked
 * current->unwind_tables_seq walks of the task           nothing: no other task
 *                                                        uses it
 * ========================== =========================== =======================
 *
 * System calls and the last close of an event make changes. Walks run in task
 * context, but their code here works in any context. A walk at hand in an interrupt
 * puts the number back that it has found, so the task does not see it.
 */
#include <linux/array_size.h>
#include <linux/cleanup.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/siphash.h>
#include <linux/time64.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_rule.h>
#include <linux/unwind_user_tables.h>

#include "sframe.h"
#include "subject.h"
#include "table_sets.h"
#include "tables.h"

#define UNWIND_TABLES_HASH_BITS	10

/* After this time, in jiffies, mappings are looked up again in any case. */
#define UNWIND_TABLES_EPOCH	(10 * HZ)

/*
 * A walk with page faults disabled, or of another task, uses tables of so many events of
 * the task, and of so many of the CPU. Any task can have many events, and this may be an
 * NMI, or a kernel thread that works for others, too.
 */
#define UNWIND_TABLES_EVENTS	128

/* Protects the lists of tables. Not held during allocations and reads. */
DEFINE_MUTEX(unwind_tables_mutex);
static DEFINE_HASHTABLE(unwind_tables_by_file, UNWIND_TABLES_HASH_BITS);
static DEFINE_HASHTABLE(unwind_tables_by_id, UNWIND_TABLES_HASH_BITS);

/* With it, nobody can choose tables that all are in one bucket. */
static siphash_key_t unwind_tables_secret __ro_after_init;

/* Sources of sets that serve current. Added under the mutex, read under RCU. */
static LIST_HEAD(unwind_tables_sources);

/* The last number that was given to a table or a change. */
static u64 unwind_tables_number;

/* As &unwind_user_tables.seq, for the tables that serve all tasks. */
static u64 unwind_tables_all;

/* Number of tables that do not serve all tasks. Written before B. */
static unsigned int unwind_tables_own;

/* Number of tables that do */
static unsigned int unwind_tables_global;

/* A table comes or goes: the tasks that it serves must look up mappings again. */
static void unwind_tables_changed(const struct unwind_table *table)
{
	u64 *seq = table->global ? &unwind_tables_all : &table->owner->seq;

	lockdep_assert_held(&unwind_tables_mutex);

	/* B */
	smp_store_release(seq, ++unwind_tables_number);
}

/**
 * unwind_table_file_init - Store the identity of a file
 * @file:	Receives it
 * @inode:	Inode of the file
 *
 * Context: Any.
 */
void unwind_table_file_init(struct unwind_table_file *file,
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

/* Are they the same file, even if it has been written to? */
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

/* Return the set of a table that serves only its tasks; NULL if it serves all tasks. */
static const struct unwind_user_tables *
unwind_table_only(const struct unwind_table *table)
{
	return table->global ? NULL : table->owner;
}

static u64 unwind_table_key(const struct unwind_table_file *file,
			    const struct unwind_user_tables *only)
{
	return siphash_3u64(file->ino, file->dev, (unsigned long)only, &unwind_tables_secret);
}

static u64 unwind_table_id_key(u64 id)
{
	return siphash_1u64(id, &unwind_tables_secret);
}

/* Find the newest table for @file that serves the tasks of @only, or all if NULL. */
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

/* Other CPUs do this, too: move the cache line at most once per tick. */
static void unwind_table_use(struct unwind_table *table)
{
	unsigned long now = jiffies;

	if (READ_ONCE(table->used) != now)
		WRITE_ONCE(table->used, now);
}

/**
 * struct unwind_tables_visit - State while visiting the sets that serve current
 * @file:	Find the table for this file, if not NULL
 * @best:	The best table so far, or NULL
 * @seq:	The numbers of the sets so far, folded
 */
struct unwind_tables_visit {
	const struct unwind_table_file	*file;
	struct unwind_table		*best;
	u64				seq;
};

/* With 64 bits, different numbers practically never fold to the same result. */
static void unwind_tables_fold(struct unwind_tables_visit *visit, u64 number)
{
	u64 seq = (visit->seq ^ number) * GOLDEN_RATIO_64;

	visit->seq = seq ^ seq >> 32;
}

/* Visit a set of tables that serve current, but not all tasks. */
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
	const struct unwind_user_tables_source *source;
	bool few = pagefault_disabled() || current->unwind_info.subject;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "tables may go");

	/* A */
	unwind_tables_fold(visit, smp_load_acquire(&unwind_tables_all));
	unwind_tables_fold(visit, jiffies / UNWIND_TABLES_EPOCH);

	if (visit->file)
		visit->best = unwind_table_lookup(visit->file, NULL);

	if (READ_ONCE(unwind_tables_own)) {
		list_for_each_entry_rcu(source, &unwind_tables_sources, entry)
			source->visit(unwind_user_task(),
				      few ? UNWIND_TABLES_EVENTS : UINT_MAX,
				      unwind_tables_visit_own, visit);
	}

	/* Perhaps during a walk: then the rest of it uses the newer tables. */
	current->unwind_tables_seq = visit->seq;
}

/**
 * unwind_tables_begin - Find out at the start of a walk which tables serve current
 *
 * If tables have come or gone since an earlier unwind_tables_current(), mappings that
 * were remembered with its result are outdated from here on.
 *
 * Context: Any, if current is a user task.
 */
void unwind_tables_begin(void)
{
	struct unwind_tables_visit visit = { };

	guard(rcu)();

	unwind_tables_visit(&visit);
}

/**
 * unwind_tables_switch - Find out at the start of a walk on top of another one which
 *			  tables serve current
 *
 * Context: Any, including NMI. The caller stays on this CPU until it has called
 *	    unwind_tables_switch_back().
 * Return: for unwind_tables_switch_back().
 */
u64 unwind_tables_switch(void)
{
	u64 seq = current->unwind_tables_seq;

	unwind_tables_begin();

	return seq;
}

/**
 * unwind_tables_switch_back - The interrupted walk goes on
 * @seq:	From unwind_tables_switch()
 */
void unwind_tables_switch_back(u64 seq)
{
	current->unwind_tables_seq = seq;
}

/**
 * unwind_table_find - Find the table that serves current for a file
 * @inode:	The file's inode; its memory stays
 *
 * Then unwind_tables_current() returns the number that the result is valid for.
 *
 * Context: Any, if current is a user task.
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

/* Under RCU */
static struct unwind_table *unwind_table_of_id(u64 id)
{
	struct unwind_table *table;

	hash_for_each_possible_rcu(unwind_tables_by_id, table, by_id,
				   unwind_table_id_key(id)) {
		if (table->id == id)
			return table;
	}

	return NULL;
}

/**
 * unwind_table_find_rule - Look up the rule for an address
 * @id:		From unwind_table_find()
 * @vaddr:	Address in the address space of the file's program headers
 * @rule:	Receives the rule; undefined on error
 *
 * Context: Any.
 * Return: -ESTALE if the table has gone, otherwise as sframe_find_rule().
 */
int unwind_table_find_rule(u64 id, u64 vaddr, struct unwind_user_rule *rule)
{
	struct unwind_table *table;

	guard(rcu)();

	table = unwind_table_of_id(id);
	if (!table)
		return -ESTALE;

	unwind_table_use(table);
	return sframe_find_rule(&table->sframe, vaddr, rule);
}

/**
 * unwind_table_find_rule_within - Look up the rule for an address, with a limit
 * @id:		As for unwind_table_find_rule()
 * @vaddr:	As for unwind_table_find_rule()
 * @rule:	As for unwind_table_find_rule()
 * @budget:	As for sframe_find_rule_within()
 *
 * Context: Any, including NMI.
 * Return: -E2BIG if @budget is too small, otherwise as unwind_table_find_rule().
 */
int unwind_table_find_rule_within(u64 id, u64 vaddr, struct unwind_user_rule *rule,
				  u32 *budget)
{
	struct unwind_table *table;

	guard(rcu)();

	table = unwind_table_of_id(id);
	if (!table)
		return -ESTALE;

	unwind_table_use(table);
	return sframe_find_rule_within(&table->sframe, vaddr, rule, budget);
}

/**
 * unwind_table_load_base - Where is address 0 of a table's file that is mapped?
 * @id:		From unwind_table_find()
 * @start:	As for unwind_elf_load_base()
 * @off:	As for unwind_elf_load_base()
 * @load_base:	As for unwind_elf_load_base()
 *
 * Context: Any, including NMI.
 * Return: false if the table has gone, otherwise as unwind_elf_load_base().
 */
bool unwind_table_load_base(u64 id, unsigned long start, u64 off, unsigned long *load_base)
{
	const struct unwind_table *table;

	guard(rcu)();

	table = unwind_table_of_id(id);
	return table && unwind_elf_load_base(&table->texts, start, off, load_base);
}

/**
 * unwind_tables_exist - Are there any tables?
 *
 * Context: Any.
 * Return: false if there are none, for any task.
 */
bool unwind_tables_exist(void)
{
	return READ_ONCE(unwind_tables_global) || READ_ONCE(unwind_tables_own);
}

/**
 * unwind_user_tables_add_source - Add a source of sets that serve tasks
 * @source:	The source, which is never removed
 *
 * Context: Process context.
 */
void unwind_user_tables_add_source(struct unwind_user_tables_source *source)
{
	guard(mutex)(&unwind_tables_mutex);

	list_add_tail_rcu(&source->entry, &unwind_tables_sources);
}

/**
 * unwind_table_link - Let walks find a table
 * @table:	The table
 * @tables:	The set that it belongs to from now on
 *
 * Context: Under unwind_tables_mutex.
 */
void unwind_table_link(struct unwind_table *table,
		       struct unwind_user_tables *tables)
{
	lockdep_assert_held(&unwind_tables_mutex);

	table->id = ++unwind_tables_number;
	table->owner = tables;
	table->used = jiffies;
	list_add(&table->entry, &tables->tables);
	hash_add_rcu(unwind_tables_by_id, &table->by_id, unwind_table_id_key(table->id));
	/* At the head, so that the newest table is found first. */
	hash_add_rcu(unwind_tables_by_file, &table->by_file,
		     unwind_table_key(&table->file, unwind_table_only(table)));
	tables->nr++;
	tables->bytes += table->bytes;
	WRITE_ONCE(unwind_tables_own, unwind_tables_own + !table->global);
	WRITE_ONCE(unwind_tables_global, unwind_tables_global + table->global);
	unwind_tables_changed(table);
}

/**
 * unwind_table_unlink - Stop walks from finding a table
 * @table:	The table; it remains on the list of its set
 *
 * Context: Under unwind_tables_mutex.
 */
void unwind_table_unlink(struct unwind_table *table)
{
	lockdep_assert_held(&unwind_tables_mutex);

	hash_del_rcu(&table->by_file);
	hash_del_rcu(&table->by_id);
	table->owner->nr--;
	table->owner->bytes -= table->bytes;
	WRITE_ONCE(unwind_tables_own, unwind_tables_own - !table->global);
	WRITE_ONCE(unwind_tables_global, unwind_tables_global - table->global);
	unwind_tables_changed(table);
}

/**
 * unwind_tables_oldest - Find the least recently used table of a set
 * @tables:	The set to search
 * @except:	A table to skip, or NULL
 * @ucounts:	If not NULL, only consider tables that count as this user's memory
 *
 * Context: Under unwind_tables_mutex.
 * Return: the table, the earliest supplied of several; NULL if there is none.
 */
struct unwind_table *
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

/**
 * unwind_tables_of_file - Find the table that a set has for a file
 * @tables:	The set
 * @file:	The file, even if it has been written to since
 *
 * Context: Under unwind_tables_mutex.
 * Return: the table, or NULL.
 */
struct unwind_table *
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

/* No program can have supplied a table before. */
static int __init unwind_tables_init(void)
{
	get_random_bytes(&unwind_tables_secret, sizeof(unwind_tables_secret));
	return 0;
}
late_initcall(unwind_tables_init);
