# One word for each thing one does here; every target does its own set-up, and the second time is fast.
# Needs make and Python >= 3.11 (another one: make PYTHON=/path/to/python3.12 run).

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
BIN := .venv/bin
# uv where it is on the path; else the pip in .venv; else, until there is one, the pip of $(PYTHON).
# Bytecode of what is used is written at its first import: to compile all takes longer than to run.
UV := $(shell command -v uv)
PIP = $(shell test -x $(BIN)/pip && echo $(BIN)/python -m pip || echo "$(PYTHON)" -m pip --python $(BIN)/python)
INSTALL = $(if $(UV),uv pip install --quiet --python $(BIN)/python,PIP_COMPILE=0 $(PIP) --disable-pip-version-check install --quiet)
RECIPE := setup.cfg pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help run test test-quick test-changed check docs wheel fuzz nightly calibration lab-test bench clean

help: ## say what each target does
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

run: .venv/.installed ## install, simulate the first scenario, print the answer and where its report is
	$(BIN)/foretrace run first

test: .venv/.dev ## the default tests, on two cores, within five minutes
	$(BIN)/python -m pytest -n 2

# Folders whose tests start commands, agents, browsers or whole studies; all others are quick.
SLOW := tests/golden $(addprefix tests/hil/,agent lab measuring) $(addprefix tests/reports/,page view) \
	$(addprefix tests/scenarios/,cli fitting hil library studies workloads)
test-quick: .venv/.dev ## the quick tests, within 90 seconds
	$(BIN)/python -m pytest -n 2 --hypothesis-profile=quick $(addprefix --ignore=,$(SLOW))

test-changed: .venv/.dev ## the tests of the folders that differ from main
	$(BIN)/python -m pytest -n 2 $$($(BIN)/python .ci/changed.py main)

check: .venv/.dev .mypy/foretrace ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p foretrace
	$(BIN)/lint-imports

docs: .venv/.docs ## the pages as HTML in build/docs, warnings being errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

wheel: .venv/.installed ## a wheel in dist/, from the files that exist now
	rm -rf build dist
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .
	rm -rf build
	@ls dist/*.whl

fuzz: .venv/.dev ## damage scenarios and traces for a minute and read them (SECONDS=600: for ten)
	$(BIN)/python tests/fuzz --seconds $(or $(SECONDS),60)

nightly: .venv/.dev ## the tests that are too long for every push, other examples, ten minutes of damage
	$(BIN)/python -m pytest -n 2 -m nightly
	$(BIN)/python -m pytest -n 2 -m "hypothesis and not hardware" --hypothesis-profile=nightly
	$(BIN)/python tests/fuzz --seconds 600
	$(BIN)/python tests/fuzz --seconds 600 --only frames answers

calibration: .venv/.dev ## tests of the programs that made the catalog (FORETRACE_DATA: the measurements)
	$(BIN)/python -m pytest tests/calibration -m nightly -rs

lab-test: .venv/.dev ## build and boot the lab, and all its tests: real RDMA, CXL and switch drivers
	$(BIN)/foretrace lab up
	$(BIN)/python -m pytest tests/hil/lab/test_lab.py tests/hil/lab/test_lab_drivers.py
	$(BIN)/python -m pytest tests/calibration/test_lab.py -m nightly
	$(BIN)/python -m pytest tests/hil/lab/test_lab_live.py tests/hil/lab/test_lab_scenarios_live.py tests/hil/agent/test_ssh_live.py tests/hil/agent/test_three_hosts.py -m hardware -rs
	$(BIN)/python -m foretrace.calibration.judge.lab
	$(BIN)/python -m foretrace.calibration.judge.lab_gloo

BENCHMARKS := engine.wdag engine.handover engine.spmd network.spmd_network network.incast network.flows \
	engine.growth engine.memory items network.topologies network.collectives_at_scale \
	network.ring_messages commands.import_kineto commands.sweep commands.search commands.startup \
	commands.first_run
bench: .venv/.dev ## every benchmark, one after the other, each against its floor or peer
	@missed=; for name in $(BENCHMARKS); do \
		echo "== $$name"; $(BIN)/python -m foretrace.benchmarks.$$name || missed="$$missed $$name"; \
	done; test -z "$$missed" || { echo "missed:$$missed"; exit 1; }

clean: ## everything that make made
	rm -rf .venv .mypy build dist foretrace.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.python:
	@test -n "$(PYTHON)" || { echo "make: no Python >= 3.11 on the path; install one, or say make PYTHON=/path/to/python" >&2; exit 2; }
ifneq ($(UV),)
	UV_VENV_CLEAR=1 uv venv --quiet --python "$(PYTHON)" .venv
else # 20 times as fast as with a pip, where that of $(PYTHON) is new enough to install into it
	"$(PYTHON)" -m venv --without-pip .venv
	"$(PYTHON)" -m pip --python $(BIN)/python --version >/dev/null 2>&1 || "$(PYTHON)" -m venv .venv
endif
	@touch $@

.venv/.installed: .venv/.python $(RECIPE)
	@echo "installing foretrace and what it needs into .venv (half a minute or more, once)"
	$(INSTALL) pip --editable .
	@touch $@

.venv/.dev: .venv/.installed
	$(INSTALL) --editable '.[dev]'
	@touch $@

.venv/.docs: .venv/.installed
	$(INSTALL) --editable '.[docs]'
	@touch $@

# `mypy -p foretrace` finds the package through this link, whatever the checkout is called.
.mypy/foretrace:
	mkdir -p .mypy
	ln -sfn .. $@
