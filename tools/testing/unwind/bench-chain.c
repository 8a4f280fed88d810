// SPDX-License-Identifier: GPL-2.0
/*
 * A thousand functions that call each other in an order that is set at run time,
 * so that a stack has as many different frames as are wanted. They are of several
 * sizes and have up to three exits, like those of real programs.
 */
#include <linux/compiler.h>

#include "bench.h"

static int bench_order[BENCH_FUNCS];
static unsigned int bench_first;

#define FUNC(n)								\
static noinline long bench_func_##n(long depth, const long *p)			\
{										\
	volatile char pad[16 + 0x##n % 7 * 24];				\
	long i, sum = p[0x##n % 8];						\
										\
	pad[0] = sum;								\
	if (sum == 0x##n + 1)							\
		return depth;							\
	sum += bench_next(depth - 1, p);					\
	if (0x##n % 3 && sum == 0x##n + 2)					\
		return pad[0] + p[1];						\
	for (i = 0; i < 0x##n % 5; i++)						\
		sum += pad[i] * p[i];						\
	if (0x##n % 2 && sum == 0x##n + 3)					\
		return bench_next(0, p) + pad[2];				\
	return sum + pad[1];							\
}

#define FUNC_16(n)								\
	FUNC(n##0) FUNC(n##1) FUNC(n##2) FUNC(n##3)				\
	FUNC(n##4) FUNC(n##5) FUNC(n##6) FUNC(n##7)				\
	FUNC(n##8) FUNC(n##9) FUNC(n##a) FUNC(n##b)				\
	FUNC(n##c) FUNC(n##d) FUNC(n##e) FUNC(n##f)
#define FUNC_256(n)								\
	FUNC_16(n##0) FUNC_16(n##1) FUNC_16(n##2) FUNC_16(n##3)		\
	FUNC_16(n##4) FUNC_16(n##5) FUNC_16(n##6) FUNC_16(n##7)		\
	FUNC_16(n##8) FUNC_16(n##9) FUNC_16(n##a) FUNC_16(n##b)		\
	FUNC_16(n##c) FUNC_16(n##d) FUNC_16(n##e) FUNC_16(n##f)

#define NAME(n)		bench_func_##n,
#define NAME_16(n)								\
	NAME(n##0) NAME(n##1) NAME(n##2) NAME(n##3)				\
	NAME(n##4) NAME(n##5) NAME(n##6) NAME(n##7)				\
	NAME(n##8) NAME(n##9) NAME(n##a) NAME(n##b)				\
	NAME(n##c) NAME(n##d) NAME(n##e) NAME(n##f)
#define NAME_256(n)								\
	NAME_16(n##0) NAME_16(n##1) NAME_16(n##2) NAME_16(n##3)		\
	NAME_16(n##4) NAME_16(n##5) NAME_16(n##6) NAME_16(n##7)		\
	NAME_16(n##8) NAME_16(n##9) NAME_16(n##a) NAME_16(n##b)		\
	NAME_16(n##c) NAME_16(n##d) NAME_16(n##e) NAME_16(n##f)

static long bench_next(long depth, const long *p);

FUNC_256(0)
FUNC_256(1)
FUNC_256(2)
FUNC_256(3)

static long (*const bench_funcs[BENCH_FUNCS])(long depth, const long *p) = {
	NAME_256(0)
	NAME_256(1)
	NAME_256(2)
	NAME_256(3)
};

static __always_inline long bench_next(long depth, const long *p)
{
	if (depth <= 0) {
		bench_leaf();
		return 0;
	}
	return bench_funcs[bench_order[bench_first + depth]](depth, p);
}

void bench_chain(unsigned int first, unsigned int depth)
{
	static const long zeros[8];
	unsigned int seed = 1;
	int i, other, swap;

	for (i = 0; i < BENCH_FUNCS; i++)
		bench_order[i] = i;

	/* Any order will do, but it has to be the same each time. */
	for (i = BENCH_FUNCS - 1; i; i--) {
		seed = seed * 1103515245 + 12345;
		other = (seed >> 16) % (i + 1);
		swap = bench_order[i];
		bench_order[i] = bench_order[other];
		bench_order[other] = swap;
	}

	bench_first = first;
	bench_funcs[bench_order[first + depth]](depth, zeros);
}
