/* SPDX-License-Identifier: GPL-2.0 */
/* Forwarded: the kernel's own, without all other headers of the kernel. */
#include "../../../../../arch/x86/include/asm/sframe.h"
