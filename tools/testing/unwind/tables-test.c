// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's reader on tables that "perf sframe" made, compared with libdw: does
 * each address of a program lead to the same calling frame?
 *
 *	tables-test PERCENT FILE TABLE...
 *
 * The test executes libdw's expressions instead of comparing their text, see
 * tools/perf/util/sframe-eval.c. The table must cover at least PERCENT of the bytes
 * that libdw describes. Otherwise, an empty table would pass.
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <elfutils/libdw.h>

#include <linux/compiler.h>
#include <linux/unwind_user_rule.h>

#include "../../perf/util/sframe-eval.h"
#include "rules.h"
#include "sframe.h"

#define AMD64_FP	6
#define AMD64_SP	7

/* How many differences of a file are shown. */
#define SHOWN		10

/**
 * struct program - A file and its table
 * @fd:		The file
 * @elf:	The file
 * @dwarf:	For .debug_frame
 * @cfi:	Its call frame information: .eh_frame, .debug_frame
 * @sec:	Its table
 */
struct program {
	int			fd;
	Elf			*elf;
	Dwarf			*dwarf;
	Dwarf_CFI		*cfi[2];
	struct sframe_section	sec;
};

/**
 * struct result - Bytes of code
 * @described:	libdw has a rule
 * @same:	The table leads to the same frame
 * @signal:	Both say that this is a signal frame, which the kernel knows
 * @missing:	The table has no rule
 * @different:	The table leads to another frame, or its rule cannot be read
 * @extra:	Only the table has a rule
 * @shown:	Lines that were printed
 */
struct result {
	uint64_t	described;
	uint64_t	same;
	uint64_t	signal;
	uint64_t	missing;
	uint64_t	different;
	uint64_t	extra;
	unsigned int	shown;
};

static void __noreturn die(const char *name, const char *what)
{
	printf("Bail out! %s: %s\n", name, what);
	exit(1);
}

/* Allocates exactly the size of the table, so that the sanitizers know its bounds. */
static void read_table(struct program *program, const char *name)
{
	FILE *file = fopen(name, "rb");
	long size;
	void *buf;

	if (!file || fseek(file, 0, SEEK_END))
		die(name, strerror(errno));
	size = ftell(file);
	buf = size > 0 ? malloc(size) : NULL;
	if (!buf || fseek(file, 0, SEEK_SET) || fread(buf, size, 1, file) != 1)
		die(name, "cannot be read");
	fclose(file);

	/* As if the table lay at the address 0 of the file. */
	program->sec = (struct sframe_section) { .data = buf, .size = size, };
	if (sframe_section_init(&program->sec))
		die(name, "is not a table for the kernel");
}

static void open_program(struct program *program, const char *name)
{
	program->fd = open(name, O_RDONLY);
	if (program->fd < 0)
		die(name, strerror(errno));

	elf_version(EV_CURRENT);
	program->elf = elf_begin(program->fd, ELF_C_READ, NULL);
	if (!program->elf)
		die(name, "not an ELF file");

	program->cfi[0] = dwarf_getcfi_elf(program->elf);
	program->dwarf = dwarf_begin_elf(program->elf, DWARF_C_READ, NULL);
	if (program->dwarf)
		program->cfi[1] = dwarf_getcfi(program->dwarf);
	if (!program->cfi[0] && !program->cfi[1])
		die(name, "no call frame information");
}

static void close_program(struct program *program)
{
	/* dwarf_end() frees the CFI of .debug_frame. */
	if (program->cfi[0])
		dwarf_cfi_end(program->cfi[0]);
	dwarf_end(program->dwarf);
	elf_end(program->elf);
	close(program->fd);
	free((void *)program->sec.data);
}

static uint64_t locate_at(const struct unwind_user_loc *loc, uint64_t cfa, uint64_t same,
			  uint64_t index)
{
	uint64_t value = cfa;

	switch (loc->base) {
	case UNWIND_USER_BASE_SAME:
		return same;
	case UNWIND_USER_BASE_SP:
		value = sframe_eval__reg(AMD64_SP);
		break;
	case UNWIND_USER_BASE_FP:
		value = sframe_eval__reg(AMD64_FP);
		break;
	case UNWIND_USER_BASE_REG:
		value = sframe_eval__reg(loc->reg);
		break;
	default:
		break;
	}
	value += loc->off + index;

	return loc->deref ? sframe_eval__load(value) : value;
}

static uint64_t locate(const struct unwind_user_loc *loc, uint64_t cfa, uint64_t same)
{
	return locate_at(loc, cfa, same, 0);
}

static bool leads_to(const struct unwind_user_rule *rule, const struct sframe_frame *frame)
{
	uint64_t cfa, index = 0;

	if (rule->outermost || frame->outermost)
		return rule->outermost && frame->outermost;

	if (rule->cfa_index)
		index = sframe_eval__reg(rule->cfa_index - 1) * 8;
	cfa = locate_at(&rule->cfa, 0, 0, index) + rule->cfa_add;

	return cfa == frame->cfa && cfa == frame->sp &&
	       locate(&rule->ra, cfa, 0) == frame->ra &&
	       frame->fp_known == (rule->fp.base != UNWIND_USER_BASE_NONE) &&
	       (!frame->fp_known ||
		locate(&rule->fp, cfa, sframe_eval__reg(AMD64_FP)) == frame->fp);
}

static void show(struct result *result, uint64_t addr, const char *what, int ret,
		 const struct unwind_user_rule *rule)
{
	if (result->shown++ < SHOWN)
		printf("# %#" PRIx64 " %s: %s\n", addr, what,
		       ret ? strerror(-ret) : show_rule(rule));
}

static Dwarf_Frame *find_frame(const struct program *program, uint64_t addr,
			       uint64_t *end, bool *signal)
{
	Dwarf_Frame *frame;
	Dwarf_Addr stop;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (!program->cfi[i] ||
		    dwarf_cfi_addrframe(program->cfi[i], addr, &frame))
			continue;
		if (dwarf_frame_info(frame, NULL, &stop, signal) >= 0 && stop > addr) {
			if (stop < *end)
				*end = stop;
			return frame;
		}
		free(frame);
	}

	/* libdw does not say where the next rule starts. */
	*end = addr + 1;
	return NULL;
}

static void compare_address(const struct program *program, uint64_t addr, bool described,
			    bool known, bool signal, const struct sframe_frame *frame,
			    struct result *result)
{
	struct unwind_user_rule rule = { };
	int ret = sframe_find_rule(&program->sec, addr, &rule);

	if (!described) {
		if (ret != -ENOENT) {
			result->extra++;
			show(result, addr, "extra", ret, &rule);
		}
		return;
	}

	result->described++;
	if (ret == -ENOENT) {
		result->missing++;
	} else if (ret == -ENODATA && signal) {
		result->signal++;
	} else if (!ret && known && rule.signal == signal && leads_to(&rule, frame)) {
		result->same++;
	} else {
		result->different++;
		show(result, addr, "different", ret, &rule);
	}
}

static void compare_segment(const struct program *program, uint64_t start, uint64_t end,
			    struct result *result)
{
	struct sframe_frame frame = { };
	Dwarf_Frame *said;
	uint64_t addr, stop;
	bool signal, each, known;

	for (addr = start; addr < end; ) {
		stop = end;
		signal = false;
		known = false;
		each = false;
		said = find_frame(program, addr, &stop, &signal);
		if (said)
			each = sframe_eval__depends_on_ip(said);

		for (; addr < stop; addr++) {
			if (said && (each || !known))
				known = sframe_eval__frame(said, addr, &frame);
			compare_address(program, addr, said, known, signal, &frame, result);
		}
		free(said);
	}
}

static bool compare(unsigned int number, double percent, const char *name,
		    const char *table)
{
	struct program program = { };
	struct result result = { };
	GElf_Phdr phdr;
	double covered;
	size_t i, nr;
	bool ok;

	open_program(&program, name);
	read_table(&program, table);

	if (elf_getphdrnum(program.elf, &nr))
		die(name, "no program headers");
	for (i = 0; i < nr; i++) {
		if (gelf_getphdr(program.elf, i, &phdr) && phdr.p_type == PT_LOAD &&
		    (phdr.p_flags & PF_X))
			compare_segment(&program, phdr.p_vaddr,
					phdr.p_vaddr + phdr.p_filesz, &result);
	}

	covered = result.described ?
		  100.0 * (result.same + result.signal) / result.described : 0;
	ok = covered >= percent && !result.different && !result.extra;
	printf("%s %u %s: %" PRIu64 " bytes described, %.3f %% same, signal %" PRIu64
	       ", missing %" PRIu64 ", different %" PRIu64 ", extra %" PRIu64 "\n",
	       ok ? "ok" : "not ok", number, name, result.described, covered,
	       result.signal, result.missing, result.different, result.extra);

	close_program(&program);
	return ok;
}

int main(int argc, char **argv)
{
	bool ok = true;
	double percent;
	char *end;
	int i;

	if (argc < 4 || argc % 2) {
		fprintf(stderr, "Usage: %s PERCENT FILE TABLE...\n", argv[0]);
		return 2;
	}
	percent = strtod(argv[1], &end);
	if (end == argv[1] || *end)
		die(argv[1], "not a number");

	printf("TAP version 13\n1..%d\n", argc / 2 - 1);
	for (i = 2; i < argc; i += 2)
		ok &= compare(i / 2, percent, argv[i], argv[i + 1]);

	return !ok;
}
