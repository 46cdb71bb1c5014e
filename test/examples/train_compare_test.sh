#!/usr/bin/env bash
# examples/train/compare, with trainings and with times that are known. Usage: train_compare_test.sh COMPARE PROGRAM
set -euo pipefail
compare=$1 program=$2

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$compare" --program "$program" --rounds 2 --ranks 3 --slow 2:50 --only ring,monitor -- --channels 4 --images 24 --epochs 1 --batch 2 \
    >"$place/table"
[ "$(wc -l <"$place/table")" -eq 6 ] || fail "not six lines: $(cat "$place/table")"
for row in 'balanced | ring | `ring`' 'balanced | monitor | `' 'slow 2:50 % | ring | `ring`' 'slow 2:50 % | monitor | `'; do
    [ "$(grep -cF "| $row" "$place/table")" -eq 1 ] || fail "no row for $row: $(cat "$place/table")"
done

# Medians and speedups, by a program whose rounds take known times: ring 4, 2 and 3 s, auto 1, 2 and 2 s, twice as long with a slow rank.
cat >"$place/known" <<'END'
#!/usr/bin/env bash
case "$*" in *ring*) name=ring times=(4 2 3) ;; *) name=auto times=(1 2 2) ;; esac
case "$*" in *--slow*) name=${name}_slow factor=2 ;; *) factor=1 ;; esac
echo x >>"$0.$name"
time=$((factor * ${times[$(wc -l <"$0.$name") - 1]}))
echo "what comes before the last line"
echo "$name off 10 $time 0.5 $((10 * time)) - 0123456789abcdef"
END
chmod +x "$place/known"
"$compare" --program "$place/known" --rounds 3 --ranks 2 --slow 1:10 --only ring,auto >"$place/table"
diff - <(tail -n +3 "$place/table") <<'END' || fail "times that are known give another table"
| balanced | ring | `ring` | 3.00 (2.00 to 4.00) | 0.50 (0.50 to 0.50) | 30.0 (20.0 to 40.0) | 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) |
| balanced | auto | `auto` | 2.00 (1.00 to 2.00) | 0.50 (0.50 to 0.50) | 20.0 (10.0 to 20.0) | 1.500 (1.000 to 4.000) | 1.500 (1.000 to 4.000) |
| slow 1:10 % | ring | `ring_slow` | 6.00 (4.00 to 8.00) | 0.50 (0.50 to 0.50) | 60.0 (40.0 to 80.0) | 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) |
| slow 1:10 % | auto | `auto_slow` | 4.00 (2.00 to 4.00) | 0.50 (0.50 to 0.50) | 40.0 (20.0 to 40.0) | 1.500 (1.000 to 4.000) | 1.500 (1.000 to 4.000) |
END

refused() { # TEXT FLAG...
    local text=$1 status=0
    shift
    "$compare" --program "$program" "$@" >"$place/out" 2>"$place/err" || status=$?
    [ $status -eq 2 ] && grep -qF -- "$text" "$place/err" || fail "$* gives $status: $(cat "$place/err")"
}
refused '--rounds: found' --rounds 0
refused '--slow: found' --slow 1
refused "unknown argument '--bogus'" --bogus
refused 'is not there' --program /nowhere
status=0
"$compare" --program "$program" --rounds 1 --only ring_full -- --images 8 >"$place/out" 2>"$place/err" || status=$?
[ $status -eq 1 ] && grep -qF 'ring_full has failed' "$place/err" || fail "a training that fails gives $status: $(cat "$place/err")"
echo "good: compare"
