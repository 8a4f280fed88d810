// SPDX-License-Identifier: GPL-2.0
/*
 * User registers of the current task, at any instruction of the kernel
 *
 * Outside the entry code, pt_regs at the top of the task's stack is complete.
 * Within the entry code, registers that are not in pt_regs are in live registers, or
 * on the stack that the CPU has switched to. Hints say where:
 * asm/user_regs_hints.h. arch/x86/tools/check_user_regs_hints.c does the same with
 * symbols, at each instruction of the linked vmlinux: change both together.
 *
 * An exception that can occur in the entry code (#DB or #MC) has a stack of its own.
 * Its pt_regs has the interrupted registers, so the search goes on from there:
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

/* One level each for NMI, #DB and #MC, and one for the code that they interrupted. */
#define USER_REGS_MAX_NESTING	4

/* Words above pt_regs on the NMI stack; asm_exc_nmi() detects nested NMIs by them. */
#define NMI_STACK_WORDS		12

static unsigned int user_regs_where(unsigned long ip)
{
	const struct user_regs_hint *low = __start_user_regs_hints;
	const struct user_regs_hint *high = __stop_user_regs_hints;

	if (ip < (unsigned long)__entry_text_start ||
	    ip >= (unsigned long)__entry_text_end)
		return USER_REGS_KERNEL;

	/* The first hint after ip */
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

/* Read a word of a stack. KASAN must not check it: another function may own it. */
static unsigned long stack_word(const unsigned long *word)
{
	return READ_ONCE_NOCHECK(*word);
}

/*
 * Copy the registers that are already in @frame to @copy, which has the live ones. The
 * stack pointer may be below @frame.
 */
static void take_pushed(struct pt_regs *copy, const struct pt_regs *frame,
			unsigned long sp)
{
	unsigned long start = (unsigned long)frame;
	size_t live = sp > start ? min(sp - start, sizeof(*frame)) : 0;

	memcpy((void *)copy + live, (void *)frame + live, sizeof(*frame) - live);
}

/*
 * IRET to user mode may fault. The frame that IRET tried to pop is at the top
 * of the stack. The frame of the fault and the registers that its handler pushes are below it,
 * in the place of all other user registers:
 *
 *	user->	sp ss		of the user, from here to the top
 *		ip cs flags
 *		orig_ax		alignment
 *		di .. ax	ss sp flags cs ip of the fault
 *		r8		error code
 *		..		what error_entry() pushes
 *	-7 words		return address of the call of error_entry()
 *
 * until fixup_bad_iret() and sync_regs() have moved all of them to their places. If a
 * program makes its registers look like that, its samples have no user registers. The
 * same happens if an earlier fault has left its return address there, and the stack
 * pointer is less than FIXUP_BAD_IRET_BYTES below it.
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
 * complete what the entry code has pushed, the latter with interrupts enabled. @user
 * may be in the state before, during or after that.
 *
 * SYSENTER has lost ip and sp, which are 0 at first. C code sets both and the interrupt
 * flag, in any order, and then enables interrupts. After that, it loads bp from the
 * user's stack. Until then, bp has the value of sp (SYSENTER) or of cx (SYSCALL of the
 * vDSO). If the loaded bp has that value by chance, it is read again here from the same
 * place.
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
		/* A debugger has set ip or sp: the program's value is lost. */
		if ((user->ip && user->ip != landing_pad) ||
		    (user->sp && user->sp != user->bp))
			return NULL;
		raw = true;
	}

	if (!raw && user->ip != landing_pad) {
		/*
		 * C code has not set ip yet, or a signal or a debugger has changed it.
		 */
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

/* The entry code has completed its part of @user, and has called C code. */
static struct pt_regs *complete_regs(struct pt_regs *user, struct pt_regs *copy)
{
	unsigned int where;

	/* After sigreturn(2), @user no longer belongs to a system call. */
	if (likely(user->cs != __USER32_CS) || user->orig_ax == -1UL)
		return user;

	/* The return address shows which entry code made the call. */
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
 * @regs is in the entry code of a system call instruction, at or before the call of C
 * code.
 */
static struct pt_regs *syscall_regs(const struct pt_regs *regs, unsigned int where,
				    struct pt_regs *copy)
{
	struct pt_regs *user = task_pt_regs(current);
	unsigned long sp = regs->sp;
	struct stack_info info;

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
		/* The next instruction overwrites r8 with sp. */
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
		if (in_entry_stack((unsigned long *)sp, &info))
			copy->orig_ax = *(unsigned long *)sp;
		fallthrough;
	case USER_REGS_SYSENTER_PUSH:
		/* The same values as the entry code pushes */
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

	/* C code never runs with the stack pointer in the frame. */
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
 * Return: The user registers; NULL if they are not known; or, if @regs is on the stack
 * of an exception, the registers that this exception interrupted.
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

	/* With FRED, these stacks have other frames, and the entry code differs. */
	if (type >= STACK_TYPE_EXCEPTION && type <= STACK_TYPE_EXCEPTION_LAST &&
	    cpu_feature_enabled(X86_FEATURE_FRED))
		return NULL;

	switch (type) {
	case STACK_TYPE_TASK:
		/* All registers below the frame that IRET pops have been popped. */
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
		/* With STACKLEAK, C code also runs here on the way out. */
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
		/* An NMI from user mode has moved to the task's stack. */
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

/* x86_user_regs() for NMIs, which may have interrupted the entry code */
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
 * @regs:	All registers of the interrupted kernel code. Outside the entry code, ip
 *		and sp of the running code are enough
 * @copy:	Room for registers that are not complete anywhere
 *
 * The registers are those that a debugger would see if it stopped the task in this
 * kernel entry. After SYSCALL, cx and r11 are ip and flags. In a system call, orig_ax
 * is its number, and ax is -ENOSYS until the result is known. After SYSENTER and the
 * 32-bit SYSCALL, ip is after the int $0x80 of the vDSO, and bp comes from the user's
 * stack.
 * INT $0x80 is an exception until do_int80_emulation() makes it a system call.
 *
 * C code sets pt_regs one register at a time: for a signal, at sigreturn(2), when a
 * system call is to be restarted, and for a new program. An interrupt in that code sees
 * some old and some new registers.
 *
 * Context: Any, interrupts or preemption disabled. current is a user task.
 * Return: Registers that are complete in memory, or @copy. NULL if they cannot be
 * determined: in a fault of IRET to user mode, on the ESPFIX stack, in #VC and #DF, in
 * paranoid_entry and paranoid_exit within entry code, in entry code of Xen PV guests,
 * and in that of FRED. Also after SYSENTER and the 32-bit SYSCALL if the user's stack
 * cannot be read, while C code completes pt_regs of the 32-bit SYSCALL, in C code on the
 * entry stack (STACKLEAK), and if current has not started a program yet.
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
	 * A kernel thread that has not started a program yet has no user registers. For
	 * all other tasks, this is the last check: never return kernel registers.
	 */
	return found && user_mode(found) ? found : NULL;
}
