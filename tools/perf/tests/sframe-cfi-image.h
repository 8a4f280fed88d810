/* SPDX-License-Identifier: GPL-2.0 */
/* ELF files with call frame information for tests */
#ifndef __PERF_TESTS__SFRAME_CFI_IMAGE_H__
#define __PERF_TESTS__SFRAME_CFI_IMAGE_H__

#include <stddef.h>
#include <sys/resource.h>
#include <linux/types.h>

#include "util/sframe-table.h"

#define TEXT		0x10000
#define TEXT_SIZE	0x1000
#define EH_FRAME	0x20000

#define UNREAD_CODE_SIZE	0x400

struct image {
	u8	data[4096];
	size_t	size;
};

/*
 * The most memory that a test may use, in KiB. Reading a hole would use 16 times that.
 */
#define MEMORY_MAX	(64 << 10)

/*
 * The rule of the harmless FDE. Other FDEs, or bytes that libdw finds as an FDE, have
 * instructions for which libdw would allocate memory for very many registers.
 */
#define HIDDEN_TEXT	"cfa rsp+8 ra *(cfa-8) fp same"

enum hiding {
	/* In the data of an FDE, and the index points to it. */
	HIDE_BY_INDEX,
	/* In a function that overlaps another function and is found first. */
	HIDE_BY_OVERLAP,
	/* In such a function that starts before the code. */
	HIDE_BEFORE_CODE,
	/* After a number with more bytes than libdw reads. */
	HIDE_BY_NUMBER,
	HIDE_NR,
};

extern const u8 sframe_image__build_id[8];
extern const struct sframe_stats sframe_image__stats;

void sframe_image__build(struct image *image);
void sframe_image__build_hidden(struct image *image, enum hiding hiding);
void sframe_image__build_unread(struct image *image);
int sframe_image__open(const struct image *image);
int sframe_image__check_rules(const struct sframe_table *table);

static inline long peak_memory(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) ? -1 : usage.ru_maxrss;
}

#endif /* __PERF_TESTS__SFRAME_CFI_IMAGE_H__ */
