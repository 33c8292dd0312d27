# SPDX-License-Identifier: MIT
# The entry to every task; what is missing is installed first. `make` lists them.

BOARD ?= virt-arm64
OUT ?= report
SECONDS ?= 30
MODULE ?=
MUTANTS ?= 100
SEED ?= 1
CASES ?=
KERNEL ?=
XENOMAI ?=
JAILHOUSE ?=

run := .venv/bin/rtgate
# Make itself ends with 2 whatever failed, so say what rtgate said; `rtgate --help` explains the codes.
tell := || { code=$$?; echo "rtgate ended with exit code $$code"; exit $$code; }
# Not every shell expands ~ in TREE=~/linux.
option = $(if $($(1)),--$(2) "$(patsubst ~/%,$(HOME)/%,$($(1)))")

.PHONY: help gate demo test test-all test-xenomai test-jailhouse coverage mutants check docs fuzz bench bench-kernels bench-concurrency bench-reviews lab lab-down lab-status clean bootstrap bootstrap-dev bootstrap-all

help: ## list these targets
	@echo 'make gate [TREE=DIR [BASE=REF] [CANDIDATE=REF]] [BOARD=NAME] [BUILD=NAME] [PROFILE=NAME] [OUT=DIR]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 12

gate: bootstrap ## build a kernel (of TREE, or Debian's), measure it on BOARD, judge it; the report goes to OUT
	@$(run) gate --board "$(BOARD)" $(call option,BUILD,build) $(call option,TREE,tree) \
		$(call option,BASE,base) $(call option,CANDIDATE,candidate) $(call option,PROFILE,profile) \
		-o "$(patsubst ~/%,$(HOME)/%,$(OUT))" $(tell)

demo: bootstrap ## gate a kernel that delays one timer wake-up in a thousand: it must FAIL
	@$(run) demo $(tell)

test: bootstrap-dev ## rtgate's own tests, some of each kind: units, faults, real builds and boots, LAVA jobs
	@ci/test

test-all: bootstrap-all ## every test of rtgate's own: before an issue is called resolved
	@ci/test all

test-xenomai: bootstrap-dev ## a real Cobalt kernel, built, booted and slowed: KERNEL=DIR with Dovetail, XENOMAI=DIR of Xenomai's source
	@RTGATE_DOVETAIL="$(patsubst ~/%,$(HOME)/%,$(KERNEL))" RTGATE_XENOMAI="$(patsubst ~/%,$(HOME)/%,$(XENOMAI))" \
		.venv/bin/pytest -m "" selftests/integration/test_cobalt.py

test-jailhouse: bootstrap-dev ## a real hypervisor beside a kernel, built, booted and slowed: JAILHOUSE=DIR of Jailhouse's source
	@RTGATE_JAILHOUSE="$(patsubst ~/%,$(HOME)/%,$(JAILHOUSE))" .venv/bin/pytest -m "" selftests/integration/test_jailhouse.py

coverage: bootstrap-dev ## the unit tests, and which share of lines and branches they run
	@.venv/bin/python ci/coverage

mutants: bootstrap-dev ## small changes of the judging code that tests must notice; MODULE=rtgate.judge MUTANTS=100 SEED=1
	@.venv/bin/python ci/mutation/mutants.py --mutants "$(MUTANTS)" --seed "$(SEED)" $(MODULE)

check: bootstrap-dev ## linters, types, layers, YAML files, shell scripts, documentation, project rules
	@ci/check

docs: bootstrap-dev ## the documentation site, into site/index.html; makes the pages anew that come from the code
	@.venv/bin/python ci/docs/commands.py
	@.venv/bin/python ci/docs/checks.py
	@.venv/bin/python ci/docs/picture.py
	@ci/docs/build

fuzz: bootstrap-dev ## hostile text against every reader, SECONDS=30 each; TARGET="frames record" picks some
	@ci/fuzz "$(SECONDS)" $(TARGET)

bench: bootstrap-dev ## how long a gate takes, what faults on the line do, how often a comparison is wrong
	@.venv/bin/python -m bench.bench
	@.venv/bin/python -m bench.section_times
	@.venv/bin/python -m bench.reviews
	@.venv/bin/python -m bench.faults 3
	@.venv/bin/python -m bench.judging
	@.venv/bin/python -m bench.worlds
	@.venv/bin/python -m bench.history
	@.venv/bin/python -m bench.report
	@.venv/bin/python -m bench.rates

bench-kernels: bootstrap-dev ## error rates of comparisons on 100 real kernels: built, booted, explained, judged; for hours
	@.venv/bin/python -m bench.comparisons build
	@.venv/bin/python -m bench.comparisons measure
	@.venv/bin/python -m bench.explain --kernels bench/comparisons/kernels --baseline bench/comparisons/kernels/unpatched --least 9
	@.venv/bin/python -m bench.sections measure
	@.venv/bin/python -m bench.rates
	@.venv/bin/python -m bench.sections compare

bench-concurrency: bootstrap-dev ## gates beside each other, some killed, for SECONDS=30: each must say what it says alone
	@.venv/bin/python -m bench.concurrency "$(SECONDS)"

bench-reviews: bootstrap-dev ## ten changes of real kernels on GitLab and Gerrit, and a mailed series; CASES="slow away" picks some
	@.venv/bin/python -m bench.merge_requests $(CASES)

lab: bootstrap ## a real LAVA lab on this machine: server, worker, docker, two virtual boards (root, Debian 12)
	@ci/lab/lab up $(tell)

lab-down: ## end the lab and remove it
	@ci/lab/lab down $(tell)

lab-status: ## what of the lab is running, and where
	@ci/lab/lab status $(tell)

clean: ## remove what was made here; caches in ~/.cache/rtgate stay
	rm -rf .venv node_modules report records soak build demo dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache selftests/fuzz/corpus bench/comparisons bench/sections bench/report bench/results.json
	find src bench selftests tests -name __pycache__ -prune -exec rm -rf {} +

bootstrap:
	@ci/bootstrap gate

bootstrap-dev:
	@ci/bootstrap dev

bootstrap-all:
	@ci/bootstrap all
