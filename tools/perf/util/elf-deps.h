/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_ELF_DEPS_H
#define __PERF_ELF_DEPS_H

#include <stdbool.h>

typedef int (*elf_deps_fn)(const char *path, void *arg);

int elf_deps__for_each(const char *command, elf_deps_fn fn, void *arg);
bool elf_deps__has_sframe(int fd);

#endif /* __PERF_ELF_DEPS_H */
