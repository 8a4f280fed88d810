// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: the reader on inputs of libFuzzer.
 *
 * An input consists of a struct fuzz_control, which says how reads behave, and a
 * section. The target initialises the section and looks up addresses in and next to its
 * functions. The sanitizers check memory accesses. The target checks that a lookup ends
 * after a few reads and gives a result that a walk can use.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/unaligned.h>
#include <linux/unwind_user_rule.h>

#include "builder.h"
#include "environment.h"
#include "rules.h"
#include "sframe.h"

/* Number of functions, spread over the section, whose addresses are looked up. */
#define FUZZ_FDES	8

/* Bits of fuzz_control.flags. Stretched sections are slow, so few inputs have them. */
#define FUZZ_REPAIR	0x01
#define FUZZ_STRETCH	0x54
#define FUZZ_STRETCH_MASK 0xfe

/*
 * How many bytes stretching adds: more than a lookup reads, and more than 65535 rows of
 * the usual sizes have.
 */
#define FUZZ_STRETCH_LEN	(2 * SFRAME_FRES_LEN_MAX)

/* Stretched sections keep few functions, because each may have that many rows. */
#define FUZZ_STRETCH_FDES	4U

/**
 * struct fuzz_control - What an input begins with
 * @flags:	%FUZZ_REPAIR: make the header one that is accepted, so that the
 *		fuzzer need not find that out each time. %FUZZ_STRETCH: repeat the
 *		last bytes, which should be a row, so that a short input can have a
 *		function that is too long
 * @fail_at:	Which read fails, if any
 * @change_at:	First read that returns changed bytes, if any
 * @change:	The value that changed bytes are XORed with
 * @ip:		An address to look up, from the section's base
 * @row:	With %FUZZ_STRETCH, how many of the last bytes are repeated
 */
struct fuzz_control {
	u8	flags;
	u8	fail_at;
	u8	change_at;
	u8	change;
	__le32	ip;
	u8	row;
} __packed;

#define FUZZ_CHECK(cond)	do {					\
	if (!(cond)) {							\
		fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__,	\
			__LINE__, #cond);				\
		abort();						\
	}								\
} while (0)

static void check_loc(const struct unwind_user_loc *loc)
{
	FUZZ_CHECK(loc->base <= UNWIND_USER_BASE_REG);
	FUZZ_CHECK(loc->reg < 16);
}

static void check_rule(const struct unwind_user_rule *rule)
{
	if (rule->outermost)
		return;

	check_loc(&rule->cfa);
	check_loc(&rule->ra);
	if (rule->fp.base != UNWIND_USER_BASE_NONE)
		check_loc(&rule->fp);
	FUZZ_CHECK(!rule->cfa_add || rule->cfa.deref);
	FUZZ_CHECK(!rule->cfa_index || (rule->cfa.deref && rule->cfa_index <= 16));
	FUZZ_CHECK(rule->cfa.base != UNWIND_USER_BASE_CFA);
	FUZZ_CHECK(rule->cfa.base != UNWIND_USER_BASE_SAME);
	FUZZ_CHECK(rule->ra.base != UNWIND_USER_BASE_SAME);
}

/* Start and size of a function, as they are in the section. */
static u64 function(const struct sframe_section *sec, u32 index, u32 *size)
{
	u32 fde_size = sec->version == SFRAME_VERSION_3 ?
		       sizeof(struct sframe_fde_v3) : sizeof(struct sframe_fde_v2);
	u32 off = sec->fdes + index * fde_size;
	const u8 *fde = sec->data + off;
	u64 start;

	if (sec->version == SFRAME_VERSION_3) {
		start = get_unaligned_le64(fde);
		*size = get_unaligned_le32(fde + sizeof(u64));
	} else {
		start = (s32)get_unaligned_le32(fde);
		*size = get_unaligned_le32(fde + sizeof(u32));
	}

	return sec->base + start + (sec->pcrel ? off : 0);
}

/* Returns the result of sframe_find_rule(), in user memory if @user. */
static int find_in(const struct sframe_section *sec, bool user, bool sound, unsigned long ip,
		   struct unwind_user_rule *rule)
{
	int ret;

	/*
	 * The search halves a part down to a window. Then FREs are read in chunks,
	 * which overlap by at most one FRE.
	 */
	test_reads.count = 0;
	ret = user ? test_find_rule_user(sec, ip, rule) : sframe_find_rule(sec, ip, rule);
	FUZZ_CHECK(test_reads.count <= 32 + sec->size / 32);

	switch (ret) {
	case 0:
		check_rule(rule);
		break;
	case -ENODATA:
		FUZZ_CHECK(rule->signal && !rule->outermost);
		break;
	default:
		FUZZ_CHECK(ret == -ENOENT || ret == -EFAULT || ret == -EINVAL);
		FUZZ_CHECK(ret != -EFAULT || test_reads.fail_at);
		FUZZ_CHECK(ret != -EINVAL || !sound);
	}

	return ret;
}

/* Numbers of this size wrap nowhere. */
static bool is_small(s64 start)
{
	return start > S64_MIN / 2 && start < S64_MAX / 2;
}

static void find(const struct sframe_section *sec, bool sound, unsigned long ip)
{
	struct unwind_user_rule rule, in_user;
	int ret, ret_user;
	u32 size;

	ret = find_in(sec, false, sound, ip, &rule);
	ret_user = find_in(sec, true, sound, ip, &in_user);

	/* In a sound section, functions are in order, so both searches find the same one. */
	if (!sound || !sec->num_fdes || !is_small(sec->first) ||
	    !is_small(function(sec, sec->num_fdes - 1, &size) - sec->base))
		return;
	FUZZ_CHECK(ret == ret_user);
	FUZZ_CHECK(ret || same_rule(&rule, &in_user));
}

/* Is the section sound? If it does not change, no lookup says otherwise. */
static bool check(const struct sframe_section *sec)
{
	struct sframe_check check = {};
	int ret = 0;

	/* The FDE, the first chunk, and at most a chunk for each row. */
	test_reads.count = 0;
	while (!ret && check.index < sec->num_fdes)
		ret = sframe_check_function(sec, &check);
	FUZZ_CHECK(test_reads.count <= 2ULL * sec->num_fdes + sec->num_fres);

	FUZZ_CHECK(!ret || ret == -EINVAL || ret == -EFAULT);
	FUZZ_CHECK(ret != -EFAULT || test_reads.fail_at);
	FUZZ_CHECK(ret || check.num_fres <= sec->num_fres);

	return !ret && !test_reads.fail_at && !test_reads.change_at;
}

static void repair(struct sframe_header *header)
{
	bool v3 = header->version & 1;

	header->magic = SFRAME_MAGIC;
	header->version = v3 ? SFRAME_VERSION_3 : SFRAME_VERSION_2;
	header->flags = SFRAME_FLAG_SORTED |
			(v3 ? SFRAME_FLAG_PCREL : header->flags & SFRAME_FLAG_PCREL);
	header->abi = SFRAME_ABI_AMD64;
	header->fixed_fp = SFRAME_AMD64_FP_OFF;
	header->fixed_ra = SFRAME_AMD64_RA_OFF;
}

/*
 * Repeat the last @row bytes of the @size ones at @buf, where there is room for
 * FUZZ_STRETCH_LEN more. The area of the FREs is assumed to be at the end.
 */
static u32 stretch(u8 *buf, u32 size, u32 row)
{
	struct sframe_header *header = (void *)buf;
	u32 i, fdes = get_unaligned_le32(&header->num_fdes);

	row = min(row, size - (u32)sizeof(*header));
	for (i = 0; i < FUZZ_STRETCH_LEN; i++)
		buf[size + i] = buf[size - row + i % row];

	put_unaligned_le32(min(fdes, FUZZ_STRETCH_FDES), &header->num_fdes);
	put_unaligned_le32(get_unaligned_le32(&header->fre_len) + FUZZ_STRETCH_LEN,
			   &header->fre_len);

	return size + FUZZ_STRETCH_LEN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sframe_section sec = { .base = TEST_BASE };
	struct fuzz_control control;
	u32 i, step, index, func_size;
	u64 start;
	bool longer;
	void *buf;
	bool sound;
	int ret;

	if (size < sizeof(control))
		return 0;

	memcpy(&control, data, sizeof(control));
	sec.size = size - sizeof(control);
	longer = (control.flags & FUZZ_STRETCH_MASK) == FUZZ_STRETCH && control.row &&
		 sec.size > sizeof(struct sframe_header);

	/* A block of its own: its end is known to the sanitizer. */
	buf = malloc(sec.size + (longer ? FUZZ_STRETCH_LEN : 0));
	FUZZ_CHECK(buf);
	memcpy(buf, data + sizeof(control), sec.size);
	if (longer)
		sec.size = stretch(buf, sec.size, control.row);
	sec.data = buf;

	if ((control.flags & FUZZ_REPAIR) && sec.size >= sizeof(struct sframe_header))
		repair(buf);

	test_reads = (struct test_reads) {
		.fail_at	= control.fail_at,
		.change_at	= control.change_at,
		.change		= control.change,
	};

	ret = sframe_section_init(&sec);
	FUZZ_CHECK(!ret || ret == -EFAULT || ret == -EINVAL || ret == -EOPNOTSUPP);
	if (ret)
		goto out;

	sound = check(&sec);

	find(&sec, sound, TEST_BASE + (s32)get_unaligned_le32(&control.ip));

	step = max(sec.num_fdes / FUZZ_FDES, 1U);
	for (i = 0; i < FUZZ_FDES && i * step < sec.num_fdes; i++) {
		index = i * step;
		start = function(&sec, index, &func_size);
		find(&sec, sound, start);
		find(&sec, sound, start + func_size - 1);
		find(&sec, sound, start + func_size / 2);
		find(&sec, sound, start + (control.ip & U8_MAX));
	}

out:
	free(buf);
	return 0;
}

#ifdef FUZZ_SEEDS
/* Writes the seeds of the fuzzer: sections of builder.c and sections from files. */
static void write_seed(const char *dir, const char *name, u8 row, const void *sec,
		       u32 size)
{
	struct fuzz_control control = {
		.flags	= row ? FUZZ_STRETCH : 0,
		.row	= row,
	};
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "wb");
	if (!file || fwrite(&control, sizeof(control), 1, file) != 1 ||
	    fwrite(sec, size, 1, file) != 1 || fclose(file)) {
		perror(path);
		exit(1);
	}
}

/* Sections from files must be shorter than this. */
#define SEED_MAX	0x10000

int main(int argc, char **argv)
{
	static const u32 long_rows[] = {
		1000, 1000, 37000, 37000, SFRAME_FRES_MAX, SFRAME_FRES_MAX,
	};
	static u8 buf[SEED_MAX];
	struct test_table table;
	u32 row;
	unsigned int i;
	char name[32];
	size_t size;
	FILE *file;

	if (argc < 2) {
		fprintf(stderr, "usage: %s DIR SECTION...\n", argv[0]);
		return 1;
	}

	for (i = 0; i < TEST_SEEDS; i++) {
		test_build_seed(&table, i);
		snprintf(name, sizeof(name), "built-%u", i);
		write_seed(argv[1], name, 0, table.buf, table.sec.size);
		test_free(&table);
	}

	/* Rows that a lookup goes through, few and many, and rows that are too long. */
	for (i = 0; i < ARRAY_SIZE(long_rows); i++) {
		row = test_build_long_seed(&table, i % 2, long_rows[i]);
		snprintf(name, sizeof(name), "long-%u", i);
		write_seed(argv[1], name, row, table.buf, table.sec.size);
		test_free(&table);
	}

	for (i = 2; i < (unsigned int)argc; i++) {
		file = fopen(argv[i], "rb");
		size = file ? fread(buf, 1, sizeof(buf), file) : 0;
		if (!size || size == sizeof(buf)) {
			fprintf(stderr, "%s: not a section, or too long\n", argv[i]);
			return 1;
		}
		fclose(file);
		snprintf(name, sizeof(name), "assembled-%u", i - 1);
		write_seed(argv[1], name, 0, buf, size);
	}

	return 0;
}
#endif
