// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that a profiler supplies for files: tables with false rules cannot make
 * the kernel show anything but addresses of code. Tables may change while walks use
 * them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <sys/mman.h>

#include "../kselftest_harness.h"
#include "lib/kmsg.h"
#include "lib/sigframe.h"
#include "lib/table.h"

#ifdef __x86_64__

/*
 * A stack, a page that is not mapped, and above it a page that r12 points to in
 * code_leaf. Frames in this page would be further out than the stack.
 */
#define LOW_STACK	(64UL << 10)
#define OFF_STACK(low)	((struct code_call *)((low) + LOW_STACK + IMAGE_PAGE))

FIXTURE(lies) {
	struct session s;
	unsigned int nr;
	struct kmsg log;
	struct image im;
	int fd;
	int owner;
	struct image_map m;
	char *low;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned char table[SFRAME_MAX_SIZE];
};

FIXTURE_SETUP(lies)
{
	const struct image_opts o = { .sframe = plain_v3, .no_sframe = true };
	const char *why = tables_unsupported();

	self->fd = -1;
	self->owner = -1;
	if (why)
		SKIP(return, "%s", why);
	self->owner = owner_open(0, -1, false);
	ASSERT_LE(0, self->owner);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, image_build(&self->im, &o));
	self->fd = image_file(&self->im, NULL);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, image_map(&self->m, &self->im, self->fd, 0));
	self->low = mmap(NULL, LOW_STACK + 2 * IMAGE_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->low);
	ASSERT_EQ(0, munmap(self->low + LOW_STACK, IMAGE_PAGE));
}

FIXTURE_TEARDOWN(lies)
{
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	session_close(&self->s);
	image_unmap(&self->m);
	image_free(&self->im);
	if (self->fd >= 0)
		close(self->fd);
	if (self->owner >= 0)
		close(self->owner);
}

/* A table with one function, and one row in it; the table's address is 0. */
static size_t
table_one(unsigned char *buf, __u64 start, __u32 len, const __s32 *words,
	  unsigned int nr)
{
	struct sframe_header *h = (void *)buf;
	struct sframe_fde_v3 *fde = (void *)(h + 1);
	struct sframe_attr_v3 *attr = (void *)(fde + 1);
	unsigned char *p = (void *)(attr + 1);

	*fde = (struct sframe_fde_v3) {
		.start	= start - sizeof(*h),
		.size	= len,
	};
	*attr = (struct sframe_attr_v3) { .num_fres = 1, .info2 = SFRAME_FDE_FLEX };
	*p++ = 0;
	*p++ = FRE_WORDS(nr) | FRE_SIZE(2);
	memcpy(p, words, nr * sizeof(*words));
	p += nr * sizeof(*words);
	*h = (struct sframe_header) {
		.magic		= SFRAME_MAGIC,
		.version	= SFRAME_VERSION_3,
		.flags		= SFRAME_FLAG_SORTED | SFRAME_FLAG_PCREL,
		.abi		= SFRAME_ABI_AMD64,
		.fixed_ra	= SFRAME_AMD64_RA_OFF,
		.num_fdes	= 1,
		.num_fres	= 1,
		.fre_off		= sizeof(*fde),
		.fre_len	= p - (unsigned char *)attr,
	};
	return p - buf;
}

/* Is this in an executable mapping of this process? */
static bool is_code(__u64 ip)
{
	unsigned long start, end;
	char line[512], x;
	bool found = false;
	FILE *f;

	f = fopen("/proc/self/maps", "r");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		/*
		 * A return address may be at the end: the call is the last instruction.
		 */
		found = sscanf(line, "%lx-%lx %*c%*c%c", &start, &end, &x) == 3 &&
			x == 'x' && ip >= start && ip <= end;
	}
	fclose(f);
	return found;
}

/* In code_leaf, from the stack pointer to the CFA: four words. */
#define LEAF_CFA	32

#define SUPPLY_LEAF(...) do {						\
	const __s32 __words[] = { __VA_ARGS__ };			\
	size_t __size;							\
									\
	__size = table_one(self->table, self->im.seg[SEG_TEXT].vaddr +	\
			   (code_leaf - code_begin), code_leaf_end - code_leaf, \
			   __words, ARRAY_SIZE(__words));		\
	ASSERT_EQ(0, table_supply(self->owner, self->fd, self->table,	\
				  __size, 0));				\
} while (0)

/* A struct code_call looks like a frame from its second word on. */
#define OFF_FRAME	offsetof(struct code_call, args[0])

static struct {
	ucontext_t		test;
	ucontext_t		chain;
	struct chain		*c;
	struct code_call	*calls;
} low;

static void low_main(void)
{
	chain_run(low.c, low.calls, 1);
}

/* Run a chain on that stack. Words outside of the stack look like a frame. */
static int low_run(FIXTURE_DATA(lies) *self, struct chain *c)
{
	struct code_call *call = OFF_STACK(self->low);

	chain_begin(c, &self->m);
	chain_add(c, &self->m, code_sp);
	chain_add(c, &self->m, code_leaf);
	*call = SAMPLE_CALL;
	call->args[1] = image_addr(&self->m, code_far_ret);
	/* The CFA of that frame. */
	call->args[2] = (unsigned long)&call->args[2];
	low.c = c;
	low.calls = call;
	if (getcontext(&low.chain))
		return -1;
	low.chain.uc_stack.ss_sp = self->low;
	/* Signal frames are forged in the page above the chain. */
	low.chain.uc_stack.ss_size = LOW_STACK - IMAGE_PAGE;
	low.chain.uc_link = &low.test;
	makecontext(&low.chain, low_main, 0);
	return swapcontext(&low.test, &low.chain);
}

#define SAMPLE_LEAF(c) do {						\
	ASSERT_EQ(0, low_run(self, c));					\
	self->want[0] = LEAF_IP(&self->m);				\
} while (0)

/* The correct rule; after it the walk follows the frame pointer. */
TEST_F(lies, none)
{
	struct chain c;

	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_RSP), LEAF_CFA, FLEX_AT_CFA, -8, FLEX_AT_CFA, -16);
	SAMPLE_LEAF(&c);
	self->want[1] = image_addr(&self->m, code_sp_ret);
	/* The frame pointer is the decoy: code_sp does not change it. */
	self->want[2] = DECOY(&self->m);
	EXPECT_NEXT(&self->s, self->nr, self->want, 3);
}

/* The rule reads a return address outside of the stack, where a valid one is. */
TEST_F(lies, return_address_off_stack)
{
	struct chain c;

	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_RSP), LEAF_CFA, FLEX_AT_REG(DWARF_R12),
		    OFF_FRAME + 8);
	SAMPLE_LEAF(&c);
	EXPECT_NEXT(&self->s, 0, self->want, 1);
}

/* The CFA is outside of the stack. */
TEST_F(lies, frame_off_stack)
{
	struct chain c;

	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_R12), OFF_FRAME + 16);
	SAMPLE_LEAF(&c);
	EXPECT_NEXT(&self->s, 0, self->want, 1);
	SUPPLY_LEAF(FLEX_AT_REG(DWARF_R12), OFF_FRAME + 16);
	SAMPLE_LEAF(&c);
	EXPECT_NEXT(&self->s, 1, self->want, 1);
}

/* In the next frame, the frame pointer leads outside of the stack. */
TEST_F(lies, frame_pointer_off_stack)
{
	struct chain c;

	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_RSP), LEAF_CFA, FLEX_AT_CFA, -8,
		    FLEX_REG(DWARF_R12), OFF_FRAME);
	SAMPLE_LEAF(&c);
	self->want[1] = image_addr(&self->m, code_sp_ret);
	EXPECT_NEXT(&self->s, 0, self->want, 2);
}

/*
 * A table says that there is a signal frame where the program has other data on its
 * stack. The frame is in the page above the chain; this says where its sp points to.
 */
enum forged_sp {
	FORGED_ABOVE,
	FORGED_BELOW,
	FORGED_OFF,
};

#define FORGED_AT	256

/* Forge a signal frame that interrupted code_far. Its frame at sp leads to code_mid. */
static void forge(FIXTURE_DATA(lies) *self, ucontext_t *uc, __u64 *sp,
		  const void *restorer)
{
	const __u64 user_cs = 0x33;

	((__u64 *)uc)[-1] = (unsigned long)restorer;
	uc->uc_mcontext.gregs[REG_RIP] = image_addr(&self->m, code_far_ret);
	uc->uc_mcontext.gregs[REG_RSP] = (unsigned long)sp;
	uc->uc_mcontext.gregs[REG_RBP] = (unsigned long)sp;
	uc->uc_mcontext.gregs[REG_CSGSFS] = user_cs;
	sp[0] = 0;
	sp[1] = image_addr(&self->m, code_mid_ret);
}

static void forged_stack(struct __test_metadata *_metadata, FIXTURE_DATA(lies) *self,
			 enum forged_sp where)
{
	char *top = self->low + LOW_STACK;
	ucontext_t *uc = (void *)(top - IMAGE_PAGE + FORGED_AT);
	const void *restorer = libc_restorer();
	__u64 *sp[] = {
		[FORGED_ABOVE]	= (void *)(uc + 1),
		[FORGED_BELOW]	= (void *)self->low,
		/* After the struct code_call that the leaf uses. */
		[FORGED_OFF]	= (void *)(OFF_STACK(self->low) + 1),
	};
	struct chain c;
	__s32 off = (char *)uc - (char *)OFF_STACK(self->low);

	/* The CFA is the forged frame: r12 plus this offset. */
	SESSION_OPEN(&self->s);
	SUPPLY_LEAF(FLEX_REG(DWARF_R12), off, FLEX_AT_CFA, -8);
	forge(self, uc, sp[where], restorer);
	SAMPLE_LEAF(&c);
	self->want[1] = (unsigned long)restorer;
	self->want[2] = image_addr(&self->m, code_far_ret);
	self->want[3] = image_addr(&self->m, code_mid_ret);
}

/* The interrupted stack pointer is further out: the walk continues. */
TEST_F(lies, signal_frame_above)
{
	forged_stack(_metadata, self, FORGED_ABOVE);
	EXPECT_NEXT(&self->s, 0, self->want, 4);
}

/* It is further in, where old frames are: the walk stops. */
TEST_F(lies, signal_frame_to_below)
{
	forged_stack(_metadata, self, FORGED_BELOW);
	EXPECT_NEXT(&self->s, 0, self->want, 2);
}

/* A callchain must not show words from outside of the stack, even if they are code. */
TEST_F(lies, signal_frame_off_stack)
{
	forged_stack(_metadata, self, FORGED_OFF);
	EXPECT_NEXT(&self->s, 0, self->want, 2);
}

/* Any word is taken for a return address: the walk shows code, or ends. */
TEST_F_TIMEOUT(lies, any_word_is_return_address, 60)
{
	const __s32 first = -256, last = 2048;
	unsigned int n = 0, shown = 0;
	__s32 off;

	SESSION_OPEN(&self->s);
	for (off = first; off < last; off += 8, n++) {
		const __u64 *ips = NULL;
		struct chain c;
		int i, nr;

		SUPPLY_LEAF(FLEX_REG(DWARF_RSP), LEAF_CFA, FLEX_AT_REG(DWARF_RSP), off);
		SAMPLE_LEAF(&c);
		ASSERT_EQ(0, session_wait(&self->s, n + 1, 5));
		nr = sample_stack(&self->s, n, &ips);
		ASSERT_LE(1, nr);
		for (i = 1; i < nr; i++) {
			EXPECT_TRUE(is_code(ips[i])) {
				TH_LOG("at %d: %llx", off, ips[i]);
			}
			shown++;
		}
	}
	/* The right one is among them. */
	EXPECT_LT(0, shown);
}

/* Damaged tables do no harm, and stacks show only addresses of code. */
TEST_F_TIMEOUT(lies, random_bytes, 120)
{
	const unsigned int rounds = 600;
	unsigned int i, j, n = 0, refused = 0;
	size_t size;

	srandom(3);
	SESSION_OPEN(&self->s);
	size = table_build(self->table, &self->im, &plain_v3, WHOLE, 0);
	for (i = 0; i < rounds; i++) {
		unsigned char copy[SFRAME_MAX_SIZE];
		const __u64 *ips = NULL;
		struct chain c;
		int ret, nr, k;

		memcpy(copy, self->table, size);
		for (j = 0; j <= i % 3; j++)
			copy[sizeof(struct sframe_header) +
			     random() % (size - sizeof(struct sframe_header))] ^=
				1 << random() % 8;
		ret = table_supply(self->owner, self->fd, copy, size, 0);
		if (ret) {
			ASSERT_EQ(-EINVAL, ret);
			refused++;
			continue;
		}
		chain_one(&c, &self->m);
		chain_sample(&c);
		ASSERT_EQ(0, session_wait(&self->s, n + 1, 5));
		nr = sample_stack(&self->s, n++, &ips);
		ASSERT_LE(1, nr);
		for (k = 0; k < nr; k++) {
			EXPECT_TRUE(is_code(ips[k])) {
				TH_LOG("round %u: %llx", i, ips[k]);
			}
		}
	}
	TH_LOG("%u of %u refused", refused, rounds);
	EXPECT_LT(0, refused);
	EXPECT_LT(0, n);
}

/* All at once */

struct changer {
	const struct image *im;
	int fd;
	int stop;
	unsigned int changes;
	int error;
};

static void *change_tables(void *arg)
{
	struct changer *ch = arg;
	unsigned char buf[SFRAME_MAX_SIZE];
	size_t size = table_build(buf, ch->im, &plain_v3, WHOLE, 0);
	int owner = -1;

	while (!__atomic_load_n(&ch->stop, __ATOMIC_RELAXED)) {
		if (owner < 0)
			owner = owner_open(0, -1, false);
		ch->error |= table_supply_all(owner, ch->fd, buf, size, 0);
		if (ch->changes % 3 == 0)
			ch->error |= table_supply_all(owner, ch->fd, buf, size, 0);
		if (ch->changes % 2) {
			ch->error |= table_take_back(owner, ch->fd);
		} else {
			close(owner);
			owner = -1;
		}
		ch->changes++;
	}
	close(owner);
	return NULL;
}

/* Tables change while walks use them. Each frame is found with a table or without. */
TEST_F_TIMEOUT(lies, changing_tables, 120)
{
	const unsigned int rounds = 3000;
	struct changer ch = { .im = &self->im, .fd = self->fd };
	unsigned int i, whole = 0;
	pthread_t thread;
	struct chain c;

	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_tables, &ch));
	chain_one(&c, &self->m);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;
		int nr = next_stack(&self->s, &c, &ips);

		ASSERT_LE(0, nr);
		EXPECT_TRUE(chain_legal(&c, ips, nr, LEAF_IP(&self->m),
					DECOY(&self->m)));
		whole += nr > 2;
		forget_stack(&self->s);
	}
	__atomic_store_n(&ch.stop, 1, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%u of %u stacks by a table, %u changes", whole, rounds, ch.changes);
	EXPECT_EQ(0, ch.error);
	EXPECT_LT(0, whole);
	EXPECT_LT(100, ch.changes);
}

/* Changes of another file's tables do not disturb walks through this file. */
TEST_F_TIMEOUT(lies, changing_other_tables, 120)
{
	const unsigned int rounds = 3000;
	struct changer ch = { .im = &self->im };
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int i, whole = 0;
	pthread_t thread;
	struct chain c;

	ASSERT_EQ(0, table_supply(self->owner, self->fd, self->table,
				  table_build(self->table, &self->im, &plain_v3,
					      WHOLE, 0), 0));
	ch.fd = image_file(&self->im, NULL);
	ASSERT_LE(0, ch.fd);
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_tables, &ch));
	chain_one(&c, &self->m);
	for (i = 0; i < rounds; i++) {
		const __u64 *ips = NULL;
		int nr = next_stack(&self->s, &c, &ips);

		ASSERT_LE(0, nr);
		whole += stack_same(ips, nr, want,
				    chain_expect(&c, want, LEAF_IP(&self->m), -1));
		forget_stack(&self->s);
	}
	__atomic_store_n(&ch.stop, 1, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	close(ch.fd);
	TH_LOG("%u of %u stacks whole, %u changes", whole, rounds, ch.changes);
	EXPECT_EQ(0, ch.error);
	EXPECT_EQ(rounds, whole);
	EXPECT_LT(100, ch.changes);
}

#else /* !__x86_64__ */

TEST(lies)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
