// SPDX-License-Identifier: GPL-2.0
/* Copies the CFI of a file for libdw: only those entries that were checked */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "util/sframe-cfi-decode.h"
#include "util/sframe-cfi-internal.h"

/**
 * struct sframe_image - An ELF file with one section with CFI
 * @ehdr:	ELF header
 * @shdrs:	Section headers
 * @names:	Section names
 * @data:	Contents of the section with CFI
 *
 * libdw does not get the file itself, because it would use more of the file. It
 * would use the table in .eh_frame_hdr, which may lead to any offset. For
 * .debug_frame it would read and decompress all debug sections.
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
 * Each entry stays where it is, because most addresses are relative. An entry that
 * libdw must not see becomes a CIE of a version that does not exist. libdw skips it.
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

int sframe_cfi__open_source(struct sframe_cfi *cfi, u8 which)
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
