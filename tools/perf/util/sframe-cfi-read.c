// SPDX-License-Identifier: GPL-2.0
/* Finds the functions (FDEs) in the CFI of a file, and marks the damaged ones */
#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <linux/bits.h>
#include <linux/kernel.h>

#include "util/array-grow.h"
#include "util/debug.h"
#include "util/sframe-cfi-decode.h"
#include "util/sframe-cfi-internal.h"

/*
 * For each row libdw runs the program of the function from its start. So the work
 * for a function is the cost of its program times the number of its rows. The
 * whole CFI of a compiler needs almost 2^28 of this work, which takes a quarter of a
 * second.
 */
#define SFRAME_CFI_WORK_MAX	BIT_ULL(32)

static int sframe_cfi__add_cie(struct sframe_cfi *cfi, u8 which, const Dwarf_CIE *raw,
			       Dwarf_Off off)
{
	struct sframe_cfi_source *source = &cfi->source[which];
	struct sframe_cursor cursor;
	struct sframe_cfi_cie *cie;
	const char *letter;
	u64 rows = 0;
	void *new;

	new = array__grow(source->cies, source->nr_cies, &source->room_cies,
			  sizeof(*source->cies));
	if (!new)
		return -ENOMEM;
	source->cies = new;
	cie = &source->cies[source->nr_cies++];
	*cie = (struct sframe_cfi_cie) { .off = off, .encoding = DW_EH_PE_absptr, };

	letter = raw->augmentation;
	if (strlen(letter) >= SFRAME_AUGMENTATION_MAX)
		return 0;
	/* Without 'z' the length of the data is unknown, so accept no data. */
	if (*letter == 'z') {
		cie->augmented = true;
		letter++;
	} else if (*letter) {
		return 0;
	}

	cursor.at = raw->augmentation_data;
	cursor.end = cursor.at + raw->augmentation_data_size;
	cursor.bad = false;

	for (; *letter; letter++) {
		switch (*letter) {
		case 'R':
			cie->encoding = sframe_cursor__get(&cursor, sizeof(u8));
			break;
		case 'P':
			/* Only its length matters. */
			sframe_cursor__encoded(&cursor,
					       sframe_cursor__get(&cursor, sizeof(u8)) & 0x0f, 0);
			break;
		case 'L':
			sframe_cursor__skip(&cursor, sizeof(u8));
			break;
		case 'S':
		case 'B':
			break;
		default:
			return 0;
		}
	}

	cie->valid = !cursor.bad &&
		     sframe_cfi__sane(cfi, raw->initial_instructions,
				      raw->initial_instructions_end,
				      cie->encoding, &cie->states, &rows, &cie->cost);
	return 0;
}

static int sframe_cfi_cie__cmp(const void *key, const void *item)
{
	const struct sframe_cfi_cie *cie = item;
	Dwarf_Off off = *(const Dwarf_Off *)key;

	return off < cie->off ? -1 : off > cie->off;
}

/*
 * This finds only the CIEs that were read before, which precede the FDEs that refer
 * to them. It finds no CIE inside another entry: the copy for libdw may
 * lack it.
 */
static const struct sframe_cfi_cie *
sframe_cfi__find_cie(const struct sframe_cfi_source *source, Dwarf_Off off)
{
	if (!source->nr_cies)
		return NULL;

	return bsearch(&off, source->cies, source->nr_cies, sizeof(*source->cies),
		       sframe_cfi_cie__cmp);
}

static int sframe_cfi__add_fde(struct sframe_cfi *cfi, const struct sframe_cfi_fde *fde)
{
	void *new = array__grow(cfi->fdes, cfi->nr_fdes, &cfi->room_fdes,
				sizeof(*cfi->fdes));

	if (!new)
		return -ENOMEM;

	cfi->fdes = new;
	cfi->fdes[cfi->nr_fdes++] = *fde;
	return 0;
}

static int sframe_cfi__decode_fde(struct sframe_cfi *cfi, u8 which, Dwarf_Off off,
				  const Dwarf_FDE *raw, const struct sframe_cfi_cie *cie)
{
	const struct sframe_cfi_source *source = &cfi->source[which];
	struct sframe_cursor cursor = { .at = raw->start, .end = raw->end };
	const u8 *first = source->data->d_buf;
	struct sframe_cfi_fde fde = { .off = off, .source = which };
	u64 size, work, rows = 1, cost = cie->cost + 1;
	u32 states = cie->states;

	fde.start = sframe_cursor__encoded(&cursor, cie->encoding,
					   source->addr + (raw->start - first));
	size = sframe_cursor__encoded(&cursor, cie->encoding & 0x0f, 0);
	if (cursor.bad)
		return 0;

	fde.end = fde.start + size;
	fde.reach = fde.end;
	if (fde.end < fde.start || !sframe_cfi__clip(cfi, &fde.start, &fde.end))
		return 0;

	if (cfi->bounds)
		return sframe_cfi__add_fde(cfi, &fde);

	if (cie->augmented)
		sframe_cursor__skip(&cursor, sframe_cursor__uleb128(&cursor));

	fde.damaged = cursor.bad ||
		      !sframe_cfi__sane(cfi, cursor.at, cursor.end, cie->encoding, &states,
					&rows, &cost);

	/* libdw is not asked for rows beyond the function. */
	rows = min(rows, fde.end - fde.start);
	work = rows * cost;
	if (cfi->work + work > SFRAME_CFI_WORK_MAX)
		fde.damaged = true;
	else if (!fde.damaged)
		cfi->work += work;

	return sframe_cfi__add_fde(cfi, &fde);
}

static int sframe_cfi__read_source(struct sframe_cfi *cfi, u8 which)
{
	struct sframe_cfi_source *source = &cfi->source[which];
	const unsigned char *e_ident = (void *)elf_getident(cfi->elf, NULL);
	const struct sframe_cfi_cie *cie;
	struct sframe_entry entry;
	Dwarf_CFI_Entry raw;
	Dwarf_Off next;
	u64 off;
	int ret;

	if (!source->data || !source->data->d_buf)
		return 0;

	for (off = 0; sframe_entry__find(source->data, off, &entry); off = entry.end) {
		source->size = entry.end;

		if (cfi->nr_fdes + source->nr_cies >= SFRAME_CFI_ENTRIES_MAX)
			return -EFBIG;

		ret = dwarf_next_cfi(e_ident, source->data, source->eh, off, &next, &raw);
		if (ret > 0)
			return 0;
		if (ret < 0)
			continue;

		if (dwarf_cfi_cie_p(&raw)) {
			ret = sframe_cfi__add_cie(cfi, which, &raw.cie, off);
			if (ret)
				return ret;
			continue;
		}

		cie = sframe_cfi__find_cie(source, raw.fde.CIE_pointer);
		if (!cie || !cie->valid)
			continue;
		ret = sframe_cfi__decode_fde(cfi, which, off, &raw.fde, cie);
		if (ret)
			return ret;
	}

	return 0;
}

static int sframe_cfi_fde__cmp(const void *a, const void *b)
{
	const struct sframe_cfi_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return 0;
}

/*
 * If functions overlap, libdw may run one whose work was not counted. So libdw gets no
 * functions of a section that overlap. Of two such functions the one that starts first
 * is left out: it may be a remnant of code that the linker dropped. If both start at
 * the same address, the longer function stays.
 */
static void sframe_cfi__separate(struct sframe_cfi *cfi)
{
	struct sframe_cfi_fde *last[SFRAME_SOURCE_NR] = { };
	struct sframe_cfi_fde *fde, *prev;
	size_t i;

	for (i = 0; i < cfi->nr_fdes; i++) {
		fde = &cfi->fdes[i];
		if (fde->damaged)
			continue;

		prev = last[fde->source];
		if (prev && fde->start == prev->start) {
			fde->damaged = true;
			continue;
		}
		if (prev && fde->start < prev->reach)
			prev->damaged = true;
		last[fde->source] = fde;
	}
}

/*
 * Sort the functions. Where functions overlap, the one that starts later wins, like
 * in a search for the last function that starts at or before an address. But
 * functions of .debug_frame only fill the gaps of .eh_frame, because the program
 * itself unwinds with .eh_frame.
 */
static void sframe_cfi__sort(struct sframe_cfi *cfi)
{
	struct sframe_cfi_fde *fde, *prev;
	size_t i, nr = 0;

	if (!cfi->nr_fdes)
		return;

	qsort(cfi->fdes, cfi->nr_fdes, sizeof(*cfi->fdes), sframe_cfi_fde__cmp);
	sframe_cfi__separate(cfi);

	for (i = 0; i < cfi->nr_fdes; i++) {
		fde = &cfi->fdes[i];
		prev = nr ? &cfi->fdes[nr - 1] : NULL;

		if (prev && fde->start < prev->end) {
			if (fde->source > prev->source)
				fde->start = prev->end;
			else if (fde->start > prev->start)
				prev->end = fde->start;
			else
				fde->start = prev->end;
		}
		if (fde->start < fde->end)
			cfi->fdes[nr++] = *fde;
	}

	cfi->nr_fdes = nr;
}

int sframe_cfi__find_functions(struct sframe_cfi *cfi)
{
	int err;
	u8 i;

	for (i = 0; i < SFRAME_SOURCE_NR; i++) {
		err = sframe_cfi__read_source(cfi, i);
		if (err)
			return err;
	}

	sframe_cfi__sort(cfi);
	return 0;
}

/**
 * sframe_cfi__read - Find the functions that the CFI of a file describes
 * @cfi:	File
 *
 * Return: 0; -ENODATA - there are no functions; -ENOMEM.
 */
int sframe_cfi__read(struct sframe_cfi *cfi)
{
	int err;
	u8 i;

	err = sframe_cfi__find_functions(cfi);
	if (err)
		return err;

	for (i = 0; i < SFRAME_SOURCE_NR; i++) {
		err = sframe_cfi__open_source(cfi, i);
		if (err)
			return err;
	}

	pr_debug3("%zu functions, %" PRIu64 " bytes of CFI to run\n", cfi->nr_fdes, cfi->work);

	return cfi->nr_fdes ? 0 : -ENODATA;
}
