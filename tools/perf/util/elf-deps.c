// SPDX-License-Identifier: GPL-2.0
/*
 * Finds the files that a command will map: its program, the program's ELF
 * interpreter, and the libraries that both need
 *
 * perf asks the program's ELF interpreter. Those of glibc and musl support "--list".
 * Others print no library, or nothing that looks like one.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>

#include "util/elf-bounded.h"
#include "util/elf-deps.h"
#include "util/regular-file.h"
#include "util/sframe.h"

/* The kernel's limit for nested scripts, and more files than any program has */
#define MAX_SCRIPTS	4
#define MAX_FILES	4096

/* Limits for the time and for the output of the ELF interpreter */
#define LIST_SECONDS	2
#define MAX_LIST	SZ_1M
/* Size of both stacks of the two processes that start the ELF interpreter */
#define LIST_STACK	SZ_64K

/**
 * struct elf_deps - The search for files
 * @paths:	Paths of the files in the order in which they were found
 * @nr:		Number of paths
 */
struct elf_deps {
	char	**paths;
	size_t	nr;
};

static Elf *begin_elf(int fd)
{
	Elf *elf;

	return elf_bounded__begin(fd, &elf) ? NULL : elf;
}

/* Finds the program header of this type. */
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

/* Could the kernel use this section? It reads only sorted sections. */
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

	/* This reads only the header. */
	return !sframe_reader__init(&reader, &header, phdr->p_filesz, phdr->p_vaddr) &&
	       (reader.flags & SFRAME_FLAG_SORTED) && reader.num_fdes;
}

/**
 * elf_deps__has_sframe - Does a file have an SFrame section of its own?
 * @fd:	The file
 *
 * Return: true if the program headers contain an SFrame section, and the kernel
 *	   supports its header. A section without functions does not count.
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

/* Gets the path of the program's ELF interpreter, which must be a regular file. */
static bool read_interpreter(Elf *elf, int fd, char *path)
{
	GElf_Phdr phdr;
	int interp_fd;

	if (!find_phdr(elf, PT_INTERP, &phdr) || phdr.p_filesz >= PATH_MAX)
		return false;
	if (pread(fd, path, phdr.p_filesz, phdr.p_offset) != (ssize_t)phdr.p_filesz)
		return false;
	path[phdr.p_filesz] = '\0';
	if (path[0] != '/')
		return false;

	interp_fd = regular_file__open(path);
	if (interp_fd < 0)
		return false;
	close(interp_fd);

	return true;
}

/**
 * struct list_args - How to start the ELF interpreter
 * @interpreter: The program's ELF interpreter
 * @program:	The program
 * @out:	File descriptor for the output
 * @stack:	End of a stack
 */
struct list_args {
	const char	*interpreter;
	const char	*program;
	int		out;
	char		*stack;
};

/*
 * This runs in a child of a process with several threads, so it may only make system
 * calls. The interpreter does not need standard input and error.
 */
static int exec_list(void *arg)
{
	const struct list_args *args = arg;
	const char * const argv[] = { args->interpreter, "--list", args->program, NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	/* This process dies with its parent, which perf kills after a timeout. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0 &&
	    dup2(args->out, STDOUT_FILENO) >= 0)
		execv(args->interpreter, (char **)argv);
	_exit(127);
}

/*
 * SIGCHLD tells perf that the command has ended. A process that has executed a program
 * always sends SIGCHLD at its end, even if clone() was called without a signal. So perf
 * starts the interpreter by this process, which executes no program.
 */
static int run_list(void *arg)
{
	const struct list_args *args = arg;
	int status;
	pid_t pid;

	pid = clone(exec_list, args->stack, SIGCHLD, arg);
	close(args->out);
	if (pid > 0)
		waitpid(pid, &status, 0);
	_exit(0);
}

/* Returns the milliseconds until @end, or 0 if @end has passed. */
static int time_left(const struct timespec *end)
{
	struct timespec now;
	s64 left;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left = (end->tv_sec - now.tv_sec) * (s64)MSEC_PER_SEC +
	       (end->tv_nsec - now.tv_nsec) / (s64)NSEC_PER_MSEC;

	return left > 0 ? left : 0;
}

/* Reads the output within the time. The caller frees the text. NULL on error. */
static char *read_list(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	char *list = zalloc(MAX_LIST);
	struct timespec end;
	size_t size = 0;
	ssize_t len;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += LIST_SECONDS;

	while (list && size < MAX_LIST - 1 && poll(&pollfd, 1, time_left(&end)) > 0) {
		len = read(fd, list + size, MAX_LIST - 1 - size);
		if (len <= 0)
			break;
		size += len;
	}

	return list;
}

/*
 * Ask the program's ELF interpreter which files it will map. perf is about to run
 * the program as the same user with the same environment, so this needs no more
 * trust. The interpreter does not run the code of the libraries.
 */
static char *list_libraries(const char *interpreter, const char *program)
{
	struct list_args args = { .interpreter = interpreter, .program = program, };
	char *list, *stack = malloc(LIST_STACK);
	int out[2], status;
	pid_t pid;

	if (!stack || pipe2(out, O_CLOEXEC)) {
		free(stack);
		return NULL;
	}

	/* The child has its own copy of the memory, so this process can free it. */
	args.out = out[1];
	args.stack = stack + LIST_STACK / 2;
	pid = clone(run_list, stack + LIST_STACK, /*flags=*/0, &args);
	close(out[1]);
	free(stack);
	if (pid < 0) {
		close(out[0]);
		return NULL;
	}

	list = read_list(out[0]);
	close(out[0]);
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;

	return list;
}

/* A line is "NAME => PATH (ADDRESS)" or "PATH (ADDRESS)". */
static int add_list(struct elf_deps *deps, char *list)
{
	char *line, *save = NULL, *path, *end;
	int err;

	for (line = strtok_r(list, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		path = strstr(line, " => ");
		path = path ? path + strlen(" => ") : line + strspn(line, " \t");
		end = strstr(path, " (0x");
		if (!end)
			continue;
		*end = '\0';
		/* The vDSO has no path. */
		if (!strchr(path, '/'))
			continue;
		err = add_path(deps, path);
		if (err)
			return err;
	}

	return 0;
}

static int add_libraries(struct elf_deps *deps, const char *program)
{
	char interpreter[PATH_MAX], *list;
	int fd = regular_file__open(program), err = 0;
	bool found;
	Elf *elf;

	if (fd < 0)
		return 0;

	elf = begin_elf(fd);
	found = elf && read_interpreter(elf, fd, interpreter);
	elf_end(elf);
	close(fd);
	if (!found)
		return 0;

	/* The interpreter does not always list itself. */
	err = add_path(deps, interpreter);
	list = err ? NULL : list_libraries(interpreter, program);
	if (list)
		err = add_list(deps, list);
	free(list);

	return err;
}

/* Gets the program after #!, which the kernel runs for a script. */
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

/* Searches like execvp(). */
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
		fd = regular_file__open(path);
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
 * elf_deps__for_each - Find the files with code that a command will map
 * @command:	The command, as for execvp()
 * @fn:		Called once for each path; a value other than 0 stops
 * @arg:	For @fn
 *
 * The files are the program (for a script, the program that runs it), its ELF
 * interpreter, and the libraries that the interpreter lists. Libraries that the
 * program loads later are not found. Any thread may call this.
 *
 * Return: 0; the value of @fn that is not 0; -ENOENT - the command was not found;
 *	   -ELOOP - too many nested scripts; -E2BIG - too many files; -ENOMEM.
 */
int elf_deps__for_each(const char *command, elf_deps_fn fn, void *arg)
{
	struct elf_deps deps = { };
	size_t i;
	int err;

	err = add_program(&deps, command);
	if (!err)
		err = add_libraries(&deps, deps.paths[0]);

	for (i = 0; !err && i < deps.nr; i++)
		err = fn(deps.paths[i], arg);

	for (i = 0; i < deps.nr; i++)
		zfree(&deps.paths[i]);
	zfree(&deps.paths);

	return err;
}
