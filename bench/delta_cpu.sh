#!/usr/bin/env bash
# The delta rule on the CPU, forward and backward, against sgemm; BUILD is a release build (default build).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cc -O2 -std=gnu11 -fopenmp -Iinclude -Isrc $(pkg-config --cflags openblas) bench/delta_cpu.c "$build"/libplimsoll.a \
    $(pkg-config --libs jansson openblas) -lm -o "$out"
for threads in 1 "$(nproc)"; do "$out" "$threads"; done
