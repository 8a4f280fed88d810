/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's walker as one unit, without the lookup of regions and without deferred
 * requests; bench-kernel.h stubs the rest of the kernel.
 */
#ifndef _TEST_UNWIND_WALKER_H
#define _TEST_UNWIND_WALKER_H

#include "../../../kernel/unwind/confine.c"
#include "../../../kernel/unwind/memory.c"
#include "../../../kernel/unwind/user.c"
#ifdef CONFIG_UNWIND_USER_SFRAME
#include "../../../kernel/unwind/shared.c"
#include "../../../kernel/unwind/bare.c"
#include "../../../kernel/unwind/rules.c"
#include "../../../kernel/unwind/known.c"
#endif

#endif /* _TEST_UNWIND_WALKER_H */
