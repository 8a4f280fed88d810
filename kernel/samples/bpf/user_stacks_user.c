// SPDX-License-Identifier: GPL-2.0
/*
 * user_stacks [SECONDS [HERTZ]]: sample all CPUs and print the user stacks of what ran, most
 * samples first.
 *
 * The user stacks are deferred: a sample only has a cookie. The kernel walks the stack when
 * the task returns to user mode, where it may read what is not in memory, and uses what
 * it knows of programs without frame pointers.
 *
 * See Documentation/core-api/unwind_deferred.rst
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user_stacks.h"

#define MAX_STACKS	65536
#define MAX_DELIVERIES	(1 << 20)

struct line {
	struct user_stack	stack;
	unsigned long long	samples;
};

/* A cookie, and the index of its line. */
struct delivery {
	unsigned long long	cookie;
	unsigned int		line;
};

static struct line *lines[MAX_STACKS];
static struct delivery deliveries[MAX_DELIVERIES];
static unsigned int nr_lines, nr_deliveries, nr_dropped;

static int same(const struct user_stack *a, const struct user_stack *b)
{
	return a->pid == b->pid && a->nr == b->nr &&
	       !memcmp(a->entries, b->entries, a->nr * sizeof(a->entries[0]));
}

static int on_stack(void *ctx, void *data, size_t size)
{
	const struct user_stack *stack = data;
	unsigned int i;

	if (nr_deliveries == MAX_DELIVERIES) {
		nr_dropped++;
		return 0;
	}

	for (i = 0; i < nr_lines && !same(&lines[i]->stack, stack); i++)
		;
	if (i == nr_lines) {
		if (nr_lines < MAX_STACKS)
			lines[i] = calloc(1, sizeof(*lines[i]));
		if (nr_lines == MAX_STACKS || !lines[i]) {
			nr_dropped++;
			return 0;
		}
		lines[nr_lines++]->stack = *stack;
	}
	deliveries[nr_deliveries++] = (struct delivery) { stack->cookie, i };
	return 0;
}

/* Add the samples of each cookie to its stack. Returns how many have no stack. */
static unsigned long long count_samples(int samples_fd)
{
	unsigned long long cookie, samples, rest = 0;
	unsigned int i;

	for (i = 0; i < nr_deliveries; i++) {
		cookie = deliveries[i].cookie;
		if (bpf_map_lookup_elem(samples_fd, &cookie, &samples))
			continue;
		lines[deliveries[i].line]->samples += samples;
		bpf_map_delete_elem(samples_fd, &cookie);
	}

	while (!bpf_map_get_next_key(samples_fd, NULL, &cookie)) {
		if (!bpf_map_lookup_elem(samples_fd, &cookie, &samples))
			rest += samples;
		bpf_map_delete_elem(samples_fd, &cookie);
	}

	return rest;
}

static int compare(const void *a, const void *b)
{
	const struct line *const *one = a, *const *other = b;

	return (*one)->samples < (*other)->samples ? 1 :
	       (*one)->samples > (*other)->samples ? -1 : 0;
}

/* Where a file is mapped, if the process is still there */
static void print_entry(unsigned int pid, unsigned long long ip)
{
	unsigned long long start, end, offset;
	char path[64], line[512], name[256];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	maps = fopen(path, "r");
	while (maps && fgets(line, sizeof(line), maps)) {
		name[0] = '\0';
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %255s",
			   &start, &end, &offset, name) >= 3 && ip >= start && ip < end) {
			printf("    %s+0x%llx\n", name, ip - start + offset);
			fclose(maps);
			return;
		}
	}
	if (maps)
		fclose(maps);
	printf("    0x%llx\n", ip);
}

static void print_stacks(void)
{
	unsigned int i, j;

	qsort(lines, nr_lines, sizeof(lines[0]), compare);
	for (i = 0; i < nr_lines; i++) {
		printf("%llu %s %u\n", lines[i]->samples, lines[i]->stack.comm,
		       lines[i]->stack.pid);
		for (j = 0; j < lines[i]->stack.nr; j++)
			print_entry(lines[i]->stack.pid, lines[i]->stack.entries[j]);
	}
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 5, hertz = argc > 2 ? atoi(argv[2]) : 99;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = hertz,
	};
	static const char *const reasons[] = {
		[USER_STACKS_REFUSED] = "the stack could not be requested",
		[USER_STACKS_NO_ROOM] = "the ring buffer was full",
	};
	int nr_cpus = libbpf_num_possible_cpus();
	unsigned long long missed, left;
	struct bpf_link **links;
	unsigned int why;
	struct bpf_program *sample, *stack;
	struct ring_buffer *buffer;
	struct bpf_object *obj;
	char filename[256];
	int cpu, fd, samples_fd, missed_fd, i;

	if (seconds <= 0 || hertz <= 0) {
		fprintf(stderr, "usage: %s [SECONDS [HERTZ]]\n", argv[0]);
		return 2;
	}

	snprintf(filename, sizeof(filename), "%s.bpf.o", argv[0]);
	obj = bpf_object__open_file(filename, NULL);
	if (!obj || bpf_object__load(obj)) {
		fprintf(stderr, "%s cannot be loaded\n", filename);
		return 1;
	}

	sample = bpf_object__find_program_by_name(obj, "sample");
	stack = bpf_object__find_program_by_name(obj, "on_stack");
	samples_fd = bpf_object__find_map_fd_by_name(obj, "samples");
	buffer = ring_buffer__new(bpf_object__find_map_fd_by_name(obj, "stacks"), on_stack,
				  NULL, NULL);
	if (!buffer) {
		fprintf(stderr, "no ring buffer\n");
		return 1;
	}

	/* Requests are refused while nobody receives the stacks. */
	if (!bpf_program__attach(stack)) {
		fprintf(stderr, "no tracepoint unwind_user_stack\n");
		return 1;
	}

	links = calloc(nr_cpus, sizeof(*links));
	for (cpu = 0; links && cpu < nr_cpus; cpu++) {
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		/* A CPU that is not online */
		if (fd < 0)
			continue;
		links[cpu] = bpf_program__attach_perf_event(sample, fd);
		if (!links[cpu]) {
			fprintf(stderr, "no samples on CPU %d\n", cpu);
			return 1;
		}
	}

	for (i = 0; i < seconds * 10; i++)
		ring_buffer__poll(buffer, 100);
	for (cpu = 0; links && cpu < nr_cpus; cpu++)
		bpf_link__destroy(links[cpu]);
	/* Those that are on the way to user mode are there soon. */
	ring_buffer__poll(buffer, 100);
	ring_buffer__consume(buffer);
	left = count_samples(samples_fd);
	print_stacks();
	if (left)
		fprintf(stderr, "%llu samples have no stack\n", left);

	missed_fd = bpf_object__find_map_fd_by_name(obj, "missed");
	for (why = 0; why < USER_STACKS_MISSED; why++) {
		if (!bpf_map_lookup_elem(missed_fd, &why, &missed) && missed)
			fprintf(stderr, "%llu times %s\n", missed, reasons[why]);
	}
	if (nr_dropped)
		fprintf(stderr, "%u times no memory for a stack\n", nr_dropped);
	return 0;
}
