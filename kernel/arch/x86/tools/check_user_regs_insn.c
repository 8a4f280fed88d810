// SPDX-License-Identifier: GPL-2.0
/*
 * check_user_regs: what the instructions of the entry code do to a state
 */

#include <string.h>

#include <asm/insn.h>
#include <inat.c>
#include <insn.c>

#include "check_user_regs.h"

/* The Makefile includes generated/asm-offsets.h and generated/autoconf.h. */
#if !defined(TSS_sp0) || !defined(TSS_sp2) || !defined(X86_top_of_stack)
#error "No asm-offsets.h"
#endif

/* Has the instruction at entry_start + i been run? */
unsigned char *proved;

static unsigned long long tss, hot, return_thunk, percpu_espfix_stack, percpu_espfix_waddr;

void init_insn(void)
{
	tss = symbol_addr("cpu_tss_rw", true);
	hot = symbol_addr("pcpu_hot", true);
	return_thunk = symbol_addr("__x86_return_thunk", false);
	percpu_espfix_stack = symbol_addr("espfix_stack", false);
	percpu_espfix_waddr = symbol_addr("espfix_waddr", false);
	proved = alloc(entry_end - entry_start, 1);
}

bool decode(struct insn *insn, unsigned long long ip)
{
	unsigned long long left;
	unsigned char *p = bytes_at(ip, &left);

	return p && !insn_decode(insn, p, left < MAX_INSN_SIZE ? left : MAX_INSN_SIZE,
				 INSN_MODE_64);
}

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

/* The instruction after @ip, or after the alternative that ends there */
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

/*
 * The zero flag after a test of @v with @mask; -1 if it is not known. It is known only
 * for testb $3, CS(%rsp).
 */
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
void step(unsigned long long ip, struct state *s)
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
			/*
			 * An OR with the base of the ESPFIX stack gives an address on
			 * that stack.
			 */
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
		/*
		 * iret: continues in the entry code if the entry code has pushed an
		 * address of its own
		 */
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
