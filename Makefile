# SPDX-License-Identifier: GPL-2.0
#
# Deferred user callchains for perf on Linux 6.12: see README.

CONFIG ?= orc

.DEFAULT_GOAL := help
.PHONY: help tree export kernel perf demo check check-debug check-fp \
	check-mutants check-bare check-evidence check-export sweep vm bench clean

help: ## this list
	@echo 'The two that most people want:'
	@echo '  make demo             profile programs in a guest with the patched kernel'
	@echo '  make check            the whole test suite'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		awk -F'|' '{ printf "  make %-16s %s\n", $$1, $$2 }'
	@echo
	@echo 'Variables: CONFIG=orc|debug|fp|off (kernel, vm), JOBS=N, BUILD=DIR,'
	@echo 'KERNEL_DEB=FILE (a saved linux-source-6.12 package), DEPS=skip.'
	@echo 'Logs are in build/log.  Downloads are kept in ~/.cache/deferred-unwind.'

tree: ## fetch the kernel source into build/linux and apply the series
	@scripts/tree

export: ## write patches/, series and the readable copies from build/linux
	@scripts/export

check-export: ## is the repository what "make export" would write?
	@scripts/check-export

kernel: tree ## build the kernel (CONFIG)
	@scripts/kernel $(CONFIG)

perf: tree ## build tools/perf into build/perf
	@scripts/perf

vm: ## a guest with the kernel of CONFIG; the script comes from standard input
	@scripts/vm build/linux/.$(CONFIG)

demo: ## profile programs of others in a guest, write build/demo
	@scripts/demo

check: ## the test suite on the fast kernel
	@scripts/check

check-debug: ## the guest tests on a kernel with KASAN, lockdep and the like
	@scripts/check debug

check-fp: ## the guest tests on a kernel with frame pointers
	@scripts/check fp

check-mutants: ## do the tests fail on a kernel, and with a perf, with planted faults?
	@scripts/mutants
	@scripts/perf-mutants

check-bare: ## both commands of README in an empty Debian 12, in build/bare-root
	@scripts/bare-root

check-evidence: ## everything, long runs included
	@scripts/check evidence

sweep: ## NMIs at each instruction of entry and exit: are the user registers right?
	@scripts/sweep

bench: ## what it costs: instruction counts in a guest, write build/bench.txt
	@scripts/bench

clean: ## remove what was built; build/linux and its commits stay
	rm -rf build/linux/.orc build/linux/.debug build/linux/.fp build/linux/.off \
		build/perf build/demo build/kselftest-* build/log \
		build/mutants build/perf-mutants build/bisect build/bare-root build/bare-root.bare
