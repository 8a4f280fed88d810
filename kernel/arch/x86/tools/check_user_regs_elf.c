// SPDX-License-Identifier: GPL-2.0
/*
 * check_user_regs: vmlinux, its sections, symbols, alternatives and hints
 */

#include <endian.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "check_user_regs.h"

#define ALT_NOT_	1

struct hint {
	unsigned long long ip;
	unsigned int where;
};

const char * const hint_names[] = {
	"UNKNOWN", "KERNEL", "EXIT", "IRET", "IDT", "IDT_PUSH", "SYSCALL",
	"SYSCALL_SP2", "SYSCALL_PUSH", "SYSCALL32", "SYSCALL32_R8", "SYSCALL32_PUSH",
	"SYSENTER", "SYSENTER_PUSH"
};

struct section *sections;
int nr_sections;
struct symbol *symbols;
int nr_symbols;
struct alt *alts;
int nr_alts;
static struct hint *hints;
static int nr_hints;
struct section *repl;
unsigned long long entry_start, entry_end;

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "check_user_regs: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

void *alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		die("no memory");
	return p;
}

static unsigned int get16(const void *p)
{
	unsigned short v;

	memcpy(&v, p, 2);
	return le16toh(v);
}

unsigned int get32(const void *p)
{
	unsigned int v;

	memcpy(&v, p, 4);
	return le32toh(v);
}

static unsigned long long get64(const void *p)
{
	unsigned long long v;

	memcpy(&v, p, 8);
	return le64toh(v);
}

/* Symbols, hints, and messages */

unsigned long long symbol_addr(const char *name, bool must)
{
	int i;

	for (i = 0; i < nr_symbols; i++) {
		if (!strcmp(symbols[i].name, name))
			return symbols[i].addr;
	}
	if (must)
		die("no symbol %s", name);
	return 0;
}

const struct symbol *symbol_at(unsigned long long ip)
{
	int low = 0, high = nr_symbols;

	while (low < high) {
		int mid = (low + high) / 2;

		if (symbols[mid].addr <= ip)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &symbols[low - 1] : NULL;
}

const char *place(unsigned long long ip)
{
	static char buf[4][128];
	static int next;
	const struct symbol *sym;
	char *b = buf[next++ & 3];
	int i;

	for (i = 0; i < nr_alts; i++) {
		if (ip >= alts[i].repl && ip < alts[i].repl + alts[i].repl_len) {
			sym = symbol_at(alts[i].ip);
			snprintf(b, sizeof(buf[0]), "%s+0x%llx (alternative, +0x%llx)",
				 sym ? sym->name : "?", sym ? alts[i].ip - sym->addr : 0,
				 ip - alts[i].repl);
			return b;
		}
	}
	sym = symbol_at(ip);
	snprintf(b, sizeof(buf[0]), "%s+0x%llx", sym ? sym->name : "?",
		 sym ? ip - sym->addr : ip);
	return b;
}

bool in_entry(unsigned long long ip)
{
	return ip >= entry_start && ip < entry_end;
}

const struct alt *alt_of_repl(unsigned long long ip)
{
	int i;

	for (i = 0; i < nr_alts; i++) {
		if (ip >= alts[i].repl && ip < alts[i].repl + alts[i].repl_len)
			return &alts[i];
	}
	return NULL;
}

unsigned int where_of(unsigned long long ip)
{
	const struct alt *alt;
	int i;

	if (!in_entry(ip)) {
		alt = alt_of_repl(ip);
		if (!alt || !in_entry(alt->ip))
			return USER_REGS_KERNEL;
		ip = alt->ip;
	}
	for (i = nr_hints - 1; i >= 0; i--) {
		if (hints[i].ip <= ip)
			return hints[i].where;
	}
	return USER_REGS_UNKNOWN;
}

bool checked(unsigned int where)
{
	return where != USER_REGS_UNKNOWN && where != USER_REGS_KERNEL;
}

bool in_repl(unsigned long long ip)
{
	return repl && ip >= repl->addr && ip < repl->addr + repl->size;
}

unsigned char *bytes_at(unsigned long long ip, unsigned long long *left)
{
	int i;

	for (i = 0; i < nr_sections; i++) {
		if (sections[i].exec && ip >= sections[i].addr &&
		    ip < sections[i].addr + sections[i].size) {
			*left = sections[i].addr + sections[i].size - ip;
			return sections[i].data + (ip - sections[i].addr);
		}
	}
	return NULL;
}

/* ELF */

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* Labels in front of the function */
	return x->size < y->size ? -1 : x->size > y->size;
}

struct section *section(const char *name, bool must)
{
	int i;

	for (i = 0; i < nr_sections; i++) {
		if (!strcmp(sections[i].name, name))
			return &sections[i];
	}
	if (must)
		die("no section %s", name);
	return NULL;
}

static void read_symbols(const unsigned char *data, size_t size, const char *names)
{
	size_t i;

	symbols = alloc(size / sizeof(Elf64_Sym), sizeof(*symbols));
	for (i = 0; i < size / sizeof(Elf64_Sym); i++) {
		const unsigned char *sym = data + i * sizeof(Elf64_Sym);
		int type = ELF64_ST_TYPE(sym[offsetof(Elf64_Sym, st_info)]);
		const char *name = names + get32(sym + offsetof(Elf64_Sym, st_name));

		if (type > STT_FUNC || !*name || !get16(sym + offsetof(Elf64_Sym, st_shndx)))
			continue;
		symbols[nr_symbols].addr = get64(sym + offsetof(Elf64_Sym, st_value));
		symbols[nr_symbols].size = get64(sym + offsetof(Elf64_Sym, st_size));
		symbols[nr_symbols++].name = name;
	}
	qsort(symbols, nr_symbols, sizeof(*symbols), compare_symbols);
}

void read_elf(const char *file)
{
	unsigned char *elf, *shdrs;
	const char *names;
	struct stat st;
	int fd, i;

	fd = open(file, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		die("cannot open %s", file);
	elf = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (elf == MAP_FAILED)
		die("cannot read %s", file);
	close(fd);
	if (st.st_size < (long)sizeof(Elf64_Ehdr) || memcmp(elf, ELFMAG, SELFMAG) ||
	    elf[EI_CLASS] != ELFCLASS64)
		die("%s is not a 64-bit ELF file", file);

	shdrs = elf + get64(elf + offsetof(Elf64_Ehdr, e_shoff));
	nr_sections = get16(elf + offsetof(Elf64_Ehdr, e_shnum));
	sections = alloc(nr_sections, sizeof(*sections));
	i = get16(elf + offsetof(Elf64_Ehdr, e_shstrndx));
	names = (char *)elf + get64(shdrs + i * sizeof(Elf64_Shdr) +
				    offsetof(Elf64_Shdr, sh_offset));
	for (i = 0; i < nr_sections; i++) {
		unsigned char *sh = shdrs + i * sizeof(Elf64_Shdr);
		unsigned int type = get32(sh + offsetof(Elf64_Shdr, sh_type));
		struct section *sec = &sections[i];

		sec->name = names + get32(sh + offsetof(Elf64_Shdr, sh_name));
		sec->addr = get64(sh + offsetof(Elf64_Shdr, sh_addr));
		sec->size = type == SHT_NOBITS ? 0 : get64(sh + offsetof(Elf64_Shdr, sh_size));
		sec->data = elf + get64(sh + offsetof(Elf64_Shdr, sh_offset));
		sec->exec = get64(sh + offsetof(Elf64_Shdr, sh_flags)) & SHF_EXECINSTR;
		if (type == SHT_SYMTAB) {
			unsigned char *str = shdrs + get32(sh + offsetof(Elf64_Shdr, sh_link)) *
						     sizeof(Elf64_Shdr);

			read_symbols(sec->data, sec->size, (char *)elf +
				     get64(str + offsetof(Elf64_Shdr, sh_offset)));
		}
	}
	if (!nr_symbols)
		die("%s has no symbols", file);
}

void read_tables(void)
{
	const struct section *sec;
	unsigned long long i;

	/* struct alt_instr */
	sec = section(".altinstructions", true);
	alts = alloc(sec->size / 14, sizeof(*alts));
	for (i = 0; i + 14 <= sec->size; i += 14) {
		const unsigned char *p = sec->data + i;
		struct alt *alt = &alts[nr_alts];

		alt->ip = sec->addr + i + (int)get32(p);
		alt->repl = sec->addr + i + 4 + (int)get32(p + 4);
		alt->feature = get16(p + 8);
		alt->not = get16(p + 10) & ALT_NOT_;
		alt->len = p[12];
		alt->repl_len = p[13];
		/* Alternatives of other code do not matter. */
		if (in_entry(alt->ip))
			nr_alts++;
	}
	repl = section(".altinstr_replacement", false);

	sec = section(".user_regs_hints", true);
	hints = alloc(sec->size / 8, sizeof(*hints));
	for (i = 0; i + 8 <= sec->size; i += 8) {
		struct hint *hint = &hints[nr_hints];

		hint->ip = sec->addr + i + (int)get32(sec->data + i);
		hint->where = get32(sec->data + i + 4);
		if (hint->ip < entry_start || hint->ip > entry_end)
			die("hint %d is not in the entry text", nr_hints);
		if (hint->where >= sizeof(hint_names) / sizeof(hint_names[0]))
			die("hint %d: %u is not known", nr_hints, hint->where);
		if (nr_hints && hint->ip < hint[-1].ip)
			die("hint %d is not in the order of the text", nr_hints);
		nr_hints++;
	}
	if (!nr_hints)
		die("no hints");
}
