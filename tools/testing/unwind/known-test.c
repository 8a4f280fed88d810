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

#include "walker.h"

#include "bench.h"
#include "harness.h"
#include "rules.h"

static struct unwind_user_regions test_sections;
static struct mm_struct test_mm = { .unwind_regions = &test_sections };
static struct task_struct test_task = { .mm = &test_mm };
struct task_struct *current = &test_task;

/* Addresses that look like code; nothing is there. The last mapping is not executable. */
#define MAPPINGS	5
#define MAPPING_SIZE	0x1000UL
#define MAPPING(i)	(0x100000UL * ((i) + 1))
#define DATA		(MAPPINGS - 1)
/* So many addresses in each of them that rules are remembered and replaced */
#define ADDRESSES	12

#define STACK_WORDS	96
#define WORD		sizeof(long)
#define MAX		64

/* The stack is the second third of this memory. */
static unsigned long memory[3 * STACK_WORDS] __aligned(4096);
static unsigned long * const stack_start = memory + STACK_WORDS;
static unsigned long * const stack_end = memory + 2 * STACK_WORDS;

static bool is_readable(const void *addr, unsigned long size)
{
	const char *start = (const char *)memory, *end = start + sizeof(memory);

	return (const char *)addr >= start && (const char *)addr < end &&
	       size <= end - (const char *)addr;
}

/* What the mappings have: a section, a table, both, or nothing */
static struct {
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

	if (i < 0 || i == DATA)
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

	return i >= 0 && i != DATA &&
	       keep_mapping(mapping, MAPPING(i), MAPPING(i) + MAPPING_SIZE);
}

/* Mostly pairs of a frame pointer and a return address, but any word may be there. */
static unsigned long random_word(unsigned int i)
{
	unsigned long here = (unsigned long)&memory[i];

	switch (roll(64)) {
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
	}

	if (i % 2)
		return MAPPING(roll(DATA)) + 1 + roll(ADDRESSES);
	return here + (2 + 2 * roll(3)) * WORD;
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
	case 2:
		rule.cfa.off = roll(64);
		break;
	case 3:
		rule.ra.off = -(int)WORD * (int)roll(3);
		break;
	case 4:
		rule.cfa.deref = !roll(4);
		rule.fp.deref = roll(2);
		rule.outermost = !roll(16);
		rule.signal = !roll(16);
		break;
	}

	return rule;
}

static void random_world(void)
{
	unsigned int i, j;

	for (i = 0; i < MAPPINGS; i++) {
		mappings[i].section = roll(3) == 1;
		mappings[i].table = roll(3) == 1;
		mappings[i].id++;
		for (j = 0; j < ADDRESSES; j++) {
			rules_of[i][j].rule = random_rule();
			rules_of[i][j].ret = roll(6) ? 0 : -ENOENT;
		}
	}
	test_mm.mm_lock_seq += 2;
}

/* What unwind_user_walk() does, by single steps only */
static unsigned int steps(const struct unwind_user_regs *regs, struct unwind_user_rules *rules,
			  unsigned long *entries, struct unwind_user_state *state,
			  enum unwind_user_end *end)
{
	enum unwind_user_result ret = UNWIND_USER_FRAME;
	unsigned int nr = 0;

	unwind_user_start(state, regs, NULL, rules);
	while (nr < MAX) {
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
	unsigned long			expected[MAX];
	unsigned long			entries[MAX];
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

TEST_F(known, same_as_single_steps)
{
	unsigned long walks = 0, frames = 0, known = 0, confined = 0;
	struct unwind_user_state state;
	enum unwind_user_end end;
	unsigned int i, nr, world, stack, again;

	for (world = 0; world < 400; world++) {
		random_world();
		unwind_user_rules_reset(self->rules);
		forget_memo();
		for (stack = 0; stack < 200; stack++) {
			struct unwind_user_regs regs = {
				.ip		= MAPPING(roll(MAPPINGS)) + 1 + roll(ADDRESSES),
				.sp		= (unsigned long)&stack_start[2 * roll(4)],
				.word_size	= WORD,
			};

			for (i = 0; i < ARRAY_SIZE(memory); i++)
				memory[i] = random_word(i);
			regs.fp = regs.sp + 2 * roll(3) * WORD;

			/* Cold, and with what the walks before have remembered */
			for (again = 0; again < 3; again++) {
				nr = steps(&regs, self->rules, self->expected, &state, &end);
				ASSERT_EQ(end, unwind_user_walk(&regs, NULL, self->rules,
								self->entries, MAX, &i))
					TH_LOG("world %u, stack %u", world, stack);
				ASSERT_EQ(nr, i) TH_LOG("world %u, stack %u", world, stack);
				ASSERT_EQ(0, memcmp(self->expected, self->entries,
						    nr * sizeof(*self->entries)))
					TH_LOG("world %u, stack %u", world, stack);
			}

			/* The part without unwind_user_next(), and what it leaves */
			unwind_user_start(&state, &regs, NULL, self->rules);
			i = unwind_user_walk_known(&state, self->entries, MAX);
			ASSERT_LE(i, nr);
			if (i < nr)
				ASSERT_EQ(self->expected[i], state.regs.ip);
			walks++;
			frames += nr;
			known += i;
			confined += state.confined;
		}
	}

	/* Did this test what it should? */
	TH_LOG("%lu walks, %lu frames, %lu known ones, %lu walks confined", walks, frames,
	       known, confined);
	EXPECT_GT(known, frames / 8);
	EXPECT_GT(confined, walks / 16);
}

TEST_HARNESS_MAIN
