// SPDX-License-Identifier: GPL-2.0
#include <string.h>
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
