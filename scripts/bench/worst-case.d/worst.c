// SPDX-License-Identifier: GPL-2.0
/*
 * What a user stack that is taken with the sample costs at most
 *
 * worst: takes samples of a system call, with and without a callchain in the sample, at the
 * end of 127 frames, and prints what the callchain adds, in cycles of the time stamp counter.  In
 * a guest whose counter ticks once per instruction (QEMU's -icount) these are instructions.
 *
 * The frames are made to be expensive: all are of one function with 8192 rows of call frame
 * information, and each returns to another address. "known" makes the same calls again and
 * again, whose rules the kernel remembers.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#define DEPTH	127
#define ROUNDS	15

#define SITES		"4096"
#define MAX_SITES	4096

static uint64_t cycles(void)
{
	return __rdtsc();
}

uint64_t taken;

/* At the end of the frames */
void at_the_end(void)
{
	uint64_t start = cycles();

	syscall(SYS_getppid);
	taken = cycles() - start;
}

/* Which call comes next: never one that has been made before, so that no rule is remembered */
uint64_t site;

/*
 * frames(n): calls itself n times, each time from the next SITE, then at_the_end(). Before each
 * SITE there are two more rows.
 */
void frames(long n);
asm(".text\n"
    ".type frames, @function\n"
    "frames:\n"
    "	.cfi_startproc\n"
    "	push	%rbp\n"
    "	.cfi_adjust_cfa_offset 8\n"
    "	.cfi_rel_offset %rbp, 0\n"
    "	mov	%rsp, %rbp\n"
    "	dec	%rdi\n"
    "	jz	1f\n"
    "	mov	site(%rip), %rax\n"
    "	incq	site(%rip)\n"
    "	shl	$4, %rax\n"
    "	lea	3f(%rip), %rdx\n"
    "	add	%rdx, %rax\n"
    "	jmp	*%rax\n"
    "	.balign	16\n"
    "3:\n"
    "	.rept	" SITES "\n"
    "	push	%rax\n"
    "	.cfi_adjust_cfa_offset 8\n"
    "	pop	%rax\n"
    "	.cfi_adjust_cfa_offset -8\n"
    "	call	frames\n"
    "	jmp	2f\n"
    "	.balign	16\n"
    "	.endr\n"
    "1:	call	at_the_end\n"
    "2:	pop	%rbp\n"
    "	.cfi_adjust_cfa_offset -8\n"
    "	.cfi_restore %rbp\n"
    "	ret\n"
    "	.cfi_endproc\n"
    ".size frames, . - frames\n");

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Median of some system calls that are sampled with this sample_type. Buffers are not read. If
 * @known, each round makes the same calls.
 */
static uint64_t measure(uint64_t config, uint64_t sample_type, bool known)
{
	struct perf_event_attr attr = {
		.type			 = PERF_TYPE_TRACEPOINT,
		.size			 = sizeof(attr),
		.config			 = config,
		.sample_period		 = 1,
		.sample_type		 = sample_type,
		.exclude_callchain_kernel = 1,
	};
	uint64_t all[ROUNDS];
	int fd, i;

	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 || mmap(NULL, 4096 * 65, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED) {
		perror("perf_event_open");
		exit(1);
	}
	for (i = 0; i < ROUNDS; i++) {
		if (known || site + DEPTH > MAX_SITES)
			site = 0;
		frames(DEPTH - 3);
		all[i] = taken;
		/* The kernel has been asked for rules, and has them now. */
		usleep(known ? 200000 : 0);
	}
	close(fd);
	qsort(all, ROUNDS, sizeof(all[0]), compare);
	return all[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	FILE *file = fopen("/sys/kernel/tracing/events/syscalls/sys_enter_getppid/id", "r");
	uint64_t config, without, with;
	bool known;

	if (!file || fscanf(file, "%ju", &config) != 1) {
		perror("sys_enter_getppid");
		return 1;
	}
	fclose(file);
	known = argc > 1 && !strcmp(argv[1], "known");
	without = measure(config, PERF_SAMPLE_IP, known);
	with = measure(config, PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, known);
	printf("%jd\n", (intmax_t)(with - without));
	return 0;
}
