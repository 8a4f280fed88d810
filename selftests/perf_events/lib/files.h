/* SPDX-License-Identifier: GPL-2.0 */
/* Files of proc, sysfs and tracefs, modules, and files beside the program. */
#ifndef SELFTESTS_PERF_EVENTS_FILES_H
#define SELFTESTS_PERF_EVENTS_FILES_H

#include <stdarg.h>
#include <stddef.h>
#include <linux/types.h>

#define SYSCTL_MAX_STACK	"/proc/sys/kernel/perf_event_max_stack"
#define SYSCTL_MAX_CONTEXTS	"/proc/sys/kernel/perf_event_max_contexts_per_stack"

/* Read a number, in any base that strtol() knows.  0, or -1. */
int read_long(const char *path, long *val);

/* Write a number.  0, or -1 with errno set. */
int write_long(const char *path, long val);

/* Write text to a file that is opened with @flags.  0, or -errno. */
int vwrite_text(const char *path, int flags, const char *fmt, va_list args);

/* The same without flags, with variable arguments.  0, or -errno. */
int write_text(const char *path, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The config of a tracepoint event such as "syscalls/sys_enter_getpgid", or -1. */
long tracepoint_id(const char *name);

/* The same; skips the test if there is no such tracepoint. */
#define TRACEPOINT_ID(name) ({						\
	long __id = tracepoint_id(name);				\
									\
	if (__id < 0)							\
		SKIP(return, "no tracepoint %s (CONFIG_FTRACE_SYSCALLS?)", \
		     name);						\
	__id;								\
})

/* The offset of an address in the file that is mapped there, for uprobes; or -1. */
long file_offset(const void *addr);

/* The type of a PMU, or -1. */
long pmu_type(const char *name);

/* The path of a file beside this program, good until the next call; "" if it is too long. */
const char *beside(const char *name);

/* Load a module from test_modules/.  NULL, or why that failed. */
const char *module_load(const char *name);

/* Unload a module.  0, or -1 if something still uses it after two seconds. */
int module_unload(const char *name);

/* Address of a kernel symbol, 0 if it is not known. */
__u64 kallsyms(const char *name);

/* Make a directory in /tmp, and store its name in @dir.  0, or -1. */
int make_dir(char *dir, size_t size);

/* The path of a file in @dir; valid until the next call. */
const char *file_path(const char *dir, const char *name);

/* Remove a directory and its contents, unless @dir is "".  0 on success. */
int remove_dir(const char *dir);

#endif /* SELFTESTS_PERF_EVENTS_FILES_H */
