/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules by instruction pointer
 *
 * A profile meets the same return addresses again and again. Finding the rule of
 * one in an unwind table takes a binary search and a scan, in user memory; here
 * it takes one comparison.
 *
 * An address has two places, and a new rule replaces the older one of what is there:
 * with one place a stack of 60 frames would find every eighth one taken by another
 * of its own. Each entry names the section that it was made from, and is of no use
 * when that one has gone. That nothing was found is remembered, too.
 *
 * All threads of a process share a cache, without locks. The two places of an address
 * are a set, and the set has a sequence number:
 *
 *   reader, any context		writer, task context
 *
 *   LOAD number, even		(A)	cmpxchg number to odd	(C)
 *   copy an entry			change the entries
 *   LOAD number, the same?	(B)	STORE number, even	(D)
 *
 * A writer that finds an odd number gives up: a rule that is not remembered is looked
 * up once more. So does a reader, or one that finds another number at B. Nobody waits,
 * so an NMI may read between any two instructions of a writer. It sees the odd number
 * and finds nothing. A that reads D's number sees all that D's writer stored before; if
 * the copy has anything that was stored behind C, B sees C's number or a later one.
 *
 * No kernel services: the host's tests and benchmarks use it as it is.
 */
#ifndef _KERNEL_UNWIND_RULE_CACHE_H
#define _KERNEL_UNWIND_RULE_CACHE_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/unwind_user_rule.h>

#include <asm/barrier.h>

/*
 * 16 KiB at first. Stacks of large programs hold some hundred different return
 * addresses at a time, and threads of one program differ.
 */
#define UNWIND_RULE_CACHE_BITS		8
/* 256 KiB */
#define UNWIND_RULE_CACHE_BITS_MAX	12
#define UNWIND_RULE_CACHE_WAYS		2

/* Where a value is: a struct unwind_user_loc without its offset in one byte. */
#define UNWIND_RULE_LOC_BASE	0x07
#define UNWIND_RULE_LOC_DEREF	0x08
#define UNWIND_RULE_LOC_REG	4
#define UNWIND_RULE_REG_MAX	15

/* Flags of an entry. */
#define UNWIND_RULE_OUTERMOST	0x01
#define UNWIND_RULE_SIGNAL	0x02
/* The section has no rule for this address. */
#define UNWIND_RULE_NONE	0x04
#define UNWIND_RULE_CONFINED	0x08

/* The lower bits of @section are the hint. */
#define UNWIND_RULE_HINT_BITS	16
#define UNWIND_RULE_HINTS	(1U << UNWIND_RULE_HINT_BITS)

/**
 * struct unwind_rule_entry - One remembered rule
 * @ip:		Address that was looked up
 * @section:	Number of the section that the rule is from, and where the caller
 *		keeps that; 0 if unused
 * @seq:	Sequence number of the set; only used in the first of its entries
 * @cfa:	Offset of the CFA,
 * @ra:		of the return address,
 * @fp:		and of the frame pointer
 * @loc:	The rest of the three
 * @flags:	What else there is to say
 */
struct unwind_rule_entry {
	u64		ip;
	u64		section;
	atomic_t	seq;
	s32		cfa;
	s16		ra;
	s16		fp;
	u8		loc[3];
	u8		flags;
};

/* Half a cache line: both places of an address are in one. */
static_assert(sizeof(struct unwind_rule_entry) == 32);

/**
 * struct unwind_rule_set - The places of an address
 * @way:	The newer entry first
 */
struct unwind_rule_set {
	struct unwind_rule_entry way[UNWIND_RULE_CACHE_WAYS];
};

/**
 * struct unwind_rule_cache - A cache of rules
 * @sets:	By hash of the address; all zero when new
 * @bits:	Logarithm of their number
 */
struct unwind_rule_cache {
	struct unwind_rule_set	*sets;
	unsigned int		bits;
};

static inline size_t unwind_rule_cache_size(unsigned int bits)
{
	return sizeof(struct unwind_rule_set) << bits;
}

/* The entries that may hold the rule for an address. */
static inline struct unwind_rule_entry *
unwind_rule_cache_set(const struct unwind_rule_cache *cache, u64 ip)
{
	/* The upper bits of a product with the golden ratio: the kernel's hash. */
	u64 hash = ip * 0x61c8864680b583ebULL;

	return cache->sets[hash >> (64 - cache->bits)].way;
}

static inline u8 unwind_rule_pack(const struct unwind_user_loc *loc)
{
	return loc->base | (loc->deref ? UNWIND_RULE_LOC_DEREF : 0) |
	       loc->reg << UNWIND_RULE_LOC_REG;
}

static inline void unwind_rule_unpack(u8 packed, s32 off, struct unwind_user_loc *loc)
{
	loc->off	= off;
	loc->base	= packed & UNWIND_RULE_LOC_BASE;
	loc->reg	= packed >> UNWIND_RULE_LOC_REG;
	loc->deref	= packed & UNWIND_RULE_LOC_DEREF;
}

/**
 * unwind_rule_cache_find - What is known about an address?
 * @cache:	The cache
 * @ip:		The address
 * @found:	Receives a copy of the entry
 *
 * The entry may be of any section. The caller makes sure that the section is still
 * the one that covers @ip.
 *
 * Context: Any, including NMI.
 * Return: false if nothing is known, or if somebody is writing there.
 */
static inline bool unwind_rule_cache_find(const struct unwind_rule_cache *cache, u64 ip,
					  struct unwind_rule_entry *found)
{
	const struct unwind_rule_entry *set = unwind_rule_cache_set(cache, ip);
	const struct unwind_rule_entry *entry = set;
	int seq;

	/* A */
	seq = atomic_read(&set->seq);
	if (unlikely(seq & 1))
		return false;
	/* Pairs with the barrier at D. */
	smp_rmb();

	if (unlikely(READ_ONCE(entry->ip) != ip)) {
		entry++;
		if (READ_ONCE(entry->ip) != ip)
			return false;
	}

	found->section	= READ_ONCE(entry->section);
	found->cfa	= READ_ONCE(entry->cfa);
	found->ra	= READ_ONCE(entry->ra);
	found->fp	= READ_ONCE(entry->fp);
	found->loc[0]	= READ_ONCE(entry->loc[0]);
	found->loc[1]	= READ_ONCE(entry->loc[1]);
	found->loc[2]	= READ_ONCE(entry->loc[2]);
	found->flags	= READ_ONCE(entry->flags);

	/* B */
	smp_rmb();
	return likely(atomic_read(&set->seq) == seq) && found->section;
}

/**
 * unwind_rule_cache_section - Which section is an entry from?
 * @entry:	From unwind_rule_cache_find()
 *
 * Return: its number.
 */
static inline u64 unwind_rule_cache_section(const struct unwind_rule_entry *entry)
{
	return entry->section >> UNWIND_RULE_HINT_BITS;
}

/**
 * unwind_rule_cache_hint - Where does the caller keep the section of an entry?
 * @entry:	From unwind_rule_cache_find()
 *
 * Return: what was given to unwind_rule_cache_put(). Something else may be there
 *	   by now.
 */
static inline unsigned int
unwind_rule_cache_hint(const struct unwind_rule_entry *entry)
{
	return entry->section & (UNWIND_RULE_HINTS - 1);
}

/**
 * unwind_rule_cache_get - The rule of an entry
 * @entry:	From unwind_rule_cache_find()
 * @rule:	Receives the rule
 *
 * Return: false if there is none for this address.
 */
static inline bool unwind_rule_cache_get(const struct unwind_rule_entry *entry,
					 struct unwind_user_rule *rule)
{
	if (entry->flags & UNWIND_RULE_NONE)
		return false;

	unwind_rule_unpack(entry->loc[0], entry->cfa, &rule->cfa);
	unwind_rule_unpack(entry->loc[1], entry->ra, &rule->ra);
	unwind_rule_unpack(entry->loc[2], entry->fp, &rule->fp);
	rule->outermost	= entry->flags & UNWIND_RULE_OUTERMOST;
	rule->signal	= entry->flags & UNWIND_RULE_SIGNAL;
	rule->confined	= entry->flags & UNWIND_RULE_CONFINED;

	return true;
}

/*
 * Has it room in an entry? Compilers save registers beside the CFA, however large
 * the frame is; no reader makes rules with other registers.
 */
static inline bool unwind_rule_fits(const struct unwind_user_rule *rule)
{
	return (rule->cfa.reg | rule->ra.reg | rule->fp.reg) <= UNWIND_RULE_REG_MAX &&
	       rule->ra.off == (s16)rule->ra.off && rule->fp.off == (s16)rule->fp.off;
}

static inline void unwind_rule_entry_move(struct unwind_rule_entry *to,
					  const struct unwind_rule_entry *from)
{
	WRITE_ONCE(to->ip, from->ip);
	WRITE_ONCE(to->section, from->section);
	WRITE_ONCE(to->cfa, from->cfa);
	WRITE_ONCE(to->ra, from->ra);
	WRITE_ONCE(to->fp, from->fp);
	WRITE_ONCE(to->loc[0], from->loc[0]);
	WRITE_ONCE(to->loc[1], from->loc[1]);
	WRITE_ONCE(to->loc[2], from->loc[2]);
	WRITE_ONCE(to->flags, from->flags);
}

/* Put an entry that is filled in; the result is that of unwind_rule_cache_put(). */
static inline bool unwind_rule_cache_add(struct unwind_rule_cache *cache,
					 const struct unwind_rule_entry *new)
{
	struct unwind_rule_entry *set = unwind_rule_cache_set(cache, new->ip);
	bool displaced = false;
	int seq;

	/* C, a full barrier */
	seq = atomic_read(&set->seq);
	if ((seq & 1) || atomic_cmpxchg(&set->seq, seq, seq + 1) != seq)
		return false;

	if (set[0].ip != new->ip) {
		displaced = set[1].section && set[1].ip != new->ip;
		unwind_rule_entry_move(&set[1], &set[0]);
	}
	unwind_rule_entry_move(&set[0], new);

	/* D */
	smp_wmb();
	atomic_set(&set->seq, seq + 2);

	return displaced;
}

/**
 * unwind_rule_cache_put - Remember a rule
 * @cache:	The cache
 * @ip:		Address that was looked up
 * @section:	Number of the section, not 0
 * @hint:	Where the caller keeps the section, less than %UNWIND_RULE_HINTS
 * @rule:	What was found there, or NULL: nothing
 *
 * A rule that has no room in an entry is not remembered, nor is anything while
 * somebody else is writing at that place.
 *
 * Context: Task context.
 * Return: true if the rule of another address was forgotten for it.
 */
static inline bool unwind_rule_cache_put(struct unwind_rule_cache *cache, u64 ip,
					 u64 section, unsigned int hint,
					 const struct unwind_user_rule *rule)
{
	struct unwind_rule_entry new = {
		.ip		= ip,
		.section	= section << UNWIND_RULE_HINT_BITS | hint,
		.flags		= UNWIND_RULE_NONE,
	};

	/* As many numbers are never given out. */
	if (section >> (64 - UNWIND_RULE_HINT_BITS))
		return false;

	if (rule) {
		if (!unwind_rule_fits(rule))
			return false;

		new.cfa		= rule->cfa.off;
		new.ra		= rule->ra.off;
		new.fp		= rule->fp.off;
		new.loc[0]	= unwind_rule_pack(&rule->cfa);
		new.loc[1]	= unwind_rule_pack(&rule->ra);
		new.loc[2]	= unwind_rule_pack(&rule->fp);
		new.flags	= (rule->outermost ? UNWIND_RULE_OUTERMOST : 0) |
				  (rule->signal ? UNWIND_RULE_SIGNAL : 0) |
				  (rule->confined ? UNWIND_RULE_CONFINED : 0);
	}

	return unwind_rule_cache_add(cache, &new);
}

/**
 * unwind_rule_cache_copy - Put all rules of one cache into another one
 * @to:		The larger one, which nobody else knows yet
 * @from:	The smaller one, which may be written meanwhile
 *
 * Context: Task context.
 */
static inline void unwind_rule_cache_copy(struct unwind_rule_cache *to,
					  const struct unwind_rule_cache *from)
{
	struct unwind_rule_entry entry;
	unsigned int set, way;
	u64 ip;

	for (set = 0; set < 1U << from->bits; set++) {
		/* The older one first. */
		for (way = UNWIND_RULE_CACHE_WAYS; way--; ) {
			ip = READ_ONCE(from->sets[set].way[way].ip);
			if (ip && unwind_rule_cache_find(from, ip, &entry)) {
				entry.ip = ip;
				unwind_rule_cache_add(to, &entry);
			}
		}
	}
}

#endif /* _KERNEL_UNWIND_RULE_CACHE_H */
