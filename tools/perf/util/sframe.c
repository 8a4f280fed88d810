// SPDX-License-Identifier: GPL-2.0
/*
 * Reader of SFrame sections and tables
 *
 * The reader never reads beyond the data, and each of its loops ends, whatever the
 * data contains. It compares each offset with the bounds before it uses the offset.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <linux/bitfield.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include "util/sframe.h"

/* The format fixes these sizes. */
_Static_assert(sizeof(struct sframe_header) == 28, "header");
_Static_assert(sizeof(struct sframe_fde_v2) == 20, "FDE of version 2");
_Static_assert(sizeof(struct sframe_fde_v3) == 16, "FDE of version 3");
_Static_assert(sizeof(struct sframe_attr_v3) == 5, "attributes of version 3");
/* The length field has one byte, and the FDEs after the header must be aligned. */
_Static_assert(sizeof(struct sframe_aux) <= 255 &&
	       !((sizeof(struct sframe_header) + sizeof(struct sframe_aux)) % 8),
	       "auxiliary header");

static bool sframe_loc__equal(const struct sframe_loc *a, const struct sframe_loc *b)
{
	if (a->base != b->base)
		return false;
	if (a->base == SFRAME_BASE_SAME || a->base == SFRAME_BASE_NONE)
		return true;
	if (a->base == SFRAME_BASE_REG && a->reg != b->reg)
		return false;

	return a->off == b->off && a->deref == b->deref && a->add == b->add &&
	       a->index == b->index;
}

bool sframe_rule__equal(const struct sframe_rule *a, const struct sframe_rule *b)
{
	if (a->outermost || b->outermost)
		return a->outermost == b->outermost;

	return sframe_loc__equal(&a->cfa, &b->cfa) &&
	       sframe_loc__equal(&a->ra, &b->ra) &&
	       sframe_loc__equal(&a->fp, &b->fp);
}

static int sframe_loc__scnprintf(const struct sframe_loc *loc, char *buf, size_t size)
{
	static const char * const names[SFRAME_AMD64_REGS] = {
		"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	};
	const char *base = "cfa";
	char off[16] = "", add[16] = "", index[16] = "";

	if (loc->base == SFRAME_BASE_SAME)
		return scnprintf(buf, size, "same");
	if (loc->base == SFRAME_BASE_NONE)
		return scnprintf(buf, size, "unknown");
	if (loc->base == SFRAME_BASE_REG)
		base = names[loc->reg % SFRAME_AMD64_REGS];
	if (loc->off)
		scnprintf(off, sizeof(off), "%+d", loc->off);
	if (loc->index)
		scnprintf(index, sizeof(index), "+8*%s",
			  names[(loc->index - 1) % SFRAME_AMD64_REGS]);
	if (loc->add)
		scnprintf(add, sizeof(add), "%+d", loc->add);

	return scnprintf(buf, size, loc->deref ? "*(%s%s%s)%s" : "%s%s%s%s",
			 base, index, off, add);
}

/**
 * sframe_rule__scnprintf - Print a rule, like "cfa rsp+16 ra *(cfa-8) fp *(cfa-16)"
 * @rule:	Rule
 * @buf:	Receives the text
 * @size:	Size of @buf
 *
 * Return: the length of the text.
 */
int sframe_rule__scnprintf(const struct sframe_rule *rule, char *buf, size_t size)
{
	int len;

	if (rule->outermost)
		return scnprintf(buf, size, "outermost");

	len = scnprintf(buf, size, "cfa ");
	len += sframe_loc__scnprintf(&rule->cfa, buf + len, size - len);
	len += scnprintf(buf + len, size - len, " ra ");
	len += sframe_loc__scnprintf(&rule->ra, buf + len, size - len);
	len += scnprintf(buf + len, size - len, " fp ");
	len += sframe_loc__scnprintf(&rule->fp, buf + len, size - len);

	return len;
}

static u32 sframe_reader__fde_size(const struct sframe_reader *reader)
{
	return reader->version == SFRAME_VERSION_2 ? sizeof(struct sframe_fde_v2) :
						     sizeof(struct sframe_fde_v3);
}

/**
 * sframe_reader__aux - Get the auxiliary header that perf wrote
 * @reader:	Table
 * @aux:	Receives the header
 *
 * Return: 0; -ENOENT - perf did not make this table, or another version of perf did.
 */
int sframe_reader__aux(const struct sframe_reader *reader, struct sframe_aux *aux)
{
	if (reader->aux_len != sizeof(*aux))
		return -ENOENT;

	memcpy(aux, reader->data + sizeof(struct sframe_header), sizeof(*aux));
	if (memcmp(aux->magic, SFRAME_AUX_MAGIC, sizeof(aux->magic)) ||
	    le32_to_cpu(aux->version) != SFRAME_AUX_VERSION ||
	    aux->build_id_size > sizeof(aux->build_id))
		return -ENOENT;

	return 0;
}

static int sframe_reader__find_marks(struct sframe_reader *reader)
{
	struct sframe_aux aux;

	reader->marks = 0;
	if (sframe_reader__aux(reader, &aux))
		return 0;

	reader->marks = get_unaligned_le32(&aux.marks);
	if (reader->marks && (u64)reader->marks +
	    DIV_ROUND_UP((u64)reader->num_fdes, BITS_PER_BYTE) > reader->size)
		return -EINVAL;

	return 0;
}

/**
 * sframe_reader__init - Prepare to read a section or table
 * @reader:	Reader to set up
 * @data:	The section or table; must stay valid as long as @reader is in use
 * @size:	Its length
 * @base:	Its address: that of the section, or 0 for tables made by perf
 *
 * Return: 0; -EINVAL - this is not SFrame data, or it is damaged; -EOPNOTSUPP - it
 *	   is of another version, machine or byte order.
 */
int sframe_reader__init(struct sframe_reader *reader, const void *data,
			size_t size, u64 base)
{
	const struct sframe_header *header = data;
	u64 body, fdes, fdes_end, fres, fres_end;

	if (size < sizeof(*header) || size > SFRAME_SIZE_MAX)
		return -EINVAL;

	if (get_unaligned_le16(&header->magic) != SFRAME_MAGIC) {
		if (get_unaligned_be16(&header->magic) == SFRAME_MAGIC)
			return -EOPNOTSUPP;
		return -EINVAL;
	}

	if ((header->version != SFRAME_VERSION_2 &&
	     header->version != SFRAME_VERSION_3) ||
	    header->abi != SFRAME_ABI_AMD64)
		return -EOPNOTSUPP;

	if (header->fixed_ra != SFRAME_AMD64_RA_OFF || header->fixed_fp)
		return -EINVAL;
	if (header->version == SFRAME_VERSION_3 && !(header->flags & SFRAME_FLAG_PCREL))
		return -EINVAL;

	reader->data	 = data;
	reader->size	 = size;
	reader->base	 = base;
	reader->version	 = header->version;
	reader->flags	 = header->flags;
	reader->aux_len	 = header->aux_len;
	reader->num_fdes = get_unaligned_le32(&header->num_fdes);
	reader->num_fres = get_unaligned_le32(&header->num_fres);

	body	 = sizeof(*header) + header->aux_len;
	fdes	 = body + get_unaligned_le32(&header->fde_off);
	fdes_end = fdes + (u64)reader->num_fdes * sframe_reader__fde_size(reader);
	fres	 = body + get_unaligned_le32(&header->fre_off);
	fres_end = fres + get_unaligned_le32(&header->fre_len);

	if (body > size || fdes_end > size || fres_end > size)
		return -EINVAL;

	reader->fdes	 = fdes;
	reader->fres	 = fres;
	reader->fres_end = fres_end;

	return sframe_reader__find_marks(reader);
}

static int sframe_reader__info(u8 info, u8 rep_size, struct sframe_function *function)
{
	if (info & ~(SFRAME_FDE_ADDR_WIDTH | SFRAME_FDE_MASK | SFRAME_FDE_SIGNAL))
		return -EINVAL;

	function->width	   = info & SFRAME_FDE_ADDR_WIDTH;
	function->signal   = info & SFRAME_FDE_SIGNAL;
	function->rep_size = info & SFRAME_FDE_MASK ? rep_size : 0;

	if (function->width > SFRAME_WIDTH_MAX ||
	    ((info & SFRAME_FDE_MASK) && !rep_size))
		return -EINVAL;

	return 0;
}

/**
 * sframe_reader__function - Decode an FDE
 * @reader:	Section or table
 * @index:	Number of the FDE, less than @reader->num_fdes
 * @function:	Receives the FDE
 *
 * Return: 0; -EINVAL - it is damaged.
 */
int sframe_reader__function(const struct sframe_reader *reader, u32 index,
			    struct sframe_function *function)
{
	u32 off = reader->fdes + index * sframe_reader__fde_size(reader);
	const void *raw = reader->data + off;
	const struct sframe_fde_v2 *v2 = raw;
	const struct sframe_fde_v3 *v3 = raw;
	const struct sframe_attr_v3 *attr;
	u64 start, pos;

	if (index >= reader->num_fdes)
		return -EINVAL;

	function->derived = reader->marks && (reader->data[reader->marks + index / BITS_PER_BYTE] &
					      BIT(index % BITS_PER_BYTE));

	if (reader->version == SFRAME_VERSION_2) {
		start		   = (s32)get_unaligned_le32(&v2->start);
		function->size	   = get_unaligned_le32(&v2->size);
		function->nr_rows  = get_unaligned_le32(&v2->num_fres);
		function->flex	   = false;
		pos = (u64)reader->fres + get_unaligned_le32(&v2->fre_off);
	} else {
		start		   = get_unaligned_le64(&v3->start);
		function->size	   = get_unaligned_le32(&v3->size);
		pos = (u64)reader->fres + get_unaligned_le32(&v3->fre_off);
	}

	start += reader->base;
	if (reader->flags & SFRAME_FLAG_PCREL)
		start += off;
	function->start = start;

	if (reader->version == SFRAME_VERSION_2) {
		/* Without rows the position does not matter. */
		if (pos > reader->fres_end && function->nr_rows)
			return -EINVAL;
		function->pos = pos;
		return sframe_reader__info(v2->info & ~SFRAME_FDE_SIGNAL,
					   v2->rep_size, function);
	}

	if (pos + sizeof(*attr) > reader->fres_end)
		return -EINVAL;
	attr = (const void *)(reader->data + pos);
	if (attr->info2 & ~SFRAME_FDE_FLEX)
		return -EINVAL;

	function->nr_rows = get_unaligned_le16(&attr->num_fres);
	function->flex	  = attr->info2 & SFRAME_FDE_FLEX;
	function->pos	  = pos + sizeof(*attr);

	return sframe_reader__info(attr->info, attr->rep_size, function);
}

struct sframe_words {
	const u8	*next;
	u8		nr;
	u8		width;
};

static s32 sframe_words__signed(struct sframe_words *words)
{
	const u8 *word = words->next;

	words->next += BIT(words->width);
	words->nr--;

	switch (words->width) {
	case 0:
		return (s8)*word;
	case 1:
		return (s16)get_unaligned_le16(word);
	default:
		return (s32)get_unaligned_le32(word);
	}
}

static u32 sframe_words__unsigned(struct sframe_words *words)
{
	u32 word = sframe_words__signed(words);

	return words->width < SFRAME_WIDTH_MAX ? word & (BIT(8 << words->width) - 1) :
						 word;
}

static int sframe_words__loc(struct sframe_words *words, bool may_add, struct sframe_loc *loc)
{
	u32 control, reg, index = 0;

	if (!words->nr)
		return 0;

	control = sframe_words__unsigned(words);
	if (!control)
		return 0;

	reg = control >> SFRAME_FLEX_REG_SHIFT;
	if (control & SFRAME_FLEX_ADD) {
		if (!may_add || !(control & SFRAME_FLEX_DEREF) || words->nr < 2)
			return -EINVAL;
		reg = FIELD_GET(SFRAME_FLEX_ADD_REG, control);
		index = control >> SFRAME_FLEX_INDEX_SHIFT;
	}
	if (!words->nr || (reg && !(control & SFRAME_FLEX_REG)))
		return -EINVAL;

	loc->base  = control & SFRAME_FLEX_REG ? SFRAME_BASE_REG : SFRAME_BASE_CFA;
	loc->reg   = reg;
	loc->deref = control & SFRAME_FLEX_DEREF;
	loc->off   = sframe_words__signed(words);
	loc->add   = control & SFRAME_FLEX_ADD ? sframe_words__signed(words) : 0;
	loc->index = index;

	return reg < SFRAME_AMD64_REGS && index <= SFRAME_AMD64_REGS ? 0 : -ENOENT;
}

/* If the frame pointer is in another register, it cannot be found. */
static int sframe_words__fp(struct sframe_words *words, struct sframe_loc *loc)
{
	int err = sframe_words__loc(words, false, loc);

	if (err != -ENOENT)
		return err;

	*loc = (struct sframe_loc) { .base = SFRAME_BASE_NONE };
	return 0;
}

static int sframe_words__rule(struct sframe_words *words, bool flex, bool may_add, bool sp,
			      struct sframe_rule *rule)
{
	int err;

	*rule = (struct sframe_rule) {
		.ra = {
			.base	= SFRAME_BASE_CFA,
			.deref	= true,
			.off	= SFRAME_AMD64_RA_OFF,
		},
	};

	if (!words->nr) {
		rule->outermost = true;
		return 0;
	}

	if (flex) {
		err = sframe_words__loc(words, may_add, &rule->cfa);
		if (!err)
			err = sframe_words__loc(words, false, &rule->ra);
		if (!err)
			err = sframe_words__fp(words, &rule->fp);
		if (err)
			return -EINVAL;
		if (rule->cfa.base != SFRAME_BASE_REG)
			return -EINVAL;
	} else {
		rule->cfa.base = SFRAME_BASE_REG;
		rule->cfa.reg  = sp ? SFRAME_AMD64_SP : SFRAME_AMD64_FP;
		rule->cfa.off  = sframe_words__signed(words);
		if (words->nr) {
			rule->fp.base  = SFRAME_BASE_CFA;
			rule->fp.deref = true;
			rule->fp.off   = sframe_words__signed(words);
		}
	}

	return words->nr ? -EINVAL : 0;
}

/**
 * sframe_reader__row - Decode an FRE
 * @reader:	Section or table
 * @function:	From sframe_reader__function()
 * @pos:	Offset of the row, at first @function->pos; moves to the next row
 * @row:	Receives the row
 *
 * The caller must stop after @function->nr_rows rows.
 *
 * Return: 0; -EINVAL - it is damaged.
 */
int sframe_reader__row(const struct sframe_reader *reader,
		       const struct sframe_function *function, u32 *pos,
		       struct sframe_row *row)
{
	const u32 width = BIT(function->width);
	const u8 *raw = reader->data + *pos;
	struct sframe_words words;
	u64 end = *pos;
	u8 info;

	end += width + sizeof(info);
	if (end > reader->fres_end)
		return -EINVAL;

	switch (function->width) {
	case 0:
		row->addr = *raw;
		break;
	case 1:
		row->addr = get_unaligned_le16(raw);
		break;
	default:
		row->addr = get_unaligned_le32(raw);
		break;
	}

	info	    = raw[width];
	words.nr    = FIELD_GET(SFRAME_FRE_WORDS, info);
	words.width = FIELD_GET(SFRAME_FRE_WORD_WIDTH, info);
	words.next  = raw + width + sizeof(info);

	end += words.nr << words.width;
	if (words.width > SFRAME_WIDTH_MAX || (info & SFRAME_FRE_MANGLED_RA) ||
	    end > reader->fres_end)
		return -EINVAL;

	*pos = end;
	return sframe_words__rule(&words, function->flex, reader->flags & SFRAME_FLAG_ADD,
				  info & SFRAME_FRE_CFA_SP, &row->rule);
}

/**
 * sframe_reader__find - Look up the rule for an address
 * @reader:	Section or table, sorted
 * @addr:	Address, below @end
 * @rule:	Receives the rule
 * @signal:	Receives whether the code returns from a signal handler
 * @end:	End of the addresses that the caller asks about; this function
 *		lowers it to the next address at which the result may change
 *
 * Return: 0; -ENOENT - there is no rule; -ENODATA - there is no rule, and the code
 *	   returns from a signal handler; -EINVAL - the data is damaged.
 */
int sframe_reader__find(const struct sframe_reader *reader, u64 addr,
			struct sframe_rule *rule, bool *signal, u64 *end)
{
	u32 lo = 0, hi = reader->num_fdes, mid, pos, i;
	struct sframe_function fn;
	u64 off, block = 0, next;
	struct sframe_row row;
	int err, ret;

	/* The last function that starts at or before @addr is below index @hi. */
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		err = sframe_reader__function(reader, mid, &fn);
		if (err)
			return err;
		if (fn.start <= addr) {
			lo = mid + 1;
		} else {
			*end = min(*end, fn.start);
			hi = mid;
		}
	}

	*signal = false;
	if (!lo)
		return -ENOENT;

	err = sframe_reader__function(reader, lo - 1, &fn);
	if (err)
		return err;

	off = addr - fn.start;
	if (off >= fn.size)
		return -ENOENT;

	*end = min(*end, fn.start + fn.size);
	*signal = fn.signal;
	if (!fn.nr_rows)
		return fn.signal ? -ENODATA : -ENOENT;

	if (fn.rep_size) {
		block = off - off % fn.rep_size;
		off -= block;
		/* The last block may be cut, and its full length could overflow. */
		next = min(block + fn.rep_size, (u64)fn.size);
		*end = min(*end, fn.start + next);
	}

	ret = -ENOENT;
	for (i = 0, pos = fn.pos; i < fn.nr_rows; i++) {
		err = sframe_reader__row(reader, &fn, &pos, &row);
		if (err)
			return err;
		if (row.addr > off) {
			next = min(block + row.addr, (u64)fn.size);
			*end = min(*end, fn.start + next);
			break;
		}
		*rule = row.rule;
		ret = 0;
	}

	return ret;
}

/**
 * sframe_reader__is_derived - Were the rules at an address derived from instructions?
 * @reader:	Table, sorted
 * @addr:	Address for which sframe_reader__find() has found a rule
 *
 * Return: true if so.
 */
bool sframe_reader__is_derived(const struct sframe_reader *reader, u64 addr)
{
	u32 lo = 0, hi = reader->num_fdes, mid;
	struct sframe_function fn;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (!sframe_reader__function(reader, mid, &fn) && fn.start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}

	return lo && !sframe_reader__function(reader, lo - 1, &fn) && fn.derived;
}

/**
 * sframe_reader__check - Decode a whole section or table
 * @reader:	Section or table
 *
 * Return: 0; -EINVAL - an entry is damaged, not in order, or overlaps another one.
 */
int sframe_reader__check(const struct sframe_reader *reader)
{
	u64 prev_end = 0, nr_rows = 0;
	struct sframe_function fn;
	struct sframe_row row;
	u32 i, nr, pos, prev;
	int err;

	/* Functions may share rows, so limit the number of rows, too. */
	if (reader->num_fres > reader->size)
		return -EINVAL;

	for (i = 0; i < reader->num_fdes; i++) {
		err = sframe_reader__function(reader, i, &fn);
		if (err)
			return err;
		if (fn.start < prev_end || fn.start + fn.size < fn.start)
			return -EINVAL;
		prev_end = fn.start + fn.size;

		nr_rows += fn.nr_rows;
		if (nr_rows > reader->num_fres)
			return -EINVAL;

		for (nr = 0, prev = 0, pos = fn.pos; nr < fn.nr_rows; nr++) {
			err = sframe_reader__row(reader, &fn, &pos, &row);
			if (err)
				return err;
			if (row.addr < prev ||
			    row.addr >= (fn.rep_size ?: fn.size))
				return -EINVAL;
			prev = row.addr;
		}
	}

	return 0;
}

/**
 * sframe_reader__fprintf - Print a whole section or table
 * @reader:	Section or table
 * @fp:		Output file
 *
 * Return: 0; -EINVAL - an entry is damaged; all readable entries are printed.
 */
int sframe_reader__fprintf(const struct sframe_reader *reader, FILE *fp)
{
	struct sframe_function fn;
	struct sframe_aux aux;
	struct sframe_row row;
	u64 nr_rows = 0;
	char text[128];
	u32 i, nr, pos;
	int err, ret = 0;

	fprintf(fp, "SFrame version %u for AMD64, %u bytes, %u functions, %u rows%s%s%s%s\n",
		reader->version, reader->size, reader->num_fdes, reader->num_fres,
		reader->flags & SFRAME_FLAG_SORTED ? ", sorted" : "",
		reader->flags & SFRAME_FLAG_PCREL ? ", pc-relative" : "",
		reader->version == SFRAME_VERSION_2 &&
		reader->flags & SFRAME_FLAG_FRAME_POINTER ? ", frame pointers" : "",
		reader->flags & SFRAME_FLAG_ADD ? ", with numbers added to CFAs" : "");

	if (!sframe_reader__aux(reader, &aux)) {
		struct build_id bid;
		char sbuild_id[SBUILD_ID_SIZE];

		build_id__init(&bid, aux.build_id, aux.build_id_size);
		build_id__sprintf(&bid, sbuild_id);
		fprintf(fp, "made by perf, generator %u, build-id %s, covers %" PRIu64
			" of %" PRIu64 " bytes of code (%" PRIu64 " described), and %" PRIu64
			" derived\n",
			le32_to_cpu(aux.version), *sbuild_id ? sbuild_id : "none",
			get_unaligned_le64(&aux.covered),
			get_unaligned_le64(&aux.code),
			get_unaligned_le64(&aux.described), get_unaligned_le64(&aux.derived));
	}

	for (i = 0; i < reader->num_fdes; i++) {
		err = sframe_reader__function(reader, i, &fn);
		if (err) {
			fprintf(fp, "\nFDE %u is damaged\n", i);
			ret = err;
			continue;
		}

		/* Functions may share rows, so limit the length of the output. */
		nr_rows += fn.nr_rows;
		if (nr_rows > reader->size) {
			fprintf(fp, "\nFDE %u has more rows than the table can have\n", i);
			return -EINVAL;
		}

		fprintf(fp, "\n%016" PRIx64 "-%016" PRIx64 "%s%s%s", fn.start,
			fn.start + fn.size, fn.flex ? " flex" : "",
			fn.signal ? " signal" : "", fn.derived ? " derived" : "");
		if (fn.rep_size)
			fprintf(fp, " blocks of %u", fn.rep_size);
		fprintf(fp, "\n");

		for (nr = 0, pos = fn.pos; nr < fn.nr_rows; nr++) {
			err = sframe_reader__row(reader, &fn, &pos, &row);
			if (err) {
				fprintf(fp, "    row %u is damaged\n", nr);
				ret = err;
				break;
			}
			sframe_rule__scnprintf(&row.rule, text, sizeof(text));
			fprintf(fp, "    %016" PRIx64 "  %s\n",
				fn.rep_size ? row.addr : fn.start + row.addr, text);
		}
	}

	return ret;
}

/**
 * sframe_reader__without_add - Make a table that needs no SFRAME_FLAG_ADD
 * @reader:	Table with this flag
 * @data:	Receives the new table, of the same size; the caller frees it
 *
 * For kernels that do not know the flag. The rules that need it become rules for a
 * register that a walk does not know, so the kernel has no rule at their addresses.
 *
 * Return: 0; -EINVAL - the table is damaged; -ENOMEM.
 */
int sframe_reader__without_add(const struct sframe_reader *reader, void **data)
{
	const u8 unknown = SFRAME_AMD64_REGS << SFRAME_FLEX_REG_SHIFT | SFRAME_FLEX_REG;
	struct sframe_header *header;
	struct sframe_function fn;
	struct sframe_row row;
	u32 i, nr, pos, at;
	u8 *copy, width;
	int err;

	copy = memdup(reader->data, reader->size);
	if (!copy)
		return -ENOMEM;

	header = (void *)copy;
	header->flags &= ~SFRAME_FLAG_ADD;

	for (i = 0; i < reader->num_fdes; i++) {
		err = sframe_reader__function(reader, i, &fn);
		for (nr = 0, pos = fn.pos; !err && nr < fn.nr_rows; nr++) {
			at = pos + BIT(fn.width);
			err = sframe_reader__row(reader, &fn, &pos, &row);
			if (err || row.rule.outermost ||
			    !sframe_loc__adds(&row.rule.cfa))
				continue;
			width = FIELD_GET(SFRAME_FRE_WORD_WIDTH, reader->data[at]);
			memset(copy + at + 1, 0, BIT(width));
			copy[at + 1] = unknown;
		}
		if (err) {
			free(copy);
			return err;
		}
	}

	*data = copy;
	return 0;
}
