/* SPDX-License-Identifier: GPL-2.0 */
/* Call frame information (CFI) of ELF files, as libdw understands it */
#ifndef __PERF_SFRAME_CFI_H
#define __PERF_SFRAME_CFI_H

#include <elfutils/libdw.h>
#include <gelf.h>

#include "util/build-id.h"
#include "util/sframe-table.h"

struct sframe_cfi;

/**
 * struct sframe_cfi_row - Addresses with the same CFI
 * @start:	First address
 * @end:	End of the addresses
 * @frame:	Their CFI; NULL if it is damaged
 * @ra:		DWARF number of the return address
 * @signal:	The code returns from a signal handler
 * @last:	This is the last row of its function
 */
struct sframe_cfi_row {
	u64		start;
	u64		end;
	Dwarf_Frame	*frame;
	int		ra;
	bool		signal;
	bool		last;
};

typedef int (*sframe_cfi_row_fn)(const struct sframe_cfi_row *row, void *arg);

typedef int (*sframe_cfi_function_fn)(u64 start, u64 end, void *arg);

int sframe_cfi__walk_functions(int fd, sframe_cfi_function_fn fn, void *arg);

int sframe_cfi__open(int fd, struct sframe_cfi **cfi);
int sframe_cfi__open_until(int fd, sframe_stop_fn stop, const void *arg, struct sframe_cfi **cfi);
void sframe_cfi__delete(struct sframe_cfi *cfi);
void sframe_cfi__stop_if(struct sframe_cfi *cfi, sframe_stop_fn stop, const void *arg);
int sframe_cfi__read(struct sframe_cfi *cfi);
int sframe_cfi__walk(struct sframe_cfi *cfi, sframe_cfi_row_fn fn, void *arg);

const struct build_id *sframe_cfi__build_id(const struct sframe_cfi *cfi);
const u8 *sframe_cfi__fingerprint(const struct sframe_cfi *cfi);
u64 sframe_cfi__code(const struct sframe_cfi *cfi);

#endif /* __PERF_SFRAME_CFI_H */
