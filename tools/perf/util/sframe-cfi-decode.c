// SPDX-License-Identifier: GPL-2.0
/* Decodes numbers, addresses and the bounds of entries in a section with CFI */
#include <dwarf.h>
#include <linux/types.h>

#include "util/sframe-cfi-decode.h"

u64 sframe_cursor__get(struct sframe_cursor *cursor, unsigned int size)
{
	u64 value = 0;
	unsigned int i;

	if ((size_t)(cursor->end - cursor->at) < size) {
		cursor->bad = true;
		return 0;
	}

	for (i = 0; i < size; i++)
		value |= (u64)*cursor->at++ << 8 * i;

	return value;
}

void sframe_cursor__skip(struct sframe_cursor *cursor, u64 size)
{
	if ((u64)(cursor->end - cursor->at) < size)
		cursor->bad = true;
	else
		cursor->at += size;
}

/*
 * Decodes signed and unsigned LEB128. libdw reads no more bytes than 64 bits need.
 * It would decode the rest of a longer number as something else, so this refuses a
 * longer number.
 */
static u64 sframe_cursor__leb128(struct sframe_cursor *cursor, bool is_signed)
{
	unsigned int shift = 0;
	u64 value = 0;
	u8 byte;

	do {
		byte = sframe_cursor__get(cursor, sizeof(byte));
		if (shift >= 64)
			cursor->bad = true;
		else
			value |= (u64)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && !cursor->bad);

	if (is_signed && shift < 64 && (byte & 0x40))
		value |= -1ULL << shift;

	return value;
}

u64 sframe_cursor__uleb128(struct sframe_cursor *cursor)
{
	return sframe_cursor__leb128(cursor, false);
}

/* Decodes an encoded address. @addr is the address of the encoded bytes. */
u64 sframe_cursor__encoded(struct sframe_cursor *cursor, u8 encoding, u64 addr)
{
	u64 value;

	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		value = sframe_cursor__get(cursor, sizeof(u64));
		break;
	case DW_EH_PE_udata4:
		value = sframe_cursor__get(cursor, sizeof(u32));
		break;
	case DW_EH_PE_sdata4:
		value = (s32)sframe_cursor__get(cursor, sizeof(u32));
		break;
	case DW_EH_PE_udata2:
		value = sframe_cursor__get(cursor, sizeof(u16));
		break;
	case DW_EH_PE_sdata2:
		value = (s16)sframe_cursor__get(cursor, sizeof(u16));
		break;
	case DW_EH_PE_uleb128:
	case DW_EH_PE_sleb128:
		value = sframe_cursor__leb128(cursor, encoding & DW_EH_PE_signed);
		break;
	default:
		cursor->bad = true;
		return 0;
	}

	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return addr + value;
	default:
		/* Indirect, or relative to a base that programs do not use. */
		cursor->bad = true;
		return 0;
	}
}

/* Returns false at the end of the section, or if no valid entry follows. */
bool sframe_entry__find(const Elf_Data *data, u64 off, struct sframe_entry *entry)
{
	struct sframe_cursor cursor;
	u64 len;

	if (off >= data->d_size)
		return false;

	cursor = (struct sframe_cursor) {
		.at = data->d_buf + off, .end = data->d_buf + data->d_size,
	};
	entry->id_size = sizeof(u32);
	len = sframe_cursor__get(&cursor, sizeof(u32));
	if (len == 0xffffffff) {
		entry->id_size = sizeof(u64);
		len = sframe_cursor__get(&cursor, sizeof(u64));
	}

	entry->id = cursor.at - (const u8 *)data->d_buf;
	entry->end = entry->id + len;
	/* After the id there is at least one byte, the version of a CIE. */
	return !cursor.bad && len > entry->id_size && len <= data->d_size - entry->id;
}
