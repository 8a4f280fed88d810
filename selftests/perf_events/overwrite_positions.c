// SPDX-License-Identifier: GPL-2.0
/*
 * The documented reader of buffers that the kernel overwrites, where positions wrap
 * around: as a 64-bit and as a 32-bit program.
 */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "overwrite_positions.h"

TEST(native)
{
	EXPECT_EQ(0, positions_check());

	if (sizeof(long) == sizeof(__u32)) {
		kernel_is_32bit = 1;
		EXPECT_EQ(0, positions_check());
	}
}

TEST(compat)
{
	char path[PATH_MAX], line[32];
	ssize_t len;
	FILE *out;
	int i;

	len = readlink("/proc/self/exe", path, sizeof(path) - sizeof("32"));
	ASSERT_LT(0, len);
	strcpy(path + len, "32");
	if (access(path, X_OK))
		SKIP(return, "the compiler makes no 32-bit programs");

	/* On a 64-bit kernel, then on a 32-bit one. */
	out = popen(path, "r");
	ASSERT_NE(NULL, out);
	for (i = 0; i < 2; i++) {
		if (!fgets(line, sizeof(line), out)) {
			pclose(out);
			SKIP(return, "the kernel runs no 32-bit programs");
		}
		EXPECT_EQ(0, atoi(line)) {
			TH_LOG("on a kernel of %d bits", i ? 32 : 64);
		}
	}
	EXPECT_EQ(0, pclose(out));
}

TEST_HARNESS_MAIN
