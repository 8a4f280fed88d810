// SPDX-License-Identifier: GPL-2.0
/*
 * User stacks that are taken at once, by rules at hand: samples whose callchain is not
 * deferred.
 *
 * The code of the chain misleads whoever follows its frame pointers: to a decoy. So a
 * stack shows whether the walk had the rules.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/bpf.h"
#include "../perf_events/lib/event.h"
#include "../perf_events/lib/known_stack.h"
#include "../perf_events/lib/uprobe.h"
#include "lib/chain.h"
#include "lib/jit.h"
#include "lib/sample.h"
#include "lib/sigframe.h"
#include "lib/table.h"

#ifdef __x86_64__

#define SYSCTL		"/proc/sys/kernel/unwind_user_immediate"
#define TRACEPOINT	"syscalls/sys_enter_getpgid"
/* Samples of a program that has been asked for its rules */
#define WARM		20
/* Frames, more than regions that are looked up for one stack */
#define MANY		40
#define BPF_DEPTH	64

FIXTURE(immediate) {
	struct session s;
	struct jit jit;
	struct image im;
	struct image_map m;
	struct chain c;
	int fd;
	int owner;
	long sysctl;
	long contexts;
	unsigned char table[SFRAME_MAX_SIZE];
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	__u64 misled[2];
};

FIXTURE_VARIANT(immediate) {
	struct sframe_opts sframe;
	/* A table that is supplied, not a section that the program registers */
	bool table;
};

FIXTURE_VARIANT_ADD(immediate, v2) {
	.sframe = { .version = SFRAME_VERSION_2 },
};

FIXTURE_VARIANT_ADD(immediate, v3) {
	.sframe = { .version = SFRAME_VERSION_3 },
};

FIXTURE_VARIANT_ADD(immediate, table) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.table = true,
};

FIXTURE_SETUP(immediate)
{
	const char *why = variant->table ? tables_unsupported() : sframe_unsupported();
	struct image_opts o = { .sframe = variant->sframe, .no_sframe = true };
	struct perf_event_attr attr;
	size_t size;

	self->fd = -1;
	self->owner = -1;
	self->sysctl = -1;
	self->contexts = -1;
	if (!why && read_long(SYSCTL, &self->sysctl))
		why = "no sysctl kernel.unwind_user_immediate";
	if (why)
		SKIP(return, "%s", why);

	if (variant->table) {
		self->owner = owner_open(0, -1, false);
		ASSERT_LE(0, self->owner);
		ASSERT_EQ(0, image_build(&self->im, &o));
		self->fd = make_file(&self->im, NULL);
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(0, image_map(&self->m, &self->im, self->fd, 0));
		size = table_build(self->table, &self->im, &variant->sframe, WHOLE, 0);
		ASSERT_EQ(0, table_supply(self->owner, self->fd, self->table, size, 0));
	} else {
		ASSERT_EQ(0, jit_init(&self->jit, &variant->sframe));
		ASSERT_EQ(0, jit_add(&self->jit));
		self->m = self->jit.map;
	}
	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_sp);
	chain_add(&self->c, &self->m, code_keep);
	chain_add(&self->c, &self->m, code_leaf);
	self->nr_want = chain_expect(&self->c, self->want, LEAF_IP(&self->m), -1);
	self->misled[0] = self->want[0];
	self->misled[1] = DECOY(&self->m);

	attr = tp_attr(TRACEPOINT_ID(TRACEPOINT), 0);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
}

FIXTURE_TEARDOWN(immediate)
{
	session_close(&self->s);
	if (self->sysctl >= 0)
		EXPECT_EQ(0, write_long(SYSCTL, self->sysctl));
	if (self->contexts >= 0)
		EXPECT_EQ(0, write_long(SYSCTL_MAX_CONTEXTS, self->contexts));
	if (self->owner >= 0) {
		close(self->owner);
		image_unmap(&self->m);
		image_free(&self->im);
	} else {
		jit_free(&self->jit);
	}
	if (self->fd >= 0)
		close(self->fd);
}

/* The user part of the i-th sample's callchain. */
static int user_stack(struct session *s, unsigned int i, const __u64 **ips)
{
	const struct log_item *it = log_nth(&s->log, PERF_RECORD_SAMPLE, i);

	if (!it || it->cookie)
		return -1;
	return defer_user_chain(&s->log, it, ips);
}

/*
 * The sample asks for the rules, and later ones have them. Tables tell enough for the first
 * one.
 */
TEST_F(immediate, stack)
{
	const __u64 *ips = NULL;
	unsigned int i;
	int nr;

	for (i = 0; i < 1 + WARM; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(1 + WARM, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	EXPECT_EQ(0, log_count(&self->s.log, DEFER_RECORD));

	nr = user_stack(&self->s, 0, &ips);
	EXPECT_TRUE(variant->table ? stack_same(ips, nr, self->want, self->nr_want) :
				     stack_same(ips, nr, self->misled, 2)) {
		TH_LOG("cold");
	}
	for (i = 1; i < 1 + WARM; i++) {
		nr = user_stack(&self->s, i, &ips);
		EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want)) {
			TH_LOG("sample %u", i);
		}
	}
}

/* Two files take turns in the stack, and nobody has looked at either before. */
TEST_F(immediate, two_files)
{
	struct image_map other;
	const __u64 *ips = NULL;
	unsigned int i;
	int nr;

	if (!variant->table)
		SKIP(return, "rules of a section are not at hand for a first sample");

	ASSERT_EQ(0, image_map(&other, &self->im, self->fd, 0));
	chain_begin(&self->c, &self->m);
	for (i = 0; i < MANY; i++)
		chain_add(&self->c, i % 2 ? &other : &self->m, code_keep);
	chain_add(&self->c, &self->m, code_leaf);
	self->nr_want = chain_expect(&self->c, self->want, LEAF_IP(&self->m), -1);
	chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	nr = user_stack(&self->s, 0, &ips);
	EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want));
	image_unmap(&other);
}

/*
 * The table is replaced. What is remembered of the old one does not use up the lookups that the
 * outermost frames need.
 */
TEST_F(immediate, table_replaced)
{
	struct image_map other;
	const __u64 *ips = NULL;
	unsigned int i;
	size_t size;
	int nr;

	if (!variant->table)
		SKIP(return, "a section that is registered anew is looked at in task context");

	ASSERT_EQ(0, image_map(&other, &self->im, self->fd, 0));
	chain_begin(&self->c, &other);
	chain_add(&self->c, &other, code_sp);
	for (i = 0; i < MANY; i++)
		chain_add(&self->c, &self->m, code_keep);
	chain_add(&self->c, &self->m, code_leaf);
	self->nr_want = chain_expect(&self->c, self->want, LEAF_IP(&self->m), -1);
	for (i = 0; i < 2; i++)
		chain_sample(&self->c);
	close(self->owner);
	self->owner = owner_open(0, -1, false);
	ASSERT_LE(0, self->owner);
	size = table_build(self->table, &self->im, &variant->sframe, WHOLE, 0);
	ASSERT_EQ(0, table_supply(self->owner, self->fd, self->table, size, 0));
	for (i = 0; i < 2; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(4, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 1; i < 4; i++) {
		nr = user_stack(&self->s, i, &ips);
		EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want)) {
			TH_LOG("sample %u", i);
		}
	}
	image_unmap(&other);
}

/* The first sample is taken while the mmap lock is held for writing. */
TEST_F(immediate, first_sample_in_change)
{
	struct code_call call = { .nr = __NR_munmap };
	struct perf_event_attr attr;
	struct session tree;
	const __u64 *ips = NULL;
	void *page;
	int nr;

	if (!variant->table)
		SKIP(return, "rules of a section are not at hand for a first sample");

	attr = tp_attr(TRACEPOINT_ID("maple_tree/ma_write"), 0);
	ASSERT_EQ(0, session_open(&tree, &attr, 0, -1, SESSION_PAGES));
	page = mmap(NULL, IMAGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	call.args[0] = (long)page;
	call.args[1] = IMAGE_PAGE;
	ASSERT_EQ(0, session_enable(&tree));
	chain_run(&self->c, &call, 1);
	ASSERT_EQ(0, session_finish(&tree));
	nr = user_stack(&tree, 0, &ips);
	EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want));
	session_close(&tree);
}

/* Without the sysctl, nothing is asked for, and frame pointers are followed. */
TEST_F(immediate, sysctl)
{
	const __u64 *ips = NULL;
	unsigned int i;
	bool whole;
	int nr;

	ASSERT_EQ(0, write_long(SYSCTL, 0));
	for (i = 0; i < 3; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, write_long(SYSCTL, 1));
	for (i = 0; i < 2; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, write_long(SYSCTL, 0));
	chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(6, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 0; i < 6; i++) {
		nr = user_stack(&self->s, i, &ips);
		whole = i == 4 || (i == 3 && variant->table);
		EXPECT_TRUE(whole ? stack_same(ips, nr, self->want, self->nr_want) :
				    stack_same(ips, nr, self->misled, 2)) {
			TH_LOG("sample %u", i);
		}
	}
}

/* If there is no room for the mark in front of the user part, there is no user part. */
TEST_F(immediate, no_room_for_the_mark)
{
	struct perf_event_attr attr = tp_attr(TRACEPOINT_ID("raw_syscalls/sys_enter"), 0);
	const struct log_item *it;
	unsigned int i, j;
	char filter[16];

	snprintf(filter, sizeof(filter), "id == %d", __NR_getpgid);
	if (variant->table)
		SKIP(return, "the owner of the table is an event with callchains");
	/* No such event may exist while it is written. */
	session_close(&self->s);
	ASSERT_EQ(0, read_long(SYSCTL_MAX_CONTEXTS, &self->contexts));
	ASSERT_EQ(0, write_long(SYSCTL_MAX_CONTEXTS, 1)) {
		TH_LOG("%s", strerror(errno));
	}
	/* Unlike that of one system call, this event has kernel registers. */
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < 1 + WARM; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(1 + WARM, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 0; i < 1 + WARM; i++) {
		it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i);
		ASSERT_LT(1, it->nr);
		EXPECT_EQ((__u64)PERF_CONTEXT_KERNEL, it->ips[0]);
		for (j = 0; j < it->nr && it->ips[j] >> 63; j++)
			;
		EXPECT_EQ(it->nr, j) {
			TH_LOG("sample %u: user addresses after kernel addresses", i);
		}
	}
}

/* What the program of BPF stores: the helper's result, then the addresses. */
struct bpf_stack {
	__s64	ret;
	__u64	ips[BPF_DEPTH];
};

/* value.ret = bpf_get_stack(ctx, value.ips, size, BPF_F_USER_STACK) */
static int prog_user_stack(int map)
{
	const struct bpf_insn insns[] = {
		LOOKUP_FIRST(map, 7),
		MOV_REG(BPF_REG_1, BPF_REG_6),
		MOV_REG(BPF_REG_2, BPF_REG_7),
		ADD_IMM(BPF_REG_2, 8),
		MOV_IMM(BPF_REG_3, BPF_DEPTH * 8),
		MOV_IMM(BPF_REG_4, BPF_F_USER_STACK),
		CALL(BPF_FUNC_get_stack),
		STX_DW(BPF_REG_7, 0, BPF_REG_0),
		/* No sample. */
		MOV_IMM(BPF_REG_0, 0),
		EXIT_INSN(),
	};

	return prog_load(BPF_PROG_TYPE_TRACEPOINT, insns, ARRAY_SIZE(insns));
}

/* bpf_get_stack() has the same stacks. */
TEST_F(immediate, bpf)
{
	struct bpf_stack got;
	unsigned int i;
	int map, prog;

	map = map_create(BPF_MAP_TYPE_ARRAY, sizeof(got), 1);
	if (map < 0)
		SKIP(return, "bpf(BPF_MAP_CREATE): %s", strerror(errno));
	prog = prog_user_stack(map);
	ASSERT_LE(0, prog);
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_BPF, prog)) {
		TH_LOG("%s", strerror(errno));
	}
	for (i = 0; i < 4; i++) {
		chain_sample(&self->c);
		ASSERT_EQ(0, map_lookup(map, 0, &got));
		EXPECT_TRUE(i || variant->table ?
			    stack_same(got.ips, got.ret / 8, self->want, self->nr_want) :
			    stack_same(got.ips, got.ret / 8, self->misled, 2)) {
			TH_LOG("stack %u: %lld bytes", i, (long long)got.ret);
		}
	}
	close(prog);
	close(map);
}

/* Other mappings come and go: the rules stay at hand. */
TEST_F(immediate, mappings_change)
{
	const __u64 *ips = NULL;
	unsigned int i;
	void *page;
	int nr;

	for (i = 0; i < 2 * WARM; i++) {
		chain_sample(&self->c);
		if (i % 2)
			continue;
		page = mmap(NULL, IMAGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, page);
		ASSERT_EQ(0, munmap(page, IMAGE_PAGE));
	}
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(2 * WARM, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 1; i < 2 * WARM; i++) {
		nr = user_stack(&self->s, i, &ips);
		EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want)) {
			TH_LOG("sample %u", i);
		}
	}
}

/*
 * Code in no file, in the middle of the stack. After each change of mappings it has to be looked
 * up again, but not for each of its frames.
 */
TEST_F(immediate, code_in_no_file)
{
	struct image_map outer;
	const __u64 *ips = NULL;
	struct jit bare, jit;
	unsigned int i;
	void *page;
	int nr;

	if (variant->table) {
		ASSERT_EQ(0, image_map(&outer, &self->im, self->fd, 0));
	} else {
		ASSERT_EQ(0, jit_init(&jit, &variant->sframe));
		ASSERT_EQ(0, jit_add(&jit));
		outer = jit.map;
	}
	ASSERT_EQ(0, jit_init(&bare, &variant->sframe));
	chain_begin(&self->c, &outer);
	chain_add(&self->c, &outer, code_sp);
	for (i = 0; i < MANY; i++)
		chain_add(&self->c, &bare.map, code_fp);
	chain_add(&self->c, &self->m, code_keep);
	chain_add(&self->c, &self->m, code_leaf);
	self->nr_want = chain_expect(&self->c, self->want, LEAF_IP(&self->m), -1);

	for (i = 0; i < 1 + WARM; i++) {
		chain_sample(&self->c);
		page = mmap(NULL, IMAGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, page);
		ASSERT_EQ(0, munmap(page, IMAGE_PAGE));
	}
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(1 + WARM, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 1; i < 1 + WARM; i++) {
		nr = user_stack(&self->s, i, &ips);
		EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want)) {
			TH_LOG("sample %u", i);
		}
	}
	if (variant->table) {
		image_unmap(&outer);
	} else {
		EXPECT_EQ(0, jit_del(&jit));
		jit_free(&jit);
	}
	jit_free(&bare);
}

/*
 * Let the leaf have the kernel drop code, and check the stacks of the page faults when it goes on:
 * the code cannot be read.
 */
static void check_drops(struct __test_metadata *_metadata, FIXTURE_DATA(immediate) *self,
			unsigned long start, unsigned long len, unsigned int times)
{
	struct code_call drop = { .nr = __NR_madvise, .args = { start, len, MADV_DONTNEED } };
	struct perf_event_attr attr;
	struct session faults;
	const __u64 *ips = NULL;
	unsigned int i, n, nr_leaf = 0;
	int nr;

	attr = event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1, 0);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, session_open(&faults, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&faults));
	/* The fault on its first function makes the kernel know that there is a table. */
	chain_run(&self->c, &(struct code_call) { .nr = __NR_getpid }, 1);
	for (i = 0; i < times; i++)
		chain_run(&self->c, &drop, 1);
	ASSERT_EQ(0, session_finish(&faults));
	n = log_count(&faults.log, PERF_RECORD_SAMPLE);
	for (i = 0; i < n; i++) {
		nr = user_stack(&faults, i, &ips);
		if (nr <= 0 || ips[0] != LEAF_IP(&self->m))
			continue;
		nr_leaf++;
		EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want)) {
			TH_LOG("sample %u of %u", i, n);
		}
	}
	EXPECT_EQ(times, nr_leaf);
	session_close(&faults);
}

/* The leaf's own page: its table has a rule. */
TEST_F(immediate, absent_code)
{
	if (!variant->table)
		SKIP(return, "not a file whose pages can be dropped");

	check_drops(_metadata, self, LEAF_IP(&self->m) & -IMAGE_PAGE, IMAGE_PAGE, WARM);
}

/*
 * The whole chain, whose rules nobody has looked up before: only the table tells how to leave a
 * function whose code cannot be read.
 */
TEST_F(immediate, absent_callers)
{
	if (!variant->table)
		SKIP(return, "not a file whose pages can be dropped");

	check_drops(_metadata, self, self->m.text, image_round(code_end - code_begin), 1);
}

/* Samples while the mmap lock is held for writing: the rules are at hand. */
TEST_F(immediate, mappings_are_being_changed)
{
	struct code_call calls[] = {
		{ .nr = __NR_brk },
		{ .nr = __NR_brk },
		{ .nr = __NR_mprotect, .args = { 0, IMAGE_PAGE, PROT_READ } },
		{ .nr = __NR_munmap, .args = { 0, 2 * IMAGE_PAGE } },
	};
	struct perf_event_attr attr;
	struct session tree;
	const __u64 *ips = NULL;
	unsigned int i, n;
	void *pages;
	int nr;

	attr = tp_attr(TRACEPOINT_ID("maple_tree/ma_write"), 0);
	ASSERT_EQ(0, session_open(&tree, &attr, 0, -1, SESSION_PAGES));
	for (i = 0; i < 2; i++)
		chain_sample(&self->c);
	for (i = 0; i < WARM; i++) {
		pages = mmap(NULL, 2 * IMAGE_PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, pages);
		calls[0].args[0] = (long)sbrk(0) + IMAGE_PAGE;
		calls[1].args[0] = (long)sbrk(0);
		calls[2].args[0] = (long)pages;
		calls[3].args[0] = (long)pages;
		ASSERT_EQ(0, session_enable(&tree));
		chain_run(&self->c, calls, ARRAY_SIZE(calls));
		ASSERT_EQ(0, session_disable(&tree));
	}
	ASSERT_EQ(0, session_finish(&tree));
	n = log_count(&tree.log, PERF_RECORD_SAMPLE);
	EXPECT_LE(4 * WARM, n);
	for (i = 0; i < n; i++) {
		nr = user_stack(&tree, i, &ips);
		EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want)) {
			TH_LOG("sample %u of %u", i, n);
		}
	}
	session_close(&tree);
}

/* Something else is mapped there, or the section is removed: the rules are not used. */
TEST_F(immediate, code_changes)
{
	const __u64 *ips = NULL;
	struct image_map m;
	unsigned int i;
	int nr, fd = -1;

	for (i = 0; i < 2; i++)
		chain_sample(&self->c);
	if (variant->table) {
		/* The same bytes, but not the file that the table is for */
		fd = make_file(&self->im, NULL);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, image_map(&m, &self->im, fd, self->m.base));
	} else {
		ASSERT_EQ(0, jit_del(&self->jit));
	}
	for (i = 0; i < 2; i++)
		chain_sample(&self->c);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(4, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 1; i < 4; i++) {
		nr = user_stack(&self->s, i, &ips);
		EXPECT_TRUE(i == 1 ? stack_same(ips, nr, self->want, self->nr_want) :
				     stack_same(ips, nr, self->misled, 2)) {
			TH_LOG("sample %u", i);
		}
	}
	if (fd >= 0)
		close(fd);
}

/* A function that has a frame pointer but no rules. It ends a chain whose code has rules. */
asm("	.pushsection .text, \"ax\"\n"
"	.balign 16\n"
"probe_entry:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	pop	%rbp\n"
"	ret\n"
"	.popsection\n"
);
extern char probe_entry[];

/*
 * The uprobe's breakpoint is where the function sets up its frame, and the handler is the
 * only one to ask for rules.
 */
TEST_F(immediate, uprobe)
{
	struct perf_event_attr attr;
	struct session probe;
	const __u64 *ips = NULL;
	unsigned int i;
	int nr;

	if (uprobe_attr(&attr, probe_entry, false, 0))
		SKIP(return, "no uprobe events (CONFIG_UPROBE_EVENTS)");
	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_sp);
	chain_add(&self->c, &self->m, code_keep);
	self->c.plan[self->c.nr_plan++] = (__u64)probe_entry;
	self->nr_want = chain_expect(&self->c, self->want, (__u64)probe_entry, -1);

	ASSERT_EQ(0, session_open(&probe, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&probe));
	for (i = 0; i < 1 + WARM; i++)
		chain_run(&self->c, NULL, 0);
	ASSERT_EQ(0, session_finish(&probe));
	EXPECT_EQ(1 + WARM, log_count(&probe.log, PERF_RECORD_SAMPLE));
	for (i = 1; i < 1 + WARM; i++) {
		nr = user_stack(&probe, i, &ips);
		EXPECT_TRUE(stack_same(ips, nr, self->want, self->nr_want)) {
			TH_LOG("sample %u", i);
		}
	}
	session_close(&probe);
}

/* mov $__NR_rt_sigreturn, %eax; syscall */
static const unsigned char restorer[] = { 0xb8, 15, 0, 0, 0, 0x0f, 0x05 };

/* A handler returns to code that has not run before, so it is not present. */
TEST_F(immediate, absent_restorer)
{
	const __u64 *ips = NULL;
	unsigned int i, nr_want = 0;
	__u64 want[64];
	void *code;
	int fd, nr;

	fd = memfd_create("restorer", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(sizeof(restorer), write(fd, restorer, sizeof(restorer)));
	code = mmap(NULL, IMAGE_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, code);
	ASSERT_EQ(0, set_handler(SIGUSR1, (__u64)fp_handler, code, 0));
	/* Programs without rules are walked as before. */
	for (i = 0; i < 2; i++)
		chain_sample(&self->c);
	for (i = 0; i < 2; i++)
		run_walk_kill(NULL);
	ASSERT_EQ(0, session_finish(&self->s));

	want_ip(want, &nr_want, fp_handler_ip);
	want_ip(want, &nr_want, code);
	nr_want += known_expect(want + nr_want, ID, BITS, walk_syscall_ip);
	ASSERT_EQ(4, log_count(&self->s.log, PERF_RECORD_SAMPLE));
	for (i = 2; i < 4; i++) {
		nr = user_stack(&self->s, i, &ips);
		EXPECT_TRUE(stack_same(ips, nr, want, nr_want)) {
			TH_LOG("sample %u", i);
		}
	}
	munmap(code, IMAGE_PAGE);
	close(fd);
}

#else /* !__x86_64__ */

TEST(immediate)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
