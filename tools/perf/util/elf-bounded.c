// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "util/elf-bounded.h"

/**
 * elf_bounded__begin - Begin to read a 64-bit ELF file that may be hostile
 * @fd:		The file; must stay open
 * @elf:	Receives the ELF handle; elf_end() frees it
 *
 * libelf allocates memory for all sections and all segments at once. The ELF header
 * can count about 65000 of each, and a 32-bit field elsewhere can count more. A
 * sparse file with more costs its owner nothing. So perf refuses files with more
 * than the ELF header can count.
 *
 * Return: 0; -ENOEXEC - this is not an ELF file; -EOPNOTSUPP - it is not a 64-bit
 *	   file; -EFBIG - it has too many sections or segments.
 */
int elf_bounded__begin(int fd, Elf **elf)
{
	Elf64_Ehdr ehdr = { };
	GElf_Ehdr native;
	ssize_t len;

	*elf = NULL;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return -EOPNOTSUPP;

	len = pread(fd, &ehdr, sizeof(ehdr), 0);
	if (len < EI_NIDENT || memcmp(ehdr.e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (ehdr.e_ident[EI_CLASS] != ELFCLASS64)
		return -EOPNOTSUPP;

	/* 0 and PN_XNUM are the same in both byte orders. */
	if ((ehdr.e_shoff && !ehdr.e_shnum) || ehdr.e_phnum == PN_XNUM)
		return -EFBIG;

	/* Do not map the file: someone may truncate it. */
	*elf = elf_begin(fd, ELF_C_READ, NULL);
	if (*elf && elf_kind(*elf) == ELF_K_ELF && gelf_getehdr(*elf, &native))
		return 0;

	elf_end(*elf);
	*elf = NULL;
	return -ENOEXEC;
}
