# Two commands set everything up: `make demo` shows the pipeline, `make test` tests it. Both need Python 3.11-3.13 and make.
# The newest that fits; an environment that is there keeps its own. `make PYTHON=/path/to/python3.12 ...` names another.
FITS := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(or $(if $(wildcard $(READY)),$(realpath $(BIN)/python)),$(shell .ci/python 3.13 3.12 3.11))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Modules are compiled when they are first imported: all of them took 135 s of CPU, three quarters of `make demo`, and a
# sixth of them is imported there, a quarter when tests are collected.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps
# The tests of a module share servers and tables, so one worker runs them. The order is that of conftest.py, not that of
# the number of tests.
BY_MODULE := --dist loadfile --no-loadscope-reorder
# With SKIPS=FILE, a skip for a reason that the file does not list is a failure. Without the = pytest, which does not know the
# option yet, takes the file for a folder of tests, and does not find the profile of test-quick.
EXPECTED = $(if $(SKIPS),--expected-skips="$(SKIPS)")
# Without bytecode every process of a test compiles the package anew, and pytest each of its modules.
unexport PYTHONDONTWRITEBYTECODE
LOCK := requirements.lock

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-cds bench wheel test test-endurance test-quick test-processes test-docker lint types check lock clean

help:
	@echo "make demo    real months of ERA5 (data/), from files to a queryable table, a series, a map and a page on climate"
	@echo "make demo-cds  months from a stand-in for the Climate Data Store, on this machine, without a key"
	@echo "make test    the tests, without those of minutes"
	@echo "make test-endurance  those: backfills, kills, browsers, whole benchmarks"
	@echo "make test-quick  the quick tests that need no server (pytest -m 'not server and not slow')"
	@echo "make test-processes  the tests of processes, signals and servers, in which Pythons differ most"
	@echo "make test-docker  the images and services of docker/, on an engine that it starts (root, Debian or Ubuntu)"
	@echo "make check   lint, types and tests"
	@echo "make bench   every benchmark once, with tiny loads: whether they run here (benchmarks/README.md has those in full)"
	@echo "make wheel   the package as a file to install anywhere (dist/)"
	@echo "make setup   only the environment ($(VENV)), from requirements.lock"
	@echo "make lock    update requirements.lock after a change of pyproject.toml (UPGRADE=1: everything to its newest version)"
	@echo "make clean   remove the environment and the caches (not the data in .era5)"

setup: $(READY)

# The stamp is removed first and written last. Without it the environment was interrupted, and nothing tells what is
# missing: it is made again from scratch, which is quick, because downloads are kept.
$(READY): requirements.lock pyproject.toml
	@"$(PYTHON)" -c '$(FITS)' 2>/dev/null || { \
		echo "Python 3.11, 3.12 or 3.13 with its venv module is needed (tried: $(or $(PYTHON),PATH and pyenv's)).">&2; \
		echo "Install one (Debian: python3 and python3-venv), or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (about a minute) ..."
	@"$(PYTHON)" -m venv $(if $(wildcard $@),,--clear) $(VENV)
	@rm -f $@
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock | $(PIP) -r /dev/stdin && \
		eval "$$($(BIN)/python docker/pip_to_uv.py)" && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements.lock || \
		{ echo "uv cannot install here: with pip, which takes longer ..." >&2; $(PIP) -r requirements.lock; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

demo: $(READY)
	@$(BIN)/era5 demo

demo-cds: $(READY)
	@$(BIN)/python -m era5_pipeline_tests.demo_cds

wheel: $(READY)
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .

# Four on two cores: with three workers, which wait for servers and processes, the cores were idle for 25 % of the time.
WORKERS := 4
test: $(READY)
	@$(BIN)/python -m pytest -n $(WORKERS) $(BY_MODULE) -m "not endurance" $(EXPECTED)

# Most of their time they wait, for the turns of daemons and for processes to end.
test-endurance: $(READY)
	@$(BIN)/python -m pytest -n $(WORKERS) $(BY_MODULE) -m endurance $(EXPECTED)

test-quick: $(READY)
	@$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile quick -m "not server and not slow" $(EXPECTED)

PROCESSES := cli/test_cli.py cli/test_load_interrupted.py cli/test_serve.py cli/test_up.py cli/test_watch.py \
	defs/test_failures.py defs/test_resources.py defs/test_runner.py defs/instance export/test_export_faults.py flat/test_cluster.py monitor/test_metrics.py \
	postgres/embedded postgres/test_connect.py runtime warehouse/test_load_interrupted.py warehouse/test_locks.py \
	warehouse/test_workers.py
test-processes: $(READY)
	@$(BIN)/python -m pytest -n $(WORKERS) $(BY_MODULE) -m "not endurance" $(EXPECTED) \
		$(addprefix era5_pipeline_tests/,$(PROCESSES))

# Trial results are kept apart, and measured anew each time.
TRIAL := .era5/benchmarks/trial.json
bench: $(READY)
	@mkdir -p $(dir $(TRIAL)) && rm -f $(TRIAL)
	@$(BIN)/python -m benchmarks run all --rows 744 --repeats 1 --workers 1,2 --batches 3 --held 1,2 --months 2 \
		--json $(TRIAL)

# With BASE=IMAGE the image is built on that, by the engine that is running, and the other images are those of
# docker/compose.yaml. Without it, an engine is started and stand-ins are made: .ci/docker.
test-docker: $(READY)
	@ERA5_TEST_DOCKER="$(or $(BASE),$(ERA5_TEST_DOCKER))" PATH="$(CURDIR)/$(BIN):$$PATH" bash .ci/docker test

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/mypy

check: lint types test

# One version of each package for all Pythons: two versions of numpy were two behaviours, of which a machine tests one.
lock: $(READY)
	@$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --fork-strategy fewest \
		--generate-hashes --no-strip-extras --no-emit-index-url --no-header --no-annotate --quiet \
		$(if $(UPGRADE),--upgrade) -o "$(LOCK)"

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
