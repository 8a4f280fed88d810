// SPDX-License-Identifier: GPL-2.0
/*
 * step-truth - check unwind rules against single-stepped programs
 *
 * The program runs a command under ptrace and puts breakpoints on function entries of the
 * code that the rules describe. At an entry the frame is known: the return address is at
 * *rsp, the CFA is rsp + 8, and rbp is the caller's. From there the program single-steps the
 * thread until the function returns. It keeps a shadow stack of the calls, and compares the
 * rule of each instruction with the top of the shadow stack. Code without rules runs at full
 * speed to a temporary breakpoint at its return address.
 *
 * Build: gcc -O2 -Wall -o step-truth step-truth.c
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;
typedef struct user_regs_struct regs_t;

#define MAX_LIBS	16
#define MAX_FRAMES	64
#define MAX_WAITS	256
#define MAX_WRONG	50
#define MAX_ODD		20	/* reports of returns that are no returns, and the like */
#define SATURATED	50	/* an address is not evaluated after so many exact checks */
#define MAX_TOTAL	2000000	/* steps of one activation, whatever it finds */
#define BP_HASH		(1 << 17)

enum kind { K_LEAF, K_RSP, K_RBP, K_REG, K_SLOT, K_NONE, NR_KINDS };
static const char * const kind_name[NR_KINDS] = { "leaf", "rsp", "rbp", "reg", "slot", "no-rule" };
enum rbp_rule { RBP_SAME, RBP_CFA, RBP_REG, RBP_MEM, RBP_UNKNOWN };

/* RBP_LOST: a local function changed rbp. Its callers are unwound right or not at all. */
enum state { EXACT, RBP_LOST, WRONG, NR_STATES };
static const char * const state_name[NR_STATES] = { "ok", "rbp-lost", "WRONG" };

struct row {
	u64 start, end;
	long cfa_off, cfa_add, rbp_off;
	int cfa_reg, rbp_reg;
	bool cfa_deref;
	enum rbp_rule rbp;
	enum kind kind;
	char text[80];
};

struct lib {
	const char *path, *name, *rows_file, *cfi_file, *entry_file;
	u8 *image;
	u64 lo, hi, off, bias;	/* the executable segment: addresses, file offset, load bias */
	bool mapped;
	struct row *rows;
	int nr_rows;
	/* one element for each byte of the segment */
	u32 *row_of;		/* index of the row + 1 */
	u32 *checks;
	u8 *wanted;		/* no CFI covers it or a row does */
	u8 *state;		/* enum state */
	u64 *entries;
	int nr_entries;
};

struct bp {
	u64 addr;
	u8 orig;
	bool armed, entry, used;
	int refs, hits;
};

struct frame {
	u64 cfa, ra, rbp;
};

/* A place where a thread that runs freely is stepped again: valid only with this rsp. */
struct wait {
	u64 addr, rsp;
	int depth;
	bool set, is_return;
};

struct act {
	struct act *below;
	u64 entry;
	int nr, nr_waits, id;
	long steps, stale;
	struct frame frame[MAX_FRAMES];
	struct wait wait[MAX_WAITS];
};

struct thread {
	struct thread *next;
	pid_t tid;
	bool stopped, asked, has_event;
	int event;
	struct act *act;	/* the newest activation */
};

struct wrong {
	struct lib *lib;
	u64 addr;
	struct row *row;
	u64 cfa, rbp, got_cfa, got_rbp, entry;
	int act, depth;
	bool confirmed;
};

static struct lib libs[MAX_LIBS];
static int nr_libs, nr_acts, nr_wrong[NR_STATES];
static long max_stale = 3000, max_hits = 5, time_limit;
static struct bp bps[BP_HASH];
static struct thread *threads;
static pid_t leader;
static bool sys_mode;
static struct wrong wrongs[NR_STATES][MAX_WRONG];
static struct {
	struct lib *lib;
	u64 addr, entry;
} odds[MAX_ODD];
static int nr_odd;
static struct {
	long steps, returned, no_call, odd_ret, odd_pop, skipped, dropped, lost, bps, hit, reg_calls;
} st;

static void die(const char *what)
{
	fprintf(stderr, "step-truth: %s: %s\n", what, strerror(errno));
	if (leader)
		kill(leader, SIGKILL);
	exit(2);
}

static void *zalloc(size_t size)
{
	void *p = calloc(1, size ?: 1);

	if (!p)
		die("calloc");
	return p;
}

/* Rows */

static const struct {
	const char *name;
	size_t off;
} reg_table[] = {
#define REG(n) { #n, offsetof(regs_t, n) }
	REG(rax), REG(rbx), REG(rcx), REG(rdx), REG(rsi), REG(rdi), REG(rbp), REG(rsp),
	REG(r8), REG(r9), REG(r10), REG(r11), REG(r12), REG(r13), REG(r14), REG(r15),
#undef REG
};

static u64 reg_value(const regs_t *regs, int reg)
{
	return *(const u64 *)((const char *)regs + reg_table[reg].off);
}

/* Parse NAME or NAME+N or NAME-N. Return the register and move @s behind it, or -1. */
static int parse_reg(const char **s, long *off)
{
	size_t len = strcspn(*s, "+-)");
	char *end;

	for (size_t i = 0; i < sizeof(reg_table) / sizeof(reg_table[0]); i++) {
		if (strlen(reg_table[i].name) != len || strncmp(reg_table[i].name, *s, len))
			continue;
		*s += len;
		*off = strtol(*s, &end, 0);
		*s = end;
		return i;
	}
	return -1;
}

static bool parse_row(struct row *row, const char *line)
{
	char cfa[64], rbp[64], kind[16];
	const char *s = cfa;
	long unused;
	int n;

	if (sscanf(line, "%lx %lx %63s %63s %15s", &row->start, &row->end, cfa, rbp, kind) != 5)
		return false;
	n = snprintf(row->text, sizeof(row->text), "%s", line);
	if (n > 0 && n < (int)sizeof(row->text) && row->text[n - 1] == '\n')
		row->text[n - 1] = 0;
	if (!strncmp(s, "*(", 2)) {
		row->cfa_deref = true;
		s += 2;
	}
	row->cfa_reg = parse_reg(&s, &row->cfa_off);
	if (row->cfa_deref && *s++ == ')')
		row->cfa_add = strtol(s, NULL, 0);
	for (row->kind = 0; row->kind < K_NONE; row->kind++)
		if (!strcmp(kind, kind_name[row->kind]))
			break;
	s = rbp;
	if (!strcmp(s, "same")) {
		row->rbp = RBP_SAME;
	} else if (!strncmp(s, "cfa", 3)) {
		row->rbp = RBP_CFA;
		row->rbp_off = strtol(s + 3, NULL, 0);
	} else if (!strncmp(s, "reg:", 4)) {
		s += 4;
		row->rbp = RBP_REG;
		row->rbp_reg = parse_reg(&s, &unused);
	} else if (!strncmp(s, "*(", 2)) {
		s += 2;
		row->rbp = RBP_MEM;
		row->rbp_reg = parse_reg(&s, &row->rbp_off);
	} else {
		row->rbp = RBP_UNKNOWN;
	}
	return row->cfa_reg >= 0 && row->rbp_reg >= 0 && row->kind < K_NONE;
}

static FILE *open_file(const char *name, const char *mode)
{
	FILE *f = fopen(name, mode);

	if (!f)
		die(name);
	return f;
}

static void load_rows(struct lib *lib)
{
	FILE *f = open_file(lib->rows_file, "r");
	int space = 0, bad = 0;
	char line[512];
	u64 end = 0;

	while (fgets(line, sizeof(line), f)) {
		struct row row = {};

		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (!parse_row(&row, line) || row.start < lib->lo || row.end > lib->hi ||
		    row.start >= row.end) {
			if (!bad++)
				fprintf(stderr, "step-truth: bad row: %s", line);
			continue;
		}
		if (lib->nr_rows == space) {
			space = space ? space * 2 : 4096;
			lib->rows = realloc(lib->rows, space * sizeof(row));
			if (!lib->rows)
				die("realloc");
		}
		lib->rows[lib->nr_rows++] = row;
		for (u64 a = row.start; a < row.end; a++) {
			lib->row_of[a - lib->lo] = lib->nr_rows;
			lib->wanted[a - lib->lo] = 1;
		}
	}
	fclose(f);
	if (bad)
		fprintf(stderr, "step-truth: %s: %d bad rows\n", lib->rows_file, bad);
	if (lib->entry_file)
		return;
	lib->entries = zalloc((lib->nr_rows + 1) * sizeof(u64));
	for (int i = 0; i < lib->nr_rows; i++) {
		struct row *row = &lib->rows[i];

		/*
		 * A leaf row that continues no other row may start a function. It may also be
		 * data in the text. A list of entries is safer.
		 */
		if (row->kind == K_LEAF && row->rbp == RBP_SAME && row->start != end)
			lib->entries[lib->nr_entries++] = row->start;
		end = row->end;
	}
}

static void load_entries(struct lib *lib)
{
	FILE *f = open_file(lib->entry_file, "r");
	char line[512];
	u64 addr;

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx", &addr) != 1 || addr < lib->lo || addr >= lib->hi ||
		    !lib->wanted[addr - lib->lo])
			continue;
		lib->entries = realloc(lib->entries, (lib->nr_entries + 1) * sizeof(u64));
		if (!lib->entries)
			die("realloc");
		lib->entries[lib->nr_entries++] = addr;
	}
	fclose(f);
}

/* Code of the executable sections is wanted unless the ranges with CFI contain it. */
static void load_cfi(struct lib *lib)
{
	Elf64_Ehdr *eh = (void *)lib->image;
	Elf64_Shdr *sh = (void *)(lib->image + eh->e_shoff);
	FILE *f = open_file(lib->cfi_file, "r");
	char line[512];
	u64 a, end;

	for (int i = 0; i < eh->e_shnum; i++)
		if (sh[i].sh_flags & SHF_EXECINSTR)
			for (a = sh[i].sh_addr; a < sh[i].sh_addr + sh[i].sh_size; a++)
				if (a >= lib->lo && a < lib->hi)
					lib->wanted[a - lib->lo] = 1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx %lx", &a, &end) == 2)
			for (; a < end; a++)
				if (a >= lib->lo && a < lib->hi)
					lib->wanted[a - lib->lo] = 0;
	fclose(f);
}

static void load_lib(struct lib *lib)
{
	int fd = open(lib->path, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr *eh;
	Elf64_Phdr *ph;
	struct stat sb;

	if (fd < 0 || fstat(fd, &sb))
		die(lib->path);
	lib->image = mmap(NULL, sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (lib->image == MAP_FAILED)
		die(lib->path);
	close(fd);
	eh = (void *)lib->image;
	ph = (void *)(lib->image + eh->e_phoff);
	for (int i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD && ph[i].p_flags & PF_X) {
			lib->lo = ph[i].p_vaddr;
			lib->hi = lib->lo + ph[i].p_filesz;
			lib->off = ph[i].p_offset;
			break;
		}
	}
	lib->row_of = zalloc((lib->hi - lib->lo) * sizeof(u32));
	lib->checks = zalloc((lib->hi - lib->lo) * sizeof(u32));
	lib->wanted = zalloc(lib->hi - lib->lo);
	lib->state = zalloc(lib->hi - lib->lo);
	if (lib->cfi_file)
		load_cfi(lib);
	load_rows(lib);
	if (lib->entry_file)
		load_entries(lib);
}

/* The library that contains the wanted code at @addr of the process. */
static struct lib *find_lib(u64 addr)
{
	for (int i = 0; i < nr_libs; i++) {
		struct lib *lib = &libs[i];
		u64 a = addr - lib->bias;

		if (lib->mapped && a >= lib->lo && a < lib->hi)
			return lib->wanted[a - lib->lo] ? lib : NULL;
	}
	return NULL;
}

static u8 *code_at(struct lib *lib, u64 addr)
{
	return lib->image + lib->off + (addr - lib->bias - lib->lo);
}

/* Instructions */

/* Length of the call instruction at @p, or 0. */
static int call_len(const u8 *p)
{
	int n = 0, mod, rm;

	while (p[n] == 0x3e || p[n] == 0x2e || p[n] == 0xf2 || p[n] == 0x66 || p[n] == 0x67)
		n++;
	if ((p[n] & 0xf0) == 0x40)
		n++;
	if (p[n] == 0xe8)
		return n + 5;
	if (p[n++] != 0xff || ((p[n] >> 3) & 7) != 2)
		return 0;
	mod = p[n] >> 6;
	rm = p[n++] & 7;
	if (mod == 3)
		return n;
	if (rm == 4) {
		if (mod == 0 && (p[n] & 7) == 5)
			n += 4;
		n++;
	} else if (mod == 0 && rm == 5) {
		n += 4;
	}
	return n + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

static bool is_ret(const u8 *p)
{
	return p[0] == 0xc3 || p[0] == 0xc2 || ((p[0] == 0xf3 || p[0] == 0xf2) && p[1] == 0xc3);
}

/* Length of the conditional jump at @p, or 0. @dist is set to its distance. */
static int jcc_len(const u8 *p, long *dist)
{
	int n = p[0] == 0x2e || p[0] == 0x3e || p[0] == 0xf2;
	int32_t d;

	if ((p[n] & 0xf0) == 0x70 || (p[n] >= 0xe0 && p[n] <= 0xe3)) {
		*dist = (int8_t)p[n + 1];
		return n + 2;
	}
	if (p[n] == 0x0f && (p[n + 1] & 0xf0) == 0x80) {
		memcpy(&d, p + n + 2, 4);
		*dist = d;
		return n + 6;
	}
	return 0;
}

/* The traced process */

static bool peek(pid_t tid, u64 addr, u64 *val)
{
	errno = 0;
	*val = ptrace(PTRACE_PEEKDATA, tid, addr, 0);
	return !errno;
}

static bool poke_byte(pid_t tid, u64 addr, u8 byte, u8 *old)
{
	u64 word;

	if (!peek(tid, addr, &word))
		return false;
	if (old)
		*old = word;
	word = (word & ~0xffUL) | byte;
	return !ptrace(PTRACE_POKEDATA, tid, addr, word);
}

static bool after_call(pid_t tid, u64 ra)
{
	u64 word[2];
	u8 *p = (u8 *)word;

	if (!peek(tid, ra - 16, &word[0]) || !peek(tid, ra - 8, &word[1]))
		return false;
	for (int n = 2; n <= 9; n++)
		if (call_len(p + 16 - n) == n)
			return true;
	return false;
}

/* Breakpoints */

static struct bp *find_bp(u64 addr, bool create)
{
	u32 h = (addr * 0x9e3779b97f4a7c15UL) >> 47;

	for (; bps[h].used; h = (h + 1) % BP_HASH)
		if (bps[h].addr == addr)
			return &bps[h];
	if (!create)
		return NULL;
	if (++st.bps > BP_HASH / 2)
		die("too many breakpoints");
	bps[h] = (struct bp){ .addr = addr, .used = true };
	return &bps[h];
}

/* A breakpoint that nobody needs is kept unarmed: a thread may have hit it already. */
static void update_bp(pid_t tid, struct bp *bp)
{
	bool arm = bp->entry || bp->refs;

	if (arm != bp->armed && poke_byte(tid, bp->addr, arm ? 0xcc : bp->orig,
					  arm ? &bp->orig : NULL))
		bp->armed = arm;
}

static void count_hit(pid_t tid, struct bp *bp)
{
	if (!bp->entry)
		return;
	if (!bp->hits++)
		st.hit++;
	if (bp->hits >= max_hits) {
		bp->entry = false;
		update_bp(tid, bp);
	}
}

/* Keep only the untaken branches of the frames that remain. */
static void forget_branches(struct act *act)
{
	int nr = 0;

	for (int i = 0; i < act->nr_waits; i++)
		if (!act->wait[i].is_return && act->wait[i].depth <= act->nr)
			act->wait[nr++] = act->wait[i];
	act->nr_waits = nr;
}

static void drop_waits(pid_t tid, struct act *act)
{
	for (int i = 0; i < act->nr_waits; i++) {
		if (!act->wait[i].set)
			continue;
		struct bp *bp = find_bp(act->wait[i].addr, true);

		bp->refs--;
		update_bp(tid, bp);
		act->wait[i].set = false;
	}
	forget_branches(act);
}

/* Remember a place to stop at. It gets a breakpoint only when set_wait() is called. */
static struct wait *add_wait(struct act *act, u64 addr, u64 rsp, int depth, bool is_return)
{
	for (int i = 0; i < act->nr_waits; i++)
		if (act->wait[i].addr == addr && act->wait[i].rsp == rsp &&
		    act->wait[i].is_return == is_return)
			return &act->wait[i];
	/* The returns must find a free place. */
	if (act->nr_waits >= MAX_WAITS - (is_return ? 0 : MAX_FRAMES))
		return NULL;
	act->wait[act->nr_waits] = (struct wait){ .addr = addr, .rsp = rsp, .depth = depth,
						      .is_return = is_return };
	return &act->wait[act->nr_waits++];
}

static void set_wait(pid_t tid, struct wait *w)
{
	struct bp *bp;

	if (w->set)
		return;
	bp = find_bp(w->addr, true);
	bp->refs++;
	update_bp(tid, bp);
	w->set = true;
}

static void wait_for_return(pid_t tid, struct act *act, int depth)
{
	struct frame *f = &act->frame[depth - 1];

	set_wait(tid, add_wait(act, f->ra, f->cfa, depth, true));
}

static void end_act(struct thread *t, bool returned)
{
	struct act *act = t->act;

	for (int s = 0; returned && s < NR_STATES; s++)
		for (int i = 0; i < nr_wrong[s] && i < MAX_WRONG; i++)
			if (wrongs[s][i].act == act->id)
				wrongs[s][i].confirmed = true;
	drop_waits(t->tid, act);
	t->act = act->below;
	free(act);
}

/* Threads */

static struct thread *find_thread(pid_t tid, bool create)
{
	struct thread *t;

	for (t = threads; t; t = t->next)
		if (t->tid == tid)
			return t;
	if (!create)
		return NULL;
	t = zalloc(sizeof(*t));
	t->tid = tid;
	t->next = threads;
	threads = t;
	return t;
}

static void free_thread(struct thread *t)
{
	struct thread **p = &threads;

	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	while (t->act) {
		st.lost++;
		/* The thread is gone: another one must write the memory. */
		t->tid = threads ? threads->tid : t->tid;
		end_act(t, false);
	}
	free(t);
}

static void resume(struct thread *t, int sig)
{
	t->stopped = false;
	ptrace(sys_mode ? PTRACE_SYSCALL : PTRACE_CONT, t->tid, 0, sig);
}

/* A new process is not followed. Take the breakpoints out of its copy of the memory. */
static void let_go(pid_t pid)
{
	if (syscall(SYS_kcmp, leader, pid, KCMP_VM, 0, 0))
		for (int i = 0; i < BP_HASH; i++)
			if (bps[i].used && bps[i].armed)
				poke_byte(pid, bps[i].addr, bps[i].orig, NULL);
	ptrace(PTRACE_DETACH, pid, 0, 0);
}

static bool same_process(pid_t tid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d", leader, tid);
	return !access(name, F_OK);
}

/*
 * Get the next event of any thread. All threads are waited for, even if only one matters: the
 * death of the leader is not reported before the deaths of the others.
 */
static struct thread *next_event(void)
{
	struct thread *t;
	int status;
	pid_t pid;

	while (1) {
		pid = waitpid(-1, &status, __WALL);
		if (pid < 0) {
			if (errno == EINTR)
				continue;
			return NULL;
		}
		t = find_thread(pid, false);
		if (!t && WIFSTOPPED(status)) {
			if (same_process(pid))
				t = find_thread(pid, true);
			else
				let_go(pid);
		}
		if (!t)
			continue;
		t->stopped = true;
		t->has_event = true;
		t->event = status;
		return t;
	}
}

/* Wait for the next event of @t and return its status. */
static int wait_for(struct thread *t)
{
	while (!t->has_event)
		if (!next_event())
			return 0;
	t->has_event = false;
	return t->event;
}

static int step(struct thread *t, int sig)
{
	ptrace(PTRACE_SINGLESTEP, t->tid, 0, sig);
	return wait_for(t);
}

/* Step @t over the breakpoint at its rip. The other threads must not run meanwhile. */
static int step_over(struct thread *t, struct bp *bp, int sig)
{
	struct thread *o;
	int status;

	for (o = threads; o; o = o->next)
		o->asked = o != t && !o->stopped && !ptrace(PTRACE_INTERRUPT, o->tid, 0, 0);
	for (o = threads; o; o = o->next)
		while (o->asked && !o->stopped && next_event())
			;
	poke_byte(t->tid, bp->addr, bp->orig, NULL);
	status = step(t, sig);
	if (WIFSTOPPED(status) && bp->armed)
		poke_byte(t->tid, bp->addr, 0xcc, NULL);
	return status;
}

/* Find CFA and the caller's rbp by the rule @row. */
static bool apply_row(pid_t tid, const struct row *row, const regs_t *regs, u64 *cfa, u64 *rbp)
{
	bool ok = true;

	*cfa = reg_value(regs, row->cfa_reg) + row->cfa_off;
	if (row->cfa_deref) {
		ok = peek(tid, *cfa, cfa);
		*cfa += row->cfa_add;
	}
	*rbp = regs->rbp;
	if (row->rbp == RBP_CFA)
		ok &= peek(tid, *cfa + row->rbp_off, rbp);
	else if (row->rbp == RBP_REG)
		*rbp = reg_value(regs, row->rbp_reg);
	else if (row->rbp == RBP_MEM)
		ok &= peek(tid, reg_value(regs, row->rbp_reg) + row->rbp_off, rbp);
	return ok;
}

/*
 * The rule of the newest frame gave @rbp, which is wrong. Local functions may change rbp when
 * their callers do not need it. Unwind the callers with that @rbp. Return false if a wrong frame
 * comes out, or if the wrong rbp gets to the caller of the activation. It is right that the
 * unwinding stops at a caller without a rule, or whose rule needs more than rsp and rbp.
 */
static bool callers_right(struct thread *t, u64 rbp)
{
	struct frame *frame = t->act->frame;
	u64 cfa;

	for (int i = t->act->nr - 1; i > 0; i--) {
		regs_t regs = { .rsp = frame[i].cfa, .rbp = rbp };
		u64 ip = frame[i].ra - 1;
		struct lib *lib = find_lib(ip);
		struct row *row;

		if (!lib || !lib->row_of[ip - lib->bias - lib->lo])
			return true;
		row = &lib->rows[lib->row_of[ip - lib->bias - lib->lo] - 1];
		if (row->kind == K_REG || row->rbp == RBP_REG)
			return true;
		if (!apply_row(t->tid, row, &regs, &cfa, &rbp) || cfa != frame[i - 1].cfa)
			return false;
		if (rbp == frame[i - 1].rbp)
			return true;
	}
	return false;
}

/* Compare the rule at @regs->rip with the true frame @f. */
static void check(struct thread *t, struct lib *lib, const regs_t *regs, struct frame *f)
{
	u64 addr = regs->rip - lib->bias, i = addr - lib->lo, cfa, rbp;
	enum state state = WRONG;
	struct row *row;
	bool ok;

	if (!lib->checks[i])
		t->act->stale = 0;
	lib->checks[i]++;
	if (!lib->row_of[i] || (lib->checks[i] > SATURATED && lib->state[i] == EXACT))
		return;
	row = &lib->rows[lib->row_of[i] - 1];
	ok = apply_row(t->tid, row, regs, &cfa, &rbp) && cfa == f->cfa;
	if (ok && (row->rbp == RBP_UNKNOWN || rbp == f->rbp))
		return;
	if (ok && callers_right(t, rbp))
		state = RBP_LOST;
	if (lib->state[i] >= state)
		return;
	lib->state[i] = state;
	if (nr_wrong[state]++ < MAX_WRONG)
		wrongs[state][nr_wrong[state] - 1] = (struct wrong){
			.lib = lib, .addr = addr, .row = row, .cfa = f->cfa, .rbp = f->rbp,
			.got_cfa = cfa, .got_rbp = rbp, .entry = t->act->entry - lib->bias,
			.act = t->act->id, .depth = t->act->nr,
		};
}

static void note_odd(struct lib *lib, struct act *act, u64 addr)
{
	for (int i = 0; i < nr_odd && i < MAX_ODD; i++)
		if (odds[i].addr == addr - lib->bias && odds[i].lib == lib)
			return;
	if (nr_odd++ >= MAX_ODD)
		return;
	odds[nr_odd - 1].lib = lib;
	odds[nr_odd - 1].addr = addr - lib->bias;
	odds[nr_odd - 1].entry = act->entry - lib->bias;
}

static bool seen(u64 addr)
{
	struct lib *lib = find_lib(addr);

	return !lib || lib->checks[addr - lib->bias - lib->lo];
}

/*
 * The last steps found nothing new. Run on until a side of a branch is taken that was never
 * taken before, or until the activation returns.
 */
static void skip_ahead(struct thread *t)
{
	struct act *act = t->act;
	int nr = 0;

	st.skipped++;
	act->stale = max_stale + 1;
	for (int i = 0; i < act->nr_waits; i++) {
		if (!seen(act->wait[i].addr) && act->steps < MAX_TOTAL) {
			set_wait(t->tid, &act->wait[i]);
			nr++;
		}
	}
	for (int i = act->nr; nr && i; i--)
		wait_for_return(t->tid, act, i);
	if (!nr)
		end_act(t, false);
	resume(t, 0);
}

static void note_branch(struct act *act, struct lib *lib, const regs_t *regs)
{
	long dist;
	int len = jcc_len(code_at(lib, regs->rip), &dist);

	if (!len)
		return;
	if (!seen(regs->rip + len))
		add_wait(act, regs->rip + len, regs->rsp, act->nr, false);
	if (!seen(regs->rip + len + dist))
		add_wait(act, regs->rip + len + dist, regs->rsp, act->nr, false);
}

/* Follow the instruction at @old on the shadow stack. Return false if the stack is full. */
static bool update_shadow(struct thread *t, struct lib *lib, const regs_t *old, const regs_t *new)
{
	struct act *act = t->act;
	const u8 *insn = code_at(lib, old->rip);
	struct frame *top = &act->frame[act->nr - 1];
	int len = call_len(insn), i;
	u64 ra;

	if (len && new->rsp == old->rsp - 8 && peek(t->tid, new->rsp, &ra) &&
	    ra == old->rip + len) {
		/* A call of the next instruction only gets the rip. */
		if (new->rip == ra)
			return true;
		if (act->nr == MAX_FRAMES)
			return false;
		i = lib->row_of[old->rip - lib->bias - lib->lo];
		if (i && lib->rows[i - 1].kind == K_REG)
			st.reg_calls++;
		act->frame[act->nr++] = (struct frame){ new->rsp + 8, ra, new->rbp };
		return true;
	}
	if (is_ret(insn) || (new->rip == top->ra && new->rsp == top->cfa)) {
		for (i = act->nr; i; i--)
			if (new->rsp == act->frame[i - 1].cfa && new->rip == act->frame[i - 1].ra)
				break;
		/* A return may serve as a jump, and a frame may have been given up. */
		if (!is_ret(insn) || i != act->nr) {
			st.odd_ret++;
			note_odd(lib, act, old->rip);
		}
		if (i) {
			act->nr = i - 1;
			forget_branches(act);
		}
	} else if (old->rsp < top->cfa && new->rsp >= top->cfa) {
		/* The code leaves its return address below rsp: the frame is still the same. */
		st.odd_pop++;
		note_odd(lib, act, old->rip);
	}
	return true;
}

/* Step the newest activation of @t until it returns, leaves the wanted code or gets boring. */
static void step_act(struct thread *t, regs_t *regs)
{
	struct act *act = t->act;
	int status, sig = 0;
	struct lib *lib;
	struct bp *bp;
	regs_t new;

	while (1) {
		lib = find_lib(regs->rip);
		if (!lib) {
			wait_for_return(t->tid, act, act->nr);
			resume(t, sig);
			return;
		}
		check(t, lib, regs, &act->frame[act->nr - 1]);
		note_branch(act, lib, regs);
		if (!sig && (act->stale++ > max_stale || act->steps > MAX_TOTAL)) {
			skip_ahead(t);
			return;
		}
		bp = find_bp(regs->rip, false);
		if (bp && bp->armed) {
			count_hit(t->tid, bp);
			status = step_over(t, bp, sig);
		} else {
			status = step(t, sig);
		}
		sig = 0;
		if (!WIFSTOPPED(status)) {
			t->event = status;
			t->has_event = true;
			return;
		}
		if (status >> 16)		/* another thread was stepped over something */
			continue;
		if (WSTOPSIG(status) != SIGTRAP) {
			sig = WSTOPSIG(status);
			continue;
		}
		st.steps++;
		act->steps++;
		if (ptrace(PTRACE_GETREGS, t->tid, 0, &new))
			return;
		if (!update_shadow(t, lib, regs, &new)) {
			st.dropped++;
			end_act(t, false);
			resume(t, 0);
			return;
		}
		*regs = new;
		if (!act->nr) {
			st.returned++;
			end_act(t, true);
			resume(t, 0);
			return;
		}
	}
}

/* @t stopped at the breakpoint @bp. */
static void handle_bp(struct thread *t, struct bp *bp, regs_t *regs)
{
	struct act *act;
	struct wait *w;
	struct lib *lib;
	u64 ra, word;
	int i;

	regs->rip = bp->addr;
	ptrace(PTRACE_SETREGS, t->tid, 0, regs);
again:
	w = NULL;
	for (act = t->act; act && !w; act = act->below)
		for (i = 0; i < act->nr_waits && !w; i++)
			if (act->wait[i].set && act->wait[i].addr == bp->addr &&
			    act->wait[i].rsp == regs->rsp)
				w = &act->wait[i];
	if (w) {
		struct wait hit = *w;

		for (act = t->act; w < act->wait || w >= act->wait + MAX_WAITS; act = t->act) {
			st.lost++;
			end_act(t, false);
		}
		act->nr = hit.is_return ? hit.depth - 1 : hit.depth;
		drop_waits(t->tid, act);
		/* Most returns from skipped code bring nothing new. */
		act->stale = hit.is_return && act->stale > max_stale ? max_stale * 9 / 10 : 0;
		if (!act->nr) {
			st.returned++;
			end_act(t, true);
			goto again;	/* the activation below may wait for the same return */
		} else if (hit.is_return || (peek(t->tid, act->frame[act->nr - 1].cfa - 8, &word) &&
					     word == act->frame[act->nr - 1].ra)) {
			step_act(t, regs);
			return;
		} else {
			st.lost++;
			end_act(t, false);
		}
	}
	lib = find_lib(bp->addr);
	if (bp->entry && lib) {
		count_hit(t->tid, bp);
		if (peek(t->tid, regs->rsp, &ra) && after_call(t->tid, ra)) {
			act = zalloc(sizeof(*act));
			act->id = ++nr_acts;
			act->entry = bp->addr;
			act->frame[0] = (struct frame){ regs->rsp + 8, ra, regs->rbp };
			act->nr = 1;
			act->below = t->act;
			t->act = act;
			step_act(t, regs);
			return;
		}
		st.no_call++;
	}
	if (bp->armed) {
		t->event = step_over(t, bp, 0);
		t->has_event = true;
	} else {
		resume(t, 0);
	}
}

/* Find libraries that the dynamic linker mapped, and set their entry breakpoints. */
static void scan_maps(pid_t tid)
{
	char name[64], line[PATH_MAX + 128], path[PATH_MAX];
	bool all = true;
	u64 start, off;
	FILE *f;
	int i;

	snprintf(name, sizeof(name), "/proc/%d/maps", leader);
	f = open_file(name, "r");
	while (fgets(line, sizeof(line), f)) {
		struct stat a, b;
		char perm[8];

		if (sscanf(line, "%lx-%*x %7s %lx %*s %*s %4095s", &start, perm, &off, path) != 4 ||
		    perm[2] != 'x' || !strrchr(path, '/'))
			continue;
		for (i = 0; i < nr_libs; i++) {
			struct lib *lib = &libs[i];

			if (lib->mapped || stat(lib->path, &a) || stat(path, &b) ||
			    a.st_ino != b.st_ino || a.st_dev != b.st_dev ||
			    off != (lib->off & ~0xfffUL))
				continue;
			lib->bias = start - (lib->lo & ~0xfffUL);
			lib->mapped = true;
			for (int e = 0; e < lib->nr_entries; e++) {
				struct bp *bp = find_bp(lib->entries[e] + lib->bias, true);

				bp->entry = true;
				update_bp(tid, bp);
			}
		}
	}
	fclose(f);
	for (i = 0; i < nr_libs; i++)
		all &= libs[i].mapped;
	if (all)
		sys_mode = false;
}

/* The old breakpoints went away with the old memory. */
static void handle_exec(struct thread *t)
{
	for (struct thread *o = threads; o; o = o->next)
		for (struct act *act = o->act; act; act = act->below)
			act->nr_waits = 0;
	while (threads && (threads != t || threads->next)) {
		struct thread *o = threads == t ? threads->next : threads;

		free_thread(o);
	}
	while (t->act)
		end_act(t, false);
	memset(bps, 0, sizeof(bps));
	for (int i = 0; i < nr_libs; i++)
		libs[i].mapped = false;
	sys_mode = true;
}

static void handle_event(struct thread *t, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;
	struct bp *bp = NULL;
	regs_t regs;

	t->stopped = true;
	if (!WIFSTOPPED(status)) {
		if (t->tid == leader && WIFSIGNALED(status))
			fprintf(stderr, "step-truth: the command died of signal %d\n",
				WTERMSIG(status));
		else if (t->tid == leader && WEXITSTATUS(status))
			fprintf(stderr, "step-truth: the command exited with %d\n",
				WEXITSTATUS(status));
		free_thread(t);
		return;
	}
	if (event) {
		if (event == PTRACE_EVENT_EXEC)
			handle_exec(t);
		resume(t, 0);
		return;
	}
	if (sig != SIGTRAP && sig != (SIGTRAP | 0x80)) {
		resume(t, sig);
		return;
	}
	if (ptrace(PTRACE_GETREGS, t->tid, 0, &regs)) {
		resume(t, 0);
		return;
	}
	if (sig == SIGTRAP) {
		siginfo_t info;

		if (!ptrace(PTRACE_GETSIGINFO, t->tid, 0, &info) && info.si_code == SI_KERNEL)
			bp = find_bp(regs.rip - 1, false);
		if (bp) {
			handle_bp(t, bp, &regs);
			return;
		}
	} else if (regs.orig_rax == SYS_close && (long)regs.rax != -ENOSYS) {
		/* The dynamic linker has mapped a library when it closes the file. */
		scan_maps(t->tid);
	}
	resume(t, 0);
}

static void run(char **argv)
{
	long opts = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
		    PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
	int pipefd[2];
	struct thread *t;
	char c = 0;

	if (pipe(pipefd))
		die("pipe");
	leader = fork();
	if (!leader) {
		close(pipefd[1]);
		if (read(pipefd[0], &c, 1) != 1)
			_exit(127);
		close(pipefd[0]);
		execvp(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	if (leader < 0 || ptrace(PTRACE_SEIZE, leader, 0, opts))
		die("PTRACE_SEIZE");
	if (write(pipefd[1], &c, 1) != 1)
		die("pipe");
	close(pipefd[0]);
	close(pipefd[1]);
	find_thread(leader, true);
	while (threads) {
		for (t = threads; t && !t->has_event; t = t->next)
			;
		if (t) {
			t->has_event = false;
			handle_event(t, t->event);
			continue;
		}
		if (!next_event())
			break;
	}
	leader = 0;
}

/* Results */

struct result {
	char lib[64];
	u64 addr, checks;
	enum kind kind;
	enum state state;
};

static struct result *results;
static size_t nr_results, space_results;

static void add_result(const struct result *r)
{
	if (nr_results == space_results) {
		space_results = space_results ? space_results * 2 : 65536;
		results = realloc(results, space_results * sizeof(*r));
		if (!results)
			die("realloc");
	}
	results[nr_results++] = *r;
}

static int cmp_result(const void *a, const void *b)
{
	const struct result *x = a, *y = b;
	int ret = strcmp(x->lib, y->lib);

	return ret ?: x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Print the union of the results. Return whether there are wrong ones. */
static bool print_table(void)
{
	u64 sum[NR_KINDS + NR_STATES] = {}, all, checks = 0;
	bool bad = false;
	size_t n = 0;

	qsort(results, nr_results, sizeof(*results), cmp_result);
	for (size_t i = 0; i < nr_results; i++) {
		if (n && !cmp_result(&results[n - 1], &results[i])) {
			results[n - 1].checks += results[i].checks;
			if (results[i].state > results[n - 1].state)
				results[n - 1].state = results[i].state;
			continue;
		}
		results[n++] = results[i];
	}
	printf("%-24s %9s %12s", "library", "addresses", "checks");
	for (int k = 0; k < NR_KINDS; k++)
		printf(" %8s", kind_name[k]);
	printf(" %8s %8s\n", state_name[RBP_LOST], state_name[WRONG]);
	for (size_t i = 0; i < n; i++) {
		enum state state = results[i].state;

		/* The kinds count the exact addresses. */
		sum[state == EXACT ? (int)results[i].kind : NR_KINDS + (int)state - 1]++;
		checks += results[i].checks;
		bad |= state == WRONG;
		if (i + 1 < n && !strcmp(results[i].lib, results[i + 1].lib))
			continue;
		all = 0;
		for (int k = 0; k < NR_KINDS + NR_STATES - 1; k++)
			all += sum[k];
		printf("%-24s %9lu %12lu", results[i].lib, all, checks);
		for (int k = 0; k < NR_KINDS + NR_STATES - 1; k++)
			printf(" %8lu", sum[k]);
		printf("\n");
		memset(sum, 0, sizeof(sum));
		checks = 0;
	}
	return bad;
}

static int sum_files(char **files)
{
	for (; *files; files++) {
		FILE *f = open_file(*files, "r");
		char line[256], kind[16], word[16];

		while (fgets(line, sizeof(line), f)) {
			struct result r = {};

			if (sscanf(line, "%63s %lx %15s %15s %lu", r.lib, &r.addr, kind, word,
				   &r.checks) != 5)
				continue;
			for (r.state = WRONG; r.state > EXACT; r.state--)
				if (!strcmp(word, state_name[r.state]))
					break;
			for (r.kind = 0; r.kind < K_NONE; r.kind++)
				if (!strcmp(kind, kind_name[r.kind]))
					break;
			add_result(&r);
		}
		fclose(f);
	}
	return print_table();
}

static void collect(const char *out)
{
	FILE *f = out ? open_file(out, "a") : NULL;

	for (int i = 0; i < nr_libs; i++) {
		struct lib *lib = &libs[i];

		for (u64 a = 0; a < lib->hi - lib->lo; a++) {
			struct result r = {
				.addr = lib->lo + a, .checks = lib->checks[a],
				.state = lib->state[a], .kind = K_NONE,
			};

			if (!r.checks)
				continue;
			snprintf(r.lib, sizeof(r.lib), "%s", lib->name);
			if (lib->row_of[a])
				r.kind = lib->rows[lib->row_of[a] - 1].kind;
			add_result(&r);
			if (f)
				fprintf(f, "%s %lx %s %s %lu\n", r.lib, r.addr, kind_name[r.kind],
					state_name[r.state], r.checks);
		}
	}
	if (f)
		fclose(f);
}

static void on_alarm(int sig)
{
	if (leader > 0)
		kill(leader, SIGKILL);
}

/* Split LIB=FILE. Find or make the library. */
static struct lib *lib_option(char *arg, const char **file)
{
	char *eq = strchr(arg, '=');
	int i;

	if (!eq) {
		fprintf(stderr, "step-truth: expected LIB=FILE, not %s\n", arg);
		exit(2);
	}
	*eq = 0;
	*file = eq + 1;
	for (i = 0; i < nr_libs; i++)
		if (!strcmp(libs[i].path, arg))
			return &libs[i];
	if (nr_libs == MAX_LIBS) {
		fprintf(stderr, "step-truth: too many libraries\n");
		exit(2);
	}
	libs[i].path = arg;
	libs[i].name = strrchr(arg, '/') ? strrchr(arg, '/') + 1 : arg;
	nr_libs++;
	return &libs[i];
}

static void usage(void)
{
	fprintf(stderr,
		"usage: step-truth -r LIB=ROWS [-r ...] [options] -- COMMAND [ARGS]\n"
		"       step-truth --sum FILE...\n"
		" -r LIB=ROWS    rules to check, one row a line: START END CFA RBP KIND\n"
		" -c LIB=RANGES  code that has CFI: START END a line. Other code is stepped\n"
		"                also where it has no row.\n"
		" -E LIB=ADDRS   more function entries, one address a line\n"
		" -e N           activations to step for each entry (%ld)\n"
		" -n N           skip ahead after N steps with no new address (%ld)\n"
		" -t SECONDS     kill the command after that time\n"
		" -o FILE        append the addresses to FILE, for --sum\n", max_hits, max_stale);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option longopts[] = { { "sum", no_argument, NULL, 's' }, {} };
	const char *file, *out = NULL;
	bool sum = false, bad;
	int c;

	while ((c = getopt_long(argc, argv, "+r:c:E:e:n:t:o:", longopts, NULL)) != -1) {
		switch (c) {
		case 'r':
			lib_option(optarg, &file)->rows_file = file;
			break;
		case 'c':
			lib_option(optarg, &file)->cfi_file = file;
			break;
		case 'E':
			lib_option(optarg, &file)->entry_file = file;
			break;
		case 'e':
			max_hits = atol(optarg);
			break;
		case 'n':
			max_stale = atol(optarg);
			break;
		case 't':
			time_limit = atol(optarg);
			break;
		case 'o':
			out = optarg;
			break;
		case 's':
			sum = true;
			break;
		default:
			usage();
		}
	}
	if (optind == argc)
		usage();
	if (sum)
		return sum_files(argv + optind);
	if (!nr_libs)
		usage();
	for (int i = 0; i < nr_libs; i++) {
		if (!libs[i].rows_file)
			usage();
		load_lib(&libs[i]);
	}
	signal(SIGALRM, on_alarm);
	alarm(time_limit);
	run(argv + optind);
	for (int i = 0; i < nr_odd && i < MAX_ODD; i++)
		printf("odd %s %lx (entry %lx)\n", odds[i].lib->name, odds[i].addr, odds[i].entry);
	for (int i = 0; i < NR_STATES * MAX_WRONG; i++) {
		struct wrong *w = &wrongs[i / MAX_WRONG][i % MAX_WRONG];

		if (!w->lib)
			continue;
		printf("%s %s %lx (entry %lx, depth %d): row %s: cfa %lx got %+ld, rbp %lx got "
		       "%lx%s\n", state_name[i / MAX_WRONG], w->lib->name, w->addr, w->entry,
		       w->depth, w->row->text, w->cfa, (long)(w->got_cfa - w->cfa), w->rbp,
		       w->got_rbp, w->confirmed ? "" : " (the return was not seen)");
	}
	collect(out);
	bad = print_table();
	printf("steps %ld, activations %d: returned %ld, dropped %ld, lost %ld; skips %ld, "
	       "entries %ld, not a call %ld, odd returns %ld, odd pops %ld, calls under a reg "
	       "rule %ld\n", st.steps, nr_acts,
	       st.returned, st.dropped, st.lost, st.skipped, st.hit, st.no_call, st.odd_ret,
	       st.odd_pop, st.reg_calls);
	return bad;
}
