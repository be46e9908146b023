# Each target sets up what it lacks: on a fresh checkout `make reproduce` is enough.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.PHONY: help setup test reproduce bench docs dist
.DELETE_ON_ERROR:

help:
	@echo "make reproduce   show the kept results, then check them at quick scale -> results/quick/report.html"
	@echo "make test        lint, types and tests"
	@echo "make bench       time greedystep beside other packages -> benchmarks/results/"
	@echo "make docs        build the guides and the reference -> site/index.html"
	@echo "make dist        build the wheel and the sdist -> dist/"
	@echo "make setup       only create .venv, with everything needed for development"

setup: .venv/.dev

test: .venv/.dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright
	.venv/bin/pytest -n auto --dist loadfile

reproduce: .venv/.core
	.venv/bin/greedystep reproduce all --scale quick --out results/quick

bench: .venv-peers/.ready
	.venv-peers/bin/python -m benchmarks envs gym planning returns train --out benchmarks/results

docs: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet

dist: .venv/.dev
	rm -rf dist
	.venv/bin/python -m build --outdir dist .

# An environment is installed again when what it is made from has changed.
.venv/.core: WHAT = .[deep]
.venv/.dev: WHAT = .[dev]
.venv-peers/.ready: WHAT = .[peers]
.venv-docs/.ready: WHAT = .[docs]
# gymnax 1.0 wants an older Gymnasium than the known-good set has.
.venv-peers/.ready: BUT = gymnasium
# `make test JAX=0.11` makes a new environment with another JAX than the known-good set has.
ANOTHER_JAX = $(if $(JAX),-e 's/^(jax|jaxlib)==.*/\1==$(JAX).*/')

.venv/.core .venv/.dev .venv-peers/.ready .venv-docs/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 1; }
	test -x $(@D)/bin/pip || $(PYTHON) -m venv $(@D)
	sed -E -e '/^$(or $(BUT),#)==/d' $(ANOTHER_JAX) constraints.txt >$@.constraints
	$(@D)/bin/pip install --quiet -c $@.constraints -e "$(WHAT)"
	@touch $@
