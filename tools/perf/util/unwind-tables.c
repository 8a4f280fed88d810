// SPDX-License-Identifier: GPL-2.0
/*
 * Hands the kernel SFrame tables for files that have no SFrame section, so that it
 * can unwind user stacks of programs without frame pointers
 *
 * Recording does not wait for tables, but for those of a command that perf starts,
 * and for these no longer than %COMMAND_SECONDS. Threads work through a list of files:
 *
 * - The main thread adds what tasks have mapped already, from the events that it
 *   synthesizes.
 * - The thread that reads side band events adds what is mapped later. It also counts
 *   samples, which say which files are needed most.
 * - Workers take the file with most samples, get its table and give it to the kernel.
 *
 * Only workers open files that are profiled. A file system may let them wait for ever:
 * the others do not wait for them, not even at the end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <api/fs/fs.h>
#include <internal/evlist.h>
#include <internal/xyarray.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <linux/ring_buffer.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <perf/evlist.h>
#include <perf/mmap.h>
#include <perf/threadmap.h>

#include "util/addr_location.h"
#include "util/cgroup.h"
#include "util/debug.h"
#include "util/dso.h"
#include "util/elf-deps.h"
#include "util/event.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/hashmap.h"
#include "util/machine.h"
#include "util/map.h"
#include "util/mmap.h"
#include "util/mutex.h"
#include "util/sample.h"
#include "util/sframe-cache.h"
#include "util/sframe-table.h"
#include "util/thread.h"
#include "util/thread_map.h"
#include "util/unwind-coverage.h"
#include "util/unwind-tables.h"
#include "perf-sys.h"

/*
 * Ring buffer of what is mapped later, for each CPU or task. Where so much memory
 * may not be locked it is a fourth, and so on.
 */
#define SIDEBAND_PAGES	64
#define SIDEBAND_LESS	4

/* What EPERM is about, of tables and of ring buffers */
#define TABLE_LIMITS	"see RLIMIT_MEMLOCK"
#define BUFFER_LIMITS	TABLE_LIMITS " and kernel.perf_event_mlock_kb"

/* More files than there are on a busy machine. The kernel takes 8192 tables. */
#define MAX_FILES	65536

/* Of files that wait, what samples are looked up in */
#define MAX_MAPPINGS	(4 * MAX_FILES)

/*
 * Samples a second on each CPU that say which files are needed, as long as any wait.
 * A file with the instruction counts more than another one of the same process.
 */
#define NEED_FREQ	19
#define NEED_IP		16
#define NEED_PROCESS	1
#define NEED_COMMAND	(1ULL << 63)

/* So many files at a time, and so many of network file systems */
#define MIN_WORKERS	2
#define MAX_WORKERS	4
#define MAX_REMOTE	1

/*
 * CPU time that a file may take, and all together: who has a program made to take
 * long delays no others, and a profile does not become one of perf.
 */
#define FILE_SECONDS	10
#define ALL_SECONDS	300

/* How long a command waits for its tables, and the end of the session for workers */
#define COMMAND_SECONDS	3
#define STOP_SECONDS	1

/* The least share of stacks through files with a late table that is a warning, in percent */
#define LATE_PERCENT	1.0

/* File systems looked up by device; more are taken for local ones. */
#define MAX_DEVICES	256

enum unwind_tables_state {
	FILE_WAITS,
	FILE_BUSY,
	FILE_DONE,
	FILE_REFUSED,
};

/**
 * struct unwind_tables_file - A file that is mapped, or will be
 * @path:	Where it is, or was, as the task that maps it sees it
 * @name:	The end of @path from where perf may see the same, when the task has ended
 * @map_path:	In /proc/PID/map_files, which is no other file whatever happened to the
 *		name; NULL if there is none
 * @dev:	Device that it must be on
 * @ino:	Inode that it must be
 * @gen:	Generation of that, 0 if it is not known
 * @ctime:	When that was changed, once it was opened
 * @need:	Samples that need its table
 * @state:	Whether a worker has it, had it, will have it, or must not have it
 * @is_remote:	It is on a network file system
 * @is_command:	The command waits for it
 * @supplied:	The kernel was given a table for it
 * @gone:	It could not be opened, or changed meanwhile
 *
 * All of it belongs to who holds the lock of &struct unwind_tables. A worker has a copy,
 * and has taken the strings. If there are some again while @state is FILE_BUSY then the
 * file was mapped again meanwhile.
 */
struct unwind_tables_file {
	char				*path;
	char				*name;
	char				*map_path;
	dev_t				dev;
	ino_t				ino;
	u64				gen;
	struct timespec			ctime;
	u64				need;
	enum unwind_tables_state	state;
	bool				is_remote;
	bool				is_command;
	bool				supplied;
	bool				gone;
};

/**
 * struct unwind_tables_mapping - Where a process has a file
 * @next:	Other mapping of the same process
 * @pid:	The process
 * @start:	First address
 * @end:	End address
 * @file:	The file
 */
struct unwind_tables_mapping {
	struct unwind_tables_mapping	*next;
	pid_t				pid;
	u64				start;
	u64				end;
	struct unwind_tables_file	*file;
};

/**
 * struct unwind_tables_real - A file below overlays
 * @ino:	Its inode number, which the overlay shows
 * @size:	Its size
 * @mtime:	When it was written
 * @ctime:	When it was changed
 * @supplied:	Its table was; otherwise a worker is making it
 *
 * An overlay has a device of its own, and the device below it is not told. So these are
 * compared instead. Files that were copied with all of these, below two overlays, would
 * be taken for one.
 */
struct unwind_tables_real {
	ino_t		ino;
	off_t		size;
	struct timespec	mtime;
	struct timespec	ctime;
	bool		supplied;
};

enum unwind_tables_fs {
	FS_LOCAL,
	FS_REMOTE,
	FS_FUSE,
};

struct unwind_tables_device {
	dev_t			dev;
	enum unwind_tables_fs	fs;
};

/**
 * struct unwind_tables_limit - Files that exceed a limit
 * @nr:		How many
 * @err:	Error of the first one
 */
struct unwind_tables_limit {
	size_t	nr;
	int	err;
};

/**
 * struct unwind_tables - Tables that the kernel has for a session
 * @fd:		The event that owns them, a descriptor of its own
 * @use_clockid:	Samples have the time of @clockid
 * @clockid:	Clock of the session, if it has one
 * @opts:	What the caller wants
 * @evlist:	The events of the session
 * @sideband:	Events for what is mapped later, or NULL
 * @need:	Of these, the one whose samples tell what is needed, or NULL
 * @workers:	Threads that open files
 * @nr_workers:	How many
 * @stop:	unwind_tables__stop() was called
 * @is_stuck:	It has left workers that still waited for a file
 * @lock:	Held while what follows is used
 * @work:	There is a file for a worker, or the end
 * @idle:	Something that others wait for has been done
 * @global:	Tables serve all tasks
 * @files:	All files that were looked at
 * @nr_files:	How many
 * @room_files:	How many there is room for
 * @by_inode:	The same
 * @by_real:	Files below overlays that have a table, or are about to
 * @by_pid:	Mappings of files that waited when they were mapped
 * @nr_mappings: How many
 * @devices:	Kinds of file systems
 * @nr_devices:	How many
 * @nr_waiting:	Files that wait for a worker
 * @nr_remote:	Workers that have a file of a network file system
 * @nr_ended:	Workers that have ended
 * @cgroup_pid:	Process that was looked up last, with -G
 * @cgroup_has_pid: Whether it is in one of the cgroups
 * @finding:	What is there before the session is being looked for: the command ...
 * @scanning:	... and the mappings of tasks
 * @command_left: Files of the command that are not done
 * @cpu_seconds: CPU time that was used
 * @supplied:	Tables that the kernel has
 * @size:	Their size in bytes
 * @cached:	Of these, tables that were in the cache
 * @stored:	Tables that were put into the cache
 * @shared:	Files that are the same below another overlay
 * @own:	Files that have a section of their own
 * @none:	Files that have nothing that a table could be made of
 * @gone:	Files that could not be opened, or changed
 * @uncached:	Files whose table is not in the cache, if none is to be made
 * @failed:	Files whose table could not be made, or was refused
 * @unmade:	Of these, those that exceed a limit of perf
 * @refused:	Of these, those that exceed a limit of the kernel
 * @lost:	Events of mappings that were lost, or beyond %MAX_FILES
 * @coverage:	Which files have a table, or have nothing to make one of, and since when
 * @stacks:	Deferred user callchains that were looked at
 * @short_stacks: Of these, those that lead through a file that has no table
 * @late_stacks: Of these, others that lead through a file that has got its table later
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
	/* Of what the threads share */
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
	size_t				nr_waiting;
	unsigned int			nr_remote;
	unsigned int			nr_ended;
	pid_t				cgroup_pid;
	bool				cgroup_has_pid;
	bool				finding;
	bool				scanning;
	size_t				command_left;
	double				cpu_seconds;
	size_t				supplied;
	u64				size;
	size_t				cached;
	size_t				stored;
	size_t				shared;
	size_t				own;
	size_t				none;
	size_t				gone;
	size_t				uncached;
	size_t				failed;
	struct unwind_tables_limit	unmade;
	struct unwind_tables_limit	refused;
	u64				lost;
	struct unwind_coverage		*coverage;
	u64				stacks;
	u64				short_stacks;
	u64				late_stacks;
};

/**
 * struct unwind_tables_clock - Tells a thread the time that samples have
 * @fd:		An event of the thread, -1 if there is none
 * @base:	Its ring buffer
 */
struct unwind_tables_clock {
	int		fd;
	void		*base;
};

/* What is not handed over yet is of no use any more. */
static bool is_stopped(const struct unwind_tables *tables)
{
	return tables->opts.is_done() || __atomic_load_n(&tables->stop, __ATOMIC_RELAXED);
}

static double thread_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / (double)NSEC_PER_SEC;
}

/*
 * The clock of perf events cannot be read, so the thread lets the kernel write a record,
 * of data that is mapped: other events do not have these, except with --data.
 */
static void open_clock(struct unwind_tables_clock *clock, const struct unwind_tables *tables)
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
		.use_clockid	= tables->use_clockid,
		.clockid	= tables->clockid,
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

static void close_clock(struct unwind_tables_clock *clock)
{
	if (clock->fd < 0)
		return;

	munmap(clock->base, 2 * sysconf(_SC_PAGESIZE));
	close(clock->fd);
}

/* Returns 0 if the time is not known. */
static u64 read_clock(const struct unwind_tables_clock *clock)
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

static int supply_flags(int event_fd, int fd, const void *data, size_t size, u64 flags)
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

/*
 * Kernels that do not know the flag make tables of the privileged global by themselves.
 * Without the privilege they serve the tasks that the event samples.
 */
static int supply(struct unwind_tables *tables, int fd, const void *data, size_t size)
{
	bool global;
	int err;

	mutex_lock(&tables->lock);
	global = tables->global;
	mutex_unlock(&tables->lock);

	err = supply_flags(tables->fd, fd, data, size,
			   global ? PERF_EVENT_UNWIND_TABLE_GLOBAL : 0);
	if (!global || (err != -EINVAL && err != -EPERM && err != -EACCES))
		return err;

	err = supply_flags(tables->fd, fd, data, size, 0);
	if (err)
		return err;

	mutex_lock(&tables->lock);
	tables->global = false;
	mutex_unlock(&tables->lock);

	return 0;
}

static size_t file_hash(long key, void *ctx __maybe_unused)
{
	const struct unwind_tables_file *file = (void *)key;

	return file->ino * 31 + file->dev;
}

static bool file_equal(long a, long b, void *ctx __maybe_unused)
{
	const struct unwind_tables_file *x = (void *)a, *y = (void *)b;

	return x->ino == y->ino && x->dev == y->dev;
}

static size_t pid_hash(long key, void *ctx __maybe_unused)
{
	return key;
}

static bool pid_equal(long a, long b, void *ctx __maybe_unused)
{
	return a == b;
}

static size_t real_hash(long key, void *ctx __maybe_unused)
{
	const struct unwind_tables_real *real = (void *)key;

	return real->ino * 31 + real->ctime.tv_nsec;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool real_equal(long a, long b, void *ctx __maybe_unused)
{
	const struct unwind_tables_real *x = (void *)a, *y = (void *)b;

	return x->ino == y->ino && x->size == y->size && is_same_time(&x->mtime, &y->mtime) &&
	       is_same_time(&x->ctime, &y->ctime);
}

static void free_file(struct unwind_tables_file *file)
{
	if (!file)
		return;

	zfree(&file->path);
	zfree(&file->map_path);
	free(file);
}

/* Of fields 3 and 9 of mountinfo; a file system is named there, not asked. */
static bool parse_mount(const char *line, dev_t *dev, char *type, size_t size)
{
	unsigned int major, minor;
	const char *end;

	if (sscanf(line, "%*d %*d %u:%u ", &major, &minor) != 2)
		return false;
	end = strstr(line, " - ");
	if (!end)
		return false;

	end += strlen(" - ");
	scnprintf(type, size, "%.*s", (int)strcspn(end, " "), end);
	*dev = makedev(major, minor);
	return true;
}

static enum unwind_tables_fs kind_of(const char *type)
{
	static const char * const remote[] = {
		"nfs", "nfs4", "cifs", "smb3", "ceph", "afs", "lustre", "gpfs",
	};
	size_t i;

	if (!strcmp(type, "fuse") || strstarts(type, "fuse.") || !strcmp(type, "fuseblk"))
		return FS_FUSE;

	for (i = 0; i < ARRAY_SIZE(remote); i++) {
		if (!strcmp(type, remote[i]))
			return FS_REMOTE;
	}

	return FS_LOCAL;
}

static enum unwind_tables_fs read_mountinfo(pid_t pid, dev_t dev)
{
	enum unwind_tables_fs fs = FS_LOCAL;
	char path[PATH_MAX], type[64];
	char *line = NULL;
	size_t size = 0;
	dev_t mount_dev;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d/mountinfo", procfs__mountpoint(), pid);
	file = fopen(path, "re");
	if (!file)
		return fs;

	while (getline(&line, &size, file) > 0) {
		if (parse_mount(line, &mount_dev, type, sizeof(type)) && mount_dev == dev) {
			fs = kind_of(type);
			break;
		}
	}

	free(line);
	fclose(file);
	return fs;
}

/* File systems without a block device are those that something else serves. */
static enum unwind_tables_fs find_fs(struct unwind_tables *tables, pid_t pid, dev_t dev)
{
	struct unwind_tables_device *device;
	size_t i;

	for (i = 0; i < tables->nr_devices; i++) {
		if (tables->devices[i].dev == dev)
			return tables->devices[i].fs;
	}
	if (tables->nr_devices == MAX_DEVICES)
		return FS_LOCAL;

	device = &tables->devices[tables->nr_devices++];
	device->dev = dev;
	device->fs = read_mountinfo(pid, dev);
	return device->fs;
}

/* Replaces the names. */
static int name_file(struct unwind_tables_file *file, const char *path, size_t root_len,
		     const char *map_path)
{
	char *new_map_path = map_path ? strdup(map_path) : NULL;
	char *new_path = strdup(path);

	if (!new_path || (map_path && !new_map_path)) {
		free(new_path);
		free(new_map_path);
		return -ENOMEM;
	}

	free(file->path);
	free(file->map_path);
	file->path = new_path;
	file->map_path = new_map_path;
	file->name = new_path + root_len;
	return 0;
}

static int append_file(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	size_t room = max(tables->room_files * 2, (size_t)64);
	void *files;

	if (tables->nr_files == tables->room_files) {
		files = realloc(tables->files, room * sizeof(*tables->files));
		if (!files)
			return -ENOMEM;
		tables->files = files;
		tables->room_files = room;
	}

	if (hashmap__set(tables->by_inode, file, file, NULL, NULL))
		return -ENOMEM;
	tables->files[tables->nr_files++] = file;

	return 0;
}

/* There is nothing that a table could be made of. */
static bool is_without_cfi(int err)
{
	return err == -ENOEXEC || err == -EOPNOTSUPP || err == -ENODATA;
}

static bool is_limit(int err)
{
	return err == -ENOSPC || err == -EPERM || err == -EFBIG || err == -ENOMEM ||
	       err == -ETIME || err == -EREMOTE;
}

static void count_limit(struct unwind_tables_limit *limit, int err)
{
	limit->nr++;
	limit->err = limit->err ?: err;
}

/* @refused: it is an error of the kernel, which got the table */
static void count_error(struct unwind_tables *tables, const char *path, int err, bool refused)
{
	char buf[STRERR_BUFSIZE];

	if (refused) {
		pr_debug("Unwind table for %s refused: %s\n", path,
			 str_error_r(-err, buf, sizeof(buf)));
		tables->failed++;
		if (is_limit(err))
			count_limit(&tables->refused, err);
		return;
	}

	pr_debug("No unwind table for %s: %s\n", path,
		 sframe_table__strerror(err, buf, sizeof(buf)));

	if (err == -EINTR) {
		/* The session is to end. */
	} else if (err == -ENOENT) {
		tables->gone++;
	} else if (err == -ENOKEY) {
		tables->uncached++;
	} else if (is_without_cfi(err)) {
		tables->none++;
	} else {
		tables->failed++;
		if (is_limit(err))
			count_limit(&tables->unmade, err);
	}
}

static struct unwind_coverage_id file_id(const struct unwind_tables_file *file)
{
	return (struct unwind_coverage_id) {
		.dev = file->dev, .ino = file->ino, .gen = file->gen,
	};
}

/* The lock is held. A file that is lost here counts as covered. */
static void note_covered(struct unwind_tables *tables, const struct unwind_tables_file *file,
			 u64 time, bool before, bool is_covered)
{
	const struct unwind_coverage_id id = file_id(file);

	if (unwind_coverage__set(tables->coverage, &id, file->name, time, before, is_covered))
		pr_debug("Cannot note whether there is an unwind table for %s\n", file->name);
}

/* Where a file may be. What is mapped there is exact. */
enum {
	AT_MAPPING,
	AT_PATH,
	AT_NAME,
	AT_NR,
};

/*
 * Look at what is there now. It may be anything, chosen by whoever is profiled: to open
 * a device does something, and a FIFO would wait for its other end. Names of mappings
 * do not end in a symbolic link.
 */
static int look_at(const struct unwind_tables_file *file, int where, struct stat *st)
{
	const char * const paths[AT_NR] = { file->map_path, file->path, file->name };
	int flags = O_PATH | O_CLOEXEC, fd;

	if (!paths[where])
		return -1;
	if (file->map_path && where != AT_MAPPING)
		flags |= O_NOFOLLOW;

	fd = open(paths[where], flags);
	if (fd >= 0 && (fstat(fd, st) || !S_ISREG(st->st_mode))) {
		close(fd);
		fd = -1;
	}

	return fd;
}

/* Open what look_at() has opened, and close that. */
static int open_really(int path_fd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	close(path_fd);

	return fd;
}

static void file_waits(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	file->state = FILE_WAITS;
	tables->nr_waiting++;
	cond_signal(&tables->work);
}

/* Remember where a file that waits is, so that samples say how much it is needed. */
static void add_place(struct unwind_tables *tables, struct unwind_tables_file *file, pid_t pid,
		      u64 start, u64 end)
{
	struct unwind_tables_mapping *mapping, *next = NULL;

	if (!tables->need || file->state != FILE_WAITS || tables->nr_mappings == MAX_MAPPINGS)
		return;

	hashmap__find(tables->by_pid, pid, &next);
	for (mapping = next; mapping; mapping = mapping->next) {
		if (mapping->file == file && mapping->start == start && mapping->end == end)
			return;
	}

	mapping = malloc(sizeof(*mapping));
	if (!mapping)
		return;
	*mapping = (struct unwind_tables_mapping) {
		.next = next, .pid = pid, .start = start, .end = end, .file = file,
	};
	if (hashmap__set(tables->by_pid, pid, mapping, NULL, NULL))
		free(mapping);
	else
		tables->nr_mappings++;
}

/* @gen: as an event tells it, or 0. Returns NULL where nothing is to be done. */
static struct unwind_tables_file *add_file(struct unwind_tables *tables, pid_t pid,
					   const char *path, size_t root_len,
					   const char *map_path, dev_t dev, ino_t ino, u64 gen)
{
	struct unwind_tables_file key = { .dev = dev, .ino = ino, };
	struct unwind_tables_file *file = NULL;
	enum unwind_tables_fs fs;

	hashmap__find(tables->by_inode, &key, &file);
	if (file) {
		if (file->state == FILE_REFUSED)
			return NULL;
		if (file->state == FILE_BUSY && !file->path)
			name_file(file, path, root_len, map_path);
		if (file->state != FILE_DONE)
			return file;
		/* File systems give numbers out again, some with another generation. */
		if (file->supplied && (!gen || !file->gen || gen == file->gen))
			return NULL;
		/* One without a table may be another file by now. A worker looks. */
		if (gen && file->gen && gen != file->gen) {
			file->supplied = false;
			file->ctime = (struct timespec) { };
		}
		if (name_file(file, path, root_len, map_path))
			return NULL;
		file->gen = gen ?: file->gen;
		file_waits(tables, file);
		return file;
	}

	if (tables->nr_files == MAX_FILES) {
		pr_debug("Too many files for a table for %s\n", path);
		tables->lost++;
		return NULL;
	}

	file = zalloc(sizeof(*file));
	if (!file)
		return NULL;
	file->dev = dev;
	file->ino = ino;
	file->gen = gen;
	fs = find_fs(tables, pid, dev);
	file->is_remote = fs == FS_REMOTE;
	if (name_file(file, path, root_len, map_path) || append_file(tables, file)) {
		free_file(file);
		return NULL;
	}

	/* What a server has begun to answer cannot be given up, not even by SIGKILL. */
	if (fs == FS_FUSE) {
		file->state = FILE_REFUSED;
		count_error(tables, file->path, -EREMOTE, /*refused=*/false);
		note_covered(tables, file, 0, /*before=*/false, /*is_covered=*/false);
		return NULL;
	}

	file_waits(tables, file);
	return file;
}

/* By a worker: the command's libraries may be anywhere. */
static int add_needed(const char *path, void *arg)
{
	struct unwind_tables *tables = arg;
	struct unwind_tables_file *file;
	char *real_path;
	struct stat st;

	if (is_stopped(tables))
		return -EINTR;
	if (stat(path, &st))
		return 0;

	/* This is the name that its mapping will have. */
	real_path = realpath(path, NULL);
	mutex_lock(&tables->lock);
	file = add_file(tables, getpid(), real_path ?: path, 0, NULL, st.st_dev, st.st_ino, 0);
	if (file && file->state == FILE_WAITS && !file->is_command) {
		file->need = NEED_COMMAND;
		file->is_command = true;
		tables->command_left++;
	}
	mutex_unlock(&tables->lock);
	free(real_path);

	return 0;
}

static void add_mapping(struct unwind_tables *tables, pid_t pid, u64 start, u64 end,
			dev_t dev, ino_t ino, u64 gen, const char *name)
{
	char path[PATH_MAX], map_path[PATH_MAX];
	const char *proc = procfs__mountpoint();
	struct unwind_tables_file *file;
	int ret;

	/* Anonymous memory; the vDSO and the like */
	if (!ino || name[0] != '/' || strstarts(name, "//anon"))
		return;

	ret = snprintf(path, sizeof(path), "%s/%d/root%s", proc, pid, name);
	if (ret < 0 || (size_t)ret >= sizeof(path))
		return;
	snprintf(map_path, sizeof(map_path), "%s/%d/map_files/%" PRIx64 "-%" PRIx64, proc, pid,
		 start, end);

	mutex_lock(&tables->lock);
	file = add_file(tables, pid, path, ret - strlen(name), map_path, dev, ino, gen);
	if (file)
		add_place(tables, file, pid, start, end);
	mutex_unlock(&tables->lock);
}

/* A line of /proc/PID/cgroup: hierarchy, controllers, path */
static bool is_cgroup_line(const char *line, const char *name)
{
	const char *controllers = strchr(line, ':'), *path;
	size_t len;

	if (!controllers++)
		return false;
	path = strchr(controllers, ':');
	if (!path++)
		return false;
	if (*controllers != ':' && !strstarts(controllers, "perf_event:"))
		return false;

	path += strspn(path, "/");
	name += strspn(name, "/");
	len = strlen(name);
	while (len && name[len - 1] == '/')
		len--;

	return !strncmp(path, name, len) && (!len || !path[len] || path[len] == '/');
}

static bool is_in_cgroup(pid_t pid, const char *name)
{
	char path[PATH_MAX];
	bool found = false;
	char *line = NULL;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d/cgroup", procfs__mountpoint(), pid);
	file = fopen(path, "re");
	while (file && !found && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		found = is_cgroup_line(line, name);
	}

	free(line);
	if (file)
		fclose(file);
	return found;
}

static bool is_system_wide(const struct unwind_tables *tables)
{
	return perf_thread_map__pid(tables->evlist->core.threads, 0) == -1;
}

/* The next event after @evsel that is of another cgroup than those before it */
static struct evsel *next_cgroup(struct evlist *evlist, struct evsel *evsel)
{
	struct evsel *other;
	bool is_new;

	while (evsel != evlist__last(evlist)) {
		evsel = evsel__next(evsel);
		if (!evsel->core.attr.defer_callchain)
			continue;
		is_new = true;
		evlist__for_each_entry(evlist, other) {
			if (other == evsel)
				break;
			if (other->core.attr.defer_callchain && other->cgrp == evsel->cgrp)
				is_new = false;
		}
		if (is_new)
			return evsel;
	}

	return NULL;
}

/* Are all events that have use for tables those of cgroups? */
static bool is_for_cgroups(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.defer_callchain && !evsel->cgrp)
			return false;
	}

	return true;
}

static bool is_in_cgroups(struct evlist *evlist, pid_t pid)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.defer_callchain && is_in_cgroup(pid, evsel->cgrp->name))
			return true;
	}

	return false;
}

/* Most questions are about the same process as the one before. */
static bool is_profiled(struct unwind_tables *tables, pid_t pid)
{
	bool ret;

	if (!is_for_cgroups(tables->evlist))
		return true;

	mutex_lock(&tables->lock);
	if (tables->cgroup_pid != pid) {
		tables->cgroup_pid = pid;
		tables->cgroup_has_pid = is_in_cgroups(tables->evlist, pid);
	}
	ret = tables->cgroup_has_pid;
	mutex_unlock(&tables->lock);

	return ret;
}

/**
 * unwind_tables__add_event - Hand over the table of a file that is mapped
 * @tables:	What unwind_tables__start() gave, or NULL
 * @event:	Any event; those that are not PERF_RECORD_MMAP2 are not used
 *
 * It does not wait for the file.
 */
void unwind_tables__add_event(struct unwind_tables *tables, const union perf_event *event)
{
	const struct perf_record_mmap2 *mmap2 = &event->mmap2;

	if (!tables || event->header.type != PERF_RECORD_MMAP2 ||
	    event->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID ||
	    event->header.misc & PERF_RECORD_MISC_MMAP_DATA ||
	    (event->header.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER)
		return;

	/* Synthesized events have no generation. */
	if (!mmap2->ino_generation && !is_profiled(tables, mmap2->pid))
		return;

	add_mapping(tables, mmap2->pid, mmap2->start, mmap2->start + mmap2->len,
		    makedev(mmap2->maj, mmap2->min), mmap2->ino, mmap2->ino_generation,
		    mmap2->filename);
}

/* One line of /proc/PID/maps; the end of it, with the name, is at @pos. */
static bool parse_mapping(const char *line, u64 *start, u64 *end, char *prot, dev_t *dev,
			  u64 *ino, int *pos)
{
	unsigned int major, minor;

	*pos = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %" SCNu64 " %n", start, end,
		   prot, &major, &minor, ino, pos) < 6 || !*pos)
		return false;

	*dev = makedev(major, minor);
	return true;
}

static void add_process(struct unwind_tables *tables, pid_t pid)
{
	char path[PATH_MAX], prot[5];
	u64 start, end, ino;
	char *line = NULL;
	size_t size = 0;
	FILE *file;
	dev_t dev;
	int pos;

	if (!is_profiled(tables, pid))
		return;

	snprintf(path, sizeof(path), "%s/%d/maps", procfs__mountpoint(), pid);
	file = fopen(path, "re");
	/* It has ended, or belongs to somebody else. */
	if (!file)
		return;

	while (getline(&line, &size, file) > 0) {
		if (!parse_mapping(line, &start, &end, prot, &dev, &ino, &pos))
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (prot[2] == 'x')
			add_mapping(tables, pid, start, end, dev, ino, 0, line + pos);
	}

	free(line);
	fclose(file);
}

static void add_all_processes(struct unwind_tables *tables)
{
	DIR *dir = opendir(procfs__mountpoint());
	struct dirent *entry;
	pid_t pid;

	if (!dir)
		return;

	while (!is_stopped(tables) && (entry = readdir(dir))) {
		pid = atoi(entry->d_name);
		if (pid > 0)
			add_process(tables, pid);
	}

	closedir(dir);
}

/* What the tasks that are profiled have mapped. That of a command is not there yet. */
static void add_tasks(struct unwind_tables *tables)
{
	struct perf_thread_map *threads = tables->evlist->core.threads;
	pid_t pid;
	int i;

	for (i = 0; !is_stopped(tables) && i < perf_thread_map__nr(threads); i++) {
		pid = perf_thread_map__pid(threads, i);
		if (pid == -1)
			add_all_processes(tables);
		else if (pid != tables->evlist->workload.pid)
			add_process(tables, pid);
	}
}

/* Is this what a mapping of the file would have? */
static bool is_mapped_as(int fd, dev_t dev, ino_t ino)
{
	size_t len = sysconf(_SC_PAGESIZE), size = 0;
	u64 start, end, map_ino;
	char path[PATH_MAX], prot[5];
	bool found = false;
	char *line = NULL;
	dev_t map_dev;
	FILE *maps;
	void *map;
	int pos;

	/* There may be nothing in the file, and it is not read here. */
	map = mmap(NULL, len, PROT_NONE, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;

	snprintf(path, sizeof(path), "%s/self/maps", procfs__mountpoint());
	maps = fopen(path, "re");
	while (maps && !found && getline(&line, &size, maps) > 0) {
		if (!parse_mapping(line, &start, &end, prot, &map_dev, &map_ino, &pos))
			continue;
		if (start > (unsigned long)map || end <= (unsigned long)map)
			continue;
		found = map_dev == dev && map_ino == ino;
		break;
	}

	free(line);
	if (maps)
		fclose(maps);
	munmap(map, len);

	return found;
}

static int open_file(const struct unwind_tables_file *file, struct stat *st)
{
	int where, fd;

	for (where = 0; where < AT_NR; where++) {
		fd = look_at(file, where, st);
		if (fd >= 0 && st->st_dev == file->dev && st->st_ino == file->ino)
			return open_really(fd);
		if (fd >= 0)
			close(fd);
	}

	/*
	 * On an overlay, and on other file systems with devices of their own, fstat()
	 * has other numbers than the mapping. What is opened through the mapping is
	 * what is mapped there, which a path need not be: it takes a mapping to tell.
	 * Files of procfs and the like, which may do things when opened, have no blocks.
	 */
	for (where = 0; where < AT_NR; where++) {
		fd = look_at(file, where, st);
		if (fd >= 0 && where != AT_MAPPING && !st->st_blocks) {
			close(fd);
			continue;
		}
		fd = fd < 0 ? fd : open_really(fd);
		if (fd >= 0 && (where == AT_MAPPING || is_mapped_as(fd, file->dev, file->ino)))
			return fd;
		if (fd >= 0)
			close(fd);
	}

	return -ENOENT;
}

static bool has_changed(int fd, const struct stat *before)
{
	struct stat now;

	return fstat(fd, &now) || now.st_size != before->st_size ||
	       !is_same_time(&now.st_mtim, &before->st_mtim) ||
	       !is_same_time(&now.st_ctim, &before->st_ctim);
}

/**
 * struct unwind_tables_job - A worker and its file
 * @tables:	Tables
 * @end:	CPU time of the thread when the file has had its share
 * @is_late:	That has come
 */
struct unwind_tables_job {
	struct unwind_tables	*tables;
	double			end;
	bool			is_late;
};

static bool is_job_stopped(const void *arg)
{
	struct unwind_tables_job *job = (void *)arg;

	if (thread_seconds() > job->end)
		job->is_late = true;

	return job->is_late || is_stopped(job->tables);
}

static bool is_overlay(int fd, const struct stat *st, struct unwind_tables_real *real)
{
	struct statfs fs;

	*real = (struct unwind_tables_real) {
		.ino = st->st_ino, .size = st->st_size, .mtime = st->st_mtim,
		.ctime = st->st_ctim,
	};

	return !fstatfs(fd, &fs) && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/*
 * Claim a file, unless it has a table below another overlay. While another worker makes
 * its table, wait for that.
 *
 * Return: 0, -EEXIST if it has a table, -EINTR if the session ends, or -ENOMEM. After 0
 *	   release_real() is to be called.
 */
static int claim_real(struct unwind_tables *tables,
		      const struct unwind_tables_real *real)
{
	struct unwind_tables_real *known;
	int err = 0;

	mutex_lock(&tables->lock);
	while (hashmap__find(tables->by_real, real, &known)) {
		err = known->supplied ? -EEXIST :
		      is_stopped(tables) ? -EINTR : 0;
		if (err)
			goto out;
		cond_wait(&tables->idle, &tables->lock);
	}

	known = memdup(real, sizeof(*real));
	if (!known || hashmap__add(tables->by_real, known, known)) {
		free(known);
		err = -ENOMEM;
	}
out:
	mutex_unlock(&tables->lock);
	return err;
}

/* The table of a claimed file was supplied or not. The lock is held. */
static void release_real(struct unwind_tables *tables,
			 const struct unwind_tables_real *real, bool supplied)
{
	struct unwind_tables_real *known;

	if (hashmap__find(tables->by_real, real, &known)) {
		known->supplied = supplied;
		if (!supplied) {
			hashmap__delete(tables->by_real, real, NULL, NULL);
			free(known);
		}
	}
	cond_broadcast(&tables->idle);
}

static int get_table(struct unwind_tables *tables, struct sframe_table *table, int fd)
{
	struct unwind_tables_job job = {
		.tables	= tables,
		.end	= thread_seconds() + FILE_SECONDS,
	};
	int err;

	err = sframe_table__get(table, fd, tables->opts.cache, is_job_stopped, &job);

	return err == -EINTR && job.is_late ? -ETIME : err;
}

static bool is_out_of_time(struct unwind_tables *tables)
{
	bool ret;

	mutex_lock(&tables->lock);
	ret = tables->cpu_seconds > ALL_SECONDS;
	mutex_unlock(&tables->lock);

	return ret;
}

/*
 * A file of the command was looked at by its name. On an overlay its mapping has other
 * numbers than fstat() tells, but this is the same file. The lock is held.
 */
static void note_same(struct unwind_tables *tables, const struct unwind_tables_file *file,
		      const struct stat *st)
{
	const struct unwind_coverage_id id = file_id(file);
	const struct unwind_coverage_id same = { .dev = st->st_dev, .ino = st->st_ino };

	if (file->dev != st->st_dev || file->ino != st->st_ino)
		unwind_coverage__copy(tables->coverage, &id, file->name, &same);
}

static void supply_file(struct unwind_tables *tables, struct unwind_tables_file *file,
			const struct unwind_tables_clock *clock)
{
	bool own = false, claimed = false, shared = false, refused = false, none;
	struct timespec old = file->ctime;
	struct unwind_tables_real real;
	struct sframe_table table = { };
	double start = thread_seconds();
	struct stat st;
	int fd, err;
	u64 time;

	fd = is_out_of_time(tables) ? -ETIME : open_file(file, &st);
	err = fd < 0 ? fd : 0;

	/* It was looked at, and there was nothing to be had. */
	if (!err && !file->gone && old.tv_sec && is_same_time(&old, &st.st_ctim)) {
		close(fd);
		return;
	}

	if (!err) {
		if (is_overlay(fd, &st, &real)) {
			err = claim_real(tables, &real);
			shared = err == -EEXIST;
			claimed = !err;
			if (shared)
				err = 0;
		}
	}
	if (!err && !shared)
		own = elf_deps__has_sframe(fd);
	if (!err && !shared && !own)
		err = get_table(tables, &table, fd);
	if (!err && !shared && !own) {
		err = supply(tables, fd, table.data, table.size);
		refused = err;
	}

	/* The kernel takes what is there now for what the table was made of. */
	if (!err && !own && !shared && has_changed(fd, &st)) {
		supply(tables, fd, NULL, 0);
		err = -ENOENT;
	}
	none = !refused && is_without_cfi(err);
	time = read_clock(clock);

	mutex_lock(&tables->lock);
	if (err) {
		count_error(tables, file->path, err, refused);
	} else if (own) {
		tables->own++;
	} else if (shared) {
		pr_debug("%s is the same below another overlay\n", file->path);
		tables->shared++;
	} else {
		pr_debug2("Unwind table for %s: %zu bytes%s\n", file->path, table.size,
			  table.cached ? ", from the cache" : "");
		tables->supplied++;
		tables->size += table.size;
		tables->cached += table.cached;
	}
	if (claimed)
		release_real(tables, &real, !err && !own);
	tables->stored += table.stored;
	tables->cpu_seconds += thread_seconds() - start;
	/* That the session ends before a table is made is no fault of the file. */
	if (fd >= 0)
		note_same(tables, file, &st);
	if (err != -EINTR || refused)
		note_covered(tables, file, time, own || shared || none, !err || none);
	mutex_unlock(&tables->lock);

	/* The next process that maps it may live longer. */
	file->gone = err == -ENOENT;
	file->supplied = !err && !own;
	if (fd >= 0)
		file->ctime = st.st_ctim;

	sframe_table__exit(&table);
	if (fd >= 0)
		close(fd);
}

/* The file that is needed most. The lock is held. */
static struct unwind_tables_file *pick_file(struct unwind_tables *tables)
{
	struct unwind_tables_file *file, *best = NULL;
	size_t i;

	for (i = 0; tables->nr_waiting && i < tables->nr_files; i++) {
		file = tables->files[i];
		if (file->state != FILE_WAITS)
			continue;
		if (file->is_remote && tables->nr_remote == MAX_REMOTE)
			continue;
		/* A server may be slow, so others come before. */
		if (!best || best->is_remote > file->is_remote ||
		    (best->is_remote == file->is_remote && best->need < file->need))
			best = file;
	}

	return best;
}

static void work_on(struct unwind_tables *tables, struct unwind_tables_file *file,
		    const struct unwind_tables_clock *clock)
{
	struct unwind_tables_file copy = *file;

	file->state = FILE_BUSY;
	file->path = NULL;
	file->name = NULL;
	file->map_path = NULL;
	tables->nr_waiting--;
	tables->nr_remote += file->is_remote;
	mutex_unlock(&tables->lock);

	supply_file(tables, &copy, clock);
	free(copy.path);
	free(copy.map_path);

	mutex_lock(&tables->lock);
	file->state = FILE_DONE;
	file->ctime = copy.ctime;
	file->supplied = copy.supplied;
	file->gone = copy.gone;
	tables->nr_remote -= file->is_remote;
	if (file->path && !file->supplied)
		file_waits(tables, file);
	if (file->is_command) {
		file->is_command = false;
		tables->command_left--;
		cond_broadcast(&tables->idle);
	}
	/* Another one may have waited for a network file system. */
	if (file->is_remote && tables->nr_waiting)
		cond_signal(&tables->work);

	/* No more samples are needed. */
	if (!tables->nr_waiting && tables->need && !tables->finding && !tables->scanning) {
		evsel__disable(tables->need);
		tables->need = NULL;
	}
}

/* What is not known yet of what is there. One worker does each. */
static bool find_files(struct unwind_tables *tables)
{
	int err;

	if (tables->finding) {
		tables->finding = false;
		tables->command_left++;
		mutex_unlock(&tables->lock);
		err = elf_deps__for_each(tables->opts.command, add_needed, tables);
		if (err)
			pr_debug("Cannot say what %s will map: %d\n", tables->opts.command, err);
		mutex_lock(&tables->lock);
		tables->command_left--;
		cond_broadcast(&tables->idle);
		return true;
	}

	if (tables->scanning) {
		tables->scanning = false;
		mutex_unlock(&tables->lock);
		add_tasks(tables);
		mutex_lock(&tables->lock);
		return true;
	}

	return false;
}

static void *worker_thread(void *arg)
{
	struct unwind_tables *tables = arg;
	struct unwind_tables_clock clock;
	struct unwind_tables_file *file;

	/*
	 * With the struct fs of the main thread shared that could not setns(2) into the
	 * mount namespaces of tasks. Threads that share this one do not.
	 */
	if (unshare(CLONE_FS))
		pr_debug("Cannot unshare: %m\n");
	open_clock(&clock, tables);

	mutex_lock(&tables->lock);
	tables->nr_workers++;
	cond_broadcast(&tables->idle);
	while (!is_stopped(tables)) {
		if (find_files(tables))
			continue;
		file = pick_file(tables);
		if (file)
			work_on(tables, file, &clock);
		else
			cond_wait(&tables->work, &tables->lock);
	}
	close_clock(&clock);
	tables->nr_ended++;
	cond_broadcast(&tables->idle);
	mutex_unlock(&tables->lock);

	return NULL;
}

/* A sample tells which files are needed: that of the instruction most. */
static void count_need(struct unwind_tables *tables, union perf_event *event)
{
	struct unwind_tables_mapping *mapping = NULL;
	struct perf_sample sample = { };

	if (evlist__parse_sample(tables->sideband, event, &sample))
		return;

	mutex_lock(&tables->lock);
	hashmap__find(tables->by_pid, (pid_t)sample.pid, &mapping);
	for (; mapping; mapping = mapping->next) {
		mapping->file->need += mapping->start <= sample.ip && sample.ip < mapping->end ?
				       NEED_IP : NEED_PROCESS;
	}
	mutex_unlock(&tables->lock);
}

static int read_sideband(union perf_event *event, void *arg)
{
	struct unwind_tables *tables = arg;

	switch (event->header.type) {
	case PERF_RECORD_LOST:
		mutex_lock(&tables->lock);
		tables->lost += event->lost.lost;
		mutex_unlock(&tables->lock);
		break;
	case PERF_RECORD_SAMPLE:
		count_need(tables, event);
		break;
	default:
		unwind_tables__add_event(tables, event);
		break;
	}

	return 0;
}

static struct evsel *add_sideband_event(struct unwind_tables *tables, struct evlist *sideband,
					struct perf_event_attr *attr, struct cgroup *cgroup)
{
	struct evsel *evsel;

	if (evlist__add_sb_event(sideband, attr, read_sideband, tables))
		return NULL;

	evsel = evlist__last(sideband);
	evsel->ignore_missing_thread = true;
	evsel->cgrp = cgroup__get(cgroup);
	return evsel;
}

/*
 * Events for what is mapped from now on, of the same tasks, on all CPUs: tasks that are
 * profiled on some may map files on others.
 */
static int add_sideband_events(struct unwind_tables *tables, struct evlist *sideband,
			       const struct evsel *owner, struct cgroup *cgroup)
{
	struct perf_event_attr attr = {
		.type			= PERF_TYPE_SOFTWARE,
		.config			= PERF_COUNT_SW_DUMMY,
		.size			= sizeof(attr),
		.sample_period		= 1,
		.exclude_kernel		= 1,
		.inherit		= owner->core.attr.inherit,
		.mmap			= 1,
		.mmap2			= 1,
		.sample_id_all		= 1,
		.watermark		= 1,
		.wakeup_watermark	= 1,
	};

	return add_sideband_event(tables, sideband, &attr, cgroup) ? 0 : -ENOMEM;
}

/* Where many files wait, samples that say which come first */
static struct evsel *add_need(struct unwind_tables *tables, struct evlist *sideband,
			      const struct evsel *owner)
{
	struct perf_event_attr attr = {
		.type			= PERF_TYPE_SOFTWARE,
		.config			= PERF_COUNT_SW_CPU_CLOCK,
		.size			= sizeof(attr),
		.freq			= 1,
		.sample_freq		= NEED_FREQ,
		.sample_type		= PERF_SAMPLE_IP | PERF_SAMPLE_TID,
		.exclude_kernel		= 1,
		.sample_id_all		= 1,
		.watermark		= 1,
		.wakeup_watermark	= 1,
	};
	struct evsel *evsel = add_sideband_event(tables, sideband, &attr, owner->cgrp);

	/* Only the CPUs that are profiled */
	if (evsel) {
		evsel->core.own_cpus =
			perf_cpu_map__get(tables->evlist->core.user_requested_cpus);
	}
	return evsel;
}

static int try_sideband(struct unwind_tables *tables, struct evsel *owner, unsigned int pages,
			bool with_need)
{
	struct perf_cpu_map *cpus = tables->evlist->core.user_requested_cpus;
	bool is_for_cpus = !perf_cpu_map__has_any_cpu(cpus);
	struct evlist *evlist = tables->evlist;
	struct evlist *sideband = evlist__new();
	struct evsel *evsel = owner;
	int err = -ENOMEM;

	if (!sideband)
		return err;

	tables->need = NULL;
	if (is_for_cgroups(evlist)) {
		for (; evsel; evsel = next_cgroup(evlist, evsel)) {
			err = add_sideband_events(tables, sideband, owner, evsel->cgrp);
			if (err)
				goto error;
		}
	} else {
		err = add_sideband_events(tables, sideband, owner, NULL);
		if (err)
			goto error;
	}
	if (with_need)
		tables->need = add_need(tables, sideband, owner);

	cpus = is_for_cpus ? perf_cpu_map__new_online_cpus() : perf_cpu_map__get(cpus);
	perf_evlist__set_maps(&sideband->core, cpus, evlist->core.threads);
	perf_cpu_map__put(cpus);

	tables->sideband = sideband;
	err = evlist__run_sb_thread(sideband, pages);
	if (!err)
		return 0;
error:
	tables->need = NULL;
	tables->sideband = NULL;
	evlist__delete(sideband);
	return err;
}

static void warn_no_sideband(int err, bool is_wanted)
{
	char buf[STRERR_BUFSIZE];

	if (!is_wanted && !verbose)
		return;

	pr_warning("WARNING: No unwind tables for files that are mapped later: %s%s\n",
		   str_error_r(-err, buf, sizeof(buf)),
		   err == -EPERM ? " (" BUFFER_LIMITS ")" : "");
}

static void open_sideband(struct unwind_tables *tables, struct evsel *owner)
{
	bool with_need = is_system_wide(tables);
	unsigned int pages = SIDEBAND_PAGES;
	int err;

	do {
		err = try_sideband(tables, owner, pages, with_need);
		if (err && with_need) {
			with_need = false;
			err = try_sideband(tables, owner, pages, with_need);
		}
		pages /= SIDEBAND_LESS;
	} while (err == -EPERM && pages);

	if (err)
		warn_no_sideband(err, tables->opts.is_wanted);
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
 * Tables that are not global serve the tasks that the events which own them sample. One
 * event of each task is enough. Whether the privilege is there is for the kernel to
 * say: a capability may be one in another user namespace.
 */
static void share_tables(const struct unwind_tables *tables, struct evsel *owner, int owner_fd)
{
	struct evsel *evsel;
	int cpu, thread;

	if (is_system_wide(tables)) {
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

static struct evsel *find_owner(struct evlist *evlist, int *fd)
{
	struct evsel *evsel;
	int cpu, thread;

	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->core.attr.defer_callchain || !evsel->core.fd)
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

/* Let the condition come true, for so long. The lock is held. */
static void wait_idle(struct unwind_tables *tables, struct timespec *end)
{
	struct timespec now, until;
	const long step = 10 * NSEC_PER_MSEC;

	/* A signal asks for the end, but wakes no condition. */
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

static int start_workers(struct unwind_tables *tables)
{
	long nr = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int i, started = 0;
	sigset_t all, old;
	int err = 0;

	nr = clamp(nr, (long)MIN_WORKERS, (long)MAX_WORKERS);

	/* Signals are for the thread that waits for them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (i = 0; i < nr; i++) {
		err = pthread_create(&tables->workers[started], NULL, worker_thread, tables);
		if (err)
			break;
		started++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	/* From here on no one shares the struct fs of this thread. */
	mutex_lock(&tables->lock);
	while (tables->nr_workers < started)
		cond_wait(&tables->idle, &tables->lock);
	mutex_unlock(&tables->lock);

	return started ? 0 : -err;
}

/* Programs that are short have no second chance, but a file system may be dead. */
static void wait_for_command(struct unwind_tables *tables)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now;
	end.tv_sec += COMMAND_SECONDS;

	mutex_lock(&tables->lock);
	while ((tables->finding || tables->command_left) && !is_stopped(tables) &&
	       is_before(&now, &end))
		wait_idle(tables, &now);
	if (tables->finding || tables->command_left)
		pr_debug("The command does not wait any longer for %zu unwind tables\n",
			 tables->command_left);
	mutex_unlock(&tables->lock);
}

static void free_tables(struct unwind_tables *tables)
{
	struct unwind_tables_mapping *mapping, *next;
	struct hashmap_entry *cur;
	size_t i;

	hashmap__free(tables->by_inode);
	if (!IS_ERR_OR_NULL(tables->by_real)) {
		hashmap__for_each_entry(tables->by_real, cur, i)
			free((void *)cur->pkey);
	}
	hashmap__free(tables->by_real);
	if (!IS_ERR_OR_NULL(tables->by_pid)) {
		hashmap__for_each_entry(tables->by_pid, cur, i) {
			for (mapping = cur->pvalue; mapping; mapping = next) {
				next = mapping->next;
				free(mapping);
			}
		}
	}
	hashmap__free(tables->by_pid);
	unwind_coverage__delete(tables->coverage);
	for (i = 0; i < tables->nr_files; i++)
		free_file(tables->files[i]);
	zfree(&tables->files);
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
	tables->evlist = evlist;
	tables->use_clockid = owner->core.attr.use_clockid;
	tables->clockid = owner->core.attr.clockid;
	tables->finding = opts->command;
	tables->scanning = opts->scan;
	mutex_init(&tables->lock);
	cond_init(&tables->work);
	cond_init(&tables->idle);
	tables->by_inode = hashmap__new(file_hash, file_equal, NULL);
	tables->by_real = hashmap__new(real_hash, real_equal, NULL);
	tables->by_pid = hashmap__new(pid_hash, pid_equal, NULL);
	tables->coverage = unwind_coverage__new();
	/* A worker may use it when the event is closed. */
	tables->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	tables->global = is_system_wide(tables) && !is_for_cgroups(evlist);
	if (IS_ERR(tables->by_inode) || IS_ERR(tables->by_real) || IS_ERR(tables->by_pid) ||
	    !tables->coverage || tables->fd < 0) {
		free_tables(tables);
		return NULL;
	}

	return tables;
}

/**
 * unwind_tables__start - Hand the kernel tables for what the events will see
 * @ptables:	Receives what unwind_tables__delete() takes
 * @evlist:	The events, which are open and mapped
 * @opts:	What is wanted
 *
 * Threads get the tables and hand them over, until unwind_tables__stop(). Only those of
 * a command are waited for, and only for some seconds. Errors of single files are
 * counted.
 *
 * Return: 0; -ENOENT - no event defers user callchains; -ENOTTY - the kernel takes no
 *	   tables; -EACCES - it takes them only for tasks, or with CAP_PERFMON; -ENOMEM.
 */
int unwind_tables__start(struct unwind_tables **ptables, struct evlist *evlist,
			 const struct unwind_tables_opts *opts)
{
	struct unwind_tables *tables;
	struct evsel *owner;
	int fd, err;

	*ptables = NULL;

	owner = find_owner(evlist, &fd);
	if (!owner)
		return -ENOENT;

	/* There is no such file, unless this is not known at all. */
	err = supply_flags(fd, -1, NULL, 0, 0);
	if (err != -EBADF)
		return err ?: -ENOTTY;

	tables = new_tables(evlist, owner, fd, opts);
	if (!tables)
		return -ENOMEM;

	share_tables(tables, owner, fd);

	/* First, so that nothing is missed in between. */
	open_sideband(tables, owner);

	err = start_workers(tables);
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

/**
 * unwind_tables__stop - Hand over no more
 * @tables:	What unwind_tables__start() gave, or NULL
 *
 * The kernel drops the tables when the events are closed.
 */
void unwind_tables__stop(struct unwind_tables *tables)
{
	struct unwind_tables_file *file;
	struct unwind_coverage_id id;
	struct timespec now, end;
	unsigned int i, left;

	if (!tables || tables->stop)
		return;

	mutex_lock(&tables->lock);
	tables->need = NULL;
	mutex_unlock(&tables->lock);
	evlist__stop_sb_thread(tables->sideband);
	tables->sideband = NULL;

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
	/* Stacks through files that were not begun are short, too. */
	for (i = 0; i < tables->nr_files; i++) {
		file = tables->files[i];
		id = file_id(file);
		if (file->state == FILE_WAITS && !unwind_coverage__has(tables->coverage, &id))
			note_covered(tables, file, 0, /*before=*/false, /*is_covered=*/false);
	}
	mutex_unlock(&tables->lock);

	for (i = 0; i < tables->nr_workers; i++) {
		if (left)
			pthread_detach(tables->workers[i]);
		else
			pthread_join(tables->workers[i], NULL);
	}

	/* What waits for a file ends with the process, and uses all this when that comes. */
	tables->is_stuck = left;
	if (left) {
		pr_debug("%u of %u threads for unwind tables still wait for a file\n", left,
			 tables->nr_workers);
	} else {
		close(tables->fd);
		tables->fd = -1;
	}
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
 * unwind_tables__count - Find out whether a user stack could be whole
 * @tables:	What unwind_tables__start() gave, or NULL
 * @event:	PERF_RECORD_CALLCHAIN_DEFERRED
 * @sample:	What else it has
 * @machine:	Knows what was mapped then
 *
 * For what unwind_tables__delete() says.
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

	/* Without a time in samples, what is at the end counts. */
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

/* Some reason: that of the first file that one could do something about */
static const char *why_uncovered(const struct unwind_tables *tables, char *buf, size_t size)
{
	if (tables->refused.nr)
		return str_error_r(-tables->refused.err, buf, size);
	if (tables->unmade.nr)
		return sframe_table__strerror(tables->unmade.err, buf, size);

	if (tables->uncached)
		return "not in the cache";
	if (tables->nr_waiting)
		return "not in time";

	return tables->failed ? "damaged" : "gone or changed";
}

static void say_name(const char *name, void *arg __maybe_unused)
{
	pr_debug("No unwind table for %s\n", name);
}

static void say_uncovered(const struct unwind_tables *tables)
{
	size_t nr = unwind_coverage__walk_none(tables->coverage, NULL, NULL);
	char buf[STRERR_BUFSIZE], share[128] = "User stacks through them";
	int level = 0;

	if (!nr)
		return;

	/* Whoever has ended before perf looked is not to blame for any stack. */
	if (tables->stacks) {
		scnprintf(share, sizeof(share),
			  "%.1f %% of %" PRIu64 " user stacks lead through them and",
			  tables->short_stacks * 100.0 / tables->stacks, tables->stacks);
		if (!tables->short_stacks)
			level = 1;
	} else if (!tables->failed) {
		level = 1;
	}

	if (verbose >= level)
		pr_warning("WARNING: %zu of %zu files have no unwind table (%s%s). %s may be short.\n",
			   nr, nr + tables->supplied + tables->shared + tables->own,
			   why_uncovered(tables, buf, sizeof(buf)),
			   tables->refused.err == -EPERM ? ", " TABLE_LIMITS : "",
			   share);
	unwind_coverage__walk_none(tables->coverage, say_name, NULL);
}

/* Files get their tables while samples are taken, and a short delay is no reason to warn. */
static void say_late(const struct unwind_tables *tables)
{
	double share;

	if (!tables->late_stacks)
		return;

	share = tables->late_stacks * 100.0 / tables->stacks;
	if (share >= LATE_PERCENT || verbose > 0)
		pr_warning("WARNING: %zu files had no unwind table for some time. %.1f %% of %" PRIu64 " user stacks lead through them then and may be short.\n",
			   unwind_coverage__nr_late(tables->coverage), share, tables->stacks);
}

/**
 * unwind_tables__delete - Say what was not covered, and forget it all
 * @tables:	What unwind_tables__start() gave, or NULL
 */
void unwind_tables__delete(struct unwind_tables *tables)
{
	if (!tables)
		return;

	unwind_tables__stop(tables);

	mutex_lock(&tables->lock);
	pr_debug("Unwind tables: %zu files, %" PRIu64 " bytes, %.3f s of CPU time, %zu from the cache, %zu put into it, %zu shared by overlays\n",
		 tables->supplied, tables->size, tables->cpu_seconds, tables->cached,
		 tables->stored, tables->shared);
	pr_debug("Unwind tables: none for %zu files without call frame information, %zu that were gone or changed, %zu not in the cache, %zu failed; %zu have a section; %zu were not begun\n",
		 tables->none, tables->gone, tables->uncached, tables->failed, tables->own,
		 tables->nr_waiting);
	if (tables->lost)
		pr_warning("WARNING: %" PRIu64 " events of files that were mapped later were lost. Those may have no unwind table, and user stacks through them may be short.\n",
			   tables->lost);
	say_uncovered(tables);
	say_late(tables);
	mutex_unlock(&tables->lock);

	if (tables->stored)
		sframe_cache__limit();

	if (!tables->is_stuck)
		free_tables(tables);
}
