// SPDX-License-Identifier: GPL-2.0
/*
 * What the threads of a program remember of rules and regions
 *
 *   mm ----> unwind_user_shared --> cache:   address -> rule, number and place
 *   (once a walk has come through	       of its region
 *   code with section or table)   --> ranges:  number, start, end, state of the
 *				       mappings: is the rule valid now?
 *				   --> recent:  slots, to look up rules
 *
 * ============================ ======================== ==========================
 * field                        written by               under
 * ============================ ======================== ==========================
 * regions->memo                tasks of the mm, to set  cmpxchg; the old one is
 *                              the first one or to      freed after a grace period
 *                              grow
 *                              reclaim: xchg to NULL    the same
 * an entry of @cache           tasks of the mm          its sequence number, see
 *                                                       rule_cache.h
 * an entry of @ranges and      tasks of the mm          the entry's own sequence
 * @recent                                               number, in the same way
 * @next, @next_recent,         tasks of the mm          nothing: they only spread
 * @displaced, @outgrown                                 entries and count
 * ============================ ======================== ==========================
 *
 * All but @memo are also written in an IRQ or NMI of a task, by walks at hand. An IRQ or NMI on
 * top of a writer finds the sequence number of the entry odd: it does not read the entry, and
 * does not write it. On top of a reader it may write, and the reader notices. The reader
 * needs no lock: in these contexts the RCU read lock that keeps @shared is implied. Only a
 * task allocates more room: a walk at hand can only say that it is needed.
 */
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/container_of.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "found.h"
#include "regions.h"
#include "rule_cache.h"
#include "shared.h"

/*
 * Initial and largest number of regions that the threads of a program remember. Each
 * rule has a hint, the index of its region. There is one region for each mapping
 * that stacks lead through, and two more for each section that the program has
 * registered in the middle of a mapping.
 */
#define UNWIND_USER_RANGES	64
#define UNWIND_USER_RANGES_MAX	1024

/* Growth factor. The first region without room shows that the stacks need more. */
#define UNWIND_USER_RANGES_GROW	4

/*
 * Number of slots. They help to look up rules that are not remembered yet. There are
 * fewer slots than regions, because remembered rules need no lookup.
 */
#define UNWIND_USER_RECENT	8

/**
 * struct unwind_user_range - A region that rules were found for
 * @lock:	Sequence number of the entry; odd while it is being written
 * @start:	First byte of the region
 * @end:	First byte after it
 * @id:		Number of the region; 0 if the entry is unused. Parts of one mapping
 *		have the same number if a section was registered between them.
 * @seq:	As in &struct unwind_user_slot
 */
struct unwind_user_range {
	atomic_t			lock;
	unsigned long			start;
	unsigned long			end;
	u64				id;
	struct unwind_user_seq		seq;
};

/**
 * struct unwind_user_recent - A region that was looked up recently
 * @lock:	As in &struct unwind_user_range
 * @slot:	Copy of the region; its number is 0 if there is none
 */
struct unwind_user_recent {
	atomic_t			lock;
	struct unwind_user_slot		slot;
};

/**
 * struct unwind_user_shared - What the threads of a program remember of rules
 * @memo:	Link to this from the mm, see &unwind_user_regions.memo
 * @rcu:	To free it
 * @old_cache:	Free @cache with it
 * @old_ranges:	Free @ranges with it
 * @old_recent:	Free @recent with it
 * @cache:	Rules
 * @nr_ranges:	Number of @ranges
 * @next:	Range to replace next if all are in use
 * @next_recent: The same for @recent
 * @displaced:	Rules that were replaced by others, since @cache was made
 * @outgrown:	A region was replaced by another, since @ranges were made
 * @ranges:	Regions, to check whether rules are still valid
 * @recent:	Slots of some of the regions
 *
 * Read under RCU. To grow, it is replaced by a larger one.
 */
struct unwind_user_shared {
	struct unwind_regions_memo	memo;
	struct rcu_head			rcu;
	bool				old_cache;
	bool				old_ranges;
	bool				old_recent;
	struct unwind_rule_cache	cache;
	unsigned int			nr_ranges;
	unsigned int			next;
	unsigned int			next_recent;
	unsigned int			displaced;
	bool				outgrown;
	struct unwind_user_range	*ranges;
	struct unwind_user_recent	*recent;
};

/**
 * unwind_user_shared_get - Get what the threads of current's mm share
 *
 * Context: Any, under RCU.
 * Return: it, valid until the end of the RCU read section; NULL if there is nothing.
 */
struct unwind_user_shared *unwind_user_shared_get(void)
{
	struct unwind_regions_memo *memo = unwind_regions_memo();

	return memo ? container_of(memo, struct unwind_user_shared, memo) : NULL;
}

/**
 * unwind_user_shared_cache - Get the rules that threads share
 * @shared:	From unwind_user_shared_get(), not NULL
 *
 * Return: the rules, valid as long as @shared.
 */
const struct unwind_rule_cache *
unwind_user_shared_cache(const struct unwind_user_shared *shared)
{
	return &shared->cache;
}

/**
 * unwind_user_is_shared - Has a walk come through code with a section or table?
 *
 * Context: Any, if current is a user task.
 * Return: true if the program's threads share what they remember.
 */
bool unwind_user_is_shared(void)
{
	guard(rcu)();

	return unwind_user_shared_get();
}

static void unwind_user_shared_free_parts(const struct unwind_user_shared *shared)
{
	if (shared->old_cache)
		kvfree(shared->cache.sets);
	if (shared->old_ranges)
		kvfree(shared->ranges);
	if (shared->old_recent)
		kfree(shared->recent);
	kfree(shared);
}

static void unwind_user_shared_free_rcu(struct rcu_head *rcu)
{
	unwind_user_shared_free_parts(container_of(rcu, struct unwind_user_shared, rcu));
}

/* No walk can find it any more, but one may still be using it. */
static void unwind_user_shared_free(struct unwind_regions_memo *memo)
{
	struct unwind_user_shared *shared;

	shared = container_of(memo, struct unwind_user_shared, memo);
	shared->old_cache = true;
	shared->old_ranges = true;
	shared->old_recent = true;
	call_rcu(&shared->rcu, unwind_user_shared_free_rcu);
}

/*
 * Allocate one with @bits and @nr_ranges. Parts of @old whose size does not change
 * are taken over, if there is an @old.
 */
static struct unwind_user_shared *
unwind_user_shared_alloc(const struct unwind_user_shared *old, unsigned int bits,
			 unsigned int nr_ranges)
{
	struct unwind_user_shared *new = kzalloc(sizeof(*new), UNWIND_USER_GFP);

	if (!new)
		return NULL;

	if (old)
		*new = *old;

	new->memo.free	= unwind_user_shared_free;
	new->cache.bits	= bits;
	new->nr_ranges	= nr_ranges;
	new->displaced	= 0;
	new->outgrown	= false;
	new->old_cache	= !old || old->cache.bits != bits;
	new->old_ranges	= !old || old->nr_ranges != nr_ranges;
	new->old_recent	= !old;

	if (new->old_cache)
		new->cache.sets = kvzalloc(unwind_rule_cache_size(bits),
					   UNWIND_USER_GFP);
	if (new->old_ranges)
		new->ranges = kvcalloc(nr_ranges, sizeof(*new->ranges),
				       UNWIND_USER_GFP);
	if (new->old_recent)
		new->recent = kcalloc(UNWIND_USER_RECENT, sizeof(*new->recent),
				      UNWIND_USER_GFP);

	if (new->cache.sets && new->ranges && new->recent)
		return new;

	unwind_user_shared_free_parts(new);
	return NULL;
}

/**
 * unwind_user_shared_make - Let the threads of current's mm share what they remember
 *
 * If memory is lacking, nothing is remembered.
 *
 * Context: Task context of a user task.
 */
void unwind_user_shared_make(void)
{
	struct unwind_user_shared *new;

	if (unwind_user_is_shared())
		return;

	new = unwind_user_shared_alloc(NULL, UNWIND_RULE_CACHE_BITS,
				       UNWIND_USER_RANGES);
	if (!new)
		return;

	if (!unwind_regions_replace_memo(NULL, &new->memo))
		unwind_user_shared_free_parts(new);
}

/* Read a sequence number. It is odd while the entry is being written. */
static bool unwind_user_read_begin(const atomic_t *lock, int *seq)
{
	*seq = atomic_read(lock);
	/* Pairs with unwind_user_write_end(). */
	smp_rmb();
	return !(*seq & 1);
}

static bool unwind_user_read_end(const atomic_t *lock, int seq)
{
	/* Pairs with unwind_user_write_begin(), a full barrier. */
	smp_rmb();
	return atomic_read(lock) == seq;
}

/* Fails if there is another writer. */
static bool unwind_user_write_begin(atomic_t *lock)
{
	int seq = atomic_read(lock);

	return !(seq & 1) && atomic_cmpxchg(lock, seq, seq + 1) == seq;
}

static void unwind_user_write_end(atomic_t *lock)
{
	/* Pairs with unwind_user_read_begin(). */
	smp_wmb();
	atomic_set(lock, atomic_read(lock) + 1);
}

/*
 * Copy @range, which may be unused. Any context, including NMI.
 *
 * Return: false if the entry is being written.
 */
static bool unwind_user_range_read(const struct unwind_user_range *range,
				   struct unwind_user_range *copy)
{
	int seq;

	if (!unwind_user_read_begin(&range->lock, &seq))
		return false;

	/* unwind_user_read_end() notices a writer. */
	copy->start	= data_race(range->start);
	copy->end	= data_race(range->end);
	copy->id	= data_race(range->id);
	copy->seq	= data_race(range->seq);

	return unwind_user_read_end(&range->lock, seq);
}

static void unwind_user_range_write(struct unwind_user_range *range,
				    const struct unwind_user_region *region,
				    const struct unwind_user_seq *seq)
{
	if (!unwind_user_write_begin(&range->lock))
		return;

	range->start	= region->start;
	range->end	= region->end;
	range->id	= region->id;
	range->seq	= *seq;

	unwind_user_write_end(&range->lock);
}

/* Mappings or tables have changed. Is region @id still there, the same as before? */
static noinline bool unwind_user_range_renew(struct unwind_user_range *range, u64 id,
					     unsigned long pc,
					     const struct unwind_user_slot *slot,
					     unsigned int *lookups)
{
	struct unwind_user_slot found;
	int ret;

	/* A section that is dropped leaves slots as they are. */
	if (!slot || slot->region.has_sframe) {
		if (!*lookups)
			return false;

		ret = unwind_user_region_at_hand(pc, &found.region, &found.seq);
		*lookups = ret == -EBUSY ? 0 : *lookups - 1;
		if (ret)
			return false;
		slot = &found;
	}
	if (slot->region.id != id)
		return false;

	unwind_user_range_write(range, &slot->region, &slot->seq);
	return true;
}

/* Is a rule of region @id valid for @pc now? */
static bool unwind_user_range_covers(const struct unwind_user_shared *shared,
				     unsigned int nr, u64 id, unsigned long pc,
				     const struct unwind_user_slot *slot,
				     unsigned int *lookups)
{
	struct unwind_user_range range;

	if (nr >= shared->nr_ranges ||
	    !unwind_user_range_read(&shared->ranges[nr], &range) ||
	    range.id != id || pc < range.start || pc >= range.end)
		return false;

	return unwind_user_region_current(&range.seq) ||
	       unwind_user_range_renew(&shared->ranges[nr], id, pc, slot, lookups);
}

/**
 * unwind_user_shared_covers - Are the rules of a region valid now, and where?
 * @shared:	From unwind_user_shared_get()
 * @region:	&unwind_rule_entry.region of a rule
 * @start:	Receives the first byte of the region
 * @end:	Receives the first byte after it
 *
 * Context: Any, under RCU.
 * Return: false if the region may have changed since its rules were found.
 */
bool unwind_user_shared_covers(const struct unwind_user_shared *shared, u64 region,
			       unsigned long *start, unsigned long *end)
{
	struct unwind_user_range range;
	unsigned int nr = unwind_rule_hint(region);

	if (nr >= shared->nr_ranges ||
	    !unwind_user_range_read(&shared->ranges[nr], &range) ||
	    range.id != unwind_rule_region(region) ||
	    !unwind_user_region_current(&range.seq))
		return false;

	*start = range.start;
	*end = range.end;
	return true;
}

/*
 * Choose the range for a region. Preferred is the range that it already has, so that
 * the hints of its rules stay right. Next is a range of something that was mapped
 * there before, then an unused one. Otherwise it is the range that was taken longest
 * ago, and @displaced is set.
 */
static unsigned int unwind_user_find_range(struct unwind_user_shared *shared,
					   const struct unwind_user_region *region,
					   bool *displaced)
{
	unsigned int i, free = shared->nr_ranges;
	struct unwind_user_range range;

	*displaced = false;

	for (i = 0; i < shared->nr_ranges; i++) {
		if (!unwind_user_range_read(&shared->ranges[i], &range))
			continue;

		if (!range.id) {
			/*
			 * Ranges are used in order, so no used one follows. If the
			 * copy of this one failed, used ones do follow, but they
			 * are not found any more.
			 */
			return free < shared->nr_ranges ? free : i;
		}

		if (range.start != region->start || range.end != region->end)
			continue;

		if (range.id == region->id)
			return i;

		/* Memory without a file gets a new number at each lookup. */
		if (!unwind_user_mm_current(range.seq.mm))
			free = i;
	}

	if (free < shared->nr_ranges)
		return free;

	*displaced = true;
	i = READ_ONCE(shared->next);
	WRITE_ONCE(shared->next, i + 1);
	return i % shared->nr_ranges;
}

/**
 * unwind_user_shared_find - Find a remembered rule
 * @pc:		Address to look up
 * @key:	Key of the rule
 * @rule:	Receives the rule
 * @found:	Receives whether there is a rule
 * @slot:	The region that contains @pc, if the caller knows it; or NULL
 * @lookups:	How many regions may still be looked up; 0 if somebody holds their lock
 *
 * Context: Any, including NMI.
 * Return: false if nothing is remembered, or if it may not be valid any more.
 */
bool unwind_user_shared_find(unsigned long pc, u64 key, struct unwind_user_rule *rule,
			     bool *found, const struct unwind_user_slot *slot,
			     unsigned int *lookups)
{
	const struct unwind_user_shared *shared;
	struct unwind_rule_entry entry;

	guard(rcu)();

	shared = unwind_user_shared_get();

	/* Part of the region may have been registered since. */
	if (!shared || !unwind_rule_cache_find(&shared->cache, key, &entry) ||
	    !unwind_user_range_covers(shared, unwind_rule_cache_hint(&entry),
				      unwind_rule_cache_region(&entry), pc, slot,
				      lookups))
		return false;

	*found = unwind_rule_cache_get(&entry, rule);
	return true;
}

/* Once rules were displaced for an eighth of the entries, there should be more. */
static unsigned int unwind_user_shared_bits(const struct unwind_user_shared *shared)
{
	unsigned int bits = shared->cache.bits;

	return bits < UNWIND_RULE_CACHE_BITS_MAX &&
	       READ_ONCE(shared->displaced) > 1U << bits >> 2 ? bits + 1 : bits;
}

static unsigned int unwind_user_shared_ranges(const struct unwind_user_shared *shared)
{
	unsigned int nr = shared->nr_ranges;

	return nr < UNWIND_USER_RANGES_MAX && READ_ONCE(shared->outgrown) ?
	       nr * UNWIND_USER_RANGES_GROW : nr;
}

static bool unwind_user_shared_full(const struct unwind_user_shared *shared)
{
	return unwind_user_shared_bits(shared) > shared->cache.bits ||
	       unwind_user_shared_ranges(shared) > shared->nr_ranges;
}

/**
 * unwind_user_shared_grow - Make room for more rules and regions, if it is needed
 *
 * Replaces the shared memory of current's mm by a larger one. If memory is lacking, it stays.
 *
 * Context: Task context of a user task.
 */
void unwind_user_shared_grow(void)
{
	struct unwind_user_shared copy, *old, *new;
	unsigned int i, bits, nr_ranges;
	bool old_cache, old_ranges;

	scoped_guard(rcu) {
		old = unwind_user_shared_get();
		if (!old || !unwind_user_shared_full(old))
			return;
		/* Both can only say that more room is needed. */
		copy = data_race(*old);
	}

	bits = unwind_user_shared_bits(&copy);
	nr_ranges = unwind_user_shared_ranges(&copy);

	new = unwind_user_shared_alloc(&copy, bits, nr_ranges);
	if (!new)
		return;

	/* If @old is still in use here, it is not freed while it is copied. */
	rcu_read_lock();
	if (unwind_user_shared_get() != old ||
	    old->cache.sets != copy.cache.sets || old->cache.bits != copy.cache.bits ||
	    old->ranges != copy.ranges || old->nr_ranges != copy.nr_ranges ||
	    old->recent != copy.recent)
		goto raced;

	if (new->old_cache)
		unwind_rule_cache_copy(&new->cache, &old->cache);
	for (i = 0; new->old_ranges && i < old->nr_ranges; i++) {
		if (!unwind_user_range_read(&old->ranges[i], &new->ranges[i]))
			new->ranges[i].id = 0;
	}

	/* As soon as others find @new, they write to it and may free it. */
	old_cache = new->old_cache;
	old_ranges = new->old_ranges;
	if (!unwind_regions_replace_memo(&old->memo, &new->memo))
		goto raced;
	rcu_read_unlock();

	/* @new uses the rest of it. */
	old->old_cache = old_cache;
	old->old_ranges = old_ranges;
	old->old_recent = false;
	call_rcu(&old->rcu, unwind_user_shared_free_rcu);
	return;
raced:
	rcu_read_unlock();
	unwind_user_shared_free_parts(new);
}

/**
 * unwind_user_shared_put - Remember the rule of an address
 * @slot:	The region that contains the address
 * @key:	Key of the rule: the address, and whether the frame was interrupted
 * @rule:	The rule, or NULL if there is none
 *
 * Context: Any, including NMI, if current is a user task.
 * Return: true if a task should call unwind_user_shared_grow().
 */
bool unwind_user_shared_put(const struct unwind_user_slot *slot, u64 key,
			    const struct unwind_user_rule *rule)
{
	struct unwind_user_shared *shared;
	bool displaced;
	unsigned int nr;

	guard(rcu)();

	shared = unwind_user_shared_get();
	if (!shared)
		return false;

	nr = unwind_user_find_range(shared, &slot->region, &displaced);
	unwind_user_range_write(&shared->ranges[nr], &slot->region, &slot->seq);
	if (displaced)
		WRITE_ONCE(shared->outgrown, true);

	if (unwind_rule_cache_put(&shared->cache, key, slot->region.id, nr, rule))
		WRITE_ONCE(shared->displaced, READ_ONCE(shared->displaced) + 1);

	return unwind_user_shared_full(shared);
}

/**
 * unwind_user_shared_forget - Forget the rules of a region
 * @id:		Number of the region, which must not be used any more
 *
 * Context: Task context of a user task.
 */
void unwind_user_shared_forget(u64 id)
{
	struct unwind_user_shared *shared;
	struct unwind_user_range *range;
	unsigned int i;

	guard(rcu)();

	shared = unwind_user_shared_get();
	for (i = 0; shared && i < shared->nr_ranges; i++) {
		range = &shared->ranges[i];
		/* Read again below, as the writer */
		if (data_race(range->id) != id || !unwind_user_write_begin(&range->lock))
			continue;

		/* Make it outdated, but keep it for the next region found there. */
		if (range->id == id)
			range->seq.mm--;
		unwind_user_write_end(&range->lock);
	}
}

/**
 * unwind_user_recent_get - Get a region that was looked up recently
 * @pc:		Address that the region should contain
 * @slot:	Receives a copy
 *
 * Context: Any, including NMI.
 * Return: false if none contains the address now.
 */
bool unwind_user_recent_get(unsigned long pc, struct unwind_user_slot *slot)
{
	const struct unwind_user_recent *recent;
	const struct unwind_user_shared *shared;
	unsigned int i;
	int seq;

	guard(rcu)();

	shared = unwind_user_shared_get();
	if (!shared)
		return false;

	for (i = 0; i < UNWIND_USER_RECENT; i++) {
		recent = &shared->recent[i];
		if (!unwind_user_read_begin(&recent->lock, &seq))
			continue;

		/* unwind_user_read_end() notices a writer. */
		if (!data_race(recent->slot.region.id) ||
		    pc < data_race(recent->slot.region.start) ||
		    pc >= data_race(recent->slot.region.end))
			continue;

		/* As above. Not an assignment, which would need a second slot on the stack. */
		data_race(memcpy(slot, &recent->slot, sizeof(*slot)));
		if (unwind_user_read_end(&recent->lock, seq) &&
		    unwind_user_region_current(&slot->seq))
			return true;
	}

	return false;
}

/**
 * unwind_user_recent_put - Keep a region that was looked up
 * @slot:	The region
 *
 * Context: Any, if current is a user task.
 */
void unwind_user_recent_put(const struct unwind_user_slot *slot)
{
	struct unwind_user_recent *recent;
	struct unwind_user_shared *shared;
	unsigned int i;

	guard(rcu)();

	shared = unwind_user_shared_get();
	if (!shared)
		return;

	/* Replace an old copy of the region, so that there is only one. */
	for (i = 0; i < UNWIND_USER_RECENT; i++) {
		recent = &shared->recent[i];
		/* A second copy does no harm. */
		if (data_race(recent->slot.region.start) == slot->region.start)
			break;
	}
	if (i == UNWIND_USER_RECENT) {
		i = READ_ONCE(shared->next_recent);
		WRITE_ONCE(shared->next_recent, i + 1);
		recent = &shared->recent[i % UNWIND_USER_RECENT];
	}

	if (!unwind_user_write_begin(&recent->lock))
		return;
	recent->slot = *slot;
	unwind_user_write_end(&recent->lock);
}
