// SPDX-License-Identifier: GPL-2.0
/* Deferred user callchains: how they are asked for, and what is shown where they are missing */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>

#include "util/callchain.h"
#include "util/callchain-deferred-index.h"
#include "util/debug.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/machine.h"
#include "util/parse-events.h"
#include "util/record.h"
#include "util/sample.h"
#include "util/symbol.h"
#include "util/thread.h"
#include "tests.h"
#include "tests/callchain-deferred-common.h"
#include "tests/hists_common.h"

/* The names that the chain resolves to, in this order, separated by spaces */
static int resolve(struct thread *thread, struct ip_callchain *chain,
		   enum chain_order order, char *names, size_t size)
{
	enum chain_order saved_order = callchain_param.order;
	struct callchain_cursor *cursor = get_tls_callchain_cursor();
	struct callchain_cursor_node *node;
	struct evsel evsel = { .core = { .attr = { .size = 0, }, }, };
	struct perf_sample sample = { .callchain = chain, };
	int err;

	callchain_param.order = order;
	err = thread__resolve_callchain(thread, cursor, &evsel, &sample, NULL,
					NULL, PERF_MAX_STACK_DEPTH);
	callchain_param.order = saved_order;
	if (err)
		return err;

	names[0] = '\0';
	callchain_cursor_commit(cursor);
	while ((node = callchain_cursor_current(cursor)) != NULL) {
		size_t len = strlen(names);

		if (node->ms.sym)
			scnprintf(names + len, size - len, " %s", node->ms.sym->name);
		else
			scnprintf(names + len, size - len, " %#" PRIx64, node->ip);
		callchain_cursor_advance(cursor);
	}

	return 0;
}

static const struct {
	union chain chain;
	const char *callee, *caller;
} marker_cases[] = {
	{
		.chain.data = { 2, FAKE_IP_LIBC_MALLOC, FAKE_IP_PERF_CMD_RECORD, },
		.callee = " malloc cmd_record",
		.caller = " cmd_record malloc",
	}, {
		/* A cookie that would make a good address */
		.chain.data = {
			4, FAKE_IP_LIBC_MALLOC, FAKE_IP_PERF_CMD_RECORD,
			PERF_CONTEXT_USER_DEFERRED, FAKE_IP_PERF_MAIN,
		},
		.callee = " malloc cmd_record [deferred]",
		.caller = " [deferred] cmd_record malloc",
	}, {
		/* and one that looks like the marker */
		.chain.data = {
			3, FAKE_IP_LIBC_MALLOC,
			PERF_CONTEXT_USER_DEFERRED, PERF_CONTEXT_USER_DEFERRED,
		},
		.callee = " malloc [deferred]",
		.caller = " [deferred] malloc",
	}, {
		/* The cookie cut off */
		.chain.data = {
			2, FAKE_IP_LIBC_MALLOC, PERF_CONTEXT_USER_DEFERRED,
		},
		.callee = " malloc [deferred]",
		.caller = " [deferred] malloc",
	}, {
		/* No kernel part */
		.chain.data = { 2, PERF_CONTEXT_USER_DEFERRED, FAKE_IP_PERF_MAIN, },
		.callee = " [deferred]",
		.caller = " [deferred]",
	},
};

/* Without its user part a chain ends in a marker and never in a cookie. */
static int test__deferred_marker(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	struct machines machines;
	struct machine *machine;
	struct thread *thread = NULL;
	char names[256];
	int ret = TEST_FAIL;

	machines__init(&machines);
	machine = setup_fake_machine(&machines);
	if (machine)
		thread = machine__findnew_thread(machine, FAKE_PID_PERF1, FAKE_PID_PERF1);
	if (!thread)
		goto out;

	for (size_t i = 0; i < ARRAY_SIZE(marker_cases); i++) {
		union chain chain = marker_cases[i].chain;

		if (resolve(thread, &chain.callchain, ORDER_CALLEE, names, sizeof(names)) ||
		    strcmp(names, marker_cases[i].callee)) {
			pr_debug("case %zu, callee first: '%s' instead of '%s'\n",
				 i, names, marker_cases[i].callee);
			goto out;
		}
		if (resolve(thread, &chain.callchain, ORDER_CALLER, names, sizeof(names)) ||
		    strcmp(names, marker_cases[i].caller)) {
			pr_debug("case %zu, caller first: '%s' instead of '%s'\n",
				 i, names, marker_cases[i].caller);
			goto out;
		}
	}
	ret = TEST_OK;
out:
	thread__put(thread);
	machines__exit(&machines);
	return ret;
}

static const struct {
	const char *arg;
	int ret;
	enum perf_call_graph_mode mode;
	bool defer;
	u16 max_stack;
} option_cases[] = {
	{ "fp",			0,  CALLCHAIN_FP,    false, 0, },
	{ "fp,16",		0,  CALLCHAIN_FP,    false, 16, },
	{ "fp,defer",		0,  CALLCHAIN_FP,    true,  0, },
	{ "fp,defer,16",	0,  CALLCHAIN_FP,    true,  16, },
	{ "fp,16,defer",	0,  CALLCHAIN_FP,    true,  16, },
	{ "fp:defer",		0,  CALLCHAIN_FP,    true,  0, },
	{ "fp:16:defer",	0,  CALLCHAIN_FP,    true,  16, },
	{ "dwarf",		0,  CALLCHAIN_DWARF, false, 0, },
	{ "dwarf,4096",		0,  CALLCHAIN_DWARF, false, 0, },
	{ "lbr",		0,  CALLCHAIN_LBR,   false, 0, },
	{ "fp,",		0,  CALLCHAIN_FP,    false, 0, },
	{ "fp,deferred",	-1, CALLCHAIN_NONE,  false, 0, },
	{ "fp,16x",		-1, CALLCHAIN_NONE,  false, 0, },
	{ "fp,16,32",		-1, CALLCHAIN_NONE,  false, 0, },
	{ "dwarf,defer",	-1, CALLCHAIN_NONE,  false, 0, },
	{ "lbr,defer",		-1, CALLCHAIN_NONE,  false, 0, },
	{ "defer",		-1, CALLCHAIN_NONE,  false, 0, },
	{ "defer,fp",		-1, CALLCHAIN_NONE,  false, 0, },
};

static int test__deferred_options(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_cases); i++) {
		/* As call-graph.record-mode = fp,defer leaves it */
		struct callchain_param param = { .record_mode = CALLCHAIN_FP, .defer = true, };
		bool ok = parse_callchain_record_opt(option_cases[i].arg, &param) == 0;

		pr_debug("--call-graph %s\n", option_cases[i].arg);
		TEST_ASSERT_VAL("result", ok == (option_cases[i].ret == 0));
		if (!ok)
			continue;
		TEST_ASSERT_VAL("mode", param.record_mode == option_cases[i].mode);
		TEST_ASSERT_VAL("defer", param.defer == option_cases[i].defer);
		TEST_ASSERT_VAL("max_stack", param.max_stack == option_cases[i].max_stack);
	}

	return TEST_OK;
}

/* The bits of each event: d for defer_callchain, o for defer_output, - for none */
struct attr_case {
	const char *events;
	bool defer;
	bool no_merge;
	bool user_off;
	bool tracking_dummy;
	const char *bits[4];
};

static const struct attr_case attr_cases[] = {
	{ "cpu-clock", .defer = true, .bits = { "do", }, },
	{ "cpu-clock", .defer = false, .bits = { "-", }, },
	{ "cpu-clock,task-clock", .defer = true, .bits = { "do", "do", }, },
	/* There is no user callchain, or the tool does not complete it. */
	{ "cpu-clock:k", .defer = true, .bits = { "-", }, },
	{ "cpu-clock:u", .defer = true, .bits = { "do", }, },
	{ "cpu-clock", .defer = true, .user_off = true, .bits = { "-", }, },
	{ "cpu-clock", .defer = true, .no_merge = true, .bits = { "-", }, },
	{ "cpu-clock/call-graph=fp:defer/", .no_merge = true, .bits = { "-", }, },
	/* These have no samples of their own. */
	{ "dummy", .defer = true, .bits = { "-", }, },
	{ "cpu-clock,bpf-output/no-inherit=1,name=x/", .defer = true, .bits = { "do", "-", }, },
	/* A dummy that tracks takes all records. */
	{ "dummy,cpu-clock", .defer = true, .bits = { "o", "d", }, },
	{ "cpu-clock", .defer = true, .tracking_dummy = true, .bits = { "d", "o", }, },
	{ "cpu-clock:k", .defer = true, .tracking_dummy = true, .bits = { "-", "-", }, },
	/* Terms override the setting for all events. */
	{ "cpu-clock/call-graph=fp:defer/,task-clock", .defer = false, .bits = { "do", "-", }, },
	{ "cpu-clock/call-graph=fp:defer:16/", .defer = false, .bits = { "do", }, },
	{ "cpu-clock/call-graph=fp/,task-clock", .defer = true, .bits = { "-", "do", }, },
	{ "cpu-clock/call-graph=dwarf/,task-clock", .defer = true, .bits = { "-", "do", }, },
	{ "cpu-clock/call-graph=no/,task-clock", .defer = true, .bits = { "-", "do", }, },
	{ "cpu-clock/max-stack=16/", .defer = true, .bits = { "do", }, },
	{ "cpu-clock/max-stack=16/", .defer = false, .bits = { "-", }, },
};

static int check_attrs(const struct attr_case *c)
{
	struct record_opts opts = {
		.sample_time = true,
		.merges_callchains = !c->no_merge,
		.kernel_callchains = c->user_off,
		.user_freq = UINT_MAX,
		.user_interval = ULLONG_MAX,
		.freq = 4000,
		.default_interval = 4000,
	};
	struct evlist *evlist = evlist__new();
	struct evsel *evsel;
	int ret = TEST_FAIL, i = 0;

	pr_debug("%s%s\n", c->events, c->defer ? ", deferred" : "");
	CHECK("evlist", evlist);
	CHECK("parse", !parse_event(evlist, c->events));
	CHECK("maps", !evlist__create_maps(evlist, &opts.target));
	if (c->tracking_dummy)
		CHECK("dummy", evlist__findnew_tracking_event(evlist, false));

	callchain_param.defer = c->defer;
	evlist__config(evlist, &opts, &callchain_param);
	evlist__for_each_entry(evlist, evsel) {
		const char *bits = c->bits[i++];

		pr_debug("%s: defer_callchain %d defer_output %d\n", evsel__name(evsel),
			 evsel->core.attr.defer_callchain, evsel->core.attr.defer_output);
		CHECK("an event too many", bits);
		CHECK("defer_callchain", evsel->core.attr.defer_callchain == !!strchr(bits, 'd'));
		CHECK("defer_output", evsel->core.attr.defer_output == !!strchr(bits, 'o'));
	}
	CHECK("an event too few", !c->bits[i]);
	ret = TEST_OK;
out:
	evlist__delete(evlist);
	return ret;
}

static int test__deferred_attrs(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	struct callchain_param saved = callchain_param;
	int ret = TEST_OK;

	callchain_param.enabled = true;
	callchain_param.record_mode = CALLCHAIN_FP;
	for (size_t i = 0; i < ARRAY_SIZE(attr_cases) && ret == TEST_OK; i++)
		ret = check_attrs(&attr_cases[i]);
	callchain_param = saved;

	return ret;
}

static int entry__cmp(const void *va, const void *vb)
{
	const struct callchain_index_entry *a = va, *b = vb;

	if (a->cookie != b->cookie)
		return a->cookie < b->cookie ? -1 : 1;
	return a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* Cookies of three CPUs, some of which have several records; and any positions */
static struct callchain_index_entry make_entry(size_t i)
{
	const u64 numbers[] = { 0, 1, INT64_MAX, INT64_MIN, UINT64_MAX };
	struct callchain_index_entry entry = {
		.cookie	= (i % 3) << 48 | i / 3 / (1 + i % 2),
		.pos	= rand() % 2 ? (u64)rand() << 20 : 1000 * i,
	};

	if (!(rand() % 20))
		entry.cookie = numbers[rand() % ARRAY_SIZE(numbers)];
	if (!(rand() % 20))
		entry.pos = numbers[rand() % ARRAY_SIZE(numbers)];
	return entry;
}

static int check_index(size_t nr)
{
	struct callchain_index_entry *want = calloc(nr + 1, sizeof(*want));
	struct callchain_index index = { };
	struct callchain_index_iter iter;
	int ret = TEST_FAIL;
	size_t i, next;

	if (!want)
		return TEST_FAIL;
	for (i = 0; i < nr; i++) {
		want[i] = make_entry(i);
		if (callchain_index__add(&index, want[i].cookie, want[i].pos))
			goto out;
	}
	if (callchain_index__sort(&index))
		goto out;
	qsort(want, nr, sizeof(*want), entry__cmp);

	for (i = 0; i < nr; i = next) {
		for (next = i + 1; next < nr && want[next].cookie == want[i].cookie; next++)
			;
		if (!callchain_index__find(&index, want[i].cookie, &iter) ||
		    iter.nr != i || entry__cmp(&iter.entry, &want[i])) {
			pr_debug("entry %zu of %zu is not found\n", i, nr);
			goto out;
		}
		while (iter.nr + 1 < nr) {
			if (!callchain_index__next(&index, &iter) ||
			    entry__cmp(&iter.entry, &want[iter.nr])) {
				pr_debug("entry %zu of %zu is wrong\n", iter.nr, nr);
				goto out;
			}
			/* The whole index once, and from everywhere to the next block */
			if (i && iter.nr > next + 40)
				break;
		}
		if (iter.nr + 1 == nr && callchain_index__next(&index, &iter)) {
			pr_debug("there is an entry behind the last one of %zu\n", nr);
			goto out;
		}
		if ((next == nr || want[next].cookie - want[i].cookie > 1) &&
		    want[i].cookie != UINT64_MAX &&
		    callchain_index__find(&index, want[i].cookie + 1, &iter)) {
			pr_debug("a cookie behind entry %zu of %zu is found\n", i, nr);
			goto out;
		}
	}
	ret = TEST_OK;
	if (!nr && callchain_index__find(&index, 0, &iter))
		ret = TEST_FAIL;
out:
	callchain_index__exit(&index);
	free(want);
	return ret;
}

static int test__deferred_index(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	int ret = TEST_OK;
	size_t nr;

	srand(1);
	for (nr = 0; nr < 100 && ret == TEST_OK; nr++)
		ret = check_index(nr);

	return ret == TEST_OK ? check_index(5000) : ret;
}

static struct test_case tests__callchain_deferred[] = {
	TEST_CASE("Options", deferred_options),
	TEST_CASE("Event attributes", deferred_attrs),
	TEST_CASE("Missing user part", deferred_marker),
	TEST_CASE("Index", deferred_index),
	{	.name = NULL, }
};

struct test_suite suite__callchain_deferred = {
	.desc = "Deferred callchains",
	.test_cases = tests__callchain_deferred,
};
