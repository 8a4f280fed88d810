/* SPDX-License-Identifier: GPL-2.0 */
/* Forwarded: tools/include has it elsewhere. */
#include <linux/kernel.h>
