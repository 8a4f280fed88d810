// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel callchains from each kind of registers that perf gets: those of the
 * hardware (breakpoints, NMIs), the few that a tracepoint or a function event
 * makes up, and those of kprobes and kretprobes; in samples and in the stack
 * helpers of BPF programs.  test_modules/perf_chain has calls in a known order,
 * with a frame pointer of 0 if the kernel has no frame pointers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

#include "../kselftest_harness.h"
#include "lib/bpf.h"
#include "lib/event.h"
#include "lib/files.h"
#include "lib/session.h"

#define RUN		"/sys/module/perf_chain/parameters/run"
#define PROBE		"/sys/module/perf_chain/parameters/probe"
#define DEPTH		64
/* How long a run spins for a time-based event, in microseconds. */
#define SPIN		"200000"
/* Number of runs, in case the machine is busy. */
#define SPINS		5
#define PERIOD		1000000

struct range {
	const char	*name;
	__u64		start;
	__u64		end;
};

static struct range ranges[] = {
	{ "perf_chain_spin" },
	{ "perf_chain_leaf" },
	{ "perf_chain_middle" },
	{ "perf_chain_zero" },
	{ "perf_chain_outer" },
	{ "vfs_write" },
	{ "ksys_write" },
	{ "do_syscall_64" },
	{ "entry_SYSCALL_64_after_hwframe" },
};

/* Each ends where another symbol begins. */
static int read_ranges(void)
{
	unsigned long long addr;
	char line[512], sym[256];
	unsigned int i, found = 0;
	FILE *f;

	f = fopen("/proc/kallsyms", "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %*c %255s", &addr, sym) != 2)
			continue;
		for (i = 0; i < ARRAY_SIZE(ranges); i++) {
			if (!strcmp(sym, ranges[i].name)) {
				ranges[i].start = addr;
				ranges[i].end = addr + 4096;
			}
		}
	}
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		addr = strtoull(line, NULL, 16);
		for (i = 0; i < ARRAY_SIZE(ranges); i++) {
			if (addr > ranges[i].start && addr < ranges[i].end)
				ranges[i].end = addr;
		}
	}
	fclose(f);
	for (i = 0; i < ARRAY_SIZE(ranges); i++)
		found += ranges[i].start != 0;
	return found == ARRAY_SIZE(ranges) ? 0 : -1;
}

static const char *name_of(__u64 ip)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ranges); i++) {
		if (ip >= ranges[i].start && ip < ranges[i].end)
			return ranges[i].name;
	}
	return NULL;
}

/*
 * The chain has perf_chain's functions from "first" on, each once, in order and with
 * nothing between. After them come those of a write, up to the entry of the system
 * call. Up to "above" entries of the tracepoint or the probe itself may come before
 * them.
 */
static bool right(const __u64 *ips, int nr, const char *first, int above)
{
	int i = 0, r = 0, at;

	while (r < (int)ARRAY_SIZE(ranges) && strcmp(ranges[r].name, first))
		r++;
	while (i < nr && i < above && name_of(ips[i]) != first)
		i++;
	for (at = i; r < 5; r++, at++) {
		if (at >= nr || name_of(ips[at]) != ranges[r].name)
			goto wrong;
	}
	for (; at < nr && r < (int)ARRAY_SIZE(ranges); at++) {
		if (name_of(ips[at]) == ranges[r].name)
			r++;
	}
	if (r == ARRAY_SIZE(ranges) && at == nr)
		return true;
wrong:
	printf("# not the chain of %s:\n", first);
	for (i = 0; i < nr; i++)
		printf("#   %llx %s\n", (unsigned long long)ips[i],
		       name_of(ips[i]) ?: "");
	return false;
}

enum source {
	BREAKPOINT,
	NMI,
	CLOCK,
	TRACEPOINT,
	KPROBE,
	KPROBE_MIDDLE,
	KRETPROBE,
	PROBED,
	FUNCTION,
	RAW_TRACEPOINT,
	NR_SOURCES,
};

FIXTURE(chain) {
	struct session s;
	struct perf_event_attr attr;
	const char *name;
	const char *first;
	__u64 stack[DEPTH];
	int above;
	int map;
	int stacks;
	int prog;
	int link;
	bool loaded;
	bool loaded_nmi;
};

FIXTURE_VARIANT(chain) {
	enum source source;
};

/* Registers of the hardware, in NMI and in interrupt context. */
FIXTURE_VARIANT_ADD(chain, breakpoint) {
	.source = BREAKPOINT,
};

FIXTURE_VARIANT_ADD(chain, nmi) {
	.source = NMI,
};

FIXTURE_VARIANT_ADD(chain, clock) {
	.source = CLOCK,
};

/* Instruction pointer, stack pointer and no frame pointer. */
FIXTURE_VARIANT_ADD(chain, tracepoint) {
	.source = TRACEPOINT,
};

FIXTURE_VARIANT_ADD(chain, function) {
	.source = FUNCTION,
};

/* The probed function begins, is under way, has returned. */
FIXTURE_VARIANT_ADD(chain, kprobe) {
	.source = KPROBE,
};

FIXTURE_VARIANT_ADD(chain, kprobe_middle) {
	.source = KPROBE_MIDDLE,
};

FIXTURE_VARIANT_ADD(chain, kretprobe) {
	.source = KRETPROBE,
};

/* The event is in a kprobe handler: the registers are in the middle of the stack. */
FIXTURE_VARIANT_ADD(chain, probed) {
	.source = PROBED,
};

/* For BPF only. */
FIXTURE_VARIANT_ADD(chain, raw_tracepoint) {
	.source = RAW_TRACEPOINT,
};

static int run(const char *usecs)
{
	return write_text(RUN, "%s", usecs);
}

/* Also called if the setup skips, because there is no teardown then. */
static int unload(FIXTURE_DATA(chain) *self)
{
	int ret = 0;

	if (self->loaded_nmi)
		ret |= module_unload("perf_nmi_pmu");
	if (self->loaded)
		ret |= module_unload("perf_chain");
	return ret;
}

FIXTURE_SETUP(chain)
{
	struct perf_event_attr *attr = &self->attr;
	const char *why = module_load("perf_chain");
	long type;

	self->map = -1;
	self->stacks = -1;
	self->prog = -1;
	self->link = -1;
	if (why)
		SKIP(return, "%s", why);
	self->loaded = true;
	if (read_ranges())
		SKIP(unload(self); return, "addresses are not in /proc/kallsyms");

	attr->size = sizeof(*attr);
	attr->disabled = 1;
	attr->exclude_callchain_user = 1;
	attr->sample_period = 1;
	attr->sample_type = EVENT_SAMPLE_TYPE;
	attr->sample_id_all = 1;
	attr->watermark = 1;
	attr->wakeup_watermark = 1 << 20;
	self->first = "perf_chain_leaf";
	switch (variant->source) {
	case BREAKPOINT:
		attr->type = PERF_TYPE_BREAKPOINT;
		attr->bp_addr = ranges[1].start;
		attr->bp_type = HW_BREAKPOINT_X;
		attr->bp_len = sizeof(long);
		break;
	case NMI:
		if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
			SKIP(unload(self); return, "perf_nmi_pmu needs two CPUs");
		why = module_load("perf_nmi_pmu");
		if (why)
			SKIP(unload(self); return, "%s", why);
		self->loaded_nmi = true;
		attr->type = pmu_type("perf_nmi_pmu");
		attr->sample_period = PERIOD;
		self->first = "perf_chain_spin";
		break;
	case CLOCK:
		attr->type = PERF_TYPE_SOFTWARE;
		attr->config = PERF_COUNT_SW_CPU_CLOCK;
		attr->sample_period = PERIOD;
		self->first = "perf_chain_spin";
		break;
	case TRACEPOINT:
	case RAW_TRACEPOINT:
		attr->type = PERF_TYPE_TRACEPOINT;
		attr->config = TRACEPOINT_ID("perf_chain/perf_chain_leaf");
		/* __traceiter_perf_chain_leaf() calls what takes the sample. */
		self->above = 1;
		break;
	case PROBED:
		if (write_text(PROBE, "1"))
			SKIP(unload(self); return, "no kprobe: %s", strerror(errno));
		attr->type = PERF_TYPE_TRACEPOINT;
		attr->config = TRACEPOINT_ID("perf_chain/perf_chain_probed");
		self->first = "perf_chain_zero";
		/* The handler, and how the kernel gets to it. */
		self->above = 16;
		break;
	case FUNCTION:
		attr->type = PERF_TYPE_TRACEPOINT;
		attr->config = TRACEPOINT_ID("ftrace/function");
		/* Only root may open this event, and only without user callchains. */
		attr->exclude_user = 1;
		/* The function calls a trampoline, which calls what takes the sample. */
		self->above = 1;
		break;
	case KPROBE:
	case KPROBE_MIDDLE:
	case KRETPROBE:
		type = pmu_type("kprobe");
		if (type < 0)
			SKIP(unload(self); return, "no kprobe PMU (CONFIG_KPROBE_EVENTS?)");
		attr->type = type;
		attr->config = variant->source == KRETPROBE;
		self->name = "perf_chain_leaf";
		/* After the ftrace call, which a kprobe cannot be inside of. */
		if (variant->source == KPROBE_MIDDLE)
			attr->config2 = 5;
		attr->config1 = (uintptr_t)self->name;
		/* The leaf has been left when its return probe fires. */
		if (variant->source == KRETPROBE) {
			self->first = "perf_chain_middle";
			self->above = 1;
		}
		break;
	default:
		break;
	}
}

FIXTURE_TEARDOWN(chain)
{
	close(self->link);
	session_close(&self->s);
	close(self->prog);
	close(self->stacks);
	close(self->map);
	EXPECT_EQ(0, unload(self));
}

static int open_event(FIXTURE_DATA(chain) *self, enum source source)
{
	if (session_open(&self->s, &self->attr, 0, -1, SESSION_PAGES)) {
		if (source != KPROBE_MIDDLE)
			return -1;
		/* A landing pad comes first. */
		self->attr.config2 += 4;
		if (session_open(&self->s, &self->attr, 0, -1,
				 SESSION_PAGES))
			return -1;
	}
	if (source != FUNCTION)
		return 0;
	return ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_FILTER,
		     "ip == perf_chain_leaf");
}

static bool not_here(void)
{
	return errno == ENOENT || errno == EOPNOTSUPP || errno == ENOSPC;
}

static bool by_time(enum source source)
{
	return source == NMI || source == CLOCK;
}

/* Copies the kernel part of a sample's chain; returns its length. */
static int kernel_part(const struct log_item *it, __u64 *ips)
{
	unsigned int i;
	int nr = 0;
	bool kernel = false;

	for (i = 0; i < it->nr && nr < DEPTH; i++) {
		__u64 ip = it->ips[i];

		if (ip >= PERF_CONTEXT_MAX)
			kernel = ip == (__u64)PERF_CONTEXT_KERNEL;
		else if (kernel)
			ips[nr++] = ip;
	}
	return nr;
}

TEST_F_TIMEOUT(chain, sample, 120)
{
	unsigned int i, nr_samples = 0, nr_right = 0;
	const struct log_item *it;

	if (variant->source == RAW_TRACEPOINT)
		SKIP(return, "not an event");
	if (open_event(self, variant->source)) {
		if (not_here())
			SKIP(return, "no such event: %s", strerror(errno));
		ASSERT_EQ(0, errno);
	}
	ASSERT_EQ(0, session_enable(&self->s));
	if (by_time(variant->source)) {
		for (i = 0; i < SPINS; i++)
			ASSERT_EQ(0, run(SPIN));
	} else {
		ASSERT_EQ(0, run("1"));
	}
	ASSERT_EQ(0, session_finish(&self->s));
	for (i = 0; (it = log_nth(&self->s.log, PERF_RECORD_SAMPLE, i)); i++) {
		__u64 ips[DEPTH];
		int nr = kernel_part(it, ips);

		/* Time-based events also sample other code. */
		if (by_time(variant->source) &&
		    (!nr || name_of(ips[0]) != ranges[0].name))
			continue;
		nr_samples++;
		nr_right += right(ips, nr, self->first, self->above);
	}
	ASSERT_LE(by_time(variant->source) ? 3 : 1, nr_samples);
	if (!by_time(variant->source))
		ASSERT_EQ(1, nr_samples);
	EXPECT_EQ(nr_samples, nr_right);
}

/*
 * bpf_get_stack() and bpf_get_stackid() with the kernel's part, where the event
 * has no callchain of its own to copy from.
 */
static int prog_stack(__u32 type, int map, int stacks)
{
	const struct bpf_insn insns[] = {
		LOOKUP_FIRST(map, 14),
		MOV_REG(BPF_REG_1, BPF_REG_6),
		MOV_REG(BPF_REG_2, BPF_REG_7),
		ADD_IMM(BPF_REG_2, 16),
		MOV_IMM(BPF_REG_3, DEPTH * 8),
		MOV_IMM(BPF_REG_4, 0),
		CALL(BPF_FUNC_get_stack),
		STX_DW(BPF_REG_7, 0, BPF_REG_0),
		MOV_REG(BPF_REG_1, BPF_REG_6),
		LD_MAP(BPF_REG_2, stacks),
		LD_MAP_REST,
		MOV_IMM(BPF_REG_3, BPF_F_REUSE_STACKID),
		CALL(BPF_FUNC_get_stackid),
		STX_DW(BPF_REG_7, 8, BPF_REG_0),
		MOV_IMM(BPF_REG_0, 0),
		EXIT_INSN(),
	};

	return prog_load(type, insns, ARRAY_SIZE(insns));
}

struct stack_value {
	__s64 size;
	__s64 id;
	__u64 ips[DEPTH];
};

TEST_F_TIMEOUT(chain, bpf, 120)
{
	struct stack_value value = {};
	__u64 ips[DEPTH] = {};
	__u32 type;
	int nr;

	switch (variant->source) {
	case TRACEPOINT:
	case PROBED:
		type = BPF_PROG_TYPE_TRACEPOINT;
		break;
	case RAW_TRACEPOINT:
		type = BPF_PROG_TYPE_RAW_TRACEPOINT;
		break;
	case KPROBE:
	case KPROBE_MIDDLE:
	case KRETPROBE:
		type = BPF_PROG_TYPE_KPROBE;
		break;
	case BREAKPOINT:
		type = BPF_PROG_TYPE_PERF_EVENT;
		break;
	default:
		SKIP(return, "not tested with BPF programs");
	}
	self->map = map_create(BPF_MAP_TYPE_ARRAY, sizeof(value), 1);
	if (self->map < 0)
		SKIP(return, "bpf(BPF_MAP_CREATE): %s", strerror(errno));
	self->stacks = map_create(BPF_MAP_TYPE_STACK_TRACE, DEPTH * 8, 16);
	if (self->stacks < 0)
		SKIP(return, "no stack trace map: %s", strerror(errno));
	self->prog = prog_stack(type, self->map, self->stacks);
	ASSERT_LE(0, self->prog);
	if (variant->source == RAW_TRACEPOINT) {
		union bpf_attr attr = {
			.raw_tracepoint = {
				.name = (uintptr_t)"perf_chain_leaf",
				.prog_fd = self->prog,
			},
		};

		self->link = sys_bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
		ASSERT_LE(0, self->link) {
			TH_LOG("%s", strerror(errno));
		}
		self->above = 2;
		ASSERT_EQ(0, run("1"));
	} else {
		self->attr.sample_type &= ~PERF_SAMPLE_CALLCHAIN;
		if (open_event(self, variant->source)) {
			if (not_here())
				SKIP(return, "no such event: %s", strerror(errno));
			ASSERT_EQ(0, errno);
		}
		ASSERT_EQ(0, ioctl(self->s.bufs[0].fd, PERF_EVENT_IOC_SET_BPF,
				   self->prog)) {
			TH_LOG("%s", strerror(errno));
		}
		ASSERT_EQ(0, session_enable(&self->s));
		ASSERT_EQ(0, run("1"));
		ASSERT_EQ(0, session_disable(&self->s));
	}
	ASSERT_EQ(0, map_lookup(self->map, 0, &value));
	ASSERT_LT(0, value.size) {
		TH_LOG("bpf_get_stack() returned %lld", (long long)value.size);
	}
	EXPECT_TRUE(right(value.ips, value.size / 8, self->first, self->above));
	ASSERT_LE(0, value.id) {
		TH_LOG("bpf_get_stackid() returned %lld", (long long)value.id);
	}
	ASSERT_EQ(0, map_lookup(self->stacks, value.id, ips));
	for (nr = 0; nr < DEPTH && ips[nr]; nr++)
		;
	EXPECT_TRUE(right(ips, nr, self->first, self->above));
}

/*
 * Samples at each instruction of a function, also before it has set up its frame and
 * after it has left it. At addresses between instructions no breakpoint is hit.
 */
TEST(instructions)
{
	const char *why = module_load("perf_chain");
	const struct range *range = &ranges[2];
	unsigned int nr_samples = 0, nr_right = 0;
	__u64 addr;

	if (why)
		SKIP(return, "%s", why);
	if (read_ranges())
		SKIP(module_unload("perf_chain"); return,
		     "addresses are not in /proc/kallsyms");
	for (addr = range->start; addr < range->end; addr++) {
		struct perf_event_attr attr = {
			.type = PERF_TYPE_BREAKPOINT,
			.size = sizeof(attr),
			.bp_addr = addr,
			.bp_type = HW_BREAKPOINT_X,
			.bp_len = sizeof(long),
			.disabled = 1,
			.exclude_callchain_user = 1,
			.sample_period = 1,
			.sample_type = EVENT_SAMPLE_TYPE,
			.sample_id_all = 1,
			.watermark = 1,
			.wakeup_watermark = 1 << 20,
		};
		struct session session = {};
		const struct log_item *it;
		__u64 ips[DEPTH];

		if (session_open(&session, &attr, 0, -1, SESSION_PAGES)) {
			if (not_here())
				SKIP(module_unload("perf_chain"); return,
				     "no such event: %s", strerror(errno));
			ASSERT_EQ(0, errno);
		}
		ASSERT_EQ(0, session_enable(&session));
		ASSERT_EQ(0, run("1"));
		ASSERT_EQ(0, session_finish(&session));
		it = log_nth(&session.log, PERF_RECORD_SAMPLE, 0);
		if (it) {
			nr_samples++;
			if (right(ips, kernel_part(it, ips), range->name, 0))
				nr_right++;
			else
				TH_LOG("%s+%llu", range->name,
				       (unsigned long long)(addr - range->start));
		}
		session_close(&session);
	}
	/*
	 * At least an instruction before the call, the call, one after it, and the
	 * return.
	 */
	EXPECT_LE(4, nr_samples);
	EXPECT_EQ(nr_samples, nr_right);
	EXPECT_EQ(0, module_unload("perf_chain"));
}

TEST_HARNESS_MAIN
