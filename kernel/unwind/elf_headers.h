/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_ELF_HEADERS_H
#define _KERNEL_UNWIND_ELF_HEADERS_H

#include <linux/elf.h>
#include <linux/types.h>

struct file;

/* How many program headers are read at a time */
#define UNWIND_ELF_PHDRS_CHUNK	8

/**
 * struct unwind_elf - An ELF file whose headers are read
 * @file:	The file, if its start is not mapped, else NULL
 * @base:	Where its start is mapped
 * @size:	How many bytes of it are mapped there
 * @phoff:	Offset of the program headers
 * @phnum:	Number of program headers
 * @first:	Number of the first program header in @phdrs
 * @nr:		Number of program headers in @phdrs
 * @phdrs:	Some of the program headers
 */
struct unwind_elf {
	struct file		*file;
	unsigned long		base;
	unsigned long		size;
	u64			phoff;
	u32			phnum;
	u32			first;
	u32			nr;
	struct elf64_phdr	phdrs[UNWIND_ELF_PHDRS_CHUNK];
};

/**
 * struct unwind_elf_layout - What a file's headers say about a mapping of its text
 * @has_text:	The headers say for which address the text was linked
 * @load_base:	If @has_text, where the file's address 0 would be mapped
 * @sframe_base: Where the section should be mapped
 * @sframe_off:	Its offset in the file
 * @sframe_size: Its length in bytes; 0 if there is no section or it cannot be used
 */
struct unwind_elf_layout {
	bool			has_text;
	unsigned long		load_base;
	unsigned long		sframe_base;
	u64			sframe_off;
	u32			sframe_size;
};

/* Linkers make one executable segment, in rare cases two. */
#define UNWIND_ELF_TEXTS	4

/**
 * struct unwind_elf_texts - For which addresses the code of a file was linked
 * @nr:		Number of @text; 0 if there are too many, or if the file has a section
 * @text:	Its executable segments
 * @text.start:	Offset of the first page in the file
 * @text.end:	Offset of the first byte after it
 * @text.vaddr:	Address of the first page
 */
struct unwind_elf_texts {
	u32			nr;
	struct {
		u64		start;
		u64		end;
		u64		vaddr;
	} text[UNWIND_ELF_TEXTS];
};

int unwind_elf_init(struct unwind_elf *elf);
int unwind_elf_find_sframe(struct unwind_elf *elf, unsigned long text, u64 off,
			   struct unwind_elf_layout *layout);
bool unwind_elf_load_base(const struct unwind_elf_texts *texts, unsigned long start, u64 off,
			  unsigned long *load_base);
int unwind_user_check_file(struct file *file, struct unwind_elf_texts *texts);

#endif /* _KERNEL_UNWIND_ELF_HEADERS_H */
