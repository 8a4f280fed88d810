/* SPDX-License-Identifier: GPL-2.0 */
/*
 * check_user_regs in layers, each of which calls only those above it
 *
 * check_user_regs_elf.c:	vmlinux: its sections, symbols, alternatives and hints
 * check_user_regs_state.c:	what registers and stacks hold, as symbols; error()
 * check_user_regs_hints.c:	is that what the hint of an instruction says?
 * check_user_regs_nodes.c:	the state before each instruction
 * check_user_regs_insn.c:	what an instruction does to the state
 * check_user_regs_run.c:	all code that one way in reaches
 * check_user_regs_ways.c:	all ways in, and that there are no others
 * check_user_regs.c:		main()
 */
#ifndef CHECK_USER_REGS_H
#define CHECK_USER_REGS_H

#include <stdbool.h>
#include <stddef.h>

#include "../include/asm/user_regs_hints.h"

struct insn;

/* check_user_regs_elf.c */

struct symbol {
	unsigned long long addr, size;
	const char *name;
};

struct alt {
	unsigned long long ip, repl;
	unsigned int len, repl_len, feature;
	bool not;
};

struct section {
	const char *name;
	unsigned long long addr, size;
	unsigned char *data;
	bool exec;
};

extern struct section *sections;
extern int nr_sections;
extern struct symbol *symbols;
extern int nr_symbols;
extern struct alt *alts;
extern int nr_alts;
extern struct section *repl;
extern unsigned long long entry_start, entry_end;
extern const char * const hint_names[];

void die(const char *fmt, ...);
void *alloc(size_t n, size_t size);
unsigned int get32(const void *p);

unsigned long long symbol_addr(const char *name, bool must);
const struct symbol *symbol_at(unsigned long long ip);
const char *place(unsigned long long ip);
bool in_entry(unsigned long long ip);
const struct alt *alt_of_repl(unsigned long long ip);
unsigned int where_of(unsigned long long ip);
bool checked(unsigned int where);
bool in_repl(unsigned long long ip);
unsigned char *bytes_at(unsigned long long ip, unsigned long long *left);
struct section *section(const char *name, bool must);

void read_elf(const char *file);
void read_tables(void);

/* check_user_regs_state.c */

/* struct pt_regs, in words */
enum slot {
	R15, R14, R13, R12, BP, BX, R11, R10, R9, R8, AX, CX, DX, SI, DI,
	ORIG_AX, IP, CS, FLAGS, SP, SS, NR_SLOTS
};

#define FRAME_BYTES	(NR_SLOTS * 8)

/* Registers as instructions encode them */
#define REG_AX	0
#define REG_CX	1
#define REG_DX	2
#define REG_BX	3
#define REG_SP	4
#define REG_BP	5
#define REG_SI	6
#define REG_DI	7

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
	KFIELD,		/* Register n of the kernel code that an exception interrupted */
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

extern const int reg_slot[16];
extern const struct root *root;
extern bool pti;
extern bool root_failed;
extern int nr_errors;

void error(unsigned long long ip, const char *fmt, ...);

struct value val(enum kind kind, long long n);
struct value ptr(enum base base, long long n);
bool same(struct value a, struct value b);
struct value low_half(struct value v);

bool join(struct state *to, const struct state *from);
struct value *word(struct state *s, enum base base, long long offset);
struct value load(struct state *s, enum base base, long long offset, int size);
void store(struct state *s, unsigned long long ip, enum base base,
	   long long offset, int size, struct value v);

/* check_user_regs_hints.c */

struct value expected(enum slot slot);
void check(struct state *s, unsigned long long ip);
void check_out(struct state *s, unsigned long long ip);

/* check_user_regs_nodes.c */

/*
 * The states before an instruction, for this root. Code that several ways in share has
 * one state for each stack, and for ways from user mode and from the kernel.
 */
#define NR_WAYS	(2 * (OTHER + 2))

struct node {
	unsigned long long ip;
	struct state *state[NR_WAYS];
	bool queued[NR_WAYS];
};

void init_nodes(void);
void reach(unsigned long long ip, const struct state *s);
void run_nodes(unsigned long long ip, const struct state *s,
	       void (*run_node)(struct node *node, struct state *state));

/* check_user_regs_insn.c */

extern unsigned char *proved;

void init_insn(void);
bool decode(struct insn *insn, unsigned long long ip);
void step(unsigned long long ip, struct state *s);

/* check_user_regs_run.c */

extern int nr_roots;

void run_worlds(struct root *r);

/* check_user_regs_ways.c */

void run_roots(void);
void check_ways_in(const struct section *sec);
void check_extable(const struct section *sec);
void check_all_run(bool verbose);

#endif /* CHECK_USER_REGS_H */
