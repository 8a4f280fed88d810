/* SPDX-License-Identifier: GPL-2.0 */
/* Which files a command and its children have mapped, in the cache of tables */
#ifndef __PERF_SFRAME_COMMANDS_H
#define __PERF_SFRAME_COMMANDS_H

#include <stddef.h>

int sframe_commands__for_each(const char *command, int (*fn)(const char *path, void *arg),
			      void *arg);
int sframe_commands__store(const char *command, const char **paths, size_t nr);

#endif /* __PERF_SFRAME_COMMANDS_H */
