// SPDX-License-Identifier: GPL-2.0
/* Tracing instances and their files. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/stat.h>

#include "../../perf_events/lib/files.h"
#include "tracefs.h"

void tracefs_path(const struct tracefs *t, const char *file,
		  char *path, size_t size)
{
	snprintf(path, size, "%s%s", t->dir, file);
}

static int tracefs_vwrite(const struct tracefs *t, const char *file, int flags,
			  const char *fmt, va_list args)
{
	char path[512];

	tracefs_path(t, file, path, sizeof(path));
	return vwrite_text(path, flags, fmt, args);
}

/* Replaces the contents of a file.  Returns 0 or -errno. */
int tracefs_write(const struct tracefs *t, const char *file,
		  const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = tracefs_vwrite(t, file, O_TRUNC, fmt, args);
	va_end(args);
	return ret;
}

/* Appends to a file.  Returns 0 or -errno. */
int tracefs_append(const struct tracefs *t, const char *file,
		   const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = tracefs_vwrite(t, file, O_APPEND, fmt, args);
	va_end(args);
	return ret;
}

/* The start of a file as a string; its length, or -errno. */
int tracefs_read(const struct tracefs *t, const char *file,
		 char *text, size_t size)
{
	size_t len = 0;
	char path[512];
	ssize_t n;
	int fd;

	tracefs_path(t, file, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		n = read(fd, text + len, size - 1 - len);
		if (n <= 0)
			break;
		len += n;
	}
	close(fd);
	text[len] = '\0';
	return len;
}

/* 1, 0, or -errno. */
int tracefs_option(const struct tracefs *t, const char *option)
{
	char text[16];
	int ret;

	ret = tracefs_read(t, option, text, sizeof(text));
	return ret < 0 ? ret : text[0] == '1';
}

/* Makes the instance "name"; NULL: opens the top level.  Returns 0 or -errno. */
int tracefs_open(struct tracefs *t, const char *name)
{
	memset(t, 0, sizeof(*t));
	if (access(TRACEFS "/README", F_OK))
		mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	if (access(TRACEFS "/README", F_OK))
		return -errno;
	if (!name) {
		snprintf(t->dir, sizeof(t->dir), TRACEFS "/");
		return 0;
	}
	snprintf(t->dir, sizeof(t->dir), TRACEFS "/instances/%s/", name);
	/* A killed test may have left it. */
	rmdir(t->dir);
	if (mkdir(t->dir, 0700))
		return -errno;
	t->made = true;
	return 0;
}

int tracefs_close(struct tracefs *t)
{
	int ret = 0;

	if (t->made && rmdir(t->dir))
		ret = -errno;
	t->made = false;
	return ret;
}
