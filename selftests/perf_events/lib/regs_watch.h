/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User registers, user stack and user callchain of samples of a target, a process that
 * enters the kernel in one way for ever.
 */
#ifndef SELFTESTS_PERF_EVENTS_REGS_WATCH_H
#define SELFTESTS_PERF_EVENTS_REGS_WATCH_H

#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include <sys/types.h>

#define NMI_PMU		"perf_nmi_pmu"
#define NMI_PMU_SKID	1

/* In the order of enum perf_event_x86_regs, which only x86 has. */
enum {
	AX, BX, CX, DX, SI, DI, BP, SP, IP, FLAGS, CS, SS,
	R8, R9, R10, R11, R12, R13, R14, R15,
	NR_REGS
};

/* ds, es, fs and gs are between ss and r8. */
#define REGS_MASK	0xff0fffULL

#define FLAGS_RF	0x10000
/* CF, PF, AF, ZF, SF, OF */
#define FLAGS_ARITHMETIC 0x8d5
/* IF, and the bit that is always set */
#define FLAGS_USER	0x202

/* Not a user address, whatever it is. */
#define KERNEL_IP(ip)	((__s64)(ip) < 0)

/* A run has hundreds of samples in the kernel, in a loaded emulator far fewer. */
#define RUN_MSEC	1500
#define MIN_SAMPLES	20
/* A program without system calls enters the kernel only for timer interrupts. */
#define MIN_INTERRUPTED	3

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

/* An event with samples of user registers, user stack and callchain. */
struct perf_event_attr regs_attr(__u32 type, __u64 config, __u64 period);

/* Select timer interrupts or the module's NMIs. NULL, or why that failed. */
const char *sampler(bool irq, long *type, bool *unload);

/* Where the kernel's entry code is; 0 if addresses are hidden. */
void find_entry_text(__u64 *start, __u64 *end);

/* Open the event and map its buffer.  NULL, or why that fails. */
const char *watch_open(struct watch *w, struct perf_event_attr *attr);

/* Does the target still run? */
bool watch_alive(struct watch *w);

/* Let the target run under the event for a while; false if it has ended. */
bool watch_run(struct watch *w, unsigned int msec);

/* The next sample; lets the target run again if there were too few. */
bool watch_next(struct watch *w, struct sample *s);

/* End the target and the event. */
void watch_close(struct watch *w);

/* Did the interrupt of an event that excludes the kernel arrive in the kernel? */
bool late_sample(const struct sample *s, __u64 type);

/* The expected ax and flags before, in and after a system call. */
void expect_ax_flags(const __u64 *regs, __u64 *want, __u64 nr, __u64 result);

/* How many registers are wrong; says which, of the first few samples. */
unsigned int compare(const struct sample *s, const __u64 *want,
		     unsigned int nr_said);

/* The user part of the callchain: its length, 0 if there is none. */
unsigned int user_chain(const struct sample *s, const __u64 **ips);

/* Print what was counted. */
void print_counts(const struct counts *c);

/* Count a sample without registers. */
void count_none(const struct sample *s, struct counts *c);

#endif /* SELFTESTS_PERF_EVENTS_REGS_WATCH_H */
