// SPDX-License-Identifier: GPL-2.0
/*
 * check_user_regs: would x86_user_regs() find the user's registers here?
 */

#include "check_user_regs.h"

/* From asm/segment.h. User space depends on these values, so they never change. */
#define USER32_CS	0x23
#define USER_DS		0x2b
#define USER_CS		0x33

#define ENOSYS_		38

static const char * const slot_names[] = {
	"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx",
	"dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp", "ss"
};

/* The final value of each field of pt_regs */
struct value expected(enum slot slot)
{
	if (root->kind == ROOT_IDT || root->kind == ROOT_EXIT)
		return val(FIELD, slot);

	if (slot == ORIG_AX)
		return val(root->kind == ROOT_SYSCALL ? FIELD : FIELD_LOW, AX);
	if (slot == AX)
		return val(CONST, -ENOSYS_);
	if (slot == SS)
		return val(CONST, USER_DS);
	if (slot == CS)
		return val(CONST, root->kind == ROOT_SYSCALL ? USER_CS : USER32_CS);

	if (root->kind == ROOT_SYSENTER) {
		if (slot == SP || slot == IP)
			return val(CONST, 0);
		return slot == FLAGS ? val(PUSHF, 0) : val(FIELD, slot);
	}

	if (slot == IP)
		return val(FIELD, CX);
	if (slot == FLAGS)
		return val(FIELD, R11);
	if (root->kind == ROOT_SYSCALL32) {
		if (slot == CX)
			return val(FIELD, BP);
		if (slot == SP || slot == R8)
			return val(FIELD_LOW, SP);
	}
	return val(FIELD, slot);
}

static void compare(unsigned long long ip, const struct value *found, const char *where)
{
	int i;

	for (i = 0; i < NR_SLOTS; i++) {
		if (i == ORIG_AX && (root->kind == ROOT_IDT || root->kind == ROOT_EXIT))
			continue;
		if (same(found[i], expected(i)))
			continue;
		if (found[i].by)
			error(ip, "%s%s is not the user's: changed at %s", where,
			      slot_names[i], place(found[i].by));
		else
			error(ip, "%s%s is not the user's", where, slot_names[i]);
		return;
	}
}

/* Is pt_regs of a stack complete and unchanged? */
static void compare_frame(struct state *s, unsigned long long ip, enum base base)
{
	compare(ip, word(s, base, 0), base == TASK ? "pt_regs of the task's stack: " :
						     "pt_regs of the entry stack: ");
}

static void take_pushed(struct state *s, struct value *found, enum base base,
			long long sp)
{
	int i;

	for (i = 0; i < NR_SLOTS; i++) {
		if (i * 8 >= sp)
			found[i] = *word(s, base, i * 8);
	}
}

/* As syscall_regs() */
static void check_syscall(struct state *s, unsigned long long ip, unsigned int where)
{
	struct value found[NR_SLOTS] = { 0 }, sp = s->reg[REG_SP];
	bool push = where == USER_REGS_SYSCALL_PUSH ||
		    where == USER_REGS_SYSCALL32_PUSH || where == USER_REGS_SYSENTER_PUSH;
	int i;

	for (i = 0; i < 16; i++)
		found[reg_slot[i]] = s->reg[i];
	found[ORIG_AX] = found[AX];
	found[AX] = val(CONST, -ENOSYS_);
	found[SS] = val(CONST, USER_DS);

	switch (where) {
	case USER_REGS_SYSCALL_SP2:
	case USER_REGS_SYSCALL_PUSH:
		found[SP] = s->sp2;
		/* fall through */
	case USER_REGS_SYSCALL:
		found[IP] = found[CX];
		found[CS] = val(CONST, USER_CS);
		found[FLAGS] = found[R11];
		break;
	case USER_REGS_SYSCALL32:
		found[R8] = low_half(found[SP]);
		/* fall through */
	case USER_REGS_SYSCALL32_R8:
	case USER_REGS_SYSCALL32_PUSH:
		found[SP] = found[R8];
		found[IP] = found[CX];
		found[CX] = found[BP];
		found[CS] = val(CONST, USER32_CS);
		found[FLAGS] = found[R11];
		found[ORIG_AX] = low_half(found[ORIG_AX]);
		break;
	case USER_REGS_SYSENTER:
		if (sp.kind != PTR || sp.base != ENTRY) {
			error(ip, "the stack pointer is not the entry stack's");
			return;
		}
		if (sp.n != FRAME_BYTES)
			found[ORIG_AX] = load(s, ENTRY, sp.n, 8);
		/* fall through */
	case USER_REGS_SYSENTER_PUSH:
		found[SP] = val(CONST, 0);
		found[IP] = val(CONST, 0);
		found[CS] = val(CONST, USER32_CS);
		found[FLAGS] = val(PUSHF, 0);
		found[ORIG_AX] = low_half(found[ORIG_AX]);
		break;
	}

	if (push) {
		if (sp.kind != PTR || sp.base != TASK || (sp.n & 7)) {
			error(ip, "the stack pointer is not the task stack's");
			return;
		}
		take_pushed(s, found, TASK, sp.n);
	}
	compare(ip, found, "");
}

/* As regs_of_stack() and idt_regs() */
static void check_stack(struct state *s, unsigned long long ip, unsigned int where)
{
	struct value found[NR_SLOTS] = { 0 }, sp = s->reg[REG_SP];
	int i;

	if (sp.kind != PTR) {
		error(ip, "the stack pointer is not known");
		return;
	}

	switch (sp.base) {
	case TASK:
		if (where == USER_REGS_IRET || sp.n <= 0)
			compare_frame(s, ip, TASK);
		return;
	case ENTRY:
		if (where == USER_REGS_IRET) {
			compare_frame(s, ip, TASK);
			return;
		}
		if (sp.n > IP * 8)
			return;
		if (sp.n & 7) {
			error(ip, "the stack pointer is not aligned");
			return;
		}
		if (sp.n <= 0 && where != USER_REGS_IDT_PUSH) {
			compare_frame(s, ip, ENTRY);
			return;
		}
		for (i = 0; i < 16; i++)
			found[reg_slot[i]] = s->reg[i];
		take_pushed(s, found, ENTRY, sp.n);
		if (where == USER_REGS_IDT_PUSH)
			found[DI] = s->reg[REG_DI];
		compare(ip, found, "");
		return;
	case KERN:
		/*
		 * After fixup_bad_iret() x86_user_regs() finds no registers on this
		 * stack.
		 */
		if (s->user)
			return;
		compare_frame(s, ip, TASK);
		for (i = IP; root->kern_frame && i <= SP; i++) {
			if (i != FLAGS && !same(*word(s, KERN, root->kern_offset + i * 8),
						val(KFIELD, i)) && !root->kern_offset)
				error(ip, "%s of the exception frame is lost", slot_names[i]);
		}
		return;
	}
}

void check(struct state *s, unsigned long long ip)
{
	unsigned int where = where_of(ip);

	switch (where) {
	case USER_REGS_UNKNOWN:
	case USER_REGS_KERNEL:
		break;
	case USER_REGS_EXIT:
		compare_frame(s, ip, TASK);
		break;
	case USER_REGS_IRET:
	case USER_REGS_IDT:
	case USER_REGS_IDT_PUSH:
		check_stack(s, ip, where);
		break;
	default:
		check_syscall(s, ip, where);
	}
}

/*
 * Leave the entry code by a call or jump at @ip. The stack pointer is already at the
 * return address. The target is under USER_REGS_KERNEL: pt_regs must be complete, and
 * the stack pointer must be below it.
 */
void check_out(struct state *s, unsigned long long ip)
{
	struct value sp = s->reg[REG_SP];
	unsigned int where = where_of(ip);
	int i;

	if (sp.kind != PTR) {
		error(ip, "leaves the entry code with an unknown stack pointer");
		return;
	}
#ifdef CONFIG_GCC_PLUGIN_STACKLEAK
	/*
	 * The exit code calls stackleak_erase(). x86_user_regs() finds no registers in
	 * C code on the entry stack.
	 */
	if (sp.base == ENTRY)
		return;
#endif
	if (sp.base == OTHER || (s->user && sp.n >= 0)) {
		error(ip, "leaves the entry code before pt_regs is complete");
		return;
	}

	switch (sp.base) {
	case TASK:
		compare_frame(s, ip, TASK);
		/* complete_regs() reads the return address there. */
		if ((where == USER_REGS_SYSENTER_PUSH || where == USER_REGS_SYSCALL32_PUSH) &&
		    sp.n != -8)
			error(ip, "the return address is not directly below pt_regs");
		break;
	case ENTRY:
		compare_frame(s, ip, ENTRY);
		break;
	case KERN:
		if (s->user)
			break;
		compare_frame(s, ip, TASK);
		if (!root->kern_frame)
			break;
		if (sp.n >= root->kern_offset) {
			error(ip, "leaves the entry code above the exception's pt_regs");
			break;
		}
		for (i = 0; i < NR_SLOTS; i++) {
			if (i != ORIG_AX &&
			    !same(*word(s, KERN, root->kern_offset + i * 8), val(KFIELD, i))) {
				error(ip, "%s of the exception's pt_regs is not complete",
				      slot_names[i]);
				break;
			}
		}
		break;
	}
}
