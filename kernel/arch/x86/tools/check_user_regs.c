// SPDX-License-Identifier: GPL-2.0
/*
 * Prove that USER_REGS_HINT tells the truth about the entry code
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
 * - The entry code is entered only by the CPU, by direct branches, by calls through the
 *   symbols of the IDT's entries, and by returns.
 * - A fault of IRET, and all that Xen PV and FRED do, is left to run-time checks.
 * - ax and flags of SYSENTER, and orig_ax of exceptions, are not compared.
 */
#include <stdio.h>
#include <string.h>

#include "check_user_regs.h"

static struct section *text;
static int verbose;

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
	init_insn();
	read_tables();
	init_nodes();

	run_roots();
	for (i = 0; i < nr_sections; i++) {
		/* There is no user mode yet when early_idt_handler_common runs. */
		if (sections[i].exec && strcmp(sections[i].name, ".init.text"))
			check_ways_in(&sections[i]);
		else if (!strcmp(sections[i].name, "__ex_table"))
			check_extable(&sections[i]);
	}
	if (!nr_errors)
		check_all_run(verbose);

	if (nr_errors) {
		fprintf(stderr,
			"check_user_regs: %d errors: samples could show kernel registers as user registers.\n"
			"check_user_regs: Correct USER_REGS_HINT in arch/x86/entry, or put USER_REGS_UNKNOWN there.\n",
			nr_errors);
		return 1;
	}
	return 0;
}
