/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reader of SFrame sections; <linux/sframe.h> has the format
 */
#ifndef _KERNEL_UNWIND_SFRAME_H
#define _KERNEL_UNWIND_SFRAME_H

#include <linux/limits.h>
#include <linux/sframe.h>
#include <linux/sizes.h>
#include <linux/types.h>

#include <asm/sframe.h>

struct unwind_user_rule;

/* The largest section that is read. It is enough for about 1 GiB of text. */
#define SFRAME_SIZE_MAX			SZ_256M

/*
 * The most FREs that one function may have, because a lookup goes through them.
 * Version 3 cannot express more.
 */
#define SFRAME_FRES_MAX			U16_MAX
/* The most bytes that these FREs may have, so that a lookup does not take long. */
#define SFRAME_FRES_LEN_MAX		SZ_256K

/*
 * Number of parts of the FDEs. The section remembers the start of each part, so a
 * lookup reads FDEs of only one part. With up to a thousand FDEs, as in most
 * programs, this takes one read. Must be the square of SFRAME_PARTS_ROOT.
 */
#define SFRAME_PARTS			64
#define SFRAME_NO_PART			U32_MAX

/**
 * struct sframe_section - A section to look up rules in
 * @base:	Address of the section's first byte; addresses of functions are
 *		relative to it
 * @size:	Its length in bytes
 * @data:	The section's bytes in kernel memory; NULL if they are to be read
 *		from user memory at @base
 * @version:	From the header, like the following fields
 * @pcrel:	%SFRAME_FLAG_PCREL is set
 * @may_add:	%SFRAME_FLAG_ADD is set
 * @num_fdes:	How many FDEs there are
 * @num_fres:	How many FREs there are
 * @fdes:	Offset of the first FDE in the section
 * @fres:	Offset of the area with all FREs in the section
 * @fres_end:	Offset of the end of that area
 * @part_size:	Number of FDEs in one part
 * @first:	Start of the first function, minus @base
 * @starts:	Start of the first function of each part, minus the start of the
 *		first function of all; %SFRAME_NO_PART for parts that do not exist or
 *		are too far away
 *
 * The caller sets @base, @size and @data; sframe_section_init() sets the rest. It
 * does not change after that, so any number of tasks may use it. The section's bytes
 * may change at any time.
 */
struct sframe_section {
	unsigned long		base;
	u32			size;
	const void		*data;

	u8			version;
	bool			pcrel;
	bool			may_add;
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
 * struct sframe_check - How far a section was checked; all zero at the start
 * @index:	FDE to check next. The section is valid when this reaches
 *		&sframe_section.num_fdes
 * @start:	Start of the previous function, minus &sframe_section.base
 * @num_fres:	Number of FREs of the functions so far
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
int sframe_find_rule_within(const struct sframe_section *sec, unsigned long ip,
			    struct unwind_user_rule *rule, u32 *budget);
int sframe_check_function(const struct sframe_section *sec,
			  struct sframe_check *check);

/**
 * sframe_find_rule - Look up the rule for an address
 * @sec:	As for sframe_find_rule_or_flaw()
 * @ip:		As for sframe_find_rule_or_flaw()
 * @rule:	As for sframe_find_rule_or_flaw()
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
