#!/usr/bin/env bash
# Products and attention on the CPU beside plain sgemm; BUILD is a release build (default build).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cc -O2 -std=gnu11 -fopenmp -Iinclude -Isrc $(pkg-config --cflags openblas) bench/dense_cpu.c "$build"/libplimsoll.a \
    $(pkg-config --libs jansson openblas) -lm -o "$out"
for threads in 1 "$(nproc)"; do "$out" "$threads"; done
