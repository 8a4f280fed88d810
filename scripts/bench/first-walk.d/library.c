// SPDX-License-Identifier: GPL-2.0
/*
 * Library number N of a chain. It has two functions; each calls its like in library NEXT. The
 * last library has no NEXT: its functions call the function that main() passes down.
 */
#define GLUE2(a, b)	a##b
#define GLUE(a, b)	GLUE2(a, b)

#ifdef NEXT
long GLUE(first, NEXT)(long (*call)(void));
long GLUE(second, NEXT)(long (*call)(void));
#endif

long GLUE(first, N)(long (*call)(void))
{
#ifdef NEXT
	return GLUE(first, NEXT)(call) + 1;
#else
	return call() + 1;
#endif
}

long GLUE(second, N)(long (*call)(void))
{
#ifdef NEXT
	return GLUE(second, NEXT)(call) ^ 1;
#else
	return call() ^ 1;
#endif
}
