# demo and the tests need nothing but make and a Python >= 3.12: the first run makes $(VENV).
VENV ?= .venv
PY = $(VENV)/bin/python
NOTEBOOKS = $(wildcard notebooks/*.ipynb)
EXTRAS = dev notebooks benchmarks docs
# A test that ends its process fails the run, which else might wait for that process for ever.
WORKERS = -n 2 --max-worker-restart=0

.PHONY: help demo test test-slow check docs notebooks bench bench-quick release clean

help:
	@echo 'make demo        a first look: labels from noisy raters, combined and judged'
	@echo 'make test        check, then the quick tests (some minutes)'
	@echo 'make test-slow   the long tests: calibration, samplers against each other, notebooks'
	@echo 'make check       formatting, lint and types'
	@echo 'make docs        build the documentation into docs/_build/html and check its links'
	@echo 'make notebooks   run every notebook and keep its outputs'
	@echo 'make bench       run the benchmarks, which takes hours (ARGS=names: these alone)'
	@echo 'make bench-quick every benchmark, smaller (some minutes)'
	@echo 'make release     all that must work before a release (ARGS=--rehearsal to try it earlier)'
	@echo 'make clean       remove $(VENV), builds and caches'
	@echo 'PYTHON=...       the Python to make $(VENV) with (3.12 or newer; found if not given)'

demo: $(VENV)/.plain
	$(PY) -m bayesfuse demo

# The tests of a file stay in one process, in which they share what they fit; of the long ones some files
# take many minutes, so a process that has no more takes tests of the other. Compiling kernels is a large
# part of the time, so these are optimised less, and kept apart from those that users run.
KERNELS = NUMBA_OPT=1 NUMBA_CACHE_DIR="$(CURDIR)/.pytest_cache/kernels"

test: check
	$(KERNELS) $(PY) -m pytest $(WORKERS) --dist loadfile -m 'not slow'

test-slow: $(VENV)/.with-dev
	$(KERNELS) $(PY) -m pytest $(WORKERS) --dist worksteal -m slow

# mypy knows no package-dir mapping, so it is shown a tree of links in which models/ is bayesfuse/models.
check: $(VENV)/.with-dev
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	@rm -rf $(VENV)/types && mkdir -p $(VENV)/types/bayesfuse
	@ln -s "$(CURDIR)"/bayesfuse/* $(VENV)/types/bayesfuse && ln -s "$(CURDIR)/models" $(VENV)/types/bayesfuse
	cd $(VENV)/types && ../bin/python -m mypy --config-file "$(CURDIR)/pyproject.toml" --cache-dir "$(CURDIR)/.mypy_cache" -p bayesfuse

# Pages are made anew, so that none is left of a name that has gone. Notebooks show the outputs they hold.
docs: $(VENV)/.with-docs
	rm -rf docs/_build docs/api docs/notebooks docs/plots
	$(PY) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(PY) docs/check_links.py docs/_build/html

notebooks: $(VENV)/.with-notebooks
	$(VENV)/bin/jupyter-execute --inplace $(NOTEBOOKS)

bench: $(VENV)/.with-benchmarks
	$(PY) benchmarks/run.py $(ARGS)

bench-quick: $(VENV)/.with-dev
	$(PY) benchmarks/run.py --quick

release: $(VENV)/.with-dev
	$(PY) .ci/release.py $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .*_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: each is redone only when pyproject.toml has changed since.
$(VENV)/.made:
	@python=$$(sh .ci/find-python) && echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)
	@touch $@

INSTALL = $(PY) -m pip install --quiet --disable-pip-version-check --editable
FAILED = { echo 'Installing failed, for the reason pip gives above (no network, or no wheel for this Python?).' >&2; exit 1; }

$(VENV)/.plain: pyproject.toml $(VENV)/.made
	@echo 'Installing bayesfuse (minutes the first time)'
	@$(INSTALL) . || $(FAILED)
	@touch $@

$(EXTRAS:%=$(VENV)/.with-%): $(VENV)/.with-%: pyproject.toml $(VENV)/.made
	@echo 'Installing bayesfuse[$*] (minutes the first time)'
	@$(INSTALL) '.[$*]' || $(FAILED)
	@touch $@ $(VENV)/.plain
