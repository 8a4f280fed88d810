// SPDX-License-Identifier: GPL-2.0
/* Goes through the functions of a file, and gets their rows from libdw */
#include <errno.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "util/sframe-cfi-internal.h"

/**
 * sframe_cfi__walk_functions - Find the functions that .eh_frame describes
 * @fd:		File; any 64-bit little-endian program or library
 * @fn:		Called for each function, in order and without overlaps; a value other
 *		than 0 stops
 * @arg:	For @fn
 *
 * Return: 0; the value of @fn that is not 0; the errors of sframe_cfi__open(), with
 *	   -EFBIG also for more than SFRAME_CFI_ENTRIES_MAX entries.
 */
int sframe_cfi__walk_functions(int fd, sframe_cfi_function_fn fn, void *arg)
{
	struct sframe_cfi *cfi;
	size_t i;
	int ret;

	ret = sframe_cfi__open_bounds(fd, &cfi);
	if (ret)
		return ret;

	ret = sframe_cfi__find_functions(cfi);
	for (i = 0; i < cfi->nr_fdes && !ret; i++)
		ret = fn(cfi->fdes[i].start, cfi->fdes[i].end, arg);

	sframe_cfi__delete(cfi);
	return ret;
}

/**
 * sframe_cfi__walk - Go through all rows of the CFI of a file
 * @cfi:	File, after sframe_cfi__read()
 * @fn:		Called for each row, in order; a value other than 0 stops
 * @arg:	For @fn
 *
 * Return: 0; the value of @fn that is not 0; -EINTR - the callback of
 *	   sframe_cfi__stop_if() returned true.
 */
int sframe_cfi__walk(struct sframe_cfi *cfi, sframe_cfi_row_fn fn, void *arg)
{
	const struct sframe_cfi_fde *fde;
	struct sframe_cfi_row row;
	Dwarf_Addr start, end;
	bool signal;
	int ret = 0;
	size_t i;
	u64 addr;

	for (i = 0; i < cfi->nr_fdes && !ret; i++) {
		fde = &cfi->fdes[i];

		for (addr = fde->start; addr < fde->end && !ret; addr = row.end) {
			if (sframe_cfi__is_stopped(cfi))
				return -EINTR;
			row = (struct sframe_cfi_row) { .start = addr, .end = fde->end };

			if (!fde->damaged &&
			    !dwarf_cfi_addrframe(cfi->source[fde->source].cfi, addr,
						 &row.frame)) {
				row.ra = dwarf_frame_info(row.frame, &start, &end, &signal);
				row.signal = signal;
				if (row.ra < 0 || start > addr || end <= addr)
					zfree(&row.frame);
				else
					row.end = min((u64)end, fde->end);
			}

			row.last = row.end == fde->end;
			ret = fn(&row, arg);
			free(row.frame);
		}
	}

	return ret;
}
