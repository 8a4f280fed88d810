/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A reader of buffers that the kernel overwrites (perf_event_attr::overwrite), for
 * 64-bit and 32-bit programs, on kernels of either size.
 *
 * Part of the example of Documentation/userspace-api/perf_ring_buffer.rst.
 */
#ifndef OVERWRITE_READER_H
#define OVERWRITE_READER_H

#include <linux/perf_event.h>

#define SNAPSHOT_TRIES	100

/*
 * Read data_head or data_tail.  A 32-bit program may take two loads for that, and the
 * upper half may change between them.  Positions only grow: if the upper half has
 * not changed, the lower one belongs to it.
 */
static inline __u64 read_position(const __u64 *position)
{
#if __SIZEOF_LONG__ == 8
	return __atomic_load_n(position, __ATOMIC_ACQUIRE);
#else
	const int upper = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	const __u32 *half = (const __u32 *)position;
	__u32 high, low;

	do {
		high = __atomic_load_n(&half[upper], __ATOMIC_ACQUIRE);
		low = __atomic_load_n(&half[!upper], __ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&half[upper], __ATOMIC_ACQUIRE) != high);

	return (__u64)high << 32 | low;
#endif
}

/*
 * How many bytes @to is ahead of @from.  On a 32-bit kernel, which runs only 32-bit
 * programs, positions wrap around at 4 GiB, and upper halves are 0.
 */
static inline __u64 distance(__u64 to, __u64 from)
{
#if __SIZEOF_LONG__ == 4
	if (!(to >> 32) && !(from >> 32))
		return (__u32)(to - from);
#endif
	return to - from;
}

/*
 * Copy the records of a buffer, while the kernel goes on writing.  Returns how
 * many bytes of whole records, oldest first, start at *records, or -1 if the
 * kernel has overwritten everything each time that it was copied.  @copy has
 * room for data_size bytes.
 */
static inline long snapshot(const struct perf_event_mmap_page *page, char *copy,
			    const char **records)
{
	const char *data = (const char *)page + page->data_offset;
	const unsigned long size = page->data_size;
	unsigned long start, first;
	__u64 head, tail, len, passed;
	int empty = 0;
	int i;

	for (i = 0; i < SNAPSHOT_TRIES; i++) {
		/* (C), before data_tail and the data are read. */
		head = read_position(&page->data_head);
		tail = read_position(&page->data_tail);
		len = distance(head, tail);
		/* If both positions remain 0, nothing was ever written. */
		empty = !head && !tail;
		/* The tail has reached or passed this head: start again. */
		if (!len || len > size)
			continue;

		start = (unsigned long)tail % size;
		first = size - start;
		if (first > len)
			first = len;
		memcpy(copy, data + start, first);
		memcpy(copy + first, data, len - first);

		/* (F): read the new tail after the data was copied. */
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		passed = distance(read_position(&page->data_tail), tail);
		if (passed >= len)
			continue;

		/* The kernel has passed these bytes: they may be torn. */
		*records = copy + passed;
		return len - passed;
	}
	return empty ? 0 : -1;
}

#endif /* OVERWRITE_READER_H */
