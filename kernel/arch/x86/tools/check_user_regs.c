// SPDX-License-Identifier: GPL-2.0
/*
 * Prove that USER_REGS_HINT says the truth about the entry code
 *
 * x86_user_regs() trusts the hints of asm/user_regs_hints.h. A hint that no longer
 * describes its code makes it report a register of the kernel as the user's. So
 * this program runs the entry code of vmlinux with symbols instead of numbers. It
 * starts at each way in, with the user's registers as symbols, takes both sides of
 * each branch and alternative, and does at each instruction what x86_user_regs()
 * would do. It fails unless each field of pt_regs is what the entry code stores, or
 * will store, there.
 *
 * An instruction that this program does not know, an address that it cannot
 * compute, and code that it has not reached are errors too. The remedy is to teach
 * it, to correct the hint, or to put USER_REGS_UNKNOWN there.
 *
 * What it takes for granted:
 * - The CPU delivers exceptions as documented. GS and CR3 are right.
 * - C code keeps the calling convention. It stores to pt_regs only to change the
 *   user's registers. sync_regs(), fixup_bad_iret() and vc_switch_off_ist() do what
 *   this program says they do.
 * - Nothing makes its way into the entry code but the CPU, direct branches, calls
 *   through the symbols of the IDT's entries, and returns.
 * - A fault of IRET, and all that Xen PV and FRED do, is left to run-time checks.
 * - ax and flags of SYSENTER, and orig_ax of exceptions, are not compared.
 */
#include <endian.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <asm/insn.h>
#include <inat.c>
#include <insn.c>

/* The Makefile includes generated/asm-offsets.h and generated/autoconf.h. */
#if !defined(TSS_sp0) || !defined(TSS_sp2) || !defined(X86_top_of_stack)
#error "No asm-offsets.h"
#endif

#include "../include/asm/user_regs_hints.h"

/* No other header than this one: those of the host have the same names. */
#define _ASM_X86_REQUIRED_FEATURES_H
#define _ASM_X86_DISABLED_FEATURES_H
#include "../include/asm/cpufeatures.h"

/* asm/segment.h; user space knows them, so they stay. */
#define USER32_CS	0x23
#define USER_DS		0x2b
#define USER_CS		0x33

#define ENOSYS_		38
#define ALT_NOT_	1

/* struct pt_regs, in words */
enum slot {
	R15, R14, R13, R12, BP, BX, R11, R10, R9, R8, AX, CX, DX, SI, DI,
	ORIG_AX, IP, CS, FLAGS, SP, SS, NR_SLOTS
};

#define FRAME_BYTES	(NR_SLOTS * 8)

static const char * const slot_names[] = {
	"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx",
	"dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp", "ss"
};

static const char * const hint_names[] = {
	"UNKNOWN", "KERNEL", "EXIT", "IRET", "IDT", "IDT_PUSH", "SYSCALL",
	"SYSCALL_SP2", "SYSCALL_PUSH", "SYSCALL32", "SYSCALL32_R8", "SYSCALL32_PUSH",
	"SYSENTER", "SYSENTER_PUSH"
};

/* Registers as instructions encode them */
#define REG_AX	0
#define REG_CX	1
#define REG_DX	2
#define REG_BX	3
#define REG_SP	4
#define REG_BP	5
#define REG_SI	6
#define REG_DI	7

static const int reg_slot[16] = {
	AX, CX, DX, BX, SP, BP, SI, DI, R8, R9, R10, R11, R12, R13, R14, R15
};

/*
 * Stacks. Offset 0 is where pt_regs begins:
 * TASK:  at the top of the task's stack: task_pt_regs()
 * ENTRY: at the top of the entry stack, or of the exception stack that the CPU
 *	  switches to when it comes from user mode
 * KERN:  where the CPU has put the frame of an exception that came in the kernel
 * OTHER: the ESPFIX stack, not followed
 */
enum base { TASK, ENTRY, KERN, NR_STACKS, OTHER = NR_STACKS };

#define STACK_LOW	(-512)
#define STACK_WORDS	((FRAME_BYTES - STACK_LOW) / 8)

enum kind {
	ANY,		/* Not known */
	FIELD,		/* Register n of user mode */
	FIELD_LOW,	/* Its lower half */
	KFIELD,		/* Register n of what an exception interrupted in the kernel */
	CONST,		/* n */
	PTR,		/* n bytes from the pt_regs of a stack */
	RET,		/* The return address n */
	PUSHF,		/* Flags */
};

struct value {
	unsigned char kind, base;
	long long n;
	/* Which instruction stored it, for messages */
	unsigned long long by;
};

struct state {
	struct value reg[16];
	/* The scratch word of the TSS */
	struct value sp2;
	struct value mem[NR_STACKS][STACK_WORDS];
	/* The zero flag: 0, 1, or -1 */
	int zf;
	/* Is this a way from user mode? */
	int user;
};

enum root_kind { ROOT_SYSCALL, ROOT_SYSCALL32, ROOT_SYSENTER, ROOT_IDT, ROOT_EXIT };

struct root {
	enum root_kind kind;
	unsigned long long ip;
	bool error_code;
	bool user;
	/* Where C code finds pt_regs of an exception that came in the kernel */
	bool kern_frame;
	int kern_offset;
};

struct symbol {
	unsigned long long addr, size;
	const char *name;
};

struct alt {
	unsigned long long ip, repl;
	unsigned int len, repl_len, feature;
	bool not;
};

struct hint {
	unsigned long long ip;
	unsigned int where;
};

struct section {
	const char *name;
	unsigned long long addr, size;
	unsigned char *data;
	bool exec;
};

static struct section *sections;
static int nr_sections;
static struct symbol *symbols;
static int nr_symbols;
static struct alt *alts;
static int nr_alts;
static struct hint *hints;
static int nr_hints;
static struct section *text, *repl;
static unsigned long long entry_start, entry_end;

static int verbose, nr_errors, nr_roots, nr_outside;

/* Has the instruction at entry_start + i been run? */
static unsigned char *proved;

static const struct root *root;
static bool pti;
static bool root_failed;

static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "check_user_regs: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static void *alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		die("no memory");
	return p;
}

static unsigned int get16(const void *p)
{
	unsigned short v;

	memcpy(&v, p, 2);
	return le16toh(v);
}

static unsigned int get32(const void *p)
{
	unsigned int v;

	memcpy(&v, p, 4);
	return le32toh(v);
}

static unsigned long long get64(const void *p)
{
	unsigned long long v;

	memcpy(&v, p, 8);
	return le64toh(v);
}

/* Symbols, hints, and messages */

static unsigned long long symbol_addr(const char *name, bool must)
{
	int i;

	for (i = 0; i < nr_symbols; i++) {
		if (!strcmp(symbols[i].name, name))
			return symbols[i].addr;
	}
	if (must)
		die("no symbol %s", name);
	return 0;
}

static const struct symbol *symbol_at(unsigned long long ip)
{
	int low = 0, high = nr_symbols;

	while (low < high) {
		int mid = (low + high) / 2;

		if (symbols[mid].addr <= ip)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &symbols[low - 1] : NULL;
}

static const char *place(unsigned long long ip)
{
	static char buf[4][128];
	static int next;
	const struct symbol *sym;
	char *b = buf[next++ & 3];
	int i;

	for (i = 0; i < nr_alts; i++) {
		if (ip >= alts[i].repl && ip < alts[i].repl + alts[i].repl_len) {
			sym = symbol_at(alts[i].ip);
			snprintf(b, sizeof(buf[0]), "%s+0x%llx (alternative, +0x%llx)",
				 sym ? sym->name : "?", sym ? alts[i].ip - sym->addr : 0,
				 ip - alts[i].repl);
			return b;
		}
	}
	sym = symbol_at(ip);
	snprintf(b, sizeof(buf[0]), "%s+0x%llx", sym ? sym->name : "?",
		 sym ? ip - sym->addr : ip);
	return b;
}

static bool in_entry(unsigned long long ip)
{
	return ip >= entry_start && ip < entry_end;
}

static const struct alt *alt_of_repl(unsigned long long ip)
{
	int i;

	for (i = 0; i < nr_alts; i++) {
		if (ip >= alts[i].repl && ip < alts[i].repl + alts[i].repl_len)
			return &alts[i];
	}
	return NULL;
}

static unsigned int where_of(unsigned long long ip)
{
	const struct alt *alt;
	int i;

	if (!in_entry(ip)) {
		alt = alt_of_repl(ip);
		if (!alt || !in_entry(alt->ip))
			return USER_REGS_KERNEL;
		ip = alt->ip;
	}
	for (i = nr_hints - 1; i >= 0; i--) {
		if (hints[i].ip <= ip)
			return hints[i].where;
	}
	return USER_REGS_UNKNOWN;
}

static bool checked(unsigned int where)
{
	return where != USER_REGS_UNKNOWN && where != USER_REGS_KERNEL;
}

/* One message per instruction. The root is left then. */
static void error(unsigned long long ip, const char *fmt, ...)
{
	static unsigned long long seen[64];
	va_list ap;
	int i;

	root_failed = true;
	for (i = 0; i < nr_errors && i < 64; i++) {
		if (seen[i] == ip)
			return;
	}
	if (nr_errors < 64)
		seen[nr_errors] = ip;
	if (nr_errors++ >= 20)
		return;

	fprintf(stderr, "check_user_regs: %s: USER_REGS_%s: ", place(ip),
		hint_names[where_of(ip)]);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (root)
		fprintf(stderr, " [from %s, %s mode%s]", place(root->ip),
			root->user ? "user" : "kernel", pti ? ", pti" : "");
	fprintf(stderr, "\n");
}

/* Values */

static struct value val(enum kind kind, long long n)
{
	return (struct value){ .kind = kind, .n = n };
}

static struct value ptr(enum base base, long long n)
{
	return (struct value){ .kind = PTR, .base = base, .n = n };
}

static bool same(struct value a, struct value b)
{
	return a.kind == b.kind && a.kind != ANY && a.n == b.n &&
	       (a.kind != PTR || a.base == b.base);
}

static struct value low_half(struct value v)
{
	if (v.kind == FIELD || v.kind == FIELD_LOW)
		return val(FIELD_LOW, v.n);
	if (v.kind == CONST)
		return val(CONST, (unsigned int)v.n);
	return val(ANY, 0);
}

static bool join_value(struct value *to, struct value from)
{
	if (to->kind == ANY || same(*to, from))
		return false;
	to->kind = ANY;
	to->by = from.by ? from.by : to->by;
	return true;
}

static bool join(struct state *to, const struct state *from)
{
	bool changed = false;
	int i, j;

	for (i = 0; i < 16; i++)
		changed |= join_value(&to->reg[i], from->reg[i]);
	changed |= join_value(&to->sp2, from->sp2);
	for (i = 0; i < NR_STACKS; i++) {
		for (j = 0; j < STACK_WORDS; j++)
			changed |= join_value(&to->mem[i][j], from->mem[i][j]);
	}
	if (to->zf != -1 && to->zf != from->zf) {
		to->zf = -1;
		changed = true;
	}
	return changed;
}

static struct value *word(struct state *s, enum base base, long long offset)
{
	return &s->mem[base][(offset - STACK_LOW) / 8];
}

static struct value load(struct state *s, enum base base, long long offset, int size)
{
	if (base == OTHER || offset < STACK_LOW || offset + size > FRAME_BYTES || (offset & 7))
		return val(ANY, 0);
	if (size == 8)
		return *word(s, base, offset);
	return size == 4 ? low_half(*word(s, base, offset)) : val(ANY, 0);
}

static void store(struct state *s, unsigned long long ip, enum base base,
		  long long offset, int size, struct value v)
{
	long long w;

	if (base == OTHER)
		return;
	if (offset < STACK_LOW || offset + size > FRAME_BYTES) {
		error(ip, "stores outside of the frame it knows");
		return;
	}
	if (size != 8 || (offset & 7))
		v = val(ANY, 0);
	v.by = ip;
	for (w = offset & ~7LL; w < offset + size; w += 8)
		*word(s, base, w) = v;
}

/* What pt_regs is to have in the end */
static struct value expected(enum slot slot)
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
			error(ip, "%s%s is not the user's, since %s", where,
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
		/* After fixup_bad_iret() x86_user_regs() finds nothing until it is left. */
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

static void check(struct state *s, unsigned long long ip)
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
 * Leave the entry code by a call or jump at @ip. The stack pointer is as at the first
 * instruction behind: at the return address. From there on USER_REGS_KERNEL holds:
 * pt_regs must be complete, and the stack pointer below.
 */
static void check_out(struct state *s, unsigned long long ip)
{
	struct value sp = s->reg[REG_SP];
	unsigned int where = where_of(ip);
	int i;

	if (sp.kind != PTR) {
		error(ip, "leaves the entry code with an unknown stack pointer");
		return;
	}
#ifdef CONFIG_GCC_PLUGIN_STACKLEAK
	/* The way out calls stackleak_erase(). x86_user_regs() gives none for C there. */
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
		/* fast_syscall_32_regs() goes by the return address. */
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

/*
 * The states before each instruction, for this root. Code that several ways share has
 * one for each stack, from user mode or not.
 */
#define NR_WAYS	(2 * (OTHER + 2))

struct node {
	unsigned long long ip;
	struct state *state[NR_WAYS];
	bool queued[NR_WAYS];
};

static struct node **nodes;
static struct { struct node *node; int way; } *queue;
static size_t queue_head, queue_tail, queue_size;

static size_t node_index(unsigned long long ip)
{
	if (in_entry(ip))
		return ip - entry_start;
	return entry_end - entry_start + (ip - repl->addr);
}

static void reach(unsigned long long ip, const struct state *s)
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

static bool in_repl(unsigned long long ip)
{
	return repl && ip >= repl->addr && ip < repl->addr + repl->size;
}

static unsigned char *bytes_at(unsigned long long ip, unsigned long long *left)
{
	int i;

	for (i = 0; i < nr_sections; i++) {
		if (sections[i].exec && ip >= sections[i].addr &&
		    ip < sections[i].addr + sections[i].size) {
			*left = sections[i].addr + sections[i].size - ip;
			return sections[i].data + (ip - sections[i].addr);
		}
	}
	return NULL;
}

static bool decode(struct insn *insn, unsigned long long ip)
{
	unsigned long long left;
	unsigned char *p = bytes_at(ip, &left);

	return p && !insn_decode(insn, p, left < MAX_INSN_SIZE ? left : MAX_INSN_SIZE,
				 INSN_MODE_64);
}

/* Instructions */

static unsigned long long tss, hot, return_thunk, percpu_espfix_stack, percpu_espfix_waddr;

/* An operand of ModRM: a register, a stack, a variable, or memory somewhere */
struct operand {
	enum { OP_REG, OP_STACK, OP_VAR, OP_UNKNOWN } kind;
	int reg;
	enum base base;
	long long n;
};

static bool has_prefix(const struct insn *insn, unsigned char prefix)
{
	int i;

	for (i = 0; i < insn->prefixes.nbytes && i < 4; i++) {
		if (insn->prefixes.bytes[i] == prefix)
			return true;
	}
	return false;
}

static int rex(const struct insn *insn)
{
	return insn->rex_prefix.nbytes ? insn->rex_prefix.bytes[0] : 0;
}

static int modrm_reg(const struct insn *insn)
{
	return X86_MODRM_REG(insn->modrm.bytes[0]) | (X86_REX_R(rex(insn)) ? 8 : 0);
}

static struct operand modrm_rm(const struct insn *insn, unsigned long long next,
			       struct state *s)
{
	int mod = X86_MODRM_MOD(insn->modrm.bytes[0]);
	int rm = X86_MODRM_RM(insn->modrm.bytes[0]);
	int b = X86_REX_B(rex(insn)) ? 8 : 0;
	struct operand op = { .kind = OP_UNKNOWN };
	long long disp = insn->displacement.value;
	int reg = rm | b;

	if (mod == 3) {
		op.kind = OP_REG;
		op.reg = reg;
		return op;
	}
	if (insn->addr_bytes != 8)
		return op;
	if (rm == 5 && mod == 0) {
		op.kind = OP_VAR;
		op.n = next + disp;
		return op;
	}
	if (rm == 4) {
		int index = X86_SIB_INDEX(insn->sib.bytes[0]) | (X86_REX_X(rex(insn)) ? 8 : 0);

		reg = X86_SIB_BASE(insn->sib.bytes[0]) | b;
		if ((reg & 7) == 5 && mod == 0) {
			/* Without a base: an array of the kernel, or one variable */
			op.kind = OP_VAR;
			op.n = index == 4 ? disp : -1;
			return op;
		}
		if (index != 4)
			return op;
	}
	if (s->reg[reg].kind == PTR && !has_prefix(insn, 0x65)) {
		op.kind = OP_STACK;
		op.base = s->reg[reg].base;
		op.n = s->reg[reg].n + disp;
	}
	return op;
}

static struct value read_op(const struct insn *insn, struct operand *op,
			    struct state *s, int size)
{
	bool gs = has_prefix(insn, 0x65);

#ifndef CONFIG_SMP
	gs = true;
#endif
	switch (op->kind) {
	case OP_REG:
		if (size == 8)
			return s->reg[op->reg];
		return size == 4 ? low_half(s->reg[op->reg]) : val(ANY, 0);
	case OP_STACK:
		return load(s, op->base, op->n, size);
	case OP_VAR:
		if (!gs || size != 8)
			break;
		if (op->n == tss + TSS_sp2)
			return s->sp2;
		if (op->n == tss + TSS_sp0)
			return ptr(ENTRY, FRAME_BYTES);
		if (op->n == hot + X86_top_of_stack)
			return ptr(TASK, FRAME_BYTES);
		if ((percpu_espfix_stack && op->n == percpu_espfix_stack) ||
		    (percpu_espfix_waddr && op->n == percpu_espfix_waddr))
			return ptr(OTHER, 0);
		break;
	default:
		break;
	}
	return val(ANY, 0);
}

static void write_reg(struct state *s, unsigned long long ip, int reg, int size,
		      struct value v)
{
	if (size == 4)
		v = low_half(v);
	else if (size != 8)
		v = val(ANY, 0);
	v.by = ip;
	s->reg[reg] = v;
}

static void write_op(const struct insn *insn, unsigned long long ip, struct operand *op,
		     struct state *s, int size, struct value v)
{
	int reg = op->reg;

	switch (op->kind) {
	case OP_REG:
		/* ah, ch, dh, bh */
		if (size == 1 && !rex(insn) && reg >= 4)
			reg -= 4;
		write_reg(s, ip, reg, size, v);
		break;
	case OP_STACK:
		store(s, ip, op->base, op->n, size, v);
		break;
	case OP_VAR:
		if (op->n > (long long)(tss + TSS_sp2) - size &&
		    op->n < (long long)(tss + TSS_sp2) + 8) {
			s->sp2 = size == 8 && op->n == tss + TSS_sp2 ? v : val(ANY, 0);
			s->sp2.by = ip;
		}
		break;
	case OP_UNKNOWN:
		error(ip, "stores to an unknown address");
		break;
	}
}

static void push(struct state *s, unsigned long long ip, struct value v)
{
	struct value *sp = &s->reg[REG_SP];

	if (sp->kind != PTR) {
		error(ip, "pushes to an unknown stack");
		return;
	}
	sp->n -= 8;
	store(s, ip, sp->base, sp->n, 8, v);
}

static struct value pop(struct state *s, unsigned long long ip)
{
	struct value *sp = &s->reg[REG_SP], v;

	if (sp->kind != PTR) {
		error(ip, "pops from an unknown stack");
		return val(ANY, 0);
	}
	v = load(s, sp->base, sp->n, 8);
	sp->n += 8;
	return v;
}

/* The instruction behind @ip, or behind the alternative that ends there */
static unsigned long long after(unsigned long long ip, unsigned long long next)
{
	const struct alt *alt = in_repl(ip) ? alt_of_repl(ip) : NULL;

	if (alt && next == alt->repl + alt->repl_len)
		return alt->ip + alt->len;
	return next;
}

static void return_to(struct state *s, unsigned long long ip)
{
	struct value v = pop(s, ip);

	if (root_failed)
		return;
	if (v.kind != RET)
		error(ip, "returns to an unknown address");
	else
		reach(v.n, s);
}

/* C code, or assembly that behaves like it, runs and returns. */
static void run_outside(struct state *s, unsigned long long ip, unsigned long long target)
{
	static const int clobbered[] = {
		REG_AX, REG_CX, REG_DX, REG_SI, REG_DI, 8, 9, 10, 11
	};
	struct value sp = s->reg[REG_SP], arg = s->reg[REG_DI], result = val(ANY, 0);
	const struct symbol *sym = symbol_at(target);
	const char *name = sym && sym->addr == target ? sym->name : "";
	long long w;
	size_t i;

	check_out(s, ip);
	if (root_failed)
		return;

	if (!strcmp(name, "sync_regs")) {
		if (arg.kind != PTR || arg.base == OTHER) {
			error(ip, "sync_regs() gets no pt_regs");
			return;
		}
		for (i = 0; i < NR_SLOTS; i++)
			*word(s, TASK, i * 8) = load(s, arg.base, arg.n + i * 8, 8);
		s->user = 1;
		result = ptr(TASK, 0);
	} else if (!strcmp(name, "fixup_bad_iret")) {
		for (i = 0; i < NR_SLOTS; i++)
			*word(s, ENTRY, i * 8) = expected(i);
		result = ptr(ENTRY, 0);
	} else if (!strcmp(name, "vc_switch_off_ist")) {
		result = ptr(KERN, 0);
	}

	for (i = 0; i < sizeof(clobbered) / sizeof(clobbered[0]); i++) {
		s->reg[clobbered[i]] = val(ANY, 0);
		s->reg[clobbered[i]].by = ip;
	}
	s->reg[REG_AX] = result;
	for (w = STACK_LOW; w < sp.n; w += 8)
		*word(s, sp.base, w) = val(ANY, 0);
	return_to(s, ip);
}

/* A jump, or what a call does once it has pushed the return address */
static void go(struct state *s, unsigned long long ip, unsigned long long target)
{
	const struct alt *alt;

	if (target == return_thunk && target) {
		check_out(s, ip);
		if (!root_failed)
			return_to(s, ip);
		return;
	}
	if (in_repl(ip)) {
		alt = alt_of_repl(ip);
		if (alt && target == alt->repl + alt->repl_len) {
			reach(alt->ip + alt->len, s);
			return;
		}
	}
	if (in_repl(target) || (in_entry(target) && where_of(target) != USER_REGS_KERNEL)) {
		reach(target, s);
		return;
	}
	run_outside(s, ip, target);
}

/* Does C code, or a pop, decide? Otherwise what testb $3, CS(%rsp) has seen. */
static int zero_flag_of_test(struct value v, int mask)
{
	if (mask != 3)
		return -1;
	if (v.kind == CONST)
		return !(v.n & 3);
	if (v.kind == FIELD && v.n == CS)
		return 0;
	if (v.kind == KFIELD && v.n == CS)
		return 1;
	return -1;
}

static bool fail_unknown(unsigned long long ip, const struct insn *insn)
{
	error(ip, "not proved: unknown instruction, opcode %02x %02x", insn->opcode.bytes[0],
	      insn->opcode.nbytes > 1 ? insn->opcode.bytes[1] : 0);
	return false;
}

/* Two-byte opcodes. Return: does the next instruction follow? */
static bool step_0f(struct insn *insn, unsigned long long ip, unsigned long long next,
		    struct state *s, int size)
{
	unsigned char op = insn->opcode.bytes[1], modrm = insn->modrm.bytes[0];
	bool rep = has_prefix(insn, 0xf3);
	struct operand rm = { .kind = OP_UNKNOWN };
	int ext = X86_MODRM_REG(modrm);

	if (insn->opcode.nbytes != 2)
		return fail_unknown(ip, insn);
	if (insn->modrm.nbytes)
		rm = modrm_rm(insn, next, s);

	switch (op) {
	case 0x00:	/* verr, verw */
		return ext == 4 || ext == 5 ? true : fail_unknown(ip, insn);
	case 0x01:	/* clac, stac, serialize, swapgs */
		if (modrm == 0xca || modrm == 0xcb || modrm == 0xe8 || modrm == 0xf8)
			return true;
		return fail_unknown(ip, insn);
	case 0x02:	/* lar */
	case 0x03:	/* lsl */
	case 0xb6: case 0xb7: case 0xbe: case 0xbf:	/* movzx, movsx */
	case 0x40 ... 0x4f:	/* cmov */
		write_reg(s, ip, modrm_reg(insn), 8, val(ANY, 0));
		return true;
	case 0x07:	/* sysret */
	case 0x0b:	/* ud2 */
	case 0x35:	/* sysexit */
		return false;
	case 0x1e:	/* endbr64; others of this opcode are rdssp and nops */
		if (rep && modrm == 0xfa)
			return true;
		return fail_unknown(ip, insn);
	case 0x1f:	/* nop */
	case 0x22:	/* to a control register */
	case 0x30:	/* wrmsr */
		return true;
	case 0x20:	/* from a control register */
		write_reg(s, ip, X86_MODRM_RM(modrm) | (X86_REX_B(rex(insn)) ? 8 : 0), 8,
			  val(ANY, 0));
		return true;
	case 0x31:	/* rdtsc */
	case 0x32:	/* rdmsr */
		write_reg(s, ip, REG_AX, 8, val(ANY, 0));
		write_reg(s, ip, REG_DX, 8, val(ANY, 0));
		return true;
	case 0x80 ... 0x8f:	/* jcc */
		next += insn->immediate.value;
		if (op == 0x84 || op == 0x85) {
			if (s->zf == (op == 0x84)) {
				go(s, ip, next);
				return false;
			}
			if (s->zf != -1)
				return true;
		}
		{
			struct state taken = *s;

			go(&taken, ip, next);
		}
		return true;
	case 0x90 ... 0x9f:	/* setcc */
		write_op(insn, ip, &rm, s, 1, val(ANY, 0));
		return true;
	case 0xa3:	/* bt */
		return true;
	case 0xab: case 0xb3: case 0xbb:	/* bts, btr, btc: of a bit string in memory */
		if (rm.kind == OP_STACK || rm.kind == OP_UNKNOWN)
			return fail_unknown(ip, insn);
		write_op(insn, ip, &rm, s, size, val(ANY, 0));
		return true;
	case 0xae:
		if (X86_MODRM_MOD(modrm) != 3)
			return fail_unknown(ip, insn);
		if (!rep && ext >= 5)	/* lfence, mfence, sfence */
			return true;
		if (rep && (ext == 2 || ext == 3))	/* wrfsbase, wrgsbase */
			return true;
		if (rep && ext < 2) {	/* rdfsbase, rdgsbase */
			write_op(insn, ip, &rm, s, 8, val(ANY, 0));
			return true;
		}
		return fail_unknown(ip, insn);
	case 0xba:
		if (ext < 4)
			return fail_unknown(ip, insn);
		if (ext > 4)
			write_op(insn, ip, &rm, s, size, val(ANY, 0));
		return true;
	}
	return fail_unknown(ip, insn);
}

/* Run the instruction at @ip. */
static void step(unsigned long long ip, struct state *s)
{
	struct operand rm = { .kind = OP_UNKNOWN };
	unsigned long long next, target;
	struct value v, w;
	struct insn insn;
	unsigned char op;
	int size, ext, reg, zf = -1;
	bool follows = true;

	if (!decode(&insn, ip)) {
		error(ip, "not proved: cannot be decoded");
		return;
	}
	if (in_entry(ip))
		proved[ip - entry_start] = 1;

	next = ip + insn.length;
	op = insn.opcode.bytes[0];
	size = X86_REX_W(rex(&insn)) ? 8 : has_prefix(&insn, 0x66) ? 2 : 4;
	if (insn.vex_prefix.nbytes || insn.rex_prefix.nbytes > 1) {
		fail_unknown(ip, &insn);
		return;
	}
	if (insn.modrm.nbytes)
		rm = modrm_rm(&insn, next, s);
	ext = X86_MODRM_REG(insn.modrm.bytes[0]);
	reg = op & 7;
	if (X86_REX_B(rex(&insn)))
		reg |= 8;

	switch (op) {
	case 0x0f:
		follows = step_0f(&insn, ip, next, s, size);
		break;

	case 0x00 ... 0x05: case 0x08 ... 0x0d: case 0x10 ... 0x15: case 0x18 ... 0x1d:
	case 0x20 ... 0x25: case 0x28 ... 0x2d: case 0x30 ... 0x35: case 0x38 ... 0x3d:
		/* add or adc sbb and sub xor cmp */
		if (!(op & 1))
			size = 1;
		if ((op & 0x38) == 0x38)
			break;
		v = val(ANY, 0);
		if ((op & 7) >= 4) {
			write_reg(s, ip, REG_AX, size, v);
			break;
		}
		if (op & 2) {
			/* or of the ESPFIX stack's base gives an address there */
			w = read_op(&insn, &rm, s, size);
			if (op == 0x0b && w.kind == PTR && w.base == OTHER)
				v = w;
			rm.kind = OP_REG;
			rm.reg = modrm_reg(&insn);
		} else if ((op == 0x31) && rm.kind == OP_REG && rm.reg == modrm_reg(&insn)) {
			v = val(CONST, 0);
		}
		write_op(&insn, ip, &rm, s, size, v);
		break;

	case 0x50 ... 0x57:
		push(s, ip, s->reg[reg]);
		break;
	case 0x58 ... 0x5f:
		v = pop(s, ip);
		write_reg(s, ip, reg, 8, v);
		if (v.kind != ANY)
			s->reg[reg].by = v.by;
		break;
	case 0x63:	/* movslq */
	case 0x69:
	case 0x6b:	/* imul */
		write_reg(s, ip, modrm_reg(&insn), 8, val(ANY, 0));
		break;
	case 0x68:
	case 0x6a:
		push(s, ip, val(CONST, insn.immediate.value));
		break;
	case 0x70 ... 0x7f:
		target = next + insn.immediate.value;
		if ((op == 0x74 || op == 0x75) && s->zf != -1) {
			if (s->zf == (op == 0x74)) {
				go(s, ip, target);
				follows = false;
			}
			break;
		}
		{
			struct state taken = *s;

			go(&taken, ip, target);
		}
		break;
	case 0x80: case 0x81: case 0x83:
		if (op == 0x80)
			size = 1;
		if (ext == 7)
			break;
		v = read_op(&insn, &rm, s, size);
		if (size == 8 && v.kind == PTR && v.base != OTHER && (ext == 0 || ext == 5))
			v.n += ext ? -(long long)insn.immediate.value : insn.immediate.value;
		else
			v = val(ANY, 0);
		write_op(&insn, ip, &rm, s, size, v);
		break;
	case 0x84: case 0x85: case 0xa8: case 0xa9:	/* test */
	case 0x8e:	/* to a segment register */
	case 0x90:	/* nop */
	case 0xf5: case 0xf8 ... 0xfd:	/* cmc clc stc cli sti cld std */
		break;
	case 0x86: case 0x87:
		size = op == 0x86 ? 1 : size;
		write_op(&insn, ip, &rm, s, size, val(ANY, 0));
		rm.kind = OP_REG;
		rm.reg = modrm_reg(&insn);
		write_op(&insn, ip, &rm, s, size, val(ANY, 0));
		break;
	case 0x88: case 0x89:
		size = op == 0x88 ? 1 : size;
		v = s->reg[modrm_reg(&insn)];
		if (size == 4)
			v = low_half(v);
		write_op(&insn, ip, &rm, s, size, v);
		break;
	case 0x8a: case 0x8b:
		size = op == 0x8a ? 1 : size;
		v = read_op(&insn, &rm, s, size);
		rm.kind = OP_REG;
		rm.reg = modrm_reg(&insn);
		write_op(&insn, ip, &rm, s, size, v);
		break;
	case 0x8c:	/* from a segment register */
		write_op(&insn, ip, &rm, s, rm.kind == OP_REG ? 8 : 2, val(ANY, 0));
		break;
	case 0x8d:
		v = val(ANY, 0);
		if (rm.kind == OP_STACK)
			v = ptr(rm.base, rm.n);
		else if (rm.kind == OP_VAR && rm.n != -1)
			v = val(CONST, rm.n);
		write_reg(s, ip, modrm_reg(&insn), size, v);
		break;
	case 0x9c:
		push(s, ip, val(PUSHF, 0));
		break;
	case 0x9d:
		pop(s, ip);
		break;
	case 0xb0 ... 0xb7:
		rm.kind = OP_REG;
		rm.reg = reg;
		write_op(&insn, ip, &rm, s, 1, val(ANY, 0));
		break;
	case 0xb8 ... 0xbf:
		write_reg(s, ip, reg, size, val(CONST, insn.immediate.value));
		break;
	case 0xc0: case 0xc1: case 0xd0 ... 0xd3:	/* shifts */
		write_op(&insn, ip, &rm, s, op & 1 ? size : 1, val(ANY, 0));
		break;
	case 0xc6: case 0xc7:
		if (ext) {
			fail_unknown(ip, &insn);
			return;
		}
		write_op(&insn, ip, &rm, s, op == 0xc6 ? 1 : size,
			 val(CONST, insn.immediate.value));
		break;
	case 0xc3:
		return_to(s, ip);
		return;
	case 0xcf:
		/* iret, which goes on in the entry code where that has pushed its address */
		if (s->reg[REG_SP].kind != PTR)
			return;
		v = load(s, s->reg[REG_SP].base, s->reg[REG_SP].n, 8);
		if (v.kind != CONST || !in_entry(v.n))
			return;
		s->reg[REG_SP] = load(s, s->reg[REG_SP].base, s->reg[REG_SP].n + 3 * 8, 8);
		reach(v.n, s);
		return;
	case 0xcc: case 0xf4:	/* int3, hlt */
		return;
	case 0xe8:
		push(s, ip, val(RET, after(ip, next)));
		if (!root_failed)
			go(s, ip, next + insn.immediate.value);
		return;
	case 0xe9: case 0xeb:
		go(s, ip, next + insn.immediate.value);
		return;
	case 0xf6: case 0xf7:
		size = op == 0xf6 ? 1 : size;
		if (ext < 2) {
			if (op == 0xf6 && rm.kind == OP_STACK)
				zf = zero_flag_of_test(load(s, rm.base, rm.n, 8),
						       insn.immediate.bytes[0]);
			break;
		}
		if (ext < 4) {
			write_op(&insn, ip, &rm, s, size, val(ANY, 0));
			break;
		}
		write_reg(s, ip, REG_AX, 8, val(ANY, 0));
		write_reg(s, ip, REG_DX, 8, val(ANY, 0));
		break;
	case 0xfe: case 0xff:
		if (ext < 2) {
			write_op(&insn, ip, &rm, s, op == 0xfe ? 1 : size, val(ANY, 0));
			break;
		}
		if (op == 0xff && ext == 6 && !has_prefix(&insn, 0x66)) {
			push(s, ip, read_op(&insn, &rm, s, 8));
			break;
		}
		/* Calls and jumps by pointers */
		/* fall through */
	default:
		fail_unknown(ip, &insn);
		return;
	}

	if (has_prefix(&insn, 0xf2) || (has_prefix(&insn, 0xf3) && op != 0x0f && op != 0x90)) {
		fail_unknown(ip, &insn);
		return;
	}
	s->zf = zf;
	if (follows && !root_failed)
		reach(after(ip, next), s);
}

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
	size_t n = node_index(repl ? repl->addr + repl->size : entry_end), i;
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
	/* What an earlier entry has left is complete if this one is from the kernel. */
	for (j = 0; j < NR_SLOTS; j++) {
		if (!r->user || r->kind == ROOT_EXIT)
			*word(&s, TASK, j * 8) = expected(j);
	}

	queue_head = queue_tail = 0;
	reach(r->ip, &s);
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
	root = NULL;
}

/* Ways in */

static bool has_error_code(const char *name)
{
	static const char * const names[] = {
		"asm_exc_double_fault", "asm_exc_invalid_tss", "asm_exc_segment_not_present",
		"asm_exc_stack_segment", "asm_exc_general_protection", "asm_exc_page_fault",
		"asm_exc_alignment_check", "asm_exc_control_protection",
		"asm_exc_vmm_communication", "asm_xenpv_exc_double_fault"
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i]))
			return true;
	}
	return false;
}

static void run_worlds(struct root *r)
{
	pti = false;
	run_root(r);
#ifdef CONFIG_MITIGATION_PAGE_TABLE_ISOLATION
	pti = true;
	run_root(r);
#endif
}

static void run_idt(unsigned long long ip, const char *name)
{
	struct root r = { .kind = ROOT_IDT, .ip = ip, .error_code = has_error_code(name) };

	r.kern_frame = !strcmp(name, "asm_exc_debug") || !strcmp(name, "asm_exc_machine_check");
	if (!strcmp(name, "asm_exc_nmi")) {
		r.kern_frame = true;
		/* NMI_STACK_WORDS of user_regs.c */
		r.kern_offset = -12 * 8;
	}
	run_worlds(&r);
	/* x86_user_regs() gives none on the stack of #DF. */
	if (strcmp(name, "asm_exc_double_fault")) {
		r.user = true;
		run_worlds(&r);
	}
}

/* irq_entries_start: a stub per vector, each ending in a jump, then padding */
static void run_stubs(const struct symbol *sym)
{
	unsigned long long ip = sym->addr;
	bool begin = true;
	struct insn insn;

	while (ip < sym->addr + sym->size) {
		if (!decode(&insn, ip)) {
			error(ip, "not proved: cannot be decoded");
			return;
		}
		if (insn.opcode.bytes[0] != 0xcc && insn.opcode.bytes[0] != 0x90 && begin) {
			run_idt(ip, sym->name);
			begin = false;
		}
		if (insn.opcode.bytes[0] == 0xe9 || insn.opcode.bytes[0] == 0xeb)
			begin = true;
		ip += insn.length;
	}
}

static void run_roots(void)
{
	unsigned long long start = symbol_addr("__irqentry_text_start", true);
	unsigned long long end = symbol_addr("__irqentry_text_end", true);
	struct root r = { .kind = ROOT_SYSCALL, .user = true };
	int i;

	r.ip = symbol_addr("entry_SYSCALL_64", true);
	run_worlds(&r);
	r.kind = ROOT_SYSCALL32;
	r.ip = symbol_addr("entry_SYSCALL_compat", false);
	if (r.ip)
		run_worlds(&r);
	r.kind = ROOT_SYSENTER;
	r.ip = symbol_addr("entry_SYSENTER_compat", false);
	if (r.ip)
		run_worlds(&r);

	for (i = 0; i < nr_symbols; i++) {
		const struct symbol *sym = &symbols[i];

		if (sym->addr < start || sym->addr >= end || strncmp(sym->name, "__irqentry", 10) == 0)
			continue;
		if (!strcmp(sym->name, "irq_entries_start") ||
		    !strcmp(sym->name, "spurious_entries_start"))
			run_stubs(sym);
		else if (strcmp(sym->name, "asm_common_interrupt") &&
			 strcmp(sym->name, "asm_spurious_interrupt"))
			run_idt(sym->addr, sym->name);
	}
	run_idt(symbol_addr("asm_exc_nmi", true), "asm_exc_nmi");
}

/* Is there an instruction at @ip, decoding from the symbol that it is in? */
static bool is_insn(unsigned long long ip, struct insn *insn)
{
	const struct alt *alt = in_repl(ip) ? alt_of_repl(ip) : NULL;
	const struct symbol *sym = symbol_at(ip);
	unsigned long long at;

	if (!alt && !sym)
		return true;
	for (at = alt ? alt->repl : sym->addr; at < ip; at += insn->length) {
		if (!decode(insn, at))
			return false;
	}
	return at == ip && decode(insn, ip);
}

static bool in_xen(unsigned long long ip)
{
	const struct symbol *sym = symbol_at(ip);

	/* x86_user_regs() goes by no hint in a Xen PV guest. */
	return sym && strstr(sym->name, "xen");
}

/*
 * Direct branches from code that was not run to code whose hint had to be proved: all
 * text is searched for what may be the displacement. On the way out pt_regs is taken
 * to be complete, at the stack pointer: ret_from_fork_asm().
 */
static void check_ways_in(const struct section *sec)
{
	unsigned long long i, ip, target;
	struct insn insn;
	int opcode;

	for (i = 1; i + 4 <= sec->size; i++) {
		target = sec->addr + i + 4 + (int)get32(sec->data + i);
		if (!in_entry(target) || !checked(where_of(target)))
			continue;
		if (sec->data[i - 1] == 0xe8 || sec->data[i - 1] == 0xe9)
			opcode = 1;
		else if (i > 1 && sec->data[i - 2] == 0x0f && (sec->data[i - 1] & 0xf0) == 0x80)
			opcode = 2;
		else
			continue;
		ip = sec->addr + i - opcode;
		if (in_entry(ip) && (checked(where_of(ip)) || proved[ip - entry_start]))
			continue;
		if (in_repl(ip)) {
			const struct alt *alt = alt_of_repl(ip);

			if (alt && in_entry(alt->ip))
				continue;
		}
		if (!is_insn(ip, &insn))
			continue;
		if (in_xen(ip))
			continue;
		if (!in_entry(ip) && where_of(target) == USER_REGS_EXIT) {
			struct root r = { .kind = ROOT_EXIT, .ip = target, .user = true };

			nr_outside++;
			run_worlds(&r);
			continue;
		}
		error(ip, "a way into USER_REGS_%s at %s that is not proved",
		      hint_names[where_of(target)], place(target));
	}
}

/* Faults must not lead into code whose hint had to be proved. */
static void check_extable(const struct section *sec)
{
	unsigned long long i, fixup;

	for (i = 0; i + 12 <= sec->size; i += 12) {
		fixup = sec->addr + i + 4 + (int)get32(sec->data + i + 4);
		if (in_entry(fixup) && checked(where_of(fixup)))
			error(fixup, "a fault leads here");
	}
}

/* int3, nop, ud2 */
static bool is_padding(const struct insn *insn)
{
	unsigned char op = insn->opcode.bytes[0], op2 = insn->opcode.bytes[1];

	return op == 0xcc || op == 0x90 || (op == 0x0f && (op2 == 0x1f || op2 == 0x0b));
}

/* All instructions under a hint must have been run, but padding. */
static void check_all_run(void)
{
	unsigned long long ip, n = 0, unknown = 0, kernel = 0;
	struct insn insn;

	for (ip = entry_start; ip < entry_end; ip += insn.length) {
		unsigned int where = where_of(ip);

		if (!decode(&insn, ip)) {
			if (checked(where))
				error(ip, "not proved: cannot be decoded");
			insn.length = 1;
			continue;
		}
		if (where == USER_REGS_UNKNOWN) {
			unknown++;
		} else if (where == USER_REGS_KERNEL) {
			kernel++;
		} else if (proved[ip - entry_start]) {
			n++;
		} else if (!is_padding(&insn) && !in_xen(ip)) {
			error(ip, "not proved: no way in found");
			return;
		}
	}
	if (verbose)
		printf("check_user_regs: %llu instructions proved, %llu under USER_REGS_KERNEL, %llu given up (USER_REGS_UNKNOWN); %d ways in\n",
		       n, kernel, unknown, nr_roots);
}

/* ELF */

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* Labels in front of the function */
	return x->size < y->size ? -1 : x->size > y->size;
}

static struct section *section(const char *name, bool must)
{
	int i;

	for (i = 0; i < nr_sections; i++) {
		if (!strcmp(sections[i].name, name))
			return &sections[i];
	}
	if (must)
		die("no section %s", name);
	return NULL;
}

static void read_symbols(const unsigned char *data, size_t size, const char *names)
{
	size_t i;

	symbols = alloc(size / sizeof(Elf64_Sym), sizeof(*symbols));
	for (i = 0; i < size / sizeof(Elf64_Sym); i++) {
		const unsigned char *sym = data + i * sizeof(Elf64_Sym);
		int type = ELF64_ST_TYPE(sym[offsetof(Elf64_Sym, st_info)]);
		const char *name = names + get32(sym + offsetof(Elf64_Sym, st_name));

		if (type > STT_FUNC || !*name || !get16(sym + offsetof(Elf64_Sym, st_shndx)))
			continue;
		symbols[nr_symbols].addr = get64(sym + offsetof(Elf64_Sym, st_value));
		symbols[nr_symbols].size = get64(sym + offsetof(Elf64_Sym, st_size));
		symbols[nr_symbols++].name = name;
	}
	qsort(symbols, nr_symbols, sizeof(*symbols), compare_symbols);
}

static void read_elf(const char *file)
{
	unsigned char *elf, *shdrs;
	const char *names;
	struct stat st;
	int fd, i;

	fd = open(file, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		die("cannot open %s", file);
	elf = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (elf == MAP_FAILED)
		die("cannot read %s", file);
	close(fd);
	if (st.st_size < (long)sizeof(Elf64_Ehdr) || memcmp(elf, ELFMAG, SELFMAG) ||
	    elf[EI_CLASS] != ELFCLASS64)
		die("%s is not a 64-bit ELF file", file);

	shdrs = elf + get64(elf + offsetof(Elf64_Ehdr, e_shoff));
	nr_sections = get16(elf + offsetof(Elf64_Ehdr, e_shnum));
	sections = alloc(nr_sections, sizeof(*sections));
	i = get16(elf + offsetof(Elf64_Ehdr, e_shstrndx));
	names = (char *)elf + get64(shdrs + i * sizeof(Elf64_Shdr) +
				    offsetof(Elf64_Shdr, sh_offset));
	for (i = 0; i < nr_sections; i++) {
		unsigned char *sh = shdrs + i * sizeof(Elf64_Shdr);
		unsigned int type = get32(sh + offsetof(Elf64_Shdr, sh_type));
		struct section *sec = &sections[i];

		sec->name = names + get32(sh + offsetof(Elf64_Shdr, sh_name));
		sec->addr = get64(sh + offsetof(Elf64_Shdr, sh_addr));
		sec->size = type == SHT_NOBITS ? 0 : get64(sh + offsetof(Elf64_Shdr, sh_size));
		sec->data = elf + get64(sh + offsetof(Elf64_Shdr, sh_offset));
		sec->exec = get64(sh + offsetof(Elf64_Shdr, sh_flags)) & SHF_EXECINSTR;
		if (type == SHT_SYMTAB) {
			unsigned char *str = shdrs + get32(sh + offsetof(Elf64_Shdr, sh_link)) *
						     sizeof(Elf64_Shdr);

			read_symbols(sec->data, sec->size, (char *)elf +
				     get64(str + offsetof(Elf64_Shdr, sh_offset)));
		}
	}
	if (!nr_symbols)
		die("%s has no symbols", file);
}

static void read_tables(void)
{
	const struct section *sec;
	unsigned long long i;

	/* struct alt_instr */
	sec = section(".altinstructions", true);
	alts = alloc(sec->size / 14, sizeof(*alts));
	for (i = 0; i + 14 <= sec->size; i += 14) {
		const unsigned char *p = sec->data + i;
		struct alt *alt = &alts[nr_alts];

		alt->ip = sec->addr + i + (int)get32(p);
		alt->repl = sec->addr + i + 4 + (int)get32(p + 4);
		alt->feature = get16(p + 8);
		alt->not = get16(p + 10) & ALT_NOT_;
		alt->len = p[12];
		alt->repl_len = p[13];
		/* Those of other code do not matter. */
		if (in_entry(alt->ip))
			nr_alts++;
	}
	repl = section(".altinstr_replacement", false);

	sec = section(".user_regs_hints", true);
	hints = alloc(sec->size / 8, sizeof(*hints));
	for (i = 0; i + 8 <= sec->size; i += 8) {
		struct hint *hint = &hints[nr_hints];

		hint->ip = sec->addr + i + (int)get32(sec->data + i);
		hint->where = get32(sec->data + i + 4);
		if (hint->ip < entry_start || hint->ip > entry_end)
			die("hint %d is not in the entry text", nr_hints);
		if (hint->where >= sizeof(hint_names) / sizeof(hint_names[0]))
			die("hint %d: %u is not known", nr_hints, hint->where);
		if (nr_hints && hint->ip < hint[-1].ip)
			die("hint %d is not in the order of the text", nr_hints);
		nr_hints++;
	}
	if (!nr_hints)
		die("no hints");
}

int main(int argc, char **argv)
{
	int i;

	if (argc > 1 && !strcmp(argv[1], "-v")) {
		verbose = 1;
		argv++;
		argc--;
	}
	if (argc != 2) {
		fprintf(stderr, "usage: check_user_regs [-v] vmlinux\n");
		return 2;
	}

	read_elf(argv[1]);
	entry_start = symbol_addr("__entry_text_start", true);
	entry_end = symbol_addr("__entry_text_end", true);
	text = section(".text", true);
	if (entry_start < text->addr || entry_end > text->addr + text->size)
		die("the entry text is not in .text");
	tss = symbol_addr("cpu_tss_rw", true);
	hot = symbol_addr("pcpu_hot", true);
	return_thunk = symbol_addr("__x86_return_thunk", false);
	percpu_espfix_stack = symbol_addr("espfix_stack", false);
	percpu_espfix_waddr = symbol_addr("espfix_waddr", false);
	read_tables();
	proved = alloc(entry_end - entry_start, 1);
	nodes = alloc(entry_end - entry_start + (repl ? repl->size : 0), sizeof(*nodes));

	run_roots();
	for (i = 0; i < nr_sections; i++) {
		/* There is no user mode yet when early_idt_handler_common runs. */
		if (sections[i].exec && strcmp(sections[i].name, ".init.text"))
			check_ways_in(&sections[i]);
		else if (!strcmp(sections[i].name, "__ex_table"))
			check_extable(&sections[i]);
	}
	if (!nr_errors)
		check_all_run();

	if (nr_errors) {
		fprintf(stderr,
			"check_user_regs: %d errors: samples could have registers of the kernel as the user's.\n"
			"check_user_regs: Correct USER_REGS_HINT in arch/x86/entry, or put USER_REGS_UNKNOWN there.\n",
			nr_errors);
		return 1;
	}
	return 0;
}
