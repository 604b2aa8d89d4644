# The commands of this repository; `make help` lists them. Each makes what it needs in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
RUNS ?= runs
# Tests go to as many processes as there are cores, up to four; who has ended takes from the others.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test faults fuzz oldest newest environments tensorboards tensorboard check coverage bench figures soak programs gpu wheels docs site golden dist clean

help: ## List these commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed ## Train the example model, print its report, then the gain of the fix
	$(BIN)/python example_projects/char_lm/demo.py --runs $(RUNS)

tensorboard: $(VENV)/.installed ## Open TensorBoard on the demo's runs (PROFILE tab)
	$(BIN)/tensorboard --logdir $(RUNS)

test: $(VENV)/.installed-dev ## Run every test that this machine can run
	$(PYTEST)

coverage: $(VENV)/.installed-dev ## Run the tests with branch coverage, slower; prints a table, writes htmlcov/
	$(PIP) install -c constraints.txt coverage pytest-cov
	$(PYTEST) --cov --cov-report=html --cov-report=term:skip-covered

fuzz: $(VENV)/.installed-dev ## Read a million damaged files and ask 20,000 times about damaged runs; goes on where it was stopped
	OMP_NUM_THREADS=1 nice $(BIN)/python tests/fuzz/run.py

faults: $(VENV)/.installed-dev ## Train with some 160 planted faults, with and without the callback, in 15 minutes
	FAULTS=all $(PYTEST) tests/faults

define with_lightning
	$(PYTHON) -m venv $(VENV)-$(1)
	$(VENV)-$(1)/bin/python -m pip --disable-pip-version-check --quiet install $(2) -e '.[dev]'
	$(subst $(BIN),$(VENV)-$(1)/bin,$(PYTEST)) tests/callbacks tests/capture tests/recorders \
		tests/timing tests/runtime tests/adapters
endef

oldest: ## Run the callbacks' tests with the oldest supported Lightning
	$(call with_lightning,oldest,-c constraints-oldest.txt)

# The newest torch is that of uv's CPU builds, or the pinned version where uv cannot reach them.
LIGHTNING ?= lightning pytorch-lightning
newest: ## Run the callbacks' tests with the newest torch and Lightning; LIGHTNING=... for another one
	$(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip --disable-pip-version-check --quiet install uv
	$(VENV)-newest/bin/uv pip install --quiet --python $(VENV)-newest/bin/python --torch-backend cpu --upgrade torch || \
		{ echo "CPU builds of torch cannot be reached: the pinned version is used"; \
		$(VENV)-newest/bin/python -m pip --quiet install -c constraints.txt torch; }
	$(VENV)-newest/bin/python -c 'import torch; print("torch", torch.__version__)'
	$(call with_lightning,newest,--upgrade $(LIGHTNING))

ENVIRONMENTS ?=
environments: $(BIN)/python ## Install a wheel into clean environments: MB added, seconds to the first report
	$(BIN)/python benchmarks/clean_environments.py $(ENVIRONMENTS)

tensorboards: $(VENV)/.installed-dev ## Run the tab's tests with each TensorBoard from the oldest supported one on
	$(BIN)/python scripts/tensorboard_versions.py

check: $(VENV)/.installed-dev ## Lint, types, layers, types and tests of the browser modules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd tests/typed && $(abspath $(BIN))/mypy --strict --config-file= --cache-dir=$(CURDIR)/.mypy_cache public_api.py
	@if command -v npx >/dev/null 2>&1; then npx --yes -p typescript@5.9.3 tsc -p tsconfig.json; \
	else echo "npx not found: the browser modules' types were not checked"; fi
	@if command -v npx >/dev/null 2>&1; then npx --yes -p pyright@1.1.414 pyright -p tests/typed --pythonpath $(BIN)/python; \
	else echo "npx not found: pyright did not read the public names"; fi
	@if command -v node >/dev/null 2>&1; then node --test tests/tab_modules; \
	else echo "node not found: the browser modules were not tested"; fi

bench: $(VENV)/.installed-dev ## Measure overhead, trace speed and the tab; writes benchmarks/results
	$(BIN)/python benchmarks/run.py

figures: $(VENV)/.installed-dev ## Print sizes, rules, default parts and import times
	$(BIN)/python benchmarks/figures.py

soak: $(VENV)/.installed-dev ## Train 200,000 steps and say what grew
	$(BIN)/python benchmarks/soak.py

programs: $(VENV)/.installed-dev ## Train programs of other packages with and without the callback
	$(BIN)/python benchmarks/programs/run.py

PARTS ?=
gpu: ## On a CUDA or ROCm machine: GPU tests and benchmarks with the Python at hand, in 8 minutes; PARTS=examples or PARTS=try
	$(PYTHON) benchmarks/gpu.py $(PARTS)

# For the machine with the GPU: make wheels GPU_PYTHON=3.11
GPU_PYTHON ?= 3.12
PLATFORMS := $(foreach n,17 27 28 34,--platform manylinux_2_$(n)_x86_64) --platform manylinux2014_x86_64
wheels: ## Fetch into wheels/ what `make gpu` may lack on a machine without a network
	for name in msgspec pyyaml isal nvidia-ml-py pytest iniconfig packaging pluggy pygments; do \
	$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --python-version $(GPU_PYTHON) \
	--implementation cp $(PLATFORMS) -d wheels $$name; done

docs: $(VENV)/.installed-dev ## Rewrite the generated pages in docs/
	$(BIN)/python docs/tools/generate.py

site: $(BIN)/python ## Build the documentation into site/; a broken link is an error
	$(PIP) install -c constraints.txt mkdocs mkdocs-material
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean

golden: $(VENV)/.installed-dev ## Rewrite tests/golden; read the change as a diff
	GOLDEN=write $(BIN)/python -m pytest tests/report/test_golden.py

dist: $(BIN)/python ## Build wheel and sdist into dist/, and check both
	rm -rf dist
	$(PIP) install build twine check-wheel-contents
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

clean: ## Remove .venv, caches and the demo's runs
	rm -rf dist site htmlcov $(VENV) $(VENV)-oldest $(VENV)-newest $(RUNS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
