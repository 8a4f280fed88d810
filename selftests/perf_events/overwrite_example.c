// SPDX-License-Identifier: GPL-2.0
/*
 * Reading a buffer that the kernel overwrites (perf_event_attr::overwrite).
 *
 * Records its own page faults and prints the last ones. The program is
 * the example of Documentation/userspace-api/perf_ring_buffer.rst.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "overwrite_reader.h"

/* A power of two. */
#define DATA_PAGES	1
#define FAULTS		10000

/* PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR */
struct fault {
	struct perf_event_header	header;
	__u64				time;
	__u64				addr;
};

int main(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR,
		.disabled	= 1,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.overwrite	= 1,
	};
	const size_t page_size = sysconf(_SC_PAGESIZE);
	struct perf_event_mmap_page *page;
	const char *p, *records = NULL;
	unsigned long i, last, n = 0;
	char *area, *copy;
	int found = 0;
	long len;
	int fd;

	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1,
		     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0) {
		perror("perf_event_open: no attr.overwrite, or no permission");
		return 4;
	}

	/* PROT_WRITE is refused: data_tail is the kernel's. */
	page = mmap(NULL, (1 + DATA_PAGES) * page_size, PROT_READ, MAP_SHARED,
		    fd, 0);
	copy = malloc(DATA_PAGES * page_size);
	area = mmap(NULL, FAULTS * page_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || !copy || area == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	/* Get one fault for each page: do not use huge pages. */
	madvise(area, FAULTS * page_size, MADV_NOHUGEPAGE);
	last = (unsigned long)area + (FAULTS - 1) * page_size;

	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	for (i = 0; i < FAULTS; i++)
		*(volatile char *)(area + i * page_size) = 1;
	len = snapshot(page, copy, &records);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (len < 0) {
		fprintf(stderr, "the buffer was overwritten during each of %d copies\n",
			SNAPSHOT_TRIES);
		return 1;
	}

	for (p = records; p < records + len; n++) {
		const struct fault *fault = (const void *)p;

		if (fault->header.type == PERF_RECORD_SAMPLE) {
			printf("%llu: page fault at %#llx\n",
			       (unsigned long long)fault->time,
			       (unsigned long long)fault->addr);
			found |= fault->addr == last;
		}
		p += fault->header.size;
	}
	printf("%lu records in %ld bytes of %zu\n", n, len,
	       DATA_PAGES * page_size);

	/* The last fault must be there: this is the purpose of the buffer. */
	if (!found) {
		fprintf(stderr, "the last fault is missing\n");
		return 1;
	}
	return 0;
}
