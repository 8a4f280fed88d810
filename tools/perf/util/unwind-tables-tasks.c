// SPDX-License-Identifier: GPL-2.0
/* Finds out which tasks the events of the session sample */
#include <perf/evlist.h>
#include <perf/threadmap.h>

#include "util/cgroup.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/unwind-tables-internal.h"
#include "util/unwind-tables-proc.h"

bool unwind_tables__is_system_wide(const struct unwind_tables *tables)
{
	return perf_thread_map__pid(tables->evlist->core.threads, 0) == -1;
}

/* Returns the next event after @evsel whose cgroup no event before it has. */
struct evsel *unwind_tables__next_cgroup(struct evlist *evlist, struct evsel *evsel)
{
	struct evsel *other;
	bool is_new;

	while (evsel != evlist__last(evlist)) {
		evsel = evsel__next(evsel);
		if (!evsel->core.attr.defer_callchain)
			continue;
		is_new = true;
		evlist__for_each_entry(evlist, other) {
			if (other == evsel)
				break;
			if (other->core.attr.defer_callchain && other->cgrp == evsel->cgrp)
				is_new = false;
		}
		if (is_new)
			return evsel;
	}

	return NULL;
}

/* Do all events that defer user callchains belong to cgroups? */
bool unwind_tables__is_for_cgroups(struct evlist *evlist)
{
	struct evsel *evsel;
	bool ret = false;

	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->core.attr.defer_callchain)
			continue;
		if (!evsel->cgrp)
			return false;
		ret = true;
	}

	return ret;
}

static bool is_in_cgroups(struct evlist *evlist, pid_t pid)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.defer_callchain &&
		    unwind_tables_proc__is_in_cgroup(pid, evsel->cgrp->name))
			return true;
	}

	return false;
}

/* Keeps the last result, because most calls are for the same process as before. */
bool unwind_tables__is_profiled(struct unwind_tables *tables, pid_t pid)
{
	bool ret;

	if (!unwind_tables__is_for_cgroups(tables->evlist))
		return true;

	mutex_lock(&tables->lock);
	if (tables->cgroup_pid != pid) {
		tables->cgroup_pid = pid;
		tables->cgroup_has_pid = is_in_cgroups(tables->evlist, pid);
	}
	ret = tables->cgroup_has_pid;
	mutex_unlock(&tables->lock);

	return ret;
}
