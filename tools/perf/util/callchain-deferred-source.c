// SPDX-License-Identifier: GPL-2.0
/* Reads a record again, from its position in a file or in decompressed blocks */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <perf/event.h>

#include "callchain-deferred-internal.h"
#include "callchain-deferred-record.h"
#include "event.h"
#include "evlist.h"
#include "session.h"

/* Bytes to read before the size of the record is known; most records are smaller. */
#define READ_AHEAD	2048

struct source_block {
	/* Offset of its first byte in the source */
	u64		start;
	struct decomp	*decomp;
};

/* Either a file, or the decompressed blocks of a file */
struct source {
	int			fd;
	/* The first bytes of the file, mapped, or NULL */
	const char		*map;
	u64			map_size;
	struct source_block	*blocks;
	size_t			nr_blocks;
	size_t			max_blocks;
};

int callchain_deferred__add_source(struct callchain_deferred *cd, int fd)
{
	struct source *sources;

	if (cd->nr_sources == POS_SOURCE_MAX)
		return -E2BIG;

	sources = realloc(cd->sources, (cd->nr_sources + 1) * sizeof(*sources));
	if (!sources)
		return -ENOMEM;

	sources[cd->nr_sources] = (struct source) { .fd = fd, };
	cd->sources = sources;

	return cd->nr_sources++;
}

/*
 * Map the first @size bytes of a file. Records are then copied, without a system call for
 * each. If this fails, or where addresses are scarce, they are read. If the file shrinks
 * meanwhile, perf gets SIGBUS, as from the mapping that events are delivered from.
 */
void callchain_deferred__map_source(struct callchain_deferred *cd, u32 source_idx, u64 size)
{
	struct source *source = &cd->sources[source_idx];
	struct stat st;
	void *map;

	/* Nothing after the end of the file may be loaded. */
	if (BITS_PER_LONG != 64 || fstat(source->fd, &st) || st.st_size <= 0)
		return;

	size = min_t(u64, size, st.st_size);

	map = mmap(NULL, size, PROT_READ, MAP_SHARED, source->fd, 0);
	if (map == MAP_FAILED)
		return;

	source->map = map;
	source->map_size = size;
}

/* Returns the offset of the block in its source, or a negative error code. */
s64 callchain_deferred__add_block(struct callchain_deferred *cd, u32 source_idx,
				  struct decomp *decomp)
{
	struct source *source = &cd->sources[source_idx];
	struct source_block *last;
	u64 start = 0;

	if (source->nr_blocks == source->max_blocks) {
		size_t max = source->max_blocks ? source->max_blocks * 2 : 64;
		struct source_block *blocks = realloc(source->blocks, max * sizeof(*blocks));

		if (!blocks)
			return -ENOMEM;

		source->blocks = blocks;
		source->max_blocks = max;
	}

	if (source->nr_blocks) {
		last = &source->blocks[source->nr_blocks - 1];
		start = last->start + last->decomp->size;
	}
	source->blocks[source->nr_blocks++] = (struct source_block) {
		.start = start,
		.decomp = decomp,
	};

	return start;
}

void callchain_deferred__free_sources(struct callchain_deferred *cd)
{
	for (u32 i = 0; i < cd->nr_sources; i++) {
		struct source *source = &cd->sources[i];

		if (source->map)
			munmap((void *)source->map, source->map_size);
		free(source->blocks);
	}
	free(cd->sources);
}

/* Converts cd->record, read from a file, to host byte order and checks it. */
bool callchain_deferred__check_record(struct callchain_deferred *cd)
{
	union perf_event *event = &cd->record.event;

	if (cd->needs_swap)
		callchain_deferred__swap(event, true);

	return evlist__callchain_deferred_valid(cd->evlist, event);
}

/* Reads up to @size bytes. Returns how many bytes it could read. */
size_t callchain_deferred__read_at(int fd, void *buf, size_t size, u64 offset)
{
	size_t len = 0;

	while (len < size) {
		ssize_t ret = pread(fd, buf + len, size - len, offset + len);

		if (ret < 0 && errno == EINTR)
			continue;
		if (ret <= 0)
			break;
		len += ret;
	}

	return len;
}

/* Returns how many bytes it could read, as callchain_deferred__read_at(). */
static size_t source__read(const struct source *source, void *buf, size_t size, u64 offset)
{
	if (!source->map || offset > source->map_size || size > source->map_size - offset)
		return callchain_deferred__read_at(source->fd, buf, size, offset);

	memcpy(buf, source->map + offset, size);

	return size;
}

static bool record__read_file(struct callchain_deferred *cd, const struct source *source,
			      u64 offset)
{
	union perf_event *event = &cd->record.event;
	size_t ahead = source->map ? sizeof(event->header) : READ_AHEAD;
	size_t len = source__read(source, event, ahead, offset);

	if (len < sizeof(event->header))
		return false;

	if (cd->needs_swap)
		perf_event_header__bswap(&event->header);

	if (event->header.size > len) {
		size_t rest = event->header.size - len;

		if (source__read(source, cd->record.buf + len, rest, offset + len) != rest)
			return false;
	}

	return event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED &&
	       callchain_deferred__check_record(cd);
}

static struct source_block *source__block(struct source *source, u64 offset)
{
	size_t first = 0, last = source->nr_blocks - 1;

	while (first < last) {
		size_t middle = first + (last - first + 1) / 2;

		if (source->blocks[middle].start <= offset)
			first = middle;
		else
			last = middle - 1;
	}

	return &source->blocks[first];
}

static bool record__read_block(struct callchain_deferred *cd, struct source *source,
			       u64 offset)
{
	struct source_block *block = source__block(source, offset);
	union perf_event *event = &cd->record.event;
	struct decomp *decomp = block->decomp;
	bool delivered;

	offset -= block->start;

	memcpy(&event->header, decomp->data + offset, sizeof(event->header));

	/*
	 * Delivery swaps events in the block, so an event in host order was delivered.
	 */
	delivered = event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED;
	if (!delivered)
		perf_event_header__bswap(&event->header);
	if (event->header.size > decomp->size - offset)
		return false;

	memcpy(&event->header + 1, decomp->data + offset + sizeof(event->header),
	       event->header.size - sizeof(event->header));
	if (!delivered)
		callchain_deferred__swap(event, true);

	return evlist__callchain_deferred_valid(cd->evlist, event);
}

/* Returns the record of the entry. It is valid until the next record is read. */
union perf_event *callchain_deferred__read_record(struct callchain_deferred *cd,
						  const struct callchain_index_entry *entry)
{
	union perf_event *event = &cd->record.event;
	struct source *source = &cd->sources[entry->pos >> POS_OFFSET_BITS];
	u64 offset = entry->pos & POS_OFFSET_MAX;
	bool ok;

	/* All samples of one system call share a record. */
	if (cd->record_pos == entry->pos)
		return event;

	cd->record_pos = POS_NONE;
	if (source->nr_blocks)
		ok = record__read_block(cd, source, offset);
	else
		ok = record__read_file(cd, source, offset);
	if (!ok)
		return NULL;

	/* The file may have changed since the first pass. */
	if (event->callchain_deferred.cookie != entry->cookie)
		return NULL;

	cd->record_pos = entry->pos;

	return event;
}

/* Returns the file offset of the record, or of the compressed event that has it. */
u64 callchain_deferred__file_offset(struct callchain_deferred *cd, u64 pos)
{
	struct source *source = &cd->sources[pos >> POS_OFFSET_BITS];
	u64 file_offset = pos & POS_OFFSET_MAX;

	if (source->nr_blocks)
		file_offset = source__block(source, file_offset)->decomp->file_pos;

	return file_offset;
}
