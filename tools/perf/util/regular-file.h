/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_REGULAR_FILE_H
#define __PERF_REGULAR_FILE_H

int regular_file__open(const char *path);

#endif /* __PERF_REGULAR_FILE_H */
