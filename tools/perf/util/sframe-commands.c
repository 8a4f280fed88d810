// SPDX-License-Identifier: GPL-2.0
/*
 * Remembers which files a command and its children have mapped
 *
 * A compiler driver starts programs that it does not need as libraries. Without this, their
 * tables come while they run already.
 *
 * There is one file for each of %NR_COMMANDS hash values, so the directory does not grow. The
 * first line is the command, the others are paths.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/types.h>

#include "util/debug.h"
#include "util/sframe-cache.h"
#include "util/sframe-commands.h"

#define NR_COMMANDS	256

/* More than a command and its children usually map */
#define MAX_PATHS	512
#define MAX_BYTES	(128 * 1024)

/* FNV-1a. Two commands with the same value replace each other. */
static void name_of(const char *command, char *name, size_t size)
{
	u32 hash = 2166136261u;

	for (; *command; command++)
		hash = (hash ^ (u8)*command) * 16777619u;
	scnprintf(name, size, "%02x", hash % NR_COMMANDS);
}

static FILE *open_list(const char *command)
{
	int dir = sframe_cache__open_sub_dir(SFRAME_CACHE_COMMANDS, /*create=*/false), fd;
	struct stat st;
	char name[8];
	FILE *file;

	if (dir < 0)
		return NULL;

	name_of(command, name, sizeof(name));
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	close(dir);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > MAX_BYTES ||
	    (st.st_uid && st.st_uid != geteuid())) {
		close(fd);
		return NULL;
	}

	file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

/**
 * sframe_commands__for_each - Call a function for each file that a command has mapped before
 * @command:	Path of the command
 * @fn:		Called with each path, returns 0 to go on
 * @arg:	For @fn
 *
 * The files may be gone, or may be other ones now.
 *
 * Return: 0, or the value of @fn that is not 0.
 */
int sframe_commands__for_each(const char *command, int (*fn)(const char *path, void *arg),
			      void *arg)
{
	FILE *file = open_list(command);
	unsigned int nr = 0;
	char *line = NULL;
	size_t size = 0;
	int ret = 0;

	if (!file)
		return 0;

	while (!ret && nr++ <= MAX_PATHS && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (nr == 1) {
			/* Another command has the same hash value. */
			if (strcmp(line, command))
				break;
			continue;
		}
		if (line[0] == '/')
			ret = fn(line, arg);
	}

	free(line);
	fclose(file);
	return ret;
}

/**
 * sframe_commands__store - Remember which files a command has mapped
 * @command:	Path of the command
 * @paths:	Paths of the files
 * @nr:		Number of @paths. Those that exceed a limit are left out
 *
 * Return: 0; -EINVAL - @command has a line break; -EPERM - the cache belongs to another
 *	   user; other errors of the file system.
 */
int sframe_commands__store(const char *command, const char **paths, size_t nr)
{
	char name[8], new[64];
	size_t i, bytes;
	FILE *file;
	int dir, fd, err = 0;

	if (strchr(command, '\n'))
		return -EINVAL;

	dir = sframe_cache__open_sub_dir(SFRAME_CACHE_COMMANDS, /*create=*/true);
	if (dir < 0)
		return dir;

	scnprintf(new, sizeof(new), "/proc/self/fd/%d/.new-XXXXXX", dir);
	fd = mkostemp(new, O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		close(dir);
		return err;
	}

	file = fdopen(fd, "w");
	if (!file) {
		err = -ENOMEM;
		close(fd);
	} else {
		bytes = strlen(command) + 1;
		fprintf(file, "%s\n", command);
		for (i = 0; i < nr && i < MAX_PATHS; i++) {
			bytes += strlen(paths[i]) + 1;
			if (strchr(paths[i], '\n') || bytes > MAX_BYTES)
				continue;
			fprintf(file, "%s\n", paths[i]);
		}
		if (ferror(file))
			err = -EIO;
		if (fclose(file) && !err)
			err = -errno;
	}

	name_of(command, name, sizeof(name));
	if (!err && renameat(AT_FDCWD, new, dir, name))
		err = -errno;
	if (err)
		unlink(new);
	close(dir);
	return err;
}
