// SPDX-License-Identifier: GPL-2.0
/*
 * bpf-stacks OBJECT SECONDS HZ: takes user stacks by BPF in NMIs of perf_nmi_pmu. Prints those
 * of the storm's known program: lines of a tab and an address, then an empty line.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "bpf-stacks.h"

#define PMU_TYPE "/sys/bus/event_source/devices/perf_nmi_pmu/type"

static int print_stack(void *ctx, void *data, size_t size)
{
	const struct stack *stack = data;
	long long i;

	if (size < sizeof(*stack) || stack->size > (long long)sizeof(stack->ips))
		return -EINVAL;
	for (i = 0; i < stack->size / (long long)sizeof(stack->ips[0]); i++)
		printf("\t%llx\n", stack->ips[i]);
	printf("\n");
	return 0;
}

static int pmu_type(void)
{
	FILE *file = fopen(PMU_TYPE, "r");
	int type = -1;

	if (!file || fscanf(file, "%d", &type) != 1)
		type = -1;
	if (file)
		fclose(file);
	return type;
}

/* Returns on how many CPUs the program runs now. */
static int attach(struct bpf_program *prog, int type, int hz)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.freq = 1,
		.sample_freq = hz,
	};
	int nr = 0, cpu, fd;

	for (cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
		/* A CPU may be offline. */
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (fd < 0)
			continue;
		if (bpf_program__attach_perf_event(prog, fd))
			nr++;
		else
			close(fd);
	}
	return nr;
}

int main(int argc, char **argv)
{
	struct ring_buffer *ring;
	struct bpf_object *obj;
	struct counts counts;
	struct bpf_map *map;
	__u32 key = 0;
	time_t end;
	int ret;

	if (argc != 4)
		return 2;
	obj = bpf_object__open_file(argv[1], NULL);
	if (!obj || bpf_object__load(obj))
		return 1;
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(obj, "stacks"), print_stack, NULL,
				NULL);
	if (!ring) {
		fprintf(stderr, "no ring buffer\n");
		return 1;
	}
	ret = attach(bpf_object__find_program_by_name(obj, "take_stack"), pmu_type(),
		     atoi(argv[3]));
	if (!ret) {
		fprintf(stderr, "on no CPU\n");
		return 1;
	}
	end = time(NULL) + atoi(argv[2]);
	while (time(NULL) < end) {
		ret = ring_buffer__poll(ring, 200);
		if (ret < 0 && ret != -EINTR) {
			fprintf(stderr, "ring buffer: %s\n", strerror(-ret));
			return 1;
		}
	}
	map = bpf_object__find_map_by_name(obj, ".bss");
	if (!map || bpf_map__value_size(map) != sizeof(counts) ||
	    bpf_map_lookup_elem(bpf_map__fd(map), &key, &counts)) {
		fprintf(stderr, "no counts\n");
		return 1;
	}
	printf("%llu taken, %llu without room\n", counts.taken, counts.no_room);
	return 0;
}
