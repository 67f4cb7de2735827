# `make help` lists the tasks. Only python3 with venv is presumed; each environment is made when a task
# first needs it, and made again when pyproject.toml changes.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# make PYTHON=python3.11 demo
PYTHON ?= python3
# Passed on to the program that the task runs: make test ARGS="-k auc", make demo ARGS=--help
ARGS ?=
# How many processes share the tests of one version: more than there are processors, for many tests only wait. 0: none
# but pytest itself. See tests/processes.py.
WORKERS ?= 4
# Which NumPy `make test-numpy` tests with: make test-numpy PYTHON=python3.9 NUMPY=numpy==1.21.*
NUMPY ?= numpy
# How many examples each test of tests/fuzz makes.
FUZZ ?= 5000
# What `make mutations` changes, and the tests that it runs: make mutations MODULE=fleetmetrics/static/threads.py PADDLE=2
MODULE ?=
SINCE ?=
TESTS ?=
PADDLE ?= 3
# How long atheris looks for bytes that reach new lines, for each of its functions.
FUZZ_SECONDS ?= 60
# What `make metric` drafts, on which page of docs/metrics, and whether a worker keeps sums or records of samples.
NAME ?=
PAGE ?= regression
KEEPS ?= sums

PS_PADDLE := 2.6.2
CPU_PADDLE := 3.3.1

# Each environment: where it is, what it holds, what pip installs there, and which groups of pyproject.toml.
PS := .venv
PS_NAME := paddlepaddle $(PS_PADDLE)
# pyarrow 26 takes no NumPy 1, and says so only when it is imported. NumPy first: where pip meets its limit late, it tries
# version after version of what depends on NumPy, for more than ten minutes.
PS_INSTALLS := 'numpy<2' -e '.[ps]' paddlepaddle==$(PS_PADDLE) 'pyarrow<26'
PS_GROUPS := test
CPU := .venv-cpu
CPU_NAME := paddlepaddle $(CPU_PADDLE)
CPU_INSTALLS := -e '.[cpu,mlflow]' paddlepaddle==$(CPU_PADDLE)
CPU_GROUPS := test
DEV := .venv-dev
DEV_NAME := the tools for style, types and docs
DEV_INSTALLS := -e .
DEV_GROUPS := dev

MUTATED := $(if $(filter 2,$(PADDLE)),$(PS),$(CPU))

BENCH := .venv-bench
BENCH_NAME := the peers that the metrics are timed against
BENCH_INSTALLS := -e .
BENCH_GROUPS := bench
GPU := .venv-gpu
GPU_NAME := Paddle for CUDA
GPU_INSTALLS := -e '.[gpu]'
GPU_GROUPS := test
FUZZER := .venv-fuzz
FUZZER_NAME := atheris
FUZZER_INSTALLS := -e .
FUZZER_GROUPS := fuzz
ENGINES := .venv-engines
ENGINES_NAME := Spark, Ray, Dask and Beam
ENGINES_INSTALLS := -e '.[spark,ray,dask,beam]'
ENGINES_GROUPS := test-engines
ALONE := .venv-numpy
ALONE_NAME := NumPy alone
ALONE_INSTALLS := -e . $(NUMPY)
ALONE_GROUPS := test-numpy

# The tests start hundreds of processes that import the package: without bytecode each would compile it.
unexport PYTHONDONTWRITEBYTECODE

# Material for MkDocs announces MkDocs 2, which pyproject.toml excludes.
export NO_MKDOCS_2_WARNING := 1

PIP := --disable-pip-version-check --no-input
# What is installed from here is a line with its path: type checkers and editors cannot follow setuptools' other way.
EDITABLE := --config-settings editable_mode=compat

# $(call make-environment,directory,what is in it,what pip installs,groups,oldest Python minor,newest)
# The stamp goes first and comes last, so an environment whose making was interrupted is made again.
define make-environment
	@rm -f $(1)/.ready
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "error: no $(PYTHON) here; install Python 3.11, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, $(5)) <= sys.version_info[:2] <= (3, $(6)))' || \
		{ echo "error: $(1) ($(2)) needs Python 3.$(5) to 3.$(6), and $(PYTHON) is $$("$(PYTHON)" -V 2>&1);" \
			"name another: make PYTHON=python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "error: $(PYTHON) has no venv; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "making $(1) with $(2) ..."
	@rm -rf $(1)
	@"$(PYTHON)" -m venv $(1)
	@$(1)/bin/python -m pip install -qq $(PIP) dependency-groups tomli && \
		$(1)/bin/python -m pip install -qq $(PIP) $(EDITABLE) $(3) $$($(1)/bin/python -m dependency_groups $(4)) || \
		{ echo "error: $(1) is not complete; pip's message is above" >&2; exit 1; }
	@touch $(1)/.ready
	@echo "made $(1)"
endef

# Leaves out the tests that never touch Paddle: `make test` runs them on one version, which is not that of Paddle 2.6,
# whose NumPy the newest pyarrow does not take.
WITH_PADDLE := --ignore=tests/formulas --ignore=tests/fuzz --ignore=tests/files --ignore=tests/columns/test_frames.py \
	--ignore=fleetmetrics/files --deselect=fleetmetrics/base/adding.py::fleetmetrics.base.adding.Adding.add_frame

# What `make test-numpy` runs: what imports neither Paddle nor an optional library.
WITHOUT_PADDLE := fleetmetrics tests/formulas tests/comm tests/fuzz tests/serial/test_container.py tests/test_package.py \
	--ignore=tests/fuzz/test_files.py \
	$(addprefix --ignore=fleetmetrics/,static plot report files integrations columns/reading.py columns/where.py \
	xp/paddle_ops.py xp/paddle_values.py vision/coco.py vision/text_regions.py evaluator/metrics/detection.py) \
	--deselect=fleetmetrics/base/adding.py::fleetmetrics.base.adding.Adding.add_frame \
	--deselect=fleetmetrics/evaluation/calls.py::fleetmetrics.evaluation.calls.evaluate \
	--deselect=fleetmetrics/evaluation/history.py::fleetmetrics.evaluation.history.history \
	--deselect=fleetmetrics/evaluation/consistency/streams.py::fleetmetrics.evaluation.consistency.streams.consistency

# The tests that go through all metrics, and the examples of the classes.
OF_A_METRIC := tests/test_contract.py tests/test_exactness.py tests/test_names.py tests/test_reference.py tests/test_docs.py \
	tests/test_translations.py tests/words tests/metrics tests/support/test_settings.py tests/base/test_metric.py fleetmetrics/metrics

# $(call run-tests,directory,Paddle version): tests and the package's doctests, as one run
define run-tests
	@echo "testing with paddlepaddle $(2) ..."
	@mkdir -p build && rm -f build/tests-$(2).xml
	@$(1)/bin/python -m pytest --processes $(WORKERS) --doctest-modules --junitxml=build/tests-$(2).xml tests fleetmetrics \
		$(CHOSEN) $(ARGS)
endef

# $(call run-evaluate,directory,Paddle version): what worker 0 prints; the launcher adds to logs that are there
define run-evaluate
	@echo "paddlepaddle $(2)"
	@rm -rf build/evaluate-$(2) && mkdir -p build/evaluate-$(2)
	@GLOG_minloglevel=2 $(1)/bin/python -m paddle.distributed.launch --nproc_per_node 3 --backend gloo \
		--log_dir build/evaluate-$(2) examples/dynamic_evaluation/evaluate.py \
		>build/evaluate-$(2)/launcher.log 2>&1 || { cat build/evaluate-$(2)/launcher.log >&2; exit 1; }
	@cat build/evaluate-$(2)/workerlog.0
endef

# Prints what a run's report says, in pytest's words.
SUMMARY := import sys, xml.etree.ElementTree as tree; s = tree.parse(sys.argv[1]).find("testsuite").attrib; \
	n = {k: int(s[k]) for k in ("failures", "errors", "skipped", "tests")}; \
	print("%d failed, %d passed, %d skipped, %d errors in %.0fs" % (n["failures"], \
	n["tests"] - n["failures"] - n["errors"] - n["skipped"], n["skipped"], n["errors"], float(s["time"])))

.PHONY: help demo test test-all test-thorough test-ps test-cpu test-numpy test-engines fuzz mutations lint types package format docs look compare evaluate metric test-metric names modes exactness written bench-sync bench-gather bench-scale bench-reading bench-files bench-readme kills attacks hosts bench-metrics bench-engines bench gpu \
	clean clean-all

help:  ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(PS)/.ready  ## train wide-and-deep on 2 servers and 2 workers; the workers print global metrics
	@$(PS)/bin/python examples/wide_and_deep/demo.py $(ARGS)

# $(call run-both,which tests): both versions at the same time, so that one computes while the other collects or waits. The
# newer one's output comes first, then the older one's, then a line for each. Without the trap, bash would have the run in
# the background ignore Ctrl-C.
define run-both
	@mkdir -p build; rm -f build/tests-*.xml; failed=0; \
	(trap - INT; $(MAKE) test-ps CHOSEN="$(WITH_PADDLE) -m 'not numpy_only$(if $(1), and $(1))'") >build/tests-$(PS_PADDLE).log 2>&1 & \
	$(MAKE) test-cpu $(if $(1),CHOSEN="-m '$(1)'") || failed=1; \
	wait $$! || failed=1; \
	cat build/tests-$(PS_PADDLE).log; \
	for version in $(PS_PADDLE) $(CPU_PADDLE); do \
		printf 'paddlepaddle %s: ' $$version; \
		"$(PYTHON)" -c '$(SUMMARY)' build/tests-$$version.xml 2>/dev/null || echo "no report, the run did not finish"; \
	done; \
	exit $$failed
endef

test: $(PS)/.ready $(CPU)/.ready  ## test every promise on both Paddle versions, in minutes
	$(call run-both,not thorough)

test-all: $(PS)/.ready $(CPU)/.ready  ## run all tests and doctests on both Paddle versions
	$(call run-both)

test-thorough: $(PS)/.ready $(CPU)/.ready  ## run what `make test` leaves to `make test-all`
	$(call run-both,thorough)

test-ps: $(PS)/.ready  ## run all on Paddle 2.6.2, which has parameter servers
	$(call run-tests,$(PS),$(PS_PADDLE))

test-cpu: $(CPU)/.ready  ## run all on Paddle 3.3.1
	$(call run-tests,$(CPU),$(CPU_PADDLE))

test-numpy: $(ALONE)/.ready  ## run those that need nothing but NumPy: the first run of a new developer, under two minutes
	@$(ALONE)/bin/python -m pytest -q --processes $(WORKERS) --doctest-modules $(WITHOUT_PADDLE) $(ARGS)

test-engines: $(ENGINES)/.ready  ## run those of fleetmetrics.engines, on Spark, Ray and Dask
	@mkdir -p build && $(ENGINES)/bin/python -m pytest --durations=5 tests/engines $(ARGS)

fuzz: $(CPU)/.ready $(FUZZER)/.ready  ## try FUZZ=5000 other bytes from a peer in each test of tests/fuzz, then atheris, FUZZ_SECONDS=60 each
	@FUZZ=$(FUZZ) $(CPU)/bin/python -m pytest --processes $(WORKERS) --timeout 0 tests/fuzz $(ARGS)
	@mkdir -p build/fuzz
	@for target in messages_of_a_peer headers_of_a_peer guests_of_rank_0 greetings_of_rank_0 letters_of_a_peer words_of_workers; do \
		echo "atheris: $$target"; PYTHONPATH=. $(FUZZER)/bin/python tests/fuzz/atheris_frames.py $$target -max_len=600 \
		-timeout=20 -rss_limit_mb=2048 -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/fuzz/ \
		>build/fuzz/$$target.log 2>&1 || { tail -40 build/fuzz/$$target.log >&2; exit 1; }; \
		grep "^Done" build/fuzz/$$target.log; done

mutations: $(MUTATED)/.mutmut  ## change MODULE=fleetmetrics/..., or what changed SINCE=main, in 150 ways, one at a time, and print which its tests, or TESTS=..., miss
	@$(MUTATED)/bin/python -m tests.mutants $(MODULE) $(if $(SINCE),--since $(SINCE)) $(if $(TESTS),--tests "$(TESTS)") $(ARGS)

lint: $(DEV)/.ready  ## check style, format, spelling, English, and that nothing is newer than Python 3.9
	@$(DEV)/bin/python -m ruff check .
	@$(DEV)/bin/python -m ruff format --check .
	@$(DEV)/bin/vermin --quiet --no-tips --target=3.9- --violations fleetmetrics setup.py
	@$(DEV)/bin/codespell
	@$(DEV)/bin/python tests/prose.py

types: $(DEV)/.ready  ## check the types with mypy; with Basedpyright and griffe what editors and the reference show
	@$(DEV)/bin/python -m mypy
	@$(DEV)/bin/python -m mypy --strict --follow-imports=silent tests/typing/programs.py
	@$(DEV)/bin/python -m mypy.stubtest fleetmetrics --concise --ignore-missing-stub --ignore-disjoint-bases \
		--mypy-config-file pyproject.toml --allowlist tests/typing/stubtest.txt
	@$(DEV)/bin/basedpyright -p tests/typing --pythonpath $(DEV)/bin/python
	@$(DEV)/bin/python tests/typing/complete.py
	@$(DEV)/bin/python -m tests.typing.signatures

# $(call build,folder): the sdist and the wheel, every build gives the same bytes
define build
	@mkdir -p $(1)
	@$(DEV)/bin/python -m build --sdist --outdir $(1) . >$(1)/build.log 2>&1 || { cat $(1)/build.log >&2; exit 1; }
	@cd $(1) && tar -xzf *.tar.gz && rm *.tar.gz && name=$$(ls -d fleetmetrics-*/) && name=$${name%/} && \
		tar --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw \
		-cf - $$name | gzip -n9 >$$name.tar.gz
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(DEV)/bin/python -m build --wheel --outdir $(1) $(1)/fleetmetrics-*/ \
		>>$(1)/build.log 2>&1 || { cat $(1)/build.log >&2; exit 1; }
	@rm -rf $(1)/fleetmetrics-*/ $(1)/build.log
endef

package: SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
package: $(DEV)/.ready  ## build the sdist and the wheel into dist/, twice, and check both
	@rm -rf dist build/again build/lib
	$(call build,dist)
	$(call build,build/again)
	@for file in dist/*; do cmp $$file build/again/$${file##*/} || exit 1; done
	@diff <(git ls-files | sort) <(tar -tzf dist/*.tar.gz | sed 's,^[^/]*/,,' | \
		grep -Ev '(^|/)$$|^PKG-INFO$$|^setup.cfg$$|^fleetmetrics.egg-info/' | sort) || \
		{ echo "error: the sdist (>) is not what git has (<); fix MANIFEST.in" >&2; exit 1; }
	@$(DEV)/bin/validate-pyproject pyproject.toml
	@$(DEV)/bin/zizmor --offline --quiet .github
	@$(DEV)/bin/python -m twine check --strict dist/*
	@$(DEV)/bin/check-wheel-contents dist/*.whl
	@$(DEV)/bin/pyroma --min=8 dist/*.tar.gz >build/pyroma.log 2>&1 || { cat build/pyroma.log >&2; exit 1; }

format: $(DEV)/.ready  ## put the code into the common format, and fix what Ruff can fix
	@$(DEV)/bin/python -m ruff check --fix-only .
	@$(DEV)/bin/python -m ruff format .

docs: $(DEV)/.ready  ## build the site into site/, every warning an error
	@$(DEV)/bin/python -m mkdocs build --strict
	@echo "built site/index.html"

look: docs $(CPU)/.ready  ## look at every page of the site and at a report in Chromium: nothing is too wide, and axe finds nothing in light and dark
	@$(DEV)/bin/python -m pip install -qq $(PIP) --no-deps --upgrade --target build/axe axe-playwright-python==0.1.8
	@$(DEV)/bin/python -m tests.look site build/axe/axe_playwright_python/axe.min.js $(ARGS)
	@$(CPU)/bin/python -m tests.report.browser build/report build/axe/axe_playwright_python/axe.min.js

compare: $(PS)/.ready $(CPU)/.ready  ## print what fleet.metrics and fleetmetrics answer, side by side
	@$(PS)/bin/python examples/comparison/compare.py
	@$(CPU)/bin/python examples/comparison/compare.py

evaluate: $(PS)/.ready $(CPU)/.ready  ## evaluate on 3 workers in dynamic mode, on both Paddle versions
	$(call run-evaluate,$(PS),$(PS_PADDLE))
	$(call run-evaluate,$(CPU),$(CPU_PADDLE))

metric: $(DEV)/.ready  ## write a draft of a metric, NAME=MedianAbsoluteError: its class, case, entry and line on its page; PAGE=regression, KEEPS=sums or records
	@$(DEV)/bin/python docs/scripts/new_metric.py "$(NAME)" --page $(PAGE) --keeps $(KEEPS)

test-metric: $(CPU)/.ready  ## run the tests of one metric, NAME=MedianAbsoluteError, on Paddle 3.3.1, in seconds
	@$(CPU)/bin/python -m pytest --doctest-modules $(OF_A_METRIC) $(ARGS) \
		-k "$(NAME) or every_metric or the_table or list_of_names or both_languages or every_chinese_section"

names: $(DEV)/.ready  ## write the lists of public names, fleetmetrics/_names.py and __init__.pyi, the arguments of evaluate, and the docs' catalogue and commands
	@$(DEV)/bin/python docs/scripts/names.py
	@$(DEV)/bin/python docs/scripts/catalogue.py
	@$(DEV)/bin/python docs/scripts/commands.py

modes: $(PS)/.ready $(CPU)/.ready  ## write the docs' table of metrics and modes, by running both Paddle versions; ARGS=--all: every row again
	@$(PS)/bin/python docs/scripts/modes.py $(ARGS)
	@$(CPU)/bin/python docs/scripts/modes.py $(ARGS)

exactness: $(CPU)/.ready  ## write the docs' table of how far values depend on the split, by splitting at random; ARGS=--all: every row again
	@$(CPU)/bin/python docs/scripts/exactness.py $(ARGS)

written: names exactness modes  ## write all lists and tables that follow from the code; rows that are there stay as they are

bench-sync: $(PS)/.ready  ## time one sync between workers
	@$(PS)/bin/python benchmarks/sync.py $(ARGS)

bench-gather: $(PS)/.ready  ## time and weigh the gathering of records
	@$(PS)/bin/python benchmarks/gather.py $(ARGS)

bench-scale: $(BENCH)/.ready  ## let the workers' channel grow from 2 to 1,024 workers
	@$(BENCH)/bin/python benchmarks/scale.py $(ARGS)

bench-reading: $(ALONE)/.ready  ## count the functions and lines that a reader of one call meets
	@$(ALONE)/bin/python benchmarks/reading.py $(ARGS)

bench-files: $(CPU)/.ready  ## time and weigh metrics of files beside bare reading, pandas and scikit-learn
	@$(CPU)/bin/python benchmarks/files.py $(ARGS)

bench-readme: $(CPU)/.ready  ## time the README's command, two models and a report, beside the plain run of one model
	@$(CPU)/bin/python benchmarks/readme.py $(ARGS)

kills: $(CPU)/.ready  ## kill a worker 1,000 times, cut a connection 1,000 times, and count the ranks that got a number where others got an error
	@$(CPU)/bin/python -m tests.distributed.kills $(ARGS)

attacks: $(CPU)/.ready  ## attack 300 jobs without their secret, and count numbers that are wrong
	@$(CPU)/bin/python -m tests.distributed.attacks $(ARGS)

hosts: $(CPU)/.ready  ## run jobs on three hosts with delays, losses and firewalls between them
	@$(CPU)/bin/python -m tests.distributed.hosts $(ARGS)

bench-metrics: $(BENCH)/.ready  ## time the metrics beside NumPy, scikit-learn, torchmetrics and torcheval
	@for script in metrics catalogue dense; do $(BENCH)/bin/python benchmarks/$$script.py $(ARGS) || exit 1; done

bench-engines: $(ENGINES)/.ready  ## time Spark, Ray and Dask beside one process and Spark's own evaluator
	@$(ENGINES)/bin/python benchmarks/engines.py $(ARGS)

gpu:  ## on a CUDA device: count what add waits for, time it, train on two devices, compare all values with the CPU's
	@"$(PYTHON)" benchmarks/gpu.py --check $(ARGS)
	@$(MAKE) $(GPU)/.ready
	@$(GPU)/bin/python benchmarks/gpu.py $(ARGS)

bench: $(PS)/.ready bench-metrics  ## run every benchmark
	@for script in sync gather step; do echo "$$script"; $(PS)/bin/python benchmarks/$$script.py $(ARGS) || exit 1; done

clean:  ## remove what the tasks wrote, and keep the environments
	@rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache *.egg-info
	@for tree in fleetmetrics tests examples benchmarks; do \
		if [ -d $$tree ]; then find $$tree -name __pycache__ -type d -prune -exec rm -rf {} +; fi; done

clean-all: clean  ## remove the environments too
	@rm -f $(PS)/.ready $(CPU)/.ready $(DEV)/.ready $(BENCH)/.ready $(GPU)/.ready $(FUZZER)/.ready $(ENGINES)/.ready $(ALONE)/.ready
	@rm -rf $(PS) $(CPU) $(DEV) $(BENCH) $(GPU) $(FUZZER) $(ENGINES) $(ALONE)

$(PS)/.ready: pyproject.toml
	$(call make-environment,$(PS),$(PS_NAME),$(PS_INSTALLS),$(PS_GROUPS),9,12)

$(CPU)/.ready: pyproject.toml
	$(call make-environment,$(CPU),$(CPU_NAME),$(CPU_INSTALLS),$(CPU_GROUPS),9,13)

$(DEV)/.ready: pyproject.toml
	$(call make-environment,$(DEV),$(DEV_NAME),$(DEV_INSTALLS),$(DEV_GROUPS),10,14)

$(GPU)/.ready: pyproject.toml
	$(call make-environment,$(GPU),$(GPU_NAME),$(GPU_INSTALLS),$(GPU_GROUPS),9,12)

$(FUZZER)/.ready: pyproject.toml
	$(call make-environment,$(FUZZER),$(FUZZER_NAME),$(FUZZER_INSTALLS),$(FUZZER_GROUPS),9,13)

$(ENGINES)/.ready: pyproject.toml
	$(call make-environment,$(ENGINES),$(ENGINES_NAME),$(ENGINES_INSTALLS),$(ENGINES_GROUPS),10,13)

$(BENCH)/.ready: pyproject.toml
	$(call make-environment,$(BENCH),$(BENCH_NAME),$(BENCH_INSTALLS),$(BENCH_GROUPS),10,13)

$(ALONE)/.ready: pyproject.toml
	$(call make-environment,$(ALONE),$(ALONE_NAME),$(ALONE_INSTALLS),$(ALONE_GROUPS),9,13)

# mutmut must be where the tests run, and no test needs it.
$(MUTATED)/.mutmut: $(MUTATED)/.ready
	@$(MUTATED)/bin/python -m pip install -qq $(PIP) $$($(MUTATED)/bin/python -m dependency_groups mutations)
	@touch $@
