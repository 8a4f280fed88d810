// SPDX-License-Identifier: GPL-2.0
/*
 * stackcmp: compares the user stacks that the kernel unwound with what libdw
 * makes of the registers and the stack of the same samples.
 *
 * Stacks are compared step by step, from the interrupted frame outwards: a step
 * is right if, from a frame on which both agree, both find the same caller.  The
 * first step that differs ends the comparison of a stack, since what follows has
 * no common ground.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "stackrec.h"

#define MAX_FRAMES	512
#define MAX_COMMS	16

static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "stackcmp: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static void *grow(void *p, size_t size)
{
	p = realloc(p, size);
	if (!p)
		die("out of memory");
	return p;
}

static char *copy_string(const char *s)
{
	char *p = strdup(s);

	if (!p)
		die("out of memory");
	return p;
}

/* ---- options ------------------------------------------------------------- */

static const char *comms[MAX_COMMS];
static unsigned int nr_comms;
static unsigned int nr_examples;
static const char *vdso_path;

/* ---- tables of SFrame: which code is covered ------------------------------- */

struct range {
	uint64_t start;
	uint64_t end;
};

struct dso {
	char		*path;
	const char	*name;
	int		fd;
	bool		is_exec;
	struct range	*ranges;
	unsigned int	nr_ranges;
	struct dso	*next;
};

static struct dso *dsos;

#define SFRAME_HEADER	28
#define SFRAME_PT	0x6474e554

static uint32_t get32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void add_range(struct dso *dso, uint64_t start, uint64_t size)
{
	dso->ranges = grow(dso->ranges,
			   (dso->nr_ranges + 1) * sizeof(*dso->ranges));
	dso->ranges[dso->nr_ranges++] = (struct range) { start, start + size };
}

/* The functions of a section that was read from vaddr. */
static void read_sframe(struct dso *dso, const unsigned char *s, size_t len,
			uint64_t vaddr)
{
	unsigned int version, flags, i;
	size_t at, entry;
	uint32_t nr;

	if (len < SFRAME_HEADER || s[0] != 0xe2 || s[1] != 0xde)
		return;
	version = s[2];
	flags = s[3];
	nr = get32(s + 8);
	entry = version >= 3 ? 16 : 20;
	at = SFRAME_HEADER + s[7] + get32(s + 20);
	if (version < 2 || version > 3 || at > len || nr > (len - at) / entry)
		return;
	for (i = 0; i < nr; i++, at += entry) {
		uint64_t start;

		if (version >= 3) {
			memcpy(&start, s + at, sizeof(start));
			start += vaddr + at;
			add_range(dso, start, get32(s + at + 8));
		} else {
			start = vaddr + (int32_t)get32(s + at);
			if (flags & 4)
				start += at;
			add_range(dso, start, get32(s + at + 4));
		}
	}
}

static int cmp_range(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void load_dso(struct dso *dso)
{
	GElf_Ehdr ehdr;
	size_t i, n;
	Elf *elf;

	dso->fd = open(dso->path, O_RDONLY | O_CLOEXEC);
	if (dso->fd < 0)
		return;
	elf = elf_begin(dso->fd, ELF_C_READ, NULL);
	if (!elf)
		return;
	if (gelf_getehdr(elf, &ehdr))
		dso->is_exec = ehdr.e_type == ET_EXEC;
	if (elf_getphdrnum(elf, &n))
		n = 0;
	for (i = 0; i < n; i++) {
		unsigned char *buf;
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, i, &ph) || ph.p_type != SFRAME_PT ||
		    !ph.p_filesz)
			continue;
		buf = grow(NULL, ph.p_filesz);
		if (pread(dso->fd, buf, ph.p_filesz, ph.p_offset) ==
		    (ssize_t)ph.p_filesz)
			read_sframe(dso, buf, ph.p_filesz, ph.p_vaddr);
		free(buf);
	}
	qsort(dso->ranges, dso->nr_ranges, sizeof(*dso->ranges), cmp_range);
	elf_end(elf);
}

static struct dso *get_dso(const char *path)
{
	const char *slash;
	struct dso *dso;

	for (dso = dsos; dso; dso = dso->next) {
		if (!strcmp(dso->path, path))
			return dso;
	}
	dso = grow(NULL, sizeof(*dso));
	memset(dso, 0, sizeof(*dso));
	dso->path = copy_string(path);
	slash = strrchr(dso->path, '/');
	dso->name = slash ? slash + 1 : dso->path;
	dso->fd = -1;
	dso->next = dsos;
	dsos = dso;
	if (!strcmp(path, "[vdso]") && vdso_path) {
		free(dso->path);
		dso->path = copy_string(vdso_path);
		load_dso(dso);
		free(dso->path);
		dso->path = copy_string("[vdso]");
		dso->name = dso->path;
	} else if (path[0] == '/') {
		load_dso(dso);
	}
	return dso;
}

static bool is_covered(const struct dso *dso, uint64_t vaddr)
{
	unsigned int low = 0, high = dso->nr_ranges;

	while (low < high) {
		unsigned int mid = low + (high - low) / 2;

		if (dso->ranges[mid].end <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < dso->nr_ranges && dso->ranges[low].start <= vaddr;
}

/* ---- processes and what they have mapped ------------------------------------- */

struct map {
	uint64_t	start;
	uint64_t	end;
	uint64_t	off;
	struct dso	*dso;
};

struct proc {
	uint32_t	pid;
	char		comm[32];
	struct map	*maps;
	unsigned int	nr_maps;
	/* libdw's idea of it; made anew when the mappings change. */
	Dwfl		*dwfl;
	struct proc	*next;
};

static struct proc *procs;

static void drop_dwfl(struct proc *p)
{
	if (p->dwfl)
		dwfl_end(p->dwfl);
	p->dwfl = NULL;
}

static struct proc *get_proc(uint32_t pid)
{
	struct proc *p;

	for (p = procs; p; p = p->next) {
		if (p->pid == pid)
			return p;
	}
	p = grow(NULL, sizeof(*p));
	memset(p, 0, sizeof(*p));
	p->pid = pid;
	p->next = procs;
	procs = p;
	return p;
}

/* A new mapping replaces what was there. */
static void add_map(struct proc *p, const struct map *new)
{
	struct map *maps = grow(NULL, (2 * p->nr_maps + 1) * sizeof(*maps));
	unsigned int i, n = 0;

	for (i = 0; i < p->nr_maps; i++) {
		struct map *m = &p->maps[i];

		if (m->end <= new->start || m->start >= new->end) {
			maps[n++] = *m;
			continue;
		}
		if (m->start < new->start) {
			maps[n] = *m;
			maps[n++].end = new->start;
		}
		if (m->end > new->end) {
			maps[n] = *m;
			maps[n].off += new->end - m->start;
			maps[n++].start = new->end;
		}
	}
	maps[n++] = *new;
	free(p->maps);
	p->maps = maps;
	p->nr_maps = n;
	drop_dwfl(p);
}

static const struct map *find_map(const struct proc *p, uint64_t addr)
{
	unsigned int i;

	for (i = 0; i < p->nr_maps; i++) {
		if (addr >= p->maps[i].start && addr < p->maps[i].end)
			return &p->maps[i];
	}
	return NULL;
}

/* ---- unwinding with libdw ------------------------------------------------------ */

struct sample {
	uint32_t		pid;
	uint32_t		tid;
	uint64_t		time;
	uint64_t		abi;
	const uint64_t		*regs;
	const unsigned char	*stack;
	uint64_t		stack_len;
	uint64_t		cookie;
	/* The kernel's stack. */
	const uint64_t		*ips;
	uint64_t		nr;
};

static struct {
	const struct sample	*sample;
	const struct proc	*proc;
	uint64_t		ips[MAX_FRAMES];
	/* Not a return address: the interrupted instruction. */
	bool			exact[MAX_FRAMES];
	unsigned int		nr;
	/* A read above the copy of the stack. */
	bool			beyond;
	/* How it ended; NULL: at an outermost frame. */
	const char		*error;
} dw;

/* Where perf puts the registers that DWARF numbers. */
enum {
	REG_AX, REG_BX, REG_CX, REG_DX, REG_SI, REG_DI, REG_BP, REG_SP, REG_IP,
	REG_R8,
};

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	(void)dwfl;
	if (*thread_arg)
		return 0;
	*thread_arg = arg;
	return ((struct proc *)arg)->pid;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *result,
			void *arg)
{
	const struct sample *s = dw.sample;
	uint64_t sp = s->regs[REG_SP];
	const struct map *m;

	(void)dwfl;
	(void)arg;
	if (addr >= sp && addr - sp + sizeof(*result) <= s->stack_len) {
		memcpy(result, s->stack + (addr - sp), sizeof(*result));
		return true;
	}
	m = find_map(dw.proc, addr);
	if (m && m->dso->fd >= 0 &&
	    pread(m->dso->fd, result, sizeof(*result),
		  m->off + addr - m->start) == sizeof(*result))
		return true;
	/* Stacks are at most 8 MB by default. */
	if (!m && addr >= sp && addr - sp < 8 << 20)
		dw.beyond = true;
	return false;
}

static bool set_initial_registers(Dwfl_Thread *thread, void *arg)
{
	const uint64_t *r = dw.sample->regs;
	const Dwarf_Word regs[] = {
		r[REG_AX], r[REG_DX], r[REG_CX], r[REG_BX], r[REG_SI],
		r[REG_DI], r[REG_BP], r[REG_SP], r[REG_R8], r[REG_R8 + 1],
		r[REG_R8 + 2], r[REG_R8 + 3], r[REG_R8 + 4], r[REG_R8 + 5],
		r[REG_R8 + 6], r[REG_R8 + 7], r[REG_IP],
	};

	(void)arg;
	return dwfl_thread_state_registers(thread, 0,
					   sizeof(regs) / sizeof(regs[0]),
					   regs);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread		= next_thread,
	.memory_read		= memory_read,
	.set_initial_registers	= set_initial_registers,
};

static const Dwfl_Callbacks dwfl_callbacks = {
	.find_elf		= dwfl_build_id_find_elf,
	.find_debuginfo		= dwfl_standard_find_debuginfo,
	.section_address	= dwfl_offline_section_address,
};

/* One module for each file, at the address where its first bytes are. */
static Dwfl *make_dwfl(struct proc *p)
{
	Dwfl *dwfl = dwfl_begin(&dwfl_callbacks);
	unsigned int i, n = 0;

	if (!dwfl)
		die("dwfl_begin: %s", dwfl_errmsg(-1));
	dwfl_report_begin(dwfl);
	for (i = 0; i < p->nr_maps; i++) {
		const struct map *m = &p->maps[i];
		const char *path = m->dso->path;

		if (m->dso->fd < 0)
			continue;
		if (dwfl_addrmodule(dwfl, m->start))
			continue;
		if (!strcmp(path, "[vdso]"))
			path = vdso_path;
		if (dwfl_report_elf(dwfl, m->dso->name, path, -1,
				    m->dso->is_exec ? 0 : m->start - m->off,
				    false))
			n++;
	}
	dwfl_report_end(dwfl, NULL, NULL);
	if (!n || !dwfl_attach_state(dwfl, NULL, p->pid, &thread_callbacks, p)) {
		dwfl_end(dwfl);
		return NULL;
	}
	return dwfl;
}

static int on_frame(Dwfl_Frame *frame, void *arg)
{
	Dwarf_Addr pc;
	bool exact;

	(void)arg;
	if (!dwfl_frame_pc(frame, &pc, &exact))
		return DWARF_CB_ABORT;
	/* A return address of 0 is no frame. */
	if (!pc || dw.nr == MAX_FRAMES)
		return DWARF_CB_ABORT;
	dw.ips[dw.nr] = pc;
	dw.exact[dw.nr++] = exact;
	return DWARF_CB_OK;
}

static void unwind(struct proc *p, const struct sample *s)
{
	int ret;

	dw.sample = s;
	dw.proc = p;
	dw.nr = 0;
	dw.beyond = false;
	dw.error = NULL;
	if (!p->dwfl)
		p->dwfl = make_dwfl(p);
	if (!p->dwfl) {
		dw.error = "no modules";
		return;
	}
	ret = dwfl_getthread_frames(p->dwfl, p->pid, on_frame, NULL);
	if (ret < 0)
		dw.error = dwfl_errmsg(-1);
	else if (ret > 0)
		dw.error = "stopped";
}

/* ---- names ------------------------------------------------------------------------ */

struct place {
	const char	*dso;
	const char	*func;
	bool		covered;
};

/* What is at an address; a return address stands for the call before it. */
static struct place place_of(const struct proc *p, uint64_t ip, bool exact)
{
	struct place pl = { "[unknown]", "[unknown]", false };
	uint64_t addr = exact ? ip : ip - 1;
	const struct map *m = find_map(p, addr);
	Dwfl_Module *mod;
	const char *name;

	if (!m)
		return pl;
	pl.dso = m->dso->name;
	if (!p->dwfl)
		return pl;
	mod = dwfl_addrmodule(p->dwfl, addr);
	if (mod) {
		GElf_Addr bias = 0;

		name = dwfl_module_addrname(mod, addr);
		if (name)
			pl.func = name;
		if (dwfl_module_getelf(mod, &bias))
			pl.covered = is_covered(m->dso, addr - bias);
	}
	return pl;
}

/* Functions in which threads begin. */
static bool is_start(const char *func)
{
	static const char * const names[] = {
		"_start", "_dl_start_user", "clone", "__clone", "clone3",
		"__clone3",
	};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(func, names[i]))
			return true;
	}
	return false;
}

/*
 * Nothing beyond a thread's first function is a frame of it, though call frame
 * information seldom says so.  The innermost frame is none's caller.
 */
static unsigned int cut_at_start(const struct proc *p, const uint64_t *ips,
				 unsigned int nr)
{
	unsigned int i;

	for (i = 1; i < nr; i++) {
		if (is_start(place_of(p, ips[i], false).func))
			return i + 1;
	}
	return nr;
}

static bool ends_at_start(const struct proc *p, const uint64_t *ips,
			  unsigned int nr)
{
	return is_start(place_of(p, ips[nr - 1], nr == 1).func);
}

/* ---- comparison ------------------------------------------------------------------- */

struct class {
	char			*text;
	unsigned long long	count;
};

static struct class *classes;
static unsigned int nr_classes;

static struct {
	unsigned long long samples, other_comm, no_regs, no_record, no_stack;
	unsigned long long steps, equal, covered, covered_equal;
	unsigned long long whole_kernel, whole_libdw, whole_both;
	unsigned long long identical, depth;
} count;

/* Count a class of difference; returns how often it was seen before. */
static unsigned long long classify(const char *fmt, ...)
{
	char text[512];
	unsigned int i;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (i = 0; i < nr_classes; i++) {
		if (!strcmp(classes[i].text, text))
			return classes[i].count++;
	}
	classes = grow(classes, (nr_classes + 1) * sizeof(*classes));
	classes[nr_classes++] = (struct class) { copy_string(text), 1 };
	return 0;
}

static void print_stack(const char *who, const struct proc *p,
			const uint64_t *ips, unsigned int nr)
{
	unsigned int i;

	printf("    %s\n", who);
	for (i = 0; i < nr; i++) {
		struct place pl = place_of(p, ips[i], i == 0);

		printf("      %16" PRIx64 " %s (%s)%s\n", ips[i], pl.func,
		       pl.dso, pl.covered ? "" : " -");
	}
}

static void example(const struct proc *p, const struct sample *s)
{
	printf("  example: %s, pid %u, time %" PRIu64 ", stack copy of %" PRIu64 " bytes\n",
	       p->comm, s->pid, s->time, s->stack_len);
	printf("    ip %" PRIx64 " sp %" PRIx64 " bp %" PRIx64 "\n",
	       s->regs[REG_IP], s->regs[REG_SP], s->regs[REG_BP]);
	print_stack("kernel", p, s->ips, s->nr);
	print_stack("libdw", p, dw.ips, dw.nr);
	printf("    libdw ended: %s\n", dw.error ?: "outermost frame");
}

static const char *libdw_reason(void)
{
	if (!dw.error)
		return "outermost by its CFI";
	if (dw.beyond)
		return "the copy of the stack ends";
	return dw.error;
}

static void compare(struct proc *p, struct sample *s)
{
	bool whole_libdw, whole_kernel, same;
	unsigned long long seen = ~0ULL;
	unsigned int i, nr;

	unwind(p, s);
	s->nr = cut_at_start(p, s->ips, s->nr);
	dw.nr = cut_at_start(p, dw.ips, dw.nr);
	count.depth += s->nr;
	nr = s->nr < dw.nr ? s->nr : dw.nr;
	if (!nr || s->ips[0] != dw.ips[0]) {
		struct place pl = place_of(p, s->regs[REG_IP], true);

		count.no_stack++;
		seen = classify("no common first frame in %s: libdw %s", pl.dso,
				dw.error ?: "has another one");
		if (seen < nr_examples)
			example(p, s);
		return;
	}
	for (i = 1; i < nr && s->ips[i] == dw.ips[i]; i++) {
		struct place pl = place_of(p, dw.ips[i - 1], dw.exact[i - 1]);

		count.steps++;
		count.equal++;
		count.covered += pl.covered;
		count.covered_equal += pl.covered;
	}
	same = i == s->nr && i == dw.nr;
	whole_libdw = !dw.error || ends_at_start(p, dw.ips, dw.nr);
	whole_kernel = (same && whole_libdw) || ends_at_start(p, s->ips, s->nr);
	count.whole_libdw += whole_libdw;
	count.whole_kernel += whole_kernel;
	count.whole_both += whole_libdw && whole_kernel;
	count.identical += same;

	if (same) {
		/* Neither got further, though this is not the start. */
		if (!whole_libdw) {
			struct place pl = place_of(p, dw.ips[i - 1],
						   dw.exact[i - 1]);

			seen = classify("both end in %s (%s, %s); libdw: %s",
					pl.func, pl.dso, pl.covered ?
					"with table" : "no table",
					libdw_reason());
		}
	} else {
		struct place pl = place_of(p, dw.ips[i - 1], dw.exact[i - 1]);
		const char *table = pl.covered ? "with table" : "no table";
		/* What the interrupted function does not have yet, others do. */
		const char *where = i == 1 ? "on top" : "inside";

		if (i == dw.nr) {
			/* Not a step of libdw's, so nothing to be equal to. */
			seen = classify("libdw ends, kernel goes on, in %s (%s, %s, %s): %s",
					pl.func, pl.dso, table, where,
					libdw_reason());
		} else {
			count.steps++;
			count.covered += pl.covered;
			/* Where both have left what is code. */
			if (i > 1 && !strcmp(pl.func, "[unknown]") &&
			    !strcmp(pl.dso, "[unknown]")) {
				struct place in = place_of(p, dw.ips[i - 2],
							   dw.exact[i - 2]);

				seen = classify("both went astray from %s (%s, %s)",
						in.func, in.dso, in.covered ?
						"with table" : "no table");
			} else if (i == s->nr)
				seen = classify("kernel ends in %s (%s, %s, %s)",
						pl.func, pl.dso, table, where);
			else if (i + 1 < dw.nr && s->ips[i] == dw.ips[i + 1])
				seen = classify("kernel skips the caller of %s (%s, %s, %s)",
						pl.func, pl.dso, table, where);
			else
				seen = classify("different callers of %s (%s, %s, %s)",
						pl.func, pl.dso, table, where);
		}
	}
	if (seen < nr_examples)
		example(p, s);
}

/* ---- the file --------------------------------------------------------------------- */

struct record {
	uint64_t				time;
	const struct perf_event_header	*h;
};

static struct record *records;
static unsigned int nr_records;

struct cookie {
	uint64_t				cookie;
	const struct perf_event_header	*h;
};

static struct cookie *cookies;
static unsigned int nr_cookies;

static int cmp_record(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	/* Those of one CPU are in order. */
	return x->h < y->h ? -1 : x->h > y->h;
}

static int cmp_cookie(const void *a, const void *b)
{
	const struct cookie *x = a, *y = b;

	return x->cookie < y->cookie ? -1 : x->cookie > y->cookie;
}

static const uint64_t *words(const struct perf_event_header *h)
{
	return (const uint64_t *)(h + 1);
}

/* What follows a record of another type: pid, tid, time. */
static uint64_t record_time(const struct perf_event_header *h)
{
	if (h->type == PERF_RECORD_SAMPLE)
		return words(h)[2];
	return ((const uint64_t *)((const char *)h + h->size))[-1];
}

static bool wanted(const struct proc *p)
{
	unsigned int i;

	for (i = 0; i < nr_comms; i++) {
		if (!strcmp(comms[i], p->comm))
			return true;
	}
	return !nr_comms;
}

static void on_sample(const struct perf_event_header *h)
{
	const uint64_t *w = words(h), *end = w + (h->size - sizeof(*h)) / 8;
	struct sample s = {
		.pid = w[1],
		.tid = w[1] >> 32,
		.time = w[2],
	};
	struct cookie *found, key;
	const uint64_t *chain;
	struct proc *p;
	uint64_t nr, i;

	p = get_proc(s.pid);
	if (!wanted(p)) {
		count.other_comm++;
		return;
	}
	count.samples++;
	nr = w[3];
	chain = w + 4;
	w = chain + nr;
	if (w >= end)
		die("broken sample");
	s.abi = *w++;
	if (s.abi) {
		s.regs = w;
		w += STACKREC_REGS;
	}
	s.stack_len = *w++;
	s.stack = (const unsigned char *)w;
	if (s.stack + s.stack_len > (const unsigned char *)end)
		die("broken sample");
	if (s.abi != PERF_SAMPLE_REGS_ABI_64 || !s.stack_len) {
		count.no_regs++;
		return;
	}
	for (i = 0; i < nr; i++) {
		if (chain[i] == STACKREC_CONTEXT_DEFERRED && i + 1 < nr) {
			s.cookie = chain[i + 1];
		} else if (chain[i] == (uint64_t)PERF_CONTEXT_USER) {
			s.ips = chain + i + 1;
			s.nr = nr - i - 1;
			break;
		}
	}
	if (s.cookie) {
		key.cookie = s.cookie;
		found = bsearch(&key, cookies, nr_cookies, sizeof(key),
				cmp_cookie);
		if (!found) {
			count.no_record++;
			return;
		}
		w = words(found->h);
		s.nr = w[1];
		s.ips = w + 2;
		if (s.nr > (found->h->size - 24u) / 8)
			die("broken record");
	}
	if (!s.nr) {
		count.no_record++;
		return;
	}
	compare(p, &s);
}

static void on_mmap(const struct perf_event_header *h)
{
	const uint64_t *w = words(h);
	/* pid, tid, address, length, offset, device, inode..., protection */
	const uint32_t *prot = (const uint32_t *)(w + 7);
	const char *name = (const char *)(w + 8);
	struct map m = {
		.start = w[1],
		.end = w[1] + w[2],
		.off = w[3],
	};

	(void)prot;
	m.dso = get_dso(name);
	/* Its offset is the address. */
	if (!strcmp(name, "[vdso]"))
		m.off = 0;
	add_map(get_proc((uint32_t)w[0]), &m);
}

static void on_comm(const struct perf_event_header *h)
{
	const uint64_t *w = words(h);
	struct proc *p = get_proc((uint32_t)w[0]);

	if (h->misc & PERF_RECORD_MISC_COMM_EXEC) {
		p->nr_maps = 0;
		drop_dwfl(p);
	}
	/* A thread's name is not the process's. */
	if ((uint32_t)w[0] == w[0] >> 32)
		snprintf(p->comm, sizeof(p->comm), "%s", (const char *)(w + 1));
}

static void on_fork(const struct perf_event_header *h)
{
	const uint64_t *w = words(h);
	uint32_t pid = w[0], ppid = w[0] >> 32;
	struct proc *child, *parent;

	if (pid == ppid)
		return;
	child = get_proc(pid);
	parent = get_proc(ppid);
	drop_dwfl(child);
	child->nr_maps = parent->nr_maps;
	child->maps = grow(child->maps,
			   (parent->nr_maps + 1) * sizeof(*child->maps));
	memcpy(child->maps, parent->maps,
	       parent->nr_maps * sizeof(*child->maps));
	memcpy(child->comm, parent->comm, sizeof(child->comm));
}

static void read_file(const char *path)
{
	const struct stackrec_header *header;
	unsigned int cap = 0;
	const char *at, *end;
	struct stat st;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die("%s: %s", path, strerror(errno));
	at = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		die("%s: %s", path, strerror(errno));
	end = at + st.st_size;
	header = (const void *)at;
	if (st.st_size < (off_t)sizeof(*header) ||
	    header->magic != STACKREC_MAGIC ||
	    header->vdso_size > (uint64_t)st.st_size - sizeof(*header))
		die("%s: not a file of stackrec", path);
	at += sizeof(*header);
	if (header->vdso_size) {
		static char name[] = "/tmp/stackcmp-vdso.XXXXXX";
		int out = mkstemp(name);

		if (out < 0 || write(out, at, header->vdso_size) !=
			       (ssize_t)header->vdso_size)
			die("%s: %s", name, strerror(errno));
		close(out);
		vdso_path = name;
	}
	at += (header->vdso_size + 7) & -8;
	while (at < end) {
		const struct perf_event_header *h = (const void *)at;

		if (end - at < (ptrdiff_t)sizeof(*h) || h->size < sizeof(*h) ||
		    h->size % 8 || h->size > end - at)
			die("%s: broken record", path);
		if (nr_records == cap) {
			cap = cap ? 2 * cap : 4096;
			records = grow(records, cap * sizeof(*records));
		}
		records[nr_records++] = (struct record) { record_time(h), h };
		if (h->type == STACKREC_CALLCHAIN_DEFERRED) {
			cookies = grow(cookies, (nr_cookies + 1) *
						sizeof(*cookies));
			cookies[nr_cookies++] = (struct cookie) {
				words(h)[0], h
			};
		}
		at += h->size;
	}
	qsort(records, nr_records, sizeof(*records), cmp_record);
	qsort(cookies, nr_cookies, sizeof(*cookies), cmp_cookie);
}

static int cmp_class(const void *a, const void *b)
{
	const struct class *x = a, *y = b;

	return x->count > y->count ? -1 : x->count < y->count;
}

static double percent(unsigned long long part, unsigned long long all)
{
	return all ? 100.0 * part / all : 0;
}

static void usage(void)
{
	fprintf(stderr,
		"usage: stackcmp [-c COMM]... [-e EXAMPLES] [-n NAME] FILE\n"
		"  -c COMM      only processes of that name, repeatable\n"
		"  -e EXAMPLES  print so many stacks of each class of difference\n"
		"  -n NAME      print one line that begins with NAME, and no classes\n"
		"  -H           print the heading of such lines\n");
	exit(2);
}

int main(int argc, char **argv)
{
	unsigned long long compared;
	const char *name = NULL;
	bool heading = false;
	unsigned int i;
	int c;

	while ((c = getopt(argc, argv, "c:e:n:H")) != -1) {
		switch (c) {
		case 'c':
			if (nr_comms == MAX_COMMS)
				usage();
			comms[nr_comms++] = optarg;
			break;
		case 'e':
			nr_examples = strtoul(optarg, NULL, 0);
			break;
		case 'n':
			name = optarg;
			break;
		case 'H':
			heading = true;
			break;
		default:
			usage();
		}
	}
	if (heading)
		printf("%-18s %8s %9s %9s %9s %9s %9s %9s %9s %6s\n", "",
		       "samples", "frames", "equal", "share", "covered",
		       "share", "kernel", "libdw", "depth");
	if (optind + 1 != argc) {
		if (heading)
			return 0;
		usage();
	}
	elf_version(EV_CURRENT);
	read_file(argv[optind]);
	for (i = 0; i < nr_records; i++) {
		const struct perf_event_header *h = records[i].h;

		switch (h->type) {
		case PERF_RECORD_SAMPLE:
			on_sample(h);
			break;
		case PERF_RECORD_MMAP2:
			on_mmap(h);
			break;
		case PERF_RECORD_COMM:
			on_comm(h);
			break;
		case PERF_RECORD_FORK:
			on_fork(h);
			break;
		}
	}
	if (vdso_path)
		unlink(vdso_path);

	compared = count.samples - count.no_regs - count.no_record;
	qsort(classes, nr_classes, sizeof(*classes), cmp_class);
	if (name) {
		printf("%-18s %8llu %9llu %9llu %8.3f%% %9llu %8.3f%% %8.2f%% %8.2f%% %6.1f\n",
		       name, compared, count.steps, count.equal,
		       percent(count.equal, count.steps), count.covered,
		       percent(count.covered_equal, count.covered),
		       percent(count.whole_kernel, compared),
		       percent(count.whole_libdw, compared),
		       compared ? (double)count.depth / compared : 0);
		return 0;
	}
	printf("samples                                 %8llu\n", count.samples);
	printf("  of other processes, left out          %8llu\n",
	       count.other_comm);
	printf("  without 64-bit registers or stack     %8llu\n", count.no_regs);
	printf("  without a stack of the kernel         %8llu\n",
	       count.no_record);
	printf("  compared                              %8llu, of %.1f frames\n",
	       compared, compared ? (double)count.depth / compared : 0);
	printf("frames whose caller was compared        %8llu\n", count.steps);
	printf("  equal                                 %8llu  %8.4f %%\n",
	       count.equal, percent(count.equal, count.steps));
	printf("  in code with a table                  %8llu\n", count.covered);
	printf("    equal                               %8llu  %8.4f %%\n",
	       count.covered_equal,
	       percent(count.covered_equal, count.covered));
	printf("stacks that are the same to the end     %8llu  %8.4f %%\n",
	       count.identical, percent(count.identical, compared));
	printf("stacks that reach the thread's start\n");
	printf("  kernel                                %8llu  %8.4f %%\n",
	       count.whole_kernel, percent(count.whole_kernel, compared));
	printf("  libdw                                 %8llu  %8.4f %%\n",
	       count.whole_libdw, percent(count.whole_libdw, compared));
	printf("  both                                  %8llu  %8.4f %%\n",
	       count.whole_both, percent(count.whole_both, compared));
	if (nr_classes)
		printf("classes of difference\n");
	for (i = 0; i < nr_classes; i++)
		printf("%10llu  %s\n", classes[i].count, classes[i].text);
	return 0;
}
