// SPDX-License-Identifier: GPL-2.0
/*
 * Test the reader of overwrite_reader.h at the wraparound of positions, with a
 * simulated 64-bit or 32-bit kernel that writes while the reader copies. This file uses
 * no C library, so that it can also be built for 32 bits.
 */
#include <stddef.h>

#include "positions.h"

/* Replaces the reader's memcpy(): the kernel writes before the bytes are copied. */
static void *copy_while_written(void *to, const void *from, unsigned long n);
#define memcpy	copy_while_written
#include "../overwrite_reader.h"
#undef memcpy

#define PAGE		4096UL
#define SIZE		(4 * PAGE)
/* SIZE is a multiple of it. */
#define RECORD		64UL
#define RECORDS		(SIZE / RECORD)

/* Each record contains its own position, always in 64 bits. */
struct record {
	struct perf_event_header	header;
	__u64				at;
	char				pad[RECORD - 16];
};

static struct {
	struct perf_event_mmap_page	page;
	char				pad[PAGE - sizeof(struct perf_event_mmap_page)];
	struct record			data[RECORDS];
} buffer __attribute__((aligned(PAGE)));

static char copy[SIZE] __attribute__((aligned(8)));

/* What the kernel has written, and whether its positions have 32 bits. */
static __u64 kernel_head;
static __u64 kernel_tail;
int kernel_is_32bit;
/* Number of bytes that it writes during the next copy of the reader. */
static __u64 kernel_writes;

/* Fill the buffer with the @used bytes of records that end at @head. */
static void kernel_write(__u64 head, __u64 used)
{
	const __u64 mask = kernel_is_32bit ? 0xffffffff : -1ULL;
	__u64 at;

	for (at = head - used; at != head; at += RECORD) {
		struct record *record = &buffer.data[(unsigned long)at % SIZE / RECORD];

		record->header.size = RECORD;
		record->at = at;
	}
	buffer.page.data_offset = PAGE;
	buffer.page.data_size = SIZE;
	buffer.page.data_head = head & mask;
	buffer.page.data_tail = (head - used) & mask;
	kernel_head = head;
	kernel_tail = head - used;
}

static void *copy_while_written(void *to, const void *from, unsigned long n)
{
	char *dst = to;
	const char *src = from;
	__u64 used = kernel_head + kernel_writes - kernel_tail;

	if (kernel_writes)
		kernel_write(kernel_head + kernel_writes, used < SIZE ? used : SIZE);
	kernel_writes = 0;
	while (n--)
		*dst++ = *src++;
	return to;
}

/* Are these the @used bytes of records that end at @head, in order? */
static int right_records(const char *records, long len, __u64 head, __u64 used)
{
	const struct record *record = (const void *)records;
	long i;

	if (len != (long)used)
		return 0;
	for (i = 0; i < len / (long)RECORD; i++) {
		if (record[i].at != head - used + i * RECORD)
			return 0;
	}
	return 1;
}

/*
 * Returns 0, or the number of the failed case: 1 + 10000 index in starts[] + 100 index
 * in writes[] + n.
 */
int positions_check(void)
{
	/* The head begins within two records of these positions, before or after. */
	static const __u64 starts[] = {
		SIZE, 1ULL << 31, 1ULL << 32, (1ULL << 32) + SIZE, 1ULL << 33,
		1ULL << 63, 0ULL, -SIZE,
	};
	/*
	 * Bytes written during the copy: none, a part of the buffer, or more than all
	 * of it.
	 */
	static const __u64 writes[] = {
		0, RECORD, SIZE / 2, SIZE - RECORD, SIZE, 10 * SIZE,
		(1ULL << 31) - RECORD, 1ULL << 31, (1ULL << 31) + RECORD,
		(1ULL << 32) - SIZE, (1ULL << 32) + RECORD, (1ULL << 33) + SIZE / 2,
	};
	unsigned int i, j, n;
	const char *records;
	__u64 head, used;
	long len;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		for (j = 0; j < sizeof(writes) / sizeof(writes[0]); j++) {
			/*
			 * The reader cannot detect this: positions wrap around at 4
			 * GiB.
			 */
			if (kernel_is_32bit && writes[j] > (1ULL << 32))
				continue;
			for (n = 1; n <= 5; n++) {
				head = starts[i] + (n - 3) * RECORD;
				/* Fill a part of the buffer, or all of it. */
				used = n == 5 ? SIZE : n * 20 * RECORD;
				kernel_write(head, used);
				kernel_writes = writes[j];
				records = NULL;
				len = snapshot(&buffer.page, copy, &records);
				/*
				 * Expect the records that were not overwritten, or a
				 * new copy of all.
				 */
				if (writes[j] && SIZE - used < writes[j]) {
					if (writes[j] >= SIZE) {
						head += writes[j];
						used = SIZE;
					} else {
						used = SIZE - writes[j];
					}
				}
				if (!right_records(records, len, head, used))
					return 1 + i * 10000 + j * 100 + n;
			}
		}
	}

	/* Nothing was written yet. */
	kernel_write(0, 0);
	if (snapshot(&buffer.page, copy, &records))
		return 1 + i * 10000;

	return 0;
}
