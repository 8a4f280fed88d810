// SPDX-License-Identifier: GPL-2.0
/*
 * check_user_regs: what is known before each instruction, and what to run again
 */

#include <stdlib.h>

#include "check_user_regs.h"

static struct node **nodes;
static struct { struct node *node; int way; } *queue;
static size_t queue_head, queue_tail, queue_size;

void init_nodes(void)
{
	nodes = alloc(entry_end - entry_start + (repl ? repl->size : 0), sizeof(*nodes));
}

static size_t node_index(unsigned long long ip)
{
	if (in_entry(ip))
		return ip - entry_start;
	return entry_end - entry_start + (ip - repl->addr);
}

void reach(unsigned long long ip, const struct state *s)
{
	const struct value *sp = &s->reg[REG_SP];
	struct node **slot, *node;
	int way;

	way = 2 * (sp->kind == PTR ? sp->base + 1 : 0) + s->user;
	slot = &nodes[node_index(ip)];
	if (!*slot) {
		*slot = alloc(1, sizeof(**slot));
		(*slot)->ip = ip;
	}
	node = *slot;
	if (!node->state[way]) {
		node->state[way] = alloc(1, sizeof(*s));
		*node->state[way] = *s;
	} else if (!join(node->state[way], s)) {
		return;
	}
	if (node->queued[way])
		return;
	node->queued[way] = true;
	if (queue_tail == queue_size) {
		queue_size = queue_size * 2 + 4096;
		queue = realloc(queue, queue_size * sizeof(*queue));
		if (!queue)
			die("no memory");
	}
	queue[queue_tail].node = node;
	queue[queue_tail++].way = way;
}

/* Run @ip and all code that it reaches, until no state changes any more. */
void run_nodes(unsigned long long ip, const struct state *s,
	       void (*run_node)(struct node *node, struct state *state))
{
	size_t n = node_index(repl ? repl->addr + repl->size : entry_end), i;
	int j;

	queue_head = queue_tail = 0;
	reach(ip, s);
	while (queue_head < queue_tail && !root_failed) {
		struct node *node = queue[queue_head].node;
		int way = queue[queue_head++].way;

		node->queued[way] = false;
		run_node(node, node->state[way]);
	}
	for (i = 0; i < n; i++) {
		for (j = 0; nodes[i] && j < NR_WAYS; j++)
			free(nodes[i]->state[j]);
		free(nodes[i]);
		nodes[i] = NULL;
	}
}
