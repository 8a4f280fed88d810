/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stubs of the kernel for the walker, which walks over memory of this process, where no
 * read ever faults. All kernel headers that the walker includes are replaced by this
 * one.
 *
 * What costs time on each frame does so here, as far as a process can do it: the
 * counter of pagefault_disable(), the range check of an access and the barrier after
 * it, the sequence number of the mappings. Code that only a fault reaches calls
 * abort().
 */
#ifndef _TEST_UNWIND_BENCH_KERNEL_H
#define _TEST_UNWIND_BENCH_KERNEL_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <asm/barrier.h>
#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/math.h>
#include <linux/types.h>

#include "bench-task.h"

#define CONFIG_PER_VMA_LOCK
#define CONFIG_UPROBES

#ifndef __user
#define __user
#endif
#ifndef IS_ALIGNED
#define IS_ALIGNED(x, a)	(((x) & ((typeof(x))(a) - 1)) == 0)
#endif
#define TASK_SIZE_MAX		((1UL << 47) - 4096)
#define offset_in_page(p)	((unsigned long)(p) & 4095)

#define might_sleep()		do { } while (0)
#define cond_resched()		do { } while (0)

static inline void pr_debug_ratelimited(const char *fmt, ...)
{
}

struct unwind_user_regions;

struct mm_struct {
	unsigned int		mm_lock_seq;
	struct unwind_user_regions *unwind_regions;
};

/* The walker looks at none of these. */
struct elf64_phdr { };
typedef struct { } spinlock_t;
typedef struct { } refcount_t;

struct return_instance {
	unsigned long		stack;
	unsigned long		orig_ret_vaddr;
	struct return_instance	*next;
};

struct uprobe_task {
	struct return_instance	*return_instances;
	struct arch_uprobe	*auprobe;
	void			*active_uprobe;
};

struct task_struct {
	struct mm_struct	*mm;
	struct uprobe_task	*utask;
	struct unwind_task_info	unwind_info;
	u64			unwind_tables_seq;
	unsigned int		flags;
	int			pagefault_disabled;
	int			pid;
	char			comm[16];
};

extern struct task_struct *current;

#define raw_read_seqcount(s)	READ_ONCE(*(s))
#define data_race(expr)		(expr)

#ifndef __rcu
#define __rcu
#endif
#define rcu_access_pointer(p)	READ_ONCE(p)
#define rcu_dereference(p)	READ_ONCE(p)
#define unrcu_pointer(p)	(p)
#define RCU_INITIALIZER(p)	(p)
#define rcu_read_lock()		barrier()
#define rcu_read_unlock()	barrier()
/* There is only one thread, so the end of a guard does nothing. */
#define guard(name)		guard_##name
#define guard_rcu()		barrier()
#define scoped_guard(name)	if (1)

struct rcu_head {
	void			*next;
};

static inline void call_rcu(struct rcu_head *rcu, void (*func)(struct rcu_head *rcu))
{
	func(rcu);
}

static inline unsigned long uprobe_get_trampoline_vaddr(void)
{
	return -1UL;
}

#define TIF_ADDR32		29

static inline bool test_thread_flag(int flag)
{
	return false;
}

#define GFP_KERNEL_ACCOUNT	0
#define __GFP_NOWARN		0
#define __GFP_NORETRY		0

static inline void *kzalloc(size_t size, gfp_t gfp)
{
	return calloc(1, size);
}

static inline void *kcalloc(size_t n, size_t size, gfp_t gfp)
{
	return calloc(n, size);
}

static inline void kfree(const void *addr)
{
	free((void *)addr);
}

#define kvzalloc	kzalloc
#define kvcalloc	kcalloc
#define kvfree		kfree

static inline void pagefault_disable(void)
{
	current->pagefault_disabled++;
	barrier();
}

static inline bool faulthandler_disabled(void)
{
	return current->pagefault_disabled;
}

static inline void pagefault_enable(void)
{
	barrier();
	current->pagefault_disabled--;
}

static inline bool __access_ok(const void __user *addr, unsigned long size)
{
	return (unsigned long)addr <= TASK_SIZE_MAX - size;
}

/* As on x86, for each access after its range check. */
static inline void barrier_nospec(void)
{
	asm volatile("lfence" ::: "memory");
}

static inline bool user_read_access_begin(const void __user *addr,
					  unsigned long size)
{
	if (!__access_ok(addr, size))
		return false;

	barrier_nospec();
	return true;
}

/* As on x86. */
#ifndef array_index_nospec
#define array_index_nospec(index, size)	({				\
	unsigned long _mask;						\
									\
	asm volatile("cmp %1, %2; sbb %0, %0" : "=r" (_mask)		\
		     : "g" ((unsigned long)(size)),			\
		       "r" ((unsigned long)(index)) : "cc");		\
	(typeof(index))((index) & _mask);				\
})
#endif

#define user_read_access_end()			barrier()
/* The label is where a fault leads to. */
#define unsafe_get_user(val, addr, label)	do {		\
	(val) = READ_ONCE(*(addr));				\
	if (0)							\
		goto label;					\
} while (0)

static inline unsigned long
__copy_from_user_inatomic(void *to, const void __user *from, unsigned long size)
{
	memcpy(to, from, size);
	return 0;
}

/* From here on: what only a fault leads to. */
#define VM_READ			0x1
#define VM_IO			0x2
#define VM_PFNMAP		0x4
#define VM_EXEC			0x8
#define PF_EXITING		0x4
#define FAULT_FLAG_ALLOW_RETRY	0x1
#define FAULT_FLAG_KILLABLE	0x2
#define FAULT_FLAG_TRIED	0x4
#define VM_FAULT_COMPLETED	0x1
#define VM_FAULT_RETRY		0x2
#define VM_FAULT_ERROR		0x4

typedef unsigned int vm_fault_t;

struct super_block {
	unsigned long		s_magic;
};

struct inode {
	struct super_block	*i_sb;
};

struct file;

struct vm_area_struct {
	struct mm_struct	*vm_mm;
	unsigned long		vm_flags;
	int			vm_lock_seq;
	struct file		*vm_file;
};

static inline struct inode *file_inode(const struct file *file)
{
	abort();
}

static inline bool vma_is_anonymous(struct vm_area_struct *vma)
{
	abort();
}

static inline bool userfaultfd_armed(struct vm_area_struct *vma)
{
	abort();
}

static inline bool fatal_signal_pending(struct task_struct *task)
{
	return false;
}

static inline void mmap_read_unlock(struct mm_struct *mm)
{
	abort();
}

static inline bool mmap_read_trylock(struct mm_struct *mm)
{
	abort();
}

static inline int mmap_read_lock_killable(struct mm_struct *mm)
{
	abort();
}

static inline struct vm_area_struct *vma_lookup(struct mm_struct *mm,
						unsigned long addr)
{
	abort();
}

static inline vm_fault_t handle_mm_fault(struct vm_area_struct *vma,
					 unsigned long addr, unsigned int flags,
					 void *regs)
{
	abort();
}

struct unwind_user_state;

static inline void trace_unwind_user_walk(unsigned long ip, unsigned int nr,
					  const struct unwind_user_state *state,
					  unsigned int result)
{
}

#endif /* _TEST_UNWIND_BENCH_KERNEL_H */
