// SPDX-License-Identifier: GPL-2.0
/* The walker of a kernel with CONFIG_UNWIND_USER_SFRAME. */
#define CONFIG_UNWIND_USER_SFRAME

#include "../../../kernel/unwind/user.c"
#include "../../../kernel/unwind/rules.c"

#include "bench.h"

void bench_forget_rules(void)
{
	struct unwind_user_sections *sections = current->mm->unwind_sections;

	unwind_user_shared_free(sections->shared);
	sections->shared = NULL;
}
