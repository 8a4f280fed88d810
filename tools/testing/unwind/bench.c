// SPDX-License-Identifier: GPL-2.0
/*
 * What does a frame cost, by each way to find it?
 *
 * One process builds stacks of different functions (bench-chain.c) and walks them
 * with the kernel's own walker, by frame pointers and by SFrame, and with libdw.
 * All give the same return addresses, or this fails.
 *
 * The walker reads memory of this process, see bench-kernel.h. The results do not
 * include the cost of enabling access to user memory, nor work that the kernel does
 * once per walk or once per section.
 *
 * libdw reads registers and stack by callbacks from memory. It is measured twice:
 * once with all data of the program parsed and cached, and once started anew for each
 * stack, with only the module that is needed, as perf report does.
 */
#define _GNU_SOURCE
#include <elfutils/libdwfl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CONFIG_UNWIND_USER_SFRAME
#include <linux/unwind_user.h>

#include "bench.h"
#include "bench-kernel.h"
#include "mapping.h"
#include "regions.h"
#include "sframe.h"

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME	(PT_LOOS + 0x474e554)
#endif

/* Stacks of a common depth, as many as there are functions for. */
#define BENCH_DEPTH	30
#define BENCH_STACKS	32
#define BENCH_STACK_SIZE	(1024 * 1024)

/* Each result is the minimum of this many rounds; a round measures all ways. */
#define BENCH_ROUNDS	20
#define BENCH_WALKS	20

#define DWARF_FP	6
#define DWARF_SP	7
#define DWARF_IP	16

static struct bench_stack {
	ucontext_t context;
	char *memory;
	struct unwind_user_regs regs;
	unsigned long expected[BENCH_DEPTH];
} stacks[BENCH_STACKS];

static struct unwind_user_regions bench_sections;
static struct mm_struct bench_mm = { .unwind_regions = &bench_sections };
static struct task_struct bench_task = { .mm = &bench_mm };
struct task_struct *current = &bench_task;

static struct sframe_section section;
static struct unwind_user_rules *rules;
/* The same section, as if it was supplied. */
static struct sframe_section supplied;
static bool walks_supplied;
static unsigned long load_base;

static ucontext_t main_context;
static struct bench_stack *stack;
static Dwfl *dwfl;

static void __noreturn die(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

bool sframe_read(const struct sframe_section *sec, u32 off, void *buf, u32 size)
{
	if (off > sec->size || size > sec->size - off)
		return false;

	if (sec->data) {
		memcpy(buf, sec->data + off, size);
		return true;
	}

	return unwind_user_read(sec->base + off, buf, size);
}

/* There is one section, for all of the address space. */
int unwind_user_region_find(unsigned long ip, struct unwind_user_region *sec,
			    struct unwind_user_seq *seq)
{
	*sec = (struct unwind_user_region) {
		.end		= TASK_SIZE_MAX,
		.id		= 1,
		.has_sframe	= !walks_supplied,
		.table		= walks_supplied,
		.sframe		= section,
	};
	*seq = (struct unwind_user_seq) { .mm = current->mm->mm_lock_seq };
	return 0;
}

bool unwind_user_region_drop(const struct unwind_user_region *sec,
			     const struct unwind_user_seq *seq,
			     unsigned long ip, const char *flaw)
{
	abort();
}

/* As for a task that has no events */
void unwind_tables_begin(void)
{
}

int unwind_table_find_rule(u64 id, u64 vaddr, struct unwind_user_rule *rule)
{
	return sframe_find_rule(&supplied, vaddr, rule);
}

/* Confined walks call these. */
bool unwind_user_find_stack(unsigned long sp, struct unwind_user_mapping *mapping)
{
	*mapping = (struct unwind_user_mapping) {
		.start	= (unsigned long)stack->memory,
		.end	= (unsigned long)stack->memory + BENCH_STACK_SIZE,
		.seq	= current->mm->mm_lock_seq,
	};
	return true;
}

bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping)
{
	*mapping = (struct unwind_user_mapping) {
		.end	= TASK_SIZE_MAX,
		.seq	= current->mm->mm_lock_seq,
	};
	return true;
}

bool unwind_user_is_unmapped(unsigned long addr)
{
	return false;
}

/* Runs below the frames of a stack, which stays as it is from here on. */
void bench_leaf(void)
{
	unsigned long *frame = __builtin_frame_address(0);

	stack->regs = (struct unwind_user_regs) {
		.ip		= frame[1],
		.sp		= (unsigned long)(frame + 2),
		.fp		= frame[0],
		.word_size	= sizeof(long),
	};
	swapcontext(&stack->context, &main_context);
}

static void build_stack(int nr)
{
	bench_chain(nr * BENCH_DEPTH, BENCH_DEPTH);
}

static void build_stacks(void)
{
	int i;

	static_assert(BENCH_STACKS * BENCH_DEPTH + BENCH_DEPTH <= BENCH_FUNCS,
		      "too few functions");

	for (i = 0; i < BENCH_STACKS; i++) {
		stack = &stacks[i];
		stack->memory = malloc(BENCH_STACK_SIZE);
		if (!stack->memory || getcontext(&stack->context))
			die("no stack");
		stack->context.uc_stack.ss_sp = stack->memory;
		stack->context.uc_stack.ss_size = BENCH_STACK_SIZE;
		stack->context.uc_link = &main_context;
		makecontext(&stack->context, (void (*)(void))build_stack, 1, i);
		swapcontext(&main_context, &stack->context);
	}
}

/* unwind_user_walk() of a kernel without SFrame. */
enum unwind_user_end bench_unwind_user_fp_walk(const struct unwind_user_regs *regs,
					       const struct unwind_user_gprs *gprs,
					       struct unwind_user_rules *rules,
					       unsigned long *entries, unsigned int max,
					       unsigned int *nr);

static unsigned int walk_fp(unsigned long *entries)
{
	unsigned int nr;

	bench_unwind_user_fp_walk(&stack->regs, NULL, NULL, entries, BENCH_DEPTH, &nr);

	return nr;
}

static unsigned int walk_tables(unsigned long *entries)
{
	return unwind_user(&stack->regs, NULL, rules, entries, BENCH_DEPTH);
}

static unsigned int walk_supplied(unsigned long *entries)
{
	return unwind_user(&stack->regs, NULL, rules, entries, BENCH_DEPTH);
}

static pid_t dwarf_next_thread(Dwfl *d, void *arg, void **thread_arg)
{
	if (*thread_arg)
		return 0;

	*thread_arg = arg;
	return getpid();
}

static bool dwarf_memory_read(Dwfl *d, Dwarf_Addr addr, Dwarf_Word *result,
			      void *arg)
{
	unsigned long off = addr - (unsigned long)stack->memory;

	if (off > BENCH_STACK_SIZE - sizeof(long))
		return false;

	*result = *(unsigned long *)addr;
	return true;
}

static bool dwarf_set_registers(Dwfl_Thread *thread, void *arg)
{
	Dwarf_Word pair[] = { stack->regs.fp, stack->regs.sp };
	Dwarf_Word ip = stack->regs.ip;

	dwfl_thread_state_register_pc(thread, ip);
	return dwfl_thread_state_registers(thread, DWARF_FP, ARRAY_SIZE(pair), pair) &&
	       dwfl_thread_state_registers(thread, DWARF_IP, 1, &ip);
}

static const Dwfl_Thread_Callbacks dwarf_callbacks = {
	.next_thread		= dwarf_next_thread,
	.memory_read		= dwarf_memory_read,
	.set_initial_registers	= dwarf_set_registers,
};

struct dwarf_walk {
	unsigned long *entries;
	unsigned int nr;
};

static int dwarf_frame(Dwfl_Frame *frame, void *arg)
{
	struct dwarf_walk *walk = arg;
	Dwarf_Addr ip;

	if (!dwfl_frame_pc(frame, &ip, NULL))
		return DWARF_CB_ABORT;

	walk->entries[walk->nr++] = ip;
	return walk->nr < BENCH_DEPTH ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static unsigned int walk_dwarf(unsigned long *entries)
{
	struct dwarf_walk walk = { .entries = entries };

	dwfl_getthread_frames(dwfl, getpid(), dwarf_frame, &walk);
	return walk.nr;
}

static void start_dwarf(void)
{
	static const Dwfl_Callbacks callbacks = {
		.find_debuginfo	= dwfl_standard_find_debuginfo,
	};

	dwfl = dwfl_begin(&callbacks);
	if (!dwfl || !dwfl_report_elf(dwfl, "bench", "/proc/self/exe", -1, load_base, true) ||
	    dwfl_report_end(dwfl, NULL, NULL) ||
	    !dwfl_attach_state(dwfl, NULL, getpid(), &dwarf_callbacks, stacks))
		die("libdw does not start");
}

static unsigned int walk_dwarf_anew(unsigned long *entries)
{
	Dwfl *kept = dwfl;
	unsigned int nr;

	start_dwarf();
	nr = walk_dwarf(entries);
	dwfl_end(dwfl);

	dwfl = kept;
	return nr;
}

/* The first call is for the program itself; there is no second one. */
static int find_section(struct dl_phdr_info *info, size_t size, void *arg)
{
	int i;

	load_base = info->dlpi_addr;
	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_GNU_SFRAME)
			continue;
		section.base = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		section.size = info->dlpi_phdr[i].p_memsz;
	}

	return 1;
}

/*
 * @walks: walk a stack once with nothing cached, or this often after a first walk that
 * is not measured.
 */
static struct bench_way {
	const char *name;
	unsigned int (*walk)(unsigned long *entries);
	int walks;
	double nsecs;
} ways[] = {
	{ "frame pointers",		walk_fp,	BENCH_WALKS },
	{ "SFrame, rules cached",	walk_tables,	BENCH_WALKS },
	{ "SFrame, none cached",	walk_tables,	1 },
	{ "supplied, rules cached",	walk_supplied,	BENCH_WALKS },
	{ "supplied, none cached",	walk_supplied,	1 },
	{ "libdw",			walk_dwarf,	BENCH_WALKS },
	{ "libdw, begun anew",		walk_dwarf_anew, 1 },
};

static double since(const struct timespec *from)
{
	struct timespec to;

	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from->tv_sec) * 1e9 + to.tv_nsec - from->tv_nsec;
}

/* Nanoseconds per frame, over all stacks. */
static double measure(const struct bench_way *way)
{
	unsigned long entries[BENCH_DEPTH];
	struct timespec from;
	double nsecs = 0;
	int i, walk;

	for (i = 0; i < BENCH_STACKS; i++) {
		stack = &stacks[i];
		forget_memo();
		walks_supplied = way->walk == walk_supplied;
		if (way->walks > 1)
			way->walk(entries);
		clock_gettime(CLOCK_MONOTONIC, &from);
		for (walk = 0; walk < way->walks; walk++) {
			if (way->walk(entries) != BENCH_DEPTH)
				die("a walk ended early");
		}
		nsecs += since(&from);
		if (memcmp(entries, stack->expected, sizeof(entries)))
			die("walks differ");
	}

	return nsecs / BENCH_STACKS / way->walks / BENCH_DEPTH;
}

int main(void)
{
	unsigned int i, round;
	double nsecs;

	dl_iterate_phdr(find_section, NULL);
	if (!section.size)
		die("the linker made no PT_GNU_SFRAME");
	if (sframe_section_init(&section))
		die("the reader refuses the section: use binutils 2.41 or newer");
	supplied = section;
	supplied.data = (const void *)section.base;
	rules = unwind_user_rules_alloc(0);
	if (!rules)
		die("no memory");

	build_stacks();
	start_dwarf();

	for (i = 0; i < BENCH_STACKS; i++) {
		stack = &stacks[i];
		if (walk_fp(stack->expected) != BENCH_DEPTH)
			die("the stack is not what it should be");
	}

	for (round = 0; round < BENCH_ROUNDS; round++) {
		for (i = 0; i < ARRAY_SIZE(ways); i++) {
			nsecs = measure(&ways[i]);
			if (!round || nsecs < ways[i].nsecs)
				ways[i].nsecs = nsecs;
		}
	}

	printf("SFrame version %u, %u FDEs, %u FREs; %u stacks of %u frames\n",
	       section.version, section.num_fdes, section.num_fres, BENCH_STACKS,
	       BENCH_DEPTH);
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		printf("%-24s %9.1f ns/frame %9.2f times frame pointers\n",
		       ways[i].name, ways[i].nsecs, ways[i].nsecs / ways[0].nsecs);

	dwfl_end(dwfl);
	return 0;
}
