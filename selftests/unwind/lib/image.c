// SPDX-License-Identifier: GPL-2.0
/* ELF images with code and a section for it: in files, and in memory. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include "../../kselftest.h"
#include "image.h"

#ifdef __x86_64__
#define IMAGE_PHDRS	8

/* Names and symbols for dlopen() and dlsym(): "code" is code_begin. */
struct image_dynamic {
	Elf64_Dyn	dyn[8];
};

struct image_symbols {
	char		strtab[16];
	Elf64_Sym	sym[2];
	Elf64_Word	hash[5];
};

static void image_dynamic_build(struct image *im, __u64 symbols_off)
{
	struct image_symbols *s = (void *)(im->bytes + symbols_off);
	struct image_dynamic *d = (void *)(im->bytes +
					   im->seg[SEG_DYNAMIC].off);
	__u64 at = im->seg[SEG_HEADERS].vaddr + symbols_off;
	Elf64_Dyn dyn[] = {
		{ DT_STRTAB, { at + offsetof(struct image_symbols, strtab) } },
		{ DT_SYMTAB, { at + offsetof(struct image_symbols, sym) } },
		{ DT_HASH, { at + offsetof(struct image_symbols, hash) } },
		{ DT_STRSZ, { sizeof(s->strtab) } },
		{ DT_SYMENT, { sizeof(s->sym[0]) } },
		{ DT_NULL, { 0 } },
	};

	memcpy(d->dyn, dyn, sizeof(dyn));
	memcpy(s->strtab + 1, "code", sizeof("code"));
	s->sym[1] = (Elf64_Sym) {
		.st_name = 1,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = 1,
		.st_value = im->seg[SEG_TEXT].vaddr,
		.st_size = code_size(),
	};
	/* One bucket with one symbol. */
	s->hash[0] = 1;
	s->hash[1] = 2;
	s->hash[2] = 1;
}

static void image_program(struct image *im, const struct image_opts *o)
{
	__u64 *offs = (void *)(im->text + (code_program - code_begin));
	__u64 *nr = (void *)(im->text + (code_program_nr - code_begin));
	__u64 *interp = (void *)(im->text +
				 (code_program_interpreter - code_begin));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(o->program) && o->program[i]; i++)
		offs[i] = o->program[i] - code_begin;
	*nr = o->program_nr;
	*interp = o->is_interpreter;
}

void image_free(struct image *im)
{
	free(im->bytes);
	memset(im, 0, sizeof(*im));
}

/*
 * Make an image: ELF headers, text, section, dynamic section, each of them in a
 * segment of its own.  Returns 0, or -1 when out of memory.
 */
int image_build(struct image *im, const struct image_opts *o)
{
	const __u64 symbols_off = sizeof(Elf64_Ehdr) +
				  IMAGE_PHDRS * sizeof(Elf64_Phdr);
	const __u64 interp_off = symbols_off + sizeof(struct image_symbols);
	__u64 lens[SEG_NR] = {
		[SEG_HEADERS]	= IMAGE_PAGE,
		[SEG_TEXT]	= code_size(),
		[SEG_SFRAME]	= IMAGE_SFRAME + SFRAME_MAX_SIZE,
		[SEG_DYNAMIC]	= sizeof(struct image_dynamic),
	};
	static const int prots[SEG_NR] = {
		[SEG_HEADERS]	= PROT_READ,
		[SEG_TEXT]	= PROT_READ | PROT_EXEC,
		[SEG_SFRAME]	= PROT_READ,
		[SEG_DYNAMIC]	= PROT_READ | PROT_WRITE,
	};
	__u64 off = 0, vaddr = o->vaddr;
	unsigned int i, n = 0;

	memset(im, 0, sizeof(*im));
	im->vaddr = vaddr;
	for (i = 0; i < SEG_NR; i++) {
		im->seg[i].off = off;
		im->seg[i].vaddr = vaddr;
		im->seg[i].len = lens[i];
		im->seg[i].prot = prots[i];
		off += image_round(lens[i]);
		vaddr += image_round(lens[i]);
		im->span = vaddr - im->vaddr;
		vaddr += o->gap * IMAGE_PAGE;
	}
	im->size = off;
	im->bytes = calloc(1, im->size);
	if (!im->bytes)
		return -1;
	im->ehdr = (void *)im->bytes;
	im->phdr = (void *)(im->bytes + sizeof(Elf64_Ehdr));
	im->text = im->bytes + im->seg[SEG_TEXT].off;
	im->sframe = im->bytes + im->seg[SEG_SFRAME].off + IMAGE_SFRAME;

	memcpy(im->text, code_begin, code_size());
	memcpy(im->text + (code_handler_next - code_begin), &o->handler_next,
	       sizeof(o->handler_next));
	image_program(im, o);
	image_dynamic_build(im, symbols_off);
	*im->ehdr = (Elf64_Ehdr) {
		.e_ident = {
			ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
			ELFDATA2LSB, EV_CURRENT,
		},
		.e_type		= o->kind == IMAGE_EXEC ? ET_EXEC : ET_DYN,
		.e_machine	= EM_X86_64,
		.e_version	= EV_CURRENT,
		.e_entry	= im->seg[SEG_TEXT].vaddr +
				  (code_start - code_begin),
		.e_phoff	= sizeof(Elf64_Ehdr),
		.e_ehsize	= sizeof(Elf64_Ehdr),
		.e_phentsize	= sizeof(Elf64_Phdr),
	};
	if (o->interpreter) {
		memcpy(im->bytes + interp_off, o->interpreter,
		       strlen(o->interpreter) + 1);
		im->phdr[n++] = (Elf64_Phdr) {
			.p_type		= PT_INTERP,
			.p_flags	= PF_R,
			.p_offset	= interp_off,
			.p_vaddr	= im->vaddr + interp_off,
			.p_filesz	= strlen(o->interpreter) + 1,
			.p_memsz	= strlen(o->interpreter) + 1,
			.p_align	= 1,
		};
	}
	for (i = 0; i < SEG_NR; i++) {
		int prot = im->seg[i].prot;

		im->phdr[n++] = (Elf64_Phdr) {
			.p_type		= PT_LOAD,
			.p_flags	= (prot & PROT_READ ? PF_R : 0) |
					  (prot & PROT_WRITE ? PF_W : 0) |
					  (prot & PROT_EXEC ? PF_X : 0),
			.p_offset	= im->seg[i].off,
			.p_vaddr	= im->seg[i].vaddr,
			.p_paddr	= im->seg[i].vaddr,
			.p_filesz	= im->seg[i].len,
			.p_memsz	= im->seg[i].len,
			.p_align	= IMAGE_PAGE,
		};
	}
	/* Programs made here need neither relocation nor libraries. */
	if (!o->program[0]) {
		im->phdr[n++] = (Elf64_Phdr) {
			.p_type		= PT_DYNAMIC,
			.p_flags	= PF_R | PF_W,
			.p_offset	= im->seg[SEG_DYNAMIC].off,
			.p_vaddr	= im->seg[SEG_DYNAMIC].vaddr,
			.p_filesz	= im->seg[SEG_DYNAMIC].len,
			.p_memsz	= im->seg[SEG_DYNAMIC].len,
			.p_align	= sizeof(long),
		};
	}
	im->phdr[n++] = (Elf64_Phdr) {
		.p_type		= PT_GNU_STACK,
		.p_flags	= PF_R | PF_W,
	};
	if (!o->no_sframe) {
		__u64 at = im->seg[SEG_SFRAME].vaddr + IMAGE_SFRAME;

		im->sframe_len = sframe_build(im->sframe, &o->sframe, at,
					      im->seg[SEG_TEXT].vaddr);
		im->sframe_phdr = &im->phdr[n++];
		*im->sframe_phdr = (Elf64_Phdr) {
			.p_type		= SFRAME_PT,
			.p_flags	= PF_R,
			.p_offset	= im->seg[SEG_SFRAME].off +
					  IMAGE_SFRAME,
			.p_vaddr	= at,
			.p_paddr	= at,
			.p_filesz	= im->sframe_len,
			.p_memsz	= im->sframe_len,
			.p_align	= sizeof(long),
		};
	}
	im->ehdr->e_phnum = n;
	return 0;
}

static int image_write(const struct image *im, int fd)
{
	return pwrite(fd, im->bytes, im->size, 0) == (ssize_t)im->size ? 0 : -1;
}

/* A file with the image: of that name, or in memory if it is NULL. */
int image_file(const struct image *im, const char *path)
{
	int fd;

	if (path)
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	else
		fd = memfd_create("image", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if (image_write(im, fd)) {
		close(fd);
		return -1;
	}
	return fd;
}

int make_file(const struct image *im, const char *path)
{
	int fd, ro;

	fd = image_file(im, path);
	if (fd < 0 || !path)
		return fd;
	/* A file that is open for writing cannot be executed. */
	ro = open(path, O_RDONLY | O_CLOEXEC);
	close(fd);
	return ro;
}

struct image_map image_map_at(const struct image *im, unsigned long base)
{
	return (struct image_map) {
		.base = base,
		.text = base + im->seg[SEG_TEXT].vaddr - im->vaddr,
		.span = im->span,
	};
}

unsigned long image_seg_addr(const struct image *im, const struct image_map *m,
			     enum image_seg seg)
{
	return m->base + im->seg[seg].vaddr - im->vaddr;
}

/*
 * Map an image as the dynamic linker does, anywhere (addr 0) or in place of what
 * is there.  Returns 0 or -1.
 */
int image_map(struct image_map *m, const struct image *im, int fd,
	      unsigned long addr)
{
	unsigned int i;
	void *p;

	p = mmap((void *)addr, im->span, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | (addr ? MAP_FIXED : 0), -1, 0);
	if (p == MAP_FAILED)
		return -1;
	*m = image_map_at(im, (unsigned long)p);
	for (i = 0; i < SEG_NR; i++) {
		p = (void *)image_seg_addr(im, m, i);
		if (mmap(p, im->seg[i].len, im->seg[i].prot,
			 MAP_PRIVATE | MAP_FIXED, fd, im->seg[i].off) != p)
			return -1;
	}
	return 0;
}

void image_unmap(struct image_map *m)
{
	if (m->base)
		munmap((void *)m->base, m->span);
	memset(m, 0, sizeof(*m));
}
#endif /* __x86_64__ */
