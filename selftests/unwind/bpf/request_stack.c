// SPDX-License-Identifier: GPL-2.0
/*
 * Test bpf_request_user_stack(): BPF programs of each type that may call it request the user
 * stack, and a program at the tracepoint unwind_user_stack receives it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <linux/perf_event.h>

#include <bpf/libbpf.h>

#include "../../kselftest_harness.h"
#include "../../perf_events/lib/defer.h"
#include "../../perf_events/lib/event.h"
#include "../../perf_events/lib/files.h"
#include "../../perf_events/lib/known_stack.h"
#include "../../perf_events/lib/uprobe.h"
#include "request_stack.h"
#include "request_stack.skel.h"

#define BITS	12
#define ID	0x5a7

/* enum unwind_user_end */
#define END_OUTERMOST	0
#define END_CUT		1

FIXTURE(request) {
	struct request_stack_bpf *skel;
	struct bpf_link *request, *stack;
	int event;
};

FIXTURE_VARIANT(request) {
	const char *program;
};

#define VARIANT(name)							\
FIXTURE_VARIANT_ADD(request, name) {					\
	.program = #name "_program",					\
}

VARIANT(tp_btf);
VARIANT(fentry);
VARIANT(kprobe);
VARIANT(tracepoint);
VARIANT(perf_event);

static int no_log(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

static bool is_perf_event(const char *program)
{
	return !strcmp(program, "perf_event_program");
}

static struct bpf_link *attach(struct request_stack_bpf *skel, const char *name, int event)
{
	struct bpf_program *program;

	program = bpf_object__find_program_by_name(skel->obj, name);
	return event < 0 ? bpf_program__attach(program) :
			   bpf_program__attach_perf_event(program, event);
}

static void forget(struct request_stack_bpf *skel)
{
	skel->bss->nr_samples = 0;
	skel->bss->nr_stacks = 0;
}

FIXTURE_SETUP(request)
{
	self->event = -1;
	if (!HAVE_KNOWN_STACK)
		SKIP(return, "no known-stack code for this architecture");
	if (geteuid())
		SKIP(return, "must be run as root");
	if (access(DEFER_SYSCTL, R_OK))
		SKIP(return, "kernel built without deferred unwinding");
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		SKIP(return, "kernel built without CONFIG_DEBUG_INFO_BTF");

	libbpf_set_print(no_log);
	self->skel = request_stack_bpf__open_and_load();
	ASSERT_NE(NULL, self->skel);
	self->skel->bss->tgid = getpid();
	self->skel->bss->syscall_nr = SYS_getppid;
	/* A move to another CPU would cause another delivery. */
	ASSERT_LE(0, pin_to_cpu(-1));

	if (is_perf_event(variant->program)) {
		struct perf_event_attr attr = {
			.type = PERF_TYPE_SOFTWARE,
			.size = sizeof(attr),
			.config = PERF_COUNT_SW_CPU_CLOCK,
			.sample_period = 100000,
			.disabled = 1,
			.exclude_kernel = 1,
		};

		self->event = event_open(&attr, 0, -1, 0);
		ASSERT_LE(0, self->event);
	}
	self->stack = bpf_program__attach(self->skel->progs.stack_program);
	ASSERT_NE(NULL, self->stack);
	self->request = attach(self->skel, variant->program, self->event);
	ASSERT_NE(NULL, self->request);
	forget(self->skel);
}

FIXTURE_TEARDOWN(request)
{
	bpf_link__destroy(self->request);
	bpf_link__destroy(self->stack);
	request_stack_bpf__destroy(self->skel);
	if (self->event >= 0)
		close(self->event);
}

/* Let the program make requests, once for each entry into the kernel that it sees. */
static void hit(int event, __u64 id, unsigned int bits, struct request_stack_bpf *skel)
{
	if (event < 0) {
		known_walk_syscall(id, bits, SYS_getppid, 0, 0);
		return;
	}

	/* The event may also hit this function: try until it hit the walk. */
	ioctl(event, PERF_EVENT_IOC_ENABLE, 0);
	known_walk_spin(id, bits, 20000000);
	ioctl(event, PERF_EVENT_IOC_DISABLE, 0);
}

static bool same_stack(const struct stack *stack, int event, __u64 id, unsigned int bits)
{
	__u64 want[ENTRIES];
	unsigned int nr = known_expect(want, id, bits, walk_syscall_ip);
	unsigned int i;

	for (i = event >= 0; i < nr; i++) {
		if (i >= stack->nr || i >= ENTRIES || stack->entries[i] != want[i])
			return false;
	}
	return event < 0 || (stack->entries[0] >= (__u64)walk_spin &&
			     stack->entries[0] < (__u64)walk_spin_end);
}

static const struct stack *find_stack(struct request_stack_bpf *skel, __u64 cookie,
				      unsigned int *nr)
{
	const struct stack *found = NULL;
	unsigned int i;

	*nr = 0;
	for (i = 0; i < STACKS && i < skel->bss->nr_stacks; i++) {
		if (skel->bss->stacks[i].cookie == cookie) {
			found = &skel->bss->stacks[i];
			++*nr;
		}
	}
	return found;
}

/* Each cookie stands for the stack that the task had, and is delivered once. */
TEST_F(request, known_stack)
{
	unsigned int i, nr, known = 0;
	const struct stack *stack;
	__u64 id;

	/* An event has many samples. All of their stacks must be kept. */
	self->skel->bss->limit = STACKS;
	for (id = ID; id < ID + 4; id++) {
		forget(self->skel);
		hit(self->event, id, BITS, self->skel);
		ASSERT_LT(0, self->skel->bss->nr_samples);
		for (i = 0; i < self->skel->bss->nr_samples && i < STACKS; i++) {
			EXPECT_EQ(0, self->skel->bss->samples[i].ret);
			EXPECT_NE(0, self->skel->bss->samples[i].cookie);
			stack = find_stack(self->skel, self->skel->bss->samples[i].cookie, &nr);
			ASSERT_EQ(1, nr);
			if (self->event < 0) {
				EXPECT_TRUE(same_stack(stack, self->event, id, BITS));
				EXPECT_EQ(END_OUTERMOST, stack->end);
			}
			known += same_stack(stack, self->event, id, BITS);
		}
		if (self->event < 0)
			EXPECT_EQ(1, self->skel->bss->nr_stacks);
	}
	EXPECT_LE(4, known);
}

/* All requests of one kernel entry share a cookie, and the next entry has another. */
TEST_F(request, one_delivery)
{
	unsigned int i, nr;

	if (self->event >= 0)
		SKIP(return, "its entries are interrupts, which are not counted here");

	self->skel->bss->again = 2;
	hit(self->event, ID, BITS, self->skel);
	hit(self->event, ID, BITS, self->skel);
	ASSERT_EQ(6, self->skel->bss->nr_samples);
	EXPECT_EQ(2, self->skel->bss->nr_stacks);
	for (i = 0; i < 6; i++) {
		EXPECT_EQ(0, self->skel->bss->samples[i].ret);
		EXPECT_EQ(self->skel->bss->samples[i - i % 3].cookie,
			  self->skel->bss->samples[i].cookie);
		find_stack(self->skel, self->skel->bss->samples[i].cookie, &nr);
		EXPECT_EQ(1, nr);
	}
	EXPECT_NE(self->skel->bss->samples[0].cookie, self->skel->bss->samples[3].cookie);
}

TEST_F(request, depth)
{
	unsigned int nr;
	long max;

	if (self->event >= 0)
		SKIP(return, "asked for the other types");

	self->skel->bss->depth = 5;
	hit(self->event, ID, BITS, self->skel);
	ASSERT_EQ(1, self->skel->bss->nr_stacks);
	EXPECT_EQ(5, self->skel->bss->stacks[0].nr);
	EXPECT_EQ(END_CUT, self->skel->bss->stacks[0].end);

	/* More than a trace buffer would have */
	forget(self->skel);
	self->skel->bss->depth = 250;
	hit(self->event, ID, 200, self->skel);
	find_stack(self->skel, self->skel->bss->samples[0].cookie, &nr);
	ASSERT_EQ(1, nr);
	EXPECT_EQ(202, self->skel->bss->stacks[0].nr);
	EXPECT_TRUE(same_stack(&self->skel->bss->stacks[0], self->event, ID, 200));

	/* 0 is the depth of the sysctl. */
	ASSERT_EQ(0, read_long(SYSCTL_MAX_STACK, &max));
	forget(self->skel);
	self->skel->bss->depth = 0;
	hit(self->event, ID, 200, self->skel);
	ASSERT_EQ(1, self->skel->bss->nr_stacks);
	EXPECT_EQ(max < 202 ? max : 202, self->skel->bss->stacks[0].nr);
}

TEST_F(request, unknown_flags)
{
	self->skel->bss->flags = 1;
	hit(self->event, ID, BITS, self->skel);
	ASSERT_LT(0, self->skel->bss->nr_samples);
	EXPECT_EQ(-EINVAL, self->skel->bss->samples[0].ret);
	EXPECT_EQ(0, self->skel->bss->samples[0].cookie);
	EXPECT_EQ(0, self->skel->bss->nr_stacks);
}

/* Without a program that receives stacks, requests are refused. */
TEST_F(request, nobody_receives)
{
	bpf_link__destroy(self->stack);
	self->stack = NULL;
	hit(self->event, ID, BITS, self->skel);
	ASSERT_LT(0, self->skel->bss->nr_samples);
	EXPECT_EQ(-EOPNOTSUPP, self->skel->bss->samples[0].ret);
	EXPECT_EQ(0, self->skel->bss->nr_stacks);

	self->stack = bpf_program__attach(self->skel->progs.stack_program);
	ASSERT_NE(NULL, self->stack);
	forget(self->skel);
	hit(self->event, ID, BITS, self->skel);
	ASSERT_LT(0, self->skel->bss->nr_samples);
	EXPECT_EQ(0, self->skel->bss->samples[0].ret);
	EXPECT_LT(0, self->skel->bss->nr_stacks);
}

static volatile bool stop;

static void *many_requests(void *arg)
{
	while (!stop)
		syscall(SYS_getppid);
	return NULL;
}

/* Programs come and go while requests are made and served. */
TEST_F(request, attach_and_detach)
{
	pthread_t thread;
	unsigned int i;

	if (self->event >= 0)
		SKIP(return, "asked for the other types");

	stop = false;
	ASSERT_EQ(0, pthread_create(&thread, NULL, many_requests, NULL));
	for (i = 0; i < 20; i++) {
		bpf_link__destroy(self->stack);
		bpf_link__destroy(self->request);
		self->request = attach(self->skel, variant->program, self->event);
		self->stack = bpf_program__attach(self->skel->progs.stack_program);
		if (!self->request || !self->stack)
			break;
	}
	stop = true;
	pthread_join(thread, NULL);
	ASSERT_NE(NULL, self->request);
	ASSERT_NE(NULL, self->stack);

	forget(self->skel);
	hit(self->event, ID, BITS, self->skel);
	ASSERT_EQ(1, self->skel->bss->nr_stacks);
	EXPECT_TRUE(same_stack(&self->skel->bss->stacks[0], self->event, ID, BITS));
}

static __attribute__((noinline)) void probed(void)
{
	asm volatile("");
}

/* When the probed instruction has been executed, the stack may be another one. */
TEST_F(request, uprobe)
{
	struct perf_event_attr attr;
	struct bpf_link *link;
	int fd;

	if (strcmp(variant->program, "kprobe_program"))
		SKIP(return, "only programs of this type are attached to uprobes");
	if (uprobe_attr(&attr, probed, false, 0))
		SKIP(return, "no uprobe events (CONFIG_UPROBE_EVENTS)");

	fd = event_open(&attr, 0, -1, 0);
	ASSERT_LE(0, fd);
	link = bpf_program__attach_perf_event(self->skel->progs.kprobe_program, fd);
	ASSERT_NE(NULL, link);
	probed();
	bpf_link__destroy(link);

	ASSERT_EQ(1, self->skel->bss->nr_samples);
	EXPECT_EQ(-EBUSY, self->skel->bss->samples[0].ret);
	EXPECT_EQ(0, self->skel->bss->nr_stacks);
}

/* Kernel threads have no user stack. */
TEST_F(request, kernel_threads)
{
	struct bpf_link *link;
	unsigned int i;

	link = bpf_program__attach(self->skel->progs.kthread_program);
	ASSERT_NE(NULL, link);
	for (i = 0; i < 1000 && self->skel->bss->kthread_requests < 10; i++)
		usleep(10000);
	bpf_link__destroy(link);
	EXPECT_LE(10, self->skel->bss->kthread_requests);
	EXPECT_EQ(self->skel->bss->kthread_requests, self->skel->bss->kthread_refused);
}

/* A program that may pass no place for the cookie is not loaded. */
TEST(place_for_the_cookie)
{
	static const char *const programs[] = { "null_program", "unchecked_program" };
	struct request_stack_bpf *skel;
	struct bpf_program *program;
	unsigned int i;

	if (geteuid())
		SKIP(return, "must be run as root");
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		SKIP(return, "kernel built without CONFIG_DEBUG_INFO_BTF");

	libbpf_set_print(NULL);
	for (i = 0; i < 2; i++) {
		skel = request_stack_bpf__open();
		ASSERT_NE(NULL, skel);
		bpf_object__for_each_program(program, skel->obj)
			bpf_program__set_autoload(program, false);
		program = bpf_object__find_program_by_name(skel->obj, programs[i]);
		bpf_program__set_autoload(program, true);
		EXPECT_NE(0, request_stack_bpf__load(skel));
		request_stack_bpf__destroy(skel);
	}
}

TEST_HARNESS_MAIN
