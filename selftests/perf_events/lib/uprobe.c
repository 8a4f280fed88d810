// SPDX-License-Identifier: GPL-2.0
#include <limits.h>
#include <unistd.h>

#include "event.h"
#include "files.h"
#include "uprobe.h"

static char self_path[PATH_MAX];

int uprobe_attr(struct perf_event_attr *attr, const void *addr, bool ret, __u64 flags)
{
	long type = pmu_type("uprobe"), off = file_offset(addr);
	ssize_t n = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);

	if (type < 0 || off < 0 || n < 0)
		return -1;
	self_path[n] = '\0';
	/* format/retprobe is config:0 */
	*attr = event_attr(type, ret, 1, flags);
	attr->config1 = (__u64)self_path;
	attr->config2 = off;
	return 0;
}
