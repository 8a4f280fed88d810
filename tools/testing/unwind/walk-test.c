// SPDX-License-Identifier: GPL-2.0
/*
 * Walks by supplied rules: which memory a walk reads, and where it continues. The walk
 * reads memory of this process.
 */
#define CONFIG_UNWIND_USER_SFRAME

#include "walker.h"

#include "bench.h"
#include "harness.h"
#include "rules.h"

static struct unwind_user_regions test_sections;
static struct mm_struct test_mm = { .unwind_regions = &test_sections };
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

/*
 * The rule for CODE, and whether it is supplied. Other code is walked by frame pointer.
 */
static struct unwind_user_rule rule_of_code;
static bool rule_supplied;
static unsigned int stack_lookups;
static unsigned int code_lookups;
static unsigned int section_lookups;

/* The program's own section for CODE: is it corrupt, and how did the walk react? */
static bool section_corrupt;
static bool section_droppable = true;
static bool section_dropped;
static unsigned int section_reads;
static unsigned int section_drops;

/* The tables that serve the task: their sequence number, and how many lookups fail. */
static u64 tables_seq = 1;
static unsigned int gone;

void unwind_tables_begin(void)
{
	test_task.unwind_tables_seq = tables_seq;
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

bool unwind_user_region_drop(const struct unwind_user_region *section,
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

int unwind_user_region_find(unsigned long ip, struct unwind_user_region *section,
			    struct unwind_user_seq *seq)
{
	section_lookups++;
	if (ip < CODE || ip >= CODE_END)
		return -ENOENT;

	*section = (struct unwind_user_region) {
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

bool unwind_user_is_unmapped(unsigned long addr)
{
	return false;
}

/* Walks */

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
	forget_memo();
}

/* One word above the stack pointer is the return address, to OTHER. */
#define SLOT		(STACK_SP + 1)
#define RIGHT_RA	(OTHER + 0x20)

/* A register has it, too; the others point above the stack. */
#define RA_REG		4
#define ABOVE_REG	3
/* A number of words */
#define INDEX_REG	9
#define INDEX		2

/* Walk from CODE, by @rule and then by frame pointer. */
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
	gprs.reg[INDEX_REG] = INDEX;

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
	unsigned int i;

	frame(RIGHT_RA);
	EXPECT_WALK(2, right, true);
	EXPECT_EQ(RIGHT_RA, self->entries[1]);
	EXPECT_EQ(1, stack_lookups);
	EXPECT_EQ(1, code_lookups);

	/* A cached rule is confined, too, and needs no lookup. */
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
		stack_lookups = 0;
		code_lookups = 0;
		for (i = 1; i < 100; i++) {
			test_mm.mm_lock_seq += 2;
			EXPECT_EQ(2, unwind_user(&regs, NULL, self->rules, self->entries,
						 MAX));
			EXPECT_EQ(i, stack_lookups);
			EXPECT_EQ(i, code_lookups);
		}
		EXPECT_EQ(1, unwind_user_rules_confine(self->rules)->nr_codes);
	}
}

/* A task looks again after tables have changed, or if the table was removed. */
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
		/* Lookups are limited. Then a frame pointer of zero ends the walk. */
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

/* In a corrupt section no second address is looked up. */
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

	/* The walk remembers that there is no section. */
	section_lookups = 0;
	EXPECT_EQ(1, unwind_user(&regs, NULL, self->rules, self->entries, MAX));
	EXPECT_EQ(0, section_lookups);
}

/* If other bytes were read, the section is not dropped, and is used again later. */
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
	test_mm.mm_lock_seq += 2;
	EXPECT_EQ(2, unwind_user(&regs, NULL, self->rules, self->entries, MAX));
}

/* A return address must be in code. The last instruction of a mapping may be a call. */
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
		/* The program's own rule may lead there. */
		EXPECT_LE(2, walk(self, right, false)) TH_LOG("%lx", bad[i]);
	}
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		frame(good[i]);
		EXPECT_WALK(2, right, true, "%lx", good[i]);
	}
}

/* The return address must be on the stack. */
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
		/* The last word of the stack, and the word after it. */
		{ RULE_ALL(LOC_SP(2 * WORD),
			   LOC_AT_CFA((STACK_WORDS - STACK_SP - 3) * WORD), LOC_SAME),
		  true },
		{ RULE_ALL(LOC_SP(2 * WORD),
			   LOC_AT_CFA((STACK_WORDS - STACK_SP - 2) * WORD), LOC_SAME),
		  false },
		/* Two words that are read at once; the second is not on the stack. */
		{ RULE_ALL(LOC_SP(2 * WORD),
			   LOC_AT_CFA((STACK_WORDS - STACK_SP - 2) * WORD),
			   LOC_AT_CFA((STACK_WORDS - STACK_SP - 3) * WORD)), false },
		/* The red zone, and below it. */
		{ RULE_ALL(LOC_SP(2 * WORD), LOC_AT_CFA(-2 * 8 - 128), LOC_SAME), true },
		{ RULE_ALL(LOC_SP(2 * WORD), LOC_AT_CFA(-3 * 8 - 128), LOC_SAME), false },
	};
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		/* Every word is a valid return address. */
		frame(RIGHT_RA);
		for (j = 0; j < STACK_WORDS; j++) {
			memory.stack[j] = RIGHT_RA;
			memory.above[j] = RIGHT_RA;
		}
		EXPECT_EQ(tests[i].found, walk(self, tests[i].rule, true) >= 2)
			TH_LOG("%u", i);
		/*
		 * Not if the rule loads RIGHT_RA as frame pointer: nothing is mapped
		 * there.
		 */
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

/* A frame that keeps the caller's stack pointer less one word in a slot, and another frame */
static void realigned_frame(unsigned int slot, unsigned int cfa)
{
	frame(0);
	memory.stack[slot] = (unsigned long)&memory.stack[cfa - 1];
	memory.stack[cfa - 1] = RIGHT_RA;
	memory.stack[cfa - 2] = (unsigned long)&memory.stack[cfa + 5];
	memory.stack[cfa + 6] = OTHER + 0x40;
}

/* The caller's stack pointer is in the frame, less what the number says. */
TEST_F(walk, cfa_plus_number)
{
	static const struct unwind_user_rule rule =
		RULE_ADD(LOC_AT_SP(4 * WORD), WORD, LOC_AT_CFA(-2 * (int)WORD));
	const unsigned int slot = STACK_SP + 4, cfa = STACK_SP + 20;

	realigned_frame(slot, cfa);
	EXPECT_WALK(3, rule, true);
	EXPECT_EQ(RIGHT_RA, self->entries[1]);
	EXPECT_EQ(OTHER + 0x40, self->entries[2]);

	/* The sum is off the stack, below the frame, or not aligned. */
	memory.stack[slot] = (unsigned long)&memory.above[0];
	memory.above[0] = RIGHT_RA;
	EXPECT_WALK(1, rule, true);
	memory.stack[slot] = (unsigned long)&memory.stack[STACK_SP - 1];
	EXPECT_WALK(1, rule, true);
	memory.stack[slot] = (unsigned long)&memory.stack[cfa - 1] + 1;
	EXPECT_WALK(1, rule, true);
	memory.stack[slot] = -WORD;
	EXPECT_WALK(1, rule, true);
}

/* It is behind words whose number is in a register. */
TEST_F(walk, cfa_behind_words)
{
	struct unwind_user_rule rule =
		RULE_INDEX(LOC_AT_SP(2 * WORD), INDEX_REG, WORD, LOC_AT_CFA(-2 * (int)WORD));
	const unsigned int slot = STACK_SP + 2 + INDEX, cfa = STACK_SP + 20;

	realigned_frame(slot, cfa);
	EXPECT_WALK(3, rule, true);
	EXPECT_EQ(RIGHT_RA, self->entries[1]);
	EXPECT_EQ(OTHER + 0x40, self->entries[2]);

	/* Nobody knows the register of a caller, but the frame pointer. */
	memory.stack[cfa - 1] = CODE + 0x30;
	EXPECT_WALK(3, rule, true);
	EXPECT_EQ(CODE + 0x30, self->entries[1]);
	EXPECT_EQ(OTHER + 0x40, self->entries[2]);
	memory.stack[cfa - 1] = RIGHT_RA;

	/* The register leads off the stack. */
	rule.cfa_index = ABOVE_REG + 1;
	EXPECT_WALK(1, rule, true);

	/* There is no such register. */
	rule.cfa_index = UNWIND_USER_NR_GPRS + 1;
	EXPECT_WALK(1, rule, true);
}

/* A CFA in the red zone is refused: rule by rule, it would lead to old frames. */
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

/* Later frames are confined, too, because the rule has set their registers. */
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

/* A frame pointer that cannot be found is not followed. */
TEST_F(walk, frame_pointer_unknown)
{
	static const struct unwind_user_rule rule = RULE_FP(LOC_SP(2 * WORD), LOC_NONE);

	frame(RIGHT_RA);
	memory.stack[STACK_SP] = (unsigned long)&memory.stack[STACK_SP + 4];
	memory.stack[STACK_SP + 5] = OTHER + 0x40;
	EXPECT_WALK(2, rule, true);
	EXPECT_EQ(RIGHT_RA, self->entries[1]);
	EXPECT_WALK(2, rule, false);
	EXPECT_WALK(3, right, true);
}

/* A frame pointer that leads to a frame on the stack is good. */
TEST_F(walk, frame_pointer_on_stack)
{
	frame(RIGHT_RA);
	memory.stack[STACK_SP] = (unsigned long)&memory.stack[STACK_SP + 4];
	memory.stack[STACK_SP + 5] = OTHER + 0x40;
	EXPECT_WALK(3, right, true);
	EXPECT_EQ(OTHER + 0x40, self->entries[2]);
	/* But not one that returns to other memory than code. */
	memory.stack[STACK_SP + 5] = OTHER_END + 0x40;
	EXPECT_WALK(2, right, true);
	EXPECT_WALK(3, right, false);
}

TEST_HARNESS_MAIN
