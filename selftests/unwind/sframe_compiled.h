/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SELFTESTS_UNWIND_SFRAME_COMPILED_H
#define SELFTESTS_UNWIND_SFRAME_COMPILED_H

#define COMPILED_MAX	128

/* Return addresses of compiled_run() and its callees, the outermost first. */
struct compiled {
	unsigned long	ras[COMPILED_MAX];
	unsigned int	nr;
	long		seed;
	long		ret;
};

void compiled_run(struct compiled *r, int depth);

#endif /* SELFTESTS_UNWIND_SFRAME_COMPILED_H */
