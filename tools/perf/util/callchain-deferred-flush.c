// SPDX-License-Identifier: GPL-2.0
/* Makes the kernel deliver deferred user callchains of tasks that sleep */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <internal/xyarray.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>

#include "callchain-deferred-flush.h"
#include "evlist.h"
#include "evsel.h"
#include "mmap.h"

/* Larger than almost all records of deferred callchains */
#define RECORD_BYTES	1024

/* So many records fit into a half of a ring buffer. */
static u32 evlist__flush_max(const struct evlist *evlist)
{
	size_t len = evlist->core.mmap_len;

	return max_t(size_t, len / 2 / RECORD_BYTES, 1);
}

/* Is it of no use to go on with other events? */
static bool is_final(int err)
{
	return err == -ENOTTY || err == -EINTR;
}

/* Return: the number of delivered callchains or a negative error code */
static int flush_fd(int fd, u32 max, struct callchain_deferred_flush *flush)
{
	struct perf_event_flush_deferred arg = {
		.size	= sizeof(arg),
		.max	= max,
	};

	if (ioctl(fd, PERF_EVENT_IOC_FLUSH_DEFERRED, &arg))
		return -errno;

	flush->delivered += arg.delivered;
	flush->busy	 += arg.busy;
	flush->failed	 += arg.failed;
	flush->left	 += arg.left;

	return arg.delivered;
}

static int evsel__flush_callchains(struct evsel *evsel, u32 max,
				   struct callchain_deferred_flush *flush)
{
	int cpu, thread, fd, ret, err = 0;

	if (!evsel->core.fd)
		return 0;

	for (cpu = 0; cpu < xyarray__max_x(evsel->core.fd); cpu++) {
		/* The events of all threads on a CPU share a ring buffer. */
		u32 room = max;

		for (thread = 0; thread < xyarray__max_y(evsel->core.fd); thread++) {
			fd = *(int *)xyarray__entry(evsel->core.fd, cpu, thread);
			if (fd < 0)
				continue;

			if (!room) {
				flush->left++;
				break;
			}

			ret = flush_fd(fd, room, flush);
			if (is_final(ret))
				return ret;
			/* -ENODEV: the CPU is offline. */
			if (ret < 0)
				err = ret == -ENODEV ? err : ret;
			else
				room -= min_t(u32, ret, room);
		}
	}

	return err;
}

/**
 * evlist__flush_callchains - get the deferred user callchains of tasks that sleep
 * @evlist: its ring buffers are mapped, and the events that receive the records of
 *	deferred callchains are enabled
 * @flush: receives what became of the callchains
 *
 * A task that sleeps would deliver its user callchain when it wakes. One call delivers
 * at most as many as fit into a half of each ring buffer. If there are more, read the
 * ring buffers and call it again. An error of one event does not stop the others.
 *
 * Return: 0 or a negative error code; -ENOTTY if the kernel does not support it, -EINTR
 * after a signal
 */
int evlist__flush_callchains(struct evlist *evlist, struct callchain_deferred_flush *flush)
{
	u32 max = evlist__flush_max(evlist);
	struct evsel *evsel;
	int ret, err = 0;

	memset(flush, 0, sizeof(*flush));
	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->core.attr.defer_output)
			continue;
		ret = evsel__flush_callchains(evsel, max, flush);
		if (is_final(ret))
			return ret;
		if (ret)
			err = ret;
	}

	return err;
}
