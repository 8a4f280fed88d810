// SPDX-License-Identifier: GPL-2.0
/*
 * Unwind rules that perf derives from instructions
 *
 * The code is as the GNU assembler makes it. Each line of code has the instruction beside it. The
 * expected rules are lines "START-END CFA, where the caller's rbp is"; all other bytes have no
 * rule.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <linux/kernel.h>

#include "util/debug.h"
#include "tests.h"

#ifdef HAVE_AUXTRACE_SUPPORT
#include "util/sframe-insn.h"

#define MAX_CODE	64
#define MAX_ENTRIES	3
#define BASE		0x1000

struct test_code {
	const char			*name;
	u8				bytes[MAX_CODE];
	size_t				size;
	struct sframe_insn_entry	entries[MAX_ENTRIES];
	size_t				nr_entries;
	struct sframe_segment		covered;
	const char			*rows;
};

#define CODE(...)	.bytes = { __VA_ARGS__ }, .size = sizeof((u8 []) { __VA_ARGS__ })
#define SYMBOL(off)	{ .addr = BASE + (off), .source = SFRAME_INSN_SYMBOL }

static const struct test_code codes[] = {
	{
		.name = "frame pointer",
		CODE(
		     /* 00: push %rbp */
		     0x55,
		     /* 01: mov %rsp,%rbp */
		     0x48, 0x89, 0xe5,
		     /* 04: sub $0x20,%rsp */
		     0x48, 0x83, 0xec, 0x20,
		     /* 08: nop */
		     0x90,
		     /* 09: leave */
		     0xc9,
		     /* 0a: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-04 rsp+16, same\n"
			"04-08 rsp+16, cfa-16\n"
			"08-0a rsp+48, cfa-16\n"
			"0a-0b rsp+8, same\n",
	},
	{
		.name = "pushes and a loop",
		CODE(
		     /* 00: push %rbx */
		     0x53,
		     /* 01: push %rbp */
		     0x55,
		     /* 02: sub $0x18,%rsp */
		     0x48, 0x83, 0xec, 0x18,
		     /* 06: dec %edi */
		     0xff, 0xcf,
		     /* 08: jne 06 */
		     0x75, 0xfc,
		     /* 0a: add $0x18,%rsp */
		     0x48, 0x83, 0xc4, 0x18,
		     /* 0e: pop %rbp */
		     0x5d,
		     /* 0f: pop %rbx */
		     0x5b,
		     /* 10: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-02 rsp+16, same\n"
			"02-06 rsp+24, same\n"
			"06-0e rsp+48, same\n"
			"0e-0f rsp+24, same\n"
			"0f-10 rsp+16, same\n"
			"10-11 rsp+8, same\n",
	},
	{
		.name = "realigned, old stack pointer in a slot",
		CODE(
		     /* 00: mov %rsp,%rax */
		     0x48, 0x89, 0xe0,
		     /* 03: sub $0x68,%rsp */
		     0x48, 0x83, 0xec, 0x68,
		     /* 07: and $0xffffffffffffffc0,%rsp */
		     0x48, 0x83, 0xe4, 0xc0,
		     /* 0b: mov %rax,0x60(%rsp) */
		     0x48, 0x89, 0x44, 0x24, 0x60,
		     /* 10: xor %eax,%eax */
		     0x31, 0xc0,
		     /* 12: mov 0x60(%rsp),%rsp */
		     0x48, 0x8b, 0x64, 0x24, 0x60,
		     /* 17: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-07 rsp+8, same\n"
			"07-0b rsp+112, same\n"
			"0b-12 rax+8, same\n"
			"12-17 *(rsp+96)+8, same\n"
			"17-18 rsp+8, same\n",
	},
	{
		.name = "realigned, old stack pointer in a register",
		CODE(
		     /* 00: push %rbp */
		     0x55,
		     /* 01: lea 0x10(%rsp),%r10 */
		     0x4c, 0x8d, 0x54, 0x24, 0x10,
		     /* 06: and $0xffffffffffffffe0,%rsp */
		     0x48, 0x83, 0xe4, 0xe0,
		     /* 0a: sub $0x40,%rsp */
		     0x48, 0x83, 0xec, 0x40,
		     /* 0e: xor %ebp,%ebp */
		     0x31, 0xed,
		     /* 10: mov -0x10(%r10),%rbp */
		     0x49, 0x8b, 0x6a, 0xf0,
		     /* 14: lea -0x8(%r10),%rsp */
		     0x49, 0x8d, 0x62, 0xf8,
		     /* 18: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-0a rsp+16, same\n"
			"0a-10 r10+0, same\n"
			"10-14 r10+0, cfa-16\n"
			"14-18 r10+0, same\n"
			"18-19 rsp+8, same\n",
	},
	{
		.name = "two ways with different frames",
		CODE(
		     /* 00: test %edi,%edi */
		     0x85, 0xff,
		     /* 02: je 05 */
		     0x74, 0x01,
		     /* 04: push %rax */
		     0x50,
		     /* 05: nop */
		     0x90,
		     /* 06: ud2 */
		     0x0f, 0x0b),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-05 rsp+8, same\n",
	},
	{
		.name = "the stack is not restored",
		CODE(
		     /* 00: push %rbx */
		     0x53,
		     /* 01: nop */
		     0x90,
		     /* 02: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "",
	},
	{
		.name = "the frame pointer is lost",
		CODE(
		     /* 00: mov %rdi,%rbp */
		     0x48, 0x89, 0xfd,
		     /* 03: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "",
	},
	{
		.name = "a double beside the frame pointer",
		CODE(
		     /* 00: push %rbp */
		     0x55,
		     /* 01: mov %edi,%ebp */
		     0x89, 0xfd,
		     /* 03: sub $0x10,%rsp */
		     0x48, 0x83, 0xec, 0x10,
		     /* 07: movsd %xmm0,0x8(%rsp) */
		     0xf2, 0x0f, 0x11, 0x44, 0x24, 0x08,
		     /* 0d: add $0x10,%rsp */
		     0x48, 0x83, 0xc4, 0x10,
		     /* 11: pop %rbp */
		     0x5d,
		     /* 12: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-03 rsp+16, same\n"
			"03-07 rsp+16, cfa-16\n"
			"07-11 rsp+32, cfa-16\n"
			"11-12 rsp+16, cfa-16\n"
			"12-13 rsp+8, same\n",
	},
	{
		.name = "a call overwrites the frame pointer",
		CODE(
		     /* 00: push %rbx */
		     0x53,
		     /* 01: push %rbp */
		     0x55,
		     /* 02: pop %rbx */
		     0x5b,
		     /* 03: mov %edi,%ebp */
		     0x89, 0xfd,
		     /* 05: call 0f */
		     0xe8, 0x05, 0x00, 0x00, 0x00,
		     /* 0a: mov %rbx,%rbp */
		     0x48, 0x89, 0xdd,
		     /* 0d: pop %rbx */
		     0x5b,
		     /* 0e: ret */
		     0xc3,
		     /* 0f: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-02 rsp+16, same\n"
			"02-03 rsp+24, same\n"
			"03-05 rsp+16, same\n"
			"0a-0d rsp+16, rbx\n"
			"0d-0e rsp+16, same\n"
			"0e-0f rsp+8, same\n"
			"0f-10 rsp+8, same\n",
	},
	{
		.name = "a call of code elsewhere that has CFI",
		CODE(
		     /* 00: push %rbp */
		     0x55,
		     /* 01: call 100 */
		     0xe8, 0xfa, 0x00, 0x00, 0x00,
		     /* 06: pop %rbp */
		     0x5d,
		     /* 07: ret */
		     0xc3),
		.covered = { BASE + 0xf0, BASE + 0x101 },
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-07 rsp+16, same\n"
			"07-08 rsp+8, same\n",
	},
	{
		.name = "a call of code elsewhere that has no CFI",
		CODE(
		     /* 00: push %rbp */
		     0x55,
		     /* 01: call 100 */
		     0xe8, 0xfa, 0x00, 0x00, 0x00,
		     /* 06: pop %rbp */
		     0x5d,
		     /* 07: ret */
		     0xc3),
		.covered = { BASE + 0xf0, BASE + 0x100 },
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "",
	},
	{
		.name = "a reserved opcode with an operand",
		CODE(
		     /* 00: an instruction without a name, in 3 bytes */
		     0x0f, 0x1d, 0xc3,
		     /* 03: add $0x8,%rsp */
		     0x48, 0x83, 0xc4, 0x08,
		     /* 07: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "",
	},
	{
		.name = "a local function changes rbp",
		CODE(
		     /* 00: sub $0x8,%rsp */
		     0x48, 0x83, 0xec, 0x08,
		     /* 04: call 0e */
		     0xe8, 0x05, 0x00, 0x00, 0x00,
		     /* 09: add $0x8,%rsp */
		     0x48, 0x83, 0xc4, 0x08,
		     /* 0d: ret */
		     0xc3,
		     /* 0e: xor %ebp,%ebp */
		     0x31, 0xed,
		     /* 10: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "",
	},
	{
		.name = "a local function keeps rbp and moves nothing",
		CODE(
		     /* 00: sub $0x8,%rsp */
		     0x48, 0x83, 0xec, 0x08,
		     /* 04: call 0e */
		     0xe8, 0x05, 0x00, 0x00, 0x00,
		     /* 09: add $0x8,%rsp */
		     0x48, 0x83, 0xc4, 0x08,
		     /* 0d: ret */
		     0xc3,
		     /* 0e: push %rbp */
		     0x55,
		     /* 0f: xor %ebp,%ebp */
		     0x31, 0xed,
		     /* 11: pop %rbp */
		     0x5d,
		     /* 12: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-04 rsp+8, same\n"
			"04-0d rsp+16, same\n"
			"0d-0e rsp+8, same\n"
			"0e-0f rsp+8, same\n"
			"0f-11 rsp+16, same\n"
			"11-12 rsp+16, cfa-16\n"
			"12-13 rsp+8, same\n",
	},
	{
		.name = "a local function changes rbp, and its caller has it saved",
		CODE(
		     /* 00: push %rbp */
		     0x55,
		     /* 01: mov %edi,%ebp */
		     0x89, 0xfd,
		     /* 03: call 0a */
		     0xe8, 0x02, 0x00, 0x00, 0x00,
		     /* 08: pop %rbp */
		     0x5d,
		     /* 09: ret */
		     0xc3,
		     /* 0a: mov %r8,%rbp */
		     0x4c, 0x89, 0xc5,
		     /* 0d: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-03 rsp+16, same\n"
			"03-09 rsp+16, cfa-16\n"
			"09-0a rsp+8, same\n"
			"0a-0d rsp+8, same\n"
			"0d-0e rsp+8, unknown\n",
	},
	{
		.name = "a tail call, and one with a frame",
		CODE(
		     /* 00: push %rbx */
		     0x53,
		     /* 01: pop %rbx */
		     0x5b,
		     /* 02: jmp 07 */
		     0xeb, 0x03,
		     /* 04: push %rbx */
		     0x53,
		     /* 05: jmp 07 */
		     0xeb, 0x00,
		     /* 07: ret */
		     0xc3),
		.entries = { SYMBOL(0x00), SYMBOL(0x04), SYMBOL(0x07) },
		.nr_entries = 3,
		.rows = "00-01 rsp+8, same\n"
			"01-02 rsp+16, same\n"
			"02-04 rsp+8, same\n",
	},
	{
		.name = "jumps to code with CFI",
		CODE(
		     /* 00: jmp 10 */
		     0xeb, 0x0e,
		     /* 02: jmp 11 */
		     0xeb, 0x0d,
		     /* 04: push %rax */
		     0x50,
		     /* 05: jmp 10 */
		     0xeb, 0x09,
		     /* 07: nopw 0x0(%rax,%rax,1) */
		     0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00,
		     0x00,
		     /* 10: nop */
		     0x90,
		     /* 11: ret */
		     0xc3),
		.entries = { SYMBOL(0x00), SYMBOL(0x02), SYMBOL(0x04) },
		.nr_entries = 3,
		.covered = { BASE + 0x10, BASE + 0x12 },
		.rows = "00-02 rsp+8, same\n",
	},
	{
		.name = "bytes that are no instruction",
		CODE(
		     /* 00: push %rbx */
		     0x53,
		     /* 01: test %edi,%edi */
		     0x85, 0xff,
		     /* 03: je 07 */
		     0x74, 0x02,
		     /* 05: pop %rbx */
		     0x5b,
		     /* 06: ret */
		     0xc3,
		     /* 07: (bad) */
		     0x06,
		     /* 08: pop %rbx */
		     0x5b,
		     /* 09: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "",
	},
	{
		.name = "a jump into an instruction",
		CODE(
		     /* 00: test %edi,%edi */
		     0x85, 0xff,
		     /* 02: je 05 */
		     0x74, 0x01,
		     /* 04: mov $0xc3909090,%eax */
		     0xb8, 0x90, 0x90, 0x90, 0xc3,
		     /* 09: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "",
	},
	{
		.name = "constants between functions",
		CODE(
		     /* 00: mov 0x1(%rip),%rax */
		     0x48, 0x8b, 0x05, 0x01, 0x00, 0x00, 0x00,
		     /* 07: ret */
		     0xc3,
		     /* 08: ret */
		     0xc3,
		     /* 09: ret */
		     0xc3,
		     /* 0a: ret */
		     0xc3,
		     /* 0b: ret */
		     0xc3,
		     /* 0c: ret */
		     0xc3,
		     /* 0d: ret */
		     0xc3,
		     /* 0e: ret */
		     0xc3,
		     /* 0f: ret */
		     0xc3,
		     /* 10: sub $0x8,%rsp */
		     0x48, 0x83, 0xec, 0x08,
		     /* 14: add $0x8,%rsp */
		     0x48, 0x83, 0xc4, 0x08,
		     /* 18: ret */
		     0xc3),
		.entries = { SYMBOL(0x00), SYMBOL(0x10) },
		.nr_entries = 2,
		.rows = "00-08 rsp+8, same\n"
			"10-14 rsp+8, same\n"
			"14-18 rsp+16, same\n"
			"18-19 rsp+8, same\n",
	},
	{
		.name = "a function that nothing mentions",
		CODE(
		     /* 00: ret */
		     0xc3,
		     /* 01: data16 cs nopw 0x0(%rax,%rax,1) */
		     0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00,
		     0x00, 0x00, 0x00,
		     /* 0c: nopl 0x0(%rax) */
		     0x0f, 0x1f, 0x40, 0x00,
		     /* 10: push %r12 */
		     0x41, 0x54,
		     /* 12: mov %rdi,%r12 */
		     0x49, 0x89, 0xfc,
		     /* 15: pop %r12 */
		     0x41, 0x5c,
		     /* 17: ret */
		     0xc3,
		     /* 18: nopl 0x0(%rax,%rax,1) */
		     0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,
		     /* 20: push %r12 */
		     0x41, 0x54,
		     /* 22: mov %rdi,%r12 */
		     0x49, 0x89, 0xfc,
		     /* 25: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"10-12 rsp+8, same\n"
			"12-17 rsp+16, same\n"
			"17-18 rsp+8, same\n",
	},
	{
		.name = "its own address from the stack",
		CODE(
		     /* 00: call 05 */
		     0xe8, 0x00, 0x00, 0x00, 0x00,
		     /* 05: pop %rax */
		     0x58,
		     /* 06: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "",
	},
	{
		.name = "an unknown jump with a frame, and without",
		CODE(
		     /* 00: push %rbx */
		     0x53,
		     /* 01: jmp *%rax */
		     0xff, 0xe0,
		     /* 03: jmp *%rax */
		     0xff, 0xe0),
		.entries = { SYMBOL(0x00), SYMBOL(0x03) },
		.nr_entries = 2,
		.rows = "03-05 rsp+8, same\n",
	},
	{
		.name = "a jump table",
		CODE(
		     /* 00: push %rbx */
		     0x53,
		     /* 01: cmp $0x1,%edi */
		     0x83, 0xff, 0x01,
		     /* 04: ja 19 */
		     0x77, 0x13,
		     /* 06: lea 0x13(%rip),%rax */
		     0x48, 0x8d, 0x05, 0x13, 0x00, 0x00, 0x00,
		     /* 0d: movslq (%rax,%rdi,4),%rcx */
		     0x48, 0x63, 0x0c, 0xb8,
		     /* 11: add %rcx,%rax */
		     0x48, 0x01, 0xc8,
		     /* 14: jmp *%rax */
		     0xff, 0xe0,
		     /* 16: pop %rbx */
		     0x5b,
		     /* 17: ret */
		     0xc3,
		     /* 18: nop */
		     0x90,
		     /* 19: pop %rbx */
		     0x5b,
		     /* 1a: ret */
		     0xc3,
		     /* 1b: nopl 0x0(%rax,%rax,1) */
		     0x0f, 0x1f, 0x44, 0x00, 0x00,
		     /* 20: table */
		     0xf6, 0xff, 0xff, 0xff,
		     /* 24: table */
		     0xf8, 0xff, 0xff, 0xff),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-17 rsp+16, same\n"
			"17-18 rsp+8, same\n"
			"18-1a rsp+16, same\n"
			"1a-1b rsp+8, same\n",
	},
	{
		.name = "code that takes care of the red zone",
		CODE(
		     /* 00: mov %rbp,-0x8(%rsp) */
		     0x48, 0x89, 0x6c, 0x24, 0xf8,
		     /* 05: xor %ebp,%ebp */
		     0x31, 0xed,
		     /* 07: mov -0x8(%rsp),%rbp */
		     0x48, 0x8b, 0x6c, 0x24, 0xf8,
		     /* 0c: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-07 rsp+8, same\n"
			"07-0c rsp+8, cfa-16\n"
			"0c-0d rsp+8, same\n",
	},
	{
		.name = "a label with a frame is not a function",
		CODE(
		     /* 00: lea 0x3(%rip),%rax */
		     0x48, 0x8d, 0x05, 0x03, 0x00, 0x00, 0x00,
		     /* 07: push %rbx */
		     0x53,
		     /* 08: jmp *%rax */
		     0xff, 0xe0,
		     /* 0a: pop %rbx */
		     0x5b,
		     /* 0b: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-08 rsp+8, same\n"
			"08-0b rsp+16, same\n"
			"0b-0c rsp+8, same\n",
	},
	{
		.name = "vector code leaves registers alone",
		CODE(
		     /* 00: push %rbp */
		     0x55,
		     /* 01: vpaddd %ymm5,%ymm4,%ymm5 */
		     0xc5, 0xdd, 0xfe, 0xed,
		     /* 05: vmovdqu %ymm5,(%rdi) */
		     0xc5, 0xfe, 0x7f, 0x2f,
		     /* 09: vpextrd $0x1,%xmm5,%ebp */
		     0xc4, 0xe3, 0x79, 0x16, 0xed, 0x01,
		     /* 0f: pop %rbp */
		     0x5d,
		     /* 10: ret */
		     0xc3),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-0f rsp+16, same\n"
			"0f-10 rsp+16, cfa-16\n"
			"10-11 rsp+8, same\n",
	},
	{
		.name = "two stacks are exchanged",
		CODE(
		     /* 00: push %rbp */
		     0x55,
		     /* 01: mov %rsp,%rbp */
		     0x48, 0x89, 0xe5,
		     /* 04: and $0xffffffffffffffc0,%rsp */
		     0x48, 0x83, 0xe4, 0xc0,
		     /* 08: mov %rdi,%rax */
		     0x48, 0x89, 0xf8,
		     /* 0b: xchg %rax,%rsp */
		     0x48, 0x87, 0xe0,
		     /* 0e: push %rbp */
		     0x55,
		     /* 0f: lea 0x10(%rbp),%rbp */
		     0x48, 0x8d, 0x6d, 0x10,
		     /* 13: push %rbp */
		     0x55,
		     /* 14: xor %ebp,%ebp */
		     0x31, 0xed,
		     /* 16: sub $0x10,%rsp */
		     0x48, 0x83, 0xec, 0x10,
		     /* 1a: mov %rax,%rsp */
		     0x48, 0x89, 0xc4,
		     /* 1d: nop */
		     0x90,
		     /* 1e: ud2 */
		     0x0f, 0x0b),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-01 rsp+8, same\n"
			"01-04 rsp+16, same\n"
			"04-08 rsp+16, cfa-16\n"
			"08-13 rbp+16, cfa-16\n"
			"13-16 rbp+0, cfa-16\n"
			"16-1a *(rsp+0)+0, cfa-16\n"
			"1a-1d *(rsp+16)+0, cfa-16\n",
	},
	{
		.name = "labels that only jump to each other",
		CODE(
		     /* 00: lea 0x9(%rip),%rax */
		     0x48, 0x8d, 0x05, 0x09, 0x00, 0x00, 0x00,
		     /* 07: lea 0x12(%rip),%rcx */
		     0x48, 0x8d, 0x0d, 0x12, 0x00, 0x00, 0x00,
		     /* 0e: ret */
		     0xc3,
		     /* 0f: nop */
		     0x90,
		     /* 10: nop */
		     0x90,
		     /* 11: jmp 20 */
		     0xeb, 0x0d,
		     /* 13: data16 cs nopw 0x0(%rax,%rax,1) */
		     0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00,
		     0x00, 0x00, 0x00,
		     /* 1e: xchg %ax,%ax */
		     0x66, 0x90,
		     /* 20: nop */
		     0x90,
		     /* 21: jmp 10 */
		     0xeb, 0xed),
		.entries = { SYMBOL(0x00) },
		.nr_entries = 1,
		.rows = "00-0f rsp+8, same\n",
	},
};

static const char * const regs[] = {
	"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
};

struct test_rows {
	char	text[1024];
	size_t	len;
};

static int add_row(u64 start, u64 end, bool entry __maybe_unused,
		   const struct sframe_insn_rule *rule, void *arg)
{
	struct test_rows *rows = arg;
	size_t room = sizeof(rows->text);
	char cfa[32], fp[32];

	if (rule->cfa_deref)
		scnprintf(cfa, sizeof(cfa), "*(%s%+d)%+d", regs[rule->cfa_reg], rule->cfa_off,
			  rule->cfa_add);
	else
		scnprintf(cfa, sizeof(cfa), "%s%+d", regs[rule->cfa_reg], rule->cfa_off);

	switch ((enum sframe_insn_fp)rule->fp) {
	case SFRAME_INSN_FP_CFA:
		scnprintf(fp, sizeof(fp), "cfa%+d", rule->fp_off);
		break;
	case SFRAME_INSN_FP_REG:
		scnprintf(fp, sizeof(fp), "%s", regs[rule->fp_reg]);
		break;
	case SFRAME_INSN_FP_MEM:
		scnprintf(fp, sizeof(fp), "*(%s%+d)", regs[rule->fp_reg], rule->fp_off);
		break;
	case SFRAME_INSN_FP_NONE:
		scnprintf(fp, sizeof(fp), "unknown");
		break;
	case SFRAME_INSN_FP_SAME:
	default:
		scnprintf(fp, sizeof(fp), "same");
		break;
	}

	rows->len += scnprintf(rows->text + rows->len, room - rows->len,
			       "%02" PRIx64 "-%02" PRIx64 " %s, %s\n", start - BASE, end - BASE,
			       cfa, fp);
	return 0;
}

static bool read_code(u64 addr, void *buf, size_t size, void *arg)
{
	const struct test_code *code = arg;

	if (addr < BASE || addr - BASE > code->size || size > code->size - (addr - BASE))
		return false;
	memcpy(buf, code->bytes + (addr - BASE), size);
	return true;
}

static int analyse(const struct test_code *code, u64 max_steps, struct test_rows *rows)
{
	const struct sframe_insn_code section = {
		.addr = BASE, .bytes = code->bytes, .size = code->size,
	};
	const struct sframe_insn_input in = {
		.code		= &section,
		.nr_code	= 1,
		.covered	= &code->covered,
		.nr_covered	= !!code->covered.end,
		.entries	= code->entries,
		.nr_entries	= code->nr_entries,
		.max_steps	= max_steps,
		.read		= read_code,
		.arg		= (void *)code,
	};
	struct sframe_insn_stats stats;

	*rows = (struct test_rows) { };
	return sframe_insn__analyse(&in, add_row, rows, &stats);
}

static int test__sframe_insn_rules(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	const u64 enough = 10000;
	struct test_rows rows;
	int ret = TEST_OK;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(codes); i++) {
		if (analyse(&codes[i], enough, &rows) || strcmp(rows.text, codes[i].rows)) {
			pr_debug("%s:\n%sexpected:\n%s", codes[i].name, rows.text, codes[i].rows);
			ret = TEST_FAIL;
		}
	}

	return ret;
}

/* When time is out, there are no rules: code that was not analysed could lead anywhere. */
static int test__sframe_insn_budget(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	const u64 enough = 1000;
	struct test_rows rows;
	size_t i, found = 0;
	u64 steps;

	for (i = 0; i < ARRAY_SIZE(codes); i++) {
		for (steps = 0; steps < enough; steps++) {
			TEST_ASSERT_VAL("analysis", !analyse(&codes[i], steps, &rows));
			if (!rows.len)
				continue;
			found++;
			if (!strcmp(rows.text, codes[i].rows))
				break;
			pr_debug("%s, after %" PRIu64 " steps:\n%s", codes[i].name, steps,
				 rows.text);
			return TEST_FAIL;
		}
	}
	TEST_ASSERT_VAL("rules", found);

	return TEST_OK;
}

#else /* !HAVE_AUXTRACE_SUPPORT */

static int test__sframe_insn_rules(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_insn_budget(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	return TEST_SKIP;
}

#endif /* HAVE_AUXTRACE_SUPPORT */

static struct test_case tests__sframe_insn[] = {
	TEST_CASE_REASON("Rules", sframe_insn_rules, "not built with the decoder"),
	TEST_CASE_REASON("Limited time", sframe_insn_budget, "not built with the decoder"),
	{	.name = NULL, }
};

struct test_suite suite__sframe_insn = {
	.desc = "SFrame tables from instructions",
	.test_cases = tests__sframe_insn,
};
