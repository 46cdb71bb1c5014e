#!/usr/bin/env bash
# test/core/counts_strace.sh - limits of the system calls of an allreduce over TCP in steady state, counted by strace.
# Usage: counts_strace.sh COUNTS_RANK. Exits with 77 if strace cannot be used.
set -uo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v strace >/dev/null || {
    echo "skipped: needs strace (scripts/packages test installs it)"
    exit 77
}
strace -f -o "$work/try" true 2>"$work/why" || {
    echo "skipped: strace may not watch a process here: $(cat "$work/why")"
    exit 77
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# watch RANKS BYTES RUNS SPIN_US: prints a line "sends sent receives waits others" for each rank: its calls between the two getppid.
# Receives are calls that returned data. Others are calls that an allreduce does not need: locks, memory, the clock, epoll_ctl.
watch() {
    local rank pids=()
    rm -rf "$work/store" "$work"/trace.*
    mkdir "$work/store"
    for ((rank = 0; rank < $1; rank++)); do
        timeout 60 strace -f -o "$work/trace.$rank" "$program" "$rank" "$1" "file:$work/store" "$2" "$3" "$4" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do
        wait "$rank" || fail "a rank ended with status $?"
    done
    for ((rank = 0; rank < $1; rank++)); do
        awk '
            / getppid\(/ { marks++; next }
            marks != 1 || / <unfinished \.\.\.>$/ { next }
            {
                call = $0
                sub(/^[0-9]+ +(<\.\.\. )?/, "", call)
                sub(/[^a-z0-9_].*/, "", call)
                result = $0
                sub(/.*= /, "", result)
                result += 0
            }
            call ~ /^(sendto|sendmsg|writev)$/ { if (result > 0) { sends++; sent += result }; next }
            call ~ /^(recvfrom|recvmsg|readv)$/ { receives += result > 0; next }
            call ~ /^epoll_p?wait2?$/ { waits++; next }
            call != "sched_yield" { others++ }
            END { if (marks != 2) exit 1; print sends + 0, sent + 0, receives + 0, waits + 0, others + 0 }' "$work/trace.$rank" ||
            fail "rank $rank has no beginning and end in its trace"
    done >"$work/counts"
    printf '%s ranks, %s bytes, %s runs, spin_us %s: sends, bytes, receives, waits, others of each rank\n' "$1" "$2" "$3" "$4"
    cat "$work/counts"
}

# holds WHAT CONDITION: checks the line of every rank.
holds() { awk "!($2) { exit 1 }" "$work/counts" || fail "$1: not ($2)"; }

# A message that arrives together with the next one is read with it. A peer that leaves at the end of the last run costs a few
# calls, fewer than one in ten runs.
watch 2 4 200 5000000
holds "a send for each allreduce" '$1 == 200'
holds "no more receives than messages" '$3 <= 201'
holds "no locks, memory, clocks, epoll_ctl" '$5 <= 20'

# Each rank gets two messages a run. A rank that does not spin sleeps at most once for each.
watch 4 4 200 -1
holds "a send for each message" '$1 == 400'
holds "no more receives than messages" '$3 <= 403'
holds "at most one sleep for each message" '$4 <= 408'
holds "no locks, memory, clocks, epoll_ctl" '$5 <= 20'

# Large messages are sent in large pieces, however full the sockets are.
watch 2 16777216 10 0
holds "64 KiB a send at least" '$2 >= 10 * 16777216 && $2 / $1 >= 65536'
