// SPDX-License-Identifier: GPL-2.0
/*
 * Chains of calls through images, of which the last function makes system calls, and
 * the stacks that they have then.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../kselftest.h"
#include "../../perf_events/lib/log.h"
#include "chain.h"

#ifdef __x86_64__
/* Return addresses of calls that functions make. */
static const struct {
	const char	*func;
	const char	*ret;
} chain_rets[] = {
	{ code_sp,		code_sp_ret },
	{ code_mark,		code_mark_ret },
	{ code_keep,		code_keep_ret },
	{ code_fp,		code_fp_ret },
	{ code_mid,		code_mid_ret },
	{ code_large,		code_large_ret },
	{ code_far,		code_far_ret },
	{ code_noreturn,	code_noreturn_end },
	{ code_mask_third,	code_mask_third_ret },
	{ code_drap,		code_drap_ret },
	{ code_ra_reg,		code_ra_reg_ret },
	{ code_fp_reg,		code_fp_reg_ret },
	{ code_slot,		code_slot_ret },
	{ code_interrupt,	code_interrupt_ret },
	{ code_entry,		code_entry_ret },
	{ code_start,		code_start_ret },
};

const char *chain_ret(const char *func)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(chain_rets); i++) {
		if (chain_rets[i].func == func)
			return chain_rets[i].ret;
	}
	return NULL;
}

/* Every chain begins with code_entry. */
void chain_begin(struct chain *c, const struct image_map *m)
{
	memset(c, 0, sizeof(*c));
	c->entry = image_addr(m, code_entry);
	c->rets[c->nr_rets++] = image_addr(m, code_entry_ret);
	c->ctx.alloca = 208;
}

void chain_add(struct chain *c, const struct image_map *m, const char *func)
{
	const char *ret = chain_ret(func);

	if (c->nr_plan == CHAIN_MAX || c->nr_rets + 2 > ARRAY_SIZE(c->rets))
		abort();
	c->plan[c->nr_plan++] = image_addr(m, func);
	/* The frame of code_interrupt returns to code_first. */
	if (func == code_interrupt)
		c->rets[c->nr_rets++] = image_addr(m, code_first);
	if (ret)
		c->rets[c->nr_rets++] = image_addr(m, ret);
}

void chain_add_list(struct chain *c, const struct image_map *m,
		    const char * const *funcs, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		chain_add(c, m, funcs[i]);
}

void chain_one(struct chain *c, const struct image_map *m)
{
	chain_begin(c, m);
	chain_add(c, m, code_sp);
	chain_add(c, m, code_mark);
	chain_add(c, m, code_far);
	chain_add(c, m, code_leaf);
}

/* code_far and code_mark are in v, the other functions are in m. */
void
chain_two(struct chain *c, const struct image_map *m, const struct image_map *v)
{
	chain_begin(c, m);
	chain_add(c, v, code_far);
	chain_add(c, v, code_mark);
	chain_add(c, m, code_keep);
	chain_add(c, m, code_leaf);
}

/* Run it; the leaf makes these system calls. */
void chain_run(struct chain *c, struct code_call *calls, unsigned int nr)
{
	void (*entry)(__u64 *plan, struct code_ctx *ctx);

	c->ctx.calls = calls;
	c->ctx.nr_calls = nr;
	entry = (void *)c->entry;
	entry(c->plan, &c->ctx);
}

/* One call that is sampled. */
void chain_sample(struct chain *c)
{
	struct code_call call = SAMPLE_CALL;

	chain_run(c, &call, 1);
}

/*
 * The expected stack of a chain: the leaf and nr frames above it, or all frames if nr
 * is -1. Returns its length.
 */
unsigned int
chain_expect(const struct chain *c, __u64 *want, __u64 leaf_ip, int nr)
{
	unsigned int i, n = 0;

	want[n++] = leaf_ip;
	for (i = c->nr_rets; i-- && nr--; )
		want[n++] = c->rets[i];
	return n;
}

unsigned int
expect_one(struct chain *c, __u64 *want, const struct image_map *m, enum kind kind)
{
	if (kind != BARE)
		return chain_expect(c, want, LEAF_IP(m), kind == WHOLE ? -1 : CUT);
	want[0] = LEAF_IP(m);
	want[1] = DECOY(m);
	return 2;
}

/*
 * The stack of chain_two() if v has a whole section, if that section says that
 * code_mark is outermost, and if v has no section.
 */
unsigned int
expect_two(struct chain *c, __u64 *want, const struct image_map *m, enum kind kind)
{
	unsigned int n;

	n = chain_expect(c, want, LEAF_IP(m), kind == WHOLE ? -1 : CUT);
	if (kind == BARE)
		want[n++] = DECOY(m);
	return n;
}

/*
 * Is this a stack of the chain or the start of one, and then maybe the frame that frame
 * pointers lead to?
 */
bool chain_legal(const struct chain *c, const __u64 *ips, int nr, __u64 leaf_ip,
		 __u64 decoy)
{
	__u64 want[2 * CHAIN_MAX + 1];
	int nr_want = chain_expect(c, want, leaf_ip, -1);

	if (nr > 1 && ips[nr - 1] == decoy)
		nr--;
	if (nr >= 1 && nr <= nr_want && !memcmp(ips, want, nr * sizeof(*ips)))
		return true;
	stack_dump("illegal", ips, nr);
	stack_dump("whole", want, nr_want);
	return false;
}

unsigned int kernel_memory_factor(void)
{
	return access("/proc/lockdep_stats", F_OK) ? 1 : 2;
}
#endif /* __x86_64__ */
