/* SPDX-License-Identifier: GPL-2.0 */
/* Makes valid and invalid SFrame sections for tests. */
#ifndef _TEST_UNWIND_BUILDER_H
#define _TEST_UNWIND_BUILDER_H

#include <linux/types.h>

#include "sframe.h"

#define TEST_WORDS	SFRAME_FRE_WORDS_MAX

/**
 * struct test_fre - FRE to write
 * @addr:	Address, from the start of the function
 * @sp:		The CFA is relative to the stack pointer
 * @nr:		Number of words
 * @width:	Their width, as in the info byte
 * @mangled:	The bit for mangled return addresses
 * @words:	The words
 */
struct test_fre {
	u32		addr;
	bool		sp;
	u8		nr;
	u8		width;
	bool		mangled;
	s32		words[TEST_WORDS];
};

/**
 * struct test_fde - FDE to write
 * @start:	Address of the function; the section is at %TEST_BASE
 * @size:	Size of the function
 * @info:	Width of addresses and other bits
 * @info2:	Type, not in version 2
 * @rep_size:	Size of blocks
 * @num_fres:	Number of FREs
 * @fres:	The FREs
 */
struct test_fde {
	u64			start;
	u32			size;
	u8			info;
	u8			info2;
	u8			rep_size;
	u32			num_fres;
	const struct test_fre	*fres;
};

/**
 * struct test_kind - A flavour of the format
 * @version:	Version
 * @flags:	Flags of the header
 */
struct test_kind {
	u8		version;
	u8		flags;
};

/**
 * struct test_table - A section, and where its parts are
 * @sec:	Section with the bytes below, not yet initialised
 * @header:	Header in @buf
 * @fdes:	First FDE in @buf
 * @fres:	Area of the FREs in @buf
 * @buf:	The bytes, a block of memory that is exactly as long as they are
 */
struct test_table {
	struct sframe_section	sec;
	struct sframe_header	*header;
	void			*fdes;
	u8			*fres;
	u8			*buf;
};

#define TEST_BASE	0x7f0000200000UL

void test_build(struct test_table *table, struct test_kind kind, u8 aux_len,
		const struct test_fde *fdes, u32 num_fdes);
void test_free(struct test_table *table);

/* Sections with nearly all features of the format, as seeds of the fuzzer. */
#define TEST_SEEDS	8
void test_build_seed(struct test_table *table, unsigned int seed);
u32 test_build_long_seed(struct test_table *table, bool v3, u32 nr);

#endif /* _TEST_UNWIND_BUILDER_H */
