/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_EXPR_H
#define __PERF_SFRAME_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <elfutils/libdw.h>
#include <linux/types.h>

struct sframe_loc;

/**
 * struct sframe_plt - The CFA in the entries of a PLT
 * @off:	Offset of the CFA from the stack pointer, in the first part of each
 *		block
 * @rep_size:	Length of a block
 * @pushed:	Offset of the second part in a block
 * @grows:	Added to @off in the second part
 */
struct sframe_plt {
	s32	off;
	u32	rep_size;
	u32	pushed;
	s32	grows;
};

bool sframe_expr__simplify(const Dwarf_Op *ops, size_t nr_ops,
			   struct sframe_loc *loc, bool *is_value);
bool sframe_expr__plt(const Dwarf_Op *ops, size_t nr_ops, struct sframe_plt *plt);

#endif /* __PERF_SFRAME_EXPR_H */
