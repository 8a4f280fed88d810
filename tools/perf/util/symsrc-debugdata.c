// SPDX-License-Identifier: GPL-2.0
/*
 * Symbols in the section .gnu_debugdata of a program or library. It is an ELF file,
 * compressed with xz, that has the symbols of functions which .dynsym does not have. Some
 * distributions ship it, so that stacks can be read without debug files. It is described
 * in "Debugging with GDB", MiniDebugInfo.
 */
#include <stdbool.h>
#include <unistd.h>
#include <sys/mman.h>
#include <linux/kernel.h>
#include <linux/sizes.h>

#include "util/compress.h"
#include "util/debug.h"
#include "util/dso.h"
#include "util/symbol.h"
#include "util/symsrc.h"

/*
 * Any file may have such a section. Real ones decompress to some ten times their size, a few
 * megabytes.
 */
#define DEBUGDATA_MIN	SZ_1M
#define DEBUGDATA_MAX	SZ_128M
#define DEBUGDATA_RATIO	100

/* A damaged section may be for another machine than its file. */
static bool debugdata__is_like(const struct symsrc *ss, const struct symsrc *file)
{
	return ss->ehdr.e_machine == file->ehdr.e_machine &&
	       ss->ehdr.e_ident[EI_CLASS] == file->ehdr.e_ident[EI_CLASS] &&
	       ss->ehdr.e_ident[EI_DATA] == file->ehdr.e_ident[EI_DATA];
}

/* dso__load_sym() trusts the size of symbols, and the offsets of their names. */
static bool debugdata__has_symbols(const struct symsrc *ss)
{
	size_t i, size = gelf_fsize(ss->elf, ELF_T_SYM, 1, EV_CURRENT);
	Elf_Data *syms, *names;
	GElf_Sym sym;

	if (!ss->symtab || !size || ss->symshdr.sh_entsize != size)
		return false;

	syms  = elf_getdata(ss->symtab, NULL);
	names = elf_getdata(elf_getscn(ss->elf, ss->symshdr.sh_link), NULL);
	if (!syms || !names || !names->d_buf || !names->d_size ||
	    ss->symshdr.sh_size > syms->d_size ||
	    ((char *)names->d_buf)[names->d_size - 1])
		return false;

	for (i = 0; i < ss->symshdr.sh_size / size; i++) {
		if (!gelf_getsym(syms, i, &sym) || sym.st_name >= names->d_size)
			return false;
	}

	return true;
}

/**
 * symsrc__init_debugdata - Open the section .gnu_debugdata
 * @ss:		Receives the symbols; symsrc__destroy() frees it
 * @dso:	DSO
 * @file:	File of the DSO
 *
 * Return: 0; -1 - there is no such section, or it cannot be read.
 */
int symsrc__init_debugdata(struct symsrc *ss, struct dso *dso, const struct symsrc *file)
{
	enum dso_load_errno load_errno = *dso__load_errno(dso);
	enum dso_swap_type needs_swap = dso__needs_swap(dso);
	GElf_Ehdr ehdr = file->ehdr;
	GElf_Shdr shdr;
	Elf_Data *data;
	Elf_Scn *scn;
	size_t limit;
	int fd;

	scn = elf_section_by_name(file->elf, &ehdr, &shdr, ".gnu_debugdata", NULL);
	if (!scn || shdr.sh_type != SHT_PROGBITS)
		return -1;

	data = elf_rawdata(scn, NULL);
	if (!data || !data->d_buf || !data->d_size)
		return -1;

	/* Not a temporary file: this may be the mount namespace of somebody else. */
	fd = memfd_create("gnu_debugdata", MFD_CLOEXEC);
	if (fd < 0)
		return -1;

	limit = min_t(size_t, data->d_size, DEBUGDATA_MAX / DEBUGDATA_RATIO) * DEBUGDATA_RATIO;
	limit = max_t(size_t, limit, DEBUGDATA_MIN);
	if (lzma_decompress_to_fd(data->d_buf, data->d_size, fd, limit)) {
		pr_debug("%s: cannot read .gnu_debugdata\n", file->name);
		close(fd);
		return -1;
	}

	/* It is a part of the file, so it need not say which file it belongs to. */
	if (symsrc__init_fd(ss, dso, file->name, file->type, fd, false))
		goto damaged;

	/* .dynsym is in the file itself. */
	ss->dynsym = NULL;
	if (debugdata__is_like(ss, file) && debugdata__has_symbols(ss))
		return 0;

	symsrc__destroy(ss);
damaged:
	/* The file itself is not damaged. */
	*dso__load_errno(dso) = load_errno;
	dso__set_needs_swap(dso, needs_swap);
	return -1;
}
