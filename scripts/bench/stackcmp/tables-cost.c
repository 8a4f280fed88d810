// SPDX-License-Identifier: GPL-2.0
/*
 * tables-cost: what it costs to hand the kernel unwind tables.
 *
 * tables-cost [FILE TABLE]... [-- COMMAND [ARGUMENT...]]
 *
 * Prints for each table its size, and the least number of time stamp counter ticks
 * that handing it over took, first and for a file that has one, and that taking it
 * back took.  In a guest whose counter ticks once per instruction (QEMU's -icount)
 * these are instructions.  COMMAND runs while the kernel has the tables; its user
 * stacks go by them, since with CAP_PERFMON they serve all tasks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <x86intrin.h>

/* As <linux/perf_event.h> may be older: a bit of the flags' word, and the ioctl. */
#define ATTR_DEFER_CALLCHAIN	0x4000000000ULL
#define IOC_UNWIND_TABLE	_IO('$', 240)

#define ROUNDS			5
/* Where the flags' word is in struct perf_event_attr */
#define ATTR_FLAGS		40

struct unwind_table_arg {
	uint32_t size;
	int32_t	 fd;
	uint64_t flags;
	uint64_t table;
	uint64_t table_size;
	uint64_t vaddr;
};

static void die(const char *what)
{
	fprintf(stderr, "tables-cost: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_event(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_CPU_CLOCK,
		.size		= sizeof(attr),
		.sample_period	= 1000000000,
		.sample_type	= PERF_SAMPLE_CALLCHAIN,
		.disabled	= 1,
	};
	uint64_t flags;
	int fd;

	memcpy(&flags, (char *)&attr + ATTR_FLAGS, sizeof(flags));
	flags |= ATTR_DEFER_CALLCHAIN;
	memcpy((char *)&attr + ATTR_FLAGS, &flags, sizeof(flags));

	fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		die("perf_event_open");
	return fd;
}

static uint64_t supply(int event, int file, const void *data, size_t size)
{
	struct unwind_table_arg arg = {
		.size		= sizeof(arg),
		.fd		= file,
		.table		= (uintptr_t)data,
		.table_size	= size,
	};
	uint64_t start = __rdtsc();

	if (ioctl(event, IOC_UNWIND_TABLE, &arg))
		die("PERF_EVENT_IOC_UNWIND_TABLE");
	return __rdtsc() - start;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void measure(int event, const char *path, const char *table)
{
	uint64_t first = UINT64_MAX, again = UINT64_MAX, back = UINT64_MAX;
	int file, fd, i;
	struct stat st;
	void *data;

	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		die(path);
	fd = open(table, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die(table);
	data = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (data == MAP_FAILED)
		die(table);

	for (i = 0; i < ROUNDS; i++) {
		first = least(first, supply(event, file, data, st.st_size));
		again = least(again, supply(event, file, data, st.st_size));
		back = least(back, supply(event, file, NULL, 0));
	}
	supply(event, file, data, st.st_size);
	printf("%-44s %10lld %12llu %12llu %9llu %10.0f\n", path, (long long)st.st_size,
	       (unsigned long long)first, (unsigned long long)again,
	       (unsigned long long)back, first / (st.st_size / 1048576.0));

	munmap(data, st.st_size);
	close(fd);
	close(file);
}

int main(int argc, char **argv)
{
	int event = open_event(), i, status;
	pid_t pid;

	/* A line as soon as it is known; what COMMAND prints comes behind. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%-44s %10s %12s %12s %9s %10s\n", "file", "bytes", "first", "again", "back",
	       "per MiB");
	for (i = 1; i + 1 < argc && strcmp(argv[i], "--"); i += 2)
		measure(event, argv[i], argv[i + 1]);
	if (i >= argc || strcmp(argv[i], "--") || !argv[++i])
		return 0;

	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		execvp(argv[i], argv + i);
		die(argv[i]);
	}
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
