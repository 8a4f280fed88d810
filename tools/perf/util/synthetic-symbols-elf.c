// SPDX-License-Identifier: GPL-2.0
/* Finds the functions of a file, for which symbols are synthesized */
#include <errno.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "util/debug.h"
#include "util/dso.h"
#include "util/sframe-cfi.h"
#include "util/sframe-code.h"
#include "util/symbol.h"
#include "util/symsrc.h"
#include "util/synthetic-symbols.h"

/**
 * struct functions_reader - The functions that were read so far
 * @elf:	File
 * @phdr:	Program header of the last function
 * @functions:	Functions
 */
struct functions_reader {
	Elf				*elf;
	GElf_Phdr			phdr;
	struct synthetic_symbols	functions;
};

static int functions_reader__add(u64 start, u64 end, void *arg)
{
	struct functions_reader *reader = arg;
	u64 offset;

	if (start < reader->phdr.p_vaddr ||
	    start - reader->phdr.p_vaddr >= max(reader->phdr.p_memsz, reader->phdr.p_filesz)) {
		if (elf_read_program_header(reader->elf, start, &reader->phdr))
			return -EINVAL;
	}

	offset = start - reader->phdr.p_vaddr + reader->phdr.p_offset;
	return synthetic_symbols__add(&reader->functions, offset, offset + (end - start), start);
}

/**
 * dso__synthesize_symbols - Synthesize symbols for functions of a file without symbols
 * @dso:	DSO of a user space file, whose symbols are complete
 * @ss:		The file with its code
 *
 * Return: Number of symbols; negative - the file has no functions that can be found.
 */
int dso__synthesize_symbols(struct dso *dso, struct symsrc *ss)
{
	struct functions_reader reader = { .elf = ss->elf };
	int ret;

	ret = sframe_cfi__walk_functions(ss->fd, functions_reader__add, &reader);
	/* If the instructions say nothing, there are those of .eh_frame. */
	if (!ret && sframe_code__walk_functions(ss->fd, functions_reader__add, &reader) == -ENOMEM)
		ret = -ENOMEM;
	if (!ret)
		ret = dso__set_functions(dso, &reader.functions);
	zfree(&reader.functions.syms);

	if (ret < 0)
		pr_debug("%s: cannot name functions without symbols: %s\n", ss->name,
			 ret == -EFBIG ? "too many of them, or .eh_frame is too large" :
			 strerror(-ret));
	else
		pr_debug2("%s: %d functions without symbols\n", ss->name, ret);

	return ret;
}

/**
 * dso__load_functions - Synthesize symbols for a file that has no symbols at all
 * @dso:	DSO of a user space file
 * @ss:		The file
 *
 * Such a file is a static program, for example. This sets what dso__load_sym() sets for
 * other files.
 *
 * Return: Number of symbols; negative - the file has no functions that can be found.
 */
int dso__load_functions(struct dso *dso, struct symsrc *ss)
{
	int ret = dso__synthesize_symbols(dso, ss);
	GElf_Shdr shdr;

	if (ret <= 0)
		return ret;

	if (elf_section_by_name(ss->elf, &ss->ehdr, &shdr, ".text", NULL)) {
		dso__set_text_offset(dso, shdr.sh_addr - shdr.sh_offset);
		dso__set_text_end(dso, shdr.sh_offset + shdr.sh_size);
	}
	dso__set_symtab_type(dso, ss->type);
	dso__set_binary_type(dso, ss->type);
	dso__set_is_64_bit(dso, ss->is_64_bit);
	dso__set_rel(dso, false);
	dso__set_adjust_symbols(dso, true);

	return ret;
}
