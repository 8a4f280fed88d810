// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a system call below functions of many libraries: three times by one chain of functions,
 * then three times by another one in the same libraries. The profiler sees when.
 */
#include <unistd.h>
#include <sys/syscall.h>

long first0(long (*call)(void));
long second0(long (*call)(void));

static __attribute__((noinline)) long call(void)
{
	/* Called here, so that no function of the C library is on the stack */
	long ret;

	asm volatile("syscall" : "=a" (ret) : "a" (SYS_getppid) : "rcx", "r11", "memory");
	return ret;
}

int main(void)
{
	long sum = 0;
	int i;

	/* perf supplies its tables meanwhile. No walk has seen the libraries. */
	sleep(5);
	for (i = 0; i < 3; i++)
		sum += first0(call);
	for (i = 0; i < 3; i++)
		sum += second0(call);
	return sum == 1;
}
