/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the tests of SFrame: chains of calls through images, events
 * that sample them, and what the kernel says meanwhile.
 */
#ifndef SELFTESTS_UNWIND_SFRAME_TEST_H
#define SELFTESTS_UNWIND_SFRAME_TEST_H

#include "../perf_events/defer.h"
#include "sframe_build.h"

#include <sys/prctl.h>

/* Headers of the build may be older than the kernel under test. */
#ifndef PR_UNWIND_SFRAME_ADD
#define PR_UNWIND_SFRAME_ADD	0x53465241
#define PR_UNWIND_SFRAME_DEL	0x53465244
#endif

#define BOTH	(DEFER_ATTR_CALLCHAIN | DEFER_ATTR_OUTPUT)

#ifdef __x86_64__

#define SAMPLE_CALL	((struct code_call) { .nr = __NR_getpgid })

/* ---- Files ------------------------------------------------------------------- */

static inline int make_dir(char *dir, size_t size)
{
	snprintf(dir, size, "/tmp/sframe.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static inline const char *file_path(const char *dir, const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static inline int make_file(const struct image *im, const char *path)
{
	int fd, ro;

	fd = image_file(im, path);
	if (fd < 0 || !path)
		return fd;
	/* A file that is open for writing cannot be executed. */
	ro = open(path, O_RDONLY | O_CLOEXEC);
	close(fd);
	return ro;
}

/* ---- Chains ------------------------------------------------------------------ */

/* Return addresses of calls that functions make. */
static const struct {
	const char	*func;
	const char	*ret;
} chain_rets[] = {
	{ code_sp,		code_sp_ret },
	{ code_mark,		code_mark_ret },
	{ code_keep,		code_keep_ret },
	{ code_fp,		code_fp_ret },
	{ code_mid,		code_mid_ret },
	{ code_large,		code_large_ret },
	{ code_far,		code_far_ret },
	{ code_noreturn,	code_noreturn_end },
	{ code_mask_third,	code_mask_third_ret },
	{ code_drap,		code_drap_ret },
	{ code_ra_reg,		code_ra_reg_ret },
	{ code_fp_reg,		code_fp_reg_ret },
	{ code_interrupt,	code_interrupt_ret },
	{ code_entry,		code_entry_ret },
	{ code_start,		code_start_ret },
};

#define CHAIN_MAX	128

struct chain {
	__u64		plan[CHAIN_MAX];
	/* The stack below the leaf's frame, from the outermost entry on. */
	__u64		rets[2 * CHAIN_MAX];
	unsigned int	nr_plan;
	unsigned int	nr_rets;
	__u64		entry;
	struct code_ctx	ctx;
};

static inline const char *chain_ret(const char *func)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(chain_rets); i++) {
		if (chain_rets[i].func == func)
			return chain_rets[i].ret;
	}
	return NULL;
}

/* Every chain begins with code_entry. */
static inline void chain_begin(struct chain *c, const struct image_map *m)
{
	memset(c, 0, sizeof(*c));
	c->entry = image_addr(m, code_entry);
	c->rets[c->nr_rets++] = image_addr(m, code_entry_ret);
	c->ctx.alloca = 208;
}

static inline void
chain_add(struct chain *c, const struct image_map *m, const char *func)
{
	const char *ret = chain_ret(func);

	if (c->nr_plan == CHAIN_MAX || c->nr_rets + 2 > ARRAY_SIZE(c->rets))
		abort();
	c->plan[c->nr_plan++] = image_addr(m, func);
	/* It is what the frame returns to. */
	if (func == code_interrupt)
		c->rets[c->nr_rets++] = image_addr(m, code_first);
	if (ret)
		c->rets[c->nr_rets++] = image_addr(m, ret);
}

static inline void
chain_add_list(struct chain *c, const struct image_map *m,
	       const char * const *funcs, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		chain_add(c, m, funcs[i]);
}

/* Run it; the leaf makes these system calls. */
static inline void
chain_run(struct chain *c, struct code_call *calls, unsigned int nr)
{
	void (*entry)(__u64 *plan, struct code_ctx *ctx);

	c->ctx.calls = calls;
	c->ctx.nr_calls = nr;
	entry = (void *)c->entry;
	entry(c->plan, &c->ctx);
}

/* One call that is sampled. */
static inline void chain_sample(struct chain *c)
{
	struct code_call call = SAMPLE_CALL;

	chain_run(c, &call, 1);
}

/*
 * The stack that a chain has in its leaf when it is unwound up to and including
 * nr frames above the leaf, to its end with -1.
 */
static inline unsigned int
chain_expect(const struct chain *c, __u64 *want, __u64 leaf_ip, int nr)
{
	unsigned int i, n = 0;

	want[n++] = leaf_ip;
	for (i = c->nr_rets; i-- && nr--; )
		want[n++] = c->rets[i];
	return n;
}

/*
 * Is this a stack of the chain, as far as SFrame could tell, and then maybe the
 * frame that frame pointers lead to?
 */
static inline bool
chain_legal(const struct chain *c, const __u64 *ips, int nr, __u64 leaf_ip,
	    __u64 decoy)
{
	__u64 want[2 * CHAIN_MAX + 1];
	int nr_want = chain_expect(c, want, leaf_ip, -1);

	if (nr > 1 && ips[nr - 1] == decoy)
		nr--;
	if (nr >= 1 && nr <= nr_want && !memcmp(ips, want, nr * sizeof(*ips)))
		return true;
	defer_dump("illegal", ips, nr);
	defer_dump("whole", want, nr_want);
	return false;
}

/* ---- Events ------------------------------------------------------------------- */

static inline struct perf_event_attr sample_attr(long tracepoint)
{
	return defer_attr(PERF_TYPE_TRACEPOINT, tracepoint, 1, BOTH);
}

/* Samples of SAMPLE_CALL on a task, on this one. */
#define SESSION_OPEN_PID(s, pid, pages) do {				\
	struct perf_event_attr __attr;					\
									\
	__attr = sample_attr(DEFER_TRACEPOINT("syscalls/sys_enter_getpgid")); \
	ASSERT_EQ(0, defer_session_open(s, &__attr, pid, -1, pages));	\
	ASSERT_EQ(0, defer_enable(s));					\
} while (0)

#define SESSION_OPEN(s)	SESSION_OPEN_PID(s, 0, DEFER_PAGES)

/* Deferred stack of the i-th sample; -1 if there is none. */
static inline int
sample_stack(struct defer_session *s, unsigned int i, const __u64 **ips)
{
	const struct defer_item *it;

	it = defer_nth(&s->log, PERF_RECORD_SAMPLE, i);
	if (!it || !it->cookie)
		return -1;
	return defer_user_chain(&s->log, it, ips);
}

/* All samples so far must have the stack "want"; the rest is for TH_LOG(). */
#define EXPECT_STACKS(s, count, want, nr_want, ...) do {		\
	unsigned int __i, __n = count;					\
	struct defer_stats __st;					\
									\
	ASSERT_EQ(0, defer_finish(s));					\
	__st = defer_conserve(&(s)->log);				\
	EXPECT_CONSERVED(&__st);					\
	ASSERT_EQ(__n, __st.samples) {					\
		TH_LOG("" __VA_ARGS__);					\
	}								\
	for (__i = 0; __i < __n; __i++) {				\
		const __u64 *__ips = NULL;				\
		int __nr = sample_stack(s, __i, &__ips);		\
									\
		EXPECT_TRUE(defer_same(__ips, __nr, want, nr_want)) {	\
			TH_LOG("" __VA_ARGS__);				\
		}							\
	}								\
} while (0)

/* The i-th sample of an open session must have the stack "want". */
#define EXPECT_NEXT(s, i, want, nr_want, ...) do {			\
	const __u64 *__ips = NULL;					\
	int __nr;							\
									\
	ASSERT_EQ(0, defer_wait_samples(s, (i) + 1, 5));		\
	__nr = sample_stack(s, i, &__ips);				\
	EXPECT_TRUE(defer_same(__ips, __nr, want, nr_want)) {		\
		TH_LOG("" __VA_ARGS__);					\
	}								\
} while (0)

/*
 * Corrupt what a section, without an auxiliary header, says of one of the functions in
 * front of those that version 2 cannot describe.
 */
static inline void sframe_corrupt(unsigned char *sframe, const char *func)
{
	struct sframe_header *h = (void *)sframe;
	struct sframe_fde_v2 *v2 = (void *)(h + 1);
	struct sframe_fde_v3 *v3 = (void *)(h + 1);
	unsigned int i = 0;

	while (sframe_funcs[i].start != func)
		i++;
	if (h->version >= SFRAME_V3)
		v3[i].fre_off = -1;
	else
		v2[i].fre_off = -1;
}

/* ---- Is it there? --------------------------------------------------------------- */

/* Anonymous memory with the code and, a page behind it, a section for it. */
struct jit {
	struct image_map	map;
	unsigned char		*text;
	unsigned char		*sframe;
	size_t			sframe_len;
};

static inline int jit_init(struct jit *j, const struct sframe_opts *o)
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

static inline void jit_free(struct jit *j)
{
	image_unmap(&j->map);
}

static inline int sframe_add(const void *sframe, unsigned long len,
			     unsigned long start, unsigned long end)
{
	return prctl(PR_UNWIND_SFRAME_ADD, (unsigned long)sframe, len, start,
		     end) ? -errno : 0;
}

static inline int sframe_del(unsigned long start, unsigned long end)
{
	return prctl(PR_UNWIND_SFRAME_DEL, start, end, 0UL, 0UL) ? -errno : 0;
}

static inline unsigned long jit_end(const struct jit *j)
{
	return (unsigned long)j->text + code_size();
}

static inline int jit_add(const struct jit *j)
{
	return sframe_add(j->sframe, j->sframe_len, (unsigned long)j->text,
			  jit_end(j));
}

static inline int jit_del(const struct jit *j)
{
	return sframe_del((unsigned long)j->text, jit_end(j));
}

/* Why the tests cannot run; NULL when they can.  As defer_unsupported(). */
static inline const char *sframe_unsupported(void)
{
	const struct sframe_opts o = { .version = SFRAME_V2 };
	const char *why = defer_unsupported();
	static char buf[128];
	struct jit jit = {};
	int err;

	if (why)
		return why;
	if (jit_init(&jit, &o))
		return "cannot map memory for code";
	err = jit_add(&jit);
	if (!err)
		jit_del(&jit);
	jit_free(&jit);
	/* What else it says of a good section is for the tests to find. */
	if (err == -EINVAL) {
		snprintf(buf, sizeof(buf),
			 "kernel without SFrame (CONFIG_UNWIND_USER_SFRAME?)");
		return buf;
	}
	return NULL;
}

/* ---- What the kernel says --------------------------------------------------------- */

struct kmsg {
	int	fd;
};

static inline int kmsg_open(struct kmsg *k)
{
	k->fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (k->fd < 0)
		return -1;
	return lseek(k->fd, 0, SEEK_END) < 0 ? -1 : 0;
}

/*
 * Lines since then that complain: of anything as a warning or worse, of the
 * unwinder at all but for debug messages.  -1 if the log cannot be read.
 */
static inline int kmsg_complaints(struct kmsg *k)
{
	static const char * const bad[] = {
		"BUG:", "WARNING:", "Oops", "KASAN", "UBSAN", "general protection",
		"rcu: INFO", "INFO: task",
	};
	/* Level 7, of the kernel's own facility. */
	const unsigned int debug = 7, level_mask = 7;
	char buf[2048];
	int n = 0;

	for (;;) {
		unsigned int i, level;
		bool complaint;
		ssize_t len;

		len = read(k->fd, buf, sizeof(buf) - 1);
		if (len < 0 && errno == EPIPE)
			continue;
		if (len < 0)
			return errno == EAGAIN ? n : -1;
		buf[len] = '\0';
		level = strtoul(buf, NULL, 10) & level_mask;
		complaint = level < debug && (strcasestr(buf, "sframe") ||
					      strstr(buf, "unwind"));
		for (i = 0; i < ARRAY_SIZE(bad); i++)
			complaint |= !!strstr(buf, bad[i]);
		if (complaint) {
			fprintf(stderr, "# kernel: %s", buf);
			n++;
		}
	}
}

static inline void kmsg_close(struct kmsg *k)
{
	if (k->fd > 0)
		close(k->fd);
}

#endif /* __x86_64__ */

#endif /* SELFTESTS_UNWIND_SFRAME_TEST_H */
