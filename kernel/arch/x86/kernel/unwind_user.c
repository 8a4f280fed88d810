// SPDX-License-Identifier: GPL-2.0
/*
 * Frames of user stacks, as x86 compilers make them
 */
#include <linux/array_size.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/unwind_user.h>

#include <asm/desc.h>
#include <asm/fpu/signal.h>
#include <asm/perf_event.h>
#include <asm/segment.h>
#include <asm/sigframe.h>
#include <asm/unwind_user.h>
#include <asm/vdso.h>

/**
 * arch_unwind_user_regs - Keep what a walk needs of the user registers
 * @uregs:	Where to keep it
 * @regs:	User mode registers of current
 *
 * Context: Any, including NMI. Interrupts must be disabled.
 * Return: false if this mode cannot be unwound (virtual 8086 mode).
 */
bool notrace arch_unwind_user_regs(struct unwind_user_regs *uregs,
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
		.cfa	= { .base = UNWIND_USER_BASE_SP, .off = word },
		.ra	= { .base = UNWIND_USER_BASE_CFA, .off = -word, .deref = true },
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
		rule->cfa.off = 2 * word;
		rule->fp = (struct unwind_user_loc) {
			.base	= UNWIND_USER_BASE_CFA,
			.off	= -2 * word,
			.deref	= true,
		};
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
		.cfa	= { .base = UNWIND_USER_BASE_FP, .off = 2 * word },
		.ra	= { .base = UNWIND_USER_BASE_CFA, .off = -word, .deref = true },
		.fp	= { .base = UNWIND_USER_BASE_CFA, .off = -2 * word, .deref = true },
	};
}

/* call rel32, and the opcode of call with a ModRM byte whose reg field is 2 */
#define INSN_CALL		0xe8
#define INSN_CALL_LEN		5
#define INSN_CALL_INDIRECT	0xff
/* Opcode, ModRM, SIB, and a displacement of 4 bytes */
#define INSN_CALL_LEN_MAX	7

/* Length of the indirect call at @insn, without prefixes; 0 if it is none. */
static unsigned int indirect_call_len(const u8 *insn)
{
	const u8 mod = insn[1] >> 6, reg = (insn[1] >> 3) & 7, rm = insn[1] & 7;
	unsigned int len = 2;

	if (insn[0] != INSN_CALL_INDIRECT || reg != 2)
		return 0;

	/* A register. */
	if (mod == 3)
		return len;

	/* rm of 4: a SIB byte; no base, or ip: a displacement of 4 bytes */
	if (rm == 4)
		len++;
	if (mod == 2 || (mod == 0 && (rm == 5 || (rm == 4 && (insn[2] & 7) == 5))))
		len += 4;
	else if (mod == 1)
		len++;

	return len;
}

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
	/* What looks like a call of two bytes may seem to have a third one. */
	u8 code[INSN_CALL_LEN_MAX + 1] = {};
	const u8 *end = code + INSN_CALL_LEN_MAX;
	unsigned int len;

	if (ip < INSN_CALL_LEN_MAX ||
	    !unwind_user_read(ip - INSN_CALL_LEN_MAX, code, INSN_CALL_LEN_MAX))
		return false;

	if (*(end - INSN_CALL_LEN) == INSN_CALL)
		return true;

	for (len = 2; len <= INSN_CALL_LEN_MAX; len++) {
		if (indirect_call_len(end - len) == len)
			return true;
	}

	return false;
}

/* The longest code that returns from a signal handler: mov $nr, %rax; syscall */
#define SIGRETURN_CODE_MAX	9

/**
 * struct sigreturn_code - How a signal handler returns to the kernel
 * @code:	Bytes of the instructions
 * @len:	How many
 * @pop:	How many of them are an instruction that pops a word first
 * @enter:	How many of them, at the end, enter the kernel
 * @word_size:	Of the code, as &struct unwind_user_regs has it
 * @context:	Where the interrupted registers are when the handler has returned,
 *		as an offset from the stack pointer
 *
 * The kernel does not know who wrote this code: the C library, a runtime such as
 * that of Go, or the vDSO. All of them have to write just this, since what the
 * kernel reads back is at a fixed offset from the stack pointer. Debuggers and
 * unwinders go by these bytes, too.
 */
struct sigreturn_code {
	u8	code[SIGRETURN_CODE_MAX];
	u8	len;
	u8	pop;
	u8	enter;
	u8	word_size;
	u16	context;
};

/* The handler's return popped the first word of the frame. */
#define SIGCONTEXT_64	(offsetof(struct rt_sigframe, uc.uc_mcontext) - sizeof(u64))
#define SIGCONTEXT_X32	(offsetof(struct rt_sigframe_x32, uc.uc_mcontext) - sizeof(u64))
#define SIGCONTEXT_IA32	(offsetof(struct sigframe_ia32, sc) - sizeof(u32))
#define SIGCONTEXT_IA32_RT (offsetof(struct rt_sigframe_ia32, uc.uc_mcontext) - sizeof(u32))

static const struct sigreturn_code sigreturn_codes[] = {
	{	/* mov $__NR_rt_sigreturn, %rax; syscall */
		.code		= { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 },
		.len		= 9,
		.enter		= 2,
		.word_size	= sizeof(u64),
		.context	= SIGCONTEXT_64,
	}, {	/* mov $__NR_rt_sigreturn, %eax; syscall */
		.code		= { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 },
		.len		= 7,
		.enter		= 2,
		.word_size	= sizeof(u64),
		.context	= SIGCONTEXT_64,
#ifdef CONFIG_X86_X32_ABI
	}, {	/* mov $__X32_SYSCALL_BIT + 513, %rax; syscall */
		.code		= { 0x48, 0xc7, 0xc0, 0x01, 0x02, 0, 0x40, 0x0f, 0x05 },
		.len		= 9,
		.enter		= 2,
		.word_size	= sizeof(u64),
		.context	= SIGCONTEXT_X32,
	}, {	/* mov $__X32_SYSCALL_BIT + 513, %eax; syscall */
		.code		= { 0xb8, 0x01, 0x02, 0, 0x40, 0x0f, 0x05 },
		.len		= 7,
		.enter		= 2,
		.word_size	= sizeof(u64),
		.context	= SIGCONTEXT_X32,
#endif
#ifdef CONFIG_IA32_EMULATION
	}, {	/* mov $__NR_ia32_rt_sigreturn, %eax; int $0x80 */
		.code		= { 0xb8, 0xad, 0, 0, 0, 0xcd, 0x80 },
		.len		= 7,
		.enter		= 2,
		.word_size	= sizeof(u32),
		.context	= SIGCONTEXT_IA32_RT,
	}, {	/* pop %eax; mov $__NR_ia32_sigreturn, %eax; int $0x80 */
		.code		= { 0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80 },
		.len		= 8,
		.pop		= 1,
		.enter		= 2,
		.word_size	= sizeof(u32),
		.context	= SIGCONTEXT_IA32,
#endif
	},
};

/*
 * Which sigreturn code is at ip? @before receives the number of its bytes that
 * have run. A handler returns to the first; the interrupted frame may be after
 * any instruction, the one that entered the kernel included.
 *
 * Returns NULL if there is none, or an error pointer if the code is not readable.
 */
static const struct sigreturn_code *
find_sigreturn_code(const struct unwind_user_state *state, unsigned int *before)
{
	const unsigned long ip = state->regs.cs_base + state->regs.ip;
	/* What may have run, then what may run. */
	u8 window[2 * SIGRETURN_CODE_MAX] = {};
	u8 *insn = window + SIGRETURN_CODE_MAX;
	unsigned int avail, i, j;
	unsigned long first;

	if (state->topmost) {
		avail = SIGRETURN_CODE_MAX;
		if (!unwind_user_read(ip - avail, window, sizeof(window)))
			return NULL;
	} else if (likely(unwind_user_peek(ip, &first))) {
		/* All codes tell by their first bytes, and most calls are none. */
		avail = sizeof(first);
		memcpy(insn, &first, avail);
	} else {
		/* Not present, or the last bytes of a mapping. */
		avail = min_t(unsigned int, SIGRETURN_CODE_MAX,
			      PAGE_SIZE - offset_in_page(ip));
		if (!unwind_user_read(ip, insn, avail))
			return ERR_PTR(-EFAULT);
	}

	for (i = 0; i < ARRAY_SIZE(sigreturn_codes); i++) {
		const struct sigreturn_code *code = &sigreturn_codes[i];
		const unsigned int known = min_t(unsigned int, code->len, avail);
		const unsigned int at[] = {
			0, code->pop, code->len - code->enter, code->len
		};

		if (code->word_size != state->regs.word_size)
			continue;

		for (j = 0; j < (state->topmost ? ARRAY_SIZE(at) : 1); j++) {
			if (*(insn - at[j]) != code->code[0] ||
			    memcmp(insn - at[j], code->code, known))
				continue;
			if (known < code->len &&
			    (!unwind_user_read(ip + known, insn + known,
					       code->len - known) ||
			     memcmp(insn + known, code->code + known,
				    code->len - known)))
				continue;
			*before = at[j];
			return code;
		}
	}

	return NULL;
}

/* The mode that was interrupted; signal handlers may be of another one. */
static u8 word_size_of_cs(u16 cs)
{
	switch (cs) {
	case __USER_CS:
		return sizeof(u64);
#ifdef CONFIG_IA32_EMULATION
	case __USER32_CS:
		return sizeof(u32);
#endif
	default:
		return 0;
	}
}

/**
 * arch_unwind_user_at_sigreturn - Is this the frame of code that calls sigreturn?
 * @state:	State of the walk
 *
 * Context: As unwind_user_next().
 * Return: 1 if arch_unwind_user_signal_frame() is to be tried, 0 if not, -EFAULT
 *	   if the code cannot be read.
 */
int arch_unwind_user_at_sigreturn(const struct unwind_user_state *state)
{
	const struct sigreturn_code *code;
	unsigned int before;

	code = find_sigreturn_code(state, &before);
	if (IS_ERR(code))
		return PTR_ERR(code);

	return code ? 1 : 0;
}

/* Frames are put at multiples of this, less the first word. */
#define SIGFRAME_ALIGNMENT	16

/* In the order of the DWARF numbers. */
#define UNWIND_USER_GPRS(regs)	{{					\
	(regs)->ax, (regs)->dx, (regs)->cx, (regs)->bx,			\
	(regs)->si, (regs)->di, (regs)->bp, (regs)->sp,			\
	(regs)->r8, (regs)->r9, (regs)->r10, (regs)->r11,		\
	(regs)->r12, (regs)->r13, (regs)->r14, (regs)->r15,		\
}}

/**
 * arch_unwind_user_gprs - Keep all general registers
 * @gprs:	Where to keep them
 * @regs:	User mode registers of current
 *
 * Context: Any, including NMI.
 */
void arch_unwind_user_gprs(struct unwind_user_gprs *gprs, const struct pt_regs *regs)
{
	*gprs = (struct unwind_user_gprs) UNWIND_USER_GPRS(regs);
}

/**
 * arch_unwind_user_signal_frame - Leave a frame that the kernel made for a signal
 * @state:	State of the walk, at a frame that arch_unwind_user_at_sigreturn() or
 *		an unwind table says is one
 * @regs:	Receives the registers that the signal interrupted
 * @gprs:	Receives all of them; zeros in 32-bit mode, for which no unwind tables
 *		exist
 *
 * A signal handler returns to code that makes the system call sigreturn. The
 * caller of that is what the signal interrupted. Its registers, all of them, are
 * on the stack, where a handler may have changed them: what is there is where
 * the program will go on.
 *
 * Context: As unwind_user_next().
 * Return: false if the registers cannot be read, or make no sense.
 */
bool arch_unwind_user_signal_frame(const struct unwind_user_state *state,
				   struct unwind_user_regs *regs,
				   struct unwind_user_gprs *gprs)
{
	const struct sigreturn_code *code;
	unsigned long context;
	unsigned int before;

	code = find_sigreturn_code(state, &before);
	if (IS_ERR_OR_NULL(code)) {
		/* Its table says so, and tables are for 64-bit code only. */
		code = &sigreturn_codes[0];
		before = 0;
		if (state->regs.word_size != code->word_size)
			return false;
	}

	context = state->regs.sp + code->context;
	/* Already popped. */
	if (code->pop && before)
		context -= code->word_size;

	if (code->word_size == sizeof(u64)) {
		struct sigcontext_64 sc;

		BUILD_BUG_ON(offsetof(struct sigcontext_64, cs) + sizeof(sc.cs) >
			     offsetof(struct sigcontext_64, err));
		if (!unwind_user_load(state, context, &sc,
				      offsetof(struct sigcontext_64, err)))
			return false;
		*regs = (struct unwind_user_regs) {
			.ip		= sc.ip,
			.sp		= sc.sp,
			.fp		= sc.bp,
			.word_size	= word_size_of_cs(sc.cs),
		};
		*gprs = (struct unwind_user_gprs) UNWIND_USER_GPRS(&sc);
	} else {
		struct sigcontext_32 sc;

		if (!unwind_user_load(state, context, &sc, sizeof(sc)))
			return false;
		*regs = (struct unwind_user_regs) {
			.ip		= sc.ip,
			.sp		= sc.sp,
			.fp		= sc.bp,
			.word_size	= word_size_of_cs(sc.cs),
		};
		*gprs = (struct unwind_user_gprs) { };
	}

	return regs->word_size;
}

/**
 * arch_unwind_user_altstack_frame - Is this the frame that the alternate stack is for?
 * @state:	State of the walk, at a frame that arch_unwind_user_at_sigreturn() says
 *		is one
 *
 * The first signal frame on an alternate stack has its place at the upper end, and it
 * stays there as long as the task runs on that stack, which cannot be exchanged
 * meanwhile. Its place depends on how much state the task has to save. If that is more
 * by now (AMX), or the stack was disarmed by SS_AUTODISARM, the frame is not recognized.
 *
 * Context: As unwind_user_next().
 * Return: true if the kernel has put a 64-bit signal frame there, and the task has not
 *	   returned from the signal.
 */
bool arch_unwind_user_altstack_frame(const struct unwind_user_state *state)
{
	unsigned long top = current->sas_ss_sp + current->sas_ss_size;
	unsigned long sp, buf_fx, size;

	if (state->regs.word_size != sizeof(u64) || !__on_sig_stack(state->start))
		return false;

	/* As get_sigframe(); the handler's return pops the first word. */
	sp = fpu__alloc_mathframe(top, 0, &buf_fx, &size);
	sp = round_down(sp - sizeof(struct rt_sigframe), SIGFRAME_ALIGNMENT);

	return state->regs.sp == sp;
}

/**
 * arch_unwind_user_vdso - Does a mapping show the vDSO?
 * @vma:	The mapping
 *
 * Context: The mmap lock is held.
 * Return: true if @vma shows all of it, in its place.
 */
bool arch_unwind_user_vdso(const struct vm_area_struct *vma)
{
	const mm_context_t *context = &vma->vm_mm->context;
	const struct vdso_image *image = context->vdso_image;

	/* Anything may be mapped in its place, but not with vm_ops and no file. */
	return image && vma->vm_start == (unsigned long)context->vdso &&
	       vma->vm_end - vma->vm_start == image->size &&
	       !vma->vm_file && vma->vm_ops;
}
