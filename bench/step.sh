#!/usr/bin/env bash
# A training step on the CPU beside plain sgemm at its shapes; BUILD is a release build (default build).  Arguments
# go to the program: threads (all cores), runs (5).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cc -O2 -std=gnu11 -fopenmp -Iinclude -Isrc $(pkg-config --cflags openblas) bench/step_cpu.c "$build"/libplimsoll.a \
    $(pkg-config --libs jansson openblas) -ldl -lm -o "$out"
"$out" "$@"
