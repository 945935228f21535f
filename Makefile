# `make run` and `make test` do all the set-up on a fresh machine; `make help` lists the rest.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)

# Only as root are Debian's packages installed; elsewhere a missing one is named by what needs it.
ROOT := $(shell [ "$$(id -u)" = 0 ] && command -v apt-get)
APT := DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends

.PHONY: help run test test-fast test-slurm lint format bench bench-quick screens soak cluster-up cluster-down clean

help:  ## what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Compiled bytecode: without it every start of Snakemake costs some five seconds more.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { [ -n "$(ROOT)" ] && apt-get update -qq && $(APT) python3-venv; }
	@echo 'Setting up $(VENV): a minute or two ...'
	@$(PYTHON) -m venv $(VENV)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pip install -qq --compile -c constraints.txt torch==2.13.0 -e '.[dev]'
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m compileall -q src
	@touch $@

run: $(READY)  ## train the demo collection here, print its summary, write its report
	snakemake demo
	python -m unbroken.report summary demo

# Two workers: the tests on Slurm wait most of the time, the others compute meanwhile.
test: $(READY) browser  ## every test, on a real Slurm that is started on this machine
	python -m pytest -n 2 --dist loadgroup --durations=40

test-fast: $(READY)  ## what needs neither Slurm nor much time
	python -m pytest -m "not slurm and not slow and not browser"

test-slurm: $(READY)  ## only the tests on the real Slurm
	python -m pytest -m slurm

lint: $(READY)  ## ruff, mypy, snakefmt, snakemake --lint
	ruff check . && ruff format --check .
	mypy
	snakefmt --check Snakefile workflow
	python -m pytest -q tests/workflow/test_lint.py  # snakemake --lint, less two lints not followed on purpose

format: $(READY)  ## let ruff and snakefmt write the code as they like it
	ruff check --fix . ; ruff format . ; snakefmt Snakefile workflow

bench: $(READY)  ## every figure of docs/performance.md
	python -m benchmarks

bench-quick: $(READY)  ## the same with fewer and smaller rounds
	python -m benchmarks --quick

screens: $(READY) browser  ## make the pictures of docs/screens anew
	python docs/make_screens.py

MINUTES ?= 10
soak: $(READY)  ## a fault campaign on the test cluster, MINUTES=10
	python -m tests.slurm.soak --minutes $(MINUTES)

cluster-up: $(READY)  ## start the test cluster and say how to use it
	python -m tests.slurm.cluster up

cluster-down: $(READY)  ## stop it and leave nothing behind
	python -m tests.slurm.cluster down

.PHONY: browser
browser:
	@command -v chromedriver >/dev/null || { [ -n "$(ROOT)" ] && apt-get update -qq && $(APT) chromium chromium-driver >/dev/null; }

clean:  ## remove what set-up and tests made; runs/ and results/ stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache src/*.egg-info
