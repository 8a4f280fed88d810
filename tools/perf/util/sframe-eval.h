/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds the caller's frame by executing the expressions of call frame information.
 * Registers and memory have made-up values, which are the same each time. So two
 * rules give the same result only if they lead to the same frame.
 *
 * This file depends neither on SFrame nor on the rest of perf, because
 * tools/testing/unwind uses it, too.
 */
#ifndef __PERF_SFRAME_EVAL_H
#define __PERF_SFRAME_EVAL_H

#include <stdbool.h>
#include <stdint.h>
#include <elfutils/libdw.h>

/**
 * struct sframe_frame - A caller's frame
 * @cfa:	The canonical frame address
 * @sp:		The stack pointer
 * @ra:		The return address
 * @fp:		The frame pointer register
 * @outermost:	There is no caller
 * @fp_known:	@fp is valid
 */
struct sframe_frame {
	uint64_t	cfa;
	uint64_t	sp;
	uint64_t	ra;
	uint64_t	fp;
	bool		outermost;
	bool		fp_known;
};

uint64_t sframe_eval__reg(unsigned int reg);
uint64_t sframe_eval__load(uint64_t addr);
bool sframe_eval__depends_on_ip(Dwarf_Frame *frame);
bool sframe_eval__frame(Dwarf_Frame *frame, uint64_t ip, struct sframe_frame *result);

#endif /* __PERF_SFRAME_EVAL_H */
