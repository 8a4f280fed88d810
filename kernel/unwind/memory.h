/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_MEMORY_H
#define _KERNEL_UNWIND_MEMORY_H

#include <linux/mm.h>
#include <linux/types.h>
#include <linux/uaccess.h>

struct unwind_user_state;

/**
 * unwind_user_peek_one - unwind_user_peek() with page faults disabled by the caller
 * @addr:	As for unwind_user_peek()
 * @val:	As for unwind_user_peek()
 *
 * Context: As unwind_user_peek().
 * Return: true if the word was read.
 */
static __always_inline bool unwind_user_peek_one(unsigned long addr, unsigned long *val)
{
	const unsigned long __user *from = (const unsigned long __user *)addr;

	if (!user_read_access_begin(from, sizeof(*from)))
		return false;
	unsafe_get_user(*val, from, fault);
	user_read_access_end();
	return true;
fault:
	user_read_access_end();
	return false;
}

/**
 * unwind_user_peek_two - unwind_user_peek_pair() with page faults disabled by the caller
 * @addr:	As for unwind_user_peek_pair()
 * @low:	As for unwind_user_peek_pair()
 * @high:	As for unwind_user_peek_pair()
 *
 * Context: As unwind_user_peek().
 * Return: true if both words were read.
 */
static __always_inline bool unwind_user_peek_two(unsigned long addr, unsigned long *low,
						 unsigned long *high)
{
	const unsigned long __user *from = (const unsigned long __user *)addr;

	if (!user_read_access_begin(from, 2 * sizeof(*from)))
		return false;
	unsafe_get_user(*low, from, fault);
	unsafe_get_user(*high, from + 1, fault);
	user_read_access_end();
	return true;
fault:
	user_read_access_end();
	return false;
}

bool unwind_user_read_absent(unsigned long addr, void *buf, unsigned int size);
bool unwind_user_peek_pair(unsigned long addr, unsigned long *low, unsigned long *high);
bool unwind_user_may_load(const struct unwind_user_state *state,
			  unsigned long addr, unsigned int size);
bool unwind_user_is_absent(unsigned long addr);

/*
 * arch_unwind_user_entry_rule() reads the instruction at @ip and what is before it. At the begin
 * of a page that is on another one.
 */
static inline bool unwind_user_lacks_entry(unsigned long ip)
{
	return unwind_user_is_absent(ip) ||
	       (!offset_in_page(ip) && unwind_user_is_absent(ip - 1));
}

#endif /* _KERNEL_UNWIND_MEMORY_H */
