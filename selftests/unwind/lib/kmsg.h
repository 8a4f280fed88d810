/* SPDX-License-Identifier: GPL-2.0 */
/* Checks the kernel log for problems. */
#ifndef SELFTESTS_UNWIND_KMSG_H
#define SELFTESTS_UNWIND_KMSG_H

struct kmsg {
	int	fd;
};

/* Read the log from now on.  0, or -1. */
int kmsg_open(struct kmsg *k);

/* How many lines since then complain; -1 if the log cannot be read. */
int kmsg_complaints(struct kmsg *k);

/* Close the log, if it is open. */
void kmsg_close(struct kmsg *k);

#endif /* SELFTESTS_UNWIND_KMSG_H */
