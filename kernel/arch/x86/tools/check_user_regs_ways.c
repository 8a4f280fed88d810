// SPDX-License-Identifier: GPL-2.0
/*
 * check_user_regs: the ways into the entry code, and a search for others
 */

#include <stdio.h>
#include <string.h>

#include <asm/insn.h>

#include "check_user_regs.h"

static int nr_outside;

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
	/* x86_user_regs() finds no registers on the stack of #DF. */
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

void run_roots(void)
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

/* Does an instruction start at @ip, if decoding starts at the symbol before it? */
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

	/* x86_user_regs() uses no hint in a Xen PV guest. */
	return sym && strstr(sym->name, "xen");
}

/*
 * Finds direct branches from code that was not run into code under a proved hint, by
 * searching all text for their displacements. A branch into the exit code
 * (ret_from_fork_asm()) is assumed to have a complete pt_regs at the stack pointer.
 */
void check_ways_in(const struct section *sec)
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
void check_extable(const struct section *sec)
{
	unsigned long long i, fixup;

	for (i = 0; i + 12 <= sec->size; i += 12) {
		fixup = sec->addr + i + 4 + (int)get32(sec->data + i + 4);
		if (in_entry(fixup) && checked(where_of(fixup)))
			error(fixup, "an exception fixup (__ex_table) leads here");
	}
}

/* int3, nop, ud2 */
static bool is_padding(const struct insn *insn)
{
	unsigned char op = insn->opcode.bytes[0], op2 = insn->opcode.bytes[1];

	return op == 0xcc || op == 0x90 || (op == 0x0f && (op2 == 0x1f || op2 == 0x0b));
}

/* All instructions under a hint must have been run, except padding. */
void check_all_run(bool verbose)
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
			error(ip, "not proved: no entry point reaches this instruction");
			return;
		}
	}
	if (verbose)
		printf("check_user_regs: %llu instructions proved, %llu under USER_REGS_KERNEL, %llu not proved (USER_REGS_UNKNOWN); %d ways in\n",
		       n, kernel, unknown, nr_roots);
}
