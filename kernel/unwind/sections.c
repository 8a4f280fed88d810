// SPDX-License-Identifier: GPL-2.0
/*
 * Which SFrame section covers an address of the current task?
 *
 * Nobody tells the kernel where sections are, so it looks. When a walk comes
 * through a mapping for the first time, the headers of the mapped ELF file are
 * read, and what they say is remembered in the mm, also if it is "none here". It
 * is remembered per executable mapping (VMA):
 *
 *	file	| ELF header, PT_* | text        | .sframe  | ...
 *		                   :             :          :
 *	memory	                   | VM_EXEC     | VM_READ  |
 *		                   ^ip           ^sframe.base = start of text
 *		                                  + difference of their p_vaddr
 *
 * A profiler may have supplied a table for the file, see tables.c. That is looked up
 * each time, and what is remembered is only which one it was.
 *
 * For code that no file has, a program may register sections itself, by
 * prctl(). Those come first. They hold for any range of addresses, whatever is
 * mapped there, until they are taken back.
 *
 * Nothing is hooked into the ways that mappings change: what is remembered is
 * compared with the mappings at each use, and found anew if they differ. A
 * walker gets a copy. If the mapping goes while it reads the section, it reads
 * something else or nothing, which it must be prepared for anyway, as all that
 * is read here and there is under the control of the user.
 *
 * Shared fields
 * -------------
 *
 * ========================= ============================ =======================
 * field                     written by                   under
 * ========================= ============================ =======================
 * mm->unwind_sections       the first walk or prctl();   cmpxchg from NULL; it
 *                           fork, for the child          stays while it has
 *                           reclaim, mmput(): to NULL    another reference
 * @refs                     tasks of the mm; reclaim     atomic
 * @found, @nr_found, and    tasks of the mm, when they   @lock
 * its entries               have looked into a file, or
 *                           read a corrupt section;
 *                           reclaim
 * @registered,              prctl()                      mmap lock for writing,
 * @nr_registered, and its                                so that its sequence
 * entries                                                changes; read under it
 * @id, @has_sframe of       also tasks of the mm, when   @lock and mmap lock for
 * entries of @registered    they read a corrupt section  reading
 * @shared                   tasks of the mm; reclaim     cmpxchg, xchg; read
 *                                                        under RCU, see rules.c
 * @reclaim                  tasks of the mm; reclaim;    unwind_sections_lock
 *                           the last mmput()
 * unwind_sections_id        tasks of all mms             atomic
 * ========================= ============================ =======================
 *
 * All of it happens in task context. Lock order: mmap lock, unwind_sections_lock,
 * @lock. No lock is held while a file or user memory is read: that may wait for a
 * server, and the server for whoever waits for the lock. Nor is one of the last two
 * held while memory is allocated, which may reclaim.
 *
 * What was found, and @shared, can be found again. It goes when nobody profiles any
 * more, or when memory is short, and so does the rest if nothing is registered.
 */
#define pr_fmt(fmt) "unwind_user: " fmt

#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/elf.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/magic.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/overflow.h>
#include <linux/printk.h>
#include <linux/processor.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/secretmem.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/unwind_user.h>
#include <linux/unwind_user_sections.h>

#include <asm/unwind_user.h>

#include "rules.h"
#include "sections.h"

/* Program header that says where the SFrame section is */
#define PT_GNU_SFRAME		0x6474e554

/* Linkers make about a dozen program headers. */
#define UNWIND_ELF_PHDRS_MAX	256

/* How many program headers are read at a time */
#define UNWIND_ELF_PHDRS_CHUNK	8

/*
 * How many mappings of files are remembered for one mm. Those that have gone are
 * not noticed; when the limit is reached all are forgotten.
 */
#define UNWIND_SECTIONS_FOUND_MAX 4096

/* How many of them are forgotten one by one, because another one covers them */
#define UNWIND_SECTIONS_STALE_MAX 16

/*
 * In how many mappings below the code its file's start is looked for: there are
 * about three.
 */
#define UNWIND_ELF_VMAS_MAX	8

/* How many sections a program may have registered at a time */
#define UNWIND_SFRAME_MAX	1024

/*
 * After how long, in jiffies, what could not be read is looked at again: memory or
 * a server may have been short for a moment.
 */
#define UNWIND_SECTIONS_RETRY	HZ

/* The profiled task would not have allocated: do not kill it for that. */
#define UNWIND_SECTIONS_GFP \
	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY)

/**
 * struct unwind_source - What a mapping maps
 * @inode:	The file's inode; to be compared, not to be used: it may be gone.
 *		NULL for the vDSO, as are the next four
 * @ino:	Its number,
 * @generation:	generation
 * @dev:	and device, in case that the memory of @inode was used again
 * @changed:	When the file was changed, in ns: libraries are overwritten in
 *		place, and loaded again
 * @off:	Offset in the file of the first byte mapped
 */
struct unwind_source {
	const struct inode	*inode;
	unsigned long		ino;
	u32			generation;
	dev_t			dev;
	s64			changed;
	u64			off;
};

/**
 * struct unwind_section_entry - What is remembered of a range
 * @node:	In a tree of &struct unwind_user_sections, by @start
 * @start:	First byte of the range
 * @end:	First byte after it
 * @id:		As in &struct unwind_user_section
 * @source:	What was mapped there; not used if registered
 * @has_text:	The file says for which address @start was linked; not set if
 *		registered
 * @load_base:	If @has_text, where the file's address 0 would be
 * @table:	Number of the table that was supplied for the file, when that was
 *		looked up last; 0 if there was none yet
 * @table_id:	As @id, but of the range with that table
 * @sframe_base: Where the section should be mapped, for what @source says
 * @sframe_off:	Its offset in the file
 * @sframe_size: Its length in bytes; 0 if there is none, or none of use
 * @has_sframe:	It is mapped there and is of use. If it is not mapped, that may
 *		change without @source. Not any more if a lookup finds it corrupt.
 * @unread:	Headers or section could not be read, which says nothing about them
 * @retry:	If @unread, when to look again, in jiffies
 * @sframe:	The section, if @has_sframe
 */
struct unwind_section_entry {
	struct rb_node		node;
	unsigned long		start;
	unsigned long		end;
	u64			id;
	struct unwind_source	source;
	bool			has_text;
	unsigned long		load_base;
	u64			table;
	u64			table_id;
	unsigned long		sframe_base;
	u64			sframe_off;
	u32			sframe_size;
	bool			has_sframe;
	bool			unread;
	unsigned long		retry;
	struct sframe_section	sframe[];
};

/* The last number of an entry that was given out. */
static atomic64_t unwind_sections_id;

/* Protects the list of those that have something to be reclaimed, and its length. */
static DEFINE_SPINLOCK(unwind_sections_lock);
static LIST_HEAD(unwind_sections_list);
static unsigned long unwind_sections_nr;

/* ---- ELF files ------------------------------------------------------------ */

/**
 * struct unwind_elf - An ELF file that is being looked at
 * @file:	The file, if its start is not mapped, else NULL
 * @base:	Where its start is mapped
 * @size:	How much of it, in bytes
 * @phoff:	Offset of the program headers
 * @phnum:	How many there are
 * @first:	Number of the first one in @phdrs
 * @nr:		How many @phdrs hold
 * @phdrs:	Some of the program headers
 */
struct unwind_elf {
	struct file		*file;
	unsigned long		base;
	unsigned long		size;
	u64			phoff;
	u32			phnum;
	u32			first;
	u32			nr;
	struct elf64_phdr	phdrs[UNWIND_ELF_PHDRS_CHUNK];
};

/*
 * Dynamic linkers map the headers beside the code. There they are read as any
 * memory of the task is, see unwind_user_read().
 *
 * Otherwise files are read as the page cache has them, without asking security
 * modules or fanotify for permission: that was done when the file was mapped.
 */
static bool unwind_elf_read(const struct unwind_elf *elf, u64 off, void *buf,
			    u32 size)
{
	loff_t pos = off;

	if (elf->file) {
		if (off > MAX_LFS_FILESIZE - size)
			return false;
		return __kernel_read(elf->file, buf, size, &pos) == size;
	}

	if (off > elf->size || size > elf->size - off)
		return false;

	return unwind_user_read(elf->base + off, buf, size);
}

/* May the file be read as above? */
static bool unwind_elf_readable(const struct file *file)
{
	if (!(file->f_mode & FMODE_READ) || !file->f_op->read_iter ||
	    file->f_op->read)
		return false;

	/* Direct I/O has rules of its own on sizes. */
	if (file->f_flags & O_DIRECT)
		return false;

	/* Its server may be waiting for this very task, which then nothing kills. */
	if (file_inode(file)->i_sb->s_magic == FUSE_SUPER_MAGIC)
		return false;

	return !secretmem_mapping(file->f_mapping);
}

/* Return: 0, -ENOEXEC if there is nothing to look for, -EIO if reading failed. */
static int unwind_elf_init(struct unwind_elf *elf)
{
	struct elf64_hdr ehdr;
	u64 end;

	if (elf->file && !unwind_elf_readable(elf->file))
		return -ENOEXEC;

	if (!unwind_elf_read(elf, 0, &ehdr, sizeof(ehdr)))
		return -EIO;

	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) ||
	    ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN) ||
	    ehdr.e_machine != ELF_ARCH ||
	    ehdr.e_phentsize != sizeof(struct elf64_phdr) ||
	    ehdr.e_phnum > UNWIND_ELF_PHDRS_MAX)
		return -ENOEXEC;

	if (check_add_overflow(ehdr.e_phoff, (u64)ehdr.e_phnum *
			       sizeof(struct elf64_phdr), &end))
		return -ENOEXEC;

	elf->phoff = ehdr.e_phoff;
	elf->phnum = ehdr.e_phnum;
	elf->first = 0;
	elf->nr = 0;

	return 0;
}

/* Program header @i, until the next call. */
static const struct elf64_phdr *unwind_elf_phdr(struct unwind_elf *elf, u32 i)
{
	u64 off = elf->phoff + (u64)i * sizeof(struct elf64_phdr);
	u32 nr;

	if (i < elf->first || i - elf->first >= elf->nr) {
		nr = min(elf->phnum - i, (u32)UNWIND_ELF_PHDRS_CHUNK);
		elf->nr = 0;
		if (!unwind_elf_read(elf, off, elf->phdrs, nr * sizeof(*elf->phdrs)))
			return NULL;
		elf->first = i;
		elf->nr = nr;
	}

	return &elf->phdrs[i - elf->first];
}

/*
 * If the executable segment @phdr has the page at file offset @off, which address
 * was that page linked for?
 */
static bool unwind_elf_text_vaddr(const struct elf64_phdr *phdr, u64 off,
				  u64 *vaddr)
{
	u64 start = round_down(phdr->p_offset, PAGE_SIZE);
	u64 end;

	if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X))
		return false;

	if (phdr->p_vaddr >= TASK_SIZE_MAX ||
	    offset_in_page(phdr->p_vaddr) != offset_in_page(phdr->p_offset) ||
	    check_add_overflow(phdr->p_offset, phdr->p_filesz, &end))
		return false;

	if (off < start || off >= end || off - start >= TASK_SIZE_MAX)
		return false;

	*vaddr = round_down(phdr->p_vaddr, PAGE_SIZE) + (off - start);
	return true;
}

/* Is [@vaddr, @vaddr + @size) in the readable segment @phdr, and where in the file? */
static bool unwind_elf_data_off(const struct elf64_phdr *phdr, u64 vaddr,
				u64 size, u64 *off)
{
	if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_R))
		return false;

	if (vaddr < phdr->p_vaddr || vaddr - phdr->p_vaddr > phdr->p_filesz ||
	    size > phdr->p_filesz - (vaddr - phdr->p_vaddr))
		return false;

	return !check_add_overflow(phdr->p_offset, vaddr - phdr->p_vaddr, off);
}

/*
 * Where does the file want its section, and where is that, given that @entry's
 * text is where it is?
 *
 * Return: 0 with base, size and offset filled in, -ENOENT if there is no section,
 *	   -EINVAL or -EIO if the file is not as it should be. Where the text should
 *	   be is filled in, unless that is not as it should be.
 */
static int unwind_elf_find_sframe(struct unwind_elf *elf,
				  struct unwind_section_entry *entry)
{
	u64 text_vaddr = 0, sframe_vaddr = 0, size = 0;
	const struct elf64_phdr *phdr;
	bool has_text = false;
	bool has_sframe = false;
	s64 base;
	u32 i;

	for (i = 0; i < elf->phnum; i++) {
		phdr = unwind_elf_phdr(elf, i);
		if (!phdr)
			return -EIO;

		if (!has_text)
			has_text = unwind_elf_text_vaddr(phdr, entry->source.off,
							 &text_vaddr);

		if (!has_sframe && phdr->p_type == PT_GNU_SFRAME) {
			sframe_vaddr = phdr->p_vaddr;
			size = phdr->p_memsz;
			has_sframe = true;
		}
	}

	/* It wraps for text that is in front of where it was linked for. */
	if (has_text) {
		entry->has_text = true;
		entry->load_base = entry->start - text_vaddr;
	}

	/* Its contents can be removed from a file without the program header. */
	if (!has_sframe || !size)
		return -ENOENT;

	if (!has_text || size > SFRAME_SIZE_MAX || sframe_vaddr >= TASK_SIZE_MAX)
		return -EINVAL;

	for (i = 0; i < elf->phnum; i++) {
		phdr = unwind_elf_phdr(elf, i);
		if (!phdr)
			return -EIO;

		if (unwind_elf_data_off(phdr, sframe_vaddr, size, &entry->sframe_off))
			break;
	}
	if (i == elf->phnum)
		return -EINVAL;

	/* All of them are far from what 64 bits hold. */
	base = (s64)entry->start + ((s64)sframe_vaddr - (s64)text_vaddr);
	if (base < 0 || base > (s64)(TASK_SIZE_MAX - size))
		return -EINVAL;

	entry->sframe_base = base;
	entry->sframe_size = size;

	return 0;
}

/**
 * unwind_user_check_file - Could the walk use a table for this file?
 * @file:	The file
 *
 * Context: As unwind_user_section_find().
 * Return: 0, or -ENOEXEC if it cannot be read or is no ELF file of a kind that
 *	   there are tables for.
 */
int unwind_user_check_file(struct file *file)
{
	struct unwind_elf elf = { .file = file };

	return unwind_elf_init(&elf) ? -ENOEXEC : 0;
}

/* ---- Mappings ------------------------------------------------------------- */

/* Return: false if @vma maps neither a regular file nor the vDSO. */
static bool unwind_source_init(struct unwind_source *source,
			       const struct vm_area_struct *vma)
{
	const struct inode *inode;
	struct timespec64 ctime;

	*source = (struct unwind_source) { };

	/* Reading a file that a device is behind may have effects. */
	if (vma->vm_flags & (VM_IO | VM_PFNMAP))
		return false;

	if (!vma->vm_file)
		return arch_unwind_user_vdso(vma);

	inode = file_inode(vma->vm_file);
	if (!S_ISREG(inode->i_mode))
		return false;

	ctime = inode_get_ctime(inode);

	source->inode		= inode;
	source->ino		= inode->i_ino;
	source->generation	= inode->i_generation;
	source->dev		= inode->i_sb->s_dev;
	source->changed		= timespec64_to_ns(&ctime);
	source->off		= (u64)vma->vm_pgoff << PAGE_SHIFT;

	return true;
}

static bool unwind_source_same_file(const struct unwind_source *a,
				    const struct unwind_source *b)
{
	return a->inode == b->inode && a->ino == b->ino &&
	       a->generation == b->generation && a->dev == b->dev &&
	       a->changed == b->changed;
}

/* Does one mapping show the section of @entry, and can it be read there? */
static bool unwind_section_mapped(struct mm_struct *mm,
				  const struct unwind_section_entry *entry)
{
	unsigned long base = entry->sframe_base;
	struct unwind_source source;
	struct vm_area_struct *vma;

	mmap_assert_locked(mm);

	vma = vma_lookup(mm, base);
	if (!vma || !(vma->vm_flags & VM_READ) ||
	    entry->sframe_size > vma->vm_end - base)
		return false;

	return unwind_source_init(&source, vma) &&
	       unwind_source_same_file(&source, &entry->source) &&
	       source.off + (base - vma->vm_start) == entry->sframe_off;
}

/* Are both about the same range, and of the same file? */
static bool unwind_section_same_text(const struct unwind_section_entry *a,
				     const struct unwind_section_entry *b)
{
	return a->start == b->start && a->end == b->end &&
	       a->source.off == b->source.off &&
	       unwind_source_same_file(&a->source, &b->source);
}

/* Would what @old says be found out again for @new, which is mapped now? */
static bool unwind_section_valid(struct mm_struct *mm,
				 const struct unwind_section_entry *old,
				 const struct unwind_section_entry *new)
{
	if (!unwind_section_same_text(old, new))
		return false;

	if (old->unread)
		return time_before(jiffies, old->retry);

	return !old->sframe_size ||
	       unwind_section_mapped(mm, old) == old->has_sframe;
}

/* ---- What is remembered --------------------------------------------------- */

/* Any entry that overlaps [@start, @end). */
static struct unwind_section_entry *
unwind_sections_overlap(const struct rb_root *root, unsigned long start,
			unsigned long end)
{
	struct rb_node *node = root->rb_node;

	while (node) {
		struct unwind_section_entry *entry =
			rb_entry(node, struct unwind_section_entry, node);

		if (end <= entry->start)
			node = node->rb_left;
		else if (start >= entry->end)
			node = node->rb_right;
		else
			return entry;
	}

	return NULL;
}

/* The entry that has @ip. If none has, [@start, @end) is the gap around it. */
static struct unwind_section_entry *
unwind_sections_lookup(const struct rb_root *root, unsigned long ip,
		       unsigned long *start, unsigned long *end)
{
	struct rb_node *node = root->rb_node;

	*start = 0;
	*end = TASK_SIZE_MAX;

	while (node) {
		struct unwind_section_entry *entry =
			rb_entry(node, struct unwind_section_entry, node);

		if (ip < entry->start) {
			*end = entry->start;
			node = node->rb_left;
		} else if (ip >= entry->end) {
			*start = entry->end;
			node = node->rb_right;
		} else {
			return entry;
		}
	}

	return NULL;
}

/* @entry overlaps none in the tree. */
static void unwind_sections_add(struct rb_root *root,
				struct unwind_section_entry *entry)
{
	struct rb_node **link = &root->rb_node, *parent = NULL;

	while (*link) {
		const struct unwind_section_entry *other =
			rb_entry(*link, struct unwind_section_entry, node);

		parent = *link;
		if (entry->start < other->start)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}

	rb_link_node(&entry->node, parent, link);
	rb_insert_color(&entry->node, root);
}

static void unwind_sections_free_tree(struct rb_root *root)
{
	struct unwind_section_entry *entry, *next;

	rbtree_postorder_for_each_entry_safe(entry, next, root, node)
		kfree(entry);
}

static u64 unwind_sections_new_id(void)
{
	return atomic64_inc_return(&unwind_sections_id);
}

/* @table was supplied for what is mapped there; 0 if nothing was. */
static void unwind_sections_copy(struct unwind_user_section *section,
				 struct unwind_section_entry *entry, u64 table)
{
	section->start		= entry->start;
	section->end		= entry->end;
	section->id		= entry->id;
	section->has_sframe	= entry->has_sframe;
	section->unread		= entry->unread;
	section->table		= 0;
	if (entry->has_sframe)
		section->sframe	= entry->sframe[0];

	if (!table || !entry->has_text)
		return;

	/*
	 * Threads may be served by different tables. That is rare; they then keep
	 * forgetting each other's rules.
	 */
	if (entry->table != table) {
		entry->table	= table;
		entry->table_id	= unwind_sections_new_id();
	}

	section->id		= entry->table_id;
	section->table		= table;
	section->load_base	= entry->load_base;
}

static void unwind_sections_assign_id(struct unwind_section_entry *entry)
{
	entry->id = unwind_sections_new_id();
}

static struct unwind_user_sections *unwind_sections_alloc(struct mm_struct *mm, gfp_t gfp)
{
	struct unwind_user_sections *sections = kzalloc(sizeof(*sections), gfp);

	if (!sections)
		return NULL;

	/* The mm's. */
	refcount_set(&sections->refs, 1);
	sections->mm = mm;
	INIT_LIST_HEAD(&sections->reclaim);
	spin_lock_init(&sections->lock);

	return sections;
}

/* There is something to be reclaimed. */
static void unwind_sections_keep(struct unwind_user_sections *sections)
{
	if (!list_empty_careful(&sections->reclaim))
		return;

	guard(spinlock)(&unwind_sections_lock);

	if (list_empty(&sections->reclaim)) {
		list_add_tail(&sections->reclaim, &unwind_sections_list);
		unwind_sections_nr++;
	}
}

/* Those of @mm, with a reference, if there are any. */
static struct unwind_user_sections *unwind_sections_tryget(struct mm_struct *mm)
{
	struct unwind_user_sections *sections;

	guard(rcu)();

	sections = READ_ONCE(mm->unwind_sections);

	return sections && refcount_inc_not_zero(&sections->refs) ? sections : NULL;
}

/* Of current's mm; makes them if there are none yet. NULL if memory lacks. */
static struct unwind_user_sections *unwind_sections_get(gfp_t gfp)
{
	struct unwind_user_sections *sections, *new = NULL, *old;
	struct mm_struct *mm = current->mm;

	/* What reclaim has got the last reference of is about to be no longer there. */
	while (!(sections = unwind_sections_tryget(mm))) {
		if (!new)
			new = unwind_sections_alloc(mm, gfp);
		if (!new)
			return NULL;

		old = NULL;
		if (try_cmpxchg(&mm->unwind_sections, &old, new)) {
			new = NULL;
		} else {
			/* With PREEMPT_RT spinning would keep reclaim from running. */
			spin_lock(&unwind_sections_lock);
			spin_unlock(&unwind_sections_lock);
		}
	}

	kfree(new);
	unwind_sections_keep(sections);
	return sections;
}

/* The mm's reference is left. */
static void unwind_sections_put(struct unwind_user_sections *sections)
{
	if (sections)
		refcount_dec(&sections->refs);
}

/* Forget all that was found. The caller frees @drop when it has no lock. */
static void unwind_sections_drop(struct unwind_user_sections *sections,
				 struct rb_root *drop)
{
	*drop = sections->found;
	sections->found = RB_ROOT;
	sections->nr_found = 0;
}

/*
 * Remember @entry in place of whatever is remembered for its range, or forget it
 * if another task has found out the same in the meantime. Either way @section is
 * what is remembered, and @entry belongs to the tree or is gone.
 */
static void unwind_sections_remember(struct unwind_user_sections *sections,
				     struct unwind_section_entry *entry, u64 table,
				     struct unwind_user_section *section)
{
	struct rb_root drop = RB_ROOT;
	struct unwind_section_entry *old;
	unsigned int stale = 0;
	bool same = false;

	unwind_sections_assign_id(entry);

	spin_lock(&sections->lock);

	if (sections->nr_found >= UNWIND_SECTIONS_FOUND_MAX)
		unwind_sections_drop(sections, &drop);

	while ((old = unwind_sections_overlap(&sections->found, entry->start,
					      entry->end))) {
		same = unwind_section_same_text(old, entry) && !old->unread &&
		       old->has_sframe == entry->has_sframe &&
		       old->sframe_size == entry->sframe_size;
		if (same)
			break;

		/* One large mapping in place of many: not one by one. */
		if (++stale == UNWIND_SECTIONS_STALE_MAX) {
			unwind_sections_drop(sections, &drop);
			break;
		}

		rb_erase(&old->node, &sections->found);
		sections->nr_found--;
		kfree(old);
	}

	if (!same) {
		unwind_sections_add(&sections->found, entry);
		sections->nr_found++;
		old = entry;
	}

	unwind_sections_copy(section, old, table);

	spin_unlock(&sections->lock);
	/* It may have been reclaimed since the lookup began. */
	unwind_sections_keep(sections);

	if (same)
		kfree(entry);
	unwind_sections_free_tree(&drop);
}

/* ---- Looking it up -------------------------------------------------------- */

/**
 * struct unwind_section_lookup - Something is being looked up
 * @sections:	Where
 * @ip:		Address that is looked up
 * @start:	Start of the gap between registered sections around @ip
 * @end:	End of that gap
 * @file:	If it has to be found out, what is mapped at @ip. It has to be
 *		put. NULL for the vDSO
 * @head:	Where the start of @file, or of the vDSO, is mapped
 * @head_size:	How much of it, in bytes; 0 if it is not
 * @table:	Number of the table that was supplied for it, or 0
 * @new:	What is known of that already
 */
struct unwind_section_lookup {
	struct unwind_user_sections	*sections;
	unsigned long			ip;
	unsigned long			start;
	unsigned long			end;
	struct file			*file;
	unsigned long			head;
	unsigned long			head_size;
	u64				table;
	struct unwind_section_entry	new;
};

/*
 * Find out what there is for the mapping that @entry is about, and read the
 * section's header into @sframe. Failures are results, too: they are not to be
 * repeated at every frame.
 */
static void unwind_section_discover(struct unwind_section_lookup *lookup,
				    struct sframe_section *sframe)
{
	struct unwind_section_entry *entry = &lookup->new;
	struct unwind_elf elf = {
		.file	= lookup->head_size ? NULL : lookup->file,
		.base	= lookup->head,
		.size	= lookup->head_size,
	};
	struct mm_struct *mm = current->mm;
	bool mapped;
	int ret;

	ret = unwind_elf_init(&elf);
	if (!ret)
		ret = unwind_elf_find_sframe(&elf, entry);
	if (ret == -ENOENT || ret == -ENOEXEC)
		return;
	if (ret)
		goto bad;

	if (mmap_read_lock_killable(mm))
		return;
	mapped = unwind_section_mapped(mm, entry);
	mmap_read_unlock(mm);
	if (!mapped)
		return;

	*sframe = (struct sframe_section) {
		.base	= entry->sframe_base,
		.size	= entry->sframe_size,
	};
	ret = sframe_section_init(sframe);
	if (ret)
		goto bad;

	entry->has_sframe = true;
	return;
bad:
	entry->sframe_size = 0;
	if (ret == -EIO || ret == -EFAULT) {
		entry->unread = true;
		entry->retry = jiffies + UNWIND_SECTIONS_RETRY;
	}
	pr_debug_ratelimited("%s[%d]: SFrame section for %lx-%lx (%pD) not used: %d\n",
			     current->comm, current->pid, entry->start,
			     entry->end, lookup->file, ret);
}

/* Put @entry and, if it has one, @sframe into memory that can be kept. */
static struct unwind_section_entry *
unwind_section_alloc(const struct unwind_section_entry *entry,
		     const struct sframe_section *sframe, gfp_t gfp)
{
	struct unwind_section_entry *new;

	new = kmalloc(struct_size(new, sframe, entry->has_sframe), gfp);
	if (!new)
		return NULL;

	*new = *entry;
	if (entry->has_sframe)
		new->sframe[0] = *sframe;

	return new;
}

/* Where is the start of the file that @vma maps some code of? */
static void unwind_section_find_head(struct unwind_section_lookup *lookup,
				     const struct vm_area_struct *vma)
{
	VMA_ITERATOR(vmi, vma->vm_mm, vma->vm_start);
	const struct vm_area_struct *head = vma;
	unsigned int i;

	for (i = 0; i < UNWIND_ELF_VMAS_MAX; i++) {
		if (head->vm_pgoff == 0 && (head->vm_flags & VM_READ)) {
			lookup->head = head->vm_start;
			lookup->head_size = head->vm_end - head->vm_start;
			return;
		}

		head = vma_prev(&vmi);
		if (!head || !head->vm_file || !vma->vm_file ||
		    file_inode(head->vm_file) != file_inode(vma->vm_file))
			return;
	}
}

/*
 * Return: 0 if @section is what is remembered, -EAGAIN if it is to be found
 *	   out. The rest as unwind_user_section_find().
 */
static int unwind_section_lookup(struct unwind_section_lookup *lookup,
				 struct unwind_user_section *section,
				 struct unwind_user_seq *seq)
{
	struct unwind_user_sections *sections = lookup->sections;
	struct unwind_section_entry *new = &lookup->new, *old;
	struct mm_struct *mm = current->mm;
	unsigned long ip = lookup->ip;
	struct vm_area_struct *vma;
	int ret = 0;

	if (mmap_read_lock_killable(mm))
		return -EINTR;

	seq->mm = unwind_user_section_seq(mm);
	seq->tables = unwind_tables_current();

	old = unwind_sections_lookup(&sections->registered, ip, &lookup->start,
				     &lookup->end);
	if (old) {
		scoped_guard(spinlock, &sections->lock)
			unwind_sections_copy(section, old, 0);
		lookup->start = section->start;
		lookup->end = section->end;
		goto out;
	}

	ret = -ENOENT;
	vma = vma_lookup(mm, ip);
	if (!vma || !(vma->vm_flags & VM_EXEC))
		goto out;

	ret = 0;
	if (!unwind_source_init(&new->source, vma)) {
		/* No file to look into. That is not worth more than a number. */
		section->start		= vma->vm_start;
		section->end		= vma->vm_end;
		section->id		= unwind_sections_new_id();
		section->has_sframe	= false;
		section->unread		= false;
		section->table		= 0;
		goto out;
	}

	new->start = vma->vm_start;
	new->end = vma->vm_end;

	if (vma->vm_file) {
		lookup->table = unwind_table_find(file_inode(vma->vm_file));
		seq->tables = unwind_tables_current();
	}

	scoped_guard(spinlock, &sections->lock) {
		old = unwind_sections_overlap(&sections->found, ip, ip + 1);
		if (old && unwind_section_valid(mm, old, new))
			unwind_sections_copy(section, old, lookup->table);
		else
			ret = -EAGAIN;
	}

	if (ret) {
		unwind_section_find_head(lookup, vma);
		if (vma->vm_file)
			lookup->file = get_file(vma->vm_file);
	}
out:
	mmap_read_unlock(mm);
	return ret;
}

/**
 * unwind_user_section_find - Find the section for an address
 * @ip:		The address, of code of the current task
 * @section:	Receives what is known of the code around it
 * @seq:	Receives the state of the mappings and tables that this is about,
 *		for unwind_user_section_current()
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held.
 *	    Sleeps; may read from files, and waits for that killably.
 * Return:
 * * 0		- @section and @seq are filled in
 * * -ENOENT	- Nothing is mapped there for execution, nor is anything
 *		  registered. Also if there is no memory to look into it, if the
 *		  task is exiting and it has not been looked into before, and for
 *		  32-bit and x32 programs
 * * -EINTR	- The task is being killed
 */
int unwind_user_section_find(unsigned long ip,
			     struct unwind_user_section *section,
			     struct unwind_user_seq *seq)
{
	struct unwind_section_lookup lookup = { .ip = ip };
	struct unwind_section_entry *entry;
	int ret;

	might_sleep();

	if (arch_unwind_user_compat() || ip >= TASK_SIZE_MAX)
		return -ENOENT;

	lookup.sections = unwind_sections_get(UNWIND_SECTIONS_GFP);
	if (!lookup.sections)
		return -ENOENT;

	ret = unwind_section_lookup(&lookup, section, seq);
	if (ret != -EAGAIN)
		goto out;

	/* It cannot be killed any more, so it must not wait for a file. */
	ret = -ENOENT;
	if (current->flags & PF_EXITING)
		goto out;

	unwind_section_discover(&lookup, &section->sframe);

	/* Then what was found out may be that nothing could be read. */
	ret = -EINTR;
	if (fatal_signal_pending(current))
		goto out;

	ret = -ENOENT;
	entry = unwind_section_alloc(&lookup.new, &section->sframe,
				     UNWIND_SECTIONS_GFP);
	if (!entry)
		goto out;

	/*
	 * The mappings may have changed since the lookup. Then @seq is not
	 * current, and the entry is valid again only if the same file comes
	 * back to the same place.
	 */
	ret = 0;
	unwind_sections_remember(lookup.sections, entry, lookup.table, section);
out:
	/* In the midst of a mapping there may be ranges that are registered. */
	if (!ret) {
		section->start = max(section->start, lookup.start);
		section->end = min(section->end, lookup.end);
	}
	if (lookup.file)
		fput(lookup.file);
	unwind_sections_put(lookup.sections);
	return ret;
}

/**
 * unwind_user_section_drop - Do not use a section any more, as it is corrupt
 * @section:	From unwind_user_section_find(),
 * @seq:	as is this
 * @ip:		The address that was looked up in it
 * @flaw:	Which part of the section is corrupt
 *
 * To find that out may take long, for each address anew. Until something else is
 * mapped or registered there, the range has no section.
 *
 * Context: As unwind_user_section_find().
 * Return: true if the section is dropped, now or before, so that it is not found any
 *	   more; false if it may have been something else that was read, or if the
 *	   task is being killed.
 */
bool unwind_user_section_drop(const struct unwind_user_section *section,
			      const struct unwind_user_seq *seq,
			      unsigned long ip, const char *flaw)
{
	struct mm_struct *mm = current->mm;
	struct unwind_user_sections *sections;
	struct unwind_section_entry *entry;
	const struct vm_area_struct *vma;
	struct file *file = NULL;
	bool drop = false;

	if (mmap_read_lock_killable(mm))
		return false;

	/* If the kernel does not count, the wrong one may go: a race is rare. */
	if (unwind_user_section_seq(mm) != seq->mm) {
		mmap_read_unlock(mm);
		return false;
	}

	/* Reclaimed: it is looked up anew. */
	sections = unwind_sections_tryget(mm);
	if (!sections) {
		mmap_read_unlock(mm);
		return true;
	}

	scoped_guard(spinlock, &sections->lock) {
		entry = unwind_sections_overlap(&sections->registered, ip, ip + 1) ?:
			unwind_sections_overlap(&sections->found, ip, ip + 1);
		/* Other tasks may have done so already. */
		drop = entry && entry->has_sframe &&
		       (entry->id == section->id ||
			(entry->table && entry->table_id == section->id));
		if (drop) {
			entry->has_sframe = false;
			entry->sframe_size = 0;
			entry->table = 0;
			unwind_sections_assign_id(entry);
		}
	}

	vma = vma_lookup(mm, ip);
	if (drop && vma && vma->vm_file)
		file = get_file(vma->vm_file);

	mmap_read_unlock(mm);
	unwind_sections_put(sections);

	if (drop) {
		pr_debug_ratelimited("%s[%d]: SFrame section at 0x%lx of %pD dropped: %s of 0x%lx is corrupt\n",
				     current->comm, current->pid,
				     section->sframe.base, file, flaw, ip);
	}
	if (file)
		fput(file);

	return true;
}

static void unwind_user_keep_mapping(struct unwind_user_mapping *mapping,
				     const struct vm_area_struct *vma)
{
	mapping->start	= vma->vm_start;
	mapping->end	= vma->vm_end;
	mapping->seq	= unwind_user_section_seq(vma->vm_mm);
}

/**
 * unwind_user_find_stack - Find the mapping that a stack pointer is in
 * @sp:		The stack pointer, which may be where the stack has not grown to yet
 * @mapping:	Receives where the mapping is
 *
 * Context: As unwind_user_section_find().
 * Return: false if there is none, or if the task is being killed.
 */
bool unwind_user_find_stack(unsigned long sp, struct unwind_user_mapping *mapping)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool found;

	if (mmap_read_lock_killable(mm))
		return false;

	vma = find_vma(mm, sp);
	found = vma && (sp >= vma->vm_start || (vma->vm_flags & VM_GROWSDOWN));
	if (found)
		unwind_user_keep_mapping(mapping, vma);

	mmap_read_unlock(mm);
	return found;
}

/**
 * unwind_user_find_code - Find the executable mapping of an address
 * @ip:		The address
 * @mapping:	Receives where the mapping is
 *
 * Context: As unwind_user_section_find().
 * Return: false if there is none, or if the task is being killed.
 */
bool unwind_user_find_code(unsigned long ip, struct unwind_user_mapping *mapping)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool found;

	if (mmap_read_lock_killable(mm))
		return false;

	vma = vma_lookup(mm, ip);
	found = vma && (vma->vm_flags & VM_EXEC);
	if (found)
		unwind_user_keep_mapping(mapping, vma);

	mmap_read_unlock(mm);
	return found;
}

/* ---- Lifetime ------------------------------------------------------------- */

/**
 * unwind_user_shared_replace - Set what the threads of current's mm remember together
 * @old:	What it is, or NULL; not dereferenced
 * @new:	What it is to be
 *
 * Context: Task context.
 * Return: what it was; it was replaced if that is @old.
 */
struct unwind_user_shared *unwind_user_shared_replace(struct unwind_user_shared *old,
						      struct unwind_user_shared *new)
{
	struct unwind_user_sections *sections = unwind_sections_tryget(current->mm);
	struct unwind_user_shared *was;

	/* Reclaimed: there is neither @old nor a place for @new. */
	if (!sections)
		return ERR_PTR(-ENOENT);

	was = unrcu_pointer(cmpxchg(&sections->shared, RCU_INITIALIZER(old),
				    RCU_INITIALIZER(new)));
	if (was == old)
		unwind_sections_keep(sections);
	unwind_sections_put(sections);

	return was;
}

/*
 * Free what can be found again, and @sections if nothing else is in there. The mm may
 * go when unwind_sections_lock is free again.
 */
static void unwind_sections_reclaim(struct unwind_user_sections *sections)
	__releases(unwind_sections_lock)
{
	struct unwind_user_shared *shared;
	struct rb_root found;
	bool last;

	lockdep_assert_held(&unwind_sections_lock);

	if (!list_empty(&sections->reclaim)) {
		list_del_init(&sections->reclaim);
		unwind_sections_nr--;
	}

	scoped_guard(spinlock, &sections->lock)
		unwind_sections_drop(sections, &found);
	shared = unrcu_pointer(xchg(&sections->shared, NULL));

	/* What is registered has a reference. */
	last = refcount_dec_if_one(&sections->refs);
	if (last)
		WRITE_ONCE(sections->mm->unwind_sections, NULL);

	spin_unlock(&unwind_sections_lock);

	unwind_sections_free_tree(&found);
	unwind_user_shared_free(shared);
	if (last)
		kfree_rcu(sections, rcu);
}

/**
 * unwind_user_sections_drop - Forget what current's mm can find again
 *
 * Context: Process context. Does not sleep.
 */
void unwind_user_sections_drop(void)
{
	struct mm_struct *mm = current->mm;
	struct unwind_user_sections *sections;

	if (!mm || !READ_ONCE(mm->unwind_sections))
		return;

	spin_lock(&unwind_sections_lock);
	sections = mm->unwind_sections;
	if (sections)
		unwind_sections_reclaim(sections);
	else
		spin_unlock(&unwind_sections_lock);
}

/**
 * unwind_user_sections_count - How many mms have something to be reclaimed?
 *
 * Context: Any.
 * Return: their number.
 */
unsigned long unwind_user_sections_count(void)
{
	return READ_ONCE(unwind_sections_nr);
}

/**
 * unwind_user_sections_reclaim - Forget what can be found again
 * @nr:		For how many mms, those first that were walked first
 *
 * Walks may go on meanwhile, and find it again.
 *
 * Context: Process context, also while memory is being reclaimed. Does not sleep.
 * Return: for how many.
 */
unsigned long unwind_user_sections_reclaim(unsigned long nr)
{
	struct unwind_user_sections *sections;
	unsigned long done;

	/* Those that come again meanwhile are at the end of the list. */
	nr = min(nr, unwind_user_sections_count());

	for (done = 0; done < nr; done++) {
		spin_lock(&unwind_sections_lock);
		sections = list_first_entry_or_null(&unwind_sections_list,
						    struct unwind_user_sections,
						    reclaim);
		if (!sections) {
			spin_unlock(&unwind_sections_lock);
			break;
		}
		unwind_sections_reclaim(sections);
	}

	return done;
}

/**
 * unwind_user_sections_free - Forget all sections of an mm
 * @mm:		The mm, which no task uses any more
 *
 * In the last mmput(), rather than mmdrop(), as only tasks with this mm look
 * sections up, and the mm_struct may stay around for long as some CPU's lazy mm.
 *
 * Context: Process context.
 */
void unwind_user_sections_free(struct mm_struct *mm)
{
	struct unwind_user_sections *sections;

	if (!READ_ONCE(mm->unwind_sections))
		return;

	/* Who reclaims may have found it before, and may free it. */
	scoped_guard(spinlock, &unwind_sections_lock) {
		sections = mm->unwind_sections;
		mm->unwind_sections = NULL;
		if (sections && !list_empty(&sections->reclaim)) {
			list_del(&sections->reclaim);
			unwind_sections_nr--;
		}
	}
	if (!sections)
		return;

	unwind_user_shared_free(unrcu_pointer(sections->shared));
	unwind_sections_free_tree(&sections->found);
	unwind_sections_free_tree(&sections->registered);
	kfree(sections);
}

/* ---- Sections that programs register -------------------------------------- */

/**
 * unwind_user_sections_fork - Give a child what its parent registered
 * @mm:		The child's mm, whose unwind_user_sections_free() follows in any case
 * @oldmm:	The parent's
 *
 * The child has a copy of the code and of the sections. What was found in files
 * is found again when it is needed.
 *
 * Context: Both mmap locks are held for writing.
 * Return: 0, or -ENOMEM. That should fail the fork: a child that lacks some
 *	   sections would have wrong stacks without anybody knowing.
 */
int unwind_user_sections_fork(struct mm_struct *mm, struct mm_struct *oldmm)
{
	struct unwind_user_sections *sections, *old;
	struct unwind_section_entry *entry, *copy;
	struct rb_node *node;
	int ret = 0;

	mmap_assert_write_locked(oldmm);

	old = unwind_sections_tryget(oldmm);
	if (!old || !old->nr_registered)
		goto out;

	ret = -ENOMEM;
	sections = unwind_sections_alloc(mm, GFP_KERNEL_ACCOUNT);
	if (!sections)
		goto out;

	mm->unwind_sections = sections;

	for (node = rb_first(&old->registered); node; node = rb_next(node)) {
		entry = rb_entry(node, struct unwind_section_entry, node);
		copy = unwind_section_alloc(entry, entry->sframe,
					    GFP_KERNEL_ACCOUNT);
		if (!copy)
			goto out;

		unwind_sections_assign_id(copy);
		unwind_sections_add(&sections->registered, copy);
		if (!sections->nr_registered++)
			refcount_inc(&sections->refs);
	}

	ret = 0;
out:
	unwind_sections_put(old);
	return ret;
}

static bool unwind_user_range_ok(unsigned long start, unsigned long end)
{
	return start < end && end <= TASK_SIZE_MAX;
}

/* @entry is filled in but for its number. */
static int unwind_sections_register(struct unwind_user_sections *sections,
				    struct unwind_section_entry *entry)
{
	struct mm_struct *mm = current->mm;
	int ret = 0;

	/* For writing, so that walkers see that something has changed. */
	if (mmap_write_lock_killable(mm))
		return -EINTR;

	if (unwind_sections_overlap(&sections->registered, entry->start,
				    entry->end)) {
		ret = -EEXIST;
	} else if (sections->nr_registered >= UNWIND_SFRAME_MAX) {
		ret = -ENOSPC;
	} else {
		unwind_sections_assign_id(entry);
		unwind_sections_add(&sections->registered, entry);
		if (!sections->nr_registered++)
			refcount_inc(&sections->refs);
	}

	mmap_write_unlock(mm);
	return ret;
}

/**
 * unwind_user_sframe_add - Register a section, for PR_UNWIND_SFRAME_ADD
 * @sframe_addr: Where the section is
 * @sframe_len:	Its length in bytes
 * @text_start:	First byte of the code that it is to be used for
 * @text_end:	First byte after that
 *
 * What sframe_section_init() reads is read now. The rest is read when it is
 * needed, as it is then.
 *
 * Context: System call of a user task. Sleeps.
 * Return:
 * * 0		- It is used from now on
 * * -EINVAL	- A range is empty or not in user space, the section is not one
 *		  that can be used, or this is a 32-bit or x32 program
 * * -EFAULT	- The section cannot be read
 * * -EEXIST	- A registered range overlaps this one
 * * -ENOSPC	- %UNWIND_SFRAME_MAX are registered
 * * -ENOMEM	- Memory is lacking
 * * -EINTR	- The task is being killed
 */
int unwind_user_sframe_add(unsigned long sframe_addr, unsigned long sframe_len,
			   unsigned long text_start, unsigned long text_end)
{
	struct sframe_section sframe = { .base = sframe_addr };
	struct unwind_section_entry new = { }, *entry;
	struct unwind_user_sections *sections;
	unsigned long sframe_end;
	int ret;

	if (arch_unwind_user_compat())
		return -EINVAL;

	if (check_add_overflow(sframe_addr, sframe_len, &sframe_end) ||
	    !unwind_user_range_ok(sframe_addr, sframe_end) ||
	    !unwind_user_range_ok(text_start, text_end) ||
	    sframe_len > SFRAME_SIZE_MAX)
		return -EINVAL;

	sframe.size = sframe_len;
	ret = sframe_section_init(&sframe);
	/* Which of its other reasons it was makes no difference to the caller. */
	if (ret)
		return ret == -EFAULT ? -EFAULT : -EINVAL;

	sections = unwind_sections_get(GFP_KERNEL_ACCOUNT);
	if (!sections)
		return -ENOMEM;

	new.start	= text_start;
	new.end		= text_end;
	new.has_sframe	= true;

	ret = -ENOMEM;
	entry = unwind_section_alloc(&new, &sframe, GFP_KERNEL_ACCOUNT);
	if (!entry)
		goto out;

	ret = unwind_sections_register(sections, entry);
	if (ret)
		kfree(entry);
out:
	unwind_sections_put(sections);
	return ret;
}

/**
 * unwind_user_sframe_del - Take a section back, for PR_UNWIND_SFRAME_DEL
 * @text_start:	The range of code,
 * @text_end:	as it was registered
 *
 * Context: System call of a user task. Sleeps.
 * Return:
 * * 0		- It is not used from now on, but for walks that are under way
 * * -EINVAL	- The range is empty or not in user space, or this is a 32-bit or
 *		  x32 program
 * * -ENOENT	- No such range is registered
 * * -EINTR	- The task is being killed
 */
int unwind_user_sframe_del(unsigned long text_start, unsigned long text_end)
{
	struct unwind_user_sections *sections;
	struct mm_struct *mm = current->mm;
	struct unwind_section_entry *entry;

	if (arch_unwind_user_compat() || !unwind_user_range_ok(text_start, text_end))
		return -EINVAL;

	sections = unwind_sections_tryget(mm);
	if (!sections)
		return -ENOENT;

	if (mmap_write_lock_killable(mm)) {
		unwind_sections_put(sections);
		return -EINTR;
	}

	entry = unwind_sections_overlap(&sections->registered, text_start, text_end);
	if (entry && (entry->start != text_start || entry->end != text_end))
		entry = NULL;

	if (entry) {
		rb_erase(&entry->node, &sections->registered);
		if (!--sections->nr_registered)
			refcount_dec(&sections->refs);
	}

	mmap_write_unlock(mm);
	unwind_sections_put(sections);

	if (!entry)
		return -ENOENT;

	kfree(entry);
	return 0;
}
