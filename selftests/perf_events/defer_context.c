// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains requested from NMIs and interrupts that hit user mode,
 * system calls and interrupts; samples of guests.
 *
 * Sources: execution breakpoints in the kernel (#DB is like an NMI), in user
 * space (a plain exception), the PMU of test_modules/perf_nmi_pmu (real NMIs)
 * and software clocks (hard interrupts).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "lib/defer.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/known_stack.h"
#include "lib/session.h"

#define BITS	11
#define ID	0x4d3

/* Bytes of a hundred or two samples and records */
#define ENOUGH		(32 * 1024)

#define SAMPLE(i)	log_nth(&self->s.log, PERF_RECORD_SAMPLE, i)

static void require(struct __test_metadata *_metadata)
{
	const char *why = defer_unsupported();

	if (why)
		SKIP(return, "%s", why);
}

/* Breakpoints: exact, one sample per hit */

FIXTURE(breakpoint) {
	struct session s;
	struct session s2;
	__u64 want[64];
};

FIXTURE_SETUP(breakpoint)
{
	require(_metadata);
}

FIXTURE_TEARDOWN(breakpoint)
{
	session_close(&self->s);
	session_close(&self->s2);
}

#define EXPECT_STACK(s, sample, id, leaf) do {				\
	const __u64 *__ips = NULL;					\
	int __nr = defer_user_chain(&(s)->log, sample, &__ips);		\
	int __want = known_expect(self->want, id, BITS, leaf);		\
									\
	EXPECT_TRUE(stack_same(__ips, __nr, self->want, __want));	\
} while (0)

/* Interrupted: user mode, at one instruction. */
TEST_F(breakpoint, user_mode)
{
	struct perf_event_attr attr = event_attr_breakpoint((__u64)walk_nop,
							    BOTH);
	const unsigned int nr = 50;
	struct defer_stats st;
	unsigned int i;

	if (session_open(&self->s, &attr, 0, -1, SESSION_PAGES))
		SKIP(return, "no execution breakpoint: %s", strerror(errno));
	/* A second event in the same entry, and in a buffer of its own. */
	ASSERT_EQ(0, session_open(&self->s2, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, session_enable(&self->s));
	ASSERT_EQ(0, session_enable(&self->s2));
	for (i = 0; i < nr; i++)
		walk_top(i, BITS, walk_nop, 0, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	ASSERT_EQ(0, session_finish(&self->s2));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(nr, st.samples);
	EXPECT_EQ(nr, st.deferred);
	EXPECT_EQ(nr, st.records);
	st = defer_conserve(&self->s2.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(nr, st.samples);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < nr; i++) {
		const struct log_item *it;

		it = log_nth(&self->s2.log, PERF_RECORD_SAMPLE, i);
		EXPECT_EQ(it->cookie, SAMPLE(i)->cookie);
		EXPECT_STACK(&self->s, SAMPLE(i), i, walk_nop);
	}
}

/*
 * Interrupted where the function has no frame: before the frame pointer is
 * pushed, before it is set up, and after it is popped.  In none of these cases does the
 * frame pointer lead to the caller.
 */
TEST_F(breakpoint, no_frame_yet)
{
	static const struct {
		const char	*what;
		const char	*ip;
		bool		every_level;
	} cases[] = {
		/* push %rbp; mov %rsp, %rbp */
		{ "push",	(char *)walk_step,	true },
		{ "mov",	(char *)walk_step + 1,	true },
		/* nop; pop %rbp; ret */
		{ "nop",	walk_nop,		false },
		{ "pop",	walk_nop + 1,		false },
		{ "ret",	walk_nop + 2,		false },
	};
	unsigned int i, j, bits, tries = 20;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned int nr = 1;
		struct perf_event_attr attr;
		struct defer_stats st;

		/* On the way down each level adds one caller. */
		if (cases[i].every_level)
			nr += BITS;
		attr = event_attr_breakpoint((__u64)cases[i].ip, BOTH);
		if (session_open(&self->s, &attr, 0, -1, SESSION_PAGES))
			SKIP(return, "no execution breakpoint: %s",
			     strerror(errno));
		ASSERT_EQ(0, session_enable(&self->s));
		walk_top(ID, BITS, walk_nop, 0, 0, 0);
		ASSERT_EQ(0, session_finish(&self->s));
		st = defer_conserve(&self->s.log);
		EXPECT_CONSERVED(&st);
		/* The breakpoint is missed if an interrupt comes exactly there. */
		if (st.samples < nr && --tries) {
			session_close(&self->s);
			i--;
			continue;
		}
		ASSERT_EQ(nr, st.samples);
		EXPECT_EQ(nr, st.deferred);
		for (j = 0; j < nr; j++) {
			const __u64 *ips = NULL;
			int nr_ips, nr_want;

			bits = BITS + 1 - nr + j;
			nr_ips = defer_user_chain(&self->s.log, SAMPLE(j),
						  &ips);
			nr_want = known_expect(self->want, ID, bits,
					       cases[i].ip);
			EXPECT_TRUE(stack_same(ips, nr_ips, self->want,
					       nr_want)) {
				TH_LOG("at %s, level %u", cases[i].what, j);
			}
		}
		session_close(&self->s);
	}
}

/* Interrupted: a system call. With a task context sample in the same entry. */
TEST_F(breakpoint, system_call)
{
	struct perf_event_attr attr;
	const unsigned int nr = 50;
	struct defer_stats st;
	unsigned int i;
	__u64 addr;

	addr = kallsyms("__x64_sys_getpgid");
	if (!addr)
		SKIP(return, "no address of __x64_sys_getpgid");
	attr = event_attr_breakpoint(addr, BOTH);
	if (session_open(&self->s, &attr, 0, -1, SESSION_PAGES))
		SKIP(return, "no execution breakpoint: %s", strerror(errno));
	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_exit_getpgid"), 1,
			  BOTH);
	ASSERT_EQ(0, session_add(&self->s, &attr));
	ASSERT_EQ(0, session_enable(&self->s));
	for (i = 0; i < nr; i++)
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(2 * nr, st.samples);
	EXPECT_EQ(2 * nr, st.deferred);
	EXPECT_EQ(nr, st.cookies);
	EXPECT_EQ(nr, st.records);
	for (i = 0; i < 2 * nr; i++)
		EXPECT_STACK(&self->s, SAMPLE(i), i / 2, walk_syscall_ip);
}

/* Interrupted: a hard interrupt, which in turn interrupted user mode. */
TEST_F_TIMEOUT(breakpoint, interrupt, 60)
{
	/* Any function of the timer interrupt will do. */
	static const char * const names[] = {
		"update_process_times", "tick_nohz_handler", "sched_tick",
		"scheduler_tick",
	};
	struct perf_event_attr attr;
	unsigned int i, exact = 0;
	struct defer_stats st;
	const char *name;
	__u64 end;

	attr = defer_attr_output();
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		__u64 addr = kallsyms(names[i]);

		if (!addr)
			continue;
		attr = event_attr_breakpoint(addr, DEFER_ATTR_CALLCHAIN);
		if (!session_add(&self->s, &attr))
			break;
	}
	if (i == ARRAY_SIZE(names))
		SKIP(return, "no breakpoint in the timer interrupt");
	name = names[i];
	ASSERT_EQ(0, session_enable(&self->s));
	end = now_nsec() + NSEC_PER_SEC;
	while (now_nsec() < end)
		known_walk_spin(ID, BITS, 400000);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_LT(20, st.samples);
	EXPECT_EQ(0, st.lost);
	EXPECT_EQ(st.samples, st.deferred);
	for (i = 0; i < st.samples; i++) {
		const __u64 *ips = NULL;

		if (defer_user_chain(&self->s.log, SAMPLE(i), &ips) < 1 ||
		    ips[0] < (__u64)walk_spin || ips[0] >= (__u64)walk_spin_end)
			continue;
		EXPECT_STACK(&self->s, SAMPLE(i), ID, (void *)ips[0]);
		exact++;
	}
	TH_LOG("%s: %u of %u interrupted the spin", name, exact,
	       st.samples);
	EXPECT_LT(10, exact);
}

/* Clocks and the PMU of NMIs */

FIXTURE(clock) {
	struct session s;
	__u64 want[64];
	long type;
	__u64 entry_start;
	__u64 entry_end;
	bool unload;
};

FIXTURE_VARIANT(clock) {
	/* The name of a PMU, or a software event. */
	const char *pmu;
	__u64 config;
	bool exclude_user;
	bool exclude_kernel;
	bool freq;
	bool system_wide;
};

FIXTURE_VARIANT_ADD(clock, cpu_clock) {
	.config = PERF_COUNT_SW_CPU_CLOCK,
};

FIXTURE_VARIANT_ADD(clock, task_clock) {
	.config = PERF_COUNT_SW_TASK_CLOCK,
};

FIXTURE_VARIANT_ADD(clock, nmi) {
	.pmu = "perf_nmi_pmu",
};

FIXTURE_VARIANT_ADD(clock, nmi_freq) {
	.pmu = "perf_nmi_pmu",
	.freq = true,
};

FIXTURE_VARIANT_ADD(clock, nmi_user) {
	.pmu = "perf_nmi_pmu",
	.exclude_kernel = true,
};

FIXTURE_VARIANT_ADD(clock, nmi_kernel) {
	.pmu = "perf_nmi_pmu",
	.exclude_user = true,
};

FIXTURE_VARIANT_ADD(clock, nmi_system_wide) {
	.pmu = "perf_nmi_pmu",
	.system_wide = true,
};

FIXTURE_SETUP(clock)
{
	const char *why;

	require(_metadata);
	if (_metadata->exit_code)
		return;
	self->type = PERF_TYPE_SOFTWARE;
	if (variant->pmu) {
		char path[128];

		snprintf(path, sizeof(path), "/sys/module/%s", variant->pmu);
		self->unload = access(path, F_OK);
		why = module_load(variant->pmu);
		if (why)
			SKIP(return, "%s", why);
		self->type = pmu_type(variant->pmu);
		ASSERT_LE(0, self->type);
	}
	self->entry_start = kallsyms("__entry_text_start");
	self->entry_end = kallsyms("__entry_text_end");
}

FIXTURE_TEARDOWN(clock)
{
	session_close(&self->s);
	if (self->unload)
		EXPECT_EQ(0, module_unload(variant->pmu));
}

/*
 * The last sample that PERF_EVENT_IOC_REFRESH allows must not be deferred, even if a
 * driver takes the callchain before perf_event_overflow() counts the sample.
 */
TEST_F_TIMEOUT(clock, last_of_refresh_is_immediate, 60)
{
	const unsigned int nr = 5;
	struct perf_event_attr attr;
	struct defer_stats st;
	unsigned int i;
	__u64 end;

	if (!variant->pmu || variant->freq || variant->system_wide ||
	    variant->exclude_kernel)
		SKIP(return, "only for the plain variants of the PMU");
	attr = event_attr(self->type, 2, 1000000, BOTH);
	attr.exclude_user = variant->exclude_user;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_REFRESH, nr));
	end = now_nsec() + 30 * NSEC_PER_SEC;
	for (i = 0; i < nr && now_nsec() < end; ) {
		known_walk_spin(ID, BITS, 10000);
		known_walk_syscall(ID, BITS, __NR_getpgid, 0, 0);
		session_drain(&self->s);
		ASSERT_EQ(0, log_parse(&self->s.log));
		i = log_count(&self->s.log, PERF_RECORD_SAMPLE);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	ASSERT_EQ(nr, st.samples);
	EXPECT_EQ(0, st.lost);
	EXPECT_EQ(0, SAMPLE(nr - 1)->cookie);
	EXPECT_LT(0, st.cookies);
	/*
	 * Only samples of the same kernel entry as the last sample may lack a record.
	 */
	for (i = 0; i < nr; i++) {
		if (SAMPLE(i)->cookie && !defer_find_record(&self->s.log, SAMPLE(i)->cookie))
			EXPECT_EQ(SAMPLE(nr - 2)->cookie, SAMPLE(i)->cookie);
	}
	EXPECT_GE(st.records + 1, st.cookies);
}

/*
 * A request in an NMI from user mode is served before user code goes on. So user code that
 * looks at its own buffer never finds a sample there without its record.
 */
TEST_F_TIMEOUT(clock, record_comes_before_user_code, 60)
{
	unsigned long mask, head, last, pos, i;
	unsigned int samples = 0, late = 0;
	const struct perf_event_header *h;
	struct perf_event_attr attr;
	volatile const char *data;
	__u64 end;

	if (!variant->pmu || !variant->exclude_kernel)
		SKIP(return, "only for samples of user mode in NMIs");
	attr = event_attr(self->type, variant->config, 1000000, BOTH);
	attr.exclude_kernel = 1;
	/* No wakeup: its interrupt would serve the request, too. */
	attr.watermark = 1;
	attr.wakeup_watermark = 1 << 20;
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	data = (char *)self->s.bufs[0].page + self->s.bufs[0].page->data_offset;
	mask = self->s.bufs[0].page->data_size - 1;
	/* Nor may a page fault. */
	for (i = 0; i <= mask; i += 4096)
		(void)data[i];
	ASSERT_EQ(0, session_enable(&self->s));
	last = __atomic_load_n(&self->s.bufs[0].page->data_head, __ATOMIC_ACQUIRE);
	end = now_nsec() + 30 * NSEC_PER_SEC;
	while (samples < 200 && now_nsec() < end) {
		/* Some milliseconds without a system call. */
		for (i = 0; i < 1000000; i++) {
			head = __atomic_load_n(&self->s.bufs[0].page->data_head,
					       __ATOMIC_ACQUIRE);
			if (head == last)
				continue;
			h = NULL;
			for (pos = last; pos != head; pos += h->size) {
				h = (const void *)(data + (pos & mask));
				samples += h->type == PERF_RECORD_SAMPLE;
			}
			late += h->type == PERF_RECORD_SAMPLE;
			last = head;
		}
	}
	TH_LOG("%u samples, %u late records", samples, late);
	EXPECT_LE(20, samples);
	EXPECT_EQ(0, late);
}

/*
 * Two seconds of user mode, system calls, page faults, context switches and sleep, with
 * one sample per millisecond.
 */
TEST_F_TIMEOUT(clock, conservation, 90)
{
	unsigned int i, spins = 0, calls = 0, entry = 0, wrong = 0, other = 0;
	struct perf_event_attr attr, out;
	struct timespec ts = { .tv_nsec = 300000 };
	struct defer_stats st;
	struct event_log *log = &self->s.log;
	__u64 now, end, limit, n, spin_end;
	char *buf;

	attr = event_attr(self->type, variant->config, 1000000,
			  DEFER_ATTR_CALLCHAIN);
	attr.exclude_user = variant->exclude_user;
	attr.exclude_kernel = variant->exclude_kernel;
	if (variant->freq) {
		attr.freq = 1;
		attr.sample_freq = 900;
	}
	buf = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, buf);
	/* Output ends after sampling, so that all requests get a record. */
	out = defer_attr_output();
	ASSERT_EQ(0, session_open(&self->s, &out,
				  variant->system_wide ? -1 : 0,
				  variant->system_wide ? ALL_CPUS :
							       -1, 512));
	ASSERT_EQ(0, session_add(&self->s, &attr)) {
		TH_LOG("%s", strerror(errno));
	}
	ASSERT_EQ(0, session_enable(&self->s));
	/* Two seconds, or as long as a slow machine needs for enough samples. */
	end = now_nsec() + 2 * NSEC_PER_SEC;
	limit = end + 30 * NSEC_PER_SEC;
	n = 0;
	do {
		/* The kernel takes most of the time on a slow machine. */
		spin_end = now_nsec() + NSEC_PER_SEC / 100;
		do {
			known_walk_spin(ID, BITS, 400000);
		} while (now_nsec() < spin_end);
		for (i = 0; i < 50; i++)
			known_walk_syscall(ID, BITS, __NR_getpgid, 0, 0);
		madvise(buf, 1 << 20, MADV_DONTNEED);
		for (i = 0; i < 1 << 20; i += 4096)
			buf[i] = 1;
		if (n++ % 4 == 0)
			nanosleep(&ts, NULL);
		session_drain(&self->s);
		now = now_nsec();
	} while (now < end || (log->len < ENOUGH && now < limit));
	for (i = 0; i < self->s.nr_bufs; i++)
		ASSERT_EQ(0, ioctl(self->s.bufs[i].extra[0],
				   PERF_EVENT_IOC_DISABLE, 0));
	usleep(100000);
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(log);
	if (variant->system_wide) {
		/* Other tasks may sit in the kernel; this one does not. */
		defer_print(&st);
		log_keep_pid(log, getpid());
		st = defer_conserve(log);
	}
	EXPECT_CONSERVED(&st);
	EXPECT_EQ(0, st.lost);
	EXPECT_LT(50, st.deferred);
	EXPECT_EQ(0, st.kernel_only);

	for (i = 0; i < log->nr_items; i++) {
		const struct log_item *it = &log->items[i];
		const __u64 *ips = NULL;
		int nr, nr_want;

		if (!is_sample(it))
			continue;
		if (variant->exclude_kernel)
			EXPECT_EQ(PERF_RECORD_MISC_USER, it->misc & 7);
		if (variant->exclude_user)
			EXPECT_EQ(PERF_RECORD_MISC_KERNEL, it->misc & 7);
		entry += it->ip >= self->entry_start && it->ip < self->entry_end;
		if (!it->cookie)
			stack_dump("immediate", it->ips, it->nr);
		nr = defer_user_chain(log, it, &ips);
		if (nr < 1)
			continue;
		if (ips[0] >= (__u64)walk_spin &&
		    ips[0] < (__u64)walk_spin_end) {
			spins++;
		} else if (ips[0] == (__u64)walk_syscall_ip) {
			calls++;
		} else {
			other++;
			continue;
		}
		nr_want = known_expect(self->want, ID, BITS, (void *)ips[0]);
		if (nr == nr_want && !memcmp(ips, self->want, 8 * nr))
			continue;
		if (!wrong++)
			stack_same(ips, nr, self->want, nr_want);
	}
	TH_LOG("%u in the spin, %u in system calls, %u elsewhere, %u in entry code, %u wrong",
	       spins, calls, other, entry, wrong);
	EXPECT_EQ(0, wrong);
	/* Nothing bars deferral for a plain task. */
	EXPECT_EQ(0, st.immediate);
	if (!variant->exclude_user)
		EXPECT_LT(10, spins);
	munmap(buf, 1 << 20);
}

/* Guests */

FIXTURE(guest) {
	struct session s;
	bool unload;
};

FIXTURE_SETUP(guest)
{
	const char *why;

	require(_metadata);
	if (_metadata->exit_code)
		return;
	/* Only one may register, and the kernel warns about a second one. */
	if (!access("/sys/module/kvm_intel", F_OK) ||
	    !access("/sys/module/kvm_amd", F_OK))
		SKIP(return, "KVM has registered its guest callbacks");
	self->unload = access("/sys/module/perf_fake_guest", F_OK);
	why = module_load("perf_fake_guest");
	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN(guest)
{
	session_close(&self->s);
	if (self->unload)
		EXPECT_EQ(0, module_unload("perf_fake_guest"));
}

/*
 * What a guest runs has nothing to do with the user stack of its VMM: no
 * request is made, neither in NMI nor in task context, neither for the guest's
 * user mode nor for its kernel.
 */
TEST_F(guest, no_request)
{
	const char *param = "/sys/module/perf_fake_guest/parameters/";
	struct perf_event_attr attr;
	unsigned int i, user, nr_guest = 0;
	struct defer_stats st;
	char path[128];
	__u64 addr;

	addr = kallsyms("__x64_sys_getpgid");
	attr = event_attr(PERF_TYPE_TRACEPOINT,
			  TRACEPOINT_ID("syscalls/sys_exit_getpgid"), 1,
			  BOTH);
	ASSERT_EQ(0, session_open(&self->s, &attr, 0, -1, SESSION_PAGES));
	if (addr) {
		attr = event_attr_breakpoint(addr, BOTH);
		ASSERT_EQ(0, session_add(&self->s, &attr));
	}
	ASSERT_EQ(0, session_enable(&self->s));
	/* No guest, guest kernel, guest user, no guest. */
	for (i = 0; i < 4; i++) {
		bool on = i == 1 || i == 2;

		user = i == 2;
		snprintf(path, sizeof(path), "%sguest_user", param);
		ASSERT_EQ(0, write_long(path, user));
		snprintf(path, sizeof(path), "%stgid", param);
		ASSERT_EQ(0, write_long(path, on ? getpid() : 0));
		known_walk_syscall(i, BITS, __NR_getpgid, 0, 0);
	}
	ASSERT_EQ(0, session_finish(&self->s));
	st = defer_conserve(&self->s.log);
	EXPECT_CONSERVED(&st);
	ASSERT_EQ(addr ? 8 : 4, st.samples);
	EXPECT_EQ(addr ? 4 : 2, st.deferred);
	EXPECT_EQ(2, st.records);
	for (i = 0; i < st.samples; i++) {
		const struct log_item *it = SAMPLE(i);
		__u32 mode = it->misc & PERF_RECORD_MISC_CPUMODE_MASK;

		if (mode == PERF_RECORD_MISC_GUEST_KERNEL ||
		    mode == PERF_RECORD_MISC_GUEST_USER) {
			EXPECT_EQ(0, it->cookie);
			EXPECT_EQ(0x1234000, it->ip);
			nr_guest++;
		} else {
			EXPECT_NE(0, it->cookie);
		}
	}
	/* The guest's samples must be there, else this shows nothing. */
	EXPECT_EQ(st.samples / 2, nr_guest);
}

TEST_HARNESS_MAIN
