/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame sections, versions 2 and 3, AMD64
 *
 *	+-----------------------+ 0
 *	| header		|
 *	| auxiliary header	|
 *	+-----------------------+ body
 *	| ...			|
 *	+-----------------------+ body + fde_off
 *	| FDE 0 ... num_fdes - 1| one per function, sorted by start
 *	+-----------------------+
 *	| ...			|
 *	+-----------------------+ body + fre_off
 *	| v3: attributes	| FDE.fre_off leads here, FREs are contiguous
 *	| FRE 0 ... num_fres - 1| one per change of the frame's layout
 *	| of some function	|
 *	| ...			|
 *	+-----------------------+ body + fre_off + fre_len <= size
 *
 * Only the order of header and auxiliary header is given. Everything is packed
 * and in the byte order of the target.
 *
 * An FDE (frame description entry) covers a function, an FRE (frame row entry)
 * the part of it from its address on to the next FRE's.
 */
#ifndef _KERNEL_UNWIND_SFRAME_H
#define _KERNEL_UNWIND_SFRAME_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/sizes.h>
#include <linux/types.h>

struct unwind_user_rule;

#define SFRAME_MAGIC			0xdee2

#define SFRAME_VERSION_2		2
#define SFRAME_VERSION_3		3

/* The FDEs are sorted by start: what the linker writes, unlike the assembler. */
#define SFRAME_FLAG_SORTED		BIT(0)
/* A hint that has no bearing here. Not in version 3. */
#define SFRAME_FLAG_FRAME_POINTER	BIT(1)
/* A function's start counts from its own field rather than from the header. */
#define SFRAME_FLAG_PCREL		BIT(2)

#define SFRAME_ABI_AMD64		3
/* Where the return address is on AMD64, from the CFA. */
#define SFRAME_AMD64_RA_OFF		(-8)
/* The frame pointer, if saved, has no fixed place. */
#define SFRAME_AMD64_FP_OFF		0

/**
 * struct sframe_header - What a section starts with, in all versions
 * @magic:	%SFRAME_MAGIC
 * @version:	%SFRAME_VERSION_2 or %SFRAME_VERSION_3
 * @flags:	%SFRAME_FLAG_SORTED and others
 * @abi:	%SFRAME_ABI_AMD64
 * @fixed_fp:	Offset of the saved frame pointer from the CFA, 0 if not fixed
 * @fixed_ra:	Offset of the return address from the CFA, 0 if not fixed
 * @aux_len:	Length of the auxiliary header that follows
 * @num_fdes:	How many FDEs there are
 * @num_fres:	How many FREs all FDEs have together
 * @fre_len:	Length of the area with all FREs
 * @fde_off:	First FDE, from the end of the auxiliary header
 * @fre_off:	Area with all FREs, from the end of the auxiliary header
 */
struct sframe_header {
	__le16		magic;
	u8		version;
	u8		flags;
	u8		abi;
	s8		fixed_fp;
	s8		fixed_ra;
	u8		aux_len;
	__le32		num_fdes;
	__le32		num_fres;
	__le32		fre_len;
	__le32		fde_off;
	__le32		fre_off;
} __packed;

/* Bits of an FDE's @info. Key and mangled return addresses are AArch64's. */
#define SFRAME_FDE_ADDR_WIDTH		GENMASK(3, 0)
#define SFRAME_FDE_MASK			BIT(4)
#define SFRAME_FDE_SIGNAL		BIT(7)

/* Types of an FDE: all that its @info2 may be. */
#define SFRAME_FDE_DEFAULT		0
#define SFRAME_FDE_FLEX			1

/**
 * struct sframe_fde_v2 - FDE of version 2
 * @start:	First byte of the function, signed
 * @size:	Length of the function in bytes
 * @fre_off:	Its first FRE, from the start of the area
 * @num_fres:	How many FREs it has
 * @info:	%SFRAME_FDE_ADDR_WIDTH and other bits, but no %SFRAME_FDE_SIGNAL
 * @rep_size:	With %SFRAME_FDE_MASK the function is a row of blocks that are
 *		this long and alike; addresses count from a block's start
 * @pad:	Not used
 */
struct sframe_fde_v2 {
	__le32		start;
	__le32		size;
	__le32		fre_off;
	__le32		num_fres;
	u8		info;
	u8		rep_size;
	__le16		pad;
} __packed;

/**
 * struct sframe_fde_v3 - FDE of version 3
 * @start:	First byte of the function, from this very field, signed
 * @size:	Length of the function in bytes
 * @fre_off:	Its &struct sframe_attr_v3, from the start of the area
 */
struct sframe_fde_v3 {
	__le64		start;
	__le32		size;
	__le32		fre_off;
} __packed;

/**
 * struct sframe_attr_v3 - Second part of an FDE of version 3
 * @num_fres:	How many FREs follow
 * @info:	%SFRAME_FDE_ADDR_WIDTH and other bits
 * @info2:	Type, %SFRAME_FDE_DEFAULT or %SFRAME_FDE_FLEX
 * @rep_size:	As in version 2
 */
struct sframe_attr_v3 {
	__le16		num_fres;
	u8		info;
	u8		info2;
	u8		rep_size;
} __packed;

/*
 * An FRE is an address of 1 << SFRAME_FDE_ADDR_WIDTH bytes, a byte of these
 * bits, and SFRAME_FRE_WORDS words of 1 << SFRAME_FRE_WORD_WIDTH bytes.
 */
#define SFRAME_FRE_CFA_SP		BIT(0)
#define SFRAME_FRE_WORDS		GENMASK(4, 1)
#define SFRAME_FRE_WORD_WIDTH		GENMASK(6, 5)
#define SFRAME_FRE_MANGLED_RA		BIT(7)

#define SFRAME_FRE_WORDS_MAX		15

/* The widest width of an address or a word: four bytes. */
#define SFRAME_WIDTH_MAX		2

/* Control words in FREs of SFRAME_FDE_FLEX; the rest is the register. */
#define SFRAME_FLEX_REG			BIT(0)
#define SFRAME_FLEX_DEREF		BIT(1)
#define SFRAME_FLEX_RESERVED		BIT(2)
#define SFRAME_FLEX_REG_SHIFT		3

/* The largest section that is looked at: that of 1 GiB of text, about. */
#define SFRAME_SIZE_MAX			SZ_256M

/*
 * The most FREs that one function may have: a lookup goes through them. Version
 * 3 cannot tell of more.
 */
#define SFRAME_FRES_MAX			U16_MAX
/* The most bytes that they may take, as a lookup must not take for long. */
#define SFRAME_FRES_LEN_MAX		SZ_256K

/*
 * Into how many parts the FDEs are divided. Where each starts is remembered, so
 * that a lookup needs to read from just one part: with up to a thousand FDEs, as
 * most programs have, once. A power of two.
 */
#define SFRAME_PARTS			64
#define SFRAME_NO_PART			U32_MAX

/**
 * struct sframe_section - A section to look up rules in
 * @base:	Address of the section's first byte, which functions' addresses
 *		count from
 * @size:	Its length in bytes
 * @data:	The section's bytes in memory of the kernel; NULL if they are to
 *		be read from user memory at @base
 * @version:	From the header, as is the rest
 * @pcrel:	%SFRAME_FLAG_PCREL is set
 * @num_fdes:	How many FDEs there are
 * @num_fres:	How many FREs there are
 * @fdes:	First FDE, from the start of the section
 * @fres:	Area with all FREs, from the start of the section
 * @fres_end:	End of that area, from the start of the section
 * @part_size:	How many FDEs a part of all FDEs has
 * @first:	Start of the first function, minus @base
 * @starts:	Start of the first function of each part, from that of the first of
 *		all; %SFRAME_NO_PART for parts that do not exist, or are that far
 *
 * The caller sets @base, @size and @data, sframe_section_init() the rest. It
 * does not change thereafter, so any number of tasks may use it. The section's
 * bytes may change at any time.
 */
struct sframe_section {
	unsigned long		base;
	u32			size;
	const void		*data;

	u8			version;
	bool			pcrel;
	u32			num_fdes;
	u32			num_fres;
	u32			fdes;
	u32			fres;
	u32			fres_end;
	u32			part_size;
	s64			first;
	u32			starts[SFRAME_PARTS];
};

/**
 * struct sframe_check - How far a section was checked; all zero at first
 * @index:	FDE to check next; the section is sound when it is
 *		&sframe_section.num_fdes
 * @start:	Start of the function before, minus &sframe_section.base
 * @num_fres:	FREs of the functions before
 */
struct sframe_check {
	u32			index;
	s64			start;
	u64			num_fres;
};

bool sframe_read(const struct sframe_section *sec, u32 off, void *buf, u32 size);
int sframe_section_init(struct sframe_section *sec);
int sframe_find_rule_or_flaw(const struct sframe_section *sec, unsigned long ip,
			     struct unwind_user_rule *rule, const char **flaw);
int sframe_check_function(const struct sframe_section *sec,
			  struct sframe_check *check);

/**
 * sframe_find_rule - Look up the rule for an address
 * @sec:	As for sframe_find_rule_or_flaw(),
 * @ip:		as are the address
 * @rule:	and the rule
 *
 * Context: As sframe_find_rule_or_flaw().
 * Return: As sframe_find_rule_or_flaw().
 */
static inline int sframe_find_rule(const struct sframe_section *sec,
				   unsigned long ip,
				   struct unwind_user_rule *rule)
{
	const char *flaw;

	return sframe_find_rule_or_flaw(sec, ip, rule, &flaw);
}

#endif /* _KERNEL_UNWIND_SFRAME_H */
