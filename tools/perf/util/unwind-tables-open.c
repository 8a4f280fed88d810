// SPDX-License-Identifier: GPL-2.0
/* Opens the file that is mapped, even if its path leads to another file now */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <api/fs/fs.h>

#include "util/unwind-tables-internal.h"
#include "util/unwind-tables-proc.h"

/* Where to look for a file. Only AT_MAPPING always leads to the mapped file. */
enum {
	AT_MAPPING,
	AT_PATH,
	AT_NAME,
	AT_NR,
};

/*
 * Look at the file without opening it for reading. The profiled tasks can put
 * anything there: to open a device may have an effect, and to open a FIFO would
 * wait for its other end. The path of a mapping does not end in a symbolic link.
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

/* Open the file of look_at() for reading, and close the descriptor of look_at(). */
static int open_really(int path_fd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(path_fd);

	return fd;
}

/* Would a mapping of the file have this device and inode number? */
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

	/* The file may be empty, and it is not read here. */
	map = mmap(NULL, len, PROT_NONE, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;

	snprintf(path, sizeof(path), "%s/self/maps", procfs__mountpoint());
	maps = fopen(path, "re");
	while (maps && !found && getline(&line, &size, maps) > 0) {
		if (!unwind_tables_proc__parse_mapping(line, &start, &end, prot, &map_dev,
						       &map_ino, &pos))
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

/*
 * With @only_mapping, do not follow a path: who can mount below it can make that take for
 * ever.
 */
int unwind_tables_file__open(const struct unwind_tables_file *file, bool only_mapping,
			     struct stat *st)
{
	int nr = only_mapping ? AT_MAPPING + 1 : AT_NR;
	int where, fd;

	for (where = 0; where < nr; where++) {
		fd = look_at(file, where, st);
		if (fd >= 0 && st->st_dev == file->dev && st->st_ino == file->ino)
			return open_really(fd);
		if (fd >= 0)
			close(fd);
	}

	/*
	 * On an overlay, and on other file systems with devices of their own,
	 * fstat() and the mapping have different numbers. A path may lead to another
	 * file, and the process may have mapped another one since, so map the file and
	 * compare the numbers. Opening a file of procfs or the like may have an
	 * effect. Such files have no blocks.
	 */
	for (where = 0; where < nr; where++) {
		fd = look_at(file, where, st);
		if (fd >= 0 && where != AT_MAPPING && !st->st_blocks) {
			close(fd);
			continue;
		}
		fd = fd < 0 ? fd : open_really(fd);
		if (fd >= 0 && is_mapped_as(fd, file->dev, file->ino))
			return fd;
		if (fd >= 0)
			close(fd);
	}

	return -ENOENT;
}

bool unwind_tables_file__has_changed(int fd, const struct stat *before)
{
	struct stat now;

	return fstat(fd, &now) || now.st_size != before->st_size ||
	       !is_same_time(&now.st_mtim, &before->st_mtim) ||
	       !is_same_time(&now.st_ctim, &before->st_ctim);
}
