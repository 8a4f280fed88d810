// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of immediate and deferred user callchains, by the depth of the stack
 *
 * Prints cycles of the time stamp counter. They are comparable within one run
 * only; in a virtual machine whose counter ticks once per instruction (QEMU with
 * -icount shift=0) they are instruction counts.
 *
 * "sample": what the user part adds to a sample in its own context. One system call
 * takes many page faults, each with a sample, so the one deferred walk on return to
 * user mode is spread over all of them. The cost of a fault that has a sample without a
 * callchain is measured and subtracted.
 *
 * "entry": what the user part of one sample adds to a system call, including the walk
 * and the record.
 *
 * "switch": the same for a system call that sleeps until another task has answered, and
 * what it costs while somebody profiles a third task.
 *
 * "off": a system call, a page fault and a switch to another task and back while nobody
 * profiles.
 *
 * "regs": what PERF_SAMPLE_REGS_USER adds to a sample that is taken in an NMI within a
 * system call. Needs the module perf_nmi_pmu with external=1, which sends the NMIs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "../kselftest.h"

/* <linux/perf_event.h> may be older than the kernel: bits of the flags word. */
#define ATTR_DEFER_CALLCHAIN	0x4000000000ULL
#define ATTR_DEFER_OUTPUT	0x8000000000ULL

/* Enough to make the share of the walk small. All samples fit into the buffer. */
#define FAULTS			256
#define PAGES_OF_BUFFER		256
#define ROUNDS			15

/* ax to ss and r8 to r15: what the ABI has in 64-bit kernels */
#define ALL_REGS		0xff0fffULL

#define NMI_PMU_TYPE		"/sys/bus/event_source/devices/perf_nmi_pmu/type"
#define NMI_PMU_FIRE		"/sys/module/perf_nmi_pmu/parameters/fire"
#define MAX_STACK		"/proc/sys/kernel/perf_event_max_stack"

enum mode { OFF, NO_CHAIN, IMMEDIATE, DEFERRED, USER_REGS, NR_MODES };

static const char * const mode_names[] = {
	"off", "no callchain", "immediate", "deferred", "user registers"
};

static long page_size;
static int zero_fd;
/* Bytes of records of the last round */
static uint64_t written;
static char *fault_area;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void set_attr_bits(struct perf_event_attr *attr, uint64_t bits)
{
	uint64_t *flags = (uint64_t *)((char *)attr +
				       offsetof(struct perf_event_attr, read_format) + 8);

	*flags |= bits;
}

static int open_event(uint32_t type, uint64_t config, enum mode mode, pid_t pid)
{
	struct perf_event_attr attr = {
		.type		= type,
		.config		= config,
		.size		= sizeof(attr),
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_IP | PERF_SAMPLE_TID,
		.exclude_hv	= 1,
	};
	int fd;

	if (mode == IMMEDIATE || mode == DEFERRED)
		attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	if (mode == USER_REGS) {
		attr.sample_type |= PERF_SAMPLE_REGS_USER;
		attr.sample_regs_user = ALL_REGS;
	}
	/* The kernel part costs the same in all modes; leave it out. */
	attr.exclude_callchain_kernel = 1;
	if (mode == DEFERRED)
		set_attr_bits(&attr, ATTR_DEFER_CALLCHAIN | ATTR_DEFER_OUTPUT);
	attr.sample_max_stack = 0;

	fd = syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		die("perf_event_open");
	return fd;
}

static int read_number(const char *path)
{
	char buf[32] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return -1;
	if (read(fd, buf, sizeof(buf) - 1) < 0)
		buf[0] = 0;
	close(fd);
	return atoi(buf);
}

static int write_number(const char *path, int number)
{
	char buf[32];
	int len = snprintf(buf, sizeof(buf), "%d\n", number);
	int fd = open(path, O_WRONLY);
	int ret;

	if (fd < 0)
		return -1;
	ret = write(fd, buf, len) == len ? 0 : -1;
	close(fd);
	return ret;
}

static uint64_t measure_faults(void)
{
	uint64_t start, end;

	if (madvise(fault_area, FAULTS * page_size, MADV_DONTNEED))
		die("madvise");
	start = __rdtsc();
	/* The kernel's stores to the area fault, all in one system call. */
	if (read(zero_fd, fault_area, FAULTS * page_size) != FAULTS * page_size)
		die("read /dev/zero");
	end = __rdtsc();
	return (end - start) / FAULTS;
}

/* The C library's function may have neither a frame pointer nor SFrame. */
static __always_inline long raw_syscall(long nr, long a, const void *b, long c)
{
	asm volatile("syscall" : "+a" (nr) : "D" (a), "S" (b), "d" (c)
		     : "rcx", "r11", "memory");
	return nr;
}

static uint64_t measure_entry(void)
{
	uint64_t start = __rdtsc();

	raw_syscall(SYS_getppid, 0, NULL, 0);
	return __rdtsc() - start;
}

/* Pipes to a child that answers each byte, and from it */
static int to_child[2], from_child[2];

static pid_t start_child(bool answers)
{
	pid_t pid;
	char c;

	if (pipe(to_child) || pipe(from_child))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		/* Ends with its parent. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!answers)
			pause();
		while (read(to_child[0], &c, 1) == 1) {
			if (write(from_child[1], &c, 1) != 1)
				break;
		}
		_exit(0);
	}
	return pid;
}

static uint64_t measure_switch(void)
{
	uint64_t start = __rdtsc();
	char c = 0;

	raw_syscall(SYS_write, to_child[1], &c, 1);
	raw_syscall(SYS_read, from_child[0], &c, 1);
	return __rdtsc() - start;
}

static uint64_t measure_nmis(void)
{
	uint64_t start = __rdtsc();

	if (write_number(NMI_PMU_FIRE, FAULTS))
		die(NMI_PMU_FIRE);
	return (__rdtsc() - start) / FAULTS;
}

/*
 * One frame per level: the compiler must neither inline this nor make a loop of it.
 * WITHOUT_FRAME_POINTERS is for programs that are built with an SFrame section.
 */
#pragma GCC push_options
#ifndef WITHOUT_FRAME_POINTERS
#pragma GCC optimize("no-omit-frame-pointer")
#endif
static uint64_t at_depth(int depth, uint64_t (*measure)(void))
{
	uint64_t (*next)(int, uint64_t (*)(void)) = at_depth;
	uint64_t ret;

	asm volatile("" : "+r" (next));
	if (!depth)
		return measure();
	ret = next(depth - 1, measure);
	asm volatile("" : "+r" (ret));
	return ret;
}

#pragma GCC pop_options

/* The smallest of several rounds: interrupts only ever add. */
static uint64_t run(uint32_t type, uint64_t config, enum mode mode, int depth,
		    uint64_t (*measure)(void))
{
	uint64_t best = UINT64_MAX;
	void *ring = NULL;
	int i, fd = -1;

	if (mode != OFF) {
		fd = open_event(type, config, mode, 0);
		ring = mmap(NULL, (PAGES_OF_BUFFER + 1) * page_size,
			    PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ring == MAP_FAILED)
			die("mmap");
	}

	for (i = 0; i < ROUNDS; i++) {
		uint64_t t = at_depth(depth, measure);

		if (t < best)
			best = t;
		if (ring) {
			struct perf_event_mmap_page *page = ring;
			uint64_t head = __atomic_load_n(&page->data_head,
							__ATOMIC_ACQUIRE);

			/* Full buffers are cheap: never measure one. */
			written = head - page->data_tail;
			page->data_tail = head;
		}
	}

	if (ring) {
		munmap(ring, (PAGES_OF_BUFFER + 1) * page_size);
		close(fd);
	}
	return best;
}

static void table(const char *name, uint32_t type, uint64_t config,
		  uint64_t (*measure)(void))
{
	static const int depths[] = { 8, 32, 128 };
	uint64_t base = run(type, config, OFF, 8, measure);
	uint64_t none = run(type, config, NO_CHAIN, 8, measure);
	uint64_t first[NR_MODES] = { 0 };
	unsigned int i;
	enum mode mode;

	printf("%s: %s %llu\n", name, mode_names[OFF], (unsigned long long)base);
	printf("%s: %s %llu\n", name, mode_names[NO_CHAIN],
	       (unsigned long long)(none - base));
	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		for (mode = IMMEDIATE; mode <= DEFERRED; mode++) {
			uint64_t t = run(type, config, mode, depths[i], measure);

			/* What the user part adds to a sample. */
			t = t > none ? t - none : 0;
			if (!i)
				first[mode] = t;
			printf("%s: depth %3d %-9s %6llu ratio to depth 8: %.2f\n",
			       name, depths[i], mode_names[mode],
			       (unsigned long long)t,
			       first[mode] ? (double)t / first[mode] : 0);
		}
	}
}

/* A switch to another task and back, while a third one has an event of this kind */
static uint64_t with_third(pid_t third, enum mode mode)
{
	int fd = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, mode, third);
	uint64_t t = run(0, 0, OFF, 8, measure_switch);

	close(fd);
	return t;
}

/* A system call that sleeps: the stack is walked before */
static void switches(void)
{
	int id = read_number("/sys/kernel/tracing/events/syscalls/sys_enter_read/id");
	pid_t third = start_child(false);
	uint64_t off, none, deferred;

	start_child(true);
	off = run(0, 0, OFF, 8, measure_switch);
	none = with_third(third, NO_CHAIN);
	deferred = with_third(third, DEFERRED);
	printf("switch: event of another task %lld\n", (long long)(none - off));
	printf("switch: deferred event of another task %lld\n", (long long)(deferred - off));
	table("switch", PERF_TYPE_TRACEPOINT, id, measure_switch);
}

static int user_regs(void)
{
	int type = read_number(NMI_PMU_TYPE);
	uint64_t none, regs;

	if (type < 0) {
		printf("regs: skipped, no module perf_nmi_pmu\n");
		return 1;
	}
	none = run(type, 0, NO_CHAIN, 8, measure_nmis);
	/* Header, address and thread. Fewer bytes mean that the event was throttled. */
	if (written < FAULTS * 24) {
		printf("regs: samples are missing; raise perf_event_max_sample_rate\n");
		return 1;
	}
	regs = run(type, 0, USER_REGS, 8, measure_nmis);
	/* Plus the ABI and 20 registers. A few samples may have no registers. */
	if (written < FAULTS * (32 + 20 * 8) * 9 / 10) {
		printf("regs: samples or registers are missing\n");
		return 1;
	}
	printf("regs: a sample in an NMI %llu\n", (unsigned long long)none);
	printf("regs: %s add %lld\n", mode_names[USER_REGS], (long long)(regs - none));
	return 0;
}

int main(int argc, char **argv)
{
	bool off_only = argc > 1 && !strcmp(argv[1], "off");
	int id, max_stack;

	page_size = sysconf(_SC_PAGESIZE);
	zero_fd = open("/dev/zero", O_RDONLY);
	fault_area = mmap(NULL, FAULTS * page_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (zero_fd < 0 || fault_area == MAP_FAILED)
		die("setup");
	if (argc > 1 && !strcmp(argv[1], "regs"))
		return user_regs();
	madvise(fault_area, FAULTS * page_size, MADV_NOHUGEPAGE);

	if (off_only) {
		printf("off: getppid %llu\n", (unsigned long long)
		       run(0, 0, OFF, 8, measure_entry));
		printf("off: fault %llu\n", (unsigned long long)
		       run(0, 0, OFF, 8, measure_faults));
		start_child(true);
		printf("off: switch %llu\n", (unsigned long long)
		       run(0, 0, OFF, 8, measure_switch));
		return 0;
	}

	/* The default would cut the deepest stack. */
	max_stack = read_number(MAX_STACK);
	/* Writing fails with EBUSY while an event has callchains. */
	if (max_stack < 160 && write_number(MAX_STACK, 160))
		die(MAX_STACK);

	id = read_number("/sys/kernel/tracing/events/syscalls/sys_enter_getppid/id");
	table("sample", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, measure_faults);
	if (id < 0) {
		printf("entry: skipped, no tracefs or no syscall tracepoints\n");
	} else {
		table("entry", PERF_TYPE_TRACEPOINT, id, measure_entry);
		switches();
	}

	if (max_stack < 160)
		write_number(MAX_STACK, max_stack);
	return 0;
}
