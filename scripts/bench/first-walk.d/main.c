// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a system call below functions of many libraries: three times by one chain of functions,
 * then three times by another one in the same libraries. When these walks begin, tables are
 * there. Prints nothing; what is of interest is when its samples and their stacks were written.
 */
#include <unistd.h>
#include <sys/syscall.h>

long first0(long (*call)(void));
long second0(long (*call)(void));

static __attribute__((noinline)) long call(void)
{
	/* Without the C library, which would be one more file */
	long ret;

	asm volatile("syscall" : "=a" (ret) : "a" (SYS_getppid) : "rcx", "r11", "memory");
	return ret;
}

int main(void)
{
	long sum = 0;
	int i;

	/* The walks of this process have seen nothing yet; perf may have its tables ready. */
	sleep(5);
	for (i = 0; i < 3; i++)
		sum += first0(call);
	for (i = 0; i < 3; i++)
		sum += second0(call);
	return sum == 1;
}
