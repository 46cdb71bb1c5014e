#!/usr/bin/env bash
# test/core/counts_callgrind.sh - limits of the instructions of a run of a cached plan, counted by callgrind.
# Usage: counts_callgrind.sh COUNTS_TURNS. Exits with 77 if valgrind is missing.
set -uo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs=200

command -v valgrind >/dev/null || {
    echo "skipped: needs valgrind (scripts/packages test installs it)"
    exit 77
}
[ "$(uname -m)" = x86_64 ] || {
    echo "skipped: the limits are of x86-64"
    exit 77
}

failed=0
# limit RANKS TRANSPORT BYTES INSTRUCTIONS: checks the instructions of one run of all ranks together, with libraries.
limit() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" --collect-atstart=no --toggle-collect=counts_measured \
        "$program" "$1" "$2" "$3" "$runs" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        exit 1
    }
    local counted
    counted=$(awk '/^(summary|totals):/ { print int($2 / '"$runs"'); exit }' "$work/out")
    printf '%s ranks over %s, %s bytes: %s instructions a run, limit %s\n' "$1" "$2" "$3" "${counted:-none}" "$4"
    [ "${counted:-0}" -gt 0 ] && [ "$counted" -le "$4" ] || failed=1
}

# The limits are the counts of gcc 12 at -O2 and 10%. That allows another compiler, but not one more pass over the data.
limit 1 inproc 4 440
limit 2 inproc 4 6650
limit 2 tcp 4 6400
limit 2 shm 4 5200
limit 4 tcp 4 24500
exit $failed
