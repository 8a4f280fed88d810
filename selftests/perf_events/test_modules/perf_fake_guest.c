// SPDX-License-Identifier: GPL-2.0
/*
 * perf_fake_guest - samples of a guest without a hypervisor
 *
 * While the parameter "tgid" names a process, the module reports to perf that each
 * sample of this process is of a guest. No hypervisor (KVM's vendor module) may have
 * registered its callbacks.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/sched.h>

static int tgid;
module_param(tgid, int, 0644);
MODULE_PARM_DESC(tgid, "process whose samples are a guest's (0: none)");

static bool guest_user;
module_param(guest_user, bool, 0644);
MODULE_PARM_DESC(guest_user, "the guest is in user mode");

static unsigned long guest_ip = 0x1234000;
module_param(guest_ip, ulong, 0644);
MODULE_PARM_DESC(guest_ip, "the guest's instruction pointer");

/* Both in any context, NMI included. */
static unsigned int fake_guest_state(void)
{
	int want = READ_ONCE(tgid);

	if (!want || want != current->tgid)
		return 0;
	return PERF_GUEST_ACTIVE | (READ_ONCE(guest_user) ? PERF_GUEST_USER : 0);
}

static unsigned long fake_guest_get_ip(void)
{
	return READ_ONCE(guest_ip);
}

static struct perf_guest_info_callbacks fake_guest_cbs = {
	.state	= fake_guest_state,
	.get_ip	= fake_guest_get_ip,
};

static int __init fake_guest_init(void)
{
	perf_register_guest_info_callbacks(&fake_guest_cbs);
	return 0;
}

static void __exit fake_guest_exit(void)
{
	perf_unregister_guest_info_callbacks(&fake_guest_cbs);
}

module_init(fake_guest_init);
module_exit(fake_guest_exit);
MODULE_DESCRIPTION("Test module that makes samples of a guest");
MODULE_LICENSE("GPL");
