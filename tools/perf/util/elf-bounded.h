/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_ELF_BOUNDED_H
#define __PERF_ELF_BOUNDED_H

#include <gelf.h>

int elf_bounded__begin(int fd, Elf **elf);

#endif /* __PERF_ELF_BOUNDED_H */
