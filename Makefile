# Counterfoil's commands. Each does all of its own set-up and needs only make, Python 3.11+ with
# venv, git 2.38+ and a package index. Choose the interpreter with PYTHON=python3.12.

PYTHON ?= python3
BIN := .venv/bin
PYTEST_ARGS ?=
BENCH_ARGS ?= --check
export PYTHON

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test quick check test-agents second-plan bench docs format requirements clean

help: ## this list
	@echo "Counterfoil: a durable run ledger and plan runner for AI agents"
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

demo: ## run a plan of seven tasks on a sample repository, and check all that it claims
	@sh scripts/prepare.sh runtime
	@$(BIN)/python -m counterfoil.samples.demo .demo/sample

test: ## every test except those of agent CLIs that are not installed (named as skipped)
	@sh scripts/prepare.sh dev
	@echo "running the tests (two at a time)"
	@$(BIN)/python -m pytest -n 2 -rs $(PYTEST_ARGS)

quick: ## the inner loop: tests that are not slow, under a minute
	@sh scripts/prepare.sh dev
	@$(BIN)/python -m pytest -n 2 -m "not slow and not agents" $(PYTEST_ARGS)

check: ## format, lint, strict types, floors, house rules, generated docs
	@sh scripts/prepare.sh dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/house_rules.py
	$(if $(wildcard scripts/generate_docs.py),$(BIN)/python scripts/generate_docs.py --check)

test-agents: ## drive the real agent CLIs against a scripted model on loopback
	@sh scripts/prepare.sh agents
	@$(BIN)/python -m pytest -n 2 -m agents -rs $(PYTEST_ARGS)

second-plan: ## run a plan on a PyPI project's source distribution (downloads it)
	@sh scripts/prepare.sh dev
	@$(BIN)/python examples/second_plan.py .demo/second-plan

bench: ## measure beside bare SQL, bare git and DBOS, and check the limits
	@sh scripts/prepare.sh bench
	@$(BIN)/python -m bench $(BENCH_ARGS)

docs: ## write the generated parts of the reference again
	@sh scripts/prepare.sh dev
	@$(BIN)/python scripts/generate_docs.py

format: ## format the code and mend what the linter can mend
	@sh scripts/prepare.sh dev
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .

requirements: ## pin the dependencies again (needs uv: on the PATH, or it is installed into .venv)
	@sh scripts/prepare.sh dev
	@PATH="$$PWD/$(BIN):$$PATH" sh scripts/pin.sh

clean: ## remove what these commands made, the environment included
	rm -rf .venv .demo .cache dist build .coverage .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
