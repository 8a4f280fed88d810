// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "flush.h"
#include "session.h"

int flush_one(int fd, unsigned int max, struct flush *sum)
{
	struct flush arg = { .size = sizeof(arg), .max = max };

	if (ioctl(fd, IOC_FLUSH, &arg))
		return -1;
	sum->delivered	+= arg.delivered;
	sum->busy	+= arg.busy;
	sum->failed	+= arg.failed;
	sum->left	+= arg.left;
	return 0;
}

int flush_all(struct session *s, struct flush *sum)
{
	unsigned int i;

	memset(sum, 0, sizeof(*sum));
	for (i = 0; i < s->nr_bufs; i++) {
		if (flush_one(s->bufs[i].fd, 0, sum))
			return -1;
	}
	return 0;
}

void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
}

bool waits_for_pipe(pid_t pid)
{
	char text[64];

	read_proc(pid, "wchan", text, sizeof(text));
	return strstr(text, "pipe_read");
}
