/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Forwarded: the harness of the kselftests. Stubbed: its tests end by _exit(),
 * which would lose what they covered.
 */
#ifndef _TEST_UNWIND_HARNESS_H
#define _TEST_UNWIND_HARNESS_H

#include "../selftests/kselftest_harness.h"

#include <linux/compiler.h>

/* Of the compiler's run time, in a build for coverage. */
int __weak __llvm_profile_write_file(void);

static inline void save_coverage(void)
{
	if (__llvm_profile_write_file)
		__llvm_profile_write_file();
}

#endif /* _TEST_UNWIND_HARNESS_H */
