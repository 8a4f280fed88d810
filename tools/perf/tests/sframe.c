// SPDX-License-Identifier: GPL-2.0
/* SFrame tables: perf reads what it has written, and copes with damage. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "util/debug.h"
#include "util/sframe.h"
#include "tests.h"

#define LOC(...)		((struct sframe_loc) { __VA_ARGS__ })
#define LOC_REG(nr, offset)	LOC(.base = SFRAME_BASE_REG, .reg = (nr), .off = (offset))
#define LOC_AT_REG(nr, offset)	\
	LOC(.base = SFRAME_BASE_REG, .reg = (nr), .off = (offset), .deref = true)
#define LOC_ADD_AT_REG(nr, offset, number)	\
	LOC(.base = SFRAME_BASE_REG, .reg = (nr), .off = (offset), .deref = true, .add = (number))
#define LOC_INDEX(nr, nr_index, offset, number)	\
	LOC(.base = SFRAME_BASE_REG, .reg = (nr), .off = (offset), .deref = true,	\
	    .add = (number), .index = (nr_index) + 1)
#define LOC_CFA			LOC(.base = SFRAME_BASE_CFA)
#define LOC_AT_CFA(offset)	\
	LOC(.base = SFRAME_BASE_CFA, .off = (offset), .deref = true)
#define LOC_NONE		LOC(.base = SFRAME_BASE_NONE)
#define LOC_SAME		LOC(.base = SFRAME_BASE_SAME)

#define ROW(address, cfa_loc, ra_loc, fp_loc)	\
	{ .addr = (address), .rule = { .cfa = cfa_loc, .ra = ra_loc, .fp = fp_loc, }, }
#define ROW_PLAIN(address, nr, offset, fp_loc)	\
	ROW(address, LOC_REG(nr, offset), LOC_AT_CFA(-8), fp_loc)
#define ROW_OUTERMOST(address)	\
	{ .addr = (address), .rule.outermost = true, }

#define RSP	SFRAME_AMD64_SP
#define RBP	SFRAME_AMD64_FP
#define RDI	5
#define R10	10
#define R12	12

/* A frame that is set up and removed; offsets of one and two bytes. */
static const struct sframe_row plain[] = {
	ROW_PLAIN(0, RSP, 8, LOC_SAME),
	ROW_PLAIN(1, RSP, 16, LOC_AT_CFA(-16)),
	ROW_PLAIN(4, RBP, 16, LOC_AT_CFA(-16)),
	ROW_PLAIN(0xff, RSP, 1000, LOC_AT_CFA(-16)),
};

/* Addresses of two bytes, and offsets of four bytes. */
static const struct sframe_row two[] = {
	ROW_PLAIN(0, RSP, 8, LOC_SAME),
	ROW_PLAIN(0x100, RSP, 0x12345678, LOC_AT_CFA(-0x12345670)),
	ROW_OUTERMOST(0xffff),
};

/* Addresses of four bytes; the first bytes have no row. */
static const struct sframe_row four[] = {
	ROW_PLAIN(8, RSP, -8, LOC_SAME),
	ROW_PLAIN(0x10000, RSP, 128, LOC_SAME),
};

static const struct sframe_row flex[] = {
	ROW_PLAIN(0, RSP, 8, LOC_SAME),
	ROW_PLAIN(5, R10, 0, LOC_SAME),
	ROW(9, LOC_AT_REG(RBP, -8), LOC_AT_CFA(-8), LOC_AT_REG(RBP, 0)),
	ROW(20, LOC_REG(RSP, 8), LOC_REG(RDI, 0), LOC_SAME),
	ROW(21, LOC_REG(RSP, 8), LOC_REG(RDI, 0), LOC_REG(R12, 0)),
	ROW(22, LOC_REG(15, 300), LOC_AT_CFA(-16), LOC_AT_CFA(-24)),
	ROW_OUTERMOST(30),
	ROW_PLAIN(31, RSP, 8, LOC_NONE),
	ROW(32, LOC_REG(RSP, 8), LOC_REG(RDI, 0), LOC_NONE),
};

/* Each number decides in one row how many bytes its words have. */
static const struct sframe_row added[] = {
	ROW(0, LOC_ADD_AT_REG(RSP, 24, 8), LOC_AT_CFA(-8), LOC_SAME),
	ROW(4, LOC_ADD_AT_REG(RBP, -24, 0x1234), LOC_AT_CFA(-8), LOC_AT_CFA(-16)),
	ROW(9, LOC_ADD_AT_REG(R12, 0x12345678, -16), LOC_REG(RDI, 0), LOC_AT_REG(RSP, 8)),
	ROW(12, LOC_INDEX(RSP, 9, 8, 8), LOC_AT_CFA(-8), LOC_SAME),
	ROW(14, LOC_INDEX(RBP, 0, -0x12345, 0), LOC_AT_CFA(-8), LOC_AT_CFA(-16)),
	ROW(16, LOC_INDEX(0, 15, 0, -8), LOC_AT_CFA(-8), LOC_SAME),
	ROW_PLAIN(20, RSP, 8, LOC_SAME),
};

static const struct sframe_row blocks[] = {
	ROW_PLAIN(0, RSP, 8, LOC_SAME),
	ROW_PLAIN(11, RSP, 16, LOC_SAME),
};

struct test_function {
	struct sframe_function	function;
	const struct sframe_row	*rows;
};

static const struct test_function functions[] = {
	{ { .start = 0x1000, .size = 0x100, .nr_rows = ARRAY_SIZE(plain), }, plain },
	{ { .start = 0x1100, .size = 0x10000, .nr_rows = ARRAY_SIZE(two), }, two },
	{ { .start = 0x20000, .size = 0x20000, .nr_rows = ARRAY_SIZE(four), }, four },
	{ { .start = 0x40000, .size = 40, .nr_rows = ARRAY_SIZE(flex), }, flex },
	{ { .start = 0x40030, .size = 0x40, .nr_rows = ARRAY_SIZE(blocks), .rep_size = 16, },
	  blocks },
	/* Shares the rows of the first function. */
	{ { .start = 0x50000, .size = 0x180, .nr_rows = ARRAY_SIZE(plain), .derived = true, },
	  plain },
	{ { .start = 0x60000, .size = 0x100, .nr_rows = ARRAY_SIZE(plain), .signal = true, },
	  plain },
	{ { .start = 0x70000, .size = 16, .signal = true, }, NULL },
	{ { .start = 0xffffffff80000000ULL, .size = 0x100, .nr_rows = ARRAY_SIZE(plain), },
	  plain },
	/* The last block would end beyond the last address. */
	{ { .start = -32ULL, .size = 31, .nr_rows = ARRAY_SIZE(blocks), .rep_size = 16, },
	  blocks },
};

/* The last two share their rows. */
static const struct test_function adding[] = {
	{ { .start = 0x1000, .size = 0x100, .nr_rows = ARRAY_SIZE(plain), }, plain },
	{ { .start = 0x2000, .size = 40, .nr_rows = ARRAY_SIZE(added), }, added },
	{ { .start = 0x3000, .size = 40, .nr_rows = ARRAY_SIZE(added), }, added },
};

static int write_functions(const struct test_function *from, size_t nr, struct sframe_aux *aux,
			   void **data, size_t *size)
{
	struct sframe_writer *writer = sframe_writer__new();
	int err = writer ? 0 : -ENOMEM;
	size_t i;

	for (i = 0; i < nr && !err; i++)
		err = sframe_writer__add(writer, &from[i].function, from[i].rows);
	if (!err)
		err = sframe_writer__finish(writer, aux, data, size);
	sframe_writer__delete(writer);

	return err;
}

static int write_all(struct sframe_aux *aux, void **data, size_t *size)
{
	return write_functions(functions, ARRAY_SIZE(functions), aux, data, size);
}

static bool same_function(const struct sframe_reader *reader, const struct test_function *from,
			  u32 index)
{
	const struct sframe_function *expected = &from[index].function;
	struct sframe_function function;
	struct sframe_row row;
	u32 i, pos;

	if (sframe_reader__function(reader, index, &function))
		return false;
	if (function.start != expected->start || function.size != expected->size ||
	    function.nr_rows != expected->nr_rows ||
	    function.rep_size != expected->rep_size || function.signal != expected->signal ||
	    function.derived != expected->derived)
		return false;

	pos = function.pos;
	for (i = 0; i < function.nr_rows; i++) {
		if (sframe_reader__row(reader, &function, &pos, &row) ||
		    row.addr != from[index].rows[i].addr ||
		    !sframe_rule__equal(&row.rule, &from[index].rows[i].rule))
			return false;
	}

	return true;
}

static int test__sframe_round_trip(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	struct sframe_aux aux = { .magic = SFRAME_AUX_MAGIC, .build_id = { 0x12, 0x34, },
				  .build_id_size = 2, };
	struct sframe_aux read_aux;
	struct sframe_reader reader;
	void *data = NULL;
	size_t size;
	bool same;
	u32 i;

	aux.version = cpu_to_le32(SFRAME_AUX_VERSION);
	TEST_ASSERT_VAL("write", !write_all(&aux, &data, &size));

	same = !sframe_reader__init(&reader, data, size, 0) &&
	       !(reader.flags & SFRAME_FLAG_ADD) &&
	       reader.num_fdes == ARRAY_SIZE(functions) && !sframe_reader__check(&reader) &&
	       !sframe_reader__aux(&reader, &read_aux) &&
	       !memcmp(&read_aux, &aux, sizeof(aux)) &&
	       !sframe_reader__is_derived(&reader, 0x40000) &&
	       sframe_reader__is_derived(&reader, 0x50000) &&
	       sframe_reader__is_derived(&reader, 0x5017f) &&
	       !sframe_reader__is_derived(&reader, 0x60000);
	for (i = 0; same && i < ARRAY_SIZE(functions); i++) {
		same = same_function(&reader, functions, i);
		if (!same)
			pr_debug("function %u differs\n", i);
	}

	free(data);
	return same ? TEST_OK : TEST_FAIL;
}

/* Kernels that do not know the flag get a table without the rules that need it. */
static bool without_add(const struct sframe_reader *with)
{
	struct sframe_reader reader;
	struct sframe_function fn;
	struct sframe_row row;
	bool same = false;
	u32 i, pos;
	void *data;

	if (sframe_reader__without_add(with, &data))
		return false;

	if (sframe_reader__init(&reader, data, with->size, 0) || reader.flags & SFRAME_FLAG_ADD ||
	    !same_function(&reader, adding, 0) || sframe_reader__function(&reader, 1, &fn))
		goto out;

	/* perf refuses registers that it does not know. The row after these is the same. */
	for (i = 0, pos = fn.pos; i < fn.nr_rows; i++) {
		if (sframe_reader__row(&reader, &fn, &pos, &row) !=
		    (sframe_loc__adds(&added[i].rule.cfa) ? -EINVAL : 0))
			goto out;
	}
	same = sframe_rule__equal(&row.rule, &added[i - 1].rule);
out:
	free(data);
	return same;
}

static int test__sframe_add(struct test_suite *test __maybe_unused,
			    int subtest __maybe_unused)
{
	struct sframe_aux aux = { .magic = SFRAME_AUX_MAGIC };
	struct sframe_reader reader;
	void *data = NULL;
	bool same, without;
	size_t size;

	TEST_ASSERT_VAL("write",
			!write_functions(adding, ARRAY_SIZE(adding), &aux, &data, &size));

	same = !sframe_reader__init(&reader, data, size, 0) &&
	       reader.flags & SFRAME_FLAG_ADD && !sframe_reader__check(&reader) &&
	       same_function(&reader, adding, 1) && same_function(&reader, adding, 2);
	without = same && without_add(&reader);

	free(data);
	TEST_ASSERT_VAL("with the flag", same);
	TEST_ASSERT_VAL("without the flag", without);

	return TEST_OK;
}

/* The rule for an address, and the end of its range. */
static const struct lookup {
	u64		addr;
	u64		end;
	const char	*text;
} lookups[] = {
	{ 0xfff,	0x1000,		"none" },
	{ 0x1000,	0x1001,		"cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x1003,	0x1004,		"cfa rsp+16 ra *(cfa-8) fp *(cfa-16)" },
	{ 0x1004,	0x10ff,		"cfa rbp+16 ra *(cfa-8) fp *(cfa-16)" },
	{ 0x10ff,	0x1100,		"cfa rsp+1000 ra *(cfa-8) fp *(cfa-16)" },
	{ 0x1100,	0x1200,		"cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x1200,	0x110ff,	"cfa rsp+305419896 ra *(cfa-8) fp *(cfa-305419888)" },
	{ 0x110ff,	0x11100,	"outermost" },
	{ 0x11100,	0x20000,	"none" },
	{ 0x20000,	0x20008,	"none" },
	{ 0x20008,	0x30000,	"cfa rsp-8 ra *(cfa-8) fp same" },
	{ 0x3ffff,	0x40000,	"cfa rsp+128 ra *(cfa-8) fp same" },
	{ 0x40006,	0x40009,	"cfa r10 ra *(cfa-8) fp same" },
	{ 0x40009,	0x40014,	"cfa *(rbp-8) ra *(cfa-8) fp *(rbp)" },
	{ 0x40014,	0x40015,	"cfa rsp+8 ra rdi fp same" },
	{ 0x40015,	0x40016,	"cfa rsp+8 ra rdi fp r12" },
	{ 0x40016,	0x4001e,	"cfa r15+300 ra *(cfa-16) fp *(cfa-24)" },
	{ 0x4001f,	0x40020,	"cfa rsp+8 ra *(cfa-8) fp unknown" },
	{ 0x40020,	0x40028,	"cfa rsp+8 ra rdi fp unknown" },
	{ 0x4003b,	0x40040,	"cfa rsp+16 ra *(cfa-8) fp same" },
	{ 0x40040,	0x4004b,	"cfa rsp+8 ra *(cfa-8) fp same" },
	{ 0x40070,	0x50000,	"none" },
	{ 0x60004,	0x600ff,	"cfa rbp+16 ra *(cfa-8) fp *(cfa-16)" },
	{ 0x70000,	0x70010,	"signal" },
	{ 0xffffffff80000100ULL, -32ULL, "none" },
	{ -16ULL,	-5ULL,		"cfa rsp+8 ra *(cfa-8) fp same" },
	{ -5ULL,	ULLONG_MAX,	"cfa rsp+16 ra *(cfa-8) fp same" },
};

static int test__sframe_find(struct test_suite *test __maybe_unused,
			     int subtest __maybe_unused)
{
	struct sframe_aux aux = { .magic = SFRAME_AUX_MAGIC };
	struct sframe_reader reader;
	struct sframe_rule rule;
	int err, ret = TEST_OK;
	void *data = NULL;
	char text[128];
	bool signal;
	size_t i, size;
	u64 end;

	TEST_ASSERT_VAL("write", !write_all(&aux, &data, &size));
	if (sframe_reader__init(&reader, data, size, 0))
		ret = TEST_FAIL;

	for (i = 0; i < ARRAY_SIZE(lookups) && ret == TEST_OK; i++) {
		end = ULLONG_MAX;
		err = sframe_reader__find(&reader, lookups[i].addr, &rule, &signal, &end);
		if (!err)
			sframe_rule__scnprintf(&rule, text, sizeof(text));
		else
			scnprintf(text, sizeof(text), "%s", err == -ENOENT ? "none" :
				  err == -ENODATA && signal ? "signal" : "error");
		if (strcmp(text, lookups[i].text) || end != lookups[i].end) {
			pr_debug("%#" PRIx64 ": %s up to %#" PRIx64 "\n", lookups[i].addr,
				 text, end);
			ret = TEST_FAIL;
		}
	}

	free(data);
	return ret;
}

static int test__sframe_refuse(struct test_suite *test __maybe_unused,
			       int subtest __maybe_unused)
{
	static const struct sframe_row twice[] = {
		ROW_PLAIN(0, RSP, 8, LOC_SAME), ROW_PLAIN(0, RSP, 16, LOC_SAME),
	};
	static const struct sframe_row no_cfa[] = {
		ROW(0, LOC_AT_CFA(8), LOC_AT_CFA(-8), LOC_SAME),
	};
	/* The CFA itself as a value would look like a placeholder. */
	static const struct sframe_row cfa_value[] = {
		ROW(0, LOC_REG(RSP, 8), LOC_AT_CFA(-8), LOC_CFA),
	};
	static const struct sframe_row no_ra[] = {
		ROW(0, LOC_REG(RSP, 8), LOC_SAME, LOC_SAME),
	};
	static const struct sframe_row ra_unknown[] = {
		ROW(0, LOC_REG(RSP, 8), LOC_NONE, LOC_SAME),
	};
	static const struct sframe_row bad_reg[] = {
		ROW(0, LOC_REG(16, 8), LOC_AT_CFA(-8), LOC_SAME),
	};
	/* Only what was read from memory, and only for the CFA. */
	static const struct sframe_row add_to_reg[] = {
		ROW(0, LOC(.base = SFRAME_BASE_REG, .reg = RSP, .off = 8, .add = 8),
		    LOC_AT_CFA(-8), LOC_SAME),
	};
	static const struct sframe_row add_to_ra[] = {
		ROW(0, LOC_REG(RSP, 8), LOC_ADD_AT_REG(RSP, 8, 8), LOC_SAME),
	};
	static const struct sframe_row add_to_fp[] = {
		ROW(0, LOC_REG(RSP, 8), LOC_AT_CFA(-8), LOC_ADD_AT_REG(RSP, 8, 8)),
	};
	/* No value has an index, only an address, and there are 16 registers. */
	static const struct sframe_row index_of_value[] = {
		ROW(0, LOC(.base = SFRAME_BASE_REG, .reg = RSP, .off = 8, .index = 1),
		    LOC_AT_CFA(-8), LOC_SAME),
	};
	static const struct sframe_row index_of_ra[] = {
		ROW(0, LOC_REG(RSP, 8), LOC_INDEX(RSP, 9, 8, 0), LOC_SAME),
	};
	static const struct sframe_row bad_index[] = {
		ROW(0, LOC_INDEX(RSP, 16, 8, 8), LOC_AT_CFA(-8), LOC_SAME),
	};
	static const struct test_function refused[] = {
		/* The previous function ends at 0x1100. */
		{ { .start = 0x10ff, .size = 16, .nr_rows = 1, }, plain },
		{ { .start = 0, .size = 16, .nr_rows = 1, }, plain },
		{ { .start = 0x2000, .size = 0, .nr_rows = 1, }, plain },
		{ { .start = -15ULL, .size = 16, .nr_rows = 1, }, plain },
		{ { .start = 0x2000, .size = 16, }, plain },
		{ { .start = 0x2000, .size = 0xff, .nr_rows = ARRAY_SIZE(plain), }, plain },
		{ { .start = 0x2000, .size = 64, .rep_size = 11, .nr_rows = 2, }, blocks },
		{ { .start = 0x2000, .size = 16, .nr_rows = 2, }, twice },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, no_cfa },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, cfa_value },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, no_ra },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, ra_unknown },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, bad_reg },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, add_to_reg },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, add_to_ra },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, add_to_fp },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, index_of_value },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, index_of_ra },
		{ { .start = 0x2000, .size = 16, .nr_rows = 1, }, bad_index },
	};
	struct sframe_writer *writer = sframe_writer__new();
	int ret = TEST_OK;
	size_t i;

	TEST_ASSERT_VAL("no memory", writer);
	if (sframe_writer__add(writer, &functions[0].function, functions[0].rows))
		ret = TEST_FAIL;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		if (sframe_writer__add(writer, &refused[i].function, refused[i].rows) != -EINVAL) {
			pr_debug("%zu is not refused\n", i);
			ret = TEST_FAIL;
		}
	}

	sframe_writer__delete(writer);
	return ret;
}

/* Read all of a table, which may make no sense. */
static int read_damaged(const u8 *data, size_t size, FILE *null)
{
	void *without = NULL;
	/* Exactly this long, so that sanitizers detect reads beyond it. */
	u8 *copy = malloc(size);
	struct sframe_reader reader;
	struct sframe_rule rule;
	u64 end = ULLONG_MAX;
	bool signal;
	size_t i;
	int err;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, data, size);

	err = sframe_reader__init(&reader, copy, size, 0);
	if (!err) {
		sframe_reader__fprintf(&reader, null);
		sframe_reader__without_add(&reader, &without);
		free(without);
		for (i = 0; i < ARRAY_SIZE(lookups); i++)
			sframe_reader__find(&reader, lookups[i].addr, &rule, &signal, &end);
		err = sframe_reader__check(&reader);
	}

	free(copy);
	return err;
}

static int test__sframe_damaged(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	const size_t fdes = sizeof(struct sframe_header) + sizeof(struct sframe_aux);
	struct sframe_aux aux = { .magic = SFRAME_AUX_MAGIC };
	size_t i, size, refused = 0, ret = TEST_FAIL;
	FILE *null = fopen("/dev/null", "w");
	u8 *data = NULL, saved;
	unsigned int bit;
	void *written;

	/* Otherwise the marks at the end would not be looked for. */
	aux.version = cpu_to_le32(SFRAME_AUX_VERSION);
	TEST_ASSERT_VAL("/dev/null", null);
	if (write_all(&aux, &written, &size))
		goto out;
	data = written;

	if (read_damaged(data, size, null)) {
		pr_debug("a sound table is refused\n");
		goto out;
	}

	/* The rows are last, so a truncated table lacks some of them. */
	for (i = 0; i < size; i++) {
		if (!read_damaged(data, i, null)) {
			pr_debug("%zu of %zu bytes are accepted\n", i, size);
			goto out;
		}
	}

	for (i = 0; i < size; i++) {
		saved = data[i];
		for (bit = 0; bit < BITS_PER_BYTE; bit++) {
			data[i] = saved ^ BIT(bit);
			refused += i >= fdes && read_damaged(data, size, null) == -EINVAL;
			if (i < fdes)
				read_damaged(data, size, null);
		}
		data[i] = saved;
	}
	/* Most offsets still mean something when a bit is flipped, but not all. */
	if (!refused) {
		pr_debug("no damage is noticed\n");
		goto out;
	}

	ret = TEST_OK;
out:
	fclose(null);
	free(data);
	return ret;
}

static struct test_case tests__sframe[] = {
	TEST_CASE("Write and read", sframe_round_trip),
	TEST_CASE("Numbers added to CFAs", sframe_add),
	TEST_CASE("Find", sframe_find),
	TEST_CASE("Refuse", sframe_refuse),
	TEST_CASE("Damaged tables", sframe_damaged),
	{	.name = NULL, }
};

struct test_suite suite__sframe = {
	.desc = "SFrame tables",
	.test_cases = tests__sframe,
};
