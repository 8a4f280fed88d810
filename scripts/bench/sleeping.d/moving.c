// SPDX-License-Identifier: GPL-2.0
/*
 * moving SECONDS [WORKERS [settle]]: threads that run coroutines, as runtimes do.
 *
 * A coroutine parks in the middle of calls that are chosen at random.  Its thread goes on on
 * a stack of its own, whose outermost frame points to the coroutine's frames, and sleeps in
 * futex() until a coroutine is ready.  Meanwhile another thread resumes the parked one,
 * which returns from its calls and makes others, on the same stack.
 *
 * With "settle", every other thread is called "settler": what it parks is ready only when the
 * thread is asleep.  A sample of another thread just before it sleeps may find the stack
 * changing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define WORKERS_MAX	64
#define PER_WORKER	3
#define STACK		65536UL
#define DEPTH		8

struct coroutine {
	void		*sp;
	uint64_t	seed;
	unsigned long	rounds;
};

static struct coroutine coroutines[WORKERS_MAX * PER_WORKER];
static unsigned int nr_workers, nr_coroutines;

/* Those that are ready, under a lock that is held for a few instructions. */
static int lock;
static unsigned int head, tail;
static struct coroutine *ready[WORKERS_MAX * PER_WORKER + 1];
static int nr_ready;
static volatile int stop;

/* With "settle": what a worker has parked, until it is asleep. */
struct worker {
	int			tid;
	bool			settler;
	struct coroutine	*parked;
	int			go;
};

static struct worker workers[WORKERS_MAX];
static bool settle;

static __thread struct coroutine *current;
static __thread struct worker *self;
static __thread void *worker_sp;

#define NOINLINE __attribute__((noinline, noclone))

static inline long futex(int *word, int op, int value, const struct timespec *timeout)
{
	long ret;
	register const struct timespec *r10 asm("r10") = timeout;

	asm volatile("syscall" : "=a" (ret)
		     : "0" (__NR_futex), "D" (word), "S" (op), "d" (value), "r" (r10)
		     : "rcx", "r11", "memory");
	return ret;
}

static void acquire(void)
{
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void release(void)
{
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static void put_ready(struct coroutine *co)
{
	acquire();
	ready[head] = co;
	head = (head + 1) % (nr_coroutines + 1);
	release();
	__atomic_add_fetch(&nr_ready, 1, __ATOMIC_RELEASE);
	futex(&nr_ready, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static struct coroutine *get_ready(void)
{
	struct coroutine *co = NULL;

	acquire();
	if (head != tail) {
		co = ready[tail];
		tail = (tail + 1) % (nr_coroutines + 1);
		__atomic_sub_fetch(&nr_ready, 1, __ATOMIC_RELAXED);
	}
	release();
	return co;
}

/*
 * park(saved, sp): store the stack pointer in *saved, go on in next() on the stack sp.  As
 * in Go's mcall(), the frame pointer still points to the coroutine's frame.
 * resume(sp): return from its park().
 */
void park(void **saved, void *sp);
void resume(void *sp) __attribute__((noreturn));
asm(".text\n"
    ".type park,@function\n"
    "park:\n"
    "	push %rbp\n"
    "	mov %rsp, %rbp\n"
    "	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n	push %rbp\n"
    "	mov %rsp, (%rdi)\n"
    "	mov %rsi, %rsp\n"
    "	call next\n"
    "	ud2\n"
    ".size park, .-park\n"
    ".type resume,@function\n"
    "resume:\n"
    "	mov %rdi, %rsp\n"
    "	pop %rbp\n	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n"
    "	pop %rbp\n"
    "	ret\n"
    ".size resume, .-resume\n");

static const struct timespec patience = { .tv_nsec = 20000000 };

/* On the worker's own stack */
NOINLINE __attribute__((noreturn, used)) void next(void)
{
	struct coroutine *co = current;
	struct timespec pause;

	/* From here on, others may use its stack. */
	if (co && self->settler) {
		__atomic_store_n(&self->go, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&self->parked, co, __ATOMIC_RELEASE);
		while (!__atomic_load_n(&self->go, __ATOMIC_ACQUIRE))
			futex(&self->go, FUTEX_WAIT_PRIVATE, 0, NULL);
		co = NULL;
	} else if (co) {
		put_ready(co);
	}
	for (;;) {
		/* Some sleep although there is work, so that others take it. */
		pause.tv_sec = 0;
		pause.tv_nsec = 200000;
		if (co && co->rounds % 3 == 0) {
			int never = 0;

			futex(&never, FUTEX_WAIT_PRIVATE, 0, &pause);
		}
		co = get_ready();
		if (co)
			break;
		futex(&nr_ready, FUTEX_WAIT_PRIVATE, 0, &patience);
		if (stop)
			_exit(0);
	}
	current = co;
	resume(co->sp);
}

static NOINLINE void park_here(struct coroutine *co)
{
	park(&co->sp, worker_sp);
	asm volatile("");
}

static NOINLINE unsigned long left(struct coroutine *co, unsigned int depth);

static NOINLINE unsigned long right(struct coroutine *co, unsigned int depth)
{
	unsigned long ret = 0;

	if (!depth)
		park_here(co);
	else if (co->seed >> depth & 1)
		ret = left(co, depth - 1) + 1;
	else
		ret = right(co, depth - 1) + 3;
	asm volatile("" : "+r" (ret));
	return ret;
}

static NOINLINE unsigned long left(struct coroutine *co, unsigned int depth)
{
	unsigned long ret = 1;

	if (!depth)
		park_here(co);
	else if (co->seed >> depth & 1)
		ret = right(co, depth - 1) + 2;
	else
		ret = left(co, depth - 1) + 5;
	asm volatile("" : "+r" (ret));
	return ret;
}

static NOINLINE void coroutine(void)
{
	for (;;) {
		struct coroutine *co = current;

		co->seed = co->seed * 6364136223846793005ULL + 1442695040888963407ULL;
		co->seed ^= co->seed >> 29;
		co->rounds++;
		left(co, DEPTH);
		if (stop)
			_exit(0);
	}
}

static void make_coroutine(struct coroutine *co, unsigned int nr)
{
	void **sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int i;

	if (sp == MAP_FAILED)
		exit(1);
	co->seed = nr * 977 + 1;
	sp += STACK / sizeof(*sp) - 2;
	*sp = NULL;
	*--sp = coroutine;
	for (i = 0; i < 7; i++)
		*--sp = NULL;
	co->sp = sp;
}

/* Is the thread on no run queue? */
static bool asleep(int tid)
{
	char path[64], wchan[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/wchan", tid);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, wchan, sizeof(wchan) - 1) < 0)
		exit(1);
	close(fd);
	return strstr(wchan, "futex");
}

/* Let others have what a worker has parked, when it is asleep. */
static void settle_workers(int seconds)
{
	struct timespec pause = { .tv_nsec = 200000 }, now, end;
	bool was[WORKERS_MAX] = { };
	unsigned long rounds;
	struct coroutine *co;
	unsigned int i, wait;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	do {
		for (i = 0; i < nr_workers; i++) {
			co = __atomic_load_n(&workers[i].parked, __ATOMIC_ACQUIRE);
			if (!co)
				continue;
			if (!asleep(workers[i].tid)) {
				was[i] = false;
			} else if (!was[i]) {
				was[i] = true;
			} else {
				was[i] = false;
				workers[i].parked = NULL;
				/* Time for others to return from its calls, and make others */
				rounds = __atomic_load_n(&co->rounds, __ATOMIC_RELAXED);
				put_ready(co);
				for (wait = 0; wait < 100; wait++) {
					nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
					if (__atomic_load_n(&co->rounds, __ATOMIC_RELAXED) != rounds)
						break;
				}
				__atomic_store_n(&workers[i].go, 1, __ATOMIC_RELEASE);
				futex(&workers[i].go, FUTEX_WAKE_PRIVATE, 1, NULL);
			}
		}
		nanosleep(&pause, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
}

static void *worker(void *arg)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *saved;

	if (stack == MAP_FAILED)
		exit(1);
	worker_sp = stack + STACK - 64;
	self = arg;
	self->settler = settle && (self - workers) % 2;
	prctl(PR_SET_NAME, self->settler ? "settler" : "worker");
	self->tid = syscall(__NR_gettid);
	/*
	 * The first stack of a program is walked on its way out: what the walk needs to know
	 * is not at hand yet. That is another matter, so sleep before anything is parked.
	 */
	if (self->settler) {
		struct timespec pause = { .tv_nsec = 200000 };
		int never = 0;

		futex(&never, FUTEX_WAIT_PRIVATE, 0, &pause);
		futex(&never, FUTEX_WAIT_PRIVATE, 0, &pause);
	}
	park(&saved, worker_sp);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned int i;
	unsigned long rounds = 0;
	pthread_t thread;

	if (argc < 2)
		return 2;
	nr_workers = argc > 2 ? atoi(argv[2]) : 8;
	if (nr_workers > WORKERS_MAX)
		return 2;
	settle = argc > 3;
	nr_coroutines = nr_workers * PER_WORKER;
	for (i = 0; i < nr_coroutines; i++) {
		make_coroutine(&coroutines[i], i);
		put_ready(&coroutines[i]);
	}
	for (i = 0; i < nr_workers; i++)
		pthread_create(&thread, NULL, worker, &workers[i]);
	if (settle)
		settle_workers(atoi(argv[1]));
	else
		sleep(atoi(argv[1]));
	for (i = 0; i < nr_coroutines; i++)
		rounds += coroutines[i].rounds;
	printf("%lu rounds\n", rounds);
	fflush(stdout);
	_exit(0);
}
