// SPDX-License-Identifier: GPL-2.0
/*
 * Writer of SFrame tables, version 3
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <linux/bitfield.h>
#include <linux/kernel.h>
#include <linux/unaligned.h>
#include <linux/zalloc.h>

#include "util/sframe.h"

/* A row has three locations of at most two words each, and a number to add to the CFA. */
#define SFRAME_ROW_WORDS	7

/* The hash table has at least this many slots per entry. */
#define SFRAME_HASH_LOAD	2
#define SFRAME_HASH_MIN		512
/* A search looks at no more slots than this. It hardly ever needs more. */
#define SFRAME_HASH_PROBES	64

struct sframe_index {
	u64	start;
	u32	size;
	u32	fre_off;
	bool	derived;
};

/**
 * struct sframe_rows - Attributes and rows that functions may share
 * @hash:	Hash of their bytes, 0 if the slot is empty
 * @off:	Offset of the bytes
 * @len:	Number of bytes
 *
 * The address of a row is relative to the start of its function. So functions that
 * are built alike have the same rows, and they may share them. This makes tables a
 * quarter smaller.
 */
struct sframe_rows {
	u32	hash;
	u32	off;
	u32	len;
};

/**
 * struct sframe_writer - A table that is being made
 * @index:	One entry per function
 * @nr:		Number of entries
 * @room:	Number of entries that fit
 * @fres:	Attributes and rows of all functions
 * @fres_len:	Number of their bytes
 * @fres_room:	Number of bytes that fit
 * @nr_rows:	Number of the rows of all functions
 * @adds:	A row needs SFRAME_FLAG_ADD
 * @derives:	A function has rules that were derived from instructions
 * @shared:	Hash table of attributes and rows that functions may share
 * @nr_shared:	Number of its entries
 * @room_shared: Number of its slots, a power of two
 */
struct sframe_writer {
	struct sframe_index	*index;
	size_t			nr;
	size_t			room;
	u8			*fres;
	size_t			fres_len;
	size_t			fres_room;
	u64			nr_rows;
	bool			adds;
	bool			derives;
	struct sframe_rows	*shared;
	size_t			nr_shared;
	size_t			room_shared;
};

struct sframe_writer *sframe_writer__new(void)
{
	return zalloc(sizeof(struct sframe_writer));
}

void sframe_writer__delete(struct sframe_writer *writer)
{
	if (!writer)
		return;

	zfree(&writer->index);
	zfree(&writer->fres);
	zfree(&writer->shared);
	free(writer);
}

/* Make room for one more function with up to @size bytes of attributes and rows. */
static int sframe_writer__reserve(struct sframe_writer *writer, size_t size)
{
	size_t room;
	void *new;

	if (writer->fres_len + size > SFRAME_TABLE_SIZE_MAX)
		return -EFBIG;

	if (writer->nr == writer->room) {
		room = max(writer->room * 2, (size_t)256);
		new = realloc(writer->index, room * sizeof(*writer->index));
		if (!new)
			return -ENOMEM;
		writer->index = new;
		writer->room = room;
	}

	if (writer->fres_len + size > writer->fres_room) {
		room = max(writer->fres_room * 2, writer->fres_len + size);
		new = realloc(writer->fres, room);
		if (!new)
			return -ENOMEM;
		writer->fres = new;
		writer->fres_room = room;
	}

	return 0;
}

static u32 sframe_rows__hash(const u8 *data, size_t len)
{
	u32 hash = 0x811c9dc5;

	while (len--)
		hash = (hash ^ *data++) * 0x01000193;

	return hash ?: 1;
}

/* Returns the slot of these bytes, or the empty slot where they belong, or NULL. */
static struct sframe_rows *sframe_writer__place(struct sframe_writer *writer,
						const u8 *data, size_t len, u32 hash)
{
	struct sframe_rows *rows;
	size_t i;

	for (i = 0; i < SFRAME_HASH_PROBES; i++) {
		rows = &writer->shared[(hash + i) & (writer->room_shared - 1)];
		if (!rows->hash ||
		    (data && rows->hash == hash && rows->len == len &&
		     !memcmp(writer->fres + rows->off, data, len)))
			return rows;
	}

	return NULL;
}

static int sframe_writer__grow_shared(struct sframe_writer *writer)
{
	size_t i, old_room = writer->room_shared;
	struct sframe_rows *old = writer->shared, *new, *place;
	size_t room = max(old_room * 2, (size_t)SFRAME_HASH_MIN);

	if (writer->nr_shared * SFRAME_HASH_LOAD < old_room)
		return 0;

	new = calloc(room, sizeof(*new));
	if (!new)
		return -ENOMEM;

	writer->shared = new;
	writer->room_shared = room;
	for (i = 0; i < old_room; i++) {
		if (!old[i].hash)
			continue;
		place = sframe_writer__place(writer, NULL, 0, old[i].hash);
		if (place)
			*place = old[i];
	}
	free(old);

	return 0;
}

static void sframe_put(u8 **at, u64 value, unsigned int size)
{
	while (size--) {
		*(*at)++ = value;
		value >>= 8;
	}
}

static bool sframe_rule__plain(const struct sframe_rule *rule)
{
	const struct sframe_loc *cfa = &rule->cfa, *ra = &rule->ra, *fp = &rule->fp;

	return rule->outermost ||
	       (!cfa->deref && (cfa->reg == SFRAME_AMD64_SP || cfa->reg == SFRAME_AMD64_FP) &&
		ra->base == SFRAME_BASE_CFA && ra->deref && ra->off == SFRAME_AMD64_RA_OFF &&
		(fp->base == SFRAME_BASE_SAME || (fp->base == SFRAME_BASE_CFA && fp->deref)));
}

static unsigned int sframe_loc__words(const struct sframe_loc *loc, s32 *words)
{
	u32 control = loc->deref ? SFRAME_FLEX_DEREF : 0;

	/* The return address is no register that the kernel knows. */
	if (loc->base == SFRAME_BASE_NONE) {
		words[0] = SFRAME_FLEX_REG | SFRAME_AMD64_IP << SFRAME_FLEX_REG_SHIFT;
		words[1] = 0;
		return 2;
	}

	if (loc->base == SFRAME_BASE_REG)
		control |= SFRAME_FLEX_REG | loc->reg << SFRAME_FLEX_REG_SHIFT;

	/* 0 means the usual location. The CFA as a value would be 0, too. */
	words[0] = control;
	if (!control)
		return 1;

	words[1] = loc->off;
	if (!sframe_loc__adds(loc))
		return 2;

	words[0] |= SFRAME_FLEX_ADD | loc->index << SFRAME_FLEX_INDEX_SHIFT;
	words[2] = loc->add;
	return 3;
}

static unsigned int sframe_rule__words(const struct sframe_rule *rule, bool flex,
				       s32 *words)
{
	const struct sframe_loc *ra = &rule->ra, *fp = &rule->fp;
	unsigned int nr = 0;
	bool usual;

	if (rule->outermost)
		return 0;

	if (!flex) {
		words[nr++] = rule->cfa.off;
		if (fp->base != SFRAME_BASE_SAME)
			words[nr++] = fp->off;
		return nr;
	}

	nr = sframe_loc__words(&rule->cfa, words);

	/* The usual return address needs a placeholder only if @fp follows. */
	usual = ra->base == SFRAME_BASE_CFA && ra->deref && ra->off == SFRAME_AMD64_RA_OFF;
	if (!usual)
		nr += sframe_loc__words(ra, words + nr);
	else if (fp->base != SFRAME_BASE_SAME)
		words[nr++] = 0;

	if (fp->base != SFRAME_BASE_SAME)
		nr += sframe_loc__words(fp, words + nr);

	return nr;
}

static void sframe_put_row(u8 **at, const struct sframe_row *row, bool flex,
			   unsigned int addr_width)
{
	const struct sframe_rule *rule = &row->rule;
	unsigned int i, nr, width = 0;
	s32 words[SFRAME_ROW_WORDS];
	u8 info;

	nr = sframe_rule__words(rule, flex, words);
	for (i = 0; i < nr; i++) {
		if (words[i] != (s16)words[i])
			width = 2;
		else if (words[i] != (s8)words[i])
			width = max(width, 1U);
	}

	info = FIELD_PREP(SFRAME_FRE_WORDS, nr) | FIELD_PREP(SFRAME_FRE_WORD_WIDTH, width);
	if (nr && !flex && rule->cfa.reg == SFRAME_AMD64_SP)
		info |= SFRAME_FRE_CFA_SP;

	sframe_put(at, row->addr, BIT(addr_width));
	sframe_put(at, info, sizeof(info));
	for (i = 0; i < nr; i++)
		sframe_put(at, (s64)words[i], BIT(width));
}

static bool sframe_loc__valid(const struct sframe_loc *loc)
{
	switch (loc->base) {
	case SFRAME_BASE_SAME:
		return true;
	case SFRAME_BASE_CFA:
		/* The CFA as a value would look like a placeholder. */
		return loc->deref;
	case SFRAME_BASE_REG:
		return loc->reg < SFRAME_AMD64_REGS;
	case SFRAME_BASE_NONE:
	default:
		return false;
	}
}

static bool sframe_rule__valid(const struct sframe_rule *rule)
{
	return rule->outermost ||
	       (rule->cfa.base == SFRAME_BASE_REG && sframe_loc__valid(&rule->cfa) &&
		(!sframe_loc__adds(&rule->cfa) || rule->cfa.deref) &&
		rule->cfa.index <= SFRAME_AMD64_REGS &&
		!sframe_loc__adds(&rule->ra) && !sframe_loc__adds(&rule->fp) &&
		rule->ra.base != SFRAME_BASE_SAME && sframe_loc__valid(&rule->ra) &&
		(rule->fp.base == SFRAME_BASE_NONE || sframe_loc__valid(&rule->fp)));
}

/**
 * sframe_writer__add - Add a function
 * @writer:	Table
 * @function:	Function to add; it must not start before the end of the previous one
 * @rows:	Its rows, sorted by address
 *
 * Return: 0; -ENOMEM; -EFBIG - the table is full; -EINVAL - the function is out of
 *	   order, or the format cannot express it.
 */
int sframe_writer__add(struct sframe_writer *writer,
		       const struct sframe_function *function,
		       const struct sframe_row *rows)
{
	const u32 limit = function->rep_size ?: function->size;
	const struct sframe_index *prev = NULL;
	u32 i, last = 0, width = 0;
	struct sframe_index *index;
	struct sframe_rows *shared;
	bool flex = false, adds = false;
	u8 *at, *from, info;
	u32 hash;
	int err;

	if (writer->nr)
		prev = &writer->index[writer->nr - 1];

	if (!function->size || function->start + function->size < function->start ||
	    (prev && function->start < prev->start + prev->size) ||
	    function->nr_rows > USHRT_MAX || (!function->nr_rows && !function->signal))
		return -EINVAL;

	for (i = 0; i < function->nr_rows; i++) {
		if (rows[i].addr >= limit || (i && rows[i].addr <= last) ||
		    !sframe_rule__valid(&rows[i].rule))
			return -EINVAL;
		last = rows[i].addr;
		flex |= !sframe_rule__plain(&rows[i].rule);
		adds |= !rows[i].rule.outermost && sframe_loc__adds(&rows[i].rule.cfa);
	}
	if (last > USHRT_MAX)
		width = 2;
	else if (last > UCHAR_MAX)
		width = 1;

	err = sframe_writer__reserve(writer, sizeof(struct sframe_attr_v3) +
				     function->nr_rows * (size_t)(BIT(width) + sizeof(info) +
					     SFRAME_ROW_WORDS * BIT(SFRAME_WIDTH_MAX)));
	if (!err)
		err = sframe_writer__grow_shared(writer);
	if (err)
		return err;

	index = &writer->index[writer->nr++];
	index->start   = function->start;
	index->size    = function->size;
	index->fre_off = writer->fres_len;
	index->derived = function->derived;
	writer->derives |= function->derived;

	info = width;
	if (function->rep_size)
		info |= SFRAME_FDE_MASK;
	if (function->signal)
		info |= SFRAME_FDE_SIGNAL;

	from = writer->fres + writer->fres_len;
	at = from;
	sframe_put(&at, function->nr_rows, sizeof(u16));
	sframe_put(&at, info, sizeof(info));
	sframe_put(&at, flex ? SFRAME_FDE_FLEX : 0, sizeof(u8));
	sframe_put(&at, function->rep_size, sizeof(u8));
	for (i = 0; i < function->nr_rows; i++)
		sframe_put_row(&at, &rows[i], flex, width);

	writer->nr_rows += function->nr_rows;
	writer->adds |= adds;

	/*
	 * Limit the time to decode the whole table: share rows only while the table
	 * has no more rows than bytes.
	 */
	hash = sframe_rows__hash(from, at - from);
	shared = sframe_writer__place(writer, from, at - from, hash);
	if (shared && shared->hash && writer->nr_rows <= writer->fres_len) {
		index->fre_off = shared->off;
		return 0;
	}

	if (shared && !shared->hash) {
		*shared = (struct sframe_rows) {
			.hash = hash, .off = writer->fres_len, .len = at - from,
		};
		writer->nr_shared++;
	}
	writer->fres_len = at - writer->fres;

	return 0;
}

/**
 * sframe_writer__finish - Put the table together
 * @writer:	Table with all its functions
 * @aux:	Contents of the auxiliary header; this function sets its size and its marks
 * @data:	Receives the table; the caller frees it
 * @size:	Receives its length
 *
 * Return: 0; -ENOMEM; -EFBIG - the kernel accepts no table of this size.
 */
int sframe_writer__finish(struct sframe_writer *writer, struct sframe_aux *aux,
			  void **data, size_t *size)
{
	const size_t fdes = sizeof(struct sframe_header) + sizeof(*aux);
	const size_t fdes_len = writer->nr * sizeof(struct sframe_fde_v3);
	const size_t marks = fdes + fdes_len + writer->fres_len;
	size_t i, total = marks;
	u8 *buf, *at;

	if (writer->derives)
		total += DIV_ROUND_UP(writer->nr, BITS_PER_BYTE);
	if (total > SFRAME_TABLE_SIZE_MAX || writer->nr_rows > UINT_MAX)
		return -EFBIG;

	buf = malloc(total);
	if (!buf)
		return -ENOMEM;

	at = buf;
	sframe_put(&at, SFRAME_MAGIC, sizeof(u16));
	sframe_put(&at, SFRAME_VERSION_3, sizeof(u8));
	sframe_put(&at, SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL |
		   (writer->adds ? SFRAME_FLAG_ADD : 0), sizeof(u8));
	sframe_put(&at, SFRAME_ABI_AMD64, sizeof(u8));
	sframe_put(&at, 0, sizeof(u8));
	sframe_put(&at, SFRAME_AMD64_RA_OFF, sizeof(u8));
	sframe_put(&at, sizeof(*aux), sizeof(u8));
	sframe_put(&at, writer->nr, sizeof(u32));
	sframe_put(&at, writer->nr_rows, sizeof(u32));
	sframe_put(&at, writer->fres_len, sizeof(u32));
	sframe_put(&at, 0, sizeof(u32));
	sframe_put(&at, fdes_len, sizeof(u32));

	put_unaligned_le64(total, &aux->size);
	put_unaligned_le32(writer->derives ? marks : 0, &aux->marks);
	memcpy(at, aux, sizeof(*aux));
	at += sizeof(*aux);

	for (i = 0; i < writer->nr; i++) {
		/* Relative to the field itself, with the table at address 0 */
		sframe_put(&at, writer->index[i].start - (at - buf), sizeof(u64));
		sframe_put(&at, writer->index[i].size, sizeof(u32));
		sframe_put(&at, writer->index[i].fre_off, sizeof(u32));
	}
	if (writer->fres_len)
		memcpy(at, writer->fres, writer->fres_len);

	/* The kernel does not read what follows. */
	memset(buf + marks, 0, total - marks);
	for (i = 0; i < writer->nr; i++) {
		if (writer->index[i].derived)
			buf[marks + i / BITS_PER_BYTE] |= BIT(i % BITS_PER_BYTE);
	}

	*data = buf;
	*size = total;

	return 0;
}
