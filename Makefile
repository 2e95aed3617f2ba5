# `make` lists the targets. PYTHON names the interpreter that environments are built on.

PYTHON ?= python3
export PYTHON
# Tests start hundreds of processes; without compiled files each would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Processes beside each other that test (each starts a Spark of its own) and check types; 0: one. Test files go to them
# in the order of their names: long ones are not left for the end, when one process would wait for the other.
WORKERS ?= 2
# Further arguments for pytest, for example TESTS=tests/unit.
TESTS ?=
SPARK_MINORS ?= 4.2 4.3
# Packages without effects, and the least share of their lines and branches that `make test-all` has to run.
PURE := src/rechannel/dataflow/*,src/rechannel/model/*,src/rechannel/profiling/model/*,src/rechannel/reconfigure/*
COVERED := 95
BENCHMARKS ?= keyed-state python-state latency state-growth scale pipelining telemetry-overhead reconfigure bins yahoo
# BENCH_FLAGS= (empty) runs the full sizes.
BENCH_FLAGS ?= --quick
BENCH_OUT ?= benchmarks/results

BIN := .venv/bin
# The soak: its length, and the time between two changes or faults, in seconds; what decides what happens.
SOAK_SECONDS ?= 7200
SOAK_EVERY ?= 20
SOAK_SEED ?= 1
# What is written in Markdown; .mdformat.toml says how.
PAGES := *.md benchmarks docs examples
# A test process that dies ends the run, which names its test. A replaced one gets the same test again, and with
# loadfile a run whose processes have been replaced never ends.
PYTEST = -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# For tests that take minutes: to list the threads of a busy process, as is done after 5 minutes, can crash it.
PATIENT := -o faulthandler_timeout=0

.DEFAULT_GOAL := help
# Tests and benchmarks that run beside each other disturb each other's figures.
.NOTPARALLEL:
.PHONY: help environment demo test test-all test-minors test-lowest test-real soak test-browser test-peers picture check labelled lint format docs release bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

environment:  ## make .venv with everything in it (the other targets do this by themselves)
	@scripts/bootstrap .venv demo,test,dev,bench,docs

demo: environment  ## replay the flights of 2013 through a stateful dataflow
	$(BIN)/rechannel demo

test: environment  ## run the tests that take seconds, those on Spark included
	$(BIN)/python $(PYTEST) $(TESTS)

test-all: environment  ## run every test that needs no other component, with many more examples and crashes, and print coverage (long)
	$(BIN)/python $(PYTEST) $(PATIENT) -m "not real and not peers" --thorough --cov --cov-report=term $(TESTS)
	@echo 'Packages without effects:'
	@$(BIN)/coverage report --include='$(PURE)' --fail-under=$(COVERED)

test-minors:  ## run the tests of Spark's private classes on every supported minor of Spark
	$(foreach minor,$(SPARK_MINORS),$(call spark_minor,$(minor)))

define spark_minor
scripts/bootstrap .venv-spark-$(1) test,bench 'pyspark==$(1).*'
.venv-spark-$(1)/bin/python -m pytest -m contract $(TESTS)

endef

test-lowest:  ## run the tests with the oldest dependencies that pyproject.toml admits
	scripts/bootstrap .venv-lowest demo,test,bench --constraint scripts/lowest.txt
	.venv-lowest/bin/python $(PYTEST) $(TESTS)

# These tests wait for other processes most of the time.
test-real: WORKERS = 3
test-real: environment  ## run the tests against real brokers, a database and an S3 server, which it installs into .real
	$(BIN)/python $(PYTEST) $(PATIENT) -m "real and not slow" tests/real $(TESTS)

soak: environment  ## change and disturb a stream on three hosts for two hours (SOAK_SECONDS); as root, needs what test-real installs
	$(BIN)/python -m pytest $(PATIENT) -s -m real tests/real/soak --basetemp .soak \
	  --soak $(SOAK_SECONDS) --soak-every $(SOAK_EVERY) --soak-seed $(SOAK_SEED) $(TESTS)

test-browser:  ## run the tests of pages in a real Chromium, which has to be installed
	scripts/bootstrap .venv-browser test,browser
	.venv-browser/bin/python -m pytest -m browser tests/browser

test-peers: environment  ## run the programs of other systems that the docs show, in an environment of their own
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/peers.txt
	$(BIN)/python -m pytest -m peers tests/peers

picture:  ## take the pictures of pages that the docs show, in a real Chromium
	scripts/bootstrap .venv-browser test,browser
	.venv-browser/bin/python -m scripts.profile_page_picture
	.venv-browser/bin/python -m scripts.dashboard_pictures

check: lint test  ## everything that has to hold before a merge

labelled: environment  ## compare what the diagnosis says of logs with a known cause with their labels
	@$(BIN)/python -m tests.unit.profiling.labelled.confusion

lint: environment  ## check format, style, prose, types and import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mdformat --check $(PAGES)
	$(BIN)/python scripts/check_prose.py
	$(BIN)/python -m mypy --num-workers $(WORKERS)
	$(BIN)/lint-imports

format: environment  ## format code and pages, and mend what can be mended mechanically
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python scripts/change_tables.py
	$(BIN)/python scripts/finding_table.py
	$(BIN)/python -m scripts.reference_pages
	$(BIN)/mdformat $(PAGES)

docs: environment  ## build the docs site into build/site; warnings are errors
	@mkdir -p build
	@NO_COLOR=1 $(BIN)/zensical build --strict --clean >build/docs.log 2>&1 || { cat build/docs.log; exit 1; }
	@if grep '^griffe: ' build/docs.log; then echo 'docstrings that the API reference cannot read'; exit 1; fi
	@echo 'open build/site/index.html'

release: environment  ## build sdist and wheel, and run the quickstart from the wheel in an empty environment
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python scripts/check_wheel.py dist/*.whl

bench: $(BENCHMARKS:%=bench-%)  ## run every benchmark, small (full sizes: make bench BENCH_FLAGS=)

bench-%: environment
	@mkdir -p $(BENCH_OUT)
	$(BIN)/rechannel bench $* $(BENCH_FLAGS) --out $(BENCH_OUT) --json $(BENCH_OUT)/$*.json

clean:  ## remove caches and what Spark left behind; environments and results stay
	rm -rf .cache .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	rm -rf artifacts derby.log metastore_db spark-warehouse
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
