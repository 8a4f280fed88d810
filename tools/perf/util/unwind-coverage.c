// SPDX-License-Identifier: GPL-2.0
/*
 * Records which files had an unwind table, and when. A file may get its table while
 * samples are taken, and may lose it when it is replaced. Each such change is kept
 * with its time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "util/hashmap.h"
#include "util/unwind-coverage.h"

/* At most this many changes are kept per file, to limit the memory. */
#define MAX_CHANGES	8

/**
 * struct unwind_coverage_change - A file got a table, or lost it
 * @time:	Time of the change
 * @gen:	Generation of the inode, 0 if it is not known
 * @before:	The file was covered before, if this is the first change of @gen
 * @is_covered:	The file is covered from @time on
 */
struct unwind_coverage_change {
	u64	time;
	u64	gen;
	bool	before;
	bool	is_covered;
};

/**
 * struct unwind_coverage_file - All files with the same device and inode number
 * @id:		Device and inode number; the generation is not used
 * @name:	Last name
 * @changes:	Changes, sorted by time
 * @nr:		Number of changes
 * @is_late:	unwind_coverage__find() has returned %UNWIND_COVERAGE_LATE
 */
struct unwind_coverage_file {
	struct unwind_coverage_id	id;
	char				*name;
	struct unwind_coverage_change	changes[MAX_CHANGES];
	unsigned int			nr;
	bool				is_late;
};

/**
 * struct unwind_coverage - What is known about all files
 * @files:	The files
 * @is_lacking:	A file was not covered after a change
 * @full_since:	Before this time a file was not covered
 */
struct unwind_coverage {
	struct hashmap	*files;
	bool		is_lacking;
	u64		full_since;
};

static size_t id_hash(long key, void *ctx __maybe_unused)
{
	const struct unwind_coverage_id *id = (void *)key;

	return id->ino * 31 + id->dev;
}

static bool id_equal(long a, long b, void *ctx __maybe_unused)
{
	const struct unwind_coverage_id *x = (void *)a, *y = (void *)b;

	return x->ino == y->ino && x->dev == y->dev;
}

struct unwind_coverage *unwind_coverage__new(void)
{
	struct unwind_coverage *coverage = zalloc(sizeof(*coverage));

	if (!coverage)
		return NULL;

	coverage->files = hashmap__new(id_hash, id_equal, NULL);
	if (IS_ERR(coverage->files)) {
		free(coverage);
		return NULL;
	}

	return coverage;
}

void unwind_coverage__delete(struct unwind_coverage *coverage)
{
	struct unwind_coverage_file *file;
	struct hashmap_entry *cur;
	size_t bkt;

	if (!coverage)
		return;

	hashmap__for_each_entry(coverage->files, cur, bkt) {
		file = cur->pvalue;
		free(file->name);
		free(file);
	}
	hashmap__free(coverage->files);
	free(coverage);
}

static struct unwind_coverage_file *find_file(const struct unwind_coverage *coverage,
					      const struct unwind_coverage_id *id)
{
	struct unwind_coverage_file *file = NULL;

	hashmap__find(coverage->files, id, &file);
	return file;
}

static struct unwind_coverage_file *findnew_file(struct unwind_coverage *coverage,
						 const struct unwind_coverage_id *id,
						 const char *name)
{
	struct unwind_coverage_file *file = find_file(coverage, id);
	char *new_name = strdup(name);

	if (!new_name)
		return NULL;

	if (!file) {
		file = zalloc(sizeof(*file));
		if (file)
			file->id = *id;
		if (!file || hashmap__add(coverage->files, &file->id, file)) {
			free(file);
			free(new_name);
			return NULL;
		}
	}

	free(file->name);
	file->name = new_name;
	return file;
}

/* File systems reuse inode numbers. An unknown generation matches any generation. */
static bool is_same_gen(u64 a, u64 b)
{
	return !a || !b || a == b;
}

/*
 * Returns the change that holds at @time. If there is none, sets @is_before and
 * returns the first change.
 */
static const struct unwind_coverage_change *
find_change(const struct unwind_coverage_file *file, u64 gen, u64 time, bool *is_before)
{
	const struct unwind_coverage_change *change, *found = NULL;
	unsigned int i;

	*is_before = false;
	for (i = 0; i < file->nr; i++) {
		change = &file->changes[i];
		if (!is_same_gen(change->gen, gen))
			continue;
		if (change->time > time) {
			*is_before = !found;
			return found ?: change;
		}
		found = change;
	}

	return found;
}

static const struct unwind_coverage_change *
last_change(const struct unwind_coverage_file *file, u64 gen)
{
	bool is_before;

	return find_change(file, gen, ~0ULL, &is_before);
}

static void note_change(struct unwind_coverage *coverage,
			const struct unwind_coverage_change *change)
{
	coverage->is_lacking |= !change->is_covered;
	if (!change->before && change->time > coverage->full_since)
		coverage->full_since = change->time;
}

/**
 * unwind_coverage__set - Note whether a file has a table
 * @coverage:	Receives the note
 * @id:		The file
 * @name:	Its name, for unwind_coverage__walk_none()
 * @time:	Time from which this holds; 0 if it is not known
 * @before:	The file was covered before; only used for the first note
 * @is_covered:	The file has a table, or no table can be made for it
 *
 * Return: 0; -ENOMEM.
 */
int unwind_coverage__set(struct unwind_coverage *coverage, const struct unwind_coverage_id *id,
			 const char *name, u64 time, bool before, bool is_covered)
{
	struct unwind_coverage_file *file = findnew_file(coverage, id, name);
	const struct unwind_coverage_change *last;
	struct unwind_coverage_change change = {
		.gen = id->gen, .before = before, .is_covered = is_covered,
	};

	if (!file)
		return -ENOMEM;

	last = last_change(file, id->gen);
	if (last && last->is_covered == is_covered && last->gen == id->gen)
		return 0;

	/* Threads read the time before they lock, so it may be out of order. */
	change.time = time;
	if (file->nr && file->changes[file->nr - 1].time > time)
		change.time = file->changes[file->nr - 1].time;
	if (last)
		change.before = last->is_covered;

	/* If there are too many changes, this one replaces the last one. */
	if (file->nr == MAX_CHANGES)
		file->nr--;
	file->changes[file->nr++] = change;
	note_change(coverage, &change);

	return 0;
}

/**
 * unwind_coverage__copy - Note that two mappings are of the same file
 * @coverage:	Receives the note
 * @id:		The file, as one mapping identifies it
 * @name:	Its name
 * @from:	The same file, as the other mapping identifies it
 *
 * This copies the notes about @from to @id.
 *
 * Return: 0; -ENOENT - there is no note about @from; -EEXIST - there is a note about
 *	   @id; -ENOMEM.
 */
int unwind_coverage__copy(struct unwind_coverage *coverage, const struct unwind_coverage_id *id,
			  const char *name, const struct unwind_coverage_id *from)
{
	const struct unwind_coverage_file *source = find_file(coverage, from);
	struct unwind_coverage_file *file;
	unsigned int i;

	if (!source || !unwind_coverage__has(coverage, from))
		return -ENOENT;
	if (find_file(coverage, id))
		return -EEXIST;

	file = findnew_file(coverage, id, name);
	if (!file)
		return -ENOMEM;
	for (i = 0; i < source->nr; i++) {
		if (!is_same_gen(source->changes[i].gen, from->gen))
			continue;
		file->changes[file->nr] = source->changes[i];
		file->changes[file->nr++].gen = id->gen;
	}

	return 0;
}

/* Is there a note about the file? */
bool unwind_coverage__has(const struct unwind_coverage *coverage,
			  const struct unwind_coverage_id *id)
{
	const struct unwind_coverage_file *file = find_file(coverage, id);

	return file && last_change(file, id->gen);
}

/* Were all files covered from @time on? Then no file needs a lookup. */
bool unwind_coverage__is_full(const struct unwind_coverage *coverage, u64 time)
{
	return !coverage->is_lacking && time >= coverage->full_since;
}

/**
 * unwind_coverage__find - Could the kernel unwind through a file at a given time?
 * @coverage:	Has the notes
 * @id:		The file
 * @time:	Time; ~0 for the end
 *
 * Return: the state; UNWIND_COVERAGE_FULL if there is no note about the file.
 */
enum unwind_coverage_state unwind_coverage__find(struct unwind_coverage *coverage,
						 const struct unwind_coverage_id *id, u64 time)
{
	struct unwind_coverage_file *file = find_file(coverage, id);
	const struct unwind_coverage_change *change;
	bool is_before;

	change = file ? find_change(file, id->gen, time, &is_before) : NULL;
	if (!change || (is_before ? change->before : change->is_covered))
		return UNWIND_COVERAGE_FULL;

	if (!last_change(file, id->gen)->is_covered)
		return UNWIND_COVERAGE_NONE;

	file->is_late = true;
	return UNWIND_COVERAGE_LATE;
}

/**
 * unwind_coverage__walk_none - Go through the files that have no table at the end
 * @coverage:	Has the notes
 * @fn:		Called with the name of each file, or NULL
 * @arg:	For @fn
 *
 * Return: the number of files.
 */
size_t unwind_coverage__walk_none(const struct unwind_coverage *coverage,
				  unwind_coverage_fn fn, void *arg)
{
	const struct unwind_coverage_file *file;
	struct hashmap_entry *cur;
	size_t bkt, nr = 0;

	hashmap__for_each_entry(coverage->files, cur, bkt) {
		file = cur->pvalue;
		if (!file->nr || file->changes[file->nr - 1].is_covered)
			continue;
		nr++;
		if (fn)
			fn(file->name, arg);
	}

	return nr;
}

/* For how many files did unwind_coverage__find() return %UNWIND_COVERAGE_LATE? */
size_t unwind_coverage__nr_late(const struct unwind_coverage *coverage)
{
	const struct unwind_coverage_file *file;
	struct hashmap_entry *cur;
	size_t bkt, nr = 0;

	hashmap__for_each_entry(coverage->files, cur, bkt) {
		file = cur->pvalue;
		nr += file->is_late;
	}

	return nr;
}
