// SPDX-License-Identifier: GPL-2.0
/*
 * What a command is going to map: its program, the program's ELF interpreter, and
 * the libraries that these need
 *
 * This does by and large what glibc's dynamic linker does, without running it. It
 * may name a file too many, or miss one.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <internal/lib.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "util/debug.h"
#include "util/elf-bounded.h"
#include "util/elf-deps.h"
#include "util/sframe.h"

/* Not in older headers. */
#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME	0x6474e554
#endif

/* As many as the kernel follows, and more files than any program has. */
#define MAX_SCRIPTS	4
#define MAX_FILES	4096

/* Dynamic sections have some KiB. libelf would read one of any size. */
#define MAX_DYNAMIC	SZ_1M

#define LD_CACHE_PATH	"/etc/ld.so.cache"
#define LD_CACHE_MAGIC	"glibc-ld.so.cache1.1"
#define LD_CACHE_MAX	(64 << 20)
/* A library of glibc, 64-bit x86 */
#define LD_CACHE_FLAGS	0x303

/* As ldconfig writes it, after the magic. Strings are counted from the magic. */
struct ld_cache_header {
	char	magic[sizeof(LD_CACHE_MAGIC) - 1];
	u32	nr;
	u32	strings_size;
	u32	unused[5];
};

struct ld_cache_entry {
	u32	flags;
	u32	name;
	u32	path;
	u32	os_version;
	u64	hwcap;
};

/**
 * struct elf_deps - The search for libraries
 * @paths:	What was found, in this order
 * @nr:		How much
 * @cache:	/etc/ld.so.cache, or NULL
 * @cache_size:	Its size
 */
struct elf_deps {
	char	**paths;
	size_t	nr;
	char	*cache;
	size_t	cache_size;
};

static int open_program(const char *path)
{
	struct stat st;
	int fd;

	/* Opening a FIFO would wait for its other end. */
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}

	return fd;
}

static Elf *begin_elf(int fd)
{
	Elf *elf;

	return elf_bounded__begin(fd, &elf) ? NULL : elf;
}

/* Is there a program header of this type? */
static bool find_phdr(Elf *elf, u32 type, GElf_Phdr *phdr)
{
	size_t i, nr;

	if (elf_getphdrnum(elf, &nr))
		return false;

	for (i = 0; i < nr; i++) {
		if (gelf_getphdr(elf, i, phdr) && phdr->p_type == type)
			return true;
	}

	return false;
}

/* Could the kernel use what is there? It reads just sorted tables. */
static bool has_table(int fd, const GElf_Phdr *phdr)
{
	struct sframe_header header;
	struct sframe_reader reader;
	struct stat st;

	if (fstat(fd, &st) || phdr->p_offset > (u64)st.st_size ||
	    phdr->p_filesz > (u64)st.st_size - phdr->p_offset ||
	    phdr->p_filesz < sizeof(header) ||
	    pread(fd, &header, sizeof(header), phdr->p_offset) != sizeof(header))
		return false;

	/* This looks at no more than the header. */
	return !sframe_reader__init(&reader, &header, phdr->p_filesz, phdr->p_vaddr) &&
	       (reader.flags & SFRAME_FLAG_SORTED) && reader.num_fdes;
}

/**
 * elf_deps__has_sframe - Does a file have an SFrame section of its own?
 * @fd:	The file
 *
 * Return: true if the kernel would find one by the program headers, and its header is
 *	   one of those that the kernel knows. Sections without functions do not count.
 */
bool elf_deps__has_sframe(int fd)
{
	Elf *elf = begin_elf(fd);
	GElf_Phdr phdr;
	bool ret;

	ret = elf && find_phdr(elf, PT_GNU_SFRAME, &phdr) && has_table(fd, &phdr);
	elf_end(elf);

	return ret;
}

static int add_path(struct elf_deps *deps, const char *path)
{
	char **paths;
	size_t i;

	for (i = 0; i < deps->nr; i++) {
		if (!strcmp(deps->paths[i], path))
			return 0;
	}
	if (deps->nr == MAX_FILES)
		return -E2BIG;

	paths = realloc(deps->paths, (deps->nr + 1) * sizeof(*paths));
	if (!paths)
		return -ENOMEM;
	deps->paths = paths;
	paths[deps->nr] = strdup(path);
	if (!paths[deps->nr])
		return -ENOMEM;
	deps->nr++;

	return 0;
}

static bool is_elf(const char *path)
{
	int fd = open_program(path);
	Elf *elf;

	if (fd < 0)
		return false;

	elf = begin_elf(fd);
	elf_end(elf);
	close(fd);

	return elf;
}

static void read_cache(struct elf_deps *deps)
{
	int fd = open_program(LD_CACHE_PATH);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) || st.st_size > LD_CACHE_MAX)
		goto out;

	/* Strings end, whatever the file says. */
	deps->cache = zalloc(st.st_size + 1);
	if (deps->cache && readn(fd, deps->cache, st.st_size) == st.st_size)
		deps->cache_size = st.st_size;
out:
	close(fd);
}

/* The path of a library that ldconfig has found, or NULL */
static const char *look_into_cache(const struct elf_deps *deps, const char *name)
{
	const struct ld_cache_entry *entry;
	const struct ld_cache_header *header;
	const char *start, *path;
	size_t size, i;

	if (!deps->cache_size)
		return NULL;

	/* An older format may come before. */
	start = memmem(deps->cache, deps->cache_size, LD_CACHE_MAGIC,
		       sizeof(header->magic));
	if (!start)
		return NULL;
	size = deps->cache + deps->cache_size - start;
	header = (const void *)start;
	if (size < sizeof(*header) || header->nr > (size - sizeof(*header)) / sizeof(*entry))
		return NULL;

	entry = (const void *)(header + 1);
	for (i = 0; i < header->nr; i++, entry++) {
		if (entry->flags != LD_CACHE_FLAGS || entry->name >= size || entry->path >= size)
			continue;
		path = start + entry->path;
		if (!strcmp(start + entry->name, name) && is_elf(path))
			return path;
	}

	return NULL;
}

/* Appends the directory of the file for $ORIGIN. Other variables are not known. */
static bool expand_dir(const char *dir, size_t len, const char *origin, char *buf, size_t size)
{
	static const char * const vars[] = { "$ORIGIN", "${ORIGIN}" };
	const char *slash = strrchr(origin, '/');
	size_t i, var_len;
	int ret;

	for (i = 0; i < ARRAY_SIZE(vars); i++) {
		var_len = strlen(vars[i]);
		if (len >= var_len && !strncmp(dir, vars[i], var_len)) {
			ret = snprintf(buf, size, "%.*s%.*s", slash ? (int)(slash - origin) : 1,
				       slash ? origin : ".", (int)(len - var_len), dir + var_len);
			return ret >= 0 && (size_t)ret < size;
		}
	}

	ret = snprintf(buf, size, "%.*s", (int)len, len ? dir : "");
	return ret > 0 && (size_t)ret < size;
}

/* 1: it was in one of these directories; 0: it was not */
static int search_dirs(struct elf_deps *deps, const char *dirs, const char *origin,
		       const char *name)
{
	char dir[PATH_MAX], path[PATH_MAX];
	size_t len;
	int ret;

	for (; dirs && *dirs; dirs += len + !!dirs[len]) {
		len = strcspn(dirs, ":");
		if (!expand_dir(dirs, len, origin, dir, sizeof(dir)))
			continue;
		ret = snprintf(path, sizeof(path), "%s/%s", dir, name);
		if (ret < 0 || (size_t)ret >= sizeof(path) || !is_elf(path))
			continue;
		return add_path(deps, path) ?: 1;
	}

	return 0;
}

static int find_library(struct elf_deps *deps, const char *origin, const char *rpath,
			const char *runpath, const char *name)
{
	const char *path;
	int ret = 0;

	if (strchr(name, '/'))
		return add_path(deps, name);

	if (!runpath)
		ret = search_dirs(deps, rpath, origin, name);
	if (!ret)
		ret = search_dirs(deps, getenv("LD_LIBRARY_PATH"), origin, name);
	if (!ret)
		ret = search_dirs(deps, runpath, origin, name);
	if (ret)
		return ret < 0 ? ret : 0;

	path = look_into_cache(deps, name);
	if (path)
		return add_path(deps, path);

	ret = search_dirs(deps, "/lib64:/usr/lib64:/lib:/usr/lib", origin, name);
	if (!ret)
		pr_debug("%s needs %s, which was not found\n", origin, name);

	return ret < 0 ? ret : 0;
}

/* A string that ends within @size bytes, or NULL. Just this one is read. */
static const char *read_string(int fd, const GElf_Shdr *strings, u64 off, char *buf, size_t size)
{
	ssize_t len;

	if (off >= strings->sh_size)
		return NULL;

	size = min((u64)size, strings->sh_size - off);
	len = pread(fd, buf, size, strings->sh_offset + off);

	return len > 0 && memchr(buf, '\0', len) ? buf : NULL;
}

static int add_needed(struct elf_deps *deps, Elf *elf, int fd, const char *path)
{
	char name[PATH_MAX], rpath_buf[PATH_MAX], runpath_buf[PATH_MAX];
	const char *rpath = NULL, *runpath = NULL;
	GElf_Shdr shdr, strings;
	Elf_Data *data = NULL;
	Elf_Scn *scn = NULL;
	GElf_Dyn dyn;
	int i, err;

	while ((scn = elf_nextscn(elf, scn))) {
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_DYNAMIC) {
			if (shdr.sh_size <= MAX_DYNAMIC &&
			    gelf_getshdr(elf_getscn(elf, shdr.sh_link), &strings))
				data = elf_getdata(scn, NULL);
			break;
		}
	}

	for (i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		if (dyn.d_tag == DT_RPATH)
			rpath = read_string(fd, &strings, dyn.d_un.d_val, rpath_buf,
					    sizeof(rpath_buf));
		else if (dyn.d_tag == DT_RUNPATH)
			runpath = read_string(fd, &strings, dyn.d_un.d_val, runpath_buf,
					      sizeof(runpath_buf));
	}

	for (i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		if (dyn.d_tag != DT_NEEDED ||
		    !read_string(fd, &strings, dyn.d_un.d_val, name, sizeof(name)))
			continue;
		err = find_library(deps, path, rpath, runpath, name);
		if (err)
			return err;
	}

	return 0;
}

static int add_interpreter(struct elf_deps *deps, Elf *elf, int fd)
{
	char path[PATH_MAX];
	GElf_Phdr phdr;

	if (!find_phdr(elf, PT_INTERP, &phdr) || phdr.p_filesz >= sizeof(path))
		return 0;
	if (pread(fd, path, phdr.p_filesz, phdr.p_offset) != (ssize_t)phdr.p_filesz)
		return 0;
	path[phdr.p_filesz] = '\0';

	return add_path(deps, path);
}

/* The program that the kernel runs for a script: what follows #! */
static bool read_script(int fd, char *path, size_t size)
{
	char line[256], *start;
	ssize_t len;
	int ret;

	len = pread(fd, line, sizeof(line) - 1, 0);
	if (len < 2 || line[0] != '#' || line[1] != '!')
		return false;
	line[len] = '\0';

	start = line + 2;
	start += strspn(start, " \t");
	start[strcspn(start, " \t\n")] = '\0';
	if (!*start)
		return false;
	ret = snprintf(path, size, "%s", start);

	return ret >= 0 && (size_t)ret < size;
}

/* As execvp() does it */
static bool find_command(const char *command, char *path, size_t size)
{
	const char *dirs = getenv("PATH") ?: "/bin:/usr/bin";
	size_t len;
	int ret;

	if (strchr(command, '/')) {
		ret = snprintf(path, size, "%s", command);
		return ret >= 0 && (size_t)ret < size;
	}

	for (; *dirs; dirs += len + !!dirs[len]) {
		len = strcspn(dirs, ":");
		ret = snprintf(path, size, "%.*s/%s", len ? (int)len : 1, len ? dirs : ".",
			       command);
		if (ret >= 0 && (size_t)ret < size && !access(path, X_OK))
			return true;
	}

	return false;
}

static int add_program(struct elf_deps *deps, const char *command)
{
	char path[PATH_MAX];
	bool is_script;
	int i, fd;

	if (!find_command(command, path, sizeof(path)))
		return -ENOENT;

	for (i = 0; i <= MAX_SCRIPTS; i++) {
		fd = open_program(path);
		if (fd < 0)
			return -ENOENT;
		is_script = read_script(fd, path, sizeof(path));
		close(fd);
		if (!is_script)
			return add_path(deps, path);
	}

	return -ELOOP;
}

/**
 * elf_deps__for_each - Name the files with code that a command will map
 * @command:	The command, as execvp() takes it
 * @fn:		Gets each path once. What it returns ends the search unless it is 0.
 * @arg:	For @fn
 *
 * These are the program, or that of a script, its interpreter, and the libraries
 * that these need. Libraries that are loaded otherwise are not among them.
 *
 * Return: 0; what @fn returned; -ENOENT - the command was not found; -ELOOP, -E2BIG,
 *	   -ENOMEM.
 */
int elf_deps__for_each(const char *command, elf_deps_fn fn, void *arg)
{
	struct elf_deps deps = { };
	size_t i;
	Elf *elf;
	int fd, err;

	read_cache(&deps);
	err = add_program(&deps, command);

	/* What is found is appended. */
	for (i = 0; !err && i < deps.nr; i++) {
		fd = open_program(deps.paths[i]);
		if (fd < 0)
			continue;
		elf = begin_elf(fd);
		if (elf) {
			err = add_interpreter(&deps, elf, fd);
			if (!err)
				err = add_needed(&deps, elf, fd, deps.paths[i]);
			if (!err)
				err = fn(deps.paths[i], arg);
		}
		elf_end(elf);
		close(fd);
	}

	for (i = 0; i < deps.nr; i++)
		zfree(&deps.paths[i]);
	zfree(&deps.paths);
	zfree(&deps.cache);

	return err;
}
