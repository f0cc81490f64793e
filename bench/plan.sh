#!/usr/bin/env bash
# `plimsoll plan` on the 27 B config: time of a whole run, against starting a process that does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
model=share/models/qwen3.8-27b/config.json
median_ms() {
    for _ in $(seq 21); do
        start=$(date +%s%N)
        "$@" >/dev/null
        echo $(( ($(date +%s%N) - start) / 1000 ))
    done | sort -n | awk 'NR == 11 {printf "%.1f", $1 / 1000}'
}
plan=$(median_ms ./build/plimsoll plan "$model")
line=$(median_ms ./build/plimsoll plan "$model" --card all)
nothing=$(median_ms ./build/plimsoll --version)
echo "plan: $plan ms, load lines of all cards: $line ms, plimsoll --version: $nothing ms (medians of 21)"
