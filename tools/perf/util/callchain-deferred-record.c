// SPDX-License-Identifier: GPL-2.0
/* Helpers for PERF_RECORD_CALLCHAIN_DEFERRED */
#include <linux/compiler.h>
#include <linux/perf_event.h>
#include <perf/event.h>

#include "callchain-deferred-record.h"
#include "event.h"
#include "memswap.h"

/* The part that every record has: header, cookie and nr */
#define FIXED_SIZE	sizeof(struct perf_record_callchain_deferred)

static bool has_fixed_part(const union perf_event *event)
{
	return event->header.size >= FIXED_SIZE &&
	       event->header.size % sizeof(u64) == 0;
}

/**
 * callchain_deferred__has_size - is the record large enough for its contents?
 * @event: a whole PERF_RECORD_CALLCHAIN_DEFERRED in host byte order
 * @id_hdr_size: size of the sample_id at its end, 0 without sample_id_all
 *
 * Before this function returns true, read only the header of a record.
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

/**
 * callchain_deferred__why_incomplete - why is the recorded stack incomplete?
 * @event: a PERF_RECORD_CALLCHAIN_DEFERRED; only its header is read
 *
 * Return: the reason, in one or two words; NULL if the stack is complete.
 */
const char *callchain_deferred__why_incomplete(const union perf_event *event)
{
	switch (event->header.misc & CALLCHAIN_DEFERRED_INCOMPLETE) {
	case PERF_RECORD_MISC_CALLCHAIN_CUT:
		return "cut";
	case PERF_RECORD_MISC_CALLCHAIN_BROKEN:
		return "broken";
	case CALLCHAIN_DEFERRED_INCOMPLETE:
		return "no memory";
	default:
		return NULL;
	}
}

/* The header is in host byte order. A record of invalid size is not swapped. */
void callchain_deferred__swap(union perf_event *event,
			      bool sample_id_all __maybe_unused)
{
	if (has_fixed_part(event)) {
		mem_bswap_64(&event->header + 1,
			     event->header.size - sizeof(event->header));
	}
}
