/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_SHA256_H
#define __PERF_SHA256_H

#include <stddef.h>
#include <linux/types.h>

#define SHA256_SIZE	32
#define SHA256_BLOCK	64

/**
 * struct sha256 - A SHA-256 hash that is being computed
 * @state:	State after all whole blocks so far
 * @len:	Bytes so far
 * @block:	Bytes of the block that is not complete yet
 */
struct sha256 {
	u32	state[SHA256_SIZE / sizeof(u32)];
	u64	len;
	u8	block[SHA256_BLOCK];
};

void sha256__init(struct sha256 *sha);
void sha256__add(struct sha256 *sha, const void *data, size_t size);
void sha256__finish(struct sha256 *sha, u8 *digest);

#endif /* __PERF_SHA256_H */
