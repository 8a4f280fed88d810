// SPDX-License-Identifier: GPL-2.0
/* Code in anonymous memory with a section that is registered with prctl(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/prctl.h>

#include "../../perf_events/lib/defer.h"
#include "jit.h"

#ifdef __x86_64__
int jit_init(struct jit *j, const struct sframe_opts *o)
{
	size_t text_len = image_round(code_size());
	unsigned char *p;

	p = mmap(NULL, text_len + IMAGE_PAGE + SFRAME_MAX_SIZE,
		 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -1;
	j->text = p;
	j->sframe = p + text_len + IMAGE_PAGE;
	j->map = (struct image_map) {
		.base = (unsigned long)p,
		.text = (unsigned long)p,
		.span = text_len + IMAGE_PAGE + SFRAME_MAX_SIZE,
	};
	memcpy(j->text, code_begin, code_size());
	j->sframe_len = sframe_build(j->sframe, o, (__u64)j->sframe,
				     (__u64)j->text);
	return mprotect(p, text_len, PROT_READ | PROT_EXEC);
}

void jit_free(struct jit *j)
{
	image_unmap(&j->map);
}

int sframe_add(const void *sframe, unsigned long len,
	       unsigned long start, unsigned long end)
{
	return prctl(PR_UNWIND_SFRAME_ADD, (unsigned long)sframe, len, start,
		     end) ? -errno : 0;
}

int sframe_del(unsigned long start, unsigned long end)
{
	return prctl(PR_UNWIND_SFRAME_DEL, start, end, 0UL, 0UL) ? -errno : 0;
}

int jit_add(const struct jit *j)
{
	return sframe_add(j->sframe, j->sframe_len, (unsigned long)j->text,
			  jit_end(j));
}

int jit_del(const struct jit *j)
{
	return sframe_del((unsigned long)j->text, jit_end(j));
}

/* Why the tests cannot run; NULL when they can.  As defer_unsupported(). */
const char *sframe_unsupported(void)
{
	const struct sframe_opts o = { .version = SFRAME_VERSION_2 };
	const char *why = defer_unsupported();
	static char buf[128];
	struct jit jit = {};
	int err;

	if (why)
		return why;
	if (jit_init(&jit, &o))
		return "cannot map memory for code";
	/* There is no such section: -ENOENT. */
	err = jit_del(&jit);
	jit_free(&jit);
	if (err == -EINVAL) {
		snprintf(buf, sizeof(buf),
			 "kernel without SFrame (CONFIG_UNWIND_USER_SFRAME?)");
		return buf;
	}
	return NULL;
}
#endif /* __x86_64__ */
