/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SFRAME_TRANSLATE_H
#define __PERF_SFRAME_TRANSLATE_H

#include "util/sframe-table.h"

struct sframe_cfi_row;
struct sframe_plt;
struct sframe_rule;

/* Result of the translation of a row of CFI */
enum sframe_kind {
	SFRAME_KIND_RULE,
	SFRAME_KIND_PLT,
	SFRAME_KIND_SIGNAL,
	SFRAME_KIND_LOST,
};

enum sframe_kind sframe_row__translate(const struct sframe_cfi_row *row,
				       struct sframe_rule *rule,
				       struct sframe_plt *plt,
				       enum sframe_lost *lost);

#endif /* __PERF_SFRAME_TRANSLATE_H */
