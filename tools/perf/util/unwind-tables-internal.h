/* SPDX-License-Identifier: GPL-2.0 */
/* Definitions that the files unwind-tables*.c share */
#ifndef __PERF_UNWIND_TABLES_INTERNAL_H
#define __PERF_UNWIND_TABLES_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <linux/bits.h>
#include <linux/types.h>

#include "util/mutex.h"
#include "util/unwind-coverage.h"
#include "util/unwind-tables.h"
#include "util/unwind-tables-proc.h"

struct evsel;
struct hashmap;
struct unwind_tables_real;

/* Hints for EPERM, for tables and for ring buffers */
#define TABLE_LIMITS	"see RLIMIT_MEMLOCK"
#define BUFFER_LIMITS	TABLE_LIMITS " and kernel.perf_event_mlock_kb"

/* At most this many files are processed at the same time. */
#define MAX_WORKERS	4

/* At most this many devices are looked up. Others count as local file systems. */
#define MAX_DEVICES	256

/* Added to the need of files that the command waits for, so that they come first */
#define NEED_COMMAND	BIT_ULL(63)

enum unwind_tables_file_state {
	FILE_WAITS,
	FILE_BUSY,
	FILE_DONE,
	FILE_REFUSED,
};

/**
 * struct unwind_tables_file - A file that is mapped, or will be
 * @path:	Its path, in the root directory of the task that maps it
 * @name:	The end of @path, without this root directory. perf may find the
 *		same file there when the task has ended.
 * @busy_name:	The same of the copy, while a worker has it
 * @map_path:	Its path in /proc/PID/map_files, which always leads to the mapped
 *		file, even if @path now leads to another one; NULL if there is none
 * @dev:	Device that the file must be on
 * @ino:	Inode number that it must have
 * @gen:	Generation of the inode, 0 if it is not known
 * @ctime:	Change time of the inode, once the file was opened
 * @need:	Weighted number of samples that need its table
 * @length:	Length of the file, or of the mapping with its code
 * @is_basic:	It is a program or the C library: most stacks lead through these
 * @size:	Size of the table that the kernel has, or that there was no room for
 * @seen:	Number of the last scan, or of the last one before an event, that has seen a
 *		mapping of it
 * @state:	It waits for a worker, a worker has it, it is done, or it is refused
 * @is_remote:	It is on a network file system, or may be
 * @is_command:	The command waits for it
 * @supplied:	The kernel has a table for it
 * @cached:	The session was over, and the table is only in the cache
 * @is_partial:	This table lacks the rules that take long to make. A worker makes the
 *		whole table when no file waits for its first one
 * @requeue:	In the copy of a worker: the file is to wait for its whole table
 * @gone:	It could not be opened, or it changed after it was opened
 * @is_recalled: An earlier session of the command had mapped it, and nobody has in this one
 * @checked:	Number of the scan in which a service last let a worker look at it again
 * @real:	Whose table it has, and may share, if it is on an overlay; or NULL
 *
 * The lock of &struct unwind_tables protects all members. A worker has a copy, and
 * has taken over the strings. If there are strings while @state is FILE_BUSY, the
 * file was mapped again after the worker took it.
 */
struct unwind_tables_file {
	char				*path;
	char				*name;
	const char			*busy_name;
	char				*map_path;
	dev_t				dev;
	ino_t				ino;
	u64				gen;
	struct timespec			ctime;
	u64				need;
	u64				length;
	bool				is_basic;
	u64				size;
	unsigned int			seen;
	enum unwind_tables_file_state	state;
	bool				is_remote;
	bool				is_command;
	bool				supplied;
	bool				cached;
	bool				is_partial;
	bool				requeue;
	bool				gone;
	bool				is_recalled;
	unsigned int			checked;
	struct unwind_tables_real	*real;
};

/**
 * struct unwind_tables_real - A file below overlays
 * @ino:	Its inode number, which the overlay shows
 * @size:	Its size
 * @mtime:	Time of its last write
 * @ctime:	Time of its last change
 * @supplied:	Its table was supplied; otherwise a worker is making it
 * @users:	Files of overlays that share the table
 * @bytes:	Size of the table
 *
 * An overlay has its own device number, and does not show the device below it. So
 * perf compares these members instead. If files below two overlays agree in all of
 * them, perf takes them for the same file.
 */
struct unwind_tables_real {
	ino_t		ino;
	off_t		size;
	struct timespec	mtime;
	struct timespec	ctime;
	bool		supplied;
	unsigned int	users;
	u64		bytes;
};

struct unwind_tables_device {
	dev_t			dev;
	enum unwind_tables_fs	fs;
};

/**
 * struct unwind_tables_limit - Files that exceed a limit
 * @nr:		Number of files
 * @err:	Error of the first one
 */
struct unwind_tables_limit {
	size_t	nr;
	int	err;
};

/**
 * struct unwind_tables - Tables that the kernel has for a session
 * @fd:		The event that owns the tables, as a descriptor of its own
 * @use_clockid:	Samples have the time of @clockid
 * @clockid:	Clock of the session, if it has one
 * @opts:	Options of the caller
 * @evlist:	The events of the session
 * @sideband:	Events for files that are mapped later, or NULL
 * @need:	Event of @sideband whose samples show which files are needed, or NULL. The main
 *		thread sets it when it is open, and clears it before it is closed. Any thread
 *		enables and disables it. All under the lock
 * @workers:	Threads that open files
 * @nr_workers:	Number of workers
 * @stop:	unwind_tables__stop() was called
 * @is_stuck:	unwind_tables__stop() has left workers that still waited for a file
 * @lock:	Protects the members below
 * @work:	Signals that there is a file for a worker, or that workers must end
 * @idle:	Signals that something is done that other threads wait for
 * @global:	Tables serve all tasks
 * @files:	All files so far
 * @nr_files:	Number of files
 * @room_files:	Number of files that fit
 * @by_inode:	All files, by device and inode number
 * @by_real:	Files below overlays that have a table, or are about to get one
 * @by_pid:	Mappings of files that waited when they were mapped
 * @nr_mappings: Number of these mappings
 * @devices:	Kinds of file systems
 * @nr_devices:	Number of devices
 * @hidden_dev:	Device whose mount the process @hidden_pid does not see
 * @hidden_pid:	The last such process, or 0
 * @nr_waiting:	Number of files that wait for a worker
 * @nr_remote:	Number of workers with a file of a network file system
 * @over:	Samples are not taken any more. Tables only get into the cache
 * @unwritable: A table could not be put into the cache
 * @unfinished:	How many files had no table then, but were about to get one
 * @started:	When unwind_tables__start() was called
 * @nr_whole:	Number of workers that replace a partial table by the whole one
 * @need_on:	@need is enabled
 * @nr_ended:	Number of workers that have ended
 * @cgroup_pid:	Process that was looked up last, with -G
 * @cgroup_has_pid: Whether it is in one of the cgroups
 * @finding:	A worker must look for the files of the command
 * @scanning:	A worker must look for the mappings of tasks
 * @nr_scans:	How many times that was asked for
 * @scans_done:	How many times it was done
 * @command_left: Number of files of the command that are not done
 * @cpu_seconds: CPU time that was used
 * @supplied:	Tables that the kernel has
 * @size:	Their size in bytes
 * @cached:	Part of @supplied that was in the cache
 * @stored:	Whole tables that were put into the cache
 * @cache_grew:	Any table was put into the cache
 * @shared:	Files that are the same below another overlay
 * @own:	Files with an SFrame section
 * @none:	Files that no table can be made for
 * @gone:	Files that could not be opened, or that changed
 * @uncached:	Files whose table is not in the cache, if perf may not make one
 * @failed:	Files whose table could not be made, or was refused
 * @unmade:	Part of @failed that exceeds a limit of perf
 * @refused:	Part of @failed that exceeds a limit of the kernel
 * @no_room:	Part of @failed that exceeds the size of a service
 * @wants_room:	A service has no room for the table of a file that is mapped
 * @dropped:	Tables of a service that do not count any more, as nobody maps their files
 * @rested:	Time at which @credit was computed
 * @rested_used: @cpu_seconds at that time
 * @credit:	CPU time that the workers of a service may use at once
 * @lost:	Lost events of mappings, and files beyond %MAX_FILES
 * @coverage:	Which files have a table, or cannot have one, and since when
 * @stacks:	Deferred user callchains that were counted
 * @short_stacks: Part of @stacks that leads through a file without a table
 * @late_stacks: Other part of @stacks that leads through a file that got its table
 *		later
 */
struct unwind_tables {
	int				fd;
	bool				use_clockid;
	clockid_t			clockid;
	struct unwind_tables_opts	opts;
	struct evlist			*evlist;
	struct evlist			*sideband;
	struct evsel			*need;
	pthread_t			workers[MAX_WORKERS];
	unsigned int			nr_workers;
	bool				stop;
	bool				is_stuck;
	/* Protects the members below. */
	struct mutex			lock;
	struct cond			work;
	struct cond			idle;
	bool				global;
	struct unwind_tables_file	**files;
	size_t				nr_files;
	size_t				room_files;
	struct hashmap			*by_inode;
	struct hashmap			*by_real;
	struct hashmap			*by_pid;
	size_t				nr_mappings;
	struct unwind_tables_device	devices[MAX_DEVICES];
	size_t				nr_devices;
	dev_t				hidden_dev;
	pid_t				hidden_pid;
	size_t				nr_waiting;
	unsigned int			nr_remote;
	bool				over;
	bool				unwritable;
	size_t				unfinished;
	struct timespec			started;
	unsigned int			nr_whole;
	bool				need_on;
	unsigned int			nr_ended;
	pid_t				cgroup_pid;
	bool				cgroup_has_pid;
	bool				finding;
	bool				scanning;
	unsigned int			nr_scans;
	unsigned int			scans_done;
	size_t				command_left;
	double				cpu_seconds;
	size_t				supplied;
	u64				size;
	size_t				cached;
	size_t				stored;
	bool				cache_grew;
	size_t				shared;
	size_t				own;
	size_t				none;
	size_t				gone;
	size_t				uncached;
	size_t				failed;
	struct unwind_tables_limit	unmade;
	struct unwind_tables_limit	refused;
	size_t				no_room;
	bool				wants_room;
	size_t				dropped;
	struct timespec			rested;
	double				rested_used;
	double				credit;
	u64				lost;
	struct unwind_coverage		*coverage;
	u64				stacks;
	u64				short_stacks;
	u64				late_stacks;
};

static inline bool unwind_tables__is_stopped(const struct unwind_tables *tables)
{
	return __atomic_load_n(&tables->stop, __ATOMIC_RELAXED);
}

/* Any thread may ask, also without the lock. */
static inline bool unwind_tables__is_over(const struct unwind_tables *tables)
{
	return __atomic_load_n(&tables->over, __ATOMIC_RELAXED);
}

/* Is it about to get its first table? The caller holds the lock. */
static inline bool unwind_tables_file__lacks_table(const struct unwind_tables_file *file)
{
	return (file->state == FILE_WAITS || file->state == FILE_BUSY) && !file->is_partial &&
	       !file->supplied;
}

static inline bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* unwind-tables-tasks.c */
bool unwind_tables__is_system_wide(const struct unwind_tables *tables);
struct evsel *unwind_tables__next_cgroup(struct evlist *evlist, struct evsel *evsel);
bool unwind_tables__is_for_cgroups(struct evlist *evlist);
bool unwind_tables__is_profiled(struct unwind_tables *tables, pid_t pid);

/* unwind-tables-list.c */
int unwind_tables__init_files(struct unwind_tables *tables);
void unwind_tables__exit_files(struct unwind_tables *tables);
size_t unwind_tables__nr_without(const struct unwind_tables *tables);
void unwind_tables__queue_file(struct unwind_tables *tables, struct unwind_tables_file *file);
void unwind_tables__update_need(struct unwind_tables *tables);
void unwind_tables__add_place(struct unwind_tables *tables, struct unwind_tables_file *file,
			      pid_t pid, u64 start, u64 end);
struct unwind_tables_file *unwind_tables__add_file(struct unwind_tables *tables, pid_t pid,
						   const char *path, size_t root_len,
						   const char *map_path, dev_t dev, ino_t ino,
						   u64 gen);
void unwind_tables__add_need(struct unwind_tables *tables, const struct perf_sample *sample);
struct unwind_tables_file *unwind_tables__pick_file(struct unwind_tables *tables);
struct unwind_tables_file *unwind_tables__pick_unmapped(struct unwind_tables *tables);
void unwind_tables__drop_unmapped(struct unwind_tables *tables, unsigned int idle_scans);
void unwind_tables__forget_files(struct unwind_tables *tables, unsigned int idle_scans);

/* unwind-tables-command.c */
int unwind_tables__recall(const struct unwind_tables *tables,
			  int (*fn)(const char *path, void *arg), void *arg);
void unwind_tables__remember(struct unwind_tables *tables);

/* unwind-tables-find.c */
bool unwind_tables__find_files(struct unwind_tables *tables);

/* unwind-tables-open.c */
int unwind_tables_file__open(const struct unwind_tables_file *file, bool only_mapping,
			     struct stat *st);
bool unwind_tables_file__has_changed(int fd, const struct stat *before);

/* unwind-tables-overlay.c */
int unwind_tables__init_overlays(struct unwind_tables *tables);
void unwind_tables__exit_overlays(struct unwind_tables *tables);
bool unwind_tables__is_overlay(int fd, const struct stat *st, struct unwind_tables_real *real);
int unwind_tables__claim_real(struct unwind_tables *tables,
			      const struct unwind_tables_real *real);
void unwind_tables__release_real(struct unwind_tables *tables,
				 const struct unwind_tables_real *real, bool supplied,
				 u64 bytes);
struct unwind_tables_real *unwind_tables__find_real(const struct unwind_tables *tables,
						    const struct unwind_tables_real *real);
bool unwind_tables__unuse_real(struct unwind_tables *tables, struct unwind_tables_real *real,
			       u64 *bytes);

/* unwind-tables-supply.c */
int unwind_tables__supply_flags(int event_fd, int fd, const void *data, size_t size, u64 flags);
int unwind_tables__supply(struct unwind_tables *tables, int fd, const void *data, size_t size);
void unwind_tables__share(const struct unwind_tables *tables, struct evsel *owner, int owner_fd);
struct evsel *unwind_tables__find_owner(struct evlist *evlist, bool serve, int *fd);

/* unwind-tables-worker.c */
void unwind_tables__uncount(struct unwind_tables *tables, struct unwind_tables_file *file);
void unwind_tables__drop(struct unwind_tables *tables, struct unwind_tables_file *file);
int unwind_tables__start_workers(struct unwind_tables *tables);

/* unwind-tables-serve.c */
bool unwind_tables__must_rest(struct unwind_tables *tables);
bool unwind_tables__has_room(const struct unwind_tables *tables, u64 size);
bool unwind_tables__make_room(struct unwind_tables *tables, u64 size);
bool unwind_tables__make_room_for_more(struct unwind_tables *tables, u64 size);

/* unwind-tables-sideband.c */
void unwind_tables__open_sideband(struct unwind_tables *tables, struct evsel *owner);

/* unwind-tables-stacks.c */
struct unwind_coverage_id unwind_tables_file__id(const struct unwind_tables_file *file);
void unwind_tables__note_covered(struct unwind_tables *tables,
				 const struct unwind_tables_file *file, u64 time, bool before,
				 bool is_covered);
void unwind_tables__note_same(struct unwind_tables *tables, const struct unwind_tables_file *file,
			      const struct stat *st);

/* unwind-tables-report.c */
bool unwind_tables__is_without_cfi(int err);
void unwind_tables__count_error(struct unwind_tables *tables, const char *path, int err,
				bool refused);
void unwind_tables__report(const struct unwind_tables *tables);

#endif /* __PERF_UNWIND_TABLES_INTERNAL_H */
