#!/usr/bin/env bash
# Encoding one text on one thread: plimsoll, and the tokenizers package when the python3 at PYTHON has it.
#   bench/tokenizer.sh TOKENIZER.json TEXT
# BUILD is a release build (default build).
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "wants two files: bench/tokenizer.sh TOKENIZER.json TEXT; not run"
    exit 0
fi
tokenizer=$(realpath "$1")
text=$(realpath "$2")
cd "$(dirname "$0")/.."
build=${BUILD:-build}
python=${PYTHON:-python3}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cc -O2 -std=gnu11 -Iinclude -Isrc bench/tokenizer.c "$build"/libplimsoll.a \
    $(pkg-config --libs jansson libpcre2-8 libutf8proc openblas) -fopenmp -lm -o "$out"
"$out" "$tokenizer" "$text"
if ! "$python" -c 'import tokenizers' 2>/dev/null; then
    echo "tokenizers: not installed for $python; set PYTHON to one that has it"
    exit 0
fi
RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false "$python" - "$tokenizer" "$text" <<'P'
import sys, time
import tokenizers
text = open(sys.argv[2], encoding="utf-8", newline="").read()
size = len(text.encode())
for _ in range(3):
    t = tokenizers.Tokenizer.from_file(sys.argv[1])
    start = time.perf_counter()
    n = len(t.encode(text, add_special_tokens=False).ids)
    took = time.perf_counter() - start
    print(f"tokenizers {tokenizers.__version__}: {n} tokens, {took:.2f} s, {size / took / 1e6:.1f} MB/s")
P
