// SPDX-License-Identifier: GPL-2.0
/*
 * Symbols in the section .gnu_debugdata of a program or library. It is an ELF file,
 * compressed with xz, that has the symbols of functions which .dynsym does not have. Some
 * distributions ship it, so that stacks can be read without debug files. It is described
 * in "Debugging with GDB", MiniDebugInfo.
 */
#include <stdio.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "util/compress.h"
#include "util/debug.h"
#include "util/dso.h"
#include "util/symbol.h"
#include "util/symsrc.h"

/*
 * Any file may have such a section. Real ones decompress to some ten times their size, a few
 * megabytes.
 */
#define DEBUGDATA_MIN	(1UL << 20)
#define DEBUGDATA_MAX	(128UL << 20)
#define DEBUGDATA_RATIO	100

static int debugdata__temporary_file(void)
{
	FILE *file = tmpfile();
	int fd = -1;

	if (file) {
		fd = dup(fileno(file));
		fclose(file);
	}

	return fd;
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

	fd = debugdata__temporary_file();
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
		return -1;

	if (!ss->symtab) {
		symsrc__destroy(ss);
		return -1;
	}

	return 0;
}
