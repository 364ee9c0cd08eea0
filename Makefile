# Every target is one or two lines: what it does lives in a program that can also be run without make.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# the first Python on PATH that is new enough; `make PYTHON=...` names another
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done || true)
BARE = $(or $(PYTHON),$(error no Python 3.11 or newer is on PATH: install one, or name it with `make PYTHON=...`))
VENV := .venv/bin

STACK ?= local

.PHONY: help up down preview ssh-config status stop start restart logs urls browse doctor walls walls-probe password images policy init lock check test e2e golden toolchain clean bench

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# before anything is installed: a rig needs root; another stack's cluster is the operator's
ifeq ($(STACK),local)
up down stop start: needs-root
endif
.PHONY: needs-root
needs-root:
	@test "$$(id -u)" = 0 || { echo "error: the local stack needs root on Linux, for the namespaces and control groups of its rig: run as root, or name a stack of your own cluster with STACK=" >&2; exit 1; }

up: init ## make or update the stack (STACK=local: toolchain, rig, images and all) and print an ssh command that works
	@$(VENV)/python -m tools.stack up --stack $(STACK)

down: init ## destroy the stack, say what it retains; local: remove the rig and that data too (KEEP=1 leaves the rig)
	@$(VENV)/python -m tools.stack down --stack $(STACK)

preview: init ## show what `make up` would change
	@$(VENV)/python -m tools.stack preview --stack $(STACK)

ssh-config: init ## print the ssh_config of the stack's units (UNIT=trainer.lab-a: what its users need, and no other's)
	@$(VENV)/python -m tools.stack ssh-config --stack $(STACK) $(if $(UNIT),--unit $(UNIT))

password: init ## print the password of a tenant's user for its pages: make password TENANT=lab-a (USER=alice: of several)
	@$(VENV)/python -m tools.password "$(TENANT)" --stack $(STACK) $(if $(filter command line,$(origin USER)),--user "$(USER)")

urls: init ## print every page of a stack: indexes, storages, ports of units (TENANT=lab-a: its own; JSON=1: for programs)
	@$(VENV)/python -m tools.urls --stack $(STACK) $(if $(TENANT),--tenant "$(TENANT)") $(if $(JSON),--json)

browse: init ## let a browser of this machine reach the local stack's pages, until Ctrl-C
	@$(VENV)/python -m tools.browse

status: init ## what each unit and storage of a stack does, whether a login works, and why not (JSON=1: for programs)
	@$(VENV)/python -m tools.status --stack $(STACK) $(if $(JSON),--json)

stop: init ## write `running: false` of a unit into the stack file, then `make up`: make stop UNIT=trainer.lab-a
	@$(VENV)/python -m tools.units stop "$(UNIT)" --stack $(STACK)

start: init ## write `running: true` of a unit into the stack file, then `make up`
	@$(VENV)/python -m tools.units start "$(UNIT)" --stack $(STACK)

restart: init ## replace a unit's pod, which ends the work in it, and wait for the new one: make restart UNIT=trainer.lab-a
	@$(VENV)/python -m tools.units restart "$(UNIT)" --stack $(STACK)

logs: init ## print what a unit's program said (CONTAINER=tunnel: another container; FOLLOW=1: and what it says from now on)
	@$(VENV)/python -m tools.units logs "$(UNIT)" --stack $(STACK) $(if $(CONTAINER),--container "$(CONTAINER)") $(if $(FOLLOW),--follow)

walls: init ## print who reaches whom in a stack, computed from its policies (WHY=1: with reasons, JSON=1: for programs)
	@$(VENV)/python -m tools.walls --stack $(STACK) $(if $(WHY),--why) $(if $(JSON),--json)

doctor: init ## say whether the cluster of a stack can carry it and keeps its walls (JSON=1: for programs); before `make up`
	@$(VENV)/python -m tools.doctor --stack $(STACK) $(if $(JSON),--json)

walls-probe: init ## try the walls of a stack's cluster from inside, anew (`make up` does so each time)
	@$(VENV)/python -m tools.probe --stack $(STACK)

images: init ## build our images (PUSH=<registry> pushes them and prints the catalogue for a stack file)
	@$(VENV)/python -m tools.images build $(if $(PUSH),--push $(PUSH))

policy: init ## judge manifests by the law: make policy FILES="a.yaml folder"
	@$(VENV)/python -m policy $(FILES)

golden: init ## write the golden files anew; read the diff
	@UPDATE_GOLDEN=1 $(VENV)/pytest -q tests/components tests/program tests/docs

init: ## make .venv from requirements.lock (does nothing when nothing changed)
	@$(BARE) -m tools.venv

lock: init ## write the locks anew from pyproject.toml: requirements.lock, and programs.lock of the services' tests
	@$(VENV)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml
	@$(VENV)/uv pip compile --quiet --universal --python-version 3.11 --group programs --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --output-file tests/services/programs.lock

check: init ## lint, format and types
	@$(VENV)/ruff check && $(VENV)/ruff format --check && $(VENV)/mypy

test: check ## everything that must hold: lint, types, units, goldens, law, program, and the end-to-end tests on a rig; each phase says how long it took
	@$(VENV)/python -m tools.tests

e2e: init ## the end-to-end tests alone, on rigs of their own
	@$(VENV)/python -m tools.tests e2e

bench: init ## measure what it costs, beside its goals: make bench ONLY="preview login"
	@$(VENV)/python -m bench $(ONLY:%=--only=%)

toolchain: ## build or fetch every program that is missing from the cache
	@$(BARE) -m tools.toolchain

clean: ## remove .venv and caches of Python tools; the toolchain's cache stays
	@rm -rf .venv .venv.lock .venv.log .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage *.egg-info
