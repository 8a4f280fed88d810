// SPDX-License-Identifier: GPL-2.0
/*
 * Hands the kernel SFrame tables for files that have no SFrame section, so that it
 * can unwind user stacks of programs without frame pointers
 *
 * First come the files that a command is going to map, and those that tasks have
 * mapped already, as many at a time as there are CPUs; then, by a thread, those that
 * are mapped later. What runs before its table is there is unwound by frame pointer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <api/fd/array.h>
#include <api/fs/fs.h>
#include <internal/evlist.h>
#include <internal/xyarray.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <perf/evlist.h>
#include <perf/mmap.h>
#include <perf/threadmap.h>

#include "util/addr_location.h"
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
#include "util/sframe-parallel.h"
#include "util/sframe-table.h"
#include "util/thread.h"
#include "util/thread_map.h"
#include "util/unwind-tables.h"

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

/* Shorter work shows no progress. */
#define PROGRESS_AFTER	1.0

/**
 * struct unwind_tables_file - A file that is mapped, or will be
 * @path:	Where it is, or was, as the task that maps it sees it
 * @name:	The end of @path from where perf may see the same, when the task has ended
 * @map_path:	In /proc/PID/map_files, which is no other file whatever happened to the
 *		name; NULL if there is none
 * @dev:	Device that it must be on
 * @ino:	Inode that it must be
 * @ctime:	When that was changed
 * @supplied:	The kernel has a table for it, and so keeps the inode
 * @gone:	It could not be opened, or changed meanwhile
 */
struct unwind_tables_file {
	char		*path;
	char		*name;
	char		*map_path;
	dev_t		dev;
	ino_t		ino;
	struct timespec	ctime;
	bool		supplied;
	bool		gone;
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
 * @fd:		The event that owns them
 * @files:	All files that were looked at
 * @nr_files:	How many
 * @room_files:	How many there is room for
 * @by_inode:	The same, without those that others have taken the place of
 * @first:	Of those that are handed over together
 * @start:	When that began, in seconds
 * @seconds:	What it took
 * @sideband:	Events for what is mapped later, or NULL
 * @thread:	Reads them
 * @wake:	Pipe that ends @thread
 * @is_done:	Asks the caller whether the session is to end
 * @stop:	unwind_tables__stop() was called
 * @lock:	Held while what follows is used
 * @nr_done:	Of those that are handed over together
 * @supplied:	Tables that the kernel has
 * @size:	Their size in bytes
 * @cached:	Of these, tables that were in the cache
 * @own:	Files that have a section of their own
 * @none:	Files that have nothing that a table could be made of
 * @gone:	Files that could not be opened, or changed
 * @failed:	Files whose table could not be made, or was refused
 * @unmade:	Of these, those that exceed a limit of perf
 * @refused:	Of these, those that exceed a limit of the kernel
 * @lost:	Events of mappings that were lost, or beyond %MAX_FILES
 * @uncovered:	Names of files that should have a table but have none
 * @stacks:	Deferred user callchains that were looked at
 * @short_stacks: Of these, those that lead through a file of @uncovered
 */
struct unwind_tables {
	int				fd;
	struct unwind_tables_file	**files;
	size_t				nr_files;
	size_t				room_files;
	struct hashmap			*by_inode;
	size_t				first;
	double				start;
	double				seconds;
	struct evlist			*sideband;
	pthread_t			thread;
	int				wake[2];
	bool				(*is_done)(void);
	bool				stop;
	/* Of what the threads count */
	struct mutex			lock;
	size_t				nr_done;
	size_t				supplied;
	u64				size;
	size_t				cached;
	size_t				own;
	size_t				none;
	size_t				gone;
	size_t				failed;
	struct unwind_tables_limit	unmade;
	struct unwind_tables_limit	refused;
	u64				lost;
	struct hashmap			*uncovered;
	u64				stacks;
	u64				short_stacks;
};

/* What is not handed over yet is of no use any more. */
static bool is_stopped(const struct unwind_tables *tables)
{
	return tables->is_done() || __atomic_load_n(&tables->stop, __ATOMIC_RELAXED);
}

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / (double)NSEC_PER_SEC;
}

static int supply(int event_fd, int fd, const void *data, size_t size)
{
	struct perf_event_unwind_table arg = {
		.size		= sizeof(arg),
		.fd		= fd,
		.table		= (unsigned long)data,
		.table_size	= size,
	};

	return ioctl(event_fd, PERF_EVENT_IOC_UNWIND_TABLE, &arg) ? -errno : 0;
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

static void free_file(struct unwind_tables_file *file)
{
	if (!file)
		return;

	zfree(&file->path);
	zfree(&file->map_path);
	free(file);
}

static struct unwind_tables_file *new_file(const char *path, size_t root_len,
					   const char *map_path, dev_t dev, ino_t ino)
{
	struct unwind_tables_file *file = zalloc(sizeof(*file));

	if (!file)
		return NULL;

	file->path = strdup(path);
	file->map_path = map_path ? strdup(map_path) : NULL;
	file->dev = dev;
	file->ino = ino;
	if (!file->path || (map_path && !file->map_path)) {
		free_file(file);
		return NULL;
	}
	file->name = file->path + root_len;

	return file;
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

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/*
 * Is what has this inode now another file than the one that was looked at? File
 * systems give numbers out again, but a new inode has another time of change.
 */
static bool is_reused(const struct unwind_tables_file *old, const struct unwind_tables_file *new)
{
	struct stat st;
	int where, fd;

	for (where = 0; where < AT_NR; where++) {
		fd = look_at(new, where, &st);
		if (fd < 0)
			continue;
		close(fd);
		/* On some file systems only the mapping tells. */
		if (where == AT_MAPPING || (st.st_dev == new->dev && st.st_ino == new->ino))
			return !is_same_time(&st.st_ctim, &old->ctime);
	}

	return false;
}

static int add_file(struct unwind_tables *tables, const char *path, size_t root_len,
		    const char *map_path, dev_t dev, ino_t ino)
{
	struct unwind_tables_file key = { .dev = dev, .ino = ino, };
	struct unwind_tables_file *file, *old = NULL;
	int err = 0;

	/* One that waits for its table has no time yet. */
	hashmap__find(tables->by_inode, &key, &old);
	if (old && !old->gone && (old->supplied || !old->ctime.tv_sec))
		return 0;

	file = new_file(path, root_len, map_path, dev, ino);
	if (!file)
		return -ENOMEM;

	if (old && !old->gone && !is_reused(old, file))
		goto out;

	if (tables->nr_files == MAX_FILES) {
		pr_debug("Too many files for a table for %s\n", path);
		tables->lost++;
		goto out;
	}

	err = append_file(tables, file);
	if (!err)
		return 0;
out:
	free_file(file);
	return err;
}

static int add_needed(const char *path, void *arg)
{
	struct unwind_tables *tables = arg;
	char *real_path;
	struct stat st;
	int err;

	if (is_stopped(tables))
		return -EINTR;
	if (stat(path, &st))
		return 0;

	/* This is the name that its mapping will have. */
	real_path = realpath(path, NULL);
	err = add_file(tables, real_path ?: path, 0, NULL, st.st_dev, st.st_ino);
	free(real_path);

	return err;
}

static int add_mapping(struct unwind_tables *tables, pid_t pid, u64 start, u64 end,
		       dev_t dev, ino_t ino, const char *name)
{
	char path[PATH_MAX], map_path[PATH_MAX];
	const char *proc = procfs__mountpoint();
	int ret;

	/* Anonymous memory; the vDSO and the like */
	if (!ino || name[0] != '/')
		return 0;

	ret = snprintf(path, sizeof(path), "%s/%d/root%s", proc, pid, name);
	if (ret < 0 || (size_t)ret >= sizeof(path))
		return 0;
	snprintf(map_path, sizeof(map_path), "%s/%d/map_files/%" PRIx64 "-%" PRIx64, proc, pid,
		 start, end);

	return add_file(tables, path, ret - strlen(name), map_path, dev, ino);
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

static int add_process(struct unwind_tables *tables, pid_t pid)
{
	char path[PATH_MAX], prot[5];
	u64 start, end, ino;
	char *line = NULL;
	size_t size = 0;
	int pos, err = 0;
	FILE *file;
	dev_t dev;

	snprintf(path, sizeof(path), "%s/%d/maps", procfs__mountpoint(), pid);
	file = fopen(path, "re");
	/* It has ended, or belongs to somebody else. */
	if (!file)
		return 0;

	while (!err && getline(&line, &size, file) > 0) {
		if (!parse_mapping(line, &start, &end, prot, &dev, &ino, &pos))
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (prot[2] == 'x')
			err = add_mapping(tables, pid, start, end, dev, ino, line + pos);
	}

	free(line);
	fclose(file);
	return err;
}

static int add_all_processes(struct unwind_tables *tables)
{
	DIR *dir = opendir(procfs__mountpoint());
	struct dirent *entry;
	pid_t pid;
	int err = 0;

	if (!dir)
		return -errno;

	while (!err && !is_stopped(tables) && (entry = readdir(dir))) {
		pid = atoi(entry->d_name);
		if (pid > 0)
			err = add_process(tables, pid);
	}

	closedir(dir);
	return err;
}

/* What the tasks that are profiled have mapped. That of a command is not there yet. */
static int add_tasks(struct unwind_tables *tables, struct evlist *evlist)
{
	struct perf_thread_map *threads = evlist->core.threads;
	int i, err = 0;
	pid_t pid;

	for (i = 0; !err && !is_stopped(tables) && i < perf_thread_map__nr(threads); i++) {
		pid = perf_thread_map__pid(threads, i);
		if (pid == -1)
			err = add_all_processes(tables);
		else if (pid != evlist->workload.pid)
			err = add_process(tables, pid);
	}

	return err;
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

/* There is nothing that a table could be made of. */
static bool is_without_cfi(int err)
{
	return err == -ENOEXEC || err == -EOPNOTSUPP || err == -ENODATA;
}

static bool is_limit(int err)
{
	return err == -ENOSPC || err == -EPERM || err == -EFBIG || err == -ENOMEM;
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
	} else if (is_without_cfi(err)) {
		tables->none++;
	} else {
		tables->failed++;
		if (is_limit(err))
			count_limit(&tables->unmade, err);
	}
}

static size_t name_hash(long key, void *ctx __maybe_unused)
{
	return str_hash((const char *)key);
}

static bool name_equal(long a, long b, void *ctx __maybe_unused)
{
	return !strcmp((const char *)a, (const char *)b);
}

/* @is_covered: it has a table now, or none is to be had for it */
static void note_covered(struct unwind_tables *tables, const char *name, bool is_covered)
{
	char *old_name = NULL, *new_name;

	if (is_covered) {
		if (hashmap__delete(tables->uncovered, name, &old_name, NULL))
			free(old_name);
		return;
	}

	new_name = strdup(name);
	if (!new_name || hashmap__add(tables->uncovered, new_name, 1L))
		free(new_name);
}

static void show_progress(const struct unwind_tables *tables)
{
	size_t nr = tables->nr_files - tables->first;

	if (!quiet && isatty(STDERR_FILENO) && seconds_now() - tables->start > PROGRESS_AFTER)
		fprintf(stderr, "\r[ perf record: Unwind tables: %zu of %zu files ]%s",
			tables->nr_done, nr,
			tables->nr_done == nr || is_stopped(tables) ? "\n" : "");
}

static bool is_stopped_get(const void *tables)
{
	return is_stopped(tables);
}

static void supply_file(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	struct sframe_table table = { };
	bool own = false, refused = false;
	struct stat st;
	int fd, err;

	fd = open_file(file, &st);
	err = fd < 0 ? fd : 0;
	if (!err)
		own = elf_deps__has_sframe(fd);
	if (!err && !own)
		err = sframe_table__get(&table, fd, is_stopped_get, tables);
	if (!err && !own) {
		err = supply(tables->fd, fd, table.data, table.size);
		refused = err;
	}

	/* The kernel takes what is there now for what the table was made of. */
	if (!err && !own && has_changed(fd, &st)) {
		supply(tables->fd, fd, NULL, 0);
		err = -ENOENT;
	}

	mutex_lock(&tables->lock);
	if (err) {
		count_error(tables, file->path, err, refused);
	} else if (own) {
		tables->own++;
	} else {
		tables->supplied++;
		tables->size += table.size;
		tables->cached += table.cached;
	}
	/* That the session ends before a table is made is no fault of the file. */
	if (err != -EINTR || refused)
		note_covered(tables, file->name, !err || is_without_cfi(err));
	mutex_unlock(&tables->lock);

	/* The next one that maps it may live longer. */
	file->gone = err == -ENOENT;
	file->supplied = !err && !own;
	if (fd >= 0)
		file->ctime = st.st_ctim;

	sframe_table__exit(&table);
	if (fd >= 0)
		close(fd);
}

static void supply_one(size_t index, void *arg)
{
	struct unwind_tables *tables = arg;

	if (is_stopped(tables))
		return;
	supply_file(tables, tables->files[tables->first + index]);

	mutex_lock(&tables->lock);
	tables->nr_done++;
	show_progress(tables);
	mutex_unlock(&tables->lock);
}

static void supply_all(struct unwind_tables *tables)
{
	tables->nr_done = 0;
	tables->start = seconds_now();
	sframe_parallel__run(tables->nr_files - tables->first, 0, supply_one, tables);
	tables->seconds += seconds_now() - tables->start;
	tables->first = tables->nr_files;
}

static void read_mapping(struct unwind_tables *tables, const union perf_event *event)
{
	const struct perf_record_mmap2 *mmap2 = &event->mmap2;
	struct unwind_tables_file *file;
	double start = seconds_now();

	if (event->header.type == PERF_RECORD_LOST)
		tables->lost += event->lost.lost;
	if (event->header.type != PERF_RECORD_MMAP2 ||
	    event->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID)
		return;

	if (add_mapping(tables, mmap2->pid, mmap2->start, mmap2->start + mmap2->len,
			makedev(mmap2->maj, mmap2->min), mmap2->ino, mmap2->filename))
		return;
	if (tables->first == tables->nr_files)
		return;

	file = tables->files[tables->first];
	supply_file(tables, file);
	if (file->gone) {
		hashmap__delete(tables->by_inode, file, NULL, NULL);
		tables->nr_files--;
		free_file(file);
	} else {
		tables->first++;
	}
	tables->seconds += seconds_now() - start;
}

/*
 * One event of each CPU at a time: the file of a program that has begun on one must not
 * wait as long as others are mapped on another. What perf_mmap__read_done() would do is
 * for overwriting; here it would skip what was written since the last look.
 */
static void read_sideband(struct unwind_tables *tables)
{
	struct evlist *evlist = tables->sideband;
	union perf_event *event;
	struct mmap *map;
	bool more;
	int i;

	do {
		more = false;
		for (i = 0; i < evlist->core.nr_mmaps && !is_stopped(tables); i++) {
			map = &evlist->mmap[i];
			if (perf_mmap__read_init(&map->core))
				continue;
			event = perf_mmap__read_event(&map->core);
			if (!event)
				continue;
			read_mapping(tables, event);
			perf_mmap__consume(&map->core);
			more = true;
		}
	} while (more);
}

static void *sideband_thread(void *arg)
{
	struct unwind_tables *tables = arg;
	struct pollfd wake = { .fd = tables->wake[0], .events = POLLIN };

	while (!is_stopped(tables) && poll(&wake, 1, 0) <= 0) {
		read_sideband(tables);
		evlist__poll(tables->sideband, -1);
		/* Those of tasks that have ended would not wait any more. */
		evlist__filter_pollfd(tables->sideband, POLLERR | POLLHUP);
	}

	return NULL;
}

/* Events for what is mapped from now on, of the same tasks and CPUs */
static int try_sideband(struct unwind_tables *tables, struct evlist *evlist,
			const struct evsel *owner, unsigned int pages)
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
	struct evlist *sideband = evlist__new();
	struct evsel *evsel;
	int err = -ENOMEM;

	if (!sideband)
		return err;
	evsel = evsel__new_idx(&attr, 0);
	if (!evsel)
		goto error;
	evsel->ignore_missing_thread = true;
	evlist__add(sideband, evsel);
	perf_evlist__set_maps(&sideband->core, evlist->core.user_requested_cpus,
			      evlist->core.threads);

	err = evsel__open(evsel, evsel->core.cpus, evsel->core.threads);
	if (err < 0)
		goto error;
	if (evlist__mmap(sideband, pages) < 0 || pipe2(tables->wake, O_CLOEXEC)) {
		err = errno ? -errno : -EINVAL;
		goto error;
	}

	tables->sideband = sideband;
	if (perf_evlist__add_pollfd(&sideband->core, tables->wake[0], NULL, POLLIN,
				    fdarray_flag__nonfilterable |
				    fdarray_flag__non_perf_event) >= 0)
		return 0;

	close(tables->wake[0]);
	close(tables->wake[1]);
	tables->sideband = NULL;
	err = -ENOMEM;
error:
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

static void open_sideband(struct unwind_tables *tables, struct evlist *evlist,
			  const struct evsel *owner, bool is_wanted)
{
	unsigned int pages = SIDEBAND_PAGES;
	int err;

	do {
		err = try_sideband(tables, evlist, owner, pages);
		pages /= SIDEBAND_LESS;
	} while (err == -EPERM && pages);

	if (err)
		warn_no_sideband(err, is_wanted);
}

static int *event_fd(struct evsel *evsel, int cpu, int thread)
{
	return xyarray__entry(evsel->core.fd, cpu, thread);
}

/*
 * Without the privilege tables serve the tasks that the events which own them are
 * attached to. One event of each task is enough. Whether the privilege is there is
 * for the kernel to say: a capability may be one in another user namespace.
 */
static void share_tables(const struct unwind_tables *tables, struct evsel *evsel)
{
	struct perf_event_unwind_table arg = {
		.size	= sizeof(arg),
		.fd	= tables->fd,
		.flags	= PERF_EVENT_UNWIND_TABLE_SHARE,
	};
	int cpu, thread, fd = -1;

	for (thread = 0; thread < xyarray__max_y(evsel->core.fd); thread++) {
		for (cpu = 0; cpu < xyarray__max_x(evsel->core.fd); cpu++) {
			fd = *event_fd(evsel, cpu, thread);
			if (fd >= 0)
				break;
		}
		if (fd >= 0 && fd != tables->fd && ioctl(fd, PERF_EVENT_IOC_UNWIND_TABLE, &arg))
			pr_debug("Cannot share unwind tables: %m\n");
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

/* Signals are for the thread that waits for them. */
static int start_sideband(struct unwind_tables *tables)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&tables->thread, NULL, sideband_thread, tables);
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	return err;
}

/**
 * unwind_tables__start - Hand the kernel tables for what the events will see
 * @ptables:	Receives what unwind_tables__delete() takes
 * @evlist:	The events, which are open and mapped
 * @command:	What will be run, or NULL
 * @is_done:	Tells whether the session is to end, as after a signal; called by any
 *		thread, until unwind_tables__stop()
 * @is_wanted:	Somebody asked for it, and wants to know what cannot be done
 *
 * Files that are there are done on return, those that are mapped later are left to a
 * thread. Errors of single files are counted. When @is_done() says so just what has
 * been begun is finished, at most one file for each CPU.
 *
 * Return: 0; -ENOENT - no event defers user callchains; -ENOTTY - the kernel takes no
 *	   tables; -EACCES - it takes them only for tasks, or with CAP_PERFMON; -ENOMEM.
 */
int unwind_tables__start(struct unwind_tables **ptables, struct evlist *evlist,
			 const char *command, bool (*is_done)(void), bool is_wanted)
{
	struct unwind_tables *tables;
	struct evsel *owner;
	int fd, err;

	*ptables = NULL;

	owner = find_owner(evlist, &fd);
	if (!owner)
		return -ENOENT;

	/* There is no such file, unless this is not known at all. */
	err = supply(fd, -1, NULL, 0);
	if (err != -EBADF)
		return err ?: -ENOTTY;

	tables = zalloc(sizeof(*tables));
	if (!tables)
		return -ENOMEM;
	tables->by_inode = hashmap__new(file_hash, file_equal, NULL);
	tables->uncovered = hashmap__new(name_hash, name_equal, NULL);
	if (IS_ERR(tables->by_inode) || IS_ERR(tables->uncovered)) {
		hashmap__free(tables->by_inode);
		hashmap__free(tables->uncovered);
		free(tables);
		return -ENOMEM;
	}
	tables->fd = fd;
	tables->is_done = is_done;
	mutex_init(&tables->lock);

	share_tables(tables, owner);

	/* First, so that nothing is missed in between. */
	open_sideband(tables, evlist, owner, is_wanted);

	err = command ? elf_deps__for_each(command, add_needed, tables) : 0;
	if (err)
		pr_debug("Cannot say what %s will map: %d\n", command, err);
	err = add_tasks(tables, evlist);
	if (err)
		pr_debug("Cannot say what is mapped: %d\n", err);
	supply_all(tables);

	err = tables->sideband ? start_sideband(tables) : 0;
	if (err) {
		warn_no_sideband(-err, is_wanted);
		evlist__delete(tables->sideband);
		tables->sideband = NULL;
		close(tables->wake[0]);
		close(tables->wake[1]);
	}

	*ptables = tables;
	return 0;
}

static void stop_sideband(struct unwind_tables *tables)
{
	if (!tables->sideband)
		return;

	__atomic_store_n(&tables->stop, true, __ATOMIC_RELAXED);
	/* The end of file wakes it. */
	close(tables->wake[1]);
	pthread_join(tables->thread, NULL);
	close(tables->wake[0]);
	evlist__delete(tables->sideband);
	tables->sideband = NULL;
}

/**
 * unwind_tables__stop - Hand over no more
 * @tables:	What unwind_tables__start() gave, or NULL
 *
 * The kernel drops the tables when the events are closed.
 */
void unwind_tables__stop(struct unwind_tables *tables)
{
	if (tables)
		stop_sideband(tables);
}

/* The file that this address is in, if it should have a table but has none */
static bool is_uncovered(const struct unwind_tables *tables, struct thread *thread, u64 ip)
{
	struct addr_location al;
	const char *name;
	bool ret = false;

	addr_location__init(&al);
	if (thread__find_map(thread, PERF_RECORD_MISC_USER, ip, &al)) {
		name = dso__long_name(map__dso(al.map));
		ret = hashmap__find(tables->uncovered, name, NULL);
	}
	addr_location__exit(&al);

	return ret;
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
	struct thread *thread;
	u64 i;

	if (!tables)
		return;

	mutex_lock(&tables->lock);
	tables->stacks++;
	if (!hashmap__size(tables->uncovered))
		goto unlock;
	thread = machine__findnew_thread(machine, sample->pid, sample->tid);
	if (!thread)
		goto unlock;

	for (i = 0; i < user->nr; i++) {
		if (is_uncovered(tables, thread, user->ips[i])) {
			tables->short_stacks++;
			break;
		}
	}
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

	return tables->failed ? "damaged" : "gone or changed";
}

static void say_uncovered(const struct unwind_tables *tables)
{
	size_t nr = hashmap__size(tables->uncovered), bkt;
	char buf[STRERR_BUFSIZE], share[128] = "User stacks through them";
	const struct hashmap_entry *cur;
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
			   nr, nr + tables->supplied + tables->own,
			   why_uncovered(tables, buf, sizeof(buf)),
			   tables->refused.err == -EPERM ? ", " TABLE_LIMITS : "",
			   share);
	hashmap__for_each_entry(tables->uncovered, cur, bkt)
		pr_debug("No unwind table for %s\n", (const char *)cur->pkey);
}

/**
 * unwind_tables__delete - Say what was not covered, and forget it all
 * @tables:	What unwind_tables__start() gave, or NULL
 */
void unwind_tables__delete(struct unwind_tables *tables)
{
	struct hashmap_entry *cur;
	size_t i;

	if (!tables)
		return;

	stop_sideband(tables);

	pr_debug("Unwind tables: %zu files, %" PRIu64 " bytes, %.3f s, %zu from the cache\n",
		 tables->supplied, tables->size, tables->seconds, tables->cached);
	pr_debug("Unwind tables: none for %zu files without call frame information, %zu that were gone or changed, %zu failed; %zu have a section\n",
		 tables->none, tables->gone, tables->failed, tables->own);
	if (tables->lost)
		pr_warning("WARNING: %" PRIu64 " events of files that were mapped later were lost. Those may have no unwind table, and user stacks through them may be short.\n",
			   tables->lost);
	say_uncovered(tables);

	hashmap__free(tables->by_inode);
	hashmap__for_each_entry(tables->uncovered, cur, i)
		free((char *)cur->pkey);
	hashmap__free(tables->uncovered);
	for (i = 0; i < tables->nr_files; i++)
		free_file(tables->files[i]);
	zfree(&tables->files);
	mutex_destroy(&tables->lock);
	free(tables);
}
