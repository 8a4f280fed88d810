// SPDX-License-Identifier: GPL-2.0
/* The list of files, with their paths; picks the waiting file that is needed most */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <linux/err.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "util/array-grow.h"
#include "util/debug.h"
#include "util/evsel.h"
#include "util/hashmap.h"
#include "util/sample.h"
#include "util/unwind-tables-internal.h"
#include "util/unwind-tables-proc.h"

/* A busy machine has fewer files. The kernel accepts 8192 tables. */
#define MAX_FILES	65536

/* Samples are looked up in at most this many mappings of waiting files. */
#define MAX_MAPPINGS	(4 * MAX_FILES)
#define MAX_PROCESS_MAPPINGS	1024

/* The file with the instruction counts more than other files of the same process. */
#define NEED_IP		16
#define NEED_PROCESS	1

/* At most this many files of network file systems are processed at the same time. */
#define MAX_REMOTE	1

/**
 * struct unwind_tables_mapping - A mapping of a file in a process
 * @next:	Next mapping of the same process
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

int unwind_tables__init_files(struct unwind_tables *tables)
{
	tables->by_inode = hashmap__new(file_hash, file_equal, NULL);
	tables->by_pid = hashmap__new(pid_hash, pid_equal, NULL);

	return IS_ERR(tables->by_inode) || IS_ERR(tables->by_pid) ? -ENOMEM : 0;
}

static void free_file(struct unwind_tables_file *file)
{
	if (!file)
		return;

	zfree(&file->path);
	zfree(&file->map_path);
	free(file);
}

static void free_places(struct unwind_tables *tables)
{
	struct unwind_tables_mapping *mapping, *next;
	struct hashmap_entry *cur;
	size_t i;

	if (IS_ERR_OR_NULL(tables->by_pid))
		return;

	hashmap__for_each_entry(tables->by_pid, cur, i) {
		for (mapping = cur->pvalue; mapping; mapping = next) {
			next = mapping->next;
			free(mapping);
		}
	}
	tables->nr_mappings = 0;
}

void unwind_tables__exit_files(struct unwind_tables *tables)
{
	size_t i;

	hashmap__free(tables->by_inode);
	free_places(tables);
	hashmap__free(tables->by_pid);
	for (i = 0; i < tables->nr_files; i++)
		free_file(tables->files[i]);
	zfree(&tables->files);
}

static enum unwind_tables_fs find_fs(struct unwind_tables *tables, pid_t pid, dev_t dev)
{
	struct unwind_tables_device *device;
	enum unwind_tables_fs fs;
	size_t i;

	for (i = 0; i < tables->nr_devices; i++) {
		if (tables->devices[i].dev == dev)
			return tables->devices[i].fs;
	}

	/* A process may map many files whose mount it does not see, such as memfds. */
	if (tables->hidden_dev == dev && tables->hidden_pid == pid)
		fs = FS_HIDDEN;
	else
		fs = unwind_tables_proc__find_fs(pid, dev);
	/* Ask another task that maps a file there. */
	if (fs == FS_UNKNOWN)
		return FS_LOCAL;
	/*
	 * It may be of any kind. A service must go on if the file system does not answer.
	 * Another process may see the mount, so only the last answer is kept.
	 */
	if (fs == FS_HIDDEN) {
		tables->hidden_dev = dev;
		tables->hidden_pid = pid;
		return tables->opts.serve ? FS_REMOTE : FS_LOCAL;
	}

	if (tables->nr_devices < MAX_DEVICES) {
		device = &tables->devices[tables->nr_devices++];
		device->dev = dev;
		device->fs = fs;
	}
	return fs;
}

/* Is this a program, or the C library of glibc or musl? */
static bool is_basic(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return !strstr(name, ".so") || strstarts(name, "libc.so") ||
	       strstarts(name, "libc-2.") || strstarts(name, "ld-musl-");
}

/* Replaces the paths. */
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
	file->is_basic = is_basic(path);
	return 0;
}

/* When a FUSE server handles a request, even SIGKILL cannot end the wait. */
static void refuse_file(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	file->state = FILE_REFUSED;
	unwind_tables__count_error(tables, file->path, -EREMOTE, /*refused=*/false);
	unwind_tables__note_covered(tables, file, 0, /*before=*/false, /*is_covered=*/false);
}

/*
 * If there was no room for its table, does it make sense that a worker looks at the file
 * again? It may have been written to, or there is room now.
 */
static bool may_fit(struct unwind_tables *tables, const struct unwind_tables_file *file)
{
	if (file->supplied || !file->size)
		return true;
	if (!tables->opts.serve)
		return false;

	if (file->size <= tables->opts.max_size && !unwind_tables__has_room(tables, file->size))
		tables->wants_room = true;
	return true;
}

static int append_file(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	void *files = array__grow(tables->files, tables->nr_files, &tables->room_files,
				  sizeof(*tables->files));

	if (!files)
		return -ENOMEM;
	tables->files = files;

	if (hashmap__set(tables->by_inode, file, file, NULL, NULL))
		return -ENOMEM;
	tables->files[tables->nr_files++] = file;

	return 0;
}

void unwind_tables__queue_file(struct unwind_tables *tables, struct unwind_tables_file *file)
{
	file->state = FILE_WAITS;
	tables->nr_waiting++;
	cond_signal(&tables->work);
	unwind_tables__update_need(tables);
}

/*
 * Samples show which of the waiting files are needed most, so they are taken only while files
 * wait. They go on until a scan is over: it may find more files. The caller holds the lock.
 */
void unwind_tables__update_need(struct unwind_tables *tables)
{
	bool on = tables->nr_waiting || tables->finding || tables->command_left ||
		  tables->scans_done != tables->nr_scans;

	if (!tables->need || on == tables->need_on)
		return;

	tables->need_on = on;
	if (on)
		evsel__enable(tables->need);
	else
		evsel__disable(tables->need);
}

/* Keep the mapping of a waiting file: samples show how much the file is needed. */
void unwind_tables__add_place(struct unwind_tables *tables, struct unwind_tables_file *file,
			      pid_t pid, u64 start, u64 end)
{
	struct unwind_tables_mapping *mapping, *next = NULL;
	unsigned int nr = 0;

	if (!tables->need || file->state != FILE_WAITS || tables->nr_mappings == MAX_MAPPINGS)
		return;

	hashmap__find(tables->by_pid, pid, &next);
	/* Each sample of the process goes through them. */
	for (mapping = next; mapping; mapping = mapping->next) {
		if (mapping->file == file && mapping->start == start && mapping->end == end)
			return;
		if (++nr == MAX_PROCESS_MAPPINGS)
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

/* @gen is the generation from an event, or 0. Returns NULL if nothing is needed. */
struct unwind_tables_file *unwind_tables__add_file(struct unwind_tables *tables, pid_t pid,
						   const char *path, size_t root_len,
						   const char *map_path, dev_t dev, ino_t ino,
						   u64 gen)
{
	struct unwind_tables_file key = { .dev = dev, .ino = ino, };
	struct unwind_tables_file *file = NULL;
	enum unwind_tables_fs fs;

	/* No stack of the session leads through it. */
	if (tables->over)
		return NULL;

	hashmap__find(tables->by_inode, &key, &file);
	if (file) {
		file->seen = tables->nr_scans;
		if (map_path)
			file->is_recalled = false;
		if (file->state == FILE_REFUSED)
			return NULL;
		if (file->state == FILE_BUSY && !file->path)
			name_file(file, path, root_len, map_path);
		/* The task that had mapped it may end before its whole table is made. */
		if (file->state == FILE_WAITS && file->is_partial)
			name_file(file, path, root_len, map_path);
		if (file->state != FILE_DONE)
			return file;
		/* File systems reuse inode numbers, some with another generation. */
		if (file->supplied && (!gen || !file->gen || gen == file->gen)) {
			/* It may have been written to. A worker of a service checks. */
			if ((!tables->opts.serve || file->checked == tables->nr_scans) &&
			    !file->is_partial)
				return NULL;
			if (name_file(file, path, root_len, map_path))
				return NULL;
			file->checked = tables->nr_scans;
			unwind_tables__queue_file(tables, file);
			return file;
		}
		/* A file without a table may be another one now. A worker checks. */
		if (gen && file->gen && gen != file->gen) {
			if (file->supplied)
				unwind_tables__uncount(tables, file);
			file->supplied = false;
			file->size = 0;
			file->ctime = (struct timespec) { };
			file->gone = true;
		}
		/* In a service, it is not looked at again for each of its mappings. */
		if (tables->opts.serve && !file->gone) {
			if (file->checked == tables->nr_scans)
				return NULL;
			file->checked = tables->nr_scans;
		}
		if (!may_fit(tables, file))
			return NULL;
		if (name_file(file, path, root_len, map_path))
			return NULL;
		/* The task that had mapped it may have ended before its mounts were read. */
		if (file->gone) {
			fs = find_fs(tables, pid, dev);
			file->is_remote = fs == FS_REMOTE;
			if (fs == FS_FUSE) {
				refuse_file(tables, file);
				return NULL;
			}
		}
		file->gen = gen ?: file->gen;
		unwind_tables__queue_file(tables, file);
		return file;
	}

	if (tables->nr_files == MAX_FILES) {
		pr_debug("Too many files, so no unwind table for %s\n", path);
		tables->lost++;
		return NULL;
	}

	file = zalloc(sizeof(*file));
	if (!file)
		return NULL;
	file->dev = dev;
	file->ino = ino;
	file->gen = gen;
	file->seen = tables->nr_scans;
	fs = find_fs(tables, pid, dev);
	file->is_remote = fs == FS_REMOTE;
	if (name_file(file, path, root_len, map_path) || append_file(tables, file)) {
		free_file(file);
		return NULL;
	}

	if (fs == FS_FUSE) {
		refuse_file(tables, file);
		return NULL;
	}

	unwind_tables__queue_file(tables, file);
	return file;
}

/* A sample counts for each file of its process, and most for the file at its ip. */
void unwind_tables__add_need(struct unwind_tables *tables, const struct perf_sample *sample)
{
	struct unwind_tables_mapping *mapping = NULL;

	mutex_lock(&tables->lock);
	hashmap__find(tables->by_pid, (pid_t)sample->pid, &mapping);
	for (; mapping; mapping = mapping->next) {
		mapping->file->need += mapping->start <= sample->ip && sample->ip < mapping->end ?
				       NEED_IP : NEED_PROCESS;
	}
	mutex_unlock(&tables->lock);
}

/*
 * A server may be slow, so local files come first, and those without a table before them. If
 * no samples say which one is needed most, one large file must not keep many small ones waiting.
 */
static int compare_need(const struct unwind_tables_file *a, const struct unwind_tables_file *b)
{
	if (a->is_partial != b->is_partial)
		return a->is_partial ? -1 : 1;
	if (a->is_remote != b->is_remote)
		return a->is_remote ? -1 : 1;
	if (a->need != b->need)
		return a->need < b->need ? -1 : 1;
	if (a->is_basic != b->is_basic)
		return a->is_basic ? 1 : -1;
	if (a->length != b->length)
		return a->length > b->length ? -1 : 1;
	return 0;
}

/* Must a file that has a partial table wait, so that a worker is there for those without one? */
static bool is_for_last_worker(const struct unwind_tables *tables)
{
	return tables->opts.serve && tables->nr_whole &&
	       tables->nr_whole + 1 >= tables->nr_workers;
}

/* Returns the file that is needed most. The caller holds the lock. */
struct unwind_tables_file *unwind_tables__pick_file(struct unwind_tables *tables)
{
	struct unwind_tables_file *file, *best = NULL;
	size_t i;

	for (i = 0; tables->nr_waiting && i < tables->nr_files; i++) {
		file = tables->files[i];
		if (file->state != FILE_WAITS)
			continue;
		if (file->is_remote && tables->nr_remote == MAX_REMOTE)
			continue;
		if (file->is_partial && (tables->over || is_for_last_worker(tables)))
			continue;
		if (!best || compare_need(best, file) < 0)
			best = file;
	}

	return best;
}

/* Returns how many files wait for their first table. The caller holds the lock. */
size_t unwind_tables__nr_without(const struct unwind_tables *tables)
{
	size_t i, nr = tables->nr_waiting;

	for (i = 0; nr && i < tables->nr_files; i++)
		nr -= tables->files[i]->state == FILE_WAITS && tables->files[i]->is_partial;

	return nr;
}

static bool is_unmapped(const struct unwind_tables *tables, const struct unwind_tables_file *file,
			unsigned int idle_scans)
{
	return file->seen + idle_scans < tables->scans_done;
}

/*
 * Returns the file with a table that has not been mapped for longest, at least since the
 * last scan. The caller holds the lock.
 */
struct unwind_tables_file *unwind_tables__pick_unmapped(struct unwind_tables *tables)
{
	struct unwind_tables_file *file, *best = NULL;
	size_t i;

	for (i = 0; i < tables->nr_files; i++) {
		file = tables->files[i];
		if (file->state != FILE_DONE || !file->supplied || !is_unmapped(tables, file, 0))
			continue;
		if (!best || best->seen > file->seen)
			best = file;
	}

	return best;
}

/* Tables of files that no scan has seen do not count any more. The caller holds the lock. */
void unwind_tables__drop_unmapped(struct unwind_tables *tables, unsigned int idle_scans)
{
	struct unwind_tables_file *file;
	size_t i;

	for (i = 0; i < tables->nr_files; i++) {
		file = tables->files[i];
		if (file->state == FILE_DONE && file->supplied &&
		    is_unmapped(tables, file, idle_scans))
			unwind_tables__drop(tables, file);
	}
}

/*
 * Forget files without a table that no scan has seen, and what samples were looked up
 * in. So a service does not grow. If there are many, two scans are enough: there must be
 * places for other files. The caller holds the lock.
 */
void unwind_tables__forget_files(struct unwind_tables *tables, unsigned int idle_scans)
{
	struct unwind_tables_file *file;
	size_t i, left = 0;

	/* They have pointers to files. */
	free_places(tables);
	hashmap__clear(tables->by_pid);
	tables->nr_devices = 0;
	tables->hidden_pid = 0;
	if (tables->nr_files > MAX_FILES / 2)
		idle_scans = min(idle_scans, 2U);

	for (i = 0; i < tables->nr_files; i++) {
		file = tables->files[i];
		if (file->state == FILE_BUSY || file->state == FILE_WAITS || file->supplied ||
		    !is_unmapped(tables, file, idle_scans)) {
			tables->files[left++] = file;
			continue;
		}
		hashmap__delete(tables->by_inode, file, NULL, NULL);
		free_file(file);
	}
	tables->nr_files = left;
}
