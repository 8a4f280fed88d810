// SPDX-License-Identifier: GPL-2.0
/*
 * User registers, user stack and user callchain of samples of a target, a process that
 * enters the kernel in one way for ever.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "event.h"
#include "files.h"
#include "regs_watch.h"

static const char * const reg_names[NR_REGS] = {
	"ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "flags", "cs", "ss",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
};

/* At most this many runs, on a loaded machine. */
#define RUNS		8

/*
 * The expected ax and flags before, in and after a system call. The arithmetic flags
 * are not checked.
 */
void expect_ax_flags(const __u64 *regs, __u64 *want, __u64 nr, __u64 result)
{
	if (regs[AX] != nr && regs[AX] != result)
		want[AX] = -ENOSYS;
	want[FLAGS] = (regs[FLAGS] & (FLAGS_ARITHMETIC | FLAGS_RF)) | FLAGS_USER;
}

/* One record of an event with regs_attr(). */
static void parse_sample(const struct perf_event_header *h, __u64 type,
			 struct sample *s)
{
	const __u64 *p = (const __u64 *)(h + 1);

	memset(s, 0, sizeof(*s));
	s->misc = h->misc;
	s->ip = *p++;
	if (type & PERF_SAMPLE_CALLCHAIN) {
		s->nr = *p++;
		s->ips = p;
		p += s->nr;
	}
	if (type & PERF_SAMPLE_REGS_USER) {
		s->abi = *p++;
		if (s->abi) {
			memcpy(s->regs, p, sizeof(s->regs));
			p += NR_REGS;
		}
	}
	if (type & PERF_SAMPLE_STACK_USER) {
		s->stack_size = *p++;
		s->stack = p;
		p += s->stack_size / 8;
		if (s->stack_size)
			s->stack_size = *p++;
	}
	if (type & PERF_SAMPLE_REGS_INTR)
		s->intr_abi = *p++;
}

struct perf_event_attr regs_attr(__u32 type, __u64 config, __u64 period)
{
	struct perf_event_attr attr = {
		.size			= sizeof(attr),
		.type			= type,
		.config			= config,
		.sample_period		= period,
		.sample_type		= PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN |
					  PERF_SAMPLE_REGS_USER |
					  PERF_SAMPLE_STACK_USER,
		.sample_regs_user	= REGS_MASK,
		.sample_stack_user	= STACK_SIZE,
		.disabled		= 1,
	};

	return attr;
}

#define WATCH_PAGES	1024

const char *watch_open(struct watch *w, struct perf_event_attr *attr)
{
	size_t size = (WATCH_PAGES + 1) * sysconf(_SC_PAGESIZE);

	w->type = attr->sample_type;
	w->fd = event_open(attr, w->pid, -1, 0);
	if (w->fd < 0)
		return strerror(errno);
	w->page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	return w->page == MAP_FAILED ? strerror(errno) : NULL;
}

/* Does the target still run? It must not end by itself. */
bool watch_alive(struct watch *w)
{
	if (w->pid > 0 && waitpid(w->pid, NULL, WNOHANG) != 0)
		w->pid = -1;
	return w->pid > 0;
}

/* Let the target run under the event for a while; false if it has ended. */
bool watch_run(struct watch *w, unsigned int msec)
{
	ioctl(w->fd, PERF_EVENT_IOC_ENABLE, 0);
	usleep(msec * 1000);
	ioctl(w->fd, PERF_EVENT_IOC_DISABLE, 0);
	return watch_alive(w);
}

/*
 * Did the interrupt of an event that excludes the kernel arrive in the kernel? Then the
 * sample has no registers of the interrupt.
 */
bool late_sample(const struct sample *s, __u64 type)
{
	return (type & PERF_SAMPLE_REGS_INTR) && !s->intr_abi;
}

bool watch_next(struct watch *w, struct sample *s)
{
	size_t page_size = sysconf(_SC_PAGESIZE), size = WATCH_PAGES * page_size;
	const char *data = (const char *)w->page + page_size;
	struct perf_event_header *h = (void *)w->record;
	size_t i;

	do {
		while (w->pos < __atomic_load_n(&w->page->data_head, __ATOMIC_ACQUIRE)) {
			for (i = 0; i < sizeof(*h); i++)
				w->record[i] = data[(w->pos + i) % size];
			for (; i < h->size; i++)
				w->record[i] = data[(w->pos + i) % size];
			w->pos += h->size;
			if (h->type != PERF_RECORD_SAMPLE)
				continue;
			parse_sample(h, w->type, s);
			w->in_kernel += KERNEL_IP(s->ip) || late_sample(s, w->type);
			return true;
		}
		__atomic_store_n(&w->page->data_tail, w->pos, __ATOMIC_RELEASE);
	} while (w->in_kernel < MIN_SAMPLES && ++w->runs < RUNS &&
		 watch_run(w, RUN_MSEC));

	return false;
}

void watch_close(struct watch *w)
{
	if (w->pid > 0) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
	if (w->page && w->page != MAP_FAILED)
		munmap(w->page, (WATCH_PAGES + 1) * sysconf(_SC_PAGESIZE));
	if (w->fd > 0)
		close(w->fd);
}

/* Says which registers are wrong, of the first few samples. */
unsigned int compare(const struct sample *s, const __u64 *want,
		     unsigned int nr_said)
{
	unsigned int i, wrong = 0;

	for (i = 0; i < NR_REGS; i++) {
		if (s->regs[i] == want[i])
			continue;
		wrong++;
		if (nr_said < 5)
			fprintf(stderr, "# at %llx: %s is %llx, not %llx\n",
				(unsigned long long)s->ip, reg_names[i],
				(unsigned long long)s->regs[i],
				(unsigned long long)want[i]);
	}
	return wrong;
}

/* The user part of the callchain: its length, 0 if there is none */
unsigned int user_chain(const struct sample *s, const __u64 **ips)
{
	unsigned int i;

	for (i = 0; i < s->nr; i++) {
		if (s->ips[i] == PERF_CONTEXT_USER) {
			*ips = s->ips + i + 1;
			return s->nr - i - 1;
		}
	}
	return 0;
}

void print_counts(const struct counts *c)
{
	fprintf(stderr,
		"# samples %u: in the kernel %u, of them in entry code %u; no registers %u, ip outside of the target %u, wrong registers %u, callchain %u, stack %u\n",
		c->samples, c->in_kernel, c->in_entry, c->none, c->foreign, c->wrong,
		c->wrong_chain, c->wrong_stack);
}

/* Without registers there is neither a user chain nor a user stack. */
void count_none(const struct sample *s, struct counts *c)
{
	const __u64 *ips;

	c->none++;
	if (user_chain(s, &ips))
		c->wrong_chain++;
	if (s->stack_size)
		c->wrong_stack++;
}

/* Select timer interrupts or the module's NMIs. NULL, or why that failed. */
const char *sampler(bool irq, long *type, bool *unload)
{
	const char *why;

	*type = PERF_TYPE_SOFTWARE;
	if (irq)
		return NULL;
	*unload = access("/sys/module/" NMI_PMU, F_OK);
	why = module_load(NMI_PMU);
	if (!why)
		*type = pmu_type(NMI_PMU);
	return why;
}

void find_entry_text(__u64 *start, __u64 *end)
{
	*start = kallsyms("__entry_text_start");
	*end = kallsyms("__entry_text_end");
}
