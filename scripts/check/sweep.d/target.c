// SPDX-License-Identifier: GPL-2.0
/*
 * What scripts/check/sweep watches: enters the kernel in each way that there is, with
 * a value of its own in each register, on a stack whose words and frames are
 * known.  Freestanding, for 64 and for 32 bits.
 *
 * The host stops this program at sweep_wait, writes the number of a path to
 * sweep_cmd, and stops it again where that path enters the kernel.
 */
typedef unsigned long ulong;
typedef unsigned int u32;
typedef unsigned short u16;

#define STACK_WORDS	8192
/* What is above the stack pointer of a path: words of their own, two frames. */
#define ABOVE		64

enum mode {
	RESUME,		/* handlers go on behind the path */
	BY_IRET,	/* with other registers than SYSRET could give */
	BY_SYSRET,	/* with those that it can */
	BAD_SS,		/* with a stack segment that IRET refuses */
	ESPFIX,		/* with a 16-bit stack segment */
	NR_MODES,
};

volatile u32 sweep_cmd, sweep_stop, sweep_ready;
volatile u32 mode;
ulong saved_sp;
/* 32 bits: where __kernel_vsyscall() is, from the auxiliary vector. */
ulong *start_sp, sysinfo;
ulong stack[STACK_WORDS] __attribute__((aligned(4096)));
char page[8192] __attribute__((aligned(4096)));
/* Its last page goes: room for a signal's frame below, nothing to read above. */
char hole[4 * 4096 + 4096] __attribute__((aligned(4096)));
char zeroes[1 << 23] __attribute__((aligned(4096)));

extern char sweep_ret1[], sweep_ret2[], restorer[], after[];

#define STR_(x)	#x
#define STR(x)	STR_(x)

#define PATH(name, set, insn)						\
	asm(".pushsection .text\n"					\
	    ".globl path_" #name "\n .globl trig_" #name "\n"		\
	    "path_" #name ":\n" SAVE LOAD set				\
	    "trig_" #name ":\n" insn "\n"				\
	    "jmp after\n .popsection\n");				\
	void path_##name(void)

#ifdef __x86_64__
#define SP_OFFSET	65024		/* (STACK_WORDS - ABOVE) * 8 */
#define FLAGS		"push $0x8d5\n popfq\n"
#define SAVE								\
	"push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n" \
	"mov %rsp, saved_sp\n"
#define LOAD								\
	"mov $stack+" STR(SP_OFFSET) ", %rsp\n"				\
	FLAGS								\
	"mov $stack+" STR(SP_OFFSET) "+256, %rbp\n"			\
	"movabs $0xa1a1a1a100000001, %rax\n"				\
	"movabs $0xb1b1b1b100000002, %rbx\n"				\
	"movabs $0xc1c1c1c100000003, %rcx\n"				\
	"movabs $0xd1d1d1d100000004, %rdx\n"				\
	"movabs $0xe1e1e1e100000005, %rsi\n"				\
	"movabs $0xf1f1f1f100000006, %rdi\n"				\
	"movabs $0x0808080800000008, %r8\n"				\
	"movabs $0x0909090900000009, %r9\n"				\
	"movabs $0x1010101000000010, %r10\n"				\
	"movabs $0x1111111100000011, %r11\n"				\
	"movabs $0x1212121200000012, %r12\n"				\
	"movabs $0x1313131300000013, %r13\n"				\
	"movabs $0x1414141400000014, %r14\n"				\
	"movabs $0x1515151500000015, %r15\n"
asm(".pushsection .text\n .globl after\n .globl sweep_ret1\n .globl sweep_ret2\n"
    ".globl restorer\n .globl trig_sigreturn\n .globl sweep_wait\n"
    "after:\n"
    "mov $0x2b, %ecx\n mov %ecx, %ss\n cld\n"
    "mov saved_sp, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
    "ret\n"
    "sweep_ret1: nop\n sweep_ret2: nop\n"
    "restorer: mov $15, %eax\n"
    "trig_sigreturn: syscall\n ud2\n"
    "sweep_wait: nop\n ret\n"
    ".globl _start\n"
    "_start: xor %ebp, %ebp\n and $-16, %rsp\n call sweep_main\n ud2\n"
    ".popsection\n");

PATH(syscall, "mov $110, %eax\n", "syscall");
PATH(badcall, "mov $1000, %eax\n", "syscall");
PATH(int80, "mov $64, %eax\n", "int $0x80");
PATH(read, "xor %eax, %eax\n mov zero_fd, %edi\n mov $zeroes, %esi\n"
	   "mov $1 << 23, %edx\n", "syscall");
PATH(int1, "", ".byte 0xf1");
PATH(de, "xor %ecx, %ecx\n", "div %ecx");
/* Not the registers that an earlier interrupt has left. */
#define SPIN	"1: inc %rsi\n cmpl $0, sweep_stop\n je 1b"
#define TOUCH	"mov page, %dl"
#else
#define SP_OFFSET	32512		/* (STACK_WORDS - ABOVE) * 4 */
#define SAVE								\
	"push %ebx\n push %ebp\n push %esi\n push %edi\n mov %esp, saved_sp\n"
#define LOAD								\
	"mov $stack+" STR(SP_OFFSET) ", %esp\n"				\
	"push $0x8d5\n popfl\n"						\
	"mov $stack+" STR(SP_OFFSET) "+128, %ebp\n"			\
	"mov $0xa1000001, %eax\n"					\
	"mov $0xb1000002, %ebx\n"					\
	"mov $0xc1000003, %ecx\n"					\
	"mov $0xd1000004, %edx\n"					\
	"mov $0xe1000005, %esi\n"					\
	"mov $0xf1000006, %edi\n"
asm(".pushsection .text\n .globl after\n .globl sweep_ret1\n .globl sweep_ret2\n"
    ".globl restorer\n .globl trig_sigreturn\n .globl sweep_wait\n"
    "after:\n cld\n mov saved_sp, %esp\n"
    "pop %edi\n pop %esi\n pop %ebp\n pop %ebx\n ret\n"
    "sweep_ret1: nop\n sweep_ret2: nop\n"
    "restorer: mov $173, %eax\n"
    "trig_sigreturn: int $0x80\n ud2\n"
    "sweep_wait: nop\n ret\n"
    ".globl _start\n"
    "_start: mov %esp, start_sp\n"
    "xor %ebp, %ebp\n and $-16, %esp\n call sweep_main\n ud2\n"
    ".popsection\n");

/* As the vDSO does it: its landing pad pops three registers and returns. */
#define VDSO	"push $after\n push %ecx\n push %edx\n push %ebp\n"
PATH(int80, "mov $64, %eax\n", "int $0x80");
PATH(sysenter, "mov $64, %eax\n" VDSO "mov %esp, %ebp\n", "sysenter");
PATH(sysenter_badbp, "mov $64, %eax\n" VDSO "mov $hole+16384, %ebp\n", "sysenter");
PATH(syscall32, "mov $64, %eax\n" VDSO "mov %ecx, %ebp\n", "syscall");
PATH(vdso, "mov $64, %eax\n push $after\n", "jmp *sysinfo");
PATH(read, "mov $3, %eax\n mov zero_fd, %ebx\n mov $zeroes, %ecx\n"
	   "mov $1 << 23, %edx\n", "int $0x80");
PATH(de, "xor %ecx, %ecx\n", "div %ecx");
#define SPIN	"1: inc %esi\n cmpl $0, sweep_stop\n je 1b"
#define TOUCH	"mov page, %dl"
#endif

PATH(int3, "", "int3");
PATH(ud2, "", "ud2");
PATH(gp, "", "hlt");
PATH(pf, "", TOUCH);
PATH(spin, "", SPIN);

int zero_fd;

#ifdef __x86_64__
#define NR_open		2
#define NR_wait4	61
#define NR_sigaction	13
#define NR_madvise	28
#define NR_ldt		154
#define NR_exit		60
#define NR_nanosleep	35
#define NR_munmap	11

static long sys(long nr, ulong a, ulong b, ulong c, ulong d)
{
	register long r10 asm("r10") = d;
	long ret;

	asm volatile("syscall" : "=a" (ret)
		     : "a" (nr), "D" (a), "S" (b), "d" (c), "r" (r10)
		     : "rcx", "r11", "memory");
	return ret;
}

struct context {
	ulong uc_flags, link, stack[3];
	ulong r8, r9, r10, r11, r12, r13, r14, r15;
	ulong di, si, bp, bx, dx, ax, cx, sp, ip, flags;
	u16 cs, gs, fs, ss;
};

/* As clone(SIGCHLD) or vfork: the child runs behind the system call, too. */
asm(".pushsection .text\n .globl path_fork\n .globl trig_fork\n"
    "path_fork:\n" SAVE LOAD
    "mov $56, %eax\n mov $17, %edi\n xor %esi, %esi\n xor %edx, %edx\n"
    "xor %r10d, %r10d\n xor %r8d, %r8d\n"
    "trig_fork: syscall\n"
    "test %eax, %eax\n jnz after\n"
    "mov $60, %eax\n xor %edi, %edi\n syscall\n"
    ".popsection\n");
void path_fork(void);
#else
#define NR_open		5
#define NR_wait4	114
#define NR_sigaction	174
#define NR_madvise	219
#define NR_ldt		123
#define NR_exit		1
#define NR_nanosleep	162
#define NR_munmap	91

static long sys(long nr, ulong a, ulong b, ulong c, ulong d)
{
	long ret;

	asm volatile("int $0x80" : "=a" (ret)
		     : "a" (nr), "b" (a), "c" (b), "d" (c), "S" (d) : "memory");
	return ret;
}

struct context {
	ulong uc_flags, link, stack[3];
	ulong gs, fs, es, ds, di, si, bp, sp, bx, dx, cx, ax, trapno, err;
	ulong ip, cs, flags, sp_at_signal, ss;
};
#endif

/* SA_SIGINFO, SA_RESTORER, SA_NODEFER */
#define SA_FLAGS	(0x4 | 0x04000000 | 0x40000000)

struct action {
	void *handler;
	ulong flags;
	void *restorer;
	unsigned long long mask;
} __attribute__((packed));

struct ldt_entry {
	u32 number, base, limit, flags;
};

static void handler(int sig, void *info, struct context *c)
{
	enum mode m = mode;

	mode = RESUME;
	c->ip = (ulong)after;
	c->ss = 0x2b;
	if (m == RESUME)
		return;
	c->flags = 0x246;
	c->sp = (ulong)stack + SP_OFFSET + 16;
#ifdef __x86_64__
	c->bx = 0x2b2b2b2b00000002;
	c->bp = (ulong)stack + SP_OFFSET + 256;
	c->si = 0x2e2e2e2e00000005;
	c->di = 0x2f2f2f2f00000006;
	c->dx = 0x2d2d2d2d00000004;
	c->ax = 0x2a2a2a2a00000001;
	c->r8 = 0x2828282800000008;
	c->r9 = 0x2929292900000009;
	c->r10 = 0x2020202000000010;
	c->r12 = 0x2222222200000012;
	c->r13 = 0x2323232300000013;
	c->r14 = 0x2424242400000014;
	c->r15 = 0x2525252500000015;
	c->cx = 0x2c2c2c2c00000003;
	c->r11 = 0x2121212100000011;
	if (m == BY_SYSRET) {
		c->cx = c->ip;
		c->r11 = c->flags;
	} else if (m == BAD_SS) {
		/* Restore what is given, even if it is nonsense. */
		c->uc_flags |= 4;
		c->ss = 0x23;
		mode = RESUME;
	} else if (m == ESPFIX) {
		c->uc_flags |= 4;
		c->ss = 7;
	}
#else
	c->bx = 0x2b000002;
	c->bp = (ulong)stack + SP_OFFSET + 128;
	c->si = 0x2e000005;
	c->di = 0x2f000006;
	c->dx = 0x2d000004;
	c->ax = 0x2a000001;
	c->cx = 0x2c000003;
	if (m == BAD_SS)
		c->ss = 0x23;
	else if (m == ESPFIX)
		c->ss = 7;
#endif
}

static void on(int sig)
{
	struct action a = {
		.handler = handler,
		.flags = SA_FLAGS,
		.restorer = restorer,
	};

	sys(NR_sigaction, sig, (ulong)&a, 0, 8);
}

static void again(void)
{
	ulong i, base = SP_OFFSET / sizeof(ulong);
	ulong frame = base + 32;

	for (i = 0; i < STACK_WORDS; i++)
		stack[i] = 0x57000000 + i;
	stack[frame] = (ulong)&stack[frame + 8];
	stack[frame + 1] = (ulong)sweep_ret1;
	stack[frame + 8] = 0;
	stack[frame + 9] = (ulong)sweep_ret2;
	sweep_stop = 0;
	sys(NR_madvise, (ulong)page, 4096, 4, 0);
}

#define NR_PATHS	(sizeof(paths) / sizeof(paths[0]))

/* The numbers are known to scripts/check/sweep.d/host. */
static void (*const paths[])(void) = {
	0,
	path_int80,		/* 1 */
	path_int3,
	path_ud2,
	path_gp,
	path_pf,		/* 5 */
	path_spin,
	path_de,
	path_read,
	0,
#ifdef __x86_64__
	path_syscall,		/* 10 */
	path_badcall,
	path_int1,
	path_fork,
#else
	path_sysenter,		/* 10 */
	path_sysenter_badbp,
	0,
	path_syscall32,
	path_vdso,
#endif
};

void sweep_wait(void);

void __attribute__((used)) sweep_main(void)
{
	/* 16-bit data, limit 0xffff: read, write, present, not "not present". */
	struct ldt_entry e = { .limit = 0xffff, .flags = 0 };
	struct { ulong s, ns; } ms = { 0, 20000000 };

#ifdef __i386__
	/* The host reads the vDSO, which must be in memory for that. */
	ulong *p = start_sp + 1 + *start_sp + 1;

	while (*p++)
		;
	for (; *p; p += 2) {
		if (*p == 32 /* AT_SYSINFO */)
			sysinfo = p[1];
	}
	if (sysinfo)
		(void)*(volatile char *)sysinfo;
#endif
	on(4); on(5); on(8); on(11); on(7);
	sys(NR_ldt, 1, (ulong)&e, sizeof(e), 0);
	zero_fd = sys(NR_open, (ulong)"/dev/zero", 0, 0, 0);
	sys(NR_munmap, (ulong)hole + 4 * 4096, 4096, 0, 0);
	zeroes[0] = 0;
	sweep_ready = 1;
	for (;;) {
		u32 cmd;

		sweep_cmd = 0;
		again();
		/* Whoever reads the samples has less priority. */
		sys(NR_nanosleep, (ulong)&ms, 0, 0, 0);
		sweep_wait();
		cmd = sweep_cmd;
		if (cmd == 0xff)
			sys(NR_exit, 0, 0, 0, 0);
		mode = cmd >> 8;
		if ((cmd & 0xff) && (cmd & 0xff) < NR_PATHS && paths[cmd & 0xff]) {
			paths[cmd & 0xff]();
			mode = RESUME;
			while (sys(NR_wait4, -1, 0, 1 /* WNOHANG */, 0) > 0)
				;
		}
	}
}
