// SPDX-License-Identifier: GPL-2.0
/*
 * Find the SFrame section for an address of the current task
 *
 * Nobody tells the kernel where sections are, so it looks for them. When a walk
 * comes through a mapping for the first time, the kernel reads the headers of the
 * mapped ELF file. The mm remembers what they say, even if it is "no section". It is
 * remembered as a region for each executable mapping (VMA):
 *
 *	file	| ELF header, PT_* | text        | .sframe  | ...
 *		                   :             :          :
 *	memory	                   | VM_EXEC     | VM_READ  |
 *		                   ^ip           ^sframe.base = start of text
 *		                                  + difference of their p_vaddr
 *
 * A profiler may have supplied a table for the file, see tables.c. The table is
 * looked up each time; only its number is remembered.
 *
 * For code that is in no file, a program may register sections itself, by prctl(). Such
 * a section takes precedence for its range of addresses, whatever is mapped there,
 * until it is removed.
 *
 * There are no hooks in the code that changes mappings. Instead, a region is
 * compared with the mappings at each use, and is found anew if they differ. A walk
 * gets a copy of the region. If the mapping goes away while the walk reads the
 * section, the walk reads other bytes or none. It must cope with that anyway,
 * because the user controls the headers and the section.
 */
#define pr_fmt(fmt) "unwind_user: " fmt

#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/overflow.h>
#include <linux/printk.h>
#include <linux/processor.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/time64.h>

#include <asm/unwind_user.h>

#include "found.h"
#include "regions.h"
#include "subject.h"

/*
 * How many regions of mapped files are remembered for one mm. Regions of mappings
 * that have gone are not detected; when the limit is reached, all are forgotten.
 */
#define UNWIND_REGIONS_FOUND_MAX 4096

/* How many are forgotten one by one, because a new one overlaps them */
#define UNWIND_REGIONS_STALE_MAX 16

/*
 * How many mappings below the code are searched for the start of its file. Usually
 * there are about three.
 */
#define UNWIND_ELF_VMAS_MAX	8

/*
 * How many jiffies after a failed read to try again: memory may have been short, or a
 * server may have failed, for a moment.
 */
#define UNWIND_REGIONS_RETRY	HZ

/* How often a walk at hand tries to get the lock of the regions */
#define UNWIND_REGIONS_SPINS	64

/* Inode of the file that @vma maps, or NULL. Also under unwind_user_look(). */
static const struct inode *unwind_vma_inode(const struct vm_area_struct *vma)
{
	const struct file *file = READ_ONCE(vma->vm_file);

	return file ? READ_ONCE(file->f_inode) : NULL;
}

/*
 * Also under unwind_user_look().
 *
 * Return: false if @vma maps neither a regular file nor the vDSO.
 */
static bool unwind_source_init(struct unwind_source *source,
			       const struct vm_area_struct *vma)
{
	const struct inode *inode = unwind_vma_inode(vma);
	struct timespec64 ctime;

	*source = (struct unwind_source) { };

	/* If a device is behind the file, reading it may have side effects. */
	if (vma->vm_flags & (VM_IO | VM_PFNMAP))
		return false;

	if (!inode)
		return arch_unwind_user_vdso(vma);

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

/* Does @vma contain the whole section of @entry? Also under unwind_user_look(). */
static bool unwind_region_section_in(const struct unwind_region *entry,
				     const struct vm_area_struct *vma)
{
	unsigned long start = vma->vm_start, end = vma->vm_end;
	unsigned long base = entry->elf.sframe_base;
	struct unwind_source source;

	if (!(vma->vm_flags & VM_READ) || base < start || base >= end ||
	    entry->elf.sframe_size > end - base)
		return false;

	return unwind_source_init(&source, vma) &&
	       unwind_source_same_file(&source, &entry->source) &&
	       source.off + (base - start) == entry->elf.sframe_off;
}

/* Does a single, readable mapping contain the whole section of @entry? */
static bool unwind_region_mapped(struct mm_struct *mm,
				 const struct unwind_region *entry)
{
	const struct vm_area_struct *vma;

	mmap_assert_locked(mm);

	vma = vma_lookup(mm, entry->elf.sframe_base);

	return vma && unwind_region_section_in(entry, vma);
}

/* Do both have the same range, and map the same part of the same file? */
static bool unwind_region_same_text(const struct unwind_region *a,
				    const struct unwind_region *b)
{
	return a->start == b->start && a->end == b->end &&
	       a->source.off == b->source.off &&
	       unwind_source_same_file(&a->source, &b->source);
}

/* Would looking at @new, which is mapped now, yield @old again? */
static bool unwind_region_valid(struct mm_struct *mm,
				const struct unwind_region *old,
				const struct unwind_region *new)
{
	if (!unwind_region_same_text(old, new))
		return false;

	if (old->unread)
		return time_before(jiffies, old->retry);

	return !old->elf.sframe_size ||
	       unwind_region_mapped(mm, old) == old->has_sframe;
}

/* A region of code without a file: nothing to look at, only assign a number. */
static void unwind_region_no_file(struct unwind_user_region *region,
				  unsigned long start, unsigned long end)
{
	region->start		= start;
	region->end		= end;
	region->id		= unwind_regions_new_id();
	region->has_sframe	= false;
	region->unread		= false;
	region->early		= false;
	region->table		= 0;
}

/*
 * Remember @entry in place of the regions that it overlaps. If another task has
 * found the same in the meantime, free @entry. In both cases @region receives a
 * copy of the remembered region.
 */
static void unwind_regions_remember(struct unwind_user_regions *regions,
				    struct unwind_region *entry, u64 table,
				    struct unwind_user_region *region)
{
	struct rb_root drop = RB_ROOT;
	struct unwind_region *old;
	unsigned int stale = 0;
	bool same = false;

	unwind_regions_assign_id(entry);

	spin_lock(&regions->lock);

	if (regions->nr_found >= UNWIND_REGIONS_FOUND_MAX)
		unwind_regions_drop(regions, &drop);

	while ((old = unwind_regions_overlap(&regions->found, entry->start,
					     entry->end))) {
		same = unwind_region_same_text(old, entry) && !old->unread &&
		       old->has_sframe == entry->has_sframe &&
		       old->elf.sframe_size == entry->elf.sframe_size;
		if (same)
			break;

		/* One large mapping replaces many: do not forget them one by one. */
		if (++stale == UNWIND_REGIONS_STALE_MAX) {
			unwind_regions_drop(regions, &drop);
			break;
		}

		rb_erase(&old->node, &regions->found);
		regions->nr_found--;
		kfree(old);
	}

	if (!same) {
		unwind_regions_add(&regions->found, entry);
		regions->nr_found++;
		old = entry;
	}

	unwind_regions_copy(region, old, table);

	spin_unlock(&regions->lock);
	/* The regions may have been reclaimed since the lookup began. */
	unwind_regions_keep(regions);

	if (same)
		kfree(entry);
	unwind_regions_free_tree(&drop);
}

/**
 * struct unwind_region_lookup - State of a lookup
 * @regions:	Regions of the mm
 * @ip:		Address to look up
 * @start:	Start of the gap between registered regions around @ip
 * @end:	End of that gap
 * @file:	If the region is not known yet: the file that is mapped at @ip,
 *		with a reference. NULL for the vDSO
 * @head:	Where the start of @file, or of the vDSO, is mapped
 * @head_size:	How many bytes of it are mapped; 0 if none
 * @table:	Number of the table that was supplied for @file, or 0
 * @new:	What is known about the region so far
 */
struct unwind_region_lookup {
	struct unwind_user_regions	*regions;
	unsigned long			ip;
	unsigned long			start;
	unsigned long			end;
	struct file			*file;
	unsigned long			head;
	unsigned long			head_size;
	u64				table;
	struct unwind_region		new;
};

/*
 * Look at the file of the mapping that @lookup is for, and read the header of its
 * section into @sframe. Failures are remembered, too, so that they are not repeated
 * at each frame.
 */
static void unwind_region_discover(struct unwind_region_lookup *lookup,
				   struct sframe_section *sframe)
{
	struct unwind_region *entry = &lookup->new;
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
		ret = unwind_elf_find_sframe(&elf, entry->start, entry->source.off,
					     &entry->elf);
	if (ret == -ENOENT || ret == -ENOEXEC)
		return;
	if (ret)
		goto bad;

	if (!unwind_user_lock_mm(mm))
		return;
	mapped = unwind_region_mapped(mm, entry);
	mmap_read_unlock(mm);
	if (!mapped)
		return;

	*sframe = (struct sframe_section) {
		.base	= entry->elf.sframe_base,
		.size	= entry->elf.sframe_size,
	};
	ret = sframe_section_init(sframe);
	if (ret)
		goto bad;

	entry->has_sframe = true;
	return;
bad:
	entry->elf.sframe_size = 0;
	if (ret == -EIO || ret == -EFAULT) {
		entry->unread = true;
		entry->retry = jiffies + UNWIND_REGIONS_RETRY;
	}
	pr_debug_ratelimited("%s[%d]: SFrame section for %lx-%lx (%pD) not used: %d\n",
			     unwind_user_task()->comm, unwind_user_task()->pid,
			     entry->start, entry->end, lookup->file, ret);
}

/* @vma maps code of a file. Find where the start of this file is mapped. */
static void unwind_region_find_head(struct unwind_region_lookup *lookup,
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
 * Return: 0 if @region was remembered, -EAGAIN if it is not known yet. Other
 *	   values as for unwind_user_region_find().
 */
static int unwind_region_lookup(struct unwind_region_lookup *lookup,
				struct unwind_user_region *region,
				struct unwind_user_seq *seq)
{
	struct unwind_user_regions *regions = lookup->regions;
	struct unwind_region *new = &lookup->new, *old;
	struct mm_struct *mm = current->mm;
	unsigned long ip = lookup->ip;
	struct vm_area_struct *vma;
	int ret = 0;

	if (!unwind_user_lock_mm(mm))
		return -EINTR;

	seq->mm = unwind_user_mm_seq(mm);
	seq->tables = unwind_tables_current();

	old = unwind_regions_lookup(&regions->registered, ip, &lookup->start,
				    &lookup->end);
	if (old) {
		scoped_guard(spinlock, &regions->lock)
			unwind_regions_copy(region, old, 0);
		lookup->start = region->start;
		lookup->end = region->end;
		goto out;
	}

	ret = -ENOENT;
	vma = vma_lookup(mm, ip);
	if (!vma || !(vma->vm_flags & VM_EXEC))
		goto out;

	ret = 0;
	if (!unwind_source_init(&new->source, vma)) {
		unwind_region_no_file(region, vma->vm_start, vma->vm_end);
		goto out;
	}

	new->start = vma->vm_start;
	new->end = vma->vm_end;

	if (vma->vm_file) {
		lookup->table = unwind_table_find(file_inode(vma->vm_file));
		seq->tables = unwind_tables_current();
	}

	scoped_guard(spinlock, &regions->lock) {
		old = unwind_regions_overlap(&regions->found, ip, ip + 1);
		if (old && unwind_region_valid(mm, old, new))
			unwind_regions_copy(region, old, lookup->table);
		else
			ret = -EAGAIN;
	}

	if (ret) {
		unwind_region_find_head(lookup, vma);
		if (vma->vm_file)
			lookup->file = get_file(vma->vm_file);
	}
out:
	mmap_read_unlock(mm);
	return ret;
}

/**
 * unwind_user_region_find - Find the region that contains an address
 * @ip:		The address, of code of the current task
 * @region:	Receives what is known about the region
 * @seq:	Receives the state of the mappings and tables at the lookup,
 *		for unwind_user_region_current()
 *
 * Context: Task context of a user task, interrupts enabled, no mm lock held.
 *	    Sleeps. May read from files, and a fatal signal ends the wait for that.
 * Return:
 * * 0		- @region and @seq are filled in
 * * -ENOENT	- Nothing is mapped there for execution, and nothing is registered.
 *		  Also if there is no memory for the lookup, if the task is exiting
 *		  and the region is not known yet, and for 32-bit and x32 programs
 * * -EINTR	- The task is being killed
 */
int unwind_user_region_find(unsigned long ip,
			    struct unwind_user_region *region,
			    struct unwind_user_seq *seq)
{
	struct unwind_region_lookup lookup = { .ip = ip };
	struct unwind_region *entry;
	int ret;

	might_sleep();

	if (arch_unwind_user_compat(unwind_user_task()) || ip >= TASK_SIZE_MAX)
		return -ENOENT;

	lookup.regions = unwind_regions_get(UNWIND_REGIONS_GFP);
	if (!lookup.regions)
		return -ENOENT;

	ret = unwind_region_lookup(&lookup, region, seq);
	if (ret != -EAGAIN)
		goto out;

	/* Who cannot be killed must not wait for a file. */
	ret = -ENOENT;
	if (current->flags & PF_EXITING || current->unwind_info.subject)
		goto out;

	unwind_region_discover(&lookup, &region->sframe);

	/* A read may have failed because of the signal. */
	ret = -EINTR;
	if (fatal_signal_pending(current))
		goto out;

	ret = -ENOENT;
	entry = unwind_region_alloc(&lookup.new, &region->sframe,
				    UNWIND_REGIONS_GFP);
	if (!entry)
		goto out;

	/*
	 * The mappings may have changed since the lookup. Then @seq is outdated,
	 * and the region is only valid again if the same file returns to the
	 * same place.
	 */
	ret = 0;
	unwind_regions_remember(lookup.regions, entry, lookup.table, region);
out:
	/* Registered regions may be in the middle of the mapping. */
	if (!ret) {
		region->start = max(region->start, lookup.start);
		region->end = min(region->end, lookup.end);
	}
	if (lookup.file)
		fput(lookup.file);
	unwind_regions_put(lookup.regions);
	return ret;
}

/**
 * struct unwind_region_look - What is read of a mapping of code without the mmap lock
 * @ip:		An address in the mapping
 * @new:	The mapping: its range and its file
 * @code:	@ip is in it, and it is executable. Otherwise the rest is not set
 * @file:	The mapping is of a file that could have a section or table
 * @changing:	Somebody may be changing the mapping
 * @table:	Number of the table that was supplied for the file, or 0
 */
struct unwind_region_look {
	unsigned long			ip;
	struct unwind_region		new;
	bool				code;
	bool				file;
	bool				changing;
	u64				table;
};

static bool unwind_region_look(const struct vm_area_struct *vma, void *data)
{
	struct unwind_region_look *look = data;

	look->new.start = vma->vm_start;
	look->new.end = vma->vm_end;
	look->code = look->ip >= look->new.start && look->ip < look->new.end &&
		     vma->vm_flags & VM_EXEC;
	if (!look->code)
		return true;

	look->file = unwind_source_init(&look->new.source, vma);
	look->table = look->file && look->new.source.inode ?
		      unwind_table_find(look->new.source.inode) : 0;
	look->changing = unwind_user_vma_changing(vma);

	return true;
}

static bool unwind_region_look_at_section(const struct vm_area_struct *vma, void *data)
{
	return unwind_region_section_in(data, vma);
}

/*
 * As unwind_region_valid(), without the mmap lock: see unwind_user_mm_period().
 *
 * Return: 1 if it is valid, 0 if not, -EAGAIN if its section is just being mapped or unmapped.
 */
static int unwind_region_still_valid(struct unwind_region *old,
				     const struct unwind_region *new)
{
	unsigned int seq;
	bool mapped;

	if (old->unread || !unwind_region_same_text(old, new))
		return 0;
	if (!old->elf.sframe_size)
		return 1;

	mapped = unwind_user_look(old->elf.sframe_base, unwind_region_look_at_section,
				  old, &seq);
	if (!mapped && !unwind_user_mm_unlocked(seq))
		return -EAGAIN;

	return mapped == old->has_sframe;
}

/*
 * The owner holds the lock for a search of a tree, without being preempted. But this may
 * have interrupted the owner.
 */
static bool unwind_regions_trylock(struct unwind_user_regions *regions)
{
	unsigned int i;

	for (i = 0; i < UNWIND_REGIONS_SPINS; i++) {
		if (spin_trylock(&regions->lock))
			return true;
		cpu_relax();
	}

	return false;
}

/*
 * Nobody has looked at the file, but its table, if there is one, knows where the code belongs.
 * While the mapping is changing, its start and offset may not belong together.
 */
static bool unwind_region_early(struct unwind_user_region *region,
				const struct unwind_region_look *look)
{
	const struct unwind_region *new = &look->new;

	if (look->changing)
		return false;
	if (look->table && !unwind_table_load_base(look->table, new->start, new->source.off,
						   &region->load_base))
		return false;

	region->start		= new->start;
	region->end		= new->end;
	region->id		= 0;
	region->has_sframe	= false;
	region->unread		= false;
	region->early		= true;
	region->table		= look->table;

	return true;
}

/*
 * What does the mm of current remember of the region at &look->ip? Returns as
 * unwind_user_region_at_hand().
 */
static int unwind_regions_at_hand(struct unwind_user_regions *regions,
				  const struct unwind_region_look *look,
				  struct unwind_user_region *region,
				  const struct unwind_user_seq *seq,
				  unsigned long *start, unsigned long *end)
{
	struct unwind_region *old;
	int ret = 0;

	if (!unwind_regions_trylock(regions))
		return -EBUSY;

	old = unwind_regions_lookup(&regions->registered, look->ip, start, end);
	if (old) {
		unwind_regions_copy(region, old, 0);
	} else if (!look->code) {
		ret = unwind_user_mm_unlocked(seq->mm) ? -ENOENT : -EAGAIN;
	} else if (!look->file && look->changing) {
		/* mlock() marks mappings as those of devices for a while. */
		ret = -EAGAIN;
	} else if (!look->file) {
		unwind_region_no_file(region, look->new.start, look->new.end);
	} else {
		old = unwind_regions_overlap(&regions->found, look->ip, look->ip + 1);
		ret = old ? unwind_region_still_valid(old, &look->new) : 0;
		if (ret > 0) {
			unwind_regions_copy(region, old, look->table);
			ret = 0;
		} else if (!ret && !unwind_region_early(region, look)) {
			ret = -EAGAIN;
		}
	}
	spin_unlock(&regions->lock);

	return ret;
}

/**
 * unwind_user_region_at_hand - Find a region without waiting
 * @ip:		The address, of code of the current task
 * @region:	Receives what is known about the region
 * @seq:	As for unwind_user_region_find()
 *
 * While mappings that have nothing to do with the region come and go, it stays the same.
 *
 * If nobody has looked at the file that is mapped there, its table may say enough: the
 * headers were read when it was supplied. They are those of the file, while
 * unwind_user_region_find() reads what the program has mapped.
 *
 * Context: Any, including NMI, after unwind_tables_begin().
 * Return:
 * * 0		- @region and @seq are filled in
 * * -ENOENT	- Nothing is mapped there for execution, and nothing is registered
 * * -EBUSY	- Somebody holds the lock of the regions, perhaps beneath the caller
 * * -EAGAIN	- Only unwind_user_region_find() can tell
 */
int unwind_user_region_at_hand(unsigned long ip, struct unwind_user_region *region,
			       struct unwind_user_seq *seq)
{
	struct unwind_region_look look = { .ip = ip };
	unsigned long start = 0, end = ULONG_MAX;
	struct unwind_user_regions *regions;
	int ret = -EAGAIN;

	if (ip >= TASK_SIZE_MAX)
		return -ENOENT;

	/* There, to release the lock may wake a task, which a tracer may not do. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return -EAGAIN;

	/* Its last user frees it, or reclaim does after a grace period. */
	guard(rcu)();

	if (!unwind_user_look(ip, unwind_region_look, &look, &seq->mm))
		return unwind_user_is_unmapped(ip) ? -ENOENT : -EAGAIN;
	seq->tables = unwind_tables_current();

	regions = READ_ONCE(current->mm->unwind_regions);
	if (regions)
		ret = unwind_regions_at_hand(regions, &look, region, seq, &start, &end);
	else if (look.code && look.file && unwind_region_early(region, &look))
		ret = 0;

	if (!unwind_user_mm_current(seq->mm))
		return -EAGAIN;
	if (ret)
		return ret;

	/* Registered regions may be in the middle of the mapping. */
	region->start = max(region->start, start);
	region->end = min(region->end, end);

	return 0;
}

/**
 * unwind_user_region_drop - Stop using a section, because it is corrupt
 * @region:	Region of the section, from unwind_user_region_find()
 * @seq:	From unwind_user_region_find(), too
 * @ip:		The address that was looked up in the section
 * @flaw:	Which part of the section is corrupt
 *
 * Detecting the flaw again for each address would take long. The region has no section
 * until something else is mapped or registered there, or reclaim forgets the region.
 *
 * Context: As unwind_user_region_find().
 * Return: true if the section is dropped, now or before, so that it is not found any
 *	   more; false if the bytes that were read may not have been the section, or
 *	   if the task is being killed.
 */
bool unwind_user_region_drop(const struct unwind_user_region *region,
			     const struct unwind_user_seq *seq,
			     unsigned long ip, const char *flaw)
{
	struct mm_struct *mm = current->mm;
	struct unwind_user_regions *regions;
	struct unwind_region *entry;
	const struct vm_area_struct *vma;
	struct file *file = NULL;
	bool drop = false;

	if (!unwind_user_lock_mm(mm))
		return false;

	/* Without sequence numbers a race may drop the wrong one; that is rare. */
	if (unwind_user_mm_seq(mm) != seq->mm) {
		mmap_read_unlock(mm);
		return false;
	}

	/* Reclaimed: the next lookup finds it anew. */
	regions = unwind_regions_tryget(mm);
	if (!regions) {
		mmap_read_unlock(mm);
		return true;
	}

	scoped_guard(spinlock, &regions->lock) {
		entry = unwind_regions_overlap(&regions->registered, ip, ip + 1) ?:
			unwind_regions_overlap(&regions->found, ip, ip + 1);
		/* Other tasks may have dropped it already. */
		drop = entry && entry->has_sframe &&
		       (entry->id == region->id ||
			(entry->table && entry->table_id == region->id));
		if (drop) {
			entry->has_sframe = false;
			entry->elf.sframe_size = 0;
			entry->table = 0;
			unwind_regions_assign_id(entry);
		}
	}

	vma = vma_lookup(mm, ip);
	if (drop && vma && vma->vm_file)
		file = get_file(vma->vm_file);

	mmap_read_unlock(mm);
	unwind_regions_put(regions);

	if (drop) {
		pr_debug_ratelimited("%s[%d]: SFrame section at 0x%lx of %pD dropped: %s of 0x%lx is corrupt\n",
				     unwind_user_task()->comm, unwind_user_task()->pid,
				     region->sframe.base, file, flaw, ip);
	}
	if (file)
		fput(file);

	return true;
}
