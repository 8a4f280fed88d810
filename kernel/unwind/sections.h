/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame sections of the current task's code
 */
#ifndef _KERNEL_UNWIND_SECTIONS_H
#define _KERNEL_UNWIND_SECTIONS_H

#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/seqlock.h>
#include <linux/types.h>

#include "sframe.h"
#include "tables.h"

struct file;

/**
 * struct unwind_user_seq - To what something that was looked up belongs
 * @mm:		Sequence number of the mm's mappings
 * @tables:	Which tables that were supplied serve the task
 */
struct unwind_user_seq {
	unsigned int		mm;
	u64			tables;
};

/**
 * struct unwind_user_section - What is known of a range of code
 * @start:	First byte of the range
 * @end:	First byte after it
 * @id:		Number of the range and what it holds; never 0. If anything about
 *		it changes, so does the number, and no number is used twice.
 * @has_sframe:	There is a section. Otherwise the range is known to have none,
 *		unless @unread.
 * @unread:	What the range has could not be read now; not to be kept
 * @table:	Number of the table that was supplied for the file, for
 *		unwind_table_find_rule(); 0 if none was
 * @load_base:	If @table is set, where the file's address 0 would be
 * @sframe:	The section, if @has_sframe
 *
 * A copy that holds no reference to anything. What it says may not be so any
 * more at any time; reading the section then yields other bytes, or fails.
 */
struct unwind_user_section {
	unsigned long		start;
	unsigned long		end;
	u64			id;
	bool			has_sframe;
	bool			unread;
	u64			table;
	unsigned long		load_base;
	struct sframe_section	sframe;
};

/**
 * unwind_user_section_seq - Sequence number of an mm's mappings
 * @mm:		The mm
 *
 * Context: The mmap lock is held for reading, so that nothing is changing.
 * Return: A number that changes when anything is mapped, unmapped, or
 *	   registered; 0 if the kernel does not count.
 */
static inline unsigned int unwind_user_section_seq(const struct mm_struct *mm)
{
#ifdef CONFIG_PER_VMA_LOCK
	return raw_read_seqcount(&mm->mm_lock_seq);
#else
	return 0;
#endif
}

/**
 * unwind_user_mm_current - Are the mappings of current what they were?
 * @seq:	From unwind_user_section_seq(), of the mm that current has now
 *
 * Context: Task context of a user task.
 * Return: true if nothing was mapped, unmapped or registered since; false if
 *	   something was, or if the kernel cannot tell.
 */
static inline bool unwind_user_mm_current(unsigned int seq)
{
#ifdef CONFIG_PER_VMA_LOCK
	return raw_read_seqcount(&current->mm->mm_lock_seq) == seq;
#else
	return false;
#endif
}

/**
 * unwind_user_section_current - Does what a lookup said still hold?
 * @seq:	From unwind_user_section_find(), of the mm that current has now
 *
 * Context: Task context of a user task.
 * Return: true if nothing was mapped, unmapped, registered, or supplied for this task
 *	   since; false if something was, or if the kernel cannot tell.
 */
static inline bool unwind_user_section_current(const struct unwind_user_seq *seq)
{
	return unwind_user_mm_current(seq->mm) &&
	       unwind_tables_unchanged(seq->tables);
}

/**
 * struct unwind_user_mapping - Where a mapping of the current task is
 * @start:	Its first byte
 * @end:	First byte after it
 * @seq:	Tells whether it still is there, see unwind_user_mm_current()
 */
struct unwind_user_mapping {
	unsigned long		start;
	unsigned long		end;
	unsigned int		seq;
};

int unwind_user_section_find(unsigned long ip,
			     struct unwind_user_section *section,
			     struct unwind_user_seq *seq);
bool unwind_user_section_drop(const struct unwind_user_section *section,
			      const struct unwind_user_seq *seq,
			      unsigned long ip, const char *flaw);
int unwind_user_check_file(struct file *file);
bool unwind_user_find_stack(unsigned long sp, struct unwind_user_mapping *mapping);
bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping);

#endif /* _KERNEL_UNWIND_SECTIONS_H */
