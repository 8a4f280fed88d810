// SPDX-License-Identifier: GPL-2.0
/* Files of proc, sysfs and tracefs, modules, and files beside the program. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/syscall.h>

#include "../../kselftest.h"
#include "files.h"

int read_long(const char *path, long *val)
{
	char buf[64];
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	buf[n] = '\0';
	*val = strtol(buf, NULL, 0);
	return 0;
}

int vwrite_text(const char *path, int flags, const char *fmt, va_list args)
{
	char text[PATH_MAX + 64];
	int fd, len, ret = 0;
	ssize_t done;

	len = vsnprintf(text, sizeof(text), fmt, args);
	if (len >= (int)sizeof(text))
		return -E2BIG;
	fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	if (fd < 0)
		return -errno;
	done = write(fd, text, len);
	if (done != len)
		ret = done < 0 ? -errno : -EIO;
	close(fd);
	return ret;
}

int write_text(const char *path, const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = vwrite_text(path, 0, fmt, args);
	va_end(args);
	return ret;
}

int write_long(const char *path, long val)
{
	return write_text(path, "%ld\n", val) ? -1 : 0;
}

/* The config of a tracepoint event such as "syscalls/sys_enter_getpgid". */
long tracepoint_id(const char *name)
{
	static const char * const dirs[] = {
		"/sys/kernel/tracing", "/sys/kernel/debug/tracing",
	};
	unsigned int i, again;
	char path[256];
	long id;

	for (again = 0; again < 2; again++) {
		for (i = 0; i < ARRAY_SIZE(dirs); i++) {
			snprintf(path, sizeof(path), "%s/events/%s/id",
				 dirs[i], name);
			if (!read_long(path, &id))
				return id;
		}
		if (mount("tracefs", dirs[0], "tracefs", 0, NULL))
			break;
	}
	return -1;
}

/* The offset of an address in the file that is mapped there, for uprobes; or -1. */
long file_offset(const void *addr)
{
	unsigned long long start, end, pgoff;
	char line[PATH_MAX + 128];
	long off = -1;
	FILE *f;

	f = fopen("/proc/self/maps", "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx %*s %llx", &start, &end,
			   &pgoff) == 3 &&
		    (__u64)addr >= start && (__u64)addr < end) {
			off = (__u64)addr - start + pgoff;
			break;
		}
	}
	fclose(f);
	return off;
}

long pmu_type(const char *name)
{
	char path[256];
	long type;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type",
		 name);
	return read_long(path, &type) ? -1 : type;
}

static bool path_beside(char *path, size_t size, const char *name)
{
	ssize_t len;

	len = readlink("/proc/self/exe", path, size - 1);
	while (len > 0 && path[len - 1] != '/')
		len--;
	return len > 0 && snprintf(path + len, size - len, "%s", name) < (int)(size - len);
}

const char *beside(const char *name)
{
	static char path[PATH_MAX];

	return path_beside(path, sizeof(path), name) ? path : "";
}

/*
 * Load a module from test_modules/ in the directory of the test. Returns NULL, or the
 * reason why that failed.
 */
const char *module_load(const char *name)
{
	char path[PATH_MAX + 64], file[NAME_MAX];
	static char why[PATH_MAX + 128];
	int fd;

	snprintf(path, sizeof(path), "/sys/module/%s", name);
	if (!access(path, F_OK))
		return NULL;
	snprintf(file, sizeof(file), "test_modules/%s.ko", name);
	if (!path_beside(path, sizeof(path), file))
		return "the path of the modules is too long";
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		snprintf(why, sizeof(why), "%s: %s (built with KDIR?)", path,
			 strerror(errno));
		return why;
	}
	if (syscall(__NR_finit_module, fd, "", 0)) {
		snprintf(why, sizeof(why), "cannot load %s.ko: %s", name,
			 strerror(errno));
		close(fd);
		return why;
	}
	close(fd);
	return NULL;
}

/* Events keep the module busy until they are freed: retry for 2 s. */
int module_unload(const char *name)
{
	unsigned int i;

	for (i = 0; i < 200; i++) {
		if (!syscall(__NR_delete_module, name, O_NONBLOCK))
			return 0;
		if (errno == ENOENT)
			return 0;
		usleep(10000);
	}
	return -1;
}

/* Address of a kernel symbol, 0 if it is not known. */
__u64 kallsyms(const char *name)
{
	char line[512], sym[256], type;
	unsigned long long addr;
	__u64 found = 0;
	FILE *f;

	f = fopen("/proc/kallsyms", "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %255s", &addr, &type, sym) == 3 &&
		    !strcmp(sym, name)) {
			found = addr;
			break;
		}
	}
	fclose(f);
	return found;
}

int make_dir(char *dir, size_t size)
{
	snprintf(dir, size, "/tmp/perf_events.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

const char *file_path(const char *dir, const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

int remove_dir(const char *dir)
{
	char cmd[128];

	if (!dir[0])
		return 0;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}
