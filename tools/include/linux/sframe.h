/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The SFrame format, versions 2 and 3
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
 * Only the position of header and auxiliary header is fixed. All fields are packed
 * and in the byte order of the target.
 *
 * An FDE (function descriptor entry) describes a function. An FRE (frame row entry)
 * describes the part of it from its address up to the address of the next FRE.
 *
 * The kernel, perf and the selftests share this header, so it only uses types that
 * user space has.
 */
#ifndef _LINUX_SFRAME_H
#define _LINUX_SFRAME_H

#include <linux/types.h>

#define SFRAME_MAGIC			0xdee2

#define SFRAME_VERSION_2		2
#define SFRAME_VERSION_3		3

/* The FDEs are sorted by start. The linker sorts them, the assembler does not. */
#define SFRAME_FLAG_SORTED		0x01
/* A hint that is not used here. Not in version 3. */
#define SFRAME_FLAG_FRAME_POINTER	0x02
/* A function's start is relative to its own field, not to the header. */
#define SFRAME_FLAG_PCREL		0x04
/*
 * Control words may have SFRAME_FLEX_ADD. This is an extension for the tables that
 * profilers supply to the kernel. Sections of programs do not have it, and a reader
 * of version 3 refuses a table with a flag that it does not know.
 */
#define SFRAME_FLAG_ADD			0x80

#define SFRAME_ABI_AMD64		3
/* Offset of the return address from the CFA on AMD64. */
#define SFRAME_AMD64_RA_OFF		(-8)
/* A saved frame pointer has no fixed place. */
#define SFRAME_AMD64_FP_OFF		0
/* DWARF numbers of the frame pointer and the stack pointer */
#define SFRAME_AMD64_FP			6
#define SFRAME_AMD64_SP			7
/* Number of general registers. The others hold no address of a frame. */
#define SFRAME_AMD64_REGS		16

/**
 * struct sframe_header - The start of a section, in all versions
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
 * @fde_off:	Offset of the first FDE from the end of the auxiliary header
 * @fre_off:	Offset of the area with all FREs from the end of the auxiliary header
 */
struct sframe_header {
	__le16		magic;
	__u8		version;
	__u8		flags;
	__u8		abi;
	__s8		fixed_fp;
	__s8		fixed_ra;
	__u8		aux_len;
	__le32		num_fdes;
	__le32		num_fres;
	__le32		fre_len;
	__le32		fde_off;
	__le32		fre_off;
} __attribute__((packed));

/*
 * Bits of an FDE's @info. The key and mangled return addresses are only for AArch64.
 */
#define SFRAME_FDE_ADDR_WIDTH		0x0f
#define SFRAME_FDE_MASK			0x10
#define SFRAME_FDE_SIGNAL		0x80

/* Types of an FDE: the only values of its @info2. */
#define SFRAME_FDE_DEFAULT		0
#define SFRAME_FDE_FLEX			1

/**
 * struct sframe_fde_v2 - FDE of version 2
 * @start:	First byte of the function, signed
 * @size:	Length of the function in bytes
 * @fre_off:	Offset of its first FRE in the area
 * @num_fres:	How many FREs it has
 * @info:	%SFRAME_FDE_ADDR_WIDTH and other bits, but no %SFRAME_FDE_SIGNAL
 * @rep_size:	With %SFRAME_FDE_MASK, the function consists of equal blocks of this
 *		length, and addresses are relative to the start of a block
 * @pad:	Not used
 */
struct sframe_fde_v2 {
	__le32		start;
	__le32		size;
	__le32		fre_off;
	__le32		num_fres;
	__u8		info;
	__u8		rep_size;
	__le16		pad;
} __attribute__((packed));

/**
 * struct sframe_fde_v3 - FDE of version 3
 * @start:	First byte of the function, relative to this field, signed
 * @size:	Length of the function in bytes
 * @fre_off:	Offset of its &struct sframe_attr_v3 in the area
 */
struct sframe_fde_v3 {
	__le64		start;
	__le32		size;
	__le32		fre_off;
} __attribute__((packed));

/**
 * struct sframe_attr_v3 - Second part of an FDE of version 3
 * @num_fres:	How many FREs follow
 * @info:	%SFRAME_FDE_ADDR_WIDTH and other bits
 * @info2:	Type, %SFRAME_FDE_DEFAULT or %SFRAME_FDE_FLEX
 * @rep_size:	As in version 2
 */
struct sframe_attr_v3 {
	__le16		num_fres;
	__u8		info;
	__u8		info2;
	__u8		rep_size;
} __attribute__((packed));

/*
 * An FRE consists of an address of 1 << SFRAME_FDE_ADDR_WIDTH bytes, a byte with
 * these bits, and SFRAME_FRE_WORDS words of 1 << SFRAME_FRE_WORD_WIDTH bytes.
 */
#define SFRAME_FRE_CFA_SP		0x01
#define SFRAME_FRE_WORDS		0x1e
#define SFRAME_FRE_WORD_WIDTH		0x60
#define SFRAME_FRE_MANGLED_RA		0x80

#define SFRAME_FRE_WORDS_MAX		15

/* The largest width of an address or a word: four bytes. */
#define SFRAME_WIDTH_MAX		2

/* Control words in FREs of SFRAME_FDE_FLEX; the rest is the register. */
#define SFRAME_FLEX_REG			0x01
#define SFRAME_FLEX_DEREF		0x02
/*
 * With SFRAME_FLAG_ADD: a third word follows, a number to add to what was read from
 * memory. Only for the CFA. Without the flag this bit is reserved.
 *
 * The register has 5 bits then. The bits above are 0, or the number plus 1 of a second
 * register. 8 times its value is a part of the address that is read.
 */
#define SFRAME_FLEX_ADD			0x04
#define SFRAME_FLEX_REG_SHIFT		3
#define SFRAME_FLEX_ADD_REG		0xf8
#define SFRAME_FLEX_INDEX_SHIFT		8

#endif /* _LINUX_SFRAME_H */
