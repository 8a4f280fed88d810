/* SPDX-License-Identifier: GPL-2.0 */
/* Forwarded: the kernel's own, without all other headers of the kernel. */
#include "../../../../../include/linux/unwind_user_rule.h"
