// SPDX-License-Identifier: GPL-2.0
/*
 * Test the documented reader of overwrite buffers at the wraparound of positions, in a
 * 64-bit and in a 32-bit program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "lib/files.h"
#include "lib/positions.h"

TEST(native)
{
	EXPECT_EQ(0, positions_check());

	if (sizeof(long) == sizeof(int)) {
		kernel_is_32bit = 1;
		EXPECT_EQ(0, positions_check());
	}
}

TEST(compat)
{
	const char *path = beside("overwrite_positions32");
	char line[32];
	FILE *out;
	int i;

	if (access(path, X_OK))
		SKIP(return, "the compiler makes no 32-bit programs");

	/* On a 64-bit kernel, then on a 32-bit one. */
	out = popen(path, "r");
	ASSERT_NE(NULL, out);
	for (i = 0; i < 2; i++) {
		if (!fgets(line, sizeof(line), out)) {
			int status = pclose(out);

			/* The shell could not run it. */
			ASSERT_EQ(0, i);
			ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) >= 126);
			SKIP(return, "the kernel runs no 32-bit programs");
		}
		EXPECT_EQ(0, atoi(line)) {
			TH_LOG("on a kernel of %d bits", i ? 32 : 64);
		}
	}
	EXPECT_EQ(0, pclose(out));
}

TEST_HARNESS_MAIN
