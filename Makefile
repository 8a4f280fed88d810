# SPDX-License-Identifier: GPL-2.0
#
# Deferred user callchains for perf on Linux 6.12: see README.

CONFIG ?= orc
BUILD ?= build

.DEFAULT_GOAL := help
.PHONY: help tree export kernel perf deb demo report check check-debug check-fp check-debian stress fuzz \
	check-mutants check-topics check-bpf check-packages check-bare check-evidence check-export sweep vm bench clean

help: ## this list
	@echo 'The two that most people want:'
	@echo '  make demo             profile programs in a guest with the patched kernel'
	@echo '  make check            the whole test suite'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		awk -F'|' '{ printf "  make %-16s %s\n", $$1, $$2 }'
	@echo
	@echo 'Variables: CONFIG=orc|debug|fp|off|btf|debian (kernel; vm: not off), JOBS=N, BUILD=DIR,'
	@echo 'KERNEL_DEB=FILE (a saved linux-source-6.12 package), DEPS=skip.'
	@echo 'Logs are in build/log.  Downloads are kept in ~/.cache/deferred-unwind.'

tree: ## fetch the kernel source into build/linux and apply the series
	@scripts/build/tree

export: ## write patches/, series and the readable copies from build/linux
	@scripts/build/export

check-export: ## is the repository what "make export" would write?
	@scripts/check/export

kernel: tree ## build the kernel (CONFIG)
	@scripts/build/kernel $(CONFIG)

perf: tree ## build tools/perf into build/perf
	@scripts/build/perf

deb: ## Debian packages of the kernel (hours) and of perf, or PACKAGES, in build/deb
	@scripts/build/deb $(PACKAGES)

vm: ## a guest with the kernel of CONFIG; the script comes from standard input
	@scripts/guest/vm $(BUILD)/linux/.$(CONFIG)

demo: ## profile programs of others in a guest, write build/demo
	@scripts/guest/demo

report: ## all results as one page, with plots and flame graphs, write build/report.html
	@scripts/build/report

check: ## the test suite on the fast kernel
	@scripts/check/run

check-debug: ## the guest tests on a kernel with KASAN, lockdep and the like
	@scripts/check/run debug

check-fp: ## the guest tests on a kernel with frame pointers
	@scripts/check/run fp

check-debian: ## the guest tests on a kernel in Debian's configuration
	@scripts/check/run debian

stress: ## half an hour of everything at once on the debug kernel (MINUTES)
	@scripts/check/stress $(MINUTES)

fuzz: ## an hour of fuzzers of perf_event_open() on the debug kernel (MINUTES)
	@scripts/check/fuzz-events $(MINUTES)

check-mutants: ## do the tests fail on a kernel, and with a perf, with planted faults?
	@scripts/check/mutants
	@scripts/check/perf-mutants

check-topics: ## does each topic build, and work with only what it needs?
	@scripts/check/topics
	@scripts/check/topics-alone

check-bpf: ## BPF programs that request user stacks, on a kernel with BTF
	@scripts/check/bpf

check-packages: ## install, boot, use and remove packages in Debian 12 and 13
	@scripts/check/packages

check-bare: ## both commands of README in an empty Debian 12, in build/bare-root
	@scripts/check/bare-root

check-evidence: ## everything, long runs included; goes on where it ended (STAGES)
	@scripts/check/run evidence $(STAGES)

sweep: ## NMIs at each instruction of entry and exit: are the user registers right?
	@scripts/check/sweep

bench: ## what it costs: instruction counts in a guest, write build/bench.txt
	@scripts/bench/instructions

# By name: a BUILD that was given may hold other files.
BUILT := agreement bare-root bare-root.bare bench bench.txt bisect bpf-test deb demo dwarf-stacks \
	compilers first-walk ftrace-bytes fuzz-events go-stacks service stress \
	kselftest-* latency libdw-agreement linux-base log mutants overhead perf perf-damaged perf-mutants \
	perf-test scale sframe-programs sleeping stock-perf sweep-tables sweep-tables-defer \
	tables-cost topics trace-cmd tracers unwind-host vdso whole-stacks worst-case \
	linux/.orc linux/.orc-2.* linux/.debug linux/.fp linux/.off linux/.btf linux/.debian \
	linux/.latency linux/.package

clean: ## remove what was built; build/linux and its commits stay
	rm -rf --one-file-system $(addprefix $(BUILD)/,$(BUILT))
