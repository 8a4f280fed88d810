// SPDX-License-Identifier: GPL-2.0
/*
 * Frames of user stacks, as x86 compilers make them
 */
#include <linux/array_size.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/ptrace.h>
#include <linux/unwind_user.h>

#include <asm/desc.h>
#include <asm/perf_event.h>
#include <asm/unwind_user.h>

/**
 * arch_unwind_user_regs - Keep what a walk needs of the user registers
 * @uregs:	Where to keep it
 * @regs:	User mode registers of current
 *
 * Context: Any, including NMI. Interrupts must be disabled.
 * Return: false if this mode cannot be unwound (virtual 8086 mode).
 */
bool arch_unwind_user_regs(struct unwind_user_regs *uregs,
			   const struct pt_regs *regs)
{
	lockdep_assert_irqs_disabled();

	if (regs->flags & (X86_VM_MASK | PERF_EFLAGS_VM))
		return false;

	*uregs = (struct unwind_user_regs) {
		.ip		= regs->ip,
		.sp		= regs->sp,
		.fp		= regs->bp,
		.word_size	= sizeof(u64),
	};

	/* x32 is 64-bit mode too, and pushes 64-bit return addresses. */
	if (!user_64bit_mode((struct pt_regs *)regs)) {
		uregs->ip		= (u32)regs->ip;
		uregs->sp		= (u32)regs->sp;
		uregs->fp		= (u32)regs->bp;
		uregs->cs_base		= get_user_segment_base(regs->cs);
		uregs->ss_base		= get_user_segment_base(regs->ss);
		uregs->word_size	= sizeof(u32);
	}

	return true;
}

/* ret, ret imm16, and "rep ret" as compilers wrote it for old branch predictors */
#define INSN_RET		0xc3
#define INSN_RET_IMM16		0xc2
#define INSN_REP		0xf3
#define INSN_PUSH_BP		0x55

/* mov %rsp, %rbp or mov %esp, %ebp in both encodings; REX.W before it in 64-bit code */
static bool is_mov_sp_bp(const u8 *insn, bool is_64bit)
{
	if (is_64bit && *insn++ != 0x48)
		return false;

	return (insn[0] == 0x89 && insn[1] == 0xe5) ||
	       (insn[0] == 0x8b && insn[1] == 0xec);
}

static bool is_user_endbr(const u8 *insn, bool is_64bit)
{
	return insn[0] == 0xf3 && insn[1] == 0x0f && insn[2] == 0x1e &&
	       insn[3] == (is_64bit ? 0xfa : 0xfb);
}

/**
 * arch_unwind_user_entry_rule - Rule for a function that has no frame yet or any more
 * @state:	State of the walk, at the interrupted frame
 * @rule:	Filled in
 *
 * The interrupted function may not have set up its frame yet, or may have left
 * it already. The frame pointer is then that of the caller, and following it
 * would skip the caller's return address. Tell by the code around ip:
 *
 *	endbr64
 *	push %rbp		<- cfa = sp + 8 up to here
 *	mov %rsp, %rbp		<- cfa = sp + 16
 *	...
 *	pop %rbp
 *	ret			<- cfa = sp + 8
 *
 * A compiler may move other instructions in between; those are missed, and the
 * caller with them. Code that is not readable or has a breakpoint here is
 * taken for the middle of a function. On the other hand, endbr64 also marks
 * other targets of indirect jumps, so the rule may be wrong.
 *
 * Context: As unwind_user_next().
 * Return: false if this looks like the middle of a function.
 */
bool arch_unwind_user_entry_rule(const struct unwind_user_state *state,
				 struct unwind_user_rule *rule)
{
	const int word = state->regs.word_size;
	unsigned long ip = state->regs.cs_base + state->regs.ip;
	const bool is_64bit = word == sizeof(u64);
	/* The byte before ip, then the longest pattern: push and mov. */
	u8 code[1 + 4] = {};
	u8 *insn = code + 1;
	unsigned int len;

	/* Do not touch the next page for the sake of a few bytes. */
	len = min_t(unsigned int, sizeof(code) - 1, PAGE_SIZE - offset_in_page(ip));
	if (!unwind_user_read(ip, insn, len))
		return false;

	*rule = (struct unwind_user_rule) {
		.cfa_off	= word,
		.ra_off		= -word,
	};

	if (insn[0] == INSN_RET || insn[0] == INSN_RET_IMM16 ||
	    (insn[0] == INSN_REP && insn[1] == INSN_RET))
		return true;

	if (is_user_endbr(insn, is_64bit))
		return true;

	if (insn[0] == INSN_PUSH_BP && is_mov_sp_bp(insn + 1, is_64bit))
		return true;

	if (is_mov_sp_bp(insn, is_64bit) &&
	    unwind_user_read(ip - 1, code, 1) && code[0] == INSN_PUSH_BP) {
		rule->cfa_off	= 2 * word;
		rule->fp_off	= -2 * word;
		rule->fp_saved	= true;
		return true;
	}

	return false;
}

/**
 * arch_unwind_user_fp_rule - Rule for a frame of code built with frame pointers
 * @state:	State of the walk
 * @rule:	Filled in
 *
 * Context: As unwind_user_next().
 */
void arch_unwind_user_fp_rule(const struct unwind_user_state *state,
			      struct unwind_user_rule *rule)
{
	const int word = state->regs.word_size;

	/*
	 *	cfa ->	|			|
	 *		| return address	| pushed by call
	 *	 fp ->	| caller's fp		| push %rbp; mov %rsp, %rbp
	 *		|			|
	 */
	*rule = (struct unwind_user_rule) {
		.cfa_off	= 2 * word,
		.ra_off		= -word,
		.fp_off		= -2 * word,
		.cfa_from_fp	= true,
		.fp_saved	= true,
	};
}

/* call rel32, and the opcode of call with a ModRM byte whose reg field is 2 */
#define INSN_CALL		0xe8
#define INSN_CALL_INDIRECT	0xff

/**
 * arch_unwind_user_after_call - Does a call instruction end here?
 * @ip:		Linear user address
 *
 * Tells a return address from other numbers; a few are taken for one by chance.
 *
 * Context: As unwind_user_next().
 * Return: true if the bytes before @ip can be a call instruction.
 */
bool arch_unwind_user_after_call(unsigned long ip)
{
	/* Length of an indirect call without prefixes, by the ModRM's kind. */
	static const u8 lengths[] = { 2, 3, 4, 6, 7 };
	/* The longest one: opcode, ModRM, SIB, and a displacement of 4 bytes. */
	u8 code[7];
	unsigned int i;

	if (ip < sizeof(code) ||
	    !unwind_user_read(ip - sizeof(code), code, sizeof(code)))
		return false;

	if (code[sizeof(code) - 5] == INSN_CALL)
		return true;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		const u8 *insn = code + sizeof(code) - lengths[i];

		if (insn[0] == INSN_CALL_INDIRECT && ((insn[1] >> 3) & 7) == 2)
			return true;
	}

	return false;
}
