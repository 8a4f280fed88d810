// SPDX-License-Identifier: GPL-2.0
/*
 * Reader of SFrame sections: find the rule that a section has for an address
 *
 * Every byte of a section is hostile: it comes from the profiled program, which may
 * change it while it is being read. So a check in an earlier call or read does not
 * count. The code that uses an offset compares it with the section's bounds. Each
 * loop shrinks the data that it works on or has a bound of its own. A section with
 * wrong contents yields a wrong rule or none.
 *
 * This is pure code without state, tested on the host: see tools/testing/unwind/.
 * sframe_read() reads all memory but FDEs that are searched in kernel memory. A lookup
 * calls it only a few times, because a call costs as much as decoding some dozens of
 * fields.
 */
#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/unaligned.h>
#include <linux/unwind_user_rule.h>

#include "sframe.h"
#include "sframe_words.h"

/* How many FDEs one step of the search reads and compares. */
#define SFRAME_WINDOW		16

#define SFRAME_PARTS_ROOT	8
static_assert(SFRAME_PARTS_ROOT * SFRAME_PARTS_ROOT == SFRAME_PARTS);

/* How many bytes of FREs are read at a time. */
#define SFRAME_FRE_CHUNK	128

#define SFRAME_FRE_ADDR_MAX	BIT(SFRAME_WIDTH_MAX)
#define SFRAME_FRE_SIZE_MAX	(SFRAME_FRE_ADDR_MAX + sizeof(u8) +	\
				 (SFRAME_FRE_WORDS_MAX << SFRAME_WIDTH_MAX))

/* Both versions have a fixed layout. */
static_assert(sizeof(struct sframe_header) == 28);
static_assert(sizeof(struct sframe_fde_v2) == 20);
static_assert(sizeof(struct sframe_fde_v3) == 16);
static_assert(sizeof(struct sframe_attr_v3) == 5);

/* A chunk has room for an FRE and for the address and info of the next one. */
static_assert(SFRAME_FRE_SIZE_MAX + SFRAME_FRE_ADDR_MAX + sizeof(u8) <=
	      SFRAME_FRE_CHUNK);

/* Size of what a step of the search reads: FDEs of either version. */
static_assert(sizeof(struct sframe_fde_v2) >= sizeof(struct sframe_fde_v3));
#define SFRAME_WINDOW_SIZE	(SFRAME_WINDOW * sizeof(struct sframe_fde_v2))

/*
 * An FDE of any version: the fields that are needed to find and read its FREs. The
 * first FRE is at pos in the chunk.
 */
struct sframe_fde {
	u32		num_fres;
	u32		pos;
	u8		addr_width;
	u8		rep_size;
	bool		mask;
	bool		signal;
	bool		flex;
	bool		may_add;
};

/*
 * A part of the area of the FREs: len bytes at off, from the start of the section.
 * An address is loaded with four bytes, whatever its width, so buf is a little
 * larger. The FREs of the function end at or before end.
 */
struct sframe_chunk {
	u32		off;
	u32		len;
	u32		end;
	u8		buf[SFRAME_FRE_CHUNK + SFRAME_FRE_ADDR_MAX];
};

static u32 sframe_fde_size(const struct sframe_section *sec)
{
	if (sec->version == SFRAME_VERSION_2)
		return sizeof(struct sframe_fde_v2);

	return sizeof(struct sframe_fde_v3);
}

/*
 * Start of the function of FDE @index, whose bytes are at @raw, minus the base of
 * the section. A corrupt start may wrap. The lookup then finds a wrong
 * rule or none.
 */
static s64 sframe_fde_start(const struct sframe_section *sec, u32 index,
			    const void *raw)
{
	const struct sframe_fde_v2 *v2 = raw;
	const struct sframe_fde_v3 *v3 = raw;
	u64 start;

	if (sec->version == SFRAME_VERSION_2)
		start = (s32)le32_to_cpu(v2->start);
	else
		start = le64_to_cpu(v3->start);

	/* In both versions the start is the first field. */
	if (sec->pcrel)
		start += sec->fdes + index * sframe_fde_size(sec);

	return start;
}

static bool sframe_read_fdes(const struct sframe_section *sec, u32 index, u32 nr,
			     void *buf)
{
	u32 size = sframe_fde_size(sec);

	return sframe_read(sec, sec->fdes + index * size, buf, nr * size);
}

/*
 * Count how many of the @nr FDEs at @raw, which begin with FDE @index, start at or
 * before @addr. They should be sorted, so the loop could stop early. It does not, to
 * have no branch that can be mispredicted.
 */
static u32 sframe_count_fdes(const struct sframe_section *sec, u32 index, u32 nr,
			     s64 addr, const void *raw)
{
	const struct sframe_fde_v2 *v2 = raw;
	const struct sframe_fde_v3 *v3 = raw;
	u32 i, step = 0, count = 0;
	u64 limit = addr;

	/*
	 * Move the address instead of each start, unlike sframe_fde_start(). It
	 * wraps near the limits of 64 bits, where there are no functions.
	 */
	if (sec->pcrel) {
		step = sframe_fde_size(sec);
		limit -= sec->fdes + index * step;
	}

	if (sec->version == SFRAME_VERSION_2) {
		for (i = 0; i < nr; i++, limit -= step)
			count += (s32)le32_to_cpu(v2[i].start) <= (s64)limit;
	} else {
		for (i = 0; i < nr; i++, limit -= step)
			count += (s64)le64_to_cpu(v3[i].start) <= (s64)limit;
	}

	return count;
}

/*
 * Find the last FDE in [@lo, @hi), which is not empty, that starts at or before @addr. This is
 * for kernel memory, where reads are cheap, so each step reads one FDE. If they are not in
 * order, one of them is found.
 */
static u32 sframe_search_data(const struct sframe_section *sec, s64 addr, u32 lo, u32 hi)
{
	u32 mid, nr, off, size = sframe_fde_size(sec);

	for (nr = hi - lo; nr > 1; nr -= nr / 2) {
		mid = lo + nr / 2;
		/* The user controls it. See sframe_read(). */
		off = array_index_nospec(sec->fdes + mid * size, sec->size - size + 1);
		if (sframe_fde_start(sec, mid, sec->data + off) <= addr)
			lo = mid;
	}

	return lo;
}

/*
 * Find the last FDE that starts at or before @addr. Read it, and in user memory some of
 * its neighbours, into @buf, which has SFRAME_WINDOW_SIZE bytes, and set @index.
 *
 * Returns its position in @buf, counted in FDEs, or a negative error code.
 */
static int sframe_search(const struct sframe_section *sec, s64 addr, u8 *buf,
			 u32 *index)
{
	u32 lo, hi, at, nr, count, dist, i, part = 0;
	const u32 *starts = sec->starts;

	if (!sec->num_fdes || addr < sec->first)
		return -ENOENT;

	/* All parts in use start before SFRAME_NO_PART. */
	dist = min_t(u64, (u64)addr - (u64)sec->first, SFRAME_NO_PART - 1);

	/*
	 * These two levels of independent comparisons take a third of the time of a
	 * binary search.
	 */
	for (i = SFRAME_PARTS_ROOT; i < SFRAME_PARTS; i += SFRAME_PARTS_ROOT)
		part += starts[i] <= dist;
	part *= SFRAME_PARTS_ROOT;

	starts += part;
	for (i = 1; i < SFRAME_PARTS_ROOT; i++)
		part += starts[i] <= dist;

	/* From here on the FDE is in [lo, hi). */
	lo = part * sec->part_size;
	hi = sec->num_fdes;
	if (part + 1 < SFRAME_PARTS && sec->starts[part + 1] != SFRAME_NO_PART)
		hi = lo + sec->part_size;

	if (sec->data) {
		*index = sframe_search_data(sec, addr, lo, hi);
		return sframe_read_fdes(sec, *index, 1, buf) ? 0 : -EFAULT;
	}

	for (;;) {
		nr = min_t(u32, hi - lo, SFRAME_WINDOW);
		at = lo + (hi - lo - nr) / 2;

		if (!sframe_read_fdes(sec, at, nr, buf))
			return -EFAULT;

		count = sframe_count_fdes(sec, at, nr, addr, buf);

		/* In each step less than half of the range remains. */
		if (!count && at > lo)
			hi = at;
		else if (count == nr && at + nr < hi)
			lo = at + nr - 1;
		else
			break;
	}

	/* The first FDE of the part started before @addr once: it has changed since. */
	if (!count)
		return -ENOENT;

	*index = at + count - 1;
	return count - 1;
}

/*
 * Move @chunk on by @len bytes, and fill it.
 *
 * If it reaches to the end already, this is an error: the data that the caller needs
 * would be beyond the end.
 */
static int sframe_advance(const struct sframe_section *sec,
			  struct sframe_chunk *chunk, u32 len)
{
	if (chunk->off + chunk->len >= chunk->end)
		return -EINVAL;

	chunk->off += len;
	chunk->len = min_t(u32, chunk->end - chunk->off, SFRAME_FRE_CHUNK);

	if (!sframe_read(sec, chunk->off, chunk->buf, chunk->len))
		return -EFAULT;

	return 0;
}

/*
 * Get the FRE at @pos in @chunk. The user controls its size and the sizes of the
 * FREs before it. If the CPU mispredicts the comparison of @pos with the chunk's
 * length, this must not load from the stack beyond the chunk.
 */
static const u8 *sframe_fre_at(const struct sframe_chunk *chunk, u32 pos)
{
	return chunk->buf + array_index_nospec(pos, SFRAME_FRE_CHUNK);
}

/*
 * Fill @chunk from @off in the area of the FREs: @head bytes and the function's
 * FREs. A lookup uses at most SFRAME_FRES_LEN_MAX bytes of FREs.
 */
static int sframe_fill(const struct sframe_section *sec,
		       struct sframe_chunk *chunk, u32 off, u32 head)
{
	if (off >= sec->fres_end - sec->fres)
		return -EINVAL;

	chunk->off = sec->fres + off;
	chunk->len = 0;
	chunk->end = chunk->off + min_t(u32, sec->fres_end - chunk->off,
					head + SFRAME_FRES_LEN_MAX);

	return sframe_advance(sec, chunk, 0);
}

static int sframe_decode_info(u8 info, u8 rep_size, struct sframe_fde *fde)
{
	if (info & ~(SFRAME_FDE_ADDR_WIDTH | SFRAME_FDE_MASK | SFRAME_FDE_SIGNAL))
		return -EINVAL;

	fde->addr_width	= FIELD_GET(SFRAME_FDE_ADDR_WIDTH, info);
	fde->rep_size	= rep_size;
	fde->mask	= info & SFRAME_FDE_MASK;
	fde->signal	= info & SFRAME_FDE_SIGNAL;

	if (fde->addr_width > SFRAME_WIDTH_MAX || (fde->mask && !rep_size))
		return -EINVAL;

	return 0;
}

/*
 * Decode an FDE of version 2 and fill @chunk with its FREs. @addr is relative to the
 * start of the function.
 */
static int sframe_decode_v2(const struct sframe_section *sec,
			    const struct sframe_fde_v2 *raw, u64 addr,
			    struct sframe_chunk *chunk, struct sframe_fde *fde)
{
	int err;

	if (addr >= le32_to_cpu(raw->size))
		return -ENOENT;

	if (raw->info & SFRAME_FDE_SIGNAL)
		return -EINVAL;

	err = sframe_decode_info(raw->info, raw->rep_size, fde);
	if (err)
		return err;

	fde->num_fres	= le32_to_cpu(raw->num_fres);
	fde->pos	= 0;
	fde->flex	= false;

	/* Without FREs, their offset need not be valid. */
	if (!fde->num_fres)
		return 0;

	return sframe_fill(sec, chunk, le32_to_cpu(raw->fre_off), 0);
}

/* The same for version 3, where FREs follow the second part of the FDE. */
static int sframe_decode_v3(const struct sframe_section *sec,
			    const struct sframe_fde_v3 *raw, u64 addr,
			    struct sframe_chunk *chunk, struct sframe_fde *fde)
{
	const struct sframe_attr_v3 *attr = (const void *)chunk->buf;
	int err;

	if (addr >= le32_to_cpu(raw->size))
		return -ENOENT;

	err = sframe_fill(sec, chunk, le32_to_cpu(raw->fre_off), sizeof(*attr));
	if (err)
		return err;

	if (chunk->len < sizeof(*attr))
		return -EINVAL;

	err = sframe_decode_info(attr->info, attr->rep_size, fde);
	if (err)
		return err;

	fde->num_fres	= le16_to_cpu(attr->num_fres);
	fde->pos	= sizeof(*attr);

	switch (attr->info2) {
	case SFRAME_FDE_DEFAULT:
		fde->flex = false;
		return 0;
	case SFRAME_FDE_FLEX:
		fde->flex = true;
		fde->may_add = sec->may_add;
		return 0;
	default:
		return -EINVAL;
	}
}

/*
 * Find the last FRE whose address is not above @addr. Return its info byte in @info
 * and its words, which are in @chunk. FREs have different sizes, so the only way is
 * to go from one to the next.
 */
static int sframe_find_fre(const struct sframe_section *sec,
			   const struct sframe_fde *fde, u32 addr,
			   struct sframe_chunk *chunk, u8 *info,
			   struct sframe_words *words)
{
	const u32 addr_mask = GENMASK((BITS_PER_BYTE << fde->addr_width) - 1, 0);
	const u32 head = BIT(fde->addr_width) + sizeof(*info);
	u32 i, this, prev = 0;
	u32 size = head;
	u32 pos = fde->pos;
	u32 found = pos;
	const u8 *fre;
	int err;

	*info = 0;

	if (fde->num_fres > SFRAME_FRES_MAX || fde->num_fres > sec->num_fres)
		return -EINVAL;

	for (i = 0; i < fde->num_fres; i++) {
		/* Keep the FRE that was found: the next one may be above @addr. */
		if (pos + head > chunk->len) {
			err = sframe_advance(sec, chunk, found);
			if (err)
				return err;
			pos -= found;
			found = 0;
			if (pos + head > chunk->len)
				return -EINVAL;
		}

		fre = sframe_fre_at(chunk, pos);
		this = get_unaligned_le32(fre) & addr_mask;
		if (this > addr)
			break;
		if (this < prev)
			return -EINVAL;

		prev = this;
		found = pos;

		/*
		 * Compute the size only if the info byte differs from the last one.
		 * So the CPU can predict the branch and go on to the next FRE.
		 */
		if (fre[head - 1] != *info) {
			*info = fre[head - 1];
			size = head + (FIELD_GET(SFRAME_FRE_WORDS, *info) <<
				       FIELD_GET(SFRAME_FRE_WORD_WIDTH, *info));
		}
		pos += size;
	}

	/* The function's first bytes may have no rule. */
	if (!i)
		return -ENOENT;

	if (pos > chunk->len) {
		err = sframe_advance(sec, chunk, found);
		if (err)
			return err;
		pos -= found;
		found = 0;
		if (pos > chunk->len)
			return -EINVAL;
	}

	words->next	= sframe_fre_at(chunk, found) + head;
	words->nr	= FIELD_GET(SFRAME_FRE_WORDS, *info);
	words->width	= FIELD_GET(SFRAME_FRE_WORD_WIDTH, *info);

	return 0;
}

/*
 * Decode the next location in an FRE of a flexible FDE. If there is none, leave @loc
 * as it is. @adds receives the number to add and the second register. It is NULL where
 * SFRAME_FLEX_ADD is not allowed.
 */
static int sframe_decode_flex(struct sframe_words *words,
			      struct unwind_user_loc *loc, struct unwind_user_rule *adds)
{
	u32 control, reg, index = 0;

	if (!words->nr)
		return 0;

	control = sframe_next_unsigned(words);
	/* A placeholder. */
	if (!control)
		return 0;

	reg = control >> SFRAME_FLEX_REG_SHIFT;
	if (control & SFRAME_FLEX_ADD) {
		if (!adds || !(control & SFRAME_FLEX_DEREF) || words->nr < 2)
			return -EINVAL;
		reg = FIELD_GET(SFRAME_FLEX_ADD_REG, control);
		index = control >> SFRAME_FLEX_INDEX_SHIFT;
	}

	if (!words->nr || (reg && !(control & SFRAME_FLEX_REG)))
		return -EINVAL;

	loc->off	= sframe_next_signed(words);
	loc->reg	= reg;
	loc->deref	= control & SFRAME_FLEX_DEREF;
	if (control & SFRAME_FLEX_ADD) {
		adds->cfa_add	= sframe_next_signed(words);
		adds->cfa_index	= index;
	}

	/* Valid, but the walk does not know this register. */
	if (reg >= ARCH_SFRAME_REGS || index > ARCH_SFRAME_REGS)
		return -ENOENT;

	if (!(control & SFRAME_FLEX_REG))
		loc->base = UNWIND_USER_BASE_CFA;
	else if (reg == ARCH_SFRAME_SP)
		loc->base = UNWIND_USER_BASE_SP;
	else if (reg == ARCH_SFRAME_FP)
		loc->base = UNWIND_USER_BASE_FP;
	else
		loc->base = UNWIND_USER_BASE_REG;

	return 0;
}

static int sframe_decode_rule(const struct sframe_fde *fde, u8 info,
			      struct sframe_words *words,
			      struct unwind_user_rule *rule)
{
	int err;

	if (words->width > SFRAME_WIDTH_MAX || (info & SFRAME_FRE_MANGLED_RA))
		return -EINVAL;

	/* An FRE without words marks the outermost frame. */
	if (!words->nr) {
		rule->outermost = true;
		return 0;
	}

	rule->ra.base	= UNWIND_USER_BASE_CFA;
	rule->ra.off	= ARCH_SFRAME_FIXED_RA;
	rule->ra.deref	= true;

	if (fde->flex) {
		err = sframe_decode_flex(words, &rule->cfa, fde->may_add ? rule : NULL);
		if (!err)
			err = sframe_decode_flex(words, &rule->ra, NULL);
		if (err)
			return err;

		err = sframe_decode_flex(words, &rule->fp, NULL);
		/* The frame is found without the frame pointer. */
		if (err == -ENOENT)
			rule->fp = (struct unwind_user_loc) { .base = UNWIND_USER_BASE_NONE };
		else if (err)
			return err;

		/* The CFA cannot be relative to itself, and it cannot be missing. */
		if (rule->cfa.base == UNWIND_USER_BASE_CFA ||
		    rule->cfa.base == UNWIND_USER_BASE_SAME)
			return -EINVAL;
	} else {
		rule->cfa.base	= info & SFRAME_FRE_CFA_SP ? UNWIND_USER_BASE_SP :
							     UNWIND_USER_BASE_FP;
		rule->cfa.off	= sframe_next_signed(words);

		if (words->nr) {
			rule->fp.base	= UNWIND_USER_BASE_CFA;
			rule->fp.off	= sframe_next_signed(words);
			rule->fp.deref	= true;
		}
	}

	/* If there are words left over, the FRE is corrupt. */
	return words->nr ? -EINVAL : 0;
}

/* As sframe_find_rule_or_flaw(), and as sframe_find_rule_within() if @budget is set. */
static int sframe_look_up(const struct sframe_section *sec, unsigned long ip,
			  struct unwind_user_rule *rule, const char **flaw, u32 *budget)
{
	s64 addr = (u64)ip - (u64)sec->base;
	u8 window[SFRAME_WINDOW_SIZE];
	struct sframe_chunk chunk;
	struct sframe_words words;
	struct sframe_fde fde;
	const void *raw;
	u32 index;
	u64 off;
	u8 info;
	int ret;

	ret = sframe_search(sec, addr, window, &index);
	if (ret < 0)
		return ret;

	/* From here on, the offset in the function is used. */
	raw = window + ret * sframe_fde_size(sec);
	off = (u64)addr - (u64)sframe_fde_start(sec, index, raw);

	*flaw = "the FDE";
	if (sec->version == SFRAME_VERSION_2)
		ret = sframe_decode_v2(sec, raw, off, &chunk, &fde);
	else
		ret = sframe_decode_v3(sec, raw, off, &chunk, &fde);
	if (ret)
		return ret;

	*rule = (struct unwind_user_rule) { .signal = fde.signal };

	if (!fde.num_fres)
		return fde.signal ? -ENODATA : -ENOENT;

	if (budget) {
		if (fde.num_fres > *budget)
			return -E2BIG;
		*budget -= fde.num_fres;
	}

	if (fde.mask)
		off = (u32)off % fde.rep_size;

	*flaw = "the list of FREs";
	ret = sframe_find_fre(sec, &fde, off, &chunk, &info, &words);
	if (ret)
		return ret;

	*flaw = "the FRE";
	return sframe_decode_rule(&fde, info, &words, rule);
}

/**
 * sframe_find_rule_or_flaw - Look up the rule for an address
 * @sec:	Section, after sframe_section_init()
 * @ip:		Address in the function: an interrupted instruction pointer, or a
 *		return address minus one. The latter is in the call instruction; the
 *		return address itself may be in another function
 * @rule:	Receives the rule; undefined on errors other than -ENODATA
 * @flaw:	On -EINVAL, receives which part of the section is corrupt
 *
 * Context: Any in which sframe_read() can read the section.
 * Return: 0 - @rule is the rule for @ip;
 *	   -ENOENT - the section has no rule for @ip, or one that
 *	   &struct unwind_user_rule cannot express;
 *	   -ENODATA - @ip is in a signal trampoline whose frame the section does
 *	   not describe; only &unwind_user_rule.signal of @rule is set;
 *	   -EFAULT - the section could not be read;
 *	   -EINVAL - the section is corrupt.
 */
int sframe_find_rule_or_flaw(const struct sframe_section *sec, unsigned long ip,
			     struct unwind_user_rule *rule, const char **flaw)
{
	return sframe_look_up(sec, ip, rule, flaw, NULL);
}

/**
 * sframe_find_rule_within - Look up the rule for an address, with a limit
 * @sec:	As for sframe_find_rule_or_flaw()
 * @ip:		As for sframe_find_rule_or_flaw()
 * @rule:	As for sframe_find_rule_or_flaw()
 * @budget:	How many FREs may be read. Reduced by those that were
 *
 * For callers that must not take long. FREs of a function can only be read from the
 * first one on, and whoever made the section decides how many there are.
 *
 * Context: As sframe_find_rule_or_flaw().
 * Return: -E2BIG if @budget is too small, otherwise as sframe_find_rule_or_flaw().
 */
int sframe_find_rule_within(const struct sframe_section *sec, unsigned long ip,
			    struct unwind_user_rule *rule, u32 *budget)
{
	const char *flaw;

	return sframe_look_up(sec, ip, rule, &flaw, budget);
}

/* Check the header and extract the fields that lookups need. */
static int sframe_decode_header(const struct sframe_header *header,
				struct sframe_section *sec)
{
	u8 flags = SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL;
	u32 body, fdes_len, fdes_end;

	if (le16_to_cpu(header->magic) != SFRAME_MAGIC) {
		/* A section in another byte order is valid, but not supported. */
		if (be16_to_cpu((__force __be16)header->magic) == SFRAME_MAGIC)
			return -EOPNOTSUPP;
		return -EINVAL;
	}

	switch (header->version) {
	case SFRAME_VERSION_2:
		flags |= SFRAME_FLAG_FRAME_POINTER;
		break;
	case SFRAME_VERSION_3:
		if (!(header->flags & SFRAME_FLAG_PCREL))
			return -EINVAL;
		/* The flag of a section in user memory would be one of a later format. */
		if (sec->data)
			flags |= SFRAME_FLAG_ADD;
		break;
	default:
		return -EOPNOTSUPP;
	}

	if (header->abi != ARCH_SFRAME_ABI || (header->flags & ~flags) ||
	    !(header->flags & SFRAME_FLAG_SORTED))
		return -EOPNOTSUPP;

	if (header->fixed_ra != ARCH_SFRAME_FIXED_RA ||
	    header->fixed_fp != ARCH_SFRAME_FIXED_FP)
		return -EINVAL;

	sec->version	= header->version;
	sec->pcrel	= header->flags & SFRAME_FLAG_PCREL;
	sec->may_add	= header->flags & SFRAME_FLAG_ADD;
	sec->num_fdes	= le32_to_cpu(header->num_fdes);
	sec->num_fres	= le32_to_cpu(header->num_fres);

	body = sizeof(*header) + header->aux_len;

	if (check_add_overflow(body, le32_to_cpu(header->fde_off), &sec->fdes) ||
	    check_mul_overflow(sec->num_fdes, sframe_fde_size(sec), &fdes_len) ||
	    check_add_overflow(sec->fdes, fdes_len, &fdes_end) ||
	    fdes_end > sec->size)
		return -EINVAL;

	if (check_add_overflow(body, le32_to_cpu(header->fre_off), &sec->fres) ||
	    check_add_overflow(sec->fres, le32_to_cpu(header->fre_len),
			       &sec->fres_end) ||
	    sec->fres_end > sec->size)
		return -EINVAL;

	if (sec->fdes < sec->fres_end && sec->fres < fdes_end)
		return -EINVAL;

	return 0;
}

/* Read the start of each part of the FDEs. */
static int sframe_index_parts(struct sframe_section *sec)
{
	struct sframe_fde_v2 buf;
	u32 part, index;
	s64 start, prev = 0;
	u64 dist;

	for (part = 0; part < SFRAME_PARTS; part++)
		sec->starts[part] = SFRAME_NO_PART;

	sec->part_size = DIV_ROUND_UP(sec->num_fdes, SFRAME_PARTS);

	for (part = 0; part < SFRAME_PARTS; part++) {
		index = part * sec->part_size;
		if (index >= sec->num_fdes)
			break;

		if (!sframe_read_fdes(sec, index, 1, &buf))
			return -EFAULT;

		start = sframe_fde_start(sec, index, &buf);
		if (!part)
			sec->first = start;
		else if (start < prev)
			return -EINVAL;
		prev = start;

		dist = (u64)start - (u64)sec->first;
		sec->starts[part] = min_t(u64, dist, SFRAME_NO_PART);
	}

	return 0;
}

/**
 * sframe_section_init - Prepare a section for lookups
 * @sec:	Section; &sframe_section.base, &sframe_section.size and
 *		&sframe_section.data are set, the other members are undefined on
 *		error
 *
 * This allocates nothing, so there is no counterpart that frees.
 *
 * Context: Any in which sframe_read() can read the section.
 * Return: 0; -EFAULT - the section could not be read; -EINVAL - the section is
 *	   corrupt or larger than %SFRAME_SIZE_MAX; -EOPNOTSUPP - it is of a
 *	   version or architecture that is not supported, or not sorted.
 */
int sframe_section_init(struct sframe_section *sec)
{
	struct sframe_header header;
	int err;

	if (sec->size < sizeof(header) || sec->size > SFRAME_SIZE_MAX)
		return -EINVAL;

	if (!sframe_read(sec, 0, &header, sizeof(header)))
		return -EFAULT;

	err = sframe_decode_header(&header, sec);
	if (err)
		return err;

	return sframe_index_parts(sec);
}

/* Check all FREs of a function. */
static int sframe_check_fres(const struct sframe_section *sec,
			     const struct sframe_fde *fde,
			     struct sframe_chunk *chunk)
{
	const u32 addr_mask = GENMASK((BITS_PER_BYTE << fde->addr_width) - 1, 0);
	u32 i, addr, size, prev = 0, pos = fde->pos;
	u32 head = BIT(fde->addr_width) + sizeof(u8);
	struct unwind_user_rule rule;
	struct sframe_words words;
	const u8 *fre;
	u8 info;
	int err;

	for (i = 0; i < fde->num_fres; i++, pos += size) {
		/* Keep a whole FRE in the chunk, except at the end of the area. */
		if (pos + SFRAME_FRE_SIZE_MAX > chunk->len &&
		    chunk->off + chunk->len < chunk->end) {
			err = sframe_advance(sec, chunk, pos);
			if (err)
				return err;
			pos = 0;
		}
		if (pos + head > chunk->len)
			return -EINVAL;

		fre = sframe_fre_at(chunk, pos);
		addr = get_unaligned_le32(fre) & addr_mask;
		if (addr < prev)
			return -EINVAL;
		prev = addr;

		info = fre[head - 1];
		words = (struct sframe_words) {
			.next	= fre + head,
			.nr	= FIELD_GET(SFRAME_FRE_WORDS, info),
			.width	= FIELD_GET(SFRAME_FRE_WORD_WIDTH, info),
		};
		size = head + (words.nr << words.width);
		if (pos + size > chunk->len)
			return -EINVAL;

		/* A rule that the walk cannot express is not a flaw. */
		rule = (struct unwind_user_rule) { };
		err = sframe_decode_rule(fde, info, &words, &rule);
		if (err && err != -ENOENT)
			return err;
	}

	return 0;
}

/**
 * sframe_check_function - Check the next function of a section
 * @sec:	Section, after sframe_section_init()
 * @check:	How far the section was checked; advanced if the function is valid
 *
 * Lookups do not need this check, because they cope with any contents. It lets the
 * kernel reject a broken section; otherwise its rules would just be missing. Functions
 * may share FREs, but the FREs count for each function. So the header's number of FREs
 * limits the time that a check takes.
 *
 * Context: Any in which sframe_read() can read the section.
 * Return: 0; -EFAULT - the section could not be read; -EINVAL - it is corrupt: a
 *	   function starts before the previous one, FREs are not where they should
 *	   be, not in order or not valid, or there are more of them than the header
 *	   says.
 */
int sframe_check_function(const struct sframe_section *sec,
			  struct sframe_check *check)
{
	struct sframe_chunk chunk = { };
	struct sframe_fde fde = { };
	struct sframe_fde_v2 raw;
	s64 start;
	int ret;

	if (!sframe_read_fdes(sec, check->index, 1, &raw))
		return -EFAULT;

	start = sframe_fde_start(sec, check->index, &raw);
	if (check->index && start < check->start)
		return -EINVAL;

	/* Decode at offset 0. An empty function has no FREs and is never found. */
	if (sec->version == SFRAME_VERSION_2)
		ret = sframe_decode_v2(sec, &raw, 0, &chunk, &fde);
	else
		ret = sframe_decode_v3(sec, (const void *)&raw, 0, &chunk, &fde);
	if (ret && ret != -ENOENT)
		return ret;

	if (!ret) {
		if (fde.num_fres > SFRAME_FRES_MAX ||
		    check->num_fres + fde.num_fres > sec->num_fres)
			return -EINVAL;

		ret = sframe_check_fres(sec, &fde, &chunk);
		if (ret)
			return ret;
		check->num_fres += fde.num_fres;
	}

	check->start = start;
	check->index++;

	return 0;
}
