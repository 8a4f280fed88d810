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
#include <asm/pkru.h>
#include <asm/segment.h>
#include <asm/sigframe.h>
#include <asm/text-patching.h>
#include <asm/unwind_user.h>
#include <asm/vdso.h>

/**
 * arch_unwind_user_regs - Store the user registers that a walk needs
 * @uregs:	Where to store them
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

	/* x32 is 64-bit mode, too, and pushes 64-bit return addresses. */
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

/* mov %rsp, %rbp or mov %esp, %ebp, in both encodings; with REX.W in 64-bit code */
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
 * arch_unwind_user_entry_rule - Rule for a function at its entry or return
 * @state:	State of the walk, at the interrupted frame
 * @rule:	Receives the rule
 *
 * The interrupted function may not have set up its frame yet, or may have left it
 * already. Then the frame pointer still is, or again is, the caller's. Following it
 * would skip the caller's return address. Recognize this by the code around ip:
 *
 *	endbr64
 *	push %rbp		<- cfa = sp + 8 up to here
 *	mov %rsp, %rbp		<- cfa = sp + 16
 *	...
 *	pop %rbp
 *	ret			<- cfa = sp + 8
 *
 * A compiler may move other instructions in between. Such code is not recognized,
 * and its caller is missing from the stack. Code that is not readable or has a
 * breakpoint here is taken for the middle of a function, except if it is that of a uprobe
 * and the walk was asked for in the handler. On the other hand, endbr64
 * also marks other targets of indirect jumps, so the rule may be wrong.
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

	/* Do not fault in the next page for a few bytes. */
	len = min_t(unsigned int, sizeof(code) - 1, PAGE_SIZE - offset_in_page(ip));
	if (!unwind_user_read(ip, insn, len))
		return false;

	if (insn[0] == INT3_INSN_OPCODE && state->probed)
		insn[0] = state->probed;

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
 * @rule:	Receives the rule
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
#define INSN_CALL_LEN_MAX	ARCH_UNWIND_USER_CALL_MAX

/* Length of the indirect call at @insn, without prefixes; 0 if it is not one. */
static unsigned int indirect_call_len(const u8 *insn)
{
	const u8 mod = insn[1] >> 6, reg = (insn[1] >> 3) & 7, rm = insn[1] & 7;
	unsigned int len = 2;

	if (insn[0] != INSN_CALL_INDIRECT || reg != 2)
		return 0;

	/* A register operand. */
	if (mod == 3)
		return len;

	/*
	 * rm 4: SIB byte follows. No base, or ip as base: 4 bytes of displacement.
	 */
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
 * Distinguishes a return address from other numbers. Few other numbers pass by chance.
 *
 * Context: As unwind_user_next().
 * Return: true if the bytes before @ip can be a call instruction.
 */
bool arch_unwind_user_after_call(unsigned long ip)
{
	/* One more byte: a two-byte call may seem to have a SIB byte after it. */
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

/**
 * arch_unwind_user_after_nop - Is there a no-op before an address, and a call at it?
 * @ip:		Linear user address
 *
 * The outermost function of a goroutine returns to such an address, to call what ends the
 * goroutine. A no-op alone proves little: it may be padding before a function.
 *
 * Context: As unwind_user_next().
 * Return: false if there is none, or if the code cannot be read.
 */
bool arch_unwind_user_after_nop(unsigned long ip)
{
	u8 code[2];

	return ip && unwind_user_read(ip - 1, code, sizeof(code)) &&
	       code[0] == BYTES_NOP1 && code[1] == INSN_CALL;
}

/* The longest code that returns from a signal handler: mov $nr, %rax; syscall */
#define SIGRETURN_CODE_MAX	9

/**
 * struct sigreturn_code - Code by which a signal handler returns to the kernel
 * @code:	Bytes of the instructions
 * @len:	Number of bytes
 * @pop:	Length of an instruction at the start that pops a word, or 0
 * @enter:	Length of the instruction at the end that enters the kernel
 * @word_size:	Of the code, as in &struct unwind_user_regs
 * @context:	Offset of the interrupted registers from the stack pointer, after the
 *		handler has returned
 *
 * This code may be in the C library, in the vDSO, or in a runtime such as Go's; the
 * kernel does not know which. All of them use exactly these instructions, because
 * debuggers and other unwinders recognize the bytes. The registers are at a fixed
 * offset from the stack pointer.
 */
struct sigreturn_code {
	u8	code[SIGRETURN_CODE_MAX];
	u8	len;
	u8	pop;
	u8	enter;
	u8	word_size;
	u16	context;
};

/* The handler's return has popped the first word of the frame. */
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
 * Does the kernel make signal handlers return to ip? The task's signal actions say so, even
 * if the code cannot be read. Threads that share them change them under siglock, at any time:
 * also while an NMI reads them here. Then the answer may be wrong in either direction, as it is
 * if they have been changed since the signal.
 */
static bool is_restorer(const struct unwind_user_state *state)
{
	const struct sighand_struct *sighand;
	unsigned int i;

	/* Actions of 32-bit code need not name a restorer. */
	if (state->regs.word_size != sizeof(u64))
		return false;

	guard(rcu)();

	sighand = rcu_dereference(state->task->sighand);
	if (!sighand)
		return false;

	for (i = 0; i < ARRAY_SIZE(sighand->action); i++) {
		const struct sigaction *sa = &sighand->action[i].sa;

		if ((unsigned long)READ_ONCE(sa->sa_restorer) != state->regs.ip)
			continue;
		if ((READ_ONCE(sa->sa_flags) & (SA_RESTORER | SA_IA32_ABI | SA_X32_ABI)) ==
		    SA_RESTORER)
			return true;
	}

	return false;
}

/*
 * The code at ip cannot be read. If it is a restorer, its registers are where those of both
 * codes for 64-bit mode are.
 */
static const struct sigreturn_code *
unread_sigreturn_code(const struct unwind_user_state *state, unsigned int *before)
{
	if (state->topmost || !is_restorer(state))
		return ERR_PTR(-EFAULT);

	*before = 0;
	return &sigreturn_codes[0];
}

/*
 * Find the sigreturn code at ip. @before receives how many of its bytes have run. A
 * handler returns to the first byte. An interrupted frame may be after any of the
 * instructions, including the one that entered the kernel.
 *
 * Returns NULL if there is none, or an error pointer if the code cannot be read. For a walk
 * at hand, that may be code that is only not present.
 */
static const struct sigreturn_code *
find_sigreturn_code(const struct unwind_user_state *state, unsigned int *before)
{
	const unsigned long ip = state->regs.cs_base + state->regs.ip;
	/* First the bytes that may have run, then those that may run next. */
	u8 window[2 * SIGRETURN_CODE_MAX] = {};
	u8 *insn = window + SIGRETURN_CODE_MAX;
	unsigned int avail, i, j;
	unsigned long first;

	if (state->topmost) {
		avail = SIGRETURN_CODE_MAX;
		if (!unwind_user_read(ip - avail, window, sizeof(window)))
			return state->hand ? ERR_PTR(-EFAULT) : NULL;
	} else if (likely(unwind_user_peek(ip, &first))) {
		/* The first bytes identify each code. Few return addresses match. */
		avail = sizeof(first);
		memcpy(insn, &first, avail);
	} else {
		/* Not present, or the last bytes of a mapping. */
		avail = min_t(unsigned int, SIGRETURN_CODE_MAX,
			      PAGE_SIZE - offset_in_page(ip));
		if (!unwind_user_read(ip, insn, avail))
			return unread_sigreturn_code(state, before);
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
			    !unwind_user_read(ip + known, insn + known,
					      code->len - known)) {
				if (state->hand)
					return unread_sigreturn_code(state, before);
				continue;
			}
			if (known < code->len &&
			    memcmp(insn + known, code->code + known, code->len - known))
				continue;
			*before = at[j];
			return code;
		}
	}

	return NULL;
}

/* Word size of the interrupted mode. The handler may run in another mode. */
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
 * arch_unwind_user_at_sigreturn - Does the frame run code that calls sigreturn?
 * @state:	State of the walk
 *
 * Context: As unwind_user_next().
 * Return: 1 if arch_unwind_user_signal_frame() should be tried, 0 if not, -EFAULT
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

/* Signal frames are aligned to this, minus the first word. */
#define SIGFRAME_ALIGNMENT	16

/* In the order of their DWARF numbers. */
#define UNWIND_USER_GPRS(regs)	{{					\
	(regs)->ax, (regs)->dx, (regs)->cx, (regs)->bx,			\
	(regs)->si, (regs)->di, (regs)->bp, (regs)->sp,			\
	(regs)->r8, (regs)->r9, (regs)->r10, (regs)->r11,		\
	(regs)->r12, (regs)->r13, (regs)->r14, (regs)->r15,		\
}}

/**
 * arch_unwind_user_gprs - Store all general registers
 * @gprs:	Where to store them
 * @regs:	User mode registers of current
 *
 * Context: Any, including NMI. Not traced.
 */
void notrace arch_unwind_user_gprs(struct unwind_user_gprs *gprs, const struct pt_regs *regs)
{
	*gprs = (struct unwind_user_gprs) UNWIND_USER_GPRS(regs);
}

/**
 * arch_unwind_user_signal_frame - Leave a frame that the kernel made for a signal
 * @state:	State of the walk, at a signal frame according to
 *		arch_unwind_user_at_sigreturn(), a section or a table
 * @regs:	Receives the registers that the signal interrupted
 * @gprs:	Receives all general registers; zeros in 32-bit mode, for which there
 *		are no sections and tables
 *
 * A signal handler returns to code that makes the sigreturn system call. The caller
 * of that code is the frame that the signal interrupted. All its registers are on
 * the stack. A handler may have changed them there; the program will continue with
 * the values on the stack.
 *
 * Context: As unwind_user_next().
 * Return: false if the registers cannot be read, or are not valid.
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
		/* Only its section marks it as a signal frame. Such code is 64-bit. */
		code = &sigreturn_codes[0];
		before = 0;
		if (state->regs.word_size != code->word_size)
			return false;
	}

	context = state->regs.sp + code->context;
	/* The first word was popped already. */
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
 * arch_unwind_user_altstack_frame - Is this the first frame on the alternate stack?
 * @state:	State of the walk, at a signal frame according to
 *		arch_unwind_user_at_sigreturn()
 *
 * The first signal frame on an alternate stack is at its upper end. It stays there
 * as long as the task runs on that stack, and the stack cannot be replaced
 * meanwhile. The exact place depends on how much state the task has to save. If that
 * has grown since (AMX), or if SS_AUTODISARM has disarmed the stack, the frame is
 * not recognized.
 *
 * Context: As unwind_user_next().
 * Return: true if the kernel has put a 64-bit signal frame there, and the task has
 *	   not returned from the signal yet.
 */
bool arch_unwind_user_altstack_frame(const struct unwind_user_state *state)
{
	unsigned long base = READ_ONCE(state->task->sas_ss_sp);
	unsigned long top = base + READ_ONCE(state->task->sas_ss_size);
	unsigned long sp, buf_fx, size;

	if (state->regs.word_size != sizeof(u64) || state->start <= base || state->start > top)
		return false;

	/* As in get_sigframe(). The handler's return pops the first word. */
	sp = fpu__alloc_mathframe(top, 0, &buf_fx, &size);
	sp = round_down(sp - sizeof(struct rt_sigframe), SIGFRAME_ALIGNMENT);

	return state->regs.sp == sp;
}

/**
 * arch_unwind_user_vdso - Is a mapping the vDSO?
 * @vma:	The mapping
 *
 * Context: The mmap lock is held.
 * Return: true if @vma is all of the vDSO, also after mremap() has moved it.
 */
bool arch_unwind_user_vdso(const struct vm_area_struct *vma)
{
	const mm_context_t *context = &vma->vm_mm->context;
	const struct vdso_image *image = context->vdso_image;

	/*
	 * The program may map other memory there, but that has a file or no vm_ops.
	 */
	return image && vma->vm_start == (unsigned long)context->vdso &&
	       vma->vm_end - vma->vm_start == image->size &&
	       !vma->vm_file && vma->vm_ops;
}

/**
 * arch_unwind_user_ignore_keys - Ignore protection keys
 *
 * A kernel thread is about to read the memory of another task. As for ptrace(), protection
 * keys are no obstacle: those of the kernel thread say nothing about that memory.
 *
 * Context: A kernel thread.
 * Return: for arch_unwind_user_restore_keys().
 */
u32 arch_unwind_user_ignore_keys(void)
{
	u32 keys = read_pkru();

	write_pkru(0);
	return keys;
}

/**
 * arch_unwind_user_restore_keys - Undo arch_unwind_user_ignore_keys()
 * @keys:	From arch_unwind_user_ignore_keys()
 */
void arch_unwind_user_restore_keys(u32 keys)
{
	write_pkru(keys);
}
