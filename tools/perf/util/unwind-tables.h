/* SPDX-License-Identifier: GPL-2.0 */
/* Gives the kernel SFrame tables for files without an SFrame section */
#ifndef __PERF_UNWIND_TABLES_H
#define __PERF_UNWIND_TABLES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/sframe-table.h"

struct evlist;
struct machine;
struct perf_sample;
struct unwind_tables;
union perf_event;

/**
 * struct unwind_tables_opts - Options for the tables of a session
 * @command:	Command that will be run, or NULL
 * @is_done:	Returns true if the session must end, for example after a signal
 * @is_wanted:	The user asked for tables, so print errors
 * @scan:	Look for the mappings of tasks, because unwind_tables__add_event()
 *		does not get them
 * @cache:	How to use the cache of tables
 * @serve:	Run for long: see unwind_tables__look_around()
 * @cpu_percent: With @serve, workers use so much of one CPU
 * @max_size:	With @serve, the kernel has at most so many bytes of tables
 */
struct unwind_tables_opts {
	const char		*command;
	bool			(*is_done)(void);
	bool			is_wanted;
	bool			scan;
	enum sframe_cache_use	cache;
	bool			serve;
	unsigned int		cpu_percent;
	u64			max_size;
};

/**
 * struct unwind_tables_state - What there is now, or was since the start
 * @tables:	Tables that the kernel has
 * @size:	Their size in bytes
 * @cached:	How many tables came from the cache
 * @waiting:	Files that wait for their table
 * @own:	Files with an SFrame section
 * @none:	Files that no table can be made for
 * @failed:	Files whose table could not be made, or was refused
 * @no_room:	Part of @failed that did not fit into the size
 * @dropped:	Tables that do not count any more, because nobody maps their files
 * @lost:	Lost events of mappings, and files beyond a limit of perf
 * @scans:	How many times the mappings of all tasks were read
 * @cpu_seconds: CPU time of the workers
 * @global:	The tables serve all tasks
 */
struct unwind_tables_state {
	size_t	tables;
	u64	size;
	size_t	cached;
	size_t	waiting;
	size_t	own;
	size_t	none;
	size_t	failed;
	size_t	no_room;
	size_t	dropped;
	u64	lost;
	unsigned int scans;
	double	cpu_seconds;
	bool	global;
};

#ifdef HAVE_DWARF_SUPPORT

int unwind_tables__start(struct unwind_tables **tables, struct evlist *evlist,
			 const struct unwind_tables_opts *opts);
void unwind_tables__add_event(struct unwind_tables *tables, const union perf_event *event);
bool unwind_tables__look_around(struct unwind_tables *tables, unsigned int idle_scans);
bool unwind_tables__reopen_sideband(struct unwind_tables *tables);
bool unwind_tables__is_full(const struct unwind_tables *tables);
void unwind_tables__get_state(struct unwind_tables *tables, struct unwind_tables_state *state);
void unwind_tables__end_session(struct unwind_tables *tables);
void unwind_tables__finish(struct unwind_tables *tables, bool (*is_interrupted)(void));
void unwind_tables__stop(struct unwind_tables *tables);
void unwind_tables__count(struct unwind_tables *tables, const union perf_event *event,
			  const struct perf_sample *sample, struct machine *machine);
void unwind_tables__delete(struct unwind_tables *tables);

#else

static inline int unwind_tables__start(struct unwind_tables **tables,
				       struct evlist *evlist __maybe_unused,
				       const struct unwind_tables_opts *opts __maybe_unused)
{
	*tables = NULL;
	return -EOPNOTSUPP;
}

static inline void unwind_tables__add_event(struct unwind_tables *tables __maybe_unused,
					    const union perf_event *event __maybe_unused)
{
}

static inline bool unwind_tables__look_around(struct unwind_tables *tables __maybe_unused,
					      unsigned int idle_scans __maybe_unused)
{
	return false;
}

static inline bool unwind_tables__reopen_sideband(struct unwind_tables *tables __maybe_unused)
{
	return false;
}

static inline bool unwind_tables__is_full(const struct unwind_tables *tables __maybe_unused)
{
	return false;
}

static inline void unwind_tables__get_state(struct unwind_tables *tables __maybe_unused,
					    struct unwind_tables_state *state)
{
	*state = (struct unwind_tables_state) { };
}

static inline void unwind_tables__end_session(struct unwind_tables *tables __maybe_unused)
{
}

static inline void unwind_tables__finish(struct unwind_tables *tables __maybe_unused,
					 bool (*is_interrupted)(void) __maybe_unused)
{
}

static inline void unwind_tables__stop(struct unwind_tables *tables __maybe_unused)
{
}

static inline void unwind_tables__count(struct unwind_tables *tables __maybe_unused,
					const union perf_event *event __maybe_unused,
					const struct perf_sample *sample __maybe_unused,
					struct machine *machine __maybe_unused)
{
}

static inline void unwind_tables__delete(struct unwind_tables *tables __maybe_unused)
{
}

#endif /* HAVE_DWARF_SUPPORT */

#endif /* __PERF_UNWIND_TABLES_H */
