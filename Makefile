# Every target sets up what it needs in .venv; nothing outside this folder is touched.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python tools/install.py
SOURCES := $(shell find src -name '*.py' -o -name '*.pyi') setup.py pyproject.toml
# The same files, interpreted: src comes before the compiled package that .venv holds.
PURE := PYTHONPATH=src
# These start Spark too, each of them more than once or for long, and mostly wait for it: they run
# beside the rest of tests/pipeline, with sessions of their own.
JOBS_TESTS := $(wildcard $(addprefix tests/pipeline/test_,cluster.py connect.py demo.py plan.py session.py stream*.py sweep*.py)) \
	tests/bench/test_spark_bench.py tests/cli/test_profile.py
# These wait for each other more than they compute, and so run beside two that compute.
LIVE_TESTS := tests/live tests/cli/test_live.py tests/examples tests/bench/test_peers.py
# The longest first; the last ones take the place of those that end first.
STREAMS := test-spark test-jobs test-live test-rest test-pure
# A test that hangs says where, long before anybody loses patience.
PYTEST := $(BIN)/python -m pytest -q -o faulthandler_timeout=300
# On real clocks and sockets: what fails there runs once more, by itself, and is named.
PYTEST_TWICE := $(BIN)/python tools/twice.py -q -o faulthandler_timeout=300

.PHONY: help
help: ## Explain the targets
	@echo "semcast: make demo to see it work, make test to check it. All targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: preflight
preflight:
	@$(PYTHON) tools/preflight.py

# What the demo needs and no more: the command line, Spark, and what compiles the package.
$(VENV)/.deps: constraints.txt pyproject.toml tools/requirements.py | preflight
	@echo "Setting up, 1 of 3: an empty $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python tools/requirements.py pyproject.toml spark build > $(VENV)/requirements.txt
	@$(INSTALL) "Setting up, 2 of 3: what semcast needs, a few minutes; Spark alone is 450 MB" \
		-c constraints.txt -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.deps $(SOURCES)
	@rm -rf build
	@$(INSTALL) "Setting up, 3 of 3: semcast itself is compiled, up to ten minutes" \
		--no-deps --no-build-isolation --force-reinstall .
	@touch $@

# The rest: tests, linters, docs.
$(VENV)/.dev: $(VENV)/.deps
	@$(BIN)/python tools/requirements.py pyproject.toml dev > $(VENV)/requirements-dev.txt
	@$(INSTALL) "Setting up tools for tests, checks and docs" -c constraints.txt -r $(VENV)/requirements-dev.txt
	@touch $@

.PHONY: setup
setup: $(VENV)/.installed ## Set up .venv with what semcast needs, and compile

.PHONY: setup-dev
setup-dev: setup $(VENV)/.dev ## The same, with what tests, checks and docs need

.PHONY: demo
demo: setup ## Show what semcast does, in a minute
	@$(BIN)/semcast demo

.PHONY: test
test: setup-dev ## Run the tests: with Spark, live groups, the rest, and the core interpreted, side by side
	@$(BIN)/python tools/together.py $(STREAMS:%="$(MAKE) --no-print-directory %")

.PHONY: test-quick
test-quick: $(VENV)/.dev ## Run fast tests of every room (tests/quick.txt), interpreted, without Spark: 2 minutes
	@$(PURE) $(PYTEST) @tests/quick.txt

.PHONY: test-core
test-core: test-live test-rest test-pure ## Run the tests without Spark; the core's on both builds, compiled and interpreted

.PHONY: test-spark
test-spark: setup-dev
	@echo "== Spark: reads, profiles, analyses, verifies"
	@$(PYTEST) tests/pipeline $(patsubst %,--ignore=%,$(JOBS_TESTS))

.PHONY: test-jobs
test-jobs: setup-dev
	@echo "== Spark: plans, sweeps, streams, clusters, the demo"
	@$(PYTEST_TWICE) $(JOBS_TESTS)

.PHONY: test-live
test-live: setup-dev
	@echo "== live groups, compiled"
	@$(PYTEST_TWICE) $(LIVE_TESTS)

.PHONY: test-rest
test-rest: setup-dev
	@echo "== everything but Spark and live groups, compiled"
	@$(PYTEST) --ignore=tests/pipeline $(patsubst %,--ignore=%,$(JOBS_TESTS) $(LIVE_TESTS))

.PHONY: test-pure
test-pure: setup-dev
	@echo "== the core, interpreted"
	@$(PURE) $(PYTEST) tests/obsolescence tests/wire tests/protocol tests/sim/test_scheduler.py tests/sim/test_network.py \
		tests/sim/test_faults.py tests/sim/test_host.py tests/test_build.py

.PHONY: check
check: $(VENV)/.dev ## Lint, types, import order
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(PURE) $(BIN)/mypy
	@$(PURE) $(BIN)/lint-imports

.PHONY: coverage
coverage: $(VENV)/.dev ## Branch coverage of the core (interpreted)
	@$(PURE) $(BIN)/python -m pytest -q --cov --cov-report=term-missing:skip-covered

.PHONY: bench
bench: setup-dev ## Time the hot path, the simulator, a group of 64, stability rounds, gossip, federations
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.simulator
	@$(BIN)/python -m bench.group
	@$(BIN)/python -m bench.stability
	@$(BIN)/python -m bench.epidemic
	@$(BIN)/python -m bench.federation

.PHONY: bench-peers
bench-peers: setup-dev ## semcast beside its peers, in .venv-peers; PEERS="--only zmq,semcast" for a part
	@$(BIN)/python -m bench.peers $(PEERS)

.PHONY: bench-loss
bench-loss: setup-dev ## semcast and pyzmq under loss, and with 2 to 16 receivers; needs root; LOSS="--runs 5"
	@$(BIN)/python -m bench.loss $(LOSS)

.PHONY: bench-flood
bench-flood: setup-dev ## A sealed group under floods from without, beside a process that only burns time; FLOOD="--rounds 3"
	@$(BIN)/python -m bench.flood $(FLOOD)

.PHONY: bench-groups
bench-groups: setup-dev ## What it costs to be in 50 groups at once, beside one; MANY="--groups 200"
	@$(BIN)/python -m bench.groups $(MANY)

.PHONY: bench-membership
bench-membership: setup-dev ## How quickly processes get in, get the state, and go on after others; MEMBERSHIP="--only join"
	@$(BIN)/python -m bench.membership $(MEMBERSHIP)
	@$(if $(MEMBERSHIP),:,$(BIN)/python -m bench.crowd)
	@$(if $(MEMBERSHIP),:,$(BIN)/python -m bench.detection)

.PHONY: bench-overlay
bench-overlay: setup-dev ## 10,000 members form an overlay of partial views, and 80% crash at once; OVERLAY="--members 1000"
	@$(BIN)/python -m bench.overlay $(OVERLAY)
	@$(if $(OVERLAY),:,$(BIN)/python -m bench.gossip_scale)

.PHONY: bench-gossip
bench-gossip: setup-dev ## 40 live processes that gossip, under overload, with eager and with random purging; GOSSIP="--members 20"
	@$(BIN)/python -m bench.gossip --verify $(GOSSIP)

.PHONY: bench-federation
bench-federation: setup-dev ## Messages a second through live trees of 3 and 7 processes, beside a central site and two phases; FEDERATION="--processes 3"
	@$(BIN)/python -m bench.federation $(FEDERATION)

.PHONY: bench-spark
bench-spark: setup-dev ## Verify, analyse and profile 50 million rows, beside DuckDB; SPARK="--rows 10,50,100"
	@$(BIN)/python -m bench.spark $(SPARK)

.PHONY: proof
proof: setup ## Every run of 4 processes and 4 messages, as far as PROOF_SECONDS (3600) go
	@$(BIN)/semcast sim exhaust --messages 4 --processes 4 --seconds $${PROOF_SECONDS:-3600}

.PHONY: explore
explore: setup ## Random groups under random faults, all checked, for EXPLORE_SECONDS (600)
	@$(BIN)/semcast sim explore --seconds $${EXPLORE_SECONDS:-600} --seed $${EXPLORE_SEED:-1} --workers $$(nproc) \
		$${EXPLORE_STABILITY:+--stability $$EXPLORE_STABILITY}

.PHONY: hunt
hunt: setup-dev ## Every broken variant from the first seed on, HUNT_SECONDS (60) each; HUNT="--only rounds"
	@$(BIN)/python -m tests.sim.hunt_all --seconds $${HUNT_SECONDS:-60} $(HUNT)

.PHONY: hunt-federations
hunt-federations: setup-dev ## Live federations on a network in memory, killed and cut off, from SEED=1 on, for SECONDS=600
	@$(BIN)/python -m tests.live.federation_hunt --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1)

.PHONY: soak
soak: setup-dev ## Live groups with slow members and restarts, journals checked, for SOAK_SECONDS (1800)
	@$(BIN)/python -m tests.soak_live --seconds $${SOAK_SECONDS:-1800}

.PHONY: soak-churn
soak-churn: setup-dev ## A live group under churn and loss, journals checked; needs root; SECONDS=300 SEED=1 CHURN="--feeds"
	@$(BIN)/python -m tests.soak_churn --seconds $(or $(SECONDS),300) --seed $(or $(SEED),1) $(CHURN)

.PHONY: fuzz
fuzz: setup-dev ## Fuzz the decoder, then notes, guided by coverage, for FUZZ_SECONDS (60) each
	@$(INSTALL) "The fuzzer" -c constraints.txt atheris
	@$(PURE) $(BIN)/python tests/fuzz_wire.py -max_total_time=$${FUZZ_SECONDS:-60}
	@$(PURE) $(BIN)/python -m tests.fuzz_notes -max_total_time=$${FUZZ_SECONDS:-60}

.PHONY: docs
docs: setup-dev ## Build the documentation into docs/_build/html
	@$(PURE) $(BIN)/python -m sphinx -q -W -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

.PHONY: settings
settings: $(VENV)/.deps ## Write anew what follows from the table of settings
	@$(PURE) $(BIN)/python tools/settings.py

.PHONY: format
format: $(VENV)/.dev ## Format the code
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format -q .

.PHONY: clean
clean: ## Remove everything that the other targets made
	@rm -rf $(VENV) .venv-peers .venv-bench build docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -prune -exec rm -rf {} +
