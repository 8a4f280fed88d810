// SPDX-License-Identifier: GPL-2.0
/*
 * unwind_client - clients of deferred unwinding that tests control
 *
 * A device lets a test register and unregister clients, make requests from
 * task, softirq, hard interrupt and NMI context on top of the calling task, and
 * see what the callbacks got. One process at a time can open it; closing unregisters
 * all clients.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/entry-kvm.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/kvm_host.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/ptrace.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>

#include <asm/apic.h>
#include <asm/nmi.h>

#include "../unwind_client.h"

#define CLIENT_MAX_SLEEP_MS	2000
#define CLIENT_MAX_REQUESTS	100000
#define CLIENT_MIN_STORM_US	20
/* An NMI to this CPU arrives at once; the limit is for broken machines. */
#define CLIENT_NMI_WAIT_US	100000

struct client {
	struct unwind_deferred_client	client;
	bool				registered;
	unsigned int			enabled;
	unsigned int			depth;
	unsigned int			callback_sleep;
	unsigned int			request_sleep;
	int				also;
	int				callback_ctx;
	int				callback_client;
	unsigned int			callback_deeper;
	int				after_ctx;
	atomic_t			callback_requests;
	/*
	 * Written by requests of one task in any context on top of it, and by
	 * its callbacks: never at the same time on two CPUs, unless several tasks of
	 * the test use one client. Such a test only looks at the counters.
	 */
	u64				last_cookie;
	int				last_ret;
	int				refused_ret;
	atomic64_t			requests;
	atomic64_t			cookies;
	atomic64_t			refused;
	atomic_t			running;
	atomic64_t			begun;
	atomic64_t			ended;
	atomic64_t			bad_context;
	int				nested_ret;
	u64				nested_cookie;
	/* The last callback; protected by the lock. */
	spinlock_t			lock;
	u64				callback_cookie;
	pid_t				callback_tid;
	unsigned int			nr;
	u64				entries[UNWIND_CLIENT_ENTRIES];
};

static struct client *clients;

/* Serializes control; not taken for requests. */
static DEFINE_MUTEX(client_mutex);
static unsigned long client_open;

/* ---- Requests: any context ----------------------------------------------- */

static int client_request(struct client *c, u64 *cookie)
{
	int ret;

	ret = unwind_deferred_request(&c->client, task_pt_regs(current),
				      READ_ONCE(c->depth), cookie);
	if (ret) {
		WRITE_ONCE(c->refused_ret, ret);
		atomic64_inc(&c->refused);
	} else {
		atomic64_inc(&c->requests);
		if (*cookie != c->last_cookie)
			atomic64_inc(&c->cookies);
		c->last_cookie = *cookie;
	}
	return ret;
}

/* One request that is to be made in another context. */
struct client_call {
	struct client		*c;
	struct task_struct	*task;
	u64			cookie;
	int			ret;
	bool			done;
	struct tasklet_struct	tasklet;
	struct irq_work		work;
};

/* The request that the NMI of this CPU makes. */
static DEFINE_PER_CPU(struct client_call *, client_nmi_call);

static void client_call_run(struct client_call *call)
{
	/* A softirq may have been left to ksoftirqd. */
	if (current != call->task)
		call->ret = -EXDEV;
	else
		call->ret = client_request(call->c, &call->cookie);
	/* Pairs with smp_load_acquire() in client_call_nmi(). */
	smp_store_release(&call->done, true);
}

static void client_call_tasklet(struct tasklet_struct *t)
{
	client_call_run(container_of(t, struct client_call, tasklet));
}

static void client_call_irq(struct irq_work *work)
{
	client_call_run(container_of(work, struct client_call, work));
}

static int client_nmi_handler(unsigned int type, struct pt_regs *regs)
{
	struct client_call *call = this_cpu_read(client_nmi_call);

	if (!call)
		return NMI_DONE;
	this_cpu_write(client_nmi_call, NULL);
	client_call_run(call);
	return NMI_HANDLED;
}

static int client_call_nmi(struct client_call *call)
{
	unsigned int us;

	preempt_disable();
	this_cpu_write(client_nmi_call, call);
	__apic_send_IPI_mask(cpumask_of(smp_processor_id()), NMI_VECTOR);
	for (us = 0; us < CLIENT_NMI_WAIT_US; us++) {
		/* Pairs with smp_store_release() in client_call_run(). */
		if (smp_load_acquire(&call->done))
			break;
		udelay(1);
	}
	this_cpu_write(client_nmi_call, NULL);
	preempt_enable();
	return call->done ? call->ret : -ETIMEDOUT;
}

/* Makes a request for current in the given context. Called in task context. */
static int client_request_from(struct client *c, int ctx, u64 *cookie)
{
	struct client_call call = {
		.c	= c,
		.task	= current,
		.ret	= -EINPROGRESS,
	};

	switch (ctx) {
	case UNWIND_CTX_TASK:
		return client_request(c, cookie);
	case UNWIND_CTX_SOFTIRQ:
		tasklet_setup(&call.tasklet, client_call_tasklet);
		local_bh_disable();
		tasklet_schedule(&call.tasklet);
		/* Runs here, on top of current. */
		local_bh_enable();
		tasklet_kill(&call.tasklet);
		break;
	case UNWIND_CTX_HARDIRQ:
		init_irq_work(&call.work, client_call_irq);
		preempt_disable();
		irq_work_queue(&call.work);
		preempt_enable();
		irq_work_sync(&call.work);
		break;
	case UNWIND_CTX_NMI:
		call.ret = client_call_nmi(&call);
		break;
	default:
		return -EINVAL;
	}
	*cookie = call.cookie;
	return call.ret;
}

/* ---- Callback ------------------------------------------------------------ */

static void client_callback(struct unwind_deferred_client *client,
			    const struct unwind_user_trace *trace, u64 cookie)
{
	struct client *c = container_of(client, struct client, client);
	unsigned int i, ms;
	u64 nested = 0;
	int ctx, other;

	atomic_inc(&c->running);
	atomic64_inc(&c->begun);
	if (!in_task() || irqs_disabled() || !current->mm)
		atomic64_inc(&c->bad_context);

	spin_lock(&c->lock);
	c->callback_cookie = cookie;
	c->callback_tid = task_pid_nr(current);
	c->nr = min_t(unsigned int, trace->nr, UNWIND_CLIENT_ENTRIES);
	for (i = 0; i < c->nr; i++)
		c->entries[i] = trace->entries[i];
	spin_unlock(&c->lock);

	ms = READ_ONCE(c->callback_sleep);
	if (ms)
		msleep(ms);
	ctx = READ_ONCE(c->callback_ctx);
	other = READ_ONCE(c->callback_client);
	if (ctx >= 0 && atomic_add_unless(&c->callback_requests, -1, 0)) {
		WRITE_ONCE(c->depth, c->depth + READ_ONCE(c->callback_deeper));
		c->nested_ret = client_request_from(other < 0 ? c : &clients[other],
						    ctx, &nested);
		c->nested_cookie = nested;
	}
	atomic64_inc(&c->ended);
	atomic_dec(&c->running);
}

/* ---- Storm --------------------------------------------------------------- */

static struct client_storm {
	struct hrtimer		timer;
	struct client		*c;
	struct task_struct	*task;
	ktime_t			period;
} client_storm;

static enum hrtimer_restart client_storm_timer(struct hrtimer *timer)
{
	u64 cookie;

	if (current == client_storm.task)
		client_request(client_storm.c, &cookie);
	hrtimer_forward_now(timer, client_storm.period);
	return HRTIMER_RESTART;
}

static void client_storm_stop(void)
{
	hrtimer_cancel(&client_storm.timer);
	client_storm.task = NULL;
}

static int client_storm_start(struct client *c, s64 us)
{
	client_storm_stop();
	if (!us)
		return 0;
	if (us < CLIENT_MIN_STORM_US || us > USEC_PER_SEC)
		return -EINVAL;
	client_storm.c = c;
	client_storm.task = current;
	client_storm.period = ns_to_ktime(us * NSEC_PER_USEC);
	hrtimer_start(&client_storm.timer, client_storm.period,
		      HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

/* ---- Control ------------------------------------------------------------- */

static void client_unregister(struct client *c)
{
	lockdep_assert_held(&client_mutex);

	while (c->enabled) {
		unwind_deferred_disable();
		c->enabled--;
	}
	if (c->registered) {
		unwind_deferred_unregister(&c->client);
		c->registered = false;
	}
}

static int client_do_ctl(const struct unwind_client_ctl *ctl)
{
	struct client *c;
	int ret;

	lockdep_assert_held(&client_mutex);

	if (ctl->client >= UNWIND_CLIENTS)
		return -EINVAL;
	c = &clients[ctl->client];

	switch (ctl->op) {
	case UNWIND_OP_REGISTER:
		if (c->registered)
			return -EEXIST;
		c->client.callback = client_callback;
		ret = unwind_deferred_register(&c->client);
		c->registered = !ret;
		return ret;
	case UNWIND_OP_UNREGISTER:
		if (!c->registered)
			return -ENOENT;
		unwind_deferred_unregister(&c->client);
		c->registered = false;
		return 0;
	case UNWIND_OP_ENABLE:
		unwind_deferred_enable();
		c->enabled++;
		return 0;
	case UNWIND_OP_DISABLE:
		if (!c->enabled)
			return -ENOENT;
		c->enabled--;
		unwind_deferred_disable();
		return 0;
	case UNWIND_OP_DEPTH:
		if (ctl->arg < 0 || ctl->arg > UINT_MAX)
			return -EINVAL;
		WRITE_ONCE(c->depth, ctl->arg);
		return 0;
	case UNWIND_OP_ALSO:
		if (ctl->arg < -1 || ctl->arg >= UNWIND_CLIENTS)
			return -EINVAL;
		WRITE_ONCE(c->also, ctl->arg);
		return 0;
	case UNWIND_OP_CALLBACK_SLEEP:
		if (ctl->arg < 0 || ctl->arg > CLIENT_MAX_SLEEP_MS)
			return -EINVAL;
		WRITE_ONCE(c->callback_sleep, ctl->arg);
		return 0;
	case UNWIND_OP_REQUEST_SLEEP:
		if (ctl->arg < 0 || ctl->arg > CLIENT_MAX_SLEEP_MS)
			return -EINVAL;
		WRITE_ONCE(c->request_sleep, ctl->arg);
		return 0;
	case UNWIND_OP_CALLBACK_CTX:
		if (ctl->arg < -1 || ctl->arg >= UNWIND_CTX_NR)
			return -EINVAL;
		WRITE_ONCE(c->callback_ctx, ctl->arg);
		return 0;
	case UNWIND_OP_CALLBACK_REQUESTS:
		if (ctl->arg < 0 || ctl->arg > CLIENT_MAX_REQUESTS)
			return -EINVAL;
		atomic_set(&c->callback_requests, ctl->arg);
		return 0;
	case UNWIND_OP_CALLBACK_CLIENT:
		if (ctl->arg < -1 || ctl->arg >= UNWIND_CLIENTS)
			return -EINVAL;
		WRITE_ONCE(c->callback_client, ctl->arg);
		return 0;
	case UNWIND_OP_CALLBACK_DEEPER:
		if (ctl->arg < 0 || ctl->arg > UNWIND_CLIENT_ENTRIES)
			return -EINVAL;
		WRITE_ONCE(c->callback_deeper, ctl->arg);
		return 0;
	case UNWIND_OP_AFTER_CTX:
		if (ctl->arg < -1 || ctl->arg >= UNWIND_CTX_NR)
			return -EINVAL;
		WRITE_ONCE(c->after_ctx, ctl->arg);
		return 0;
	case UNWIND_OP_STORM:
		return client_storm_start(c, ctl->arg);
	}
	return -EINVAL;
}

static int client_get_state(struct unwind_client_state __user *user)
{
	struct unwind_client_state *state;
	struct client *c;
	u32 id;
	int ret;

	if (get_user(id, &user->client))
		return -EFAULT;
	if (id >= UNWIND_CLIENTS)
		return -EINVAL;
	state = kzalloc(sizeof(*state), GFP_KERNEL);
	if (!state)
		return -ENOMEM;

	c = &clients[id];
	state->client = id;
	state->ret = READ_ONCE(c->last_ret);
	state->cookie = READ_ONCE(c->last_cookie);
	state->requests = atomic64_read(&c->requests);
	state->cookies = atomic64_read(&c->cookies);
	state->refused = atomic64_read(&c->refused);
	state->refused_ret = READ_ONCE(c->refused_ret);
	state->running = atomic_read(&c->running);
	state->begun = atomic64_read(&c->begun);
	state->ended = atomic64_read(&c->ended);
	state->bad_context = atomic64_read(&c->bad_context);
	state->nested_ret = READ_ONCE(c->nested_ret);
	state->nested_cookie = READ_ONCE(c->nested_cookie);
	spin_lock(&c->lock);
	state->callback_cookie = c->callback_cookie;
	state->callback_tid = c->callback_tid;
	state->nr = c->nr;
	memcpy(state->entries, c->entries, sizeof(state->entries));
	spin_unlock(&c->lock);

	ret = copy_to_user(user, state, sizeof(*state)) ? -EFAULT : 0;
	kfree(state);
	return ret;
}

/* ---- Requests after the deferred work, in the same kernel entry ---------- */

struct client_after {
	struct callback_head	work;
	struct client		*c;
	int			ctx;
};

static void client_after_work(struct callback_head *work)
{
	struct client_after *after = container_of(work, struct client_after,
						  work);
	struct client *c = after->c;
	u64 cookie = 0;

	c->nested_ret = client_request_from(c, after->ctx, &cookie);
	c->nested_cookie = cookie;
	kfree(after);
}

/* Task work that is queued first runs last, so this runs after the deferred work. */
static int client_queue_after(struct client *c)
{
	int ctx = READ_ONCE(c->after_ctx);
	struct client_after *after;
	int ret;

	if (ctx < 0)
		return 0;
	after = kmalloc(sizeof(*after), GFP_KERNEL);
	if (!after)
		return -ENOMEM;
	after->c = c;
	after->ctx = ctx;
	init_task_work(&after->work, client_after_work);
	ret = task_work_add(current, &after->work, TWA_RESUME);
	if (ret)
		kfree(after);
	return ret;
}

static long client_do_request(unsigned int nr)
{
	unsigned int ms, id = nr % UNWIND_CLIENTS, ctx = nr / UNWIND_CLIENTS;
	struct client *c = &clients[id];
	u64 cookie = 0;
	int ret, also;

	ret = client_queue_after(c);
	if (ret)
		return ret;
	ret = client_request_from(c, ctx, &cookie);
	WRITE_ONCE(c->last_ret, ret);
	also = READ_ONCE(c->also);
	if (also >= 0) {
		struct client *other = &clients[also];

		WRITE_ONCE(other->last_ret,
			   client_request_from(other, ctx, &cookie));
	}
	ms = READ_ONCE(c->request_sleep);
	if (ms)
		msleep(ms);
	return ret;
}

#ifdef CONFIG_KVM_XFER_TO_GUEST_WORK

/* Does what KVM_RUN does around a guest, without running a guest. */
static long client_do_vcpu(unsigned int nr)
{
	struct client *c = &clients[nr % UNWIND_CLIENTS];
	int i, ret;

	for (i = 0; i < UNWIND_CLIENT_GUEST_ENTRIES; i++) {
		u64 cookie = 0;

		ret = client_request_from(c, nr / UNWIND_CLIENTS, &cookie);
		if (ret)
			return ret;
		if (signal_pending(current))
			return -EINTR;
		ret = xfer_to_guest_mode_handle_work(NULL);
		if (ret)
			return ret;

		local_irq_disable();
		guest_timing_enter_irqoff();
		guest_timing_exit_irqoff();
		local_irq_enable();
	}
	return 0;
}

#else /* !CONFIG_KVM_XFER_TO_GUEST_WORK */

static long client_do_vcpu(unsigned int nr)
{
	return -EOPNOTSUPP;
}

#endif /* CONFIG_KVM_XFER_TO_GUEST_WORK */

static long client_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct unwind_client_ctl ctl;
	int ret;

	if (_IOC_TYPE(cmd) == 'u')
		return client_do_request(_IOC_NR(cmd));
	if (_IOC_TYPE(cmd) == 'g')
		return client_do_vcpu(_IOC_NR(cmd));

	switch (cmd) {
	case UNWIND_CLIENT_CTL:
		if (copy_from_user(&ctl, (void __user *)arg, sizeof(ctl)))
			return -EFAULT;
		mutex_lock(&client_mutex);
		ret = client_do_ctl(&ctl);
		mutex_unlock(&client_mutex);
		return ret;
	case UNWIND_CLIENT_STATE:
		return client_get_state((void __user *)arg);
	}
	return -ENOTTY;
}

/* Reset all clients on each open. */
static int client_fop_open(struct inode *inode, struct file *file)
{
	int i;

	if (test_and_set_bit(0, &client_open))
		return -EBUSY;
	for (i = 0; i < UNWIND_CLIENTS; i++) {
		struct client *c = &clients[i];

		memset(c, 0, sizeof(*c));
		spin_lock_init(&c->lock);
		c->client.id = -1;
		c->also = -1;
		c->callback_ctx = -1;
		c->callback_client = -1;
		c->after_ctx = -1;
		c->depth = UNWIND_CLIENT_ENTRIES;
	}
	return 0;
}

static int client_fop_release(struct inode *inode, struct file *file)
{
	int i;

	mutex_lock(&client_mutex);
	client_storm_stop();
	for (i = 0; i < UNWIND_CLIENTS; i++)
		client_unregister(&clients[i]);
	mutex_unlock(&client_mutex);
	clear_bit(0, &client_open);
	return 0;
}

static const struct file_operations client_fops = {
	.owner		= THIS_MODULE,
	.open		= client_fop_open,
	.release	= client_fop_release,
	.unlocked_ioctl	= client_ioctl,
};

static struct miscdevice client_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "unwind_client",
	.fops	= &client_fops,
	.mode	= 0600,
};

static int __init client_init(void)
{
	int ret;

	clients = kcalloc(UNWIND_CLIENTS, sizeof(*clients), GFP_KERNEL);
	if (!clients)
		return -ENOMEM;
	hrtimer_init(&client_storm.timer, CLOCK_MONOTONIC,
		     HRTIMER_MODE_REL_PINNED_HARD);
	client_storm.timer.function = client_storm_timer;
	ret = register_nmi_handler(NMI_LOCAL, client_nmi_handler, 0,
				   "unwind_client");
	if (ret)
		goto err_free;
	ret = misc_register(&client_misc);
	if (ret)
		goto err_nmi;
	return 0;

err_nmi:
	unregister_nmi_handler(NMI_LOCAL, "unwind_client");
err_free:
	kfree(clients);
	return ret;
}

static void __exit client_exit(void)
{
	misc_deregister(&client_misc);
	unregister_nmi_handler(NMI_LOCAL, "unwind_client");
	kfree(clients);
}

module_init(client_init);
module_exit(client_exit);
MODULE_DESCRIPTION("Test clients of deferred unwinding");
MODULE_LICENSE("GPL");
