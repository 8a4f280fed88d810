// SPDX-License-Identifier: GPL-2.0
/* Reads sideband events: later mappings, and samples that show the needed files */
#include <errno.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <perf/cpumap.h>
#include <perf/evlist.h>

#include "util/cgroup.h"
#include "util/debug.h"
#include "util/event.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/sample.h"
#include "util/unwind-tables.h"
#include "util/unwind-tables-internal.h"

/*
 * Pages of the ring buffer for later mappings, per CPU or task. If perf may not
 * lock so much memory, it tries a quarter of it, and so on.
 */
#define SIDEBAND_PAGES	64
#define SIDEBAND_LESS	4

/* Samples per second and CPU that show which files are needed, while files wait */
#define NEED_FREQ	19

/* A sample shows which files are needed. */
static void count_need(struct unwind_tables *tables, union perf_event *event)
{
	struct perf_sample sample = { };

	if (evlist__parse_sample(tables->sideband, event, &sample))
		return;

	unwind_tables__add_need(tables, &sample);
}

static int read_sideband(union perf_event *event, void *arg)
{
	struct unwind_tables *tables = arg;

	switch (event->header.type) {
	case PERF_RECORD_LOST:
		mutex_lock(&tables->lock);
		tables->lost += event->lost.lost;
		mutex_unlock(&tables->lock);
		break;
	case PERF_RECORD_SAMPLE:
		count_need(tables, event);
		break;
	default:
		unwind_tables__add_event(tables, event);
		break;
	}

	return 0;
}

static struct evsel *add_sideband_event(struct unwind_tables *tables, struct evlist *sideband,
					struct perf_event_attr *attr, struct cgroup *cgroup)
{
	struct evsel *evsel;

	if (evlist__add_sb_event(sideband, attr, read_sideband, tables))
		return NULL;

	evsel = evlist__last(sideband);
	evsel->ignore_missing_thread = true;
	evsel->cgrp = cgroup__get(cgroup);
	return evsel;
}

/*
 * Adds events for mappings from now on, for the same tasks. They are on all CPUs: a
 * task that is profiled on some CPUs may map files on other CPUs.
 */
static int add_sideband_events(struct unwind_tables *tables, struct evlist *sideband,
			       const struct evsel *owner, struct cgroup *cgroup)
{
	struct perf_event_attr attr = {
		.type			= PERF_TYPE_SOFTWARE,
		.config			= PERF_COUNT_SW_DUMMY,
		.size			= sizeof(attr),
		.sample_period		= 1,
		.exclude_kernel		= 1,
		.inherit		= owner->core.attr.inherit,
		.mmap			= 1,
		.mmap2			= 1,
		.sample_id_all		= 1,
		.watermark		= 1,
		.wakeup_watermark	= 1,
	};

	return add_sideband_event(tables, sideband, &attr, cgroup) ? 0 : -ENOMEM;
}

/* Adds samples that show which of many waiting files come first. */
static struct evsel *add_need(struct unwind_tables *tables, struct evlist *sideband,
			      const struct evsel *owner)
{
	struct perf_event_attr attr = {
		.type			= PERF_TYPE_SOFTWARE,
		.config			= PERF_COUNT_SW_CPU_CLOCK,
		.size			= sizeof(attr),
		.freq			= 1,
		.sample_freq		= NEED_FREQ,
		.sample_type		= PERF_SAMPLE_IP | PERF_SAMPLE_TID,
		.exclude_kernel		= 1,
		.sample_id_all		= 1,
		.watermark		= 1,
		.wakeup_watermark	= 1,
	};
	struct evsel *evsel = add_sideband_event(tables, sideband, &attr, owner->cgrp);

	/* Samples are needed only from the CPUs that are profiled. A service has all. */
	if (evsel && !tables->opts.serve) {
		evsel->core.own_cpus =
			perf_cpu_map__get(tables->evlist->core.user_requested_cpus);
	}
	return evsel;
}

static int try_sideband(struct unwind_tables *tables, struct evsel *owner, unsigned int pages,
			bool with_need)
{
	struct perf_cpu_map *cpus = tables->evlist->core.user_requested_cpus;
	bool is_for_cpus = !perf_cpu_map__has_any_cpu(cpus);
	struct evlist *evlist = tables->evlist;
	struct evlist *sideband = evlist__new();
	struct evsel *evsel = owner, *need = NULL;
	int err = -ENOMEM;

	if (!sideband)
		return err;

	if (unwind_tables__is_for_cgroups(evlist)) {
		for (; evsel; evsel = unwind_tables__next_cgroup(evlist, evsel)) {
			err = add_sideband_events(tables, sideband, owner, evsel->cgrp);
			if (err)
				goto error;
		}
	} else {
		err = add_sideband_events(tables, sideband, owner, NULL);
		if (err)
			goto error;
	}
	if (with_need)
		need = add_need(tables, sideband, owner);

	cpus = is_for_cpus ? perf_cpu_map__new_online_cpus() : perf_cpu_map__get(cpus);
	perf_evlist__set_maps(&sideband->core, cpus, evlist->core.threads);
	perf_cpu_map__put(cpus);

	tables->sideband = sideband;
	err = evlist__run_sb_thread(sideband, pages);
	if (err)
		goto error;

	/* Workers disable it. So they must not see it before it is open. */
	mutex_lock(&tables->lock);
	tables->need = need;
	tables->need_on = true;
	mutex_unlock(&tables->lock);
	return 0;

error:
	tables->sideband = NULL;
	evlist__delete(sideband);
	return err;
}

static void warn_no_sideband(int err, bool is_wanted)
{
	char buf[STRERR_BUFSIZE];

	if (!is_wanted && !verbose)
		return;

	pr_warning("WARNING: No unwind tables for files that are mapped later: %s%s\n",
		   str_error_r(-err, buf, sizeof(buf)),
		   err == -EPERM ? " (" BUFFER_LIMITS ")" : "");
}

void unwind_tables__open_sideband(struct unwind_tables *tables, struct evsel *owner)
{
	bool with_need = unwind_tables__is_system_wide(tables);
	unsigned int pages = SIDEBAND_PAGES;
	int err;

	do {
		err = try_sideband(tables, owner, pages, with_need);
		if (err && with_need) {
			with_need = false;
			err = try_sideband(tables, owner, pages, with_need);
		}
		pages /= SIDEBAND_LESS;
	} while (err == -EPERM && pages);

	if (err)
		warn_no_sideband(err, tables->opts.is_wanted);
}

/**
 * unwind_tables__reopen_sideband - Read the mappings of the CPUs that are online now
 * @tables:	From unwind_tables__start(), with &unwind_tables_opts.serve
 *
 * When a CPU goes offline, its events end. They do not begin again when it comes back, for
 * example after suspend. This misses mappings until it returns, so a scan should follow.
 *
 * Return: false if the events cannot be opened.
 */
bool unwind_tables__reopen_sideband(struct unwind_tables *tables)
{
	struct evsel *owner;
	int fd;

	mutex_lock(&tables->lock);
	tables->need = NULL;
	mutex_unlock(&tables->lock);
	evlist__stop_sb_thread(tables->sideband);
	tables->sideband = NULL;

	owner = unwind_tables__find_owner(tables->evlist, tables->opts.serve, &fd);
	if (owner)
		unwind_tables__open_sideband(tables, owner);

	return tables->sideband;
}
