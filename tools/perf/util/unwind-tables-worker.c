// SPDX-License-Identifier: GPL-2.0
/* Workers: threads that get the tables of files and give them to the kernel */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/time64.h>

#include "util/debug.h"
#include "util/elf-deps.h"
#include "util/sframe-table.h"
#include "util/unwind-tables-clock.h"
#include "util/unwind-tables-internal.h"

/* There is one worker per CPU, but at least MIN_WORKERS and at most MAX_WORKERS. */
#define MIN_WORKERS	2

/*
 * Limits for the CPU time per file and for all files together. So a file that takes
 * very long does not delay other files, and perf does not dominate the
 * profile.
 */
#define FILE_SECONDS	120
#define ALL_SECONDS	300
/*
 * For the whole table of a file that has a partial one. If this is too little, each session tries
 * again, so it must not use up what other files need. Nobody waits for a service.
 */
#define WHOLE_SECONDS	30

static double thread_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / (double)NSEC_PER_SEC;
}

/**
 * struct unwind_tables_job - A worker and its file
 * @tables:	Tables
 * @table:	Table of the file
 * @end:	Limit for the CPU time of the thread
 * @is_whole:	The file has a partial table, which is enough when the session is over
 * @is_late:	The limit was exceeded
 */
struct unwind_tables_job {
	struct unwind_tables	*tables;
	const struct sframe_table *table;
	double			end;
	bool			is_whole;
	bool			is_late;
};

static bool is_job_stopped(const void *arg)
{
	struct unwind_tables_job *job = (void *)arg;

	if (thread_seconds() > job->end)
		job->is_late = true;

	if (job->is_late || unwind_tables__is_stopped(job->tables))
		return true;

	/* Later sessions find only in the cache what is made after this one. */
	return unwind_tables__is_over(job->tables) && (job->is_whole || job->table->no_bid);
}

static int get_table(struct unwind_tables *tables, struct sframe_table *table, int fd,
		     bool may_be_partial, const struct stat *st)
{
	struct unwind_tables_job job = {
		.tables	= tables,
		.table	= table,
		.end	= thread_seconds() + (may_be_partial || tables->opts.serve ?
					      FILE_SECONDS : WHOLE_SECONDS),
		.is_whole = !may_be_partial,
	};
	enum sframe_cache_use cache = tables->opts.cache;
	int err;

	/* The cache of the system is for all users: not for private or deleted files. */
	if (tables->opts.serve && (!(st->st_mode & 0004) || !st->st_nlink))
		cache = SFRAME_CACHE_KEEP;

	err = sframe_table__get(table, fd, cache, may_be_partial, is_job_stopped, &job);

	return err == -EINTR && job.is_late ? -ETIME : err;
}

/* The caller holds the lock. */
static void count_stored(struct unwind_tables *tables, const struct sframe_table *table)
{
	tables->stored += table->stored && !table->partial;
	tables->cache_grew |= table->stored;
	tables->unwritable |= tables->opts.cache == SFRAME_CACHE_USE && table->bid.size &&
			      !table->cached && !table->stored;
}

static bool is_out_of_time(struct unwind_tables *tables)
{
	bool ret;

	/* A service rests instead. */
	if (tables->opts.serve)
		return false;

	mutex_lock(&tables->lock);
	ret = tables->cpu_seconds > ALL_SECONDS;
	mutex_unlock(&tables->lock);

	return ret;
}

static void count_time(struct unwind_tables *tables, double start)
{
	mutex_lock(&tables->lock);
	tables->cpu_seconds += thread_seconds() - start;
	mutex_unlock(&tables->lock);
}

/* Has a worker looked at this file before, and does the result still hold? */
static bool is_unchanged(struct unwind_tables *tables, const struct unwind_tables_file *file,
			 const struct stat *st)
{
	bool ret = true;

	/* Without a table, a time of 0 means that the file was not opened. */
	if (file->gone || (!file->supplied && !file->ctime.tv_sec) ||
	    !is_same_time(&file->ctime, &st->st_ctim))
		return false;

	/* There was no room for its table. */
	if (!file->supplied && file->size) {
		mutex_lock(&tables->lock);
		ret = !unwind_tables__has_room(tables, file->size);
		mutex_unlock(&tables->lock);
	}
	return ret;
}

/* Replace a partial table by the whole one. If there is none, the partial one stays. */
static void complete_table(struct unwind_tables *tables, struct unwind_tables_file *file, int fd,
			   const struct stat *st)
{
	struct sframe_table table = { };
	u64 more = 0;
	int err;

	err = get_table(tables, &table, fd, /*may_be_partial=*/false, st);
	if (!err && table.size > file->size) {
		more = table.size - file->size;
		if (!unwind_tables__make_room_for_more(tables, more)) {
			more = 0;
			err = -ENOSPC;
		}
	}
	if (!err)
		err = unwind_tables__supply(tables, fd, table.data, table.size);

	mutex_lock(&tables->lock);
	count_stored(tables, &table);
	if (!err) {
		pr_debug2("Whole unwind table for %s: %zu bytes\n", file->path, table.size);
		file->size += more;
		if (file->real)
			file->real->bytes += more;
	} else {
		pr_debug2("The unwind table for %s stays without derived rules\n", file->path);
		tables->size -= more;
	}
	mutex_unlock(&tables->lock);

	/* The kernel would use the table for the changed file. */
	if (!err && unwind_tables_file__has_changed(fd, st)) {
		unwind_tables__supply(tables, fd, NULL, 0);
		mutex_lock(&tables->lock);
		unwind_tables__uncount(tables, file);
		tables->gone++;
		mutex_unlock(&tables->lock);
		file->gone = true;
	}

	sframe_table__exit(&table);
}

static void supply_file(struct unwind_tables *tables, struct unwind_tables_file *file,
			const struct unwind_tables_clock *clock)
{
	bool own = false, claimed = false, shared = false, reserved = false;
	bool refused = false, none;
	struct unwind_tables_real real;
	struct sframe_table table = { };
	double start = thread_seconds();
	struct stat st;
	int fd, err;
	u64 time;

	fd = is_out_of_time(tables) ? -ETIME :
	     unwind_tables_file__open(file, tables->opts.serve, &st);
	err = fd < 0 ? fd : 0;

	/* If there is a table, a service only wants to know whether the file has changed. */
	if (err ? file->supplied : is_unchanged(tables, file, &st)) {
		/* Without the process that had mapped it, wait for another mapping. */
		file->requeue = false;
		if (!err && file->is_partial) {
			complete_table(tables, file, fd, &st);
			file->is_partial = false;
		}
		count_time(tables, start);
		if (fd >= 0)
			close(fd);
		return;
	}

	if (file->supplied) {
		mutex_lock(&tables->lock);
		unwind_tables__uncount(tables, file);
		mutex_unlock(&tables->lock);
	}

	if (!err) {
		if (unwind_tables__is_overlay(fd, &st, &real)) {
			err = unwind_tables__claim_real(tables, &real);
			shared = err == -EEXIST;
			claimed = !err;
			if (shared)
				err = 0;
		}
	}
	if (!err && !shared)
		own = elf_deps__has_sframe(fd);
	if (!err && !shared && !own)
		err = get_table(tables, &table, fd, /*may_be_partial=*/!file->is_partial, &st);
	if (!err && !shared && !own) {
		reserved = unwind_tables__make_room(tables, table.size);
		err = reserved ? 0 : -ENOSPC;
	}
	if (!err && !shared && !own) {
		err = unwind_tables__supply(tables, fd, table.data, table.size);
		refused = err;
	}

	/* The kernel would use the table for the changed file, so remove it. */
	if (!err && !own && !shared && unwind_tables_file__has_changed(fd, &st)) {
		unwind_tables__supply(tables, fd, NULL, 0);
		err = -ENOENT;
	}
	none = !refused && unwind_tables__is_without_cfi(err);
	time = unwind_tables_clock__read(clock);

	mutex_lock(&tables->lock);
	if (err) {
		unwind_tables__count_error(tables, file->path, err, refused);
	} else if (tables->over) {
		/* It has been noted as a file without a table. */
	} else if (own) {
		tables->own++;
	} else if (shared) {
		pr_debug("%s is the same file as one below another overlay, and shares its table\n",
			 file->path);
		tables->shared++;
	} else {
		pr_debug2("Unwind table for %s: %zu bytes%s\n", file->path, table.size,
			  table.cached ? ", from the cache" : "");
		tables->supplied++;
		tables->cached += table.cached;
	}
	if (reserved && err)
		tables->size -= table.size;
	if (claimed)
		unwind_tables__release_real(tables, &real, !err && !own, table.size);
	file->real = (claimed || shared) && !err && !own ?
		     unwind_tables__find_real(tables, &real) : NULL;
	count_stored(tables, &table);
	tables->cpu_seconds += thread_seconds() - start;
	if (fd >= 0)
		unwind_tables__note_same(tables, file, &st);
	/* If the session ended before a table was made, do not blame the file. */
	if ((err != -EINTR || refused) && (!tables->over || own || none))
		unwind_tables__note_covered(tables, file, time, own || shared || none,
					    !err || none);
	mutex_unlock(&tables->lock);

	/*
	 * perf opens a file through a process that maps it. If that process has
	 * exited, try again when another process maps the file.
	 */
	file->gone = err == -ENOENT;
	file->supplied = !err && !own;
	file->is_partial = file->supplied && table.partial;
	file->requeue = file->is_partial;
	file->size = file->supplied || err == -ENOSPC ? table.size : 0;
	if (fd >= 0)
		file->ctime = st.st_ctim;
	/* If there is more memory later, try again. */
	if (err == -ENOMEM)
		file->ctime = (struct timespec) { };

	sframe_table__exit(&table);
	if (fd >= 0)
		close(fd);
}

/* The session is over. The next one finds the table in the cache. */
static void cache_file(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	struct sframe_table table = { };
	double start = thread_seconds();
	struct stat st;
	int fd;

	fd = is_out_of_time(tables) ? -ETIME :
	     unwind_tables_file__open(file, /*only_mapping=*/false, &st);
	if (fd >= 0 && !is_unchanged(tables, file, &st) && !elf_deps__has_sframe(fd) &&
	    !get_table(tables, &table, fd, /*may_be_partial=*/true, &st)) {
		pr_debug2("Unwind table for %s in the cache: %zu bytes\n", file->path,
			  table.size);
		mutex_lock(&tables->lock);
		count_stored(tables, &table);
		mutex_unlock(&tables->lock);
		file->cached = table.stored || table.cached;
	}
	count_time(tables, start);
	sframe_table__exit(&table);
	if (fd >= 0)
		close(fd);
}

/* The table of @file does not count any more. The caller holds the lock. */
void unwind_tables__uncount(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	u64 bytes = file->size;

	if (!file->real || unwind_tables__unuse_real(tables, file->real, &bytes)) {
		tables->supplied--;
		tables->size -= bytes;
	}
	file->real = NULL;
	file->supplied = false;
	file->size = 0;
}

/*
 * Nobody maps @file any more, so its table does not count. The kernel keeps it, because only a
 * mapping leads to the file, see unwind_tables__is_full(). The caller holds the lock.
 */
void unwind_tables__drop(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	unwind_tables__uncount(tables, file);
	file->ctime = (struct timespec) { };
	tables->dropped++;
}

static void work_on(struct unwind_tables *tables, struct unwind_tables_file *file,
		    const struct unwind_tables_clock *clock)
{
	struct unwind_tables_file copy = *file;
	const bool is_whole = file->is_partial;
	const bool over = tables->over;

	tables->nr_waiting--;
	tables->nr_whole += is_whole;
	file->state = FILE_BUSY;
	file->path = NULL;
	file->name = NULL;
	file->busy_name = copy.name;
	file->map_path = NULL;
	tables->nr_remote += file->is_remote;
	mutex_unlock(&tables->lock);

	if (over)
		cache_file(tables, &copy);
	else
		supply_file(tables, &copy, clock);

	mutex_lock(&tables->lock);
	file->state = FILE_DONE;
	file->busy_name = NULL;
	file->ctime = copy.ctime;
	file->supplied = copy.supplied;
	file->cached = copy.cached;
	file->is_partial = copy.is_partial;
	file->size = copy.size;
	file->real = copy.real;
	file->gone = copy.gone;
	tables->nr_remote -= file->is_remote;
	tables->nr_whole -= is_whole;
	/* It was mapped meanwhile. A service tries again at the next scan if memory is short. */
	if (file->path && !file->supplied && !over &&
	    (!tables->opts.serve || file->gone || file->ctime.tv_sec))
		unwind_tables__queue_file(tables, file);
	if (copy.requeue || (file->is_partial && file->path))
		unwind_tables__queue_file(tables, file);
	/* The whole table comes later. The next session of the command may need its name. */
	if (!file->path && (file->is_partial || tables->opts.command)) {
		file->path = copy.path;
		file->name = copy.name;
		file->map_path = copy.map_path;
	} else {
		free(copy.path);
		free(copy.map_path);
	}
	if (file->is_command) {
		file->is_command = false;
		file->need &= ~NEED_COMMAND;
		tables->command_left--;
		cond_broadcast(&tables->idle);
	}
	/* Another file of a network file system may have waited for this one. */
	if (file->is_remote && tables->nr_waiting)
		cond_signal(&tables->work);

	unwind_tables__update_need(tables);
}

/* Let a tenth of a second pass. The caller holds the lock. */
static void rest(struct unwind_tables *tables)
{
	struct timespec tenth = { .tv_nsec = NSEC_PER_SEC / 10 };

	mutex_unlock(&tables->lock);
	nanosleep(&tenth, NULL);
	mutex_lock(&tables->lock);
}

static void *worker_thread(void *arg)
{
	struct unwind_tables *tables = arg;
	struct unwind_tables_clock clock;
	struct unwind_tables_file *file;

	/*
	 * The main thread must not share its struct fs. Otherwise it could not use
	 * setns(2) to enter the mount namespaces of tasks. This worker, and threads
	 * that share its struct fs, never do so.
	 */
	if (unshare(CLONE_FS))
		pr_debug("Cannot unshare: %m\n");
	unwind_tables_clock__open(&clock, tables->use_clockid, tables->clockid);

	mutex_lock(&tables->lock);
	tables->nr_workers++;
	cond_broadcast(&tables->idle);
	while (!unwind_tables__is_stopped(tables)) {
		if (unwind_tables__find_files(tables))
			continue;
		if (unwind_tables__must_rest(tables)) {
			rest(tables);
			continue;
		}
		file = unwind_tables__pick_file(tables);
		if (file)
			work_on(tables, file, &clock);
		else
			cond_wait(&tables->work, &tables->lock);
	}
	unwind_tables_clock__close(&clock);
	tables->nr_ended++;
	cond_broadcast(&tables->idle);
	mutex_unlock(&tables->lock);

	return NULL;
}

int unwind_tables__start_workers(struct unwind_tables *tables)
{
	long nr = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int i, started = 0;
	sigset_t all, old;
	int err = 0;

	nr = clamp(nr, (long)MIN_WORKERS, (long)MAX_WORKERS);

	/* Workers must not receive signals, which are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (i = 0; i < nr; i++) {
		err = pthread_create(&tables->workers[started], NULL, worker_thread, tables);
		if (err)
			break;
		started++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	/* After this loop no worker shares the struct fs of this thread. */
	mutex_lock(&tables->lock);
	while (tables->nr_workers < started)
		cond_wait(&tables->idle, &tables->lock);
	mutex_unlock(&tables->lock);

	return started ? 0 : -err;
}
