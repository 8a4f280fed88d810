/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An array_index_nospec() that counts its uses for tests. Here, nothing can go wrong by
 * speculation, so an index out of bounds is an error.
 */
#ifndef _TEST_UNWIND_LINUX_NOSPEC_H
#define _TEST_UNWIND_LINUX_NOSPEC_H

/**
 * test_mask_index - What array_index_nospec() is here
 * @index:	Index
 * @size:	Bound; an index that is not below it ends the program
 *
 * Return: The index.
 */
unsigned long test_mask_index(unsigned long index, unsigned long size);

#define array_index_nospec(index, size)	\
	((typeof(index))test_mask_index(index, size))

#endif /* _TEST_UNWIND_LINUX_NOSPEC_H */
