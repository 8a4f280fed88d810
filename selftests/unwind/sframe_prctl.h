/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the tests of sections that a program registers with prctl().  Include
 * after kselftest_harness.h.
 */
#ifndef SELFTESTS_UNWIND_SFRAME_PRCTL_H
#define SELFTESTS_UNWIND_SFRAME_PRCTL_H

#include "../perf_events/lib/session.h"
#include "lib/chain.h"
#include "lib/jit.h"
#include "lib/kmsg.h"

#ifdef __x86_64__
FIXTURE(sframe) {
	struct session s;
	struct kmsg log;
	struct jit jit;
	struct chain c;
	__u64 want[2 * CHAIN_MAX + 1];
	unsigned int nr_want;
	/* The stack when the section is not used. */
	__u64 bare[2];
};

FIXTURE_VARIANT(sframe) {
	struct sframe_opts sframe;
};

FIXTURE_VARIANT_ADD(sframe, v2) {
	.sframe = { .version = SFRAME_VERSION_2 },
};

FIXTURE_VARIANT_ADD(sframe, v2_pcrel) {
	.sframe = { .version = SFRAME_VERSION_2, .pcrel = true },
};

FIXTURE_VARIANT_ADD(sframe, v3) {
	.sframe = { .version = SFRAME_VERSION_3 },
};

FIXTURE_SETUP(sframe)
{
	static const char * const list[] = {
		code_sp, code_fp, code_mark, code_large, code_leaf,
	};
	const char *why = sframe_unsupported();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, kmsg_open(&self->log));
	ASSERT_EQ(0, jit_init(&self->jit, &variant->sframe));
	chain_begin(&self->c, &self->jit.map);
	chain_add_list(&self->c, &self->jit.map, list, ARRAY_SIZE(list));
	self->bare[0] = image_addr(&self->jit.map, code_leaf_ip);
	self->bare[1] = image_addr(&self->jit.map, code_decoy);
	self->nr_want = chain_expect(&self->c, self->want, self->bare[0], -1);
}

FIXTURE_TEARDOWN(sframe)
{
	EXPECT_EQ(0, kmsg_complaints(&self->log));
	kmsg_close(&self->log);
	session_close(&self->s);
	jit_free(&self->jit);
}

#define TEXT(self)	((unsigned long)(self)->jit.text)
#define HEADER(self)	((struct sframe_header *)(self)->jit.sframe)
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_SFRAME_PRCTL_H */
