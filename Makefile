# The commands of the project; CI calls the same ones. Each sets up what it needs, in .venv.
#
#   make run       serve on localhost:9092 (ARGS="--port 0 --brokers 3 ...")
#   make demo      transactions, crashes and a verdict, live (ARGS="--seconds 60 ...")
#   make test      all tests but the pipeline's: first the broker's own, in parallel, then those with real clients (ARGS="-k kips ...")
#   make test-nightly  the core's tests in random order, with new examples and more of them (see docs/contributing.md)
#   make chromium  installs Debian's Chromium for the tests of the page, where root may (make test does so, too)
#   make sim-mutants  looks for single changes of the broker with the simulator (ARGS="--seeds 100 'a guard'")
#   make sim-nightly  2,000 seeds of the simulator, every workload (ARGS="--seed 5000")
#   make check     formatting, lint, types, layers, and what types do not hold (tests/untyped.py)
#   make format    put the formatting right
#   make bench     benchmarks side by side with their peers (ARGS="...")
#   make matrix    real clients of every family against every kind of broker; writes docs/compatibility.md (ARGS="...")
#   make matrix-full  all releases of all families: about 20 minutes on two cores
#   make conform   report cards of client libraries and brokers; writes docs/conformance.md (ARGS="java@4.4.0 brokers")
#   make kafka-tests  the Kafka project's own tests; writes docs/kafka-tests.md (ARGS="--all", see there)
#   make oracle    play the scenarios against a real Kafka as well, and compare
#   make swap      a real Kafka and Odradek take turns on one data directory (ARGS="-k ..."; ODRADEK_SWAP=small)
#   make pipeline-test  the tests of the data pipeline, several at once (Spark; ARGS="-n 0 -k scan ...")
#   make pipeline-nightly  the same with more examples, HDFS, and 201 copies of running brokers, none of which may be bad
#   make pipeline-jars  the jars of Spark's Kafka connector, for odradek copy
#   make bench-audit    the audit of logs from 1 to 10 GB, on one and two executors (see bench/README.md)
#   make audit-demo     KIP-890 in one picture: audits of a late produce, at level 0 and at level 2
#   make pictures  draw the pictures of README and docs anew
#   make lessons   record the plays of the stories anew (docs/stories/README.md)
#   make image-test  builds the image with Buildah and tries it (Debian's packages; as root)
#   make dist      wheel and sdist, in dist/
#   make release   all that a release consists of, in dist/, and its notes (TAG=v0.1.0: refuses another version)
#   make clean     remove what the above have made in this folder, and say what they have left elsewhere

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SCHEMAS := $(shell find protocol_schemas -name '*.json')
GENERATOR := $(wildcard broker/odradek/wire/*.py)
GENERATED := broker/odradek/wire/messages/__init__.py

.DEFAULT_GOAL := run
.PHONY: run pictures lessons demo dist test chromium test-nightly sim-mutants sim-nightly check format bench bench-audit matrix matrix-full conform kafka-tests oracle swap pipeline-test pipeline-nightly pipeline-jars audit-demo image-test release clean

run: $(VENV)/installed $(GENERATED)
	@exec $(BIN)/odradek serve $(ARGS)

demo: $(VENV)/installed-demo $(GENERATED)
	@exec $(BIN)/odradek demo $(ARGS)

# Needs no .venv: Debian's packages (they are installed) and the Python that is there.
MIRROR ?= http://deb.debian.org/debian

image-test:
	@PYTHONPATH=broker PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m tests.packaging.image_for_real build $(MIRROR)

DIST := dist

dist: $(VENV)/installed-build
	@rm -f $(DIST)/odradek-*
	$(BIN)/python -m build --no-isolation --outdir $(DIST) .

TAG ?=

release: dist
	@$(PYTHON) -m tests.packaging.release $(DIST) $(TAG)

test: $(VENV)/installed-dev $(GENERATED) chromium
	@$(BIN)/python -m tests -q $(ARGS)

# Without a browser its tests are skipped, except where CI=true; so what fails here is only told.
chromium:
	@if ! { command -v chromium || command -v google-chrome; } >/dev/null && test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "Installing chromium for tests/page ..."; \
		{ apt-get -o Acquire::Retries=3 update -qq && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 install -qq --yes --no-install-recommends chromium >/dev/null; } \
			|| echo "chromium could not be installed: tests/page are skipped."; \
	fi

# Not quiet: the seed of the order stands in the heading.
test-nightly: $(VENV)/installed-dev $(GENERATED)
	ODRADEK_HYPOTHESIS=nightly $(BIN)/python -m pytest --random-order $(addprefix tests/,unit kips fuzz sim net oracle) $(ARGS)

sim-mutants: $(VENV)/installed-dev $(GENERATED)
	@$(BIN)/python -m tests.sim.mutants $(ARGS)

sim-nightly: $(VENV)/installed-dev $(GENERATED)
	@$(BIN)/odradek sim --runs 2000 --workload all --jobs 2 --out build/sim $(ARGS)

check: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/ruff format --check broker pipeline tests bench
	$(BIN)/ruff check broker pipeline tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.untyped

format: $(VENV)/installed-dev
	$(BIN)/ruff format broker pipeline tests bench
	$(BIN)/ruff check --fix broker pipeline tests bench

bench: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/python -m bench $(ARGS)

matrix matrix-full: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/python -m tests.clients.matrix $(if $(findstring full,$@),--full) $(ARGS)

conform: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/python -m tests.conform.cards $(ARGS)

kafka-tests: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/python -m tests.kafka $(ARGS)

lessons: $(VENV)/installed-dev $(GENERATED)
	@$(BIN)/python -m tests.lessons.record

oracle: $(VENV)/installed-dev $(GENERATED)
	$(BIN)/python -m tests.oracle compare $(ARGS)

swap: $(VENV)/installed-dev $(GENERATED)
	ODRADEK_SWAP=$${ODRADEK_SWAP:-all} $(BIN)/pytest -q -n0 tests/swap $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Odradek needs Python 3.11 or newer.") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python requirements/run.txt pyproject.toml
	@echo "Setting up $(VENV) ..."
	@$(PIP) install --requirement requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/installed-%: $(VENV)/installed requirements/%.txt
	@echo "Adding requirements/$*.txt to $(VENV) ..."
	@$(PIP) install --requirement requirements/$*.txt
	@touch $@

# The codecs are built from the schemas, at installation and whenever a schema or the generator has changed.
$(GENERATED): $(SCHEMAS) $(GENERATOR) $(VENV)/installed
	@$(BIN)/python -m odradek.wire.generate
	@touch $@

# The data pipeline has an environment of its own: Spark is about 1 GB, and nothing else needs it.
PIPELINE := .venv-pipeline
# KAFKA_CLIENTS=4.4.0 puts another Java client below the connector than the one it was made with.
KAFKA_CLIENTS ?=
PIPELINE_JARS_FOLDER := pipeline/jars/target/jars$(addprefix -,$(KAFKA_CLIENTS))
PIPELINE_JARS := $(PIPELINE_JARS_FOLDER)/installed

pipeline-test: $(PIPELINE)/installed $(PIPELINE_JARS) $(GENERATED)
	$(PIPELINE)/bin/mypy --follow-imports silent pipeline/odradek_pipeline $(shell find tests/pipeline bench/audit_scale -name '*.py') tests/oracle/answers.py
	ODRADEK_PIPELINE_TESTS=1 ODRADEK_PIPELINE_JARS=$(abspath $(PIPELINE_JARS_FOLDER)) $(PIPELINE)/bin/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal tests/pipeline $(ARGS)

# Every cut of a real broker's logs, ten times as many drawn histories, HDFS; and 201 copies of brokers that run.
pipeline-nightly: $(PIPELINE)/installed $(PIPELINE_JARS) $(GENERATED)
	ODRADEK_HYPOTHESIS=nightly ODRADEK_PIPELINE_TESTS=1 ODRADEK_PIPELINE_JARS=$(abspath $(PIPELINE_JARS_FOLDER)) $(PIPELINE)/bin/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal tests/pipeline $(ARGS)
	$(PIPELINE)/bin/python -m tests.pipeline.record_running --copies 67

bench-audit: $(PIPELINE)/installed $(GENERATED)
	$(PIPELINE)/bin/python -m bench.audit_scale $(ARGS)

# Those of transactions and of the page come from simulated clusters and a hub, those of the audit from its demo.
pictures: $(VENV)/installed-dev $(PIPELINE)/installed $(GENERATED)
	@$(BIN)/python -m tests.pictures
	@$(PIPELINE)/bin/python -m odradek_pipeline.demo --out build/audit-demo --pictures docs/pictures

audit-demo: $(PIPELINE)/installed $(GENERATED)
	$(PIPELINE)/bin/python -m odradek_pipeline.demo --out build/audit-demo $(ARGS)

pipeline-jars: $(PIPELINE_JARS)

$(PIPELINE)/installed: requirements/pipeline.txt requirements/run.txt pyproject.toml
	@echo "Setting up $(PIPELINE) (Spark: about 1 GB) ..."
	@test -x $(PIPELINE)/bin/python || $(PYTHON) -m venv $(PIPELINE)
	@$(PIPELINE)/bin/python -m pip --disable-pip-version-check --quiet install --requirement requirements/pipeline.txt
	@$(PIPELINE)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

# The four jars of Spark's Kafka connector; after the first time neither Maven nor a network is needed.
$(PIPELINE_JARS): pipeline/jars/pom.xml
	@mvn -q -B -f pipeline/jars/pom.xml dependency:copy -Djars.directory=$(abspath $(PIPELINE_JARS_FOLDER)) \
		$(addprefix -Dkafka.version=,$(KAFKA_CLIENTS))
	@touch $@

# Where tests/clients/toolchain.py keeps what it builds.
CLIENTS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/odradek-clients

clean:
	rm -rf $(VENV) .venv-pipeline pipeline/jars/target broker/odradek/wire/messages build conform-failures dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .grimp_cache .import_linter_cache
	@echo "Left, because other work may use them:"
	@echo "  $(CLIENTS)  client programs, Java and Node libraries, Python environments (XDG_CACHE_HOME)"
	@echo "  ~/.m2/repository  what Maven has fetched"
	@echo "  ~/go/pkg/mod, ~/.cache/go-build  Go's modules and objects (go clean -modcache -cache)"
	@echo "  ~/.npm, ~/.cargo/registry, ~/.cache/pip  what npm, Cargo and pip have fetched"
