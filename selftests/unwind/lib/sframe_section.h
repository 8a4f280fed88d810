/* SPDX-License-Identifier: GPL-2.0 */
/* SFrame sections for the code of sframe_code.h. */
#ifndef SELFTESTS_UNWIND_SFRAME_SECTION_H
#define SELFTESTS_UNWIND_SFRAME_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/sframe.h>
#include <linux/types.h>

#include "sframe_code.h"

#ifdef __x86_64__
/* The kernel does not support it. */
#define SFRAME_VERSION_1	1

#define SFRAME_PT		0x6474e554

#define FRE_WORDS(n)		((n) << 1)
#define FRE_SIZE(log2)		((log2) << 5)

/* Control words of flexible rules: a register's value, what it points to. */
#define FLEX_DEFAULT		0
#define FLEX_REG(dwarf)		((dwarf) << 3 | 1)
#define FLEX_AT_REG(dwarf)	((dwarf) << 3 | 3)
#define FLEX_ADD_AT_REG(dwarf)	((dwarf) << 3 | 7)
#define FLEX_INDEX(dwarf)	(((dwarf) + 1) << 8)
#define FLEX_AT_CFA		2
#define DWARF_RAX		0
#define DWARF_RBP		6
#define DWARF_RSP		7
#define DWARF_R9		9
#define DWARF_R10		10
#define DWARF_R12		12

/* Room for a section. */
#define SFRAME_MAX_SIZE	4096

struct sframe_row {
	const char	*at;
	/* SFRAME_FRE_CFA_SP or 0. */
	__u8		base;
	__u8		nwords;
	__s32		words[6];
};

struct sframe_func {
	const char		*start;
	const char		*end;
	const struct sframe_row	*rows;
	unsigned int		nr_rows;
	/* Bytes after which a PLT repeats, 0 if this is none. */
	unsigned int		rep_size;
	/* The following are for v3 only. */
	bool			flex;
	bool			signal;
	/* Needs SFRAME_FLAG_ADD. */
	bool			add;
};

struct sframe_opts {
	__u8		version;
	/* v2: starts relative to their own fields. */
	bool		pcrel;
	/* log2 of the least width of addresses and words. */
	__u8		addr_width;
	__u8		word_width;
	/* Functions whose frame is outermost; code_entry, if none is given. */
	const char	*outermost[2];
	/* A function left out. */
	const char	*without;
	/* With functions that need SFRAME_FLAG_ADD; without the flag for them. */
	bool		add;
	bool		add_unsaid;
	/* Length of the auxiliary header, which is filled with 0xff. */
	__u8		aux_len;
};

/* All functions, in the order of sframe_code.h. */
extern const struct sframe_func sframe_funcs[];
extern const unsigned int nr_sframe_funcs;

/* Does a section with these options contain the function? */
bool sframe_has(const struct sframe_opts *o, const struct sframe_func *f);

/* Write the section at addr for code whose code_begin is at text; returns the size. */
size_t sframe_build(unsigned char *buf, const struct sframe_opts *o, __u64 addr,
		    __u64 text);

/* Corrupt what a section says of a function. */
void sframe_corrupt(unsigned char *sframe, const char *func);
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_SFRAME_SECTION_H */
