// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the reader of SFrame sections, in kernel memory and user memory
 *
 * Host tests check what the bytes of a section mean, see tools/testing/unwind/. The
 * tests here need a kernel: user memory is read and faulted in if needed, and memory
 * that cannot or must not be read is refused.
 */
#include <kunit/test.h>
#include <linux/bitfield.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_rule.h>

#include "sframe.h"

#define TEXT_SIZE	32
/* The function's only FRE begins after its first byte, push %rbp. */
#define PUSHED		1

/* An FRE with a one-byte address and at most two one-byte words */
struct test_fre {
	u8	addr;
	u8	info;
	s8	words[2];
} __packed;

/* A version 3 section for one function */
struct test_section {
	struct sframe_header	header;
	struct sframe_fde_v3	fde;
	struct sframe_attr_v3	attr;
	struct test_fre		pushed;
} __packed;

#define TEST_FRE_INFO(_words)	(SFRAME_FRE_CFA_SP | FIELD_PREP(SFRAME_FRE_WORDS, _words))

/* Fill the section for address @base, with its function at @text. */
static void test_section_make(struct test_section *sec, unsigned long base,
			      unsigned long text)
{
	*sec = (struct test_section) {
		.header = {
			.magic		= cpu_to_le16(SFRAME_MAGIC),
			.version	= SFRAME_VERSION_3,
			.flags		= SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL,
			.abi		= ARCH_SFRAME_ABI,
			.fixed_ra	= ARCH_SFRAME_FIXED_RA,
			.num_fdes	= cpu_to_le32(1),
			.num_fres	= cpu_to_le32(1),
			.fre_len	= cpu_to_le32(sizeof(sec->attr) +
						      sizeof(sec->pushed)),
			.fre_off	= cpu_to_le32(sizeof(sec->fde)),
		},
		.fde = {
			.start	= cpu_to_le64(text - base -
					      offsetof(struct test_section, fde)),
			.size	= cpu_to_le32(TEXT_SIZE),
		},
		.attr = {
			.num_fres	= cpu_to_le16(1),
			.info2		= SFRAME_FDE_DEFAULT,
		},
		.pushed = {
			.addr	= PUSHED,
			.info	= TEST_FRE_INFO(2),
			.words	= { 16, -16 },
		},
	};
}

static void expect_rule(struct kunit *test, const struct sframe_section *sec,
			unsigned long text)
{
	struct unwind_user_rule rule;

	KUNIT_ASSERT_EQ(test, sframe_find_rule(sec, text + PUSHED, &rule), 0);
	KUNIT_EXPECT_EQ(test, rule.cfa.base, UNWIND_USER_BASE_SP);
	KUNIT_EXPECT_EQ(test, rule.cfa.off, 16);
	KUNIT_EXPECT_FALSE(test, rule.cfa.deref);
	KUNIT_EXPECT_EQ(test, rule.ra.base, UNWIND_USER_BASE_CFA);
	KUNIT_EXPECT_EQ(test, rule.ra.off, ARCH_SFRAME_FIXED_RA);
	KUNIT_EXPECT_TRUE(test, rule.ra.deref);
	KUNIT_EXPECT_EQ(test, rule.fp.base, UNWIND_USER_BASE_CFA);
	KUNIT_EXPECT_EQ(test, rule.fp.off, -16);
	KUNIT_EXPECT_TRUE(test, rule.fp.deref);

	KUNIT_EXPECT_EQ(test, sframe_find_rule(sec, text, &rule), -ENOENT);
	KUNIT_EXPECT_EQ(test, sframe_find_rule(sec, text + TEXT_SIZE, &rule),
			-ENOENT);
}

/* Map @nr pages of user memory. The test's thread gets an mm for that. */
static unsigned long map_pages(struct kunit *test, unsigned int nr,
			       unsigned long prot)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, nr * PAGE_SIZE, prot,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE_MSG(test, addr, 0, "no user memory");
	KUNIT_ASSERT_LT_MSG(test, addr, (unsigned long)TASK_SIZE_MAX,
			    "no user memory");
	return addr;
}

/* Put the section at @at. Its function is at another address. */
static unsigned long put_section(struct kunit *test, unsigned long at)
{
	unsigned long text = at + SZ_1M;
	struct test_section bytes;

	test_section_make(&bytes, at, text);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)at, &bytes, sizeof(bytes)), 0);
	return text;
}

static struct sframe_section section_at(unsigned long base)
{
	return (struct sframe_section) {
		.base = base,
		.size = sizeof(struct test_section),
	};
}

static void kernel_memory(struct kunit *test)
{
	/* Nothing is mapped at these addresses: the reader only uses sec.data. */
	const unsigned long base = SZ_1G, text = base - SZ_1M;
	struct sframe_section sec = section_at(base);
	struct test_section *bytes;

	/* At the end of the object, so that KASAN detects reads beyond it */
	bytes = kunit_kmalloc(test, sizeof(*bytes), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bytes);
	test_section_make(bytes, base, text);
	sec.data = bytes;
	KUNIT_ASSERT_EQ(test, sframe_section_init(&sec), 0);
	expect_rule(test, &sec, text);
}

static void user_memory(struct kunit *test)
{
	struct sframe_section sec = section_at(map_pages(test, 1, PROT_READ | PROT_WRITE));
	unsigned long text = put_section(test, sec.base);

	KUNIT_ASSERT_EQ(test, sframe_section_init(&sec), 0);
	expect_rule(test, &sec, text);
}

static void user_memory_across_pages(struct kunit *test)
{
	unsigned long pages = map_pages(test, 2, PROT_READ | PROT_WRITE);
	struct sframe_section sec;
	unsigned long text;
	unsigned int before;

	for (before = 1; before < sizeof(struct test_section); before++) {
		sec = section_at(pages + PAGE_SIZE - before);
		text = put_section(test, sec.base);
		KUNIT_ASSERT_EQ(test, sframe_section_init(&sec), 0);
		expect_rule(test, &sec, text);
	}
}

static void absent_page_is_faulted_in(struct kunit *test)
{
	unsigned long page = map_pages(test, 1, PROT_READ);
	struct sframe_section sec = { .base = page, .size = PAGE_SIZE };
	u8 byte = 1;

	KUNIT_EXPECT_TRUE(test, sframe_read(&sec, PAGE_SIZE - 1, &byte, 1));
	KUNIT_EXPECT_EQ(test, byte, 0);
}

/* The header and FDE can be read, the FRE cannot. */
static void page_goes_away(struct kunit *test)
{
	unsigned long pages = map_pages(test, 2, PROT_READ | PROT_WRITE);
	struct unwind_user_rule rule;
	struct sframe_section sec;
	unsigned long text;

	sec = section_at(pages + PAGE_SIZE - offsetof(struct test_section, pushed));
	text = put_section(test, sec.base);
	KUNIT_ASSERT_EQ(test, sframe_section_init(&sec), 0);
	KUNIT_ASSERT_EQ(test, sframe_find_rule(&sec, text + PUSHED, &rule), 0);

	KUNIT_ASSERT_EQ(test, vm_munmap(pages + PAGE_SIZE, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, sframe_find_rule(&sec, text + PUSHED, &rule), -EFAULT);

	KUNIT_ASSERT_EQ(test, vm_munmap(pages, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, sframe_find_rule(&sec, text + PUSHED, &rule), -EFAULT);
	KUNIT_EXPECT_EQ(test, sframe_section_init(&sec), -EFAULT);
}

/* The bytes change between two reads. An earlier check must not count. */
static void section_changes(struct kunit *test)
{
	struct sframe_section sec = section_at(map_pages(test, 1, PROT_READ | PROT_WRITE));
	unsigned long text = put_section(test, sec.base);
	const u32 fre_off = U32_MAX;
	struct unwind_user_rule rule;
	void __user *field;

	KUNIT_ASSERT_EQ(test, sframe_section_init(&sec), 0);
	field = (void __user *)sec.base + offsetof(struct test_section, fde.fre_off);
	KUNIT_ASSERT_EQ(test, copy_to_user(field, &fre_off, sizeof(fre_off)), 0);
	KUNIT_EXPECT_EQ(test, sframe_find_rule(&sec, text + PUSHED, &rule), -EINVAL);
}

static void not_readable(struct kunit *test)
{
	struct sframe_section sec = section_at(map_pages(test, 1, PROT_NONE));

	KUNIT_EXPECT_EQ(test, sframe_section_init(&sec), -EFAULT);
}

/* User space supplies the address. Memory of the kernel must not be read. */
static void kernel_address(struct kunit *test)
{
	struct sframe_section sec;
	struct test_section *bytes;

	/* So that the read does not fail for lack of an mm. */
	map_pages(test, 1, PROT_READ);
	bytes = kunit_kmalloc(test, sizeof(*bytes), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bytes);
	test_section_make(bytes, (unsigned long)bytes, (unsigned long)bytes);
	sec = section_at((unsigned long)bytes);
	KUNIT_EXPECT_EQ(test, sframe_section_init(&sec), -EFAULT);

	sec = section_at(TASK_SIZE_MAX - sizeof(sec.version));
	KUNIT_EXPECT_EQ(test, sframe_section_init(&sec), -EFAULT);
	sec = section_at(-sizeof(struct test_section));
	KUNIT_EXPECT_EQ(test, sframe_section_init(&sec), -EFAULT);
}

static struct kunit_case sframe_cases[] = {
	KUNIT_CASE(kernel_memory),
	KUNIT_CASE(user_memory),
	KUNIT_CASE(user_memory_across_pages),
	KUNIT_CASE(absent_page_is_faulted_in),
	KUNIT_CASE(page_goes_away),
	KUNIT_CASE(section_changes),
	KUNIT_CASE(not_readable),
	KUNIT_CASE(kernel_address),
	{ }
};

static struct kunit_suite sframe_suite = {
	.name = "unwind_sframe",
	.test_cases = sframe_cases,
};

kunit_test_suite(sframe_suite);

MODULE_DESCRIPTION("KUnit tests of the reader of SFrame sections");
MODULE_LICENSE("GPL");
