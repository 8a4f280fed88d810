// SPDX-License-Identifier: GPL-2.0
/*
 * Headers of mapped ELF files: find the SFrame section
 */
#include <linux/array_size.h>
#include <linux/elf.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/processor.h>
#include <linux/secretmem.h>
#include <linux/string.h>
#include <linux/unwind_user.h>

#include "elf_headers.h"
#include "sframe.h"

/* Type of the program header that locates the SFrame section */
#define PT_GNU_SFRAME		0x6474e554

/* Linkers make about a dozen program headers. */
#define UNWIND_ELF_PHDRS_MAX	256

/*
 * Dynamic linkers map the headers next to the code. If they are mapped, they are
 * read like any memory of the task, see unwind_user_read().
 *
 * Otherwise the file is read through the page cache. Security modules and fanotify
 * are not asked for permission, because they were asked when the file was mapped.
 */
static bool unwind_elf_read(const struct unwind_elf *elf, u64 off, void *buf,
			    u32 size)
{
	loff_t pos = off;

	if (elf->file) {
		if (off > MAX_LFS_FILESIZE - size)
			return false;
		return __kernel_read(elf->file, buf, size, &pos) == size;
	}

	if (off > elf->size || size > elf->size - off)
		return false;

	return unwind_user_read(elf->base + off, buf, size);
}

/* May the file be read without a mapping of its headers? */
static bool unwind_elf_readable(const struct file *file)
{
	if (!(file->f_mode & FMODE_READ) || !file->f_op->read_iter ||
	    file->f_op->read)
		return false;

	/* Direct I/O has its own rules for sizes. */
	if (file->f_flags & O_DIRECT)
		return false;

	/*
	 * A FUSE server may be waiting for this task. Then nothing could kill the task.
	 */
	if (file_inode(file)->i_sb->s_magic == FUSE_SUPER_MAGIC)
		return false;

	return !secretmem_mapping(file->f_mapping);
}

/**
 * unwind_elf_init - Read the ELF header of a file
 * @elf:	The file, or where its start is mapped. Receives the other fields
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held. Sleeps.
 * Return: 0, -ENOEXEC if the file has no usable headers, -EIO if a read failed.
 */
int unwind_elf_init(struct unwind_elf *elf)
{
	struct elf64_hdr ehdr;
	u64 end;

	if (elf->file && !unwind_elf_readable(elf->file))
		return -ENOEXEC;

	if (!unwind_elf_read(elf, 0, &ehdr, sizeof(ehdr)))
		return -EIO;

	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) ||
	    ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN) ||
	    ehdr.e_machine != ELF_ARCH ||
	    ehdr.e_phentsize != sizeof(struct elf64_phdr) ||
	    ehdr.e_phnum > UNWIND_ELF_PHDRS_MAX)
		return -ENOEXEC;

	if (check_add_overflow(ehdr.e_phoff, (u64)ehdr.e_phnum *
			       sizeof(struct elf64_phdr), &end))
		return -ENOEXEC;

	elf->phoff = ehdr.e_phoff;
	elf->phnum = ehdr.e_phnum;
	elf->first = 0;
	elf->nr = 0;

	return 0;
}

/* Get program header @i. It is valid until the next call. */
static const struct elf64_phdr *unwind_elf_phdr(struct unwind_elf *elf, u32 i)
{
	u64 off = elf->phoff + (u64)i * sizeof(struct elf64_phdr);
	u32 nr;

	if (i < elf->first || i - elf->first >= elf->nr) {
		nr = min(elf->phnum - i, (u32)UNWIND_ELF_PHDRS_CHUNK);
		elf->nr = 0;
		if (!unwind_elf_read(elf, off, elf->phdrs, nr * sizeof(*elf->phdrs)))
			return NULL;
		elf->first = i;
		elf->nr = nr;
	}

	return &elf->phdrs[i - elf->first];
}

/* If @phdr is a usable executable segment, get its file offsets. */
static bool unwind_elf_is_text(const struct elf64_phdr *phdr, u64 *start, u64 *end)
{
	if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X))
		return false;

	if (phdr->p_vaddr >= TASK_SIZE_MAX ||
	    offset_in_page(phdr->p_vaddr) != offset_in_page(phdr->p_offset) ||
	    check_add_overflow(phdr->p_offset, phdr->p_filesz, end))
		return false;

	*start = round_down(phdr->p_offset, PAGE_SIZE);
	return true;
}

/*
 * If the executable segment whose pages begin at @start contains the page at file offset @off,
 * get the address that the page was linked for. @first is that of the first page.
 */
static bool unwind_elf_page_vaddr(u64 start, u64 end, u64 first, u64 off, u64 *vaddr)
{
	if (off < start || off >= end || off - start >= TASK_SIZE_MAX)
		return false;

	*vaddr = first + (off - start);
	return true;
}

static bool unwind_elf_text_vaddr(const struct elf64_phdr *phdr, u64 off,
				  u64 *vaddr)
{
	u64 start, end;

	return unwind_elf_is_text(phdr, &start, &end) &&
	       unwind_elf_page_vaddr(start, end, round_down(phdr->p_vaddr, PAGE_SIZE), off,
				     vaddr);
}

/*
 * If readable segment @phdr contains [@vaddr, @vaddr + @size), get its file offset.
 */
static bool unwind_elf_data_off(const struct elf64_phdr *phdr, u64 vaddr,
				u64 size, u64 *off)
{
	if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_R))
		return false;

	if (vaddr < phdr->p_vaddr || vaddr - phdr->p_vaddr > phdr->p_filesz ||
	    size > phdr->p_filesz - (vaddr - phdr->p_vaddr))
		return false;

	return !check_add_overflow(phdr->p_offset, vaddr - phdr->p_vaddr, off);
}

/**
 * unwind_elf_find_sframe - Find the SFrame section of a file
 * @elf:	The file, after unwind_elf_init()
 * @text:	Where some of its text is mapped
 * @off:	File offset of what is mapped at @text
 * @layout:	Receives where the section should be mapped if the text is mapped at
 *		@text, and where it is in the file. The caller has cleared it.
 *
 * Context: As unwind_elf_init().
 * Return: 0 with base, size and offset of the section filled in, -ENOENT if there is
 *	   no section, -EINVAL or -EIO if the headers are not valid or not readable.
 *	   If all headers could be read and the one of the text is valid, the load base
 *	   is filled in even on an error.
 */
int unwind_elf_find_sframe(struct unwind_elf *elf, unsigned long text, u64 off,
			   struct unwind_elf_layout *layout)
{
	u64 text_vaddr = 0, sframe_vaddr = 0, size = 0;
	const struct elf64_phdr *phdr;
	bool has_text = false;
	bool has_sframe = false;
	s64 base;
	u32 i;

	for (i = 0; i < elf->phnum; i++) {
		phdr = unwind_elf_phdr(elf, i);
		if (!phdr)
			return -EIO;

		if (!has_text)
			has_text = unwind_elf_text_vaddr(phdr, off, &text_vaddr);

		if (!has_sframe && phdr->p_type == PT_GNU_SFRAME) {
			sframe_vaddr = phdr->p_vaddr;
			size = phdr->p_memsz;
			has_sframe = true;
		}
	}

	/*
	 * The load base wraps if the text is mapped below the address it was linked
	 * for.
	 */
	if (has_text) {
		layout->has_text = true;
		layout->load_base = text - text_vaddr;
	}

	/* Tools can remove the section's contents but keep the program header. */
	if (!has_sframe || !size)
		return -ENOENT;

	if (!has_text || size > SFRAME_SIZE_MAX || sframe_vaddr >= TASK_SIZE_MAX)
		return -EINVAL;

	for (i = 0; i < elf->phnum; i++) {
		phdr = unwind_elf_phdr(elf, i);
		if (!phdr)
			return -EIO;

		if (unwind_elf_data_off(phdr, sframe_vaddr, size, &layout->sframe_off))
			break;
	}
	if (i == elf->phnum)
		return -EINVAL;

	/* No overflow: all values are far below the limits of 64 bits. */
	base = (s64)text + ((s64)sframe_vaddr - (s64)text_vaddr);
	if (base < 0 || base > (s64)(TASK_SIZE_MAX - size))
		return -EINVAL;

	layout->sframe_base = base;
	layout->sframe_size = size;

	return 0;
}

/* Find out for which addresses the code of @elf was linked. */
static void unwind_elf_find_texts(struct unwind_elf *elf, struct unwind_elf_texts *texts)
{
	const struct elf64_phdr *phdr;
	u64 start, end;
	u32 i;

	for (i = 0; i < elf->phnum; i++) {
		phdr = unwind_elf_phdr(elf, i);
		/* With a section, the walk in task context has to look at the file. */
		if (!phdr || (phdr->p_type == PT_GNU_SFRAME && phdr->p_memsz))
			goto none;

		if (!unwind_elf_is_text(phdr, &start, &end))
			continue;
		if (texts->nr == ARRAY_SIZE(texts->text))
			goto none;

		texts->text[texts->nr].start = start;
		texts->text[texts->nr].end = end;
		texts->text[texts->nr].vaddr = round_down(phdr->p_vaddr, PAGE_SIZE);
		texts->nr++;
	}

	return;
none:
	texts->nr = 0;
}

/**
 * unwind_elf_load_base - Where is address 0 of a file that is mapped?
 * @texts:	From unwind_user_check_file()
 * @start:	Where some of the file's code is mapped
 * @off:	Offset in the file of what is mapped at @start
 * @load_base:	Receives the address, as &unwind_elf_layout.load_base
 *
 * Context: Any.
 * Return: false if the file's headers do not say it, or if it may have a section.
 */
bool unwind_elf_load_base(const struct unwind_elf_texts *texts, unsigned long start, u64 off,
			  unsigned long *load_base)
{
	u64 vaddr;
	u32 i;

	for (i = 0; i < texts->nr; i++) {
		if (unwind_elf_page_vaddr(texts->text[i].start, texts->text[i].end,
					  texts->text[i].vaddr, off, &vaddr)) {
			*load_base = start - vaddr;
			return true;
		}
	}

	return false;
}

/**
 * unwind_user_check_file - Can walks use a table for this file?
 * @file:	The file
 * @texts:	Receives for which addresses the code was linked, as the file says
 *
 * Context: As unwind_user_region_find().
 * Return: 0, or -ENOEXEC if the file cannot be read or is not an ELF file of a
 *	   supported kind.
 */
int unwind_user_check_file(struct file *file, struct unwind_elf_texts *texts)
{
	struct unwind_elf elf = { .file = file };

	*texts = (struct unwind_elf_texts) { };

	if (unwind_elf_init(&elf))
		return -ENOEXEC;

	unwind_elf_find_texts(&elf, texts);
	return 0;
}
