// SPDX-License-Identifier: GPL-2.0
/*
 * SHA-256, as in FIPS 180-4
 *
 * libcrypto is not always there.
 */
#include <string.h>
#include <linux/bits.h>
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "util/sha256.h"

#define SHA256_ROUNDS	64

static const u32 sha256_k[SHA256_ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
	0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
	0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
	0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
	0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const u32 sha256_h[SHA256_SIZE / sizeof(u32)] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static u32 rotr(u32 word, unsigned int shift)
{
	return word >> shift | word << (32 - shift);
}

/* The variables of the standard, a to h, rotate: @i says where they are. */
static inline void sha256__round(u32 *s, unsigned int i, u32 k, u32 w)
{
	u32 a = s[-i & 7], b = s[(1 - i) & 7], c = s[(2 - i) & 7];
	u32 e = s[(4 - i) & 7], f = s[(5 - i) & 7], g = s[(6 - i) & 7];
	u32 *d = &s[(3 - i) & 7], *h = &s[(7 - i) & 7];

	*h += (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + k + w;
	*d += *h;
	*h += (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

static void sha256__do_block(struct sha256 *sha, const u8 *block)
{
	u32 w[SHA256_ROUNDS], s[ARRAY_SIZE(sha256_h)], s0, s1;
	unsigned int i;

	for (i = 0; i < 16; i++)
		w[i] = get_unaligned_be32(block + i * sizeof(u32));
	for (; i < SHA256_ROUNDS; i++) {
		s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
		s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}

	memcpy(s, sha->state, sizeof(s));
	/* Unrolled, so that the compiler can keep the variables in registers. */
	for (i = 0; i < SHA256_ROUNDS; i += ARRAY_SIZE(s)) {
		sha256__round(s, 0, sha256_k[i], w[i]);
		sha256__round(s, 1, sha256_k[i + 1], w[i + 1]);
		sha256__round(s, 2, sha256_k[i + 2], w[i + 2]);
		sha256__round(s, 3, sha256_k[i + 3], w[i + 3]);
		sha256__round(s, 4, sha256_k[i + 4], w[i + 4]);
		sha256__round(s, 5, sha256_k[i + 5], w[i + 5]);
		sha256__round(s, 6, sha256_k[i + 6], w[i + 6]);
		sha256__round(s, 7, sha256_k[i + 7], w[i + 7]);
	}

	for (i = 0; i < ARRAY_SIZE(s); i++)
		sha->state[i] += s[i];
}

void sha256__init(struct sha256 *sha)
{
	memcpy(sha->state, sha256_h, sizeof(sha->state));
	sha->len = 0;
}

void sha256__add(struct sha256 *sha, const void *data, size_t size)
{
	size_t used = sha->len % SHA256_BLOCK, len;

	sha->len += size;

	if (used) {
		len = min(size, SHA256_BLOCK - used);
		memcpy(sha->block + used, data, len);
		if (used + len < SHA256_BLOCK)
			return;
		sha256__do_block(sha, sha->block);
		data += len;
		size -= len;
	}

	for (; size >= SHA256_BLOCK; size -= SHA256_BLOCK, data += SHA256_BLOCK)
		sha256__do_block(sha, data);

	if (size)
		memcpy(sha->block, data, size);
}

/**
 * sha256__finish - Get the hash
 * @sha:	The computation; it must not be used afterwards
 * @digest:	Receives %SHA256_SIZE bytes
 */
void sha256__finish(struct sha256 *sha, u8 *digest)
{
	u64 bits = sha->len * BITS_PER_BYTE;
	u8 end[SHA256_BLOCK] = { 0x80 };
	unsigned int i;

	/* A one, zeros up to the last eight bytes of a block, and the length. */
	sha256__add(sha, end, 1 + (2 * SHA256_BLOCK - 1 - sizeof(bits) - sha->len % SHA256_BLOCK) %
				  SHA256_BLOCK);
	put_unaligned_be64(bits, end);
	sha256__add(sha, end, sizeof(bits));

	for (i = 0; i < ARRAY_SIZE(sha->state); i++)
		put_unaligned_be32(sha->state[i], digest + i * sizeof(u32));
}
