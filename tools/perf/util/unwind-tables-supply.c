// SPDX-License-Identifier: GPL-2.0
/* Gives tables to the kernel, for the tasks of the session */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <internal/xyarray.h>
#include <linux/perf_event.h>

#include "util/debug.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/sframe.h"
#include "util/unwind-tables-internal.h"

int unwind_tables__supply_flags(int event_fd, int fd, const void *data, size_t size, u64 flags)
{
	struct perf_event_unwind_table arg = {
		.size		= sizeof(arg),
		.fd		= fd,
		.flags		= flags,
		.table		= (unsigned long)data,
		.table_size	= size,
	};

	return ioctl(event_fd, PERF_EVENT_IOC_UNWIND_TABLE, &arg) ? -errno : 0;
}

/* A kernel that does not know SFRAME_FLAG_ADD refuses tables with this flag. */
static int supply_without_add(int event_fd, int fd, const void *data, size_t size, u64 flags)
{
	struct sframe_reader reader;
	void *plain;
	int err;

	if (sframe_reader__init(&reader, data, size, 0) || !(reader.flags & SFRAME_FLAG_ADD) ||
	    sframe_reader__without_add(&reader, &plain))
		return -EINVAL;

	err = unwind_tables__supply_flags(event_fd, fd, plain, size, flags);
	free(plain);

	return err;
}

static int supply_any(int event_fd, int fd, const void *data, size_t size, u64 flags)
{
	int err = unwind_tables__supply_flags(event_fd, fd, data, size, flags);

	return err == -EINVAL ? supply_without_add(event_fd, fd, data, size, flags) : err;
}

/*
 * If the kernel refuses a global table, which needs a privilege, supply a table that
 * serves the tasks that the event samples.
 */
int unwind_tables__supply(struct unwind_tables *tables, int fd, const void *data, size_t size)
{
	bool global;
	int err;

	mutex_lock(&tables->lock);
	global = tables->global;
	mutex_unlock(&tables->lock);

	err = supply_any(tables->fd, fd, data, size,
			 global ? PERF_EVENT_UNWIND_TABLE_GLOBAL : 0);
	/* Those of a service are of no use to others unless they are global. */
	if (!global || tables->opts.serve ||
	    (err != -EINVAL && err != -EPERM && err != -EACCES))
		return err;

	err = supply_any(tables->fd, fd, data, size, 0);
	if (err)
		return err;

	mutex_lock(&tables->lock);
	tables->global = false;
	mutex_unlock(&tables->lock);

	return 0;
}

static int *event_fd(struct evsel *evsel, int cpu, int thread)
{
	return xyarray__entry(evsel->core.fd, cpu, thread);
}

static void share_with(const struct unwind_tables *tables, int fd, int owner_fd)
{
	struct perf_event_unwind_table arg = {
		.size	= sizeof(arg),
		.fd	= tables->fd,
		.flags	= PERF_EVENT_UNWIND_TABLE_SHARE,
	};

	if (fd >= 0 && fd != owner_fd && ioctl(fd, PERF_EVENT_IOC_UNWIND_TABLE, &arg))
		pr_debug("Cannot share unwind tables: %m\n");
}

/*
 * A table that is not global serves the tasks of those events that own it. So all
 * tasks need an event that owns the tables, and one event per task is enough. perf does
 * not check the privilege itself: its capability may be limited to a user namespace.
 */
void unwind_tables__share(const struct unwind_tables *tables, struct evsel *owner, int owner_fd)
{
	struct evsel *evsel;
	int cpu, thread;

	if (unwind_tables__is_system_wide(tables)) {
		evlist__for_each_entry(tables->evlist, evsel) {
			if (!evsel->core.attr.defer_callchain || !evsel->core.fd)
				continue;
			for (cpu = 0; cpu < xyarray__max_x(evsel->core.fd); cpu++)
				share_with(tables, *event_fd(evsel, cpu, 0), owner_fd);
		}
		return;
	}

	for (thread = 0; thread < xyarray__max_y(owner->core.fd); thread++) {
		for (cpu = 0; cpu < xyarray__max_x(owner->core.fd); cpu++) {
			if (*event_fd(owner, cpu, thread) >= 0)
				break;
		}
		if (cpu < xyarray__max_x(owner->core.fd))
			share_with(tables, *event_fd(owner, cpu, thread), owner_fd);
	}
}

/* Any event can own tables. Those of a session should be for the tasks that it samples. */
struct evsel *unwind_tables__find_owner(struct evlist *evlist, bool serve, int *fd)
{
	struct evsel *evsel;
	int cpu, thread;

	evlist__for_each_entry(evlist, evsel) {
		if ((!serve && !evsel->core.attr.defer_callchain) || !evsel->core.fd)
			continue;
		for (cpu = 0; cpu < xyarray__max_x(evsel->core.fd); cpu++) {
			for (thread = 0; thread < xyarray__max_y(evsel->core.fd); thread++) {
				*fd = *event_fd(evsel, cpu, thread);
				if (*fd >= 0)
					return evsel;
			}
		}
	}

	return NULL;
}
