# Everything a person does with this repository. `make demo` and `make test` set themselves up in a
# local virtual environment; PYTHON chooses the interpreter.

PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv/$(VERSION)
RUN := $(VENV)/bin/python
# The newest pip understands dependency groups; older ones that come with Python do not.
PIP := $(RUN) -m pip --quiet --disable-pip-version-check
SOURCES := pyproject.toml CMakeLists.txt $(shell find src core -type f -not -name '*.pyc')
CXX_SOURCES := $(shell find core fuzz -name '*.?pp') $(wildcard src/linear_treeshap/engines/cuda/*.cu src/linear_treeshap/engines/cuda/*.h benchmarks/*.cu)
SANITIZED := build/sanitized/$(VERSION)
# FastTreeSHAP 0.1.6 needs an old Python and an old NumPy, so the paper's experiment has an environment of its own.
PAPER_PYTHON ?= python3.11
PAPER := .venv/paper
# Spark, Dask and Ray are heavy, and hold other libraries back: an environment of their own, with the package beside it.
ENGINES := .venv/engines-$(VERSION)
ENGINES_PACKAGE := build/engines/$(VERSION)
# Programs that call shap hold each other's libraries back, too.
DOWNSTREAM := .venv/downstream-$(VERSION)
# A test module runs on one core, because its tests share the models they train. In their own order: modules of few
# and long tests would else be the last ones, when some cores have nothing left to do.
ON_ALL_CORES := --numprocesses=auto --dist=loadfile --no-loadscope-reorder

.PHONY: help demo test test-engines test-downstream test-fasttreeshap test-sanitized test-threads release-check test-gpu zoo-files fuzz fuzz-readers soak docs lint format bench bench-engines bench-paper clean

help:  ## List these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.package $(VENV)/.demo  ## Train a model, explain every row, look at the result
	$(RUN) examples/demo.py

# Libraries train small models on one thread each: more of them would wait, busily, for cores that other tests use.
# (The limit is for LightGBM, which counts the cores itself.)
test: $(VENV)/.package $(VENV)/.test  ## Run the whole test suite
	OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 $(RUN) -m pytest $(ON_ALL_CORES)

# On real engines, each with two workers. An engine that does not start fails.
test-engines: $(ENGINES)/.engines $(ENGINES_PACKAGE)/.package  ## Run what runs on Spark, Dask, Ray and MLflow (needs Java 17)
	ENGINES_MUST_START=1 PYTHONPATH=$(CURDIR)/$(ENGINES_PACKAGE) \
	  $(ENGINES)/bin/python -m pytest -p no:cacheprovider $(ON_ALL_CORES) tests/clusters
	PYSPARK_PYTHON=$(CURDIR)/$(ENGINES)/bin/python PYTHONPATH=$(CURDIR)/$(ENGINES_PACKAGE) \
	  $(ENGINES)/bin/python -m pytest -q -p no:cacheprovider -W ignore \
	  "tests/docs/test_docs.py::test_code_blocks_run[docs/beyond-one-machine.md]"

test-downstream: $(DOWNSTREAM)/.downstream $(ENGINES_PACKAGE)/.package  ## Run programs that call shap, patched and not
	DOWNSTREAM_MUST_BE_THERE=1 PYTHONPATH=$(CURDIR)/$(ENGINES_PACKAGE) \
	  $(DOWNSTREAM)/bin/python -m pytest -p no:cacheprovider tests/downstream

# FastTreeSHAP lives in the environment of the paper's experiment.
test-fasttreeshap: $(PAPER)/.package  ## Run FastTreeSHAP, patched and not
	$(PAPER)/bin/python -m pytest -p no:cacheprovider tests/compat/test_patch_fasttreeshap.py

# The native paths again, with every memory access and every undefined behaviour checked (which is slow:
# nobody can be interrupted within a second there, and calls within calls of sets and pairs take a minute each). Few of
# these tests share anything, and some compile kernels for minutes: each goes to whichever core is free.
test-sanitized: $(SANITIZED)/.package $(VENV)/.test  ## Run the native paths under sanitizers
	LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(SANITIZED) \
	  $(RUN) -m pytest -q -p no:cacheprovider --numprocesses=auto --dist=worksteal \
	  -k "not ctrl_c and not threads_cannot and not (may_explain and (sets or pairs))" \
	  tests/engines/test_kernel.py tests/engines/test_engine.py tests/engines/test_interactions.py \
	  tests/engines/test_background.py tests/engines/test_reentry.py tests/importers/test_records.py \
	  tests/reference/test_paper.py $(addprefix tests/engines/test_device.py::test_,complete_trees chains \
	  a_path_of_more_players_than_shared_memory_holds more_thresholds_than_a_byte_counts) \
	  $(foreach seed,0 3,$(foreach what,device device_clumps device_background, \
	  "tests/engines/test_$(what).py::test_random_models[plain-$(seed)]")) \
	  $(addprefix tests/engines/test_device_background.py::test_,leaves_of_many_players more_thresholds_than_a_byte_counts) \
	  "tests/engines/test_same_bits.py::test_a_large_model_keeps_its_digits_where_rare_leaves_are_huge[features0-baseline]"

# On a machine with a GPU, whose Python has CuPy, pytest, hypothesis and this package; the libraries of models need not
# be there, because `make zoo-files`, elsewhere, writes what is needed of them to build/zoo.
GPU_PYTHON ?= python3
GPU_TESTS := $(addprefix tests/engines/test_,device.py device_clumps.py device_background.py contract.py gpu.py)
SANITIZED_GPU := -k "gpu and (complete or chains or stems or packed or thresholds or random_models or many_players or pinned)"

test-gpu:  ## Run the engine of GPUs on one, then under compute-sanitizer
	$(GPU_PYTHON) -m pytest $(GPU_TESTS) -k gpu
	compute-sanitizer --tool memcheck --error-exitcode 1 $(GPU_PYTHON) -m pytest -q $(GPU_TESTS) $(SANITIZED_GPU)
	compute-sanitizer --tool racecheck --error-exitcode 1 $(GPU_PYTHON) -m pytest -q $(GPU_TESTS) \
	  -k "gpu and (complete or packed or many_players)"

zoo-files: $(VENV)/.package $(VENV)/.test  ## Write the models of the tests to build/zoo, for make test-gpu
	$(RUN) tests/support/zoo_files.py build/zoo

# All steps by default; STEPS="wheels installed" does some of them, VERSIONS="3.13" with these interpreters.
release-check: $(VENV)/.release  ## Build, audit and try the wheels of a release, and the core on other systems
	PATH="$(CURDIR)/$(VENV)/release/bin:$$PATH" $(VENV)/release/bin/python -m release.check $(STEPS)

# Calls of the core from many threads at once, with every access to shared memory checked.
THREADS := build/threads
PROGRAM := cmake -S . -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja

test-threads: $(VENV)/.build  ## Call the core from many threads under ThreadSanitizer
	PATH=$(CURDIR)/$(VENV)/bin:$$PATH $(PROGRAM) -B $(THREADS) -DLTS_THREADS=ON -DLTS_BASELINE=ON -DLTS_SANITIZE=thread
	$(VENV)/bin/cmake --build $(THREADS)
	TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1" $(THREADS)/threads

# How long all fuzzers together take; fractions are fine.
MINUTES ?= 3
HALF = $(shell $(PYTHON) -c 'print($(MINUTES) / 2)')
# Targets compiled by GCC, around the libFuzzer that Atheris brings along.
TARGETS := build/fuzz
LIBFUZZER := $(CURDIR)/$(VENV)/lib/python$(VERSION)/site-packages/libclang_rt.fuzzer_no_main.a
READERS := read_json read_ubjson read_lightgbm

fuzz: $(VENV)/.package $(VENV)/.test $(TARGETS)/CMakeCache.txt  ## Look for wrong values and crashes for MINUTES=3 on all cores
	$(VENV)/bin/cmake --build $(TARGETS)
	$(RUN) -m fuzz --minutes $(HALF)
	$(RUN) -m fuzz.guided --minutes $(HALF)

# Without the target that has all engines, which takes minutes to compile.
fuzz-readers: $(VENV)/.package $(VENV)/.test $(TARGETS)/CMakeCache.txt  ## Read damaged files for MINUTES=3, guided by coverage
	$(VENV)/bin/cmake --build $(TARGETS) --target $(READERS)
	$(RUN) -m fuzz.guided --readers --minutes $(MINUTES)

soak: $(VENV)/.package $(VENV)/.test  ## Mixed calls from 16 threads for MINUTES=3, in memory that must not grow
	$(RUN) -m fuzz.soak --minutes $(MINUTES)

$(TARGETS)/CMakeCache.txt: $(VENV)/.build $(VENV)/.fuzz CMakeLists.txt fuzz/native/programs.cmake
	PATH=$(CURDIR)/$(VENV)/bin:$$PATH $(PROGRAM) -B $(TARGETS) -DLTS_FUZZER=$(LIBFUZZER) -DLTS_SANITIZE=address,undefined

bench: $(VENV)/.package $(VENV)/.bench  ## Measure every case beside every peer at hand (an hour or so)
	$(RUN) -m benchmarks.run --missing
	$(RUN) -m benchmarks.accuracy
	$(RUN) -m benchmarks.tables
	$(RUN) -m benchmarks.figures

bench-paper: $(PAPER)/.package  ## Repeat the paper's experiment and draw its figure (a quarter of an hour)
	$(PAPER)/bin/python -m benchmarks.paper
	$(PAPER)/bin/python -m benchmarks.tables
	$(PAPER)/bin/python -m benchmarks.figures

bench-engines: $(ENGINES)/.engines $(ENGINES_PACKAGE)/.package  ## Measure Spark, Dask and Ray (a quarter of an hour, two cores)
	PYTHONPATH=$(CURDIR)/$(ENGINES_PACKAGE) $(ENGINES)/bin/python -m benchmarks.engines

docs: $(VENV)/.package $(VENV)/.docs  ## Build the documentation site, warnings being errors
	$(RUN) -m sphinx -W --keep-going -n -q -b html docs site
	@echo "The site is in site/index.html"

lint: $(VENV)/.test $(VENV)/.lint  ## Check style, types and spelling
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/clang-format --dry-run --Werror $(CXX_SOURCES)
	$(VENV)/bin/codespell

format: $(VENV)/.lint  ## Put the sources into shape
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .
	$(VENV)/bin/clang-format -i $(CXX_SOURCES)

clean:  ## Remove everything that was made here
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis fuzz-findings

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'

$(VENV)/.build $(VENV)/.demo $(VENV)/.lint $(VENV)/.bench $(VENV)/.docs $(VENV)/.fuzz: $(VENV)/.%: $(VENV)/bin/python pyproject.toml
	$(PIP) install --group $*
	@touch $@

# Some come without what they depend on: xgboost-cpu has the same files as xgboost, and lifelines, which NGBoost
# imports, would keep pandas at 2.
$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(PIP) install --group test
	$(PIP) install --no-deps 'xgboost-distribution>=0.3' 'ngboost>=0.5' 'lifelines>=0.30'
	@touch $@

# Pinned by their hashes, and apart from what the tests use.
$(VENV)/.release: $(VENV)/bin/python release/tools.txt
	$(PYTHON) -m venv $(VENV)/release
	$(VENV)/release/bin/python -m pip --quiet install --require-hashes --only-binary :all: -r release/tools.txt
	@touch $@

# WHEELS names a folder with wheels: then the package is what users get, and nothing is compiled.
ifdef WHEELS
$(VENV)/.package: $(VENV)/bin/python $(wildcard $(WHEELS)/*.whl)
	$(PIP) install --no-index --no-deps --force-reinstall --find-links $(WHEELS) linear-treeshap
	$(PIP) install 'numpy>=1.23' 'narwhals>=1.32'
	@touch $@
else
$(VENV)/.package: $(VENV)/.build $(SOURCES)
	$(PIP) install --no-build-isolation --no-deps --force-reinstall --config-settings=cmake.define.LTS_WERROR=ON \
	  --config-settings=install.strip=false .
	$(PIP) install 'numpy>=1.23' 'narwhals>=1.32'
	@touch $@
endif

$(ENGINES)/.engines: pyproject.toml
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip --quiet install --upgrade 'pip>=25.1'
	$(ENGINES)/bin/python -m pip --quiet install --group engines
	@touch $@

$(DOWNSTREAM)/.downstream: pyproject.toml
	$(PYTHON) -m venv $(DOWNSTREAM)
	$(DOWNSTREAM)/bin/python -m pip --quiet install --upgrade 'pip>=25.1'
	$(DOWNSTREAM)/bin/python -m pip --quiet install --group downstream
	@touch $@

# Built where the tests' own package is built, with the same settings: nothing is compiled twice.
$(ENGINES_PACKAGE)/.package: $(VENV)/.build $(SOURCES)
	$(PIP) install --no-build-isolation --no-deps --upgrade --target $(ENGINES_PACKAGE) \
	  --config-settings=cmake.define.LTS_WERROR=ON --config-settings=install.strip=false .
	@touch $@

$(PAPER)/.peers: pyproject.toml
	$(PAPER_PYTHON) -m venv $(PAPER)
	$(PAPER)/bin/python -m pip --quiet install --upgrade 'pip>=25.1'
	$(PAPER)/bin/python -m pip --quiet install --group build --group paper
	$(PAPER)/bin/python -m pip --quiet install --no-build-isolation --no-deps --no-binary fasttreeshap fasttreeshap==0.1.6
	@touch $@

$(PAPER)/.package: $(PAPER)/.peers $(SOURCES)
	$(PAPER)/bin/python -m pip --quiet install --no-build-isolation --no-deps --force-reinstall \
	  --config-settings=build-dir=build/paper .
	@touch $@

$(SANITIZED)/.package: $(VENV)/.build $(SOURCES)
	$(PIP) install --no-build-isolation --no-deps --upgrade --target $(SANITIZED) \
	  --config-settings=cmake.define.LTS_SANITIZE=address,undefined --config-settings=build-dir=build/sanitized-$(VERSION) .
	@touch $@
