// SPDX-License-Identifier: GPL-2.0
/*
 * perf sframe serve: give the kernel unwind tables for all files that tasks map, as long as
 * this runs
 *
 * It does so for tracers that cannot make tables themselves, such as BPF programs and
 * ftrace. It stores tables in the cache of the system, from which sessions of any user
 * take them.
 *
 * The state is in a directory in /run that only root may write to. The lock there keeps a
 * second service away. If this is killed, the kernel drops the tables, and the lock is
 * free.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <api/fs/fs.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <subcmd/parse-options.h>

#include "builtin.h"
#include "util/cache.h"
#include "util/debug.h"
#include "util/evlist.h"
#include "util/sframe-cache.h"
#include "util/target.h"
#include "util/unwind-tables.h"
#include "util/util.h"

#define SERVE_DIR		"/run/perf-sframe"
#define SERVE_LOCK		"lock"
#define SERVE_STATUS		"status"
#define SERVE_STATUS_NEW	"status.new"

/* Exit status of --status if no service runs, as that of systemctl and init scripts */
#define SERVE_NOT_RUNNING	3

/* How often the status is written, the cache is limited, and events are opened that failed */
#define SERVE_STATUS_SECONDS	1
#define SERVE_LIMIT_SECONDS	300
#define SERVE_REOPEN_SECONDS	10

/* The kernel holds 1 GiB for an event. Half of it is for tables of files that are gone. */
#define SERVE_MAX_SIZE		(512ULL << 20)

static volatile sig_atomic_t done;

static void handle_signal(int sig __maybe_unused)
{
	done = 1;
}

static bool is_done(void)
{
	return done;
}

/* The time at which a process has started, in clock ticks since boot: field 22 of stat */
static u64 start_of(pid_t pid)
{
	char path[PATH_MAX], buf[1024], *pos;
	unsigned int field;
	size_t len;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d/stat", procfs__mountpoint(), pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	len = fread(buf, 1, sizeof(buf) - 1, file);
	fclose(file);
	buf[len] = '\0';

	/* The name of the program, in parentheses, may have any character. */
	pos = strrchr(buf, ')');
	for (field = 3; pos && field <= 22; field++)
		pos = strchr(pos + 1, ' ');
	return pos ? strtoull(pos, NULL, 10) : 0;
}

static int open_dir(const char *path, bool create)
{
	struct stat st;
	int fd;

	if (create && mkdir(path, 0755) && errno != EEXIST)
		return -errno;

	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	/* Others could say what they like there. */
	if (fstat(fd, &st) || (st.st_uid && st.st_uid != geteuid()) || st.st_mode & 0022) {
		close(fd);
		return -EPERM;
	}

	return fd;
}

static void print_state(FILE *file, const struct unwind_tables_state *state)
{
	fprintf(file, "tables: %zu\n", state->tables);
	fprintf(file, "bytes: %" PRIu64 "\n", state->size);
	fprintf(file, "from the cache: %zu\n", state->cached);
	fprintf(file, "files that wait: %zu\n", state->waiting);
	fprintf(file, "files with a section: %zu\n", state->own);
	fprintf(file, "files without call frame information: %zu\n", state->none);
	fprintf(file, "files that failed: %zu\n", state->failed);
	fprintf(file, "without room: %zu\n", state->no_room);
	fprintf(file, "dropped: %zu\n", state->dropped);
	fprintf(file, "lost mappings: %" PRIu64 "\n", state->lost);
	fprintf(file, "scans: %u\n", state->scans);
	fprintf(file, "CPU seconds: %.1f\n", state->cpu_seconds);
}

/* Readers see the old status or the new one. */
static void write_status(int dir, const struct unwind_tables_state *state)
{
	int fd = openat(dir, SERVE_STATUS_NEW,
			O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file) {
		pr_debug("Cannot write the status: %m\n");
		if (fd >= 0)
			close(fd);
		return;
	}

	fprintf(file, "pid: %d\n", getpid());
	fprintf(file, "start: %" PRIu64 "\n", start_of(getpid()));
	print_state(file, state);
	if (fclose(file) || renameat(dir, SERVE_STATUS_NEW, dir, SERVE_STATUS))
		pr_debug("Cannot write the status: %m\n");
}

/* Does the process exist, but not for this user in procfs (hidepid)? */
static bool is_hidden(pid_t pid)
{
	return !start_of(pid) && pid > 0 && kill(pid, 0) && errno == EPERM;
}

static int show_status(const char *path)
{
	int dir = open_dir(path, /*create=*/false), fd = -1, pid = 0;
	char line[128], buf[STRERR_BUFSIZE];
	FILE *file = NULL;
	u64 start = 0;

	if (dir < 0 && dir != -ENOENT) {
		pr_err("%s: %s\n", path, str_error_r(-dir, buf, sizeof(buf)));
		return -1;
	}
	if (dir >= 0) {
		fd = openat(dir, SERVE_STATUS, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		close(dir);
	}
	if (fd >= 0)
		file = fdopen(fd, "r");
	/*
	 * It is from a service that was killed, if the process is another one now. If procfs
	 * hides the process from this user, that is not known.
	 */
	if (!file || fscanf(file, "pid: %d\nstart: %" SCNu64 "\n", &pid, &start) != 2 ||
	    !start || (start_of(pid) != start && !is_hidden(pid))) {
		printf("not running\n");
		if (file)
			fclose(file);
		return SERVE_NOT_RUNNING;
	}

	printf("running: pid %d\n", pid);
	while (fgets(line, sizeof(line), file))
		fputs(line, stdout);
	fclose(file);
	return 0;
}

/* An event that never samples: it owns the tables. */
static struct evlist *open_owner(void)
{
	struct target target = { .system_wide = true, .uid = UINT_MAX };
	struct evlist *evlist = evlist__new();
	char buf[STRERR_BUFSIZE];
	int err;

	if (!evlist || evlist__add_dummy(evlist) || evlist__create_maps(evlist, &target)) {
		pr_err("Not enough memory\n");
		goto error;
	}

	err = evlist__open(evlist);
	if (!err)
		return evlist;

	pr_err("Cannot open events of all CPUs: %s\n", str_error_r(-err, buf, sizeof(buf)));
error:
	evlist__delete(evlist);
	return NULL;
}

static const char *why_no_tables(int err, char *buf, size_t size)
{
	switch (err) {
	case -ENOTTY:
		return "the kernel does not support unwind tables";
	case -EACCES:
	case -EPERM:
		return "tables for all tasks require CAP_PERFMON";
	case -EOPNOTSUPP:
		return "perf was built without libdw";
	default:
		return str_error_r(-err, buf, size);
	}
}

/**
 * struct cpus_seen - What the last look at the CPUs has shown
 * @online:	The CPUs that are online
 * @asleep:	How long the machine has slept, in seconds
 */
struct cpus_seen {
	struct perf_cpu_map	*online;
	double			asleep;
};

/* Has a CPU come or gone since the last call? Suspend takes all but one offline. */
static bool have_cpus_changed(struct cpus_seen *seen)
{
	struct perf_cpu_map *online = perf_cpu_map__new_online_cpus();
	struct timespec boot = { }, mono = { };
	double asleep;
	bool changed;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_MONOTONIC, &mono);
	asleep = boot.tv_sec - mono.tv_sec + (boot.tv_nsec - mono.tv_nsec) / (double)NSEC_PER_SEC;

	changed = !perf_cpu_map__equal(online, seen->online) || asleep > seen->asleep + 0.5;
	perf_cpu_map__put(seen->online);
	*seen = (struct cpus_seen) { .online = online, .asleep = asleep };

	return changed;
}

/*
 * Serve until a signal comes, or until the tables must be given to the kernel anew. Returns
 * 1 in the latter case, or a negative error.
 */
static int serve(int dir, const struct unwind_tables_opts *opts, unsigned int scan_seconds,
		 unsigned int idle_scans)
{
	struct unwind_tables_state state;
	struct unwind_tables *tables;
	struct evlist *evlist;
	char buf[STRERR_BUFSIZE];
	unsigned int seconds;
	struct cpus_seen cpus = { };
	bool renew = false, reopen = false, rescan = false;
	int err;

	have_cpus_changed(&cpus);
	evlist = open_owner();
	if (!evlist) {
		perf_cpu_map__put(cpus.online);
		return -1;
	}

	err = unwind_tables__start(&tables, evlist, opts);
	if (err) {
		pr_err("%s\n", why_no_tables(err, buf, sizeof(buf)));
		evlist__delete(evlist);
		perf_cpu_map__put(cpus.online);
		return -1;
	}

	for (seconds = 1; !done && !renew; seconds++) {
		unwind_tables__get_state(tables, &state);
		write_status(dir, &state);
		sleep(SERVE_STATUS_SECONDS);
		if (have_cpus_changed(&cpus) || (reopen && seconds % SERVE_REOPEN_SECONDS == 0)) {
			reopen = !unwind_tables__reopen_sideband(tables);
			rescan = true;
		}
		/* A scan that is not over may have read the task already that has mapped a file. */
		if (rescan)
			rescan = !unwind_tables__look_around(tables, idle_scans);
		if (seconds % SERVE_LIMIT_SECONDS == 0)
			sframe_cache__limit();
		if (seconds % scan_seconds)
			continue;
		unwind_tables__look_around(tables, idle_scans);
		/* A new event does not have the tables of files that are gone. */
		renew = unwind_tables__is_full(tables);
	}

	unwind_tables__stop(tables);
	perf_cpu_map__put(cpus.online);
	/* The kernel drops the tables with the event. */
	evlist__close(evlist);
	unwind_tables__get_state(tables, &state);
	if (verbose > 0)
		print_state(stdout, &state);
	unwind_tables__delete(tables);
	evlist__delete(evlist);
	return !done;
}

int cmd_sframe_serve(int argc, const char **argv)
{
	struct unwind_tables_opts opts = {
		.is_done	= is_done,
		.is_wanted	= true,
		.scan		= true,
		.cache		= SFRAME_CACHE_USE,
		.serve		= true,
		.cpu_percent	= 10,
	};
	const char *size = "256M", *run_dir = SERVE_DIR, *cache_dir = NULL;
	unsigned int idle_minutes = 60, scan_seconds = 60;
	char buf[STRERR_BUFSIZE];
	bool status = false;
	int dir, lock, ret;
	const struct option options[] = {
	OPT_BOOLEAN(0, "status", &status, "say what a running service does"),
	OPT_UINTEGER(0, "cpu", &opts.cpu_percent,
		     "share of one CPU for making tables, in percent (default: 10)"),
	OPT_STRING(0, "max-size", &size, "size[BKMG]",
		   "size of the tables of mapped files (default: 256M)"),
	OPT_UINTEGER(0, "idle", &idle_minutes,
		     "tables of files not mapped for so many minutes do not count (default: 60)"),
	OPT_STRING(0, "cache", &cache_dir, "dir",
		   "directory of the cache (default: that of the system)"),
	OPT_UINTEGER(0, "scan", &scan_seconds,
		     "look at the mappings of all tasks every so many seconds (default: 60)"),
	OPT_STRING(0, "run-dir", &run_dir, "dir",
		   "directory of the status (default: " SERVE_DIR ")"),
	OPT_INCR('v', "verbose", &verbose, "print what becomes of each file"),
	OPT_END()
	};
	static const char * const usage[] = {
		"perf sframe serve [<options>]",
		"perf sframe serve --status",
		NULL
	};

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc)
		usage_with_options(usage, options);

	if (status)
		return show_status(run_dir);

	if (sframe_cache__parse_size(size, &opts.max_size)) {
		pr_err("--max-size takes a number and one of B, K, M, G\n");
		return -1;
	}
	if (opts.max_size > SERVE_MAX_SIZE) {
		pr_err("--max-size is at most 512M\n");
		return -1;
	}
	if (!opts.cpu_percent || opts.cpu_percent > 400) {
		pr_err("--cpu takes a number from 1 to 400\n");
		return -1;
	}

	if (!scan_seconds || scan_seconds > 3600 || idle_minutes > 60 * 24 * 365) {
		pr_err("--scan takes 1 to 3600 seconds, --idle up to a year\n");
		return -1;
	}

	dir = open_dir(run_dir, /*create=*/true);
	if (dir < 0) {
		pr_err("%s: %s\n", run_dir, str_error_r(-dir, buf, sizeof(buf)));
		return -1;
	}
	/* Nobody else can open it, so nobody else can hold the lock. */
	lock = openat(dir, SERVE_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB)) {
		if (lock >= 0 && errno == EWOULDBLOCK)
			pr_err("A service is running already\n");
		else
			pr_err("%s/" SERVE_LOCK ": %s\n", run_dir,
			       str_error_r(errno, buf, sizeof(buf)));
		if (lock >= 0)
			close(lock);
		close(dir);
		return -1;
	}

	set_buildid_dir(cache_dir ?: sframe_cache_system);
	signal(SIGINT, handle_signal);
	signal(SIGTERM, handle_signal);
	signal(SIGHUP, SIG_IGN);

	do {
		ret = serve(dir, &opts, scan_seconds, idle_minutes * 60 / scan_seconds);
	} while (ret > 0);
	unlinkat(dir, SERVE_STATUS, 0);

	close(lock);
	close(dir);
	return ret;
}
