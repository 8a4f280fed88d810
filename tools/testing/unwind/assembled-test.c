// SPDX-License-Identifier: GPL-2.0
/*
 * The reader on sections that real assemblers and linkers wrote: the rule at each
 * byte of the functions in cases.S.
 *
 * The Makefile makes one shared library of it per toolchain. They are parsed here,
 * not loaded.
 */
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include "harness.h"

#include "environment.h"
#include "rules.h"
#include "sframe.h"

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME	(PT_LOOS + 0x474e554)
#endif

/* Results without a rule, coded as rules that do not exist. */
#define NO_RULE		{ .signal = true, .outermost = true }
#define ONLY_SIGNAL	{ .signal = true }

/* The rule from a label up to the next one in the table. */
static const struct expectation {
	const char *label;
	struct unwind_user_rule v2;
	struct unwind_user_rule v3;
} expectations[] = {
#define BOTH(label, ...)	{ #label, __VA_ARGS__, __VA_ARGS__ }
	/* pushq %rbp; movq %rsp, %rbp; ...; leave; ret */
	BOTH(at_framed_entry,	RULE(LOC_SP(8))),
	BOTH(at_framed_pushed,	RULE_FP(LOC_SP(16), LOC_AT_CFA(-16))),
	BOTH(at_framed_body,	RULE_FP(LOC_FP(16), LOC_AT_CFA(-16))),
	BOTH(at_framed_return,	RULE(LOC_SP(8))),
	BOTH(at_after_framed,	NO_RULE),

	/* pushq %rbx; subq $1024, %rsp; ...; addq $1024, %rsp; popq %rbx; ret */
	BOTH(at_large_entry,	RULE(LOC_SP(8))),
	BOTH(at_large_pushed,	RULE(LOC_SP(16))),
	BOTH(at_large_body,	RULE(LOC_SP(1040))),
	BOTH(at_large_freed,	RULE(LOC_SP(16))),
	BOTH(at_large_return,	RULE(LOC_SP(8))),
	BOTH(at_after_large,	NO_RULE),

	/* subq $1048576, %rsp; movq %rbp, 8(%rsp) */
	BOTH(at_huge_entry,	RULE(LOC_SP(8))),
	BOTH(at_huge_body,	RULE(LOC_SP(1048584))),
	BOTH(at_huge_saved,	RULE_FP(LOC_SP(1048584), LOC_AT_CFA(-1048576))),
	BOTH(at_after_huge,	NO_RULE),

	/* subq $8, %rsp; a thousand bytes; addq $8, %rsp; ret */
	BOTH(at_long_code_entry,	RULE(LOC_SP(8))),
	BOTH(at_long_code_body,		RULE(LOC_SP(16))),
	BOTH(at_long_code_return,	RULE(LOC_SP(8))),
	BOTH(at_after_long_code,	NO_RULE),

	/* The same with a hundred thousand. */
	BOTH(at_longer_code_entry,	RULE(LOC_SP(8))),
	BOTH(at_longer_code_body,	RULE(LOC_SP(16))),
	BOTH(at_longer_code_return,	RULE(LOC_SP(8))),
	BOTH(at_after_longer_code,	NO_RULE),

	/* pushq $0, a hundred times, see the test "many". */
	BOTH(at_many_pushed,	RULE(LOC_SP(808))),
	BOTH(at_after_many,	NO_RULE),

	/*
	 * leaq 8(%rsp), %r10; andq $-32, %rsp; pushq -8(%r10); pushq %rbp;
	 * movq %rsp, %rbp; pushq %r10; ...; popq %r10; popq %rbp;
	 * leaq -8(%r10), %rsp; ret
	 */
	{ "at_drap_entry",	NO_RULE, RULE(LOC_SP(8)) },
	{ "at_drap_r10",	NO_RULE, RULE(LOC_REG(10, 0)) },
	{ "at_drap_saved",	NO_RULE, RULE_FP(LOC_REG(10, 0), LOC_AT_FP(0)) },
	{ "at_drap_body",	NO_RULE, RULE_FP(LOC_AT_FP(-8), LOC_AT_FP(0)) },
	{ "at_drap_popped",	NO_RULE, RULE_FP(LOC_REG(10, 0), LOC_AT_FP(0)) },
	{ "at_drap_restored",	NO_RULE, RULE(LOC_REG(10, 0)) },
	{ "at_drap_return",	NO_RULE, RULE(LOC_SP(8)) },
	BOTH(at_after_drap,	NO_RULE),

	/* movq (%rsp), %rdi; movq %rbp, %r12; movq %rdi, (%rsp) */
	{ "at_registers_entry",	NO_RULE, RULE(LOC_SP(8)) },
	{ "at_registers_ra",	NO_RULE,
	  RULE_ALL(LOC_SP(8), LOC_REG(5, 0), LOC_SAME) },
	{ "at_registers_ra_fp",	NO_RULE,
	  RULE_ALL(LOC_SP(8), LOC_REG(5, 0), LOC_REG(12, 0)) },
	{ "at_registers_fp",	NO_RULE, RULE_FP(LOC_SP(8), LOC_REG(12, 0)) },
	BOTH(at_after_registers,	NO_RULE),

	/* .cfi_undefined of the return address; binutils 2.44 ignores it. */
	{ "at_outermost_body",	RULE(LOC_SP(8)), RULE_OUTERMOST },
	BOTH(at_after_outermost,	NO_RULE),

	/* .cfi_signal_frame; .cfi_def_cfa 7, 168. Version 2 has no mark for it. */
	{ "at_trampoline_body",	RULE(LOC_SP(168)),
	  { .cfa = LOC_SP(168), .ra = LOC_AT_CFA(-8), .signal = true } },
	BOTH(at_after_trampoline,	NO_RULE),

	/* The same with a CFA that only an expression describes. */
	{ "at_opaque_trampoline_body",	NO_RULE, ONLY_SIGNAL },
	BOTH(at_after_opaque_trampoline,	NO_RULE),

	/* subq $8, %rsp; call elsewhere@plt; ...; addq $8, %rsp; ret */
	BOTH(at_caller_entry,	RULE(LOC_SP(8))),
	BOTH(at_caller_body,	RULE(LOC_SP(16))),
	BOTH(at_caller_return,	RULE(LOC_SP(8))),
	BOTH(at_after_caller,	NO_RULE),

	BOTH(at_uncovered_body,	NO_RULE),
	BOTH(at_filler,		RULE(LOC_SP(8))),
#undef BOTH
};

FIXTURE(assembled)
{
	struct sframe_section sec;
	const void *file;
	size_t size;
	const char *name;
	const Elf64_Ehdr *ehdr;
};

FIXTURE_VARIANT(assembled)
{
	int version;
};

FIXTURE_VARIANT_ADD(assembled, v2)
{
	.version = SFRAME_VERSION_2,
};

FIXTURE_VARIANT_ADD(assembled, v3)
{
	.version = SFRAME_VERSION_3,
};

/* All libraries are small, sound and of this machine's byte order and class. */
static bool map_library(FIXTURE_DATA(assembled) *self, const char *name)
{
	struct stat st;
	int fd;

	fd = open(name, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		return false;

	self->name = name;
	self->size = st.st_size;
	self->file = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	self->ehdr = self->file;
	close(fd);
	return self->file != MAP_FAILED;
}

/* Copied, so that the sanitizers know its bounds. */
static bool find_section(FIXTURE_DATA(assembled) *self)
{
	const Elf64_Phdr *phdr = self->file + self->ehdr->e_phoff;
	void *copy;
	int i;

	for (i = 0; i < self->ehdr->e_phnum; i++) {
		if (phdr[i].p_type != PT_GNU_SFRAME)
			continue;
		copy = malloc(phdr[i].p_filesz);
		if (!copy)
			return false;
		memcpy(copy, self->file + phdr[i].p_offset, phdr[i].p_filesz);
		self->sec.data = copy;
		self->sec.base = phdr[i].p_vaddr;
		self->sec.size = phdr[i].p_filesz;
		return true;
	}

	return false;
}

static const Elf64_Shdr *find_shdr(FIXTURE_DATA(assembled) *self, const char *name)
{
	const Elf64_Shdr *shdr = self->file + self->ehdr->e_shoff;
	const char *names = self->file + shdr[self->ehdr->e_shstrndx].sh_offset;
	int i;

	for (i = 0; i < self->ehdr->e_shnum; i++) {
		if (!strcmp(names + shdr[i].sh_name, name))
			return &shdr[i];
	}

	return NULL;
}

static unsigned long find_symbol(FIXTURE_DATA(assembled) *self, const char *name)
{
	const Elf64_Shdr *symtab = find_shdr(self, ".symtab");
	const Elf64_Shdr *strtab = find_shdr(self, ".strtab");
	const char *names = self->file + strtab->sh_offset;
	const Elf64_Sym *sym = self->file + symtab->sh_offset;
	unsigned long i;

	for (i = 0; i < symtab->sh_size / sizeof(*sym); i++) {
		if (!strcmp(names + sym[i].st_name, name))
			return sym[i].st_value;
	}

	return 0;
}

static u8 version_of(const struct sframe_section *sec)
{
	return ((const struct sframe_header *)sec->data)->version;
}

/* The first library with a section of this version. */
static bool open_library(FIXTURE_DATA(assembled) *self, int version)
{
	glob_t found;
	size_t i;

	if (glob(TEST_LIBRARIES, 0, NULL, &found))
		return false;

	for (i = 0; i < found.gl_pathc; i++) {
		if (!map_library(self, found.gl_pathv[i]))
			continue;
		if (find_section(self) && version_of(&self->sec) == version)
			return true;
		munmap((void *)self->file, self->size);
	}

	return false;
}

FIXTURE_SETUP(assembled)
{
	if (!open_library(self, variant->version))
		SKIP(return, "no assembler for version %d, see BINUTILS in the Makefile",
		     variant->version);

	ASSERT_EQ(0, sframe_section_init(&self->sec))
		TH_LOG("%s", self->name);
}

FIXTURE_TEARDOWN(assembled)
{
	save_coverage();
}

static bool is_no_rule(const struct unwind_user_rule *rule)
{
	return rule->signal && rule->outermost;
}

static bool is_only_signal(const struct unwind_user_rule *rule)
{
	return rule->signal && !rule->outermost &&
	       rule->cfa.base == UNWIND_USER_BASE_SAME;
}

static int expected_result(const struct unwind_user_rule *rule)
{
	if (is_no_rule(rule))
		return -ENOENT;

	return is_only_signal(rule) ? -ENODATA : 0;
}

/* What assembler and linker write is sound, all of it. */
TEST_F(assembled, check)
{
	struct sframe_check check = {};

	ASSERT_LT(0, self->sec.num_fdes);
	while (check.index < self->sec.num_fdes) {
		ASSERT_EQ(0, sframe_check_function(&self->sec, &check))
			TH_LOG("function %u", check.index);
	}
	EXPECT_EQ(self->sec.num_fres, check.num_fres);
}

TEST_F(assembled, every_byte)
{
	const struct unwind_user_rule *wanted;
	struct unwind_user_rule rule;
	unsigned long ip, end;
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(expectations) - 1; i++) {
		ip = find_symbol(self, expectations[i].label);
		end = find_symbol(self, expectations[i + 1].label);
		/* There are the functions of another test in between. */
		if (!strcmp(expectations[i].label, "at_after_longer_code"))
			end = find_symbol(self, "at_many_entry");

		ASSERT_NE(0, ip);
		ASSERT_LT(ip, end) TH_LOG("at %s", expectations[i].label);

		wanted = variant->version == SFRAME_VERSION_2 ?
			 &expectations[i].v2 : &expectations[i].v3;

		for (; ip < end; ip++) {
			ret = test_find_rule(&self->sec, ip, &rule);
			ASSERT_EQ(expected_result(wanted), ret)
				TH_LOG("at %s", expectations[i].label);
			if (ret == -ENODATA)
				ASSERT_TRUE(rule.signal);
			if (ret)
				continue;
			ASSERT_TRUE(same_rule(wanted, &rule)) {
				TH_LOG("at %s: %s", expectations[i].label,
				       show_rule(&rule));
				TH_LOG("wanted %s", show_rule(wanted));
			}
		}
	}
}

/* pushq $0, a hundred times: two bytes of code and eight of stack each. */
TEST_F(assembled, many)
{
	unsigned long from = find_symbol(self, "at_many_entry");
	unsigned long to = find_symbol(self, "at_many_pushed");
	struct unwind_user_rule rule;
	unsigned long ip;

	ASSERT_EQ(200, to - from);

	for (ip = from; ip < to; ip++) {
		ASSERT_EQ(0, sframe_find_rule(&self->sec, ip, &rule));
		EXPECT_EQ(UNWIND_USER_BASE_SP, rule.cfa.base);
		EXPECT_EQ(8 + (ip - from) / 2 * 8, rule.cfa.off);
	}
}

/* pushq %rax; popq %rax; ret, two hundred times. */
TEST_F(assembled, neighbours)
{
	static const s32 offs[] = { 8, 16, 8 };
	unsigned long from = find_symbol(self, "at_filler");
	unsigned long to = find_symbol(self, "at_last_entry");
	struct unwind_user_rule rule;
	unsigned long ip;

	ASSERT_EQ(600, to - from);

	for (ip = from; ip < to; ip++) {
		ASSERT_EQ(0, sframe_find_rule(&self->sec, ip, &rule));
		EXPECT_EQ(UNWIND_USER_BASE_SP, rule.cfa.base);
		EXPECT_EQ(offs[(ip - from) % 3], rule.cfa.off);
	}
}

/*
 * pushq n(%rip); jmp *n(%rip)
 * and then, of 16 bytes each, jmp *n(%rip); pushq $n; jmp
 */
TEST_F(assembled, plt)
{
	static const struct unwind_user_rule first = RULE(LOC_SP(16));
	static const struct unwind_user_rule pushed = RULE(LOC_SP(24));
	static const struct unwind_user_rule entry = RULE(LOC_SP(8));
	static const struct unwind_user_rule index = RULE(LOC_SP(16));
	const Elf64_Shdr *plt = find_shdr(self, ".plt");
	const struct unwind_user_rule *wanted;
	struct unwind_user_rule rule;
	unsigned long off;

	/* The head, and at least three entries. */
	ASSERT_NE(NULL, plt);
	ASSERT_LE(4 * 16, plt->sh_size);

	for (off = 0; off < plt->sh_size; off++) {
		if (off < 16)
			wanted = off < 6 ? &first : &pushed;
		else
			wanted = off % 16 < 11 ? &entry : &index;

		ASSERT_EQ(0, sframe_find_rule(&self->sec, plt->sh_addr + off, &rule));
		EXPECT_TRUE(same_rule(wanted, &rule))
			TH_LOG("at %lu: %s", off, show_rule(&rule));
	}
}

TEST_F(assembled, outside)
{
	struct unwind_user_rule rule;

	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->sec, 0, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->sec, ~0UL, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->sec, self->sec.base, &rule));
	EXPECT_EQ(-ENOENT, sframe_find_rule(&self->sec,
					    find_symbol(self, "at_the_end"), &rule));
}

/* A lookup reads FDEs once and FREs once, or up to four times if there are many. */
TEST_F(assembled, few_reads)
{
	unsigned long ip = find_symbol(self, "at_framed_entry");
	unsigned long end = find_symbol(self, "at_the_end");
	unsigned long many = find_symbol(self, "at_many_entry");
	unsigned long after = find_symbol(self, "at_after_many");
	struct unwind_user_rule rule;

	ASSERT_LT(ip, end);
	for (; ip < end; ip++) {
		test_reads.count = 0;
		sframe_find_rule(&self->sec, ip, &rule);
		EXPECT_GE(ip < many || ip >= after ? 2 : 5, test_reads.count);
	}
}

/* Older assemblers, such as that of Debian 12, write version 1. */
TEST(version_1)
{
	FIXTURE_DATA(assembled) self = {};

	if (!open_library(&self, 1))
		SKIP(return, "no assembler that writes version 1");

	EXPECT_EQ(-EOPNOTSUPP, sframe_section_init(&self.sec));
	save_coverage();
}

/* The section of an object file is not sorted, because the linker sorts it. */
TEST_F(assembled, not_linked)
{
	struct sframe_header *header = (void *)self->sec.data;

	header->flags &= ~SFRAME_FLAG_SORTED;
	EXPECT_EQ(-EOPNOTSUPP, sframe_section_init(&self->sec));
}

TEST_HARNESS_MAIN
