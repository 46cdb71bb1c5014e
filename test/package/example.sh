#!/usr/bin/env bash
# Runs the example as three ranks. Usage: example.sh PROGRAM
set -euo pipefail
program=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

for rank in 0 1 2; do
    "$program" "$rank" 3 "file:$place/store" >"$place/$rank" &
done
for job in $(jobs -p); do
    wait "$job"
done
for rank in 0 1 2; do
    grep -qx "rank $rank of 3: the sum is 6" "$place/$rank" || {
        echo "FAILED: rank $rank says: $(cat "$place/$rank")" >&2
        exit 1
    }
done
echo "good: ${program##*/}"
