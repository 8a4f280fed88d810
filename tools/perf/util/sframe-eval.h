/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What call frame information means for a frame: its expressions are executed.
 * Memory and registers are made up, the same each time, so that two ways to the
 * same frame can be told from two that just look alike.
 *
 * Knows nothing of SFrame, nor of the rest of perf: tools/testing/unwind has it too.
 */
#ifndef __PERF_SFRAME_EVAL_H
#define __PERF_SFRAME_EVAL_H

#include <stdbool.h>
#include <stdint.h>
#include <elfutils/libdw.h>

/**
 * struct sframe_frame - A calling frame
 * @cfa:	The canonical frame address
 * @sp:		The stack pointer
 * @ra:		The return address
 * @fp:		The frame pointer register
 * @outermost:	There is none
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
