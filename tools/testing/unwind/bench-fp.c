// SPDX-License-Identifier: GPL-2.0
/* The walker of a kernel without CONFIG_UNWIND_USER_SFRAME. */
#define unwind_user_walk	bench_unwind_user_fp_walk
#define unwind_user_next	bench_unwind_user_fp_next
#define unwind_user_start	bench_unwind_user_fp_start
#define unwind_user_peek	bench_unwind_user_fp_peek
#define unwind_user_peek_pair	bench_unwind_user_fp_peek_pair
#define unwind_user_load	bench_unwind_user_fp_load
#define unwind_user_may_load	bench_unwind_user_fp_may_load
#define unwind_user_read	bench_unwind_user_fp_read
#define unwind_user_on_stack	bench_unwind_user_fp_on_stack
#define unwind_user_at_code	bench_unwind_user_fp_at_code

#include "walker.h"
