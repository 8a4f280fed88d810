/* SPDX-License-Identifier: GPL-2.0 */
/* Hands the kernel SFrame tables for files that have no SFrame section */
#ifndef __PERF_UNWIND_TABLES_H
#define __PERF_UNWIND_TABLES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

struct evlist;
struct unwind_tables;

#ifdef HAVE_DWARF_SUPPORT

int unwind_tables__start(struct unwind_tables **tables, struct evlist *evlist,
			 const char *command, bool (*is_done)(void));
void unwind_tables__stop(struct unwind_tables *tables);

#else

static inline int unwind_tables__start(struct unwind_tables **tables,
				       struct evlist *evlist __maybe_unused,
				       const char *command __maybe_unused,
				       bool (*is_done)(void) __maybe_unused)
{
	*tables = NULL;
	return -EOPNOTSUPP;
}

static inline void unwind_tables__stop(struct unwind_tables *tables __maybe_unused)
{
}

#endif /* HAVE_DWARF_SUPPORT */

#endif /* __PERF_UNWIND_TABLES_H */
