// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz SECONDS SEED NMI-PMU-TYPE TABLE FILE: random calls of the system calls by which a
 * program gets at deferred user stacks: perf_event_open() with the series' bits, ioctl() with
 * its structures, prctl() with sections, and mmap() of ring buffers, with what goes with them.
 * TABLE is what "perf sframe build" makes of FILE; it is supplied as it is, and damaged.
 *
 * Its children live for up to 44 seconds each, in the way that processes do: they sample
 * themselves and each other, fork, run programs, and are killed. Prints how often each call was
 * made, and how often it succeeded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define CHILDREN	4
#define FDS		24
#define MAPS		12
#define PAGE		4096UL
/* The words of struct perf_event_attr that have bits */
#define FLAGS_WORD	5
#define BIT_DEFER	(1ULL << 38)
#define BIT_OUTPUT	(1ULL << 39)
#define BIT_OVERWRITE	(1ULL << 63)

#ifndef PR_UNWIND_SFRAME_ADD
#define PR_UNWIND_SFRAME_ADD	0x53465241
#define PR_UNWIND_SFRAME_DEL	0x53465244
#endif
#define IOC_UNWIND_TABLE	_IO('$', 240)
#define IOC_FLUSH_DEFERRED	_IO('$', 241)

enum call { OPEN, RING, UNMAP, PROTECT, IOCTL, TABLE, SHARE, FLUSH, SECTION, CLOSE, READ, TAIL,
	    WORK, FAULT, FORK, RUN, SIGNAL, AFFINITY, NR_CALLS };

static const char * const names[] = {
	"open", "mmap", "munmap", "mprotect", "ioctl", "table", "share", "flush", "section",
	"close", "read", "tail", "work", "fault", "fork", "exec", "signal", "affinity",
};

/* For all processes */
static struct {
	uint64_t	tries[NR_CALLS];
	uint64_t	done[NR_CALLS];
	uint64_t	records;
	uint64_t	children;
} *counts;

static uint64_t state;
static uint32_t nmi_type;
static const char *table_file;
static unsigned char *table;
static size_t table_size;

static int fds[FDS];
static struct {
	char	*at;
	size_t	size;
	bool	ring;
} maps[MAPS];

static uint64_t random64(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t below(uint64_t n)
{
	return random64() % n;
}

static bool one_in(unsigned int n)
{
	return !below(n);
}

/* Numbers that are interesting to code that checks numbers */
static uint64_t number(void)
{
	static const uint64_t some[] = {
		0, 1, 2, 7, 8, 31, 32, 40, 63, 64, 4095, 4096, 65535, 1 << 20, 0x7fffffff,
		0x80000000, 0xffffffff, 0x7fffffffefff, 0x7ffffffff000, 0x800000000000,
		0xffff800000000000, 0xffffffff81000000, -1ULL, -4095ULL, -2ULL,
	};

	switch (below(4)) {
	case 0:
		return some[below(ARRAY_SIZE(some))];
	case 1:
		return some[below(ARRAY_SIZE(some))] + below(17) - 8;
	case 2:
		return 1ULL << below(64);
	default:
		return random64() >> below(64);
	}
}

static uint64_t address(void)
{
	switch (below(6)) {
	case 0:
		return (uintptr_t)table + below(table_size + 64);
	case 1:
		return (uintptr_t)maps[below(MAPS)].at + below(4 * PAGE);
	case 2:
		return (uintptr_t)&counts + below(2 * PAGE) - PAGE;
	case 3:
		return (uintptr_t)random64 + below(PAGE);
	default:
		return number();
	}
}

static int fd_slot(void)
{
	return below(FDS);
}

static int any_fd(void)
{
	int slot = fd_slot(), i;

	if (one_in(20))
		return number();
	for (i = 0; i < FDS && fds[slot] < 0; i++)
		slot = (slot + 1) % FDS;
	return fds[slot];
}

static bool open_event(void)
{
	static const uint64_t types[] = {
		PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_ADDR,
		PERF_SAMPLE_READ, PERF_SAMPLE_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_PERIOD,
		PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_RAW, PERF_SAMPLE_IDENTIFIER,
		PERF_SAMPLE_CGROUP, PERF_SAMPLE_CODE_PAGE_SIZE,
	};
	struct perf_event_attr attr = { .size = sizeof(attr) };
	uint64_t *words = (uint64_t *)&attr;
	int slot = fd_slot(), group = one_in(6) ? any_fd() : -1;
	unsigned long flags = one_in(8) ? below(16) : PERF_FLAG_FD_CLOEXEC;
	int cpu = one_in(3) ? (int)below(4) - 1 : -1;
	pid_t pid = one_in(4) ? (one_in(2) ? -1 : getppid()) : 0;
	unsigned int i;

	attr.type = one_in(3) && nmi_type ? nmi_type : PERF_TYPE_SOFTWARE;
	attr.config = attr.type == PERF_TYPE_SOFTWARE ? below(PERF_COUNT_SW_MAX + 1) : 0;
	if (one_in(12)) {
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = below(1200);
	}
	attr.sample_period = one_in(3) ? 1 + below(64) : 1000 + below(1000000);
	if (attr.config == PERF_COUNT_SW_CPU_CLOCK || attr.config == PERF_COUNT_SW_TASK_CLOCK)
		attr.sample_period = 100000 + below(10000000);
	attr.sample_type = one_in(5) ? 0 : PERF_SAMPLE_CALLCHAIN;
	for (i = below(6); i; i--)
		attr.sample_type |= types[below(ARRAY_SIZE(types))];
	if (one_in(5)) {
		attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
		attr.sample_regs_user = one_in(3) ? number() : 0xff0fff;
		attr.sample_stack_user = one_in(3) ? number() : 8 * below(8192);
	}
	attr.read_format = one_in(3) ? below(32) : 0;
	attr.wakeup_events = one_in(3) ? number() : 0;
	attr.sample_max_stack = one_in(3) ? number() : 0;
	attr.clockid = one_in(10) ? below(16) : 0;
	attr.disabled = one_in(4);
	attr.inherit = one_in(2);
	attr.mmap = attr.mmap2 = one_in(3);
	attr.comm = attr.task = one_in(3);
	attr.sample_id_all = one_in(2);
	attr.exclude_kernel = one_in(3);
	attr.exclude_callchain_kernel = one_in(3);
	attr.exclude_callchain_user = one_in(8);
	attr.enable_on_exec = one_in(8);
	attr.remove_on_exec = one_in(8);
	attr.inherit_thread = one_in(8);
	attr.write_backward = one_in(8);
	if (!one_in(4))
		words[FLAGS_WORD] |= BIT_DEFER;
	if (!one_in(3))
		words[FLAGS_WORD] |= BIT_OUTPUT;
	if (one_in(8))
		words[FLAGS_WORD] |= BIT_OVERWRITE;
	if (one_in(6))
		words[below(sizeof(attr) / 8)] ^= 1ULL << below(64);
	if (one_in(12))
		words[below(sizeof(attr) / 8)] = number();

	if (fds[slot] >= 0)
		close(fds[slot]);
	fds[slot] = syscall(SYS_perf_event_open, &attr, pid, cpu, group, flags);
	return fds[slot] >= 0;
}

static unsigned int any_map(void)
{
	unsigned int i = below(MAPS), n;

	for (n = 0; n < MAPS && !maps[i].at; n++)
		i = (i + 1) % MAPS;
	return i;
}

static bool unmap(void)
{
	unsigned int i = any_map();
	size_t off = 0, size = maps[i].size;

	if (!maps[i].at)
		return false;
	if (one_in(4) && size > PAGE) {
		off = PAGE * below(size / PAGE);
		size = PAGE;
	} else {
		maps[i].ring = false;
	}
	if (munmap(maps[i].at + off, size))
		return false;
	if (size == maps[i].size)
		maps[i].at = NULL;
	return true;
}

static bool map_ring(void)
{
	unsigned int i = below(MAPS);
	size_t size = PAGE * (1 + (one_in(8) ? below(64) : 1ULL << below(6)));
	int prot = PROT_READ | (one_in(3) ? 0 : PROT_WRITE);
	void *at;

	if (maps[i].at) {
		munmap(maps[i].at, maps[i].size);
		maps[i].at = NULL;
	}
	at = mmap(NULL, size, prot, one_in(10) ? MAP_PRIVATE : MAP_SHARED, any_fd(),
		  one_in(10) ? PAGE * below(64) : 0);
	if (at == MAP_FAILED)
		return false;
	maps[i].at = at;
	maps[i].size = size;
	maps[i].ring = prot & PROT_WRITE;
	return true;
}

static bool any_ioctl(void)
{
	static const unsigned long numbers[] = {
		PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_REFRESH,
		PERF_EVENT_IOC_RESET, PERF_EVENT_IOC_PERIOD, PERF_EVENT_IOC_SET_OUTPUT,
		PERF_EVENT_IOC_ID, PERF_EVENT_IOC_PAUSE_OUTPUT, PERF_EVENT_IOC_SET_FILTER,
		PERF_EVENT_IOC_MODIFY_ATTRIBUTES, IOC_UNWIND_TABLE, IOC_FLUSH_DEFERRED,
	};
	unsigned long nr = numbers[below(ARRAY_SIZE(numbers))];
	uint64_t period = 1 + below(1000);
	unsigned long arg = one_in(2) ? number() : address();

	if (nr == PERF_EVENT_IOC_SET_OUTPUT)
		arg = any_fd();
	if (nr == PERF_EVENT_IOC_PERIOD && !one_in(4))
		arg = (unsigned long)&period;
	return ioctl(any_fd(), nr, arg) >= 0;
}

/* As <linux/perf_event.h> may be older, and with room for what later kernels add */
struct table_arg {
	uint32_t	size;
	int32_t		fd;
	uint64_t	flags;
	uint64_t	table;
	uint64_t	table_size;
	uint64_t	vaddr;
	uint64_t	more[4];
};

static void damage(void *data, size_t size, unsigned int nr)
{
	while (nr--)
		((unsigned char *)data)[below(one_in(2) && size > 64 ? 64 : size)] = random64();
}

static bool supply(bool share)
{
	struct table_arg arg = {
		.size = 40, .flags = share, .table_size = share ? 0 : table_size,
	};
	unsigned char *copy = malloc(table_size);
	int file = -1, ret;

	if (!copy)
		return false;
	memcpy(copy, table, table_size);
	if (one_in(2))
		damage(copy, table_size, 1 + below(6));
	if (share) {
		arg.fd = any_fd();
	} else {
		file = open(one_in(4) ? "/proc/self/exe" : table_file, O_RDONLY | O_CLOEXEC);
		arg.fd = file;
		arg.table = (uintptr_t)copy;
		if (one_in(6))
			arg.flags = 2;
		if (one_in(5))
			arg.table_size = 0;
	}
	if (one_in(5))
		damage(&arg, sizeof(arg), 1 + below(3));
	if (one_in(20))
		arg.table = address();
	ret = ioctl(any_fd(), IOC_UNWIND_TABLE, &arg);
	if (file >= 0)
		close(file);
	free(copy);
	return !ret;
}

static bool flush(void)
{
	uint32_t arg[12] = { 32, 0, one_in(2) ? 0 : below(8) };

	if (one_in(5))
		damage(arg, sizeof(arg), 1 + below(3));
	return !ioctl(any_fd(), IOC_FLUSH_DEFERRED, arg);
}

static bool section(void)
{
	uint64_t at = one_in(4) ? address() : (uintptr_t)table;
	uint64_t size = one_in(4) ? number() : table_size;
	uint64_t start = one_in(3) ? address() : (uintptr_t)random64;
	uint64_t end = start + (one_in(4) ? number() : below(16 * PAGE));

	/* The section is in memory that the program changes. */
	if (one_in(4))
		damage(table, table_size, 1 + below(3));
	if (one_in(3))
		return !prctl(PR_UNWIND_SFRAME_DEL, start, end, 0, one_in(10));
	return !prctl(PR_UNWIND_SFRAME_ADD, at, size, start, end);
}

static bool read_records(void)
{
	struct pollfd p = { .fd = any_fd(), .events = POLLIN };
	char buf[256];

	fcntl(p.fd, F_SETFL, O_NONBLOCK);
	poll(&p, 1, 0);
	return read(p.fd, buf, one_in(2) ? sizeof(buf) : below(sizeof(buf))) > 0;
}

static bool move_tail(void)
{
	struct perf_event_mmap_page *page;
	unsigned int i = any_map();

	if (!maps[i].ring)
		return false;
	page = (void *)maps[i].at;
	__atomic_add_fetch(&counts->records, page->data_head > page->data_tail,
			   __ATOMIC_RELAXED);
	page->data_tail = one_in(10) ? number() : page->data_head;
	return true;
}

static __attribute__((noinline)) void deeper(unsigned int depth)
{
	volatile char frame[256];

	frame[below(sizeof(frame))] = depth;
	if (depth)
		deeper(depth - 1);
	else
		syscall(SYS_getppid);
	frame[0] = 1;
}

static bool faults(void)
{
	char *at = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	unsigned int i;

	if (at == MAP_FAILED)
		return false;
	for (i = 0; i < 32; i++)
		at[i * PAGE] = 1;
	mprotect(at, PAGE * (1 + below(31)), below(8));
	munmap(at, 32 * PAGE);
	return true;
}

static bool forked(bool exec)
{
	pid_t pid = one_in(4) ? vfork() : fork();

	if (!pid) {
		if (exec)
			execl("/bin/true", "true", NULL);
		_exit(0);
	}
	if (pid < 0)
		return false;
	if (one_in(4))
		kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return true;
}

static void on_signal(int sig)
{
	deeper(below(8));
}

static bool own_affinity(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(below(3), &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

static bool call(enum call nr)
{
	unsigned int i;

	switch (nr) {
	case OPEN:	return open_event();
	case RING:	return map_ring();
	case UNMAP:	return unmap();
	case PROTECT:
		i = any_map();
		return maps[i].at && !mprotect(maps[i].at, PAGE, below(8));
	case IOCTL:	return any_ioctl();
	case TABLE:	return supply(false);
	case SHARE:	return supply(true);
	case FLUSH:	return flush();
	case SECTION:	return section();
	case CLOSE:
		i = fd_slot();
		if (fds[i] < 0 || close(fds[i]))
			return false;
		fds[i] = -1;
		return true;
	case READ:	return read_records();
	case TAIL:	return move_tail();
	case WORK:
		deeper(below(one_in(10) ? 300 : 20));
		return true;
	case FAULT:	return faults();
	case FORK:	return forked(false);
	case RUN:	return forked(true);
	case SIGNAL:	return !raise(SIGUSR1);
	case AFFINITY:	return own_affinity();
	default:	return false;
	}
}

/* The page of a ring buffer that was made read-only, or a buffer that is gone */
static void on_fault(int sig)
{
	_exit(1);
}

static void child(uint64_t seed)
{
	static const enum call often[] = { OPEN, OPEN, RING, WORK, WORK, FAULT, IOCTL, TAIL,
					   SIGNAL, TABLE, SECTION, FLUSH };
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	struct rlimit files = { 64, 64 }, memory = { 512 << 20, 512 << 20 };
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
	unsigned int i;
	enum call nr;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_AS, &memory);
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &act, NULL);
	/* Events and signals of events that were asked for by chance */
	signal(SIGIO, SIG_IGN);
	signal(SIGTRAP, SIG_IGN);
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	state = seed * 0x9e3779b97f4a7c15ULL | 1;
	for (i = 0; i < 20; i++)
		random64();
	for (i = 0; i < FDS; i++)
		fds[i] = -1;
	alarm(5 + below(40));
	for (;;) {
		nr = one_in(2) ? often[below(ARRAY_SIZE(often))] : below(NR_CALLS);
		__atomic_add_fetch(&counts->tries[nr], 1, __ATOMIC_RELAXED);
		if (call(nr))
			__atomic_add_fetch(&counts->done[nr], 1, __ATOMIC_RELAXED);
	}
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1, n = 0;
	unsigned int seconds = argc > 1 ? atoi(argv[1]) : 10, i;
	time_t end = time(NULL) + seconds;
	pid_t pids[CHILDREN] = { };
	struct stat st;
	int fd;

	if (argc < 6) {
		fprintf(stderr, "usage: fuzz SECONDS SEED NMI-PMU-TYPE TABLE FILE\n");
		return 2;
	}
	nmi_type = atoi(argv[3]);
	table_file = argv[5];
	fd = open(argv[4], O_RDONLY);
	if (fd < 0 || fstat(fd, &st) || !st.st_size) {
		perror(argv[4]);
		return 1;
	}
	table_size = st.st_size;
	table = mmap(NULL, table_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (table == MAP_FAILED || counts == MAP_FAILED) {
		perror("mmap");
		return 1;
	}

	while (time(NULL) < end) {
		for (i = 0; i < CHILDREN; i++) {
			if (pids[i] > 0 && waitpid(pids[i], NULL, WNOHANG) != pids[i])
				continue;
			pids[i] = fork();
			if (!pids[i])
				child(seed + ++n * CHILDREN + i);
			n++;
			counts->children++;
		}
		usleep(100000);
	}
	for (i = 0; i < CHILDREN; i++) {
		if (pids[i] > 0) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
	}

	printf("fuzz: seed %llu, %llu children, records in %llu of the buffers that were read\n",
	       (unsigned long long)seed, (unsigned long long)counts->children,
	       (unsigned long long)counts->records);
	for (i = 0; i < NR_CALLS; i++)
		printf("fuzz: %-9s %10llu calls, %10llu succeeded\n", names[i],
		       (unsigned long long)counts->tries[i], (unsigned long long)counts->done[i]);
	return 0;
}
