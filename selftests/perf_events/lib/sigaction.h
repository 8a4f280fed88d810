/* SPDX-License-Identifier: GPL-2.0 */
/* rt_sigaction() with a trampoline that is not the C library's. */
#ifndef SELFTESTS_PERF_EVENTS_SIGACTION_H
#define SELFTESTS_PERF_EVENTS_SIGACTION_H

#include <linux/types.h>

struct kernel_sigaction {
	void		(*handler)(int sig);
	unsigned long	flags;
	const void	*restorer;
	__u64		mask;
};

#ifndef SA_RESTORER
#define SA_RESTORER	0x04000000
#endif

#endif /* SELFTESTS_PERF_EVENTS_SIGACTION_H */
