// SPDX-License-Identifier: GPL-2.0
/* Finds files that tasks have mapped or map later, or that a command will map */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <api/fs/fs.h>
#include <linux/bits.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <perf/evlist.h>
#include <perf/threadmap.h>

#include "util/debug.h"
#include "util/elf-deps.h"
#include "util/event.h"
#include "util/evlist.h"
#include "util/unwind-tables-internal.h"
#include "util/unwind-tables-proc.h"

/* Called by a worker, because the command's libraries may be on any file system. */
static int add_path(struct unwind_tables *tables, const char *path, bool is_recalled)
{
	struct unwind_tables_file *file;
	char *real_path;
	struct stat st;

	if (unwind_tables__is_stopped(tables))
		return -EINTR;
	if (stat(path, &st))
		return 0;

	/* The mapping of the file will have this name. */
	real_path = realpath(path, NULL);
	mutex_lock(&tables->lock);
	file = unwind_tables__add_file(tables, getpid(), real_path ?: path, 0, NULL, st.st_dev,
				       st.st_ino, 0);
	if (file && file->state == FILE_WAITS && !file->is_command && !file->is_partial) {
		file->length = st.st_size;
		file->need = NEED_COMMAND;
		file->is_command = true;
		file->is_recalled = is_recalled;
		tables->command_left++;
	}
	mutex_unlock(&tables->lock);
	free(real_path);

	return 0;
}

static int add_needed(const char *path, void *arg)
{
	return add_path(arg, path, /*is_recalled=*/false);
}

static int add_recalled(const char *path, void *arg)
{
	return add_path(arg, path, /*is_recalled=*/true);
}

static void add_mapping(struct unwind_tables *tables, pid_t pid, u64 start, u64 end,
			dev_t dev, ino_t ino, u64 gen, const char *name)
{
	char path[PATH_MAX], map_path[PATH_MAX];
	const char *proc = procfs__mountpoint();
	struct unwind_tables_file *file;
	int ret;

	/* Skip anonymous memory, the vDSO and similar mappings. */
	if (!ino || name[0] != '/' || strstarts(name, "//anon"))
		return;

	ret = snprintf(path, sizeof(path), "%s/%d/root%s", proc, pid, name);
	if (ret < 0 || (size_t)ret >= sizeof(path))
		return;
	snprintf(map_path, sizeof(map_path), "%s/%d/map_files/%" PRIx64 "-%" PRIx64, proc, pid,
		 start, end);

	mutex_lock(&tables->lock);
	file = unwind_tables__add_file(tables, pid, path, ret - strlen(name), map_path, dev, ino,
				       gen);
	if (file) {
		file->length = file->length ?: end - start;
		unwind_tables__add_place(tables, file, pid, start, end);
	}
	mutex_unlock(&tables->lock);
}

/**
 * unwind_tables__add_event - Give the kernel the table of a file that a task maps
 * @tables:	From unwind_tables__start(), or NULL
 * @event:	Any event; only PERF_RECORD_MMAP2 is used
 *
 * This only puts the file on the list, and does not wait for its table.
 */
void unwind_tables__add_event(struct unwind_tables *tables, const union perf_event *event)
{
	const struct perf_record_mmap2 *mmap2 = &event->mmap2;

	if (!tables || event->header.type != PERF_RECORD_MMAP2 ||
	    event->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID ||
	    event->header.misc & PERF_RECORD_MISC_MMAP_DATA ||
	    (event->header.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER)
		return;

	/* Synthesized events have no generation. They may be of any task. */
	if (!mmap2->ino_generation && !unwind_tables__is_profiled(tables, mmap2->pid))
		return;

	add_mapping(tables, mmap2->pid, mmap2->start, mmap2->start + mmap2->len,
		    makedev(mmap2->maj, mmap2->min), mmap2->ino, mmap2->ino_generation,
		    mmap2->filename);
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

	if (!unwind_tables__is_profiled(tables, pid))
		return;

	snprintf(path, sizeof(path), "%s/%d/maps", procfs__mountpoint(), pid);
	file = fopen(path, "re");
	/* The process has ended, or belongs to another user. */
	if (!file)
		return;

	while (getline(&line, &size, file) > 0) {
		if (!unwind_tables_proc__parse_mapping(line, &start, &end, prot, &dev, &ino, &pos))
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

	while (!unwind_tables__is_stopped(tables) && (entry = readdir(dir))) {
		pid = atoi(entry->d_name);
		if (pid > 0)
			add_process(tables, pid);
	}

	closedir(dir);
}

/* Adds the files that profiled tasks have mapped. The command does not run yet. */
static void add_tasks(struct unwind_tables *tables)
{
	struct perf_thread_map *threads = tables->evlist->core.threads;
	pid_t pid;
	int i;

	for (i = 0; !unwind_tables__is_stopped(tables) && i < perf_thread_map__nr(threads); i++) {
		pid = perf_thread_map__pid(threads, i);
		if (pid == -1)
			add_all_processes(tables);
		else if (pid != tables->evlist->workload.pid)
			add_process(tables, pid);
	}
}

/*
 * Looks for the files of the command, and then for the mappings of tasks. One
 * worker does each of these. Returns false if there is nothing to look for. The
 * caller holds the lock.
 */
bool unwind_tables__find_files(struct unwind_tables *tables)
{
	int err;

	if (tables->finding) {
		tables->finding = false;
		tables->command_left++;
		mutex_unlock(&tables->lock);
		err = elf_deps__for_each(tables->opts.command, add_needed, tables);
		if (!err)
			err = unwind_tables__recall(tables, add_recalled, tables);
		if (err)
			pr_debug("Cannot find out what %s will map: %d\n",
				 tables->opts.command, err);
		mutex_lock(&tables->lock);
		tables->command_left--;
		cond_broadcast(&tables->idle);
		unwind_tables__update_need(tables);
		return true;
	}

	if (tables->scanning) {
		tables->scanning = false;
		mutex_unlock(&tables->lock);
		add_tasks(tables);
		mutex_lock(&tables->lock);
		tables->scans_done++;
		unwind_tables__update_need(tables);
		return true;
	}

	return false;
}
