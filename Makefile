# Everything installs into $(VENV), which is made when it is missing. A stamp there remembers what was
# installed from which pyproject.toml and constraints.txt, so that a second run starts at once.

PYTHON ?= python3
VENV ?= .venv
# Engines to install and run in the demo besides NumPy: names, or `all`.
ENGINES ?=
# Whether to run the tests of the R package: 0 leaves them out.
export TEST_R ?= 1
# What they need, from Debian.
R_PACKAGES := r-base-core r-cran-reticulate r-cran-testthat
# Test processes. Each may load several engines, which takes about 2 GB.
WORKERS ?= 2
# How long `make fuzz` looks for programs that an engine gets wrong, and which program it checks again.
MINUTES ?= 10
SEED ?=

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
# The pip that knows dependency groups.
PIP := pip==25.3
# Python compiles the modules that are imported, which are few: to compile all would take most of the time. It keeps
# what it has compiled, even where the environment says that it should not.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt
# What `make dist` needs lies in an environment of its own, without any engine.
DIST_BIN := build/dist-env/bin
# All engines, from the one list of them.
NAMES := $(shell PYTHONPATH=src $(PYTHON) -c 'from backplane.known_engines import ENGINES; print(*ENGINES)')

UNKNOWN := $(filter-out all $(NAMES),$(ENGINES))
$(if $(UNKNOWN),$(error ENGINES has no $(UNKNOWN); there are $(NAMES) all))

# One thread in each test process: the processes are the parallelism. TF counts its own.
TEST_ENV := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 \
	TF_NUM_INTEROP_THREADS=1 TF_CPP_MIN_LOG_LEVEL=2

.DELETE_ON_ERROR:
.PHONY: help demo test test-fast fuzz soak reference generate docs dist oldest keras-releases newcomer pythons release benchmarks accuracy lint format r clean

help:
	@echo 'make demo                       digits with the NumPy engine'
	@echo 'make demo ENGINES="jax torch"   … and with these; ENGINES=all for every one'
	@echo 'make test                       lint, then all tests on all engines'
	@echo 'make test TEST_R=0              … but those of the R package'
	@echo 'make test-fast                  the tests that are not slow'
	@echo 'make fuzz MINUTES=10            random programs on all engines; ENGINES="jax torch" for some'
	@echo 'make fuzz SEED=1234             one of these programs again'
	@echo 'make soak                       long runs: models, calls, deep graphs; ENGINES="jax torch" for some'
	@echo 'make reference                  run conformance, then write docs/reference.md from it'
	@echo 'make generate                   write what is derived: the stub of K, backplane.ENGINE, docs/primitives.md, R'
	@echo 'make docs                       build the documentation site into build/site'
	@echo 'make dist                       build the packages into dist/ and check them'
	@echo 'make release                    everything that a release needs: checks, all tests, the packages in dist/'
	@echo 'make oldest                     tests of NumPy with the oldest dependencies that are allowed'
	@echo 'make keras-releases             programs of Keras 3 with the older releases of Keras, on NumPy'
	@echo 'make newcomer                   Keras 3 in fresh environments with NumPy, PyTorch and ONNX Runtime'
	@echo 'make pythons                    conformance of NumPy on the other Pythons of this machine'
	@echo 'make benchmarks                 time everything (a quarter of an hour), write docs/benchmarks.md'
	@echo 'make accuracy                   measure the functions against exact results (a minute), write them into docs/measurements.md'
	@echo 'make lint                       ruff, mypy, directions of imports, sizes, derived files, results of benchmarks'
	@echo 'make format                     what ruff can put right by itself'
	@echo 'make r                          install R for its tests, where it is missing (Debian)'
	@echo 'make clean                      remove $(VENV) and caches'

# KERAS_HOME: the demo neither reads nor writes the settings of whoever runs it.
demo: $(STAMPS)/examples $(patsubst %,$(STAMPS)/%,$(ENGINES))
	KERAS_HOME=$(VENV)/keras-home KERAS_BACKEND=numpy $(BIN)/python examples/digits.py \
		$(if $(filter all,$(ENGINES)),,$(patsubst %,--backend %,numpy $(filter-out numpy,$(ENGINES))))
	@echo
	@echo 'Next:'
	@printf '  %-46s %s\n' 'make demo ENGINES="jax torch"' 'the same program on other engines' \
		'$(BIN)/python examples/gallery/grad_cam.py' 'a picture: where a network looks' \
		'$(BIN)/backplane docs start' 'a five-minute introduction; without a name: all pages' \
		'$(BIN)/backplane docs keras-3-backend' 'Keras 3 models on any engine' \
		'$(BIN)/backplane explain conv2d' 'what a function does'

test: lint $(if $(filter 0,$(TEST_R)),,r)
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-fast: $(STAMPS)/dev
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow'

fuzz: $(STAMPS)/dev
	PYTHONPATH=src:tests $(TEST_ENV) $(BIN)/python -W ignore -m fuzz --jobs $(WORKERS) --minutes $(MINUTES) \
		$(if $(SEED),--seed $(SEED)) --engine "$(filter-out all,$(ENGINES))"

soak: $(STAMPS)/dev
	PYTHONPATH=src:tests $(TEST_ENV) $(BIN)/python -W ignore -m trust --engine "$(filter-out all,$(ENGINES))"

reference: $(STAMPS)/dev
	mkdir -p build
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow' --record=build/conformance.json \
		tests/conformance tests/documents tests/programs tests/views tests/compile tests/devices tests/mesh/test_layouts.py
	$(BIN)/python scripts/make_reference.py build/conformance.json

generate: $(STAMPS)/dev
	$(BIN)/python scripts/generate.py

# The two variables keep plugins from advertising their successors.
docs: $(STAMPS)/dev
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --quiet
	$(BIN)/python -m pytest -q --engines=numpy tests/documents/test_fragments.py \
		tests/documents/test_pages.py
	@echo 'build/site/index.html'

benchmarks: $(STAMPS)/dev
	$(BIN)/python -m benchmarks

accuracy: $(STAMPS)/dev
	$(TEST_ENV) $(BIN)/python scripts/make_accuracy.py

dist: $(DIST_BIN)/twine
	$(DIST_BIN)/python scripts/make_dist.py

$(DIST_BIN)/twine: pyproject.toml
	$(PYTHON) -m venv build/dist-env
	$(DIST_BIN)/python -m pip install --quiet --disable-pip-version-check '$(PIP)'
	$(DIST_BIN)/python -m pip install --quiet --group dist
	touch $@

# Everything that must hold before the packages are uploaded (docs/releasing.md).
release: test pythons oldest keras-releases newcomer docs dist
	@git diff --quiet HEAD || { echo 'There are changes that are not committed.'; exit 1; }
	@grep -q "^## \[$$($(BIN)/python -c 'import backplane; print(backplane.__version__)')\] - 20" CHANGELOG.md \
		|| { echo 'CHANGELOG.md has no dated section for this version.'; exit 1; }
	@echo 'Ready. Tag the commit, and upload with: $(DIST_BIN)/twine upload dist/*.whl dist/keras_backplane-*.tar.gz'

# The oldest releases of the dependencies that pyproject.toml allows, in an environment of their own. One test
# needs PyTorch, which is not there.
oldest:
	$(PYTHON) -m venv --clear build/oldest
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check -e . \
		$$($(PYTHON) scripts/oldest.py check state) 'hypothesis>=6.100'
	$(TEST_ENV) build/oldest/bin/python -m pytest -q --engines=numpy -m 'not slow' tests/conformance tests/core \
		--deselect tests/core/test_operators.py::test_functions_of_numpy_that_k_lacks

# The older releases of Keras 3 that docs/keras-3-backend.md names.
keras-releases: $(STAMPS)/dev
	$(TEST_ENV) $(BIN)/python scripts/check_keras_releases.py 3.13 3.14

# Keras 3 in fresh environments that hold nothing else.
newcomer: $(STAMPS)/dev
	$(BIN)/python scripts/check_newcomer.py numpy torch cntk

# Every Python that the metadata names and this machine has, but for the one of $(VENV).
pythons:
	$(TEST_ENV) $(PYTHON) scripts/check_pythons.py

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_imports.py
	$(BIN)/python scripts/check_primitives.py
	$(BIN)/python scripts/check_size.py
	$(BIN)/python scripts/generate.py --check

r:
	scripts/install_r.sh $(R_PACKAGES)

format: $(STAMPS)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis

$(STAMPS):
	@echo 'Setting up $(VENV) …'
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $@

# A step of its own: an environment that an older checkout made has an older pip.
$(STAMPS)/$(PIP): | $(STAMPS)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(PIP)'
	@touch $@

$(STAMPS)/examples: pyproject.toml constraints.txt | $(STAMPS)/$(PIP)
	@echo 'Installing Backplane and what its examples need …'
	@$(INSTALL) -e . --group examples
	@touch $@

$(STAMPS)/dev: pyproject.toml constraints.txt | $(STAMPS)/$(PIP)
	@echo 'Installing all engines and the tools of developers (some minutes, a few GB) …'
	@$(INSTALL) -e '.[all,check]' --group dev
	@touch $@

# NumPy comes with the package.
$(STAMPS)/numpy: $(STAMPS)/examples
	touch $@

# The examples' requirements first: two pip runs at once would get in each other's way.
$(patsubst %,$(STAMPS)/%,all $(filter-out numpy,$(NAMES))): $(STAMPS)/%: pyproject.toml constraints.txt | $(STAMPS)/examples
	@echo 'Installing the engine $* …'
	@$(INSTALL) -e '.[$*]'
	@touch $@

# pip runs one at a time, also under `make -j`.
.NOTPARALLEL:
