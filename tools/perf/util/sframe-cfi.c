// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables from call frame information (CFI)
 *
 * libdw reads the CFI. For an address it finds the CFA, the return address and the
 * saved registers, and the next address at which they change. The code here finds
 * the functions (FDEs), goes through their rows, and translates the rows into the
 * few forms that the SFrame format has.
 *
 * Files may be hostile. libdw limits what it reads, but not its time and memory. So
 * libdw gets only a copy of the section, and the copy has only programs that were
 * checked before.
 *
 * This part opens the file and finds its code, its sections with CFI and its
 * build-id.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/time64.h>
#include <linux/zalloc.h>

#include "util/elf-bounded.h"
#include "util/sframe-cfi-internal.h"
#include "util/sframe-ranges.h"

/* Older headers do not have it. */
#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND	0x70000001
#endif

/*
 * libelf reads whole sections. In a sparse file even large sections cost its owner
 * nothing. So this limits the size of all sections that are read from a file.
 */
#define SFRAME_CFI_SIZE_MAX	(256U << 20)

/*
 * One thread per CPU reads files, and each needs memory of several times the size of
 * a section. So only one thread at a time may read a file with more than this. Most
 * files have less.
 */
#define SFRAME_CFI_SIZE_SMALL	(4U << 20)

/* Larger notes are ignored. Files with more section names are refused. */
#define SFRAME_NOTE_SIZE_MAX	SZ_64K
#define SFRAME_NAMES_SIZE_MAX	SZ_1M

/* At most this many segments with code are used. */
#define SFRAME_SEGMENTS_MAX	1024

/*
 * All data that a table depends on goes into the fingerprint. The build-id is not
 * enough, because a file can have any build-id. Before data of
 * variable length perf adds the length.
 */
static void sframe_cfi__mix(struct sframe_cfi *cfi, u64 value)
{
	__le64 raw = cpu_to_le64(value);

	if (!cfi->bounds)
		sha256__add(&cfi->sha, &raw, sizeof(raw));
}

static void sframe_cfi__mix_data(struct sframe_cfi *cfi, const Elf_Data *data)
{
	sframe_cfi__mix(cfi, data ? data->d_size : 0);
	if (data && data->d_buf && !cfi->bounds)
		sha256__add(&cfi->sha, data->d_buf, data->d_size);
}

/* The thread with the one large file holds this mutex until sframe_cfi__delete(). */
static pthread_mutex_t sframe_cfi_large = PTHREAD_MUTEX_INITIALIZER;

/*
 * How many threads have had it, and the number of the one that others have waited for too long:
 * it may wait itself, for a file system that does not answer. Both are atomic.
 */
static unsigned long sframe_cfi_holder;
static unsigned long sframe_cfi_stuck = ULONG_MAX;

/* For how long others wait for one thread */
#define SFRAME_CFI_WAIT_MS	120000
#define SFRAME_CFI_POLL_MS	20

/* Returns false if the thread that has the mutex seems to be stuck, or if this one is to stop. */
static bool sframe_cfi__wait(const struct sframe_cfi *cfi)
{
	const struct timespec poll = { .tv_nsec = SFRAME_CFI_POLL_MS * NSEC_PER_MSEC };
	unsigned long holder, seen = ULONG_MAX;
	unsigned int ms = 0;

	while (pthread_mutex_trylock(&sframe_cfi_large)) {
		holder = __atomic_load_n(&sframe_cfi_holder, __ATOMIC_RELAXED);
		if (holder != seen)
			ms = 0;
		seen = holder;
		if (ms >= SFRAME_CFI_WAIT_MS)
			__atomic_store_n(&sframe_cfi_stuck, holder, __ATOMIC_RELAXED);
		if (__atomic_load_n(&sframe_cfi_stuck, __ATOMIC_RELAXED) == holder)
			return false;
		if (sframe_cfi__is_stopped(cfi))
			return false;
		nanosleep(&poll, NULL);
		ms += SFRAME_CFI_POLL_MS;
	}

	__atomic_fetch_add(&sframe_cfi_holder, 1, __ATOMIC_RELAXED);
	return true;
}

/*
 * May @size more bytes be read? Takes the mutex, if it gets it, when the file becomes large. If
 * the thread is told to stop while it waits for the mutex, it must not read them.
 */
bool sframe_cfi__afford(struct sframe_cfi *cfi, u64 size)
{
	if (size > SFRAME_CFI_SIZE_MAX - cfi->read)
		return false;

	/* To find bounds needs little more memory than the section itself. */
	if (!cfi->bounds && !cfi->large && size > SFRAME_CFI_SIZE_SMALL - cfi->read) {
		cfi->alone = sframe_cfi__wait(cfi);
		if (!cfi->alone && sframe_cfi__is_stopped(cfi))
			return false;
		cfi->large = true;
	}

	cfi->read += size;
	return true;
}

/* Finds the segments with code. CFI for other addresses is of no use. */
static int sframe_cfi__find_segments(struct sframe_cfi *cfi)
{
	size_t i, nr;
	GElf_Phdr phdr;

	if (elf_getphdrnum(cfi->elf, &nr))
		return -EINVAL;

	cfi->segments = calloc(SFRAME_SEGMENTS_MAX, sizeof(*cfi->segments));
	if (!cfi->segments)
		return -ENOMEM;

	for (i = 0; i < nr && cfi->nr_segments < SFRAME_SEGMENTS_MAX; i++) {
		if (!gelf_getphdr(cfi->elf, i, &phdr))
			return -EINVAL;
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) || !phdr.p_filesz)
			continue;
		if (phdr.p_vaddr + phdr.p_filesz < phdr.p_vaddr)
			return -EINVAL;

		cfi->segments[cfi->nr_segments].start = phdr.p_vaddr;
		cfi->segments[cfi->nr_segments].end = phdr.p_vaddr + phdr.p_filesz;
		cfi->nr_segments++;
	}

	if (!cfi->nr_segments)
		return -ENODATA;

	qsort(cfi->segments, cfi->nr_segments, sizeof(*cfi->segments),
	      sframe_segment__cmp);
	sframe_cfi__mix(cfi, cfi->nr_segments);
	for (i = 0; i < cfi->nr_segments; i++) {
		if (i && cfi->segments[i].start < cfi->segments[i - 1].end)
			return -EINVAL;
		cfi->code += cfi->segments[i].end - cfi->segments[i].start;
		sframe_cfi__mix(cfi, cfi->segments[i].start);
		sframe_cfi__mix(cfi, cfi->segments[i].end);
	}

	return 0;
}

/* Limits [@start, @end) to the segment that contains @start. */
bool sframe_cfi__clip(const struct sframe_cfi *cfi, u64 *start, u64 *end)
{
	size_t lo = 0, hi = cfi->nr_segments, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (cfi->segments[mid].start <= *start)
			lo = mid + 1;
		else
			hi = mid;
	}

	if (!lo || *start >= cfi->segments[lo - 1].end)
		return false;

	*end = min(*end, cfi->segments[lo - 1].end);
	return *start < *end;
}

static void sframe_cfi__read_build_id(struct sframe_cfi *cfi, Elf_Scn *scn,
				      const GElf_Shdr *shdr)
{
	size_t off = 0, name_off, desc_off;
	Elf_Data *data = NULL;
	GElf_Nhdr nhdr;

	if (cfi->bid.size)
		return;
	if (shdr->sh_size <= SFRAME_NOTE_SIZE_MAX && sframe_cfi__afford(cfi, shdr->sh_size))
		data = elf_getdata(scn, NULL);
	if (!data)
		return;

	while ((off = gelf_getnote(data, off, &nhdr, &name_off, &desc_off)) > 0) {
		if (nhdr.n_type != NT_GNU_BUILD_ID ||
		    nhdr.n_namesz != sizeof(ELF_NOTE_GNU) ||
		    memcmp(data->d_buf + name_off, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)))
			continue;
		if (nhdr.n_descsz && nhdr.n_descsz <= BUILD_ID_SIZE)
			build_id__init(&cfi->bid, data->d_buf + desc_off, nhdr.n_descsz);
		return;
	}
}

/* Finds the section with names. libelf reads all names when it is asked for one. */
static int sframe_cfi__find_names(struct sframe_cfi *cfi, size_t *shstrndx)
{
	GElf_Shdr shdr;

	if (elf_getshdrstrndx(cfi->elf, shstrndx) || !*shstrndx ||
	    !gelf_getshdr(elf_getscn(cfi->elf, *shstrndx), &shdr))
		return -ENODATA;
	if (shdr.sh_type != SHT_STRTAB || (shdr.sh_flags & SHF_COMPRESSED))
		return -EINVAL;

	return shdr.sh_size <= SFRAME_NAMES_SIZE_MAX &&
	       sframe_cfi__afford(cfi, shdr.sh_size) ? 0 : -EFBIG;
}

static int sframe_cfi__read_section(struct sframe_cfi *cfi, Elf_Scn *scn,
				    const GElf_Shdr *shdr, u8 which)
{
	struct sframe_cfi_source *source = &cfi->source[which];
	GElf_Chdr chdr;

	if (!sframe_cfi__afford(cfi, shdr->sh_size))
		return -EFBIG;

	if (which == SFRAME_SOURCE_DEBUG && (shdr->sh_flags & SHF_COMPRESSED)) {
		if (!gelf_getchdr(scn, &chdr))
			return -EINVAL;
		if (!sframe_cfi__afford(cfi, chdr.ch_size))
			return -EFBIG;
		if (elf_compress(scn, 0, 0) < 0)
			return -EINVAL;
	}

	source->data = elf_rawdata(scn, NULL);
	source->eh = which == SFRAME_SOURCE_EH;
	/* libdw assumes that .debug_frame is at address 0. */
	source->addr = source->eh ? shdr->sh_addr : 0;

	sframe_cfi__mix(cfi, which);
	sframe_cfi__mix(cfi, shdr->sh_addr);
	sframe_cfi__mix_data(cfi, source->data);

	return 0;
}

/* Finds the code, the build-id and the sections with CFI. */
static int sframe_cfi__find_sections(struct sframe_cfi *cfi)
{
	bool seen[SFRAME_SOURCE_NR] = { };
	Elf_Scn *scn = NULL;
	u64 code = 0, end;
	size_t shstrndx;
	const char *name;
	GElf_Shdr shdr;
	int err;
	u8 which;

	err = sframe_cfi__find_names(cfi, &shstrndx);
	if (err)
		return err;

	while ((scn = elf_nextscn(cfi->elf, scn)) != NULL) {
		if (!gelf_getshdr(scn, &shdr))
			return -EINVAL;

		end = shdr.sh_addr + shdr.sh_size;
		if (shdr.sh_type == SHT_PROGBITS && (shdr.sh_flags & SHF_EXECINSTR) &&
		    sframe_cfi__clip(cfi, &shdr.sh_addr, &end))
			code += end - shdr.sh_addr;

		if (shdr.sh_type == SHT_NOTE)
			sframe_cfi__read_build_id(cfi, scn, &shdr);

		name = elf_strptr(cfi->elf, shstrndx, shdr.sh_name);
		if (!name)
			continue;

		if (!strcmp(name, ".eh_frame"))
			which = SFRAME_SOURCE_EH;
		else if (!strcmp(name, ".debug_frame") && !cfi->bounds)
			which = SFRAME_SOURCE_DEBUG;
		else
			continue;

		/* Only the first section of a name counts, even if it is invalid. */
		if (seen[which])
			continue;
		seen[which] = true;

		if (shdr.sh_type != SHT_PROGBITS && shdr.sh_type != SHT_X86_64_UNWIND)
			continue;

		err = sframe_cfi__read_section(cfi, scn, &shdr, which);
		if (err)
			return err;
	}

	/* Sections are more exact than segments, but they can overlap. */
	if (code && code < cfi->code)
		cfi->code = code;
	sframe_cfi__mix(cfi, cfi->code);

	return 0;
}

static bool sframe_cfi__is_supported(const struct sframe_cfi *cfi, const GElf_Ehdr *ehdr)
{
	if (ehdr->e_ident[EI_DATA] != ELFDATA2LSB ||
	    (ehdr->e_type != ET_EXEC && ehdr->e_type != ET_DYN))
		return false;

	/* The bounds of functions do not depend on the architecture. */
	return cfi->bounds || ehdr->e_machine == EM_X86_64;
}

/* Before the file is read: if it changes meanwhile, these values are not the final ones. */
static int sframe_cfi__identify(struct sframe_cfi *cfi, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;

	cfi->dev = st.st_dev;
	cfi->ino = st.st_ino;
	cfi->ctime = st.st_ctim.tv_sec * NSEC_PER_SEC + st.st_ctim.tv_nsec;
	return 0;
}

static int __sframe_cfi__open(int fd, bool bounds, sframe_stop_fn stop, const void *arg,
			      struct sframe_cfi **pcfi)
{
	struct sframe_cfi *cfi;
	GElf_Ehdr ehdr;
	int err;

	cfi = zalloc(sizeof(*cfi));
	if (!cfi)
		return -ENOMEM;
	cfi->bounds = bounds;
	sframe_cfi__stop_if(cfi, stop, arg);
	sha256__init(&cfi->sha);

	err = sframe_cfi__identify(cfi, fd);
	if (err)
		goto error;
	err = elf_bounded__begin(fd, &cfi->elf);
	if (err)
		goto error;

	err = -EOPNOTSUPP;
	if (!gelf_getehdr(cfi->elf, &ehdr) || !sframe_cfi__is_supported(cfi, &ehdr))
		goto error;

	err = sframe_cfi__find_segments(cfi);
	if (!err)
		err = sframe_cfi__find_sections(cfi);
	if (!err && !cfi->source[SFRAME_SOURCE_EH].data &&
	    !cfi->source[SFRAME_SOURCE_DEBUG].data)
		err = -ENODATA;
	if (err)
		goto error;

	sha256__finish(&cfi->sha, cfi->fingerprint);
	*pcfi = cfi;
	return 0;

error:
	sframe_cfi__delete(cfi);
	return err;
}

/**
 * sframe_cfi__open - Open a file to read its CFI
 * @fd:		File; must stay open
 * @pcfi:	Receives the file; its CFI is not read yet
 *
 * This may wait while another thread has a large file open. So a thread must not
 * call this while it has another file open.
 *
 * Return: 0; -ENOEXEC - this is not an ELF file; -EOPNOTSUPP - it is not a program
 *	   or library for x86-64; -ENODATA - it has no CFI or no code; -EFBIG - it has
 *	   too much CFI or too many headers; -EINVAL - it is damaged; -ENOMEM.
 */
int sframe_cfi__open(int fd, struct sframe_cfi **pcfi)
{
	return __sframe_cfi__open(fd, false, NULL, NULL, pcfi);
}

/**
 * sframe_cfi__open_until - Open a file to read its CFI, unless there is reason to stop
 * @fd:		File; must stay open
 * @stop:	Called while waiting, and later as that of sframe_cfi__stop_if(); or NULL
 * @arg:	For @stop
 * @pcfi:	Receives the file
 *
 * Return: -EINTR - @stop returned true; otherwise as sframe_cfi__open().
 */
int sframe_cfi__open_until(int fd, sframe_stop_fn stop, const void *arg,
			   struct sframe_cfi **pcfi)
{
	int err = __sframe_cfi__open(fd, false, stop, arg, pcfi);

	if (!stop || !stop(arg))
		return err;

	/* What @stop prevents from being read looks like an error of the file. */
	if (!err)
		sframe_cfi__delete(*pcfi);
	return -EINTR;
}

/* Like sframe_cfi__open(), for sframe_cfi__find_functions() only. Never waits. */
int sframe_cfi__open_bounds(int fd, struct sframe_cfi **pcfi)
{
	return __sframe_cfi__open(fd, true, NULL, NULL, pcfi);
}

static void sframe_cfi_source__exit(struct sframe_cfi_source *source)
{
	/* The CFI of .debug_frame belongs to the Dwarf handle. */
	if (source->cfi && source->eh)
		dwarf_cfi_end(source->cfi);
	if (source->dwarf)
		dwarf_end(source->dwarf);
	if (source->elf)
		elf_end(source->elf);
	zfree(&source->image);
	zfree(&source->cies);
}

/* Only the thread that opened the file may call this. */
void sframe_cfi__delete(struct sframe_cfi *cfi)
{
	u8 i;

	if (!cfi)
		return;

	for (i = 0; i < SFRAME_SOURCE_NR; i++)
		sframe_cfi_source__exit(&cfi->source[i]);
	if (cfi->elf)
		elf_end(cfi->elf);
	zfree(&cfi->segments);
	zfree(&cfi->fdes);
	if (cfi->alone)
		pthread_mutex_unlock(&sframe_cfi_large);
	free(cfi);
}

/**
 * sframe_cfi__stop_if - Set a callback that can stop the work
 * @cfi:	File
 * @stop:	Called for each row, and while waiting for other threads; or NULL
 * @arg:	For @stop
 */
void sframe_cfi__stop_if(struct sframe_cfi *cfi, sframe_stop_fn stop, const void *arg)
{
	cfi->stop = stop;
	cfi->stop_arg = arg;
}

const struct build_id *sframe_cfi__build_id(const struct sframe_cfi *cfi)
{
	return &cfi->bid;
}

const u8 *sframe_cfi__fingerprint(const struct sframe_cfi *cfi)
{
	return cfi->fingerprint;
}

u64 sframe_cfi__code(const struct sframe_cfi *cfi)
{
	return cfi->code;
}
