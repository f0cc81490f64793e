#!/usr/bin/env bash
# Attention on the card, both engines: TFLOP/s; BUILD is a release build with the CUDA plug-in (default build).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
nvcc -std=c++17 -O2 -D_GNU_SOURCE -DPLIM_HAVE_CUDNN -Iinclude -Isrc -gencode "arch=compute_${ARCH:-90a},code=sm_${ARCH:-90a}" \
    bench/cuda_attention.cu "$build"/libplimsoll.a -Xcompiler -fopenmp $(pkg-config --libs jansson openblas) -ldl -lm -o "$out"
PLIMSOLL_CUDA=${PLIMSOLL_CUDA:-$PWD/$build/libplimsoll_cuda.so} "$out" "$@"
