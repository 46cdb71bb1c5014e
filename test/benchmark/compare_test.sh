#!/usr/bin/env bash
# benchmark/compare as it runs without any other library, and with one that is broken. Usage: compare_test.sh SOURCE PROGRAMS
# PROGRAMS is the folder of gcoll_bench, with peers/gcoll_peer_raw below. Exit status 77: what it needs is not here.
# shellcheck disable=SC2016  # what stands in single quotes is jq's, or Markdown
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
ln -s "$programs/peers/gcoll_peer_raw" "$programs/peers/gcoll_peer_shm" "$work/programs/peers/"
shm=$programs/peers/gcoll_peer_shm
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

PATH=$work/bin:$PATH "$source/benchmark/compare" --quick --collective allreduce --limit 20s --only gcoll,gcoll_best,gcoll_shm,gcoll_shm_alloc,raw,mpich,gloo_ring \
    --programs "$work/programs" --output "$work/out" >"$work/text" 2>"$work/err" || fail "status $?: $(cat "$work/err")"
cat "$work/text"

expect "every size in every round" '[.samples[] | select(.contestant | IN("gcoll", "gcoll_shm", "gcoll_shm_alloc", "raw_spin", "raw_block", "raw_sum", "raw_shm")) | [.contestant, .round, .bytes]] | unique | length == 28'
expect "only what was asked for" '[.summary[].bytes] == [4, 65536]'
expect "what is not there is named" '.missing | length == 1 and (.[0] | test("^gloo_ring: .*libgloo-dev"))'
expect "a peer that fails is reported" '[.failures[] | select(.contestant == "mpich" and .bytes == [4, 65536] and (.reason | test("status 3: no fabric here")))] | length == 1'
expect "all are lined up alike" '.settings.lined_up'
grep -q '; the same barrier before each call for all$' "$work/text" || fail "the text does not say so"
expect "nobody else fails" '[.failures[].contestant] | unique == ["mpich"]'
expect "the best is none that lost" '[.summary[] | .results | .gcoll_best.median_us == ([to_entries[] | select(.key | startswith("gcoll_fixed ")) | .value.median_us] | min)] | all'
expect "shared memory has ratios of its own" '[.summary[] | .shm_ratios.raw_shm.median] | length == 2 and all(. > 0)'
expect "memory that peers read has ratios of its own" '[.summary[] | .alloc_ratios.gcoll_shm.median] | length == 2 and all(. > 0)'
expect "the best plain exchange is none with a sum" '[.summary[].results | .raw_best.median_us == ([.raw_spin, .raw_block] | map(.median_us) | min)] | all'
grep -q '| raw, us | / raw | raw + sum, us | / raw + sum |' "$work/out/compare.md" || fail "columns: $(cat "$work/out/compare.md")"
expect "medians of two rounds are their means" '. as $all | [.summary[] | .bytes as $b |
    ([$all.samples[] | select(.contestant == "gcoll" and .bytes == $b) | .p50_us] | add / 2) - .results.gcoll.median_us | . < 0.006 and . > -0.006] | all'
expect "ratios are taken round by round" '. as $all | [.summary[] | .bytes as $b | [range(1; 3) as $r |
    [$all.samples[] | select(.round == $r and .bytes == $b)] | (map(select(.contestant == "gcoll"))[0].p50_us) / (map(select(.contestant == "raw_spin"))[0].p50_us)] |
    add / 2] as $mine | [.summary[].ratios.raw_spin.median] as $theirs | [$mine, $theirs] | transpose | map((.[0] - .[1]) | . < 0.001 and . > -0.001) | all'
grep -q '^failed: mpich, allreduce, 2 ranks, 4, 65536 bytes, in round 1: status 3: no fabric here$' "$work/text" || fail "the failure is not in the text"
grep -q ' failed' "$work/text" || fail "the table does not say that MPICH failed"
[ -s "$work/out/compare.md" ] || fail "no Markdown"
for median in $(jq -r '.summary[].results | .gcoll, .gcoll_best, .raw_spin | .median_us' "$work/out/compare.json"); do
    grep -qE "<td>$median(0|[.]0|[.]00)?</td>" "$work/out/compare.html" || fail "the page does not have $median"
done
grep -q '<dt>not compared</dt><dd>gloo_ring: ' "$work/out/compare.html" || fail "the page does not say who is missing"

# One that hangs at a size keeps what it had, is ended, and is asked for no more than that in the next round.
PATH=$work/bin:$PATH "$source/benchmark/compare" --quick --collective allreduce --limit 2s --only raw_spin,openmpi --time 5ms \
    --programs "$work/programs" --output "$work/out" >"$work/text" 2>"$work/err" || fail "status $?: $(cat "$work/err")"
expect "the time limit is named, once" '[.failures[] | [.contestant, .round, .bytes, .reason]] == [["openmpi", 1, [65536], "status 124: took longer than 2 s"]]'
expect "what it could do goes on" '[.samples[] | select(.contestant == "openmpi") | [.round, .bytes]] == [[1, 4], [2, 4]]'

# With the barrier before each call, all take longer, and the tables say so.
"$source/benchmark/compare" --quick --collective allreduce --bytes 4 --with-barrier --only gcoll,raw_spin \
    --programs "$work/programs" --output "$work/out" >"$work/text" 2>"$work/err" || fail "status $?: $(cat "$work/err")"
expect "the file says so" '.settings | .with_barrier and (.lined_up | not)'
grep -q '; the barrier before each call is timed with it$' "$work/text" || fail "the text does not: $(cat "$work/text")"
grep -q '<dt>timed</dt><dd>with the barrier before each call</dd>' "$work/out/compare.html" || fail "the page does not"
# Then the times of all calls are the whole time that was asked for.
sum=$("$programs/peers/gcoll_peer_raw" --algorithm block --local 2 --bytes 4 --time 20ms --with-barrier 2>"$work/err" | jq '.iterations * .mean_us')
jq -en "$sum > 16000" >/dev/null || fail "calls with their barriers took $sum us together, and the time was 20 ms"

# A barrier of ours before each call, and not the program's: that of another job is seen.
"$programs/peers/gcoll_peer_raw" --algorithm block --local 3 --bytes 4 --time 5ms --line-up "$work/line" >"$work/text" 2>"$work/err" ||
    fail "--line-up: status $?: $(cat "$work/err")"
[ -s "$work/line" ] || fail "--line-up: no file"
start=$(date +%s%N)
"$programs/peers/gcoll_peer_raw" --algorithm block --local 2 --bytes 4,8 --iterations 2 --settle 300ms >"$work/text" 2>"$work/err" ||
    fail "--settle: status $?: $(cat "$work/err")"
[ $(($(date +%s%N) - start)) -ge 300000000 ] || fail "--settle: the run took less"
! "$programs/peers/gcoll_peer_raw" --algorithm block --local 2 --bytes 4 --line-up "$work/line" --with-barrier 2>"$work/err" || fail "both are taken"
grep -q -- '--with-barrier: found with --line-up' "$work/err" || fail "both: $(cat "$work/err")"
printf '\3' >"$work/line"
! "$programs/peers/gcoll_peer_raw" --algorithm block --local 3 --bytes 4 --time 5ms --line-up "$work/line" >"$work/text" 2>"$work/err" ||
    fail "the file of another job is taken"
grep -q -- '--line-up: 4 have come, and the job has 3 ranks' "$work/err" || fail "the file of another job: $(cat "$work/err")"

# refused MESSAGE-PATTERN ARGUMENT...: status 2, and this message on one line, before anything is built, measured or written.
refused() {
    local pattern=$1 status
    shift
    "$source/benchmark/compare" --programs "$work/programs" --output "$work/untouched" "$@" >"$work/text" 2>"$work/err"
    status=$?
    [ $status -eq 2 ] || fail "$*: status $status: $(cat "$work/err")"
    grep -qx -- "compare: $pattern" "$work/err" || fail "$*: found '$(cat "$work/err")'; expected '$pattern'"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "$*: more than one line: $(cat "$work/err")"
    [ ! -e "$work/untouched" ] || fail "$*: something was written"
}
refused "--only: is 'nobody'; allowed is all, or of gcoll,.*raw_spin,.*,gloo, or the groups raw, mpi, gloo" --only gcoll,nobody
refused "--only: is '\*'; allowed is .*" --only '*'
refused "--only: is ''; allowed is all, .*" --only ''
refused "--collective: is 'raw'; allowed is all, or of allreduce,.*,barrier" --collective raw
refused "--collective: is ''; allowed is .*" --collective ''
refused "--ranks: is ''; allowed is whole numbers, .*" --ranks ''
refused "--ranks: is '2,,4'; allowed is .*" --ranks 2,,4
refused "--ranks: is '0'; allowed is .*" --ranks 2,0
refused "--bytes: is ''; allowed is 4, 1Ki, .*" --bytes ''
refused "--bytes: is '4,'; allowed is .*" --bytes 4,
refused "--block-bytes: is '1K'; allowed is .*" --block-bytes 1K
refused "--bytes: is '4x:64:x4'; allowed is .*" --bytes 4x:64:x4
refused "--bytes: is '64:4:x4'; allowed is .*the smaller end first" --bytes 64:4:x4
refused "--time: is '0.0s'; allowed is a time above 0 with its unit, .*" --time 0.0s
refused "--time: is '0.1'; allowed is a time above 0 with its unit, .*" --time 0.1
refused "--limit: is '30'; allowed is a time with its unit, as 90s, 10m or 2h" --limit 30
refused "--rounds: is ''; allowed is whole numbers .*" --rounds ''
refused "--interface: is ''; allowed is .*not empty.*" --interface ''
refused "'extra': unexpected argument; try --help" --quick extra
refused "--fast: unknown flag; try --help" --fast 2
refused "--only: needs a value; try --help" --only
refused "--only: needs a value; try --help" --only --quick
refused "--only: is 'gloo_ring'; allowed is at least one .*" --only gloo_ring --collective barrier
refused "--tables: is '/nonexist'; allowed is a compare.json that can be read" --tables /nonexist
echo "no marks" >"$work/page.md"
refused "--into: is '.*/page.md'; allowed is .*" --into "$work/page.md"
for text in '' '{' '{}' '[1]' '{"summary":[{}],"failures":[],"missing":[],"machine":{"versions":{}},"settings":{}}'; do
    echo "$text" >"$work/other.json"
    refused "--tables: is '.*/other.json'; allowed is a compare.json as this program writes it, whole" --tables "$work/other.json"
done

# Where no exchange applies there is no figure, and one line says so.
none=$("$programs/peers/gcoll_peer_raw" --local 3 --bytes 4Mi --iterations 1 --algorithm spin 2>"$work/err") || fail "status $?: $(cat "$work/err")"
[ -z "$none" ] || fail "three ranks have no equal parts of 4 MiB: $none"
[ "$(cat "$work/err")" = "gcoll_peer_raw: raw_spin: nothing for 4194304 bytes and 3 ranks: no power of two, and no equal parts" ] || fail "$(cat "$work/err")"

# What shared memory costs: every way adds up right, which the program checks itself, also in blocks of uneven lengths.
for way in flags ring:whole:1Ki ring:blocks:4Ki mapped:copy mapped:all mapped:stream; do
    sizes=4,52,1000,70004 && [ $way != flags ] || sizes=4,52
    for p in 2 3; do
        "$shm" --local $p --bytes $sizes --iterations 3 --warmup 1 --algorithm $way >"$work/text" 2>"$work/err" || fail "$way, $p ranks: $(cat "$work/err")"
        [ "$(jq -rs 'map([.algorithm, .ranks, .wrong]) | unique[] | join(" ")' "$work/text")" = "$way $p 0" ] || fail "$way: $(cat "$work/text")"
    done
done
"$shm" --local 2 --bytes 4,6 >"$work/text" 2>"$work/err" && fail "6 bytes are no float32"
grep -qx 'gcoll_peer_shm: --bytes 6: float32 are added up, of 4 bytes each' "$work/err" || fail "$(cat "$work/err")"
"$shm" --local 2 --bytes 60 --algorithm flags >"$work/text" 2>"$work/err" && fail "60 bytes do not fit beside a flag"

# Groups; duplicates count once; what stands before --quick wins over it. With raw alone nothing is compared with gcoll.
compare() { "$source/benchmark/compare" --programs "$work/programs" --output "$work/out" "$@" >"$work/text" 2>"$work/err"; }
compare --bytes 8,4,8,4:8:x2 --rounds 1 --collective all --block-bytes 64 --ranks 2,2 --time .005s --quick --only raw_block,raw,gloo || fail "status $?: $(cat "$work/err")"
expect "the flags before --quick, and each size once" '[.samples[] | [.contestant, .round, .ranks, .bytes // 0]] | sort == [(["raw_block", "raw_shm", "raw_spin"][] as $c | (0, 4, 8) as $b | [$c, 1, 2, $b]), ((4, 8) as $b | ["raw_sum", 1, 2, $b])]'
expect "the group of Gloo is all of it" '[.missing[] | sub(":.*"; "")] == ["gloo_ring", "gloo_ring_chunked", "gloo_halving_doubling", "gloo_bcube", "gloo_new_ring", "gloo_new_bcube", "gloo"]'
! grep -q 'gcoll over it\|p99/p50' "$work/text" || fail "ratios without gcoll: $(cat "$work/text")"
compare --quick --bytes 4 --rounds 1 --only gcoll --time 5ms || fail "status $?: $(cat "$work/err")"
expect "allreduce and barrier" '[.summary[] | [.collective, .bytes]] == [["allreduce", 4], ["barrier", 0]]'
! grep -q 'gcoll over it\|raw_spin ' "$work/text" || fail "ratios to nobody: $(cat "$work/text")"
grep -qx '| bytes | gcoll `auto`, us | p99/p50 |' "$work/out/compare.md" || fail "columns of nobody: $(cat "$work/out/compare.md")"

# The tables of that run again; without anybody left, and with a file that turns out bad late, they stay as they are.
cp "$work/text" "$work/before"
compare --tables "$work/out/compare.json" || fail "status $?: $(cat "$work/err")"
cmp -s "$work/before" "$work/text" || fail "--tables makes other tables: $(cat "$work/err")"
compare --quick --only gloo && fail "nobody was measured, and the status is 0"
grep -q '^compare: nobody is left to be measured$' "$work/err" || fail "it is not said that nobody is left: $(cat "$work/err")"
jq '.summary[0].results.gcoll.median_us = "x"' "$work/out/compare.json" >"$work/other.json"
compare --tables "$work/other.json" && fail "tables of a bad file"
cmp -s "$work/before" "$work/out/compare.txt" || fail "tables were overwritten with nothing"
# The picture of ratios has a line for each library and number of ranks.
printf '#!/bin/sh\ncat "$1" >>"%s/plots"\n' "$work" >"$work/bin/gnuplot"
chmod +x "$work/bin/gnuplot"
PATH=$work/bin:$PATH compare --quick --collective allreduce --bytes 4 --rounds 1 --only gcoll,openmpi_tcp --time 5ms || fail "status $?: $(cat "$work/err")"
grep -q '^set output .*/ratios\.svg' "$work/plots" || fail "no picture of ratios: $(cat "$work/plots")"
grep -q 'plot 1 .*using 1:2 .*title "Open MPI, 2 ranks"' "$work/plots" || fail "Open MPI is not in the picture: $(cat "$work/plots")"
echo "all as it must be"
