/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_UNWIND_TABLES_PROC_H
#define __PERF_UNWIND_TABLES_PROC_H

#include <stdbool.h>
#include <sys/types.h>
#include <linux/types.h>

enum unwind_tables_fs {
	FS_LOCAL,
	FS_REMOTE,
	FS_FUSE,
	/* The task has gone, so its mounts are not known. */
	FS_UNKNOWN,
	/* It is not among the mounts that the task sees. */
	FS_HIDDEN,
};

bool unwind_tables_proc__parse_mapping(const char *line, u64 *start, u64 *end, char *prot,
				       dev_t *dev, u64 *ino, int *pos);
enum unwind_tables_fs unwind_tables_proc__find_fs(pid_t pid, dev_t dev);
bool unwind_tables_proc__is_in_cgroup(pid_t pid, const char *name);

#endif /* __PERF_UNWIND_TABLES_PROC_H */
