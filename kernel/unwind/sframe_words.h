/* SPDX-License-Identifier: GPL-2.0 */
/* The words of an FRE, which have one, two or four bytes */
#ifndef _UNWIND_SFRAME_WORDS_H
#define _UNWIND_SFRAME_WORDS_H

#include <linux/bits.h>
#include <linux/types.h>
#include <linux/unaligned.h>

/* The words of an FRE that are not consumed yet. */
struct sframe_words {
	const u8	*next;
	u8		nr;
	u8		width;
};

/* Consume one of @words. There must be one left, and their width must be known. */
static inline s32 sframe_next_signed(struct sframe_words *words)
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

static inline u32 sframe_next_unsigned(struct sframe_words *words)
{
	u32 bits = BITS_PER_BYTE << words->width;

	return sframe_next_signed(words) & GENMASK(bits - 1, 0);
}

#endif /* _UNWIND_SFRAME_WORDS_H */
