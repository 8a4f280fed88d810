/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Forwarded: the harness of the kselftests. Its tests end with _exit(), so they save
 * their coverage data before.
 */
#ifndef _TEST_UNWIND_HARNESS_H
#define _TEST_UNWIND_HARNESS_H

#include "../selftests/kselftest_harness.h"

#include <linux/compiler.h>

/* A function of the compiler's runtime, only in a build for coverage. */
int __weak __llvm_profile_write_file(void);

static inline void save_coverage(void)
{
	if (__llvm_profile_write_file)
		__llvm_profile_write_file();
}

#endif /* _TEST_UNWIND_HARNESS_H */
