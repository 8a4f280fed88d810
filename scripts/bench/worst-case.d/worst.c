// SPDX-License-Identifier: GPL-2.0
/*
 * What a user stack that is taken with the sample costs at most
 *
 * worst: takes samples of a system call, with and without a callchain in the sample, at the
 * end of 127 frames, and prints what the callchain adds, in cycles of the time stamp counter.  In
 * a guest whose counter ticks once per instruction (QEMU's -icount) these are instructions.
 *
 * The frames are made to be expensive: each is of another function, with 32 rows of call frame
 * information, which are read one after the other. "known" makes the same calls again and
 * again, whose rules the kernel has looked up on the way out. So does "again", but nothing is
 * looked up on the way out: what the kernel remembers, it has found while it took stacks.
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
#define BUFFER_SIZE	(65 * 4096)

/* At least one for each frame of two measurements */
#define FUNCTIONS	"4096"

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

/* Which function is called next: never one that was called before, so that no rule is known */
uint64_t next;

/*
 * frames(n): the first of FUNCTIONS functions. Each calls the next one until n are on the stack,
 * and the last one at_the_end(). Each has 32 rows, the most that a walk may read for each of
 * 127 frames, and the call is behind the last one but two.
 */
void frames(long n);
asm(".text\n"
    ".balign	256\n"
    "frames:\n"
    ".rept	" FUNCTIONS "\n"
    "	.balign	256\n"
    "	.cfi_startproc\n"
    "	push	%rbp\n"
    "	.cfi_adjust_cfa_offset 8\n"
    "	.cfi_rel_offset %rbp, 0\n"
    "	mov	%rsp, %rbp\n"
    "	.rept	13\n"
    "	push	%rax\n"
    "	.cfi_adjust_cfa_offset 8\n"
    "	pop	%rax\n"
    "	.cfi_adjust_cfa_offset -8\n"
    "	.endr\n"
    "	push	%rax\n"
    "	.cfi_adjust_cfa_offset 8\n"
    "	incq	next(%rip)\n"
    "	dec	%rdi\n"
    "	jz	1f\n"
    "	mov	next(%rip), %rax\n"
    "	shl	$8, %rax\n"
    "	lea	frames(%rip), %rdx\n"
    "	add	%rdx, %rax\n"
    "	call	*%rax\n"
    "	jmp	2f\n"
    "1:	call	at_the_end\n"
    "2:	pop	%rax\n"
    "	.cfi_adjust_cfa_offset -8\n"
    "	pop	%rbp\n"
    "	.cfi_adjust_cfa_offset -8\n"
    "	.cfi_restore %rbp\n"
    "	ret\n"
    "	.cfi_endproc\n"
    ".endr\n");

/* Calls that "known" does not make */
#define OTHERS	2048

/* From where the last round has ended on */
static void call_frames(void)
{
	void (*first)(long n) = (void *)((char *)frames + (next << 8));

	first(DEPTH - 3);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Median of some system calls that are sampled with this sample_type. Buffers are not read. Unless
 * @from is negative, each round makes the same calls, from that one on.
 */
static uint64_t measure(uint64_t config, uint64_t sample_type, int from)
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
	void *buffer;
	int fd, i;

	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	buffer = fd < 0 ? MAP_FAILED :
		 mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (buffer == MAP_FAILED) {
		perror("perf_event_open");
		exit(1);
	}
	for (i = 0; i < ROUNDS; i++) {
		if (from >= 0)
			next = from;
		call_frames();
		all[i] = taken;
		/* The kernel has been asked for rules, and has them now. */
		usleep(from ? 0 : 200000);
	}
	/* Otherwise it goes on taking samples. */
	munmap(buffer, BUFFER_SIZE);
	close(fd);
	qsort(all, ROUNDS, sizeof(all[0]), compare);
	return all[ROUNDS / 2];
}

static int write_sysctl(const char *value)
{
	FILE *file = fopen("/proc/sys/kernel/unwind_user_deferred", "w");

	if (!file || fputs(value, file) < 0 || fclose(file)) {
		perror("unwind_user_deferred");
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	FILE *file = fopen("/sys/kernel/tracing/events/syscalls/sys_enter_getppid/id", "r");
	uint64_t config, without, with;
	bool known, again;
	int from;

	if (!file || fscanf(file, "%ju", &config) != 1) {
		perror("sys_enter_getppid");
		return 1;
	}
	fclose(file);
	known = argc > 1 && !strcmp(argv[1], "known");
	again = argc > 1 && !strcmp(argv[1], "again");
	from = known ? 0 : again ? OTHERS : -1;
	/*
	 * The kernel takes no stack by rules before a walk on the way out has used some. After
	 * that, such a walk would look the rules up, and count.
	 */
	if (!known) {
		measure(config, PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, 0);
		if (write_sysctl("0"))
			return 1;
	}
	/* A stack adds some rules to what is remembered. */
	for (int i = 0; again && i < 2; i++)
		measure(config, PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, from);
	without = measure(config, PERF_SAMPLE_IP, from);
	with = measure(config, PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, from);
	printf("%jd\n", (intmax_t)(with - without));
	if (!known && write_sysctl("1"))
		return 1;
	return 0;
}
