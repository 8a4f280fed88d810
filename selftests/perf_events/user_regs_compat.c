// SPDX-License-Identifier: GPL-2.0
/*
 * User registers, user stack and user callchain of samples that were taken in the
 * kernel: system calls and interrupts of 32-bit programs, see user_regs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/prctl.h>

#include "../kselftest_harness.h"
#include "lib/files.h"
#include "lib/regs_watch.h"
#include "user_regs.h"

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
	const char *path = beside("user_regs32");
	char arg[2] = { variant->enter };
	const char *why;
	int out[2];
	ssize_t n;

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
		/* After SKIP there is no teardown. */
		if (self->unload)
			module_unload(NMI_PMU);
		SKIP(return, "the kernel does not run 32-bit programs");
	}
	usleep(100000);
}

FIXTURE_TEARDOWN(target32)
{
	watch_close(&self->w);
	if (self->unload)
		module_unload(NMI_PMU);
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
	/* A target without system calls does not set ax. */
	expect_ax_flags(regs, want, calls ? NR_GETPPID32 : regs[AX], getpid());
	want[BX] = WANT_BX;
	want[SI] = WANT_SI;
	want[DX] = WANT_DX;
	/* SYSRET has left ip in cx. The third pop restores cx. */
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
	bool alive = true;
	unsigned int nr;
	const char *why;

	attr.sample_stack_user = STACK_SIZE / 2;
	if (variant->enter != ENTER_INT80 && variant->enter != ENTER_SPIN)
		alive = watch_alive(&self->w);
	if (!alive)
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
		/* Elsewhere, pushes and pops of the vDSO change bp and sp. */
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
	 * The registers are unknown at some instructions after SYSCALL, where an
	 * emulator's NMIs come often.
	 */
	EXPECT_GE(c.in_kernel / 8, c.none);
}

TEST_HARNESS_MAIN
