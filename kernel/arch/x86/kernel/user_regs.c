// SPDX-License-Identifier: GPL-2.0
/*
 * User registers of the current task, at any instruction of the kernel
 *
 * Outside the entry code pt_regs at the top of the task's stack is complete, and
 * all there is to do is to know that one is outside. Within, what is not in
 * pt_regs is in live registers, or on the stack that the CPU has switched to:
 * asm/user_regs_hints.h. arch/x86/tools/check_user_regs.c does the same with symbols when
 * vmlinux has been linked, at each instruction: change both.
 *
 * An exception that can come in the entry code, hence #DB or #MC, has a stack of
 * its own. Its pt_regs is what was interrupted, so the search goes on from there:
 *
 *	NMI, in the handler of	-> #DB, which came in	-> entry code
 *	regs of the NMI		   pt_regs at the top	   as if the NMI had come
 *				   of the #DB stack	   here
 */
#include <linux/compiler.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <asm/cpu_entry_area.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>
#include <asm/ptrace.h>
#include <asm/sections.h>
#include <asm/segment.h>
#include <asm/stacktrace.h>
#include <asm/user_regs.h>
#include <asm/user_regs_hints.h>
#include <asm/vdso.h>

/* A stack for each of NMI, #DB and #MC, and what those interrupted. */
#define USER_REGS_MAX_NESTING	4

/* What asm_exc_nmi() has on its stack above pt_regs, to tell nested NMIs. */
#define NMI_STACK_WORDS		12

static unsigned int user_regs_where(unsigned long ip)
{
	const struct user_regs_hint *low = __start_user_regs_hints;
	const struct user_regs_hint *high = __stop_user_regs_hints;

	if (ip < (unsigned long)__entry_text_start ||
	    ip >= (unsigned long)__entry_text_end)
		return USER_REGS_KERNEL;

	/* The first hint behind ip */
	while (low < high) {
		const struct user_regs_hint *mid = low + (high - low) / 2;

		if ((unsigned long)&mid->ip + mid->ip <= ip)
			low = mid + 1;
		else
			high = mid;
	}

	return low == __start_user_regs_hints ? USER_REGS_UNKNOWN : low[-1].where;
}

/*
 * How far below the return address of error_entry() the stack pointer may be until
 * fixup_bad_iret() and sync_regs() are done. The former has a copy of pt_regs in its
 * frame, and calls memcpy().
 */
#define FIXUP_BAD_IRET_BYTES	(3 * sizeof(struct pt_regs))

/* Some word of a stack, that KASAN may take for another function's. */
static unsigned long stack_word(const unsigned long *word)
{
	return READ_ONCE_NOCHECK(*word);
}

/*
 * Take from @frame what has been pushed; @copy has what is live. The stack
 * pointer may be below @frame.
 */
static void take_pushed(struct pt_regs *copy, const struct pt_regs *frame,
			unsigned long sp)
{
	unsigned long start = (unsigned long)frame;
	size_t live = sp > start ? min(sp - start, sizeof(*frame)) : 0;

	memcpy((void *)copy + live, (void *)frame + live, sizeof(*frame) - live);
}

/*
 * IRET to user mode may fault. The frame of that fault and what the handler
 * pushes are below the frame that IRET was to take, which begins at the top of
 * the stack, in the place of all other registers:
 *
 *	user->	sp ss		of the user, from here to the top
 *		ip cs flags
 *		orig_ax		alignment
 *		di .. ax	ss sp flags cs ip of the fault
 *		r8		error code
 *		..		what error_entry() pushes
 *	-7 words		return address of the call of error_entry()
 *
 * until fixup_bad_iret() and sync_regs() have put all in their place. If a program
 * makes its registers look like that it gets no user registers in its samples. The
 * return address may be one that such a fault has left; deeper calls are not misled.
 */
static bool iret_faulted(const struct pt_regs *user, unsigned long sp)
{
	const unsigned long *ret = (const unsigned long *)user - 7;

	if (sp > (unsigned long)&user->ax)
		return false;

	if (user->ax == (unsigned long)native_irq_return_iret &&
	    user->cx == __KERNEL_CS)
		return true;

	return sp <= (unsigned long)ret &&
	       sp > (unsigned long)ret - FIXUP_BAD_IRET_BYTES &&
	       user_regs_where(stack_word(ret) - 1) == USER_REGS_IDT;
}

#ifdef CONFIG_IA32_EMULATION
/*
 * SYSENTER and the 32-bit SYSCALL: do_SYSENTER_32() and do_fast_syscall_32()
 * complete what the entry code has pushed, the latter with interrupts on. @user
 * may be as before, in between, or after.
 *
 * SYSENTER has lost ip and sp, which are 0 at first. Both are set, and the interrupt
 * flag, before interrupts are enabled, in whichever order the compiler has chosen. bp is
 * loaded from the user's stack once they are. Until then it is what SYSENTER and the
 * vDSO's SYSCALL left there: sp and cx respectively. If it is that by chance afterwards
 * it comes from where it is read again here.
 */
static struct pt_regs *fast_syscall_32_regs(unsigned int where,
					    struct pt_regs *user,
					    struct pt_regs *copy, bool raw)
{
	unsigned long landing_pad = (unsigned long)current->mm->context.vdso +
				    vdso_image_32.sym_int80_landing_pad;
	bool sysenter = where == USER_REGS_SYSENTER_PUSH;
	u32 bp;

	if (sysenter && (!user->ip || !user->sp)) {
		/* A debugger has set one of them: no matter which. */
		if ((user->ip && user->ip != landing_pad) ||
		    (user->sp && user->sp != user->bp))
			return NULL;
		raw = true;
	}

	if (!raw && user->ip != landing_pad) {
		/* SYSCALL elsewhere than in the vDSO, or a signal, or a debugger? */
		if (!sysenter && user->cx == user->bp)
			return NULL;
		return user;
	}

	if (!raw && user->bp != (sysenter ? user->sp : user->cx))
		return user;

	if (copy != user)
		*copy = *user;
	if (sysenter)
		copy->sp = copy->bp;
	copy->flags |= X86_EFLAGS_IF;
	copy->ip = landing_pad;

	if (copy_from_user_nmi(&bp, (void __user *)(unsigned long)(u32)copy->sp,
			       sizeof(bp)))
		return NULL;

	*(u32 *)&copy->bp = bp;
	return copy;
}

/* @user is complete as far as the entry code is concerned, and has called C. */
static struct pt_regs *complete_regs(struct pt_regs *user, struct pt_regs *copy)
{
	unsigned int where;

	/* After sigreturn(2) it is no system call any more. */
	if (likely(user->cs != __USER32_CS) || user->orig_ax == -1UL)
		return user;

	/* The return address tells which entry code has called. */
	where = user_regs_where(stack_word((unsigned long *)user - 1) - 1);
	if (where != USER_REGS_SYSENTER_PUSH && where != USER_REGS_SYSCALL32_PUSH)
		return user;

	return fast_syscall_32_regs(where, user, copy, false);
}
#else
static struct pt_regs *fast_syscall_32_regs(unsigned int where,
					    struct pt_regs *user,
					    struct pt_regs *copy, bool raw)
{
	return NULL;
}

static struct pt_regs *complete_regs(struct pt_regs *user, struct pt_regs *copy)
{
	return user;
}
#endif

/*
 * @regs is in the code that a system call instruction enters at, at or before the
 * call of C code.
 */
static struct pt_regs *syscall_regs(const struct pt_regs *regs, unsigned int where,
				    struct pt_regs *copy)
{
	struct pt_regs *user = task_pt_regs(current);
	unsigned long sp = regs->sp;

	*copy = *regs;
	copy->orig_ax	= regs->ax;
	copy->ax	= -ENOSYS;
	copy->ss	= __USER_DS;

	switch (where) {
	case USER_REGS_SYSCALL_SP2:
	case USER_REGS_SYSCALL_PUSH:
		copy->sp	= this_cpu_read(cpu_tss_rw.x86_tss.sp2);
		fallthrough;
	case USER_REGS_SYSCALL:
		copy->ip	= regs->cx;
		copy->cs	= __USER_CS;
		copy->flags	= regs->r11;
		break;

	case USER_REGS_SYSCALL32:
		/* The next instruction loses r8. */
		copy->r8	= (u32)regs->sp;
		fallthrough;
	case USER_REGS_SYSCALL32_R8:
	case USER_REGS_SYSCALL32_PUSH:
		copy->sp	= copy->r8;
		copy->ip	= regs->cx;
		copy->cx	= regs->bp;
		copy->cs	= __USER32_CS;
		copy->flags	= regs->r11;
		copy->orig_ax	= (u32)regs->ax;
		break;

	case USER_REGS_SYSENTER:
		/* SYSENTER has loaded sp with the top of the entry stack. */
		if (sp & (PAGE_SIZE - 1))
			copy->orig_ax = *(unsigned long *)sp;
		fallthrough;
	case USER_REGS_SYSENTER_PUSH:
		/* As what is pushed */
		copy->sp	= 0;
		copy->ip	= 0;
		copy->cs	= __USER32_CS;
		copy->flags	= regs->flags & ~(X86_EFLAGS_RF | X86_EFLAGS_IF);
		copy->orig_ax	= (u32)copy->orig_ax;
		break;
	}

	switch (where) {
	case USER_REGS_SYSCALL_PUSH:
		if (sp <= (unsigned long)user)
			return user;
		take_pushed(copy, user, sp);
		return copy;

	case USER_REGS_SYSCALL32_PUSH:
	case USER_REGS_SYSENTER_PUSH:
		take_pushed(copy, user, sp);
		break;

	case USER_REGS_SYSCALL:
	case USER_REGS_SYSCALL_SP2:
		return copy;

	case USER_REGS_SYSCALL32:
	case USER_REGS_SYSCALL32_R8:
		where = USER_REGS_SYSCALL32_PUSH;
		break;

	case USER_REGS_SYSENTER:
		where = USER_REGS_SYSENTER_PUSH;
		break;
	}

	return fast_syscall_32_regs(where, copy, copy,
				    where == USER_REGS_SYSCALL32_PUSH);
}

/*
 * @frame is at the top of the stack that the CPU has switched to on its way from
 * user mode to @regs.
 */
static struct pt_regs *idt_regs(const struct pt_regs *regs, unsigned int where,
				struct pt_regs *frame, struct pt_regs *copy)
{
	if (regs->sp > (unsigned long)&frame->ip || !user_mode(frame) ||
	    iret_faulted(frame, regs->sp))
		return NULL;

	if (regs->sp <= (unsigned long)frame && where != USER_REGS_IDT_PUSH)
		return frame;

	/* C code has nothing to do there. */
	if (where == USER_REGS_KERNEL)
		return NULL;

	*copy = *regs;
	take_pushed(copy, frame, regs->sp);
	if (where == USER_REGS_IDT_PUSH)
		copy->di = regs->di;
	/* It may be an error code. */
	copy->orig_ax = -1UL;

	return copy;
}

/*
 * @regs is in kernel code whose stack pointer can be trusted.
 *
 * Return: The user registers; NULL if they are not known; or what an exception
 * interrupted on whose stack @regs is.
 */
static struct pt_regs *regs_of_stack(const struct pt_regs *regs, unsigned int where,
				     struct pt_regs *copy)
{
	struct pt_regs *user = task_pt_regs(current);
	struct stack_info info;
	struct pt_regs *frame;
	int type;

	if (!get_stack_info_noinstr((unsigned long *)regs->sp, current, &info)) {
		/* The ESPFIX stack. Its code may have pushed over pt_regs. */
		if (where == USER_REGS_IRET)
			return NULL;
		return complete_regs(user, copy);
	}

	frame = (struct pt_regs *)info.end - 1;
	type = info.type;

	/* FRED has other frames on them, and other entry code. */
	if (type >= STACK_TYPE_EXCEPTION && type <= STACK_TYPE_EXCEPTION_LAST &&
	    cpu_feature_enabled(X86_FEATURE_FRED))
		return NULL;

	switch (type) {
	case STACK_TYPE_TASK:
		/* IRET has nothing below the frame that it takes. */
		if (where == USER_REGS_IRET && regs->sp > (unsigned long)user)
			return user;
		/* FRED pushes here. */
		if (regs->sp > (unsigned long)user || iret_faulted(user, regs->sp))
			return NULL;
		if (where == USER_REGS_IDT && regs->sp == (unsigned long)user)
			return user;
		return complete_regs(user, copy);

	case STACK_TYPE_ENTRY:
		if (where == USER_REGS_IRET)
			return user;
		/* On the way in or on the way out? */
		if (where == USER_REGS_KERNEL &&
		    IS_ENABLED(CONFIG_GCC_PLUGIN_STACKLEAK))
			return NULL;
		return idt_regs(regs, where, frame, copy);

	case STACK_TYPE_EXCEPTION + ESTACK_DB:
	case STACK_TYPE_EXCEPTION + ESTACK_MCE:
		if (user_mode(frame))
			return idt_regs(regs, where, frame, copy);
		/* The frame is there, other registers may not be. */
		if (where != USER_REGS_KERNEL &&
		    user_regs_where(frame->ip) != USER_REGS_KERNEL)
			return NULL;
		return frame;

	case STACK_TYPE_EXCEPTION + ESTACK_NMI:
		frame = (struct pt_regs *)(info.end - NMI_STACK_WORDS) - 1;
		/* One from user mode has moved to the task's stack. */
		if (where != USER_REGS_KERNEL || user_mode(frame))
			return NULL;
		return frame;

	case STACK_TYPE_EXCEPTION + ESTACK_DF:
	case STACK_TYPE_EXCEPTION + ESTACK_VC:
	case STACK_TYPE_EXCEPTION + ESTACK_VC2:
		/* #VC moves to another stack, or begins in the middle of its own. */
		return NULL;

	default:
		return complete_regs(user, copy);
	}
}

/* As x86_user_regs(), where the entry code may have been interrupted */
static struct pt_regs *nmi_user_regs(const struct pt_regs *regs, struct pt_regs *copy)
{
	unsigned int level, where;
	struct pt_regs *found;

	for (level = 0; level < USER_REGS_MAX_NESTING; level++) {
		where = user_regs_where(regs->ip);

		if (where != USER_REGS_KERNEL && cpu_feature_enabled(X86_FEATURE_XENPV))
			return NULL;

		switch (where) {
		case USER_REGS_KERNEL:
		case USER_REGS_IRET:
		case USER_REGS_IDT:
		case USER_REGS_IDT_PUSH:
			found = regs_of_stack(regs, where, copy);
			if (!found || found == copy || user_mode(found))
				return found;
			regs = found;
			continue;

		case USER_REGS_EXIT:
			return task_pt_regs(current);

		case USER_REGS_UNKNOWN:
			return NULL;

		default:
			return syscall_regs(regs, where, copy);
		}
	}

	return NULL;
}

/**
 * x86_user_regs - Find the user registers of current
 * @regs:	What was interrupted in kernel mode, with all its registers. Or where
 *		the kernel is, with ip and sp only: not in the entry code then.
 * @copy:	Room for registers that are not complete anywhere
 *
 * The registers are what a debugger would be shown at a stop in this entry into
 * the kernel: with SYSCALL, cx and r11 are ip and flags; ax is -ENOSYS in a system
 * call until that is done, and orig_ax its number; with SYSENTER and the 32-bit
 * SYSCALL, ip is behind the int $0x80 of the vDSO and bp comes from the user's
 * stack. INT $0x80 is an exception until do_int80_emulation() makes it a system
 * call.
 *
 * C code sets them one after the other for a signal, at sigreturn(2), when a system
 * call is to be restarted, and for a new program. An interrupt of that code sees some
 * of each.
 *
 * Context: Any, interrupts or preemption disabled. current is a user task.
 * Return: What is complete in memory, @copy, or NULL where they cannot be known:
 * a fault of IRET to user mode, the ESPFIX stack, #VC, #DF, paranoid_entry and
 * paranoid_exit within entry code, entry code of Xen PV guests, and FRED's.
 */
struct pt_regs *x86_user_regs(const struct pt_regs *regs, struct pt_regs *copy)
{
	struct pt_regs *found;

	/* The entry code runs with interrupts off. */
	if (in_nmi())
		found = nmi_user_regs(regs, copy);
	else
		found = complete_regs(task_pt_regs(current), copy);

	/*
	 * A kernel thread that has not started a program yet has none. For all others
	 * this is the last line of defense: what is not of user mode is not given away.
	 */
	return found && user_mode(found) ? found : NULL;
}
