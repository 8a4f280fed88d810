// SPDX-License-Identifier: GPL-2.0
/* Remembers which files the command of a session has mapped, for the next session */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <linux/zalloc.h>

#include "util/debug.h"
#include "util/sframe-commands.h"
#include "util/unwind-tables-internal.h"

/* A name without a slash is looked up in PATH. One with a slash depends on the directory. */
static char *key_of(const char *command)
{
	return strchr(command, '/') ? realpath(command, NULL) : strdup(command);
}

/* Call a function for each path that the command has mapped in an earlier session. */
int unwind_tables__recall(const struct unwind_tables *tables,
			  int (*fn)(const char *path, void *arg), void *arg)
{
	char *key = key_of(tables->opts.command);
	int err = key ? sframe_commands__for_each(key, fn, arg) : 0;

	free(key);
	return err;
}

/* Remember the files that were mapped and have a table. No worker has one of them any more. */
void unwind_tables__remember(struct unwind_tables *tables)
{
	const struct unwind_tables_file *file;
	const char **paths;
	size_t i, nr = 0;
	char *key;
	int err;

	/* Of a session of all tasks, nobody knows which files are those of the command. */
	if (!tables->opts.command || tables->opts.cache != SFRAME_CACHE_USE ||
	    unwind_tables__is_system_wide(tables))
		return;

	key = key_of(tables->opts.command);
	paths = calloc(tables->nr_files, sizeof(*paths));
	for (i = 0; paths && i < tables->nr_files; i++) {
		file = tables->files[i];
		if ((file->supplied || file->cached) && !file->is_recalled && file->path &&
		    file->name[0] == '/')
			paths[nr++] = file->name;
	}

	if (key && nr) {
		err = sframe_commands__store(key, paths, nr);
		if (err)
			pr_debug("Cannot remember the files of %s: %d\n", key, err);
	}

	free(paths);
	free(key);
}
