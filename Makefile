# What people and CI call. Every target does its own set-up: a virtual environment, the tested versions, the native core.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DEMO := $(VENV)/.demo
NATIVE := $(wildcard native/*.cpp native/*.h native/*/*.cpp native/*/*.h)
FORMATTED := $(NATIVE) $(wildcard tests/native/*.cpp tests/fuzz/native/*.h tests/fuzz/native/*.cpp)

.PHONY: all demo test check fix bench numbers report docs golden soak wheel clean
.DEFAULT_GOAL := all

all: $(STAMP)  ## set up .venv and build the native core

# The tools that build come by hash; torch, whose builds differ from machine to machine, and all else by version.
# torch's builds for devices bring their own Triton; beside its CPU build, Triton's interpreter and compiler are for tests.
$(STAMP): pyproject.toml lab/pyproject.toml build-tools.lock constraints.txt CMakeLists.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --no-deps -r build-tools.lock
	$(BIN)/pip install --quiet -c constraints.txt --no-build-isolation -e '.[demo,flower,dev]' -e lab
	$(BIN)/pip install --quiet --no-deps triton==3.9.0
	touch $@

# The demo needs torch and its data set, and no tool of those who develop.
$(DEMO): pyproject.toml build-tools.lock constraints.txt CMakeLists.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --no-deps -r build-tools.lock
	$(BIN)/pip install --quiet -c constraints.txt --no-build-isolation -e '.[demo]'
	touch $@

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO))  ## train on an emulated link of 100 Mbit/s, once for each operator, and compare
	$(BIN)/fewbits train --link 100Mbit --model mlp

test: $(STAMP)  ## every test that fits into ten minutes on two cores
	$(BIN)/pytest -q -n 2 --dist worksteal

check: $(STAMP)  ## everything that needs no running
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m fewbits_lab.rendered --check
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED)
	$(MAKE) docs

fix: $(STAMP)  ## repair what can be repaired by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED)

bench: $(STAMP)  ## speeds on this machine
	$(BIN)/fewbits bench

numbers: $(STAMP)  ## write the measured numbers of README and docs from the laboratory's results
	$(BIN)/python -m fewbits_lab.rendered --write

report: $(STAMP)  ## the page of all recorded results, build/report/index.html
	$(BIN)/fewbits-lab report build/report --recorded

docs: $(STAMP)  ## HTML in docs/_build/html, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

golden: $(STAMP)  ## write the golden frames that are missing; never overwrites
	$(BIN)/python tests/golden/regenerate.py

soak: $(STAMP)  ## hours of patience: fuzzing, sanitizers, statistics, planted faults; SOAK="--fraction 0.1" for less
	$(BIN)/python tests/soak.py $(SOAK)

wheel: $(STAMP)  ## what a release uploads, in dist: wheels for x86-64 and aarch64, tried, and the source archive
	$(BIN)/python .ci/wheels

clean:  ## remove everything that make has made
	rm -rf $(VENV) build dist docs/_build docs/api docs/operators src/fewbits/*.so src/fewbits/*.dylib
