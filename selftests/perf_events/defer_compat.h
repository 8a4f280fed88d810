/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by defer_compat and its 32-bit half. */
#ifndef SELFTESTS_PERF_EVENTS_DEFER_COMPAT_H
#define SELFTESTS_PERF_EVENTS_DEFER_COMPAT_H

#define COMPAT_WALKS	40
#define COMPAT_BITS	8
#define COMPAT_GETPGID	132
#define COMPAT_READ	3
/* Tells the 32-bit half to sleep after the walks */
#define COMPAT_SLEEP	's'

struct defer_compat_addrs {
	unsigned int top_ret;
	unsigned int ret0;
	unsigned int ret1;
	unsigned int syscall_ip;
	unsigned int nop;
};

#endif /* SELFTESTS_PERF_EVENTS_DEFER_COMPAT_H */
