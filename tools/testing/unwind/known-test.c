// SPDX-License-Identifier: GPL-2.0
/*
 * Does unwind_user_walk_known() find what unwind_user_next() finds? Both walk stacks of
 * random words by random rules, in memory of this process.
 */
#define CONFIG_UNWIND_USER_SFRAME

#include "bench-kernel.h"

/* Not all of the memory that random words lead to is there. */
static bool is_readable(const void *addr, unsigned long size);

#undef unsafe_get_user
#define unsafe_get_user(val, addr, label)	do {		\
	if (!is_readable(addr, sizeof(*(addr))))		\
		goto label;					\
	memcpy(&(val), addr, sizeof(*(addr)));			\
} while (0)

#define __copy_from_user_inatomic(to, from, size)		\
	(is_readable(from, size) ? memcpy(to, from, size), 0UL : (size))

/* The walk does not wait for it. */
#define mmap_read_lock_killable(mm)	(-EINTR)

/* Where uretprobes let functions return */
#define TRAMPOLINE			0x30000bUL
#define uprobe_get_trampoline_vaddr()	TRAMPOLINE

/* Here they depend on the address. */
#define arch_unwind_user_entry_rule	test_entry_rule
#define arch_unwind_user_after_call	test_after_call

#include "walker.h"

#include "bench.h"
#include "harness.h"
#include "rules.h"

static struct unwind_user_regions test_sections;
static struct mm_struct test_mm = { .unwind_regions = &test_sections };
static struct task_struct test_task = { .mm = &test_mm };
struct task_struct *current = &test_task;

/* Addresses that look like code; nothing is there. The last mapping is never executable. */
#define MAPPINGS	5
#define MAPPING_SIZE	0x1000UL
#define MAPPING(i)	(0x100000UL * ((i) + 1))
#define DATA		(MAPPINGS - 1)
/* So many addresses in each of them that rules are remembered and replaced */
#define ADDRESSES	12

/* Deep enough for more frames than the loop leaves at once */
#define STACK_WORDS	320
#define WORD		sizeof(long)
#define MAX		100

/* The stack is the second third of this memory, perhaps without its last words. */
static unsigned long memory[3 * STACK_WORDS] __aligned(4096);
static unsigned long * const stack_start = memory + STACK_WORDS;
static unsigned long *stack_end = memory + 2 * STACK_WORDS;

/* A word that is not present, or NULL */
static const unsigned long *hole;

static bool is_readable(const void *addr, unsigned long size)
{
	const char *start = addr, *end = start + size, *gap = (const char *)hole;

	return start >= (const char *)memory && end <= (const char *)(memory + 3 * STACK_WORDS) &&
	       (!gap || end <= gap || start >= gap + WORD);
}

/* What the mappings have: a section, a table, both, or nothing */
static struct {
	bool			code;
	bool			section;
	bool			table;
	u64			id;
} mappings[MAPPINGS];

/* Rules of addresses; those of tables are the same, in another order. */
static struct {
	struct unwind_user_rule	rule;
	int			ret;
} rules_of[MAPPINGS][ADDRESSES];

static unsigned long seed;

static unsigned int roll(unsigned int sides)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return (seed >> 33) % sides;
}

static int mapping_of(unsigned long ip)
{
	unsigned int i;

	for (i = 0; i < MAPPINGS; i++) {
		if (ip >= MAPPING(i) && ip < MAPPING(i) + MAPPING_SIZE)
			return i;
	}
	return -1;
}

void unwind_tables_begin(void)
{
}

bool sframe_read(const struct sframe_section *sec, u32 off, void *buf, u32 size)
{
	return false;
}

/* The @base is the number of the mapping. */
int sframe_find_rule_or_flaw(const struct sframe_section *sec, unsigned long ip,
			     struct unwind_user_rule *rule, const char **flaw)
{
	unsigned int i = (ip & (MAPPING_SIZE - 1)) % ADDRESSES;

	*rule = rules_of[sec->base][i].rule;
	return rules_of[sec->base][i].ret;
}

int unwind_table_find_rule(u64 id, u64 vaddr, struct unwind_user_rule *rule)
{
	unsigned int i = (vaddr + 1) % ADDRESSES;

	*rule = rules_of[id - 1][i].rule;
	return rules_of[id - 1][i].ret;
}

bool unwind_user_region_drop(const struct unwind_user_region *section,
			     const struct unwind_user_seq *seq,
			     unsigned long ip, const char *flaw)
{
	return false;
}

int unwind_user_region_find(unsigned long ip, struct unwind_user_region *region,
			    struct unwind_user_seq *seq)
{
	int i = mapping_of(ip);

	if (i < 0 || !mappings[i].code)
		return -ENOENT;

	*region = (struct unwind_user_region) {
		.start		= MAPPING(i),
		.end		= MAPPING(i) + MAPPING_SIZE,
		.id		= mappings[i].id,
		.has_sframe	= mappings[i].section,
		.table		= mappings[i].table ? i + 1 : 0,
		.load_base	= MAPPING(i),
		.sframe		= { .base = i },
	};
	*seq = (struct unwind_user_seq) { .mm = test_mm.mm_lock_seq };
	return 0;
}

static bool keep_mapping(struct unwind_user_mapping *mapping, unsigned long start,
			 unsigned long end)
{
	*mapping = (struct unwind_user_mapping) {
		.start	= start,
		.end	= end,
		.seq	= test_mm.mm_lock_seq,
	};
	return true;
}

bool unwind_user_find_stack(unsigned long sp, struct unwind_user_mapping *mapping)
{
	unsigned long start = (unsigned long)stack_start, end = (unsigned long)stack_end;

	return sp >= start && sp < end && keep_mapping(mapping, start, end);
}

bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping)
{
	int i = mapping_of(ip);

	return i >= 0 && mappings[i].code &&
	       keep_mapping(mapping, MAPPING(i), MAPPING(i) + MAPPING_SIZE);
}

bool unwind_user_is_unmapped(unsigned long addr)
{
	return mapping_of(addr) < 0 && addr - (unsigned long)stack_start >=
	       (unsigned long)stack_end - (unsigned long)stack_start;
}

bool test_entry_rule(const struct unwind_user_state *state, struct unwind_user_rule *rule)
{
	*rule = (struct unwind_user_rule)RULE(LOC_SP(WORD));
	return state->regs.ip % 5 == 1;
}

bool test_after_call(unsigned long ip)
{
	return ip % 7 != 3;
}

/*
 * Mostly pairs of a frame pointer and a return address, but once in @junk words any word.
 * @odd: the pairs begin at odd words.
 */
static unsigned long random_word(unsigned int i, unsigned int junk, bool odd)
{
	unsigned long here = (unsigned long)&memory[i];

	switch (roll(junk)) {
	case 0:
		return 0;
	case 1:
		return TASK_SIZE_MAX - 1 + roll(2);
	case 2:
		return (unsigned long)memory + roll(sizeof(memory) + WORD);
	case 3:
		return (unsigned long)&memory[roll(ARRAY_SIZE(memory))];
	case 4:
		return MAPPING(DATA) + roll(ADDRESSES);
	case 5:
		return MAPPING(roll(DATA)) + roll(2) * MAPPING_SIZE;
	case 6:
		return TRAMPOLINE;
	}

	if (i % 2 != odd)
		return MAPPING(roll(DATA)) + 1 + roll(ADDRESSES);
	return here + (2 + 2 * roll(3)) * WORD;
}

/* Another stack, and what uretprobes have replaced on it */
static void random_stack(struct unwind_user_regs *regs)
{
	static struct return_instance instances[2];
	static struct uprobe_task utask;
	unsigned int i, junk = roll(4) ? 64 : 4096;
	bool odd = !roll(4);

	for (i = 0; i < ARRAY_SIZE(memory); i++)
		memory[i] = random_word(i, junk, odd);
	hole = roll(2) ? &stack_start[roll(40)] : NULL;

	*regs = (struct unwind_user_regs) {
		.ip		= MAPPING(roll(MAPPINGS)) + 1 + roll(ADDRESSES),
		.sp		= (unsigned long)&stack_start[2 * roll(4) + odd],
		.word_size	= WORD,
	};
	regs->fp = regs->sp + 2 * roll(3) * WORD;

	for (i = 0; i < ARRAY_SIZE(instances); i++) {
		unsigned int slot = 2 * roll(12) + !odd;

		stack_start[slot] = TRAMPOLINE;
		instances[i] = (struct return_instance) {
			.stack		= (unsigned long)&stack_start[slot],
			.orig_ret_vaddr	= MAPPING(roll(DATA)) + 1 + roll(ADDRESSES),
			.next		= i ? &instances[0] : NULL,
		};
	}
	utask.return_instances = roll(4) ? NULL : &instances[1];
	current->utask = &utask;
}

static struct unwind_user_rule random_rule(void)
{
	struct unwind_user_rule rule = RULE_FP(LOC_SP((2 + 2 * roll(3)) * WORD),
					       LOC_AT_CFA(-2 * (int)WORD));

	if (roll(2))
		rule.cfa = (struct unwind_user_loc) {
			.base = UNWIND_USER_BASE_FP, .off = 2 * WORD,
		};
	switch (roll(16)) {
	case 0:
		rule.fp = (struct unwind_user_loc) { .base = UNWIND_USER_BASE_SAME };
		break;
	case 1:
		rule.fp.off = -(int)WORD * (int)roll(24);
		break;
	case 5 ... 7:
		rule.fp.off = -(int)WORD * (int)(2 + roll(5));
		break;
	case 2:
		rule.cfa.off = roll(64);
		break;
	case 8:
		if (!roll(4))
			rule.fp = LOC_NONE;
		break;
	case 3:
		rule.ra.off = -(int)WORD * (int)roll(3);
		break;
	case 4:
		rule.cfa.deref = !roll(4);
		rule.fp.deref = roll(2);
		if (rule.cfa.deref && roll(2))
			rule.cfa_add = (int)WORD * ((int)roll(16) - 4);
		rule.outermost = !roll(16);
		rule.signal = !roll(16);
		break;
	}

	return rule;
}

static void random_mapping(unsigned int i)
{
	static u64 id;
	unsigned int j;

	mappings[i].code = i != DATA && roll(8);
	mappings[i].section = roll(3) == 1;
	mappings[i].table = roll(3) == 1;
	mappings[i].id = ++id;
	for (j = 0; j < ADDRESSES; j++) {
		rules_of[i][j].rule = random_rule();
		rules_of[i][j].ret = roll(6) ? 0 : -ENOENT;
	}
	stack_end = stack_start + (roll(2) ? STACK_WORDS : 16 + roll(40));
	test_mm.mm_lock_seq += 2;
}

static const struct unwind_user_gprs zeros;

/* What unwind_user_walk() does, by single steps only */
static unsigned int steps(const struct unwind_user_regs *regs, struct unwind_user_rules *rules,
			  unsigned long *entries, unsigned int max,
			  struct unwind_user_state *state, enum unwind_user_end *end)
{
	enum unwind_user_result ret = UNWIND_USER_FRAME;
	unsigned int nr = 0;

	unwind_user_start(state, regs, &zeros, rules);
	while (nr < max) {
		entries[nr++] = state->regs.ip;
		ret = unwind_user_next(state);
		if (ret != UNWIND_USER_FRAME)
			break;
	}
	*end = unwind_user_ends[ret];
	return nr;
}

FIXTURE(known)
{
	struct unwind_user_rules	*rules;
	struct unwind_user_regs		regs;
	unsigned long			expected[MAX + 1];
	unsigned long			entries[MAX + 1];
	unsigned long			walks;
	unsigned long			frames;
	unsigned long			known;
	unsigned long			confined;
};

FIXTURE_SETUP(known)
{
	self->rules = unwind_user_rules_alloc(0);
	ASSERT_NE(NULL, self->rules);
}

FIXTURE_TEARDOWN(known)
{
	unwind_user_rules_free(self->rules);
	forget_memo();
}

/* Walk both ways, in any order: who comes first looks up what is not valid any more. */
static bool compare(FIXTURE_DATA(known) *self, struct unwind_user_rules *rules)
{
	unsigned int nr = 0, other = 0, max = 1 + roll(MAX);
	enum unwind_user_end end, other_end;
	struct unwind_user_state state;
	bool first = roll(2);

	self->entries[max] = 1;
	if (first)
		nr = steps(&self->regs, rules, self->expected, max, &state, &end);
	other_end = unwind_user_walk(&self->regs, &zeros, rules, self->entries, max, &other);
	if (!first)
		nr = steps(&self->regs, rules, self->expected, max, &state, &end);

	self->walks++;
	self->frames += nr;
	return nr == other && end == other_end && self->entries[max] == 1 &&
	       !memcmp(self->expected, self->entries, nr * sizeof(*self->entries));
}

/* Compare the state that the loop leaves, without unwind_user_next(), to that of steps. */
static bool compare_state(FIXTURE_DATA(known) *self)
{
	struct unwind_user_state loop, state;
	enum unwind_user_end end;
	unsigned int nr;

	unwind_user_start(&loop, &self->regs, &zeros, self->rules);
	nr = unwind_user_walk_known(&loop, self->entries, MAX);
	if (!nr)
		return !loop.confined && loop.regs.ip == self->regs.ip;

	self->known += nr;
	self->confined += loop.confined;
	return steps(&self->regs, self->rules, self->expected, nr, &state, &end) == nr &&
	       end == UNWIND_USER_END_CUT &&
	       !memcmp(self->expected, self->entries, nr * sizeof(*self->entries)) &&
	       loop.regs.ip == state.regs.ip && loop.regs.sp == state.regs.sp &&
	       loop.fp_known == state.fp_known &&
	       (!loop.fp_known || loop.regs.fp == state.regs.fp) &&
	       loop.confined == state.confined && loop.topmost == state.topmost &&
	       loop.gprs_known == state.gprs_known && loop.bottom == state.bottom &&
	       loop.stats.fp == state.stats.fp && loop.stats.table == state.stats.table &&
	       loop.stats.supplied == state.stats.supplied;
}

TEST_F(known, same_as_single_steps)
{
	unsigned int i, world, stack, again;

	for (world = 0; world < 400; world++) {
		for (i = 0; i < MAPPINGS; i++)
			random_mapping(i);
		unwind_user_rules_reset(self->rules);
		forget_memo();
		for (stack = 0; stack < 200; stack++) {
			random_stack(&self->regs);
			/* Cold, with what the walks before have remembered, or outdated */
			for (again = 0; again < 3; again++) {
				ASSERT_TRUE(compare(self, self->rules))
					TH_LOG("world %u, stack %u", world, stack);
				ASSERT_TRUE(compare_state(self))
					TH_LOG("world %u, stack %u", world, stack);
				if (!roll(8))
					random_mapping(roll(MAPPINGS));
			}
			/* There may be no memory for rules. */
			ASSERT_TRUE(compare(self, NULL))
				TH_LOG("world %u, stack %u, no rules", world, stack);
		}
	}

	/* Did this test what it should? */
	TH_LOG("%lu walks, %lu frames, %lu known ones, %lu walks confined", self->walks,
	       self->frames, self->known, self->confined);
	EXPECT_GT(self->known, self->frames / 32);
	EXPECT_GT(self->confined, self->walks / 64);
}

TEST_HARNESS_MAIN
