# The commands of the project; CI calls the same ones. Each sets up what it needs, in .venv.
#
#   make run       serve on localhost:9092 (ARGS="--port 0 --brokers 3 ...")
#   make test      the whole test suite (ARGS="-k kips ...")
#   make check     formatting, lint, types, layers
#   make bench     benchmarks side by side with their peers (ARGS="...")
#   make oracle    play the scenarios against a real Kafka as well, and compare
#   make clean     remove what the above have made

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SCHEMAS := $(shell find protocol_schemas -name '*.json')
GENERATOR := $(wildcard broker/odradek/wire/*.py)
GENERATED := broker/odradek/wire/messages/__init__.py

.DEFAULT_GOAL := run
.PHONY: run test check format bench oracle clean

run: $(VENV)/installed $(GENERATED)
	@exec $(BIN)/odradek serve $(ARGS)

test: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/python -m pytest -q $(ARGS)

check: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/ruff format --check broker tests bench
	$(BIN)/ruff check broker tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed-dev
	$(BIN)/ruff format broker tests bench
	$(BIN)/ruff check --fix broker tests bench

bench: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/python -m bench $(ARGS)

oracle: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/python -m tests.oracle compare $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Odradek needs Python 3.11 or newer.") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python requirements/run.txt pyproject.toml
	@echo "Setting up $(VENV) ..."
	@$(PIP) install --requirement requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements/dev.txt
	@echo "Setting up $(VENV) for the tests ..."
	@$(PIP) install --requirement requirements/dev.txt
	@touch $@

# The codecs are built from the schemas, at installation and whenever a schema or the generator has changed.
$(GENERATED): $(SCHEMAS) $(GENERATOR) $(VENV)/installed
	@$(BIN)/python -m odradek.wire.generate
	@touch $@

clean:
	rm -rf $(VENV) broker/odradek/wire/messages build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
