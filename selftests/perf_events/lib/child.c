// SPDX-License-Identifier: GPL-2.0
/* Children of a test. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/wait.h>

#include "child.h"
#include "event.h"
#include "session.h"

/* Wait for a child, at most @seconds; kills it (and returns -1) if it hangs. */
int child_wait(pid_t pid, int *status, unsigned int seconds,
	       struct session *drain)
{
	__u64 end = now_nsec() + seconds * NSEC_PER_SEC;
	pid_t ret;

	while (now_nsec() < end) {
		ret = waitpid(pid, status, WNOHANG);
		if (ret == pid)
			return 0;
		if (ret < 0)
			return -1;
		if (drain)
			session_drain(drain);
		usleep(2000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, status, 0);
	fprintf(stderr, "# child %d did not end within %u s\n", pid, seconds);
	return -1;
}

int child_spawn(struct child *c, void (*fn)(void *), void *arg)
{
	int fds[2];
	char byte;

	if (pipe(fds))
		return -1;
	c->pid = fork();
	if (c->pid < 0)
		return -1;
	if (!c->pid) {
		close(fds[1]);
		/* The test may die and must not leave this behind. */
		if (read(fds[0], &byte, 1) != 1)
			_exit(1);
		close(fds[0]);
		fn(arg);
		_exit(0);
	}
	close(fds[0]);
	c->go = fds[1];
	return 0;
}

int child_go(struct child *c)
{
	int ret = write(c->go, "", 1) == 1 ? 0 : -1;

	close(c->go);
	return ret;
}

pid_t child_exec(const char *path, int *to, int *from)
{
	int in[2], out[2];
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -1;
	pid = fork();
	if (pid < 0)
		return -1;
	if (!pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(path, path, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	*to = in[1];
	*from = out[0];
	return pid;
}
