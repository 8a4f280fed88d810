// SPDX-License-Identifier: GPL-2.0
/* SFrame tables made by several threads */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <linux/compiler.h>

#include "util/debug.h"
#include "tests.h"

#ifdef HAVE_DWARF_SUPPORT
#include <elf.h>

#include "util/sframe-cfi.h"
#include "util/sframe-parallel.h"
#include "tests/sframe-cfi-image.h"

/* A large section, but not one that is too large */
#define LARGE		((off_t)128 << 20)
#define NR_LARGE	4
/* Long enough for the other threads to read their files, if nothing prevents it */
#define LARGE_USEC	200000

static void open_large(size_t index __maybe_unused, void *arg)
{
	const int *fd = arg;
	struct sframe_cfi *cfi;

	if (sframe_cfi__open(*fd, &cfi))
		return;
	usleep(LARGE_USEC);
	sframe_cfi__delete(cfi);
}

/* Several large files at a time must not take several times the memory. */
static int test__sframe_cfi_large(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct image image;
	Elf64_Shdr *shdrs;
	Elf64_Ehdr *ehdr;
	long before, now;
	int fd;

	sframe_image__build(&image);
	ehdr = (void *)image.data;
	shdrs = (void *)image.data + ehdr->e_shoff;
	shdrs[1].sh_size = LARGE;
	fd = sframe_image__open(&image);
	TEST_ASSERT_VAL("file", fd >= 0);
	TEST_ASSERT_VAL("hole", !ftruncate(fd, 2 * LARGE));

	before = peak_memory();
	sframe_parallel__run(NR_LARGE, NR_LARGE, open_large, &fd);
	now = peak_memory();
	close(fd);

	pr_debug("%ld KiB\n", now - before);
	TEST_ASSERT_VAL("it was read", now - before >= LARGE >> 10);
	TEST_ASSERT_VAL("no more memory", now - before < (LARGE >> 10) + MEMORY_MAX);

	return TEST_OK;
}

struct signal_threads {
	pthread_t	caller;
	unsigned int	nr;
	unsigned int	nr_blocked;
};

static void check_signals(size_t index __maybe_unused, void *arg)
{
	struct signal_threads *threads = arg;
	sigset_t set;

	/* Sleep, so that each thread gets one item. */
	usleep(LARGE_USEC);
	if (pthread_equal(pthread_self(), threads->caller))
		return;

	__atomic_fetch_add(&threads->nr, 1, __ATOMIC_RELAXED);
	if (!pthread_sigmask(SIG_SETMASK, NULL, &set) && sigismember(&set, SIGUSR2) &&
	    sigismember(&set, SIGINT) && sigismember(&set, SIGALRM))
		__atomic_fetch_add(&threads->nr_blocked, 1, __ATOMIC_RELAXED);
}

/* Signal handlers must run in the calling thread, because signals have to wake it. */
static int test__sframe_cfi_signals(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	struct signal_threads threads = { .caller = pthread_self() };
	sigset_t set;

	sframe_parallel__run(NR_LARGE, NR_LARGE, check_signals, &threads);
	TEST_ASSERT_VAL("threads", threads.nr > 0);
	TEST_ASSERT_EQUAL("threads without signals", threads.nr_blocked, threads.nr);
	TEST_ASSERT_VAL("mask", !pthread_sigmask(SIG_SETMASK, NULL, &set));
	TEST_ASSERT_VAL("the caller has them", !sigismember(&set, SIGUSR2));

	return TEST_OK;
}

#else /* !HAVE_DWARF_SUPPORT */

static int test__sframe_cfi_large(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__sframe_cfi_signals(struct test_suite *test __maybe_unused,
				    int subtest __maybe_unused)
{
	return TEST_SKIP;
}

#endif /* HAVE_DWARF_SUPPORT */

static struct test_case tests__sframe_threads[] = {
	TEST_CASE_REASON("Many large files", sframe_cfi_large, "not built with libdw"),
	TEST_CASE_REASON("Signals of threads", sframe_cfi_signals, "not built with libdw"),
	{	.name = NULL, }
};

struct test_suite suite__sframe_threads = {
	.desc = "SFrame tables made by threads",
	.test_cases = tests__sframe_threads,
};
