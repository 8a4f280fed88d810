// SPDX-License-Identifier: GPL-2.0
/* Memory access of the reader of SFrame sections. */
#include <linux/nospec.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/unwind_user.h>

#include "sframe.h"

/*
 * A lookup makes a few small reads. Usually the pages are present, and then this is
 * faster than the general copy_from_user().
 */
static bool sframe_read_present(unsigned long addr, void *buf, u32 size)
{
	const void __user *from = (const void __user *)addr;
	bool ret = false;
	u64 word;
	u8 byte;

	pagefault_disable();
	if (!user_read_access_begin(from, size))
		goto out;

	for (; size >= sizeof(word); size -= sizeof(word)) {
		unsafe_get_user(word, (const u64 __user *)from, fault);
		put_unaligned(word, (u64 *)buf);
		from += sizeof(word);
		buf += sizeof(word);
	}
	for (; size; size--) {
		unsafe_get_user(byte, (const u8 __user *)from, fault);
		*(u8 *)buf = byte;
		from++;
		buf++;
	}
	ret = true;
fault:
	user_read_access_end();
out:
	pagefault_enable();

	return ret;
}

/**
 * sframe_read - Read a part of a section
 * @sec:	Section
 * @off:	First byte to read, from the start of the section
 * @buf:	Where to put the bytes
 * @size:	How many to read
 *
 * Context: Any if the section is in kernel memory. Otherwise as unwind_user_read(),
 *	    with the mm that the section belongs to.
 * Return: true if all bytes were read; @buf is undefined otherwise.
 */
bool sframe_read(const struct sframe_section *sec, u32 off, void *buf, u32 size)
{
	if (off > sec->size || size > sec->size - off)
		return false;

	if (sec->data) {
		/*
		 * The user controls the offset. If the CPU mispredicts the
		 * comparisons above, nothing beyond the section may be loaded.
		 * For user memory, the access function takes care of that.
		 */
		off = array_index_nospec(off, sec->size + 1);
		size = array_index_nospec(size, sec->size - off + 1);
		memcpy(buf, sec->data + off, size);
		return true;
	}

	return sframe_read_present(sec->base + off, buf, size) ||
	       unwind_user_read(sec->base + off, buf, size);
}
