# The first Python of at least 3.11 that has venv; `make PYTHON=…` names another.
PYTHON = $(shell for python in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	$$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV = .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install -qq --disable-pip-version-check
INSTALLED = $(VENV)/.installed
NOTEBOOKS = $(VENV)/.notebooks
# One process a processor; tests of a file stay together, since they share what they read.
PARALLEL = -n auto --dist loadfile
# The releases of the harness that tests/e2e/harness.py drives, each in an environment of its own.
HARNESSES = $(patsubst %,$(VENV)/dsh-%/bin/dsh,0.1.5rc1 0.2.1rc2)

.DEFAULT_GOAL = help
.PHONY: help demo test e2e check format docs bench faults fuzz notebook clean

help: ## list these targets
	@sed -n 's/^\([a-z0-9]*\):.* ## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name about; do \
		printf '  make %-10s %s\n' "$$name" "$$about"; done

demo: $(INSTALLED) ## build the sample into data/demo and report on it
	@$(BIN)/turnlake build data/sample --lake data/demo
	@$(BIN)/turnlake report --by model --lake data/demo

test: $(INSTALLED) ## run all tests; ARGS="-k cli" picks some
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

e2e: $(INSTALLED) $(HARNESSES) ## run the real harness beside turnlake; ARGS="--follow" follows it
	@$(BIN)/python -m pytest tests/e2e/scenarios.py $(ARGS)

check: $(INSTALLED) ## all that a commit has to pass: format, lint, types, docs, tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python -m turnlake.docs --check
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

format: $(INSTALLED) ## format the code and fix what the linter can
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

docs: $(INSTALLED) ## write the generated pages and the outputs shown in README.md
	@$(BIN)/python -m turnlake.docs

bench: $(INSTALLED) ## measure CPU, wall time and memory; ARGS go to benchmarks/run.py
	@$(BIN)/python benchmarks/run.py $(ARGS)
	@$(BIN)/python benchmarks/incremental.py

faults: $(INSTALLED) ## kill builds, fill disks, spoil lakes, a hundred times each; ARGS="-k disk" picks some
	@TURNLAKE_FAULTS=$${TURNLAKE_FAULTS:-100} TURNLAKE_KILLS=100 $(BIN)/python -m pytest $(PARALLEL) tests/test_faults.py tests/test_kill.py $(ARGS)

fuzz: $(INSTALLED) ## look for inputs that break a property; ARGS="rows --minutes 1"
	@cd tests && $(CURDIR)/$(BIN)/python -m fuzz $(ARGS)

notebook: $(NOTEBOOKS) ## open the notebooks on $$TURNLAKE_LAKE, else on data/demo
	@test -n "$$TURNLAKE_LAKE" || $(BIN)/turnlake build data/sample --lake data/demo -q
	@TURNLAKE_LAKE="$${TURNLAKE_LAKE:-$(CURDIR)/data/demo}" $(BIN)/jupyter lab notebooks

# The lake stays: it may hold what is left of logs deleted since.
clean: ## remove the environment and all caches, but not data/lake
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find pipeline tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo 'turnlake needs Python 3.11 or newer with venv; name it with: make PYTHON=…' >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml | $(BIN)/python
	@echo 'installing into $(VENV)' >&2
	@$(PIP) --editable '.[dev]'
	@touch $@

$(NOTEBOOKS): $(INSTALLED)
	@$(PIP) --editable '.[dev,notebooks]'
	@touch $@

$(VENV)/dsh-%/bin/dsh: | $(BIN)/python
	@echo 'installing dsh $* into $(VENV)/dsh-$*' >&2
	@$(BIN)/python -m venv $(VENV)/dsh-$*
	@$(VENV)/dsh-$*/bin/python -m pip install -qq --disable-pip-version-check deepseek-harness-runtime-bin==$*
