/* SPDX-License-Identifier: GPL-2.0 */
/* Stubs of the few atomic operations that the cache of rules uses. */
#ifndef _TEST_UNWIND_LINUX_ATOMIC_H
#define _TEST_UNWIND_LINUX_ATOMIC_H

#include <linux/compiler.h>
#include <linux/types.h>

#define cmpxchg(ptr, old, new)	__sync_val_compare_and_swap(ptr, old, new)

static inline int atomic_read(const atomic_t *v)
{
	return READ_ONCE(v->counter);
}

static inline void atomic_set(atomic_t *v, int i)
{
	WRITE_ONCE(v->counter, i);
}

static inline int atomic_cmpxchg(atomic_t *v, int old, int new)
{
	return cmpxchg(&v->counter, old, new);
}

#endif /* _TEST_UNWIND_LINUX_ATOMIC_H */
