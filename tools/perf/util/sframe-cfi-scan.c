// SPDX-License-Identifier: GPL-2.0
/* Finds the code that all CFI of a file describes, not only CFI that libdw gets */
#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/unaligned.h>
#include <linux/zalloc.h>

#include "util/sframe-cfi-decode.h"
#include "util/sframe-cfi-internal.h"
#include "util/sframe-ranges.h"

/* Gets the encoding of addresses in the FDEs of a CIE. Returns false on error. */
static bool sframe_cie__encoding(const Dwarf_CIE *raw, u8 *encoding)
{
	const char *letter = raw->augmentation;
	struct sframe_cursor cursor;

	*encoding = DW_EH_PE_absptr;
	if (*letter != 'z')
		return !*letter || !strcmp(letter, "eh");

	cursor.at = raw->augmentation_data;
	cursor.end = cursor.at + raw->augmentation_data_size;
	cursor.bad = false;

	while (*++letter) {
		switch (*letter) {
		case 'R':
			*encoding = sframe_cursor__get(&cursor, sizeof(u8));
			return !cursor.bad;
		case 'P':
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
			return false;
		}
	}

	return true;
}

static bool sframe_cie__is_short(const struct sframe_cfi_source *source,
				 const struct sframe_entry *entry)
{
	/* The version is in front of it. */
	u64 off = entry->id + entry->id_size + sizeof(u8);
	size_t room = min(entry->end - off, (u64)SFRAME_AUGMENTATION_MAX);

	return strnlen(source->data->d_buf + off, room) < room;
}

/* Gets the addresses that an FDE describes. Its program does not matter. */
static bool sframe_cfi__find_range(struct sframe_cfi *cfi, u8 which, const Dwarf_FDE *raw,
				   struct sframe_segment *range)
{
	const unsigned char *e_ident = (void *)elf_getident(cfi->elf, NULL);
	const struct sframe_cfi_source *source = &cfi->source[which];
	struct sframe_cursor cursor = { .at = raw->start, .end = raw->end };
	const u8 *first = source->data->d_buf;
	struct sframe_entry entry;
	Dwarf_CFI_Entry cie;
	Dwarf_Off next;
	u8 encoding;

	/* libdw does not check for an offset beyond the section. */
	if (!sframe_entry__find(source->data, raw->CIE_pointer, &entry) ||
	    !sframe_cie__is_short(source, &entry) ||
	    dwarf_next_cfi(e_ident, source->data, source->eh, raw->CIE_pointer, &next, &cie) ||
	    !dwarf_cfi_cie_p(&cie) || !sframe_cie__encoding(&cie.cie, &encoding))
		return false;

	range->start = sframe_cursor__encoded(&cursor, encoding,
					      source->addr + (raw->start - first));
	range->end = range->start + sframe_cursor__encoded(&cursor, encoding & 0x0f, 0);

	return !cursor.bad && range->start <= range->end;
}

static bool sframe_entry__is_cie(const struct sframe_cfi_source *source,
				 const struct sframe_entry *entry)
{
	struct sframe_cursor cursor = {
		.at = source->data->d_buf + entry->id, .end = source->data->d_buf + entry->end,
	};
	u64 id = sframe_cursor__get(&cursor, entry->id_size);

	if (source->eh)
		return !id;

	return id == (entry->id_size == sizeof(u32) ? UINT_MAX : ULLONG_MAX);
}

/*
 * Finds the code that a section of the file describes. sframe_cfi__read_source()
 * skips some FDEs, but this function includes all of them: invalid ones, those with an
 * invalid CIE, those that overlap others, and those after a terminator. The index
 * .eh_frame_hdr may refer to FDEs after a terminator.
 */
static int sframe_cfi__scan_source(struct sframe_cfi *cfi, u8 which,
				   struct sframe_ranges *described, u64 *unreadable)
{
	const unsigned char *e_ident = (void *)elf_getident(cfi->elf, NULL);
	const struct sframe_cfi_source *source = &cfi->source[which];
	const Elf_Data *data = source->data;
	struct sframe_segment range;
	struct sframe_entry entry;
	Dwarf_CFI_Entry raw;
	Dwarf_Off next;
	int ret, err;
	u64 off;

	if (!data || !data->d_buf)
		return 0;

	/* If there is no room for a length, the rest is padding. */
	for (off = 0; data->d_size - off >= sizeof(u32); off = entry.end) {
		if (sframe_cfi__is_stopped(cfi))
			return -EINTR;
		if (described->nr >= SFRAME_CFI_ENTRIES_MAX)
			return -EFBIG;

		if (!sframe_entry__find(data, off, &entry)) {
			if (get_unaligned_le32(data->d_buf + off)) {
				++*unreadable;
				break;
			}
			entry.end = off + sizeof(u32);
			continue;
		}

		ret = dwarf_next_cfi(e_ident, source->data, source->eh, off, &next, &raw);
		if (!ret && dwarf_cfi_cie_p(&raw))
			continue;
		if (ret || !sframe_cfi__find_range(cfi, which, &raw.fde, &range)) {
			*unreadable += !sframe_entry__is_cie(source, &entry);
			continue;
		}
		err = sframe_ranges__add(described, range.start, range.end);
		if (err)
			return err;
	}

	return 0;
}

/*
 * Finds the code. Sections are more exact than segments, see
 * sframe_cfi__find_sections().
 */
static int sframe_cfi__scan_code(struct sframe_cfi *cfi, const struct sframe_ranges *segments,
				 struct sframe_ranges *code)
{
	struct sframe_ranges sections = { };
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	int err = 0;

	while (!err && (scn = elf_nextscn(cfi->elf, scn)) != NULL) {
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_PROGBITS &&
		    (shdr.sh_flags & SHF_EXECINSTR))
			err = sframe_ranges__add(&sections, shdr.sh_addr,
						 shdr.sh_addr + shdr.sh_size);
	}

	sframe_ranges__merge(&sections);
	if (!err)
		err = sframe_ranges__intersect(code, &sections, segments);
	if (!err && !code->nr)
		err = sframe_ranges__intersect(code, segments, segments);
	zfree(&sections.ranges);

	return err;
}

/* Finds the code that all CFI of a file describes, and counts the bytes of code. */
int sframe_cfi__scan(struct sframe_cfi *cfi, struct sframe_ranges *described,
		     struct sframe_check *check)
{
	const struct sframe_ranges segments = {
		.ranges = cfi->segments, .nr = cfi->nr_segments,
	};
	struct sframe_ranges all = { }, code = { }, common = { };
	int err = 0;
	u8 i;

	for (i = 0; i < SFRAME_SOURCE_NR && !err; i++)
		err = sframe_cfi__scan_source(cfi, i, &all, &check->unreadable);
	sframe_ranges__merge(&all);

	if (!err)
		err = sframe_ranges__intersect(described, &all, &segments);
	if (!err)
		err = sframe_cfi__scan_code(cfi, &segments, &code);
	if (!err)
		err = sframe_ranges__intersect(&common, described, &code);
	if (!err) {
		check->code = sframe_ranges__size(&code);
		check->code_described = sframe_ranges__size(&common);
	}

	zfree(&all.ranges);
	zfree(&code.ranges);
	zfree(&common.ranges);
	return err;
}
