# A thin front for CMake.  `make demo` and `make test` set up everything they need.
SHELL := /bin/bash
MODEL ?= share/models/qwen3.8-27b/config.json
FUZZ_SECONDS ?= 60

.PHONY: all setup build demo test check bench fuzz format install dist clean

all: build

setup:
	@scripts/setup

build: setup
	@scripts/build release

demo: build
	@scripts/demo $(MODEL)

test: build
	@scripts/run-tests build

# Format, both compilers with warnings as errors, and the tests under ASan and UBSan.  Needs no card.
check: setup
	@scripts/setup --check
	@scripts/check

bench: build
	@scripts/bench

fuzz: setup
	@scripts/setup --check
	@scripts/fuzz $(FUZZ_SECONDS)

format:
	@git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.inc' | grep -v normal_table.h | xargs clang-format -i

install: build
	@cmake --install build

# A folder that starts anywhere, as dist/plimsoll-<version>-linux-x86_64.tar.gz; with --tests one more for a GPU machine.
dist: setup
	@scripts/dist

clean:
	rm -rf build build-* dist demo-out
