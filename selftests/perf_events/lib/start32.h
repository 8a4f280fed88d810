/* SPDX-License-Identifier: GPL-2.0 */
/* 32-bit programs without a C library; see start32.c. */
#ifndef SELFTESTS_PERF_EVENTS_START32_H
#define SELFTESTS_PERF_EVENTS_START32_H

/* System calls of 32-bit programs. */
#define NR_READ32	3
#define NR_WRITE32	4

/* A system call with three arguments. */
static inline int sys3(int nr, int a, const void *b, int c)
{
	int ret;

	asm volatile("int $0x80" : "=a" (ret)
		     : "a" (nr), "b" (a), "c" (b), "d" (c) : "memory");
	return ret;
}

#endif /* SELFTESTS_PERF_EVENTS_START32_H */
