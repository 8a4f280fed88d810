// SPDX-License-Identifier: GPL-2.0
/*
 * A library that a walk can only unwind with a table: optimized, without frame
 * pointers, and without the section that the assembler made. See sframe_tables.c.
 */
#include "sframe_compiled.h"

#include <stddef.h>
#include <sys/syscall.h>

/* ENTER() stores the return address for comparison; LEAVE() prevents tail calls. */
#define ENTER(r)	((r)->ras[(r)->nr++] = (unsigned long)__builtin_return_address(0))
#define LEAVE()		asm volatile("" ::: "memory")
#define NOINLINE	__attribute__((noinline, noclone))

static void next(struct compiled *r, int depth);

static NOINLINE void leaf(struct compiled *r)
{
	long ret;

	ENTER(r);
	asm volatile("syscall" : "=a" (ret) : "a" (SYS_getpgid), "D" (0L)
		     : "rcx", "r11", "memory");
	r->ret = ret;
}

static NOINLINE void small(struct compiled *r, int depth)
{
	ENTER(r);
	next(r, depth);
	LEAVE();
}

/* The frame pointer is a register like others here. */
static NOINLINE void registers(struct compiled *r, int depth)
{
	long a = r->seed, b = a * 3, c = b ^ 5, d = c + a, e = d * b, f = e - c;

	ENTER(r);
	next(r, depth);
	r->seed = a + b * c - d + (e ^ f);
	LEAVE();
}

static NOINLINE void large(struct compiled *r, int depth)
{
	volatile char buf[5000];

	ENTER(r);
	buf[r->nr] = depth;
	next(r, depth);
	r->seed += buf[r->nr];
	LEAVE();
}

/* This one needs a frame pointer. */
static NOINLINE void variable(struct compiled *r, int depth)
{
	volatile char *buf = __builtin_alloca(16 + (r->seed & 0xff));

	ENTER(r);
	buf[0] = depth;
	next(r, depth);
	r->seed += buf[0];
	LEAVE();
}

/* And this one realigns its stack. */
static NOINLINE void aligned(struct compiled *r, int depth)
{
	volatile char buf[64] __attribute__((aligned(64)));

	ENTER(r);
	buf[0] = depth;
	next(r, depth);
	r->seed += buf[0];
	LEAVE();
}

static NOINLINE void arguments(struct compiled *r, int depth, long a, long b, long c,
			       long d, long e, long f)
{
	ENTER(r);
	next(r, depth + (a + b + c + d + e + f == 1));
	LEAVE();
}

static NOINLINE void next(struct compiled *r, int depth)
{
	ENTER(r);
	if (depth <= 0) {
		leaf(r);
		LEAVE();
		return;
	}
	depth--;
	switch (depth % 6) {
	case 0:
		small(r, depth);
		break;
	case 1:
		registers(r, depth);
		break;
	case 2:
		large(r, depth);
		break;
	case 3:
		variable(r, depth);
		break;
	case 4:
		aligned(r, depth);
		break;
	default:
		arguments(r, depth, 1, 2, 3, 4, 5, r->seed);
	}
	LEAVE();
}

void compiled_run(struct compiled *r, int depth)
{
	ENTER(r);
	next(r, depth);
	LEAVE();
}
