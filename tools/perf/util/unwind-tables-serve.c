// SPDX-License-Identifier: GPL-2.0
/* What a service needs beyond a session: it rests, makes room, and does not grow */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>
#include <time.h>
#include <api/fs/fs.h>
#include <linux/time64.h>

#include "util/debug.h"
#include "util/unwind-tables.h"
#include "util/unwind-tables-internal.h"

/* The workers of a service may use so much CPU time at once. */
#define BURST_SECONDS	5

/*
 * The kernel holds up to 8192 tables and 1 GiB for an event. MAX_TABLES limits the tables of
 * mapped files. When the kernel holds more than KERNEL_TABLES or KERNEL_SIZE, it gets all
 * tables anew.
 */
#define MAX_TABLES	4096
#define KERNEL_TABLES	6144
#define KERNEL_SIZE	(768ULL << 20)

/*
 * Have the workers used up their share of a CPU? What they do not use they keep, up to
 * BURST_SECONDS. The caller holds the lock.
 */
bool unwind_tables__must_rest(struct unwind_tables *tables)
{
	struct timespec now;
	double seconds;

	if (!tables->opts.serve)
		return false;

	clock_gettime(CLOCK_MONOTONIC, &now);
	seconds = now.tv_sec - tables->rested.tv_sec +
		  (now.tv_nsec - tables->rested.tv_nsec) / (double)NSEC_PER_SEC;

	tables->credit += seconds * tables->opts.cpu_percent / 100;
	if (!tables->rested.tv_sec || tables->credit > BURST_SECONDS)
		tables->credit = BURST_SECONDS;
	tables->credit -= tables->cpu_seconds - tables->rested_used;
	tables->rested_used = tables->cpu_seconds;
	tables->rested = now;

	return tables->credit < 0;
}

/* Is there room for a table of @size bytes? The caller holds the lock. */
bool unwind_tables__has_room(const struct unwind_tables *tables, u64 size)
{
	u64 max = tables->opts.serve ? tables->opts.max_size : ULLONG_MAX;

	return size <= max && tables->size <= max - size &&
	       (!tables->opts.serve || tables->supplied < MAX_TABLES);
}

/*
 * Reserve @size bytes for a table. In a service, tables of files that nobody maps any more do
 * not count if there is no room otherwise. The caller is a worker. Returns false if there is
 * no room.
 */
bool unwind_tables__make_room(struct unwind_tables *tables, u64 size)
{
	struct unwind_tables_file *file;
	bool fits;

	mutex_lock(&tables->lock);
	while (!(fits = unwind_tables__has_room(tables, size))) {
		file = size <= tables->opts.max_size ? unwind_tables__pick_unmapped(tables) : NULL;
		if (!file)
			break;
		unwind_tables__drop(tables, file);
	}
	if (fits)
		tables->size += size;
	else
		tables->no_room++;
	mutex_unlock(&tables->lock);

	return fits;
}

/* Reserve @size bytes more for a table that is replaced. No other table gives way. */
bool unwind_tables__make_room_for_more(struct unwind_tables *tables, u64 size)
{
	bool fits;

	mutex_lock(&tables->lock);
	fits = !tables->opts.serve || tables->size + size <= tables->opts.max_size;
	if (fits)
		tables->size += size;
	mutex_unlock(&tables->lock);

	return fits;
}

/**
 * unwind_tables__look_around - See what has changed since the last call
 * @tables:	From unwind_tables__start(), with &unwind_tables_opts.serve
 * @idle_scans:	The table of a file that so many calls before this one have not seen mapped
 *		does not count any more
 *
 * To be called once in a while. This starts a scan of the mappings of all tasks, unless
 * the last one is not over, and does not wait for it.
 *
 * Return: true if a scan has been started.
 */
bool unwind_tables__look_around(struct unwind_tables *tables, unsigned int idle_scans)
{
	bool start;

	mutex_lock(&tables->lock);
	start = tables->scans_done == tables->nr_scans;
	if (start) {
		unwind_tables__drop_unmapped(tables, tables->wants_room ? 0 : idle_scans);
		tables->wants_room = false;
		unwind_tables__forget_files(tables, idle_scans);
		tables->nr_scans++;
		tables->scanning = true;
		cond_signal(&tables->work);
	}
	mutex_unlock(&tables->lock);

	return start;
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
		.waiting	= unwind_tables__nr_without(tables),
		.own		= tables->own,
		.none		= tables->none,
		.failed		= tables->failed,
		.no_room	= tables->no_room,
		.dropped	= tables->dropped,
		.lost		= tables->lost,
		.scans		= tables->scans_done,
		.cpu_seconds	= tables->cpu_seconds,
		.global		= tables->global,
	};
	mutex_unlock(&tables->lock);
}

/**
 * unwind_tables__is_full - Is it time to give all tables to the kernel anew?
 * @tables:	From unwind_tables__start(), with &unwind_tables_opts.serve
 *
 * The kernel finds a table by its file, and a service opens a file by its mapping. So tables
 * of files that nobody maps any more stay in the kernel. When it has no room, it removes the
 * least recently used table, even if the file is mapped.
 *
 * Return: true if the kernel will soon have no room.
 */
bool unwind_tables__is_full(const struct unwind_tables *tables)
{
	u64 nr = 0, bytes = 0, value;
	char path[PATH_MAX], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/self/fdinfo/%d", procfs__mountpoint(), tables->fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "unwind_tables: %" SCNu64, &value) == 1)
			nr = value;
		else if (sscanf(line, "unwind_table_bytes: %" SCNu64, &value) == 1)
			bytes = value;
	}
	if (file)
		fclose(file);

	return nr > KERNEL_TABLES || bytes > KERNEL_SIZE || bytes > 2 * tables->opts.max_size;
}
