#!/usr/bin/env bash
# benchmark/compare as it runs without any other library, and with one that is broken. Usage: compare_test.sh SOURCE PROGRAMS
# PROGRAMS is the folder of gcoll_bench, with peers/gcoll_peer_raw below. Exit status 77: what it needs is not here.
set -uo pipefail
source=$1 programs=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v jq >/dev/null || {
    echo "skipped: needs jq (scripts/packages test installs it)"
    exit 77
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# expect WHAT JQ-CONDITION
expect() { jq -e "$2" "$work/out/compare.json" >/dev/null || fail "$1: $2 does not hold in $(cat "$work/out/compare.json")"; }

# Our own programs, a stand-in for MPICH that cannot even start, and one for Open MPI that answers 64 KiB too late.
mkdir -p "$work/programs/peers" "$work/bin"
ln -s "$programs/gcoll_bench" "$work/programs/"
ln -s "$programs/peers/gcoll_peer_raw" "$work/programs/peers/"
printf '#!/bin/sh\n' >"$work/programs/peers/gcoll_peer_openmpi"
cp "$work/programs/peers/gcoll_peer_openmpi" "$work/programs/peers/gcoll_peer_mpich"
cat >"$work/bin/mpirun.mpich" <<'END'
#!/bin/sh
echo "no fabric here" >&2
exit 3
END
cat >"$work/bin/mpirun.openmpi" <<'END'
#!/bin/sh
echo '{"program":"openmpi","collective":"allreduce","algorithm":null,"ranks":2,"bytes":4,"iterations":5,"min_us":1,"p50_us":8.00,"p95_us":9,"p99_us":9,"max_us":9,"mean_us":8,"wrong":0}'
case "$*" in *65536*) sleep 100 ;; esac
END
chmod +x "$work"/bin/* "$work"/programs/peers/*

PATH=$work/bin:$PATH "$source/benchmark/compare" --quick --collectives allreduce --limit 20 --only gcoll,gcoll_best,raw_spin,raw_block,mpich,gloo_ring \
    --programs "$work/programs" --output "$work/out" >"$work/text" 2>"$work/err" || fail "status $?: $(cat "$work/err")"
cat "$work/text"

expect "every size in every round" '[.samples[] | select(.contestant | IN("gcoll", "raw_spin", "raw_block")) | [.contestant, .round, .bytes]] | unique | length == 12'
expect "only what was asked for" '[.summary[].bytes] == [4, 65536]'
expect "what is not there is named" '.missing | length == 1 and (.[0] | test("^gloo_ring: .*libgloo-dev"))'
expect "a peer that fails is reported" '[.failures[] | select(.contestant == "mpich" and .bytes == [4, 65536] and (.reason | test("status 3: no fabric here")))] | length == 1'
expect "nobody else fails" '[.failures[].contestant] | unique == ["mpich"]'
expect "the best is none that lost" '[.summary[] | .results | .gcoll_best.median_us == ([to_entries[] | select(.key | startswith("gcoll_fixed ")) | .value.median_us] | min)] | all'
expect "medians of two rounds are their means" '. as $all | [.summary[] | .bytes as $b |
    ([$all.samples[] | select(.contestant == "gcoll" and .bytes == $b) | .p50_us] | add / 2) - .results.gcoll.median_us | . < 0.006 and . > -0.006] | all'
expect "ratios are taken round by round" '. as $all | [.summary[] | .bytes as $b | [range(1; 3) as $r |
    [$all.samples[] | select(.round == $r and .bytes == $b)] | (map(select(.contestant == "gcoll"))[0].p50_us) / (map(select(.contestant == "raw_spin"))[0].p50_us)] |
    add / 2] as $mine | [.summary[].ratios.raw_spin.median] as $theirs | [$mine, $theirs] | transpose | map((.[0] - .[1]) | . < 0.001 and . > -0.001) | all'
grep -q '^failed: mpich, allreduce, 2 ranks, 4, 65536 bytes, in round 1: status 3: no fabric here$' "$work/text" || fail "the failure is not in the text"
grep -q ' failed' "$work/text" || fail "the table does not say that MPICH failed"
[ -s "$work/out/compare.md" ] || fail "no Markdown"

# One that hangs at a size keeps what it had, is ended, and is asked for no more than that in the next round.
PATH=$work/bin:$PATH "$source/benchmark/compare" --quick --collectives allreduce --limit 2 --only raw_spin,openmpi --time 0.005 \
    --programs "$work/programs" --output "$work/out" >"$work/text" 2>"$work/err" || fail "status $?: $(cat "$work/err")"
expect "the time limit is named, once" '[.failures[] | [.contestant, .round, .bytes, .reason]] == [["openmpi", 1, [65536], "status 124: took longer than 2 s"]]'
expect "what it could do goes on" '[.samples[] | select(.contestant == "openmpi") | [.round, .bytes]] == [[1, 4], [2, 4]]'

"$source/benchmark/compare" --only nobody >/dev/null 2>"$work/err"
[ $? -eq 2 ] || fail "an unknown contestant is not refused"
grep -q "unknown 'nobody'" "$work/err" || fail "an unknown contestant is not named"
echo "all as it must be"
