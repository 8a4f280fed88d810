// SPDX-License-Identifier: GPL-2.0
/*
 * Finds rules for the code of a file that no call frame information describes
 *
 * sframe-insn.c derives them from the instructions. This part takes its input from the
 * file: the code, the parts that have CFI, and addresses at which functions may start. All of
 * that goes into a hash. A table from the cache is used only if it was made from this very file,
 * or if the hash is still the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/unaligned.h>
#include <linux/zalloc.h>

#include "util/array-grow.h"
#include "util/sframe-cfi-internal.h"
#include "util/sframe-code.h"
#include "util/sframe-ranges.h"

/*
 * Nearly all files have padding between functions. To go through all code for these takes more
 * time than they are worth. So there must be that many bytes in gaps that are longer than
 * padding. Otherwise only sections without any CFI are looked at, and constructors and
 * destructors: each library has _init() and _fini() in sections of their own, and some functions of
 * crtbegin.o. They are the first and the last thing that samples see of a library.
 */
#define SFRAME_CODE_MIN		512
#define SFRAME_CODE_GAP		64

/* The largest files have more, but hardly any of it is assembly. */
#define SFRAME_CODE_MAX		SZ_64M

/* Addresses at which functions may start, see enum sframe_insn_source */
#define SFRAME_CODE_ENTRIES_MAX	SZ_1M

/* Instructions to decode or to interpret, for each byte of code. Files need up to 2. */
#define SFRAME_CODE_STEPS	8

#define SFRAME_CODE_SECTIONS	64

/* .preinit_array, .init_array and .fini_array */
#define SFRAME_CODE_ARRAYS	3

/**
 * struct sframe_code_input - Input of the analysis of a file
 * @cfi:	The file
 * @code:	Its sections with code, sorted
 * @nr_code:	Number of sections
 * @data:	Its sections with data, where jump tables may be
 * @nr_data:	Number of sections
 * @size:	Bytes of code
 * @entries:	Addresses at which functions may start
 * @nr:		Number of entries
 * @room:	Number of entries that fit
 * @arrays:	Where the addresses of constructors and destructors are
 * @nr_arrays:	Number of these sections
 * @covered:	Code that has CFI, function by function
 * @code_out:	Receives the rows
 * @trace:	Callbacks of sframe_code__trace(), or NULL
 */
struct sframe_code_input {
	struct sframe_cfi		*cfi;
	struct sframe_insn_code		code[SFRAME_CODE_SECTIONS];
	size_t				nr_code;
	struct sframe_insn_code		data[SFRAME_CODE_SECTIONS];
	size_t				nr_data;
	u64				size;
	struct sframe_insn_entry	*entries;
	size_t				nr;
	size_t				room;
	struct sframe_segment		arrays[SFRAME_CODE_ARRAYS];
	size_t				nr_arrays;
	struct sframe_ranges		covered;
	struct sframe_code		*code_out;
	const struct sframe_code_trace	*trace;
};

static void sframe_code_input__exit(struct sframe_code_input *input)
{
	zfree(&input->entries);
	zfree(&input->covered.ranges);
}

static int sframe_code_input__add(struct sframe_code_input *input, u64 addr,
				  enum sframe_insn_source source)
{
	void *new;

	if (!addr)
		return 0;
	if (input->nr == SFRAME_CODE_ENTRIES_MAX)
		return -EFBIG;

	new = array__grow(input->entries, input->nr, &input->room, sizeof(*input->entries));
	if (!new)
		return -ENOMEM;

	input->entries = new;
	input->entries[input->nr++] = (struct sframe_insn_entry) {
		.addr = addr, .source = source,
	};
	return 0;
}

static int sframe_code_input__add_symbols(struct sframe_code_input *input, Elf_Data *data)
{
	GElf_Sym sym;
	int i, err = 0;

	for (i = 0; !err && gelf_getsym(data, i, &sym); i++) {
		if (sym.st_shndx != SHN_UNDEF && (GELF_ST_TYPE(sym.st_info) == STT_FUNC ||
						  GELF_ST_TYPE(sym.st_info) == STT_GNU_IFUNC))
			err = sframe_code_input__add(input, sym.st_value, SFRAME_INSN_SYMBOL);
	}

	return err;
}

static bool sframe_code_input__is_in_array(const struct sframe_code_input *input, u64 addr)
{
	size_t i;

	for (i = 0; i < input->nr_arrays; i++) {
		if (addr >= input->arrays[i].start && addr < input->arrays[i].end)
			return true;
	}

	return false;
}

/* Some linkers write the addresses of constructors into relocations only. */
static int sframe_code_input__add_relocations(struct sframe_code_input *input, Elf_Data *data)
{
	enum sframe_insn_source source;
	GElf_Rela rela;
	int i, err = 0;

	for (i = 0; !err && gelf_getrela(data, i, &rela); i++) {
		if (GELF_R_TYPE(rela.r_info) != R_X86_64_RELATIVE &&
		    GELF_R_TYPE(rela.r_info) != R_X86_64_IRELATIVE)
			continue;
		source = sframe_code_input__is_in_array(input, rela.r_offset) ?
			 SFRAME_INSN_INIT : SFRAME_INSN_RELOCATION;
		err = sframe_code_input__add(input, rela.r_addend, source);
	}

	return err;
}

static int sframe_code_input__add_dynamic(struct sframe_code_input *input, Elf_Data *data)
{
	GElf_Dyn dyn;
	int i, err = 0;

	for (i = 0; !err && gelf_getdyn(data, i, &dyn); i++) {
		if (dyn.d_tag == DT_INIT || dyn.d_tag == DT_FINI)
			err = sframe_code_input__add(input, dyn.d_un.d_ptr, SFRAME_INSN_INIT);
	}

	return err;
}

/* Relocations of other sections come first, so they need to know these. */
static int sframe_code_input__find_arrays(struct sframe_code_input *input)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(input->cfi->elf, scn)) != NULL) {
		if (!gelf_getshdr(scn, &shdr))
			return -EINVAL;
		if (shdr.sh_type != SHT_PREINIT_ARRAY && shdr.sh_type != SHT_INIT_ARRAY &&
		    shdr.sh_type != SHT_FINI_ARRAY)
			continue;
		if (input->nr_arrays == SFRAME_CODE_ARRAYS)
			return 0;
		input->arrays[input->nr_arrays++] = (struct sframe_segment) {
			.start = shdr.sh_addr, .end = shdr.sh_addr + shdr.sh_size,
		};
	}

	return 0;
}

/* Programs with fixed addresses have them here, without relocations. */
static int sframe_code_input__add_array(struct sframe_code_input *input, const Elf_Data *data)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i + sizeof(u64) <= data->d_size; i += sizeof(u64))
		err = sframe_code_input__add(input, get_unaligned_le64(data->d_buf + i),
					     SFRAME_INSN_INIT);

	return err;
}

static int sframe_code_input__add_section(struct sframe_code_input *input,
					  const GElf_Shdr *shdr, Elf_Data *data)
{
	struct sframe_insn_code section = {
		.addr = shdr->sh_addr, .bytes = data->d_buf, .size = data->d_size,
	};
	u64 end = shdr->sh_addr + data->d_size;

	switch (shdr->sh_type) {
	case SHT_PROGBITS:
		if (end < shdr->sh_addr)
			return -EINVAL;
		if (!(shdr->sh_flags & SHF_EXECINSTR)) {
			if (input->nr_data < SFRAME_CODE_SECTIONS)
				input->data[input->nr_data++] = section;
			return 0;
		}
		if (!sframe_cfi__clip(input->cfi, &section.addr, &end))
			return 0;
		section.size = end - section.addr;
		input->size += section.size;
		if (input->nr_code == SFRAME_CODE_SECTIONS || input->size > SFRAME_CODE_MAX)
			return -EFBIG;
		input->code[input->nr_code++] = section;
		return 0;
	case SHT_DYNSYM:
		return sframe_code_input__add_symbols(input, data);
	case SHT_RELA:
		return sframe_code_input__add_relocations(input, data);
	case SHT_DYNAMIC:
		return sframe_code_input__add_dynamic(input, data);
	case SHT_PREINIT_ARRAY:
	case SHT_INIT_ARRAY:
	case SHT_FINI_ARRAY:
		return sframe_code_input__add_array(input, data);
	default:
		return 0;
	}
}

static int sframe_insn_code__cmp(const void *a, const void *b)
{
	const struct sframe_insn_code *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void sframe_code_input__sort(struct sframe_code_input *input)
{
	qsort(input->code, input->nr_code, sizeof(*input->code), sframe_insn_code__cmp);
}

/*
 * Reads only data that the process has in memory, too: a file and the same file without symbols
 * must have the same table.
 */
static int sframe_code_input__read(struct sframe_code_input *input)
{
	struct sframe_cfi *cfi = input->cfi;
	Elf_Scn *scn = NULL;
	Elf_Data *data;
	GElf_Ehdr ehdr;
	GElf_Shdr shdr;
	size_t i;
	int err;

	if (!gelf_getehdr(cfi->elf, &ehdr))
		return -EINVAL;
	/* Nobody calls it, so it has no return address. Its rules must prove that it returns. */
	err = sframe_code_input__add(input, ehdr.e_entry, SFRAME_INSN_RELOCATION);
	if (!err)
		err = sframe_code_input__find_arrays(input);

	while (!err && (scn = elf_nextscn(cfi->elf, scn)) != NULL) {
		if (!gelf_getshdr(scn, &shdr))
			return -EINVAL;
		if (!(shdr.sh_flags & SHF_ALLOC) || shdr.sh_type == SHT_NOBITS)
			continue;
		if (!sframe_cfi__afford(cfi, shdr.sh_size))
			return sframe_cfi__is_stopped(cfi) ? -EINTR : -EFBIG;

		data = elf_getdata(scn, NULL);
		if (data && data->d_buf)
			err = sframe_code_input__add_section(input, &shdr, data);
	}
	if (err)
		return err;

	sframe_code_input__sort(input);
	for (i = 1; i < input->nr_code; i++) {
		if (input->code[i].addr < input->code[i - 1].addr + input->code[i - 1].size)
			return -EINVAL;
	}

	return input->nr_code ? 0 : -ENODATA;
}

static void sframe_code__mix(struct sha256 *sha, const struct sframe_insn_code *sections, size_t nr)
{
	__le64 head[2];
	size_t i;

	for (i = 0; i < nr; i++) {
		head[0] = cpu_to_le64(sections[i].addr);
		head[1] = cpu_to_le64(sections[i].size);
		sha256__add(sha, head, sizeof(head));
		sha256__add(sha, sections[i].bytes, sections[i].size);
	}
}

/* All that the rules depend on, apart from the CFI, which is in the fingerprint */
static void sframe_code_input__hash(const struct sframe_code_input *input, u8 *hash)
{
	struct sha256 sha;
	__le64 head[2];
	size_t i;

	sha256__init(&sha);
	sframe_code__mix(&sha, input->code, input->nr_code);
	sframe_code__mix(&sha, input->data, input->nr_data);
	for (i = 0; i < input->nr; i++) {
		head[0] = cpu_to_le64(input->entries[i].addr);
		head[1] = cpu_to_le64(input->entries[i].source);
		sha256__add(&sha, head, sizeof(head));
	}
	sha256__finish(&sha, hash);
}

/*
 * CFI that libdw does not get describes code, too. Functions that it gets come one by one,
 * because a jump may lead from code without CFI to their starts.
 */
static int sframe_code_input__find_covered(struct sframe_code_input *input)
{
	struct sframe_cfi *cfi = input->cfi;
	const struct sframe_segment *range;
	struct sframe_ranges described = { };
	struct sframe_check check = { };
	size_t i, at = 0;
	u64 start, end;
	int err;

	err = sframe_cfi__scan(cfi, &described, &check);

	for (i = 0; i < described.nr && !err; i++) {
		range = &described.ranges[i];
		for (start = range->start; start < range->end && !err; start = end) {
			while (at < cfi->nr_fdes && cfi->fdes[at].end <= start)
				at++;
			end = range->end;
			if (at < cfi->nr_fdes && cfi->fdes[at].start <= start)
				end = min(end, cfi->fdes[at].end);
			else if (at < cfi->nr_fdes)
				end = min(end, cfi->fdes[at].start);
			err = sframe_ranges__add(&input->covered, start, end);
		}
	}

	zfree(&described.ranges);
	return err;
}

/**
 * struct sframe_code_gaps - Code that has no CFI
 * @large:	Bytes that are not just padding
 * @padding:	Bytes of padding
 * @rest:	All other bytes
 */
struct sframe_code_gaps {
	u64	large;
	u64	padding;
	u64	rest;
};

/* Add code between two functions. Only if @look is set it is read. */
static void sframe_code_gaps__add(struct sframe_code_gaps *gaps, bool look,
				  const struct sframe_insn_code *code, u64 start, u64 end)
{
	size_t padding;

	if (end - start >= SFRAME_CODE_GAP)
		gaps->large += end - start;
	if (!look)
		return;

	padding = sframe_insn__padding(start, code->bytes + (start - code->addr), end - start);
	gaps->padding += padding;
	gaps->rest += end - start - padding;
}

/* Code of its own that was added */
static void sframe_code_gaps__remove(struct sframe_code_gaps *gaps,
				     const struct sframe_insn_code *code)
{
	size_t padding = sframe_insn__padding(code->addr, code->bytes, code->size);

	gaps->padding -= padding;
	gaps->rest -= code->size - padding;
}

/* Returns the number of ranges with CFI that end at or before @addr. */
static size_t sframe_code_input__nr_before(const struct sframe_code_input *input, u64 addr)
{
	const struct sframe_ranges *covered = &input->covered;
	size_t lo = 0, hi = covered->nr, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (covered->ranges[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}

	return lo;
}

/* Does CFI describe anything in this section? */
static bool sframe_code_input__has_cfi(const struct sframe_code_input *input,
				       const struct sframe_insn_code *section)
{
	size_t i = sframe_code_input__nr_before(input, section->addr);

	return i < input->covered.nr &&
	       input->covered.ranges[i].start < section->addr + section->size;
}

/* Count the code that has no CFI, in sections with CFI if @look is set. */
static void sframe_code_input__gaps(const struct sframe_code_input *input, bool look,
				    struct sframe_code_gaps *gaps)
{
	const struct sframe_ranges *covered = &input->covered;
	const struct sframe_insn_code *code;
	u64 start, end, next;
	size_t i, at = 0;

	for (i = 0; i < input->nr_code; i++) {
		code = &input->code[i];
		if (look && !sframe_code_input__has_cfi(input, code))
			continue;
		start = code->addr;
		end = start + code->size;
		while (start < end) {
			while (at < covered->nr && covered->ranges[at].end <= start)
				at++;
			next = at < covered->nr ? min(covered->ranges[at].start, end) : end;
			if (next > start)
				sframe_code_gaps__add(gaps, look, code, start, next);
			if (at == covered->nr || next == end)
				break;
			start = covered->ranges[at].end;
		}
	}
}

/* Finds the code around @addr, from one function with CFI to the next one in the section. */
static bool sframe_code_input__find_gap(const struct sframe_code_input *input, u64 addr,
					struct sframe_insn_code *gap)
{
	const struct sframe_insn_code *section = input->code;
	const struct sframe_segment *next;
	u64 start, end;
	size_t i;

	while (section < input->code + input->nr_code && addr - section->addr >= section->size)
		section++;
	if (section == input->code + input->nr_code || !sframe_code_input__has_cfi(input, section))
		return false;

	start = section->addr;
	end = start + section->size;
	i = sframe_code_input__nr_before(input, addr);
	next = input->covered.ranges + i;
	if (i)
		start = max(start, next[-1].end);
	if (i < input->covered.nr)
		end = min(end, next->start);
	if (addr >= end)
		return false;

	*gap = (struct sframe_insn_code) {
		.addr = start, .bytes = section->bytes + (start - section->addr),
		.size = end - start,
	};
	return true;
}

/* Finds the code of constructors and destructors in sections with CFI. */
static size_t sframe_code_input__find_init(const struct sframe_code_input *input,
					   struct sframe_insn_code *gaps)
{
	size_t i, j, nr = 0;

	for (i = 0; i < input->nr && nr < SFRAME_CODE_SECTIONS; i++) {
		if (input->entries[i].source != SFRAME_INSN_INIT ||
		    !sframe_code_input__find_gap(input, input->entries[i].addr, &gaps[nr]))
			continue;
		for (j = 0; gaps[j].addr != gaps[nr].addr; j++)
			;
		if (j == nr)
			nr++;
	}

	return nr;
}

static void sframe_code_input__drop_cfi(struct sframe_code_input *input)
{
	size_t i, nr = 0;

	input->size = 0;
	input->nr_data = 0;
	for (i = 0; i < input->nr_code; i++) {
		if (sframe_code_input__has_cfi(input, &input->code[i]))
			continue;
		input->size += input->code[i].size;
		input->code[nr++] = input->code[i];
	}
	input->nr_code = nr;
}

/*
 * Decide how much of the code to look at. @large receives whether it is all of it. If it is
 * not, @left, unless it is NULL, receives what is left out.
 *
 * There is room for %SFRAME_CODE_SECTIONS sections. Constructors beyond them have no rules.
 */
static int sframe_code_input__choose(struct sframe_code_input *input, bool *large,
				     struct sframe_code_gaps *left)
{
	struct sframe_insn_code init[SFRAME_CODE_SECTIONS];
	struct sframe_code_gaps gaps = { };
	size_t i, nr;

	sframe_code_input__gaps(input, false, &gaps);
	*large = gaps.large >= SFRAME_CODE_MIN;
	if (*large)
		return 0;

	if (left)
		sframe_code_input__gaps(input, true, left);
	nr = sframe_code_input__find_init(input, init);
	sframe_code_input__drop_cfi(input);
	nr = min(nr, SFRAME_CODE_SECTIONS - input->nr_code);
	for (i = 0; i < nr; i++) {
		input->code[input->nr_code++] = init[i];
		input->size += init[i].size;
		if (left)
			sframe_code_gaps__remove(left, &init[i]);
	}
	sframe_code_input__sort(input);

	return input->nr_code ? 0 : -ENODATA;
}

/* The code to look at: -ENODATA if there is none, -EFBIG if it is too much */
static int sframe_code_input__find(struct sframe_code_input *input, bool *large,
				   struct sframe_code_gaps *left)
{
	int err = sframe_code_input__find_covered(input);

	if (!err)
		err = sframe_code_input__read(input);

	return err ?: sframe_code_input__choose(input, large, left);
}

static bool sframe_code__load(const struct sframe_insn_code *sections, size_t nr, u64 addr,
			      void *buf, size_t size)
{
	size_t i;
	u64 off;

	for (i = 0; i < nr; i++) {
		off = addr - sections[i].addr;
		if (off > sections[i].size || size > sections[i].size - off)
			continue;
		memcpy(buf, sections[i].bytes + off, size);
		return true;
	}

	return false;
}

static bool sframe_code_input__load(u64 addr, void *buf, size_t size, void *arg)
{
	const struct sframe_code_input *input = arg;

	return sframe_code__load(input->data, input->nr_data, addr, buf, size) ||
	       sframe_code__load(input->code, input->nr_code, addr, buf, size);
}

/* The DWARF numbers of registers, by the numbers that instructions have for them */
u8 sframe_code__reg(u8 reg)
{
	static const u8 dwarf[] = { 0, 2, 1, 3, SFRAME_AMD64_SP, SFRAME_AMD64_FP, 4, 5 };

	return reg < ARRAY_SIZE(dwarf) ? dwarf[reg] : reg;
}

static struct sframe_rule sframe_code__rule(const struct sframe_insn_rule *from)
{
	struct sframe_rule rule = {
		.cfa = {
			.base	= SFRAME_BASE_REG,
			.reg	= sframe_code__reg(from->cfa_reg),
			.off	= from->cfa_off,
			.deref	= from->cfa_deref,
			.add	= from->cfa_deref ? from->cfa_add : 0,
		},
		.ra = {
			.base	= SFRAME_BASE_CFA,
			.off	= SFRAME_AMD64_RA_OFF,
			.deref	= true,
		},
	};

	switch ((enum sframe_insn_fp)from->fp) {
	case SFRAME_INSN_FP_CFA:
		rule.fp = (struct sframe_loc) {
			.base = SFRAME_BASE_CFA, .off = from->fp_off, .deref = true,
		};
		break;
	case SFRAME_INSN_FP_REG:
	case SFRAME_INSN_FP_MEM:
		rule.fp = (struct sframe_loc) {
			.base	= SFRAME_BASE_REG,
			.reg	= sframe_code__reg(from->fp_reg),
			.off	= from->fp_off,
			.deref	= from->fp == SFRAME_INSN_FP_MEM,
		};
		break;
	case SFRAME_INSN_FP_NONE:
		rule.fp.base = SFRAME_BASE_NONE;
		break;
	case SFRAME_INSN_FP_SAME:
	default:
		break;
	}

	return rule;
}

static int sframe_code__add_row(u64 start, u64 end, bool entry,
				const struct sframe_insn_rule *rule, void *arg)
{
	struct sframe_code_input *input = arg;
	struct sframe_code *code = input->code_out;
	void *new;

	new = array__grow(code->rows, code->nr, &code->room, sizeof(*code->rows));
	if (!new)
		return -ENOMEM;

	code->rows = new;
	code->rows[code->nr++] = (struct sframe_code_row) {
		.start = start, .end = end, .entry = entry, .rule = sframe_code__rule(rule),
	};
	return 0;
}

static bool sframe_code_input__stop(void *arg)
{
	return sframe_cfi__is_stopped(((struct sframe_code_input *)arg)->cfi);
}

static void sframe_code_input__instruction(u64 addr, const struct sframe_insn_state *st, void *arg)
{
	const struct sframe_code_trace *trace = ((struct sframe_code_input *)arg)->trace;

	trace->instruction(addr, st, trace->arg);
}

static int sframe_code_input__analyse(struct sframe_code_input *input)
{
	const struct sframe_insn_input in = {
		.code		= input->code,
		.nr_code	= input->nr_code,
		.covered	= input->covered.ranges,
		.nr_covered	= input->covered.nr,
		.entries	= input->entries,
		.nr_entries	= input->nr,
		.max_steps	= SFRAME_CODE_STEPS * input->size,
		.read		= sframe_code_input__load,
		.stop		= sframe_code_input__stop,
		.trace		= input->trace ? sframe_code_input__instruction : NULL,
		.arg		= input,
	};

	return sframe_insn__analyse(&in, sframe_code__add_row, input, &input->code_out->stats);
}

#ifndef HAVE_AUXTRACE_SUPPORT
/* perf was built without the decoder of instructions. */
int sframe_insn__analyse(const struct sframe_insn_input *in __maybe_unused,
			 sframe_insn_row_fn fn __maybe_unused, void *arg __maybe_unused,
			 struct sframe_insn_stats *stats __maybe_unused)
{
	return -ENODATA;
}

size_t sframe_insn__padding(u64 addr __maybe_unused, const u8 *bytes __maybe_unused,
			    size_t size __maybe_unused)
{
	return 0;
}

enum sframe_insn_match sframe_insn__match(const struct sframe_insn_state *st __maybe_unused,
					  const struct sframe_insn_rule *rule __maybe_unused)
{
	return SFRAME_INSN_OPEN;
}
#endif

/**
 * sframe_code__read - Find rules for code without CFI
 * @cfi:	File, after sframe_cfi__read()
 * @exists:	If not NULL, do not go through all code, but say whether that is worth it
 * @code:	Receives the rules; sframe_code__exit() frees them
 *
 * Return: 0; -ENODATA - there is no such code; -EFBIG - there is too
 *	   much code; -EINVAL - the file is damaged; -EINTR - the callback of
 *	   sframe_cfi__stop_if() returned true; -ENOMEM.
 */
int sframe_code__read(struct sframe_cfi *cfi, bool *exists, struct sframe_code *code)
{
	struct sframe_code_input input = { .cfi = cfi, .code_out = code };
	struct sframe_code_gaps left = { };
	bool large = false;
	int err;

	*code = (struct sframe_code) { };

	err = sframe_code_input__find(&input, &large, exists ? NULL : &left);
	if (!err && exists && large) {
		*exists = true;
		goto out;
	}
	if (!err || err == -ENODATA)
		sframe_code_input__hash(&input, code->hash);
	if (err)
		goto out;

	err = sframe_code_input__analyse(&input);
	if (err)
		sframe_code__exit(code);
out:
#ifdef HAVE_AUXTRACE_SUPPORT
	code->stats.code += left.padding + left.rest;
	code->stats.padding += left.padding;
	code->stats.without[SFRAME_INSN_UNREACHED] += left.rest;
#endif
	sframe_code_input__exit(&input);
	return err;
}

/**
 * sframe_code__trace - Go through all code as if it had no CFI
 * @cfi:	File, after sframe_cfi__read()
 * @trace:	Callbacks
 * @code:	Receives the rules; sframe_code__exit() frees them
 *
 * Return: as sframe_code__read().
 */
int sframe_code__trace(struct sframe_cfi *cfi, const struct sframe_code_trace *trace,
		       struct sframe_code *code)
{
	struct sframe_code_input input = { .cfi = cfi, .code_out = code, .trace = trace };
	size_t i;
	int err;

	*code = (struct sframe_code) { };

	err = sframe_code_input__read(&input);
	for (i = 0; i < cfi->nr_fdes && !err; i++) {
		if (trace->is_entry(cfi->fdes[i].start, trace->arg))
			err = sframe_code_input__add(&input, cfi->fdes[i].start,
						     SFRAME_INSN_SYMBOL);
	}
	if (!err)
		err = sframe_code_input__analyse(&input);
	if (err)
		sframe_code__exit(code);

	sframe_code_input__exit(&input);
	return err;
}

void sframe_code__exit(struct sframe_code *code)
{
	zfree(&code->rows);
	code->nr = 0;
}

/* If there is no room for another file, forget the one that was read first. */
static void sframe_code__add_file(const struct sframe_cfi *cfi, struct sframe_aux *aux)
{
	memmove(aux->files + 1, aux->files, sizeof(aux->files) - sizeof(aux->files[0]));
	put_unaligned_le64(cfi->dev, &aux->files[0].dev);
	put_unaligned_le64(cfi->ino, &aux->files[0].ino);
	put_unaligned_le64(cfi->ctime, &aux->files[0].ctime);
}

/**
 * sframe_code__identify - Remember the file and the code behind a table's rules
 * @cfi:	File
 * @code:	Its rules
 * @aux:	Receives a hash of the code, and which file it is
 */
void sframe_code__identify(const struct sframe_cfi *cfi, const struct sframe_code *code,
			   struct sframe_aux *aux)
{
	memcpy(aux->code_hash, code->hash, sizeof(aux->code_hash));
	sframe_code__add_file(cfi, aux);
}

/*
 * This file was read before, and nobody has changed it since. To hash a large library takes
 * longer than all else that is needed for a table from the cache.
 */
static bool sframe_code__is_unchanged(const struct sframe_cfi *cfi, const struct sframe_aux *aux)
{
	const struct sframe_aux_file *file;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(aux->files); i++) {
		file = &aux->files[i];
		if (cfi->dev == get_unaligned_le64(&file->dev) &&
		    cfi->ino == get_unaligned_le64(&file->ino) &&
		    cfi->ctime == get_unaligned_le64(&file->ctime))
			return true;
	}

	return false;
}

/**
 * sframe_code__is_same - Is the code still the same that a table was made from?
 * @cfi:	File, after sframe_cfi__open(); only good for sframe_cfi__delete() afterwards, if
 *		the result is false
 * @table:	Table of the file, from the cache
 *
 * The fingerprint of a table is only about CFI. This is about the code, from which other rules
 * are made, or which gives none. If the code is the same in another file, such as a copy, the table
 * gets to know this file, too, and &sframe_table.renewed is set. Stored again, it saves
 * reading the code in the next session.
 *
 * Return: true if so; false also if there is reason to stop.
 */
bool sframe_code__is_same(struct sframe_cfi *cfi, struct sframe_table *table)
{
	struct sframe_code_input input = { .cfi = cfi };
	u8 hash[SFRAME_FINGERPRINT_SIZE] = { };
	struct sframe_reader reader;
	struct sframe_aux aux;
	bool large, same;
	int err;

	if (sframe_reader__init(&reader, table->data, table->size, 0) ||
	    sframe_reader__aux(&reader, &aux))
		return false;
	/* A partial table has nothing but CFI. */
	if (aux.partial || sframe_code__is_unchanged(cfi, &aux))
		return true;

	/* The same choice needs the same CFI, which the fingerprint stands for. */
	err = sframe_cfi__find_functions(cfi) ?: sframe_code_input__find(&input, &large, NULL);
	if (!err || err == -ENODATA)
		sframe_code_input__hash(&input, hash);
	same = err != -ENOMEM && err != -EINTR && !memcmp(hash, aux.code_hash, sizeof(hash));
	if (same) {
		sframe_code__add_file(cfi, &aux);
		memcpy(table->data + sizeof(struct sframe_header), &aux, sizeof(aux));
		table->renewed = true;
	}

	sframe_code_input__exit(&input);
	return same;
}
