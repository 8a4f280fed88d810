// SPDX-License-Identifier: GPL-2.0
/*
 * perf_nmi_pmu - a PMU whose samples are taken in true NMI context
 *
 * Virtual machines and emulators rarely have a hardware PMU, so code that runs
 * in a PMI (callchains, user registers, requests of deferred unwinding) stays
 * untested there.  This PMU needs nothing but a local APIC: while events exist,
 * a timer on each CPU sends NMIs to the next CPU, whose handler counts the time
 * that went by and calls perf_event_overflow() with the registers of the NMI,
 * exactly as the driver of a hardware PMU does.  An NMI from the CPU's own timer would
 * never hit user mode; an NMI from another CPU can hit any instruction.
 *
 * The event nmi_skid also samples in an excluded mode: as if the CPU had been in the
 * other mode when the counter overflowed, and the NMI had arrived late.
 *
 * The event nmi_early takes the callchain before it calls perf_event_overflow(), as the
 * drivers of PEBS and IBS do.
 *
 * Events count nanoseconds, as cpu-clock does, hence "-c 1000000" and "-F 500"
 * do what they say, as far as the rate of NMIs (parameter hz) allows.
 *
 *	perf record -e perf_nmi_pmu/nmi/u -F 500 -g COMMAND
 *
 * At least two CPUs are needed.
 *
 * With external=1 the module sends nothing, and each NMI that arrives is one
 * sample of each event that counts, whatever its period.  The sender, such as
 * the command "nmi" of QEMU's monitor, chooses the interrupted instruction.  One
 * CPU is enough then.  A number written to the parameter "fire" makes the module send that many
 * NMIs to the CPU of the writer, within its system call.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>

#include <asm/apic.h>
#include <asm/ibt.h>
#include <asm/nmi.h>

#define NMI_PMU_NAME		"perf_nmi_pmu"
/* attr.config */
#define NMI_PMU_EVENT_SKID	1
#define NMI_PMU_EVENT_EARLY	2
/* Events that can count on one CPU at a time. */
#define NMI_PMU_MAX_EVENTS	8
#define NMI_PMU_MIN_HZ		1
/* Faster than NMIs of an emulator, and slow enough for a machine to make progress. */
#define NMI_PMU_MAX_HZ		5000
/* How long unloading waits for an NMI that is under way. */
#define NMI_PMU_DRAIN_MS	100
/* The most NMIs per write to "fire", and loops that the writer waits for each. */
#define NMI_PMU_MAX_FIRE	4096
#define NMI_PMU_FIRE_LOOPS	1000000

static unsigned int hz = 1000;

/*
 * The state of one CPU. "timer" sends NMIs to the next CPU; everything else belongs to
 * the CPU's own events and its NMI handler.
 */
struct nmi_pmu_cpu {
	struct hrtimer		timer;
	/* Set by the sender, cleared by the handler: this NMI is ours. */
	atomic_t		pending;
	/* The handler may stop an event, hence atomic. */
	atomic_t		nr_started;
	struct perf_event	*events[NMI_PMU_MAX_EVENTS];
	unsigned long		nr_sent;
	unsigned long		nr_handled;
};

static DEFINE_PER_CPU(struct nmi_pmu_cpu, nmi_pmu_cpus);

/* Serializes the start and the stop of the timers with CPU hotplug. */
static DEFINE_MUTEX(nmi_pmu_mutex);
static unsigned int nr_events;
static enum cpuhp_state nmi_pmu_hp_state;

static int hz_set(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, NMI_PMU_MIN_HZ, NMI_PMU_MAX_HZ);
}

static const struct kernel_param_ops hz_ops = {
	.set = hz_set,
	.get = param_get_uint,
};

module_param_cb(hz, &hz_ops, &hz, 0644);
MODULE_PARM_DESC(hz, "NMIs per second and CPU while events exist (1000)");

static bool external;
module_param(external, bool, 0444);
MODULE_PARM_DESC(external, "Send no NMIs; take a sample at each NMI of another sender (N)");

/*
 * Functions for built-in drivers are not exported. A kprobe finds their addresses. It
 * is never armed.
 */
static int (*overflow)(struct perf_event *event, struct perf_sample_data *data,
		       struct pt_regs *regs);

static struct perf_callchain_entry *(*callchain_early)(struct perf_event *event,
						       struct pt_regs *regs);

static void * __init nmi_pmu_find(const char *name)
{
	struct kprobe kp = {
		.symbol_name	= name,
		.flags		= KPROBE_FLAG_DISABLED,
	};
	void *addr;

	if (register_kprobe(&kp))
		return NULL;
	addr = kp.addr;
	unregister_kprobe(&kp);
#ifdef CONFIG_X86_KERNEL_IBT
	/* The probe is after the ENDBR, but the call must go to the ENDBR. */
	if (is_endbr(*(u32 *)(addr - ENDBR_INSN_SIZE)))
		addr -= ENDBR_INSN_SIZE;
#endif
	return addr;
}

/* ---- Events: all of it on the event's CPU, interrupts off ---------------- */

/*
 * Return the time since the last call. Called with interrupts off, and from the NMI
 * handler, which may interrupt such a call: the exchange makes sure that each
 * nanosecond counts only once.
 */
static u64 nmi_pmu_elapsed(struct perf_event *event)
{
	u64 now = ktime_get_mono_fast_ns();
	u64 prev = local64_xchg(&event->hw.prev_count, now);

	/* The fast clock may step back by a few nanoseconds. */
	return now > prev ? now - prev : 0;
}

static void nmi_pmu_update(struct perf_event *event)
{
	u64 delta = nmi_pmu_elapsed(event);

	local64_add(delta, &event->count);
	local64_sub(delta, &event->hw.period_left);
}

static void nmi_pmu_read(struct perf_event *event)
{
	if (!(event->hw.state & PERF_HES_STOPPED))
		nmi_pmu_update(event);
}

static void nmi_pmu_start(struct perf_event *event, int flags)
{
	struct nmi_pmu_cpu *c = this_cpu_ptr(&nmi_pmu_cpus);
	struct hw_perf_event *hwc = &event->hw;

	if (!(hwc->state & PERF_HES_STOPPED))
		return;
	/* A changed period takes effect at once. */
	if (is_sampling_event(event) &&
	    local64_read(&hwc->period_left) > (s64)hwc->sample_period)
		local64_set(&hwc->period_left, hwc->sample_period);
	local64_set(&hwc->prev_count, ktime_get_mono_fast_ns());
	atomic_inc(&c->nr_started);
	/* The handler must not see a running event with an old prev_count. */
	barrier();
	hwc->state = 0;
	perf_event_update_userpage(event);
}

static void nmi_pmu_stop(struct perf_event *event, int flags)
{
	struct nmi_pmu_cpu *c = this_cpu_ptr(&nmi_pmu_cpus);
	struct hw_perf_event *hwc = &event->hw;

	if (hwc->state & PERF_HES_STOPPED)
		return;
	hwc->state = PERF_HES_STOPPED;
	barrier();
	nmi_pmu_update(event);
	hwc->state |= PERF_HES_UPTODATE;
	atomic_dec(&c->nr_started);
}

static int nmi_pmu_add(struct perf_event *event, int flags)
{
	struct nmi_pmu_cpu *c = this_cpu_ptr(&nmi_pmu_cpus);
	int i;

	for (i = 0; i < NMI_PMU_MAX_EVENTS; i++) {
		if (!c->events[i])
			break;
	}
	if (i == NMI_PMU_MAX_EVENTS)
		return -EAGAIN;

	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	event->hw.idx = i;
	WRITE_ONCE(c->events[i], event);
	if (flags & PERF_EF_START)
		nmi_pmu_start(event, PERF_EF_RELOAD);
	perf_event_update_userpage(event);
	return 0;
}

static void nmi_pmu_del(struct perf_event *event, int flags)
{
	struct nmi_pmu_cpu *c = this_cpu_ptr(&nmi_pmu_cpus);

	nmi_pmu_stop(event, PERF_EF_UPDATE);
	/* An NMI that still sees the event ends before this function goes on. */
	WRITE_ONCE(c->events[event->hw.idx], NULL);
	perf_event_update_userpage(event);
}

/* ---- NMIs ---------------------------------------------------------------- */

static bool nmi_pmu_excluded(struct perf_event *event, struct pt_regs *regs)
{
	if (user_mode(regs))
		return event->attr.exclude_user;
	return event->attr.exclude_kernel;
}

/* As perf_sample_save_callchain_early(), which a module cannot call. */
static void nmi_pmu_save_callchain(struct perf_event *event,
				   struct perf_sample_data *data,
				   struct pt_regs *regs)
{
	if (!(event->attr.sample_type & PERF_SAMPLE_CALLCHAIN))
		return;
	data->callchain = callchain_early(event, regs);
	data->dyn_size += (1 + data->callchain->nr) * sizeof(u64);
	data->sample_flags |= PERF_SAMPLE_CALLCHAIN;
}

static void nmi_pmu_tick(struct perf_event *event, struct pt_regs *regs)
{
	struct hw_perf_event *hwc = &event->hw;
	struct perf_sample_data data;
	u64 delta;
	s64 left;

	if (hwc->state & PERF_HES_STOPPED)
		return;
	delta = nmi_pmu_elapsed(event);
	/* Like hardware, do not count in an excluded mode. */
	if (nmi_pmu_excluded(event, regs) &&
	    event->attr.config != NMI_PMU_EVENT_SKID)
		return;
	local64_add(delta, &event->count);
	if (!is_sampling_event(event))
		return;
	if (!external) {
		left = local64_sub_return(delta, &hwc->period_left);
		if (left > 0)
			return;
		/* All periods that ended between two NMIs make one sample. */
		left += hwc->sample_period;
		if (left <= 0)
			left = hwc->sample_period;
		local64_set(&hwc->period_left, left);
	}
	hwc->last_period = hwc->sample_period;
	perf_sample_data_init(&data, 0, hwc->last_period);
	if (event->attr.config == NMI_PMU_EVENT_EARLY)
		nmi_pmu_save_callchain(event, &data, regs);
	if (overflow(event, &data, regs))
		nmi_pmu_stop(event, 0);
}

static int nmi_pmu_handler(unsigned int type, struct pt_regs *regs)
{
	struct nmi_pmu_cpu *c = this_cpu_ptr(&nmi_pmu_cpus);
	int i;

	if (!external && !atomic_xchg(&c->pending, 0))
		return NMI_DONE;
	c->nr_handled++;
	for (i = 0; i < NMI_PMU_MAX_EVENTS; i++) {
		struct perf_event *event = READ_ONCE(c->events[i]);

		if (event)
			nmi_pmu_tick(event, regs);
	}
	return NMI_HANDLED;
}

static enum hrtimer_restart nmi_pmu_timer(struct hrtimer *timer)
{
	unsigned int cpu = smp_processor_id(), next;
	struct nmi_pmu_cpu *c;

	next = cpumask_next(cpu, cpu_online_mask);
	if (next >= nr_cpu_ids)
		next = cpumask_first(cpu_online_mask);
	c = per_cpu_ptr(&nmi_pmu_cpus, next);
	/* One NMI under way at a time: a second one would find nothing to do. */
	if (next != cpu && atomic_read(&c->nr_started) &&
	    !atomic_xchg(&c->pending, 1)) {
		this_cpu_inc(nmi_pmu_cpus.nr_sent);
		__apic_send_IPI_mask(cpumask_of(next), NMI_VECTOR);
	}
	hrtimer_forward_now(timer, ns_to_ktime(NSEC_PER_SEC / READ_ONCE(hz)));
	return HRTIMER_RESTART;
}

/* One after the other: the CPU merges an NMI with one that is already pending. */
static int nmi_pmu_fire(void)
{
	struct nmi_pmu_cpu *c = get_cpu_ptr(&nmi_pmu_cpus);
	unsigned long handled = READ_ONCE(c->nr_handled);
	int loops = NMI_PMU_FIRE_LOOPS;

	__apic_send_IPI_mask(cpumask_of(smp_processor_id()), NMI_VECTOR);
	while (READ_ONCE(c->nr_handled) == handled && --loops)
		cpu_relax();
	put_cpu_ptr(&nmi_pmu_cpus);
	return loops ? 0 : -ETIMEDOUT;
}

static int fire_set(const char *val, const struct kernel_param *kp)
{
	unsigned int n;
	int ret;

	ret = kstrtouint(val, 0, &n);
	if (ret)
		return ret;
	if (!external || n > NMI_PMU_MAX_FIRE)
		return -EINVAL;
	while (n-- && !ret)
		ret = nmi_pmu_fire();
	return ret;
}

static const struct kernel_param_ops fire_ops = {
	.set = fire_set,
};

module_param_cb(fire, &fire_ops, NULL, 0200);
MODULE_PARM_DESC(fire, "With external: send this many NMIs to the writer's CPU");

static void nmi_pmu_timer_start(void *unused)
{
	struct hrtimer *timer = this_cpu_ptr(&nmi_pmu_cpus.timer);

	hrtimer_start(timer, ns_to_ktime(NSEC_PER_SEC / READ_ONCE(hz)),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

static void nmi_pmu_timers_stop(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		hrtimer_cancel(per_cpu_ptr(&nmi_pmu_cpus.timer, cpu));
}

static int nmi_pmu_cpu_online(unsigned int cpu)
{
	mutex_lock(&nmi_pmu_mutex);
	if (nr_events && !external)
		nmi_pmu_timer_start(NULL);
	mutex_unlock(&nmi_pmu_mutex);
	return 0;
}

static int nmi_pmu_cpu_offline(unsigned int cpu)
{
	hrtimer_cancel(per_cpu_ptr(&nmi_pmu_cpus.timer, cpu));
	atomic_set(per_cpu_ptr(&nmi_pmu_cpus.pending, cpu), 0);
	return 0;
}

/* ---- Life of an event: process context ----------------------------------- */

static void nmi_pmu_event_destroy(struct perf_event *event)
{
	cpus_read_lock();
	mutex_lock(&nmi_pmu_mutex);
	if (!--nr_events)
		nmi_pmu_timers_stop();
	mutex_unlock(&nmi_pmu_mutex);
	cpus_read_unlock();
}

static int nmi_pmu_event_init(struct perf_event *event)
{
	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (event->attr.config > NMI_PMU_EVENT_EARLY || has_branch_stack(event))
		return -EOPNOTSUPP;
	if (event->attr.precise_ip)
		return -EOPNOTSUPP;

	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;

	cpus_read_lock();
	mutex_lock(&nmi_pmu_mutex);
	if (!nr_events++ && !external)
		on_each_cpu(nmi_pmu_timer_start, NULL, 1);
	mutex_unlock(&nmi_pmu_mutex);
	cpus_read_unlock();
	event->destroy = nmi_pmu_event_destroy;
	return 0;
}

PMU_EVENT_ATTR_STRING(nmi, nmi_pmu_attr_nmi, "event=0");
PMU_EVENT_ATTR_STRING(nmi_skid, nmi_pmu_attr_nmi_skid, "event=1");
PMU_EVENT_ATTR_STRING(nmi_early, nmi_pmu_attr_nmi_early, "event=2");
PMU_FORMAT_ATTR(event, "config:0-7");

static struct attribute *nmi_pmu_events[] = {
	&nmi_pmu_attr_nmi.attr.attr,
	&nmi_pmu_attr_nmi_skid.attr.attr,
	&nmi_pmu_attr_nmi_early.attr.attr,
	NULL,
};

static struct attribute *nmi_pmu_formats[] = {
	&format_attr_event.attr,
	NULL,
};

static const struct attribute_group nmi_pmu_events_group = {
	.name = "events",
	.attrs = nmi_pmu_events,
};

static const struct attribute_group nmi_pmu_format_group = {
	.name = "format",
	.attrs = nmi_pmu_formats,
};

static const struct attribute_group *nmi_pmu_groups[] = {
	&nmi_pmu_events_group,
	&nmi_pmu_format_group,
	NULL,
};

static struct pmu nmi_pmu = {
	.module		= THIS_MODULE,
	.task_ctx_nr	= perf_hw_context,
	.attr_groups	= nmi_pmu_groups,
	.event_init	= nmi_pmu_event_init,
	.add		= nmi_pmu_add,
	.del		= nmi_pmu_del,
	.start		= nmi_pmu_start,
	.stop		= nmi_pmu_stop,
	.read		= nmi_pmu_read,
};

/* No timer runs; wait for the NMIs that were sent before. */
static void nmi_pmu_drain(void)
{
	unsigned int ms, cpu;

	for_each_online_cpu(cpu) {
		for (ms = 0; ms < NMI_PMU_DRAIN_MS; ms++) {
			if (!atomic_read(per_cpu_ptr(&nmi_pmu_cpus.pending,
						     cpu)))
				break;
			usleep_range(1000, 2000);
		}
	}
}

static int __init nmi_pmu_init(void)
{
	int cpu, ret;

	if (!external && num_online_cpus() < 2) {
		pr_info("at least two CPUs are needed, or external=1\n");
		return -ENODEV;
	}
	overflow = nmi_pmu_find("perf_event_overflow");
	callchain_early = nmi_pmu_find("perf_callchain_early");
	if (!overflow || !callchain_early) {
		pr_info("perf_event_overflow() or perf_callchain_early() not found\n");
		return -ENOENT;
	}
	for_each_possible_cpu(cpu) {
		struct hrtimer *t = per_cpu_ptr(&nmi_pmu_cpus.timer, cpu);

		hrtimer_init(t, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		t->function = nmi_pmu_timer;
	}
	ret = register_nmi_handler(NMI_LOCAL, nmi_pmu_handler, 0, NMI_PMU_NAME);
	if (ret)
		return ret;
	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN,
					"selftests/perf_nmi_pmu:online",
					nmi_pmu_cpu_online,
					nmi_pmu_cpu_offline);
	if (ret < 0)
		goto err_handler;
	nmi_pmu_hp_state = ret;
	ret = perf_pmu_register(&nmi_pmu, NMI_PMU_NAME, -1);
	if (ret)
		goto err_cpuhp;
	return 0;

err_cpuhp:
	cpuhp_remove_state_nocalls(nmi_pmu_hp_state);
err_handler:
	unregister_nmi_handler(NMI_LOCAL, NMI_PMU_NAME);
	return ret;
}

static void __exit nmi_pmu_exit(void)
{
	unsigned long sent = 0, handled = 0;
	int cpu;

	/* Events hold a reference on the module, so none is left. */
	perf_pmu_unregister(&nmi_pmu);
	cpuhp_remove_state_nocalls(nmi_pmu_hp_state);
	nmi_pmu_timers_stop();
	nmi_pmu_drain();
	unregister_nmi_handler(NMI_LOCAL, NMI_PMU_NAME);
	for_each_possible_cpu(cpu) {
		sent += per_cpu(nmi_pmu_cpus.nr_sent, cpu);
		handled += per_cpu(nmi_pmu_cpus.nr_handled, cpu);
	}
	pr_info("%lu NMIs sent, %lu handled\n", sent, handled);
}

module_init(nmi_pmu_init);
module_exit(nmi_pmu_exit);
MODULE_DESCRIPTION("Test PMU that samples in NMI context");
MODULE_LICENSE("GPL");
