/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame sections and tables for AMD64: rules for frames of user space
 *
 * Assemblers and linkers write a section of version 2 or 3 into a program. perf
 * makes tables of version 3 for programs without such a section. A table is in a
 * file or buffer of its own. Its addresses are those of the program's ELF file, as
 * if the first byte of the table had the address 0.
 *
 *	header | auxiliary header | FDEs, sorted by address | attributes and FREs
 *
 * An FDE (function descriptor entry) covers a function. An FRE (frame row entry)
 * covers a part of it, from its own address to the address of the next FRE. All
 * fields are packed and little endian. Every byte of the input may be hostile.
 * <linux/sframe.h> describes the format.
 */
#ifndef __PERF_SFRAME_H
#define __PERF_SFRAME_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/types.h>

/* -Wpacked warns if there is no padding, but structures may be at any address. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpacked"
#include <linux/sframe.h>
#pragma GCC diagnostic pop

#include "util/build-id.h"

/* Older headers do not have it. */
#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME	0x6474e554
#endif

/* DWARF number of the instruction pointer */
#define SFRAME_AMD64_IP		16

/* The kernel reads no section that is larger. */
#define SFRAME_SIZE_MAX		(256U << 20)
/* The kernel accepts no table that is larger. */
#define SFRAME_TABLE_SIZE_MAX	(64U << 20)

#define SFRAME_FINGERPRINT_SIZE	32

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpacked"

/* How many files with the same code a table knows */
#define SFRAME_AUX_FILES	4

/**
 * struct sframe_aux_file - Which file was read
 * @dev:	Its device
 * @ino:	Its inode number, or 0 if this is not used
 * @ctime:	When the inode was changed last, in nanoseconds
 */
struct sframe_aux_file {
	__le64	dev;
	__le64	ino;
	__le64	ctime;
} __packed;

/**
 * struct sframe_aux - What perf writes into the auxiliary header of its tables
 * @magic:	%SFRAME_AUX_MAGIC
 * @version:	%SFRAME_AUX_VERSION; changes if perf makes different tables
 * @size:	Size of the whole table, in bytes
 * @fingerprint: SHA-256 of the data that the table was made from
 * @code:	Bytes of code in the file
 * @described:	Bytes of code that the CFI of the file describes
 * @covered:	Part of @described that the table covers
 * @derived:	Bytes of code with rules that were derived from its instructions
 * @code_hash:	SHA-256 of all data, apart from the CFI, in which perf has looked for these
 *		rules; 0 if it cannot be read, or if @partial
 * @files:	Files with this code, the one that was read last first
 * @marks:	Offset of the marks: a bit for each FDE, set if its rules were derived from
 *		instructions; 0 if there are none
 * @build_id:	Build-id of the file
 * @build_id_size: Length of @build_id, 0 if the file has none
 * @partial:	1 if the derived rules have not been made yet
 * @pad:	Aligns the FDEs
 */
struct sframe_aux {
	u8	magic[4];
	__le32	version;
	__le64	size;
	u8	fingerprint[SFRAME_FINGERPRINT_SIZE];
	__le64	code;
	__le64	described;
	__le64	covered;
	__le64	derived;
	u8	code_hash[SFRAME_FINGERPRINT_SIZE];
	struct sframe_aux_file files[SFRAME_AUX_FILES];
	__le32	marks;
	u8	build_id[BUILD_ID_SIZE];
	u8	build_id_size;
	u8	partial;
	u8	pad[2];
} __packed;

#pragma GCC diagnostic pop

#define SFRAME_AUX_MAGIC	"perf"
#define SFRAME_AUX_VERSION	9

enum sframe_base {
	/* The caller's value is still in the register. */
	SFRAME_BASE_SAME,
	/* The canonical frame address (CFA). */
	SFRAME_BASE_CFA,
	SFRAME_BASE_REG,
	/* It cannot be found. Only for the frame pointer. */
	SFRAME_BASE_NONE,
};

/**
 * struct sframe_loc - How to find a value of the caller's frame
 * @base:	The base address
 * @reg:	DWARF number of the register, for %SFRAME_BASE_REG
 * @deref:	The value is in memory at @base + @off; otherwise it is @base + @off
 * @off:	Offset from @base, in bytes
 * @add:	Added to what was read from memory, in bytes; only for the CFA
 * @index:	DWARF number, plus 1, of a register: 8 times its value is part of the
 *		address; 0 if there is none. Only for the CFA, with @deref
 */
struct sframe_loc {
	enum sframe_base	base;
	u8			reg;
	bool			deref;
	s32			off;
	s32			add;
	u8			index;
};

/* Does the location need SFRAME_FLAG_ADD? */
static inline bool sframe_loc__adds(const struct sframe_loc *loc)
{
	return loc->add || loc->index;
}

/**
 * struct sframe_rule - How to get from a frame to its caller
 * @cfa:	The stack pointer of the caller
 * @ra:		The return address
 * @fp:		The frame pointer register of the caller
 * @outermost:	The frame has no caller; the other members are not valid
 */
struct sframe_rule {
	struct sframe_loc	cfa;
	struct sframe_loc	ra;
	struct sframe_loc	fp;
	bool			outermost;
};

/**
 * struct sframe_row - A rule and its first address
 * @addr:	Offset from the start of the function, or of the block
 * @rule:	The rule from this address on
 */
struct sframe_row {
	u32			addr;
	struct sframe_rule	rule;
};

/**
 * struct sframe_function - An FDE
 * @start:	Address of the function
 * @size:	Its length in bytes
 * @nr_rows:	Number of its rows
 * @rep_size:	Length of a block if the function is a sequence of equal blocks,
 *		else 0
 * @signal:	It returns from a signal handler
 * @derived:	Its rules were derived from instructions
 * @flex:	Its rows are in the flexible form (only set by the reader)
 * @width:	Size of the addresses of its rows, as log2 (only set by the reader)
 * @pos:	Offset of its first row in the data (only set by the reader)
 */
struct sframe_function {
	u64	start;
	u32	size;
	u32	nr_rows;
	u8	rep_size;
	bool	signal;
	bool	derived;
	bool	flex;
	u8	width;
	u32	pos;
};

bool sframe_rule__equal(const struct sframe_rule *a, const struct sframe_rule *b);
int sframe_rule__scnprintf(const struct sframe_rule *rule, char *buf, size_t size);

/**
 * struct sframe_reader - A section or table to read
 * @data:	Its bytes
 * @size:	Number of bytes
 * @base:	Address of the first byte
 * @version:	From the header, like all members below
 * @flags:	SFRAME_FLAG_*
 * @aux_len:	Length of the auxiliary header
 * @num_fdes:	Number of FDEs
 * @num_fres:	Number of FREs
 * @fdes:	Offset of the first FDE in @data
 * @fres:	Offset of the attributes and FREs in @data
 * @fres_end:	Offset of their end in @data
 * @marks:	Offset of the marks of FDEs with derived rules, or 0
 */
struct sframe_reader {
	const u8	*data;
	u32		size;
	u64		base;
	u8		version;
	u8		flags;
	u8		aux_len;
	u32		num_fdes;
	u32		num_fres;
	u32		fdes;
	u32		fres;
	u32		fres_end;
	u32		marks;
};

int sframe_reader__init(struct sframe_reader *reader, const void *data,
			size_t size, u64 base);
int sframe_reader__aux(const struct sframe_reader *reader, struct sframe_aux *aux);
int sframe_reader__function(const struct sframe_reader *reader, u32 index,
			    struct sframe_function *function);
int sframe_reader__row(const struct sframe_reader *reader,
		       const struct sframe_function *function, u32 *pos,
		       struct sframe_row *row);
int sframe_reader__find(const struct sframe_reader *reader, u64 addr,
			struct sframe_rule *rule, bool *signal, u64 *end);
bool sframe_reader__is_derived(const struct sframe_reader *reader, u64 addr);
int sframe_reader__check(const struct sframe_reader *reader);
int sframe_reader__fprintf(const struct sframe_reader *reader, FILE *fp);
int sframe_reader__without_add(const struct sframe_reader *reader, void **data);

struct sframe_writer;

struct sframe_writer *sframe_writer__new(void);
void sframe_writer__delete(struct sframe_writer *writer);
int sframe_writer__add(struct sframe_writer *writer,
		       const struct sframe_function *function,
		       const struct sframe_row *rows);
int sframe_writer__finish(struct sframe_writer *writer, struct sframe_aux *aux,
			  void **data, size_t *size);

#endif /* __PERF_SFRAME_H */
