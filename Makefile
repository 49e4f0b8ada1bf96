# The commands of the project. Each first installs what is missing (scripts/setup).

PYTHON := .venv/bin/python
JOBS ?= $(shell nproc)
PYTEST := $(PYTHON) -m pytest -q -n $(JOBS) --dist worksteal
SOURCES = $(shell git ls-files '*.cpp' '*.hpp' '*.h')

.PHONY: build demo test unit unit-asan test-hostile test-asan test-tsan fuzz test-all test-python test-models test-ops static dist test-dist web test-web package docs docs-site coverage bench format lint clean setup debian asan

build: setup  ## build/lithify, build/liblithify.a and .so, and the Python package in python/
	@grep -qs LITHIFY_TORCH:BOOL=ON build/CMakeCache.txt || \
	  cmake -S . -B build -G Ninja -DLITHIFY_WERROR=ON -DLITHIFY_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON) -DLITHIFY_TORCH=ON \
	    -DTorch_DIR=$$($(PYTHON) -c 'import torch; print(torch.utils.cmake_prefix_path)')/Torch
	cmake --build build -j $(JOBS)

setup: debian
	@scripts/setup

debian:
	@scripts/setup debian

demo: build  ## export a few models and run them in ONNX Runtime at several sizes
	$(PYTHON) -m examples.demo

test:  ## everything; what does not need all processors runs beside something that does
	+@$(MAKE) --no-print-directory -j 2 asan setup
	+@$(MAKE) --no-print-directory test-hostile
	+@$(MAKE) --no-print-directory -j 2 unit-asan build
	+@$(MAKE) --no-print-directory test-python

unit: build
	cmake --build build -j $(JOBS) --target lithify_unit
	build/lithify_unit --no-version

build-asan/build.ninja: | debian
	cmake -S . -B build-asan -G Ninja -DLITHIFY_WERROR=ON -DLITHIFY_SANITIZE=ON -DCMAKE_CXX_COMPILER=clang++

asan: debian build-asan/build.ninja
	cmake --build build-asan -j $(JOBS) --target lithify lithify_unit lithify_stress

# These run the program on damaged and hostile files: under the sanitizers, or it would prove little.
HOSTILE := tests/test_claims.py tests/test_cli.py tests/test_onnxfile.py tests/test_pt2.py tests/test_quantized.py

test-asan: unit-asan test-hostile  ## unit tests and hostile files under AddressSanitizer and UndefinedBehaviorSanitizer

unit-asan: asan
	build-asan/lithify_unit --no-version

test-hostile: asan setup
	LITHIFY=build-asan/lithify $(PYTEST) $(HOSTILE) tests/test_capi.py

SECONDS ?= 120
fuzz: build  ## each target of fuzz/ for SECONDS
	@[ -f build-fuzz/build.ninja ] || cmake -S . -B build-fuzz -G Ninja -DLITHIFY_SANITIZE=ON -DLITHIFY_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++
	cmake --build build-fuzz -j $(JOBS) --target fuzz
	fuzz/run $(SECONDS)
	PYTHONPATH=python $(PYTHON) -m fuzz.differential --seconds $(SECONDS)

test-tsan: setup  ## many threads under ThreadSanitizer
	@[ -f build-tsan/build.ninja ] || cmake -S . -B build-tsan -G Ninja -DLITHIFY_WERROR=ON -DLITHIFY_SANITIZE=thread
	cmake --build build-tsan -j $(JOBS) --target lithify lithify_stress
	LITHIFY=build-tsan/lithify $(PYTHON) -m pytest -q tests/test_capi.py

test-all: test test-tsan  ## what takes too long for every day as well
	$(PYTEST) $(HOSTILE)
	$(PYTEST) --every tests/test_cases.py tests/python
	$(PYTEST) --opsets all tests/test_cases.py
	$(MAKE) fuzz SECONDS=1200
	$(MAKE) static
	scripts/setup libtorch
	LIBTORCH=/usr LIBTORCH_STANDARD=17 $(PYTHON) -m pytest -q tests/test_install.py -k libtorch

static: debian  ## build-static/lithify, one file that needs nothing but libc
	python3 scripts/dependencies.py build-dependencies
	cmake -S . -B build-static -G Ninja -DLITHIFY_DEPENDENCIES=build-dependencies
	cmake --build build-static -j $(JOBS) --target lithify
	strip build-static/lithify
	! objdump -p build-static/lithify | grep NEEDED | grep -v -e libc.so -e libm.so -e ld-linux

dist:  ## all artifacts of a release, for all systems, in dist/; TARGETS=linux-x86_64 for some
	@scripts/setup release
	build-dist/venv/bin/python -m release.make $(TARGETS)

test-dist: setup dist  ## runs the artifacts, those for other systems in emulators
	@scripts/setup emulators
	$(PYTHON) -m pytest -q release

web:  ## the page that exports models in a browser, in build-web/page
	@scripts/setup web
	build-web/venv/bin/python scripts/dependencies.py build-dependencies
	@[ -f build-web/build.ninja ] || emcmake cmake -S . -B build-web -G Ninja -DLITHIFY_WERROR=ON -DLITHIFY_OPTIMIZE=-Os \
	  -DLITHIFY_DEPENDENCIES=build-dependencies -DCCACHE=OFF -DMOLD=OFF
	cmake --build build-web -j $(JOBS)

# Compilers order some nodes otherwise, so the page's files are compared with those of a program that clang built.
test-web: setup web build-asan/build.ninja  ## drives the page in Chromium
	@scripts/setup browser
	cmake --build build-asan -j $(JOBS) --target lithify
	$(PYTHON) -m pytest -q web

package: build  ## the Debian package and the tarball, in build/
	cpack --config build/CPackConfig.cmake -B build

test-python: build  ## operator cases, whole models, the command line, the layout
	$(PYTEST) $(HOSTILE:%=--ignore=%) tests

test-models: build  ## forty families of timm and transformers, and all kinds of generative models
	$(PYTEST) tests/families.py tests/llm.py

test-ops: build  ## PyTorch's own operator database, whole: takes an hour
	$(PYTHON) -m tests.opinfo --dtypes float32,int64,bool --jobs $(JOBS) --out docs/opinfo.md

docs: build  ## docs/operators.md, from the rules themselves; the table of docs/llm.md, from small models
	build/lithify ops --markdown > docs/operators.md
	PYTHONPATH=python $(PYTHON) -m tests.llm

docs-site: setup  ## the documentation as a site, in build/site
	@[ -x build/docs-site/bin/mkdocs ] || { $(PYTHON) -m venv build/docs-site && \
	  build/docs-site/bin/pip install -q --disable-pip-version-check -r docs/site/requirements.txt; }
	build/docs-site/bin/mkdocs build --strict -q -f docs/site/mkdocs.yml

coverage: setup  ## lines that the unit tests and the command line run, by folder
	@[ -f build-coverage/build.ninja ] || cmake --preset coverage
	cmake --build build-coverage -j $(JOBS) --target lithify lithify_unit
	build-coverage/lithify_unit --no-version
	LITHIFY=build-coverage/lithify $(PYTEST) tests/test_cli.py tests/test_commands.py tests/test_onnxfile.py
	$(PYTHON) scripts/coverage.py build-coverage

bench: build  ## time and memory against torch.onnx.export
	$(PYTHON) bench/run.py
	$(PYTHON) bench/run.py --live

format: setup
	clang-format -i $(SOURCES)
	.venv/bin/ruff check -q --fix .
	.venv/bin/ruff format -q .

# On unity groups, of which clang-tidy parses the headers once: a fifth of the time. It needs nothing compiled.
lint: setup
	clang-format --dry-run -Werror $(SOURCES)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	@cmake -S . -B build-lint -G Ninja -DCCACHE=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON --log-level=WARNING
	run-clang-tidy -quiet -j $(JOBS) -p build-lint '/lithify_core\.dir/' '$(CURDIR)/src/'

clean:
	rm -rf build build-fuzz build-asan build-tsan build-static build-lint build-coverage build-dist build-dependencies build-web dist
