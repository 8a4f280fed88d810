// SPDX-License-Identifier: GPL-2.0
/*
 * The 32-bit half of overwrite_positions. Writes the numbers of failed cases to stdout.
 */
#include <stddef.h>

#include "lib/positions.h"
#include "lib/start32.h"

/* The compiler may generate calls of it. */
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
	int i = sizeof(text);

	text[--i] = '\n';
	do {
		text[--i] = '0' + number % 10;
		number /= 10;
	} while (number);
	sys3(NR_WRITE32, 1, text + i, sizeof(text) - i);
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
