# Thin wrappers over setup/ and the CMake presets: `make help` lists them.
SHELL := /bin/bash
PRESET ?= $(if $(CI),ci,cpu)
JOBS ?= $(shell nproc)
CMAKE := build/env/bin/cmake
# Compilations of another clone of the same sources are found again in ccache.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: help setup build demo test asan lint fuzz bench reproduce-offload quality clean
.DEFAULT_GOAL := help

help: ## list what there is
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 28
	@echo '  PRESET=cpu|cuda|asan|ci and JOBS=N may be given; the programs end up in build/bin'

setup: ## system packages, Python environment (only what is missing)
	@setup/setup.sh

build: setup ## set up, then build everything
	@$(CMAKE) --preset $(PRESET)
	@$(CMAKE) --build --preset $(PRESET) --parallel $(JOBS)

demo: setup ## set up, build the programs, train a small pretrained model on real text
	@$(CMAKE) --preset $(PRESET)
	@$(CMAKE) --build --preset $(PRESET) --parallel $(JOBS) --target oomb-plan oomb-train
	@setup/demo.sh

test: build ## set up, build, all tests that this machine can run
	@JOBS=$(JOBS) setup/test.sh $(PRESET)

asan: setup ## the C++ tests of the rooms, but for the slowest, under AddressSanitizer and UBSan in build/asan
	@$(CMAKE) --preset asan
	@$(CMAKE) --build --preset asan --parallel $(JOBS) --target sanitized_tests
	@JOBS=$(JOBS) setup/test.sh asan

lint: ## formatting and static analysis
	@setup/setup.sh --lint
	@$(CMAKE) --preset $(PRESET) >/dev/null
	@JOBS=$(JOBS) build/env/bin/python setup/lint.py build/$(PRESET) $(LINT_MINUTES)

fuzz: ## throw damaged files at every reader, FUZZ_SECONDS each (60)
	@setup/setup.sh --lint
	@JOBS=$(JOBS) setup/fuzz.sh $(or $(FUZZ_SECONDS),60) || [ $$? = 77 ]

bench: setup ## build and run the benchmarks; results in build/bench
	@$(CMAKE) --preset $(PRESET)
	@$(CMAKE) --build --preset $(PRESET) --parallel $(JOBS) --target bench

reproduce-offload: PRESET := $(if $(CI),ci,cuda)
reproduce-offload: setup ## on a GPU: a 7B step with every page on the host, predicted and measured (CONTEXTS=32K,64K)
	@$(CMAKE) --preset $(PRESET)
	@$(CMAKE) --build --preset $(PRESET) --parallel $(JOBS) --target oomb-plan oomb-train oomb-profile copy_hog
	@build/env/bin/python bench/reproduce_offload.py --bin build/bin $(if $(CONTEXTS),--contexts $(CONTEXTS))

quality: PRESET := $(if $(CI),ci,cuda)
quality: setup ## on a GPU: what top-K learns beside dense, local and random pages; ends after MINUTES (9), goes on at the next call
	@$(CMAKE) --preset $(PRESET)
	@$(CMAKE) --build --preset $(PRESET) --parallel $(JOBS) --target oomb-train
	@MINUTES=$(or $(MINUTES),9) bench/quality/all.sh

clean: ## remove build/ (the Python environment lies outside and stays)
	rm -rf build
