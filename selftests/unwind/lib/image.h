/* SPDX-License-Identifier: GPL-2.0 */
/* ELF images with code and a section for it: in files, and in memory. */
#ifndef SELFTESTS_UNWIND_IMAGE_H
#define SELFTESTS_UNWIND_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "sframe_code.h"
#include "sframe_section.h"

#ifdef __x86_64__
#define IMAGE_PAGE	4096UL
/* The section does not start where the page does. */
#define IMAGE_SFRAME	0x28
/* Where programs with fixed addresses are. */
#define PROGRAM_ADDR	0x7000000000UL

enum image_seg {
	SEG_HEADERS,
	SEG_TEXT,
	SEG_SFRAME,
	SEG_DYNAMIC,
	SEG_NR,
};

enum image_kind {
	/* A shared library, or a program that is position independent. */
	IMAGE_DYN,
	/* A program with fixed addresses, which begin at image_opts::vaddr. */
	IMAGE_EXEC,
};

struct image_opts {
	struct sframe_opts	sframe;
	enum image_kind		kind;
	__u64			vaddr;
	/* Pages between segments in memory that are not in the file. */
	unsigned int		gap;
	/* Has neither section nor program header for it. */
	bool			no_sframe;
	/* For programs: what to call, ended by NULL, and code_leaf's call. */
	const char		*program[8];
	__u64			program_nr;
	bool			is_interpreter;
	const char		*interpreter;
	/* For code_handler; see code_handler_next. */
	struct code_ctx		**handler_next;
};

struct image {
	unsigned char	*bytes;
	size_t		size;
	/* Of each segment: place in the file, in memory, length, protection. */
	struct {
		__u64	off;
		__u64	vaddr;
		__u64	len;
		int	prot;
	} seg[SEG_NR];
	/* Addresses in memory from the first segment's on. */
	__u64		vaddr;
	__u64		span;
	size_t		sframe_len;
	Elf64_Ehdr	*ehdr;
	Elf64_Phdr	*phdr;
	/* Program header of the section, NULL if there is none. */
	Elf64_Phdr	*sframe_phdr;
	unsigned char	*sframe;
	unsigned char	*text;
};

struct image_map {
	/* Where the first segment and where code_begin are. */
	unsigned long	base;
	unsigned long	text;
	unsigned long	span;
};

static inline __u64 image_round(__u64 len)
{
	return (len + IMAGE_PAGE - 1) & -IMAGE_PAGE;
}

/* Where a label of sframe_code.h is. */
static inline unsigned long
image_addr(const struct image_map *m, const char *label)
{
	return m->text + (label - code_begin);
}

/* Make an image, each part of it in a segment of its own.  0, or -1. */
int image_build(struct image *im, const struct image_opts *o);

/* Free the bytes of an image. */
void image_free(struct image *im);

/* A file with the image: of that name, or in memory if it is NULL.  Or -1. */
int image_file(const struct image *im, const char *path);

/* The same, open for reading only, so that it can be executed. */
int make_file(const struct image *im, const char *path);

/* Where an image is that was mapped at base. */
struct image_map image_map_at(const struct image *im, unsigned long base);

/* Where a segment of it is. */
unsigned long image_seg_addr(const struct image *im, const struct image_map *m,
			     enum image_seg seg);

/* Map an image as the dynamic linker does, anywhere with addr 0.  0, or -1. */
int image_map(struct image_map *m, const struct image *im, int fd,
	      unsigned long addr);

/* Unmap it, if it is mapped. */
void image_unmap(struct image_map *m);
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_IMAGE_H */
