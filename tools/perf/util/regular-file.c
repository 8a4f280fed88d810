// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/regular-file.h"

/**
 * regular_file__open - Open a regular file for reading
 * @path:	Path of the file
 *
 * Return: a descriptor; -ENOEXEC - it is not a regular file; or another error code.
 */
int regular_file__open(const char *path)
{
	struct stat st;
	int fd;

	/* Without O_NONBLOCK, opening a FIFO would wait for its other end. */
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -ENOEXEC;
	}

	return fd;
}
