# Every target sets up what it needs in .venv; nothing outside this folder is touched.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
SOURCES := $(shell find src -name '*.py' -o -name '*.pyi') setup.py pyproject.toml
# The same files, interpreted: src comes before the compiled package that .venv holds.
PURE := PYTHONPATH=src
# These start Spark as tests/pipeline does, and so run beside it, in a process of their own.
SPARK_TESTS := tests/bench/test_spark_bench.py tests/cli/test_profile.py
# These wait for each other more than they compute, and so run beside two that compute.
LIVE_TESTS := tests/live tests/cli/test_live.py tests/examples tests/bench/test_peers.py
# The longest first; the last one takes the place of the first that ends.
STREAMS := test-spark test-live test-rest test-pure
# A test that hangs says where, long before anybody loses patience.
PYTEST := $(BIN)/python -m pytest -q -o faulthandler_timeout=300

.PHONY: help
help: ## Explain the targets
	@echo "semcast: make demo to see it work, make test to check it. All targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: preflight
preflight:
	@$(PYTHON) tools/preflight.py

$(VENV)/.deps: constraints.txt pyproject.toml | preflight
	@echo "Setting up $(VENV) (first time: several minutes; Spark alone is 450 MB) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python tools/requirements.py pyproject.toml dev > $(VENV)/requirements.txt
	@$(PIP) install -c constraints.txt -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.deps $(SOURCES)
	@echo "Compiling semcast into $(VENV) ..."
	@rm -rf build
	@$(PIP) install --no-deps --no-build-isolation --force-reinstall .
	@touch $@

.PHONY: setup
setup: $(VENV)/.installed ## Set up .venv and compile

.PHONY: demo
demo: setup ## Show what semcast does, in a minute
	@$(BIN)/semcast demo

.PHONY: test
test: setup ## Run the tests: with Spark, live groups, the rest, and the core interpreted, side by side
	@$(BIN)/python tools/together.py $(STREAMS:%="$(MAKE) --no-print-directory %")

.PHONY: test-core
test-core: test-live test-rest test-pure ## Run the tests without Spark; the core's on both builds, compiled and interpreted

.PHONY: test-spark
test-spark: setup
	@echo "== Spark"
	@$(PYTEST) tests/pipeline $(SPARK_TESTS)

.PHONY: test-live
test-live: setup
	@echo "== live groups, compiled"
	@$(PYTEST) $(LIVE_TESTS)

.PHONY: test-rest
test-rest: setup
	@echo "== everything but Spark and live groups, compiled"
	@$(PYTEST) --ignore=tests/pipeline $(patsubst %,--ignore=%,$(SPARK_TESTS) $(LIVE_TESTS))

.PHONY: test-pure
test-pure: setup
	@echo "== the core, interpreted"
	@$(PURE) $(PYTEST) tests/obsolescence tests/wire tests/protocol tests/sim/test_scheduler.py tests/sim/test_network.py \
		tests/sim/test_faults.py tests/sim/test_host.py tests/test_build.py

.PHONY: check
check: $(VENV)/.deps ## Lint, types, import order
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(PURE) $(BIN)/mypy
	@$(PURE) $(BIN)/lint-imports

.PHONY: coverage
coverage: $(VENV)/.deps ## Branch coverage of the core (interpreted)
	@$(PURE) $(BIN)/python -m pytest -q --cov --cov-report=term-missing:skip-covered

.PHONY: bench
bench: setup ## Time the hot path, the simulator, a group of 64 and stability rounds, each in one run
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.simulator
	@$(BIN)/python -m bench.group
	@$(BIN)/python -m bench.stability

.PHONY: bench-peers
bench-peers: setup ## semcast beside its peers, in .venv-peers; PEERS="--only zmq,semcast" for a part
	@$(BIN)/python -m bench.peers $(PEERS)

.PHONY: bench-loss
bench-loss: setup ## semcast and pyzmq under loss, and with 2 to 16 receivers; needs root; LOSS="--runs 5"
	@$(BIN)/python -m bench.loss $(LOSS)

.PHONY: bench-flood
bench-flood: setup ## A sealed group under floods from without, beside a process that only burns time; FLOOD="--rounds 3"
	@$(BIN)/python -m bench.flood $(FLOOD)

.PHONY: bench-groups
bench-groups: setup ## What it costs to be in 50 groups at once, beside one; MANY="--groups 200"
	@$(BIN)/python -m bench.groups $(MANY)

.PHONY: bench-spark
bench-spark: setup ## Verify, analyse and profile 50 million rows, beside DuckDB; SPARK="--rows 10,50,100"
	@$(BIN)/python -m bench.spark $(SPARK)

.PHONY: proof
proof: setup ## Every run of 4 processes and 4 messages, as far as PROOF_SECONDS (3600) go
	@$(BIN)/semcast sim exhaust --messages 4 --processes 4 --seconds $${PROOF_SECONDS:-3600}

.PHONY: explore
explore: setup ## Random groups under random faults, all checked, for EXPLORE_SECONDS (600)
	@$(BIN)/semcast sim explore --seconds $${EXPLORE_SECONDS:-600} --seed $${EXPLORE_SEED:-1} --workers $$(nproc) \
		$${EXPLORE_STABILITY:+--stability $$EXPLORE_STABILITY}

.PHONY: soak
soak: setup ## Live groups with slow members and restarts, journals checked, for SOAK_SECONDS (1800)
	@$(BIN)/python -m tests.soak_live --seconds $${SOAK_SECONDS:-1800}

.PHONY: fuzz
fuzz: setup ## Fuzz the decoder, then notes, guided by coverage, for FUZZ_SECONDS (60) each
	@$(PIP) install -c constraints.txt atheris
	@$(PURE) $(BIN)/python tests/fuzz_wire.py -max_total_time=$${FUZZ_SECONDS:-60}
	@$(PURE) $(BIN)/python -m tests.fuzz_notes -max_total_time=$${FUZZ_SECONDS:-60}

.PHONY: docs
docs: setup ## Build the documentation into docs/_build/html
	@$(PURE) $(BIN)/python -m sphinx -q -W -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

.PHONY: settings
settings: $(VENV)/.deps ## Write anew what follows from the table of settings
	@$(PURE) $(BIN)/python tools/settings.py

.PHONY: format
format: $(VENV)/.deps ## Format the code
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format -q .

.PHONY: clean
clean: ## Remove everything that the other targets made
	@rm -rf $(VENV) .venv-peers .venv-bench build docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -prune -exec rm -rf {} +
