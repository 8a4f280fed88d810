// SPDX-License-Identifier: GPL-2.0
/*
 * The first program of an initramfs: loads /modules in the order of their names, mounts the
 * host's root as virtme-ng would have the kernel do it, and becomes the init of the command
 * line. The environment is that of the kernel: virtme-ng's variables are in it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Without root= the kernel mounts this one, which is virtme-ng's tag of the host's root. */
#define ROOT "/dev/root"

/* What it says is seen on the console. */
static void die(const char *what)
{
	perror(what);
	sleep(5);
	exit(1);
}

/* The value of a parameter of the command line, or NULL */
static char *param(char *line, const char *name)
{
	size_t len = strlen(name);
	char *copy = strdup(line), *word, *found = NULL;

	for (word = strtok(copy, " \n"); word; word = strtok(NULL, " \n")) {
		if (!strncmp(word, name, len) && word[len] == '=')
			found = word + len + 1;
	}
	return found;
}

int main(int argc, char **argv)
{
	static char line[8192];
	struct dirent **names;
	char *init, *flags, path[512];
	int n, i, fd;

	if (mount("proc", "/proc", "proc", 0, NULL))
		die("/proc");
	fd = open("/proc/cmdline", O_RDONLY);
	if (fd < 0 || read(fd, line, sizeof(line) - 1) <= 0)
		die("/proc/cmdline");
	close(fd);

	n = scandir("/modules", &names, NULL, alphasort);
	for (i = 0; i < n; i++) {
		if (names[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
			perror(path);
		close(fd);
	}

	init = param(line, "init");
	flags = param(line, "rootflags");
	if (!init || !flags)
		die("init= or rootflags=");
	/* The device appears a moment after its driver. */
	for (i = 0; i < 100; i++) {
		if (!mount(ROOT, "/new", "9p", MS_RDONLY, flags))
			break;
		usleep(100000);
	}
	if (i == 100)
		die("the root");
	umount("/proc");
	mount("devtmpfs", "/new/dev", "devtmpfs", 0, NULL);
	if (chdir("/new") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		die("changing the root");
	argv[0] = init;
	execv(init, argv);
	die(init);
}
