// SPDX-License-Identifier: GPL-2.0
/*
 * Stacks of samples in the vDSO, whose SFrame section tells where the caller is:
 * a breakpoint at each instruction of its functions.
 *
 * They are called with a frame pointer that leads nowhere.  So a walk by frame
 * pointers loses the caller, or shows a frame that does not exist, at the first and
 * last instructions of each function.
 */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include <linux/perf_event.h>
#include <sys/auxv.h>

#include "../kselftest_harness.h"
#include "../perf_events/lib/event.h"
#include "lib/jit.h"
#include "lib/kmsg.h"
#include "lib/sample.h"

#ifdef __x86_64__

/* No function of the vDSO is longer. */
#define FUNC_SIZE_MAX	8192

extern char vdso_call[], vdso_call_ret[];

/* void vdso_call(void *func, long arg0, void *arg1) */
asm(
"	.pushsection .text\n"
"	.type vdso_call, @function\n"
"vdso_call:\n"
"	push	%rbp\n"
"	mov	%rdi, %rax\n"
"	mov	%rsi, %rdi\n"
"	mov	%rdx, %rsi\n"
"	xor	%edx, %edx\n"
"	mov	$0x10, %ebp\n"
"	call	*%rax\n"
"vdso_call_ret:\n"
"	pop	%rbp\n"
"	ret\n"
"	.size vdso_call, . - vdso_call\n"
"	.popsection\n"
);

struct vdso {
	unsigned long		base;
	const Elf64_Phdr	*sframe;
	const Elf64_Sym		*syms;
	unsigned int		nr_syms;
	const char		*names;
	/* Mapped address minus the address in the file. */
	unsigned long		bias;
	unsigned long		end;
};

/* The kernel provides the vDSO, so its headers need no checks. */
static int vdso_init(struct vdso *v)
{
	const Elf64_Dyn *dyn = NULL;
	const Elf64_Ehdr *ehdr;
	const Elf64_Phdr *phdr;
	unsigned int i;

	memset(v, 0, sizeof(*v));
	v->base = getauxval(AT_SYSINFO_EHDR);
	if (!v->base)
		return -1;
	ehdr = (void *)v->base;
	phdr = (void *)(v->base + ehdr->e_phoff);
	for (i = 0; i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type == PT_LOAD) {
			v->bias = v->base + phdr[i].p_offset - phdr[i].p_vaddr;
			v->end = v->base + phdr[i].p_offset + phdr[i].p_memsz;
		} else if (phdr[i].p_type == PT_DYNAMIC) {
			dyn = (void *)(v->base + phdr[i].p_offset);
		} else if (phdr[i].p_type == SFRAME_PT) {
			v->sframe = &phdr[i];
		}
	}
	for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
		unsigned long at = v->bias + dyn->d_un.d_ptr;

		if (dyn->d_tag == DT_STRTAB)
			v->names = (void *)at;
		else if (dyn->d_tag == DT_SYMTAB)
			v->syms = (void *)at;
		else if (dyn->d_tag == DT_HASH)
			v->nr_syms = ((Elf64_Word *)at)[1];
	}
	/* Without the old hash table, symbols end where the names begin. */
	if (!v->nr_syms && (const char *)v->syms < v->names)
		v->nr_syms = ((unsigned long)v->names - (unsigned long)v->syms) /
			     sizeof(*v->syms);
	return v->syms && v->names ? 0 : -1;
}

static const Elf64_Sym *vdso_sym(const struct vdso *v, const char *name)
{
	unsigned int i;

	for (i = 0; i < v->nr_syms; i++) {
		if (v->syms[i].st_size && !strcmp(v->names + v->syms[i].st_name, name))
			return &v->syms[i];
	}
	return NULL;
}

static bool vdso_has(const struct vdso *v, __u64 ip)
{
	return ip >= v->base && ip < v->end;
}

FIXTURE(vdso) {
	struct session s;
	struct kmsg log;
	struct vdso vdso;
};

FIXTURE_VARIANT(vdso) {
	const char *name;
	/* First argument if the function has a clock ID there, not a pointer. */
	long clock;
	bool has_clock;
};

FIXTURE_VARIANT_ADD(vdso, clock_gettime) {
	.name = "__vdso_clock_gettime",
	.clock = CLOCK_MONOTONIC,
	.has_clock = true,
};

FIXTURE_VARIANT_ADD(vdso, clock_gettime_coarse) {
	.name = "__vdso_clock_gettime",
	.clock = CLOCK_REALTIME_COARSE,
	.has_clock = true,
};

FIXTURE_VARIANT_ADD(vdso, clock_getres) {
	.name = "__vdso_clock_getres",
	.clock = CLOCK_MONOTONIC,
	.has_clock = true,
};

FIXTURE_VARIANT_ADD(vdso, gettimeofday) {
	.name = "__vdso_gettimeofday",
};

FIXTURE_VARIANT_ADD(vdso, time) {
	.name = "__vdso_time",
};

FIXTURE_VARIANT_ADD(vdso, getcpu) {
	.name = "__vdso_getcpu",
};

FIXTURE_SETUP(vdso)
{
	const char *why = sframe_unsupported();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, vdso_init(&self->vdso));
	if (!self->vdso.sframe)
		SKIP(return, "no section in the vDSO (kernel built with binutils before 2.41?)");
	ASSERT_EQ(0, kmsg_open(&self->log));
}

FIXTURE_TEARDOWN(vdso)
{
	if (self->vdso.sframe) {
		EXPECT_EQ(0, kmsg_complaints(&self->log));
		kmsg_close(&self->log);
	}
	session_close(&self->s);
}

TEST_F(vdso, every_instruction)
{
	void (*call)(unsigned long func, long arg0, void *arg1) = (void *)vdso_call;
	const struct vdso *v = &self->vdso;
	unsigned int hits = 0, whole = 0, i, j;
	const Elf64_Sym *sym;
	unsigned long func;
	long buf[4];

	sym = vdso_sym(v, variant->name);
	ASSERT_NE(NULL, sym);
	ASSERT_GE(FUNC_SIZE_MAX, sym->st_size);
	func = v->bias + sym->st_value;

	for (i = 0; i < sym->st_size; i++) {
		struct perf_event_attr attr = event_attr_breakpoint(func + i, BOTH);
		struct defer_stats st;
		int nr;

		attr.exclude_kernel = 1;
		ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, 8));
		ASSERT_EQ(0, session_enable(&self->s));
		if (variant->has_clock)
			call(func, variant->clock, buf);
		else
			call(func, (long)buf, NULL);
		ASSERT_EQ(0, session_finish(&self->s));
		st = defer_conserve(&self->s.log);
		EXPECT_EQ(0, st.missing + st.duplicate + st.foreign + st.lost);
		for (j = 0; j < st.samples; j++) {
			const __u64 *ips = NULL;
			int at = 0;

			nr = sample_stack(&self->s, j, &ips);
			while (at < nr && vdso_has(v, ips[at]))
				at++;
			hits++;
			if (at && ips[0] == func + i && at < nr &&
			    ips[at] == (unsigned long)vdso_call_ret) {
				whole++;
				continue;
			}
			TH_LOG("at %s+%#x", variant->name, i);
			stack_dump("stack", ips, nr);
		}
		session_close(&self->s);
	}
	TH_LOG("%u of %u stacks lead to the caller", whole, hits);
	/* Each of these functions has at least five instructions. */
	EXPECT_LE(5, hits);
	EXPECT_EQ(hits, whole);
}

#else /* !__x86_64__ */

TEST(vdso)
{
	SKIP(return, "no vDSO with tables for this architecture");
}

#endif

TEST_HARNESS_MAIN
