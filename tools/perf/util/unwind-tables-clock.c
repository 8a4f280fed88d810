// SPDX-License-Identifier: GPL-2.0
/* Gives a thread the time from the clock of samples */
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <linux/ring_buffer.h>

#include "util/debug.h"
#include "util/unwind-tables-clock.h"
#include "perf-sys.h"

/*
 * The clock of perf events cannot be read directly. So the thread makes a data
 * mapping, and the kernel writes a record of it with the time. Other events get no
 * records of data mappings, except with --data.
 */
void unwind_tables_clock__open(struct unwind_tables_clock *clock, bool use_clockid,
			       clockid_t clockid)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_DUMMY,
		.size		= sizeof(attr),
		.sample_type	= PERF_SAMPLE_TIME,
		.sample_id_all	= 1,
		.exclude_kernel	= 1,
		.mmap_data	= 1,
		.disabled	= 1,
		.use_clockid	= use_clockid,
		.clockid	= clockid,
	};
	size_t len = 2 * sysconf(_SC_PAGESIZE);

	clock->base = NULL;
	clock->fd = sys_perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (clock->fd < 0)
		return;

	clock->base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, clock->fd, 0);
	if (clock->base == MAP_FAILED) {
		pr_debug("Cannot tell when files get unwind tables: %m\n");
		close(clock->fd);
		clock->fd = -1;
	}
}

void unwind_tables_clock__close(struct unwind_tables_clock *clock)
{
	if (clock->fd < 0)
		return;

	munmap(clock->base, 2 * sysconf(_SC_PAGESIZE));
	close(clock->fd);
}

/* Returns the time, or 0 if it is not known. */
u64 unwind_tables_clock__read(const struct unwind_tables_clock *clock)
{
	struct perf_event_mmap_page *page = clock->base;
	size_t len = sysconf(_SC_PAGESIZE);
	u64 head, time;
	void *map;

	if (clock->fd < 0 || ioctl(clock->fd, PERF_EVENT_IOC_ENABLE, 0))
		return 0;
	map = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ioctl(clock->fd, PERF_EVENT_IOC_DISABLE, 0);
	if (map != MAP_FAILED)
		munmap(map, len);

	/* The time is the last field of the record. */
	head = ring_buffer_read_head(page);
	if (head - page->data_tail < sizeof(struct perf_event_header) + sizeof(time))
		return 0;
	time = *(u64 *)(clock->base + len + ((head - sizeof(time)) & (len - 1)));
	ring_buffer_write_tail(page, head);

	return time;
}
