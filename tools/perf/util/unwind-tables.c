// SPDX-License-Identifier: GPL-2.0
/*
 * Gives the kernel SFrame tables for files without an SFrame section. With them the
 * kernel can unwind user stacks of programs without frame pointers.
 *
 * Recording does not wait for tables, with one exception: a command that perf starts
 * waits for its tables, but no longer than %COMMAND_SECONDS. Threads share a list of
 * files:
 *
 * - The main thread adds files that tasks have mapped already. It gets them from the
 *   events that it synthesizes.
 * - The sideband thread adds files that are mapped later. It also counts samples,
 *   which show which files are needed most. A service ends it and starts another one when
 *   CPUs come or go.
 * - Workers take the file that is needed most, get its table, and give the table to
 *   the kernel.
 *
 * Only workers open profiled files, because a file system may block them for ever.
 * The main thread and the sideband thread never wait for a blocked worker without a
 * time limit, not even at the end. Workers may: one large file is read at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <linux/time64.h>
#include <linux/zalloc.h>

#include "util/debug.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/sframe-cache.h"
#include "util/unwind-coverage.h"
#include "util/unwind-tables.h"
#include "util/unwind-tables-internal.h"

/* Limits for the wait for the tables of a command, and for workers at the end */
#define COMMAND_SECONDS	3
#define STOP_SECONDS	1

/*
 * After a session, perf makes tables for later ones for as long as the session took, within
 * these limits. From the second one of NOTE_SECONDS on, it says so.
 */
#define MIN_FINISH_SECONDS	3
#define MAX_FINISH_SECONDS	60
#define NOTE_SECONDS		1

/* Waits for a short time. @end gets the current time. The caller holds the lock. */
static void wait_idle(struct unwind_tables *tables, struct timespec *end)
{
	struct timespec now, until;
	const long step = 10 * NSEC_PER_MSEC;

	/* A signal may end the session without waking this thread. */
	clock_gettime(CLOCK_REALTIME, &now);
	until = now;
	until.tv_nsec += step;
	if (until.tv_nsec >= NSEC_PER_SEC) {
		until.tv_nsec -= NSEC_PER_SEC;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&tables->idle.cond, &tables->lock.lock, &until);
	clock_gettime(CLOCK_MONOTONIC, end);
}

static bool is_before(const struct timespec *now, const struct timespec *end)
{
	return now->tv_sec < end->tv_sec ||
	       (now->tv_sec == end->tv_sec && now->tv_nsec < end->tv_nsec);
}

/*
 * A short program may end before its tables are ready, so wait for them. Limit the
 * wait, because a file system may hang.
 */
static void wait_for_command(struct unwind_tables *tables)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now;
	end.tv_sec += COMMAND_SECONDS;

	mutex_lock(&tables->lock);
	while ((tables->finding || tables->command_left) && !tables->opts.is_done() &&
	       is_before(&now, &end))
		wait_idle(tables, &now);
	if (tables->finding || tables->command_left)
		pr_debug("The command does not wait any longer for %zu unwind tables\n",
			 tables->command_left);
	mutex_unlock(&tables->lock);
}

static void free_tables(struct unwind_tables *tables)
{
	unwind_tables__exit_files(tables);
	unwind_tables__exit_overlays(tables);
	unwind_coverage__delete(tables->coverage);
	cond_destroy(&tables->work);
	cond_destroy(&tables->idle);
	mutex_destroy(&tables->lock);
	if (tables->fd >= 0)
		close(tables->fd);
	free(tables);
}

static struct unwind_tables *new_tables(struct evlist *evlist, const struct evsel *owner,
					int fd, const struct unwind_tables_opts *opts)
{
	struct unwind_tables *tables = zalloc(sizeof(*tables));

	if (!tables)
		return NULL;

	tables->opts = *opts;
	clock_gettime(CLOCK_MONOTONIC, &tables->started);
	tables->evlist = evlist;
	tables->use_clockid = owner->core.attr.use_clockid;
	tables->clockid = owner->core.attr.clockid;
	tables->finding = opts->command;
	tables->scanning = opts->scan;
	tables->nr_scans = opts->scan;
	mutex_init(&tables->lock);
	cond_init(&tables->work);
	cond_init(&tables->idle);
	tables->coverage = unwind_coverage__new();
	/* A worker may still use it when the event is closed. */
	tables->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	tables->global = unwind_tables__is_system_wide(tables) &&
			 !unwind_tables__is_for_cgroups(evlist);
	if (unwind_tables__init_files(tables) || unwind_tables__init_overlays(tables) ||
	    !tables->coverage || tables->fd < 0) {
		free_tables(tables);
		return NULL;
	}

	return tables;
}

/**
 * unwind_tables__start - Give the kernel tables for the files that tasks map
 * @ptables:	Receives the tables; unwind_tables__delete() frees them
 * @evlist:	The events, which are open and mapped
 * @opts:	Options
 *
 * Threads get the tables and give them to the kernel, until unwind_tables__stop().
 * This function waits only for the tables of a command, and only for some seconds.
 * Errors of single files are counted.
 *
 * Return: 0; -ENOENT - no event defers user callchains; -ENOTTY - the kernel
 *	   accepts no tables; -EACCES, -EPERM - it accepts them only for tasks, or
 *	   with CAP_PERFMON; -ENOMEM.
 */
int unwind_tables__start(struct unwind_tables **ptables, struct evlist *evlist,
			 const struct unwind_tables_opts *opts)
{
	struct unwind_tables *tables;
	struct evsel *owner;
	int fd, err;

	*ptables = NULL;

	owner = unwind_tables__find_owner(evlist, opts->serve, &fd);
	if (!owner)
		return -ENOENT;

	/* The invalid descriptor gives EBADF, if the kernel knows this ioctl. */
	err = unwind_tables__supply_flags(fd, -1, NULL, 0,
					  opts->serve ? PERF_EVENT_UNWIND_TABLE_GLOBAL : 0);
	if (err != -EBADF)
		return err ?: -ENOTTY;

	tables = new_tables(evlist, owner, fd, opts);
	if (!tables)
		return -ENOMEM;

	unwind_tables__share(tables, owner, fd);

	/* This comes before the workers start, so that no mapping is missed. */
	unwind_tables__open_sideband(tables, owner);

	err = unwind_tables__start_workers(tables);
	if (err) {
		evlist__stop_sb_thread(tables->sideband);
		free_tables(tables);
		return err;
	}

	if (opts->command)
		wait_for_command(tables);

	*ptables = tables;
	return 0;
}

/*
 * Let the kernel drop the event and its tables, although a blocked worker may still use this
 * descriptor: a service goes on with another event.
 */
static void drop_event(int fd)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0)
		return;
	if (dup3(null, fd, O_CLOEXEC) < 0)
		pr_debug("Cannot drop the event of the tables: %m\n");
	close(null);
}

static void stop_sideband(struct unwind_tables *tables)
{
	mutex_lock(&tables->lock);
	tables->need = NULL;
	mutex_unlock(&tables->lock);
	evlist__stop_sb_thread(tables->sideband);
	tables->sideband = NULL;
}

/* Stacks through files that have no table yet are short. The caller holds the lock. */
static void note_waiting(struct unwind_tables *tables)
{
	struct unwind_tables_file *file;
	struct unwind_coverage_id id;
	size_t i;

	for (i = 0; i < tables->nr_files; i++) {
		file = tables->files[i];
		id = unwind_tables_file__id(file);
		if (unwind_tables_file__lacks_table(file) &&
		    !unwind_coverage__has(tables->coverage, &id))
			unwind_tables__note_covered(tables, file, 0, /*before=*/false,
						    /*is_covered=*/false);
	}
}

/* The caller holds the lock. */
static size_t nr_unfinished(const struct unwind_tables *tables)
{
	size_t i, nr = 0;

	for (i = 0; i < tables->nr_files; i++)
		nr += unwind_tables_file__lacks_table(tables->files[i]);

	return nr;
}

/**
 * unwind_tables__end_session - No more samples are taken
 * @tables:	From unwind_tables__start(), or NULL
 *
 * Stacks are counted by the tables that the kernel has now. Threads go on with the tables of
 * other files that tasks have mapped, and put them into the cache, until
 * unwind_tables__stop(). Without a cache this is unwind_tables__stop().
 */
void unwind_tables__end_session(struct unwind_tables *tables)
{
	if (!tables || tables->stop || tables->over)
		return;
	if (tables->opts.cache != SFRAME_CACHE_USE) {
		unwind_tables__stop(tables);
		return;
	}

	stop_sideband(tables);
	mutex_lock(&tables->lock);
	__atomic_store_n(&tables->over, true, __ATOMIC_RELAXED);
	tables->unfinished = nr_unfinished(tables);
	note_waiting(tables);
	mutex_unlock(&tables->lock);
}

/**
 * unwind_tables__finish - Wait for tables, if stacks of the session have lacked some
 * @tables:	From unwind_tables__start(), or NULL; the session has ended, and its stacks were
 *		counted
 * @is_interrupted: Returns true if the user does not want to wait
 *
 * A command that is shorter than it takes to make its tables would not have them in later
 * sessions either. This function waits for as long as the session took, but at least 3 seconds
 * and at most 60. A table that takes longer is not made, and none if the cache cannot be written.
 */
void unwind_tables__finish(struct unwind_tables *tables, bool (*is_interrupted)(void))
{
	struct timespec now, end, note;
	bool is_noted = false;
	size_t nr;

	if (!tables || !tables->over || !tables->short_stacks)
		return;

	clock_gettime(CLOCK_MONOTONIC, &now);
	note = end = now;
	note.tv_sec += NOTE_SECONDS;
	end.tv_sec += clamp(now.tv_sec - tables->started.tv_sec, (time_t)MIN_FINISH_SECONDS,
			    (time_t)MAX_FINISH_SECONDS);
	mutex_lock(&tables->lock);
	while ((nr = nr_unfinished(tables)) && !tables->unwritable && !is_interrupted() &&
	       is_before(&now, &end)) {
		if (!is_noted && !is_before(&now, &note)) {
			pr_info("Making unwind tables of %zu files for later sessions, ^C to stop\n",
				nr);
			is_noted = true;
		}
		wait_idle(tables, &now);
	}
	mutex_unlock(&tables->lock);
}

/**
 * unwind_tables__stop - Give the kernel no more tables
 * @tables:	From unwind_tables__start(), or NULL
 *
 * The kernel drops the tables when the events are closed.
 */
void unwind_tables__stop(struct unwind_tables *tables)
{
	struct timespec now, end;
	unsigned int i, left;

	if (!tables || tables->stop)
		return;

	stop_sideband(tables);

	mutex_lock(&tables->lock);
	if (!tables->over)
		note_waiting(tables);
	mutex_unlock(&tables->lock);
	__atomic_store_n(&tables->stop, true, __ATOMIC_RELAXED);
	mutex_lock(&tables->lock);
	cond_broadcast(&tables->work);
	cond_broadcast(&tables->idle);
	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now;
	end.tv_sec += STOP_SECONDS;
	while (tables->nr_ended < tables->nr_workers && is_before(&now, &end))
		wait_idle(tables, &now);
	left = tables->nr_workers - tables->nr_ended;
	mutex_unlock(&tables->lock);

	for (i = 0; i < tables->nr_workers; i++) {
		if (left)
			pthread_detach(tables->workers[i]);
		else
			pthread_join(tables->workers[i], NULL);
	}

	/* A blocked worker ends with the process. Until then it may use @tables. */
	tables->is_stuck = left;
	if (left) {
		if (tables->opts.serve)
			drop_event(tables->fd);
		pr_debug("%u of %u threads for unwind tables still wait for a file\n", left,
			 tables->nr_workers);
	} else {
		close(tables->fd);
		tables->fd = -1;
	}
}

/**
 * unwind_tables__delete - Report files without a table, and free the tables
 * @tables:	From unwind_tables__start(), or NULL
 */
void unwind_tables__delete(struct unwind_tables *tables)
{
	if (!tables)
		return;

	unwind_tables__stop(tables);

	mutex_lock(&tables->lock);
	unwind_tables__report(tables);
	mutex_unlock(&tables->lock);

	if (tables->cache_grew)
		sframe_cache__limit();

	if (!tables->is_stuck) {
		unwind_tables__remember(tables);
		free_tables(tables);
	}
}
