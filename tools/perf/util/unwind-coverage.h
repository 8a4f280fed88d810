/* SPDX-License-Identifier: GPL-2.0 */
/* Records which files had an unwind table, and when */
#ifndef __PERF_UNWIND_COVERAGE_H
#define __PERF_UNWIND_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <linux/types.h>

struct unwind_coverage;

/**
 * struct unwind_coverage_id - Identifies a file by the numbers of its mapping
 * @dev:	Device
 * @ino:	Inode number
 * @gen:	Generation of the inode, 0 if it is not known
 *
 * A name does not identify a file: files in several mount namespaces may have the
 * same name.
 */
struct unwind_coverage_id {
	dev_t	dev;
	u64	ino;
	u64	gen;
};

/**
 * enum unwind_coverage_state - Could the kernel unwind through a file?
 * @UNWIND_COVERAGE_FULL:	Yes, or no table can be made for the file
 * @UNWIND_COVERAGE_LATE:	No, but it could later
 * @UNWIND_COVERAGE_NONE:	No, and the file has no table at the end either
 */
enum unwind_coverage_state {
	UNWIND_COVERAGE_FULL,
	UNWIND_COVERAGE_LATE,
	UNWIND_COVERAGE_NONE,
};

typedef void (*unwind_coverage_fn)(const char *name, void *arg);

struct unwind_coverage *unwind_coverage__new(void);
void unwind_coverage__delete(struct unwind_coverage *coverage);
int unwind_coverage__set(struct unwind_coverage *coverage, const struct unwind_coverage_id *id,
			 const char *name, u64 time, bool before, bool is_covered);
int unwind_coverage__copy(struct unwind_coverage *coverage, const struct unwind_coverage_id *id,
			  const char *name, const struct unwind_coverage_id *from);
bool unwind_coverage__has(const struct unwind_coverage *coverage,
			  const struct unwind_coverage_id *id);
bool unwind_coverage__is_full(const struct unwind_coverage *coverage, u64 time);
enum unwind_coverage_state unwind_coverage__find(struct unwind_coverage *coverage,
						 const struct unwind_coverage_id *id, u64 time);
size_t unwind_coverage__walk_none(const struct unwind_coverage *coverage,
				  unwind_coverage_fn fn, void *arg);
size_t unwind_coverage__nr_late(const struct unwind_coverage *coverage);

#endif /* __PERF_UNWIND_COVERAGE_H */
