// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables from call frame information
 *
 * libdw reads the CFI: for an address it tells where the CFA, the return address
 * and the saved registers are, and how far that holds. What is left to do here is
 * to find the functions (FDEs), to step through them, and to put what libdw says
 * into the few forms that the format has.
 *
 * Files may be hostile. libdw bounds what it reads, but not the time and memory
 * that it takes. So it sees just a copy of the section, with nothing in it but
 * programs that were looked through before.
 */
#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <linux/zalloc.h>

#include "util/debug.h"
#include "util/elf-bounded.h"
#include "util/sha256.h"
#include "util/sframe.h"
#include "util/sframe-cfi.h"
#include "util/sframe-eval.h"

/* Older than what is needed here does not know it. */
#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND	0x70000001
#endif

/* DWARF number of the instruction pointer. */
#define SFRAME_AMD64_IP		16

/*
 * libelf reads whole sections, and those of a file with holes cost its owner nothing.
 * No more than this is read, all sections together.
 */
#define SFRAME_CFI_SIZE_MAX	(256U << 20)

/*
 * Files are read by as many threads as there are CPUs, and what is made of a section
 * takes several times its size. Of files that have more than this, which is more than
 * most have, there is one at a time.
 */
#define SFRAME_CFI_SIZE_SMALL	(4U << 20)

/* Notes and section names that are larger than this are not looked at. */
#define SFRAME_NOTE_SIZE_MAX	SZ_64K
#define SFRAME_NAMES_SIZE_MAX	SZ_1M

/* The most segments with code that a file may have. */
#define SFRAME_SEGMENTS_MAX	1024

/*
 * What a CFI program may do to libdw, which allocates memory for the highest
 * register number there is and for each state that is remembered.
 */
#define SFRAME_CFI_REGS_MAX	256
#define SFRAME_CFI_STATES_MAX	64

/*
 * For each row libdw runs the program of the function from its start, so the time
 * is the product of its length and its rows. A compiler takes not quite 2^28
 * altogether, a quarter of a second.
 */
#define SFRAME_CFI_WORK_MAX	BIT_ULL(32)

/*
 * The most rows that a function in a table has. Finding a row takes time by
 * their number, finding a function hardly does, so long functions are divided.
 */
#define SFRAME_ROWS_MAX		128

struct sframe_segment {
	u64	start;
	u64	end;
};

/**
 * struct sframe_cfi_cie - What FDEs have in common
 * @off:	Where it is in the section
 * @valid:	It makes sense
 * @encoding:	Of addresses
 * @augmented:	FDEs have more data before their programs
 * @len:	Length of its own program
 * @states:	States that remain remembered at its end
 */
struct sframe_cfi_cie {
	Dwarf_Off	off;
	bool		valid;
	u8		encoding;
	bool		augmented;
	u64		len;
	u32		states;
};

/**
 * struct sframe_cfi_source - A section with CFI
 * @data:	Its bytes
 * @size:	Up to where there are entries
 * @addr:	Its address
 * @eh:		It is .eh_frame rather than .debug_frame
 * @cies:	Its CIEs, by offset
 * @nr_cies:	How many
 * @room_cies:	How many there is room for
 * @image:	An ELF file with nothing but what was looked through, or NULL
 * @elf:	The same for libelf
 * @dwarf:	The same for libdw, if it is .debug_frame
 * @cfi:	What libdw makes of it
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
 * struct sframe_cfi_fde - A function in a section with CFI
 * @start:	Its first address
 * @end:	End of it
 * @reach:	The same as the section has it, beyond the segment and other functions
 * @off:	Where it is in the section
 * @source:	Which section
 * @damaged:	Not to be given to libdw
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
 * @source:	Its sections with CFI; those that it lacks have no data
 * @segments:	Where its code is, sorted
 * @nr_segments: How many
 * @fdes:	Its functions; sorted, and they do not overlap
 * @nr_fdes:	How many
 * @room_fdes:	How many there is room for
 * @work:	What libdw has been asked for so far, see SFRAME_CFI_WORK_MAX
 * @code:	Bytes of code
 * @bid:	Build-id; its size is 0 if there is none
 * @read:	Bytes that libelf was asked for so far, see SFRAME_CFI_SIZE_MAX
 * @large:	This is the file with more than SFRAME_CFI_SIZE_SMALL
 * @stop:	Tells whether to give up, or NULL
 * @stop_arg:	For @stop
 * @sha:	Of what makes a difference to the table
 * @fingerprint: Result of that
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
	u64				code;
	struct build_id			bid;
	u64				read;
	bool				large;
	sframe_stop_fn			stop;
	const void			*stop_arg;
	struct sha256			sha;
	u8				fingerprint[SHA256_SIZE];
};

/*
 * All that a table depends on goes into the fingerprint: a build-id is whatever a file
 * says. The length of what is not a number comes before it.
 */
static void sframe_cfi__mix(struct sframe_cfi *cfi, u64 value)
{
	__le64 raw = cpu_to_le64(value);

	sha256__add(&cfi->sha, &raw, sizeof(raw));
}

static void sframe_cfi__mix_data(struct sframe_cfi *cfi, const Elf_Data *data)
{
	sframe_cfi__mix(cfi, data ? data->d_size : 0);
	if (data && data->d_buf)
		sha256__add(&cfi->sha, data->d_buf, data->d_size);
}

/* Held by the thread that has the one large file, from here until it is deleted. */
static pthread_mutex_t sframe_cfi_large = PTHREAD_MUTEX_INITIALIZER;

/* May @size bytes more be read? */
static bool sframe_cfi__afford(struct sframe_cfi *cfi, u64 size)
{
	if (size > SFRAME_CFI_SIZE_MAX - cfi->read)
		return false;

	if (!cfi->large && size > SFRAME_CFI_SIZE_SMALL - cfi->read) {
		pthread_mutex_lock(&sframe_cfi_large);
		cfi->large = true;
	}

	cfi->read += size;
	return true;
}

static int sframe_segment__cmp(const void *a, const void *b)
{
	const struct sframe_segment *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Where is code? Descriptions of anything else are of no use. */
static int sframe_cfi__find_segments(struct sframe_cfi *cfi)
{
	size_t i, nr;
	GElf_Phdr phdr;

	if (elf_getphdrnum(cfi->elf, &nr))
		return -EINVAL;

	cfi->segments = calloc(SFRAME_SEGMENTS_MAX, sizeof(*cfi->segments));
	if (!cfi->segments)
		return -ENOMEM;

	for (i = 0; i < nr && cfi->nr_segments < SFRAME_SEGMENTS_MAX; i++) {
		if (!gelf_getphdr(cfi->elf, i, &phdr))
			return -EINVAL;
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) || !phdr.p_filesz)
			continue;
		if (phdr.p_vaddr + phdr.p_filesz < phdr.p_vaddr)
			return -EINVAL;

		cfi->segments[cfi->nr_segments].start = phdr.p_vaddr;
		cfi->segments[cfi->nr_segments].end = phdr.p_vaddr + phdr.p_filesz;
		cfi->nr_segments++;
	}

	if (!cfi->nr_segments)
		return -ENODATA;

	qsort(cfi->segments, cfi->nr_segments, sizeof(*cfi->segments),
	      sframe_segment__cmp);
	sframe_cfi__mix(cfi, cfi->nr_segments);
	for (i = 0; i < cfi->nr_segments; i++) {
		if (i && cfi->segments[i].start < cfi->segments[i - 1].end)
			return -EINVAL;
		cfi->code += cfi->segments[i].end - cfi->segments[i].start;
		sframe_cfi__mix(cfi, cfi->segments[i].start);
		sframe_cfi__mix(cfi, cfi->segments[i].end);
	}

	return 0;
}

/* Limit [@start, @end) to the segment that has its start. */
static bool sframe_cfi__clip(const struct sframe_cfi *cfi, u64 *start, u64 *end)
{
	size_t lo = 0, hi = cfi->nr_segments, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (cfi->segments[mid].start <= *start)
			lo = mid + 1;
		else
			hi = mid;
	}

	if (!lo || *start >= cfi->segments[lo - 1].end)
		return false;

	*end = min(*end, cfi->segments[lo - 1].end);
	return *start < *end;
}

static void sframe_cfi__read_build_id(struct sframe_cfi *cfi, Elf_Scn *scn,
				      const GElf_Shdr *shdr)
{
	size_t off = 0, name_off, desc_off;
	Elf_Data *data = NULL;
	GElf_Nhdr nhdr;

	if (cfi->bid.size)
		return;
	if (shdr->sh_size <= SFRAME_NOTE_SIZE_MAX && sframe_cfi__afford(cfi, shdr->sh_size))
		data = elf_getdata(scn, NULL);
	if (!data)
		return;

	while ((off = gelf_getnote(data, off, &nhdr, &name_off, &desc_off)) > 0) {
		if (nhdr.n_type != NT_GNU_BUILD_ID ||
		    nhdr.n_namesz != sizeof(ELF_NOTE_GNU) ||
		    memcmp(data->d_buf + name_off, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)))
			continue;
		if (nhdr.n_descsz && nhdr.n_descsz <= BUILD_ID_SIZE)
			build_id__init(&cfi->bid, data->d_buf + desc_off, nhdr.n_descsz);
		return;
	}
}

/* libelf reads all names when it is asked for one. */
static int sframe_cfi__find_names(struct sframe_cfi *cfi, size_t *shstrndx)
{
	GElf_Shdr shdr;

	if (elf_getshdrstrndx(cfi->elf, shstrndx) || !*shstrndx ||
	    !gelf_getshdr(elf_getscn(cfi->elf, *shstrndx), &shdr))
		return -ENODATA;
	if (shdr.sh_type != SHT_STRTAB || (shdr.sh_flags & SHF_COMPRESSED))
		return -EINVAL;

	return shdr.sh_size <= SFRAME_NAMES_SIZE_MAX &&
	       sframe_cfi__afford(cfi, shdr.sh_size) ? 0 : -EFBIG;
}

static int sframe_cfi__read_section(struct sframe_cfi *cfi, Elf_Scn *scn,
				    const GElf_Shdr *shdr, u8 which)
{
	struct sframe_cfi_source *source = &cfi->source[which];
	GElf_Chdr chdr;

	if (!sframe_cfi__afford(cfi, shdr->sh_size))
		return -EFBIG;

	if (which == SFRAME_SOURCE_DEBUG && (shdr->sh_flags & SHF_COMPRESSED)) {
		if (!gelf_getchdr(scn, &chdr))
			return -EINVAL;
		if (!sframe_cfi__afford(cfi, chdr.ch_size))
			return -EFBIG;
		if (elf_compress(scn, 0, 0) < 0)
			return -EINVAL;
	}

	source->data = elf_rawdata(scn, NULL);
	source->eh = which == SFRAME_SOURCE_EH;
	/* libdw takes the other one to be nowhere. */
	source->addr = source->eh ? shdr->sh_addr : 0;

	sframe_cfi__mix(cfi, which);
	sframe_cfi__mix(cfi, shdr->sh_addr);
	sframe_cfi__mix_data(cfi, source->data);

	return 0;
}

/* Find all that is of interest in the file. */
static int sframe_cfi__find_sections(struct sframe_cfi *cfi)
{
	bool seen[SFRAME_SOURCE_NR] = { };
	Elf_Scn *scn = NULL;
	u64 code = 0, end;
	size_t shstrndx;
	const char *name;
	GElf_Shdr shdr;
	int err;
	u8 which;

	err = sframe_cfi__find_names(cfi, &shstrndx);
	if (err)
		return err;

	while ((scn = elf_nextscn(cfi->elf, scn)) != NULL) {
		if (!gelf_getshdr(scn, &shdr))
			return -EINVAL;

		end = shdr.sh_addr + shdr.sh_size;
		if (shdr.sh_type == SHT_PROGBITS && (shdr.sh_flags & SHF_EXECINSTR) &&
		    sframe_cfi__clip(cfi, &shdr.sh_addr, &end))
			code += end - shdr.sh_addr;

		if (shdr.sh_type == SHT_NOTE)
			sframe_cfi__read_build_id(cfi, scn, &shdr);

		name = elf_strptr(cfi->elf, shstrndx, shdr.sh_name);
		if (!name)
			continue;

		if (!strcmp(name, ".eh_frame"))
			which = SFRAME_SOURCE_EH;
		else if (!strcmp(name, ".debug_frame"))
			which = SFRAME_SOURCE_DEBUG;
		else
			continue;

		/* The first one counts, and none if that is not good. */
		if (seen[which])
			continue;
		seen[which] = true;

		if (shdr.sh_type != SHT_PROGBITS && shdr.sh_type != SHT_X86_64_UNWIND)
			continue;

		err = sframe_cfi__read_section(cfi, scn, &shdr, which);
		if (err)
			return err;
	}

	/* Sections are more exact than segments, but they can overlap. */
	if (code && code < cfi->code)
		cfi->code = code;
	sframe_cfi__mix(cfi, cfi->code);

	return 0;
}

/**
 * sframe_cfi__open - Look at a file
 * @fd:		File; must stay open
 * @pcfi:	Receives what there is to know before its CFI is read
 *
 * Waits while another thread has a large file open, and so must not be called by one
 * that has a file open already.
 *
 * Return: 0; -ENOEXEC - this is no ELF file; -EOPNOTSUPP - it is not a program or
 *	   library for x86-64; -ENODATA - it has no CFI; -EFBIG - it has too much of
 *	   it; -EINVAL - it is damaged; -ENOMEM.
 */
int sframe_cfi__open(int fd, struct sframe_cfi **pcfi)
{
	struct sframe_cfi *cfi;
	GElf_Ehdr ehdr;
	int err;

	cfi = zalloc(sizeof(*cfi));
	if (!cfi)
		return -ENOMEM;
	sha256__init(&cfi->sha);

	err = elf_bounded__begin(fd, &cfi->elf);
	if (err)
		goto error;

	err = -EOPNOTSUPP;
	if (!gelf_getehdr(cfi->elf, &ehdr) || ehdr.e_machine != EM_X86_64 ||
	    ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN))
		goto error;

	err = sframe_cfi__find_segments(cfi);
	if (!err)
		err = sframe_cfi__find_sections(cfi);
	if (!err && !cfi->source[SFRAME_SOURCE_EH].data &&
	    !cfi->source[SFRAME_SOURCE_DEBUG].data)
		err = -ENODATA;
	if (err)
		goto error;

	sha256__finish(&cfi->sha, cfi->fingerprint);
	*pcfi = cfi;
	return 0;

error:
	sframe_cfi__delete(cfi);
	return err;
}

static void sframe_cfi_source__exit(struct sframe_cfi_source *source)
{
	/* That of .debug_frame belongs to the Dwarf. */
	if (source->cfi && source->eh)
		dwarf_cfi_end(source->cfi);
	if (source->dwarf)
		dwarf_end(source->dwarf);
	if (source->elf)
		elf_end(source->elf);
	zfree(&source->image);
	zfree(&source->cies);
}

/* By the thread that opened it */
void sframe_cfi__delete(struct sframe_cfi *cfi)
{
	u8 i;

	if (!cfi)
		return;

	for (i = 0; i < SFRAME_SOURCE_NR; i++)
		sframe_cfi_source__exit(&cfi->source[i]);
	if (cfi->elf)
		elf_end(cfi->elf);
	zfree(&cfi->segments);
	zfree(&cfi->fdes);
	if (cfi->large)
		pthread_mutex_unlock(&sframe_cfi_large);
	free(cfi);
}

/**
 * sframe_cfi__stop_if - Set when to give up
 * @cfi:	File
 * @stop:	Asked for each row, or NULL
 * @arg:	For @stop
 */
void sframe_cfi__stop_if(struct sframe_cfi *cfi, sframe_stop_fn stop, const void *arg)
{
	cfi->stop = stop;
	cfi->stop_arg = arg;
}

const struct build_id *sframe_cfi__build_id(const struct sframe_cfi *cfi)
{
	return &cfi->bid;
}

const u8 *sframe_cfi__fingerprint(const struct sframe_cfi *cfi)
{
	return cfi->fingerprint;
}

u64 sframe_cfi__code(const struct sframe_cfi *cfi)
{
	return cfi->code;
}

/* A part of a section that is being decoded. */
struct sframe_cursor {
	const u8	*at;
	const u8	*end;
	bool		bad;
};

static u64 sframe_cursor__get(struct sframe_cursor *cursor, unsigned int size)
{
	u64 value = 0;
	unsigned int i;

	if ((size_t)(cursor->end - cursor->at) < size) {
		cursor->bad = true;
		return 0;
	}

	for (i = 0; i < size; i++)
		value |= (u64)*cursor->at++ << 8 * i;

	return value;
}

static void sframe_cursor__skip(struct sframe_cursor *cursor, u64 size)
{
	if ((u64)(cursor->end - cursor->at) < size)
		cursor->bad = true;
	else
		cursor->at += size;
}

/*
 * Both kinds of LEB128: those that are signed are only to be skipped. libdw reads no
 * more bytes than 64 bits take, and would take what follows for something else.
 */
static u64 sframe_cursor__leb128(struct sframe_cursor *cursor, bool is_signed)
{
	unsigned int shift = 0;
	u64 value = 0;
	u8 byte;

	do {
		byte = sframe_cursor__get(cursor, sizeof(byte));
		if (shift >= 64)
			cursor->bad = true;
		else
			value |= (u64)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && !cursor->bad);

	if (is_signed && shift < 64 && (byte & 0x40))
		value |= -1ULL << shift;

	return value;
}

static u64 sframe_cursor__uleb128(struct sframe_cursor *cursor)
{
	return sframe_cursor__leb128(cursor, false);
}

/* An address as CFI encodes it, which is itself at @addr. */
static u64 sframe_cursor__encoded(struct sframe_cursor *cursor, u8 encoding, u64 addr)
{
	u64 value;

	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		value = sframe_cursor__get(cursor, sizeof(u64));
		break;
	case DW_EH_PE_udata4:
		value = sframe_cursor__get(cursor, sizeof(u32));
		break;
	case DW_EH_PE_sdata4:
		value = (s32)sframe_cursor__get(cursor, sizeof(u32));
		break;
	case DW_EH_PE_udata2:
		value = sframe_cursor__get(cursor, sizeof(u16));
		break;
	case DW_EH_PE_sdata2:
		value = (s16)sframe_cursor__get(cursor, sizeof(u16));
		break;
	case DW_EH_PE_uleb128:
	case DW_EH_PE_sleb128:
		value = sframe_cursor__leb128(cursor, encoding & DW_EH_PE_signed);
		break;
	default:
		cursor->bad = true;
		return 0;
	}

	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return addr + value;
	default:
		/* Indirect, or from what programs have no use for. */
		cursor->bad = true;
		return 0;
	}
}

/*
 * Look through a CFI program: would libdw take much memory for it? Counts how
 * many rows it makes, at most.
 */
static bool sframe_cfi__sane(const u8 *start, const u8 *end, u8 encoding,
			     u32 *states, u64 *rows)
{
	struct sframe_cursor cursor = { .at = start, .end = end };
	u64 reg = 0;
	u8 opcode;

	while (cursor.at < cursor.end && !cursor.bad) {
		opcode = sframe_cursor__get(&cursor, sizeof(opcode));

		/* Three have an operand in the same byte. */
		switch (opcode & 0xc0) {
		case DW_CFA_advance_loc:
			(*rows)++;
			continue;
		case DW_CFA_offset:
			sframe_cursor__uleb128(&cursor);
			continue;
		case DW_CFA_restore:
			continue;
		default:
			break;
		}

		switch (opcode) {
		case DW_CFA_nop:
		case DW_CFA_GNU_window_save:
			break;
		case DW_CFA_set_loc:
			sframe_cursor__encoded(&cursor, encoding, 0);
			(*rows)++;
			break;
		case DW_CFA_advance_loc1:
			sframe_cursor__skip(&cursor, sizeof(u8));
			(*rows)++;
			break;
		case DW_CFA_advance_loc2:
			sframe_cursor__skip(&cursor, sizeof(u16));
			(*rows)++;
			break;
		case DW_CFA_advance_loc4:
			sframe_cursor__skip(&cursor, sizeof(u32));
			(*rows)++;
			break;
		case DW_CFA_MIPS_advance_loc8:
			sframe_cursor__skip(&cursor, sizeof(u64));
			(*rows)++;
			break;
		case DW_CFA_remember_state:
			if (++*states > SFRAME_CFI_STATES_MAX)
				return false;
			break;
		case DW_CFA_restore_state:
			if (*states)
				--*states;
			break;
		case DW_CFA_def_cfa_offset:
		case DW_CFA_def_cfa_offset_sf:
		case DW_CFA_GNU_args_size:
			sframe_cursor__uleb128(&cursor);
			break;
		case DW_CFA_restore_extended:
		case DW_CFA_undefined:
		case DW_CFA_same_value:
		case DW_CFA_def_cfa_register:
			reg = max(reg, sframe_cursor__uleb128(&cursor));
			break;
		case DW_CFA_offset_extended:
		case DW_CFA_offset_extended_sf:
		case DW_CFA_val_offset:
		case DW_CFA_val_offset_sf:
		case DW_CFA_def_cfa:
		case DW_CFA_def_cfa_sf:
		case DW_CFA_register:
		case DW_CFA_GNU_negative_offset_extended:
			reg = max(reg, sframe_cursor__uleb128(&cursor));
			sframe_cursor__uleb128(&cursor);
			break;
		case DW_CFA_expression:
		case DW_CFA_val_expression:
			reg = max(reg, sframe_cursor__uleb128(&cursor));
			sframe_cursor__skip(&cursor, sframe_cursor__uleb128(&cursor));
			break;
		case DW_CFA_def_cfa_expression:
			sframe_cursor__skip(&cursor, sframe_cursor__uleb128(&cursor));
			break;
		default:
			return false;
		}

		if (reg >= SFRAME_CFI_REGS_MAX)
			return false;
	}

	return !cursor.bad;
}

/* With room for one more; returns NULL and leaves @array alone if there is none. */
static void *sframe_array__grow(void *array, size_t nr, size_t *room, size_t size)
{
	size_t more = max(*room * 2, (size_t)64);
	void *new;

	if (nr < *room)
		return array;

	new = realloc(array, more * size);
	if (new)
		*room = more;

	return new;
}

static int sframe_cfi__add_cie(struct sframe_cfi_source *source, const Dwarf_CIE *raw,
			       Dwarf_Off off)
{
	struct sframe_cursor cursor;
	struct sframe_cfi_cie *cie;
	const char *letter;
	u64 rows = 0;
	void *new;

	new = sframe_array__grow(source->cies, source->nr_cies, &source->room_cies,
				 sizeof(*source->cies));
	if (!new)
		return -ENOMEM;
	source->cies = new;
	cie = &source->cies[source->nr_cies++];
	*cie = (struct sframe_cfi_cie) { .off = off, .encoding = DW_EH_PE_absptr, };

	/* Without the length of its data there can be none. */
	letter = raw->augmentation;
	if (*letter == 'z') {
		cie->augmented = true;
		letter++;
	} else if (*letter) {
		return 0;
	}

	cursor.at = raw->augmentation_data;
	cursor.end = cursor.at + raw->augmentation_data_size;
	cursor.bad = false;

	for (; *letter; letter++) {
		switch (*letter) {
		case 'R':
			cie->encoding = sframe_cursor__get(&cursor, sizeof(u8));
			break;
		case 'P':
			/* All but its length is of no interest. */
			sframe_cursor__encoded(&cursor,
					       sframe_cursor__get(&cursor, sizeof(u8)) & 0x0f, 0);
			break;
		case 'L':
			sframe_cursor__skip(&cursor, sizeof(u8));
			break;
		case 'S':
		case 'B':
			break;
		default:
			return 0;
		}
	}

	cie->len = raw->initial_instructions_end - raw->initial_instructions;
	cie->valid = !cursor.bad &&
		     sframe_cfi__sane(raw->initial_instructions,
				      raw->initial_instructions_end,
				      cie->encoding, &cie->states, &rows);
	return 0;
}

static int sframe_cfi_cie__cmp(const void *key, const void *item)
{
	const struct sframe_cfi_cie *cie = item;
	Dwarf_Off off = *(const Dwarf_Off *)key;

	return off < cie->off ? -1 : off > cie->off;
}

/*
 * Not what is hidden in another entry, of which the copy for libdw may have
 * nothing. CIEs come before the FDEs that refer to them.
 */
static const struct sframe_cfi_cie *
sframe_cfi__find_cie(const struct sframe_cfi_source *source, Dwarf_Off off)
{
	if (!source->nr_cies)
		return NULL;

	return bsearch(&off, source->cies, source->nr_cies, sizeof(*source->cies),
		       sframe_cfi_cie__cmp);
}

static int sframe_cfi__add_fde(struct sframe_cfi *cfi, const struct sframe_cfi_fde *fde)
{
	void *new = sframe_array__grow(cfi->fdes, cfi->nr_fdes, &cfi->room_fdes,
				       sizeof(*cfi->fdes));

	if (!new)
		return -ENOMEM;

	cfi->fdes = new;
	cfi->fdes[cfi->nr_fdes++] = *fde;
	return 0;
}

static int sframe_cfi__decode_fde(struct sframe_cfi *cfi, u8 which, Dwarf_Off off,
				  const Dwarf_FDE *raw, const struct sframe_cfi_cie *cie)
{
	const struct sframe_cfi_source *source = &cfi->source[which];
	struct sframe_cursor cursor = { .at = raw->start, .end = raw->end };
	const u8 *first = source->data->d_buf;
	struct sframe_cfi_fde fde = { .off = off, .source = which };
	u32 states = cie->states;
	u64 size, work, rows = 1;

	fde.start = sframe_cursor__encoded(&cursor, cie->encoding,
					   source->addr + (raw->start - first));
	size = sframe_cursor__encoded(&cursor, cie->encoding & 0x0f, 0);
	if (cursor.bad)
		return 0;

	fde.end = fde.start + size;
	fde.reach = fde.end;
	if (fde.end < fde.start || !sframe_cfi__clip(cfi, &fde.start, &fde.end))
		return 0;

	if (cie->augmented)
		sframe_cursor__skip(&cursor, sframe_cursor__uleb128(&cursor));

	fde.damaged = cursor.bad ||
		      !sframe_cfi__sane(cursor.at, cursor.end, cie->encoding, &states, &rows);

	/* Rows beyond the function are not asked for. */
	rows = min(rows, fde.end - fde.start);
	work = rows * (cie->len + (cursor.end - cursor.at) + 1);
	if (cfi->work + work > SFRAME_CFI_WORK_MAX)
		fde.damaged = true;
	else if (!fde.damaged)
		cfi->work += work;

	return sframe_cfi__add_fde(cfi, &fde);
}

/**
 * struct sframe_entry - A CIE or FDE in a section
 * @id:		Where it says what it is
 * @id_size:	How many bytes that takes
 * @end:	End of it
 */
struct sframe_entry {
	u64		id;
	unsigned int	id_size;
	u64		end;
};

/* Returns false at the end of the section, or if nothing good follows. */
static bool sframe_entry__find(const Elf_Data *data, u64 off, struct sframe_entry *entry)
{
	struct sframe_cursor cursor;
	u64 len;

	if (off >= data->d_size)
		return false;

	cursor = (struct sframe_cursor) {
		.at = data->d_buf + off, .end = data->d_buf + data->d_size,
	};
	entry->id_size = sizeof(u32);
	len = sframe_cursor__get(&cursor, sizeof(u32));
	if (len == 0xffffffff) {
		entry->id_size = sizeof(u64);
		len = sframe_cursor__get(&cursor, sizeof(u64));
	}

	entry->id = cursor.at - (const u8 *)data->d_buf;
	entry->end = entry->id + len;
	/* At least the version of a CIE follows. */
	return !cursor.bad && len > entry->id_size && len <= data->d_size - entry->id;
}

static int sframe_cfi__read_source(struct sframe_cfi *cfi, u8 which)
{
	struct sframe_cfi_source *source = &cfi->source[which];
	const unsigned char *e_ident = (void *)elf_getident(cfi->elf, NULL);
	const struct sframe_cfi_cie *cie;
	struct sframe_entry entry;
	Dwarf_CFI_Entry raw;
	Dwarf_Off next;
	u64 off;
	int ret;

	if (!source->data || !source->data->d_buf)
		return 0;

	for (off = 0; sframe_entry__find(source->data, off, &entry); off = entry.end) {
		source->size = entry.end;

		ret = dwarf_next_cfi(e_ident, source->data, source->eh, off, &next, &raw);
		if (ret > 0)
			return 0;
		if (ret < 0)
			continue;

		if (dwarf_cfi_cie_p(&raw)) {
			ret = sframe_cfi__add_cie(source, &raw.cie, off);
			if (ret)
				return ret;
			continue;
		}

		cie = sframe_cfi__find_cie(source, raw.fde.CIE_pointer);
		if (!cie || !cie->valid)
			continue;
		ret = sframe_cfi__decode_fde(cfi, which, off, &raw.fde, cie);
		if (ret)
			return ret;
	}

	return 0;
}

static int sframe_cfi_fde__cmp(const void *a, const void *b)
{
	const struct sframe_cfi_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return 0;
}

/*
 * libdw takes any function that has an address. So that it is the one that was
 * reckoned with, functions of a section that overlap others do not get there: of two
 * the one that starts first, which may be the remains of something that was dropped.
 */
static void sframe_cfi__separate(struct sframe_cfi *cfi)
{
	struct sframe_cfi_fde *last[SFRAME_SOURCE_NR] = { };
	struct sframe_cfi_fde *fde, *prev;
	size_t i;

	for (i = 0; i < cfi->nr_fdes; i++) {
		fde = &cfi->fdes[i];
		if (fde->damaged)
			continue;

		prev = last[fde->source];
		if (prev && fde->start == prev->start) {
			fde->damaged = true;
			continue;
		}
		if (prev && fde->start < prev->reach)
			prev->damaged = true;
		last[fde->source] = fde;
	}
}

/*
 * Sort the functions. Where they overlap what starts later wins, as in a search
 * for the last one that starts at or before an address, but .debug_frame only
 * fills the gaps of .eh_frame: it is not what the program unwinds itself by.
 */
static void sframe_cfi__sort(struct sframe_cfi *cfi)
{
	struct sframe_cfi_fde *fde, *prev;
	size_t i, nr = 0;

	if (!cfi->nr_fdes)
		return;

	qsort(cfi->fdes, cfi->nr_fdes, sizeof(*cfi->fdes), sframe_cfi_fde__cmp);
	sframe_cfi__separate(cfi);

	for (i = 0; i < cfi->nr_fdes; i++) {
		fde = &cfi->fdes[i];
		prev = nr ? &cfi->fdes[nr - 1] : NULL;

		if (prev && fde->start < prev->end) {
			if (fde->source > prev->source)
				fde->start = prev->end;
			else if (fde->start > prev->start)
				prev->end = fde->start;
			else
				fde->start = prev->end;
		}
		if (fde->start < fde->end)
			cfi->fdes[nr++] = *fde;
	}

	cfi->nr_fdes = nr;
}

/**
 * struct sframe_image - An ELF file in front of a section with CFI
 * @ehdr:	Its header
 * @shdrs:	Its sections
 * @names:	Their names
 * @data:	The section
 *
 * In the file itself there may be more: libdw would find functions by the table in
 * .eh_frame_hdr, wherever that says that they are, and for .debug_frame it reads all
 * debug sections, and unpacks them.
 */
struct sframe_image {
	Elf64_Ehdr	ehdr;
	Elf64_Shdr	shdrs[3];
	char		names[24];
	u8		data[];
};

static void sframe_image__init(struct sframe_image *image,
			       const struct sframe_cfi_source *source, const char *e_ident)
{
	static const char eh_names[] = "\0.eh_frame\0.shstrtab";
	static const char debug_names[] = "\0.debug_frame\0.shstrtab";
	Elf64_Shdr *shdr;

	BUILD_BUG_ON(sizeof(eh_names) > sizeof(image->names));
	BUILD_BUG_ON(sizeof(debug_names) > sizeof(image->names));

	if (source->eh)
		memcpy(image->names, eh_names, sizeof(eh_names));
	else
		memcpy(image->names, debug_names, sizeof(debug_names));

	memcpy(image->ehdr.e_ident, e_ident, EI_NIDENT);
	image->ehdr.e_type	= cpu_to_le16(ET_DYN);
	image->ehdr.e_machine	= cpu_to_le16(EM_X86_64);
	image->ehdr.e_version	= cpu_to_le32(EV_CURRENT);
	image->ehdr.e_ehsize	= cpu_to_le16(sizeof(image->ehdr));
	image->ehdr.e_shoff	= cpu_to_le64(offsetof(struct sframe_image, shdrs));
	image->ehdr.e_shentsize	= cpu_to_le16(sizeof(image->shdrs[0]));
	image->ehdr.e_shnum	= cpu_to_le16(ARRAY_SIZE(image->shdrs));
	image->ehdr.e_shstrndx	= cpu_to_le16(2);

	shdr = &image->shdrs[1];
	shdr->sh_name	= cpu_to_le32(1);
	shdr->sh_type	= cpu_to_le32(SHT_PROGBITS);
	shdr->sh_addr	= cpu_to_le64(source->addr);
	shdr->sh_offset	= cpu_to_le64(offsetof(struct sframe_image, data));
	shdr->sh_size	= cpu_to_le64(source->size);
	shdr->sh_addralign = cpu_to_le64(1);

	shdr = &image->shdrs[2];
	shdr->sh_name	= cpu_to_le32(strlen(image->names + 1) + 2);
	shdr->sh_type	= cpu_to_le32(SHT_STRTAB);
	shdr->sh_offset	= cpu_to_le64(offsetof(struct sframe_image, names));
	shdr->sh_size	= cpu_to_le64(sizeof(image->names));
	shdr->sh_addralign = cpu_to_le64(1);
}

static void sframe_image__copy(struct sframe_image *image,
			       const struct sframe_cfi_source *source, u64 off)
{
	struct sframe_entry entry;

	if (sframe_entry__find(source->data, off, &entry))
		memcpy(image->data + entry.id, source->data->d_buf + entry.id,
		       entry.end - entry.id);
}

/*
 * Everything stays where it is, since most addresses are relative. What is not to be
 * seen becomes a CIE of a version that does not exist, which libdw passes over.
 */
static void sframe_image__fill(struct sframe_image *image, const struct sframe_cfi *cfi,
			       u8 which)
{
	const struct sframe_cfi_source *source = &cfi->source[which];
	struct sframe_entry entry;
	size_t i;
	u64 off;

	for (off = 0; off < source->size && sframe_entry__find(source->data, off, &entry);
	     off = entry.end) {
		memcpy(image->data + off, source->data->d_buf + off, entry.id - off);
		memset(image->data + entry.id, source->eh ? 0 : 0xff, entry.id_size);
	}

	for (i = 0; i < source->nr_cies; i++) {
		if (source->cies[i].valid)
			sframe_image__copy(image, source, source->cies[i].off);
	}
	for (i = 0; i < cfi->nr_fdes; i++) {
		if (cfi->fdes[i].source == which && !cfi->fdes[i].damaged)
			sframe_image__copy(image, source, cfi->fdes[i].off);
	}
}

static int sframe_cfi__open_source(struct sframe_cfi *cfi, u8 which)
{
	struct sframe_cfi_source *source = &cfi->source[which];
	struct sframe_image *image;

	if (!source->size)
		return 0;

	image = calloc(1, sizeof(*image) + source->size);
	if (!image)
		return -ENOMEM;
	source->image = image;
	sframe_image__init(image, source, elf_getident(cfi->elf, NULL));
	sframe_image__fill(image, cfi, which);

	source->elf = elf_memory((char *)image, sizeof(*image) + source->size);
	if (source->elf && source->eh)
		source->cfi = dwarf_getcfi_elf(source->elf);
	else if (source->elf)
		source->dwarf = dwarf_begin_elf(source->elf, DWARF_C_READ, NULL);
	if (source->dwarf)
		source->cfi = dwarf_getcfi(source->dwarf);

	return source->cfi ? 0 : -ENOMEM;
}

/**
 * sframe_cfi__read - Find the functions that the CFI of a file describes
 * @cfi:	File
 *
 * Return: 0; -ENODATA - there are none; -ENOMEM.
 */
int sframe_cfi__read(struct sframe_cfi *cfi)
{
	int err;
	u8 i;

	for (i = 0; i < SFRAME_SOURCE_NR; i++) {
		err = sframe_cfi__read_source(cfi, i);
		if (err)
			return err;
	}

	sframe_cfi__sort(cfi);

	for (i = 0; i < SFRAME_SOURCE_NR; i++) {
		err = sframe_cfi__open_source(cfi, i);
		if (err)
			return err;
	}

	pr_debug3("%zu functions, %" PRIu64 " bytes of CFI to run\n", cfi->nr_fdes, cfi->work);

	return cfi->nr_fdes ? 0 : -ENODATA;
}

/**
 * sframe_cfi__walk - Go through all that the CFI of a file describes
 * @cfi:	File, as sframe_cfi__read() left it
 * @fn:		Called for each row, in order; not 0 ends it
 * @arg:	For @fn
 *
 * Return: 0; what @fn returned; -EINTR - sframe_cfi__stop_if() applies.
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
			if (cfi->stop && cfi->stop(cfi->stop_arg))
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

/*
 * What an expression leaves on the stack, in terms of the frame: a sum of a
 * register or the CFA and a number, or what is in memory there.
 */
#define SFRAME_STACK_MAX	4

struct sframe_value {
	bool			is_number;
	u64			number;
	struct sframe_loc	loc;
};

static bool sframe_loc__add(struct sframe_loc *loc, u64 number)
{
	s64 off;

	/* No rule adds to what it has loaded. */
	if (loc->deref || __builtin_add_overflow((s64)loc->off, (s64)number, &off) ||
	    off != (s32)off)
		return false;

	loc->off = off;
	return true;
}

static bool sframe_value__reg(struct sframe_value *value, u64 reg, u64 off)
{
	if (reg >= SFRAME_AMD64_REGS || (s64)off != (s32)off)
		return false;

	*value = (struct sframe_value) {
		.loc = { .base = SFRAME_BASE_REG, .reg = reg, .off = off, },
	};
	return true;
}

/* Returns false if the format cannot express what the expression does. */
static bool sframe_expr__simplify(const Dwarf_Op *ops, size_t nr_ops,
				  struct sframe_loc *loc, bool *is_value)
{
	struct sframe_value stack[SFRAME_STACK_MAX], *top;
	struct sframe_value number;
	unsigned int nr = 0;
	const Dwarf_Op *op;
	u64 value;

	*is_value = false;

	for (op = ops; op < ops + nr_ops; op++) {
		/* Nothing follows that. */
		if (*is_value)
			return false;
		if (nr == SFRAME_STACK_MAX)
			return false;
		top = nr ? &stack[nr - 1] : NULL;

		switch (op->atom) {
		case DW_OP_breg0 ... DW_OP_breg31:
			if (!sframe_value__reg(&stack[nr++], op->atom - DW_OP_breg0, op->number))
				return false;
			break;
		case DW_OP_bregx:
			if (!sframe_value__reg(&stack[nr++], op->number, op->number2))
				return false;
			break;
		case DW_OP_reg0 ... DW_OP_reg31:
		case DW_OP_regx:
			/* The register itself is the place. */
			value = op->number;
			if (op->atom != DW_OP_regx)
				value = op->atom - DW_OP_reg0;
			if (nr || !sframe_value__reg(&stack[nr++], value, 0))
				return false;
			*is_value = true;
			break;
		case DW_OP_call_frame_cfa:
			stack[nr++] = (struct sframe_value) { .loc.base = SFRAME_BASE_CFA };
			break;
		case DW_OP_lit0 ... DW_OP_lit31:
			stack[nr++] = (struct sframe_value) {
				.is_number = true, .number = op->atom - DW_OP_lit0,
			};
			break;
		case DW_OP_const1u:
		case DW_OP_const1s:
		case DW_OP_const2u:
		case DW_OP_const2s:
		case DW_OP_const4u:
		case DW_OP_const4s:
		case DW_OP_const8u:
		case DW_OP_const8s:
		case DW_OP_constu:
		case DW_OP_consts:
			stack[nr++] = (struct sframe_value) {
				.is_number = true, .number = op->number,
			};
			break;
		case DW_OP_plus_uconst:
			if (!top || top->is_number || !sframe_loc__add(&top->loc, op->number))
				return false;
			break;
		case DW_OP_plus:
		case DW_OP_minus:
			if (nr < 2)
				return false;
			number = stack[--nr];
			top = &stack[nr - 1];
			if (op->atom == DW_OP_plus && top->is_number) {
				value = top->number;
				*top = number;
				number = (struct sframe_value) {
					.is_number = true, .number = value,
				};
			}
			if (!number.is_number || top->is_number)
				return false;
			value = number.number;
			if (op->atom == DW_OP_minus)
				value = -value;
			if (!sframe_loc__add(&top->loc, value))
				return false;
			break;
		case DW_OP_deref:
			if (!top || top->is_number || top->loc.deref)
				return false;
			top->loc.deref = true;
			break;
		case DW_OP_nop:
			break;
		case DW_OP_stack_value:
			*is_value = true;
			break;
		default:
			return false;
		}
	}

	/* What is below is of no interest: the CFA, which some start with. */
	if (!nr || stack[nr - 1].is_number)
		return false;

	*loc = stack[nr - 1].loc;
	return true;
}

/**
 * struct sframe_plt - The CFA in the entries of a PLT
 * @off:	From the stack pointer, in the first part of each block
 * @rep_size:	Length of a block
 * @pushed:	Where in a block the second part starts
 * @grows:	How much more @off is then
 */
struct sframe_plt {
	s32	off;
	u32	rep_size;
	u32	pushed;
	s32	grows;
};

static bool sframe_op__lit(const Dwarf_Op *op, u32 *value)
{
	if (op->atom < DW_OP_lit0 || op->atom > DW_OP_lit31)
		return false;

	*value = op->atom - DW_OP_lit0;
	return true;
}

/*
 * Linkers describe a whole PLT by one row: in each entry the stack pointer moves
 * once, so the CFA is rsp + 8 + ((rip & 15) >= 11) * 8. Nothing else that depends on
 * the instruction pointer can be expressed.
 */
static bool sframe_expr__plt(const Dwarf_Op *ops, size_t nr_ops, struct sframe_plt *plt)
{
	static const u8 atoms[] = {
		[3] = DW_OP_and, [5] = DW_OP_ge, [7] = DW_OP_shl, [8] = DW_OP_plus,
	};
	u32 mask, shift;
	size_t i;

	if (nr_ops != ARRAY_SIZE(atoms))
		return false;
	for (i = 0; i < nr_ops; i++) {
		if (atoms[i] && ops[i].atom != atoms[i])
			return false;
	}

	if (ops[0].atom != DW_OP_breg0 + SFRAME_AMD64_SP ||
	    ops[1].atom != DW_OP_breg0 + SFRAME_AMD64_IP || ops[1].number ||
	    (s64)ops[0].number != (s16)ops[0].number)
		return false;
	if (!sframe_op__lit(&ops[2], &mask) || !sframe_op__lit(&ops[4], &plt->pushed) ||
	    !sframe_op__lit(&ops[6], &shift))
		return false;

	/* A block is a power of two, and has both parts. */
	if (!mask || (mask & (mask + 1)) || !plt->pushed || plt->pushed > mask || shift > 6)
		return false;

	plt->off = ops[0].number;
	plt->rep_size = mask + 1;
	plt->grows = 1 << shift;
	return true;
}

/* What becomes of a row of CFI. */
enum sframe_kind {
	SFRAME_KIND_RULE,
	SFRAME_KIND_PLT,
	SFRAME_KIND_SIGNAL,
	SFRAME_KIND_LOST,
};

/* How to find the caller's value of @reg; false if the format cannot say it. */
static bool sframe_frame__reg(Dwarf_Frame *frame, int reg, struct sframe_loc *loc,
			      bool *undefined)
{
	Dwarf_Op mem[3], *ops;
	bool is_value;
	size_t nr;

	*undefined = false;
	*loc = (struct sframe_loc) { .base = SFRAME_BASE_SAME };

	if (dwarf_frame_register(frame, reg, mem, &ops, &nr))
		return false;

	if (!nr) {
		*undefined = ops == mem;
		return true;
	}

	if (!sframe_expr__simplify(ops, nr, loc, &is_value))
		return false;

	/* The expression tells the place rather than the value. */
	if (!is_value) {
		if (loc->deref)
			return false;
		loc->deref = true;
	}

	return true;
}

static enum sframe_kind sframe_row__translate(const struct sframe_cfi_row *row,
					      struct sframe_rule *rule,
					      struct sframe_plt *plt,
					      enum sframe_lost *lost)
{
	enum sframe_kind kind = SFRAME_KIND_RULE;
	bool undefined, is_value;
	struct sframe_loc sp;
	Dwarf_Op *ops;
	size_t nr;

	*rule = (struct sframe_rule) { };
	*plt = (struct sframe_plt) { };

	if (!row->frame) {
		*lost = SFRAME_LOST_DAMAGED;
		return SFRAME_KIND_LOST;
	}

	*lost = SFRAME_LOST_RA;
	if (!sframe_frame__reg(row->frame, row->ra, &rule->ra, &undefined))
		goto lost;
	if (undefined) {
		rule->outermost = true;
		return kind;
	}
	if (rule->ra.base == SFRAME_BASE_SAME ||
	    (rule->ra.base == SFRAME_BASE_CFA && !rule->ra.deref))
		goto lost;

	*lost = SFRAME_LOST_CFA;
	if (dwarf_frame_cfa(row->frame, &ops, &nr) || !nr)
		goto lost;
	if (sframe_expr__plt(ops, nr, plt))
		kind = SFRAME_KIND_PLT;
	else if (!sframe_expr__simplify(ops, nr, &rule->cfa, &is_value) ||
		 rule->cfa.base != SFRAME_BASE_REG)
		goto lost;

	/* Unless it says otherwise, the caller's stack pointer is the CFA. */
	*lost = SFRAME_LOST_SP;
	if (!sframe_frame__reg(row->frame, SFRAME_AMD64_SP, &sp, &undefined))
		goto lost;
	if (sp.base != SFRAME_BASE_CFA || sp.deref || sp.off)
		goto lost;

	/* One that is undefined cannot be told from one that is the same. */
	*lost = SFRAME_LOST_FP;
	if (!sframe_frame__reg(row->frame, SFRAME_AMD64_FP, &rule->fp, &undefined) || undefined)
		goto lost;
	if (rule->fp.base == SFRAME_BASE_CFA && !rule->fp.deref)
		goto lost;

	return kind;

lost:
	/* The kernel knows the frames that it makes. */
	return row->signal ? SFRAME_KIND_SIGNAL : SFRAME_KIND_LOST;
}

/**
 * struct sframe_build - A table in the making
 * @writer:	Table
 * @stats:	What it covers
 * @function:	What is being put together; its size is 0 if there is nothing
 * @only_signal: It has no rows but only the mark
 * @rows:	Its rows
 */
struct sframe_build {
	struct sframe_writer	*writer;
	struct sframe_stats	*stats;
	struct sframe_function	function;
	bool			only_signal;
	struct sframe_row	rows[SFRAME_ROWS_MAX];
};

static int sframe_build__flush(struct sframe_build *build)
{
	struct sframe_function *function = &build->function;
	int err;

	if (!function->size)
		return 0;

	err = sframe_writer__add(build->writer, function, build->rows);
	if (!err) {
		build->stats->functions++;
		build->stats->rows += function->nr_rows;
	}
	*function = (struct sframe_function) { };

	return err;
}

static u64 sframe_build__end(const struct sframe_build *build)
{
	return build->function.start + build->function.size;
}

/* Make sure that [@start, @end) can be added to what is being put together. */
static int sframe_build__prepare(struct sframe_build *build, u64 start, u64 end,
				 bool signal, bool only_signal)
{
	struct sframe_function *function = &build->function;
	int err;

	if (end - start > UINT_MAX)
		return -EFBIG;

	if (function->size &&
	    (start != sframe_build__end(build) || function->signal != signal ||
	     build->only_signal != only_signal || function->rep_size ||
	     function->nr_rows == SFRAME_ROWS_MAX || end - function->start > UINT_MAX)) {
		err = sframe_build__flush(build);
		if (err)
			return err;
	}

	if (!function->size) {
		function->start = start;
		function->signal = signal;
		build->only_signal = only_signal;
	}

	return 0;
}

static int sframe_build__rule(struct sframe_build *build, u64 start, u64 end,
			      bool signal, const struct sframe_rule *rule)
{
	struct sframe_function *function = &build->function;
	struct sframe_row *row;
	int err;

	err = sframe_build__prepare(build, start, end, signal, false);
	if (err)
		return err;

	/* Most changes are to registers that are of no interest here. */
	if (!function->nr_rows ||
	    !sframe_rule__equal(&build->rows[function->nr_rows - 1].rule, rule)) {
		row = &build->rows[function->nr_rows++];
		row->addr = start - function->start;
		row->rule = *rule;
	}
	function->size = end - function->start;

	build->stats->covered += end - start;
	return 0;
}

static int sframe_build__signal(struct sframe_build *build, u64 start, u64 end)
{
	int err = sframe_build__prepare(build, start, end, true, true);

	if (err)
		return err;

	build->function.size = end - build->function.start;
	build->stats->covered += end - start;
	return 0;
}

static int sframe_build__plt(struct sframe_build *build, u64 start, u64 end, bool signal,
			     const struct sframe_rule *rule, const struct sframe_plt *plt)
{
	struct sframe_rule second;
	int err;

	/* Before it there may be a head that is different, but of the same length. */
	if (start & (plt->rep_size - 1)) {
		build->stats->lost[SFRAME_LOST_CFA] += end - start;
		return 0;
	}

	err = sframe_build__flush(build);
	if (!err)
		err = sframe_build__prepare(build, start, end, signal, false);
	if (err)
		return err;

	second = *rule;
	second.cfa = (struct sframe_loc) {
		.base = SFRAME_BASE_REG, .reg = SFRAME_AMD64_SP, .off = plt->off,
	};
	build->rows[0] = (struct sframe_row) { .addr = 0, .rule = second };
	second.cfa.off += plt->grows;
	build->rows[1] = (struct sframe_row) { .addr = plt->pushed, .rule = second };

	build->function.nr_rows = 2;
	build->function.rep_size = plt->rep_size;
	build->function.size = end - start;

	build->stats->covered += end - start;
	build->stats->blocks += end - start;

	return sframe_build__flush(build);
}

static bool sframe_rule__is_flex(const struct sframe_rule *rule)
{
	return !rule->outermost &&
	       (rule->cfa.deref ||
		(rule->cfa.reg != SFRAME_AMD64_SP && rule->cfa.reg != SFRAME_AMD64_FP) ||
		rule->ra.base != SFRAME_BASE_CFA || rule->ra.off != SFRAME_AMD64_RA_OFF ||
		rule->fp.base == SFRAME_BASE_REG);
}

static int sframe_build__row(const struct sframe_cfi_row *row, void *arg)
{
	struct sframe_build *build = arg;
	u64 start = row->start, end = row->end;
	struct sframe_rule rule;
	enum sframe_lost lost;
	struct sframe_plt plt;
	int err = 0;

	build->stats->described += end - start;

	switch (sframe_row__translate(row, &rule, &plt, &lost)) {
	case SFRAME_KIND_RULE:
		if (sframe_rule__is_flex(&rule))
			build->stats->flex += end - start;
		err = sframe_build__rule(build, start, end, row->signal, &rule);
		break;
	case SFRAME_KIND_PLT:
		err = sframe_build__plt(build, start, end, row->signal, &rule, &plt);
		break;
	case SFRAME_KIND_SIGNAL:
		err = sframe_build__signal(build, start, end);
		break;
	case SFRAME_KIND_LOST:
	default:
		build->stats->lost[lost] += end - start;
		break;
	}

	if (!err && row->last)
		err = sframe_build__flush(build);

	return err;
}

/**
 * sframe_cfi__build - Make a table
 * @cfi:	File, as sframe_cfi__read() left it
 * @table:	Receives the table, to be freed by sframe_table__exit()
 *
 * Return: 0; -ENODATA - there is nothing that could be in it; -ENOMEM; -EFBIG.
 */
int sframe_cfi__build(struct sframe_cfi *cfi, struct sframe_table *table)
{
	struct sframe_build build = { .stats = &table->stats };
	struct sframe_aux aux = { .magic = SFRAME_AUX_MAGIC };
	int err;

	build.stats->code = cfi->code;
	build.writer = sframe_writer__new();
	if (!build.writer)
		return -ENOMEM;

	err = sframe_cfi__walk(cfi, sframe_build__row, &build);
	if (!err && !build.stats->covered)
		err = -ENODATA;
	if (err)
		goto out;

	put_unaligned_le32(SFRAME_AUX_VERSION, &aux.version);
	memcpy(aux.fingerprint, cfi->fingerprint, sizeof(aux.fingerprint));
	put_unaligned_le64(build.stats->code, &aux.code);
	put_unaligned_le64(build.stats->described, &aux.described);
	put_unaligned_le64(build.stats->covered, &aux.covered);
	memcpy(aux.build_id, cfi->bid.data, sizeof(aux.build_id));
	aux.build_id_size = cfi->bid.size;

	err = sframe_writer__finish(build.writer, &aux, &table->data, &table->size);
	if (!err)
		table->bid = cfi->bid;
out:
	sframe_writer__delete(build.writer);
	return err;
}

static u64 sframe_loc__eval(const struct sframe_loc *loc, u64 cfa, unsigned int same)
{
	u64 value = cfa;

	if (loc->base == SFRAME_BASE_SAME)
		return sframe_eval__reg(same);
	if (loc->base == SFRAME_BASE_REG)
		value = sframe_eval__reg(loc->reg);
	value += loc->off;

	return loc->deref ? sframe_eval__load(value) : value;
}

static bool sframe_rule__leads_to(const struct sframe_rule *rule,
				  const struct sframe_frame *frame)
{
	u64 cfa;

	if (rule->outermost || frame->outermost)
		return rule->outermost && frame->outermost;

	cfa = sframe_loc__eval(&rule->cfa, 0, SFRAME_AMD64_SP);

	return cfa == frame->cfa && cfa == frame->sp &&
	       sframe_loc__eval(&rule->ra, cfa, SFRAME_AMD64_IP) == frame->ra &&
	       (!frame->fp_known ||
		sframe_loc__eval(&rule->fp, cfa, SFRAME_AMD64_FP) == frame->fp);
}

/**
 * struct sframe_ranges - A set of addresses
 * @ranges:	Sorted, and they do not overlap, once sframe_ranges__merge() was called
 * @nr:		How many
 * @room:	How many there is room for
 */
struct sframe_ranges {
	struct sframe_segment	*ranges;
	size_t			nr;
	size_t			room;
};

static int sframe_ranges__add(struct sframe_ranges *set, u64 start, u64 end)
{
	void *new;

	if (start >= end)
		return 0;

	new = sframe_array__grow(set->ranges, set->nr, &set->room, sizeof(*set->ranges));
	if (!new)
		return -ENOMEM;

	set->ranges = new;
	set->ranges[set->nr++] = (struct sframe_segment) { .start = start, .end = end };
	return 0;
}

static void sframe_ranges__merge(struct sframe_ranges *set)
{
	struct sframe_segment *range, *last = NULL;
	size_t i, nr = 0;

	if (!set->nr)
		return;

	qsort(set->ranges, set->nr, sizeof(*set->ranges), sframe_segment__cmp);
	for (i = 0; i < set->nr; i++) {
		range = &set->ranges[i];
		if (last && range->start <= last->end) {
			last->end = max(last->end, range->end);
			continue;
		}
		last = &set->ranges[nr++];
		*last = *range;
	}
	set->nr = nr;
}

/* Put what is in both @a and @b into @common, which is empty. */
static int sframe_ranges__intersect(struct sframe_ranges *common, const struct sframe_ranges *a,
				    const struct sframe_ranges *b)
{
	size_t i = 0, j = 0;
	int err;

	while (i < a->nr && j < b->nr) {
		err = sframe_ranges__add(common, max(a->ranges[i].start, b->ranges[j].start),
					 min(a->ranges[i].end, b->ranges[j].end));
		if (err)
			return err;
		if (a->ranges[i].end < b->ranges[j].end)
			i++;
		else
			j++;
	}

	return 0;
}

static u64 sframe_ranges__size(const struct sframe_ranges *set)
{
	u64 size = 0;
	size_t i;

	for (i = 0; i < set->nr; i++)
		size += set->ranges[i].end - set->ranges[i].start;

	return size;
}

/* How does a CIE encode the addresses of its FDEs? Not every CIE has to make sense. */
static bool sframe_cie__encoding(const Dwarf_CIE *raw, u8 *encoding)
{
	const char *letter = raw->augmentation;
	struct sframe_cursor cursor;

	*encoding = DW_EH_PE_absptr;
	if (*letter != 'z')
		return !*letter || !strcmp(letter, "eh");

	cursor.at = raw->augmentation_data;
	cursor.end = cursor.at + raw->augmentation_data_size;
	cursor.bad = false;

	while (*++letter) {
		switch (*letter) {
		case 'R':
			*encoding = sframe_cursor__get(&cursor, sizeof(u8));
			return !cursor.bad;
		case 'P':
			sframe_cursor__encoded(&cursor,
					       sframe_cursor__get(&cursor, sizeof(u8)) & 0x0f, 0);
			break;
		case 'L':
			sframe_cursor__skip(&cursor, sizeof(u8));
			break;
		case 'S':
		case 'B':
			break;
		default:
			return false;
		}
	}

	return true;
}

/* For which addresses is an FDE, whatever its program is? */
static bool sframe_cfi__find_range(struct sframe_cfi *cfi, u8 which, const Dwarf_FDE *raw,
				   struct sframe_segment *range)
{
	const unsigned char *e_ident = (void *)elf_getident(cfi->elf, NULL);
	const struct sframe_cfi_source *source = &cfi->source[which];
	struct sframe_cursor cursor = { .at = raw->start, .end = raw->end };
	const u8 *first = source->data->d_buf;
	struct sframe_entry entry;
	Dwarf_CFI_Entry cie;
	Dwarf_Off next;
	u8 encoding;

	/* libdw does not expect an offset beyond the section. */
	if (!sframe_entry__find(source->data, raw->CIE_pointer, &entry) ||
	    dwarf_next_cfi(e_ident, source->data, source->eh, raw->CIE_pointer, &next, &cie) ||
	    !dwarf_cfi_cie_p(&cie) || !sframe_cie__encoding(&cie.cie, &encoding))
		return false;

	range->start = sframe_cursor__encoded(&cursor, encoding,
					      source->addr + (raw->start - first));
	range->end = range->start + sframe_cursor__encoded(&cursor, encoding & 0x0f, 0);

	return !cursor.bad && range->start <= range->end;
}

static bool sframe_entry__is_cie(const struct sframe_cfi_source *source,
				 const struct sframe_entry *entry)
{
	struct sframe_cursor cursor = {
		.at = source->data->d_buf + entry->id, .end = source->data->d_buf + entry->end,
	};
	u64 id = sframe_cursor__get(&cursor, entry->id_size);

	if (source->eh)
		return !id;

	return id == (entry->id_size == sizeof(u32) ? UINT_MAX : ULLONG_MAX);
}

/*
 * Find what a section of the file describes. Unlike sframe_cfi__read_source() this takes
 * every FDE: those that make no sense, those of a CIE that makes none, those that
 * overlap others, and those after a terminator, which the index may lead to.
 */
static int sframe_cfi__scan_source(struct sframe_cfi *cfi, u8 which,
				   struct sframe_ranges *described, u64 *unreadable)
{
	const unsigned char *e_ident = (void *)elf_getident(cfi->elf, NULL);
	const struct sframe_cfi_source *source = &cfi->source[which];
	const Elf_Data *data = source->data;
	struct sframe_segment range;
	struct sframe_entry entry;
	Dwarf_CFI_Entry raw;
	Dwarf_Off next;
	int ret, err;
	u64 off;

	if (!data || !data->d_buf)
		return 0;

	/* What has no room for a length is padding. */
	for (off = 0; data->d_size - off >= sizeof(u32); off = entry.end) {
		if (!sframe_entry__find(data, off, &entry)) {
			if (get_unaligned_le32(data->d_buf + off)) {
				++*unreadable;
				break;
			}
			entry.end = off + sizeof(u32);
			continue;
		}

		ret = dwarf_next_cfi(e_ident, source->data, source->eh, off, &next, &raw);
		if (!ret && dwarf_cfi_cie_p(&raw))
			continue;
		if (ret || !sframe_cfi__find_range(cfi, which, &raw.fde, &range)) {
			*unreadable += !sframe_entry__is_cie(source, &entry);
			continue;
		}
		err = sframe_ranges__add(described, range.start, range.end);
		if (err)
			return err;
	}

	return 0;
}

/* Sections are more exact than segments, as with sframe_cfi__code(). */
static int sframe_cfi__scan_code(struct sframe_cfi *cfi, const struct sframe_ranges *segments,
				 struct sframe_ranges *code)
{
	struct sframe_ranges sections = { };
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	int err = 0;

	while (!err && (scn = elf_nextscn(cfi->elf, scn)) != NULL) {
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_PROGBITS &&
		    (shdr.sh_flags & SHF_EXECINSTR))
			err = sframe_ranges__add(&sections, shdr.sh_addr,
						 shdr.sh_addr + shdr.sh_size);
	}

	sframe_ranges__merge(&sections);
	if (!err)
		err = sframe_ranges__intersect(code, &sections, segments);
	if (!err && !code->nr)
		err = sframe_ranges__intersect(code, segments, segments);
	zfree(&sections.ranges);

	return err;
}

/* Find what CFI describes in the file itself, and count the code. */
static int sframe_cfi__scan(struct sframe_cfi *cfi, struct sframe_ranges *described,
			    struct sframe_check *check)
{
	const struct sframe_ranges segments = {
		.ranges = cfi->segments, .nr = cfi->nr_segments,
	};
	struct sframe_ranges all = { }, code = { }, common = { };
	int err = 0;
	u8 i;

	for (i = 0; i < SFRAME_SOURCE_NR && !err; i++)
		err = sframe_cfi__scan_source(cfi, i, &all, &check->unreadable);
	sframe_ranges__merge(&all);

	if (!err)
		err = sframe_ranges__intersect(described, &all, &segments);
	if (!err)
		err = sframe_cfi__scan_code(cfi, &segments, &code);
	if (!err)
		err = sframe_ranges__intersect(&common, described, &code);
	if (!err) {
		check->code = sframe_ranges__size(&code);
		check->code_described = sframe_ranges__size(&common);
	}

	zfree(&all.ranges);
	zfree(&code.ranges);
	zfree(&common.ranges);
	return err;
}

/**
 * struct sframe_comparison - A table that is being compared
 * @reader:	Table
 * @has_table:	There is one
 * @described:	What the CFI of the file itself describes
 * @at:		The first range of @described that is not behind @next
 * @check:	Result
 * @next:	Up to where addresses have been looked at
 * @logged:	How many differences have been printed
 */
struct sframe_comparison {
	struct sframe_reader	reader;
	bool			has_table;
	struct sframe_ranges	described;
	size_t			at;
	struct sframe_check	*check;
	u64			next;
	u32			logged;
};

static void sframe_comparison__log(struct sframe_comparison *comparison, u64 start, u64 end,
				   const char *what, const struct sframe_rule *rule)
{
	struct sframe_check *check = comparison->check;
	char text[128] = "no rule";

	if (!check->log || comparison->logged == check->max)
		return;

	comparison->logged++;
	if (rule)
		sframe_rule__scnprintf(rule, text, sizeof(text));
	fprintf(check->log, "%016" PRIx64 "-%016" PRIx64 " %s: %s\n", start, end, what, text);
}

/* As sframe_reader__find() */
static int sframe_comparison__find(struct sframe_comparison *comparison, u64 addr,
				   struct sframe_rule *rule, bool *signal, u64 *end)
{
	if (!comparison->has_table)
		return -ENOENT;

	return sframe_reader__find(&comparison->reader, addr, rule, signal, end);
}

/*
 * libdw was not asked about [@start, @end), but the file may describe some of it all the
 * same. Calls are in the order of addresses.
 */
static void sframe_comparison__unread(struct sframe_comparison *comparison, u64 start, u64 end,
				      bool has_rule)
{
	const struct sframe_ranges *described = &comparison->described;
	struct sframe_check *check = comparison->check;
	const struct sframe_segment *range;
	u64 first, last;
	size_t i;

	for (i = comparison->at; i < described->nr; i++) {
		range = &described->ranges[i];
		if (range->start >= end)
			break;
		first = max(range->start, start);
		last = min(range->end, end);
		if (first < last) {
			check->described += last - first;
			check->unread += last - first;
			if (!has_rule) {
				check->missing += last - first;
				sframe_comparison__log(comparison, first, last, "unread", NULL);
			}
		}
		if (range->end > end)
			break;
	}
	comparison->at = i;
}

/* libdw says nothing about [@start, @end): the table should have nothing either. */
static int sframe_comparison__gap(struct sframe_comparison *comparison, u64 start, u64 end)
{
	struct sframe_rule rule;
	bool signal;
	u64 stop;
	int ret;

	for (; start < end; start = stop) {
		stop = end;
		ret = sframe_comparison__find(comparison, start, &rule, &signal, &stop);
		if (ret == -EINVAL)
			return ret;
		sframe_comparison__unread(comparison, start, stop, ret != -ENOENT);
		if (ret == -ENOENT)
			continue;
		comparison->check->extra += stop - start;
		sframe_comparison__log(comparison, start, stop, "extra", ret ? NULL : &rule);
	}

	return 0;
}

static int sframe_comparison__row(const struct sframe_cfi_row *row, void *arg)
{
	struct sframe_comparison *comparison = arg;
	struct sframe_check *check = comparison->check;
	bool each, signal, known = false;
	struct sframe_frame frame;
	struct sframe_rule rule;
	u64 addr, end;
	int ret;

	ret = sframe_comparison__gap(comparison, comparison->next, row->start);
	if (ret)
		return ret;
	comparison->next = row->end;

	if (!row->frame)
		return sframe_comparison__gap(comparison, row->start, row->end);

	check->described += row->end - row->start;
	each = sframe_eval__depends_on_ip(row->frame);

	for (addr = row->start; addr < row->end; addr = end) {
		end = row->end;
		ret = sframe_comparison__find(comparison, addr, &rule, &signal, &end);
		if (ret == -EINVAL)
			return ret;

		if (ret == -ENOENT) {
			check->missing += end - addr;
			sframe_comparison__log(comparison, addr, end, "missing", NULL);
			continue;
		}

		if (each)
			end = addr + 1;
		if (each || addr == row->start)
			known = sframe_eval__frame(row->frame, addr, &frame);

		if (ret == -ENODATA && row->signal) {
			check->signal += end - addr;
		} else if (!ret && signal == row->signal && known &&
			   sframe_rule__leads_to(&rule, &frame)) {
			check->same += end - addr;
		} else {
			check->different += end - addr;
			sframe_comparison__log(comparison, addr, end, "different",
					       ret ? NULL : &rule);
		}
	}

	return 0;
}

/**
 * sframe_cfi__check - Compare a table with what libdw says, for each address
 * @cfi:	File, as sframe_cfi__read() left it
 * @table:	Table; without data it has no rules
 * @check:	Receives the result
 *
 * libdw gets only what sframe_cfi__read() has looked through. What the file itself
 * describes beyond that counts as missing.
 *
 * Return: 0; -EINVAL - the table is damaged; -ENODATA - there is no table, and nothing
 *	   is described; -ENOMEM.
 */
int sframe_cfi__check(struct sframe_cfi *cfi, const struct sframe_table *table,
		      struct sframe_check *check)
{
	struct sframe_comparison comparison = { .check = check, .has_table = table->data };
	size_t i;
	int err;

	if (comparison.has_table) {
		err = sframe_reader__init(&comparison.reader, table->data, table->size, 0);
		if (!err)
			err = sframe_reader__check(&comparison.reader);
		if (err)
			return err;
	}

	err = sframe_cfi__scan(cfi, &comparison.described, check);
	if (!err && !comparison.has_table && !comparison.described.nr && !check->unreadable)
		err = -ENODATA;
	if (err)
		goto out;

	comparison.next = cfi->segments[0].start;
	err = sframe_cfi__walk(cfi, sframe_comparison__row, &comparison);
	if (err)
		goto out;

	i = cfi->nr_segments - 1;
	err = sframe_comparison__gap(&comparison, comparison.next, cfi->segments[i].end);
out:
	zfree(&comparison.described.ranges);
	return err;
}
