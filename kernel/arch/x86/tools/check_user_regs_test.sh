#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Plants faults in the entry code, one at a time, and verifies that check_user_regs
# reports each of them with the expected message.
#
# usage: check_user_regs_test.sh [-v] [BUILD [COMPILER-FLAG...]]
#
# BUILD is the build directory of a kernel. The script assembles the entry code with the
# same command and the added flags (-DCONFIG_DEBUG_ENTRY=1), and links it alone.

set -u
verbose=
if [ "${1-}" = -v ]; then
	verbose=1
	shift
fi
cd "${1:-.}" || exit 1
shift
check=$PWD/arch/x86/tools/check_user_regs
entry=arch/x86/entry
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

command=$(sed -n '1s/^savedcmd_[^ ]* := \(.*\.S\) .*/\1/p' $entry/.entry_64.o.cmd)
src=$(dirname "${command##* }")
command=${command% -c -o *}
command=${command/-Wp,-MMD,$entry\/.entry_64.o.d/}
if [ -z "$command" ] || [ ! -x "$check" ] || [ ! -f "$src/entry_64.S" ]; then
	echo "$PWD: no entry code or no check_user_regs has been built here" >&2
	exit 1
fi

cat > "$tmp/lds" <<'LDS'
SECTIONS {
	. = 0xffffffff81000000;
	.text : {
		*(.text) *(.noinstr.text)
		__x86_return_thunk = .; . += 16;
		sync_regs = .; . += 16;
		fixup_bad_iret = .; . += 16;
		vc_switch_off_ist = .; . += 16;
		some_function = .; . += 16;
		. = ALIGN(64);
		__entry_text_start = .;
		*(.entry.text)
		__entry_text_end = .;
	}
	.user_regs_hints : { *(.user_regs_hints) }
	.altinstructions : { *(.altinstructions) }
	.altinstr_replacement : { *(.altinstr_replacement) }
	__ex_table : { *(__ex_table) }
	/DISCARD/ : { *(.discard*) *(.note*) *(.orc*) *(.data*) *(.*sites) *(.export*) }
	cpu_tss_rw = 0x6000;
	pcpu_hot = 0x9000;
	espfix_stack = 0xa000;
	espfix_waddr = 0xa008;
}
LDS

# Assemble and link what is in $tmp, and check it.
run()
{
	local file objects=()

	for file in entry_64 entry_64_compat entry; do
		if [ $file = entry_64_compat ] && [ ! -f $entry/$file.o ]; then
			continue
		fi
		eval "$command" '"$@"' -c -o '"$tmp/$file.o"' '"$tmp/$file.S"' 2> "$tmp/log" ||
			return 2
		objects+=("$tmp/$file.o")
	done
	# Functions in C are missing: they are at 0, which no branch can reach.
	ld -T "$tmp/lds" --noinhibit-exec --unresolved-symbols=ignore-all -o "$tmp/elf" \
		"${objects[@]}" 2> /dev/null
	"$check" -v "$tmp/elf" > "$tmp/log" 2>&1
}

nr=0
failed=0
result()
{
	nr=$((nr + 1))
	if [ "$1" = 0 ]; then
		echo "ok $nr $2"
	else
		failed=1
		echo "not ok $nr $2"
	fi
	if [ "$1" != 0 ] || [ -n "$verbose" ]; then
		sed 's/^/# /' "$tmp/log"
	fi
}

take()
{
	cp "$src"/entry_64.S "$src"/entry_64_compat.S "$src"/entry.S "$src"/calling.h "$tmp"
}

# plant NAME FILE SED-COMMAND MESSAGE: plant a fault, and expect this message
plant()
{
	local rc

	take
	sed -i "$3" "$tmp/$2"
	if cmp -s "$tmp/$2" "$src/$2"; then
		echo "the source has changed: sed found no place for the fault" > "$tmp/log"
		result 1 "$1"
		return
	fi
	run "${flags[@]}"
	rc=$?
	[ $rc = 1 ] && grep -q -- "$4" "$tmp/log"
	result $? "$1"
}

flags=("$@")
echo TAP version 13
take
run "${flags[@]}"
result $? "The entry code as it is"

plant "A clobber before PUSH_REGS of SYSCALL" entry_64.S \
	's/^SYM_INNER_LABEL(entry_SYSCALL_64_after_hwframe.*/&\n\txorl %ebx, %ebx/' \
	'entry_SYSCALL_64.*: bx is not the user'
plant "A clobber of the stack pointer's copy" entry_64.S \
	's/^SYM_INNER_LABEL(entry_SYSCALL_64_safe_stack.*/&\n\tmovq %rax, PER_CPU_VAR(cpu_tss_rw + TSS_sp2)/' \
	'entry_SYSCALL_64.*sp is not the user'
plant "A clobber before PUSH_REGS of error_entry" entry_64.S \
	'/^SYM_CODE_START(error_entry)/,/PUSH_AND/s/PUSH_AND/movl $1, %r12d\n\t&/' \
	'error_entry.*: r12 is not the user'
plant "A clobber in an IDT entry" entry_64.S \
	'/^.macro idtentry_body/,/ALTERNATIVE/s/ALTERNATIVE/movl %eax, %edx\n\t&/' \
	'asm_.*: dx is not the user'
plant "A clobber in an alternative" entry_64.S \
	'/^SYM_CODE_START(error_entry)/,/PUSH_AND/s/PUSH_AND/ALTERNATIVE "", "xorl %ebp, %ebp", X86_FEATURE_SMAP\n\t&/' \
	'bp is not the user.*alternative'
plant "A clobber before PUSH_REGS of paranoid_entry" entry_64.S \
	'/^SYM_CODE_START(paranoid_entry)/,/PUSH_AND/s/PUSH_AND/xorl %ebx, %ebx\n\t&/' \
	"bx of the exception's pt_regs is not complete"
plant "PUSH_REGS in another order" calling.h \
	's/^\tpushq\t%r12\t/\tpushq %r13/; t; s/^\tpushq\t%r13\t/\tpushq %r12/' \
	'r1[23] is not the user'
plant "A register that PUSH_REGS clears too early" calling.h \
	's/^\tpushq\t%rbx\t/\txorl %r14d, %r14d\n&/' \
	'r14 is not the user'
plant "A clobber by rdmsr in SYSCALL" entry_64.S \
	'/^SYM_CODE_START(entry_SYSCALL_64)/,/swapgs/s/swapgs/&\n\trdmsr/' \
	'entry_SYSCALL_64.*: .x is not the user'
plant "A call before pt_regs is complete" entry_64.S \
	's/^SYM_INNER_LABEL(entry_SYSCALL_64_after_hwframe.*/&\n\tcall some_function/' \
	'leaves the entry code before pt_regs is complete'
plant "A call on the exit trampoline of SYSRET" entry_64.S \
	'/^syscall_return_via_sysret/,/SWITCH_TO_USER/s/STACKLEAK_ERASE_NOCLOBBER/&\n\tcall some_function/' \
	'leaves the entry code before\|entry stack: .* is not the user'
plant "A call on the exit trampoline of IRET, deeper" entry_64.S \
	'/^.Lpti_restore/,/SWITCH_TO_USER/s/STACKLEAK_ERASE_NOCLOBBER/&\n\tPUSH_AND_CLEAR_REGS\n\tcall some_function\n\tPOP_REGS/' \
	'entry stack: .* is not the user'
plant "A push over pt_regs on the way out" entry_64.S \
	'/^syscall_return_via_sysret/,/pop_rdi/s/POP_REGS.*/&\n\tpushq %rax/' \
	"task's stack: si is not the user"
plant "A store to pt_regs on the way out" entry_64.S \
	'/^syscall_return_via_sysret/,/IBRS_EXIT/s/IBRS_EXIT/&\n\tmovq %rax, RBX(%rsp)/' \
	"task's stack: bx is not the user"
plant "A store by an unknown pointer" entry_64.S \
	'/^syscall_return_via_sysret/,/IBRS_EXIT/s/IBRS_EXIT/&\n\tmovq %rax, 8(%rbx)/' \
	'stores to an unknown address'
plant "An instruction that is not known" entry_64.S \
	'/^SYM_CODE_START(entry_SYSCALL_64)/,/swapgs/s/swapgs/&\n\tcpuid/' \
	'not proved: unknown instruction, opcode 0f a2'
plant "A call by a pointer" entry_64.S \
	'/^SYM_CODE_START_LOCAL(error_return)/,/testb/s/testb/ANNOTATE_RETPOLINE_SAFE\n\tcall *%rax\n\t&/' \
	'not proved: unknown instruction, opcode ff'
plant "A way in from a function" entry_64.S \
	'/^SYM_FUNC_START(clear_bhb_loop)/,/push\t/s/push\t/jz entry_SYSCALL_64_safe_stack\n\t&/' \
	'a way into USER_REGS_SYSCALL_PUSH'
plant "A way in from other text" entry_64.S \
	'/^SYM_FUNC_START(__switch_to_asm)/,/pushq/s/pushq/jz error_entry\n\t&/' \
	'a way into USER_REGS_IDT'
plant "An exception fixup that leads into code under a hint" entry_64.S \
	's/^\t_ASM_EXTABLE(.Lgs_change, .Lbad_gs)/\t_ASM_EXTABLE(.Lgs_change, error_return)/' \
	'an exception fixup (__ex_table) leads here'
plant "Code that nothing leads to" entry_64.S \
	'/^SYM_INNER_LABEL(entry_SYSRETQ_end/,/int3/s/int3/&\n\tmovq %rsp, %rbp/' \
	'no entry point reaches this instruction'
plant "A jump to another range" entry_64.S \
	's/^SYM_INNER_LABEL(entry_SYSCALL_64_after_hwframe.*/&\n\tjz syscall_return_via_sysret/' \
	'syscall_return_via_sysret.*is not the user\|EXIT.*is not the user'
plant "A hint that is missing" entry_64.S \
	'/USER_REGS_HINT USER_REGS_SYSCALL_SP2/d' \
	'entry_SYSCALL_64.*sp is not the user'
plant "A missing hint for PUSH_REGS" entry_64.S \
	'/USER_REGS_HINT USER_REGS_IDT_PUSH/d' \
	'error_entry.* is not the user'
plant "An exception without error code that does not push orig_ax" entry_64.S \
	's/^\t.if \\has_error_code == 0$/\t.if \\has_error_code == 2/' \
	'is not the user'
if [ -f $entry/entry_64_compat.o ]; then
	plant "A clobber before PUSH_REGS of SYSENTER" entry_64_compat.S \
		's/^SYM_INNER_LABEL(entry_SYSENTER_compat_after_hwframe.*/&\n\tmovl %ecx, %ecx/' \
		'entry_SYSENTER_compat.*: cx is not the user'
	plant "A clobber of r8 in the 32-bit SYSCALL" entry_64_compat.S \
		's/^SYM_INNER_LABEL(entry_SYSCALL_compat_safe_stack.*/&\n\txorl %r8d, %r8d/' \
		'entry_SYSCALL_compat.*: r8 is not the user'
	plant "A call of SYSENTER not directly below pt_regs" entry_64_compat.S \
		's/^\tcall\tdo_SYSENTER_32/\tpushq %rdi\n&\n\tpopq %rdi/' \
		'the return address is not directly below pt_regs'
fi
echo "1..$nr"
exit $failed
