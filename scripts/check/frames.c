// SPDX-License-Identifier: GPL-2.0
/*
 * A program with a known stack: _start, main, outer and a chain of calls down to
 * one that computes or makes a system call.  Static and without a C library, so
 * that every function has a frame pointer and the stack begins at _start.
 */

#define NOINLINE	__attribute__((noinline))
#define DEPTH		16

/* GCC leaves the frame out of a function that calls none, whatever it is told. */
#define FRAME()		asm volatile("" : : "r" (__builtin_frame_address(0)))

static volatile unsigned long counter;

static long syscall1(long nr, long arg)
{
	long ret;

	asm volatile("syscall" : "=a" (ret) : "a" (nr), "D" (arg)
		     : "rcx", "r11", "memory");
	return ret;
}

NOINLINE void compute(void)
{
	FRAME();
	for (int i = 0; i < 20000; i++)
		counter += i;
}

/* getppid() and getpriority(): short, but in the kernel. */
NOINLINE void call_kernel(void)
{
	FRAME();
	for (int i = 0; i < 200; i++) {
		syscall1(110, 0);
		syscall1(140, 0);
	}
}

NOINLINE void descend(int depth)
{
	if (depth > 0)
		descend(depth - 1);
	else if (counter & 1)
		compute();
	else
		call_kernel();
	/* Not a tail call. */
	counter++;
}

NOINLINE int main(void)
{
	for (int i = 0; i < 12000; i++)
		descend(DEPTH);
	return 0;
}

/* As the C library does it: a frame pointer of 0 marks the outermost frame. */
asm(".globl _start\n"
    ".type _start, @function\n"
    "_start:\n"
    "	xor	%ebp, %ebp\n"
    "	and	$-16, %rsp\n"
    "	call	main\n"
    "	mov	%eax, %edi\n"
    "	mov	$231, %eax\n"
    "	syscall\n"
    ".size _start, . - _start\n");
