// SPDX-License-Identifier: GPL-2.0
/*
 * A FUSE server for one file, which counts the requests for each page and can delay its
 * answers. It uses /dev/fuse directly: no library is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "fuse_server.h"

#define FUSE_SERVER_FILE	"file"
/* Not the root's. */
#define FUSE_SERVER_NODE	2
#define FUSE_SERVER_VALID	1000000
/* Larger than the kernel requires for the buffer of requests. */
#define FUSE_SERVER_BUF		(1 << 17)
/* Longest delay of an answer. The server always answers, so that nothing hangs. */
#define FUSE_SERVER_SECONDS	2
#define FUSE_SERVER_POLL_USEC	1000

static void fuse_reply(int fd, __u64 unique, int error, const void *data,
		       size_t size)
{
	static char buf[FUSE_SERVER_BUF];
	struct fuse_out_header *out = (void *)buf;

	*out = (struct fuse_out_header) {
		.len	= sizeof(*out) + (error ? 0 : size),
		.error	= error,
		.unique	= unique,
	};
	if (!error)
		memcpy(out + 1, data, size);
	/* The request may be gone. */
	if (write(fd, buf, out->len) < 0 && errno != ENOENT)
		perror("# FUSE server");
}

static struct fuse_attr fuse_server_attr(const struct fuse_server *s, __u64 node)
{
	return (struct fuse_attr) {
		.ino	= node,
		.size	= node == FUSE_SERVER_NODE ? s->size : 0,
		.mode	= node == FUSE_SERVER_NODE ? S_IFREG | 0755 : S_IFDIR | 0755,
		.nlink	= 1,
		.blksize = FUSE_SERVER_PAGE,
	};
}

static void fuse_server_read(const struct fuse_server *s, int fd, __u64 unique,
			     const struct fuse_read_in *in)
{
	size_t page = in->offset / FUSE_SERVER_PAGE, size = 0;
	time_t end = time(NULL) + FUSE_SERVER_SECONDS;

	if (in->offset < s->size)
		size = in->size < s->size - in->offset ? in->size : s->size - in->offset;
	if (page < FUSE_SERVER_PAGES) {
		__atomic_fetch_add(&s->shared->asked[page], 1, __ATOMIC_RELAXED);
		while (time(NULL) < end &&
		       __atomic_load_n(&s->shared->withhold[page], __ATOMIC_RELAXED))
			usleep(FUSE_SERVER_POLL_USEC);
	}
	fuse_reply(fd, unique, 0, s->bytes + in->offset, size);
}

static void fuse_server_run(const struct fuse_server *s, int fd)
{
	static char buf[FUSE_SERVER_BUF];
	const struct fuse_in_header *in = (void *)buf;
	const char *arg = (void *)(in + 1);
	/* One page at a time, and the reader waits for it. */
	const struct fuse_init_out init = {
		.major		= FUSE_KERNEL_VERSION,
		.minor		= FUSE_KERNEL_MINOR_VERSION,
		.max_readahead	= 0,
		.max_write	= FUSE_SERVER_PAGE,
	};
	const struct fuse_open_out opened = { .open_flags = FOPEN_KEEP_CACHE };
	struct fuse_entry_out entry = {
		.nodeid		= FUSE_SERVER_NODE,
		.entry_valid	= FUSE_SERVER_VALID,
		.attr_valid	= FUSE_SERVER_VALID,
		.attr		= fuse_server_attr(s, FUSE_SERVER_NODE),
	};
	struct fuse_attr_out attr = { .attr_valid = FUSE_SERVER_VALID };

	for (;;) {
		ssize_t len = read(fd, buf, sizeof(buf));

		if (len < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			continue;
		/* Unmounted. */
		if (len < (ssize_t)sizeof(*in))
			return;

		switch (in->opcode) {
		case FUSE_INIT:
			fuse_reply(fd, in->unique, 0, &init, sizeof(init));
			break;
		case FUSE_LOOKUP:
			fuse_reply(fd, in->unique,
				   strcmp(arg, FUSE_SERVER_FILE) ? -ENOENT : 0, &entry,
				   sizeof(entry));
			break;
		case FUSE_GETATTR:
			attr.attr = fuse_server_attr(s, in->nodeid);
			fuse_reply(fd, in->unique, 0, &attr, sizeof(attr));
			break;
		case FUSE_OPEN:
			fuse_reply(fd, in->unique, 0, &opened, sizeof(opened));
			break;
		case FUSE_READ:
			fuse_server_read(s, fd, in->unique, (const void *)arg);
			break;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			fuse_reply(fd, in->unique, 0, NULL, 0);
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		default:
			fuse_reply(fd, in->unique, -ENOSYS, NULL, 0);
			break;
		}
	}
}

/*
 * Mount a file system with a file of these bytes on s->dir, which exists.  Returns
 * the file, opened for reading, or -1.  *why says what the machine lacks for it.
 */
int fuse_server_start(struct fuse_server *s, const unsigned char *bytes,
		      size_t size, const char **why)
{
	char opts[64], path[160];
	int fd;

	*why = NULL;
	s->bytes = bytes;
	s->size = size;
	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->shared == MAP_FAILED)
		return -1;
	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		*why = "no /dev/fuse";
		return -1;
	}
	snprintf(opts, sizeof(opts), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (mount("test", s->dir, "fuse", MS_NOSUID | MS_NODEV, opts)) {
		if (errno == ENODEV)
			*why = "no FUSE";
		close(fd);
		return -1;
	}

	s->pid = fork();
	if (!s->pid) {
		fuse_server_run(s, fd);
		_exit(0);
	}
	close(fd);
	if (s->pid < 0) {
		s->pid = 0;
		return -1;
	}

	snprintf(path, sizeof(path), "%s/" FUSE_SERVER_FILE, s->dir);
	return open(path, O_RDONLY | O_CLOEXEC);
}

void fuse_server_stop(struct fuse_server *s)
{
	umount2(s->dir, MNT_DETACH);
	if (!s->pid)
		return;
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	s->pid = 0;
}
