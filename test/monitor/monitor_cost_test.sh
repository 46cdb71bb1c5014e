#!/usr/bin/env bash
# benchmark/monitor_cost: two ranks that measure for a moment, and what it refuses. Usage: monitor_cost_test.sh PROGRAM
set -uo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

"$program" 1 2 "file:$work" 1000 5 3 >"$work/other" 2>&1 &
"$program" 0 2 "file:$work" 1000 5 3 >"$work/text" 2>&1 || fail "rank 0: $(cat "$work/text")"
wait $! || fail "rank 1: $(cat "$work/other")"
cat "$work/text"
[ ! -s "$work/other" ] || fail "rank 1 says something: $(cat "$work/other")"
[ "$(head -n 1 "$work/text")" = "2 ranks, 1000 bytes, 5 calls a turn, 3 rounds" ] || fail "the heading"
for name in "monitor / without" "without / without" "monitor, us" "without, us"; do
    grep -Eq "^$name +[0-9]+\.[0-9]{3} +\(quartiles [0-9.]+, [0-9.]+\)$" "$work/text" || fail "no line of $name"
done

# refused MESSAGE ARGUMENT...: status 2, and this
refused() {
    local message=$1 status
    shift
    "$program" "$@" >"$work/text" 2>&1
    status=$?
    [ $status -eq 2 ] || fail "$*: status $status"
    [ "$(cat "$work/text")" = "monitor_cost: $message" ] || fail "$*: $(cat "$work/text")"
}

refused "RANK: is '2'; allowed is a whole number from 0 to 1" 2 2 "file:$work" 8
refused "SIZE: is 'none'; allowed is a whole number from 1 to 1000" 0 none "file:$work" 8
refused "BYTES: is '3'; allowed is a whole number from 4 to 1073741824" 0 1 "file:$work" 3
refused "ROUNDS: is '0'; allowed is a whole number from 1 to 10000" 0 1 "file:$work" 8 1 0
