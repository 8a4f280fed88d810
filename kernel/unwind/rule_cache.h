/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cache of rules by instruction pointer
 *
 * A profile contains the same return addresses again and again. Finding the rule of an
 * address in a section takes a binary search and a scan, in user memory. Finding it
 * here takes one or two comparisons.
 *
 * An address has two places, and a new rule replaces the older of the two rules
 * there: with only one place, a stack of 60 frames would lose every eighth rule to
 * another rule of the same stack. Each entry names the region that it is for, and is
 * not used any more when the region is gone. An entry may also say that there is no
 * rule.
 *
 * All threads of a process share a cache without locks. The two places of an address
 * form a set, and the set has a sequence number:
 *
 *   reader, any context		writer, any context
 *
 *   LOAD number, even		(A)	cmpxchg number to odd	(C)
 *   copy an entry			change the entries
 *   LOAD number, the same?	(B)	STORE number, even	(D)
 *
 * A writer that finds an odd number gives up; the next walk looks up its rule again. A
 * reader that finds an odd number, or another number at B, finds nothing. Nobody waits.
 * So an NMI may read or write between any two instructions of a writer: it sees the odd
 * number, finds nothing, and gives up. If A reads the number that D stored, the reader
 * sees everything that was stored before D. If the copy has any value that was stored
 * after C, B reads the number of C or a later one.
 *
 * No kernel services are used, so host tests and benchmarks can include this file as
 * is.
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
 * 16 KiB at first. The stacks of a large program contain some hundred different
 * return addresses at a time, and the threads of one program differ.
 */
#define UNWIND_RULE_CACHE_BITS		8
/* 256 KiB */
#define UNWIND_RULE_CACHE_BITS_MAX	12
#define UNWIND_RULE_CACHE_WAYS		2

/* A struct unwind_user_loc without its offset, in one byte. */
#define UNWIND_RULE_LOC_BASE	0x07
#define UNWIND_RULE_LOC_DEREF	0x08
#define UNWIND_RULE_LOC_REG	4
#define UNWIND_RULE_REG_MAX	15

/* Flags of an entry. */
#define UNWIND_RULE_OUTERMOST	0x01
#define UNWIND_RULE_SIGNAL	0x02
/* There is no rule for this address. */
#define UNWIND_RULE_NONE	0x04
#define UNWIND_RULE_CONFINED	0x08
/* The offset of the CFA is two numbers: see unwind_rule_join(). */
#define UNWIND_RULE_ADDS	0x10

/* The lower bits of @region are the hint. */
#define UNWIND_RULE_HINT_BITS	16
#define UNWIND_RULE_HINTS	(1U << UNWIND_RULE_HINT_BITS)

/**
 * struct unwind_rule_entry - One remembered rule
 * @ip:		Address that was looked up
 * @region:	Number of the region that the rule is for, and the hint: where the
 *		caller keeps the region; 0 if unused
 * @seq:	Sequence number of the set; only used in its first entry
 * @cfa:	Offset of the CFA; with %UNWIND_RULE_ADDS also what is added to it
 * @ra:		Offset of the return address
 * @fp:		Offset of the frame pointer
 * @loc:	The other fields of these three
 * @flags:	UNWIND_RULE_OUTERMOST and others
 * @form:	@loc and @flags as one number
 */
struct unwind_rule_entry {
	u64		ip;
	u64		region;
	atomic_t	seq;
	s32		cfa;
	s16		ra;
	s16		fp;
	union {
		struct {
			u8	loc[3];
			u8	flags;
		};
		u32	form;
	};
};

/* Half a cache line, so both places of an address are in one cache line. */
static_assert(sizeof(struct unwind_rule_entry) == 32);

/**
 * struct unwind_rule_set - The two places of an address
 * @way:	The entries, the newer one first
 */
struct unwind_rule_set {
	struct unwind_rule_entry way[UNWIND_RULE_CACHE_WAYS];
};

/**
 * struct unwind_rule_cache - A cache of rules
 * @sets:	Sets by hash of the address; all zero when new
 * @bits:	Logarithm of the number of sets
 */
struct unwind_rule_cache {
	struct unwind_rule_set	*sets;
	unsigned int		bits;
};

static inline size_t unwind_rule_cache_size(unsigned int bits)
{
	return sizeof(struct unwind_rule_set) << bits;
}

/* The two entries that may have the rule for an address. */
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

/* The offset of a CFA that is read from memory, and what is added after that */
static inline s32 unwind_rule_join(s32 off, s32 add)
{
	return (u16)off | (u32)add << 16;
}

static inline void unwind_rule_split(s32 joined, s32 *off, s32 *add)
{
	*off = (s16)joined;
	*add = joined >> 16;
}

/**
 * unwind_rule_cache_find - Find the entry for an address
 * @cache:	The cache
 * @ip:		The address
 * @found:	Receives a copy of the entry
 *
 * The entry may be for any region. The caller checks that this region still contains
 * @ip.
 *
 * Context: Any, including NMI.
 * Return: false if there is no entry, or if it is being written.
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

	found->region	= READ_ONCE(entry->region);
	found->cfa	= READ_ONCE(entry->cfa);
	found->ra	= READ_ONCE(entry->ra);
	found->fp	= READ_ONCE(entry->fp);
	found->loc[0]	= READ_ONCE(entry->loc[0]);
	found->loc[1]	= READ_ONCE(entry->loc[1]);
	found->loc[2]	= READ_ONCE(entry->loc[2]);
	found->flags	= READ_ONCE(entry->flags);

	/* B */
	smp_rmb();
	return likely(atomic_read(&set->seq) == seq) && found->region;
}

/* Number of a region, of &unwind_rule_entry.region */
static inline u64 unwind_rule_region(u64 region)
{
	return region >> UNWIND_RULE_HINT_BITS;
}

/* Where the caller keeps it: the hint that was passed to unwind_rule_cache_put() */
static inline unsigned int unwind_rule_hint(u64 region)
{
	return region & (UNWIND_RULE_HINTS - 1);
}

/**
 * unwind_rule_cache_region - Get the region that an entry is for
 * @entry:	From unwind_rule_cache_find()
 *
 * Return: the number of the region.
 */
static inline u64 unwind_rule_cache_region(const struct unwind_rule_entry *entry)
{
	return unwind_rule_region(entry->region);
}

/**
 * unwind_rule_cache_hint - Get where the caller keeps the region of an entry
 * @entry:	From unwind_rule_cache_find()
 *
 * Return: the hint that was passed to unwind_rule_cache_put(). Another region may be
 *	   there by now.
 */
static inline unsigned int
unwind_rule_cache_hint(const struct unwind_rule_entry *entry)
{
	return unwind_rule_hint(entry->region);
}

/**
 * unwind_rule_cache_get - Get the rule of an entry
 * @entry:	From unwind_rule_cache_find()
 * @rule:	Receives the rule
 *
 * Return: false if there is no rule for this address.
 */
static inline bool unwind_rule_cache_get(const struct unwind_rule_entry *entry,
					 struct unwind_user_rule *rule)
{
	if (entry->flags & UNWIND_RULE_NONE)
		return false;

	unwind_rule_unpack(entry->loc[0], entry->cfa, &rule->cfa);
	unwind_rule_unpack(entry->loc[1], entry->ra, &rule->ra);
	unwind_rule_unpack(entry->loc[2], entry->fp, &rule->fp);
	rule->cfa_add = 0;
	rule->cfa_index = 0;
	if (unlikely(entry->flags & UNWIND_RULE_ADDS))
		unwind_rule_split(entry->cfa, &rule->cfa.off, &rule->cfa_add);
	rule->outermost	= entry->flags & UNWIND_RULE_OUTERMOST;
	rule->signal	= entry->flags & UNWIND_RULE_SIGNAL;
	rule->confined	= entry->flags & UNWIND_RULE_CONFINED;

	return true;
}

/*
 * Does the rule fit in an entry? Compilers save registers close to the CFA, however
 * large the frame is. No reader makes rules with registers that do not fit.
 */
static inline bool unwind_rule_fits(const struct unwind_user_rule *rule)
{
	return (rule->cfa.reg | rule->ra.reg | rule->fp.reg) <= UNWIND_RULE_REG_MAX &&
	       rule->ra.off == (s16)rule->ra.off && rule->fp.off == (s16)rule->fp.off &&
	       !rule->cfa_index &&
	       (!rule->cfa_add || (rule->cfa.off == (s16)rule->cfa.off &&
				   rule->cfa_add == (s16)rule->cfa_add));
}

static inline void unwind_rule_entry_move(struct unwind_rule_entry *to,
					  const struct unwind_rule_entry *from)
{
	WRITE_ONCE(to->ip, from->ip);
	WRITE_ONCE(to->region, from->region);
	WRITE_ONCE(to->cfa, from->cfa);
	WRITE_ONCE(to->ra, from->ra);
	WRITE_ONCE(to->fp, from->fp);
	WRITE_ONCE(to->loc[0], from->loc[0]);
	WRITE_ONCE(to->loc[1], from->loc[1]);
	WRITE_ONCE(to->loc[2], from->loc[2]);
	WRITE_ONCE(to->flags, from->flags);
}

/* Store a complete entry. Returns the same as unwind_rule_cache_put(). */
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
		displaced = set[1].region && set[1].ip != new->ip;
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
 * @region:	Number of the region, not 0
 * @hint:	Where the caller keeps the region, less than %UNWIND_RULE_HINTS
 * @rule:	The rule that was found, or NULL if there is none
 *
 * A rule that does not fit in an entry is not remembered. Nor is a rule whose set is
 * just being written by somebody else.
 *
 * Context: Any, including NMI.
 * Return: true if this has displaced the rule of another address.
 */
static inline bool unwind_rule_cache_put(struct unwind_rule_cache *cache, u64 ip,
					 u64 region, unsigned int hint,
					 const struct unwind_user_rule *rule)
{
	struct unwind_rule_entry new = {
		.ip		= ip,
		.region		= region << UNWIND_RULE_HINT_BITS | hint,
		.flags		= UNWIND_RULE_NONE,
	};

	/* Region numbers never get that large. */
	if (region >> (64 - UNWIND_RULE_HINT_BITS))
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
		if (unlikely(rule->cfa_add)) {
			new.cfa = unwind_rule_join(rule->cfa.off, rule->cfa_add);
			new.flags |= UNWIND_RULE_ADDS;
		}
	}

	return unwind_rule_cache_add(cache, &new);
}

/**
 * unwind_rule_cache_copy - Copy all rules of one cache into another one
 * @to:		The larger cache, which nobody else can find yet
 * @from:	The smaller cache, which may be written meanwhile
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
		/* The older entry first. */
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
