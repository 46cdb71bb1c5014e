#!/usr/bin/env bash
# examples/train/compare with two short trainings of each kind. Usage: train_compare_test.sh COMPARE PROGRAM
set -euo pipefail
compare=$1 program=$2

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$compare" --program "$program" --rounds 2 --ranks 3 --slow 2:50 --only ring,linear --raw "$place/raw" -- \
    --channels 4 --images 24 --epochs 1 --batch 2 >"$place/table"
[ "$(wc -l <"$place/table")" -eq 6 ] || fail "not six lines: $(cat "$place/table")"
for row in 'balanced | ring | `ring`' 'balanced | linear | `linear`' 'slow 2:50 % | ring | `ring`' 'slow 2:50 % | linear | `linear`'; do
    [ "$(grep -cF "| $row | " "$place/table")" -eq 1 ] || fail "no row for $row: $(cat "$place/table")"
done
grep -qF '| 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) |' "$place/table" || fail "ring beside itself is not 1"
[ "$(wc -l <"$place/raw")" -eq 8 ] || fail "not two rounds of four trainings: $(cat "$place/raw")"
[ "$(awk '{print $NF}' "$place/raw" | grep -cE '^[0-9a-f]{16}$')" -eq 8 ] || fail "a line without weights: $(cat "$place/raw")"

# Medians and ratios once more, from the lines that were measured.
ratio=$(awk '$2 != "balanced" {t[$1 $3] = $7} END {a = t["1ring"] / t["1linear"]; b = t["2ring"] / t["2linear"]; printf "%.3f", (a + b) / 2}' "$place/raw")
grep -F '| slow 2:50 % | linear |' "$place/table" | grep -qF "| $ratio (" || fail "the speedup is not $ratio: $(cat "$place/table" "$place/raw")"

# A round that was broken off counts for nothing, and the next ones go on.
awk 'NR <= 3 { $1 = 3; $7 = 9999; print }' "$place/raw" >"$place/broken"
cat "$place/broken" >>"$place/raw"
"$compare" --program "$program" --rounds 1 --ranks 3 --slow 2:50 --only ring,linear --raw "$place/raw" -- \
    --channels 4 --images 24 --epochs 1 --batch 2 >"$place/table" || fail "after a round that was broken off"
[ "$(grep -c '^4 ' "$place/raw")" -eq 4 ] || fail "no fourth round: $(cat "$place/raw")"
[ "$(wc -l <"$place/table")" -eq 6 ] || fail "not six lines: $(cat "$place/table")"
! grep -qE '9999|inf|nan' "$place/table" || fail "the round that was broken off counts: $(cat "$place/table")"

# One rank sends nothing: 0 ms by 0 ms is no fault.
"$compare" --program "$program" --rounds 1 --ranks 1 --slow 0:10 --only ring,linear -- --channels 1 --images 2 --epochs 1 >"$place/table" ||
    fail "one rank"
[ "$(wc -l <"$place/table")" -eq 6 ] || fail "one rank: $(cat "$place/table")"

refused() { # TEXT FLAG...
    local text=$1 status=0
    shift
    "$compare" --program "$program" "$@" >"$place/out" 2>"$place/err" || status=$?
    [ $status -eq 2 ] && grep -qF -- "$text" "$place/err" || fail "$* gives $status: $(cat "$place/err")"
}
refused '--rounds: found' --rounds 0
refused '--ranks: found' --ranks x
refused '--slow: found' --slow 1
refused "unknown argument '--bogus'" --bogus
refused '--rounds: needs a value' --rounds
refused 'is not there' --program /nowhere
status=0
"$compare" --program "$program" --rounds 1 --only ring_full -- --images 8 >"$place/out" 2>"$place/err" || status=$?
[ $status -eq 1 ] && grep -qF 'ring_full has failed' "$place/err" || fail "a training that fails gives $status"
grep -qF 'ring_full' "$place/err" && ! grep -qF 'No such file' "$place/err" || fail "a training that fails says $(cat "$place/err")"
echo "good: compare"
