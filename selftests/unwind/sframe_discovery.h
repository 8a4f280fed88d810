/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the tests of sections that the kernel finds in mapped files.  Include
 * after kselftest_harness.h.
 *
 * Three files have the same code: one has a whole section, the section of one says that
 * code_mark is an outermost function, and one has no section. So a stack shows which
 * file was used.
 */
#ifndef SELFTESTS_UNWIND_SFRAME_DISCOVERY_H
#define SELFTESTS_UNWIND_SFRAME_DISCOVERY_H

#include <unistd.h>

#include "../perf_events/lib/files.h"
#include "../perf_events/lib/session.h"
#include "lib/chain.h"
#include "lib/image.h"
#include "lib/jit.h"
#include "lib/kmsg.h"
#include "lib/sample.h"

#ifdef __x86_64__
#define NR_SAMPLE_CALL	__NR_getpgid

FIXTURE(discovery) {
	struct session s;
	struct kmsg log;
	struct image im[KINDS];
	int fd[KINDS];
	/* A library that stays, and one whose mappings tests change. */
	struct image_map m;
	struct image_map v;
	struct chain c;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	char dir[64];
};

FIXTURE_VARIANT(discovery) {
	struct sframe_opts sframe;
	/* Use files in /tmp, not memfds. */
	bool path;
};

FIXTURE_VARIANT_ADD(discovery, v2) {
	.sframe = { .version = SFRAME_VERSION_2 },
};

FIXTURE_VARIANT_ADD(discovery, v3) {
	.sframe = { .version = SFRAME_VERSION_3 },
	.path = true,
};

FIXTURE_SETUP(discovery)
{
	static const char * const names[] = { "whole", "marked", "bare" };
	const char *why = sframe_unsupported();
	unsigned int i;

	for (i = 0; i < KINDS; i++)
		self->fd[i] = -1;
	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, make_dir(self->dir, sizeof(self->dir)));
	for (i = 0; i < KINDS; i++) {
		struct image_opts o = {
			.sframe = variant->sframe,
			.no_sframe = i == BARE,
		};

		if (i == MARKED)
			o.sframe.outermost[0] = code_mark;
		ASSERT_EQ(0, image_build(&self->im[i], &o));
		self->fd[i] = make_file(&self->im[i], variant->path ?
					file_path(self->dir, names[i]) : NULL);
		ASSERT_LE(0, self->fd[i]);
	}
	ASSERT_EQ(0, image_map(&self->m, &self->im[WHOLE], self->fd[WHOLE],
			       0));
	ASSERT_EQ(0, image_map(&self->v, &self->im[WHOLE], self->fd[WHOLE],
			       0));
}

FIXTURE_TEARDOWN(discovery)
{
	unsigned int i;

	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	session_close(&self->s);
	image_unmap(&self->m);
	image_unmap(&self->v);
	for (i = 0; i < KINDS; i++) {
		image_free(&self->im[i]);
		if (self->fd[i] >= 0)
			close(self->fd[i]);
	}
	EXPECT_EQ(0, remove_dir(self->dir));
}

/* The i-th sample, of a chain of chain_two(). */
#define EXPECT_TWO(i, kind, ...) do {					\
	self->nr_want = expect_two(&self->c, self->want, &self->m, kind); \
	EXPECT_NEXT(&self->s, i, self->want, self->nr_want,		\
		    __VA_ARGS__);					\
} while (0)

/* The i-th sample, of a chain of chain_one() in m with this file. */
#define EXPECT_ONE(i, c, m, kind, ...) do {				\
	self->nr_want = expect_one(c, self->want, m, kind);		\
	EXPECT_NEXT(&self->s, i, self->want, self->nr_want,		\
		    __VA_ARGS__);					\
} while (0)
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_SFRAME_DISCOVERY_H */
