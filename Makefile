# Works from a fresh clone and needs Python 3.11 or newer, make and a package index.
# `make demo PYTHON=python3.12` says which Python.

PYTHON ?= python3
VENV ?= .venv

python = $(VENV)/bin/python
install = $(python) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests that need no extra.
FAST = not tables and not torch and not learning and not browser and not notebook and not site and not packages and not distributed and not lab

.PHONY: demo test audit fuzz test-tables test-torch test-learning test-browser test-notebook test-docs test-distributed test-packages test-lab test-all check reference docs bench validation residuals coverage lab clean

demo: $(VENV)/.installed
	$(VENV)/bin/clustersim run llama-h100

test: check
	$(python) -m pytest -n auto -m "$(FAST)"

check: $(VENV)/.installed-test
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy tools
	$(VENV)/bin/lint-imports

test-tables: $(VENV)/.installed-tables
	$(python) -m pytest -m tables tests

test-torch: $(VENV)/.installed-torch
	$(python) -m pytest -m torch tests

test-learning: $(VENV)/.installed-learning
	$(python) -m pytest -m learning tests

test-browser: $(VENV)/.installed-browser
	$(python) -m pytest -m browser tests

test-notebook: $(VENV)/.installed-notebook
	$(python) -m pytest -m notebook tests/notebook tests/test_docs.py

# The site in site/, from docs/ and mkdocs.yml: every warning, such as a link that leads nowhere, is an error.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict
	@echo "open site/index.html"

test-docs: $(VENV)/.installed-docs
	$(python) -m pytest -m site tests/site

# Real Dask, SLURM (needs root and slurm-wlm) and MPI (needs openmpi-bin); the summary says what could not be tested.
test-distributed: $(VENV)/.installed-distributed
	$(python) -m pytest -rs -m distributed tests/distributed

# The wheel, the image and the conda package. The image needs root, buildah and mmdebstrap, or the summary says why not.
test-packages: $(VENV)/.installed-packages
	$(python) -m pytest -rs -n 2 --dist loadfile -m packages tests/packages

# Unsafe calls in our code, and known vulnerabilities of what constraints.txt pins.
audit: $(VENV)/.installed-packages
	$(VENV)/bin/bandit --quiet --recursive clustersim --configfile pyproject.toml
	$(python) tools/audit.py

# A real cluster of network namespaces, for two minutes; says why where the kernel does not let it.
test-lab: $(VENV)/.installed-learning
	$(python) -m pytest -rs -m lab tests/lab

# The random tests draw the same cases every time; here they draw others, FUZZ times over.
FUZZ ?= 3
fuzz: $(VENV)/.installed-test
	for round in $$(seq $(FUZZ)); do CLUSTERSIM_FUZZ=1 $(python) -m pytest -n auto -m "$(FAST)" \
	    $$(grep -rl --include='test_*.py' '@given' tests) || exit 1; done

test-all: test test-tables test-torch test-learning test-browser test-notebook test-docs test-distributed test-packages test-lab

reference: $(VENV)/.installed-test
	$(python) docs/generate.py
	$(VENV)/bin/clustersim schema > scenarios/scenario.schema.json

# Reruns every published case and the register: docs/validation.md, what bands are made from, and how often they hold.
validation: $(VENV)/.installed-test
	$(VENV)/bin/clustersim validate --anchored --markdown docs/validation.md --bands clustersim/results/bands.json --coverage docs/coverage.md
	$(VENV)/bin/clustersim register score --markdown docs/register.md

# How often bands hold, from the shipped data: docs/coverage.md.
coverage: $(VENV)/.installed-test
	$(VENV)/bin/clustersim validate --coverage docs/coverage.md

# The part of docs/validation.md on kernels, collectives and the host, from measurements that are not shipped:
# TABLES=.../aiconfigurator_core/systems/data HOST=.../single_host_half.csv. Then `make validation`.
residuals: $(VENV)/.installed-test
	$(python) tools/residuals.py --tables $(TABLES) --host $(HOST)

# A real cluster on this machine against the simulator, in five minutes. LAB="--quick", LAB="--only Flows",
# LAB="--learning" for real trainings of a task: see docs/how-to/run-the-lab.md.
lab: $(VENV)/.installed-learning
	$(python) -m validate.lab $(LAB)

# BENCH="--quick", BENCH="--only jitter --rounds 3": see docs/benchmarks.md.
bench: $(VENV)/.installed-test
	$(python) -m tests.benchmarks $(BENCH)

clean:
	rm -rf $(VENV) build dist runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("clustersim needs Python 3.11 or newer: make PYTHON=python3.12" \
	    if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(install) --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(install) --editable '.[test]'
	@touch $@

$(VENV)/.installed-tables: $(VENV)/.installed-test
	$(install) --editable '.[test,kernels]'
	@touch $@

$(VENV)/.installed-learning: $(VENV)/.installed-test
	$(install) --editable '.[test,learning]'
	@touch $@

$(VENV)/.installed-torch: $(VENV)/.installed-test
	$(install) --editable '.[test,torch,transformers]'
	@touch $@

$(VENV)/.installed-browser: $(VENV)/.installed-test
	$(install) --editable '.[test,browser,serve]'
	@touch $@

$(VENV)/.installed-notebook: $(VENV)/.installed-test
	$(install) --editable '.[test,notebook]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-test
	$(install) --editable '.[test,docs]'
	@touch $@

$(VENV)/.installed-distributed: $(VENV)/.installed-test
	$(install) --editable '.[test,distributed,mpi]'
	@touch $@

$(VENV)/.installed-packages: $(VENV)/.installed-test
	$(install) --editable '.[test,packages]'
	@touch $@
