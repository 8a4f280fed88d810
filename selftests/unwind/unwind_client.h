/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* Interface between test_modules/unwind_client and its tests. */
#ifndef SELFTESTS_UNWIND_CLIENT_H
#define SELFTESTS_UNWIND_CLIENT_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define UNWIND_CLIENT_DEVICE	"/dev/unwind_client"
/* More than the kernel has room for. */
#define UNWIND_CLIENTS		64
#define UNWIND_CLIENT_ENTRIES	256

/* Where a request comes from. */
enum unwind_client_ctx {
	UNWIND_CTX_TASK,
	UNWIND_CTX_SOFTIRQ,
	UNWIND_CTX_HARDIRQ,
	UNWIND_CTX_NMI,
	UNWIND_CTX_NR,
};

/*
 * Make a request. The system call has only two arguments, so known_stack.c can
 * make it from a known stack.  Returns the result of the request.
 */
#define UNWIND_CLIENT_REQUEST(client, ctx)	\
	_IO('u', (ctx) * UNWIND_CLIENTS + (client))

/*
 * Act as a virtual CPU with this many guest entries. Before each, make a request and
 * run the pending work. As above, this is a system call with two arguments.
 */
#define UNWIND_CLIENT_GUEST_ENTRIES	200
#define UNWIND_CLIENT_VCPU(client, ctx)	\
	_IO('g', (ctx) * UNWIND_CLIENTS + (client))

enum unwind_client_op {
	UNWIND_OP_REGISTER,
	UNWIND_OP_UNREGISTER,
	UNWIND_OP_ENABLE,
	UNWIND_OP_DISABLE,
	/* Depth of this client's requests. */
	UNWIND_OP_DEPTH,
	/*
	 * The system call also makes a request for this client; -1: for no other one.
	 */
	UNWIND_OP_ALSO,
	/* The callback sleeps for this many ms. */
	UNWIND_OP_CALLBACK_SLEEP,
	/* The system call sleeps for this many ms after the request. */
	UNWIND_OP_REQUEST_SLEEP,
	/* Context of a request that the callback makes; -1 for none. */
	UNWIND_OP_CALLBACK_CTX,
	/* How often it does so. */
	UNWIND_OP_CALLBACK_REQUESTS,
	/* The callback makes that request for this client; -1: for its own. */
	UNWIND_OP_CALLBACK_CLIENT,
	/* Each request of the callback asks for this many more entries. */
	UNWIND_OP_CALLBACK_DEEPER,
	/*
	 * After the deferred work, the system call makes another request in this
	 * context; -1: it does not.
	 */
	UNWIND_OP_AFTER_CTX,
	/* A timer of this CPU makes a request every this many us; 0 stops it. */
	UNWIND_OP_STORM,
};

struct unwind_client_ctl {
	__u32	op;
	__u32	client;
	__s64	arg;
};

#define UNWIND_CLIENT_CTL	_IOW('v', 0, struct unwind_client_ctl)

struct unwind_client_state {
	/* In: which client. */
	__u32	client;
	/* The last request: result, cookie. */
	__s32	ret;
	__u64	cookie;
	/* Requests that succeeded, and how many of them drew a new cookie. */
	__u64	requests;
	__u64	cookies;
	/* Requests that were refused, and the last reason. */
	__u64	refused;
	__s32	refused_ret;
	/* Callbacks that are running, that have begun, that have ended. */
	__u32	running;
	__u64	begun;
	__u64	ended;
	/* The last callback. */
	__u64	callback_cookie;
	__u32	callback_tid;
	__u32	nr;
	__u64	entries[UNWIND_CLIENT_ENTRIES];
	/* Callbacks in a context where none should be. */
	__u64	bad_context;
	/* The last request from inside a callback. */
	__s32	nested_ret;
	__u32	pad;
	__u64	nested_cookie;
};

#define UNWIND_CLIENT_STATE	_IOWR('v', 1, struct unwind_client_state)

#ifndef __KERNEL__

#include <errno.h>
#include <sys/ioctl.h>

static inline int ctl(int fd, enum unwind_client_op op, unsigned int client,
		      long long arg)
{
	struct unwind_client_ctl c = {
		.op = op,
		.client = client,
		.arg = arg,
	};

	return ioctl(fd, UNWIND_CLIENT_CTL, &c) ? -errno : 0;
}

#endif /* !__KERNEL__ */

#endif /* SELFTESTS_UNWIND_CLIENT_H */
