// SPDX-License-Identifier: GPL-2.0
/*
 * Rules from unwind tables, and what a task remembers of them
 *
 * A table is the section that the file itself has or, for what that does not say,
 * one that a profiler has supplied. The marks of signal frames that the latter may
 * have without a rule are not used: what they lead to is not confined, and the
 * kernel knows its own frames by their code.
 *
 * For each frame there are two questions: which section covers this address, and
 * what does it say. Both answers are kept, so that in the common case neither is
 * asked: a rule that is remembered names its section by number, and the section is
 * good while nothing has been mapped or unmapped since it was last looked up.
 *
 *   mm ----> unwind_user_shared --> cache:   address -> rule, number and place
 *   (once a walk has come through	       of a range
 *   code that has a table)	   --> ranges:  number, start, end, state of the
 *				       mappings: is the rule good now?
 *				   --> recent:  whole sections, to look up rules
 *
 *   task --> unwind_user_rules	   its stack, code that confined walks came to
 *	      `-> unwind_user_bare  code that has no table, of programs that have
 *				   none anywhere
 *
 * ============================ ======================== ==========================
 * field                        written by               under
 * ============================ ======================== ==========================
 * sections->shared             tasks of the mm, when    cmpxchg; what was there is
 *                              there is none, or it is  freed after a grace period
 *                              to grow
 *                              reclaim: xchg to NULL    the same
 * an entry of @cache           tasks of the mm          its sequence number, see
 *                                                       rule_cache.h
 * an entry of @ranges and      tasks of the mm          the entry's own sequence
 * @recent                                               number, in the same way
 * @next, @next_recent,         tasks of the mm          nothing: they only spread
 * @displaced                                            and count
 * struct unwind_user_rules     the task, in its walk;   unwind_task_info::memory
 *                              freed by whom has it
 * ============================ ======================== ==========================
 *
 * All of them are written in task context. What an IRQ or NMI on top of a writer reads
 * in @cache, @ranges or @recent is either whole or has an odd sequence number and is
 * passed over; it may do so without a lock, as the RCU read lock that keeps
 * @shared is implied there. What belongs to the task is not for it.
 */
#include <linux/array_size.h>
#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/cleanup.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

#include "rule_cache.h"
#include "rules.h"
#include "sections.h"
#include "sframe.h"

/*
 * How many ranges of code the threads of a program remember together, at first and
 * at most; a rule tells by its hint which one it is from. A range is what one section
 * is used for. There are as many as mappings that stacks lead through, and two for
 * each section that the program has registered in the midst of a mapping.
 */
#define UNWIND_USER_RANGES	64
#define UNWIND_USER_RANGES_MAX	1024

/* By how much they grow; the first one too many says that the stacks need more. */
#define UNWIND_USER_RANGES_GROW	4

/*
 * How many sections they keep whole, for rules that are not known yet. Not one for each
 * range: once the rules are known nothing is looked up.
 */
#define UNWIND_USER_RECENT	8

/* Of a program without tables: how many mappings a task remembers, */
#define UNWIND_USER_BARES	14
/* and how many addresses in them at which it found no signal frame. */
#define UNWIND_USER_BARE_BITS	6

/*
 * How many bytes below the stack pointer belong to the frame. In epilogues it is
 * there that the frame pointer is found, which has just been popped.
 */
#define UNWIND_USER_RED_ZONE	128

/* How many mappings of code a task remembers to have returned to. */
#define UNWIND_USER_CODES	16

/*
 * How often a mapping is looked up for one frame. Another lookup is necessary if the
 * table that was found goes before a rule is looked up in it.
 */
#define UNWIND_USER_LOOKUPS	8

/* In the key of a rule: the frame was interrupted, rather than making a call. */
#define UNWIND_USER_KEY_TOPMOST	BIT_ULL(63)

/**
 * struct unwind_user_slot - A section that a walk goes through
 * @section:	Copy of what was found
 * @seq:	Tells whether it still is what would be found, see
 *		unwind_user_section_current()
 */
struct unwind_user_slot {
	struct unwind_user_section	section;
	struct unwind_user_seq		seq;
};

/**
 * struct unwind_user_range - What a section is used for
 * @lock:	Sequence number of the entry; odd while it is being written
 * @start:	First byte of the range
 * @end:	First byte after it
 * @id:		Number of the section; 0 if the entry is unused. Parts of one mapping
 *		have the same where a section in between was registered.
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
 * struct unwind_user_recent - A section that was looked up lately
 * @lock:	As in &struct unwind_user_range
 * @slot:	The section; its number is 0 if there is none
 */
struct unwind_user_recent {
	atomic_t			lock;
	struct unwind_user_slot		slot;
};

/**
 * struct unwind_user_shared - What the threads of a program remember of unwind tables
 * @rcu:	To free it
 * @old_cache:	Free @cache with it
 * @old_ranges:	Free @ranges with it
 * @old_recent:	Free @recent with it
 * @cache:	Rules
 * @nr_ranges:	How many @ranges there are
 * @next:	Range to use next if all are in use
 * @next_recent: The same for @recent
 * @displaced:	Rules that others took the place of, since @cache was made
 * @ranges:	What sections are used for, to see whether the rules are good
 * @recent:	Some of the sections
 *
 * Read under RCU. It grows by being replaced.
 */
struct unwind_user_shared {
	struct rcu_head			rcu;
	bool				old_cache;
	bool				old_ranges;
	bool				old_recent;
	struct unwind_rule_cache	cache;
	unsigned int			nr_ranges;
	unsigned int			next;
	unsigned int			next_recent;
	unsigned int			displaced;
	struct unwind_user_range	*ranges;
	struct unwind_user_recent	*recent;
};

/**
 * struct unwind_user_bare_range - A mapping that has no table
 * @start:	Its first byte
 * @end:	First byte after it
 * @id:		As in &struct unwind_user_section; 0 if unused
 * @seq:	As in &struct unwind_user_slot
 */
struct unwind_user_bare_range {
	unsigned long			start;
	unsigned long			end;
	u64				id;
	struct unwind_user_seq		seq;
};

/* In &unwind_user_bare.tags: it is in use, and was looked up for an interrupted frame. */
#define UNWIND_USER_BARE_USED		0x80
#define UNWIND_USER_BARE_TOPMOST	0x40
#define UNWIND_USER_BARE_RANGE		0x0f

/**
 * struct unwind_user_bare - What a task remembers of a program without tables
 * @ranges:	Mappings
 * @next:	The oldest of them
 * @tags:	By hash of the address: no signal frame was found at @offs[] of which
 *		of the mappings
 * @offs:	Offset in the mapping
 */
struct unwind_user_bare {
	struct unwind_user_bare_range	ranges[UNWIND_USER_BARES];
	unsigned int			next;
	u8				tags[1 << UNWIND_USER_BARE_BITS];
	u32				offs[1 << UNWIND_USER_BARE_BITS];
};

static_assert(UNWIND_USER_BARE_RANGE >= UNWIND_USER_BARES - 1);

/**
 * struct unwind_user_rules - What a task remembers of its own
 * @bare:	Code that has no table; only used while the mm has no
 *		&struct unwind_user_shared
 * @stack:	Mapping of the stack that was walked last
 * @codes:	Mappings that confined walks have come through
 * @next_code:	The oldest of them
 *
 * Only touched by the task itself, in task context, and by whom frees it.
 */
struct unwind_user_rules {
	struct unwind_user_bare		*bare;
	struct unwind_user_mapping	stack;
	struct unwind_user_mapping	codes[UNWIND_USER_CODES];
	unsigned int			next_code;
};

/* The profiled task would not have allocated: do not kill it for that. */
#define UNWIND_USER_GFP	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY)

/**
 * unwind_user_rules_alloc - Allocate what a task remembers of its own
 * @gfp:	How to allocate
 *
 * Context: Task context.
 * Return: the memory, for unwind_user(), or NULL.
 */
struct unwind_user_rules *unwind_user_rules_alloc(gfp_t gfp)
{
	return kzalloc(sizeof(struct unwind_user_rules), gfp);
}

/**
 * unwind_user_rules_free - Free what a task remembers of its own
 * @rules:	From unwind_user_rules_alloc(), or NULL
 *
 * Context: Any. Does not sleep.
 */
void unwind_user_rules_free(struct unwind_user_rules *rules)
{
	if (!rules)
		return;

	kfree(rules->bare);
	kfree(rules);
}

/**
 * unwind_user_rules_reset - Forget everything: the task gets a new mm
 * @rules:	From unwind_user_rules_alloc()
 *
 * Context: Task context of the task that the memory belongs to.
 */
void unwind_user_rules_reset(struct unwind_user_rules *rules)
{
	kfree(rules->bare);
	memset(rules, 0, sizeof(*rules));
}

/* ---- What threads share ---------------------------------------------------- */

/* Has the program come through code that has a table? */
static bool unwind_user_is_shared(void)
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

/**
 * unwind_user_shared_free - Free what threads shared, when no walk uses it any more
 * @shared:	Can be found no more; may be NULL
 *
 * Context: Any. Does not sleep.
 */
void unwind_user_shared_free(struct unwind_user_shared *shared)
{
	if (!shared)
		return;

	shared->old_cache = true;
	shared->old_ranges = true;
	shared->old_recent = true;
	call_rcu(&shared->rcu, unwind_user_shared_free_rcu);
}

/*
 * Make another one, of @bits and @nr_ranges; what these do not change is that of @old,
 * if there is one.
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

	new->cache.bits	= bits;
	new->nr_ranges	= nr_ranges;
	new->displaced	= 0;
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

/* Does the mm have one? If not, make it; without memory nothing is remembered. */
static void unwind_user_shared_make(void)
{
	struct unwind_user_shared *new;

	if (unwind_user_is_shared())
		return;

	new = unwind_user_shared_alloc(NULL, UNWIND_RULE_CACHE_BITS,
				       UNWIND_USER_RANGES);
	if (!new)
		return;

	if (unwind_user_shared_replace(NULL, new))
		unwind_user_shared_free_parts(new);
}

/* Read a sequence number: of an entry that is being written it is odd. */
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

/* Who finds another writer there gives up. */
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
 * A copy of @range, which may be unused. Any context, including NMI.
 *
 * Return: false if it is being written.
 */
static bool unwind_user_range_read(const struct unwind_user_range *range,
				   struct unwind_user_range *copy)
{
	int seq;

	if (!unwind_user_read_begin(&range->lock, &seq))
		return false;

	copy->start	= data_race(range->start);
	copy->end	= data_race(range->end);
	copy->id	= data_race(range->id);
	copy->seq	= data_race(range->seq);

	return unwind_user_read_end(&range->lock, seq);
}

static void unwind_user_range_write(struct unwind_user_range *range,
				    const struct unwind_user_section *section,
				    const struct unwind_user_seq *seq)
{
	if (!unwind_user_write_begin(&range->lock))
		return;

	range->start	= section->start;
	range->end	= section->end;
	range->id	= section->id;
	range->seq	= *seq;

	unwind_user_write_end(&range->lock);
}

/* Is the rule of an entry that is from section @id good for @pc now? */
static bool unwind_user_range_covers(const struct unwind_user_shared *shared,
				     unsigned int nr, u64 id, unsigned long pc)
{
	struct unwind_user_range range;

	return nr < shared->nr_ranges &&
	       unwind_user_range_read(&shared->ranges[nr], &range) &&
	       range.id == id && pc >= range.start && pc < range.end &&
	       unwind_user_section_current(&range.seq);
}

/*
 * The range of @section: the one that it has, so that the hints of its rules stay
 * right, else one of something that was there before, one that is not in use, or the
 * one that was taken longest ago, which @displaced tells.
 */
static unsigned int unwind_user_find_range(struct unwind_user_shared *shared,
					   const struct unwind_user_section *section,
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
			 * They are taken in order. One that follows all the same, as
			 * the copy of this one failed, is found no more.
			 */
			return free < shared->nr_ranges ? free : i;
		}

		if (range.start != section->start || range.end != section->end)
			continue;

		if (range.id == section->id)
			return i;

		/* Memory without a file has another number each time. */
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

/* Replace what the mm has by something larger. */
static void unwind_user_shared_grow(unsigned int bits, unsigned int nr_ranges)
{
	struct unwind_user_shared copy, *old, *new;
	bool old_cache, old_ranges;
	unsigned int i;

	scoped_guard(rcu) {
		old = unwind_user_shared_get();
		if (!old || (old->cache.bits >= bits && old->nr_ranges >= nr_ranges))
			return;
		copy = *old;
	}

	/* Another task may have made it larger in the other way since. */
	bits = max(bits, copy.cache.bits);
	nr_ranges = max(nr_ranges, copy.nr_ranges);

	new = unwind_user_shared_alloc(&copy, bits, nr_ranges);
	if (!new)
		return;

	/* Only now is it sure not to be freed while it is copied. */
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

	/* Once others find it they write to it, and may free it. */
	old_cache = new->old_cache;
	old_ranges = new->old_ranges;
	if (unwind_user_shared_replace(old, new) != old)
		goto raced;
	rcu_read_unlock();

	/* The rest of it is in use. */
	old->old_cache = old_cache;
	old->old_ranges = old_ranges;
	old->old_recent = false;
	call_rcu(&old->rcu, unwind_user_shared_free_rcu);
	return;
raced:
	rcu_read_unlock();
	unwind_user_shared_free_parts(new);
}

/* Remember @rule, or that there is none, of an address in @slot. */
static void unwind_user_shared_put(const struct unwind_user_slot *slot, u64 key,
				   const struct unwind_user_rule *rule)
{
	unsigned int nr, bits = 0, nr_ranges = 0;
	struct unwind_user_shared *shared;
	bool displaced;

	scoped_guard(rcu) {
		shared = unwind_user_shared_get();
		if (!shared)
			return;

		nr = unwind_user_find_range(shared, &slot->section, &displaced);
		unwind_user_range_write(&shared->ranges[nr], &slot->section,
					&slot->seq);
		if (displaced && shared->nr_ranges < UNWIND_USER_RANGES_MAX)
			nr_ranges = shared->nr_ranges * UNWIND_USER_RANGES_GROW;

		if (unwind_rule_cache_put(&shared->cache, key, slot->section.id, nr, rule)) {
			displaced = shared->cache.bits < UNWIND_RULE_CACHE_BITS_MAX;
			WRITE_ONCE(shared->displaced, shared->displaced + 1);
			/* An eighth of it was too little. */
			if (displaced &&
			    shared->displaced > 1U << shared->cache.bits >> 2)
				bits = shared->cache.bits + 1;
		}
		if (bits || nr_ranges) {
			bits = max(bits, shared->cache.bits);
			nr_ranges = max(nr_ranges, shared->nr_ranges);
		}
	}

	if (bits)
		unwind_user_shared_grow(bits, nr_ranges);
}

/* Forget the rules of a section that is not to be used any more. */
static void unwind_user_shared_forget(u64 id)
{
	struct unwind_user_shared *shared;
	struct unwind_user_range *range;
	unsigned int i;

	guard(rcu)();

	shared = unwind_user_shared_get();
	for (i = 0; shared && i < shared->nr_ranges; i++) {
		range = &shared->ranges[i];
		if (data_race(range->id) != id || !unwind_user_write_begin(&range->lock))
			continue;

		/* Still in its place, for what is found there next. */
		if (range->id == id)
			range->seq.mm--;
		unwind_user_write_end(&range->lock);
	}
}

/* A copy of what was found lately for @pc, if that is so now. */
static bool unwind_user_recent_get(unsigned long pc, struct unwind_user_slot *slot)
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

		if (!data_race(recent->slot.section.id) ||
		    pc < data_race(recent->slot.section.start) ||
		    pc >= data_race(recent->slot.section.end))
			continue;

		*slot = data_race(recent->slot);
		if (unwind_user_read_end(&recent->lock, seq) &&
		    unwind_user_section_current(&slot->seq))
			return true;
	}

	return false;
}

static void unwind_user_recent_put(const struct unwind_user_slot *slot)
{
	struct unwind_user_recent *recent;
	struct unwind_user_shared *shared;
	unsigned int i;

	guard(rcu)();

	shared = unwind_user_shared_get();
	if (!shared)
		return;

	/* In place of what was there, so that none is in two places. */
	for (i = 0; i < UNWIND_USER_RECENT; i++) {
		recent = &shared->recent[i];
		if (data_race(recent->slot.section.start) == slot->section.start)
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

/* ---- What a task remembers of programs without tables ----------------------- */

static unsigned int unwind_user_bare_hash(unsigned long pc)
{
	return (u64)pc * 0x61c8864680b583ebULL >> (64 - UNWIND_USER_BARE_BITS);
}

static bool unwind_user_bare_covers(const struct unwind_user_bare_range *range,
				    unsigned long pc)
{
	return range->id && pc >= range->start && pc < range->end &&
	       unwind_user_section_current(&range->seq);
}

static u8 unwind_user_bare_tag(unsigned int nr, bool topmost)
{
	return UNWIND_USER_BARE_USED | (topmost ? UNWIND_USER_BARE_TOPMOST : 0) | nr;
}

/* Is it known that there is neither a table nor a signal frame at @pc? */
static bool unwind_user_bare_find(const struct unwind_user_bare *bare, unsigned long pc,
				  bool topmost)
{
	unsigned int i = unwind_user_bare_hash(pc);
	const struct unwind_user_bare_range *range;
	unsigned int nr;

	nr = bare->tags[i] & UNWIND_USER_BARE_RANGE;
	range = &bare->ranges[nr];

	return bare->tags[i] == unwind_user_bare_tag(nr, topmost) &&
	       bare->offs[i] == pc - range->start &&
	       unwind_user_bare_covers(range, pc);
}

static void unwind_user_bare_keep(struct unwind_user_bare *bare, unsigned int nr,
				  unsigned long pc, bool topmost)
{
	const struct unwind_user_bare_range *range = &bare->ranges[nr];
	unsigned int i = unwind_user_bare_hash(pc);

	if (pc - range->start > U32_MAX)
		return;

	bare->tags[i] = unwind_user_bare_tag(nr, topmost);
	bare->offs[i] = pc - range->start;
}

/* Is there no table at @pc? If there is no signal frame, keep that, too. */
static bool unwind_user_bare_has(struct unwind_user_bare *bare, unsigned long pc,
				 bool topmost, bool keep)
{
	unsigned int nr;

	for (nr = 0; nr < UNWIND_USER_BARES; nr++) {
		if (unwind_user_bare_covers(&bare->ranges[nr], pc)) {
			if (keep)
				unwind_user_bare_keep(bare, nr, pc, topmost);
			return true;
		}
	}

	return false;
}

/* Remember that there is no table where @slot is, and no signal frame at @pc. */
static void unwind_user_bare_put(struct unwind_user_rules *rules,
				 const struct unwind_user_slot *slot, unsigned long pc,
				 bool topmost)
{
	const struct unwind_user_section *section = &slot->section;
	struct unwind_user_bare_range *range;
	struct unwind_user_bare *bare;
	unsigned int nr, i;

	if (!rules->bare)
		rules->bare = kzalloc(sizeof(*rules->bare), UNWIND_USER_GFP);
	bare = rules->bare;
	if (!bare)
		return;

	for (nr = 0; nr < UNWIND_USER_BARES; nr++) {
		range = &bare->ranges[nr];
		if (range->start == section->start && range->end == section->end)
			break;
	}
	if (nr == UNWIND_USER_BARES)
		nr = bare->next++ % UNWIND_USER_BARES;

	range = &bare->ranges[nr];
	if (range->id != section->id || range->start != section->start ||
	    range->end != section->end) {
		for (i = 0; i < ARRAY_SIZE(bare->tags); i++) {
			if ((bare->tags[i] & UNWIND_USER_BARE_RANGE) == nr)
				bare->tags[i] = 0;
		}
	}

	range->start	= section->start;
	range->end	= section->end;
	range->id	= section->id;
	range->seq	= slot->seq;
	unwind_user_bare_keep(bare, nr, pc, topmost);
}

/* ---- Confined walks --------------------------------------------------------- */

static bool unwind_user_in_mapping(const struct unwind_user_mapping *mapping,
				   unsigned long addr)
{
	return addr >= mapping->start && addr < mapping->end &&
	       unwind_user_mm_current(mapping->seq);
}

/**
 * unwind_user_on_stack - May a confined walk read this?
 * @state:	State of the walk, which somebody else's rules confine
 * @addr:	Address, in the stack segment
 * @size:	Number of bytes
 *
 * The stack is what lies between the stack pointer, or the red zone below it, and
 * the end of the mapping that it is in. That is all of what a caller's frame can
 * be in, and nothing that a walk by the program's own rules would not read.
 *
 * Context: As unwind_user_next().
 * Return: true if it is on the stack.
 */
bool unwind_user_on_stack(const struct unwind_user_state *state,
			  unsigned long addr, unsigned int size)
{
	unsigned long sp = state->regs.ss_base + state->regs.sp;
	struct unwind_user_rules *rules = state->rules;
	struct unwind_user_mapping *stack = &rules->stack;

	addr += state->regs.ss_base;

	if (!unwind_user_in_mapping(stack, sp) && !unwind_user_find_stack(sp, stack))
		return false;

	/* Far from both ends of the address space. */
	return addr >= stack->start && addr + UNWIND_USER_RED_ZONE >= sp &&
	       addr < stack->end && size <= stack->end - addr;
}

/**
 * unwind_user_at_code - May a confined walk go on here?
 * @state:	State of the walk, which somebody else's rules confine
 * @ip:		Linear address: a return address, or that of the next instruction
 * @topmost:	It is the latter
 *
 * So that no data of the program is taken for an address and leaves the walk.
 *
 * Context: As unwind_user_next().
 * Return: true if the instruction is in an executable mapping.
 */
bool unwind_user_at_code(const struct unwind_user_state *state, unsigned long ip,
			 bool topmost)
{
	struct unwind_user_rules *rules = state->rules;
	struct unwind_user_mapping *code;
	unsigned int i;

	/* A call may be the last instruction of its mapping. */
	ip -= !topmost;

	for (i = 0; i < UNWIND_USER_CODES; i++) {
		if (unwind_user_in_mapping(&rules->codes[i], ip))
			return true;
	}

	code = &rules->codes[rules->next_code];
	if (!unwind_user_find_code(ip, code))
		return false;

	rules->next_code = (rules->next_code + 1) % UNWIND_USER_CODES;
	return true;
}

/* ---- Rules ------------------------------------------------------------------- */

/* What the file's own section says of @pc, or the table that was supplied for it. */
static int unwind_user_rule_at(const struct unwind_user_slot *slot, bool supplied,
			       unsigned long pc, struct unwind_user_rule *rule,
			       const char **flaw)
{
	const struct unwind_user_section *section = &slot->section;

	if (!supplied) {
		return section->has_sframe ?
		       sframe_find_rule_or_flaw(&section->sframe, pc, rule, flaw) :
		       -ENOENT;
	}

	return section->table ?
	       unwind_table_find_rule(section->table, pc - section->load_base, rule) :
	       -ENOENT;
}

static int unwind_user_table_rule(const struct unwind_user_state *state,
				  const struct unwind_user_slot *slot, bool supplied,
				  unsigned long pc, struct unwind_user_rule *rule,
				  const char **flaw)
{
	int ret = unwind_user_rule_at(slot, supplied, pc, rule, flaw);

	if (ret != -ENOENT || state->topmost || pc + 1 >= slot->section.end)
		return ret;

	/*
	 * Signal handlers return to the first instruction of a function, which
	 * no call precedes. Only some tables take that into account, as if
	 * there was one.
	 */
	ret = unwind_user_rule_at(slot, supplied, pc + 1, rule, flaw);
	if (ret == -ENODATA || ret == -EINVAL || (!ret && rule->signal))
		return ret;

	return -ENOENT;
}

/*
 * What is remembered of @pc.
 *
 * Return: false if nothing is. Otherwise @kind is what unwind_user_find_rule()
 *	   returns.
 */
static bool unwind_user_recall(const struct unwind_user_rules *rules, unsigned long pc,
			       u64 key, struct unwind_user_rule *rule,
			       enum unwind_user_rule_kind *kind)
{
	const struct unwind_user_shared *shared;
	struct unwind_rule_entry entry;

	guard(rcu)();

	shared = unwind_user_shared_get();
	if (!shared) {
		*kind = UNWIND_USER_RULE_FP;
		return rules->bare &&
		       unwind_user_bare_find(rules->bare, pc, key & UNWIND_USER_KEY_TOPMOST);
	}

	/* Part of a section may have been registered anew. */
	if (!unwind_rule_cache_find(&shared->cache, key, &entry) ||
	    !unwind_user_range_covers(shared, unwind_rule_cache_hint(&entry),
				      unwind_rule_cache_section(&entry), pc))
		return false;

	*kind = unwind_rule_cache_get(&entry, rule) ? UNWIND_USER_RULE_TABLE :
						      UNWIND_USER_RULE_FP;
	return true;
}

/* Find the section that covers @pc. @again: what is remembered is outdated. */
static int unwind_user_find_slot(struct unwind_user_state *state, unsigned long pc,
				 struct unwind_user_slot *slot, bool again)
{
	int ret;

	if (!again && unwind_user_recent_get(pc, slot))
		return 0;

	state->stats.lookups++;
	ret = unwind_user_section_find(pc, &slot->section, &slot->seq);
	if (ret)
		return ret;

	if (slot->section.has_sframe || slot->section.table)
		unwind_user_shared_make();
	if (!slot->section.unread)
		unwind_user_recent_put(slot);

	return 0;
}

/* Remember what was found at @pc: @rule, or nothing. */
static void unwind_user_remember(struct unwind_user_rules *rules,
				 const struct unwind_user_slot *slot, unsigned long pc,
				 u64 key, const struct unwind_user_rule *rule)
{
	/*
	 * If mappings have changed since the section was looked up, it may not
	 * have been this section that was read. The barrier is between reading it
	 * and the sequence number, which is written before mappings change.
	 */
	smp_rmb();
	if (slot->section.unread || !unwind_user_section_current(&slot->seq))
		return;

	if (unwind_user_is_shared())
		unwind_user_shared_put(slot, key, rule);
	else if (!rule)
		unwind_user_bare_put(rules, slot, pc, key & UNWIND_USER_KEY_TOPMOST);
}

/**
 * unwind_user_find_rule - By what can the current frame be left?
 * @state:	State of the walk
 * @rule:	Receives the rule of an unwind table
 *
 * Context: As unwind_user_next().
 * Return: see &enum unwind_user_rule_kind. Only %UNWIND_USER_RULE_TABLE sets
 *	   @rule.
 */
enum unwind_user_rule_kind
unwind_user_find_rule(struct unwind_user_state *state,
		      struct unwind_user_rule *rule)
{
	struct unwind_user_rules *rules = state->rules;
	enum unwind_user_rule_kind kind;
	struct unwind_user_slot slot;
	unsigned int lookups = 0;
	unsigned long pc;
	bool remember = false;
	const char *flaw = "";
	int signal, ret;
	u64 key;

	/* A call may be the last instruction of its function. */
	pc = state->regs.cs_base + state->regs.ip - !state->topmost;
	/* What follows a call may be a signal frame, and what is at @pc none. */
	key = pc | (state->topmost ? UNWIND_USER_KEY_TOPMOST : 0);

	if (likely(rules) && unwind_user_recall(rules, pc, key, rule, &kind))
		return kind;

	/* Signal frames are not remembered: what is remembered is no such frame. */
	signal = arch_unwind_user_at_sigreturn(state);
	if (signal > 0)
		return UNWIND_USER_RULE_SIGNAL;

	if (unlikely(!rules))
		return UNWIND_USER_RULE_FP;

	if (rules->bare && !unwind_user_is_shared() &&
	    unwind_user_bare_has(rules->bare, pc, state->topmost, !signal))
		return UNWIND_USER_RULE_FP;

	/* From here on a frame may take long. */
	cond_resched();
	if (fatal_signal_pending(current))
		return UNWIND_USER_RULE_FP;

	do {
		if (unwind_user_find_slot(state, pc, &slot, lookups))
			return UNWIND_USER_RULE_FP;

		ret = unwind_user_table_rule(state, &slot, false, pc, rule, &flaw);

		/* A frame that only the kernel's own layout describes. */
		if (ret == -ENODATA)
			return UNWIND_USER_RULE_SIGNAL;

		/* Not for each address anew: a corrupt section takes long. */
		if (ret == -EINVAL &&
		    unwind_user_section_drop(&slot.section, &slot.seq, pc, flaw)) {
			unwind_user_shared_forget(slot.section.id);
			ret = -ESTALE;
			continue;
		}

		/* Memory that cannot be read now may be readable later. */
		remember = ret != -EFAULT && !signal;

		if (ret && slot.section.table) {
			ret = unwind_user_table_rule(state, &slot, true, pc, rule,
						     &flaw);
			rule->confined = true;
		}
		/* The section has just been dropped, or the table has gone. */
	} while (ret == -ESTALE && ++lookups < UNWIND_USER_LOOKUPS);

	if (ret == -ESTALE)
		remember = false;

	if (remember)
		unwind_user_remember(rules, &slot, pc, key, ret ? NULL : rule);

	return ret ? UNWIND_USER_RULE_FP : UNWIND_USER_RULE_TABLE;
}
