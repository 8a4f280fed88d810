/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What stackrec writes and stackcmp reads: a header, then records of perf as
 * the kernel wrote them, in any order, but for samples, whose copy of the stack
 * is cut to what there was.
 */
#ifndef STACKREC_H
#define STACKREC_H

#include <linux/perf_event.h>
#include <linux/types.h>

/* The ABI of deferral; headers of the build may be older than the kernel. */
#define STACKREC_CALLCHAIN_DEFERRED	22
#define STACKREC_CONTEXT_DEFERRED	((__u64)-640)
#define STACKREC_ATTR_CALLCHAIN		(1ULL << 38)
#define STACKREC_ATTR_OUTPUT		(1ULL << 39)

#define STACKREC_MAGIC			0x6365726b63617473ULL

#define STACKREC_SAMPLE_TYPE						\
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |		\
	 PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |		\
	 PERF_SAMPLE_STACK_USER)

/* Registers, in the order of perf: ax to ip, r8 to r15. */
#define STACKREC_REGS_MASK		0x00ff01ffULL
#define STACKREC_REGS			17

struct stackrec_header {
	__u64	magic;
	/* Bytes of the vDSO's image, which follows. */
	__u64	vdso_size;
};

#endif /* STACKREC_H */
