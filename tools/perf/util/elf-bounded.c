// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "util/elf-bounded.h"

/**
 * elf_bounded__begin - Begin to read a 64-bit ELF file that may be hostile
 * @fd:		The file; must stay open
 * @elf:	Receives what elf_end() takes
 *
 * libelf takes memory for each section and each segment at once. So files with more
 * of them than the ELF header can count, some 65000, are refused: their number is in
 * 32 bits elsewhere, and those of a file with holes cost its owner nothing.
 *
 * Return: 0; -ENOEXEC - this is no ELF file; -EOPNOTSUPP - not one for 64 bits;
 *	   -EFBIG - it has too many sections or segments.
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

	/* These are the same in both byte orders. */
	if ((ehdr.e_shoff && !ehdr.e_shnum) || ehdr.e_phnum == PN_XNUM)
		return -EFBIG;

	/* Not mapped: someone may truncate the file. */
	*elf = elf_begin(fd, ELF_C_READ, NULL);
	if (*elf && elf_kind(*elf) == ELF_K_ELF && gelf_getehdr(*elf, &native))
		return 0;

	elf_end(*elf);
	*elf = NULL;
	return -ENOEXEC;
}
