// SPDX-License-Identifier: GPL-2.0
/* The first pass over a file notes the position of each record. */
#include <byteswap.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/perf_event.h>
#include <perf/event.h>

#include "callchain-deferred.h"
#include "callchain-deferred-internal.h"
#include "event.h"
#include "session.h"

/* The window has room for any event, and for many small events at once. */
#define WINDOW_SIZE	(4 * PERF_SAMPLE_MAX_SIZE)

/*
 * @buf holds the whole record in the byte order of the file. @header is its header
 * in host byte order.
 */
static int index_record(struct callchain_deferred *cd, const void *buf,
			const struct perf_event_header *header, u32 source, u64 offset)
{
	union perf_event *event = &cd->record.event;

	if (offset > POS_OFFSET_MAX)
		return -EFBIG;

	cd->record_pos = POS_NONE;
	memcpy(event, buf, header->size);
	event->header = *header;
	if (!callchain_deferred__check_record(cd))
		return -EINVAL;

	return callchain_index__add(&cd->index, event->callchain_deferred.cookie,
				    (u64)source << POS_OFFSET_BITS | offset);
}

struct window {
	int	fd;
	u64	start;
	size_t	len;
	char	*buf;
};

/* Returns @size bytes at @pos; @size is at most the size of the largest event. */
static const void *window__read(struct window *w, u64 pos, size_t size)
{
	if (pos < w->start || pos + size > w->start + w->len) {
		w->start = pos;
		w->len = callchain_deferred__read_at(w->fd, w->buf, WINDOW_SIZE, pos);
		if (w->len < size)
			return NULL;
	}

	return w->buf + (pos - w->start);
}

/* Gets the size of the payload after the event at @pos. header.size excludes it. */
static int event__payload(struct callchain_deferred *cd, struct window *w, u64 pos,
			  const struct perf_event_header *header, u64 *payload)
{
	struct perf_record_auxtrace auxtrace;
	struct perf_record_header_tracing_data tracing_data;
	const void *buf;

	*payload = 0;
	if (header->type == PERF_RECORD_AUXTRACE) {
		buf = window__read(w, pos, sizeof(auxtrace));
		if (!buf || header->size < sizeof(auxtrace))
			return -EINVAL;
		memcpy(&auxtrace, buf, sizeof(auxtrace));
		*payload = cd->needs_swap ? bswap_64(auxtrace.size) : auxtrace.size;
	} else if (header->type == PERF_RECORD_HEADER_TRACING_DATA) {
		buf = window__read(w, pos, sizeof(tracing_data));
		if (!buf || header->size < sizeof(tracing_data))
			return -EINVAL;
		memcpy(&tracing_data, buf, sizeof(tracing_data));
		*payload = cd->needs_swap ? bswap_32(tracing_data.size) : tracing_data.size;
		*payload = PERF_ALIGN(*payload, sizeof(u64));
	}

	return 0;
}

/* Leaves decomp->head at the incomplete event that continues in the next block. */
static int index_block(struct callchain_deferred *cd, u32 source, struct decomp *decomp)
{
	s64 start = callchain_deferred__add_block(cd, source, decomp);

	if (start < 0)
		return start;

	while (decomp->size - decomp->head >= sizeof(struct perf_event_header)) {
		const void *buf = decomp->data + decomp->head;
		struct perf_event_header header;
		int err;

		memcpy(&header, buf, sizeof(header));
		if (cd->needs_swap)
			perf_event_header__bswap(&header);
		if (header.size < sizeof(header))
			return -EINVAL;
		if (header.size > decomp->size - decomp->head)
			break;

		if (header.type == PERF_RECORD_CALLCHAIN_DEFERRED) {
			err = index_record(cd, buf, &header, source, start + decomp->head);
			if (err)
				return err;
		}

		decomp->head += header.size;
	}

	return 0;
}

static int index_compressed(struct callchain_deferred *cd, const void *buf,
			    const struct perf_event_header *header, u32 source,
			    u64 file_offset, callchain_deferred__inflate_t inflate,
			    void *arg)
{
	union perf_event *event = &cd->record.event;
	struct decomp *decomp;

	cd->record_pos = POS_NONE;
	memcpy(event, buf, header->size);
	event->header = *header;
	decomp = inflate(arg, event, file_offset);

	return decomp ? index_block(cd, source, decomp) : -EINVAL;
}

/**
 * callchain_deferred__index_file - note the positions of the records of a file
 * @cd: has the index, which covers all files of a session
 * @fd: must stay open as long as @cd is in use
 * @offset: of the first event
 * @size: of all events
 * @inflate: decompresses an event, NULL if perf cannot decompress
 * @arg: for @inflate
 *
 * This function does not read the mapping from which perf delivers the events.
 * Delivery swaps the bytes of this mapping in place, which must happen only once.
 *
 * The index ends at a truncated or invalid event. This is not an error here. The code
 * that delivers the events reports it.
 *
 * Return: 0, or a negative error code if the index could not be built.
 */
int callchain_deferred__index_file(struct callchain_deferred *cd, int fd,
				   u64 offset, u64 size,
				   callchain_deferred__inflate_t inflate, void *arg)
{
	struct window w = { .fd = fd, };
	u64 pos = offset, end = offset + size;
	int source = callchain_deferred__add_source(cd, fd);
	int blocks = callchain_deferred__add_source(cd, -1);
	int err = 0;

	if (source < 0 || blocks < 0)
		return source < 0 ? source : blocks;

	w.buf = malloc(WINDOW_SIZE);
	if (!w.buf)
		return -ENOMEM;

	callchain_deferred__map_source(cd, source, end);
	cd->indexed = true;
	while (!session_done() && pos < end && end - pos >= sizeof(struct perf_event_header)) {
		struct perf_event_header header;
		const void *buf;
		u64 payload;

		buf = window__read(&w, pos, sizeof(header));
		if (!buf)
			break;

		memcpy(&header, buf, sizeof(header));
		if (cd->needs_swap)
			perf_event_header__bswap(&header);
		if (header.size < sizeof(header) || header.size > end - pos ||
		    event__payload(cd, &w, pos, &header, &payload) ||
		    payload > end - pos - header.size)
			break;

		if (header.type == PERF_RECORD_CALLCHAIN_DEFERRED ||
		    (header.type == PERF_RECORD_COMPRESSED && inflate)) {
			buf = window__read(&w, pos, header.size);
			if (!buf)
				break;

			if (header.type == PERF_RECORD_COMPRESSED)
				err = index_compressed(cd, buf, &header, blocks, pos,
						       inflate, arg);
			else
				err = index_record(cd, buf, &header, source, pos);
			if (err)
				break;
		}

		pos += header.size + payload;
	}

	free(w.buf);

	return err == -ENOMEM ? err : 0;
}

/* Call this once, after the last file. */
int callchain_deferred__index_done(struct callchain_deferred *cd)
{
	return callchain_index__sort(&cd->index);
}
