# Everything a developer or an operator starts from a checkout. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# the longest tests take turns: after each commit, another part of them runs
TURN ?= $(shell git rev-list --count HEAD 2>/dev/null)
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

# uv takes a third of pip's time; pip knows mirrors that only its own configuration names
define install
	UV_HTTP_TIMEOUT=180 $(BIN)/uv pip install --python $(BIN)/python --require-hashes --requirement $(1) $(2) \
		|| $(BIN)/pip install --disable-pip-version-check --require-hashes --requirement $(1)
endef

.PHONY: venv
venv: $(VENV)/.complete $(VENV)/.classes ## install everything into .venv (Python 3.11+ is all it needs)

.PHONY: runtime
runtime: $(VENV)/.runtime $(VENV)/.classes ## install what the product and the demo need, without the developers' tools

$(VENV)/.runtime: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"txnscope needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]} (choose another: make PYTHON=python3.12 …)")'
	@echo "installing into $(VENV) (the first time downloads about 600 MB, most of it Spark) …"
	$(PYTHON) -m venv $(VENV)
	@awk '/^uv==/,!/\\$$/' requirements.lock >$(VENV)/uv.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/uv.txt
	@$(BIN)/python deploy/compose/role_requirements.py service spark java notify canary mcp otlp demo postgresql >$(VENV)/runtime.txt
	@$(BIN)/python deploy/compose/role_requirements.py --group build >$(VENV)/build.txt
	$(call install,$(VENV)/runtime.txt)
	$(call install,$(VENV)/build.txt)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.complete: $(VENV)/.runtime
	@echo "installing the developers' tools (the first time downloads about 150 MB) …"
	$(call install,requirements.lock,--compile-bytecode)
	@touch $@

$(VENV)/.classes: $(VENV)/.runtime
	@echo "archiving the classes that Spark loads, for faster starts (half a minute) …"
	@$(BIN)/python -m spark_jobs.runtime.rehearsal >$(VENV)/rehearsal.log 2>&1 && grep archived $(VENV)/rehearsal.log || cat $(VENV)/rehearsal.log
	@touch $@

.PHONY: system-packages
system-packages: ## what the tests need beside Python: PostgreSQL, Prometheus, Alertmanager, Chromium; by apt-get where they are not there
	@deploy/system-packages.sh

.PHONY: chart-tools
chart-tools: venv ## Helm and kube-score for the tests of the chart: built by Go into ~/.cache/txnscope, once, in some five minutes
	@$(BIN)/python -m tests.helpers.go_tools

.PHONY: chart-server
chart-server: venv ## installs, upgrades, rolls back and removes the chart on a real API server of Kubernetes, which Go builds once, in some minutes (needs etcd)
	@deploy/system-packages.sh etcd
	$(BIN)/pytest tests/deploy/helm/on_api_server.py

.PHONY: chart
chart: venv ## the Helm chart as a package in dist/
	@$(BIN)/python -m deploy.helm --package dist

.PHONY: demo
demo: $(VENV)/.runtime ## a broker, a workload, the application and its page; Ctrl-C stops all (PORT, KAFKA_PORT, KAFKA_VERSION, DEMO_SECONDS)
	@$(MAKE) --no-print-directory --jobs 2 demo-broker $(VENV)/.classes
	@$(BIN)/python -m deploy.demo

.PHONY: demo-full
demo-full: $(VENV)/.runtime ## the same with Prometheus, the alert rules and Alertmanager; alerts are printed (PROMETHEUS_PORT, ALERTMANAGER_PORT)
	@$(MAKE) --no-print-directory --jobs 2 demo-broker $(VENV)/.classes FULL=--full
	@$(BIN)/python -m deploy.demo --full

# beside the archive of Spark's classes: one waits for the network, the other for the processor
.PHONY: demo-broker
demo-broker:
	@$(BIN)/python -m deploy.demo --fetch $(FULL)

.PHONY: test
# or each of the hundreds of processes that tests start compiles the product again
test: export PYTHONDONTWRITEBYTECODE :=
test: export TXNSCOPE_TEST_TURN := $(filter-out all,$(TURN))
test: venv system-packages chart-tools ## the test suite, real brokers and a real PostgreSQL included; the longest tests take turns from commit to commit (TURN=all: all of them)
	$(BIN)/pytest -m "not alone" --numprocesses 4 --dist loadfile --no-loadscope-reorder --durations 30 --durations-min 5
	$(BIN)/pytest -m alone --durations 30 --durations-min 5 tests/integration || [ $$? -eq 5 ]  # 5: none of them has its turn

.PHONY: matrix
matrix: venv ## what `make test` runs on one Kafka version each (truth, causes, hanging, survival), on every one from 3.3 to 4.4; renews docs/compatibility.md (VERSIONS, WORKERS)
	$(BIN)/python -m tests.matrix $(if $(VERSIONS),--versions $(VERSIONS)) $(if $(WORKERS),--workers $(WORKERS))

.PHONY: check
check: venv ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: format
format: venv ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: venv ## the benchmarks, with ratios; about an hour
	$(BIN)/python -m tests.benchmarks

.PHONY: boards
boards: venv ## the demo with Prometheus: asks every query of the dashboards, and draws docs/boards; five minutes
	$(BIN)/python -m tests.dashboards.pictures

.PHONY: docs
docs: venv ## the documentation as a static site, dist/docs/site, and the man page, dist/docs/man; broken links fail
	@$(BIN)/python -m deploy.site

.PHONY: install-pages
install-pages: venv ## the commands of docs/install/checkout.md and pipx.md, on empty machines (containers) and a real broker; five minutes (needs root, podman, runc, mmdebstrap)
	@deploy/system-packages.sh images
	$(BIN)/pytest tests/install/installed_pages.py --capture no

.PHONY: fuzz
fuzz: venv ## 1,000,000 mutated inputs to the decoders and the fold; about ten minutes (INPUTS, SEED)
	$(BIN)/python -m tests.fuzz --inputs $(or $(INPUTS),1000000) --seed $(or $(SEED),1)

.PHONY: fuzz-http
fuzz-http: venv ## 100,000 mutated requests to the service; about ten minutes (REQUESTS, SEED)
	$(BIN)/python -m tests.fuzz.http --requests $(or $(REQUESTS),100000) --seed $(or $(SEED),1)

.PHONY: worlds
worlds: venv ## 200,000 drawn histories of transactions: no wrong marker, no wrong certain cause; about half an hour (HISTORIES, SEED)
	$(BIN)/python -m tests.worlds --histories $(or $(HISTORIES),200000) --causes $(or $(HISTORIES),200000) --first-seed $(or $(SEED),0)

.PHONY: soak
soak: venv ## brokers that freeze, die and restart amid load (half an hour: MINUTES, HANGS); then our own processes, two hours
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30) --hangs $(or $(HANGS),20)
	$(BIN)/python -m tests.soak --minutes 8 --hangs 8 --version 3.9.2 --roll-to 4.3.1
	$(BIN)/python -m tests.harm --report docs/killed-and-frozen.md

.PHONY: upgrade
upgrade: venv system-packages ## job, services and brokers are upgraded under load, rolled back, and upgraded again; a quarter of an hour and more (FROM=REVISION, MINUTES, PAUSE between transactions, ADDS=1: a made-up migration)
	$(BIN)/python -m tests.upgrade $(if $(FROM),--from $(FROM)) --minutes $(or $(MINUTES),15) $(if $(PAUSE),--pause $(PAUSE)) $(if $(ADDS),--adds)

.PHONY: sbom
sbom: venv ## what is installed in .venv, as a CycloneDX document: sbom.cdx.json
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON --output-file sbom.cdx.json $(BIN)/python

.PHONY: release
release: venv ## VERSION=1.0.0 make release: checks, changelog, wheel and sdist with equal hashes twice, SBOM, checksums, a tag; pushes nothing
	@$(BIN)/python -m deploy.release

.PHONY: images
images: venv ## build both container images, run them beside a broker, and say how large they are; ten minutes (needs root, podman, runc, and mmdebstrap where no registry is reached)
	@deploy/system-packages.sh images
	$(BIN)/pytest tests/images/built_images.py --capture no -p no:randomly

.PHONY: release-image
release-image: # of `make release`, whose tree has no venv: both images as localhost/txnscope-…:VERSION, and their content in DIST
	@deploy/system-packages.sh images
	@$(BIN)/python -m deploy.compose.images

.PHONY: release-chart
release-chart: # of `make release`: the Helm chart as a package in DIST
	@$(BIN)/python -m deploy.helm --package "$$DIST"

.PHONY: release-docs
release-docs: # of `make release`: the site and the man page as an archive in DIST
	@$(BIN)/python -m deploy.site --out docs-made --archive "$$DIST/txnscope-docs-$$VERSION.tar.gz"

.PHONY: audit
audit: venv ## packages of requirements.lock with known vulnerabilities; says so if the package index knows none
	@$(BIN)/python -m deploy.vulnerabilities

.PHONY: lock
lock: venv ## bring requirements.lock up to date with pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --group build --universal --generate-hashes --no-header \
	  --no-emit-index-url --quiet --output-file requirements.lock
