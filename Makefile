# What people and CI call. Every target does its own set-up: a virtual environment, the tested versions, the native core.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
NATIVE := $(wildcard native/*.cpp native/*.h)

.PHONY: all demo test check fix bench numbers docs golden soak clean
.DEFAULT_GOAL := all

all: $(STAMP)  ## set up .venv and build the native core

$(STAMP): pyproject.toml constraints.txt CMakeLists.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt pip scikit-build-core cmake ninja
	$(BIN)/pip install --quiet -c constraints.txt --no-build-isolation -e '.[torch,flower,lab,dev]'
	touch $@

demo: $(STAMP)  ## the main job on its embedded default: train, once for each operator, and compare
	$(BIN)/fewbits train

test: $(STAMP)  ## every test that fits into ten minutes on two cores
	$(BIN)/pytest -q -n 2

check: $(STAMP)  ## everything that needs no running
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m benchmarks.rendered --check
	$(BIN)/clang-format --dry-run --Werror native/*.h native/*.cpp tests/fuzz/native/*.h tests/fuzz/native/*.cpp
	$(MAKE) docs

fix: $(STAMP)  ## repair what can be repaired by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i native/*.h native/*.cpp tests/fuzz/native/*.h tests/fuzz/native/*.cpp

bench: $(STAMP)  ## speeds on this machine
	$(BIN)/fewbits bench

numbers: $(STAMP)  ## write the measured numbers of README and docs from benchmarks/results
	$(BIN)/python -m benchmarks.rendered --write

docs: $(STAMP)  ## HTML in docs/_build/html, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

golden: $(STAMP)  ## write the golden frames that are missing; never overwrites
	$(BIN)/python tests/golden/regenerate.py

soak: $(STAMP)  ## hours of patience: statistics, sanitizers, fuzzing, planted faults
	$(BIN)/python tests/soak.py

clean:  ## remove everything that make has made
	rm -rf $(VENV) build docs/_build src/fewbits/*.so src/fewbits/*.dylib
