// SPDX-License-Identifier: GPL-2.0
/*
 * Where a confined walk may go
 *
 * Supplied rules, which do not come from the program itself, are followed with more
 * care: they must not make the walk read arbitrary memory of the program. From the
 * first such rule on, the walk is confined. It only reads the stack, from the inside
 * outwards, and only continues at addresses of code.
 */
#include <linux/minmax.h>
#include <linux/unwind_user.h>

#include "confine.h"
#include "mapping.h"

/*
 * How many bytes below the stack pointer belong to the frame. In an epilogue, the
 * slot of the frame pointer that has just been popped is there.
 */
#define UNWIND_USER_RED_ZONE	128

static bool unwind_user_in_mapping(const struct unwind_user_mapping *mapping,
				   unsigned long addr)
{
	return addr >= mapping->start && addr < mapping->end &&
	       unwind_user_mm_current(mapping->seq);
}

/**
 * unwind_user_on_stack - May a confined walk read this memory?
 * @state:	State of the walk, which is confined
 * @addr:	Address, in the stack segment
 * @size:	Number of bytes
 *
 * The stack begins at the stack pointer, or at the red zone below it, and ends at
 * the end of its mapping. A caller's frame can only be there. A walk by the
 * program's own rules would read the same memory.
 *
 * Context: As unwind_user_next().
 * Return: true if the memory is on the stack.
 */
bool unwind_user_on_stack(const struct unwind_user_state *state,
			  unsigned long addr, unsigned int size)
{
	unsigned long sp = state->regs.ss_base + state->regs.sp;
	struct unwind_user_mapping *stack = &state->confine->stack;

	addr += state->regs.ss_base;

	if (!unwind_user_in_mapping(stack, sp) && !unwind_user_find_stack(sp, stack))
		return false;

	/* @addr may be any number. If the sum wraps, it is below @sp. */
	return addr >= stack->start && addr + UNWIND_USER_RED_ZONE >= sp &&
	       addr < stack->end && size <= stack->end - addr;
}

/**
 * unwind_user_stack_end - Find the end of the stack of a confined walk
 * @confine:	What the walk remembers
 * @sp:		Stack pointer, a linear address
 *
 * Context: As unwind_user_next().
 * Return: First byte after the stack, or 0 if no confined walk has been there yet.
 */
unsigned long unwind_user_stack_end(const struct unwind_user_confine *confine,
				    unsigned long sp)
{
	return unwind_user_in_mapping(&confine->stack, sp) ? confine->stack.end : 0;
}

/**
 * unwind_user_at_code - May a confined walk continue at this address?
 * @state:	State of the walk, which is confined
 * @ip:		Linear address: a return address, or the next instruction to run
 * @topmost:	@ip is the next instruction to run
 *
 * Otherwise the walk would report words of the program's data as addresses.
 *
 * Context: As unwind_user_next().
 * Return: true if the instruction is in an executable mapping.
 */
bool unwind_user_at_code(const struct unwind_user_state *state, unsigned long ip,
			 bool topmost)
{
	struct unwind_user_confine *confine = state->confine;
	struct unwind_user_mapping *code, *old = NULL;
	unsigned int i;

	/* A call may be the last instruction of its mapping. */
	ip -= !topmost;

	for (i = 0; i < confine->nr_codes; i++) {
		code = &confine->codes[i];
		if (ip < code->start || ip >= code->end)
			continue;
		if (unwind_user_mm_current(code->seq))
			return true;
		old = code;
	}

	/* Most mappings are still there when others have changed. */
	if (old)
		return unwind_user_find_code(ip, old);

	code = &confine->codes[confine->next_code];
	if (!unwind_user_find_code(ip, code))
		return false;

	confine->nr_codes = max(confine->nr_codes, confine->next_code + 1);
	confine->next_code = (confine->next_code + 1) % UNWIND_USER_CODES;
	return true;
}
