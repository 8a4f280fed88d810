// SPDX-License-Identifier: GPL-2.0
/*
 * The walker by rules that somebody else than the program supplies: what it reads,
 * and where it goes on. Its memory is that of this process.
 */
#define CONFIG_UNWIND_USER_SFRAME

#include "../../../kernel/unwind/user.c"
#include "../../../kernel/unwind/rules.c"

#include "harness.h"
#include "rules.h"

static struct unwind_user_sections test_sections;
static struct mm_struct test_mm = { .unwind_sections = &test_sections };
static struct task_struct test_task = { .mm = &test_mm };
struct task_struct *current = &test_task;

/* Addresses that look like code, in two mappings; nothing is there. */
#define CODE		0x100000UL
#define CODE_END	0x101000UL
#define OTHER		0x200000UL
#define OTHER_END	0x201000UL

#define STACK_WORDS	128
/* Where walks begin. */
#define STACK_SP	64

static struct {
	unsigned long		below[STACK_WORDS];
	unsigned long		stack[STACK_WORDS];
	unsigned long		above[STACK_WORDS];
} memory __aligned(4096);

/* What there is for CODE, and by whom; elsewhere are frame pointers. */
static struct unwind_user_rule rule_of_code;
static bool rule_supplied;
static unsigned int stack_lookups;
static unsigned int code_lookups;
static unsigned int section_lookups;

/* The program's own section for CODE: is it corrupt, and what came of that? */
static bool section_corrupt;
static bool section_droppable = true;
static bool section_dropped;
static unsigned int section_reads;
static unsigned int section_drops;

/* The tables that serve the task: what they are now, and what lookups find gone. */
static u64 tables_seq = 1;
static unsigned int gone;

void unwind_tables_begin(void)
{
	test_task.unwind_tables_seq = tables_seq;
}

struct unwind_user_shared *unwind_user_shared_replace(struct unwind_user_shared *old,
						      struct unwind_user_shared *new)
{
	struct unwind_user_shared *was = current->mm->unwind_sections->shared;

	if (was == old)
		current->mm->unwind_sections->shared = new;
	return was;
}

bool sframe_read(const struct sframe_section *sec, u32 off, void *buf, u32 size)
{
	return false;
}

int sframe_find_rule_or_flaw(const struct sframe_section *sec, unsigned long ip,
			     struct unwind_user_rule *rule, const char **flaw)
{
	section_reads++;
	if (section_corrupt) {
		*flaw = "a test";
		return -EINVAL;
	}

	*rule = rule_of_code;
	return 0;
}

bool unwind_user_section_drop(const struct unwind_user_section *section,
			      const struct unwind_user_seq *seq,
			      unsigned long ip, const char *flaw)
{
	section_drops++;
	if (!section_droppable)
		return false;

	section_dropped = true;
	return true;
}

int unwind_table_find_rule(u64 id, u64 vaddr, struct unwind_user_rule *rule)
{
	if (gone) {
		gone--;
		return -ESTALE;
	}

	*rule = rule_of_code;
	return 0;
}

int unwind_user_section_find(unsigned long ip, struct unwind_user_section *section,
			     struct unwind_user_seq *seq)
{
	section_lookups++;
	if (ip < CODE || ip >= CODE_END)
		return -ENOENT;

	*section = (struct unwind_user_section) {
		.start		= CODE,
		.end		= CODE_END,
		.id		= tables_seq + 1000 * section_dropped,
		.has_sframe	= !rule_supplied && !section_dropped,
		.table		= rule_supplied,
	};
	*seq = (struct unwind_user_seq) {
		.mm	= test_mm.mm_lock_seq,
		.tables	= unwind_tables_current(),
	};
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
	unsigned long start = (unsigned long)memory.stack;
	unsigned long end = (unsigned long)memory.above;

	stack_lookups++;
	return sp >= start && sp < end && keep_mapping(mapping, start, end);
}

bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping)
{
	code_lookups++;
	if (ip >= CODE && ip < CODE_END)
		return keep_mapping(mapping, CODE, CODE_END);
	if (ip >= OTHER && ip < OTHER_END)
		return keep_mapping(mapping, OTHER, OTHER_END);

	return false;
}

/* ---- Walks ------------------------------------------------------------------- */

#define WORD		sizeof(long)
#define MAX		16

FIXTURE(walk)
{
	struct unwind_user_rules	*rules;
	unsigned long			entries[MAX];
};

FIXTURE_SETUP(walk)
{
	self->rules = unwind_user_rules_alloc(0);
	ASSERT_NE(NULL, self->rules);
}

FIXTURE_TEARDOWN(walk)
{
	unwind_user_rules_free(self->rules);
	unwind_user_shared_free(test_sections.shared);
	test_sections.shared = NULL;
}

/* One word above the stack pointer is the return address, to OTHER. */
#define SLOT		(STACK_SP + 1)
#define RIGHT_RA	(OTHER + 0x20)

/* A register has it, too; the others point above the stack. */
#define RA_REG		4
#define ABOVE_REG	3

/* Follow @rule once from CODE, and what comes after that. */
static unsigned int walk(FIXTURE_DATA(walk) *self, struct unwind_user_rule rule,
			 bool supplied)
{
	struct unwind_user_regs regs = {
		.ip		= CODE + 0x10,
		.sp		= (unsigned long)&memory.stack[STACK_SP],
		.fp		= (unsigned long)&memory.stack[STACK_SP],
		.word_size	= WORD,
	};
	struct unwind_user_gprs gprs = { };
	unsigned int i;

	for (i = 0; i < UNWIND_USER_NR_GPRS; i++)
		gprs.reg[i] = (unsigned long)memory.above;
	gprs.reg[RA_REG] = RIGHT_RA;

	/* As a table that takes the place of another one. */
	tables_seq++;
	rule_of_code = rule;
	rule_supplied = supplied;

	return unwind_user(&regs, &gprs, self->rules, self->entries, MAX);
}

static void frame(unsigned long ra)
{
	memset(&memory, 0, sizeof(memory));
	memory.stack[SLOT] = ra;
	memory.above[0] = 0;
	memory.above[1] = OTHER + 0x30;
}

static const struct unwind_user_rule right =
	RULE_FP(LOC_SP(2 * WORD), LOC_AT_CFA(-2 * (int)WORD));

#define EXPECT_WALK(nr, rule, supplied, ...) do {			\
	struct unwind_user_rule __rule = rule;				\
									\
	EXPECT_EQ(nr, walk(self, __rule, supplied)) TH_LOG("" __VA_ARGS__);	\
} while (0)

TEST_F(walk, right)
{
	frame(RIGHT_RA);
	EXPECT_WALK(2, right, true);
	EXPECT_EQ(RIGHT_RA, self->entries[1]);
	EXPECT_EQ(1, stack_lookups);
	EXPECT_EQ(1, code_lookups);

	/* What is cached is confined, too, and asks nobody. */
	EXPECT_EQ(2, walk(self, right, true));
	stack_lookups = 0;
	code_lookups = 0;
	{
		struct unwind_user_regs regs = {
			.ip = CODE + 0x10, .sp = (unsigned long)&memory.stack[STACK_SP],
			.fp = 0, .word_size = WORD,
		};

		EXPECT_EQ(2, unwind_user(&regs, NULL, self->rules, self->entries, MAX));
		EXPECT_EQ(0, stack_lookups);
		EXPECT_EQ(0, code_lookups);
		memory.stack[SLOT] = CODE_END + 2;
		EXPECT_EQ(1, unwind_user(&regs, NULL, self->rules, self->entries, MAX));

		/* Mappings have changed. */
		memory.stack[SLOT] = RIGHT_RA;
		test_mm.mm_lock_seq++;
		EXPECT_EQ(2, unwind_user(&regs, NULL, self->rules, self->entries, MAX));
		EXPECT_EQ(1, stack_lookups);
	}
}

/* When tables change a task looks again, and when the one that it found has gone. */
TEST_F(walk, changes)
{
	struct unwind_user_regs regs = {
		.ip = CODE + 0x10, .sp = (unsigned long)&memory.stack[STACK_SP],
		.fp = 0, .word_size = WORD,
	};
	static const struct {
		bool		changed;
		unsigned int	gone;
		unsigned int	lookups;
		unsigned int	found;
	} tests[] = {
		/* OTHER has nothing, which is not remembered. */
		{ false, 0, 1, 2 },
		{ true,  0, 2, 2 },
		{ false, 0, 1, 2 },
		/* No rule is remembered, and the table that is found has gone. */
		{ true,  1, 3, 2 },
		{ true,  7, 9, 2 },
		/* Not for ever; what is there otherwise is a frame pointer of zero. */
		{ true,  8, 8, 1 },
		{ false, 0, 1, 2 },
	};
	unsigned int i;

	frame(RIGHT_RA);
	EXPECT_WALK(2, right, true);
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		section_lookups = 0;
		tables_seq += tests[i].changed;
		gone = tests[i].gone;
		EXPECT_EQ(tests[i].found, unwind_user(&regs, NULL, self->rules,
						      self->entries, MAX)) TH_LOG("%u", i);
		EXPECT_EQ(tests[i].lookups, section_lookups) TH_LOG("%u", i);
	}
}

/* Of a section that is corrupt not more than one address is looked up. */
TEST_F(walk, corrupt_section)
{
	struct unwind_user_regs regs = {
		.sp = (unsigned long)&memory.stack[STACK_SP], .fp = 0,
		.word_size = WORD,
	};
	unsigned int i;

	frame(RIGHT_RA);
	EXPECT_WALK(2, right, false);
	EXPECT_EQ(1, section_reads);

	section_corrupt = true;
	for (i = 0; i < 4; i++) {
		regs.ip = CODE + 0x40 + i;
		EXPECT_EQ(1, unwind_user(&regs, NULL, self->rules, self->entries, MAX));
	}
	EXPECT_EQ(2, section_reads);
	EXPECT_EQ(1, section_drops);

	/* Rules that it had before have gone with it. */
	regs.ip = CODE + 0x10;
	EXPECT_EQ(1, unwind_user(&regs, NULL, self->rules, self->entries, MAX));

	/* That there is none is remembered. */
	section_lookups = 0;
	EXPECT_EQ(1, unwind_user(&regs, NULL, self->rules, self->entries, MAX));
	EXPECT_EQ(0, section_lookups);
}

/* What was read may have been something else: the walk goes on without it. */
TEST_F(walk, corrupt_for_now)
{
	struct unwind_user_regs regs = {
		.ip = CODE + 0x40, .sp = (unsigned long)&memory.stack[STACK_SP],
		.fp = 0, .word_size = WORD,
	};

	frame(RIGHT_RA);
	EXPECT_WALK(2, right, false);
	section_corrupt = true;
	section_droppable = false;
	EXPECT_EQ(1, unwind_user(&regs, NULL, self->rules, self->entries, MAX));
	EXPECT_EQ(1, section_drops);
	section_corrupt = false;
	test_mm.mm_lock_seq++;
	EXPECT_EQ(2, unwind_user(&regs, NULL, self->rules, self->entries, MAX));
}

/* Only code is returned to; the last instruction of a mapping may be a call. */
TEST_F(walk, return_address)
{
	static const unsigned long bad[] = {
		1, CODE, CODE_END + 1, OTHER, OTHER_END + 1, TASK_SIZE_MAX - 1,
	};
	static const unsigned long good[] = { OTHER + 1, OTHER_END };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		frame(bad[i]);
		EXPECT_WALK(1, right, true, "%lx", bad[i]);
		/* The program's own rule may say so. */
		EXPECT_LE(2, walk(self, right, false)) TH_LOG("%lx", bad[i]);
	}
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		frame(good[i]);
		EXPECT_WALK(2, right, true, "%lx", good[i]);
	}
}

/* Wherever else the return address would be. */
TEST_F(walk, return_address_off_stack)
{
	static const struct {
		struct unwind_user_rule	rule;
		bool			found;
	} tests[] = {
		{ RULE_ALL(LOC_SP(2 * WORD), LOC_AT_CFA(-8), LOC_SAME), true },
		/* A register points above the stack. */
		{ RULE_ALL(LOC_SP(2 * WORD),
			   LOC(.base = UNWIND_USER_BASE_REG, .reg = ABOVE_REG, .off = WORD,
			       .deref = true), LOC_SAME), false },
		/* The end of the stack, and behind it. */
		{ RULE_ALL(LOC_SP(2 * WORD),
			   LOC_AT_CFA((STACK_WORDS - STACK_SP - 3) * WORD), LOC_SAME),
		  true },
		{ RULE_ALL(LOC_SP(2 * WORD),
			   LOC_AT_CFA((STACK_WORDS - STACK_SP - 2) * WORD), LOC_SAME),
		  false },
		/* Two words that are read at once, the second one behind it. */
		{ RULE_ALL(LOC_SP(2 * WORD),
			   LOC_AT_CFA((STACK_WORDS - STACK_SP - 2) * WORD),
			   LOC_AT_CFA((STACK_WORDS - STACK_SP - 3) * WORD)), false },
		/* The red zone, and below it. */
		{ RULE_ALL(LOC_SP(2 * WORD), LOC_AT_CFA(-2 * 8 - 128), LOC_SAME), true },
		{ RULE_ALL(LOC_SP(2 * WORD), LOC_AT_CFA(-3 * 8 - 128), LOC_SAME), false },
	};
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		/* It would be right everywhere. */
		frame(RIGHT_RA);
		for (j = 0; j < STACK_WORDS; j++) {
			memory.stack[j] = RIGHT_RA;
			memory.above[j] = RIGHT_RA;
		}
		EXPECT_EQ(tests[i].found, walk(self, tests[i].rule, true) >= 2)
			TH_LOG("%u", i);
		/* No frame pointer has been made of what is no address. */
		if (tests[i].rule.fp.base == UNWIND_USER_BASE_SAME)
			EXPECT_LE(2, walk(self, tests[i].rule, false)) TH_LOG("%u", i);
	}
}

/* The CFA is where the stack is taken to be from then on. */
TEST_F(walk, cfa_off_stack)
{
	static const struct unwind_user_rule rules[] = {
		RULE(LOC_REG(ABOVE_REG, 2 * WORD)),
		RULE_ALL(LOC_REG(ABOVE_REG, 2 * WORD), LOC_REG(RA_REG, 0), LOC_SAME),
		RULE(LOC(.base = UNWIND_USER_BASE_REG, .reg = ABOVE_REG, .off = 2 * WORD,
			 .deref = true)),
		RULE(LOC_SP((STACK_WORDS - STACK_SP + 1) * WORD)),
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		frame(RIGHT_RA);
		memory.above[0] = RIGHT_RA;
		memory.above[2] = (unsigned long)&memory.above[2];
		EXPECT_EQ(1, walk(self, rules[i], true)) TH_LOG("%u", i);
		EXPECT_LE(2, walk(self, rules[i], false)) TH_LOG("%u", i);
	}
}

/* Nor does it go down in the red zone, rule by rule, to what was left below. */
TEST_F(walk, cfa_below_stack_pointer)
{
	struct unwind_user_rule rule = RULE(LOC_SP(-8 * (int)WORD));
	unsigned int i;

	rule.signal = true;
	frame(RIGHT_RA);
	for (i = 0; i < STACK_SP; i++)
		memory.stack[i] = RIGHT_RA;
	EXPECT_EQ(1, walk(self, rule, true));
	EXPECT_LE(2, walk(self, rule, false));
}

/* The frames that follow are confined, as the rule has made their registers. */
TEST_F(walk, frame_pointer_off_stack)
{
	static const struct unwind_user_rule rule =
		RULE_FP(LOC_SP(2 * WORD), LOC_REG(ABOVE_REG, 0));

	frame(RIGHT_RA);
	EXPECT_EQ(2, walk(self, rule, true));
	EXPECT_EQ(RIGHT_RA, self->entries[1]);

	frame(RIGHT_RA);
	EXPECT_EQ(3, walk(self, rule, false));
	EXPECT_EQ(OTHER + 0x30, self->entries[2]);
}

/* A frame pointer that leads to a frame on the stack is good. */
TEST_F(walk, frame_pointer_on_stack)
{
	frame(RIGHT_RA);
	memory.stack[STACK_SP] = (unsigned long)&memory.stack[STACK_SP + 4];
	memory.stack[STACK_SP + 5] = OTHER + 0x40;
	EXPECT_WALK(3, right, true);
	EXPECT_EQ(OTHER + 0x40, self->entries[2]);
	/* But not what is no code. */
	memory.stack[STACK_SP + 5] = OTHER_END + 0x40;
	EXPECT_WALK(2, right, true);
	EXPECT_WALK(3, right, false);
}

TEST_HARNESS_MAIN
