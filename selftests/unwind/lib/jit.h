/* SPDX-License-Identifier: GPL-2.0 */
/* Code in anonymous memory with a section that is registered with prctl(). */
#ifndef SELFTESTS_UNWIND_JIT_H
#define SELFTESTS_UNWIND_JIT_H

#include <stddef.h>

#include "image.h"
#include "sframe_section.h"

/* Headers of the build may be older than the kernel under test. */
#ifndef PR_UNWIND_SFRAME_ADD
#define PR_UNWIND_SFRAME_ADD	0x53465241
#define PR_UNWIND_SFRAME_DEL	0x53465244
#endif

#ifdef __x86_64__
/* Anonymous memory with the code and, a page after it, a section for it. */
struct jit {
	struct image_map	map;
	unsigned char		*text;
	unsigned char		*sframe;
	size_t			sframe_len;
};

static inline unsigned long jit_end(const struct jit *j)
{
	return (unsigned long)j->text + code_size();
}

/* Map the code and a section for it.  0, or -1. */
int jit_init(struct jit *j, const struct sframe_opts *o);

/* Unmap both. */
void jit_free(struct jit *j);

/* Register the section.  0, or -errno. */
int jit_add(const struct jit *j);

/* Unregister the section.  Returns 0, or -errno. */
int jit_del(const struct jit *j);

/* Register a section for a range of addresses.  0, or -errno. */
int sframe_add(const void *sframe, unsigned long len, unsigned long start,
	       unsigned long end);

/* Unregister the section.  Returns 0, or -errno. */
int sframe_del(unsigned long start, unsigned long end);

/* Why the tests cannot run; NULL when they can.  As defer_unsupported(). */
const char *sframe_unsupported(void);
#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_JIT_H */
