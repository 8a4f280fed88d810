/* SPDX-License-Identifier: GPL-2.0 */
/* A FUSE server for one file, which counts what it is asked for. */
#ifndef SELFTESTS_UNWIND_FUSE_SERVER_H
#define SELFTESTS_UNWIND_FUSE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FUSE_SERVER_PAGE	4096
#define FUSE_SERVER_PAGES	64

/**
 * struct fuse_shared - What server and test share
 * @withhold:	Delay the answer to reads of these pages
 * @asked:	Number of reads of each page
 */
struct fuse_shared {
	bool		withhold[FUSE_SERVER_PAGES];
	unsigned int	asked[FUSE_SERVER_PAGES];
};

/**
 * struct fuse_server - A mounted file system
 * @shared:	See above
 * @dir:	Where it is mounted
 * @pid:	The server, or 0
 * @bytes:	Of the file
 * @size:	Their number
 */
struct fuse_server {
	struct fuse_shared	*shared;
	char			dir[128];
	pid_t			pid;
	const unsigned char	*bytes;
	size_t			size;
};

/* Mount a file system with one file.  Returns the file, or -1 and maybe why. */
int fuse_server_start(struct fuse_server *s, const unsigned char *bytes,
		      size_t size, const char **why);

/* Unmount it, and end the server. */
void fuse_server_stop(struct fuse_server *s);

#endif /* SELFTESTS_UNWIND_FUSE_SERVER_H */
