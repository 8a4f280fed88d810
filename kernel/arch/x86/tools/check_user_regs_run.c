// SPDX-License-Identifier: GPL-2.0
/*
 * check_user_regs: run the entry code from one way in, on both sides of alternatives
 */

#include "check_user_regs.h"

/* Keep it from including other headers: the host has headers of the same names. */
#define _ASM_X86_REQUIRED_FEATURES_H
#define _ASM_X86_DISABLED_FEATURES_H
#include "../include/asm/cpufeatures.h"

int nr_roots;

/* Is this alternative taken? 0, 1, or -1 if it may be */
static int alt_applies(const struct alt *alt)
{
	int applies = -1;

	if (alt->feature == X86_FEATURE_ALWAYS)
		applies = 1;
	else if (alt->feature == X86_FEATURE_XENPV)
		applies = 0;
	else if (alt->feature == X86_FEATURE_PTI)
		applies = pti;
	return applies != -1 && alt->not ? !applies : applies;
}

static void run_node(struct node *node, struct state *state)
{
	struct state s;
	bool original = true;
	int i, from = 0, applies;

	check(state, node->ip);
	if (root_failed)
		return;

	/* Of several alternatives the last one wins. */
	for (i = 0; i < nr_alts; i++) {
		if (alts[i].ip == node->ip && alt_applies(&alts[i]) == 1) {
			original = false;
			from = i;
		}
	}
	for (i = from; i < nr_alts; i++) {
		if (alts[i].ip != node->ip)
			continue;
		applies = alt_applies(&alts[i]);
		if (!applies)
			continue;
		s = *state;
		if (alts[i].repl_len)
			reach(alts[i].repl, &s);
		else
			reach(alts[i].ip + alts[i].len, &s);
	}
	if (original) {
		s = *state;
		step(node->ip, &s);
	}
}

static void run_root(const struct root *r)
{
	struct state s = { .zf = -1, .user = r->user };
	int j;

	root = r;
	root_failed = false;
	nr_roots++;

	for (j = 0; j < 16; j++)
		s.reg[j] = val(r->user ? FIELD : KFIELD, reg_slot[j]);

	switch (r->kind) {
	case ROOT_SYSENTER:
		s.reg[REG_SP] = ptr(ENTRY, FRAME_BYTES);
		break;
	case ROOT_IDT:
		for (j = IP; j < NR_SLOTS; j++)
			*word(&s, r->user ? ENTRY : KERN, j * 8) =
				val(r->user ? FIELD : KFIELD, j);
		s.reg[REG_SP] = ptr(r->user ? ENTRY : KERN, (r->error_code ? ORIG_AX : IP) * 8);
		break;
	case ROOT_EXIT:
		for (j = 0; j < 16; j++)
			s.reg[j] = val(ANY, 0);
		s.reg[REG_SP] = ptr(TASK, 0);
		break;
	default:
		break;
	}
	/* If this way in is from the kernel, an earlier entry has completed pt_regs. */
	for (j = 0; j < NR_SLOTS; j++) {
		if (!r->user || r->kind == ROOT_EXIT)
			*word(&s, TASK, j * 8) = expected(j);
	}

	run_nodes(r->ip, &s, run_node);
	root = NULL;
}

void run_worlds(struct root *r)
{
	pti = false;
	run_root(r);
#ifdef CONFIG_MITIGATION_PAGE_TABLE_ISOLATION
	pti = true;
	run_root(r);
#endif
}
