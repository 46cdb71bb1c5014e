#!/usr/bin/env bash
# Runs examples/backend.c by four processes. Usage: backend_test.sh PROGRAM
# Each rank must say that its sums are right; in the second run rank 0 aborts, and each other must give its reason.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# run JOB [ARGUMENT...]: what each rank wrote lands in $work/JOB.RANK.
run() {
    local job=$1 rank ranks=() failed=0
    shift
    for rank in 0 1 2 3; do
        GCOLL_RANK=$rank GCOLL_SIZE=4 GCOLL_JOB=$job GCOLL_STORE=file:$work/store \
            "$program" "$@" >"$work/$job.$rank" 2>&1 &
        ranks+=($!)
    done
    for rank in "${ranks[@]}"; do
        wait "$rank" || failed=1
    done
    ((failed == 0)) || {
        head "$work/$job".*
        exit 1
    }
}

# expect FILE TEXT
expect() {
    grep -qF "$2" "$work/$1" || {
        echo "expected in $1: $2; it has:"
        cat "$work/$1"
        exit 1
    }
}

mkdir -m 700 "$work/store"
run sums
run stops abort
for rank in 0 1 2 3; do
    expect "sums.$rank" "rank $rank of 4, rank $((rank / 2)) of 2 in its group: all sums are right"
    ((rank == 0)) || expect "stops.$rank" "rank $rank: rank 0 aborted: the user interrupted the training"
done
