// SPDX-License-Identifier: GPL-2.0
/* Counts the user stacks that lead through files without a table */
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <linux/perf_event.h>

#include "util/addr_location.h"
#include "util/debug.h"
#include "util/dso.h"
#include "util/event.h"
#include "util/machine.h"
#include "util/map.h"
#include "util/sample.h"
#include "util/thread.h"
#include "util/unwind-coverage.h"
#include "util/unwind-tables.h"
#include "util/unwind-tables-internal.h"

struct unwind_coverage_id unwind_tables_file__id(const struct unwind_tables_file *file)
{
	return (struct unwind_coverage_id) {
		.dev = file->dev, .ino = file->ino, .gen = file->gen,
	};
}

/* The caller holds the lock. On error the file counts as covered. */
void unwind_tables__note_covered(struct unwind_tables *tables,
				 const struct unwind_tables_file *file, u64 time, bool before,
				 bool is_covered)
{
	const struct unwind_coverage_id id = unwind_tables_file__id(file);
	const char *name = file->name ?: file->busy_name;

	/* A service has no stacks. */
	if (tables->opts.serve)
		return;

	if (unwind_coverage__set(tables->coverage, &id, name, time, before, is_covered))
		pr_debug("Cannot note whether %s has an unwind table\n", name);
}

/*
 * perf has opened a file of the command by its name. On an overlay its mapping and
 * fstat() have different numbers for the same file. The caller holds the lock.
 */
void unwind_tables__note_same(struct unwind_tables *tables, const struct unwind_tables_file *file,
			      const struct stat *st)
{
	const struct unwind_coverage_id id = unwind_tables_file__id(file);
	const struct unwind_coverage_id same = { .dev = st->st_dev, .ino = st->st_ino };

	if (tables->opts.serve)
		return;

	if (file->dev != st->st_dev || file->ino != st->st_ino)
		unwind_coverage__copy(tables->coverage, &id, file->name, &same);
}

/* Could the kernel unwind through the file at this address, at that time? */
static enum unwind_coverage_state find_coverage(const struct unwind_tables *tables,
						struct thread *thread, u64 ip, u64 time)
{
	enum unwind_coverage_state state = UNWIND_COVERAGE_FULL;
	struct unwind_coverage_id id;
	const struct dso_id *dso_id;
	struct addr_location al;

	addr_location__init(&al);
	if (thread__find_map(thread, PERF_RECORD_MISC_USER, ip, &al)) {
		dso_id = dso__id_const(map__dso(al.map));
		id = (struct unwind_coverage_id) {
			.dev = makedev(dso_id->maj, dso_id->min), .ino = dso_id->ino,
			.gen = dso_id->ino_generation,
		};
		state = unwind_coverage__find(tables->coverage, &id, time);
	}
	addr_location__exit(&al);

	return state;
}

/**
 * unwind_tables__count - Find out whether a user stack could be complete
 * @tables:	From unwind_tables__start(), or NULL
 * @event:	PERF_RECORD_CALLCHAIN_DEFERRED
 * @sample:	Parsed from @event
 * @machine:	Has the mappings at the time of @event
 *
 * unwind_tables__delete() reports the counts.
 */
void unwind_tables__count(struct unwind_tables *tables, const union perf_event *event,
			  const struct perf_sample *sample, struct machine *machine)
{
	const struct perf_record_callchain_deferred *user = &event->callchain_deferred;
	bool is_short = false, is_late = false;
	struct thread *thread;
	u64 i;

	if (!tables)
		return;

	/* If samples have no time, the state at the end counts. */
	mutex_lock(&tables->lock);
	tables->stacks++;
	if (unwind_coverage__is_full(tables->coverage, sample->time))
		goto unlock;
	thread = machine__findnew_thread(machine, sample->pid, sample->tid);
	if (!thread)
		goto unlock;

	for (i = 0; i < user->nr && !is_short; i++) {
		switch (find_coverage(tables, thread, user->ips[i], sample->time)) {
		case UNWIND_COVERAGE_NONE:
			is_short = true;
			break;
		case UNWIND_COVERAGE_LATE:
			is_late = true;
			break;
		case UNWIND_COVERAGE_FULL:
		default:
			break;
		}
	}
	tables->short_stacks += is_short;
	tables->late_stacks += is_late && !is_short;
	thread__put(thread);
unlock:
	mutex_unlock(&tables->lock);
}
