// SPDX-License-Identifier: GPL-2.0
/* SHA-256, which shows whether an SFrame table belongs to a file */
#include <string.h>
#include <linux/compiler.h>
#include <linux/kernel.h>

#include "util/debug.h"
#include "util/sha256.h"
#include "tests.h"

#ifdef HAVE_DWARF_SUPPORT

/*
 * Examples from FIPS 180-2, and texts that just fill a block, with padding or without
 */
static const struct {
	const char	*text;
	const char	*digest;
} digests[] = {
	{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnop",
	  "aa353e009edbaebfc6e494c8d847696896cb8b398e0173a4b5c1b636292d87c7" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopqopqrpqrs",
	  "5a5748c5c07341a6c8b2c06ba633247dc04b712d28fd2951cc91160915902d67" },
};

static int test__sframe_cfi_sha256(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	u8 digest[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];
	struct sha256 sha;
	size_t i, j, step;

	for (i = 0; i < ARRAY_SIZE(digests); i++) {
		for (step = 1; step <= SHA256_BLOCK; step++) {
			sha256__init(&sha);
			for (j = 0; j < strlen(digests[i].text); j += step)
				sha256__add(&sha, digests[i].text + j,
					    min(step, strlen(digests[i].text) - j));
			sha256__finish(&sha, digest);

			for (j = 0; j < sizeof(digest); j++)
				scnprintf(hex + 2 * j, sizeof(hex) - 2 * j, "%02x", digest[j]);
			if (!strcmp(hex, digests[i].digest))
				continue;
			pr_debug("'%s' by %zu: %s\n", digests[i].text, step, hex);
			return TEST_FAIL;
		}
	}

	return TEST_OK;
}

#else /* !HAVE_DWARF_SUPPORT */

static int test__sframe_cfi_sha256(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	return TEST_SKIP;
}

#endif /* HAVE_DWARF_SUPPORT */

static struct test_case tests__sha256[] = {
	TEST_CASE_REASON("SHA-256", sframe_cfi_sha256, "not built with libdw"),
	{	.name = NULL, }
};

struct test_suite suite__sha256 = {
	.desc = "SFrame tables, SHA-256",
	.test_cases = tests__sha256,
};
