/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_CFI_DECODE_H
#define __PERF_SFRAME_CFI_DECODE_H

#include <stdbool.h>
#include <libelf.h>
#include <linux/types.h>

/* A part of a section that is being decoded */
struct sframe_cursor {
	const u8	*at;
	const u8	*end;
	bool		bad;
};

/**
 * struct sframe_entry - A CIE or FDE in a section with CFI
 * @id:		Offset of the field that distinguishes CIEs from FDEs
 * @id_size:	Size of this field
 * @end:	Offset of the end of the entry
 */
struct sframe_entry {
	u64		id;
	unsigned int	id_size;
	u64		end;
};

u64 sframe_cursor__get(struct sframe_cursor *cursor, unsigned int size);
void sframe_cursor__skip(struct sframe_cursor *cursor, u64 size);
u64 sframe_cursor__uleb128(struct sframe_cursor *cursor);
u64 sframe_cursor__encoded(struct sframe_cursor *cursor, u8 encoding, u64 addr);
bool sframe_entry__find(const Elf_Data *data, u64 off, struct sframe_entry *entry);

#endif /* __PERF_SFRAME_CFI_DECODE_H */
