/* SPDX-License-Identifier: GPL-2.0 */
/* Definitions that the files sframe-cfi*.c and sframe-check.c share */
#ifndef __PERF_SFRAME_CFI_INTERNAL_H
#define __PERF_SFRAME_CFI_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <linux/bits.h>
#include <linux/types.h>

#include "util/build-id.h"
#include "util/sframe-cfi.h"
#include "util/sframe-table.h"
#include "util/sha256.h"

struct sframe_ranges;
struct sframe_segment;

/*
 * A program of 76 MB has 93000 functions, so this is enough for more than a gigabyte.
 * An entry takes at most 48 bytes of memory, so this limits them to 96 MiB.
 */
#define SFRAME_CFI_ENTRIES_MAX	BIT_ULL(21)

/*
 * Longest augmentation of a CIE, with its NUL. It may be read for each FDE. The longest
 * that compilers write is "zPLRSB".
 */
#define SFRAME_AUGMENTATION_MAX	16

/**
 * struct sframe_cfi_cie - A CIE, the common part of FDEs
 * @off:	Its offset in the section
 * @valid:	It is valid
 * @encoding:	Encoding of addresses
 * @augmented:	Its FDEs have more data before their programs
 * @cost:	What its own program costs, see SFRAME_CFI_WORK_MAX
 * @states:	Number of states that are still remembered at the end of its program
 */
struct sframe_cfi_cie {
	Dwarf_Off	off;
	bool		valid;
	u8		encoding;
	bool		augmented;
	u64		cost;
	u32		states;
};

/**
 * struct sframe_cfi_source - A section with CFI
 * @data:	Its bytes
 * @size:	Offset of the end of its last entry
 * @addr:	Its address
 * @eh:		It is .eh_frame rather than .debug_frame
 * @cies:	Its CIEs, sorted by offset
 * @nr_cies:	Number of CIEs
 * @room_cies:	Number of CIEs that fit
 * @image:	An ELF file with only those entries that were checked, or NULL
 * @elf:	The handle of libelf for @image
 * @dwarf:	The handle of libdw for @image, if it is .debug_frame
 * @cfi:	The handle of libdw for its CFI
 */
struct sframe_cfi_source {
	Elf_Data		*data;
	u64			size;
	u64			addr;
	bool			eh;
	struct sframe_cfi_cie	*cies;
	size_t			nr_cies;
	size_t			room_cies;
	void			*image;
	Elf			*elf;
	Dwarf			*dwarf;
	Dwarf_CFI		*cfi;
};

enum {
	SFRAME_SOURCE_EH,
	SFRAME_SOURCE_DEBUG,
	SFRAME_SOURCE_NR,
};

/**
 * struct sframe_cfi_fde - An FDE: a function in a section with CFI
 * @start:	Its first address
 * @end:	Its end address
 * @reach:	Its end address in the FDE, before it was cut at the segment or at
 *		other functions
 * @off:	Its offset in the section
 * @source:	Index of the section
 * @damaged:	Do not pass it to libdw
 */
struct sframe_cfi_fde {
	u64		start;
	u64		end;
	u64		reach;
	Dwarf_Off	off;
	u8		source;
	bool		damaged;
};

/**
 * struct sframe_cfi - A file
 * @elf:	The file
 * @source:	Its sections with CFI; a section that does not exist has no data
 * @segments:	Its segments with code, sorted
 * @nr_segments: Number of segments
 * @fdes:	Its functions, sorted and without overlaps
 * @nr_fdes:	Number of functions
 * @room_fdes:	Number of functions that fit
 * @work:	Work of libdw for the functions so far, see SFRAME_CFI_WORK_MAX
 * @exprs:	Bytes of expressions so far, see SFRAME_CFI_EXPRS_MAX
 * @code:	Bytes of code
 * @dev:	Device of the file
 * @ino:	Inode number of the file
 * @ctime:	When the inode was changed last, in nanoseconds
 * @bid:	Build-id; its size is 0 if there is none
 * @read:	Bytes that libelf was asked for so far, see SFRAME_CFI_SIZE_MAX
 * @large:	More than SFRAME_CFI_SIZE_SMALL of this file may be read
 * @alone:	This thread has the mutex for large files
 * @bounds:	Only the bounds of the functions in .eh_frame are needed
 * @stop:	Returns true to give up, or NULL
 * @stop_arg:	For @stop
 * @sha:	Hash of all data that the table depends on
 * @fingerprint: Result of @sha
 */
struct sframe_cfi {
	Elf				*elf;
	struct sframe_cfi_source	source[SFRAME_SOURCE_NR];
	struct sframe_segment		*segments;
	size_t				nr_segments;
	struct sframe_cfi_fde		*fdes;
	size_t				nr_fdes;
	size_t				room_fdes;
	u64				work;
	u64				exprs;
	u64				code;
	u64				dev;
	u64				ino;
	u64				ctime;
	struct build_id			bid;
	u64				read;
	bool				large;
	bool				alone;
	bool				bounds;
	sframe_stop_fn			stop;
	const void			*stop_arg;
	struct sha256			sha;
	u8				fingerprint[SHA256_SIZE];
};

static inline bool sframe_cfi__is_stopped(const struct sframe_cfi *cfi)
{
	return cfi->stop && cfi->stop(cfi->stop_arg);
}

/* sframe-cfi.c */
int sframe_cfi__open_bounds(int fd, struct sframe_cfi **cfi);
bool sframe_cfi__afford(struct sframe_cfi *cfi, u64 size);
bool sframe_cfi__clip(const struct sframe_cfi *cfi, u64 *start, u64 *end);

/* sframe-cfi-vet.c */
bool sframe_cfi__sane(struct sframe_cfi *cfi, const u8 *start, const u8 *end, u8 encoding,
		      u32 *states, u64 *rows, u64 *cost);

/* sframe-cfi-image.c */
int sframe_cfi__open_source(struct sframe_cfi *cfi, u8 which);

/* sframe-cfi-read.c */
int sframe_cfi__find_functions(struct sframe_cfi *cfi);

/* sframe-cfi-scan.c */
int sframe_cfi__scan(struct sframe_cfi *cfi, struct sframe_ranges *described,
		     struct sframe_check *check);

#endif /* __PERF_SFRAME_CFI_INTERNAL_H */
