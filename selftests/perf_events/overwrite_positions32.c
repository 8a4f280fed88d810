// SPDX-License-Identifier: GPL-2.0
/* The 32-bit half of overwrite_positions: no C library.  Says by write() what is wrong. */
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t n);

#include "overwrite_positions.h"

asm(".globl _start\n"
"_start:\n"
"	xor	%ebp, %ebp\n"
"	and	$-16, %esp\n"
"	call	main\n"
"	mov	%eax, %ebx\n"
"	mov	$1, %eax\n"
"	int	$0x80\n");

/* What the compiler may call. */
void *memcpy(void *to, const void *from, size_t n)
{
	char *dst = to;
	const char *src = from;

	while (n--)
		*dst++ = *src++;
	return to;
}

static void write_number(int number)
{
	char text[16];
	int i = sizeof(text), ret;

	text[--i] = '\n';
	do {
		text[--i] = '0' + number % 10;
		number /= 10;
	} while (number);
	asm volatile("int $0x80" : "=a" (ret)
		     : "0" (4), "b" (1), "c" (text + i), "d" (sizeof(text) - i)
		     : "memory");
}

int main(void)
{
	int bad, ret = 0;

	for (kernel_is_32bit = 0; kernel_is_32bit < 2; kernel_is_32bit++) {
		bad = positions_check();
		write_number(bad);
		ret |= !!bad << kernel_is_32bit;
	}
	return ret;
}
