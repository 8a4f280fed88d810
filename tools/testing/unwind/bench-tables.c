// SPDX-License-Identifier: GPL-2.0
/* The walker of a kernel with CONFIG_UNWIND_USER_SFRAME. */
#define CONFIG_UNWIND_USER_SFRAME

#include "walker.h"
