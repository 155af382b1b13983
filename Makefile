# Everything runs in .venv, made and filled on first use. `make demo` and `make test` need
# only Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
BENCH := .venv-bench

.PHONY: demo test test-fast coverage lint bench docs browser screenshot clean

demo: $(VENV)/.core
	$(BIN)/focalibrate demo --force

test: $(VENV)/.dev browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Takes about twice as long as the tests alone.
coverage: $(VENV)/.dev browser
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered

# For the edit loop: what is not marked slow, without coverage and browser.
test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow' --ignore=tests/browser

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The page is tested in a real browser, where there is one or root can install it.
browser:
	@command -v chromium >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || echo "No Chromium and no way to install it: the browser tests will be skipped."

# The picture of the report in the README, from the page of its first command.
screenshot: $(VENV)/.dev browser
	cd frontend && npm ci --no-progress --silent
	$(BIN)/python -m tests.browser.screenshot

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is in build/docs; see it with: python3 -m http.server -d build/docs"

bench: $(BENCH)/.peers
	$(BENCH)/bin/python -m benchmarks

clean:
	rm -rf $(VENV) $(BENCH) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage* dist build

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else f"focalibrate needs Python 3.11 or newer, found {v}. Try: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing focalibrate into $(VENV) (once) ..."
	@$(PIP) -e .
	@touch $@

# torch goes first and pinned: any other package that asks for it would fetch the CUDA build.
$(VENV)/.dev: $(VENV)/.core papers/pyproject.toml
	@echo "Installing the test tools into $(VENV) (once, a few minutes) ..."
	@$(PIP) torch==2.13.0
	@$(PIP) -e '.[dev]' -e ./papers
	@touch $@

$(BENCH)/.peers: pyproject.toml constraints.txt benchmarks/peers.txt
	@echo "Installing the peers into $(BENCH) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(BENCH)/bin/pip install --quiet --disable-pip-version-check -e . -e ./papers -r benchmarks/peers.txt
# A peer asks for torchvision, whose wheel is for CUDA and breaks torchmetrics beside CPU torch.
# Nothing here uses it.
	@$(BENCH)/bin/pip uninstall --quiet --yes torchvision
	@touch $@
