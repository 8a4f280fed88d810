// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <linux/kernel.h>

#include "util/array-grow.h"

/*
 * Makes room for one more entry. If memory is lacking, returns NULL and keeps @array.
 */
void *array__grow(void *array, size_t nr, size_t *room, size_t size)
{
	size_t more = max(*room * 2, (size_t)64);
	void *new;

	if (nr < *room)
		return array;

	new = realloc(array, more * size);
	if (new)
		*room = more;

	return new;
}
