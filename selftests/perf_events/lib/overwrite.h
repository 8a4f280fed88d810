/* SPDX-License-Identifier: GPL-2.0 */
/* Is there perf_event_attr::overwrite? And a reader that does not pause the output. */
#ifndef SELFTESTS_PERF_EVENTS_OVERWRITE_H
#define SELFTESTS_PERF_EVENTS_OVERWRITE_H

#include <linux/const.h>
#include <linux/perf_event.h>

/* The headers of the build may be older than the kernel under test. */
#define OW_ATTR_OVERWRITE	_BITULL(63)
#define OW_ATTR_BACKWARD	_BITULL(27)
#define OW_ATTR_INHERIT_STAT	_BITULL(11)
#define OW_ATTR_INHERIT		_BITULL(1)

struct ow_snapshot {
	/* As large as the buffer. */
	char	*copy;
	/* The whole records: bytes, and their positions in the stream. */
	char	*records;
	unsigned long start;
	unsigned long end;
	/* Bytes that were overwritten while they were copied. */
	unsigned long dropped;
};

/* Why the tests cannot run on this machine; NULL when they can. */
const char *ow_unsupported(void);

/* One try: 1 on success, 0 if all was overwritten, -1 if positions are wrong. */
int ow_snapshot(const struct perf_event_mmap_page *page, struct ow_snapshot *s);

/* The record at a position, NULL if there is none that is whole. */
const struct perf_event_header *
ow_record(const struct ow_snapshot *s, unsigned long pos);

#endif /* SELFTESTS_PERF_EVENTS_OVERWRITE_H */
