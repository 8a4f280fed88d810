// SPDX-License-Identifier: GPL-2.0
/*
 * User stacks of signal handlers with SFrame: through trampolines that the section does
 * not describe, marks, or has rules for, into code with and without frame pointers. The
 * interrupted instruction pointer is not a return address, so the walk looks up this
 * address itself, not the one before it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>
#include <sys/time.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/known_stack.h"
#include "lib/chain.h"
#include "lib/jit.h"
#include "lib/kmsg.h"
#include "lib/sample.h"
#include "lib/sigframe.h"
#include "lib/table.h"

#ifdef __x86_64__

/* Contexts of handlers, in the order in which they begin. */
static struct code_ctx handler_ctx[4];
static struct code_ctx *handler_next;

FIXTURE(signals) {
	struct session s;
	struct kmsg log;
	struct image im;
	struct image_map m;
	int fd;
	int owner;
	unsigned long flags;
	const void *restorer;
	unsigned long handler;
	struct chain c;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr;
};

FIXTURE_VARIANT(signals) {
	struct sframe_opts sframe;
	const char *restorer;
	enum altstack alt;
	/* The table is supplied, so the walk is confined. */
	bool supplied;
};

FIXTURE_VARIANT_ADD(signals, libc_v2) {
	.sframe = { .version = SFRAME_VERSION_2 },
};

FIXTURE_VARIANT_ADD(signals, libc_v3) {
	.sframe = { .version = SFRAME_VERSION_3 },
};

FIXTURE_VARIANT_ADD(signals, libc_altstack_below) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.alt = ALT_LOW,
};

FIXTURE_VARIANT_ADD(signals, libc_altstack_above) {
	.sframe = { .version = SFRAME_VERSION_2 },
	.alt = ALT_HIGH,
};

/* A trampoline that the section does not describe. */
FIXTURE_VARIANT_ADD(signals, mov_to_eax) {
	.sframe = { .version = SFRAME_VERSION_2 },
	.restorer = code_restore_eax,
};

FIXTURE_VARIANT_ADD(signals, mov_to_rax) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.restorer = code_restore_rax,
};

/* A trampoline that the section marks, without rules. */
FIXTURE_VARIANT_ADD(signals, marked) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.restorer = code_restore_marked,
};

FIXTURE_VARIANT_ADD(signals, marked_altstack_above) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.restorer = code_restore_marked,
	.alt = ALT_HIGH,
};

/* A trampoline for which the section has rules. */
FIXTURE_VARIANT_ADD(signals, rules) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.restorer = code_restore_rules,
};

FIXTURE_VARIANT_ADD(signals, rules_altstack_above) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.restorer = code_restore_rules,
	.alt = ALT_HIGH,
};

FIXTURE_VARIANT_ADD(signals, supplied) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.supplied = true,
};

FIXTURE_VARIANT_ADD(signals, supplied_altstack_below) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.alt = ALT_LOW,
	.supplied = true,
};

FIXTURE_VARIANT_ADD(signals, supplied_altstack_above) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.alt = ALT_HIGH,
	.supplied = true,
};

FIXTURE_SETUP(signals)
{
	const struct image_opts o = {
		.sframe = variant->sframe,
		.handler_next = &handler_next,
		.no_sframe = variant->supplied,
	};
	unsigned char table[SFRAME_MAX_SIZE];
	const char *why = variant->supplied ? tables_unsupported() :
					      sframe_unsupported();
	unsigned int i;

	self->fd = -1;
	self->owner = -1;
	if (why)
		SKIP(return, "%s", why);
	if (variant->supplied) {
		self->owner = owner_open(0, -1, false);
		ASSERT_LE(0, self->owner);
	}
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, image_build(&self->im, &o));
	self->fd = image_file(&self->im, NULL);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, image_map(&self->m, &self->im, self->fd, 0));
	if (variant->supplied)
		ASSERT_EQ(0, table_supply(self->owner, self->fd, table,
					  table_build(table, &self->im, &o.sframe,
						      WHOLE, 0), 0));
	self->restorer = variant->restorer ?
			 (void *)image_addr(&self->m, variant->restorer) :
			 libc_restorer();
	ASSERT_NE(NULL, self->restorer);
	self->flags = variant->alt ? SA_ONSTACK : 0;
	self->handler = image_addr(&self->m, code_handler);
	memset(handler_ctx, 0, sizeof(handler_ctx));
	handler_next = handler_ctx;
	/* The frame pointer leads nowhere. */
	for (i = 0; i < ARRAY_SIZE(handler_ctx); i++)
		handler_ctx[i].decoy = 1;
}

FIXTURE_TEARDOWN(signals)
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

#define AT(label)	((const void *)image_addr(&self->m, label))

/* A handler calls code_mark, which calls the leaf, which makes one system call. */
struct handler {
	__u64			plan[2];
	struct code_call	call;
};

static void set_plan(unsigned int i, struct handler *h,
		     const struct image_map *m, struct code_call call)
{
	h->plan[0] = image_addr(m, code_mark);
	h->plan[1] = image_addr(m, code_leaf);
	h->call = call;
	handler_ctx[i].plan = h->plan;
	handler_ctx[i].calls = &h->call;
	handler_ctx[i].nr_calls = 1;
}

/* Its frames. */
#define WANT_HANDLER() do {						\
	want_ip(self->want, &self->nr, AT(code_leaf_ip));		\
	want_ip(self->want, &self->nr, AT(code_mark_ret));		\
	want_ip(self->want, &self->nr, AT(code_handler_ret));		\
	want_ip(self->want, &self->nr, self->restorer);			\
} while (0)

#define WANT_CHAIN(ip)							\
	(self->nr += chain_expect(&self->c, self->want + self->nr,	\
				  (__u64)(ip), -1))

struct chain_arg {
	struct chain		*c;
	struct code_call	call;
};

static void run_chain(void *arg)
{
	struct chain_arg *a = arg;

	chain_run(a->c, &a->call, 1);
}

static struct code_call call_kill(int sig)
{
	return (struct code_call) {
		.nr = __NR_kill,
		.args = { getpid(), sig },
	};
}

TEST_F(signals, system_call)
{
	struct chain_arg arg = { &self->c, call_kill(SIGUSR1) };
	struct handler h;

	set_plan(0, &h, &self->m, SAMPLE_CALL);
	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_sp);
	chain_add(&self->c, &self->m, code_fp);
	chain_add(&self->c, &self->m, code_leaf);
	ASSERT_EQ(0, set_handler(SIGUSR1, self->handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, on_altstack(variant->alt, run_chain, &arg));
	WANT_HANDLER();
	WANT_CHAIN(AT(code_leaf_ip));
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

/*
 * The first instruction of a function faults: the one before it is not in the
 * function, and the function has no frame.
 */
TEST_F(signals, first_instruction)
{
	struct chain_arg arg = { &self->c };
	struct handler h;

	set_plan(0, &h, &self->m, SAMPLE_CALL);
	/* Skip ud2 on return. */
	handler_ctx[0].skip = 2;
	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_large);
	chain_add(&self->c, &self->m, code_fp);
	chain_add(&self->c, &self->m, code_fault);
	ASSERT_EQ(0, set_handler(SIGILL, self->handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, on_altstack(variant->alt, run_chain, &arg));
	WANT_HANDLER();
	WANT_CHAIN(AT(code_fault));
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

TEST_F(signals, nested)
{
	struct chain_arg arg = { &self->c, call_kill(SIGUSR1) };
	struct handler h[2];

	set_plan(0, &h[0], &self->m, call_kill(SIGUSR2));
	set_plan(1, &h[1], &self->m, SAMPLE_CALL);
	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_fp);
	chain_add(&self->c, &self->m, code_leaf);
	ASSERT_EQ(0, set_handler(SIGUSR1, self->handler, self->restorer,
				 self->flags));
	ASSERT_EQ(0, set_handler(SIGUSR2, self->handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, on_altstack(variant->alt, run_chain, &arg));
	WANT_HANDLER();
	WANT_HANDLER();
	WANT_CHAIN(AT(code_leaf_ip));
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

/* A timer signal interrupts any instruction of a function without a frame. */
TEST_F(signals, asynchronous)
{
	const struct itimerval it = { .it_value = { .tv_usec = 20000 } };
	struct chain_arg arg = { &self->c };
	const unsigned int at = 4;
	const __u64 *ips = NULL;
	struct handler h;
	int nr;

	set_plan(0, &h, &self->m, SAMPLE_CALL);
	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_sp);
	chain_add(&self->c, &self->m, code_mid);
	chain_add(&self->c, &self->m, code_spin);
	/* Enough to run until long after the signal. */
	self->c.ctx.loops = 200000000;
	ASSERT_EQ(0, set_handler(SIGALRM, self->handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &it, NULL));
	ASSERT_EQ(0, on_altstack(variant->alt, run_chain, &arg));
	ASSERT_EQ(0, session_wait(&self->s, 1, 5));
	nr = sample_stack(&self->s, 0, &ips);
	ASSERT_LT(at, nr);
	EXPECT_LE((__u64)AT(code_spin), ips[at]);
	EXPECT_GT((__u64)AT(code_spin_end), ips[at]);
	WANT_HANDLER();
	WANT_CHAIN(ips[at]);
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

/* A handler with frame pointers interrupts code with SFrame. */
TEST_F(signals, handler_with_frame_pointer)
{
	struct chain_arg arg = { &self->c, call_kill(SIGUSR1) };

	chain_begin(&self->c, &self->m);
	chain_add(&self->c, &self->m, code_fp);
	chain_add(&self->c, &self->m, code_far);
	chain_add(&self->c, &self->m, code_leaf);
	ASSERT_EQ(0, set_handler(SIGUSR1, (__u64)fp_handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, on_altstack(variant->alt, run_chain, &arg));
	want_ip(self->want, &self->nr, fp_handler_ip);
	want_ip(self->want, &self->nr, self->restorer);
	WANT_CHAIN(AT(code_leaf_ip));
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

/* And the other way round. */
TEST_F(signals, interrupted_with_frame_pointer)
{
	struct handler h;

	set_plan(0, &h, &self->m, SAMPLE_CALL);
	ASSERT_EQ(0, set_handler(SIGUSR1, self->handler, self->restorer,
				 self->flags));
	SESSION_OPEN(&self->s);
	ASSERT_EQ(0, on_altstack(variant->alt, run_walk_kill, NULL));
	WANT_HANDLER();
	self->nr += known_expect(self->want + self->nr, ID, BITS,
				 walk_syscall_ip);
	EXPECT_STACKS(&self->s, 1, self->want, self->nr);
}

#else /* !__x86_64__ */

TEST(sframe_signal)
{
	SKIP(return, "no code with SFrame sections for this architecture");
}

#endif

TEST_HARNESS_MAIN
