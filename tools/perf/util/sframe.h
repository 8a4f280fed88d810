/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame tables, AMD64: how to get from a frame of user space to its caller's
 *
 * Assemblers and linkers write them into a section of a program, versions 2 and
 * 3 of the format. Those that are made here, version 3, are for programs that
 * have no such section. They lie in a file or buffer of their own, so the
 * addresses in them are those of the program's ELF file, as if the first byte
 * of the table had the address 0.
 *
 *	header | auxiliary header | FDEs, sorted by address | attributes and FREs
 *
 * An FDE (frame description entry) covers a function, an FRE (frame row entry)
 * the part of it from its address on to the next FRE's. Everything is packed
 * and little endian. Every byte that is read may be hostile.
 */
#ifndef __PERF_SFRAME_H
#define __PERF_SFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/types.h>

#include "util/build-id.h"

#define SFRAME_MAGIC		0xdee2

#define SFRAME_VERSION_2	2
#define SFRAME_VERSION_3	3

#define SFRAME_FLAG_SORTED	BIT(0)
#define SFRAME_FLAG_FP		BIT(1)
#define SFRAME_FLAG_PCREL	BIT(2)

#define SFRAME_ABI_AMD64	3
#define SFRAME_AMD64_RA_OFF	(-8)
#define SFRAME_AMD64_FP		6
#define SFRAME_AMD64_SP		7
#define SFRAME_AMD64_REGS	16

/* Some would look the same otherwise, but they may be at any address. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpacked"

struct sframe_header {
	__le16	magic;
	u8	version;
	u8	flags;
	u8	abi;
	s8	fixed_fp;
	s8	fixed_ra;
	u8	aux_len;
	__le32	num_fdes;
	__le32	num_fres;
	__le32	fre_len;
	__le32	fde_off;
	__le32	fre_off;
} __packed;

#define SFRAME_FDE_WIDTH_MASK	GENMASK(3, 0)
#define SFRAME_FDE_MASK		BIT(4)
#define SFRAME_FDE_SIGNAL	BIT(7)
#define SFRAME_FDE_FLEX		1

struct sframe_fde_v2 {
	__le32	start;
	__le32	size;
	__le32	fre_off;
	__le32	num_fres;
	u8	info;
	u8	rep_size;
	__le16	pad;
} __packed;

struct sframe_fde_v3 {
	__le64	start;
	__le32	size;
	__le32	fre_off;
} __packed;

struct sframe_attr_v3 {
	__le16	num_fres;
	u8	info;
	u8	info2;
	u8	rep_size;
} __packed;

#define SFRAME_FRE_CFA_SP	BIT(0)
#define SFRAME_FRE_WORDS_SHIFT	1
#define SFRAME_FRE_WORDS_MASK	0xf
#define SFRAME_FRE_WIDTH_SHIFT	5
#define SFRAME_FRE_WIDTH_MASK	3
#define SFRAME_FRE_MANGLED_RA	BIT(7)

#define SFRAME_FRE_WORDS_MAX	15
/* Of addresses and words, as a power of two: four bytes. */
#define SFRAME_WIDTH_MAX	2

#define SFRAME_FLEX_REG		BIT(0)
#define SFRAME_FLEX_DEREF	BIT(1)
#define SFRAME_FLEX_RESERVED	BIT(2)
#define SFRAME_FLEX_REG_SHIFT	3

/* The kernel reads no larger sections of files, */
#define SFRAME_SIZE_MAX		(256U << 20)
/* and takes no larger tables. */
#define SFRAME_TABLE_SIZE_MAX	(64U << 20)

#define SFRAME_FINGERPRINT_SIZE	32

/**
 * struct sframe_aux - What perf writes into the auxiliary header of its tables
 * @magic:	%SFRAME_AUX_MAGIC
 * @version:	%SFRAME_AUX_VERSION of the generator: another one makes others
 * @size:	Of the whole table, in bytes
 * @fingerprint: SHA-256 of what the table was made of
 * @code:	Bytes of code in the file
 * @described:	Those that the file describes
 * @covered:	Those that the table describes
 * @build_id:	Of the file
 * @build_id_size: Length of @build_id, 0 if the file has none
 * @pad:	Aligns what follows
 */
struct sframe_aux {
	u8	magic[4];
	__le32	version;
	__le64	size;
	u8	fingerprint[SFRAME_FINGERPRINT_SIZE];
	__le64	code;
	__le64	described;
	__le64	covered;
	u8	build_id[BUILD_ID_SIZE];
	u8	build_id_size;
	u8	pad[7];
} __packed;

#pragma GCC diagnostic pop

#define SFRAME_AUX_MAGIC	"perf"
#define SFRAME_AUX_VERSION	1

enum sframe_base {
	/* The register still holds the caller's value. */
	SFRAME_BASE_SAME,
	/* The canonical frame address (CFA). */
	SFRAME_BASE_CFA,
	SFRAME_BASE_REG,
};

/**
 * struct sframe_loc - How to find a value of the calling frame
 * @base:	What @off is added to
 * @reg:	DWARF number of the register, for %SFRAME_BASE_REG
 * @deref:	The value is in memory, at that sum; otherwise it is the sum
 * @off:	Bytes
 */
struct sframe_loc {
	enum sframe_base	base;
	u8			reg;
	bool			deref;
	s32			off;
};

/**
 * struct sframe_rule - How to get from a frame to its caller's
 * @cfa:	The stack pointer of the caller
 * @ra:		The return address
 * @fp:		The frame pointer register of the caller
 * @outermost:	There is no caller; the rest is not valid
 */
struct sframe_rule {
	struct sframe_loc	cfa;
	struct sframe_loc	ra;
	struct sframe_loc	fp;
	bool			outermost;
};

/**
 * struct sframe_row - A rule, and from where on it holds
 * @addr:	From the start of the function, or of the block
 * @rule:	The rule
 */
struct sframe_row {
	u32			addr;
	struct sframe_rule	rule;
};

/**
 * struct sframe_function - An FDE
 * @start:	Address of the function
 * @size:	Its length in bytes
 * @nr_rows:	How many rows it has
 * @rep_size:	If not 0 it is a row of blocks, this long and alike
 * @signal:	It returns from a signal handler
 * @flex:	Its rows are in the flexible form (only set by the reader)
 * @width:	Of the addresses of its rows (only set by the reader)
 * @pos:	Of its first row in the table (only set by the reader)
 */
struct sframe_function {
	u64	start;
	u32	size;
	u32	nr_rows;
	u8	rep_size;
	bool	signal;
	bool	flex;
	u8	width;
	u32	pos;
};

bool sframe_rule__equal(const struct sframe_rule *a, const struct sframe_rule *b);
int sframe_rule__scnprintf(const struct sframe_rule *rule, char *buf, size_t size);

/**
 * struct sframe_reader - A table to read
 * @data:	Its bytes
 * @size:	How many
 * @base:	Address of the first one
 * @version:	From the header, as is the rest
 * @flags:	SFRAME_FLAG_*
 * @aux_len:	Length of the auxiliary header
 * @num_fdes:	How many FDEs there are
 * @num_fres:	How many FREs there are
 * @fdes:	First FDE, from the start of the table
 * @fres:	Attributes and FREs, from there as well
 * @fres_end:	Their end
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
int sframe_reader__check(const struct sframe_reader *reader);
int sframe_reader__fprintf(const struct sframe_reader *reader, FILE *fp);

struct sframe_writer;

struct sframe_writer *sframe_writer__new(void);
void sframe_writer__delete(struct sframe_writer *writer);
int sframe_writer__add(struct sframe_writer *writer,
		       const struct sframe_function *function,
		       const struct sframe_row *rows);
int sframe_writer__finish(struct sframe_writer *writer, struct sframe_aux *aux,
			  void **data, size_t *size);

#endif /* __PERF_SFRAME_H */
