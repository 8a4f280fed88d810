// SPDX-License-Identifier: GPL-2.0
/* What a service needs beyond a session: it rests, makes room, and does not grow */
#include <errno.h>
#include <time.h>
#include <linux/time64.h>

#include "util/debug.h"
#include "util/unwind-tables.h"
#include "util/unwind-tables-internal.h"

/* A service that has just started may use so much CPU time at once. */
#define BURST_SECONDS	5

/* Have the workers used up their share of a CPU? The caller holds the lock. */
bool unwind_tables__must_rest(const struct unwind_tables *tables)
{
	struct timespec now;
	double seconds;

	if (!tables->opts.serve)
		return false;

	clock_gettime(CLOCK_MONOTONIC, &now);
	seconds = now.tv_sec - tables->started.tv_sec +
		  (now.tv_nsec - tables->started.tv_nsec) / (double)NSEC_PER_SEC;

	return tables->cpu_seconds > BURST_SECONDS + seconds * tables->opts.cpu_percent / 100;
}

/*
 * Remove tables of files that nobody maps any more, until @size bytes more fit. The caller
 * is a worker. Returns false if there is no room.
 */
bool unwind_tables__make_room(struct unwind_tables *tables, u64 size)
{
	struct unwind_tables_file *file;
	bool fits;

	if (!tables->opts.serve)
		return true;

	mutex_lock(&tables->lock);
	while (!(fits = tables->size + size <= tables->opts.max_size)) {
		file = unwind_tables__pick_unmapped(tables);
		if (!file)
			break;
		unwind_tables__drop(tables, file);
	}
	if (!fits)
		tables->no_room++;
	mutex_unlock(&tables->lock);

	return fits;
}

/**
 * unwind_tables__look_around - See what has changed since the last call
 * @tables:	From unwind_tables__start(), with &unwind_tables_opts.serve
 * @idle_scans:	Drop the table of a file that so many calls before this one have not
 *		seen mapped
 *
 * To be called once in a while. This starts a scan of the mappings of all tasks, unless
 * the last one is not over, and does not wait for it.
 */
void unwind_tables__look_around(struct unwind_tables *tables, unsigned int idle_scans)
{
	mutex_lock(&tables->lock);
	if (tables->scans_done == tables->nr_scans) {
		unwind_tables__drop_unmapped(tables, idle_scans);
		unwind_tables__forget_files(tables, idle_scans);
		tables->nr_scans++;
		tables->scanning = true;
		cond_signal(&tables->work);
	}
	mutex_unlock(&tables->lock);
}

/**
 * unwind_tables__get_state - Get the numbers of tables and files
 * @tables:	From unwind_tables__start()
 * @state:	Receives them
 */
void unwind_tables__get_state(struct unwind_tables *tables, struct unwind_tables_state *state)
{
	mutex_lock(&tables->lock);
	*state = (struct unwind_tables_state) {
		.tables		= tables->supplied,
		.size		= tables->size,
		.cached		= tables->cached,
		.waiting	= tables->nr_waiting,
		.own		= tables->own,
		.none		= tables->none,
		.failed		= tables->failed,
		.no_room	= tables->no_room,
		.dropped	= tables->dropped,
		.lost		= tables->lost,
		.cpu_seconds	= tables->cpu_seconds,
		.global		= tables->global,
	};
	mutex_unlock(&tables->lock);
}
