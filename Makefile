# Two commands set everything up: `make demo` shows it, `make test` proves it. Both need Python 3.11-3.13 and make.
# The first interpreter that runs and fits: a name on PATH may be a shim of a version manager that refuses to start.
PYTHON ?= $(shell for p in python3 python3.12 python3.13 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types check lock clean

help:
	@echo "make demo    two months of generated ERA5 data, from netCDF to a queryable table, a series and a map"
	@echo "make test    the tests"
	@echo "make check   lint, types and tests"
	@echo "make setup   only the environment ($(VENV)), from requirements.lock"
	@echo "make lock    resolve requirements.lock anew from pyproject.toml"
	@echo "make clean   remove the environment and the caches (not the data in .era5)"

setup: $(READY)

# The stamp is written last, so an installation that was cut off is taken up again.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed and none was found: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

demo: $(READY)
	@$(BIN)/era5 demo

test: $(READY)
	@$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/mypy

check: lint types test

lock: $(READY)
	@$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
		--no-strip-extras --no-emit-index-url --no-header --no-annotate --quiet -o requirements.lock

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
