/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _TEST_UNWIND_BENCH_H
#define _TEST_UNWIND_BENCH_H

struct unwind_user_rules;

/* How many functions there are to make stacks of. */
#define BENCH_FUNCS	1024

/* Calls bench_leaf() below @depth frames of different functions, from @first on. */
void bench_chain(unsigned int first, unsigned int depth);
void bench_leaf(void);

/* Makes the next walk look up all rules, in sections that are known. */
void forget_memo(void);

#endif /* _TEST_UNWIND_BENCH_H */
