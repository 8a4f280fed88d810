// SPDX-License-Identifier: GPL-2.0
/* Reads procfs files of a process: its mappings, mounts and cgroups */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <api/fs/fs.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "util/unwind-tables-proc.h"

/* Parses a line of /proc/PID/maps. @pos is the offset of the name in it. */
bool unwind_tables_proc__parse_mapping(const char *line, u64 *start, u64 *end, char *prot,
				       dev_t *dev, u64 *ino, int *pos)
{
	unsigned int major, minor;

	*pos = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %" SCNu64 " %n", start, end,
		   prot, &major, &minor, ino, pos) < 6 || !*pos)
		return false;

	*dev = makedev(major, minor);
	return true;
}

/* Parses fields 3 and 9 of mountinfo. This does not access the file system. */
static bool parse_mount(const char *line, dev_t *dev, char *type, size_t size)
{
	unsigned int major, minor;
	const char *end;

	if (sscanf(line, "%*d %*d %u:%u ", &major, &minor) != 2)
		return false;
	end = strstr(line, " - ");
	if (!end)
		return false;

	end += strlen(" - ");
	scnprintf(type, size, "%.*s", (int)strcspn(end, " "), end);
	*dev = makedev(major, minor);
	return true;
}

static enum unwind_tables_fs kind_of(const char *type)
{
	static const char * const remote[] = {
		"nfs", "nfs4", "cifs", "smb3", "ceph", "afs", "lustre", "gpfs",
	};
	size_t i;

	if (!strcmp(type, "fuse") || strstarts(type, "fuse.") || !strcmp(type, "fuseblk"))
		return FS_FUSE;

	for (i = 0; i < ARRAY_SIZE(remote); i++) {
		if (!strcmp(type, remote[i]))
			return FS_REMOTE;
	}

	return FS_LOCAL;
}

enum unwind_tables_fs unwind_tables_proc__find_fs(pid_t pid, dev_t dev)
{
	enum unwind_tables_fs fs = FS_HIDDEN;
	char path[PATH_MAX], type[64];
	char *line = NULL;
	size_t size = 0;
	dev_t mount_dev;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d/mountinfo", procfs__mountpoint(), pid);
	file = fopen(path, "re");
	if (!file)
		return FS_UNKNOWN;

	while (getline(&line, &size, file) > 0) {
		if (parse_mount(line, &mount_dev, type, sizeof(type)) && mount_dev == dev) {
			fs = kind_of(type);
			break;
		}
	}

	free(line);
	fclose(file);
	return fs;
}

/* Parses a line of /proc/PID/cgroup: hierarchy, controllers, path. */
static bool is_cgroup_line(const char *line, const char *name)
{
	const char *controllers = strchr(line, ':'), *path;
	size_t len;

	if (!controllers++)
		return false;
	path = strchr(controllers, ':');
	if (!path++)
		return false;
	if (*controllers != ':' && !strstarts(controllers, "perf_event:"))
		return false;

	path += strspn(path, "/");
	name += strspn(name, "/");
	len = strlen(name);
	while (len && name[len - 1] == '/')
		len--;

	return !strncmp(path, name, len) && (!len || !path[len] || path[len] == '/');
}

bool unwind_tables_proc__is_in_cgroup(pid_t pid, const char *name)
{
	char path[PATH_MAX];
	bool found = false;
	char *line = NULL;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d/cgroup", procfs__mountpoint(), pid);
	file = fopen(path, "re");
	while (file && !found && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		found = is_cgroup_line(line, name);
	}

	free(line);
	if (file)
		fclose(file);
	return found;
}
