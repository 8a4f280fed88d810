// SPDX-License-Identifier: GPL-2.0
/* Requests of clients of test_modules/unwind_client. */
#include <errno.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "../../perf_events/lib/known_stack.h"
#include "client.h"

#ifdef __x86_64__
/* From a known stack; returns what unwind_deferred_request() returned. */
int request(int fd, unsigned int client, enum unwind_client_ctx ctx,
	    __u64 id)
{
	int ret, again;

	for (again = 0; again < 100; again++) {
		ret = known_walk_syscall(id, REQUEST_BITS, __NR_ioctl, fd,
					 UNWIND_CLIENT_REQUEST(client, ctx));
		/* ksoftirqd has run the softirq, so current was another task. */
		if (ret != -EXDEV)
			return ret;
		usleep(1000);
	}
	return ret;
}
#endif /* __x86_64__ */
