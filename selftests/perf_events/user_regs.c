// SPDX-License-Identifier: GPL-2.0
/*
 * User registers, user stack and user callchain of samples that were taken in
 * the kernel: system calls, exceptions and interrupts of 64-bit and of 32-bit
 * programs, from NMI context and from a breakpoint in the kernel. And registers
 * of the kernel, which must not be in samples of events that exclude it.
 *
 * A target enters the kernel in one way for ever, with registers and a stack that
 * are known. A sample in the kernel has these, or says that it has none. The target
 * counts in one register and on its stack, which the kernel reads at the time of the
 * sample, so that registers of the time before are not taken for right ones.
 */
#define _GNU_SOURCE
#include <sys/prctl.h>

#include "defer.h"
#include "user_regs.h"
#include "../kselftest_harness.h"

#define NMI_PMU		"perf_nmi_pmu"
#define NMI_PMU_SKID	1

/* enum perf_event_x86_regs, which a test for another architecture lacks. */
enum {
	AX, BX, CX, DX, SI, DI, BP, SP, IP, FLAGS, CS, SS,
	R8, R9, R10, R11, R12, R13, R14, R15,
	NR_REGS
};

/* ds, es, fs and gs are between ss and r8. */
#define REGS_MASK	0xff0fffULL

static const char * const reg_names[NR_REGS] = {
	"ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "flags", "cs", "ss",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
};

#define FLAGS_RF	0x10000
/* CF, PF, AF, ZF, SF, OF */
#define FLAGS_ARITHMETIC 0x8d5
/* IF, and the bit that is always set */
#define FLAGS_USER	0x202

/* Not a user address, whatever it is. */
#define KERNEL_IP(ip)	((__s64)(ip) < 0)

/* In a second and a half there are hundreds; under a loaded emulator some fewer. */
#define RUN_MSEC	1500
#define MIN_SAMPLES	20
/* A program that makes no system calls is in the kernel for a timer now and then. */
#define MIN_INTERRUPTED	3
/* So often, on a machine that has a lot else to do. */
#define RUNS		8

/*
 * Before the system call, in it, and behind it; the flags of arithmetic are left as
 * they are.
 */
static void expect_ax_flags(const __u64 *regs, __u64 *want, __u64 nr, __u64 result)
{
	if (regs[AX] != nr && regs[AX] != result)
		want[AX] = -ENOSYS;
	want[FLAGS] = (regs[FLAGS] & (FLAGS_ARITHMETIC | FLAGS_RF)) | FLAGS_USER;
}

/* ---- 64-bit targets ------------------------------------------------------ */

#ifdef __x86_64__
#define WANT_R(n)	(0x5e5e00000000 + (n))

static __u64 target_frames[4];
static __u64 target_stack[512 + WANT_WORDS];
/* The target's registers before it starts. */
struct target_regs {
	__u64 ax, si, di, dx;
} target_regs;

#define STR_(x)	#x
#define STR(x)	STR_(x)
#define TARGET(name, insns)						\
	asm("	.pushsection .text, \"ax\"\n"				\
	    #name "_start:\n"						\
	    "	lea	target_stack+4096(%rip), %rsp\n"		\
	    "	lea	target_frames(%rip), %rbp\n"			\
	    "	mov	target_regs+8(%rip), %rsi\n"			\
	    "	mov	target_regs+16(%rip), %rdi\n"			\
	    "	mov	target_regs+24(%rip), %rdx\n"			\
	    "	mov	$" STR(WANT_BX) ", %ebx\n"			\
	    "	mov	$" STR(WANT_CX) ", %ecx\n"			\
	    "	movabs	$0x5e5e00000008, %r8\n"				\
	    "	movabs	$0x5e5e00000009, %r9\n"				\
	    "	movabs	$0x5e5e0000000a, %r10\n"			\
	    "	movabs	$0x5e5e0000000b, %r11\n"			\
	    "	movabs	$0x5e5e0000000c, %r12\n"			\
	    "	movabs	$0x5e5e0000000d, %r13\n"			\
	    "	movabs	$0x5e5e0000000e, %r14\n"			\
	    "	movabs	$0x5e5e0000000f, %r15\n"			\
	    #name "_loop:\n"						\
	    "	inc	%r12\n"						\
	    #name "_count:\n"						\
	    "	mov	%r12, " STR(COUNT_WORD) " * 8(%rsp)\n"		\
	    "	mov	target_regs(%rip), %rax\n"			\
	    insns							\
	    #name "_after:\n"						\
	    "	nop\n"							\
	    "	jmp	" #name "_loop\n"				\
	    #name "_end:\n"						\
	    "	.popsection\n");					\
	extern char name ## _loop[], name ## _count[];			\
	extern char name ## _after[], name ## _end[];			\
	void name ## _start(void)

TARGET(target_syscall,	"	syscall\n");
TARGET(target_int80,	"	int	$0x80\n");
TARGET(target_spin,	"	pause\n");
/* madvise() lets a page go, which is then touched. */
TARGET(target_fault,	"	syscall\n"
			"target_fault_touch:\n"
			"	movb	$1, (%rdi)\n");
extern char target_fault_touch[];

struct target {
	const char	*name;
	void		(*start)(void);
	const char	*loop;
	/* Has counted in the register, not yet on the stack */
	const char	*count;
	const char	*after;
	const char	*end;
	/* What faults */
	const char	*touch;
	__u64		nr;
	bool		syscall;
	bool		fault;
};

#define TARGET64(_name, _nr, ...) {					\
	.name	= #_name,						\
	.start	= target_ ## _name ## _start,				\
	.loop	= target_ ## _name ## _loop,				\
	.count	= target_ ## _name ## _count,				\
	.after	= target_ ## _name ## _after,				\
	.end	= target_ ## _name ## _end,				\
	.nr	= _nr,							\
	__VA_ARGS__							\
}

static const struct target targets[] = {
	TARGET64(syscall, __NR_getppid, .syscall = true),
	/* getppid() of 32-bit programs */
	TARGET64(int80, 64),
	TARGET64(spin, 0),
	TARGET64(fault, __NR_madvise, .syscall = true, .fault = true,
		 .touch = target_fault_touch),
};

static void run_target(const struct target *t)
{
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	target_frames[0] = (__u64)&target_frames[2];
	target_frames[1] = (__u64)target_syscall_start;
	for (i = 0; i < WANT_WORDS; i++)
		target_stack[512 + i] = WANT_WORD(i);
	target_stack[512 + COUNT_WORD] = WANT_R(12);
	target_regs = (struct target_regs) {
		.ax = t->nr,
		.si = WANT_SI,
		.di = WANT_DI,
		.dx = WANT_DX,
	};
	if (t->fault) {
		target_regs.di = (__u64)mmap((void *)0x7e0000000000, 4096,
					     PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS |
					     MAP_FIXED, -1, 0);
		target_regs.si = 4096;
		target_regs.dx = MADV_DONTNEED;
	}
	t->start();
}

/*
 * What a sample that came while the target ran has to have, by its ip, and by the
 * count on its stack.
 */
static bool expect64(const struct target *t, const __u64 *regs, __u64 count, __u64 *want)
{
	__u64 ip = regs[IP];
	int i;

	memcpy(want, regs, NR_REGS * sizeof(*want));
	if (ip < (__u64)t->loop || ip >= (__u64)t->end)
		return false;
	expect_ax_flags(regs, want, t->nr,
			t->fault || !t->nr ? 0 : (__u64)getpid());
	want[BX] = WANT_BX;
	/* The fault's system call leaves there where it returned to. */
	if (!t->fault || regs[CX] != (__u64)t->touch)
		want[CX] = WANT_CX;
	want[SI] = t->fault ? 4096 : WANT_SI;
	want[DI] = t->fault ? 0x7e0000000000 : WANT_DI;
	want[DX] = t->fault ? MADV_DONTNEED : WANT_DX;
	want[BP] = (__u64)target_frames;
	want[SP] = (__u64)&target_stack[512];
	want[CS] = 0x33;
	want[SS] = 0x2b;
	for (i = R8; i <= R15; i++)
		want[i] = WANT_R(8 + i - R8);
	want[R12] = count + (ip == (__u64)t->count);
	/* SYSCALL leaves ip and flags in cx and r11, for the rest of the loop. */
	if (t->syscall) {
		want[R11] = regs[R11];
		if (!t->fault) {
			if (regs[CX] != WANT_CX || ip == (__u64)t->after)
				want[CX] = (__u64)t->after;
			/* An interrupt that comes right there may have set RF. */
			if (ip == (__u64)t->after)
				want[R11] = regs[FLAGS] & ~FLAGS_RF;
		}
	}
	return true;
}
#endif /* __x86_64__ */

/* ---- Samples ------------------------------------------------------------- */

#define STACK_SIZE	64

struct sample {
	__u16		misc;
	__u64		ip;
	__u64		nr;
	const __u64	*ips;
	__u64		abi;
	__u64		regs[NR_REGS];
	__u64		stack_size;
	const void	*stack;
	__u64		intr_abi;
};

/* One record of an event with regs_attr(). */
static void parse_sample(const struct perf_event_header *h, __u64 type,
			 struct sample *s)
{
	const __u64 *p = (const __u64 *)(h + 1);

	memset(s, 0, sizeof(*s));
	s->misc = h->misc;
	s->ip = *p++;
	if (type & PERF_SAMPLE_CALLCHAIN) {
		s->nr = *p++;
		s->ips = p;
		p += s->nr;
	}
	if (type & PERF_SAMPLE_REGS_USER) {
		s->abi = *p++;
		if (s->abi) {
			memcpy(s->regs, p, sizeof(s->regs));
			p += NR_REGS;
		}
	}
	if (type & PERF_SAMPLE_STACK_USER) {
		s->stack_size = *p++;
		s->stack = p;
		p += s->stack_size / 8;
		if (s->stack_size)
			s->stack_size = *p++;
	}
	if (type & PERF_SAMPLE_REGS_INTR)
		s->intr_abi = *p++;
}

static struct perf_event_attr regs_attr(__u32 type, __u64 config, __u64 period)
{
	struct perf_event_attr attr = {
		.size			= sizeof(attr),
		.type			= type,
		.config			= config,
		.sample_period		= period,
		.sample_type		= PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN |
					  PERF_SAMPLE_REGS_USER |
					  PERF_SAMPLE_STACK_USER,
		.sample_regs_user	= REGS_MASK,
		.sample_stack_user	= STACK_SIZE,
		.disabled		= 1,
	};

	return attr;
}

/* A target, an event on it, and the samples. */
struct watch {
	pid_t				pid;
	int				fd;
	struct perf_event_mmap_page	*page;
	__u64				type;
	__u64				pos;
	unsigned int			in_kernel;
	unsigned int			runs;
	char				record[65536] __attribute__((aligned(8)));
};

#define WATCH_PAGES	1024

static const char *watch_open(struct watch *w, struct perf_event_attr *attr)
{
	size_t size = (WATCH_PAGES + 1) * sysconf(_SC_PAGESIZE);

	w->type = attr->sample_type;
	w->fd = defer_event_open(attr, w->pid, -1, 0);
	if (w->fd < 0)
		return strerror(errno);
	w->page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	return w->page == MAP_FAILED ? strerror(errno) : NULL;
}

/* Does the target still run? It must not end by itself. */
static bool watch_alive(struct watch *w)
{
	if (w->pid > 0 && waitpid(w->pid, NULL, WNOHANG) != 0)
		w->pid = -1;
	return w->pid > 0;
}

/* Let the target run under the event for a while; false if it did not live. */
static bool watch_run(struct watch *w, unsigned int msec)
{
	ioctl(w->fd, PERF_EVENT_IOC_ENABLE, 0);
	usleep(msec * 1000);
	ioctl(w->fd, PERF_EVENT_IOC_DISABLE, 0);
	return watch_alive(w);
}

/*
 * Has the interrupt of an event that excludes the kernel come there? Then the sample has
 * no registers of the interrupt.
 */
static bool late_sample(const struct sample *s, __u64 type)
{
	return (type & PERF_SAMPLE_REGS_INTR) && !s->intr_abi;
}

static bool watch_next(struct watch *w, struct sample *s)
{
	size_t page_size = sysconf(_SC_PAGESIZE), size = WATCH_PAGES * page_size;
	const char *data = (const char *)w->page + page_size;
	struct perf_event_header *h = (void *)w->record;
	size_t i;

	do {
		while (w->pos < __atomic_load_n(&w->page->data_head, __ATOMIC_ACQUIRE)) {
			for (i = 0; i < sizeof(*h); i++)
				w->record[i] = data[(w->pos + i) % size];
			for (; i < h->size; i++)
				w->record[i] = data[(w->pos + i) % size];
			w->pos += h->size;
			if (h->type != PERF_RECORD_SAMPLE)
				continue;
			parse_sample(h, w->type, s);
			w->in_kernel += KERNEL_IP(s->ip) || late_sample(s, w->type);
			return true;
		}
		__atomic_store_n(&w->page->data_tail, w->pos, __ATOMIC_RELEASE);
	} while (w->in_kernel < MIN_SAMPLES && ++w->runs < RUNS &&
		 watch_run(w, RUN_MSEC));

	return false;
}

static void watch_close(struct watch *w)
{
	if (w->pid > 0) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
	if (w->page && w->page != MAP_FAILED)
		munmap(w->page, (WATCH_PAGES + 1) * sysconf(_SC_PAGESIZE));
	if (w->fd > 0)
		close(w->fd);
}

/* Says which registers are wrong, of the first few samples. */
static unsigned int compare(const struct sample *s, const __u64 *want,
			    unsigned int nr_said)
{
	unsigned int i, wrong = 0;

	for (i = 0; i < NR_REGS; i++) {
		if (s->regs[i] == want[i])
			continue;
		wrong++;
		if (nr_said < 5)
			fprintf(stderr, "# at %llx: %s is %llx, not %llx\n",
				(unsigned long long)s->ip, reg_names[i],
				(unsigned long long)s->regs[i],
				(unsigned long long)want[i]);
	}
	return wrong;
}

/* The user part of the callchain: its length, 0 if there is none */
static unsigned int user_chain(const struct sample *s, const __u64 **ips)
{
	unsigned int i;

	for (i = 0; i < s->nr; i++) {
		if (s->ips[i] == PERF_CONTEXT_USER) {
			*ips = s->ips + i + 1;
			return s->nr - i - 1;
		}
	}
	return 0;
}

struct counts {
	unsigned int	samples;
	unsigned int	in_kernel;
	unsigned int	in_entry;
	unsigned int	none;
	unsigned int	foreign;
	unsigned int	wrong;
	unsigned int	wrong_chain;
	unsigned int	wrong_stack;
};

static void print_counts(const struct counts *c)
{
	fprintf(stderr,
		"# samples %u: in the kernel %u, of them in entry code %u; no registers %u, ip of something else %u, wrong registers %u, callchain %u, stack %u\n",
		c->samples, c->in_kernel, c->in_entry, c->none, c->foreign,
		c->wrong, c->wrong_chain, c->wrong_stack);
}

/* Without registers there is neither a user chain nor a user stack. */
static void count_none(const struct sample *s, struct counts *c)
{
	const __u64 *ips;

	c->none++;
	if (user_chain(s, &ips))
		c->wrong_chain++;
	if (s->stack_size)
		c->wrong_stack++;
}

/* ---- 64-bit: all ways in, from NMI context and from interrupts ----------- */

#ifdef __x86_64__
FIXTURE(target64) {
	struct watch w;
	__u64 entry_start;
	__u64 entry_end;
	long type;
	bool unload;
};

FIXTURE_VARIANT(target64) {
	unsigned int target;
	bool irq;
};

FIXTURE_VARIANT_ADD(target64, nmi_in_syscall) {
	.target = 0,
};

FIXTURE_VARIANT_ADD(target64, nmi_in_int80) {
	.target = 1,
};

FIXTURE_VARIANT_ADD(target64, nmi_in_interrupt) {
	.target = 2,
};

FIXTURE_VARIANT_ADD(target64, nmi_in_page_fault) {
	.target = 3,
};

FIXTURE_VARIANT_ADD(target64, irq_in_syscall) {
	.target = 0,
	.irq = true,
};

FIXTURE_VARIANT_ADD(target64, irq_in_page_fault) {
	.target = 3,
	.irq = true,
};

/* What samples: a timer's interrupt, or the module's NMIs. Why there is none. */
static const char *sampler(bool irq, long *type, bool *unload)
{
	const char *why;

	*type = PERF_TYPE_SOFTWARE;
	if (irq)
		return NULL;
	*unload = access("/sys/module/" NMI_PMU, F_OK);
	why = defer_module_load(NMI_PMU);
	if (!why)
		*type = defer_pmu_type(NMI_PMU);
	return why;
}

static void find_entry_text(__u64 *start, __u64 *end)
{
	*start = defer_kallsyms("__entry_text_start");
	*end = defer_kallsyms("__entry_text_end");
}

FIXTURE_SETUP(target64)
{
	const char *why;

	why = sampler(variant->irq, &self->type, &self->unload);
	if (why)
		SKIP(return, "%s", why);
	ASSERT_LE(0, self->type);
	find_entry_text(&self->entry_start, &self->entry_end);
	self->w.pid = fork();
	ASSERT_LE(0, self->w.pid);
	if (!self->w.pid) {
		run_target(&targets[variant->target]);
		_exit(1);
	}
	/* It has to be in its loop. */
	usleep(100000);
}

FIXTURE_TEARDOWN(target64)
{
	watch_close(&self->w);
	if (self->unload)
		defer_module_unload(NMI_PMU);
}

TEST_F_TIMEOUT(target64, registers, 120)
{
	struct perf_event_attr attr = regs_attr(self->type,
						variant->irq ? PERF_COUNT_SW_CPU_CLOCK : 0,
						500000);
	const struct target *t = &targets[variant->target];
	struct counts c = {};
	__u64 want[NR_REGS];
	const __u64 *ips;
	struct sample s;
	unsigned int nr;
	const char *why;
	__u64 count;

	/* Long before it is sampled, so that only the way in can be the reason. */
	if (!watch_alive(&self->w))
		SKIP(return, "no %s on this kernel", t->name);
	why = watch_open(&self->w, &attr);
	if (why)
		SKIP(return, "no event: %s", why);
	ASSERT_TRUE(watch_run(&self->w, RUN_MSEC));

	while (watch_next(&self->w, &s)) {
		c.samples++;
		if (!KERNEL_IP(s.ip))
			continue;
		c.in_kernel++;
		if (s.ip >= self->entry_start && s.ip < self->entry_end)
			c.in_entry++;
		if (!s.abi) {
			count_none(&s, &c);
			continue;
		}
		EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, s.abi);
		count = 0;
		if (s.stack_size == STACK_SIZE)
			count = ((const __u64 *)s.stack)[COUNT_WORD];
		if (!expect64(t, s.regs, count, want)) {
			c.foreign++;
			continue;
		}
		if (compare(&s, want, c.wrong))
			c.wrong++;
		nr = user_chain(&s, &ips);
		if (nr < 2 || ips[0] != want[IP] ||
		    ips[1] != (__u64)target_syscall_start)
			c.wrong_chain++;
		if (s.stack_size != STACK_SIZE ||
		    ((const __u64 *)s.stack)[0] != WANT_WORD(0) ||
		    ((const __u64 *)s.stack)[7] != WANT_WORD(7))
			c.wrong_stack++;
	}
	print_counts(&c);
	/* Registers that the kernel has damaged may have ended it. */
	EXPECT_TRUE(watch_alive(&self->w));
	EXPECT_LE(t->nr ? MIN_SAMPLES : MIN_INTERRUPTED, c.in_kernel);
	EXPECT_EQ(0, c.foreign);
	EXPECT_EQ(0, c.wrong);
	EXPECT_EQ(0, c.wrong_chain);
	EXPECT_EQ(0, c.wrong_stack);
	/*
	 * The way in and out is what system calls of this kind consist of. Where
	 * addresses are hidden, it cannot be told.
	 */
	if (!variant->irq && t->nr && self->entry_start)
		EXPECT_LE(1, c.in_entry);
	/* There are few places where nothing can be said. */
	EXPECT_GE(c.in_kernel / 20, c.none);
}
#endif /* __x86_64__ */

/* ---- 32-bit -------------------------------------------------------------- */

FIXTURE(target32) {
	struct watch w;
	struct user_regs_target t;
	__u64 entry_start;
	__u64 entry_end;
	long type;
	bool unload;
};

FIXTURE_VARIANT(target32) {
	char enter;
	bool irq;
};

FIXTURE_VARIANT_ADD(target32, nmi_in_int80) {
	.enter = ENTER_INT80,
};

FIXTURE_VARIANT_ADD(target32, nmi_in_sysenter) {
	.enter = ENTER_SYSENTER,
};

FIXTURE_VARIANT_ADD(target32, nmi_in_syscall) {
	.enter = ENTER_SYSCALL,
};

FIXTURE_VARIANT_ADD(target32, nmi_in_interrupt) {
	.enter = ENTER_SPIN,
};

FIXTURE_VARIANT_ADD(target32, irq_in_sysenter) {
	.enter = ENTER_SYSENTER,
	.irq = true,
};

FIXTURE_VARIANT_ADD(target32, irq_in_syscall) {
	.enter = ENTER_SYSCALL,
	.irq = true,
};

FIXTURE_SETUP(target32)
{
	char path[PATH_MAX + 32], dir[PATH_MAX], arg[2] = { variant->enter };
	const char *why;
	int out[2];
	ssize_t n;
	char *end;

	n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	ASSERT_LT(0, n);
	dir[n] = '\0';
	end = strrchr(dir, '/');
	ASSERT_NE(NULL, end);
	*end = '\0';
	snprintf(path, sizeof(path), "%s/user_regs32", dir);
	if (access(path, X_OK))
		SKIP(return, "no user_regs32 (compiler without -m32?)");

	why = sampler(variant->irq, &self->type, &self->unload);
	if (why)
		SKIP(return, "%s", why);
	ASSERT_LE(0, self->type);
	find_entry_text(&self->entry_start, &self->entry_end);
	ASSERT_EQ(0, pipe2(out, O_CLOEXEC));
	self->w.pid = fork();
	ASSERT_LE(0, self->w.pid);
	if (!self->w.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		execl(path, path, arg, NULL);
		_exit(127);
	}
	close(out[1]);
	n = read(out[0], &self->t, sizeof(self->t));
	close(out[0]);
	if (n != sizeof(self->t)) {
		watch_close(&self->w);
		/* Nothing is torn down then. */
		if (self->unload)
			defer_module_unload(NMI_PMU);
		SKIP(return, "the kernel does not run 32-bit programs");
	}
	usleep(100000);
}

FIXTURE_TEARDOWN(target32)
{
	watch_close(&self->w);
	if (self->unload)
		defer_module_unload(NMI_PMU);
}

/* getppid(), as user_regs32 has it */
#define NR_GETPPID32	64

/* False if the ip is not one of the target. */
static bool expect32(const struct user_regs_target *t, bool calls,
		     const __u64 *regs, __u64 *want)
{
	/* Three pops and a return */
	bool landing = t->landing_pad && regs[IP] >= t->landing_pad &&
		       regs[IP] < t->landing_pad + 4;
	bool landed = landing && regs[IP] == t->landing_pad;

	memcpy(want, regs, NR_REGS * sizeof(*want));
	if (!landing && !(regs[IP] >= t->start && regs[IP] < t->end))
		return false;
	/* Not set where it makes no system call */
	expect_ax_flags(regs, want, calls ? NR_GETPPID32 : regs[AX], getpid());
	want[BX] = WANT_BX;
	want[SI] = WANT_SI;
	want[DX] = WANT_DX;
	/* SYSRET has left ip in cx, which the third pop mends. */
	want[CX] = landing && regs[CX] == t->landing_pad ? regs[CX] : WANT_CX;
	want[CS] = 0x23;
	want[SS] = 0x2b;
	if (landed || regs[IP] == t->after || !t->landing_pad)
		want[BP] = t->bp;
	if (landed)
		want[SP] = t->landing_sp;
	else if (regs[IP] == t->after || !t->landing_pad)
		want[SP] = t->sp;
	return true;
}

TEST_F_TIMEOUT(target32, registers, 120)
{
	struct perf_event_attr attr = regs_attr(self->type,
						variant->irq ? PERF_COUNT_SW_CPU_CLOCK : 0,
						500000);
	struct counts c = {};
	__u64 want[NR_REGS];
	const __u64 *ips;
	const __u32 *words;
	struct sample s;
	unsigned int nr;
	const char *why;

	attr.sample_stack_user = STACK_SIZE / 2;
	if (!watch_alive(&self->w))
		SKIP(return, "this CPU cannot enter the kernel like this");
	why = watch_open(&self->w, &attr);
	if (why)
		SKIP(return, "no event: %s", why);
	ASSERT_TRUE(watch_run(&self->w, RUN_MSEC));

	while (watch_next(&self->w, &s)) {
		c.samples++;
		if (!KERNEL_IP(s.ip))
			continue;
		c.in_kernel++;
		if (s.ip >= self->entry_start && s.ip < self->entry_end)
			c.in_entry++;
		if (!s.abi) {
			count_none(&s, &c);
			continue;
		}
		EXPECT_EQ(PERF_SAMPLE_REGS_ABI_32, s.abi);
		if (!expect32(&self->t, variant->enter != ENTER_SPIN, s.regs,
			      want)) {
			if (!c.foreign++)
				TH_LOG("ip %llx", (unsigned long long)s.regs[IP]);
			continue;
		}
		words = s.stack;
		if (s.regs[SP] == self->t.landing_sp)
			words += (self->t.sp - self->t.landing_sp) / 4;
		if (s.stack_size == STACK_SIZE / 2 &&
		    (s.regs[SP] == self->t.sp || s.regs[SP] == self->t.landing_sp))
			want[DI] = words[COUNT_WORD] + (s.regs[IP] == self->t.count);
		if (compare(&s, want, c.wrong))
			c.wrong++;
		/* In between the vDSO pushes and pops. */
		if (want[BP] != self->t.bp || want[SP] != s.regs[SP] ||
		    (want[SP] != self->t.sp && want[SP] != self->t.landing_sp))
			continue;
		nr = user_chain(&s, &ips);
		if (nr < 2 || ips[0] != want[IP] || ips[1] != self->t.ret)
			c.wrong_chain++;
		if (s.stack_size != STACK_SIZE / 2 || words[0] != WANT_WORD(0) ||
		    words[3] != WANT_WORD(3))
			c.wrong_stack++;
	}
	print_counts(&c);
	/* Registers that the kernel has damaged may have ended it. */
	EXPECT_TRUE(watch_alive(&self->w));
	EXPECT_LE(variant->enter != ENTER_SPIN ? MIN_SAMPLES : MIN_INTERRUPTED,
		  c.in_kernel);
	EXPECT_EQ(0, c.foreign);
	EXPECT_EQ(0, c.wrong);
	EXPECT_EQ(0, c.wrong_chain);
	EXPECT_EQ(0, c.wrong_stack);
	/*
	 * A SYSCALL that is not the vDSO's cannot be told from INT $0x80 until ip
	 * is set, where an emulator's NMIs come often.
	 */
	EXPECT_GE(c.in_kernel / 8, c.none);
}

/* ---- The kernel's registers ---------------------------------------------- */

#ifdef __x86_64__
FIXTURE(intr) {
	struct watch w;
	bool unload;
};

FIXTURE_SETUP(intr)
{
	const char *why;

	self->unload = access("/sys/module/" NMI_PMU, F_OK);
	why = defer_module_load(NMI_PMU);
	if (why)
		SKIP(return, "%s", why);
	self->w.pid = fork();
	ASSERT_LE(0, self->w.pid);
	if (!self->w.pid) {
		run_target(&targets[0]);
		_exit(1);
	}
	usleep(100000);
}

FIXTURE_TEARDOWN(intr)
{
	watch_close(&self->w);
	if (self->unload)
		defer_module_unload(NMI_PMU);
}

/*
 * An event in user mode whose interrupt comes late, in the kernel: nothing in the sample
 * tells where in the kernel. Its ip is the one at which the program goes on.
 */
TEST_F(intr, no_kernel_registers_when_excluded)
{
	unsigned int late = 0, ips = 0, modes = 0, chains = 0, unknown = 0, elsewhere = 0;
	struct perf_event_attr attr = regs_attr(defer_pmu_type(NMI_PMU),
						NMI_PMU_SKID, 500000);
	const struct target *t = &targets[0];
	unsigned int user = 0, user_regs = 0;
	struct sample s;
	const char *why;
	__u64 i;

	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGS_MASK;
	attr.exclude_kernel = 1;
	why = watch_open(&self->w, &attr);
	ASSERT_EQ(NULL, why);
	ASSERT_TRUE(watch_run(&self->w, RUN_MSEC));
	while (watch_next(&self->w, &s)) {
		ips += KERNEL_IP(s.ip);
		modes += (s.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER;
		for (i = 0; i < s.nr; i++) {
			if (s.ips[i] == PERF_CONTEXT_KERNEL ||
			    (KERNEL_IP(s.ips[i]) && s.ips[i] < PERF_CONTEXT_MAX)) {
				chains++;
				break;
			}
		}
		if (!late_sample(&s, attr.sample_type)) {
			user++;
			user_regs += !KERNEL_IP(s.ip);
			continue;
		}
		late++;
		if (!s.ip)
			unknown++;
		else if (s.ip < (__u64)t->loop || s.ip >= (__u64)t->end)
			elsewhere++;
	}
	TH_LOG("late %u: no ip %u; of all, ip in the kernel %u, mode %u, chain %u",
	       late, unknown, ips, modes, chains);
	EXPECT_LE(MIN_SAMPLES, late);
	EXPECT_EQ(0, ips);
	EXPECT_EQ(0, modes);
	EXPECT_EQ(0, chains);
	EXPECT_EQ(0, elsewhere);
	EXPECT_GE(late / 8, unknown);
	EXPECT_EQ(user, user_regs);
}

/* An event that counts in the kernel has its registers. */
TEST_F(intr, kernel_registers_when_included)
{
	struct perf_event_attr attr = regs_attr(defer_pmu_type(NMI_PMU), 0, 500000);
	unsigned int kernel = 0, with = 0;
	struct sample s;
	const char *why;

	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_REGS_INTR;
	attr.sample_regs_intr = REGS_MASK;
	why = watch_open(&self->w, &attr);
	ASSERT_EQ(NULL, why);
	ASSERT_TRUE(watch_run(&self->w, RUN_MSEC));
	while (watch_next(&self->w, &s)) {
		if (!KERNEL_IP(s.ip))
			continue;
		kernel++;
		with += !!s.intr_abi;
	}
	EXPECT_LE(MIN_SAMPLES, kernel);
	EXPECT_EQ(kernel, with);
}
#endif /* __x86_64__ */

TEST_HARNESS_MAIN
