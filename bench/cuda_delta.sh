#!/usr/bin/env bash
# The gated delta rule and its neighbours on this machine's card, timed; ARCH as nvcc's -gencode wants it.
# BUILD_ONLY=1 FOLDER=somewhere leaves the program there.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${ARCH:-arch=compute_90a,code=sm_90a}
folder=${FOLDER:-$(mktemp -d)}
for file in base/context ops/chunk_table ops/delta_scratch; do
    cc -std=gnu11 -O2 -Iinclude -Isrc -c "src/$file.c" -o "$folder/$(basename "$file").o"
done
nvcc -std=c++17 -O3 -lineinfo -gencode "$arch" -D_GNU_SOURCE -Iinclude -Isrc -o "$folder/cuda_delta" \
    bench/cuda_delta.cu src/ops/cuda/delta{,_solve,_scan_fwd,_output,_scan_bwd,_gradients}.cu \
    src/ops/cuda/{conv_silu,l2norm,gated_norm,decay}.cu "$folder"/{context,chunk_table,delta_scratch}.o
[ -n "${BUILD_ONLY:-}" ] || "$folder/cuda_delta"
