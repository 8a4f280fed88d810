/* SPDX-License-Identifier: GPL-2.0 */
/* Requests of clients of test_modules/unwind_client. */
#ifndef SELFTESTS_UNWIND_LIB_CLIENT_H
#define SELFTESTS_UNWIND_LIB_CLIENT_H

#include <linux/types.h>

#include "../unwind_client.h"

/* Bits of the walks that make requests. */
#define REQUEST_BITS	10

/* From a known stack; returns what unwind_deferred_request() returned. */
int request(int fd, unsigned int client, enum unwind_client_ctx ctx, __u64 id);

#endif /* SELFTESTS_UNWIND_LIB_CLIENT_H */
