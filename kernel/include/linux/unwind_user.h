/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_H
#define _LINUX_UNWIND_USER_H

#include <linux/types.h>
#include <linux/unwind_user_rule.h>
#include <linux/unwind_user_types.h>

struct pt_regs;
struct task_struct;
struct unwind_user_confine;
struct unwind_user_hand;
struct unwind_user_rules;

/*
 * The deepest stack that a walk returns. This many return addresses fit into a perf
 * record, which is at most 64 KiB long.
 */
#define UNWIND_USER_MAX_DEPTH	8000

static inline bool unwind_user_regs_equal(const struct unwind_user_regs *a,
					  const struct unwind_user_regs *b)
{
	return a->ip == b->ip && a->sp == b->sp && a->fp == b->fp &&
	       a->cs_base == b->cs_base && a->ss_base == b->ss_base &&
	       a->word_size == b->word_size;
}

/**
 * enum unwind_user_result - Outcome of one step of a walk
 * @UNWIND_USER_FRAME:	The state now describes the calling frame
 * @UNWIND_USER_END:	The current frame is the outermost one
 * @UNWIND_USER_CORRUPT: The calling frame cannot be found: memory is not
 *			readable, or its contents cannot be a frame
 */
enum unwind_user_result {
	UNWIND_USER_FRAME,
	UNWIND_USER_END,
	UNWIND_USER_CORRUPT,
};

/**
 * struct unwind_user_stats - How many callers a walk found by each method
 * @table:	By a rule of a section or table
 * @supplied:	By a rule of a supplied table; counted in @table, too
 * @fp:		By frame pointer
 * @entry:	As a function at its entry or return, where it has no frame
 * @lookups:	How often the walk looked up the region of a frame
 */
struct unwind_user_stats {
	unsigned int	table;
	unsigned int	supplied;
	unsigned int	fp;
	unsigned int	entry;
	unsigned int	lookups;
};

/**
 * struct unwind_user_state - State of a walk over a user stack
 * @task:	Whose stack it is, see unwind_user_task()
 * @regs:	Registers of the current frame, as far as they are known
 * @start:	The task's stack pointer
 * @bottom:	Where the walk entered the current stack, or a signal interrupted it
 * @switches:	How often the walk went to a lower stack
 * @gprs:	General registers of the current frame, if @gprs_known
 * @rules:	Memory for rules, or NULL to walk without sections and tables
 * @confine:	Where the walk may go if it is @confined; part of @rules
 * @stats:	Which methods the walk used
 * @fp_known:	@regs.fp is the frame's; false if its stack slot was not readable
 * @signals:	How many signal frames the walk passed
 * @gprs_known:	@gprs are the frame's
 * @suspect:	A frame pointer led to this stack from another one
 * @confined:	The walk has followed a rule of a supplied table,
 *		so values of this frame may differ from what the program left there
 * @topmost:	The kernel or a signal interrupted the current frame: @regs.ip is the
 *		next instruction to run, not a return address
 * @probed:	First byte of the instruction that the uprobe at @regs.ip has replaced, or 0
 * @absent:	The first word to read of the current frame is probably not present
 * @hand:	The walk uses what is at hand; NULL if it may sleep
 *
 * Belongs to the walking task and is not shared.
 */
struct unwind_user_state {
	struct task_struct	*task;
	struct unwind_user_regs	regs;
	struct unwind_user_gprs	gprs;
	struct unwind_user_rules *rules;
	struct unwind_user_confine *confine;
	struct unwind_user_stats stats;
	unsigned long		start;
	unsigned long		bottom;
	unsigned int		switches;
	unsigned int		signals;
	bool			fp_known;
	bool			gprs_known;
	bool			suspect;
	bool			confined;
	bool			topmost;
	u8			probed;
	bool			absent;
	struct unwind_user_hand	*hand;
};

#ifdef CONFIG_UNWIND_USER_SFRAME
struct unwind_user_rules *unwind_user_rules_alloc(gfp_t gfp);
void unwind_user_rules_free(struct unwind_user_rules *rules);
void unwind_user_rules_reset(struct unwind_user_rules *rules);
#endif

bool unwind_user_peek(unsigned long addr, unsigned long *val);
bool unwind_user_read(unsigned long addr, void *buf, unsigned int size);
bool unwind_user_load(const struct unwind_user_state *state, unsigned long addr,
		      void *buf, unsigned int size);
void unwind_user_start(struct unwind_user_state *state,
		       const struct unwind_user_regs *regs,
		       const struct unwind_user_gprs *gprs,
		       struct unwind_user_rules *rules);
enum unwind_user_result unwind_user_next(struct unwind_user_state *state);
enum unwind_user_end unwind_user_walk(const struct unwind_user_regs *regs,
				      const struct unwind_user_gprs *gprs,
				      struct unwind_user_rules *rules,
				      unsigned long *entries, unsigned int max,
				      unsigned int *filled);

/**
 * unwind_user - unwind_user_walk() for callers that do not need to know why it ended
 * @regs:	As for unwind_user_walk()
 * @gprs:	As for unwind_user_walk()
 * @rules:	As for unwind_user_walk()
 * @entries:	As for unwind_user_walk()
 * @max:	As for unwind_user_walk()
 *
 * Return: The number of @entries filled.
 */
static inline unsigned int unwind_user(const struct unwind_user_regs *regs,
				       const struct unwind_user_gprs *gprs,
				       struct unwind_user_rules *rules,
				       unsigned long *entries, unsigned int max)
{
	unsigned int nr;

	unwind_user_walk(regs, gprs, rules, entries, max, &nr);

	return nr;
}

#endif /* _LINUX_UNWIND_USER_H */
