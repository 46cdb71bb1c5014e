#!/usr/bin/env bash
# benchmark/arrival: what it refuses, and the tables and the picture that it makes of lines that are given. Usage: arrival_script_test.sh SOURCE BENCH PLAN
# Exit status 77: what it needs is not here. That it measures is not tested here: test/netlab/netlab_test.cc has gcoll_bench in a lab.
set -uo pipefail
source=$1 bench=$2 plan=$3
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

mkdir "$work/programs" "$work/out"
ln -s "$bench" "$work/programs/gcoll_bench"
ln -s "$plan" "$work/programs/gcoll_plan"
arrival() { "$source/benchmark/arrival" --programs "$work/programs" --output "$work/out" "$@" >"$work/text" 2>"$work/err"; }

# refused MESSAGE ARGUMENT...: status 2, and this on one line
refused() {
    local message=$1 status
    shift
    arrival "$@"
    status=$?
    [ $status -eq 2 ] || fail "$*: status $status: $(cat "$work/err")"
    grep -qFx -- "benchmark/arrival: $message" "$work/err" || fail "$*: found '$(cat "$work/err")'; expected '$message'"
}
refused "--fast: no such option; see --help" --fast
refused "--rounds: a value is missing" --rounds
refused "--rounds: is '0'; allowed is 1 to 999" --rounds 0
refused "--hosts: is '1'; allowed is 2 to 250" --hosts 1
refused "--rounds: is '08'; allowed is 1 to 999" --rounds 08
refused "--rate: is '0mbit'; allowed is a rate, as 100mbit, 1gbit" --rate 0mbit
refused "--rate: is '100'; allowed is a rate, as 100mbit, 1gbit" --rate 100
refused "--count: is '64Ki'; allowed are 128Ki 512Ki 1024Ki 2048Ki 4096Ki 8192Ki" --count 512Ki,64Ki
refused "--delays: is '*'; allowed are 0ms 1ms 5ms 10ms 50ms 100ms 500ms 1000ms" --delays '*'
refused "--delays: is '5'; allowed are 0ms 1ms 5ms 10ms 50ms 100ms 500ms 1000ms" --delays 5
refused "--limit: is '120'; allowed is a time with its unit, as 90s, 10m or 2h" --limit 120
refused "--modes: is ''; allowed are one-late rand-late" --modes ''
refused "--congestion: is 'a b'; allowed are letters, digits, - and _" --congestion 'a b'
refused "--programs: no gcoll_bench in /nonexist" --programs /nonexist
mkdir "$work/half" && ln -s "$bench" "$work/half/gcoll_bench"
refused "--programs: no gcoll_plan in $work/half" --programs "$work/half"
refused "--report: nothing was measured in $work/out" --report

# line ROUND CONTESTANT ALGORITHM ELAPSED-US
line() {
    echo "{\"algorithm\":\"$3\",\"ranks\":8,\"bytes\":462848,\"iterations\":2,\"elapsed_us\":$4,\"message_us\":40000,\"contestant\":\"$2\",\"mode\":\"one-late\",\"kfloats\":1024,\"delay\":50,\"round\":$1,\"rate\":\"100mbit\",\"congestion\":\"reno\"}"
}
{
    line 1 ring ring 110000 && line 1 monitor pre_reduced_ring 100000
    line 2 ring ring 100000 && line 2 monitor pre_reduced_ring:ahead=0 80000
    line 3 ring ring 120000 && line 3 monitor ring 120000
    { line 1 ring ring 99000 && line 1 monitor ring 99000; } | sed 's/"kfloats":1024/"kfloats":512/'
} >"$work/out/measured.json"
arrival --report || fail "status $?: $(cat "$work/err")"
refused "--output: found in $work/out: 8 hosts, 100mbit; allowed is what --hosts and --rate say, 4 hosts, 100mbit" --report --hosts 4
refused "--output: found in $work/out: 8 hosts, 100mbit; allowed is what --hosts and --rate say, 8 hosts, 1gbit" --rate 1gbit
refused "--output: found in $work/out: TCP by reno; allowed is what --congestion says, bbr" --congestion bbr
arrival --report || fail "status $?: $(cat "$work/err")"
cat "$work/text"
[ ! -s "$work/err" ] || grep -qFx "benchmark/arrival: no gnuplot, no picture" "$work/err" || fail "$(cat "$work/err")"
diff "$work/text" "$work/out/tables.md" || fail "what is printed is what is written"
grep -q '^8 hosts, links of 100mbit, reno, 3 rounds; a message: 50 us and 86.313 ns a byte\.$' "$work/text" || fail "the heading"
grep -Eq '^\| `ring`, ms \| 110.0 \(100.0 to 120.0\) / 1[01][0-9]\.[0-9] / 115.9 \|$' "$work/text" || fail "the ring of table 3"
grep -Eq '^\| auto, monitor \| 1.10 \(1.00 to 1.25\) / 1\.[01][0-9] / 1.15 `pre_reduced_ring` \|$' "$work/text" || fail "auto in table 3"
grep -Eq '^\| 1024 \(452\) \| 1.10 \(1.00 to 1.25\) / 1\.[01][0-9] / 1.14 `pre_reduced_ring` \|$' "$work/text" || fail "table 4"

# One round more of the ring, and of nobody late one alone: such cells say of how many rounds they are.
{
    line 4 ring ring 100000
    line 1 ring ring 99000 | sed 's/"delay":50/"delay":0/'
    line 1 monitor ring 90000 | sed 's/"delay":50/"delay":0/'
} >>"$work/out/measured.json"
arrival --report || fail "status $?: $(cat "$work/err")"
grep -q ', reno, 4 rounds;' "$work/text" || fail "the heading: $(cat "$work/text")"
grep -Eq '^\| 1024 \(452\) \| 1.10 \(1.10 to 1.10, 1 round\) / 1.00 / 0.96 `ring` \| 1.10 \(1.00 to 1.25, 3 rounds\) /' "$work/text" ||
    fail "the numbers of rounds: $(cat "$work/text")"
if command -v gnuplot >/dev/null; then
    grep -q '1024 Ki floats (452 KiB here), one late' "$work/out/arrival.svg" || fail "no picture of this size"
    cp "$work/out/arrival.svg" "$work/before.svg"
    arrival --report || fail "status $?: $(cat "$work/err")"
    cmp "$work/before.svg" "$work/out/arrival.svg" || fail "the picture is another one each time"
fi
