// SPDX-License-Identifier: GPL-2.0
/* Checks the kernel log for problems. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../kselftest.h"
#include "kmsg.h"

int kmsg_open(struct kmsg *k)
{
	k->fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (k->fd < 0)
		return -1;
	return lseek(k->fd, 0, SEEK_END) < 0 ? -1 : 0;
}

/*
 * Count the lines since kmsg_open() that report a problem, and all lines about the
 * unwinder except debug messages. -1 if the log cannot be read.
 */
int kmsg_complaints(struct kmsg *k)
{
	static const char * const bad[] = {
		"BUG:", "WARNING:", "Oops", "KASAN", "UBSAN", "general protection",
		"rcu: INFO", "INFO: task",
	};
	/* Level 7, of the kernel's own facility. */
	const unsigned int debug = 7, level_mask = 7;
	char buf[2048];
	int n = 0;

	for (;;) {
		unsigned int i, level;
		bool complaint;
		ssize_t len;

		len = read(k->fd, buf, sizeof(buf) - 1);
		if (len < 0 && errno == EPIPE)
			continue;
		if (len < 0)
			return errno == EAGAIN ? n : -1;
		buf[len] = '\0';
		level = strtoul(buf, NULL, 10) & level_mask;
		complaint = level < debug && (strcasestr(buf, "sframe") ||
					      strstr(buf, "unwind"));
		for (i = 0; i < ARRAY_SIZE(bad); i++)
			complaint |= !!strstr(buf, bad[i]);
		if (complaint) {
			fprintf(stderr, "# kernel: %s", buf);
			n++;
		}
	}
}

void kmsg_close(struct kmsg *k)
{
	if (k->fd > 0)
		close(k->fd);
}
