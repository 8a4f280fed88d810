/* SPDX-License-Identifier: GPL-2.0 */
/* Tracing instances and their files. */
#ifndef SELFTESTS_UNWIND_TRACEFS_H
#define SELFTESTS_UNWIND_TRACEFS_H

#include <stdbool.h>
#include <stddef.h>

#define TRACEFS			"/sys/kernel/tracing"
#define TRACE_DEFER		"options/userstacktrace-deferred"

/* A part of tracefs: a directory with a trailing slash. */
struct tracefs {
	char	dir[128];
	bool	made;
};

/* Makes the instance "name"; NULL: opens the top level.  Returns 0 or -errno. */
int tracefs_open(struct tracefs *t, const char *name);

/* Remove the instance, if it was made.  0, or -errno. */
int tracefs_close(struct tracefs *t);

/* The path of a file. */
void tracefs_path(const struct tracefs *t, const char *file, char *path,
		  size_t size);

/* Replaces the contents of a file.  Returns 0 or -errno. */
int tracefs_write(const struct tracefs *t, const char *file,
		  const char *fmt, ...);

/* Appends to a file.  Returns 0 or -errno. */
int tracefs_append(const struct tracefs *t, const char *file,
		   const char *fmt, ...);

/* The start of a file as a string; its length, or -errno. */
int tracefs_read(const struct tracefs *t, const char *file, char *text,
		 size_t size);

/* 1, 0, or -errno. */
int tracefs_option(const struct tracefs *t, const char *option);

#endif /* SELFTESTS_UNWIND_TRACEFS_H */
