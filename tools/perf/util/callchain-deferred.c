// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains: a sample carries the kernel part of its callchain
 * and a cookie, a later PERF_RECORD_CALLCHAIN_DEFERRED with the same cookie
 * carries the user part.
 *
 * The record can be far behind the sample, as a task may sleep in the kernel
 * for long. Files are therefore read twice. The first pass looks at nothing but
 * headers and notes where the record of each cookie is. In the second one, which
 * delivers the events, a sample gets its user part at once: it stays in its
 * place, is resolved against the maps of its time, and nothing has to wait.
 *
 * What can be read only once has no index: pipes, files that were written to one,
 * and what tools look at while it happens. There a sample is held back, and all
 * that comes after it, until its record is there. Order and maps stay right that
 * way. The wait is bounded in time and memory. Samples that reach the bound are
 * delivered without their user part, and counted.
 */
#include <byteswap.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/rbtree.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <perf/event.h>

#include "callchain.h"
#include "callchain-deferred.h"
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "hashmap.h"
#include "memswap.h"
#include "sample.h"
#include "session.h"

/* What every record has: header, cookie and nr */
#define FIXED_SIZE	sizeof(struct perf_record_callchain_deferred)

/* The position of a record: a source, and an offset in it */
#define POS_OFFSET_BITS	48
#define POS_OFFSET_MAX	((1ULL << POS_OFFSET_BITS) - 1)
#define POS_SOURCE_MAX	((1U << (64 - POS_OFFSET_BITS)) - 1)
#define POS_NONE	UINT64_MAX

/* A window that holds any event, and few system calls for small ones */
#define WINDOW_SIZE	(4 * PERF_SAMPLE_MAX_SIZE)

/* What is read of a record before its size is known; most are smaller. */
#define READ_AHEAD	2048

/*
 * Records of one cookie that are looked at for the right one. Cookies are unique,
 * so there are more in crafted files only.
 */
#define MAX_TIES	32

/*
 * Records are kept although nobody waits for them: samples that are taken after the
 * record was written, before the task leaves the kernel, refer to it. A stopped task
 * can stay there for long. Live tools read buffers one after the other, and so may
 * see the record before the sample if the task has changed the CPU in between.
 *
 * At least so many, and as many as fit into this share of what may be held back.
 */
#define MIN_RECENT	64
#define RECENT_SHARE	8

/*
 * Tid and time are not here; they are read from the record itself in the rare case
 * that they matter.
 */
struct index_entry {
	u64	cookie;
	u64	pos;
};

struct source_block {
	/* Offset of its first byte in the source */
	u64		start;
	struct decomp	*decomp;
};

/* Either a file, or blocks of what was compressed in one */
struct source {
	int			fd;
	struct source_block	*blocks;
	size_t			nr_blocks;
	size_t			max_blocks;
};

/* The newest samples of a task that got no record */
struct waiting {
	u64	cookie;
	u64	nr;
	/* When the newest of them was taken */
	u64	asked;
	/* The newest sign of the task having left the kernel */
	u64	left;
};

/* An event that waits for its record, or behind one that does */
struct held_event {
	struct list_head	list;
	/* In the tree of records, if it is one */
	struct rb_node		node;
	/* Time of the event, or of its arrival with bounds->live */
	u64			stamp;
	/* Set with bounds->idle only */
	u64			arrived;
	/* What event__order() has for it, and its task */
	u64			order;
	u32			tid;
	u64			file_offset;
	const char		*file_path;
	/* What it waits for, 0 if it does not */
	u64			cookie;
	/* As large as header.size says */
	union perf_event	event;
};

struct held_events {
	const struct callchain_deferred_bounds	*bounds;
	callchain_deferred__deliver_t		deliver;
	void					*arg;
	/* Oldest first */
	struct list_head			events;
	u64					bytes;
	/* The largest stamp that was seen */
	u64					newest;
	/* The time while callchain_deferred__expire() lets go by bounds->idle, else 0 */
	u64					now;
	/* Of held and of recent records, by cookie and then in the order of events */
	struct rb_root				records;
	/* Records that were delivered, oldest first */
	struct list_head			recent;
	u64					recent_bytes;
	u32					nr_recent;
};

struct callchain_deferred {
	struct evlist			*evlist;
	bool				needs_swap;
	/* There is an index, so nothing needs to be held back. */
	bool				indexed;
	struct held_events		held;

	struct source			*sources;
	u32				nr_sources;

	/* The index, sorted once all files were read */
	struct index_entry		*entries;
	size_t				nr_entries;
	size_t				max_entries;

	/* The record read last, in host byte order, and where it is from */
	union {
		union perf_event	event;
		char			buf[PERF_SAMPLE_MAX_SIZE];
	} record;
	u64				record_pos;

	/* The chain of the sample processed last, with or without user part */
	struct ip_callchain		*chain;

	/* From tid to struct waiting */
	struct hashmap			*waiting;
	struct callchain_deferred_stats	stats;

	/* As the kernel noted in the buffers, and as perf asked for at the end */
	u64				lost;
	u64				lost_samples;
};

static bool has_fixed_part(const union perf_event *event)
{
	return event->header.size >= FIXED_SIZE &&
	       event->header.size % sizeof(u64) == 0;
}

/**
 * callchain_deferred__has_size - does the record hold what it says it holds?
 * @event: a whole PERF_RECORD_CALLCHAIN_DEFERRED in host byte order
 * @id_hdr_size: size of the sample_id at its end, 0 without sample_id_all
 *
 * Nothing but the header may be read from a record before this says yes.
 */
bool callchain_deferred__has_size(const union perf_event *event, u16 id_hdr_size)
{
	u16 room;

	if (!has_fixed_part(event) ||
	    event->header.size < FIXED_SIZE + id_hdr_size)
		return false;

	room = event->header.size - FIXED_SIZE - id_hdr_size;

	return event->callchain_deferred.nr <= room / sizeof(u64);
}

#define MISC_INCOMPLETE	(PERF_RECORD_MISC_CALLCHAIN_CUT | PERF_RECORD_MISC_CALLCHAIN_BROKEN)

/**
 * callchain_deferred__why_incomplete - did the kernel miss a part of the stack?
 * @event: a PERF_RECORD_CALLCHAIN_DEFERRED, of which the header is read
 *
 * Return: the reason, in a word or two; NULL if the stack ended by itself.
 */
const char *callchain_deferred__why_incomplete(const union perf_event *event)
{
	switch (event->header.misc & MISC_INCOMPLETE) {
	case PERF_RECORD_MISC_CALLCHAIN_CUT:
		return "cut";
	case PERF_RECORD_MISC_CALLCHAIN_BROKEN:
		return "broken";
	case MISC_INCOMPLETE:
		return "no memory";
	default:
		return NULL;
	}
}

static void count_incomplete(struct callchain_deferred *cd, const union perf_event *event)
{
	switch (event->header.misc & MISC_INCOMPLETE) {
	case PERF_RECORD_MISC_CALLCHAIN_CUT:
		cd->stats.cut++;
		break;
	case PERF_RECORD_MISC_CALLCHAIN_BROKEN:
		cd->stats.broken++;
		break;
	case MISC_INCOMPLETE:
		cd->stats.no_memory++;
		break;
	default:
		break;
	}
}

/* The header is in host byte order already. A record of a bad size is left. */
void callchain_deferred__swap(union perf_event *event,
			      bool sample_id_all __maybe_unused)
{
	if (has_fixed_part(event)) {
		mem_bswap_64(&event->header + 1,
			     event->header.size - sizeof(event->header));
	}
}

static size_t waiting__hash(long key, void *ctx __maybe_unused)
{
	return key;
}

static bool waiting__equal(long key1, long key2, void *ctx __maybe_unused)
{
	return key1 == key2;
}

struct callchain_deferred *callchain_deferred__new(struct evlist *evlist,
						   bool needs_swap)
{
	/* A chain and a record are of 64 KiB at most, so their sum is, too. */
	const size_t chain_size = 2 * PERF_SAMPLE_MAX_SIZE;
	struct callchain_deferred *cd = zalloc(sizeof(*cd));

	if (!cd)
		return NULL;

	cd->evlist = evlist;
	cd->needs_swap = needs_swap;
	cd->record_pos = POS_NONE;
	cd->held.records = RB_ROOT;
	INIT_LIST_HEAD(&cd->held.events);
	INIT_LIST_HEAD(&cd->held.recent);
	cd->chain = malloc(chain_size);
	cd->waiting = hashmap__new(waiting__hash, waiting__equal, NULL);
	if (!cd->chain || IS_ERR(cd->waiting)) {
		if (IS_ERR(cd->waiting))
			cd->waiting = NULL;
		callchain_deferred__delete(cd);
		return NULL;
	}

	return cd;
}

void callchain_deferred__delete(struct callchain_deferred *cd)
{
	struct hashmap_entry *cur;
	size_t bkt;

	struct held_event *held, *tmp;

	if (!cd)
		return;

	list_splice(&cd->held.recent, &cd->held.events);
	list_for_each_entry_safe(held, tmp, &cd->held.events, list)
		free(held);
	if (cd->waiting) {
		hashmap__for_each_entry(cd->waiting, cur, bkt)
			zfree(&cur->pvalue);
		hashmap__free(cd->waiting);
	}
	for (u32 i = 0; i < cd->nr_sources; i++)
		free(cd->sources[i].blocks);
	free(cd->sources);
	free(cd->entries);
	free(cd->chain);
	free(cd);
}

static int add_source(struct callchain_deferred *cd, int fd)
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

/* Returns the offset of the block in its source, or a negative error code */
static s64 add_block(struct callchain_deferred *cd, u32 source_idx, struct decomp *decomp)
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

static int add_index_entry(struct callchain_deferred *cd, u64 cookie, u64 pos)
{
	if (cd->nr_entries == cd->max_entries) {
		size_t max = cd->max_entries ? cd->max_entries * 2 : 1024;
		struct index_entry *entries = realloc(cd->entries, max * sizeof(*entries));

		if (!entries)
			return -ENOMEM;

		cd->entries = entries;
		cd->max_entries = max;
	}

	cd->entries[cd->nr_entries++] = (struct index_entry) {
		.cookie = cookie,
		.pos = pos,
	};

	return 0;
}

/* Brings cd->record, read from a file, to host byte order and checks it. */
static bool record__check(struct callchain_deferred *cd)
{
	union perf_event *event = &cd->record.event;

	if (cd->needs_swap)
		callchain_deferred__swap(event, true);

	return evlist__callchain_deferred_valid(cd->evlist, event);
}

/*
 * Where in the order of the session an event is. All that is compared carries
 * time or nothing does, as a session's events have the same sample_id.
 */
static u64 event__order(u64 time, u64 file_offset)
{
	return time != (u64)-1 ? time : file_offset;
}

/*
 * @buf holds the whole record in the byte order of the file, @header is its header
 * in that of the host.
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
	if (!record__check(cd))
		return -EINVAL;

	return add_index_entry(cd, event->callchain_deferred.cookie,
			       (u64)source << POS_OFFSET_BITS | offset);
}

/* As much of @size bytes as there is */
static size_t read_at(int fd, void *buf, size_t size, u64 offset)
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

struct window {
	int	fd;
	u64	start;
	size_t	len;
	char	*buf;
};

/* Returns @size bytes at @pos, which are not more than any event has. */
static const void *window__read(struct window *w, u64 pos, size_t size)
{
	if (pos < w->start || pos + size > w->start + w->len) {
		w->start = pos;
		w->len = read_at(w->fd, w->buf, WINDOW_SIZE, pos);
		if (w->len < size)
			return NULL;
	}

	return w->buf + (pos - w->start);
}

/* What follows the event at @pos and is not counted in its size */
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

/* Leaves decomp->head at what is to be continued in the next block. */
static int index_block(struct callchain_deferred *cd, u32 source, struct decomp *decomp)
{
	s64 start = add_block(cd, source, decomp);

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
 * callchain_deferred__index_file - note where the records of a file are
 * @cd: the index, which covers all files of a session
 * @fd: must stay open as long as @cd is in use
 * @offset: of the first event
 * @size: of all events
 * @inflate: decompresses, NULL if that cannot be done
 * @arg: for @inflate
 *
 * The events are read here and not from the mapping that they are delivered
 * from, as that one is swapped in place and must be so once only.
 *
 * An end in the middle of an event, or one that makes no sense, is an end here.
 * Those who read the file for its contents are going to complain.
 *
 * Return: 0, or a negative error code when the index could not be built.
 */
int callchain_deferred__index_file(struct callchain_deferred *cd, int fd,
				   u64 offset, u64 size,
				   callchain_deferred__inflate_t inflate, void *arg)
{
	struct window w = { .fd = fd, };
	u64 pos = offset, end = offset + size;
	int source = add_source(cd, fd);
	int blocks = add_source(cd, -1);
	int err = 0;

	if (source < 0 || blocks < 0)
		return source < 0 ? source : blocks;

	w.buf = malloc(WINDOW_SIZE);
	if (!w.buf)
		return -ENOMEM;

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

static int index_entry__cmp(const void *va, const void *vb)
{
	const struct index_entry *a = va, *b = vb;

	if (a->cookie != b->cookie)
		return a->cookie < b->cookie ? -1 : 1;
	if (a->pos != b->pos)
		return a->pos < b->pos ? -1 : 1;

	return 0;
}

/* The first entry with the cookie, or NULL */
static const struct index_entry *find_entry(struct callchain_deferred *cd, u64 cookie)
{
	size_t first = 0, last = cd->nr_entries;

	while (first < last) {
		size_t middle = first + (last - first) / 2;

		if (cd->entries[middle].cookie < cookie)
			first = middle + 1;
		else
			last = middle;
	}

	if (first == cd->nr_entries || cd->entries[first].cookie != cookie)
		return NULL;

	return &cd->entries[first];
}

/* To be called once, after the last file. */
int callchain_deferred__index_done(struct callchain_deferred *cd)
{
	struct index_entry *entries;

	if (!cd->nr_entries)
		return 0;

	qsort(cd->entries, cd->nr_entries, sizeof(*cd->entries), index_entry__cmp);

	/* Give back what is too much. */
	entries = realloc(cd->entries, cd->nr_entries * sizeof(*entries));
	if (entries) {
		cd->entries = entries;
		cd->max_entries = cd->nr_entries;
	}
	pr_debug("%zu deferred callchains, %zu bytes of index\n", cd->nr_entries,
		 cd->nr_entries * sizeof(*cd->entries));

	return 0;
}

static bool record__read_file(struct callchain_deferred *cd, int fd, u64 offset)
{
	union perf_event *event = &cd->record.event;
	size_t len = read_at(fd, event, READ_AHEAD, offset);

	if (len < sizeof(event->header))
		return false;

	if (cd->needs_swap)
		perf_event_header__bswap(&event->header);

	if (event->header.size > len) {
		size_t rest = event->header.size - len;

		if (read_at(fd, cd->record.buf + len, rest, offset + len) != rest)
			return false;
	}

	return event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED &&
	       record__check(cd);
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

	/* Events in blocks are swapped when they are delivered. */
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

/* The record of the entry, valid until the next one is read */
static union perf_event *index_entry__record(struct callchain_deferred *cd,
					     const struct index_entry *entry)
{
	union perf_event *event = &cd->record.event;
	struct source *source = &cd->sources[entry->pos >> POS_OFFSET_BITS];
	u64 offset = entry->pos & POS_OFFSET_MAX;
	bool ok;

	/* Samples of one system call share a record. */
	if (cd->record_pos == entry->pos)
		return event;

	cd->record_pos = POS_NONE;
	if (source->nr_blocks)
		ok = record__read_block(cd, source, offset);
	else
		ok = record__read_file(cd, source->fd, offset);
	if (!ok)
		return NULL;

	/* It was so when it was indexed, but a file can change. */
	if (event->callchain_deferred.cookie != entry->cookie)
		return NULL;

	cd->record_pos = entry->pos;

	return event;
}

static bool tid_is_usable(u32 tid)
{
	/* 0 and -1 are what tasks outside of perf's pid namespace have. */
	return tid && tid != (u32)-1;
}

/* One of several records with the cookie of a sample */
struct candidate {
	struct index_entry	entry;
	/* What event__order() has for it */
	u64			order;
	/* At or after the sample? */
	bool			is_later;
	bool			is_same_task;
};

static void candidate__init(struct candidate *candidate, struct callchain_deferred *cd,
			    const struct index_entry *entry, const struct perf_sample *sample,
			    u64 order)
{
	struct source *source = &cd->sources[entry->pos >> POS_OFFSET_BITS];
	union perf_event *event = index_entry__record(cd, entry);
	u64 file_offset = entry->pos & POS_OFFSET_MAX;
	struct perf_sample record = { .time = -1, };

	if (source->nr_blocks)
		file_offset = source__block(source, file_offset)->decomp->file_pos;
	if (event)
		evlist__parse_sample(cd->evlist, event, &record);

	candidate->entry = *entry;
	candidate->order = event__order(record.time, file_offset);
	candidate->is_later = candidate->order >= order;
	candidate->is_same_task = tid_is_usable(sample->tid) && record.tid == sample->tid;
}

/* Is @a, which is behind @b in the file, the better one? */
static bool candidate__is_better(const struct candidate *a, const struct candidate *b)
{
	if (a->is_later != b->is_later)
		return a->is_later;
	if (!a->is_later)
		return a->order >= b->order;
	if (a->is_same_task != b->is_same_task)
		return a->is_same_task;

	return a->order < b->order;
}

/*
 * The record of a sample. A cookie alone is enough, as a rule. If it has several
 * records then take the first one at or after the sample, of the same task if
 * there is one. If all are older then take the last one: the kernel does not record
 * a stack again that it has recorded since the task entered it, and clocks of CPUs
 * differ a bit.
 */
static union perf_event *find_record(struct callchain_deferred *cd,
				     struct perf_sample *sample, u64 order)
{
	const struct index_entry *entry = find_entry(cd, sample->deferred_cookie);
	const struct index_entry *end = cd->entries + cd->nr_entries;
	struct candidate best, other;

	if (!entry)
		return NULL;
	if (entry + 1 == end || entry[1].cookie != entry->cookie)
		return index_entry__record(cd, entry);

	candidate__init(&best, cd, entry, sample, order);
	for (int i = 1; i < MAX_TIES && ++entry < end; i++) {
		if (entry->cookie != sample->deferred_cookie)
			break;
		candidate__init(&other, cd, entry, sample, order);
		if (candidate__is_better(&other, &best))
			best = other;
	}

	return index_entry__record(cd, &best.entry);
}

static struct waiting *waiting__findnew(struct callchain_deferred *cd, u32 tid)
{
	struct waiting *waiting;

	if (hashmap__find(cd->waiting, tid, &waiting))
		return waiting;

	waiting = zalloc(sizeof(*waiting));
	if (waiting && hashmap__add(cd->waiting, tid, waiting))
		zfree(&waiting);

	return waiting;
}

/* A sample without a record. Its task may still be in the kernel. */
static int add_waiting(struct callchain_deferred *cd, struct perf_sample *sample,
		       u64 order)
{
	struct waiting *waiting;

	if (!tid_is_usable(sample->tid)) {
		cd->stats.unmatched++;
		return 0;
	}

	waiting = waiting__findnew(cd, sample->tid);
	if (!waiting)
		return -ENOMEM;

	if (waiting->nr && waiting->cookie != sample->deferred_cookie) {
		/* Only the newest cookie of a task can still get its record. */
		if (order < waiting->asked) {
			cd->stats.unmatched++;
			return 0;
		}
		cd->stats.unmatched += waiting->nr;
		waiting->nr = 0;
	}

	waiting->cookie = sample->deferred_cookie;
	if (!waiting->nr++ || order > waiting->asked)
		waiting->asked = order;

	return 0;
}

/* Most tasks have nothing that waits, and no entry. */
static void note_left_kernel(struct callchain_deferred *cd, u32 tid, u64 order)
{
	struct waiting *waiting;

	/* Tools may ask for events in file order, so older ones can follow. */
	if (hashmap__find(cd->waiting, tid, &waiting) && order > waiting->left)
		waiting->left = order;
}

static u64 node__cookie(struct rb_node *node)
{
	return rb_entry(node, struct held_event, node)->event.callchain_deferred.cookie;
}

/* The first record of the cookie */
static struct rb_node *held__find_node(struct held_events *held, u64 cookie)
{
	struct rb_node *node = held->records.rb_node, *first = NULL;

	while (node) {
		u64 other = node__cookie(node);

		if (cookie == other)
			first = node;
		node = cookie <= other ? node->rb_left : node->rb_right;
	}

	return first;
}

/* As find_record(), of what is held back and what was delivered lately */
static union perf_event *held__find_record(struct held_events *held,
					   struct perf_sample *sample, u64 order)
{
	struct rb_node *node = held__find_node(held, sample->deferred_cookie);
	struct held_event *found = NULL;
	struct candidate best, other;

	for (int i = 0; i < MAX_TIES && node; i++, node = rb_next(node)) {
		struct held_event *record = rb_entry(node, struct held_event, node);

		if (node__cookie(node) != sample->deferred_cookie)
			break;

		other = (struct candidate) {
			.order = record->order,
			.is_later = record->order >= order,
			.is_same_task = tid_is_usable(sample->tid) && record->tid == sample->tid,
		};
		if (!found || candidate__is_better(&other, &best)) {
			best = other;
			found = record;
		}
	}

	return found ? &found->event : NULL;
}

static void held__add_record(struct held_events *held, struct held_event *record)
{
	struct rb_node **p = &held->records.rb_node, *parent = NULL;
	u64 cookie = record->event.callchain_deferred.cookie;

	while (*p) {
		parent = *p;
		p = cookie < node__cookie(parent) ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&record->node, parent, p);
	rb_insert_color(&record->node, &held->records);
}

static void held_event__delete(struct held_events *held, struct held_event *event)
{
	if (!RB_EMPTY_NODE(&event->node))
		rb_erase(&event->node, &held->records);
	free(event);
}

/* Complete the chain, or put the marker alone where the user part should be. */
static int join(struct callchain_deferred *cd, struct perf_sample *sample, u64 order)
{
	u64 nr = ip_callchain__nr_present(sample->callchain);
	struct ip_callchain *chain = cd->chain;
	union perf_event *record;
	int err = 0;

	cd->stats.requested++;
	memcpy(chain->ips, sample->callchain->ips, nr * sizeof(u64));
	if (cd->indexed)
		record = find_record(cd, sample, order);
	else
		record = held__find_record(&cd->held, sample, order);

	if (record) {
		struct perf_record_callchain_deferred *user = &record->callchain_deferred;

		cd->stats.merged++;
		count_incomplete(cd, record);
		note_left_kernel(cd, sample->tid, order);

		chain->ips[nr++] = PERF_CONTEXT_USER;
		/* Whatever comes after another context is not a user address. */
		for (u64 i = 0; i < user->nr && user->ips[i] < PERF_CONTEXT_MAX; i++)
			chain->ips[nr++] = user->ips[i];
	} else {
		err = add_waiting(cd, sample, order);
		/* At least the innermost frame is known if it is the user's. */
		if (sample->cpumode == PERF_RECORD_MISC_USER &&
		    sample->ip && sample->ip < PERF_CONTEXT_MAX) {
			chain->ips[nr++] = PERF_CONTEXT_USER;
			chain->ips[nr++] = sample->ip;
		}
		chain->ips[nr++] = PERF_CONTEXT_USER_DEFERRED;
	}

	chain->nr = nr;
	sample->callchain = chain;

	return err;
}

/* The record of samples that were delivered before it may have come. */
static void note_record(struct callchain_deferred *cd, struct perf_sample *sample,
			u64 order)
{
	struct waiting *waiting;

	if (!cd->indexed && hashmap__find(cd->waiting, sample->tid, &waiting) &&
	    waiting->cookie == sample->deferred_cookie) {
		cd->stats.unmerged += waiting->nr;
		waiting->nr = 0;
	}

	note_left_kernel(cd, sample->tid, order);
}

/**
 * callchain_deferred__process - complete a sample
 * @cd: with an index of the session, or with records that were held back
 * @event: every event of the session that is delivered, in any order
 * @sample: parsed from @event. Its callchain is replaced if the user part was
 *	deferred, and is then valid until the next call.
 * @file_offset: of @event
 *
 * Return: 0 or a negative error code.
 */
int callchain_deferred__process(struct callchain_deferred *cd,
				union perf_event *event,
				struct perf_sample *sample, u64 file_offset)
{
	u64 order = event__order(sample->time, file_offset);

	switch (event->header.type) {
	case PERF_RECORD_SAMPLE:
		if (sample->callchain && sample->deferred_cookie)
			return join(cd, sample, order);
		if (sample->cpumode == PERF_RECORD_MISC_USER)
			note_left_kernel(cd, sample->tid, order);
		break;
	case PERF_RECORD_CALLCHAIN_DEFERRED:
		note_record(cd, sample, order);
		break;
	case PERF_RECORD_EXIT:
		if (event->header.size >= sizeof(event->fork))
			note_left_kernel(cd, event->fork.tid, order);
		break;
	case PERF_RECORD_LOST:
		if (event->header.size >= sizeof(event->lost))
			cd->lost += event->lost.lost;
		break;
	case PERF_RECORD_LOST_SAMPLES:
		if (event->header.size >= sizeof(event->lost_samples) &&
		    !(event->header.misc & PERF_RECORD_MISC_LOST_SAMPLES_BPF))
			cd->lost_samples += event->lost_samples.lost;
		break;
	default:
		break;
	}

	return 0;
}

/**
 * callchain_deferred__hold_back - set how events are delivered
 * @cd: before its first event
 * @bounds: of the wait if there is no index, must stay as long as @cd is in use
 * @deliver: called for each event that callchain_deferred__deliver() gets, in
 *	the order that it gets them
 * @arg: for @deliver
 */
void callchain_deferred__hold_back(struct callchain_deferred *cd,
				   const struct callchain_deferred_bounds *bounds,
				   callchain_deferred__deliver_t deliver, void *arg)
{
	cd->held.bounds = bounds;
	cd->held.deliver = deliver;
	cd->held.arg = arg;
}

static u64 monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);

	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* An event without time is as old as the newest one before it. */
static u64 held__stamp(struct held_events *held, struct perf_sample *sample)
{
	u64 stamp = held->newest;

	if (held->bounds->live)
		stamp = monotonic_ns();
	else if (sample->time != (u64)-1)
		stamp = sample->time;
	if (stamp > held->newest)
		held->newest = stamp;

	return stamp;
}

static struct held_event *held_event__new(union perf_event *event,
					  struct perf_sample *sample, u64 stamp,
					  u64 file_offset, const char *file_path)
{
	struct held_event *held = malloc(offsetof(struct held_event, event) +
					 event->header.size);

	if (!held)
		return NULL;

	RB_CLEAR_NODE(&held->node);
	held->stamp = stamp;
	held->arrived = 0;
	held->order = event__order(sample->time, file_offset);
	held->tid = sample->tid;
	held->file_offset = file_offset;
	held->file_path = file_path;
	held->cookie = 0;
	if (event->header.type == PERF_RECORD_SAMPLE && sample->callchain)
		held->cookie = sample->deferred_cookie;
	memcpy(&held->event, event, event->header.size);

	return held;
}

static size_t held_event__bytes(const struct held_event *held)
{
	return offsetof(struct held_event, event) + held->event.header.size;
}

static bool event__is_record(const union perf_event *event)
{
	return event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED;
}

static void held__add_recent(struct held_events *held, struct held_event *record)
{
	list_add_tail(&record->list, &held->recent);
	held->recent_bytes += held_event__bytes(record);
	held->nr_recent++;

	while (held->nr_recent > MIN_RECENT &&
	       held->recent_bytes > held->bounds->bytes / RECENT_SHARE) {
		struct held_event *oldest;

		oldest = list_first_entry(&held->recent, struct held_event, list);
		list_del(&oldest->list);
		held->recent_bytes -= held_event__bytes(oldest);
		held->nr_recent--;
		held_event__delete(held, oldest);
	}
}

/* Deliver the oldest of what is held back, completed if that is possible. */
static int held__release(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;
	struct held_event *oldest = list_first_entry(&held->events, struct held_event, list);
	union perf_event *event = &oldest->event;
	struct perf_sample sample;
	int err;

	list_del(&oldest->list);
	held->bytes -= held_event__bytes(oldest);

	err = evlist__parse_sample(cd->evlist, event, &sample);
	if (!err)
		err = callchain_deferred__process(cd, event, &sample, oldest->file_offset);
	if (!err) {
		err = held->deliver(held->arg, event, &sample, oldest->file_offset,
				    oldest->file_path);
	}

	if (event__is_record(event))
		held__add_recent(held, oldest);
	else
		held_event__delete(held, oldest);

	return err;
}

static bool held__must_wait(struct held_events *held)
{
	struct held_event *oldest = list_first_entry(&held->events, struct held_event, list);

	return oldest->cookie &&
	       held->bytes <= held->bounds->bytes &&
	       held->newest - oldest->stamp <= held->bounds->age &&
	       (!held->now || held->now - oldest->arrived < held->bounds->idle) &&
	       !held__find_node(held, oldest->cookie);
}

static int held__release_ready(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;

	while (!list_empty(&held->events) && !held__must_wait(held)) {
		int err = held__release(cd);

		if (err)
			return err;
	}

	return 0;
}

static int held__queue(struct callchain_deferred *cd, union perf_event *event,
		       struct perf_sample *sample, u64 file_offset,
		       const char *file_path)
{
	struct held_events *held = &cd->held;
	bool is_record = event__is_record(event);
	struct held_event *new, *oldest;
	bool was_waiting = false;
	u64 stamp;

	stamp = held__stamp(held, sample);
	new = held_event__new(event, sample, stamp, file_offset, file_path);
	if (!new)
		return -ENOMEM;
	if (held->bounds->idle)
		new->arrived = monotonic_ns();

	if (!list_empty(&held->events)) {
		oldest = list_first_entry(&held->events, struct held_event, list);
		was_waiting = !is_record || new->event.callchain_deferred.cookie != oldest->cookie;
	}
	list_add_tail(&new->list, &held->events);
	held->bytes += held_event__bytes(new);
	if (is_record)
		held__add_record(held, new);

	/* Searching again is of no use if nothing changed for the oldest one. */
	if (was_waiting && held->bytes <= held->bounds->bytes &&
	    held->newest - oldest->stamp <= held->bounds->age)
		return 0;

	return held__release_ready(cd);
}

/**
 * callchain_deferred__deliver - deliver an event when its callchain is complete
 * @cd: set up by callchain_deferred__index_file() or callchain_deferred__hold_back()
 * @event: any event of the session, in time order as far as there is one
 * @sample: parsed from @event
 * @file_offset: of @event
 * @file_path: of the file that @event is from, must stay as long as @cd is in use
 *
 * With an index this is at once. Without one it may be later, and other events may
 * have waited for this one, except in a file of another byte order.
 *
 * Return: 0, a negative error code, or what the first callback that did not
 * return 0 has returned.
 */
int callchain_deferred__deliver(struct callchain_deferred *cd,
				union perf_event *event,
				struct perf_sample *sample, u64 file_offset,
				const char *file_path)
{
	bool waits = event->header.type == PERF_RECORD_SAMPLE && sample->callchain &&
		     sample->deferred_cookie;
	int err;

	/*
	 * A recent record is kept, so it is queued even if it is the only event.
	 * What waits is parsed again, which with another byte order is not possible:
	 * the first time swaps raw data where it is.
	 */
	if (!cd->indexed && !cd->needs_swap &&
	    (!list_empty(&cd->held.events) || waits || event__is_record(event)))
		return held__queue(cd, event, sample, file_offset, file_path);

	err = callchain_deferred__process(cd, event, sample, file_offset);
	if (err)
		return err;

	return cd->held.deliver(cd->held.arg, event, sample, file_offset, file_path);
}

/**
 * callchain_deferred__timeout - when does something have to be delivered?
 * @cd: with bounds->idle
 *
 * Return: in ms, how long there may be no input before callchain_deferred__expire()
 * is to be called; -1 if nothing is held back.
 */
int callchain_deferred__timeout(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;
	struct held_event *oldest;
	u64 waited;

	if (list_empty(&held->events) || !held->bounds->idle)
		return -1;

	oldest = list_first_entry(&held->events, struct held_event, list);
	waited = monotonic_ns() - oldest->arrived;
	if (waited >= held->bounds->idle)
		return 0;

	return DIV_ROUND_UP(held->bounds->idle - waited, NSEC_PER_MSEC);
}

/* Is there anything that callchain_deferred__expire() could deliver later? */
bool callchain_deferred__holds_back(struct callchain_deferred *cd)
{
	return !list_empty(&cd->held.events);
}

/**
 * callchain_deferred__expire - deliver what has waited for too long
 * @cd: with bounds->live or bounds->idle
 *
 * To be called from time to time where no more events may come.
 *
 * Return: as callchain_deferred__deliver()
 */
int callchain_deferred__expire(struct callchain_deferred *cd)
{
	struct held_events *held = &cd->held;
	int err;

	if (list_empty(&held->events))
		return 0;

	if (held->bounds->live)
		held->newest = max(held->newest, monotonic_ns());
	if (held->bounds->idle)
		held->now = monotonic_ns();
	err = held__release_ready(cd);
	held->now = 0;

	return err;
}

/**
 * callchain_deferred__flush - deliver all that is held back
 * @cd: all events were given to callchain_deferred__deliver()
 *
 * Return: as callchain_deferred__deliver()
 */
int callchain_deferred__flush(struct callchain_deferred *cd)
{
	int err = 0;

	while (!list_empty(&cd->held.events) && !err && !session_done())
		err = held__release(cd);

	return err;
}

/* Final once all events have been processed */
void callchain_deferred__stats(struct callchain_deferred *cd,
			       struct callchain_deferred_stats *stats)
{
	struct hashmap_entry *cur;
	size_t bkt;

	*stats = cd->stats;
	/* Two counts of the same, each of which can miss some */
	stats->lost = max(cd->lost, cd->lost_samples);
	hashmap__for_each_entry(cd->waiting, cur, bkt) {
		struct waiting *waiting = cur->pvalue;

		if (waiting->left > waiting->asked)
			stats->unmatched += waiting->nr;
		else
			stats->pending += waiting->nr;
	}
}

size_t callchain_deferred__fprintf_stats(struct callchain_deferred *cd, FILE *fp)
{
	struct callchain_deferred_stats stats;
	size_t ret;

	callchain_deferred__stats(cd, &stats);
	ret = fprintf(fp, "\nDeferred callchain stats:\n");
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "requested", stats.requested);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "merged", stats.merged);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "pending at the end", stats.pending);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "  (events lost: %" PRIu64 ")\n",
		       "unmatched", stats.unmatched, stats.lost);
	if (stats.unmerged)
		ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "unmerged", stats.unmerged);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "merged, cut", stats.cut);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "merged, broken", stats.broken);
	ret += fprintf(fp, "%20s samples: %9" PRIu64 "\n", "merged, no memory", stats.no_memory);

	return ret;
}

/* Samples without a record, in percent, that are worth a warning */
#define WARN_UNMATCHED	1

void callchain_deferred__warn(struct callchain_deferred *cd)
{
	struct callchain_deferred_stats stats;

	callchain_deferred__stats(cd, &stats);

	if (stats.unmerged) {
		ui__warning("%" PRIu64 " samples are shown without their user callchain.\n"
			    "It was deferred, and recorded later than samples can wait for it.\n\n",
			    stats.unmerged);
	}

	if (stats.unmatched * 100 > stats.requested * WARN_UNMATCHED) {
		ui__warning("%" PRIu64 " of %" PRIu64 " deferred user callchains are missing.\n"
			    "At most %" PRIu64 " records of deferred callchains were lost.\n\n",
			    stats.unmatched, stats.requested, stats.lost);
	}
}
